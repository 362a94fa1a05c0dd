"""Difficulties integrated out where contamination is not known, against sums written out."""

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from scipy.special import log_expit, logsumexp

import bayescontam
from bayescontam.errors import UsageError
from bayescontam.inference.checks import Outcome, integration_check, integration_errors
from bayescontam.inference.estimands import estimands
from bayescontam.inference.loo import can_pool, leave_one_out
from bayescontam.inference.posterior import (
    Draws,
    difficulty,
    draw_contamination,
    draw_difficulties,
    expand_to_items,
)
from bayescontam.model import marginal
from bayescontam.model.build import BuiltModel
from bayescontam.model.quadrature import logit_normal
from tests.support.latent_responses import simulated
from tests.support.marginal_likelihoods import (
    PointwiseModel,
    built_of,
    doses,
    draws_of,
    log_integrals,
    log_odds,
    spec_of,
    table,
    values_of,
)
from tests.support.simulated_responses import logistic

Values = dict[str, np.ndarray]
GRID = np.linspace(-7, 7, 281)


def uncertain(frame: pd.DataFrame, sd: float | None = None) -> pd.DataFrame:
    """Return a table whose contamination is also a probability, and an uncertain mean."""
    d = frame["contamination"]
    found = frame.assign(p_duplicate=d, contamination_sd=0.5 * np.sqrt(d * (1 - d)))
    return found if sd is None else found.assign(p_duplicate_sd=sd * d * (1 - d))


ROWS = {"likelihood": {"model_by_item": False}}
ONE_KNOWN = table()
ONE_KNOWN.loc[ONE_KNOWN["benchmark"] == "b0", "contamination"] = 1.0
ONE_KNOWN = uncertain(ONE_KNOWN)
CASES = {
    "latent": ("latent_duplicate", {}, uncertain(table())),
    "latent, some known": ("latent_duplicate", {}, uncertain(table(levels=(0.0, 0.2, 0.7, 1.0)))),
    "unsure probabilities": ("latent_duplicate", {}, uncertain(table(missing=0.3), 0.4)),
    "unsure, some known": (
        "latent_duplicate", {}, uncertain(table(levels=(0.0, 0.4, 0.6, 1.0)), 0.3),
    ),
    "noisy": ("noisy_covariate", {}, uncertain(table(missing=0.3))),
    "noisy, few values": ("noisy_covariate", {}, uncertain(table(levels=(0.0, 0.5)))),
    "trials": ("latent_duplicate", ROWS, uncertain(table(trials=4))),
    "slopes by difficulty": (
        "interaction", {"contamination": {"exposure": "latent"}}, uncertain(table()),
    ),
    "concepts": (
        "concepts", {"contamination": {"form": "linear", "exposure": "latent"}}, uncertain(table()),
    ),
    "a benchmark that is known": ("latent_duplicate", {}, ONE_KNOWN),
    "noisy trials": ("noisy_covariate", ROWS, uncertain(table(trials=4, missing=0.2))),
    "spillover": (
        "spillover", {"contamination": {"exposure": "noisy"}}, uncertain(table(missing=0.3)),
    ),
}  # fmt: skip


def built_case(case: str) -> tuple[pd.DataFrame, BuiltModel]:
    name, changed, frame = CASES[case]
    return frame, built_of(spec_of(name, **changed), frame)


def chances(built: BuiltModel, frame: pd.DataFrame, values: Values) -> np.ndarray:
    """Return log probabilities of items' contaminations, dims (item, node), from their columns."""
    exposure = built.design.exposure
    assert exposure is not None
    if built.spec.contamination.exposure == "noisy":
        return exposure.log_weights
    p = exposure.mean
    with np.errstate(divide="ignore"):
        found = np.log(np.stack([1 - p, p], axis=1))
    if "p_shift" in values:
        unsure = (p > 0) & (p < 1)
        sd = frame.groupby("item")["p_duplicate_sd"].first()[list(built.design.items)]
        location, scale = logit_normal(p[unsure], sd.to_numpy()[unsure])
        logit = location + scale * values["p_shift"][built.design.benchmark_of_item[unsure]]
        found[unsure] = log_expit(np.stack([-logit, logit], axis=1))
    return found


