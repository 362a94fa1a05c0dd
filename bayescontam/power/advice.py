"""What a table of responses identifies, by what, how well, and what is missing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray
from bayescontam.data.covariates import Covariates, Missing
from bayescontam.data.dates import Dates
from bayescontam.data.measures import Scale
from bayescontam.data.responses import Names, Path, Responses, given_responses
from bayescontam.data.validation import check_level
from bayescontam.inference.identification import ROUNDING
from bayescontam.inference.summary import LEVEL
from bayescontam.model.auto import AUTO, choose_spec
from bayescontam.model.design import Design, extremes, make_design
from bayescontam.model.lineage import BASE, bases_of
from bayescontam.model.terms import Terms, plan_terms
from bayescontam.power.totals import MOST_EFFECTS, Pairs, effects_of, expected_widths
from bayescontam.specs.model import ModelSpec

Effect = Literal["direct effect", "spillover", "total effect", "confounding"]
Identified = Literal["yes", "in part", "no", "assumed"]
_WIDER = 1.1
"""Ratio of the widest expected interval to the median from which it is worth a remark."""
_LISTED = 3  # names in a sentence
_COLUMNS = ("effect", "identified", "by", "width", "widest", "missing")
_OF_KIND = (
    "New items of the same kind, written after a model's cutoff, do not help here: they identify"
    " the direct effect only, since spillover lifts them too"
)
_MEANINGS = {
    "direct effect": "what an item gains by its own contamination",
    "spillover": "what the other items of a benchmark gain",
    "total effect": "what a score would lose without contamination of the benchmark",
    "confounding": "whether contaminated items are easier anyway",
}
_NO_CONTAMINATION = "contamination: no model was exposed to any item"
_NOT_COVERED = (
    "no widths are given: they are known for models of pooled ability, without guessing, and"
    " contamination that is known, linear, pooled and of any sign"
)


@dataclass(frozen=True, eq=False)
class Advice:
    """What a table identifies before any fit.

    Attributes
    ----------
    seen : str
        What the table has, in a sentence or two: models, benchmarks, items and exposures.
    spec : ModelSpec
        The model spec that would be fitted.
    notes : tuple of str
        How it was chosen, and what was done to the table on the way in.
    table : pandas.DataFrame
        One row each for direct effect, spillover, total effect and confounding: ``effect``;
        ``identified`` (``"yes"``, ``"in part"``, ``"no"`` or ``"assumed"``); ``by``, what
        identifies it, in words; ``width``, the expected width of the 95 % (or other) interval,
        difference of accuracies, median over exposed scores (a model on a benchmark), NaN where
        nothing is estimated; ``widest``, the largest of these; ``missing``, what would identify it
        (better).
    level : float
        Probability of these intervals.
    """

    seen: str
    spec: ModelSpec
    notes: tuple[str, ...]
    table: pd.DataFrame
    level: float


def advise(
    responses: Responses | pd.DataFrame | Path,
    model: ModelSpec | Mapping[str, Any] | Path = AUTO,
    *,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    missing_contamination: Missing = "error",
    contamination_scale: Scale = "share",
    dates: Dates | None = None,
    clean: Names = (),
    accuracy: float | None = None,
    level: float = LEVEL,
) -> Advice:
    """Report what a table identifies of the effects of contamination, before any fit.

    Parameters
    ----------
    responses : Responses, pandas.DataFrame or path-like
        Responses, or a table or file of them; see `read_responses`. Scores enter only by their
        mean.
    model : ModelSpec, str, path-like or mapping, default "auto"
        Model spec, as for `fit`.
    covariates, missing_contamination, contamination_scale, dates, clean
        As for `fit`.
    accuracy : float, optional
        Accuracy that widths are expected at. Default: the mean of the table.
    level : float, default 0.95
        Probability of the intervals.

    Returns
    -------
    Advice

    Raises
    ------
    DataError, SpecError, UsageError
        If something given cannot be used.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "model": ["m"] * 40, "benchmark": "b", "item": [f"i{i}" for i in range(40)],
    ...     "correct": [1, 0] * 20, "contamination": [0, 0, 1, 1] * 10,
    ... })
    >>> found = advise(table).table.set_index("effect")
    >>> found.loc["direct effect", "identified"], found.loc["spillover", "identified"]
    ('yes', 'no')
    """
    check_level(level)
    table = given_responses(
        responses, covariates, missing_contamination, contamination_scale, dates=dates, clean=clean
    )
    spec, table = choose_spec(model, table, clean)
    design = make_design(spec, table)
    if accuracy is None:
        scores = table.frame["n_correct"] / table.frame["n_trials"]
        accuracy = float(np.clip(scores.mean(), 0.02, 0.98))
    related = BASE in table.frame and len({*bases_of(table).values()}) < len(table.models)
    rows = _rows(spec, design, plan_terms(spec, design), accuracy, level, related)
    notes = table.notes if _covered(spec) else (*table.notes, _NOT_COVERED)
    return Advice(_seen(design), spec, notes, pd.DataFrame(rows), level)


def advice_of(
    spec: ModelSpec, design: Design, terms: Terms, level: float, related: bool = False
) -> pd.DataFrame:
    """Return the same table for what was fitted, without widths that are only expected.

    `related`: the table has models of one base, whatever the model spec makes of them.
    """
    return pd.DataFrame(_rows(spec, design, terms, None, level, related))


def _rows(
    spec: ModelSpec,
    design: Design,
    terms: Terms,
    accuracy: float | None,
    level: float,
    related: bool,
) -> list[dict[str, Any]]:
    if design.contamination is None:
        return _without_contamination()
    spilled = "spillover" in terms
    median = widest = pd.Series(dtype=float)
    pairs = Pairs.of(design)
    if accuracy is not None and effects_of(pairs) <= MOST_EFFECTS and _covered(spec):
        widths = expected_widths(pairs, spec, accuracy=accuracy, level=level, spillover=spilled)
        figures = widths.drop(columns=["model", "benchmark"])
        median, widest = figures.median(), figures.max()
    found = [_direct(spec, design), *_spillover(design, terms, related), _confounding(spec, design)]
    names = {
        "direct effect": "overfitting_direct",
        "spillover": "overfitting_spillover",
        "total effect": "overfitting",
    }
    for row in found:
        name = names.get(row["effect"], "")
        known = row["identified"] != "no" and name in median
        row["width"] = float(median[name]) if known else np.nan
        row["widest"] = float(widest[name]) if known else np.nan
    return [{name: row[name] for name in _COLUMNS} for row in found]


def _covered(spec: ModelSpec) -> bool:
    """Return whether expected widths are those of a model spec's effects."""
    # Widths are of known contamination whose slopes are pooled and may have any sign.
    block = spec.contamination
    return (
        block.exposure == "known"
        and (block.pooling, block.sign, block.form) == ("partial", "any", "linear")
        and spec.ability.pooling == "partial"
        and spec.likelihood.guess == 0.0
    )


