"""Truth: what is supposed of data that are planned, and how many there are to be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayescontam._types import FloatArray
from bayescontam.errors import UsageError
from bayescontam.inference.plan.components import check_spreads

MOST_ITEMS, MOST_GENERATIONS, MOST_PAIRS = 10_000_000, 10_000, 200
"""Sizes of the largest design that can be planned; pairs are of model and benchmark."""
_SIZES = ("items", "models", "benchmarks", "generations")


@dataclass(frozen=True)
class Sizes:
    """Size of a design in which every model answers every item equally often."""

    items: int  # items of each benchmark, at least 2
    # models, benchmarks, generations: generations are the trials of each response
    models: int = 1
    benchmarks: int = 1
    generations: int = 1
    clean: int = 0  # how many of the models are known to be clean

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated."""
        for name in _SIZES:
            least, value = 2 if name == "items" else 1, getattr(self, name)
            if value < least:
                raise UsageError(f"{name}: got {value}; allowed is {least} or more")
        if not 0 <= self.clean < self.models:
            raise UsageError(
                f"clean: got {self.clean}; allowed is 0 up to but not {self.models}, the models"
            )
        for name, value, most in (
            ("items", self.items, MOST_ITEMS),
            ("generations", self.generations, MOST_GENERATIONS),
            ("models × benchmarks", self.models * self.benchmarks, MOST_PAIRS),
        ):
            if value > most:
                raise UsageError(f"plan: got {value:,} {name}; at most {most:,} can be planned")


@dataclass(frozen=True)
class Truth:
    """What is supposed to be true of the data that are planned."""

    accuracy: float = 0.6  # expected accuracy of an average model, contamination included
    slope: float = 1.5  # mean slope: log-odds from surely clean to surely contaminated
    # share of items with contamination 1, the others having 0; or contaminations to take items'
    # from, one array for each benchmark (used in turn if there are fewer)
    contamination: float | Sequence[FloatArray] = 0.3
    # spreads that are known, such as `{"sigma_eps": 3.0}`. Each of the others is drawn from its
    # prior, anew for each simulated data set.
    spreads: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not 0 < self.accuracy < 1:
            raise UsageError(f"accuracy: got {self.accuracy}; allowed is between 0 and 1")
        if not -20 <= self.slope <= 20:
            raise UsageError(f"slope: got {self.slope}; allowed is -20 to 20 (log-odds)")
        share = self.contamination
        if isinstance(share, float | int) and not 0 < share < 1:
            raise UsageError(
                f"contamination: got {share}; allowed is a share between 0 and 1: where all items"
                " are equally contaminated, no number of them shows a slope"
            )
        check_spreads(self.spreads)

    def of_items(self, benchmark: int, items: int) -> FloatArray:
        """Return the contamination of a benchmark's items, dims (item,).

        Of given contaminations the quantiles, so that few items spread as many do.
        """
        if isinstance(self.contamination, float | int):
            count = round(self.contamination * items)
            if not 0 < count < items:
                raise UsageError(
                    f"contamination: a share of {self.contamination:g} of {items} items is"
                    f" {count} of them, so that all are alike; use more items or another share"
                )
            return np.repeat([0.0, 1.0], [items - count, count])
        given = self.contamination[benchmark % len(self.contamination)]
        values = np.quantile(given, (np.arange(items) + 0.5) / items, method="inverted_cdf")
        if np.ptp(values) == 0:
            raise UsageError(
                f"contamination: all items of benchmark {benchmark + 1} have {values[0]:g}; where"
                " all are equally contaminated, no number of them shows a slope"
            )
        return np.asarray(values, dtype=float)
