"""Delimited: cells of CSV and TSV text."""

import csv
import io


def read_cells(text: str, delimiter: str = ",") -> tuple[list[list[str]], str]:
    """Return the rows of a text that are not blank, and what broke off the reading.

    Parameters
    ----------
    text : str
    delimiter : str, default ","

    Returns
    -------
    list of list of str
        Rows up to broken quotes, if there are any.
    str
        What is broken, and in which line; "" if nothing is.

    Examples
    --------
    >>> read_cells('a,b\\n\\n1,"2\\n3"\\n')
    ([['a', 'b'], ['1', '2\\n3']], '')
    >>> read_cells('a\\n"b')[1]
    'broken quotes in line 2: unexpected end of data; a quote inside a quoted cell is doubled'
    """
    rows: list[list[str]] = []
    # newline="" keeps a carriage return inside a quoted cell.
    lines = io.StringIO(text, newline="")
    limit = csv.field_size_limit(len(text) + 1)
    # strict: otherwise a forgotten quote swallows the rest of the file in silence.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        rows.extend(row for row in reader if row)
    except csv.Error as error:
        place = f"broken quotes in line {reader.line_num}: {error}"
        return rows, f"{place}; a quote inside a quoted cell is doubled"
    finally:
        csv.field_size_limit(limit)
    return rows, ""
