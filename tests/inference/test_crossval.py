"""Cross-validation against densities computed by hand, and a run that goes on where it stopped."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit, logsumexp

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.errors import FitError, UsageError
from bayescontam.inference import crossval as leaving
from bayescontam.inference.crossval import (
    CrossValidation,
    RefitData,
    RefitTask,
    fold_key,
    kfold,
    predicted,
    refit_without,
    reloo,
    units_of,
)
from bayescontam.inference.posterior import Draws
from bayescontam.inference.predictive import Prediction
from bayescontam.inference.sampling import Sampling
from bayescontam.model.build import build
from bayescontam.model.design import make_design
from bayescontam.specs.registry import load_model
from tests.support.crossval_fits import KEYS, plain_fit, table
from tests.support.given_fits import changed, given_fit
from tests.support.simulated_responses import concept_exposure, logistic


class Sampler:
    """Stands in for the sampler: abilities of every model and benchmark are some constants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop_after: int = 10**9) -> None:
        self.seeds: list[int] = []
        self.seen: list[int] = []
        self.stop_after = stop_after
        monkeypatch.setattr(leaving, "sample", self)

    def __call__(self, built: Any, sampling: Sampling, seed: int, progress: bool) -> Any:
        if len(self.seeds) == self.stop_after:
            raise KeyboardInterrupt
        self.seeds.append(seed)
        self.seen.append(int(built.design.n_trials.sum()))
        rng = np.random.default_rng(0)
        shape = (2, 200, len(built.design.models), len(built.design.benchmarks))
        posterior = xr.Dataset({"theta": (("chain", "draw", "m", "b"), rng.normal(1, 0.5, shape))})
        diverging = np.zeros((2, 200), dtype=bool)
        diverging[0, : len(self.seeds)] = True
        return posterior, xr.Dataset({"diverging": (("chain", "draw"), diverging)})

    def log_mean(self, frame: pd.DataFrame, groups: list[str]) -> pd.Series:
        """Return the log of the mean over draws of the density of each group of responses."""
        rng = np.random.default_rng(0)
        # Labels are in order of first appearance in a table sorted by benchmark and model.
        order = Responses.from_frame(frame)
        models, benchmarks = list(order.models), list(order.benchmarks)
        theta = rng.normal(1, 0.5, (400, len(models), len(benchmarks)))

        def of(part: pd.DataFrame) -> float:
            rows = [(models.index(m), benchmarks.index(b)) for m, b in part[KEYS[:2]].to_numpy()]
            p = np.stack([expit(theta[:, m, b]) for m, b in rows], axis=1)
            density = stats.bernoulli(p).pmf(part["n_correct"].to_numpy())
            return float(np.log(density.prod(axis=1).mean()))

        return pd.Series({key: of(part) for key, part in frame.groupby(groups)})


@pytest.mark.parametrize(
    ("by", "groups", "folds"), [("response", KEYS, 4), ("item", KEYS[1:], 3), ("model", KEYS, 3)]
)
def test_each_unit_has_the_mean_density_of_its_fold(
    monkeypatch: pytest.MonkeyPatch, by: Any, groups: list[str], folds: int
) -> None:
    frame = table()
    sampler = Sampler(monkeypatch)
    found = kfold({"x": plain_fit(frame)}, by, folds, CrossValidation())["x"]
    expected = sampler.log_mean(frame, groups).sort_index()
    np.testing.assert_allclose(found.elpd_i, expected.to_numpy(), rtol=1e-12)
    # Every response was seen by all fits but one.
    assert sum(sampler.seen) == (folds - 1) * len(frame)
    assert len(set(sampler.seeds)) == folds
    assert len(np.unique(found.elpd_i["group"])) == {"response": 24, "item": 8, "model": 3}[by]


def test_rows_in_another_order_give_the_same_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table()
    Sampler(monkeypatch)
    shuffled = frame.sort_values(KEYS).sample(frac=1, random_state=3)
    # The constants stand for models and benchmarks by position: keep their order.
    shuffled = shuffled.sort_values(["benchmark", "model"], kind="stable")
    both = kfold({"x": plain_fit(frame), "y": plain_fit(shuffled)}, "item", 3, CrossValidation())
    np.testing.assert_allclose(both["x"].elpd_i, both["y"].elpd_i, rtol=1e-12)


def test_sampling_of_folds_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    Sampler(monkeypatch)
    found = kfold({"x": plain_fit(table())}, "model", 3, CrossValidation())["x"]
    went = found.elpd_i.attrs
    assert (went["refits"], went["failed"]) == (3, 3)
    assert went["divergences"] == 1 + 2 + 3
    compared = bayescontam.compare({"x": plain_fit(table())}, leave_out="model", folds=3)
    assert "3 of 3 fits that were made again failed their checks" in compared["verdict"][0]


