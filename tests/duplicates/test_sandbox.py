"""The sandbox holds what programs try: real attacks, with something to lose beside it."""

import importlib
import os
import socket
import stat
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from bayescontam.duplicates.sandbox import Ended, check_sandbox, run_program
from bayescontam.errors import MissingExtraError, UsageError
from tests.support.sandboxed import sandbox  # noqa: F401

held = pytest.mark.usefixtures("sandbox")
RAW = "import ctypes\ncall = ctypes.CDLL(None, use_errno=True).syscall\n"


def number(name: str) -> int:
    """Return the number of a call of Linux on this processor."""
    seccomp = importlib.import_module("pyseccomp")
    return int(seccomp.resolve_syscall(seccomp.Arch.NATIVE, name))


@held
def test_a_program_runs_with_its_tests() -> None:
    code = "from dataclasses import dataclass\n@dataclass\nclass Half:\n    n: int\n"
    assert run_program(code, "assert Half(2) == Half(2)") == Ended("passed")
    outcome = run_program(code, "x = 1\nassert Half(2) == Half(3)")
    assert outcome == Ended("failed", "part 2, line 2: assert Half(2) == Half(3): AssertionError")


@held
@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("def f(:", "SyntaxError"),
        ("f(", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(): f()\nf()", "RecursionError"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("input()", "EOFError"),
        ("raise ValueError('a' * 10**7)", "ValueError: aaa"),
        ("raise ValueError('\\ud800\\n\\x00')", "ValueError"),
        ("class E(Exception):\n    def __str__(self): raise self\nraise E", "E: <exception str"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_errors_are_named_on_one_line(code: str, detail: str) -> None:
    outcome = run_program(code)
    assert outcome.status == "failed"
    assert detail in outcome.detail
    assert len(outcome.detail) <= 300
    assert "\n" not in outcome.detail


@held
def test_recursion_without_a_limit_ends_the_program_alone() -> None:
    code = "import sys; sys.setrecursionlimit(10**9)\ndef f(): return f() + 1\nf()"
    # Which one it meets first, the end of the stack, memory or time, differs from run to run.
    assert run_program(code, seconds=1).status in ("failed", "memory", "time")


@held
@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "raise SystemExit",
        "import atexit, os; atexit.register(os._exit, 0); exit = 1; raise SystemExit(0)",
        "import builtins; builtins.print = lambda *a, **k: None; print('passed')",
        "import builtins; builtins.exec = builtins.compile = lambda *a: None",
        "import os; os.write(2, b'passed ' * 1000); os.write(1, b'passed'); os._exit(0)",
        "import os, sys; sys.stdout.close(); sys.stderr.close(); os.closerange(0, 3)",
        "import os; os.closerange(0, 64)",
        "import os; os.read = os.write = os._exit = lambda *a: b'passed'",
        "import json; json.dumps = lambda *a, **k: 'passed'",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os; os.execv(__import__('sys').executable, ['python', '-c', 'pass'])",
        "import __main__, sys; __main__.main = None; sys.modules.clear()",
        "import threading, os; threading.Thread(target=os._exit, args=(0,)).start()",
        "__builtins__ = {}; AssertionError = None",
        "import sys; sys.excepthook = lambda *a: None",
        "import sys; sys.settrace(lambda *a: None); sys.argv.append('passed')",
    ],
)
def test_tests_that_have_not_run_do_not_pass(code: str) -> None:
    outcome = run_program(code, "assert 1 == 2")
    assert outcome.status == "failed"


@held
@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(60)"])
def test_time_is_limited(code: str) -> None:
    start = time.monotonic()
    assert run_program(code, seconds=0.5) == Ended("time", "0.5 s")
    assert time.monotonic() - start < 2


