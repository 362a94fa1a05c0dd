"""Duplicates planted in a corpus at known places, and the truth of where they are."""

import json
import os
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from bayescontam._files import atomic_path, make_folder, sha256
from bayescontam._progress import progress_bar, stage
from bayescontam._random import check_seed, stream
from bayescontam._text import join_list, printable
from bayescontam.data.jsonl import BrokenListError, Damage, json_records, no_object
from bayescontam.duplicates.forms import (
    AS_MADE,
    NARROWEST,
    TABLE,
    WIDEST,
    WRAPPED,
    with_table,
    wrap_anew,
)
from bayescontam.duplicates.items import planted_text
from bayescontam.errors import DataError, Fault, UsageError

CORPUS, TRUTH = "corpus.jsonl", "truth.csv"
"""Files that planting writes."""
ALONE, INSIDE, ABSENT = "alone", "inside", "absent"
COLUMNS = (
    "benchmark", "item", "duplicate", "kind", "level", "copy", "document", "place", "start", "end",
    "form", "text_sha256",
)  # fmt: skip
"""Columns of the truth."""
_NAMED, _GROUPED = ("benchmark", "item", "duplicate"), ("kind", "level")
_NEEDED = (*_NAMED, *_GROUPED, "text")
_MODES = ("input", "output", "input_output")
_OWN, _GIVEN = "planted-", "document-"
"""How names begin of what is planted alone, and of documents that have no name."""
_MOST_SHOWN = 4
"""Places of documents of one name that a message lists."""
_DIGITS = 16
"""Hexadecimal digits of the identity of a text: 64 bits."""
_BREAKS = (r"\n\s*\n", r"\n", r"(?<=[.!?])\s")
"""Where a text is put into another: between paragraphs, else lines, else sentences."""


