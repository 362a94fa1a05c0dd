"""Which models descend from one base, and which exposures share a coefficient of spillover."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.data.responses import Responses
from bayescontam.data.validation import closest_name, read_labels, read_numbers
from bayescontam.errors import DataError, Fault

BASE = "base"  # column with the model or training recipe that a model descends from
CHECKPOINT, RUN = "checkpoint", "run"
"""Columns: the place of a model along a training run, and which of a base's runs it is."""
NO_DOSE = 1e-12  # dose up to which a pair of model and benchmark counts as not exposed


@dataclass(frozen=True, eq=False)
class Lineage:
    """The bases of models, and groups of exposures: one base, one benchmark, one kind."""

    bases: tuple[str, ...]
    base: IntArray  # dims (model,)
    kinds: tuple[str, ...]  # of duplicates; one without a name if they are not distinguished
    # dims (group,): positions in the labels
    group_base: IntArray
    group_benchmark: IntArray
    group_kind: IntArray
    # dims (model × benchmark, group): part of a pair's dose that is of each group. Rows add up to
    # 1; those of pairs that were not exposed are what exposure of their model would be: an equal
    # part of each group of its base on the benchmark, else of each base's, and zeros of controls.
    share: FloatArray
    # dims (model, start) and (model, step): how what training changes everywhere adds up: models
    # of a run share its start, and have the steps up to their checkpoints. None: each its own.
    walk: tuple[FloatArray, FloatArray] | None = None
    # what the table says, for those who store it: the kind of each of its rows, and of each model
    # its checkpoint (NaN: none) and the label of its run
    kind: IntArray | None = None
    checkpoint: FloatArray | None = None
    run: tuple[str, ...] = ()

    def labels(self, benchmarks: tuple[str, ...]) -> list[str]:
        """Labels of the groups, such as ``olmo on MuSR (exact)``."""
        return [
            f"{self.bases[a]} on {benchmarks[b]}" + (f" ({self.kinds[k]})" if self.kinds[k] else "")
            for a, b, k in zip(self.group_base, self.group_benchmark, self.group_kind, strict=True)
        ]

    @property
    def siblings(self) -> IntArray:
        """Number of models of each model's base, itself included, dims (model,)."""
        return np.bincount(self.base, minlength=len(self.bases))[self.base]


def make_lineage(
    responses: Responses,
    frame: pd.DataFrame,
    kinds: str,
    cells: IntArray,
    doses: FloatArray | None,
    benchmarks: int,
) -> Lineage:
    """Return the lineage of a table; `doses` are contaminations of rows by weight, (response,)."""
    bases = bases_of(responses)
    base, labels = pd.factorize(np.array([bases[name] for name in responses.models], dtype=object))
    kind = np.zeros(len(frame), dtype=np.int64)
    names: tuple[str, ...] = ("",)
    if kinds:
        exposed = np.zeros(len(frame), bool) if doses is None else doses > NO_DOSE
        kind, names = _kinds_of(responses, frame, kinds, exposed)
    size = len(responses.models) * benchmarks
    of_kind = np.zeros((size, len(names)))
    if doses is not None:
        np.add.at(of_kind, (cells, kind), doses)
    cell_base = np.repeat(base, benchmarks)
    cell_benchmark = np.tile(np.arange(benchmarks), len(responses.models))
    cell, of = np.nonzero(of_kind > NO_DOSE)
    keys = np.stack([cell_base[cell], cell_benchmark[cell], of])
    group_base, group_benchmark, group_kind = np.unique(keys, axis=1).astype(np.int64)
    same_benchmark = cell_benchmark[:, None] == group_benchmark
    own = same_benchmark & (cell_base[:, None] == group_base)
    weight = np.where(own, of_kind[:, group_kind], 0.0)
    for other in (own, same_benchmark):
        none = weight.sum(axis=1) <= NO_DOSE
        weight[none] = other[none]
    total = weight.sum(axis=1, keepdims=True)
    share = weight / np.where(total > 0, total, 1.0)
    return Lineage(
        tuple(map(str, labels)), base.astype(np.int64), names,
        group_base, group_benchmark, group_kind, share, kind=kind if kinds else None,
    )  # fmt: skip


