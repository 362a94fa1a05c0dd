"""The mixture over unknown contamination against sums and integrals written out."""

import itertools

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import integrate, special, stats
from scipy.special import expit, logsumexp

from bayescontam.data.responses import Responses
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.measurement_error import in_trials
from bayescontam.model.priors import SMALLEST
from bayescontam.model.quadrature import logit_normal
from bayescontam.model.transforms import LinearisedEstimate, rough_logits
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.model_points import PLAIN, coordinates, log_density, prior_point
from tests.support.simulated_responses import simulate


def table(seed: int = 3, sd: float = 0.15, **shape: int) -> pd.DataFrame:
    """Simulated responses with all columns that the two specs need."""
    frame = simulate(seed, **shape).responses
    d = frame["contamination"].clip(0.05, 0.95)
    base = np.where(frame["model"].isin(sorted(set(frame["model"]))[:2]), "one", "")
    return frame.assign(contamination=d, p_duplicate=d, contamination_sd=sd, base=base)


RELATED = "spillover = true\n[ability]\nlineage = 'base'\n"
"""Keys of a model spec with lineage, after those of its block of contamination."""


def latent(frame: pd.DataFrame, text: str = "") -> BuiltModel:
    spec = ModelSpec.parse(
        f"summary = 'x'\n[contamination]\nexposure = 'latent'\n{text}", "mine.toml"
    )
    return build(spec, Responses.from_frame(frame))


