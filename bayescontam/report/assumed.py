"""Assumed: what a fit takes for granted, in short and in full."""

from collections.abc import Collection, Iterator

from bayescontam.inference.fitted import Fit
from bayescontam.names import listed, visible
from bayescontam.report.words import items_of, level_text, reference_text
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Beta

_EXPOSURES = {
    "known": "The contamination of each item is assumed to be known.",
    "noisy": (
        "The contamination of each item is uncertain: it varies around the covariate with the"
        " standard deviation that is given for it, independently of other items, and the"
        " responses help to estimate it. Accuracy and overfitting are at the true contamination."
    ),
    "latent": (
        "Whether an item is contaminated was not observed: it is so with the probability that the"
        " covariates give (p_duplicate), which the responses update. Where the covariates give a"
        " standard deviation of these probabilities, all of a benchmark may be too high or too"
        " low together. Accuracy and overfitting are at the contamination that holds."
    ),
}
"""What is known of contamination, in the model spec's words."""


def assumptions(fit: Fit) -> list[str]:
    """Return what the fit assumes, one sentence or two each."""
    clean = fit.record.get("clean", [])  # fits of earlier versions say nothing of it
    return _sentences(fit.spec, fit.record["entered"], listed(clean))


def in_short(fit: Fit) -> list[tuple[str, str]]:
    """Return what a reader must know first of what the fit assumes: four heads with a sentence."""
    estimated, items = _estimated_in_short(fit), ("Which items", _items_in_short(fit))
    if "identification" in fit.tree:
        return [_identified_in_short(fit), estimated, items, _effect_size_in_short(fit)]
    return [estimated, _difficulty_in_short(fit), items, _difference_in_short(fit)]


def lines_in_short(fit: Fit) -> list[str]:
    """Return for the terminal what is estimated, and for which items."""
    head, text = _estimated_in_short(fit)
    return [f"{head}: {text}", f"Which items: {_items_in_short(fit)}"]


def _identified_in_short(fit: Fit) -> tuple[str, str]:
    block, clean = fit.spec.contamination, fit.record.get("clean", [])
    if block.confounding == "anchored":
        who = f"{len(clean)} model{'' if len(clean) == 1 else 's'} declared clean"
        text = (
            f"How difficult contaminated items are is identified by {who} ({listed(clean, 3)});"
            " what the others gain beyond that is the effect of contamination."
        )
    elif block.confounding == "sensitivity":
        text = (
            "Contaminated items may be harder or easier than others, as far as the prior of kappa"
            " allows; the data alone cannot distinguish that from an effect of contamination."
        )
    else:
        text = (
            "Contaminated and other items are assumed to be equally difficult for a model that met"
            " neither. If easy items are contaminated more often, the effect is overstated."
        )
    return "What identifies the effect", text


def _estimated_in_short(fit: Fit) -> tuple[str, str]:
    if "identification" not in fit.tree:
        return "No contamination", (
            "This fit does not estimate effects of contamination: accuracy may be due to it in"
            " part."
        )
    if "spillover" in fit.record["entered"]:
        return "Direct effect and spillover", (
            "Genuine ability is without what items gain from their own contamination and from that"
            " of other items (spillover), the latter as far as models of different mean"
            " contamination show it."
        )
    return "Direct effect only", (
        "Only what an item gains from its own contamination is removed. What items gain from"
        " the contamination of other items (spillover) stays in genuine ability."
    )


def _difficulty_in_short(fit: Fit) -> tuple[str, str]:
    if "delta" in fit.record["entered"]:
        return "Difficulty", "The difficulty of an item is common to all models."
    return "Difficulty", "Items are not distinguished by difficulty."


def _items_in_short(fit: Fit) -> str:
    items, several = items_of(fit), fit.tree["constant_data"].sizes["benchmark"] > 1
    if fit.record.get("population", False):
        return (
            f"Estimates are about a population of items from which the {items} in the table"
            " were drawn: intervals include that other items could have been drawn."
        )
    if fit.record.get("items", "answered") == "all":
        which = f"the {items} in the table{', by benchmark' if several else ''}"
    else:
        which = f"those of the {items} that each model answered"
    return (
        f"Estimates average over {which}. Intervals are for these items: for the population that"
        " they were drawn from they would be wider (fit --population)."
    )


def _difference_in_short(fit: Fit) -> tuple[str, str]:
    return "What counts as a difference", (
        "Two models are distinguishable if one is better than the other with a probability of"
        f" at least {level_text(fit.level)}."
    )


