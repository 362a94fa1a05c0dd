"""Solving: the smallest design whose intervals are as narrow as wished."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
import pandas as pd

from bayescontam.errors import UsageError
from bayescontam.inference.estimands import Reference
from bayescontam.inference.plan.planning import Wish, expect, expected_row
from bayescontam.inference.plan.scenes import Scene
from bayescontam.inference.plan.truth import MOST_PAIRS, Sizes, Truth
from bayescontam.progress import progress_bar
from bayescontam.specs.base import closest
from bayescontam.specs.model import ModelSpec

Unknown = Literal["items", "models", "generations"]
MOST: dict[Unknown, int] = {"items": 100_000, "models": 32, "generations": 100}
"""Largest size that is tried."""
_CLOSE = 1.05
"""Ratio of two sizes, one too small and one large enough, at which the search ends."""
_WHY = {
    "items": "the width falls with the square root of the number of items",
    "models": (
        "the rest is due to the number of items: a model's interval rests on its own answers,"
        " and other models inform only on what they share with it"
    ),
    "generations": (
        "the rest is due to the number of items: generations show how each item is answered,"
        " but not what other items would have shown"
    ),
}


@dataclass(frozen=True, eq=False)
class Solution:
    """The smallest design that fulfils a wish."""

    sizes: Sizes | None  # none if none that was tried fulfils it
    table: pd.DataFrame  # every design that was tried, smallest first; columns as from `plan`
    sentence: str  # what was found


@dataclass(eq=False)
class _Search:
    """Sizes that were tried, with the width that is reached with the wished assurance."""

    unknown: Unknown
    sizes: Sizes
    make: Callable[[Sizes], Scene]
    wish: Wish
    seed: int
    progress: bool
    widths: dict[int, float] = field(default_factory=dict)
    rows: dict[int, dict[str, object]] = field(default_factory=dict)

    def at(self, size: int) -> Sizes:
        """Return the design of this size."""
        return replace(self.sizes, **{self.unknown: size})

    def reached(self, size: int) -> bool:
        """Return whether intervals are narrow enough at this size."""
        if size not in self.widths:
            scene, title = self.make(self.at(size)), f"{size:,} {self.unknown}"
            with progress_bar(self.progress, title, self.wish.data_sets, "data sets") as advance:
                expected = expect(scene, self.wish, self.seed, advance)
            widths = expected.widths.ravel()
            # The smallest width that holds for at least the wished share of the intervals.
            self.widths[size] = float(
                np.quantile(widths, self.wish.assurance, method="inverted_cdf")
            )
            self.rows[size] = expected_row(scene, self.wish, expected)
        assert self.wish.width is not None
        return self.widths[size] <= self.wish.width

    def guess(self, size: int) -> int:
        """Return the size at which the wished width would be reached, judging by this one."""
        assert self.wish.width is not None
        ratio = self.widths[size] / self.wish.width
        return int(np.ceil(size * min(ratio**2, 1e6)))

    def smallest(self, least: int, most: int) -> int | None:
        """Return the smallest size that is large enough, to within 5 %."""
        low = least
        if self.reached(low):
            return low
        high = low
        while not self.reached(high):
            if high == most:
                return None
            low = high
            high = min(most, max(2 * low, min(self.guess(low), 30 * low)))
        while high > low + 1 and high > _CLOSE * low:
            narrow = (max(low + 1, int(low * 1.03)), min(high - 1, int(high / 1.03)))
            middle = min(max(self.guess(high), narrow[0]), max(narrow))
            if self.unknown != "items":  # these follow no law that is known beforehand
                middle = (low + high) // 2
            low, high = (low, middle) if self.reached(middle) else (middle, high)
        return high


def solve(
    unknown: Unknown,
    sizes: Sizes,
    truth: Truth,
    spec: ModelSpec,
    wish: Wish,
    *,
    seed: int,
    most: int | None = None,
    reference: Reference = "min_observed",
    progress: bool = False,
) -> Solution:
    """Find the smallest number of items, models or generations that fulfils a wish."""
    if unknown not in get_args(Unknown):
        raise UsageError(f"solve: got {unknown!r}; {closest(str(unknown), get_args(Unknown))}")
    if wish.width is None:
        raise UsageError("solve: needs the wanted width of the interval (--width)")
    least, most = _least(unknown, sizes, truth), _most(unknown, sizes) if most is None else most
    if most < least:
        raise UsageError(f"most: got {most}; at least {least} {unknown} are needed here")
    search = _Search(
        unknown, sizes, lambda tried: Scene(tried, truth, spec, reference), wish, seed, progress
    )
    search.make(search.at(most))  # what cannot be planned is refused before anything is tried
    found = search.smallest(least, most)
    table = pd.DataFrame([search.rows[size] for size in sorted(search.rows)])
    sentence = _sentence(search, found, most)
    return Solution(None if found is None else search.at(found), table, sentence)


def _least(unknown: Unknown, sizes: Sizes, truth: Truth) -> int:
    """Return the smallest number to try; items must differ in contamination."""
    if unknown != "items":
        return sizes.clean + 1 if unknown == "models" else 1
    share = truth.contamination
    if not isinstance(share, float | int):
        return 20
    return max(20, int(np.ceil(2 / min(share, 1 - share))))


def _most(unknown: Unknown, sizes: Sizes) -> int:
    """Return the largest number to try."""
    if unknown != "models":
        return MOST[unknown]
    return min(MOST[unknown], MOST_PAIRS // sizes.benchmarks)


def _sentence(search: _Search, found: int | None, most: int) -> str:
    unknown, wish = search.unknown, search.wish
    wanted = f"a width of {wish.width:g} with probability {wish.assurance:g}"
    tried = f"Tried: {min(search.rows):,} to {max(search.rows):,}."
    if found is None:
        law = ""
        if unknown == "items":
            law = f", so that about {search.guess(most):,} would be needed"
        return (
            f"Not reached with {most:,} {unknown}: {wanted} (there it is"
            f" {search.widths[most]:.3g}). As to why: {_WHY[unknown]}{law}. {tried}"
        )
    one = {"items": "item", "models": "model", "generations": "generation"}[unknown]
    count = f"{found:,} {one if found == 1 else unknown}"
    if found == min(search.rows):
        return f"{count}, the fewest tried, give {wanted} already."
    return f"{count} give {wanted}. {tried}"
