"""Verb ``import``: logs of evaluation tools to a table of responses."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli.options import Quiet

if TYPE_CHECKING:
    from bayescontam.importers.imported import Imported

EXAMPLES = """
Examples:

bayescontam import lm-eval results --out responses.parquet --filter strict-match --metric acc

bayescontam import inspect logs --out responses.parquet --scorer match --partial incorrect

bayescontam import matrix scores.csv --benchmark mmlu --out responses.csv

Then: bayescontam fit responses.parquet --covariates covariates.parquet --out fit.nc
"""
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
MATRIX_EXAMPLES = """
Examples:

bayescontam import matrix scores.csv --benchmark mmlu --out responses.csv

bayescontam import matrix items.csv --items rows --benchmark-column task --keep topic -o r.csv
"""
EVERY_EVAL_EVER_EXAMPLES = """
Examples:

bayescontam import every-eval-ever data/gsm8k --out responses.parquet

bayescontam import every-eval-ever data -o responses.csv --only gsm8k --metric exact_match
"""
app = typer.Typer(
    help="Make a table of responses from logs of evaluation tools, or from a matrix.",
    no_args_is_help=True,
)


class Differing(StrEnum):
    """What becomes of runs of one model with other settings."""

    ERROR = "error"
    POOL = "pool"
    SPLIT = "split"


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


class Items(StrEnum):
    """Where the items of a matrix stand."""

    COLUMNS = "columns"
    ROWS = "rows"


Logs = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Log files, or folders.", show_default=False)
]
Out = Annotated[
    Path,
    typer.Option("--out", "-o", help="Table to write: .parquet or .csv.", show_default=False),
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        help="Metric that counts: NAME, or BENCHMARK=NAME; may be repeated.", show_default=False
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Value from which on an answer is correct; default: values are 0 or 1.",
        show_default=False,
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="Column to keep: doc.subject, or NAME=doc.subject; may be repeated.",
        show_default=False,
    ),
]
OnDiffering = Annotated[
    Differing,
    typer.Option(
        help="Runs of one model with other settings: refuse, add up, or make models of them."
    ),
]
SkipBroken = Annotated[
    bool, typer.Option("--skip-broken", help="Leave out broken rows and logs, and count them.")
]


@app.command("lm-eval", epilog=LM_EVAL_EXAMPLES)
def lm_eval(
    paths: Logs,
    out: Out,
    filter: Annotated[
        list[str] | None,
        typer.Option(
            help="Filter that counts: NAME, or TASK=NAME; may be repeated.", show_default=False
        ),
    ] = None,
    metric: Metric = None,
    threshold: Threshold = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model that all files are of; default: as results files say.", show_default=False
        ),
    ] = None,
    keep: Keep = None,
    differing: OnDiffering = Differing.ERROR,
    skip_broken: SkipBroken = False,
    quiet: Quiet = False,
) -> None:
    """Read samples_*.jsonl, which lm_eval writes with --log_samples."""
    from bayescontam.importers.lm_eval import import_lm_eval

    _check(out)
    found = import_lm_eval(
        paths,
        filter=filter or (),
        metric=metric or (),
        threshold=threshold,
        model=model,
        keep=keep or (),
        differing=differing.value,
        skip_broken=skip_broken,
        progress=not quiet,
    )
    _finish(found, out, quiet)


@app.command("inspect", epilog=INSPECT_EXAMPLES)
def inspect(
    paths: Logs,
    out: Out,
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
    threshold: Threshold = None,
    keep: Keep = None,
    differing: OnDiffering = Differing.ERROR,
    skip_broken: SkipBroken = False,
    quiet: Quiet = False,
) -> None:
    """Read logs of Inspect (.eval, .json); needs the extra 'inspect'."""
    from bayescontam.importers.inspect_ai import import_inspect

    _check(out)
    found = import_inspect(
        paths,
        scorer=scorer or (),
        partial=partial.value,
        no_answer=no_answer.value,
        threshold=threshold,
        keep=keep or (),
        differing=differing.value,
        skip_broken=skip_broken,
        progress=not quiet,
    )
    _finish(found, out, quiet)


@app.command("every-eval-ever", epilog=EVERY_EVAL_EVER_EXAMPLES)
def every_eval_ever(
    paths: Logs,
    out: Out,
    metric: Metric = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Evaluation to take; may be repeated.", show_default=False),
    ] = None,
    threshold: Threshold = None,
    is_correct: Annotated[
        bool, typer.Option("--is-correct", help="Take is_correct, and not the score.")
    ] = False,
    keep: Keep = None,
    skip_broken: SkipBroken = False,
    quiet: Quiet = False,
) -> None:
    """Read rows of Every Eval Ever (*_samples.jsonl)."""
    from bayescontam.importers.every_eval_ever import import_every_eval_ever

    _check(out)
    found = import_every_eval_ever(
        paths,
        metric=metric or (),
        only=only or (),
        threshold=threshold,
        verdict=is_correct,
        keep=keep or (),
        skip_broken=skip_broken,
        progress=not quiet,
    )
    _finish(found, out, quiet)


@app.command("matrix", epilog=MATRIX_EXAMPLES)
def matrix(
    path: Annotated[
        Path,
        typer.Argument(help="CSV, TSV, JSON Lines or Parquet file.", show_default=False),
    ],
    out: Out,
    benchmark: Annotated[
        str | None, typer.Option(help="Name of the benchmark.", show_default=False)
    ] = None,
    benchmark_column: Annotated[
        str | None,
        typer.Option(help="Instead: column that has it; with --items rows.", show_default=False),
    ] = None,
    items: Annotated[Items, typer.Option(help="Where the items stand.")] = Items.COLUMNS,
    names: Annotated[
        str | None,
        typer.Option(
            help="Column with the names of what stands in rows; default: the first.",
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
    from bayescontam.errors import UsageError
    from bayescontam.importers.matrix import import_matrix

    _check(out)
    if (benchmark is None) == (benchmark_column is None):
        raise UsageError("--benchmark and --benchmark-column: give one of the two")
    found = import_matrix(
        path,
        benchmark=benchmark or benchmark_column or "",
        benchmark_in_column=benchmark is None,
        items=items.value,
        names=names,
        threshold=threshold,
        keep=keep or (),
    )
    _finish(found, out, quiet)


def _check(out: Path) -> None:
    """Refuse before minutes of reading what could not be written after them."""
    from bayescontam.storage import check_writable
    from bayescontam.written import check_table_ending

    check_table_ending(out, "responses")
    check_writable(out)


def _finish(found: "Imported", out: Path, quiet: bool) -> None:
    """Write the table, and print what was read and what was left out."""
    from bayescontam.cli.terminal import print_lines, print_table
    from bayescontam.names import visible
    from bayescontam.written import write_table

    write_table(out, found.frame)
    if quiet:
        return
    print_table(found.read, spare=["runs", "responses"])
    if len(found.left_out):
        print_table(found.left_out)
    else:
        print_lines(["Nothing was left out."])
    print_lines(f"Note: {visible(note, 400)}" for note in found.notes)
    count, models = len(found.frame), found.frame["model"].nunique()
    print_lines([f"{count:,} responses of {models:,} models lie in {visible(str(out))}"])