def _effect_size_in_short(fit: Fit) -> tuple[str, str]:
    return "What counts as an effect", (
        f"Verdicts refer to a smallest effect of interest of {fit.smallest_effect:g} in accuracy;"
        " 'at most small' means that the whole interval is below it. Genuine ability is at"
        f" {reference_text(fit)}."
    )


def spec_assumptions(spec: ModelSpec) -> list[str]:
    """Return what a fit of the model spec assumes, if its data carry every term."""
    block = spec.contamination
    terms = {"delta": spec.difficulty.form != "none", "spillover": block.spillover}
    marked = f"the models that the column '{visible(block.clean_column, 60)}' marks"
    clean = listed(block.clean) if block.clean else marked
    return _sentences(spec, [name for name, enters in terms.items() if enters], clean)


def _sentences(spec: ModelSpec, entered: Collection[str], clean: str) -> list[str]:
    lines: list[str] = []
    if spec.contamination.form != "none":
        lines += _slope_assumptions(spec, entered, clean)
    if spec.likelihood.has_model_by_item:
        lines.append(
            "Repeated trials of a model on an item are not independent evidence: they share an"
            " effect of their own, if the table has such trials."
        )
    else:
        lines.append("The trials of a row are assumed to be independent of each other.")
    if spec.likelihood.guess == "column":
        lines.append(
            "How often blind guessing succeeds on an item is given by the table: its column"
            " 'guess', or 1 / n_options."
        )
    elif spec.likelihood.guess:
        how = "is estimated, from the prior" if _estimates_guess(spec) else "is set"
        lines.append(f"How often blind guessing succeeds {how} in the model spec, see its text.")
    if "delta" in entered:
        lines.append("The difficulty of an item is common to all models.")
    if spec.ability.pooling == "partial":
        lines.append(
            "Abilities are pooled partially: uncertain ones are drawn towards those of the rest of"
            " the table, as far as the data support it."
        )
    return lines


def _estimates_guess(spec: ModelSpec) -> bool:
    guess = spec.likelihood.guess
    return any(
        isinstance(said, Beta) for said in (guess.values() if isinstance(guess, dict) else [guess])
    )


def _slope_assumptions(spec: ModelSpec, entered: Collection[str], clean: str) -> Iterator[str]:
    block = spec.contamination
    if block.confounding == "none":
        yield (
            'What identifies the slope (confounding = "none"): items of different contamination'
            " are assumed to be equally difficult if they were clean. If easy items are duplicated"
            " more often, the slope takes their ease for an effect of contamination."
        )
    elif block.confounding == "anchored":
        yield (
            f'What identifies the slope (confounding = "anchored"): {clean} are assumed to be'
            " clean. Contaminated items may be easier or harder than others; the clean models show"
            " by how much (kappa), and what the others gain beyond that is the slope. If a clean"
            " model was contaminated after all, slopes are too small."
        )
    else:
        prior = spec.priors.kappa.text()
        yield (
            'What identifies the slope (confounding = "sensitivity"): contaminated items may be'
            f" easier or harder than others by kappa ~ {prior} log-odds. Where all models share one"
            " contamination of each item, only this prior distinguishes kappa from the slope; the"
            " intervals include that uncertainty."
        )
    if block.sign == "positive":
        whose = " of items of average difficulty" if block.interaction != "none" else ""
        yield f"Slopes{whose} are assumed not to be negative: their sign is no finding."
    if block.pooling == "partial":
        yield (
            "Slopes of models and benchmarks are pooled partially: where the responses of a pair"
            " hold little information, its slope rests on the others."
        )
    yield _EXPOSURES[block.exposure]
    if "spillover" in entered:
        yield (
            "Training on some items may also lift others of the same benchmark. This part is"
            " estimated by comparing models of different mean contamination, which are assumed to"
            " differ in ability by chance otherwise; genuine ability is without it."
        )
    else:
        yield (
            "Training on some items may also lift others of the same benchmark; this part is not"
            " estimated and stays in genuine ability."
        )
    scale = "log-odds" if block.scale == "log_odds" else "accuracy"
    if block.form == "monotone":
        yield (
            f"On the {scale} scale the effect of contamination is monotone; its shape is the same"
            " for all models and benchmarks."
        )
    else:
        yield f"On the {scale} scale the effect of contamination is a straight line."
    if block.interaction == "difficulty":
        yield (
            "Slopes change with the difficulty of an item; reported slopes are those of an item of"
            " mean difficulty."
        )
