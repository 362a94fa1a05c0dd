"""Commands ``judge …``: pairs for people and language models, and agreement."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Option, Typer

from bayescontam._text import printable
from bayescontam.cli.calls import (
    ADDRESS,
    API_KEY,
    MODEL,
    ApiKeyEnv,
    CacheFolder,
    Concurrency,
    ExtraBody,
    MaxCalls,
    MaxTokensTotal,
    Retries,
    Timeout,
    endpoint_of,
    in_calls,
)
from bayescontam.cli.options import Quiet, ScanFolder, examples
from bayescontam.cli.terminal import print_lines, print_table, put_json, quoted, resumable
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.data.judgements import Judgements
    from bayescontam.scan.results import Scan


EXAMPLES = examples(
    "bayescontam judge export scan --out sheet.xlsx",
    "bayescontam judge import scan sheet.xlsx --judge Ada --out judgements.csv",
    "bayescontam judge llm scan --base-url http://localhost:8000/v1 --model qwen3"
    " --out judgements.csv",
    "bayescontam judge agreement judgements.csv",
)
_PAIRS = 200
in_choice = partial(Option, rich_help_panel="Which pairs")
app = Typer(
    help="Judge which matches are duplicates: by people, by language models, and how they agree.",
    no_args_is_help=True,
)


def _choose(
    scan: "Scan",
    pairs: int | None,
    per_item: int | None,
    seed: int,
    benchmarks: list[str] | None,
) -> "pd.DataFrame":
    """Return the pairs that the options request."""
    from bayescontam.evidence.pairs import choose_pairs, top_pairs

    if per_item is None:
        count = _PAIRS if pairs is None else pairs
        return choose_pairs(scan, count, seed, benchmarks=benchmarks or None)
    if pairs is not None:
        raise UsageError("--pairs and --per-item: give one; a choice is made by one of the two")
    return top_pairs(scan, per_item, benchmarks=benchmarks or None)


@app.command(
    "export",
    epilog=examples(
        "bayescontam judge export scan --out sheet.xlsx --pairs 300 --seed 7",
        "bayescontam judge export scan --out sheet.csv --per-item 3 --benchmark mbpp",
    ),
)
def export(
    folder: ScanFolder,
    out: Annotated[Path, Option("--out", "-o", help="New sheet: .csv or .xlsx.")],
    pairs: Annotated[
        int | None, Option(help=f"Pairs, spread over all cosines; default: {_PAIRS}.")
    ] = None,
    per_item: Annotated[int | None, Option(help="Instead: best matches of each item.")] = None,
    seed: Annotated[int, Option(help="Seed of the choice and of the order.")] = 1,
    benchmark: Annotated[
        list[str] | None, Option(help="Only this benchmark; may be repeated.")
    ] = None,
    key: Annotated[
        Path | None,
        Option(
            help="Also write which pair each row is about (.csv or .parquet), for programs and"
            " tests; not for the judge."
        ),
    ] = None,
) -> None:
    """Write a blind sheet: pairs of texts and columns to fill in, for one person."""
    from bayescontam._files import check_writable
    from bayescontam.data.tables import check_table_ending, write_table
    from bayescontam.evidence.pairs import export_sheet, sheet_key
    from bayescontam.scan.results import Scan

    check_writable(out)
    if key is not None:
        check_table_ending(key, "the key of a sheet")
    chosen = _choose(Scan.load(folder), pairs, per_item, seed, benchmark)
    export_sheet(chosen, out, seed=seed)
    if key is not None:
        write_table(key, sheet_key(chosen))
    if per_item is None and len(chosen) < (pairs or _PAIRS):
        print("The scan has no more pairs whose texts it holds.")
    scan, sheet = quoted(folder), quoted(out)
    print(f"{len(chosen):,} pairs written to {sheet}. Fill in is_duplicate; then:")
    print(f"bayescontam judge import {scan} {sheet} --judge NAME --out judgements.csv")


@app.command(
    "import",
    epilog=examples(
        "bayescontam judge import scan sheet.xlsx --judge Ada --out judgements.csv",
        "bayescontam judge import scan sheet.xlsx --judge Ada --out judgements.csv --replace",
    ),
)
def import_(
    folder: ScanFolder,
    sheet: Annotated[Path, Argument(metavar="SHEET", help="A sheet, filled in whole or in part.")],
    out: Annotated[Path, Option("--out", "-o", help="Judgements to add to: .csv or .parquet.")],
    judge: Annotated[
        str | None, Option(help="Who filled it in; not needed with a column 'judge'.")
    ] = None,
    replace: Annotated[
        bool, Option("--replace", help="Replace other verdicts of this judge on these pairs.")
    ] = False,
) -> None:
    """Add the verdicts of a sheet to a file of judgements; nothing else in it changes."""
    from bayescontam.evidence.pairs import import_sheet
    from bayescontam.scan.results import Scan

    done = import_sheet(Scan.load(folder), sheet, judge, out, replace=replace)
    print_lines(f"Note: {note}" for note in done.judgements.notes)
    judged = len(done.judgements.frame)
    print(f"Read {judged:,} verdicts; {done.blank:,} rows are not judged yet.")
    print(f"Wrote {printable(out)} ({done.total:,} judgements).")


def _temperature(text: str) -> str:
    """Return what was given, if it is a number or the word for the model's own."""
    if text != "default":
        try:
            float(text)
        except ValueError as error:
            raise BadParameter(f"'{text}' is neither a number nor 'default'") from error
    return text


