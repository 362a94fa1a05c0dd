"""Validated tables of responses, from files, data frames and covariates."""

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.data.covariates import Covariates, Missing, read_covariates
from bayescontam.data.dates import Dates, Unknown, dated
from bayescontam.data.measures import (
    MEASURES,
    Scale,
    load_measured,
    read_measures,
    refuse_grouped,
)
from bayescontam.data.tools import ADVICE, import_advice
from bayescontam.data.validation import (
    MISSING,
    YES_OR_NO,
    FaultList,
    closest_name,
    filter_rows,
    first_of_group,
    flag_near_duplicates,
    format_value,
    need_columns,
    read_clean,
    read_names,
    read_numbers,
    renamed_columns,
    to_plain_frame,
    validate_constant,
    validate_unique,
)
from bayescontam.errors import DataError, Fault, UsageError

SCORES = ("correct", "n_correct", "n_trials")
MOST_TRIALS = 10**9  # largest ``n_trials`` of a row
type Names = Sequence[str]
_KEYS = ["model", "benchmark", "item"]
PARTICIPANT = "participant"
"""Column of the person who answered, where a model is a group of people."""
LOG_FILE, LOG_SAMPLE = "log_file", "log_sample"
"""Columns of where an answer is: the log by its name in the imported folder, and a sample of it."""
_KNOWN = (*_KEYS, PARTICIPANT, *SCORES, *MEASURES)
_NEEDED = {
    "model": "add one: the name of the model that answered",
    "benchmark": "add one: the benchmark that each item belongs to, one name if there is only one",
    "item": "add one: the name of the item answered",
}
Path = str | os.PathLike[str]


def read_scores(
    table: pd.DataFrame, faults: FaultList, known: Collection[str]
) -> dict[str, FloatArray]:
    """Return the score columns as numbers, NaN where missing; none if they cannot be used."""
    present = [name for name in SCORES if name in table.columns]
    if present == ["correct"]:
        correct = read_numbers(table["correct"], words=True)
        odd = ~np.isin(correct, (0, 1)) & ~np.isnan(correct)
        faults.flag(odd, "correct", f"got {{}}, allowed is {YES_OR_NO}", table["correct"])
        return {"correct": correct}
    if present == ["n_correct", "n_trials"]:
        return _counts(table, faults)
    if "correct" in present:
        faults.add(f"stands beside '{present[1]}'; keep one kind of score", "correct")
    elif present:
        absent = "n_trials" if present == ["n_correct"] else "n_correct"
        need_columns(table, {absent: f"'{present[0]}' needs it"}, known, faults, renamed=True)
    else:
        advice = "give 'correct' (0 or 1), or 'n_correct' with 'n_trials'"
        need_columns(table, {"correct": advice}, known, faults, renamed=True)
    return {}


def _counts(table: pd.DataFrame, faults: FaultList) -> dict[str, FloatArray]:
    cells = {name: table[name] for name in ("n_correct", "n_trials")}
    values = {name: read_numbers(column) for name, column in cells.items()}
    values = refuse_grouped(cells, values, faults)
    correct, trials = values["n_correct"], values["n_trials"]
    grouped = (correct == -np.inf) | (trials == -np.inf)
    bad_trials = ~np.isnan(trials) & ~(_whole(trials) & (trials >= 1)) & ~grouped
    problem = f"got {{}}, allowed is a whole number from 1 to {MOST_TRIALS:,}"
    faults.flag(bad_trials, "n_trials", problem, table["n_trials"])
    bad = ~np.isnan(correct) & ~_whole(correct) & ~grouped
    faults.flag(bad, "n_correct", "got {}, allowed is a whole number", table["n_correct"])
    # Compared only where both are numbers: one mistake, one fault.
    over = ~bad & ~bad_trials & ~grouped & (correct > trials)
    faults.flag(over, "n_correct", "got {}, more than n_trials", table["n_correct"])
    return {"n_correct": correct, "n_trials": trials}


def _whole(values: FloatArray) -> BoolArray:
    return np.asarray((values >= 0) & (values <= MOST_TRIALS) & (np.floor(values) == values))


