"""Page: one HTML file that holds everything there is to say of a fit."""

import os
from typing import Any

import numpy as np
import pandas as pd

from bayescontam.inference.checks import Outcome
from bayescontam.inference.fitted import Fitted
from bayescontam.names import visible
from bayescontam.report import concepts as concept_figures
from bayescontam.report import diagnostics, dose, figures, predictions, tables, words
from bayescontam.report.assumed import assumptions
from bayescontam.report.confounding import confounding_section
from bayescontam.report.contaminated import contaminated_section
from bayescontam.report.evidence import Evidence
from bayescontam.report.picture import Picture
from bayescontam.report.ranking import ranking_section
from bayescontam.report.template import fill
from bayescontam.report.verdicts import EXPLAINED
from bayescontam.storage import write_text

MOST_ROWS = 400
"""Estimands that the page lists; more are left to ``bayescontam summary``."""


def write_report(
    fit: Fitted,
    path: str | os.PathLike[str],
    *,
    comparison: pd.DataFrame | None = None,
    evidence: Evidence | None = None,
) -> None:
    """Write the report of a fit as one HTML file that needs no network.

    Parameters
    ----------
    fit : Fitted
    path : path-like
        Replaced if it exists, whole or not at all.
    comparison : pandas.DataFrame, optional
        Comparison with other fits, to be shown; one row for each fit.
    evidence : Evidence, optional
        From `bayescontam.report.evidence.gather`, of the scan behind the contamination:
        adds the most contaminated items with their matched texts.

    Raises
    ------
    UsageError
        If the file cannot be written.
    """
    write_text(path, render(fit, comparison, evidence))


def render(
    fit: Fitted, comparison: pd.DataFrame | None = None, evidence: Evidence | None = None
) -> str:
    """Return the report of a fit as HTML.

    Parameters
    ----------
    fit : Fitted
    comparison, evidence : optional
        See `write_report`.

    Returns
    -------
    str
    """
    estimands = fit.estimands()
    headline = tables.headline(fit, estimands)
    identity = _identity(fit)
    most = contaminated_section(fit, evidence, identity["names"]["model"]) if evidence else None
    content = {
        "fit": fit,
        "level": words.level_text(fit.level),
        "contaminated": "identification" in fit.tree,
        **identity,
        **_results(fit, estimands, headline),
        **_judgement(fit, headline),
        "confounding": confounding_section(fit),
        "sensitivity": tables.sensitivity(fit).to_dict("records"),
        "comparison": _comparison(comparison),
        "evidence": most,
        "ngram": most["ngram"] if most else "",
        "all_estimands": _all_estimands(estimands),
        "n_estimands": len(estimands),
    }
    return fill("report.html", content)


def _identity(fit: Fitted) -> dict[str, Any]:
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
        ) + f", {data.sizes['item']:,} items, {data.sizes['response']:,} responses",
        "meanings": words.estimand_texts(fit),
        "assumptions": assumptions(fit),
        "left_out": words.left_out(fit),
        "notes": [visible(note, 10_000) for note in fit.record["data"]["notes"]],
        "provenance": words.provenance(fit),
        "spec_name": visible(fit.record["spec"]["name"]),
        "spec_text": fit.record["spec"]["text"],
        "source": visible(str(fit.record["data"]["source"])),
        "created": fit.record["created"],
    }  # fmt: skip


def _results(fit: Fitted, estimands: pd.DataFrame, headline: pd.DataFrame) -> dict[str, Any]:
    """Return tables and pictures of abilities, slopes and ranks."""
    slopes = tables.slopes(fit, estimands)
    concepts = tables.by_concept(fit, estimands)
    ability = "genuine_ability" if "genuine_ability" in headline else "accuracy"
    rank = "rank_genuine" if ability == "genuine_ability" else "rank_accuracy"
    ordered = headline.sort_values([rank, "rank_raw"], kind="stable")
    kinds = headline["overfitting_verdict"] if "overfitting_verdict" in headline else pd.Series()
    pictures = {
        "raw_genuine": figures.raw_against_genuine(fit, headline),
        "slopes": figures.slopes(fit, slopes),
        "dose": dose.dose_response(fit, headline),
        "ranks": figures.ranks(fit, headline),
        "concepts": concept_figures.concepts(fit, concepts),
        "prior": dose.prior_posterior(fit, slopes),
    }
    return {
        "ability": ability,
        "spillover": "spillover" in headline,
        "rank": rank,
        "headline": _grouped(ordered, list(dict.fromkeys(headline["benchmark"]))),
        "kinds": [(kind.value, int((kinds == kind).sum()), text) for kind, text in EXPLAINED.items()
                  if (kinds == kind).any()],
        "slopes": slopes.to_dict("records"),
        "concepts": concepts.to_dict("records"),
        "ranking": ranking_section(fit),
        "pictures": pictures,
    }  # fmt: skip


def _judgement(fit: Fitted, headline: pd.DataFrame) -> dict[str, Any]:
    """Return the verdict, the checks and their pictures."""
    outcomes = {check.outcome for check in fit.checks()}
    worst = next(kind for kind in reversed(Outcome) if kind in outcomes)
    mixing, draws = diagnostics.convergence_table(fit)
    sampling: list[Picture] = []
    if len(mixing):
        sampling = diagnostics.sampling_pictures(fit, mixing, draws)
    return {
        "verdict": tables.verdict_line(fit, headline),
        "outcome": worst.value,
        "checks": tables.checks(fit).to_dict("records"),
        "mixing": mixing.head(diagnostics.WORST).to_dict("records"),
        "n_mixing": len(mixing),
        "integrated": "items" in fit.tree,
        "sampling_pictures": sampling,
        "predictive_pictures": predictions.predictive_pictures(fit, headline),
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
    header = [visible(str(name)).replace("_", " ") for name in comparison.columns]
    return {"header": header, "rows": rows}


def _cell(value: object) -> tuple[str, bool]:
    if isinstance(value, bool | np.bool_):
        return ("yes" if value else "no"), False
    if isinstance(value, float | np.floating):
        return words.number(value, 2 if abs(float(value)) >= 1 else 3), True
    if isinstance(value, int | np.integer):
        return words.number(value, 0), True
    return visible(str(value), 400), False
