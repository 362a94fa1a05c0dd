"""What of an item's tail sample are duplicates: closed forms on a scan made by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit

from bayescontam.evidence.covariates import item_contamination
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.prevalence import prevalence
from bayescontam.evidence.rate import duplicate_rate
from tests.support.made_evidence import (
    given_verdict,
    judged,
    line,
    make_curve,
    make_draws,
    make_scan,
    match,
)

DRAWS = make_draws(3, sources=2, threshold=[[0.65], [0.6], [0.72]], source_shift=[0.01, -0.01])
MANY = make_draws(4000, sources=2)
SOURCES = ("web", "books")
MATCHES = [
    match("q1", 0.9, "a"),
    match("q1", 0.7, "b", source="books", copies=2),
    match("q2", 0.55, "c"),
]
TAIL = [
    match("q1", 0.7, "b", source="books", copies=2),
    match("q1", 0.5, "d"),
    match("q1", 0.45, "d", chunk=1),
    match("q2", 0.3, "e"),
]


def p_of(cosine: float, source: int) -> np.ndarray:
    middle = DRAWS.threshold[:, 0] + DRAWS.source_shift[:, source]
    return expit(line(DRAWS, cosine, middle, DRAWS.steepness[:, 0]))


def p_open(best: float) -> np.ndarray:
    return expit(line(DRAWS, best, DRAWS.threshold_open[:, 0], DRAWS.steepness_open[:, 0]))


def with_share(curve: Curve, share: float) -> Curve:
    """Return the curve with this probability that a further chunk is a duplicate."""
    posterior = curve.data["posterior"].to_dataset()
    shares = xr.full_like(posterior["sigma_item"], share)
    posterior = posterior.assign(share_further=shares)
    groups = {name: group.to_dataset() for name, group in curve.data.children.items()}
    return Curve(xr.DataTree.from_dict(groups | {"posterior": posterior}))


def test_the_probability_of_none_has_a_closed_form(tmp_path: Path) -> None:
    scan = make_scan(tmp_path, MATCHES, tail=TAIL, items=[("quiz", "empty")])
    tail = item_contamination(scan, make_curve(DRAWS, sources=SOURCES), draws=3).tail
    # Both chunks of "d" are one document; below the floor, "e" counts as clean.
    none = (1 - p_of(0.7, 1)) * (1 - p_of(0.5, 0))
    np.testing.assert_allclose(tail.none[:, 0], 1 - p_open(0.9) + p_open(0.9) * none, rtol=1e-5)
    np.testing.assert_allclose(tail.none[:, 1:], 1.0, rtol=1e-5)
    assert tail.sampled.tolist() == [3, 1, 0]
    assert tail.copies.tolist() == [4, 1, 0]
    assert tail.item.tolist() == [0, 1, 2]
    assert tail.source.tolist() == ["", "", ""]
    assert tail.searched.tolist() == [5, 2, 0]
    assert tail.number.shape == (3, 3)


def test_of_a_document_that_was_drawn_by_a_further_chunk(tmp_path: Path) -> None:
    rows = [match("q1", 0.9, "a")], [match("q1", 0.6, "a", chunk=1)]
    scan = make_scan(tmp_path, rows[0], tail=rows[1])
    curve = with_share(make_curve(DRAWS, sources=SOURCES), 0.3)
    tail = item_contamination(scan, curve, draws=3).tail
    np.testing.assert_allclose(tail.none[:, 0], 1 - 0.3 * p_open(0.9) * p_of(0.9, 0), rtol=1e-5)
    said = [judged("q1", "a", 1), judged("q1", "a", 1, chunk=1)]
    curve = make_curve(DRAWS, sources=SOURCES, judged=said, judges={"Ada": (0.9, 0.95)})
    tail = item_contamination(scan, with_share(curve, 0.3), draws=3).tail
    holds = p_open(0.9) * p_of(0.9, 0)
    # Both verdicts inform on the document, the second by a chunk that need not be a duplicate.
    said_so = 0.9 * (0.3 * 0.9 + 0.7 * 0.05)
    holds = holds * said_so / (holds * said_so + (1 - holds) * 0.05**2)
    within = 0.3 * 0.9 / (0.3 * 0.9 + 0.7 * 0.05)
    np.testing.assert_allclose(tail.none[:, 0], 1 - within * holds, rtol=1e-5)


def test_verdicts_on_drawn_texts_count(tmp_path: Path) -> None:
    scan = make_scan(tmp_path, [match("q1", 0.9, "a")], tail=[match("q1", 0.3, "z")])
    said = [judged("q1", "z", 1)]
    curve = make_curve(DRAWS, sources=SOURCES, judged=said, judges={"Ada": (0.9, 0.95)})
    tail = item_contamination(scan, curve, draws=3).tail
    p = p_open(0.9) * p_of(0.3, 0)
    np.testing.assert_allclose(1 - tail.none[:, 0], p * 0.9 / (p * 0.9 + (1 - p) * 0.05), rtol=1e-5)


def test_what_a_trained_judge_reported_of_drawn_texts_counts(tmp_path: Path) -> None:
    scan = make_scan(tmp_path, [match("q1", 0.9, "a")], tail=[match("q1", 0.6, "z")])
    said = [
        judged("q1", "z", 1, "trained:t", cosine=0.6), judged("q1", "a", 0, "trained:t", cosine=0.9)
    ]  # fmt: skip
    # Somebody read a document that this scan lacks.
    said += [judged("q9", "x", 1, name, cosine=0.9) for name in ("trained:t", "Ada")]
    draws = make_draws(3, threshold=[[0.65], [0.6], [0.72]], log_odds_ratio=(3.0, 10.0, 2.0))
    curve = make_curve(draws, judged=said, judges={"Ada": (0.9, 0.95)}, predictor="trained:t")
    assert curve.predictor is not None
    far, near = (
        float(curve.predictor.joined(row)["share"].item())
        for row in (tail_rows("q1", "z", 0.6), tail_rows("q1", "a", 0.9))
    )
    tail = item_contamination(scan, curve, draws=3).tail
    p = expit(line(draws, 0.6, draws.threshold[:, 0], draws.steepness[:, 0]))
    opened = p_open(0.9)
    open_ = np.array([given_verdict(x, float(np.exp(2.0)), 1 - near, 0).item() for x in opened])
    p = open_ * given_verdict(p, float(np.exp(3.0 - 1.0)), far, 1)
    np.testing.assert_allclose(1 - tail.none[:, 0], p, rtol=1e-5)


def tail_rows(item: str, document: str, cosine: float) -> pd.DataFrame:
    row = judged(item, document, 1, cosine=cosine)
    return pd.DataFrame([row | {"lead": 0, "lead_cosine": cosine}])


def test_draws_have_the_expected_numbers(tmp_path: Path) -> None:
    scan = make_scan(tmp_path, MATCHES, tail=TAIL)
    curve = with_share(make_curve(MANY, sources=SOURCES), 0.5)
    tail = item_contamination(scan, curve, draws=4000).tail
    open_ = float(expit(12.0 * 0.3))
    b, d = (open_ * float(expit(15.0 * x)) for x in (0.05, -0.15))
    error = 4 / np.sqrt(4000)
    assert tail.number[:, 0].mean() == pytest.approx(b + 1.5 * d, abs=error)
    assert tail.occurrences[:, 0].mean() == pytest.approx(2 * b + 1.5 * d, abs=error)
    assert (tail.number[:, 0] == 0).mean() == pytest.approx(tail.none[0, 0], abs=error)
    assert tail.number[:, 1].max() == 0


def test_each_source_has_a_part_of_its_own(tmp_path: Path) -> None:
    rows = [match("q1", 0.9, "a"), match("q1", 0.7, "b", source="books")]
    tail = [match("q1", 0.5, "c"), match("q1", 0.6, "d", source="books")]
    scan = make_scan(tmp_path, rows, tail=tail, per_source=1)
    weighed = item_contamination(scan, make_curve(DRAWS, sources=SOURCES), draws=3)
    assert weighed.tail.source.tolist() == ["web", "books"]
    assert weighed.tail.item.tolist() == [0, 0]
    assert weighed.tail.size.tolist() == [2, 2]
    assert weighed.tail.sampled.tolist() == [1, 1]
    none = 1 - p_open(0.9) + p_open(0.9) * (1 - p_of(0.5, 0)) * (1 - p_of(0.6, 1))
    np.testing.assert_allclose(weighed.tail.none[:, 0], none, rtol=1e-5)
    table = prevalence(weighed).set_index(["by", "group"])
    assert table.loc[("tail", "1"), "mean"] == pytest.approx(1 - none.mean())
    assert duplicate_rate(weighed).iloc[0]["sampled"] == 2
