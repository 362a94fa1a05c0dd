"""Commands ``import …``: logs of evaluation tools and matrices to responses."""

import inspect as signatures
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from bayescontam.cli.options import Quiet, check_file

if TYPE_CHECKING:
    from bayescontam.data.importers.logs import Imported


Table = Annotated[
    Path,
    typer.Option("--out", "-o", help="Table to write: .parquet or .csv.", show_default=False),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Value from which on an answer is correct; default: values are 0 or 1.",
        show_default=False,
    ),
]
type _Call = tuple[Callable[..., "Imported"], dict[str, Any]]
"""An importer, and the options that only it has."""
LM_EVAL_EXAMPLES = """
Examples:

bayescontam import lm-eval results --out responses.parquet

bayescontam import lm-eval results -o responses.csv --metric acc_norm --metric gsm8k=exact_match

bayescontam import lm-eval results -o responses.csv --keep doc.subject --differing split
"""
INSPECT_EXAMPLES = """
Examples:

bayescontam import inspect logs --out responses.parquet

bayescontam import inspect logs -o responses.csv --scorer graded.right --keep metadata.level
"""
EVERY_EVAL_EVER_EXAMPLES = """
Examples:

bayescontam import every-eval-ever data/gsm8k --out responses.parquet

bayescontam import every-eval-ever data -o responses.csv --only gsm8k --metric exact_match
"""
HELM_EXAMPLES = """
Examples:

bayescontam import helm benchmark_output/runs/v1 --out responses.parquet --metric exact_match

bayescontam import helm runs -o responses.csv --metric quasi_exact_match --group 'mmlu=mmlu:*'
"""
OPENCOMPASS_EXAMPLES = """
Examples:

bayescontam import opencompass outputs/default --out responses.parquet
"""
LIGHTEVAL_EXAMPLES = """
Examples:

bayescontam import lighteval results --out responses.parquet --metric extractive_match

bayescontam import lighteval details_gsm8k_2026-02-03.parquet --model org/m -o responses.csv
"""
PY_IRT_EXAMPLES = """
Examples:

bayescontam import py-irt responses.jsonlines --benchmark swe --out responses.csv
"""
SWE_BENCH_EXAMPLES = """
Examples:

bayescontam import swe-bench org__m.run1.json org__n.run1.json --out responses.csv

bayescontam import swe-bench evaluation/verified --items ids.txt --errors incorrect -o r.csv
"""
EVALPLUS_EXAMPLES = """
Examples:

bayescontam import evalplus evalplus_results --metric plus --out responses.csv
"""
LIVECODEBENCH_EXAMPLES = """
Examples:

bayescontam import livecodebench performances_generation.json --out responses.csv

bayescontam import livecodebench performances_generation.json --cutoffs cutoffs.csv -o r.csv
"""
Logs = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Log files, or folders.", show_default=False)
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        help="Metric that counts: NAME, or BENCHMARK=NAME; may be repeated.", show_default=False
    ),
]
Model = Annotated[
    list[str] | None,
    typer.Option(
        help="Model that all logs are of: NAME, or FOLDER=NAME; may be repeated.",
        show_default=False,
    ),
]
MATRIX_EXAMPLES = """
Examples:

bayescontam import matrix scores.csv --benchmark mmlu --out responses.csv

bayescontam import matrix items.csv --items rows --benchmark-column task --keep topic -o r.csv
"""


def import_table[**Options](
    out: Path,
    quiet: bool,
    read: Callable[Options, "Imported"],
    *args: Options.args,
    **options: Options.kwargs,
) -> None:
    """Read responses, write the table, and print what was read and what was left out."""
    from bayescontam.data.tables import check_table_ending, write_table

    check_table_ending(out, "responses")
    check_file(out, *args)
    found = read(*args, **options)
    write_table(out, found.frame)
    if not quiet:
        _print(found, out)


def _print(found: "Imported", out: Path) -> None:
    from bayescontam._text import printable
    from bayescontam.cli.terminal import print_lines, print_table

    name = printable(str(out))
    spare = ["runs", "responses", "trials_each", "trials", "chosen"]
    print_table(found.read, spare, f"the rows of {name} by benchmark")
    if len(found.left_out):
        print_table(found.left_out, whole=True)  # printed nowhere else
    else:
        print_lines(["Nothing was left out."])
    print_lines(f"Note: {printable(note, 400)}" for note in found.notes)
    count, models = len(found.frame), found.frame["model"].nunique()
    unit = "model" if models == 1 else "models"
    print_lines([f"Wrote {count:,} responses of {models:,} {unit} to {name}"])


class Differing(StrEnum):
    """What becomes of runs of one model with other settings."""

    ERROR = "error"
    POOL = "pool"
    SPLIT = "split"


class Copies(StrEnum):
    """What becomes of answers that a run shares with another one."""

    LEAVE_OUT = "leave-out"
    COUNT = "count"


