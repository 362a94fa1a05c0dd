"""The page of a fit."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._files import write_text
from bayescontam._progress import Advance, progress_bar
from bayescontam._text import printable
from bayescontam.inference.checks import Outcome
from bayescontam.inference.result import Fit
from bayescontam.inference.verdicts import EXPLAINED
from bayescontam.report import diagnostics
from bayescontam.report import dose_figures as dose
from bayescontam.report import fit_figures as concept_figures
from bayescontam.report import fit_figures as figures
from bayescontam.report import fit_figures as overview
from bayescontam.report import fit_tables as tables
from bayescontam.report import format as words
from bayescontam.report import predictive as predictions
from bayescontam.report.confounding import confounding_section
from bayescontam.report.export import make_folder, write_tables
from bayescontam.report.fit_text import assumptions, checks_sentence, finding, in_short
from bayescontam.report.format import longest_rows
from bayescontam.report.html import fill
from bayescontam.report.matches import Evidence, contaminated_section
from bayescontam.report.plots import Picture
from bayescontam.report.ranking import ranking_section

MOST_ROWS = 400
"""Estimands that the page lists; more are left to ``bayescontam summary``."""
FEWEST_ITEMS, MOST_ITEMS = 10, 200
"""Items that the page lists, the worst fitting first: these, or all suspects in between."""

Ways = dict[str, Callable[[], Picture | None]]
"""How to draw pictures, by name."""


def write_report(
    fit: Fit,
    path: str | os.PathLike[str],
    *,
    comparison: pd.DataFrame | None = None,
    evidence: Evidence | None = None,
    title: str = "",
    note: str = "",
    tables_in: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> None:
    """Write the report of a fit as one HTML file that needs no network."""
    if tables_in is not None:
        make_folder(tables_in)
    estimands = fit.estimands(progress=progress)
    html = render(
        fit, comparison, evidence, title=title, note=note, estimands=estimands, progress=progress
    )
    write_text(path, html)
    if tables_in is not None:
        write_tables(fit, tables_in, estimands)


def render(
    fit: Fit,
    comparison: pd.DataFrame | None = None,
    evidence: Evidence | None = None,
    *,
    title: str = "",
    note: str = "",
    estimands: pd.DataFrame | None = None,
    progress: bool = False,
) -> str:
    """Return the report of a fit as HTML."""
    estimands = fit.estimands(progress=progress) if estimands is None else estimands
    headline = tables.headline(fit, estimands)
    shown = headline, tables.slopes(fit, estimands), tables.by_concept(fit, estimands)
    ways = _pictures(fit, *shown)
    with progress_bar(progress, "drawing", len(ways) + 3, "parts") as advance:
        content = {"pictures": _drawn(ways, advance)} | _results(fit, *shown)
        content |= {"confounding": _confounding(fit), "sensitivity": _sensitivity(fit)}
        advance(1)
        content |= _judgement(fit, estimands)
        advance(1)
        content |= _identity(fit) | _first(fit, headline, content["ranking"])
        most = contaminated_section(fit, evidence, content["names"]["model"]) if evidence else None
        content |= {
            "fit": fit,
            "own_title": printable(title.strip(), 300),
            "own_note": words.paragraphs(note),
            "level": words.level_text(fit.level),
            "contaminated": "identification" in fit.tree,
            "comparison": _comparison(comparison),
            "items": _items(fit),
            "evidence": most,
            "ngram": most["ngram"] if most else "",
            "all_estimands": _all_estimands(estimands),
            "n_estimands": len(estimands),
        }
        html = fill("report.html", content)
        advance(1)
    return html


def _pictures(
    fit: Fit, headline: pd.DataFrame, slopes: pd.DataFrame, concepts: pd.DataFrame
) -> Ways:
    """Return how to draw each picture of the results."""
    # The picture of the ranking says the same of one benchmark.
    several = headline["benchmark"].nunique() > 1
    return {
        "raw_genuine": lambda: figures.raw_against_genuine(fit, headline),
        "slopes": lambda: figures.slopes(fit, slopes),
        "dose": lambda: dose.dose_response(fit, headline),
        "ranks": lambda: figures.ranks(fit, headline) if several else None,
        "concepts": lambda: concept_figures.concepts(fit, concepts),
        "prior": lambda: dose.prior_posterior(fit, slopes),
        **_overviews(headline, slopes),
    }


def _drawn(ways: Ways, advance: Advance) -> dict[str, Picture | None]:
    pictures = {}
    for name, draw in ways.items():
        pictures[name] = draw()
        advance(1)
    return pictures


def _overviews(headline: pd.DataFrame, slopes: pd.DataFrame) -> Ways:
    """Return how to draw every pair, where pictures of single ones cannot show all."""
    if not figures.is_large(headline):
        return {}
    ways: Ways = {"scatter": lambda: overview.scatter(headline)}
    if len(slopes):
        gap = headline, "overfitting", "overfitting_verdict", "headline"
        ways["overfitting_map"] = lambda: overview.effect_map(*gap)
        ways["slope_map"] = lambda: overview.effect_map(slopes, "slope", "verdict", "slopes")
    return ways


def _first(fit: Fit, headline: pd.DataFrame, ranking: dict[str, Any] | None) -> dict[str, Any]:
    """Return what stands on the first screen beside the table and the picture."""
    checks = fit.checks()
    outcomes = {check.outcome for check in checks}
    worst = next(kind for kind in reversed(Outcome) if kind in outcomes)
    failures = [check.to_dict() for check in checks if check.outcome is Outcome.FAILED]
    counted = f"Do not rely on this fit yet: {len(failures)} of {len(checks)} checks failed"
    sentences = finding(headline, fit.smallest_effect)
    if "identification" not in fit.tree and ranking and ranking["distinguished"]:
        sentences.append(ranking["distinguished"])
    return {
        "finding": sentences,
        "in_short": in_short(fit),
        "outcome": worst.value,
        "verdict": f"{counted if failures else checks_sentence(checks)}.",
        "failures": failures,
        "sampled": bool(fit.record.get("population", False)),
        "several": headline["benchmark"].nunique() > 1,
    }


def _identity(fit: Fit) -> dict[str, Any]:
    """Return names, assumptions and provenance."""
    data = fit.tree["constant_data"].to_dataset()
    names = {dim: [str(v) for v in data[dim].values] for dim in ("model", "benchmark")}
    if "concept" in data.coords:
        names["concept"] = [str(v) for v in data["concept"].values]
    known = {dim: words.Names(values, f"name-{dim}") for dim, values in names.items()}
    return {
        "names": known,
        "changed": [row for labels in known.values() for row in labels.changed()],
        "size": ", ".join(
            words.counted(names[dim], dim) for dim in ("model", "benchmark")
        ) + f", {words.items_of(fit)}, {data.sizes['response']:,} responses",
        "meanings": words.estimand_texts(fit),
        "assumptions": assumptions(fit),
        "left_out": words.left_out(fit),
        "notes": [printable(note, 10_000) for note in fit.record["data"]["notes"]],
        "provenance": words.provenance(fit),
        "spec_name": printable(fit.record["spec"]["name"]),
        "spec_text": fit.record["spec"]["text"],
        "source": printable(str(fit.record["data"]["source"])),
        "created": fit.record["created"],
    }  # fmt: skip


def _results(
    fit: Fit, headline: pd.DataFrame, slopes: pd.DataFrame, concepts: pd.DataFrame
) -> dict[str, Any]:
    """Return tables of abilities, slopes and ranks."""
    ability = "genuine_ability" if "genuine_ability" in headline else "accuracy"
    ordered = headline.sort_values(["rank", ability], ascending=[True, False], kind="stable")
    kinds = headline["overfitting_verdict"] if "overfitting_verdict" in headline else pd.Series()
    return {
        "ability": ability,
        "spillover": "spillover" in headline,
        "rank": "rank",
        "ranked": bool(headline[["rank_raw", "rank"]].notna().any(axis=None)),
        "n_pairs": len(headline),
        "headline": _grouped(ordered, list(dict.fromkeys(headline["benchmark"]))),
        "kinds": [(kind.value, int((kinds == kind).sum()), text) for kind, text in EXPLAINED.items()
                  if (kinds == kind).any()],
        "log_odds": fit.spec.contamination.scale == "log_odds",
        "slopes": longest_rows(slopes, "slope", "slopes"),
        "beyond": bool((slopes["extrapolation"] > 0).any()),
        "concepts": longest_rows(concepts, ability, "concepts"),
        "ranking": ranking_section(fit),
    }  # fmt: skip


def _confounding(fit: Fit) -> dict[str, Any] | None:
    section = confounding_section(fit)
    if section is not None and not section["reason"]:
        section |= {"table": longest_rows(section.pop("rows"), "overfitting", "confounding")}
    return section


def _items(fit: Fit) -> dict[str, Any] | None:
    """Return the items that fit worst, and what is reported of all."""
    if "item_fit" not in fit.tree:
        return None
    table = fit.item_fit()
    table = table[table["p_value"].notna()]
    suspects = int(table["suspect"].sum())
    shown = table.head(min(max(suspects, FEWEST_ITEMS), MOST_ITEMS))
    note = ""
    if len(shown) < len(table):
        note = (
            f"The {len(shown):,} worst of {len(table):,}. All: {words.in_file('items')}, or"
            " 'bayescontam items'."
        )
    labels = [printable(str(name), 60) for name in shown["item"]]
    sentences = fit.item_sentences()
    return {
        "rows": shown.assign(item=labels).to_dict("records"),
        "open": suspects > 0 or len(sentences) > 1,
        "suspects": suspects,
        "contamination": "contamination" in table,
        "sentences": sentences,
        "note": note,
    }


def _sensitivity(fit: Fit) -> dict[str, Any]:
    return longest_rows(tables.sensitivity(fit), "overfitting_prior", "sensitivity")


def _judgement(fit: Fit, estimands: pd.DataFrame) -> dict[str, Any]:
    """Return the checks and their pictures."""
    mixing, draws = diagnostics.convergence_table(fit, estimands)
    sampling: list[Picture] = []
    if len(mixing):
        sampling = diagnostics.sampling_pictures(fit, mixing, draws)
    return {
        "checks": tables.checks(fit).to_dict("records"),
        "mixing": mixing.head(diagnostics.WORST).to_dict("records"),
        "n_mixing": len(mixing),
        "integrated": fit.record["difficulties"] == "marginalised",
        "sampling_pictures": sampling,
        "of_one_number": [
            name for name, v in fit.tree["posterior"].data_vars.items() if v.ndim == 2
        ],
        "predictive_pictures": predictions.predictive_pictures(fit),
    }


def _grouped(table: pd.DataFrame, benchmarks: list[str]) -> list[tuple[str, list[dict[Any, Any]]]]:
    return [(name, table[table["benchmark"] == name].to_dict("records")) for name in benchmarks]


def _all_estimands(estimands: pd.DataFrame) -> list[dict[Any, Any]]:
    return estimands.to_dict("records") if len(estimands) <= MOST_ROWS else []


def _comparison(comparison: pd.DataFrame | None) -> dict[str, Any] | None:
    """Return header and cells as text; numbers are marked, to be set right."""
    if comparison is None:
        return None
    rows = [[_cell(value) for value in row] for row in comparison.itertuples(index=False)]
    header = [printable(str(name)).replace("_", " ") for name in comparison.columns]
    return {"header": header, "rows": rows}


def _cell(value: object) -> tuple[str, bool]:
    if isinstance(value, bool | np.bool_):
        return ("yes" if value else "no"), False
    if isinstance(value, float | np.floating):
        return words.number(value, 2 if abs(float(value)) >= 1 else 3), True
    if isinstance(value, int | np.integer):
        return words.number(value, 0), True
    return printable(str(value), 400), False
