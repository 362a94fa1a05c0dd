"""The curve's model against sums over all states, and its draws against the integral."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logsumexp
from scipy.stats import norm

from bayescontam.evidence.curve_draws import take_curve
from bayescontam.evidence.curve_model import BuiltCurve, basis, build_curve
from bayescontam.evidence.verdicts import make_verdicts
from bayescontam.specs.curve import CurveSpec, Shape
from bayescontam.specs.registry import load_curve
from tests.support.made_evidence import given_verdict, judged, line, make_draws
from tests.support.model_points import PLAIN

SPEC = load_curve("monotone")
STRAIGHT = CurveSpec(summary="straight", shape=Shape(form="logistic", item_effect=False))
BENCHMARKS, SOURCES = ["quiz", "exam", "bare"], ["web", "books"]
ROWS = [
    judged("q1", "a", 1, "Ada", cosine=0.9, best=0.9),
    judged("q1", "a", 0, "llm:m", cosine=0.9, best=0.9),
    judged("q1", "b", 1, "llm:m", cosine=0.72, best=0.9, source="books"),
    judged("q1", "c", 0, "llm:m", cosine=0.35, best=0.9),
    judged("q2", "d", 0, "Ada", cosine=0.58, best=0.66),
    judged("q2", "e", 0, "llm:m", cosine=0.5, best=0.66, source="books"),
    judged("x", "f", 1, "Ada", cosine=0.66, best=0.66, benchmark="exam"),
]
TRUTH: dict[str, Any] = {
    "sigma_threshold": 0.04, "sigma_steepness": 0.2, "sigma_source": 0.05, "sigma_shape": 0.4,
    "sigma_item": 1.1, "threshold_bar": 0.63, "steepness_bar": 14.0, "threshold_open_bar": 0.7,
    "steepness_open_bar": 17.0, "threshold_offset": np.array([0.5, -1.0, 0.1]),
    "steepness_offset": np.array([-0.3, 0.8, 0.0]), "source_offset": np.array([0.6, -0.6]),
    "bend": np.array([0.5, -0.4, 0.1, 0.3, -0.2, -0.6, 0.3]),
    "sensitivity": np.array([0.96, 0.83]), "specificity": np.array([0.99, 0.9]),
    "share_further": 0.3,
}  # fmt: skip
PLACES = {"a": 1, "b": 4, "c": 60, "d": 1, "e": 2, "f": 1}
"""Places of the documents among those of their items."""
PLACED = [row | {"lead": 0, "lead_cosine": row["cosine"], "place": PLACES[row["document"]]}
          for row in ROWS]  # fmt: skip
FURTHER = [
    PLACED[2] | {"chunk": 3, "cosine": 0.41, "is_duplicate": 0},
    PLACED[2] | {"chunk": 3, "cosine": 0.41, "judge": "Ada"},
    PLACED[4] | {"chunk": 1, "cosine": 0.3},
]
"""Verdicts on other chunks of these documents than the nearest."""


def built(spec: CurveSpec, rows: Any = ROWS, benchmarks: Any = BENCHMARKS) -> BuiltCurve:
    frame = pd.DataFrame(rows, columns=[*(rows[0] if len(rows) else ROWS[0])])
    return build_curve(spec, make_verdicts(frame, benchmarks, SOURCES))


def log_density(of: BuiltCurve, values: dict[str, Any]) -> float:
    """Return the log probability of the judgements for these values of all parameters."""
    names = {variable.name for variable in of.model.free_RVs}
    fixed = pm.do(of.model, {name: values[name] for name in names})
    return float(fixed.compile_logp(mode="FAST_COMPILE")({}))


def by_hand(
    spec: CurveSpec, values: dict[str, Any], judgements: Any = ROWS, reported: Any = None
) -> float:
    """Sum over open or closed items, their effects, and all states of their pairs."""
    bent = spec.shape.form == "monotone"
    higher = values["sigma_threshold"] * values["threshold_offset"]
    steeper = np.exp(values["sigma_steepness"] * values["steepness_offset"])
    draws = make_draws(relative=np.exp(values["sigma_shape"] * values["bend"]) if bent else 1.0)
    shift = values["sigma_source"] * values["source_offset"]
    sigma = values["sigma_item"] if spec.shape.item_effect else 0.0
    z = np.linspace(-8, 8, 1601)
    weight = norm.logpdf(z) - logsumexp(norm.logpdf(z))
    judge = {"Ada": 0, "llm:m": 1}
    total = 0.0
    for (benchmark, item), rows in pd.DataFrame(judgements).groupby(["benchmark", "item"]):
        b = BENCHMARKS.index(str(benchmark))
        slope = values["steepness_open_bar"] * steeper[b]
        middle = values["threshold_open_bar"] + higher[b]
        opened = expit(line(draws, rows["best"].iloc[0], middle, slope)[0])
        of_open = {}  # shares of what is reported of the nearest document, if the item is open
        if reported is not None and item in reported:
            called, share = reported[item]
            odds_ratio = np.exp(values["log_odds_ratio_open"])
            found = given_verdict(opened, odds_ratio, share, called).item()
            more = found / opened
            of_open[rows["best"].iloc[0]] = share * more if called else 1 - (1 - share) * more
            opened = found
        pairs = [part for _, part in rows.groupby("document")]
        p, likelihood = [], []
        for part in pairs:
            middle = (
                values["threshold_bar"] + higher[b] + shift[SOURCES.index(part["source"].iloc[0])]
            )
            slope = values["steepness_bar"] * steeper[b]
            level = line(draws, part["cosine"].max(), middle, slope)[0]
            level -= spec.shape.crowding * np.log(part.get("place", pd.Series([1])).iloc[0])
            p.append(expit(level + sigma * z))
            cosine = part["cosine"].max()
            if reported is not None and part["document"].iloc[0] in reported:
                called, share = reported[part["document"].iloc[0]]
                share = of_open.get(cosine, share)
                slope = values["log_odds_ratio_slope"] * (cosine - 0.7)
                odds_ratio = np.exp(values["log_odds_ratio"] + slope)
                p[-1] = given_verdict(p[-1], odds_ratio, share, called)
            hit = np.array([values["sensitivity"][judge[j]] for j in part["judge"]])
            clear = np.array([values["specificity"][judge[j]] for j in part["judge"]])
            share = np.where(part["chunk"] > 0, values["share_further"], 1.0)
            hit = share * hit + (1 - share) * (1 - clear)
            called = part["is_duplicate"].to_numpy() == 1
            likelihood.append(
                (np.where(called, 1 - clear, clear).prod(), np.where(called, hit, 1 - hit).prod())
            )
        states = sum(
            np.prod([q if t else 1 - q for q, t in zip(p, state, strict=True)], axis=0)
            * np.prod([said[t] for said, t in zip(likelihood, state, strict=True)])
            for state in product([0, 1], repeat=len(pairs))
        )
        closed = np.prod([said[0] for said in likelihood])
        total += np.log(opened * (np.exp(weight) @ states) + (1 - opened) * closed)
    return float(total)


@pytest.mark.parametrize("spec", [SPEC, STRAIGHT], ids=["monotone", "straight"])
def test_the_density_is_the_sum_over_all_states(spec: CurveSpec) -> None:
    model = built(spec)
    assert log_density(model, TRUTH) == pytest.approx(by_hand(spec, TRUTH), abs=2e-4)
    changed = TRUTH | {"threshold_bar": 0.8, "threshold_open_bar": 0.45}
    assert log_density(model, changed) == pytest.approx(by_hand(spec, changed), abs=2e-4)


@pytest.mark.parametrize("crowding", [0.0, 0.7, 1.0])
def test_places_and_further_chunks_are_in_the_density(crowding: float) -> None:
    rows = [*PLACED, *FURTHER]
    shape = SPEC.shape.model_copy(update={"crowding": crowding})
    spec = SPEC.model_copy(update={"shape": shape})
    assert log_density(built(spec, rows), TRUTH) == pytest.approx(
        by_hand(spec, TRUTH, rows), abs=2e-4
    )


REPORTED = {
    "a": (1, 0.7), "b": (1, 0.4), "c": (0, 0.05), "d": (0, 0.2), "e": (1, 0.1), "q1": (1, 0.7),
    "q2": (0, 0.3),
}  # fmt: skip
"""What a trained judge reported of documents, and of the nearest ones of items; and on what share
of such pairs it reports a duplicate. Nobody else read the nearest document of q2."""


def informs(pairs: pd.DataFrame) -> pd.DataFrame:
    found = {}
    for column, suffix in (("document", ""), ("item", "_open")):
        said = [REPORTED.get(name) for name in pairs[column]]
        found[f"sign{suffix}"] = [0.0 if x is None else 2.0 * x[0] - 1 for x in said]
        share = [0.5 if x is None else x[1] if x[0] else 1 - x[1] for x in said]
        found[f"share{suffix}"] = share
    return pairs.assign(**found)


def test_what_a_trained_judge_reported_is_given_and_not_observed() -> None:
    ratios = {"log_odds_ratio": 2.5, "log_odds_ratio_slope": 4.0, "log_odds_ratio_open": 1.3}
    verdicts = make_verdicts(pd.DataFrame(PLACED), BENCHMARKS, SOURCES, informs=informs)
    wanted = by_hand(SPEC, TRUTH | ratios, PLACED, REPORTED)
    assert wanted != pytest.approx(by_hand(SPEC, TRUTH, PLACED), abs=0.1)
    of = build_curve(SPEC, verdicts)
    assert log_density(of, TRUTH | ratios) == pytest.approx(wanted, abs=1e-4)
    assert (of.verdicts.judges, len(of.verdicts)) == (("Ada", "llm:m"), 6)


def test_the_order_of_judgements_does_not_matter() -> None:
    values = TRUTH | {"threshold_bar": 0.6}
    turned = built(SPEC, ROWS[::-1])
    assert log_density(turned, values) == pytest.approx(log_density(built(SPEC), values))


def test_second_runs_change_nothing() -> None:
    again = [*ROWS, judged("q1", "b", 0, "llm:m#2", cosine=0.72, best=0.9, source="books")]
    assert log_density(built(SPEC, again), TRUTH) == pytest.approx(log_density(built(SPEC), TRUTH))


@pytest.fixture(scope="module")
def prior() -> Any:
    """Return 3,000 draws from the prior, and judgements made from each."""
    drawn = pm.sample_prior_predictive(
        3000, model=built(SPEC).model, random_seed=4, compile_kwargs={"mode": "FAST_COMPILE"}
    )
    return drawn["prior"].to_dataset(), drawn["prior_predictive"].to_dataset()


def probabilities(posterior: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return P(open) and log-odds of the pairs given open, for each verdict, and sigma_item."""
    draws, verdicts = take_curve(posterior, SPEC), built(SPEC).verdicts
    pair, item = verdicts.pair, verdicts.item[verdicts.pair]
    bench = verdicts.benchmark[pair]
    level = [
        draws.log_odds(verdicts.cosine[[p]], b, int(verdicts.source[p]))[:, 0]
        for p, b in zip(pair, bench, strict=True)
    ]
    opened = [
        expit(draws.log_odds_open(verdicts.best[[i]], b)[:, 0])
        for i, b in zip(item, bench, strict=True)
    ]
    return np.stack(opened, 1), np.stack(level, 1), draws.sigma_item[:, 0]


