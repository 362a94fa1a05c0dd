"""Commands ``models …``: model specs that ship, in words and as priors."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import Format, ShowNoProgress, TableFormat, check_file

if TYPE_CHECKING:
    from bayescontam.data.responses import Responses
    from bayescontam.inference.prior_predictive import Implied


EXAMPLES = """
Examples:

bayescontam models list

bayescontam models show hierarchical

bayescontam models prior hierarchical
"""
LIST_EXAMPLE = "Example: bayescontam models list"
SHOW_EXAMPLES = """
Examples:

bayescontam models show hierarchical

bayescontam models show hierarchical --toml > mine.toml

bayescontam models show mine.toml --format markdown > mine.md
"""
PRIOR_EXAMPLES = """
Examples:

bayescontam models prior hierarchical

bayescontam models prior mine.toml --models 3 --benchmarks 1 --out prior.png

bayescontam models prior mine.toml --responses responses.csv --format json
"""
_LAYOUT, _DATA = "Made-up table", "Your own table"
app = typer.Typer(
    help="Model specs: list those that ship with the package, and show one.", no_args_is_help=True
)


class PageFormat(StrEnum):
    """How a model spec is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"


@app.command("list", epilog=LIST_EXAMPLE)
def list_models() -> None:
    """List the model specs that ship with the package."""
    from bayescontam.cli.terminal import print_lines, print_list
    from bayescontam.specs.registry import load_spec, shipped_models

    print_list((name, load_spec(name).summary) for name in shipped_models())
    print()
    print_lines([
        "Use one with --model NAME. To make your own: models show NAME --toml > mine.toml,"
        " change it and pass --model mine.toml."
    ])  # fmt: skip


@app.command("show", epilog=SHOW_EXAMPLES)
def show(
    name: Annotated[
        str,
        typer.Argument(help="Name of a model spec, or path of a .toml file.", show_default=False),
    ],
    file_only: Annotated[
        bool, typer.Option("--toml", help="Print only the file, to copy and change.")
    ] = False,
    output: Annotated[
        PageFormat,
        typer.Option("--format", "-f", help="Text for the terminal, or a page in Markdown."),
    ] = PageFormat.TEXT,
) -> None:
    """Print a model spec: its file, its mathematics, and what its priors mean."""
    from bayescontam.errors import UsageError
    from bayescontam.specs.registry import load_spec

    if file_only and output is not PageFormat.TEXT:
        raise UsageError("--toml: prints the file and nothing else; leave out --format")
    spec = load_spec(name)
    if file_only:
        print(spec.text, end="")
        return
    if output is PageFormat.MARKDOWN:
        from bayescontam.report.model_page import spec_page

        print(spec_page(spec, name), end="")
        return
    from bayescontam.model.describe import mathematics, prior_meanings

    print(f"# {spec.name} ({spec.hash[:12]})\n\n{spec.text}")
    print("# Mathematics\n")
    for line in mathematics(spec):
        print(f"    {line}")
    print("\n# What the priors mean for accuracy\n")
    for parameter, prior, meaning in prior_meanings(spec):
        print(f"    {parameter} ~ {prior}\n        {meaning}")


@app.command("prior", epilog=PRIOR_EXAMPLES)
def prior(
    name: Annotated[
        str,
        typer.Argument(help="Name of a model spec, or path of a .toml file.", show_default=False),
    ],
    models: Annotated[
        int | None, typer.Option(help="Number of models; default: 8.", rich_help_panel=_LAYOUT)
    ] = None,
    benchmarks: Annotated[
        int | None, typer.Option(help="Number of benchmarks; default: 2.", rich_help_panel=_LAYOUT)
    ] = None,
    items: Annotated[
        int | None,
        typer.Option(help="Items in each benchmark; default: 200.", rich_help_panel=_LAYOUT),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Trials for each item; default: 1.", rich_help_panel=_LAYOUT)
    ] = None,
    responses: Annotated[
        Path | None,
        typer.Option(
            help="Use this table's layout; its scores are ignored.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    covariates: Annotated[
        Path | None, typer.Option(help="Its table of covariates.", rich_help_panel=_DATA)
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws from the prior.")] = 1000,
    seed: Annotated[
        int | None, typer.Option(help="Random seed; default: a new one.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write as well: .png or .svg (picture), .html (page), .csv (table).",
            show_default=False,
        ),
    ] = None,
    output: Format = TableFormat.TABLE,
    quiet: ShowNoProgress = False,
) -> None:
    """Show what a spec's prior implies for accuracy, overfitting and differences of models."""
    if out is not None:
        with stage(not quiet, "preparing the picture"):
            from bayescontam.report.model_page import check_ending, write_prior

        check_ending(out)
        check_file(out, name, responses, covariates)
    layout = {"models": models, "benchmarks": benchmarks, "items": items, "trials": trials}
    given = {option: value for option, value in layout.items() if value is not None}
    table = _table(responses, covariates, given, quiet)
    found = _implied(name, given, table, draws, seed, quiet)
    if out is not None:
        write_prior(found, out)
    _print_prior(found, output, out)


def _table(
    responses: Path | None, covariates: Path | None, layout: dict[str, int], quiet: bool
) -> "Responses | None":
    """Read the user's own table, if there is one."""
    from bayescontam.errors import UsageError

    if responses is None:
        if covariates is not None:
            raise UsageError("--covariates: belongs to a table of responses; give --responses too")
        return None
    if layout:
        named = ", ".join(f"--{option}" for option in layout)
        raise UsageError(
            f"{named}: of the made-up table, which --responses replaces; leave one of them out"
        )
    with stage(not quiet, f"reading {printable(str(responses))}"):
        from bayescontam.data.responses import given_responses

        return given_responses(responses, covariates)


def _implied(
    name: str,
    layout: dict[str, Any],
    responses: "Responses | None",
    draws: int,
    seed: int | None,
    quiet: bool,
) -> "Implied":
    with stage(not quiet, "drawing from the prior"):
        from bayescontam._random import fresh_seed
        from bayescontam.cli.terminal import calm
        from bayescontam.inference.prior_predictive import implied
        from bayescontam.specs.registry import load_spec

        calm()
        spec = load_spec(name)
        chosen = fresh_seed() if seed is None else seed
        return implied(spec, draws=draws, seed=chosen, responses=responses, **layout)


def _print_prior(found: "Implied", output: TableFormat, out: Path | None) -> None:
    from bayescontam.cli.terminal import print_lines, print_table

    if output is TableFormat.CSV:
        print(found.table().to_csv(index=False), end="")
        print(f"Seed {found.seed}.", file=sys.stderr)
    elif output is TableFormat.JSON:
        print(_json(found))
    else:
        print_table(found.readable(), spare=("q25", "q75", "meaning"))
        print_lines([*found.notes(), f"Seed {found.seed}."])
        print_lines([f"Wrote {printable(str(out))}."] if out is not None else [])


def _json(found: "Implied") -> str:
    import json

    content = {
        "model_spec": {"name": found.spec.name, "hash": found.spec.hash},
        "data": found.data,
        "draws": found.draws,
        "seed": found.seed,
        "left_out": [{"term": term, "reason": reason} for term, reason in found.left_out],
        "quantities": found.table().to_dict("records"),
    }
    return json.dumps(content, indent=1, ensure_ascii=False)
