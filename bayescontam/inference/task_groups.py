"""What models do on groups of tasks: how probably they solve them, and how many."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom

from bayescontam._random import stream
from bayescontam._text import printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.errors import UsageError
from bayescontam.inference.estimands import Population, accuracies_at
from bayescontam.inference.posterior import Draws, draw_difficulties, expand_to_items, stack_draws
from bayescontam.inference.predictive import with_own_effects
from bayescontam.inference.ranking import By
from bayescontam.inference.result import Fit
from bayescontam.inference.summary import describe
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.design import Design
from bayescontam.model.effect_names import TOTAL

type Unit = Literal["task", "item"]
"""What is counted: tasks, solved if all of their items are, or items."""
type On = Literal["new", "same"]
"""On what a model is tried: other tasks of the concept, or those of the table once more."""
MOST_DRAWS = 1000
"""Draws that numbers of solved tasks are computed for."""
MOST_NUMBERS = 30_000_000
"""Draws times responses, and times the squared size of a group; of more, fewer draws are used."""
FEWEST_DRAWS = 100
MOST_UNITS = 1_000_000
"""New tasks or items that can be tried; of larger groups a number is to be given."""
FEWEST_UNITS = 2
"""Tasks of a group from which others like them can be imagined."""
DEPENDENT = 0.01
"""Posterior predictive probability below which answers within tasks depend on each other."""
TOGETHER, FEW = "answers within tasks go together", "too few tasks"
PEOPLE = "tasks were answered by people"
"""Why the numbers of a model and concept are withheld."""
_ENDS = ("", "_low", "_high")


@dataclass(frozen=True, eq=False)
class Group:
    """What a model does on the items of a concept."""

    model: str
    benchmark: str
    concept: str
    units: int
    solved: float  # of the units; NaN where it was not observed
    solving: FloatArray  # dims (draw,): probability of solving one
    counts: FloatArray | None  # dims (solved,): distribution of the number of the same ones
    spread: FloatArray | None  # dims (draw,): None where single items are not known
    verdict: str
    checked: bool  # whether single answers within tasks could be tested for dependence

    def row(self, at_least: float, number: int | None, level: float) -> dict[str, Any]:
        """Return the row of the table."""
        tried = self.units if number is None else number
        share = isinstance(at_least, float)
        needed = max(1, int(np.ceil(at_least * tried - 1e-9))) if share else int(at_least)
        if needed > tried:
            raise UsageError(
                f"at_least: got {needed}, but of concept '{printable(self.concept, 60)}' only"
                f" {tried:,} are tried; give a share (such as 0.8), or number (--number) of new"
                " ones"
            )
        if self.counts is None and tried > MOST_UNITS:
            raise UsageError(
                f"number: concept '{printable(self.concept, 60)}' has {tried:,} tasks or items, and"
                f" at most {MOST_UNITS:,} can be tried; give how many (number, --number)"
            )
        counts = self.counts if self.counts is not None else _new_counts(self.solving, tried)
        tails = [(1 - level) / 2, (1 + level) / 2]
        low, high = np.searchsorted(np.cumsum(counts), np.array(tails) - 1e-12)
        ends = interval_of(self.solving, level)
        row: dict[str, Any] = {
            "model": self.model, "benchmark": self.benchmark, "concept": self.concept,
            "units": self.units, "solved": self.solved, "needed": needed, "number": tried,
        }  # fmt: skip
        values = [counts[needed:].sum(), counts @ np.arange(tried + 1), low, high, *ends]
        names = ["p_mastered", *named("expected"), *named("p_solved")]
        hidden = bool(self.verdict)
        row |= {
            name: np.nan if hidden else float(value)
            for name, value in zip(names, values, strict=True)
        }
        spread = [np.nan] * 3 if self.spread is None else interval_of(self.spread, level)
        return row | dict(zip(named("spread"), spread, strict=True)) | {"verdict": self.verdict}


def named(name: str) -> list[str]:
    """Return the columns of a mean and its interval."""
    return [name + end for end in _ENDS]


def interval_of(draws: FloatArray, level: float) -> list[float]:
    """Return mean and equal-tailed interval of draws."""
    found = describe(draws[:, None], level)
    return [float(found[name][0]) for name in ("mean", "ci_low", "ci_high")]


def _new_counts(solving: FloatArray, number: int) -> FloatArray:
    """Return the distribution of the number of new ones that are solved, dims (solved,)."""
    every = np.arange(number + 1)
    total = np.zeros(number + 1)
    for part in np.array_split(solving, 1 + len(solving) * number // 2_000_000):
        total += binom.pmf(every, number, part[:, None]).sum(axis=0)
    return total / len(solving)


def poisson_binomial(p: FloatArray) -> FloatArray:
    """Return the distribution of the number of events, (draw, event) to (draw, number).

    >>> poisson_binomial(np.array([[0.5, 0.5], [1.0, 0.25]])).tolist()
    [[0.25, 0.5, 0.25], [0.0, 0.75, 0.25]]
    """
    counts = np.zeros((p.shape[1] + 1, len(p)))
    counts[0] = 1.0
    for k, each in enumerate(p.T):
        counts[1 : k + 2] = counts[1 : k + 2] * (1 - each) + counts[: k + 1] * each
        counts[0] *= 1 - each
    return counts.T


def groups_of(fit: Fit, unit: Unit, on: On, by: By) -> Iterator[Group]:
    """Yield what each model does on each concept."""
    built = build(fit.spec, fit.responses())
    population = Population.of(built, fit.record.get("items", "answered"))
    design, seed = population.design, fit.record["seed"]
    task = _tasks(fit)
    cells = list(_cells(built.design, design, task, unit, on))
    draws = _draws(fit, built, max(len(cell.starts) for cell in cells))
    rng, effects = stream(seed, "new tasks"), stream(seed, "mastery")
    solving: list[list[FloatArray]] = [[] for _ in cells]
    spread: list[list[FloatArray]] = [[] for _ in cells]
    total = [np.zeros(len(cell.starts) + 1) for cell in cells]
    together = _Together.of(built.design, task) if unit == "task" else None
    place = _places(built.design, design)
    for part in population.parts(draws, effects):
        levels = accuracies_at(part, population.built, fit.record["reference"])
        p = levels[_level_of(by, levels)]
        if together is not None:
            together.add(levels["observed"][:, place], effects)
        weights = np.ones((1, int(task.max()) + 1))
        if on == "new":
            weights = rng.standard_exponential((len(part), weights.shape[1]))
        for k, cell in enumerate(cells):
            units = cell.units(p)
            solving[k].append(cell.average(units, weights))
            spread[k].append(p[:, cell.rows].std(axis=1))
            if on == "same":
                total[k] += poisson_binomial(units).sum(axis=0)
    apart = together.dependent() if together is not None else design.answered & False
    grouped = _grouped(built.design)
    for k, cell in enumerate(cells):
        each = np.concatenate(solving[k])
        verdict = TOGETHER if apart[cell.model, cell.benchmark] else ""
        if cell.joint and grouped[cell.model]:
            verdict = PEOPLE
        if on == "new" and cell.few and not verdict:
            verdict = FEW
        known = len(cell.rows) > 1 and not cell.counted
        yield Group(
            model=design.models[cell.model],
            benchmark=design.benchmarks[cell.benchmark],
            concept=design.units[cell.concept],
            units=cell.size,
            solved=cell.solved,
            solving=each,
            counts=total[k] / len(each) if on == "same" else None,
            spread=np.concatenate(spread[k]) if known else None,
            verdict=verdict,
            checked=not (cell.joint and cell.repeated),
        )


def _draws(fit: Fit, built: BuiltModel, largest: int) -> Draws:
    """Return draws with the difficulties of all items and the effects of all responses."""
    seed, size = fit.record["seed"], max(largest**2, len(built.design))
    most = min(MOST_DRAWS, max(FEWEST_DRAWS, MOST_NUMBERS // size))
    draws = stack_draws(fit.joint_posterior(), built.design).thinned(most)
    if fit.record.get("difficulties") == "marginalised":
        lattice = build(fit.spec, fit.responses(), "marginalised").lattice
        draws = draw_difficulties(draws, lattice, stream(seed, "difficulties"))
        draws = expand_to_items(draws, lattice)
    return with_own_effects(draws, built, stream(seed, "own effects"))


def _grouped(table: Design) -> NDArray[np.bool_]:
    """Return which models are groups of people, dims (model,)."""
    return np.zeros(len(table.models), bool) if table.people is None else table.people.grouped


def _level_of(by: By, levels: dict[str, FloatArray]) -> str:
    """Return the level of contamination that an estimand is the accuracy at."""
    if by == "accuracy":
        return "observed"
    return "lifted" if by != TOTAL.ability and "lifted" in levels else "reference"


def _tasks(fit: Fit) -> IntArray:
    """Return the task of each item, dims (item,); items are their own where none are known."""
    data = fit.data["constant_data"]
    if "task_of_item" in data:
        task: IntArray = data["task_of_item"].to_numpy().astype(np.int64)
        return task
    return np.arange(data.sizes["item"])


@dataclass(frozen=True, eq=False)
class _Cell:
    """The responses of a model to the items of a concept."""

    model: int
    benchmark: int
    concept: int
    rows: IntArray  # in the design that averages are over, those of a task together
    task: IntArray  # of each row
    starts: IntArray  # dims (unit,): first row of each task, or every row
    weight: FloatArray  # dims (row,): items that a row counts
    counted: bool  # whether rows count different items
    repeated: bool  # whether rows have several trials
    solved: float

    @property
    def size(self) -> int:
        """Number of units."""
        return int(self.weight.sum()) if self.counted else len(self.starts)

    @property
    def joint(self) -> bool:
        """Whether a unit has several items, which are to be solved together."""
        return len(self.starts) < len(self.rows)

    @property
    def few(self) -> bool:
        """Whether too few tasks are known to imagine others."""
        return not self.counted and len(np.unique(self.task)) < FEWEST_UNITS

    def units(self, p: FloatArray) -> FloatArray:
        """Return the probability that each unit is solved, dims (draw, unit)."""
        product: FloatArray = np.multiply.reduceat(p[:, self.rows], self.starts, axis=1)
        return product

    def average(self, units: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the mean over units, by the weights of their tasks, dims (draw,)."""
        own = self.weight if self.counted else weights[:, self.task[self.starts]]
        mean: FloatArray = (units * own).sum(axis=1) / np.broadcast_to(own, units.shape).sum(axis=1)
        return mean


