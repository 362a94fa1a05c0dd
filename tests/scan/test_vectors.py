"""Vectors: the same numbers from every kind of file, whole or in parts, or a clear refusal."""

import contextlib
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bayescontam.errors import DataError
from bayescontam.scan import vectors
from bayescontam.scan.vectors import VectorFile

ROWS, DIMS = 50, 6
FLOATS = ["<f2", "<f4", "<f8", ">f2", ">f4", ">f8"]
TABLES = ["parquet", "arrow", "stream", "feather"]
LISTS = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "fixed_size_list": lambda kind: pa.list_(kind, DIMS),
}


def made(dtype: str = "<f4", rows: int = ROWS) -> NDArray[Any]:
    return np.random.default_rng(0).normal(size=(rows, DIMS)).astype(dtype)


def npy(array: NDArray[Any], version: tuple[int, int] | None = None) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version)
    return out.getvalue()


def table(
    column: Any = None, kind: Any = None, rows: int = ROWS, **columns: Any
) -> pa.Table:  # fmt: skip
    values = made(rows=rows).tolist() if column is None else column
    embedding = pa.array(values, kind or pa.list_(pa.float32()))
    known = {"document": [f"d{i}" for i in range(len(embedding))], "embedding": embedding}
    return pa.table({**known, **columns})


def written(content: pa.Table, kind: str, compression: str | None = None) -> bytes:
    """Return a table as a file, in parts of seven rows."""
    out = io.BytesIO()
    if kind == "parquet":
        pq.write_table(content, out, row_group_size=7, compression=compression or "none")
    elif kind == "feather":
        pyarrow.feather.write_feather(content, out, compression or "uncompressed", chunksize=7)
    else:
        new = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with new(out, content.schema, options=options) as writer:
            writer.write_table(content, 7)
    return out.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., VectorFile]:
    """Write bytes to a file of vectors whose name says nothing."""

    def write(data: bytes, column: str = "embedding") -> VectorFile:
        (tmp_path / "vectors").write_bytes(data)
        return VectorFile(str(tmp_path / "vectors"), column)

    return write


def whole(vectors: VectorFile) -> NDArray[Any]:
    return np.concatenate(list(vectors.read(0, vectors.shape()[0])))


def refused(vectors: VectorFile) -> str:
    """Return what is wrong with a file, without its path."""
    with pytest.raises(DataError) as caught:
        whole(vectors)
    (fault,) = caught.value.faults
    assert fault.file == vectors.path
    return str(fault).removeprefix(f"{vectors.path}: ")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_files_are_read_bit_for_bit(file: Any, dtype: str, version: tuple[int, int]) -> None:
    array = made(dtype)
    vectors = file(npy(array, version), "")
    assert vectors.shape() == (ROWS, DIMS)
    (found,) = vectors.read(0, ROWS)
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("lists", LISTS)
@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
def test_columns_of_vectors_are_read_bit_for_bit(
    file: Any, kind: str, lists: str, dtype: str
) -> None:
    array = made(dtype)
    arrow = LISTS[lists](pa.from_numpy_dtype(array.dtype))
    vectors = file(written(table(list(array), arrow), kind))
    assert vectors.shape() == (ROWS, DIMS)
    found = whole(vectors)
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("kind", TABLES)
def test_compressed_tables_are_read(file: Any, kind: str) -> None:
    np.testing.assert_array_equal(whole(file(written(table(), kind, "zstd"))), made())


