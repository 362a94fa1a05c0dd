"""Operations on grids of ARC tasks, of which the baseline's programs are made."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Cells = NDArray[np.int8]
"""A grid: colours from 0 to 9, dims (row, column)."""
type Mask = NDArray[np.bool_]
type Operation = Callable[[Cells], Cells | None]  # None where it cannot be applied
_SIDE = 30
_EIGHT = np.ones((3, 3), int)  # cells that touch at a corner are neighbours


def background(grid: Cells) -> int:
    """Return the colour of the background: black where there is any, else the most frequent."""
    return 0 if (grid == 0).any() else int(np.bincount(grid.ravel()).argmax())


def _box(mask: Mask, grid: Cells) -> Cells | None:
    """Cut out the smallest rectangle around some cells."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    return grid[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def objects(grid: Cells, *, by_colour: bool = False) -> list[Mask]:
    """Return the masks of connected cells that are not background; of one colour, or of any."""
    ground = background(grid)
    colours = np.unique(grid[grid != ground]) if by_colour else [None]
    masks = []
    for colour in colours:
        labels, count = ndimage.label(
            grid != ground if colour is None else grid == colour, structure=_EIGHT
        )
        masks += [labels == k for k in range(1, count + 1)]
    return masks


def _chosen(size: Callable[[list[int]], int], *, by_colour: bool) -> Operation:
    """Cut out the one object that has the largest, or smallest, size of all."""

    def cut(grid: Cells) -> Cells | None:
        masks = objects(grid, by_colour=by_colour)
        sizes = [int(mask.sum()) for mask in masks]
        if len(masks) < 2 or sizes.count(size(sizes)) > 1:
            return None
        return _box(masks[sizes.index(size(sizes))], grid)

    return cut


def _odd_one(grid: Cells) -> Cells | None:
    """Cut out the object whose form no other one has."""
    cuts = [cut for mask in objects(grid) if (cut := _box(mask, grid)) is not None]
    keys = [(cut.shape, cut.tobytes()) for cut in cuts]
    alone = [cut for cut, key in zip(cuts, keys, strict=True) if keys.count(key) == 1]
    return alone[0] if len(alone) == 1 and len(cuts) > 2 else None


def _by_frequency(most: bool, keep: bool) -> Operation:
    """Keep, or remove, the most or least frequent colour beside the background."""

    def change(grid: Cells) -> Cells | None:
        ground = background(grid)
        counts = np.bincount(grid.ravel(), minlength=10)
        counts[ground] = 0
        present = np.flatnonzero(counts)
        if len(present) < 2:
            return None
        order = present[np.argsort(counts[present], kind="stable")]
        colour = order[-1] if most else order[0]
        return np.where((grid == colour) == keep, grid, ground).astype(np.int8)

    return change


def _gravity(turns: int) -> Operation:
    """Let all cells that are not background fall to one side."""

    def fall(grid: Cells) -> Cells | None:
        ground, turned = background(grid), np.rot90(grid, turns)
        fallen = np.full_like(turned, ground)
        for column in range(turned.shape[1]):
            cells = turned[:, column][turned[:, column] != ground]
            if len(cells):
                fallen[-len(cells) :, column] = cells
        return np.rot90(fallen, -turns)

    return fall


def _fill_holes(grid: Cells) -> Cells | None:
    """Colour background that is enclosed with a colour that is not there."""
    ground = background(grid)
    filled = ndimage.binary_fill_holes(grid != ground)
    holes = filled & (grid == ground)
    unused = np.setdiff1d(np.arange(10), grid)
    if not holes.any() or not len(unused):
        return None
    return np.where(holes, unused[-1], grid).astype(np.int8)


def _symmetric(turns: tuple[Callable[[Cells], Cells], ...]) -> Operation:
    """Fill background by what stands there in the mirrored or turned grid."""

    def fill(grid: Cells) -> Cells | None:
        ground, result = background(grid), grid.copy()
        for turn in turns:
            other = turn(result)
            if other.shape != result.shape:
                return None
            result = np.where(result == ground, other, result)
        return result

    return fill


def _halves(rows: bool, join: Callable[[Mask, Mask], Mask]) -> Operation:
    """Overlay the two halves of a grid, between which a line may stand, by a logical operation."""

    def overlay(grid: Cells) -> Cells | None:
        whole = grid if rows else grid.T
        half, odd = divmod(len(whole), 2)
        if half < 1 or (odd and len(np.unique(whole[half])) > 1):
            return None
        one, other = whole[:half] != 0, whole[half + odd :] != 0
        result: Cells = join(one, other).astype(np.int8)
        return result if rows else result.T

    return overlay


def _repeated(rows: int, columns: int) -> Operation:
    return lambda g: np.tile(g, (rows, columns)) if _sized(g, rows, columns) else None


def _enlarged(rows: int, columns: int) -> Operation:
    def enlarge(grid: Cells) -> Cells | None:
        if not _sized(grid, rows, columns):
            return None
        return grid.repeat(rows, axis=0).repeat(columns, axis=1)

    return enlarge


def _sized(grid: Cells, rows: int, columns: int) -> bool:
    return grid.shape[0] * rows <= _SIDE and grid.shape[1] * columns <= _SIDE


