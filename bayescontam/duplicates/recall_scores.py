"""How well the cosine and lexical scores of a scan distinguish what was planted."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import beta, norm, rankdata

from bayescontam._random import stream
from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.duplicates.truth import GROUP, KEYS

RESAMPLES = 2000
"""Bootstrap samples of items for an interval."""
SCORES = ["score", "auc", "auc_low", "auc_high"]
ROC = ["score", "threshold", "false_positive_rate", "true_positive_rate"]
PAIRS = [*GROUP, "score", "planted", "others", "items", "auc", "auc_low", "auc_high"]
"""Columns of the tables."""


def score_columns(table: pd.DataFrame) -> list[str]:
    """Return the columns of scores: the cosine, and lexical ones.

    >>> score_columns(pd.DataFrame(columns=["rank", "cosine", "ngram_8", "rouge_l"]))
    ['cosine', 'ngram_8', 'rouge_l']
    """
    known = ("cosine", "jaccard", "rouge_l")
    return [name for name in map(str, table) if name in known or name.startswith("ngram_")]


def share_interval(hit: BoolArray, of: Sequence[Any], level: float) -> tuple[float, float, float]:
    """Return the share of hits with an equal-tailed interval under Jeffreys' prior.

    Those of one item (`of`) may be alike: the number that the interval is of is that of
    independent ones which would vary as much [1]_. One of each item counts whole.

    .. [1] Korn & Graubard (1998), Survey Methodology 24, 193-201; compared by Franco et al. (2019),
       doi:10.1093/jssam/smy019

    >>> [round(x, 3) for x in share_interval(np.array([True, False]), ["a", "b"], 0.95)]
    [0.5, 0.061, 0.939]
    """
    count, k = len(hit), int(hit.sum())
    if not count:
        return np.nan, np.nan, np.nan
    item = pd.factorize(pd.Series(list(of), dtype=object))[0]
    share, items = k / count, int(item.max()) + 1
    effective = float(items)
    if 0 < k < count and items > 1:
        sizes, hits = np.bincount(item), np.bincount(item, hit)
        between = items / (items - 1) * ((hits - share * sizes) ** 2).sum() / count**2
        # Of one hit or miss for each item this is their number.
        effective = share * (1 - share) / max(between, 1e-300) + 1
    effective = min(effective, count)
    tails = (1 - level) / 2, (1 + level) / 2
    low, high = beta.ppf(tails, share * effective + 0.5, (1 - share) * effective + 0.5)
    return share, 0.0 if k == 0 else float(low), 1.0 if k == count else float(high)


def area(yes: FloatArray, no: FloatArray) -> float:
    """Return the probability that one of `yes` is higher than one of `no`; ties count half."""
    ranks = rankdata(np.concatenate([yes, no]))[: len(yes)]
    return float((ranks.mean() - (len(yes) + 1) / 2) / len(no))


def area_interval(
    value: float, sampled: FloatArray, yes: int, no: int, level: float
) -> tuple[float, float]:
    """Return an interval of an area: that of its bootstrap, widened to Newcombe's.

    Bootstrap samples (`sampled`) of two sorts that do not overlap all have an area of 1, and of few
    they differ too little. Newcombe's interval does not collapse, but takes the shape of both
    distributions for granted; the bootstrap does not.

    >>> [round(x, 3) for x in area_interval(1.0, np.ones(5), 3, 3, 0.95)]
    [0.501, 1.0]
    """
    if not np.isfinite(value):
        return np.nan, np.nan
    low, high = newcombe_interval(value, yes, no, level)
    if len(known := sampled[np.isfinite(sampled)]):
        ends = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
        low, high = min(low, float(ends[0])), max(high, float(ends[1]))
    return low, high


def newcombe_interval(value: float, yes: int, no: int, level: float) -> tuple[float, float]:
    """Return the interval of an area between so many independent ones of two sorts.

    It holds the areas from which this one differs by no more than chance would have it, as
    Wilson's interval does for a share: method 5 of [1]_, with the variance of Hanley & McNeil
    (1982), doi:10.1148/radiology.143.1.7063747, at each of these areas.

    .. [1] Newcombe (2006), Statistics in Medicine 25, 559-573, doi:10.1002/sim.2324
    """
    z = float(norm.ppf((1 + level) / 2))
    others = (yes + no) / 2 - 1

    def lowest(found: float) -> float:
        def beyond(area: float) -> float:
            spread = 1 + others * ((1 - area) / (2 - area) + area / (1 + area))
            return (found - area) ** 2 - z**2 * area * (1 - area) * spread / (yes * no)

        # An area of 1 has no variance, so that the equation holds there, too.
        return float(brentq(beyond, 0.0, min(found, 1 - 1e-9))) if found > 0 else 0.0

    return lowest(value), 1 - lowest(1 - value)


def weighted_areas(
    yes: FloatArray, no: FloatArray, of_yes: FloatArray | IntArray, of_no: FloatArray | IntArray
) -> FloatArray:
    """Return `area` for each row of weights, dims (sample,)."""
    in_order = (yes[:, None] > no) + 0.5 * (yes[:, None] == no)
    total = of_yes.sum(axis=1) * of_no.sum(axis=1)
    areas: FloatArray = ((of_yes @ in_order) * of_no).sum(axis=1) / total
    return areas


def wins(yes: FloatArray, no: FloatArray) -> FloatArray:
    """Return for each of `yes` how many of `no` it is above; ties count half."""
    ordered = np.sort(no)
    at_least, at_most = (
        np.searchsorted(ordered, yes, "left"),
        np.searchsorted(ordered, yes, "right"),
    )
    return (at_least + at_most) / 2


def item_scores(
    matches: pd.DataFrame, planted: "pd.Series[bool]", level: float, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return how well each score orders items with a duplicate before those without, and curves.

    `planted` has an index of benchmark and item. Items are drawn anew, of either sort by itself.
    """
    names = score_columns(matches)
    highest = matches.groupby(KEYS)[names].max().reindex(planted.index)
    areas: list[dict[str, Any]] = []
    curves = []
    positive = planted.to_numpy(bool)
    both = 0 < positive.sum() < len(positive)
    weights = _drawn_anew(int(positive.sum()), int((~positive).sum()), seed) if both else ()
    for name in names if both else ():
        score = highest[name].fillna(-np.inf).to_numpy(float)
        yes, no = score[positive], score[~positive]
        value, sampled = area(yes, no), weighted_areas(yes, no, *weights)
        low, high = area_interval(value, sampled, len(yes), len(no), level)
        areas.append({"score": name, "auc": value, "auc_low": low, "auc_high": high})
        curves.append(_roc(yes, no).assign(score=name)[ROC])
    joined = pd.concat(curves, ignore_index=True) if curves else pd.DataFrame(columns=ROC)
    return pd.DataFrame(areas, columns=SCORES), joined