@pytest.mark.parametrize("kind", ["npy", *TABLES])
@given(data=st.data())
def test_parts_are_slices_of_the_whole(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("vectors") / "file"
    path.write_bytes(npy(made()) if kind == "npy" else written(table(), kind))
    vectors_file = VectorFile(str(path), "embedding")
    start = data.draw(st.integers(0, ROWS))
    stop = data.draw(st.integers(start, ROWS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "ROWS", data.draw(st.integers(1, ROWS + 1)))
        parts = list(vectors_file.read(start, stop))
        assert all(0 < len(part) <= vectors.ROWS for part in parts)
    found = np.concatenate([np.empty((0, DIMS), np.float32), *parts])
    np.testing.assert_array_equal(found, made()[start:stop])


@pytest.mark.parametrize("rows", [1, 7, 49, 50, 51])
def test_shards_cover_every_row_once(file: Any, rows: int) -> None:
    vectors = file(npy(made()))
    ranges = vectors.shards(rows)
    assert [row for start, stop in ranges for row in range(start, stop)] == list(range(ROWS))
    assert max(stop - start for start, stop in ranges) == min(rows, ROWS)
    for kind in TABLES:
        assert file(written(table(), kind)).shards(rows) == [(0, ROWS)]


@pytest.mark.parametrize("kind", ["npy", *TABLES])
def test_files_of_no_vectors_have_no_shards(file: Any, kind: str) -> None:
    data = npy(made(rows=0)) if kind == "npy" else written(table([]), kind)
    vectors = file(data)
    assert vectors.shape()[0] == 0
    assert vectors.shards(10) == []
    assert list(vectors.read(0, 0)) == []


@pytest.mark.parametrize("kind", TABLES)
@given(rows=st.lists(st.integers(0, ROWS - 1), max_size=30))
def test_values_are_those_of_the_rows_requested(
    kind: str, rows: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    texts = [None if i % 5 == 0 else f"text {i}" for i in range(ROWS)]
    path = tmp_path_factory.mktemp("columns") / "file"
    path.write_bytes(written(table(chunk=list(range(ROWS)), text=texts), kind))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "ROWS", 3)
        found = VectorFile(str(path), "embedding").columns(
            ["text", "nothing", "chunk"], np.array(rows, np.int64)
        )
    expected = {"text": [texts[i] for i in rows], "chunk": rows}
    assert found == (expected if rows else {})


def test_values_that_are_not_there(file: Any) -> None:
    rows = np.array([0, 1])
    assert file(npy(made())).columns(["text"], rows) == {}
    assert file(written(table(), "parquet")).columns(["text", "start"], rows) == {}
    with pytest.raises(DataError, match=r"vectors: cannot be read \("):
        file(written(table(), "parquet")[:-9]).columns(["document"], rows)
    with pytest.raises(DataError, match=r"cannot be read \(row 51 is wanted, 50 are there\)"):
        file(written(table(), "arrow")).columns(["document"], np.array([50, 0]))


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (made().astype(np.int8), r"holds int8 of shape \(50, 6\)"),
        (made().astype(complex), r"holds complex128 of shape \(50, 6\)"),
        (made().astype(np.longdouble), r"holds float128 of shape \(50, 6\)"),
        (np.zeros((2, 2), [("a", "<f4")]), r"holds \[\('a', '<f4'\)\] of shape \(2, 2\)"),
        (made()[0], r"holds float32 of shape \(6,\)"),
        (made()[None], r"holds float32 of shape \(1, 50, 6\)"),
        (np.float32(1), r"holds float32 of shape \(\)"),
        (made()[:, :0], r"holds float32 of shape \(50, 0\)"),
    ],
)
def test_arrays_that_are_no_vectors(file: Any, array: Any, found: str) -> None:
    with pytest.raises(DataError, match=f"{found}; rows of floats of 16, 32 or 64 bits are needed"):
        file(npy(np.asarray(array))).shape()


def test_pickled_objects_are_not_opened(file: Any) -> None:
    out = io.BytesIO()
    np.save(out, np.array([[print, "harm"]], dtype=object), allow_pickle=True)
    assert refused(file(out.getvalue())).startswith("holds object of shape (1, 2)")


