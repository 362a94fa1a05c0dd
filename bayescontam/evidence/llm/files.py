"""Files: judgements of a language model added to a file of judgements."""

import os
from pathlib import Path
from typing import Any

import pandas as pd

from bayescontam.evidence.llm.endpoint import Endpoint
from bayescontam.evidence.llm.judge import judge_name, judge_pairs
from bayescontam.judgements import PAIR, Judgements, read_judgements, write_judgements
from bayescontam.names import visible
from bayescontam.storage import check_writable
from bayescontam.written import check_table_ending


def add_judgements(
    out: str | os.PathLike[str],
    pairs: pd.DataFrame,
    endpoint: Endpoint,
    *,
    run: int = 1,
    **options: Any,
) -> list[str]:
    """Judge the pairs that a file has no verdict of, and add them to it."""
    check_table_ending(out, "judgements")
    check_writable(out)
    earlier = _read(out)
    left = pairs if earlier is None else _unjudged(pairs, earlier, judge_name(endpoint.model, run))
    notes = []
    if done := len(pairs) - len(left):
        notes.append(f"{done:,} of {len(pairs):,} pairs are judged in {visible(str(out))} already")
    if left.empty:
        return notes
    made = judge_pairs(left, endpoint, run=run, **options)
    earlier = _read(out)  # anew: hours later, other judges may have been added
    write_judgements(out, earlier.merged(made) if earlier else made)
    judged = int(made.frame["is_duplicate"].notna().sum())
    found = int(made.frame["is_duplicate"].sum())
    counts = f"{judged:,} pairs were judged, {found:,} of them duplicates: {visible(str(out))}"
    return [*notes, *made.notes, counts]


def _read(path: str | os.PathLike[str]) -> Judgements | None:
    return read_judgements(path) if Path(path).exists() else None


def _unjudged(pairs: pd.DataFrame, earlier: Judgements, judge: str) -> pd.DataFrame:
    known = earlier.frame
    known = known[(known["judge"] == judge) & known["is_duplicate"].notna()]
    keys = list(PAIR)
    found = pd.MultiIndex.from_frame(pairs[keys]).isin(pd.MultiIndex.from_frame(known[keys]))
    return pairs[~found]
