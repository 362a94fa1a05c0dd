"""Pairs: those of a scan, found again by name, and chosen evenly."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.judgements import PAIR, Judgements
from bayescontam.errors import DataError, UsageError
from bayescontam.evidence.choice import choose_pairs, top_pairs
from bayescontam.evidence.pairs import positions_in_scan, scan_pairs
from bayescontam.scan.results import Scan
from tests.support.made_evidence import make_scan as make_small
from tests.support.made_evidence import match
from tests.support.made_scan import BENCHMARKS, MadeScan, make_scan

KEYS = list(PAIR)


@pytest.fixture(scope="module")
def made() -> MadeScan:
    made = make_scan()
    # So few best matches that some of the tail sample are not among them.
    return replace(made, matches=made.matches[made.matches["rank"] <= 8])


@pytest.fixture(scope="module")
def scan(made: MadeScan, tmp_path_factory: pytest.TempPathFactory) -> Scan:
    return Scan.load(made.write(tmp_path_factory.mktemp("made") / "scan"))


def _keys(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(frame[KEYS].itertuples(index=False, name=None))


def _small(tmp_path: Path, rows: list[tuple[Any, ...]]) -> Scan:
    """A scan of items "1" and "2": (item, source, document, chunk, chunk_id, cosine)."""
    columns = ["item", "source", "document", "chunk", "chunk_id", "cosine"]
    reported = {"benchmark": "b", "stratum": "", "copies": 1, "start": 0, "end": 9}
    matches = pd.DataFrame(rows, columns=columns).assign(**reported)
    items = pd.DataFrame({"benchmark": "b", "item": ["1", "2"], "text": ["one", "two"]})
    texts = matches[["chunk_id"]].drop_duplicates().assign(text="chunk")
    tables = {"matches": matches, "tail": matches[:0], "items": items, "texts": texts}
    for name in ("matches", "tail", "histogram", "strata", "items", "texts"):
        tables.get(name, items).to_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "scan.json").write_text("{}")
    return Scan.load(tmp_path)


def _judged(*rows: tuple[Any, ...]) -> Judgements:
    """Judgements of duplicates: (item, source, document, chunk, judge)."""
    frame = pd.DataFrame(rows, columns=["item", "source", "document", "chunk", "judge"])
    return Judgements.from_frame(frame.assign(benchmark="b", is_duplicate=1), source="j.csv")


def test_pairs_are_the_matches_and_the_tail_once(made: MadeScan, scan: Scan) -> None:
    pairs = scan_pairs(scan)
    best, sampled = set(_keys(made.matches)), set(_keys(made.tail))
    assert sampled - best
    assert sampled & best
    assert Counter(_keys(pairs)) == Counter(best | sampled)
    assert dict(zip(_keys(pairs), pairs["listed"], strict=True)) == {
        key: key in best for key in best | sampled
    }
    either = pd.concat([made.matches, made.tail])
    cosine = dict(zip(_keys(either), either["cosine"], strict=True))
    assert [cosine[key] for key in _keys(pairs)] == pairs["cosine"].tolist()


def test_pairs_are_in_order(scan: Scan) -> None:
    pairs = scan_pairs(scan)
    items = list(pairs.groupby(["benchmark", "item"], sort=False).groups)
    assert items == list(scan.items[["benchmark", "item"]].itertuples(index=False, name=None))
    for _, group in pairs.groupby(["benchmark", "item"]):
        assert group["cosine"].is_monotonic_decreasing


def _bins(scan: Scan, benchmark: str) -> dict[tuple[Any, ...], tuple[bool, int]]:
    """Return the bin of each pair, by edges between the lowest and the highest cosine.

    Nearest documents have bins of their own.
    """
    pairs = scan_pairs(scan)
    pairs = pairs[pairs["benchmark"] == benchmark]
    cosines = pairs["cosine"].to_numpy().astype(float)
    edges = np.linspace(cosines.min(), cosines.max(), 11)
    nearest = {key for _, rows in pairs.groupby("item") for key in _keys(rows.head(1))}
    bins = np.searchsorted(edges[1:-1], cosines, "right").tolist()
    return {key: (key in nearest, b) for key, b in zip(_keys(pairs), bins, strict=True)}


@pytest.mark.parametrize("count", [1, 15, 100, 401])
def test_choice_is_spread_evenly(scan: Scan, count: int) -> None:
    chosen = choose_pairs(scan, count, seed=3)
    assert len(set(_keys(chosen))) == len(chosen) == count
    parts = [chosen[chosen["benchmark"] == name] for name in BENCHMARKS]
    assert abs(len(parts[0]) - len(parts[1])) <= 1
    for part, benchmark in zip(parts, BENCHMARKS, strict=True):
        bins = _bins(scan, benchmark)
        held, taken = Counter(bins.values()), Counter(bins[key] for key in _keys(part))
        most = max(taken.values(), default=0)
        assert all(taken[b] >= min(most - 1, held[b]) for b in held)
        assert {nearest for nearest, _ in held} == {True, False}


def test_pairs_of_a_bin_are_chosen_whatever_their_item(tmp_path: Path) -> None:
    """One item has 9 of 10 documents near it: it gets 9 of 10 pairs, not a half."""
    rng = np.random.default_rng(1)
    rows = [match("many" if k % 10 else "few", float(c), f"d{k}")
            for k, c in enumerate(rng.uniform(0.4, 0.9, 2000))]  # fmt: skip
    chosen = choose_pairs(make_small(tmp_path, rows), 400, seed=1)
    # Hypergeometric: mean 360, standard deviation 5.4.
    assert abs((chosen["item"] == "many").sum() - 360) < 25


def test_choice_depends_on_the_seed_only(made: MadeScan, scan: Scan) -> None:
    chosen = choose_pairs(scan, 60, seed=3)
    mixed = replace(
        made,
        matches=made.matches.sample(frac=1, random_state=1),
        tail=made.tail.sample(frac=1, random_state=2),
    )
    mixed.write(folder := Path(scan.folder).parent / "mixed")
    pd.testing.assert_frame_equal(choose_pairs(Scan.load(folder), 60, seed=3), chosen)
    other = _keys(choose_pairs(scan, 60, seed=4))
    assert len(set(other) & set(_keys(chosen))) < 30


def test_a_smaller_choice_is_the_beginning_of_a_larger_one(scan: Scan) -> None:
    many, few = (choose_pairs(scan, count, seed=3) for count in (150, 40))
    assert _keys(many)[:40] == _keys(few)


def test_excluded_pairs_are_not_chosen(scan: Scan) -> None:
    first = choose_pairs(scan, 90, seed=3)
    judged = pd.concat([first, first])  # by two judges
    rest = choose_pairs(scan, 10_000, seed=5, exclude=judged)
    every = set(_keys(scan_pairs(scan)))
    assert set(_keys(rest)) == every - set(_keys(first))
    with pytest.raises(DataError, match="has no pair left to choose: all are excluded"):
        choose_pairs(scan, 10, seed=3, exclude=scan_pairs(scan))
    pd.testing.assert_frame_equal(choose_pairs(scan, 90, seed=3, exclude=first[:0]), first)


def test_chosen_pairs_have_their_texts(made: MadeScan, scan: Scan) -> None:
    chosen = choose_pairs(scan, 100, seed=3)
    items = dict(
        zip(
            zip(made.items["benchmark"], made.items["item"], strict=True),
            made.items["text"],
            strict=True,
        )
    )
    texts = dict(zip(made.texts["chunk_id"], made.texts["text"], strict=True))
    for row in chosen.to_dict("records"):
        assert row["text"] == items[row["benchmark"], row["item"]]
        assert row["chunk_text"] == texts[row["chunk_id"]]


def test_one_benchmark_can_be_chosen(scan: Scan) -> None:
    chosen = choose_pairs(scan, 20, seed=3, benchmarks=[BENCHMARKS[1]])
    assert set(chosen["benchmark"]) == {BENCHMARKS[1]}
    assert len(chosen) == 20


def test_chunks_without_a_text_are_left_out(made: MadeScan, scan: Scan) -> None:
    folder = Path(scan.folder).parent
    replace(made, texts=made.texts[::2]).write(folder / "half")
    chosen = choose_pairs(Scan.load(folder / "half"), 10_000, seed=3)
    assert set(chosen["chunk_id"]) <= set(made.texts["chunk_id"][::2])
    assert chosen["chunk_text"].notna().all()
    replace(made, texts=made.texts[:0]).write(folder / "none")
    with pytest.raises(DataError, match="holds no texts of chunks"):
        choose_pairs(Scan.load(folder / "none"), 10, seed=3)


def test_best_pairs_of_each_item(made: MadeScan, scan: Scan) -> None:
    chosen = top_pairs(scan, 4)
    assert len(chosen) == 4 * len(made.items)
    for (benchmark, item), group in chosen.groupby(["benchmark", "item"]):
        own = (made.matches["benchmark"] == benchmark) & (made.matches["item"] == item)
        best = made.matches[own & (made.matches["rank"] <= 4)].sort_values("rank")
        assert _keys(group) == _keys(best)
    assert not chosen[: len(made.items)].duplicated(["benchmark", "item"]).any()
    rest = top_pairs(scan, 4, exclude=top_pairs(scan, 3))
    assert _keys(rest) == _keys(chosen)[3 * len(made.items) :]


@pytest.mark.parametrize("choose", [top_pairs, lambda *a, **k: choose_pairs(*a, 1, **k)])
def test_choices_that_cannot_be_are_refused(scan: Scan, choose: Any) -> None:
    with pytest.raises(UsageError, match=r"got 0 pairs.* allowed is 1 or more"):
        choose(scan, 0)
    with pytest.raises(UsageError, match="no benchmark 'quizz' in this scan; it has 'quiz'"):
        choose(scan, 1, benchmarks=["quizz"])


def test_judgements_find_their_pairs(scan: Scan) -> None:
    chosen = choose_pairs(scan, 50, seed=3)
    frame = chosen[KEYS].assign(judge="Ada", is_duplicate=[0, 1] * 25)
    found = positions_in_scan(Judgements.from_frame(frame), scan)
    assert found["is_duplicate"].tolist() == [0, 1] * 25
    for name in ("cosine", "chunk_id", "stratum", "copies", "start", "end", "listed"):
        assert found[name].tolist() == chosen[name].tolist()


def test_a_blank_source_is_filled_in_where_it_is_clear(tmp_path: Path) -> None:
    rows = [
        ("1", "web", "d", 0, 10, 0.9), ("1", "books", "d", 0, 11, 0.8),
        ("1", "web", "e", 0, 12, 0.7), ("2", "books", "d", 0, 11, 0.6),
    ]  # fmt: skip
    scan = _small(tmp_path, rows)
    found = positions_in_scan(_judged(("1", "", "e", 0, "A"), ("2", "", "d", 0, "A")), scan)
    assert found["source"].tolist() == ["web", "books"]
    assert found["cosine"].tolist() == [0.7, 0.6]
    with pytest.raises(DataError, match=r"j\.csv: .*document 'd', chunk 0 stands in several"):
        positions_in_scan(_judged(("1", "", "d", 0, "A")), scan, missing="drop")
    twice = _judged(("1", "", "e", 0, "A"), ("1", "web", "e", 0, "A"))
    with pytest.raises(DataError, match="judged twice by one judge once its source is filled in"):
        positions_in_scan(twice, scan)


def test_judgements_of_other_pairs_are_refused_or_dropped(tmp_path: Path) -> None:
    scan = _small(tmp_path, [("1", "web", "d", 0, 10, 0.9)])
    judged = _judged(
        ("1", "web", "d", 1, "A"), ("1", "web", "d", 0, "A"), ("1", "", "x", 0, "A"),
        ("2", "web", "d", 0, "B"),
    )  # fmt: skip
    with pytest.raises(DataError, match=r"3 judgements are of pairs that .* lacks") as caught:
        positions_in_scan(judged, scan)
    assert len(caught.value.faults) == 3
    found = positions_in_scan(judged, scan, missing="drop")
    assert _keys(found) == [("b", "1", "web", "d", 0)]
    assert positions_in_scan(_judged(("7", "", "x", 0, "A")), scan, missing="drop").empty
    with pytest.raises(UsageError, match="allowed are 'error' and 'drop'"):
        positions_in_scan(judged, scan, missing="skip")  # type: ignore[arg-type]


def test_documents_of_one_name_are_judged_by_their_best_chunk(tmp_path: Path) -> None:
    scan = _small(tmp_path, [("1", "web", "d", 0, 10, 0.5), ("1", "web", "d", 0, 11, 0.9)])
    assert scan_pairs(scan)["chunk_id"].tolist() == [11, 10]
    assert choose_pairs(scan, 5, seed=1)["chunk_id"].tolist() == [11]
    assert top_pairs(scan, 5)["chunk_id"].tolist() == [11]
    assert positions_in_scan(_judged(("1", "web", "d", 0, "A")), scan)["chunk_id"].tolist() == [11]


SPLIT = [
    ("1", "web", "d", 0, 10, 0.9), ("1", "web", "d", 1, 11, 0.5), ("1", "web", "e", 2, 12, 0.7),
    ("1", "web", "e", 0, 13, 0.6), ("1", "books", "d", 0, 14, 0.8), ("2", "web", "d", 1, 11, 0.4),
]  # fmt: skip


def test_a_document_is_known_by_its_nearest_chunk(tmp_path: Path) -> None:
    scan = _small(tmp_path, SPLIT)
    pairs = scan_pairs(scan)
    assert pairs["chunk_id"].tolist() == [10, 14, 12, 13, 11, 11]
    assert pairs["lead"].tolist() == [0, 0, 2, 2, 0, 1]
    assert pairs["lead_cosine"].tolist() == [0.9, 0.8, 0.7, 0.7, 0.9, 0.4]
    assert pairs["place"].tolist() == [1, 2, 3, 3, 1, 1]
    found = positions_in_scan(_judged(("1", "web", "e", 0, "A")), scan)
    assert found[["cosine", "lead_cosine", "place"]].to_numpy().tolist() == [[0.6, 0.7, 3.0]]


def test_only_nearest_chunks_are_chosen(tmp_path: Path) -> None:
    scan = _small(tmp_path, SPLIT)
    for chosen in (choose_pairs(scan, 9, seed=1), top_pairs(scan, 9)):
        assert sorted(chosen["chunk_id"].tolist()) == [10, 11, 12, 14]


def test_ready_vectors_are_documents_of_their_own(tmp_path: Path) -> None:
    scan = _small(tmp_path, SPLIT)
    scan.record["strata"] = [{"source": "web", "chunks": 4}, {"source": "books", "documents": 1}]
    pairs = scan_pairs(scan)
    assert (pairs["lead"] == pairs["chunk"]).all()
    assert pairs["place"].tolist() == [1, 2, 3, 4, 5, 1]


def test_places_in_the_tail_count_what_the_histogram_has_above(tmp_path: Path) -> None:
    rows = [match("q", 0.9, "a", copies=2), match("q", 0.8, "b")]
    others = [match("q", 0.7, "c", copies=5), match("q", 0.3, "d", copies=9)]
    tail = [match("q", 0.6, "t"), match("q", 0.5, "u"), match("q", 0.9, "a", copies=2)]
    pairs = scan_pairs(make_small(tmp_path, rows, tail=tail, unlisted=others))
    found = pairs.set_index("document")["place"].to_dict()
    # Two documents are listed; above t are five more, above u these and t.
    assert found == {"a": 1, "b": 2, "t": 8, "u": 9}
