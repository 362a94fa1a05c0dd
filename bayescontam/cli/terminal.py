"""Tables and notes in a terminal, with names that nothing can break."""

import json
import math
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from bayescontam._format import place
from bayescontam._text import printable, short_labels
from bayescontam.model.effect_names import EffectNames, word_list

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.inference.checks import Check
    from bayescontam.inference.result import Fit


_SPARE_OF_BOOTSTRAP = ("slope", "accuracy", "overfitting_fraction_direct")
"""Columns of the bootstrap that are left out where the terminal is narrow, in this order."""
_ORDINARY = 120
"""Columns where the output is no terminal."""
_RANKS = ("rank_raw", "rank", "rank_low", "rank_high", "p_best")
FIRST_ROWS, LAST_ROWS = 40, 20
"""Rows that are shown of a longer table."""
_NAMES = {
    "model", "benchmark", "item", "concept", "other", "fit", "cell", "quantity", "estimator",
    "judge", "judge_a", "judge_b", "source", "of", "file", "where", "name",
}  # fmt: skip
"""Columns of names. They stay on one line, where long names are cut in the middle."""
_NUMBERS = {"below", "above"}
"""Columns of texts that are numbers."""
_WHOLE = ("rank", "ess", "with_duplicates")
"""Beginnings of columns of numbers of things, of which decimals would feign precision."""
_PREFERRED, _ENOUGH, _LEAST = 24, 12, 8
"""Widths of names: before columns are left out for them, before the last of these is left out,
and when none is left to leave out."""
_SHORT = 12
"""Texts that are not wrapped."""
_LONGEST = 160
_GAP = "  "


def print_table(
    table: "pd.DataFrame",
    spare: Sequence[str] = (),
    see_all: str = "--format csv",
    *,
    whole: bool = False,
) -> None:
    """Print a table of texts and numbers, for people; of a long one the first and last rows."""
    room = room_of_output()
    laid = lay_out(table, room, spare, whole=whole)
    print("\n".join(["", *laid.lines, ""]))
    if laid.rows:
        print(f"{len(table) - laid.rows:,} of {len(table):,} rows are shown. All rows: {see_all}.")
    if laid.columns:
        names = ", ".join(laid.columns)
        print_lines([f"Left out in {room} columns: {names}. All columns: {see_all}."])


def room_of_output() -> int:
    """Return the columns of the terminal, or 120 where the output goes elsewhere."""
    return shutil.get_terminal_size((_ORDINARY, 24)).columns


def print_headline(table: "pd.DataFrame", see_all: str = "fit.summary() in Python") -> None:
    """Print the headline table of a fit, the best of each benchmark first."""
    # Not --format csv: that is every estimand, without the observed scores.
    names = EffectNames.among(table)
    short = {"raw_accuracy": "raw"} | ({names.verdict: "verdict"} if names else {})
    table = table.rename(columns=short)
    if "rank" in table:  # benchmarks in the order of the table; a model without a rank last
        keys = table[["rank"]].assign(benchmark=table["benchmark"].factorize()[0])
        table = table.loc[keys.sort_values(["benchmark", "rank"], kind="stable").index]
        unknown = [name for name in _RANKS if name in table and table[name].isna().all()]
        table = table.drop(columns=unknown)  # where no benchmark has models to compare
    # What is left out where the terminal is narrow, in this order.
    effect = (names.fraction, *names.parts) if names else ()
    spare = ("slope_verdict", *effect[:1], "p_best", "rank_raw", "rank", *effect[1:], "raw")
    print_table(table, spare, see_all)


def print_bootstrap(fit: "Fit", path: Path, level: float | None = None) -> None:
    """Print the published bootstrap beside a fit that has it, and is in a file."""
    from bayescontam.inference.bootstrap import lacks
    from bayescontam.inference.tables import beside_bootstrap

    if "bootstrap" not in fit.data:
        return
    table = beside_bootstrap(fit, level=level)
    see_all = f"bayescontam summary {quoted(path)} --format json"
    print_table(table.dropna(axis=1, how="all"), _SPARE_OF_BOOTSTRAP, see_all)
    print_lines([lacks(fit.data["bootstrap"].to_dataset())])


def print_lines(lines: Iterable[str]) -> None:
    """Print lines as they are; on a terminal wrapped between words."""
    for line in lines:
        print("\n".join(wrapped(line)) if sys.stdout.isatty() else line)


def wrapped(text: str, indent: int = 0) -> list[str]:
    """Return a text in lines of the terminal's width, the second and later ones indented."""
    import textwrap

    width = max(room_of_output(), 2 * indent, 20)
    lines = textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [""]


def print_list(rows: Iterable[tuple[str, str]]) -> None:
    """Print names, each with a text that is wrapped beside it."""
    known = list(rows)
    width = max((len(name) for name, _ in known), default=0) + 2
    for name, text in known:
        print("\n".join(wrapped(f"{name:<{width}}{text}", width)))


