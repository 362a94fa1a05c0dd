"""Cross-validation: fits made again without some responses, which they then predict."""

import contextlib
import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from bayescontam._types import FloatArray, IntArray
from bayescontam.errors import FitError, UsageError
from bayescontam.execute import run_tasks, usable_cores
from bayescontam.inference.checks import Thresholds
from bayescontam.inference.design import Design
from bayescontam.inference.engines import Sampling
from bayescontam.inference.fitted import Fit
from bayescontam.inference.foldcache import Shelf
from bayescontam.inference.folds import By, Units, fold_of, units_of
from bayescontam.inference.joining.remembered import remembered
from bayescontam.inference.leaving import Leave, Left, Source, Task, make_worker
from bayescontam.inference.pointwise import GOOD_K, Pointwise, Sampled, from_loo, stored_loo
from bayescontam.names import visible
from bayescontam.progress import progress_bar
from bayescontam.responses import Responses
from bayescontam.seeds import check_seed, stream

FEWEST_DRAWS = 100
"""Equal draws below which a mean density over draws cannot be trusted."""
MOST_REFITS = 20
"""Responses of a fit that are left out one by one at most."""
_INSTEAD = "compare it by PSIS-LOO alone, which leaves out single responses without folds or refits"


@dataclass(frozen=True)
class Work:
    """How fits are made again."""

    seed: int = 0  # seed of the folds; samplers have seeds that follow from it and from the fit's
    # fits made at the same time, each in a process of its own if there are several; None: one for
    # each core
    jobs: int | None = 1
    # folder in which finished fits' figures are stored, and looked up by the next run
    cache: str | os.PathLike[str] | None = None
    progress: bool = False  # whether to show progress

    def __post_init__(self) -> None:
        """Refuse what cannot be used."""
        check_seed(self.seed)


def by_folds(fits: Mapping[str, Fit], by: By, folds: int, work: Work) -> dict[str, Pointwise]:
    """Leave out responses, items or models by folds, and predict them.

    The model spec is fitted again without each fold, in full: all models, items and
    benchmarks keep their parameters, and the responses of the fold have no weight. So a
    left-out item's difficulty and a left-out model's abilities are drawn from their
    population, given all else. Effects of single responses are integrated out.
    """
    sources, designs = _sources(fits, work)
    units = {name: units_of(design, by) for name, design in designs.items()}
    leaves = {name: _parts(fits[name], units[name], folds, work.seed) for name in fits}
    done = _fitted(sources, designs, leaves, work)
    result = {}
    for name, fit in fits.items():
        group = units[name].group
        elpd = np.full(len(group), np.nan)
        bad = _fill(elpd, leaves[name], done[name])
        parameters = _in_sample(fit) - float(elpd.sum()) if by == "response" else np.nan
        result[name] = Pointwise(elpd, group, parameters, bad, _sampled(fit, done[name]))
    return result


def _parts(fit: Fit, units: Units, folds: int, seed: int) -> list[Leave]:
    fold = fold_of(units, folds, seed)
    count, leaves = int(fold.max()) + 1, []
    for number in range(count):
        rows = np.flatnonzero(fold == number)
        own = _seed(fit, "fold", units.by, count, seed, number)
        leaves.append(Leave(rows, units.unit[rows], own))
    return leaves


def one_by_one(
    fits: Mapping[str, Fit], work: Work, most: int = MOST_REFITS
) -> dict[str, Pointwise]:
    """Leave out the responses for which PSIS-LOO fails, each by a fit without it."""
    loos = {name: stored_loo(fit) for name, fit in fits.items()}
    chosen = {name: _chosen(name, loo, most) for name, loo in loos.items()}
    sources, designs = _sources({name: fits[name] for name in fits if len(chosen[name])}, work)
    leaves: dict[str, list[Leave]] = {name: [] for name in fits}
    for name, design in designs.items():
        row_of = np.argsort(units_of(design, "response").unit)
        for unit in chosen[name]:
            seed = _seed(fits[name], "without", int(unit), work.seed)
            leaves[name].append(Leave(row_of[[unit]], np.array([unit]), seed))
    done = _fitted(sources, designs, leaves, work)
    result = {}
    for name, fit in fits.items():
        start = from_loo(loos[name])
        elpd = start.elpd.copy()
        bad = _fill(elpd, leaves[name], done[name])
        parameters = _in_sample(fit) - float(elpd.sum())
        result[name] = Pointwise(elpd, start.group, parameters, bad, _sampled(fit, done[name]))
    return result