def plant_duplicates(
    corpus: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    duplicates: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    share: float = 0.5,
    copies: int = 1,
    inside: float = 0.5,
    levels: Sequence[str] = (),
    wrapped: float = 0.0,
    tables: float = 0.0,
    text_field: str = "text",
    seed: int = 0,
    progress: bool = False,
) -> pd.DataFrame:
    """Write a corpus with duplicates of some items at known places, and the truth.

    Parameters
    ----------
    corpus : path, or several
        JSON Lines, plain or compressed: a document each.
    duplicates : path
        Rows as `make_duplicates` gives them; only ``benchmark, item, duplicate, kind, level``,
        ``text`` and, where given, ``choices``, ``answer`` and ``text_mode`` are used. The latter
        names what is planted: the text (``"input"``, default), the answer (``"output"``), or both.
    out : path
        Folder for ``corpus.jsonl`` and ``truth.csv``.
    share : float, default 0.5
        Share of the items whose duplicates are planted, above 0 and at most 1. Of the others none
        is: they show how high texts score that are no duplicates.
    copies : int, default 1
        How often each duplicate is planted.
    inside : float, default 0.5
        Share that are put into a document of the corpus, between two of its paragraphs, lines or
        sentences; the others are documents of their own.
    levels : sequence of str, default ()
        Levels whose duplicates are planted; by default all. Items without a duplicate of these
        levels are left out of the truth: nothing is planted of them, but they may differ from
        those that have one.
    wrapped : float, default 0.0
        Share of what is planted whose paragraphs of prose are filled anew, each duplicate's at a
        random width from 40 to 100. Code, lists, tables and formulas stay as they are.
    tables : float, default 0.0
        Share of what is planted whose options are set as a Markdown table: the last lines in a
        row that are labelled in order, or the texts of a field ``choices``. Numbered lines count
        where the line before them names options, not clues. With `wrapped` at most 1.
    text_field : str, default "text"
        Field of the corpus with the text.
    seed : int, default 0
        The same seed gives the same files.
    progress : bool, default False
        Whether a bar is shown.

    Returns
    -------
    pandas.DataFrame
        The truth: ``benchmark, item, duplicate, kind, level, copy, document, place, start, end,
        form, text_sha256``. ``place`` is ``alone``, ``inside`` or, of items without, ``absent``;
        characters of the document from ``start`` to ``end`` are the duplicate, whose ``form`` is
        ``as made``, ``wrapped`` or ``table``, and whose text without the white space at its ends
        has a SHA-256 that begins with ``text_sha256``. ``attrs["left_out"]`` counts, by reason,
        records of the corpus that are no documents; they are not copied. ``attrs["as_made"]``
        counts, by form, what was drawn for it and has no prose that is longer than its width, or
        no options.

    Raises
    ------
    UsageError
        For a number that is not allowed, or a level that no duplicate has.
    DataError
        Where a file cannot be read, or has too few documents; where a duplicate has no text, or
        lacks the answer that is to be planted; or where a document that is to hold a duplicate
        shares its ``id`` with another.

    Notes
    -----
    Documents whose ``id`` is missing, empty, null, a list or an object are named
    ``document-1``, …, and documents of their own ``planted-1``, …, after the highest number that
    the corpus has of such names: it may be one in which duplicates were planted before.

    Examples
    --------
    >>> import json, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "corpus.jsonl").write_text('{"id": "d1", "text": "Some text."}')
    >>> row = {"benchmark": "quiz", "item": "1", "duplicate": "1/a", "kind": "exact", "level": ""}
    >>> _ = (folder / "made.jsonl").write_text(json.dumps(row | {"text": "Why?"}))
    >>> truth = plant_duplicates(
    ...     folder / "corpus.jsonl", folder / "made.jsonl", folder / "planted", inside=1.0
    ... )
    >>> print(*truth.loc[0, ["document", "place", "start", "end"]])
    d1 inside 12 16
    """
    seed, rng = check_seed(seed), stream(check_seed(seed), "planting")
    if not 0 < share <= 1:
        raise UsageError(f"share: got {share}; allowed is a number above 0, at most 1")
    if not 0 <= inside <= 1:
        raise UsageError(f"inside: got {inside}; allowed is a number from 0 to 1")
    if copies < 1:
        raise UsageError(f"copies: got {copies}; allowed is 1 or more")
    for name, part in (("wrapped", wrapped), ("tables", tables)):
        if not 0 <= part <= 1:
            raise UsageError(f"{name}: got {part}; allowed is a number from 0 to 1")
    if wrapped + tables > 1:
        raise UsageError(f"wrapped, tables: got {wrapped} and {tables}; allowed is a sum up to 1")
    folder, rows = Path(out), _of_levels(_duplicates_of(Path(duplicates)), levels)
    files = [Path(corpus)] if isinstance(corpus, str | os.PathLike) else [*map(Path, corpus)]
    for file, name in product((*files, Path(duplicates)), (CORPUS, TRUTH)):
        target = folder / name
        if target.exists() and file.exists() and target.samefile(file):
            raise UsageError(
                f"{printable(file)}: is what is read, and would be lost; name another folder"
            )
    items = [*dict.fromkeys((row["benchmark"], row["item"]) for row in rows)]
    count = max(1, round(share * len(items)))
    chosen = {items[int(at)] for at in rng.permutation(len(items))[:count]}
    planted = [
        row | {"copy": copy + 1}
        for row in rows if (row["benchmark"], row["item"]) in chosen for copy in range(copies)
    ]  # fmt: skip
    as_made = _set_forms(planted, wrapped, tables, seed)
    left_out: Counter[str] = Counter()
    with stage(progress, "counting documents"):
        names = _Names.of(files, text_field, left_out)
    total = names.total
    hosted = rng.random(len(planted)) < inside
    if (needed := max(1, int(hosted.sum()))) > total:
        raise _too_few(files, total, needed, left_out)
    held = [*map(int, rng.permutation(total)[: hosted.sum()])]
    hosts = dict(zip(held, map(int, np.flatnonzero(hosted)), strict=True))
    if names.repeated(held):
        _refuse_repeated(files, text_field, held)
    alone: dict[int, list[int]] = defaultdict(list)
    for own in map(int, np.flatnonzero(~hosted)):
        alone[int(rng.integers(total))].append(own)
    truth: list[dict[str, Any]] = []
    with (
        atomic_path(make_folder(folder) / TRUTH) as listed,
        atomic_path(folder / CORPUS) as temporary,
        temporary.open("w", encoding="utf-8") as stream_out,
        progress_bar(progress, "planting", total, "documents") as advance,
    ):
        for number, (_, record) in enumerate(_documents(files, text_field, Counter())):
            name = _name_of(record) or f"{_GIVEN}{names.highest[_GIVEN] + number + 1}"
            if not _name_of(record):
                record["id"] = name
            if number in hosts:
                row = planted[hosts[number]]
                text, start = _put_into(str(record[text_field]), row["text"], rng)
                record = record | {text_field: text}
                truth.append(_place(row, name, INSIDE, start))
            _write(stream_out, record)
            for at in alone.get(number, ()):  # not alone[number], which would add an entry
                new = f"{_OWN}{names.highest[_OWN] + at + 1}"
                _write(stream_out, {"id": new, text_field: planted[at]["text"]})
                truth.append(_place(planted[at], new, ALONE, 0))
            advance(1)
        absent = [
            {"benchmark": benchmark, "item": item, "place": ABSENT}
            for benchmark, item in items if (benchmark, item) not in chosen
        ]  # fmt: skip
        table = pd.DataFrame([*truth, *absent], columns=[*COLUMNS])
        table = table.astype(dict.fromkeys(("copy", "start", "end"), "Int64"))
        table.to_csv(listed, index=False)
    table.attrs |= {"left_out": dict(left_out), "as_made": dict(as_made)}
    return table