def _row(effect: Effect, identified: Identified, by: str, missing: str) -> dict[str, Any]:
    return {"effect": effect, "identified": identified, "by": by, "missing": missing}


def _without_contamination() -> list[dict[str, Any]]:
    missing = (
        "contamination of the items: a column 'contamination', --covariates (of a scan), or dates"
        " (--released, --cutoff)"
    )
    nothing = {"by": "", "width": np.nan, "widest": np.nan}
    return [
        _row("direct effect", "no", "", missing) | nothing,
        _row("spillover", "no", "", missing) | nothing,
        _row("total effect", "no", "", missing) | nothing,
        _row("confounding", "no", "", "models known to be clean (column 'clean', --clean)")
        | nothing,
    ]


def _direct(spec: ModelSpec, design: Design) -> dict[str, Any]:
    """Return what identifies the direct effect: items of different contamination."""
    met = design.exposed_pairs
    varied = design.informative & met
    if not met.any():
        return _row("direct effect", "no", "", _NO_CONTAMINATION)
    if not varied.any():
        return _row(
            "direct effect", "no", "",
            "items that were not contaminated, on the same benchmark (of the same kind, such as"
            " those written after the cutoff)",
        )  # fmt: skip
    by = f"items of different contamination ({_counted(varied, met)})"
    anchors = spec.contamination.confounding == "anchored" and not _unanchored(design).any()
    if not anchors and spec.contamination.confounding != "sensitivity":
        by += ", if these are as difficult otherwise (see confounding)"
    missing = ""
    if (met & ~varied).any():
        missing = f"items that were not contaminated for {_named(design, met & ~varied)}"
    return _row("direct effect", "in part" if missing else "yes", by, missing)


