"""Commands ``judge …``: pairs for people and language models, and agreement."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli.options import Quiet

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.data.judgements import Judgements
    from bayescontam.evidence.agreement import Agreement
    from bayescontam.scan.results import Scan


LLM_EXAMPLES = """
Examples:

bayescontam judge llm demo-scan --base-url http://localhost:8000/v1 --model qwen3 --out judged.csv

bayescontam judge llm scan --base-url https://api.openai.com/v1 --model gpt-5-mini
--temperature default --prompt programming --per-item 5 --max-calls 1000 --out judged.csv

Interrupted, or the budget reached? Run the same command again: answers are stored.
"""
_CHOICE, _CALLS = "Which pairs", "Calls"
_OWN = "default"
_KEY = "OPENAI_API_KEY"
EXAMPLES = """
Examples:

bayescontam judge export scan --out sheet.xlsx

bayescontam judge import scan sheet.xlsx --judge Ada --out judgements.csv

bayescontam judge llm scan --base-url http://localhost:8000/v1 --model qwen3 --out judgements.csv

bayescontam judge agreement judgements.csv
"""
EXPORT_EXAMPLES = """
Examples:

bayescontam judge export scan --out sheet.xlsx --pairs 300 --seed 7

bayescontam judge export scan --out sheet.csv --per-item 3 --benchmark mbpp
"""
IMPORT_EXAMPLES = """
Examples:

bayescontam judge import scan sheet.xlsx --judge Ada --out judgements.csv

bayescontam judge import scan sheet.xlsx --judge Ada --out judgements.csv --replace
"""
AGREEMENT_EXAMPLES = """
Examples:

bayescontam judge agreement judgements.csv

bayescontam judge agreement people.csv model.parquet --json
"""
_PAIRS = 200
ScanFolder = Annotated[
    Path, typer.Argument(metavar="SCAN", help="Folder of a finished scan.", show_default=False)
]
app = typer.Typer(
    help="Judge which matches are duplicates: by people, by language models, and how they agree.",
    no_args_is_help=True,
)


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
            rich_help_panel=_CHOICE,
        ),
    ] = None,
    per_item: Annotated[
        int | None,
        typer.Option(
            help="Judge so many best matches of every item instead.",
            show_default=False,
            rich_help_panel=_CHOICE,
        ),
    ] = None,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(
            help="Benchmark to take pairs of; may be repeated; default: all.",
            show_default=False,
            rich_help_panel=_CHOICE,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the choice of pairs.", rich_help_panel=_CHOICE)
    ] = 1,
    run: Annotated[
        int,
        typer.Option(
            help="2 or more asks again about the same pairs, as another judge.",
            rich_help_panel=_CHOICE,
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
    from bayescontam.cli.terminal import print_lines
    from bayescontam.evidence.llm.client import Endpoint
    from bayescontam.evidence.llm.judge import add_judgements
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
    from bayescontam._text import printable
    from bayescontam.errors import UsageError

    if variable not in os.environ and variable != _KEY:
        raise UsageError(f"--api-key-env: no environment variable '{printable(variable)}'; set it")
    return os.environ.get(variable, "")


@app.command("export", epilog=EXPORT_EXAMPLES)
def export(
    folder: ScanFolder,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="New sheet: .csv or .xlsx.", show_default=False),
    ],
    pairs: Annotated[
        int | None,
        typer.Option(
            help=f"Pairs, spread over all cosines; default: {_PAIRS}.", show_default=False
        ),
    ] = None,
    per_item: Annotated[
        int | None,
        typer.Option(help="Instead: best matches of each item.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice and of the order.")] = 1,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(help="Only this benchmark; may be repeated.", show_default=False),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="Also write which pair each row is about (.csv or .parquet), for programs and"
            " tests; not for the judge.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a blind sheet: pairs of texts and columns to fill in, for one person."""
    from bayescontam._files import check_writable
    from bayescontam._text import printable
    from bayescontam.data.tables import check_table_ending, write_table
    from bayescontam.evidence.sheets import export_sheet, sheet_key
    from bayescontam.scan.results import Scan

    check_writable(out)
    if key is not None:
        check_table_ending(key, "the key of a sheet")
    chosen = choose(Scan.load(folder), pairs, per_item, seed, benchmark)
    export_sheet(chosen, out, seed=seed)
    if key is not None:
        write_table(key, sheet_key(chosen))
    scan, sheet = (shlex.quote(printable(str(path))) for path in (folder, out))
    if per_item is None and len(chosen) < (pairs or _PAIRS):
        print("The scan has no more pairs whose texts it holds.")
    print(f"{len(chosen):,} pairs written to {sheet}. Fill in is_duplicate; then:")
    print(f"bayescontam judge import {scan} {sheet} --judge NAME --out judgements.csv")


