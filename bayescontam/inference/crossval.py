"""Comparison of fits by cross-validation: by weights, or by refits that leave out responses."""

import contextlib
import functools
import importlib.metadata
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.loo.compare import compare as stacked
from arviz_stats.utils import ELPDData, ELPDDataLOO, ELPDDataLOOKFold
from scipy.special import logsumexp

from bayescontam._files import make_folder, sha256
from bayescontam._progress import progress_bar
from bayescontam._random import check_seed, stream
from bayescontam._runs import ContentCache
from bayescontam._text import join_list, printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.responses import Path
from bayescontam.errors import FitError, UsageError
from bayescontam.inference.checks import Thresholds
from bayescontam.inference.convergence import convergence
from bayescontam.inference.loo import elpd_figures, stored_loo, sum_se
from bayescontam.inference.named_fits import FitsOrFiles, named_fits
from bayescontam.inference.posterior import CHUNK, stack_draws
from bayescontam.inference.predictive import Prediction, predictive_draws
from bayescontam.inference.result import Fit
from bayescontam.inference.reusable import sample
from bayescontam.inference.sampling import Sampling
from bayescontam.model.build import build_design
from bayescontam.model.design import Design, make_design
from bayescontam.parallel import run_tasks, usable_cores
from bayescontam.specs.base import suggest
from bayescontam.specs.model import ModelSpec

By = Literal["response", "item", "model"]
"""What leaves together: a single response, all responses to an item, or all of a model."""
_SCHEMA = 2
"""To be raised when a fold that was finished before must not stand for one made now."""
FEWEST_DRAWS = 100
"""Equal draws below which a mean density over draws cannot be trusted."""
MOST_REFITS = 20
"""Responses of a fit that are left out one by one at most."""
_INSTEAD = "compare it by PSIS-LOO alone, which leaves out single responses without folds or refits"


