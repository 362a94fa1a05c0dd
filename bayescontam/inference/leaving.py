"""Leaving out: a fit made again without some responses, and how well it predicts them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.build import build_design
from bayescontam.inference.convergence import convergence
from bayescontam.inference.design import Design, make_design
from bayescontam.inference.draws import CHUNK, take_draws
from bayescontam.inference.engines import Sampling, sample
from bayescontam.inference.heldout import hold_out
from bayescontam.inference.prediction import Prediction, predictive_draws
from bayescontam.responses import Responses
from bayescontam.specs.model import ModelSpec


@dataclass(frozen=True, eq=False)
class Source:
    """What a fit is made of, to make it again."""

    spec: ModelSpec
    responses: Responses
    sampling: Sampling

    def design(self) -> Design:
        """Return the design of all responses."""
        return make_design(self.spec, self.responses)


@dataclass(frozen=True, eq=False)
class Leave:
    """Responses to leave out of a fit."""

    rows: IntArray  # positions in the design
    unit: IntArray  # those of one number are predicted together
    seed: int  # seed of the sampler


@dataclass(frozen=True, eq=False)
class Task:
    """A fit to make again, under its name, without some responses."""

    source: str
    leave: Leave


@dataclass(frozen=True)
class Left:
    """How well responses were predicted by a fit without them."""

    elpd: tuple[float, ...]  # log predictive density of each unit, in the order of their numbers
    worth: tuple[float, ...]  # how many equal draws each of these is the mean of
    r_hat: float  # largest of all parameters
    divergences: int


def make_worker(sources: Mapping[str, Source]) -> Callable[[Task], Left]:
    """Return the function that makes fits again, for `bayescontam.execute.run_tasks`."""
    designs = {name: source.design() for name, source in sources.items()}
    return lambda task: leave_out(sources[task.source], designs[task.source], task.leave)


def leave_out(source: Source, design: Design, leave: Leave) -> Left:
    """Fit without some responses, and predict them."""
    built = build_design(source.spec, hold_out(design, leave.rows))
    posterior, statistics = sample(built, source.sampling, leave.seed, progress=False)
    draws = take_draws(posterior, design)
    whole = replace(built, design=design)
    prediction = Prediction.of(draws[predictive_draws(draws, len(design))], whole)
    elpd, worth = predicted(prediction, leave.rows, leave.unit)
    diverging = int(statistics["diverging"].sum())
    return Left(tuple(elpd.tolist()), tuple(worth.tolist()), _worst_r_hat(posterior), diverging)


def _worst_r_hat(posterior: xr.Dataset) -> float:
    """Return the largest R-hat of all parameters; what is constant has none."""
    worst = 1.0
    for values in posterior.data_vars.values():
        cells = values.to_numpy()
        r_hat = convergence(cells.reshape(*cells.shape[:2], -1))["r_hat"]
        worst = max([worst, *r_hat[~np.isnan(r_hat)]])
    return float(worst)


def predicted(
    prediction: Prediction, rows: IntArray, unit: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return how probable responses are, averaged over draws.

    Dims (unit,).
    """
    order = np.argsort(unit, kind="stable")
    rows, unit = rows[order], unit[order]
    bounds = np.flatnonzero(np.r_[True, unit[1:] != unit[:-1], True])
    most, first, parts = max(1, CHUNK // len(prediction.draws)), 0, []
    while first + 1 < len(bounds):
        reached = int(np.searchsorted(bounds, bounds[first] + most, side="right")) - 1
        last = max(first + 1, reached)
        some = rows[bounds[first] : bounds[last]]
        density = prediction.density(some, prediction.center(some))
        together = np.add.reduceat(density, bounds[first:last] - bounds[first], axis=1)
        total = logsumexp(together, axis=0)
        worth = np.exp(2 * total - logsumexp(2 * together, axis=0))
        parts.append((total - np.log(len(together)), worth))
        first = last
    elpd, worth = (np.concatenate(part) for part in zip(*parts, strict=True))
    return elpd, worth
