"""Command ``plan``: how wide intervals will be, before there are data."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Context, Option

from bayescontam._progress import stage
from bayescontam.cli.options import Format, examples, reference_of
from bayescontam.cli.terminal import print_lines, print_table, put_csv, put_json
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    from bayescontam.power.scenario import SampleSizes


EXAMPLES = examples(
    "bayescontam plan --items 200,400,800 --models 4 --contamination 0.3 --width 0.1",
    "bayescontam plan --solve items --models 4 --quantity overfitting_direct --width 0.05",
    "bayescontam plan --items 250 --models 2 --generations 1,5,10 --spread sigma_eps=3",
    "bayescontam plan --covariates scan.parquet --items 500 --slope 0.8",
    "bayescontam plan --items 250 --twins 1,3 --controls 0,4",
)
_ITEMS = "200,400,800"
"""Items by default."""
_WITH_TWINS = (
    "items", "models", "benchmarks", "generations", "twins", "controls", "bases", "model",
    "contamination", "accuracy", "level", "output", "quiet",
)  # fmt: skip
in_design = partial(Option, rich_help_panel="Design")
in_truth = partial(Option, rich_help_panel="Assumptions")
in_targets = partial(Option, rich_help_panel="Targets")
in_simulation = partial(Option, rich_help_panel="Simulation")


def plan(
    ctx: Context,
    items: Annotated[
        str, in_design(help="Items in each benchmark; several sizes with commas.")
    ] = _ITEMS,
    models: Annotated[str, in_design(help="Number of models.")] = "1",
    benchmarks: Annotated[
        str | None, in_design(help="Number of benchmarks; default: 1, or as in the table.")
    ] = None,
    generations: Annotated[str, in_design(help="Generations of each model for each item.")] = "1",
    clean: Annotated[int, in_design(help="How many of the models are known to be clean.")] = 0,
    twins: Annotated[
        str | None,
        in_design(
            help="Plan total effects instead: clean twins of each base's exposed models; several"
            " numbers with commas. --models are then the exposed ones of each base."
        ),
    ] = None,
    controls: Annotated[
        str, in_design(help="With --twins: benchmarks that no model can have been exposed to.")
    ] = "0",
    bases: Annotated[
        str, in_design(help="With --twins: models or recipes that the others descend from.")
    ] = "1",
    model: Annotated[
        str | None,
        in_design(
            "--model",
            "-m",
            help="Model spec to fit with: a name or a .toml file; default: hierarchical, with"
            " --twins twins.",
        ),
    ] = None,
    contamination: Annotated[
        float | None, in_truth(help="Share of items that are contaminated; default: 0.3.")
    ] = None,
    responses: Annotated[
        Path | None, in_truth(help="Table of responses to take the contamination from, instead.")
    ] = None,
    covariates: Annotated[
        Path | None, in_truth(help="Table of covariates to take the contamination from, instead.")
    ] = None,
    accuracy: Annotated[float, in_truth(help="Expected accuracy of an average model.")] = 0.6,
    slope: Annotated[
        float, in_truth(help="Mean slope: log-odds from surely clean to surely contaminated.")
    ] = 1.5,
    spread: Annotated[
        list[str] | None,
        in_truth(
            help="Known spread, such as sigma_eps=3; may be repeated."
            " Others are drawn from their priors."
        ),
    ] = None,
    reference: Annotated[
        str,
        in_truth(
            help="Contamination level at which genuine ability is evaluated: min_observed, zero or"
            " a number."
        ),
    ] = "min_observed",
    quantity: Annotated[
        Literal[
            "genuine_ability_direct",
            "overfitting_direct",
            "slope",
            "accuracy",
            "genuine_ability",
            "overfitting",
        ],
        in_targets(
            help="Estimand whose interval is to be narrow enough. Plans are without spillover:"
            " genuine_ability and overfitting stand for those of the direct effect."
        ),
    ] = "genuine_ability_direct",
    width: Annotated[float | None, in_targets(help="Target width of its interval.")] = None,
    level: Annotated[float, in_targets(help="Credible level.")] = 0.95,
    solve: Annotated[
        Literal["items", "models", "generations"] | None,
        in_targets(help="Find the smallest number that reaches the target width."),
    ] = None,
    assurance: Annotated[
        float | None,
        in_targets(help="With --width: probability with which it should be reached; default: 0.8."),
    ] = None,
    most: Annotated[
        int | None,
        in_targets(
            help="With --solve: largest number to try; default: 100000 items, 100 generations, 32"
            " models (or 200 pairs of model and benchmark)."
        ),
    ] = None,
    data_sets: Annotated[int, in_simulation(help="Data sets to simulate for each design.")] = 100,
    seed: Annotated[
        int | None, in_simulation(help="Random seed; default: a new one, which is printed.")
    ] = None,
    output: Format = "table",
    quiet: Annotated[bool, in_simulation("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Plan a study: how wide intervals will be, and whether overfitting would show.

    With --twins: how wide intervals of direct effect, spillover and total effect will be where
    models of one base differ in contamination.
    """
    if twins is not None or (controls, bases) != ("0", "1"):
        _refuse_idle(ctx)
        given = {
            "items": items, "bases": bases, "exposed": models, "twins": twins or "1",
            "benchmarks": benchmarks or "1", "controls": controls, "generations": generations,
        }  # fmt: skip
        share = 0.3 if contamination is None else contamination
        _plan_twins(given, model or "twins", share, accuracy, level, output)
        return
    for option, value, needed, other in (
        ("assurance", assurance, "width", width),
        ("most", most, "solve", solve),
    ):
        if value is not None and other is None:
            raise UsageError(f"--{option}: is of no use without --{needed}; give both, or neither")
    if solve is not None and _is_given(ctx, solve):
        raise UsageError(f"--{solve}: it is solved for; leave it out")
    with stage(not quiet, "preparing the designs"):
        from bayescontam._random import check_seed
        from bayescontam.power.power import (
            ASSURANCE,
            SPARE,
            plan_notes,
            power_analysis,
            varying_columns,
        )
        from bayescontam.power.scenario import Assumptions
        from bayescontam.specs.registry import load_model

        spec = load_model(model or "hierarchical")
        known = _contamination(contamination, responses, covariates)
    count = benchmarks or ("1" if isinstance(known, float) else str(len(known)))
    designs = _designs(items, models, count, generations, clean, solve)
    truth = Assumptions(accuracy, slope, known, _spreads(spread or []))
    if seed is not None:
        check_seed(seed, "--seed")
    found = power_analysis(
        spec, designs, truth, quantity=quantity, width=width,
        assurance=ASSURANCE if assurance is None else assurance, level=level,
        data_sets=data_sets, solve=solve, most=most, reference=reference_of(reference),
        seed=seed, progress=not quiet,
    )  # fmt: skip
    if output == "csv":
        put_csv(found.table)
    elif output == "json":
        put_json(found.table)
    else:
        print_table(varying_columns(found.table), SPARE)
        lines = [found.sentence] if found.sentence else []
        print_lines([*lines, *plan_notes(found.table, truth, found.request, found.seed)])


