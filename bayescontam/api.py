"""The Python interface: what the command line does, as functions."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console

from bayescontam.covariates import Covariates, Missing, read_covariates
from bayescontam.errors import UsageError
from bayescontam.inference.checks import Check, Outcome, Thresholds
from bayescontam.inference.compare import compare_fits
from bayescontam.inference.engines import Engine, Sampling
from bayescontam.inference.estimands import Reference
from bayescontam.inference.fit import Options, fit_responses
from bayescontam.inference.fitted import Fitted
from bayescontam.inference.summary import LEVEL
from bayescontam.responses import Responses, read_responses
from bayescontam.seeds import fresh_seed
from bayescontam.specs.catalogue import load_spec
from bayescontam.specs.model import ModelSpec

if TYPE_CHECKING:
    from bayescontam.evidence.duplicates import Curve
    from bayescontam.scan.results import Scan

__all__ = ["Check", "Fit", "Outcome", "Thresholds", "compare", "fit"]

Path = str | os.PathLike[str]


class Fit(Fitted):
    """Posterior draws plus everything needed to judge and reuse them.

    Made by `fit`, or read from a file with ``Fit.load(path)``.

    Attributes
    ----------
    tree : xarray.DataTree
        Groups ``posterior``, ``sample_stats``, ``estimands``, ``prior``,
        ``prior_estimands``, ``predictive``, ``loo``, ``constant_data``,
        ``observed_data``, ``record``; with contamination also ``sensitivity``,
        ``identification`` and ``curves``. Draws have dims (chain, draw, …) and the
        coordinates ``model``, ``benchmark``, ``item``, so that ArviZ works on it.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.Fit.load("no-such-file.nc")
    Traceback (most recent call last):
        ...
    bayescontam.errors.FitError: no-such-file.nc: no such file; make a fit with: bayescontam fit
    """

    def report(
        self, path: Path, *, scan: "Scan | None" = None, curve: "Curve | None" = None
    ) -> None:
        """Write the report: one HTML file that needs no network.

        Parameters
        ----------
        path : path-like
            Where to write it. Replaced if it exists, whole or not at all.
        scan : Scan, optional
            Scan that the covariates come from: with `curve` the report lists the most
            contaminated items with the texts that matched them.
        curve : Curve, optional
            Curve that the covariates come from.

        Raises
        ------
        UsageError
            If only one of `scan` and `curve` is given, or they do not go together.
        """
        from bayescontam.report.evidence import gather
        from bayescontam.report.page import write_report

        if (scan is None) != (curve is None):
            raise UsageError("report: give both, scan and curve, or neither")
        evidence = gather(scan, curve) if scan is not None and curve is not None else None
        write_report(self, path, evidence=evidence)


def fit(
    responses: Responses | pd.DataFrame | Path,
    model: ModelSpec | Path = "hierarchical",
    *,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    missing_contamination: Missing = "error",
    reference: Reference = "min_observed",
    level: float = LEVEL,
    seed: int | None = None,
    engine: Engine = "nutpie",
    draws: int = Sampling.draws,
    tune: int = Sampling.tune,
    chains: int = Sampling.chains,
    cores: int | None = None,
    target_accept: float = Sampling.target_accept,
    thresholds: Thresholds | None = None,
    progress: bool = False,
    command: str = "",
) -> Fit:
    """Fit a model spec to responses, compute the estimands and check the fit.

    Parameters
    ----------
    responses : Responses, pandas.DataFrame or path-like
        Responses, or a table or file of them; see `read_responses`.
    model : ModelSpec, str or path-like, default "hierarchical"
        Model spec, the name of a shipped one, or the path of a TOML file.
    covariates : Covariates, pandas.DataFrame or path-like, optional
        Contamination of the items, if it is not in the responses.
    missing_contamination : {"error", "drop", "impute"}, default "error"
        What to do with responses whose item has no covariates: refuse the table, leave
        them out, or give them the mean of their benchmark.
    reference : {"min_observed", "zero"} or float, default "min_observed"
        Contamination in [0, 1] at which genuine ability is told. The default is the
        smallest observed in each benchmark: nothing is extrapolated.
    level : float, default 0.95
        Probability of the equal-tailed intervals.
    seed : int, optional
        Default: a fresh one, which the fit records.
    engine : {"nutpie", "pymc", "numpyro"}, default "nutpie"
        Sampler. ``"numpyro"`` needs the extra ``jax``.
    draws, tune, chains : int
        Draws kept of each chain (1,500), draws before those (700), and chains (4).
    cores : int, optional
        Chains at the same time; default: as many as the machine has cores.
    target_accept : float, default 0.9
        Acceptance probability that the step size is adapted to.
    thresholds : Thresholds, optional
        What the checks ask for.
    progress : bool, default False
        Whether to show what goes on.
    command : str, optional
        What the user ran, for the record.

    Returns
    -------
    Fit
        Also when checks failed: look at ``fit.checks()`` before you believe it.

    Raises
    ------
    DataError, SpecError, UsageError
        If something given cannot be used; before anything long is started.
    MissingExtraError
        If the engine is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "model": "m", "benchmark": "b", "item": [f"i{i}" for i in range(40)],
    ...     "correct": [1, 0] * 20, "contamination": [0.1, 0.1, 0.6, 0.6] * 10,
    ... })
    >>> fitted = fit(table, "single", seed=1, draws=100, tune=100, chains=2)
    >>> estimands = fitted.estimands().set_index("quantity")
    >>> bool(estimands.loc["accuracy", "ci_low"] < 0.5 < estimands.loc["accuracy", "ci_high"])
    True
    """
    spec = model if isinstance(model, ModelSpec) else load_spec(model)
    sampling = Sampling(engine, draws, tune, chains, _cores(cores, chains), target_accept)
    options = Options(
        seed=fresh_seed() if seed is None else seed,
        reference=reference,
        level=level,
        thresholds=thresholds or Thresholds(),
        sampling=sampling,
        command=command,
    )
    table = _responses(responses)
    if covariates is not None:
        table = table.with_contamination(_covariates(covariates), missing=missing_contamination)
    stage = Console(stderr=True).status if progress else _silent
    return Fit(fit_responses(table, spec, options, progress, stage).tree)


def compare(fits: Mapping[str, Fitted]) -> pd.DataFrame:
    """Compare fits of the same responses by PSIS-LOO, with stacking weights.

    Parameters
    ----------
    fits : mapping of str to Fit
        At least two, under the names to show.

    Returns
    -------
    pandas.DataFrame
        One row for each fit, best first: ``fit, elpd, se, p_loo, elpd_diff, diff_se,
        weight, bad_k, verdict``.

    Raises
    ------
    UsageError
        If there are fewer than two fits.
    FitError
        If they are fits of different responses.

    Examples
    --------
    >>> compare({})
    Traceback (most recent call last):
        ...
    bayescontam.errors.UsageError: compare: give at least two fits
    """
    return compare_fits(fits)


def _cores(cores: int | None, chains: int) -> int:
    return min(chains, os.cpu_count() or 1) if cores is None else cores


def _responses(given: Responses | pd.DataFrame | Path) -> Responses:
    if isinstance(given, Responses):
        return given
    return Responses.from_frame(given) if isinstance(given, pd.DataFrame) else read_responses(given)


def _covariates(given: Covariates | pd.DataFrame | Path) -> Covariates:
    if isinstance(given, Covariates):
        return given
    if isinstance(given, pd.DataFrame):
        return Covariates.from_frame(given)
    return read_covariates(given)


def _silent(text: str) -> AbstractContextManager[Any]:
    return nullcontext()
