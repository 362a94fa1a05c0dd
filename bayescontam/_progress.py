"""Stages and progress bars on the standard error."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TextIO

Advance = Callable[[float], None]
PATIENCE = 0.4
"""Seconds that a stage may last without a line, where there is no terminal."""
FIRST, EVERY = 3.0, 60.0
"""Seconds to the first line where there is no terminal, and between lines."""
REDRAW = 0.3
"""Seconds between states of a bar on a terminal."""


@contextmanager
def stage(shown: bool, text: str) -> Iterator[None]:
    """Show what is being done while the block runs; where there is no terminal, as a line.

    The line is written after `PATIENCE`: what ends sooner needs none. Stages and bars follow
    each other: none may begin while another is shown.
    """
    if not shown:
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        line = threading.Timer(PATIENCE, _write_line, [sys.stderr, text])
        line.daemon = True
        line.start()
        try:
            yield
        finally:
            line.cancel()
            line.join()  # no line after what comes next
        return
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    # What is printed meanwhile to the standard output belongs there.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as spinner:
        spinner.add_task(text, total=None)
        yield


@contextmanager
def progress_bar(
    shown: bool, title: str, total: float, unit: str, note: Callable[[], str] | None = None
) -> Iterator[Advance]:
    """Show a bar while the block runs; where there is no terminal, a line now and then.

    Such a line is written after some seconds, then every minute, as work is done, and at the end.
    """
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

    console = Console(stderr=True)
    columns: list[ProgressColumn] = [TextColumn("{task.description:<8}")]
    if console.is_terminal:
        columns.append(BarColumn())
    columns.append(TextColumn("{task.fields[state]}"))
    # What is printed meanwhile to the standard output belongs there. There is no thread that
    # draws the bar, as processes may be forked meanwhile.
    bar = Progress(*columns, console=console, auto_refresh=False, redirect_stdout=False)
    with bar:
        task = bar.add_task(title, total=total, state=_state(0, total, 0, unit))
        bar.refresh()
        due, drawn = min(FIRST, EVERY), time.monotonic()

        def advance(done: float) -> None:
            nonlocal due, drawn
            bar.advance(task, done)
            known = bar.tasks[0]
            state = _state(known.completed, total, known.elapsed or 0, unit)
            state = f"{state}, {note()}" if note is not None else state
            bar.update(task, state=state)
            elapsed = known.elapsed or 0
            if not console.is_terminal:
                if elapsed >= due and not known.finished:
                    due = elapsed + EVERY
                    _write_line(sys.stderr, f"{title:<8} {state}")
            elif time.monotonic() - drawn >= REDRAW:
                drawn = time.monotonic()
                bar.refresh()

        yield advance


def write_line(shown: bool, text: str) -> None:
    """Write a line where progress is shown, between stages and bars."""
    if shown:
        _write_line(sys.stderr, text)


def _write_line(stream: TextIO, text: str) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def _state(done: float, total: float, seconds: float, unit: str) -> str:
    """Return share, rate and time left, or taken.

    >>> _state(3000, 4000, 60, "chunks")
    ' 75 % 50 chunks/s 0:00:20 left'
    >>> _state(4, 4, 60, "files")
    '100 % 0.067 files/s in 0:01:00'
    """
    share = f"{min(int(100 * done / total), 100) if total else 100:>3} %"
    if done <= 0 or seconds <= 0:
        return share
    rate = done / seconds
    spelled = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    if done < total:
        time = f"{timedelta(seconds=round((total - done) / rate))} left"
    else:
        time = f"in {timedelta(seconds=round(seconds))}"
    return f"{share} {spelled} {unit}/s {time}"


@contextmanager
def unannounced() -> Iterator[None]:
    """Keep PyMC from announcing what it draws, which no option of its forward draws does."""
    logger = logging.getLogger("pymc.sampling.forward")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
