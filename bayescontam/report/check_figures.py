"""Figures that check a fit: chains, replicated data, and predictions of left-out responses."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from arviz_base.labels import NoVarLabeller
from matplotlib.ticker import MaxNLocator

from bayescontam.inference.convergence import MIXING, convergence
from bayescontam.inference.psis import max_pareto_k
from bayescontam.inference.result import Fit
from bayescontam.inference.tables import predicted_bins, predicted_scores
from bayescontam.model.build import COORDINATES
from bayescontam.report.ability_figures import MOST_BENCHMARKS, by_score, part
from bayescontam.report.effect_figures import contamination_name
from bayescontam.report.format import in_file
from bayescontam.report.plots import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PALE,
    WIDTH,
    Picture,
    finish,
    name_rows,
    new_figure,
    note_of,
    numbers,
    panels,
    plain_labels,
    replicated,
    replicated_legend,
    style,
)

WORST = 6
"""Quantities in trace, rank and ESS pictures."""
MOST_POINTS = 20_000
"""Responses in the picture of Pareto k."""
_TITLE = {"size": 8}
_WRAPPED = (az.plot_trace, az.plot_rank, az.plot_ess)


@dataclass(frozen=True)
class _DrawsPart:
    """Draws of one parameter or estimand, dims (chain, draw, element)."""

    group: str
    name: str
    labels: list[str]
    cells: np.ndarray

    @property
    def heads(self) -> np.ndarray:
        """The first draws, enough to distinguish which elements are equal draw by draw."""
        return self.cells.reshape(-1, self.cells.shape[-1])[:64]


def convergence_table(
    fit: Fit, estimands: pd.DataFrame | None = None
) -> tuple[pd.DataFrame, xr.DataArray]:
    """Return convergence figures of parameters and estimands, and draws of the worst.

    Dims (chain, draw, quantity).

    Effects of single items are not among them: they are many, and checked with the fit.
    """
    estimands = fit.estimands() if estimands is None else estimands
    parts = list(_parts(fit))
    first = _first_of_equals(np.concatenate([part.heads for part in parts], axis=1))
    ends = np.cumsum([part.cells.shape[-1] for part in parts])
    masks = [_moving(part.cells) & each
             for part, each in zip(parts, np.split(first, ends[:-1]), strict=True)]  # fmt: skip
    tables = [
        _figures(*each, estimands) for each in zip(parts, masks, strict=True) if each[1].any()
    ]
    # Without any, the first one gives the columns.
    table = pd.concat(tables or [_figures(parts[0], masks[0], estimands)], ignore_index=True)
    least = table[["ess_bulk", "ess_tail"]].min(axis=1).fillna(0)
    order = np.lexsort([least, -table["r_hat"].fillna(np.inf).clip(lower=1.01)])
    table = table.iloc[order]
    cells = [parts[i].cells[..., j] for i, j in _places(masks, order[:WORST])]
    shape = (*parts[0].cells.shape[:2], 0)
    draws = np.stack(cells, axis=-1) if cells else np.empty(shape)
    return table.reset_index(drop=True), xr.DataArray(draws, dims=("chain", "draw", "quantity"))


def _parts(fit: Fit) -> Iterator[_DrawsPart]:
    for group in ("posterior", "estimands"):
        for name, values in fit.data[group].to_dataset().data_vars.items():
            if name in ("rank", *COORDINATES):
                continue
            if (group, name) == ("estimands", "slope"):
                continue  # the same as the parameter beta
            cells = values.to_numpy().reshape(*values.shape[:2], -1)
            yield _DrawsPart(group, str(name), _labels(str(name), values), cells)


def _moving(cells: np.ndarray) -> np.ndarray:
    """Return which elements are known and not constant."""
    return ~np.isnan(cells).any(axis=(0, 1)) & (np.ptp(cells, axis=(0, 1)) > 0)


def _figures(part: _DrawsPart, mask: np.ndarray, estimands: pd.DataFrame) -> pd.DataFrame:
    """Return name and figures of the elements of the mask; estimands have theirs already."""
    names = [label for label, keep in zip(part.labels, mask, strict=True) if keep]
    if part.group == "estimands":
        # Elements are in the order of the rows, which lack only those without answers.
        known = ~np.isnan(part.cells).all(axis=(0, 1))
        rows = estimands[estimands["quantity"] == part.name]
        rows = rows[rows["concept"] == ""] if "concept" in rows else rows
        figures = {name: rows[name].to_numpy(float)[mask[known]] for name in MIXING}
    else:
        figures = convergence(part.cells[..., mask], MIXING)
    return pd.DataFrame({"quantity": names} | {name: figures[name] for name in MIXING})


def _places(masks: list[np.ndarray], rows: np.ndarray) -> list[tuple[int, int]]:
    """Return part and element of rows of the table that the masks make."""
    every = [(i, int(j)) for i, mask in enumerate(masks) for j in np.flatnonzero(mask)]
    return [every[row] for row in rows]


def _first_of_equals(heads: np.ndarray) -> np.ndarray:
    """Return which columns do not repeat an earlier one, draw by draw."""
    first = np.zeros(heads.shape[1], dtype=bool)
    first[np.unique(np.nan_to_num(heads), axis=1, return_index=True)[1]] = True
    return first


def _labels(name: str, values: xr.DataArray) -> list[str]:
    places = [""]
    for dim in values.dims[2:]:
        known = values[dim].values if dim in values.coords else range(values.sizes[dim])
        names = plain_labels(known, 14)
        places = [f"{place}, {label}" if place else label for place in places for label in names]
    return [f"{name}[{place}]" if place else name for place in places]


def sampling_pictures(fit: Fit, table: pd.DataFrame, draws: xr.DataArray) -> list[Picture]:
    """Draw ArviZ's trace, rank, ESS, energy and pair pictures of the worst mixing quantities."""
    worst = table.head(WORST)
    names = ", ".join(worst["quantity"])
    tree = _tree(fit, draws, list(worst["quantity"]))
    shown = (
        f"The {len(worst)} slowest-mixing of {len(table):,} parameters and estimands, in the order"
        " of the table above."
    )
    seen = f"Bulk ESS {numbers(worst['ess_bulk'], 0)}, R-hat {numbers(worst['r_hat'], 3)}."
    diverging = int(tree["sample_stats"]["diverging"].sum())
    trace = _arviz(
        az.plot_trace, tree, "trace", "Traces",
        f"Trace plots of {names}. {seen} {diverging} divergent transitions.",
        f"{shown} Each colour is a chain; good traces look like noise around one level.",
        WIDTH, 1.45, visuals={"trace": {"width": 0.5, "alpha": 0.75}, "title": _TITLE},
    )  # fmt: skip
    step = _thinning(worst, draws)
    rank = _arviz(
        az.plot_rank, tree.isel(draw=slice(None, None, step)), "rank-plot", "Rank plots",
        f"Rank plots by chain of {names}. {seen}",
        f"{shown} Ranks of each chain's draws among all draws, as difference from uniform; draws"
        f" are thinned by {step}, so that they are nearly independent. A small p says that chains"
        " disagree, and black points where.",
        WIDTH, 1.6, visuals={"title": _TITLE},
    )  # fmt: skip
    ess = _arviz(
        az.plot_ess, tree, "ess", "Effective sample size",
        f"Local effective sample size of {names}; bulk ESS {numbers(worst['ess_bulk'], 0)}.",
        f"{shown} Effective number of draws for small intervals over the distribution; the dashed"
        " line is the required number.",
        WIDTH, 1.6, kind="local", visuals={"title": _TITLE},
        min_ess=fit.record["thresholds"]["ess"],
    )  # fmt: skip
    return [trace, rank, ess, _energy(fit, tree), *_pair(tree, worst, diverging)]


