"""Verb ``items``: items that do not fit, suspects of a wrong key."""

from typing import Annotated

import typer

from bayescontam.cli.options import (
    FitFile,
    Format,
    InsteadOfPrinting,
    ShowNoProgress,
    TableFormat,
    check_out,
)
from bayescontam.names import visible
from bayescontam.progress import stage

EXAMPLES = """
Examples:

bayescontam items fit.nc

bayescontam items fit.nc --fdr 0.2 --format csv --out items.csv
"""
_MOST = 20
"""Rows that the terminal gets where fewer items are suspects."""


def items(
    path: FitFile,
    fdr: Annotated[
        float,
        typer.Option(
            help="False discovery rate: the share of the suspects that may be items that fit."
        ),
    ] = 0.1,
    output: Format = TableFormat.TABLE,
    out: InsteadOfPrinting = None,
    quiet: ShowNoProgress = False,
) -> None:
    """List the items that do not fit: solved by weak models and missed by strong ones."""
    check_out(output, out, path)
    with stage(not quiet, f"reading {visible(str(path))}"):
        from bayescontam.cli.terminal import print_lines, print_table, put_text
        from bayescontam.inference.fitted import Fit

        fit = Fit.load(path)
        table, sentences = fit.item_fit(fdr), fit.item_sentences(fdr)
    if output is TableFormat.TABLE:
        shown = table[table["p_value"].notna()].head(max(_MOST, int(table["suspect"].sum())))
        if len(shown):
            suspect = shown["suspect"].map({True: "yes", False: ""})
            print_table(shown.assign(suspect=suspect), ("contamination", "p_value"))
        print_lines(sentences)
    elif output is TableFormat.CSV:
        put_text(table.to_csv(index=False), out)
    else:
        import json

        rows = json.loads(table.to_json(orient="records", double_precision=15))
        content = {"fdr": fdr, "items": rows, "sentences": sentences}
        put_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", out)
