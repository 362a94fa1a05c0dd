"""The page of what a model spec's prior implies."""

import os
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._files import atomic_path, write_text
from bayescontam._text import printable
from bayescontam.errors import UsageError
from bayescontam.inference.prior_predictive import QUANTILES, Implied, Quantity
from bayescontam.model.describe import mathematics, prior_meanings
from bayescontam.report.format import number, probability
from bayescontam.report.html import fill
from bayescontam.report.plots import BLUE, GREY, INK, ORANGE, Picture, drawable, finish, grid, style

ENDINGS = (".png", ".svg", ".html", ".csv")
"""Files that a prior can be written to."""
BINS = 50
LONG = 1e6
"""Numbers from here on are written with an exponent."""
_RANGES = {
    "accuracy": (0.0, 1.0),
    "genuine_ability": (0.0, 1.0),
    "unit_accuracy": (0.0, 1.0),
    "item_accuracy": (0.0, 1.0),
    "overfitting": (-1.0, 1.0),
    "overfitting_fraction": (-2.0, 1.0),
    "novelty_gap": (-1.0, 1.0),
    "model_difference": (-1.0, 1.0),
    "benchmark_difference": (-1.0, 1.0),
    "item_spread": (0.0, 0.5),
}
"""What the panel of each quantity shows; the slope's follows its quantiles."""


def check_ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of a file that a prior can be written to."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(
            f"{printable(os.fspath(path))}: got the ending '{printable(ending, 20)}'; allowed are"
            " .png and .svg (picture), .html (page) and .csv (table)"
        )
    return ending


def write_prior(known: Implied, path: str | os.PathLike[str]) -> None:
    """Write what a prior implies, in the form that the file's ending requests."""
    ending = check_ending(path)
    if ending == ".csv":
        write_text(path, known.table().to_csv(index=False))
    elif ending == ".html":
        write_text(path, render_prior(known))
    else:
        image = prior_picture(known, raster=ending == ".png").image
        with atomic_path(path) as temporary:
            temporary.write_bytes(image)


def render_prior(known: Implied) -> str:
    """Return what a prior implies as an HTML page."""
    spec = known.spec
    provenance = {
        "Model spec": f"{printable(spec.name)} (SHA-256 {spec.hash})",
        "Table": known.data,
        "Draws": f"{known.draws:,}",
        "Seed": str(known.seed),
    }
    content = {
        "spec_name": printable(spec.name),
        "spec_text": spec.text,
        "summary": printable(spec.summary, 400),
        "rows": shown(known).to_dict("records"),
        "quantiles": list(QUANTILES),
        "notes": known.notes(),
        "picture": prior_picture(known),
        "priors": prior_meanings(spec),
        "mathematics": "\n".join(mathematics(spec)),
        "provenance": list(provenance.items()),
    }
    return fill("prior.html", content)


def shown(known: Implied) -> pd.DataFrame:
    """Return the table for people: names in words, bounds beside their probabilities."""
    table = known.table()
    quantiles = table[list(QUANTILES)]
    if (quantiles.abs() >= LONG).any(axis=None):
        table[list(QUANTILES)] = quantiles.map(_figure)
    texts = {
        "quantity": [label(name, known) for name in table["quantity"]],
        "below": _extremes(table, "below", "<"),
        "above": _extremes(table, "above", ">"),
    }
    return table.assign(**texts)[["quantity", *QUANTILES, "below", "above", "meaning"]]


def _figure(value: float) -> str:
    return f"{value:.1e}" if abs(value) >= LONG else number(value)


def label(name: str, known: Implied) -> str:
    """Return a quantity's name in words."""
    if name == "unit_accuracy":
        return f"accuracy by {printable(known.spec.ability.by, 20)}"
    return name.replace("_", " ")


def _extremes(table: pd.DataFrame, side: str, sign: str) -> list[str]:
    pairs = zip(table[side], table[f"p_{side}"], strict=True)
    texts = (f"{number(p)} ({sign} {bound:g})".replace("-", "−") for bound, p in pairs)
    return ["" if text.startswith("–") else text for text in texts]


