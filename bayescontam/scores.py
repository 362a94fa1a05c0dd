"""Score columns of responses: `correct`, or `n_correct` out of `n_trials`."""

from collections.abc import Collection

import numpy as np
import pandas as pd

from bayescontam._types import BoolArray, FloatArray
from bayescontam.columns import FaultList, need_columns, read_numbers, refuse_grouped

SCORES = ("correct", "n_correct", "n_trials")
MOST_TRIALS = 10**9
"""Largest ``n_trials`` of a row."""


def read_scores(
    table: pd.DataFrame, faults: FaultList, known: Collection[str]
) -> dict[str, FloatArray]:
    """Return the score columns as numbers, NaN where missing; none if they cannot be used."""
    present = [name for name in SCORES if name in table.columns]
    if present == ["correct"]:
        correct = read_numbers(table["correct"], words=True)
        odd = ~np.isin(correct, (0, 1)) & ~np.isnan(correct)
        faults.flag(odd, "correct", "got {}, allowed is 0, 1, true or false", table["correct"])
        return {"correct": correct}
    if present == ["n_correct", "n_trials"]:
        return _counts(table, faults)
    if "correct" in present:
        faults.add(f"stands beside '{present[1]}'; keep one kind of score", "correct")
    elif present:
        absent = "n_trials" if present == ["n_correct"] else "n_correct"
        need_columns(table, {absent: f"'{present[0]}' needs it"}, known, faults)
    else:
        advice = "give 'correct' (0 or 1), or 'n_correct' with 'n_trials'"
        need_columns(table, {"correct": advice}, known, faults)
    return {}


def _counts(table: pd.DataFrame, faults: FaultList) -> dict[str, FloatArray]:
    cells = {name: table[name] for name in ("n_correct", "n_trials")}
    values = {name: read_numbers(column) for name, column in cells.items()}
    values = refuse_grouped(cells, values, faults)
    correct, trials = values["n_correct"], values["n_trials"]
    grouped = (correct == -np.inf) | (trials == -np.inf)
    bad_trials = ~np.isnan(trials) & ~(_whole(trials) & (trials >= 1)) & ~grouped
    problem = f"got {{}}, allowed is a whole number from 1 to {MOST_TRIALS:,}"
    faults.flag(bad_trials, "n_trials", problem, table["n_trials"])
    bad = ~np.isnan(correct) & ~_whole(correct) & ~grouped
    faults.flag(bad, "n_correct", "got {}, allowed is a whole number", table["n_correct"])
    # Compared only where both are numbers: one mistake, one fault.
    over = ~bad & ~bad_trials & ~grouped & (correct > trials)
    faults.flag(over, "n_correct", "got {}, more than n_trials", table["n_correct"])
    return {"n_correct": correct, "n_trials": trials}


def _whole(values: FloatArray) -> BoolArray:
    return np.asarray((values >= 0) & (values <= MOST_TRIALS) & (np.floor(values) == values))
