"""Duplicates: judgements to a judged fit of P(duplicate | cosine)."""

import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from bayescontam._types import FloatArray
from bayescontam.evidence import curve_checks
from bayescontam.evidence.curve import BuiltCurve, build_curve
from bayescontam.evidence.curve_draws import CurveDraws, take_curve
from bayescontam.evidence.verdicts import Verdicts, make_verdicts, with_leads
from bayescontam.inference.checks import Check, Outcome, Thresholds, sampling_checks
from bayescontam.inference.convergence import convergence
from bayescontam.inference.engines import Sampling, sample_model
from bayescontam.inference.stored import Stored, unsafe_labels
from bayescontam.inference.summary import LEVEL
from bayescontam.levels import check_level
from bayescontam.progress import stage
from bayescontam.seeds import check_seed, stream
from bayescontam.specs.curve import CurveSpec

FORMAT = 2
"""Version of the layout of a saved curve. In 1 chunks counted, not documents, and ``subset``
and ``superset`` each had the meaning of the other."""
TARGET_ACCEPT = 0.95
"""Spreads over two or three benchmarks have long tails, which need small steps."""
TUNE = 1500
"""Where judgements and priors disagree, a chain may first take the judge for one who calls
nearly everything a duplicate, a region of next to no mass that is hard to leave: on published
pairs 14 of 96 chains were there at the start, one after 700 steps and none after 1,000."""
PRIOR_DRAWS = 4000
_VERSIONS = ("bayescontam", "pymc", "nutpie", "arviz", "numpy", "pandas", "xarray")
QUANTITIES = (
    "threshold_open", "steepness_open", "threshold", "steepness", "source_shift", "sigma_item",
    "share_further", "sensitivity", "specificity",
)  # fmt: skip
"""Parameters that a summary reports, in this order."""
GRID = np.linspace(0.0, 1.0, 101)
"""Cosines at which the curve is reported."""
_JUDGED = {
    "benchmark": "str", "item": "str", "source": "str", "document": "str", "chunk": "int64",
    "cosine": "float64", "best": "float64", "judge": "str", "is_duplicate": "int64", "kind": "str",
    "lead": "int64", "lead_cosine": "float64", "place": "float64",
}  # fmt: skip


@dataclass(frozen=True)
class CurveOptions:
    """How a curve is fitted and judged, beside spec and judgements."""

    seed: int
    level: float = LEVEL  # probability of intervals
    thresholds: Thresholds = field(default_factory=Thresholds)  # what the checks require
    sampling: Sampling = field(
        default_factory=lambda: Sampling(draws=1000, tune=TUNE, target_accept=TARGET_ACCEPT)
    )
    command: str = ""  # what the user ran, for the record

    def __post_init__(self) -> None:
        """Refuse what cannot be used."""
        check_level(self.level)
        check_seed(self.seed)


