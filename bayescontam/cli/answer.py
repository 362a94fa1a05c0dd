"""Commands ``answer …``: solvers answer the items of a benchmark."""

import json
from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from bayescontam._files import write_text
from bayescontam._text import printable
from bayescontam.cli.calls import (
    ADDRESS,
    API_KEY,
    MODEL,
    ApiKeyEnv,
    CacheFolder,
    Concurrency,
    Effort,
    ExtraBody,
    MaxCalls,
    MaxOutputTokens,
    MaxTokensTotal,
    Retries,
    Temperature,
    Timeout,
    endpoint_of,
)
from bayescontam.cli.options import ArcTasks, Quiet, check_file, check_outside, examples
from bayescontam.cli.terminal import print_lines, quoted, resumable
from bayescontam.errors import UsageError

EXAMPLES = examples(
    "bayescontam answer arc-baseline arc-agi-1-evaluation --out baseline.json",
    then="Then: bayescontam import arc-predictions baseline.json --tasks arc-agi-1-evaluation"
    " --out responses.csv",
)
app = Typer(help="Have a solver answer the items of a benchmark.", no_args_is_help=True)


@app.command("arc-baseline", epilog=EXAMPLES)
def arc_baseline(
    tasks: ArcTasks,
    out: Annotated[Path, Option("--out", "-o", help="Submission to write (.json).")],
    guesses: Annotated[int, Option(help="Most attempts at a test input.", min=1)] = 3,
    jobs: Annotated[
        int | None,
        Option(help="Tasks at the same time; default: as many as there are cores.", min=1),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Solve ARC tasks by a search over small programs: a baseline that needs no network."""
    _check_out(out, tasks)
    check_outside(out, [tasks], [".json"])
    from bayescontam.arc.solver import solve_arc
    from bayescontam.data.importers.arc import load_tasks

    known = load_tasks(tasks)
    found = solve_arc(known, guesses=guesses, jobs=jobs, progress=not quiet)
    write_text(out, json.dumps(found) + "\n")
    if quiet:
        return
    answered = sum(bool(attempts) for tests in found.values() for attempts in tests)
    print_lines(
        [
            f"Programs were found for {answered:,} of {len(known.items):,} test inputs; whether"
            " they are right, importing shows.",
            f"Wrote {printable(out)}",
        ]
    )


@app.command(
    "arc",
    epilog=examples(
        "bayescontam answer arc conceptarc --base-url http://localhost:8000/v1 --model qwen3"
        " --out qwen3.jsonl",
        "bayescontam answer arc arc-agi-2-evaluation --base-url https://api.openai.com/v1\n"
        "--model gpt-5-mini --temperature default --attempts 3 --max-calls 500"
        " --out gpt-5-mini.jsonl",
        then="Interrupted, or the budget reached? Run the same command again: replies are stored."
        " Then: bayescontam import arc-predictions qwen3.jsonl --tasks conceptarc"
        " --out responses.csv",
    ),
)
def arc(
    tasks: ArcTasks,
    base_url: Annotated[str, Option(help=ADDRESS)],
    model: Annotated[str, Option(help=MODEL)],
    out: Annotated[
        Path, Option("--out", "-o", help="Replies to write (.jsonl); replaced if it exists.")
    ],
    attempts: Annotated[int, Option(help="Most attempts at a test input; a right one ends.")] = 1,
    feedback: Annotated[
        bool,
        Option(
            "--feedback/--no-feedback",
            help="Whether the model reads that an attempt was wrong before the next one;"
            " if not, attempts are independent, at a temperature above 0.",
        ),
    ] = True,
    prompt: Annotated[
        Path | None, Option(help="Text file with another instruction; default: the package's.")
    ] = None,
    name: Annotated[
        str | None, Option(help="Name of the solver in the file; default: the model's.")
    ] = None,
    concurrency: Concurrency = 8,
    max_calls: MaxCalls = None,
    max_tokens_total: MaxTokensTotal = None,
    timeout: Timeout = 300.0,
    retries: Retries = 5,
    cache: CacheFolder = None,
    api_key_env: ApiKeyEnv = API_KEY,
    max_output_tokens: MaxOutputTokens = None,
    effort: Effort = None,
    extra_body: ExtraBody = "",
    temperature: Temperature = "0",
    quiet: Quiet = False,
) -> None:
    """Have a language model solve ARC tasks; its replies are stored, and scored when imported."""
    if out.suffix.lower() != ".jsonl":
        raise UsageError(f"--out {printable(out)}: give a name that ends with .jsonl")
    _check_out(out, tasks, prompt)
    cache = cache or out.parent / "judge-cache"
    for place in (out, cache):  # replies are stored as .json
        check_outside(place, [tasks])
    endpoint = endpoint_of(
        base_url, model, api_key_env=api_key_env, timeout=timeout, retries=retries,
        concurrency=concurrency, extra_body=extra_body, temperature=temperature,
        max_output_tokens=max_output_tokens, effort=effort,
    )  # fmt: skip
    from bayescontam.arc.answering import answer_arc

    with resumable("replies"):
        found = answer_arc(
            tasks, endpoint, attempts=attempts, feedback=feedback, prompt=prompt, name=name,
            cache=cache, max_calls=max_calls,
            max_tokens=max_tokens_total, progress=not quiet,
            announce=None if quiet else lambda plan: print_lines([plan]),
        )  # fmt: skip
    found.write(out)
    if quiet:
        return
    print_lines(found.notes)
    print_lines([f"Wrote {len(found.rows):,} replies to {printable(out)}. Next:"])
    guesses = f" --guesses {attempts}"
    print(
        f"bayescontam import arc-predictions {quoted(out)} --tasks {quoted(Path(tasks))}{guesses}"
        " --out responses.csv"
    )


def _check_out(out: Path, tasks: str, *read: object) -> None:
    """Refuse a file that the command reads."""
    solutions = tasks.replace("_challenges.json", "_solutions.json")  # which stand beside
    check_file(out, tasks, solutions, *read)
