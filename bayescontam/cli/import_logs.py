"""Verbs ``import lm-eval``, ``inspect`` and ``every-eval-ever``: logs to a table of responses."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bayescontam.cli.import_table import Table, Threshold, import_table
from bayescontam.cli.options import Quiet

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


Logs = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Log files, or folders.", show_default=False)
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        help="Metric that counts: NAME, or BENCHMARK=NAME; may be repeated.", show_default=False
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


def lm_eval(
    paths: Logs,
    out: Table,
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

    import_table(
        out, quiet, import_lm_eval, paths,
        filter=filter or (), metric=metric or (), threshold=threshold, model=model, keep=keep or (),
        differing=differing.value, skip_broken=skip_broken, progress=not quiet,
    )  # fmt: skip


def inspect(
    paths: Logs,
    out: Table,
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

    import_table(
        out, quiet, import_inspect, paths,
        scorer=scorer or (), partial=partial.value, no_answer=no_answer.value, threshold=threshold,
        keep=keep or (), differing=differing.value, skip_broken=skip_broken, progress=not quiet,
    )  # fmt: skip


def every_eval_ever(
    paths: Logs,
    out: Table,
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

    import_table(
        out, quiet, import_every_eval_ever, paths,
        metric=metric or (), only=only or (), threshold=threshold, verdict=is_correct,
        keep=keep or (), skip_broken=skip_broken, progress=not quiet,
    )  # fmt: skip
