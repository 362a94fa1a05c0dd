"""Rows of lm-evaluation-harness: one for each document and filter of a file of samples."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

from bayescontam.importers.extra_columns import ExtraColumns
from bayescontam.importers.identity import fingerprint
from bayescontam.importers.left_out import LeftOut
from bayescontam.importers.lines import objects
from bayescontam.importers.lm_eval_files import UNFILTERED, SamplesFile
from bayescontam.names import listed, visible
from bayescontam.progress import Advance
from bayescontam.storage import sha256

_FIXED = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
    "doc_hash", "prompt_hash", "target_hash", "task_name", "input",
}  # fmt: skip


class Row(NamedTuple):
    """What counts of a row."""

    doc_id: str
    doc_hash: str | None
    content: str | None
    metrics: dict[str, Any]
    answer: str | None
    extra: tuple[Any, ...]


@dataclass
class Samples:
    """A file of samples as read: rows by filter."""

    file: SamplesFile
    rows: dict[str, list[Row]]
    unnamed: int = 0
    """Filters whose rows do not name them, and that were named by their order; 0 if none."""


def read_samples(
    file: SamplesFile, extra: ExtraColumns, left_out: LeftOut, advance: Advance
) -> Samples:
    """Read a file of samples."""
    named: dict[str, list[Row]] = {}
    unnamed: list[list[Row]] = []
    seen: set[tuple[str, str]] = set()
    times: Counter[str] = Counter()
    source = str(file.path)
    for place, row in objects(file.path, left_out, advance):
        try:
            read = _row(row, extra)
            name = row.get("filter")
            if not isinstance(name, str | None):
                raise TypeError(f"'filter' is {visible(repr(name), 60)}; allowed is text")
            if name is not None and (name, read.doc_id) in seen:
                raise ValueError(
                    f"document {read.doc_id} again, with filter '{visible(name, 60)}'; each occurs "
                    "once in a run"
                )
        except (KeyError, TypeError, ValueError) as error:
            left_out.broken(source, place, str(error.args[0]))
            continue
        if name is not None:
            seen.add((name, read.doc_id))
            named.setdefault(name, []).append(read)
            continue
        # Versions that name no filters write the rows of one filter after those of another, so
        # that a document's first row is of the first filter.
        if times[read.doc_id] == len(unnamed):
            unnamed.append([])
        unnamed[times[read.doc_id]].append(read)
        times[read.doc_id] += 1
    found = _by_order(file, unnamed, left_out)
    for name, rows in found.items():
        if name in named:
            left_out.broken(
                source, "as a whole", f"some rows name the filter '{visible(name, 60)}', some none"
            )
        named.setdefault(name, rows)
    return Samples(file, named, len(found) if len(found) > 1 else 0)


def _by_order(
    file: SamplesFile, unnamed: list[list[Row]], left_out: LeftOut
) -> dict[str, list[Row]]:
    """Name the filters of rows that do not, in the order of the task's configuration."""
    names = file.filters
    if names is None:
        names = tuple(f"unnamed-{place + 1}" for place in range(len(unnamed)))
        if len(unnamed) < 2:
            names = (UNFILTERED,)
    if len(unnamed) > len(names):
        again = {row.doc_id for rows in unnamed[len(names) :] for row in rows}
        left_out.broken(
            str(file.path),
            "as a whole",
            f"{len(again):,} documents occur {len(unnamed)} times, though the task is configured "
            f"with {len(names)} filters ({listed(names)}) and the rows name none",
            count=sum(map(len, unnamed)),
            advice="give the file of one run; was a second run written into it?",
        )
        return {}
    return dict(zip(names, unnamed, strict=False))


def _row(row: dict[str, Any], extra: ExtraColumns) -> Row:
    if not isinstance(row.get("doc_id"), int | str):
        raise KeyError("has no 'doc_id'; is this a file of samples of lm_eval?")
    names = row.get("metrics")
    measured = names if isinstance(names, list) else [key for key in row if key not in _FIXED]
    given = row.get("doc_hash")
    if not isinstance(given, str | None):
        raise TypeError(f"'doc_hash' is {visible(repr(given), 60)}; allowed is text")
    responses = (row.get("resps"), row.get("filtered_resps"))
    return Row(
        str(row["doc_id"]),
        given,
        given or (_hash(row["doc"]) if "doc" in row else None),
        {key: row[key] for key in measured if key in row},
        fingerprint(responses) if any(responses) else None,
        extra.values(row),
    )


def _hash(doc: Any) -> str:
    """Return a document's hash as the tool computes it."""
    return sha256(json.dumps(doc, indent=2, ensure_ascii=False).encode())
