"""Pictures of a scan's cosines: their distribution, by stratum, of best matches, and words."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from bayescontam.report.matches import (
    FOUND,
    lexical_columns,
    lexical_name,
    ngram_column,
    place,
    thresholds,
)
from bayescontam.report.plots import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PINK,
    WIDTH,
    Picture,
    finish,
    first_of,
    legend,
    mark,
    new_figure,
    note_of,
    numbers,
    panels,
    plain_labels,
    plural,
    style,
)
from bayescontam.scan.results import over_all

if TYPE_CHECKING:
    from bayescontam.scan.results import Scan

MOST_PANELS, MOST_CURVES = 9, 8
"""Benchmarks in one picture, and strata with a curve of their own."""
_BIN = 0.01
"""Width of the bins that are drawn, in units of cosine."""
_ON_A_LINE = 400
"""Points of a sorted line; more cannot be distinguished."""
_OF_STRATA: list[dict[str, Any]] = [
    {"color": color, "ls": ls} for ls in ("-", "--") for color in (BLUE, ORANGE, GREEN, PINK)
]
_OF_THE_REST: dict[str, Any] = {"color": GREY, "ls": ":", "lw": 2.0}
MOST_POINTS = 20_000
_BEST: dict[str, Any] = {
    "marker": "o", "ls": "none", "color": BLUE, "ms": 4, "alpha": 0.5, "mew": 0,
}  # fmt: skip
_MISSED: dict[str, Any] = {"marker": "x", "ls": "none", "color": ORANGE, "ms": 5.5, "mew": 1.4}


@style()
def distribution(scan: "Scan", best: pd.DataFrame) -> Picture | None:
    """Draw the distribution of all cosines and of the top ones; None where there are none."""
    names, note = _benchmarks(scan.histogram, best)
    if not names:
        return None
    limits = thresholds(scan)
    unit, units = ("item", "items")
    if scan.by_source:
        unit, units = "item and source", "items and sources"
    figure, axes = _panels(names, 2.5, "number (log scale)", "cosine")
    for axis, name in zip(axes, names, strict=True):
        rows = scan.histogram[scan.histogram["benchmark"] == name]
        top = best.loc[best["benchmark"] == name, "cosine"].dropna()
        _steps(axis, rows["cosine"], rows["count"], BLUE, 0.35)
        _steps(axis, top, pd.Series(1, top.index), ORANGE, 0.6)
        _mark_tail(axis, limits.loc[limits["benchmark"] == name, "threshold"])
        _log(axis, "{:,.0f}")
        axis.set_ylim(bottom=0.7)
    marks = [
        Patch(color=BLUE, alpha=0.35, label="all pairs of item and chunk"),
        Patch(color=ORANGE, alpha=0.6, label="best match of each item"),
        mark(f"where the tail starts (median {unit})", color=INK, ls="--"),
    ]
    legend(figure, marks)
    alt = (
        f"Histogram of {scan.histogram['count'].sum():,} cosines,"
        f" {numbers(scan.histogram['cosine'])}, for {plural(len(names), 'benchmark')}; tails start"
        f" at {numbers(limits['threshold'])}; best matches of items at {numbers(best['cosine'])}."
    )
    caption = (
        f"Counts in bins of {_BIN:g}. Right of the dashed line lies the tail, from which"
        f" matches are drawn at random; the grey band spans its starts over all {units}. Best"
        f" matches that stand apart from the slope of all pairs are worth a look first."
        f"{_estimated(scan)}{note}"
    )
    return finish(figure, "cosines", "Distribution of cosines", alt, caption)


@style()
def by_stratum(scan: "Scan") -> Picture | None:
    """Draw how rare high cosines are in each stratum; None for fewer than two strata."""
    table = scan.strata
    labels, curves, count = _curves(table)
    if count < 2:
        return None
    names, note = _benchmarks(table, table)
    looks = [*_OF_STRATA[: len(labels)], _OF_THE_REST][: len(labels)]
    figure, axes = _panels(names, 2.7, "P(cosine ≥ x), log scale", "cosine x")
    for axis, name in zip(axes, names, strict=True):
        here = (table["benchmark"] == name).to_numpy()
        for i, look in enumerate(looks):
            rows = table[here & (curves == i)]
            axis.plot(*survival(rows["cosine"], rows["count"]), **look)
        _log(axis, "{:g}")
        axis.grid()
    axes[0].set_xlim(left=_median(table))
    axes[0].set_ylim(top=1)
    marks = [mark(label, **look) for label, look in zip(labels, looks, strict=True)]
    legend(figure, marks, min(len(names) + 1, 3))
    alt = (
        f"Share of pairs with a cosine of at least x, for {plural(len(names), 'benchmark')} and"
        f" {count} strata, for x from {numbers(table['cosine'])}."
    )
    caption = (
        "The share of a stratum's pairs of item and chunk whose cosine is at least x. A curve"
        " that reaches further right holds more close matches than its size explains. It is"
        " drawn from the median of all pairs on."
        f"{' Strata with most pairs have a curve.' if count > MOST_CURVES else ''}"
        f"{_estimated(scan)}{note}"
    )
    return finish(figure, "strata", "Cosines by stratum", alt, caption)


def _estimated(scan: "Scan") -> str:
    """Return a sentence on counts that come from the sample of an index."""
    weight = (scan.record.get("search") or {}).get("index", {}).get("weight", 1)
    if weight < 2:
        return ""
    return f" Of what the index did not find, counts are estimated from one in {weight:,} chunks."


def _curves(table: pd.DataFrame) -> tuple[list[str], NDArray[np.int64], int]:
    """Return labels of curves, the curve of each row, and the number of strata."""
    keys = ["source", "stratum"]
    sizes = table.groupby(keys, observed=True)["count"].sum().reset_index()
    sizes = sizes.sort_values("count", ascending=False, kind="stable", ignore_index=True)
    sizes["curve"] = np.minimum(sizes.index, MOST_CURVES)
    largest = sizes[:MOST_CURVES]
    pairs = zip(largest["source"], largest["stratum"], strict=True)
    labels = plain_labels([place(*pair) for pair in pairs], 34)
    rest = len(sizes) - len(largest)
    labels += [f"{rest:,} other strata" if rest > 1 else "1 other stratum"] if rest else []
    curves = table[keys].merge(sizes, on=keys, how="left")["curve"].to_numpy(dtype=np.int64)
    return labels, curves, len(sizes)


def survival(
    cosines: "pd.Series[float]", counts: "pd.Series[int]"
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the share of pairs with a cosine of at least x, for x in steps of 0.01.

    >>> x, share = survival(pd.Series([0.1, 0.105, 0.12]), pd.Series([5, 3, 2]))
    >>> x.round(2).tolist(), share.tolist()
    ([0.1, 0.11, 0.12], [1.0, 0.2, 0.2])
    """
    edges, sums = _binned(cosines, counts)
    above = np.cumsum(sums[::-1])[::-1]
    return edges, above / max(sums.sum(), 1)


