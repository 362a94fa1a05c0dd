"""Findings, verdicts, assumptions and plans in sentences."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam.inference.checks import Check, Outcome
from bayescontam.inference.result import Fit
from bayescontam.inference.verdicts import Overfitting
from bayescontam.power.power import PowerRequest
from bayescontam.power.scenario import Assumptions
from bayescontam.report.format import (
    interval,
    items_of,
    level_text,
    number,
    place,
    probability,
    reference_text,
)
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Beta

MOST_BENCHMARKS = 4
"""Benchmarks up to which each has sentences of its own."""
_SPELT = (
    "No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven",
    "Twelve",
)  # fmt: skip
_NAME_WIDTH = 40
_OTHERS = {
    Overfitting.AT_MOST_SMALL: "For {subject} the {effect} is at most small (below {smallest:g}).",
    Overfitting.INCONCLUSIVE: "For {subject} the {effect} is neither shown nor ruled out.",
    Overfitting.BORROWED: (
        "For {subject} the responses by themselves hold too little information to show or rule out"
        " the {effect}."
    ),
    Overfitting.SIGN_ASSUMED: (
        "For {subject} the {effect} is {range}, if contamination does not lower scores, as the"
        " model spec assumes."
    ),
    Overfitting.OPPOSITE: (
        "For {subject} scores fall with contamination, which points to harder items, not to memory."
    ),
    Overfitting.BY_REFERENCE: (
        "For {subject} the sign of the {effect} depends on the reference contamination."
    ),
    Overfitting.NO_VARIATION: (
        "For {subject} all items have the same contamination, so that no effect can be estimated."
    ),
    Overfitting.CLEAN: "For {subject} the {effect} is zero by assumption (declared clean).",
    Overfitting.NONE: "For {subject} no item is contaminated.",
}
_UNTESTED = {Overfitting.NO_VARIATION, Overfitting.CLEAN, Overfitting.NONE}
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
SPARE = ("p_width_mcse", "power_mcse", "true_overfitting")
"""Columns that a narrow terminal leaves out."""
_SIZES = ("models", "benchmarks", "generations")


@dataclass(frozen=True)
class _Unit:
    """What the rows of a table are called."""

    one: str
    many: str

    def counted(self, count: int, of: int) -> str:
        """Return a count within a sentence, such as "3 models"."""
        if count == of:
            return f"this {self.one}" if of == 1 else f"all {of:,} {self.many}"
        return f"{count:,} {self.one if count == 1 else self.many}"

    def leading(self, count: int, of: int) -> str:
        """Return a count that begins a sentence, such as "Eleven of 19 models"."""
        if count == of:
            return f"All {of:,} {self.many}"
        spelt = _SPELT[count] if count < len(_SPELT) else f"{count:,}"
        return f"{spelt} of {of:,} {self.many}"


_MODELS, _SCORES = _Unit("model", "models"), _Unit("score", "scores")


def finding(headline: pd.DataFrame, smallest: float) -> list[str]:
    """Return what a fit shows: of contamination, or where there is none which models are best."""
    benchmarks = list(dict.fromkeys(headline["benchmark"]))
    sentences = _effects if "overfitting_verdict" in headline else _best
    if len(benchmarks) == 1:
        return [" ".join(sentences(headline, _MODELS, smallest))]
    if len(benchmarks) <= MOST_BENCHMARKS:
        return [
            f"{printable(str(name), _NAME_WIDTH)}: "
            + " ".join(sentences(headline[headline["benchmark"] == name], _MODELS, smallest))
            for name in benchmarks
        ]
    models = headline["model"].nunique()
    size = f"{models:,} model{'s' if models > 1 else ''} on {len(benchmarks):,} benchmarks:"
    sentences = _effects if "overfitting_verdict" in headline else _most_often_best
    return [" ".join([size, *sentences(headline, _SCORES, smallest)])]


def _effects(rows: pd.DataFrame, unit: _Unit, smallest: float) -> Iterator[str]:
    """Yield how much of the accuracy is due to contamination, and for whom that is open."""
    kinds = rows["overfitting_verdict"]
    shown = rows[kinds == Overfitting.SHOWN]
    # What items gain from the contamination of others is removed only where it is estimated.
    effect = "effect" if "spillover" in rows else "direct effect"
    if len(shown):
        yield from _shown(shown, unit, len(rows), effect)
    else:
        yield from _not_shown(kinds, smallest, effect)
    for kind, text in _OTHERS.items():
        found = rows[kinds == kind]
        if len(found) and not (kind is Overfitting.AT_MOST_SMALL and _all_small(kinds)):
            subject = unit.counted(len(found), len(rows))
            size = _range(found["overfitting"])
            yield text.format(subject=subject, effect=effect, smallest=smallest, range=size)


def _shown(shown: pd.DataFrame, unit: _Unit, of: int, effect: str) -> Iterator[str]:
    worst: Any = shown.sort_values("overfitting").iloc[-1]
    name = _name(worst, unit)
    ending = f"when the {effect} of contamination is removed"
    if len(shown) == 1:
        subject = name if of == 1 else f"{unit.leading(1, of)}, {name},"
        ends = interval(worst["overfitting_low"], worst["overfitting_high"])
        yield f"{subject} loses {number(worst['overfitting'])} {ends} of its accuracy {ending}."
        start = "It falls"
    else:
        yield (
            f"{unit.leading(len(shown), of)} lose {_range(shown['overfitting'])} of their accuracy"
            f" {ending}."
        )
        start = f"{name} loses most: it falls"
    yield (
        f"{start} from a raw accuracy of {number(worst['raw_accuracy'])} to a genuine ability of"
        f" {number(worst['genuine_ability'])}"
        f" {interval(worst['genuine_ability_low'], worst['genuine_ability_high'])}{_moved(worst)}."
    )


def _moved(row: Any) -> str:
    before, after = row["rank_raw"], row["rank"]
    if pd.isna(before) or pd.isna(after) or before == after:
        return ""
    return f", from rank {place(before)} to {place(after)}"


def _not_shown(kinds: "pd.Series[str]", smallest: float, effect: str) -> Iterator[str]:
    if _all_small(kinds):
        where = " where it varies" if kinds.isin(_UNTESTED).any() else ""
        yield f"The {effect} of contamination on every accuracy is below {smallest:g}{where}."
    elif not kinds.isin(_UNTESTED).all():
        yield f"No {effect} of contamination is shown."
    elif (kinds == Overfitting.NO_VARIATION).any():
        yield "These data cannot show whether contamination raises any accuracy."
    else:
        yield "There is no contamination to correct for."


def _all_small(kinds: "pd.Series[str]") -> bool:
    """Return whether every effect that could be estimated is at most small."""
    tested = kinds[~kinds.isin(_UNTESTED)]
    return len(tested) > 0 and bool((tested == Overfitting.AT_MOST_SMALL).all())


def _best(rows: pd.DataFrame, unit: _Unit, smallest: float) -> Iterator[str]:
    """Yield which model is best."""
    ranked = rows.dropna(subset="rank")
    if len(rows) == 1:
        yield f"The accuracy of {_name(rows.iloc[0], unit)} is {_accuracy(rows.iloc[0])}."
        return
    if ranked.empty:
        yield f"Accuracies of {len(rows):,} models are {_range(rows['accuracy'])}."
        yield "They are over different items and cannot be compared: there are no ranks."
        return
    best = ranked.sort_values(["rank", "accuracy"], ascending=[True, False]).iloc[0]
    yield (
        f"{_name(best, unit)} ranks first of {len(ranked):,} models, with an accuracy of"
        f" {_accuracy(best)}; it is the best with probability {probability(best['p_best'])}."
    )


def _most_often_best(rows: pd.DataFrame, unit: _Unit, smallest: float) -> Iterator[str]:
    """Yield which model is best on most benchmarks."""
    ranked = rows.dropna(subset="rank")
    if ranked.empty or rows["model"].nunique() == 1:
        yield f"accuracies are {_range(rows['accuracy'])}."
        return
    ordered = ranked.sort_values(["rank", "accuracy"], ascending=[True, False], kind="stable")
    counts = ordered.drop_duplicates("benchmark")["model"].value_counts()
    most = counts[counts == counts.iloc[0]]
    if len(most) > 1:
        yield f"{len(most):,} models rank first on {most.iloc[0]:,} of them each."
    else:
        name = printable(str(most.index[0]), _NAME_WIDTH)
        yield f"{name} ranks first on {most.iloc[0]:,} of them, more often than any other."


def _accuracy(row: Any) -> str:
    return f"{number(row['accuracy'])} {interval(row['accuracy_low'], row['accuracy_high'])}"


def _name(row: Any, unit: _Unit) -> str:
    name = printable(str(row["model"]), _NAME_WIDTH)
    return name if unit is _MODELS else f"{name} on {printable(str(row['benchmark']), _NAME_WIDTH)}"


def _range(values: "pd.Series[float]") -> str:
    """Return smallest and largest value, with as many decimals as set them apart from zero."""
    low, high = float(values.min()), float(values.max())
    digits = 2 if abs(low) >= 0.01 and number(low, 2) != number(high, 2) else 3
    ends = number(low, digits), number(high, digits)
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def checks_sentence(checks: tuple[Check, ...]) -> str:
    """Return whether the checks hold, and which do not; without a full stop."""
    failed = [check.name for check in checks if check.outcome is Outcome.FAILED]
    cautions = [check.name for check in checks if check.outcome is Outcome.CAUTION]
    known = f"{_count(len(cautions), 'caution')} ({', '.join(cautions)})" if cautions else ""
    if failed:
        text = f"Do not rely on this fit yet: {len(failed)} of {len(checks)} checks failed"
        text += f" ({', '.join(failed)})"
        return f"{text}, {known}" if known else text
    if cautions:
        return f"No check failed, {known}, of {len(checks)} checks"
    return f"All {len(checks)} checks passed"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def assumptions(fit: Fit) -> list[str]:
    """Return what the fit assumes, one sentence or two each."""
    clean = fit.record.get("clean", [])  # fits of earlier versions say nothing of it
    return _sentences(fit.spec, fit.record["entered"], join_list(clean))


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
            f"How difficult contaminated items are is identified by {who} ({join_list(clean, 3)});"
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
    marked = f"the models that the column '{printable(block.clean_column, 60)}' marks"
    clean = join_list(block.clean) if block.clean else marked
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


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table for people: without sizes that are the same in every row."""
    return table.drop(columns=["quantity", *_alike(table)])


def plan_notes(table: pd.DataFrame, truth: Assumptions, wish: PowerRequest, seed: int) -> list[str]:
    """Return what a reader must know beside the table, one sentence or two each."""
    sizes = ", ".join(f"{name} = {table[name].iloc[0]}" for name in _alike(table))
    known = "".join(f", {name} = {value:g}" for name, value in truth.spreads.items())
    return [
        *([f"Everywhere: {sizes}."] if sizes else []),
        f"width: of the {100 * wish.level:g} % interval of {wish.quantity}; median and central"
        f" 80 % over {wish.data_sets} simulated data sets, by a fast approximation.",
        "power: probability that the interval of overfitting excludes zero. Monte Carlo error"
        f" of probabilities: at most {table.filter(like='_mcse').to_numpy().max():.2g}.",
        f"Assumed: accuracy {truth.accuracy:g}, mean slope {truth.slope:g}{known};"
        f" other spreads drawn from their priors. Seed {seed}.",
    ]


def _alike(table: pd.DataFrame) -> list[str]:
    return [name for name in _SIZES if table[name].nunique() == 1]
