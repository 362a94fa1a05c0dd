"""Accuracy on items that a model's fit has not seen, predicted draw by draw."""

import numpy as np
import pandas as pd

from bayescontam._types import FloatArray
from bayescontam.calibration.estimators import RebuiltSampler
from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.convergence import convergence
from bayescontam.inference.estimands import Population
from bayescontam.inference.posterior import accuracy, stack_draws
from bayescontam.inference.predictive import with_own_effects
from bayescontam.model.build import build
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.study import SamplingSpec

CELL = ["model", "benchmark"]
_TAILS = (0.025, 0.975)


def predict_clean_shares(
    spec: ModelSpec, responses: Responses, pairs: pd.DataFrame, seed: int, sampling: SamplingSpec
) -> pd.DataFrame:
    """Predict which share of its trials each model gets right on pairs that are held out.

    `pairs` has ``model, benchmark, item, n_trials``; the items are in the responses, answered by
    other models. The result has ``model, benchmark, mean, sd, low, high, ess, r_hat, diverged``.
    """
    population = Population.of(build(spec, responses), "all")
    at = _positions(population, pairs)  # before anything is sampled
    drawn = RebuiltSampler(spec, "nutpie").draw(responses, seed, sampling)
    rng = np.random.default_rng(seed)
    draws = with_own_effects(stack_draws(drawn.posterior, drawn.built.design), drawn.built, rng)
    # Effects of pairs that were not observed are drawn from their population, `parts` says.
    clean = np.zeros(len(population.design))
    p = np.concatenate(
        [accuracy(part, population.built, clean)[:, at] for part in population.parts(draws, rng)]
    )
    counts = rng.binomial(pairs["n_trials"].to_numpy(), p)
    table = pairs.reset_index(drop=True)
    rows = [
        dict(zip(CELL, cell, strict=True)) | _summary(counts[:, own], p[:, own], trials, sampling)
        for cell, group in table.groupby(CELL, sort=False)
        for own, trials in [(group.index.to_numpy(), int(group["n_trials"].sum()))]
    ]
    return pd.DataFrame(rows).assign(diverged=drawn.diverged)


def _positions(population: Population, pairs: pd.DataFrame) -> np.ndarray:
    """Return where the pairs stand among those of the population."""
    design = population.design
    labels = [
        np.array(names, dtype=object)[at]
        for names, at in ((design.models, design.model), (design.items, design.item))
    ]
    at = pd.MultiIndex.from_arrays(labels).get_indexer(
        pd.MultiIndex.from_frame(pairs[["model", "item"]].astype(str))
    )
    if (at < 0).any():
        first = pairs.iloc[int(np.argmax(at < 0))]
        raise UsageError(
            f"pairs: no other model answered {first['item']}, or the fit has no {first['model']};"
            " hold out items that others answered"
        )
    return at


def _summary(
    counts: FloatArray, p: FloatArray, trials: int, sampling: SamplingSpec
) -> dict[str, float]:
    """Return moments and ends of the predicted share, and how well its mean is sampled."""
    share = counts.sum(axis=1) / trials
    low, high = np.quantile(share, _TAILS)
    chains = p.mean(axis=1).reshape(sampling.chains, -1, 1)
    found = convergence(chains, only=("ess_bulk", "r_hat"))
    return {
        "mean": float(share.mean()),
        "sd": float(share.std()),
        "low": float(low),
        "high": float(high),
        "ess": float(found["ess_bulk"][0]),
        "r_hat": float(found["r_hat"][0]),
    }
