"""Checks of what estimands rest on, made before anything is sampled."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bayescontam._text import join_list
from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.checks import Check, make_check
from bayescontam.inference.estimands import Items, comparable, over_all
from bayescontam.inference.identification import ROUNDING, extrapolation
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design, may_count_items
from bayescontam.model.effect_names import EffectNames, effect_head

CONTROLS = "Training apart from contamination"
SPILLOVER = "Spillover apart from ability"
"""Name of the check of whether spillover can be distinguished from ability."""
LEAST_CONTRAST = 0.1
"""Spread of exposures that abilities leave, as a share of their distance from the reference."""
LEAST_SPREAD = 0.05
"""Standard deviation of latent events' probabilities below which they are about equal."""
_PREDICTED = (
    "estimands average over all items of the benchmark, and what a model does on those that it"
    " did not answer is predicted from its ability and their difficulty."
)


def design_checks(
    built: BuiltModel, reference: FloatArray | None, items: Items = "all"
) -> Iterator[Check]:
    """Check what the estimands rest on: the reference, and the items answered."""
    design = built.design
    if reference is not None:
        outside = extrapolation(design, reference) > 0  # False where nothing was answered
        names = [design.models[m] for m in np.unique(np.nonzero(outside)[0])]
        ability = effect_head(EffectNames.of("spillover" in built.terms).ability)
        yield make_check(
            "Reference in observed range", not names, outside.sum(), "0 outside",
            f"{ability} is reported at a contamination that was observed.",
            f"{ability} is extrapolated beyond the contamination observed for"
            f" {join_list(names, 5)}: it rests on the form of the dose-response.",
        )  # fmt: skip
    if built.spec.contamination.exposure == "latent":
        yield _events_check(built)
    if "spillover" in built.terms and reference is not None:
        if design.lineage is None:
            yield _spillover_check(built, reference)
            yield _exposure_check(design, reference)
        else:
            yield _twins_check(design)
            if "t" in built.terms:
                yield from _controls_check(design)
    yield _trials_check(built)
    yield _items_check(built, items)


def _events_check(built: BuiltModel) -> Check:
    """Check that the covariate says which items are the likelier ones."""
    design = built.design
    spread = float(np.sqrt(np.average(design.dose**2, weights=design.weight)))
    return make_check(
        "Probabilities of items", spread >= LEAST_SPREAD, spread, f"sd ≥ {LEAST_SPREAD:g}",
        "Items differ in how probably they are contaminated.",
        "Items hardly differ in how probably they are contaminated, so that the responses alone"
        " show which are. A slope and its opposite, with the other items contaminated, fit about"
        " alike: see whether chains agree, and use a positive slope (contamination.sign) if its"
        " sign is known.",
    )  # fmt: skip


def _spillover_check(built: BuiltModel, reference: FloatArray) -> Check:
    """Check that abilities of models and benchmarks leave something to identify spillover."""
    left, spread = _contrasts(built.design)
    _, cells, benchmark = _exposures(built.design)
    # Small differences would have to show what spillover does over a large distance.
    distance = float(np.sqrt(np.mean((reference[benchmark] - cells) ** 2)))
    left = left if spread >= LEAST_CONTRAST * distance else 0
    return make_check(
        SPILLOVER, left >= 2, left, "≥ 2 contrasts left",
        "Models of different exposure answered enough benchmarks to distinguish spillover from"
        " ability.",
        "Whether a model is lifted by spillover or is simply abler, these models and benchmarks"
        " cannot show: how the difference is split is the priors' guess. Add models of other"
        " exposure, or benchmarks that no model can have been exposed to.",
    )  # fmt: skip


def _exposure_check(design: Design, reference: FloatArray) -> Check:
    """Check that some models were as little exposed as the reference requires."""
    _, cells, _ = _exposures(design)
    outside = (reference < cells.min() - ROUNDING) | (reference > cells.max() + ROUNDING)
    return make_check(
        "Reference in range of exposure", not outside.any(), outside.sum(), "0 outside",
        "Mean contaminations of models reach the reference.",
        "No model's mean contamination reaches the reference: genuine ability rests on spillover"
        " being a straight line beyond what was observed. A model or a benchmark without"
        " contamination would show it.",
    )  # fmt: skip


def _twins_check(design: Design) -> Check:
    """Check that each exposed model has a relative of other exposure on its benchmark."""
    met = design.exposed_pairs
    alone, count = met & ~design.twinned_pairs, int(met.sum())
    names = join_list(
        [f"{design.models[m]} on {design.benchmarks[b]}" for m, b in np.argwhere(alone)], 3
    )
    return make_check(
        SPILLOVER, not alone.any(), alone.sum(), "0 without a relative of other exposure",
        f"{'The exposed score has' if count == 1 else f'All {count} exposed scores have'} a model"
        " of the same base with another exposure on the benchmark, which shows what contamination"
        " adds to all items.",
        f"{int(alone.sum())} of {count} exposed scores {'has' if alone.sum() == 1 else 'have'} no"
        f" model of the same base with another exposure on the benchmark ({names}), so that what"
        " spillover adds rests on what other bases and benchmarks gained. A clean twin would show"
        " it.",
    )  # fmt: skip


