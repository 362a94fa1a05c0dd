"""Planned widths and powers against closed forms, quadrature, and real fits."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.special import expit
from scipy.stats import norm

from bayescontam.data.covariates import Covariates
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, UsageError
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import stack_draws
from bayescontam.inference.prior_sampling import sample_prior
from bayescontam.model.build import build
from bayescontam.model.priors import distribution
from bayescontam.power import scenario as scenes
from bayescontam.power import totals
from bayescontam.power.laplace import QUANTITIES
from bayescontam.power.power import PowerRequest, expected_precision, plan, smallest_design
from bayescontam.power.scenario import (
    Assumptions,
    SampleSizes,
    Scenario,
    SimulatedDesign,
    fitted_spreads,
    observed_contamination,
)
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.compiled_model import Compiled

ALIKE = dict.fromkeys(
    ("sigma_a", "sigma_theta", "sigma_bm", "sigma_bb", "sigma_bmb", "sigma_delta", "sigma_eps"), 0.0
)
"""Spreads of a world in which all models and items are alike."""
Z = norm.ppf(0.975)


def scene(sizes: SampleSizes, spec: str = "single", **truth: object) -> Scenario:
    return Scenario(sizes, Assumptions(**truth), load_model(spec))  # type: ignore[arg-type]


def ready(given: Scenario, one: SimulatedDesign) -> Responses:
    """Return a simulated data set as a table."""
    table = given.table.assign(n_correct=one.counts.astype(int))
    return Responses.from_frame(table)


# The prior of the approximation is the one that fits have.


@pytest.mark.parametrize("name", ["hierarchical", "single", "anchored"])
def test_components_have_the_covariance_of_the_built_model(name: str) -> None:
    sizes = SampleSizes(20, 4, 3, 1, clean=1 if name == "anchored" else 0)
    given = scene(sizes, name)
    built = build(given.spec, ready(given, given.simulate(1, 0)))
    values = {"sigma_a": 0.8, "sigma_theta": 0.5, "sigma_bm": 0.6, "sigma_bb": 0.3,
              "sigma_bmb": 0.4}  # fmt: skip
    spreads = {**ALIKE, **values}
    inside = built.model.named_vars
    fixed = {key: spreads[key] for key in values if key in inside}
    model = pm.do(built.model, fixed) if fixed else built.model
    names = [kind for kind in given.crossed.kinds if kind != "kappa"]
    drawn = sample_prior(model, names, 6000, np.random.default_rng(1))
    flat = np.concatenate([drawn[kind].to_numpy().reshape(6000, -1) for kind in names], axis=1)
    expected = np.zeros((flat.shape[1], flat.shape[1]))
    for part in given.parts:
        loadings = part.matrix[:2].reshape(flat.shape[1], -1) * part.scale(spreads)
        expected += loadings @ loadings.T
    if name == "single":  # its abilities are logistic: the Normal of their quartiles is narrower
        cells = flat.shape[1] // 2
        flat, expected = flat[:, cells:], expected[cells:, cells:]
    sd = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    error = np.abs(np.cov(flat.T) - expected)
    assert (error <= 0.09 * np.where(sd > 0, sd, 1e-9)).all()
    assert np.abs(flat.mean(axis=0)).max() < 0.12


def test_log_odds_add_up_as_the_features_say() -> None:
    given = scene(SampleSizes(30, 3, 2, clean=1), "anchored")
    effects = np.random.default_rng(0).normal(size=(3, 6))
    effects[2] = np.tile(effects[2, :2], 3)  # the regression on contamination is shared
    cells = effects.reshape(3, 3, 2).swapaxes(1, 2)[:, :, None, :]
    by_hand = (given.crossed.features() * cells).sum(axis=0)
    assert by_hand == pytest.approx(given.crossed.log_odds(effects))


# Simulated data are what was supposed.


@pytest.mark.parametrize(
    "spreads", [{}, {"sigma_delta": 2.0, "sigma_eps": 1.5}], ids=["alike", "spread"]
)
def test_average_accuracy_is_the_supposed_one(spreads: Mapping[str, float]) -> None:
    given = scene(
        SampleSizes(2000, 2, 2, 3), "hierarchical", accuracy=0.7, spreads={**ALIKE, **spreads},
    )  # fmt: skip
    given.parts[:] = [part for part in given.parts if part.overall]  # no model is better
    mean = np.mean([given.simulate(3, r).counts.mean() / 3 for r in range(4)])
    assert mean == pytest.approx(0.7, abs=0.01)


def test_designs_of_all_sizes_share_the_spreads() -> None:
    small, large = (scene(SampleSizes(items, 3), "hierarchical") for items in (50, 400))
    for replicate in range(3):
        assert small.simulate(1, replicate).spreads == large.simulate(1, replicate).spreads
    assert small.simulate(1, 0).spreads != small.simulate(1, 1).spreads
    assert small.simulate(1, 0).spreads != small.simulate(2, 0).spreads


def test_true_estimands_follow_from_their_definition() -> None:
    given = scene(SampleSizes(100, 1), spreads=ALIKE, contamination=0.25, slope=2.0, accuracy=0.5)
    one = given.simulate(1, 0)
    level = one.effects[0, 0]
    clean, dirty = expit(level - 2.0 * 0.25), expit(level + 2.0 * 0.75)
    accuracy = 0.75 * clean + 0.25 * dirty
    expected = [accuracy, clean, accuracy - clean, 2.0]
    assert given.true(one)[:, 0, 0] == pytest.approx(expected)
    assert accuracy == pytest.approx(0.5)


def test_given_contaminations_keep_their_spread_in_few_items() -> None:
    values = np.random.default_rng(0).beta(1, 3, 5000)
    few = Assumptions(contamination=[values]).of_items(0, 50)
    assert few.mean() == pytest.approx(values.mean(), abs=0.01)
    assert few.std() == pytest.approx(values.std(), rel=0.05)
    assert set(few) <= set(values)


# The approximation is right.


def posterior_by_grid(k: np.ndarray, d: np.ndarray, reference: float) -> dict[str, np.ndarray]:
    """Return estimands of one model and their posterior weights on a grid."""
    theta, beta = np.meshgrid(np.linspace(-3, 3, 241), np.linspace(-6, 8, 281), indexing="ij")
    dose = d - d.mean()
    log = -np.log(4.0) - 2 * np.log(np.cosh(theta / 2)) - beta**2 / 8
    accuracy, genuine = np.zeros(theta.shape), np.zeros(theta.shape)
    for value in np.unique(d):
        here = d == value
        eta = theta + beta * dose[here][0]
        log += k[here].sum() * eta - here.sum() * np.logaddexp(0, eta)
        accuracy += here.mean() * expit(eta)
        genuine += here.mean() * expit(theta + beta * (reference - d.mean()))
    weight = np.exp(log - log.max())
    return {
        "weight": weight / weight.sum(), "accuracy": accuracy, "genuine_ability_direct": genuine,
        "overfitting_direct": accuracy - genuine, "slope": beta,
    }  # fmt: skip


def test_single_posterior_is_that_of_a_grid() -> None:
    given = scene(SampleSizes(120), contamination=[np.array([0.0, 0.2, 0.5, 1.0])])
    for replicate in range(3):
        one = given.simulate(5, replicate)
        mean, sd = given.fitted(one)
        grid = posterior_by_grid(one.counts, given.crossed.design.contamination, 0.0)
        for place, name in enumerate(QUANTITIES):
            exact = (grid["weight"] * grid[name]).sum()
            exact_sd = np.sqrt((grid["weight"] * (grid[name] - exact) ** 2).sum())
            assert mean[place, 0, 0] == pytest.approx(exact, abs=0.15 * exact_sd)
            assert sd[place, 0, 0] == pytest.approx(exact_sd, rel=0.06)


def test_width_of_genuine_ability_is_that_of_a_proportion() -> None:
    given = scene(SampleSizes(1000), spreads=ALIKE, contamination=0.4, accuracy=0.6, slope=1.0)
    clean = given.true(given.simulate(1, 0))[1, 0, 0]
    width = np.median(expected_precision(given, PowerRequest(data_sets=20), 1).widths)
    assert width == pytest.approx(2 * Z * np.sqrt(clean * (1 - clean) / 600), rel=0.02)


def test_power_is_that_of_two_proportions() -> None:
    given = scene(SampleSizes(600), spreads=ALIKE, contamination=0.3, accuracy=0.6, slope=0.5)
    level = given.simulate(1, 0).effects[0, 0]
    p = expit(level + 0.5 * np.array([-0.3, 0.7]))
    error = np.sqrt((p * (1 - p) / np.array([420, 180])).sum())
    exact = norm.sf(Z - (p[1] - p[0]) / error)
    table = plan([given.sizes], given.truth, given.spec, PowerRequest(data_sets=400), seed=2)
    assert 0.6 < exact < 0.9
    assert table["power"][0] == pytest.approx(exact, abs=4 * table["power_mcse"][0])
    assert 0.015 < table["power_mcse"][0] < 0.025


def test_detectable_slope_is_2_8_standard_errors() -> None:
    given = scene(SampleSizes(2000), spreads=ALIKE, contamination=0.5, accuracy=0.5, slope=0.0)
    detectable = np.median(expected_precision(given, PowerRequest(data_sets=20), 1).detectable)
    assert detectable == pytest.approx(2.802 * np.sqrt(2 * 4 / 1000), rel=0.03)


@pytest.mark.parametrize(
    ("spec", "sizes", "sets", "least", "most"),
    [
        ("single", SampleSizes(600), 400, 0.72, 0.86),
        # Pairs are more alike here than a fit can know, so that more is found than promised.
        ("hierarchical", SampleSizes(400, 4, 2), 40, 0.76, 0.96),
    ],
)
def test_a_detectable_slope_is_found_with_the_stated_probability(
    spec: str, sizes: SampleSizes, sets: int, least: float, most: float
) -> None:
    slope = 0.0
    for _ in range(2):  # what is detectable depends a little on the slope itself
        world = {"spreads": ALIKE, "contamination": 0.5, "accuracy": 0.5, "slope": slope}
        slope = float(
            np.median(
                expected_precision(
                    scene(sizes, spec, **world), PowerRequest(data_sets=20), 1
                ).detectable
            )
        )
    world["slope"] = slope
    found = expected_precision(
        scene(sizes, spec, **world), PowerRequest(data_sets=sets), 2
    ).shown.mean()
    assert least < found < most


def test_without_an_effect_overfitting_is_shown_one_time_in_twenty() -> None:
    given = scene(SampleSizes(300), spreads=ALIKE, slope=0.0)
    expected = expected_precision(given, PowerRequest(data_sets=400), 1)
    assert expected.shown.mean() == pytest.approx(0.05, abs=0.035)
    assert expected.overfitting == pytest.approx(0.0)


def test_items_that_stand_for_several_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Effects of responses are of a known spread: a drawn one sets what 25 data sets detect."""
    sizes, wish, spreads = SampleSizes(2400, 3), PowerRequest(data_sets=25), {"sigma_eps": 1.0}
    whole = expected_precision(scene(sizes, "hierarchical", spreads=spreads), wish, 1)
    monkeypatch.setattr(scenes, "MOST_ROWS", 1200)
    part = expected_precision(scene(sizes, "hierarchical", spreads=spreads), wish, 1)
    assert np.median(part.widths) == pytest.approx(np.median(whole.widths), rel=0.04)
    assert np.median(part.detectable) == pytest.approx(np.median(whole.detectable), rel=0.05)
    assert part.shown.mean() == pytest.approx(whole.shown.mean(), abs=0.12)


