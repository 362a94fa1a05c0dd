"""Scans that an earlier version stored: a finished one is read, one that stopped goes on.

A stage of a scan is resumed if its key is the same. That of reading holds the addresses of the
corpus and what says when its files changed, so the corpus of these scans lies in memory: files on
disk have other paths on every machine, and a scan of files that moved begins anew.
"""

import importlib.metadata
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import bayescontam
from tests.golden.corpus import ADDRESS, MANIFEST, corpus_in_memory
from tests.golden.expected import check_numbers
from tests.support.corpora import TABLES, leftovers, shard_lines

pytest.importorskip("torch")

NUMBERS = Path(__file__).parent / "numbers"
PAIR = ["benchmark", "item", "source", "document", "chunk"]


@pytest.fixture(autouse=True)
def corpus() -> Iterator[None]:
    with corpus_in_memory():
        yield


def scan(out: str, **options: bool) -> bayescontam.Scan:
    """Scan in this process what the manifest says."""
    return bayescontam.run_scan(MANIFEST, out, jobs=1, device="cpu", **options)


def assert_alike(one: Path, other: Path) -> None:
    """Hold the tables of two scans against each other: cosines up to rounding."""
    for name in TABLES:
        tables = [_up_to_rounding(pd.read_parquet(folder / f"{name}.parquet"))
                  for folder in (one, other)]  # fmt: skip
        keys = [key for key in PAIR if key in tables[0]]
        ordered = [table.sort_values(keys, kind="stable").reset_index(drop=True)
                   for table in tables]  # fmt: skip
        pd.testing.assert_frame_equal(*ordered, rtol=0, atol=1e-6)


def _up_to_rounding(table: pd.DataFrame) -> pd.DataFrame:
    """Join the two highest bins of a histogram: in which a copy falls depends on the processor.

    Its cosine is 1 up to rounding.
    """
    if "count" not in table or "cosine" not in table:
        return table
    table = table.assign(cosine=table["cosine"].clip(upper=0.999))
    keys = [name for name in table if name != "count"]
    return table.groupby(keys, sort=False, observed=True, dropna=False, as_index=False)[
        ["count"]
    ].sum()[[*table]]


def test_a_finished_scan_says_what_it_said(there: Path) -> None:
    found = bayescontam.Scan.load("scan/finished")
    hidden = {"created", "seconds", "versions", "version"}
    record = {key: value for key, value in found.record.items() if key not in hidden}
    columns = {name: list(getattr(found, name).columns) for name in TABLES}
    best = found.matches[found.matches["rank"] == 1][[*PAIR, "cosine", "copies"]]
    counts = {name: len(getattr(found, name)) for name in TABLES}
    rows = json.loads(best.to_json(orient="records", double_precision=15))
    content = {"record": record, "columns": columns, "counts": counts, "best": rows}
    check_numbers(NUMBERS / "scan.json", content, rel=1e-6)


def test_a_finished_scan_is_returned_as_it_is(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("scan")
    before = {path: path.read_bytes() for path in Path("finished").iterdir()}
    scan("finished")
    assert {path: path.read_bytes() for path in Path("finished").iterdir()} == before


def test_the_scan_made_anew_is_the_stored_one(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("scan")
    again = scan("new")
    assert_alike(Path("new"), Path("finished"))
    assert again.record["key"] == bayescontam.Scan.load("finished").record["key"]


def test_a_stopped_scan_goes_on_where_it_stopped(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("scan")
    out, searched = Path("stopped"), shard_lines(Path("stopped"))
    assert len(searched) == 2
    done = scan("stopped")
    lines = shard_lines(out)
    total = done.record["search"]["shards"]
    # Work of another version is done again: the version is part of each stage's key.
    ours = bayescontam.Scan.load("finished").record["version"]
    same = importlib.metadata.version("bayescontam") == ours
    assert lines[:2] == searched
    assert len(lines) == total + (0 if same else 2)
    assert_alike(out, Path("finished"))
    assert done.record["key"] == bayescontam.Scan.load("finished").record["key"]
    assert leftovers(out) == []


def test_a_scan_of_a_corpus_that_moved_is_refused(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("scan")
    moved = Path(MANIFEST).read_text(encoding="utf-8").replace(f"memory:/{ADDRESS}", "corpus")
    Path(MANIFEST).write_text(moved, encoding="utf-8")
    scan("local")
    shutil.copytree(Path.cwd(), there / "elsewhere")
    monkeypatch.chdir(there / "elsewhere")
    with pytest.raises(bayescontam.UsageError, match="has changed since: files of the corpus"):
        scan("local")
    assert_alike(Path("local"), there / "scan" / "local")
    scan("local", replace=True)
    assert_alike(Path("local"), there / "scan" / "local")