def choose(
    scan: "Scan",
    pairs: int | None,
    per_item: int | None,
    seed: int,
    benchmarks: list[str] | None,
) -> "pd.DataFrame":
    """Return the pairs that the options request."""
    from bayescontam.errors import UsageError
    from bayescontam.evidence.pairs import choose_pairs, top_pairs

    if per_item is None:
        count = _PAIRS if pairs is None else pairs
        return choose_pairs(scan, count, seed, benchmarks=benchmarks or None)
    if pairs is not None:
        raise UsageError("--pairs and --per-item: give one; a choice is made by one of the two")
    return top_pairs(scan, per_item, benchmarks=benchmarks or None)


@app.command("import", epilog=IMPORT_EXAMPLES)
def import_(
    folder: ScanFolder,
    sheet: Annotated[
        Path,
        typer.Argument(
            metavar="SHEET", help="A sheet, filled in whole or in part.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Judgements to add to: .csv or .parquet.", show_default=False
        ),
    ],
    judge: Annotated[
        str | None,
        typer.Option(
            help="Who filled it in; not needed with a column 'judge'.", show_default=False
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace other verdicts of this judge on these pairs."),
    ] = False,
) -> None:
    """Add the verdicts of a sheet to a file of judgements; nothing else in it changes."""
    from bayescontam._text import printable
    from bayescontam.cli.terminal import print_lines
    from bayescontam.evidence.sheets import import_sheet
    from bayescontam.scan.results import Scan

    done = import_sheet(Scan.load(folder), sheet, judge, out, replace=replace)
    judged = len(done.judgements.frame)
    print_lines(f"Note: {note}" for note in done.judgements.notes)
    print(f"Read {judged:,} verdicts; {done.blank:,} rows are not judged yet.")
    print(f"Wrote {printable(str(out))} ({done.total:,} judgements).")


app.command("llm", epilog=LLM_EXAMPLES)(llm)


@app.command("agreement", epilog=AGREEMENT_EXAMPLES)
def agreement(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="JUDGEMENTS...", help="One or more files of judgements.", show_default=False
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, which also holds confusions by kind.")
    ] = False,
) -> None:
    """Print how judges agree: Cohen's kappa, Krippendorff's alpha, and verdicts by kind."""
    from bayescontam.evidence.agreement import agreement as compared

    judged = read_all(paths, quiet=as_json)
    assert judged is not None  # typer sees to it that there is one
    found = compared(judged)
    if as_json:
        _print_json(found)
    else:
        _print_tables(found)


def read_all(paths: Sequence[Path] | None, quiet: bool) -> "Judgements | None":
    """Return the judgements of all files, joined; print what was changed on the way in."""
    from bayescontam._text import printable
    from bayescontam.cli.terminal import print_lines
    from bayescontam.data.judgements import read_judgements

    if not paths:
        return None
    read = [(path, read_judgements(path)) for path in paths]
    if not quiet:
        print_lines(
            f"{printable(str(path))}: {printable(note, 400)}"
            for path, one in read
            for note in one.notes
        )
    first, *others = (one for _, one in read)
    return first.merged(*others)


def _print_tables(found: "Agreement") -> None:
    from bayescontam.cli.terminal import print_lines, print_table

    print_table(found.judges, see_all="--json")
    if found.two.empty:
        print("No two judges judged the same pair.")
        return
    spare = ["kinds", "kinds_agreement", "kinds_kappa", "unjudged", "relation"]
    print_table(found.two.drop(columns="note"), spare, "--json")
    print_lines(found.lines())
    print_table(found.verdicts, see_all="--json")


def _print_json(found: "Agreement") -> None:
    import json
    from dataclasses import fields

    tables = {field.name: getattr(found, field.name) for field in fields(found)}
    content = {
        name: json.loads(table.to_json(orient="records", double_precision=15))
        for name, table in tables.items()
    }
    print(json.dumps(content, indent=1, ensure_ascii=False))
