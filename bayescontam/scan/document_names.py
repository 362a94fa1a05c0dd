"""Names that several documents of a source have, so that their matches are not distinguished."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bayescontam._text import printable
from bayescontam.errors import DataError, Fault
from bayescontam.scan.fields import NUMBERED

REFUSED = 0.01
"""Share of documents from which repeated names stop a scan."""
_MOST = 20_000_000
"""Priorities that are held at once; of more documents the lowest ones are a random part."""
_EXAMINED = 100_000
"""Repeated names of which the texts are compared."""


def check_names(source: str, files: Sequence[Path]) -> list[str]:
    """Refuse a source of which many documents have the name of another one; note a few."""
    # Judgements and curves know a document by its name: of those of one name, one pair alone would
    # be judged, and the others would seem to be the same. Exact copies of a document may share it.
    priorities = _priorities(files)
    values, counts = np.unique(priorities, return_counts=True)
    repeated = values[counts > 1][:_EXAMINED]
    if not len(repeated):
        return []
    texts: dict[int, set[bytes]] = {}
    examined: dict[int, int] = {}
    example = ""
    for file in files:
        with pq.ParquetFile(file) as table:
            for batch in table.iter_batches(columns=["priority", "document", "text"]):
                ranks = batch["priority"].to_numpy()
                for row in np.flatnonzero(np.isin(ranks, repeated)):
                    rank, text = int(ranks[row]), batch["text"][int(row)].as_py()
                    known = texts.setdefault(rank, set())
                    known.add(hashlib.blake2b(text.encode(), digest_size=8).digest())
                    examined[rank] = examined.get(rank, 0) + 1
                    if len(known) > 1 and not example:
                        example = batch["document"][int(row)].as_py()
    differing = sum(examined[rank] for rank, known in texts.items() if len(known) > 1)
    if not differing:
        return []
    share = differing / max(sum(examined.values()), 1) * counts[counts > 1].sum() / counts.sum()
    problem = (
        f"documents with different texts have the same name, such as '{printable(example, 60)}'"
        f" ({share:.2%} of the documents): their matches cannot be distinguished"
    )
    name = f"source '{printable(source)}'"
    if share >= REFUSED:
        advice = (
            'Name a field that differs (document = "FIELD" in the manifest), or file and record'
            f' number (document = "{NUMBERED}").'
        )
        raise DataError([Fault(name, problem)], advice)
    return [
        f"caution: {name}: {problem}; of documents with the same name, only one is offered for"
        " judging"
    ]


def _priorities(files: Sequence[Path]) -> NDArray[np.uint64]:
    """Return the priorities of all documents, or the lowest, which are those of a random part."""
    # Documents of one name have one priority.
    total = sum(pq.read_metadata(file).num_rows for file in files)
    most = np.uint64(2**64 - 1) if total <= _MOST else np.uint64(int(2**64 * (_MOST / total)))
    found = [np.zeros(0, np.uint64)]
    for file in files:
        with pq.ParquetFile(file) as table:
            for batch in table.iter_batches(columns=["priority"], batch_size=2**18):
                ranks = batch["priority"].to_numpy()
                found.append(ranks[ranks <= most])
    return np.concatenate(found)