def add_checkpoints(
    lineage: Lineage,
    responses: Responses,
    frame: pd.DataFrame,
    contamination: FloatArray | None,
) -> Lineage:
    """Return the lineage with random walks along runs; contaminations are those of rows."""
    source, models = responses.source, responses.models
    if CHECKPOINT not in frame:
        problem = f"checkpoints need a column '{CHECKPOINT}', which is not there"
        advice = (
            "Add the step or epoch of each checkpoint (empty: none), or leave out"
            " ability.checkpoints."
        )
        raise DataError([Fault(source, problem)], advice)
    values = read_numbers(frame[CHECKPOINT])
    odd = pd.Series(np.isinf(values), index=frame.index)
    if odd.any():
        got = printable(str(frame[CHECKPOINT][odd].iloc[0]), 40)
        raise DataError(
            [Fault(source, f"got {got!r}, allowed is a number or nothing", column=CHECKPOINT)]
        )
    of_rows = pd.Series(values, index=frame.index).groupby(frame["model"].map(str), sort=False)
    _refuse_several(of_rows, CHECKPOINT, "checkpoint", source)
    place = of_rows.first().reindex(models).to_numpy()
    run, number = _runs_of(lineage, frame, models, source)
    start, steps, widths = np.arange(len(models)), [], []
    for own in np.unique(number[np.isfinite(place)]):
        members = np.flatnonzero((number == own) & np.isfinite(place))
        label = run[members[0]]
        members = members[np.argsort(place[members], kind="stable")]
        _refuse_disorder([models[m] for m in members], place[members], responses, label)
        if contamination is not None:
            table = frame[["model", "benchmark", "item"]].assign(contamination=contamination)
            _refuse_falling([models[m] for m in members], table, responses, label)
        start[members] = members[0]
        spans = np.diff(place[members])
        for k, width in enumerate(spans / spans.mean() if len(spans) else spans):
            step = np.zeros(len(models))
            step[members[k + 1 :]] = 1.0
            steps.append(step)
            widths.append(np.sqrt(width))
    labels = tuple(run) if RUN in frame else ()
    lineage = replace(lineage, checkpoint=place, run=labels)
    if not steps:
        return lineage
    first = np.unique(start)
    walk = (start[:, None] == first).astype(float), np.array(steps).T * np.array(widths)
    return replace(lineage, walk=walk)


def _runs_of(
    lineage: Lineage, frame: pd.DataFrame, models: tuple[str, ...], source: str
) -> tuple[NDArray[np.object_], IntArray]:
    """Return the run of each model in words, its base and run, and as a number in their order."""
    own = pd.Series("", index=list(models))
    if RUN in frame:
        of_rows = read_labels(frame[RUN]).groupby(frame["model"].map(str), sort=False)
        _refuse_several(of_rows, RUN, "run", source)
        own = of_rows.first().reindex(models)
    pairs = [(lineage.bases[a], str(run)) for a, run in zip(lineage.base, own, strict=True)]
    order = {pair: at for at, pair in enumerate(sorted(set(pairs)))}  # words may be those of two
    words = [f"{base}, {run}" if run else base for base, run in pairs]
    return np.array(words, object), np.array([order[pair] for pair in pairs], dtype=np.int64)


def _refuse_several(of_rows: Any, column: str, what: str, source: str) -> None:
    """Refuse models whose rows, grouped by model, have several values of a column."""
    counts = of_rows.nunique(dropna=False)
    if counts.gt(1).any():
        problem = f"models with more than one {what}: {join_list(counts.index[counts > 1])}"
        raise DataError([Fault(source, problem, column=column)], "Give each model one.")


def _refuse_disorder(members: list[str], place: FloatArray, responses: Responses, run: str) -> None:
    """Refuse a run with two models at one checkpoint."""
    for k in np.flatnonzero(np.diff(place) == 0):
        pair = " and ".join(repr(printable(name, 40)) for name in members[k : k + 2])
        problem = f"{pair} have one checkpoint ({place[k]:g}) of the run '{printable(run, 60)}'"
        advice = f"Give each its own, or distinguish runs in a column '{RUN}'."
        raise DataError([Fault(responses.source, problem, column=CHECKPOINT)], advice)


def _refuse_falling(
    members: list[str], table: pd.DataFrame, responses: Responses, run: str
) -> None:
    """Refuse a run in which a model is less exposed than one before it, on the same items."""
    keys = ["benchmark", "item"]
    for before, after in pairwise(members):
        one, other = (
            table[table["model"].map(str) == name].set_index(keys)["contamination"]
            for name in (before, after)
        )
        both = pd.concat({"before": one, "after": other}, axis=1, join="inner")
        means = both.groupby(level=0, sort=False).mean()
        fallen = means[means["after"] < means["before"] - NO_DOSE]
        if fallen.empty:
            continue
        names = [printable(name, 40) for name in (after, str(fallen.index[0]), before)]
        problem = (
            f"checkpoints of the run '{printable(run, 60)}' seem out of order: {names[0]} is less"
            f" exposed to {names[1]} ({fallen['after'].iloc[0]:.3g}) than {names[2]}, which comes"
            f" before it ({fallen['before'].iloc[0]:.3g})"
        )
        advice = (
            "What was in the training data of a checkpoint is in that of later ones: correct the"
            f" numbers, or distinguish runs in a column '{RUN}'."
        )
        raise DataError([Fault(responses.source, problem, column=CHECKPOINT)], advice)


