"""Verb ``report``: the HTML page of a fit."""

from pathlib import Path
from typing import Annotated

import typer

from bayescontam.cli.options import FitFile, Out, Quiet

EXAMPLES = """
Examples:

bayescontam report fit.nc --out report.html

bayescontam report fit.nc --compare positive.nc --out report.html
"""


def report(
    path: FitFile,
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
    """Write the report of a fit: one HTML file that needs no network."""
    from rich.console import Console

    from bayescontam.api import Fit
    from bayescontam.cli.compare import load_all
    from bayescontam.inference.compare import compare_fits
    from bayescontam.report.page import write_report
    from bayescontam.storage import check_writable

    check_writable(out)
    fit = Fit.load(path)
    comparison = compare_fits(load_all([path, *compare_with])) if compare_with else None
    with Console(stderr=True, quiet=quiet).status("drawing"):
        write_report(fit, out, comparison=comparison)
    if not quiet:
        print(f"The report lies in {out}")