def at_nodes(built: BuiltModel, frame: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows at each value that their item's contamination may have, and which of all it is.

    Rows of one value of one item follow each other; values are numbered item by item.
    """
    whole, nodes = doses(frame, built.spec), built.design.exposure.nodes
    item = pd.Index(built.design.items).get_indexer(whole["item"])
    row, node = (each.ravel() for each in np.indices((len(whole), nodes.shape[1])))
    of = item[row] * nodes.shape[1] + node
    order = np.argsort(of, kind="stable")
    rows = whole.iloc[row[order]]
    moved = nodes.ravel()[of[order]] - rows["contamination"]
    return rows.assign(dose=rows["dose"] + moved), of[order]


def log_density(
    built: BuiltModel, frame: pd.DataFrame, rows: tuple[pd.DataFrame, np.ndarray], values: Values
) -> float:
    """Return the log density of all answers, item by item and value by value."""
    log_p = chances(built, frame, values)
    each = log_integrals(*rows, values, built).reshape(log_p.shape)
    return float(logsumexp(each + log_p, axis=1).sum())


@pytest.mark.parametrize("case", CASES)
def test_log_density_is_that_of_integrals_and_sums_over_each_item(case):
    frame, built = built_case(case)
    compiled = PointwiseModel(built)
    assert "delta" in built.terms
    assert "delta" not in built.model.named_vars
    rows = at_nodes(built, frame)
    for seed in range(2):
        values, logp = compiled.at(compiled.point(seed))
        assert logp == pytest.approx(log_density(built, frame, rows, values), abs=2e-5)


def parameters(built: BuiltModel, count: int) -> Draws:
    """Return draws of parameters at random, those of unsure probabilities among them."""
    draws, exposure = draws_of(built, count), built.design.exposure
    if exposure is None or exposure.moves is None:
        return draws
    rng = np.random.default_rng(8)
    shift = rng.standard_normal((count, len(built.design.benchmarks)))
    return Draws(**{**vars(draws), "p_shift": shift})


def all_values(draws: Draws, built: BuiltModel, position: int = 0) -> Values:
    values = values_of(draws, position, built)
    return values if draws.p_shift is None else values | {"p_shift": draws.p_shift[position]}


@pytest.mark.parametrize("case", CASES)
def test_difficulty_and_contamination_are_drawn_from_their_joint_distribution(case):
    frame, built = built_case(case)
    one, count = parameters(built, 1), 1500
    drawn = one[np.zeros(count, dtype=int)]
    drawn = draw_difficulties(drawn, built.lattice, np.random.default_rng(1))
    drawn, _ = draw_contamination(drawn, built, np.random.default_rng(2))
    z = difficulty(drawn, built.lattice) / one.sigma_delta[0][built.design.benchmark_of_item]
    values, (rows, of) = all_values(one, built), at_nodes(built, frame)
    log_p = chances(built, frame, values)
    for item in [0, 1, *range(2, len(built.design.items), 6)]:
        own = rows[of // log_p.shape[1] == item]
        p = logistic(log_odds(own, values, built, GRID))
        k, n = (own[name].to_numpy()[:, None] for name in ("n_correct", "n_trials"))
        answers = stats.binom.pmf(k, n, p).reshape(log_p.shape[1], -1, len(GRID)).prod(axis=1)
        joint = np.exp(log_p[item])[:, None] * stats.norm.pdf(GRID) * answers
        cumulative = np.cumsum(joint.sum(axis=0))
        found = stats.kstest(z[:, item], lambda x, c=cumulative: np.interp(x, GRID, c / c[-1]))
        assert found.pvalue > 1e-5, (item, found)
        share = np.minimum(joint.sum(axis=1) / joint.sum(), 1.0)  # but for rounding
        seen = np.bincount(drawn.node[:, item], minlength=len(share)) / count
        assert (np.abs(seen - share) <= 4.5 * np.sqrt(share * (1 - share) / count) + 1e-3).all()
        # Together: the mean difficulty at each value of the contamination.
        at = share > 0.02
        found = [z[drawn.node[:, item] == k, item] for k in np.flatnonzero(at)]
        expected = (joint[at] @ GRID) / joint[at].sum(axis=1)
        for values_at, mean in zip(found, expected, strict=True):
            error = values_at.std() / np.sqrt(len(values_at))
            assert values_at.mean() == pytest.approx(mean, abs=4.5 * error)


@pytest.mark.parametrize("case", ["latent", "unsure probabilities", "noisy"])
def test_estimands_are_means_over_items_at_what_was_drawn(case):
    _, built = built_case(case)
    draws = draw_difficulties(parameters(built, 40), built.lattice, np.random.default_rng(3))
    draws, _ = draw_contamination(draws, built, np.random.default_rng(4))
    own = estimands(draws, built, (1, 40), "zero")["estimands"]
    sampled = built_of(built.spec, CASES[case][2], "sampled")
    other = estimands(expand_to_items(draws, built.lattice), sampled, (1, 40), "zero")["estimands"]
    for name in ("accuracy", "genuine_ability_direct", "overfitting_direct"):
        np.testing.assert_allclose(own[name], other[name], atol=2e-4, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_the_check_finds_no_error(case):
    _, built = built_case(case)
    check = integration_check(parameters(built, 10), built.lattice, np.random.default_rng(1))
    assert check.outcome is Outcome.PASSED
    assert check.value < 1e-4


def test_the_check_finds_errors_as_large_as_they_are(monkeypatch):
    monkeypatch.setattr(marginal.make_lattice, "__defaults__", (3,))
    frame, built = built_case("noisy")
    compiled, rows = PointwiseModel(built), at_nodes(built, frame)
    stated, found = [], []
    for seed in range(4):
        values, logp = compiled.at(compiled.point(seed))
        given = {n: values[n].reshape(1, -1) for n in ("theta", "beta", "sigma_delta", "psi")}
        draw = Draws(delta=None, eta=None, sigma_eps=None, **given)
        stated += list(integration_errors(draw, built.lattice, np.random.default_rng(1)))
        found.append(logp - log_density(built, frame, rows, values))
    assert np.abs(found).max() > 2e-4
    np.testing.assert_allclose(stated, found, atol=3e-5)


@pytest.mark.parametrize("case", ["latent", "unsure probabilities", "noisy", "trials"])
def test_the_joint_likelihood_of_leave_one_out_is_that_of_sums(case):
    frame, built = built_case(case)
    assert not can_pool(built)
    draws = draw_difficulties(parameters(built, 30), built.lattice, np.random.default_rng(3))
    found = leave_one_out(draws, built, np.random.default_rng(4))["log_likelihood"].to_numpy()
    k, n = frame["n_correct"], frame["n_trials"]
    constant = np.log(special.comb(n, k)).sum()
    rows = at_nodes(built, frame)
    expected = [log_density(built, frame, rows, all_values(draws, built, d)) for d in range(30)]
    np.testing.assert_allclose(found + constant, expected, atol=1e-4)


def test_contaminations_of_pairs_are_sampled():
    frame = uncertain(table())
    frame["p_duplicate"] = np.linspace(0.1, 0.9, len(frame))
    reason = "an item's contamination differs between models"
    with pytest.raises(UsageError, match=f"got 'marginalised', but {reason}"):
        built_of(spec_of("latent_duplicate"), frame)


@pytest.mark.slow
def test_fits_are_those_with_sampled_difficulties():
    frame = simulated(0, "latent_duplicate", items=40).table
    frame = frame[frame["model"] < "m4"]
    sampler = {"draws": 1000, "tune": 400, "chains": 2, "seed": 1}
    own, other = (
        bayescontam.fit(frame, "latent_duplicate", difficulties=way, **sampler)
        for way in ("marginalised", "sampled")
    )
    assert own.record["difficulties"] == "marginalised"
    keys = ["model", "benchmark", "quantity"]
    a, b = (fit.estimands().set_index(keys) for fit in (own, other))
    reported = a["mcse_mean"].notna().to_numpy()
    error = np.hypot(a["mcse_mean"], b["mcse_mean"])[reported]
    assert (np.abs(a["mean"] - b["mean"])[reported] < 4.5 * error).all()
    np.testing.assert_allclose(a["sd"][reported], b["sd"][reported], rtol=0.2)
    ours, theirs = (fit.exposures().set_index(["benchmark", "item"]) for fit in (own, other))
    gap = (ours["posterior_mean"] - theirs["posterior_mean"]).abs()
    assert gap.max() < 0.06  # two means of 2,000 draws of yes or no, and of a slope
    pair = bayescontam.compare({"own": own, "other": other}).set_index("fit")
    assert pair["elpd_diff"].max() < 2
    assert own.item_fit().notna().any(axis=None)
