"""Reading files: what stands in them arrives, what is no table is refused with reason."""

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.data.responses import Responses
from bayescontam.data.tables import load_table, read_table
from bayescontam.errors import DataError, UsageError
from tests.support.memory import run_and_weigh
from tests.support.real_data import HOSTILE, names, shared

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
    assert load_table(path).delimiter == ","


def test_json_keeps_types_and_fills_absent_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1, "b": "1"}\r\n\r\n{"a": true}\r\n')
    frame = read_table(path)
    assert frame["a"].tolist() == [1, True]
    assert frame["a"][1] is True
    assert frame["b"].isna().tolist() == [False, True]
    assert not load_table(path).delimiter


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
    ("a.csv", "model\ncaf\xe9\n".encode("latin-1"), "byte 0xe9 in line 2 is not valid UTF-8"),
    ("a.csv", CSV.encode("utf-16"), "UTF-16"),
    ("a.csv", CSV.encode("utf-16-le"), "NUL byte in line 1: UTF-16"),
    ("a.csv", b"%PDF-1.7 ...", "content is a PDF"),
    ("a.csv", b"\x89PNG\r\n\x1a\n", "content is a PNG"),
    ("a.csv", b"PK\x03\x04...", "content is an Excel workbook"),
    ("a.csv", b"\n<!DOCTYPE html><html>", "content is a web page"),
    ("a.csv.gz", gzip.compress(CSV.encode() * 99, mtime=0)[:-20], "damaged"),
    ("a.parquet", CSV.encode(), "no Parquet file: the content is something else"),
    ("a.parquet", b"PAR1" + b"x" * 50, "damaged Parquet file"),
    ("a.jsonl", b'{"a": 1}\n{"a": \n', "row 2: is no JSON: Expecting value"),
    (
        "a.jsonl",
        b'{"a": 1}\n[1]\n7\n',
        r"rows 2, 3: got \[1\], 7; allowed is one JSON object a row",
    ),
    ("a.jsonl", b"[1]\n[2]\n", r"rows 1, 2: got \[1\], \[2\]; allowed"),
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
    message = (
        r"a\.csv: rows 1, 2, 3, 4, 5 and 35 more: too few cells: 1, but the header has 2\n"
        r".*row 42: too many cells: 3"
    )
    with pytest.raises(DataError, match=message) as caught:
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


@pytest.mark.parametrize(
    ("file", "delimiter", "note"),
    [("a.csv", ";", "';'"), ("a.csv", "\t", "a tab"), ("a.tsv", ",", "','"), ("a.csv", "|", "'|'")],
)
def test_other_separators_are_recognised(
    file: str, delimiter: str, note: str, tmp_path: Path
) -> None:
    path = tmp_path / file
    path.write_bytes(b"\xef\xbb\xbf" + _csv([["A;,\t|", "q"], ["two\nlines", ""]], delimiter))
    table = load_table(path)
    assert table.frame.to_numpy().tolist() == [["A;,\t|", "q"], ["two\nlines", ""]]
    assert table.delimiter == delimiter
    assert table.notes == (f"{path}: columns are separated by {note}",)


