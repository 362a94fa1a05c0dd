"""Whether documents of a corpus stand twice in what is searched, and would count twice."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from bayescontam._files import sha256
from bayescontam._text import printable
from bayescontam.errors import SpecError, UsageError
from bayescontam.scan.fields import Fields, fits
from bayescontam.scan.sources import Input, is_named
from bayescontam.scan.stored_vectors import FILES, StoredVectors
from bayescontam.specs.corpus import Manifest, Source, Value, Values

ALL, EACH = "all", "each"
"""Keys of what identifies the files of a source: at once, and one by one."""
_ANY = "any"
"""Kind of files of which it is not recorded."""
_ADVICE = (
    " Parts of the same files can be searched together where 'where' (values that no record has in"
    " both), 'roles' or fields of 'text' keep them apart; text files, which are one document each,"
    " only by 'where'; or scan both by one manifest with a source for each"
)


class _Files(NamedTuple):
    """Files of a source."""

    at_once: str  # what identifies all of them
    kinds: Mapping[str, str] | None  # of each, by what identifies it; None where not recorded


class _Scan(NamedTuple):
    """What a scan reads of texts, or has read."""

    name: str
    sources: Mapping[str, Source]
    files: Mapping[str, _Files] | None  # by source; None where not recorded
    corpus: str | None = None  # what identifies all files, those of vectors too


def files_by_source(inputs: Iterable[Input], sources: Mapping[str, Source]) -> dict[str, Any]:
    """Return what identifies the files of texts of each source, whatever it is called.

    Of each source ``all`` stands for all files at once, and ``each`` has one entry for each
    file, by what it holds.
    """
    listed: dict[str, list[tuple[str, list[Any]]]] = {}
    for item in inputs:
        source = sources[item.source]
        place = [item.location, item.part, item.parts, item.stamp]
        # Of a data set, files are those of a configuration and a split.
        place += [source.config, source.split] if source.dataset is not None else []
        listed.setdefault(item.source, []).append((item.kind, place))
    return {
        name: {
            ALL: _hash(sorted((place for _, place in places), key=repr)),
            EACH: {
                kind: sorted(_hash(place)[:16] for known, place in places if known == kind)
                for kind in sorted({kind for kind, _ in places})
            },
        }
        for name, places in listed.items()
    }


def _hash(places: Sequence[Any]) -> str:
    return sha256(json.dumps(places).encode("utf-8", "surrogatepass"))


def check_distinct(stored: Sequence[StoredVectors]) -> list[str]:
    """Refuse vectors whose documents would count twice; return a note on what is not known.

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
    return _check_pairs(combinations(_recorded(stored), 2))


def check_sources(
    stored: Sequence[StoredVectors], inputs: Iterable[Input], sources: Mapping[str, Source]
) -> list[str]:
    """Refuse sources of files whose documents are in stored vectors, as `check_distinct` does."""
    files = _files(files_by_source(inputs, sources)) if stored else {}
    if not files:
        return []
    own = _Scan("the sources of the manifest", {name: sources[name] for name in files}, files)
    return _check_pairs((each, own) for each in _recorded(stored))


def _check_pairs(pairs: Iterable[tuple[_Scan, _Scan]]) -> list[str]:
    unknown: list[str] = []
    for one, other in pairs:
        overlap = _overlap(one, other)
        if overlap:
            raise UsageError(
                f"vectors: {printable(one.name)} and {printable(other.name)} are of the same files"
                " of a corpus, or have some in common, whose documents would count twice; give one"
                f" of them.{_ADVICE}"
            )
        if overlap is None:
            unknown += [each.name for each in (one, other) if not _one_by_one(each)]
    if not unknown:
        return []
    names = ", ".join(map(printable, dict.fromkeys(unknown)))
    return [
        f"vectors: {names}: stored by an earlier version, which did not record files one by one;"
        " whether some are read or stored elsewhere too, and count twice, could not be checked"
    ]


