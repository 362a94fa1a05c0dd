"""Planned widths against fits: several designs, simulated and sampled by brute force.

Run by ``make bench-all``. Each model is compiled once and fitted to all data sets.
"""

import os
import time
from collections.abc import Mapping

import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm

from bayescontam.data.responses import Responses
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import stack_draws
from bayescontam.model.build import BuiltModel, build
from bayescontam.power.laplace import QUANTITIES
from bayescontam.power.scenario import Assumptions, SampleSizes, Scenario
from bayescontam.specs.registry import load_model
from tests.support.compiled_model import Compiled

DATA_SETS = int(os.environ.get("BAYESCONTAM_DATA_SETS", "30"))
DESIGNS: dict[str, tuple[SampleSizes, str, Mapping[str, float]]] = {
    "1 model, 400 items": (SampleSizes(400), "single", {}),
    "4 models, 2 benchmarks, 200 items": (SampleSizes(200, 4, 2), "hierarchical", {}),
    "2 models, 250 items, 10 generations": (
        SampleSizes(250, 2, 1, 10), "hierarchical", {"sigma_eps": 3.0},
    ),
    "2 models, 150 items, 5 generations": (
        SampleSizes(150, 2, 1, 5), "hierarchical", {"sigma_eps": 1.5},
    ),
    "3 models, 60 items": (SampleSizes(60, 3), "hierarchical", {}),
    "4 models, 1 of them clean, 200 items": (SampleSizes(200, 4, clean=1), "anchored", {}),
}  # fmt: skip


def intervals(posterior: xr.Dataset, built: BuiltModel) -> np.ndarray:
    """Return 95 % intervals of the estimands, (end, quantity, model, benchmark)."""
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    draws = stack_draws(posterior, built.design)
    ratios = estimands(draws, built, shape, "min_observed")["estimands"]
    ends = [ratios[name].quantile([0.025, 0.975], ("chain", "draw")) for name in QUANTITIES]
    return np.stack([end.to_numpy() for end in ends], axis=1)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", DESIGNS)
def test_planned_widths_and_powers_are_those_of_fits(name: str) -> None:
    sizes, spec, spreads = DESIGNS[name]
    scene = Scenario(sizes, Assumptions(spreads=spreads), load_model(spec))
    compiled, planned, sampled, shown, seconds = None, [], [], [], np.zeros(2)
    z = norm.ppf(0.975)
    for replicate in range(DATA_SETS):
        one = scene.simulate(1, replicate)
        started = time.perf_counter()
        mean, sd = scene.fitted(one)
        seconds[0] += time.perf_counter() - started
        table = scene.table.assign(n_correct=one.counts.astype(int))
        built = build(scene.spec, Responses.from_frame(table))
        compiled = compiled or Compiled(built)
        started = time.perf_counter()
        low, high = intervals(compiled.draw(built, replicate), built)[:, :, scene.reported]
        seconds[1] += time.perf_counter() - started
        planned.append(2 * z * sd[:, scene.reported])
        sampled.append(high - low)
        apart = np.abs(mean[2]) > z * sd[2], (low[2] > 0) | (high[2] < 0)
        shown.append([apart[0][scene.reported].mean(), apart[1].mean()])
    ratio = np.mean(planned, axis=(0, 2, 3)) / np.mean(sampled, axis=(0, 2, 3))
    power = np.mean(shown, axis=0)
    ratios = ", ".join(f"{q} {r:.3f}" for q, r in zip(QUANTITIES, ratio, strict=True))
    print(f"\n{name}: planned / sampled width: {ratios}; power {power[0]:.3f} / {power[1]:.3f};"
          f" {seconds[0] / DATA_SETS:.3f} s / {seconds[1] / DATA_SETS:.1f} s")  # fmt: skip
    assert ratio[:2] == pytest.approx([1, 1], abs=0.1)
    assert ratio[2] == pytest.approx(1, abs=0.15)
    assert power[0] == pytest.approx(power[1], abs=0.1)
