"""Sheets of pairs for people to judge: written blind, and read again."""

import hashlib
import json
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._bounds import Bounds
from bayescontam._files import atomic_path, write_text
from bayescontam._optional import require
from bayescontam._random import stream
from bayescontam._text import printable
from bayescontam._types import BoolArray
from bayescontam.data.judgements import (
    FORMAT,
    KINDS,
    MODEL,
    PAIR,
    RULE,
    TRAINED,
    VERSION,
    Judgements,
    read_judgements,
    write_judgements,
)
from bayescontam.data.tables import check_table_ending, read_table
from bayescontam.data.validation import FaultList, check_headers, need_columns
from bayescontam.errors import BayescontamError, DataError, Fault, UsageError
from bayescontam.evidence.pairs import scan_pairs
from bayescontam.scan.results import Scan

_OF_SOURCE = ["benchmark", "item", "source"]
_KEYS = list(PAIR)
_TITLE = "pairs"
_WIDTHS = {"pair": 18, "item_text": 70, "chunk_text": 70, "comment": 40}
_WIDTH = 14
_INSTRUCTIONS = [
    ("What to do", "Read both texts of each row. Fill in is_duplicate, and the rest if you can."),
    ("", "Leave is_duplicate blank where you have not judged yet; save at any time."),
    ("", "Do not change the column pair. Sort and filter whole rows only."),
    ("is_duplicate", "1: who learnt the chunk could answer the item without the ability it tests."),
    ("", "0: who learnt the chunk would still need that ability."),
    ("kind", "How the chunk relates to the item:"),
    *KINDS.items(),
    ("confidence", "How sure you are of is_duplicate, from 0 (a guess) to 1 (certain)."),
    ("comment", "Anything; may stay blank."),
]
LONGEST = 32_767
"""Longest text of a cell in Excel, in UTF-16 code units."""
_ENTRIES = ["is_duplicate", "kind", "confidence", "comment"]
_TEXTS = {"item_text": "text", "chunk_text": "chunk_text"}
_NEEDED = {
    "pair": "keep the column of the exported sheet: it says which pair a row is about",
    "is_duplicate": "keep the column of the exported sheet: 1, 0 or blank",
}
# What XML or CSV cannot hold, or no spreadsheet shows.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ID = f"p{FORMAT}-"
"""How names of pairs begin, which so hold the version of the meaning of kinds."""
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\n]")
_WORD = re.compile(r"\w+")
_CHANGED, _OF_WORDS = 3, 50
"""Words of a text that a spreadsheet may change, as it takes "2-3" for a date: so many, or one of
so many if that is more."""
_MIDNIGHT = " 00:00:00"
"""What a workbook's dates have after them."""


def write_workbook(path: str | os.PathLike[str], table: pd.DataFrame) -> None:
    """Write a table of texts as a workbook, with lists to choose from, and instructions."""
    book = require("openpyxl", "scan").Workbook()
    sheet = book.active
    sheet.title = _TITLE
    sheet.append(list(table.columns))
    for row in table.itertuples(index=False):
        sheet.append([text or None for text in row])
    _lay_out(sheet, list(table.columns))
    letters = {cell.value: cell.column_letter for cell in sheet[1]}
    for name, rule in _rules().items():
        letter = letters[name]
        rule.add(f"{letter}2:{letter}{len(table) + 1}")
        sheet.add_data_validation(rule)
    _instruct(book.create_sheet("instructions"))
    with atomic_path(path) as temporary:
        book.save(temporary)


def _lay_out(sheet: Any, columns: list[str]) -> None:
    styles = require("openpyxl.styles", "scan")
    wrapped = styles.Alignment(wrap_text=True, vertical="top")
    for row in sheet.iter_rows():
        for cell in row:
            cell.alignment = wrapped
            if isinstance(cell.value, str):
                # Otherwise "=1+1" would be a formula, also after it was edited in Excel.
                cell.data_type = "s"
                cell.quotePrefix = cell.value[:1] in ("=", "+", "-", "@")
    for cell in sheet[1]:
        cell.font = styles.Font(bold=True)
        sheet.column_dimensions[cell.column_letter].width = _WIDTHS.get(cell.value, _WIDTH)
    sheet.freeze_panes = "A2"