def _chosen(name: str, loo: xr.Dataset, most: int) -> IntArray:
    """Return the units for which PSIS-LOO fails, if they are not too many."""
    which = np.flatnonzero(~(loo["pareto_k"].to_numpy() <= GOOD_K))
    if len(which) > most:
        raise UsageError(
            f"compare: {len(which):,} responses of '{visible(name, 60)}' have a Pareto k above"
            f" {GOOD_K:g}, and at most {most} are left out one by one; leave responses out by"
            " folds instead (leave_out='response', folds=10; --leave-out response --folds 10)"
        )
    return which


def _sources(fits: Mapping[str, Fit], work: Work) -> tuple[dict[str, Source], dict[str, Design]]:
    cores = usable_cores()
    spare = max(1, cores // (work.jobs or cores))
    sources = {}
    for name, fit in fits.items():
        _refuse_forgotten(name, fit)
        sampling = Sampling(**fit.record["sampling"])
        sampling = replace(sampling, cores=min(sampling.chains, spare))
        sources[name] = Source(fit.spec, _responses(name, fit), sampling)
    return sources, {name: source.design() for name, source in sources.items()}


def _responses(name: str, fit: Fit) -> Responses:
    try:
        return remembered(fit)
    except FitError as error:
        raise FitError(
            f"compare: the responses of '{visible(name, 60)}' cannot be rebuilt from its file;"
            f" {_INSTEAD}"
        ) from error


def _refuse_forgotten(name: str, fit: Fit) -> None:
    """Refuse fits whose files lack what their model spec needs of the responses."""
    if fit.spec.contamination.exposure != "known":
        raise FitError(
            f"compare: '{visible(name, 60)}' cannot be made again from its file, which does not"
            f" hold what was known of an unsure contamination; {_INSTEAD}"
        )


def _fitted(
    sources: Mapping[str, Source],
    designs: Mapping[str, Design],
    leaves: Mapping[str, Sequence[Leave]],
    work: Work,
) -> dict[str, list[Left]]:
    """Make the fits that are not in the cache, and keep them there."""
    tasks = {
        f"{name}: {number}": Task(name, leave)
        for name, parts in leaves.items()
        for number, leave in enumerate(parts, start=1)
    }
    shelf = Shelf.open(work.cache, sources, designs)
    found = {name: shelf.get(task) for name, task in tasks.items()}
    done = {name: left for name, left in found.items() if left is not None}
    todo = {name: task for name, task in tasks.items() if name not in done}
    results = run_tasks(functools.partial(make_worker, sources), todo, jobs=work.jobs)
    shown = work.progress and bool(todo)
    with (
        progress_bar(shown, "fits", len(todo), "fits") as advance,
        contextlib.closing(results) as ready,
    ):
        for name, left in ready:
            done[name] = left
            shelf.put(todo[name], left)
            advance(1)
    return {
        name: [done[f"{name}: {number + 1}"] for number in range(len(parts))]
        for name, parts in leaves.items()
    }


def _fill(elpd: FloatArray, leaves: Sequence[Leave], done: Sequence[Left]) -> int:
    """Put figures in their places; return how many cannot be trusted."""
    bad = 0
    for leave, left in zip(leaves, done, strict=True):
        elpd[np.unique(leave.unit)] = left.elpd
        bad += int((~(np.array(left.worth) >= FEWEST_DRAWS)).sum())
    return bad


def _sampled(fit: Fit, done: Sequence[Left]) -> Sampled:
    limits = Thresholds(**fit.record["thresholds"])
    failed = [
        not left.r_hat < limits.r_hat or left.divergences > limits.divergences for left in done
    ]
    worst = max((left.r_hat for left in done), default=np.nan)
    return Sampled(len(done), sum(failed), worst, sum(left.divergences for left in done))


def _in_sample(fit: Fit) -> float:
    """Return the sum of log predictive densities where nothing is left out."""
    return float(fit.tree["loo"]["log_density"].sum())


def _seed(fit: Fit, *names: str | int) -> int:
    return int(stream(fit.record["seed"], "left out", *names).integers(2**31))
