"""Commands ``study …``: simulation studies and published analyses."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.models import PageFormat
from bayescontam.cli.options import (
    EXECUTION,
    FAILED_CHECK,
    Quiet,
    RayAddress,
    Workplace,
    WorkplaceName,
    check_file,
)
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.calibration.results import StudyResults
    from bayescontam.calibration.runner import StudyRun
    from bayescontam.published.study import Record
    from bayescontam.specs.study import ReproductionSpec, StudySpec


REPORT_EXAMPLES = """
Examples:

bayescontam study report recovery

bayescontam study report sbc --strict

bayescontam study report recovery --out recovery.html

It writes coverage.csv, sbc.csv and index.html into the folder, also while the study runs. For a
repeated published study it writes the page anew.
"""
COMPARE_EXAMPLES = """
Examples:

bayescontam study compare arc-decomposition novelty

bayescontam study compare runs/* > table.md
"""
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


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of a run, finished or not.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="HTML page to write; default: index.html in the folder.",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit with status 3 if ranks are not uniform or many fits failed."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write the page of a study; for a simulation also tables of coverage and ranks."""
    from bayescontam.errors import UsageError

    if out is not None:
        check_file(out)
    with stage(not quiet, f"reading {printable(str(folder))}"):
        again = holds_reproduction(folder)
    if again:
        if strict:
            raise UsageError("--strict: is for simulation studies; leave it out")
        with stage(not quiet, "drawing"):
            from bayescontam.report.published_page import write_reproduction_report

            record = write_reproduction_report(folder, out)
        if not quiet:
            print_findings(record, folder, out)
        return
    with stage(not quiet, "counting and drawing"):
        from bayescontam.calibration.findings import verdict
        from bayescontam.inference.checks import Outcome
        from bayescontam.report.study_page import PAGE, write_study_report

        results = write_study_report(folder, out)
    outcome, sentence = verdict(results)
    if not quiet:
        _print_results(results, sentence, folder)
        print(f"Wrote {printable(str(folder / PAGE if out is None else out))}.")
    if strict and outcome is Outcome.FAILED:
        raise typer.Exit(FAILED_CHECK)


def _print_results(results: "StudyResults", sentence: str, folder: Path) -> None:
    """Print what was found: the 95 % intervals, and ranks that are not uniform."""
    from bayescontam.cli.terminal import print_lines, print_table

    table = coverage_head(results)
    if len(table):
        spare = ["bias", "rmse", "n_failed", "interval_score", "n", "width"]
        print_table(table, spare, printable(str(folder / "coverage.csv")))
    bad = results.sbc[results.sbc["outcome"] != "passed"]
    if len(bad):
        shown = [*(["cell"] if bad["cell"].any() else []), "estimator", "quantity", "where"]
        columns = [*shown, "p_adjusted", "n", "sentence"]
        print_table(bad[columns], ["sentence", "n"], printable(str(folder / "sbc.csv")))
    print_lines([sentence])


def coverage_head(results: "StudyResults") -> "pd.DataFrame":
    """Return the rows of the 95 % intervals, all fits counted, as the terminal shows them."""
    import pandas as pd

    from bayescontam.calibration.findings import coverage_rows

    names = ["cell", "quantity", "estimator", "coverage", "mc_se", "width", "interval_score"]
    names += ["bias", "rmse", "n", "n_failed"]
    table = pd.DataFrame(coverage_rows(results), columns=names)
    return table if table["cell"].any() else table.drop(columns="cell")


def refuse_others(study: "StudySpec | ReproductionSpec", given: Mapping[str, object]) -> None:
    """Refuse options that are for the other kind of study."""
    from bayescontam.specs.study import ReproductionSpec

    again = isinstance(study, ReproductionSpec)
    wrong = ("--replicates", "--engine", "--address", "--jobs") if again else ("--data",)
    for option in wrong:
        if given[option]:
            other = "simulation studies" if again else "reproductions of published studies"
            raise UsageError(f"{option}: is for {other}, which '{study.name}' is not; leave it out")


def run_again(
    spec: "ReproductionSpec", out: Path, full: bool, data: Path | None, quiet: bool
) -> None:
    """Do a published study again, write its page, and say what came of it."""
    with stage(not quiet, "preparing the fits"):
        from bayescontam.published.study import run_reproduction
        from bayescontam.report.published_page import write_reproduction_report

    command = shlex.join(["bayescontam", *sys.argv[1:]])
    run_reproduction(spec, out, full=full, data=data, progress=not quiet, command=command)
    with stage(not quiet, "drawing"):
        record = write_reproduction_report(out)
    if not quiet:
        print_findings(record, out)


def holds_reproduction(folder: Path) -> bool:
    """Return whether a folder is that of a reproduction."""
    from bayescontam.published.study import RECORD

    return (folder / RECORD).exists()


def print_findings(record: "Record", folder: Path, page: Path | None = None) -> None:
    """Print what was found."""
    from bayescontam.cli.terminal import print_lines, print_table
    from bayescontam.published.study import COMPARISON
    from bayescontam.report.published_page import PAGE

    table = record.comparison()
    if len(table):
        shown = table.drop(columns=["study", "reason", "source"])
        print_table(shown, (), printable(str(folder / COMPARISON)))
    lines = [printable(text, 2000) for text in (record.findings.headline, *record.findings.notes)]
    print_lines([*lines, f"Wrote {printable(str(folder / PAGE if page is None else page))}."])


def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders of finished runs.", show_default=False),
    ],
) -> None:
    """Compare published numbers with ours, for several studies, as a Markdown table."""
    from bayescontam.cli.terminal import print_lines
    from bayescontam.report.published_page import comparison_lines, comparison_of

    print_lines(comparison_lines([comparison_of(folder) for folder in folders]))


app.command("report", epilog=REPORT_EXAMPLES)(report)
app.command("compare", epilog=COMPARE_EXAMPLES)(compare)


@app.command("list", epilog=LIST_EXAMPLE)
def list_studies() -> None:
    """List the studies that ship with the package."""
    from bayescontam.cli.terminal import print_list
    from bayescontam.specs.registry import load_study, shipped_studies

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
    from bayescontam.specs.registry import load_study
    from bayescontam.specs.study import StudySpec

    study = load_study(name)
    if file_only:
        print(study.text, end="")
        return
    print(f"# {printable(study.name)} ({study.hash[:12]})\n\n{study.text.rstrip()}\n")
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
        "posterior": f"the posterior of the fit {printable(study.simulator.fit)}",
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
        what = f"model spec '{printable(each.model)}'"
        if each.kind == "bootstrap":
            what = f"bootstrap, {each.resamples:,} resamples"
        changed = ", with changes" if each.changes else ""
        wrong = ", given 1 − contamination" if each.reversed else ""
        yield f"Estimator {printable(each.name)}: {what}{changed}{wrong}."
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
    with stage(not quiet, f"reading the study {printable(study)}"):
        from bayescontam.cli.terminal import calm
        from bayescontam.data.published_tables import read_published
        from bayescontam.specs.registry import load_study
        from bayescontam.specs.study import ReproductionSpec

        calm()
        spec = load_study(study)
    given = {"--replicates": replicates is not None, "--jobs": jobs is not None}
    given |= {"--engine": engine is not Workplace.LOCAL, "--address": address is not None}
    refuse_others(spec, given | {"--data": data is not None})
    read_published(spec.published)  # what is wrong with it is reported before hours of fits
    with _resumable():
        if isinstance(spec, ReproductionSpec):
            run_again(spec, out, full, data, quiet)
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
        from bayescontam.calibration.runner import run_study

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
        _print_run(done)


def _audit_sentence(audit: dict[str, Any]) -> str:
    """Say by how much the means of an estimator's audited fits differ."""
    error = audit.get("rms_mc_se")  # of runs before there was one, and of a single fit: none
    size = f"{audit['rms']:.2f}" + (f" ± {error:.2f}" if error is not None else "")
    return (
        f"Audit of {audit['estimator']} ({audit['engines']}): {audit['fits']:,} fits,"
        f" {audit['quantities']:,} means differ by {size} Monte Carlo errors"
        f" (root mean square; chance alone: 1), at most {abs(audit['largest']):.1f}."
    )


def _print_run(done: "StudyRun") -> None:
    """Print how many fits there are, and what to do next."""
    from bayescontam.cli.terminal import print_lines

    fits = done.record["fits"]
    total, failed, longer = sum(fits.values()), fits.get("failed", 0), fits.get("rerun", 0)
    folder = shlex.quote(printable(str(done.folder)))
    print_lines(
        [
            f"{total:,} fits: {longer:,} were run longer to pass their gates, {failed:,} failed.",
            *(_audit_sentence(each) for each in done.record["audits"]),
            f"Wrote the results to {folder}. Next: bayescontam study report {folder}",
        ]
    )
