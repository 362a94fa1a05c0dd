"""Design checks: what the estimands rest on, seen before anything is sampled."""

from collections.abc import Iterator

import numpy as np

from bayescontam.inference.build import Built
from bayescontam.inference.checks import Check, Outcome, outcome
from bayescontam.inference.design import Design, Floats, Integers
from bayescontam.inference.identification import ROUNDING, extrapolation
from bayescontam.names import listed

SPILLOVER = "Spillover apart from ability"
"""Name of the check that tells whether these can be told apart."""
LEAST_CONTRAST = 0.1
"""Spread of exposures that abilities leave, as a share of their distance from the reference."""
LEAST_SPREAD = 0.05
"""Standard deviation of latent events' probabilities below which they are about equal."""


def design_checks(built: Built, reference: Floats | None) -> Iterator[Check]:
    """Check what the estimands rest on: the reference, and the items answered."""
    design = built.design
    if reference is not None:
        outside = extrapolation(design, reference) > 0  # False where nothing was answered
        names = [design.models[m] for m in np.unique(np.nonzero(outside)[0])]
        yield Check(
            "Reference in observed range",
            outcome(not names, Outcome.CAUTION),
            float(outside.sum()),
            "0 outside",
            "Genuine ability is told at a contamination that was observed."
            if not names
            else "Genuine ability is extrapolated beyond the contamination observed for"
            f" {listed(names, 5)}: it rests on the form of the dose-response.",
        )
    if built.spec.contamination.exposure == "latent":
        yield _events_check(built)
    if "spillover" in built.terms and reference is not None:
        yield _spillover_check(built, reference)
        yield _exposure_check(design, reference)
    yield _trials_check(built)
    partial = _partly_answered(built)
    yield Check(
        "Items answered",
        outcome(not partial, Outcome.CAUTION),
        float(len(partial)),
        "0 incomplete",
        "Every model answered all items of its benchmarks."
        if not partial
        else f"Some models answered a part of a benchmark ({listed(partial, 4)}): their estimands"
        " are averages over the items that they answered.",
    )


def _events_check(built: Built) -> Check:
    """Check that the covariate says which items are the likelier ones."""
    design = built.design
    spread = float(np.sqrt(np.average(design.dose**2, weights=design.weight)))
    fine = spread >= LEAST_SPREAD
    return Check(
        "Probabilities of items",
        outcome(fine, Outcome.CAUTION),
        spread,
        f"sd ≥ {LEAST_SPREAD:g}",
        "Items differ in how probably they are contaminated."
        if fine
        else "Items hardly differ in how probably they are contaminated, so that the responses"
        " alone tell which are. A slope and its opposite, with the other items contaminated,"
        " fit about alike: see whether chains agree, and use a positive slope"
        " (contamination.sign) if its sign is known.",
    )


def _spillover_check(built: Built, reference: Floats) -> Check:
    """Check that abilities of models and benchmarks leave something to tell spillover from."""
    left, spread = _contrasts(built.design)
    _, cells, benchmark = _exposures(built.design)
    # Small differences would have to tell what spillover does over a large distance.
    distance = float(np.sqrt(np.mean((reference[benchmark] - cells) ** 2)))
    fine = left >= 2 and spread >= LEAST_CONTRAST * distance
    return Check(
        SPILLOVER,
        outcome(fine, Outcome.CAUTION),
        float(left) if spread >= LEAST_CONTRAST * distance else 0.0,
        "≥ 2 contrasts left",
        "Models of different exposure met enough benchmarks to tell spillover from ability."
        if fine
        else "Whether a model is lifted by spillover or is simply abler, these models and"
        " benchmarks cannot tell: how the difference is split is the priors' guess. Add models of"
        " other exposure, or benchmarks that no model can have met.",
    )


def _exposure_check(design: Design, reference: Floats) -> Check:
    """Check that some models were as little exposed as the reference asks for."""
    _, cells, _ = _exposures(design)
    outside = (reference < cells.min() - ROUNDING) | (reference > cells.max() + ROUNDING)
    fine = not outside.any()
    return Check(
        "Reference in range of exposure",
        outcome(fine, Outcome.CAUTION),
        float(outside.sum()),
        "0 outside",
        "Mean contaminations of models reach the reference."
        if fine
        else "No model's mean contamination reaches the reference: genuine ability rests on"
        " spillover being a straight line beyond what was observed. A model or a benchmark"
        " without contamination would tell.",
    )


def _exposures(design: Design) -> tuple[Integers, Floats, Integers]:
    """Return model, mean contamination and benchmark of each pair that was answered."""
    first = np.unique(design.model_benchmark, return_index=True)[1]
    return design.model[first], design.cell_contamination[first], design.benchmark[first]


def _contrasts(design: Design) -> tuple[int, float]:
    """Return how many cells are left once models, benchmarks and exposure have had theirs.

    And the standard deviation of exposure within what models and benchmarks leave.
    """
    model, exposure, benchmark = _exposures(design)
    known = np.column_stack(
        [np.eye(len(design.models))[model], np.eye(len(design.benchmarks))[benchmark]]
    )
    fitted, _, rank, _ = np.linalg.lstsq(known, exposure)
    spread = float(np.std(exposure - known @ fitted))
    if spread < ROUNDING:
        return 0, 0.0
    return len(exposure) - int(rank) - 1, spread


def _trials_check(built: Built) -> Check:
    design = built.design
    single, repeated = design.n_single, len(design) - design.n_single
    fine, count = True, 0
    text = "Every response has one trial." if repeated == 0 else "All have a model-by-item effect."
    if built.spec.likelihood.trials == "items":
        text = "The trials of a row are taken for different items, as the model spec says."
    elif "eps" in built.terms and single:
        fine, count = False, single
        text = (
            f"{single} responses have one trial and {repeated} have several. Only the latter have a"
            " model-by-item effect, so that abilities and slopes are pooled over log-odds of two"
            " scales; the accuracies themselves are affected little."
        )
    elif "eps" not in built.terms and repeated:
        fine, count = False, repeated
        text = (
            f"The repeated trials of {repeated} responses are taken for independent items. If they"
            " are answers to one item, intervals are too narrow: use model_by_item = true, with"
            " several items for each model."
        )
    wanted = "no repeats without effect, no mixture"
    return Check("Trials of responses", outcome(fine, Outcome.CAUTION), float(count), wanted, text)


def _partly_answered(built: Built) -> list[str]:
    design = built.design
    items = np.bincount(design.benchmark_of_item, minlength=len(design.benchmarks))
    answers = np.bincount(design.model_benchmark, minlength=design.answered.size)
    cells = answers.reshape(design.answered.shape)
    incomplete = zip(*np.nonzero((cells > 0) & (cells < items)), strict=True)
    return [
        f"{design.models[m]}: {cells[m, b]} of {items[b]} of {design.benchmarks[b]}"
        for m, b in incomplete
    ]
