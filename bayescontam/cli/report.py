"""Commands ``report`` and ``summary``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import (
    FitFile,
    Format,
    InsteadOfPrinting,
    LevelOfFit,
    Out,
    Quiet,
    ShowNoProgress,
    TableFormat,
    check_file,
    check_out,
)

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.evidence.curve import Curve
    from bayescontam.inference.result import Fit


REPORT_EXAMPLES = """
Examples:

bayescontam report fit.nc --out report.html

bayescontam report fit.nc --title "LiveCodeBench" --note "Contamination: released before the
cutoff of the model." --out report.html

bayescontam report fit.nc --compare positive.nc --out report.html

bayescontam report fit.nc --out report.html --tables tables/

bayescontam report fit.nc --scan scanned/ --curve curve.nc --out report.html

bayescontam report scanned/ --out scan.html

bayescontam report scanned/ --curve curve.nc --items items.csv --by elo --out scan.html

bayescontam report curve.nc --out curve.html
"""
_SCANS = "Reports of scans, and of the items of a fit"
SUMMARY_EXAMPLES = """
Examples:

bayescontam summary fit.nc

bayescontam summary fit.nc --format csv --out estimands.csv

bayescontam summary fit.nc --format json
"""


def report(
    path: Annotated[
        Path,
        typer.Argument(
            help="What 'bayescontam fit' or 'bayescontam curve' wrote (.nc), or the folder of"
            " a scan.",
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
    curve: Annotated[
        Path | None,
        typer.Option(
            help="Curve of P(duplicate | cosine); adds prevalence to the report of a scan.",
            show_default=False,
            rich_help_panel=_SCANS,
        ),
    ] = None,
    scan: Annotated[
        Path | None,
        typer.Option(
            help="Scan from which a fit's contamination was computed; with --curve, adds the"
            " matched texts of the most contaminated items.",
            show_default=False,
            rich_help_panel=_SCANS,
        ),
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            help="Table of the scan's items that has the column of --by.",
            show_default=False,
            rich_help_panel=_SCANS,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Item column to break prevalence down by, such as a difficulty.",
            show_default=False,
            rich_help_panel=_SCANS,
        ),
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(
            help="Folder for every table of a fit's report as CSV, complete; for large fits the"
            " page has only parts of some.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[
        str,
        typer.Option(help="Heading of a fit's report.", show_default=False),
    ] = "",
    note: Annotated[
        str,
        typer.Option(
            help="Note below the heading of a fit's report, such as what contamination means in"
            " its table.",
            show_default=False,
        ),
    ] = "",
    quiet: Quiet = False,
) -> None:
    """Write the report of a fit, a scan or a curve as one HTML file that needs no network."""
    check_file(out, path, compare_with, curve, items)
    folder = os.path.isdir(path)  # noqa: PTH112 (pathlib raises for names that are too long)
    given = {"compare": compare_with, "scan": scan, "curve": curve, "items": items, "by": by}
    given |= {"tables": tables, "title": title, "note": note}
    options = {name for name, value in given.items() if value}
    if folder:
        _refuse(path, "a scan", options - {"curve", "items", "by"})
        _report_scan(path, curve, items, by, out, quiet)
    else:
        texts = {"title": title, "note": note}
        _report_file(path, compare_with or [], scan, curve, options, out, tables, texts, quiet)
    if not quiet:
        print(f"Wrote {printable(str(out))}.")
        if tables is not None:
            print(f"Wrote its tables to {printable(str(tables))}.")


def _report_scan(
    folder: Path, curve: Path | None, items: Path | None, by: str | None, out: Path, quiet: bool
) -> None:
    from bayescontam.errors import UsageError

    if (items is None) != (by is None) or (by is not None and curve is None):
        raise UsageError("--items, --by: give both, and --curve, or none of them")
    with stage(not quiet, f"reading {printable(str(folder))}"):
        from bayescontam.evidence.curve import Curve
        from bayescontam.report.matches import gather
        from bayescontam.report.scan_page import write_scan_report
        from bayescontam.scan.results import Scan

        opened = Scan.load(folder)
        known = None if curve is None else Curve.load(curve)
        table = None if items is None or by is None else _items(items, by, opened.items)
    evidence = None if known is None else gather(opened, known, progress=not quiet)
    with stage(not quiet, "drawing"):
        write_scan_report(opened, out, evidence=evidence, items=table, by=by)


def _items(path: Path, by: str, scanned: "pd.DataFrame") -> "pd.DataFrame":
    """Read a table of items; a benchmark need not be named where the scan has one only."""
    import pandas as pd

    from bayescontam.data.tables import read_table

    table = read_table(path)
    benchmarks = scanned["benchmark"].unique()
    if "benchmark" not in table and len(benchmarks) == 1:
        table = table.assign(benchmark=benchmarks[0])
    for name in table.columns.intersection(["benchmark", "item"]):
        table[name] = table[name].astype(str)
    if by in table:
        # Every cell of a CSV file is text.
        blank = table[by].replace("", None)
        numbers = pd.to_numeric(blank, errors="coerce")
        table[by] = numbers if numbers.notna().sum() == blank.notna().sum() else blank
    return table


def _report_file(
    path: Path,
    compare_with: list[Path],
    scan: Path | None,
    curve: Path | None,
    options: set[str],
    out: Path,
    tables: Path | None,
    texts: dict[str, str],
    quiet: bool,
) -> None:
    with stage(not quiet, f"reading {printable(str(path))}"):
        from bayescontam.cli.compare import load_all
        from bayescontam.errors import UsageError
        from bayescontam.evidence.curve import Curve
        from bayescontam.inference.compare import compare_fits
        from bayescontam.report.curve_page import write_curve_report
        from bayescontam.report.fit_page import write_report
        from bayescontam.report.matches import gather
        from bayescontam.scan.results import Scan

        known = _load(path)
    if isinstance(known, Curve):
        _refuse(path, "a curve", options)
        with stage(not quiet, "drawing"):
            write_curve_report(known, out)
        return
    _refuse(path, "a fit", options - {"compare", "scan", "curve", "tables", *texts})
    if (scan is None) != (curve is None):
        raise UsageError("--scan, --curve: for the report of a fit, give both or none of them")
    evidence = None
    if scan is not None and curve is not None:
        evidence = gather(Scan.load(scan), Curve.load(curve), progress=not quiet)
    comparison = None
    if compare_with:
        with stage(not quiet, "comparing"):
            comparison = compare_fits(load_all([path, *compare_with]))
    write_report(
        known, out, comparison=comparison, evidence=evidence, **texts, tables_in=tables,
        progress=not quiet,
    )  # fmt: skip


def _load(path: Path) -> "Fit | Curve":
    """Read a file that holds a fit or a curve."""
    from bayescontam.errors import FitError
    from bayescontam.evidence.curve import Curve
    from bayescontam.inference.result import Fit

    try:
        return Fit.load(path)
    except FitError as no_fit:
        if no_fit.__cause__ is None:  # no file, or a fit in another format
            raise
        try:
            return Curve.load(path)
        except FitError as no_curve:
            raise (no_fit if no_curve.__cause__ else no_curve) from None


def _refuse(path: Path, what: str, options: set[str]) -> None:
    """Refuse options that do not go with what is reported."""
    from bayescontam.errors import UsageError

    if options:
        named = ", ".join(f"--{name}" for name in sorted(options))
        raise UsageError(
            f"{named}: {printable(str(path))} is {what}, and its report does not take that; leave"
            " it out"
        )


def summary(
    path: FitFile,
    output: Format = TableFormat.TABLE,
    level: LevelOfFit = None,
    out: InsteadOfPrinting = None,
    quiet: ShowNoProgress = False,
) -> None:
    """Print the estimands of a fit: a headline table, or every one as CSV or JSON."""
    from bayescontam.data.validation import check_level

    if level is not None:
        check_level(level, "--level")
    check_out(output, out, path)
    with stage(not quiet, f"reading and summarising {printable(str(path))}"):
        from bayescontam.cli.terminal import put_text
        from bayescontam.inference.result import Fit

        fit = Fit.load(path)
        table = fit.estimands(level)
    if output is TableFormat.TABLE:
        _print(fit, table)
        return
    text = table.to_csv(index=False) if output is TableFormat.CSV else _json(fit, table, level)
    put_text(text, out)


def _print(fit: "Fit", table: "pd.DataFrame") -> None:
    from bayescontam.cli.terminal import print_headline, print_lines, print_table
    from bayescontam.inference.findings import lines_in_short, verdict_line
    from bayescontam.inference.tables import by_concept, headline

    print_headline(headline(fit, table))
    if "estimands_by_concept" in fit.tree:
        print_table(by_concept(fit, table))
    print_lines([verdict_line(fit), *lines_in_short(fit)])


def _json(fit: "Fit", table: "pd.DataFrame", level: float | None) -> str:
    import json

    from bayescontam.inference.tables import FIGURES, better_pairs, slopes

    judged = slopes(fit, table)[["model", "benchmark", "verdict", "sentence", *FIGURES]]
    checks = [check.to_dict() for check in fit.checks()]
    hidden = {"format", "checks", "labels"}
    content = {
        "record": {name: value for name, value in fit.record.items() if name not in hidden},
        "level": fit.level if level is None else level,
        "checks": checks,
        "estimands": json.loads(table.to_json(orient="records", double_precision=15)),
        "identification": json.loads(judged.to_json(orient="records", double_precision=15)),
        "p_better": json.loads(better_pairs(fit).to_json(orient="records", double_precision=15)),
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
