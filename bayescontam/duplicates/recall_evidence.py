"""What judges, a curve and covariates make of planted duplicates."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from bayescontam._random import stream
from bayescontam._text import join_list
from bayescontam._types import BoolArray, FloatArray
from bayescontam.data.covariates import Covariates, read_covariates
from bayescontam.data.judgements import Judgements, read_judgements
from bayescontam.duplicates.recall_scores import (
    RESAMPLES,
    area_interval,
    share_interval,
    weighted_areas,
)
from bayescontam.duplicates.truth import GROUP, KEYS, overlaps, planted_rows
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.evidence.covariates import DRAWS, refuse_other_scan
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.curve_draws import CurveDraws
from bayescontam.evidence.pairs import positions_in_scan, scan_pairs
from bayescontam.evidence.verdicts import first_runs
from bayescontam.model.quadrature import normal_gauss_hermite
from bayescontam.scan.results import Scan

type Path = str | os.PathLike[str]

BINS = 5
"""Bins of P(duplicate | cosine) in which it is held against what was planted."""
_BLOCK = 2_000  # pairs that are weighed at once
JUDGES = [
    "judge", *GROUP, "planted", "judged", "recall", "recall_low", "recall_high", "judged_others",
    "false_alarms", "false_alarms_low", "false_alarms_high",
]  # fmt: skip
CURVE = [*GROUP, "planted", "matched", "share", "expected", "expected_low", "expected_high"]
CALIBRATION = [
    "p_from", "p_to", "matches", "expected", "expected_low", "expected_high", "observed",
    "observed_low", "observed_high",
]  # fmt: skip
_FIGURES = ("mean_planted", "mean_others", "auc", "correlation", "reliability")
COVARIATES = [
    "column", "planted_items", "other_items",
    *(f"{name}{end}" for name in _FIGURES for end in ("", "_low", "_high")),
]  # fmt: skip
"""Columns of the tables."""
_MEASURES = {
    "contamination", "p_duplicate", "p_scanned", "expected_duplicates", "expected_scanned",
    "top_cosine",
}  # fmt: skip
_BY_PART = ("source_", "kind_", "max_")
"""Columns of covariates that measure contamination, and how the names of others begin."""


def judge_table(
    scan: Scan, given: Judgements | pd.DataFrame | Path, known: pd.DataFrame, level: float
) -> pd.DataFrame:
    """Return how often each judge calls planted duplicates, and other pairs, duplicates."""
    judged = first_runs(positions_in_scan(_judgements(given), scan))
    judged = judged.merge(known[KEYS].drop_duplicates()).reset_index(drop=True)
    placed = planted_rows(known)
    over = overlaps(placed, judged)
    over = over.join(judged[["judge", "cosine", "is_duplicate"]], on="pair")
    over = over.sort_values("cosine", ascending=False, kind="stable")
    # Of several chunks that hold a part of it, the nearest stands for a duplicate, as in a curve.
    verdicts = over.drop_duplicates(["row", "judge"])
    others = judged[~judged.index.isin(over["pair"])]
    rows: list[dict[str, Any]] = []
    for judge in sorted(judged["judge"].unique()):
        own = others[others["judge"] == judge]
        alarms = _share(own["is_duplicate"] == 1, own, "false_alarms", level)
        mine = verdicts[verdicts["judge"] == judge].set_index("row")["is_duplicate"]
        for group, planted in placed.groupby(GROUP):
            seen = planted[planted.index.isin(mine.index)]
            rows.append(
                {"judge": judge} | dict(zip(GROUP, group, strict=True))
                | {"planted": len(planted), "judged": len(seen)}
                | _share(mine.reindex(seen.index) == 1, seen, "recall", level)
                | {"judged_others": len(own)} | alarms
            )  # fmt: skip
    return pd.DataFrame(rows, columns=JUDGES)


def _judgements(given: Judgements | pd.DataFrame | Path) -> Judgements:
    if isinstance(given, pd.DataFrame):
        return Judgements.from_frame(given)
    return given if isinstance(given, Judgements) else read_judgements(given)


def _share(hit: "pd.Series[bool]", rows: pd.DataFrame, name: str, level: float) -> dict[str, float]:
    """Return a share with its interval, of rows that have an item each."""
    items = list(rows[KEYS].itertuples(index=False, name=None))
    share, low, high = share_interval(hit.to_numpy(bool), items, level)
    return {name: share, f"{name}_low": low, f"{name}_high": high}


def curve_tables(
    scan: Scan, given: Curve | Path, known: pd.DataFrame, level: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what a curve makes of planted duplicates by kind and level, and of all matches."""
    curve = given if isinstance(given, Curve) else Curve.from_netcdf(given)
    refuse_other_scan(scan, curve)
    if curve.kinds:
        raise UsageError(
            f"curve: is about duplicates of the kind {join_list(curve.kinds)} only, and what was"
            " planted may be of any: fit a curve without --kind"
        )
    pairs = scan_pairs(scan)
    pairs = pairs[pairs["listed"]].merge(known[KEYS].drop_duplicates()).reset_index(drop=True)
    placed = planted_rows(known)
    over = overlaps(placed, pairs).join(pairs["cosine"], on="pair")
    over = over.sort_values("cosine", ascending=False, kind="stable")
    best = over.drop_duplicates("row").set_index("row")["pair"]
    holds: BoolArray = pairs.index.isin(over["pair"])
    # A curve is of documents, each by its chunk nearest to the item.
    nearest: BoolArray = (pairs["chunk"] == pairs["lead"]).to_numpy()
    draws, wanted = curve.draws(DRAWS), pairs.index.isin(best)
    of_best = np.zeros((len(draws), int(wanted.sum())))
    sums, bin_of = np.zeros((len(draws), BINS)), np.full(len(pairs), -1)
    done = 0
    for rows, p in _weighed(curve, draws, pairs):
        bins = np.minimum((p.mean(axis=0) * BINS).astype(int), BINS - 1)
        bin_of[rows] = np.where(nearest[rows], bins, -1)
        for b in range(BINS):
            sums[:, b] += p[:, bin_of[rows] == b].sum(axis=1)
        chosen = p[:, wanted[rows]]
        of_best[:, done : done + chosen.shape[1]] = chosen
        done += chosen.shape[1]
    column = pd.Series(np.cumsum(wanted) - 1)[best].set_axis(best.index)
    table = []
    for group, planted in placed.groupby(GROUP):
        matched = column[column.index.isin(planted.index)]
        counts = {"planted": len(planted), "matched": len(matched)}
        share = {"share": 1.0 if len(matched) else np.nan}  # by construction
        p = of_best[:, matched.to_numpy()]
        figures = _expected(p.mean(axis=1) if len(matched) else np.array([]), level)
        table.append(dict(zip(GROUP, group, strict=True)) | counts | share | figures)
    bins_table = []
    for b in range(BINS):
        own = bin_of == b
        ends = {"p_from": b / BINS, "p_to": (b + 1) / BINS, "matches": int(own.sum())}
        mean = sums[:, b] / own.sum() if own.any() else np.array([])
        observed = _share(pd.Series(holds[own]), pairs[own], "observed", level)
        bins_table.append(ends | _expected(mean, level) | observed)
    return pd.DataFrame(table, columns=CURVE), pd.DataFrame(bins_table, columns=CALIBRATION)