def _controls_check(design: Design) -> Iterator[Check]:
    """Check that training apart from contamination can be seen in each base."""
    found = design.controls
    if not found:
        return  # no base has models to compare
    without = [base for base, known in found.items() if not known]
    known = sorted({b for each in found.values() for b in each})
    names = join_list([design.benchmarks[b] for b in known], 3)
    assert design.lineage is not None
    of_base = np.array(design.lineage.bases)[design.lineage.base]
    compared = np.isin(of_base, [base for base, each in found.items() if each])
    astray = np.flatnonzero(design.exposed_pairs.any(axis=1) & compared & ~design.controlled)
    if len(astray) and not without:
        models = join_list([design.models[m] for m in astray], 3)
        yield make_check(
            CONTROLS, False, len(astray), "0 exposed models without a control", "",
            f"{models} answered none of the benchmarks that no model of the base was exposed to"
            f" ({names}): what their own training changes everywhere is distinguished from"
            " contamination by its prior alone. Their answers to these would show it.",
        )  # fmt: skip
        return
    yield make_check(
        CONTROLS, not without, len(without), "0 bases without a control",
        f"Benchmarks that none of a base's models were exposed to ({names}) show what their own"
        " training changes everywhere.",
        f"Models of {join_list(without, 3)} were exposed to every benchmark that several of them"
        " answered: what a model's own training changes everywhere is distinguished from"
        " contamination by its prior alone. Benchmarks that none of them can have been exposed to"
        " (controls) would show it.",
    )  # fmt: skip


def _exposures(design: Design) -> tuple[IntArray, FloatArray, IntArray]:
    """Return model, mean contamination and benchmark of each pair that was answered."""
    first = np.unique(design.model_benchmark, return_index=True)[1]
    return design.model[first], design.cell_contamination[first], design.benchmark[first]


def _contrasts(design: Design) -> tuple[int, float]:
    """Return how many contrasts of exposure models and benchmarks do not fix, and its sd there."""
    model, exposure, benchmark = _exposures(design)
    known = np.column_stack(
        [np.eye(len(design.models))[model], np.eye(len(design.benchmarks))[benchmark]]
    )
    fitted, _, rank, _ = np.linalg.lstsq(known, exposure)
    spread = float(np.std(exposure - known @ fitted))
    if spread < ROUNDING:
        return 0, 0.0
    return len(exposure) - int(rank) - 1, spread


def _trials_check(built: BuiltModel) -> Check:
    design = built.design
    single, repeated = design.n_single, len(design) - design.n_single
    bad, count = "", 0
    good = "All have a model-by-item effect." if repeated else "Every response has one trial."
    counted = may_count_items(design.benchmark, design.item, design.n_trials)
    if built.spec.likelihood.trials == "items":
        good = "The trials of a row are taken for different items, as the model spec says."
    elif "eps" in built.terms and single:
        count = single
        bad = (
            f"{single} responses have one trial and {repeated} have several. Only the latter have a"
            " model-by-item effect, so that abilities and slopes are pooled over log-odds of two"
            " scales; the accuracies themselves are affected little."
        )
    elif "eps" not in built.terms and repeated:
        count = repeated
        bad = (
            f"The repeated trials of {repeated} responses are taken for independent items. If they"
            " are answers to one item, intervals are too narrow: use model_by_item = true, with"
            " several items for each model."
        )
    elif "eps" in built.terms and counted.any():
        count = int(counted.sum())
        names = join_list([design.benchmarks[b] for b in np.flatnonzero(counted)], 3)
        bad = (
            f"A benchmark has few items and many trials of each ({names}). They are taken for"
            " repeats of one item. If a row counts different items, as printed results by half or"
            " by concept do, intervals are much too wide: set likelihood.trials = 'items' in a copy"
            " of the model spec (aggregated has it)."
        )
    wanted = "no repeats without effect, no mixture"
    return make_check("Trials of responses", not count, count, wanted, good, bad)


def _items_check(built: BuiltModel, items: Items) -> Check:
    """Check that models are compared on common ground, and how much of it was observed."""
    design = built.design
    count = np.bincount(design.benchmark_of_item, minlength=len(design.benchmarks))
    cells = design.items_answered
    partly = (cells > 0) & (cells < count)
    fixed, ranked = ~over_all(built, items), comparable(built, items)
    incomparable, few = partly & (fixed | ~ranked), partly & (2 * cells < count)
    text = "Every model answered all items of its benchmarks."
    if incomparable.any():
        text = f"Models answered different items ({_shares_of(design, cells, incomparable)})"
        text += _why_incomparable(built, items, fixed, ranked)
    elif few.any():
        text = (
            f"Some models answered less than half of a benchmark"
            f" ({_shares_of(design, cells, few)}): {_PREDICTED} The estimates assume that which"
            " items a model answered depends on their difficulty and its ability alone."
        )
    elif partly.any():
        text = f"Some models missed items ({_shares_of(design, cells, partly)}): {_PREDICTED}"
    bad = (incomparable if incomparable.any() else few).sum()
    wanted = "0 with less than half, or not comparable"
    return make_check("Items answered", not bad, bad, wanted, text, text)


def _why_incomparable(
    built: BuiltModel, items: Items, fixed: NDArray[np.bool_], ranked: NDArray[np.bool_]
) -> str:
    """Say what estimands are where models answered different items, and what to do."""
    if items == "answered":
        return (
            ", and estimands average over the items that each answered: they cannot be compared"
            " between models, and no ranks are given there. Use --items all to compare."
        )
    if not fixed[~ranked].all():
        return (
            ", and some models are linked to others by no item that both answered: no ranks are"
            " given there. Add models or items that link them."
        )
    return (
        ", and the model spec has no difficulties of these items, so that estimands average over"
        " the items that each model answered: they cannot be compared between models, and no"
        " ranks are given there. Use a model spec with item difficulties on items that several"
        " models answered."
    )


def _shares_of(design: Design, cells: IntArray, which: NDArray[np.bool_]) -> str:
    count = np.bincount(design.benchmark_of_item, minlength=len(design.benchmarks))
    return join_list(
        [
            f"{design.models[m]}: {cells[m, b]} of {count[b]} of {design.benchmarks[b]}"
            for m, b in zip(*np.nonzero(which), strict=True)
        ],
        4,
    )
