"""A table of responses as index arrays: models, benchmarks, items, doses."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._text import printable
from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.data.measures import read_guess
from bayescontam.data.responses import Responses
from bayescontam.data.validation import closest_name
from bayescontam.errors import DataError, Fault
from bayescontam.model.exposure import Exposure, clean_models, exposure_columns, make_exposure
from bayescontam.model.labels import item_column, labelled, positions_among
from bayescontam.model.lineage import NO_DOSE, Lineage, add_checkpoints, make_lineage
from bayescontam.model.people import People, make_people
from bayescontam.model.shared import SharedDoses, make_shared
from bayescontam.specs.model import ModelSpec

_LEAST_PART = 0.05
"""Share of a benchmark's items from which on it matters which ones a model answered."""
_SAME_KIND = 0.5
"""Part of two exposures that must be of the same kinds for them to inform on one coefficient."""
_BY_RESPONSE = (
    "model", "benchmark", "unit", "item", "n_correct", "n_trials", "contamination", "weight",
    "participant", "pair",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Centring:
    """What contaminations are centred at, and what they range over: figures of a whole table."""

    of_item: FloatArray  # dims (item,): mean contamination over models
    # dims (benchmark,), (benchmark, segment) and (benchmark,): mean contamination of responses,
    # mean reach of responses, and mean contamination of items
    responses: FloatArray
    reach: FloatArray
    items: FloatArray
    # dims (model, benchmark): mean contamination of a model's responses, 0 of clean models, and
    # the smallest and largest; NaN where a model answered nothing
    pairs: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, design: "Design") -> "Centring":
        """Compute the figures of the responses of a design."""
        known, exposure = design.contamination, design.exposure
        assert known is not None
        shape = design.answered.shape
        pairs = design.means(known, design.model_benchmark, design.answered.size).reshape(shape)
        reach = [design.means(part, design.benchmark, shape[1]) for part in design.reach(known).T]
        rows, size = design.exposed, len(design.items)
        total = np.bincount(design.item[rows], known[rows], minlength=size)
        of_item = total / np.bincount(design.item[rows], minlength=size)
        total = np.bincount(design.benchmark_of_item, of_item, minlength=shape[1])
        items = total / np.bincount(design.benchmark_of_item, minlength=shape[1])
        # That of a latent event ranges from 0 to 1, unless it is known of all items.
        low, high = known, known
        if exposure is not None:
            low, high = exposure.low[exposure.group], exposure.high[exposure.group]
        least, most = extremes(low, high, design.model_benchmark, design.answered.size)
        return cls(
            of_item,
            design.means(known, design.benchmark, shape[1]), np.stack(reach, axis=1), items,
            np.where(design.clean[:, None], 0.0, pairs), least.reshape(shape), most.reshape(shape),
        )  # fmt: skip


_FEW_ITEMS, _MANY_TRIALS = 5, 20
"""Items of a benchmark up to which, and mean trials from which, a row may count different items."""


def may_count_items(benchmark: IntArray, item: IntArray, n_trials: IntArray) -> NDArray[np.bool_]:
    """Return for which benchmarks trials of rows look like different items, (benchmark,)."""
    # So are printed results by half or by concept: few rows a benchmark, each of many trials.
    size = np.bincount(benchmark)
    of_item = np.unique(item, return_index=True)[1]
    items = np.bincount(benchmark[of_item], minlength=len(size))
    trials = np.bincount(benchmark, n_trials) / np.maximum(size, 1)
    return np.asarray((items <= _FEW_ITEMS) & (trials >= _MANY_TRIALS))


