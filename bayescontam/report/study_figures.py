"""Figures of coverage, widths, scores and ranks."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots import plot_ecdf_pit
from arviz_plots.plot_collection import PlotCollection
from arviz_stats.ecdf_utils import compute_ecdf, get_pointwise_confidence_band
from matplotlib.lines import Line2D

from bayescontam._types import FloatArray
from bayescontam.calibration.coverage import ALL
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.sbc import GROUP, SAMPLE, UNIT, envelope_probability, points, ranked
from bayescontam.report.fit_figures import note_of
from bayescontam.report.plots import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PINK,
    WIDTH,
    Picture,
    finish,
    grid,
    numbers,
    plain_labels,
    style,
)
from bayescontam.report.study_tables import HEAD, ordered_quantities

MOST_PANELS, MOST_LINES = 9, 8
"""Quantities, and estimators, in one picture; the table holds more."""
MOST_CELLS = 24
_LOOKS: list[dict[str, Any]] = [
    {"color": color, "marker": marker}
    for color, marker in zip(
        (BLUE, ORANGE, GREEN, PINK, INK, "#E69F00", "#56B4E9", GREY), "osD^vP*X", strict=True
    )
]
"""How each estimator is drawn; the shape identifies it without colour."""
_SE = 1.96
_BAND, _ROOM = 0.95, 1.08
_OURS: dict[Any, Any] = {
    "p_value_text": False,
    "suspicious_points": False,
    "title": False,
    "xlabel": False,
}
"""What ArviZ does not draw: its own test, beside the one that the table reports, and labels."""


def coverage(results: StudyResults) -> Picture | None:
    """Draw coverage against its level, or by cell at 95 %; None without rows."""
    table, quantities, estimators, note = _chosen(results)
    if table.empty:
        return None
    cells = _cells(results, table)
    draw = _by_level if len(cells) == 1 else _by_cell
    with style():
        figure, axes = _panels(quantities, estimators, len(cells))
        for axis, quantity in zip(axes, quantities, strict=True):
            draw(axis, table[table["quantity"] == quantity], estimators, cells)
        # The same for all panels, and with room for every error bar.
        shown = table if draw is _by_level else table[table["level"] == HEAD]
        lowest = float((shown["coverage"] - _reach(shown)[0]).min())
        if draw is _by_level:
            axes[0].set_ylim(max(min(lowest, 0.45), 0) - 0.03, 1.03)
            _end_at_one(axes[0].yaxis)
        for axis in axes if draw is _by_cell else ():
            axis.set_xlim(max(lowest, 0) - 0.03, 1.03)
            _end_at_one(axis.xaxis)
        _legend(figure, estimators, Line2D([], [], color=GREY, lw=1.2, label="nominal"))
        head = table[table["level"] == HEAD]
        shares = "; ".join(
            f"{name} {numbers(head.loc[head['estimator'] == name, 'coverage'])}"
            for name in plain_labels(estimators)
        )
        alt = f"Coverage of 95 % intervals over {len(quantities)} quantities: {shares}."
        caption = (
            "Share of intervals that hold the truth, all fits counted, with 1.96 Monte Carlo"
            f" standard errors; grey: what it should be.{note}"
        )
        return finish(figure, "coverage", "Coverage", alt, caption)


def widths(results: StudyResults) -> Picture | None:
    """Draw widths and interval scores of the 95 % intervals; None without rows."""
    table, quantities, estimators, note = _chosen(results)
    table = table[table["level"] == HEAD]
    if table.empty:
        return None
    cells = _cells(results, table)
    with style():
        figure, axes = _panels(quantities, estimators, len(cells), by_cell=True)
        for axis, quantity in zip(axes, quantities, strict=True):
            _scores(axis, table[table["quantity"] == quantity], estimators, cells)
        marks = [
            Line2D([], [], ls="none", marker="o", color=INK, mfc="white", ms=5, label="width"),
            Line2D([], [], ls="none", marker="o", color=INK, ms=5, label="interval score"),
        ]
        _legend(figure, estimators, *marks)
        alt = (
            f"Widths {numbers(table['width'])} and interval scores"
            f" {numbers(table['interval_score'])} of 95 % intervals of {len(quantities)} quantities"
            f" and {len(estimators)} estimators."
        )
        caption = (
            "Mean width (hollow) and mean Winkler score (filled) of the 95 % intervals, with 1.96"
            " Monte Carlo standard errors. The score is the width and, for each truth outside, 40"
            f" times its distance to the interval: smaller is better.{note}"
        )
        return finish(figure, "widths", "Width and interval score", alt, caption)


def _chosen(results: StudyResults) -> tuple[pd.DataFrame, list[str], list[str], str]:
    """Return what is drawn of the coverage, and a note on what is not."""
    table = results.coverage[results.coverage["counted"] == ALL]
    known = ordered_quantities(table)
    quantities = known[:MOST_PANELS]
    present = set(table["estimator"])
    named = [each.name for each in results.spec.estimators if each.name in present]
    estimators = named[:MOST_LINES]
    cells = [name for name in results.record["cells"] if name in set(table["cell"])]
    note = note_of(len(quantities), len(known), "quantities", "the first of the table")
    note += note_of(len(estimators), len(named), "estimators", "the first of the study")
    note += note_of(len(cells[:MOST_CELLS]), len(cells), "cells", "the first of the grid")
    chosen = table["quantity"].isin(quantities) & table["estimator"].isin(estimators)
    return table[chosen & table["cell"].isin(cells[:MOST_CELLS])], quantities, estimators, note


def _cells(results: StudyResults, table: pd.DataFrame) -> list[str]:
    present = set(table["cell"])
    return [name for name in results.record["cells"] if name in present]


def _panels(
    quantities: list[str], estimators: list[str], cells: int, by_cell: bool = False
) -> tuple[Any, list[Any]]:
    rows = cells if cells > 1 else len(estimators)
    tall = by_cell or cells > 1
    height = 0.7 + 0.2 * rows * max(1, len(estimators) / 4) if tall else 2.4
    columns = 2 if tall else 3
    width = WIDTH if len(quantities) > 1 else WIDTH * 0.6
    figure, axes = grid(len(quantities), columns, height, sharey=True, width=width)
    for axis, title in zip(axes, plain_labels(quantities, 34), strict=True):
        axis.set_title(title)
    return figure, axes


def _shifts(count: int, room: float) -> np.ndarray[Any, Any]:
    """Return by how much each of several estimators is moved aside."""
    return (np.arange(count) - (count - 1) / 2) * min(room / max(count, 1), 0.16)


def _end_at_one(axis: Any) -> None:
    """Mark no coverage above 1; the axis is longer only so that marks at 1 are whole."""
    ticks = axis.get_majorticklocs()
    axis.set_ticks([tick for tick in ticks if -1e-9 <= tick <= 1 + 1e-9])


def _by_level(axis: Any, table: pd.DataFrame, estimators: list[str], cells: list[str]) -> None:
    levels = sorted(table["level"].unique())
    axis.hlines(levels, np.arange(len(levels)) - 0.42, np.arange(len(levels)) + 0.42,
                color=GREY, lw=1.2)  # fmt: skip
    for name, shift, look in zip(estimators, _shifts(len(estimators), 0.7), _LOOKS, strict=False):
        own = table[table["estimator"] == name].sort_values("level")
        x = np.searchsorted(levels, own["level"]) + shift
        axis.errorbar(x, own["coverage"], _reach(own), ls="none", ms=4.5, lw=1, **look)
    axis.set_xticks(range(len(levels)), [f"{level:.0%}".replace("%", " %") for level in levels])
    axis.set_xlabel("intervals")
    axis.set_ylabel("coverage")


def _by_cell(axis: Any, table: pd.DataFrame, estimators: list[str], cells: list[str]) -> None:
    axis.axvline(HEAD, color=GREY, lw=1.2)
    head = table[table["level"] == HEAD]
    for name, shift, look in zip(estimators, _shifts(len(estimators), 0.8), _LOOKS, strict=False):
        own = head[head["estimator"] == name]
        y = _places(own["cell"], cells) + shift
        axis.errorbar(own["coverage"], y, xerr=_reach(own), ls="none", ms=4.5, lw=1, **look)
    _rows(axis, cells)
    axis.set_xlabel("coverage of 95 % intervals")


def _reach(table: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Return how far error bars reach down and up, dims (2, row): to no share beyond 0 and 1."""
    held, error = table["coverage"].to_numpy(), _SE * table["mc_se"].fillna(0).to_numpy()
    return np.minimum(error, [held, 1 - held])


