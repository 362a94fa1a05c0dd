"""Given: tables as functions take them, read where a path stands for them."""

import os

import pandas as pd

from bayescontam.columns import Scale
from bayescontam.covariates import Covariates, Missing, read_covariates
from bayescontam.dates import Dates
from bayescontam.errors import UsageError
from bayescontam.responses import Names, Responses, read_responses

Path = str | os.PathLike[str]


def given_responses(
    responses: Responses | pd.DataFrame | Path,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    missing: Missing = "error",
    contamination_scale: Scale = "share",
    *,
    dates: Dates | None = None,
    clean: Names = (),
) -> Responses:
    """Return responses, with contamination from covariates or dates.

    Columns ``released`` and ``cutoff`` are used where nothing else gives contamination.
    """
    own = "share" if covariates is not None else contamination_scale
    if not isinstance(responses, Responses):
        responses = read_responses(responses, contamination_scale=own)
    elif own != "share":
        raise UsageError(
            f"contamination_scale={own!r}: the responses are read already; say it when they are "
            "read: read_responses(…, contamination_scale=…)"
        )
    if covariates is not None:
        if dates is not None:
            raise UsageError("contamination comes from covariates or from dates; give one of them")
        found = given_covariates(covariates, contamination_scale)
        responses = responses.with_contamination(found, missing=missing)
    elif dates is not None or (
        {"released", "cutoff"} <= set(responses.frame) and "contamination" not in responses.frame
    ):
        if missing == "zero":
            raise UsageError(
                "missing contamination 'zero' is what was searched and not found; an unknown date "
                "is no search: choose drop or impute"
            )
        responses = responses.with_dates(dates, missing=missing, clean=clean)
    return responses.with_clean(clean) if clean else responses


def given_covariates(
    covariates: Covariates | pd.DataFrame | Path, contamination_scale: Scale = "share"
) -> Covariates:
    """Return covariates."""
    if isinstance(covariates, Covariates):
        if contamination_scale != "share":
            raise UsageError(
                f"contamination_scale={contamination_scale!r}: the covariates are read already; "
                "say it when they are read: read_covariates(…, contamination_scale=…)"
            )
        return covariates
    if isinstance(covariates, pd.DataFrame):
        return Covariates.from_frame(covariates, contamination_scale=contamination_scale)
    return read_covariates(covariates, contamination_scale=contamination_scale)
