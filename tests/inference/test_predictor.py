"""The linear predictor and its shifts, against the formulas written out in NumPy."""

from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit, logit

from bayescontam.data.responses import Responses
from bayescontam.errors import SpecError
from bayescontam.inference.posterior import Draws, stack_draws
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.predictor import contamination_shift, linear_predictor, response_slopes
from bayescontam.specs.model import ModelSpec
from tests.support.every_term import EVERYTHING, ON_ACCURACY, table
from tests.support.model_points import PLAIN


def built(text: str = EVERYTHING, frame: pd.DataFrame | None = None) -> BuiltModel:
    frame = table() if frame is None else frame
    return build(ModelSpec.parse(text, "mine.toml"), Responses.from_frame(frame.assign(n_trials=1)))


def drawn(b: BuiltModel, count: int = 3) -> Draws:
    """Return draws of all effects from the prior."""
    names = [n for n in ("theta", "beta", "delta", "alpha", "alpha_pair", "increments", "kappa",
                         "gamma", "spillover") if n in b.model.named_vars]  # fmt: skip
    values = pm.draw([b.model[n] for n in names], count, random_seed=3, mode="FAST_COMPILE")
    data = {
        n: (("chain", "draw", f"{n}_cell"), np.reshape(v, (1, count, -1)))
        for n, v in zip(names, values, strict=True)
    }
    return stack_draws(xr.Dataset(data), b.design)


def rise(d: float, parts: np.ndarray) -> float:
    """Return M(d) of knots 0.3 and 0.6, by interpolation."""
    heights = [0.0, *np.cumsum(parts)]
    return float(np.interp(d, [0.0, 0.3, 0.6, 1.0], heights))


def by_hand(frame: pd.DataFrame, draws: Draws, b: BuiltModel, s: int) -> tuple[Any, Any]:
    """Return log-odds and slope of each response for one draw, row by row."""
    design = b.design
    assert draws.beta is not None
    assert draws.delta is not None
    assert draws.alpha is not None
    assert draws.increments is not None
    assert draws.kappa is not None
    assert draws.gamma is not None
    assert draws.spillover is not None
    parts = draws.increments[s]
    heights = frame["contamination"].map(lambda d: rise(d, parts))
    exposed = frame[frame["model"] != "m0"].groupby(["benchmark", "item"])["contamination"].mean()
    eta, slopes = [], []
    for row in frame.itertuples():
        m, k = design.models.index(row.model), design.benchmarks.index(row.benchmark)
        i = design.items.index(row.item)
        of_benchmark = frame["benchmark"] == row.benchmark
        of_cell = of_benchmark & (frame["model"] == row.model)
        delta = draws.delta[s, i]
        slope = draws.beta[s, m * 2 + k] + draws.gamma[s, 0] * delta
        if design.clean[m]:
            slope = 0.0
        x = draws.alpha[s, i] * (draws.theta[s, m * 2 + k] - delta)
        x += slope * (rise(row.contamination, parts) - heights[of_benchmark].mean())
        mean = frame.loc[of_benchmark, "contamination"].mean()
        met = 0.0 if design.clean[m] else frame.loc[of_cell, "contamination"].mean()
        x += draws.spillover[s, 0] * (met - mean)
        own = exposed[row.benchmark]
        x -= draws.kappa[s, k] * (own[row.item] - own.mean())
        eta.append(x)
        slopes.append(slope)
    return np.array(eta), np.array(slopes)


BY_PAIR = """
summary = "pairs differ in discrimination"
[difficulty]
discrimination = "by_pair"
[contamination]
form = "none"
"""


def test_discrimination_of_a_pair_is_of_ability_and_difficulty_alike() -> None:
    b = built(BY_PAIR)
    draws = drawn(b)
    assert draws.delta is not None
    assert draws.alpha_pair is not None
    apart = draws.theta[:, b.design.model_benchmark] - draws.delta[:, b.design.item]
    wanted = draws.alpha_pair[:, b.design.model_benchmark] * apart
    np.testing.assert_allclose(linear_predictor(draws.effects, b.design), wanted, atol=1e-12)
    assert np.ptp(draws.alpha_pair) > 0


