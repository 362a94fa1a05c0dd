"""Findings: what the reproduction of a published study came to."""

import math
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from bayescontam.errors import UsageError

Kind = Literal["intervals", "curves", "shares", "grid"]

NEEDED: dict[str, tuple[str, ...]] = {
    "intervals": ("label", "series", "mean", "low", "high"),
    "curves": ("x", "series", "mean", "low", "high"),
    "shares": ("value", "series"),
    "grid": ("row", "column", "value"),
}
"""Columns of the table of each kind of picture. ``panel`` may come to them, and of intervals
``truth``."""

INSIDE, OVERLAP, APART = "inside our interval", "intervals overlap", "apart"
NO_INTERVAL = "no interval of ours"


@dataclass(frozen=True)
class Comparison:
    """A printed number beside ours."""

    quantity: str  # such as `"genuine ability"`
    # model, benchmark or cell that it is reported for, and which estimate of ours stands beside
    where: str
    # published, published_low, published_high: as printed; NaN where it was not
    published: float
    published_low: float
    published_high: float
    # ours, low, high: posterior mean with its 95 % interval, or whatever `reason` says; NaN where
    # there is no interval
    ours: float
    low: float
    high: float
    reason: str  # why the two differ, or may
    source: str = ""  # title, and table or section, of what is printed

    @property
    def agreement(self) -> str:
        """How the two go together.

        ``"inside our interval"``: the printed number lies in it. ``"intervals overlap"``:
        it does not, but the two intervals have numbers in common. ``"apart"``: they have
        none. ``"no interval of ours"``: there is nothing to judge it by.

        >>> Comparison("slope", "", 0.8, -0.2, 1.7, 2.0, 1.0, 3.0, "").agreement
        'intervals overlap'
        """
        if math.isnan(self.low) or math.isnan(self.high):
            return NO_INTERVAL
        if self.low <= self.published <= self.high:
            return INSIDE
        overlap = self.published_low <= self.high and self.low <= self.published_high
        return OVERLAP if overlap else APART


@dataclass(frozen=True, eq=False)
class Picture:
    """What a picture shows; the report draws it."""

    # `"intervals"`: estimates with their intervals, columns `label, series, mean, low, high` and
    # `truth` (optional). `"curves"`: lines with bands, `x, series, mean, low, high`. `"shares"`:
    # histograms of draws or seeds, `value, series`. `"grid"`: a table of shades, `row, column,
    # value`. Rows of the same `panel` (optional) share axes; panels stand side by side under their
    # names.
    kind: Kind
    title: str
    caption: str
    table: pd.DataFrame
    # x, y: labels of the axes, with units
    x: str
    y: str

    def __post_init__(self) -> None:
        """Refuse a table that cannot be drawn."""
        if self.kind not in NEEDED:
            allowed = ", ".join(NEEDED)
            raise UsageError(f"picture '{self.title}': got kind {self.kind!r}; allowed: {allowed}")
        missing = [name for name in NEEDED[self.kind] if name not in self.table]
        if missing:
            raise UsageError(
                f"picture '{self.title}' of kind '{self.kind}': its table has no column"
                f" '{missing[0]}'; it needs {', '.join(NEEDED[self.kind])}"
            )


@dataclass(frozen=True, eq=False)
class Titled:
    """A table with a title and a caption."""

    title: str
    caption: str
    table: pd.DataFrame


@dataclass(frozen=True, eq=False)
class Findings:
    """What a reproduction came to.

    Attributes
    ----------
    headline : str
        The result in a sentence or two.
    comparisons : tuple of Comparison
    pictures : tuple of Picture
    tables : tuple of Titled
    notes : tuple of str
        What was left out and why; checks of fits that failed, by name.
    """

    headline: str
    comparisons: tuple[Comparison, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Titled, ...] = ()
    notes: tuple[str, ...] = ()
