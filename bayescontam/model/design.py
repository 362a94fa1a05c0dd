"""A table of responses as index arrays: models, benchmarks, items, doses."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._text import join_list, printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.guessing import read_guess
from bayescontam.data.responses import Responses
from bayescontam.data.validation import closest_name
from bayescontam.errors import DataError, Fault
from bayescontam.model.exposure import Exposure, clean_models, exposure_columns, make_exposure
from bayescontam.specs.base import suggest
from bayescontam.specs.model import ModelSpec

_LEAST_PART = 0.05
"""Share of a benchmark's items from which on it matters which ones a model answered."""
_BY_RESPONSE = frozenset(
    {
        "model", "benchmark", "unit", "n_correct", "n_trials", "contamination", "weight",
        "model_unit", "model_benchmark", "dose", "item_dose", "cell_contamination", "cell_dose",
        "reach_dose",
    }
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Design:
    """Responses as arrays. Rows with one trial come first, repeated ones after them."""

    # models, benchmarks, units, items: labels, in order of first appearance. A unit is what ability
    # is estimated for: a benchmark, or a concept within one.
    models: tuple[str, ...]
    benchmarks: tuple[str, ...]
    units: tuple[str, ...]
    items: tuple[str, ...]
    by: str  # `"benchmark"`, or the item column that the units come from
    benchmark_of_unit: IntArray
    benchmark_of_item: IntArray
    # model, benchmark, unit, item: positions in the labels
    model: IntArray
    benchmark: IntArray
    unit: IntArray
    item: IntArray
    n_correct: IntArray
    n_trials: IntArray
    # in [0, 1]; None where the model spec uses none. Its expected value where it is not known.
    contamination: FloatArray | None
    # items that each response stands for: 1, or where rows count different items their number of
    # trials
    weight: FloatArray
    # what is known of the true contamination; None where it is `contamination`
    exposure: Exposure | None
    # where a monotone dose-response may bend; empty where it is a straight line
    knots: tuple[float, ...]
    clean: NDArray[np.bool_]  # whether it is known to be clean, so that its slopes are zero
    # whether accuracy, not its log-odds, is a straight line in what contamination reaches
    additive: bool
    item_guess: (
        FloatArray | None
    )  # accuracy of blind guessing; None where items have none of their own

    def __len__(self) -> int:
        return len(self.model)

    @cached_property
    def n_single(self) -> int:
        """Number of responses with one trial; these are the first rows."""
        return int((self.n_trials == 1).sum())

    @cached_property
    def model_unit(self) -> IntArray:
        """Position of each response's (model, unit) cell in a flattened array."""
        return self.model * len(self.units) + self.unit

    @cached_property
    def model_benchmark(self) -> IntArray:
        """Position of each response's (model, benchmark) cell in a flattened array."""
        return self.model * len(self.benchmarks) + self.benchmark

    @cached_property
    def answered(self) -> NDArray[np.bool_]:
        """Whether a model answered any item of a benchmark, dims (model, benchmark)."""
        shape = len(self.models), len(self.benchmarks)
        return np.bincount(self.model_benchmark, minlength=shape[0] * shape[1]).reshape(shape) > 0

    @cached_property
    def dose(self) -> FloatArray:
        """Contamination of each response less its benchmark's mean."""
        assert self.contamination is not None
        return self.contamination - self.center[self.benchmark]

    @cached_property
    def center(self) -> FloatArray:
        """Mean contamination of each benchmark's responses."""
        assert self.contamination is not None
        return self._means(self.contamination, self.benchmark, len(self.benchmarks))

    def _means(self, values: FloatArray, cell: IntArray, count: int) -> FloatArray:
        """Return weighted means of values of responses within cells; of an empty cell 0."""
        total = np.bincount(cell, self.weight * values, minlength=count)
        size = np.bincount(cell, self.weight, minlength=count)
        return total / np.where(size > 0, size, 1.0)

    def reach(self, contamination: FloatArray) -> FloatArray:
        """Return which part of each segment of the dose-response lies below a contamination.

        In [0, 1], dims (…, segment); segments lie between 0, the knots and 1.
        """
        edges = np.array([0.0, *self.knots, 1.0])
        part = (np.asarray(contamination)[..., None] - edges[:-1]) / np.diff(edges)
        return np.clip(part, 0.0, 1.0)

    @cached_property
    def reach_dose(self) -> FloatArray:
        """Reach of each response's contamination less its benchmark's mean, (response, segment)."""
        assert self.contamination is not None
        return self.reach(self.contamination) - self.reach_center[self.benchmark]

    @cached_property
    def reach_center(self) -> FloatArray:
        """Mean reach of each benchmark's responses, (benchmark, segment)."""
        assert self.contamination is not None
        reach, size = self.reach(self.contamination), len(self.benchmarks)
        means = [self._means(column, self.benchmark, size) for column in reach.T]
        return np.stack(means, axis=1)

    @cached_property
    def item_dose(self) -> FloatArray:
        """Contamination of each response's item less its benchmark's mean over items."""
        return self.dose_of_item[self.item]

    @cached_property
    def dose_of_item(self) -> FloatArray:
        """Contamination of each item less its benchmark's mean over items, dims (item,)."""
        level = self.item_contamination
        total = np.bincount(self.benchmark_of_item, level, minlength=len(self.benchmarks))
        mean = total / np.bincount(self.benchmark_of_item, minlength=len(self.benchmarks))
        dose: FloatArray = level - mean[self.benchmark_of_item]
        return dose

    @cached_property
    def item_contamination(self) -> FloatArray:
        """Mean contamination of each item over models, dims (item,).

        Models that are known to be clean do not count unless no other answered the item:
        their contamination does not inform on how often it is found in corpora.
        """
        assert self.contamination is not None
        rows, size = self.exposed, len(self.items)
        total = np.bincount(self.item[rows], self.contamination[rows], minlength=size)
        return total / np.bincount(self.item[rows], minlength=size)

    @cached_property
    def exposed(self) -> NDArray[np.bool_]:
        """Which responses inform on their item's contamination, dims (response,).

        Those of models that are not known to be clean; of all where no other answered the item.
        """
        exposed = ~self.clean[self.model]
        count = np.bincount(self.item[exposed], minlength=len(self.items))
        informing: NDArray[np.bool_] = exposed | (count[self.item] == 0)
        return informing

    @cached_property
    def cell_contamination(self) -> FloatArray:
        """Mean contamination of each response's model on its benchmark; 0 of clean models."""
        assert self.contamination is not None
        cells = self._means(self.contamination, self.model_benchmark, self.answered.size)
        return np.where(self.clean[self.model], 0.0, cells[self.model_benchmark])

    @cached_property
    def cell_dose(self) -> FloatArray:
        """The same less the benchmark's mean contamination over all responses."""
        return self.cell_contamination - self.center[self.benchmark]

    def contamination_range(self, by_model: bool = False) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and largest contamination, dims ([model,] benchmark).

        That of a latent event is 0 and 1, unless it is known of all items. NaN where a
        model answered nothing of a benchmark.
        """
        assert self.contamination is not None
        if self.exposure is None:
            return self._extremes(self.contamination, self.contamination, by_model)
        low, high = self.exposure.low, self.exposure.high
        return self._extremes(low[self.exposure.group], high[self.exposure.group], by_model)

    def _extremes(
        self, low: FloatArray, high: FloatArray, by_model: bool
    ) -> tuple[FloatArray, FloatArray]:
        shape = (len(self.models), len(self.benchmarks)) if by_model else (len(self.benchmarks),)
        cell = self.model_benchmark if by_model else self.benchmark
        least, most = extremes(low, high, cell, int(np.prod(shape)))
        return least.reshape(shape), most.reshape(shape)

    @cached_property
    def varies(self) -> NDArray[np.bool_]:
        """Whether (expected) contamination varies among a model's items of a benchmark."""
        assert self.contamination is not None
        low, high = self._extremes(self.contamination, self.contamination, by_model=True)
        return np.nan_to_num(high - low) > 0

    @cached_property
    def informative(self) -> NDArray[np.bool_]:
        """Whether a pair informs on slopes: it varies, and its model is not known to be clean."""
        return self.varies & ~self.clean[:, None]

    @cached_property
    def unit_of_item(self) -> IntArray:
        """Position of each item's unit."""
        unit = np.zeros(len(self.items), dtype=np.int64)
        unit[self.item] = self.unit
        return unit

    @cached_property
    def item_weight(self) -> FloatArray:
        """Items that each item stands for: the largest weight of any response to it."""
        weight = np.zeros(len(self.items))
        np.maximum.at(weight, self.item, self.weight)
        return weight

    @cached_property
    def complete(self) -> NDArray[np.bool_]:
        """Whether all models that answered any item of a benchmark answered all, (benchmark,)."""
        items = np.bincount(self.benchmark_of_item, minlength=len(self.benchmarks))
        pairs = np.unique(self.model * len(self.items) + self.item)
        cell = pairs // len(self.items), self.benchmark_of_item[pairs % len(self.items)]
        count = np.zeros(self.answered.shape, dtype=np.int64)
        np.add.at(count, cell, 1)
        return ((count == items) | ~self.answered).all(axis=0)

    @cached_property
    def partial(self) -> IntArray:
        """Positions in a flattened (model, benchmark) array of models that answered a part.

        At least 5 % of a benchmark's items, and missing at least 5 %: of fewer, which ones
        these are changes little.
        """
        items = np.bincount(self.benchmark_of_item, minlength=len(self.benchmarks))
        count = np.bincount(self.model_benchmark, minlength=self.answered.size)
        share = count.reshape(self.answered.shape) / np.maximum(items, 1)
        return np.flatnonzero((share >= _LEAST_PART) & (share <= 1 - _LEAST_PART))

    @cached_property
    def selection(self) -> FloatArray:
        """What it means for an item's difficulty that models answered it, dims (item, cell).

        A column for each cell of `partial`: 1 where the model answered the item and 0 where
        not, less its mean over the benchmark, and divided by the square root of the number
        of such models on it.
        """
        items, size = len(self.items), len(self.benchmarks)
        result = np.zeros((items, len(self.partial)))
        column = np.full(self.answered.size, -1)
        column[self.partial] = np.arange(len(self.partial))
        rows = np.flatnonzero(column[self.model_benchmark] >= 0)
        result[self.item[rows], column[self.model_benchmark[rows]]] = 1.0
        benchmark = self.partial % size
        own = self.benchmark_of_item[:, None] == benchmark
        share = result.sum(axis=0) / own.sum(axis=0)
        count = np.bincount(benchmark, minlength=size)[benchmark]
        return np.where(own, result - share, 0.0) / np.sqrt(count)

    @property
    def coords(self) -> dict[str, Any]:
        """Coordinates of the dims that models and fits use."""
        coords: dict[str, Any] = {
            "model": list(self.models),
            "benchmark": list(self.benchmarks),
            "item": list(self.items),
            "response": np.arange(len(self)),
        }
        if self.by != "benchmark":
            coords[self.unit_dim] = list(self.units)
        return coords

    @property
    def unit_dim(self) -> str:
        """Name of the dim of units: ``benchmark``, or ``concept`` for any item column."""
        return "benchmark" if self.by == "benchmark" else "concept"


def extremes(
    low: FloatArray, high: FloatArray, cell: IntArray, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest of `low` and the largest of `high` in each cell; NaN in an empty one."""
    least, most = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(least, cell, low)
    np.maximum.at(most, cell, high)
    empty = least > most
    return np.where(empty, np.nan, least), np.where(empty, np.nan, most)


@dataclass(frozen=True, eq=False)
class DerivedDesign(Design):
    """A design made of another table's, from which its doses are counted.

    What contamination is centred at, a model's mean contamination of a benchmark, the observed
    range, and which items models chose to answer, are those of the table that was fitted.
    """

    whole: Design  # of the table

    @classmethod
    def derived(cls, whole: Design, **changed: Any) -> Self:
        """Return the design of a table with some of its fields changed."""
        given = {field.name: getattr(whole, field.name) for field in fields(Design)}
        return cls(**given | changed, whole=whole)

    @cached_property
    def partial(self) -> IntArray:
        """As in the table."""
        return self.whole.partial

    @cached_property
    def selection(self) -> FloatArray:
        """As in the table."""
        return self.whole.selection

    @cached_property
    def center(self) -> FloatArray:
        """Mean contamination of each benchmark's responses in the table."""
        return self.whole.center

    @cached_property
    def reach_center(self) -> FloatArray:
        """Mean reach of each benchmark's responses in the table, (benchmark, segment)."""
        return self.whole.reach_center

    @cached_property
    def cell_contamination(self) -> FloatArray:
        """Mean contamination of each response's model on its benchmark in the table."""
        cells = np.zeros(self.whole.answered.size)
        cells[self.whole.model_benchmark] = self.whole.cell_contamination
        return cells[self.model_benchmark]

    def contamination_range(self, by_model: bool = False) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and largest contamination in the table."""
        return self.whole.contamination_range(by_model)


def make_design(spec: ModelSpec, responses: Responses) -> Design:
    """Return the design that `spec` needs of `responses`."""
    frame = responses.frame
    frame = frame.iloc[np.argsort((frame["n_trials"] > 1).to_numpy(), kind="stable")]
    model, models = _codes(frame["model"], responses.models)
    benchmark, benchmarks = _codes(frame["benchmark"], responses.benchmarks)
    item, items, benchmark_of_item = _labelled(frame["benchmark"], frame["item"], benchmark)
    exposure = make_exposure(spec, responses, frame, model, item)
    by = spec.ability.by
    if by == "benchmark":
        unit, units, benchmark_of_unit = benchmark, benchmarks, np.arange(len(benchmarks))
    else:
        column = _item_column(responses, by, frame)
        unit, units, benchmark_of_unit = _labelled(frame["benchmark"], column, benchmark)
    return Design(
        models, benchmarks, units, items, by, benchmark_of_unit, benchmark_of_item,
        model, benchmark, unit, item,
        frame["n_correct"].to_numpy(np.int64), frame["n_trials"].to_numpy(np.int64),
        _contamination(spec, responses, frame), _weight(spec, frame), exposure,
        spec.contamination.knots if spec.contamination.form == "monotone" else (),
        clean_models(spec, responses, frame, models), spec.contamination.scale == "accuracy",
        _item_guess(spec, responses, frame, item, len(items)),
    )  # fmt: skip


def _weight(spec: ModelSpec, frame: pd.DataFrame) -> FloatArray:
    if spec.likelihood.trials == "items":
        return frame["n_trials"].to_numpy(np.float64)
    return np.ones(len(frame))


def _item_guess(
    spec: ModelSpec, responses: Responses, frame: pd.DataFrame, item: IntArray, count: int
) -> FloatArray | None:
    if spec.likelihood.guess != "column":
        return None
    guess = np.zeros(count)
    guess[item] = read_guess(frame, responses.source)
    return guess


def _contamination(spec: ModelSpec, responses: Responses, frame: pd.DataFrame) -> FloatArray | None:
    if spec.contamination.form == "none":
        return None
    column = exposure_columns(spec, frame)[0]
    if column not in frame:
        problem = f"the model spec '{spec.name}' needs a column 'contamination', which is not there"
        other = closest_name(column, list(map(str, frame.columns)))
        meant = f"Did you mean '{printable(other, 60)}'? Rename it; or " if other else ""
        advice = (
            f"{meant}{'add' if meant else 'Add'} the column (0 = surely clean, 1 = surely"
            " contaminated), give a covariates table"
            " (--covariates), or choose a model spec that needs none: ability, or auto, which"
            " composes one from the table's columns."
        )
        raise DataError([Fault(responses.source, problem)], advice)
    return frame[column].to_numpy(np.float64)


def _codes(names: pd.Series, order: tuple[str, ...]) -> tuple[IntArray, tuple[str, ...]]:
    return pd.Index(order).get_indexer(pd.Index(names)).astype(np.int64), order


def _labelled(
    benchmarks: pd.Series, names: pd.Series, benchmark: IntArray
) -> tuple[IntArray, tuple[str, ...], IntArray]:
    """Give each (benchmark, name) pair a number and a label: the name where it is unique."""
    pairs = pd.MultiIndex.from_arrays([benchmarks.to_numpy(), names.astype(str).to_numpy()])
    codes, unique = pd.factorize(pairs)
    first = np.unique(codes, return_index=True)[1]
    labels = [name for _, name in unique]
    if len(set(labels)) < len(labels):
        # Two benchmarks use one name. Its length keeps the joint label unambiguous.
        labels = [f"{b}/{name}" for b, name in unique]
    if len(set(labels)) < len(labels):
        labels = [f"{len(b)}:{b}/{name}" for b, name in unique]
    return codes.astype(np.int64), tuple(labels), benchmark[first]


def _item_column(responses: Responses, by: str, frame: pd.DataFrame) -> pd.Series:
    standard = ("model", "benchmark", "item", "n_correct", "n_trials", "contamination")
    columns = [name for name in frame.columns if name not in standard]
    if by not in columns:
        problem = f"the model spec groups items by a column '{by}', which is not there"
        others = suggest(by, columns) if columns else "the table has no other columns"
        advice = f"Add it, or set ability.by in a copy of the model spec; {others}"
        raise DataError([Fault(responses.source, problem)], advice)
    if frame[by].isna().any() or (frame[by].astype(str).str.strip() == "").any():
        raise DataError(
            [Fault(responses.source, "has empty cells; every item needs a value", column=by)]
        )
    distinct = frame.groupby(["benchmark", "item"], sort=False)[by].nunique()
    mixed = distinct[distinct > 1]
    if len(mixed):
        problem = f"items with more than one value: {join_list(item for _, item in mixed.index)}"
        raise DataError([Fault(responses.source, problem, column=by)])
    return frame[by]


@dataclass(frozen=True, eq=False)
class HeldOutDesign(DerivedDesign):
    """A design in which held-out responses count 0 correct answers of 0 trials.

    A model that is built for it has all parameters of the whole one, and a likelihood to
    which held-out responses add nothing. Parameters of items and models that are held out
    altogether follow their population, given all others. What contamination is centred
    at, and which terms enter, stay those of the whole table.
    """

    @cached_property
    def n_single(self) -> int:
        """Number of responses with one trial in the whole table; these are the first rows."""
        return self.whole.n_single


def hold_out(design: Design, rows: IntArray) -> HeldOutDesign:
    """Return the design with some responses held out."""
    seen = {"n_correct": design.n_correct.copy(), "n_trials": design.n_trials.copy()}
    for counts in seen.values():
        counts[rows] = 0
    return HeldOutDesign.derived(design, **seen)


class _DesignPart:
    def __init__(self, design: Design, rows: IntArray, item: IntArray) -> None:
        self._design, self._rows, self.item = design, rows, item

    @property
    def selection(self) -> Any:
        """That of the design's items under the names that they have here."""
        known = self._design.selection
        result = np.zeros((int(self.item.max(initial=-1)) + 1, known.shape[1]))
        result[self.item] = known[self._design.item[self._rows]]
        return result

    def __getattr__(self, name: str) -> Any:
        values = getattr(self._design, name)
        return values if values is None or name not in _BY_RESPONSE else values[self._rows]


def part_of(design: Design, rows: IntArray, item: IntArray) -> Design:
    """Return some responses of a design; doses are counted from the means of all of them."""
    return cast(Design, _DesignPart(design, rows, item))
