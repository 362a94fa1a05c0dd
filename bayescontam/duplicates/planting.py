"""Duplicates planted in a corpus at known places, and the truth of where they are."""

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._files import atomic_path, make_folder
from bayescontam._progress import progress_bar, stage
from bayescontam._random import check_seed, stream
from bayescontam._text import join_list, printable
from bayescontam.data.jsonl import Damage, json_records, no_object
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
    "form",
)  # fmt: skip
"""Columns of the truth."""
_NEEDED = ("benchmark", "item", "duplicate", "kind", "level", "text")
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
        form``. ``place`` is ``alone``, ``inside`` or, of items without, ``absent``; characters of
        the document from ``start`` to ``end`` are the duplicate, whose ``form`` is ``as made``,
        ``wrapped`` or ``table``. ``attrs["left_out"]`` counts, by reason, records of the corpus
        that are no documents; they are not copied. ``attrs["as_made"]`` counts, by form, what was
        drawn for it and has no prose that is longer than its width, or no options.

    Raises
    ------
    UsageError
        For a number that is not allowed, or a level that no duplicate has.
    DataError
        Where a file cannot be read, or has too few documents.

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
    for file in (*files, Path(duplicates)):
        if file.resolve().parent == folder.resolve() and file.name in (CORPUS, TRUTH):
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
        total = sum(1 for _ in _documents(files, text_field, left_out))
    hosted = rng.random(len(planted)) < inside
    if (needed := max(1, int(hosted.sum()))) > total:
        problem = f"has {total:,} documents; {needed:,} are to hold a duplicate"
        raise DataError([Fault(str(files[0]), problem)])
    held = map(int, rng.permutation(total)[: hosted.sum()])
    hosts = dict(zip(held, map(int, np.flatnonzero(hosted)), strict=True))
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
        for number, (record, name) in enumerate(_documents(files, text_field, Counter())):
            if number in hosts:
                row = planted[hosts[number]]
                text, start = _put_into(str(record[text_field]), row["text"], rng)
                record = record | {text_field: text}
                truth.append(_place(row, name, INSIDE, start))
            _write(stream_out, record)
            for at in alone.get(number, ()):  # not alone[number], which would add an entry
                new = f"planted-{at + 1}"
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
    rows = [record for record, _ in _documents([path], "text")]
    for at, row in enumerate(rows, 1):
        if missing := [name for name in _NEEDED if name not in row]:
            raise DataError([Fault(str(path), f"has no {join_list(missing)}", row=at)])
        try:
            row["text"] = planted_text(
                row["text"], row.get("answer"), row.get("text_mode", "input")
            )
        except KeyError as error:
            problem = f"text_mode {error}: allowed is 'input', 'output' or 'input_output'"
            raise DataError([Fault(str(path), problem, row=at)]) from error
    if not rows:
        raise DataError([Fault(str(path), "holds no duplicate")])
    return rows


def _documents(
    files: Sequence[Path], text_field: str, left_out: Counter[str] | None = None
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the records of a corpus, each with a name; others are counted, or else refused."""
    number = 0
    for file in files:
        for place, _, value in json_records(file):
            if problem := _no_document(value, text_field):
                if left_out is None:
                    raise DataError([Fault(str(file), f"{place}: {problem}")])
                left_out[problem] += 1
                continue
            number += 1
            value.setdefault("id", f"document-{number}")
            yield value, str(value["id"])


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
        "document": document, "place": place, "start": start, "end": start + len(row["text"])
    }  # fmt: skip


def _write(file: Any, record: dict[str, Any]) -> None:
    file.write(json.dumps(record, ensure_ascii=False) + "\n")
