"""Given: tables as functions take them, read where a path stands for them."""

import os

import pandas as pd

from bayescontam.columns import Scale
from bayescontam.covariates import Covariates, Missing, read_covariates
from bayescontam.errors import UsageError
from bayescontam.responses import Responses, read_responses

Path = str | os.PathLike[str]


def given_responses(
    responses: Responses | pd.DataFrame | Path,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    missing: Missing = "error",
    contamination_scale: Scale = "share",
) -> Responses:
    """Return responses, with contamination from covariates if these are given.

    Parameters
    ----------
    responses : Responses, pandas.DataFrame or path-like
    covariates : Covariates, pandas.DataFrame or path-like, optional
    missing : {"error", "zero", "drop", "impute"}, default "error"
        See `Responses.with_contamination`.
    contamination_scale : {"share", "percent", "count"}, default "share"
        What contamination is, in the covariates if given, else in the responses; see
        `Responses.from_frame`.

    Returns
    -------
    Responses

    Raises
    ------
    DataError, UsageError
        If a table cannot be used.
    """
    own = "share" if covariates is not None else contamination_scale
    if not isinstance(responses, Responses):
        responses = read_responses(responses, contamination_scale=own)
    elif own != "share":
        raise UsageError(
            f"contamination_scale={own!r}: the responses are read already; say it when they are "
            "read: read_responses(…, contamination_scale=…)"
        )
    if covariates is None:
        return responses
    found = given_covariates(covariates, contamination_scale)
    return responses.with_contamination(found, missing=missing)


def given_covariates(
    covariates: Covariates | pd.DataFrame | Path, contamination_scale: Scale = "share"
) -> Covariates:
    """Return covariates.

    Parameters
    ----------
    covariates : Covariates, pandas.DataFrame or path-like
    contamination_scale : {"share", "percent", "count"}, default "share"
        See `Covariates.from_frame`.

    Returns
    -------
    Covariates

    Raises
    ------
    DataError, UsageError
        If the table cannot be used.
    """
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
