"""Corpora whose duplicates are known, weighed with a curve that distinguishes them."""

from pathlib import Path

import numpy as np

from bayescontam.evidence.covariates import item_contamination
from bayescontam.evidence.occurrence import MEAN, OPEN, SHAPE
from bayescontam.scan.results import Scan
from tests.support.made_evidence import make_curve, make_draws, make_scan, match

STEEP = make_draws(100, threshold=0.62, steepness=200.0, threshold_open=0.6, steepness_open=200.0)


def truth_and_scan(folder: Path, share: float, seed: int) -> tuple[np.ndarray, Scan]:
    """Return how many duplicates each of 100 items has, and a scan of a share of the corpus.

    How duplicates are spread is drawn from the priors. Cosines distinguish duplicates from others,
    so that only what was not scanned is unsure.
    """
    rng = np.random.default_rng(seed)
    mean, shape, open_ = np.exp(rng.normal(*MEAN)), np.exp(rng.normal(*SHAPE)), rng.beta(*OPEN)
    mean = min(mean, 50 / share)
    count = rng.negative_binomial(shape, shape / (shape + mean), 100) * (rng.random(100) < open_)
    rows = []
    for i, n in enumerate(rng.binomial(count, share)):
        near = [*rng.normal(0.85, 0.03, n), *rng.normal(0.4, 0.03, 1 + rng.poisson(3))]
        rows += [match(f"q{i}", float(np.clip(c, -1, 1))) for c in near]
    return count, make_scan(folder, rows, shares={"web": share})


def weighed_errors(folder: Path, share: float, corpora: int) -> tuple[int, float, bool]:
    """Return what corpora show: numbers inside 95 %, actual by stated error, and no bias."""
    stated, actual, bias, inside = [], [], [], 0
    for seed in range(corpora):
        count, scan = truth_and_scan(folder / str(seed), share, seed)
        weighed = item_contamination(scan, make_curve(STEEP, seed=seed), draws=100)
        truth, p = count > 0, 1 - weighed.none.mean(axis=0)
        low, high = np.quantile(weighed.number.sum(axis=1), [0.025, 0.975])
        inside += bool(low <= count.sum() <= high)
        stated.append((p * (1 - p)).mean())
        actual.append(((truth - p) ** 2).mean())
        bias.append((p - truth).mean())
    unbiased = abs(np.mean(bias)) < 4 * np.std(bias) / np.sqrt(len(bias)) + 0.01
    return inside, float(np.sqrt(np.mean(actual) / np.mean(stated))), bool(unbiased)
