"""Simulated scores of models on items that they have seen or not, and levels of them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import expit

from bayescontam.data.model_scores import ModelScores
from bayescontam.evidence.seen_model import Levels, make_levels

NGRAMS = 5


def made_scores(
    rng: np.random.Generator,
    shares: Sequence[float],
    shift: float,
    items: int = 300,
    controls: int = 200,
    *,
    counts: bool = True,
) -> pd.DataFrame:
    """Return a table of scores with the truth in a column ``seen``.

    Items differ in how easy they are to complete, and models in how well they complete. Counts
    are of n-grams, whose log-odds rise by `shift`; numbers are skewed, and rise by `shift`
    standard deviations.
    """
    parts = []
    size = items + controls
    easy = rng.normal(0.0, 0.6, size)
    for number, share in enumerate(shares):
        seen = (rng.random(size) < share) & (np.arange(size) < items)
        table = pd.DataFrame(
            {
                "model": f"m{number}",
                "benchmark": np.where(np.arange(size) < items, "quiz", "quiz-rewritten"),
                "item": [f"q{k}" for k in range(size)],
                "control": (np.arange(size) >= items).astype(int),
                "seen": seen,
            }
        )
        if counts:
            p = expit(rng.normal(-1.5, 0.3) + easy + shift * seen)
            table = table.assign(n_correct=rng.binomial(NGRAMS, p), n_trials=NGRAMS)
        else:
            noise = (rng.gamma(4.0, 1.0, size) - 4.0) / 2.0
            table = table.assign(score=-8.0 + 3.0 * number + 0.5 * (noise + shift * seen))
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def made_levels(models: int = 3, items: int = 200, controls: int = 100, *, counts: bool) -> Levels:
    """Return levels of some scores, whose numbers of items other data may replace."""
    rng = np.random.default_rng(7)
    table = made_scores(rng, [0.4] * models, 2.0, items, controls, counts=counts)
    return make_levels(ModelScores.from_frame(table.drop(columns="seen")), rng)