def _thinning(worst: pd.DataFrame, draws: xr.DataArray) -> int:
    """Return how many draws apart the draws of all quantities are nearly independent."""
    least = float(worst[["ess_bulk", "ess_tail"]].min().min())
    step = int(np.ceil(draws.sizes["chain"] * draws.sizes["draw"] / max(least, 1)))
    return max(1, min(step, draws.sizes["draw"] // 50))


def _energy(fit: Fit, tree: xr.DataTree) -> Picture:
    bfmi = az.bfmi(tree)["energy"].to_numpy()
    return _arviz(
        az.plot_energy, tree, "energy", "Energy",
        f"Marginal energy and energy transitions; E-BFMI by chain {numbers(bfmi)}.",
        "Left: E-BFMI of each chain, which should be at least"
        f" {fit.record['thresholds']['e_bfmi']:g}. Right: the two distributions should be"
        " alike.",
        WIDTH, 2.4, rows=1, threshold=fit.record["thresholds"]["e_bfmi"],
    )  # fmt: skip


def _pair(tree: xr.DataTree, worst: pd.DataFrame, diverging: int) -> list[Picture]:
    if len(worst) < 2:
        return []
    first, second = worst["quantity"].iloc[:2]
    cells = tree["posterior"]["x"].to_numpy()
    pair = cells.reshape(-1, cells.shape[-1])[:, :2]
    together = np.corrcoef(pair.T)[0, 1]
    return [
        _arviz(
            az.plot_pair, tree.isel(quantity=slice(0, 2)), "pair", "The two slowest-mixing",
            f"Scatter plot of {first} and {second}: correlation {together:.2f}, {diverging}"
            " divergent draws.",
            "Funnels, ridges and clusters of divergent draws (crosses) show what the sampler finds"
            " hard.",
            5.2, 4.2, rows=1,
            visuals={
                "scatter": {"alpha": 0.25, "size": 3, "color": BLUE},
                "divergence": {"color": ORANGE, "marker": "x", "size": 18},
            },
        )
    ]  # fmt: skip


def _tree(fit: Fit, draws: xr.DataArray, names: list[str]) -> xr.DataTree:
    """Return draws as ArviZ wants them, under labels that can be drawn."""
    chains: Any = {dim: np.arange(draws.sizes[dim]) for dim in ("chain", "draw")}
    labels = plain_labels(names, 38)
    posterior = draws.rename("x").assign_coords(quantity=labels, **chains).to_dataset()
    stats = fit.data["sample_stats"].to_dataset()[["diverging", "energy"]]
    if "draw" in stats.coords:  # of large tables, not all draws of parameters are stored
        stats = stats.sel(draw=fit.data["posterior"]["draw"])
    stats = stats.assign_coords(**chains)
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})


