"""Which pairs to judge next: those whose verdicts are expected to inform most."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

from bayescontam._progress import progress_bar
from bayescontam._text import join_list, printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.judgements import PAIR, run_of, sort_of
from bayescontam.data.responses import Path
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.evidence.choice import candidates, with_texts
from bayescontam.evidence.covariates import FLOOR, item_contamination
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.item_exposure import ItemExposure
from bayescontam.evidence.item_matches import Matched, Matches
from bayescontam.scan.results import Scan

DRAWS = 500
"""Draws of the curve by which covariances are estimated."""
LEAST = 1e-9
"""Share of a target's variance that a verdict must be expected to remove to be worth a call."""
_ITEM = ["benchmark", "item"]
_KEYS = list(PAIR)


@dataclass(frozen=True, eq=False)
class InformativePairs:
    """Pairs to judge next, and what is expected of their verdicts.

    Attributes
    ----------
    pairs : pandas.DataFrame
        Pairs with their texts, the most informative first, for a sheet or a language model;
        ``p_duplicate`` is the probability that the pair is a duplicate, by curve and verdicts.
    expected : pandas.DataFrame
        One row for each target: ``benchmark``, ``item`` ("" for prevalence), ``mean``, ``sd``,
        and ``sd_expected``, the standard deviation expected when all these pairs are judged.
    """

    pairs: pd.DataFrame
    expected: pd.DataFrame


class VerdictGains:
    """How much of the variance of targets verdicts on pairs are expected to remove.

    A target is a weighted number of items that have a duplicate. A verdict V lowers the
    variance of a target Y by Cov(Y, V)² / Var(V) on average over its two values, exactly.
    Of several verdicts the same holds for the best linear prediction, by which they are chosen
    one after the other.
    """

    def __init__(
        self,
        none: FloatArray,
        weights: FloatArray,
        item: IntArray,
        duplicate: FloatArray,
        errors: tuple[FloatArray, FloatArray],
        both: Callable[[int], tuple[IntArray, FloatArray]],
    ) -> None:
        """Take what a curve and the verdicts so far imply.

        Parameters
        ----------
        none : array
            P(item has no duplicate), dims (draw, item).
        weights : array
            Weight of each item in each target, dims (target, item).
        item : array
            Position of the item of each candidate, dims (candidate,).
        duplicate : array
            P(candidate is a duplicate), dims (draw, candidate).
        errors : tuple of array
            Sensitivity and specificity of the judge, dims (draw,).
        both : callable
            Returns for a candidate the candidates of its item, and the probabilities that it
            and they are duplicates, dims (draw, of these).
        """
        hit, clear = errors
        self._item, self._duplicate, self._both = item, duplicate, both
        self._gap = hit + clear - 1
        called = (1 - clear)[:, None] + self._gap[:, None] * duplicate
        p = called.mean(axis=0)
        self._variance = p * (1 - p)
        called -= p
        self._called = called
        share = (1 - none) @ weights.T
        self.mean = share.mean(axis=0)
        self.variance = share.var(axis=0) + (none * (1 - none)).mean(axis=0) @ (weights**2).T
        self.left = self.variance.copy()
        """Variance of each target as expected after the verdicts on chosen candidates."""
        # Without a duplicate of the item the candidate is none: only false alarms call it one.
        own = np.empty(len(item))
        for i in np.unique(item):
            at = np.flatnonzero(item == i)
            own[at] = (none[:, [i]] * duplicate[:, at] * self._gap[:, None]).mean(axis=0)
        self._cross = (share - self.mean).T @ called / len(none) + weights[:, item] * own

    def choose(self, count: int) -> list[int]:
        """Return the candidates to judge, the most informative first."""
        chosen: list[int] = []
        parts: list[FloatArray] = []  # of the covariance of candidates that chosen ones explain
        left = self._variance.copy()
        free = left > 0
        for _ in range(count):
            if not free.any():
                break
            removed = (self._cross**2).sum(axis=0) / np.where(free, left, 1.0)
            removed[~free] = -np.inf
            best = int(removed.argmax())
            if removed[best] <= LEAST * self.variance.sum():
                break
            part = self._covariance(best)
            for earlier in parts:
                part -= earlier[best] * earlier
            part /= np.sqrt(left[best])
            own = self._cross[:, best] / np.sqrt(left[best])
            self._cross -= own[:, None] * part
            self.left -= own**2
            left -= part**2
            parts.append(part)
            chosen.append(best)
            # What others explain nearly whole informs no more, and divides by rounding.
            free &= left > 1e-6 * self._variance
            free[best] = False
        return chosen

    def _covariance(self, candidate: int) -> FloatArray:
        """Return the covariance of a verdict with those on all candidates, (candidate,)."""
        known = self._called[:, candidate]
        result: FloatArray = known @ self._called / len(known)
        others, joint = self._both(candidate)
        apart = self._duplicate[:, [candidate]] * self._duplicate[:, others]
        result[others] += ((self._gap**2)[:, None] * (joint - apart)).mean(axis=0)
        result[candidate] = self._variance[candidate]
        return result


