"""The page of a study: what it simulates and fits, what is found, and its figures."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from arviz_stats.ecdf_utils import compute_ecdf, get_pointwise_confidence_band

from bayescontam._files import write_text
from bayescontam._text import printable
from bayescontam._types import FloatArray
from bayescontam.calibration.coverage import ALL, COUNTED
from bayescontam.calibration.findings import HEAD, OFF, coverage_rows, ordered_quantities, verdict
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.sbc import UNIT, envelope_probability, points, ranked
from bayescontam.calibration.storage import LEVELS
from bayescontam.report import study_tables
from bayescontam.report.format import paragraphs, provenance_rows
from bayescontam.report.html import fill, sentences
from bayescontam.report.plots import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PALE,
    SERIES,
    Picture,
    finish,
    first_of,
    legend,
    mark,
    note_of,
    numbers,
    panels,
    plain_labels,
    plural,
    style,
)
from bayescontam.specs.study import StudySpec

PAGE = "index.html"
MOST_ROWS, MOST_RANKED, MOST_REASONS = 150, 30, 12
"""Rows of coverage, of ranks, and of reasons that the page lists; the CSV files have all."""
MOST_PANELS, MOST_LINES, MOST_CELLS = 9, 8, 24
"""Quantities, estimators and cells in one picture; the table holds more."""
_SE = 1.96
_ENVELOPE = 0.95


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
    coverage = coverage_rows(results)
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
        "design": design(spec),
        "levels": LEVELS,
        "coverage": coverage[:MOST_ROWS],
        "n_coverage": len(coverage),
        "several_cells": len(record["cells"]) > 1,
        "several_estimators": len(spec.estimators) > 1,
        "head": f"{HEAD * 100:g} %",
        "off": f"{OFF:g}",
        "counted": COUNTED,
        "failures": failures[:MOST_ROWS],
        "n_failures": len(failures),
        "published": study_tables.published_rows(results),
        "sbc": results.sbc.head(MOST_RANKED).to_dict("records"),
        "n_sbc": len(results.sbc),
        "fits": study_tables.fit_rows(results),
        "reasons": reasons[:MOST_REASONS],
        "n_reasons": len(reasons),
        "audits": results.audits.to_dict("records"),
        "pictures": {
            "coverage": coverage_picture(results),
            "widths": widths(results),
            "ecdf": rank_differences(results),
            "levels": rank_coverage(results),
        },
        "provenance": _provenance(results),
        "spec_text": results.text,
    }
    return fill("study.html", content)


def _size(results: StudyResults) -> str:
    cells, estimators = len(results.record["cells"]), len(results.spec.estimators)
    parts = [
        f"{results.planned:,} simulated tables",
        f"{cells:,} cells" if cells > 1 else "",
        plural(estimators, "estimator"),
        f"{len(results.fits[~results.fits['audit']]):,} fits so far",
    ]
    return ", ".join(part for part in parts if part)


def design(spec: StudySpec) -> list[str]:
    """Return how data are simulated and fitted, one sentence or two each."""
    simulator = spec.simulator
    fixed = {
        "ability": simulator.ability, "ability sd": simulator.ability_sd or None,
        "slope": simulator.slope, "slope sd": simulator.slope_sd or None,
        "difficulty sd": simulator.difficulty_sd, "eps sd": simulator.eps_sd,
        **simulator.parameters,
    }  # fmt: skip
    known = {
        key: value
        for key, value in fixed.items()
        if value is not None or key.replace(" ", "_") in spec.grid
    }
    return sentences("study_design", spec=spec, parameters=known)


def _provenance(results: StudyResults) -> list[tuple[str, str]]:
    """Return where the results come from: study, runs, versions."""
    record = results.record
    runs: list[dict[str, Any]] = record["runs"]
    # All that rows may have been made by: a run may have gone on after an upgrade.
    versions = [
        ", ".join(f"{name} {value}" for name, value in run.get("versions", {}).items())
        for run in runs
    ]
    hashes = [
        f"{name} {each['hash'][:12]}"
        for name, each in record.get("estimators", {}).items()
        if each.get("hash")
    ]
    command = str(runs[-1].get("command", "")) if runs else ""
    return provenance_rows(
        {
            "Study": f"{record['name']} (SHA-256 with its model specs: {record['hash']})",
            "Model specs": ", ".join(hashes),
            "Started": ", ".join(str(run.get("started", "")) for run in runs),
            "Command": command or "not recorded (run from Python)",
            "Seeds": "each follows from the study's hash, the cell and the number of the table",
            "Versions": "; then ".join(dict.fromkeys(versions)),
            "Reported on": f"{len(results.rows)} rows",
        }
    )


@style()
def coverage_picture(results: StudyResults) -> Picture | None:
    """Draw coverage against its level, or by cell at 95 %; None without rows."""
    table, quantities, estimators, cells, note = _chosen(results)
    if table.empty:
        return None
    head = table[table["level"] == HEAD]
    several = len(cells) > 1
    shown = head if several else table
    figure, axes = _panels(quantities, estimators, cells, several)
    for axis, quantity in zip(axes, quantities, strict=True):
        part = shown[shown["quantity"] == quantity]
        if several:
            _by_cell(axis, part, estimators, cells)
        else:
            _by_level(axis, part, estimators)
    # The same for all panels, and with room for every error bar.
    lowest = float((shown["coverage"] - _reach(shown)[0]).min())
    if several:
        for axis in axes:
            axis.set_xlim(max(lowest, 0) - 0.03, 1.03)
            _end_at_one(axis.xaxis)
    else:
        axes[0].set_ylim(max(min(lowest, 0.45), 0) - 0.03, 1.03)
        _end_at_one(axes[0].yaxis)
    _legend(figure, estimators, mark("nominal", color=GREY, lw=1.2))
    shares = "; ".join(
        f"{label} {numbers(head.loc[head['estimator'] == name, 'coverage'])}"
        for name, label in zip(estimators, plain_labels(estimators), strict=True)
    )
    alt = f"Coverage of 95 % intervals over {len(quantities)} quantities: {shares}."
    caption = (
        "Share of intervals that hold the truth, all fits counted, with 1.96 Monte Carlo"
        f" standard errors; grey: what it should be.{note}"
    )
    return finish(figure, "coverage", "Coverage", alt, caption)


@style()
def widths(results: StudyResults) -> Picture | None:
    """Draw widths and interval scores of the 95 % intervals; None without rows."""
    table, quantities, estimators, cells, note = _chosen(results)
    table = table[table["level"] == HEAD]
    if table.empty:
        return None
    figure, axes = _panels(quantities, estimators, cells, tall=True)
    for axis, quantity in zip(axes, quantities, strict=True):
        _scores(axis, table[table["quantity"] == quantity], estimators, cells)
    look: dict[str, Any] = {"marker": "o", "color": INK, "ms": 5}
    _legend(figure, estimators, mark("width", mfc="white", **look), mark("interval score", **look))
    alt = (
        f"Widths {numbers(table['width'])} and interval scores"
        f" {numbers(table['interval_score'])} of 95 % intervals of {len(quantities)} quantities"
        f" and {len(estimators)} estimators."
    )
    caption = (
        "Mean width (hollow) and mean Winkler score (filled) of the 95 % intervals, with 1.96"
        " Monte Carlo standard errors. The score is the width and, for each truth outside, 40"
        f" times its distance to the interval: smaller is better.{note}"
    )
    return finish(figure, "widths", "Width and interval score", alt, caption)


def _chosen(
    results: StudyResults,
) -> tuple[pd.DataFrame, list[str], list[str], list[str], str]:
    """Return what is drawn of coverage: rows, quantities, estimators and cells; and a note."""
    table = results.coverage[results.coverage["counted"] == ALL]
    known, drawn = set(table["estimator"]), set(table["cell"])
    estimators = [each.name for each in results.spec.estimators if each.name in known]
    cells = [name for name in results.record["cells"] if name in drawn]
    chosen, note = [], ""
    for column, names, most, where in (
        ("quantity", ordered_quantities(table), MOST_PANELS, "quantities, table"),
        ("estimator", estimators, MOST_LINES, "estimators, study"),
        ("cell", cells, MOST_CELLS, "cells, grid"),
    ):
        what, _, whole = where.partition(", ")
        first, missing = first_of(names, most, what, f"the first of the {whole}")
        table = table[table[column].isin(first)]
        chosen.append(first)
        note += missing
    return table, chosen[0], chosen[1], chosen[2], note


def _panels(
    quantities: list[str], estimators: list[str], cells: list[str], tall: bool
) -> tuple[Any, list[Any]]:
    rows = len(cells) if len(cells) > 1 else len(estimators)
    height = 0.7 + 0.2 * rows * max(1, len(estimators) / 4) if tall else 2.4
    titles = plain_labels(quantities, 34)
    return panels(titles, 2 if tall else 3, height, sharey=True, alone=0.6)


def _series(names: Sequence[str], room: float) -> Any:
    """Return name, shift aside and look of each of several estimators."""
    shifts = (np.arange(len(names)) - (len(names) - 1) / 2) * min(room / max(len(names), 1), 0.16)
    return zip(names, shifts, SERIES, strict=False)


def _end_at_one(axis: Any) -> None:
    """Mark no coverage above 1; the axis is longer only so that marks at 1 are whole."""
    ticks = axis.get_majorticklocs()
    axis.set_ticks([tick for tick in ticks if -1e-9 <= tick <= 1 + 1e-9])


def _by_level(axis: Any, table: pd.DataFrame, estimators: list[str]) -> None:
    levels = sorted(table["level"].unique())
    at = np.arange(len(levels))
    axis.hlines(levels, at - 0.42, at + 0.42, color=GREY, lw=1.2)
    for name, shift, look in _series(estimators, 0.7):
        own = table[table["estimator"] == name].sort_values("level")
        x = np.searchsorted(levels, own["level"]) + shift
        axis.errorbar(x, own["coverage"], _reach(own), ls="none", ms=4.5, lw=1, **look)
    axis.set_xticks(at, [f"{level:.0%}".replace("%", " %") for level in levels])
    axis.set_xlabel("intervals")
    axis.set_ylabel("coverage")


def _by_cell(axis: Any, table: pd.DataFrame, estimators: list[str], cells: list[str]) -> None:
    axis.axvline(HEAD, color=GREY, lw=1.2)
    for name, shift, look in _series(estimators, 0.8):
        own = table[table["estimator"] == name]
        y = _places(own["cell"], cells) + shift
        axis.errorbar(own["coverage"], y, xerr=_reach(own), ls="none", ms=4.5, lw=1, **look)
    _name_rows(axis, cells)
    axis.set_xlabel("coverage of 95 % intervals")


def _reach(table: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Return how far error bars reach down and up, dims (2, row): to no share beyond 0 and 1."""
    held, error = table["coverage"].to_numpy(), _SE * table["mc_se"].fillna(0).to_numpy()
    return np.minimum(error, [held, 1 - held])


