"""The part of a corpus without probable duplicates, by a curve of P(duplicate | cosine)."""

import os
import pathlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import expit

from bayescontam._text import join_list, printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.judgements import PAIR
from bayescontam.data.responses import Path
from bayescontam.errors import UsageError
from bayescontam.evidence.covariates import refuse_other_scan
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.curve_draws import marginal_of_open
from bayescontam.evidence.kinds import opinions
from bayescontam.evidence.pairs import of_these_texts, scan_pairs
from bayescontam.evidence.verdicts import first_runs
from bayescontam.scan.clean import (
    CleanCorpus,
    Limits,
    check_place,
    check_sources,
    write_clean_corpus,
)
from bayescontam.scan.execution import Execution
from bayescontam.scan.results import Scan
from bayescontam.scan.run import corpus_of
from bayescontam.specs.registry import load_manifest

DRAWS = 400
"""Draws of the curve of which P is the mean."""
COSINES = np.linspace(-1.0, 1.0, 2001)
"""Cosines at which P is computed; between them it is linear."""
_KEYS = ["benchmark", "item"]


def check_limit(above: float | None, curve: object, above_cosine: float | None) -> None:
    """Raise a `UsageError` where not exactly one limit is given, or one that cannot be used."""
    if (above is None) == (above_cosine is None):
        raise UsageError(
            "--write-clean: needs a limit: give --above P with the --curve of judged matches, or"
            " --above-cosine C, and not both"
        )
    if above_cosine is not None and not -1 <= above_cosine <= 1:
        raise UsageError(f"--above-cosine: got {above_cosine:g}; allowed is a cosine, -1 to 1")
    if above is not None and not 0 < above <= 1:
        raise UsageError(
            f"--above: got {above:g}; allowed is a probability above 0 and at most 1 (for a cosine:"
            " --above-cosine)"
        )
    if above is not None and curve is None:
        raise UsageError(
            "--above: a probability needs a curve of P(duplicate | cosine): judge matches of this"
            " scan, fit one (bayescontam curve), and give it as --curve; without judgements give"
            " --above-cosine C"
        )
    if above is None and curve is not None:
        raise UsageError("--curve: is for --above P; leave it out, or give P")