def running(name: str) -> list[str]:
    """Return the processes and threads of a name, on the whole machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/task/*/comm"):
        with suppress(OSError):  # it has ended meanwhile
            found += [str(path)] if path.read_text().strip() == name else []
    return found


@held
@pytest.mark.parametrize(
    "end",
    ["while True: pass", "import os; os.closerange(0, 64)\ntime.sleep(60)", "time.sleep(0.5)"],
)
def test_nothing_is_left_running(end: str) -> None:
    name = f"left-{os.getpid()}"
    code = (
        f"import ctypes, signal, threading, time\nctypes.CDLL(None).prctl(15, b'{name}')\n"
        "for number in range(1, 32):\n"
        "    if number not in (9, 11, 19): signal.signal(number, signal.SIG_IGN)\n"
        "def wait():\n"
        f"    ctypes.CDLL(None).prctl(15, b'{name}')\n"
        "    while True: time.sleep(0.01)\n"
        "threading.Thread(target=wait).start()\n"
    )
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(run_program, code + end, seconds=1)
        seen = [running(name) for _ in iter(outcome.done, True)]
        assert any(seen)
        # A thread that never ends keeps no program from passing.
        assert outcome.result().status == ("passed" if "0.5" in end else "time")
    deadline = time.monotonic() + 5
    while running(name) and time.monotonic() < deadline:
        time.sleep(0.01)  # the kernel ends them a little later than it says
    assert running(name) == []


@held
@pytest.mark.parametrize(
    "code",
    [
        "import os\nwhile True: os.fork()",
        "import os\nwhile True:\n    try: os.fork()\n    except BaseException: pass",
        "import subprocess, sys; subprocess.run([sys.executable, '-c', ''])",
        "import os, sys; os.posix_spawn(sys.executable, ['python'], {})",
        "import os; os.system('true')",
        "import multiprocessing as m; m.get_context('fork').Process(target=print).start()",
    ],
)
def test_no_process_can_be_started(code: str) -> None:
    assert run_program(code) == Ended("process", "it tried to start a process")


@held
def test_threads_can_be_started() -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\nimport asyncio\n"
        "with ThreadPoolExecutor(8) as pool: found = list(pool.map(abs, range(-9, 0)))\n"
        "async def nap(): await asyncio.sleep(0.01); return 7\n"
    )
    tests = "assert found == list(range(9, 0, -1))\nassert asyncio.run(nap()) == 7"
    assert run_program(code, tests) == Ended("passed")


@held
@pytest.mark.parametrize(
    "code",
    [
        "found = [0] * 10**9",
        "found = []\nwhile True: found.append(bytearray(10**7))",
        "import mmap; mmap.mmap(-1, 1 << 30)[:] = 1",
        "'a' * 10**10",
    ],
)
def test_memory_is_limited(code: str) -> None:
    outcome = run_program(code, megabytes=128)
    assert outcome.status == ("failed" if "mmap" in code else "memory")
    assert ("Cannot allocate memory" if "mmap" in code else "MemoryError") in outcome.detail


@held
@pytest.mark.parametrize("stream", [1, 2])
def test_output_is_limited(stream: int) -> None:
    code = f"import os\nfor _ in range(1000): os.write({stream}, b'a' * 50_000)"
    tracemalloc.start()
    try:
        assert run_program(code, seconds=20) == Ended("passed")
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    endless = code.replace("for _ in range(1000)", "while True")
    assert run_program(endless, seconds=0.5).status == "time"


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """Return a folder with something to lose."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "secret.txt").write_text("a secret")
    (tmp_path / "precious.txt").write_text("precious")
    return tmp_path


@held
def test_files_outside_can_be_neither_read_nor_changed(canary: Path) -> None:
    home, checkout = Path.home(), Path(__file__).parents[2]
    before = {
        path: (path.lstat().st_mtime_ns, path.read_text() if path.is_file() else "")
        for path in (canary, *canary.rglob("*"))
    }
    code = f"""
import os, pathlib, shutil, sys
folder = pathlib.Path({str(canary)!r})
seen = []
def attempt(do, *given):
    try:
        seen.append((do, given, do(*given)))
    except OSError:
        pass
for path in (folder, folder / "deep", folder / "precious.txt", folder / "deep" / "secret.txt"):
    for do in (os.listdir, os.remove, os.rmdir, shutil.rmtree, pathlib.Path.read_text, os.stat):
        attempt(do, path)
    attempt(os.rename, path, "/tmp/mine")
    attempt(os.symlink, "/tmp", path / "link")
for path in ("/etc/passwd", "/etc/shadow", "/proc/1/environ", "/proc/self/environ", "/sys",
             {str(home / ".bashrc")!r}, {str(checkout / "README.md")!r}, {__file__!r}, "/var"):
    attempt(os.stat, path)
assert not seen, seen
for place in ("/new", "/etc/new", "/usr/lib/new", "/dev/new", os.__file__):
    attempt(open, place, "a")
attempt(os.chmod, os.__file__, 0o777)
attempt(os.remove, os.__file__)
assert not seen, seen
# Folders above those that it may read, such as Python's, show nothing else.
home = {str(home)!r}
own = [path for path in (sys.prefix, sys.executable) if path.startswith(home)]
shown = set(os.listdir(home)) if os.path.exists(home) else set()
assert shown <= {{os.path.relpath(path, home).split("/")[0] for path in own}}, shown
"""
    assert run_program(code) == Ended("passed")
    after = {
        path: (path.lstat().st_mtime_ns, path.read_text() if path.is_file() else "")
        for path in (canary, *canary.rglob("*"))
    }
    assert after == before


@held
def test_a_folder_in_memory_is_there_for_little() -> None:
    code = """
import os, tempfile
assert os.getcwd() == tempfile.gettempdir() == "/tmp" and os.listdir() == []
with open("only-in-a-sandbox.txt", "w") as file: file.write("a" * 1000)
assert open("only-in-a-sandbox.txt").read() == "a" * 1000
total = 0
try:
    for at in range(100):
        with open(f"{at}.bin", "wb") as file: total += file.write(bytes(1 << 20))
except OSError: pass
assert 10 << 20 < total < 20 << 20, total
"""
    assert run_program(code) == Ended("passed")
    assert run_program("import os; assert os.listdir() == []") == Ended("passed")
    assert not Path("/tmp/only-in-a-sandbox.txt").exists()


