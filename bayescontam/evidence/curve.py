"""The class `Curve`: P(duplicate | cosine), fitted and checked."""

import importlib.metadata
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from bayescontam._progress import stage
from bayescontam._random import check_seed, fresh_seed, stream
from bayescontam._runs import plain
from bayescontam._types import FloatArray
from bayescontam.data.held_out import check_validated
from bayescontam.data.judgements import Judgements, read_judgements
from bayescontam.data.responses import Path
from bayescontam.data.validation import check_level
from bayescontam.evidence.curve_checks import evidence_checks, predictive_checks, replicate
from bayescontam.evidence.curve_draws import CurveDraws, flat, marginal, take_curve
from bayescontam.evidence.curve_model import build_curve
from bayescontam.evidence.kinds import check_kinds
from bayescontam.evidence.pairs import positions_in_scan
from bayescontam.evidence.predictor import Predictor, separated
from bayescontam.evidence.verdicts import make_verdicts, with_leads
from bayescontam.inference.checks import Outcome, Thresholds, sampling_checks
from bayescontam.inference.convergence import convergence
from bayescontam.inference.posterior import spaced
from bayescontam.inference.sampling import Engine, Sampling, sample_model
from bayescontam.inference.stored import Stored, unsafe_labels
from bayescontam.inference.summary import LEVEL, describe
from bayescontam.parallel import usable_cores
from bayescontam.scan.results import Scan
from bayescontam.specs.curve import CurveSpec
from bayescontam.specs.registry import load_curve

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
_GIVEN = {
    "benchmark": "str", "item": "str", "source": "str", "document": "str", "chunk": "int64",
    "judge": "str", "is_duplicate": "Int8", "kind": "str", "confidence": "float64",
    "comment": "str",
}  # fmt: skip
"""Columns of judgements before any is given."""
QUANTITIES = (
    "threshold_open", "steepness_open", "threshold", "steepness", "source_shift", "sigma_item",
    "share_further", "threshold_exact", "steepness_exact", "chosen", "chosen_slope",
    "sensitivity", "specificity", "naming", "log_odds_ratio", "log_odds_ratio_slope",
    "log_odds_ratio_open",
)  # fmt: skip
"""Parameters that a summary reports, in this order."""
GRID = np.linspace(0.0, 1.0, 101)
"""Cosines at which the curve is reported."""
HALF_GRID, HALF_DRAWS = np.linspace(0.0, 1.0, 201), 1000
"""Cosines and draws by which it is found where the curve crosses 0.5."""
_JUDGED = {
    "benchmark": "str", "item": "str", "source": "str", "document": "str", "chunk": "int64",
    "cosine": "float64", "best": "float64", "judge": "str", "is_duplicate": "int64", "kind": "str",
    "lead": "int64", "lead_cosine": "float64", "place": "float64",
}  # fmt: skip