WITHIN = """
summary = "abilities pooled within benchmarks, sampled at the rate of their pairs"
[ability]
pooling = "within"
[difficulty]
discrimination = "by_pair"
[contamination]
form = "none"
"""


def test_abilities_pooled_within_benchmarks_have_their_prior_whatever_their_rate() -> None:
    """Sampled are their products with discriminations; of z-scores, bounds of 5 standard errors."""
    b, count = built(WITHIN), 2000
    assert "theta_level" in {rv.name for rv in b.model.free_RVs}
    assert "a" not in b.terms
    names = ("theta", "mu", "sigma_theta", "alpha_pair")
    theta, mu, sigma, rate = pm.draw(
        [b.model[n] for n in names], count, random_seed=7, mode="FAST_COMPILE"
    )
    z = (theta - mu[:, None, :]) / sigma[:, None, None]
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs((z**2).mean() - 1) < 5 * np.sqrt(2 / z.size)
    assert abs(np.corrcoef(z.ravel(), np.log(rate).ravel())[0, 1]) < 5 / np.sqrt(z.size)
    assert abs(np.corrcoef(z[:, 0, 0], z[:, 0, 1])[0, 1]) < 5 / np.sqrt(count)


def test_the_density_of_abilities_sampled_at_their_rate_is_that_of_their_prior() -> None:
    """And that of answers is of alpha (theta − delta): written out, at a point of the posterior."""
    model, design = (b := built(WITHIN)).model, b.design
    rng = np.random.default_rng(9)
    point = {k: v + 0.3 * rng.standard_normal(v.shape) for k, v in model.initial_point().items()}
    names = ("theta", "mu", "sigma_theta", "alpha_pair", "log_alpha_pair", "sigma_alpha", "delta")
    sampled = ("theta_level", "log_alpha_pair", "n_correct")
    densities = [model.logp(vars=[model[n]], jacobian=False, sum=False)[0] for n in sampled]
    values = model.replace_rvs_by_values([model[n] for n in names])
    found = model.compile_fn([*values, *densities], mode=PLAIN)(point)
    at = dict(zip(names, found, strict=False))
    of_theta, of_rate, of_answers = found[len(names) :]
    assert np.ptp(at["alpha_pair"]) > 0.05
    # A variable that is `rate` times as large has a density that is so much smaller.
    small = 1e-6  # which every spread is larger by
    wanted = stats.norm.logpdf(at["theta"], at["mu"], at["sigma_theta"] + small)
    np.testing.assert_allclose(of_theta, wanted - np.log(at["alpha_pair"]), rtol=1e-9)
    wanted = stats.norm.logpdf(at["log_alpha_pair"], 0, at["sigma_alpha"] + small)
    np.testing.assert_allclose(of_rate, wanted, rtol=1e-9)
    eta = at["alpha_pair"].ravel()[design.model_benchmark] * (
        at["theta"].ravel()[design.model_unit] - at["delta"][design.item]
    )
    wanted = stats.bernoulli.logpmf(design.n_correct, expit(eta))
    np.testing.assert_allclose(of_answers, wanted, rtol=1e-9)


def test_all_blocks_together_are_the_formula() -> None:
    b, frame = built(), table()
    assert [symbol for symbol, _ in b.terms.left_out] == ["v", "eps"]
    draws = drawn(b)
    eta, slopes = (
        linear_predictor(draws.effects, b.design),
        response_slopes(draws.effects, b.design),
    )
    for s in range(len(draws)):
        wanted, slope = by_hand(frame, draws, b, s)
        np.testing.assert_allclose(eta[s], wanted, atol=1e-12)
        np.testing.assert_allclose(slopes[s], slope, atol=1e-12)


@pytest.mark.parametrize("text", [EVERYTHING, ON_ACCURACY], ids=["log-odds", "accuracy"])
def test_the_model_samples_the_formula(text: str) -> None:
    """The PyMC model's own log-odds, for the values of its effects at the same draw."""
    b = built(text)
    names = ["theta", "beta", "delta", "alpha", "increments", "kappa", "gamma", "spillover"]
    inputs = b.model["n_correct"].owner.inputs
    log_odds = next(x for x in inputs if x.dtype == "float64" and x.ndim == 1)
    values = pm.draw(
        [*(b.model[n] for n in names), log_odds], 1, random_seed=5, mode="FAST_COMPILE"
    )
    data = {n: (("chain", "draw", f"{n}_cell"), np.reshape(v, (1, 1, -1)))
            for n, v in zip(names, values, strict=False)}  # fmt: skip
    draws = stack_draws(xr.Dataset(data), b.design)
    wanted, _ = by_hand(table(), draws, b, 0)
    if text is ON_ACCURACY:
        wanted = logit(on_accuracy(table(), draws, b, 0, table()["contamination"], 0.0))
    np.testing.assert_allclose(values[-1], wanted, atol=1e-10)


