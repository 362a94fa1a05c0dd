"""The page of a published study: printed numbers beside ours."""

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from bayescontam._files import write_text
from bayescontam._text import printable
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.storage import RECORD as RESULTS
from bayescontam.errors import UsageError
from bayescontam.published.findings import (
    APART,
    INSIDE,
    NEEDED,
    NO_INTERVAL,
    OVERLAP,
    PictureData,
    Record,
    comparison_table,
    slug,
)
from bayescontam.report import format as words
from bayescontam.report.html import fill
from bayescontam.report.plots import (
    GREY,
    INK,
    WIDTH,
    Picture,
    finish,
    grid,
    numbers,
    plain_labels,
    style,
)
from bayescontam.report.study_tables import compared

_COLORS, _MARKERS, _DASHES = 8, "osD^vP*X", ("-", "--", ":", "-.")
_HATCHES = ("", "////", "....", "xx")
"""How series are drawn, by turns; the shape identifies them without colour."""
_COLUMNS = {"intervals": 3, "bars": 3, "curves": 3, "shares": 2, "grid": 2}
"""Most panels in a row."""
_BINS = 30
_TICKS = 4
"""Most steps between numbers below a panel that stands beside others."""
_LABEL = 34
_TABLE_OF_MOST = 400
"""Cells of a grid up to which each holds its value."""
_PILLS = {
    INSIDE: "passed",
    OVERLAP: "caution",
    APART: "opposite sign",
    NO_INTERVAL: "no variation",
}
PAGE = "index.html"
MOST_ROWS = 60
"""Rows of a table on the page; its CSV file has all."""
_ORDER = (INSIDE, OVERLAP, APART, NO_INTERVAL)


