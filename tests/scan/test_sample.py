"""Samples: exact, uniform, and the same however the corpus is cut, ordered and thinned out."""

import gzip
import hashlib
import json
import math
import pickle
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.errors import DataError, UsageError
from bayescontam.scan import documents as module
from bayescontam.scan.documents import (
    HIGHEST,
    Cutoffs,
    Document,
    cutoffs,
    priority,
    sample_input,
    sampled,
    target,
)
from bayescontam.scan.sources import Input, list_inputs
from bayescontam.specs.corpus import Source

LONGEST = 2**20


def source(share: float = 1.0, name: str = "s", **options: Any) -> Source:
    return Source(name=name, paths=("*.jsonl",), stratum="from", share=share, **options)


def write(path: Path, documents: Sequence[Document]) -> None:
    rows = [{"id": d.document, "from": d.stratum, "text": d.text} for d in documents]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def corpus(strata: dict[str, int], prefix: str = "") -> list[Document]:
    return [
        Document(f"{prefix}{stratum}-{i}", stratum, f"text {i}")
        for stratum, count in strata.items()
        for i in range(count)
    ]


def run(
    folder: Path, files: Sequence[Sequence[Document]], share: float, seed: int = 0
) -> tuple[list[Document], Cutoffs]:
    """Sample a corpus that lies in files; return the sample and the cut-offs."""
    chosen = source(share)
    reports, outs = [], []
    for number, documents in enumerate(files):
        path = folder / f"{number}.jsonl"
        write(path, documents)
        item = Input("s", path.name, str(path), "jsonl")
        outs.append(folder / f"{number}.parquet")
        reports.append(sample_input(item, chosen, seed, outs[-1], max_record_bytes=LONGEST))
    cuts = cutoffs(json.loads(json.dumps(reports)), outs, {"s": chosen})
    return [document for out in outs for document in sampled(out, cuts)], cuts


def brute_force(documents: Sequence[Document], share: str, seed: int) -> set[str]:
    """Sort every stratum by the published hash, and take the first ceil(share × N)."""
    found: set[str] = set()
    for stratum in {d.stratum for d in documents}:
        names = [d.document for d in documents if d.stratum == stratum]
        names.sort(key=lambda name: published_hash(f"{seed}\x1fs\x1f{name}"))
        found |= set(names[: math.ceil(Fraction(share) * len(names))])
    return found


def published_hash(text: str) -> int:
    return int(np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8).digest(), "<u8")[0])


STRATA = st.dictionaries(st.sampled_from(["", "a", "a/b", "ü\0"]), st.integers(1, 400), min_size=1)


