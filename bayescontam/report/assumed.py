"""Assumed: what a fit takes for granted, in words."""

from collections.abc import Collection, Iterator

from bayescontam.inference.fitted import Fitted
from bayescontam.names import listed, visible
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Beta

_EXPOSURES = {
    "known": "The contamination of each item is taken as known.",
    "noisy": (
        "The contamination of each item is not known: it is spread around what the covariates"
        " say as far as their standard deviation says, independently of other items, and the"
        " responses help to tell it. Accuracy and overfitting are told at the true contamination."
    ),
    "latent": (
        "Whether an item is contaminated is an event that was not seen: it happened with the"
        " probability that the covariates say (p_duplicate), and the responses help to tell."
        " Where the covariates say how unsure these probabilities are, all of a benchmark may be"
        " too high or too low together. Accuracy and overfitting are told at what happened."
    ),
}
"""What is known of contamination, in the model spec's words."""


def assumptions(fit: Fitted) -> list[str]:
    """Return what the fit assumes, one sentence or two each."""
    clean = fit.record.get("clean", [])  # fits of earlier versions say nothing of it
    return _sentences(fit.spec, fit.record["entered"], listed(clean))


def spec_assumptions(spec: ModelSpec) -> list[str]:
    """Return what a fit of the model spec assumes, if its data carry every term."""
    block = spec.contamination
    terms = {"delta": spec.difficulty.form != "none", "spillover": block.spillover}
    marked = f"the models that the column '{visible(block.clean_column, 60)}' marks"
    clean = listed(block.clean) if block.clean else marked
    return _sentences(spec, [name for name, asked in terms.items() if asked], clean)


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
        lines.append("The trials of a row are taken as independent of each other.")
    if spec.likelihood.guess == "column":
        lines.append(
            "How often blind guessing succeeds on an item is what the table says of it: its column"
            " 'guess', or 1 / n_options."
        )
    elif spec.likelihood.guess:
        how = "is estimated, from the prior" if _estimates_guess(spec) else "is set"
        lines.append(f"How often blind guessing succeeds {how} in the model spec, see its text.")
    if "delta" in entered:
        lines.append("Items differ in difficulty, alike for all models up to chance.")
    if spec.ability.pooling == "partial":
        lines.append(
            "Abilities are pooled partially: what is uncertain is drawn towards what the rest of"
            " the table says, so far as the data support it."
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
            f'What identifies the slope (confounding = "anchored"): {clean} are taken to be clean.'
            " Contaminated items may be easier or harder than others; by how much (kappa) the clean"
            " models tell, and what the others gain beyond that is the slope. If a clean model was"
            " contaminated after all, slopes are too small."
        )
    else:
        prior = spec.priors.kappa.text()
        yield (
            'What identifies the slope (confounding = "sensitivity"): contaminated items may be'
            f" easier or harder than others by kappa ~ {prior} log-odds. Where all models share one"
            " contamination of each item, nothing but this prior tells kappa from the slope: the"
            " intervals hold that doubt."
        )
    if block.sign == "positive":
        whose = " of items of average difficulty" if block.interaction != "none" else ""
        yield f"Slopes{whose} are assumed not to be negative: their sign is no finding."
    if block.pooling == "partial":
        yield (
            "Slopes of models and benchmarks are pooled partially: where a pair says little, its"
            " slope is what the others say."
        )
    yield _EXPOSURES[block.exposure]
    if "spillover" in entered:
        yield (
            "Training on some items may also lift others of the same benchmark. This part is told"
            " by comparing models of different mean contamination, which are assumed to differ in"
            " ability by chance otherwise; genuine ability is without it."
        )
    else:
        yield (
            "Training on some items may also lift others of the same benchmark; this part is not"
            " seen and stays in genuine ability."
        )
    scale = "log-odds" if block.scale == "log_odds" else "accuracy"
    if block.form == "monotone":
        yield (
            f"On the {scale} scale the effect of contamination never turns; its shape is the same"
            " for all models and benchmarks."
        )
    else:
        yield f"On the {scale} scale the effect of contamination is a straight line."
    if block.interaction == "difficulty":
        yield (
            "Slopes change with the difficulty of an item; a slope that is told is that of an item"
            " of mean difficulty."
        )
