"""Programs of unknown origin, run where they can do no harm: in a sandbox of Linux.

A program runs under bubblewrap_, in namespaces of its own: it has no network, sees of the file
system a read-only view of the system's and of Python's libraries, writes into a folder in memory
alone, has no environment variables, and ends with all that it started. Limits hold for its time,
memory, files and open files, and a seccomp filter refuses new processes, sockets and what reaches
into the kernel. Only the standard library can be imported. Without bubblewrap no program is run.

This does not protect from faults of the kernel, from side channels (time, kind of processor), or
from use of cores and kernel memory (empty files, threads) until the time is up. Nor from a verdict
forged on purpose, as a program shares its process with its tests: one that exits early, replaces
``print`` or ``exec``, or closes its outputs does not pass, since a pass takes a secret that is read
after the tests; but one that searches its open files or the frames that called it finds what it
takes, and a value that equals everything passes every comparison.

.. _bubblewrap: https://github.com/containers/bubblewrap
"""

import errno
import json
import math
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from bayescontam._optional import require
from bayescontam._text import printable
from bayescontam.errors import MissingExtraError, UsageError

type Status = Literal["passed", "failed", "time", "memory", "process"]
_FEWEST_MEGABYTES = 64  # Python starts in it
_FILE_BYTES = 16 << 20  # of each file, and of the folder in memory
_TAIL_BYTES = 1 << 16  # of what a program prints; a pipe holds as much
_LIMITS = {"RLIMIT_FSIZE": _FILE_BYTES, "RLIMIT_NOFILE": 64, "RLIMIT_CORE": 0}
_STARTED = b"started\n"
_LIBRARIES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache")
_REFUSED_CALLS = (
    "socket",  # some networks, such as vsock, have no namespaces
    # memory that is not counted as the program's
    "memfd_create", "shmget", "msgget", "semget", "mq_open",
    # other processes, mounts and namespaces
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "mount", "umount2", "pivot_root",
    "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "unshare",
    "setns", "name_to_handle_at", "open_by_handle_at",
    # parts of the kernel that have had many faults; others take rights that a program has not
    "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup",
    "io_uring_enter", "io_uring_register", "modify_ldt", "personality",
)  # fmt: skip

_DRIVER = """
def main():
    import json, os, resource, sys, types
    from traceback import extract_tb, format_exception_only
    # Names of its own, since the program may replace those of modules.
    read, write, leave, run = os.read, os.write, os._exit, exec
    secret, report = int(sys.argv[1]), os.dup(2)
    job = json.load(sys.stdin)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    parts = {f"part {at}": text for at, text in enumerate(job["parts"], 1)}
    sys.argv, sys.modules["program"] = ["program"], (module := types.ModuleType("program"))
    del sys.modules["__main__"].main
    for name, value in job["limits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    write(report, job["started"].encode())
    spare = bytearray(1 << 22)  # to report with when memory is used up
    verdict = "failed"
    try:
        for code in [compile(text, name, "exec", 0, True) for name, text in parts.items()]:
            run(code, module.__dict__)
        verdict = "passed"
    except BaseException as error:
        del spare
        verdict, place = "memory" if isinstance(error, MemoryError) else "failed", ""
        for frame in extract_tb(error.__traceback__, -100):
            if frame.filename in parts:
                line = parts[frame.filename].split("\\n")[frame.lineno - 1].strip()
                place = f"{frame.filename}, line {frame.lineno}: {line}: "
        verdict += " " + (place + "".join(format_exception_only(error)))[:4000]
    finally:
        write(report, read(secret, 100) + verdict.encode(errors="replace"))
        leave(0)  # whatever threads and exit handlers are left

main()
"""


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    # failed: an error, or an end before the last line; time, memory: past the limit; process: it
    # tried to start one
    status: Status
    detail: str = ""  # the line that failed with its error; empty if it passed


def run_program(*parts: str, seconds: float = 5.0, megabytes: int = 512) -> Ended:
    """Run a program of unknown origin in the sandbox.

    Parameters
    ----------
    *parts : str
        Python source, run in this order in one module, such as a solution and its tests.
    seconds : float, default 5
        Time limit, from the start of the sandbox on.
    megabytes : int, default 512
        Limit of its addresses in memory; at least 64.

    Raises
    ------
    UsageError
        For limits that are not allowed.
    MissingExtraError
        Where bubblewrap or pyseccomp is missing, or no sandbox is allowed.

    Examples
    --------
    >>> program, test = "def half(n): return n // 2", "assert half(5) == 3"
    >>> run_program(program, test)  # doctest: +SKIP
    Ended(status='failed', detail='part 2, line 1: assert half(5) == 3: AssertionError')
    """
    if not 0 < seconds < math.inf or megabytes < _FEWEST_MEGABYTES:
        raise UsageError(
            f"limits: got {seconds:g} s and {megabytes} MB; allowed are more than 0 s and"
            f" {_FEWEST_MEGABYTES} MB or more"
        )
    secret = secrets.token_hex(16).encode()
    limits = {"RLIMIT_AS": megabytes << 20, "RLIMIT_CPU": math.ceil(seconds) + 1, **_LIMITS}
    job = json.dumps({"parts": parts, "limits": limits, "started": _STARTED.decode()})
    with ExitStack() as stack:
        given, rules = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        given.write(job.encode())
        _write_filter(rules)
        for file in (given, rules):
            file.seek(0)
        secret_end, other_end = os.pipe()
        stack.callback(os.close, secret_end)
        os.write(other_end, secret)
        os.close(other_end)
        process = stack.enter_context(subprocess.Popen(
            [*_command(rules.fileno()), _DRIVER, str(secret_end)],
            stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={},
            pass_fds=(rules.fileno(), secret_end), start_new_session=True,
        ))  # fmt: skip
        # The sandbox ends with bubblewrap, and all that runs in it with the sandbox.
        stack.callback(process.kill)
        printed, ended = _read(process, time.monotonic() + seconds)
    if not ended:
        return Ended("time", f"{seconds:g} s")
    if not printed.startswith(_STARTED):  # what is printed is bubblewrap's, or Python's
        said = printable(printed.decode(errors="replace").strip())
        raise MissingExtraError(
            f"bubblewrap can make no sandbox here, so no program is run: {said}; it needs version"
            " 0.7 or newer, and user namespaces (docker run --security-opt seccomp=unconfined;"
            " Ubuntu 24.04: sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
        )
    return _outcome(printed, secret, process.returncode)