def _one_by_one(scan: _Scan) -> bool:
    return scan.files is not None and all(own.kinds is not None for own in scan.files.values())


def _recorded(stored: Sequence[StoredVectors]) -> list[_Scan]:
    """Return the scans whose vectors are stored."""
    return [
        _Scan(
            name,
            _sources(about),
            _files(about[FILES]) if FILES in about else None,
            about.get("key", {}).get("files of the corpus"),
        )
        for each in stored
        for name, about in each.scans
    ]


def _files(recorded: Mapping[str, Any]) -> dict[str, _Files]:
    """Return files of sources as they are recorded; earlier versions did so at once only."""
    return {
        name: _Files(own, None)
        if isinstance(own, str)
        else _Files(own[ALL], {each: kind for kind, names in own[EACH].items() for each in names})
        for name, own in recorded.items()
    }


def _overlap(one: _Scan, other: _Scan) -> bool | None:
    """Return whether two scans may have documents in common; None where that is not known."""
    found: dict[tuple[str, str], Collection[str] | None]
    if one.files is not None and other.files is not None:
        found = {
            (a, b): _common(x, y) for a, x in one.files.items() for b, y in other.files.items()
        }
    elif one.corpus is not None and one.corpus == other.corpus:  # names of sources are part of it
        found = {(name, name): {_ANY} for name in one.sources.keys() & other.sources.keys()}
        if not found:
            return True  # nothing shows how documents were chosen
    else:
        found = {(a, b): None for a in one.sources for b in other.sources} or {("", ""): None}
    together = [
        kinds
        for (a, b), kinds in found.items()
        if (kinds is None or kinds)
        and not (
            a in one.sources
            and b in other.sources
            and _disjoint(one.sources[a], other.sources[b], kinds or {_ANY})
        )
    ]
    return True if any(together) else None if together else False


def _common(one: _Files, other: _Files) -> set[str] | None:
    """Return what files that two sources have in common hold; None where that is not known."""
    ours, theirs = one.kinds or {}, other.kinds or {}
    if one.at_once == other.at_once:
        return {*ours.values(), *theirs.values()} or {_ANY}
    if one.kinds is None or other.kinds is None:
        return None
    return {kinds[each] for each in ours.keys() & theirs.keys() for kinds in (ours, theirs)}


def _sources(about: Mapping[str, Any]) -> dict[str, Source]:
    """Return the sources of texts of a scan by name, as its manifest has them."""
    try:
        manifest = Manifest.parse(str((about.get("manifest") or {}).get("text")), "recorded")
    except SpecError:
        return {}
    return {each.name: each for each in manifest.sources if each.format != "vectors"}


def _disjoint(one: Source, other: Source, kinds: Collection[str]) -> bool:
    """Return whether no document of the same files, which hold `kinds`, can be in both sources."""
    if any(_differ(one.where[name], other.where[name]) for name in one.where.keys() & other.where):
        return True
    # Of a text file all is read, whatever roles and fields a source names.
    if "text" in kinds or (_ANY in kinds and (_may_be_text(one) or _may_be_text(other))):
        return False
    if one.roles is not None and other.roles is not None and not {*one.roles} & {*other.roles}:
        return True
    return not any(_same_field(a, b) for a in _fields(one) for b in _fields(other))


def _may_be_text(source: Source) -> bool:
    """Return whether a file of a source may be one document, by the names of its paths."""
    named = (is_named(path, "jsonl") or is_named(path, "parquet") for path in source.paths or ())
    return source.format == "text" or (source.format == "auto" and not all(named))


def _differ(one: Value | Values, other: Value | Values) -> bool:
    """Return whether no value of a field fits both conditions."""
    return not any(fits(value, other) for value in (one if isinstance(one, tuple) else (one,)))


def _fields(source: Source) -> Collection[str]:
    return {slot.name for slot in Fields.of("", source).slots}


def _same_field(one: str, other: str) -> bool:
    """Return whether a field is another, or lies in it."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
