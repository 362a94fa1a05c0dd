"""Judgements: read with every fault named, written as they are, and merged without losses."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.data.judgements import KINDS, Judgements, read_judgements, run_of, write_judgements
from bayescontam.errors import DataError, UsageError
from tests.support.real_data import names

CONTENT = ["is_duplicate", "kind", "confidence", "comment"]


def _frame(**columns: Any) -> pd.DataFrame:
    plain = {
        "benchmark": "b",
        "item": ["1", "2", "3"],
        "source": "web",
        "document": "d",
        "chunk": [0, 1, 0],
        "judge": "Ada",
        "is_duplicate": [1, 0, None],
    } | columns
    kept = {name: cells for name, cells in plain.items() if cells is not None}
    return pd.DataFrame(kept, index=range(3))


@cache  # the same few rows come again and again
def _judged(*rows: tuple[str, str, Any, str]) -> Judgements:
    """Judgements of items: (item, judge, verdict, comment)."""
    frame = pd.DataFrame(rows, columns=["item", "judge", "is_duplicate", "comment"])
    return Judgements.from_frame(frame.assign(benchmark="b", document="d", chunk=0))


def _verdicts(judgements: Judgements) -> dict[tuple[str, str], Any]:
    frame = judgements.frame
    verdicts = [None if pd.isna(verdict) else verdict for verdict in frame["is_duplicate"]]
    return dict(zip(zip(frame["item"], frame["judge"], strict=True), verdicts, strict=True))


def test_columns_are_typed_and_ordered(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "kind,is_duplicate,judge,chunk,document,item,benchmark,mood\n"
        "Exact , YES,Ada,007,d,007,NA,good\n,no,Ada,1.0,d,007,NA,\n,,Ada,2,d,007,NA,\n"
    )
    judgements = read_judgements(path)
    assert judgements.source == str(path)
    assert judgements.notes == ("left out columns that judgements do not have: 'mood'",)
    frame = judgements.frame
    assert list(frame) == [
        "benchmark", "item", "source", "document", "chunk", "judge", *CONTENT,
    ]  # fmt: skip
    assert frame["chunk"].tolist() == [7, 1, 2]
    assert frame["is_duplicate"].dtype == "Int8"
    assert frame["is_duplicate"].tolist() == [1, 0, pd.NA]
    assert frame["kind"].tolist() == ["exact", "", ""]
    assert (frame["item"] == "007").all()
    assert (frame["benchmark"] == "NA").all()
    assert (frame["source"] == "").all()
    assert frame["confidence"].isna().all()


@pytest.mark.parametrize("cell", [1, 1.0, "1", True, "yes", "TRUE", " Yes ", np.int8(1)])
def test_spellings_of_a_duplicate(cell: Any) -> None:
    frame = _frame(is_duplicate=pd.Series([cell, 0, None], dtype=object))
    assert Judgements.from_frame(frame).frame["is_duplicate"].tolist() == [1, 0, pd.NA]


@pytest.mark.parametrize("cell", [None, "", " ", np.nan, pd.NA, "NA"])
def test_blank_is_unjudged_and_not_clean(cell: Any) -> None:
    frame = _frame(is_duplicate=pd.Series([cell, 0, 1], dtype=object))
    assert Judgements.from_frame(frame).frame["is_duplicate"].isna().tolist() == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (_frame(judge=None), "judge: no such column; add one: who judged"),
        (_frame(chunk=None, Chunk=0), "did you mean 'Chunk'"),
        (_frame(chunk=[0, -1, 0]), "row 2: chunk: got -1"),
        (_frame(chunk=[0, 1.5, 0]), "row 2: chunk: got 1.5"),
        (_frame(chunk=[0, None, 0]), "row 2: chunk: got nothing"),
        (_frame(judge=["a", " ", "c"]), "row 2: judge: blank name"),
        (_frame(is_duplicate=[1, 2, 0]), "row 2: is_duplicate: got 2"),
        (_frame(is_duplicate=["maybe", "1", "0"]), "row 1: is_duplicate: got 'maybe'"),
        (_frame(kind=["exact", "same", ""]), "row 2: kind: got 'same', allowed is exact, equiv"),
        (_frame(kind=[1, "exact", ""]), "row 1: kind: got 1"),
        (_frame(confidence=[0, 1.1, 1]), "row 2: confidence: got 1.1"),
        (_frame(confidence=["high", "", "1"]), "row 1: confidence: got 'high'"),
        (_frame(kind=["unrelated", "", ""]), "row 1: kind: got 'unrelated', but is_duplicate"),
        (_frame(kind=["", "exact", ""]), "row 2: kind: got 'exact', but is_duplicate"),
        (_frame(kind=["", "equivalent", ""]), "row 2: kind: got 'equivalent', but"),
        (_frame(item="1", chunk=0), "rows 2, 3: judge: same benchmark, item, .*, judge as row 1"),
    ],
)
def test_bad_tables_are_refused(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Judgements.from_frame(frame)


def test_decimal_commas_in_confidence_are_read_and_noted() -> None:
    found = Judgements.from_frame(_frame(confidence=["0,8", " 1,00", "0.5"]))
    assert found.frame["confidence"].tolist() == [0.8, 1, 0.5]
    assert found.notes == ("DataFrame: decimal commas in 'confidence': 0,8 was read as 0.8",)
    with pytest.raises(DataError, match="row 1: confidence: got '8,5', allowed is a number from 0"):
        Judgements.from_frame(_frame(confidence=["8,5", None, 1]))


def test_chunks_in_thousands_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"row 1: chunk: got '1\.000', which may be in thous"
    ) as caught:
        Judgements.from_frame(_frame(chunk=["1.000", "2", "3"]))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("kind", ["subset", "superset", "related", ""])
def test_open_kinds_go_with_either_verdict(kind: str) -> None:
    frame = Judgements.from_frame(_frame(kind=kind)).frame
    assert frame["is_duplicate"].tolist() == [1, 0, pd.NA]


@given(
    st.lists(
        st.tuples(
            names(),
            names(),
            st.integers(0, 2**31 - 1),
            st.sampled_from([1, 0, None]),
            st.sampled_from(["", "subset", "related"]),
            st.floats(0, 1) | st.just(float("nan")),
            st.text(),
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda row: row[:3],
    ),
    st.sampled_from([".csv", ".parquet"]),
)
def test_files_give_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]], suffix: str
) -> None:
    frame = pd.DataFrame(rows, columns=["item", "judge", "chunk", *CONTENT])
    made = Judgements.from_frame(frame.assign(benchmark="b", source="s", document="d"))
    path = tmp_path_factory.mktemp("judged") / f"a{suffix}"
    write_judgements(path, made)
    again = read_judgements(path)
    pd.testing.assert_frame_equal(again.frame, made.frame)
    assert again.notes == ()


def test_a_nul_goes_into_parquet_only(tmp_path: Path) -> None:
    made = Judgements.from_frame(_frame(document="a\0b"))
    with pytest.raises(UsageError, match=r"NUL character, which no CSV file can; write \.parquet"):
        write_judgements(tmp_path / "a.csv", made)
    write_judgements(tmp_path / "a.parquet", made)
    assert (read_judgements(tmp_path / "a.parquet").frame["document"] == "a\0b").all()


def test_comments_of_models_can_always_be_stored(tmp_path: Path) -> None:
    comments = pd.Series(["half \ud83d and \0 nul"] * 3, dtype=object)
    made = Judgements.from_frame(_frame(comment=comments))
    write_judgements(tmp_path / "a.csv", made)
    assert read_judgements(tmp_path / "a.csv").frame["comment"][0] == "half ? and \ufffd nul"


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in '\.txt'; allowed for judgements is \.csv or"):
        write_judgements(tmp_path / "a.txt", Judgements.from_frame(_frame()))


@pytest.mark.parametrize(
    ("judge", "found"),
    [
        ("Ada", ("Ada", 1)),
        ("Ada#2", ("Ada#2", 1)),
        ("llm:m", ("llm:m", 1)),
        ("llm:m#12", ("llm:m", 12)),
        ("llm:a#b#2", ("llm:a#b", 2)),
        ("llm:a#b", ("llm:a#b", 1)),
    ],
)
def test_runs_of_a_model(judge: str, found: tuple[str, int]) -> None:
    assert run_of(judge) == found


SIDED = [["subset", "superset", "exact"], ["superset", "subset", "exact"]]


def _stored(folder: Path, suffix: str, **columns: Any) -> Path:
    """Write a table of three duplicates as somebody else's program may."""
    path = folder / f"judged{suffix}"
    frame = _frame(is_duplicate=1, source=None, **columns)
    if suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize("version", [1, 2])
