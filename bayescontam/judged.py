"""Judged: the columns of judgements, read and checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bayescontam.columns import FaultList, Floats, Mask, read_names, read_numbers

KINDS = {
    "exact": "the same task, but for layout, spelling, or names of variables",
    "equivalent": "the same task with the same solution in other words",
    "subset": "the chunk holds a part or a special case of the item",
    "superset": "the chunk holds the item as a part or a special case of something larger",
    "related": "another task of the same topic or method",
    "unrelated": "nothing in common that could help",
}
"""Kinds of pairs, and what they mean."""

_IMPLIED = {"exact": 1, "equivalent": 1, "unrelated": 0}
_WORDS = {"yes": "1", "no": "0"}


def read_judged(table: pd.DataFrame, name: str, faults: FaultList) -> Any:
    """Return one column of judgements, read and checked.

    Parameters
    ----------
    table : pandas.DataFrame
    name : str
        One of its columns.
    faults : FaultList
        Takes what is wrong.

    Returns
    -------
    array or pandas.Series
    """
    cells = table[name]
    if name == "chunk":
        values = read_numbers(cells)
        fits = (values >= 0) & (values < 2**31) & (values == np.floor(values))
        faults.flag(~fits, name, "got {}, allowed is a whole number, 0 or more", cells)
        return np.where(fits, values, np.nan)
    if name == "is_duplicate":
        return _read_verdicts(cells, faults)
    if name == "kind":
        return _read_kinds(cells, faults)
    if name == "confidence":
        values = read_numbers(cells)
        fits = np.isnan(values) | ((values >= 0) & (values <= 1))
        faults.flag(~fits, name, "got {}, allowed is a number from 0 to 1, or blank", cells)
        return values
    if name == "comment":
        return _read_comments(cells)
    return read_names(table, name, faults, blank_ok=name == "source")


def _read_verdicts(cells: pd.Series, faults: FaultList) -> Floats:
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
    bad: Mask = ~np.isnan(implied) & ~np.isnan(verdicts) & (implied != verdicts)
    said = "got {}, but is_duplicate says the contrary; change one of them"
    faults.flag(bad, "kind", said, clean["kind"])
