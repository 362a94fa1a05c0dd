"""Workplace: one scan at a time, nothing from other conditions, no halves."""

import errno
import json
import os
import signal
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam._files import atomic_path
from bayescontam.errors import UsageError
from bayescontam.scan.work_folder import WorkFolder, read_json, write_json

HOLD = """
import sys
from bayescontam.scan.work_folder import WorkFolder
with WorkFolder(sys.argv[1]).locked():
    print("locked", flush=True)
    sys.stdin.read()
"""
LOG = """
import sys
from bayescontam.scan.work_folder import WorkFolder
place = WorkFolder(sys.argv[1])
for i in range(200):
    place.log(f"{sys.argv[2]} {i} " + sys.argv[2] * 300)
"""


def started(program: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_workplace_is_made_with_the_folders_above_it(tmp_path: Path) -> None:
    place = WorkFolder(tmp_path / "a" / "b")
    assert place.folder.is_dir()
    assert [path.name for path in place.folder.iterdir()] == [".lock"]
    assert WorkFolder(str(place.folder)).folder == place.folder


@pytest.mark.parametrize("name", ["file", "file/below", "no\0", "x" * 300])
def test_what_can_be_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("kept")
    advice = r"cannot be used \(.+\); --out needs a folder that can be written to$"
    with pytest.raises(UsageError, match=advice):
        WorkFolder(tmp_path / name)
    assert (tmp_path / "file").read_text() == "kept"


def test_a_folder_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", denied)  # root may write anywhere
    with pytest.raises(UsageError, match=r"cannot be used \(Permission denied\); --out needs"):
        WorkFolder(tmp_path)


def test_a_lock_keeps_others_out_until_it_ends(tmp_path: Path) -> None:
    with WorkFolder(tmp_path).locked():
        with (
            pytest.raises(UsageError, match="another scan works in this folder; wait for it"),
            WorkFolder(tmp_path).locked(),
        ):
            pass
        with WorkFolder(tmp_path / "other").locked():
            pass
    with WorkFolder(tmp_path).locked():
        pass


def test_a_lock_ends_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), WorkFolder(tmp_path).locked():
        raise KeyError
    with WorkFolder(tmp_path).locked():
        pass


@pytest.mark.parametrize("existed", [True, False])
def test_a_scan_that_is_refused_leaves_no_folder_of_its_own(tmp_path: Path, existed: bool) -> None:
    folder = tmp_path / "scan"
    if existed:
        folder.mkdir()
    with pytest.raises(KeyError), WorkFolder(folder).locked():
        raise KeyError
    assert folder.exists() == existed
    with WorkFolder(tmp_path / "other").locked():
        (tmp_path / "other" / "scan.log").touch()
    assert (tmp_path / "other" / "scan.log").exists()


def test_clearing_does_not_let_others_in(tmp_path: Path) -> None:
    place = WorkFolder(tmp_path)
    with place.locked():
        place.stage("read")
        place.clear()
        with pytest.raises(UsageError, match="another scan"), WorkFolder(tmp_path).locked():
            pass


@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_of_a_killed_scan_does_not_last(tmp_path: Path, signal_: int) -> None:
    with started(HOLD, tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(UsageError, match="another scan"), WorkFolder(tmp_path).locked():
            pass
        other.send_signal(signal_)
        other.wait(60)
        with WorkFolder(tmp_path).locked():
            pass


def test_what_cannot_be_locked_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with (
        pytest.raises(UsageError, match=r"cannot be locked \(Is a directory\); --out needs"),
        WorkFolder(tmp_path).locked(),
    ):
        pass


CONDITIONS: list[tuple[object, ...]] = [
    (), (0,), (1,), (1.0,), (True,), ("1",), (None,), ("None",), ([],), ({},), (1, 2), ([1, 2],),
    ("ab", "c"), ("a", "bc"), ("é",), ("e\u0301",), ("\ud800",), ({"a": 1},), ({"a": 2},),
    ({"b": 1},), ({"a": {"b": 1}},),
]  # fmt: skip


def test_stages_of_other_conditions_have_other_folders(tmp_path: Path) -> None:
    place = WorkFolder(tmp_path)
    for one, other in combinations(CONDITIONS, 2):
        assert place.stage("read", *one) != place.stage("read", *other)
    assert place.stage("read", 1) != place.stage("chunk", 1)


def test_stages_of_equal_conditions_share_a_folder(tmp_path: Path) -> None:
    folder = WorkFolder(tmp_path).stage("read", {"a": 1, "b": (2, 3)})
    assert folder.parent == tmp_path / "work"
    (folder / "000000.json").write_text("{}")
    again = WorkFolder(tmp_path).stage("read", {"b": [2, 3], "a": 1})
    assert again == folder
    assert (again / "000000.json").read_text() == "{}"


def test_a_folder_with_files_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds files, and no scan; --out needs a new or empty"):
        WorkFolder(tmp_path)
    assert (tmp_path / "work" / "thesis.txt").read_text() == "mine"


def test_conditions_that_do_not_tell_their_value_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        WorkFolder(tmp_path).stage("read", object())


def half_written(path: Path) -> Path:
    """Leave what a process leaves that is killed while it writes `path`."""
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        killed = temporary.with_name(temporary.name.replace(".part", ".kept"))
        os.link(temporary, killed)
    path.unlink()
    return killed.rename(temporary)


def test_what_a_killed_scan_left_half_written_is_removed(tmp_path: Path) -> None:
    place = WorkFolder(tmp_path)
    stage = place.stage("read")
    other = place.stage("search")
    left = [half_written(folder / "a.parquet") for folder in (stage, other, tmp_path)]
    (stage / "000000.parquet").write_text("whole")
    (tmp_path / ".download.part").write_text("somebody else's")
    assert place.stage("read") == stage
    assert [path.exists() for path in left] == [False, True, True]
    with place.locked():
        assert [path.exists() for path in left] == [False, True, False]
    assert (stage / "000000.parquet").read_text() == "whole"
    assert (tmp_path / ".download.part").read_text() == "somebody else's"


def test_clearing_removes_work_alone(tmp_path: Path) -> None:
    place = WorkFolder(tmp_path)
    (place.stage("read") / "000000.json").write_text("{}")
    (tmp_path / "scan.json").write_text("{}")
    place.clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "scan.json"]
    place.clear()


def test_a_line_of_the_log_has_a_time_and_is_one_line(tmp_path: Path) -> None:
    place = WorkFolder(tmp_path)
    place.log("first")
    place.log("two\nlines \x1b[31m \udcff é " + "x" * 1000)
    first, second = (tmp_path / "scan.log").read_text(encoding="utf-8").splitlines()
    stamp, _, rest = second.partition(" ")
    assert len(stamp) == len("2026-01-01T00:00:00Z") == len(first) - len(" first")
    assert rest.startswith("two\\nlines \\x1b[31m \\udcff é xxx")
    assert len(rest) == 400


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    others = [started(LOG, tmp_path, letter) for letter in "abc"]
    for other in others:
        other.communicate()
        assert other.returncode == 0
    lines = (tmp_path / "scan.log").read_text(encoding="utf-8").splitlines()
    told = [line.split(" ", 1)[1] for line in lines]
    assert sorted(told) == sorted(f"{x} {i} {x * 300}" for x in "abc" for i in range(200))


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
