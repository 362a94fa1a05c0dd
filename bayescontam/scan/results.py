"""Results: the folder of a finished scan, read."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescontam.errors import DataError, Fault
from bayescontam.scan.workplace import read_json

if TYPE_CHECKING:
    from bayescontam.evidence.duplicates import Curve

FILES = ("matches", "tail", "histogram", "strata", "items", "texts")
RECORD = "scan.json"


@dataclass(frozen=True)
class Scan:
    """A finished scan, read from its folder with ``Scan.load(folder)``.

    Attributes
    ----------
    folder : pathlib.Path
    record : dict
        Manifest, counts by reason, achieved shares, versions and times.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.Scan.load("no-such-folder")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """

    folder: Path
    record: dict[str, Any]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Scan":
        """Open the folder that a scan wrote.

        Raises
        ------
        DataError
            If it holds no finished scan.
        """
        path = Path(folder)
        missing = [name for name in (RECORD, *(f"{f}.parquet" for f in FILES))
                   if not (path / name).is_file()]  # fmt: skip
        if missing:
            what = "is no folder" if not path.is_dir() else f"lacks {', '.join(missing)}"
            advice = "Give the folder of a finished scan; run an unfinished one again to finish it."
            raise DataError([Fault(str(folder), f"holds no finished scan: {what}")], advice)
        try:
            return cls(path, read_json(path / RECORD))
        except ValueError as error:
            raise DataError([Fault(str(path / RECORD), f"is not JSON ({error})")]) from error

    @cached_property
    def matches(self) -> pd.DataFrame:
        """Best matches of every item.

        Columns: ``benchmark``, ``item``, ``rank`` (from 1), ``cosine``, ``document``,
        ``chunk`` (number in the document, from 0), ``start`` and ``end`` (characters of the
        document), ``source``, ``stratum``, ``copies`` (occurrences of the text in what was
        scanned), ``chunk_id``, and lexical scores (0 to 1; NaN where undefined).
        """
        return self._table("matches")

    @cached_property
    def tail(self) -> pd.DataFrame:
        """Uniform random sample of every item's matches at or above a threshold.

        Columns as in `matches`, without rank and lexical scores, and ``threshold`` (a
        cosine), ``tail_matches`` (occurrences of chunks at or above it).
        """
        return self._table("tail")

    @cached_property
    def histogram(self) -> pd.DataFrame:
        """All cosines: ``benchmark``, ``item``, ``cosine`` (lower edge, width 0.001), ``count``."""
        return self._table("histogram")

    @cached_property
    def strata(self) -> pd.DataFrame:
        """All cosines: ``benchmark``, ``source``, ``stratum``, ``cosine``, ``count``."""
        return self._table("strata")

    @cached_property
    def items(self) -> pd.DataFrame:
        """Items: ``benchmark``, ``item``, ``text``, ``tokens``, ``cut`` (longer than is seen)."""
        return self._table("items")

    @cached_property
    def texts(self) -> pd.DataFrame:
        """Texts of the chunks in `matches` and `tail`: ``chunk_id``, ``text``."""
        return self._table("texts")

    def _table(self, name: str) -> pd.DataFrame:
        path = self.folder / f"{name}.parquet"
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise DataError([Fault(str(path), f"cannot be read ({error})")]) from error

    def report(
        self,
        path: str | os.PathLike[str],
        curve: "Curve | None" = None,
        items: pd.DataFrame | None = None,
        by: str | None = None,
    ) -> None:
        """Write the report: one HTML file that needs no network.

        Parameters
        ----------
        path : path-like
            Where to write it. Replaced if it exists, whole or not at all.
        curve : Curve, optional
            P(duplicate | cosine) of this scan: adds how many items have duplicates, and
            which.
        items : pandas.DataFrame, optional
            ``benchmark, item`` and the column `by`; used with `curve`.
        by : str, optional
            Item column that prevalence is reported by, such as an Elo rating.

        Raises
        ------
        UsageError
            If the curve is of other benchmarks, or the items have no such column.
        DataError
            If `items` lacks items of the scan.
        """
        from bayescontam.report.evidence import gather
        from bayescontam.report.scan import write_scan_report

        evidence = None if curve is None else gather(self, curve)
        write_scan_report(self, path, evidence=evidence, items=items, by=by)
