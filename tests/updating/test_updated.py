"""Updates against posteriors that are known, by quadrature and in closed form."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import integrate, stats
from scipy.special import betaln, expit, logit, logsumexp

from bayescontam.data.responses import Responses
from bayescontam.inference.result import Fit
from bayescontam.inference.summary import DrawWeights, summarise, with_p_best
from bayescontam.model.design import make_design
from bayescontam.specs.registry import load_model
from bayescontam.updating import importance as admission
from bayescontam.updating.importance import Completion, expectation, propose, update_draws
from bayescontam.updating.new_model import NewModel, make_newcomer
from bayescontam.updating.update import join_responses, refit_reason, split_models
from tests.support.given_fits import changed, counts_spec, counts_table, given_fit


def arrived(fit: Fit, new: pd.DataFrame) -> NewModel:
    """Return a newcomer with these responses."""
    old = fit.responses()
    joined = join_responses(fit.spec, old, Responses.from_frame(new))
    return make_newcomer(fit.spec, old, joined)


# One benchmark, counts of different items, no contamination: abilities are Normal(mu, s).

COUNTS = [(12, 40), (20, 40), (31, 40), (9, 25)]
NEW = (33, 40)
MU, SCALE = np.linspace(-4, 4, 161), np.linspace(0.01, 5, 150)
THETA = np.linspace(-8, 8, 400)


def one_model(k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return log evidence and mean accuracy of one model on the grid of mu and scale."""
    likelihood = stats.binom(n, expit(THETA)).pmf(k)
    prior = stats.norm(MU[:, None, None], SCALE[:, None]).pdf(THETA)
    prior /= prior.sum(axis=-1, keepdims=True)  # narrow ones are coarse on the grid
    evidence = (prior * likelihood).sum(axis=-1)
    return np.log(evidence), (prior * likelihood * expit(THETA)).sum(axis=-1) / evidence