def _scores(axis: Any, table: pd.DataFrame, estimators: list[str], cells: list[str]) -> None:
    """Draw a row for each cell, or for each estimator where there is one cell."""
    column, rows, room = "cell", cells, 0.8
    if len(cells) < 2:
        column, rows, room = "estimator", estimators, 0.0
    for name, shift, look in _series(estimators, room):
        own = table[table["estimator"] == name]
        y = _places(own[column], rows) + shift
        axis.hlines(y, own["width"], own["interval_score"], color=look["color"], lw=0.8, alpha=0.5)
        for figure, color in (("width", "white"), ("interval_score", look["color"])):
            axis.errorbar(own[figure], y, xerr=_SE * own[f"{figure}_se"].fillna(0), ls="none",
                          ms=5, lw=1, mfc=color, **look)  # fmt: skip
    _name_rows(axis, rows)
    axis.set_xlim(left=0)


def _places(names: "pd.Series[str]", rows: list[str]) -> np.ndarray[Any, Any]:
    return np.array([rows.index(name) for name in names], dtype=float)


def _name_rows(axis: Any, names: list[str]) -> None:
    axis.set_yticks(range(len(names)), plain_labels(names, 40))
    axis.set_ylim(len(names) - 0.4, -0.6)


def _legend(figure: Any, estimators: list[str], *others: Any) -> None:
    labels = plain_labels(estimators)
    looks = [mark(label, ms=5, **look) for label, look in zip(labels, SERIES, strict=False)]
    legend(figure, [*looks, *others], 5)