def read_responses(
    responses: str | os.PathLike[str] | pd.DataFrame,
    *,
    sum_repeats: bool = False,
    drop_missing: bool = False,
    where: str | None = None,
    contamination_scale: Scale = "share",
    columns: Mapping[str, str] | None = None,
) -> "Responses":
    """Read and validate responses from a file or a table.

    Parameters
    ----------
    responses : path-like or pandas.DataFrame
        CSV, TSV, JSON Lines or Parquet file, or a table; see `Responses.from_frame` for its
        columns. Extra columns of CSV and TSV become numbers or true/false where every cell
        allows it. Semicolons between columns and decimal commas are recognised, and noted.
    sum_repeats, drop_missing, where, contamination_scale
        See `Responses.from_frame`.
    columns : mapping of str to str, optional
        For names that responses use the columns of the table that hold them, where they differ,
        such as ``{"model": "llm", "item": "question"}``. `where` uses the names of responses.

    Returns
    -------
    Responses

    Raises
    ------
    UsageError
        If there is no such file or column, or not of a known kind, or `where` cannot be used.
    DataError
        If the table cannot be used; it lists every fault.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "responses.csv")
    ...     _ = file.write_text("model,benchmark,item,correct\\nA,quiz,q1,1\\nA,quiz,q2,0\\n")
    ...     responses = read_responses(file)
    >>> responses.frame["n_correct"].tolist(), responses.models
    ([1, 0], ('A',))
    """
    table, source, notes = load_responses(responses, contamination_scale, columns)
    found = Responses.from_frame(
        table,
        source=source,
        sum_repeats=sum_repeats,
        drop_missing=drop_missing,
        where=where,
        contamination_scale=contamination_scale,
    )
    return found.with_notes(notes)


def load_responses(
    responses: Path | pd.DataFrame, scale: Scale, columns: Mapping[str, str] | None = None
) -> tuple[pd.DataFrame, str, list[str]]:
    """Return a table as it was given, not validated, with its name and notes on its reading."""
    if isinstance(responses, pd.DataFrame):
        frame = to_plain_frame(responses, "DataFrame") if columns else responses
        return renamed_columns(frame, columns or {}, "DataFrame"), "DataFrame", []
    return load_measured(responses, _KNOWN, scale, columns)


def rows_where(table: pd.DataFrame, where: str, source: str) -> tuple[BoolArray, str]:
    """Return which rows of a table an expression chooses, and a note of it."""
    keep = filter_rows(table, where, {n: n == "correct" for n in (*SCORES, *MEASURES)})
    if not keep.any():
        problem = f"none of {len(table):,} rows is left where {printable(where)}"
        raise DataError([Fault(source, problem)], "change the expression")
    used = f"used {keep.sum():,} of {len(table):,} rows"
    return keep, f"{used}: those where {printable(where)}"


