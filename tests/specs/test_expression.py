"""Formulas: what they may hold, and that nothing else gets through."""

import numpy as np
import pytest

from bayescontam.calibration.expression import evaluated
from bayescontam.specs.study import FUNCTIONS, Expression

RNG = np.random.default_rng(1)
VALUES = {"theta": RNG.normal(size=(5, 2, 3)), "sigma": RNG.uniform(1, 2, size=5)}
THETA, SIGMA = VALUES["theta"], VALUES["sigma"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("sigma", SIGMA),
        (" -sigma + 2 ** 3", 8 - SIGMA),
        ("theta[0, 1] - theta[1, 2] * sigma", THETA[:, 0, 1] - THETA[:, 1, 2] * SIGMA),
        ("mean(theta) / sd(theta)", THETA.mean(axis=(1, 2)) / THETA.std(axis=(1, 2))),
        ("max(theta) - min(theta[0])", THETA.max(axis=(1, 2)) - THETA[:, 0].min(axis=1)),
        ("sum(exp(theta))", np.exp(THETA).sum(axis=(1, 2))),
        ("logit(logistic(theta[1, 1]))", THETA[:, 1, 1]),
        ("sqrt(abs(log(sigma)))", np.sqrt(np.abs(np.log(SIGMA)))),
    ],
)
def test_formulas_have_the_value_of_the_same_numpy(text: str, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(evaluated(Expression(text), VALUES), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "theta.shape", "theta.__class__", "__import__('os')", "open(theta)", "[theta]",
        "theta if sigma else 1", "lambda: theta", "theta[0:1]", "theta[-1]", "theta[sigma]",
        "theta[True]", "theta['a']", "'a' + theta", "theta and sigma", "theta < sigma",
        "theta; sigma", "", "theta +", "exp(theta, sigma)", "exp(theta)[0]", "True", "1 + 2",
        "exp(x=theta)", "f'{theta}'",
    ],
)  # fmt: skip
def test_whatever_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"formula|function|position|names no quantity"):
        Expression(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" + ".join(["theta"] * 20_000), "is too long a formula|is no formula"),
        (f"theta + {'9' * 400}", "numbers are at most 1e"),
        ("theta * 1e999", "numbers are at most 1e"),
    ],
)
def test_what_cannot_be_computed_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Expression(text)


def test_an_unknown_function_is_reported_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"no function 'exq' of one argument; allowed: exp, log"):
        Expression("exq(theta)")
    assert Expression("exp(theta) + sigma").names == {"theta", "sigma"}


def test_several_values_for_each_draw_are_refused() -> None:
    with pytest.raises(ValueError, match="'theta' has several values for each draw; choose one"):
        evaluated(Expression("theta"), VALUES)


def test_a_position_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'theta\[2, 0\]': index 2 is out of bounds"):
        evaluated(Expression("theta[2, 0]"), VALUES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_that_is_allowed_exists(name: str) -> None:
    assert evaluated(Expression(f"{name}(theta[0])"), {"theta": np.full((4, 1), 0.5)}).shape == (4,)


@pytest.mark.parametrize("benchmarks", [1, 2, 7])
def test_one_value_of_a_draw_meets_all_cells_of_that_draw(benchmarks: int) -> None:
    # As many draws as benchmarks once: dims must not meet by their lengths.
    rng = np.random.default_rng(1)
    theta, bar = rng.normal(size=(7, 3, benchmarks)), rng.normal(size=7)
    values = {"theta": theta, "bar": bar}
    for text, one in (("mean(theta - theta[0, 0])", theta[:, 0, 0]), ("mean(theta - bar)", bar)):
        wanted = [(theta[draw] - one[draw]).mean() for draw in range(7)]
        np.testing.assert_allclose(evaluated(Expression(text), values), wanted)
    shifted = [bar[draw] + theta[draw].max() for draw in range(7)]
    np.testing.assert_allclose(evaluated(Expression("max(bar + theta)"), values), shifted)


def test_cells_of_two_shapes_do_not_meet() -> None:
    values = {"theta": np.zeros((4, 2, 2)), "delta": np.zeros((4, 2))}
    with pytest.raises(ValueError, match=r"cells of two shapes, \(2, 2\) and \(2,\); choose"):
        evaluated(Expression("mean(theta - delta)"), values)


def test_a_number_is_its_own_mean() -> None:
    values = {"beta": np.array([1.0, 2.0])}
    assert evaluated(Expression("beta + mean(3)"), values).tolist() == [4, 5]
