"""ConceptARC's answers: the printed table and single items, under the same names."""

from pathlib import Path

import numpy as np
import pandas as pd

from bayescontam.errors import DataError, Fault
from bayescontam.names import listed
from bayescontam.reproduction.summaries import rows_of
from bayescontam.responses import Responses, read_responses

TABLE = "conceptarc_table1"
HUMANS, FIRST, SECOND = "humans", "kaggle_first", "kaggle_second"
NAMES = {HUMANS: "humans", FIRST: "first program", SECOND: "second program", "gpt4": "GPT-4"}
ROUNDING = 0.0051
"""Half of the last printed digit."""


def table_responses(printed: pd.DataFrame, items: int) -> Responses:
    """Return printed accuracies as counts out of the items of a concept."""
    table = printed[["model", "concept"]].assign(
        benchmark="ConceptARC",
        item=printed["concept"],
        n_correct=np.rint(printed["printed"] * items).astype(int),
        n_trials=items,
    )
    return Responses.from_frame(table, source=f"{TABLE}.csv (printed figures)")


def item_responses(path: Path, solvers: dict[str, str], printed: pd.DataFrame) -> Responses:
    """Return answers to single items, attention checks left out, with the printed names."""
    frame = read_responses(path, where="not minimal").frame
    frame = frame[frame["model"].isin(solvers)]
    concepts = {_joined(name): name for name in printed["concept"].unique()}
    if strange := sorted(set(frame["concept"].astype(str)) - set(concepts)):
        problem = f"no printed concept is called {listed(strange)}; they are {listed(concepts)}"
        raise DataError([Fault(str(path), problem, column="concept")])
    frame = frame.assign(model=frame["model"].map(solvers), concept=frame["concept"].map(concepts))
    return Responses.from_frame(frame, source=path.name)


def _joined(concept: str) -> str:
    """Return a concept's name as folders of tasks have it: Above and Below is AboveBelow."""
    return "".join(word for word in concept.title().split() if word != "And")


def disagreements(printed: pd.DataFrame, answers: pd.DataFrame) -> list[str]:
    """Return a note for each printed accuracy that single items, if any, do not amount to."""
    share = (answers["n_correct"] / answers["n_trials"]).groupby(
        [answers["model"], answers["concept"]]
    )
    own = printed.join(share.mean().rename("own"), on=["model", "concept"])
    return [
        f"{NAMES[row.model]} on {row.concept}: {row.printed:.2f} is printed, "
        + (
            "there are no single items."
            if np.isnan(row.own)
            else f"the single items amount to {row.own:.2f}."
        )
        for row in rows_of(own)
        if not abs(row.own - row.printed) <= ROUNDING
    ]
