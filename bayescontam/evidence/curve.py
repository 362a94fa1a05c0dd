"""The class `Curve`: P(duplicate | cosine), fitted and checked."""

import importlib.metadata
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from scipy.special import expit
from scipy.stats import norm

from bayescontam._progress import stage
from bayescontam._random import check_seed, fresh_seed, stream
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.judgements import Judgements, read_judgements
from bayescontam.data.responses import Path
from bayescontam.data.validation import check_level
from bayescontam.evidence.curve_model import (
    BuiltCurve,
    Verdicts,
    basis,
    build_curve,
    is_model,
    make_verdicts,
    seen,
    segments,
    with_leads,
)
from bayescontam.evidence.pairs import positions_in_scan
from bayescontam.inference.checks import Check, Outcome, Thresholds, sampling_checks
from bayescontam.inference.sampling import Engine, Sampling, sample_model
from bayescontam.inference.stored import Stored, unsafe_labels
from bayescontam.inference.summary import LEVEL, convergence, describe
from bayescontam.model.quadrature import normal_gauss_hermite
from bayescontam.parallel import usable_cores
from bayescontam.scan.results import Scan
from bayescontam.specs.curve import CurveSpec
from bayescontam.specs.registry import load_curve

REPLICATES = 500
BINS = 6
"""Most cosine bins of a benchmark."""
FEWEST = 20
"""Verdicts that make a bin."""
LEAST = 5
"""Verdicts of either kind that a cell must be expected to hold to be checked."""
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
    "share_further", "sensitivity", "specificity",
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


@dataclass(frozen=True, eq=False)
class CurveDraws:
    """Draws of a curve, chains joined; the same lines serve report and covariates."""

    threshold: FloatArray  # (draw, benchmark), as the next three
    steepness: FloatArray
    threshold_open: FloatArray
    steepness_open: FloatArray
    source_shift: FloatArray  # (draw, source)
    relative: FloatArray  # (draw, segment)
    sigma_item: FloatArray  # (draw, 1); zero where items have no effect
    edges: FloatArray  # ends of the segments
    crowding: float = 0.0  # by how much the log-odds fall with the log of a document's place

    def __len__(self) -> int:
        return len(self.threshold)

    def __getitem__(self, rows: Any) -> "CurveDraws":
        names = [field.name for field in fields(self) if field.name not in ("edges", "crowding")]
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def log_odds(
        self,
        cosine: FloatArray,
        benchmark: int,
        source: IntArray | int,
        place: FloatArray | float = 1.0,
    ) -> FloatArray:
        """Return the log-odds of a duplicate for an open item without effect, (draw, match).

        Benchmark and source are positions, -1 a source of no shift; the nearest document of an
        item has the place 1.
        """
        shift = np.concatenate([self.source_shift, np.zeros((len(self), 1))], axis=1)
        middle = self.threshold[:, [benchmark]] + shift[:, np.atleast_1d(source)]
        level = self.steepness[:, [benchmark]] * self._rise(cosine, middle)
        return level - self.crowding * np.log(place)

    def log_odds_open(self, best: FloatArray, benchmark: int) -> FloatArray:
        """Return the log-odds that items are open, (draw, item), by the cosines of best matches."""
        middle = self.threshold_open[:, [benchmark]]
        return self.steepness_open[:, [benchmark]] * self._rise(best, middle)

    def _rise(self, cosine: FloatArray, middle: FloatArray) -> FloatArray:
        start = np.einsum("smk,sk->sm", basis(middle, self.edges), self.relative)
        rise: FloatArray = (
            self.relative @ basis(np.asarray(cosine, dtype=float), self.edges).T - start
        )
        return rise


def _flat(posterior: xr.Dataset, name: str, width: int = 1, default: float = 0.0) -> FloatArray:
    """Return draws of a parameter, chains joined, dims (draw, …); a constant if it has none."""
    if name not in posterior:
        return np.full((posterior.sizes["chain"] * posterior.sizes["draw"], width), default)
    values = posterior[name].to_numpy()
    return values.reshape(values.shape[0] * values.shape[1], -1)