@given(
    strata=STRATA,
    share=st.sampled_from(["0.001", "0.01", "0.07", "0.3", "0.5", "0.7", "0.999", "1.0"]),
    seed=st.integers(0, 3),
    order=st.randoms(use_true_random=False),
    files=st.integers(1, 5),
)
def test_the_sample_is_exact_whatever_the_order_and_the_files(
    strata: dict[str, int], share: str, seed: int, order: random.Random, files: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    documents = corpus(strata)
    expected = brute_force(documents, share, seed)
    order.shuffle(documents)
    parts: list[list[Document]] = [[] for _ in range(files)]
    for document in documents:
        order.choice(parts).append(document)
    found, cuts = run(tmp_path_factory.mktemp("sample"), parts, float(share), seed)
    assert len(found) == len(expected)
    assert {d.document for d in found} == expected
    assert {d.document: d for d in documents}.items() >= {d.document: d for d in found}.items()
    counts = Counter(d.stratum for d in found)
    table = cuts.table.set_index("stratum")
    assert list(table.index) == sorted(strata)
    for stratum, count in strata.items():
        assert counts[stratum] == math.ceil(Fraction(share) * count) >= 1
        row = table.loc[stratum]
        assert (row["documents"], row["sampled"]) == (count, counts[stratum])
        assert row["share"] == counts[stratum] / count


def test_the_table_does_not_depend_on_files_or_their_order(tmp_path: Path) -> None:
    documents = corpus({"a": 3000, "b": 40})
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    found, one = run(tmp_path / "one", [documents], 0.2)
    parts = [documents[i::7][::-1] for i in range(7)]
    same, many = run(tmp_path / "many", parts[::-1], 0.2)
    pd.testing.assert_frame_equal(one.table, many.table)
    assert sorted(found, key=lambda d: d.document) == sorted(same, key=lambda d: d.document)


@pytest.mark.parametrize(
    ("share", "count", "size"),
    [(0.07, 100, 7), (0.1, 30, 3), (0.3, 10, 3), (0.29, 100, 29), (0.01, 1, 1), (0.01, 101, 2),
     (1e-05, 10**6, 10), (1.0, 12, 12), (0.999, 1000, 999)],
)  # fmt: skip
def test_the_target_counts_the_share_as_it_is_written(share: float, count: int, size: int) -> None:
    assert target(share, count) == size


def test_documents_of_one_name_stay_together(tmp_path: Path) -> None:
    names = [f"d{i % 10}" for i in range(1000)]
    documents = [Document(name, "a", f"text {i}") for i, name in enumerate(names)]
    found, cuts = run(tmp_path, [documents[::2], documents[1::2]], 0.15)
    expected = sorted({*names}, key=lambda d: published_hash(f"0\x1fs\x1f{d}"))[:2]
    assert sorted(d.text for d in found) == sorted(
        d.text for d in documents if d.document in expected
    )
    assert cuts.table[["documents", "sampled", "share"]].to_numpy().tolist() == [[1000, 200, 0.2]]


def test_a_sample_that_lacks_candidates_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", corpus({"a": 60_000}))
    item = Input("s", "a.jsonl", str(tmp_path / "a.jsonl"), "jsonl")
    out = tmp_path / "a.parquet"
    report = sample_input(item, source(0.01), 0, out, max_record_bytes=LONGEST)
    cutoffs([report], [out], {"s": source(0.01)})
    message = r"source 's': stratum 'a': too few candidates"
    with pytest.raises(DataError, match=message):
        cutoffs([report], [out], {"s": source(0.02)})
    less = report | {"complete_to": {"a": 2**50}}
    for reports in ([less], [report, less], [less, report]):
        with pytest.raises(DataError, match=message):
            cutoffs(reports, [out] * len(reports), {"s": source(0.01)})


def test_memory_for_priorities_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLACK", 10)
    monkeypatch.setattr(module, "_BATCH_ROWS", 50)
    sizes: list[int] = []
    add = module._Lowest.add

    def spy(self: Any, values: Any) -> None:
        add(self, values)
        sizes.append(self._size)

    monkeypatch.setattr(module._Lowest, "add", spy)
    documents = corpus({"a": 5000})
    found, _ = run(tmp_path, [documents[i::4] for i in range(4)], 0.02)
    assert {d.document for d in found} == brute_force(documents, "0.02", 0)
    assert max(sizes) <= 2 * 100 + 10
    assert len(sizes) * 50 > 1000


def test_the_file_of_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GROUP_DOCUMENTS", 16)
    documents = corpus({"a": 30, "": 20, "ü\0": 1})
    found, cuts = run(tmp_path, [documents], 1.0)
    assert found == documents
    file = pq.ParquetFile(tmp_path / "0.parquet")
    assert file.num_row_groups == 4
    table = file.read().to_pandas()
    assert table["document"].tolist() == [d.document for d in documents]
    assert table["priority"].tolist() == [priority(0, "s", d.document) for d in documents]
    assert str(table["priority"].dtype) == "uint64"
    assert set(cuts.table["cutoff"]) == {HIGHEST}


def test_large_texts_are_written_in_small_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GROUP_CHARACTERS", 1000)
    documents = [Document(f"d{i}", "", "x" * 400) for i in range(10)]
    found, _ = run(tmp_path, [documents], 1.0)
    assert found == documents
    assert pq.ParquetFile(tmp_path / "0.parquet").num_row_groups == 4


def test_the_report_of_an_input(tmp_path: Path) -> None:
    lines = [b'{"id": 1, "from": "a", "text": "x"}', b"{", b'{"id": 2, "text": "y"}', b"[]"]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    (item,) = list_inputs(source(), tmp_path)
    report = sample_input(item, source(), 0, tmp_path / "a.parquet", max_record_bytes=LONGEST)
    seconds = report.pop("seconds")
    assert 0 < seconds < 60
    assert json.loads(json.dumps(report)) == {
        "source": "s",
        "path": "a.jsonl",
        "documents": {"a": 1, "": 1},
        "complete_to": {"a": HIGHEST, "": HIGHEST},
        "candidates": 2,
        "left_out": 0,
        "left_out_messages": {},
        "missing": [],
        "others": {},
        "there": [],
        "unreadable": {"not JSON": 1, "not an object": 1},
        "listed": [[2, "not JSON"], [4, "not an object"]],
        "without": {"from": 1},
        "damage": None,
        "bytes": sum(map(len, lines)) + 3,
    }


def test_odd_names_and_texts_survive(tmp_path: Path) -> None:
    rows = [rb'{"id": "\ud800", "from": "a\u0000", "text": "cut \ud83d \u0000"}',
            b'{"id": " ", "from": "NA", "text": "x"}']  # fmt: skip
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(rows))
    (item,) = list_inputs(source(), tmp_path)
    out = tmp_path / "a.parquet"
    report = sample_input(item, source(), 0, out, max_record_bytes=LONGEST)
    assert list(sampled(out, cutoffs([report], [out], {"s": source()}))) == [
        Document("\ufffd", "a\0", "cut \ufffd \0"),
        Document(" ", "NA", "x"),
    ]


