"""Formats: lines however a file is cut into blocks, values however odd."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.scan import formats
from bayescontam.scan.formats import (
    Fields,
    Tally,
    Unreadable,
    arrow_records,
    json_records,
    parquet_records,
    text_record,
)


def shown(records: Any) -> list[tuple[int, Any]]:
    return [(n, str(value) if isinstance(value, Unreadable) else value) for n, value in records]


def json_values(path: Path, data: bytes, longest: int = 1000) -> list[tuple[int, Any]]:
    path.write_bytes(data)
    tally = Tally()
    found = shown(json_records(str(path), longest, tally))
    assert tally.bytes == len(data)
    return found


@given(
    lines=st.lists(st.integers(0, 40).map(lambda n: b'"' + b"x" * n + b'"') | st.just(b"")),
    block=st.integers(1, 20),
    longest=st.integers(1, 50),
    end=st.sampled_from([b"", b"\n"]),
)
def test_lines_do_not_depend_on_blocks(
    lines: list[bytes], block: int, longest: int, end: bytes,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    expected = [
        (number, line.decode()[1:-1] if len(line) <= longest else "too long")
        for number, line in enumerate(lines, start=1)
        if line
    ]
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "BLOCK", block)
        assert json_values(path, b"\n".join(lines) + end, longest) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(values=st.lists(JSON, min_size=1), ascii_only=st.booleans())
def test_values_are_those_of_the_json_module(
    values: list[Any], ascii_only: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = [json.dumps(value, ensure_ascii=ascii_only).encode() for value in values]
    path = tmp_path_factory.mktemp("values") / "a.jsonl"
    found = json_values(path, b"\r\n".join(lines), longest=10**6)
    assert found == list(enumerate(values, start=1))


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (rb'{"a": "\ud83d\ude00"}', {"a": "😀"}),
        (rb'{"a": "cut \ud83d"}', {"a": "cut \ufffd"}),
        (rb'{"\uDE00 a": ["\uD83D\u0000"]}', {"\ufffd a": ["\ufffd\0"]}),
        (rb'{"a": "\\ud83d"}', {"a": "\\ud83d"}),
        (rb'{"a": "\u0000"}', {"a": "\0"}),
        (rb'{"a": "\ud83d"', "not JSON"),
        (b'{"a": "' + rb"\ud83d" + b'", "b": ' + b"[" * 100_000, "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1} {"a": 2}', "not JSON"),
        (b'{"a": "\0"}', "not JSON"),
        (b"9" * 5000, "not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        ('{"a": "é"}'.encode("latin-1"), "not UTF-8"),
    ],
)
def test_odd_lines(tmp_path: Path, line: bytes, value: Any) -> None:
    data = b'{"a": 0}\n' + line + b'\n{"a": 1}'
    expected = [(1, {"a": 0}), (2, value), (3, {"a": 1})]
    assert json_values(tmp_path / "a.jsonl", data, longest=10**6) == expected


def test_blank_lines_count_as_lines_but_hold_no_record(tmp_path: Path) -> None:
    assert json_values(tmp_path / "a.jsonl", b"\n1\n \t\r\n\n2\n\n") == [(2, 1), (5, 2)]


def test_a_mark_of_utf8_at_the_start_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert json_values(path, b'\xef\xbb\xbf{"a": 1}\r\n{"a": 2}\r\n') == [
        (1, {"a": 1}),
        (2, {"a": 2}),
    ]
    assert json_values(path, b"\xef\xbb\xbf") == []
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    assert shown(text_record(str(path), 1000, Tally())) == [(1, {"text": "a\r\nb\r\n"})]


@pytest.mark.parametrize(("longest", "value"), [(6, {"text": "éaaé"}), (5, "too long")])
def test_the_longest_text_counts_in_bytes(tmp_path: Path, longest: int, value: Any) -> None:
    path = tmp_path / "a.txt"
    path.write_text("éaaé", encoding="utf-8")
    assert shown(text_record(str(path), longest, Tally())) == [(1, value)]


def table() -> pa.Table:
    return pa.table(
        {
            "text": ["a", None, "c"],
            "meta": [{"id": 1, "from": "x", "waste": "w"}, None, {"id": 3, "from": "y"}],
            "flat.name": ["p", "q", "r"],
            "chat": [[{"role": "user", "content": "Hi"}], [], None],
            "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
            "waste": ["w"] * 3,
        }
    )


def test_only_the_needed_columns_of_parquet_are_read(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    fields = Fields("a", ("text", "chat.content", "nothing"), "meta.id", "kind")
    found = dict(parquet_records(str(tmp_path / "a.parquet"), fields, Tally()))
    chats = [[{"role": "user", "content": "Hi"}], [], None]
    assert found == {
        1: {"text": "a", "chat": chats[0], "meta": {"id": 1}, "kind": "u"},
        2: {"text": None, "chat": chats[1], "meta": None, "kind": "v"},
        3: {"text": "c", "chat": chats[2], "meta": {"id": 3}, "kind": "u"},
    }
    assert fields.there == table().column_names


def test_parquet_columns_whose_names_have_dots(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    fields = Fields("a", ("flat.name",))
    found = dict(parquet_records(str(tmp_path / "a.parquet"), fields, Tally()))
    assert found == {n: {"flat.name": v} for n, v in enumerate("pqr", start=1)}


def test_parquet_without_any_wanted_column_keeps_its_rows(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    found = list(parquet_records(str(tmp_path / "a.parquet"), Fields("a", ("x",)), Tally()))
    assert found == [(1, {}), (2, {}), (3, {})]


def test_large_parquet_rows_are_read_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": str(i) * 1000} for i in range(100)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", use_dictionary=False)
    sizes: list[int] = []

    def spy(batches: Any, tally: Tally) -> Any:
        for batch in batches:
            sizes.append(batch.num_rows)
            yield from arrow_records([batch], tally)

    monkeypatch.setattr(formats, "BATCH_BYTES", 10_000)
    monkeypatch.setattr(formats, "arrow_records", spy)
    fields = Fields("a", ("text",))
    found = list(parquet_records(str(tmp_path / "a.parquet"), fields, Tally()))
    assert [value for _, value in found] == rows
    assert max(sizes) <= 10


@pytest.mark.parametrize("nested", [False, True])
def test_parquet_rows_that_repeat_a_long_text_are_read_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    texts = ["x"] * 50 + ["y" * 10_000] * 50 + [None]
    rows = [{"text": {"own": text}} if nested else {"text": text} for text in texts]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    sizes: list[int] = []

    def spy(batches: Any, tally: Tally) -> Any:
        for batch in batches:
            sizes.append(sum(len(str(row)) for row in batch.to_pylist()))
            yield from arrow_records([batch], tally)

    monkeypatch.setattr(formats, "BATCH_BYTES", 10_000)
    monkeypatch.setattr(formats, "arrow_records", spy)
    tally = Tally()
    fields = Fields("a", ("text.own" if nested else "text",))
    found = list(parquet_records(str(tmp_path / "a.parquet"), fields, tally))
    assert [value for _, value in found] == rows
    assert max(sizes) < 50_000
    assert 500_000 < tally.bytes < 510_000


def test_a_row_of_parquet_that_is_no_utf8_leaves_its_neighbours(tmp_path: Path) -> None:
    offsets = pa.array([0, 1, 3, 4], pa.int32()).buffers()[1]
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xff\xfeb")])
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    found = shown(parquet_records(str(tmp_path / "a.parquet"), Fields("a", ("text",)), Tally()))
    assert found == [(1, {"text": "a"}), (2, "not UTF-8"), (3, {"text": "b"})]


def test_a_row_that_is_no_utf8_leaves_its_neighbours(tmp_path: Path) -> None:
    offsets = pa.array([0, 1, 3, 4], pa.int32()).buffers()[1]
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xff\xfeb")])
    found = shown(arrow_records([pa.table({"text": texts})], Tally()))
    assert found == [(1, {"text": "a"}), (2, "not UTF-8"), (3, {"text": "b"})]
