"""Pictures of prevalence: by matches examined, by source, and by a column and kind."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from bayescontam._format import level_text
from bayescontam._types import FloatArray
from bayescontam.report.plots import (
    BLUE,
    INK,
    SERIES,
    Picture,
    band,
    finish,
    first_of,
    legend,
    mark,
    note_of,
    numbers,
    panels,
    plain_labels,
    style,
)

MOST_PANELS, MOST_GROUPS = 9, 24
"""Benchmarks and groups in one picture."""
_WIDEST = 0.5
"""Part of the distance of two groups over which several series are spread."""
_RARE = 0.01
"""Share of items below which, in all groups, a kind is not drawn."""
Series = Mapping[str, pd.DataFrame]
"""Tables that are drawn beside each other, by the names in the legend; one alone may have none."""


@style()
def by_matches(series: Series, level: float) -> Picture:
    """Draw the share of items with a duplicate among the first matches, on a log scale."""
    table = next(iter(series.values()))
    names, note = first_of(table["benchmark"], MOST_PANELS, "benchmarks")
    figure, axes = _share_panels(names, "matches of an item that are examined (log scale)")
    for axis, name in zip(axes, names, strict=True):
        for look, own in zip(SERIES, series.values(), strict=False):
            rows = own[own["benchmark"] == name]
            x = rows["group"].astype(int)
            band(axis, x, rows["ci_low"], rows["ci_high"], look["color"])
            axis.plot(x, rows["mean"], **look, ms=4)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator(x.tolist()))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes[0].set_ylim(bottom=0)
    _name(figure, list(series))
    caption = (
        "Share of items with at least one duplicate among their best matches in the scanned"
        f" part, with the {level_text(level)} band. Where the line still climbs at the right"
        f" end, there is more to be found further down.{note}"
    )
    alt = f"Prevalence by number of matches examined: {numbers(_all(series)['mean'])}."
    title = "Prevalence by the number of matches examined"
    return finish(figure, "prevalence-matches", title, alt, caption)


@style()
def by_source(series: Series, level: float) -> Picture:
    """Draw the share of items with a duplicate in each source, with sd and interval."""
    table = next(iter(series.values()))
    names, note = first_of(table["benchmark"], MOST_PANELS, "benchmarks")
    groups, more = first_of(table["group"], MOST_GROUPS, "sources")
    figure, axes = _share_panels(names, "source of the corpus")
    for axis, name in zip(axes, names, strict=True):
        for (look, own), moved in _beside(series):
            rows = own[own["benchmark"] == name].set_index("group").loc[groups]
            x = np.arange(len(groups)) + moved
            _bars(axis, x, rows, look)
            low, high = ((rows["mean"] + sign * rows["sd"]).clip(0, 1) for sign in (-1, 1))
            axis.vlines(x, low, high, color=look["color"], lw=4, alpha=0.5)
        _words(axis, groups)
    axes[0].set_ylim(bottom=0)
    _name(figure, list(series))
    caption = (
        "Share of items with at least one duplicate in the whole of a source, such as a training"
        f" stage: mean, one standard deviation (thick) and {level_text(level)} interval (thin),"
        f" of which items have one and of the curve.{note}{more}"
    )
    alt = f"Prevalence by source, {len(groups)} sources: {numbers(_all(series)['mean'])}."
    return finish(figure, "prevalence-sources", "Prevalence by source", alt, caption)


@style()
def by_column(
    series: Series, column: str, level: float, lines: Mapping[str, tuple[FloatArray, FloatArray]]
) -> Picture:
    """Draw the share of items with a duplicate by groups of an item column.

    `lines` are, for benchmarks, values of a numeric column, and draws of the share of items with
    a duplicate there, dims (draw, value).
    """
    table = next(iter(series.values()))
    names, note = first_of(table["benchmark"], MOST_PANELS, "benchmarks")
    label = plain_labels([column], 40)[0]
    numeric = bool(table["at"].notna().all())
    figure, axes = _share_panels(names, label)
    for axis, name in zip(axes, names, strict=True):
        if name in lines:
            x, shares = lines[name]
            low, high = np.quantile(shares, [(1 - level) / 2, (1 + level) / 2], axis=0)
            band(axis, x, low, high, INK)
            axis.plot(x, shares.mean(axis=0), color=INK, ls="--", lw=1.2)
        _groups(axis, {key: own[own["benchmark"] == name] for key, own in series.items()}, numeric)
    axes[0].set_ylim(bottom=0)
    further = [mark("logistic trend", color=INK, ls="--")] if lines else []
    _name(figure, list(series), further)
    caption = (
        f"Share of items with at least one duplicate in the whole corpus, by {label}, with"
        f" {level_text(level)} intervals for the items of this benchmark."
        f"{' Each point is a group of items, at their mean.' if numeric else ''}"
        f"{_not_drawn(table)}"
    )
    if lines:
        caption += (
            " Dashed: logistic regression on the column over all items, with its"
            f" {level_text(level)} band, for a population of such items."
        )
    alt = f"Prevalence by {label}, {len(table)} groups: {numbers(_all(series)['mean'])}."
    return finish(figure, "prevalence-by", f"Prevalence by {label}", alt, caption + note)


@style()
def by_kind(table: pd.DataFrame, column: str, level: float) -> Picture | None:
    """Draw the share of items with duplicates of each kind by groups of an item column.

    None where no kind is found often enough to be seen.
    """
    high = table.groupby("kind", sort=False)["ci_high"].max()
    shown = [kind for kind in high.index if kind and high[kind] >= _RARE]
    if not shown:
        return None
    names, note = first_of(table["benchmark"], MOST_PANELS, "benchmarks")
    label = plain_labels([column], 40)[0]
    numeric = bool(table["at"].notna().all())
    figure, axes = _share_panels(names, label)
    for axis, name in zip(axes, names, strict=True):
        here = table[table["benchmark"] == name]
        _groups(axis, {kind: here[here["kind"] == kind] for kind in shown}, numeric)
    axes[0].set_ylim(bottom=0)
    _name(figure, shown)
    left = [kind for kind in high.index if kind and kind not in shown]
    caption = (
        f"Share of items with at least one duplicate of a kind in the whole corpus, by {label},"
        f" with {level_text(level)} intervals for the items of this benchmark. An item may have"
        " duplicates of several kinds. Kinds of matches that nobody judged are as frequent as"
        f" among the judged ones of the benchmark.{_not_drawn(table)}"
    )
    if left:
        caption += f" Below {100 * _RARE:g} % everywhere, and not drawn: {', '.join(left)}."
    seen = table[table["kind"].isin(shown)]
    alt = f"Prevalence by {label} and kind ({', '.join(shown)}): {numbers(seen['mean'])}."
    title = f"Prevalence by {label} and kind"
    return finish(figure, "prevalence-kinds", title, alt, caption + note)


def _groups(axis: Any, series: Series, numeric: bool) -> None:
    """Draw groups of one benchmark as points with intervals, several series side by side."""
    tables = {name: table.head(MOST_GROUPS) for name, table in series.items()}
    rows = next(iter(tables.values()))
    x = rows["at"].to_numpy(float) if numeric else np.arange(len(rows), dtype=float)
    gap = float(np.diff(np.unique(x)).min(initial=np.inf))
    for (look, own), moved in _beside(tables):
        _bars(axis, x + moved * (gap if np.isfinite(gap) else 1.0), own, look)
    if not numeric:
        _words(axis, rows["group"])


def _not_drawn(table: pd.DataFrame) -> str:
    """Return the end of a caption where groups are left out of the picture."""
    most = int(table.groupby("benchmark", sort=False)["group"].nunique().max())
    return note_of(min(most, MOST_GROUPS), most, "groups", "the first")


def _beside(series: Series) -> Sequence[tuple[tuple[dict[str, Any], pd.DataFrame], float]]:
    """Return each table with its look, and by what part of a group's width it is moved."""
    moved = np.zeros(1)
    if len(series) > 1:
        moved = np.linspace(-_WIDEST / 2, _WIDEST / 2, len(series))
    looks = zip(SERIES, series.values(), strict=False)
    return list(zip(looks, moved.tolist(), strict=True))