def _expected(draws: FloatArray, level: float) -> dict[str, float]:
    """Return mean and interval of draws; NaN where there are none."""
    tails = (1 - level) / 2, (1 + level) / 2
    low, high = np.quantile(draws, tails) if len(draws) else (np.nan, np.nan)
    mean = float(draws.mean()) if len(draws) else np.nan
    return {"expected": mean, "expected_low": low, "expected_high": high}


def _weighed(
    curve: Curve, draws: CurveDraws, pairs: pd.DataFrame
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield blocks of pairs with the probability that each is a duplicate, dims (draw, pair)."""
    best = pairs.groupby(KEYS)["cosine"].transform("max").to_numpy(float)
    cosine, place = pairs["cosine"].to_numpy(float), pairs["place"].to_numpy(float)
    source = pd.Index(curve.sources).get_indexer(pd.Index(pairs["source"]))
    benchmark = pd.Index(curve.benchmarks).get_indexer(pd.Index(pairs["benchmark"]))
    nodes, weights = normal_gauss_hermite(15)
    for start in range(0, len(pairs), _BLOCK):
        rows = slice(start, min(start + _BLOCK, len(pairs)))
        p = np.zeros((len(draws), rows.stop - start))
        for b in np.unique(benchmark[rows]).tolist():
            own = np.flatnonzero(benchmark[rows] == b)
            at = own + start
            level = draws.log_odds(cosine[at], b, source[at], place[at])
            total = np.zeros_like(level)
            for node, weight in zip(nodes, weights, strict=True):
                total += weight * expit(level + draws.sigma_item * node)
            p[:, own] = total * expit(draws.log_odds_open(best[at], b))
        yield rows, p


def covariate_table(
    given: Covariates | pd.DataFrame | Path, known: pd.DataFrame, level: float, seed: int
) -> pd.DataFrame:
    """Return how reliable each measure of contamination is, held against what was planted."""
    table = _by_item(given, known)
    copies = planted_rows(known).groupby(KEYS).size().rename("copies")
    table = table.join(copies, on=KEYS).fillna({"copies": 0})
    planted: BoolArray = (table["copies"] > 0).to_numpy()
    # Items of either sort are drawn anew by themselves: their numbers were chosen.
    rng = stream(seed, "recall covariates")
    weight = np.ones((RESAMPLES + 1, len(table)))  # of items as they are, then drawn anew
    for sort in (planted, ~planted):
        if size := int(sort.sum()):
            weight[1:, sort] = rng.multinomial(size, np.full(size, 1 / size), RESAMPLES)
    rows: list[dict[str, Any]] = []
    for name in _measures(table):
        value = pd.to_numeric(table[name], errors="coerce").to_numpy(float)
        has = np.isfinite(value)  # scores of n-grams are not defined for items of fewer words
        if not has.any():
            continue
        counts = {
            "planted_items": int(planted[has].sum()),
            "other_items": int((~planted[has]).sum()),
        }
        copies_of = table["copies"].to_numpy(float)[has]
        figures = _figures(value[has], copies_of, planted[has], weight[:, has])
        auc = figures["auc"]
        sizes = counts["planted_items"], counts["other_items"]
        low, high = area_interval(float(auc[0]), auc[1:], sizes[0], sizes[1], level)
        ends = _with_ends(figures, level) | {"auc_low": low, "auc_high": high}
        rows.append({"column": name} | counts | ends)
    return pd.DataFrame(rows, columns=COVARIATES)


def _with_ends(figures: dict[str, FloatArray], level: float) -> dict[str, float]:
    """Return figures with the ends of their intervals, of the sample and those drawn from it."""
    row: dict[str, float] = {}
    for name, values in figures.items():
        known = values[1:][np.isfinite(values[1:])]
        tails = (1 - level) / 2, (1 + level) / 2
        ends = np.quantile(known, tails) if np.isfinite(values[0]) else (np.nan, np.nan)
        row |= {name: values[0], f"{name}_low": ends[0], f"{name}_high": ends[1]}
    return row


def _by_item(given: Covariates | pd.DataFrame | Path, known: pd.DataFrame) -> pd.DataFrame:
    """Return the covariates of the items of the truth, one row for each."""
    if isinstance(given, pd.DataFrame):
        found = Covariates.from_frame(given, source="covariates")
    else:
        found = given if isinstance(given, Covariates) else read_covariates(given)
    table = found.frame
    if "model" in table and (table["model"] != "").any():
        problem = "is by model and item; planted duplicates are of items"
        raise DataError(
            [Fault(found.source, problem, column="model")],
            "Give the table that 'bayescontam covariates' writes.",
        )
    ours = known[KEYS].drop_duplicates()
    joined = ours.merge(table.drop(columns="model", errors="ignore"), on=KEYS)
    if len(joined) < len(ours):
        every = ours.merge(table[KEYS], how="left", indicator=True)
        bare = every.loc[every["_merge"] == "left_only", "item"].tolist()
        problem = f"has no row for {len(bare):,} items of the truth: {join_list(bare, 5)}"
        advice = "Give the covariates of the same scan: bayescontam covariates"
        raise DataError([Fault(found.source, problem)], advice)
    return joined


def _measures(table: pd.DataFrame) -> list[str]:
    """Return the columns that measure how contaminated items are."""
    return [name for name in map(str, table) if name in _MEASURES or name.startswith(_BY_PART)]


def _figures(
    value: FloatArray, copies: FloatArray, planted: BoolArray, weight: FloatArray
) -> dict[str, FloatArray]:
    """Return figures of a covariate for each row of weights, dims (sample, item)."""
    yes, no = weight[:, planted], weight[:, ~planted]
    of_yes, of_no = value[planted], value[~planted]
    with np.errstate(divide="ignore", invalid="ignore"):  # NaN where items are of one sort
        sizes = yes.sum(axis=1), no.sum(axis=1)
        correlation = _correlation(value, copies, weight)
        return {
            "mean_planted": yes @ of_yes / sizes[0],
            "mean_others": no @ of_no / sizes[1],
            "auc": weighted_areas(of_yes, of_no, yes, no),
            "correlation": correlation,
            "reliability": correlation**2,
        }


def _correlation(one: FloatArray, other: FloatArray, weight: FloatArray) -> FloatArray:
    """Return Pearson's correlation for each row of weights; NaN where one of both is constant."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return np.full(len(weight), np.nan)
    one, other = (one - one.mean()) / one.std(), (other - other.mean()) / other.std()
    share = weight / weight.sum(axis=1, keepdims=True)
    mean, center = share @ one, share @ other
    products = share @ (one * other) - mean * center
    spreads = (share @ one**2 - mean**2) * (share @ other**2 - center**2)
    result: FloatArray = products / np.sqrt(np.where(spreads > 1e-16, spreads, np.nan))
    return result
