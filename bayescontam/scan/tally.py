"""Counts of what was read and of what was not, with the reasons."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Self

LISTED = 1000
"""Unreadable records of an input that are listed one by one; all are counted."""

DAMAGED = "damaged file"
"""Reason for what stands behind the damage in a file that was read up to there."""


@dataclass
class Tally:
    """What reading found; tallies of several inputs can be merged."""

    documents: int = 0  # documents read
    bytes: int = 0  # bytes that were read, decompressed
    unreadable: Counter[str] = field(default_factory=Counter)  # unreadable records by reason
    # by path of the input: number and reason of its first 1,000 unreadable records
    listed: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    # by field that names the document or the stratum: documents that do not have it
    without: Counter[str] = field(default_factory=Counter)
    # by path of the input: what is wrong with it, where damage was passed over
    damaged: dict[str, str] = field(default_factory=dict)

    def count(self, path: str, record: int, reason: str) -> None:
        """Count a record of the input `path` as unreadable; records count from 1."""
        self.unreadable[reason] += 1
        listed = self.listed.setdefault(path, [])
        if len(listed) < LISTED:
            listed.append((record, reason))

    def merge(self, other: Self) -> None:
        """Add the tally of other inputs to this one."""
        self.documents += other.documents
        self.bytes += other.bytes
        self.unreadable.update(other.unreadable)
        self.without.update(other.without)
        self.damaged.update(other.damaged)
        for path, records in other.listed.items():
            self.listed[path] = (self.listed.get(path, []) + records)[:LISTED]

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as plain values that JSON can hold."""
        return {
            "documents": self.documents,
            "bytes": self.bytes,
            "unreadable": dict(self.unreadable),
            "listed": {path: [list(one) for one in found] for path, found in self.listed.items()},
            "without": dict(self.without),
            "damaged": dict(self.damaged),
        }