class Curve(Stored):
    """Posterior of P(duplicate | cosine), with what is needed to judge and reuse it.

    Made by `duplicate_curve`, or read from a file with ``Curve.load(path)``.

    Attributes
    ----------
    tree : xarray.DataTree
        Groups ``posterior`` (or draws from the prior, where nothing was judged),
        ``sample_stats``, ``curves`` (dims benchmark, cosine), ``predictive`` and
        ``record``.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.Curve.load("no-such-file.nc")
    Traceback (most recent call last):
        ...
    bayescontam.errors.FitError: no-such-file.nc: no such file; make a curve with: bayescontam curve
    """

    _VERB = "curve"
    _IS = "a curve"
    _AGAIN = "fit the curve again"
    _LAYOUT = "curve_format", FORMAT

    def __repr__(self) -> str:
        failed = sum(check.outcome is Outcome.FAILED for check in self.checks())
        verdict = f"{failed} checks failed" if failed else "no check failed"
        return f"<Curve from {len(self.judged):,} judgements, {verdict}>"

    @cached_property
    def judged(self) -> pd.DataFrame:
        """Judgements that the curve was fitted to, with the cosine of each pair."""
        stored = json.loads(str(self.tree["record"]["judged"].item()))
        return with_leads(pd.DataFrame(stored, columns=list(_JUDGED))).astype(_JUDGED)

    @property
    def spec(self) -> CurveSpec:
        """The curve spec that was fitted."""
        return CurveSpec.model_validate(self.record["spec"]["content"])

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Benchmarks that the curve covers."""
        return tuple(self.record["benchmarks"])

    @property
    def sources(self) -> tuple[str, ...]:
        """Sources of the corpus that the curve covers."""
        return tuple(self.record["sources"])

    @property
    def judges(self) -> tuple[str, ...]:
        """Judges whose errors were learnt."""
        return tuple(self.record["judges"])

    def draws(self, most: int | None = None) -> CurveDraws:
        """Return draws of the curve, at most `most` of them, evenly spaced."""
        draws = take_curve(self.tree["posterior"].to_dataset(), self.spec)
        return draws if most is None else draws[_spaced(len(draws), most)]

    def judge_draws(self, most: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return draws of sensitivity and specificity, dims (draw, judge), as in `draws`."""
        posterior = self.tree["posterior"].to_dataset()
        count = posterior.sizes["chain"] * posterior.sizes["draw"]
        rows = _spaced(count, count if most is None else most)
        if not self.judges:
            return np.ones((len(rows), 0)), np.ones((len(rows), 0))
        flat = (posterior[n].to_numpy().reshape(count, -1) for n in ("sensitivity", "specificity"))
        sensitivity, specificity = (values[rows] for values in flat)
        return sensitivity, specificity

    def further_draws(self, most: int | None = None) -> FloatArray:
        """Return draws of ``share_further``, dims (draw,); 1 where no such chunk was judged."""
        posterior = self.tree["posterior"].to_dataset()
        count = posterior.sizes["chain"] * posterior.sizes["draw"]
        rows = _spaced(count, count if most is None else most)
        if "share_further" not in posterior:
            return np.ones(len(rows))
        draws: FloatArray = posterior["share_further"].to_numpy().ravel()[rows]
        return draws

    def summary(self, level: float | None = None) -> pd.DataFrame:
        """Return one row for each quantity.

        Parameters
        ----------
        level : float, optional
            Probability of the equal-tailed intervals; default: that of the fit.

        Returns
        -------
        pandas.DataFrame
            ``of`` (benchmark, source or judge; "" for all), ``quantity``, ``mean, sd,
            ci_low, ci_high, ess_bulk, ess_tail, r_hat, mcse_mean``. ``threshold`` is in
            cosine, ``steepness`` in log-odds per unit of cosine, ``sigma_item`` in
            log-odds, ``source_shift`` in cosine; ``share_further``, ``sensitivity`` and
            ``specificity`` are probabilities.
        """
        return summarise_curve(self.tree["posterior"].to_dataset(), level or self.level)


def fit_curve(
    judged: pd.DataFrame,
    names: Mapping[str, Any],
    spec: CurveSpec,
    options: CurveOptions,
    progress: bool = False,
) -> Curve:
    """Fit P(duplicate | cosine) to judgements, and judge the fit."""
    verdicts = make_verdicts(judged, names["benchmarks"], names["sources"])
    with stage(progress, "building the model"):
        built = build_curve(spec, verdicts)
    groups = {}
    if len(verdicts):
        seed = int(stream(options.seed, "curve").integers(2**31))
        posterior, groups["sample_stats"] = sample_model(
            built.model, options.sampling, seed, progress
        )
    else:
        posterior = _prior(built, options.seed)
    with stage(progress, "checking the curve"):
        checks = list(curve_checks.evidence_checks(verdicts))
        if len(verdicts):
            summary = summarise_curve(posterior, options.level)
            checks += sampling_checks(
                posterior, groups["sample_stats"], summary, options.thresholds
            )
            groups["predictive"] = curve_checks.replicate(posterior, built, options.seed)
            checks += curve_checks.predictive_checks(groups["predictive"], options.thresholds)
        groups["curves"] = _bands(take_curve(posterior, spec), verdicts, options.level)
    groups["posterior"] = posterior.drop_vars("item_offset", errors="ignore").drop_dims(
        ["item", "pair", "verdict"], errors="ignore"
    )
    record = _record(built, options, checks) | {"embedder": names.get("embedder")}
    groups["record"] = xr.Dataset({"json": json.dumps(record), "judged": _judged_text(judged)})
    return Curve(xr.DataTree.from_dict(groups))


