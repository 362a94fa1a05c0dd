"""The section on how many items have duplicates, and which."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from bayescontam._text import printable
from bayescontam.evidence.prevalence import duplicate_numbers, prevalence, prevalence_by
from bayescontam.inference.checks import Outcome
from bayescontam.report.fit_figures import note_of
from bayescontam.report.format import interval, level_text, percent
from bayescontam.report.matches import MOST_ITEMS, Evidence, anchors
from bayescontam.report.plots import (
    BLUE,
    GREY,
    WIDTH,
    Picture,
    finish,
    grid,
    numbers,
    plain_labels,
    style,
)

_MOST_NAMED = 4
"""Benchmarks that the verdict line names."""
MOST_PANELS, MOST_GROUPS, MOST_ROWS = 9, 24, 200
"""Benchmarks and groups in one picture, and rows of a table."""


def prevalence_section(
    evidence: Evidence, items: pd.DataFrame | None = None, by: str | None = None
) -> dict[str, Any]:
    """Return tables and pictures of prevalence."""
    level = evidence.curve.level
    table = prevalence(evidence.weighed, level=level)
    numbers = duplicate_numbers(evidence.weighed, level=level)
    pictures = [_by_matches(table[table["by"] == "matches"], level)]
    if items is not None and by is not None:
        groups = prevalence_by(evidence.weighed, items, by, level=level)
        pictures.append(_by_column(groups, by, level))
    parts = table[table["by"].isin(["source", "kind"])]
    if len(evidence.weighed.sources) < 2:
        parts = parts[parts["by"] != "source"]
    rows = _rows(table, numbers)
    failed = any(check.outcome is Outcome.FAILED for check in evidence.curve.checks())
    judged = len(evidence.curve.judged)
    return {
        "level": level_text(level),
        "verdict": _verdict(rows, level_text(level), judged, failed),
        "outcome": "" if judged and not failed else "failed",
        "rows": rows,
        "parts": [
            {**row, "group": printable(str(row["group"]), 60)}
            for row in parts.head(MOST_ROWS).to_dict("records")
        ],
        "n_parts": len(parts),
        "pictures": pictures,
        "most": most_contaminated(evidence),
        "n_items": len(evidence.items),
        "judged": judged,
        "shares": _shares(evidence),
        "rest": _rest(evidence),
    }


def _rows(table: pd.DataFrame, numbers: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return one row for each benchmark: whole corpus, scanned part, numbers of documents."""
    found = {by: part.set_index("benchmark") for by, part in numbers.groupby("by")}
    views = {by: part.set_index("benchmark") for by, part in table.groupby("by")}
    return [
        {
            "benchmark": name,
            "items": int(views["corpus"].loc[name, "items"]),
            "corpus": views["corpus"].loc[name].to_dict(),
            "scanned": views["scanned"].loc[name].to_dict(),
            "documents": found["corpus"].loc[name].to_dict(),
            "documents_scanned": found["scanned"].loc[name].to_dict(),
        }
        for name in list(found["corpus"].index)[:MOST_ROWS]
    ]


def _verdict(rows: list[dict[Any, Any]], level: str, judged: int, failed: bool) -> str:
    """Return how many items have a duplicate, and whether that may be believed."""
    named = []
    for row in rows[:_MOST_NAMED]:
        found = row["corpus"]
        count = f"{found['n_mean']:,.0f} {interval(found['n_low'], found['n_high'], 0)}"
        named.append(f"{count} of {row['items']:,} of '{printable(str(row['benchmark']), 40)}'")
    if more := len(rows) - len(named):
        named.append(f"{more:,} more benchmarks below")
    text = (
        f"Items with at least one duplicate in the corpus ({level} interval): {'; '.join(named)}."
    )
    if not judged:
        return f"{text} Nothing was judged: these numbers rest on a prior, and are no finding."
    if failed:
        return f"{text} Do not rely on it yet: checks of the curve failed, see its own page."
    return text


def most_contaminated(evidence: Evidence) -> list[dict[Any, Any]]:
    """Return the items that most probably have duplicates, as rows of a table."""
    kinds = [name for name in evidence.items if str(name).startswith("kind_")]
    places = anchors(evidence.scan)
    return [
        {
            **row,
            "anchor": places[row["benchmark"], row["item"]],
            "item": printable(str(row["item"]), 60),
            "kinds": _kinds(row, kinds),
        }
        for row in evidence.ranked().head(MOST_ITEMS).to_dict("records")
    ]


def _kinds(row: dict[Any, Any], columns: list[Any]) -> str:
    """Return the kinds that an item has duplicates of with a probability of at least 0.1."""
    likely = sorted((name for name in columns if row[name] >= 0.1), key=lambda name: -row[name])
    return ", ".join(f"{name.removeprefix('kind_')} {row[name]:.2f}" for name in likely)