def _spillover(design: Design, terms: Terms, related: bool) -> list[dict[str, Any]]:
    """Return what identifies spillover, and with the direct effect the total."""
    met = design.exposed_pairs
    if not met.any():
        return [_row(e, "no", "", _NO_CONTAMINATION) for e in ("spillover", "total effect")]
    if design.lineage is None:
        return _spillover_of_unrelated("spillover" in terms, related)
    twins = design.twinned_pairs
    alone = met & ~twins
    of_bases = design.controls
    known = sorted({b for each in of_bases.values() for b in each})
    without = [base for base, each in of_bases.items() if not each]
    parts, missing = [], []
    if twins.any():
        parts.append(f"models of one base that differ in exposure ({_counted(twins, met)})")
    if known:
        names = join_list([design.benchmarks[b] for b in known], _LISTED)
        parts.append(
            f"{len(known)} control benchmark{'s' if len(known) > 1 else ''} to which no model of a"
            f" base was exposed ({names})"
        )
    by = " and ".join(parts)
    if alone.any():
        missing.append(
            f"a model of the same base that was less exposed (a twin), for {_named(design, alone)}"
        )
        if twins.any():
            by += (
                f". For {_named(design, alone)} what these gained is assumed to hold, as far"
                " as they agree"
            )
    # Without controls, the prior of training alone distinguishes it from contamination.
    apart = "t" in terms and known and not without
    astray = met.any(axis=1) & ~design.controlled if apart else np.zeros(len(met), dtype=bool)
    if astray.any():
        names = join_list([design.models[m] for m in np.flatnonzero(astray)], _LISTED)
        missing.append(f"answers of {names} to control benchmarks")
    uncontrolled = "t" in terms and bool(without or not known or astray.any())
    if uncontrolled and not astray.any():
        bases = f"no model of {join_list(without, _LISTED)}" if known else "none of these"
        missing.append(
            f"control benchmarks, to which {bases} was exposed (contamination 0),"
            " answered by all of them"
        )
    if uncontrolled and twins.any():
        whose = f" in {names}" if astray.any() else ""
        by += (
            f". What training changed everywhere{whose} is distinguished from contamination by its"
            " prior alone"
        )
    if "spillover" not in terms or not twins.any():
        identified: Identified = "no"
    else:
        identified = "in part" if alone.any() or uncontrolled else "yes"
    wanted = "; ".join(missing)
    by = by if identified != "no" else ""
    return [
        _row("spillover", identified, by, wanted),
        _row("total effect", identified, "the same comparison" if by else "", wanted),
    ]


def _spillover_of_unrelated(spilled: bool, related: bool) -> list[dict[str, Any]]:
    """Return the same for a model spec that does not know bases."""
    wanted = (
        "of each exposed model another one of the same base that was less exposed, on the same"
        " benchmarks (a twin; column 'base'), and besides control benchmarks, to which neither was"
        " exposed"
    )
    if related:
        wanted = (
            "a model spec with lineage and spillover, such as twins: the table has models of one"
            " base (column 'base')"
        )
    if not spilled:
        return [
            _row("spillover", "no", "", wanted if related else f"{wanted}. {_OF_KIND}"),
            _row("total effect", "no", "", "what spillover needs"),
        ]
    by = "models of different mean contamination are otherwise alike"
    return [
        _row("spillover", "assumed", by, wanted),
        _row("total effect", "assumed", "direct effect and spillover", wanted),
    ]


def _unanchored(design: Design) -> BoolArray:
    """Return of which benchmarks clean models do not show how difficult contaminated items are."""
    # They do by answers to items that differ in contamination, which is that of other models.
    rows = design.clean[design.model]
    level = design.item_contamination[design.item[rows]]
    low, high = extremes(level, level, design.benchmark[rows], len(design.benchmarks))
    return design.exposed_pairs.any(axis=0) & ~(high - low > ROUNDING)


