"""Draws of accuracies that fits do not store, and fits of many tables of one layout."""

from dataclasses import replace

import numpy as np
import pandas as pd

from bayescontam._random import stream
from bayescontam._types import FloatArray
from bayescontam.calibration.estimators import engine_of, faults_of
from bayescontam.data.responses import Responses
from bayescontam.inference.convergence import convergence
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import Draws, accuracy, predictor, stack_draws
from bayescontam.inference.predictive import with_own_effects
from bayescontam.inference.result import Fit
from bayescontam.model.build import BuiltModel, build
from bayescontam.specs.registry import load_model
from bayescontam.specs.study import Gates, SamplingSpec

_TAILS = (0.025, 0.975)
_SAMPLING = SamplingSpec(draws=1000, tune=500, chains=2)
_GATES = Gates(ess=200.0)


def joint_draws(fit: Fit, built: BuiltModel) -> Draws:
    """Return the stored draws of a fit with all effects of items and responses."""
    draws = stack_draws(fit.joint_posterior(), built.design)
    return with_own_effects(draws, built, stream(fit.record["seed"], "own effects"))


def accuracies(fit: Fit, responses: Responses) -> FloatArray:
    """Return the accuracy of each response, effects of items included, dims (draw, response)."""
    built = build(fit.spec, responses)
    return accuracy(joint_draws(fit, built), built)


def log_odds_of_mean_items(fit: Fit, responses: Responses) -> FloatArray:
    """Return the log-odds of each response if its item were as hard as the mean one."""
    built = build(fit.spec, responses)
    draws = stack_draws(fit.data["posterior"].to_dataset(), built.design)
    return predictor(replace(draws, delta=None), built.design)


class RepeatedFits:
    """A model spec that is compiled once and fitted to many tables of one layout."""

    def __init__(self, spec: str, first: Responses) -> None:
        self._sampler = engine_of(load_model(spec), "nutpie", first, moving=True)

    def estimate(self, responses: Responses, seed: int, quantity: str) -> pd.DataFrame:
        """Return ``model, benchmark, quantity, mean, low, high, faults`` of an estimand.

        ``faults`` says in what way the fit did not converge; it is empty where it did.
        """
        drawn = self._sampler.draw(responses, seed, _SAMPLING)
        draws = stack_draws(drawn.posterior, drawn.built.design)
        draws = with_own_effects(draws, drawn.built, np.random.default_rng(seed))
        shape, rng = (_SAMPLING.chains, _SAMPLING.draws), np.random.default_rng(seed)
        found = estimands(draws, drawn.built, shape, "min_observed", "all", rng)["estimands"]
        values = found[quantity].stack(cell=("model", "benchmark"))
        values = values.transpose("chain", "draw", "cell")
        cells = [tuple(map(str, cell)) for cell in values["cell"].to_numpy()]
        figures = convergence(values.to_numpy(), only=("ess_bulk", "r_hat"))
        ess, rhat = figures["ess_bulk"], figures["r_hat"]
        keys = [(quantity, model) for model, _ in cells]
        flat = values.to_numpy().reshape(-1, len(cells))
        low, high = np.quantile(flat, _TAILS, axis=0)
        faults = "; ".join(faults_of(keys, ess, rhat, drawn.diverged, _GATES))
        names = pd.DataFrame(cells, columns=["model", "benchmark"])
        return names.assign(
            quantity=quantity, mean=flat.mean(axis=0), low=low, high=high, faults=faults
        )