def print_notes(notes: Iterable[str]) -> None:
    """Print what was left out of the data, or filled in: with --quiet too, as it may be a slip."""
    for note in notes:
        kind = "" if note.startswith("caution: ") else "note: "
        print(f"{kind}{printable(note, 400)}", file=sys.stderr)


def print_checks(checks: "Sequence[Check]") -> None:
    """Print the checks that did not pass, each with its value and what is allowed."""
    from bayescontam._format import measured

    for check in checks:
        if check.outcome.value == "passed":
            continue
        figure = ""
        if not math.isnan(check.value):
            allowed = f", allowed {check.threshold}" if check.threshold else ""
            figure = f" ({measured(check.value)}{allowed})"
        print_lines([f"{check.outcome.value}: {check.name}{figure}: {check.sentence}"])


def put_text(text: str, out: Path | None = None) -> None:
    """Print a text as it is, or write it to a file, whole or not at all."""
    from bayescontam._files import write_text

    if out is None:
        print(text, end="")  # not typer.echo: it takes escape codes out of names
    else:
        write_text(out, text)


def put_csv(table: "pd.DataFrame", out: Path | None = None) -> None:
    """Print a table as CSV, or write it to a file."""
    put_text(table.to_csv(index=False), out)


def put_json(content: Any, out: Path | None = None) -> None:
    """Print JSON, or write it to a file; tables become lists of rows."""
    put_text(json.dumps(_plain(content), indent=1, ensure_ascii=False) + "\n", out)


def _plain(value: Any) -> Any:
    """Return tables as lists of rows, and null for what is not a number, which JSON lacks."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if hasattr(value, "to_json"):  # a table of pandas, which is not imported for help
        return json.loads(value.to_json(orient="records", double_precision=15))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def quoted(path: Path) -> str:
    """Return a path as a shell takes it."""
    return shlex.quote(printable(path))


def command_line() -> str:
    """Return what the user ran, for records."""
    return shlex.join(["bayescontam", *sys.argv[1:]])


def written_at(path: Path) -> int | None:
    """Return when a file was written, None where there is none; it shows whether a run wrote it."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


