"""The likelihood without item difficulties, against integrals written out row by row."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import integrate, stats

from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.model import marginal as lattice
from bayescontam.model import marginal as marginalised
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import make_design
from bayescontam.model.marginal import make_grid, reason_not_marginalised
from bayescontam.model.priors import SMALLEST
from bayescontam.model.terms import plan_terms
from bayescontam.specs.model import ModelSpec
from tests.support.marginal_likelihoods import (
    PointwiseModel,
    built_of,
    doses,
    log_integrals,
    log_likelihood,
    log_odds,
    related,
    spec_of,
    table,
)
from tests.support.model_points import PLAIN, compile_gradient, coordinates
from tests.support.simulated_responses import logistic

FEW = (0.0, 0.3, 1.0)
ANSWERS_ARE_ROWS = {"likelihood": {"model_by_item": False}}
SENSITIVE = {"contamination": {"confounding": "sensitivity"}}
BEND = {"contamination": {"knots": (0.2, 0.5)}}
RELATED = {"ability": {"lineage": "base"}}
LIFTED = {"contamination": {"spillover": True}}


CASES = {
    "continuous": ("hierarchical", {}, table()),
    "few values": ("hierarchical", {}, table(levels=FEW)),
    "missing cells": ("hierarchical", {}, table(missing=0.5)),
    "not shared": ("hierarchical", {}, table(items=(14, 14, 12), unshared=True)),
    "trials": ("hierarchical", ANSWERS_ARE_ROWS, table(trials=5, missing=0.2)),
    "concepts": ("concepts", {}, table()),
    "concepts of missing cells": ("concepts", {}, table(missing=0.4)),
    "positive": ("positive", {}, table()),
    "monotone": ("monotone", BEND, table(items=(50, 45))),
    "shipped knots": ("monotone", {}, table(levels=FEW)),
    "anchored": ("anchored", {}, table()),
    "sensitivity": ("hierarchical", SENSITIVE, table(missing=0.3)),
    "interaction": ("interaction", {}, table()),
    "spillover": ("spillover", {}, table(missing=0.4, levels=FEW)),
    "twins": ("twins", {}, related(table(missing=0.3))),
    "anchored twins": ("anchored", RELATED | LIFTED, related(table())),
    "bent twins": ("monotone", BEND | RELATED, related(table(levels=FEW))),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_log_density_is_that_of_integrals_over_each_item(case):
    name, changed, frame = CASES[case]
    built = built_of(spec_of(name, **changed), frame)
    compiled = PointwiseModel(built)
    assert "delta" in built.terms
    assert "delta" not in built.model.named_vars
    for seed in range(2):
        values, logp = compiled.at(compiled.point(seed))
        assert logp == pytest.approx(log_likelihood(frame, values, built), abs=2e-5)


def test_clean_models_may_have_a_contamination_of_their_own():
    frame = table(models=5)
    frame.loc[frame["clean"] == 1, "contamination"] = 0.0
    built = built_of(spec_of("anchored"), frame)
    compiled = PointwiseModel(built)
    values, logp = compiled.at(compiled.point(3))
    assert (values["beta"][-1] == 0).all()
    assert logp == pytest.approx(log_likelihood(frame, values, built), abs=2e-5)


def test_the_integrals_held_against_are_right():
    """The Gaussian rule against adaptive quadrature, one item at a time."""
    frame = table(items=(6,))
    built = built_of(spec_of("hierarchical"), frame)
    values, _ = PointwiseModel(built).at(PointwiseModel(built).point(1))
    for item, rows in doses(frame, built.spec).groupby("item"):

        def density(z, rows=rows):
            p = logistic(log_odds(rows, values, built, np.array([z])))[:, 0]
            right = rows["n_correct"].to_numpy() == 1
            return np.where(right, p, 1 - p).prod() * stats.norm.pdf(z)

        area = integrate.quad(density, -12, 12, epsabs=0, epsrel=1e-10, limit=200)[0]
        (found,) = log_integrals(rows, np.full(len(rows), item), values, built)
        assert found == pytest.approx(np.log(area), abs=1e-8)


SLOPES = ("beta_level", "beta_model_mean", "beta_model_coordinates", "beta_benchmark_level", "beta")


def test_priors_above_abilities_and_slopes_are_those_of_sampled_difficulties():
    frame, spec = table(items=(9, 8, 7)), spec_of("hierarchical", **SENSITIVE)
    own = built_of(spec, frame).model
    other = built_of(spec, frame, "sampled").model
    # Abilities have other coordinates, so that equal points of these are not equal abilities.
    above = {"theta", "theta_level", "a_coordinates", "mu", "mu_level", "delta"}
    above |= {"delta_coordinates", "beta_bar", "beta_model", "beta_benchmark", *SLOPES}
    # Nor have slopes and kappa, which are sampled with difficulties along contamination.
    above |= {"kappa", "kappa_level", "beta_bar_level", "beta_benchmark_level"}
    above |= {"beta_model_coordinates"}
    names = sorted({v.name for v in own.free_RVs} - above)
    assert {v.name for v in other.free_RVs} - above == set(names)
    start = other.initial_point()
    density = []
    for m in (own, other):
        of = [m[n] for n in names]
        values = {v.name: start[v.name] for v in map(m.rvs_to_values.get, of)}
        density.append(m.compile_fn(m.logp(vars=of), mode=PLAIN)(values))
    assert density[0] == pytest.approx(density[1], abs=1e-9)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["hierarchical", "monotone"])
def test_slopes_have_the_density_of_the_mathematics(name, seed):
    """They are sampled in other coordinates, which are sheared and turned: that has a volume.

    So have rises of a dose-response in place of slopes.
    """
    model = built_of(spec_of(name), table(items=(9, 8, 7))).model
    sampled = [f"{n}_rise" for n in SLOPES] if name == "monotone" else SLOPES
    scales = ("sigma_bm", "sigma_bb", "sigma_bmb")
    reported = (*sampled, "beta", "beta_bar", "beta_model", "beta_benchmark", *scales)
    logp = sum(
        model.logp(vars=[model[n] for n in sampled], jacobian=False, sum=False)[k].sum()
        for k in range(len(sampled))
    )
    drawn = pm.draw(model.free_RVs, random_seed=seed, mode="FAST_COMPILE")
    point, _ = coordinates(model, dict(zip([v.name for v in model.free_RVs], drawn, strict=True)))
    names = [v.name for v in model.unobserved_value_vars]
    *values, density = model.compile_fn([*model.unobserved_value_vars, logp], mode=PLAIN)(point)
    p = {n: v for n, v in zip(names, values, strict=True) if n in reported}
    sigma = {n: p[n] + SMALLEST for n in scales}
    of_model, of_benchmark = p["beta_model"], p["beta_benchmark"]
    expected = stats.norm(0, 2).logpdf(p["beta_bar"])
    expected += stats.norm(p["beta_bar"], sigma["sigma_bb"]).logpdf(of_benchmark).sum()
    expected += stats.norm(0, sigma["sigma_bm"]).logpdf(of_model).sum()
    slope = of_benchmark + of_model[:, None]
    expected += stats.norm(slope, sigma["sigma_bmb"]).logpdf(p["beta"]).sum()
    if name == "monotone":
        count = sum(p[n].size for n in sampled)
        expected -= count * np.log(p["beta_rise"] / p["beta"])[0, 0]
    # The mean of as many effects is their sum in an orthonormal basis, over the root.
    assert density == pytest.approx(expected + 0.5 * np.log(len(of_model)), rel=1e-9)


@pytest.mark.parametrize("name", ["hierarchical", "monotone", "interaction", "concepts"])
def test_gradient_is_that_of_finite_differences(name):
    model = built_of(spec_of(name), table()).model
    logp, gradient = model.compile_logp(mode=PLAIN), compile_gradient(model)
    rng = np.random.default_rng(5)
    point = {k: v + rng.normal(0, 0.3, np.shape(v)) for k, v in model.initial_point().items()}
    exact = gradient(point)
    for _ in range(5):
        way = {k: rng.normal(0, 1, np.shape(v)) for k, v in point.items()}
        ends = [logp({k: v + h * way[k] for k, v in point.items()}) for h in (1e-5, -1e-5)]
        along = np.concatenate([np.ravel(way[v.name]) for v in model.value_vars])
        assert exact @ along == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-4)


def _error(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, **changed: float) -> float:
    for name, value in changed.items():
        monkeypatch.setattr(lattice, name, value)
    built = built_of(spec_of("hierarchical"), frame)
    design = built.design
    theta = np.linspace(-1, 1, len(design.models))[:, None] + np.zeros(len(design.benchmarks))
    values = {"theta": theta, "beta": 4 + theta, "sigma_delta": np.full(len(theta[0]), 1.4)}
    return abs(_log_density(built, values) - log_likelihood(frame, values, built))


def _log_density(built: BuiltModel, values: dict[str, np.ndarray]) -> float:
    """Return the log density of the responses at given abilities, slopes and spreads."""
    import pytensor.tensor as pt

    made = built.lattice
    assert made is not None
    effects = {"theta": pt.constant(values["theta"].ravel()), "beta": values["beta"].ravel()}
    level, step = marginalised.predictor_at_levels(effects, made, pt.zeros, pt.ones)
    scale = values["sigma_delta"][made.design.benchmark_of_item]
    density = marginalised.log_density(level, step * scale, made, made.nodes)
    return float(density.eval(mode=PLAIN))


def test_error_falls_geometrically_with_levels(monkeypatch):
    frame = table(items=(60,), models=5)
    monkeypatch.setattr(lattice, "REACH", 8.0)
    errors = []
    for count in (3, 4, 5, 6, 7):
        monkeypatch.setattr(lattice.make_lattice, "__defaults__", (count,))
        errors.append(_error(frame, monkeypatch, FINENESS=0.5))
    assert (np.array(errors[2:]) < 0.05 * np.array(errors[:-2])).all(), errors
    monkeypatch.setattr(lattice.make_lattice, "__defaults__", (lattice.LEVELS,))
    assert _error(frame, monkeypatch) < 1e-8


def test_error_falls_geometrically_with_nodes(monkeypatch):
    frame = table(items=(30,), models=6, levels=FEW)
    errors = [_error(frame, monkeypatch, FINENESS=step) for step in (4.2, 3.6, 3.0, 2.4)]
    assert (np.array(errors[2:]) < 0.05 * np.array(errors[:-2])).all(), errors
    # At the shipped step it is at most 2 exp(-2 (pi / step)^2) for each item.
    assert _error(frame, monkeypatch, FINENESS=1.2) < 30 * 2 * np.exp(-2 * (np.pi / 1.2) ** 2)


def test_replicated_responses_have_the_distribution_of_the_model():
    frame = table(models=3, items=(14,), levels=(0.1, 0.9))
    built = built_of(spec_of("hierarchical"), frame)
    design = built.design
    values = {
        "theta": np.array([[0.5], [-0.4], [0.1]]),
        "beta": np.array([[2.0], [0.0], [1.0]]),
        "sigma_delta": np.array([1.3]),
    }
    draws = 4000
    with pm.do(built.model, values) as fixed:
        drawn = pm.draw(fixed["n_correct"], draws=draws, random_seed=2, mode="FAST_COMPILE")
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / weight.sum()
    rows = Responses.from_frame(frame).frame  # in the order of the design
    p = logistic(log_odds(doses(rows, built.spec), values, built, z))
    mean = p @ weight
    assert np.abs(drawn.mean(axis=0) - mean).max() < 4.5 * 0.5 / np.sqrt(draws)
    pairs = [
        (i, j) for i in range(len(frame)) for j in range(i) if design.item[i] == design.item[j]
    ]
    others = [(i, j) for i in range(10) for j in range(i) if design.item[i] != design.item[j]]
    together = np.array([(drawn[:, i] * drawn[:, j]).mean() for i, j in pairs])
    expected = np.array([(p[i] * p[j]) @ weight for i, j in pairs])
    assert np.abs(together - expected).max() < 4.5 * 0.5 / np.sqrt(draws)
    covariance = np.mean([np.cov(drawn[:, i], drawn[:, j])[0, 1] for i, j in pairs])
    reported = np.mean(expected - [mean[i] * mean[j] for i, j in pairs])
    assert covariance == pytest.approx(reported, abs=0.004)
    assert reported > 0.03
    apart = [np.cov(drawn[:, i], drawn[:, j])[0, 1] for i, j in others]
    assert np.mean(apart) == pytest.approx(0, abs=0.004)


GUESSING = {"likelihood": {"guess": 0.25}}
GROUPED = {"likelihood": {"trials": "items"}}
BY_PAIR = {"difficulty": {"discrimination": "by_pair"}}
CLEAN = {"contamination": {"interaction": "difficulty"}}
LATENT = table(items=(8,)).assign(shared_1=0.3, contamination_sd=0.05)
SHARED = {"contamination": {"exposure": "shared"}}
OF_PAIRS = table(items=(8,)).assign(contamination=lambda t: (t.index % 7) / 7)
REASONS = {
    "the fit has no item difficulties": ("hierarchical", {}, table(models=1, items=(8,))),
    "items differ in discrimination": ("two_parameter", {}, table(items=(8,))),
    "pairs of model and benchmark differ in discrimination": (
        "hierarchical",
        BY_PAIR,
        table(items=(8,)),
    ),
    "repeated trials have an effect of their own": ("hierarchical", {}, table(trials=4)),
    "items share what is uncertain of their contamination": ("hierarchical", SHARED, LATENT),
    "contamination is uncertain, and confounded with difficulty": (
        "noisy_covariate",
        SENSITIVE,
        LATENT,
    ),
    "contamination adds to accuracy, not to its log-odds": ("additive", {}, table(items=(8,))),
    "answers can be guessed": ("hierarchical", GUESSING, table(items=(8,))),
    "rows count different items": ("hierarchical", GROUPED, table(trials=4)),
    "slopes depend on difficulty, and clean models have none": ("anchored", CLEAN, table()),
    "an item's contamination differs between models": ("hierarchical", {}, OF_PAIRS),
}


@pytest.mark.parametrize("reason", REASONS)
def test_refusals_say_why(reason, monkeypatch):
    name, changed, frame = REASONS[reason]
    spec, responses = spec_of(name, **changed), Responses.from_frame(frame)
    design = make_design(spec, responses)
    terms = plan_terms(spec, design)
    assert reason_not_marginalised(spec, design, terms) == reason
    message = f"difficulties: got 'marginalised', but {reason}; use 'sampled', or 'auto'"
    with pytest.raises(UsageError, match=message):
        make_grid(spec, design, terms, "marginalised")
    monkeypatch.setattr(marginalised, "LARGE", 1)
    assert make_grid(spec, design, terms, "auto") is None
    assert built_of(spec, frame, "auto").lattice is None


def test_slopes_by_difficulty_are_sampled_where_a_twin_was_not_exposed():
    spec, frame = spec_of("interaction", **RELATED), related(table(items=(8, 7)))
    reason = "slopes depend on difficulty, and clean models have none"
    with pytest.raises(UsageError, match=f"got 'marginalised', but {reason}"):
        built_of(spec, frame)


def _planned(spec: ModelSpec, frame: pd.DataFrame, difficulties: str) -> object:
    design = make_design(spec, Responses.from_frame(frame))
    return make_grid(spec, design, plan_terms(spec, design), difficulties)


def test_auto_integrates_large_tables_only(monkeypatch):
    frame, spec = table(items=(200,), levels=FEW), spec_of("hierarchical")
    assert marginalised.LARGE == 50_000
    assert _planned(spec, frame, "auto") is None
    monkeypatch.setattr(marginalised, "LARGE", len(frame))
    assert _planned(spec, frame, "auto") is not None
    assert _planned(spec, frame, "sampled") is None


def test_auto_samples_where_the_lattice_is_not_much_smaller(monkeypatch):
    """So many patterns of missing answers that nearly every item is a group of its own."""
    frame, spec = table(models=8, items=(200,), missing=0.6), spec_of("hierarchical")
    monkeypatch.setattr(marginalised, "LARGE", 1)
    assert _planned(spec, frame, "auto") is None
    assert _planned(spec, frame, "marginalised") is not None
