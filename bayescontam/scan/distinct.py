"""Whether stored vectors have documents in common, which would count twice."""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from bayescontam._text import printable
from bayescontam.errors import SpecError, UsageError
from bayescontam.scan.fields import Fields, fits
from bayescontam.scan.stored_vectors import FILES, StoredVectors
from bayescontam.specs.corpus import Manifest, Source, Value, Values


def check_distinct(stored: Sequence[StoredVectors]) -> None:
    """Refuse vectors whose documents would count twice.

    Raises
    ------
    UsageError
        If vectors of a scan, or documents of the same files of a corpus, are in two of the folders.
    """
    origins: dict[str, Path] = {}
    for each in stored:
        where = printable(str(each.folder))
        for origin in each.origins:
            if (before := origins.setdefault(origin, each.folder)) is not each.folder:
                raise UsageError(
                    f"vectors: the same vectors stand twice, in {printable(str(before))} and in"
                    f" {where}, and their documents would count twice; give each folder once, and"
                    " none beside one that it was joined to"
                )
    scans = [scan for each in stored for scan in each.scans]
    for (first, earlier), (name, about) in combinations(scans, 2):
        if _overlap(earlier, about):
            raise UsageError(
                f"vectors: {printable(first)} and {printable(name)} are of the same files of a"
                " corpus, whose documents would count twice; give one of them. Parts of the same"
                " files can be searched together where 'where' (values that no record has in"
                " both), 'roles' or fields of 'text' keep them apart; or scan both by one manifest"
                " with a source for each"
            )


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two scans may have documents in common; both as they are recorded."""
    if FILES in one and FILES in other:
        pairs = [(a, b) for a, x in one[FILES].items() for b, y in other[FILES].items() if x == y]
    else:  # of earlier versions: of all sources at once, whose names are part of it
        listed = [about.get("key", {}).get("files of the corpus") for about in (one, other)]
        if listed[0] is None or listed[0] != listed[1]:
            return False
        names = _sources(one).keys() & _sources(other).keys()
        if not names:
            return True  # nothing shows how documents were chosen
        pairs = [(name, name) for name in names]
    if not pairs:
        return False
    ours, theirs = _sources(one), _sources(other)
    return any(
        a not in ours or b not in theirs or not _disjoint(ours[a], theirs[b]) for a, b in pairs
    )


def _sources(about: Mapping[str, Any]) -> dict[str, Source]:
    """Return the sources of texts of a scan by name, as its manifest has them."""
    try:
        manifest = Manifest.parse(str((about.get("manifest") or {}).get("text")), "recorded")
    except SpecError:
        return {}
    return {each.name: each for each in manifest.sources if each.format != "vectors"}


def _disjoint(one: Source, other: Source) -> bool:
    """Return whether no text of the same files can be in both sources."""
    if "text" in (one.format, other.format):
        return False
    if any(_differ(one.where[name], other.where[name]) for name in one.where.keys() & other.where):
        return True
    if one.roles is not None and other.roles is not None and not {*one.roles} & {*other.roles}:
        return True
    return not any(_same_field(a, b) for a in _fields(one) for b in _fields(other))


def _differ(one: Value | Values, other: Value | Values) -> bool:
    """Return whether no value of a field fits both conditions."""
    return not any(fits(value, other) for value in (one if isinstance(one, tuple) else (one,)))


def _fields(source: Source) -> Collection[str]:
    return {slot.name for slot in Fields.of("", source).slots}


def _same_field(one: str, other: str) -> bool:
    """Return whether a field is another, or lies in it."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
