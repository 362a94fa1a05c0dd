"""The page of a study: what it simulates and fits, and what is found."""

import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from bayescontam._files import write_text
from bayescontam._text import join_list, printable
from bayescontam.calibration.coverage import ALL, COUNTED, undefined
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.sbc import CAUTION_BELOW, FAMILY, UNIT, detectable, ranked
from bayescontam.calibration.simulators import NOMINAL
from bayescontam.calibration.storage import LEVELS
from bayescontam.inference.checks import Outcome
from bayescontam.report import study_figures, study_tables
from bayescontam.report import study_figures as rank_figures
from bayescontam.report.format import number, paragraphs, percent
from bayescontam.report.html import fill
from bayescontam.report.study_tables import HEAD, OFF, off, published_rows
from bayescontam.specs.study import Layout, Simulator, StudySpec

_MOST_NAMED = 3
MOST_FAILED = 0.05
"""Share of failed fits above which a study says little of the others."""
MOST_RMS, MOST_FAR = 1.2, 0.01
"""What audits may amount to: differences of means in Monte Carlo errors (root mean square, less
three standard errors), and the share of them that are above 4."""
MOST_NARROW = 1.5
"""Factor of too narrow intervals that ranks must be able to show to pass."""
LEAST_AUDITED = 5
"""Audited fits whose root mean square is known surely enough."""
HELD = ("genuine_ability", "overfitting_fraction", "overfitting", "accuracy", "slope")
"""Estimands that the verdict reports the coverage of, the first three that are there."""
PAGE = "index.html"


def verdict(results: StudyResults) -> tuple[Outcome, str]:
    """Return what was found in one paragraph, and how bad it is."""
    outcomes = [_progress(results)]
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
    quantity = str(row["quantity"]).replace("_", " ")
    name = printable(f"{quantity}{where} of '{row['estimator']}'{cell}", 120)
    return f"{name}: {sentence[:1].lower()}{sentence[1:]}"


def _coverages(results: StudyResults) -> Iterator[tuple[Outcome, str]]:
    table = results.coverage
    table = table[(table["counted"] == ALL) & (table["level"] == HEAD)]
    present = set(table["quantity"])
    wanted = [name for name in HELD if name in present][:_MOST_NAMED]
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
            f"{name.replace('_', ' ')} {_range(own[own['quantity'] == name])}"
            for name in wanted
            if (own["quantity"] == name).any()
        ]
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


def design(spec: StudySpec) -> Iterator[str]:
    """Yield how data are simulated and fitted, one sentence or two each."""
    yield _simulator(spec.simulator, spec.grid)
    if spec.simulator.kind != "posterior":
        yield _layout(spec.design, spec.simulator, spec.grid)
    for key, values in spec.grid.items():
        shown = ", ".join(f"{value:g}" for value in values)
        yield f"{key.replace('_', ' ')} varies from cell to cell: {shown}."
    for each in spec.estimators:
        if each.kind == "bootstrap":
            yield (
                f"'{each.name}': {each.resamples:,} resamples of items around a logistic"
                " regression on contamination with an L2 penalty (λ = 1 on the slope); genuine"
                " ability at the resample's smallest contamination, overfitting clipped at zero;"
                " percentile intervals."
            )
        else:
            changed = f", with changes to {join_list(each.changes)}" if each.changes else ""
            yield f"'{each.name}': the model spec '{printable(each.model, 80)}'{changed}."
    if any(each.kind == "model" for each in spec.estimators):
        yield from _sampling(spec)
    level = "0" if spec.reference == "zero" else str(spec.reference)
    if spec.reference == "min_observed":
        level = "of the cleanest item of each benchmark (of a latent event: 0)"
    yield f"Genuine ability is evaluated at the contamination {level}."


def _simulator(simulator: Simulator, varied: Collection[str]) -> str:
    """Say where true values come from; what the grid varies has no value of its own."""
    model = f"'{printable(simulator.model, 80)}'"
    if simulator.kind == "prior":
        return f"True parameters and counts are drawn from the prior of the model spec {model}."
    if simulator.kind == "posterior":
        fit = printable(simulator.fit, 80)
        return (
            f"True parameters are drawn from the posterior of the fit '{fit}', and as many further"
            " trials of its responses from them; fits are to both together."
        )
    if simulator.kind == "published":
        fresh = "anew for each table" if simulator.fresh else "once for each cell"
        return (
            "Published generator: 50 concepts with exposures 0.2 + 0.7 Beta(3, 2), tasks of 3 to 8"
            " concepts, contamination = logistic(logit 0.3 + 5 (mean exposure − 0.5)), accuracy ="
            f" {_unless('genuine', varied, simulator.genuine)} +"
            f" {_unless('boost', varied, simulator.boost)} × contamination; all drawn {fresh}."
            " Quantities that end in 'nominal' hold the same estimates against the accuracy at"
            " contamination 0, which they are not of."
        )
    fixed = {
        "ability": simulator.ability, "ability sd": simulator.ability_sd or None,
        "slope": simulator.slope, "slope sd": simulator.slope_sd or None,
        "difficulty sd": simulator.difficulty_sd, "eps sd": simulator.eps_sd,
        **simulator.parameters,
    }  # fmt: skip
    given = ", ".join(
        f"{printable(key, 40)} {_unless(key.replace(' ', '_'), varied, value)}"
        for key, value in fixed.items()
        if value is not None or key.replace(" ", "_") in varied
    )
    held = f"; held at fixed values: {given}" if given else ""
    return f"Counts are drawn from the model spec {model}{held}. The rest comes from its prior."


def _unless(key: str, varied: Collection[str], value: object) -> str:
    """Return a value, or that it varies from cell to cell."""
    return "(varied)" if key in varied else str(value)


