"""Verb ``study report``: the tables and the HTML page of a study's run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli.options import FAILED_CHECK, Quiet
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.calibration.results import StudyResults

EXAMPLES = """
Examples:

bayescontam study report recovery

bayescontam study report sbc --strict

It writes coverage.csv, sbc.csv and index.html into the folder, also while the study runs. Of a
published study done again it writes the page anew.
"""
_MOST_ROWS = 40


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of a run, finished or not.", show_default=False),
    ],
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit with status 3 if ranks are not uniform, or many fits failed."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write the page of a study; of a simulation with tables of coverage and of ranks."""
    from bayescontam.cli import reproduction
    from bayescontam.errors import UsageError

    with stage(not quiet, f"reading {visible(str(folder))}"):
        again = reproduction.holds_reproduction(folder)
    if again:
        if strict:
            raise UsageError("--strict: is for simulation studies; leave it out")
        with stage(not quiet, "drawing"):
            from bayescontam.report.reproduction import write_reproduction_report

            record = write_reproduction_report(folder)
        if not quiet:
            reproduction.show(record, folder)
        return
    with stage(not quiet, "counting and drawing"):
        from bayescontam.inference.checks import Outcome
        from bayescontam.report.study import PAGE, write_study_report
        from bayescontam.report.study_words import verdict

        results = write_study_report(folder)
    outcome, sentence = verdict(results)
    if not quiet:
        _show(results, sentence)
        print(f"The page lies in {visible(str(folder / PAGE))}")
    if strict and outcome is Outcome.FAILED:
        raise typer.Exit(FAILED_CHECK)


def _show(results: "StudyResults", sentence: str) -> None:
    """Print what was found: the 95 % intervals, and ranks that are not uniform."""
    from bayescontam.cli.terminal import print_lines, print_table

    table = coverage_head(results)
    if len(table):
        print_table(table.head(_MOST_ROWS), spare=["bias", "rmse", "n_failed"])
    if len(table) > _MOST_ROWS:
        print_lines([f"{len(table) - _MOST_ROWS:,} more rows in coverage.csv."])
    bad = results.sbc[results.sbc["outcome"] != "passed"]
    if len(bad):
        shown = [*(["cell"] if bad["cell"].any() else []), "estimator", "quantity", "where"]
        print_table(bad.head(_MOST_ROWS)[[*shown, "p_adjusted", "n", "sentence"]])
    print_lines([sentence])


def coverage_head(results: "StudyResults") -> "pd.DataFrame":
    """Return the rows of the 95 % intervals, all fits counted, as the terminal shows them."""
    import pandas as pd

    from bayescontam.report.study_tables import coverage_rows

    names = ["cell", "quantity", "estimator", "coverage", "mc_se", "width", "interval_score"]
    names += ["bias", "rmse", "n", "n_failed"]
    table = pd.DataFrame(coverage_rows(results), columns=names)
    return table if table["cell"].any() else table.drop(columns="cell")
