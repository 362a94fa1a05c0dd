"""Participants of models that are groups of people, as index arrays."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, IntArray
from bayescontam.data.responses import PARTICIPANT
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.specs.model import ModelSpec


@dataclass(frozen=True, eq=False)
class People:
    """The participants of a table, and the items that each group of them answered."""

    labels: tuple[str, ...]  # of participants: names, after the model's where two have one name
    names: tuple[str, ...]  # of participants, as the table has them
    pairs: tuple[str, ...]  # of a group and an item: labels
    grouped: BoolArray  # dims (model,): whether a model is a group of people


def make_people(
    spec: ModelSpec, frame: pd.DataFrame, source: str, model: IntArray, item: IntArray
) -> tuple[People, IntArray, IntArray] | None:
    """Return the people of a table, and each response's participant and pair; None without any.

    Both positions have dims (response,), and are -1 for models that are no groups of people.
    """
    if PARTICIPANT not in frame:
        return None
    named = (frame[PARTICIPANT] != "").to_numpy()
    _refuse(spec, frame[named], source)
    participant, pair = np.full(len(frame), -1), np.full(len(frame), -1)
    own = frame.loc[named, ["model", PARTICIPANT]]
    participant[named], people = pd.factorize(pd.MultiIndex.from_frame(own))
    names = [str(name) for _, name in people]
    labels = names
    if len(set(names)) < len(names):
        labels = [f"{group}/{name}" for group, name in people]
    if len(set(labels)) < len(labels):
        labels = [f"{len(group)}:{group}/{name}" for group, name in people]
    cells = np.stack([model[named], item[named]])
    _, first, pair[named] = np.unique(cells, axis=1, return_index=True, return_inverse=True)
    of_pairs = frame.loc[named, ["model", "benchmark", "item"]].iloc[first]
    grouped = np.zeros(int(model.max()) + 1, dtype=bool)
    grouped[model[named]] = True
    pairs = [*of_pairs.astype(str).agg("/".join, axis=1)]
    if len(set(pairs)) < len(pairs):
        sized = of_pairs.astype(str).map(lambda name: f"{len(name)}:{name}")
        pairs = [*sized.agg("/".join, axis=1)]
    return People(tuple(labels), tuple(names), tuple(pairs), grouped), participant, pair


def _refuse(spec: ModelSpec, frame: pd.DataFrame, source: str) -> None:
    if reason := spec.without_participants:
        raise UsageError(
            f"{printable(source)}: has participants of {join_list(frame['model'].unique(), 3)}, and"
            f" in the model spec '{spec.name}' {reason}, with which participants are not supported;"
            " use ability or concepts, or remove the column 'participant' and sum the rows of an"
            " item (sum_repeats, --sum-repeats), which takes its participants for repeats"
        )
    several = frame["n_trials"] > 1
    if several.any():
        first: Any = frame[several].iloc[0]
        problem = (
            f"'{printable(first[PARTICIPANT], 60)}' has {first['n_trials']} trials at"
            f" '{printable(first['item'], 60)}' ({several.sum():,} such rows); allowed is one"
        )
        advice = "Count an item as solved or not by each participant, as with up to three attempts."
        raise DataError([Fault(source, problem, column=PARTICIPANT)], advice)