@dataclass(frozen=True, eq=False)
class Responses:
    """A validated table of responses; make one with `read_responses` or `from_frame`.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``model``, ``benchmark``, ``item``, ``n_correct``, ``n_trials``, ``contamination`` if
        given, then all other columns. One row per model and item, or for a model that is a
        group of people per participant and item; sorted by benchmark, model and item, each in
        order of first appearance.
    source : str
        Where the table came from.
    notes : tuple of str
        What was left out, summed or filled on the way in.
    from_dates : bool, default False
        Whether contamination is from dates, and so each model's own even if all models have
        the same.
    """

    frame: pd.DataFrame
    source: str
    notes: tuple[str, ...] = ()
    from_dates: bool = False

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        source: str = "DataFrame",
        sum_repeats: bool = False,
        drop_missing: bool = False,
        where: str | None = None,
        contamination_scale: Scale = "share",
    ) -> "Responses":
        """Validate a table of responses.

        Parameters
        ----------
        frame : pandas.DataFrame
            Needs ``model``, ``benchmark``, ``item`` and either ``correct`` (0, 1, true,
            false, yes or no)
            or ``n_correct`` with ``n_trials``. May have ``contamination`` in [0, 1],
            ``participant`` (who answered, where a model is a group of people; blank for other
            models), ``log_file`` and ``log_sample`` (where the answer is, as importers of logs
            write it) and any others.
        source : str, default "DataFrame"
            Name of the table in messages.
        sum_repeats : bool, default False
            Sum rows of the same model, benchmark and item; otherwise they are an error. Of
            ``log_file`` and ``log_sample`` the first row counts.
        drop_missing : bool, default False
            Drop rows without a score; otherwise they are an error.
        where : str, optional
            Pandas query expression over the columns, such as ``"benchmark == 'mmlu'"``. Only
            rows for which it is true are validated and stored. Default: all rows.
        contamination_scale : {"share", "percent", "count"}, default "share"
            What ``contamination`` is: a number from 0 to 1; per cent (``5`` or ``5%`` is 0.05);
            or a count n, such as the documents that hold the item, read as
            log(1 + n) / log(1 + largest n of the table).

        Returns
        -------
        Responses

        Raises
        ------
        UsageError
            If `where` cannot be used.
        DataError
            If the table cannot be used; it lists every fault.
        """
        table = to_plain_frame(frame, source)
        rows = np.arange(1, len(table) + 1)
        notes: list[str] = []
        if where is not None:
            keep, note = rows_where(table, where, source)
            notes.append(note)
            table, rows = table[keep].reset_index(drop=True), rows[keep]
        faults = FaultList(source, rows)
        clean, complete = _clean(table, faults, drop_missing, contamination_scale)
        first = np.arange(len(clean))  # the first row of each response
        if set(_KEYS) <= set(clean.columns) and sum_repeats:
            first = first_of_group(clean, _keys(clean), complete)
            own = [name for name in clean.columns[5:] if name not in (LOG_FILE, LOG_SAMPLE)]
            validate_constant(clean, own, first, faults)
        elif set(_KEYS) <= set(clean.columns):
            advice = "keep one, or sum them (sum_repeats, --sum-repeats)"
            validate_unique(clean, _keys(clean), faults, advice, complete)
        faults.raise_if_any()
        notes += faults.notes
        return cls(_finished(clean, complete, first, source, notes), source, tuple(notes))

    def with_contamination(
        self, covariates: Covariates, *, missing: Missing = "error"
    ) -> "Responses":
        """Return these responses with contamination from covariates.

        Rows are joined on benchmark and item, and on model where the covariates name one.
        ``contamination_sd``, ``p_duplicate`` and ``p_duplicate_sd`` come along if present.

        Parameters
        ----------
        covariates : Covariates
            How contaminated the items are.
        missing : {"error", "zero", "drop", "impute"}, default "error"
            What to do with responses without a covariate: refuse; take their contamination for
            surely 0, if all items were searched and the covariates list those that were found;
            drop them; or fill in the mean over the matched responses of their benchmark (and,
            as the standard error, the standard deviation over these).

        Returns
        -------
        Responses

        Raises
        ------
        UsageError
            If the responses have a contamination already.
        DataError
            If responses are left without a contamination.
        """
        if "contamination" in self.frame.columns:
            raise UsageError(
                f"{printable(self.source)}: has a column 'contamination' already, and covariates "
                f"come from {printable(covariates.source)}; use one of the two"
            )
        frame, notes = covariates.attached_to(self.frame, self.source, missing=missing)
        return Responses(frame, self.source, (*self.notes, *notes))

    def with_dates(
        self, dates: Dates | None = None, *, missing: Unknown = "error", clean: Names = ()
    ) -> "Responses":
        """Return these responses with contamination, and clean models, from dates.

        Contamination is 1 where the item was released on or before the model's cutoff, else 0.
        A model is clean where its cutoff precedes all items of the benchmarks that it answered.
        Dates without a day or month may mean any: items count from the first day, models up to
        the last, so that nothing is taken for clean that may not be.

        Parameters
        ----------
        dates : Dates, optional
            Where the dates are. Default: the columns ``released`` and ``cutoff``.
        missing : {"error", "drop", "impute"}, default "error"
            What to do with responses of which one date is unknown: refuse, drop them, or fill in
            the mean contamination of their benchmark. Unknown dates are never clean.
        clean : sequence of str, optional
            Models that are known to be clean otherwise; their cutoffs may be unknown.

        Returns
        -------
        Responses
            With ``contamination`` and ``clean`` (1 or 0).

        Raises
        ------
        UsageError
            If there is no such column or file.
        DataError
            If dates cannot be read, are unknown, differ from a contamination that is given, or
            say that a model which is declared clean was exposed to items.
        """
        frame, notes = dated(
            self.frame, self.source, dates or Dates(), unknown=missing, clean=tuple(clean)
        )
        return Responses(frame, self.source, (*self.notes, *notes), from_dates=True)

    def with_clean(self, models: Names) -> "Responses":
        """Return these responses with a column ``clean`` that declares models clean.

        Parameters
        ----------
        models : sequence of str
            Models that are known not to have been exposed to the items in training, beside those
            for which a column ``clean`` holds 1 already.

        Returns
        -------
        Responses

        Raises
        ------
        UsageError
            If there is no such model.
        """
        unknown = [name for name in models if name not in self.models]
        if unknown:
            near = closest_name(unknown[0].casefold(), self.models)
            hint = f"did you mean {format_value(near)}? " if near else ""
            raise UsageError(
                f"clean: {printable(self.source)} has no model {join_list(unknown)}; {hint}its "
                f"models are {join_list(self.models)}"
            )
        clean = self.frame["model"].isin(models).to_numpy()
        if "clean" in self.frame.columns:
            clean = clean | read_clean(self.frame["clean"], self.source)
        return replace(self, frame=self.frame.assign(clean=clean.astype(np.int64)))

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, in order of first appearance in `frame`."""
        return tuple(self.frame["model"].unique())

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Names of the benchmarks, in order of first appearance in `frame`."""
        return tuple(self.frame["benchmark"].unique())

    def with_notes(self, notes: Sequence[str]) -> "Responses":
        """Return this with notes on how its table was read, before its own."""
        return replace(self, notes=(*notes, *self.notes)) if notes else self

    @property
    def data_hash(self) -> str:
        """SHA-256 over who solved what how often; other columns and the order do not count."""
        keys = _keys(self.frame)
        codes, found = zip(*(pd.factorize(self.frame[k], sort=True) for k in keys), strict=True)
        names = [list(own) for own in found]
        order = np.lexsort(codes)
        columns = [*codes, *(self.frame[name].to_numpy() for name in ("n_correct", "n_trials"))]
        found = hashlib.sha256(json.dumps([names, len(order)]).encode())
        for column in columns:  # one at a time: all of a large table would not fit in memory
            found.update(column[order].astype("<i8").tobytes())
        return found.hexdigest()