def test_kinds_of_the_first_version_are_exchanged(
    tmp_path: Path, suffix: str, version: int
) -> None:
    path = _stored(tmp_path, suffix, kind=SIDED[0], judgements_format=version)
    found = read_judgements(path)
    assert found.frame["kind"].tolist() == SIDED[version % 2]
    assert "judgements_format" not in found.frame
    assert [note[:42] for note in found.notes] == ["exchanged 'subset' and 'superset' in 2 row"] * (
        version == 1
    )


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_file_that_may_be_of_either_version_is_refused(tmp_path: Path, suffix: str) -> None:
    message = (
        r"kind: 2 rows have the kind 'subset' or 'superset', and no column states which version"
        r"(?s:.*)Add a column 'judgements_format': 2 where .* asks for less"
    )
    with pytest.raises(DataError, match=message):
        read_judgements(_stored(tmp_path, suffix, kind=SIDED[0]))
    # Other kinds mean the same in both versions.
    kinds = ["exact", "related", "Equivalent"]
    found = read_judgements(_stored(tmp_path, suffix, kind=kinds))
    assert found.frame["kind"].tolist() == ["exact", "related", "equivalent"]


def test_each_row_has_a_version(tmp_path: Path) -> None:
    columns = {"kind": ["subset", "Superset", ""], "judgements_format": [1, 2, None]}
    found = read_judgements(_stored(tmp_path, ".csv", **columns))
    assert found.frame["kind"].tolist() == ["superset", "superset", ""]
    for version in (3, 1.5, "new", None):
        columns["judgements_format"] = pd.Series([1, version, 2], dtype=object)
        with pytest.raises(DataError, match=r"row 2: judgements_format: got .*, allowed is 1 to 2"):
            read_judgements(_stored(tmp_path, ".csv", **columns))


