"""Commands ``curve`` and ``covariates``."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.judge import ScanFolder, read_all
from bayescontam.cli.options import (
    Chains,
    Draws,
    Engine,
    EngineName,
    Out,
    Quiet,
    Strict,
    Tune,
    check_file,
    exit_if_failed,
)

if TYPE_CHECKING:
    from bayescontam.evidence.covariates import ItemContamination
    from bayescontam.evidence.curve import Curve
    from bayescontam.scan.results import Scan


CURVE_EXAMPLES = """
Examples:

bayescontam curve scan --judgements judgements.csv --out curve.nc

bayescontam curve scan --judgements people.csv --judgements model.parquet --seed 1 -o curve.nc

Then: bayescontam covariates scan --curve curve.nc --out covariates.parquet
"""
_QUANTITIES = {
    "threshold_open": "item threshold", "steepness_open": "item steepness",
    "threshold": "document threshold", "steepness": "document steepness",
    "source_shift": "source shift", "sigma_item": "item spread",
    "share_further": "further chunks",
}  # fmt: skip
"""What a table for people calls the parameters of a curve."""
JudgementFiles = Annotated[
    list[Path] | None,
    typer.Option(
        help="File of judgements of this scan's pairs; may be repeated. Without any, the curve"
        " is the prior.",
        show_default=False,
    ),
]
CurveName = Annotated[str, typer.Option(help="Curve spec: monotone, or a .toml file.")]
Seed = Annotated[
    int | None,
    typer.Option(help="Seed; default: a fresh one, which the curve records.", show_default=False),
]
Level = Annotated[float, typer.Option(help="Credible level.")]
COVARIATES_EXAMPLES = """
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


def curve(
    scan: ScanFolder,
    out: Out,
    judgements: JudgementFiles = None,
    spec: CurveName = "monotone",
    level: Level = 0.95,
    draws: Draws = 1000,
    tune: Tune = 1500,
    chains: Chains = 4,
    engine: EngineName = Engine.NUTPIE,
    seed: Seed = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Estimate from judgements how likely a match of a given cosine is a duplicate."""
    check_file(out, judgements, spec)  # before minutes of sampling, not after
    with stage(not quiet, f"reading {printable(str(scan))} and its judgements"):
        from bayescontam.cli.terminal import calm
        from bayescontam.evidence.covariates import duplicate_curve

        calm()
    judged = read_all(judgements, quiet)
    fitted = duplicate_curve(
        scan,
        judged,
        spec,
        level=level,
        seed=seed,
        engine=engine.value,
        draws=draws,
        tune=tune,
        chains=chains,
        progress=not quiet,
        command=shlex.join(["bayescontam", *sys.argv[1:]]),
    )
    fitted.save(out)
    if not quiet:
        show(fitted, out)
    if strict:
        exit_if_failed(fitted.checks())


def show(fitted: "Curve", path: Path) -> None:
    """Print a curve's parameters and the name of its file."""
    from bayescontam.cli.terminal import print_checks, print_lines, print_table
    from bayescontam.evidence.curve import halves
    from bayescontam.inference.checks import checks_sentence

    print_lines(
        f"{printable(str(row['benchmark']), 60)}: half are duplicates at a cosine of {row['text']}."
        for row in halves(fitted).to_dict("records")
    )
    table = fitted.summary().rename(columns={"ci_low": "mean_low", "ci_high": "mean_high"})
    spare = ["sd", "mcse_mean", "ess_tail", "ess_bulk", "r_hat"]
    table = table.replace({"quantity": _QUANTITIES})
    print_table(table, spare, "the report of the curve, bayescontam report")
    print_lines(
        [
            "item: whether it has duplicates at all; document: whether it is one. Thresholds are"
            " cosines, steepness is in log-odds per unit of cosine.",
            f"{checks_sentence(fitted.checks())}.",
        ]
    )
    print_checks(fitted.checks())
    print_lines([f"Seed {fitted.record['seed']}. Saved {printable(str(path))}."])


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
    with stage(not quiet, f"reading {printable(str(scan))}"):
        from bayescontam.cli.terminal import calm
        from bayescontam.data.covariates import Covariates
        from bayescontam.data.tables import write_table
        from bayescontam.errors import UsageError
        from bayescontam.evidence.covariates import covariates_table, weigh_scan
        from bayescontam.scan.results import Scan

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
    from bayescontam.data.tables import check_table_ending
    from bayescontam.data.validation import check_level
    from bayescontam.evidence.covariates import check_options

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
    from bayescontam.evidence.covariates import Curve, duplicate_curve

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


def _show(weighed: "ItemContamination", fitted: "Curve", level: float, out: Path) -> None:
    """Print how many items have duplicates, what that rests on, and where the table lies."""
    from bayescontam.cli.terminal import print_checks, print_lines, print_table
    from bayescontam.evidence.prevalence import duplicate_numbers, prevalence
    from bayescontam.inference.checks import checks_sentence

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
    print_lines([f"Wrote {printable(str(out))} ({len(weighed.items):,} items)."])


def _notes(weighed: "ItemContamination") -> Iterator[str]:
    """Say how much of the result was seen, and how much is inferred."""
    for name, share in zip(weighed.sources, weighed.shares, strict=True):
        if share < 1:
            yield f"Of source {printable(name, 60)}, {100 * share:.3g} % was searched."
    scanned, rest = (
        x.mean(axis=0).sum() for x in (weighed.expected_scanned, weighed.expected_rest)
    )
    if rest > 0.2 * scanned:
        yield (
            f"{100 * rest / scanned:.0f} % of the duplicates expected in what was scanned are"
            " among matches that are not listed one by one: judge pairs at low cosines, or list"
            " more matches of each item (top_k)."
        )
