"""Cross-validation by refits: folds of responses, items, benchmarks or models."""

import contextlib
import functools
import importlib.metadata
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, get_args

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.utils import ELPDDataLOO, ELPDDataLOOKFold
from scipy.special import logsumexp

from bayescontam._files import make_folder, sha256
from bayescontam._progress import progress_bar
from bayescontam._random import check_seed, stream
from bayescontam._runs import ContentCache
from bayescontam._text import printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.responses import Responses
from bayescontam.errors import FitError, UsageError
from bayescontam.inference.checks import Thresholds
from bayescontam.inference.convergence import convergence
from bayescontam.inference.loo import GOOD_K, elpd_figures, stored_loo
from bayescontam.inference.posterior import CHUNK, stack_draws
from bayescontam.inference.predictive import Prediction, predictive_draws
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling, sample
from bayescontam.model.build import build_design
from bayescontam.model.design import Design, make_design
from bayescontam.parallel import run_tasks, usable_cores
from bayescontam.specs.base import suggest
from bayescontam.specs.model import ModelSpec

By = Literal["response", "item", "model"]
"""What leaves together: a single response, all responses to an item, or all of a model."""
_SCHEMA = 1
"""To be raised when a fold that was finished before must not stand for one made now."""
FEWEST_DRAWS = 100
"""Equal draws below which a mean density over draws cannot be trusted."""
MOST_REFITS = 20
"""Responses of a fit that are left out one by one at most."""
_INSTEAD = "compare it by PSIS-LOO alone, which leaves out single responses without folds or refits"


@dataclass(frozen=True, eq=False)
class Units:
    """What is left out, and what of it is predicted together; the order of rows does not count.

    A unit is predicted as a whole: the responses to a left-out item, and else single
    responses. A group is what is left out together.
    """

    by: By
    unit: IntArray  # its unit
    group: IntArray  # its group
    stratum: IntArray  # groups of each stratum are spread evenly over folds


def units_of(design: Design, by: By) -> Units:
    """Return what of a table is left out and predicted together."""
    if by not in get_args(By):
        raise UsageError(f"leave out: got {by!r}; {suggest(str(by), get_args(By))}")
    owners = [design.benchmarks[b] for b in design.benchmark_of_item]
    names = {
        name: _ranks(labels)[code]
        for name, labels, code in (
            ("model", [design.models], design.model),
            ("benchmark", [design.benchmarks], design.benchmark),
            ("item", [owners, design.items], design.item),
        )
    }
    if by == "item":
        _, first, unit = np.unique(names["item"], return_index=True, return_inverse=True)
        return Units(by, unit, np.arange(len(first)), names["benchmark"][first])
    order = np.lexsort([names["item"], names["benchmark"], names["model"]])
    unit = np.empty(len(order), dtype=np.int64)
    unit[order] = np.arange(len(order))
    if by == "model":
        stratum = np.zeros(len(design.models), dtype=np.int64)
        return Units(by, unit, names["model"][order], stratum)
    cell = names["model"] * len(design.benchmarks) + names["benchmark"]
    return Units(by, unit, np.arange(len(order)), cell[order])


def fold_of(units: Units, folds: int, seed: int) -> IntArray:
    """Deal groups to folds."""
    groups = len(units.stratum)
    if folds < 2:
        raise UsageError(f"folds: got {folds}; at least 2 are needed")
    if groups < 2:
        raise UsageError(
            f"leave out by {units.by}: there is only one {units.by}, and without it nothing is"
            " left to learn from; leave out something else"
        )
    count = min(folds, groups)
    rng = stream(seed, "folds", units.by, count)
    order = rng.permutation(groups)
    order = order[np.argsort(units.stratum[order], kind="stable")]
    fold = np.empty(groups, dtype=np.int64)
    fold[order] = rng.permutation(count)[np.arange(groups) % count]
    return fold[units.group[units.unit]]


def _ranks(labels: Sequence[Sequence[str]]) -> IntArray:
    """Return the place of each label, a text or several, in sorted order."""
    order = pd.MultiIndex.from_arrays([np.array(part, dtype=object) for part in labels]).argsort()
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


@dataclass(frozen=True, eq=False)
class RefitData:
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
class RefitTask:
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


