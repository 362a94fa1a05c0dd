"""Reading: every document arrives, and every record that is none is counted with its reason."""

import bz2
import errno
import gzip
import io
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bayescontam.errors import DataError
from bayescontam.scan.documents import Document, read_documents
from bayescontam.scan.formats import Tally
from bayescontam.scan.sources import Input, list_inputs
from bayescontam.specs.corpus import Source
from tests.support.real_data import shared

RECORDS = [{"id": f"d{i}", "from": f"s{i % 3}", "text": f"text {i} é"} for i in range(50)]
DOCUMENTS = [Document(r["id"], r["from"], r["text"]) for r in RECORDS]
LONGEST = 2**20


def jsonl(records: list[Any] = RECORDS) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def halves(compress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Compress in two parts, as parallel tools and appending do."""
    return lambda data: compress(data[: len(data) // 2]) + compress(data[len(data) // 2 :])


def gz(data: bytes) -> bytes:
    # Without the time, so that tests have the same names in all processes.
    return gzip.compress(data, mtime=0)


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def zst_stream(data: bytes) -> bytes:
    """Compress without giving the size in the header, as pipes do."""
    out = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as writer:
        writer.write(data)
    return out.getvalue()


def parquet(records: list[Any] = RECORDS, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), out, **options)
    return out.getvalue()


def label(value: Any) -> str | None:
    """Name parameters of tests: not by their bytes."""
    return "data" if isinstance(value, bytes) else None


def read(
    path: Path,
    tally: Tally | None = None,
    skip: bool = False,
    longest: int = LONGEST,
    **options: Any,
) -> list[Document]:
    source = Source(name="s", paths=(path.name,), **{"stratum": "from", **options})
    (item,) = list_inputs(source, path.parent)
    found = read_documents(item, source, tally or Tally(), longest, skip_damage=skip)
    return list(found)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", jsonl()),
        ("a.ndjson", jsonl().rstrip(b"\n")),
        ("a.json.gz", gz(jsonl())),
        ("a.jsonl.gz", halves(gz)(jsonl())),
        ("a.jsonl.bz2", halves(bz2.compress)(jsonl())),
        ("a.jsonl.zst", zst(jsonl())),
        ("a.jsonl.zst", halves(zst)(jsonl())),
        ("A.JSONL.ZSTD", halves(zst_stream)(jsonl())),
        ("a.jsonl", b"\xef\xbb\xbf" + jsonl().replace(b"\n", b"\r\n")),
        ("a.parquet", parquet()),
        ("a.parquet", parquet(row_group_size=7, compression="zstd")),
    ],
    ids=label,
)
def test_documents_arrive_in_order(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    tally = Tally()
    assert read(tmp_path / name, tally) == DOCUMENTS
    assert (tally.documents, tally.unreadable, tally.damage) == (50, {}, None)
    if "parquet" not in name:
        assert abs(tally.bytes - len(jsonl())) <= 60


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b"\xef\xbb\xbfone\r\ntwo \0"),
        ("a.py.gz", gz(b"one\r\ntwo \0")),
        ("a.md.zst", halves(zst)(b"one\r\ntwo \0")),
    ],
    ids=label,
)
def test_a_text_file_is_one_document(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert read(tmp_path / name) == [Document(f"{name}#1", "", "one\r\ntwo \0")]


def test_documents_without_a_name_are_called_after_their_record(tmp_path: Path) -> None:
    for record, name in (
        (b'{"text": "a"}\n\n{"text": "b", "id": 5}\n', "a.jsonl"),
        (parquet([{"text": "a"}, {"text": ""}, {"text": "c"}]), "a.parquet"),
    ):
        (tmp_path / name).write_bytes(record)  # fmt: skip
    assert [d.document for d in read(tmp_path / "a.jsonl")] == ["a.jsonl#1", "5"]
    assert [d.document for d in read(tmp_path / "a.parquet")] == ["a.parquet#1", "a.parquet#3"]


UNREADABLE = [
    (b"{", "not JSON"),
    (b'{"text": "\xff"}', "not UTF-8"),
    (b'["text"]', "not an object"),
    (b'{"body": "x"}', "no field 'text'"),
    (b'{"text": 5}', "field 'text' is not text"),
    (b'{"text": " \\n"}', "empty"),
    (b'{"text": "' + b"x" * 100 + b'"}', "too long"),
]


def test_unreadable_records_are_counted_and_stop_nothing(tmp_path: Path) -> None:
    good = b'{"text": "good"}'
    lines = [line for bad, _ in UNREADABLE for line in (good, bad)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    tally = Tally()
    assert len(read(tmp_path / "a.jsonl", tally, longest=100)) == len(UNREADABLE)
    assert tally.unreadable == {reason: 1 for _, reason in UNREADABLE}
    expected = [(2 * i, reason) for i, (_, reason) in enumerate(UNREADABLE, start=1)]
    assert tally.listed == expected


def test_unreadable_rows_of_parquet(tmp_path: Path) -> None:
    rows = [{"text": "a"}, {"text": None}, {"text": "é" * 51}, {"text": "é" * 50}]
    (tmp_path / "a.parquet").write_bytes(parquet(rows))
    tally = Tally()
    assert len(read(tmp_path / "a.parquet", tally, longest=100)) == 2
    assert tally.listed == [(2, "empty"), (3, "too long")]


@pytest.mark.parametrize(("data", "reason"), [(b"", "empty"), (b"\xff", "not UTF-8")])
def test_a_text_file_that_is_no_document_is_no_fault(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    (tmp_path / "__init__.py").write_bytes(data)
    tally = Tally()
    assert read(tmp_path / "__init__.py", tally) == []
    assert tally.unreadable == {reason: 1}


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.jsonl.gz"])
def test_an_empty_file_holds_no_documents(tmp_path: Path, name: str) -> None:
    empty = {"a.jsonl": b"", "a.parquet": parquet(RECORDS[:0]), "a.jsonl.gz": gz(b"")}
    (tmp_path / name).write_bytes(empty[name])
    tally = Tally()
    assert read(tmp_path / name, tally) == []
    assert tally.unreadable == {}


def test_names_and_strata_that_are_missing_are_counted(tmp_path: Path) -> None:
    records = [{"text": "a", "url": "u", "from": "x"}, {"text": "b", "from": "x"}, {"text": "c"}]
    (tmp_path / "a.jsonl").write_bytes(jsonl(records))
    tally = Tally()
    read(tmp_path / "a.jsonl", tally, document="url")
    assert tally.without == {"url": 2, "from": 1}


BROKEN = [
    ("a.jsonl.gz", jsonl(), r"cannot be read as gzip \(.*incorrect header check"),
    ("a.jsonl.gz", b"", r"cannot be read as gzip \(the file has no bytes, so it is"),
    ("a.jsonl.zst", jsonl(), r"cannot be read as zstd \(.*Unknown frame descriptor"),
    ("a.jsonl.bz2", jsonl(), r"cannot be read as bz2 \("),
    ("a.parquet", jsonl(), r"cannot be read \(Parquet magic bytes not found"),
    ("a.parquet", b"", r"cannot be read \(Parquet file size is 0 bytes"),
    ("a.parquet", parquet()[:-20], r"cannot be read \(Parquet magic bytes not found"),
    ("a.jsonl", gz(jsonl()), r"\(the content is gzip-compressed: let its name end in"),
    ("a.jsonl", zst(jsonl()), r"\(the content is Zstandard-compressed: let its name end in \.zst"),
    ("a.jsonl", parquet(), r"\(the content is Parquet: let its name end in \.parquet\)"),
    ("a.jsonl", jsonl().decode().encode("utf-16"), r"\(the content is UTF-16: save it as UTF-8\)"),
    ("a.jsonl", b"{\n}}\n[1]\n", r"none of its 3 records is a document \(2 × not JSON, 1 × not an"),
    (
        "a.json",
        b'[\n{"text":\n"a"},\n2\n]',
        r"cannot be read \(it is one JSON array, and each line must be one JSON object: jq",
    ),
    (
        "a.json",
        b'{\n"text":\n"a"\n}',
        r"3 × not JSON, 1 × not an object\)\neach line must be one whole JSON object; ",
    ),
    ("a.txt.gz", b"plain", r"cannot be read as gzip"),
]


@pytest.mark.parametrize(("name", "data", "message"), BROKEN, ids=label)
def test_a_file_that_cannot_be_read_is_an_error(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    tally = Tally()
    with pytest.raises(DataError, match=rf"(?s)^{name}: .*{message}.*--skip-unreadable"):
        read(tmp_path / name, tally)
    assert tally.documents == 0
    tally = Tally()
    assert read(tmp_path / name, tally, skip=True) == []
    assert tally.damage
    assert tally.unreadable.total() > 0


def test_the_error_names_the_fields_that_are_there(tmp_path: Path) -> None:
    rows = [{"id": 1, "source": "web", "content": "A"}] * 3
    expected = (
        "{}: none of its 3 records is a document (3 × no field 'text')\n"
        "fields there: 'id', 'source', 'content'; set text = \"…\" to the one that holds the "
        "text; to go on without what cannot be read: --skip-unreadable"
    )
    for name, data in (("a.jsonl", jsonl(rows)), ("a.parquet", parquet(rows))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError) as raised:
            read(tmp_path / name)
        assert str(raised.value) == expected.format(name)


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    source = Source(name="s", paths=("a.jsonl",))
    item = Input("s", "a.jsonl", str(tmp_path / "a.jsonl"), "jsonl")
    with pytest.raises(DataError, match=r"cannot be read \(No such file or directory\)"):
        list(read_documents(item, source, Tally(), LONGEST))


def test_a_file_without_permission_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "a.jsonl").write_bytes(jsonl())
    monkeypatch.setattr("pyarrow.OSFile", denied)  # root may read everything
    with pytest.raises(DataError, match=r"cannot be read \(Permission denied\)"):
        read(tmp_path / "a.jsonl")


def long_records(count: int) -> list[dict[str, str]]:
    return [{"id": f"d{i}", "text": f"{i} " * (i % 997 + 1)} for i in range(1, count)]


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("gz", gz), ("gz", halves(gz)), ("bz2", bz2.compress), ("zst", zst),
     ("zst", halves(zst)), ("zst", zst_stream)],
)  # fmt: skip
@pytest.mark.parametrize("left", [0.3, 0.8, -1])
@pytest.mark.parametrize("count", [40, 1200])
def test_what_precedes_damage_is_kept(
    tmp_path: Path, suffix: str, compress: Any, left: float, count: int
) -> None:
    whole = compress(jsonl(long_records(count)))
    cut = whole[: int(left * len(whole)) if left > 0 else int(left)]
    path = tmp_path / f"a.jsonl.{suffix}"
    path.write_bytes(cut)
    sound = streamed(suffix, cut).split(b"\n")[:-1]
    tally = Tally()
    kept = read(path, tally, skip=True)
    assert [d.document for d in kept] == [json.loads(line)["id"] for line in sound]
    assert tally.unreadable == {"damaged file": 1}
    assert tally.listed == [(len(sound) + 1, "damaged file")]
    place = rf"damaged after record {len(sound):,} \(" if sound else rf"cannot be read as {suffix}"
    with pytest.raises(DataError, match=place):
        read(path)


DECODERS: dict[str, Callable[[], Any]] = {
    "gz": lambda: zlib.decompressobj(31),
    "bz2": bz2.BZ2Decompressor,
    "zst": lambda: zstandard.ZstdDecompressor().decompressobj(),
}


def streamed(suffix: str, data: bytes) -> bytes:
    """Return all that the plain libraries make of cut data, fed to them byte by byte."""
    out, decoder = b"", DECODERS[suffix]()
    for i in range(len(data)):
        if decoder.eof:
            decoder = DECODERS[suffix]()
        out += decoder.decompress(data[i : i + 1])
    return out


def test_damage_in_the_middle_of_parquet(tmp_path: Path) -> None:
    sound = parquet(long_records(301), row_group_size=30)
    place = pq.ParquetFile(io.BytesIO(sound)).metadata.row_group(5).column(1).data_page_offset
    (tmp_path / "a.parquet").write_bytes(sound[:place] + b"\xff" * 300 + sound[place + 300 :])
    with pytest.raises(DataError, match=r"a\.parquet: damaged after record 150 \("):
        read(tmp_path / "a.parquet")
    tally = Tally()
    kept = read(tmp_path / "a.parquet", tally, skip=True)
    assert [d.document for d in kept] == [f"d{i}" for i in range(1, 151)]
    assert tally.listed == [(151, "damaged file")]


def test_checksums_of_parquet_pages_are_verified(tmp_path: Path) -> None:
    options: Any = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    data = parquet(RECORDS, **options).replace("text 5 é".encode(), "text 6 é".encode(), 1)
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(DataError, match=r"cannot be read .*CRC"):
        read(tmp_path / "a.parquet")


def test_what_was_read_is_counted_where_reading_stops_early(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    source = Source(name="s", paths=("a.jsonl",))
    (item,) = list_inputs(source, tmp_path)
    tally = Tally()
    found = read_documents(item, source, tally, LONGEST)
    next(found)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert tally.documents == 2


@pytest.mark.parametrize("compress", [bytes, gz, zst])
def test_a_line_of_fifty_megabytes_is_not_held(tmp_path: Path, compress: Any) -> None:
    line = b'{"text": "' + b"x" * 50_000_000 + b'"}\n'
    suffix = {gz: ".gz", zst: ".zst"}.get(compress, "")
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(compress(line + b'{"text": "next"}\n'))
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    tally = Tally()
    (document,) = read(path, tally, longest=10_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert document == Document(f"{path.name}#2", "", "next")
    assert tally.listed == [(1, "too long")]
    assert peak + pa.total_allocated_bytes() - before < 25_000_000
    assert [len(d.text) for d in read(path, longest=60_000_000)] == [50_000_000, 4]


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/bucket", recursive=True)


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.jsonl", jsonl()), ("a.jsonl.zst", halves(zst)(jsonl())), ("a.parquet", parquet())],
    ids=label,
)
def test_addresses_are_read_like_files(memory: Any, name: str, data: bytes) -> None:
    memory.pipe(f"/bucket/{name}", data)
    source = Source(name="s", paths=("memory://bucket",), stratum="from")
    (item,) = list_inputs(source, "/")
    assert list(read_documents(item, source, Tally(), LONGEST)) == DOCUMENTS
    memory.pipe(f"/bucket/{name}", data[:40])
    with pytest.raises(DataError, match=rf"memory:///bucket/{name}: "):
        list(read_documents(item, source, Tally(), LONGEST))


def test_errors_of_remote_clients_are_damage(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class ClientError(Exception):
        pass

    def lost(*_: object, **__: object) -> bytes:
        raise ClientError("connection lost")

    memory.pipe("/bucket/a.jsonl", jsonl())
    source = Source(name="s", paths=("memory://bucket/a.jsonl",))
    (item,) = list_inputs(source, "/")
    monkeypatch.setattr("fsspec.implementations.memory.MemoryFile.read", lost)
    with pytest.raises(DataError, match=r"cannot be read \(ClientError: connection lost\)"):
        list(read_documents(item, source, Tally(), LONGEST))


def test_real_texts() -> None:
    path = shared("texts/corpus.jsonl")
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    expected = [Document(r["id"], r["source"], r["text"]) for r in records]
    assert read(path, stratum="source") == expected
