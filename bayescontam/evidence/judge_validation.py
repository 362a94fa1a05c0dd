"""How well a trained judge agrees, on held-out items, with the judges that it learnt from."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from bayescontam._random import stream
from bayescontam._types import FloatArray

METRICS = ("accuracy", "precision", "recall", "f1", "log_loss")
"""What is reported of a judge: of its verdicts, and last of its probabilities."""
BINS = 10
"""Bins of probability, of equal width, in which the share of duplicates is compared."""
_RESAMPLES, _LEVEL = 2_000, 0.95
_COUNTS = ("true_positive", "false_negative", "true_negative", "false_positive")
_LEAST = 1e-6  # probabilities nearer to 0 or 1 count as this near in the log loss


def validation(
    held_out: pd.DataFrame, methods: Mapping[str, tuple[str, str]], *, seed: int
) -> dict[str, Any]:
    """Compare held-out verdicts and probabilities with the verdicts that were learnt from.

    `held_out` has ``benchmark``, ``item``, ``judged`` (1 or 0), and for each method the columns
    of its probability and its verdict, which `methods` name; the first is the judge, whose counts
    and reliability are reported, and that the differences from the others are of. Intervals hold
    95 % of 2,000 bootstrap samples of items [1]_, the same for all methods, and for proportions
    also the Wilson interval [2]_: they hold for other items, and not for other judgements to
    learn from.

    .. [1] Efron and Tibshirani (1993), An introduction to the bootstrap.
       https://doi.org/10.1201/9780429246593
    .. [2] Wilson (1927), Probable inference, the law of succession, and statistical inference.
       https://doi.org/10.1080/01621459.1927.10502953
    """
    groups = held_out.groupby(["benchmark", "item"], sort=False).ngroup().to_numpy()
    drawn = _resamples(int(groups.max()) + 1, seed)
    metrics, found = {}, {}
    for name, (p, verdict) in methods.items():
        sums = _sums(held_out["judged"], held_out[p], held_out[verdict], groups)
        found[name] = _metrics(np.vstack([sums.sum(axis=0), drawn @ sums]))
        known = _proportions(sums.sum(axis=0))
        metrics[name] = {key: _interval(v, known.get(key)) for key, v in found[name].items()}
    judge, *others = methods
    p, verdict = methods[judge]
    total = _sums(held_out["judged"], held_out[p], held_out[verdict], groups).sum(axis=0)
    return {
        **dict(zip(_COUNTS, map(int, total[:4]), strict=True)),
        "pairs": len(held_out),
        "items": int(groups.max()) + 1,
        "metrics": metrics,
        "differences": {
            f"{judge} - {other}": {
                key: _interval(found[judge][key] - found[other][key]) for key in METRICS
            }
            for other in others
        },
        "reliability": _reliability(held_out["judged"], held_out[p], groups, drawn),
        "intervals": f"{_LEVEL:.0%} of {_RESAMPLES:,} bootstrap samples of items; proportions at"
        " least as wide as Wilson's interval",
    }


def _resamples(items: int, seed: int) -> FloatArray:
    """Return how often each sample holds each item, (sample, item)."""
    rng = stream(seed, "validation")
    return rng.multinomial(items, np.full(items, 1 / items), _RESAMPLES).astype(float)


def _sums(judged: Any, p: Any, verdict: Any, groups: Any) -> FloatArray:
    """Return for each item its counts of verdicts, and the sum of its log losses."""
    y, called = np.asarray(judged, bool), np.asarray(verdict, bool)
    near = np.clip(np.asarray(p, float), _LEAST, 1 - _LEAST)
    loss = -np.where(y, np.log(near), np.log(1 - near))
    columns = [y & called, y & ~called, ~y & ~called, ~y & called, loss]
    return np.stack([np.bincount(groups, column.astype(float)) for column in columns], axis=1)


def _metrics(sums: FloatArray) -> dict[str, FloatArray]:
    """Return metrics of sums over items, (sample, sum); NaN where nothing is divided."""
    tp, fn, tn, fp, loss = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        values = (
            (tp + tn) / (tp + fn + tn + fp),
            tp / (tp + fp),
            tp / (tp + fn),
            2 * tp / (2 * tp + fp + fn),
            loss / (tp + fn + tn + fp),
        )
    return dict(zip(METRICS, values, strict=True))


def _proportions(total: FloatArray) -> dict[str, tuple[float, float]]:
    """Return the Wilson intervals of what is a proportion; F1 by that of the Jaccard index."""
    tp, fn, tn, fp, _ = total.astype(int).tolist()
    low, high = _wilson(tp, tp + fp + fn)
    return {
        "accuracy": _wilson(tp + tn, tp + fn + tn + fp),
        "precision": _wilson(tp, tp + fp),
        "recall": _wilson(tp, tp + fn),
        "f1": (2 * low / (1 + low), 2 * high / (1 + high)),
    }


def _wilson(count: int, of: int) -> tuple[float, float]:
    if not of:
        return 0.0, 1.0
    found = binomtest(count, of).proportion_ci(_LEVEL, method="wilson")
    return float(found.low), float(found.high)


def _interval(
    values: FloatArray, known: tuple[float, float] | None = None
) -> dict[str, float | None]:
    """Return the estimate, which comes first, and the interval of the samples.

    It is never inside that of a proportion: where no verdict is wrong all samples are equal.
    """
    tails = [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]
    samples = values[1:][np.isfinite(values[1:])]
    low, high = np.quantile(samples, tails) if len(samples) else (np.nan, np.nan)
    if known is not None:
        low, high = np.fmin(low, known[0]), np.fmax(high, known[1])
    found = {"estimate": values[0], "low": low, "high": high}
    return {key: float(value) if np.isfinite(value) else None for key, value in found.items()}


def _reliability(judged: Any, p: Any, groups: Any, drawn: FloatArray) -> list[dict[str, Any]]:
    """Return for each bin of probability its mean, and the share that was judged a duplicate."""
    y, p = np.asarray(judged, float), np.asarray(p, float)
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    rows = []
    for place in np.unique(bins).tolist():
        inside = bins == place
        sums = np.stack(
            [np.bincount(groups, weight * inside) for weight in (np.ones_like(y), y)], axis=1
        )
        counts = np.vstack([sums.sum(axis=0), drawn @ sums])
        with np.errstate(invalid="ignore"):
            share = counts[:, 1] / counts[:, 0]
        rows.append(
            {
                "low": place / BINS,
                "high": (place + 1) / BINS,
                "pairs": int(inside.sum()),
                "probability": float(p[inside].mean()),
                "duplicates": _interval(share, _wilson(int(y[inside].sum()), int(inside.sum()))),
            }
        )
    return rows
