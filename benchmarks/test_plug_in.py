"""What plugging the mean in costs: bias and coverage where contamination is not known.

Run by ``make bench-all``. Responses are simulated from ``latent_duplicate``, its parameters from
their priors but for the mean slope, which is set; the covariates hold only probabilities.
Each model spec is compiled once and fitted to all data sets.
"""

import os
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit

from bayescontam.data.responses import Responses
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import draw_contamination, stack_draws
from bayescontam.model.build import BuiltModel, build
from bayescontam.specs.registry import load_model
from tests.support.compiled_model import Compiled

DATA_SETS = int(os.environ.get("BAYESCONTAM_DATA_SETS", "200"))
MODELS, ITEMS, SLOPE = 6, 150, 2.5
SPECS = {"plugged in": "hierarchical", "noisy": "noisy_covariate", "latent": "latent_duplicate"}


def probabilities(shared: bool, rng: np.random.Generator) -> np.ndarray:
    """Return what a scan shows about each (model, item), from hardly to nearly sure."""
    p = rng.beta(0.8, 1.2, (MODELS, ITEMS)).clip(0.02, 0.98)
    return np.broadcast_to(p[0], p.shape) if shared else p


def respond(p: np.ndarray, shared: bool, rng: np.random.Generator) -> tuple[Responses, np.ndarray]:
    """Simulate responses; also return the true overfitting fraction of each model."""
    true = (rng.random(ITEMS) < p[0]) if shared else rng.random(p.shape) < p
    sigma_theta, sigma_bm, sigma_delta = abs(rng.normal(0, [1.0, 0.5, 1.0]))
    theta = rng.normal(0, 1.5) + rng.normal(0, sigma_theta, (MODELS, 1))
    slope = SLOPE + rng.normal(0, sigma_bm, (MODELS, 1))
    clean = theta - slope * p.mean() - rng.normal(0, sigma_delta, ITEMS)
    accuracy = expit(clean + slope * true)
    table = pd.DataFrame(
        {
            "model": np.repeat([f"m{m}" for m in range(MODELS)], ITEMS),
            "benchmark": "b",
            "item": np.tile([f"i{i}" for i in range(ITEMS)], MODELS),
            "correct": (rng.random(p.shape) < accuracy).astype(int).ravel(),
            "contamination": p.ravel(),
            "contamination_sd": np.sqrt(p * (1 - p)).ravel(),
            "p_duplicate": p.ravel(),
        }
    )
    fraction = 1 - expit(clean).mean(axis=1) / accuracy.mean(axis=1)
    return Responses.from_frame(table), fraction


def figures(posterior: xr.Dataset, built: BuiltModel, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of the mean slope, and of each model's overfitting fraction."""
    draws = stack_draws(posterior, built.design)
    draws, _ = draw_contamination(draws, built, np.random.default_rng(seed))
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    reported = estimands(draws, built, shape, "zero")["estimands"]["overfitting_fraction_direct"]
    return posterior["beta_bar"].to_numpy().ravel(), reported.to_numpy().reshape(len(draws), -1)


def study(shared: bool) -> Iterator[dict[str, object]]:
    """Yield truth, mean and interval of every quantity, spec and data set."""
    p = probabilities(shared, np.random.default_rng(0))
    specs = {name: load_model(spec) for name, spec in SPECS.items()}
    compiled: dict[str, Compiled] = {}
    for k in range(DATA_SETS):
        responses, fraction = respond(p, shared, np.random.default_rng([k, 1]))
        for name, spec in specs.items():
            built = build(spec, responses)
            if name not in compiled:
                compiled[name] = Compiled(built)
            slope, reported = figures(compiled[name].draw(built, k), built, k)
            for quantity, true, values in (
                ("beta_bar", SLOPE, slope),
                *(
                    ("overfitting_fraction_direct", f, reported[:, m])
                    for m, f in enumerate(fraction)
                ),
            ):
                low, high = np.quantile(values, [0.025, 0.975])
                yield {"contamination": "of items" if shared else "of models and items",
                       "spec": name, "quantity": quantity, "bias": values.mean() - true,
                       "covered": low <= true <= high, "width": high - low}  # fmt: skip


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("shared", [False, True], ids=["pairs", "items"])
def test_uncertain_contamination(shared: bool) -> None:
    table = pd.DataFrame(study(shared)).astype({"covered": float})
    summary = table.groupby(["contamination", "quantity", "spec"], sort=False).mean()
    print("\n" + summary.round(3).to_string())
    kept = summary.droplevel("contamination")
    for quantity in ("beta_bar", "overfitting_fraction_direct"):
        for spec in ("noisy", "latent"):
            assert 0.92 <= kept.loc[(quantity, spec), "covered"] <= 0.98
    if not shared:
        assert kept.loc[("beta_bar", "plugged in"), "bias"] < -0.1 * SLOPE