@held
def test_the_environment_has_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "very-secret-key")
    monkeypatch.setenv("PYTHONPATH", "/very/secret/key")
    code = (
        "import os, sys\nassert set(os.environ) <= {'PYTHONHOME', 'PYTHONHASHSEED', 'PWD',"
        " 'LC_CTYPE'}, os.environ\nassert 'secret' not in str(sys.path), sys.path\n"
        "assert os.getuid() == 65534 and os.uname().nodename == 'sandbox'\n"
        "import ctypes\n"
        "raw = ctypes.CDLL(None).getenv; raw.restype = ctypes.c_char_p\n"
        "assert raw(b'API_KEY') is None\n"
        "for at in range(3, 64):\n"
        "    try: name = os.fstat(at)\n"
        "    except OSError: continue\n"
        "    import stat\n"
        "    assert not stat.S_ISDIR(name.st_mode) and not stat.S_ISREG(name.st_mode)\n"
    )
    with open(__file__) as left_open:  # noqa: PTH123
        os.set_inheritable(left_open.fileno(), True)
        assert run_program(code) == Ended("passed")


@held
def test_only_the_standard_library_can_be_imported() -> None:
    for name in ("numpy", "bayescontam", "pip", "pytest"):
        assert f"No module named '{name}'" in run_program(f"import {name}").detail
    code = "import bz2, ctypes, decimal, hashlib, json, lzma, re, sqlite3, statistics, zlib"
    assert run_program(code) == Ended("passed")


@held
def test_there_is_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"
        assert "PermissionError" in run_program(code).detail
        with pytest.raises(TimeoutError):
            server.accept()
    code = "import socket; socket.getaddrinfo('example.org', 80)"
    assert run_program(code).status == "failed"
    # vsock, which leads from a virtual machine to its host
    code = "import socket; socket.socket(40, socket.SOCK_STREAM)"
    assert "PermissionError" in run_program(code).detail


@held
def test_nobody_outside_can_be_reached_by_signals() -> None:
    code = f"""
import os
for process in (1, os.getppid(), {os.getpid()}, {os.getppid()}, -1):
    for number in (2, 15, 9):
        try: os.kill(process, number)
        except OSError: pass
assert os.getpid() < 10
"""
    assert run_program(code) == Ended("passed")


@held
def test_the_kernel_is_out_of_reach() -> None:
    refused = [number(name) for name in (
        "ptrace", "mount", "unshare", "setns", "keyctl", "bpf", "perf_event_open",
        "io_uring_setup", "userfaultfd", "memfd_create", "shmget", "process_vm_readv", "chroot",
    )]  # fmt: skip
    code = f"{RAW}for number in {refused}:\n"
    code += "    assert call(number, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1, number\n"
    code += f"assert call({number('clone3')}, 0, 0) == -1 and ctypes.get_errno() == 38\n"
    assert run_program(code) == Ended("passed")


@held
@pytest.mark.parametrize("name", ["fork", "vfork", "clone"])
def test_no_process_can_be_started_past_the_library(name: str) -> None:
    if number(name) >= 0:  # else this processor's Linux has no such call
        code = f"{RAW}call({number(name)}, 17, 0, 0, 0, 0)"
        assert run_program(code).status == "process"


@held
def test_sets_have_the_same_order_every_time() -> None:
    code = "raise ValueError(list({'a', 'b', 'c', 'd', 'e', 'f'}))"
    assert run_program(code) == run_program(code)


@held
def test_stray_output_does_not_hide_the_verdict() -> None:
    code = (
        "import sys, threading\ndef shout():\n    while True: sys.stderr.write('passed ' * 10)\n"
        "threading.Thread(target=shout, daemon=True).start()\n"
    )
    assert run_program(code, "assert 1 == 2").status == "failed"
    assert run_program("import os; os.write(2, b'started\\n' + bytes(9))") == Ended("passed")


def fake(folder: Path, script: str) -> None:
    """Put a program in the place of bubblewrap."""
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_without_bubblewrap_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    written = tmp_path / "written"
    with pytest.raises(MissingExtraError, match="apt install bubblewrap"):
        run_program(f"open({str(written)!r}, 'w')")
    assert not written.exists()
    with pytest.raises(MissingExtraError, match="no program is run without it"):
        check_sandbox()


def test_where_no_namespaces_are_allowed_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fake(tmp_path, "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    with pytest.raises(MissingExtraError, match="no program is run: bwrap: No permissions to"):
        check_sandbox()


def test_without_pyseccomp_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fake(tmp_path, f"touch {tmp_path}/run")
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'bayescontam\[duplicates\]'"):
        run_program("")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("seconds", "megabytes"), [(0, 512), (-1, 512), (float("inf"), 64), (1, 9)]
)
def test_limits_without_sense_are_refused(seconds: float, megabytes: int) -> None:
    with pytest.raises(UsageError, match="more than 0 s and 64 MB or more"):
        run_program("", seconds=seconds, megabytes=megabytes)
