"""Command ``prevalence``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from bayescontam._progress import stage
from bayescontam._text import join_list, printable
from bayescontam.cli.options import (
    Format,
    InsteadOfPrinting,
    ScanFolder,
    ShowNoProgress,
    check_out,
    examples,
)
from bayescontam.cli.terminal import print_checks, print_lines, print_table, put_csv, put_json
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = examples(
    "bayescontam prevalence scanned/ --curve curve.nc",
    "bayescontam prevalence scanned/ --curve curve.nc --items items.csv --by elo",
    "bayescontam prevalence scanned/ --curve curve.nc --format json --out prevalence.json",
)
# What tables for people call columns and views.
_SHARE = {"mean": "share", "ci_low": "share_low", "ci_high": "share_high", "by": "in",
          "n_mean": "with_duplicates", "n_low": "with_duplicates_low",
          "n_high": "with_duplicates_high"}  # fmt: skip
_RATE = {"share": "share_of_tail", "share_low": "share_of_tail_low",
         "share_high": "share_of_tail_high", "rate": "per_10000", "rate_low": "per_10000_low",
         "rate_high": "per_10000_high"}  # fmt: skip
_VIEWS = {"corpus": "whole corpus", "scanned": "scanned part", "tail": "texts drawn from tails",
          "matches": "best matches"}  # fmt: skip
_SPARE = ["sd", "with_duplicates"]


def prevalence(
    scan: ScanFolder,
    curve: Annotated[Path, Option(help="Curve of P(duplicate | cosine) of this scan.")],
    items: Annotated[
        Path | None, Option(help="Table of the scan's items that has the column of --by.")
    ] = None,
    by: Annotated[
        str | None, Option(help="Item column to break prevalence down by, such as a difficulty.")
    ] = None,
    level: Annotated[float | None, Option(help="Credible level; default: the curve's.")] = None,
    output: Format = "table",
    out: InsteadOfPrinting = None,
    quiet: ShowNoProgress = False,
) -> None:
    """Print how many items have duplicates: in all, by source, kind and matches, by a column."""
    if (items is None) != (by is None):
        raise UsageError("--items, --by: give both or none of them")
    check_out(output, out, scan, curve, items)
    with stage(not quiet, f"reading {printable(scan)}"):
        from bayescontam.data.validation import check_level
        from bayescontam.evidence.covariates import item_contamination
        from bayescontam.evidence.curve import Curve
        from bayescontam.evidence.prevalence_tables import prevalence_tables
        from bayescontam.scan.results import Scan

        if level is not None:
            check_level(level, "--level")
        opened, fitted = Scan.load(scan), Curve.from_netcdf(curve)
        table = None if items is None or by is None else item_column(items, by, opened.items)
    weighed = item_contamination(opened, fitted, progress=not quiet)
    level = fitted.level if level is None else level
    with stage(not quiet, "counting"):
        tables = prevalence_tables(weighed, level, table, by)
    if output == "csv":
        put_csv(_joined(tables), out)
    elif output == "json":
        checks = [check.to_dict() for check in fitted.checks()]
        put_json({"level": level, "checks": checks} | tables, out)
    else:
        _print(tables)
        print_checks(fitted.checks())


def _joined(tables: "dict[str, pd.DataFrame]") -> "pd.DataFrame":
    """Return the shares of items of all views as one table."""
    import pandas as pd

    parts = [tables[name] for name in ("prevalence", "prevalence_by") if name in tables]
    return pd.concat(parts, ignore_index=True)


def _print(tables: "dict[str, pd.DataFrame]") -> None:
    shares = tables["prevalence"].replace({"by": _VIEWS}).rename(columns=_SHARE)
    print_table(shares, _SPARE)
    rates = tables["duplicate_rate"]
    rates = rates[rates["sampled"] > 0]
    if len(rates):
        print_table(rates.rename(columns=_RATE), see_all="--format json")
        print_lines(
            [
                "share of tail: of the texts with the highest cosines; per 10000: duplicates of an"
                " item among 10,000 texts, none counted outside the tail."
            ]
        )
    if "prevalence_by" in tables:
        groups = tables["prevalence_by"].rename(columns=_SHARE).replace({"kind": {"": "any"}})
        print_table(groups.drop(columns="at"), _SPARE)
    if "prevalence_trend" in tables:
        _print_trend(tables["prevalence_trend"].replace({"kind": {"": "any"}}))


def _print_trend(trend: "pd.DataFrame") -> None:
    same = trend["sd"] == 0
    if same.any():
        named = join_list(trend.loc[same, "benchmark"].unique())
        print_lines([f"No trend in {named}: all items have the same value."])
    if same.all():
        return
    names = {"median": "per_sd", "ci_low": "per_sd_low", "ci_high": "per_sd_high", "by": "on"}
    print_table(trend[~same].rename(columns=names), ["per_unit"], "--format json")
    print_lines(
        [
            "per sd, per unit: change of the log-odds that an item has a duplicate, for a"
            " population of items like these; p rises: probability that they rise."
        ]
    )


def item_column(path: Path, by: str, scanned: "pd.DataFrame") -> "pd.DataFrame":
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
        blank: Any = table[by].replace("", None)
        numbers = pd.to_numeric(blank, errors="coerce")
        table[by] = numbers if numbers.notna().sum() == blank.notna().sum() else blank
    return table
