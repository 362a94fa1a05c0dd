"""Summaries: mean and interval of draws, as the pages of reproductions report them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

MeanAndInterval = tuple[float, float, float]
"""Mean, and the ends of the 95 % equal-tailed interval."""
TAILS = (0.025, 0.975)


def mean_and_interval(draws: Any) -> MeanAndInterval:
    """Return the mean of draws with their 95 % equal-tailed interval.

    >>> [round(number, 3) for number in mean_and_interval(np.array([[0.0, 1.0], [2.0, 3.0]]))]
    [1.5, 0.075, 2.925]
    """
    values = np.asarray(draws, dtype=float).ravel()
    low, high = np.quantile(values, TAILS)
    return float(values.mean()), float(low), float(high)


def row_of(draws: Any) -> dict[str, float]:
    """Return mean, low and high of draws as columns of a table."""
    return dict(zip(("mean", "low", "high"), mean_and_interval(draws), strict=True))


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows of a table as tuples with the columns' names."""
    yield from table.itertuples(index=False)
