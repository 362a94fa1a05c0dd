"""Judged: the columns of judgements, read and checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._types import BoolArray, FloatArray
from bayescontam.columns import FaultList, read_names, read_numbers, refuse_grouped, with_point
from bayescontam.errors import DataError, Fault
from bayescontam.names import visible

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
VERSION = "judgements_format"
"""Column of files of judgements that holds the version."""
_EXCHANGED = {"subset": "superset", "superset": "subset"}

_UNCLEAR = (
    "{:,} rows have the kind 'subset' or 'superset', and no column states which version of their"
    " meaning they follow; an earlier version of bayescontam used each for the other"
)
_STATE = (
    f"Add a column '{VERSION}': {FORMAT} where 'subset' means that the item asks for less than"
    " the chunk (mostly a duplicate), 1 in a file that an earlier version wrote; the kinds of 1"
    " are exchanged on reading."
)
_IMPLIED = {"exact": 1, "equivalent": 1, "unrelated": 0}
_WORDS = {"yes": "1", "no": "0"}


def read_judged(table: pd.DataFrame, name: str, faults: FaultList) -> Any:
    """Return one column of judgements, read and checked."""
    cells = table[name]
    if name == "chunk":
        values = refuse_grouped({name: cells}, {name: read_numbers(cells)}, faults)[name]
        fits = (values >= 0) & (values < 2**31) & (values == np.floor(values))
        faults.flag(
            ~fits & (values != -np.inf), name, "got {}, allowed is a whole number, 0 or more", cells
        )
        return np.where(fits, values, np.nan)
    if name == "is_duplicate":
        return _read_verdicts(cells, faults)
    if name == "kind":
        return _read_kinds(cells, faults)
    if name == "confidence":
        pointed = cells.map(with_point)  # from 0 to 1, a comma separates no thousands
        values = read_numbers(pointed)
        commas = [cell for cell in cells if isinstance(cell, str) and with_point(cell) != cell]
        if commas:
            read = f"{commas[0]} was read as {with_point(commas[0])}"
            faults.notes.append(f"{visible(faults.source)}: decimal commas in '{name}': {read}")
        fits = np.isnan(values) | ((values >= 0) & (values <= 1))
        faults.flag(~fits, name, "got {}, allowed is a number from 0 to 1, or blank", cells)
        return values
    if name == "comment":
        return _read_comments(cells)
    # Names of a scan, which are those of its files.
    return read_names(table, name, faults, blank_ok=name == "source", exact=True)


def _read_verdicts(cells: pd.Series, faults: FaultList) -> FloatArray:
    values = read_numbers(cells.map(lambda cell: _WORDS.get(_plain(cell), cell)), words=True)
    fits = np.isnan(values) | np.isin(values, [0, 1])
    allowed = "1 or yes (a duplicate), 0 or no (none), or blank (unjudged)"
    faults.flag(~fits, "is_duplicate", f"got {{}}, allowed is {allowed}", cells)
    return np.where(fits, values, np.nan)


def _read_kinds(cells: pd.Series, faults: FaultList) -> "pd.Series[str]":
    kinds = cells.map(_plain).astype("str")
    odd = [not isinstance(cell, str) and not pd.isna(cell) for cell in cells.astype(object)]
    bad = np.array(odd) | ~kinds.isin(["", *KINDS]).to_numpy()
    faults.flag(bad, "kind", f"got {{}}, allowed is {', '.join(KINDS)}, or blank", cells)
    return kinds


def _plain(cell: Any) -> str:
    return cell.strip().casefold() if isinstance(cell, str) else ""


def _read_comments(cells: pd.Series) -> "pd.Series[str]":
    # Comments may come from a language model: what no file can hold becomes a mark.
    texts = ["" if pd.isna(cell) else str(cell) for cell in cells.astype(object)]
    safe = [text.encode("utf-8", "replace").decode().replace("\0", "\ufffd") for text in texts]
    return pd.Series(safe, dtype="str")


def refuse_contradictions(clean: Mapping[str, Any], faults: FaultList) -> None:
    """Flag kinds that say the contrary of the verdict beside them."""
    if not {"kind", "is_duplicate"} <= clean.keys():
        return
    implied = clean["kind"].map(_IMPLIED).to_numpy(dtype=float)
    verdicts = clean["is_duplicate"]
    bad: BoolArray = ~np.isnan(implied) & ~np.isnan(verdicts) & (implied != verdicts)
    said = "got {}, but is_duplicate says the contrary; change one of them"
    faults.flag(bad, "kind", said, clean["kind"])


def of_this_format(
    table: pd.DataFrame, source: str, *, stored: bool, faults: FaultList
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return a table with kinds as `KINDS` means them, and notes on what was exchanged."""
    if "kind" not in table.columns:
        return table.drop(columns=VERSION, errors="ignore"), ()
    sided: BoolArray = table["kind"].map(_plain).isin(list(_EXCHANGED)).to_numpy()
    if VERSION not in table.columns:
        if stored and sided.any():
            raise DataError([Fault(source, _UNCLEAR.format(sided.sum()), column="kind")], _STATE)
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