@style()
def sorted_tops(scan: "Scan", best: pd.DataFrame) -> Picture | None:
    """Draw the cosines of items' best, tenth and last matches, each sorted; None if none."""
    ranked = over_all(scan)
    names, note = _benchmarks(ranked, best)
    if not names:
        return None
    last = int(ranked["rank"].max())
    looks: dict[int, dict[str, Any]] = {last: {"color": GREY, "ls": ":", "lw": 1.8}}
    looks |= {10: {"color": INK, "ls": "--"}} if last >= 10 else {}
    looks[1] = {"color": BLUE, "lw": 1.8}
    figure, axes = _panels(names, 2.5, "cosine", "share of items, %")
    for axis, name in zip(axes, names, strict=True):
        rows = ranked[ranked["benchmark"] == name]
        items = int((best["benchmark"] == name).sum())
        for rank, look in looks.items():
            axis.plot(*_sorted(rows.loc[rows["rank"] == rank, "cosine"], items), **look)
        axis.set_xlim(0, 100)
        axis.grid()
    labels = {rank: f"match of rank {rank}" for rank in sorted(looks)} | {1: "best match"}
    legend(figure, [mark(label, **looks[rank]) for rank, label in labels.items()])
    medians = best.groupby("benchmark", observed=True)["cosine"].median()
    alt = (
        f"Cosines of the best matches of {len(best):,} items of {plural(len(names), 'benchmark')},"
        f" sorted: {numbers(best['cosine'])}; medians {numbers(medians)}."
    )
    caption = (
        "How many items have a match with at least that cosine. Each line is sorted by itself."
        " Where the best match lies far above the others, few chunks are like the item; where"
        f" all lie high, its topic is common.{' Ranks are over all sources.' * scan.by_source}"
        f"{note}"
    )
    return finish(figure, "tops", "Top cosine of each item, sorted", alt, caption)