def _confounding(spec: ModelSpec, design: Design) -> dict[str, Any]:
    """Return what distinguishes contamination from how difficult contaminated items are."""
    clean, met = int(design.clean.sum()), design.exposed_pairs
    if spec.contamination.confounding == "anchored":
        by = (
            f"{clean} model{'s' if clean > 1 else ''} known to be clean, whose answers show how"
            " difficult these items are"
        )
        of_any, unseen = met.any(axis=0), _unanchored(design)
        if not unseen.any():
            return _row("confounding", "yes", by, "")
        names = join_list([design.benchmarks[b] for b in np.flatnonzero(unseen)], _LISTED)
        wanted = (
            f"answers of clean models to {names}, to items of different contamination (that of"
            " other models)"
        )
        some = (of_any & ~unseen).any()
        return _row("confounding", "in part" if some else "no", by if some else "", wanted)
    if spec.contamination.confounding == "sensitivity":
        by = "how much easier contaminated items are has the stated prior (kappa)"
        return _row("confounding", "assumed", by, "models known to be clean (column 'clean')")
    by = "contaminated items are as difficult as the others"
    if not (design.informative & met).any():
        by = "no benchmark has contaminated items beside others, to compare them"
    missing = "models known to be clean (column 'clean', --clean), on the same items"
    unexposed = ~met.any(axis=1) & design.answered.any(axis=1)
    if unexposed.any() and met.any():
        names = join_list([design.models[m] for m in np.flatnonzero(unexposed)], _LISTED)
        one = unexposed.sum() == 1
        missing += (
            f"; {names} {'was' if one else 'were'} not exposed to anything here: declare"
            f" {'it' if one else 'them'} clean if that is known"
        )
    return _row("confounding", "assumed", by, missing)


def _seen(design: Design) -> str:
    """Return what a table has: models, benchmarks, items and exposures."""
    bases = "" if design.lineage is None else f" of {_count(len(design.lineage.bases), 'base')}"
    parts = [
        f"{_count(len(design.models), 'model')}{bases}",
        _count(len(design.benchmarks), "benchmark"), _count(len(design.items), "item"),
    ]  # fmt: skip
    text = f"Read: {', '.join(parts)}."
    if design.contamination is None:
        return text
    met = design.exposed_pairs
    dose = design.pair_dose[met]
    if not met.any():
        return f"{text} No model was exposed to any item."
    spread = f"{dose.min():.2g}" + (f" to {dose.max():.2g}" if np.ptp(dose) > 0.005 else "")
    return (
        f"{text} Exposed: {int(met.sum()):,} of {_count(int(design.answered.sum()), 'score')} (a"
        f" model on a benchmark), mean contamination {spread}: {_named(design, met)}."
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _counted(which: BoolArray, of: BoolArray) -> str:
    count, total = int(which.sum()), int(of.sum())
    return f"{count:,} of {total:,} exposed score{'s' if total > 1 else ''}"


def _named(design: Design, which: BoolArray) -> str:
    pairs = [
        f"{printable(design.models[m], 40)} on {printable(design.benchmarks[b], 40)}"
        for m, b in np.argwhere(which)
    ]
    return join_list(pairs, _LISTED)


def advice_lines(advice: Advice) -> list[str]:
    """Return the advice in sentences: what was read, and one paragraph for each effect."""
    lines, said = [advice.seen], {"yes": "identified", "in part": "identified in part"}
    for row in advice.table.to_dict("records"):
        found = said.get(row["identified"], "not identified")
        text = f"{row['effect'].capitalize()} ({_MEANINGS[row['effect']]}): "
        if row["identified"] == "assumed":
            text += f"assumed: {row['by']}"
        else:
            text += f"{found}, by {row['by']}" if row["by"] else found
        if np.isfinite(row["width"]):
            most = (
                f"; ±{row['widest'] / 2:.2g} the widest"
                if row["widest"] > _WIDER * row["width"]
                else ""
            )
            text += (
                f". The {100 * advice.level:g} % interval is expected to be"
                f" ±{row['width'] / 2:.2g} of accuracy (the median of exposed scores{most})"
            )
        text += f". Missing: {row['missing']}" if row["missing"] else ""
        lines.append(text + ".")
    if advice.table.set_index("effect").loc["spillover", "missing"]:
        lines.append(
            "What twins and controls would gain: bayescontam plan --twins 1,2 --controls 0,2,4."
        )
    return lines
