"""The section of a fit's page that puts models in order."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bayescontam.errors import UsageError
from bayescontam.inference.ranking import Ranking, compact_letters, rank_models
from bayescontam.inference.result import Fit
from bayescontam.report.fit_figures import RAW, name_models, note_of
from bayescontam.report.format import in_file, level_text
from bayescontam.report.plots import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    WIDTH,
    Picture,
    finish,
    new_figure,
    plain_labels,
    style,
)

MOST_MODELS = 100
"""Models in the picture; the table holds all."""
MOST_GROUPS = 40
"""Groups in the picture; the table holds all."""
MOST_LETTERS = 26
"""Groups up to which the picture names them."""
MOST_WITHIN = 1000
"""Rows of tables within benchmarks up to which the page has these tables."""
MOST_PAIRS = 30
"""Models up to which the page has a square of pairs; ``bayescontam rank`` has all."""

_THICK: dict[str, Any] = {"color": "#9ccbe8", "lw": 5}
_DIAMOND: dict[str, Any] = {**RAW, "mfc": "none", "ms": 8}
"""Larger than a dot, so that it is seen where both have one place."""


def ranking_section(fit: Fit) -> dict[str, Any] | None:
    """Return what the page reports of ranks: across benchmarks, and within each."""
    known = fit.ranked()
    within = within_benchmarks(fit)
    names = list(within)
    if max((len(ranking.table) for ranking in within.values()), default=0) < 2:
        return None
    across, why = _across(fit) if len(known) > 1 else (None, "")
    shown = within[names[0]] if len(known) == 1 else across
    count = sum(len(one.table) for one in within.values())
    note = f"The {count:,} ranks within benchmarks: {in_file('ranks')}."
    many = count > MOST_WITHIN and across is not None
    listed = {} if many else {n: _rows(one) for n, one in within.items() if len(one.table) > 1}
    return {
        "across": across and _rows(across),
        "not_across": why,
        "within": listed,
        "within_note": note if many else "",
        "picture": shown and ranking_picture(shown),
        "by": within[names[0]].by,
        "level": level_text(fit.level),
        "distinguished": _distinguished(shown) if shown else "",
    }


def within_benchmarks(fit: Fit) -> dict[str, Ranking]:
    """Return the ranking within each benchmark on which models can be compared, by its name."""
    known = fit.ranked()
    return {str(name): rank_models(fit, str(name)) for name in known.index[known]}


def _distinguished(ranking: Ranking) -> str:
    distinguished = ranking.pairs()["distinguished"]
    return (
        f"{int(distinguished.sum()):,} of {len(distinguished):,} pairs of models are"
        " distinguishable: one is better than the other with a probability of at least"
        f" {level_text(ranking.level)}."
    )


def ranks(fit: Fit) -> pd.DataFrame:
    """Return the rankings of a fit: one row for each model and benchmark."""
    rankings = within_benchmarks(fit)
    across = _across(fit)[0] if len(fit.ranked()) > 1 else None
    every = ({"": across} if across is not None else {}) | rankings
    tables = [one.table.assign(benchmark=name) for name, one in every.items()]
    return pd.concat(tables) if tables else pd.DataFrame(columns=["model", "benchmark"])


def better_pairs(fit: Fit) -> pd.DataFrame:
    """Return how probably each model is better than another, within each benchmark."""
    pairs = [one.near().assign(benchmark=name) for name, one in within_benchmarks(fit).items()]
    columns = ["benchmark", "model", "other", "probability"]
    return pd.concat(pairs, ignore_index=True)[columns] if pairs else pd.DataFrame(columns=columns)


def _across(fit: Fit) -> tuple[Ranking | None, str]:
    try:
        ranking = rank_models(fit)
    except UsageError as error:
        return None, str(error)
    if len(ranking.table) < 2:
        return None, "only one model answered all benchmarks"
    return ranking, ""


def _rows(ranking: Ranking) -> dict[str, Any]:
    """Return the table of a ranking as the page shows it."""
    ends = ("", "_low", "_high")
    table = ranking.table.rename(columns={ranking.by + end: "ability" + end for end in ends})
    moved = table["places_gained"].fillna(0)
    chance = table["p_rank_better"].where(moved > 0, table["p_rank_worse"])
    table = table.assign(places_gained=moved, p_moved=chance.where(moved != 0))
    rows = table.to_dict("records")
    if not ranking.groups:
        rows = [row | {"groups": f"{row['n_alike']:,}"} for row in rows]
    square = ranking.p_better if len(table) <= MOST_PAIRS else None
    return {"rows": rows, "square": square, "lettered": bool(ranking.groups),
            "sentences": ranking.sentences()}  # fmt: skip


def ranking_picture(ranking: Ranking) -> Picture:
    """Draw ranks with intervals, raw ranks, and groups of indistinguishable models."""
    table = ranking.table.head(MOST_MODELS)
    groups = [
        at
        for group in ranking.groups
        if (at := np.flatnonzero(table["model"].isin(group).to_numpy())).size
    ][:MOST_GROUPS]
    words = ranking.by.replace("_", " ")
    moved = int(table["places_gained"].fillna(0).ne(0).sum())
    note = " Their letters are in the table." if len(groups) > MOST_LETTERS else ""
    note += note_of(len(table), len(ranking.table), "models", "best ranks")
    note += note_of(len(groups), len(ranking.groups), "groups", "best ranks")
    with style():
        figure, (left, right) = _axes(len(table), len(groups))
        _draw_ranks(left, table)
        left.set_xlabel(f"rank by {words} (1 = best)")
        left.set_xlim(0.4, len(ranking.table) + 0.6)
        name_models([left], list(table["model"]))
        _draw_groups(right, groups)
        figure.legend(handles=_marks(words, ranking.level), loc="outside upper left", ncols=3)
        alt = (
            f"Interval plot of the ranks of {len(table)} models by {words}, in"
            f" {len(ranking.groups)} group{'s' if len(ranking.groups) > 1 else ''} of"
            " indistinguishable models; first is"
            f" {plain_labels(table['model'])[0]}, best with probability"
            f" {table['p_best'].iloc[0]:.2f}; {moved} ranks differ"
            " from those by raw accuracy."
        )
        caption = (
            f"Dot: median rank. Thick: its {level_text(ranking.level)} interval. Thin: intervals"
            f" that hold all ranks at once with a probability of {level_text(ranking.level)}."
            " Diamond: rank by raw accuracy (a line through it: tied with others); an arrow leads"
            " from it to a different median. Columns at the right: models that share a bar are"
            f" indistinguishable.{note}"
        )
        return finish(figure, "ranking", "Ranking", alt, caption)


def _axes(models: int, groups: int) -> tuple[Any, Any]:
    """Return a figure with a panel for ranks, and a narrow one for groups."""
    row = 0.3 if models <= 30 else 0.19
    side = 0.3 + min(0.2 * groups, 2.4)
    figure = new_figure(WIDTH, row * models + 1.3)
    axes = figure.subplots(1, 2, sharey=True, width_ratios=[WIDTH - 2 - side, side])
    return figure, axes


def _draw_ranks(axis: Any, table: pd.DataFrame) -> None:
    axis.grid()
    at = np.arange(len(table))
    axis.hlines(at, table["rank_joint_low"], table["rank_joint_high"], color=BLUE, lw=1)
    axis.hlines(at, table["rank_low"], table["rank_high"], **_THICK)
    first, median = table["rank_raw"].to_numpy(float), table["rank"].to_numpy(float)
    last = first + table["raw_ties"].to_numpy(float)
    axis.hlines(at, first, last, color=ORANGE, lw=1, zorder=3)
    axis.plot((first + last) / 2, at, **_DIAMOND, zorder=4)
    arrow = {"arrowstyle": "->", "color": ORANGE, "lw": 1.1, "shrinkA": 5, "shrinkB": 1}
    for y in np.flatnonzero(table["places_gained"].fillna(0)):
        middle = (first[y] + last[y]) / 2
        axis.annotate("", (median[y], y), (middle, y), arrowprops=arrow, zorder=4)
    axis.plot(table["rank"], at, "o", color=BLUE, ms=4.2, ls="none", zorder=5)
    if len(table) <= 12:
        axis.set_xticks(range(1, len(table) + 1))
    else:
        axis.xaxis.set_major_locator(MaxNLocator(12, integer=True))


def _draw_groups(axis: Any, groups: list[np.ndarray]) -> None:
    """Draw a bar for each group, broken where a model between does not belong to it."""
    width = 3 if len(groups) <= 12 else 1.8
    for x, members in enumerate(groups):
        runs = np.split(members, np.flatnonzero(np.diff(members) > 1) + 1)
        axis.plot([x, x], [members[0], members[-1]], color=GREY, lw=0.8, ls=":")
        for run in runs:
            axis.plot([x, x], [run[0] - 0.3, run[-1] + 0.3], color=INK, lw=width)
    axis.set_xlim(-0.8, len(groups) - 0.2)
    if len(groups) <= MOST_LETTERS:
        axis.set_xticks(range(len(groups)), compact_letters(len(groups)))
    else:
        axis.set_xticks([])
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelleft=False)
    axis.spines[["left", "bottom"]].set_visible(False)


def _marks(words: str, level: float) -> list[Line2D]:
    return [
        Line2D([], [], marker="o", mfc=BLUE, mec=BLUE, ms=4.2, label=f"Rank by {words}", **_THICK),
        Line2D([], [], color=BLUE, lw=1, label=f"All ranks at once, {level_text(level)}"),
        Line2D([], [], label="Rank by raw accuracy", **_DIAMOND),
    ]