def take_curve(posterior: xr.Dataset, spec: CurveSpec) -> CurveDraws:
    """Return the draws of a posterior (or prior) group, chains joined."""
    edges = segments(spec)
    names = "threshold", "steepness", "threshold_open", "steepness_open", "source_shift"
    return CurveDraws(
        **{name: _flat(posterior, name) for name in (*names, "sigma_item")},
        relative=_flat(posterior, "relative", len(edges) - 1, 1.0),
        edges=edges,
        crowding=spec.shape.crowding,
    )


def marginal(draws: CurveDraws, cosine: FloatArray, benchmark: int, source: int = -1) -> FloatArray:
    """Return P(duplicate | cosine) of the best match of a random item, dims (draw, cosine)."""
    of_open = marginal_of_open(draws, cosine, benchmark, source)
    return of_open * expit(draws.log_odds_open(cosine, benchmark))


def marginal_of_open(
    draws: CurveDraws, cosine: FloatArray, benchmark: int, source: int = -1
) -> FloatArray:
    """Return P(duplicate | cosine) of the nearest document of an open item, dims (draw, cosine)."""
    nodes, weights = normal_gauss_hermite(31)
    level = draws.log_odds(cosine, benchmark, source)
    total = np.zeros_like(level)
    for node, weight in zip(nodes, weights, strict=True):
        total += weight * expit(level + draws.sigma_item * node)
    return total


def evidence_checks(verdicts: Verdicts) -> Iterator[Check]:
    """Check what the judgements can show at all."""
    pairs = len(verdicts)
    if not pairs:
        yield Check(
            "Judgements", Outcome.CAUTION, 0, "> 0",
            "Nothing was judged: the curve is the prior, made for no embedder in particular."
            " Judge some pairs: bayescontam judge export.",
        )  # fmt: skip
        return
    by_model = np.array([is_model(judge) for judge in verdicts.judges])[verdicts.judge]
    both = len(np.intersect1d(verdicts.pair[by_model], verdicts.pair[~by_model]))
    if by_model.any() and not both:
        yield Check(
            "Judges", Outcome.CAUTION, 0, "> 0",
            "No pair was judged by a person and a language model: the model's errors are as the"
            " prior says. Let people judge some of its pairs: bayescontam judge export.",
        )  # fmt: skip
    elif by_model.any():
        yield Check(
            "Judges", Outcome.PASSED, both, "> 0",
            f"{both:,} pairs were judged by people and by a language model.",
        )  # fmt: skip
    if bare := len(verdicts.benchmarks) - len(np.unique(verdicts.benchmark)):
        yield Check(
            "Benchmarks", Outcome.CAUTION, bare, "0",
            f"{bare} benchmarks without judgements have the curve that the others and the"
            " prior give them.",
        )  # fmt: skip


