"""Matches of a scan item by item: what is reported one by one, and what only the histogram has."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from bayescontam.evidence.curve import Curve
from bayescontam.evidence.item_matches import Matched, Matches
from bayescontam.evidence.kinds import KINDS
from bayescontam.scan.results import Scan
from tests.support.made_evidence import Row, judged, make_curve, make_draws, make_scan, match

LISTED = [
    match("q1", 0.9, "a"),
    match("q1", 0.61, "b", source="books", copies=3),
    match("q1", 0.352, "low"),
    match("q2", 0.55, "a", chunk=1),
]
TAIL = [match("q1", 0.5, "t", copies=2), match("q1", 0.44, "u"), match("q1", 0.9, "a")]
UNLISTED = [
    match("q1", 0.4, "x", copies=7),
    match("q1", 0.409, "y", copies=2),
    match("q1", 0.612, "z", source="books"),
    match("q2", 0.401, "v", source="books", copies=10),
    match("q2", 0.349, "w", copies=1000),
]
JUDGES = {"Ada": (0.9, 0.95), "llm:m": (0.8, 0.7)}
SHARES = {"web": 1.0, "books": 1.0}


def matches_of(
    scan: Scan, said: list[Row] | None = None, floor: float = 0.35, **options: Any
) -> dict[str, Matched]:
    curve = make_curve(
        make_draws(3, sources=2),
        sources=("web", "books"),
        judged=said or [],
        judges=JUDGES,
        **options,
    )
    found = Matches(scan, curve, floor, 2)
    return dict(zip(scan.items["item"], found, strict=True))


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    return make_scan(
        tmp_path, LISTED, tail=TAIL, unlisted=UNLISTED, items=[("quiz", "q3")], shares=SHARES
    )


def test_best_matches_come_first(scan: Scan) -> None:
    found = matches_of(scan)
    q1 = found["q1"]
    np.testing.assert_allclose(q1.cosine, [0.9, 0.61, 0.352], rtol=1e-6)
    assert q1.listed == 3
    assert q1.best == pytest.approx(0.9)
    assert q1.source.tolist() == [0, 1, 0]
    assert q1.copies.tolist() == [[1, 0], [0, 3], [1, 0]]
    assert not q1.judged.any()
    assert q1.kind.tolist() == [-1, -1, -1]
    assert len(found["q3"].cosine) == 0
    assert len(found["q3"].rest_count) == 0


def rest(of: Matched) -> Mapping[tuple[float, int], float]:
    keys = zip(of.rest_cosine.round(6).tolist(), of.rest_source.tolist(), strict=True)
    return dict(zip(keys, of.rest_count.tolist(), strict=True))


def test_the_rest_is_the_histogram_less_what_is_listed(scan: Scan) -> None:
    """Bins are 0.01 wide and shared over sources as all items' cosines in the bin are."""
    found = matches_of(scan)
    # In 0.40 to 0.41 lie 9 of q1 (web) and 10 of q2 (books): both are shared 9 to 10.
    # Of 0.44 and 0.50 only the tail shows, and without a verdict they stay in the histogram.
    assert rest(found["q1"]) == pytest.approx(
        {(0.405, 0): 9 * 9 / 19, (0.405, 1): 9 * 10 / 19, (0.445, 0): 1.0, (0.505, 0): 2.0,
         (0.615, 1): 1.0}
    )  # fmt: skip
    assert rest(found["q2"]) == pytest.approx({(0.405, 0): 10 * 9 / 19, (0.405, 1): 10 * 10 / 19})


def test_judged_matches_of_the_tail_are_reported(scan: Scan) -> None:
    said = [judged("q1", "t", 1), judged("q1", "b", 0, source="books"), judged("q1", "a", 1)]
    q1 = matches_of(scan, said)["q1"]
    np.testing.assert_allclose(q1.cosine, [0.9, 0.61, 0.352, 0.5], rtol=1e-6)
    assert q1.listed == 3
    assert q1.copies.tolist() == [[1, 0], [0, 3], [1, 0], [2, 0]]
    assert q1.judged.tolist() == [True, True, False, True]
    assert (0.505, 0) not in rest(q1)
    hit, clear = JUDGES["Ada"]
    wanted = np.log([[hit, 1 - hit, hit], [1 - clear, clear, 1 - clear]])
    assert q1.called.shape == (2, 2, 3)
    np.testing.assert_allclose(q1.called[:, 0], wanted)
    np.testing.assert_allclose(q1.called[:, 1], wanted)


def test_verdicts_of_several_judges_multiply(scan: Scan) -> None:
    said = [
        judged("q1", "a", 1), judged("q1", "a", 0, "llm:m"), judged("q1", "a", 1, "llm:m#2"),
    ]  # fmt: skip
    q1 = matches_of(scan, said)["q1"]
    wanted = [0.9 * 0.2, 0.05 * 0.7]  # a second run says nothing more
    np.testing.assert_allclose(np.exp(q1.called[:, 0, 0]), wanted)


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_verdict_on_another_text_of_the_same_name_does_not_count(
    scan: Scan, elsewhere: bool
) -> None:
    # Documents of another corpus are numbered alike; what they hold shows in the cosine.
    said = [judged("q1", "a", 1, cosine=0.9 if not elsewhere else 0.47), judged("q1", "low", 0)]
    q1 = matches_of(scan, said)["q1"]
    assert q1.judged.tolist() == [not elsewhere, False, True]


