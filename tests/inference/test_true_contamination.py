"""The contamination of draws and of left-out responses against sums over all events."""

import itertools

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import integrate, stats
from scipy.special import expit, logsumexp

from bayescontam.data.responses import Responses
from bayescontam.inference.loo import _blocks, _mixed
from bayescontam.inference.posterior import (
    Draws,
    draw_contamination,
    exposed,
    log_odds,
    stack_draws,
)
from bayescontam.inference.predictive import Prediction
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.measurement_error import in_trials
from bayescontam.model.priors import SMALLEST
from bayescontam.model.quadrature import logit_normal
from bayescontam.model.transforms import rough_logits
from bayescontam.specs.model import ModelSpec
from tests.support.simulated_responses import simulate

SPEC = """
summary = "x"
[likelihood]
guess = 0.1
[contamination]
exposure = "latent"
[difficulty]
form = "none"
"""
THETA, BETA, SIGMA, SHIFT = np.array([0.3, -0.4]), 2.5, 0.8, 0.7


def built(trials: int) -> BuiltModel:
    """Two models on four items; with several trials, every third response has only one."""
    frame = simulate(5, models=2, benchmarks=1, items=4, trials=trials).responses
    if trials > 1:
        single = frame.index % 3 == 0
        frame.loc[single, ["n_trials", "n_correct"]] = 1
    p = pd.Series([0.2, 0.6, 0.9, 0.0]).iloc[frame.index % 4].to_numpy()
    frame = frame.assign(p_duplicate=p, p_duplicate_sd=0.05)
    return build(ModelSpec.parse(SPEC, "mine.toml"), Responses.from_frame(frame))


def draws_of(b: BuiltModel, count: int) -> Draws:
    """One draw, `count` times."""
    rng = np.random.default_rng(2)
    values = {
        "theta": THETA, "beta": np.full(2, BETA), "p_shift": np.array([SHIFT]),
        "sigma_eps": np.array([SIGMA]), "eta": rng.normal(0, 1, len(b.design) - b.design.n_single),
    }  # fmt: skip
    if "eps" not in b.terms:
        values = {n: v for n, v in values.items() if n in ("theta", "beta", "p_shift")}
    data = {
        name: (("chain", "draw", f"{name}_x"), np.tile(v, (1, count, 1)))
        for name, v in values.items()
    }
    return stack_draws(xr.Dataset(data), b.design)


def probabilities(b: BuiltModel) -> np.ndarray:
    """P(duplicate) of each item at the draw."""
    p = b.design.contamination[np.unique(b.design.item, return_index=True)[1]]
    inside, result = (p > 0) & (p < 1), p.copy()
    location, scale = logit_normal(p[inside], np.full(inside.sum(), 0.05))
    result[inside] = expit(location + SHIFT * scale)
    return result


def base(b: BuiltModel) -> np.ndarray:
    d = b.design
    return THETA[d.model] + BETA * (d.contamination - d.contamination.mean())


def events(b: BuiltModel) -> list[np.ndarray]:
    return [np.array(e) for e in itertools.product((0, 1), repeat=len(b.design.items))]


def weight(b: BuiltModel, event: np.ndarray) -> float:
    q = probabilities(b)
    return float(np.log(np.where(event == 1, q, 1 - q) + 1e-300).sum())


