"""Overview: pictures that show every pair of model and benchmark of a large fit."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D

from bayescontam.inference.verdicts import Overfitting
from bayescontam.report.figures import STYLES, ability_of, note_of
from bayescontam.report.picture import (
    BLUE,
    GREY,
    INK,
    NARROW,
    ORANGE,
    PALE,
    WIDTH,
    Picture,
    finish,
    new_figure,
    numbers,
    plain_labels,
    style,
)
from bayescontam.report.words import in_file

MOST_ROWS, MOST_COLUMNS = 150, 60
"""Models and benchmarks in one map."""
_EFFECTS = (Overfitting.SHOWN, Overfitting.OPPOSITE)
_SILENT = (
    Overfitting.INCONCLUSIVE,
    Overfitting.BORROWED,
    Overfitting.NO_VARIATION,
)
_COLOURS = LinearSegmentedColormap.from_list("effect", [BLUE, "#ffffff", ORANGE])


def scatter(headline: pd.DataFrame) -> Picture:
    """Draw raw accuracy against ability, a mark for each pair."""
    ability, words = ability_of(headline)
    kinds = headline.get("overfitting_verdict", pd.Series("ability", headline.index))
    with style():
        figure = _scatter(headline, kinds, ability, words, (WIDTH * 0.75, 5.6), columns=3)
        narrow = _scatter(headline, kinds, ability, words, (NARROW, 4.4), columns=1)
        above = headline["raw_accuracy"] - headline[ability]
        alt = (
            f"Scatter plot of {_pairs(headline)}: {words} {numbers(headline[ability])}, raw"
            f" accuracy {numbers(headline['raw_accuracy'])}; raw accuracy less {words} is"
            f" {numbers(above)}."
        )
        caption = (
            f"A mark for each of {_pairs(headline)}: raw accuracy against the posterior mean of"
            f" {words}. On the line they are equal. Single scores also lie off the line because"
            f" {words} is drawn towards the rest of the table."
        )
        title = f"Every pair: raw accuracy and {words}"
        return finish(figure, "scatter", title, alt, caption, True, narrow)


def _scatter(
    headline: pd.DataFrame,
    kinds: "pd.Series[str]",
    ability: str,
    words: str,
    size: tuple[float, float],
    columns: int,
) -> Any:
    figure = new_figure(*size)
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color=INK, lw=0.8)
    for kind in dict.fromkeys(kinds):
        rows = headline[kinds == kind]
        label = words if kind == "ability" else f"overfitting: {kind}"
        look = STYLES[kind] | {"ls": "none", "ms": 3.2, "mew": 0.7, "alpha": 0.6}
        axis.plot(rows[ability], rows["raw_accuracy"], **look, label=label)
    ends = headline[[ability, "raw_accuracy"]].to_numpy()
    low, high = np.nanmin(ends) - 0.02, np.nanmax(ends) + 0.02
    axis.set(xlim=(low, high), ylim=(low, high), xlabel=words, ylabel="raw accuracy")
    axis.set_aspect("equal")
    figure.legend(loc="outside upper left", ncols=columns, markerscale=1.7)
    return figure


def effect_map(table: pd.DataFrame, value: str, verdict: str, file: str) -> Picture | None:
    """Draw an effect of every model on every benchmark as colours."""
    models, benchmarks, note = _axes(table, value)
    if min(len(models), len(benchmarks)) < 2:
        return None
    index = {"index": "model", "columns": "benchmark"}
    cells = table.pivot(values=value, **index).reindex(models)[benchmarks]
    kinds = table.pivot(values=verdict, **index).reindex(models)[benchmarks]
    words = value.replace("_", " ")
    with style():
        figure = new_figure(WIDTH, 1.9 + 0.125 * len(models))
        axis = figure.subplots()
        _cells(figure, axis, cells, words)
        marks = _marks(axis, kinds, words)
        figure.legend(handles=marks, loc="outside upper left", ncols=len(marks))
        caption = (
            f"Posterior mean of {words} of each model on each benchmark; models and benchmarks by"
            f" their mean, the largest first. A dot: {words} is shown. A cross:"
            " inconclusive, borrowed from other pairs, or contamination does not vary; then the"
            f" colour is no finding.{note}{f' All: {in_file(file)}.' if note else ''}"
        )
        return finish(
            figure, f"{value}-map", f"Every pair: {words}", _map_alt(cells, kinds, words), caption,
            raster=True,
        )  # fmt: skip


def _axes(table: pd.DataFrame, value: str) -> tuple[list[str], list[str], str]:
    """Return models and benchmarks that are drawn, in order, and a note on the others."""
    note, drawn = "", []
    for dim, most in (("model", MOST_ROWS), ("benchmark", MOST_COLUMNS)):
        size = table[value].abs().groupby(table[dim], sort=False).max()
        largest = set(size.sort_values(ascending=False, kind="stable").index[:most])
        means = table.groupby(dim, sort=False)[value].mean().sort_values(ascending=False)
        drawn.append([str(name) for name in means.index if name in largest])
        note += note_of(len(drawn[-1]), len(means), f"{dim}s", f"largest {value}")
    return drawn[0], drawn[1], note


def _cells(figure: Any, axis: Any, cells: pd.DataFrame, words: str) -> None:
    most = float(np.nanmax(np.abs(cells.to_numpy(float)))) or 1.0
    axis.set_facecolor(PALE)  # pairs without answers
    mesh = axis.pcolormesh(
        np.ma.masked_invalid(cells.to_numpy(float)), cmap=_COLOURS, vmin=-most, vmax=most,
        edgecolor="white", lw=0.3,
    )  # fmt: skip
    axis.invert_yaxis()
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelsize=6.2)
    at = np.arange(cells.shape[1]) + 0.5
    axis.set_xticks(at, plain_labels(cells.columns, 22), rotation=90)
    axis.set_yticks(np.arange(cells.shape[0]) + 0.5, plain_labels(cells.index))
    bar = figure.colorbar(mesh, ax=axis, location="bottom", shrink=0.5, aspect=45, pad=0.01)
    bar.set_label(words, fontsize=8.5)


def _marks(axis: Any, kinds: pd.DataFrame, words: str) -> list[Line2D]:
    """Mark what is a finding and what cannot be one; return the legend."""
    looks: tuple[tuple[Any, dict[str, Any], str], ...] = (
        (_EFFECTS, {"marker": "o", "color": INK, "ms": 1.7}, f"{words} shown"),
        (
            _SILENT,
            {"marker": "x", "color": GREY, "ms": 2.6, "mew": 0.6},
            "inconclusive, borrowed or no variation",
        ),
    )
    handles = []
    for wanted, look, label in looks:
        y, x = np.nonzero(kinds.isin([str(kind) for kind in wanted]).to_numpy())
        axis.plot(x + 0.5, y + 0.5, ls="none", **look)
        handles.append(Line2D([], [], ls="none", **look | {"ms": 4}, label=label))
    return handles


def _map_alt(cells: pd.DataFrame, kinds: pd.DataFrame, words: str) -> str:
    values = cells.to_numpy(float)
    y, x = divmod(int(np.nanargmax(np.abs(values))), values.shape[1])
    counts = Counter(kind for kind in kinds.to_numpy().ravel() if isinstance(kind, str))
    said = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    name, where = plain_labels([cells.index[y]])[0], plain_labels([cells.columns[x]])[0]
    return (
        f"Map of {words} of {len(cells)} models on {cells.shape[1]} benchmarks, {numbers(values)};"
        f" {said}. Largest: {name} on {where}, {values[y, x]:.2f}. Largest mean over benchmarks:"
        f" {plain_labels(cells.index[:1])[0]}."
    )


def _pairs(table: pd.DataFrame) -> str:
    return f"{len(table):,} pairs of model and benchmark"
