"""Scores of how well a model knows the texts of items, with controls that are known clean."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._text import join_list
from bayescontam.data.tables import read_table
from bayescontam.data.validation import (
    FaultList,
    flag_near_duplicates,
    need_columns,
    read_names,
    read_numbers,
    renamed_columns,
    to_plain_frame,
    validate_unique,
)
from bayescontam.errors import UsageError

_KEYS = ("model", "benchmark", "item")
_COUNTS = ("n_correct", "n_trials")
_COLUMNS = (*_KEYS, "control", *_COUNTS, "score")
_NEEDED = {
    "model": "add one: the model whose score it is",
    "benchmark": "add one: the benchmark that the item belongs to",
    "item": "add one: the item's name as in the responses",
    "control": "add one: 1 where the model cannot have seen the item (rewritten, newer than its"
    " cutoff, never published), else 0",
}


def read_scores(
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    lower_is_seen: bool = False,
) -> "ModelScores":
    """Read and validate a file of scores of models on the texts of items.

    Parameters
    ----------
    path : path-like
        CSV, TSV, JSON Lines or Parquet file; see `ModelScores.from_frame` for its columns.
    columns, lower_is_seen
        See `ModelScores.from_frame`.

    Returns
    -------
    ModelScores

    Raises
    ------
    UsageError
        If there is no such file or column, or not of a known kind.
    DataError
        If the table cannot be used; it lists every fault.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "scores.csv")
    ...     _ = file.write_text("model,benchmark,item,mink,new\\na,quiz,1,-3,0\\na,quiz,2,-5,1\\n")
    ...     scores = read_scores(file, columns={"score": "mink", "control": "new"})
    >>> scores.frame["score"].tolist(), scores.frame["control"].tolist()
    ([-3.0, -5.0], [False, True])
    """
    return ModelScores.from_frame(
        read_table(path), source=os.fspath(path), columns=columns, lower_is_seen=lower_is_seen
    )


@dataclass(frozen=True, eq=False)
class ModelScores:
    """A validated table of scores by model and item; make one with `from_frame`.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``model``, ``benchmark``, ``item``, ``control`` (bool: the model cannot have seen the
        item) and ``score`` (higher: likelier seen; the share of completed trials where counts
        were given).
    counts : bool
        Whether the scores are shares of trials, which models have in common.
    source : str
        Where the table came from.
    notes : tuple of str
        What was changed on the way in.
    """

    frame: pd.DataFrame
    counts: bool
    source: str
    notes: tuple[str, ...] = ()

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        source: str = "DataFrame",
        columns: Mapping[str, str] | None = None,
        lower_is_seen: bool = False,
    ) -> "ModelScores":
        """Validate a table of scores.

        Parameters
        ----------
        frame : pandas.DataFrame
            Needs ``model``, ``benchmark``, ``item``, ``control`` (1, 0, true or false: whether
            the model cannot have seen the item) and either ``n_correct`` and ``n_trials``, such
            as the n-grams of the item that the model completes, or ``score``, a number such as
            Min-K %. Other columns are left out, and noted.
        source : str, default "DataFrame"
            Name of the table in messages.
        columns : mapping of str to str, optional
            For names above the columns of `frame` that hold them, where they differ, such as
            ``{"control": "rewritten"}``. Default: the same names.
        lower_is_seen : bool, default False
            Whether lower scores are those of items that were seen, as of a loss.

        Returns
        -------
        ModelScores

        Raises
        ------
        UsageError
            If `columns` cannot be used, or `lower_is_seen` is set for counts.
        DataError
            If the table cannot be used; it lists every fault.
        """
        table = renamed_columns(to_plain_frame(frame, source), columns or {}, source, _COLUMNS)
        faults = FaultList(source, np.arange(1, len(table) + 1))
        counts = "score" not in table.columns and any(name in table.columns for name in _COUNTS)
        if lower_is_seen and counts:
            raise UsageError(
                "lower_is_seen: is for a number 'score'; of counts, more are completed where the"
                " item was seen"
            )
        measure = _COUNTS if counts else ("score",)
        number = "add one: how likely the item was seen, or n_correct and n_trials"
        needed = _NEEDED | {name: "add one: a whole number" for name in _COUNTS if counts}
        needed |= {} if counts else {"score": number}
        need_columns(table, needed, _COLUMNS, faults, renamed=True)
        if both := [name for name in _COUNTS if not counts and name in table.columns]:
            faults.add(f"stands beside {join_list(both)}; leave one of the two away", "score")
        clean: dict[str, Any] = {
            name: read_names(table, name, faults) for name in _KEYS if name in table.columns
        }
        for name, names in clean.items():
            flag_near_duplicates(names, name, faults)
        if "control" in table.columns:
            control = read_numbers(table["control"], words=True)
            problem = "got {}, allowed is 1 (known clean for this model) or 0 (unknown)"
            faults.flag(~np.isin(control, [0, 1]), "control", problem, table["control"])
            clean["control"] = control == 1
        values = {name: read_numbers(table[name]) for name in measure if name in table.columns}
        for name, numbers in values.items():
            faults.flag(np.isnan(numbers), name, "missing value; give it, or remove the row")
            odd = np.isinf(numbers)
            faults.flag(odd, name, "got {}, allowed is a finite number", table[name])
        if set(_COUNTS) <= values.keys():
            _check_counts(table, values["n_correct"], values["n_trials"], faults)
        if set(_KEYS) <= clean.keys():
            validate_unique(pd.DataFrame({name: clean[name] for name in _KEYS}), [*_KEYS], faults)
        faults.raise_if_any()
        if counts:
            _refuse_mixed_trials(clean["model"], values["n_trials"], faults)
            clean["score"] = values["n_correct"] / values["n_trials"]
        else:
            clean["score"] = -values["score"] if lower_is_seen else values["score"]
        notes = list(faults.notes)
        if others := [name for name in table.columns if name not in _COLUMNS]:
            notes.append(f"left out columns that scores do not have: {join_list(others)}")
        ordered = pd.DataFrame(clean)[[*_KEYS, "control", "score"]]
        return cls(ordered, counts, source, tuple(notes))


def _check_counts(table: pd.DataFrame, correct: Any, trials: Any, faults: FaultList) -> None:
    finite = np.isfinite(correct) & np.isfinite(trials)
    whole = (correct == np.floor(correct)) & (trials == np.floor(trials))
    bad = finite & ~((trials >= 1) & whole)
    faults.flag(bad, "n_trials", "got {}, allowed are whole numbers, 1 or more", table["n_trials"])
    bad = finite & (trials >= 1) & ~((correct >= 0) & (correct <= trials) & whole)
    problem = "got {}, allowed is a whole number from 0 to n_trials"
    faults.flag(bad, "n_correct", problem, table["n_correct"])


def _refuse_mixed_trials(models: pd.Series, trials: Any, faults: FaultList) -> None:
    """Refuse models whose items have different numbers of trials, which no level compares."""
    sizes = pd.Series(trials).groupby(models.to_numpy()).nunique()
    if mixed := list(sizes.index[sizes > 1]):
        faults.add(f"differs between items of {join_list(mixed)}", "n_trials")
        faults.raise_if_any(
            "Give all items of a model the same number of trials; or, where controls have numbers"
            " of trials like the other items', give the share as a column 'score'."
        )
