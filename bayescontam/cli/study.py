"""Verb ``study``: many simulated fits, and published studies repeated."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayescontam.cli import reproduction, study_report
from bayescontam.cli.models import PageFormat
from bayescontam.cli.options import EXECUTION, Quiet, RayAddress, Workplace, WorkplaceName
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    from bayescontam.calibration.run import StudyRun
    from bayescontam.specs.study import StudySpec

EXAMPLES = """
Examples:

bayescontam study list

bayescontam study run recovery --out recovery

bayescontam study report recovery
"""
LIST_EXAMPLE = "Example: bayescontam study list"
SHOW_EXAMPLES = """
Examples:

bayescontam study show recovery

bayescontam study show recovery --toml > mine.toml

Then change mine.toml (bayescontam study keys lists what it may hold) and run it.
"""
KEYS_EXAMPLES = """
Examples:

bayescontam study keys

bayescontam study keys --format markdown > keys.md
"""
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
    help="Studies of calibration by simulation, and published studies repeated.",
    no_args_is_help=True,
)
app.command("report", epilog=study_report.EXAMPLES)(study_report.report)
app.command("compare", epilog=reproduction.COMPARE_EXAMPLES)(reproduction.compare)


@app.command("list", epilog=LIST_EXAMPLE)
def list_studies() -> None:
    """List the studies that ship with the package."""
    from bayescontam.cli.terminal import print_list
    from bayescontam.specs.catalogue import load_study, shipped_studies

    print_list((name, load_study(name).summary) for name in shipped_studies())
    print("\nRun one with: bayescontam study run NAME --out DIR")


@app.command("show", epilog=SHOW_EXAMPLES)
def show(
    name: Annotated[
        str,
        typer.Argument(help="Name of a study, or path of a .toml file.", show_default=False),
    ],
    file_only: Annotated[
        bool, typer.Option("--toml", help="Print only the file, to copy and change.")
    ] = False,
) -> None:
    """Print a study: its file, and in words what is simulated and fitted."""
    from bayescontam.cli.terminal import print_lines
    from bayescontam.specs.catalogue import load_study
    from bayescontam.specs.study import StudySpec

    study = load_study(name)
    if file_only:
        print(study.text, end="")
        return
    print(f"# {visible(study.name)} ({study.hash[:12]})\n\n{study.text.rstrip()}\n")
    print("# In words\n")
    if isinstance(study, StudySpec):
        print_lines(_account(study))
    else:
        print_lines([
            f"A published study, repeated: {study.summary}",
            f"Seed: {study.seed}. Run it with: bayescontam study run {shlex.quote(name)} --out DIR",
        ])  # fmt: skip


def _account(study: "StudySpec") -> Iterator[str]:
    """Yield sentences that say what a simulation study does."""
    cells, kinds = study.cells(), {
        "prior": f"the prior of the model spec '{study.simulator.model}'",
        "fixed": f"the model spec '{study.simulator.model}' with fixed parameters",
        "published": "the published generator by exposures of concepts",
        "posterior": f"the posterior of the fit {visible(study.simulator.fit)}",
    }  # fmt: skip
    full = f" ({study.full_replicates:,} with --full)" if study.full_replicates else ""
    yield f"Simulated from: {kinds[study.simulator.kind]}."
    if study.grid:
        varied = "; ".join(f"{key}: {_values(values)}" for key, values in study.grid.items())
        yield f"Cells: {len(cells):,}, all combinations of {varied}."
    tables = len(cells) * study.replicates
    yield f"Tables: {study.replicates:,} in each cell{full}, {tables:,} in all."
    if study.simulator.kind != "posterior":
        sizes = {
            key: "varied" if key in study.grid else f"{getattr(study.design, key):,}"
            for key in ("models", "benchmarks", "items", "trials")
        }
        size = ", ".join(f"{key} {value}" for key, value in sizes.items())
        yield f"Each table: {size} (items of each benchmark, trials of each response)."
    for each in study.estimators:
        what = f"model spec '{visible(each.model)}'"
        if each.kind == "bootstrap":
            what = f"bootstrap, {each.resamples:,} resamples"
        changed = ", with changes" if each.changes else ""
        wrong = ", given 1 − contamination" if each.reversed else ""
        yield f"Estimator {visible(each.name)}: {what}{changed}{wrong}."
    quantities = ", ".join([*study.quantities, *study.expressions])
    yield f"Quantities: {quantities}. Genuine ability at: {study.reference}."
    chains, draws = study.sampling.run
    yield (
        f"Each fit: {study.sampling.engine}, {chains} chains of {draws:,} draws; sampled once more,"
        f" for longer, if R-hat is above {study.gates.rhat:g}, ESS below {study.gates.ess:g} or"
        f" more than {100 * study.gates.divergences:g} % of draws diverge."
    )


def _values(values: Sequence[float]) -> str:
    """Return the values of a key of a grid."""
    return ", ".join(f"{value:g}" for value in values)


@app.command("keys", epilog=KEYS_EXAMPLES)
def keys(
    output: Annotated[
        PageFormat,
        typer.Option("--format", "-f", help="Text for the terminal, or a page in Markdown."),
    ] = PageFormat.TEXT,
) -> None:
    """Print every key of a study's file: what is allowed, the default, and what it means."""
    from bayescontam.cli.terminal import room_of_output
    from bayescontam.specs.reference import reference_text, study_keys_page
    from bayescontam.specs.study import StudySpec

    if output is PageFormat.MARKDOWN:
        print(study_keys_page(), end="")
        return
    for line in reference_text(StudySpec, room_of_output()):
        print(line)


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
        typer.Option(
            "--out", "-o", help="Folder of the run; created if absent.", show_default=False
        ),
    ],
    replicates: Annotated[
        int | None,
        typer.Option(
            "--replicates",
            "-n",
            help="Simulated tables of each cell; default: as in the study's file.",
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
            help="Worker processes; default: one for each core.",
            show_default=False,
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Run the study at its larger size, if it has one."),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Folder of tables that do not ship with the package; default: $BAYESCONTAM_DATA.",
            show_default=False,
            rich_help_panel=AGAIN,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run a study. An interrupted run resumes; replicates can be added to a finished one."""
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
    read_published(spec.published)  # what is wrong with it is reported before hours of fits
    with _resumable():
        if isinstance(spec, ReproductionSpec):
            reproduction.run_again(spec, out, full, data, quiet)
        else:
            _simulate(study, out, replicates, full, engine, jobs, address, quiet)


@contextmanager
def _resumable() -> Iterator[None]:
    """Say how to resume if the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        print("finished fits are stored: run the same command again to resume", file=sys.stderr)
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
    size = f"{audit['rms']:.2f}" + (f" ± {error:.2f}" if error is not None else "")
    return (
        f"Audit of {audit['estimator']} ({audit['engines']}): {audit['fits']:,} fits,"
        f" {audit['quantities']:,} means differ by {size} Monte Carlo errors"
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
            f"Wrote the results to {folder}. Next: bayescontam study report {folder}",
        ]
    )
