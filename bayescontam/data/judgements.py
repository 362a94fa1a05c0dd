"""Validated tables of judgements on which pairs are duplicates."""

import os
import re
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray
from bayescontam.data.measures import refuse_grouped, with_point
from bayescontam.data.tables import check_table_ending, read_table, write_table
from bayescontam.data.validation import (
    FaultList,
    format_value,
    need_columns,
    read_names,
    read_numbers,
    to_plain_frame,
    validate_unique,
)
from bayescontam.errors import DataError, Fault

KINDS = {
    "exact": "the same task, but for layout, spelling, or names of variables",
    "equivalent": "the same task with the same solution in other words",
    "subset": "the item asks for less than the chunk: a solution of the chunk solves the item",
    "superset": "the item asks for more than the chunk: a solution of the chunk is a part of it",
    "related": "another task of the same topic or method",
    "unrelated": "nothing in common that could help",
}
"""Kinds of pairs, and what they mean; ``subset`` and ``superset`` as seen from the item."""

FORMAT = 2
"""Version of the meaning of kinds. In version 1 ``subset`` and ``superset`` were seen from the
chunk, so that each had the meaning of the other."""
VERSION = "judgements_format"  # column of files of judgements that holds the version
_EXCHANGED = {"subset": "superset", "superset": "subset"}

type Sort = Literal["people", "models", "rules", "trained"]

_IMPLIED = {"exact": 1, "equivalent": 1, "unrelated": 0}
PAIR = ("benchmark", "item", "source", "document", "chunk")  # columns that name a pair
# How the names of judges begin that are language models, fixed rules, and judges trained on the
# judgements of others.
MODEL, RULE, TRAINED = "llm:", "rule:", "trained:"
_SORTS: dict[str, Sort] = {MODEL: "models", RULE: "rules", TRAINED: "trained"}
_VERDICT = ("is_duplicate", "kind", "confidence", "comment")
_COLUMNS = (*PAIR, "judge", *_VERDICT)
_NEEDED = {
    "benchmark": "add one: the benchmark that the item belongs to",
    "item": "add one: the item's name as in the scan",
    "document": "add one: the document's name as in the scan",
    "chunk": "add one: the chunk's number in the document, from 0",
    "judge": "add one: who judged",
    "is_duplicate": "add one: 1, 0, or blank where a pair is not judged",
}
_RUN = re.compile(rf"({MODEL}.+)#(\d+)", re.DOTALL)


def _read_column(table: pd.DataFrame, name: str, faults: FaultList) -> Any:
    """Return one column of judgements, read and checked."""
    cells = table[name]
    if name == "chunk":
        values = refuse_grouped({name: cells}, {name: read_numbers(cells)}, faults)[name]
        fits = (values >= 0) & (values < 2**31) & (values == np.floor(values))
        problem = "got {}, allowed is a whole number, 0 or more"
        faults.flag(~fits & (values != -np.inf), name, problem, cells)
        return np.where(fits, values, np.nan)
    if name == "is_duplicate":
        values = read_numbers(cells, words=True)
        fits = np.isnan(values) | np.isin(values, [0, 1])
        allowed = "1 or yes (a duplicate), 0 or no (none), or blank (unjudged)"
        faults.flag(~fits, name, f"got {{}}, allowed is {allowed}", cells)
        return np.where(fits, values, np.nan)
    if name == "kind":
        kinds = cells.map(_plain).astype("str")
        odd = [not isinstance(cell, str) and not pd.isna(cell) for cell in cells.astype(object)]
        bad = np.array(odd) | ~kinds.isin(["", *KINDS]).to_numpy()
        faults.flag(bad, name, f"got {{}}, allowed is {', '.join(KINDS)}, or blank", cells)
        return kinds
    if name == "confidence":
        pointed = cells.map(with_point)  # from 0 to 1, a comma separates no thousands
        values = read_numbers(pointed)
        commas = [cell for cell in cells if isinstance(cell, str) and with_point(cell) != cell]
        if commas:
            read = f"{commas[0]} was read as {with_point(commas[0])}"
            faults.notes.append(f"{printable(faults.source)}: decimal commas in '{name}': {read}")
        fits = np.isnan(values) | ((values >= 0) & (values <= 1))
        faults.flag(~fits, name, "got {}, allowed is a number from 0 to 1, or blank", cells)
        return values
    if name == "comment":
        # Comments may come from a language model: what no file can hold becomes a mark.
        texts = ["" if pd.isna(cell) else str(cell) for cell in cells.astype(object)]
        safe = [text.encode("utf-8", "replace").decode().replace("\0", "\ufffd") for text in texts]
        return pd.Series(safe, dtype="str")
    # Names of a scan, which are those of its files.
    return read_names(table, name, faults, blank_ok=name == "source", exact=True)


