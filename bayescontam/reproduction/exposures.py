"""Exposures: how often a corpus shows a concept, and what follows for the tasks that need it."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._types import FloatArray
from bayescontam.errors import UsageError
from bayescontam.importers.left_out import LeftOut
from bayescontam.importers.lines import objects

Random = np.random.Generator

_MOST = 0.999
"""Largest standard deviation, as a share of that of a yes-or-no event of the same mean."""


def given_exposures(mean: FloatArray, sd: FloatArray, draws: int, rng: Random) -> FloatArray:
    """Draw exposures that are given with their standard deviations.

    Dims (draw, concept).
    """
    mean, sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)
    possible = (mean > 0) & (mean < 1) & (sd > 0) & (sd**2 < mean * (1 - mean))
    if not possible.all():
        worst = int(np.flatnonzero(~possible)[0])
        raise UsageError(
            f"exposures: concept {worst + 1} has mean {mean[worst]:g} and standard deviation"
            f" {sd[worst]:g}; allowed are means between 0 and 1, and deviations above 0 and below"
            " sqrt(mean × (1 − mean))"
        )
    size = mean * (1 - mean) / sd**2 - 1
    result: FloatArray = rng.beta(mean * size, (1 - mean) * size, size=(draws, len(mean)))
    return result


def counted_exposures(counts: NDArray[Any], share: float, draws: int, rng: Random) -> FloatArray:
    """Draw exposures that follow from counts in a sampled corpus.

    Dims (draw, concept).
    """
    counts = np.asarray(counts)
    if not 0 < share <= 1 or (counts < 0).any():
        raise UsageError(
            f"exposures: got counts from {counts.min()} and a share of {share:g}; allowed are"
            " counts of 0 or more and shares above 0 up to 1"
        )
    documents = rng.gamma(counts + 0.5, 1 / share, size=(draws, len(counts)))
    logs = np.log1p(documents)
    result: FloatArray = logs / logs.max(axis=1, keepdims=True)
    return result


def documents_with(corpus: Path, words: dict[str, list[str]]) -> NDArray[Any]:
    """Return in how many documents each concept is met: any of its words stands there."""
    counts, left_out = np.zeros(len(words), dtype=int), LeftOut()
    for place, document in objects(corpus, left_out):
        text = document.get("text")
        if not isinstance(text, str):
            left_out.broken(str(corpus), place, "has no 'text'")
            continue
        there = set("".join(c if c.isalnum() else " " for c in text).lower().split())
        counts += [not there.isdisjoint(own) for own in words.values()]
    left_out.raise_if_broken("fix these lines, or give another folder (--data)")
    return counts


def covariates_of(draws: FloatArray, benchmark: str, items: list[str]) -> pd.DataFrame:
    """Return covariates: mean and standard deviation of each task's contamination."""
    mean = draws.mean(axis=0)
    sd = np.minimum(draws.std(axis=0), _MOST * np.sqrt(mean * (1 - mean)))
    return pd.DataFrame(
        {"benchmark": benchmark, "item": items, "contamination": mean, "contamination_sd": sd}
    )
