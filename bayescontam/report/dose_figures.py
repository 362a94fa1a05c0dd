"""Figures of dose and response, and of slopes against their prior."""

from typing import Any

import numpy as np
import pandas as pd
from arviz_stats.base.array import array_stats

from bayescontam.inference.result import Fit
from bayescontam.inference.verdicts import Overfitting
from bayescontam.report.fit_figures import note_of
from bayescontam.report.format import contamination_name, in_file, level_text
from bayescontam.report.plots import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    Picture,
    finish,
    grid,
    numbers,
    plain_labels,
    style,
)

MOST_PAIRS = 12
BINS = 6
_FLAT = (Overfitting.CLEAN, Overfitting.NONE, Overfitting.NO_VARIATION)
"""Verdicts on pairs without a curve: what contamination does to them is not estimated."""


def dose_response(fit: Fit, headline: pd.DataFrame) -> Picture | None:
    """Draw accuracy as a function of contamination, over the observed scores."""
    if "curves" not in fit.tree:
        return None
    curves = fit.tree["curves"].to_dataset()
    spread = curves["contamination"].isel(point=-1) - curves["contamination"].isel(point=0)
    varying = [str(b) for b in spread["benchmark"].values[spread.to_numpy() > 0]]
    pairs = headline[headline["benchmark"].isin(varying)]
    pairs = pairs[~pairs["overfitting_verdict"].isin(_FLAT)]
    if pairs.empty:
        return None
    order = pairs["overfitting"].abs().sort_values(ascending=False, kind="stable").index
    shown = pairs.loc[order[:MOST_PAIRS], ["model", "benchmark"]]
    observed = observed_scores(fit)
    with style():
        columns = max(2, min(4, len(shown)))
        height, several = 2.15 if columns == 4 else 2.8, pairs["benchmark"].nunique() > 1
        figure, axes = grid(len(shown), columns, height, sharex=True, sharey=True)
        dotted = 0
        for axis, (model, benchmark) in zip(axes, shown.to_numpy(), strict=True):
            points = observed.loc[[(model, benchmark)]]
            curve = curves.sel(model=model, benchmark=benchmark)
            values = points["contamination"].nunique()
            dots = len(points) == values <= 2 and (points["lowest"] == points["highest"]).all()
            (_dots if dots else _curve)(axis, curve, points)
            dotted += int(dots)
            names = [model, benchmark] if several else [model]
            axis.set_title("\n".join(plain_labels(names, 24)))
            axis.tick_params(labelbottom=True)
        for axis in axes[::columns]:
            axis.set_ylabel("accuracy")
        note = note_of(len(shown), len(pairs), "pairs", "largest overfitting")
        note += f" All: {in_file('curves')}." if note else ""
        caption = _legend_text(fit, dotted, len(shown)) + (
            " Contaminated items may differ from clean ones in difficulty, so that observed scores"
            f" need not agree with these means.{note}"
        )
        rise = headline.loc[order[0]]
        ends = curves["mean"].sel(model=rise["model"], benchmark=rise["benchmark"]).to_numpy()
        alt = (
            f"Dose-response curves of {len(shown)} pairs of model and benchmark. Largest"
            f" overfitting: {plain_labels([rise['model']])[0]}, whose curve goes from"
            f" {ends[0]:.2f} to {ends[-1]:.2f}."
        )
        return finish(figure, "dose-response", "Dose-response curves", alt, caption)


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


def _dots(axis: Any, curve: Any, points: pd.DataFrame) -> None:
    """Draw means at the two values of contamination: between them nothing was observed."""
    x, grid_points = points["contamination"].to_numpy(), curve["contamination"].to_numpy()
    low, mean, high = (np.interp(x, grid_points, curve[name]) for name in ("low", "mean", "high"))
    aside = 0.03 * max(np.ptp(x), 1e-9)
    axis.errorbar(
        x - aside, mean, np.clip([mean - low, high - mean], 0, None), fmt="o", ms=4.5, color=BLUE,
        lw=1.6,
    )  # fmt: skip
    axis.errorbar(
        x + aside, points["score"], whiskers(points), fmt="o", ms=4, color=INK, mfc="white",
        lw=0.9, mew=1.0,
    )  # fmt: skip
    axis.set_xticks(x)
    axis.margins(x=0.2)
    axis.set_xlabel("contamination")


