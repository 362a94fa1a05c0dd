"""Which effects the data can carry, which were left out and why, and what they add up to."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bayescontam._text import join_list
from bayescontam.model.design import Design
from bayescontam.model.lineage import Lineage
from bayescontam.specs.model import ModelSpec

FEWEST = 3  # levels below which the spread of an effect cannot be estimated
LEAST_APART = 0.01
"""Difference of mean contaminations below which a lift of whole benchmarks is not requested."""
MOST_PATTERNS = 20_000_000  # items times models that answered a part of them: 160 MB

SPREADS = {
    "a": "sigma_a",
    "sigma_theta": "sigma_theta",
    "u": "sigma_bm",
    "v": "sigma_bb",
    "w": "sigma_bmb",
    "delta": "sigma_delta",
    "eps": "sigma_eps",
    "t": "sigma_t",
    "twin": "sigma_twin",
    "walk": "sigma_step",
    "lb": "sigma_lb",
    "lk": "sigma_lk",
    "lambda": "sigma_lambda",
    "zeta": "sigma_zeta",
    "xi": "sigma_xi",
}
"""Spread of each term, as priors name it."""


@dataclass(frozen=True)
class Terms:
    """Effects of a model spec that enter a fit, under their symbols."""

    # of `a`, `sigma_theta`, `sigma_mu`, `t`, `twin`, `walk`, `beta`, `u`, `v`, `w`, `increments`,
    # `spillover`, `lb`, `lk`, `lambda`, `kappa`, `gamma`, `delta`, `psi`, `sigma_psi`, `alpha`,
    # `alpha_pair`, `shared`, `eps`, `zeta`, `xi`
    entered: frozenset[str]
    # symbol and reason for each effect that the spec has and the data cannot carry
    left_out: tuple[tuple[str, str], ...]
    # whether item difficulties, which then are not among those entered, are integrated out of the
    # likelihood
    integrated: bool = False

    def __contains__(self, symbol: str) -> bool:
        return symbol in self.entered


def plan_terms(spec: ModelSpec, design: Design) -> Terms:
    """Decide which effects of a model spec enter."""
    verdicts = dict(_requested(spec, design))
    entered = frozenset(symbol for symbol, reason in verdicts.items() if reason is None)
    left_out = tuple((symbol, reason) for symbol, reason in verdicts.items() if reason)
    return Terms(entered, left_out)


def _requested(spec: ModelSpec, design: Design) -> Iterator[tuple[str, str | None]]:
    """Yield every effect the spec requests, with a reason if it cannot enter."""
    if spec.ability.pooling != "none":
        yield from _ability(spec, design)
    if spec.contamination.form != "none":
        yield "beta", None
        if spec.contamination.pooling == "partial":
            yield from _slopes(design)
        yield from _doses(spec, design)
    if spec.difficulty.form == "random":
        yield "delta", _no_difficulty(design)
        yield from _selection(spec, design)
        if spec.difficulty.discrimination == "by_pair":
            yield "alpha_pair", _no_difficulty(design)
        if spec.difficulty.discrimination == "random":
            several = int((design.models_of_item >= FEWEST).sum())
            few = f"discrimination needs items that at least 3 models answered (here {several})"
            yield "alpha", few if several < FEWEST else _no_difficulty(design)
    if spec.likelihood.has_model_by_item:
        yield "eps", _no_model_by_item(design)
    if design.people is not None:
        yield from _participants(spec, design)


def _ability(spec: ModelSpec, design: Design) -> Iterator[tuple[str, str | None]]:
    n_models, n_units = len(design.models), len(design.units)
    who, cells = "model", design.model_unit
    if design.lineage is not None:
        who, cells = "base", design.base_unit
    cells = np.unique(cells)
    n_cells, unit = len(cells), spec.ability.by
    several = int((np.bincount(cells // n_units) > 1).sum())
    if spec.ability.pooling == "partial":
        few = f"a general ability needs at least 3 {who}s that answered 2 {unit}s (here {several})"
        yield "a", few if several < FEWEST else None
    few = f"a spread of abilities needs at least 3 pairs of {who} and {unit} (here {n_cells})"
    if design.lineage is not None and len(design.lineage.bases) < 2:
        # The abilities of one base are the means of units themselves.
        yield "sigma_theta", "a spread of abilities needs at least 2 bases (here 1)"
    else:
        yield "sigma_theta", few if n_cells < FEWEST else None
    if design.lineage is not None and spec.ability.twins == "similar":
        yield "t", None
        yield "twin", None
        if spec.ability.checkpoints == "walk":
            none = "a walk along checkpoints needs a run with at least 2 of them (here none)"
            yield "walk", none if design.lineage.walk is None else None
    if unit != "benchmark":
        few = f"a spread over {unit}s needs at least 3 of them and 2 models"
        yield "sigma_mu", few if n_units < FEWEST or n_models < 2 else None


def _slopes(design: Design) -> Iterator[tuple[str, str | None]]:
    models, benchmarks = (int(design.informative.any(axis=axis).sum()) for axis in (1, 0))
    pairs = int(design.informative.sum())
    what = "in which contamination varies"
    yield "u", _few(models, f"models {what}", "slopes' spread over models")
    yield "v", _few(benchmarks, f"benchmarks {what}", "slopes' spread over benchmarks")
    # Pairs beyond those that the mean and the two spreads above already account for.
    spare = pairs - 1 - sum(n - 1 for n in (models, benchmarks) if n >= FEWEST)
    if pairs >= FEWEST and spare < 2:
        yield (
            "w",
            "too few models are exposed to several benchmarks to distinguish it from the spreads"
            " above",
        )
    else:
        yield "w", _few(pairs, f"pairs of model and benchmark {what}", "slopes' spread over pairs")


def _doses(spec: ModelSpec, design: Design) -> Iterator[tuple[str, str | None]]:
    block = spec.contamination
    if block.form == "monotone":
        yield "increments", None
    if block.exposure == "shared":
        known = "contamination is known of every item: no column moves any"
        yield "shared", known if design.shared is None else None
    if block.spillover:
        alike = (
            "on each benchmark, mean contaminations of the models that answered it differ by less"
            f" than {LEAST_APART:g}"
        )
        varied = np.ptp(design.cell_dose) > LEAST_APART
        yield "spillover", None if varied else alike
        if varied and design.lineage is not None:
            yield from _spillovers(design.lineage)
    if block.confounding != "none":
        alike = "all items of each benchmark have the same contamination"
        yield "kappa", None if np.ptp(design.item_dose) > 1e-9 else alike
    if block.interaction == "difficulty":
        yield "gamma", _no_difficulty(design)


def _spillovers(lineage: Lineage) -> Iterator[tuple[str, str | None]]:
    """Yield by what coefficients of spillover differ."""
    # Two levels are enough: these spreads have narrow priors, and one coefficient for two
    # benchmarks would lend each what the other shows.
    benchmarks, kinds = (
        len(np.unique(known)) for known in (lineage.group_benchmark, lineage.group_kind)
    )
    few = "spillover's spread over {} needs at least 2 with exposure (here {})"
    yield "lb", few.format("benchmarks", benchmarks) if benchmarks < 2 else None
    if len(lineage.kinds) > 1:
        yield "lk", few.format("kinds of duplicates", kinds) if kinds < 2 else None
    groups = len(lineage.group_base)
    if groups > max(benchmarks, kinds):
        yield "lambda", None


def _selection(spec: ModelSpec, design: Design) -> Iterator[tuple[str, str | None]]:
    """Yield what it shows about difficulties who answered an item, where not all answered all."""
    count = len(design.partial)
    if spec.difficulty.selection == "ignored" or not count or _no_difficulty(design):
        return
    size = count * len(design.items)
    many = f"{size:,} pairs of an item and a model that answered a part are too many to learn from"
    yield "psi", many if size > MOST_PATTERNS else None
    if size <= MOST_PATTERNS:
        few = f"models that answered between {0.05:.0%} and {0.95:.0%} of a benchmark's items"
        yield "sigma_psi", _few(count, few, "a spread of what their choice of items says")


def _no_difficulty(design: Design) -> str | None:
    shared = benchmarks_with_two_models(design)
    if not shared.any():
        return "difficulty needs items that at least 2 models answered (here none)"
    if len(design.items) == len(design.units):
        return f"each {design.by} has one item, whose difficulty is the {design.by}'s"
    return None


def benchmarks_with_two_models(design: Design) -> np.ndarray:
    """Return for each benchmark whether any of its items was answered by two models."""
    answers = design.models_of_item
    shared = np.zeros(len(design.benchmarks), dtype=bool)
    np.logical_or.at(shared, design.benchmark_of_item, answers > 1)
    return shared


def _no_model_by_item(design: Design) -> str | None:
    repeated = slice(design.n_single, None)
    if design.n_single == len(design):
        return "a model-by-item effect needs repeated trials (here every response has one)"
    if np.bincount(design.model_unit[repeated]).max() < 2:
        return f"each pair of model and {design.by} has one row, whose effect is the ability's"
    return None


def _participants(spec: ModelSpec, design: Design) -> Iterator[tuple[str, str | None]]:
    """Yield in what people of one group differ, and what they share beyond an item's difficulty."""
    assert design.participant is not None
    assert design.pair is not None
    rows = design.participant >= 0
    several = int((np.bincount(design.participant[rows]) > 1).sum())
    yield "zeta", _few(several, "participants who answered 2 items", "abilities of participants")
    if spec.likelihood.has_model_by_item:
        shared = int((np.bincount(design.pair[rows]) > 1).sum())
        few = "items that 2 participants of a group answered"
        reason = _few(shared, few, "an effect of items for people")
        if np.bincount(design.model_unit[design.first_of_pairs]).max() < 2:
            reason = f"each {design.by} has one item, whose effect is the ability's"
        yield "xi", reason