@dataclass(frozen=True, eq=False, kw_only=True)
class Design:
    """Responses as arrays. Rows with one trial come first, repeated ones after them."""

    # Designs made of another by its methods count doses from the means of the table that was
    # fitted, and ask it which items models chose.

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
    n_single: int  # number of responses with one trial, which are the first rows
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
    # accuracy of blind guessing, dims (item,); None where items have none of their own
    item_guess: FloatArray | None
    whole: "Design | None" = None  # the table that was fitted, if this has other rows or items
    like: IntArray | None = None  # the item of `whole` that each item stands for; None: itself
    centring: Centring | None = None  # None where the model spec uses no contamination
    # how contaminations that are not known move together; None where they do not
    shared: SharedDoses | None = None
    lineage: Lineage | None = None  # None where the model spec has none
    # people, participant, pair: who answered, where models are groups of people, and which pair of
    # a group and an item a response is of; dims (response,), -1 for other models; None without any
    people: People | None = None
    participant: IntArray | None = None
    pair: IntArray | None = None

    def __len__(self) -> int:
        return len(self.model)

    @property
    def fitted_table(self) -> "Design":
        """The table that was fitted: `whole`, or this one."""
        return self if self.whole is None else self.whole

    def subset(self, rows: IntArray, item: IntArray | None = None) -> "Design":
        """Return the design of some responses, and of their items alone if `item` numbers these."""
        # Of contaminations that are not known exactly it has the expected values alone, unless
        # they are known up to factors that all items share.
        n_single = int((rows < self.n_single).sum())
        whole, taken = self.fitted_table, self._taken(_BY_RESPONSE, rows)
        part = replace(self, **taken, n_single=n_single, exposure=None, whole=whole)
        if item is None:
            return part
        like = np.zeros(int(item.max(initial=-1)) + 1, dtype=np.int64)
        like[item] = part.item
        items = tuple(self.items[i] for i in like)
        changed = self._taken(("benchmark_of_item", "item_guess"), like)
        shared = None if self.shared is None else self.shared.taken(like)
        changed |= {"shared": shared, **self._like(like)}
        return replace(part, item=item, items=items, **changed)

    def _taken(self, names: tuple[str, ...], at: IntArray) -> dict[str, Any]:
        arrays = {name: getattr(self, name) for name in names}
        return {name: each if each is None else each[at] for name, each in arrays.items()}

    def _like(self, items: IntArray, level: FloatArray | None = None) -> dict[str, Any]:
        """Return fields of items that stand for these, whose contamination may be another."""
        known = self.centring
        if known is not None:
            known = replace(known, of_item=known.of_item[items] if level is None else level)
        like = items if self.like is None else self.like[items]
        return {"whole": self.fitted_table, "like": like, "centring": known}

    def hold_out(self, rows: IntArray) -> "Design":
        """Return the design in which some responses count 0 correct answers of 0 trials."""
        # A model that is built for it has all parameters of the whole one, and a likelihood to
        # which held-out responses add nothing. Parameters of items and models that are held out
        # altogether follow their population, given all others.
        n_correct, n_trials = self.n_correct.copy(), self.n_trials.copy()
        n_correct[rows] = n_trials[rows] = 0
        return replace(self, n_correct=n_correct, n_trials=n_trials)

    def extend(self, joined: "Design") -> "Design":
        """Return the design of a table with more models, with doses as in this one."""
        if self.centring is None or joined.centring is None:
            return joined
        means = {name: getattr(self.centring, name) for name in ("responses", "reach", "items")}
        return replace(joined, centring=replace(joined.centring, **means))

    def on_grid(
        self, unit: IntArray, level: FloatArray | None, answered: FloatArray, like: IntArray
    ) -> "Design":
        """Return the design of made-up items of given units and contaminations, dims (item,)."""
        # Every model has a response to each, of weight 0 where it answered, dims (item, model),
        # none of those that the item stands for. The same models answered all items that it is
        # like.
        models, items = len(self.models), len(unit)
        item = np.repeat(np.arange(items), models)
        ones = np.ones(len(item), dtype=np.int64)
        model, benchmark = np.tile(np.arange(models), items), self.benchmark_of_unit[unit][item]
        contamination = None
        if level is not None:
            contamination = np.where(self.unexposed[model, benchmark], 0.0, level[item])
        return replace(
            self,
            items=tuple(map(str, range(items))),
            benchmark_of_item=self.benchmark_of_unit[unit],
            model=model,
            benchmark=benchmark,
            unit=unit[item],
            item=item,
            n_correct=ones,
            n_trials=ones,
            n_single=len(item),
            contamination=contamination,
            weight=answered.ravel(),
            exposure=None,
            shared=None,
            item_guess=None if self.item_guess is None else np.zeros(items),
            **self._like(like, level),
        )

    @cached_property
    def model_unit(self) -> IntArray:
        """Position of each response's (model, unit) cell in a flattened array."""
        return self.model * len(self.units) + self.unit

    @cached_property
    def model_benchmark(self) -> IntArray:
        """Position of each response's (model, benchmark) cell in a flattened array."""
        if self.unit is self.benchmark:
            return self.model_unit
        return self.model * len(self.benchmarks) + self.benchmark

    @cached_property
    def base_unit(self) -> IntArray:
        """Position of each response's (base, unit) cell in a flattened array."""
        assert self.lineage is not None
        return self.lineage.base[self.model] * len(self.units) + self.unit

    @cached_property
    def cell_level(self) -> FloatArray:
        """Mean contamination of each pair's responses as doses count it, (model, benchmark)."""
        shape = self.answered.shape
        return self.means(self.dose, self.model_benchmark, self.answered.size).reshape(shape)

    @cached_property
    def pair_dose(self) -> FloatArray:
        """Mean contamination of models on benchmarks, (model, benchmark); 0 of clean models."""
        return np.where(self.answered, self._centring.pairs, 0.0)

    @cached_property
    def answered(self) -> NDArray[np.bool_]:
        """Whether a model answered any item of a benchmark, dims (model, benchmark)."""
        shape = len(self.models), len(self.benchmarks)
        return np.bincount(self.model_benchmark, minlength=shape[0] * shape[1]).reshape(shape) > 0

    @cached_property
    def exposed_pairs(self) -> BoolArray:
        """Which models met a benchmark's items in training, (model, benchmark)."""
        return np.asarray(self.pair_dose > NO_DOSE)

    def relatives(self, m: int, b: int) -> BoolArray:
        """Return the models that show what the exposure of one adds on a benchmark, itself too."""
        # Those of its base that answered it, and were not exposed or to the same kinds of
        # duplicates.
        lineage = self._lineage
        share = lineage.share.reshape(*self.answered.shape, -1)[:, b]
        alike = np.minimum(share, share[m]).sum(axis=1) >= _SAME_KIND
        related: BoolArray = self.answered[:, b] & (lineage.base == lineage.base[m])
        return related & (alike | ~self.exposed_pairs[:, b])

    @cached_property
    def twinned_pairs(self) -> BoolArray:
        """Which exposed pairs have a relative of other exposure, (model, benchmark)."""
        found = np.zeros(self.answered.shape, dtype=bool)
        for m, b in zip(*np.nonzero(self.exposed_pairs), strict=True):
            found[m, b] = np.ptp(self.pair_dose[self.relatives(m, b), b]) > NO_DOSE
        return found

    @cached_property
    def controls(self) -> dict[str, list[int]]:
        """Of each base, the benchmarks that several of its models answered, none exposed.

        Bases whose models were not exposed anywhere, or that have one model only, are left out.
        """
        lineage, met, found = self._lineage, self.exposed_pairs, {}
        for a, name in enumerate(lineage.bases):
            rows = lineage.base == a
            if rows.sum() > 1 and met[rows].any():
                clean = ~met[rows].any(axis=0) & (self.answered[rows].sum(axis=0) > 1)
                found[name] = np.flatnonzero(clean).tolist()
        return found

    @cached_property
    def controlled(self) -> BoolArray:
        """Which models answered a control of their base beside a relative, (model,)."""
        bases = np.array(self._lineage.bases)[self._lineage.base]
        return np.array(
            [self.answered[m, self.controls.get(name, [])].any() for m, name in enumerate(bases)]
        )

    @property
    def _lineage(self) -> Lineage:
        assert self.lineage is not None
        return self.lineage

    def means(self, values: FloatArray, cell: IntArray, count: int) -> FloatArray:
        """Return weighted means of values of responses within cells; of an empty cell 0."""
        total = np.bincount(cell, self.weight * values, minlength=count)
        size = np.bincount(cell, self.weight, minlength=count)
        return total / np.where(size > 0, size, 1.0)

    def reach(self, contamination: FloatArray) -> FloatArray:
        """Return which part of each segment of the dose-response lies below a contamination."""
        # In [0, 1], dims (…, segment); segments lie between 0, the knots and 1.
        edges = np.array([0.0, *self.knots, 1.0])
        part = (np.asarray(contamination)[..., None] - edges[:-1]) / np.diff(edges)
        return np.clip(part, 0.0, 1.0)

    @cached_property
    def dose(self) -> FloatArray:
        """Contamination of each response less its benchmark's mean."""
        assert self.contamination is not None
        return self.contamination - self._centring.responses[self.benchmark]

    @cached_property
    def reach_dose(self) -> FloatArray:
        """Reach of each response's contamination less its benchmark's mean, (response, segment)."""
        assert self.contamination is not None
        return self.reach(self.contamination) - self._centring.reach[self.benchmark]

    @property
    def item_contamination(self) -> FloatArray:
        """Mean contamination of each item over models, dims (item,)."""
        # Models that are known to be clean do not count unless no other answered the item: their
        # contamination does not inform on how often it is found in corpora.
        return self._centring.of_item

    @cached_property
    def dose_of_item(self) -> FloatArray:
        """Contamination of each item less its benchmark's mean over items, dims (item,)."""
        return self.item_contamination - self._centring.items[self.benchmark_of_item]

    @cached_property
    def item_dose(self) -> FloatArray:
        """The same for the item of each response."""
        return self.dose_of_item[self.item]

    @cached_property
    def cell_contamination(self) -> FloatArray:
        """Mean contamination of each response's model on its benchmark; 0 of clean models."""
        return self._centring.pairs.ravel()[self.model_benchmark]

    @cached_property
    def cell_dose(self) -> FloatArray:
        """The same less the benchmark's mean contamination over all responses."""
        return self.cell_contamination - self._centring.responses[self.benchmark]

    @property
    def _centring(self) -> Centring:
        assert self.centring is not None
        return self.centring

    def contamination_range(self, by_model: bool = False) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and largest contamination of the table, dims ([model,] benchmark)."""
        # That of a latent event is 0 and 1, unless it is known of all items. NaN where a model
        # answered nothing of a benchmark.
        low, high = self._centring.low, self._centring.high
        return (low, high) if by_model else (np.fmin.reduce(low), np.fmax.reduce(high))

    @cached_property
    def exposed(self) -> NDArray[np.bool_]:
        """Which responses inform on their item's contamination, dims (response,)."""
        # Those of models that are not known to be clean, nor clean twins of others; of all where
        # no other answered the item.
        exposed = ~(self.clean[self.model] | self.unexposed[self.model, self.benchmark])
        count = np.bincount(self.item[exposed], minlength=len(self.items))
        informing: NDArray[np.bool_] = exposed | (count[self.item] == 0)
        return informing

    @cached_property
    def unexposed(self) -> NDArray[np.bool_]:
        """Which pairs of model and benchmark, in a lineage, have no contamination at all."""
        if self.lineage is None or self.contamination is None:
            return np.zeros(self.answered.shape, dtype=bool)
        if self.whole is not None:
            return self.whole.unexposed
        known = self.contamination
        most = extremes(known, known, self.model_benchmark, self.answered.size)[1]
        unexposed: NDArray[np.bool_] = ~(np.nan_to_num(most) > 0).reshape(self.answered.shape)
        return unexposed

    @cached_property
    def varies(self) -> NDArray[np.bool_]:
        """Whether (expected) contamination varies among a model's items of a benchmark."""
        known = self.contamination
        assert known is not None
        low, high = extremes(known, known, self.model_benchmark, self.answered.size)
        return (np.nan_to_num(high - low) > 0).reshape(self.answered.shape)

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
        return ((self.items_answered == items) | ~self.answered).all(axis=0)

    @cached_property
    def items_answered(self) -> IntArray:
        """Number of items of each benchmark that a model answered, dims (model, benchmark)."""
        # People of one group may answer the same item.
        first = slice(None) if self.people is None else self.first_of_pairs
        cells = self.model_benchmark[first]
        return np.bincount(cells, minlength=self.answered.size).reshape(self.answered.shape)

    @cached_property
    def first_of_pairs(self) -> IntArray:
        """Position of the first response of each model to each item, in their order."""
        pairs = self.model * len(self.items) + self.item
        return np.sort(np.unique(pairs, return_index=True)[1])

    @cached_property
    def models_of_item(self) -> IntArray:
        """Number of models that answered each item, dims (item,)."""
        first = slice(None) if self.people is None else self.first_of_pairs
        return np.bincount(self.item[first], minlength=len(self.items))

    @cached_property
    def partial(self) -> IntArray:
        """Positions in a flattened (model, benchmark) array of models that answered a part."""
        # At least 5 % of a benchmark's items, and missing at least 5 %: of fewer, which ones
        # these are changes little.
        if self.whole is not None:
            return self.whole.partial
        items = np.bincount(self.benchmark_of_item)
        share = self.items_answered / np.maximum(items, 1)
        return np.flatnonzero((share >= _LEAST_PART) & (share <= 1 - _LEAST_PART))

    @cached_property
    def selection(self) -> FloatArray:
        """What the choices of models mean for difficulties, dims (item, cell of `partial`)."""
        # 1 where the cell's model answered the item and 0 where not, less its mean over the
        # benchmark, and divided by the square root of the number of such models on it.
        if self.whole is not None:
            known = self.whole.selection
            return known if self.like is None else known[self.like]
        answered = np.zeros((len(self.items), len(self.partial)))
        column = np.full(self.answered.size, -1)
        column[self.partial] = np.arange(len(self.partial))
        rows = np.flatnonzero(column[self.model_benchmark] >= 0)
        answered[self.item[rows], column[self.model_benchmark[rows]]] = 1.0
        benchmark = self.partial % len(self.benchmarks)
        own = self.benchmark_of_item[:, None] == benchmark
        share = answered.sum(axis=0) / own.sum(axis=0)
        count = np.bincount(benchmark, minlength=len(self.benchmarks))[benchmark]
        return np.where(own, answered - share, 0.0) / np.sqrt(count)

    @cached_property
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
        if self.lineage is not None:
            coords["base"] = list(self.lineage.bases)
            coords["duplicate_kind"] = list(self.lineage.kinds)
            coords["exposure"] = self.lineage.labels(self.benchmarks)
        if self.people is not None:
            coords["participant"] = list(self.people.labels)
            coords["participant_item"] = list(self.people.pairs)
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