def _bars(axis: Any, x: FloatArray, rows: pd.DataFrame, look: dict[str, Any]) -> None:
    mean = rows["mean"].to_numpy()
    bars = np.maximum([mean - rows["ci_low"], rows["ci_high"] - mean], 0)
    axis.errorbar(x, mean, bars, **look, ls="none", ms=5, lw=1.5)


def _words(axis: Any, names: Any) -> None:
    axis.set_xticks(np.arange(len(names)), plain_labels(names, 14), rotation=30, ha="right")
    axis.margins(x=0.1)


def _name(figure: Any, labels: Sequence[str], further: Sequence[Any] = ()) -> None:
    """Explain several series, and what else is drawn."""
    named = plain_labels(labels, 40) if len(labels) > 1 else []
    marks = [mark(label, **look) for label, look in zip(named, SERIES, strict=False)]
    if further and not marks:
        marks = [mark("groups of items", marker="o", color=BLUE)]
    if marks:
        legend(figure, [*marks, *further], 6)


def _all(series: Series) -> pd.DataFrame:
    return pd.concat(series.values())


def _share_panels(names: list[str], xlabel: str) -> tuple[Any, list[Any]]:
    figure, axes = panels(
        plain_labels(names), 3, 2.5, xlabel=xlabel, ylabel="items with a duplicate", alone=0.62,
        sharey=True,
    )  # fmt: skip
    for axis in axes:
        axis.grid(axis="y")
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return figure, axes
