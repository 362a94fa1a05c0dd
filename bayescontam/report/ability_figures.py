"""Figures of abilities and ranks: by model, by concept, and of every pair of large fits."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from bayescontam._format import level_text
from bayescontam.inference.identification import Overfitting
from bayescontam.inference.ranking import Ranking, compact_letters
from bayescontam.inference.result import Fit
from bayescontam.model.effect_names import DIRECT, TOTAL, EffectNames, effect_words
from bayescontam.report.format import in_file
from bayescontam.report.plots import (
    BLUE,
    GREY,
    INK,
    NARROW,
    ORANGE,
    PINK,
    RAW,
    WIDTH,
    Picture,
    finish,
    first_of,
    grid,
    legend,
    mark,
    name_rows,
    new_figure,
    note_of,
    numbers,
    panels,
    plain_labels,
    plural,
    style,
)

MOST_MODELS, MOST_BENCHMARKS = 24, 12
"""Models and benchmarks in one picture; the tables hold all."""
MOST_MARKS, LEAST_PANELS = 72, 3
"""Pairs in a picture of a part of them, and benchmarks that it has even so."""
MOST_CELLS = 500
"""Cells of a picture of ranks up to which each holds its percentage."""
MOST_MODELS_OF_CONCEPTS, MOST_CONCEPTS = 8, 40
"""Models and concepts in one picture; the table holds all."""
MOST_RANKED, MOST_GROUPS = 100, 40
"""Models and groups in the picture of a ranking; the table holds all."""
MOST_LETTERS = 26
"""Groups up to which the picture of a ranking names them."""
_FILLED: dict[str, Any] = {"marker": "o", "color": BLUE, "mfc": BLUE, "ls": "-"}
STYLES: dict[str, dict[str, Any]] = {
    "ability": _FILLED,
    Overfitting.SHOWN: _FILLED,
    Overfitting.AT_MOST_SMALL: {**_FILLED, "mfc": "white"},
    Overfitting.INCONCLUSIVE: {"marker": "s", "color": GREY, "mfc": "white", "ls": ":"},
    Overfitting.BORROWED: {"marker": "v", "color": GREY, "mfc": "white", "ls": "--"},
    Overfitting.SIGN_ASSUMED: {**_FILLED, "marker": "^"},
    Overfitting.OPPOSITE: {"marker": "<", "color": PINK, "mfc": PINK, "ls": "-"},
    Overfitting.LOWERED: {"marker": ">", "color": PINK, "mfc": PINK, "ls": "-"},
    Overfitting.BY_REFERENCE: {"marker": "o", "color": PINK, "mfc": "white", "ls": "-"},
    Overfitting.CLEAN: {"marker": "x", "color": GREY, "mfc": GREY, "ls": ":"},
    Overfitting.NONE: {"marker": "x", "color": INK, "mfc": INK, "ls": "-"},
    Overfitting.NO_VARIATION: {"marker": "D", "color": GREY, "mfc": "white", "ls": ":"},
}
"""How each verdict is drawn. Shape and fill distinguish them without colour."""
_THICK: dict[str, Any] = {"color": "#9ccbe8", "lw": 5}
_WITHOUT_DIRECT: dict[str, Any] = {"marker": "|", "color": ORANGE, "ms": 9, "mew": 1.6}
_DIAMOND: dict[str, Any] = {**RAW, "mfc": "none", "ms": 8}
"""Larger than a dot, so that it is seen where both have one place."""


@style()
def raw_against_genuine(fit: Fit, headline: pd.DataFrame) -> Picture:
    """Draw raw accuracy beside genuine ability, model by model, a panel for each benchmark."""
    ability, words = ability_of(headline)
    names = EffectNames.among(headline)
    shown, note = part(headline, names.overfitting if names else "raw_accuracy", "headline")
    columns = {ability: "mean", f"{ability}_low": "low", f"{ability}_high": "high"}
    intervals = shown.rename(columns=columns).assign(kind=_kinds(shown))
    models = by_score(shown, ability)
    figures = []
    for narrow in (False, True):
        figure, _ = interval_panels(intervals, models, "accuracy", raw=True, narrow=narrow)
        name = words.capitalize()
        verdict_legend(figure, intervals["kind"], name, raw=True, columns=1 if narrow else 3)
        figures.append(figure)
    level = level_text(fit.level)
    caption = "Diamond: raw accuracy, the observed score."
    if names is None:
        caption += f" Circle: accuracy that the fit infers, with its {level} interval.{note}"
    else:
        caption += (
            f" Other marks: {words} with its {level} interval. They differ by"
            f" {effect_words(names.overfitting)} and by the chance that is in an observed"
            f" score.{note}"
        )
        if names.total:
            caption += " Bar on the line: the score without the direct effect alone."
    title, alt = f"Raw accuracy and {words}", _ability_alt(shown, ability, words)
    return finish(figures[0], "raw-genuine", title, alt, caption, narrow=figures[1])


def _kinds(table: pd.DataFrame) -> "pd.Series[str]":
    names = EffectNames.among(table)
    return table[names.verdict] if names else pd.Series("ability", table.index)


def _ability_alt(shown: pd.DataFrame, ability: str, words: str) -> str:
    text = (
        f"Interval plot for {shown['model'].nunique()} models on"
        f" {shown['benchmark'].nunique()} benchmarks: raw accuracy"
        f" {numbers(shown['raw_accuracy'])}, {words} {numbers(shown[ability])}."
    )
    names = EffectNames.among(shown)
    if names is None:
        return text
    gaps = shown[names.overfitting].to_numpy(float)
    if np.isnan(gaps).all():
        return text
    worst = shown.iloc[int(np.nanargmax(gaps))]
    name, benchmark = plain_labels([worst["model"]])[0], plain_labels([worst["benchmark"]])[0]
    return (
        f"{text} Largest {effect_words(names.overfitting)}: {name} on {benchmark},"
        f" {worst[names.overfitting]:.3f}; {worst['raw_accuracy']:.3f} raw and"
        f" {worst[ability]:.3f} genuine."
    )


def interval_panels(
    intervals: pd.DataFrame, models: list[str], xlabel: str, *, raw: bool, narrow: bool = False
) -> tuple[Any, list[Any]]:
    """Draw `mean, low, high` by `kind`: a row for each model, a panel for each benchmark."""
    benchmarks = list(dict.fromkeys(intervals["benchmark"]))
    height, columns, width = 0.27 * len(models) + 0.75, 1 if narrow else 3, WIDTH
    if narrow:
        width = NARROW
    figure, axes = grid(len(benchmarks), columns, height, sharey=True, sharex=True, width=width)
    both = {DIRECT.overfitting, TOTAL.overfitting} <= set(intervals)
    for axis, benchmark in zip(axes, benchmarks, strict=True):
        axis.grid(axis="y")
        for row in intervals[intervals["benchmark"] == benchmark].itertuples():
            y, look = models.index(row.model), STYLES[row.kind]
            if raw:
                axis.plot([row.mean, row.raw_accuracy], [y, y], color=ORANGE, lw=0.8, alpha=0.7)
                axis.plot(row.raw_accuracy, y, **RAW)
                if both:
                    at = row.raw_accuracy - getattr(row, DIRECT.overfitting)
                    axis.plot(at, y, **_WITHOUT_DIRECT)
            axis.hlines(y, row.low, row.high, color=look["color"], ls=look["ls"], lw=1.7)
            axis.plot(row.mean, y, **look | {"ls": "none"}, ms=5.5, mew=1.4)
        if len(benchmarks) > 1:
            axis.set_title(plain_labels([benchmark])[0])
        axis.set_xlabel(xlabel)
        axis.xaxis.set_major_locator(MaxNLocator(4 if narrow else 5))
        axis.tick_params(labelbottom=True)
    name_rows(axes, models, 18 if narrow else 26)
    return figure, axes


def verdict_legend(
    figure: Any, kinds: Iterable[str], words: str, raw: bool, columns: int = 3
) -> None:
    """Explain the marks of a picture that shows these verdicts."""
    marks = [mark("Raw accuracy", **RAW)] if raw else []
    for kind in dict.fromkeys(kinds):
        label = f"{words}; effect: {kind}" if raw else f"{words}: {kind}"
        marks.append(mark(words if kind == "ability" else label, **STYLES[kind], ms=5.5))
    legend(figure, marks, columns)


def ability_of(table: pd.DataFrame) -> tuple[str, str]:
    """Return column and words of what models are compared by."""
    names = EffectNames.among(table)
    ability = "accuracy" if names is None else names.ability
    return ability, effect_words(ability)


def by_score(table: pd.DataFrame, score: str) -> list[str]:
    """Return the models, the largest mean score first."""
    return list(table.groupby("model", sort=False)[score].mean().sort_values()[::-1].index)


def is_large(table: pd.DataFrame) -> bool:
    """Return whether there are more models or benchmarks than a picture of each pair takes."""
    return table["model"].nunique() > MOST_MODELS or table["benchmark"].nunique() > MOST_BENCHMARKS


def part(table: pd.DataFrame, score: str, file: str) -> tuple[pd.DataFrame, str]:
    """Return the rows of the models and benchmarks that fit in, and a note on it."""
    note, most = "", MOST_BENCHMARKS
    if is_large(table):
        rows = min(table["model"].nunique(), MOST_MODELS)
        most = min(max(MOST_MARKS // rows, LEAST_PANELS), most)
    for dim, count in (("benchmark", most), ("model", MOST_MODELS)):
        size = table[score].abs().groupby(table[dim], sort=False).max()
        size = size.sort_values(na_position="first")
        which = f"largest {effect_words(score)}"
        drawn, missing = first_of(size.index[::-1], count, f"{dim}s", which)
        note += missing
        table = table[table[dim].isin(drawn)]
    return table, f"{note} All: {in_file(file)}." if note else ""


@style()
def ranks(fit: Fit, headline: pd.DataFrame) -> Picture | None:
    """Draw the posterior distribution of ranks, raw ranks marked; None without any ranks."""
    draws = fit.data["estimands"].to_dataset()["rank"]
    headline = headline[headline["rank"].notna()]
    if draws.sizes["model"] < 2 or headline.empty:
        return None
    _, words = ability_of(headline)
    shown, note = part(headline, "raw_accuracy", "headline")
    models = by_score(shown, "raw_accuracy")
    benchmarks = list(dict.fromkeys(shown["benchmark"]))
    count = draws.sizes["model"]
    numbered = len(models) * count * len(benchmarks) <= MOST_CELLS
    order = "benchmark", "chain", "draw", "model"
    cells = draws.sel(benchmark=benchmarks, model=models).transpose(*order)
    chances = [_chances(each.to_numpy(), count) for each in cells]
    darkest = 1.25 * (1.0 if numbered else max(chance.max() for chance in chances))
    figure, axes = panels(
        [plain_labels([name])[0] for name in benchmarks], 3, 0.27 * len(models) + 0.75,
        xlabel=f"rank by {words}", alone=(2.6 + 0.5 * min(count, 12)) / WIDTH, sharey=True,
    )  # fmt: skip
    for axis, benchmark, chance in zip(axes, benchmarks, chances, strict=True):
        _rank_cells(axis, chance, numbered, darkest)
        rows = shown[shown["benchmark"] == benchmark].set_index("model")["rank_raw"]
        axis.plot(rows, [models.index(m) for m in rows.index], **RAW)
    name_rows(axes, models)
    legend(figure, [mark("rank by raw accuracy", **RAW)])
    alt = (
        f"Probability of each rank by {words} for {len(models)} models on"
        f" {len(benchmarks)} benchmarks; the least certain model has its likeliest rank with"
        f" probability {min(float(chance.max(axis=1).min()) for chance in chances):.2f}."
    )
    caption = (
        f"The darker, the more probable the rank by {words} (1 = best)."
        f"{' Numbers are percentages of at least 5.' if numbered else ''}"
        f" Diamond: rank by raw accuracy.{note}"
    )
    return finish(figure, "ranks", "Ranks", alt, caption, raster=not numbered)


def _chances(ranks: np.ndarray, count: int) -> np.ndarray:
    """Return how probable each rank is, (chain, draw, model) to (model, rank).

    A rank between two, which equal models share, counts half for each of them.
    """
    levels = np.arange(1, count + 1)
    ends = np.floor(ranks)[..., None] == levels, np.ceil(ranks)[..., None] == levels
    chances: np.ndarray = (ends[0].mean(axis=(0, 1)) + ends[1].mean(axis=(0, 1))) / 2
    return chances


def _rank_cells(axis: Any, chance: np.ndarray, numbered: bool, darkest: float) -> None:
    """Draw a shaded cell for each model and rank, with its percentage if `numbered`."""
    count = chance.shape[1]
    edges_x, edges_y = np.arange(count + 1) + 0.5, np.arange(len(chance) + 1) - 0.5
    axis.pcolormesh(
        edges_x, edges_y, chance, cmap="Blues", vmin=0, vmax=darkest, edgecolor="white", lw=0.5
    )
    axis.xaxis.set_major_locator(MaxNLocator(min(count, 12), integer=True))
    if not numbered:
        return
    for (y, x), p in np.ndenumerate(chance):
        if p >= 0.05:
            axis.text(
                x + 1.45, y + 0.45, f"{100 * p:.0f}", fontsize=6.5, ha="right", va="bottom",
                color="white" if p > 0.6 else INK,
            )  # fmt: skip


@style()
def ranking_picture(ranking: Ranking) -> Picture:
    """Draw ranks with intervals, raw ranks, and groups of indistinguishable models."""
    table = ranking.table.head(MOST_RANKED)
    groups = [
        at
        for group in ranking.groups
        if (at := np.flatnonzero(table["model"].isin(group).to_numpy())).size
    ][:MOST_GROUPS]
    words, level = effect_words(ranking.by), level_text(ranking.level)
    side = 0.3 + min(0.2 * len(groups), 2.4)
    figure = new_figure(WIDTH, (0.3 if len(table) <= 30 else 0.19) * len(table) + 1.3)
    widths = [WIDTH - 2 - side, side]
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=widths)
    _draw_ranks(left, table)
    left.set_xlabel(f"rank by {words} (1 = best)")
    left.set_xlim(0.4, len(ranking.table) + 0.6)
    name_rows([left], list(table["model"]))
    _draw_groups(right, groups)
    marks = [
        mark(f"Rank by {words}", marker="o", mfc=BLUE, mec=BLUE, ms=4.2, ls="-", **_THICK),
        mark(f"All ranks at once, {level}", color=BLUE, lw=1),
        mark("Rank by raw accuracy", **_DIAMOND),
    ]
    legend(figure, marks)
    moved = int(table["places_gained"].fillna(0).ne(0).sum())
    alt = (
        f"Interval plot of the ranks of {len(table)} models by {words}, in"
        f" {plural(len(ranking.groups), 'group')} of indistinguishable models; first is"
        f" {plain_labels(table['model'])[0]}, best with probability"
        f" {table['p_best'].iloc[0]:.2f}; {moved} ranks differ from those by raw accuracy."
    )
    caption = (
        f"Dot: median rank. Thick: its {level} interval. Thin: intervals that hold all ranks at"
        f" once with a probability of {level}. Diamond: rank by raw accuracy (a line through it:"
        " tied with others); an arrow leads from it to a different median. Columns at the right:"
        " models that share a bar are indistinguishable."
        f"{' Their letters are in the table.' if len(groups) > MOST_LETTERS else ''}"
        f"{note_of(len(table), len(ranking.table), 'models', 'best ranks')}"
        f"{note_of(len(groups), len(ranking.groups), 'groups', 'best ranks')}"
    )
    return finish(figure, "ranking", "Ranking", alt, caption)


def _draw_ranks(axis: Any, table: pd.DataFrame) -> None:
    axis.grid()
    at = np.arange(len(table))
    axis.hlines(at, table["rank_joint_low"], table["rank_joint_high"], color=BLUE, lw=1)
    axis.hlines(at, table["rank_low"], table["rank_high"], **_THICK)
    first, median = table["rank_raw"].to_numpy(float), table["rank"].to_numpy(float)
    last = first + table["raw_ties"].to_numpy(float)
    middle = (first + last) / 2
    axis.hlines(at, first, last, color=ORANGE, lw=1, zorder=3)
    axis.plot(middle, at, **_DIAMOND, zorder=4)
    arrow = {"arrowstyle": "->", "color": ORANGE, "lw": 1.1, "shrinkA": 5, "shrinkB": 1}
    for y in np.flatnonzero(table["places_gained"].fillna(0)):
        axis.annotate("", (median[y], y), (middle[y], y), arrowprops=arrow, zorder=4)
    axis.plot(median, at, "o", color=BLUE, ms=4.2, ls="none", zorder=5)
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


@style()
def scatter(headline: pd.DataFrame) -> Picture:
    """Draw raw accuracy against ability, a mark for each pair."""
    ability, words = ability_of(headline)
    wide = _scatter(headline, ability, words, (WIDTH * 0.75, 5.6), columns=3)
    narrow = _scatter(headline, ability, words, (NARROW, 4.4), columns=1)
    pairs = f"{len(headline):,} pairs of model and benchmark"
    above = headline["raw_accuracy"] - headline[ability]
    alt = (
        f"Scatter plot of {pairs}: {words} {numbers(headline[ability])}, raw accuracy"
        f" {numbers(headline['raw_accuracy'])}; raw accuracy less {words} is {numbers(above)}."
    )
    caption = (
        f"A mark for each of {pairs}: raw accuracy against the posterior mean of {words}. On the"
        f" line they are equal. Single scores also lie off the line because {words} is drawn"
        " towards the rest of the table."
    )
    title = f"Every pair: raw accuracy and {words}"
    return finish(wide, "scatter", title, alt, caption, True, narrow)


def _scatter(
    headline: pd.DataFrame, ability: str, words: str, size: tuple[float, float], columns: int
) -> Any:
    figure, kinds, names = new_figure(*size), _kinds(headline), EffectNames.among(headline)
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color=INK, lw=0.8)
    for kind in dict.fromkeys(kinds):
        rows = headline[kinds == kind]
        label = f"{effect_words(names.overfitting)}: {kind}" if names else words
        look = STYLES[kind] | {"ls": "none", "ms": 3.2, "mew": 0.7, "alpha": 0.6}
        axis.plot(rows[ability], rows["raw_accuracy"], **look, label=label)
    ends = headline[[ability, "raw_accuracy"]].to_numpy()
    low, high = np.nanmin(ends) - 0.02, np.nanmax(ends) + 0.02
    axis.set(xlim=(low, high), ylim=(low, high), xlabel=words, ylabel="raw accuracy")
    axis.set_aspect("equal")
    figure.legend(loc="outside upper left", ncols=columns, markerscale=1.7)
    return figure


@style()
def concepts(fit: Fit, table: pd.DataFrame) -> Picture | None:
    """Draw abilities by concept, a panel for each model; None where there are none."""
    if table.empty:
        return None
    ability, words = ability_of(table)
    means = table.groupby("concept", sort=False)[ability].mean().sort_values(ascending=False)
    drawn = list(means.index[: MOST_CONCEPTS // 2])
    drawn += list(means.index[len(drawn) :][-MOST_CONCEPTS // 2 :])
    models, of_models = first_of(table["model"], MOST_MODELS_OF_CONCEPTS, "models", "the first")
    note = note_of(len(drawn), len(means), "concepts", "the easiest and the hardest") + of_models
    figure, axes = panels(
        [plain_labels([model], 22)[0] for model in models], 4, 0.23 * len(drawn) + 0.7,
        xlabel="accuracy", sharey=True, sharex=True,
    )  # fmt: skip
    for axis, model in zip(axes, models, strict=True):
        rows = table[table["model"] == model].set_index("concept").reindex(drawn).dropna()
        at = [drawn.index(name) for name in rows.index]
        axis.hlines(at, rows[f"{ability}_low"], rows[f"{ability}_high"], color=BLUE)
        axis.plot(rows["raw_accuracy"], at, **RAW)
        axis.plot(rows[ability], at, "o", color=BLUE, ms=4.5)
    name_rows(axes, drawn)
    verdict_legend(figure, ["ability"], words.capitalize(), raw=True)
    easy, hard = plain_labels([drawn[0], drawn[-1]])
    alt = (
        f"Interval plot of {words} of {len(models)} models on {len(drawn)} concepts: means"
        f" {numbers(table[ability])}; easiest on average {easy}, hardest {hard}."
    )
    caption = (
        f"Concepts from easy to hard. Circle: {words} with its"
        f" {level_text(fit.level)} interval, drawn towards the rest where items are few."
        f" Diamond: raw accuracy on the concept's items.{note}"
    )
    return finish(figure, "concepts", "Abilities by concept", alt, caption)
