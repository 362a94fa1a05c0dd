"""What a simulation study found: a verdict in one paragraph, and its coverage row by row."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from bayescontam._format import number, percent
from bayescontam._text import printable
from bayescontam.calibration.coverage import ALL, undefined
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.sbc import CAUTION_BELOW, FAMILY, UNIT, detectable, ranked
from bayescontam.calibration.simulators import NOMINAL
from bayescontam.inference.checks import Outcome
from bayescontam.inference.estimands import QUANTITIES
from bayescontam.model.effect_names import DIRECT, TOTAL, effect_words

OFF = 3.0  # Monte Carlo errors by which coverage must be off to be marked
HEAD = 0.95  # level of the intervals whose figures are shown
_MOST_NAMED = 3
MOST_FAILED = 0.05  # share of failed fits above which a study says little of the others
MOST_RMS, MOST_FAR = 1.2, 0.01
"""What audits may amount to: differences of means in Monte Carlo errors (root mean square, less
three standard errors), and the share of them that are above 4."""
MOST_NARROW = 1.5  # factor of too narrow intervals that ranks must be able to show to pass
LEAST_AUDITED = 5  # audited fits whose root mean square is known surely enough
HELD = (
    TOTAL.ability, DIRECT.ability, TOTAL.fraction, DIRECT.fraction, TOTAL.overfitting,
    DIRECT.overfitting, "accuracy", "slope",
)  # fmt: skip
"""Estimands that the verdict reports the coverage of, the first three that an estimator has."""


def verdict(results: StudyResults) -> tuple[Outcome, str]:
    """Return what was found in one paragraph, and how bad it is."""
    outcomes = [_progress(results), *_versions(results)]
    if results.done:
        outcomes += [_failures(results), _ranks(results), *_undefined(results)]
        outcomes += _coverages(results)
        outcomes += _audits(results)
    worst = max((outcome for outcome, _ in outcomes), key=list(Outcome).index)
    return worst, " ".join(text for _, text in outcomes if text)


def _progress(results: StudyResults) -> tuple[Outcome, str]:
    planned, done = results.planned, results.done
    if done < planned:
        share = percent(done / planned)
        text = f"Not finished: {done:,} of {planned:,} simulated tables are fitted ({share})."
        return Outcome.CAUTION, text
    return Outcome.PASSED, f"All {planned:,} simulated tables are fitted."


def _versions(results: StudyResults) -> Iterator[tuple[Outcome, str]]:
    """Caution where rows may be of several versions, which the hash of a study does not hold."""
    runs = results.record["runs"]
    found = dict.fromkeys(run.get("versions", {}).get("bayescontam", "unknown") for run in runs)
    if len(found) > 1:
        named = ", ".join(printable(str(version), 40) for version in found)
        text = f"Run by several versions of bayescontam ({named}); their rows may differ."
        yield Outcome.CAUTION, text


def _failures(results: StudyResults) -> tuple[Outcome, str]:
    fits = results.fits[~results.fits["audit"]]
    failed = int((fits["status"] == "failed").sum())
    if not failed:
        return Outcome.PASSED, ""
    text = f"{failed:,} of {len(fits):,} fits failed their gates, and count."
    # Bootstraps never fail, and cells that do well must not hide one that does not.
    shares = (fits["status"] == "failed").groupby([fits["estimator"], fits["cell"]]).mean()
    if shares.max() <= MOST_FAILED:
        return Outcome.PASSED, text
    estimator, cell = shares.index[int(shares.to_numpy().argmax())]
    where = printable(f"'{estimator}'{f', {cell}' if cell else ''}", 120)
    return Outcome.FAILED, f"{text} Most are of {where}: {percent(shares.max())} of its fits."


def _audits(results: StudyResults) -> Iterator[tuple[Outcome, str]]:
    """Say where two engines differ by more than chance explains."""
    for row in results.audits.to_dict("records"):
        sure = row["fits"] >= LEAST_AUDITED and row["rms"] - 3 * row["rms_mc_se"] > MOST_RMS
        if sure or row["far"] > MOST_FAR:
            engines = str(row["engines"]).replace(", ", " and ")
            yield (
                Outcome.CAUTION,
                f"Engines do not agree on '{row['estimator']}': means by {engines} differ by"
                f" {number(row['rms'])} Monte Carlo errors (root mean square; chance alone: 1),"
                f" most of all for {printable(str(row['of']), 80)}.",
            )


def _ranks(results: StudyResults) -> tuple[Outcome, str]:
    table = results.sbc
    if table.empty:
        return Outcome.PASSED, ""
    bad = table[table["outcome"] == Outcome.FAILED.value]
    if len(bad):
        named = "; ".join(_named(row) for row in bad.head(_MOST_NAMED).to_dict("records"))
        more = f"; {len(bad) - _MOST_NAMED:,} more" if len(bad) > _MOST_NAMED else ""
        text = (
            f"Ranks are not uniform for {len(bad):,} of {len(table):,} quantities: {named}{more}."
        )
        return Outcome.FAILED, text
    tested = table["p_adjusted"].dropna()
    if tested.empty:
        return Outcome.CAUTION, "Too few ranks to be tested."
    least = number(tested.min())
    if tested.min() < CAUTION_BELOW:
        text = f"Ranks of {len(table):,} quantities: one may not be uniform (p {least}, adjusted)."
        return Outcome.CAUTION, text
    unsure = table[table["outcome"] != Outcome.PASSED.value]
    if len(unsure):
        text = (
            f"Ranks of {len(unsure):,} of {len(table):,} quantities decide little:"
            f" {_named(unsure.iloc[0].to_dict())}."
        )
        return Outcome.CAUTION, text
    text = f"Ranks of {len(table):,} quantities: no departure from uniform found (least adjusted p"
    shown, enough = _shown(results)
    if enough:
        return Outcome.PASSED, f"{text} {least}). {shown}"
    return Outcome.CAUTION, f"{text} {least}). {shown} That is little: request more replicates."


def _shown(results: StudyResults) -> tuple[str, bool]:
    """Say what ranks of which no quantity departs could have shown; whether that is enough."""
    table = results.sbc
    n, most = int(table["n"].min()), int(table.groupby(FAMILY).size().max())
    among = ranked(results.rows).groupby(UNIT, observed=True)["ranks"].median()
    shift, factor = detectable(n, int(among.min()), CAUTION_BELOW / (3 * most))
    if not np.isfinite([shift, factor]).all():
        return f"{n:,} ranks show even gross faults less often than 8 times in 10.", False
    text = (
        f"{n:,} ranks show, 8 times in 10, intervals that are too narrow by a factor of"
        f" {factor:.2g} or more, and estimates that are off by {shift:.2g} posterior sd."
    )
    return text, factor <= MOST_NARROW


def _undefined(results: StudyResults) -> Iterator[tuple[Outcome, str]]:
    """Say which formulas have no value in some fits."""
    rows = results.rows[~results.rows["audit"]]
    lacking = pd.Series(undefined(rows), rows.index)
    for quantity, share in lacking.groupby(rows["quantity"]).mean().items():
        if share > 0:
            yield (
                Outcome.CAUTION,
                f"'{printable(str(quantity), 60)}' is undefined in {percent(share)} of fits, at the"
                " truth or in some draws; they are left out of its coverage and ranks, which hold"
                " for the others alone.",
            )


def _named(row: dict[Any, Any]) -> str:
    where = f" {row['where']}" if row["where"] else ""
    sentence = str(row["sentence"]).rstrip(".")
    cell = f", {row['cell']}" if row["cell"] else ""
    quantity = effect_words(str(row["quantity"]))
    name = printable(f"{quantity}{where} of '{row['estimator']}'{cell}", 120)
    return f"{name}: {sentence[:1].lower()}{sentence[1:]}"


def _coverages(results: StudyResults) -> Iterator[tuple[Outcome, str]]:
    table = results.coverage
    table = table[(table["counted"] == ALL) & (table["level"] == HEAD)]
    for estimator in results.spec.estimators:
        own = table[table["estimator"] == estimator.name]
        # Rows that hold estimates against another truth than they are of are no test of them.
        own = own[~own["quantity"].str.endswith(NOMINAL)]
        if own.empty:
            continue
        # As many errors as chance exceeds once in a hundred studies.
        errors = max(OFF, float(ndtri(1 - 0.01 / max(len(own), 1))))
        low = own[[off(row, errors) == "low" for row in own.to_dict("records")]]
        baseline = estimator.kind == "bootstrap"
        outcome = Outcome.CAUTION if len(low) and not baseline else Outcome.PASSED
        parts = [
            f"{effect_words(name)} {_range(own[own['quantity'] == name])}"
            for name in HELD
            if (own["quantity"] == name).any()
        ][:_MOST_NAMED]
        if not parts:
            parts = [f"all quantities {_range(own)}"]
        text = f"'{estimator.name}': its 95 % intervals hold the truth in: {', '.join(parts)}"
        if len(low):
            text += f"; {len(low)} of {len(own)} coverages are too low by more than chance"
        yield outcome, f"{text}."


def _range(rows: pd.DataFrame) -> str:
    low, high = (percent(end) for end in (rows["coverage"].min(), rows["coverage"].max()))
    if low == high:
        return low
    cells = rows["cell"].nunique()
    over = f"{cells} cells" if cells > 1 else f"{len(rows)} quantities"
    return f"{low} to {high} (lowest and highest of {over})"


def coverage_rows(results: StudyResults) -> list[dict[Any, Any]]:
    """Return one row for each cell, quantity and estimator, all fits counted."""
    table = results.coverage[results.coverage["counted"] == ALL]
    if table.empty:
        return []
    places = {name: number for number, name in enumerate(ordered_quantities(table))}
    cells = {name: number for number, name in enumerate(results.record["cells"])}
    estimators = {each.name: number for number, each in enumerate(results.spec.estimators)}
    rows: list[dict[Any, Any]] = []
    for (cell, estimator, quantity), part in table.groupby(
        ["cell", "estimator", "quantity"], sort=False, observed=True
    ):
        head = part[part["level"] == HEAD].iloc[0].to_dict()
        levels = [
            {"coverage": row["coverage"], "mc_se": row["mc_se"], "off": off(row)}
            for row in part.sort_values("level").to_dict("records")
        ]
        order = places[str(quantity)]
        key = order, cells.get(str(cell), 0), estimators.get(str(estimator), 0)
        rows.append({**head, "levels": levels, "order": order, "key": key})
    rows.sort(key=lambda row: row["key"])
    for before, row in zip([None, *rows], rows, strict=False):
        row["new_cell"] = before is None or before["key"][:2] != row["key"][:2]
    return rows


def off(row: Any, errors: float = OFF) -> str:
    """Return whether coverage is off by more than chance: ``"low"``, ``"high"`` or ``""``."""
    share, level, replicates = row["coverage"], row["level"], row["replicates"]
    known = 0 < share < 1 and row["mc_se"] > 0
    size = max(share * (1 - share) / row["mc_se"] ** 2, replicates) if known else replicates
    right = np.sqrt(level * (1 - level) / max(size, 1))
    by = share - level
    if not abs(by) > errors * np.fmax(row["mc_se"], right):
        return ""
    return "low" if by < 0 else "high"


def ordered_quantities(table: pd.DataFrame) -> list[str]:
    """Return the quantities of a table: estimands first, as users read them."""
    known = list(dict.fromkeys(map(str, table["quantity"])))
    return sorted(known, key=lambda name: (_place(name), name))


def _place(quantity: str) -> int:
    """Return the place of the estimand that a quantity is a kind of; others come last."""
    kin = [n for n in QUANTITIES if quantity == n or quantity.startswith(f"{n}_")]
    return QUANTITIES.index(max(kin, key=len)) if kin else len(QUANTITIES)
