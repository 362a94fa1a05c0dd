"""Bookkeeping of runs: one at a time in a folder, no halves, results by key."""

import errno
import json
import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam._files import atomic_path
from bayescontam._runs import (
    ContentCache,
    Journal,
    append_line,
    claimed_folder,
    read_json,
    write_json,
)
from bayescontam.errors import UsageError

HOLD = """
import sys
from pathlib import Path
from bayescontam._runs import claimed_folder
with claimed_folder(Path(sys.argv[1]), "scan", "scan", lambda: False):
    print("locked", flush=True)
    sys.stdin.read()
"""
LOG = """
import sys
from pathlib import Path
from bayescontam._runs import append_line
for i in range(200):
    append_line(Path(sys.argv[1]), f"{sys.argv[2]} {i} " + sys.argv[2] * 300)
"""


def claimed(folder: Path, ours: bool = False) -> AbstractContextManager[None]:
    """Claim a folder for a scan."""
    return claimed_folder(folder, "scan", "scan", lambda: ours)


def started(program: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    with claimed(tmp_path / "a" / "b"):
        assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == [".lock"]


UNUSABLE = r"cannot be used \(.+\); --out needs a folder that can be written to$"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("file", "file: is a file; --out needs a folder, new or of an interrupted scan$"),
        ("file/below", UNUSABLE),
        ("no\0", UNUSABLE),
        ("x" * 300, UNUSABLE),
    ],
)
def test_what_can_be_no_folder_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UsageError, match=message), claimed(tmp_path / name):
        pass
    assert (tmp_path / "file").read_text() == "kept"


def test_a_folder_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", denied)  # root may write anywhere
    message = r"cannot be used \(Permission denied\); --out needs"
    with pytest.raises(UsageError, match=message), claimed(tmp_path):
        pass


def test_a_lock_keeps_others_out_until_it_ends(tmp_path: Path) -> None:
    with claimed(tmp_path):
        with (
            pytest.raises(UsageError, match="another scan works in this folder; wait for it"),
            claimed(tmp_path),
        ):
            pass
        with claimed(tmp_path / "other"):
            pass
    with claimed(tmp_path):
        pass


def test_a_lock_ends_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), claimed(tmp_path):
        raise KeyError
    with claimed(tmp_path):
        pass


@pytest.mark.parametrize("existed", [True, False])
def test_a_scan_that_is_refused_leaves_no_folder_of_its_own(tmp_path: Path, existed: bool) -> None:
    folder = tmp_path / "scan"
    if existed:
        folder.mkdir()
    with pytest.raises(KeyError), claimed(folder):
        raise KeyError
    assert folder.exists() == existed
    with claimed(tmp_path / "other"):
        (tmp_path / "other" / "scan.log").touch()
    assert (tmp_path / "other" / "scan.log").exists()