def test_fortran_order_is_refused_with_advice(file: Any) -> None:
    assert refused(file(npy(np.asfortranarray(made())))) == (
        "is in Fortran order; save np.ascontiguousarray(vectors)"
    )
    # One row, or one column, is the same in both orders.
    for array in (made()[:1], made()[:, :1]):
        np.testing.assert_array_equal(whole(file(npy(np.asfortranarray(array)))), array)


@pytest.mark.parametrize("lost", [1, DIMS * 4, DIMS * 4 + 1, ROWS * DIMS * 4])
def test_an_npy_file_that_was_cut_off_is_found_before_it_is_read(file: Any, lost: int) -> None:
    there = (ROWS * DIMS * 4 - lost) // (DIMS * 4)
    with pytest.raises(DataError, match=f"is cut off: {there} of 50 vectors are there"):
        file(npy(made())[:-lost]).shape()


def test_a_file_that_shrinks_while_it_is_read(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "ROWS", 20)
    shrinking = file(npy(made()))
    parts = shrinking.read(0, ROWS)
    next(parts)
    Path(shrinking.path).write_bytes(npy(made())[:-1])
    with pytest.raises(DataError, match="vectors: is cut off"):
        list(parts)


@given(data=st.data())
def test_damaged_files_raise_nothing_else(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kind = data.draw(st.sampled_from(["npy", *TABLES]))
    content = bytearray(npy(made()) if kind == "npy" else written(table(), kind, "zstd"))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "file"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    vectors = VectorFile(str(path), "embedding")
    with contextlib.suppress(DataError):
        vectors.columns(["document"], np.array([ROWS - 1]))
    with contextlib.suppress(DataError):
        list(vectors.read(0, vectors.shape()[0]))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is empty"),
        (b"1 2 3\n", "is neither .npy, Parquet nor Arrow"),
        (b"FEA1", "is neither .npy, Parquet nor Arrow"),
        (b"\x93NUMPY\x09\x00" + b"\0" * 50, "is .npy of version 9.0, which is not known"),
        (b"\x93NUMPY", "cannot be read (EOF: reading magic string, expected 8 bytes got 6)"),
        (npy(made())[:40], "cannot be read (EOF: reading array header"),
        (written(table(), "parquet")[:-9], "cannot be read (Parquet magic bytes not found"),
        (written(table(), "arrow")[:-9], "cannot be read (Not an Arrow file"),
        (written(table(), "stream")[:-99], "cannot be read (Expected to read 248 metadata bytes"),
    ],
)
def test_files_that_cannot_be_read(file: Any, data: bytes, problem: str) -> None:
    assert refused(file(data)).startswith(problem)


def test_files_that_are_none(tmp_path: Path) -> None:
    missing = VectorFile(str(tmp_path / "no.npy"), "embedding")
    assert refused(missing) == "cannot be read (No such file or directory)"
    assert "is a directory" in refused(VectorFile(str(tmp_path), "embedding"))


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("rows", [None, []])
def test_a_column_that_is_not_there(file: Any, kind: str, rows: Any) -> None:
    vectors = file(written(table(rows), kind), "vector\x1b[31m")
    assert refused(vectors) == (
        "has no column 'vector\\x1b[31m'; columns there: 'document', 'embedding'; "
        'set vector = "…" to the one that holds the vectors'
    )


