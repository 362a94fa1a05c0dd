"""A model left out of a table: a joint fit, and an update by it of a fit without it."""

import time

import numpy as np
import pandas as pd

import bayescontam
from bayescontam.responses import Responses
from bayescontam.updating import Update, update

KEYS = ["benchmark", "concept", "quantity"]
FEW = {"draws": 750, "tune": 500, "chains": 4}


def left_out(
    table: Responses | pd.DataFrame, new: str, model: str
) -> tuple[bayescontam.Fit, Update]:
    """Return a joint fit, and the update by one model of a fit without it."""
    frame = table.frame if isinstance(table, Responses) else table
    started = time.perf_counter()
    joint = bayescontam.fit(frame, model, seed=1, **FEW)
    fitted = time.perf_counter()
    old = bayescontam.fit(frame[frame["model"] != new], model, seed=2, **FEW)
    updated = update(old, frame[frame["model"] == new], seed=3, refit="never")
    assert updated.entries[0].method == "update"
    assert updated.entries[0].seconds < fitted - started
    return joint, updated


def compared(joint: bayescontam.Fit, updated: Update) -> pd.DataFrame:
    """Return both answers beside each other, with their difference in Monte Carlo errors."""
    (new,) = updated.estimands()["model"].unique()
    tables = []
    for table in (joint.estimands(), updated.estimands()):
        table = table[(table["model"] == new) & (table["quantity"] != "p_best")]
        table = table.assign(concept=table.get("concept", ""))
        tables.append(table.set_index(KEYS)[["mean", "sd", "mcse_mean"]])
    both = pd.concat({"joint": tables[0], "new": tables[1]}, axis=1)
    error = np.hypot(both["joint", "mcse_mean"], both["new", "mcse_mean"])
    return pd.DataFrame(
        {
            "z": (both["new", "mean"] - both["joint", "mean"]) / error,
            "ratio": both["new", "sd"] / both["joint", "sd"],
        }
    )