def _scores(axis: Any, table: pd.DataFrame, estimators: list[str], cells: list[str]) -> None:
    rows = cells if len(cells) > 1 else estimators
    shifts = _shifts(len(estimators), 0.8) if len(cells) > 1 else np.zeros(len(estimators))
    for name, shift, look in zip(estimators, shifts, _LOOKS, strict=False):
        own = table[table["estimator"] == name]
        y = _places(own["cell" if len(cells) > 1 else "estimator"], rows) + shift
        axis.hlines(y, own["width"], own["interval_score"], color=look["color"], lw=0.8, alpha=0.5)
        for figure, fill in (("width", "white"), ("interval_score", look["color"])):
            axis.errorbar(own[figure], y, xerr=_SE * own[f"{figure}_se"].fillna(0), ls="none",
                          ms=5, lw=1, mfc=fill, **look)  # fmt: skip
    _rows(axis, rows)
    axis.set_xlim(left=0)


def _places(names: "pd.Series[str]", rows: list[str]) -> np.ndarray[Any, Any]:
    return np.array([rows.index(name) for name in names], dtype=float)


def _rows(axis: Any, names: list[str]) -> None:
    axis.set_yticks(range(len(names)), plain_labels(names, 40))
    axis.set_ylim(len(names) - 0.4, -0.6)