def _rules() -> dict[str, Any]:
    rule = require("openpyxl.worksheet.datavalidation", "scan").DataValidation
    kinds = f'"{",".join(KINDS)}"'
    rules = {
        "is_duplicate": rule(type="list", formula1='"1,0"', error="1, 0, or blank"),
        "kind": rule(type="list", formula1=kinds, error="one of the list, or blank"),
        "confidence": rule(type="decimal", formula1="0", formula2="1", error="from 0 to 1"),
    }
    for made in rules.values():
        made.allowBlank = made.showErrorMessage = True
    return rules


def _instruct(sheet: Any) -> None:
    styles = require("openpyxl.styles", "scan")
    for row in _INSTRUCTIONS:
        sheet.append(row)
    for heading, text in sheet.iter_rows():
        heading.font = styles.Font(bold=True)
        heading.alignment = text.alignment = styles.Alignment(wrap_text=True, vertical="top")
    sheet.column_dimensions["A"].width, sheet.column_dimensions["B"].width = 16, 90


def read_workbook(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read the sheet of pairs of a workbook as it stands."""
    source, limit = os.fspath(path), Bounds.current()
    openpyxl = require("openpyxl", "scan")
    try:
        with Path(path).open("rb") as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a spreadsheet added and nobody needs
            with zipfile.ZipFile(stream) as archive:
                limit.check_archive(archive, source)
            # Read row by row: a single cell in the last row would else be a sheet of billions.
            book = openpyxl.load_workbook(stream, data_only=True, read_only=True)
            sheet = book[_TITLE] if _TITLE in book.sheetnames else book.worksheets[0]
            sheet.reset_dimensions()
            rows = list(_rows(sheet, limit, source))
    except (BayescontamError, MemoryError):
        raise
    except OSError as error:
        raise UsageError(
            f"{printable(source)}: cannot be read ({error.strerror or error})"
        ) from error
    # A damaged workbook may fail in any way that zip files and XML can.
    except Exception as error:
        problem = f"is no Excel workbook that can be read ({printable(str(error))}); save it again"
        raise DataError([Fault(source, problem)]) from error
    while rows and not any(cell not in (None, "") for cell in rows[-1]):
        rows.pop()
    if len(rows) < 2:
        raise DataError([Fault(source, "no rows; a sheet needs a header and a row")])
    named = [at for at, name in enumerate(rows[0]) if name is not None]
    names = [rows[0][at] for at in named]
    check_headers(names, source)
    return pd.DataFrame([[row[at] for at in named] for row in rows[1:]], None, names, dtype=object)


def _rows(sheet: Any, limit: Bounds, source: str) -> Iterator[list[Any]]:
    """Give the rows of a sheet, all as wide as the first."""
    width = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        width = width or len(row)
        limit.check_cells(number, width, source, "sheet")
        yield [*row[:width], *[None] * (width - len(row))]


@dataclass(frozen=True)
class ImportedSheet:
    """What a sheet brought."""

    judgements: Judgements  # those of the sheet
    blank: int  # rows of the sheet without a verdict; they are left out
    total: int  # rows of the judgements file now


def export_sheet(pairs: pd.DataFrame, out: str | os.PathLike[str], *, seed: int) -> Path | None:
    """Write a blind sheet, in random order: both texts of each pair, and columns to fill in.

    A workbook has a page of definitions; of a CSV file they are in a text file beside it, whose
    path is returned.
    """
    suffix = _ending(out)
    if Path(out).exists():
        raise UsageError(
            f"{printable(os.fspath(out))}: exists, and may hold verdicts; give another name, or "
            "remove it"
        )
    definitions = Path(out).with_suffix(".definitions.txt")
    width = max(len(heading) for heading, _ in _INSTRUCTIONS)
    lines = [f"{heading:{width}}  {text}\n" for heading, text in _INSTRUCTIONS]
    beside = definitions.read_bytes() if suffix == ".csv" and definitions.exists() else b""
    if beside and not beside.startswith(lines[0].encode()):
        raise UsageError(
            f"{printable(os.fspath(definitions))}: exists and holds something else than the"
            " definitions that go with a sheet; give the sheet another name"
        )
    rows = pairs.iloc[stream(seed, "sheet").permutation(len(pairs))]
    blank = dict.fromkeys(_ENTRIES, "")
    texts = {name: rows[column].map(_fitting) for name, column in _TEXTS.items()}
    names = rows["benchmark"].map(_fitting)
    table = pd.DataFrame({"pair": _ids(rows), "benchmark": names, **texts, **blank})
    if suffix == ".xlsx":
        write_workbook(out, table)
        return None
    with atomic_path(out) as temporary:
        # With the byte order mark, without which Excel takes UTF-8 for something else.
        table.map(_guarded).to_csv(
            temporary, index=False, encoding="utf-8-sig", lineterminator="\r\n"
        )
    write_text(definitions, "".join(lines))
    return definitions


def sheet_key(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return which pair each row of a sheet is about."""
    key = pairs[[*PAIR, "cosine"]].reset_index(drop=True)
    key.insert(0, "pair", _ids(pairs))
    return key


def import_sheet(
    scan: Scan,
    path: str | os.PathLike[str],
    judge: str | None,
    out: str | os.PathLike[str],
    *,
    replace: bool = False,
) -> ImportedSheet:
    """Add the verdicts of a sheet to a file of judgements."""
    check_table_ending(out, "judgements")
    found, blank = read_sheet(scan, path, judge)
    total = read_judgements(out).merged(found, replace=replace) if Path(out).exists() else found
    write_judgements(out, total)
    return ImportedSheet(found, blank, len(total.frame))


def read_sheet(
    scan: Scan, path: str | os.PathLike[str], judge: str | None
) -> tuple[Judgements, int]:
    """Return the verdicts of a sheet, and the number of its rows without one."""
    source = os.fspath(path)
    table = read_workbook(path) if _ending(path) == ".xlsx" else read_table(path)
    faults = FaultList(source, np.arange(1, len(table) + 1))
    need_columns(table, _NEEDED, (*_NEEDED, *_TEXTS, *_ENTRIES), faults)
    faults.raise_if_any()
    pairs = scan_pairs(scan).drop_duplicates(_KEYS)
    pairs = pairs.set_axis(pd.Index(_ids(pairs)))
    ids = table["pair"].map(lambda cell: str(cell).strip())
    # Sheets of version 1 have names without a version.
    first = ids.str.fullmatch(r"p[0-9a-f]{14}")
    ids = ids.where(~first, _ID + ids.str.slice(1))
    unknown: BoolArray = ~ids.isin(pairs.index).to_numpy()
    problem = "got {}, which is no pair of this scan; give the scan that the sheet is from"
    faults.flag(unknown, "pair", problem, table["pair"])
    faults.raise_if_any("a sheet keeps the column 'pair' as it was exported")
    named = pairs.loc[ids].reset_index(drop=True)
    _compare_texts(table, _texts(named, scan), faults)
    _refuse_loose(table, faults)
    faults.raise_if_any()
    entries = table[[name for name in _ENTRIES if name in table.columns]]
    judges = {"judge": _judges(table, judge, source)}
    version = {VERSION: np.where(first, 1, FORMAT)}
    frame = named[_KEYS].assign(**judges, **version).join(entries)
    read = Judgements.from_frame(frame, source=source)
    frame = read.frame
    judged = frame["is_duplicate"].notna()
    if not judged.any():
        raise DataError([Fault(source, "no row has a verdict yet", None, "is_duplicate")])
    return Judgements(frame[judged], source, read.notes), int((~judged).sum())


def _ending(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".xlsx"):
        raise UsageError(
            f"{printable(os.fspath(path))}: the file name ends in '{printable(suffix)}'; "
            "allowed for a sheet is .csv or .xlsx"
        )
    return suffix


def _ids(pairs: pd.DataFrame) -> list[str]:
    """Return names of pairs that show nothing, and that no spreadsheet takes for numbers."""
    columns = [pairs[name].tolist() for name in (*PAIR, "chunk_id")]
    keys = (json.dumps(key).encode() for key in zip(*columns, strict=True))
    return [_ID + hashlib.blake2b(key, digest_size=7).hexdigest() for key in keys]


def _fitting(text: str) -> str:
    """Return `text` as the cell of a spreadsheet can hold it."""
    text = _UNFIT.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
    units = text.encode("utf-16-le")
    if len(units) <= 2 * (LONGEST - 1):  # one more may come in front
        return text
    head = units[: 2 * (LONGEST - 60)].decode("utf-16-le", "ignore")
    return f"{head}\n[… cut here: {len(text) - len(head):,} more characters]"


def _guarded(text: str) -> str:
    """Return `text` so that no spreadsheet takes it for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def _texts(pairs: pd.DataFrame, scan: Scan) -> pd.DataFrame:
    """Return both texts of pairs, in their order."""
    items = scan.item_texts.set_index(_OF_SOURCE)["text"]
    chunks = scan.texts.set_index("chunk_id")["text"]
    named = pd.MultiIndex.from_frame(pairs[_OF_SOURCE])
    texts = {
        "item_text": items.reindex(named).array,
        "chunk_text": chunks.reindex(pairs["chunk_id"]).array,
    }
    return pd.DataFrame(texts).fillna("")


def _compare_texts(table: pd.DataFrame, texts: pd.DataFrame, faults: FaultList) -> None:
    """Add a fault for each row whose texts are not those of its pair."""
    problem = "is not the text of this pair; were cells moved or sorted apart from their rows?"
    for name in (name for name in texts.columns if name in table.columns):
        own = [tuple(_WORD.findall(_fitting(text))) for text in texts[name]]
        cells = ["" if cell is None else str(cell) for cell in table[name]]
        given = [tuple(_WORD.findall(cell.removesuffix(_MIDNIGHT))) for cell in cells]
        known = {*own}
        strange = [
            bool(found)
            # A spreadsheet makes 1 of "1.0", and "true" of "TRUE".
            and " ".join(found).casefold() != " ".join(words).casefold()
            and _value(cell) != _value(text)
            and (found in known or ("".join(found) != "".join(words) and _far_apart(found, words)))
            for found, words, cell, text in zip(given, own, cells, texts[name], strict=True)
        ]
        faults.flag(np.array(strange), name, problem)


def _value(text: str) -> float | str:
    """Return the number that a spreadsheet takes a text for, or the text."""
    digits = text.strip().replace(",", "")
    try:
        return float(digits.removesuffix("%")) / (100 if digits.endswith("%") else 1)
    except ValueError:
        return text


def _far_apart(found: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether more words differ than a spreadsheet may have changed."""
    ours, theirs = Counter(found), Counter(words)
    most = max(_CHANGED, len(words) // _OF_WORDS)
    return max((ours - theirs).total(), (theirs - ours).total()) > most


def _refuse_loose(table: pd.DataFrame, faults: FaultList) -> None:
    """Add a fault for each row with a kind or a confidence, but no verdict."""
    blank = table.map(lambda cell: cell is None or not str(cell).strip())
    for name in (name for name in ("kind", "confidence") if name in table.columns):
        bad: BoolArray = (blank["is_duplicate"] & ~blank[name]).to_numpy()
        problem = "got {}, but is_duplicate is blank; fill it in, or leave both blank"
        faults.flag(bad, name, problem, table[name])


def _judges(table: pd.DataFrame, judge: str | None, source: str) -> Any:
    """Return who judged each row: one name, or those of the column."""
    if (judge is None) == ("judge" not in table.columns):
        many = "both the option --judge and a column 'judge'; leave one out"
        none = "no judge; give --judge NAME, or add a column 'judge'"
        raise UsageError(f"{printable(source)}: {none if judge is None else many}")
    if judge is not None and not judge.strip():
        raise UsageError(f"{printable(source)}: the judge's name is blank; give --judge NAME")
    named = table["judge"] if judge is None else pd.Series([judge] * len(table))
    for start, whose in ((MODEL, "models"), (RULE, "rules"), (TRAINED, "trained judges")):
        if named.map(str).str.startswith(start).any():
            problem = f"names that start with '{start}' are for {whose}"
            raise UsageError(f"{printable(source)}: {problem}")
    return named