def _layout(layout: Layout, simulator: Simulator, varied: Collection[str]) -> str:
    parts = [
        f"a varying number of {name}s"
        if f"{name}s" in varied
        else f"{count:,} {name}{'' if count == 1 else 's'}"
        for count, name in (
            (layout.models, "model"),
            (layout.benchmarks, "benchmark"),
            (layout.items, "item"),
            (layout.trials, "trial"),
        )
    ]
    text = f"A table has {parts[0]}, {parts[1]} of {parts[2]}, and {parts[3]} of each response."
    if simulator.kind == "published":
        return text
    text = (
        f"{text} Contaminations of items come from a Beta distribution of mean"
        f" {_unless('contamination_mean', varied, layout.contamination_mean)} and sd"
        f" {_unless('contamination_sd', varied, layout.contamination_sd)}."
    )
    if not layout.p_duplicate_sd:
        return text
    unsure = percent(layout.p_duplicate_sd)
    return f"{text} They are probabilities, with {unsure} of the largest possible sd."


def _sampling(spec: StudySpec) -> Iterator[str]:
    sampling, gates = spec.sampling, spec.gates
    chains, draws = sampling.run
    yield (
        f"Sampler: {sampling.engine}, {chains} chains of {sampling.tune:,} + {draws:,} draws. A"
        f" fit must have R-hat up to {gates.rhat:g}, a bulk ESS of at least {gates.ess:g}, and at"
        f" most {percent(gates.divergences)} of draws that diverged; one that has not is sampled"
        " again, for longer, and then counts as failed. No data set is ever replaced."
    )
    if spec.audit:
        share = percent(spec.audit)
        yield f"{share} of tables, drawn at random, are fitted by a second engine too."


def write_study_report(
    folder: str | os.PathLike[str], page: str | os.PathLike[str] | None = None
) -> StudyResults:
    """Write ``coverage.csv``, ``sbc.csv`` and the page of a study's run.

    The run may be going on: the files say how far it is.
    """
    results = StudyResults.load(folder)
    results.write_tables(folder)
    write_text(Path(folder, PAGE) if page is None else Path(page), render_study(results))
    return results


def render_study(results: StudyResults) -> str:
    """Return the page of a study as HTML."""
    outcome, sentence = verdict(results)
    coverage = study_tables.coverage_rows(results)
    reasons = study_tables.reason_rows(results)
    failures = study_tables.failure_rows(results)
    spec, record = results.spec, results.record
    content = {
        "study_name": printable(str(record["name"])),
        "summary": printable(spec.summary, 400),
        "question": printable(" ".join(spec.description.split()), 4000),
        "meaning": paragraphs(spec.meaning),
        "limits": paragraphs(spec.limits),
        "size": _size(results),
        "verdict": sentence,
        "outcome": outcome.value,
        "design": list(design(spec)),
        "levels": LEVELS,
        "coverage": coverage[: study_tables.MOST_ROWS],
        "n_coverage": len(coverage),
        "several_cells": len(record["cells"]) > 1,
        "several_estimators": len(spec.estimators) > 1,
        "head": f"{study_tables.HEAD * 100:g} %",
        "off": f"{study_tables.OFF:g}",
        "counted": COUNTED,
        "failures": failures[: study_tables.MOST_ROWS],
        "n_failures": len(failures),
        "published": published_rows(results),
        "sbc": results.sbc.head(study_tables.MOST_RANKED).to_dict("records"),
        "n_sbc": len(results.sbc),
        "fits": study_tables.fit_rows(results),
        "reasons": reasons[: study_tables.MOST_REASONS],
        "n_reasons": len(reasons),
        "audits": results.audits.to_dict("records"),
        "pictures": {
            "coverage": study_figures.coverage(results),
            "widths": study_figures.widths(results),
            "ecdf": rank_figures.differences(results),
            "levels": rank_figures.levels(results),
        },
        "provenance": _provenance(results),
        "spec_text": results.text,
    }
    return fill("study.html", content)


def _size(results: StudyResults) -> str:
    record = results.record
    cells, estimators = len(record["cells"]), len(results.spec.estimators)
    parts = [
        f"{results.planned:,} simulated tables",
        f"{cells:,} cells" if cells > 1 else "",
        f"{estimators} estimator{'' if estimators == 1 else 's'}",
        f"{len(results.fits[~results.fits['audit']]):,} fits so far",
    ]
    return ", ".join(part for part in parts if part)


def _provenance(results: StudyResults) -> list[tuple[str, str]]:
    """Return where the results come from: study, runs, versions."""
    record = results.record
    runs: list[dict[str, Any]] = record["runs"]
    last = runs[-1] if runs else {}
    # All that rows may have been made by: a run may have gone on after an upgrade.
    versions = "; then ".join(
        dict.fromkeys(
            ", ".join(f"{name} {value}" for name, value in run.get("versions", {}).items())
            for run in runs
        )
    )
    hashes = ", ".join(
        f"{name} {each['hash'][:12]}"
        for name, each in record.get("estimators", {}).items()
        if each.get("hash")
    )
    started = ", ".join(str(run.get("started", "")) for run in runs)
    rows = [
        ("Study", f"{record['name']} (SHA-256 with its model specs: {record['hash']})"),
        ("Model specs", hashes),
        ("Started", started),
        ("Command", str(last.get("command", "")) or "not recorded (run from Python)"),
        ("Seeds", "each follows from the study's hash, the cell and the number of the table"),
        ("Versions", versions),
        ("Reported on", json.dumps(len(results.rows)) + " rows"),
    ]
    return [(name, printable(value, 20_000)) for name, value in rows if value]
