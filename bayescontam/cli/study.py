"""Commands ``study …``: simulation studies and published analyses."""

import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, Typer

from bayescontam._progress import stage
from bayescontam._text import join_list, printable
from bayescontam.cli.options import (
    FAILED_CHECK,
    FileOnly,
    PageFormat,
    Quiet,
    RayAddress,
    Workplace,
    check_file,
    examples,
    in_execution,
)
from bayescontam.cli.terminal import (
    command_line,
    print_lines,
    print_list,
    print_table,
    quoted,
    resumable,
    room_of_output,
)
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.calibration.results import StudyResults
    from bayescontam.calibration.runner import StudyRun
    from bayescontam.specs.study import StudySpec


EXAMPLES = examples(
    "bayescontam study list",
    "bayescontam study run recovery --out recovery",
    "bayescontam study report recovery",
)
_MOST_REASONS = 20
"""Reasons that the terminal gets why ranks are not uniform."""
in_published = partial(Option, rich_help_panel="Published studies")
app = Typer(
    help="Studies of calibration by simulation, and published studies repeated.",
    no_args_is_help=True,
)


@app.command(
    "report",
    epilog=examples(
        "bayescontam study report recovery",
        "bayescontam study report sbc --strict",
        "bayescontam study report recovery --out recovery.html",
        then="It writes coverage.csv, sbc.csv and index.html into the folder, also while the study"
        " runs. For a repeated published study it writes the page anew.",
    ),
)
def report(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder of a run, finished or not.")],
    out: Annotated[
        Path | None,
        Option("--out", "-o", help="HTML page to write; default: index.html in the folder."),
    ] = None,
    strict: Annotated[
        bool,
        Option("--strict", help="Exit with status 3 if ranks are not uniform or many fits failed."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write the page of a study; for a simulation also tables of coverage and ranks."""
    if out is not None:
        check_file(out)
    with stage(not quiet, f"reading {printable(folder)}"):
        from bayescontam.published.findings import RECORD
    if (folder / RECORD).exists():
        if strict:
            raise UsageError("--strict: is for simulation studies; leave it out")
        _report_published(folder, out, quiet)
        return
    with stage(not quiet, "counting and drawing"):
        from bayescontam.calibration.findings import verdict
        from bayescontam.inference.checks import Outcome
        from bayescontam.report.study_page import PAGE, write_study_report

        results = write_study_report(folder, out)
    outcome, sentence = verdict(results)
    if not quiet:
        _print_results(results, folder)
        print_lines([sentence])
        print(f"Wrote {printable(folder / PAGE if out is None else out)}.")
    if strict and outcome is Outcome.FAILED:
        raise Exit(FAILED_CHECK)


def _print_results(results: "StudyResults", folder: Path) -> None:
    """Print the 95 % intervals, all fits counted, and ranks that are not uniform."""
    import pandas as pd

    from bayescontam.calibration.findings import coverage_rows

    names = ["cell", "quantity", "estimator", "coverage", "mc_se", "width", "interval_score"]
    names += ["bias", "rmse", "n", "n_failed"]
    table = pd.DataFrame(coverage_rows(results), columns=names)
    if len(table):
        spare = ["bias", "rmse", "n_failed", "interval_score", "n", "width"]
        print_table(_of_cells(table), spare, printable(folder / "coverage.csv"))
    bad = results.sbc[results.sbc["outcome"] != "passed"]
    if len(bad):
        file = printable(folder / "sbc.csv")
        columns = ["cell", "estimator", "quantity", "where", "p_adjusted", "n"]
        print_table(_of_cells(bad[columns]), ["n"], file)
        print_lines(_reasons(bad, file))


def _of_cells(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table with a column for each key of a grid of several, in place of cells' names."""
    import pandas as pd

    cells = [
        dict(part.split("=", 1) for part in name.split(", ") if "=" in part)
        for name in table["cell"]
    ]
    if cells and len(cells[0]) == 1:
        return table
    keys = pd.DataFrame(cells, index=table.index)
    return pd.concat([keys, table.drop(columns="cell")], axis=1)


def _reasons(bad: "pd.DataFrame", file: str) -> Iterator[str]:
    """Yield what is wrong with ranks, once for all quantities of which the same holds."""
    names = ["cell", "estimator", "quantity", "where"]
    names = [name for name in names if name == "quantity" or bad[name].nunique() > 1]
    for number, (sentence, part) in enumerate(bad.groupby("sentence", sort=False)):
        if number == _MOST_REASONS:
            yield f"Reasons of all rows: {file}."
            return
        of = [" ".join(filter(None, row)) for row in part[names].astype(str).to_numpy()]
        yield f"{join_list(of, most=3)}: {sentence}"


def _report_published(folder: Path, page: Path | None, quiet: bool) -> None:
    """Write the page of a published study, and print what was found."""
    with stage(not quiet, "drawing"):
        from bayescontam.published.findings import COMPARISON
        from bayescontam.report.published_page import PAGE, write_reproduction_report

        record = write_reproduction_report(folder, page)
    if quiet:
        return
    table = record.comparison()
    if len(table):
        shown = table.drop(columns=["study", "reason", "source"])
        print_table(shown, (), printable(folder / COMPARISON))
    lines = [printable(text, 2000) for text in (record.findings.headline, *record.findings.notes)]
    print_lines([*lines, f"Wrote {printable(folder / PAGE if page is None else page)}."])


@app.command(
    "compare",
    epilog=examples(
        "bayescontam study compare arc-decomposition novelty",
        "bayescontam study compare runs/* > table.md",
    ),
)
def compare(
    folders: Annotated[list[Path], Argument(metavar="DIR...", help="Folders of finished runs.")],
) -> None:
    """Compare published numbers with ours, for several studies, as a Markdown table."""
    from bayescontam.report.published_page import comparison_lines, comparison_of

    print_lines(comparison_lines([comparison_of(folder) for folder in folders]))


@app.command("list", epilog="Example: bayescontam study list")
def list_studies() -> None:
    """List the studies that ship with the package."""
    from bayescontam.specs.registry import load_study, shipped_studies

    print_list((name, load_study(name).summary) for name in shipped_studies())
    print("\nRun one with: bayescontam study run NAME --out DIR")


@app.command(
    "show",
    epilog=examples(
        "bayescontam study show recovery",
        "bayescontam study show recovery --toml > mine.toml",
        then="Then change mine.toml (bayescontam study keys lists what it may hold) and run it.",
    ),
)
def show(
    name: Annotated[str, Argument(help="Name of a study, or path of a .toml file.")],
    file_only: FileOnly = False,
) -> None:
    """Print a study: its file, and in words what is simulated and fitted."""
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
        return
    run_it = f"bayescontam study run {shlex.quote(name)} --out DIR"
    print_lines(
        [
            f"A published study, repeated: {study.summary}",
            f"Seed: {study.seed}. Run it with: {run_it}",
        ]
    )


def _account(study: "StudySpec") -> Iterator[str]:
    """Yield sentences on what a simulation study does, as its page has them, and its size."""
    from bayescontam.report.study_page import design

    yield from design(study)
    cells = len(study.cells())
    full = f" ({study.full_replicates:,} with --full)" if study.full_replicates else ""
    tables = f"{study.replicates:,} in each{full}, {cells * study.replicates:,} in all"
    yield f"Cells: {cells:,}. Tables: {tables}."
    yield f"Quantities: {', '.join([*study.quantities, *study.expressions])}."


@app.command(
    "keys",
    epilog=examples("bayescontam study keys", "bayescontam study keys --format markdown > keys.md"),
)
def keys(output: PageFormat = "text") -> None:
    """Print every key of a study's file: what is allowed, the default, and what it means."""
    from bayescontam.specs.base import reference_text
    from bayescontam.specs.study import StudySpec, study_keys_page

    if output == "markdown":
        print(study_keys_page(), end="")
        return
    for line in reference_text(StudySpec, room_of_output()):
        print(line)


@app.command(
    "run",
    epilog=examples(
        "bayescontam study run recovery --out recovery --full",
        "bayescontam study run mine.toml --out mine --jobs 8",
        "bayescontam study run coverage --out grid --engine ray --address auto",
        "bayescontam study run arc-decomposition --out arc-decomposition",
        then="Interrupted? Run the same command again. Then: bayescontam study report recovery",
    ),
)
def run(
    study: Annotated[str, Argument(help="Study: a name (see 'study list') or a .toml file.")],
    out: Annotated[Path, Option("--out", "-o", help="Folder of the run; created if absent.")],
    replicates: Annotated[
        int | None,
        Option(
            "--replicates",
            "-n",
            help="Simulated tables of each cell; default: as in the study's file.",
        ),
    ] = None,
    engine: Workplace = "local",
    address: RayAddress = None,
    jobs: Annotated[
        int | None,
        in_execution("--jobs", "-j", help="Worker processes; default: one for each core."),
    ] = None,
    full: Annotated[
        bool, Option("--full", help="Run the study at its larger size, if it has one.")
    ] = False,
    smoke: Annotated[
        bool,
        in_published("--smoke", help="Run the smallest size, which shows that all works."),
    ] = False,
    data: Annotated[
        Path | None,
        in_published(
            "--data",
            help="Folder of tables that do not ship with the package; default: $BAYESCONTAM_DATA.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run a study. An interrupted run resumes; replicates can be added to a finished one."""
    with stage(not quiet, f"reading the study {printable(study)}"):
        from bayescontam.data.published_tables import read_published
        from bayescontam.specs.registry import load_study
        from bayescontam.specs.study import StudySpec

        spec = load_study(study)
    of_simulations = {
        "--replicates": replicates is not None,
        "--engine": engine != "local",
        "--address": address is not None,
        "--jobs": jobs is not None,
    }
    if isinstance(spec, StudySpec):
        of_published = {"--data": data is not None, "--smoke": smoke}
        _refuse(of_published, "reproductions of published studies", spec.name)
    else:
        _refuse(of_simulations, "simulation studies", spec.name)
    read_published(spec.published)  # what is wrong with it is reported before hours of fits
    with resumable("finished fits"):
        if isinstance(spec, StudySpec):
            with stage(not quiet, "preparing the fits"):
                from bayescontam.calibration.runner import run_study

            done = run_study(
                study,
                out,
                replicates=replicates,
                full=full,
                engine=engine,
                jobs=jobs,
                address=address,
                progress=not quiet,
                command=command_line(),
            )
            if not quiet:
                _print_run(done)
        else:
            with stage(not quiet, "preparing the fits"):
                from bayescontam.published.study import run_reproduction

            run_reproduction(
                spec,
                out,
                full=full,
                smoke=smoke,
                data=data,
                progress=not quiet,
                command=command_line(),
            )
            _report_published(out, None, quiet)


def _refuse(given: Mapping[str, bool], what: str, name: str) -> None:
    """Refuse options that are for the other kind of study."""
    for option, is_given in given.items():
        if is_given:
            raise UsageError(f"{option}: is for {what}, which '{name}' is not; leave it out")


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
    fits = done.record["fits"]
    total, failed, longer = sum(fits.values()), fits.get("failed", 0), fits.get("rerun", 0)
    folder = quoted(done.folder)
    print_lines(
        [
            f"{total:,} fits: {longer:,} were run longer to pass their gates, {failed:,} failed.",
            *(_audit_sentence(each) for each in done.record["audits"]),
            f"Wrote the results to {folder}. Next: bayescontam study report {folder}",
        ]
    )