def _of_levels(rows: list[dict[str, Any]], levels: Sequence[str]) -> list[dict[str, Any]]:
    """Return the duplicates of some levels, of all where none is named."""
    known = dict.fromkeys(str(row["level"]) for row in rows)
    if unknown := [level for level in levels if level not in known]:
        raise UsageError(f"levels (--only): got {join_list(unknown)}; there are {join_list(known)}")
    return [row for row in rows if not levels or str(row["level"]) in levels]


def _set_forms(
    planted: list[dict[str, Any]], wrapped: float, tables: float, seed: int
) -> Counter[str]:
    """Give each duplicate its form, and count those to which the form drawn does not apply."""
    # A stream of its own: the same duplicates are planted at the same places, whatever the shares.
    rng = stream(seed, "planting forms")
    draws = rng.random(len(planted))
    widths = rng.integers(NARROWEST, WIDEST + 1, len(planted))
    as_made: Counter[str] = Counter()
    for row, draw, width in zip(planted, draws.tolist(), widths.tolist(), strict=True):
        text, form = str(row["text"]), AS_MADE
        if draw < wrapped:
            text, form = wrap_anew(text, width), WRAPPED
        elif draw < wrapped + tables:
            text, form = with_table(text, _choices(row)), TABLE
        if form != AS_MADE and text == row["text"]:
            as_made[form] += 1
            form = AS_MADE
        row |= {"text": text, "form": form}
    return as_made


def _choices(row: dict[str, Any]) -> list[str]:
    """Return the options of a row that lists them; none where it has fewer than two texts."""
    given = row.get("choices")
    texts = given if isinstance(given, list) and all(isinstance(x, str) for x in given) else []
    return texts if len(texts) > 1 else []


def _duplicates_of(path: Path) -> list[dict[str, Any]]:
    rows = [record for _, record in _documents([path], "text")]
    faults: list[Fault] = []
    for at, row in enumerate(rows, 1):
        faults += (Fault(str(path), problem, at, column) for column, problem in _odd(row))
        if not faults:
            row |= {name: str(row[name]) for name in _NAMED}
            mode = row.get("text_mode", "input")
            row["text"] = planted_text(row["text"], row.get("answer"), mode)
            if not row["text"].strip():
                problem = "is blank: there is nothing to plant; leave the row out"
                column = "answer" if mode == "output" else "text"
                faults.append(Fault(str(path), problem, at, column))
    if faults:
        raise DataError(faults)
    if not rows:
        raise DataError([Fault(str(path), "holds no duplicate")])
    return rows


def _odd(row: dict[str, Any]) -> Iterator[tuple[str | None, str]]:
    """Yield what is wrong with a duplicate: a column, and the problem."""
    if missing := [name for name in _NEEDED if name not in row]:
        yield None, f"has no {join_list(missing)}"
    for name in (*_NAMED, *_GROUPED):
        value = row.get(name, "")
        if isinstance(value, dict | list) or (value is None and name in _NAMED):
            yield name, f"got {printable(json.dumps(value), 60)}, allowed is a text or a number"
    if (mode := row.get("text_mode", "input")) not in _MODES:
        shown = printable(repr(mode), 60)
        yield None, f"text_mode {shown}: allowed is 'input', 'output' or 'input_output'"
    elif mode != "input" and row.get("answer") is None:
        problem = f"has no answer, which text_mode {mode!r} plants; give the row one, or plant its"
        yield None, f"{problem} text alone: text_mode 'input'"


