"""A model left out of a table: a joint fit, and an update by it of a fit without it."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

import bayescontam
from bayescontam.responses import Responses
from bayescontam.updating import Update, update

KEYS = ["benchmark", "concept", "quantity"]
FEW = {"draws": 750, "tune": 500, "chains": 4}


class LeftOut(NamedTuple):
    """A joint fit and an update, with the processor time of each in seconds."""

    joint: bayescontam.Fit
    updated: Update
    joint_seconds: float
    update_seconds: float


def left_out(
    table: Responses | pd.DataFrame, new: str, model: str, settings: Mapping[str, int] = FEW
) -> LeftOut:
    """Return a joint fit, and the update by one model of a fit without it."""
    frame = table.frame if isinstance(table, Responses) else table
    started = time.process_time()
    joint = bayescontam.fit(frame, model, seed=1, **settings)
    fitted = time.process_time()
    old = bayescontam.fit(frame[frame["model"] != new], model, seed=2, **settings)
    ready = time.process_time()
    updated = update(old, frame[frame["model"] == new], seed=3, refit="never")
    ended = time.process_time()
    assert updated.entries[0].method == "update"
    assert ended - ready < fitted - started
    return LeftOut(joint, updated, fitted - started, ended - ready)


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
