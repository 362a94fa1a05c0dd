"""Verb ``study``: many simulated fits and what they say; published studies done again."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayescontam.cli import reproduction, study_report
from bayescontam.cli.options import EXECUTION, Quiet, RayAddress, Workplace, WorkplaceName
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    from bayescontam.calibration.run import StudyRun

EXAMPLES = """
Examples:

bayescontam study list

bayescontam study run recovery --out recovery

bayescontam study report recovery
"""
LIST_EXAMPLE = "Example: bayescontam study list"
RUN_EXAMPLES = """
Examples:

bayescontam study run recovery --out recovery --full

bayescontam study run mine.toml --out mine --jobs 8

bayescontam study run coverage --out grid --engine ray --address auto

bayescontam study run arc-decomposition --out arc-decomposition

Interrupted? Run the same command again. Then: bayescontam study report recovery
"""
AGAIN = "Published studies"
app = typer.Typer(
    help="Studies: whether intervals cover, by simulation; published studies, done again.",
    no_args_is_help=True,
)
app.command("report", epilog=study_report.EXAMPLES)(study_report.report)
app.command("compare", epilog=reproduction.COMPARE_EXAMPLES)(reproduction.compare)


@app.command("list", epilog=LIST_EXAMPLE)
def list_studies() -> None:
    """List the studies that ship with the package."""
    from bayescontam.specs.catalogue import load_study, shipped_studies

    names = shipped_studies()
    width = max(map(len, names))
    for name in names:
        print(f"{name:<{width}}  {load_study(name).summary}")
    print("\nRun one with: bayescontam study run NAME --out DIR")


@app.command("run", epilog=RUN_EXAMPLES)
def run(
    study: Annotated[
        str,
        typer.Argument(
            help="Study: a name (see 'study list') or a .toml file.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder of the run; made if need be.", show_default=False),
    ],
    replicates: Annotated[
        int | None,
        typer.Option(
            "--replicates",
            "-n",
            help="Simulated tables of each cell; default: what the study says.",
            show_default=False,
        ),
    ] = None,
    engine: WorkplaceName = Workplace.LOCAL,
    address: RayAddress = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            help="Workers; default: one for each core.",
            show_default=False,
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="The larger size of a study that has one."),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Folder of tables that are not shipped; default: $BAYESCONTAM_DATA.",
            show_default=False,
            rich_help_panel=AGAIN,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run a study; an interrupted run is taken up, a finished simulation added to."""
    with stage(not quiet, f"reading the study {visible(study)}"):
        from bayescontam.cli.terminal import calm
        from bayescontam.specs.catalogue import load_study
        from bayescontam.specs.printed import read_published
        from bayescontam.specs.reproduction import ReproductionSpec

        calm()
        spec = load_study(study)
    given = {"--replicates": replicates is not None, "--jobs": jobs is not None}
    given |= {"--engine": engine is not Workplace.LOCAL, "--address": address is not None}
    reproduction.refuse_others(spec, given | {"--data": data is not None})
    read_published(spec.published)  # what is wrong with it is told before hours of fits
    with _resumable():
        if isinstance(spec, ReproductionSpec):
            reproduction.run_again(spec, out, full, data, quiet)
        else:
            _simulate(study, out, replicates, full, engine, jobs, address, quiet)


@contextmanager
def _resumable() -> Iterator[None]:
    """Say how to go on if the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        print("finished fits are kept: run the same command again to go on", file=sys.stderr)
        raise


def _simulate(
    study: str,
    out: Path,
    replicates: int | None,
    full: bool,
    engine: Workplace,
    jobs: int | None,
    address: str | None,
    quiet: bool,
) -> None:
    with stage(not quiet, "preparing the fits"):
        from bayescontam.calibration.run import run_study

    done = run_study(
        study,
        out,
        replicates=replicates,
        full=full,
        engine=engine.value,
        jobs=jobs,
        address=address,
        progress=not quiet,
        command=shlex.join(["bayescontam", *sys.argv[1:]]),
    )
    if not quiet:
        _show(done)


def _audit_sentence(audit: dict[str, Any]) -> str:
    """Say by how much the means of an estimator's audited fits differ."""
    error = audit.get("rms_mc_se")  # of runs before there was one, and of a single fit: none
    told = f"{audit['rms']:.2f}" + (f" ± {error:.2f}" if error is not None else "")
    return (
        f"Audit of {audit['estimator']} ({audit['engines']}): {audit['fits']:,} fits,"
        f" {audit['quantities']:,} means differ by {told} Monte Carlo errors"
        f" (root mean square; chance alone: 1), at most {abs(audit['largest']):.1f}."
    )


def _show(done: "StudyRun") -> None:
    """Print how many fits there are, and what to do next."""
    from bayescontam.cli.terminal import print_lines

    fits = done.record["fits"]
    total, failed, longer = sum(fits.values()), fits.get("failed", 0), fits.get("rerun", 0)
    folder = shlex.quote(visible(str(done.folder)))
    print_lines(
        [
            f"{total:,} fits: {longer:,} were run longer to pass their gates, {failed:,} failed.",
            *(_audit_sentence(each) for each in done.record["audits"]),
            f"The rows lie in {folder}. Next: bayescontam study report {folder}",
        ]
    )