def test_slopes_of_clean_models_are_zero() -> None:
    b = built()
    beta = pm.draw(b.model["beta"], 20, random_seed=1, mode="FAST_COMPILE")
    assert (beta[:, 0] == 0).all()
    assert (beta[:, 1:] != 0).all()
    assert b.design.clean.tolist() == [True, False, False, False]


@pytest.mark.parametrize("level", [0.0, 0.45, 1.0])
def test_a_shift_is_the_difference_of_two_predictors(level: float) -> None:
    """All items moved to one contamination: the predictor of a table that has it, uncentred."""
    b, frame = built(), table()
    draws = drawn(b)
    shift = contamination_shift(draws.effects, b.design, np.full(len(frame), level))
    kept = contamination_shift(draws.effects, b.design, np.full(len(frame), level), spilled=False)
    assert draws.increments is not None
    assert draws.spillover is not None
    cell = frame.groupby(["model", "benchmark"])["contamination"].transform("mean").to_numpy()
    met = frame["model"] != "m0"  # it is known to be clean, whatever its column says
    for s in range(len(draws)):
        parts = draws.increments[s]
        observed = np.array([rise(d, parts) for d in frame["contamination"]])
        slope = by_hand(frame, draws, b, s)[1]
        lift = draws.spillover[s, 0] * np.where(met, level - cell, 0.0)
        np.testing.assert_allclose(shift[s], slope * (rise(level, parts) - observed) + lift)
        np.testing.assert_allclose(shift[s] - kept[s], lift, atol=1e-12)


def on_accuracy(
    frame: pd.DataFrame, draws: Draws, b: BuiltModel, s: int, d: pd.Series, lift: Any
) -> Any:
    """Return accuracies of responses at a contamination, a weighted mean of their two ends."""
    eta, slope = by_hand(frame, draws, b, s)
    assert draws.increments is not None
    heights = frame["contamination"].map(lambda d: rise(d, draws.increments[s]))
    clean = eta - slope * heights + lift
    reached = d.map(lambda d: rise(d, draws.increments[s])).to_numpy()
    return (1 - reached) * expit(clean) + reached * expit(clean + slope)


def test_accuracy_itself_can_be_the_straight_line() -> None:
    b, frame = built(ON_ACCURACY), table()
    draws = drawn(b)
    eta = linear_predictor(draws.effects, b.design)
    level = frame["contamination"] * 0 + 0.45
    at = level.to_numpy()
    cell = frame.groupby(["model", "benchmark"])["contamination"].transform("mean").to_numpy()
    met = frame["model"] != "m0"  # it is known to be clean, whatever its column says
    moved = eta + contamination_shift(draws.effects, b.design, at)
    kept = eta + contamination_shift(draws.effects, b.design, at, spilled=False)
    for s in range(len(draws)):
        wanted = on_accuracy(frame, draws, b, s, frame["contamination"], 0.0)
        np.testing.assert_allclose(expit(eta[s]), wanted, atol=1e-12)
        lift = draws.spillover[s, 0] * np.where(met, at - cell, 0.0)
        np.testing.assert_allclose(
            expit(moved[s]), on_accuracy(frame, draws, b, s, level, lift), atol=1e-12
        )
        np.testing.assert_allclose(
            expit(kept[s]), on_accuracy(frame, draws, b, s, level, 0.0), atol=1e-12
        )


