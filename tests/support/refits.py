"""A model left out of a table: a joint fit, and an update by it of a fit without it."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.updating.update import Update, update

KEYS = ["benchmark", "concept", "quantity"]
FEW = {"draws": 750, "tune": 500, "chains": 4}


class Seconds(NamedTuple):
    """How long something took: of the processor, all threads together, and by the clock."""

    processor: float
    clock: float


class LeftOut(NamedTuple):
    """A joint fit and an update, and how long each took."""

    joint: bayescontam.Fit
    updated: Update
    joint_time: Seconds
    update_time: Seconds


def timed[T](work: Callable[[], T]) -> tuple[T, Seconds]:
    processor, clock = time.process_time(), time.perf_counter()
    done = work()
    return done, Seconds(time.process_time() - processor, time.perf_counter() - clock)


def left_out(
    table: Responses | pd.DataFrame, new: str, model: str, settings: Mapping[str, int] = FEW
) -> LeftOut:
    """Return a joint fit, and the update by one model of a fit without it."""
    frame = table.frame if isinstance(table, Responses) else table
    own = frame["model"] == new
    # First the smaller fit: what it compiles lies in caches when the joint one is timed.
    old = bayescontam.fit(frame[~own], model, seed=2, **settings)
    joint, joint_time = timed(lambda: bayescontam.fit(frame, model, seed=1, **settings))
    updated, update_time = timed(lambda: update(old, frame[own], seed=3, refit="never"))
    assert updated.entries[0].method == "update"
    assert update_time.processor < joint_time.processor
    return LeftOut(joint, updated, joint_time, update_time)


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
