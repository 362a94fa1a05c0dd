"""Items whose probabilities of a duplicate, and tail samples, are set by hand or simulated."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from bayescontam.evidence.covariates import ItemContamination
from bayescontam.evidence.tail import Tail


def make_weighed(p: Any, tail: Tail | None = None) -> ItemContamination:
    """Return items of these probabilities of a duplicate, dims (draw, item), all of one kind."""
    p = np.atleast_2d(np.asarray(p, dtype=float))
    none, number = 1 - p, np.zeros(p.shape, dtype=np.int64)
    items = pd.DataFrame({"benchmark": "quiz", "item": [f"i{k}" for k in range(p.shape[1])]})
    return ItemContamination(
        items=items, sources=("web",), shares=np.ones(1), kinds=("exact",), ranks=(1,), none=none,
        none_by_source=none[..., None], none_by_kind=none[..., None], none_scanned=none,
        none_by_rank=none[..., None], expected=p, expected_scanned=p, expected_rest=0 * p,
        number=number, number_scanned=number, tail=make_tail(number) if tail is None else tail,
    )  # fmt: skip


def make_tail(
    number: Any, sampled: Any = 100, size: Any = 1000, searched: Any = 1_000_000, draws: int = 1
) -> Tail:
    """Return one part an item; `number` are duplicates of the sample, (item,) or (draw, item)."""
    number = np.asarray(number, dtype=np.int64)
    number = np.broadcast_to(number, (draws, number.shape[-1])) if number.ndim == 1 else number
    items = number.shape[1]
    each = [np.broadcast_to(np.asarray(x, np.int64), items) for x in (sampled, size, searched)]
    return Tail(
        none=(number == 0).astype(float), item=np.arange(items),
        source=np.full(items, "", dtype=object), sampled=each[0], copies=each[0], size=each[1],
        searched=each[2], number=number, occurrences=number,
    )  # fmt: skip


def simulate_trend(
    rng: np.random.Generator, items: int, slope: float, known: float, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of items' probabilities, and a column with a trend of `slope` for one sd.

    Evidence of an item is Normal around 0 without and `known` with a duplicate. The curve is
    known up to a shift of its log-odds, of sd 0.3, that all items share.
    """
    x = rng.standard_normal(items)
    x = (x - x.mean()) / x.std()
    true = rng.random(items) < expit(-0.4 + slope * x)
    score = rng.standard_normal(items) + known * true
    base = expit(-0.4 + slope * np.random.default_rng(0).standard_normal(100_000)).mean()
    found = 0.3 * rng.standard_normal()
    shift = found + 0.3 * rng.standard_normal((draws, 1))
    return expit(logit(base) + known * score - known**2 / 2 + shift), x
