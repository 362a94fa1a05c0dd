"""Duplicates among an item's matches, for each draw of a curve, and in what was not scanned.

A document counts once for an item, at the cosine of its nearest chunk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, gammaln, log_expit, logsumexp
from scipy.stats import beta, norm, t

from bayescontam._types import FloatArray, IntArray
from bayescontam.data.judgements import PAIR
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.curve_draws import CurveDraws
from bayescontam.evidence.curve_model import effects
from bayescontam.evidence.judged_documents import by_document, likelihoods
from bayescontam.evidence.pairs import LEAD, of_these_texts, scan_pairs
from bayescontam.evidence.sampled_counts import SampledCounts
from bayescontam.evidence.verdicts import UNIT, first_runs
from bayescontam.scan.results import Scan
from bayescontam.scan.sketch import BINS, bins_of

_KEYS = ["benchmark", "item"]
_PAIR = list(PAIR)
_BIN = 0.01
MEAN = (1.5, 1.5)
"""Prior of the log of the mean number of duplicates of a susceptible item: location and scale
of a Student's t of 4 degrees of freedom."""
SHAPE = (0.0, 1.0)
"""Prior of the log of the negative binomial's shape: Normal."""
OPEN = (2.0, 1.0)
"""Prior of the share of susceptible items: Beta. In three of four benchmarks of a published
audit 50 to 100 % of the items had duplicates (Spiesberger et al. 2026)."""


@dataclass(frozen=True, eq=False)
class Matched:
    """The documents that match one item: some one by one, and the rest in bins."""

    benchmark: int  # position of the benchmark
    # number of documents with a chunk among the best matches; they come first, best first. Judged
    # documents of the tail sample follow.
    listed: int
    # cosine, source: of each single document: of its chunk nearest to the item
    cosine: FloatArray
    source: IntArray
    copies: IntArray  # occurrences of that chunk's text in each source, dims (match, source)
    best: float  # cosine of the best match
    judged: np.ndarray  # which of these were judged
    # log likelihood of the verdicts of judged matches if they are duplicates, and if not; dims (2,
    # draw, judged match)
    called: FloatArray
    kind: IntArray  # position in `KINDS` of the kind that most judges gave; -1 where none
    place: FloatArray  # place of each document among those of the item, the nearest being the first
    # rest_cosine, rest_source, rest_count: occurrences of all chunks that are not listed, in bins
    # of cosine and source; each counts as a document of its own
    rest_cosine: FloatArray
    rest_source: IntArray
    rest_count: FloatArray
    rest_place: FloatArray  # place of those in the middle of the bin
    # what `rest_count` is the mean of, by bin, where a sample of chunks (a search by an index) and
    # not a count stands behind it
    rest_sample: SampledCounts | None = None
    # how many of those listed are the nearest of the whole corpus, one after the other: not all
    # where each source has a list of its own
    ranked: int | None = None
    # what a trained judge reported of each match, and how often it does: see `Predictor.joined`
    sign: FloatArray | None = None
    share: FloatArray | None = None
    # share of duplicates that count, given the kinds that were named of judged matches, (draw,
    # judged match); none where all duplicates count
    counted: FloatArray | None = None


