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
from bayescontam.inference.summary import LEVEL
from bayescontam.model.auto import AUTO, choose_spec
from bayescontam.model.design import Design, make_design
from bayescontam.model.relatives import controls, exposed, with_twins
from bayescontam.model.terms import Terms, plan_terms
from bayescontam.power.totals import MOST_EFFECTS, Pairs, effects_of, expected_widths
from bayescontam.specs.model import ModelSpec

Effect = Literal["direct effect", "spillover", "total effect", "confounding"]
Identified = Literal["yes", "in part", "no", "assumed"]
_LISTED = 3  # names in a sentence
_OF_KIND = (
    "New items of the same kind, written after a model's cutoff, identify the direct effect only,"
    " since spillover lifts them too"
)
_NOT_COVERED = (
    "no widths are given: they are known for models of pooled ability, without guessing, and"
    " contamination that is known, linear, pooled and of any sign"
)


@dataclass(frozen=True, eq=False)
class Advice:
    """What a table identifies before any fit.

    Attributes
    ----------
    spec : ModelSpec
        The model spec that would be fitted.
    notes : tuple of str
        How it was chosen, and what was done to the table on the way in.
    table : pandas.DataFrame
        One row each for direct effect, spillover, total effect and confounding: ``effect``;
        ``identified`` (``"yes"``, ``"in part"``, ``"no"`` or ``"assumed"``); ``by``, what
        identifies it, in words; ``width``, the expected width of the 95 % (or other) interval,
        difference of accuracies, median over models and benchmarks that were exposed, NaN where
        nothing is estimated; ``missing``, what would identify it (better).
    level : float
        Probability of these intervals.
    """

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
    rows = _rows(spec, design, plan_terms(spec, design), accuracy, level)
    notes = table.notes if _covered(spec) else (*table.notes, _NOT_COVERED)
    return Advice(spec, notes, pd.DataFrame(rows), level)


def advice_of(spec: ModelSpec, design: Design, terms: Terms, level: float) -> pd.DataFrame:
    """Return the same table for what was fitted, without widths that are only expected."""
    return pd.DataFrame(_rows(spec, design, terms, None, level))


def _rows(
    spec: ModelSpec, design: Design, terms: Terms, accuracy: float | None, level: float
) -> list[dict[str, Any]]:
    if design.contamination is None:
        return _without_contamination()
    spilled = "spillover" in terms
    median = pd.Series(dtype=float)
    pairs = Pairs.of(design)
    if accuracy is not None and effects_of(pairs) <= MOST_EFFECTS and _covered(spec):
        widths = expected_widths(pairs, spec, accuracy=accuracy, level=level, spillover=spilled)
        median = widths.drop(columns=["model", "benchmark"]).median()
    found = [_direct(design), *_spillover(design, spilled), _confounding(spec, design)]
    names = {
        "direct effect": "overfitting_direct",
        "spillover": "overfitting_spillover",
        "total effect": "overfitting",
    }
    for row in found:
        name = names.get(row["effect"], "")
        known = row["identified"] != "no" and name in median
        row["width"] = float(median[name]) if known else np.nan
    return [
        {name: row[name] for name in ("effect", "identified", "by", "width", "missing")}
        for row in found
    ]


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
    nothing = {"by": "", "width": np.nan}
    return [
        _row("direct effect", "no", "", missing) | nothing,
        _row("spillover", "no", "", missing) | nothing,
        _row("total effect", "no", "", missing) | nothing,
        _row("confounding", "no", "", "models known to be clean (column 'clean', --clean)")
        | nothing,
    ]


def _direct(design: Design) -> dict[str, Any]:
    """Return what identifies the direct effect: items of different contamination."""
    met = exposed(design)
    varied = design.informative & met
    if not met.any():
        return _row("direct effect", "no", "", "contamination: no model was exposed to any item")
    if not varied.any():
        return _row(
            "direct effect", "no", "",
            "items that were not contaminated, on the same benchmark (of the same kind, such as"
            " those written after the cutoff)",
        )  # fmt: skip
    by = f"items of different contamination ({_counted(varied, met)})"
    missing = ""
    if (met & ~varied).any():
        missing = f"items that were not contaminated for {_named(design, met & ~varied)}"
    return _row("direct effect", "in part" if missing else "yes", by, missing)