class Errors(StrEnum):
    """What becomes of items at which a run failed."""

    LEAVE_OUT = "leave-out"
    INCORRECT = "incorrect"


class Partial(StrEnum):
    """What becomes of partial credit."""

    ERROR = "error"
    CORRECT = "correct"
    INCORRECT = "incorrect"
    LEAVE_OUT = "leave-out"


class NoAnswer(StrEnum):
    """What becomes of lacking answers."""

    INCORRECT = "incorrect"
    LEAVE_OUT = "leave-out"


OnErrors = Annotated[Errors, typer.Option(help="What items with an error count as.")]


def _shared(
    *,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Column to keep: doc.subject, or NAME=doc.subject; may be repeated.",
            show_default=False,
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="Take several benchmarks for one: NAME=PATTERN, as mmlu=mmlu_*; may be repeated.",
            show_default=False,
        ),
    ] = None,
    differing: Annotated[
        Differing,
        typer.Option(
            help="Runs of one model with other settings: refuse, combine, or make models of them."
        ),
    ] = Differing.ERROR,
    copies: Annotated[
        Copies,
        typer.Option(help="Answers that two runs of a model share: count once, or as trials."),
    ] = Copies.LEAVE_OUT,
    skip_broken: Annotated[
        bool,
        typer.Option("--skip-broken", help="Leave out broken rows and files, and count them."),
    ] = False,
    quiet: Quiet = False,
) -> dict[str, Any]:
    """Return the options that all importers of logs have."""
    return {
        "keep": keep or (),
        "group": group or (),
        "differing": differing.value,
        "copies": copies.value,
        "skip_broken": skip_broken,
        "progress": not quiet,
    }


def _verb(own: Callable[..., _Call]) -> Callable[..., None]:
    """Return a command with the arguments of `own`, and those that all importers of logs have.

    Typer takes a command's options from its signature.
    """
    shared = signatures.signature(_shared).parameters
    options = signatures.signature(own).parameters

    def command(paths: list[Path], out: Path, quiet: bool, **given: Any) -> None:
        ours = {name: given.pop(name) for name in shared if name != "quiet"}
        read, options = own(**given)
        import_table(out, quiet, read, paths, **options, **_shared(quiet=quiet, **ours))

    first = [
        signatures.Parameter(name, signatures.Parameter.KEYWORD_ONLY, annotation=kind)
        for name, kind in (("paths", Logs), ("out", Table))
    ]
    rest = [
        option.replace(kind=signatures.Parameter.KEYWORD_ONLY)
        for option in (*options.values(), *shared.values())
    ]
    command.__signature__ = signatures.Signature([*first, *rest])  # type: ignore[attr-defined]
    command.__annotations__ = {
        "paths": Logs,
        "out": Table,
        **get_type_hints(own, include_extras=True, localns={"_Call": Any}),
        **get_type_hints(_shared, include_extras=True),
        "return": None,
    }
    command.__doc__ = own.__doc__
    command.__name__ = own.__name__
    return command


@_verb
def lm_eval(
    filter: Annotated[
        list[str] | None,
        typer.Option(
            help="Filter that counts: NAME, or TASK=NAME; may be repeated.", show_default=False
        ),
    ] = None,
    metric: Metric = None,
    threshold: Threshold = None,
    model: Model = None,
) -> _Call:
    """Read samples_*.jsonl, which lm_eval writes with --log_samples; also those of lmms-eval."""
    from bayescontam.data.importers.lm_eval import import_lm_eval

    return import_lm_eval, {
        "filter": filter or (),
        "metric": metric or (),
        "threshold": threshold,
        "model": model or (),
    }


@_verb
def inspect(
    scorer: Annotated[
        list[str] | None,
        typer.Option(
            help="Scorer that counts: NAME, NAME.ENTRY, or TASK=NAME; may be repeated.",
            show_default=False,
        ),
    ] = None,
    partial: Annotated[Partial, typer.Option(help="What partial credit (P) counts as.")] = (
        Partial.ERROR
    ),
    no_answer: Annotated[NoAnswer, typer.Option(help="What no answer (N) counts as.")] = (
        NoAnswer.INCORRECT
    ),
    errors: OnErrors = Errors.LEAVE_OUT,
    threshold: Threshold = None,
) -> _Call:
    """Read logs of Inspect (.eval, .json); needs the extra 'inspect'."""
    from bayescontam.data.importers.inspect_ai import import_inspect

    return import_inspect, {
        "scorer": scorer or (),
        "partial": partial.value,
        "no_answer": no_answer.value,
        "errors": errors.value,
        "threshold": threshold,
    }


