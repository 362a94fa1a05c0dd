"""Verb ``report``: the HTML page of a fit, or of a scan."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bayescontam.cli.options import Out, Quiet

EXAMPLES = """
Examples:

bayescontam report fit.nc --out report.html

bayescontam report fit.nc --compare positive.nc --out report.html

bayescontam report scanned/ --out scan.html
"""


def report(
    path: Annotated[
        Path,
        typer.Argument(
            help="A fit that 'bayescontam fit' wrote (.nc), or the folder of a scan.",
            show_default=False,
        ),
    ],
    out: Out,
    compare_with: Annotated[
        list[Path] | None,
        typer.Option(
            "--compare",
            help="Another fit of the same responses; may be repeated.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the report of a fit or of a scan: one HTML file that needs no network."""
    from rich.console import Console

    from bayescontam.errors import UsageError
    from bayescontam.names import visible
    from bayescontam.storage import check_writable

    check_writable(out)
    folder = os.path.isdir(path)  # noqa: PTH112 (pathlib raises for names that are too long)
    if folder and compare_with:
        raise UsageError(
            f"--compare: {visible(str(path))} is a folder, and fits are compared, not scans;"
            " leave the option out, or give a fit (.nc)"
        )
    with Console(stderr=True, quiet=quiet).status("drawing"):
        if folder:
            _report_scan(path, out)
        else:
            _report_fit(path, compare_with or [], out)
    if not quiet:
        print(f"The report lies in {out}")


def _report_fit(path: Path, compare_with: list[Path], out: Path) -> None:
    from bayescontam.api import Fit
    from bayescontam.cli.compare import load_all
    from bayescontam.inference.compare import compare_fits
    from bayescontam.report.page import write_report

    fit = Fit.load(path)
    comparison = compare_fits(load_all([path, *compare_with])) if compare_with else None
    write_report(fit, out, comparison=comparison)


def _report_scan(folder: Path, out: Path) -> None:
    from bayescontam.report.scan import write_scan_report
    from bayescontam.scan.results import Scan

    write_scan_report(Scan.load(folder), out)
