"""Verb ``summary``: the estimands of a fit."""

from typing import TYPE_CHECKING

from bayescontam.cli.options import (
    FitFile,
    Format,
    InsteadOfPrinting,
    LevelOfFit,
    ShowNoProgress,
    TableFormat,
    check_out,
)
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.inference.fitted import Fit
EXAMPLES = """
Examples:

bayescontam summary fit.nc

bayescontam summary fit.nc --format csv --out estimands.csv

bayescontam summary fit.nc --format json
"""


def summary(
    path: FitFile,
    output: Format = TableFormat.TABLE,
    level: LevelOfFit = None,
    out: InsteadOfPrinting = None,
    quiet: ShowNoProgress = False,
) -> None:
    """Print the estimands of a fit: a headline table, or every one as CSV or JSON."""
    from bayescontam.levels import check_level

    if level is not None:
        check_level(level, "--level")
    check_out(output, out, path)
    with stage(not quiet, f"reading and summarising {visible(str(path))}"):
        from bayescontam.cli.terminal import put_text
        from bayescontam.inference.fitted import Fit

        fit = Fit.load(path)
        table = fit.estimands(level)
    if output is TableFormat.TABLE:
        _print(fit, table)
        return
    text = table.to_csv(index=False) if output is TableFormat.CSV else _json(fit, table, level)
    put_text(text, out)


def _print(fit: "Fit", table: "pd.DataFrame") -> None:
    from bayescontam.cli.terminal import print_headline, print_lines, print_table
    from bayescontam.report.assumed import lines_in_short
    from bayescontam.report.tables import by_concept, headline, verdict_line

    print_headline(headline(fit, table))
    if "estimands_by_concept" in fit.tree:
        print_table(by_concept(fit, table))
    print_lines([verdict_line(fit), *lines_in_short(fit)])


def _json(fit: "Fit", table: "pd.DataFrame", level: float | None) -> str:
    import json

    from bayescontam.report.ranking import better_pairs
    from bayescontam.report.tables import FIGURES, slopes

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
