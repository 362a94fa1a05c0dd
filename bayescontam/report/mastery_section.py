"""Which concepts models have, as a section of the page of a fit."""

from typing import Any

import numpy as np
import pandas as pd

from bayescontam._format import level_text
from bayescontam.errors import BayescontamError
from bayescontam.inference.mastery import MOST, Mastery, concept_mastery
from bayescontam.inference.result import Fit
from bayescontam.report.format import longest_rows
from bayescontam.report.plots import (
    GREY,
    INK,
    WIDTH,
    Picture,
    drawable,
    finish,
    first_of,
    name_rows,
    new_figure,
    numbers,
    plain_labels,
    style,
)

MOST_MODELS, MOST_CONCEPTS = 12, 40
"""Models and concepts in the picture; the table holds all."""


def mastery_of(fit: Fit) -> Mastery | str | None:
    """Return which concepts models have, why it is not known, or None of a fit without concepts."""
    if "estimands_by_concept" not in fit.data:
        return None
    try:
        return concept_mastery(fit)
    except BayescontamError as error:  # contamination was not known for sure, or names were shared
        return str(error)


def mastery_section(fit: Fit, found: Mastery | str | None) -> dict[str, Any] | None:
    """Return what the page shows of it."""
    if found is None:
        return None
    if isinstance(found, str):
        return {"reason": found}
    table = found.table
    rows = longest_rows(table, "p_mastered", "mastery")
    return {
        "reason": "",
        "unit": found.unit,
        "picture": mastery_picture(table, found.unit)
        if table["p_mastered"].notna().any()
        else None,
        "rows": [
            row | {"solved": None if pd.isna(row["solved"]) else int(row["solved"])}
            for row in rows["rows"]
        ],
        "of": rows["of"],
        "note": rows["note"],
        "withheld": found.sentences()[1:],
        "above": found.above.to_dict("records"),
        "level": level_text(fit.level),
        "observed": bool(table["solved"].notna().any()),
    }


@style()
def mastery_picture(table: pd.DataFrame, unit: str) -> Picture:
    """Draw how probably each model solves most tasks of each concept, as shaded cells."""
    wide = table.pivot(index="concept", columns="model", values="p_mastered")
    concepts = wide.mean(axis=1).sort_values(ascending=False, kind="stable").index
    drawn, of_concepts = first_of(concepts, MOST_CONCEPTS, "concepts", "the most probable")
    models, of_models = first_of(table["model"], MOST_MODELS, "models", "the first")
    cells = wide.loc[drawn, models].to_numpy()
    # A pair that the model did not answer has no row, and its cell stays empty.
    verdicts = table.pivot(index="concept", columns="model", values="verdict").fillna("")
    withheld = (verdicts.loc[drawn, models] != "").to_numpy()
    width = min(WIDTH, 2.6 + 0.75 * len(models))
    figure = new_figure(width, 0.25 * len(drawn) + 1.1)
    axis = figure.subplots()
    edges = [np.arange(count + 1) - 0.5 for count in (len(models), len(drawn))]
    axis.pcolormesh(*edges, cells, cmap="Blues", vmin=0, vmax=1.15, edgecolor="white", lw=0.8)
    for (y, x), p in np.ndenumerate(cells):
        if np.isnan(p) and not withheld[y, x]:
            continue
        shown, color = ("–", GREY) if np.isnan(p) else (_percent(p), "white" if p > 0.6 else INK)
        axis.text(x, y, shown, fontsize=8, ha="center", va="center", color=color)
    labels = plain_labels(models, 14)
    axis.set_xticks(range(len(models)), labels, rotation=30 if len(models) > 3 else 0,
                    ha="left" if len(models) > 3 else "center")  # fmt: skip
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    name_rows([axis], list(drawn))
    needed = _needed(table, unit)
    best = table.iloc[int(np.nanargmax(table["p_mastered"].to_numpy()))]
    alt = (
        f"Shaded table of {len(drawn)} concepts and {len(models)} models: probability of solving"
        f" {needed} {numbers(cells)}; largest for {plain_labels([best['model']])[0]} on"
        f" {plain_labels([best['concept']])[0]}."
    )
    legend = " –: withheld." if withheld.any() else ""
    if (np.isnan(cells) & ~withheld).any():
        legend += " Empty: not answered."
    caption = drawable(
        f"Probability, in per cent, that a model solves {needed} of a concept, like those of the"
        f" table.{legend}{of_concepts}{of_models}"
    )
    return finish(figure, "mastery", f"Most {unit}s of a concept", alt, caption)


def _percent(p: float) -> str:
    return "<1" if p < 0.005 else ">99" if p > 0.995 else f"{100 * p:.0f}"


def _needed(table: pd.DataFrame, unit: str) -> str:
    """Return how many of how many are to be solved."""
    numbers_of = table[["needed", "number"]].drop_duplicates()
    if len(numbers_of) == 1:
        needed, number = numbers_of.iloc[0]
        return f"at least {needed} of {number} new {unit}s"
    return f"at least {MOST:.0%} of as many new {unit}s as the table has"