def rank_differences(results: StudyResults) -> Picture | None:
    """Draw how far ranks are from uniform, the worst quantities first; None without ranks."""
    return _rank_picture(
        results, False, "ecdf", "Ranks of the truth",
        "rank as a share of draws", "ECDF − uniform",
        "Difference of the distribution of ranks from uniform",
        "Distribution function of the truth's ranks less that of uniform ones. The envelope holds"
        " the whole line of a right posterior in 95 of 100 studies, quantity by quantity: of many,"
        " some leave it by chance. A rise in the left half (a hill) says that estimates are too"
        " high; a hill and then a valley that intervals are too narrow; a valley and then a hill"
        " that they are too wide.",
    )  # fmt: skip


def rank_coverage(results: StudyResults) -> Picture | None:
    """Draw the coverage of central intervals of every level, as ranks show it."""
    return _rank_picture(
        results, True, "levels", "Coverage of intervals of every level",
        "level of the central interval, %", "coverage − level, as a share",
        "Coverage of central intervals of every level, less that level,",
        "Share of truths that central intervals hold, less the share that they should. A line"
        " below zero says that intervals are too narrow, one above that they are too wide;"
        " estimates that are too high or too low lower it too. Colour and envelope are those of"
        " the ranks above.",
    )  # fmt: skip