def _shares(evidence: Evidence) -> str:
    """Say what share of the corpus was scanned, and what follows for the rest."""
    pairs = list(zip(evidence.weighed.sources, evidence.weighed.shares.tolist(), strict=True))
    if all(share == 1 for _, share in pairs):
        return "The whole corpus was searched: nothing had to be scaled up."
    named = [f"{percent(share)} of {printable(name, 40)}" for name, share in pairs[:20]]
    more = f" and {len(pairs) - 20} more sources" if len(pairs) > 20 else ""
    return (
        f"Of the documents were searched {', '.join(named)}{more}; short documents were not. What"
        " the rest holds is inferred from how duplicates are spread over the items."
    )


def _rest(evidence: Evidence) -> str:
    """Say how much of the expected number rests on matches that nobody can read."""
    scanned = float(evidence.items["expected_scanned"].sum())
    rest = float(evidence.items["expected_rest"].sum())
    share = rest / scanned if scanned > 0 else 0.0
    text = (
        f"Of the duplicates expected in the scanned part, {percent(share)} are among matches"
        " that the scan counted but did not list."
    )
    if share > 0.2:
        text += (
            " That is much: it rests on the lower end of the curve. Judge pairs at low cosines, or"
            " list more matches of each item (top_k)."
        )
    return text


def _by_matches(table: pd.DataFrame, level: float) -> Picture:
    """Draw the share of items with a duplicate among the first matches, on a log scale."""
    names, note = _benchmarks(table)
    with style():
        figure, axes = _panels(names, "matches of an item that are examined (log scale)")
        for axis, name in zip(axes, names, strict=True):
            rows = table[table["benchmark"] == name]
            x = rows["group"].astype(int)
            axis.fill_between(x, rows["ci_low"], rows["ci_high"], color=BLUE, alpha=0.18, lw=0)
            axis.plot(x, rows["mean"], color=BLUE, marker="o", ms=4)
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(FixedLocator(x.tolist()))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes[0].set_ylim(bottom=0)
        caption = (
            "Share of items with at least one duplicate among their best matches in the scanned"
            f" part, with the {level_text(level)} band. Where the line still climbs at the right"
            f" end, there is more to be found further down.{note}"
        )
        alt = f"Prevalence by number of matches examined: {numbers(table['mean'])}."
        title = "Prevalence by the number of matches examined"
        return finish(figure, "prevalence-matches", title, alt, caption)


def _by_column(table: pd.DataFrame, column: str, level: float) -> Picture:
    """Draw the share of items with a duplicate by groups of an item column."""
    names, note = _benchmarks(table)
    label = plain_labels([column], 40)[0]
    numeric = bool(table["at"].notna().all())
    with style():
        figure, axes = _panels(names, label)
        for axis, name in zip(axes, names, strict=True):
            rows = table[table["benchmark"] == name].head(MOST_GROUPS)
            x = rows["at"].to_numpy() if numeric else np.arange(len(rows))
            mean = rows["mean"].to_numpy()
            bars = np.maximum([mean - rows["ci_low"], rows["ci_high"] - mean], 0)
            axis.errorbar(x, mean, bars, fmt="o", color=BLUE, ms=5, lw=1.5, ecolor=GREY)
            if not numeric:
                axis.set_xticks(x, plain_labels(rows["group"], 14), rotation=30, ha="right")
                axis.margins(x=0.1)
        axes[0].set_ylim(bottom=0)
        caption = (
            f"Share of items with at least one duplicate in the whole corpus, by {label}, with"
            f" {level_text(level)} intervals."
            f"{' Each point is a group of items, at their mean.' if numeric else ''}{note}"
        )
        alt = f"Prevalence by {label}, {len(table)} groups: {numbers(table['mean'])}."
        return finish(figure, "prevalence-by", f"Prevalence by {label}", alt, caption)


def _benchmarks(table: pd.DataFrame) -> tuple[list[str], str]:
    names = list(dict.fromkeys(table["benchmark"]))
    drawn = names[:MOST_PANELS]
    return drawn, note_of(len(drawn), len(names), "benchmarks", "the first")


def _panels(names: list[str], xlabel: str) -> tuple[Any, list[Any]]:
    width = WIDTH if len(names) > 1 else WIDTH * 0.62
    columns = max(2, min(3, len(names)))
    figure, axes = grid(len(names), columns, 2.5, sharey=True, width=width)
    for i, (axis, title) in enumerate(zip(axes, plain_labels(names), strict=True)):
        axis.set_title(title)
        axis.set_xlabel(xlabel)
        axis.grid(axis="y")
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        if i % columns == 0:
            axis.set_ylabel("items with a duplicate")
    return figure, axes
