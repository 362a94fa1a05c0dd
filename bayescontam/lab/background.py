"""Background from files: read as a scan reads, searched for items, and sampled for each base."""

import glob
import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bayescontam._progress import progress_bar
from bayescontam._text import printable
from bayescontam.errors import DataError, Fault
from bayescontam.scan.documents import Document, priority, read_documents
from bayescontam.scan.formats import Tally
from bayescontam.scan.results import words
from bayescontam.scan.sources import Input, expanded, is_remote, list_inputs
from bayescontam.specs.corpus import Reading, Source

SHORT = 5
"""Fewer words are no sign of an item where they are a part of a text: only as all of it."""
_SAVED = ("state.json", "dataset_dict.json")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_NAME = "background"


@dataclass(frozen=True)
class Wanted:
    """How many documents are drawn."""

    bases: int
    count: int  # of each base, no document twice
    near: int = 0  # at least so many in the pool of near texts, which no base has
    pool: int = 0  # and at most so many


@dataclass(frozen=True)
class Drawn:
    """Documents that are about no item."""

    texts: list[list[str]]  # of each base
    pool: list[str]
    documents: int  # that there are
    sha256: str  # over all of them
    notes: list[str] = field(default_factory=list)


class ItemFinder:
    """Finds which of some texts a document holds, word by word.

    Case, punctuation and white space do not count. A text of fewer than five words is found where
    it is the whole document.

    Parameters
    ----------
    texts : mapping of str to str
        Texts by what messages call them.

    Examples
    --------
    >>> finder = ItemFinder({"item 'q1'": "How many apples has Ann?", "item 'q2'": "Why?"})
    >>> finder.find("(4) HOW MANY apples\\nhas Ann? Why?"), finder.find("why")
    (["item 'q1'"], ["item 'q2'"])
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._long: dict[str, list[tuple[str, str]]] = {}
        self._short: dict[str, list[str]] = {}
        for name, text in texts.items():
            found = words(text)
            whole = " ".join(found)
            if len(found) >= SHORT:
                self._long.setdefault(" ".join(found[:SHORT]), []).append((f" {whole} ", name))
            elif whole:
                self._short.setdefault(whole, []).append(name)

    def find(self, document: str) -> list[str]:
        """Return the names of the texts that a document holds."""
        found = words(document)
        whole = " ".join(found)
        starts = {" ".join(found[at : at + SHORT]) for at in range(len(found) - SHORT + 1)}
        known = [pair for start in starts & self._long.keys() for pair in self._long[start]]
        inside = [name for text, name in known if text in f" {whole} "]
        return sorted([*inside, *self._short.get(whole, [])])


def draw_documents(
    path: str,
    folder: Path,
    text: str | tuple[str, ...],
    seed: int,
    wanted: Wanted,
    finder: ItemFinder,
    *,
    progress: bool = False,
) -> Drawn:
    """Return a sample of the documents of a corpus for each base.

    The same documents are drawn in whatever order they are read: each has a rank by seed, base
    and name, and those of the lowest ranks are the sample, without replacement.

    Parameters
    ----------
    path : str
        File, folder, glob, address, folder of a saved data set, or name of one on the hub.
    folder : Path
        Where relative paths start.
    text : str or tuple of str
        Field or fields with the text.
    seed : int
        Seed of the lab.
    wanted : Wanted
        How many are drawn.
    finder : ItemFinder
        What no document may hold.
    progress : bool, default False
        Whether a bar is shown.

    Raises
    ------
    UsageError
        If there is nothing to read.
    DataError
        If documents cannot be read, hold items, or are too few.
    """
    source, notes = source_of(path, folder, text), list[str]()
    inputs = list_inputs(source, folder, notes)
    size = wanted.count + wanted.pool
    bases = [_Lottery(seed, f"lab background {base}", size) for base in range(wanted.bases)]
    near = _Lottery(seed, "lab near", wanted.pool)
    digest, unreadable, faults, count = hashlib.sha256(), Counter[str](), list[Fault](), 0
    with progress_bar(progress, "reading", len(inputs), "files") as advance:
        for item in inputs:
            tally = Tally()
            for document in _read(item, source, tally):
                digest.update(document.text.encode("utf-8", "replace") + b"\0")
                if found := finder.find(document.text):
                    name = printable(document.document, 80)
                    problem = f"document '{name}' has the text of {', '.join(found[:3])}"
                    faults.append(Fault(item.path, problem))
                for lottery in (*bases, near):
                    lottery.add(count, document)
                count += 1
            unreadable += tally.unreadable
            advance(1)
    if faults:
        raise DataError(
            faults,
            f"{len(faults):,} of {count:,} documents hold items or duplicates word by word, and so"
            " would the clean twin: take them out of the background.",
        )
    if count < wanted.count + wanted.near:
        more = f", and {wanted.near:,} to take near texts from" if wanted.near else ""
        problem = f"has {count:,} documents; {wanted.count:,} are needed for each base{more}"
        raise DataError([Fault(path, problem)], "Give more documents, or fewer texts.")
    if unreadable:
        listed = ", ".join(f"{number:,} × {reason}" for reason, number in unreadable.most_common())
        notes.append(f"background: {unreadable.total():,} records are no documents: {listed}")
    pool = near.drawn(min(wanted.pool, count - wanted.count))
    if wanted.bases > 1 and wanted.bases * wanted.count > (free := count - len(pool)):
        notes.append(
            f"background: {wanted.bases:,} bases × {wanted.count:,} documents are more than the"
            f" {free:,} there are for them: about {100 * wanted.count / free:.0f} % of those of a"
            " base are in each other base too, so that bases differ less than with more background"
        )
    held = {number for number, _ in pool}
    texts = [
        [text for number, text in lottery.drawn(size) if number not in held][: wanted.count]
        for lottery in bases
    ]
    return Drawn(texts, [text for _, text in pool], count, digest.hexdigest(), notes)


def source_of(path: str, folder: Path, text: str | tuple[str, ...]) -> Source:
    """Return what a scan's manifest would have for a path, or for the name of a data set."""
    where = expanded(folder, path)
    saved = any((where / name).is_file() for name in _SAVED)
    # What names no place here, and could not be a misspelt path, is a name on the hub.
    here = where.exists() or where.parent.exists() or glob.has_magic(path) or is_remote(path)
    if saved or (not here and _HUB_NAME.fullmatch(path)):
        return Source(name=_NAME, dataset=path, text=text)
    return Source(name=_NAME, paths=(path,), text=text)