def _keys(frame: pd.DataFrame) -> list[str]:
    """Return the columns of which no two responses have the same values."""
    return [*_KEYS, PARTICIPANT] if PARTICIPANT in frame.columns else _KEYS


def _check_participants(clean: dict[str, Any], faults: FaultList) -> None:
    """Refuse models of which some rows have a participant and others have none."""
    named = (clean[PARTICIPANT] != "") & clean[PARTICIPANT].notna()
    if "model" not in clean:
        return
    groups = named.groupby(clean["model"])
    mixed = groups.transform("any") & ~named
    problem = (
        "blank (or a word for a missing value, such as NA), although other rows of this model have"
        " a participant; a model is a group of people, or not"
    )
    faults.flag(mixed.to_numpy(), PARTICIPANT, problem)


def _clean(
    table: pd.DataFrame, faults: FaultList, drop_missing: bool, scale: Scale
) -> tuple[pd.DataFrame, BoolArray]:
    """Return the table in this package's columns, and which rows have a score or are refused."""
    need_columns(table, _NEEDED, _KNOWN, faults, renamed=True)
    if len(set(_NEEDED) - set(table.columns)) > 1:
        faults.advise(import_advice(faults.source) or ADVICE)
    clean: dict[str, Any] = {
        name: read_names(table, name, faults) for name in _KEYS if name in table.columns
    }
    for column in (name for name in _KEYS if name in clean):
        flag_near_duplicates(clean[column], column, faults)
    if PARTICIPANT in table.columns:
        people = read_names(table, PARTICIPANT, faults, blank_ok=True)
        clean[PARTICIPANT] = people.where(~people.str.strip().str.casefold().isin(MISSING), "")
        flag_near_duplicates(clean[PARTICIPANT], PARTICIPANT, faults)
        _check_participants(clean, faults)
        if (clean[PARTICIPANT] == "").all():
            del clean[PARTICIPANT]
    scores = read_scores(table, faults, _KNOWN)
    missing = np.isnan(list(scores.values()))
    if not drop_missing:
        advice = "missing score; give it, or drop such rows (drop_missing, --drop-missing)"
        for absent, column in zip(missing, scores, strict=True):
            faults.flag(absent, column, advice)
    advice = "fill it, or remove the column and give covariates"
    measures = read_measures(table, faults, advice, scale)
    # A `correct` without trials beside it is one trial a row.
    clean["n_correct"] = next(iter(scores.values()), 0.0)
    clean["n_trials"] = scores.get("n_trials", 1.0)
    if "contamination" in measures:
        clean["contamination"] = measures["contamination"]
    extras = [name for name in table.columns if name not in _KNOWN or name in MEASURES]
    clean = {**{name: measures.get(name, table[name]) for name in extras}, **clean}
    order = [*_KEYS, "n_correct", "n_trials", "contamination"]
    order = [name for name in order if name in clean]
    order += [PARTICIPANT] if PARTICIPANT in clean else []
    order += [name for name in extras if name != "contamination"]
    complete = ~missing.any(axis=0) if drop_missing else np.ones(len(table), dtype=bool)
    return pd.DataFrame({name: clean[name] for name in order}, index=table.index), complete


