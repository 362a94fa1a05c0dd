"""Shards: what of a study is done, and what is left to do."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from bayescontam.calibration.plan import Cell, Plan
from bayescontam.calibration.rows import SHARDS
from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.storage import atomic_path

MOST = 25
"""Replicates of a task, at most: what is lost where a run is stopped."""
ROUNDS = 8
"""Tasks that each worker gets, at least, so that none waits long for the last."""


@dataclass(frozen=True)
class Block:
    """A task: some replicates of a cell.

    Attributes
    ----------
    cell : int
        Position of the cell in the plan.
    replicates : tuple of int
    """

    cell: int
    replicates: tuple[int, ...]

    def path(self, folder: Path, plan: Plan) -> Path:
        """Return the shard that holds its rows, in the folder of a run."""
        return shard_path(folder, plan.cells[self.cell], self.replicates[0])


def shard_path(folder: Path, cell: Cell, first: int) -> Path:
    """Return the path of the shard of a cell that begins with a replicate."""
    return folder / SHARDS / f"{cell.hash}-{first:06d}.parquet"


def write_shard(path: Path, rows: pd.DataFrame) -> None:
    """Write the rows of a block, whole or not at all."""
    with atomic_path(path) as part:
        rows.to_parquet(part, index=False, compression="zstd")


def done_keys(folder: Path) -> set[tuple[str, int]]:
    """Return cell and replicate of everything that shards hold.

    Raises
    ------
    UsageError
        If a shard cannot be read.
    """
    done: set[tuple[str, int]] = set()
    for path in sorted((folder / SHARDS).glob("*.parquet")):
        try:
            keys = pq.read_table(path, columns=["cell", "replicate"]).to_pandas().drop_duplicates()
        except (OSError, ValueError, KeyError) as error:
            raise UsageError(
                f"{visible(str(path))}: cannot be read ({visible(str(error), 200)}); remove it and"
                " run the study again: its replicates alone are made anew"
            ) from error
        done.update(zip(keys["cell"].tolist(), keys["replicate"].tolist(), strict=True))
    return done


def blocks_of(
    plan: Plan, replicates: int, done: set[tuple[str, int]], jobs: int, size: int | None = None
) -> dict[str, Block]:
    """Split what is left to do into tasks.

    Parameters
    ----------
    plan : Plan
    replicates : int
        Of each cell.
    done : set of (str, int)
        Cells and replicates that need not be made.
    jobs : int
        Workers.
    size : int, optional
        Replicates of a task. Default: as many as leave each worker several tasks.

    Returns
    -------
    dict of str to Block
        Cell after cell, so that a worker compiles as seldom as can be.
    """
    left = {
        number: [r for r in range(replicates) if (cell.name, r) not in done]
        for number, cell in enumerate(plan.cells)
    }
    total = sum(map(len, left.values()))
    size = size or int(np.clip(total // (jobs * ROUNDS), 1, MOST))
    return {
        _task(plan.cells[number], block): block
        for number, todo in left.items()
        for block in _blocks(number, todo, size)
    }


def _blocks(cell: int, todo: list[int], size: int) -> Iterator[Block]:
    for start in range(0, len(todo), size):
        yield Block(cell, tuple(todo[start : start + size]))


def _task(cell: Cell, block: Block) -> str:
    name = f"cell '{cell.name}', " if cell.name else ""
    return f"{name}replicates {block.replicates[0]} to {block.replicates[-1]}"
