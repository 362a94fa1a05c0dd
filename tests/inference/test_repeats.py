"""Repeated trials: the model-by-item effect integrated out, and drawn again."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import expit, log_expit, logsumexp

from bayescontam.data.responses import Responses
from bayescontam.inference.estimands import estimands
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.posterior import stack_draws
from bayescontam.inference.predictive import Prediction, Rows, draw_effects, with_own_effects
from bayescontam.inference.sampling import Sampling
from bayescontam.model.build import build, build_design
from bayescontam.model.design import make_design
from bayescontam.model.likelihood import MOST_NUMBERS, Repeats, add_repeats
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.given_fits import changed
from tests.support.made_fit import drawn_from_prior
from tests.support.model_points import PLAIN
from tests.support.simulated_responses import simulate


def on_grid(k, n, guess, center, spread):
    """Return log-odds on a grid, and their joint log density with the counts, in SciPy."""
    eta = np.linspace(center - 12 * spread, center + 12 * spread, 60_001)
    right = np.log(guess + (1 - guess) * expit(eta)) if guess else log_expit(eta)
    counts = k * right + (n - k) * (np.log1p(-guess) + log_expit(-eta))
    return eta, counts + stats.norm(center, spread).logpdf(eta)


@pytest.mark.parametrize(("n", "guess"), [(2, 0.0), (10, 0.0), (10, 0.25), (64, 0.0)])
def test_densities_are_the_integrals(n, guess):
    """Over spreads of 0.02 to 80, and the centres and counts that go with them."""
    rng = np.random.default_rng(n)
    size = 60
    spread = np.exp(rng.uniform(np.log(0.02), np.log(80), size))
    center = rng.normal(0, 2 + 1.5 * spread)
    p = guess + (1 - guess) * expit(center + spread * rng.normal(size=size))
    k = rng.binomial(n, p)
    table = Repeats.of(np.full(size, n), np.full(size, guess))
    assert table is not None
    x, s = pt.dvector(), pt.dvector()
    density = table.log_density(pt.as_tensor(k), x, s, np.arange(size))
    slope = pt.grad(density.sum(), x)
    found, gradient = pytensor.function([x, s], [density, slope], mode="FAST_COMPILE")(
        center, spread
    )
    for i in range(size):
        eta, joint = on_grid(k[i], n, guess, center[i], spread[i])
        exact = logsumexp(joint) + np.log(eta[1] - eta[0])
        assert found[i] == pytest.approx(exact, abs=5e-4)
        mean = np.average(eta, weights=np.exp(joint - joint.max()))
        assert gradient[i] == pytest.approx((mean - center[i]) / spread[i] ** 2, abs=0.02)


def test_fits_are_judged_by_the_table_that_they_were_sampled_by(monkeypatch):
    """Quadrature for each draw and response took six times as long, and longer than sampling."""
    table = simulate(5, models=3, items=12, trials=4, sigma_eps=0.8).responses
    responses, spec = Responses.from_frame(table), load_model("hierarchical")
    options = Options(seed=1, sampling=Sampling(draws=60, chains=2))
    used = []
    original = Repeats.log_densities
    monkeypatch.setattr(
        Repeats, "log_densities", lambda *given: (used.append(1), original(*given))[1]
    )
    with drawn_from_prior():
        fast = fit_responses(responses, spec, options)
        calls = len(used)
        monkeypatch.setattr(Prediction, "repeats", None)
        exact = fit_responses(responses, spec, options)
    assert calls >= 2  # leave-one-out, and the log likelihood that is stored
    assert len(used) == calls
    for name in ("elpd", "log_density"):  # draws of the prior are far out in the table
        np.testing.assert_allclose(fast.data["loo"][name], exact.data["loo"][name], atol=2e-3)


@pytest.mark.parametrize("guess", [0.0, 0.25])
@pytest.mark.parametrize("trials", [(1, 1), (5, 5), (1, 5)])
def test_held_out_answers_say_nothing(trials, guess):
    """Whatever abilities are, and whether items have one trial, several, or some of each."""
    rows = [(m, "b", f"i{i}", trials[i % 2] // 2, trials[i % 2]) for m in "ABC" for i in range(12)]
    columns = ["model", "benchmark", "item", "n_correct", "n_trials"]
    spec = changed(load_model("ability"), likelihood={"guess": guess})
    design = make_design(spec, Responses.from_frame(pd.DataFrame(rows, columns=columns)))
    model = build_design(spec, design.hold_out(np.arange(len(design)))).model
    density = model.compile_fn([model.logp(vars=model.observed_RVs, sum=True)], mode=PLAIN)
    for shift in (-3.0, 0.0, 3.0):
        at = {k: v + shift * k.startswith("theta") for k, v in model.initial_point().items()}
        assert float(density(at)[0]) == pytest.approx(0, abs=1e-12)


def test_spread_of_zero_leaves_the_binomial():
    k, center = np.arange(11), np.linspace(-6, 6, 11)
    table = Repeats.of(np.full(11, 10), np.zeros(11))
    assert table is not None
    slot = np.zeros(11, dtype=np.int64)
    density = table.log_density(pt.as_tensor(k), pt.as_tensor(center), pt.zeros(1), slot)
    exact = stats.binom(10, expit(center)).logpmf(k) - stats.binom(10, 0.5).logpmf(k)
    exact -= 10 * np.log(2)
    np.testing.assert_allclose(density.eval(mode="FAST_COMPILE"), exact, atol=2e-4)


@pytest.mark.parametrize("own", [True, False])
def test_arrays_have_the_densities_of_tensors(own):
    """Some of the rows, of two draws, with a spread for all of them or one for each."""
    rng, draws, size = np.random.default_rng(4), 2, 30
    n = rng.choice([3, 8], size)
    k, guess = rng.binomial(n, 0.6), rng.choice([0.0, 0.25], size)
    table = Repeats.of(n, guess)
    assert table is not None
    rows = np.arange(size)[rng.random(size) < 0.7]
    center = rng.normal(0, 4, (draws, len(rows)))
    spread = np.exp(rng.normal(0, 1.5, (draws, len(rows) if own else 1)))
    found = table.log_densities(rows, k[rows], center, spread)
    slot = np.zeros(size, dtype=np.int64)
    slot[rows] = np.arange(len(rows)) if own else 0
    for d in range(draws):
        middle = np.zeros(size)
        middle[rows] = center[d]
        whole = table.log_density(
            pt.as_tensor(k), pt.as_tensor(middle), pt.as_tensor(spread[d]), slot
        )
        np.testing.assert_allclose(found[d], whole.eval(mode="FAST_COMPILE")[rows], rtol=1e-9)


def test_tables_of_hundreds_of_counts_are_not_made():
    sizes = np.arange(2, 60)
    assert Repeats.of(sizes, np.zeros(len(sizes))) is None
    assert MOST_NUMBERS < 1000 * 70 * 209


def test_single_trials_have_no_effect_of_their_own():
    """A table of one and several trials: only the latter are integrated over."""
    frame = simulate(2, models=3, benchmarks=1, items=8, trials=4, sigma_eps=1.0).responses
    first = frame["model"] == "model-0"
    frame.loc[first, "n_correct"] = (frame.loc[first, "n_correct"] > 2).astype(int)
    frame.loc[first, "n_trials"] = 1
    d = make_design(load_model("hierarchical"), Responses.from_frame(frame))
    x, guess = np.linspace(-2, 2, len(d)), np.zeros(len(d))
    table = Repeats.of(d.n_trials[d.n_single :], guess[d.n_single :])
    assert table is not None
    spreads = pt.as_tensor(np.array([1.7])), np.zeros(len(d) - d.n_single, dtype=np.int64)
    with pm.Model(coords=d.coords) as model:
        add_repeats(d, pt.as_tensor(d.n_correct), pt.as_tensor(x), spreads, guess, table)
    total = float(model.compile_logp(mode="FAST_COMPILE")({}))
    exact = 0.0
    for i in range(len(d)):
        if d.n_trials[i] == 1:
            exact += stats.bernoulli(expit(x[i])).logpmf(d.n_correct[i])
            continue
        eta = np.linspace(x[i] - 20, x[i] + 20, 20_001)
        joint = stats.binom(d.n_trials[i], expit(eta)).logpmf(d.n_correct[i])
        joint += stats.norm(x[i], 1.7).logpdf(eta)
        exact += logsumexp(joint) + np.log(eta[1] - eta[0])
    assert total == pytest.approx(exact, abs=5e-3)


@pytest.mark.parametrize("guess", [0.0, 0.25])
def test_effects_are_drawn_from_their_density(guess):
    """Each against its distribution on a grid: all right, all wrong, between, and unlikely."""
    cases = [(10, 10, 0.0, 6.0), (0, 10, -8.0, 4.0), (3, 10, 1.0, 6.0), (2, 10, 3.0, 0.3),
             (0, 10, 9.0, 2.0), (1, 2, 0.0, 1e-3), (40, 64, -2.0, 1.0)]  # fmt: skip
    k, n, center, spread = (np.array(column, dtype=float) for column in zip(*cases, strict=True))
    rows = Rows(k, n, np.full(len(k), guess))
    draws = 20_000
    wide = np.broadcast_to(spread, (draws, len(k)))
    found = draw_effects(rows, np.tile(center, (draws, 1)), wide, np.random.default_rng(3))
    for i in range(len(k)):
        eta, joint = on_grid(k[i], n[i], guess, center[i], spread[i])
        below = np.exp(joint - joint.max()).cumsum()
        ranks = np.interp(found[:, i], eta, below / below[-1])
        assert stats.kstest(ranks, "uniform").pvalue > 1e-4


def test_many_different_counts_are_sampled():
    """The table of densities would be too large; the model is then the one with effects."""
    frame = simulate(1, models=3, benchmarks=1, items=30, trials=2).responses
    frame["n_trials"] = 2 + np.arange(len(frame)) % 60
    b = build(load_model("hierarchical"), Responses.from_frame(frame))
    assert "eta" in b.model.named_vars


def test_an_estimated_floor_of_guessing_is_sampled():
    text = load_model("hierarchical").text.replace(
        "guess = 0.0", "guess = { family = 'beta', alpha = 2.0, beta = 8.0 }"
    )
    frame = simulate(1, models=3, benchmarks=1, items=10, trials=3).responses
    b = build(ModelSpec.parse(text, "guessing"), Responses.from_frame(frame))
    assert "eta" in b.model.named_vars


def test_estimands_are_not_computed_without_the_effects():
    """They would be those of responses without effects, which are other accuracies."""
    frame = simulate(6, models=2, benchmarks=1, items=8, trials=3, sigma_eps=1.0).responses
    built = build(load_model("hierarchical"), Responses.from_frame(frame))
    with built.model:
        fast = {"mode": "FAST_COMPILE"}
        tree = pm.sample_prior_predictive(3, random_seed=1, compile_kwargs=fast)
        prior = tree["prior"].to_dataset()
    draws = stack_draws(prior, built.design)
    assert draws.sigma_eps is not None
    with pytest.raises(ValueError, match="draws lack the effects of responses"):
        estimands(draws, built, (1, 3), "min_observed")
    whole = with_own_effects(draws, built, np.random.default_rng(2))
    found = estimands(whole, built, (1, 3), "min_observed")["estimands"]["accuracy"]
    # Where all items are answered, accuracy is the mean of those of the responses.
    design = built.design
    p = expit(whole.eta).reshape(3, -1)
    means = [p[:, design.model == m].mean(axis=1) for m in range(2)]
    np.testing.assert_allclose(found.to_numpy()[0, :, :, 0], np.transpose(means), rtol=1e-12)
