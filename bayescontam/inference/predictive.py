"""Predictive checks: what the fit, and the prior alone, say the data should look like."""

from dataclasses import dataclass, replace

import numpy as np
import pymc as pm
import xarray as xr

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.build import Built
from bayescontam.inference.design import Design
from bayescontam.inference.difficulties import placed, spelt_out
from bayescontam.inference.draws import Draws, exposed, predictor, response_guess, take_draws
from bayescontam.inference.exposure import draw_nodes
from bayescontam.inference.likelihood import accuracy
from bayescontam.inference.located import located
from bayescontam.inference.own_effects import with_own_effects
from bayescontam.progress import unannounced

REPLICATES = 500
"""Replicated data sets drawn for each check."""
FEWEST, MOST_NUMBERS = 200, 100_000_000
"""Fewest replicates, and most numbers of all of them, for large tables."""
BINS = 6
"""Most contamination bins of a benchmark."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Groups of responses whose mean score is compared with replicated ones."""

    of_response: IntArray
    count: int
    weight: FloatArray

    def means(self, scores: FloatArray) -> FloatArray:
        """Return the mean score of each cell, dims (…, cell); NaN for an empty cell."""
        size = np.bincount(self.of_response, self.weight, minlength=self.count)
        sums = [
            np.bincount(self.of_response, self.weight * row, minlength=self.count) for row in scores
        ]
        return np.stack(sums) / np.where(size, size, np.nan)


def contamination_bins(design: Design) -> tuple[Cells, FloatArray]:
    """Group responses by benchmark and contamination.

    Dims (benchmark, bin).

    Bins hold about equally many responses; where contamination takes few values, each
    value is a bin.
    """
    assert design.contamination is not None
    bin_of = np.zeros(len(design), dtype=np.int64)
    for b in range(len(design.benchmarks)):
        rows = design.benchmark == b
        values = design.contamination[rows]
        edges = np.unique(values)
        if len(edges) > BINS:
            edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[:-1]))
        bin_of[rows] = np.searchsorted(edges, values, side="right") - 1
    cells = Cells(design.benchmark * BINS + bin_of, len(design.benchmarks) * BINS, design.weight)
    centers = cells.means(design.contamination[None])[0]
    return cells, centers.reshape(len(design.benchmarks), BINS)


def posterior_checks(draws: Draws, built: Built, rng: np.random.Generator) -> xr.Dataset:
    """Replicate the data from posterior draws and keep mean scores of groups."""
    design = built.design
    shape = len(design.models), len(design.benchmarks)
    groups = {"score": (Cells(design.model_benchmark, int(np.prod(shape)), design.weight), shape)}
    result = xr.Dataset(coords={name: design.coords[name] for name in ("model", "benchmark")})
    if design.contamination is not None:
        bins, centers = contamination_bins(design)
        groups["binned"] = (bins, centers.shape)
        result["bin_contamination"] = (("benchmark", "bin"), centers)
    observed = (design.n_correct / design.n_trials)[None]
    draws = draws.thinned(max(FEWEST, min(REPLICATES, MOST_NUMBERS // len(design))))
    replicated: dict[str, list[FloatArray]] = {name: [] for name in groups}
    for part in draws.chunks(design):
        scores = replicated_counts(spelt_out(part, built.lattice), built, rng) / design.n_trials
        for name, (cells, _) in groups.items():
            replicated[name].append(cells.means(scores))
    for name, (cells, size) in groups.items():
        dims = ("model", "benchmark") if name == "score" else ("benchmark", "bin")
        result[name] = (dims, cells.means(observed)[0].reshape(size))
        values = np.concatenate(replicated[name]).reshape(-1, *size)
        result[f"{name}_replicated"] = (("replicate", *dims), values.astype(np.float32))
    return result


def replicated_counts(draws: Draws, built: Built, rng: np.random.Generator) -> FloatArray:
    """Draw numbers of correct trials of all responses, dims (draw, response).

    Model-by-item effects and unknown contamination are drawn anew: with their own, fitted
    to the very responses that they are checked against, no check could fail.
    """
    design = built.design
    guess = response_guess(draws, built.spec, design)
    eta = predictor(draws, design)
    if draws.sigma_eps is not None:
        shape = len(draws), len(design) - design.n_single
        eta[:, design.n_single :] += rng.standard_normal(shape) * draws.sigma_eps
    if design.exposure is not None:
        weights = design.exposure.weights(draws.p_shift, design.benchmark)
        shape = len(draws), *weights.shape[1:]
        node = draw_nodes(np.broadcast_to(weights, shape), rng)
        eta = exposed(replace(draws, node=node), design, eta)
    p = accuracy(eta, guess)
    if design.n_single == len(design):  # several times faster, and tables may be large
        return (rng.random(p.shape) < p) * 1.0
    return rng.binomial(design.n_trials, p).astype(np.float64)


def prior_draws(built: Built, count: int, rng: np.random.Generator) -> tuple[Draws, xr.Dataset]:
    """Draw effects and parameters from the prior.

    Dims (chain, draw, …).
    """
    observed = {variable.name for variable in built.model.observed_RVs}
    wanted = [name for name in built.model.named_vars if name not in observed]
    with unannounced():
        tree = pm.sample_prior_predictive(
            count,
            model=built.model,
            var_names=wanted,
            random_seed=rng,
            compile_kwargs={"mode": "FAST_COMPILE"},
        )
    prior = tree["prior"].to_dataset()
    draws = placed(take_draws(prior, built.design), built.lattice, rng, responses=False)
    draws = with_own_effects(draws, built, rng, responses=False)
    return located(draws, built, rng, responses=False)[0], prior