def prior_picture(known: Implied, raster: bool = False) -> Picture:
    """Draw the distribution of every quantity, extremes marked."""
    drawn = [
        each
        for each in known.quantities
        if known.is_told(each.name) and not each.name.endswith("_size")
    ]
    if not drawn:
        raise UsageError(
            f"model spec '{printable(known.spec.name)}': its prior is so wide that all draws are "
            "too"
            " large for a computer's numbers, and nothing can be drawn; choose narrower priors"
        )
    table = known.table().set_index("quantity")
    with style():
        figure, axes = grid(len(drawn), 3, 1.75)
        for axis, each in zip(axes, drawn, strict=True):
            _panel(axis, each, known, table.loc[each.name])
        caption = (
            "What the prior says before any data. Bars: share of draws; orange: extremes, with"
            " their probabilities. Dot, thick and thin line: median, half and 95 % of the prior."
            " Differences are between accuracies, without the chance of finite samples."
        )
        title = f"Prior of {drawable(printable(known.spec.name, 60))}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        figure.supxlabel(_layout_text(known), x=0.01, ha="left", fontsize=8, color=GREY)
        return finish(figure, "prior", title, _alt(drawn, table, known), caption, raster)


def _panel(axis: Any, each: Quantity, known: Implied, row: Any) -> None:
    """Draw a histogram over a line that holds 95 % of the prior."""
    values = known.values[each.name]
    low, high = _RANGES.get(each.name) or _around(values)
    edges = _edges(low, high, each)
    share = np.histogram(values, edges)[0] / values.size / np.diff(edges)
    extreme = (edges[1:] <= each.below + 1e-12) | (edges[:-1] >= each.above - 1e-12)
    colors, full = np.where(extreme, ORANGE, BLUE), share > 0
    looks = {"color": colors[full], "edgecolor": colors[full], "lw": 0.3}
    axis.bar(edges[:-1][full], share[full], np.diff(edges)[full], align="edge", **looks)
    top = share.max()
    ends = np.clip([row[name] for name in QUANTILES], low, high)
    axis.hlines(-0.1 * top, ends[0], ends[4], color=INK, lw=1.1)
    axis.hlines(-0.1 * top, ends[1], ends[3], color=INK, lw=3)
    axis.plot(ends[2], -0.1 * top, "o", ms=5, color=INK, mfc="white", mew=1.3)
    axis.set_ylim(-0.2 * top, 1.1 * top)
    axis.set_xlim(low, high)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.set_title(drawable(label(each.name, known)))
    axis.set_xlabel(_below_axis(each, values, row, low, high), fontsize=8, color=GREY)


def _below_axis(each: Quantity, values: Any, row: Any, low: float, high: float) -> str:
    text = (
        f"P(< {each.below:g}) {probability(row['p_below'])}    "
        f"P(> {each.above:g}) {probability(row['p_above'])}"
    ).replace("-", "−")
    hidden = float(((values < low) | (values > high)).mean())
    return f"{text}\nnot drawn: {number(100 * hidden, 1)} %" if hidden >= 0.0005 else text


def _around(values: Any) -> tuple[float, float]:
    """Return a range that holds nearly all values, and zero."""
    low, high = np.quantile(values, [0.005, 0.995]) * 1.05
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    return (low, high) if low < high else (-1.0, 1.0)


def _edges(low: float, high: float, each: Quantity) -> Any:
    """Return edges of bins, the bounds of extremes among them."""
    bounds = [bound for bound in (each.below, each.above) if low < bound < high]
    edges = np.union1d(np.linspace(low, high, BINS + 1), bounds)
    # A sliver beside a bound would show nothing but noise.
    width = (high - low) / BINS
    keep = np.ones(len(edges), dtype=bool)
    for bound in bounds:
        keep &= (np.abs(edges - bound) > 0.45 * width) | np.isin(edges, [bound, low, high])
    return edges[keep]


def _layout_text(known: Implied) -> str:
    """Return what the prior was evaluated for, in lines as long as the picture is wide."""
    text = f"Layout: {printable(known.data, 300)}; {known.draws:,} draws, seed {known.seed}."
    return "\n".join(textwrap.wrap(drawable(text), 135))


def _alt(drawn: list[Quantity], table: pd.DataFrame, known: Implied) -> str:
    parts = [
        f"{label(each.name, known)} {number(table.loc[each.name, 'median'], 2)}"
        f" ({number(table.loc[each.name, 'q2.5'], 2)} to"
        f" {number(table.loc[each.name, 'q97.5'], 2)})"
        for each in drawn
    ]
    return f"Histograms of the prior; medians with 95 % ranges: {'; '.join(parts)}."