def _documents(
    files: Sequence[Path], text_field: str, left_out: Counter[str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield place and record of the documents of a corpus; others are counted, or else refused."""
    for file in files:
        try:
            for place, _, value in json_records(file):
                if not (problem := _no_document(value, text_field)):
                    yield f"{printable(file)}: {place}", value
                elif left_out is None:
                    raise DataError([Fault(str(file), f"{place}: {problem}")])
                else:
                    left_out[problem] += 1
        except (BrokenListError, UnicodeDecodeError) as error:
            raise DataError([Fault(str(file), str(error))]) from error


def _name_of(record: dict[str, Any]) -> str:
    """Return the name by which a scan knows a document; nothing where it would number it."""
    value = record.get("id")
    return "" if value is None or isinstance(value, dict | list) else str(value)


@dataclass(frozen=True)
class _Names:
    """What is known of the names of a corpus before anything is planted in it."""

    # of each document the hash of its name; -1, which no text has, where it has none
    hashes: "array[int]" = field(default_factory=lambda: array("q"))
    # the highest number of the names that planting gives
    highest: dict[str, int] = field(default_factory=lambda: {_OWN: 0, _GIVEN: 0})

    @classmethod
    def of(cls, files: Sequence[Path], text_field: str, left_out: Counter[str]) -> Self:
        """Read all names once."""
        found = cls()
        numbered = re.compile(f"({_OWN}|{_GIVEN})([0-9]{{1,1000}})")
        for _, record in _documents(files, text_field, left_out):
            name = _name_of(record)
            found.hashes.append(hash(name) if name else -1)
            if hit := numbered.fullmatch(name):
                found.highest[hit[1]] = max(found.highest[hit[1]], int(hit[2]))
        return found

    @property
    def total(self) -> int:
        """How many documents there are."""
        return len(self.hashes)

    def repeated(self, held: Sequence[int]) -> bool:
        """Return whether one of these documents may share its name with another."""
        every = np.frombuffer(self.hashes, np.int64) if self.hashes else np.array([], np.int64)
        known = np.unique(every[list(held)])
        known = known[known != -1]
        return int(np.isin(every, known).sum()) > len(known)


def _refuse_repeated(files: Sequence[Path], text_field: str, held: Sequence[int]) -> None:
    """Raise if a document that is to hold a duplicate shares its name with another."""
    wanted, hosts = set[str](), {*held}
    for number, (_, record) in enumerate(_documents(files, text_field, Counter())):
        if number in hosts and (name := _name_of(record)):
            wanted.add(name)
    places: dict[str, list[str]] = defaultdict(list)
    for place, record in _documents(files, text_field, Counter()):
        if (name := _name_of(record)) in wanted:
            places[name].append(place)
    shared = {name: at for name, at in places.items() if len(at) > 1}
    if not shared:  # names that differ, of one hash
        return
    raise DataError(
        [
            Fault(
                at[0],
                f"has the same id, {printable(name, 60)!r}, as {_some(at[1:])}, and one of them is"
                " to hold a duplicate",
            )
            for name, at in shared.items()
        ],
        "A scan could not distinguish them. Give every document an id of its own over all files, or"
        " remove the field: documents without are numbered.",
    )


def _some(places: Sequence[str]) -> str:
    hidden = len(places) - _MOST_SHOWN
    return "; ".join([*places[:_MOST_SHOWN], *([f"{hidden:,} more"] if hidden > 0 else [])])


def _too_few(files: Sequence[Path], total: int, needed: int, left_out: Counter[str]) -> DataError:
    """Return why a corpus cannot hold what is to be planted in it."""
    problem = f"has {total:,} documents; {needed:,} are to hold a duplicate"
    if left_out:
        [(reason, count)] = left_out.most_common(1)
        every = left_out.total()
        problem += f". {every:,} records are no documents: {reason} ({count:,} of them)"
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return DataError(
        [Fault(f"{files[0]}{more}", problem)],
        "Give a larger corpus in JSON Lines and the field of its text (--text), or plant fewer:"
        " --share, --inside.",
    )


def _no_document(value: Any, text_field: str) -> str:
    """Return why a record is no document; nothing if it is one."""
    if isinstance(value, Damage):
        return "is no JSON"
    if not isinstance(value, dict):
        return no_object(value)
    if not isinstance(value.get(text_field), str):
        return f"has no text in the field {printable(text_field)!r}"
    return ""


def _put_into(host: str, text: str, rng: np.random.Generator) -> tuple[str, int]:
    """Return a text with another between two of its parts, and where that begins."""
    for pattern in _BREAKS:
        if places := [hit.end() for hit in re.finditer(pattern, host)]:
            at = places[int(rng.integers(len(places)))]
            before = host[:at].rstrip() + "\n\n"
            return before + text + "\n\n" + host[at:].lstrip(), len(before)
    return f"{host}\n\n{text}", len(host) + 2


def _place(row: dict[str, Any], document: str, place: str, start: int) -> dict[str, Any]:
    known = {name: row[name] for name in (*COLUMNS[:6], "form")}
    return known | {
        "document": document, "place": place, "start": start, "end": start + len(row["text"]),
        "text_sha256": _identity(row["text"]),
    }  # fmt: skip


def _identity(text: str) -> str:
    """Return what is the same for texts that a scan takes for one: it strips them."""
    return sha256(text.strip().encode())[:_DIGITS]


def _write(file: Any, record: dict[str, Any]) -> None:
    file.write(json.dumps(record, ensure_ascii=False) + "\n")
