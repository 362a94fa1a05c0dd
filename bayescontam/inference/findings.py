"""What a fit shows, and what it is about, in sentences for pages and the terminal."""

from collections.abc import Container, Iterator, Mapping
from typing import Any, Literal

import pandas as pd

from bayescontam._format import interval, number, place, probability
from bayescontam._text import join_list, printable
from bayescontam.inference.checks import checks_sentence
from bayescontam.inference.comparable import averaged_over_all
from bayescontam.inference.design_checks import CONTROLS, SPILLOVER
from bayescontam.inference.identification import Overfitting
from bayescontam.inference.result import Fit
from bayescontam.inference.tables import headline
from bayescontam.model.effect_names import EffectNames, effect_words

DIRECT_EFFECT = (
    "Direct effect only: what items gain from the contamination of others (spillover) stays in"
    " genuine ability (direct). To identify it: models of one base that differ in contamination"
    " (twins; column 'base'), or models of different exposure together with benchmarks that no"
    " model can have been exposed to (controls)."
)
TOTAL_EFFECT = (
    "Total effect: what items gain from their own contamination and from that of others"
    " (spillover) is removed from genuine ability."
)
NO_EFFECT = (
    "No contamination: effects of contamination are not estimated, and accuracy may be due to"
    " them in part."
)
MOST_BENCHMARKS = 4
"""Benchmarks up to which each has sentences of its own."""
_SPELT = (
    "No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven",
    "Twelve",
)  # fmt: skip
_NAME_WIDTH = 40
_OTHERS = {
    Overfitting.AT_MOST_SMALL: (
        "For {subject} the {effect} is at most small (within ±{smallest:g})."
    ),
    Overfitting.INCONCLUSIVE: "For {subject} the {effect} is neither shown nor ruled out.",
    Overfitting.BORROWED: (
        "For {subject} the responses by themselves neither show nor rule out the {effect}: the"
        " estimate rests on other models and benchmarks, or on priors."
    ),
    Overfitting.SIGN_ASSUMED: (
        "For {subject} the {effect} is {range}, if contamination does not lower scores, as the"
        " model spec assumes."
    ),
    Overfitting.OPPOSITE: (
        "For {subject} scores fall with contamination, which memory does not explain: these items"
        " may be harder, or their keys wrong."
    ),
    Overfitting.LOWERED: (
        "For {subject} contamination lowered the score: the {effect} is {range}."
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
_Unit = Literal["model", "score"]
"""What the rows of a table are called."""


def verdict_line(
    fit: Fit, level: float | None = None, estimands: pd.DataFrame | None = None
) -> str:
    """Return in a few sentences whether the checks hold, and what the fit shows.

    `level` is that of the intervals in them; default: the fit's. `estimands` are those of that
    level; default: they are summarised anew.
    """
    estimands = fit.estimands(level) if estimands is None else estimands
    found = finding(headline(fit, estimands), fit.smallest_effect)
    return " ".join(
        [f"{checks_sentence(fit.checks())}.", *found, *level_of_verdicts({"": fit}, level)]
    )


def level_of_verdicts(fits: Mapping[str, Fit], level: float | None) -> list[str]:
    """Return on which intervals verdicts are based, where those beside them have another level.

    `level` is that of the intervals beside them; default: each fit's.
    """
    based = {
        printable(name, _NAME_WIDTH): fit.level
        for name, fit in fits.items()
        if EffectNames.among(fit.data["estimands"]) is not None  # others have no verdicts
    }
    if level is None or set(based.values()) <= {level}:
        return []
    if len(set(based.values())) == 1:
        return [f"Verdicts are based on {100 * next(iter(based.values())):g} % intervals."]
    each = ", ".join(f"{name} ({100 * own:g} %)" for name, own in based.items())
    return [f"Verdicts are based on intervals of the level of their fit: {each}."]


def finding(headline: pd.DataFrame, smallest: float) -> list[str]:
    """Return what a fit shows: of contamination, or where there is none which models are best."""
    benchmarks = list(dict.fromkeys(headline["benchmark"]))
    names = EffectNames.among(headline)
    if len(benchmarks) <= MOST_BENCHMARKS:
        lines = []
        for name in benchmarks:
            rows = headline[headline["benchmark"] == name]
            found = _best(rows) if names is None else _effects(rows, names, "model", smallest)
            start = f"{printable(str(name), _NAME_WIDTH)}: " if len(benchmarks) > 1 else ""
            lines.append(start + " ".join(found))
        return lines
    models = headline["model"].nunique()
    size = f"{models:,} model{'s' if models > 1 else ''} on {len(benchmarks):,} benchmarks:"
    if names is None:
        return [" ".join([size, *_most_often_best(headline)])]
    return [" ".join([size, *_effects(headline, names, "score", smallest)])]


def _effects(rows: pd.DataFrame, names: EffectNames, unit: _Unit, smallest: float) -> Iterator[str]:
    """Yield how much of the accuracy is due to contamination, and for whom that is open."""
    # Equal raw accuracies share places: none of them is a move.
    tied = rows.groupby(["benchmark", "rank_raw"])["model"].transform("size")
    rows = rows.assign(rank_last=rows["rank_raw"] + tied - 1)
    kinds, effect = rows[names.verdict], names.effect
    shown = rows[kinds == Overfitting.SHOWN]
    if len(shown):
        yield from _shown(shown, names, unit, len(rows))
    else:
        yield from _not_shown(kinds, smallest, effect)
    for kind, text in _OTHERS.items():
        found = rows[kinds == kind]
        if len(found) and not (kind is Overfitting.AT_MOST_SMALL and _all_small(kinds)):
            subject = _counted(len(found), len(rows), unit)
            size = _range(found[names.overfitting])
            yield text.format(subject=subject, effect=effect, smallest=smallest, range=size)


def _shown(shown: pd.DataFrame, names: EffectNames, unit: _Unit, of: int) -> Iterator[str]:
    ability, effect = names.ability, names.overfitting
    worst: Any = shown.sort_values(effect).iloc[-1]
    name = _name(worst, unit)
    ending = f"when the {names.effect} of contamination is removed"
    if len(shown) == 1:
        subject = name if of == 1 else f"{_leading(1, of, unit)}, {name},"
        ends = interval(worst[f"{effect}_low"], worst[f"{effect}_high"])
        yield f"{subject} loses {number(worst[effect])} {ends} of its accuracy {ending}."
        start = "It falls"
    else:
        subject, size = _leading(len(shown), of, unit), _range(shown[effect])
        yield f"{subject} lose {size} of their accuracy {ending}."
        start = f"{name} loses most: it falls"
    yield (
        f"{start} from a raw accuracy of {number(worst['raw_accuracy'])} to a"
        f" {effect_words(ability)} of {number(worst[ability])}"
        f" {interval(worst[f'{ability}_low'], worst[f'{ability}_high'])}{_moved(worst)}."
    )


def _counted(count: int, of: int, unit: _Unit) -> str:
    """Return a count within a sentence, such as "3 models"."""
    if count == of:
        return f"this {unit}" if of == 1 else f"both {unit}s" if of == 2 else f"all {of:,} {unit}s"
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def _leading(count: int, of: int, unit: _Unit) -> str:
    """Return a count that begins a sentence, such as "Eleven of 19 models"."""
    if count == of:
        return f"All {of:,} {unit}s"
    return f"{_SPELT[count] if count < len(_SPELT) else f'{count:,}'} of {of:,} {unit}s"


def _moved(row: Any) -> str:
    before, after = row["rank_raw"], row["rank"]
    if pd.isna(before) or pd.isna(after) or before <= after <= row["rank_last"]:
        return ""
    shared = "a shared " if row["rank_last"] > before else ""
    return f", from {shared}rank {place(before)} to {place(after)}"


def _not_shown(kinds: "pd.Series[str]", smallest: float, effect: str) -> Iterator[str]:
    if _all_small(kinds):
        where = " where it varies" if kinds.isin(_UNTESTED).any() else ""
        yield f"The {effect} of contamination on every accuracy is within ±{smallest:g}{where}."
    elif (kinds == Overfitting.LOWERED).any():
        return  # which is an effect, and has a sentence of its own
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


def _best(rows: pd.DataFrame) -> Iterator[str]:
    """Yield which model is best."""
    ranked = rows.dropna(subset="rank")
    if len(rows) == 1:
        yield f"The accuracy of {_name(rows.iloc[0], 'model')} is {_accuracy(rows.iloc[0])}."
        return
    if ranked.empty:
        yield f"Accuracies of {len(rows):,} models are {_range(rows['accuracy'])}."
        yield "They are over different items and cannot be compared: there are no ranks."
        return
    best = ranked.sort_values(["rank", "accuracy"], ascending=[True, False]).iloc[0]
    yield (
        f"{_name(best, 'model')} ranks first of {len(ranked):,} models, with an accuracy of"
        f" {_accuracy(best)}; it is the best with probability {probability(best['p_best'])}."
    )


def _most_often_best(rows: pd.DataFrame) -> Iterator[str]:
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
    names = [row["model"]] if unit == "model" else [row["model"], row["benchmark"]]
    return " on ".join(printable(str(name), _NAME_WIDTH) for name in names)


def _range(values: "pd.Series[float]") -> str:
    """Return smallest and largest value, with as many decimals as set them apart from zero."""
    low, high = float(values.min()), float(values.max())
    digits = 2 if abs(low) >= 0.01 and number(low, 2) != number(high, 2) else 3
    ends = number(low, digits), number(high, digits)
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def estimated_effect(estimands: Container[str]) -> str:
    """Return which effect of contamination estimands are of: the first line of what is shown."""
    names = EffectNames.among(estimands)
    if names is None:
        return NO_EFFECT
    return TOTAL_EFFECT if names.total else DIRECT_EFFECT


def identified_by(fit: Fit) -> list[str]:
    """Return what identifies a total effect, or why it is not: sentences of the design's checks."""
    names = SPILLOVER, CONTROLS
    return [check.sentence for check in fit.checks() if check.name in names]


def which_items(fit: Fit, level: float | None = None) -> str:
    """Return which items estimates average over, what intervals are for, and their level."""
    level = fit.level if level is None else level
    intervals = f"Intervals ({100 * level:g} %)"
    items, several = items_of(fit), fit.data["constant_data"].sizes["benchmark"] > 1
    if fit.record.get("population", False):
        return (
            f"Estimates are about a population of items from which the {items} in the table"
            f" were drawn. {intervals} include that other items could have been drawn."
        )
    every = averaged_over_all(fit.data, fit.record)
    if every.all():
        which = f"the {items} in the table{', by benchmark' if several else ''}"
    elif every.any():
        named = join_list(every.index[~every], 4)
        which = f"the {items} in the table by benchmark, on {named} those that each model answered"
    else:
        which = f"those of the {items} that each model answered"
    return (
        f"Estimates average over {which}. {intervals} are for these items: for the population that"
        " they were drawn from they would be wider (fit --population)."
    )


def items_of(fit: Fit) -> str:
    """Return how many items a fit has, or groups of items where rows count different ones."""
    count = fit.data["constant_data"].sizes["item"]
    grouped = fit.spec.likelihood.trials == "items"
    return f"{count:,} {'groups of ' if grouped else ''}items"
