"""Referenced: truth and estimates reported at one reference contamination, or a refusal."""

import pandas as pd

from bayescontam.calibration.measure import asked
from bayescontam.calibration.plan import Plan
from bayescontam.errors import Fault, SpecError
from bayescontam.inference.design import Design, make_design
from bayescontam.inference.estimands import reference_levels
from bayescontam.names import visible
from bayescontam.responses import Responses
from bayescontam.specs.study import Estimator

TOLD_AT_REFERENCE = {"genuine_ability", "overfitting", "overfitting_fraction", "spillover"}
"""Estimands whose meaning depends on the reference."""
_SAME = 1e-9


def refuse_other_reference(
    plan: Plan, design: Design, estimator: Estimator, responses: Responses
) -> None:
    """Refuse an estimator that would report genuine ability at another contamination.

    What the cleanest items are depends on what is taken for contamination: of a latent
    event it is 0, of the probability of that event the smallest one.
    """
    if estimator.reversed or design.contamination is None or not _matters(plan):
        return
    levels = reference_levels(plan.study.reference, design)
    wanted = pd.Series(levels, index=list(map(str, design.benchmarks)))
    for benchmark, found in _levels(plan, estimator, responses):
        if abs(found - wanted[benchmark]) > _SAME:
            problem = (
                f"the estimator '{visible(estimator.name, 60)}' reports genuine ability at"
                f" contamination {found:.3g} on '{visible(benchmark, 60)}', and the truth is"
                f" reported at {wanted[benchmark]:.3g}; "
            ) + (
                "leave the bootstrap out, which takes each model's smallest contamination"
                if estimator.kind == "bootstrap"
                else "set 'zero' or a number, which is the same for both"
            )
            raise SpecError([Fault(plan.source, problem, column="reference")])


def _matters(plan: Plan) -> bool:
    names = {name.split("_by_")[0] for name in asked(plan)}
    return bool(names & {"estimands", *TOLD_AT_REFERENCE})


def _levels(plan: Plan, estimator: Estimator, responses: Responses) -> list[tuple[str, float]]:
    """Return benchmarks, and contaminations at which an estimator reports genuine ability."""
    if estimator.kind == "bootstrap":
        least = responses.frame.groupby(["model", "benchmark"])["contamination"].min()
        names = least.index.get_level_values("benchmark").astype(str)
        return list(zip(names, least.tolist(), strict=True))
    design = make_design(plan.specs[estimator.name], responses)
    if design.contamination is None:
        return []
    levels = reference_levels(plan.study.reference, design)
    return list(zip(map(str, design.benchmarks), levels.tolist(), strict=True))
