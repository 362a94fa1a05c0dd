"""Record: what is read back is what was written, and what cannot be read is refused."""

import json
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.errors import UsageError
from bayescontam.published.findings import RECORD, Record
from tests.support.made_findings import RUN, TEXT, findings


@pytest.fixture
def record(tmp_path: Path) -> Record:
    made = Record("made", TEXT, (RUN,), findings())
    made.save(tmp_path)
    return Record.load(tmp_path)


def test_everything_is_read_back(record: Record) -> None:
    before = findings()
    assert (record.name, record.text, record.runs) == ("made", TEXT, (RUN,))
    assert record.spec.settings == {"tables": 3}
    assert record.findings.headline == before.headline
    assert record.findings.notes == before.notes
    assert repr(record.findings.comparisons) == repr(before.comparisons)  # NaN is not itself
    for one, other in zip(record.findings.pictures, before.pictures, strict=True):
        assert (one.kind, one.title, one.caption, one.x, one.y) == (
            other.kind, other.title, other.caption, other.x, other.y,
        )  # fmt: skip
        pd.testing.assert_frame_equal(one.table, other.table)
    for mine, theirs in zip(record.findings.tables, before.tables, strict=True):
        assert (mine.title, mine.caption) == (theirs.title, theirs.caption)
        pd.testing.assert_frame_equal(mine.table, theirs.table)


def test_the_tables_lie_beside_it_as_csv(record: Record, tmp_path: Path) -> None:
    table = pd.read_csv(tmp_path / "a-table-95.csv")
    pd.testing.assert_frame_equal(table, findings().tables[0].table)
    comparison = pd.read_csv(tmp_path / "comparison.csv")
    assert list(comparison.columns) == [
        "study", "quantity", "where", "published", "published_low", "published_high",
        "ours", "ours_low", "ours_high", "agreement", "reason", "source",
    ]  # fmt: skip
    assert comparison["study"].unique().tolist() == ["made"]
    assert comparison["agreement"].tolist() == [
        "inside our interval", "apart", "no interval of ours",
    ]  # fmt: skip
    assert comparison.loc[0, "published_low"] == -0.153


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "holds no finished reproduction; make one with: bayescontam study run"),
        ("{", "cannot be read"),
        (json.dumps({"format": 99}), "has another layout"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "reproduction.json").write_text(content)
    with pytest.raises(UsageError, match=message):
        Record.load(tmp_path)


@pytest.mark.parametrize("part", ["runs", "findings", "text"])
def test_a_record_without_a_part_is_refused(record: Record, tmp_path: Path, part: str) -> None:
    content = json.loads((tmp_path / RECORD).read_text())
    del content[part]
    (tmp_path / RECORD).write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"reproduction\.json: lacks a part(?s:.*)run the study"):
        Record.load(tmp_path)
