"""Verb ``study report``: the tables and the HTML page of a study's run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli.options import FAILED_CHECK, Quiet, check_file
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.calibration.results import StudyResults

EXAMPLES = """
Examples:

bayescontam study report recovery

bayescontam study report sbc --strict

bayescontam study report recovery --out recovery.html

It writes coverage.csv, sbc.csv and index.html into the folder, also while the study runs. For a
repeated published study it writes the page anew.
"""


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
    from bayescontam.cli import reproduction
    from bayescontam.errors import UsageError

    if out is not None:
        check_file(out)
    with stage(not quiet, f"reading {visible(str(folder))}"):
        again = reproduction.holds_reproduction(folder)
    if again:
        if strict:
            raise UsageError("--strict: is for simulation studies; leave it out")
        with stage(not quiet, "drawing"):
            from bayescontam.report.reproduction import write_reproduction_report

            record = write_reproduction_report(folder, out)
        if not quiet:
            reproduction.show(record, folder, out)
        return
    with stage(not quiet, "counting and drawing"):
        from bayescontam.inference.checks import Outcome
        from bayescontam.report.study import PAGE, write_study_report
        from bayescontam.report.study_words import verdict

        results = write_study_report(folder, out)
    outcome, sentence = verdict(results)
    if not quiet:
        _show(results, sentence, folder)
        print(f"Wrote {visible(str(folder / PAGE if out is None else out))}.")
    if strict and outcome is Outcome.FAILED:
        raise typer.Exit(FAILED_CHECK)


def _show(results: "StudyResults", sentence: str, folder: Path) -> None:
    """Print what was found: the 95 % intervals, and ranks that are not uniform."""
    from bayescontam.cli.terminal import print_lines, print_table

    table = coverage_head(results)
    if len(table):
        spare = ["bias", "rmse", "n_failed", "interval_score", "n", "width"]
        print_table(table, spare, visible(str(folder / "coverage.csv")))
    bad = results.sbc[results.sbc["outcome"] != "passed"]
    if len(bad):
        shown = [*(["cell"] if bad["cell"].any() else []), "estimator", "quantity", "where"]
        columns = [*shown, "p_adjusted", "n", "sentence"]
        print_table(bad[columns], ["sentence", "n"], visible(str(folder / "sbc.csv")))
    print_lines([sentence])


def coverage_head(results: "StudyResults") -> "pd.DataFrame":
    """Return the rows of the 95 % intervals, all fits counted, as the terminal shows them."""
    import pandas as pd

    from bayescontam.report.study_tables import coverage_rows

    names = ["cell", "quantity", "estimator", "coverage", "mc_se", "width", "interval_score"]
    names += ["bias", "rmse", "n", "n_failed"]
    table = pd.DataFrame(coverage_rows(results), columns=names)
    return table if table["cell"].any() else table.drop(columns="cell")
