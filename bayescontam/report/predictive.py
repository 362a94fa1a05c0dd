"""Figures of replicated and left-out data beside the observed."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.lines import Line2D

from bayescontam.inference.result import Fit
from bayescontam.report.fit_figures import (
    MOST_BENCHMARKS,
    RAW,
    by_score,
    name_models,
    note_of,
    part,
)
from bayescontam.report.format import contamination_name, in_file
from bayescontam.report.plots import (
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
_TAILS = {"low_99": 0.005, "low_95": 0.025, "median": 0.5, "high_95": 0.975, "high_99": 0.995}
"""Quantiles of replicated scores, by column."""


def predictive_pictures(fit: Fit) -> list[Picture]:
    """Draw observed against replicated scores, the LOO-PIT and Pareto k."""
    pictures = [_scores(predicted_scores(fit))]
    if "binned" in fit.tree["predictive"]:
        pictures.append(_bins(predicted_bins(fit), contamination_name(fit)))
    loo = fit.tree["loo"].to_dataset()
    return [*pictures, _pit(loo), _pareto(loo, fit.record["thresholds"]["pareto_k"])]


def predicted_scores(fit: Fit) -> pd.DataFrame:
    """Return observed scores beside those of data replicated from the fit."""
    known = fit.tree["predictive"].to_dataset()
    return _beside(known["score"], known["score_replicated"], ["model", "benchmark"])


def predicted_bins(fit: Fit) -> pd.DataFrame:
    """Return the same for all models together, by benchmark and bin of contamination."""
    known = fit.tree["predictive"].to_dataset()
    if "binned" not in known:
        return pd.DataFrame()
    table = _beside(known["binned"], known["binned_replicated"], ["benchmark", "bin"])
    places = pd.MultiIndex.from_frame(table[["benchmark", "bin"]])
    x = known["bin_contamination"].transpose("benchmark", "bin").to_series().reindex(places)
    table.insert(2, "contamination", x.to_numpy())
    return table


def _beside(observed: xr.DataArray, replicated: xr.DataArray, dims: list[str]) -> pd.DataFrame:
    observed = observed.transpose(*dims)
    cells = replicated.transpose("replicate", *dims).to_numpy()
    present = observed.notnull().to_numpy()
    labels = [observed.get_index(dim) for dim in dims]
    table = pd.DataFrame(
        {dim: each[at] for dim, each, at in zip(dims, labels, np.nonzero(present), strict=True)}
    )
    table["score"], cells = observed.to_numpy()[present], cells[:, present]
    quantiles = np.quantile(cells, list(_TAILS.values()), axis=0)
    table = table.assign(**dict(zip(_TAILS, quantiles, strict=True)))
    spread = cells.std(axis=0)
    # Scores that cannot vary are no surprise.
    distance = np.abs(table["score"] - cells.mean(axis=0))
    table["surprise"] = np.divide(distance, spread, where=spread > 0, out=np.zeros(len(table)))
    return table


def _outside(table: pd.DataFrame) -> int:
    """Return how many observed scores are outside 95 % of the replicated ones."""
    return int(((table["score"] < table["low_95"]) | (table["score"] > table["high_95"])).sum())


def _scores(table: pd.DataFrame) -> Picture:
    shown, note = part(table, "surprise", "predicted")
    models, benchmarks = by_score(shown, "score"), list(dict.fromkeys(shown["benchmark"]))
    with style():
        height = 0.24 * len(models) + 0.75
        figure, axes = grid(len(benchmarks), 3, height, sharey=True, sharex=True)
        for axis, benchmark in zip(axes, benchmarks, strict=True):
            for row in shown[shown["benchmark"] == benchmark].itertuples():
                at = models.index(row.model)
                axis.hlines(at, row.low_99, row.high_99, color=PALE, lw=6)
                axis.hlines(at, row.low_95, row.high_95, color="#a6a6a6", lw=6)
                axis.plot(row.score, at, **RAW)
            axis.set_title(plain_labels([benchmark])[0])
            axis.tick_params(labelbottom=True)
            axis.set_xlabel("score")
        name_models(axes, models)
        _legend(figure, Line2D([], [], label="observed score", **RAW))
        counted = (
            f"{_outside(table):,} of {len(table):,} observed scores are outside the 95 % interval"
            " of replicated data."
        )
        alt = f"Observed scores against replicated ones: {counted}"
        caption = f"Bars: scores of data replicated from the fit. {counted}{note}"
        return finish(figure, "predicted-scores", "Predicted scores", alt, caption)


def _bins(table: pd.DataFrame, contamination: str) -> Picture:
    surprise = table.groupby("benchmark", sort=False)["surprise"].max()
    most = surprise.sort_values(ascending=False, kind="stable").index[:MOST_BENCHMARKS]
    names = [name for name in surprise.index if name in set(most)]
    note = note_of(len(names), len(surprise), "benchmarks", "largest surprise")
    note += f" All: {in_file('predicted-bins')}." if note else ""
    with style():
        figure, axes = grid(len(names), max(2, min(3, len(names))), 2.2)
        for axis, name in zip(axes, names, strict=True):
            rows = table[table["benchmark"] == name]
            x = rows["contamination"]
            axis.vlines(x, rows["low_99"], rows["high_99"], color=PALE, lw=6)
            axis.vlines(x, rows["low_95"], rows["high_95"], color="#a6a6a6", lw=6)
            axis.plot(x, rows["score"], **RAW)
            axis.set_title(plain_labels([name])[0])
            axis.set_xlabel(contamination)
            axis.set_ylabel("score")
            axis.margins(x=0.08)
        _legend(figure, Line2D([], [], label="observed score of a bin", **RAW))
        counted = (
            f"{_outside(table)} of {len(table)} observed ones are outside the 95 % interval of"
            " replicated data."
        )
        alt = f"Observed and replicated scores by contamination: {counted}"
        caption = (
            "All models together, items in bins of contamination. Observed scores that leave the"
            f" bars in a pattern are evidence against the form of the dose-response.{note}"
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
            "The quantile of each response in its prediction from all others. Inside the grey band"
            " (95 %, for the whole line): predictions are well calibrated. A slope up then down:"
            " predictions too high; an S: too narrow or too wide."
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
