"""Figures of a study: coverage against its level, widths and scores."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from bayescontam.calibration.coverage import ALL
from bayescontam.calibration.results import StudyResults
from bayescontam.report.figures import note_of
from bayescontam.report.picture import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
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