def _plain(cell: Any) -> str:
    return cell.strip().casefold() if isinstance(cell, str) else ""


def _in_this_format(
    table: pd.DataFrame, source: str, *, stored: bool, faults: FaultList
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return a table with kinds as `KINDS` means them, and notes on what was exchanged."""
    if "kind" not in table.columns:
        return table.drop(columns=VERSION, errors="ignore"), ()
    sided: BoolArray = table["kind"].map(_plain).isin(list(_EXCHANGED)).to_numpy()
    if VERSION not in table.columns:
        if stored and sided.any():
            problem = (
                f"{sided.sum():,} rows have the kind 'subset' or 'superset', and no column states"
                " which version of their meaning they follow; an earlier version of bayescontam"
                " used each for the other"
            )
            advice = (
                f"Add a column '{VERSION}': {FORMAT} where 'subset' means that the item asks for"
                " less than the chunk (mostly a duplicate), 1 in a file that an earlier version"
                " wrote; the kinds of 1 are exchanged on reading."
            )
            raise DataError([Fault(source, problem, column="kind")], advice)
        return table, ()
    version = read_numbers(table[VERSION])
    allowed = np.isin(version, range(1, FORMAT + 1)) | (np.isnan(version) & ~sided)
    faults.flag(~allowed, VERSION, f"got {{}}, allowed is 1 to {FORMAT}", table[VERSION])
    old: BoolArray = sided & (version == 1)
    kinds = table["kind"].map(lambda cell: _EXCHANGED.get(_plain(cell), cell))
    table = table.assign(kind=table["kind"].where(~old, kinds)).drop(columns=VERSION)
    note = (
        f"exchanged 'subset' and 'superset' in {old.sum():,} rows: they were written when each"
        " had the meaning of the other"
    )
    return table, (note,) if old.any() else ()


def read_judgements(path: str | os.PathLike[str]) -> "Judgements":
    """Read and validate a file of judgements.

    Parameters
    ----------
    path : path-like
        CSV, TSV, JSON Lines or Parquet file; see `Judgements.from_frame` for its columns. Where
        a row has the kind ``subset`` or ``superset``, ``judgements_format`` is needed.

    Returns
    -------
    Judgements

    Raises
    ------
    UsageError
        If there is no such file, or not of a known kind.
    DataError
        If the table cannot be used; it lists every fault.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> text = "benchmark,item,document,chunk,judge,is_duplicate\\nquiz,q1,d7,0,Ada,yes\\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "judgements.csv")
    ...     _ = file.write_text(text)
    ...     read_judgements(file).frame["is_duplicate"].tolist()
    [1]
    """
    return Judgements.from_frame(read_table(path), source=os.fspath(path), stored=True)


def write_judgements(path: str | os.PathLike[str], judgements: "Judgements") -> None:
    """Write judgements to a file, whole or not at all."""
    check_table_ending(path, "judgements")
    write_table(path, judgements.frame.assign(**{VERSION: FORMAT}))


def sort_of(judge: str) -> Sort:
    """Return what sort of judge a name is of.

    >>> sort_of("rule:verbatim"), sort_of("Ada")
    ('rules', 'people')
    """
    return next((sort for start, sort in _SORTS.items() if judge.startswith(start)), "people")


def run_of(judge: str) -> tuple[str, int]:
    """Return who judged, and in which run, of a name such as ``llm:small#2``."""
    found = _RUN.fullmatch(judge)
    return (found[1], int(found[2])) if found else (judge, 1)


@dataclass(frozen=True, eq=False)
class Judgements:
    """A validated table of judgements; make one with `from_frame`.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``benchmark``, ``item``, ``source`` ("" = not given), ``document``, ``chunk`` (from 0),
        ``judge``, ``is_duplicate`` (Int8: 1, 0, or <NA> = unjudged, which never means clean),
        ``kind`` (one of `KINDS`, or "" = not given), ``confidence`` (0 to 1,
        or NaN = not given), ``comment``.
    source : str
        Where the table came from.
    notes : tuple of str
        What was changed on the way in.
    """

    frame: pd.DataFrame
    source: str
    notes: tuple[str, ...] = ()

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, *, source: str = "DataFrame", stored: bool = False
    ) -> "Judgements":
        """Validate a table of judgements.

        Parameters
        ----------
        frame : pandas.DataFrame
            Needs ``benchmark``, ``item``, ``document``, ``chunk`` (0 or more), ``judge`` and
            ``is_duplicate`` (1, 0, true, false, yes, no, or blank: unjudged). May have
            ``source``, ``kind``, ``confidence`` in [0, 1] and ``comment``; other columns are
            left out, and noted. ``exact`` and ``equivalent`` contradict the verdict 0,
            ``unrelated`` the verdict 1. ``judgements_format`` is the version of the meaning
            of ``subset`` and ``superset``: 2 (default) as `KINDS` defines
            them, 1 with both exchanged, as earlier versions wrote them.
        source : str, default "DataFrame"
            Name of the table in messages.
        stored : bool, default False
            Whether the table was read from a file: without ``judgements_format`` these two
            kinds are then refused, since the file may be of either version.

        Returns
        -------
        Judgements

        Raises
        ------
        DataError
            If the table cannot be used; it lists every fault.
        """
        table = to_plain_frame(frame, source)
        faults = FaultList(source, np.arange(1, len(table) + 1))
        table, notes = _in_this_format(table, source, stored=stored, faults=faults)
        need_columns(table, _NEEDED, _COLUMNS, faults)
        present = [name for name in _COLUMNS if name in table.columns]
        clean = {name: _read_column(table, name, faults) for name in present}
        if {"kind", "is_duplicate"} <= clean.keys():
            implied = clean["kind"].map(_IMPLIED).to_numpy(dtype=float)
            verdict = clean["is_duplicate"]
            bad: BoolArray = ~np.isnan(implied) & ~np.isnan(verdict) & (implied != verdict)
            problem = "got {}, but is_duplicate says the contrary; change one of them"
            faults.flag(bad, "kind", problem, clean["kind"])
        if set(_NEEDED) <= set(present):
            keys = [name for name in present if name not in _VERDICT]
            validate_unique(pd.DataFrame(clean), keys, faults)
        faults.raise_if_any()
        others = [name for name in table.columns if name not in _COLUMNS]
        if others:
            notes += (f"left out columns that judgements do not have: {join_list(others)}",)
        blank = {"source": "", "kind": "", "confidence": np.nan, "comment": ""}
        complete = pd.DataFrame({**clean, **{k: v for k, v in blank.items() if k not in clean}})
        types = {"chunk": "int64", "is_duplicate": "Int8"}
        types |= dict.fromkeys(("source", "kind", "comment"), "str")
        return cls(complete[list(_COLUMNS)].astype(types), source, (*notes, *faults.notes))

    def merged(self, *others: "Judgements", replace: bool = False) -> "Judgements":
        """Join tables of judgements.

        Parameters
        ----------
        *others : Judgements
            Rows that are the same in all columns are one row. Of two rows of the same judge
            on the same pair, a verdict stands for an unjudged one.
        replace : bool, default False
            Whether a later verdict replaces an earlier one.

        Returns
        -------
        Judgements
            In the order in which the pairs of judge and pair first came.

        Raises
        ------
        DataError
            If two verdicts of the same judge on the same pair differ in any column and may not
            be replaced; it lists all.
        """
        return reduce(lambda old, new: _merge(old, new, replace), others, self)


