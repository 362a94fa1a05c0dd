"""Verb ``covariates``: a scan and a curve to contamination covariates."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayescontam.cli.curve import JudgementFiles, Level, Seed
from bayescontam.cli.judge import ScanFolder, read_all
from bayescontam.cli.options import Quiet, Strict, check_file, exit_if_failed
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    from bayescontam.evidence.duplicates import Curve
    from bayescontam.evidence.weighing import Weighed
    from bayescontam.scan.results import Scan

EXAMPLES = """
Examples:

bayescontam covariates scan --judgements judgements.csv --out covariates.parquet

bayescontam covariates scan --curve curve.nc --out covariates.csv --floor 0.3

Then: bayescontam fit responses.csv --covariates covariates.parquet --model latent_duplicate
"""
_PARTS = {"corpus": "whole corpus", "scanned": "scanned part"}
_COLUMNS = {
    "by": "in",
    "n_mean": "with_duplicates",
    "n_low": "with_duplicates_low",
    "n_high": "with_duplicates_high",
    "mean": "share",
    "ci_low": "share_low",
    "ci_high": "share_high",
}
_NUMBERS = {
    "median": "documents", "ci_low": "documents_low", "ci_high": "documents_high",
}  # fmt: skip


def covariates(
    scan: ScanFolder,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Table to write: .parquet or .csv.", show_default=False),
    ],
    judgements: JudgementFiles = None,
    curve: Annotated[
        Path | None,
        typer.Option(
            help="Instead of judgements: a curve that 'bayescontam curve' wrote.",
            show_default=False,
        ),
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option(
            help="Curve spec: a name or a .toml file; default: monotone.", show_default=False
        ),
    ] = None,
    save_curve: Annotated[
        Path | None,
        typer.Option(help="File to keep the fitted curve in (.nc).", show_default=False),
    ] = None,
    floor: Annotated[float, typer.Option(help="Cosine below which matches do not count.")] = 0.35,
    draws: Annotated[
        int, typer.Option(help="Draws of the curve that items are weighed with.")
    ] = 200,
    level: Level = 0.95,
    seed: Seed = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Estimate for each item the probability that the corpus holds a duplicate of it."""
    with stage(not quiet, f"reading {visible(str(scan))}"):
        from bayescontam.cli.terminal import calm
        from bayescontam.covariates import Covariates
        from bayescontam.errors import UsageError
        from bayescontam.evidence.covariates import covariates_table
        from bayescontam.scan.results import Scan
        from bayescontam.weighing import weigh_scan
        from bayescontam.written import write_table

        calm()
    for written in (out, save_curve):
        if written is not None:
            check_file(written, curve, judgements)
    _check(out, level, floor, draws)
    if curve is not None and save_curve is not None:
        raise UsageError(
            "--save-curve: stores a curve that is fitted here; --curve is stored already"
        )
    opened = Scan.load(scan)
    fitted = _curve(opened, judgements, curve, {"spec": spec, "seed": seed}, level, quiet)
    if save_curve is not None:
        fitted.save(save_curve)
    weighed = weigh_scan(opened, fitted, floor=floor, draws=draws, progress=not quiet)
    table = Covariates.from_frame(covariates_table(weighed, opened, fitted)).frame
    write_table(out, table)
    if not quiet:
        _show(weighed, fitted, level, out)
    if strict:
        exit_if_failed(fitted.checks())


def _check(out: Path, level: float, floor: float, draws: int) -> None:
    """Refuse before minutes of work what could not be reported after them."""
    from bayescontam.evidence.weighing import check_options
    from bayescontam.levels import check_level
    from bayescontam.written import check_table_ending

    check_options(floor, draws)
    check_table_ending(out, "covariates")
    check_level(level, "--level")


def _curve(
    scan: "Scan",
    judgements: list[Path] | None,
    path: Path | None,
    options: dict[str, Any],
    level: float,
    quiet: bool,
) -> "Curve":
    """Return the curve that was given, or one fitted to judgements."""
    from bayescontam.errors import UsageError
    from bayescontam.weighing import Curve, duplicate_curve

    given = {name: value for name, value in options.items() if value is not None}
    if path is None:
        return duplicate_curve(
            scan,
            read_all(judgements, quiet),
            level=level,
            progress=not quiet,
            command=shlex.join(["bayescontam", *sys.argv[1:]]),
            **given,
        )
    if clash := [*(["judgements"] if judgements else []), *given]:
        words = ", ".join(f"--{name}" for name in clash)
        raise UsageError(f"--curve: is fitted already, and takes no {words}; leave one out")
    return Curve.load(path)


def _show(weighed: "Weighed", fitted: "Curve", level: float, out: Path) -> None:
    """Print how many items have duplicates, what that rests on, and where the table lies."""
    from bayescontam.cli.terminal import print_checks, print_lines, print_table
    from bayescontam.evidence.prevalence import duplicate_numbers, prevalence
    from bayescontam.report.verdicts import checks_sentence

    shares = prevalence(weighed, level=level)
    numbers = duplicate_numbers(weighed, level=level).drop(columns="mean")
    numbers = numbers.rename(columns=_NUMBERS).astype(dict.fromkeys(_NUMBERS.values(), int))
    shown = shares[shares["by"].isin(_PARTS)].merge(numbers, on=["benchmark", "by"])
    shown = shown.replace({"by": _PARTS}).rename(columns=_COLUMNS)
    print_table(shown.drop(columns="group"), see_all="the report of the scan, with --curve")
    print_lines(
        [
            "with duplicates: items with at least one; documents: those that hold a duplicate,"
            " copies counted (median)."
        ]
    )
    print_lines(_notes(weighed))
    print_lines([f"Curve: {checks_sentence(fitted.checks())}."])
    print_checks(fitted.checks())
    print_lines([f"Wrote {visible(str(out))} ({len(weighed.items):,} items)."])


def _notes(weighed: "Weighed") -> Iterator[str]:
    """Say how much of the result was seen, and how much is inferred."""
    for name, share in zip(weighed.sources, weighed.shares, strict=True):
        if share < 1:
            yield f"Of source {visible(name, 60)}, {100 * share:.3g} % was searched."
    scanned, rest = (
        x.mean(axis=0).sum() for x in (weighed.expected_scanned, weighed.expected_rest)
    )
    if rest > 0.2 * scanned:
        yield (
            f"{100 * rest / scanned:.0f} % of the duplicates expected in what was scanned are"
            " among matches that are not listed one by one: judge pairs at low cosines, or list"
            " more matches of each item (top_k)."
        )
