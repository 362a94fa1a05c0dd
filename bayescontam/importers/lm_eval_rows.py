"""Rows of lm-evaluation-harness: one for each document and filter of a file of samples."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from bayescontam.importers.kept import Kept
from bayescontam.importers.left_out import LeftOut
from bayescontam.importers.lines import objects
from bayescontam.importers.lm_eval_files import SamplesFile
from bayescontam.names import visible
from bayescontam.progress import Advance

_FIXED = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
    "doc_hash", "prompt_hash", "target_hash", "task_name",
}  # fmt: skip
_UNFILTERED = "none"
"""Name that the tool gives to the filter of a task that has none."""


@dataclass
class Rows:
    """What counts of the rows of one filter, column by column."""

    doc_id: list[str] = field(default_factory=list)
    doc_hash: list[str | None] = field(default_factory=list)
    content: list[str | None] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    kept: list[tuple[Any, ...]] = field(default_factory=list)


@dataclass
class Log:
    """A file of samples as read: rows by filter, and what its content is told by."""

    file: SamplesFile
    rows: dict[str, Rows]
    digest: int
    size: int


def read_log(file: SamplesFile, kept: Kept, left_out: LeftOut, advance: Advance) -> Log:
    """Read a file of samples.

    Parameters
    ----------
    file : SamplesFile
    kept : Kept
    left_out : LeftOut
        Told of broken rows.
    advance : callable
        Told of the megabytes read.

    Returns
    -------
    Log

    Raises
    ------
    UsageError, DataError
        If the file cannot be read.
    """
    rows: dict[str, Rows] = {}
    seen: set[tuple[str, str]] = set()
    digest = 0
    source = str(file.path)
    for place, row in objects(file.path, left_out, advance):
        try:
            key = _add(row, rows, kept, seen)
        except (KeyError, TypeError, ValueError) as error:
            left_out.broken(source, place, str(error.args[0]))
            continue
        seen.add(key)
        # A sum, because the order of rows does not count.
        answer = (key, row.get("resps"), row.get("filtered_resps"), rows[key[0]].metrics[-1])
        digest += int.from_bytes(hashlib.blake2b(repr(answer).encode(), digest_size=16).digest())
    return Log(file, rows, digest, len(seen))


def _add(
    row: dict[str, Any],
    rows: dict[str, Rows],
    kept: Kept,
    seen: set[tuple[str, str]],
) -> tuple[str, str]:
    """Add a row to those of its filter; return filter and number of its document."""
    if not isinstance(row.get("doc_id"), int | str):
        raise KeyError("has no 'doc_id'; is this a file of samples of lm_eval?")
    doc_id, name = str(row["doc_id"]), row.get("filter", _UNFILTERED)
    if not isinstance(name, str):
        raise TypeError(f"'filter' is {visible(repr(name), 60)}; allowed is text")
    if (name, doc_id) in seen:
        named = f"filter '{visible(name, 60)}'" if "filter" in row else "no filter named"
        raise ValueError(f"document {doc_id} again, with {named}; each occurs once in a run")
    names = row.get("metrics")
    measured = names if isinstance(names, list) else [key for key in row if key not in _FIXED]
    metrics = {key: row[key] for key in measured if key in row}
    values = kept.values(row)
    given = row.get("doc_hash")
    if not isinstance(given, str | None):
        raise TypeError(f"'doc_hash' is {visible(repr(given), 60)}; allowed is text")
    content = given or (_hash(row["doc"]) if "doc" in row else None)
    known = rows.setdefault(name, Rows())
    known.doc_id.append(doc_id)
    known.doc_hash.append(given)
    known.content.append(content)
    known.metrics.append(metrics)
    known.kept.append(values)
    return name, doc_id


def _hash(doc: Any) -> str:
    """Return a document's hash as the tool computes it."""
    return hashlib.sha256(json.dumps(doc, indent=2, ensure_ascii=False).encode()).hexdigest()