def _cells(table: Design, design: Design, task: IntArray, unit: Unit, on: On) -> Iterator[_Cell]:
    """Yield the cells of models and concepts that they answered; refuse tasks of two concepts."""
    of_item = pd.DataFrame({"task": task, "concept": table.unit_of_item})
    if unit == "task" and of_item.drop_duplicates()["task"].duplicated().any():
        raise UsageError(
            "some tasks have items of several concepts, so that they are tasks of none; count"
            " items (unit = 'item', --unit item)"
        )
    answered = np.zeros((len(design.models), len(design.units)), dtype=bool)
    answered[table.model, table.unit] = True
    # Where several people answered an item, the design has the row of one of them alone.
    seen = np.bincount(_places(table, design), minlength=len(design)) == 1
    of_row = design.model * len(design.units) + design.unit
    order = np.lexsort((design.item, task[design.item], of_row))
    ends = np.searchsorted(of_row[order], np.arange(answered.size + 1))
    items_of_rows = bool((design.weight > 1).any())
    for at in np.flatnonzero(answered):
        rows = order[ends[at] : ends[at + 1]]
        own = task[design.item[rows]]
        starts = np.arange(len(rows))
        if unit == "task":
            starts = np.flatnonzero(np.diff(own, prepend=-1))
        solved = float(np.multiply.reduceat(design.n_correct[rows], starts).sum())
        repeated = not items_of_rows and bool((design.n_trials[rows] > 1).any())
        whole = seen[rows].all() and not repeated
        model, concept = divmod(int(at), len(design.units))
        yield _Cell(
            model=model,
            benchmark=int(design.benchmark_of_unit[concept]),
            concept=concept,
            rows=rows,
            task=own,
            starts=starts,
            weight=design.weight[rows] * 1.0,
            counted=items_of_rows,
            repeated=repeated,
            solved=solved if whole else np.nan,
        )