def _is_given(ctx: Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _refuse_idle(ctx: Context) -> None:
    """Refuse options that were given and have no use with twins."""
    used = []
    for name in ctx.params:
        if name not in _WITH_TWINS and _is_given(ctx, name):
            used.append(f"--{name.replace('_', '-')}")
    if used:
        raise UsageError(
            f"{', '.join(used)}: no use with --twins, --controls and --bases, whose widths are"
            " computed from the priors of the model spec. Leave out one or the other"
        )


def _plan_twins(
    given: dict[str, str], model: str, share: float, accuracy: float, level: float, output: str
) -> None:
    """Print what to expect of all combinations of twins, controls and other sizes."""
    from bayescontam.power.totals import TwinSizes, twin_power_analysis

    names = {"exposed": "models"}
    sizes = {name: _numbers(names.get(name, name), text) for name, text in given.items()}
    rows = product(*sizes.values())
    designs = [TwinSizes(**dict(zip(sizes, row, strict=True)), share=share) for row in rows]
    table = twin_power_analysis(model, designs, accuracy=accuracy, level=level)
    if output == "csv":
        put_csv(table)
    elif output == "json":
        put_json(table)
    else:
        alike = [name for name in (*sizes, "share") if table[name].nunique() == 1]
        print_table(table.drop(columns=alike))
        same = ", ".join(f"{name} = {table[name].iloc[0]:g}" for name in alike)
        lines = [
            f"Everywhere: {same}.",
            f"Widths of {100 * level:g} % intervals, differences of accuracies, median over exposed"
            " models, at an accuracy of "
            f"{accuracy:g}; spreads are drawn from the priors of '{model}'.",
        ]
        print_lines(lines)


def _contamination(share: float | None, responses: Path | None, covariates: Path | None) -> Any:
    """Return the share of contaminated items, or contaminations from a table."""
    from bayescontam.data.responses import given_covariates, given_responses
    from bayescontam.power.scenario import observed_contamination

    if share is not None and (responses is not None or covariates is not None):
        raise UsageError("--contamination: leave it out where a table says it, or the table")
    if responses is not None:
        return observed_contamination(given_responses(responses, covariates))
    if covariates is not None:
        return observed_contamination(given_covariates(covariates))
    return 0.3 if share is None else share


def _designs(
    items: str, models: str, benchmarks: str, generations: str, clean: int, solve: str | None
) -> "list[SampleSizes]":
    """Return all combinations of the sizes; the one to solve for has one value."""
    from bayescontam.power.scenario import SampleSizes

    given = {"items": items, "models": models, "benchmarks": benchmarks, "generations": generations}
    sizes = {name: _numbers(name, text) for name, text in given.items()}
    if solve is not None:
        least = clean + 1 if solve == "models" else 1  # what is solved for may be anything
        sizes[solve] = [max(least, *sizes[solve])]
        several = [name for name, values in sizes.items() if len(values) > 1]
        if several and not (several == ["items"] and items == _ITEMS):
            raise UsageError(f"--{several[0]}: with --solve give one number")
        if several:
            raise UsageError(f"--items: with --solve {solve} say how many items there are")
    rows = product(*sizes.values())
    return [SampleSizes(**dict(zip(sizes, row, strict=True)), clean=clean) for row in rows]


def _numbers(name: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--{name}: got {text!r}; allowed are whole numbers, such as 200,400"
        ) from None


def _spreads(given: list[str]) -> dict[str, float]:
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