def test_the_ends_of_the_line_are_those_of_the_log_odds() -> None:
    """At 0 and 1 both scales say the same; between them accuracy has no bend."""
    straight = "summary = 'x'\n[contamination]\nscale = '{}'"
    frame = table().assign(contamination=[0.0, 1.0] * 24)
    draws = drawn(both := built(straight.format("accuracy"), frame))
    plain = built(straight.format("log_odds"), frame)
    eta = linear_predictor(draws.effects, both.design)
    np.testing.assert_allclose(eta, linear_predictor(draws.effects, plain.design), atol=1e-12)
    levels = [
        expit(eta + contamination_shift(draws.effects, both.design, np.full(len(frame), d)))
        for d in (0.0, 0.25, 0.5, 1.0)
    ]
    np.testing.assert_allclose(levels[1], 0.75 * levels[0] + 0.25 * levels[3], atol=1e-12)
    np.testing.assert_allclose(levels[2], 0.5 * levels[0] + 0.5 * levels[3], atol=1e-12)
    assert np.abs(logit(levels[2]) - (logit(levels[0]) + logit(levels[3])) / 2).max() > 0.05


def test_a_straight_line_is_a_monotone_one_of_equal_segments() -> None:
    """Increments in proportion to the segments' lengths make M(d) = d."""
    b = built()
    draws = drawn(b)
    straight = {**draws.effects, "increments": np.tile([0.3, 0.3, 0.4], (3, 1))}
    plain = {**draws.effects, "increments": None}
    for contamination in (0.0, 0.2, 0.77):
        level = np.full(len(b.design), contamination)
        np.testing.assert_allclose(
            contamination_shift(straight, b.design, level),
            contamination_shift(plain, b.design, level),
        )
    np.testing.assert_allclose(
        linear_predictor(straight, b.design), linear_predictor(plain, b.design)
    )


@pytest.mark.parametrize(
    ("block", "frame", "left_out"),
    [
        ("spillover = true", table().assign(contamination=0.5), "differ by less than 0.01"),
        ('confounding = "sensitivity"', table().assign(contamination=0.5), "same contamination"),
        ('interaction = "difficulty"', table().query("model == 'm1'"), "at least 2 models"),
    ],
)
def test_what_a_table_cannot_carry_is_left_out(
    block: str, frame: pd.DataFrame, left_out: str
) -> None:
    b = built(f"summary = 'x'\n[contamination]\n{block}", frame)
    assert any(left_out in reason for _, reason in b.terms.left_out)


def test_discrimination_needs_three_models() -> None:
    two = table().query("model in ['m0', 'm1']")
    b = built("summary = 'x'\n[difficulty]\ndiscrimination = 'random'", two)
    assert "alpha" not in b.terms
    assert any("at least 3 models" in reason for _, reason in b.terms.left_out)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[contamination]\nknots = [0.5, 0.5]", "knots must rise"),
        ("[contamination]\nknots = [0.0, 0.5]", "knots"),
        ("[contamination]\nform = 'monotone'\nexposure = 'latent'", "needs contamination.form"),
        ("[contamination]\nscale = 'accuracy'\nexposure = 'noisy'", "needs contamination.scale"),
        ("[contamination]\nconfounding = 'anchored'", "needs models that are known to be clean"),
        ("[contamination]\nclean = ['a']", "are for confounding = 'anchored'"),
        (
            "[contamination]\nconfounding = 'anchored'\nclean = ['a']\nclean_column = 'c'",
            "give one of the two",
        ),
        ("[contamination]\nform = 'none'\nspillover = true", "contamination.spillover needs"),
        ("[contamination]\nknots = [0.2, 0.5]", "contamination.knots has no effect unless"),
        (
            "[priors]\nkappa = { family = 'normal', sigma = 2.0 }",
            "priors.kappa has no effect unless .* confounding",
        ),
        (
            "[priors]\ngamma = { family = 'normal', sigma = 2.0 }",
            "priors.gamma has no effect unless .* interaction",
        ),
        (
            "[priors.spillover]\nfamily = 'normal'\nsigma = 2.0",
            "priors.spillover has no effect unless .*spillover",
        ),
        ("[difficulty]\nform = 'none'\ndiscrimination = 'random'", "needs difficulty.form"),
        ("[difficulty]\nform = 'none'\n[contamination]\ninteraction = 'difficulty'", "needs diff"),
    ],
)
def test_blocks_that_contradict_each_other_are_refused(text: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        ModelSpec.parse(f"summary = 'x'\n{text}", "mine.toml")
