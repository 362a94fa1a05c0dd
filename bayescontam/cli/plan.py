"""Command ``plan``: how wide intervals will be, before there are data."""

from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayescontam._progress import stage
from bayescontam.cli.options import Format, TableFormat, reference_of

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.power.power import PowerRequest
    from bayescontam.power.scenario import Assumptions, SampleSizes


EXAMPLES = """
Examples:

bayescontam plan --items 200,400,800 --models 4 --contamination 0.3 --width 0.1

bayescontam plan --solve items --models 4 --quantity overfitting --width 0.05

bayescontam plan --items 250 --models 2 --generations 1,5,10 --spread sigma_eps=3

bayescontam plan --covariates scan.parquet --items 500 --slope 0.8
"""
_ITEMS = "200,400,800"
"""Items by default."""
_SIZES = ("items", "models", "benchmarks", "generations")
_DESIGN, _TRUTH, _WISH, _SIMULATION = "Design", "Assumptions", "Targets", "Simulation"


class PlannedQuantity(StrEnum):
    """Estimands whose intervals can be planned."""

    GENUINE_ABILITY = "genuine_ability"
    OVERFITTING = "overfitting"
    SLOPE = "slope"
    ACCURACY = "accuracy"


class Unknown(StrEnum):
    """Sizes that can be solved for."""

    ITEMS = "items"
    MODELS = "models"
    GENERATIONS = "generations"


def plan(
    items: Annotated[
        str,
        typer.Option(
            help="Items in each benchmark; several sizes with commas.", rich_help_panel=_DESIGN
        ),
    ] = _ITEMS,
    models: Annotated[str, typer.Option(help="Number of models.", rich_help_panel=_DESIGN)] = "1",
    benchmarks: Annotated[
        str | None,
        typer.Option(
            help="Number of benchmarks; default: 1, or as in the table.",
            show_default=False,
            rich_help_panel=_DESIGN,
        ),
    ] = None,
    generations: Annotated[
        str, typer.Option(help="Generations of each model for each item.", rich_help_panel=_DESIGN)
    ] = "1",
    clean: Annotated[
        int,
        typer.Option(help="How many of the models are known to be clean.", rich_help_panel=_DESIGN),
    ] = 0,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="Model spec to fit with: a name or a .toml file.",
            rich_help_panel=_DESIGN,
        ),
    ] = "hierarchical",
    contamination: Annotated[
        float | None,
        typer.Option(
            help="Share of items that are contaminated; default: 0.3.",
            show_default=False,
            rich_help_panel=_TRUTH,
        ),
    ] = None,
    responses: Annotated[
        Path | None,
        typer.Option(
            help="Table of responses to take the contamination from, instead.",
            rich_help_panel=_TRUTH,
        ),
    ] = None,
    covariates: Annotated[
        Path | None,
        typer.Option(
            help="Table of covariates to take the contamination from, instead.",
            rich_help_panel=_TRUTH,
        ),
    ] = None,
    accuracy: Annotated[
        float,
        typer.Option(help="Expected accuracy of an average model.", rich_help_panel=_TRUTH),
    ] = 0.6,
    slope: Annotated[
        float,
        typer.Option(
            help="Mean slope: log-odds from surely clean to surely contaminated.",
            rich_help_panel=_TRUTH,
        ),
    ] = 1.5,
    spread: Annotated[
        list[str] | None,
        typer.Option(
            help="Known spread, such as sigma_eps=3; may be repeated."
            " Others are drawn from their priors.",
            rich_help_panel=_TRUTH,
        ),
    ] = None,
    reference: Annotated[
        str,
        typer.Option(
            help="Contamination level at which genuine ability is evaluated: min_observed, zero or"
            " a number.",
            rich_help_panel=_TRUTH,
        ),
    ] = "min_observed",
    quantity: Annotated[
        PlannedQuantity,
        typer.Option(help="Estimand whose interval is to be narrow enough.", rich_help_panel=_WISH),
    ] = PlannedQuantity.GENUINE_ABILITY,
    width: Annotated[
        float | None,
        typer.Option(
            help="Target width of its interval.", show_default=False, rich_help_panel=_WISH
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Credible level.", rich_help_panel=_WISH)] = 0.95,
    solve: Annotated[
        Unknown | None,
        typer.Option(
            help="Find the smallest number that reaches the target width.",
            show_default=False,
            rich_help_panel=_WISH,
        ),
    ] = None,
    assurance: Annotated[
        float,
        typer.Option(
            help="Probability with which the target should be reached.", rich_help_panel=_WISH
        ),
    ] = 0.8,
    most: Annotated[
        int | None,
        typer.Option(
            help="Largest number to try; default: 100000 items, 100 generations, 32 models (or 200"
            " pairs of model and benchmark).",
            show_default=False,
            rich_help_panel=_WISH,
        ),
    ] = None,
    data_sets: Annotated[
        int,
        typer.Option(help="Data sets to simulate for each design.", rich_help_panel=_SIMULATION),
    ] = 100,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Random seed; default: a new one, which is printed.",
            show_default=False,
            rich_help_panel=_SIMULATION,
        ),
    ] = None,
    output: Format = TableFormat.TABLE,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=_SIMULATION)
    ] = False,
) -> None:
    """Plan a study: how wide intervals will be, and whether overfitting would show."""
    with stage(not quiet, "preparing the designs"):
        from bayescontam._random import check_seed, fresh_seed
        from bayescontam.power.power import PowerRequest
        from bayescontam.power.power import plan as plan_designs
        from bayescontam.power.power import solve as solve_design
        from bayescontam.power.scenario import Assumptions
        from bayescontam.specs.registry import load_spec

        spec = load_spec(model)
        known = _contamination(contamination, responses, covariates)
    count = benchmarks or ("1" if isinstance(known, float) else str(len(known)))
    designs = _designs(items, models, count, generations, clean, solve)
    truth = Assumptions(accuracy, slope, known, _spreads(spread or []))
    wish = PowerRequest(quantity.value, width, assurance, level, data_sets)
    chosen = fresh_seed() if seed is None else seed
    check_seed(chosen, "--seed")
    options: dict[str, Any] = {
        "seed": chosen, "reference": reference_of(reference), "progress": not quiet,
    }  # fmt: skip
    if solve is None:
        table, lines = plan_designs(designs, truth, spec, wish, **options), []
    else:
        found = solve_design(solve.value, designs[0], truth, spec, wish, most=most, **options)
        table, lines = found.table, [found.sentence]
    _show(table, lines, truth, wish, chosen, output)


