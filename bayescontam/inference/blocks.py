"""Parts of large tables that are computed one after another, and stay in a core's cache."""

from collections.abc import Iterator

import numpy as np

from bayescontam._types import IntArray
from bayescontam.inference.posterior import CACHED, CHUNK, Draws, expand_to_items
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.marginal import LARGE

BLOCK = 20_000
"""Responses of a block, at most: of so many a core's cache holds several draws."""


def runs(starts: IntArray, count: int, most: int) -> Iterator[IntArray]:
    """Cut items into runs of at most `most` responses, or of one item.

    Responses to an item follow each other, from its `starts`; there are `count` in all.
    """
    ends, first = np.append(starts[1:], count), 0
    while first < len(starts):
        last = np.searchsorted(ends, starts[first] + most, side="right")
        items = np.arange(first, max(int(last), first + 1))
        yield items
        first += len(items)


def blocks_of_responses(built: BuiltModel) -> Iterator[IntArray]:
    """Cut responses into blocks of whole items, if they share nothing beside parameters.

    Tables that are not large are one block, and so are those of which responses share more.
    """
    design = built.design
    alone = design.exposure is None and design.people is None and design.n_single == len(design)
    return _blocks(design.item, BLOCK if alone and len(design) >= LARGE else len(design))


def blocks_of_benchmarks(design: Design) -> Iterator[IntArray]:
    """Cut responses into blocks of whole benchmarks, as many as there are few responses of."""
    return _blocks(design.benchmark, LARGE)


def _blocks(label: IntArray, most: int) -> Iterator[IntArray]:
    """Yield the positions of responses in blocks, all with one label in the same."""
    order = np.argsort(label, kind="stable")
    starts = np.flatnonzero(np.diff(label[order], prepend=-1))
    ends = np.append(starts[1:], len(order))
    for labels in runs(starts, len(order), most):
        yield np.sort(order[starts[labels[0]] : ends[labels[-1]]])


def draws_by_block(
    draws: Draws, built: BuiltModel
) -> Iterator[tuple[IntArray, slice, Draws, Design]]:
    """Yield responses and positions of draws, and these draws with the design of the responses."""
    for rows in blocks_of_responses(built):
        every = len(rows) == len(built.design)
        own, seen = (draws, built.design) if every else responses_of(draws, built, rows)
        done = 0
        for part in own.chunks(seen, CHUNK if every else CACHED):
            # Of a whole table, difficulties of all draws might not fit in memory.
            some = expand_to_items(part, built.lattice) if every else part
            yield rows, slice(done, done + len(part)), some, seen
            done += len(part)


def responses_of(draws: Draws, built: BuiltModel, rows: IntArray) -> tuple[Draws, Design]:
    """Return draws and design of some responses: those of all might not fit in memory."""
    design, lattice = built.design, built.lattice
    if lattice is None:
        return draws, design.subset(rows)
    items, own = np.unique(design.item[rows], return_inverse=True)
    return expand_to_items(draws, lattice, items), design.subset(rows, own)