@pytest.mark.parametrize("trials", [1, 4])
def test_contamination_is_drawn_given_everything_else(trials):
    """Also the effects of repeated trials are those that belong to the drawn events."""
    b, count = built(trials), 20_000
    d, draws = b.design, draws_of(b, count)
    repeated = slice(d.n_single, None)
    part = in_trials(SIGMA + SMALLEST, rough_logits(d).se)

    def total(event: np.ndarray) -> np.ndarray:
        shift = BETA * (event[d.item] - d.contamination)
        eta = base(b) + shift
        if trials > 1:
            eta[repeated] = draws.eta[0] + part * shift[repeated]
        return eta

    def density(event: np.ndarray) -> float:
        shift = BETA * (event[d.item] - d.contamination)
        p = 0.1 + 0.9 * expit(total(event))
        result = stats.binom(d.n_trials, p).logpmf(d.n_correct).sum()
        if trials > 1:
            center = (base(b) + shift)[repeated] - part * shift[repeated]
            result += stats.norm(center, SIGMA).logpdf(draws.eta[0]).sum()
        return float(result)

    log_p = np.array([weight(b, e) + density(e) for e in events(b)])
    p = np.exp(log_p - logsumexp(log_p))
    exact = (p[:, None] * np.array(events(b))).sum(axis=0)
    found, moments = draw_contamination(draws, b, np.random.default_rng(1))
    np.testing.assert_allclose(moments.mean, exact, atol=1e-6)
    np.testing.assert_allclose(moments.sd, np.sqrt(exact * (1 - exact)), atol=1e-6)
    np.testing.assert_allclose(found.node.mean(axis=0), exact, atol=0.015)
    # At the drawn events, log-odds are those that belong to them.
    eta = exposed(found, d, log_odds(found, d))
    for row in (0, 11, 12):
        np.testing.assert_allclose(eta[row], total(found.node[row]), atol=1e-5)


def test_without_responses_contamination_is_as_probable_as_before():
    b = built(1)
    found, moments = draw_contamination(
        draws_of(b, 10), b, np.random.default_rng(1), responses=False
    )
    np.testing.assert_allclose(moments.mean, probabilities(b), atol=1e-12)
    assert (found.node[:, 3] == 0).all()


@pytest.mark.parametrize("trials", [1, 4])
def test_a_response_is_predicted_from_the_others_of_its_item(trials):
    """p(y_j | others) = p(y) / p(others), both summed over events and integrated over effects."""
    b = built(trials)
    d, draws = b.design, draws_of(b, 4000)

    def response(r: int, event: np.ndarray) -> float:
        eta = base(b)[r] + BETA * (event[d.item[r]] - d.contamination[r])

        def pmf(eps: float) -> float:
            p = 0.1 + 0.9 * expit(eta + eps)
            return stats.binom(d.n_trials[r], p).pmf(d.n_correct[r])

        if d.n_trials[r] == 1:
            return np.log(pmf(0.0))
        normal = stats.norm(0, SIGMA)
        return np.log(integrate.quad(lambda x: pmf(x) * normal.pdf(x), -7, 7)[0])

    reported = np.array([[response(r, e) for r in range(len(d))] for e in events(b)])
    log_w = np.array([weight(b, e) for e in events(b)])
    joint = logsumexp(log_w + reported.sum(axis=1))
    exact = [
        joint - logsumexp(log_w + np.delete(reported, r, axis=1).sum(axis=1)) for r in range(len(d))
    ]
    predictive = Prediction(draws, b)
    # Blocks that hold one group and several.
    for most in (1, 5, 100):
        density, total = np.empty(len(d)), 0.0
        for groups in _blocks(d.exposure, most):
            found = _mixed(predictive, d.exposure, groups, np.random.default_rng(3))
            rows, densities, center, together = found
            density[rows] = densities[0]
            total += together[0]
        np.testing.assert_allclose(density, exact, atol=2e-3)
        assert total == pytest.approx(joint, abs=5e-3)
    # The last block held all: contamination was drawn given the others of each item.
    j = int(np.flatnonzero(rows == d.item.tolist().index(1))[0])
    others = log_w + np.delete(reported, rows[j], axis=1).sum(axis=1)
    p = np.exp(others - logsumexp(others))
    expected = (p * [e[1] for e in events(b)]).sum()
    shift = center - predictive.center(rows)
    drawn = shift[:, j] / BETA + d.contamination[rows[j]]
    assert drawn.mean() == pytest.approx(expected, abs=0.03)
