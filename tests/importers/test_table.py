"""Reading files: what stands in them arrives, what is no table is refused with reason."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.errors import DataError, UsageError
from bayescontam.importers.table import holds_text, read_table
from tests.data import HOSTILE, names, shared

CSV = "model,item\nA,q1\nB,q2\n"


def _csv(rows: list[list[str]], delimiter: str = ",") -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter).writerows([["model", "item"], *rows])
    return out.getvalue().encode()


def _jsonl(rows: list[list[str]]) -> bytes:
    lines = [json.dumps({"model": a, "item": b}, ensure_ascii=False) for a, b in rows]
    return "\n".join(lines).encode()


def _json_list(rows: list[list[str]]) -> bytes:
    return json.dumps([{"model": a, "item": b} for a, b in rows], indent=1).encode()


def _parquet(rows: list[list[str]]) -> bytes:
    out = io.BytesIO()
    pd.DataFrame(rows, columns=["model", "item"]).to_parquet(out, index=False)
    return out.getvalue()


WRITERS: dict[str, Callable[[list[list[str]]], bytes]] = {
    "a.csv": _csv,
    "a.tsv": lambda rows: _csv(rows, "\t"),
    "a.CSV.gz": lambda rows: gzip.compress(_csv(rows), mtime=0),
    "a.jsonl": _jsonl,
    "a.json": _json_list,
    "a.ndjson.gz": lambda rows: gzip.compress(_jsonl(rows), mtime=0),
    "a.parquet": _parquet,
}


@pytest.mark.parametrize("file", WRITERS)
@given(rows=st.lists(st.lists(names(), min_size=2, max_size=2), min_size=1, max_size=6))
def test_names_survive_exactly(
    file: str, rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("names") / file
    path.write_bytes(WRITERS[file](rows))
    assert read_table(path).to_numpy().tolist() == rows


@pytest.mark.parametrize("file", WRITERS)
def test_hostile_names_survive_exactly(file: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_bytes(WRITERS[file]([[name, "q"] for name in HOSTILE]))
    assert read_table(path)["model"].tolist() == HOSTILE


def test_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(CSV, encoding="utf-8-sig")
    assert list(read_table(path).columns) == ["model", "item"]


def test_csv_cells_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n1,,NA\n\n01,True,nan\n\n")
    assert read_table(path).to_numpy().tolist() == [["1", "", "NA"], ["01", "True", "nan"]]
    assert holds_text(path)


def test_json_keeps_types_and_fills_absent_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1, "b": "1"}\r\n\r\n{"a": true}\r\n')
    frame = read_table(path)
    assert frame["a"].tolist() == [1, True]
    assert frame["a"][1] is True
    assert frame["b"].isna().tolist() == [False, True]
    assert not holds_text(path)


def test_parquet_gives_its_index_and_categories_as_columns(tmp_path: Path) -> None:
    path = tmp_path / "k=1" / "a.parquet"  # a folder name that looks like a partition
    path.parent.mkdir()
    frame = pd.DataFrame({"m": pd.Categorical(["A", None]), "n": pd.array([2**60 + 1, None])})
    frame.set_index("m").to_parquet(path)
    read = read_table(path)
    assert sorted(read.columns) == ["m", "n"]
    assert read["n"][0] == 2**60 + 1
    assert read["m"][0] == "A"


BAD_CONTENT = [
    ("a.csv", b"", "file is empty"),
    ("a.csv", b"\xef\xbb\xbf \n", "file is blank"),
    ("a.csv", b"model,item\n", "no rows"),
    ("a.csv", b"model,model\nA,B\n", "two columns are named 'model'"),
    ("a.csv", b",model\n0,B\n", "column 1 has no name.*index=False"),
    ("a.csv", b"model,item\nA,q\nB\n", r"row 2: too few cells: 1, .* has 2"),
    ("a.csv", b"model,item\nA,q,r\n", r"row 1: too many cells: 3, .* has 2\n.*need quotes"),
    ("a.csv", b'model,item\nA,q\nB,"q\nC,r\n', "row 2: broken quotes"),
    ("a.csv", b'mod"el,"it"em\nA,q\n', "broken quotes"),
    ("a.csv", b"model;item\nA;q\n", "holds ';'; .* by ','"),
    ("a.tsv", b"model,item\nA,q\n", "holds ','; .* by a tab"),
    ("a.csv", "model\ncaf\xe9\n".encode("latin-1"), "byte 0xe9 in line 2 is not valid UTF-8"),
    ("a.csv", CSV.encode("utf-16"), "UTF-16"),
    ("a.csv", CSV.encode("utf-16-le"), "NUL byte in line 1: UTF-16"),
    ("a.csv", b"%PDF-1.7 ...", "content is a PDF"),
    ("a.csv", b"\x89PNG\r\n\x1a\n", "content is a PNG"),
    ("a.csv", b"PK\x03\x04...", "content is an Excel workbook"),
    ("a.csv", b"\n<!DOCTYPE html><html>", "content is a web page"),
    ("a.csv", gzip.compress(CSV.encode(), mtime=0), "content is gzip-compressed"),
    ("a.csv.gz", CSV.encode(), "damaged, or not gzip-compressed"),
    ("a.csv.gz", gzip.compress(CSV.encode() * 99, mtime=0)[:-20], "damaged"),
    ("a.parquet", CSV.encode(), "no Parquet file: the content is something else"),
    ("a.parquet", b"PAR1" + b"x" * 50, "damaged Parquet file"),
    ("a.jsonl", b'{"a": 1}\n{"a": \n', "row 2: is no JSON: Expecting value"),
    ("a.jsonl", b'{"a": 1}\n[1]\n7\n', r"row 2: got \[1\].*\n.*row 3: got 7"),
    ("a.jsonl", b"[1]\n[2]\n", r"row 1: got \[1\]"),
    ("a.jsonl", b'{"a": 1, "a": 2}', "row 1: repeated key 'a'"),
    ("a.jsonl", b'{"a": "\\ud800"}', "row 1: is no valid Unicode"),
    ("a.jsonl", b'{"a": 1, "": 2}', "column 2 has no name"),
    ("a.jsonl", b"{}", "no columns"),
    ("a.jsonl", b"[" * 100_000, "no JSON"),
    ("a.jsonl", b'{"a": 1}\n' + b'{"a":' * 100_000, "row 2: .*"),
    ("a.json", b"[]", "no columns"),
    ("a.json", b'[{"a": 1},\n', "is no JSON list: .* in line"),
    ("a.json", b'[{"a": 1}, 2]', "row 2: got 2"),
]


@pytest.mark.parametrize(("file", "content", "message"), BAD_CONTENT)
def test_bad_content_is_refused(file: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"{file}: (?s:.*){message}"):
        read_table(path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.nc", b"\x89HDF\r\n", r"ends in '.nc' and the content is a netCDF.*allowed is \.csv"),
        ("a.xlsx", b"PK\x03\x04", r"ends in '.xlsx' and .* Excel.*allowed is \.csv"),
        ("a", b"%PDF-1", "ends in '' and the content is a PDF"),
        ("a.parquet.gz", b"x", r"ends in '.gz'; allowed"),
        (".gz", b"x", "allowed"),
    ],
)
def test_unknown_endings_are_refused(
    file: str, content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / file
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_table(path)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "responses.csv").write_text(CSV)
    with pytest.raises(UsageError, match=r"no such file; did you mean 'responses\.csv'"):
        read_table(tmp_path / "response.csv")
    with pytest.raises(UsageError, match="no such file; check the path"):
        read_table(tmp_path / "none" / "zz.parquet")
    (tmp_path / "folder.csv").mkdir()
    for folder in (tmp_path, tmp_path / "folder.csv"):
        with pytest.raises(UsageError, match="is a folder"):
            read_table(folder)
    for odd in ("x" * 5000 + ".csv", "a\0b.csv", ""):
        with pytest.raises(UsageError, match=r"no such file|is a folder|name too long"):
            read_table(odd)


def test_all_faulty_rows_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1\n" * 40 + "1,2\n1,2,3\n")
    with pytest.raises(DataError, match="29 more faults of 41") as caught:
        read_table(path)
    assert [fault.row for fault in caught.value.faults] == [*range(1, 41), 42]


def test_long_cells_do_not_change_the_limit_of_others(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1," + "x" * 200_000 + "\n")
    assert len(read_table(path)["b"][0]) == 200_000
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    "file", ["musr_finetuning.csv", "conceptarc.csv", "llm_benchmarks.parquet"]
)
def test_real_files_are_read(file: str) -> None:
    assert {"model", "benchmark", "item"} <= set(read_table(shared(file)).columns)
