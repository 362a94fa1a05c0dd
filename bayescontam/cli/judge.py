"""Verb ``judge``: pairs given to people or models, verdicts taken back, and agreement."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli import judge_llm

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.evidence.agreement import Agreement
    from bayescontam.judgements import Judgements
    from bayescontam.scan.results import Scan
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
    from bayescontam.evidence.sheets import export_sheet, sheet_key
    from bayescontam.names import visible
    from bayescontam.scan.results import Scan
    from bayescontam.storage import check_writable
    from bayescontam.written import check_table_ending, write_table

    check_writable(out)
    if key is not None:
        check_table_ending(key, "the key of a sheet")
    chosen = choose(Scan.load(folder), pairs, per_item, seed, benchmark)
    export_sheet(chosen, out, seed=seed)
    if key is not None:
        write_table(key, sheet_key(chosen))
    scan, sheet = (shlex.quote(visible(str(path))) for path in (folder, out))
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
    from bayescontam.cli.terminal import print_lines
    from bayescontam.evidence.sheets import import_sheet
    from bayescontam.names import visible
    from bayescontam.scan.results import Scan

    done = import_sheet(Scan.load(folder), sheet, judge, out, replace=replace)
    judged = len(done.judgements.frame)
    print_lines(f"Note: {note}" for note in done.judgements.notes)
    print(f"Read {judged:,} verdicts; {done.blank:,} rows are not judged yet.")
    print(f"Wrote {visible(str(out))} ({done.total:,} judgements).")


app.command("llm", epilog=judge_llm.EXAMPLES)(judge_llm.llm)


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
    from bayescontam.cli.terminal import print_lines
    from bayescontam.judgements import read_judgements
    from bayescontam.names import visible

    if not paths:
        return None
    read = [(path, read_judgements(path)) for path in paths]
    if not quiet:
        print_lines(
            f"{visible(str(path))}: {visible(note, 400)}"
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