def drawn(wanted: PictureData, name: str) -> Picture | None:
    """Draw a picture; None where its table has no rows."""
    table = wanted.table
    if table.empty:
        return None
    if "panel" not in table:
        table = table.assign(panel="")
    panels = list(table.groupby("panel", sort=False))
    wide = len(panels) > 1 or wanted.kind in ("intervals", "bars", "grid")
    with style():
        figure, axes = grid(
            len(panels),
            _COLUMNS[wanted.kind],
            _height(wanted.kind, table),
            sharey=wanted.kind != "shares",
            width=WIDTH if wide else 6.6,
        )
        for axis, (title, part) in zip(axes, panels, strict=True):
            _DRAW[wanted.kind](axis, part, table)
            if "truth" in table and table["truth"].notna().any():
                mark = {"color": INK, "ls": "none", "marker": "|", "mew": 1.6, "ms": 9}
                axis.plot([], [], label=wanted.mark, **mark)
            axis.set_title("\n".join(plain_labels([title], 44)))
            axis.set_xlabel(wanted.x)
            if len(panels) > 1 and wanted.kind != "grid":
                axis.xaxis.set_major_locator(MaxNLocator(_TICKS))
        for axis in axes[:: min(len(axes), _COLUMNS[wanted.kind])]:
            axis.set_ylabel(wanted.y)
        # Every panel names all series; one alone is named by the title.
        handles, labels = axes[0].get_legend_handles_labels()
        if len(labels) > 1:
            columns = min(len(labels), max(1, 110 // (max(map(len, labels)) + 8)))
            figure.legend(handles, labels, loc="outside upper left", ncols=columns)
        return finish(figure, name, wanted.title, _alt(wanted), wanted.caption)


def _height(kind: str, table: pd.DataFrame) -> float:
    """Return the height of a panel, in inches."""
    if kind in ("intervals", "bars"):
        return 0.9 + 0.2 * table["label"].nunique() * max(table["series"].nunique(), 1.6)
    return 1.2 + 0.3 * table["row"].nunique() if kind == "grid" else 3.2


def _series(part: pd.DataFrame, table: pd.DataFrame) -> list[tuple[int, str, pd.DataFrame]]:
    """Return number, label and rows in the panel of each series of the picture."""
    names, of = _names(table["series"]), part["series"].astype(str)
    labels = plain_labels(names, 44)
    return [(k, labels[k], part[of == name]) for k, name in enumerate(names)]


def _intervals(axis: Any, part: pd.DataFrame, table: pd.DataFrame) -> None:
    labels, series = _names(table["label"]), _series(part, table)
    step = 0.8 / len(series)
    for k, name, own in series:
        y = np.array([labels.index(str(label)) for label in own["label"]])
        y = y + (k - (len(series) - 1) / 2) * step
        color, marker = f"C{k % _COLORS}", _MARKERS[k % len(_MARKERS)]
        axis.hlines(y, own["low"], own["high"], color=color, lw=1.5)
        axis.plot(own["mean"], y, ls="none", ms=5, color=color, marker=marker, label=name)
        if "truth" in table:
            axis.vlines(own["truth"], y - step * 0.6, y + step * 0.6, color=INK, lw=1.6)
    _name_rows(axis, labels)
    low, high = axis.get_xlim()
    if low < 0 < high:
        axis.axvline(0, color=GREY, lw=0.7, zorder=0)


def _bars(axis: Any, part: pd.DataFrame, table: pd.DataFrame) -> None:
    labels, series = _names(table["label"]), _series(part, table)
    step = 0.8 / len(series)
    for k, name, own in series:
        y = np.array([labels.index(str(label)) for label in own["label"]])
        y = y + (k - (len(series) - 1) / 2) * step
        look: Any = {"color": f"C{k % _COLORS}", "hatch": _HATCHES[k % len(_HATCHES)]}
        axis.barh(y, own["value"], step, edgecolor="white", lw=0.3, label=name, **look)
    _name_rows(axis, labels)


def _name_rows(axis: Any, labels: list[str]) -> None:
    """Name the rows of a picture, from top to bottom, with a line between each two."""
    for edge in range(1, len(labels)):
        axis.axhline(edge - 0.5, color="#e6e6e6", lw=0.7, zorder=0)
    axis.set_yticks(range(len(labels)), plain_labels(labels, _LABEL))
    axis.set_ylim(len(labels) - 0.5, -0.5)


def _curves(axis: Any, part: pd.DataFrame, table: pd.DataFrame) -> None:
    for k, name, rows in _series(part, table):
        own = rows.sort_values("x").astype({"x": float, "low": float, "high": float})
        look: Any = {"color": f"C{k % _COLORS}", "ls": _DASHES[k % len(_DASHES)]}
        marker = _MARKERS[k % len(_MARKERS)] if len(own) <= 25 else None
        axis.fill_between(own["x"], own["low"], own["high"], color=look["color"], alpha=0.15, lw=0)
        axis.plot(own["x"], own["mean"], marker=marker, ms=4, label=name, **look)


def _shares(axis: Any, part: pd.DataFrame, table: pd.DataFrame) -> None:
    values = part["value"].to_numpy(dtype=float)
    edges = np.histogram_bin_edges(values[np.isfinite(values)], bins=_BINS)
    for k, name, own in _series(part, table):
        known = own["value"].dropna()
        look: Any = {"bins": edges, "color": f"C{k % _COLORS}"}
        look["weights"] = np.full(len(known), 1 / max(len(known), 1))
        axis.hist(known, histtype="stepfilled", alpha=0.22, **look)
        axis.hist(known, histtype="step", lw=1.4, ls=_DASHES[k % len(_DASHES)], **look)
        axis.plot([], [], color=look["color"], ls=_DASHES[k % len(_DASHES)], label=name)
    if "published" in table:
        for value in part["published"].dropna().unique():
            axis.axvline(float(value), color=INK, lw=1.6)
        axis.plot([], [], color=INK, lw=1.6, label="published")


def _grid(axis: Any, part: pd.DataFrame, table: pd.DataFrame) -> None:
    wide = part.astype({"row": str, "column": str})
    wide = wide.pivot(index="row", columns="column", values="value")
    wide = wide.reindex(index=_names(table["row"]), columns=_names(part["column"]))
    known, values = table["value"].astype(float), wide.to_numpy(dtype=float)
    low, high = min(float(known.min()), 0.0), max(float(known.max()), 1e-9)
    axis.imshow(values, cmap="Blues", vmin=low, vmax=high, aspect="auto")
    axis.set_xticks(range(values.shape[1]), plain_labels(wide.columns, 16))
    axis.set_yticks(range(values.shape[0]), plain_labels(wide.index, _LABEL))
    axis.tick_params(length=0)
    if values.size <= _TABLE_OF_MOST:
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                dark = value > low + 0.6 * (high - low)
                color = "white" if dark else INK
                axis.text(j, i, f"{value:.2f}", ha="center", va="center", size=8, color=color)


_DRAW: dict[str, Callable[[Any, pd.DataFrame, pd.DataFrame], None]] = {
    "intervals": _intervals,
    "bars": _bars,
    "curves": _curves,
    "shares": _shares,
    "grid": _grid,
}


def _names(column: "pd.Series[Any]") -> list[str]:
    return list(dict.fromkeys(column.astype(str)))


def _alt(wanted: PictureData) -> str:
    """Return what is seen, in words and numbers."""
    table = wanted.table
    if wanted.kind == "grid":
        size = f"{table['row'].nunique()} rows, {table['column'].nunique()} columns"
        return f"{wanted.title}: {size}, values {numbers(table['value'])}."
    column = "value" if "value" in NEEDED[wanted.kind] else "mean"
    names = _names(table["series"])
    values = "; ".join(
        f"{label} {numbers(table.loc[table['series'].astype(str) == name, column])}"
        for name, label in zip(names, plain_labels(names), strict=True)
    )
    return f"{wanted.title}, {wanted.kind} along {wanted.x}: {values}."


def comparison_of(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the printed numbers beside ours of a reproduction, or of a simulation study."""
    place = Path(folder)
    if not (place / RESULTS).exists():
        return Record.load(place).comparison()
    results = StudyResults.load(place)
    found = compared(results)
    if not found:
        raise UsageError(f"{printable(str(place))}: is of a study of which nothing is printed")
    return comparison_table(str(results.record["name"]), found)


def comparison_lines(tables: Sequence[pd.DataFrame]) -> list[str]:
    """Return the printed numbers beside ours as a Markdown table."""
    names = ["study", "quantity", "published", "ours", "agreement", "reason for difference"]
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for table in tables:
        for row in table.to_dict("records"):
            cells = cells_of(row)
            quantity = ", ".join(part for part in (cells["quantity"], cells["where"]) if part)
            line = [f"`{row['study']}`", quantity, cells["published"], cells["ours"]]
            line += [cells["agreement"], cells["reason"]]
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |")
    return lines


def cells_of(row: dict[Any, Any]) -> dict[str, str]:
    """Return a row of `comparison_of` as text: its cells, and the class of its agreement."""
    pairs = {"published": "published", "ours": "ours"}
    numbers = {
        name: " ".join(
            part
            for part in (figure(row[stem]), _interval(row[f"{stem}_low"], row[f"{stem}_high"]))
            if part
        )
        for name, stem in pairs.items()
    }
    texts = {name: printable(str(row[name]), 1000) for name in ("quantity", "where", "reason")}
    agreement = str(row["agreement"])
    return {**texts, **numbers, "agreement": agreement, "pill": _PILLS[agreement]}


def figure(value: float) -> str:
    """Return a number with as many decimals as its size requires; "–" where there is none."""
    if 0 < abs(value) < 0.0005:  # a small p-value is not 0
        return f"{value:.1g}".replace("-", "−")
    return "–" if pd.isna(value) else words.number(value, _digits(value))


def _interval(low: float, high: float) -> str:
    if pd.isna(low) or pd.isna(high):
        return ""
    digits = max(_digits(low), _digits(high))
    return words.interval(low, high, digits)


def _digits(value: float) -> int:
    return 3 if abs(value) < 10 else 1


def write_reproduction_report(
    folder: str | os.PathLike[str], page: str | os.PathLike[str] | None = None
) -> Record:
    """Write the page of a reproduction."""
    record = Record.load(Path(folder))
    write_text(Path(folder, PAGE) if page is None else Path(page), render_reproduction(record))
    return record


def render_reproduction(record: Record) -> str:
    """Return the page of a reproduction as HTML."""
    spec, findings = record.spec, record.findings
    pictures = [drawn(each, f"picture-{k + 1}") for k, each in enumerate(findings.pictures)]
    content = {
        "study_name": printable(record.name),
        "summary": printable(spec.summary, 400),
        "headline": printable(findings.headline, 2000),
        "question": words.paragraphs(spec.question),
        "data": words.paragraphs(spec.data),
        "model": words.paragraphs(spec.model),
        "meaning": words.paragraphs(spec.meaning),
        "limits": words.paragraphs(spec.limits),
        "pictures": [picture for picture in pictures if picture is not None],
        "comparisons": [cells_of(each) for each in record.comparison().to_dict("records")],
        "tally": _tally(record),
        "sources": _sources(record),
        "tables": [
            {
                "title": printable(each.title, 200),
                "caption": printable(each.caption, 2000),
                "file": f"{slug(each.title)}.csv",
                "header": [str(name).replace("_", " ") for name in each.table.columns],
                "rows": [_cells(row) for row in each.table.head(MOST_ROWS).itertuples(index=False)],
                "n": len(each.table),
            }
            for each in findings.tables
        ],
        "notes": [printable(note, 2000) for note in findings.notes],
        "provenance": _provenance(record),
        "spec_text": record.text,
    }
    return fill("reproduction.html", content)


def _tally(record: Record) -> str:
    """Return how many numbers agree, in words."""
    found = [each.agreement for each in record.findings.comparisons]
    counts = [(found.count(kind), kind) for kind in _ORDER if kind in found]
    tally = ", ".join(f"{count} {kind}" for count, kind in counts)
    return f"Of {len(found)} comparisons: {tally}." if found else ""


def _sources(record: Record) -> list[str]:
    """Return where the printed numbers stand, each place once."""
    found = (each.source for each in record.findings.comparisons)
    return [printable(source, 1000) for source in dict.fromkeys(found) if source]


def _cells(row: Any) -> list[tuple[str, bool]]:
    """Return the cells of a row as text; numbers are marked, to be set right."""
    cells = []
    for value in row:
        if isinstance(value, bool):
            cells.append(("yes" if value else "no", False))
        elif value is None or (isinstance(value, float) and pd.isna(value)):
            cells.append(("–", True))
        elif isinstance(value, int):
            cells.append((words.number(value, 0), True))
        elif isinstance(value, float):
            cells.append((figure(value), True))
        else:
            cells.append((printable(str(value), 400), False))
    return cells


def _provenance(record: Record) -> list[tuple[str, str]]:
    """Return where the results come from."""
    last = record.runs[-1]
    size = next((name for name in ("full", "smoke") if last.get(name)), "")
    versions = ", ".join(f"{name} {value}" for name, value in last["versions"].items())
    again = f"bayescontam study run {shlex.quote(record.name)} --out DIR"
    rows = [
        ("Study", f"{record.name} (SHA-256 {record.spec.hash})"),
        ("Command", last["command"] or f"run from Python; on the command line: {again}"),
        ("Size", f"{size} (--{size})" if size else "default"),
        ("Tables not shipped", "a folder was given" if last["data"] else "none were given"),
        ("Started", f"{last['started']}, {last['seconds']:.0f} s"),
        ("Runs", f"{len(record.runs)}; finished fits of earlier ones are used again"),
        ("Seed", str(last["seed"])),
        ("Versions", versions),
    ]
    return [(name, printable(value, 20_000)) for name, value in rows]