def _finished(
    clean: pd.DataFrame, complete: BoolArray, first: IntArray, source: str, notes: list[str]
) -> pd.DataFrame:
    if not complete.all():
        dropped = f"{(~complete).sum():,} of {len(complete):,} responses with a missing score"
        if not complete.any():
            raise DataError([Fault(source, f"dropped {dropped}: none is left")])
        notes.append(f"dropped {dropped}")
        # Complete rows only ever point to complete rows; give these their new positions.
        first = (np.cumsum(complete) - 1)[first[complete]]
        clean = clean[complete].reset_index(drop=True)
    counts = ["n_correct", "n_trials"]
    clean = clean.astype(dict.fromkeys(counts, np.int64))
    if (repeats := (first != np.arange(len(first))).sum()) > 0:
        notes.append(
            f"summed {len(first):,} rows into {len(first) - repeats:,} responses "
            "(rows of the same model, benchmark and item)"
        )
        totals = clean[counts].groupby(first).sum()  # by the position of each first row
        clean = clean.iloc[totals.index].reset_index(drop=True)
        clean[counts] = totals.to_numpy()
    item = clean.groupby(["benchmark", "item"], sort=False).ngroup().to_numpy()
    model, benchmark = (pd.factorize(clean[name])[0] for name in ("model", "benchmark"))
    return clean.iloc[np.lexsort((item, model, benchmark))].reset_index(drop=True)


def given_responses(
    responses: Responses | pd.DataFrame | Path,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    missing: Missing = "error",
    contamination_scale: Scale = "share",
    *,
    dates: Dates | None = None,
    clean: Names = (),
) -> Responses:
    """Return responses, with contamination from covariates or dates where they have none."""
    own = "share" if covariates is not None else contamination_scale
    if not isinstance(responses, Responses):
        responses = read_responses(responses, contamination_scale=own)
    elif own != "share":
        raise UsageError(
            f"contamination_scale={own!r}: the responses are read already; say it when they are "
            "read: read_responses(…, contamination_scale=…)"
        )
    if covariates is not None:
        if dates is not None:
            raise UsageError("contamination comes from covariates or from dates; give one of them")
        found = given_covariates(covariates, contamination_scale)
        responses = responses.with_contamination(found, missing=missing)
    elif dates is not None or (
        {"released", "cutoff"} <= set(responses.frame) and "contamination" not in responses.frame
    ):
        if missing == "zero":
            raise UsageError(
                "missing contamination 'zero' is what was searched and not found; an unknown date "
                "is no search: choose drop or impute"
            )
        responses = responses.with_dates(dates, missing=missing, clean=clean)
    return responses.with_clean(clean) if clean else responses


def given_covariates(
    covariates: Covariates | pd.DataFrame | Path, contamination_scale: Scale = "share"
) -> Covariates:
    """Return covariates."""
    if isinstance(covariates, Covariates):
        if contamination_scale != "share":
            raise UsageError(
                f"contamination_scale={contamination_scale!r}: the covariates are read already; "
                "say it when they are read: read_covariates(…, contamination_scale=…)"
            )
        return covariates
    if isinstance(covariates, pd.DataFrame):
        return Covariates.from_frame(covariates, contamination_scale=contamination_scale)
    return read_covariates(covariates, contamination_scale=contamination_scale)