def check_sandbox() -> None:
    """Raise a MissingExtraError, which names the remedy, where no program can be run."""
    run_program("")


def _read(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bool]:
    """Return start and end of what is printed until the deadline, and whether it ended before."""
    assert process.stderr is not None
    source, head, tail = process.stderr.fileno(), b"", b""
    waiting = select.poll()  # select.select fails where many files are open
    waiting.register(source, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0:
        if not waiting.poll(math.ceil(left * 1000)):
            continue
        if not (piece := os.read(source, _TAIL_BYTES)):
            process.wait()
            return head + tail, True
        if not head:
            head, piece = piece[: len(_STARTED)], piece[len(_STARTED) :]
        tail = (tail + piece)[-_TAIL_BYTES:]
    return head + tail, False


def _outcome(printed: bytes, secret: bytes, code: int) -> Ended:
    """Return how a program ended that was not stopped, from start and end of what it printed."""
    _, found, verdict = printed.rpartition(secret)
    if found:
        word, _, detail = verdict.decode(errors="replace").partition(" ")
        known: dict[str, Status] = {"passed": "passed", "memory": "memory"}
        return Ended(known.get(word, "failed"), printable(detail.strip(), 300))
    number = code - 128  # as shells and bubblewrap count signals
    if number == signal.SIGSYS:
        return Ended("process", "it tried to start a process")
    how = signal.Signals(number).name if number in {*signal.Signals} else f"exit status {code}"
    return Ended("failed", f"it ended before its last line: {how}")


def _command(rules: int) -> Iterator[str]:
    """Yield the command that runs Python in the sandbox, up to what it runs."""
    if (bubblewrap := shutil.which("bwrap")) is None:
        raise MissingExtraError(
            "programs are run in a sandbox by bubblewrap, which is not installed; install it with:"
            " apt install bubblewrap (Linux only; no program is run without it)"
        )
    yield from (bubblewrap, "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534")
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox")
    # With PYTHONHASHSEED, a program that depends on the order of a set does so every time. Python
    # has no -I, which would ignore it; of its environment there is nothing else to ignore.
    prefixes = (sys.base_prefix, sys.base_exec_prefix)
    yield from ("--clearenv", "--setenv", "PYTHONHOME", ":".join(prefixes))
    yield from ("--setenv", "PYTHONHASHSEED", "0")
    yield from ("--size", str(_FILE_BYTES), "--tmpfs", "/tmp", "--dev-bind", *[os.devnull] * 2)
    # Not the Python of a virtual environment. Without /proc there is less to read, and the system
    # need not allow another one.
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    own = (str(Path(prefix, lib)) for prefix in prefixes for lib in ("lib", "lib64"))
    for path in dict.fromkeys((*_LIBRARIES, *own, python)):
        yield from ("--ro-bind-try", path, path)
    yield from ("--remount-ro", "/", "--chdir", "/tmp")
    yield from ("--seccomp", str(rules), python, "-s", "-P", "-S", "-B", "-X", "utf8", "-c")


def _write_filter(file: IO[bytes]) -> None:
    """Write the seccomp filter, compiled for this processor."""
    try:
        rules = require("pyseccomp", "duplicates")
    except RuntimeError as error:  # it is not found
        message = "pyseccomp needs libseccomp; install it with: apt install libseccomp2"
        raise MissingExtraError(message) from error
    made = rules.SyscallFilter(rules.ALLOW)
    # Not RLIMIT_NPROC: past a limit of 5, root made 200 processes, in a user namespace too.
    made.add_rule(rules.KILL_PROCESS, "fork")
    made.add_rule(rules.KILL_PROCESS, "vfork")
    thread = 0x10000  # CLONE_THREAD
    made.add_rule(rules.KILL_PROCESS, "clone", rules.Arg(0, rules.MASKED_EQ, thread, 0))
    # A filter does not see the flags of clone3; without it, the C library uses clone.
    made.add_rule(rules.ERRNO(errno.ENOSYS), "clone3")
    for name in _REFUSED_CALLS:
        made.add_rule(rules.ERRNO(errno.EPERM), name)
    made.export_bpf(file)