class TestCache:
    """A second run does only what the first one did not finish."""

    def test_an_interrupted_run_goes_on(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        work = CrossValidation(cache=tmp_path / "folds")
        whole = by_folds_with(Sampler(monkeypatch), CrossValidation())
        with pytest.raises(KeyboardInterrupt):
            by_folds_with(Sampler(monkeypatch, stop_after=2), work)
        assert len(list((tmp_path / "folds").iterdir())) == 2
        rest = Sampler(monkeypatch)
        found = by_folds_with(rest, work)
        assert len(rest.seeds) == 2
        np.testing.assert_array_equal(found.elpd_i, whole.elpd_i)
        nothing = Sampler(monkeypatch, stop_after=0)
        np.testing.assert_array_equal(by_folds_with(nothing, work).elpd_i, whole.elpd_i)

    @pytest.mark.parametrize("change", ["seed", "responses", "broken file"])
    def test_what_is_not_the_same_is_made_again(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: str
    ) -> None:
        by_folds_with(Sampler(monkeypatch), CrossValidation(cache=tmp_path))
        again = Sampler(monkeypatch)
        if change == "broken file":
            next(tmp_path.iterdir()).write_text("{", encoding="utf-8")
        seed, data = int(change == "seed"), int(change == "responses")
        by_folds_with(again, CrossValidation(seed=seed, cache=tmp_path), data)
        assert len(again.seeds) == (1 if change == "broken file" else 4)

    def test_contamination_counts_although_the_hash_of_responses_leaves_it_out(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        spec = load_model("single")
        for shift in (0.0, 0.1):
            frame = table().assign(contamination=np.linspace(0, 0.9, 24) + shift)
            source = RefitData(spec, make_design(spec, Responses.from_frame(frame)), Sampling())
            key = fold_key(source, RefitTask("x", np.array([1]), np.array([1]), 1))
            (tmp_path / key).touch()
        assert len(list(tmp_path.iterdir())) == 2


def by_folds_with(_: Sampler, work: CrossValidation, data: int = 0) -> Any:
    return kfold({"x": plain_fit(table(seed=data))}, "response", 4, work)["x"]


def test_only_responses_of_bad_k_are_refitted(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table()
    order = Responses.from_frame(frame).frame
    k = np.where(order["item"].isin(["i2", "i6"]) & (order["model"] == "m1"), 0.9, 0.2)
    sampler = Sampler(monkeypatch)
    found = reloo({"x": plain_fit(frame, k), "y": plain_fit(frame)}, CrossValidation())
    expected = pd.Series(-5.0, index=pd.MultiIndex.from_frame(order[KEYS]))
    for key in [("m1", "a", "i2"), ("m1", "b", "i6")]:
        expected[key] = sampler.log_mean(frame, KEYS)[key]
    np.testing.assert_allclose(found["x"].elpd_i, expected.sort_index().to_numpy(), rtol=1e-12)
    assert sampler.seen == [23, 23]
    assert not found["x"].warning
    assert [found[name].elpd_i.attrs["refits"] for name in "xy"] == [2, 0]
    assert found["x"].p == pytest.approx(24 * -4.0 - found["x"].elpd)
    assert (found["y"].elpd_i == -5.0).all()


def test_too_many_refits_are_refused_before_anything_is_fitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampler = Sampler(monkeypatch)
    with pytest.raises(UsageError, match=r"24 responses of 'x'.*--leave-out response --folds 10"):
        bayescontam.compare({n: plain_fit(table(), np.ones(24)) for n in "xy"}, refit=True)
    assert sampler.seeds == []


def test_fits_whose_files_lack_something_are_refused() -> None:
    frame = table().assign(contamination=np.linspace(0, 1, 24))
    frame = frame.assign(p_duplicate=frame["contamination"])
    spec = changed(load_model("hierarchical"), contamination={"exposure": "latent"})
    fit = given_fit(spec, Responses.from_frame(frame), theta=np.zeros((1, 3, 2)))
    lacking = "what was known of an unsure contamination"
    with pytest.raises(FitError, match=f"'x' cannot be made again from its file.*{lacking}"):
        bayescontam.compare({"x": fit}, leave_out="item")


def test_responses_to_an_item_are_predicted_together_and_their_own_effects_summed_out() -> None:
    """Brute force: a fine grid for each effect, the product over models, the mean over draws."""
    frame = table(models=3, items=4).assign(n_trials=6)
    frame["n_correct"] = np.random.default_rng(1).integers(0, 7, len(frame))
    spec = changed(load_model("hierarchical"), contamination={"form": "none"})
    built = build(spec, Responses.from_frame(frame))
    rng, size = np.random.default_rng(2), 50
    delta, sigma = rng.normal(0, 1, (size, 4)), rng.uniform(0.5, 2, (size, 1))
    draws = Draws(rng.normal(0, 1, (size, 3)), None, delta, np.zeros((size, 12)), sigma)
    units = units_of(built.design, "item")
    rows = np.flatnonzero(units.unit != 2)
    elpd, worth = predicted(Prediction(draws, built), rows, units.unit[rows])
    z = np.linspace(-9, 9, 2001)
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    for place, item in enumerate(np.unique(units.unit[rows])):
        density = np.ones(size)
        for row in np.flatnonzero(units.unit == item):
            design = built.design
            center = draws.theta[:, design.model_unit[row]] - delta[:, design.item[row]]
            p = logistic(center[:, None] + sigma * z)
            density *= stats.binom(6, p).pmf(design.n_correct[row]) @ weight
        assert elpd[place] == pytest.approx(np.log(density.mean()), abs=5e-5)
        assert worth[place] == pytest.approx(density.sum() ** 2 / (density**2).sum(), rel=1e-4)


LEFT = [3, 17, 30]


def test_left_out_densities_are_those_of_a_posterior_without_them_on_a_grid() -> None:
    """One model on one benchmark: two parameters. One response alone, and two together."""
    frame = concept_exposure(seed=11, items=40)
    sampling = Sampling(draws=2000, chains=2)
    design = make_design(load_model("single"), Responses.from_frame(frame))
    source = RefitData(load_model("single"), design, sampling)
    left = refit_without(source, RefitTask("x", np.array(LEFT), np.array([0, 1, 1]), 1))
    d, k = design.contamination, design.n_correct
    assert d is not None
    theta, beta = np.meshgrid(np.linspace(-4, 4, 321), np.linspace(-9, 9, 361), indexing="ij")
    # Contamination is centred at the mean of all responses, held out or not.
    eta = theta[..., None] + beta[..., None] * (d - d.mean())
    density = k * eta - np.logaddexp(0, eta)
    prior = stats.logistic.logpdf(theta) + stats.norm(0, 2).logpdf(beta)
    kept = np.setdiff1d(np.arange(40), LEFT)
    posterior = prior + density[..., kept].sum(axis=-1)
    for unit, rows in enumerate([LEFT[:1], LEFT[1:]]):
        exact = logsumexp(posterior + density[..., rows].sum(axis=-1)) - logsumexp(posterior)
        assert left.elpd[unit] == pytest.approx(exact, abs=0.02)
    assert left.r_hat < 1.02
    assert left.divergences == 0


def test_a_left_out_item_is_as_difficult_as_its_population_has_it() -> None:
    frame = table(models=4, items=30, seed=2).assign(benchmark="b")
    spec = changed(load_model("hierarchical"), contamination={"form": "none"})
    design = make_design(spec, Responses.from_frame(frame))
    source = RefitData(spec, design, Sampling(draws=800, tune=400, chains=2))
    rows = np.flatnonzero(design.item == 7)
    kept: dict[str, xr.Dataset] = {}

    def keep(*arguments: Any, **options: Any) -> Any:
        posterior, statistics = sample(*arguments, **options)
        kept["posterior"] = posterior
        return posterior, statistics

    sample = leaving.sample
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaving, "sample", keep)
        refit_without(source, RefitTask("x", rows, np.zeros(len(rows), dtype=int), 3))
    posterior = kept["posterior"]
    z = posterior["delta"][..., 7] / posterior["sigma_delta"][..., 0]
    # Every fifth draw: NUTS draws of a free parameter are about independent.
    assert stats.kstest(z.to_numpy().ravel()[::5], "norm").pvalue > 0.001
    others = (posterior["delta"] / posterior["sigma_delta"][..., 0]).std(("chain", "draw"))
    assert float(others.drop_isel(item=7).min()) < 0.97 < float(others[7])


def test_a_left_out_model_is_as_able_as_its_population_has_it_on_a_grid() -> None:
    """Four models on one benchmark of items that are all alike: a mean and a spread."""
    right, items = {"m0": 9, "m1": 14, "m2": 18, "m3": 5}, 24
    rows = [(m, "b", f"i{i}", int(i < k), 1) for m, k in right.items() for i in range(items)]
    columns = ["model", "benchmark", "item", "n_correct", "n_trials"]
    spec = changed(
        load_model("hierarchical"), contamination={"form": "none"}, difficulty={"form": "none"}
    )
    sampling = Sampling(draws=3000, chains=2)
    design = make_design(spec, Responses.from_frame(pd.DataFrame(rows, columns=columns)))
    source = RefitData(spec, design, sampling)
    rows_of = np.flatnonzero(design.model == design.models.index("m3"))
    left = refit_without(source, RefitTask("x", rows_of, np.arange(items), 5))
    mu, sigma = np.meshgrid(np.linspace(-6, 6, 241), np.linspace(0.01, 6, 240), indexing="ij")
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    p = expit(mu[..., None] + sigma[..., None] * nodes)
    weights = weights / weights.sum()
    reported = stats.norm(0, 1.5).logpdf(mu) + stats.halfnorm(0, 1).logpdf(sigma)
    for model in ("m0", "m1", "m2"):
        reported = reported + np.log(
            (stats.binom(items, p).pmf(right[model]) * weights).sum(axis=-1)
        )
    posterior = np.exp(reported - logsumexp(reported))
    chance = float((posterior * (p * weights).sum(axis=-1)).sum())
    answers = design.n_correct[rows_of] == 1
    np.testing.assert_allclose(
        left.elpd, np.where(answers, np.log(chance), np.log(1 - chance)), atol=0.02
    )
    assert 0.4 < chance < 0.7
