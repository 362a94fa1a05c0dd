"""Verb ``update``: new models beside the models of a fit."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayescontam.cli.options import (
    DATA,
    CovariatesFile,
    DropMissing,
    FitFile,
    Format,
    InsteadOfPrinting,
    LevelOfFit,
    MissingContamination,
    OnMissing,
    Quiet,
    SumRepeats,
    TableFormat,
    Where,
    check_out,
    reference_of,
)
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.updating import Update

EXAMPLES = """
Examples:

bayescontam update fit.nc new_model.csv

bayescontam update fit.nc new_model.csv --covariates scan.parquet --format csv --out new.csv

bayescontam update fit.nc new_model.csv --refit never
"""
_WEIGHTS = "Weights"


class Refit(StrEnum):
    """When to fit old and new responses together."""

    AUTO = "auto"
    NEVER = "never"
    ALWAYS = "always"


def update(
    path: FitFile,
    responses: Annotated[
        Path,
        typer.Argument(
            help="Table of responses of new models, to benchmarks of the fit; columns as for"
            " 'bayescontam fit'.",
            show_default=False,
        ),
    ],
    output: Format = TableFormat.TABLE,
    out: InsteadOfPrinting = None,
    covariates: CovariatesFile = None,
    missing_contamination: OnMissing = MissingContamination.ERROR,
    where: Where = None,
    sum_repeats: SumRepeats = False,
    drop_missing: DropMissing = False,
    old: Annotated[
        Path | None,
        typer.Option(
            "--responses",
            help="What the fit was made of; only asked for where its file does not hold it.",
            rich_help_panel=DATA,
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="Contamination at which genuine ability is told; default: that of the fit.",
            show_default=False,
        ),
    ] = None,
    level: LevelOfFit = None,
    draws: Annotated[
        int, typer.Option(help="Draws of the fit to weigh.", rich_help_panel=_WEIGHTS)
    ] = 1000,
    refit: Annotated[
        Refit,
        typer.Option(
            help="Whether to fit old and new responses together: where weights cannot be trusted,"
            " never (then it is an error), or always.",
            rich_help_panel=_WEIGHTS,
        ),
    ] = Refit.AUTO,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed; default: a fresh one.", show_default=False),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Tell the honest scores of new models, with what a fit has learnt of the items."""
    check_out(output, out, path, responses, covariates, old)
    with stage(not quiet, f"reading {visible(str(responses))} and {visible(str(path))}"):
        from bayescontam.api import Fit
        from bayescontam.cli.terminal import calm, print_notes, put_text
        from bayescontam.responses import read_responses
        from bayescontam.updating import update as update_fit

        calm()
        table = read_responses(
            responses, sum_repeats=sum_repeats, drop_missing=drop_missing, where=where
        )
        fit = Fit.load(path)
    updated = update_fit(
        fit,
        table,
        covariates=covariates,
        missing_contamination=missing_contamination.value,
        old_responses=old,
        reference=None if reference is None else reference_of(reference),
        level=level,
        seed=seed,
        draws=draws,
        refit=refit.value,
        progress=not quiet,
    )
    print_notes(updated.notes)
    if output is TableFormat.TABLE:
        if not quiet:
            _print(updated)
        return
    text = _json(updated) if output is TableFormat.JSON else updated.estimands().to_csv(index=False)
    put_text(text, out)


def _print(updated: "Update") -> None:
    from bayescontam.cli.terminal import print_headline, print_lines, print_table

    table = updated.estimands()
    whole = table[table["concept"] == ""].drop(columns="concept") if "concept" in table else table
    print_headline(_wide(whole, ["model", "benchmark"]))
    if "concept" in table:
        parts = table[table["concept"] != ""]
        print_table(_wide(parts, ["model", "benchmark", "concept"]))
    print_lines(f"{visible(entry.model)}: {entry.verdict}" for entry in updated.entries)
    print_lines([f"Seed {updated.seed}. Ranks are among the models of the fit and the new one."])


def _wide(table: "pd.DataFrame", keys: list[str]) -> "pd.DataFrame":
    """Return one row for each cell, estimands beside each other."""
    import pandas as pd

    quantities = table["quantity"].unique()
    rows = table.pivot(index=keys, columns="quantity", values=["mean", "ci_low", "ci_high"])
    rows = rows.reindex(pd.MultiIndex.from_frame(table[keys].drop_duplicates()))
    wide = rows.iloc[:, :0].droplevel(0, axis=1)
    for name in quantities:
        if name in ("overfitting_fraction", "p_best"):
            wide[name] = rows["mean", name]
        elif name not in ("novelty_gap", "accuracy") or "genuine_ability" not in quantities:
            wide[name] = rows["mean", name]
            wide[f"{name}_low"], wide[f"{name}_high"] = rows["ci_low", name], rows["ci_high", name]
    wide.columns.name = None
    return wide.reset_index()


def _json(updated: "Update") -> str:
    import json
    import math

    def plain(value: Any) -> Any:
        """Say null for what is not a number, which JSON does not have."""
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        if isinstance(value, list):
            return [plain(part) for part in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(plain(updated.to_dict()), indent=1, ensure_ascii=False) + "\n"