def make_design(spec: ModelSpec, responses: Responses) -> Design:
    """Return the design that `spec` needs of `responses`."""
    frame = responses.frame
    repeated = (frame["n_trials"] > 1).to_numpy()
    if (np.diff(repeated.astype(np.int8)) < 0).any():
        frame = frame.iloc[np.argsort(repeated, kind="stable")]
    model = positions_among(frame["model"], responses.models)
    benchmark = positions_among(frame["benchmark"], responses.benchmarks)
    item, items, benchmark_of_item = labelled(responses.benchmarks, frame["item"], benchmark)
    codes = {"model": model, "benchmark": benchmark, "item": item}
    exposure = make_exposure(spec, responses, frame, codes)
    by = spec.ability.by
    unit, units = benchmark, responses.benchmarks
    benchmark_of_unit = np.arange(len(units))
    if by != "benchmark":
        column = item_column(responses, by, frame)
        unit, units, benchmark_of_unit = labelled(responses.benchmarks, column, benchmark)
    n_trials = frame["n_trials"].to_numpy(np.int64)
    guess = None
    if spec.likelihood.guess == "column":
        guess = np.zeros(len(items))
        guess[item] = read_guess(frame, responses.source)
    design = Design(
        models=responses.models,
        benchmarks=responses.benchmarks,
        units=units,
        items=items,
        by=by,
        benchmark_of_unit=benchmark_of_unit,
        benchmark_of_item=benchmark_of_item,
        model=model,
        benchmark=benchmark,
        unit=unit,
        item=item,
        n_correct=frame["n_correct"].to_numpy(np.int64),
        n_trials=n_trials,
        n_single=int((n_trials == 1).sum()),
        contamination=_contamination(spec, responses, frame),
        weight=n_trials * 1.0 if spec.likelihood.trials == "items" else np.ones(len(frame)),
        exposure=exposure,
        shared=make_shared(spec, responses, frame, item),
        knots=spec.contamination.knots if spec.contamination.form == "monotone" else (),
        clean=clean_models(spec, responses, frame, responses.models),
        additive=spec.contamination.scale == "accuracy",
        item_guess=guess,
    )
    known = make_people(spec, frame, responses.source, model, item)
    if known is not None:
        people, participant, pair = known
        design = replace(design, people=people, participant=participant, pair=pair)
    if spec.ability.lineage != "none":
        doses = design.contamination
        if doses is not None:
            doses = np.where(design.clean[model], 0.0, doses * design.weight)
        kinds, count = spec.contamination.kinds, len(design.benchmarks)
        cells = design.model_benchmark
        lineage = make_lineage(responses, frame, kinds, cells, doses, count)
        if spec.ability.checkpoints == "walk":
            lineage = add_checkpoints(lineage, responses, frame, design.contamination)
        design = replace(design, lineage=lineage)
    if design.contamination is None:
        return design
    centring = Centring.of(design)
    if design.lineage is not None:
        # Abilities of twins are alike where neither is contaminated: doses count from there.
        zeros = {name: 0.0 * getattr(centring, name) for name in ("responses", "reach")}
        centring = replace(centring, **zeros)
    return replace(design, centring=centring)


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
