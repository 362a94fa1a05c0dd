"""Folds: which responses are left out together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from bayescontam._types import IntArray
from bayescontam.errors import UsageError
from bayescontam.inference.design import Design
from bayescontam.seeds import stream
from bayescontam.specs.base import closest

By = Literal["response", "item", "model"]
"""What leaves together: a single response, all responses to an item, or all of a model."""


@dataclass(frozen=True, eq=False)
class Units:
    """What is left out, and what of it is predicted together; the order of rows does not count.

    A unit is predicted as a whole: the responses to a left-out item, and else single
    responses. A group is what is left out together.
    """

    by: By
    unit: IntArray  # its unit
    group: IntArray  # its group
    stratum: IntArray  # groups of each stratum are spread evenly over folds


def units_of(design: Design, by: By) -> Units:
    """Return what of a table is left out and predicted together."""
    if by not in get_args(By):
        raise UsageError(f"leave out: got {by!r}; {closest(str(by), get_args(By))}")
    names = {
        name: _ranks(labels)[code]
        for name, labels, code in (
            ("model", [design.models], design.model),
            ("benchmark", [design.benchmarks], design.benchmark),
            ("item", [_owners(design), design.items], design.item),
        )
    }
    if by == "item":
        _, first, unit = np.unique(names["item"], return_index=True, return_inverse=True)
        return Units(by, unit, np.arange(len(first)), names["benchmark"][first])
    order = np.lexsort([names["item"], names["benchmark"], names["model"]])
    unit = np.empty(len(order), dtype=np.int64)
    unit[order] = np.arange(len(order))
    if by == "model":
        stratum = np.zeros(len(design.models), dtype=np.int64)
        return Units(by, unit, names["model"][order], stratum)
    cell = names["model"] * len(design.benchmarks) + names["benchmark"]
    return Units(by, unit, np.arange(len(order)), cell[order])


def fold_of(units: Units, folds: int, seed: int) -> IntArray:
    """Deal groups to folds."""
    groups = len(units.stratum)
    if folds < 2:
        raise UsageError(f"folds: got {folds}; at least 2 are needed")
    if groups < 2:
        raise UsageError(
            f"leave out by {units.by}: there is only one {units.by}, and without it nothing is"
            " left to learn from; leave out something else"
        )
    count = min(folds, groups)
    rng = stream(seed, "folds", units.by, count)
    order = rng.permutation(groups)
    order = order[np.argsort(units.stratum[order], kind="stable")]
    fold = np.empty(groups, dtype=np.int64)
    fold[order] = rng.permutation(count)[np.arange(groups) % count]
    return fold[units.group[units.unit]]


def _owners(design: Design) -> list[str]:
    return [design.benchmarks[b] for b in design.benchmark_of_item]


def _ranks(labels: Sequence[Sequence[str]]) -> IntArray:
    """Return the place of each label, a text or several, in sorted order."""
    order = pd.MultiIndex.from_arrays([np.array(part, dtype=object) for part in labels]).argsort()
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
