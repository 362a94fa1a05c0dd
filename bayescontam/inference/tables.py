"""Tables of a fit as data frames, as pages, files and the terminal show them."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam.errors import UsageError
from bayescontam.inference.bootstrap import QUANTITIES
from bayescontam.inference.ranking import Ranking, rank_models
from bayescontam.inference.result import Fit
from bayescontam.inference.sensitivity import THRESHOLD, reported
from bayescontam.model.effect_names import DIRECT, EffectNames, effect_words

FIGURES = (
    "own_slope",
    "own_sd",
    "own_information",
    "contraction",
    "detectable_slope",
    "prior_sd",
    "prior_sensitivity",
    "extrapolation",
)
"""Numbers that decide what is reported of a slope, and how far its reference is extrapolated."""
_PAIR = ["model", "benchmark"]
INFORMED = 0.5
"""Part of the variance of the prior above which the data, having taken it away, decide."""
_INTERVAL = {"mean": "", "ci_low": "_low", "ci_high": "_high"}
_OF_RANKS = {
    "rank_low": ("rank", "ci_low"),
    "rank_high": ("rank", "ci_high"),
    "p_best": ("p_best", "mean"),
}
"""What is shown of ranks, by the quantity and figure that it is."""
_TAILS = {"low_99": 0.005, "low_95": 0.025, "median": 0.5, "high_95": 0.975, "high_99": 0.995}
"""Quantiles of replicated scores, by column."""


def headline(fit: Fit, estimands: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row for each model and benchmark: the scores and what they are worth."""
    wide = _wide(_whole(fit, estimands))
    names = EffectNames.among(wide.columns.get_level_values(0))
    raw = fit.raw_accuracy().to_series().reindex(wide.index)
    benchmark = wide.index.get_level_values("benchmark").astype(str)
    ranked, same = (
        known.reindex(benchmark).to_numpy() for known in (fit.ranked(), fit.same_items())
    )
    table = pd.DataFrame({"raw_accuracy": raw}, index=wide.index)
    shown = ("accuracy",) if names is None else (names.ability, names.overfitting, *names.parts)
    for name in shown:
        for column, suffix in _INTERVAL.items():
            table[name + suffix] = wide[name, column]
    if names is not None:
        table[names.fraction] = wide[names.fraction, "mean"]
        table["slope_verdict"] = wide["slope", "verdict"]
        table[names.verdict] = wide[names.overfitting, "verdict"]
    table["rank_raw"] = _ranks(raw).where(same)
    table["rank"] = _median_ranks(fit).reindex(wide.index).where(ranked)
    for column, found in _OF_RANKS.items():
        table[column] = (wide[found] if found in wide else np.nan * raw).where(ranked)
    return table.reset_index()