@pytest.fixture(scope="module")
def counted() -> tuple[Fit, float, float]:
    """A fit of exact posterior draws, and the joint posterior's answer for the new model."""
    log_prior = stats.norm(0, 1.5).logpdf(MU)[:, None] + stats.halfnorm(0, 1).logpdf(SCALE)
    log_old = log_prior + sum(one_model(k, n)[0] for k, n in COUNTS)
    log_new, accuracy = one_model(*NEW)
    weight = np.exp(log_old + log_new - logsumexp(log_old + log_new))
    rng = np.random.default_rng(1)
    chance = np.exp(log_old - logsumexp(log_old)).ravel()
    drawn = rng.choice(len(chance), 4000, p=chance)
    mu, scale = MU[drawn // len(SCALE)], SCALE[drawn % len(SCALE)]
    theta = np.zeros((len(drawn), len(COUNTS)))
    for m, (k, n) in enumerate(COUNTS):
        density = stats.norm(mu[:, None], scale[:, None]).logpdf(THETA)
        density = density + stats.binom(n, expit(THETA)).logpmf(k)
        density = np.cumsum(np.exp(density - density.max(axis=1, keepdims=True)), axis=1)
        wanted = rng.random(len(drawn)) * density[:, -1]
        theta[:, m] = THETA[(density > wanted[:, None]).argmax(axis=1)]
    spec = counts_spec()
    responses = Responses.from_frame(counts_table(COUNTS, "ABCD"))
    fit = given_fit(spec, responses, mu=mu[:, None], sigma_theta=scale, theta=theta[..., None])
    evidence = logsumexp(log_old + log_new) - logsumexp(log_old)
    return fit, float((weight * accuracy).sum()), float(evidence)


def test_one_benchmark_without_items_agrees_with_quadrature(counted):
    fit, accuracy, log_evidence = counted
    who = arrived(fit, counts_table([NEW], "E"))
    assert refit_reason(who, fit) is None
    updated = update_draws(fit, who, "min_observed", np.random.default_rng(2), 2000)
    assert updated.doubt is None
    own = with_p_best(updated.groups["estimands"]).sel(model="E", drop=True)
    table = summarise(own, 0.95, updated.weights).set_index("quantity")
    row = table.loc["accuracy"]
    assert abs(row["mean"] - accuracy) < 4 * row["mcse_mean"]
    assert 0.0002 < row["mcse_mean"] < 0.004
    # The probability of the counts, whose number of orders is in both.
    assert updated.log_evidence == pytest.approx(log_evidence, abs=0.05)


def test_it_is_better_than_others_as_often_as_its_draws_say(counted):
    fit, _, _ = counted
    updated = update_draws(
        fit, arrived(fit, counts_table([NEW], "E")), "min_observed", np.random.default_rng(2)
    )
    better = updated.p_better().set_index("other")["probability"]
    accuracy = updated.groups["estimands"]["accuracy"].isel(chain=0, benchmark=0)
    above = accuracy.sel(model="E") > accuracy.sel(model="A")
    assert list(better.index) == list("ABCD")
    assert better["A"] == pytest.approx(float((above * updated.weights.share).sum()))
    assert better["A"] > 0.99 > better["C"] > 0.3
    # Models that answered different items have no ranks, and are not compared.
    group = updated.groups["estimands"]
    unranked = group["rank"].where(group["model"] != "B")
    some = replace(updated, groups={"estimands": group.assign(rank=unranked)})
    assert some.p_better().set_index("other")["probability"].equals(better.drop("B"))
    none = group.assign(rank=group["rank"].where(group["model"] != "E"))
    assert replace(updated, groups={"estimands": none}).p_better().empty


def test_general_ability_follows_the_joint_prior():
    """Weighted prior draws of 3 models and a newcomer have the covariance of 4 models."""
    rng = np.random.default_rng(3)
    draws, models, units, top, general, own = 200_000, 3, 2, 1.5, 1.2, 0.3
    mu = rng.normal(0, top, (draws, units))
    a = rng.normal(0, general, (draws, models))
    a -= a.mean(axis=1, keepdims=True)
    theta = mu[:, None] + a[:, :, None] + rng.normal(0, own, (draws, models, units))
    rows = [
        {"model": m, "benchmark": b, "item": f"{b}{i}", "correct": i % 2}
        for m, b, i in itertools.product("ABCD", "xy", range(3))
    ]
    table = pd.DataFrame(rows)
    spec = changed(load_model("hierarchical"), contamination={"form": "none"})
    old = Responses.from_frame(table[table["model"] != "D"])
    fit = given_fit(
        spec, old, mu=mu, theta=theta, sigma_a=np.full(draws, general),
        sigma_theta=np.full(draws, own),
    )  # fmt: skip
    who = arrived(fit, table[table["model"] == "D"])
    expected = expectation(fit.data["posterior"].to_dataset(), who)
    source = rng.standard_normal((draws, expected.loading.shape[2]))
    new = expected.effects(source)
    log_weight = expected.log_density(source) - stats.norm.logpdf(source).sum(axis=1)
    all_theta = np.concatenate([theta, new[:, None]], axis=1).reshape(draws, -1)
    found = np.cov(all_theta.T, aweights=np.exp(log_weight))
    same_model, same_unit = np.eye(models + 1), np.eye(units)
    exact = (
        top**2 * np.kron(np.ones((models + 1, models + 1)), same_unit)
        + general**2 * np.kron(same_model - 1 / (models + 1), np.ones((units, units)))
        + own**2 * np.eye((models + 1) * units)
    )
    assert np.abs(found - exact).max() < 0.08
    without = np.cov(all_theta.T)  # the correction is not for show
    assert np.abs(without - exact).max() > 0.12


# One benchmark with items: the probability of new responses given one draw, by brute force.

GUESS = 0.25
DOSE = np.array([0.1, 0.9, 0.4, 0.7, 0.2])


@pytest.mark.parametrize("sign", ["any", "positive"])
@pytest.mark.parametrize(
    ("trials", "guess", "fresh"),
    [(1, 0.0, []), (1, GUESS, []), (4, 0.0, []), (1, 0.0, [0, 4]), (1, 0.0, range(5))],
)
def test_probability_of_new_responses_agrees_with_brute_force(sign, trials, guess, fresh):
    """Fresh items are those that only the newcomer answered."""
    given, table = brute_parts(trials)
    unmet = (table["model"] == "new") & table["item"].isin([f"i{i}" for i in fresh])
    table.loc[unmet, "item"] = "fresh-" + table["item"]
    spec = changed(load_model("hierarchical" if sign == "any" else "positive"))
    spec = changed(spec, likelihood={"guess": guess})
    old = Responses.from_frame(table[table["model"] != "new"])
    draws = 4000
    fit = given_fit(
        spec, old, **{k: np.repeat(np.asarray(v)[None], draws, 0) for k, v in given.items()}
    )
    who = arrived(fit, table[table["model"] == "new"])
    assert {"u", "delta"} <= who.built.terms.entered
    assert not {"v", "w"} & who.built.terms.entered  # they would widen the slope's prior
    posterior = fit.data["posterior"].to_dataset()
    posterior["delta"] = posterior["delta"] + 0.8 * np.random.default_rng(5).normal(
        size=posterior["delta"].shape
    )
    rng = np.random.default_rng(4)
    ready = Completion.of(posterior, who, rng)
    expected, answers = ready.expected, ready.answers(np.arange(draws))
    _, log_ratio = propose(expected.location, who, expected, answers, rng, 6)
    ratio = np.exp(log_ratio)
    exact = brute_force(given, table, sign, guess)
    error = ratio.std() / np.sqrt(draws)
    assert error < 0.04 * exact
    assert abs(ratio.mean() - exact) < 4 * error + 0.002 * exact


def test_any_number_of_threads_gives_the_same_draws(monkeypatch):
    given, table = brute_parts(1)
    old = Responses.from_frame(table[table["model"] != "new"])
    draws = {k: np.repeat(np.asarray(v)[None], 1000, 0) for k, v in given.items()}
    fit = given_fit(changed(load_model("hierarchical")), old, **draws)
    who = arrived(fit, table[table["model"] == "new"])
    monkeypatch.setattr(admission, "_CHUNK", 2000)  # many parts
    found = []
    for threads in (1, 4):
        monkeypatch.setattr(admission, "_THREADS", threads)
        monkeypatch.setattr(admission, "usable_cores", lambda: 4)
        updated = update_draws(fit, who, "min_observed", np.random.default_rng(7), 500)
        found.append((updated.weights.share, updated.groups["estimands"]))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    xr.testing.assert_identical(found[0][1], found[1][1])
    assert len(np.unique(found[0][1]["accuracy"].sel(model="new"))) == 500


def brute_parts(trials: int) -> tuple[dict, pd.DataFrame]:
    """Return one draw of parameters, and responses of three models and a newcomer."""
    rng = np.random.default_rng(6)
    rows = [
        {
            "model": model, "benchmark": "b", "item": f"i{i}",
            "n_correct": int(rng.integers(0, trials + 1)), "n_trials": trials,
            "contamination": DOSE[i],
        }
        for model in ("A", "B", "C", "new") for i in range(len(DOSE))
        if (model, i) != ("new", 2)
    ]  # fmt: skip
    given = {
        "mu": [0.3], "sigma_theta": 0.8, "theta": [[0.5], [-0.4], [1.0]],
        "beta_bar": 0.6, "beta_model": [0.1, 0.0, -0.2], "beta": [[0.7], [0.6], [0.5]],
        "sigma_bm": 0.9, "sigma_delta": [1.1], "delta": np.zeros(len(DOSE)),
    }  # fmt: skip
    if trials > 1:
        given |= {"sigma_eps": 0.7, "eta": np.zeros(3 * len(DOSE))}
    return given, pd.DataFrame(rows)


def brute_force(given: dict, table: pd.DataFrame, sign: str, guess: float) -> float:
    """Return P(new responses | draw, old responses) by nested rules on grids."""
    old = table[table["model"] != "new"]
    center = old["contamination"].mean()
    delta = np.linspace(-7, 7, 101) * given["sigma_delta"][0] / 1.1
    prior = stats.norm(0, given["sigma_delta"][0]).pdf(delta)
    noise = np.linspace(-6, 6, 31) * given["sigma_eps"] if "sigma_eps" in given else np.zeros(1)
    share = stats.norm(0, given["sigma_eps"]).pdf(noise) if len(noise) > 1 else np.ones(1)
    share = share / share.sum()

    def probability(row: pd.Series, eta: np.ndarray) -> np.ndarray:
        p = guess + (1 - guess) * expit(eta[..., None] + noise)
        k, n = row["n_correct"], row["n_trials"]
        return math.comb(n, k) * (p**k * (1 - p) ** (n - k)) @ share

    theta, level = np.linspace(-4, 5, 41), np.linspace(-3.4, 3.4, 33)
    wide = given["sigma_bm"]
    middle = given["beta_bar"] if sign == "any" else np.log(given["beta_bar"])
    beta = (middle + level * wide) if sign == "any" else np.exp(middle + level * wide)
    density = np.outer(stats.norm(given["mu"][0], given["sigma_theta"]).pdf(theta),
                       stats.norm.pdf(level))  # fmt: skip
    total = np.ones_like(density)
    for _, new in table[table["model"] == "new"].iterrows():
        weight = prior.copy()
        for _, row in old[old["item"] == new["item"]].iterrows():
            m = "ABC".index(row["model"])
            at = given["theta"][m][0] + given["beta"][m][0] * (row["contamination"] - center)
            weight *= probability(row, at - delta)
        eta = theta[:, None] + beta * (new["contamination"] - center)
        total *= (
            np.stack([probability(new, e[:, None] - delta) @ weight for e in eta]) / weight.sum()
        )
    inner = integrate.simpson(density * total, x=level, axis=1)
    return float(integrate.simpson(inner, x=theta))


def test_without_pooling_accuracy_has_its_beta_posterior():
    """Abilities with a Logistic(0, 1) prior: accuracy is uniform before the data."""
    rows = [
        {"model": m, "benchmark": "b", "item": f"i{i}", "correct": int(i < k)}
        for m, k in (("old", 9), ("new", 17)) for i in range(20)
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    spec = changed(load_model("single"), contamination={"form": "none"})
    old = Responses.from_frame(table[table["model"] == "old"])
    theta = logit(np.random.default_rng(8).beta(10, 12, (2000, 1, 1)))
    fit = given_fit(spec, old, theta=theta)
    who = arrived(fit, table[table["model"] == "new"])
    assert refit_reason(who, fit) is None
    updated = update_draws(fit, who, "min_observed", np.random.default_rng(9), 2000)
    own = with_p_best(updated.groups["estimands"]).sel(model="new", drop=True)
    row = summarise(own, 0.95, updated.weights).iloc[0]
    exact = stats.beta(18, 4)
    assert row["mean"] == pytest.approx(exact.mean(), abs=4 * row["mcse_mean"])
    assert row["sd"] == pytest.approx(exact.std(), rel=0.06)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(exact.interval(0.95), abs=0.015)
    assert updated.log_evidence == pytest.approx(betaln(18, 4), abs=0.03)
    better = float(updated.p_better()["probability"].iloc[0])
    draws = np.random.default_rng(10).beta([[18], [10]], [[4], [12]], (2, 200_000))
    assert better == pytest.approx((draws[0] > draws[1]).mean(), abs=0.01)


def test_responses_are_rebuilt_with_names_that_benchmarks_share():
    rows = [
        {"model": m, "benchmark": b, "item": f"q{i}", "n_correct": (i + len(m)) % 2,
         "n_trials": 1 + (i + len(b)) % 2, "contamination": i / 8}
        for b, m, i in itertools.product(["two", "b"], ["z", "aa", "y"], range(5))
    ]  # fmt: skip
    responses = Responses.from_frame(pd.DataFrame(rows[3:]))
    fit = given_fit(load_model("hierarchical"), responses, theta=np.zeros((1, 3, 2)))
    rebuilt = fit.responses()
    keys = ["model", "benchmark", "item"]
    pd.testing.assert_frame_equal(
        rebuilt.frame.sort_values(keys, ignore_index=True),
        responses.frame.sort_values(keys, ignore_index=True)[list(rebuilt.frame)],
    )
    assert (rebuilt.models, rebuilt.benchmarks) == (responses.models, responses.benchmarks)


def test_clean_models_of_a_column_are_rebuilt():
    rows = [
        {"model": m, "benchmark": "b", "item": f"q{i}", "correct": i % 2, "contamination": i / 4,
         "untouched": m in "AC"}
        for m, i in itertools.product("ABC", range(4))
    ]  # fmt: skip
    spec = load_model("anchored")
    block = spec.contamination.model_copy(update={"clean_column": "untouched"})
    spec = spec.model_copy(update={"contamination": block})
    fit = given_fit(spec, Responses.from_frame(pd.DataFrame(rows)), theta=np.zeros((1, 3, 1)))
    rebuilt = make_design(spec, fit.responses())
    assert dict(zip(rebuilt.models, rebuilt.clean.tolist(), strict=True)) == {
        "A": True, "B": False, "C": True,
    }  # fmt: skip


def test_a_model_that_changes_the_terms_needs_a_refit():
    rows = [
        {"model": m, "benchmark": b, "item": f"{b}{i}", "correct": i % 2, "contamination": i / 4}
        for m, b, i in itertools.product("ABC", "xy", range(4))
    ]
    table = pd.DataFrame(rows)
    old = Responses.from_frame(table[table["model"] != "C"])
    fit = given_fit(load_model("hierarchical"), old, theta=np.zeros((1, 2, 2)))
    reason = refit_reason(arrived(fit, table[table["model"] == "C"]), fit)
    assert reason is not None
    assert "other terms: a" in reason


def test_models_are_split_whole():
    table = pd.DataFrame(
        {"model": ["N", "M", "N"], "benchmark": "b", "item": ["1", "1", "2"], "correct": 1}
    )
    parts = split_models(Responses.from_frame(table))
    assert [(part.models, len(part.frame)) for part in parts] == [(("N",), 2), (("M",), 1)]


@pytest.mark.parametrize("size", [1, 2, 401])
def test_draws_that_count_the_same_have_the_interval_of_numpy(size: int) -> None:
    values = np.random.default_rng(3).standard_normal(size)
    weights = DrawWeights(np.full(size, 1 / size), np.arange(size), (1, size))
    found = weights.interval(values, 0.9)
    assert found == pytest.approx(tuple(np.quantile(values, [0.05, 0.95])), abs=1e-12)


def test_weighted_figures_are_those_of_the_target():
    """Normal draws weighed to another Normal: moments, interval and error are known."""
    rng = np.random.default_rng(7)
    size, shift = 20_000, 0.5
    x = rng.standard_normal(size)
    share = np.exp(shift * x)
    weights = DrawWeights(share / share.sum(), np.arange(size), (4, size // 4))
    estimands = xr.Dataset(
        {"accuracy": (("chain", "draw", "benchmark"), x[None, :, None])}, {"benchmark": ["b"]}
    )
    row = summarise(estimands, 0.9, weights).iloc[0]
    assert row["mean"] == pytest.approx(shift, abs=4 * row["mcse_mean"])
    assert row["sd"] == pytest.approx(1, abs=0.03)
    assert row["ci_low"] == pytest.approx(shift - 1.645, abs=0.06)
    assert row["ci_high"] == pytest.approx(shift + 1.645, abs=0.06)
    # Variance of the ratio: E[w²(x-m)²] / E[w]² = exp(shift²) (1 + shift²).
    exact = np.sqrt(np.exp(shift**2) * (1 + shift**2) / size)
    assert row["mcse_mean"] == pytest.approx(exact, rel=0.1)
    assert weights.ess == pytest.approx(size * np.exp(-(shift**2)), rel=0.05)
