"""Figures of published studies, as they stand in ``studies/data``, and as responses."""

import numpy as np
import pandas as pd

from bayescontam._text import printable
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.specs.base import suggest
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model, shipped_folder

ITEMS_OF_CONCEPT = 30
ITEMS = {
    ("MuSR", "all"): 250, ("MuSR", "half"): 125,
    ("ZebraLogic", "all"): 1000, ("ZebraLogic", "half"): 500,
    ("MBPP", "all"): 210, ("MBPP", "half"): 210,
    ("TrueDetective", "all"): 191, ("ARC Challenge", "all"): 1172, ("HumanEval", "all"): 164,
}  # fmt: skip
"""Items behind each printed accuracy; MBPP's standard errors amount to about 210 for both."""
NOT_FINETUNED = "not finetuned"
COLUMNS = ("quantity", "where", "value", "low", "high", "source")
_NUMBERS = ("value", "low", "high")


def read_printed(name: str) -> pd.DataFrame:
    """Return a table of ``studies/data`` as it stands there, by its name without ``.csv``."""
    folder = shipped_folder("studies") / "data"
    names = sorted(path.stem for path in folder.glob("*.csv"))
    if name not in names:
        shown = printable(name, 60)
        raise UsageError(f"published: no table '{shown}' in studies/data ({suggest(name, names)})")
    return pd.read_csv(folder / f"{name}.csv")


def read_published(name: str) -> pd.DataFrame:
    """Return the printed numbers of a table with their sources; the name ``""`` gives no rows.

    Columns are `COLUMNS`; empty texts are ``""``, and empty numbers NaN.
    """
    if not name:
        return pd.DataFrame(columns=list(COLUMNS))
    table = read_printed(name)
    file = f"studies/data/{name}.csv"
    if missing := [column for column in COLUMNS if column not in table]:
        problem = f"has no column '{missing[0]}'; it needs {', '.join(COLUMNS)}"
        raise DataError([Fault(file, problem)])
    # A column without any text is one of numbers.
    words = {name: table[name].astype(object).fillna("").astype(str) for name in COLUMNS[:2]}
    table = table[list(COLUMNS)].assign(**words)
    faults = [
        Fault(file, "has no source; say title, and table or section", row=int(row) + 1)
        for row in table.index[table["source"].isna()]
    ]
    for column in _NUMBERS:
        numbers = pd.to_numeric(table[column], errors="coerce")
        wrong = table.index[numbers.isna() & table[column].notna()]
        faults += [Fault(file, "is no number", row=int(row) + 1, column=column) for row in wrong]
        table = table.assign(**{column: numbers.astype(float)})
    if not faults:
        value, low, high = (table[name] for name in _NUMBERS)
        problems = {
            "has no number; give a value, or both ends of an interval": (
                value.isna() & (low.isna() | high.isna())
            ),
            "has one end of an interval; give both or none": low.notna() ^ high.notna(),
            "must be low ≤ value ≤ high": (low > high) | (value < low) | (value > high),
        }
        for problem, odd in problems.items():
            faults += [Fault(file, problem, row=int(row) + 1) for row in table.index[odd]]
    if faults:
        raise DataError(faults)
    return table


def duplicate_finetuning() -> Responses:
    """Return what models scored after finetuning on duplicates of half of a benchmark.

    With the model before finetuning, which is the base of all, and benchmarks that none was
    exposed to.
    """
    # Trials of a row are its items: the printed standard errors of MuSR and ZebraLogic amount to
    # twice as many, because they count generations of one item as if they were different items.
    printed = read_printed("duplicate_finetuning")
    rows = printed[printed["training"].str.startswith(("exact", "semantic", "none"))]
    control, clean, seen = (
        rows["split"] == "control",
        rows["training"] == "none",
        rows["split"] == "seen",
    )
    benchmark = rows["target"].where(~control, rows["control"])
    halves = rows["split"].where(~rows["split"].isin(["seen", "unseen"]), "half")
    keys = zip(benchmark, halves.replace("control", "all"), strict=True)
    trials = pd.Series([ITEMS[key] for key in keys], index=rows.index)
    table = pd.DataFrame(
        {
            "model": (rows["target"] + ", " + rows["training"]).where(~clean, NOT_FINETUNED),
            "benchmark": benchmark,
            "item": rows["split"],
            "n_correct": (rows["accuracy"] / 100 * trials).round().astype(int),
            "n_trials": trials,
            "contamination": seen.astype(float),
            "base": NOT_FINETUNED,
            "duplicate_kind": rows["training"].where(seen, ""),
        }
    )
    return Responses.from_frame(table, source="duplicate_finetuning.csv (printed figures)")


def twins_of_counts() -> ModelSpec:
    """Return the model spec ``aggregated`` for models of one base and kinds of duplicates."""
    spec = load_model("aggregated")
    ability = spec.ability.model_copy(update={"lineage": "base"})
    doses = {"spillover": True, "kinds": "duplicate_kind"}
    contamination = spec.contamination.model_copy(update=doses)
    return spec.model_copy(update={"ability": ability, "contamination": contamination})


def concepts_of_counts() -> ModelSpec:
    """Return the model spec ``concepts`` for rows that count different items."""
    spec = load_model("concepts")
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
