"""Progress: bars with a rate and the time left, on the terminal's error stream."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

Advance = Callable[[float], None]
EVERY = 60.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def progress_bar(
    shown: bool, title: str, total: float, unit: str, note: Callable[[], str] | None = None
) -> Iterator[Advance]:
    """Show a bar while the block runs; where there is no terminal, a line now and then.

    Such a line is written every minute, as work is done, and at the end.

    Parameters
    ----------
    shown : bool
        Whether to show it at all.
    title : str
        What is being done, in one word.
    total : float
        Work to do.
    unit : str
        What the work is counted in, such as ``"chunks"``.
    note : callable, optional
        Returns what else to say, asked for whenever work was done.

    Yields
    ------
    callable
        Takes the work that was done since it was last called.
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
    # What is printed meanwhile to the standard output belongs there.
    bar = Progress(*columns, console=console, refresh_per_second=2, redirect_stdout=False)
    with bar:
        task = bar.add_task(title, total=total, state=_state(0, total, 0, unit))
        told = 0.0

        def advance(done: float) -> None:
            nonlocal told
            bar.advance(task, done)
            known = bar.tasks[0]
            state = _state(known.completed, total, known.elapsed or 0, unit)
            state = f"{state}, {note()}" if note is not None else state
            bar.update(task, state=state)
            due = (known.elapsed or 0) - told >= EVERY and not known.finished
            if due and not console.is_terminal:
                told = known.elapsed or 0
                sys.stderr.write(f"{title:<8} {state}\n")

        yield advance


def _state(done: float, total: float, seconds: float, unit: str) -> str:
    """Return share, rate and time left, or taken.

    Examples
    --------
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
