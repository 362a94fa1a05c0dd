"""The texts that a scan drew at random from an item's highest cosines: what are duplicates."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.data.judgements import PAIR
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.item_exposure import ItemExposure
from bayescontam.evidence.item_matches import Columns, Matches, columns_of, taken
from bayescontam.evidence.kinds import opinions
from bayescontam.evidence.pairs import of_these_texts, scan_pairs
from bayescontam.evidence.verdicts import UNIT, first_runs
from bayescontam.scan.results import Scan

_KEYS = ["benchmark", "item"]
_PAIR = list(PAIR)
_PARTS = ("item", "source", "sampled", "copies", "size", "searched")


@dataclass(frozen=True, eq=False)
class Tail:
    """Tail samples of all items, each in parts: one, or one for each source of a scan by source."""

    none: FloatArray  # P(no duplicate among an item's sampled texts), dims (draw, item)
    # dims (part,): position of the item; source ("" where all were searched at once); texts in the
    # sample, each once, and their occurrences; occurrences of texts in the tail, and in all
    item: IntArray
    source: NDArray[np.object_]
    sampled: IntArray
    copies: IntArray
    size: IntArray
    searched: IntArray
    # draws of the duplicates among sampled texts, each once, and their occurrences, (draw, part)
    number: IntArray
    occurrences: IntArray

    def of(self, chosen: BoolArray) -> "Tail":
        """Return the samples of some of the items, of a mask over all."""
        own = chosen[self.item]
        parts = {name: getattr(self, name)[own] for name in _PARTS}
        parts["item"] = (np.cumsum(chosen) - 1)[parts["item"]]
        draws = {name: getattr(self, name)[:, own] for name in ("number", "occurrences")}
        return replace(self, none=self.none[:, chosen], **draws, **parts)


class TailSamples:
    """Weighs the tail samples of a scan's items, one item after the other."""

    def __init__(
        self, scan: Scan, curve: Curve, matches: Matches, *, floor: float, draws: int
    ) -> None:
        self._lines, self._matches, self._floor = curve.draws(draws), matches, floor
        self._items = list(scan.items[_KEYS].itertuples(index=False, name=None))
        self._lists = np.array(curve.sources if scan.by_source else ("",), dtype=object)
        self._by_source = scan.by_source
        self._share_further = curve.further_draws(draws)
        pairs = scan_pairs(scan).drop_duplicates(_PAIR)
        tail = scan.tail.drop_duplicates(_PAIR)
        rows = tail[_PAIR].merge(pairs, on=_PAIR).merge(matches.verdicts, on=UNIT, how="left")
        judged = opinions(of_these_texts(first_runs(curve.outcomes), pairs), curve.kinds)
        judged = judged.assign(pair=judged.groupby(_PAIR, observed=True, sort=False).ngroup())
        self._called = _called(curve, judged, draws)
        numbers = judged[[*_PAIR, "pair"]].drop_duplicates(_PAIR)
        rows = rows.merge(numbers, on=_PAIR, how="left").fillna({"pair": -1, "verdict": -1})
        rows = rows.astype({"pair": int, "verdict": int})
        if matches.predictor is not None:
            rows = matches.predictor.joined(rows)
        keys = pd.MultiIndex.from_frame(rows[UNIT])
        self._rows = columns_of(rows.assign(document=pd.factorize(keys)[0]))
        self._groups = rows.groupby(_KEYS, sort=False, observed=True).indices
        of_list = [*_KEYS, "source"] if scan.by_source else _KEYS
        sizes = tail.drop_duplicates(of_list).reindex(columns=[*of_list, "tail_matches"])
        searched = scan.histogram.groupby(of_list, sort=False, observed=True)["count"].sum()
        self._sizes = sizes.set_index(of_list)["tail_matches"].to_dict()
        self._searched = searched.to_dict()

    def weigh(self, place: int, exposure: ItemExposure, rng: np.random.Generator) -> Tail:
        """Return the sample of the item at a place."""
        key = self._items[place]
        rows = taken(self._rows, self._groups.get(key, []))
        document = pd.factorize(rows["document"])[0].astype(np.int64)
        first = np.unique(document, return_index=True)[1]
        within = self._within(rows)  # P(a text is a duplicate, if its document holds one)
        p = self._probability(key[0], taken(rows, first), exposure)
        # A document counts once, however many of its texts were drawn.
        missed = np.ones((len(within), len(first)))
        np.multiply.at(missed.T, document, 1 - within.T)
        with np.errstate(divide="ignore"):  # a sure duplicate leaves no chance of none
            log_none = np.log1p(-p * (1 - missed)[:, None, :]).sum(axis=-1)
        node, open_ = exposure.draw_effect(rng)
        holds = rng.random(missed.shape) < p[np.arange(len(p)), node]
        true = holds[:, document] & (rng.random(within.shape) < within) & open_
        copies = rows["copies"].astype(np.int64)
        lists = [(*key, name) for name in self._lists] if self._by_source else [key]
        own = np.ones((1, len(copies)), dtype=np.int64)
        if self._by_source:
            own = (rows["source"] == self._lists[:, None]).astype(np.int64)
        return Tail(
            none=(exposure.closed + (exposure.weight * np.exp(log_none)).sum(axis=1))[:, None],
            item=np.full(len(lists), place),
            source=self._lists,
            sampled=own.sum(axis=1),
            copies=own @ copies,
            size=np.array([self._sizes.get(name, 0) for name in lists], np.int64),
            searched=np.array([self._searched.get(name, 0) for name in lists], np.int64),
            number=true.astype(np.int64) @ own.T,
            occurrences=(true * copies) @ own.T,
        )

    def _within(self, rows: Columns) -> FloatArray:
        """Return P(text is a duplicate | its document is one, verdicts), dims (draw, text)."""
        pair = rows["pair"]
        share = np.repeat(self._share_further[:, None], len(pair), axis=1)
        known = pair >= 0
        duplicate, other = self._called[:, :, pair[known]]
        odds = share[:, known] * duplicate
        share[:, known] = odds / (odds + (1 - share[:, known]) * other)
        share[:, rows["chunk"] == rows["lead"]] = 1.0
        return share

    def _probability(
        self, benchmark: str, documents: Columns, exposure: ItemExposure
    ) -> FloatArray:
        """Return P(document holds a duplicate that counts | effect, verdicts).

        Dims (draw, node, document).
        """
        cosine = documents["lead_cosine"].astype(float)
        source = pd.Index(self._matches.sources).get_indexer(pd.Index(documents["source"]))
        level = self._lines.log_odds(
            cosine,
            self._matches.benchmarks.index(benchmark),
            source,
            documents["place"].astype(float),
        )
        level = level[:, None, :] + exposure.effect[:, :, None]
        if "sign" in documents:
            reported = (documents[name].astype(float) for name in ("sign", "share"))
            level = exposure.informed(level, cosine, *reported)
        verdict = documents["verdict"]
        known = verdict >= 0
        duplicate, other = self._matches.likelihoods[:, :, verdict[known]]
        level[..., known] += (duplicate - other)[:, None, :]
        # As of other matches, what was judged counts, whatever its cosine.
        level[..., ~known & (cosine < self._floor)] = -np.inf
        p = expit(level)
        if self._matches.counted_share is None:
            return p
        share = np.array(self._lines.counted(cosine, self._matches.benchmarks.index(benchmark)))
        share[:, known] = self._matches.counted_share[:, verdict[known]]
        return p * share[:, None, :]