def _curve(axis: Any, curve: Any, points: pd.DataFrame) -> None:
    x, mean = curve["contamination"].to_numpy(), curve["mean"].to_numpy()
    low, high = points["lowest"].min(), points["highest"].max()
    seen = (x >= low - 1e-9) & (x <= high + 1e-9)
    axis.fill_between(x, curve["low"], curve["high"], color=BLUE, alpha=0.18, lw=0)
    axis.plot(x, mean, color=BLUE, ls=(0, (3, 2)), lw=1.1)
    axis.plot(np.where(seen, x, np.nan), mean, color=BLUE, lw=1.8)
    axis.errorbar(
        points["contamination"], points["score"], whiskers(points), fmt="o", ms=4,
        color=INK, mfc="white", lw=0.9, mew=1.0,
    )  # fmt: skip
    axis.set_xlabel("contamination")


def whiskers(points: pd.DataFrame) -> np.ndarray:
    """Return by how far the 95 % intervals of observed scores reach down and up, within [0, 1]."""
    half, score = 1.96 * points["error"], points["score"]
    return np.stack([np.minimum(half, score), np.minimum(half, 1 - score)])


def observed_scores(fit: Fit) -> pd.DataFrame:
    """Return observed scores in bins of contamination, for each model and benchmark."""
    data = fit.tree["constant_data"].to_dataset()
    names = {dim: np.asarray(data[dim].values, dtype=object) for dim in ("model", "benchmark")}
    frame = pd.DataFrame(
        {
            **{dim: names[dim][data[f"{dim}_of_response"].to_numpy()] for dim in names},
            "contamination": data["contamination"].to_numpy(),
            "score": fit.tree["observed_data"].to_dataset()["n_correct"] / data["n_trials"],
            "weight": data["weight"].to_numpy(),
        }
    )
    pairs = frame.groupby(["model", "benchmark"], sort=False)["contamination"]
    frame["bin"] = pairs.transform(_bins)
    frame["right"] = frame["score"] * frame["weight"]
    groups = frame.groupby(["model", "benchmark", "bin"], sort=False)
    points = groups.agg(
        contamination=("contamination", "mean"),
        right=("right", "sum"),
        error=("score", "sem"),
        items=("weight", "sum"),
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


def prior_posterior(fit: Fit, slopes: pd.DataFrame) -> Picture | None:
    """Draw slopes before and after the data; None where none is estimated."""
    slopes = slopes[slopes["sd"] > 0]  # those of clean models are zero by assumption
    if slopes.empty:
        return None
    slopes = slopes[slopes["sd"] > 1e-12]  # one that is fixed has no density
    if slopes.empty:
        return None
    order = slopes["contraction"].sort_values(kind="stable").index
    shown = slopes.loc[order[:MOST_PAIRS]]
    after = fit.tree["estimands"].to_dataset()["slope"]
    before = fit.tree["prior_estimands"].to_dataset()["slope"]
    with style():
        columns, several = max(2, min(4, len(shown))), slopes["benchmark"].nunique() > 1
        figure, axes = grid(len(shown), columns, 1.7, sharex=True)
        for axis, row in zip(axes, shown.itertuples(), strict=True):
            chosen = {"model": row.model, "benchmark": row.benchmark}
            draws = [d.sel(chosen).to_numpy().ravel() for d in (before, after)]
            _densities(axis, *draws)
            names = [row.model, row.benchmark] if several else [row.model]
            axis.set_title("\n".join(plain_labels(names, 24)))
            axis.tick_params(labelbottom=True)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=2)
        note = note_of(len(shown), len(slopes), "slopes", "least changed by the data")
        note += f" All: {in_file('slopes')}." if note else ""
        alt = (
            f"Prior and posterior densities of {len(shown)} slopes: prior sd"
            f" {numbers(shown['prior_sd'])}, posterior sd {numbers(shown['sd'])}."
        )
        caption = (
            "Where the two are alike, the data hold little information and the prior decides."
            f"{note}"
        )
        return finish(figure, "prior-posterior", "Slopes: prior and posterior", alt, caption)


def _densities(axis: Any, before: np.ndarray, after: np.ndarray) -> None:
    looks = (
        (before, {"label": "prior", "color": GREY, "ls": "--", "lw": 1.2}),
        (after, {"label": "posterior", "color": BLUE, "lw": 1.6}),
    )
    for draws, look in looks:
        low, high = np.quantile(draws, [0.002, 0.998])
        grid_points, density, _ = array_stats.kde(draws[(draws >= low) & (draws <= high)])
        axis.plot(grid_points, density, **look)
    axis.axvline(0, color=ORANGE, lw=0.8)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.set_xlabel("slope")
