"""Concepts that ARC tasks need: predicates on a task's demonstrations."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import ndimage

from bayescontam.arc.operations import OPERATIONS, Cells, Mask, background, objects
from bayescontam.arc.solver import replacement
from bayescontam.data.importers.arc import ArcTasks, load_tasks

type Pair = tuple[Cells, Cells]
type Predicate = Callable[[Pair], bool]  # of the input and the output of a demonstration
_SMALL = 3  # cells of an object that counts as noise


def _named(*names: str, colours: bool = False) -> Predicate:
    """Return whether the output is what an operation makes of the input; or so but for colours."""
    own = [OPERATIONS[name] for name in names]

    def holds(pair: Pair) -> bool:
        made = [grid for operation in own if (grid := operation(pair[0])) is not None]
        if colours:
            return any(replacement([grid], [pair[1]]) is not None for grid in made)
        return any(np.array_equal(grid, pair[1]) for grid in made)

    return holds


def _same_size(pair: Pair) -> bool:
    return pair[0].shape == pair[1].shape


def _changed(pair: Pair) -> Mask | None:
    """Return which cells differ; None where sizes do, or nothing does."""
    if not _same_size(pair):
        return None
    different = pair[0] != pair[1]
    return different if different.any() else None


def _added(pair: Pair) -> Mask | None:
    """Return the cells that differ, if all were background; else None."""
    changed, ground = _changed(pair), background(pair[0])
    return changed if changed is not None and (pair[0][changed] == ground).all() else None


def _removed(pair: Pair) -> Mask | None:
    """Return the cells that differ, if all became background; else None."""
    changed, ground = _changed(pair), background(pair[0])
    return changed if changed is not None and (pair[1][changed] == ground).all() else None


def _recolours(pair: Pair) -> bool:
    changed, ground = _changed(pair), background(pair[0])
    if changed is None:
        return False
    return bool((pair[0][changed] != ground).all() and (pair[1][changed] != ground).all())


def _crops(pair: Pair) -> bool:
    whole, part = pair
    if part.size >= whole.size or any(a > b for a, b in zip(part.shape, whole.shape, strict=True)):
        return False
    windows = np.lib.stride_tricks.sliding_window_view(whole, part.shape)
    return bool((windows == part).all(axis=(2, 3)).any())


def _turns(grid: Cells) -> list[Cells]:
    turned = [np.rot90(grid, k) for k in range(4)]
    return [*turned, *(each.T for each in turned)]


def _tiles(pair: Pair) -> bool:
    """Return whether the output consists of the input, which may be turned, several times."""
    (height, width), (rows, columns) = pair[0].shape, pair[1].shape
    if rows % height or columns % width or rows * columns <= height * width:
        return False
    parts = pair[1].reshape(rows // height, height, columns // width, width).swapaxes(1, 2)
    own = [turn for turn in _turns(pair[0]) if turn.shape == pair[0].shape]
    return all(
        any(np.array_equal(part, turn) for turn in own) for part in parts.reshape(-1, height, width)
    )


def _enlarges(pair: Pair) -> bool:
    (height, width), (rows, columns) = pair[0].shape, pair[1].shape
    if rows % height or columns % width or rows * columns <= height * width:
        return False
    return np.array_equal(pair[0].repeat(rows // height, 0).repeat(columns // width, 1), pair[1])


def _is_symmetric(grid: Cells) -> bool:
    """Return whether a grid of several colours is its own mirror image."""
    mirrored = np.array_equal(grid, grid[::-1]) or np.array_equal(grid, grid[:, ::-1])
    return mirrored and len(np.unique(grid)) > 1


def _forms(grid: Cells) -> Counter[tuple[tuple[int, ...], bytes]]:
    """Return how often each object, by its form and colours, is in a grid."""
    forms = []
    for mask in objects(grid):
        rows, columns = np.nonzero(mask)
        box = (slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1))
        forms.append((grid[box].shape, np.where(mask, grid, -1)[box].tobytes()))
    return Counter(forms)


def _moves(pair: Pair) -> bool:
    return _changed(pair) is not None and _forms(pair[0]) == _forms(pair[1])


def _copies(pair: Pair) -> bool:
    """Return whether an object of the input is there more often in an output of the same size."""
    before, after = _forms(pair[0]), _forms(pair[1])
    grown = [form for form in after if before[form] and after[form] > before[form]]
    return _same_size(pair) and any(form[0] != (1, 1) for form in grown)


def _holes(grid: Cells) -> Mask:
    """Return the background that is enclosed."""
    ground = background(grid)
    holes: Mask = ndimage.binary_fill_holes(grid != ground) & (grid == ground)
    return holes


def _fills(pair: Pair) -> bool:
    added = _added(pair)
    return added is not None and bool(_holes(pair[0])[added].all())


def _has_hole(pair: Pair) -> bool:
    return bool(_holes(pair[0]).any())


def _cleans(pair: Pair) -> bool:
    """Return whether only small objects went away."""
    removed = _removed(pair)
    if removed is None:
        return False
    labels, count = ndimage.label(removed, structure=np.ones((3, 3)))
    return bool((np.bincount(labels.ravel())[1:] <= _SMALL).all()) and count > 0


def _to_the_border(pair: Pair) -> bool:
    """Return whether what was added are straight lines of which each ends at the border."""
    added = _added(pair)
    if added is None:
        return False
    labels, count = ndimage.label(added, structure=np.ones((3, 3)))
    for k in range(1, count + 1):
        rows, columns = np.nonzero(labels == k)
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        straight = 1 in (height, width) or (height == width == len(rows))
        at_border = (
            rows.min() == 0 or columns.min() == 0
            or rows.max() == added.shape[0] - 1 or columns.max() == added.shape[1] - 1
        )  # fmt: skip
        if not (straight and at_border):
            return False
    return True


def _counts(pair: Pair) -> bool:
    """Return whether the output's size, or its coloured cells, are a number of objects."""
    if _same_size(pair):
        return False
    numbers = {len(objects(pair[0])), len(objects(pair[0], by_colour=True))}
    if 1 in pair[1].shape:
        return pair[1].size in numbers or int((pair[1] != 0).sum()) in numbers
    return int((pair[1] != 0).sum()) in numbers


