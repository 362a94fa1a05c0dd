"""Verb ``judge llm``: pairs of a scan judged by a language model."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bayescontam.cli.options import Quiet

EXAMPLES = """
Examples:

bayescontam judge llm demo-scan --base-url http://localhost:8000/v1 --model qwen3 --out judged.csv

bayescontam judge llm scan --base-url https://api.openai.com/v1 --model gpt-5-mini
--temperature default --prompt programming --per-item 5 --max-calls 1000 --out judged.csv

Interrupted, or the budget reached? Run the same command again: answers are stored.
"""
_PAIRS, _CALLS = "Which pairs", "Calls"
_OWN = "default"
_KEY = "OPENAI_API_KEY"


def _temperature(text: str) -> str:
    """Return what was given, if it is a number or the word for the model's own."""
    if text != _OWN:
        try:
            float(text)
        except ValueError as error:
            raise typer.BadParameter(f"'{text}' is neither a number nor '{_OWN}'") from error
    return text


def llm(
    scan: Annotated[
        Path, typer.Argument(metavar="SCAN", help="Folder of a finished scan.", show_default=False)
    ],
    base_url: Annotated[
        str,
        typer.Option(
            help="Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1.",
            show_default=False,
        ),
    ],
    model: Annotated[str, typer.Option(help="Name of the model there.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Judgements (.csv or .parquet); added to if it exists.",
            show_default=False,
        ),
    ],
    prompt: Annotated[
        str,
        typer.Option(
            help="general, programming, puzzle, question_answering, or a text file that says"
            " what a duplicate is."
        ),
    ] = "general",
    pairs: Annotated[
        int | None,
        typer.Option(
            help="Pairs to judge, spread over all cosines; default: 200.",
            show_default=False,
            rich_help_panel=_PAIRS,
        ),
    ] = None,
    per_item: Annotated[
        int | None,
        typer.Option(
            help="Judge so many best matches of every item instead.",
            show_default=False,
            rich_help_panel=_PAIRS,
        ),
    ] = None,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(
            help="Benchmark to take pairs of; may be repeated; default: all.",
            show_default=False,
            rich_help_panel=_PAIRS,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the choice of pairs.", rich_help_panel=_PAIRS)
    ] = 1,
    run: Annotated[
        int,
        typer.Option(
            help="2 or more asks again about the same pairs, as another judge.",
            rich_help_panel=_PAIRS,
        ),
    ] = 1,
    concurrency: Annotated[int, typer.Option(help="Calls at a time.", rich_help_panel=_CALLS)] = 8,
    max_calls: Annotated[
        int | None,
        typer.Option(
            help="Calls to make at most, retries included.",
            show_default=False,
            rich_help_panel=_CALLS,
        ),
    ] = None,
    max_tokens_total: Annotated[
        int | None,
        typer.Option(
            help="Tokens to spend at most, prompts included.",
            show_default=False,
            rich_help_panel=_CALLS,
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a call may take.", rich_help_panel=_CALLS)
    ] = 60.0,
    retries: Annotated[
        int, typer.Option(help="Further tries of a failed call.", rich_help_panel=_CALLS)
    ] = 5,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder that stores answers; default: judge-cache beside the judgements.",
            show_default=False,
            rich_help_panel=_CALLS,
        ),
    ] = None,
    api_key_env: Annotated[
        str,
        typer.Option(
            help="Environment variable with the key; may be unset where none is needed.",
            rich_help_panel=_CALLS,
        ),
    ] = _KEY,
    temperature: Annotated[
        str,
        typer.Option(
            help="0 to 2, or 'default': the model's own.",
            callback=_temperature,
            rich_help_panel=_CALLS,
        ),
    ] = "0",
    quiet: Quiet = False,
) -> None:
    """Have a language model judge pairs; what it leaves unjudged never counts as clean."""
    from bayescontam.cli.judge import choose
    from bayescontam.cli.terminal import print_lines
    from bayescontam.evidence.llm.endpoint import Endpoint
    from bayescontam.evidence.llm.files import add_judgements
    from bayescontam.scan.results import Scan

    endpoint = Endpoint(
        base_url,
        model,
        api_key=_key(api_key_env),
        temperature=None if temperature == _OWN else float(temperature),
        timeout=timeout,
        retries=retries,
        concurrency=concurrency,
    )
    chosen = choose(Scan.load(scan), pairs, per_item, seed, benchmark)
    folder = cache or out.parent / "judge-cache"
    try:
        notes = add_judgements(
            out,
            chosen,
            endpoint,
            prompt=prompt,
            run=run,
            cache=folder,
            max_calls=max_calls,
            max_tokens=max_tokens_total,
            progress=not quiet,
        )
    except KeyboardInterrupt:
        print("answers are stored: run the same command again to resume", file=sys.stderr)
        raise
    if not quiet:
        print_lines(notes)


def _key(variable: str) -> str:
    """Return the key; a variable that was named on purpose must be set."""
    from bayescontam.errors import UsageError
    from bayescontam.names import visible

    if variable not in os.environ and variable != _KEY:
        raise UsageError(f"--api-key-env: no environment variable '{visible(variable)}'; set it")
    return os.environ.get(variable, "")
