"""Checks of a curve: what judgements carry, and whether the curve could have made them."""

from collections.abc import Iterator

import numpy as np
import xarray as xr
from scipy.special import expit
from scipy.stats import norm

from bayescontam._types import FloatArray, IntArray
from bayescontam.evidence.curve import BuiltCurve
from bayescontam.evidence.curve_draws import CurveDraws, take_curve
from bayescontam.evidence.verdicts import Verdicts, is_model, seen
from bayescontam.inference.checks import Check, Outcome, Thresholds
from bayescontam.seeds import stream

REPLICATES = 500
BINS = 6
"""Most cosine bins of a benchmark."""
FEWEST = 20
"""Verdicts that make a bin."""
LEAST = 5
"""Verdicts of either kind that a cell must be expected to hold to be checked."""


def marginal(draws: CurveDraws, cosine: FloatArray, benchmark: int, source: int = -1) -> FloatArray:
    """Return P(duplicate | cosine) of the best match of a random item, dims (draw, cosine)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(31)
    level = draws.log_odds(cosine, benchmark, source)
    total = np.zeros_like(level)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        total += weight * expit(level + draws.sigma_item * node)
    return total * expit(draws.log_odds_open(cosine, benchmark))


def evidence_checks(verdicts: Verdicts) -> Iterator[Check]:
    """Check what the judgements can show at all."""
    pairs = len(verdicts)
    if not pairs:
        yield Check(
            "Judgements", Outcome.CAUTION, 0, "> 0",
            "Nothing was judged: the curve is the prior, made for no embedder in particular."
            " Judge some pairs: bayescontam judge export.",
        )  # fmt: skip
        return
    named = [is_model(judge) for judge in verdicts.judges]
    by_people = np.unique(verdicts.pair[~np.array(named)[verdicts.judge]])
    by_models = np.unique(verdicts.pair[np.array(named)[verdicts.judge]])
    both = len(np.intersect1d(by_people, by_models))
    if any(named) and not both:
        yield Check(
            "Judges", Outcome.CAUTION, 0, "> 0",
            "No pair was judged by a person and a language model: the model's errors are as the"
            " prior says. Let people judge some of its pairs: bayescontam judge export.",
        )  # fmt: skip
    elif any(named):
        yield Check(
            "Judges", Outcome.PASSED, both, "> 0",
            f"{both:,} pairs were judged by people and by a language model.",
        )  # fmt: skip
    bare = [
        name for b, name in enumerate(verdicts.benchmarks) if not (verdicts.benchmark == b).any()
    ]
    if bare:
        yield Check(
            "Benchmarks", Outcome.CAUTION, len(bare), "0",
            f"{len(bare)} benchmarks without judgements have the curve that the others and the"
            " prior give them.",
        )  # fmt: skip


def bins(verdicts: Verdicts) -> IntArray:
    """Return the cell of each verdict: benchmark × bin of about equally many cosines."""
    cell = np.zeros(len(verdicts.called), dtype=np.int64)
    benchmark, cosine = verdicts.benchmark[verdicts.pair], verdicts.cosine[verdicts.pair]
    for b in range(len(verdicts.benchmarks)):
        rows = benchmark == b
        if not rows.any():
            continue
        count = max(1, min(BINS, int(rows.sum()) // FEWEST))
        edges = np.unique(np.quantile(cosine[rows], np.linspace(0, 1, count + 1)[1:-1]))
        cell[rows] = b * BINS + np.searchsorted(edges, cosine[rows], side="right")
    return cell


def replicate(posterior: xr.Dataset, built: BuiltCurve, seed: int) -> xr.Dataset:
    """Replicate the judgements from posterior draws and keep shares of groups.

    Dims (cell,).

    Effects of items are drawn anew: with their own, fitted to the verdicts that they are
    checked against, no check could fail.
    """
    verdicts, rng = built.verdicts, stream(seed, "curve predictive")
    draws = take_curve(posterior, built.spec)
    rows = np.linspace(0, len(draws) - 1, min(REPLICATES, len(draws))).astype(int)
    draws = draws[rows]
    hit, clear = (
        posterior[name].to_numpy().reshape(-1, len(verdicts.judges))[rows]
        for name in ("sensitivity", "specificity")
    )
    level, open_ = (np.empty((len(rows), n)) for n in (len(verdicts), len(verdicts.items)))
    for b in range(len(verdicts.benchmarks)):
        own = verdicts.benchmark == b
        level[:, own] = draws.log_odds(
            verdicts.cosine[own], b, verdicts.source[own], verdicts.place[own]
        )
        own = verdicts.benchmark_of_item == b
        open_[:, own] = draws.log_odds_open(verdicts.best[own], b)
    effect = rng.standard_normal(open_.shape) * draws.sigma_item
    opened = rng.random(open_.shape) < expit(open_)
    true = rng.random(level.shape) < expit(level + effect[:, verdicts.item])
    true &= opened[:, verdicts.item]
    hit, clear = hit[:, verdicts.judge], clear[:, verdicts.judge]
    share = np.ones((len(rows), 1))
    if "share_further" in posterior:
        share = posterior["share_further"].to_numpy().reshape(-1, 1)[rows]
    hit = seen(hit, clear, share, verdicts.further)
    p = np.where(true[:, verdicts.pair], hit, 1 - clear)
    called = rng.random(p.shape) < p
    cells, place, count = np.unique(bins(verdicts), return_inverse=True, return_counts=True)

    def shares(values: np.ndarray) -> FloatArray:
        return np.stack([np.bincount(place, row, len(cells)) for row in values]) / count

    data = {
        "benchmark_of_cell": ("cell", cells // BINS),
        "cosine": ("cell", shares(verdicts.cosine[verdicts.pair][None])[0]),
        "count": ("cell", count),
        "share": ("cell", shares(verdicts.called[None])[0]),
        "share_replicated": (("replicate", "cell"), shares(called)),
    }
    return xr.Dataset(data)


def predictive_checks(predictive: xr.Dataset, limits: Thresholds) -> Iterator[Check]:
    """Check that the shares called duplicates are such as the curve would give.

    By a Normal approximation, with Bonferroni's correction; cells of which fewer than 5
    verdicts of either kind are expected are too small for it and are left out.
    """
    observed = predictive["share"].to_numpy()
    replicated = predictive["share_replicated"].to_numpy()
    center, spread = replicated.mean(axis=0), replicated.std(axis=0)
    large = predictive["count"].to_numpy() * np.minimum(center, 1 - center) >= LEAST
    z = np.where(large, np.abs(observed - center) / np.where(large, spread, 1.0), 0.0)
    worst, p = int(z.argmax()), min(1.0, 2 * float(norm.sf(z.max())) * max(int(large.sum()), 1))
    good = p >= limits.predictive
    yield Check(
        "Judgements by cosine",
        Outcome.PASSED if good else Outcome.FAILED,
        p,
        f"p ≥ {limits.predictive:g}",
        "The curve gives such shares of duplicates as were found in every range of cosines."
        if good
        else f"At cosines near {float(predictive['cosine'][worst]):.2f} a share of"
        f" {observed[worst]:.2f} was called a duplicate, the curve expects {center[worst]:.2f}:"
        " add knots there, or widen the prior of sigma_shape.",
    )
