"""Remembered: the responses of a fit, rebuilt from its file."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam.errors import FitError
from bayescontam.inference.fitted import Fit
from bayescontam.responses import Responses

Labels = np.ndarray


def remembered(fit: Fit) -> Responses:
    """Return the responses that a fit was made of."""
    data = fit.tree["constant_data"].to_dataset()
    correct = fit.tree["observed_data"]["n_correct"].to_numpy()
    benchmark = data["benchmark_of_response"].to_numpy()
    frame = pd.DataFrame(
        {
            "model": data["model"].to_numpy()[data["model_of_response"].to_numpy()],
            "benchmark": data["benchmark"].to_numpy()[benchmark],
            "item": "",
            "n_correct": correct,
            "n_trials": data["n_trials"].to_numpy(),
        }
    )
    if "contamination" in data:
        frame["contamination"] = data["contamination"].to_numpy()
    if "guess_of_item" in data:
        frame["guess"] = data["guess_of_item"].to_numpy()[data["item_of_response"].to_numpy()]
    block = fit.spec.contamination
    if block.clean_column and "clean" in data:
        clean = data["clean"].to_numpy().astype(int)
        frame[block.clean_column] = clean[data["model_of_response"].to_numpy()]
    if "concept" in data.dims:
        names = _unit_names(data)
        frame[fit.spec.ability.by] = names[data["concept_of_response"].to_numpy()]
    # Sorted by benchmark and model, as a table of responses is; items stay in their order.
    order = np.lexsort((data["model_of_response"].to_numpy(), benchmark))
    source, known = fit.record["data"]["source"], fit.record["data"]["hash"]
    for names in _candidates(data, "item"):
        frame["item"] = names[data["item_of_response"].to_numpy()]
        responses = Responses(frame.iloc[order].reset_index(drop=True), source)
        if responses.data_hash == known:
            return responses
    raise FitError(
        f"the responses to {source} cannot be rebuilt from the fit; give them"
        " (responses=, --responses)"
    )


def _candidates(data: xr.Dataset, dim: str) -> Iterator[Labels]:
    """Yield the labels of a dim as they are, and without the benchmark before them.

    A fit puts the benchmark first where two benchmarks use one name.
    """
    labels = data[dim].to_numpy().astype(object)
    yield labels
    owner = data["benchmark"].to_numpy()[data[f"benchmark_of_{dim}"].to_numpy()]
    for pattern in ("{0}/", "{1}:{0}/"):
        starts = [pattern.format(name, len(name)) for name in owner]
        pairs = list(zip(labels, starts, strict=True))
        if all(label.startswith(start) for label, start in pairs):
            yield np.array([label[len(start) :] for label, start in pairs], dtype=object)


def _unit_names(data: xr.Dataset) -> Labels:
    """Return names of concepts; without the benchmark if only that made them differ."""
    first, *shorter = _candidates(data, "concept")
    for names in shorter:
        if len(set(names)) < len(names):
            return names
    return first
