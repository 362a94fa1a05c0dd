"""Delimited: cells of CSV and TSV text, a row at a time."""

import contextlib
import csv
import io
import re
from collections.abc import Generator, Iterable, Iterator

OTHERS = ",;\t|"
"""What may separate columns."""


_DECLARED = re.compile(r'"?sep=([,;\t|])"?[ \r\n]*', re.IGNORECASE)


class BrokenQuotesError(ValueError):
    """Quotes that cannot be read, and in which line."""


def cell_rows(lines: Iterable[str], delimiter: str = ",") -> Generator[list[str]]:
    """Give the rows of lines that are not blank.

    >>> list(cell_rows(["a,b\\n", "\\n", '1,"2\\n', '3"\\n']))
    [['a', 'b'], ['1', '2\\n3']]
    """
    # strict: otherwise a forgotten quote swallows the rest of the file in silence.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    with _long_cells():
        try:
            for row in reader:
                if row:
                    yield row
        except csv.Error as error:
            place = f"broken quotes in line {reader.line_num}: {error}"
            raise BrokenQuotesError(f"{place}; a quote inside a quoted cell is doubled") from error


def read_cells(text: str, delimiter: str = ",") -> tuple[list[list[str]], str]:
    """Return the rows of a text that are not blank, and what broke off the reading.

    >>> read_cells('a\\n"b')[1]
    'broken quotes in line 2: unexpected end of data; a quote inside a quoted cell is doubled'
    """
    rows: list[list[str]] = []
    try:
        # newline="" keeps a carriage return inside a quoted cell.
        rows.extend(cell_rows(io.StringIO(text, newline=""), delimiter))
    except BrokenQuotesError as error:
        return rows, str(error)
    return rows, ""


def delimiter_of(header: str, usual: str) -> str:
    """Return what separates the columns of a header line: the usual, or what does so instead.

    >>> delimiter_of("model;item\\n", ","), delimiter_of("model,item;or task\\n", ",")
    (';', ',')
    """
    if _width(header, usual) > 1:
        return usual
    widths = {other: _width(header, other) for other in OTHERS}
    widest = max(widths, key=widths.__getitem__)
    return widest if widths[widest] > 1 else usual


def declared_delimiter(line: str) -> str:
    """Return what a first line for Excel says that separates the columns; "" if it is none.

    >>> declared_delimiter("sep=;\\n"), declared_delimiter("model;item\\n")
    (';', '')
    """
    found = _DECLARED.fullmatch(line)
    return found[1] if found else ""


def _width(header: str, delimiter: str) -> int:
    try:
        return len(next(cell_rows([header], delimiter), []))
    except BrokenQuotesError:  # a cell that goes on in the next line
        return header.count(delimiter) + 1


@contextlib.contextmanager
def _long_cells() -> Iterator[None]:
    """Lift the limit of the csv module, which is one for the whole process."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
