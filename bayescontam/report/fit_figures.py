"""Figures of abilities, slopes and concepts, and maps of large fits."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bayescontam.inference.result import Fit
from bayescontam.inference.verdicts import Overfitting
from bayescontam.report.format import in_file, level_text
from bayescontam.report.plots import (
    BLUE,
    GREY,
    INK,
    NARROW,
    ORANGE,
    PALE,
    PINK,
    WIDTH,
    Picture,
    finish,
    grid,
    new_figure,
    numbers,
    plain_labels,
    style,
)

MOST_MODELS, MOST_BENCHMARKS = 24, 12
"""Models and benchmarks in one picture; the tables hold all."""
MOST_MARKS, LEAST_PANELS = 72, 3
"""Pairs in a picture of a part of them, and benchmarks that it has even so."""
MOST_CELLS = 500
"""Cells of a picture of ranks up to which each holds its percentage."""
RAW: dict[str, Any] = {
    "marker": "D", "mfc": "white", "mec": ORANGE, "ls": "none", "ms": 5.5, "mew": 1.4,
}  # fmt: skip
_FILLED: dict[str, Any] = {"marker": "o", "color": BLUE, "mfc": BLUE, "ls": "-"}
STYLES: dict[str, dict[str, Any]] = {
    "ability": _FILLED,
    Overfitting.SHOWN: _FILLED,
    Overfitting.AT_MOST_SMALL: {**_FILLED, "mfc": "white"},
    Overfitting.INCONCLUSIVE: {"marker": "s", "color": GREY, "mfc": "white", "ls": ":"},
    Overfitting.BORROWED: {"marker": "v", "color": GREY, "mfc": "white", "ls": "--"},
    Overfitting.SIGN_ASSUMED: {**_FILLED, "marker": "^"},
    Overfitting.OPPOSITE: {"marker": "<", "color": PINK, "mfc": PINK, "ls": "-"},
    Overfitting.BY_REFERENCE: {"marker": "o", "color": PINK, "mfc": "white", "ls": "-"},
    Overfitting.CLEAN: {"marker": "x", "color": GREY, "mfc": GREY, "ls": ":"},
    Overfitting.NONE: {"marker": "x", "color": INK, "mfc": INK, "ls": "-"},
    Overfitting.NO_VARIATION: {"marker": "D", "color": GREY, "mfc": "white", "ls": ":"},
}
"""How each verdict is drawn. Shape and fill distinguish them without colour."""
_ACCURACIES = (0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
TRANSLATED = (
    "On top: the accuracy that such a slope gives an item which, if clean, would be solved half of"
    " the time."
)

MOST_ROWS, MOST_COLUMNS = 150, 60
"""Models and benchmarks in one map."""
_EFFECTS = (Overfitting.SHOWN, Overfitting.OPPOSITE)
_SILENT = (
    Overfitting.INCONCLUSIVE,
    Overfitting.BORROWED,
    Overfitting.NO_VARIATION,
)
_COLOURS = LinearSegmentedColormap.from_list("effect", [BLUE, "#ffffff", ORANGE])
MOST_MODELS_OF_CONCEPTS, MOST_CONCEPTS = 8, 40
"""Models and concepts in one picture; the table holds all."""


def raw_against_genuine(fit: Fit, headline: pd.DataFrame) -> Picture:
    """Draw raw accuracy beside genuine ability, model by model, a panel for each benchmark."""
    ability, words = ability_of(headline)
    score = "overfitting" if ability == "genuine_ability" else "raw_accuracy"
    shown, note = part(headline, score, "headline")
    kinds = shown.get("overfitting_verdict", pd.Series("ability", shown.index))
    intervals = shown.assign(kind=kinds, mean=shown[ability])
    intervals["low"], intervals["high"] = shown[f"{ability}_low"], shown[f"{ability}_high"]
    models = by_score(shown, ability)
    with style():
        figures = []
        for narrow in (False, True):
            figure, axes = _panels(shown, models, intervals, raw=True, narrow=narrow)
            for axis in axes:
                axis.set_xlabel("accuracy")
            legend(figure, kinds, words.capitalize(), raw=True, columns=1 if narrow else 3)
            figures.append(figure)
        caption = (
            f"Diamond: raw accuracy, the observed score. Other marks: {words} with its"
            f" {level_text(fit.level)} interval. They differ by overfitting and by"
            f" the chance that is in an observed score.{note}"
        )
        if ability == "accuracy":
            caption = (
                "Diamond: raw accuracy, the observed score. Circle: accuracy that the fit infers,"
                f" with its {level_text(fit.level)} interval.{note}"
            )
        title = f"Raw accuracy and {words}"
        alt = _ability_alt(shown, ability, words)
        return finish(figures[0], "raw-genuine", title, alt, caption, narrow=figures[1])


def slopes(fit: Fit, table: pd.DataFrame) -> Picture | None:
    """Draw each slope with its interval, by verdict; None without contamination."""
    if table.empty:
        return None
    shown, note = part(table, "slope", "slopes")
    columns = {"slope": "mean", "slope_low": "low", "slope_high": "high", "verdict": "kind"}
    models = by_score(shown, "slope")
    with style():
        figure, axes = _panels(shown, models, shown.rename(columns=columns), raw=False)
        log_odds = fit.spec.contamination.scale == "log_odds"
        for axis in axes:
            axis.axvline(0, color=INK, lw=0.8)
            axis.set_xlabel("slope (log-odds)" if log_odds else "slope (accuracy)")
            if log_odds:
                _translate(axis)
        legend(figure, shown["verdict"], "Slope", raw=False)
        counts = shown["verdict"].value_counts()
        alt = (
            f"Interval plot of {len(shown)} slopes, means from {numbers(shown['slope'])};"
            f" {', '.join(f'{n} {kind}' for kind, n in counts.items())}."
        )
        scale = "Log-odds of a correct answer" if log_odds else "Accuracy"
        caption = f"{scale} gained from surely clean to surely contaminated, with"
        caption += f" {level_text(fit.level)} intervals. The line at 0: no effect of contamination."
        if log_odds:
            caption += f" {TRANSLATED}"
        caption += note
        return finish(figure, "slopes", "Contamination slopes", alt, caption)


def ranks(fit: Fit, headline: pd.DataFrame) -> Picture | None:
    """Draw the posterior distribution of ranks, raw ranks marked; None without any ranks."""
    draws = fit.tree["estimands"].to_dataset()["rank"]
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
    with style():
        figure, axes = grid(
            len(benchmarks), 3, 0.27 * len(models) + 0.75, sharey=True,
            width=WIDTH if len(benchmarks) > 1 else 2.6 + 0.5 * min(count, 12),
        )  # fmt: skip
        for axis, benchmark, chance in zip(axes, benchmarks, chances, strict=True):
            _rank_cells(axis, chance, numbered, darkest)
            rows = shown[shown["benchmark"] == benchmark].set_index("model")["rank_raw"]
            axis.plot(rows, [models.index(m) for m in rows.index], **RAW)
            axis.set_title(plain_labels([benchmark])[0])
            axis.set_xlabel(f"rank by {words}")
        name_models(axes, models)
        mark = Line2D([], [], label="rank by raw accuracy", **RAW)
        figure.legend(handles=[mark], loc="outside upper left")
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


def _translate(axis: Any) -> None:
    """Write on top what a slope means for an item that is solved half of the time."""
    low, high = axis.get_xlim()
    marks = [p for p in _ACCURACIES if low <= np.log(p / (1 - p)) <= high]
    places = [np.log(p / (1 - p)) for p in marks]
    top = axis.secondary_xaxis("top")
    top.set_xticks(places, [f"{p:g}" for p in marks], fontsize=8, color=GREY)
    top.tick_params(length=2.5, color=GREY)
    top.spines["top"].set_visible(False)


def _panels(
    shown: pd.DataFrame, models: list[str], intervals: pd.DataFrame, raw: bool, narrow: bool = False
) -> tuple[Any, list[Any]]:
    """Draw marks with intervals: a row for each model, a panel for each benchmark."""
    benchmarks = list(dict.fromkeys(shown["benchmark"]))
    height, columns, width = 0.27 * len(models) + 0.75, 1 if narrow else 3, WIDTH
    if narrow:
        width = NARROW
    figure, axes = grid(len(benchmarks), columns, height, sharey=True, sharex=True, width=width)
    for axis, benchmark in zip(axes, benchmarks, strict=True):
        axis.grid(axis="y")
        for row in intervals[intervals["benchmark"] == benchmark].itertuples():
            y, look = models.index(row.model), STYLES[row.kind]
            if raw:
                axis.plot([row.mean, row.raw_accuracy], [y, y], color=ORANGE, lw=0.8, alpha=0.7)
                axis.plot(row.raw_accuracy, y, **RAW)
            axis.hlines(y, row.low, row.high, color=look["color"], ls=look["ls"], lw=1.7)
            axis.plot(row.mean, y, **look | {"ls": "none"}, ms=5.5, mew=1.4)
        if len(benchmarks) > 1:
            axis.set_title(plain_labels([benchmark])[0])
        axis.xaxis.set_major_locator(MaxNLocator(4 if narrow else 5))
        axis.tick_params(labelbottom=True)
    name_models(axes, models, 18 if narrow else 26)
    return figure, axes


def name_models(axes: list[Any], names: list[str], width: int = 26) -> None:
    """Write the names at the left, in so many letters at most; the first one is on top."""
    for axis in axes:
        axis.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(names)), plain_labels(names, width))
    axes[0].set_ylim(len(names) - 0.4, -0.6)


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


def legend(figure: Any, kinds: Iterable[str], words: str, raw: bool, columns: int = 3) -> None:
    """Explain the marks of a picture that shows these verdicts."""
    marks = [Line2D([], [], label="Raw accuracy", **RAW)] if raw else []
    for kind in dict.fromkeys(kinds):
        label = f"{words} (overfitting: {kind})" if raw else f"{words}: {kind}"
        label = words if kind == "ability" else label
        marks.append(Line2D([], [], label=label, **STYLES[kind], ms=5.5))
    figure.legend(handles=marks, loc="outside upper left", ncols=min(columns, len(marks)))


def ability_of(table: pd.DataFrame) -> tuple[str, str]:
    """Return column and words of what models are compared by."""
    if "genuine_ability" in table:
        return "genuine_ability", "genuine ability"
    return "accuracy", "accuracy"


def by_score(table: pd.DataFrame, score: str) -> list[str]:
    """Return the models, the largest mean score first."""
    return list(table.groupby("model", sort=False)[score].mean().sort_values()[::-1].index)


def is_large(table: pd.DataFrame) -> bool:
    """Return whether there are more models or benchmarks than a picture of each pair takes."""
    return table["model"].nunique() > MOST_MODELS or table["benchmark"].nunique() > MOST_BENCHMARKS


def part(table: pd.DataFrame, score: str, file: str) -> tuple[pd.DataFrame, str]:
    """Return the rows of the models and benchmarks that fit in, and a note on it."""
    note, panels = "", MOST_BENCHMARKS
    if is_large(table):
        rows = min(table["model"].nunique(), MOST_MODELS)
        panels = min(max(MOST_MARKS // rows, LEAST_PANELS), panels)
    for dim, most in (("benchmark", panels), ("model", MOST_MODELS)):
        size = table[score].abs().groupby(table[dim], sort=False).max().sort_values()
        drawn = list(size.index[::-1][:most])
        note += note_of(len(drawn), len(size), f"{dim}s", f"largest {score.replace('_', ' ')}")
        table = table[table[dim].isin(drawn)]
    return table, f"{note} All: {in_file(file)}." if note else ""


def note_of(shown: int, of: int, what: str, which: str) -> str:
    """Say that only a part is drawn, if so."""
    return f" Only {shown:,} of {of:,} {what} are drawn ({which})." if shown < of else ""


def _ability_alt(shown: pd.DataFrame, ability: str, words: str) -> str:
    text = (
        f"Interval plot for {shown['model'].nunique()} models on"
        f" {shown['benchmark'].nunique()} benchmarks: raw accuracy"
        f" {numbers(shown['raw_accuracy'])}, {words} {numbers(shown[ability])}."
    )
    if ability == "accuracy":
        return text
    worst = shown.iloc[int(shown["overfitting"].to_numpy().argmax())]
    name, benchmark = plain_labels([worst["model"]])[0], plain_labels([worst["benchmark"]])[0]
    return (
        f"{text} Largest gap: {name} on {benchmark}, {worst['raw_accuracy']:.3f} raw and"
        f" {worst[ability]:.3f} genuine."
    )


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


def concepts(fit: Fit, table: pd.DataFrame) -> Picture | None:
    """Draw abilities by concept, a panel for each model; None where there are none."""
    if table.empty:
        return None
    ability, words = ability_of(table)
    means = table.groupby("concept", sort=False)[ability].mean().sort_values(ascending=False)
    drawn = list(means.index[: MOST_CONCEPTS // 2])
    drawn += list(means.index[len(drawn) :][-MOST_CONCEPTS // 2 :])
    models = list(dict.fromkeys(table["model"]))[:MOST_MODELS_OF_CONCEPTS]
    note = note_of(len(drawn), len(means), "concepts", "the easiest and the hardest")
    note += note_of(len(models), table["model"].nunique(), "models", "the first")
    with style():
        height = 0.23 * len(drawn) + 0.7
        figure, axes = grid(len(models), 4, height, sharey=True, sharex=True)
        for axis, model in zip(axes, models, strict=True):
            rows = table[table["model"] == model].set_index("concept").reindex(drawn).dropna()
            at = [drawn.index(name) for name in rows.index]
            axis.hlines(at, rows[f"{ability}_low"], rows[f"{ability}_high"], color=BLUE)
            axis.plot(rows["raw_accuracy"], at, **RAW)
            axis.plot(rows[ability], at, "o", color=BLUE, ms=4.5)
            axis.set_title(plain_labels([model], 22)[0])
            axis.tick_params(labelbottom=True)
            axis.set_xlabel("accuracy")
        name_models(axes, drawn)
        legend(figure, ["ability"], words.capitalize(), raw=True)
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