def test_a_table_where_there_must_be_none(file: Any) -> None:
    assert refused(file(written(table(), "parquet"), "")) == "is no .npy file"


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    ("values", "arrow", "name"),
    [
        ([[1, 2]], pa.list_(pa.int64()), "list<(item|element): int64>"),
        ([["1"]], pa.list_(pa.string()), "list<(item|element): string>"),
        ([1.0], pa.float32(), "float"),
        (["1.0"], pa.string(), "string"),
        ([[[1.0]]], pa.list_(pa.list_(pa.float32())), "list<.*list<.*: float>>"),
    ],
)
def test_columns_that_hold_no_vectors(
    file: Any, kind: str, values: Any, arrow: Any, name: str
) -> None:
    needed = "lists of floats of 16, 32 or 64 bits are needed"
    with pytest.raises(DataError, match=f"vectors: embedding: holds {name}; {needed}"):
        file(written(table(values, arrow), kind)).shape()


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("lists", LISTS)
@pytest.mark.parametrize("row", [0, 6, 7, 20, 49])
def test_rows_without_a_vector_are_named(file: Any, kind: str, lists: str, row: int) -> None:
    arrow = LISTS[lists](pa.float32())
    missing: list[Any] = made().tolist()
    missing[row] = None
    problem = refused(file(written(table(missing, arrow), kind)))
    assert problem == f"row {row + 1}: embedding: holds no vector"
    partial: list[Any] = made().tolist()
    partial[row][3] = None
    problem = refused(file(written(table(partial, arrow), kind)))
    assert problem == f"row {row + 1}: embedding: lacks a number"


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("row", [1, 7, 20, 49])
def test_vectors_of_other_lengths_are_named(file: Any, kind: str, row: int) -> None:
    # One number moves to the next row: the sum of lengths stays that of equal ones.
    ragged = made().tolist()
    ragged[row - 1].append(ragged[row].pop())
    first = row if row > 1 else row + 1
    dims = (DIMS, DIMS + 1) if row > 1 else (DIMS + 1, DIMS - 1)
    assert refused(file(written(table(ragged), kind))) == (
        f"row {first}: embedding: has {dims[1]} dimensions, those before have {dims[0]}"
    )


def test_columns_of_one_name_are_refused(file: Any) -> None:
    twice = table().append_column("embedding", table()["embedding"])
    assert "embedding" in refused(file(written(twice, "arrow")))


def test_addresses_are_read_like_files() -> None:
    system = fsspec.filesystem("memory")
    for kind in ("npy", *TABLES):
        data = npy(made()) if kind == "npy" else written(table(), kind)
        system.pipe("/vectors/file", data)
        remote = VectorFile("memory://vectors/file", "embedding")
        np.testing.assert_array_equal(whole(remote), made())
        expected = {} if kind == "npy" else {"document": ["d9"]}
        assert remote.columns(["document"], np.array([9])) == expected
    system.rm("/vectors", recursive=True)


def test_names_of_files_need_not_be_unicode(tmp_path: Path) -> None:
    for kind in ("npy", *TABLES):
        path = tmp_path / f"{kind}\udcff"
        path.write_bytes(npy(made()) if kind == "npy" else written(table(), kind))
        np.testing.assert_array_equal(whole(VectorFile(str(path), "embedding")), made())


def test_a_file_of_vectors_travels_to_workers(file: Any) -> None:
    vectors = file(npy(made()))
    vectors.shape()
    copy = pickle.loads(pickle.dumps(vectors))
    assert copy == vectors
    assert copy.shape() == (ROWS, DIMS)


@pytest.mark.parametrize("kind", ["npy", "parquet", "arrow", "stream"])
def test_memory_does_not_grow_with_the_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "ROWS", 1000)
    rows, dims = 60_000, 64
    array = np.random.default_rng(0).normal(size=(rows, dims)).astype(np.float32)
    if kind == "npy":
        data = npy(array)
    else:
        lists = pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), dims)
        content = pa.table({"embedding": lists})
        out = io.BytesIO()
        if kind == "parquet":
            pq.write_table(content, out, row_group_size=rows)
        else:
            new = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
            with new(out, content.schema) as writer:
                writer.write_table(content)
        data = out.getvalue()
    path = tmp_path / "file"
    path.write_bytes(data)
    before, most, total = pa.total_allocated_bytes(), 0, 0.0
    for part in VectorFile(str(path), "embedding").read(0, rows):
        total += float(part.sum(dtype=float))
        most = max(most, part.nbytes + pa.total_allocated_bytes() - before)
    assert total == pytest.approx(array.sum(dtype=float))
    assert most < array.nbytes / 2
