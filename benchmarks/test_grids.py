"""Seconds of a fit by `jax`: tables as grids and gradients alone, against lookups and densities.

The table is that of the study `coverage`: `hierarchical`, 8 models × 2 benchmarks × 400 items.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bayescontam.calibration import jax_sampler as chees
from bayescontam.calibration import jax_sampler as vectors
from bayescontam.calibration.simulators import simulator_of
from bayescontam.inference.reusable import ReusableModel
from bayescontam.specs.registry import load_model
from bayescontam.specs.study import SamplingSpec
from tests.support.small_studies import planned

REPEATS = 5
SAMPLING = SamplingSpec(engine="jax", tune=200)


@pytest.mark.timeout(1800)
def test_grids_and_gradients_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from blackjax.mcmc.hmc import hmc_proposal

    fits = {"as it is": compiled()}
    with monkeypatch.context() as patch:
        patch.setattr(chees, "_proposal", hmc_proposal)
        fits["with densities all the way"] = compiled()
        patch.setattr(vectors, "lay_out", lambda graph: None)
        fits["with lookups too"] = compiled()
    seconds: dict[str, list[float]] = {name: [] for name in fits}
    for seed in range(REPEATS):
        for name, fit in fits.items():
            started = time.process_time()
            fit(seed)
            seconds[name].append(time.process_time() - started)
    typical = {name: float(np.median(each)) for name, each in seconds.items()}
    for name, each in typical.items():
        print(f"\n{name}: {each:.2f} s of the processor, {each / typical['as it is']:.2f} times")
    assert typical["as it is"] < 0.8 * typical["with lookups too"]


def compiled() -> Callable[[int], Any]:
    """Return a function of a seed that samples one table, compiled."""
    from bayescontam.calibration.estimators import JaxSampler

    plan, cell = planned("prior", "hierarchical", models=8, benchmarks=2, items=400)
    table = simulator_of(plan, cell)(0).responses
    engine = JaxSampler(ReusableModel(load_model("hierarchical"), table, False))

    def fit(seed: int) -> Any:
        return engine.draw(table, seed, SAMPLING)

    fit(0)
    return fit