def test_damage_leaves_no_file_unless_it_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", corpus({"a": 500}))
    whole = gzip.compress((tmp_path / "a.jsonl").read_bytes())
    (tmp_path / "b.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    item = Input("s", "b.jsonl.gz", str(tmp_path / "b.jsonl.gz"), "jsonl")
    out = tmp_path / "b.parquet"
    with pytest.raises(DataError, match=r"b\.jsonl\.gz: damaged after record \d+ \(Truncated"):
        sample_input(item, source(), 0, out, max_record_bytes=LONGEST)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl.gz"]
    report = sample_input(item, source(), 0, out, max_record_bytes=LONGEST, skip_damage=True)
    assert report["damage"].startswith("damaged after record ")
    assert report["candidates"] == report["documents"]["a"] == pq.read_metadata(out).num_rows > 0


def test_a_place_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", corpus({"a": 1}))
    item = Input("s", "a.jsonl", str(tmp_path / "a.jsonl"), "jsonl")
    with pytest.raises(UsageError, match="cannot be written"):
        sample_input(item, source(), 0, tmp_path / "no" / "a.parquet", max_record_bytes=LONGEST)


@pytest.mark.parametrize("lines", [b"", b"\n\n"])
def test_a_source_without_documents_is_an_error(tmp_path: Path, lines: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines)
    write(tmp_path / "b.jsonl", corpus({"a": 3}))
    sources = {"empty": source(name="empty"), "s": source(), "vectors": source(name="vectors")}
    reports, outs = [], []
    for name, path in (("empty", "a.jsonl"), ("s", "b.jsonl")):
        item = Input(name, path, str(tmp_path / path), "jsonl")
        outs.append(tmp_path / f"{name}.parquet")
        reports.append(sample_input(item, sources[name], 0, outs[-1], max_record_bytes=LONGEST))
    with pytest.raises(DataError, match=r"source 'empty': no document in 1 inputs \(all are empty"):
        cutoffs(reports, outs, sources)
    assert len(cutoffs(reports[1:], outs[1:], sources).table) == 1
    assert list(sampled(outs[0], cutoffs(reports[1:], outs[1:], sources))) == []


def test_a_source_of_unreadable_records_says_why(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{\n{")
    item = Input("s", "a.jsonl", str(tmp_path / "a.jsonl"), "jsonl")
    out = tmp_path / "a.parquet"
    report = sample_input(item, source(), 0, out, max_record_bytes=LONGEST, skip_damage=True)
    assert report["damage"] == "none of its 2 records is a document (2 × not JSON)"
    with pytest.raises(DataError, match=r"no document in 1 inputs \(2 × not JSON\)"):
        cutoffs([report], [out], {"s": source()})


def test_cutoffs_travel_to_workers(tmp_path: Path) -> None:
    found, cuts = run(tmp_path, [corpus({"a": 30, "b": 1})], 0.1)
    again = pickle.loads(pickle.dumps(cuts))
    assert list(sampled(tmp_path / "0.parquet", again)) == found
    assert again.of("s").keys() == {"a", "b"}
    assert again.of("other") == {}
