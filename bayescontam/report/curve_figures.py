"""Figures of a curve: P(duplicate | cosine) over the judgements, and what it predicts."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import beta

from bayescontam.report.curve_tables import half_text, judged_pairs
from bayescontam.report.figures import RAW, note_of
from bayescontam.report.picture import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PALE,
    WIDTH,
    Picture,
    finish,
    grid,
    numbers,
    plain_labels,
    style,
)
from bayescontam.report.words import level_text

if TYPE_CHECKING:
    from bayescontam.evidence.duplicates import Curve

MOST_PANELS = 9
BIN = 0.05
"""Width of the bins of cosine in which judged pairs are counted."""
_MOST_RUGS = 3000
_TAILS = [0.005, 0.025, 0.975, 0.995]
_BEST: dict[str, Any] = {"fmt": "o", "color": INK, "ms": 4.5, "lw": 0.9}
_OTHER: dict[str, Any] = {"fmt": "s", "color": GREY, "mfc": "white", "ms": 4, "lw": 0.9}


def duplicates(curve: "Curve", halves: pd.DataFrame) -> Picture:
    """Draw P(duplicate | cosine) with its band over the shares that were called duplicates."""
    names, note = _benchmarks(curve)
    pairs = judged_pairs(curve)
    places = {row["benchmark"]: row for row in halves.to_dict("records")}
    lowest = min(float(pairs["cosine"].min()), 0.35) if len(pairs) else 0.0
    with style():
        figure, axes = _panels(names)
        for axis, name in zip(axes, names, strict=True):
            _band(axis, curve, name)
            _half(axis, places[name])
            own = pairs[pairs["benchmark"] == name]
            for first, look, moved in ((False, _OTHER, 0.004), (True, _BEST, -0.004)):
                _shares(axis, own[own["first"] == first], look, moved, curve.level)
            _rug(axis, own)
            axis.set_xlim(max(lowest - 0.05, -1.0), 1.0)
            axis.set_ylim(-0.06, 1.06)
            axis.set_ylabel("P(duplicate)")
        _legend(figure, bool(len(pairs)), level_text(curve.level))
        middles = "; ".join(
            f"{plain_labels([name])[0]}: {half_text(places[name])}" for name in names
        )
        alt = (
            f"P(duplicate | cosine) of {len(names)} benchmark{'s' * (len(names) > 1)}, from 0 to"
            f" 1; it is 0.5 at a cosine of {middles}. {len(pairs):,} judged pairs, of which"
            f" {int(pairs['called'].sum()):,} were called duplicates."
        )
        return finish(figure, "duplicates", "P(duplicate | cosine)", alt, _caption(curve, note))


def _caption(curve: "Curve", note: str) -> str:
    band = (
        "Line and band: probability that the best match of a random item is a duplicate, with its"
        f" {level_text(curve.level)} band; diamond: where it is 0.5."
    )
    if not len(curve.judged):
        return f"{band} Nothing was judged: this is the prior.{note}"
    return (
        f"{band} Circles: best matches of items that were judged, in bins of cosine of width"
        f" {BIN:g}: share called duplicates by most judges, with binomial intervals. Squares:"
        " the other judged matches, which need not lie on the line: their items have a better"
        " match, or lack one. Judges err, so that shares of clean pairs are not quite zero."
        f" Ticks: single pairs, called duplicates (top) or not (bottom).{note}"
    )


def _band(axis: Any, curve: "Curve", name: str) -> None:
    number = curve.benchmarks.index(name)
    cells = curve.tree["curves"].to_dataset().isel(benchmark=number)
    x = cells["cosine"].to_numpy()
    axis.fill_between(x, cells["low"], cells["high"], color=BLUE, alpha=0.18, lw=0)
    axis.plot(x, cells["mean"], color=BLUE, lw=1.8)


def _half(axis: Any, row: dict[Any, Any]) -> None:
    """Mark where P = 0.5, with its interval; nothing where it is nowhere."""
    if not np.isfinite(row["median"]):
        return
    axis.hlines(0.5, max(row["low"], -1.0), min(row["high"], 1.0), color=ORANGE, lw=1.6)
    axis.plot(row["median"], 0.5, **RAW)


def _shares(
    axis: Any, pairs: pd.DataFrame, look: dict[str, Any], moved: float, level: float
) -> None:
    """Draw shares called duplicates in bins of cosine, with Jeffreys' intervals."""
    if pairs.empty:
        return
    cells = pairs.groupby(np.floor(pairs["cosine"] / BIN))
    x, k, n = cells["cosine"].mean(), cells["called"].sum(), cells.size()
    low, high = (beta.ppf(q, k + 0.5, n - k + 0.5) for q in ((1 - level) / 2, (1 + level) / 2))
    share = (k / n).to_numpy()
    bars = np.maximum([share - np.where(k == 0, 0, low), np.where(k == n, 1, high) - share], 0)
    axis.errorbar(x + moved, share, bars, **look)


