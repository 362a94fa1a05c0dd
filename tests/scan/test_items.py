"""Items: read whole from any kind of file, or refused with everything that is wrong."""

import bz2
import csv
import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.errors import DataError
from bayescontam.scan.items import Item, read_items
from bayescontam.specs.corpus import Benchmark
from tests.support.real_data import names, shared

RECORDS = [
    {"id": f"q{i}", "input": f"Question {i}, é?\nOr not", "output": f'"Answer" {i}', "n": i}
    for i in range(40)
]
ITEMS = [Item("quiz", str(r["id"]), str(r["input"])) for r in RECORDS]
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
    ".bz2": bz2.compress,
}
FORMATS = [".jsonl", ".ndjson", ".json", ".csv", ".parquet", ".pq"]


def jsonl(records: list[Any]) -> bytes:
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()


def as_csv(records: list[dict[str, Any]]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(records[0]))
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue().encode()


def parquet(records: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), out, row_group_size=7)
    return out.getvalue()


def encoded(records: list[Any], ending: str) -> bytes:
    return {".csv": as_csv, ".parquet": parquet, ".pq": parquet}.get(ending, jsonl)(records)


def read(path: Path, **options: Any) -> list[Item]:
    return read_items(Benchmark(name="quiz", path=path.name, **options), path.parent).items