def _read(item: Input, source: Source, tally: Tally) -> Iterator[Document]:
    """Yield the documents of an input."""
    try:
        yield from read_documents(item, source, tally, Reading().max_record_megabytes * 2**20)
    except DataError as error:
        # Without the option of a scan to pass over what cannot be read, which a lab does not have.
        advice = error.advice.partition("to go on without")[0].rstrip("; ")
        raise DataError(error.faults, advice.replace("set text", "set files.text")) from error


class _Lottery:
    """Draws the documents of lowest rank."""

    def __init__(self, seed: int, name: str, size: int) -> None:
        self._seed, self._name, self._size = seed, name, size
        self._held: list[tuple[int, int, str]] = []  # a heap: negative ranks and numbers, texts

    def add(self, number: int, document: Document) -> None:
        """Let a document take part."""
        if not self._size:
            return
        entry = (-priority(self._seed, self._name, document.document), -number, document.text)
        if len(self._held) < self._size:
            heapq.heappush(self._held, entry)
        elif entry > self._held[0]:
            heapq.heapreplace(self._held, entry)

    def drawn(self, count: int) -> list[tuple[int, str]]:
        """Return numbers and texts of the documents of lowest rank, the lowest first."""
        lowest = heapq.nlargest(count, self._held)
        return [(-number, text) for _, number, text in lowest]
