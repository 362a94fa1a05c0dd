"""Commands ``models …``: model specs that ship, in words and as priors."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, Typer

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import (
    FileOnly,
    Format,
    PageFormat,
    ShowNoProgress,
    SpecName,
    TableFormat,
    check_file,
    examples,
)
from bayescontam.cli.terminal import (
    print_lines,
    print_list,
    print_table,
    put_csv,
    put_json,
)
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    from bayescontam.data.responses import Responses
    from bayescontam.inference.prior_predictive import Implied


EXAMPLES = examples(
    "bayescontam models list",
    "bayescontam models show hierarchical",
    "bayescontam models prior hierarchical",
)
in_layout = partial(Option, rich_help_panel="Made-up table")
in_own = partial(Option, rich_help_panel="Your own table")
app = Typer(
    help="Model specs: list those that ship with the package, and show one.", no_args_is_help=True
)


@app.command("list", epilog="Example: bayescontam models list")
def list_models() -> None:
    """List the model specs that ship with the package."""
    from bayescontam.specs.registry import load_model, shipped_models

    print_list((name, load_model(name).summary) for name in shipped_models())
    print()
    print_lines(
        [
            "Use one with --model NAME. To make your own: models show NAME --toml > mine.toml,"
            " change it and pass --model mine.toml."
        ]
    )


@app.command(
    "show",
    epilog=examples(
        "bayescontam models show hierarchical",
        "bayescontam models show hierarchical --toml > mine.toml",
        "bayescontam models show mine.toml --format markdown > mine.md",
    ),
)
def show(name: SpecName, file_only: FileOnly = False, output: PageFormat = "text") -> None:
    """Print a model spec: its file, its mathematics, and what its priors mean."""
    from bayescontam.specs.registry import load_model

    if file_only and output != "text":
        raise UsageError("--toml: prints the file and nothing else; leave out --format")
    spec = load_model(name)
    if file_only:
        print(spec.text, end="")
        return
    if output == "markdown":
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


@app.command(
    "prior",
    epilog=examples(
        "bayescontam models prior hierarchical",
        "bayescontam models prior mine.toml --models 3 --benchmarks 1 --out prior.png",
        "bayescontam models prior mine.toml --responses responses.csv --format json",
    ),
)
def prior(
    name: SpecName,
    models: Annotated[int | None, in_layout(help="Number of models; default: 8.")] = None,
    benchmarks: Annotated[int | None, in_layout(help="Number of benchmarks; default: 2.")] = None,
    items: Annotated[int | None, in_layout(help="Items in each benchmark; default: 200.")] = None,
    trials: Annotated[int | None, in_layout(help="Trials for each item; default: 1.")] = None,
    responses: Annotated[
        Path | None, in_own(help="Use this table's layout; its scores are ignored.")
    ] = None,
    covariates: Annotated[Path | None, in_own(help="Its table of covariates.")] = None,
    draws: Annotated[int, Option(help="Draws from the prior.")] = 1000,
    seed: Annotated[int | None, Option(help="Random seed; default: a new one.")] = None,
    out: Annotated[
        Path | None,
        Option(
            "--out",
            "-o",
            help="File to write as well: .png or .svg (picture), .html (page), .csv (table).",
        ),
    ] = None,
    output: Format = "table",
    quiet: ShowNoProgress = False,
) -> None:
    """Show what a spec's prior implies for accuracy, overfitting and differences of models."""
    if out is not None:
        with stage(not quiet, "preparing the picture"):
            from bayescontam.report.model_page import check_ending, write_prior

        check_ending(out)
        check_file(out, name, responses, covariates)
    sizes = {"models": models, "benchmarks": benchmarks, "items": items, "trials": trials}
    layout: dict[str, Any] = {option: value for option, value in sizes.items() if value is not None}
    table = _own_table(responses, covariates, list(layout), quiet)
    with stage(not quiet, "drawing from the prior"):
        from bayescontam._random import fresh_seed
        from bayescontam.inference.prior_predictive import implied
        from bayescontam.specs.registry import load_model

        chosen = fresh_seed() if seed is None else seed
        found = implied(load_model(name), draws=draws, seed=chosen, responses=table, **layout)
    if out is not None:
        write_prior(found, out)
    _print_prior(found, output, out)


def _own_table(
    responses: Path | None, covariates: Path | None, layout: list[str], quiet: bool
) -> "Responses | None":
    """Read the user's own table, if there is one."""
    if responses is None:
        if covariates is not None:
            raise UsageError("--covariates: belongs to a table of responses; give --responses too")
        return None
    if layout:
        named = ", ".join(f"--{option}" for option in layout)
        raise UsageError(
            f"{named}: of the made-up table, which --responses replaces; leave one of them out"
        )
    with stage(not quiet, f"reading {printable(responses)}"):
        from bayescontam.data.responses import given_responses

        return given_responses(responses, covariates)


def _print_prior(found: "Implied", output: TableFormat, out: Path | None) -> None:

    if output == "csv":
        put_csv(found.table())
        print(f"Seed {found.seed}.", file=sys.stderr)
    elif output == "json":
        put_json(
            {
                "model_spec": {"name": found.spec.name, "hash": found.spec.hash},
                "data": found.data,
                "draws": found.draws,
                "seed": found.seed,
                "left_out": [{"term": term, "reason": why} for term, why in found.left_out],
                "quantities": found.table().to_dict("records"),  # in full precision
            }
        )
    else:
        print_table(found.readable(), spare=("q25", "q75", "meaning"))
        print_lines([*found.notes(), f"Seed {found.seed}."])
        print_lines([f"Wrote {printable(out)}."] if out is not None else [])
