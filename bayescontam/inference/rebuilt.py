"""The responses that a fit was made of, and what is stored to rebuild them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam._text import join_list
from bayescontam.data.responses import PARTICIPANT, Responses
from bayescontam.errors import FitError
from bayescontam.inference.logged import stored_samples
from bayescontam.model.design import Design
from bayescontam.model.lineage import BASE, CHECKPOINT, RUN
from bayescontam.specs.model import ModelSpec

TASK = "task"
"""Column of the task that an item belongs to, such as that of a test input of ARC."""


def tasks_of(responses: Responses, design: Design) -> "tuple[pd.Series[str] | None, list[str]]":
    """Return the task of each item, None where none are known, and notes of what is not used."""
    frame = responses.frame
    if TASK not in frame:
        return None, []
    frame = frame.iloc[np.argsort((frame["n_trials"] > 1).to_numpy(), kind="stable")]
    text = frame[TASK].astype("string").str.strip()
    known = pd.DataFrame({"item": design.item, "task": text.to_numpy(dtype=object, na_value="")})
    known = known[known["task"] != ""].drop_duplicates()
    if known.empty:
        return None, []
    several = known.loc[known["item"].duplicated(), "item"].unique()
    if len(several):
        names = join_list([design.items[k] for k in several], 3)
        return None, [
            f"the table's column '{TASK}' is not used: {len(several):,} of {len(design.items):,}"
            f" items have rows of several tasks ({names}); give each item one task"
        ]
    found = known.set_index("item")["task"].reindex(range(len(design.items)))
    blank = found.isna().to_numpy()
    # Benchmarks may use one name for different tasks.
    owner = design.benchmark_of_item
    pairs = pd.DataFrame({"task": found, "owner": owner})[~blank].drop_duplicates()
    if pairs["task"].duplicated().any():
        found = found.str.cat(np.array(design.benchmarks, dtype=object)[owner], sep="/")
    # An item without a task is one of its own, whose name is that of no other.
    own, taken = np.array(design.items, dtype=object)[blank], set(found[~blank])
    while taken & set(own):
        own = "item " + own
    found[blank] = own
    notes = []
    if len(own):
        notes.append(
            f"the table's column '{TASK}' is blank for {len(own):,} of {len(found):,} items: each"
            " is a task of its own"
        )
    return found.astype(str), notes


def rebuild_responses(tree: xr.DataTree, spec: ModelSpec, record: dict[str, Any]) -> Responses:
    """Return the responses that a fit was made of."""
    data = tree["constant_data"].to_dataset()
    correct = tree["observed_data"]["n_correct"].to_numpy()
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
    block = spec.contamination
    if block.clean_column and "clean" in data:
        clean = data["clean"].to_numpy().astype(int)
        frame[block.clean_column] = clean[data["model_of_response"].to_numpy()]
    of_model = data["model_of_response"].to_numpy()
    if "base_of_model" in data:
        frame[BASE] = data["base"].to_numpy()[data["base_of_model"].to_numpy()][of_model]
    if "kind_of_response" in data:
        kinds = data["duplicate_kind"].to_numpy()
        frame[block.kinds] = kinds[data["kind_of_response"].to_numpy()]
    for name in (name for name in (CHECKPOINT, RUN) if name in data):
        frame[name] = data[name].to_numpy()[of_model]
    if "participant_of_response" in data:
        known_as = np.append(data["name_of_participant"].to_numpy().astype(object), "")
        frame[PARTICIPANT] = known_as[data["participant_of_response"].to_numpy()]
    if "concept" in data.dims:
        names = _unit_names(data)
        frame[spec.ability.by] = names[data["concept_of_response"].to_numpy()]
    if "task_of_item" in data:
        task = data["task"].to_numpy()[data["task_of_item"].to_numpy()]
        frame[TASK] = task[data["item_of_response"].to_numpy()]
    if (samples := stored_samples(tree)) is not None:
        frame = frame.join(samples)
    # Sorted by benchmark and model, as a table of responses is; items stay in their order.
    order = np.lexsort((data["model_of_response"].to_numpy(), benchmark))
    source, known = record["data"]["source"], record["data"]["hash"]
    for names in _candidates(data, "item"):
        frame["item"] = names[data["item_of_response"].to_numpy()]
        responses = Responses(frame.iloc[order].reset_index(drop=True), source)
        if responses.data_hash == known:
            return responses
    raise FitError(
        f"the responses to {source} cannot be rebuilt from the fit; give them"
        " (responses=, --responses)"
    )


def _candidates(data: xr.Dataset, dim: str) -> Iterator[np.ndarray]:
    """Yield labels of a dim, and without the benchmark that a fit puts before some."""
    labels = data[dim].to_numpy().astype(object)
    yield labels
    owner = data["benchmark"].to_numpy()[data[f"benchmark_of_{dim}"].to_numpy()]
    for pattern in ("{0}/", "{1}:{0}/"):
        starts = [pattern.format(name, len(name)) for name in owner]
        pairs = list(zip(labels, starts, strict=True))
        if all(label.startswith(start) for label, start in pairs):
            yield np.array([label[len(start) :] for label, start in pairs], dtype=object)


def _unit_names(data: xr.Dataset) -> np.ndarray:
    """Return names of concepts; without the benchmark if only that made them differ."""
    first, *shorter = _candidates(data, "concept")
    for names in shorter:
        if len(set(names)) < len(names):
            return names
    return first