def _contamination(share: float | None, responses: Path | None, covariates: Path | None) -> Any:
    """Return the share of contaminated items, or contaminations from a table."""
    from bayescontam.data.responses import given_covariates, given_responses
    from bayescontam.errors import UsageError
    from bayescontam.power.scenario import observed_contamination

    if share is not None and (responses is not None or covariates is not None):
        raise UsageError("--contamination: leave it out where a table says it, or the table")
    if responses is not None:
        return observed_contamination(given_responses(responses, covariates))
    if covariates is not None:
        return observed_contamination(given_covariates(covariates))
    return 0.3 if share is None else share


def _designs(
    items: str, models: str, benchmarks: str, generations: str, clean: int, solve: Unknown | None
) -> "list[SampleSizes]":
    """Return all combinations of the sizes; the one to solve for has one value."""
    from bayescontam.errors import UsageError
    from bayescontam.power.scenario import SampleSizes

    given = {"items": items, "models": models, "benchmarks": benchmarks, "generations": generations}
    sizes = {name: _numbers(name, text) for name, text in given.items()}
    if solve is not None:
        start = sizes[solve.value]
        if len(start) > 1 and not (solve.value == "items" and items == _ITEMS):
            raise UsageError(f"--{solve.value}: it is solved for; leave it out")
        least = clean + 1 if solve.value == "models" else 1  # what is solved for may be anything
        sizes[solve.value] = [max(least, *sizes[solve.value])]
        several = [name for name, values in sizes.items() if len(values) > 1]
        if several and not (several == ["items"] and items == _ITEMS):
            raise UsageError(f"--{several[0]}: with --solve give one number")
        if several:
            raise UsageError(f"--items: with --solve {solve.value} say how many items there are")
    rows = product(*sizes.values())
    return [SampleSizes(**dict(zip(_SIZES, row, strict=True)), clean=clean) for row in rows]


def _numbers(name: str, text: str) -> list[int]:
    from bayescontam.errors import UsageError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--{name}: got {text!r}; allowed are whole numbers, such as 200,400"
        ) from None


def _spreads(given: list[str]) -> dict[str, float]:
    from bayescontam.errors import UsageError

    spreads = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            spreads[name.strip()] = float(value)
        except ValueError:
            raise UsageError(
                f"--spread: got {text!r}; allowed is a name with a number, such as sigma_eps=3"
            ) from None
    return spreads


def _show(
    table: "pd.DataFrame",
    lines: list[str],
    truth: "Assumptions",
    wish: "PowerRequest",
    seed: int,
    output: TableFormat,
) -> None:
    from bayescontam.cli.terminal import print_lines, print_table
    from bayescontam.power.power import SPARE, plan_notes, varying_columns

    if output is TableFormat.CSV:
        print(table.to_csv(index=False), end="")
        return
    if output is TableFormat.JSON:
        print(table.to_json(orient="records", indent=1, double_precision=15))
        return
    print_table(varying_columns(table), SPARE)
    print_lines([*lines, *plan_notes(table, truth, wish, seed)])
