"""Shards: what of a study is done, what is left to do, and the files that keep it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pandas as pd
import pyarrow.parquet as pq

from bayescontam.calibration.plan import Cell, Plan
from bayescontam.calibration.rows import SHARDS, refuse_lacking
from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.storage import atomic_path

MOST = 25
"""Replicates of a shard, unless a run requests another number."""
PATIENCE = 20.0
"""Seconds after which rows are written, however few, and seconds of fitting that unwritten rows
may have taken, over all workers: the most that is lost where a run is killed, besides replicates
under way."""


@dataclass(frozen=True)
class Task:
    """One replicate of a cell, which is given by its position in the plan."""

    cell: int
    replicate: int


class Shards:
    """Rows on their way to disk; a context manager, at whose end all are there."""

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        size: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._plan, self._size, self._clock = folder, plan, size, clock
        self._waiting: dict[int, dict[int, pd.DataFrame]] = {}
        self._written, self._worth = clock(), 0.0

    def add(self, task: Task, rows: pd.DataFrame) -> None:
        """Take the rows of a replicate, and write what there is if it is time to."""
        self._waiting.setdefault(task.cell, {})[task.replicate] = rows
        self._worth += seconds_of(rows)
        if max(self._clock() - self._written, self._worth) >= PATIENCE:
            self.write()
        elif len(self._waiting[task.cell]) >= self._size:
            self._write(task.cell)

    def write(self) -> None:
        """Write all rows that are not on disk yet."""
        for cell in list(self._waiting):
            self._write(cell)
        self._written, self._worth = self._clock(), 0.0

    def _write(self, cell: int) -> None:
        replicates = sorted(self._waiting[cell])
        rows = pd.concat([self._waiting[cell][each] for each in replicates], ignore_index=True)
        path = shard_path(self._folder, self._plan.cells[cell], replicates[0])
        with atomic_path(path) as part:
            rows.to_parquet(part, index=False, compression="zstd")
        del self._waiting[cell]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None
    ) -> None:
        self.write()


def seconds_of(rows: pd.DataFrame) -> float:
    """Return how long the fits of one replicate took together."""
    fits = rows.drop_duplicates(["estimator", "audit"])
    return float(fits["seconds"].sum())


def shard_path(folder: Path, cell: Cell, first: int) -> Path:
    """Return the path of the shard of a cell whose lowest replicate is `first`."""
    return folder / SHARDS / f"{cell.hash}-{first:06d}.parquet"


def done_keys(folder: Path) -> set[tuple[str, int]]:
    """Return cell and replicate of everything that shards hold."""
    done: set[tuple[str, int]] = set()
    for path in sorted((folder / SHARDS).glob("*.parquet")):
        try:
            refuse_lacking(pq.read_schema(path).names, path)
            keys = pq.read_table(path, columns=["cell", "replicate"]).to_pandas().drop_duplicates()
        except (OSError, ValueError, KeyError) as error:
            raise UsageError(
                f"{visible(str(path))}: cannot be read ({visible(str(error), 200)}); remove it and"
                " run the study again: its replicates alone are made anew"
            ) from error
        done.update(zip(keys["cell"].tolist(), keys["replicate"].tolist(), strict=True))
    return done


def tasks_of(plan: Plan, replicates: int, done: set[tuple[str, int]]) -> dict[str, Task]:
    """Return what is left to do, under the names that messages use."""
    return {
        _name(cell, replicate): Task(at, replicate)
        for at, cell in enumerate(plan.cells)
        for replicate in range(replicates)
        if (cell.name, replicate) not in done
    }


def _name(cell: Cell, replicate: int) -> str:
    return f"cell '{cell.name}', replicate {replicate}" if cell.name else f"replicate {replicate}"
