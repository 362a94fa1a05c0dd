"""Coverage, width, interval score and bias, with clustered errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayescontam._types import FloatArray, IntArray
from bayescontam.calibration.storage import LEVELS, interval_columns

GROUP = ["cell", "estimator", "quantity"]
ALL, PASSED, MISSED = "all fits", "without failures", "failures as misses"
COUNTED = (ALL, PASSED, MISSED)  # the three ways in which failed fits are counted
COLUMNS = (
    *GROUP, "counted", "level", "coverage", "mc_se", "width", "interval_score", "bias", "rmse",
    "n", "n_failed", "replicates", "n_constant", "n_undefined", "width_se", "interval_score_se",
    "bias_se", "rmse_se", "score_rank", "score_behind", "score_behind_se",
)  # fmt: skip
"""Columns of the table, in order."""
_CONSTANT = 1e-12


@dataclass(frozen=True)
class Means:
    """Mean of each group, dims (group,)."""

    mean: FloatArray  # NaN where a group has no value
    # Monte Carlo standard error. Values of one cluster may depend on each other in any way,
    # clusters are independent. NaN where a group has fewer than two clusters.
    error: FloatArray
    # count, clusters: values, and clusters that have any
    count: IntArray
    clusters: IntArray


def clustered_means(values: FloatArray, group: IntArray, cluster: IntArray, groups: int) -> Means:
    """Return the mean of each group with its cluster-robust standard error."""
    # The mean is a ratio of two sums over clusters, and its error that of such a ratio (Cochran
    # 1977, Sampling Techniques, section 6.4), because clusters may differ in size.
    known = np.isfinite(values)
    values, group, cluster = values[known], group[known], cluster[known]
    found, first, which = np.unique(cluster, return_index=True, return_inverse=True)
    owner = group[first]
    sums = np.bincount(which, values, minlength=len(found))
    sizes = np.bincount(which, minlength=len(found)).astype(float)
    count = np.bincount(group, minlength=groups)
    clusters = np.bincount(owner, minlength=groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(group, values, minlength=groups) / count
        squares = np.bincount(owner, (sums - mean[owner] * sizes) ** 2, minlength=groups)
        error = np.sqrt(squares * clusters / (clusters - 1)) / count
    return Means(mean, np.where(clusters > 1, error, np.nan), count, clusters)


def coverage_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how often the intervals of a study hold the truth."""
    # Rows of the same cell, estimator and quantity are taken together, whatever their `where`.
    # Their errors are those of means over replicates: intervals of one replicate come from the same
    # data, and are not taken to be independent. Second fits of audits do not count, nor do
    # quantities that are constant by definition (sd 0 at the truth, such as overfitting where every
    # item is clean), nor what has no value; see `undefined`.
    first = rows[~rows["audit"]]
    lacking = undefined(first)
    used = first[~lacking]
    flat = constant(used)
    table = used[~flat]
    if table.empty:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in COLUMNS})
    keys = table.groupby(GROUP, sort=True, observed=True)
    group = np.asarray(keys.ngroup(), dtype=np.int64)
    named = keys.size().index.to_frame(index=False)
    index = pd.MultiIndex.from_frame(named)
    for name, left in (("n_constant", used[flat]), ("n_undefined", first[lacking])):
        sizes = left.groupby(GROUP, observed=True).size()
        named[name] = sizes.reindex(index, fill_value=0).to_numpy()
    numbers = table.groupby([*GROUP, "replicate"], sort=False, observed=True).ngroup()
    cluster = np.asarray(numbers, dtype=np.int64)
    parts = []
    for counted in COUNTED:
        included = (table["status"] != "failed").to_numpy() if counted == PASSED else slice(None)
        if not len(table[included]):
            continue  # all fits failed
        own = _CoverageRows(table[included], group[included], cluster[included], len(named))
        common = own.errors()
        for level in LEVELS:
            figures = {**common, **own.intervals(level, counted == MISSED)}
            parts.append(named.assign(counted=counted, level=level / 100, **figures))
    result = pd.concat(parts, ignore_index=True)
    result["counted"] = pd.Categorical(result["counted"], COUNTED, ordered=True)
    order = result.sort_values([*GROUP, "counted", "level"], kind="stable")
    order["counted"] = order["counted"].astype(str)
    return order[order["n"] > 0][list(COLUMNS)].reset_index(drop=True)