def _drawn_anew(yes: int, no: int, seed: int) -> tuple[IntArray, IntArray]:
    """Return how often each of so many items is drawn, of either sort, dims (sample, item)."""
    rng = stream(seed, "recall")
    drawn = [(rng.choice(yes, yes), rng.choice(no, no)) for _ in range(RESAMPLES)]
    counts = [np.array([np.bincount(one, minlength=yes) for one, _ in drawn])]
    counts += [np.array([np.bincount(other, minlength=no) for _, other in drawn])]
    return counts[0], counts[1]


def _roc(yes: FloatArray, no: FloatArray) -> pd.DataFrame:
    """Return the rates of those at or above each value of a score, from none to all."""
    values = np.unique(np.concatenate([yes, no]))[::-1]
    rates = [
        np.concatenate([[0.0], 1 - np.searchsorted(np.sort(part), values, "left") / len(part)])
        for part in (no, yes)
    ]
    return pd.DataFrame(
        {
            "threshold": np.concatenate([[np.inf], values]),
            "false_positive_rate": rates[0],
            "true_positive_rate": rates[1],
        }
    )


def pair_scores(
    matches: pd.DataFrame, best: pd.DataFrame, planted: BoolArray, level: float, seed: int
) -> pd.DataFrame:
    """Return how well each score orders matches of planted duplicates before other matches.

    `best` has the best match of each duplicate that has one, and `planted` says which matches
    hold any. Of a kind and level, the others are those of the same items.
    """
    names = score_columns(matches)
    others = matches.loc[~planted, [*KEYS, *names]]
    every = pd.MultiIndex.from_frame(pd.concat([best[KEYS], others[KEYS]]))
    codes = pd.factorize(every)[0]
    found, beside = (table[names].to_numpy(float) for table in (best, others))
    of_found, of_beside = codes[: len(best)], codes[len(best) :]
    rows: list[dict[str, Any]] = []
    groups: dict[Any, Any] = dict(best.reset_index(drop=True).groupby(GROUP).indices)
    for group, at in groups.items():
        for column, name in enumerate(names):
            # An item of fewer than n words has no n-gram that could be shared.
            yes, no = np.isfinite(found[at, column]), np.isfinite(beside[:, column])
            items = np.intersect1d(of_found[at][yes], of_beside[no])
            if not len(items):
                continue
            yes, no = at[yes & np.isin(of_found[at], items)], no & np.isin(of_beside, items)
            values = found[yes, column], beside[no, column]
            of = [np.searchsorted(items, codes) for codes in (of_found[yes], of_beside[no])]
            low, high = _of_pairs(values[0], values[1], of[0], of[1], level, seed)
            rows.append(
                dict(zip(GROUP, group, strict=True))
                | {"score": name, "planted": len(values[0]), "others": len(values[1])}
                | {"items": len(items), "auc": area(*values), "auc_low": low, "auc_high": high}
            )
    return pd.DataFrame(rows, columns=PAIRS)


def _of_pairs(
    yes: FloatArray, no: FloatArray, of_yes: IntArray, of_no: IntArray, level: float, seed: int
) -> tuple[float, float]:
    """Return the interval of an area between pairs, of items drawn anew with all their pairs.

    There are as many independent ones of either sort as there are items.
    """
    items = int(max(of_yes.max(), of_no.max())) + 1
    if items < 2:  # of one item nothing shows how much items differ
        return np.nan, np.nan
    above = np.zeros((items, items))  # of pairs of two items, how many are in order
    order = np.argsort(of_no, kind="stable")
    ends = np.searchsorted(of_no[order], np.arange(items + 1))
    for item in range(items):
        own = no[order[ends[item] : ends[item + 1]]]
        above[:, item] = np.bincount(of_yes, wins(yes, own), minlength=items)
    counts = [np.bincount(of, minlength=items) for of in (of_yes, of_no)]
    weight = stream(seed, "recall pairs").multinomial(items, np.full(items, 1 / items), RESAMPLES)
    in_order = ((weight @ above) * weight).sum(axis=1)
    sampled = in_order / ((weight @ counts[0]) * (weight @ counts[1]))
    return area_interval(area(yes, no), sampled, items, items, level)
