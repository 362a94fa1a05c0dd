"""Inputs: the units in which a corpus is read, one task each, and their kinds."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

Kind = Literal["jsonl", "parquet", "text", "vectors", "dataset"]

SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq"),
    "text": (".txt", ".md", ".py"),
    "vectors": (".npy", ".parquet", ".arrow", ".feather"),
}
"""Endings of names by kind, those of compressed files aside."""

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2"}
"""Codecs by the endings of names; they stand behind the endings of JSON Lines and text."""


@dataclass(frozen=True)
class Input:
    """One unit of reading."""

    source: str  # name of the manifest's source
    # what people see, and what documents without a name are named after: relative to the base
    # folder where the file lies below it
    path: str
    location: str  # absolute path or fsspec address of a file; folder or name of a data set
    kind: Kind  # what it holds
    # part, parts: of a data set: shard `part` (counted from 0) of `parts`
    part: int = 0
    parts: int = 1
    # changes with the content: size and time of a file, fingerprint of a saved data set, commit of
    # one on the Hugging Face hub. "" where none is known.
    stamp: str = ""


def compression(name: str) -> str | None:
    """Return the codec that a file's name shows, None for a plain file.

    >>> compression("part-1.jsonl.ZST")
    'zstd'
    """
    return COMPRESSIONS.get(PurePath(name).suffix.lower())


def is_named(name: str, kind: Kind) -> bool:
    """Return whether a file's name ends as those of a kind do.

    >>> is_named("part-1.JSONL.gz", "jsonl"), is_named("part-1.parquet.gz", "parquet")
    (True, False)
    """
    path = PurePath(name)
    if compression(name) is not None:
        # Formats that are read in pieces cannot be compressed as a whole.
        return kind in ("jsonl", "text") and path.with_suffix("").suffix.lower() in SUFFIXES[kind]
    return path.suffix.lower() in SUFFIXES[kind]


def kind_by_name(name: str) -> Kind | None:
    """Return the kind of input that a file's name shows, None if it is no known one."""
    kinds: tuple[Kind, ...] = ("jsonl", "text", "parquet")
    return next((kind for kind in kinds if is_named(name, kind)), None)
