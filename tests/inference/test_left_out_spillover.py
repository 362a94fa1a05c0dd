"""The predictive check of fits without spillover on tables with related models."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayescontam.data.responses import Responses
from bayescontam.inference import left_out_spillover as left_out
from bayescontam.inference.checks import Check, Outcome, Thresholds
from bayescontam.inference.own_slopes import OwnSlopes, own_slopes
from bayescontam.inference.posterior import Draws
from bayescontam.model.build import BuiltModel, build
from bayescontam.specs.model import Priors
from tests.support.marginal_likelihoods import spec_of

ITEMS = 60


def table(gain: int, everywhere: bool = False) -> pd.DataFrame:
    """Return answers of three pairs of twins; the exposed ones have `gain` more right answers."""
    rows = []
    for pair, exposed, b, i in product(range(3), (0, 1), range(4), range(ITEMS)):
        exam = b < 2
        right = 20 + 3 * pair + gain * exposed * (exam or everywhere)
        rows.append(
            {"model": f"m{pair}{exposed}", "benchmark": f"b{b}", "item": f"b{b}i{i}",
             "correct": int((7 * i) % ITEMS < right), "base": f"recipe{pair}",
             "contamination": float(exposed and exam and i % 2)}
        )  # fmt: skip
    return pd.DataFrame(rows)


def made(responses: Responses) -> tuple[BuiltModel, OwnSlopes]:
    """Return a model, and what own responses of its pairs give of their slopes."""
    built = build(spec_of("hierarchical", difficulty={"form": "none"}), responses)
    pairs = built.design.answered.shape
    beta = 0.2 * np.random.default_rng(1).standard_normal((20, np.prod(pairs)))
    draws = Draws(np.full(beta.shape, -0.5), beta, None, None, None)
    return built, own_slopes(draws, built, np.full(pairs, 0.5))


def checked(frame: pd.DataFrame) -> list[Check]:
    responses = Responses.from_frame(frame)
    built, own = made(responses)
    return [*left_out.left_out_check(own, built, responses, Thresholds())]


def test_more_exposed_relatives_that_are_abler_on_what_they_met_fail_the_check():
    [check] = checked(table(gain=24))
    assert check.outcome is Outcome.FAILED
    assert check.value < 0.01
    assert "twins" in check.sentence


def test_relatives_that_are_as_able_pass():
    [check] = checked(table(gain=0))
    assert check.outcome is Outcome.PASSED
    assert check.value > 0.5


def test_gains_on_controls_too_are_training_and_not_spillover():
    [check] = checked(table(gain=24, everywhere=True))
    assert check.outcome is Outcome.PASSED


def test_the_check_needs_models_of_one_base():
    frame = table(gain=24)
    assert not checked(frame.drop(columns="base"))
    assert not checked(frame.assign(base=""))
    # A base that cannot be is no error where the model spec does not use the column.
    circle = {"m00": "m01", "m01": "m00"}
    assert not checked(frame.assign(base=frame["model"].map(circle)))


def test_a_fit_with_spillover_has_no_such_check():
    responses = Responses.from_frame(table(gain=24))
    _, own = made(responses)
    twins = build(spec_of("twins", difficulty={"form": "none"}), responses)
    assert not [*left_out.left_out_check(own, twins, responses, Thresholds())]


def relatives(rng: np.random.Generator, spillover: float, priors: Priors) -> left_out._Relatives:
    """Return abilities of three pairs of twins on four benchmarks, spread as their priors say."""
    exposed = np.tile([0, 1], 3)
    m, b = (each.ravel() for each in np.indices((6, 4)))
    group = (m // 2) * 4 + b
    training, twin = (
        abs(rng.normal(0, prior.sigma)) for prior in (priors.sigma_t, priors.sigma_twin)
    )
    noise = 0.15
    dose = 0.5 * (exposed[m] * (b < 2))
    ability = rng.normal(0, 1, 12)[group] + rng.normal(0, training, 6)[m] + spillover * dose
    ability = ability + rng.normal(0, np.hypot(twin, noise), len(m))
    return left_out._Relatives(
        ability, noise**2 * np.eye(len(m)), (m[:, None] == m) * 1.0,
        (group[:, None] == np.arange(12)) * 1.0, dose[:, None] * (b[:, None] == [0, 1]),
        ("b0", "b1"),
    )  # fmt: skip


def test_coefficients_and_their_tails_are_those_of_generalised_least_squares():
    priors = Priors()
    pairs = relatives(np.random.default_rng(3), 1.0, priors)
    pairs.ability[:] += pairs.dose @ [-3.0, 4.0]
    y, whole = pairs.ability, np.column_stack([pairs.level, pairs.dose])
    grid = [stats.halfnorm(0, p.sigma).ppf((np.arange(12) + 0.5) / 12)
            for p in (priors.sigma_t, priors.sigma_twin)]  # fmt: skip
    v = np.linalg.inv(pairs.covariance(*map(np.median, grid)))
    one = np.column_stack([pairs.level, pairs.dose.sum(axis=1)])
    rows = [
        (np.linalg.inv(x.T @ v @ x) @ x.T @ v)[k] for x, k in ((one, -1), (whole, -2), (whole, -1))
    ]
    weights, tails = [], []
    contrasts = np.linalg.svd(whole.T, full_matrices=True)[2][whole.shape[1] :]
    for spread in product(*grid):
        covariance = pairs.covariance(*spread)
        # The density of contrasts that neither levels nor the coefficients enter.
        normal = stats.multivariate_normal(cov=contrasts @ covariance @ contrasts.T)
        weights.append(normal.pdf(contrasts @ y))
        sds = [np.sqrt(row @ covariance @ row) for row in rows]
        tails.append([2 * stats.norm.sf(abs(row @ y) / sd) for row, sd in zip(rows, sds, strict=1)])
    p_values = np.average(tails, weights=weights, axis=0)
    found = left_out._tested(pairs, priors)
    assert found.benchmark == "b1"
    assert found.coefficient == pytest.approx(rows[2] @ y, rel=1e-9)
    assert p_values.argmin() == 2
    assert found.p_value == pytest.approx(2 * 2 * p_values[2], rel=1e-6)


def test_abilities_are_those_of_a_joint_fit_of_all_pairs_whose_slopes_are_random():
    responses = Responses.from_frame(table(gain=10))
    built, own = made(responses)
    bases = {name: name[:2] for name in built.design.models}
    found = left_out._relatives(own, built.design, bases)
    assert found is not None
    size = own.prior_sd.size
    # One Normal of all levels and slopes, of which the levels' marginal is taken.
    slopes = own.spread**2 * np.eye(size) + np.full((size, size), 0.5**2)
    whole = np.zeros((2 * size, 2 * size))
    whole[size:, size:] = np.linalg.inv(slopes)
    for pair, known in enumerate(own.precision.reshape(size, 2, 2)):
        at = [pair, size + pair]
        whole[np.ix_(at, at)] += known
    covariance = np.linalg.inv(whole)
    mean = covariance @ own.pull.reshape(size, 2).T.ravel()
    np.testing.assert_allclose(found.noise, covariance[:size, :size], rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(found.ability, mean[:size], rtol=1e-6)


def test_what_an_item_says_of_itself_is_no_spillover():
    # Half of the items are solved more often where they are contaminated, and no others.
    rng, rows = np.random.default_rng(2), []
    for pair, exposed, b, i in product(range(3), (0, 1), range(4), range(200)):
        dose = float(exposed and b < 2 and i % 2)
        rows.append(
            {"model": f"m{pair}{exposed}", "benchmark": f"b{b}", "item": f"b{b}i{i}",
             "correct": int(rng.random() < 0.4 + 0.4 * dose), "base": f"recipe{pair}",
             "contamination": dose}
        )  # fmt: skip
    [check] = checked(pd.DataFrame(rows))
    assert check.outcome is Outcome.PASSED
    assert check.value > 0.05


@pytest.mark.parametrize(("spillover", "least", "most"), [(0.0, 0, 38), (4.0, 200, 400)])
def test_the_check_is_calibrated_under_its_priors_and_has_power(spillover, least, most):
    # 400 tables at the level of 0.05: more than 38 alarms of 400 have probability below 1e-4.
    priors, rng = Priors(), np.random.default_rng(4)
    alarms = sum(
        left_out._tested(relatives(rng, spillover, priors), priors).p_value < 0.05
        for _ in range(400)
    )
    assert least <= alarms <= most


@pytest.mark.parametrize("guess", [0.0, 0.25])
def test_coefficients_are_right_where_difficulties_slopes_and_guessing_play_a_part(guess):
    # Answers are simulated; pairs' own responses have to give back spillover, with the error that
    # is stated. 60 tables: a mean beyond 4 standard errors has probability below 1e-4, and so has
    # a sum of squares beyond these ends of the chi-squared distribution.
    frame, spillover, training, twin = table(gain=0), 1.5, 0.15, 0.12
    first = Responses.from_frame(frame)
    spec = spec_of("hierarchical", likelihood={"guess": guess})
    built, rng = build(spec, first), np.random.default_rng(7)
    design = built.design
    m, b, i = design.model, design.benchmark, design.item
    dose, pairs = design.contamination, design.answered.shape
    bases = {name: name[:2] for name in design.models}
    base = np.array([int(name[1]) for name in design.models])
    first_of = np.unique(b, return_index=True)[1]
    z = []
    for _ in range(60):
        hard = rng.normal(0, 1, len(design.items))
        slope = rng.normal(1, 0.3, pairs)
        ability = 0.5 + rng.normal(0, 0.5, (3, 4))[base] + rng.normal(0, training, (6, 1))
        ability = ability + rng.normal(0, twin, pairs) + spillover * design.pair_dose
        eta = ability[m, b] + slope[m, b] * dose - hard[i]
        right = rng.random(len(m)) < guess + (1 - guess) / (1 + np.exp(-eta))
        made = replace(built, design=replace(design, n_correct=right.astype(int)))
        # Abilities of draws are those at the mean contamination of a benchmark.
        center = ability + slope * (dose - design.dose)[first_of][None]
        draws = Draws(
            np.tile(center.ravel(), (20, 1)), np.tile(slope.ravel(), (20, 1)),
            np.tile(hard, (20, 1)), None, None,
        )  # fmt: skip
        own = own_slopes(draws, made, np.ones(pairs))
        found = left_out._relatives(own, design, bases)
        covariance = found.covariance(training, twin)
        whole = found.dose.sum(axis=1, keepdims=True)
        (row,) = left_out._coefficients(found, whole, covariance)
        z.append((row @ found.ability - spillover) / np.sqrt(row @ covariance @ row))
    assert abs(np.mean(z)) < 4 / np.sqrt(len(z))
    low, high = stats.chi2.ppf([5e-5, 1 - 5e-5], len(z))
    assert low < np.sum(np.square(z)) < high
