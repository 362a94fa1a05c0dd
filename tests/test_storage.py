"""Files: written whole or not at all."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from bayescontam._files import atomic_path, check_writable, sha256, write_text
from bayescontam.errors import UsageError


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    with atomic_path(target) as temporary:
        assert temporary.parent == tmp_path
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_block_that_raises_changes_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        write()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_permissions_are_those_of_any_new_file(tmp_path: Path, umask: int) -> None:
    write_text(tmp_path / "a.txt", "a")
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o666 & ~umask


def test_the_umask_stays(tmp_path: Path, umask: int) -> None:
    write_text(tmp_path / "a.txt", "a")
    assert os.umask(umask) == umask


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/a.txt", r"no/a\.txt: cannot be written \(No such file or directory\); choose another"),
        ("", r": is a folder; give the name of a file$"),
        ("file/a.txt", r"file/a\.txt: cannot be written \(Not a directory\)"),
        ("n" * 300, r"cannot be written \(File name too long\); choose another place"),
        ("pipe", r"pipe: is a device or a pipe; give the name of a file$"),
        ("nul\0", r"nul\\x00: cannot be written \(.*embedded null"),
        ("no/\x1b[2J", r"no/\\x1b\[2J: cannot be written"),
    ],
)
def test_what_cannot_be_written_is_refused_beforehand(
    tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "file").write_text("a file")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.iterdir())
    for attempt in (check_writable, lambda path: write_text(path, "text")):
        with pytest.raises(UsageError, match=message):
            attempt(tmp_path / name)
    assert sorted(tmp_path.iterdir()) == before


def test_checking_leaves_nothing_and_keeps_what_is_there(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    check_writable(target)
    assert list(tmp_path.iterdir()) == []
    target.write_text("old")
    check_writable(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_the_longest_name_that_a_system_takes_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 255)
    write_text(target, "text")
    assert target.read_text() == "text"


def test_a_folder_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", denied)  # root may write anywhere
    with pytest.raises(UsageError, match=r"cannot be written \(Permission denied\)"):
        check_writable(tmp_path / "a.txt")


@pytest.mark.parametrize("text", ["", "a\r\nb\rc\n", "é😀\x85\u2028", "x" * 1_000_000])
def test_text_is_stored_as_it_is(tmp_path: Path, text: str) -> None:
    write_text(tmp_path / "a.txt", text)
    assert (tmp_path / "a.txt").read_bytes() == text.encode()


def test_sha256_is_the_published_function() -> None:
    # FIPS 180-2, appendix B.1.
    assert sha256(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256(b"") == hashlib.sha256().hexdigest()