def _spillover(design: Design, spilled: bool) -> list[dict[str, Any]]:
    """Return what identifies spillover, and with the direct effect the total."""
    met = exposed(design)
    if not met.any():
        nothing = "contamination: no model was exposed to any item"
        return [_row(e, "no", "", nothing) for e in ("spillover", "total effect")]
    if design.lineage is None:
        return _spillover_of_unrelated(design, spilled)
    twins = with_twins(design)
    alone = met & ~twins
    of_bases = controls(design)
    known = sorted({b for each in of_bases.values() for b in each})
    without = [base for base, each in of_bases.items() if not each]
    parts, missing = [], []
    if twins.any():
        parts.append(f"models of one base that differ in exposure ({_counted(twins, met)})")
    if known:
        names = join_list([design.benchmarks[b] for b in known], _LISTED)
        parts.append(
            f"{len(known)} control benchmark{'s' if len(known) > 1 else ''} that none of a"
            f" base's models were exposed to ({names})"
        )
    if without or not known:
        bases = f" of {join_list(without, _LISTED)}" if known else ""
        missing.append(
            f"control benchmarks that no model{bases} can have been exposed to (contamination 0),"
            " which show what their own training changes everywhere"
        )
    if alone.any():
        missing.insert(0, f"a clean twin, or one of other exposure, of {_named(design, alone)}")
        if twins.any():
            parts.append("what others gained, for those without a twin")
    if not spilled or not twins.any():
        identified: Identified = "no"
    else:
        identified = "in part" if alone.any() else "yes"
    wanted = "; ".join(missing)
    by = ", ".join(parts) if identified != "no" else ""
    return [
        _row("spillover", identified, by, wanted),
        _row("total effect", identified, "direct effect and spillover" if by else "", wanted),
    ]


def _spillover_of_unrelated(design: Design, spilled: bool) -> list[dict[str, Any]]:
    """Return the same where no bases are known."""
    wanted = (
        "models of one base that differ in contamination (twins: column 'base'), or a clean one"
        " trained alike; and benchmarks that no model can have been exposed to (controls)"
    )
    if not spilled:
        return [
            _row("spillover", "no", "", f"{wanted}. {_OF_KIND}"),
            _row("total effect", "no", "", "spillover"),
        ]
    by = "models of different mean contamination are otherwise alike"
    return [
        _row("spillover", "assumed", by, wanted),
        _row("total effect", "assumed", "direct effect and spillover", wanted),
    ]


def _confounding(spec: ModelSpec, design: Design) -> dict[str, Any]:
    """Return what distinguishes contamination from how difficult contaminated items are."""
    clean = int(design.clean.sum())
    if spec.contamination.confounding == "anchored":
        by = (
            f"{clean} model{'s' if clean > 1 else ''} known to be clean, whose answers show how"
            " difficult these items are"
        )
        met = exposed(design).any(axis=0)
        unseen = met & ~design.answered[design.clean].any(axis=0)
        if not unseen.any():
            return _row("confounding", "yes", by, "")
        names = join_list([design.benchmarks[b] for b in np.flatnonzero(unseen)], _LISTED)
        wanted = f"answers of clean models to {names}"
        return _row("confounding", "in part" if (met & ~unseen).any() else "no", by, wanted)
    if spec.contamination.confounding == "sensitivity":
        by = "how much easier contaminated items are has the stated prior (kappa)"
        return _row("confounding", "assumed", by, "models known to be clean (column 'clean')")
    met = exposed(design)
    unexposed = ~met.any(axis=1) & design.answered.any(axis=1)
    by = "contaminated items are as difficult as the others would be"
    missing = "models known to be clean (column 'clean', --clean), on the same items"
    if unexposed.any() and met.any():
        names = join_list([design.models[m] for m in np.flatnonzero(unexposed)], _LISTED)
        one = unexposed.sum() == 1
        missing += (
            f"; {names} {'was' if one else 'were'} not exposed to anything here: declare"
            f" {'it' if one else 'them'} clean if that is known"
        )
    return _row("confounding", "assumed", by, missing)


def _counted(which: BoolArray, of: BoolArray) -> str:
    count, total = int(which.sum()), int(of.sum())
    return f"{count} of {total} exposed pair{'s' if total > 1 else ''} of model and benchmark"


def _named(design: Design, which: BoolArray) -> str:
    pairs = [
        f"{printable(design.models[m], 40)} on {printable(design.benchmarks[b], 40)}"
        for m, b in np.argwhere(which)
    ]
    return join_list(pairs, _LISTED)


def advice_lines(advice: Advice) -> list[str]:
    """Return the advice in sentences, one paragraph for each effect."""
    lines = []
    for row in advice.table.to_dict("records"):
        said = {
            "yes": "identified", "in part": "identified in part", "no": "not identified",
            "assumed": "assumed",
        }[row["identified"]]  # fmt: skip
        text = f"{row['effect'].capitalize()}: {said}"
        between = ": " if row["identified"] == "assumed" else ", by "
        text += f"{between}{row['by']}" if row["by"] else ""
        if np.isfinite(row["width"]):
            text += (
                f". The {100 * advice.level:g} % interval is expected to be about"
                f" {row['width']:.2g} wide (accuracy; median over models and benchmarks)"
            )
        text += f". Missing: {row['missing']}" if row["missing"] else ""
        lines.append(text + ".")
    return lines
