"""Workbook: a sheet of pairs as an Excel file (.xlsx), written and read."""

import os
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from bayescontam.bounds import Bounds
from bayescontam.columns import check_headers
from bayescontam.errors import BayescontamError, DataError, Fault, UsageError
from bayescontam.judged import KINDS
from bayescontam.names import visible
from bayescontam.optional import require
from bayescontam.storage import atomic_path

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
            f"{visible(source)}: cannot be read ({error.strerror or error})"
        ) from error
    # A damaged workbook may fail in any way that zip files and XML can.
    except Exception as error:
        problem = f"is no Excel workbook that can be read ({visible(str(error))}); save it again"
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
