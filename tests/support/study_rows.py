"""Rows of a study whose posteriors are known: the mean of Normal data under a Normal prior."""

import numpy as np
import pandas as pd
from scipy.stats import norm

from bayescontam.calibration.storage import COLUMNS, LEVELS, interval_columns

PRIOR_SD, NOISE_SD, SIZE, RANKS = 1.0, 2.0, 8, 99


def made_rows(
    replicates: int,
    seed: int,
    *,
    narrow: float = 1.0,
    shift: float = 0.0,
    estimator: str = "exact",
    quantity: str = "mu",
    cell: str = "",
    where: tuple[str, ...] = ("",),
    alike: bool = False,
) -> pd.DataFrame:
    """Make rows of an estimator that is exact, or wrong in a way that is requested.

    Parameters
    ----------
    replicates, seed : int
        Replicates of the same seed have the same data, whatever the estimator.
    narrow : float
        Factor by which its posteriors are too narrow.
    shift : float
        What is added to its posteriors, in their exact standard deviations.
    where : tuple of str
        Cells of the quantity.
    alike : bool
        Whether the cells of one replicate are copies of each other.
    """
    rng = np.random.default_rng(seed)
    shape = (replicates, 1 if alike else len(where))
    truth = rng.normal(0, PRIOR_SD, shape)
    average = rng.normal(truth, NOISE_SD / np.sqrt(SIZE))
    precision = PRIOR_SD**-2 + SIZE / NOISE_SD**2
    sd = precision**-0.5
    mean = average * SIZE / NOISE_SD**2 / precision + shift * sd
    below = norm.cdf(truth, mean, sd / narrow)
    rank = rng.binomial(RANKS, below)
    cells = {"truth": truth, "mean": mean, "rank": rank}
    flat = {key: np.broadcast_to(v, (replicates, len(where))).ravel() for key, v in cells.items()}
    table = pd.DataFrame(
        {
            "cell": cell, "replicate": np.repeat(np.arange(replicates), len(where)),
            "estimator": estimator, "quantity": quantity, "where": list(where) * replicates,
            **flat, "sd": sd / narrow, "mcse": sd / narrow / 20, "ess": 400.0, "rhat": 1.0,
            "ranks": RANKS,
            "status": "passed", "reason": "", "engine": "nutpie", "seconds": 0.5, "audit": False,
        }
    )  # fmt: skip
    for level in LEVELS:
        half = norm.ppf(0.5 + level / 200) * sd / narrow
        low, high = interval_columns(level)
        table[low], table[high] = table["mean"] - half, table["mean"] + half
    return table[list(COLUMNS)]
