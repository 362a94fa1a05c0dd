"""Figures of prediction: whether replicated and left-out data look like the observed ones."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.lines import Line2D

from bayescontam.inference.fitted import Fitted
from bayescontam.report import words
from bayescontam.report.figures import MOST_BENCHMARKS, RAW, by_score, name_models, part
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
    new_figure,
    numbers,
    plain_labels,
    style,
)

MOST_POINTS = 20_000
_TAILS = [0.005, 0.025, 0.5, 0.975, 0.995]


def predictive_pictures(fit: Fitted, headline: pd.DataFrame) -> list[Picture]:
    """Draw observed against replicated scores, the LOO-PIT and Pareto k.

    Parameters
    ----------
    fit : Fitted
    headline : pandas.DataFrame
        From `bayescontam.report.tables.headline`.
    """
    predictive = fit.tree["predictive"].to_dataset()
    pictures = [_scores(predictive, headline)]
    if "binned" in predictive:
        pictures.append(_bins(predictive, words.contamination_name(fit)))
    loo = fit.tree["loo"].to_dataset()
    return [*pictures, _pit(loo), _pareto(loo, fit.record["thresholds"]["pareto_k"])]


def _scores(predictive: xr.Dataset, headline: pd.DataFrame) -> Picture:
    shown, note = part(headline, "raw_accuracy")
    models, benchmarks = by_score(shown, "raw_accuracy"), list(dict.fromkeys(shown["benchmark"]))
    answered = predictive["score"].notnull()
    # Cells without answers: any number will do, they are not drawn.
    replicated = predictive["score_replicated"].where(answered, 0.0)
    tails = replicated.quantile(_TAILS, "replicate").transpose("quantile", "model", "benchmark")
    with style():
        height = 0.24 * len(models) + 0.75
        figure, axes = grid(len(benchmarks), 3, height, sharey=True, sharex=True)
        for axis, benchmark in zip(axes, benchmarks, strict=True):
            for row in shown[shown["benchmark"] == benchmark].itertuples():
                at = models.index(row.model)
                cell = tails.sel(model=row.model, benchmark=benchmark).to_numpy()
                axis.hlines(at, cell[0], cell[4], color=PALE, lw=6)
                axis.hlines(at, cell[1], cell[3], color="#a6a6a6", lw=6)
                axis.plot(row.raw_accuracy, at, **RAW)
            axis.set_title(plain_labels([benchmark])[0])
            axis.tick_params(labelbottom=True)
            axis.set_xlabel("score")
        name_models(axes, models)
        _legend(figure, Line2D([], [], label="observed score", **RAW))
        observed = predictive["score"].to_numpy()
        outside = (observed < tails[1]) | (observed > tails[3])
        alt = (
            f"Observed scores against replicated ones: {int(outside.sum())} of"
            f" {int(answered.sum())} observed scores are outside the 95 % interval of replicated"
            " data."
        )
        caption = f"Bars: where scores of data replicated from the fit lie.{note}"
        return finish(figure, "predicted-scores", "Predicted scores", alt, caption)


def _bins(predictive: xr.Dataset, contamination: str) -> Picture:
    names = [str(b) for b in predictive["benchmark"].values][:MOST_BENCHMARKS]
    note = ""
    if predictive.sizes["benchmark"] > len(names):
        note = f" Only the first {len(names)} of {predictive.sizes['benchmark']} are drawn."
    outside = total = 0
    with style():
        figure, axes = grid(len(names), max(2, min(3, len(names))), 2.2)
        for axis, name in zip(axes, names, strict=True):
            cell = predictive.sel(benchmark=name)
            kept = np.flatnonzero(cell["binned"].notnull().to_numpy())
            x = cell["bin_contamination"].to_numpy()[kept]
            observed = cell["binned"].to_numpy()[kept]
            replicated = cell["binned_replicated"].transpose("replicate", "bin").to_numpy()[:, kept]
            low99, low, _, high, high99 = np.quantile(replicated, _TAILS, axis=0)
            axis.vlines(x, low99, high99, color=PALE, lw=6)
            axis.vlines(x, low, high, color="#a6a6a6", lw=6)
            axis.plot(x, observed, **RAW)
            axis.set_title(plain_labels([name])[0])
            axis.set_xlabel(contamination)
            axis.set_ylabel("score")
            axis.margins(x=0.08)
            outside += int(((observed < low) | (observed > high)).sum())
            total += len(kept)
        _legend(figure, Line2D([], [], label="observed score of a bin", **RAW))
        alt = (
            f"Observed and replicated scores by contamination: {outside} of {total} observed ones"
            " are outside the 95 % interval of replicated data."
        )
        caption = (
            "All models together, items in bins of contamination. Observed scores that leave the"
            f" bars in a pattern speak against the form of the dose-response.{note}"
        )
        title = "Predicted scores by contamination"
        return finish(figure, "predicted-bins", title, alt, caption)


def _legend(figure: Any, observed: Line2D) -> None:
    bars = [
        Line2D([], [], color="#a6a6a6", lw=6, label="95 % of replicated data"),
        Line2D([], [], color=PALE, lw=6, label="99 %"),
    ]
    figure.legend(handles=[observed, *bars], loc="outside upper left", ncols=3)


def _pit(loo: xr.Dataset) -> Picture:
    pit = np.sort(loo["pit"].to_numpy())
    count = len(pit)
    difference = np.arange(1, count + 1) / count - pit
    band = np.sqrt(np.log(2 / 0.05) / (2 * count))
    with style():
        figure = new_figure(WIDTH * 0.62, 2.5)
        axis = figure.subplots()
        axis.fill_between([0, 1], -band, band, color=PALE, lw=0)
        axis.axhline(0, color=GREY, lw=0.8)
        step = max(1, count // 2000)
        axis.plot(pit[::step], difference[::step], color=BLUE)
        axis.set_xlabel("probability integral transform of left-out responses")
        axis.set_ylabel("ECDF − uniform")
        most = float(np.abs(difference).max())
        alt = (
            f"Difference between the distribution of {count:,} LOO-PIT values and a uniform one:"
            f" at most {most:.3f}, where {band:.3f} is the limit of a 95 % band."
        )
        caption = (
            "Where each response lies in what is predicted for it from all others. Inside the grey"
            " band (95 %, for the whole line): predictions are as spread as they should be. A"
            " slope up then down: predictions too high; an S: too narrow or too wide."
        )
        return finish(figure, "loo-pit", "Leave-one-out calibration (LOO-PIT)", alt, caption)


def _pareto(loo: xr.Dataset, limit: float) -> Picture:
    k = loo["pareto_k"].to_numpy()
    shown = np.sort(np.argsort(-k, kind="stable")[:MOST_POINTS])
    bad = k[shown] > limit
    with style():
        figure = new_figure(WIDTH * 0.62, 2.3)
        axis = figure.subplots()
        axis.plot(shown[~bad], k[shown][~bad], ".", color=BLUE, ms=2.5, alpha=0.6)
        axis.plot(shown[bad], k[shown][bad], "x", color=ORANGE, ms=5)
        axis.axhline(limit, color=INK, lw=0.8, ls="--")
        axis.set_xlabel("response")
        axis.set_ylabel("Pareto k")
        alt = (
            f"Pareto k of {len(k):,} responses, {numbers(k)}; {int((k > limit).sum())} are above"
            f" {limit:g}."
        )
        note = f" Only the largest {MOST_POINTS:,} are drawn." if len(k) > MOST_POINTS else ""
        caption = (
            "How much single responses weigh on the fit. Above the dashed line (crosses),"
            f" leave-one-out figures of the response are not reliable.{note}"
        )
        return finish(figure, "pareto-k", "Pareto k", alt, caption, raster=True)
