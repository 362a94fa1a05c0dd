"""Entry point of the command line: errors become messages, statuses become exits."""

import _thread
import atexit
import errno
import gc
import io
import os
import signal
import sys
import threading
from typing import Any, NoReturn, Self

from bayescontam._text import printable
from bayescontam.cli.app import app_for
from bayescontam.errors import BayescontamError

USAGE_OR_DATA = 2
INTERRUPTED = 128 + signal.SIGINT
GARBAGE = 2_000_000
"""Containers that a command makes before Python looks for garbage among them.

Most of a fit's half a million stay to its end. With Python's own number, 2,000, such searches take
up to a tenth of a command's time.
"""
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


def main() -> None:
    """Run the command line.

    Exit status: 0 done, 2 fault of usage or data, or no memory or disk left, 3 a failed check
    with ``--strict``, 130 interrupted or requested to terminate.
    """
    gc.set_threshold(GARBAGE)
    atexit.register(_leave_garbage)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Whatever the locale: names may hold any character, and tables are read as UTF-8.
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        with _Interrupts():
            _run()
    except BayescontamError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(USAGE_OR_DATA)
    except KeyboardInterrupt:
        print("interrupted; no file was left half written", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing is left to say, nor to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (MemoryError, OSError) as error:
        if not (problem := _lacking(error)):
            raise
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(USAGE_OR_DATA)


def _leave_garbage() -> None:
    """Leave out Python's last search of all objects for garbage."""
    # For the half a million of a fit it takes more than a second. Triton, which torch may bring,
    # prints all that was not collected.
    if "triton" not in sys.modules:
        gc.freeze()


def _lacking(error: MemoryError | OSError) -> str:
    """Return what the machine lacks and what to do about it; "" for any other error."""
    number = getattr(error, "errno", None)
    if isinstance(error, MemoryError) or number == errno.ENOMEM:
        reason = f" ({printable(str(error))})" if str(error) else ""
        return (
            f"out of memory{reason}; no file was left half written\nuse fewer rows (--where), "
            "draws or chains, or a machine with more memory"
        )
    if number in _FULL:
        return (
            f"the disk is full ({printable(str(error))}); no file was left half written\nfree some "
            "space, or write to another disk; temporary files go where TMPDIR points to"
        )
    return ""


def _run() -> None:
    """Run the application; give back the exceptions that it turns into exits."""
    try:
        app_for(sys.argv[1:])()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        if end.code == INTERRUPTED:
            raise KeyboardInterrupt from None
        sys.stdout.flush()  # here, where a reader that has gone is no traceback
        raise


class _Interrupts:
    """Leaves at SIGTERM, which batch systems send, as at Ctrl-C; at a second one at once."""

    def __init__(self) -> None:
        self._came: signal.Signals | None = None
        self._before: dict[int, Any] = {}
        sys.unraisablehook = self._lost

    def __enter__(self) -> Self:
        self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._leave)
        # Whoever starts a program in the background of a script has it ignore Ctrl-C.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._leave)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _leave(self, number: int, _: object) -> NoReturn:
        self._came = signal.Signals(number)
        if number == signal.SIGTERM:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise KeyboardInterrupt

    def _lost(self, lost: "sys.UnraisableHookArgs") -> None:
        """Repeat an interrupt that fell into a callback of the compiler, where Python drops it."""
        if issubclass(lost.exc_type, KeyboardInterrupt):
            if self._came == signal.SIGTERM:
                signal.signal(signal.SIGTERM, self._leave)
            timer = threading.Timer(0.1, _send, [self._came or signal.SIGINT])
            timer.daemon = True  # a program that ends meanwhile need not be interrupted
            timer.start()
        elif self._came is None:  # what an interrupt left half made cannot be closed, and says so
            sys.__unraisablehook__(lost)


def _send(number: signal.Signals) -> None:
    """Send a signal to the main thread, so that it is heard while that waits."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:  # Windows
        _thread.interrupt_main(number)


if __name__ == "__main__":
    main()
