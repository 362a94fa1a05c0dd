"""Cross-validation by fits made again. Run by ``make bench-all``."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.inference.convergence import convergence
from bayescontam.inference.crossval import CrossValidation, kfold
from bayescontam.inference.sampling import Sampling, sample_model
from bayescontam.model.build import build, build_design
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.given_fits import changed
from tests.support.simulated_responses import logistic

FEW = {"draws": 400, "tune": 400, "chains": 2}


def table(sigma_delta: float, models: int = 8, items: int = 60, seed: int = 1) -> pd.DataFrame:
    """Draw answers of models to items of some difficulty on two benchmarks."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(0.3, 0.8, (models, 1)) + rng.normal(0, 0.3, (models, 2))
    delta = rng.normal(0, sigma_delta, items)
    benchmark = np.arange(items) % 2
    correct = rng.random((models, items)) < logistic(theta[:, benchmark] - delta)
    m, i = np.indices(correct.shape).reshape(2, -1)
    return pd.DataFrame(
        {
            "model": [f"m{k}" for k in m],
            "benchmark": [f"b{k % 2}" for k in i],
            "item": [f"i{k}" for k in i],
            "correct": correct.ravel().astype(int),
        }
    )


def spec(difficulty: str) -> ModelSpec:
    name = load_model("hierarchical")
    return changed(name, contamination={"form": "none"}, difficulty={"form": difficulty})


@cache
def fitted(items: int) -> dict[str, bayescontam.Fit]:
    frame = table(sigma_delta=1.5, items=items)
    return {form: bayescontam.fit(frame, spec(form), seed=1, **FEW) for form in ("random", "none")}


@pytest.fixture
def fits() -> dict[str, bayescontam.Fit]:
    return fitted(60)


@pytest.mark.parametrize(("by", "items"), [("item", 200), ("model", 60)])
def test_difficulty_helps_to_predict_new_items_and_new_models(by: str, items: int) -> None:
    """Of new items it identifies the spread alone, so that it takes more of them to show."""
    compared = bayescontam.compare(fitted(items), leave_out=by, folds=4).set_index("fit")
    print(compared.drop(columns="verdict").round(3).to_string())
    assert compared.index[0] == "random"
    assert compared["elpd_diff"]["none"] > 3 * compared["diff_se"]["none"]
    assert compared["divergences"].sum() <= 2


def test_folds_of_responses_agree_with_psis_loo(fits: dict[str, bayescontam.Fit]) -> None:
    fit = {"random": fits["random"]}
    found = kfold(fit, "response", 10, CrossValidation())["random"]
    loo = fits["random"].data["loo"]
    print(float(loo["elpd"].sum()), found.elpd, found.elpd_i.attrs)
    # Each of ten folds lacks a tenth of the responses: a little is lost, nothing is won.
    assert -8 < found.elpd - float(loo["elpd"].sum()) < 2
    assert found.p > 0


def test_several_jobs_give_the_same_figures(fits: dict[str, bayescontam.Fit]) -> None:
    fit = {"none": fits["none"]}
    one, two = (
        kfold(fit, "model", 2, CrossValidation(jobs=jobs))["none"].elpd_i for jobs in (1, 2)
    )
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_holding_out_is_the_same_as_a_table_without_the_rows() -> None:
    frame = Responses.from_frame(table(sigma_delta=1.0, models=5, items=60)).frame
    rng = np.random.default_rng(4)
    # Every model and item keeps some responses.
    rows = np.sort(rng.permutation(len(frame))[:50])
    rest = frame.drop(index=rows)
    assert rest["item"].nunique() == 60
    wanted, sampling = spec("random"), Sampling(draws=2000, tune=700, chains=4)
    whole = build(wanted, Responses.from_frame(frame))
    masked = build_design(wanted, whole.design.hold_out(rows))
    without = build(wanted, Responses.from_frame(rest))
    # Items stand in the order in which a table names them.
    order = [without.design.items.index(item) for item in whole.design.items]
    assert without.terms == whole.terms
    first, second = (
        sample_model(built.model, sampling, 3, progress=False)[0] for built in (masked, without)
    )
    for name in ("theta", "mu", "sigma_delta", "sigma_theta", "sigma_a", "delta"):
        one, other = first[name].to_numpy(), second[name].to_numpy()
        z, ratio = differences(one, other[..., order] if name == "delta" else other)
        print(name, np.abs(z).max(), ratio.min(), ratio.max())
        assert np.abs(z).max() < 4.5
        assert np.all((ratio > 0.85) & (ratio < 1.18))


def differences(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return differences of means in Monte Carlo errors, and ratios of deviations."""
    cells = [v.reshape(*v.shape[:2], -1) for v in (first, second)]
    error = np.hypot(*(convergence(c)["mcse_mean"] for c in cells))
    means, deviations = ([f(c, axis=(0, 1)) for c in cells] for f in (np.mean, np.std))
    return (means[0] - means[1]) / error, deviations[0] / deviations[1]