@dataclass(frozen=True, eq=False)
class Units:
    """What is left out (groups), and what of it is predicted together (units)."""

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
    design: Design
    sampling: Sampling

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the table of a design without an exposure: keys of stored refits have it."""
        parts = []
        for field in fields(self.design):
            # The first follow from the table, names of people change nothing, and fits that have
            # the last are not made again.
            if field.name in ("whole", "like", "centring", "people", "shared"):
                continue
            value = getattr(self.design, field.name)
            # As in refits that were stored before there was any.
            if value is None and field.name in ("lineage", "participant", "pair"):
                continue
            if field.name == "lineage":
                # The rest of it follows from the table.
                value = np.concatenate([value.base, value.group_kind, value.share.ravel()])
            array = isinstance(value, np.ndarray)
            parts.append([field.name, sha256(value.tobytes()) if array else repr(value)])
        return sha256(json.dumps(parts).encode())


@dataclass(frozen=True, eq=False)
class RefitTask:
    """A fit to make again without some responses."""

    fit: str  # its name
    rows: IntArray  # positions in the design
    unit: IntArray  # those of one number are predicted together
    seed: int  # seed of the sampler


@dataclass(frozen=True)
class Left:
    """How well responses were predicted by a fit without them."""

    elpd: tuple[float, ...]  # log predictive density of each unit, in the order of their numbers
    worth: tuple[float, ...]  # how many equal draws each of these is the mean of
    r_hat: float  # largest of all parameters
    divergences: int


def make_worker(sources: Mapping[str, RefitData]) -> Callable[[RefitTask], Left]:
    """Return the function that makes fits again, for `bayescontam.parallel.run_tasks`."""
    return lambda task: refit_without(sources[task.fit], task)


def refit_without(source: RefitData, task: RefitTask) -> Left:
    """Fit without some responses, and predict them."""
    design = source.design
    built = build_design(source.spec, design.hold_out(task.rows))
    posterior, statistics = sample(built, source.sampling, task.seed, progress=False)
    draws = stack_draws(posterior, design)
    whole = replace(built, design=design)
    prediction = Prediction(draws[predictive_draws(draws, len(design))], whole)
    elpd, worth = predicted(prediction, task.rows, task.unit)
    diverging = int(statistics["diverging"].sum())
    return Left(tuple(elpd.tolist()), tuple(worth.tolist()), _worst_r_hat(posterior), diverging)


def _worst_r_hat(posterior: xr.Dataset) -> float:
    """Return the largest R-hat of all parameters; what is constant has none."""
    each = [convergence(v.to_numpy(), only=["r_hat"])["r_hat"] for v in posterior.values()]
    return float(np.nanmax(np.concatenate([[1.0], *each])))


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


def fold_key(source: RefitData, task: RefitTask) -> str:
    """Return the key of a fold: a hash of all that its figures depend on."""
    sampling = asdict(source.sampling)
    del sampling["cores"]  # of no effect on draws
    parts = [
        _SCHEMA, importlib.metadata.version("bayescontam"), source.spec.hash, source.fingerprint,
        sampling, task.rows.tolist(), task.unit.tolist(), task.seed,
    ]  # fmt: skip
    return sha256(json.dumps(parts).encode())


def _stored_fold(content: bytes | None, task: RefitTask) -> Left | None:
    """Return a finished fold, or None where there is none that can be read."""
    try:
        found = json.loads(content or b"")
        left = Left(
            tuple(map(float, found["elpd"])), tuple(map(float, found["worth"])),
            float(found["r_hat"]), int(found["divergences"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None
    units = len(np.unique(task.unit))
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
        """Validate the options."""
        check_seed(self.seed)


def kfold(
    fits: Mapping[str, Fit], by: By, folds: int, work: CrossValidation
) -> dict[str, ELPDDataLOOKFold]:
    """Leave out responses, items or models by folds, and predict them."""
    # The model spec is fitted again without each fold, in full: all models, items and benchmarks
    # keep their parameters, and the responses of the fold have no weight. So a left-out item's
    # difficulty and a left-out model's abilities are drawn from their population, given all else.
    sources = {name: _source(name, fit, work) for name, fit in fits.items()}
    units = {name: units_of(source.design, by) for name, source in sources.items()}
    tasks: dict[str, list[RefitTask]] = {name: [] for name in fits}
    for name, fit in fits.items():
        fold = fold_of(units[name], folds, work.seed)
        count = int(fold.max()) + 1
        for number in range(count):
            rows = np.flatnonzero(fold == number)
            seed = _seed(fit, "fold", by, count, work.seed, number)
            tasks[name].append(RefitTask(name, rows, units[name].unit[rows], seed))
    done = _fitted(sources, tasks, work)
    result = {}
    for name, fit in fits.items():
        group = units[name].group
        coords = {"group": ("unit", group), "reliable": ("unit", np.ones(len(group), bool))}
        elpd = xr.DataArray(np.full(len(group), np.nan), coords, "unit")
        _fill(elpd, fit, tasks[name], done[name])
        parameters = _in_sample(fit) - float(elpd.sum()) if by == "response" else np.nan
        sampling = sources[name].sampling
        figures = elpd_figures(elpd, parameters, sampling.draws * sampling.chains)
        result[name] = ELPDDataLOOKFold(**figures, good_k=None, n_folds=len(tasks[name]))  # type: ignore[arg-type]
    return result


def reloo(
    fits: Mapping[str, Fit], work: CrossValidation, most: int = MOST_REFITS
) -> dict[str, ELPDDataLOO]:
    """Leave out the responses for which PSIS-LOO fails, each by a fit without it."""
    loos = {name: stored_loo(fit.data) for name, fit in fits.items()}
    chosen = {name: _chosen(name, loo, most) for name, loo in loos.items()}
    sources = {name: _source(name, fit, work) for name, fit in fits.items() if len(chosen[name])}
    tasks: dict[str, list[RefitTask]] = {name: [] for name in fits}
    for name, source in sources.items():
        row_of = np.argsort(units_of(source.design, "response").unit)
        for unit in chosen[name]:
            seed = _seed(fits[name], "without", int(unit), work.seed)
            tasks[name].append(RefitTask(name, row_of[[unit]], np.array([unit]), seed))
    done = _fitted(sources, tasks, work)
    result = {}
    for name, fit in fits.items():
        loo, elpd = loos[name], loos[name].elpd_i.copy()
        _fill(elpd, fit, tasks[name], done[name])
        figures = elpd_figures(elpd, _in_sample(fit) - float(elpd.sum()), loo.n_samples)
        result[name] = replace(loo, **figures)
    return result


def _chosen(name: str, loo: ELPDDataLOO, most: int) -> IntArray:
    """Return the units for which PSIS-LOO fails, if they are not too many."""
    which = np.flatnonzero(~loo.elpd_i["reliable"].to_numpy())
    if len(which) > most:
        raise UsageError(
            f"compare: {len(which):,} responses of '{printable(name, 60)}' have a Pareto k above"
            f" {loo.good_k:.3g}, and at most {most} are left out one by one; leave responses out by"
            " folds instead (leave_out='response', folds=10; --leave-out response --folds 10)"
        )
    return which


def _source(name: str, fit: Fit, work: CrossValidation) -> RefitData:
    """Return what a fit is made of; refuse one whose file lacks what its spec needs."""
    shown, cores = printable(name, 60), usable_cores()
    if fit.spec.contamination.exposure != "known":
        raise FitError(
            f"compare: '{shown}' cannot be made again from its file, which does not hold what was"
            f" known of an unsure contamination; {_INSTEAD}"
        )
    try:
        responses = fit.responses()
    except FitError as error:
        raise FitError(
            f"compare: the responses of '{shown}' cannot be rebuilt from its file; {_INSTEAD}"
        ) from error
    sampling = Sampling(**fit.record["sampling"])
    spare = max(1, cores // (work.jobs or cores))
    sampling = replace(sampling, cores=min(sampling.chains, spare))
    return RefitData(fit.spec, make_design(fit.spec, responses), sampling)


def _fitted(
    sources: Mapping[str, RefitData],
    tasks: Mapping[str, Sequence[RefitTask]],
    work: CrossValidation,
) -> dict[str, list[Left]]:
    """Make the fits that are not in the cache, and keep them there."""
    todo = {
        f"{name}: {number}": task
        for name, parts in tasks.items()
        for number, task in enumerate(parts, start=1)
    }
    done: dict[str, Left] = {}
    cache, keys = None, {}
    if work.cache is not None:
        cache = ContentCache(make_folder(work.cache))
        keys = {name: fold_key(sources[task.fit], task) for name, task in todo.items()}
        for name, key in keys.items():
            if left := _stored_fold(cache.get(key), todo[name]):
                done[name] = left
    todo = {name: task for name, task in todo.items() if name not in done}
    results = run_tasks(functools.partial(make_worker, sources), todo, jobs=work.jobs)
    with (
        progress_bar(work.progress and bool(todo), "fits", len(todo), "fits") as advance,
        contextlib.closing(results) as ready,
    ):
        for name, left in ready:
            done[name] = left
            if cache is not None:
                cache.put(keys[name], json.dumps(asdict(left)) + "\n")
            advance(1)
    return {
        name: [done[f"{name}: {number + 1}"] for number in range(len(parts))]
        for name, parts in tasks.items()
    }


def _fill(elpd: xr.DataArray, fit: Fit, tasks: Sequence[RefitTask], done: Sequence[Left]) -> None:
    """Put figures of fits that were made again in their places, and how these fits went."""
    reliable = elpd["reliable"].to_numpy().copy()
    for task, left in zip(tasks, done, strict=True):
        units = np.unique(task.unit)
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


FOLDS = 10
"""Folds where items or models are left out, and no number is given."""
FEW_RESPONSES, FEW_GROUPS = 100, 10
"""Numbers of responses, and of items or models, below which standard errors say little."""


def comparison_table(elpds: Mapping[str, ELPDData], by: By) -> pd.DataFrame:
    """Compare fits by how well they predict what is left out, with stacking weights."""
    # Responses to a left-out item are predicted together, those of a left-out model one by one.
    # Those of one model or item are not independent: standard errors are of a sum over what is left
    # out. Stacking: Yao, Vehtari, Simpson & Gelman (2018), doi:10.1214/17-BA1091. Inconclusive
    # differences: Sivula, Magnusson, Matamoros & Vehtari (2025), doi:10.1214/25-BA1569. Leaving out
    # what shares an effect: Merkle, Furr & Rabe-Hesketh (2019), doi:10.1007/s11336-019-09679-0.
    weights = _stacking(elpds)
    best = elpds[str(weights.index[0])]
    rows = [_row(str(name), elpds[str(name)], best, weight, by) for name, weight in weights.items()]
    if len(rows) == 1:
        rows[0]["verdict"] = " ".join(
            ["nothing to compare it with.", *_doubts(best, by), *_few(best, by)]
        )
    return pd.DataFrame(rows)


def _stacking(elpds: Mapping[str, ELPDData]) -> "pd.Series[float]":
    """Return stacking weights under the names of fits, best fit first."""
    if len(elpds) == 1:
        return pd.Series(1.0, index=list(elpds))
    # Weights do not change with the unit of the densities; those of many responses to an
    # item together could not be held by floating-point numbers.
    highest = np.stack([one.elpd_i.to_numpy() for one in elpds.values()]).max(axis=0)
    scaled = {name: replace(one, elpd_i=one.elpd_i - highest) for name, one in elpds.items()}
    return stacked(scaled, round_to="none")["weight"]


def _row(name: str, own: ELPDData, best: ELPDData, weight: float, by: By) -> dict[str, object]:
    behind = own.elpd_i.copy(data=best.elpd_i.to_numpy() - own.elpd_i.to_numpy())
    difference, error = float(behind.sum()), sum_se(behind)
    row: dict[str, object] = {
        "fit": name,
        "elpd": own.elpd,
        "se": own.se,
        "p_loo": own.p,
        "elpd_diff": difference,
        "diff_se": error,
        "weight": weight,
        "bad_k": _unreliable(own),
        "left_out": by,
    }
    made = own.elpd_i.attrs
    row |= {key: made[key] for key in ("refits", "r_hat", "divergences") if key in made}
    doubts = [*_doubts(own, by)]
    if own is best:
        verdict = "best;" if doubts else "best"
    elif difference < 4:
        verdict = "as good as the best: a difference below 4 is inconclusive."
    elif difference < 2 * error:
        verdict = "not distinguishable from the best: the difference is below 2 standard errors."
    else:
        verdict = "predicts worse than the best."
    few = [] if own is best else _few(own, by)
    return row | {"verdict": " ".join([verdict, *doubts, *few])}


def _unreliable(own: ELPDData) -> int:
    return int((~own.elpd_i["reliable"]).sum())


def _doubts(own: ELPDData, by: By) -> Iterator[str]:
    """Yield what makes figures doubtful."""
    made, what = own.elpd_i.attrs, "items" if by == "item" else "responses"
    if bad := _unreliable(own):
        few = f"were predicted by fewer than {FEWEST_DRAWS} draws"
        why = few if made or own.good_k is None else f"have Pareto k > {own.good_k:.3g}"
        yield f"{bad} {what} {why}: unreliable there."
    if made and made["failed"]:
        yield (
            f"{made['failed']} of {made['refits']} fits that were made again failed their checks"
            f" (R-hat up to {made['r_hat']:.3f}, {made['divergences']} divergences): unreliable."
        )


def _few(own: ELPDData, by: By) -> Iterator[str]:
    groups = len(np.unique(own.elpd_i["group"]))
    if groups < FEW_GROUPS:
        yield f"Only {groups} {by}s were left out: standard errors say little."
    elif groups < FEW_RESPONSES and by != "model":
        yield f"Fewer than {FEW_RESPONSES} {by}s: standard errors are unreliable."


def _refuse_different_data(fits: Mapping[str, Fit]) -> None:
    hashes = {name: fit.record["data"]["hash"] for name, fit in fits.items()}
    first = next(iter(hashes))
    others = [name for name, value in hashes.items() if value != hashes[first]]
    if others:
        raise FitError(
            f"compare: {join_list(others)} and '{printable(first, 60)}' are fits of different "
            "responses;"
            " only fits of the same responses can be compared: fit the same table, with the same"
            " --where, with each model spec"
        )


def compare(
    fits: FitsOrFiles,
    *,
    leave_out: By = "response",
    folds: int | None = None,
    refit: bool = False,
    seed: int = 0,
    jobs: int | None = 1,
    cache: Path | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Compare fits of the same responses by cross-validation, with stacking weights.

    Parameters
    ----------
    fits : mapping of str to Fit or path-like, or sequence of these
        At least two, under the names to show; one is enough where folds are left out. Those of
        a sequence are called by their files, or by their model specs.
    leave_out : {"response", "item", "model"}, default "response"
        What is left out together and then predicted: whether a fit predicts another
        answer of the same models to the same items, a new item, or a new model.
    folds : int, optional
        Parts that are left out in turn, each by a fit without it. Default: for items and
        models 10, or as many as there are; for responses none: they are left out by
        weights (PSIS-LOO), and nothing is fitted again.
    refit : bool, default False
        Fit again without each response whose Pareto k is above 0.7, instead of trusting
        its weights; at most 20 of a fit.
    seed : int, default 0
        Seed of the folds. Fits of the same responses have the same folds.
    jobs : int or None, default 1
        Fits made at the same time; None: one for each core. With several, the program
        that calls this must be guarded by ``if __name__ == "__main__":``.
    cache : path-like, optional
        Folder that keeps what was finished, so that a second run goes on from there.
    progress : bool, default False
        Whether to show progress.

    Returns
    -------
    pandas.DataFrame
        One row for each fit, best first: ``fit, elpd, se, p_loo, elpd_diff, diff_se,
        weight, bad_k, left_out, verdict``, and where fits were made again before the
        verdict ``refits, r_hat, divergences``. Standard errors are those of a sum over
        what is left out together: responses to one item, or of one model, are not
        independent.

    Raises
    ------
    UsageError
        If there are too few fits, options do not go together, there is nothing to leave
        out, or more than 20 responses would have to be refitted.
    FitError
        If they are fits of different responses, or cannot be made again from their files:
        those of uncertain contamination cannot.

    Examples
    --------
    >>> compare({})
    Traceback (most recent call last):
        ...
    bayescontam.errors.UsageError: compare: give at least two fits
    """
    if refit and (leave_out != "response" or folds is not None):
        raise UsageError(
            "compare: refit is for single responses without folds, where PSIS-LOO fails; leave"
            " it out"
        )
    work = CrossValidation(seed=seed, jobs=jobs, cache=cache, progress=progress)
    named = named_fits(fits)
    if folds is None and leave_out != "response":
        folds = FOLDS
    if len(named) < (1 if folds is not None else 2):
        raise UsageError("compare: give at least two fits")
    _refuse_different_data(named)
    elpds: Mapping[str, ELPDData]
    if folds is not None:
        elpds = kfold(named, leave_out, folds, work)
    elif refit:
        elpds = reloo(named, work)
    else:
        elpds = {name: stored_loo(fit.data) for name, fit in named.items()}
    return comparison_table(elpds, leave_out)