class Curve(Stored):
    """Posterior of P(duplicate | cosine), with what is needed to judge and reuse it.

    Made by `fit_curve`, or read from a file with ``Curve.from_netcdf(path)``.

    Attributes
    ----------
    tree : xarray.DataTree
        Groups ``posterior`` (or draws from the prior, where nothing was judged),
        ``sample_stats``, ``curves`` (dims benchmark, cosine), ``predictive`` and
        ``record``.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.Curve.from_netcdf("no-such-file.nc")
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
        stored = json.loads(str(self.data["record"]["judged"].item()))
        return with_leads(pd.DataFrame(stored, columns=list(_JUDGED))).astype(_JUDGED)

    @cached_property
    def _separated(self) -> tuple[pd.DataFrame, Predictor | None]:
        return separated(self.judged) if self.record.get("predictor") else (self.judged, None)

    @property
    def outcomes(self) -> pd.DataFrame:
        """Judgements without those of a trained judge that is a predictor."""
        return self._separated[0]

    @property
    def predictor(self) -> Predictor | None:
        """The trained judge whose verdicts inform as a predictor, if there is one."""
        return self._separated[1]

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
        """Judges whose errors were estimated."""
        return tuple(self.record["judges"])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of duplicates that the curve is about; none: of any kind."""
        return tuple(self.record.get("kinds", ()))

    @property
    def validated(self) -> dict[str, tuple[int, ...]]:
        """Counts of held-out verdicts of judges that the fit was given, as of `fit_curve`."""
        return {name: tuple(of) for name, of in self.record.get("validated", {}).items()}

    def draws(self, most: int | None = None) -> CurveDraws:
        """Return draws of the curve, at most `most` of them, evenly spaced."""
        draws = take_curve(self.data["posterior"].to_dataset(), self.spec, self.kinds)
        return draws if most is None else draws[spaced(len(draws), most)]

    def judge_draws(self, most: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return draws of sensitivity and specificity, dims (draw, judge), as in `draws`."""
        return self._values("sensitivity", most, 0), self._values("specificity", most, 0)

    def further_draws(self, most: int | None = None) -> FloatArray:
        """Return draws of ``share_further``, dims (draw,); 1 where no such chunk was judged."""
        return self._values("share_further", most, 1)[:, 0]

    def naming_draws(self, most: int | None = None) -> FloatArray:
        """Return draws of P(the kind that is named is right), dims (draw, judge), as in `draws`.

        It is 1/2 for judges who name none.
        """
        named = self._values("naming", most, 0)
        names = list(self.record.get("namers", ()))
        result = np.full((len(self.draws(most)), len(self.judges)), 0.5)
        result[:, [self.judges.index(name) for name in names]] = named
        return result

    def _values(self, name: str, most: int | None, width: int) -> FloatArray:
        values = flat(self.data["posterior"].to_dataset(), name, width, 1.0)
        return values if most is None else values[spaced(len(values), most)]

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
            log-odds, ``source_shift`` in cosine; ``share_further``, ``sensitivity``,
            ``specificity`` and ``naming`` are probabilities. ``threshold_exact`` and
            ``steepness_exact`` are of the share of exact ones among duplicates; ``chosen``
            and ``chosen_slope`` are log-odds that one that is not exact is of a chosen
            kind, at a cosine of 0.7, and their change per unit of cosine.
        """
        return summarise_curve(self.data["posterior"].to_dataset(), level or self.level)


def fit_curve(
    scan: Scan | Path,
    judgements: Judgements | pd.DataFrame | Path | None = None,
    spec: CurveSpec | Path = "monotone",
    *,
    kinds: Sequence[str] = (),
    validated: Mapping[str, Sequence[int]] | None = None,
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
    kinds : sequence of str, default ()
        Kinds of duplicates that count, of "exact", "equivalent", "subset", "superset" and
        "related"; by default all. A duplicate whose kind no judge named is one of unknown kind.
    validated : mapping of str to four int, optional
        For judges whose names start with ``trained:``, what they judged of pairs of known truth
        from which they did not learn: true positives, false negatives, true negatives, false
        positives. Not used of a judge of whose pairs people or language models judged 20 or more
        as well: it is a predictor, see `build_curve`.
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
        Whether to show progress.
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
    >>> bayescontam.fit_curve("no-such-folder", "judgements.csv")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    spec = spec if isinstance(spec, CurveSpec) else load_curve(spec)
    kinds = check_kinds(kinds)
    cores = min(chains, usable_cores()) if cores is None else cores
    sampling = Sampling(engine, draws, tune, chains, cores, target_accept)
    seed = fresh_seed() if seed is None else check_seed(seed)
    check_level(level)
    scan = Scan.load(scan) if isinstance(scan, str | os.PathLike) else scan
    if judgements is None:
        judgements = Judgements(pd.DataFrame(columns=list(_GIVEN)).astype(_GIVEN), "no judgements")
    elif isinstance(judgements, pd.DataFrame):
        judgements = Judgements.from_frame(judgements)
    elif not isinstance(judgements, Judgements):
        judgements = read_judgements(judgements)
    judged = positions_in_scan(judgements, scan)
    best = scan.matches.groupby(["benchmark", "item"], observed=True)["cosine"].max()
    judged = judged.join(best.rename("best"), on=["benchmark", "item"])
    names = {
        "benchmarks": tuple(map(str, scan.items["benchmark"].unique())),
        "sources": tuple(dict.fromkeys(row["source"] for row in scan.record["strata"])),
        "embedder": scan.record.get("embedder"),
    }
    return fit_judged_curve(
        judged, names, spec, kinds=kinds, validated=validated, seed=seed, level=level,
        sampling=sampling, progress=progress, command=command,
    )  # fmt: skip


def fit_judged_curve(
    judged: pd.DataFrame,
    names: Mapping[str, Any],
    spec: CurveSpec,
    *,
    kinds: tuple[str, ...] = (),
    validated: Mapping[str, Sequence[int]] | None = None,
    seed: int,
    level: float = LEVEL,
    sampling: Sampling | None = None,
    thresholds: Thresholds | None = None,
    progress: bool = False,
    command: str = "",
) -> Curve:
    """Fit P(duplicate | cosine) to judgements, and judge the fit."""
    check_level(level)
    seed = check_seed(seed)
    sampling = sampling or Sampling(draws=1000, tune=TUNE, target_accept=TARGET_ACCEPT)
    thresholds = thresholds or Thresholds()
    outcomes, predictor = separated(judged, validated or {})
    verdicts = make_verdicts(
        outcomes, names["benchmarks"], names["sources"], kinds,
        None if predictor is None else predictor.informs,
    )  # fmt: skip
    of_predictor = [] if predictor is None else [predictor.judge]
    validated = check_validated(validated or {}, [*verdicts.judges, *of_predictor])
    unused = [name for name in of_predictor if name in validated]
    validated = {name: counts for name, counts in validated.items() if name not in unused}
    with stage(progress, "building the model"):
        built = build_curve(spec, verdicts, validated)
    groups = {}
    if len(verdicts):
        own = int(stream(seed, "curve").integers(2**31))
        posterior, groups["sample_stats"] = sample_model(built.model, sampling, own, progress)
    else:
        prior = pm.sample_prior_predictive(
            PRIOR_DRAWS, model=built.model, random_seed=stream(seed, "curve prior"),
            compile_kwargs={"mode": "FAST_COMPILE"},
        )  # fmt: skip
        posterior = prior["prior"].to_dataset()
    with stage(progress, "checking the curve"):
        checks = list(evidence_checks(verdicts, validated, predictor, unused))
        if len(verdicts):
            summary = summarise_curve(posterior, level)
            checks += sampling_checks(posterior, groups["sample_stats"], summary, thresholds)
            groups["predictive"] = replicate(posterior, built, seed)
            checks += predictive_checks(groups["predictive"], thresholds)
        lines = take_curve(posterior, spec, kinds)
        groups["curves"] = bands(lines, verdicts.benchmarks, level)
    groups["posterior"] = posterior.drop_vars("item_offset", errors="ignore").drop_dims(
        ["item", "pair", "verdict"], errors="ignore"
    )
    coords, named = verdicts.coords, ("benchmark", "source", "judge", "namer")
    labels = {name: coords[name] for name in named if name in coords}
    record = {
        "curve_format": FORMAT,
        "spec": {"name": spec.name, "hash": spec.hash, "content": spec.model_dump()},
        "benchmarks": list(verdicts.benchmarks),
        "sources": list(verdicts.sources),
        "judges": list(verdicts.judges),
        "predictor": None if predictor is None else predictor.judge,
        "kinds": list(kinds),
        "namers": labels.get("namer", []),
        "validated": {name: list(of) for name, of in validated.items()},
        "labels": unsafe_labels(labels),
        "pairs": len(verdicts),
        "seed": seed,
        "level": level,
        "sampling": asdict(sampling),
        "command": command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "checks": [check.to_dict() for check in checks],
        "versions": {name: importlib.metadata.version(name) for name in _VERSIONS},
        "embedder": names.get("embedder"),
    }
    groups["record"] = xr.Dataset(
        {"json": json.dumps(record, default=plain), "judged": _judged_text(judged)}
    )
    return Curve(xr.DataTree.from_dict(groups))


def summarise_curve(posterior: xr.Dataset, level: float) -> pd.DataFrame:
    """Summarise draws of a curve's parameters; see `Curve.summary`."""
    parts = []
    for name in QUANTITIES:
        if name not in posterior:
            continue
        values = posterior[name]
        cells = values.to_numpy().reshape(*values.shape[:2], -1)
        of = list(values[values.dims[2]].to_numpy()) if values.ndim > 2 else [""]
        figures = describe(cells.reshape(-1, cells.shape[2]), level) | convergence(cells)
        parts.append(pd.DataFrame({"of": of, "quantity": name} | figures))
    table = pd.concat(parts, ignore_index=True)
    order = ["mean", "sd", "ci_low", "ci_high", "ess_bulk", "ess_tail", "r_hat", "mcse_mean"]
    return table[["of", "quantity", *order]]


def bands(draws: CurveDraws, benchmarks: Sequence[str], level: float) -> xr.Dataset:
    """Return mean and band of P(duplicate | cosine) of a match of a random item.

    ``any`` is the mean for a duplicate of any kind, where only some count.
    """
    draws = draws[spaced(len(draws), 1000)]
    tails = (1 - level) / 2, (1 + level) / 2
    curves = np.stack([marginal(draws, GRID, b) for b in range(len(benchmarks))], axis=1)
    low, high = np.quantile(curves, tails, axis=0)
    dims = ("benchmark", "cosine")
    data = {"mean": (dims, curves.mean(0)), "low": (dims, low), "high": (dims, high)}
    if draws.kinds is not None and draws.kinds.split.partial:
        whole = replace(draws, kinds=None)
        means = [marginal(whole, GRID, b).mean(0) for b in range(len(benchmarks))]
        data["any"] = dims, np.stack(means)
    return xr.Dataset(data, {"cosine": GRID, "benchmark": list(benchmarks)})


def _judged_text(judged: pd.DataFrame) -> str:
    """Return the judgements as JSON, which unlike netCDF holds any name."""
    judgements = with_leads(judged.dropna(subset="is_duplicate")).reindex(columns=list(_JUDGED))
    return json.dumps(judgements.fillna({"kind": ""}).astype({"is_duplicate": int}).to_dict("list"))


def halves(curve: Curve) -> pd.DataFrame:
    """Return where each benchmark's curve is 0.5: ``benchmark, median, low, high, text``."""
    draws, tails = curve.draws(HALF_DRAWS), (1 - curve.level) / 2
    rows = []
    for number, name in enumerate(curve.benchmarks):
        # Infinite ends cannot be interpolated.
        low, median, high = np.quantile(
            half(draws, number), [tails, 0.5, 1 - tails], method="inverted_cdf"
        )
        text = half_text(median, low, high)
        rows.append({"benchmark": name, "median": median, "low": low, "high": high, "text": text})
    return pd.DataFrame(rows)


def half(draws: CurveDraws, benchmark: int) -> FloatArray:
    """Return for each draw the cosine in [0, 1] at which the curve crosses 0.5, (draw,)."""
    p = marginal(draws, HALF_GRID, benchmark)
    above = p >= 0.5
    after = above.argmax(axis=1)
    before, rows = np.maximum(after - 1, 0), np.arange(len(p))
    rise = np.where(after > 0, p[rows, after] - p[rows, before], 1.0)
    between = (0.5 - p[rows, before]) / rise
    crossing = HALF_GRID[before] + between * (HALF_GRID[1] - HALF_GRID[0])
    crossing = np.where(after == 0, -np.inf, crossing)
    result: FloatArray = np.where(above.any(axis=1), crossing, np.inf)
    return result


def half_text(median: float, low: float, high: float) -> str:
    """Return a cosine with its interval, of which each may lie outside [0, 1].

    >>> half_text(0.612, 0.55, float("inf"))
    '0.61 [0.55, none]'
    >>> half_text(float("inf"), 0.9, float("inf"))
    'none in [0, 1]'
    """
    if not np.isfinite(median):
        return "none in [0, 1]"
    ends = ", ".join(f"{x:.2f}" if np.isfinite(x) else "none" for x in (low, high))
    return f"{median:.2f} [{ends}]"
