"""Imported: a table of responses made of the trials that an importer found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayescontam.columns import shown
from bayescontam.errors import DataError, Fault
from bayescontam.importers.kept import kept_names, of_one_kind
from bayescontam.importers.left_out import LeftOut
from bayescontam.names import listed, visible
from bayescontam.responses import Responses

KEYS = ["model", "benchmark", "item"]


@dataclass(frozen=True, eq=False)
class Imported:
    """Responses, and what an importer read and left out to make them.

    Attributes
    ----------
    responses : Responses
        One row for each model and item, repeats added up; sorted by benchmark, model and item.
        Beside ``n_correct`` and ``n_trials`` the columns that were kept.
    read : pandas.DataFrame
        A row for each benchmark: ``benchmark``, what was ``chosen``, numbers of ``models``,
        ``runs``, ``items``, ``responses`` and ``trials``, the fewest and most trials of a
        response (``trials_each``), and the share of trials that are ``correct``.
    left_out : pandas.DataFrame
        ``where`` (benchmark or file), ``reason`` and how many trials were ``left_out``.
    notes : tuple of str
        What else to know.
    """

    responses: Responses
    read: pd.DataFrame
    left_out: pd.DataFrame
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
) -> Imported:
    """Add up trials to responses.

    Parameters
    ----------
    trials : pandas.DataFrame
        ``model``, ``benchmark``, ``item``, ``correct`` (0 or 1), ``run`` (which log a trial is
        from), and columns to keep; see `bayescontam.importers.kept.Kept`.
    left_out : LeftOut
        What was left out so far.
    chosen : mapping of str to str
        For each benchmark what was chosen, such as a metric.
    notes : sequence of str, optional
        What else to know.
    source : str
        Name of the logs in messages.

    Returns
    -------
    Imported

    Raises
    ------
    DataError
        If nothing is left, kept columns differ between trials, or names cannot be used.
    """
    left_out.raise_if_broken()
    if trials.empty:
        reasons = "; ".join(
            f"{where}: {reason} ({count:,})"
            for where, reason, count in left_out.frame().itertuples(index=False)
        )
        problem = f"no scored trial is left; left out: {visible(reasons) or 'nothing'}"
        raise DataError([Fault(source, problem)], "check that these are the logs that you mean")
    kept = kept_names(trials)
    _check_kept(trials, kept, source)
    groups = trials.groupby(KEYS, sort=True, observed=True)
    frame = groups.agg(n_correct=("correct", "sum"), n_trials=("correct", "size"))
    if kept:
        own = groups[list(kept)].first(skipna=False).rename(columns=kept)
        frame = frame.join(own.apply(of_one_kind))
    frame = frame.reset_index().astype({"n_correct": np.int64, "n_trials": np.int64})
    frame = frame.sort_values(["benchmark", "model", "item"], kind="stable", ignore_index=True)
    responses = Responses.from_frame(frame, source=source)
    read = _read(trials, responses.frame, chosen)
    return Imported(responses, read, left_out.frame(), tuple(notes))


def _check_kept(trials: pd.DataFrame, kept: Mapping[str, str], source: str) -> None:
    """Refuse kept columns that differ between the trials of a response."""
    faults = []
    for column, name in kept.items():
        values = trials[[*KEYS, column]].drop_duplicates()
        twice = values.duplicated(KEYS, keep=False)
        if twice.any():
            model, benchmark, item = values.loc[twice, KEYS].iloc[0]
            found = listed(map(str, values.loc[twice, column].iloc[:3]))
            where = f"{shown(model)} on {shown(item)} of {shown(benchmark)}"
            problem = f"differs between trials that would be added up: {found} for {where}"
            faults.append(Fault(source, problem, column=name))
    if faults:
        raise DataError(faults, "leave such columns out of what is kept (--keep)")


def _read(trials: pd.DataFrame, table: pd.DataFrame, chosen: Mapping[str, str]) -> pd.DataFrame:
    runs = trials.groupby("benchmark")["run"].nunique()
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