def side_by_side(fits: Mapping[str, Fit], estimands: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row for each benchmark, model and fit: what it estimates of the same score.

    ``estimand`` names what ``estimate`` and its interval are of: genuine ability without the total
    effect or without the direct one, or accuracy where contamination is not modelled.
    """
    parts = []
    for place, (name, fit) in enumerate(fits.items()):
        wide = headline(fit, estimands[name])
        names = EffectNames.among(wide)
        estimand = "accuracy" if names is None else names.ability
        columns = {estimand + end: f"estimate{end}" for end in _INTERVAL.values()}
        if names is not None:
            columns |= {names.overfitting + end: f"overfitting{end}" for end in _INTERVAL.values()}
            columns[names.verdict] = "verdict"
        part = wide[[*_PAIR, *columns]].rename(columns=columns)
        part.insert(2, "fit", name)
        part.insert(3, "estimand", estimand)
        parts.append(part.assign(place=place))
    table = pd.concat(parts, ignore_index=True)
    keys = [table[name].factorize()[0] for name in _PAIR]
    order = np.lexsort([table.pop("place").to_numpy(), *keys])  # by the last one first
    return table.iloc[order].reset_index(drop=True)


def slopes(fit: Fit, estimands: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row for each slope: its size, and whether the data could have shown it."""
    columns = ["slope", "sd", "slope_low", "slope_high", "p_positive", "verdict", "sentence"]
    if "identification" not in fit.data:
        return pd.DataFrame(columns=[*_PAIR, *columns, *FIGURES])
    table = _whole(fit, estimands).query("quantity == 'slope'")
    table = table.rename(columns={"mean": "slope", "ci_low": "slope_low", "ci_high": "slope_high"})
    known = fit.data["identification"].to_dataset().to_dataframe()
    table = table.join(known.reindex(columns=["sentence", *FIGURES]), on=_PAIR)
    return table[[*_PAIR, *columns, *FIGURES]].reset_index(drop=True)


def by_concept(fit: Fit, estimands: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row for each model and concept."""
    estimands = fit.estimands() if estimands is None else estimands
    if "concept" not in estimands:
        return pd.DataFrame(columns=[*_PAIR, "concept", "items", "raw_accuracy"])
    keys = [*_PAIR, "concept"]
    wide = _wide(estimands[estimands["concept"] != ""], keys)
    names = EffectNames.among(wide.columns.get_level_values(0))
    ability = "accuracy" if names is None else names.ability
    table = _raw_by_concept(fit).reindex(wide.index)
    for column, suffix in _INTERVAL.items():
        table[ability + suffix] = wide[ability, column]
    for column, found in _OF_RANKS.items():
        table[column] = wide.get(found, np.nan)
    return table.reset_index()


def beside_bootstrap(
    fit: Fit, estimands: pd.DataFrame | None = None, level: float | None = None
) -> pd.DataFrame:
    """Return the published bootstrap beside the fit: two rows for each model and benchmark."""
    columns = [name + end for name in QUANTITIES for end in _INTERVAL.values()]
    known = fit.bootstrap(level)
    if known.empty:
        return pd.DataFrame(columns=[*_PAIR, "method", *columns])
    own = _whole(fit, fit.estimands(level) if estimands is None else estimands)
    parts = []
    for method, rows in (("this fit", own), ("bootstrap", known)):
        wide = rows.pivot(index=_PAIR, columns="quantity", values=list(_INTERVAL))
        part = pd.DataFrame({"method": method}, index=wide.index)
        for name in QUANTITIES:
            for column, end in _INTERVAL.items():
                part[name + end] = wide[column].get(name, np.nan)
        parts.append(part)
    order = pd.MultiIndex.from_frame(known[_PAIR].drop_duplicates())
    both = [part.reindex(order).reset_index() for part in parts]
    return pd.concat(both).sort_index(kind="stable").reset_index(drop=True)


def checks(fit: Fit) -> pd.DataFrame:
    """Return one row for each check: ``name, outcome, value, threshold, sentence``."""
    rows = [check.to_dict() for check in fit.checks()]
    return pd.DataFrame(rows, columns=["name", "outcome", "value", "threshold", "sentence"])


def sensitivity(fit: Fit) -> pd.DataFrame:
    """Return one row for each model and benchmark: how much the prior decides."""
    quantities = reported(EffectNames.among(fit.data["estimands"]) or DIRECT)
    columns = [f"{name}_{kind}" for name in quantities for kind in ("prior", "likelihood")]
    if "sensitivity" not in fit.data:
        return pd.DataFrame(columns=[*_PAIR, *columns, "diagnosis"])
    table = fit.data["sensitivity"].to_dataset()[columns].to_dataframe().reset_index()
    answered = fit.raw_accuracy().notnull().to_series()
    table = table[answered.reindex(pd.MultiIndex.from_frame(table[_PAIR])).to_numpy()]
    index = pd.MultiIndex.from_frame(table[_PAIR])
    before, after = (
        fit.data[group].to_dataset()[list(quantities)].var(("chain", "draw"))
        for group in ("prior_estimands", "estimands")
    )
    # Which part of the prior's variance the data took away.
    informed = (1 - after / before.where(before > 0)).to_dataframe().reindex(index)
    table["diagnosis"] = [
        _diagnosis(row, known, quantities)
        for (_, row), (_, known) in zip(table.iterrows(), informed.iterrows(), strict=True)
    ]
    return table[[*_PAIR, *columns, "diagnosis"]].reset_index(drop=True)


def _diagnosis(
    row: "pd.Series[float]", contraction: "pd.Series[float]", quantities: tuple[str, ...]
) -> str:
    moved = [name for name in quantities if row[f"{name}_prior"] > THRESHOLD]
    if not moved:
        return "The data decide."
    names = ", ".join(map(effect_words, moved))
    # Where the data took most of the prior's variance away they decide, whatever a little more
    # of their weight would do.
    weak = [
        name
        for name in moved
        if not row[f"{name}_likelihood"] > THRESHOLD and not contraction[name] > INFORMED
    ]
    if weak:
        names = ", ".join(map(effect_words, weak))
        return f"The prior decides much of: {names}; the data inform little on it."
    return f"The prior matters for: {names}; vary it and see whether the conclusion stays."


def within_benchmarks(fit: Fit) -> dict[str, Ranking]:
    """Return the ranking within each benchmark on which models can be compared, by its name."""
    known = fit.ranked()
    return {str(name): rank_models(fit, str(name)) for name in known.index[known]}


def across_benchmarks(fit: Fit) -> tuple[Ranking | None, str]:
    """Return the ranking over all benchmarks of several, or why there is none."""
    if len(fit.ranked()) < 2:
        return None, ""
    try:
        ranking = rank_models(fit)
    except UsageError as error:
        return None, str(error)
    if len(ranking.table) < 2:
        return None, "only one model answered all benchmarks"
    return ranking, ""


def ranks(fit: Fit) -> pd.DataFrame:
    """Return the rankings of a fit: one row for each model and benchmark."""
    across, _ = across_benchmarks(fit)
    every = ({"": across} if across is not None else {}) | within_benchmarks(fit)
    tables = [one.table.assign(benchmark=name) for name, one in every.items()]
    return pd.concat(tables) if tables else pd.DataFrame(columns=["model", "benchmark"])


def better_pairs(fit: Fit) -> pd.DataFrame:
    """Return how probably each model is better than another, within each benchmark."""
    pairs = [one.near().assign(benchmark=name) for name, one in within_benchmarks(fit).items()]
    columns = ["benchmark", "model", "other", "probability"]
    return pd.concat(pairs, ignore_index=True)[columns] if pairs else pd.DataFrame(columns=columns)


def dose_response(fit: Fit) -> pd.DataFrame:
    """Return the dose-response curves: one row for each model, benchmark and contamination."""
    if "curves" not in fit.data:
        return pd.DataFrame()
    curves = fit.data["curves"].to_dataset()[["contamination", "mean", "low", "high"]]
    table = curves.to_dataframe(["model", "benchmark", "point"]).reset_index()
    return table.drop(columns="point").dropna(subset="mean", ignore_index=True)


def predicted_scores(fit: Fit) -> pd.DataFrame:
    """Return observed scores beside those of data replicated from the fit."""
    known = fit.data["predictive"].to_dataset()
    return _beside(known["score"], known["score_replicated"], ["model", "benchmark"])


def predicted_bins(fit: Fit) -> pd.DataFrame:
    """Return the same for all models together, by benchmark and bin of contamination."""
    known = fit.data["predictive"].to_dataset()
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


def _whole(fit: Fit, estimands: pd.DataFrame | None) -> pd.DataFrame:
    """Return the estimands of whole benchmarks."""
    estimands = fit.estimands() if estimands is None else estimands
    return estimands[estimands["concept"] == ""] if "concept" in estimands else estimands


def _wide(estimands: pd.DataFrame, keys: list[str] = _PAIR) -> pd.DataFrame:
    """Return one row for each key, in order of appearance; columns (quantity, figure)."""
    order = pd.MultiIndex.from_frame(estimands[keys].drop_duplicates())
    wide = estimands.pivot(
        index=keys, columns="quantity", values=["mean", "ci_low", "ci_high", "verdict"]
    )
    return wide.swaplevel(axis=1).reindex(order).infer_objects()


def _median_ranks(fit: Fit) -> "pd.Series[float]":
    rank = fit.data["estimands"]["rank"].transpose("chain", "draw", "model", "benchmark")
    draws = rank.to_numpy().reshape(-1, *rank.shape[2:])
    middle = np.quantile(draws, 0.5, axis=0, method="inverted_cdf")
    coords = {name: rank[name] for name in ("model", "benchmark")}
    return xr.DataArray(middle, coords, ("model", "benchmark"), name="rank").to_series()


def _ranks(values: "pd.Series[float]") -> "pd.Series[float]":
    scores = values.astype(float).round(12)  # scores that differ by rounding only are ties
    return scores.groupby(level=1, sort=False).rank(ascending=False, method="min")


def _raw_by_concept(fit: Fit) -> pd.DataFrame:
    data = fit.data["constant_data"].to_dataset()
    score = fit.data["observed_data"]["n_correct"].to_numpy() / data["n_trials"].to_numpy()
    weight = data["weight"].to_numpy()
    labels = {
        name: data[name].to_numpy().astype(object)[data[f"{name}_of_response"]]
        for name in (*_PAIR, "concept")
    }
    keys = {name: data[f"{name}_of_response"].to_numpy() for name in ("model", "item")}
    # Items that several people of one model answered count once.
    once = np.where(pd.DataFrame(keys).duplicated(), 0.0, weight)
    frame = pd.DataFrame(labels | {"items": once, "weight": weight, "right": score * weight})
    sums = frame.groupby([*_PAIR, "concept"], sort=False)[["items", "weight", "right"]].sum()
    return pd.DataFrame(
        {"items": sums["items"].astype(int), "raw_accuracy": sums["right"] / sums["weight"]}
    )