def test_a_table_in_memory_has_the_present_meaning() -> None:
    frame = _frame(is_duplicate=1, kind=SIDED[0])
    assert Judgements.from_frame(frame).frame["kind"].tolist() == SIDED[0]
    old = Judgements.from_frame(frame.assign(judgements_format=1))
    assert old.frame["kind"].tolist() == SIDED[1]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_is_written_states_its_version(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"judged{suffix}"
    write_judgements(path, Judgements.from_frame(_frame(is_duplicate=1, kind=SIDED[0])))
    stored = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    assert stored["judgements_format"].tolist() == [2, 2, 2]
    assert read_judgements(path).frame["kind"].tolist() == SIDED[0]


def test_kinds_are_seen_from_the_item() -> None:
    assert KINDS["subset"].startswith("the item asks for less than the chunk")
    assert KINDS["superset"].startswith("the item asks for more than the chunk")


def test_all_kinds_are_defined() -> None:
    assert list(KINDS) == ["exact", "equivalent", "subset", "superset", "related", "unrelated"]


def test_merging_keeps_all_judges() -> None:
    one = _judged(("1", "Ada", 1, ""), ("2", "Ada", 0, ""))
    two = _judged(("1", "Bo", 0, ""), ("2", "Ada", 0, ""), ("3", "Ada", 1, ""))
    assert list(_verdicts(one.merged(two)).items()) == [
        (("1", "Ada"), 1), (("2", "Ada"), 0), (("1", "Bo"), 0), (("3", "Ada"), 1),
    ]  # fmt: skip
    assert _verdicts(one) == {("1", "Ada"): 1, ("2", "Ada"): 0}


def test_a_verdict_stands_for_an_unjudged_row() -> None:
    judged, unjudged = _judged(("1", "Ada", 0, "")), _judged(("1", "Ada", None, "timeout"))
    for replace in (False, True):
        assert _verdicts(judged.merged(unjudged, replace=replace)) == {("1", "Ada"): 0}
        assert _verdicts(unjudged.merged(judged, replace=replace)) == {("1", "Ada"): 0}
    later = unjudged.merged(_judged(("1", "Ada", None, "refused")))
    assert later.frame["comment"].tolist() == ["refused"]


@pytest.mark.parametrize("other", [("2", "Ada", 1, ""), ("2", "Ada", 0, "sure")])
def test_another_verdict_is_an_error_or_replaces(other: tuple[str, str, Any, str]) -> None:
    old = _judged(("1", "Ada", 1, ""), ("2", "Ada", 0, ""), ("3", "Ada", 0, ""))
    new = _judged(("9", "Ada", 1, ""), other, ("3", "Ada", 0, ""))
    with pytest.raises(DataError, match="item '2', document 'd', chunk 0 before") as caught:
        old.merged(new)
    assert [fault.row for fault in caught.value.faults] == [2]
    frame = old.merged(new, replace=True).frame
    assert frame["item"].tolist() == ["1", "2", "3", "9"]
    assert frame["is_duplicate"].tolist() == [1, other[2], 0, 1]
    assert frame["comment"].tolist() == ["", other[3], "", ""]
    assert frame.dtypes.equals(old.frame.dtypes)


@given(st.lists(st.tuples(st.sampled_from("123"), st.sampled_from([0, 1, None])), max_size=12))
def test_replacing_leaves_the_last_verdict(rows: list[tuple[str, Any]]) -> None:
    wanted: dict[tuple[str, str], Any] = {("0", "Ada"): 1}
    merged = _judged(("0", "Ada", 1, ""))
    for item, verdict in rows:
        key = item, "Ada"
        wanted[key] = wanted.get(key) if verdict is None else verdict
        merged = merged.merged(_judged((item, "Ada", verdict, "")), replace=True)
    assert _verdicts(merged) == wanted


def test_a_verdict_replaces_rows_that_were_unjudged_beside_others() -> None:
    """The other rows, judged or not, are as they were, and so are the types."""

    def table(verdicts: list[int | None]) -> Judgements:
        rows = {"item": [f"q{k}" for k in range(len(verdicts))], "is_duplicate": verdicts}
        return Judgements.from_frame(
            pd.DataFrame(rows).assign(benchmark="b", document="d", chunk=0, judge="Ada")
        )

    old, new = table([None, 1, None, 0]), table([1, 1, None, 0, 1])
    found = old.merged(new)
    assert found.frame["is_duplicate"].fillna(-1).tolist() == [1, 1, -1, 0, 1]
    assert found.frame["item"].tolist() == ["q0", "q1", "q2", "q3", "q4"]
    assert found.frame.dtypes.equals(old.frame.dtypes)
    assert found.frame.index.equals(pd.RangeIndex(5))
