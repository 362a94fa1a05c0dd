"""Where in which log the answer of each response is: what a fit stores of it."""

from collections.abc import Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam.data.responses import LOG_FILE, LOG_SAMPLE, Responses


def samples_of(responses: Responses) -> dict[str, "pd.Series[str]"]:
    """Return where in which log each answer is, in the order of a design; nothing if unknown."""
    frame = responses.frame
    if LOG_FILE not in frame:
        return {}
    # Responses of one trial are the first rows of a design.
    order = np.argsort((frame["n_trials"] > 1).to_numpy(), kind="stable")
    given = [name for name in (LOG_FILE, LOG_SAMPLE) if name in frame]
    found = {
        name: frame[name].astype("string").str.strip().fillna("").iloc[order] for name in given
    }
    files = {name: _without_place(str(name)) for name in found[LOG_FILE].unique()}
    found[LOG_FILE] = found[LOG_FILE].map(files)
    return found if any(files.values()) else {}


def _without_place(file: str) -> str:
    """Return the name of a log; of one that stands with its place on a machine, the last part."""
    away = PurePosixPath(file).is_absolute() or PureWindowsPath(file).drive
    name = PureWindowsPath(file).name if away else file
    return "" if name == ".." else name


def stored_samples(tree: xr.DataTree, rows: Any = slice(None)) -> pd.DataFrame | None:
    """Return ``log_file`` and ``log_sample`` of responses; None where a fit stores none."""
    data = tree["constant_data"].to_dataset()
    if f"{LOG_FILE}_of_response" not in data:
        return None
    columns = {
        name: data[name].to_numpy().astype(object)[data[f"{name}_of_response"].to_numpy()[rows]]
        for name in (LOG_FILE, LOG_SAMPLE)
        if name in data
    }
    return pd.DataFrame({LOG_FILE: "", LOG_SAMPLE: ""} | columns, dtype="str")


def sample_table(tree: xr.DataTree, items: str | Sequence[str] | None) -> pd.DataFrame:
    """Return where in the logs answers are; see `Fit.samples`."""
    data = tree["constant_data"].to_dataset()
    rows = np.arange(data.sizes["response"])
    if items is not None:
        wanted = pd.unique(np.array([items] if isinstance(items, str) else [*items], dtype=object))
        place = pd.Index(wanted).get_indexer(data["item"].to_numpy().astype(object))
        place = place[data["item_of_response"].to_numpy()]
        rows = np.flatnonzero(place >= 0)
        rows = rows[np.argsort(place[rows], kind="stable")]
    known = stored_samples(tree, rows)
    if known is None:
        rows, known = rows[:0], pd.DataFrame({LOG_FILE: [], LOG_SAMPLE: []}, dtype="str")
    table = pd.DataFrame()
    for name in ("model", "benchmark", "item"):
        labels = data[name].to_numpy().astype(object)
        table[name] = pd.Series(labels[data[f"{name}_of_response"].to_numpy()[rows]], dtype="str")
    table["n_correct"] = tree["observed_data"]["n_correct"].to_numpy()[rows]
    table["n_trials"] = data["n_trials"].to_numpy()[rows]
    return table.join(known)[known[LOG_FILE] != ""].reset_index(drop=True)
