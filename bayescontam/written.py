"""Written: tables as files that read back the same."""

import csv
import os
from pathlib import Path

import pandas as pd

from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.storage import atomic_path

_ENDINGS = (".csv", ".parquet")


def check_table_ending(path: str | os.PathLike[str], what: str) -> None:
    """Refuse a file name that `write_table` has no format for."""
    suffix = Path(path).suffix
    if suffix.lower() not in _ENDINGS:
        raise UsageError(
            f"{visible(os.fspath(path))}: the file name ends in '{visible(suffix)}'; "
            f"allowed for {what} is .csv or .parquet"
        )


def write_table(path: str | os.PathLike[str], frame: pd.DataFrame) -> None:
    """Write a table to a file, whole or not at all."""
    with atomic_path(path) as temporary:
        if Path(path).suffix.lower() == ".parquet":
            frame.to_parquet(temporary, index=False)
            return
        if _holds_nul(frame):
            raise UsageError(
                f"{visible(os.fspath(path))}: a name holds a NUL character, which no CSV file can;"
                " write .parquet"
            )
        # Quotes around all texts: a lone carriage return is kept only inside quotes.
        frame.to_csv(temporary, index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")


def _holds_nul(frame: pd.DataFrame) -> bool:
    texts = frame.select_dtypes(["str", "object"])
    cells = (texts[name].str.contains("\0", regex=False, na=False).any() for name in texts)
    return any("\0" in str(name) for name in frame) or any(cells)