def _few(count: int, what: str, wanted: str) -> str | None:
    return f"{wanted} needs at least 3 {what} (here {count})" if count < FEWEST else None


def models_without_overlap(design: Design) -> str | None:
    """Say which benchmarks have no item difficulty although others have, if any."""
    shared = benchmarks_with_two_models(design)
    names = [
        name for name, is_shared in zip(design.benchmarks, shared, strict=True) if not is_shared
    ]
    return f"no item was answered by 2 models in {join_list(names)}" if names else None


@dataclass(frozen=True)
class VarianceComponent:
    """Independent effects that abilities, slopes or their confounding are sums of."""

    of: str  # what they add to: `theta`, `beta` or `kappa`
    dims: tuple[str, ...]  # what they differ by; all else shares them
    # name of the prior of their spread around zero; None where `prior` is their own
    scale: str | None = None
    prior: str | None = None
    zero_sum: bool = False  # whether they sum to zero over models


def variance_components(spec: ModelSpec, terms: Terms) -> Iterator[VarianceComponent]:
    """Yield the effects that a model spec adds up, the level of each sum first."""
    pairs = ("model", "unit")
    if spec.ability.pooling == "none":
        yield VarianceComponent("theta", pairs, prior="theta")
    else:
        who = "model" if spec.ability.lineage == "none" else "base"
        yield VarianceComponent("theta", ("unit",), prior="mu")
        if "a" in terms:
            yield VarianceComponent("theta", (who,), SPREADS["a"], zero_sum=True)
        if "sigma_theta" in terms:
            yield VarianceComponent("theta", (who, "unit"), SPREADS["sigma_theta"])
        else:
            yield VarianceComponent("theta", (who, "unit"), prior="theta")
        if "t" in terms:
            yield VarianceComponent("theta", ("model",), SPREADS["t"])
        if "twin" in terms:
            yield VarianceComponent("theta", pairs, SPREADS["twin"])
    pairs = ("model", "benchmark")
    if spec.contamination.pooling == "none":
        yield VarianceComponent("beta", pairs, prior="beta_bar")
    else:
        yield VarianceComponent("beta", (), prior="beta_bar")
        for term, dims in (("u", ("model",)), ("v", ("benchmark",)), ("w", pairs)):
            if term in terms:
                yield VarianceComponent("beta", dims, SPREADS[term])
    if "kappa" in terms:
        yield VarianceComponent("kappa", ("benchmark",), prior="kappa")
