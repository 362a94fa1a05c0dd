"""Figures of the effect of contamination: slopes, dose and response, and what is assumed."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.base.array import array_stats
from matplotlib.colors import LinearSegmentedColormap

from bayescontam._format import level_text, number
from bayescontam.inference.identification import Overfitting
from bayescontam.inference.result import Fit
from bayescontam.model.effect_names import EffectNames, effect_head, effect_words
from bayescontam.report.ability_figures import by_score, interval_panels, part, verdict_legend
from bayescontam.report.format import in_file
from bayescontam.report.plots import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PALE,
    WIDTH,
    Picture,
    band,
    finish,
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

MOST_PAIRS = 12
"""Curves, slopes or models in one picture; the tables hold all."""
MOST_ROWS, MOST_COLUMNS = 150, 60
"""Models and benchmarks in one map."""
BINS = 6
"""Bins of items whose observed scores are drawn beside a curve."""
_ACCURACIES = (0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
TRANSLATED = (
    "On top: the accuracy that such a slope gives an item which, if clean, would be solved half of"
    " the time."
)
_SILENT = (
    Overfitting.INCONCLUSIVE, Overfitting.BORROWED, Overfitting.OPPOSITE, Overfitting.NO_VARIATION,
)  # fmt: skip
_ASSUMED_SIGNS = (Overfitting.SIGN_ASSUMED, Overfitting.BY_REFERENCE)
_FLAT = (Overfitting.CLEAN, Overfitting.NONE, Overfitting.NO_VARIATION)
"""Verdicts on pairs without a curve: what contamination does to them is not estimated."""
_COLOURS = LinearSegmentedColormap.from_list("effect", [BLUE, "#ffffff", ORANGE])
_DASHED, _DOTTED = (0, (3, 2)), (0, (1, 1.5))
_ASSUMED = "assumed: contaminated items are   easier  ←  0  →  harder   (log-odds)"


@style()
def slopes(fit: Fit, table: pd.DataFrame) -> Picture | None:
    """Draw each slope with its interval, by verdict; None without contamination."""
    if table.empty:
        return None
    shown, note = part(table, "slope", "slopes")
    log_odds = fit.spec.contamination.scale == "log_odds"
    columns = {"slope": "mean", "slope_low": "low", "slope_high": "high", "verdict": "kind"}
    xlabel = "slope (log-odds)" if log_odds else "slope (accuracy)"
    intervals = shown.rename(columns=columns)
    figure, axes = interval_panels(intervals, by_score(shown, "slope"), xlabel, raw=False)
    for axis in axes:
        axis.axvline(0, color=INK, lw=0.8)
        if log_odds:
            _translate(axis)
    verdict_legend(figure, shown["verdict"], "Slope", raw=False)
    counts = shown["verdict"].value_counts()
    alt = (
        f"Interval plot of {len(shown)} slopes, means from {numbers(shown['slope'])};"
        f" {', '.join(f'{n} {kind}' for kind, n in counts.items())}."
    )
    caption = (
        f"{'Log-odds of a correct answer' if log_odds else 'Accuracy'} gained from surely clean to"
        f" surely contaminated, with {level_text(fit.level)} intervals. The line at 0: no effect of"
        f" contamination.{f' {TRANSLATED}' if log_odds else ''}{note}"
    )
    return finish(figure, "slopes", "Contamination slopes", alt, caption)


def _translate(axis: Any) -> None:
    """Write on top what a slope means for an item that is solved half of the time."""
    low, high = axis.get_xlim()
    marks = [p for p in _ACCURACIES if low <= np.log(p / (1 - p)) <= high]
    top = axis.secondary_xaxis("top")
    places = [np.log(p / (1 - p)) for p in marks]
    top.set_xticks(places, [f"{p:g}" for p in marks], fontsize=8, color=GREY)
    top.tick_params(length=2.5, color=GREY)
    top.spines["top"].set_visible(False)


@style()
def effect_map(table: pd.DataFrame, value: str, verdict: str, file: str) -> Picture | None:
    """Draw an effect of every model on every benchmark as colours."""
    models, benchmarks, note = _axes(table, value)
    if min(len(models), len(benchmarks)) < 2 or table[value].isna().all():
        return None
    index = {"index": "model", "columns": "benchmark"}
    cells = table.pivot(values=value, **index).reindex(models)[benchmarks]
    kinds = table.pivot(values=verdict, **index).reindex(models)[benchmarks]
    words = effect_words(value)
    figure = new_figure(WIDTH, 1.9 + 0.125 * len(models))
    axis = figure.subplots()
    _cells(figure, axis, cells, words)
    marks = []
    dot: dict[str, Any] = {"marker": "o", "color": INK, "ms": 1.7}
    cross: dict[str, Any] = {"marker": "x", "color": GREY, "ms": 2.6, "mew": 0.6}
    down: dict[str, Any] = {"marker": "v", "color": INK, "ms": 2.2}
    square: dict[str, Any] = {"marker": "s", "color": GREY, "ms": 2.6, "mew": 0.6, "mfc": "none"}
    for wanted, look, label in (
        ((Overfitting.SHOWN,), dot, f"{words} shown"),
        ((Overfitting.LOWERED,), down, "score lowered"),
        (_SILENT, cross, "inconclusive, borrowed, opposite sign or no variation"),
        (_ASSUMED_SIGNS, square, "sign assumed, or by the reference"),
    ):
        y, x = np.nonzero(kinds.isin([str(kind) for kind in wanted]).to_numpy())
        if not len(y):
            continue
        axis.plot(x + 0.5, y + 0.5, ls="none", **look)
        marks.append(mark(label, **look | {"ms": 4}))
    legend(figure, marks)
    caption = (
        f"Posterior mean of {words} of each model on each benchmark; models and benchmarks by"
        f" their mean, the largest first. A dot: {words} is shown. A triangle: contamination"
        " lowered the score. A cross: inconclusive, borrowed from other pairs, of a sign that"
        " memory does not explain, or contamination does not vary. A square: the model spec or the"
        " reference decides its sign. With a cross or a square the colour is no finding. No mark:"
        f" at most small, or zero by definition.{note}{f' All: {in_file(file)}.' if note else ''}"
    )
    title, alt = f"Every pair: {words}", _map_alt(cells, kinds, words)
    return finish(figure, f"{value.replace('_', '-')}-map", title, alt, caption, raster=True)


def _axes(table: pd.DataFrame, value: str) -> tuple[list[str], list[str], str]:
    """Return models and benchmarks that are drawn, in order, and a note on the others."""
    note, drawn = "", []
    for dim, most in (("model", MOST_ROWS), ("benchmark", MOST_COLUMNS)):
        size = table[value].abs().groupby(table[dim], sort=False).max()
        largest = set(size.sort_values(ascending=False, kind="stable").index[:most])
        means = table.groupby(dim, sort=False)[value].mean().sort_values(ascending=False)
        drawn.append([str(name) for name in means.index if name in largest])
        note += note_of(len(drawn[-1]), len(means), f"{dim}s", f"largest {effect_words(value)}")
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


@style()
def dose_response(fit: Fit, headline: pd.DataFrame) -> Picture | None:
    """Draw accuracy as a function of contamination, over the observed scores."""
    if "curves" not in fit.data:
        return None
    curves = fit.data["curves"].to_dataset()
    spread = curves["contamination"].isel(point=-1) - curves["contamination"].isel(point=0)
    varying = [str(b) for b in spread["benchmark"].values[spread.to_numpy() > 0]]
    pairs = headline[headline["benchmark"].isin(varying)]
    names = EffectNames.among(headline)
    assert names is not None
    pairs = pairs[~pairs[names.verdict].isin(_FLAT)]
    if pairs.empty:
        return None
    order = pairs[names.overfitting].abs().sort_values(ascending=False, kind="stable").index
    shown = pairs.loc[order[:MOST_PAIRS], ["model", "benchmark"]]
    observed, dotted = observed_scores(fit), 0
    figure, axes = panels(
        _titles(shown, pairs), 4, _height(len(shown)), ylabel="accuracy", sharex=True, sharey=True,
        xlabel="contamination",
    )  # fmt: skip
    for axis, (model, benchmark) in zip(axes, shown.to_numpy(), strict=True):
        points = observed.loc[[(model, benchmark)]]
        curve = curves.sel(model=model, benchmark=benchmark)
        values = points["contamination"].nunique()
        dots = len(points) == values <= 2 and (points["lowest"] == points["highest"]).all()
        (_dots if dots else _curve)(axis, curve, points)
        dotted += int(dots)
    effect = effect_words(names.overfitting)
    note = note_of(len(shown), len(pairs), "pairs", f"largest {effect}")
    note += f" All: {in_file('curves')}." if note else ""
    caption = (
        f"{_legend_text(fit, dotted, len(shown))} Contaminated items may differ from clean ones in"
        f" difficulty, so that observed scores need not agree with these means.{note}"
    )
    rise = headline.loc[order[0]]
    ends = curves["mean"].sel(model=rise["model"], benchmark=rise["benchmark"]).to_numpy()
    alt = (
        f"Dose-response curves of {len(shown)} pairs of model and benchmark. Largest"
        f" {effect}: {plain_labels([rise['model']])[0]}, whose curve goes from"
        f" {ends[0]:.2f} to {ends[-1]:.2f}."
    )
    return finish(figure, "dose-response", "Dose-response curves", alt, caption)


def _titles(shown: pd.DataFrame, every: pd.DataFrame) -> list[str]:
    """Return titles of panels: models, with benchmarks where there are several."""
    names = ["model", "benchmark"] if every["benchmark"].nunique() > 1 else ["model"]
    return ["\n".join(plain_labels(row, 24)) for row in shown[names].to_numpy().tolist()]


def _height(count: int) -> float:
    return 2.15 if count > 3 else 2.8


def _legend_text(fit: Fit, dotted: int, shown: int) -> str:
    """Return what lines, dots and circles are."""
    level, values = level_text(fit.level), "mean accuracy if all items had that contamination, with"
    texts = []
    if dotted < shown:
        texts.append(
            f"Line: {values} its {level} band; dashed outside what was observed for the model."
        )
    if dotted:
        where = ", where contamination has two values only" if dotted < shown else ""
        texts.append(f"Dots{where}: {values} {level} intervals.")
    bins = "at each value" if dotted == shown else f"of up to {BINS} bins of items"
    texts.append(
        f"Circles: observed scores {bins}, with 95 % intervals, at their {contamination_name(fit)}."
    )
    return " ".join(texts)


def contamination_name(fit: Fit) -> str:
    """Return what items are placed by where they have one contamination each."""
    return (
        "contamination" if fit.spec.contamination.exposure == "known" else "expected contamination"
    )


def _dots(axis: Any, curve: Any, points: pd.DataFrame) -> None:
    """Draw means at the two values of contamination: between them nothing was observed."""
    x, grid_points = points["contamination"].to_numpy(), curve["contamination"].to_numpy()
    low, mean, high = (np.interp(x, grid_points, curve[name]) for name in ("low", "mean", "high"))
    aside = 0.03 * max(np.ptp(x), 1e-9)
    bars = np.clip([mean - low, high - mean], 0, None)
    axis.errorbar(x - aside, mean, bars, fmt="o", ms=4.5, color=BLUE, lw=1.6)
    _observed(axis, x + aside, points)
    axis.set_xticks(x)
    axis.margins(x=0.2)


def _curve(axis: Any, curve: Any, points: pd.DataFrame) -> None:
    x, mean = curve["contamination"].to_numpy(), curve["mean"].to_numpy()
    low, high = points["lowest"].min(), points["highest"].max()
    seen = (x >= low - 1e-9) & (x <= high + 1e-9)
    band(axis, x, curve["low"], curve["high"])
    axis.plot(x, mean, color=BLUE, ls=_DASHED, lw=1.1)
    axis.plot(np.where(seen, x, np.nan), mean, color=BLUE, lw=1.8)
    _observed(axis, points["contamination"], points)


def _observed(axis: Any, x: Any, points: pd.DataFrame) -> None:
    look = {"fmt": "o", "ms": 4, "color": INK, "mfc": "white", "lw": 0.9, "mew": 1.0}
    axis.errorbar(x, points["score"], whiskers(points), **look)


def whiskers(points: pd.DataFrame) -> np.ndarray:
    """Return by how far the 95 % intervals of observed scores reach down and up."""
    # Wilson's, of as many answers as the standard error amounts to. Where all items have one score
    # it is 0, or there is one item: the interval is that of so many items.
    score, error = points["score"], points["error"]
    variance = (score * (1 - score)).where(error > 0)
    count = (variance / error**2).fillna(points["items"].clip(lower=1))
    z = 1.96
    center = (score + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * np.sqrt(score * (1 - score) / count + (z / (2 * count)) ** 2) / (1 + z**2 / count)
    return np.clip([score - center + half, center + half - score], 0, None)


def observed_scores(fit: Fit) -> pd.DataFrame:
    """Return observed scores in bins of contamination, for each model and benchmark."""
    data = fit.data["constant_data"].to_dataset()
    keys = ["model", "benchmark"]
    score = fit.data["observed_data"]["n_correct"].to_numpy() / data["n_trials"].to_numpy()
    frame = pd.DataFrame(
        {name: data[name].to_numpy()[data[f"{name}_of_response"].to_numpy()] for name in keys}
    ).assign(contamination=data["contamination"].to_numpy(), score=score)
    frame["bin"] = frame.groupby(keys, sort=False)["contamination"].transform(_bins)
    frame["items"] = data["weight"].to_numpy()
    frame["right"] = score * frame["items"]
    points = frame.groupby([*keys, "bin"], sort=False).agg(
        contamination=("contamination", "mean"),
        right=("right", "sum"),
        error=("score", "sem"),
        items=("items", "sum"),
        lowest=("contamination", "min"),
        highest=("contamination", "max"),
    )
    points["score"] = points["right"] / points["items"]
    if fit.spec.likelihood.trials == "items":
        points["error"] = np.sqrt(points["score"] * (1 - points["score"]) / points["items"])
    points["items"] = points["items"].astype(int)
    return points.drop(columns="right").reset_index("bin", drop=True).sort_index(kind="stable")


def _bins(values: "pd.Series[float]") -> np.ndarray:
    edges = np.unique(values)
    if len(edges) > BINS:
        edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[:-1]))
    return np.searchsorted(edges, values, side="right") - 1


@style()
def prior_posterior(fit: Fit, slopes: pd.DataFrame) -> Picture | None:
    """Draw slopes before and after the data; None where none is estimated."""
    # Slopes of clean models are zero by assumption, and one that is fixed has no density.
    slopes = slopes[slopes["sd"] > 1e-12]
    if slopes.empty:
        return None
    order = slopes["contraction"].sort_values(kind="stable").index
    shown = slopes.loc[order[:MOST_PAIRS]]
    before, after = (
        fit.data[group].to_dataset()["slope"] for group in ("prior_estimands", "estimands")
    )
    looks: dict[str, dict[str, Any]] = {
        "prior": {"color": GREY, "ls": "--", "lw": 1.2},
        "posterior": {"color": BLUE, "lw": 1.6},
    }
    figure, axes = panels(_titles(shown, slopes), 4, 1.7, xlabel="slope", sharex=True)
    for axis, row in zip(axes, shown.itertuples(), strict=True):
        for draws, look in zip((before, after), looks.values(), strict=True):
            values = draws.sel(model=row.model, benchmark=row.benchmark).to_numpy().ravel()
            low, high = np.quantile(values, [0.002, 0.998])
            x, density, _ = array_stats.kde(values[(values >= low) & (values <= high)])
            axis.plot(x, density, **look)
        axis.axvline(0, color=ORANGE, lw=0.8)
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
    legend(figure, [mark(label, **look) for label, look in looks.items()])
    note = note_of(len(shown), len(slopes), "slopes", "least changed by the data")
    note += f" All: {in_file('slopes')}." if note else ""
    alt = (
        f"Prior and posterior densities of {len(shown)} slopes: prior sd"
        f" {numbers(shown['prior_sd'])}, posterior sd {numbers(shown['sd'])}."
    )
    caption = (
        f"Where the two are alike, the data hold little information and the prior decides.{note}"
    )
    return finish(figure, "prior-posterior", "Slopes: prior and posterior", alt, caption)


@style()
def confounding_curves(fit: Fit, curves: xr.Dataset, rows: pd.DataFrame, letter: str) -> Picture:
    """Draw estimates of one benchmark along the assumed difficulty of contaminated items."""
    benchmark, level = rows["benchmark"].iloc[0], level_text(fit.level)
    names = EffectNames.among(rows)
    assert names is not None
    ability, effect = effect_words(names.ability), effect_words(names.overfitting)
    order = rows[names.overfitting].abs().sort_values(ascending=False, kind="stable").index
    shown = rows.loc[order[:MOST_PAIRS]].sort_index()
    here, own = curves.sel(benchmark=benchmark), float(curves["own_location"])
    several = "own" in curves["changed"]
    looks = {names.ability: BLUE, names.overfitting: ORANGE}
    titles = [plain_labels([model], 24)[0] for model in shown["model"]]
    figure, axes = panels(
        titles, 4, _height(len(shown)), ylabel="accuracy", sharex=True, sharey=True
    )
    for axis, model in zip(axes, shown["model"], strict=True):
        _along(axis, here.sel(model=model), own, several, looks)
    reach = here.sel(model=shown["model"].tolist())[["reach_low", "reach_high"]]
    ends = np.array([reach["reach_low"].min(), reach["reach_high"].max()])
    pad = max(0.05 * np.ptp(ends), 0.05)
    axes[0].set_xlim(ends[0] - pad, ends[1] + pad)  # of all panels
    figure.supxlabel(_ASSUMED, fontsize=9.5)
    marks = [mark(effect_words(name), color=color, lw=1.8) for name, color in looks.items()]
    marks.append(mark("location of the model spec", color=GREY, ls=_DASHED))
    if several:
        marks.append(mark("only this benchmark's prior moved", color=INK, lw=1.1, ls=_DOTTED))
    sign = f"sign of {effect}: certain on one side only"
    legend(figure, [*marks, mark(sign, marker="D", mfc="white", mec=INK)])
    label = plain_labels([benchmark])[0]
    first = shown.iloc[int(shown[names.overfitting].abs().to_numpy().argmax())]
    alt = (
        f"{effect_head(names.ability)} and {effect} of {plural(len(shown), 'model')} on {label}"
        f" along the assumed difficulty of contaminated items. Largest {effect} at"
        f" {number(own, 2)}: {plain_labels([first['model']])[0]},"
        f" {number(first[names.overfitting])}; its sign is"
        f" {first['sign']}, within {number(first['reach_low'], 2)} to"
        f" {number(first['reach_high'], 2)}."
    )
    priors = "priors of kappa of all benchmarks have" if several else "prior of kappa has"
    caption = (
        f"Lines: {ability} and {effect} if the {priors} that location, with {level}"
        f" bands.{' Dotted: only that of this benchmark has.' if several else ''} Lines end where"
        f" the draws of this fit become too few. Diamond: where the sign of {effect} becomes"
        f" certain or uncertain.{note_of(len(shown), len(rows), 'models', f'largest {effect}')}"
    )
    title = f"{label}: if contaminated items are assumed to be easier or harder"
    return finish(figure, f"confounding-{letter}", title, alt, caption)


def _along(axis: Any, curve: xr.Dataset, own: float, several: bool, looks: dict[str, str]) -> None:
    x, together = curve["location"].to_numpy(), curve.sel(changed="all")
    axis.axhline(0, color=INK, lw=0.8)
    axis.axvline(own, color=GREY, lw=1.0, ls=_DASHED)
    for name, color in looks.items():
        band(axis, x, together[f"{name}_low"], together[f"{name}_high"], color)
        if several:
            axis.plot(x, curve[name].sel(changed="own"), color=color, lw=1.1, ls=_DOTTED)
        axis.plot(x, together[name], color=color, lw=1.8)
    at = float(together["sign_at"])
    if np.isfinite(at):
        known = together[list(looks)[-1]].dropna("location")
        height = np.interp(at, known["location"], known)
        axis.plot(at, height, "D", mfc="white", mec=INK, ms=6, mew=1.3, zorder=5)
