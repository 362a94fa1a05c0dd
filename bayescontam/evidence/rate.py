"""How often a text of the corpus is a duplicate of an item: the dose that a model was given."""

from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import betaln, expit, log_expit

from bayescontam._random import stream
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.validation import check_level
from bayescontam.errors import UsageError
from bayescontam.evidence.covariates import ItemContamination
from bayescontam.inference.summary import LEVEL

PER = 10_000
"""Texts that rates are counted in."""
CONCENTRATION = (1.5, 1.5)
"""Prior of the log of the sum of both parameters of the items' beta distribution: Normal."""
_RANGE = (-15.0, 7.0), (CONCENTRATION[0] - 4.5, CONCENTRATION[0] + 4.5)
_POINTS = 41, 11
"""Ends and points of the grid of the log-odds of the mean share, and of the log of that sum."""
_EACH = 5
"""Truths of the texts that were not drawn, for each draw of the curve."""
_ROUNDS, _NEGLIGIBLE = 3, 15.0
"""How often the grid is laid closer, and by how much the log posterior lies lower outside it."""


def duplicate_rate(
    weighed: ItemContamination,
    *,
    per: Literal["benchmark", "item"] = "benchmark",
    level: float = LEVEL,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how many of 10,000 texts of the scanned part are duplicates of an item.

    Parameters
    ----------
    weighed : ItemContamination
    per : {"benchmark", "item"}, default "benchmark"
        Whether rows are of benchmarks, means over their items, or of single items.
    level : float, default 0.95
        Probability of the equal-tailed intervals.
    seed : int, default 0

    Returns
    -------
    pandas.DataFrame
        ``benchmark`` (and ``item``), ``items``, ``sampled`` (texts in the tail samples),
        ``tail_share`` (share of all cosines that lie in the tails), ``share, share_low,
        share_high`` (share of a tail's texts that are duplicates), ``rate, rate_low,
        rate_high`` (duplicates of an item among 10,000 texts, outside its tail none). NaN where
        no tail was drawn.

    Raises
    ------
    UsageError
        If `per` is another word, or `level` is none that an interval can have.

    Notes
    -----
    The tail of an item consists of the texts with the highest cosines, such as 0.1 % of all
    (``search.tail_share``), of which the scan drew some at random (``search.tail_size``). If
    40 of 100 of them are duplicates, 0.4 × 0.1 %, or 4 in 10,000 texts of the corpus, are
    duplicates of the item [1]_. That is a lower bound, as texts outside the tail count as clean.

    For each draw of the curve one truth of each sampled text is drawn. The texts of the tail
    that were not drawn are duplicates at a rate with a beta distribution over the items of a
    benchmark (and source, of a scan by source), whose two parameters are drawn given the
    samples. So an item whose sample holds no duplicate has an interval above zero. Copies of a
    text are counted in the sample, and assumed to be as frequent for duplicates as for others
    elsewhere. Intervals are those of the scanned part, and of the items of the benchmark.

    References
    ----------
    .. [1] Spiesberger et al. (2026), Soft Contamination Means Benchmarks Test Shallow
       Generalization, on the dose of an experiment.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.duplicate_rate(bayescontam.item_contamination("no-such-folder", "curve.nc"))
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    check_level(level)
    if per not in ("benchmark", "item"):
        raise UsageError(f"per: got {per!r}; allowed are 'benchmark' and 'item'")
    found = _duplicates(weighed, stream(seed, "rate"))
    tail = weighed.tail
    items = weighed.items.reset_index(drop=True)
    rows = []
    names = ["benchmark"] if per == "benchmark" else ["benchmark", "item"]
    for _, group in items.groupby(names, sort=False, observed=True):
        members = group.index.to_numpy()
        own = np.isin(tail.item, members)
        drawn, size, searched = (
            _by_item(values[..., own], tail.item[own], members)
            for values in (found, tail.size, tail.searched)
        )
        rows.append(
            group[names].iloc[0].to_dict()
            | {"items": len(members), "sampled": int(tail.sampled[own].sum())}
            | _figures(drawn, size, searched, level)
        )
    return pd.DataFrame(rows)


def _by_item(values: np.ndarray, item: IntArray, members: IntArray) -> FloatArray:
    """Return sums over the parts of each item, dims (…, item)."""
    return values.astype(float) @ (item[:, None] == members).astype(float)


def _figures(
    found: FloatArray, size: FloatArray, searched: FloatArray, level: float
) -> dict[str, float]:
    """Return means over items with their intervals; items without a tail are left out."""
    there = size > 0
    if not there.any():
        names = ("tail_share", "share", "share_low", "share_high", "rate", "rate_low", "rate_high")
        return dict.fromkeys(names, np.nan)
    found, size, searched = found[:, there], size[there], searched[there]
    figures = {"tail_share": float((size / searched).mean())}
    for name, of, scale in (("share", size, 1), ("rate", searched, PER)):
        values = scale * (found / of).mean(axis=1)
        low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
        figures |= {name: values.mean(), f"{name}_low": low, f"{name}_high": high}
    return {name: float(value) for name, value in figures.items()}


def _duplicates(weighed: ItemContamination, rng: np.random.Generator) -> IntArray:
    """Draw the number of duplicates in each tail, copies counted, dims (draw × `_EACH`, part)."""
    tail = weighed.tail
    result = np.repeat(tail.occurrences, _EACH, axis=0)
    number = np.repeat(tail.number, _EACH, axis=0)
    rest = np.maximum(tail.size - tail.copies, 0)
    benchmark = weighed.items["benchmark"].to_numpy(dtype=object)[tail.item]
    codes, names = pd.factorize(pd.MultiIndex.from_arrays([benchmark, tail.source]))
    for code in range(len(names)):
        own = codes == code
        share = draw_shares(number[:, own], tail.sampled[own], rng)
        result[:, own] += rng.binomial(rest[own], share)
    return result


def draw_shares(number: IntArray, sampled: IntArray, rng: np.random.Generator) -> FloatArray:
    """Draw the shares that samples come from, given how many of each have a property.

    `number` has dims (draw, part), `sampled` (part,). Shares of a draw have one beta
    distribution. Its mean has the prior Beta(1/2, 1/2), and the log of the sum of its parameters
    `CONCENTRATION`; both are drawn on a grid, and at random in its cells.
    """
    cells = np.stack(np.broadcast_arrays(number, sampled), axis=-1)
    known, place = np.unique(cells.reshape(-1, 2), axis=0, return_inverse=True)
    tally = np.zeros((len(number), len(known)))
    np.add.at(tally, (np.arange(len(number))[:, None], place.reshape(number.shape)), 1.0)
    ends = _RANGE
    for left in reversed(range(_ROUNDS)):
        axes = [np.linspace(*end, count) for end, count in zip(ends, _POINTS, strict=True)]
        steps = [axis[1] - axis[0] for axis in axes]
        points = [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]
        log_posterior = _log_posterior(tally, known, *points)
        # Many items inform so well that a first grid has one point where the posterior is.
        best = log_posterior.max(axis=1, keepdims=True)
        near = (log_posterior > best - _NEGLIGIBLE).any(axis=0)
        if left:
            first, second = (
                (float(axis[near].min() - step), float(axis[near].max() + step))
                for axis, step in zip(points, steps, strict=True)
            )
            ends = first, second
    # Adding Gumbel noise and taking the largest draws from a categorical distribution.
    chosen = (log_posterior + rng.gumbel(size=log_posterior.shape)).argmax(axis=1)
    u = rng.random((2, len(chosen))) - 0.5
    a, b = _parameters(*(axis[chosen] + x * h for axis, x, h in zip(points, u, steps, strict=True)))
    a, b = a[:, None], b[:, None]
    shares: FloatArray = rng.beta(np.maximum(a + number, 1e-12), b + sampled - number)
    return shares


def _parameters(logit: FloatArray, log_sum: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both parameters of beta distributions, by the log-odds of the mean and their sum."""
    return np.exp(log_sum) * expit(logit), np.exp(log_sum) * expit(-logit)


def _log_posterior(
    tally: FloatArray, known: IntArray, logit: FloatArray, log_sum: FloatArray
) -> FloatArray:
    """Return log posteriors, (draw, point), of how often each pair of numbers is there."""
    center, spread = CONCENTRATION
    log_prior = (log_expit(logit) + log_expit(-logit)) / 2 - ((log_sum - center) / spread) ** 2 / 2
    a, b = _parameters(logit, log_sum)
    k, n = known.T[:, :, None]
    result: FloatArray = tally @ (betaln(a + k, b + n - k) - betaln(a, b)) + log_prior
    return result
