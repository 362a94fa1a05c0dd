"""Bounds: a small file that unpacks to a large one is refused before it fills the memory."""

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

from bayescontam._bounds import Bounds, bounded_lines, read_whole, unpacked
from bayescontam.errors import DataError, UsageError
from bayescontam.evidence.sheets import read_workbook
from bayescontam.inference.result import Fit
from bayescontam.scan.vectors import VectorFile
from bayescontam.specs.registry import load_model
from tests.support.memory import run_and_weigh

TEXT = b"model,item\n" + b"A,q1\n" * 1000


def _zstd(data: bytes) -> bytes:
    half = len(data) // 2  # two frames, as tools that append write them
    codec = pa.Codec("zstd")
    return b"".join(codec.compress(part, asbytes=True) for part in (data[:half], data[half:]))


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:]),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zstd": _zstd,
}


@pytest.mark.parametrize("codec", PACKERS)
def test_files_are_unpacked_by_content_up_to_the_bound(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(PACKERS[codec](TEXT))
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", str(len(TEXT)))
    assert read_whole(path) == TEXT
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", str(len(TEXT) - 1))
    with pytest.raises(DataError, match=r"table\.csv: unpacks to more than 5\.01 kB\n.*MAX_FILE"):
        read_whole(path)


@pytest.mark.parametrize("codec", [name for name in PACKERS if name != "plain"])
def test_damaged_files_are_named(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv.gz"
    path.write_bytes(PACKERS[codec](TEXT * 50)[:-9])
    with pytest.raises(DataError, match=rf"table\.csv\.gz: damaged {codec} file"):
        read_whole(path)


def test_lines_end_at_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"short\n" + b"x" * 99 + b"\nlast")
    monkeypatch.setenv("BAYESCONTAM_MAX_RECORD", "100")
    with unpacked(path) as stream:
        assert [len(line) for line in bounded_lines(stream, "a")] == [6, 100, 4]
    monkeypatch.setenv("BAYESCONTAM_MAX_RECORD", "99")
    with unpacked(path) as stream, pytest.raises(DataError, match="a: line 2 is longer than 99"):
        list(bounded_lines(stream, "a"))


def test_one_endless_line_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "line.jsonl.gz"
    path.write_bytes(gzip.compress(b"x" * 10**8, compresslevel=1) * 15)  # 1.5 GB
    code = (
        "import sys\n"
        "from bayescontam._bounds import bounded_lines, unpacked\n"
        "with unpacked(sys.argv[1]) as stream: list(bounded_lines(stream, 'a'))\n"
    )
    message, peak = run_and_weigh(code, path)
    assert message == "a: line 1 is longer than 64 MB"
    assert peak < 600e6


def test_archives_are_bounded_by_what_they_state(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abc":
            archive.writestr(name, bytes(1000))
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "3kB")
    with zipfile.ZipFile(stored) as archive:
        Bounds.current().check_archive(archive, "logs.eval")
        monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "2.9 kB")
        with pytest.raises(DataError, match=r"logs\.eval: unpacks to more than 2\.9 kB"):
            Bounds.current().check_archive(archive, "logs.eval")


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GB", 8 * 10**9), ("500 mb", 5 * 10**8), ("1.5k", 1500), ("1e6", 10**6), ("12", 12)],
)
def test_sizes_are_read(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESCONTAM_MAX_CELLS", text)
    assert Bounds.current() == Bounds(cells=size)


@pytest.mark.parametrize("text", ["much", "-1", "0", "1 GB or so"])
def test_what_is_no_size_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESCONTAM_MAX_RECORD", text)
    with pytest.raises(UsageError, match=r"BAYESCONTAM_MAX_RECORD: got '.*such as 8GB"):
        Bounds.current()


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_whole(tmp_path / "none")


def test_every_other_reader_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["pair", "comment"])
    for _ in range(3000):
        book.active.append(["a", "same"])
    book.active["XFD9000"] = "far away"
    book.save(tmp_path / "sheet.xlsx")
    zeros = xr.DataTree.from_dict({"/a": xr.Dataset({"x": ("i", np.zeros(10**5))})})
    packed = {"/a": {"x": {"zlib": True, "complevel": 9}}}
    zeros.to_netcdf(tmp_path / "fit.nc", engine="netcdf4", encoding=packed)
    vectors = pa.table({"vector": pa.array([np.zeros(10**5)], pa.list_(pa.float64()))})
    pq.write_table(vectors, tmp_path / "vectors.parquet")
    (tmp_path / "spec.toml").write_text("#" * 60_000)
    readers: list[tuple[Callable[[], object], str]] = [
        (lambda: read_workbook(tmp_path / "sheet.xlsx"), r"sheet\.xlsx: unpacks to .*MAX_FILE"),
        (lambda: Fit.from_netcdf(tmp_path / "fit.nc"), r"fit\.nc: unpacks to .*MAX_FILE"),
        (
            lambda: list(VectorFile(str(tmp_path / "vectors.parquet"), "vector").read(0, 1)),
            r"vectors\.parquet: a vector is longer .*MAX_RECORD",
        ),
        (lambda: load_model(tmp_path / "spec.toml"), r"spec\.toml: the text is longer"),
    ]
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "50kB")
    monkeypatch.setenv("BAYESCONTAM_MAX_RECORD", "50kB")
    for read, message in readers:
        with pytest.raises(DataError, match=f"(?s){message}"):
            read()
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "50MB")
    assert len(read_workbook(tmp_path / "sheet.xlsx")) == 3000
    monkeypatch.setenv("BAYESCONTAM_MAX_CELLS", "9000")
    with pytest.raises(DataError, match=r"the sheet has more than 9,000 values"):
        read_workbook(tmp_path / "sheet.xlsx")