def test_made_judgements_have_the_probabilities_of_the_model(prior: Any) -> None:
    """Means and products of two, against sums over states and a quadrature over effects."""
    parameters, made = prior
    verdicts = built(SPEC).verdicts
    called = made["called"].to_numpy()[0]
    hit, clear = (
        parameters[n].to_numpy()[0][:, verdicts.judge] for n in ("sensitivity", "specificity")
    )
    opened, level, sigma = probabilities(parameters)
    z, w = np.polynomial.hermite_e.hermegauss(41)
    w = w / w.sum()
    p = expit(level[..., None] + sigma[:, None, None] * z)
    item = verdicts.item[verdicts.pair]

    def mean_of(v: int, u: int | None = None) -> np.ndarray:
        """Return P(called[v]) or P(called[v] and called[u])."""
        said = [np.stack([1 - clear[:, k], hit[:, k]]) for k in (v, v if u is None else u)]
        if u is None or verdicts.pair[u] == verdicts.pair[v]:
            first, second = said if u is not None else (said[0], np.ones_like(said[0]))
            both = first * second
            q = opened[:, v] * (p[:, v] @ w)
            return both[1] * q + both[0] * (1 - q)
        if item[u] != item[v]:
            return mean_of(v) * mean_of(u)
        one, two = (
            said[k][0][:, None] + (said[k][1] - said[k][0])[:, None] * p[:, x]
            for k, x in enumerate((v, u))
        )
        return opened[:, v] * ((one * two) @ w) + (1 - opened[:, v]) * said[0][0] * said[1][0]

    for v in range(len(verdicts.called)):
        for u in (None, *range(v)):
            q = mean_of(v, u)
            found = called[:, v] if u is None else called[:, v] * called[:, u]
            z_score = (found - q).sum() / np.sqrt((q * (1 - q)).sum())
            assert abs(z_score) < 4.3, (v, u)