def informative_pairs(
    scan: Scan | Path,
    curve: Curve | Path,
    count: int = 50,
    *,
    item: str | None = None,
    judge: str | None = None,
    benchmarks: Sequence[str] | None = None,
    floor: float = FLOOR,
    draws: int = DRAWS,
    progress: bool = False,
) -> InformativePairs:
    """Choose the pairs whose verdicts are expected to inform most on prevalence or on one item.

    Parameters
    ----------
    scan : Scan or path-like
    curve : Curve or path-like
        Fitted to all verdicts so far.
    count : int, default 50
        Pairs to choose at most. Choose some, judge them, fit the curve anew, and choose again.
    item : str, optional
        The item of which it is to be known whether it has a duplicate. Default: the share of
        items with one, in each benchmark.
    judge : str, optional
        Who will judge: the judge's errors are those that the curve estimates, or the prior's
        mean if it knows no such judge; what this judge has judged is left out. Default: a
        person, and pairs that any person has judged are left out.
    benchmarks : sequence of str, optional
        Whose prevalence counts, and whose pairs are chosen; default: all.
    floor : float, default 0.35
        Cosine below which matches are not counted.
    draws : int, default 500
        Draws of the curve to use.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    InformativePairs

    Raises
    ------
    DataError, FitError
        If there is no finished scan or no curve.
    UsageError
        If the curve does not cover the scan or is about chosen kinds of duplicates, or an option
        cannot be used.

    Notes
    -----
    Y is the number of items that have a duplicate in the whole corpus, V the verdict on a pair,
    1 or 0. By the law of total variance the verdict lowers the variance of Y on average by
    Cov(Y, V)² / Var(V). The covariance has two parts: over draws of the curve (what the verdict
    informs on all items), and within a draw, where V informs on its own item: with the
    probability q that the item has no duplicate and g that the pair is one, it is
    q g (sensitivity + specificity − 1), averaged over draws. After each pair the covariances
    are those left after a linear prediction from the verdicts on the pairs chosen before, so
    that pairs of one batch do not inform on the same.

    The choice depends on verdicts and cosines only. The likelihood of the curve holds for any
    such choice, so that it is not biased by it (Rubin 1976, doi:10.1093/biomet/63.3.581).

    Lindley (1956), doi:10.1214/aoms/1177728069, and Settles (2009),
    http://digital.library.wisc.edu/1793/60660, on choosing what to observe.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.informative_pairs("no-such-folder", "curve.nc")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    scan = scan if isinstance(scan, Scan) else Scan.load(scan)
    curve = curve if isinstance(curve, Curve) else Curve.from_netcdf(curve)
    if curve.kinds:
        raise UsageError(
            f"curve: is about {join_list(curve.kinds)} alone; pairs are chosen by a curve of any"
            " duplicate: fit one without --kind"
        )
    pairs = _without_judged(candidates(scan, count, "pairs", benchmarks), curve, judge)
    pairs = pairs[pairs["cosine"] >= floor]
    targets, weights = _targets(scan.items, item, benchmarks)
    problem = f"no verdict that is left is expected to inform on {_named(item)}"
    nothing = DataError([Fault(str(scan.folder), problem)])
    if pairs.empty:
        raise nothing
    weighed = item_contamination(scan, curve, floor=floor, draws=draws, progress=progress)
    offered = _Offered(scan, curve, pairs, floor, draws)
    duplicate = offered.duplicates(progress)
    gains = VerdictGains(
        weighed.none, weights, offered.number, duplicate, _errors(curve, judge, draws),
        offered.both,
    )  # fmt: skip
    chosen = gains.choose(count)
    if not chosen:
        raise nothing
    rows = with_texts(offered.pairs.iloc[chosen], scan)
    figures = {"mean": gains.mean, "sd": gains.variance, "sd_expected": gains.left}
    expected = targets.assign(**figures)
    deviations = ["sd", "sd_expected"]
    expected[deviations] = np.sqrt(expected[deviations].clip(lower=0.0))
    return InformativePairs(rows.assign(p_duplicate=duplicate[:, chosen].mean(axis=0)), expected)


def _targets(
    items: pd.DataFrame, item: str | None, benchmarks: Sequence[str] | None
) -> tuple[pd.DataFrame, FloatArray]:
    """Return names of targets, and the weight of each item in them, (target, item)."""
    own = items["benchmark"].unique().tolist() if benchmarks is None else list(benchmarks)
    if item is None:
        masks = [(items["benchmark"] == name).to_numpy() for name in own]
        weights = np.stack([mask / mask.sum() for mask in masks])
        return pd.DataFrame({"benchmark": own, "item": ""}), weights
    at = np.flatnonzero((items["item"] == item) & items["benchmark"].isin(own))
    if not len(at):
        known = join_list(items.loc[items["benchmark"].isin(own), "item"])
        raise UsageError(f"no item '{printable(item)}' in {join_list(own)}; there are {known}")
    if len(at) > 1:
        several = join_list(items["benchmark"].iloc[at])
        raise UsageError(f"item '{printable(item)}' stands in {several}; name the benchmark")
    return items[_ITEM].iloc[at].reset_index(drop=True), np.eye(len(items))[at]


def _named(item: str | None) -> str:
    return "prevalence" if item is None else f"item '{printable(item)}'"


def _without_judged(pairs: pd.DataFrame, curve: Curve, judge: str | None) -> pd.DataFrame:
    """Return the pairs that this judge, or else any person, has not judged."""
    given = curve.judged
    names = given["judge"].map(lambda name: run_of(name)[0])
    own = names.map(sort_of) == "people" if judge is None else names == run_of(judge)[0]
    known = pd.MultiIndex.from_frame(given.loc[own.astype(bool), _KEYS])
    return pairs[~pd.MultiIndex.from_frame(pairs[_KEYS]).isin(known)]


def _errors(curve: Curve, judge: str | None, draws: int) -> tuple[FloatArray, FloatArray]:
    """Return draws of the sensitivity and the specificity of the judge to come, (draw,)."""
    hit, clear = curve.judge_draws(draws)
    name = run_of(judge or "")[0]
    if name in curve.judges:
        at = curve.judges.index(name)
        return hit[:, at], clear[:, at]
    priors = getattr(curve.spec.judges, sort_of(name))
    means = [p.alpha / (p.alpha + p.beta) for p in (priors.sensitivity, priors.specificity)]
    return np.full(len(hit), means[0]), np.full(len(hit), means[1])


class _Offered:
    """Pairs that may be judged, with the matches of their items."""

    def __init__(
        self, scan: Scan, curve: Curve, pairs: pd.DataFrame, floor: float, draws: int
    ) -> None:
        self._lines = curve.draws(draws)
        matches = Matches(scan, curve, floor, draws)
        self._matched: list[Matched] = list(matches)
        keys = list(scan.items[_ITEM].itertuples(index=False, name=None))
        # Position of each listed document among the matches of its item.
        listed = [matches.listed(key) for key in keys]
        at = [np.arange(len(rows)) for rows in listed]
        place = pd.concat(listed).assign(at=np.concatenate(at))
        pairs = pairs.merge(place, on=_KEYS, how="left")
        # What the tail holds stands for itself only once it is judged, and is offered before.
        judged = pd.MultiIndex.from_frame(curve.outcomes[_KEYS])
        known = pairs["at"].notna() | ~pd.MultiIndex.from_frame(pairs[_KEYS]).isin(judged)
        number = pd.Index(keys).get_indexer(pd.MultiIndex.from_frame(pairs[_ITEM]))
        pairs = pairs.assign(number=number)[known].sort_values("number", kind="stable")
        pairs = pairs.fillna({"at": -1}).astype({"at": int}).reset_index(drop=True)
        self.pairs = pairs if curve.predictor is None else curve.predictor.joined(pairs)
        self.number = self.pairs["number"].to_numpy(np.int64)
        self._source = pd.Index(curve.sources).get_indexer(pd.Index(self.pairs["source"]))
        numbers, starts = np.unique(self.number, return_index=True)  # they are in order
        rows = np.split(np.arange(len(self.pairs)), starts[1:])
        self._rows: dict[int, IntArray] = dict(zip(numbers.tolist(), rows, strict=False))

    def duplicates(self, progress: bool) -> FloatArray:
        """Return P(duplicate) given curve and verdicts, dims (draw, pair)."""
        result = np.empty((len(self._lines), len(self.pairs)))
        with progress_bar(progress, "comparing pairs", len(self._rows), "items") as advance:
            for number, rows in self._rows.items():
                weight, chance = self._chances(number)
                result[:, rows] = np.einsum("sh,shm->sm", weight, chance)
                advance(1)
        return result

    def both(self, pair: int) -> tuple[IntArray, FloatArray]:
        """Return the pairs of the item, and P(this and they are duplicates), (draw, of these)."""
        number = int(self.number[pair])
        rows = self._rows[number]
        weight, chance = self._chances(number)
        own = chance[:, :, np.flatnonzero(rows == pair)[0]]
        return rows, np.einsum("sh,shm->sm", weight * own, chance)

    def _chances(self, number: int) -> tuple[FloatArray, FloatArray]:
        """Return the posterior of an item's effect, and P(duplicate) given it, (draw, node, …)."""
        exposure, rows = ItemExposure(self._lines, self._matched[number]), self._rows[number]
        table, source = self.pairs.iloc[rows], self._source[rows]
        at, cosine, place = (table[name].to_numpy() for name in ("at", "cosine", "place"))
        odds = exposure.log_odds(cosine.astype(float), source, place)
        if "sign" in table:
            reported = (table[name].to_numpy(float) for name in ("sign", "share"))
            odds = exposure.informed(odds, cosine.astype(float), *reported)
        chance = expit(odds)
        single = at >= 0
        chance[:, :, single] = exposure.probability[:, :, at[single]]
        return exposure.weight, chance