def _extracts(pair: Pair) -> bool:
    """Return whether the output is the surroundings of one of several objects."""
    found = []
    for mask in objects(pair[0]):
        rows, columns = np.nonzero(mask)
        found.append(pair[0][rows.min() : rows.max() + 1, columns.min() : columns.max() + 1])
    return len(found) > 1 and any(np.array_equal(cut, pair[1]) for cut in found)


def _orders(pair: Pair) -> bool:
    """Return whether the output has the rows, or the columns, of the input in another order."""
    if _changed(pair) is None:
        return False
    one, other = pair
    return any(
        sorted(map(bytes, np.ascontiguousarray(a))) == sorted(map(bytes, np.ascontiguousarray(b)))
        for a, b in ((one, other), (one.T, other.T))
    )


def _has_lines(pair: Pair) -> bool:
    """Return whether lines of one colour divide the input from border to border."""
    grid, ground = pair[0], background(pair[0])
    inner = [*grid[1:-1], *grid.T[1:-1]]
    return any(len(np.unique(line)) == 1 and line[0] != ground for line in inner)


def _repeats(pair: Pair) -> bool:
    """Return whether the output repeats itself along rows or columns."""
    grid = pair[1]
    return any(
        len(lines) >= 2 * step
        and all(np.array_equal(a, b) for a, b in zip(lines[:-step], lines[step:], strict=True))
        for lines in (grid, grid.T)
        for step in range(1, len(lines) // 2 + 1)
        if len(np.unique(grid)) > 1
    )


def _falls(side: str) -> Predicate:
    return lambda pair: _changed(pair) is not None and _named(f"gravity {side}")(pair)


SIDES = ("down", "left", "up", "right")
DETECTORS: dict[str, Predicate | list[Predicate]] = {
    "same size": _same_size,
    "larger output": lambda pair: pair[1].size > pair[0].size,
    "smaller output": lambda pair: pair[1].size < pair[0].size,
    "cropping": _crops,
    "extraction of an object": _extracts,
    "selection by size": _named(*(name for name in OPERATIONS if name.startswith("cut out the"))),
    "tiling": _tiles,
    "enlargement": _enlarges,
    "rotation": _named("turn by 90°", "turn by 180°", "turn by 270°"),
    "reflection": _named(
        "flip left and right", "flip up and down", "transpose", "transpose the other way"
    ),
    "symmetry": lambda pair: _is_symmetric(pair[1]) and not _is_symmetric(pair[0]),
    "recolouring": _recolours,
    "adding": lambda pair: _added(pair) is not None,
    "removing": lambda pair: _removed(pair) is not None,
    "cleaning": _cleans,
    "filling of holes": _fills,
    "enclosure": _has_hole,
    "lines to the border": _to_the_border,
    "moving": _moves,
    "gravity": [_falls(side) for side in SIDES],  # one side in all pairs
    "copying": _copies,
    "counting": _counts,
    "ordering": _orders,
    "logic of halves": [_named(name, colours=True) for name in OPERATIONS if " half: " in name],
    "division by lines": _has_lines,
    "repeated pattern": _repeats,
    "output of one cell": lambda pair: pair[1].size == 1,
    "output of one colour": lambda pair: len(np.unique(pair[1])) == 1,
}
"""Predicates by the concept that they detect; of several, one must hold for all demonstrations."""
OF_PAIRS: dict[str, Callable[[list[Pair]], bool]] = {
    "output of one size": lambda pairs: (
        len({pair[1].shape for pair in pairs}) == 1 < len({pair[0].shape for pair in pairs})
    ),
    "replacement of colours": lambda pairs: (
        replacement([a for a, _ in pairs], [b for _, b in pairs]) is not None
    ),
}
"""Predicates of all demonstrations together."""


def detect_concepts(tasks: ArcTasks | str | os.PathLike[str]) -> pd.DataFrame:
    """Detect which concepts ARC tasks need, by predicates on their demonstrations.

    A concept is detected if its predicate holds for every demonstration of a task. The predicates
    state what happens between input and output (or what the grids show), not what a person would
    call the idea of a task; docs/howto/concept-exposure.md has how often they agree with
    ConceptARC's groups.

    Parameters
    ----------
    tasks : ArcTasks, str or path-like
        Tasks, or where they are; see `load_tasks`. Test pairs are not looked at.

    Returns
    -------
    pandas.DataFrame
        ``task`` and ``concept``, a row for each concept of a task; of a task of which none is
        detected one row with the concept "other".

    Raises
    ------
    UsageError, DataError
        If there are no such tasks.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import bayescontam
    >>> pair = {"input": [[1, 2]], "output": [[1, 1, 2, 2], [1, 1, 2, 2]]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = json.dumps({"train": [pair], "test": [pair]})
    ...     _ = pathlib.Path(folder, "grow.json").write_text(text)
    ...     bayescontam.detect_concepts(folder)["concept"].tolist()
    ['larger output', 'enlargement', 'repeated pattern']
    """
    known = tasks if isinstance(tasks, ArcTasks) else load_tasks(tasks)
    rows = [
        (task, concept)
        for task, content in known.grids.items()
        for concept in _detected(content["train"]) or ["other"]
    ]
    return pd.DataFrame(rows, columns=["task", "concept"])


def _detected(demonstrations: list[dict[str, Any]]) -> list[str]:
    pairs = [
        (np.array(pair["input"], dtype=np.int8), np.array(pair["output"], dtype=np.int8))
        for pair in demonstrations
    ]
    return [*_of_each(pairs), *(name for name, holds in OF_PAIRS.items() if holds(pairs))]


def _of_each(pairs: list[Pair]) -> Iterator[str]:
    for name, given in DETECTORS.items():
        predicates = given if isinstance(given, list) else [given]
        if any(all(holds(pair) for pair in pairs) for holds in predicates):
            yield name
