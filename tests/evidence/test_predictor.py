"""A trained judge as predictor: which verdicts are, how often it gives them, what they inform."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

import bayescontam
import bayescontam.evidence.curve
from bayescontam.errors import UsageError
from bayescontam.evidence.covariates import item_contamination
from bayescontam.evidence.curve import Curve, fit_judged_curve
from bayescontam.evidence.curve_draws import RATIOS
from bayescontam.evidence.predictor import chance, reported_share, separated
from bayescontam.report.curve_page import render_curve
from bayescontam.specs.registry import load_curve
from tests.support.made_curve import from_prior
from tests.support.made_evidence import given_verdict, judged, make_draws, make_scan, match

PROBABILITY = st.floats(1e-4, 1 - 1e-4)


@given(PROBABILITY, st.floats(-8, 8), PROBABILITY)
def test_verdicts_inform_by_their_odds_ratio(p: float, log_ratio: float, share: float) -> None:
    found = chance(p, log_ratio, share, np), chance(p, -log_ratio, 1 - share, np)
    assert share * found[0] + (1 - share) * found[1] == pytest.approx(p, rel=1e-6)
    wanted = [given_verdict(p, np.exp(log_ratio), share, called).item() for called in (1, 0)]
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_draws_are_informed_at_their_own_cosines_and_both_ends() -> None:
    draws = make_draws(2, log_odds_ratio=(2.0, 5.0))
    odds = np.array([[[-30.0, 0.0, 40.0, 1.0]], [[1.0, -2.0, 3.0, 0.5]]])
    cosine, sign = np.array([0.5, 0.6, 0.9, 0.8]), np.array([1.0, -1.0, -1.0, 0.0])
    share = np.array([0.2, 0.7, 0.3, 0.5])
    found = draws.informed(odds, cosine, sign, share)
    assert found.shape == odds.shape
    np.testing.assert_array_equal(found[..., 3], odds[..., 3])
    for row in range(2):
        for m, called in ((0, 1), (1, 0)):
            of = share[m] if called else 1 - share[m]
            ratio = np.exp(2.0 + 5.0 * (cosine[m] - 0.7))
            wanted = given_verdict(expit(odds[row, 0, m]), ratio, of, called)
            assert expit(found[row, 0, m]) == pytest.approx(wanted.item(), rel=1e-6, abs=1e-15)
    # Near 1 the odds have digits of their own: all pairs are duplicates, whatever is reported.
    assert found[0, 0, 2] == pytest.approx(40.0 - 3.0 + np.log(0.7 + 0.3 * np.exp(3.0)), abs=1e-6)
    assert np.isfinite(found).all()


def rows(*table: tuple[str, int, str]) -> pd.DataFrame:
    given_ = [
        judged("q", name, called, judge, cosine=0.7, best=0.9) for name, called, judge in table
    ]
    return pd.DataFrame(given_)


def test_a_trained_judge_is_a_predictor_where_others_read_its_pairs() -> None:
    alone = rows(("a", 1, "trained:t"), ("b", 1, "Ada"), ("a", 1, "rule:verbatim"))
    assert separated(alone)[1] is None
    assert separated(alone)[0] is alone
    both = rows(
        ("a", 1, "trained:t"), ("b", 0, "trained:t"), ("a", 1, "Ada"), ("c", 1, "trained:u"),
        ("b", 1, "llm:m#2"),
    )  # fmt: skip
    outcomes, predictor = separated(both)
    assert outcomes["judge"].tolist() == ["Ada", "trained:u", "llm:m#2"]
    assert predictor is not None
    assert (predictor.judge, predictor.read) == ("trained:t", (1, 1))
    assert predictor.reported["sign"].tolist() == [1.0, -1.0]
    with pytest.raises(UsageError, match=r"'trained:t', 'trained:u' are trained.*one of them"):
        separated(pd.concat([both, rows(("c", 1, "Ada"))]))


def test_only_verdicts_on_the_nearest_chunk_of_the_same_text_inform() -> None:
    further: dict[str, Any] = {"chunk": 3, "lead": 0, "lead_cosine": 0.8, "place": 1.0}
    own: dict[str, Any] = {"lead": 0, "lead_cosine": 0.7, "place": 1.0}
    table = pd.DataFrame([
        judged("q", "a", 1, "trained:t", cosine=0.7) | own,
        judged("q", "b", 1, "trained:t", cosine=0.5) | further,
        judged("q", "a", 1, "Ada", cosine=0.7) | own,
    ])  # fmt: skip
    outcomes, predictor = separated(table)
    assert predictor is not None
    documents = pd.DataFrame([
        {"benchmark": "quiz", "item": "q", "source": "web", "document": name, "lead": 0,
         "lead_cosine": cosine}
        for name, cosine in (("a", 0.7), ("a", 0.71), ("b", 0.8), ("c", 0.7))
    ])  # fmt: skip
    assert predictor.joined(documents.iloc[[0]])["sign"].tolist() == [1.0]
    assert predictor.joined(documents)["sign"].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert outcomes["judge"].tolist() == ["Ada"]


def test_only_the_nearest_document_informs_on_its_item() -> None:
    rows = [judged("q", "b", 1, judge, cosine=0.897) for judge in ("trained:t", "Ada")]
    _, predictor = separated(pd.DataFrame(rows))
    assert predictor is not None
    pair = {"benchmark": "quiz", "item": "q", "source": "web", "document": "b", "lead": 0}
    for best, sign in ((0.9, 0.0), (0.897, 1.0)):
        found = predictor.informs(pd.DataFrame([pair | {"lead_cosine": 0.897, "best": best}]))
        assert found[["sign", "sign_open"]].to_numpy().tolist() == [[1.0, sign]]


def test_the_share_that_is_reported_rises_and_is_never_certain() -> None:
    rng = np.random.default_rng(2)
    cosine = rng.uniform(0.3, 0.95, 4000)
    sign = np.where(rng.random(4000) < expit(12 * (cosine - 0.7)), 1.0, -1.0)
    known = pd.DataFrame({"lead_cosine": cosine, "sign": sign})
    at = np.linspace(0.2, 1.0, 81)
    found = reported_share(known, at)
    assert (np.diff(found) >= 0).all()
    assert 0 < found.min() < 0.01 < 0.9 < found.max() < 1
    inside = (at > 0.45) & (at < 0.9)
    # Seven times the standard error of 300 pairs at one half.
    assert abs(found - expit(12 * (at - 0.7)))[inside].max() < 0.2
    one = reported_share(known.head(1), at)
    assert np.unique(one).tolist() in ([0.25], [0.75])


@pytest.fixture(scope="module")
def fitted() -> Curve:
    """Return a curve of Ada, who read 40 of the 60 pairs that a trained judge judged."""
    rng = np.random.default_rng(4)
    table: list[Any] = []
    for i in range(60):
        cosine = float(rng.uniform(0.5, 0.98))
        true, own = int(rng.random() < expit(20 * (cosine - 0.7))), {"cosine": cosine, "kind": ""}
        own |= {"best": cosine}
        table.append(judged(f"q{i}", "d", true, "trained:t") | own)
        if i < 40:
            table.append(judged(f"q{i}", "d", true, "Ada") | own)
    names = {"benchmarks": ["quiz"], "sources": ["web"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bayescontam.evidence.curve, "sample_model", from_prior)
        return fit_judged_curve(
            pd.DataFrame(table), names, load_curve("monotone"), seed=1,
            validated={"trained:t": (45, 5, 245, 5)},
        )  # fmt: skip


def test_a_predictor_is_stored_and_reported(fitted: Curve, tmp_path: Path) -> None:
    assert fitted.judges == ("Ada",)
    assert (fitted.record["pairs"], len(fitted.judged)) == (40, 100)
    # Its validation counts pairs that Ada's verdicts count already.
    assert fitted.validated == {}
    quantities = fitted.summary()["quantity"].tolist()
    assert quantities[-3:] == [*RATIOS]
    check = {check.name: check for check in fitted.checks()}["Judge trained:t"]
    assert check.sentence.startswith("40 of its 60 pairs were judged by people")
    fitted.to_netcdf(tmp_path / "curve.nc")
    again = Curve.from_netcdf(tmp_path / "curve.nc")
    assert again.predictor is not None
    assert (again.predictor.judge, len(again.predictor.reported)) == ("trained:t", 60)
    assert again.outcomes["judge"].unique().tolist() == ["Ada"]
    page = render_curve(again)
    for words in (
        "40 judgements of 40 pairs", "trained:t, 60 pairs, 40 of which",
        "&#39;trained:t&#39; is a predictor", "what a trained judge reports",
    ):  # fmt: skip
        assert words in page


def test_items_that_nobody_read_are_weighed_by_what_it_reported(
    fitted: Curve, tmp_path: Path
) -> None:
    table = fitted.judged
    trained = table[table["judge"] == "trained:t"]
    near = trained[
        trained["cosine"].between(0.65, 0.8) & (trained["item"].str[1:].astype(int) >= 40)
    ]
    scan = make_scan(
        tmp_path, [match(row.item, row.cosine, "d") for row in near.itertuples(index=False)]
    )
    weighed = item_contamination(scan, fitted, draws=200)
    p = 1 - weighed.none_scanned.mean(axis=0)
    called = near["is_duplicate"].to_numpy() == 1
    assert called.any()
    assert not called.all()
    # Though some of those reported have lower cosines.
    assert p[called].min() > p[~called].max()
    assert logit(p[called]).mean() - logit(p[~called]).mean() > 1


def test_curves_of_before_have_no_predictor(fitted: Curve) -> None:
    record = {name: value for name, value in fitted.record.items() if name != "predictor"}
    old = Curve(fitted.data)
    old.__dict__["record"] = record
    assert old.predictor is None
    assert len(old.outcomes) == len(old.judged)


def test_two_trained_judges_are_refused_by_fit_curve(tmp_path: Path) -> None:
    scan = make_scan(tmp_path, [match("q", 0.7, "a")])
    said = rows(("a", 1, "trained:t"), ("a", 1, "trained:u"), ("a", 1, "Ada"))
    with pytest.raises(UsageError, match="one of them"):
        bayescontam.fit_curve(scan, said.drop(columns=["cosine", "best"]))