def bases_of(responses: Responses) -> dict[str, str]:
    """Return the base of each model of a table, itself where it has no other.

    A base that is a model of the table may have a base of its own; the first of such a line
    counts for all.
    """
    frame, source = responses.frame, responses.source
    if BASE not in frame:
        problem = "lineage needs a column 'base', which is not there"
        advice = (
            "Add the model or training recipe that each model descends from (empty: none), or use"
            " a model spec without lineage."
        )
        raise DataError([Fault(source, problem)], advice)
    given = read_labels(frame[BASE], responses.models)
    each = given.groupby(frame["model"].map(str), sort=False).unique()
    several = {name: bases for name, bases in each.items() if len(bases) > 1}
    if several:
        shown = [f"{name} ({join_list(list(map(_shown, b)))})" for name, b in several.items()]
        problem = f"models with more than one base: {join_list(shown, 4)}"
        raise DataError([Fault(source, problem, column=BASE)], "Give each model one base.")
    parents = {str(name): str(bases[0]) or str(name) for name, bases in each.items()}
    _refuse_cycles(parents, source)
    found = {name: _first(name, parents) for name in parents}
    _refuse_unknown(parents, found, source)
    return found


def _shown(base: str) -> str:
    return repr(printable(base, 40)) if base else "none"


def _first(name: str, parents: dict[str, str]) -> str:
    while parents.get(name, name) != name:
        name = parents[name]
    return name


def _refuse_cycles(parents: dict[str, str], source: str) -> None:
    done: set[str] = set()
    for start in parents:
        line = [start]
        while (up := parents.get(line[-1], line[-1])) != line[-1] and up not in done:
            if up in line:
                circle = " → ".join(printable(name, 40) for name in [*line[line.index(up) :], up])
                problem = f"models descend from each other in a circle: {circle}"
                advice = "Leave the base of the first of them empty."
                raise DataError([Fault(source, problem, column=BASE)], advice)
            line.append(up)
        done.update(line)


def _refuse_unknown(parents: dict[str, str], found: dict[str, str], source: str) -> None:
    """Refuse a base that is no model and that one model alone has: a slip would hide a twin."""
    counts = pd.Series(list(found.values())).value_counts()
    faults = []
    for name, base in found.items():
        if base in parents or counts[base] > 1:
            continue
        others = [other for other in {*parents, *found.values()} if other not in (base, name)]
        near = closest_name(base, others)
        problem = (
            f"the base '{printable(base, 60)}' of '{printable(name, 60)}' is neither a model of"
            " this table nor the base of another one"
        )
        problem += f" (did you mean '{printable(near, 60)}'?)" if near else ""
        faults.append(Fault(source, problem, column=BASE))
    if faults:
        advice = "Write bases alike, or leave the base of a model empty that has no relative here."
        raise DataError(faults, advice)


def _kinds_of(
    responses: Responses, frame: pd.DataFrame, column: str, contaminated: BoolArray
) -> tuple[IntArray, tuple[str, ...]]:
    """Return the kind of duplicates of each row, and the kinds; rows without one have the first."""
    if column not in frame:
        problem = f"the model spec needs a column '{printable(column, 60)}', which is not there"
        advice = (
            "Add the kind of duplicates of each contaminated row, or leave out contamination.kinds."
        )
        raise DataError([Fault(responses.source, problem)], advice)
    names = read_labels(frame[column])
    missing = contaminated & (names == "").to_numpy()
    if missing.any():
        row = frame[missing].iloc[0]
        where = f"{printable(str(row['model']), 60)} on {printable(str(row['item']), 60)}"
        count = int(missing.sum())
        rows = f"{count:,} contaminated row{'s have' if count > 1 else ' has'}"
        problem = f"{rows} no kind of duplicates, such as {where}"
        raise DataError([Fault(responses.source, problem, column=column)], "Give each of them one.")
    labels = list(dict.fromkeys(names[contaminated]))
    position = {label: at for at, label in enumerate(labels)}
    kind = np.array([position.get(name, 0) for name in names], dtype=np.int64)
    return kind, tuple(labels) or ("",)
