"""Progress: on the error stream alone, a bar on terminals, lines now and then elsewhere."""

import io
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bayescontam._progress import progress_bar, stage

PROGRAM = """
import time
from bayescontam._progress import progress_bar
with progress_bar(True, "search", 2000, "chunks") as advance:
    print("out")
    time.sleep(0.5)
    advance(500)
    time.sleep(0.8)
    advance(1500)
"""


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def terminal(program: str) -> tuple[str, str]:
    """Return what a program writes to its standard output, and to the terminal beside it."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 2**16):
                shown += part
        except OSError:  # how Linux shows that the other end is closed
            pass
        finally:
            os.close(ours)
        assert process.stdout is not None
        out = process.stdout.read()
    assert process.returncode == 0
    return out.decode(), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


def test_a_terminal_shows_title_bar_rate_and_time_left() -> None:
    out, shown = terminal(PROGRAM)
    assert out == "out\n"  # and nothing of the bar
    states = [state.strip() for state in re.split(r"[\r\n]+", shown) if state.strip()]
    assert states[0].startswith("search   ━━━")
    assert states[0].endswith("0 %")
    # 500 of 2,000 chunks in half a second or a little more: 1,500 are left for three times that.
    (left,) = {state for state in states if state.endswith("left")}
    found = re.fullmatch(r"search   [━╸╺]+  25 % ([\d,]+) chunks/s 0:00:0(\d) left", left)
    assert found is not None
    rate, seconds = int(found[1].replace(",", "")), int(found[2])
    assert 100 < rate <= 1000
    assert seconds == pytest.approx(1500 / rate, abs=0.6)
    assert re.fullmatch(r"search   ━+ 100 % [\d,]+ chunks/s in 0:00:0\d", states[-1])


def test_elsewhere_one_line_stands_at_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    for title, unit in (("read", "files"), ("search", "chunks")):
        with progress_bar(True, title, 100, unit) as advance:
            for _ in range(100):
                advance(1)
            assert capfd.readouterr() == ("", "")
        out, err = capfd.readouterr()
        assert out == ""
        assert re.fullmatch(rf"{title:<8} 100 % [\d,]+ {unit}/s in 0:00:00\n", err)


STAGES = """
import time
from bayescontam._progress import stage
for text in ("reading [red]a.csv", "compiling"):
    with stage(True, text):
        print("out")
        time.sleep({seconds})
"""


def test_a_terminal_shows_a_spinner_that_goes_away() -> None:
    out, shown = terminal(STAGES.format(seconds=0.3))
    assert out == "out\nout\n"
    states = [state.strip() for state in re.split(r"[\r\n]+", shown) if state.strip()]
    assert any(re.fullmatch(r"\S reading \[red\]a.csv 0:00:00", state) for state in states)
    assert any(re.fullmatch(r"\S compiling 0:00:00", state) for state in states)


def test_elsewhere_a_stage_is_a_line_if_it_lasts(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayescontam._progress.PATIENCE", 0.0)
    with stage(True, "reading a.csv"):
        time.sleep(0.2)
        assert capfd.readouterr() == ("", "reading a.csv\n")
    monkeypatch.setattr("bayescontam._progress.PATIENCE", 600.0)
    started = time.monotonic()
    for shown in (True, False):
        with stage(shown, "reading a.csv"):
            pass
    assert time.monotonic() - started < 60
    assert capfd.readouterr() == ("", "")


def test_an_error_in_a_stage_passes(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), stage(True, "reading a.csv"):
        raise KeyError
    assert capfd.readouterr() == ("", "")


def test_an_error_passes_and_leaves_the_state(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with progress_bar(True, "read", 4, "files") as advance:
            advance(1)
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert capfd.readouterr().err.startswith("read      25 % ")


def test_what_is_not_shown_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar(False, "read", 10, "files") as advance:
        advance(10)
    advance(1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("done", [[], [0], [3]])
def test_nothing_to_do_is_done(capfd: pytest.CaptureFixture[str], done: list[int]) -> None:
    with progress_bar(True, "read", 0, "files") as advance:
        for work in done:
            advance(work)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("read     100 %")


def test_advancing_after_the_end_does_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar(True, "read", 2, "files") as advance:
        advance(2)
    before = capfd.readouterr().err
    assert before.count("\n") == 1
    advance(1)
    assert capfd.readouterr() == ("", "")


def test_more_than_all_is_all(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar(True, "read", 2, "files") as advance:
        advance(3)
    assert re.match(r"read     100 % .* files/s in 0:00:00\n", capfd.readouterr().err)


def test_a_narrow_encoding_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar(True, "read", 2, "files") as advance:
        advance(1)
    stream.flush()
    assert raw.getvalue().startswith(b"read      50 % ")


def test_importing_it_does_not_import_rich() -> None:
    program = "import sys, bayescontam._progress; print('rich' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path("/")
    )
    assert done.stdout == "False\n"


def test_without_a_terminal_long_work_is_reported_now_and_then() -> None:
    program = PROGRAM.replace(
        "with", "import bayescontam._progress\nbayescontam._progress.EVERY = 0.4\nwith", 1
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "out\n"
    middle, last = done.stderr.splitlines()
    assert re.fullmatch(r"search    25 % \S+ chunks/s 0:00:0\d left", middle)
    assert re.fullmatch(r"search   100 % \S+ chunks/s in 0:00:0\d", last.rstrip())
