"""What the analysis of a published study returns, and its record in a folder."""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from bayescontam._files import atomic_path, write_text
from bayescontam._text import printable
from bayescontam.errors import UsageError
from bayescontam.specs.study import ReproductionSpec

Kind = Literal["intervals", "bars", "curves", "shares", "grid"]

NEEDED: dict[str, tuple[str, ...]] = {
    "intervals": ("label", "series", "mean", "low", "high"),
    "bars": ("label", "series", "value"),
    "curves": ("x", "series", "mean", "low", "high"),
    "shares": ("value", "series"),
    "grid": ("row", "column", "value"),
}
"""Columns of the table of each kind of picture. ``panel`` may come to them, to intervals
``truth``, and to shares ``published``."""
INSIDE, OVERLAP, APART = "inside our interval", "intervals overlap", "apart"
NO_INTERVAL = "no interval of ours"
FORMAT = 1
RECORD, COMPARISON = "reproduction.json", "comparison.csv"
"""Files of the folder, beside a CSV for each table."""


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
class PictureData:
    """What a picture shows; the report draws it."""

    # `"intervals"`: estimates with their intervals and, if given, their `truth`. `"bars"`: numbers
    # without. `"curves"`: lines with bands. `"shares"`: histograms, with a line at each `published`
    # value. `"grid"`: a table of shades. Rows of the same `panel` (optional) share axes; panels
    # stand side by side.
    kind: Kind
    title: str
    caption: str
    table: pd.DataFrame  # columns as in `NEEDED`
    # x, y: labels of the axes, with units
    x: str
    y: str
    mark: str = "truth"  # what the upright lines at `truth` are, in the legend

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
class TableData:
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
        Printed numbers beside ours.
    pictures : tuple of PictureData
    tables : tuple of TableData
    notes : tuple of str
        What was left out and why; checks of fits that failed, by name.
    """

    headline: str
    comparisons: tuple[Comparison, ...] = ()
    pictures: tuple[PictureData, ...] = ()
    tables: tuple[TableData, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Record:
    """A reproduction that was run."""

    name: str  # of the study
    text: str  # its file
    # `started, seconds, command, full, smoke, data, versions` of each run, the last at the end
    runs: tuple[dict[str, Any], ...]
    findings: Findings  # of the last run

    @property
    def spec(self) -> ReproductionSpec:
        """The study as it was run."""
        return ReproductionSpec.parse(self.text, self.name)

    def comparison(self) -> pd.DataFrame:
        """Return the printed numbers beside ours, one row each."""
        return comparison_table(self.name, self.findings.comparisons)

    def save(self, folder: Path) -> None:
        """Write the record, ``comparison.csv`` and the tables, each whole or not at all."""
        _write_csv(folder / COMPARISON, self.comparison())
        for each in self.findings.tables:
            _write_csv(folder / f"{slug(each.title)}.csv", each.table)
        content = {"format": FORMAT, **vars(self)}
        text = json.dumps(content, default=_plain, indent=1, ensure_ascii=False, allow_nan=False)
        write_text(folder / RECORD, text + "\n")

    @classmethod
    def load(cls, folder: Path) -> "Record":
        """Read what `save` wrote."""
        path = folder / RECORD
        place = printable(str(path))
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UsageError(
                f"{printable(str(folder))}: holds no finished reproduction; make one with:"
                " bayescontam study run NAME --out DIR"
            ) from error
        except (OSError, ValueError) as error:
            raise UsageError(f"{place}: cannot be read ({error}); run the study again") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise UsageError(f"{place}: has another layout; run the study again")
        try:
            runs, findings = tuple(content["runs"]), _findings(content["findings"])
            return cls(content["name"], content["text"], runs, findings)
        except (KeyError, TypeError, ValueError) as error:
            problem = f"lacks a part, or holds something else ({printable(repr(error))})"
            raise UsageError(f"{place}: {problem}; run the study again") from error


def comparison_table(study: str, comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """Return printed numbers beside ours, one row each, with the study's name."""
    rows = [asdict(each) | {"agreement": each.agreement} for each in comparisons]
    names = [*Comparison.__dataclass_fields__, "agreement"]
    last = ("reason", "source")
    table = pd.DataFrame(rows, columns=names)[[n for n in names if n not in last] + list(last)]
    table.insert(0, "study", study)
    return table.rename(columns={"low": "ours_low", "high": "ours_high"})


def slug(title: str) -> str:
    """Return a title as the name of a file.

    >>> slug("Seeds: 95 % ranges")
    'seeds-95-ranges'
    """
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))[:60]


def _write_csv(path: Path, table: pd.DataFrame) -> None:
    with atomic_path(path) as part:
        table.to_csv(part, index=False, lineterminator="\n")


def _plain(value: Any) -> dict[str, Any]:
    """Return a table or a part of findings as JSON holds it; NaN becomes null."""
    if isinstance(value, pd.DataFrame):
        content = json.loads(value.to_json(orient="split", double_precision=15))
        return {name: content[name] for name in ("columns", "data")}
    return {
        name: None if isinstance(part, float) and math.isnan(part) else part
        for name, part in vars(value).items()
    }


def _findings(content: dict[str, Any]) -> Findings:
    """Return what `_plain` made of findings as it was."""
    comparisons: list[dict[str, Any]] = [
        {name: math.nan if value is None else value for name, value in row.items()}
        for row in content["comparisons"]
    ]
    return Findings(
        content["headline"],
        tuple(Comparison(**row) for row in comparisons),
        tuple(PictureData(**(p | {"table": _table(p["table"])})) for p in content["pictures"]),
        tuple(TableData(**(t | {"table": _table(t["table"])})) for t in content["tables"]),
        tuple(content["notes"]),
    )


def _table(content: dict[str, Any]) -> pd.DataFrame:
    # JSON has no NaN: a column without any number would come back as one of objects.
    table = pd.DataFrame(content["data"], columns=content["columns"])
    return table.astype({name: float for name in table if table[name].isna().all()})