def test_effects_without_a_term_are_averaged_over() -> None:
    given = scene(SampleSizes(1500), "single", spreads={"sigma_eps": 2.0})
    assert "eps" not in given.terms
    data = [given.simulate(1, r) for r in range(30)]
    error = [given.fitted(one).mean[:3, 0, 0] - given.true(one)[:3, 0, 0] for one in data]
    assert np.mean(error, axis=0) == pytest.approx(np.zeros(3), abs=0.006)
    spreads, factor = fitted_spreads(data[0].spreads, given.terms)
    assert "sigma_eps" not in spreads
    # The usual factor of a logistic-Normal, by quadrature at a log-odds of 1.
    z, weight = np.polynomial.hermite_e.hermegauss(61)
    mean = np.average(expit(1.0 + 2.0 * z), weights=weight)
    assert factor == pytest.approx(np.log(mean / (1 - mean)), rel=0.07)


def fits(given: Scenario, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean widths of 95 % intervals as planned and as sampled, dims (quantity,)."""
    planned, sampled, compiled = [], [], None
    for replicate in range(count):
        one = given.simulate(7, replicate)
        planned.append(2 * Z * given.fitted(one).sd[:, given.reported])
        built = build(given.spec, ready(given, one))
        compiled = compiled or Compiled(built)
        draws = stack_draws(compiled.draw(built, 1, cores=1), built.design)
        reported_values = estimands(draws, built, (2, 500), "min_observed")["estimands"]
        ends = [
            np.stack([reported_values[name].quantile(q, ("chain", "draw")) for name in QUANTITIES])
            for q in (0.025, 0.975)
        ]
        sampled.append((ends[1] - ends[0])[:, given.reported])
    return np.mean(planned, axis=(0, 2, 3)), np.mean(sampled, axis=(0, 2, 3))


@pytest.mark.slow
def test_planned_widths_are_those_of_fits() -> None:
    """Of more designs, several models among them, ``benchmarks/test_plan.py`` shows it."""
    planned, sampled = fits(scene(SampleSizes(400), "single"), 6)
    ratio = planned / sampled
    assert ratio[:2] == pytest.approx([1, 1], abs=0.1)
    assert ratio[2] == pytest.approx(1, abs=0.15)


# Tables and searches say what they should.


def test_table_has_a_row_for_each_design() -> None:
    designs = [SampleSizes(100), SampleSizes(400)]
    table = plan(
        designs, Assumptions(), load_model("single"), PowerRequest(width=0.15, data_sets=20), seed=1
    )
    assert table["items"].tolist() == [100, 400]
    assert (table["width_low"] <= table["width"]).all()
    assert (table["width"] <= table["width_high"]).all()
    assert table["width"][0] / table["width"][1] == pytest.approx(2.0, rel=0.05)
    assert table["p_width"].tolist() == [0.0, 1.0]
    assert (table["p_width_mcse"] > 0).all()
    again = plan(
        designs, Assumptions(), load_model("single"), PowerRequest(width=0.15, data_sets=20), seed=1
    )
    pd.testing.assert_frame_equal(table, again)
    bare = plan(
        designs[:1], Assumptions(), load_model("single"), PowerRequest(data_sets=20), seed=1
    )
    assert "p_width" not in bare


def test_solved_items_follow_the_formula() -> None:
    truth = Assumptions(accuracy=0.6, slope=1.0, contamination=0.5, spreads=ALIKE)
    request = PowerRequest(width=0.1, data_sets=20)
    found = smallest_design("items", SampleSizes(2), truth, load_model("single"), request, seed=1)
    given = Scenario(SampleSizes(1000), truth, load_model("single"))
    clean = given.true(given.simulate(1, 0))[1, 0, 0]
    exact = 2 * (2 * Z / 0.1) ** 2 * clean * (1 - clean)
    assert found.sizes is not None
    assert found.sizes.items == pytest.approx(exact, rel=0.08)
    row = found.table.set_index("items").loc[found.sizes.items]
    assert row["p_width"] >= 0.8
    smaller = found.table[found.table["items"] < found.sizes.items]
    assert (smaller["p_width"] < 0.8).all()
    assert found.sentence.startswith(f"{found.sizes.items:,} items give a width of 0.1")


def test_solved_items_are_those_of_each_benchmark() -> None:
    truth = Assumptions(accuracy=0.6, slope=1.0, contamination=0.5, spreads=ALIKE)
    request = PowerRequest(width=0.3, data_sets=10)
    sizes = SampleSizes(2, benchmarks=3)
    found = smallest_design("items", sizes, truth, load_model("single"), request, seed=1)
    assert found.sizes is not None
    each = found.sizes.items
    start = f"{each:,} items of each of 3 benchmarks ({3 * each:,} in all) give a width of 0.3"
    assert found.sentence.startswith(start)


def test_spreads_of_twins_are_drawn_independently_and_whole() -> None:
    spec = load_model("twins")
    drawn = pd.DataFrame(list(totals._spread_draws(spec, repeated=True)))
    ranks = drawn.rank().corr().to_numpy()
    assert np.abs(ranks[np.triu_indices(len(ranks), 1)]).max() < 0.2
    for name in drawn:
        at = distribution(getattr(spec.priors, name)).cdf(drawn[name])
        assert at.mean() == pytest.approx(0.5, abs=0.01)
        assert (at.min(), at.max()) == pytest.approx((0, 1), abs=0.02)


def test_what_is_not_reached_is_said() -> None:
    wish, spec = PowerRequest(width=0.01, data_sets=10), load_model("single")
    found = smallest_design(
        "items", SampleSizes(2), Assumptions(spreads=ALIKE), spec, wish, seed=1, most=500
    )
    assert found.sizes is None
    assert found.table["items"].max() == 500
    assert "Not reached with 500 items" in found.sentence
    # 4 p (1 - p) (1.96 / 0.01)² / 0.7 items, of a p near one half
    needed = int(found.sentence.split("about ")[1].split(" would")[0].replace(",", ""))
    assert needed == pytest.approx((2 * Z / 0.01) ** 2 * 0.25 / 0.7, rel=0.1)
    more = smallest_design(
        "models", SampleSizes(50), Assumptions(), load_model("hierarchical"), wish, seed=1, most=3
    )
    assert more.sizes is None
    assert "number of items" in more.sentence


def test_generations_and_the_fewest() -> None:
    wish, spec = PowerRequest("overfitting_direct", 0.99, data_sets=10), load_model("hierarchical")
    found = smallest_design("generations", SampleSizes(40, 2), Assumptions(), spec, wish, seed=1)
    assert found.sizes == SampleSizes(40, 2, 1, 1)
    assert found.sentence.startswith("1 generation, the fewest tried")


def test_observed_contamination_is_that_of_items() -> None:
    frame = pd.DataFrame(
        {
            "model": ["m", "m", "m", "n"], "benchmark": ["a", "a", "b", "b"],
            "item": ["1", "2", "1", "1"], "correct": [1, 0, 1, 0],
            "contamination": [0.1, 0.2, 0.3, 0.3],
        }
    )  # fmt: skip
    reported_values = observed_contamination(Responses.from_frame(frame))
    assert [values.tolist() for values in reported_values] == [[0.1, 0.2], [0.3]]
    covariates = frame.loc[[0, 1], ["benchmark", "item", "contamination"]]
    reported_values = observed_contamination(Covariates.from_frame(covariates))
    assert [values.tolist() for values in reported_values] == [[0.1, 0.2]]
    frame.loc[3, "contamination"] = 0.4
    with pytest.raises(DataError, match="differs between models: '1'"):
        observed_contamination(Responses.from_frame(frame))
    with pytest.raises(DataError, match="no column 'contamination'"):
        observed_contamination(Responses.from_frame(frame.drop(columns="contamination")))


# What cannot be planned is refused.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SampleSizes(1), "items: got 1; allowed is 2 or more"),
        (lambda: SampleSizes(10, 0), "models: got 0"),
        (lambda: SampleSizes(10, 300), "300 models × benchmarks; at most 200"),
        (lambda: SampleSizes(10, 2, clean=2), "clean: got 2"),
        (lambda: Assumptions(accuracy=1.0), "accuracy: got 1.0"),
        (lambda: Assumptions(slope=float("nan")), "slope: got nan"),
        (lambda: Assumptions(contamination=0.0), "no number of them shows a slope"),
        (lambda: Assumptions(contamination=0.001).of_items(0, 50), "is 0 of them"),
        (
            lambda: Assumptions(contamination=[np.full(9, 0.3)]).of_items(0, 9),
            "all items of benchmark 1",
        ),
        (lambda: Assumptions(spreads={"sigma_ep": 1.0}), "did you mean 'sigma_eps'"),
        (lambda: Assumptions(spreads={"sigma_eps": -1.0}), "allowed is 0 to 100"),
        (lambda: PowerRequest(width=0.0), "width: got 0; allowed is more than 0"),
        (lambda: PowerRequest("ability"), "quantity: got 'ability'"),  # type: ignore[arg-type]
        (lambda: PowerRequest(assurance=1.0), "assurance: got 1.0"),
        (lambda: PowerRequest(data_sets=3), "data_sets: got 3"),
        (lambda: scene(SampleSizes(20), "positive"), "contamination.sign = 'positive'"),
        (lambda: scene(SampleSizes(20), "concepts"), "ability.by = 'concept'"),
        (lambda: scene(SampleSizes(20, 3), "anchored"), "clean: got 0"),
        (lambda: scene(SampleSizes(20, 3, clean=1), "hierarchical"), "clean: got 1"),
    ],
)  # fmt: skip
def test_impossible_plans_are_refused(make: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()  # type: ignore[operator]


def test_accuracy_below_guessing_is_refused() -> None:
    spec = load_model("single")
    likelihood = spec.likelihood.model_copy(update={"guess": 0.25})
    guessing: ModelSpec = spec.model_copy(update={"likelihood": likelihood})
    with pytest.raises(UsageError, match="more than blind guessing"):
        Scenario(SampleSizes(20), Assumptions(accuracy=0.2), guessing)
    given = Scenario(SampleSizes(400), Assumptions(accuracy=0.5, spreads=ALIKE), guessing)
    assert given.simulate(1, 0).counts.mean() == pytest.approx(0.5, abs=0.08)


def test_solve_needs_a_width_and_a_range() -> None:
    spec = load_model("single")
    with pytest.raises(UsageError, match="needs the wanted width"):
        smallest_design("items", SampleSizes(20), Assumptions(), spec, PowerRequest(), seed=1)
    with pytest.raises(UsageError, match="most: got 5"):
        smallest_design(
            "items", SampleSizes(20), Assumptions(), spec, PowerRequest(width=0.1), seed=1, most=5
        )
    with pytest.raises(UsageError, match="solve: got 'item'"):
        smallest_design(
            "item", SampleSizes(20), Assumptions(), spec, PowerRequest(width=0.1), seed=1
        )  # type: ignore[arg-type]
