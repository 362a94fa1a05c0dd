"""The most contaminated items of a fit, with their matched texts."""

from typing import Any

import numpy as np
import pandas as pd

from bayescontam._format import number
from bayescontam._text import printable
from bayescontam.inference.checks import Outcome
from bayescontam.inference.result import Fit
from bayescontam.report.evidence import Evidence
from bayescontam.report.format import Names
from bayescontam.report.html import SHOWN
from bayescontam.report.matches import (
    KEYS,
    MOST_ITEMS,
    Card,
    anchors,
    best_matches,
    item_cards,
    lexical_name,
    ngram_column,
)

_MOST_MODELS = 12
"""Models whose accuracies are reported beside the texts of an item."""
_OTHER = 0.005
"""Difference of contamination from which on a fit's covariates are other ones."""


def contaminated_section(fit: Fit, evidence: Evidence, models: Names) -> dict[str, Any]:
    """Return the most contaminated items of a fit, and their matched texts."""
    table = _joined(fit, evidence)
    shown = table.head(MOST_ITEMS)
    places = anchors(evidence.scan)
    rows = [
        {
            **row,
            "anchor": places[row["benchmark"], row["item"]],
            "item": printable(str(row["item"]), 60),
        }
        for row in shown.to_dict("records")
    ]
    ngram = ngram_column(evidence.scan.matches)
    return {
        "rows": rows,
        "cards": _cards(fit, evidence, shown, models),
        "n_items": len(table),
        "has_posterior": bool(shown["posterior_mean"].notna().any()),
        "ngram": lexical_name(ngram)[:-1] if ngram else "",
        "notes": list(_notes(fit, evidence, table)),
    }


def _joined(fit: Fit, evidence: Evidence) -> pd.DataFrame:
    """Return the items that fit and scan share, the most contaminated first.

    By the posterior mean of contamination where the fit has one, else by the probability
    of a duplicate.
    """
    own = _by_model(fit)
    answers = _as_in_scan(own.assign(label=own["item"]), evidence).groupby(KEYS, sort=False)
    items = answers[["accuracy", "fitted"]].mean().join(answers["label"].first())
    table = evidence.ranked().merge(items, on=KEYS)
    posterior = _as_in_scan(fit.exposures(), evidence)
    if len(posterior):
        mean = posterior.groupby(KEYS, sort=False)["posterior_mean"].mean()
        table = table.join(mean, on=KEYS)
        return table.sort_values(
            ["posterior_mean", "p_duplicate"], ascending=False, kind="stable", ignore_index=True
        )
    return table.assign(posterior_mean=np.nan)


def _as_in_scan(table: pd.DataFrame, evidence: Evidence) -> pd.DataFrame:
    """Name items as the scan does: a fit labels those of the same name by benchmark, too."""
    names: dict[tuple[str, str], str] = {}
    for form in ("{b}:{benchmark}/{item}", "{benchmark}/{item}", "{item}"):
        for benchmark, item in evidence.items[KEYS].itertuples(index=False, name=None):
            label = form.format(b=len(benchmark), benchmark=benchmark, item=item)
            names[benchmark, label] = item
    pairs = zip(table["benchmark"], table["item"], strict=True)
    return table.assign(item=[names.get(pair, pair[1]) for pair in pairs])


def _by_model(fit: Fit) -> pd.DataFrame:
    """Return ``benchmark, item, model, accuracy, fitted`` (contamination) of each response."""
    data = fit.data["constant_data"].to_dataset()
    keys = {
        name: data[name].to_numpy()[data[f"{name}_of_response"].to_numpy()]
        for name in ("benchmark", "item", "model")
    }
    correct = fit.data["observed_data"]["n_correct"].to_numpy()
    contamination = data["contamination"].to_numpy() if "contamination" in data else np.nan
    return pd.DataFrame(
        keys | {"accuracy": correct / data["n_trials"].to_numpy(), "fitted": contamination}
    )


def _cards(fit: Fit, evidence: Evidence, shown: pd.DataFrame, models: Names) -> list[Card]:
    best = best_matches(evidence.scan)
    cards = item_cards(evidence.scan, shown[KEYS].merge(best, on=KEYS), SHOWN, evidence)
    by_item = dict(iter(_as_in_scan(_by_model(fit), evidence).groupby(KEYS, sort=False)))
    for card, key in zip(cards, shown[KEYS].itertuples(index=False, name=None), strict=True):
        scores = by_item[key].groupby("model", sort=False)["accuracy"].mean()
        parts = [f"{models.label(name)} {number(score, 2)}" for name, score in scores.items()]
        more = f" and {len(parts) - _MOST_MODELS} more models" if len(parts) > _MOST_MODELS else ""
        card["about"] = [f"Accuracy: {', '.join(parts[:_MOST_MODELS])}{more}."]
    return cards


def _notes(fit: Fit, evidence: Evidence, table: pd.DataFrame) -> list[str]:
    """Return what a reader must know where fit and scan are not of one piece."""
    notes = []
    known = fit.data["constant_data"].sizes["item"]
    if len(table) < known:
        notes.append(f"{known - len(table):,} items of the fit are not in the scan.")
    apart = (table["fitted"] - table["p_duplicate"]).abs() > _OTHER
    if apart.any():
        notes.append(
            f"The contamination that was fitted differs from the probability of a duplicate for"
            f" {int(apart.sum()):,} items: the fit's covariates come from elsewhere, or another"
            " column was taken."
        )
    if not len(evidence.curve.judged):
        notes.append("Nothing was judged: probabilities rest on the prior of the curve alone.")
    if any(check.outcome is Outcome.FAILED for check in evidence.curve.checks()):
        notes.append("Do not rely on these probabilities yet: checks of the curve failed.")
    return notes
