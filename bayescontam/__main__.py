"""Entry point of the command line: errors become messages, statuses become exits."""

import _thread
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from bayescontam.cli.app import app
from bayescontam.errors import BayescontamError

USAGE_OR_DATA = 2
INTERRUPTED = 128 + signal.SIGINT
_interrupted = False


def main() -> None:
    """Run the command line.

    Exit status: 0 done, 2 fault of usage or data, 3 a failed check with ``--strict``,
    130 interrupted or told to terminate.
    """
    sys.unraisablehook = _interrupt_again
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Whatever the locale: names may hold any character, and tables are read as UTF-8.
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        with _interruptible():
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


def _run() -> None:
    """Run the application; give back the exceptions that it turns into exits."""
    try:
        app()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        if end.code == INTERRUPTED:
            raise KeyboardInterrupt from None
        sys.stdout.flush()  # here, where a reader that has gone is no traceback
        raise


@contextmanager
def _interruptible() -> Iterator[None]:
    """Leave at SIGTERM, which batch systems send, as at Ctrl-C; at a second one at once."""
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, _interrupt)}
    # Whoever starts a program in the background of a script has it ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _interrupt(number: int, _: object) -> NoReturn:
    global _interrupted
    _interrupted = True
    if number == signal.SIGTERM:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt


def _interrupt_again(lost: "sys.UnraisableHookArgs") -> None:
    """Repeat a Ctrl-C that fell into a callback of the compiler, where Python drops it."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(0.1, _thread.interrupt_main).start()
    elif not _interrupted:  # what was but half made cannot be closed, and says so
        sys.__unraisablehook__(lost)


if __name__ == "__main__":
    main()