def join_tails(tails: list[Tail]) -> Tail:
    """Return the samples of several items as one."""
    draws = ("none", "number", "occurrences")
    return Tail(
        **{name: np.concatenate([getattr(tail, name) for tail in tails]) for name in _PARTS},
        **{name: np.concatenate([getattr(tail, name) for tail in tails], axis=1) for name in draws},
    )


def _called(curve: Curve, judged: pd.DataFrame, draws: int) -> FloatArray:
    """Return likelihoods of the verdicts on a text if it is a duplicate, and if not.

    Dims (2, draw, pair), of the numbers in the column ``pair``.
    """
    judge = pd.Index(curve.judges).get_indexer(pd.Index(judged["judge"]))
    called = judged["is_duplicate"].to_numpy(int) == 1
    hit, clear = (values[:, judge] for values in curve.judge_draws(draws))
    pair = judged["pair"].to_numpy(np.int64)
    result = np.zeros((2, len(curve.further_draws(draws)), pair.max(initial=-1) + 1))
    for row, p in zip(result, (hit, 1 - clear), strict=True):
        # Off 0: judges drawn as infallible may yet contradict each other.
        np.add.at(row.T, pair, np.log(np.clip(np.where(called, p, 1 - p), 1e-12, 1.0)).T)
    likely: FloatArray = np.exp(result)
    return likely