def _prior(built: BuiltCurve, seed: int) -> xr.Dataset:
    rng = stream(seed, "curve prior")
    tree = pm.sample_prior_predictive(
        PRIOR_DRAWS, model=built.model, random_seed=rng, compile_kwargs={"mode": "FAST_COMPILE"}
    )
    return tree["prior"].to_dataset()


def summarise_curve(posterior: xr.Dataset, level: float) -> pd.DataFrame:
    """Summarise draws of a curve's parameters; see `Curve.summary`."""
    tails = (1 - level) / 2, (1 + level) / 2
    parts = []
    for name in QUANTITIES:
        if name not in posterior:
            continue
        values = posterior[name]
        cells = values.to_numpy().reshape(*values.shape[:2], -1)
        flat = cells.reshape(-1, cells.shape[2])
        low, high = np.quantile(flat, tails, axis=0)
        of = list(values[values.dims[2]].to_numpy()) if values.ndim > 2 else [""]
        columns = {"mean": flat.mean(0), "sd": flat.std(0, ddof=1), "ci_low": low, "ci_high": high}
        figures = convergence(cells)
        parts.append(pd.DataFrame({"of": of, "quantity": name} | columns | figures))
    table = pd.concat(parts, ignore_index=True)
    order = ["mean", "sd", "ci_low", "ci_high", "ess_bulk", "ess_tail", "r_hat", "mcse_mean"]
    return table[["of", "quantity", *order]]


def _bands(draws: CurveDraws, verdicts: Verdicts, level: float) -> xr.Dataset:
    """Return mean and band of P(duplicate | cosine) of a match of a random item."""
    draws = draws[_spaced(len(draws), 1000)]
    tails = (1 - level) / 2, (1 + level) / 2
    curves = np.stack(
        [curve_checks.marginal(draws, GRID, b) for b in range(len(verdicts.benchmarks))], axis=1
    )
    low, high = np.quantile(curves, tails, axis=0)
    dims = ("benchmark", "cosine")
    data = {"mean": (dims, curves.mean(0)), "low": (dims, low), "high": (dims, high)}
    return xr.Dataset(data, {"cosine": GRID, "benchmark": list(verdicts.benchmarks)})


def _record(built: BuiltCurve, options: CurveOptions, checks: list[Check]) -> dict[str, Any]:
    spec, verdicts = built.spec, built.verdicts
    return {
        "curve_format": FORMAT,
        "spec": {"name": spec.name, "hash": spec.hash, "content": spec.model_dump()},
        "benchmarks": list(verdicts.benchmarks),
        "sources": list(verdicts.sources),
        "judges": list(verdicts.judges),
        "labels": unsafe_labels(
            {name: verdicts.coords[name] for name in ("benchmark", "source", "judge")}
        ),
        "pairs": len(verdicts),
        "seed": options.seed,
        "level": options.level,
        "sampling": asdict(options.sampling),
        "command": options.command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "checks": [check.to_dict() for check in checks],
        "versions": {name: importlib.metadata.version(name) for name in _VERSIONS},
    }


def _judged_text(judged: pd.DataFrame) -> str:
    """Return the judgements as JSON, which unlike netCDF holds any name."""
    judgements = with_leads(judged.dropna(subset="is_duplicate")).reindex(columns=list(_JUDGED))
    return json.dumps(judgements.fillna({"kind": ""}).astype({"is_duplicate": int}).to_dict("list"))


def _spaced(count: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))