@app.command(
    "llm",
    epilog=examples(
        "bayescontam judge llm demo-scan --base-url http://localhost:8000/v1 --model qwen3"
        " --out judged.csv",
        "bayescontam judge llm scan --base-url https://api.openai.com/v1 --model gpt-5-mini\n"
        "--temperature default --prompt programming --per-item 5 --max-calls 1000"
        " --out judged.csv",
        then="Interrupted, or the budget reached? Run the same command again: answers are stored.",
    ),
)
def llm(
    scan: ScanFolder,
    base_url: Annotated[str, Option(help=ADDRESS)],
    model: Annotated[str, Option(help=MODEL)],
    out: Annotated[
        Path,
        Option("--out", "-o", help="Judgements (.csv or .parquet); added to if it exists."),
    ],
    prompt: Annotated[
        str,
        Option(
            help="general, programming, puzzle, question_answering, or a text file that says"
            " what a duplicate is."
        ),
    ] = "general",
    pairs: Annotated[
        int | None,
        in_choice(help="Pairs to judge, spread over all cosines; default: 200."),
    ] = None,
    per_item: Annotated[
        int | None, in_choice(help="Judge so many best matches of every item instead.")
    ] = None,
    benchmark: Annotated[
        list[str] | None,
        in_choice(help="Benchmark to take pairs of; may be repeated; default: all."),
    ] = None,
    seed: Annotated[int, in_choice(help="Seed of the choice of pairs.")] = 1,
    run: Annotated[
        int, in_choice(help="2 or more asks again about the same pairs, as another judge.")
    ] = 1,
    concurrency: Concurrency = 8,
    max_calls: MaxCalls = None,
    max_tokens_total: MaxTokensTotal = None,
    timeout: Timeout = 60.0,
    retries: Retries = 5,
    cache: CacheFolder = None,
    api_key_env: ApiKeyEnv = API_KEY,
    extra_body: ExtraBody = "",
    temperature: Annotated[
        str, in_calls(help="0 to 2, or 'default': the model's own.", callback=_temperature)
    ] = "0",
    quiet: Quiet = False,
) -> None:
    """Have a language model judge pairs; what it leaves unjudged never counts as clean."""
    from bayescontam.evidence.llm import add_judgements
    from bayescontam.scan.results import Scan

    endpoint = endpoint_of(
        base_url, model, api_key_env=api_key_env, timeout=timeout, retries=retries,
        concurrency=concurrency, extra_body=extra_body,
        temperature=None if temperature == "default" else float(temperature),
    )  # fmt: skip
    chosen = _choose(Scan.load(scan), pairs, per_item, seed, benchmark)
    with resumable("answers"):
        notes = add_judgements(
            out,
            chosen,
            endpoint,
            prompt=prompt,
            run=run,
            cache=cache or out.parent / "judge-cache",
            max_calls=max_calls,
            max_tokens=max_tokens_total,
            progress=not quiet,
        )
    if not quiet:
        print_lines(notes)


@app.command(
    "agreement",
    epilog=examples(
        "bayescontam judge agreement judgements.csv",
        "bayescontam judge agreement people.csv model.parquet --json",
    ),
)
def agreement(
    paths: Annotated[
        list[Path],
        Argument(metavar="JUDGEMENTS...", help="One or more files of judgements."),
    ],
    as_json: Annotated[
        bool, Option("--json", help="Print JSON, which also holds confusions by kind.")
    ] = False,
) -> None:
    """Print how judges agree: Cohen's kappa, Krippendorff's alpha, and verdicts by kind."""
    from bayescontam.evidence.agreement import agreement as compared

    judged = read_all(paths, quiet=as_json)
    assert judged is not None  # typer sees to it that there is one
    found = compared(judged)
    if as_json:
        put_json(vars(found))
        return
    print_table(found.judges, see_all="--json")
    if found.two.empty:
        print("No two judges judged the same pair.")
        return
    spare = ["kinds", "kinds_agreement", "kinds_kappa", "unjudged", "relation"]
    print_table(found.two.drop(columns="note"), spare, "--json")
    print_lines(found.lines())
    print_table(found.verdicts, see_all="--json")


def read_all(paths: Sequence[Path] | None, quiet: bool) -> "Judgements | None":
    """Return the judgements of all files, joined; print what was changed on the way in."""
    from bayescontam.data.judgements import read_judgements

    if not paths:
        return None
    read = [(path, read_judgements(path)) for path in paths]
    if not quiet:
        print_lines(
            f"{printable(path)}: {printable(note, 400)}" for path, one in read for note in one.notes
        )
    first, *others = (one for _, one in read)
    return first.merged(*others)