def bins(verdicts: Verdicts) -> IntArray:
    """Return the cell of each verdict: benchmark × bin of about equally many cosines."""
    cell = np.zeros(len(verdicts.called), dtype=np.int64)
    benchmark, cosine = verdicts.benchmark[verdicts.pair], verdicts.cosine[verdicts.pair]
    for b in range(len(verdicts.benchmarks)):
        rows = benchmark == b
        if not rows.any():
            continue
        count = max(1, min(BINS, int(rows.sum()) // FEWEST))
        edges = np.unique(np.quantile(cosine[rows], np.linspace(0, 1, count + 1)[1:-1]))
        cell[rows] = b * BINS + np.searchsorted(edges, cosine[rows], side="right")
    return cell


def replicate(posterior: xr.Dataset, built: BuiltCurve, seed: int) -> xr.Dataset:
    """Replicate the judgements from posterior draws and return shares of groups, dims (cell,)."""
    verdicts, rng = built.verdicts, stream(seed, "curve predictive")
    draws = take_curve(posterior, built.spec)
    rows = np.linspace(0, len(draws) - 1, min(REPLICATES, len(draws))).astype(int)
    draws = draws[rows]
    hit, clear = (_flat(posterior, name)[rows] for name in ("sensitivity", "specificity"))
    level, open_ = (np.empty((len(rows), n)) for n in (len(verdicts), len(verdicts.items)))
    for b in range(len(verdicts.benchmarks)):
        own = verdicts.benchmark == b
        level[:, own] = draws.log_odds(
            verdicts.cosine[own], b, verdicts.source[own], verdicts.place[own]
        )
        own = verdicts.benchmark_of_item == b
        open_[:, own] = draws.log_odds_open(verdicts.best[own], b)
    # Effects of items are drawn anew: with their own, fitted to the verdicts that they are
    # checked against, no check could fail.
    effect = rng.standard_normal(open_.shape) * draws.sigma_item
    opened = rng.random(open_.shape) < expit(open_)
    true = rng.random(level.shape) < expit(level + effect[:, verdicts.item])
    true &= opened[:, verdicts.item]
    hit, clear = hit[:, verdicts.judge], clear[:, verdicts.judge]
    share = _flat(posterior, "share_further", default=1.0)[rows]
    hit = seen(hit, clear, share, verdicts.further)
    p = np.where(true[:, verdicts.pair], hit, 1 - clear)
    called = rng.random(p.shape) < p
    cells, place, count = np.unique(bins(verdicts), return_inverse=True, return_counts=True)

    def shares(values: np.ndarray) -> FloatArray:
        return np.stack([np.bincount(place, row, len(cells)) for row in values]) / count

    data = {
        "benchmark_of_cell": ("cell", cells // BINS),
        "cosine": ("cell", shares(verdicts.cosine[verdicts.pair][None])[0]),
        "count": ("cell", count),
        "share": ("cell", shares(verdicts.called[None])[0]),
        "share_replicated": (("replicate", "cell"), shares(called)),
    }
    return xr.Dataset(data)


def predictive_checks(predictive: xr.Dataset, limits: Thresholds) -> Iterator[Check]:
    """Check shares called duplicates by a Normal approximation, with Bonferroni's correction."""
    observed = predictive["share"].to_numpy()
    replicated = predictive["share_replicated"].to_numpy()
    center, spread = replicated.mean(axis=0), replicated.std(axis=0)
    # Cells with fewer expected verdicts of either kind are too small for the approximation.
    large = predictive["count"].to_numpy() * np.minimum(center, 1 - center) >= LEAST
    z = np.where(large, np.abs(observed - center) / np.where(large, spread, 1.0), 0.0)
    worst, p = int(z.argmax()), min(1.0, 2 * float(norm.sf(z.max())) * max(int(large.sum()), 1))
    good = p >= limits.predictive
    yield Check(
        "Judgements by cosine",
        Outcome.PASSED if good else Outcome.FAILED,
        p,
        f"p ≥ {limits.predictive:g}",
        "The curve gives such shares of duplicates as were found in every range of cosines."
        if good
        else f"At cosines near {float(predictive['cosine'][worst]):.2f} a share of"
        f" {observed[worst]:.2f} was called a duplicate, the curve expects {center[worst]:.2f}:"
        " add knots there, or widen the prior of sigma_shape.",
    )


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

    def draws(self, most: int | None = None) -> CurveDraws:
        """Return draws of the curve, at most `most` of them, evenly spaced."""
        draws = take_curve(self.data["posterior"].to_dataset(), self.spec)
        return draws if most is None else draws[_spaced(len(draws), most)]

    def judge_draws(self, most: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Return draws of sensitivity and specificity, dims (draw, judge), as in `draws`."""
        return self._values("sensitivity", most, 0), self._values("specificity", most, 0)

    def further_draws(self, most: int | None = None) -> FloatArray:
        """Return draws of ``share_further``, dims (draw,); 1 where no such chunk was judged."""
        return self._values("share_further", most, 1)[:, 0]

    def _values(self, name: str, most: int | None, width: int) -> FloatArray:
        values = _flat(self.data["posterior"].to_dataset(), name, width, 1.0)
        return values if most is None else values[_spaced(len(values), most)]

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
        return summarise_curve(self.data["posterior"].to_dataset(), level or self.level)


def fit_curve(
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
    >>> bayescontam.fit_curve("no-such-folder", "judgements.csv")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    spec = spec if isinstance(spec, CurveSpec) else load_curve(spec)
    cores = min(chains, usable_cores()) if cores is None else cores
    sampling = Sampling(engine, draws, tune, chains, cores, target_accept)
    seed = fresh_seed() if seed is None else seed
    check_level(level)
    check_seed(seed)
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
        judged, names, spec, seed=seed, level=level, sampling=sampling, progress=progress,
        command=command,
    )  # fmt: skip


def fit_judged_curve(
    judged: pd.DataFrame,
    names: Mapping[str, Any],
    spec: CurveSpec,
    *,
    seed: int,
    level: float = LEVEL,
    sampling: Sampling | None = None,
    thresholds: Thresholds | None = None,
    progress: bool = False,
    command: str = "",
) -> Curve:
    """Fit P(duplicate | cosine) to judgements, and judge the fit."""
    check_level(level)
    check_seed(seed)
    sampling = sampling or Sampling(draws=1000, tune=TUNE, target_accept=TARGET_ACCEPT)
    thresholds = thresholds or Thresholds()
    verdicts = make_verdicts(judged, names["benchmarks"], names["sources"])
    with stage(progress, "building the model"):
        built = build_curve(spec, verdicts)
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
        checks = list(evidence_checks(verdicts))
        if len(verdicts):
            summary = summarise_curve(posterior, level)
            checks += sampling_checks(posterior, groups["sample_stats"], summary, thresholds)
            groups["predictive"] = replicate(posterior, built, seed)
            checks += predictive_checks(groups["predictive"], thresholds)
        groups["curves"] = _bands(take_curve(posterior, spec), verdicts, level)
    groups["posterior"] = posterior.drop_vars("item_offset", errors="ignore").drop_dims(
        ["item", "pair", "verdict"], errors="ignore"
    )
    labels = {name: verdicts.coords[name] for name in ("benchmark", "source", "judge")}
    record = {
        "curve_format": FORMAT,
        "spec": {"name": spec.name, "hash": spec.hash, "content": spec.model_dump()},
        "benchmarks": list(verdicts.benchmarks),
        "sources": list(verdicts.sources),
        "judges": list(verdicts.judges),
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
    groups["record"] = xr.Dataset({"json": json.dumps(record), "judged": _judged_text(judged)})
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


def _bands(draws: CurveDraws, verdicts: Verdicts, level: float) -> xr.Dataset:
    """Return mean and band of P(duplicate | cosine) of a match of a random item."""
    draws = draws[_spaced(len(draws), 1000)]
    tails = (1 - level) / 2, (1 + level) / 2
    curves = np.stack([marginal(draws, GRID, b) for b in range(len(verdicts.benchmarks))], axis=1)
    low, high = np.quantile(curves, tails, axis=0)
    dims = ("benchmark", "cosine")
    data = {"mean": (dims, curves.mean(0)), "low": (dims, low), "high": (dims, high)}
    return xr.Dataset(data, {"cosine": GRID, "benchmark": list(verdicts.benchmarks)})


def _judged_text(judged: pd.DataFrame) -> str:
    """Return the judgements as JSON, which unlike netCDF holds any name."""
    judgements = with_leads(judged.dropna(subset="is_duplicate")).reindex(columns=list(_JUDGED))
    return json.dumps(judgements.fillna({"kind": ""}).astype({"is_duplicate": int}).to_dict("list"))


def _spaced(count: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))


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
