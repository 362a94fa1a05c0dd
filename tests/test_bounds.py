"""Bounds: a small file that unpacks to a large one is refused before it fills the memory."""

import bz2
import gzip
import io
import lzma
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from bayescontam.bounds import Bounds, bounded_lines, read_whole, unpacked
from bayescontam.errors import DataError, UsageError

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
    resource = pytest.importorskip("resource")
    path = tmp_path / "line.jsonl.gz"
    piece = gzip.compress(b"x" * 10**8, compresslevel=1)
    path.write_bytes(piece * 15)  # 1.5 GB as members of one file
    code = (
        "import resource, sys\n"
        "from bayescontam.bounds import bounded_lines, unpacked\n"
        "from bayescontam.errors import DataError\n"
        "try:\n"
        "    with unpacked(sys.argv[1]) as stream: list(bounded_lines(stream, 'a'))\n"
        "except DataError as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert "a: line 1 is longer than 64 MB" in done.stdout
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout.split()[-1]) * unit < 600e6
    assert resource.RUSAGE_SELF == 0


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