def predictor(b: BuiltModel, point: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return log-odds at the mean, and the slope, of each response."""
    d = b.design
    of_models = np.asarray(point.get("beta_model", 0.0)).reshape(-1, 1)
    beta = point.get("beta", np.full(d.answered.shape, point["beta_bar"]) + of_models)
    mean = np.array([d.contamination[d.benchmark == k].mean() for k in range(len(d.benchmarks))])
    slope = beta[d.model, d.benchmark]
    if d.lineage is not None:  # doses count from zero, and spillover is that of the mean dose
        mean = 0 * mean
    eta = point["theta"][d.model, d.benchmark] + slope * (d.contamination - mean[d.benchmark])
    if d.lineage is not None:
        cell = d.model * len(d.benchmarks) + d.benchmark
        dose = np.bincount(cell, d.contamination) / np.bincount(cell)
        eta = eta + point["spillover"][d.model, d.benchmark] * dose[cell]
    return (eta - point["delta"][d.item] if "delta" in point else eta), slope


def enumerated(b: BuiltModel, weight, response) -> float:
    """Sum over every combination of duplicated and clean items."""
    d, total = b.design, []
    for events in itertools.product((0, 1), repeat=len(d.items)):
        chosen = np.array(events)
        total.append(weight(chosen) + response(chosen[d.item]).sum())
    return float(logsumexp(total))


def bernoulli(p: np.ndarray):
    return lambda events: stats.bernoulli(p).logpmf(events).sum()


def p_of_items(b: BuiltModel) -> np.ndarray:
    first = np.unique(b.design.item, return_index=True)[1]
    return b.design.contamination[first]


@pytest.mark.parametrize("guess", ["0.0", "{ bench-0 = 0.25 }"])
@pytest.mark.parametrize(("trials", "related"), [(1, ""), (4, ""), (4, RELATED)])
def test_latent_density_is_the_sum_over_all_events(guess, trials, related):
    frame = table(models=4 if related else 2, benchmarks=2, items=4, trials=trials)
    b = latent(frame, f"{related}[likelihood]\nguess = {guess}\nmodel_by_item = false")
    assert ("spillover" in b.terms) == bool(related)
    point = prior_point(b.model, 5)
    eta, slope = predictor(b, point)
    d = b.design
    floor = np.where(d.benchmark == 0, 0.25 if "bench" in guess else 0.0, 0.0)

    def response(event: np.ndarray) -> np.ndarray:
        p = floor + (1 - floor) * expit(eta + slope * (event - d.contamination))
        return stats.binom(d.n_trials, p).logpmf(d.n_correct)

    expected = enumerated(b, bernoulli(p_of_items(b)), response)
    assert log_density(b.model, ["n_correct"], point) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("mixed", [False, True])
def test_latent_density_with_an_effect_of_repeated_trials(mixed):
    """Of ``eta`` and the counts together; in a mixed table some items have one trial."""
    frame = table(models=2, benchmarks=1, items=5, trials=4)
    if mixed:
        single = frame.index % 3 == 0
        frame.loc[single, "n_trials"] = 1
        frame.loc[single, "n_correct"] = (frame.loc[single, "n_correct"] > 2) * 1
    b = latent(frame)
    point = prior_point(b.model, 6)
    eta, slope = predictor(b, point)
    d, sigma = b.design, float(point["sigma_eps"]) + SMALLEST
    repeated = np.arange(d.n_single, len(d))
    part = in_trials(sigma, rough_logits(d).se)

    def response(event: np.ndarray) -> np.ndarray:
        shift = slope * (event - d.contamination)
        total = eta + shift
        total[repeated] = point["eta"] + part * shift[repeated]
        density = stats.binom(d.n_trials, expit(total)).logpmf(d.n_correct)
        center = eta[repeated] + (1 - part) * shift[repeated]
        density[repeated] += stats.norm(center, sigma).logpdf(point["eta"])
        return density

    expected = enumerated(b, bernoulli(p_of_items(b)), response)
    got = log_density(b.model, ["eta", "n_correct"], point)
    assert got == pytest.approx(expected, rel=1e-10)


def test_effect_integrates_to_the_model_that_is_stated():
    """Whatever part of a shift goes into ``eta``: log-odds are predictor + eps + shift."""
    frame = pd.DataFrame(
        {
            "model": ["A", "B"], "benchmark": "b", "item": "i", "n_correct": [6, 1],
            "n_trials": [7, 5], "p_duplicate": 0.3,
        }
    )  # fmt: skip
    other = frame.assign(item="j", n_correct=[2, 2], p_duplicate=0.0)
    b = latent(pd.concat([frame, other]), "[difficulty]\nform = 'none'")
    point = prior_point(b.model, 8)
    eta, slope = predictor(b, point)
    d, sigma = b.design, float(point["sigma_eps"]) + SMALLEST
    unsure = np.flatnonzero(d.contamination > 0)
    of = [b.model["eta"], b.model["n_correct"]]
    density = b.model.compile_logp(vars=of, jacobian=False, mode=PLAIN)
    key = b.model.rvs_to_values[b.model["eta"]].name
    # The coordinate of eta is a straight line in eta.
    zero, one = (coordinates(b.model, point | {"eta": np.full(4, x)})[0] for x in (0.0, 1.0))

    def at(first: float, second: float) -> float:
        moved = point["eta"].copy()
        moved[unsure] = [first, second]
        return np.exp(float(density(zero | {key: zero[key] + moved * (one[key] - zero[key])})))

    rule = np.polynomial.legendre.leggauss(64)
    where, weight = 9 * sigma * rule[0], 9 * sigma * rule[1]
    grid = sum(
        weight[i] * weight[j] * at(eta[unsure[0]] + where[i], eta[unsure[1]] + where[j])
        for i, j in itertools.product(range(64), repeat=2)
    )
    known = np.setdiff1d(np.arange(4), unsure)
    rest = stats.norm(eta[known], sigma).pdf(point["eta"][known])
    rest = rest * stats.binom(d.n_trials[known], expit(point["eta"][known])).pmf(d.n_correct[known])

    def response(r: int, event: int) -> float:
        def integrand(eps: float) -> float:
            p = expit(eta[r] + eps + slope[r] * (event - 0.3))
            return stats.binom(d.n_trials[r], p).pmf(d.n_correct[r]) * stats.norm(0, sigma).pdf(eps)

        return integrate.quad(integrand, -9 * sigma, 9 * sigma, epsabs=1e-13)[0]

    exact = sum(
        w * np.prod([response(r, event) for r in unsure]) for event, w in ((0, 0.7), (1, 0.3))
    )
    assert grid == pytest.approx(exact * rest.prod(), rel=1e-3)


def test_unsure_probabilities_move_together_in_a_benchmark():
    frame = table(models=2, benchmarks=2, items=4).assign(p_duplicate_sd=0.1)
    b = latent(frame)
    point = prior_point(b.model, 5)
    eta, slope = predictor(b, point)
    d = b.design
    p = p_of_items(b)
    location, scale = logit_normal(p, np.full_like(p, 0.1))
    log_odds = location + point["p_shift"][d.benchmark_of_item] * scale

    def response(event: np.ndarray) -> np.ndarray:
        total = eta + slope * (event - d.contamination)
        return stats.bernoulli(expit(total)).logpmf(d.n_correct)

    expected = enumerated(b, bernoulli(expit(log_odds)), response)
    assert log_density(b.model, ["n_correct"], point) == pytest.approx(expected, rel=1e-10)
    assert b.model.named_vars_to_dims["p_shift"] == ("benchmark",)
    shift = stats.norm(0, 1).logpdf(point["p_shift"]).sum()
    assert log_density(b.model, ["p_shift"], point) == pytest.approx(shift)


def test_unsure_probabilities_of_a_model_move_by_themselves():
    """Evidence from the models has errors of each model: one shift is not of all."""
    frame = table(models=2, benchmarks=2, items=3).assign(p_duplicate_sd=0.1)
    second = frame["model"] == sorted(set(frame["model"]))[1]
    frame["p_duplicate"] = frame["p_duplicate"].where(~second, 1 - frame["p_duplicate"])
    b = latent(frame)
    d = b.design
    assert b.model.named_vars_to_dims["p_shift"] == ("model", "benchmark")
    point = prior_point(b.model, 5)
    eta, slope = predictor(b, point)
    location, scale = logit_normal(d.contamination, np.full(len(d), 0.1))
    q = expit(location + point["p_shift"][d.model, d.benchmark] * scale)
    total = [eta + slope * (event - d.contamination) for event in (0, 1)]
    clean, seen = (stats.bernoulli(expit(at)).pmf(d.n_correct) for at in total)
    expected = np.log((1 - q) * clean + q * seen).sum()
    assert log_density(b.model, ["n_correct"], point) == pytest.approx(expected, rel=1e-10)
    shift = stats.norm(0, 1).logpdf(point["p_shift"]).sum()
    assert log_density(b.model, ["p_shift"], point) == pytest.approx(shift)
    shift = np.random.default_rng(8).standard_normal((3, 4))
    weights = d.exposure.weights(shift)
    known = expit(location + shift[:, d.model * 2 + d.benchmark] * scale)
    assert np.exp(weights[..., 1]) == pytest.approx(known[:, d.exposure.first], rel=1e-10)


def test_models_that_are_clean_leave_the_shift_to_all():
    """A control, whose probabilities are 0, is no other judgement of the same items."""
    frame = table(models=3, benchmarks=1, items=4).assign(p_duplicate_sd=0.1)
    first = frame["model"] == frame["model"].iloc[0]
    b = latent(frame.assign(p_duplicate=frame["p_duplicate"].where(~first, 0.0)))
    assert b.design.exposure.pairs
    assert b.model.named_vars_to_dims["p_shift"] == ("benchmark",)


def test_probabilities_of_zero_and_one_are_known():
    """They enter as numbers, without a shift, and a table of nothing else is no mixture."""
    frame = table(models=2, benchmarks=1, items=4)
    sure = frame["item"].isin(["item-0-0", "item-0-1"])
    part = frame.assign(p_duplicate=frame["p_duplicate"].where(~sure, 1.0), p_duplicate_sd=0.1)
    b = latent(part)
    assert b.design.exposure.unsure.tolist() == [False, False, True, True]
    point = prior_point(b.model, 5)
    eta, slope = predictor(b, point)
    p = p_of_items(b)[2:]
    location, scale = logit_normal(p, np.full_like(p, 0.1))
    log_odds = location + point["p_shift"][0] * scale

    def weight(events: np.ndarray) -> float:
        return -np.inf if (events[:2] == 0).any() else bernoulli(expit(log_odds))(events[2:])

    def response(event: np.ndarray) -> np.ndarray:
        total = eta + slope * (event - b.design.contamination)
        return stats.bernoulli(expit(total)).logpmf(b.design.n_correct)

    expected = enumerated(b, weight, response)
    assert log_density(b.model, ["n_correct"], point) == pytest.approx(expected, rel=1e-10)
    assert latent(frame.assign(p_duplicate=sure * 1.0)).design.exposure is None


@pytest.mark.parametrize("trials", [1, 4])
def test_noisy_with_the_largest_deviation_is_latent(trials):
    frame = table(models=3, benchmarks=2, items=6, trials=trials)
    d = frame["contamination"]
    frame = frame.assign(contamination_sd=np.sqrt(d * (1 - d)))
    responses = Responses.from_frame(frame)
    noisy, event = (
        build(load_model(n), responses) for n in ("noisy_covariate", "latent_duplicate")
    )
    point = prior_point(event.model, 4)
    everything = [v.name for v in (*event.model.free_RVs, *event.model.observed_RVs)]
    expected = log_density(event.model, everything, point)
    assert log_density(noisy.model, everything, point) == pytest.approx(expected, rel=1e-10)


def test_noisy_without_deviation_is_the_plug_in():
    responses = Responses.from_frame(table(models=3, items=6, sd=0.0))
    noisy, known = (build(load_model(n), responses) for n in ("noisy_covariate", "hierarchical"))
    point = prior_point(known.model, 4)
    everything = [v.name for v in (*known.model.free_RVs, *known.model.observed_RVs)]
    expected = log_density(known.model, everything, point)
    assert log_density(noisy.model, everything, point) == expected


def joint(clean: np.ndarray, slope: np.ndarray, correct: np.ndarray):
    """Return the likelihood of an item's responses as a function of its contamination."""
    return lambda x: stats.bernoulli(expit(clean + slope * x)).pmf(correct).prod()


@pytest.mark.parametrize("related", [False, True])
def test_noisy_density_is_the_integral_over_the_beta(related):
    content = load_model("noisy_covariate").model_dump()
    if related:
        content["ability"]["lineage"] = "base"
        content["contamination"]["spillover"] = True
        content["difficulty"]["selection"] = "ignored"
    frame = table(models=3, benchmarks=1, items=8, sd=0.15)
    if related:  # a model that missed the most contaminated items was less exposed
        most = frame["contamination"] > frame["contamination"].median()
        frame = frame[~(most & (frame["model"] == frame["model"].iloc[0]))]
    b = build(ModelSpec.model_validate(content), Responses.from_frame(frame))
    assert ("spillover" in b.terms) == related
    point = prior_point(b.model, 9)
    eta, slope = predictor(b, point)
    d, expected = b.design, 0.0
    for i in range(len(d.items)):
        rows = d.item == i
        mean = d.contamination[rows][0]
        size = mean * (1 - mean) / 0.15**2 - 1
        likelihood = joint(eta[rows] - slope[rows] * mean, slope[rows], d.n_correct[rows])
        powers = size * mean - 1, size * (1 - mean) - 1
        total = integrate.quad(likelihood, 0, 1, weight="alg", wvar=powers)[0]
        expected += np.log(total) - special.betaln(powers[0] + 1, powers[1] + 1)
    got = log_density(b.model, ["n_correct"], point)
    assert got == pytest.approx(expected, abs=1e-4)
    assert b.design.exposure.nodes.shape[1] == 5


def test_covariates_of_pairs_mean_events_of_pairs():
    """Where one item's covariate differs between models, all items are taken by pairs."""
    frame = table(models=2, benchmarks=1, items=3)
    frame.loc[0, "p_duplicate"] = 0.5
    b = latent(frame)
    assert b.design.exposure.pairs
    point = prior_point(b.model, 5)
    eta, slope = predictor(b, point)
    q = b.design.contamination
    shares = [
        w * stats.bernoulli(expit(eta + slope * (event - q))).pmf(b.design.n_correct)
        for event, w in ((0, 1 - q), (1, q))
    ]
    expected = np.log(sum(shares)).sum()
    assert log_density(b.model, ["n_correct"], point) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("name", "trials"), [("latent_duplicate", 1), ("noisy_covariate", 6)])
