"""Demo: published tables as responses, to see the main job without data of one's own."""

import numpy as np
import pandas as pd

from bayescontam.responses import Responses
from bayescontam.specs.catalogue import load_spec, shipped_folder
from bayescontam.specs.model import ModelSpec

ITEMS_OF_CONCEPT = 30
ITEMS = {
    ("MuSR", "all"): 250, ("MuSR", "half"): 125,
    ("ZebraLogic", "all"): 1000, ("ZebraLogic", "half"): 500,
    ("MBPP", "all"): 210, ("MBPP", "half"): 210,
}  # fmt: skip
"""Items behind each printed accuracy; MBPP's standard errors amount to about 210 for both."""


def duplicate_finetuning() -> Responses:
    """Return what models scored after finetuning on duplicates of half of a benchmark.

    A row is the seen or the unseen half, or all items for the model before finetuning.
    Its trials are its items: the printed standard errors of MuSR and ZebraLogic amount to
    twice as many, because they count generations of one item as if they were different
    items. Contamination is 1 for the half that was trained on.
    """
    printed = pd.read_csv(shipped_folder("studies") / "data" / "duplicate_finetuning.csv")
    duplicated = printed["training"].str.startswith(("exact", "semantic"))
    rows = printed[(duplicated | (printed["training"] == "none")) & (printed["split"] != "control")]
    halves = rows["split"].where(rows["split"] == "all", "half")
    keys = zip(rows["target"], halves, strict=True)
    trials = pd.Series([ITEMS[key] for key in keys], index=rows.index)
    table = pd.DataFrame(
        {
            "model": rows["training"].replace("none", "not finetuned"),
            "benchmark": rows["target"],
            "item": rows["split"],
            "n_correct": (rows["accuracy"] / 100 * trials).round().astype(int),
            "n_trials": trials,
            "contamination": (rows["split"] == "seen").astype(float),
        }
    )
    return Responses.from_frame(table, source="duplicate_finetuning.csv (printed figures)")


def concepts_of_counts() -> ModelSpec:
    """Return the model spec ``concepts`` for rows that count different items."""
    spec = load_spec("concepts")
    likelihood = spec.likelihood.model_copy(update={"trials": "items"})
    return spec.model_copy(update={"likelihood": likelihood})


def conceptarc() -> Responses:
    """Return the accuracies of ConceptARC's Table 1 as counts out of 30 items a concept."""
    printed = pd.read_csv(shipped_folder("studies") / "data" / "conceptarc_table1.csv")
    printed = printed.drop(columns="source")
    table = printed.melt("concept", var_name="model", value_name="accuracy")
    table["n_correct"] = np.rint(table.pop("accuracy") * ITEMS_OF_CONCEPT).astype(int)
    table = table.assign(n_trials=ITEMS_OF_CONCEPT, benchmark="ConceptARC", item=table["concept"])
    return Responses.from_frame(table, source="conceptarc_table1.csv (printed figures)")
