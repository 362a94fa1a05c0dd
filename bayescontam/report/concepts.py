"""Figure of concepts: what models can do, part by part."""

import pandas as pd

from bayescontam.inference.fitted import Fit
from bayescontam.report.figures import RAW, ability_of, legend, name_models, note_of
from bayescontam.report.picture import BLUE, Picture, finish, grid, numbers, plain_labels, style
from bayescontam.report.words import level_text

MOST_MODELS, MOST_CONCEPTS = 8, 40
"""Models and concepts in one picture; the table holds all."""


def concepts(fit: Fit, table: pd.DataFrame) -> Picture | None:
    """Draw abilities by concept, a panel for each model; None where there are none."""
    if table.empty:
        return None
    ability, words = ability_of(table)
    means = table.groupby("concept", sort=False)[ability].mean().sort_values(ascending=False)
    drawn = list(means.index[: MOST_CONCEPTS // 2])
    drawn += list(means.index[len(drawn) :][-MOST_CONCEPTS // 2 :])
    models = list(dict.fromkeys(table["model"]))[:MOST_MODELS]
    note = note_of(len(drawn), len(means), "concepts", "the easiest and the hardest")
    note += note_of(len(models), table["model"].nunique(), "models", "the first")
    with style():
        height = 0.23 * len(drawn) + 0.7
        figure, axes = grid(len(models), 4, height, sharey=True, sharex=True)
        for axis, model in zip(axes, models, strict=True):
            rows = table[table["model"] == model].set_index("concept").reindex(drawn).dropna()
            at = [drawn.index(name) for name in rows.index]
            axis.hlines(at, rows[f"{ability}_low"], rows[f"{ability}_high"], color=BLUE)
            axis.plot(rows["raw_accuracy"], at, **RAW)
            axis.plot(rows[ability], at, "o", color=BLUE, ms=4.5)
            axis.set_title(plain_labels([model], 22)[0])
            axis.tick_params(labelbottom=True)
            axis.set_xlabel("accuracy")
        name_models(axes, drawn)
        legend(figure, ["ability"], words.capitalize(), raw=True)
        easy, hard = plain_labels([drawn[0], drawn[-1]])
        alt = (
            f"Interval plot of {words} of {len(models)} models on {len(drawn)} concepts: means"
            f" {numbers(table[ability])}; easiest on average {easy}, hardest {hard}."
        )
        caption = (
            f"Concepts from easy to hard. Circle: {words} with its"
            f" {level_text(fit.level)} interval, drawn towards the rest where items are few."
            f" Diamond: raw accuracy on the concept's items.{note}"
        )
        return finish(figure, "concepts", "Abilities by concept", alt, caption)
