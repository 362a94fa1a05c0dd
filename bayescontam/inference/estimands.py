"""Estimands by standardisation over items, draw by draw, and dose-response curves."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bayescontam._types import FloatArray, IntArray
from bayescontam.errors import UsageError
from bayescontam.inference.posterior import (
    CACHED,
    Draws,
    accuracy,
    count_by_level,
    log_odds,
    predictor,
    representative_items,
)
from bayescontam.inference.summary import ranks
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design, extremes
from bayescontam.model.effect_names import ABILITIES, DIRECT, EFFECTS, SPILLOVER, TOTAL
from bayescontam.model.priors import SMALLEST
from bayescontam.model.terms import benchmarks_with_two_models

Items = Literal["all", "answered"]
"""``"all"``: all items of the benchmark in the table; ``"answered"``: those a model answered."""
ITEMS: tuple[Items, ...] = ("all", "answered")

MOST_PAIRS = 20_000_000
"""Pairs of model and item that estimands are computed for: 160 MB a draw."""
_CONSTANT = 1e-12
"""Difference of contaminations that are called equal."""
Reference = str | float
"""``"min_observed"``, ``"zero"`` or a number in [0, 1]."""
QUANTITIES = ("accuracy", *ABILITIES, *EFFECTS, "slope", "novelty_gap", "rank")
"""Estimands in the order in which they are shown; none of the total effect without spillover."""
MOST_DRAWS = 400
POINTS = 13
_OF_EFFECTS = (
    "estimands", "estimands_by_concept", "prior_estimands", "sensitivity", "confounding",
)  # fmt: skip
"""Groups whose variables are named by the effect of contamination that a fit estimates."""
_ENDS = ("", "_low", "_high", "_prior", "_likelihood")
"""Endings of their names."""


@dataclass(frozen=True, eq=False)
class Population:
    """The items over which each model's estimands average."""

    # with the design that averages are taken over: of the table, of the table and the pairs that
    # were not observed, or of what stands in for the items
    built: BuiltModel
    # dims (cell, response): share of each response in its cell, by the kind of cell: `"benchmark"`
    # (cells are pairs of model and benchmark), and where abilities vary over concepts `"concept"`
    matrices: dict[str, sparse.csr_array]
    # positions, among rows with an effect of their own, of pairs that were not observed
    unobserved: IntArray
    # for each of these the position of an observed one whose effect has the same spread
    scale_from: IntArray
    sampled: bool  # whether the items are a sample of those that estimands are about
    # number of pairs of a group of people and an item that estimands need and nobody answered
    unseen: int = 0

    @classmethod
    def of(cls, built: BuiltModel, items: Items, sampled: bool = False) -> "Population":
        """Return the population of a fit."""
        # Sampled items: the Bayesian bootstrap, Rubin (1981), doi:10.1214/aos/1176345338.
        whole = over_all(built, items)
        unobserved = scale_from = np.zeros(0, dtype=np.int64)
        if built.lattice is not None:
            seen = representative_items(built)
            made = seen.design
            answered = built.design.answered[made.model, made.benchmark]
            weight = np.where(whole[made.benchmark], answered, made.weight).astype(float)
            seen = replace(seen, design=replace(made, weight=weight))
        else:
            seen = replace(built, design=_without_participants(built.design))
            if not built.design.complete[whole].all():
                design, unobserved, scale_from = _completed(seen, whole)
                seen = replace(built, design=design)
        matrices = {
            kind: _shares(built, seen.design, kind == "benchmark", whole)
            for kind in dict.fromkeys(["benchmark", built.design.unit_dim])
        }
        unseen = 0
        if built.design.people is not None and seen.design.pair is not None:
            unseen = int(seen.design.pair.max()) + 1 - len(built.design.people.pairs)
        return cls(seen, matrices, unobserved, scale_from, sampled, unseen)

    @property
    def design(self) -> Design:
        """The design that averages are taken over."""
        return self.built.design

    def parts(self, draws: Draws, rng: np.random.Generator) -> Iterator[Draws]:
        """Yield draws of `design`, in parts that stay in a core's cache."""
        repeated = self.design.n_single < len(self.design)
        if draws.sigma_eps is not None and draws.eta is None and repeated:
            # Accuracies without the effects of responses would be those of a response of none.
            raise ValueError("draws lack the effects of responses; draw them by with_own_effects")
        lattice = self.built.lattice
        items = len(self.design.items if lattice is None else lattice.total)
        for part in draws.chunks(self.design, CACHED):
            weights = self._item_weights(len(part), items, rng) if self.sampled else None
            extended = self._extended(count_by_level(part, lattice, weights), rng)
            tally = extended.tally if lattice is not None else weights
            if tally is not None:
                tally = tally.take(self.design.item, axis=1)
            yield replace(extended, tally=tally)

    def _item_weights(self, draws: int, items: int, rng: np.random.Generator) -> FloatArray:
        """Draw weights of items for the Bayesian bootstrap, dims (draw, item)."""
        # A row that counts several items stands for the sum of as many weights.
        if self.built.lattice is not None or (self.design.item_weight == 1).all():
            return rng.standard_exponential((draws, items))
        count = self.design.item_weight
        return rng.standard_gamma(count, (draws, items)) / count

    def _extended(self, draws: Draws, rng: np.random.Generator) -> Draws:
        draws = replace(draws, zeta=None)  # estimands are about the population of participants
        if draws.xi is not None and draws.sigma_xi is not None and self.unseen:
            noise = rng.standard_normal((len(draws), self.unseen))
            drawn = (draws.sigma_xi + SMALLEST) * noise
            draws = replace(draws, xi=np.concatenate([draws.xi, drawn], axis=1))
        if draws.eta is None or draws.sigma_eps is None or not len(self.unobserved):
            return draws
        rows = self.design.n_single + self.unobserved
        center = predictor(replace(draws, eta=None), self.design)[:, rows]
        wide = draws.sigma_eps.shape[1] > 1
        scale = draws.sigma_eps[:, self.scale_from] if wide else draws.sigma_eps
        drawn = center + scale * rng.standard_normal(center.shape)
        return replace(draws, eta=np.concatenate([draws.eta, drawn], axis=1))

    def means(self, kind: str, values: FloatArray, draws: Draws) -> FloatArray:
        """Return the mean of each cell, (draw, response) to (draw, cell); 0 for an empty one."""
        matrix = self.matrices[kind]
        if draws.tally is None:
            return (matrix @ values.T).T
        means: FloatArray = (matrix @ (values * draws.tally).T).T
        if self.sampled:
            total = (matrix @ draws.tally.T).T
            means = means / np.where(total > 0, total, 1.0)
        return means


