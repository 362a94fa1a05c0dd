"""Matched: the matches of every item of a scan as arrays, with what judges said of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam.evidence.verdicts import Floats, Integers, first_runs
from bayescontam.judgements import PAIR
from bayescontam.scan.kernels import BINS, bins_of

if TYPE_CHECKING:
    from bayescontam.evidence.duplicates import Curve
    from bayescontam.scan.results import Scan

KINDS = ("exact", "equivalent", "subset", "superset", "related")
"""Kinds that a duplicate can be of."""
_KEYS = ["benchmark", "item"]
_PAIR = list(PAIR)
_BIN = 0.01


@dataclass(frozen=True, eq=False)
class Matched:
    """The matches of one item: those told one by one, and the rest in bins.

    Attributes
    ----------
    benchmark : int
        Position of the benchmark.
    listed : int
        Number of best matches; they come first, best first. Judged matches of the tail
        sample follow.
    cosine, source : array
        Of each match told one by one.
    copies : array
        Occurrences of its text in each source, dims (match, source).
    best : float
        Cosine of the best match.
    judged : array of bool
        Which of these were judged.
    called : array
        Log likelihood of the verdicts of judged matches if they are duplicates, and if not;
        dims (2, draw, judged match).
    kind : array of int
        Position in `KINDS` of the kind that most judges gave; -1 where none.
    rest_cosine, rest_source, rest_count : array
        Occurrences of all other chunks in bins of cosine and source.
    """

    benchmark: int
    listed: int
    cosine: Floats
    source: Integers
    copies: Integers
    best: float
    judged: np.ndarray
    called: Floats
    kind: Integers
    rest_cosine: Floats
    rest_source: Integers
    rest_count: Floats


class Matches:
    """The matches of a scan, item by item.

    Parameters
    ----------
    scan : Scan
    curve : Curve
    floor : float
        Cosine below which matches are left out that were not judged.
    draws : int
        Draws of the curve; as many of judges' errors are taken.
    """

    def __init__(self, scan: "Scan", curve: "Curve", floor: float, draws: int) -> None:
        self.benchmarks, self.sources = curve.benchmarks, curve.sources
        self._items = scan.items[_KEYS]
        self._floor = floor
        self.verdicts = _by_pair(curve)
        """Judged pairs with ``duplicate`` and ``other`` (position in likelihoods) and kind."""
        matches = self._told(scan)
        self._groups = matches.groupby(_KEYS, sort=False, observed=True).indices
        self._matches = matches
        self._copies = _copies(matches, scan.strata, self.sources)
        self._likelihoods = _likelihoods(curve, self.verdicts, draws)
        self._histogram = self._coarse(scan.histogram)
        self._shares = _source_shares(self._coarse(scan.strata), self.benchmarks, self.sources)

    def _told(self, scan: "Scan") -> pd.DataFrame:
        """Return best matches and judged ones of the tail, with the positions of verdicts."""
        columns = [*_PAIR, "cosine", "copies"]
        best = scan.matches.sort_values("rank", kind="stable")[columns].assign(listed=True)
        tail = scan.tail[columns].assign(listed=False)
        told = pd.concat([best, tail], ignore_index=True).drop_duplicates(_PAIR)
        told = told.merge(self.verdicts, on=_PAIR, how="left", validate="one_to_one")
        # What was judged counts, whatever its cosine.
        counted = told["listed"] & (told["cosine"] >= self._floor)
        told = told[counted | told["verdict"].notna()].reset_index(drop=True)
        told["source"] = pd.Index(self.sources).get_indexer(pd.Index(told["source"]))
        return told.fillna({"verdict": -1, "kind": -1}).astype({"verdict": int, "kind": int})

    def _coarse(self, counts: pd.DataFrame) -> pd.DataFrame:
        """Return cosine counts at or above the floor, with the position of a coarse bin."""
        # Lower edges are multiples of 0.001, up to rounding.
        steps = np.round(counts["cosine"].to_numpy() * 1000).astype(int)
        kept = counts.assign(bin=steps // 10)[steps >= round(self._floor * 1000)]
        return kept[kept["count"] > 0]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Matched]:
        codes = {name: position for position, name in enumerate(self.benchmarks)}
        bins = self._histogram.groupby(_KEYS, sort=False, observed=True).indices
        for key in self._items.itertuples(index=False, name=None):
            at = np.asarray(self._groups.get(key, []), dtype=np.int64)
            counts = self._histogram.iloc[bins.get(key, [])]
            yield self._item(codes[key[0]], at, counts)

    def _item(self, benchmark: int, at: Integers, counts: pd.DataFrame) -> Matched:
        rows, copies = self._matches.iloc[at], self._copies[at]
        judged = rows["verdict"].to_numpy() >= 0
        called = self._likelihoods[:, :, rows["verdict"].to_numpy()[judged]]
        return Matched(
            benchmark,
            int(rows["listed"].sum()),
            rows["cosine"].to_numpy(float),
            rows["source"].to_numpy(np.int64),
            copies,
            float(rows["cosine"].max()) if len(rows) else 0.0,
            judged,
            called,
            rows["kind"].to_numpy(np.int64),
            *self._rest(benchmark, rows, counts),
        )

    def _rest(
        self, benchmark: int, rows: pd.DataFrame, counts: pd.DataFrame
    ) -> tuple[Floats, Integers, Floats]:
        """Return occurrences that are not told one by one, by bin and source."""
        top = 101
        all_ = np.bincount(counts["bin"].clip(0, top - 1), counts["count"], minlength=top)
        place = (_steps(rows["cosine"].to_numpy(np.float32)) // 10).clip(0, top - 1)
        told = np.bincount(place, rows["copies"], minlength=top)
        rest = np.maximum(all_ - told, 0.0)[:, None] * self._shares[self.benchmarks[benchmark]]
        at, source = np.nonzero(rest > 0)
        return (at + 0.5) * _BIN, source, rest[at, source]


def _steps(cosines: NDArray[np.float32]) -> Integers:
    """Return the steps of 0.001 that cosines are in, as the scan counts them."""
    return bins_of(cosines).astype(np.int64) - BINS // 2


def _copies(matches: pd.DataFrame, strata: pd.DataFrame, sources: tuple[str, ...]) -> Integers:
    """Share the copies of each match over sources, dims (match, source).

    A scan says where a text stands first and how often in all. Further copies are shared as
    the benchmark's cosines of the same step of 0.001 are: near a cosine of 1 these are
    hardly any others.
    """
    copies = np.zeros((len(matches), len(sources)), dtype=np.int64)
    own = matches["source"].to_numpy()
    several = np.flatnonzero((matches["copies"] > 1) & (len(sources) > 1))
    if len(several):
        steps = np.round(strata["cosine"].to_numpy() * 1000).astype(int)
        counts = strata.assign(step=steps).pivot_table(
            index=["benchmark", "step"], columns="source", values="count", aggfunc="sum"
        )
        counts = counts.reindex(columns=list(sources)).fillna(0.0)
        chosen = matches.iloc[several]
        steps = _steps(chosen["cosine"].to_numpy(np.float32))
        keys = pd.MultiIndex.from_arrays([chosen["benchmark"].to_numpy(), steps])
        weight = counts.reindex(keys).fillna(0.0).to_numpy()
        total = np.maximum(weight.sum(axis=1, keepdims=True), 1.0)
        further = chosen["copies"].to_numpy()[:, None] - 1
        copies[several] = np.floor(further * weight / total + 0.5)
        copies[several, own[several]] = 0
    copies[np.arange(len(matches)), own] = np.maximum(matches["copies"] - copies.sum(axis=1), 1)
    return copies


def _by_pair(curve: "Curve") -> pd.DataFrame:
    """Return judged pairs: their keys, ``verdict`` (number) and ``kind`` (position).

    The kind is -1 where most judges say that the pair is no duplicate, or give none.
    """
    kept = first_runs(curve.judged)
    positions = {name: position for position, name in enumerate(KINDS)}
    said = kept.assign(code=kept["kind"].where(kept["is_duplicate"] == 1).map(positions))
    grouped = said.groupby(_PAIR, sort=False, observed=True)
    modes = grouped["code"].agg(lambda codes: codes.mode().iloc[0] if codes.notna().any() else -1)
    modes = modes.where(grouped["is_duplicate"].mean() > 0.5, -1)
    pairs = modes.rename("kind").astype("int64").reset_index()
    return pairs.assign(verdict=np.arange(len(pairs)))


def _likelihoods(curve: "Curve", pairs: pd.DataFrame, draws: int) -> Floats:
    """Return log likelihoods of the verdicts of each pair, dims (2, draw, pair)."""
    kept = first_runs(curve.judged).merge(pairs[[*_PAIR, "verdict"]], on=_PAIR)
    judge = pd.Index(curve.judges).get_indexer(pd.Index(kept["judge"]))
    called = kept["is_duplicate"].to_numpy(int) == 1
    hit, clear = (values[:, judge] for values in curve.judge_draws(draws))
    result = np.zeros((2, len(hit), len(pairs)))
    place = kept["verdict"].to_numpy()
    for row, p in zip(result, (hit, 1 - clear), strict=True):
        # Off 0: judges drawn as infallible may yet contradict each other.
        likely = np.clip(np.where(called, p, 1 - p), 1e-12, 1.0)
        np.add.at(row.T, place, np.log(likely).T)
    return result


def _source_shares(
    counts: pd.DataFrame, benchmarks: tuple[str, ...], sources: tuple[str, ...]
) -> dict[str, Floats]:
    """Return for each benchmark how cosines of a bin are shared over sources, (bin, source)."""
    shares = {}
    for name in benchmarks:
        part = counts[counts["benchmark"] == name]
        source = pd.Index(sources).get_indexer(pd.Index(part["source"]))
        total = np.zeros((101, len(sources)))
        np.add.at(total, (part["bin"].clip(0, 100), source), part["count"])
        sums = total.sum(axis=1, keepdims=True)
        shares[name] = np.divide(total, sums, out=np.zeros_like(total), where=sums > 0)
    return shares
