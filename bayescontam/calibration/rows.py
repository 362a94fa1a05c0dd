"""Rows: what one fit of one simulated data set reports of one quantity, and their shards."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayescontam.errors import UsageError
from bayescontam.names import visible

LEVELS = (50, 80, 90, 95)
"""Probabilities of the intervals, in percent."""
KEYS = ("cell", "replicate", "estimator", "quantity", "where")
"""Columns that identify a row; an audited fit has a second row with the same."""
FIGURES = ("truth", "mean", "sd", "mcse", "ess", "rhat")
"""``mcse`` is the Monte Carlo standard error of the mean; ``ess`` the bulk ESS."""
RANKS = ("rank", "ranks")
BOUNDS = tuple(f"{end}_{level}" for level in LEVELS for end in ("low", "high"))
"""Columns of the equal-tailed intervals."""
STATUS = ("status", "reason", "engine", "seconds", "audit")
COLUMNS = (*KEYS, *FIGURES, *RANKS, *BOUNDS, *STATUS)
"""Columns of a row, in order."""
SHARDS = "rows"
"""Folder of the shards, inside the folder of a run."""

_INTEGERS = ("replicate", *RANKS)
_TEXTS = ("cell", "estimator", "quantity", "where", "status", "reason", "engine")


def interval_columns(level: int) -> tuple[str, str]:
    """Return the columns of the interval of a level.

    >>> interval_columns(95)
    ('low_95', 'high_95')
    """
    return f"low_{level}", f"high_{level}"


def intervals(draws: Any) -> dict[str, float]:
    """Return the equal-tailed intervals of draws at every level.

    >>> intervals(range(101))["low_90"]
    5.0
    """
    tails = [(100 + sign * level) / 200 for level in LEVELS for sign in (-1, 1)]
    ends = np.quantile(np.asarray(draws, dtype=float), tails)
    return dict(zip(BOUNDS, ends.tolist(), strict=True))


def read_rows(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Read all rows that a run has written so far."""
    place = Path(folder)
    shards = place / SHARDS
    if not (shards.is_dir() or (place / "study.json").is_file()):
        raise UsageError(
            f"{visible(str(place))}: holds no run of a study; give the folder that"
            " 'bayescontam study run' wrote to"
        )
    # Sorted, so that a table does not depend on the order in which a disk lists its files.
    tables = [_read_shard(path) for path in sorted(shards.glob("*.parquet"))]
    if not tables:
        return _empty()
    rows = pd.concat(tables, ignore_index=True)
    return rows.sort_values([*KEYS, "audit"], kind="stable", ignore_index=True)


def _read_shard(path: Path) -> pd.DataFrame:
    name = visible(str(path))
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{name}: cannot be read ({error}); remove it and run the study again: its"
            " replicates alone are made anew"
        ) from error
    refuse_lacking(set(map(str, table)), path)
    return table[list(COLUMNS)]


def refuse_lacking(columns: Collection[str], path: Path) -> None:
    """Raise a UsageError if a shard has not all columns."""
    if missing := [column for column in COLUMNS if column not in columns]:
        raise UsageError(
            f"{visible(str(path))}: is no shard of a study, it lacks {', '.join(missing)};"
            " remove it"
        )


def _empty() -> pd.DataFrame:
    kinds: dict[str, str] = dict.fromkeys(COLUMNS, "float64")
    kinds |= dict.fromkeys(_INTEGERS, "int64") | dict.fromkeys(_TEXTS, "str") | {"audit": "bool"}
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})