def test_predictive_draws_follow_the_model(name, trials):
    """Mean and spread over models of an item's score, simulated by hand at fixed parameters."""
    frame = table(models=4, benchmarks=1, items=2, trials=trials).assign(
        p_duplicate=0.3, contamination=0.3, contamination_sd=0.3, n_correct=1
    )
    b = build(load_model(name), Responses.from_frame(frame))
    d = b.design
    theta = np.linspace(-1, 1, 4)[:, None]
    given = {"theta": theta, "beta": np.full((4, 1), 4.0), "delta": np.array([0.2, -0.2])}
    if trials > 1:
        given["sigma_eps"] = np.array(0.7)
    held = pm.do(b.model, given)
    drawn = pm.draw(held["n_correct"], 6000, random_seed=2, mode="FAST_COMPILE")
    rng = np.random.default_rng(5)
    if name == "latent_duplicate":
        truth = (rng.random((6000, 2)) < 0.3) * 1.0
    else:
        size = 0.3 * 0.7 / 0.3**2 - 1
        truth = rng.beta(0.3 * size, 0.7 * size, (6000, 2))
    eta = theta[d.model, 0] - given["delta"][d.item] + 4.0 * (truth[:, d.item] - 0.3)
    eta += rng.normal(0, 0.7, eta.shape) if trials > 1 else 0.0
    expected = rng.binomial(trials, expit(eta))
    np.testing.assert_allclose(drawn.mean(axis=0), expected.mean(axis=0), atol=0.03 * trials)
    # Sums over the models of an item vary more than independent responses would.
    for i in (0, 1):
        got, want = (x[:, d.item == i].sum(axis=1).var() for x in (drawn, expected))
        assert got == pytest.approx(want, rel=0.1)


def test_trials_report_eta_whatever_the_contamination():
    """The reason for `in_trials`: one mode where two would be far apart."""
    rough = LinearisedEstimate(np.array([1.0]), np.array([0.3]))
    part = in_trials(2.0, rough.se)
    shift = 3.0
    modes = []
    for offset in (-0.5, 0.5):
        center, observed = (1 - part) * shift * offset, 1.0 - part * shift * offset
        precision = 1 / 2.0**2 + 1 / rough.se**2
        modes.append((center / 2.0**2 + observed / rough.se**2) / precision)
    assert modes[0] == pytest.approx(modes[1])