def _rug(axis: Any, pairs: pd.DataFrame) -> None:
    step = max(1, len(pairs) // _MOST_RUGS)
    for called, low, high in ((True, 1.025, 1.06), (False, -0.06, -0.025)):
        x = pairs.loc[pairs["called"] == called, "cosine"].sort_values()[::step]
        axis.vlines(x, low, high, color=INK, lw=0.4, alpha=0.6)


def _legend(figure: Any, judged: bool, level: str) -> None:
    marks: list[Any] = [
        Line2D([], [], color=BLUE, lw=1.8, label="mean"),
        Patch(color=BLUE, alpha=0.18, label=f"{level} band"),
        Line2D([], [], label="P = 0.5", **RAW),
    ]
    if judged:
        marks += [
            Line2D([], [], ls="none", marker="o", color=INK, ms=4.5, label="best matches, judged"),
            Line2D([], [], ls="none", marker="s", color=GREY, mfc="white", ms=4,
                   label="other matches, judged"),
        ]  # fmt: skip
    figure.legend(handles=marks, loc="outside upper left", ncols=5)


def shares(curve: "Curve") -> Picture | None:
    """Draw observed against replicated shares called duplicates; None if nothing was judged."""
    if "predictive" not in curve.tree:
        return None
    cells = curve.tree["predictive"].to_dataset()
    names, note = _benchmarks(curve)
    observed, outside = cells["share"].to_numpy(), 0
    tails = np.quantile(cells["share_replicated"].to_numpy(), _TAILS, axis=0)
    with style():
        figure, axes = _panels(names)
        for axis, name in zip(axes, names, strict=True):
            own = cells["benchmark_of_cell"].to_numpy() == curve.benchmarks.index(name)
            x, (low99, low, high, high99) = cells["cosine"].to_numpy()[own], tails[:, own]
            axis.vlines(x, low99, high99, color=PALE, lw=6)
            axis.vlines(x, low, high, color="#a6a6a6", lw=6)
            axis.plot(x, observed[own], **RAW)
            axis.set_ylabel("share called duplicates")
            axis.margins(x=0.08)
        marks = [
            Line2D([], [], label="observed share", **RAW),
            Line2D([], [], color="#a6a6a6", lw=6, label="95 % of replicated judgements"),
            Line2D([], [], color=PALE, lw=6, label="99 %"),
        ]
        figure.legend(handles=marks, loc="outside upper left", ncols=3)
        outside = int(((observed < tails[1]) | (observed > tails[2])).sum())
        alt = (
            f"Observed and replicated shares of judgements that call a pair a duplicate"
            f" ({numbers(observed)}): {outside} of {len(observed)} observed ones are outside the"
            " 95 % interval of replicated judgements."
        )
        caption = (
            "All judgements, in bins of about equally many, at their mean cosine. Judgements of"
            " the same pairs by the same judges are replicated from the fit, errors included."
            " Shares that leave the bars in a pattern speak against the form of the curve."
            f"{note}"
        )
        return finish(figure, "shares", "Predicted judgements", alt, caption)


def _panels(names: list[str]) -> tuple[Any, list[Any]]:
    width = WIDTH if len(names) > 1 else WIDTH * 0.75
    figure, axes = grid(len(names), max(2, min(3, len(names))), 2.9, width=width)
    for axis, title in zip(axes, plain_labels(names), strict=True):
        axis.set_title(title)
        axis.set_xlabel("cosine")
    return figure, axes


def _benchmarks(curve: "Curve") -> tuple[list[str], str]:
    drawn = list(curve.benchmarks[:MOST_PANELS])
    return drawn, note_of(len(drawn), len(curve.benchmarks), "benchmarks", "the first")
