"""Commands ``judge …``: pairs for people and language models, and agreement."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

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
from bayescontam.cli.choice import (
    PAIRS,
    ByCurve,
    ForItem,
    Of,
    OfJudge,
    OnlyBenchmarks,
    Pairs,
    PerItem,
    Said,
    Seed,
    Strata,
    chosen_pairs,
    read_all,
)
from bayescontam.cli.options import Quiet, ScanFolder, check_file, examples
from bayescontam.cli.terminal import (
    print_lines,
    print_notes,
    print_table,
    put_json,
    quoted,
    resumable,
)
from bayescontam.errors import UsageError

EXAMPLES = examples(
    "bayescontam judge export scan --out sheet.xlsx",
    "bayescontam judge import scan sheet.xlsx --judge Ada --out judgements.csv",
    "bayescontam judge llm scan --base-url http://localhost:8000/v1 --model qwen3"
    " --out judgements.csv",
    "bayescontam judge agreement judgements.csv",
)
app = Typer(
    help="Judge which matches are duplicates: by people, by language models, and how they agree.",
    no_args_is_help=True,
)


@app.command(
    "export",
    epilog=examples(
        "bayescontam judge export scan --out sheet.xlsx --pairs 300 --seed 7",
        "bayescontam judge export scan --out sheet.csv --per-item 3 --benchmark mbpp",
        "bayescontam judge export scan --out sheet.xlsx --of judged.csv --strata verdict,kind"
        " --pairs 190",
        "bayescontam judge export scan --out sheet.xlsx --curve curve.nc --pairs 50",
    ),
)
def export(
    folder: ScanFolder,
    out: Annotated[Path, Option("--out", "-o", help="New sheet: .csv or .xlsx.")],
    pairs: Pairs = None,
    per_item: PerItem = None,
    benchmark: OnlyBenchmarks = None,
    seed: Seed = None,
    of: Of = None,
    said: Said = None,
    of_judge: OfJudge = None,
    strata: Strata = None,
    curve: ByCurve = None,
    item: ForItem = None,
    key: Annotated[
        Path | None,
        Option(
            help="Also write which pair each row is about (.csv or .parquet), for programs and"
            " tests; not for the judge."
        ),
    ] = None,
) -> None:
    """Write a blind sheet: pairs of texts and columns to fill in, for one person."""
    from bayescontam.data.tables import check_table_ending, write_table
    from bayescontam.evidence.sheets import export_sheet, sheet_key
    from bayescontam.scan.results import Scan

    seed = 1 if seed is None else seed
    check_file(out)
    if key is not None:
        check_table_ending(key, "the key of a sheet")
        check_file(key, of, curve, *folder.glob("*"))
        if key.resolve() == out.resolve():
            raise UsageError(f"{printable(key)}: is the sheet, too; give the key another name")
    chosen = chosen_pairs(
        Scan.load(folder), pairs=pairs, per_item=per_item, benchmark=benchmark, seed=seed,
        of=of, said=said, of_judge=of_judge, strata=strata, curve=curve, item=item,
    )  # fmt: skip
    definitions = export_sheet(chosen, out, seed=seed)
    if key is not None:
        write_table(key, sheet_key(chosen))
    if len(chosen) < (pairs or (0 if per_item or of else PAIRS)):
        of_these = "no more such pairs" if of or curve else "no more pairs"
        print(f"The scan has {of_these} whose texts it holds.")
    scan, sheet = quoted(folder), quoted(out)
    print(f"{len(chosen):,} pairs written to {sheet}. Fill in is_duplicate; then:")
    print(f"bayescontam judge import {scan} {sheet} --judge NAME --out judgements.csv")
    if definitions is not None:
        print(f"What to fill in is defined in {quoted(definitions)}: give it to the judge, too.")


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
    from bayescontam.evidence.sheets import import_sheet
    from bayescontam.scan.results import Scan

    done = import_sheet(Scan.load(folder), sheet, judge, out, replace=replace)
    print_lines(f"Note: {note}" for note in done.judgements.notes)
    judged = len(done.judgements.frame)
    print(f"Read {judged:,} verdicts; {done.blank:,} rows are not judged yet.")
    print(f"Wrote {printable(out)} ({done.total:,} judgements).")


@app.command(
    "llm",
    epilog=examples(
        "bayescontam judge llm demo-scan --base-url http://localhost:8000/v1 --model qwen3"
        " --out judged.csv",
        "bayescontam judge llm scan --base-url https://api.openai.com/v1 --model gpt-5-mini\n"
        "--temperature default --prompt programming --per-item 5 --max-calls 1000"
        " --out judged.csv",
        "bayescontam judge llm scan --base-url http://localhost:8000/v1 --model qwen3-large\n"
        "--of judged.csv --said duplicate --prompt verification --out judged.csv",
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
            help="general, competition, programming, puzzle, question_answering, verification, or"
            " a text file that says what a duplicate is."
        ),
    ] = "general",
    judge: Annotated[
        str | None,
        Option(help="Name of this judge in the file, after 'llm:'; default: the model's."),
    ] = None,
    run: Annotated[
        int, Option(help="2 or more requests new answers on the same pairs, as another judge.")
    ] = 1,
    pairs: Pairs = None,
    per_item: PerItem = None,
    benchmark: OnlyBenchmarks = None,
    seed: Seed = None,
    of: Of = None,
    said: Said = None,
    of_judge: OfJudge = None,
    strata: Strata = None,
    curve: ByCurve = None,
    item: ForItem = None,
    concurrency: Concurrency = 8,
    max_calls: MaxCalls = None,
    max_tokens_total: MaxTokensTotal = None,
    timeout: Timeout = 60.0,
    retries: Retries = 5,
    cache: CacheFolder = None,
    api_key_env: ApiKeyEnv = API_KEY,
    max_output_tokens: MaxOutputTokens = None,
    effort: Effort = None,
    extra_body: ExtraBody = "",
    temperature: Temperature = "0",
    quiet: Quiet = False,
) -> None:
    """Have a language model judge pairs; what it leaves unjudged never counts as clean."""
    if seed is not None and (per_item is not None or curve is not None):
        raise UsageError(
            "--seed: is of pairs that are drawn, and --per-item and --curve draw none; leave it out"
        )
    from bayescontam.evidence.llm import add_judgements, judge_name
    from bayescontam.scan.results import Scan

    endpoint = endpoint_of(
        base_url, model, api_key_env=api_key_env, timeout=timeout, retries=retries,
        concurrency=concurrency, extra_body=extra_body, temperature=temperature,
        max_output_tokens=max_output_tokens, effort=effort,
    )  # fmt: skip
    chosen = chosen_pairs(
        Scan.load(scan), pairs=pairs, per_item=per_item, benchmark=benchmark,
        seed=1 if seed is None else seed, of=of, said=said, of_judge=of_judge, strata=strata,
        curve=curve, item=item,
        judge=judge_name(model, run, judge), quiet=quiet,
    )  # fmt: skip
    with resumable("answers"):
        added = add_judgements(
            out,
            chosen,
            endpoint,
            prompt=prompt,
            run=run,
            judge=judge,
            cache=cache or out.parent / "judge-cache",
            max_calls=max_calls,
            max_tokens=max_tokens_total,
            progress=not quiet,
        )
    print_notes(added.earlier)
    if not quiet:
        print_lines(added.notes)


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