def constant(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows report a quantity that is constant by definition, dims (row,)."""
    # The bootstrap's overfitting is not: it is clipped at zero, and may be so in all resamples.
    still = (rows["sd"].abs() < _CONSTANT) & ((rows["mean"] - rows["truth"]).abs() < _CONSTANT)
    return (still & (rows["engine"] != "bootstrap")).to_numpy()


def undefined(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows report what has no value at the truth or in some draws, dims (row,)."""
    # An interval of the other draws would be one of another quantity. A failed fit that drew
    # nothing is no such row.
    nowhere = ~np.isfinite(rows["truth"].to_numpy(dtype=float))
    partly = ~np.isfinite(rows["mean"].to_numpy(dtype=float))
    failed: npt.NDArray[np.bool_] = (rows["status"] == "failed").to_numpy()
    return nowhere | (partly & ~failed)


class _CoverageRows:
    """Rows of a study with the numbers of their groups and replicates."""

    def __init__(
        self, table: pd.DataFrame, group: IntArray, cluster: IntArray, groups: int
    ) -> None:
        self.table, self.group, self.cluster, self.groups = table, group, cluster, groups
        self.truth = table["truth"].to_numpy(dtype=float)
        self.failed = (table["status"] == "failed").to_numpy()

    def errors(self) -> dict[str, Any]:
        """Return bias and RMSE of the means, and what was counted, dims (group,)."""
        off = self.table["mean"].to_numpy(dtype=float) - self.truth
        bias, square = self._means(off), self._means(off**2)
        rmse = np.sqrt(square.mean)
        with np.errstate(invalid="ignore", divide="ignore"):
            rmse_se = np.where(rmse > 0, square.error / (2 * rmse), square.error)
        everything = self._means(np.ones(len(off)))
        return {
            "bias": bias.mean,
            "bias_se": bias.error,
            "rmse": rmse,
            "rmse_se": rmse_se,
            "n": everything.count,
            "n_failed": np.bincount(self.group, self.failed, minlength=self.groups).astype(int),
            "replicates": everything.clusters,
        }

    def intervals(self, level: int, failures_miss: bool) -> dict[str, Any]:
        """Return what is to be reported of the intervals of one level, dims (group,)."""
        low, high = (self.table[name].to_numpy(dtype=float) for name in interval_columns(level))
        held = (low <= self.truth) & (self.truth <= high)
        if failures_miss:
            held &= ~self.failed
        coverage = self._means(held.astype(float))
        # The error of shares is not zero where all replicates agree.
        none = (coverage.error == 0) & ((coverage.mean == 0) | (coverage.mean == 1))
        m = coverage.clusters.astype(float)
        width, score = high - low, interval_score(low, high, self.truth, level)
        widths, scores = self._means(width), self._means(score)
        return {
            "coverage": coverage.mean,
            "mc_se": np.where(none, np.sqrt((m + 1) / (m + 3)) / (m + 2), coverage.error),
            "width": widths.mean,
            "width_se": widths.error,
            "interval_score": scores.mean,
            "interval_score_se": scores.error,
            **self._ranking(score),
        }

    def _means(self, values: FloatArray) -> Means:
        return clustered_means(values, self.group, self.cluster, self.groups)

    def _ranking(self, score: FloatArray) -> dict[str, FloatArray]:
        """Return places of the estimators by score, and how far they are behind the best."""
        # Only tables count that all estimators of a cell and quantity have a finite score of.
        score = np.where(np.isfinite(score), score, np.nan)
        names = ["cell", "quantity", "replicate", "where", "estimator"]
        rows = self.table[names].reset_index(drop=True).assign(group=self.group, score=score)
        unit = rows.groupby(names[:4], sort=False, observed=True).ngroup()
        estimators = rows.groupby(names[:2], observed=True)["estimator"].transform("nunique")
        scored = rows["score"].notna().groupby(unit).transform("sum")
        compared = ((scored == estimators) & (estimators > 1)).to_numpy()
        means = pd.Series(self._means(np.where(compared, score, np.nan)).mean)
        of_group = rows.drop_duplicates("group").set_index("group").reindex(means.index)
        among = means.groupby([of_group["cell"], of_group["quantity"]], observed=True)
        is_best = (among.rank(method="first") == 1).to_numpy()[
            self.group
        ]  # of equals the first name
        best = rows["score"].where(is_best).groupby(unit).transform("max").to_numpy()
        behind = self._means(np.where(compared, score - best, np.nan))
        rank = among.rank(method="min").to_numpy()
        return {"score_rank": rank, "score_behind": behind.mean, "score_behind_se": behind.error}


def interval_score(low: FloatArray, high: FloatArray, truth: FloatArray, level: int) -> FloatArray:
    """Return Winkler's score of intervals: width, and a penalty for a truth outside.

    A proper scoring rule (Gneiting & Raftery 2007, doi:10.1198/016214506000001437).

    >>> import numpy as np
    >>> interval_score(np.zeros(2), np.ones(2), np.array([0.5, 1.5]), 90).tolist()
    [1.0, 11.0]
    """
    outside = np.maximum(low - truth, 0.0) + np.maximum(truth - high, 0.0)
    return high - low + 200 / (100 - level) * outside