def _sorted(
    cosines: "pd.Series[float]", items: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return percentages of items and the cosines that so many reach, few enough to draw."""
    values = np.sort(cosines.to_numpy(dtype=float))[::-1]
    at = np.unique(np.linspace(0, max(len(values) - 1, 0), _ON_A_LINE).astype(int))[: len(values)]
    return 100 * (at + 1) / items, values[at]


def _steps(
    axis: Any, cosines: "pd.Series[float]", counts: "pd.Series[int]", color: str, alpha: float
) -> None:
    edges, sums = _binned(cosines, counts)
    if len(edges):
        edges = np.append(edges, edges[-1] + _BIN)
        axis.stairs(sums, edges, baseline=0.1, fill=True, color=color, alpha=alpha, lw=0)
        axis.stairs(sums, edges, baseline=0.1, color=color, lw=1.0)


def _binned(
    cosines: "pd.Series[float]", counts: "pd.Series[int]"
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower edges of all bins from the first that is filled, and the counts in them."""
    # Lower edges of narrow bins may be off by a rounding.
    bins = np.floor(cosines.to_numpy(dtype=float) / _BIN + 1e-4).astype(np.int64)
    first = bins.min() if len(bins) else 0
    sums = np.bincount(bins - first, weights=counts.to_numpy(dtype=float))
    return np.arange(first, first + len(sums), dtype=np.float64) * _BIN, sums.astype(np.float64)


def _mark_tail(axis: Any, limits: "pd.Series[float]") -> None:
    if len(limits):
        axis.axvspan(limits.min(), limits.max(), color=GREY, alpha=0.2, lw=0)
        axis.axvline(limits.median(), color=INK, ls="--", lw=1.0)


def _log(axis: Any, form: str) -> None:
    """Make the y axis logarithmic, with plain numbers: powers would need formulas, see style."""
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(numticks=6))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: form.format(value)))
    axis.yaxis.set_minor_locator(NullLocator())


def _median(table: pd.DataFrame) -> float:
    """Return the bin in which the median of all pairs lies."""
    edges, sums = _binned(table["cosine"], table["count"])
    return float(edges[np.searchsorted(np.cumsum(sums), sums.sum() / 2)])


def _panels(names: list[str], height: float, ylabel: str, xlabel: str) -> tuple[Any, list[Any]]:
    return panels(
        plain_labels(names), 3, height, xlabel=xlabel, ylabel=ylabel, alone=0.75, sharey=True,
        sharex=True,
    )  # fmt: skip


def _benchmarks(table: pd.DataFrame, ordered: pd.DataFrame) -> tuple[list[str], str]:
    """Return the benchmarks to draw, and a note on the rest."""
    present = set(table["benchmark"])
    names = (name for name in ordered["benchmark"] if name in present)
    return first_of(names, MOST_PANELS, "benchmarks")


@style()
def against_words(best: pd.DataFrame) -> Picture | None:
    """Draw lexical baselines of best matches against their cosines; None where not computed."""
    known = best.dropna(subset="cosine")
    ngram = ngram_column(known)
    drawn = known[lexical_columns(known)].dropna(axis="columns", how="all").columns
    columns = [name for name in ("rouge_l", ngram, "jaccard") if name in drawn][:2]
    if not columns:
        return None
    shown = known.nlargest(MOST_POINTS, "cosine")
    figure = new_figure(WIDTH if len(columns) > 1 else WIDTH * 0.6, 3.5)
    axes = figure.subplots(1, len(columns), squeeze=False, sharex=True)[0]
    for axis, column in zip(axes, columns, strict=True):
        _points(axis, shown, str(column))
    marks = [mark("best match of an item", **_BEST)]
    alt = f"Scatter plot of {len(shown):,} best matches: cosine {numbers(shown['cosine'])}"
    alt += "".join(f", {lexical_name(str(c))} {numbers(shown[c])}" for c in columns)
    caption = "The best match of each item: likeness of meaning against shared words."
    if ngram:
        one = lexical_name(ngram)[:-1]
        marks.append(mark(f"found by cosine, no {one} shared with any match", **_MISSED))
        caption += _missed(known, ngram)
        alt += f"; {int(known['missed'].sum())} items are found by cosine and missed by n-grams"
    legend(figure, marks, 2)
    caption += note_of(len(shown), len(known), "items", "highest cosines")
    title = "Shared words against cosine"
    return finish(figure, "lexical", title, f"{alt}.", caption, raster=True)


def _points(axis: Any, shown: pd.DataFrame, column: str) -> None:
    for missed, look in ((False, _BEST), (True, _MISSED)):
        rows = shown[shown["missed"] == missed].dropna(subset=column)
        axis.plot(rows["cosine"], rows[column].astype(float), **look)
    axis.axvline(FOUND, color=INK, ls="--", lw=0.8)
    axis.set_ylim(-0.04, 1.04)
    axis.set_xlabel("cosine of the best match")
    named = {"rouge_l": "ROUGE-L F-measure", "jaccard": "Jaccard similarity of words"}
    axis.set_ylabel(named.get(column) or f"share of the item's {lexical_name(column)}")


def _missed(known: pd.DataFrame, ngram: str) -> str:
    """Say how many items cosine finds and n-grams miss, and where n-grams cannot be."""
    name = lexical_name(ngram)
    found, short = int((known["cosine"] >= FOUND).sum()), int(known[ngram].isna().sum())
    text = (
        f" Crosses: {int(known['missed'].sum()):,} of the {found:,} items with a cosine of at least"
        f" {FOUND:g} (dashed line) share no {name[:-1]} with any match that is stored, so that a"
        " search for shared n-grams would miss these matches."
    )
    return f"{text} Items with too few words for {name}: {short:,}." if short else text