@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_of_a_killed_scan_does_not_last(tmp_path: Path, signal_: int) -> None:
    with started(HOLD, tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(UsageError, match="another scan"), claimed(tmp_path):
            pass
        other.send_signal(signal_)
        other.wait(60)
        with claimed(tmp_path):
            pass


def test_what_cannot_be_locked_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with (
        pytest.raises(UsageError, match=r"cannot be locked \(Is a directory\); --out needs"),
        claimed(tmp_path),
    ):
        pass


def test_a_folder_with_files_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    message = "holds files, and no scan; --out needs a new or empty"
    with pytest.raises(UsageError, match=message), claimed(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_copy_without_its_lock_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "scan.json").write_text("{}")
    with claimed(tmp_path, ours=True):
        assert (tmp_path / ".lock").exists()


def half_written(path: Path) -> Path:
    """Leave what a process leaves that is killed while it writes `path`."""
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        killed = temporary.with_name(temporary.name.replace(".part", ".kept"))
        os.link(temporary, killed)
    path.unlink()
    return killed.rename(temporary)


def test_what_a_killed_run_left_half_written_is_removed(tmp_path: Path) -> None:
    left = half_written(tmp_path / "a.parquet")
    (tmp_path / ".download.part").write_text("somebody else's")
    with claimed(tmp_path, ours=True):
        assert not left.exists()
    assert (tmp_path / ".download.part").read_text() == "somebody else's"


def test_a_line_of_the_log_has_a_time_and_is_one_line(tmp_path: Path) -> None:
    log = tmp_path / "scan.log"
    append_line(log, "first")
    append_line(log, "two\nlines \x1b[31m \udcff é " + "x" * 1000)
    first, second = log.read_text(encoding="utf-8").splitlines()
    stamp, _, rest = second.partition(" ")
    assert len(stamp) == len("2026-01-01T00:00:00Z") == len(first) - len(" first")
    assert rest.startswith("two\\nlines \\x1b[31m \\udcff é xxx")
    assert len(rest) == 400


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    others = [started(LOG, tmp_path / "scan.log", letter) for letter in "abc"]
    for other in others:
        other.communicate()
        assert other.returncode == 0
    lines = (tmp_path / "scan.log").read_text(encoding="utf-8").splitlines()
    reported = [line.split(" ", 1)[1] for line in lines]
    assert sorted(reported) == sorted(f"{x} {i} {x * 300}" for x in "abc" for i in range(200))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(content=JSON)
def test_json_comes_back(content: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("json") / "a.json"
    write_json(path, content)
    assert read_json(path) == content
    assert json.loads(path.read_text(encoding="utf-8")) == content


def test_json_holds_names_that_are_not_unicode_and_shows_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"command": "scan é \udcff"})
    assert path.read_bytes() == b'{\n "command": "scan \xc3\xa9 \\udcff"\n}\n'
    assert read_json(path) == {"command": "scan é \udcff"}


@pytest.mark.parametrize(("nested", "name"), [(False, "abcd.json"), (True, "ab/cd.json")])
def test_a_stored_result_comes_back_by_its_key(tmp_path: Path, nested: bool, name: str) -> None:
    cache = ContentCache(tmp_path / "cache", nested=nested)
    assert cache.get("abcd") is None
    cache.put("abcd", "é\n")
    assert cache.get("abcd") == "é\n".encode()
    assert cache.get("abce") is None
    assert cache.path("abcd") == tmp_path / "cache" / name
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [cache.path("abcd")]


PARTS = [{"unit": 0, "text": "é\u2028\n"}, {"unit": 1}, {"unit": 2}]


def journal(path: Path, work: object = "w") -> list[dict[str, Any]]:
    """Return what a journal holds, and close it."""
    found = Journal(path, work)
    found.close()
    return found.entries


def test_a_journal_holds_finished_parts_of_the_same_work(tmp_path: Path) -> None:
    path = tmp_path / "out.part"
    made = Journal(path, ["w", 1])
    for part in PARTS:
        made.add(part)
    made.close()
    assert journal(path, ["w", 1]) == PARTS
    assert journal(path, ["w", 1]) == PARTS  # reading changes nothing
    assert [p.name for p in tmp_path.iterdir()] == ["out.part"]
    other = Journal(path, ["w", 2])
    assert other.replaced
    assert other.entries == []
    other.close()
    assert [*tmp_path.iterdir()] == []  # nothing was finished of it


@pytest.mark.parametrize("cut", [1, 5, 9, 12, 20])
def test_what_was_cut_off_is_left_out(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "out.part"
    made = Journal(path, "w")
    for part in PARTS:
        made.add(part)
    made.close()
    path.write_bytes(path.read_bytes()[:-cut])
    known = journal(path)
    assert known == PARTS[: len(known)]
    assert len(known) == (2 if cut <= len(json.dumps(PARTS[2])) + 1 else 1)
    again = Journal(path, "w")
    again.add({"unit": 9})
    again.close()
    assert journal(path) == [*known, {"unit": 9}]


def test_a_second_run_does_not_write_to_the_same_journal(tmp_path: Path) -> None:
    first = Journal(tmp_path / "out.part", "w")
    with pytest.raises(UsageError, match=r"out.part: another run is writing to it"):
        Journal(tmp_path / "out.part", "w")
    first.close()
    assert journal(tmp_path / "out.part") == []


def test_without_a_path_nothing_is_stored() -> None:
    none = Journal(None, "w")
    none.add({"unit": 1})
    none.close()
    assert none.entries == []
