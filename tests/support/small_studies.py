"""Small studies of the tests."""

from pathlib import Path
from typing import Any

from bayescontam.calibration.study import Cell, Plan, plan_of
from bayescontam.specs.study import StudySpec

BOOTSTRAP = """
summary = "Nothing has to be compiled."
replicates = 12
simulator.kind = "published"
design.items = 30
grid.boost = [0.0, 0.3]
[[estimators]]
name = "bootstrap"
kind = "bootstrap"
resamples = 100
"""
SINGLE = """
summary = "One model on one benchmark."
replicates = 4
audit = 0.0
simulator = { kind = "prior", model = "single" }
design.items = 20
sampling = { draws = 200, tune = 200 }
gates = { rhat = 1.1, ess = 20.0 }
[[estimators]]
name = "single"
model = "single"
"""
POSTERIOR = SINGLE.replace("design.items = 20\n", "").replace(
    'kind = "prior", model = "single"', 'kind = "posterior", fit = "fit.nc"'
)
"""Tables of the fit in the file ``fit.nc`` of the study's folder."""


def study(kind: str, model: str = "single", *lines: str, **design: float) -> StudySpec:
    """Return a study of one estimator of a model spec."""
    layout = "".join(f"design.{key} = {value}\n" for key, value in design.items())
    head = f'summary = "s"\nreplicates = 4\naudit = 0.0\nsimulator.kind = "{kind}"\n'
    of = "" if kind == "published" else f'simulator.model = "{model}"\n'
    estimator = f'[[estimators]]\nname = "{model}"\nmodel = "{model}"\n'
    return StudySpec.parse(f"{head}{of}{layout}{chr(10).join(lines)}\n{estimator}", "test.toml")


def planned(*arguments: Any, **design: float) -> tuple[Plan, Cell]:
    """Return the plan of such a study, and its only cell."""
    plan = plan_of(study(*arguments, **design), Path())
    return plan, plan.cells[0]
