"""What verb ``study`` does with the reproduction of a published study."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    from bayescontam.reproduction.record import Record
    from bayescontam.specs.reproduction import ReproductionSpec
    from bayescontam.specs.study import StudySpec

COMPARE_EXAMPLES = """
Examples:

bayescontam study compare arc-decomposition novelty

bayescontam study compare runs/* > table.md
"""


def refuse_others(study: "StudySpec | ReproductionSpec", given: Mapping[str, object]) -> None:
    """Refuse options that are for the other kind of study."""
    from bayescontam.specs.reproduction import ReproductionSpec

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
        from bayescontam.report.reproduction import write_reproduction_report
        from bayescontam.reproduction.run import run_reproduction

    command = shlex.join(["bayescontam", *sys.argv[1:]])
    run_reproduction(spec, out, full=full, data=data, progress=not quiet, command=command)
    with stage(not quiet, "drawing"):
        record = write_reproduction_report(out)
    if not quiet:
        show(record, out)


def holds_reproduction(folder: Path) -> bool:
    """Return whether a folder is that of a reproduction."""
    from bayescontam.reproduction.record import RECORD

    return (folder / RECORD).exists()


def show(record: "Record", folder: Path, page: Path | None = None) -> None:
    """Print what was found."""
    from bayescontam.cli.terminal import print_lines, print_table
    from bayescontam.report.reproduction import PAGE
    from bayescontam.reproduction.record import COMPARISON

    table = record.comparison()
    if len(table):
        shown = table.drop(columns=["study", "reason", "source"])
        print_table(shown, (), visible(str(folder / COMPARISON)))
    lines = [visible(text, 2000) for text in (record.findings.headline, *record.findings.notes)]
    print_lines([*lines, f"Wrote {visible(str(folder / PAGE if page is None else page))}."])


def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders of finished runs.", show_default=False),
    ],
) -> None:
    """Compare published numbers with ours, for several studies, as a Markdown table."""
    from bayescontam.cli.terminal import print_lines
    from bayescontam.report.comparison import comparison_lines, comparison_of

    print_lines(comparison_lines([comparison_of(folder) for folder in folders]))