def over_all(built: BuiltModel, items: Items) -> NDArray[np.bool_]:
    """Return which benchmarks' estimands average over all items, dims (benchmark,)."""
    # What a model does on an item that it did not answer follows from its ability and the item's
    # difficulty. Where the model spec has no difficulties, or no item was answered by two models,
    # there is nothing to infer it from, and averages are over answered items.
    design = built.design
    if items == "answered":
        return np.zeros(len(design.benchmarks), dtype=bool)
    known = benchmarks_with_two_models(design) & ("delta" in built.terms)
    result: NDArray[np.bool_] = known | design.complete
    return result


def comparable(built: BuiltModel, items: Items) -> NDArray[np.bool_]:
    """Return in which benchmarks models' estimands can be compared, dims (benchmark,)."""
    # Where all models answered the same items; else where averages are over all items, and chains
    # of models with an item in common link every two models.
    design = built.design
    linked = np.zeros(len(design.benchmarks), dtype=bool)
    for b in np.flatnonzero(over_all(built, items) & ~design.complete):
        rows = design.benchmark == b
        ones = np.ones(int(rows.sum()))
        shape = len(design.models), len(design.items)
        pairs = sparse.coo_array((ones, (design.model[rows], design.item[rows])), shape=shape)
        graph = sparse.block_array([[None, pairs], [pairs.T, None]])
        part = connected_components(graph, directed=False)[1][: len(design.models)]
        linked[b] = len(np.unique(part[design.answered[:, b]])) == 1
    return design.complete | linked


def _shares(
    built: BuiltModel, design: Design, by_benchmark: bool, whole: NDArray[np.bool_]
) -> sparse.csr_array:
    """Return the share of each response in its cell, dims (cell, response)."""
    cell = design.model_benchmark if by_benchmark else design.model_unit
    count = len(design.models) * len(design.benchmarks if by_benchmark else design.units)
    size: FloatArray = np.bincount(cell, design.weight, minlength=count)
    if built.lattice is not None:
        size = _items_of_cells(built.design, by_benchmark, whole)
    rows = np.flatnonzero(design.weight)
    share = design.weight[rows] / size[cell[rows]]
    return sparse.csr_array((share, (cell[rows], rows)), shape=(count, len(design)))