def _legend(figure: Any, estimators: list[str], *others: Any) -> None:
    marks = [
        Line2D([], [], ls="none", ms=5, label=label, **look)
        for label, look in zip(plain_labels(estimators), _LOOKS, strict=False)
    ]
    figure.legend(handles=[*marks, *others], loc="outside upper left", ncols=5)


class _Words(NamedTuple):
    key: str
    title: str
    across: str
    up: str
    alt: str
    caption: str


_DIFFERENCES = _Words(
    "ecdf",
    "Ranks of the truth",
    "rank as a share of draws",
    "ECDF − uniform",
    "Difference of the distribution of ranks from uniform",
    "Distribution function of the truth's ranks less that of uniform ones. The envelope holds the"
    " whole line of a right posterior in 95 of 100 studies, quantity by quantity: of many, some"
    " leave it by chance. A rise in the left half (a hill) says that estimates are too high; a"
    " hill and then a valley that intervals are too narrow; a valley and then a hill that they"
    " are too wide.",
)
_LEVELS = _Words(
    "levels",
    "Coverage of intervals of every level",
    "level of the central interval, %",
    "coverage − level, as a share",
    "Coverage of central intervals of every level, less that level,",
    "Share of truths that central intervals hold, less the share that they should. A line below"
    " zero says that intervals are too narrow, one above that they are too wide; estimates that"
    " are too high or too low lower it too. Colour and envelope are those of the ranks above.",
)


def differences(results: StudyResults) -> Picture | None:
    """Draw how far ranks are from uniform, the worst quantities first; None without ranks."""
    return _picture(results, _DIFFERENCES, coverage=False)


def levels(results: StudyResults) -> Picture | None:
    """Draw the coverage of central intervals of every level, as ranks show it."""
    return _picture(results, _LEVELS, coverage=True)


