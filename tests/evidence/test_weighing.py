"""A scan and a curve to what the corpus holds: closed forms on a scan made by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from bayescontam.errors import UsageError
from bayescontam.evidence.covariates import RANKS, ItemContamination, item_contamination
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.kinds import KINDS
from bayescontam.scan.results import Scan
from tests.support.made_evidence import judged, line, make_curve, make_draws, make_scan, match
from tests.support.weighed_corpora import weighed_errors

SOURCES = ("web", "books")
MATCHES = [
    match("q1", 0.9, "a"),
    match("q1", 0.7, "b", source="books", copies=3),
    match("q2", 0.55, "c"),
    match("q2", 0.5, "d", source="books"),
    match("other", 0.8, "e", benchmark="exam"),
]
UNLISTED = [match("q2", 0.453, "u", copies=40)]
DRAWS = make_draws(
    3,
    benchmarks=2,
    sources=2,
    threshold=[[0.65, 0.7], [0.6, 0.6], [0.72, 0.75]],
    source_shift=[0.01, -0.01],
)
ITEMS = ["q1", "q2", "other", "empty"]


def scan_in(folder: Path, web: float = 1.0, books: float = 1.0) -> Scan:
    shares = {"web": web, "books": books}
    return make_scan(folder, MATCHES, unlisted=UNLISTED, items=[("exam", "empty")], shares=shares)


def curve_of(*said: object, judges: object = None) -> Curve:
    return make_curve(
        DRAWS, ("quiz", "exam"), SOURCES, judged=said, judges=judges or {"Ada": (0.9, 0.95)}
    )  # type: ignore[arg-type]


def p_of(cosine: float, benchmark: int, source: int) -> np.ndarray:
    middle = DRAWS.threshold[:, benchmark] + DRAWS.source_shift[:, source]
    return expit(line(DRAWS, cosine, middle, DRAWS.steepness[:, benchmark]))


def p_open(best: float, benchmark: int) -> np.ndarray:
    start, slope = DRAWS.threshold_open[:, benchmark], DRAWS.steepness_open[:, benchmark]
    return expit(line(DRAWS, best, start, slope))


def by_hand() -> dict[str, np.ndarray]:
    """Return P(no duplicate in the sample | draw) of each item and source."""
    open1, open2, open3 = p_open(0.9, 0), p_open(0.55, 0), p_open(0.8, 1)
    a, b = p_of(0.9, 0, 0), p_of(0.7, 0, 1)
    c, d = p_of(0.55, 0, 0), p_of(0.5, 0, 1)
    rest = np.exp(-40 * p_of(0.455, 0, 0))
    e = p_of(0.8, 1, 0)
    one = np.ones(3)
    return {
        "all": np.stack(
            [1 - open1 + open1 * (1 - a) * (1 - b), 1 - open2 + open2 * (1 - c) * (1 - d) * rest,
             1 - open3 * e, one], axis=1),
        "web": np.stack(
            [1 - open1 * a, 1 - open2 + open2 * (1 - c) * rest, 1 - open3 * e, one], axis=1),
        "books": np.stack([1 - open1 * b, 1 - open2 * d, one, one], axis=1),
        "expected": np.stack(
            [open1 * (a + 3 * b), open2 * (c + d + 40 * p_of(0.455, 0, 0)), open3 * e, 0 * one],
            axis=1),
        "rest": np.stack([0 * one, open2 * 40 * p_of(0.455, 0, 0), 0 * one, 0 * one], axis=1),
    }  # fmt: skip


def test_a_whole_corpus_has_a_closed_form(tmp_path: Path) -> None:
    weighed = item_contamination(scan_in(tmp_path), curve_of(), draws=3)
    wanted = by_hand()
    assert weighed.items["item"].tolist() == ITEMS
    assert weighed.sources == SOURCES
    assert weighed.kinds == ()
    assert weighed.none_by_kind.shape == (3, 4, 0)
    np.testing.assert_allclose(weighed.shares, 1.0)
    tight = {"rtol": 1e-5, "atol": 1e-6}  # cosines of a scan are float32
    np.testing.assert_allclose(weighed.none, wanted["all"], **tight)
    np.testing.assert_allclose(weighed.none_scanned, wanted["all"], **tight)
    np.testing.assert_allclose(weighed.none_by_source[..., 0], wanted["web"], **tight)
    np.testing.assert_allclose(weighed.none_by_source[..., 1], wanted["books"], **tight)
    np.testing.assert_allclose(weighed.expected, wanted["expected"], **tight)
    np.testing.assert_allclose(weighed.expected_scanned, wanted["expected"], **tight)
    np.testing.assert_allclose(weighed.expected_rest, wanted["rest"], **tight)
    first = 1 - p_open(0.9, 0) * p_of(0.9, 0, 0)
    assert weighed.ranks == RANKS
    np.testing.assert_allclose(weighed.none_by_rank[:, 0, 0], first, **tight)
    np.testing.assert_allclose(weighed.none_by_rank[:, 0, -1], wanted["all"][:, 0], **tight)


def test_a_part_of_a_corpus_leaves_room_for_more(tmp_path: Path) -> None:
    whole, part, less = (
        item_contamination(scan_in(tmp_path / str(share), web=share), curve_of(), draws=3)
        for share in (1.0, 0.5, 0.01)
    )
    np.testing.assert_allclose(part.none_scanned, whole.none_scanned)
    np.testing.assert_allclose(less.expected_scanned, whole.expected_scanned)
    # The books were scanned whole.
    np.testing.assert_allclose(less.none_by_source[..., 1], whole.none_by_source[..., 1])
    assert less.shares == pytest.approx([0.01, 1.0])
    assert (part.none <= whole.none).all()
    assert (less.none[:, 1:] < whole.none[:, 1:]).all()
    assert less.none.mean() < part.none.mean() < whole.none.mean()
    assert less.expected.sum() > part.expected.sum() > whole.expected.sum()
    ratio = less.none_by_source[..., 0] / whole.none_by_source[..., 0]
    np.testing.assert_allclose(less.none, whole.none * ratio)  # sources are independent
    quiz = [0, 1]  # what was not scanned is estimated from the items of the same benchmark
    np.testing.assert_allclose(ratio[:, quiz], np.repeat(ratio[:, :1], 2, axis=1))
    assert not np.allclose(ratio[:, 0], ratio[:, 2])


def test_verdicts_change_their_own_item_only(tmp_path: Path) -> None:
    scan = scan_in(tmp_path)
    bare, said = (
        item_contamination(scan, curve_of(), draws=3),
        item_contamination(scan, curve_of(judged("q1", "a", 1)), draws=3),
    )
    np.testing.assert_allclose(said.none[:, 1:], bare.none[:, 1:])
    opened, a, b = p_open(0.9, 0), p_of(0.9, 0, 0), p_of(0.7, 0, 1)
    true, false = opened * a * 0.9, (1 - opened * a) * 0.05
    no_other = (1 - opened + opened * (1 - a) * (1 - b)) * 0.05
    np.testing.assert_allclose(said.none[:, 0], no_other / (true + false), rtol=1e-5)


def test_kinds_are_shares_of_duplicates(tmp_path: Path) -> None:
    """A judged duplicate has its kind; of others, kinds have the shares that judges gave."""
    said = [
        judged("q1", "a", 1, kind="exact"), judged("q2", "c", 1, kind="subset"),
        judged("other", "e", 1, benchmark="exam", kind="related"),
    ]  # fmt: skip
    sure = {"Ada": (1 - 1e-9, 1 - 1e-9)}
    weighed = item_contamination(scan_in(tmp_path), curve_of(*said, judges=sure), draws=3)
    assert weighed.kinds == KINDS
    none = {kind: weighed.none_by_kind[:, 0, k] for k, kind in enumerate(KINDS)}
    np.testing.assert_allclose(none["exact"], 0.0, atol=1e-6)
    assert (weighed.none_by_kind[:, 1, KINDS.index("subset")] < 1e-6).all()
    # The other match, of unknown kind, is a duplicate with b, as its item is surely open.
    b = p_of(0.7, 0, 1)
    others = [kind for kind in KINDS if kind != "exact"]
    shares = [(1 - none[kind]) / b for kind in others]
    assert all(((share > 0) & (share < 1)).all() for share in shares)
    assert (sum(shares) < 1).all()
    np.testing.assert_allclose(weighed.none_by_kind[:, 3], 1.0)


def test_shares_of_kinds_follow_the_counts(tmp_path: Path) -> None:
    rows = [match(f"q{i}", 0.95, f"d{i}") for i in range(301)]
    said = [judged(f"q{i}", f"d{i}", 1, kind="subset" if i % 3 else "exact") for i in range(300)]
    sure = {"Ada": (1 - 1e-9, 1 - 1e-9)}
    curve = make_curve(make_draws(400, threshold_open=0.1), judged=said, judges=sure)
    weighed = item_contamination(make_scan(tmp_path, rows), curve, draws=400)
    p = expit(15 * (0.95 - 0.65))
    found = (1 - weighed.none_by_kind[:, 300]).mean(axis=0) / p
    wanted = {"exact": 1 / 3, "subset": 2 / 3}
    np.testing.assert_allclose(found, [wanted.get(kind, 0.0) for kind in KINDS], atol=0.015)


def test_a_seed_repeats_a_weighing(tmp_path: Path) -> None:
    scan = scan_in(tmp_path, web=0.1)
    one, again = (item_contamination(scan, curve_of(), draws=3) for _ in range(2))
    for name in ("none", "expected", "none_by_source"):
        np.testing.assert_array_equal(getattr(one, name), getattr(again, name))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"floor": 1.5}, r"^floor: got 1\.5; allowed is a cosine, -1 to 1$"),
        ({"draws": 0}, r"^draws: got 0; at least 1 is needed$"),
    ],
)
def test_what_cannot_be_used_is_refused(
    tmp_path: Path, options: dict[str, float], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        item_contamination(scan_in(tmp_path), curve_of(), **options)  # type: ignore[arg-type]


def test_a_curve_must_cover_all_that_is_scanned(tmp_path: Path) -> None:
    scan = scan_in(tmp_path)
    with pytest.raises(UsageError, match="does not cover benchmark 'exam' of this scan"):
        item_contamination(scan, make_curve(make_draws(2, sources=2), sources=SOURCES))
    with pytest.raises(UsageError, match="does not cover source 'books' of this scan"):
        item_contamination(scan, make_curve(make_draws(2, benchmarks=2), ("quiz", "exam")))


@pytest.mark.slow
def test_the_stated_sd_is_the_actual_error(tmp_path: Path) -> None:
    """Contamination misses the truth by as much as its sd says; numbers are in their intervals.

    With forty corpora, another share and closer bounds, in ``benchmarks/test_sampled_share.py``.
    """
    inside, ratio, unbiased = weighed_errors(tmp_path, 0.01, 10)
    # Of 10 intervals of 95 %, fewer than 6 hold with probability 6e-5.
    assert inside >= 6
    assert 0.7 < ratio < 1.4
    assert unbiased


def test_items_keep_the_order_of_the_scan(tmp_path: Path) -> None:
    scan = scan_in(tmp_path)
    weighed = item_contamination(scan, curve_of(), draws=2)
    pd.testing.assert_frame_equal(weighed.items, scan.items[["benchmark", "item"]])
    assert isinstance(weighed, ItemContamination)


def test_short_documents_are_not_counted_as_searched(tmp_path: Path) -> None:
    scan = scan_in(tmp_path)
    scan.record["short"] = {"web": {"documents": 10_000, "short": 4000}}
    weighed = item_contamination(scan, curve_of(), draws=3)
    np.testing.assert_allclose(weighed.shares, [0.6, 1.0])
    part = item_contamination(scan_in(tmp_path / "part", web=0.6), curve_of(), draws=3)
    np.testing.assert_allclose(weighed.none, part.none)
    # Of a source that has short documents only, nothing is known but the prior.
    scan.record["short"]["web"]["short"] = 10_000
    none = item_contamination(scan, curve_of(), draws=3)
    assert none.shares.tolist() == [0.0, 1.0]
    assert np.isfinite(none.none).all()
    assert np.isfinite(none.expected).all()
    assert none.none.mean() < weighed.none.mean()


def test_counts_of_a_sample_widen_what_is_weighed(tmp_path: Path) -> None:
    folder = scan_in(tmp_path).folder
    histogram = pd.read_parquet(folder / "histogram.parquet")
    estimated = histogram["count"].where(histogram["count"] == 40, 0)
    histogram.assign(estimated=estimated).to_parquet(folder / "histogram.parquet")
    plain = item_contamination(scan_in(tmp_path / "plain"), curve_of(), draws=3)
    scan = Scan.load(folder)
    scan.record["search"] = {"index": {"weight": 10}}
    weighed = item_contamination(scan, curve_of(), draws=3)
    assert not np.allclose(weighed.expected_rest[:, 1], plain.expected_rest[:, 1])
    # Four sampled chunks: as a whole their number is uncertain by half.
    rate = 40 * p_of(0.455, 0, 0) * p_open(0.55, 0)
    assert (np.abs(weighed.expected_rest[:, 1] / rate - 1) < 2).all()
    # What an index misses of one item it may miss of others too.
    for item in (0, 2, 3):
        assert (weighed.none[:, item] <= plain.none[:, item] + 1e-9).all()