def write_clean(
    scan: Scan | Path,
    out: Path,
    *,
    above: float | None = None,
    curve: Curve | Path | None = None,
    above_cosine: float | None = None,
    base: Path | None = None,
    engine: Literal["local", "ray"] = "local",
    jobs: int | None = None,
    address: str | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    replace: bool = False,
    progress: bool = False,
    command: str = "",
) -> CleanCorpus:
    """Write the part of a scanned corpus that holds no probable duplicates of items.

    A document is dropped if any of its chunks reaches the limit with any item, wherever else
    the chunk's text stands. All others are copied as they are.

    Parameters
    ----------
    scan : Scan or path-like
        A finished scan of files, of which all documents were scanned.
    out : path-like
        Folder for the result, which must not exist yet: ``files`` with the corpus, ``clean.json``
        and ``dropped.parquet``. What an interrupted call left beside it is used.
    above : float, optional
        Probability of being a duplicate from which a document is dropped, in (0, 1].
    curve : Curve or path-like, optional
        Needed with `above`: from `fit_curve`, for this scan.
    above_cosine : float, optional
        In place of both: cosine from which a document is dropped, in [-1, 1].
    base : path-like, optional
        Folder that relative paths of the manifest start at. Default: as in the scan.
    engine, jobs, address, device
        Where the work is done, as in `run_scan`.
    replace : bool, default False
        Whether a clean corpus of other limits in `out` may be replaced.
    progress : bool, default False
        Whether to show progress bars.
    command : str, optional
        What the user ran, for the record.

    Returns
    -------
    CleanCorpus

    Raises
    ------
    DataError, FitError
        If there is no finished scan or no curve, or the scan's chunks are not found again.
    UsageError
        If the limit cannot be used, the corpus cannot be copied or has changed since the scan,
        the curve is of another scan, or `out` holds something else or lies in the corpus.

    Notes
    -----
    P is the posterior mean of the curve for a document of that cosine, as if it were the nearest
    to the item, and given the cosine of the item's best match. It rises with the cosine, so
    that each item has a lowest cosine at which P reaches `above`. Documents that most judges
    called duplicates are dropped at any cosine; other verdicts do not count one by one.

    Cosines are compared with a limit that is lower by what rounding may change, 1e-5 in fp32: a
    scan of the result finds no match at or above the limit.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.write_clean("no-such-folder", "clean", above_cosine=0.85)
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    check_limit(above, curve, above_cosine)
    opened = Scan.load(scan) if isinstance(scan, str | os.PathLike) else scan
    manifest = load_manifest(opened.folder / "manifest.toml")
    start = pathlib.Path(opened.record.get("base", ".") if base is None else base)
    check_sources(manifest)
    check_place(pathlib.Path(out), opened.folder, manifest, start)
    if curve is None:
        limits = _by_cosine(opened, float(above_cosine or 0))
    else:
        fitted = curve if isinstance(curve, Curve) else Curve.from_netcdf(curve)
        limits = limits_of(opened, fitted, float(above or 0))
    return write_clean_corpus(
        opened,
        corpus_of(opened, start),
        limits,
        pathlib.Path(out),
        Execution(engine, jobs, address, device, progress),
        replace=replace,
        command=command,
    )


def _by_cosine(scan: Scan, cosine: float) -> Limits:
    """Return one cosine as the limit of all items."""
    sources = _sources(scan)
    shape = len(scan.items), len(sources)
    return Limits(sources, np.full(shape, cosine), {"above_cosine": cosine})


def _sources(scan: Scan) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row["source"] for row in scan.record["strata"]))


@dataclass(frozen=True, eq=False)
class ItemCurves:
    """P(duplicate | cosine) of the documents of each item of a scan, given its best match."""

    opened: FloatArray  # P(item is open), dims (item, draw)
    benchmark: IntArray  # position of each item's benchmark in the curve
    # P(duplicate | cosine) of the nearest document of an open item, by position of the benchmark
    # and name of the source, dims (draw, cosine)
    of_open: dict[tuple[int, str], FloatArray]

    @classmethod
    def of(cls, scan: Scan, curve: Curve) -> "ItemCurves":
        """Return those of a scan's items by a curve that covers them."""
        draws = curve.draws(DRAWS)
        best = scan.matches.groupby(_KEYS, observed=True)["cosine"].max()
        cosines = best.reindex(pd.MultiIndex.from_frame(scan.items[_KEYS])).to_numpy(float)
        benchmark = pd.Index(curve.benchmarks).get_indexer(pd.Index(scan.items["benchmark"]))
        opened = np.empty((len(benchmark), len(draws)))
        of_open = {}
        for b in np.unique(benchmark).tolist():
            own = benchmark == b
            opened[own] = expit(draws.log_odds_open(cosines[own], b)).T
            for name in _sources(scan):
                place = curve.sources.index(name)
                of_open[b, name] = marginal_of_open(draws, COSINES, b, place)
        return cls(opened, benchmark.astype(np.int64), of_open)

    def mean(self, items: IntArray, source: str) -> FloatArray:
        """Return the posterior mean of items of one benchmark, dims (item, cosine)."""
        of_open = self.of_open[int(self.benchmark[items[0]]), source]
        mean: FloatArray = self.opened[items] @ of_open / len(of_open)
        return mean

    def limits(self, above: float, source: str) -> FloatArray:
        """Return the lowest cosine at which P reaches a probability, infinity if none does."""
        found = np.empty(len(self.benchmark))
        for b in np.unique(self.benchmark):
            own = np.flatnonzero(self.benchmark == b)
            for item, p in zip(own, self.mean(own, source), strict=True):
                found[item] = np.interp(above, p, COSINES) if p[-1] >= above else np.inf
        return found

    def chance(self, rows: pd.DataFrame) -> FloatArray:
        """Return P of documents by ``query`` (number of the item), ``source``, ``cosine``."""
        p = np.empty(len(rows))
        cosines = rows["cosine"].to_numpy(float)
        groups: Any = rows.groupby(["query", "source"]).indices
        for (query, source), own in groups.items():
            [mean] = self.mean(np.array([query]), source)
            p[own] = np.interp(cosines[own], COSINES, mean)
        return p


def limits_of(scan: Scan, curve: Curve, above: float) -> Limits:
    """Return the cosine of each item at which the curve reaches a probability."""
    refuse_other_scan(scan, curve)
    if curve.kinds:
        raise UsageError(
            f"curve: is about duplicates of the kind {join_list(curve.kinds)} only, and a clean"
            " corpus leaves out those of any kind: fit a curve without --kind"
        )
    curves, sources = ItemCurves.of(scan, curve), _sources(scan)
    for (b, source), of_open in curves.of_open.items():
        # Of an item that has a copy word for word.
        opened = expit(curve.draws(DRAWS).log_odds_open(np.ones(1), b))[:, 0]
        most = float((opened * of_open[:, -1]).mean())
        if most < above:
            raise UsageError(
                f"--above: got {above:g}, and the curve of benchmark"
                f" '{printable(curve.benchmarks[b], 60)}' in source '{printable(source, 60)}' is"
                f" {most:.4g} at a cosine of 1: copies word for word would stay; give less, or"
                " --above-cosine"
            )
    about = {
        "above": above,
        "curve": {name: curve.record.get(name) for name in ("created", "seed", "pairs", "command")},
    }
    cosines = np.stack([curves.limits(above, source) for source in sources], axis=1)
    return Limits(sources, cosines, about, _judged(scan, curve), curves.chance)


def _judged(scan: Scan, curve: Curve) -> pd.DataFrame:
    """Return the texts that most judges of a pair called duplicates; see `Limits.judged`."""
    pairs = scan_pairs(scan)
    judged = opinions(of_these_texts(first_runs(curve.outcomes), pairs), ())
    share = judged.groupby(list(PAIR), observed=True)["is_duplicate"].mean()
    called = share[share > 0.5].reset_index()[list(PAIR)]
    found = pairs.merge(called, on=list(PAIR))
    items = pd.MultiIndex.from_frame(scan.items[_KEYS])
    query = items.get_indexer(pd.MultiIndex.from_frame(found[_KEYS]))
    return found[["chunk_id", "source", "cosine", "copies"]].assign(query=query)
