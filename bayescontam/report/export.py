"""Every table behind a report, whole, as CSV files."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from bayescontam._files import write_text
from bayescontam._text import printable
from bayescontam.errors import UsageError
from bayescontam.inference.confounding import confounding_table
from bayescontam.inference.result import Fit
from bayescontam.report import diagnostics
from bayescontam.report import fit_tables as tables
from bayescontam.report import predictive as predictions
from bayescontam.report.ranking import better_pairs, ranks


def whole_tables(fit: Fit, estimands: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    """Return every table of a report by the name of its file, without those that are empty."""
    made: dict[str, Callable[[], pd.DataFrame]] = {
        "headline": lambda: tables.headline(fit, estimands),
        "slopes": lambda: tables.slopes(fit, estimands),
        "concepts": lambda: tables.by_concept(fit, estimands),
        "better": lambda: better_pairs(fit),
        "ranks": lambda: ranks(fit),
        "items": lambda: _items(fit),
        "curves": lambda: _curves(fit),
        "confounding": lambda: _confounding(fit),
        "sensitivity": lambda: tables.sensitivity(fit),
        "predicted": lambda: predictions.predicted_scores(fit),
        "predicted-bins": lambda: predictions.predicted_bins(fit),
        "convergence": lambda: diagnostics.convergence_table(fit, estimands)[0],
        "checks": lambda: tables.checks(fit),
        "estimands": lambda: estimands,
    }
    every = {name: make() for name, make in made.items()}
    return {name: table for name, table in every.items() if len(table)}


def write_tables(
    fit: Fit, folder: str | os.PathLike[str], estimands: pd.DataFrame | None = None
) -> None:
    """Write every table of a report, one CSV file each."""
    path = make_folder(folder)
    estimands = fit.estimands() if estimands is None else estimands
    for name, table in whole_tables(fit, estimands).items():
        write_text(path / f"{name}.csv", table.to_csv(index=False))


def make_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the folder for tables, made if it does not exist."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{printable(str(path))}: no folder can be made there ({printable(str(error))}); "
            "give one"
            " that can be written to"
        ) from None
    return path


def _items(fit: Fit) -> pd.DataFrame:
    return fit.item_fit() if "item_fit" in fit.tree else pd.DataFrame()


def _curves(fit: Fit) -> pd.DataFrame:
    if "curves" not in fit.tree:
        return pd.DataFrame()
    curves = fit.tree["curves"].to_dataset()[["contamination", "mean", "low", "high"]]
    table = curves.to_dataframe(["model", "benchmark", "point"]).reset_index()
    return table.drop(columns="point").dropna(subset="mean", ignore_index=True)


def _confounding(fit: Fit) -> pd.DataFrame:
    known = "confounding" in fit.tree
    return confounding_table(fit.tree["confounding"].to_dataset() if known else None)
