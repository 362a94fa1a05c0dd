"""Given: tables as functions take them, read where a path stands for them."""

import os

import pandas as pd

from bayescontam.covariates import Covariates, Missing, read_covariates
from bayescontam.responses import Responses, read_responses

Path = str | os.PathLike[str]


def given_responses(
    responses: Responses | pd.DataFrame | Path,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    missing: Missing = "error",
) -> Responses:
    """Return responses, with contamination from covariates if these are given.

    Parameters
    ----------
    responses : Responses, pandas.DataFrame or path-like
    covariates : Covariates, pandas.DataFrame or path-like, optional
    missing : {"error", "drop", "impute"}, default "error"
        See `Responses.with_contamination`.

    Returns
    -------
    Responses

    Raises
    ------
    DataError, UsageError
        If a table cannot be used.
    """
    if isinstance(responses, pd.DataFrame):
        responses = Responses.from_frame(responses)
    elif not isinstance(responses, Responses):
        responses = read_responses(responses)
    if covariates is None:
        return responses
    return responses.with_contamination(given_covariates(covariates), missing=missing)


def given_covariates(covariates: Covariates | pd.DataFrame | Path) -> Covariates:
    """Return covariates.

    Parameters
    ----------
    covariates : Covariates, pandas.DataFrame or path-like

    Returns
    -------
    Covariates

    Raises
    ------
    DataError, UsageError
        If the table cannot be used.
    """
    if isinstance(covariates, Covariates):
        return covariates
    if isinstance(covariates, pd.DataFrame):
        return Covariates.from_frame(covariates)
    return read_covariates(covariates)