def make_worker(sources: Mapping[str, RefitData]) -> Callable[[RefitTask], Left]:
    """Return the function that makes fits again, for `bayescontam.parallel.run_tasks`."""
    designs = {name: source.design() for name, source in sources.items()}
    return lambda task: refit_without(sources[task.source], designs[task.source], task.leave)


def refit_without(source: RefitData, design: Design, leave: Leave) -> Left:
    """Fit without some responses, and predict them."""
    built = build_design(source.spec, design.hold_out(leave.rows))
    posterior, statistics = sample(built, source.sampling, leave.seed, progress=False)
    draws = stack_draws(posterior, design)
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
    """Return how probable responses are, averaged over draws, dims (unit,)."""
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


def fold_key(source: RefitData, fingerprint: str, leave: Leave) -> str:
    """Return the key of a fold: a hash of all that its figures depend on."""
    sampling = asdict(source.sampling)
    del sampling["cores"]  # of no effect on draws
    parts = [
        _SCHEMA, importlib.metadata.version("bayescontam"), source.spec.hash, fingerprint,
        sampling, leave.rows.tolist(), leave.unit.tolist(), leave.seed,
    ]  # fmt: skip
    return sha256(json.dumps(parts).encode())


def fingerprint(design: Design) -> str:
    """Return a hash of everything in a design without an exposure."""
    parts = []
    for field in fields(design):
        value = getattr(design, field.name)
        array = isinstance(value, np.ndarray)
        parts.append([field.name, sha256(value.tobytes()) if array else repr(value)])
    return sha256(json.dumps(parts).encode())


