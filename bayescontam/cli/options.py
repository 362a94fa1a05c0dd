"""Options that several commands share."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bayescontam.data.dates import Dates
    from bayescontam.inference.checks import Check


FAILED_CHECK = 3
"""Exit status of --strict."""

FitFile = Annotated[
    Path, typer.Argument(help="A fit that 'bayescontam fit' wrote (.nc).", show_default=False)
]
Out = Annotated[
    Path,
    typer.Option("--out", "-o", help="File to write. Replaced if it exists.", show_default=False),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print errors and notes on the data, and nothing else."),
]
ShowNoProgress = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
InsteadOfPrinting = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="File to write instead of printing.", show_default=False),
]
LevelOfFit = Annotated[
    float | None,
    typer.Option(help="Credible level; default: the fit's.", show_default=False),
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with status 3 if a check failed.")]

DATA, SAMPLER, EXECUTION = "Data", "Sampler", "Execution"
"""Panels of the help: what is read, how a posterior is sampled, and where work is done."""
CovariatesFile = Annotated[
    Path | None,
    typer.Option(
        help="Table of covariates: benchmark, item, contamination, and model if it differs.",
        rich_help_panel=DATA,
    ),
]
Released = Annotated[
    str | None,
    typer.Option(
        help="Release dates of items: a column, or a table with benchmark, item, released. With"
        " --cutoff they give contamination by model and item, and clean models.",
        rich_help_panel=DATA,
    ),
]
Cutoff = Annotated[
    str | None,
    typer.Option(
        help="Training cutoffs of models: a column, or a table with model, cutoff.",
        rich_help_panel=DATA,
    ),
]
CleanMargin = Annotated[
    int,
    typer.Option(
        help="Days by which a cutoff must precede all items for its model to be clean.",
        rich_help_panel=DATA,
    ),
]
Clean = Annotated[
    list[str] | None,
    typer.Option(
        help="A model that is known not to have met the items in training; may be repeated.",
        rich_help_panel=DATA,
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        help="Rows to use, as a pandas query: \"benchmark == 'mmlu'\".", rich_help_panel=DATA
    ),
]
SumRepeats = Annotated[
    bool,
    typer.Option(
        "--sum-repeats", help="Sum several rows of one model and item.", rich_help_panel=DATA
    ),
]
DropMissing = Annotated[
    bool,
    typer.Option(
        "--drop-missing",
        help="Drop rows without a score; their number is reported.",
        rich_help_panel=DATA,
    ),
]
ItemDraws = Annotated[
    int | None,
    typer.Option(
        help="Draws of item difficulties to store; default: none where they were integrated out,"
        " otherwise at least 1,000.",
        show_default=False,
        rich_help_panel=SAMPLER,
    ),
]
StoreAll = Annotated[
    bool,
    typer.Option(
        "--store-all",
        help="Store every draw of everything, in double precision: files become some twenty times"
        " larger.",
        rich_help_panel=SAMPLER,
    ),
]
Draws = Annotated[
    int, typer.Option(help="Draws of each chain, after tuning.", rich_help_panel=SAMPLER)
]
Tune = Annotated[
    int, typer.Option(help="Tuning draws of each chain, discarded.", rich_help_panel=SAMPLER)
]
Chains = Annotated[int, typer.Option(help="Number of chains.", rich_help_panel=SAMPLER)]
RayAddress = Annotated[
    str | None,
    typer.Option(
        help="Ray cluster to use; default: start one on this machine.",
        show_default=False,
        rich_help_panel=EXECUTION,
    ),
]


class MissingContamination(StrEnum):
    """What to do with items that the covariates do not name."""

    ERROR = "error"
    ZERO = "zero"
    DROP = "drop"
    IMPUTE = "impute"


OnMissing = Annotated[
    MissingContamination,
    typer.Option(
        help="Responses whose item has no covariates: refuse; zero: searched and not found; drop;"
        " or impute the mean.",
        rich_help_panel=DATA,
    ),
]


class ContaminationScale(StrEnum):
    """What contamination is given as."""

    SHARE = "share"
    PERCENT = "percent"
    COUNT = "count"


OnScale = Annotated[
    ContaminationScale,
    typer.Option(
        help="What contamination is: a number from 0 to 1, per cent, or a count n that is read as"
        " log(1+n)/log(1+largest).",
        rich_help_panel=DATA,
    ),
]


class Engine(StrEnum):
    """Samplers."""

    NUTPIE = "nutpie"
    PYMC = "pymc"
    NUMPYRO = "numpyro"


EngineName = Annotated[
    Engine, typer.Option(help="Sampler; numpyro needs the extra 'jax'.", rich_help_panel=SAMPLER)
]


class Difficulties(StrEnum):
    """What is done about item difficulties while sampling."""

    AUTO = "auto"
    SAMPLED = "sampled"
    MARGINALISED = "marginalised"


OnDifficulties = Annotated[
    Difficulties,
    typer.Option(
        help="Item difficulties: sampled with the rest, or integrated out and drawn afterwards;"
        " auto: integrated out of large tables, which is many times faster.",
        rich_help_panel=SAMPLER,
    ),
]


class Workplace(StrEnum):
    """Where tasks run."""

    LOCAL = "local"
    RAY = "ray"


WorkplaceName = Annotated[
    Workplace,
    typer.Option(
        "--engine", help="Local worker processes, or a Ray cluster.", rich_help_panel=EXECUTION
    ),
]


class TableFormat(StrEnum):
    """How a table is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


Format = Annotated[
    TableFormat,
    typer.Option("--format", "-f", help="Table for reading; CSV or JSON with everything."),
]


def reference_of(text: str) -> float | str:
    """Return a reference as it was written: a number, or the name of one."""
    try:
        return float(text)
    except ValueError:
        return text


def dates_of(released: str | None, cutoff: str | None, margin: int = 0) -> "Dates | None":
    """Return where dates are, None if no option names them."""
    from bayescontam.data.dates import Dates

    if released is None and cutoff is None and not margin:
        return None
    return Dates(released or "released", cutoff or "cutoff", margin)


def check_file(out: Path, *read: object) -> None:
    """Refuse a file that cannot be written, or that the command is given to read."""
    from bayescontam._files import check_writable
    from bayescontam._text import printable
    from bayescontam.errors import UsageError

    check_writable(out)
    for value in read:
        for given in value if isinstance(value, list | tuple) else [value]:
            if isinstance(given, str | Path) and _same(Path(given), out):
                raise UsageError(
                    f"{printable(str(out))}: is what the command reads, and would be lost; give the"
                    " result another name"
                )


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one is not there, or no name at all
        return False


def check_out(output: TableFormat, out: Path | None, *read: object) -> None:
    """Refuse what `check_file` does, and a file to which a table for the terminal would go."""
    from bayescontam.errors import UsageError

    if out is not None:
        if output is TableFormat.TABLE:
            raise UsageError("--out: a table is for the terminal; add --format csv or json")
        check_file(out, *read)


def exit_if_failed(checks: "Sequence[Check]") -> None:
    """Leave with the status of --strict if a check failed."""
    if any(check.outcome.value == "failed" for check in checks):
        raise typer.Exit(FAILED_CHECK)