def test_the_kind_is_that_of_most(scan: Scan) -> None:
    said = [
        judged("q1", "a", 1, kind="subset"),
        judged("q1", "a", 1, "llm:m", kind="exact"),
        judged("q1", "a", 1, "llm:n", kind="exact"),
        judged("q1", "low", 0, kind="related"),
    ]
    curve = make_curve(
        make_draws(2, sources=2), sources=("web", "books"), judged=said,
        judges=JUDGES | {"llm:n": (0.9, 0.9)},
    )  # fmt: skip
    q1 = next(iter(Matches(scan, curve, 0.35, 2)))
    # What is called no duplicate has no kind of one.
    assert [KINDS[k] if k >= 0 else "" for k in q1.kind] == ["exact", "", ""]


def test_nothing_below_the_floor_counts(scan: Scan) -> None:
    found = matches_of(scan, floor=0.6)
    assert found["q1"].cosine.tolist() == pytest.approx([0.9, 0.61])
    assert rest(found["q1"]) == pytest.approx({(0.615, 1): 1.0})
    assert len(found["q2"].cosine) == len(found["q2"].rest_count) == 0
    assert matches_of(scan, floor=0.95)["q1"].best == 0.0


def test_counts_are_kept_whatever_the_sources(tmp_path: Path) -> None:
    """Over sources and bins, the rest and what is listed are all there is."""
    rng = np.random.default_rng(1)
    rows = [
        match(f"q{i}", float(c), source=str(s), copies=int(n))
        for i in range(4)
        for c, s, n in zip(
            rng.uniform(0.36, 1.0, 200), rng.choice(["web", "books"], 200),
            rng.integers(1, 9, 200), strict=True,
        )
    ]  # fmt: skip
    best = sorted(rows, key=lambda row: -row["cosine"])[:150]
    others = [row for row in rows if row not in best]
    scan = make_scan(tmp_path, best, unlisted=others, shares=SHARES)
    found = matches_of(scan)
    for name, of in found.items():
        total = sum(row["copies"] for row in rows if row["item"] == name)
        assert of.rest_count.sum() + of.copies.sum() == pytest.approx(total)
        assert (of.rest_count > 0).all()
    assert sum(of.rest_count.sum() for of in found.values()) == pytest.approx(
        sum(row["copies"] for row in others)
    )


def test_a_document_counts_once_whatever_its_chunks(tmp_path: Path) -> None:
    rows = [
        match("q", 0.9, "a"), match("q", 0.6, "a", chunk=1), match("q", 0.7, "b", chunk=4),
        match("q", 0.65, "b", chunk=2),
    ]  # fmt: skip
    scan = make_scan(tmp_path, rows, unlisted=[match("q", 0.55, "c", copies=6)], shares=SHARES)
    said = [judged("q", "a", 0, chunk=1), judged("q", "b", 1, chunk=2, kind="subset")]
    q = matches_of(scan, said)["q"]
    np.testing.assert_allclose(q.cosine, [0.9, 0.7], rtol=1e-6)
    assert q.listed == 2
    assert q.place.tolist() == [1, 2]
    assert rest(q) == pytest.approx({(0.555, 0): 6.0})
    # Two documents and half of the bin are nearer than its middle.
    assert q.rest_place.tolist() == [5.0]
    # Without a share of further chunks, what is known of one is known of the document.
    assert q.judged.tolist() == [True, True]
    hit, clear = JUDGES["Ada"]
    np.testing.assert_allclose(np.exp(q.called[:, 0]), [[1 - hit, hit], [clear, 1 - clear]])
    assert [KINDS[k] if k >= 0 else "" for k in q.kind] == ["", "subset"]


def test_further_chunks_say_less_of_their_document(tmp_path: Path) -> None:
    scan = make_scan(tmp_path, [match("q", 0.9, "a"), match("q", 0.6, "a", chunk=1)])
    said = [judged("q", "a", 1), judged("q", "a", 0, chunk=1)]
    curve = make_curve(make_draws(2), judged=said, judges=JUDGES)
    share = ("chain", "draw"), np.array([[0.25, 1.0]])
    posterior = curve.data["posterior"].to_dataset().assign(share_further=share)
    curve = Curve(xr.DataTree.from_dict({"posterior": posterior, "record": curve.data["record"]}))
    q = next(iter(Matches(scan, curve, 0.35, 2)))
    hit, clear = JUDGES["Ada"]
    seen = np.array([0.25 * hit + 0.75 * (1 - clear), hit])
    wanted = [hit * (1 - seen), np.full(2, (1 - clear) * clear)]
    np.testing.assert_allclose(np.exp(q.called[:, :, 0]), wanted)
