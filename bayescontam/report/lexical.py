"""Figure of shared words: what lexical baselines make of the matches that cosine found."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.lines import Line2D

from bayescontam.report.figures import note_of
from bayescontam.report.matches import FOUND, lexical_columns, lexical_name, ngram_column
from bayescontam.report.picture import (
    BLUE,
    INK,
    ORANGE,
    WIDTH,
    Picture,
    finish,
    new_figure,
    numbers,
    style,
)

MOST_POINTS = 20_000
_BEST: dict[str, Any] = {
    "marker": "o", "ls": "none", "color": BLUE, "ms": 4, "alpha": 0.5, "mew": 0,
}  # fmt: skip
_MISSED: dict[str, Any] = {"marker": "x", "ls": "none", "color": ORANGE, "ms": 5.5, "mew": 1.4}


def against_words(best: pd.DataFrame) -> Picture | None:
    """Draw lexical baselines of best matches against their cosines; None where not computed."""
    known = best.dropna(subset="cosine")
    ngram = ngram_column(known)
    drawn = known[lexical_columns(known)].dropna(axis="columns", how="all").columns
    columns = [name for name in ("rouge_l", ngram, "jaccard") if name in drawn][:2]
    if not columns:
        return None
    shown = known.nlargest(MOST_POINTS, "cosine")
    with style():
        figure = new_figure(WIDTH if len(columns) > 1 else WIDTH * 0.6, 3.5)
        axes = figure.subplots(1, len(columns), squeeze=False, sharex=True)[0]
        for axis, column in zip(axes, columns, strict=True):
            _points(axis, shown, str(column))
        figure.legend(handles=list(_marks(ngram)), loc="outside upper left", ncols=2)
        alt = f"Scatter plot of {len(shown):,} best matches: cosine {numbers(shown['cosine'])}"
        alt += "".join(f", {lexical_name(str(c))} {numbers(shown[c])}" for c in columns)
        caption = "The best match of each item: likeness of meaning against shared words."
        if ngram:
            caption += _missed(known, ngram)
            alt += f"; {int(known['missed'].sum())} items are found by cosine and missed by n-grams"
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


def _marks(ngram: str | None) -> Iterator[Line2D]:
    yield Line2D([], [], label="best match of an item", **_BEST)
    if ngram:
        label = f"found by cosine, no {lexical_name(ngram)[:-1]} shared with any match"
        yield Line2D([], [], label=label, **_MISSED)


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