def test_draws_are_the_models_own_curve(prior: Any) -> None:
    """The log-odds are steepness × the integral of the relative steepness."""
    draws = take_curve(prior[0], SPEC)[:40]
    cosine = np.array([-0.2, 0.31, 0.4, 0.447, 0.68, 0.9, 0.97])
    for b in range(3):
        for source, shift in (
            (0, draws.source_shift[:, 0]),
            (1, draws.source_shift[:, 1]),
            (-1, 0.0),
        ):
            found = draws.log_odds(cosine, b, source)
            for k, c in enumerate(cosine):
                wanted = line(draws, c, draws.threshold[:, b] + shift, draws.steepness[:, b])
                np.testing.assert_allclose(found[:, k], wanted, atol=1e-9)
        found = draws.log_odds_open(cosine, b)
        wanted = line(draws, 0.68, draws.threshold_open[:, b], draws.steepness_open[:, b])
        np.testing.assert_allclose(found[:, 4], wanted, atol=1e-9)
    each = draws.log_odds(cosine, 0, np.array([0, 1, 0, 1, 0, 1, -1]))
    np.testing.assert_allclose(each[:, 1], draws.log_odds(cosine, 0, 1)[:, 1])
    np.testing.assert_allclose(each[:, 6], draws.log_odds(cosine, 0, -1)[:, 6])


