"""Command ``mastery``: which concepts the models of a fit have."""

from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import (
    FitFile,
    Format,
    InsteadOfPrinting,
    LevelOfFit,
    ShowNoProgress,
    check_out,
    examples,
)
from bayescontam.cli.terminal import print_lines, print_table, put_csv, put_json
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    from bayescontam.inference.mastery import Mastery

EXAMPLES = examples(
    "bayescontam mastery fit.nc",
    "bayescontam mastery fit.nc --at-least 8 --number 10 --above 0.9",
    "bayescontam mastery fit.nc --on same --at-least 1.0",
    "bayescontam mastery fit.nc --pairs --against gpt-4 --format csv --out pairs.csv",
)
_SPARE = ("p_solved", "solved", "units", "expected", "spread")
"""Columns that are left out where the terminal is narrow, in this order."""


def mastery(
    path: FitFile,
    at_least: Annotated[
        str,
        Option(
            help="How many tasks must be solved: a whole number (8), or a share with a point (0.8)."
        ),
    ] = "0.8",
    unit: Annotated[
        Literal["task", "item"] | None,
        Option(
            help="What is counted: tasks, solved if all of their items are (rows with one value of"
            " the column task), or items. Default: tasks, if the table had the column."
        ),
    ] = None,
    on: Annotated[
        Literal["new", "same"],
        Option(
            help="New tasks, of which those of the table are a sample; or the same ones, answered"
            " once more."
        ),
    ] = "new",
    number: Annotated[
        int | None,
        Option(help="How many new tasks, up to 10,000; default: as many as the concept has."),
    ] = None,
    above: Annotated[
        list[float] | None,
        Option(
            help="Accuracy for the number of concepts above it; may be repeated. Default: 0.3, 0.6"
            " and 0.9."
        ),
    ] = None,
    by: Annotated[
        Literal["genuine_ability", "genuine_ability_direct", "accuracy"] | None,
        Option(
            help="Accuracy without contamination or with it; default: genuine ability, where"
            " contamination was modelled."
        ),
    ] = None,
    pairs: Annotated[
        bool,
        Option("--pairs", help="Print how models differ, concept by concept. JSON has both."),
    ] = False,
    against: Annotated[
        str | None, Option(help="With --pairs: the model that the others are compared with.")
    ] = None,
    level: LevelOfFit = None,
    output: Format = "table",
    out: InsteadOfPrinting = None,
    quiet: ShowNoProgress = False,
) -> None:
    """Estimate which concepts models have, and how probably they solve most tasks."""
    check_out(output, out, path)
    if against is not None and not pairs and output != "json":
        raise UsageError("--against goes with --pairs, or with --format json")
    needed = _count(at_least)
    with stage(not quiet, f"reading {printable(path)} and trying tasks"):
        from bayescontam.inference.findings import verdict_line
        from bayescontam.inference.mastery import ABOVE, concept_mastery
        from bayescontam.inference.result import Fit

        fit = Fit.from_netcdf(path)
        found = concept_mastery(
            fit,
            needed,
            unit=unit,
            on=on,
            number=number,
            above=above or ABOVE,
            by=by,
            against=against,
            level=level,
        )
    if output == "csv":
        put_csv(found.differences if pairs else found.table, out)
    elif output == "json":
        put_json(found.to_dict() | {"verdict": verdict_line(fit, level)}, out)
    else:
        _print(found, pairs)
        print_lines([verdict_line(fit, level)])


def _count(text: str) -> float | int:
    try:
        return int(text) if text.strip().isdecimal() else float(text)
    except ValueError:
        shown = printable(text, 40)
        raise UsageError(
            f"--at-least: got '{shown}'; allowed are a whole number (8), or a share with a point"
            " (0.8)"
        ) from None


def _print(found: "Mastery", pairs: bool) -> None:
    if pairs and found.differences.empty:
        print_lines(["There is no pair of models that can be compared on a concept."])
    elif pairs:
        print_table(found.differences)
    else:
        # Verdicts are in the sentences.
        table = found.table.drop(columns="verdict").dropna(axis=1, how="all")
        print_table(table, _SPARE)
        print_table(found.above)
        print_lines(found.sentences())