def _places(table: Design, design: Design) -> IntArray:
    """Return where the responses of a table stand in the design that averages are over."""
    pairs, wanted = (each.model * len(table.items) + each.item for each in (design, table))
    order = np.argsort(pairs)
    place: IntArray = order[np.searchsorted(pairs[order], wanted)]
    return place


@dataclass(eq=False)
class _Together:
    """Whether models solve the items of one task together more often than expected."""

    # The statistic of a draw is the sum over tasks and pairs of items in them of products of
    # residuals, of responses of one trial. Beside it stands that of answers drawn anew.
    rows: IntArray  # of single trials, those of a model and task together
    correct: FloatArray  # dims (row,)
    starts: IntArray  # dims (task of a model,)
    cell: IntArray  # dims (task of a model,): model and benchmark
    shape: tuple[int, int]  # numbers of models and benchmarks
    count: int = 0
    above: FloatArray | None = None  # dims (cell,): draws whose own statistic is the larger one

    @classmethod
    def of(cls, table: Design, task: IntArray) -> "_Together":
        """Return the test for a table of responses."""
        # Without people: a task has answers of several of them, and its numbers are withheld.
        rows = np.flatnonzero(~_grouped(table)[table.model[: table.n_single]])
        key = table.model[rows] * (int(task.max()) + 1) + task[table.item[rows]]
        rows = rows[np.argsort(key, kind="stable")]
        starts = np.flatnonzero(np.diff(np.sort(key), prepend=-1))
        cell = table.model_benchmark[rows[starts]] if len(rows) else rows
        return cls(rows, table.n_correct[rows] * 1.0, starts, cell, table.answered.shape)

    def add(self, p: FloatArray, rng: np.random.Generator) -> None:
        """Count draws, from the accuracies of all responses of the table."""
        if not len(self.rows):
            return
        p = p[:, self.rows]
        anew = (rng.random(p.shape) < p) * 1.0
        own, other = (self._statistic(each - p) for each in (self.correct, anew))
        above = ((own < other) + (own == other) / 2).sum(axis=0)
        self.above = above if self.above is None else self.above + above
        self.count += len(p)

    def _statistic(self, residual: FloatArray) -> FloatArray:
        total = np.add.reduceat(residual, self.starts, axis=1) ** 2
        pairs = total - np.add.reduceat(residual**2, self.starts, axis=1)
        found = np.zeros((self.shape[0] * self.shape[1], len(residual)))
        np.add.at(found, self.cell, pairs.T)
        return found.T

    def dependent(self) -> NDArray[np.bool_]:
        """Return where the answers within tasks depend on each other, dims (model, benchmark)."""
        if self.above is None:
            return np.zeros(self.shape, dtype=bool)
        found: NDArray[np.bool_] = (self.above / self.count < DEPENDENT).reshape(self.shape)
        return found
