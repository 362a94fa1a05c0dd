"""The Python interface of evidence: judgements to a curve, and to covariates."""

import pandas as pd

from bayescontam.covariates import Covariates
from bayescontam.evidence.covariates import covariates_table
from bayescontam.evidence.duplicates import TARGET_ACCEPT, TUNE, Curve, CurveOptions, fit_curve
from bayescontam.evidence.pairs import located
from bayescontam.evidence.weighing import DRAWS, FLOOR, Weighed, weigh
from bayescontam.execute import usable_cores
from bayescontam.given import Path
from bayescontam.inference.engines import Engine, Sampling
from bayescontam.inference.summary import LEVEL
from bayescontam.judgements import Judgements, read_judgements
from bayescontam.scan.results import Scan
from bayescontam.seeds import fresh_seed
from bayescontam.specs.catalogue import load_curve
from bayescontam.specs.curve import CurveSpec

__all__ = ["Curve", "contamination_covariates", "duplicate_curve", "weigh_scan"]

_COLUMNS = {
    "benchmark": "str", "item": "str", "source": "str", "document": "str", "chunk": "int64",
    "judge": "str", "is_duplicate": "Int8", "kind": "str", "confidence": "float64",
    "comment": "str",
}  # fmt: skip


def duplicate_curve(
    scan: Scan | Path,
    judgements: Judgements | pd.DataFrame | Path | None = None,
    spec: CurveSpec | Path = "monotone",
    *,
    level: float = LEVEL,
    seed: int | None = None,
    engine: Engine = "nutpie",
    draws: int = 1000,
    tune: int = TUNE,
    chains: int = Sampling.chains,
    cores: int | None = None,
    target_accept: float = TARGET_ACCEPT,
    progress: bool = False,
    command: str = "",
) -> Curve:
    """Learn P(duplicate | cosine) of a scan's matches from judgements of some of them.

    Parameters
    ----------
    scan : Scan or path-like
    judgements : Judgements, pandas.DataFrame or path-like, optional
        Judgements of pairs of the scan. Without any, the curve is the prior of the spec.
    spec : CurveSpec, str or path-like, default "monotone"
        Curve spec, the name of a shipped one, or the path of a TOML file.
    level : float, default 0.95
        Probability of the equal-tailed intervals.
    seed : int, optional
        Default: a fresh one, which the curve records.
    engine : {"nutpie", "pymc", "numpyro"}, default "nutpie"
    draws, tune, chains : int
        Draws stored of each chain (1,000), draws before those (1,500), and chains (4).
    cores : int, optional
        Chains at the same time; default: as many as the machine has cores.
    target_accept : float, default 0.95
    progress : bool, default False
        Whether to show what goes on.
    command : str, optional
        What the user ran, for the record.

    Returns
    -------
    Curve
        Also when checks failed: look at ``curve.checks()`` before you believe it.

    Raises
    ------
    DataError, SpecError, UsageError
        If something given cannot be used; before anything long is started.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.duplicate_curve("no-such-folder", "judgements.csv")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    curve_spec = spec if isinstance(spec, CurveSpec) else load_curve(spec)
    cores = min(chains, usable_cores()) if cores is None else cores
    sampling = Sampling(engine, draws, tune, chains, cores, target_accept)
    seed = fresh_seed() if seed is None else seed
    options = CurveOptions(seed=seed, level=level, sampling=sampling, command=command)
    opened = _scan(scan)
    judged = located(_judgements(judgements), opened)
    best = opened.matches.groupby(["benchmark", "item"], observed=True)["cosine"].max()
    judged = judged.join(best.rename("best"), on=["benchmark", "item"])
    names = {
        "benchmarks": tuple(map(str, opened.items["benchmark"].unique())),
        "sources": tuple(dict.fromkeys(row["source"] for row in opened.record["strata"])),
        "embedder": opened.record.get("embedder"),
    }
    return fit_curve(judged, names, curve_spec, options, progress)


def weigh_scan(
    scan: Scan | Path,
    curve: Curve | Path,
    *,
    floor: float = FLOOR,
    draws: int = DRAWS,
    progress: bool = False,
) -> Weighed:
    """Weigh the matches of every item of a scan with a curve, draw by draw.

    Parameters
    ----------
    scan : Scan or path-like
    curve : Curve or path-like
    floor : float, default 0.35
        Cosine below which matches are not counted.
    draws : int, default 200
        Draws of the curve to use.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    Weighed
        What `prevalence` is read from.

    Raises
    ------
    DataError, FitError
        If there is no finished scan or no curve.
    UsageError
        If the curve does not cover all benchmarks and sources of the scan, or an option
        cannot be used.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.weigh_scan("no-such-folder", "curve.nc")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    opened, fitted = _scan(scan), _curve(curve)
    return weigh(opened, fitted, floor=floor, draws=draws, progress=progress)


def contamination_covariates(
    scan: Scan | Path,
    curve: Curve | Path,
    *,
    floor: float = FLOOR,
    draws: int = DRAWS,
    progress: bool = False,
) -> Covariates:
    """Return for each item the probability that the corpus holds a duplicate of it.

    Parameters
    ----------
    scan : Scan or path-like
    curve : Curve or path-like
        From `duplicate_curve`.
    floor : float, default 0.35
        Cosine below which matches are not counted.
    draws : int, default 200
        Draws of the curve to use.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    Covariates
        For `fit`; see `bayescontam.evidence.covariates.covariates_table` for the columns.

    Raises
    ------
    DataError, FitError
        If there is no finished scan or no curve.
    UsageError
        If the curve does not cover all benchmarks and sources of the scan, or an option
        cannot be used.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.contamination_covariates("no-such-folder", "curve.nc")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    opened, fitted = _scan(scan), _curve(curve)
    weighed = weigh_scan(opened, fitted, floor=floor, draws=draws, progress=progress)
    table = covariates_table(weighed, opened, fitted)
    return Covariates.from_frame(table, source=f"scan {opened.folder.name}")


def _scan(given: Scan | Path) -> Scan:
    return given if isinstance(given, Scan) else Scan.load(given)


def _curve(given: Curve | Path) -> Curve:
    return given if isinstance(given, Curve) else Curve.load(given)


def _judgements(given: Judgements | pd.DataFrame | Path | None) -> Judgements:
    if isinstance(given, Judgements):
        return given
    if given is None:
        return Judgements(pd.DataFrame(columns=list(_COLUMNS)).astype(_COLUMNS), "no judgements")
    if isinstance(given, pd.DataFrame):
        return Judgements.from_frame(given)
    return read_judgements(given)