def refused(path: Path, **options: Any) -> list[str]:
    """Return the faults of a file, without its path."""
    with pytest.raises(DataError) as caught:
        read(path, **options)
    faults = caught.value.faults
    assert {fault.file for fault in faults} == {str(path)}
    return [str(fault).removeprefix(f"{path}: ") for fault in faults]


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Write records, or bytes, to a file."""

    def write(content: list[Any] | bytes, name: str = "quiz.jsonl") -> Path:
        path = tmp_path / name
        ending = Path(name).suffix
        path.write_bytes(content if isinstance(content, bytes) else encoded(content, ending))
        return path

    return write


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_gives_the_same_items(file: Any, ending: str) -> None:
    assert read(file(RECORDS, f"quiz{ending}")) == ITEMS
    assert read(file(encoded(RECORDS, ending), f"QUIZ{ending.upper()}")) == ITEMS


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
@pytest.mark.parametrize("compressed", COMPRESSORS)
def test_compressed_files_are_read(file: Any, ending: str, compressed: str) -> None:
    data = COMPRESSORS[compressed](encoded(RECORDS, ending))
    assert read(file(data, f"quiz{ending}{compressed}")) == ITEMS


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
@pytest.mark.parametrize("compressed", COMPRESSORS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_that_was_cut_off_gives_no_items(
    file: Any, ending: str, compressed: str, share: float
) -> None:
    data = COMPRESSORS[compressed](encoded(RECORDS, ending))
    path = file(data[: int(len(data) * share)], f"quiz{ending}{compressed}")
    assert refused(path) == ["cannot be read (Truncated compressed stream)"]
    (fault,) = refused(file(b"", path.name))
    assert fault.startswith(("cannot be read (the file has no bytes", "holds no item"))


def test_a_parquet_file_that_was_cut_off_gives_no_items(file: Any) -> None:
    (fault,) = refused(file(parquet(RECORDS)[:-20], "quiz.parquet"))
    assert fault.startswith("cannot be read (")


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
def test_marks_of_utf8_and_windows_line_ends_are_no_fault(file: Any, ending: str) -> None:
    data = encoded([{**r, "input": f"Question {r['n']}, é?"} for r in RECORDS], ending)
    lines = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    items = read(file(b"\xef\xbb\xbf" + lines, f"quiz{ending}"))
    assert [item.item for item in items] == [r["id"] for r in RECORDS]
    assert [item.text for item in items] == [f"Question {i}, é?" for i in range(40)]


@given(texts=st.lists(names(), min_size=1, unique=True), ending=st.sampled_from(FORMATS))
def test_names_and_texts_stay_as_they_are(
    texts: list[str], ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("items") / f"quiz{ending}"
    path.write_bytes(encoded([{"id": t, "input": t, "output": "x"} for t in texts], ending))
    assert read(path) == [Item("quiz", text, text) for text in texts]


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_whole_numbers_become_names(file: Any, ending: str) -> None:
    numbers = [7, 0, -3, 2**53 + 1]
    path = file([{"id": n, "input": "Why?"} for n in numbers], f"quiz{ending}")
    assert [item.item for item in read(path)] == ["7", "0", "-3", "9007199254740993"]


@pytest.mark.parametrize("ending", FORMATS)
def test_digits_that_are_text_stay_text(file: Any, ending: str) -> None:
    path = file([{"id": name, "input": "Why?"} for name in ("007", "7", "1e5")], f"quiz{ending}")
    assert [item.item for item in read(path)] == ["007", "7", "1e5"]


@pytest.mark.parametrize(
    ("mode", "text"), [("input", "Why?"), ("output", "So."), ("input_output", "Why?\nSo.")]
)
@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_fields_and_text_mode_come_from_the_manifest(
    file: Any, mode: str, text: str, ending: str
) -> None:
    record = {"task": "a", "question": "Why?", "answer": "So.", "id": "", "input": "", "output": ""}
    options = {"item": "task", "input": "question", "output": "answer", "text_mode": mode}
    assert read(file([record], f"quiz{ending}"), **options) == [Item("quiz", "a", text)]


def test_fields_that_are_not_looked_for_may_be_anything(file: Any) -> None:
    path = file([{"id": 1, "input": "Why?"}, {"id": 2, "input": "How?", "output": [None]}])
    assert [item.text for item in read(path)] == ["Why?", "How?"]
    assert refused(path, text_mode="input_output") == [
        "row 1: output: is missing; fields there: 'id', 'input'",
        "row 2: output: got [None]; a text that is not blank is needed",
    ]
    answers = file([{"id": 1, "output": "So."}])
    assert read(answers, text_mode="output") == [Item("quiz", "1", "So.")]


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_dots_go_into_nested_fields(file: Any, ending: str) -> None:
    record = {"meta": {"id": 5}, "turn": {"text": "Why?"}, "flat.name": "So."}
    path = file([record], f"quiz{ending}")
    options = {"item": "meta.id", "input": "turn.text", "output": "flat.name"}
    assert read(path, text_mode="input_output", **options) == [Item("quiz", "5", "Why?\nSo.")]


def test_all_faults_are_reported_at_once_and_in_order(file: Any) -> None:
    lines = [
        b'{"id": "a", "input": "Why?"}',
        b'{"id": " ", "input": "Why?"}',
        b'{"input": "Why?"}',
        b"",
        b'{"id": null, "input": ""}',
        b'{"id": 1.5, "input": 3}',
        b'{"id": true, "input": ["Why?"]}',
        b'{"id": "a", "input": "How?"}',
        b'{"id": 7, "input": null}',
        b'{"id": "7", "input": "\\n"}',
        b'["id", "input"]',
        b'"text"',
        b"{'id': 1}",
        b'{"id": "b", "input": "\xff"}',
    ]
    text, name = "a text that is not blank is needed", "a name or a whole number is needed"
    assert refused(file(b"\n".join(lines))) == [
        f"row 2: id: got ' '; {name}",
        "row 3: id: is missing; fields there: 'input'",
        f"row 5: id: got nothing; {name}",
        f"row 5: input: got ''; {text}",
        f"row 6: id: got 1.5; {name}",
        f"row 6: input: got 3; {text}",
        f"row 7: id: got True; {name}",
        f"row 7: input: got ['Why?']; {text}",
        "row 8: id: 'a' is the name of row 1 as well; names must differ",
        f"row 9: input: got nothing; {text}",
        f"row 10: input: got '\\n'; {text}",
        "row 10: id: '7' is the name of row 9 as well; names must differ",
        "row 11: got ['id', 'input']; an object is needed",
        "row 12: got 'text'; an object is needed",
        "row 13: not JSON",
        "row 14: not UTF-8",
    ]


def test_the_message_says_what_an_item_is(file: Any) -> None:
    path = file([{"id": "a\x1b[31m" + "x" * 500, "input": None}])
    with pytest.raises(DataError, match=r"one object on one line.*the manifest says") as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: row 1: input: got nothing; a text")
    (fault, *_) = refused(file([{"id": "\x1b[31m" + "x" * 500, "input": "a"}] * 2))
    assert "'\\x1b[31mxxx" in fault
    assert len(fault) < 150


@pytest.mark.parametrize("ending", FORMATS)
def test_a_field_that_no_row_has_is_reported_once(file: Any, ending: str) -> None:
    there = "fields there: 'id', 'input', 'output', 'n'"
    assert refused(file(RECORDS, f"quiz{ending}"), item="name", input="text") == [
        f"name: no row has this field; {there}",
        f"text: no row has this field; {there}",
    ]


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("quiz.jsonl", b"", "holds no item"),
        ("quiz.jsonl", b"\n \r\n", "holds no item"),
        ("quiz.csv", b"", "holds no item"),
        ("quiz.csv", b"id,input\n", "holds no item"),
        ("quiz.parquet", parquet(RECORDS[:1])[:0], "cannot be read (Parquet file size is 0 bytes)"),
        ("quiz.parquet", b"id,input\n", "cannot be read (Parquet magic bytes not found"),
        ("quiz.jsonl", gzip.compress(b"{}", mtime=0), "cannot be read (the content is gzip"),
        ("quiz.jsonl", "{}".encode("utf-16"), "cannot be read (the content is UTF-16: save it"),
        ("quiz.csv", "id,input\n".encode("utf-16"), "cannot be read (it holds NUL bytes: it is"),
        ("quiz.csv", b'id,input\na,"b', "cannot be read (broken quotes in line 2: unexpected end"),
        ("quiz.csv", b'id,input\na,"b" c\n', "cannot be read (broken quotes in line 2: "),
        ("quiz.csv.zst", b"id,input\na,b\n", "cannot be read (ZSTD"),
        ("quiz.tsv", b"id\tinput\n", "cannot be read (its name shows no format; known endings"),
        ("quiz.parquet.gz", b"x", "cannot be read (its name shows no format; known endings are"),
        ("quiz", b"{}", "cannot be read (its name shows no format; known endings are .jsonl"),
    ],
)
def test_files_that_hold_no_items(file: Any, name: str, data: bytes, problem: str) -> None:
    (fault,) = refused(file(data, name))
    assert fault.startswith(problem)


def test_an_empty_parquet_file_holds_no_item(file: Any) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([], "string"), "input": pa.array([], "string")}), out)
    assert refused(file(out.getvalue(), "quiz.parquet")) == ["holds no item"]


def test_files_that_are_none(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.jsonl") == ["cannot be read (No such file or directory)"]
    assert refused(tmp_path / "no.parquet") == ["cannot be read (No such file or directory)"]
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")  # reading it would wait for ever
    problem = "cannot be read (it is a folder, a device or a pipe; give a file)"
    assert refused(tmp_path / "folder.jsonl") == [problem]
    assert refused(tmp_path / "pipe.jsonl") == [problem]


def test_rows_of_csv_have_the_cells_of_the_header(file: Any) -> None:
    data = b"id,input\na,b\n\nc\nd,e,f\n\xff,g\n"
    assert refused(file(data, "quiz.csv")) == [
        "row 2: fewer cells than the header has",
        "row 3: more cells than the header has",
        "row 4: not UTF-8",
    ]
    assert refused(file(b"id,input,input\na,b,c\n", "quiz.csv")) == [
        "two columns are named 'input'; keep one, or rename it"
    ]


def test_cells_of_csv_may_be_long(file: Any) -> None:
    limit = csv.field_size_limit()
    text = "x" * (limit + 1)
    assert read(file(f'id,input\n7,"{text}"\n'.encode(), "q.csv")) == [Item("quiz", "7", text)]
    assert csv.field_size_limit() == limit


def test_a_column_of_bytes_is_no_text(file: Any) -> None:
    assert refused(file([{"id": 1, "input": b"Why?"}], "quiz.parquet")) == [
        "row 1: input: got b'Why?'; a text that is not blank is needed"
    ]


def test_nul_and_half_characters_do_no_harm(file: Any) -> None:
    path = file(rb'{"id": "a\u0000", "input": "cut \ud83d"}')
    (item,) = read(path)
    assert (item.item, item.text) == ("a\0", "cut \ufffd")
    assert 0 <= item.key(0) < 2**32


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.parquet"])
def test_files_that_unpack_to_more_than_they_may_are_refused(
    file: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    records = [{"id": f"q{row}", "input": "x" * 100_000} for row in range(300)]
    data = encoded(records, f".{name.split('.')[1]}")
    path = file(gzip.compress(data) if name.endswith(".gz") else data, name)
    assert path.stat().st_size < 3_000_000
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "40MB")
    assert len(read(path)) == 300
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "10MB")
    assert "unpacks to more than 10 MB" in "".join(refused(path))


def test_an_absolute_path_and_an_address_have_no_base(file: Any, tmp_path: Path) -> None:
    path = file(RECORDS)
    for name in (str(path), f"file://{path}"):
        assert read_items(Benchmark(name="quiz", path=name), tmp_path / "elsewhere").items == ITEMS


def test_a_path_may_start_at_home(
    file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(file(RECORDS).parent))
    benchmark = Benchmark(name="quiz", path="~/quiz.jsonl")
    assert read_items(benchmark, tmp_path / "elsewhere").items == ITEMS


def test_keys_depend_on_everything_that_names_an_item() -> None:
    items = [Item("a", "b", "text"), Item("a", "c", "text"), Item("b", "b", "text")]
    keys = {item.key(seed) for item in items for seed in (0, 1)}
    assert len(keys) == 6
    assert all(0 <= key < 2**32 for key in keys)
    assert items[0].key(0) == Item("a", "b", "other").key(0)


def test_the_key_is_blake2b() -> None:
    # From `printf '3\x1fquiz\x1f\xc3\xa9' | b2sum -l 32`, its bytes read backwards.
    assert Item("quiz", "é", "text").key(3) == 0x267452A7


STORY = {"id": "a", "text": "A story.", "in": "Numbers.", "out": None, "n": 3, "level": "hard"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"input": "{text}\n\nInput: {in}"}, "A story.\n\nInput: Numbers."),
        ({"input": "{text} ({n}){out?}"}, "A story. (3)"),
        ({"input": "text", "output": "[{in}]", "text_mode": "input_output"},
         "A story.\n[Numbers.]"),
        ({"input": "text", "output": "in", "text_mode": "input_output",
          "input_output": "Prompt: {input}\nResponse: {output}"},
         "Prompt: A story.\nResponse: Numbers."),
        ({"output": "{in}", "text_mode": "output"}, "Numbers."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_templates_put_items_together(file: Any, options: Any, text: str, ending: str) -> None:
    (item,) = read(file([STORY], f"quiz{ending}"), **options)
    assert item.text == text


def test_what_a_template_needs_must_be_there(file: Any) -> None:
    rows = [STORY, {"id": "b", "text": " ", "n": 1, "out": [1]}, {"id": "c", "text": "C", "in": ""}]
    path = file(rows)
    need = "a text that is not blank or a number is needed"
    assert refused(path, input="{text}: {in}") == [
        f"row 2: text: got ' '; {need}",
        "row 2: in: is missing; fields there: 'id', 'text', 'n', 'out'",
        f"row 3: in: got ''; {need}",
    ]
    assert refused(path, input="{in?}{out?}") == [
        f"row 2: out: got [1]; {need}",
        "row 3: there is nothing in any of its fields 'in', 'out'",
    ]
    assert refused(path, input="{text?}{note?}") == [
        "note: no row has this field; fields there: 'id', 'text', 'in', 'out', 'n', 'level'"
    ]


LEVELS = [
    {"id": i, "input": f"Question {i}?", "level": ["easy", "hard"][i % 2], "n": i, "odd": i % 2 > 0}
    for i in range(10)
]


@pytest.mark.parametrize(
    ("where", "items"),
    [
        ({"level": "hard"}, [1, 3, 5, 7, 9]),
        ({"level": ("easy", "hard"), "n": (2.0, 3, 11)}, [2, 3]),
        ({"odd": False, "n": (1, 2)}, [2]),
    ],
)
@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_rows_are_chosen_and_the_others_counted(
    file: Any, where: Any, items: list[int], ending: str
) -> None:
    path = file(LEVELS, f"quiz{ending}")
    found = read_items(Benchmark(name="quiz", path=path.name, where=where), path.parent)
    assert [item.item for item in found.items] == [str(i) for i in items]
    assert found.left_out == 10 - len(items)


def test_rows_that_are_left_out_may_be_anything(file: Any) -> None:
    rows = [{"level": "easy"}, {"id": 1, "input": "Why?", "level": "hard"}, {"id": 1, "input": 5}]
    (item,) = read(file(rows), where={"level": "hard"})
    assert item.text == "Why?"
    assert refused(file([*rows, [1]]), where={"level": "hard"}) == [
        "row 4: got [1]; an object is needed"
    ]


def test_conditions_that_no_row_meets_are_refused(file: Any) -> None:
    path = file(LEVELS)
    there = "fields there: 'id', 'input', 'level', 'n', 'odd'"
    assert refused(path, where={"levl": "hard"}) == [f"levl: no row has this field; {there}"]
    assert refused(path, where={"level": ("Hard", "HARD")}) == [
        "all 10 rows are left out by 'where'; values there: level: 'easy', 'hard'"
    ]
    # In CSV every cell is text.
    assert refused(file(LEVELS, "quiz.csv"), where={"n": 3}) == [
        "all 10 rows are left out by 'where'; values there: n:"
        " '0', '1', '2', '3', '4', '5', '6', '7'"
    ]
    assert len(read(path.with_name("quiz.csv"), where={"n": "3"})) == 1


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_rows_may_be_the_names_of_items(file: Any, ending: str) -> None:
    path = file([{"input": f"Question {i}?", "odd": f"{i % 2}"} for i in range(4)], f"q{ending}")
    assert [item.item for item in read(path, item="#")] == ["0", "1", "2", "3"]
    # The number of a row stays the same whatever is chosen.
    assert [item.item for item in read(path, item="#", where={"odd": "1"})] == ["1", "3"]
    assert refused(path, item="#", input="text") == [
        "text: no row has this field; fields there: 'input', 'odd'"
    ]
    named = file([{"#": "a", "input": "Why?"}], f"named{ending}")
    assert [item.item for item in read(named, item="#")] == ["a"]


def test_a_real_benchmark_is_read() -> None:
    path = shared("texts/benchmark.jsonl")
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    items = read(path, text_mode="input_output")
    assert [item.item for item in items] == [str(record["id"]) for record in records]
    assert [item.text for item in items] == [f"{r['input']}\n{r['output']}" for r in records]