@style()
def _arviz(
    plot: Callable[..., Any], tree: xr.DataTree, name: str, title: str, alt: str, caption: str,
    width: float, height: float, rows: int | None = None, **options: Any,
) -> Picture:  # fmt: skip
    """Draw with ArviZ, in the style of the report, and leave no figure open."""
    rows = rows or -(-tree["posterior"].sizes["quantity"] // 3)
    before = set(plt.get_fignums())
    try:
        drawn = plot(
            tree, backend="matplotlib", labeller=NoVarLabeller(),
            figure_kwargs={"figsize": (width, rows * height + 0.3), "layout": "constrained"},
            **({"col_wrap": 3} if rows > 1 or plot in _WRAPPED else {}), **options,
        )  # fmt: skip
        figure = drawn.viz["figure"].item()
        for axis in figure.axes:
            axis.tick_params(labelsize=8)
            axis.xaxis.label.set_size(8.5)
            axis.yaxis.label.set_size(8.5)
            if axis.get_ylabel() == "Chain":
                axis.set_title("E-BFMI")
                axis.yaxis.set_major_locator(MaxNLocator(integer=True))
        return finish(figure, name, title, alt, caption, raster=True)
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def predictive_pictures(fit: Fit) -> list[Picture]:
    """Draw observed against replicated scores, the LOO-PIT and Pareto k."""
    pictures = [_scores(predicted_scores(fit))]
    if "binned" in fit.data["predictive"]:
        pictures.append(_by_contamination(predicted_bins(fit), contamination_name(fit)))
    loo = fit.data["loo"].to_dataset()
    limit = min(fit.record["thresholds"]["pareto_k"], max_pareto_k(loo.sizes["kept_draw"]))
    return [*pictures, _pit(loo), _pareto(loo, limit)]


def _outside(table: pd.DataFrame) -> int:
    """Return how many observed scores are outside 95 % of the replicated ones."""
    return int(((table["score"] < table["low_95"]) | (table["score"] > table["high_95"])).sum())


@style()
def _scores(table: pd.DataFrame) -> Picture:
    shown, note = part(table, "surprise", "predicted")
    models, benchmarks = by_score(shown, "score"), list(dict.fromkeys(shown["benchmark"]))
    figure, axes = panels(
        [plain_labels([name])[0] for name in benchmarks], 3, 0.24 * len(models) + 0.75,
        xlabel="score", sharey=True, sharex=True,
    )  # fmt: skip
    for axis, benchmark in zip(axes, benchmarks, strict=True):
        rows = shown[shown["benchmark"] == benchmark]
        at = [models.index(name) for name in rows["model"]]
        replicated(axis, at, rows, rows["score"], across=True)
    name_rows(axes, models)
    replicated_legend(figure, "observed score", "replicated data")
    counted = (
        f"{_outside(table):,} of {len(table):,} observed scores are outside the 95 % interval"
        " of replicated data."
    )
    alt = f"Observed scores against replicated ones: {counted}"
    caption = f"Bars: scores of data replicated from the fit. {counted}{note}"
    return finish(figure, "predicted-scores", "Predicted scores", alt, caption)


@style()
def _by_contamination(table: pd.DataFrame, contamination: str) -> Picture:
    surprise = table.groupby("benchmark", sort=False)["surprise"].max()
    most = surprise.sort_values(ascending=False, kind="stable").index[:MOST_BENCHMARKS]
    names = [name for name in surprise.index if name in set(most)]
    note = note_of(len(names), len(surprise), "benchmarks", "largest surprise")
    note += f" All: {in_file('predicted-bins')}." if note else ""
    titles = [plain_labels([name])[0] for name in names]
    figure, axes = panels(titles, 3, 2.2, xlabel=contamination, ylabel="score")
    for axis, name in zip(axes, names, strict=True):
        rows = table[table["benchmark"] == name]
        replicated(axis, rows["contamination"], rows, rows["score"])
        axis.margins(x=0.08)
    replicated_legend(figure, "observed score of a bin", "replicated data")
    alt = (
        f"Observed and replicated scores by contamination: {_outside(table)} of {len(table)}"
        " observed ones are outside the 95 % interval of replicated data."
    )
    caption = (
        "All models together, items in bins of contamination. Observed scores that leave the"
        f" bars in a pattern are evidence against the form of the dose-response.{note}"
    )
    return finish(figure, "predicted-bins", "Predicted scores by contamination", alt, caption)


# The two below are drawn by hand: plot_ecdf_pit of arviz-plots 1.3 draws no band for the whole
# line, which the caption reads the line by, and plot_khat draws every one of any number of points.
@style()
def _pit(loo: xr.Dataset) -> Picture:
    pit = np.sort(loo["pit"].to_numpy())
    count = len(pit)
    difference = np.arange(1, count + 1) / count - pit
    limit = np.sqrt(np.log(2 / 0.05) / (2 * count))
    figure = new_figure(WIDTH * 0.62, 2.5)
    axis = figure.subplots()
    axis.fill_between([0, 1], -limit, limit, color=PALE, lw=0)
    axis.axhline(0, color=GREY, lw=0.8)
    step = max(1, count // 2000)
    axis.plot(pit[::step], difference[::step], color=BLUE)
    axis.set_xlabel("probability integral transform of left-out responses")
    axis.set_ylabel("ECDF − uniform")
    alt = (
        f"Difference between the distribution of {count:,} LOO-PIT values and a uniform one: at"
        f" most {np.abs(difference).max():.3f}, where {limit:.3f} is the limit of a 95 % band."
    )
    caption = (
        "The quantile of each response in its prediction from all others. Inside the grey band"
        " (95 %, for the whole line): predictions are well calibrated. A slope up then down:"
        " predictions too high; an S: too narrow or too wide."
    )
    return finish(figure, "loo-pit", "Leave-one-out calibration (LOO-PIT)", alt, caption)


@style()
def _pareto(loo: xr.Dataset, limit: float) -> Picture:
    k = loo["pareto_k"].to_numpy()
    shown = np.sort(np.argsort(-k, kind="stable")[:MOST_POINTS])
    bad = k[shown] > limit
    figure = new_figure(WIDTH * 0.62, 2.3)
    axis = figure.subplots()
    axis.plot(shown[~bad], k[shown][~bad], ".", color=BLUE, ms=2.5, alpha=0.6)
    axis.plot(shown[bad], k[shown][bad], "x", color=ORANGE, ms=5)
    axis.axhline(limit, color=INK, lw=0.8, ls="--")
    axis.set_xlabel("response")
    axis.set_ylabel("Pareto k")
    alt = (
        f"Pareto k of {len(k):,} responses, {numbers(k)}; {int((k > limit).sum())} are above"
        f" {limit:.3g}."
    )
    note = f" Only the largest {MOST_POINTS:,} are drawn." if len(k) > MOST_POINTS else ""
    caption = (
        "How much single responses weigh on the fit. Above the dashed line (crosses),"
        f" leave-one-out figures of the response are not reliable.{note}"
    )
    return finish(figure, "pareto-k", "Pareto k", alt, caption, raster=True)