def _items_of_cells(table: Design, by_benchmark: bool, whole: NDArray[np.bool_]) -> FloatArray:
    """Return the number of items that each cell averages over, dims (cell,)."""
    own = table.model_benchmark if by_benchmark else table.model_unit
    of_item = table.benchmark_of_item if by_benchmark else table.unit_of_item
    of_cell = np.arange(len(table.benchmarks)) if by_benchmark else table.benchmark_of_unit
    answered = np.bincount(own, minlength=len(table.models) * len(of_cell)).astype(float)
    every = np.bincount(of_item, minlength=len(of_cell)).astype(float)
    return np.where(whole[of_cell], every, answered.reshape(len(table.models), -1)).ravel()


def _without_participants(design: Design) -> Design:
    """Return the design with one response of each model to each item, whoever gave it."""
    if design.people is None:
        return design
    once = design.subset(design.first_of_pairs)
    return replace(once, participant=None, whole=design.whole)


def _completed(built: BuiltModel, whole: NDArray[np.bool_]) -> tuple[Design, IntArray, IntArray]:
    """Return the design with all pairs; the unobserved with effects, and whose spread they have."""
    # Rows of one trial come first, then those with an effect of their own; within each, those of
    # the table stand in its order and before the pairs that nobody observed.
    table = built.design
    wanted = (table.answered & whole)[:, table.benchmark_of_item]
    wanted[table.model, table.item] = False
    model, item = (at.astype(np.int64) for at in np.nonzero(wanted))
    if len(model) + len(table) > MOST_PAIRS:
        raise UsageError(
            f"items: estimands over all items need {len(model) + len(table):,} pairs of models and"
            f" items, allowed are {MOST_PAIRS:,}; use items = 'answered' (--items answered), or"
            " fit fewer models or benchmarks at a time"
        )
    cell = model * len(table.benchmarks) + table.benchmark_of_item[item]
    several = np.zeros(len(cell), bool)
    if "eps" in built.terms:  # where most responses of the pair have several trials
        every, repeated = (
            np.bincount(table.model_benchmark, rows, minlength=table.answered.size)
            for rows in (None, table.n_trials > 1)
        )
        several = (2 * repeated > every)[cell]
    level, group = _expected(table, model, item)
    first, last = slice(None, table.n_single), slice(table.n_single, None)

    def joined(observed: Any, added: Any) -> Any:
        observed, added = np.asarray(observed), np.asarray(added)
        parts = observed[first], added[~several], observed[last], added[several]
        return np.concatenate(parts)

    benchmark = table.benchmark_of_item[item]
    weight = np.where(whole[table.benchmark], table.item_weight[table.item], table.weight)
    changed: dict[str, Any] = {
        "model": joined(table.model, model),
        "benchmark": joined(table.benchmark, benchmark),
        "unit": joined(table.unit, table.unit_of_item[item]),
        "item": joined(table.item, item),
        "n_correct": joined(table.n_correct, np.zeros(len(item), dtype=np.int64)),
        "n_trials": joined(table.n_trials, np.where(several, 2, 1)),
        "weight": joined(weight, table.item_weight[item]),
        "n_single": table.n_single + int((~several).sum()),
        "whole": table.fitted_table,
    }
    if table.people is not None and table.pair is not None:
        own = table.people.grouped[model]
        pair = np.where(own, len(table.people.pairs) + np.cumsum(own) - 1, -1)
        changed["pair"] = joined(table.pair, pair)
    if table.contamination is not None:
        changed["contamination"] = joined(table.contamination, level)
    if table.exposure is not None:
        of_rows = joined(table.exposure.group, group)
        at = joined(np.arange(len(table)), np.full(len(item), -1))
        place = np.empty(len(table), dtype=np.int64)
        place[at[at >= 0]] = np.flatnonzero(at >= 0)
        first_row = place[table.exposure.first]
        changed["exposure"] = replace(table.exposure, group=of_rows, first=first_row)
    count, observed = int(several.sum()), len(table) - table.n_single
    donor = np.zeros(len(table.models) * len(table.benchmarks), dtype=np.int64)
    donor[table.model_benchmark[last]] = np.arange(observed)
    return replace(table, **changed), observed + np.arange(count), donor[cell[several]]


