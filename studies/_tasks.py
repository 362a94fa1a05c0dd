"""Tasks in the format of the Abstraction and Reasoning Corpus, made from named concepts."""

import json
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Grid = NDArray[np.integer[Any]]
COLOURS, LEAST, MOST = 10, 3, 6
"""Colours, and sides of the grids that tasks begin with."""
FEWEST_CONCEPTS, MOST_CONCEPTS = 2, 5
TRAIN, TEST = 3, 1
"""Pairs of a task."""
CONCEPTS_FILE = "concepts.csv"


def _fallen(grid: Grid) -> Grid:
    """Let coloured cells of each column fall to its bottom."""
    order = np.argsort(grid != 0, axis=0, kind="stable")
    return np.take_along_axis(grid, order, axis=0)


CONCEPTS: dict[str, Callable[[Grid], Grid]] = {
    "mirror left and right": np.fliplr,
    "mirror top and bottom": np.flipud,
    "turn": np.rot90,
    "swap rows and columns": np.transpose,
    "fall": _fallen,
    "next colour": lambda grid: np.where(grid > 0, grid % (COLOURS - 1) + 1, 0),
    "frame": lambda grid: np.pad(grid, 1, constant_values=5),
    "shift right": lambda grid: np.roll(grid, 1, axis=1),
    "shift down": lambda grid: np.roll(grid, 1, axis=0),
    "first half": lambda grid: grid[:, : max(1, grid.shape[1] // 2)],
    "only largest colour": lambda grid: np.where(grid == grid.max(), grid, 0),
    "fill background": lambda grid: np.where(grid == 0, 8, grid),
}
"""What each concept does to a grid."""


def make_tasks(folder: Path, tasks: int, rng: np.random.Generator) -> None:
    """Write ARC tasks, each a chain of 2 to 5 concepts, and last the table of these."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(tasks):
        name = f"made-{number + 1:04d}"
        size = int(rng.integers(FEWEST_CONCEPTS, MOST_CONCEPTS + 1))
        chosen = [str(c) for c in rng.choice(list(CONCEPTS), size, replace=False)]
        pairs = [_pair(chosen, rng) for _ in range(TRAIN + TEST)]
        content = {"train": pairs[:TRAIN], "test": pairs[TRAIN:]}
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        rows += [{"task": name, "concept": concept} for concept in chosen]
    part = folder / f"{CONCEPTS_FILE}.part"  # that there is a table says that it is whole
    pd.DataFrame(rows).to_csv(part, index=False)
    part.replace(folder / CONCEPTS_FILE)


def _pair(chosen: list[str], rng: np.random.Generator) -> dict[str, list[list[int]]]:
    shape = rng.integers(LEAST, MOST + 1, size=2)
    coloured = rng.random(shape) < 0.5
    grid = np.where(coloured, rng.integers(1, COLOURS, size=shape), 0)
    result = reduce(lambda so_far, concept: CONCEPTS[concept](so_far), chosen, grid)
    return {"input": grid.tolist(), "output": result.tolist()}