def test_the_parameters_are_built_from_their_parts(prior: Any) -> None:
    parameters = prior[0]
    for suffix in ("", "_open"):
        wanted = (
            parameters[f"threshold{suffix}_bar"]
            + parameters["sigma_threshold"] * parameters["threshold_offset"]
        )
        np.testing.assert_allclose(
            parameters[f"threshold{suffix}"].transpose(*wanted.dims), wanted, atol=1e-4
        )
    np.testing.assert_allclose(parameters["source_shift"].sum("source"), 0.0, atol=1e-9)
    assert (parameters["relative"] > 0).all()
    np.testing.assert_allclose(np.log(parameters["relative"]).sum("segment"), 0.0, atol=1e-9)


def test_every_draw_rises(prior: Any) -> None:
    draws = take_curve(prior[0], SPEC)
    grid = np.linspace(-1, 1, 201)
    for b in range(3):
        assert (np.diff(draws.log_odds(grid, b, 0), axis=1) > 0).all()
        assert (np.diff(draws.log_odds_open(grid, b), axis=1) > 0).all()


def test_terms_that_nothing_can_report_are_left_out() -> None:
    rows = [row | {"benchmark": "quiz", "source": "web"} for row in ROWS]
    frame = pd.DataFrame(rows)
    model = build_curve(STRAIGHT, make_verdicts(frame, ["quiz"], ["web"])).model
    assert {variable.name for variable in model.free_RVs} == {
        "threshold_bar", "steepness_bar", "threshold_open_bar", "steepness_open_bar",
        "sensitivity", "specificity",
    }  # fmt: skip
    without = build_curve(SPEC, make_verdicts(frame.head(0), ["quiz"], ["web"])).model
    assert not without.observed_RVs
    assert not {"sensitivity", "specificity"} & set(without.named_vars)


def test_people_and_models_have_their_own_priors() -> None:
    judges = built(SPEC).model["sensitivity"].owner.inputs
    alpha, beta = (np.asarray(x.eval(mode=PLAIN)) for x in judges[-2:])
    np.testing.assert_allclose(alpha, [97.0, 18.0])
    np.testing.assert_allclose(beta, [3.0, 2.0])


@given(
    cosine=st.lists(st.floats(-1, 1), min_size=1, max_size=5),
    knots=st.lists(st.floats(-0.9, 0.9), min_size=1, max_size=6, unique=True).map(sorted),
)
def test_a_basis_adds_up_to_the_way_from_the_first_knot(
    cosine: list[float], knots: list[float]
) -> None:
    parts = basis(np.array(cosine), np.array([-np.inf, *knots, np.inf]))
    assert parts.shape == (len(cosine), len(knots) + 1)
    np.testing.assert_allclose(parts.sum(axis=1), np.array(cosine) - knots[0], atol=1e-12)
    assert (parts[:, 1:] >= 0).all()
    assert (parts[:, 0] <= 0).all()