def _merge(old: Judgements, new: Judgements, replace: bool) -> Judgements:
    keys, content = [*PAIR, "judge"], list(_VERDICT)
    at = pd.MultiIndex.from_frame(old.frame[keys]).get_indexer(
        pd.MultiIndex.from_frame(new.frame[keys])
    )
    again = np.flatnonzero(at >= 0)
    before = old.frame[content].iloc[at[again]].reset_index(drop=True)
    after = new.frame[content].iloc[again].reset_index(drop=True)
    same = (before == after).fillna(False) | (before.isna() & after.isna())
    differs: BoolArray = ~same.all(axis=1).to_numpy()
    judged_before, judged_after = (part["is_duplicate"].notna() for part in (before, after))
    if not replace and (bad := differs & judged_before & judged_after).any():
        raise _conflict(old, new.frame.iloc[again[bad]], new.source)
    wins = differs & (judged_after | ~judged_before)
    rows = np.arange(len(old.frame))
    rows[at[again[wins]]] = len(old.frame) + again[wins]
    rows = np.append(rows, len(old.frame) + np.flatnonzero(at < 0))
    # Taken, not set by place: there pandas 3 fails where unjudged rows get verdicts.
    frame = pd.concat([old.frame, new.frame], ignore_index=True).take(rows)
    return Judgements(frame.reset_index(drop=True), old.source, (*old.notes, *new.notes))


def _conflict(old: Judgements, rows: pd.DataFrame, source: str) -> DataError:
    faults = [
        Fault(
            source,
            f"{format_value(row.judge)} judged item {format_value(row.item)}, document "
            f"{format_value(row.document)}, chunk {row.chunk} before, and not the same",
            number + 1,
        )
        for number, row in zip(rows.index.tolist(), rows.itertuples(index=False), strict=True)
    ]
    advice = (
        f"{len(faults):,} judgements differ from those of the same judge on the same pair in "
        f"{printable(old.source)}; correct one of the two ('bayescontam judge import --replace' "
        "takes the new ones)"
    )
    return DataError(faults, advice)