def _joined(axis: int, turn: Callable[[Cells], Cells], *, first: bool = True) -> Operation:
    """Put a grid and its mirror image side by side."""

    def join(grid: Cells) -> Cells | None:
        if grid.shape[axis] * 2 > _SIDE:
            return None
        parts = (grid, turn(grid)) if first else (turn(grid), grid)
        return np.concatenate(parts, axis=axis)

    return join


def _part(rows: slice | None, columns: slice | None, of: int) -> Operation:
    """Cut out one of `of` equal parts."""

    def cut(grid: Cells) -> Cells | None:
        height, width = grid.shape
        if (rows and height % of) or (columns and width % of):
            return None
        part = grid
        if rows is not None:
            part = part[rows.start * height // of : rows.stop * height // of]
        if columns is not None:
            part = part[:, columns.start * width // of : columns.stop * width // of]
        return part

    return cut


def _without_repeats(grid: Cells) -> Cells | None:
    """Leave out rows and columns that are as the one before."""
    rows = np.r_[True, (grid[1:] != grid[:-1]).any(axis=1)]
    columns = np.r_[True, (grid[:, 1:] != grid[:, :-1]).any(axis=0)]
    return grid[rows][:, columns]


def _every(step: int) -> Operation:
    return lambda grid: grid[::step, ::step] if min(grid.shape) >= step else None


def _self_similar(grid: Cells) -> Cells | None:
    """Put the grid itself where one of its cells is not background."""
    if not _sized(grid, *grid.shape):
        return None
    return np.kron((grid != background(grid)).astype(np.int8), grid)


def _operations() -> Iterator[tuple[str, Operation]]:
    yield "turn by 90°", lambda g: np.rot90(g)
    yield "turn by 180°", lambda g: np.rot90(g, 2)
    yield "turn by 270°", lambda g: np.rot90(g, 3)
    yield "flip left and right", lambda g: g[:, ::-1]
    yield "flip up and down", lambda g: g[::-1]
    yield "transpose", lambda g: g.T
    yield "transpose the other way", lambda g: g[::-1, ::-1].T
    yield "crop to what is not background", lambda g: _box(g != background(g), g)
    for by_colour, words in ((False, "object"), (True, "object of one colour")):
        yield f"cut out the largest {words}", _chosen(max, by_colour=by_colour)
        yield f"cut out the smallest {words}", _chosen(min, by_colour=by_colour)
    yield "cut out the odd one", _odd_one
    for most, often in ((True, "most frequent"), (False, "least frequent")):
        yield f"keep the {often} colour", _by_frequency(most, keep=True)
        yield f"remove the {often} colour", _by_frequency(most, keep=False)
    for turns, side in enumerate(("down", "left", "up", "right")):
        yield f"gravity {side}", _gravity((0, 1, 2, 3)[turns])
    yield "fill holes", _fill_holes
    yield "make symmetric, left and right", _symmetric((lambda g: g[:, ::-1],))
    yield "make symmetric, up and down", _symmetric((lambda g: g[::-1],))
    yield "make symmetric, both", _symmetric((lambda g: g[:, ::-1], lambda g: g[::-1]))
    yield "make symmetric, diagonal", _symmetric((lambda g: g.T,))
    for rows, words in ((True, "upper and lower"), (False, "left and right")):
        yield f"{words} half: and", _halves(rows, lambda a, b: a & b)
        yield f"{words} half: or", _halves(rows, lambda a, b: a | b)
        yield f"{words} half: either", _halves(rows, lambda a, b: a ^ b)
        yield f"{words} half: neither", _halves(rows, lambda a, b: ~(a | b))
        yield f"{words} half: only the first", _halves(rows, lambda a, b: a & ~b)
        yield f"{words} half: only the second", _halves(rows, lambda a, b: b & ~a)
    for rows_, columns in ((1, 2), (2, 1), (2, 2), (3, 3), (1, 3), (3, 1)):
        yield f"repeat {rows_} × {columns}", _repeated(rows_, columns)
    for size in (2, 3, 4):
        yield f"enlarge {size} × {size}", _enlarged(size, size)
    yield "mirror to the right", _joined(1, lambda g: g[:, ::-1])
    yield "mirror to the left", _joined(1, lambda g: g[:, ::-1], first=False)
    yield "mirror below", _joined(0, lambda g: g[::-1])
    yield "mirror above", _joined(0, lambda g: g[::-1], first=False)
    for name, at in (("first", slice(0, 1)), ("second", slice(1, 2))):
        yield f"{name} half of rows", _part(at, None, 2)
        yield f"{name} half of columns", _part(None, at, 2)
    for k, name in enumerate(("first", "second", "third")):
        yield f"{name} third of rows", _part(slice(k, k + 1), None, 3)
        yield f"{name} third of columns", _part(None, slice(k, k + 1), 3)
    yield "leave out repeated rows and columns", _without_repeats
    yield "every second row and column", _every(2)
    yield "every third row and column", _every(3)
    yield "put the grid in its own cells", _self_similar


OPERATIONS: dict[str, Operation] = dict(_operations())
"""Operations by name."""