@contextmanager
def resumable(stored: str) -> Iterator[None]:
    """Print how to resume if the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"{stored} are stored: run the same command again to resume", file=sys.stderr)
        raise


@dataclass(frozen=True)
class Laid:
    """A table as lines."""

    lines: list[str]  # heading and rows, and below them the names that were cut, in full
    columns: list[str]  # columns that were left out for want of room
    rows: int  # how many rows were left out in the middle


@dataclass(frozen=True)
class _Column:
    """A column as texts: figures are never cut, words are wrapped at spaces."""

    name: str
    kind: Literal["names", "figures", "words"]
    cells: list[str]
    natural: int  # width at which nothing is cut or wrapped
    least: int  # width of the heading's longest word; of words at which each is whole

    @classmethod
    def of(cls, name: str, kind: Literal["names", "figures", "words"], cells: list[str]) -> Self:
        """Return a column with its widths."""
        least = max(map(_cells, word_list(name)))
        natural = max([least, *map(_cells, cells)])
        if kind == "words":  # short texts stay on one line
            words = [_cells(word) for text in cells for word in text.split()]
            least = min(natural, max([least, _SHORT, *words]))
        return cls(name, kind, cells, natural, least)

    def width(self, names: int, wrapped: bool) -> int:
        """Return the width where names have so much room, and words are wrapped or not."""
        if self.kind == "names":
            return min(self.natural, max(names, self.least))
        return self.least if self.kind == "words" and wrapped else self.natural


def lay_out(
    table: "pd.DataFrame", room: int, spare: Sequence[str] = (), *, whole: bool = False
) -> Laid:
    """Lay out a table for a terminal."""
    import pandas as pd

    title = []
    if len(table) > 1 and "benchmark" in table and table["benchmark"].nunique() == 1:
        title = [f"benchmark: {printable(str(table['benchmark'].iloc[0]))}", ""]
        table = table.drop(columns="benchmark")
    omitted = 0 if whole else max(len(table) - FIRST_ROWS - LAST_ROWS, 0)
    if omitted:
        table = pd.concat([table.head(FIRST_ROWS), table.tail(LAST_ROWS)])
    columns, left_out = _columns(table), []
    for name in spare:
        # The last of them is worth more than long names.
        if _total(columns, _ENOUGH if name == spare[-1] else _PREFERRED, wrapped=True) <= room:
            break
        if name in (column.name for column in columns):
            columns = [column for column in columns if column.name != name]
            left_out.append(name)
    wrapped = _total(columns, _PREFERRED, wrapped=False) > room
    longest = max([column.natural for column in columns if column.kind == "names"], default=0)
    names = next((n for n in range(longest, _LEAST, -1) if _total(columns, n, wrapped) <= room), 0)
    labels = _labels(columns, names or _LEAST)
    columns = [
        _Column.of(column.name, column.kind, [labels[cell] for cell in column.cells])
        if column.kind == "names"
        else column
        for column in columns
    ]
    widths = [column.width(names or _LEAST, wrapped) for column in columns]
    _widen(columns, widths, room)
    rows = list(_rows(columns, widths))
    if omitted:
        rows.insert(FIRST_ROWS, [f"… {omitted:,} more rows …"])
    lines = [*title, *_heading(columns, widths), *(line for row in rows for line in row)]
    return Laid([*lines, *_key(labels)], left_out, omitted)


def _columns(table: "pd.DataFrame") -> list[_Column]:
    """Return the columns as texts, those of an interval as one."""
    result = []
    for name in table.columns.astype(str):
        stem, _, end = name.rpartition("_")
        if end in ("low", "high") and {f"{stem}_low", f"{stem}_high"} <= set(table):
            if end == "high" or stem in table:
                continue
            parts, name = [f"{stem}_low", f"{stem}_high"], stem
        elif {f"{name}_low", f"{name}_high"} <= set(table):
            parts = [name, f"{name}_low", f"{name}_high"]
        else:
            parts = [name]
        figures = name in _NUMBERS or all(table[part].dtype.kind in "fiu" for part in parts)
        kind: Any = "figures" if figures else "names" if name in _NAMES else "words"
        # Whole numbers of pandas have a mark of their own for one that is missing.
        known = [table[part].astype(object).where(table[part].notna(), None) for part in parts]
        rows = zip(*known, strict=True)
        result.append(_Column.of(name, kind, [_text(name, row) for row in rows]))
    return result


def _text(name: str, values: Sequence[Any]) -> str:
    """Return a cell: a value, an interval, or a value with its interval."""
    if len(values) == 1:
        return _one(name, values[0])
    *estimate, low, high = values
    texts = [_one(name, value) for value in estimate]
    # The sign of a bound that rounds to zero says whether the interval excludes zero.
    ends = [_one(name, end, signed=True) for end in (low, high)]
    return " ".join([*texts, f"[{ends[0]}, {ends[1]}]"] if all(ends) else texts)


def _one(name: str, value: Any, signed: bool = False) -> str:
    if value is None or value != value:
        return ""
    if not isinstance(value, float):
        return printable(str(value), _LONGEST)
    if name.startswith("rank") and 2 * value % 2 == 1:  # models that share a place
        return place(value)
    text = f"{value:.{0 if name.startswith(_WHOLE) else 3}f}"
    return text if signed or float(text) else text.lstrip("-")


def _total(columns: Iterable[_Column], names: int, wrapped: bool) -> int:
    widths = [column.width(names, wrapped) for column in columns]
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _widen(columns: Sequence[_Column], widths: list[int], room: int) -> None:
    """Give words the room that is left, the most wrapped first."""
    left = room - sum(widths) - len(_GAP) * (len(widths) - 1)
    for _ in range(left):
        place = max(range(len(widths)), key=lambda c: columns[c].natural / max(widths[c], 1))
        if columns[place].natural <= widths[place]:
            break
        widths[place] += 1


def _labels(columns: Iterable[_Column], width: int) -> dict[str, str]:
    """Return what is shown of each name: of the same name the same in all columns."""
    cells = (cell for column in columns if column.kind == "names" for cell in column.cells)
    names = list(dict.fromkeys(cells))
    return dict(zip(names, short_labels(names, width, _cells), strict=True))


def _heading(columns: Sequence[_Column], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of the headings, ending in the same line, and a rule below."""
    texts = [
        _wrapped(word_list(column.name), width)
        for column, width in zip(columns, widths, strict=True)
    ]
    height = max(map(len, texts))
    blocks = [[*[""] * (height - len(lines)), *lines] for lines in texts]
    yield from _joined(columns, widths, blocks)
    yield _GAP.join("─" * width for width in widths)


def _rows(columns: Sequence[_Column], widths: Sequence[int]) -> Iterator[list[str]]:
    for row in zip(*(column.cells for column in columns), strict=True):
        blocks = [
            _wrapped(cell.split(), width) if column.kind == "words" else [cell]
            for column, width, cell in zip(columns, widths, row, strict=True)
        ]
        yield list(_joined(columns, widths, blocks))


def _joined(
    columns: Sequence[_Column], widths: Sequence[int], blocks: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Yield blocks of lines beside each other, figures at the right of their columns."""
    for line in zip_longest(*blocks, fillvalue=""):
        padded = [
            f"{' ' * (width - _cells(text))}{text}"
            if column.kind == "figures"
            else f"{text}{' ' * (width - _cells(text))}"
            for column, width, text in zip(columns, widths, line, strict=True)
        ]
        yield _GAP.join(padded).rstrip()


def _wrapped(words: Iterable[str], width: int) -> list[str]:
    """Return words in lines of a width."""
    lines = [""]
    for word in words:
        joined = f"{lines[-1]} {word}".strip()
        if _cells(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def _key(labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the names that were cut, in full."""
    cut = {label: name for name, label in labels.items() if label != name}
    if cut:
        width = max(map(_cells, cut))
        yield ""
        yield "Names in full:"
        for label, name in cut.items():
            yield f"  {label}{' ' * (width - _cells(label))} = {name}"


def _cells(text: str) -> int:
    from rich.cells import cell_len  # wide characters take two columns

    return cell_len(text)
