"""Record: what a reproduction's folder holds of it, from which its page is made."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.reproduction.findings import Comparison, Findings, Picture, Titled
from bayescontam.specs.reproduction import ReproductionSpec
from bayescontam.storage import atomic_path, write_text

FORMAT = 1
RECORD, COMPARISON = "reproduction.json", "comparison.csv"
"""Files of the folder, beside a CSV for each table."""


@dataclass(frozen=True, eq=False)
class Record:
    """A reproduction that was run."""

    name: str  # of the study
    text: str  # its file
    # `started, seconds, command, full, data, versions` of each run, the last at the end
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
        for titled in self.findings.tables:
            _write_csv(folder / f"{slug(titled.title)}.csv", titled.table)
        content = {
            "format": FORMAT,
            "name": self.name,
            "text": self.text,
            "runs": list(self.runs),
            "findings": _plain(self.findings),
        }
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        write_text(folder / RECORD, text + "\n")

    @classmethod
    def load(cls, folder: Path) -> "Record":
        """Read what `save` wrote."""
        path = folder / RECORD
        place = visible(str(path))
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UsageError(
                f"{visible(str(folder))}: holds no finished reproduction; make one with:"
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
            problem = f"lacks a part, or holds something else ({visible(repr(error))})"
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


def _plain(findings: Findings) -> dict[str, Any]:
    """Return findings as JSON holds them: NaN as null, tables as rows."""
    return {
        "headline": findings.headline,
        "comparisons": [
            {name: None if value != value else value for name, value in asdict(each).items()}
            for each in findings.comparisons
        ],
        "pictures": [
            {"kind": p.kind, "title": p.title, "caption": p.caption, "x": p.x, "y": p.y}
            | {"table": _rows(p.table)}
            for p in findings.pictures
        ],
        "tables": [
            {"title": t.title, "caption": t.caption, "table": _rows(t.table)}
            for t in findings.tables
        ],
        "notes": list(findings.notes),
    }


def _rows(table: pd.DataFrame) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(table.to_json(orient="split", double_precision=15))
    return {name: content[name] for name in ("columns", "data")}


def _table(content: dict[str, Any]) -> pd.DataFrame:
    # JSON has no NaN: a column without any number would come back as one of objects.
    table = pd.DataFrame(content["data"], columns=content["columns"])
    return table.astype({name: float for name in table if table[name].isna().all()})


def _findings(content: dict[str, Any]) -> Findings:
    return Findings(
        content["headline"],
        tuple(_comparisons(content["comparisons"])),
        tuple(Picture(**(p | {"table": _table(p["table"])})) for p in content["pictures"]),
        tuple(Titled(**(t | {"table": _table(t["table"])})) for t in content["tables"]),
        tuple(content["notes"]),
    )


def _comparisons(rows: Iterable[dict[str, Any]]) -> Iterable[Comparison]:
    for row in rows:
        known: dict[str, Any] = {k: float("nan") if v is None else v for k, v in row.items()}
        yield Comparison(**known)