def _expected(table: Design, model: IntArray, item: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the contamination of pairs that were not observed, and its group."""
    # A model whose contamination is one number on all items of a benchmark that it answered has
    # this number on the others too, if it is its own: these items differ in other models, or some
    # model is more exposed to one of them. Else a pair has the mean contamination of its item.
    # The group is that of another pair of the same item or, with one number, of the same model.
    if table.contamination is None:
        return np.zeros(len(item)), np.zeros(len(item), dtype=np.int64)
    shape, known = table.answered.shape, table.contamination
    ends = extremes(known, known, table.model_benchmark, table.answered.size)
    low, high = (end.reshape(shape) for end in ends)
    of_items = extremes(known, known, table.item, len(table.items))
    spread = np.zeros(len(table.benchmarks))  # by how much an item differs between models at most
    np.maximum.at(spread, table.benchmark_of_item, of_items[1] - of_items[0])
    benchmark = table.benchmark_of_item[item]
    mean = table.item_contamination[table.item]
    least, most = extremes(mean, mean, table.model_benchmark, table.answered.size)
    below = np.zeros(table.answered.size, dtype=bool)
    np.logical_or.at(below, table.model_benchmark, of_items[1][table.item] - known > _CONSTANT)
    shown = ((most - least > _CONSTANT) | below).reshape(shape)
    constant = (high - low <= _CONSTANT) & shown
    own = constant[model, benchmark] & (spread > _CONSTANT)[benchmark]
    level = np.where(own, low[model, benchmark], table.item_contamination[item])
    if table.exposure is None:
        return level, np.zeros(len(item), dtype=np.int64)
    of_item, of_cell = np.zeros(len(table.items), np.int64), np.zeros(shape, np.int64)
    order = np.argsort(~table.clean[table.model], kind="stable")  # clean models come first
    of_item[table.item[order]] = table.exposure.group[order]
    of_cell[table.model, table.benchmark] = table.exposure.group
    group = np.where(own, of_cell[model, benchmark], of_item[item])
    return table.exposure.mean[group], group


def reference_levels(reference: Reference, design: Design) -> FloatArray:
    """Return the reference contamination of each benchmark, dims (benchmark,)."""
    level = reference_level(reference)
    if level is None:
        return design.contamination_range()[0]
    return np.full(len(design.benchmarks), level)


def reference_level(reference: Reference) -> float | None:
    """Return the reference as a number; None stands for the smallest observed."""
    if reference == "min_observed":
        return None
    try:
        level = 0.0 if reference == "zero" else float(reference)
    except ValueError:
        level = float("nan")
    if not 0 <= level <= 1:
        raise UsageError(
            f"reference: got {reference!r}; allowed are 'min_observed', 'zero' or a number"
            " in [0, 1]"
        )
    return level


def estimands(
    draws: Draws,
    built: BuiltModel,
    shape: tuple[int, int],
    reference: Reference,
    items: Items = "all",
    rng: np.random.Generator | None = None,
    sampled: bool = False,
) -> dict[str, xr.Dataset]:
    """Compute the estimands of every draw, dims (chain, draw, model, benchmark)."""
    design = built.design
    population = Population.of(built, items, sampled)
    rng = np.random.default_rng(0) if rng is None else rng
    parts: dict[str, list[dict[str, FloatArray]]] = {kind: [] for kind in population.matrices}
    for part in population.parts(draws, rng):
        levels = accuracies_at(part, population.built, reference)
        for kind in parts:
            means = {name: population.means(kind, p, part) for name, p in levels.items()}
            parts[kind].append(means)
    ranked = comparable(built, items)
    result = {}
    for dim, found in parts.items():
        of_cell = design.benchmark_of_unit if dim != "benchmark" else np.arange(len(ranked))
        cells = {
            name: np.concatenate([p[name] for p in found]).reshape(
                *shape, len(design.models), len(of_cell)
            )
            for name in found[0]
        }
        slope = None
        if draws.beta is not None and dim == "benchmark":
            slope = draws.beta.reshape(cells["observed"].shape)
        group = "estimands" if dim == "benchmark" else "estimands_by_concept"
        quantities = _quantities(cells, slope)
        quantities["rank"] = np.where(ranked[of_cell], quantities["rank"], np.nan)
        result[group] = _dataset(quantities, design, dim)
    return result


def accuracies_at(draws: Draws, built: BuiltModel, reference: Reference) -> dict[str, FloatArray]:
    """Return the accuracy of each response at the levels that estimands compare."""
    design = built.design
    eta = log_odds(draws, design)
    levels = {"observed": accuracy(draws, built, eta=eta)}
    if draws.beta is not None:
        low, high = design.contamination_range()
        wanted = {"reference": reference_levels(reference, design), "low": low, "high": high}
        for name, level in wanted.items():
            # The usual reference is the lowest contamination itself, and this is the slow part.
            if name == "low" and np.array_equal(level, wanted["reference"]):
                levels[name] = levels["reference"]
                continue
            levels[name] = accuracy(draws, built, level[design.benchmark], eta=eta)
        if draws.spillover is not None:
            # Items at the reference, in a benchmark whose mean contamination stays what it is.
            at = wanted["reference"][design.benchmark]
            levels["lifted"] = accuracy(draws, built, at, eta=eta, spilled=False)
    return levels


def _quantities(cells: dict[str, FloatArray], slope: FloatArray | None) -> dict[str, FloatArray]:
    observed = cells["observed"]
    if "reference" not in cells:
        return {"accuracy": observed, "rank": ranks(observed)}
    genuine = cells["reference"]
    names = TOTAL if "lifted" in cells else DIRECT
    with np.errstate(invalid="ignore", divide="ignore"):
        quantities = {
            "accuracy": observed,
            names.ability: genuine,
            names.overfitting: observed - genuine,
            names.fraction: (observed - genuine) / observed,
            "novelty_gap": cells["high"] - cells["low"],
            "rank": ranks(genuine),
        }
    if names.total:
        lifted = cells["lifted"]
        quantities |= {
            DIRECT.ability: lifted,
            DIRECT.overfitting: observed - lifted,
            SPILLOVER: lifted - genuine,
        }
    if slope is not None:
        quantities["slope"] = slope
    return {name: quantities[name] for name in QUANTITIES if name in quantities}


def _dataset(quantities: dict[str, FloatArray], design: Design, dim: str) -> xr.Dataset:
    dims = ("chain", "draw", "model", dim)
    if dim == "benchmark":
        answered = design.answered
    else:
        size = len(design.models) * len(design.units)
        count = np.bincount(design.model_unit, minlength=size)
        answered = count.reshape(len(design.models), len(design.units)) > 0
    data: dict[str, Any] = {
        name: (dims, np.where(answered, values, np.nan)) for name, values in quantities.items()
    }
    coords = {name: design.coords[name] for name in ("model", dim)}
    return xr.Dataset(data, coords)


def dose_response(
    draws: Draws,
    built: BuiltModel,
    level: float,
    items: Items = "all",
    rng: np.random.Generator | None = None,
    sampled: bool = False,
) -> xr.Dataset:
    """Compute dose-response curves, dims (model, benchmark, point)."""
    design = built.design
    population = Population.of(built, items, sampled)
    seen = population.built
    low, high = design.contamination_range()
    grid = np.linspace(low, high, POINTS, axis=1)
    parts = []
    rng = np.random.default_rng(0) if rng is None else rng
    for part in population.parts(draws.thinned(MOST_DRAWS), rng):
        eta = log_odds(part, seen.design)
        accuracies = (accuracy(part, seen, at[seen.design.benchmark], eta=eta) for at in grid.T)
        points = [population.means("benchmark", p, part) for p in accuracies]
        parts.append(np.stack(points, axis=-1))
    curves = np.concatenate(parts).reshape(-1, *design.answered.shape, POINTS)
    tails = [(1 - level) / 2, (1 + level) / 2]
    lower, upper = np.quantile(curves, tails, axis=0)
    dims = ("model", "benchmark", "point")
    data = {"mean": (dims, curves.mean(axis=0)), "low": (dims, lower), "high": (dims, upper)}
    coords = {name: design.coords[name] for name in ("model", "benchmark")}
    return xr.Dataset(data | {"contamination": (("benchmark", "point"), grid)}, coords)


def renamed(tree: xr.DataTree) -> xr.DataTree:
    """Return the tree of a fit that an earlier version wrote, its estimands under their names."""
    # Earlier versions wrote the direct effect of a fit without spillover under the names of the
    # total one, and of a fit with spillover the total and one of its parts.
    record = json.loads(str(tree["record"]["json"].item()))
    spilled = "spillover" in record["entered"]
    groups = dict(tree.to_dict())
    for path in {f"/{name}" for name in _OF_EFFECTS} & set(groups):
        groups[path] = _group_renamed(groups[path], spilled)
    return xr.DataTree.from_dict(groups)


def _group_renamed(dataset: xr.Dataset, spilled: bool) -> xr.Dataset:
    written = (TOTAL.ability, TOTAL.overfitting, TOTAL.fraction)
    known = {name: DIRECT.meant(name) for name in written}
    if spilled:
        known = {"spillover": SPILLOVER}
    ended = {f"{old}{end}": f"{new}{end}" for old, new in known.items() for end in _ENDS}
    result = dataset.rename({old: new for old, new in ended.items() if old in dataset.data_vars})
    if SPILLOVER not in result or DIRECT.overfitting in result:
        return result
    direct = result[TOTAL.overfitting] - result[SPILLOVER]
    ability = result["accuracy"] - direct
    result = result.assign({DIRECT.ability: ability, DIRECT.overfitting: direct})
    return result[[name for name in QUANTITIES if name in result]]