def _picture(results: StudyResults, words: _Words, coverage: bool) -> Picture | None:
    shown = results.sbc.dropna(subset="p_value").head(MOST_PANELS)
    if shown.empty:
        return None
    rows = ranked(results.rows)
    groups: dict[Any, Any] = rows.groupby(UNIT, sort=False, observed=True).indices
    u, outside = rows["u"].to_numpy(), 0
    with style():
        figure, axes = grid(len(shown), 3, 2.3)
        for axis, row in zip(axes, shown.to_dict("records"), strict=True):
            values = u[groups[tuple(row[name] for name in UNIT)]]
            found = row["outcome"] != "passed"
            line = _panel(figure, axis, values, coverage, found)
            outside += _envelope(axis, line, np.abs(2 * values - 1) if coverage else values)
            axis.set_title("\n".join(plain_labels(_title(row, results), 34)))
        for axis in axes[-3:]:
            axis.set_xlabel(words.across)
        axes[0].set_ylabel(words.up)
        marks = [
            Line2D([], [], color=BLUE, label="no departure found"),
            Line2D([], [], color=ORANGE, lw=2.2, label="failed or caution"),
            Line2D([], [], color=PALE, lw=6, label="95 % envelope"),
        ]
        figure.legend(handles=marks, loc="outside upper left", ncols=3)
        alt = f"{words.alt} for {len(shown)} quantities: {outside} leave the envelope."
        note = note_of(len(shown), len(results.sbc), "quantities", "the worst")
        return finish(figure, words.key, words.title, alt, words.caption + note)


def _panel(figure: Any, axis: Any, values: FloatArray, coverage: bool, found: bool) -> Any:
    """Let ArviZ draw one panel, and return its line.

    It is given ranks as (rank + v) / (ranks + 1); whole ones it would divide by the largest
    that occurs. Each panel by itself, since quantities can have ranks of different replicates.
    """
    ranks = xr.Dataset({"u": (SAMPLE, values[None])})
    place = {"/": _object("figure", figure), "plot": _object("u", axis)}
    panel = PlotCollection(ranks, xr.DataTree.from_dict(place), backend="matplotlib")
    look = {"color": ORANGE, "width": 2.2} if found else {"color": BLUE}
    plot_ecdf_pit(
        xr.DataTree.from_dict({GROUP: ranks}),
        coverage=coverage,
        plot_collection=panel,
        visuals={**_OURS, "ecdf_lines": look},
    )
    axis.set_ylim(*(_ROOM * end for end in axis.get_ylim()))
    return panel.viz["ecdf_lines"]["u"].item()


def _object(name: str, value: Any) -> xr.Dataset:
    """Return one object as ArviZ keeps those that it draws on."""
    box = np.empty((), dtype=object)
    box[()] = value
    return xr.Dataset({name: ((), box)})


def _envelope(axis: Any, line: Any, values: FloatArray) -> bool:
    """Draw where the line of a right posterior lies; say whether this one leaves it.

    The line is shown at the places that the envelope is made for, as the test of the table does
    it: between them it would leave the envelope more often than that says. `plot_ecdf_pit` of
    version 1.3 draws no envelope: it has deprecated it, and stops at a TypeError.
    """
    n, z = len(values), points(len(values))
    low, high = get_pointwise_confidence_band(envelope_probability(n, _BAND), n, z)
    parts = (z, low, high, compute_ecdf(values, z))
    x, low, high, found = (np.concatenate(([0.0], part, [1.0])) for part in parts)
    axis.fill_between(x, low - x, high - x, color=PALE, lw=0, zorder=0)
    line.set(data=(x, found - x), drawstyle="default")
    # Counts are whole, so that what touches the envelope is inside.
    return bool(((found < low - 1e-9) | (found > high + 1e-9)).any())


def _title(row: dict[Any, Any], results: StudyResults) -> list[str]:
    """Return the quantity, and what distinguishes it from others of its name."""
    parts = [str(row["where"]), str(row["cell"])]
    if len(results.spec.estimators) > 1:
        parts.append(str(row["estimator"]))
    below = ", ".join(part for part in parts if part)
    return [str(row["quantity"]), below] if below else [str(row["quantity"])]
