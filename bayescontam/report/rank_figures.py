"""Figures of ranks: how far from uniform they are, and what intervals of every level hold."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from arviz_plots import plot_ecdf_pit
from arviz_plots.plot_collection import PlotCollection
from arviz_stats.ecdf_utils import compute_ecdf, get_pointwise_confidence_band
from matplotlib.lines import Line2D

from bayescontam._types import FloatArray
from bayescontam.calibration.ranks import GROUP, SAMPLE
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.sbc import UNIT, ranked
from bayescontam.calibration.uniformity import envelope_probability, points
from bayescontam.report.figures import note_of
from bayescontam.report.picture import (
    BLUE,
    ORANGE,
    PALE,
    Picture,
    finish,
    grid,
    plain_labels,
    style,
)
from bayescontam.report.study_figures import MOST_PANELS

_BAND, _ROOM = 0.95, 1.08
_OURS: dict[Any, Any] = {
    "p_value_text": False,
    "suspicious_points": False,
    "title": False,
    "xlabel": False,
}
"""What ArviZ does not draw: its own test, beside the one that the table reports, and labels."""


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