@_verb
def every_eval_ever(
    metric: Metric = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Evaluation to take; may be repeated.", show_default=False),
    ] = None,
    threshold: Threshold = None,
    is_correct: Annotated[
        bool, typer.Option("--is-correct", help="Take is_correct, and not the score.")
    ] = False,
    errors: OnErrors = Errors.LEAVE_OUT,
) -> _Call:
    """Read rows of Every Eval Ever (*_samples.jsonl)."""
    from bayescontam.data.importers.every_eval_ever import import_every_eval_ever

    return import_every_eval_ever, {
        "metric": metric or (),
        "only": only or (),
        "threshold": threshold,
        "verdict": is_correct,
        "errors": errors.value,
    }


@_verb
def helm(metric: Metric = None, threshold: Threshold = None, model: Model = None) -> _Call:
    """Read runs of HELM (per_instance_stats.json)."""
    from bayescontam.data.importers.helm import import_helm

    return import_helm, {"metric": metric or (), "threshold": threshold, "model": model or ()}


@_verb
def opencompass(metric: Metric = None, model: Model = None) -> _Call:
    """Read results of OpenCompass, run with --dump-eval-details."""
    from bayescontam.data.importers.opencompass import import_opencompass

    return import_opencompass, {"metric": metric or (), "model": model or ()}


@_verb
def lighteval(metric: Metric = None, threshold: Threshold = None, model: Model = None) -> _Call:
    """Read details of lighteval (details_*.parquet), run with --save-details."""
    from bayescontam.data.importers.lighteval import import_lighteval

    return import_lighteval, {"metric": metric or (), "threshold": threshold, "model": model or ()}


@_verb
def py_irt(
    benchmark: Annotated[str, typer.Option(help="Name of the benchmark.", show_default=False)],
    threshold: Threshold = None,
) -> _Call:
    """Read the input of py-irt (JSON Lines of subjects with their responses)."""
    from bayescontam.data.importers.py_irt import import_py_irt

    return import_py_irt, {"benchmark": benchmark, "threshold": threshold}


@_verb
def swe_bench(
    benchmark: Annotated[str, typer.Option(help="Name of the benchmark.")] = "swe-bench",
    items: Annotated[
        Path | None,
        typer.Option(
            help="All instances: lines of text, a JSON list, or a table with instance_id.",
            show_default=False,
        ),
    ] = None,
    errors: OnErrors = Errors.LEAVE_OUT,
    model: Model = None,
) -> _Call:
    """Read reports of SWE-bench: lists of resolved ids."""
    from bayescontam.data.importers.swe_bench import import_swe_bench

    return import_swe_bench, {
        "benchmark": benchmark,
        "items": items,
        "errors": errors.value,
        "model": model or (),
    }


@_verb
def evalplus(metric: Metric = None, model: Model = None) -> _Call:
    """Read results of EvalPlus (eval_results.json)."""
    from bayescontam.data.importers.evalplus import import_evalplus

    return import_evalplus, {"metric": metric or (), "model": model or ()}


@_verb
def livecodebench(
    cutoffs: Annotated[
        Path | None,
        typer.Option(
            help="Table with columns model and cutoff; default: dates in the file.",
            show_default=False,
        ),
    ] = None,
    generations: Annotated[
        int | None,
        typer.Option(
            help="Generations for each problem; default: as the shares allow.",
            min=1,
            show_default=False,
        ),
    ] = None,
) -> _Call:
    """Read performances_generation.json of LiveCodeBench, with its dates."""
    from bayescontam.data.importers.livecodebench import import_livecodebench

    return import_livecodebench, {"cutoffs": cutoffs, "generations": generations}


class Items(StrEnum):
    """Whether the items of a matrix are its columns or its rows."""

    COLUMNS = "columns"
    ROWS = "rows"


def matrix(
    path: Annotated[
        Path,
        typer.Argument(help="CSV, TSV, JSON Lines or Parquet file.", show_default=False),
    ],
    out: Table,
    benchmark: Annotated[
        str | None, typer.Option(help="Name of the benchmark.", show_default=False)
    ] = None,
    benchmark_column: Annotated[
        str | None,
        typer.Option(help="Instead: column that has it; with --items rows.", show_default=False),
    ] = None,
    items: Annotated[
        Items, typer.Option(help="Whether items are columns or rows.")
    ] = Items.COLUMNS,
    names: Annotated[
        str | None,
        typer.Option(
            help="Column with the names of the rows; default: the first.",
            show_default=False,
        ),
    ] = None,
    threshold: Threshold = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of items to keep, with --items rows; may be repeated.", show_default=False
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Read a matrix of models by items, of 0 and 1."""
    from bayescontam.data.importers.matrix import import_matrix
    from bayescontam.errors import UsageError

    if (benchmark is None) == (benchmark_column is None):
        raise UsageError("--benchmark and --benchmark-column: give one of the two")
    import_table(
        out,
        quiet,
        import_matrix,
        path,
        benchmark=benchmark or benchmark_column or "",
        benchmark_in_column=benchmark is None,
        items=items.value,
        names=names,
        threshold=threshold,
        keep=keep or (),
    )