def _stored_fold(content: bytes | None, leave: Leave) -> Left | None:
    """Return a finished fold, or None where there is none that can be read."""
    try:
        found = json.loads(content or b"")
        left = Left(
            tuple(map(float, found["elpd"])), tuple(map(float, found["worth"])),
            float(found["r_hat"]), int(found["divergences"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None
    units = len(np.unique(leave.unit))
    return left if len(left.elpd) == len(left.worth) == units else None


@dataclass(frozen=True)
class CrossValidation:
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


def kfold(
    fits: Mapping[str, Fit], by: By, folds: int, work: CrossValidation
) -> dict[str, ELPDDataLOOKFold]:
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
        coords = {"group": ("unit", group), "reliable": ("unit", np.ones(len(group), bool))}
        elpd = xr.DataArray(np.full(len(group), np.nan), coords, "unit")
        _fill(elpd, fit, leaves[name], done[name])
        parameters = _in_sample(fit) - float(elpd.sum()) if by == "response" else np.nan
        sampling = sources[name].sampling
        figures = elpd_figures(elpd, parameters, sampling.draws * sampling.chains)
        result[name] = ELPDDataLOOKFold(**figures, good_k=None, n_folds=len(leaves[name]))  # type: ignore[arg-type]
    return result


def _parts(fit: Fit, units: Units, folds: int, seed: int) -> list[Leave]:
    fold = fold_of(units, folds, seed)
    count, leaves = int(fold.max()) + 1, []
    for number in range(count):
        rows = np.flatnonzero(fold == number)
        own = _seed(fit, "fold", units.by, count, seed, number)
        leaves.append(Leave(rows, units.unit[rows], own))
    return leaves


def reloo(
    fits: Mapping[str, Fit], work: CrossValidation, most: int = MOST_REFITS
) -> dict[str, ELPDDataLOO]:
    """Leave out the responses for which PSIS-LOO fails, each by a fit without it."""
    loos = {name: stored_loo(fit.data) for name, fit in fits.items()}
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
        loo, elpd = loos[name], loos[name].elpd_i.copy()
        _fill(elpd, fit, leaves[name], done[name])
        figures = elpd_figures(elpd, _in_sample(fit) - float(elpd.sum()), loo.n_samples)
        result[name] = replace(loo, **figures)
    return result


def _chosen(name: str, loo: ELPDDataLOO, most: int) -> IntArray:
    """Return the units for which PSIS-LOO fails, if they are not too many."""
    which = np.flatnonzero(~loo.elpd_i["reliable"].to_numpy())
    if len(which) > most:
        raise UsageError(
            f"compare: {len(which):,} responses of '{printable(name, 60)}' have a Pareto k above"
            f" {GOOD_K:g}, and at most {most} are left out one by one; leave responses out by"
            " folds instead (leave_out='response', folds=10; --leave-out response --folds 10)"
        )
    return which


def _sources(
    fits: Mapping[str, Fit], work: CrossValidation
) -> tuple[dict[str, RefitData], dict[str, Design]]:
    cores = usable_cores()
    spare = max(1, cores // (work.jobs or cores))
    sources = {}
    for name, fit in fits.items():
        responses = _responses(name, fit)
        sampling = Sampling(**fit.record["sampling"])
        sampling = replace(sampling, cores=min(sampling.chains, spare))
        sources[name] = RefitData(fit.spec, responses, sampling)
    return sources, {name: source.design() for name, source in sources.items()}


def _responses(name: str, fit: Fit) -> Responses:
    """Rebuild the responses of a fit; refuse one whose file lacks what its spec needs of them."""
    shown = printable(name, 60)
    if fit.spec.contamination.exposure != "known":
        raise FitError(
            f"compare: '{shown}' cannot be made again from its file, which does not hold what was"
            f" known of an unsure contamination; {_INSTEAD}"
        )
    try:
        return fit.responses()
    except FitError as error:
        raise FitError(
            f"compare: the responses of '{shown}' cannot be rebuilt from its file; {_INSTEAD}"
        ) from error


def _fitted(
    sources: Mapping[str, RefitData],
    designs: Mapping[str, Design],
    leaves: Mapping[str, Sequence[Leave]],
    work: CrossValidation,
) -> dict[str, list[Left]]:
    """Make the fits that are not in the cache, and keep them there."""
    tasks = {
        f"{name}: {number}": RefitTask(name, leave)
        for name, parts in leaves.items()
        for number, leave in enumerate(parts, start=1)
    }
    done: dict[str, Left] = {}
    cache, keys = None, {}
    if work.cache is not None:
        cache = ContentCache(make_folder(work.cache))
        prints = {name: fingerprint(design) for name, design in designs.items()}
        for name, task in tasks.items():
            keys[name] = fold_key(sources[task.source], prints[task.source], task.leave)
            if left := _stored_fold(cache.get(keys[name]), task.leave):
                done[name] = left
    todo = {name: task for name, task in tasks.items() if name not in done}
    results = run_tasks(functools.partial(make_worker, sources), todo, jobs=work.jobs)
    shown = work.progress and bool(todo)
    with (
        progress_bar(shown, "fits", len(todo), "fits") as advance,
        contextlib.closing(results) as ready,
    ):
        for name, left in ready:
            done[name] = left
            if cache is not None:
                cache.put(keys[name], json.dumps(asdict(left)) + "\n")
            advance(1)
    return {
        name: [done[f"{name}: {number + 1}"] for number in range(len(parts))]
        for name, parts in leaves.items()
    }


def _fill(elpd: xr.DataArray, fit: Fit, leaves: Sequence[Leave], done: Sequence[Left]) -> None:
    """Put figures of fits that were made again in their places, and how these fits went."""
    reliable = elpd["reliable"].to_numpy().copy()
    for leave, left in zip(leaves, done, strict=True):
        units = np.unique(leave.unit)
        elpd.values[units] = left.elpd
        reliable[units] = np.array(left.worth) >= FEWEST_DRAWS
    elpd.coords["reliable"] = elpd.dims, reliable
    limits = Thresholds(**fit.record["thresholds"])
    failed = [
        not left.r_hat < limits.r_hat or left.divergences > limits.divergences for left in done
    ]
    elpd.attrs = {
        "refits": len(done),
        "failed": sum(failed),
        "r_hat": max((left.r_hat for left in done), default=np.nan),
        "divergences": sum(left.divergences for left in done),
    }


def _in_sample(fit: Fit) -> float:
    """Return the sum of log predictive densities where nothing is left out."""
    return float(fit.data["loo"]["log_density"].sum())


def _seed(fit: Fit, *names: str | int) -> int:
    return int(stream(fit.record["seed"], "left out", *names).integers(2**31))
