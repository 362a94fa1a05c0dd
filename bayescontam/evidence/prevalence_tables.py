"""All tables of prevalence of a scan, as page and terminal show them."""

import pandas as pd

from bayescontam.evidence.covariates import ItemContamination
from bayescontam.evidence.prevalence import (
    column_of,
    duplicate_numbers,
    is_number,
    prevalence,
    prevalence_by,
)
from bayescontam.evidence.rate import duplicate_rate
from bayescontam.evidence.trend import prevalence_trend


def prevalence_tables(
    weighed: ItemContamination,
    level: float,
    items: pd.DataFrame | None = None,
    by: str | None = None,
) -> dict[str, pd.DataFrame]:
    """Return the tables by the names of their functions; with a column, those by it and kind."""
    tables = {
        "prevalence": prevalence(weighed, level=level),
        "duplicate_numbers": duplicate_numbers(weighed, level=level),
        "duplicate_rate": duplicate_rate(weighed, level=level),
    }
    if items is None or by is None:
        return tables
    kinds = weighed.kinds
    tables["prevalence_by"] = prevalence_by(weighed, items, by, kinds=kinds, level=level)
    if is_number(column_of(weighed, items, by)):
        trend = prevalence_trend(weighed, items, by, kinds=kinds, level=level)
        tables["prevalence_trend"] = trend
    return tables