class Matches:
    """The matches of a scan, item by item."""

    def __init__(self, scan: Scan, curve: Curve, floor: float, draws: int) -> None:
        self.benchmarks, self.sources = curve.benchmarks, curve.sources
        self._items = scan.items[_KEYS]
        self._floor = floor
        pairs = scan_pairs(scan).drop_duplicates(_PAIR)
        self.predictor = curve.predictor
        judged = of_these_texts(first_runs(curve.outcomes), pairs)
        # The nearest chunk of a document is that which this scan knows.
        known = judged[_PAIR].merge(pairs[[*_PAIR, *LEAD]], on=_PAIR, how="left")["lead"]
        lead = known.fillna(judged["lead"].reset_index(drop=True)).to_numpy(np.int64)
        judged = judged.assign(lead=lead)
        self.verdicts = by_document(judged, curve.kinds)
        """Judged documents: `UNIT`, ``verdict`` (position in likelihoods) and ``kind``."""
        matches = self._single(pairs)
        self._groups = matches.groupby(_KEYS, sort=False, observed=True).indices
        self._matches = matches
        shared = matches.assign(copies=1) if scan.by_source else matches
        self._copies = _copies(shared, scan.strata, self.sources)
        if scan.by_source:  # each is counted in the list of its own source
            self._copies *= matches["copies"].to_numpy()[:, None]
        self.likelihoods, self.counted_share = likelihoods(curve, judged, self.verdicts, draws)
        """Log likelihoods of the verdicts on each of these, if it is a duplicate, and if not; and
        what share of duplicates counts (None: all)."""
        self._further = self._counted(pairs, matches)
        searched = scan.record.get("search") or {}
        self._weight = int(searched.get("index", {}).get("weight", 1))
        self._histogram = self._coarse(_with_found(scan.histogram))
        self._missed = self._mean_missed() if self._weight > 1 else 0.0
        self._by_source = scan.by_source
        self._shares = _source_shares(self._coarse(scan.strata), self.benchmarks, self.sources)
        self._ends = _ends(scan)

    def _single(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return listed documents and judged ones of the tail, with the positions of verdicts."""
        nearest = pairs[pairs["chunk"] == pairs["lead"]]
        order = ["listed", "cosine"]
        nearest = nearest.sort_values(order, ascending=False, kind="stable")
        documents = nearest[[*UNIT, "chunk", "cosine", "copies", "listed", "place"]]
        documents = documents.merge(self.verdicts, on=UNIT, how="left", validate="one_to_one")
        if self.predictor is not None:
            known = documents.assign(lead_cosine=documents["cosine"].astype(float))
            documents = self.predictor.joined(known).drop(columns="lead_cosine")
        # What was judged counts, whatever its cosine.
        counted = documents["listed"] & (documents["cosine"] >= self._floor)
        documents = documents[counted | documents["verdict"].notna()].reset_index(drop=True)
        documents["source"] = pd.Index(self.sources).get_indexer(pd.Index(documents["source"]))
        return documents.fillna({"verdict": -1, "kind": -1}).astype({"verdict": int, "kind": int})

    def _counted(self, pairs: pd.DataFrame, documents: pd.DataFrame) -> dict[Any, pd.DataFrame]:
        """Return the pairs of each item that the rest leaves out: documents and their chunks."""
        sources = np.array(self.sources, dtype=object)[documents["source"]]
        known = documents[UNIT].assign(source=sources)
        counted = pairs[pairs["cosine"] >= self._floor].merge(known, on=UNIT)
        own = counted["listed"] | (counted["chunk"] == counted["lead"])
        return dict(iter(counted[own].groupby(_KEYS, sort=False, observed=True)))

    def _coarse(self, counts: pd.DataFrame) -> pd.DataFrame:
        """Return cosine counts at or above the floor, with the position of a coarse bin."""
        # Lower edges are multiples of 0.001, up to rounding.
        steps = np.round(counts["cosine"].to_numpy() * 1000).astype(int)
        above = counts.assign(bin=steps // 10)[steps >= round(self._floor * 1000)]
        return above[above["count"] > 0]

    def _mean_missed(self) -> float:
        """Return how many chunks an index misses of an item, among those that it was to find."""
        steps = (self._histogram["cosine"] * 1000).round()
        above = self._histogram["estimated"][steps > self._histogram["found"]]
        # Half a sampled one more, as none of few items says that hardly any are missed.
        return float(above.sum() + self._weight / 2) / max(1, len(self._items))

    def __len__(self) -> int:
        return len(self._items)

    def listed(self, item: tuple[str, str]) -> pd.DataFrame:
        """Return `PAIR` of the listed documents of an item, in the order of `Matched`."""
        rows = self._matches.iloc[self._groups.get(item, [])]
        rows = rows[rows["listed"]]
        return rows[_PAIR].assign(source=[self.sources[place] for place in rows["source"]])

    def __iter__(self) -> Iterator[Matched]:
        codes = {name: position for position, name in enumerate(self.benchmarks)}
        bins = self._histogram.groupby(_KEYS, sort=False, observed=True).indices
        for key in self._items.itertuples(index=False, name=None):
            at = np.asarray(self._groups.get(key, []), dtype=np.int64)
            counts = self._histogram.iloc[bins.get(key, [])]
            yield self._item(codes[key[0]], at, self._further.get(key), counts)

    def _item(
        self, benchmark: int, at: IntArray, counted: pd.DataFrame | None, counts: pd.DataFrame
    ) -> Matched:
        rows, copies = self._matches.iloc[at], self._copies[at]
        judged = rows["verdict"].to_numpy() >= 0
        verdicts = rows["verdict"].to_numpy()[judged]
        called, share = self.likelihoods[:, :, verdicts], self.counted_share
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
            rows["place"].to_numpy(float),
            *self._rest(benchmark, rows if counted is None else counted, counts),
            self._ranked(rows),
            rows["sign"].to_numpy(float) if "sign" in rows else None,
            rows["share"].to_numpy(float) if "share" in rows else None,
            None if share is None else share[:, verdicts],
        )

    def _ranked(self, rows: pd.DataFrame) -> int | None:
        """Return how many of an item's documents precede all that are not listed."""
        if not self._by_source or rows.empty:
            return None
        end = self._ends.get((rows["benchmark"].iloc[0], rows["item"].iloc[0]), -1.0)
        return int((rows["listed"] & (rows["cosine"] >= end)).sum())

    def _rest(
        self, benchmark: int, rows: pd.DataFrame, counts: pd.DataFrame
    ) -> tuple[FloatArray, IntArray, FloatArray, FloatArray, SampledCounts | None]:
        """Return occurrences outside the listed documents: by bin and source, place, sample."""
        top = 101
        place = (_steps(rows["cosine"].to_numpy(np.float32)) // 10).clip(0, top - 1)
        nearest = (rows["chunk"] == rows["lead"]).to_numpy()
        sample = None
        if self._by_source:
            rest = self._left_by_source(rows, place, counts)
            left: FloatArray = rest.sum(axis=1)
        else:
            if self._weight > 1:
                sample = self._sampled(counts, rows, place, top)
                left = sample.mean
            else:
                all_ = np.bincount(counts["bin"].clip(0, top - 1), counts["count"], minlength=top)
                left = np.maximum(all_ - np.bincount(place, rows["copies"], minlength=top), 0.0)
            rest = left[:, None] * self._shares[self.benchmarks[benchmark]]
        # Before those in the middle of a bin: all above, and half of the bin.
        documents = left + np.bincount(place[nearest], minlength=top)
        before = documents[::-1].cumsum()[::-1] - left / 2
        at, source = np.nonzero(rest > 0)
        return (at + 0.5) * _BIN, source, rest[at, source], np.maximum(before[at], 1.0), sample

    def _sampled(
        self, counts: pd.DataFrame, rows: pd.DataFrame, place: IntArray, top: int
    ) -> SampledCounts:
        """Return the counts of an item, of which a part was sampled, without those of `rows`."""
        copies = rows["copies"].to_numpy(float)
        # Judged texts of the tail are among the sampled, with a part of their copies.
        sampled = np.clip(np.round(copies / self._weight), 1, copies)
        listed = np.bincount(place, np.where(rows["listed"], copies, sampled), minlength=top)
        steps = np.round(counts["cosine"].to_numpy() * 1000).astype(np.int64)
        found = SampledCounts.of(
            steps.clip(0, 10 * len(listed) - 1),
            counts["count"].to_numpy(float),
            counts["estimated"].to_numpy(float),
            found=int(counts["found"].max()) if len(counts) else -BINS,
            lowest=max(0, round(self._floor * 1000)),
            missed=self._missed,
            weight=self._weight,
            bins=len(listed),
        )
        return replace(found, fixed=np.maximum(found.fixed - listed, 0.0))

    def _left_by_source(
        self, rows: pd.DataFrame, place: IntArray, counts: pd.DataFrame
    ) -> FloatArray:
        """Return the occurrences that are not listed, each source's own, dims (bin, source)."""
        names = pd.Index(self.sources)
        known, total = np.zeros((101, len(names))), np.zeros((101, len(names)))
        of_row = pd.Index(rows["source"])
        if not pd.api.types.is_integer_dtype(of_row):  # else positions already
            of_row = pd.Index(names.get_indexer(of_row))
        np.add.at(known, (place, of_row.to_numpy()), rows["copies"].to_numpy())
        own = names.get_indexer(pd.Index(counts["source"]))
        np.add.at(total, (counts["bin"].clip(0, 100).to_numpy(), own), counts["count"].to_numpy())
        left: FloatArray = np.maximum(total - known, 0.0)
        return left


def _with_found(histogram: pd.DataFrame) -> pd.DataFrame:
    """Return a histogram with the step down to which all chunks of an item were found."""
    if "estimated" not in histogram:
        return histogram
    counted = histogram[histogram["count"] > histogram["estimated"]]
    lowest = counted.groupby(_KEYS, sort=False, observed=True)["cosine"].min() * 1000
    steps = lowest.round().astype(np.int64).rename("found")
    return histogram.merge(steps, left_on=_KEYS, right_index=True, how="left")


def _ends(scan: Scan) -> dict[tuple[str, str], float]:
    """Return for each item the cosine above which no source has matches that are not listed."""
    if not scan.by_source:
        return {}
    of_list = scan.matches.groupby([*_KEYS, "source"], sort=False, observed=True)["cosine"]
    ends = of_list.min()[of_list.size() >= scan.record["search"]["top_k"]]
    highest: dict[tuple[str, str], float] = ends.groupby(_KEYS).max().to_dict()
    return highest


def _steps(cosines: NDArray[np.float32]) -> IntArray:
    """Return the steps of 0.001 that cosines are in, as the scan counts them."""
    return bins_of(cosines).astype(np.int64) - BINS // 2


def _copies(matches: pd.DataFrame, strata: pd.DataFrame, sources: tuple[str, ...]) -> IntArray:
    """Share the copies of each document over sources, dims (match, source).

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


def _source_shares(
    counts: pd.DataFrame, benchmarks: tuple[str, ...], sources: tuple[str, ...]
) -> dict[str, FloatArray]:
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


def _drawn_counts(item: Matched, draws: int, rng: np.random.Generator | None) -> FloatArray:
    """Return the occurrences of each bin of unlisted matches, dims (draw or 1, bin).

    Where they are estimated from a sample they are drawn.
    """
    counts = item.rest_count[None, :]
    if rng is None or item.rest_sample is None or not counts.size:
        return counts
    at = (item.rest_cosine / _BIN).astype(np.int64)
    drawn: FloatArray = item.rest_sample.drawn(draws, rng)[:, at] / item.rest_sample.mean[at]
    return counts * drawn


class ItemExposure:
    """What the matches of one item amount to, for every draw of the curve.

    They are independent given whether the item is open and given its effect, which are summed
    over: some items have no duplicates however many texts are near them, and one duplicate makes
    another likelier.
    """

    def __init__(
        self, draws: CurveDraws, item: Matched, rng: np.random.Generator | None = None
    ) -> None:
        self._draws, self._item = draws, item
        self._counts = _drawn_counts(item, len(draws), rng)
        effect, log_weight = effects(int(item.judged.sum()))
        self.effect = draws.sigma_item * effect
        """Effects of the item that are summed over, in log-odds, dims (draw, node)."""
        level = draws.log_odds(item.cosine, item.benchmark, item.source, item.place)
        open_ = draws.log_odds_open(np.array([item.best]), item.benchmark)
        odds: FloatArray = level[:, None, :] + self.effect[:, :, None]
        self._nearest: tuple[float, FloatArray] | None = None
        if item.sign is not None and item.share is not None and len(item.cosine):
            at = [int(item.cosine.argmax())]
            open_, share = draws.informed_open(open_, item.sign[at], item.share[at])
            self._nearest = float(item.sign[at[0]]), share
            odds = self.informed(odds, item.cosine, item.sign, item.share)
        duplicate, other = item.called
        judged = odds[:, :, item.judged]
        joint = np.logaddexp(
            log_expit(judged) + duplicate[:, None], log_expit(-judged) + other[:, None]
        )
        closed = log_expit(-open_) + other.sum(axis=-1, keepdims=True)
        log_all = np.hstack([log_expit(open_) + log_weight + joint.sum(axis=-1), closed])
        weight = np.exp(log_all - log_all.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        self.weight, self.closed = weight[:, :-1], weight[:, -1]
        """Posterior of the item's effect, dims (draw, node), if open; and of not being so."""
        odds[:, :, item.judged] += (duplicate - other)[:, None]
        self._odds = odds
        self._share = self._shares()

    def _shares(self) -> FloatArray | None:
        """Return what share of listed matches that are duplicates counts, (draw, 1, match)."""
        item = self._item
        if item.counted is None:
            return None
        share = np.array(self._draws.counted(item.cosine, item.benchmark))
        share[:, item.judged] = item.counted
        return share[:, None]

    def _log_none(self) -> FloatArray:
        """Return log P(no duplicate that counts) of listed matches, dims (draw, node, match)."""
        if self._share is None:
            return log_expit(-self._odds)
        with np.errstate(divide="ignore"):  # a sure duplicate leaves no chance of none
            none: FloatArray = np.log1p(-self.probability)
        return none

    @cached_property
    def probability(self) -> FloatArray:
        """P(duplicate that counts) of listed matches given effect and verdicts.

        Dims (draw, node, match).
        """
        return expit(self._odds) if self._share is None else self._share * expit(self._odds)

    @cached_property
    def rest_rate(self) -> FloatArray:
        """Expected duplicates in each bin of unlisted matches, dims (draw, node, bin)."""
        item = self._item
        chance = self.chance(item.rest_cosine, item.rest_source, item.rest_place)
        counts = self._counts * self._draws.counted(item.rest_cosine, item.benchmark)
        return counts[:, None, :] * chance

    def chance(self, cosine: FloatArray, source: IntArray, place: FloatArray) -> FloatArray:
        """Return P(any duplicate) of documents without verdicts given effect.

        Dims (draw, node, match).
        """
        return expit(self.log_odds(cosine, source, place))

    def log_odds(self, cosine: FloatArray, source: IntArray, place: FloatArray) -> FloatArray:
        """Return the log-odds of documents without verdicts given effect, (draw, node, match)."""
        level = self._draws.log_odds(cosine, self._item.benchmark, source, place)
        odds: FloatArray = level[:, None, :] + self.effect[:, :, None]
        return odds

    def informed(
        self, odds: FloatArray, cosine: FloatArray, sign: FloatArray, share: FloatArray
    ) -> FloatArray:
        """Return log-odds of documents given what a trained judge reported, if it is a predictor.

        Dims (draw, node, match); sign and share are those of `Predictor.joined`.
        """
        if self._nearest is None:
            return odds
        reported, of_open = self._nearest
        nearest = (cosine >= self._item.best) & (sign == reported)
        return self._draws.informed(
            odds, cosine, sign, np.where(nearest, of_open[:, :, None], share)
        )

    def none(
        self, listed: np.ndarray, rest: np.ndarray, thin: FloatArray | None = None
    ) -> FloatArray:
        """Return the probability that no match is a duplicate, dims (draw,)."""
        if thin is None:
            log_none = self._log_none()[..., listed].sum(axis=-1)
            log_none = log_none - self.rest_rate[..., rest].sum(axis=-1)
        else:
            share = thin[:, None, :-1][..., listed]
            with np.errstate(divide="ignore"):  # a sure duplicate leaves no chance of none
                log_none = np.log1p(-share * self.probability[..., listed]).sum(axis=-1)
            log_none -= thin[:, None, -1] * self.rest_rate[..., rest].sum(axis=-1)
        return self.closed + (self.weight * np.exp(log_none)).sum(axis=1)

    def none_among_first(self, ranks: Sequence[int]) -> FloatArray:
        """Return the probability that none of the first matches is a duplicate, (draw, rank)."""
        item = self._item
        ranked = item.listed if item.ranked is None else item.ranked
        if not ranked:
            return np.ones((len(self._draws), len(ranks)))
        summed = np.cumsum(self._log_none()[..., :ranked], axis=-1)
        last = np.minimum(np.asarray(ranks), ranked) - 1
        none = np.einsum("sh,shk->sk", self.weight, np.exp(summed[..., last]))
        return self.closed[:, None] + none

    def expected(self, source: int) -> FloatArray:
        """Return the expected number of duplicates in a source, copies counted, (draw,)."""
        item = self._item
        count = self.probability @ item.copies[:, source].astype(float)
        count = count + self.rest_rate[..., item.rest_source == source].sum(axis=-1)
        return (self.weight * count).sum(axis=1)

    def expected_rest(self) -> FloatArray:
        """Return the expected number of duplicates that are not listed one by one, (draw,)."""
        rest: FloatArray = (self.weight * self.rest_rate.sum(axis=-1)).sum(axis=1)
        return rest

    def draw_effect(self, rng: np.random.Generator) -> tuple[IntArray, np.ndarray]:
        """Draw the position of the item's effect, (draw,), and whether it is open, (draw, 1)."""
        node = (self.weight.cumsum(axis=1) < rng.random((len(self.weight), 1))).sum(axis=1)
        last = self.weight.shape[1] - 1
        return np.minimum(node, last), (node <= last)[:, None]

    def drawn(self, n_sources: int, rng: np.random.Generator) -> IntArray:
        """Draw the number of duplicates in each source, copies counted, (draw, source)."""
        item, rows = self._item, np.arange(len(self._draws))
        node, opened = self.draw_effect(rng)
        true = rng.random((len(rows), len(item.cosine))) < self.probability[rows, node]
        rest = rng.poisson(self.rest_rate[rows, node]) * opened
        true = true & opened
        counts = [
            true.astype(np.int64) @ item.copies[:, s] + rest[:, item.rest_source == s].sum(axis=1)
            for s in range(n_sources)
        ]
        return np.stack(counts, axis=1)


@dataclass(frozen=True, eq=False)
class Occurrence:
    """Draws of how duplicates are spread over the items of a benchmark.

    The number of duplicates of an item in the whole corpus is zero with probability
    ``1 - open`` and otherwise negative binomial; each duplicate is in the sample with
    probability `share`, so that the number in the sample is of the same family.

    Lambert (1992), doi:10.2307/1269547, on counts with extra zeros.
    """

    # mean, shape, open: dims (draw,): mean and shape of the negative binomial, and the probability
    # that an item may have duplicates
    mean: FloatArray
    shape: FloatArray
    open: FloatArray
    share: float  # share of the corpus that was scanned, in [0, 1]

    def none(self, share: float = 1.0, thin: FloatArray | float = 1.0) -> FloatArray:
        """Return the probability that a share of the corpus holds no duplicate, (draw,)."""
        empty = (1 + share * thin * self.mean / self.shape) ** -self.shape
        return 1 - self.open + self.open * empty

    def remainder(self, thin: FloatArray | float = 1.0) -> FloatArray:
        """Return P(none in the whole corpus | none in the sample), dims (draw,)."""
        return self.none(1.0, thin) / self.none(self.share, thin)

    @property
    def _still(self) -> FloatArray:
        """P(susceptible | none in the sample), dims (draw,)."""
        empty = (1 + self.share * self.mean / self.shape) ** -self.shape
        return self.open * empty / (1 - self.open + self.open * empty)

    def total(self, counts: FloatArray) -> FloatArray:
        """Return the expected number in the whole corpus given the number in the sample."""
        rate = (1 - self.share) / (self.shape / self.mean + self.share)
        susceptible = np.where(counts > 0, 1.0, self._still[:, None])
        return counts + susceptible * rate[:, None] * (self.shape[:, None] + counts)

    def draw_rest(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw the number in what was not scanned given the number in the sample."""
        susceptible = (counts > 0) | (rng.random(counts.shape) < self._still[:, None])
        # Gamma rates are conjugate: the rest is Poisson at the rate that the sample leaves.
        rate = rng.gamma(self.shape[:, None] + counts)
        rate *= ((1 - self.share) / (self.shape / self.mean + self.share))[:, None]
        return rng.poisson(np.minimum(rate, 1e15)) * susceptible


def draw_occurrence(counts: IntArray, share: float, rng: np.random.Generator) -> Occurrence:
    """Draw from the posterior of how duplicates are spread, given the numbers in a sample.

    On a grid of mean, shape and share of susceptible items, and at random in its cells. The
    priors are, on the log scale, Student's t (median 4.5 duplicates, 0.07 to 290 with
    probability 0.95) and Normal around 1, and Beta(2, 1).
    """
    most = counts.sum(axis=1).max(initial=0) / max(counts.shape[1], 1)
    # The grid reaches beyond the largest mean that the counts allow; without a sample it is the
    # prior's.
    largest = np.log(max(most / share if share else 0.0, 1.0)) + 3
    low, high = MEAN[0] - 3 * MEAN[1], max(MEAN[0] + 3 * MEAN[1], largest)
    log_mean = np.linspace(low, high, int((high - low) / 0.12) + 1)
    log_shape = np.linspace(SHAPE[0] - 2.5 * SHAPE[1], SHAPE[0] + 2.5 * SHAPE[1], 16)
    edges = beta.ppf(np.linspace(0, 1, 21), *OPEN)
    points = np.meshgrid(log_mean, log_shape, (edges[:-1] + edges[1:]) / 2, indexing="ij")
    means, shapes, open_ = (axis.ravel() for axis in points)
    # Tails as of Student's t: corpora with thousands of copies of an item are rare, but are.
    log_prior = t.logpdf(means, 4, *MEAN) + norm.logpdf(shapes, *SHAPE)
    log_prior = log_prior - logsumexp(log_prior)
    mean, shape = np.exp(means), np.exp(shapes)
    values, place = np.unique(_rounded(counts), return_inverse=True)
    # Without a sample all counts are 0, whatever the spread.
    log_pmf = _log_pmf(values, share * mean, shape, open_) if share else np.zeros((len(mean), 1))
    tally = np.zeros((len(counts), len(values)))
    np.add.at(tally, (np.arange(len(counts))[:, None], place.reshape(counts.shape)), 1.0)
    log_posterior = tally[:, : log_pmf.shape[1]] @ log_pmf.T + log_prior
    # Adding Gumbel noise and taking the largest draws from a categorical distribution.
    chosen = (log_posterior + rng.gumbel(size=log_posterior.shape)).argmax(axis=1)
    # In cells, not at points: many items would leave one point, and certainty that nobody has.
    u = rng.random((3, len(chosen)))
    cell = np.searchsorted(edges, open_[chosen]) - 1
    return Occurrence(
        mean[chosen] * np.exp((log_mean[1] - log_mean[0]) * (u[0] - 0.5)),
        shape[chosen] * np.exp((log_shape[1] - log_shape[0]) * (u[1] - 0.5)),
        edges[cell] + u[2] * (edges[cell + 1] - edges[cell]),
        share,
    )


def _rounded(counts: IntArray) -> FloatArray:
    """Return counts, from 200 on to two digits: finer ones inform no more on a spread."""
    size = 10.0 ** np.floor(np.log10(np.maximum(counts, 1)) - 1)
    return np.where(counts < 200, counts, np.round(counts / size) * size)


def _log_pmf(n: FloatArray, mean: FloatArray, shape: FloatArray, open_: FloatArray) -> FloatArray:
    """Return the log probability of counts at grid points, dims (point, count)."""
    mean, shape = mean[:, None], shape[:, None]
    log_nb = (
        gammaln(n + shape) - gammaln(shape) - gammaln(n + 1)
        + shape * np.log(shape / (shape + mean)) + n * np.log(mean / (shape + mean))
    )  # fmt: skip
    log_nb = log_nb + np.log(open_)[:, None]
    # Extra zeros belong to the count 0, which need not be among the counts.
    return np.where(n == 0, np.logaddexp(log_nb, np.log1p(-open_)[:, None]), log_nb)
