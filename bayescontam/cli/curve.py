"""Verb ``curve``: judgements of a scan's pairs to P(duplicate | cosine)."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    from bayescontam.evidence.duplicates import Curve

EXAMPLES = """
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
    with stage(not quiet, f"reading {visible(str(scan))} and its judgements"):
        from bayescontam.cli.terminal import calm
        from bayescontam.weighing import duplicate_curve

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
    from bayescontam.report.curve_tables import half_text, halves
    from bayescontam.report.verdicts import checks_sentence

    print_lines(
        f"{visible(str(row['benchmark']), 60)}: half are duplicates at a cosine of"
        f" {half_text(row)}."
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
    print_lines([f"Seed {fitted.record['seed']}. Saved {visible(str(path))}."])