@pytest.mark.parametrize("file", ["a.csv", "a.csv.gz", "a.csv.xz"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_compression_is_recognised_by_content(
    file: str, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / file
    path.write_bytes(pack(CSV.encode()))
    assert read_table(path).to_numpy().tolist() == [["A", "q1"], ["B", "q2"]]


PRETTY = '{\n "accuracy": 66.7,\n "details": {"0": {"correct": true}, "1": {"correct": false}}\n}'


@pytest.mark.parametrize("text", [PRETTY, PRETTY[:-5], PRETTY.replace("\n ", "\r\n\t")])
def test_one_object_is_recognised_by_content(text: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(text.encode())
    with pytest.raises(
        DataError,
        match=r"one JSON object, with the keys 'accuracy', 'details'.*\n.*"
        r"looks like a file of OpenCompass: .* bayescontam import opencompass",
    ) as caught:
        read_table(path)
    assert len(caught.value.faults) == 1


@pytest.mark.parametrize("size", [1, 7, 1000])
@given(
    rows=st.lists(
        st.dictionaries(
            st.sampled_from("ab"),
            st.text(max_size=9)
            | st.floats(allow_nan=False)
            | st.booleans()
            | st.lists(st.integers(), max_size=3),
            min_size=1,
        ),
        min_size=1,
        max_size=9,
    ),
    indent=st.sampled_from([None, 1]),
)
def test_a_list_read_in_pieces_is_the_list(
    size: int,
    rows: list[dict[str, object]],
    indent: int | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("list") / "a.json"
    path.write_text(json.dumps(rows, indent=indent) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayescontam.data.jsonl._PIECE", size)
        frame = read_table(path)
    for position, row in enumerate(rows):
        for name in frame.columns:
            cell = frame.at[position, name]
            assert cell == row[name] if name in row else np.isnan(cell)


def _many_kinds() -> pa.Table:
    """Return a table of three responses with columns of every kind that tools write."""
    names = pa.array(["m", "m", "n"])
    moments = pa.array([0, 1, None], pa.timestamp("us", "UTC"))
    return pa.table({
        "model": pa.array(["m", "m", "n"], pa.large_string()),
        "benchmark": pa.DictionaryArray.from_arrays(pa.array([0, 0, 0]), pa.array(["quiz"])),
        "item": pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), pa.array([7, 12])),
        "correct": pa.array([True, None, False]),
        "contamination": pa.array(["0.250", "0.500", "1.000"], pa.string()).cast(pa.float64()).cast(
            pa.decimal128(5, 3)),
        "bytes": names.cast(pa.binary()),
        "raw": pa.array([b"\xff", b"a", None]),
        "view": names.cast(pa.string_view()),
        "half": pa.array([0.5, 1, 2], pa.float16()),
        "nothing": pa.nulls(3),
        "when": moments,
        "far": pa.array([-(10**17), 0, 10**17], pa.timestamp("us")),
        "day": moments.cast(pa.date32()),
        "clock": pa.array([1, 2, 3], pa.time64("us")),
        "took": pa.array([1, 2, 3], pa.duration("s")),
        "many": pa.array([[1], [], None]),
        "deep": pa.array([{"a": [{"b": 1}]}, None, {"a": []}]),
        "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "fixed": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
        "large": pa.array([2**64 - 1, None, 0], pa.uint64()),
    })  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False, "row_group_size": 2},
        {"compression": "zstd", "data_page_version": "2.0"},
    ],
)
def test_parquet_of_every_kind_is_read(options: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(_many_kinds(), path, **options)
    frame = read_table(path)
    assert frame["model"].tolist() == ["m", "m", "n"]
    assert frame["benchmark"].tolist() == ["quiz"] * 3
    assert frame["bytes"].tolist() == ["m", "m", "n"]
    assert frame["large"][0] == 2**64 - 1
    responses = Responses.from_frame(frame, drop_missing=True)
    assert responses.frame["item"].tolist() == ["12", "12"]
    assert responses.frame["contamination"].tolist() == [0.25, 1]


@cache  # to compress takes long
def _bombs() -> dict[str, bytes]:
    text = io.BytesIO()
    cells = pa.DictionaryArray.from_arrays(pa.array([0] * 1000), pa.array(["x" * 10_000]))
    pq.write_table(pa.table({"item": cells}), text)
    rows = b"model,item\n" + b"A,q\n" * 200_000
    objects = b'{"model":"A"}\n' * 200_000
    return {
        "file.csv.gz": gzip.compress(rows), "file.tsv.xz": lzma.compress(rows),
        "file.jsonl.bz2": bz2.compress(objects), "file.json": b"[" + b'{"a":1},' * 200_000,
        "file.parquet": text.getvalue(),
        "record.csv": b"model,item\nA," + b"x" * 60_000, "record.tsv": b'a\tb\n"' + b"x\n" * 30_000,
        "record.jsonl": b'{"a": "' + b"x" * 60_000 + b'"}',
        "record.json": b'[{"a": "' + b"x" * 60_000 + b'"}]',
        "cells.csv": rows[:100_000], "cells.jsonl": objects[: 15 * 35_000],
    }  # fmt: skip


@pytest.mark.parametrize("file", _bombs())
def test_files_beyond_the_bounds_are_refused(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / file
    path.write_bytes(_bombs()[file])
    kind = file.split(".")[0]
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "600kB")
    monkeypatch.setenv("BAYESCONTAM_MAX_RECORD", "50kB")
    monkeypatch.setenv("BAYESCONTAM_MAX_CELLS", "30000")
    if kind != "cells":
        monkeypatch.setenv("BAYESCONTAM_MAX_CELLS", "1e9")
    message = rf"{file}: .*(more|longer) than .*\n.*BAYESCONTAM_MAX_{kind.upper()} to more$"
    with pytest.raises(DataError, match=message):
        read_table(path)


@pytest.mark.slow
def test_a_million_rows_take_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.csv.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write("model,benchmark,item,correct,contamination\n")
        for model in range(50):
            rows = (f"model {model},quiz,item {i},{i % 2},{i % 11 / 10}\n" for i in range(20_000))
            file.writelines(rows)
    code = (
        "from bayescontam.data.responses import read_responses\n"
        "assert len(read_responses(sys.argv[1]).frame) == 1_000_000\n"
    )
    message, peak = run_and_weigh(code, path)
    assert message == ""
    assert peak < 1.2e9


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("first", ["sep={}\r\n", '"sep={}"\n', "SEP={}\n\n"])
def test_the_first_line_of_excel_is_no_header(delimiter: str, first: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [delimiter.join(["model", "item"]), delimiter.join(["a", "7"])]
    text = first.format(delimiter) + "\r\n".join(lines) + "\r\n"
    path.write_bytes(text.encode("utf-8-sig"))
    table = load_table(path)
    assert table.frame.to_dict("list") == {"model": ["a"], "item": ["7"]}
    assert table.delimiter == delimiter
    path.write_text(first.format(delimiter))
    with pytest.raises(DataError, match="only a line 'sep='; a table needs a header and a row"):
        load_table(path)
