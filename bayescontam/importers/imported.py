"""Imported: a table of responses made of the trials that an importer found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayescontam.columns import shown
from bayescontam.errors import DataError, Fault
from bayescontam.importers.extra_columns import extra_names, of_one_kind
from bayescontam.importers.groups import Groups
from bayescontam.importers.identity import KEYS, Copies, Texts, distinct
from bayescontam.importers.left_out import LeftOut
from bayescontam.names import listed, visible
from bayescontam.responses import Responses

_FEW = 10
"""Items from which on a model that has all of them right, or none, is named."""
_DEFAULTS = {"trial": "", "answer": None, "content": None, "out_of": 1}


@dataclass(frozen=True, eq=False)
class Imported:
    """Responses, and what an importer read and left out to make them.

    Attributes
    ----------
    responses : Responses
        One row for each model and item, repeats added up; sorted by benchmark, model and item.
        In addition to ``n_correct`` and ``n_trials`` the extra columns.
    read : pandas.DataFrame
        A row for each benchmark: ``benchmark``, what was ``chosen``, numbers of ``models``,
        ``runs``, ``items``, ``responses`` and ``trials``, the fewest and most trials of a
        response (``trials_each``), and the share of trials that are ``correct``.
    left_out : pandas.DataFrame
        ``where`` (benchmark or file), ``reason`` and how many trials were ``left_out``.
    runs : pandas.DataFrame
        A row for each model, benchmark and log: ``file``, ``run``, number of ``trials``, how many
        of them ``count``, and ``same_as``, the file that has the others too. Subtasks of a group
        are benchmarks here.
    notes : tuple of str
        What else to know.
    """

    responses: Responses
    read: pd.DataFrame
    left_out: pd.DataFrame
    runs: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def frame(self) -> pd.DataFrame:
        """The table of `responses`."""
        return self.responses.frame


def imported(
    trials: pd.DataFrame,
    left_out: LeftOut,
    *,
    chosen: Mapping[str, str],
    notes: Sequence[str] = (),
    source: str,
    groups: Groups | None = None,
    copies: Copies = "leave-out",
    texts: Texts = "refuse",
) -> Imported:
    """Add up trials to responses."""
    left_out.raise_if_broken()
    if trials.empty:
        reasons = "; ".join(
            f"{where}: {reason} ({count:,})"
            for where, reason, count in left_out.frame().itertuples(index=False)
        )
        problem = f"no scored trial is left; left out: {visible(reasons) or 'nothing'}"
        raise DataError([Fault(source, problem)], "check that these are the logs that you mean")
    missing = {name: value for name, value in _DEFAULTS.items() if name not in trials}
    trials = trials.reset_index(drop=True).assign(**missing)
    found = distinct(trials, left_out, copies=copies, texts=texts)
    trials = found.trials
    if groups is not None:
        trials, chosen = groups.applied(trials, chosen)
    extra = extra_names(trials)
    _check_extra(trials, extra, source)
    grouped = trials.groupby(KEYS, sort=True, observed=True)
    frame = grouped.agg(n_correct=("correct", "sum"), n_trials=("out_of", "sum"))
    if extra:
        own = grouped[list(extra)].first(skipna=False).rename(columns=extra)
        frame = frame.join(own.apply(of_one_kind))
    frame = frame.reset_index().astype({"n_correct": np.int64, "n_trials": np.int64})
    frame = frame.sort_values(["benchmark", "model", "item"], kind="stable", ignore_index=True)
    responses = Responses.from_frame(frame, source=source)
    read = _read(trials, responses.frame, chosen)
    more = [*notes, *found.notes, *_extremes(responses.frame)]
    return Imported(responses, read, left_out.frame(), found.runs, tuple(more))


def _extremes(table: pd.DataFrame) -> list[str]:
    """Name models that have every item right, or none: often an artefact."""
    sums = table.groupby(["benchmark", "model"])[["n_correct", "n_trials"]].sum()
    sums["items"] = table.groupby(["benchmark", "model"]).size()
    notes = []
    for word, at in (("right", sums["n_trials"]), ("wrong", 0)):
        found = sums[(sums["n_correct"] == at) & (sums["items"] >= _FEW)].reset_index()
        notes += [
            f"{visible(row['model'], 80)} on {visible(row['benchmark'], 60)}: all "
            f"{row['items']:,} items are {word}; make sure that this is no artefact"
            for _, row in found.iterrows()
        ]
    return notes


def _check_extra(trials: pd.DataFrame, extra: Mapping[str, str], source: str) -> None:
    """Refuse extra columns that differ between the trials of a response."""
    faults = []
    for column, name in extra.items():
        values = trials[[*KEYS, column]].drop_duplicates()
        twice = values.duplicated(KEYS, keep=False)
        if twice.any():
            model, benchmark, item = values.loc[twice, KEYS].iloc[0]
            found = listed(map(str, values.loc[twice, column].iloc[:3]))
            where = f"{shown(model)} on {shown(item)} of {shown(benchmark)}"
            problem = f"differs between trials that would be added up: {found} for {where}"
            faults.append(Fault(source, problem, column=name))
    if faults:
        raise DataError(faults, "leave such columns out of --keep")


def _read(trials: pd.DataFrame, table: pd.DataFrame, chosen: Mapping[str, str]) -> pd.DataFrame:
    runs = trials[["benchmark", "model", "run"]].drop_duplicates()["benchmark"].value_counts()
    rows = []
    for benchmark, part in table.groupby("benchmark", sort=False):
        least, most = part["n_trials"].min(), part["n_trials"].max()
        rows.append(
            {
                "benchmark": benchmark,
                "chosen": chosen.get(str(benchmark), ""),
                "models": part["model"].nunique(),
                "runs": int(runs[benchmark]),
                "items": part["item"].nunique(),
                "responses": len(part),
                "trials": int(part["n_trials"].sum()),
                "trials_each": str(least) if least == most else f"{least} to {most}",
                "correct": float(part["n_correct"].sum() / part["n_trials"].sum()),
            }
        )
    return pd.DataFrame(rows)