@style()
def _rank_picture(
    results: StudyResults, coverage: bool, name: str, title: str, across: str, up: str, what: str,
    caption: str,
) -> Picture | None:  # fmt: skip
    shown = results.sbc.dropna(subset="p_value").head(MOST_PANELS)
    if shown.empty:
        return None
    rows = ranked(results.rows)
    groups: dict[Any, Any] = rows.groupby(UNIT, sort=False, observed=True).indices
    u, outside = rows["u"].to_numpy(), 0
    figure, axes = panels([_title(row, results) for row in shown.to_dict("records")], 3, 2.3)
    for axis, row in zip(axes, shown.to_dict("records"), strict=True):
        values = u[groups[tuple(row[key] for key in UNIT)]]
        found = row["outcome"] != "passed"
        outside += _difference(axis, np.abs(2 * values - 1) if coverage else values, found)
        if coverage:
            axis.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g}")
    for axis in axes[-3:]:
        axis.set_xlabel(across)
    axes[0].set_ylabel(up)
    marks = [
        mark("no departure found", color=BLUE),
        mark("failed or caution", color=ORANGE, lw=2.2),
        mark("95 % envelope", color=PALE, lw=6),
    ]
    legend(figure, marks)
    alt = f"{what} for {len(shown)} quantities: {outside} leave the envelope."
    note = note_of(len(shown), len(results.sbc), "quantities", "the worst")
    return finish(figure, name, title, alt, caption + note)


def _difference(axis: Any, values: FloatArray, found: bool) -> bool:
    """Draw an ECDF less uniform over its envelope; return whether it leaves the envelope.

    The line is shown at the places that the envelope is made for, as the test of the table does
    it: between them it would leave the envelope more often than that says. `plot_ecdf_pit` of
    arviz-plots 1.3 draws no envelope: it has deprecated it, and stops at a TypeError.
    """
    n, z = len(values), points(len(values))
    low, high = get_pointwise_confidence_band(envelope_probability(n, _ENVELOPE), n, z)
    parts = (z, low, high, compute_ecdf(values, z))
    x, low, high, ecdf = (np.concatenate(([0.0], part, [1.0])) for part in parts)
    axis.fill_between(x, low - x, high - x, color=PALE, lw=0, zorder=0)
    axis.axhline(0, color=GREY, ls="--", lw=1.0)
    axis.plot(x, ecdf - x, color=ORANGE if found else BLUE, lw=2.2 if found else 1.4)
    # Counts are whole, so that what touches the envelope is inside.
    return bool(((ecdf < low - 1e-9) | (ecdf > high + 1e-9)).any())


def _title(row: dict[Any, Any], results: StudyResults) -> str:
    """Return the quantity, and what distinguishes it from others of its name."""
    parts = [str(row["where"]), str(row["cell"])]
    if len(results.spec.estimators) > 1:
        parts.append(str(row["estimator"]))
    below = ", ".join(part for part in parts if part)
    names = [str(row["quantity"]), below] if below else [str(row["quantity"])]
    return "\n".join(plain_labels(names, 34))
