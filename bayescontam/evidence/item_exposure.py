"""What the matches of one item amount to: duplicates, for each draw of a curve."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.special import expit, log_expit

from bayescontam._types import FloatArray, IntArray
from bayescontam.evidence.curve_draws import CurveDraws
from bayescontam.evidence.curve_model import effects
from bayescontam.evidence.item_matches import BIN, Matched


def _drawn_counts(item: Matched, draws: int, rng: np.random.Generator | None) -> FloatArray:
    """Return the occurrences of each bin of unlisted matches, dims (draw or 1, bin).

    Where they are estimated from a sample they are drawn.
    """
    counts = item.rest_count[None, :]
    if rng is None or item.rest_sample is None or not counts.size:
        return counts
    at = (item.rest_cosine / BIN).astype(np.int64)
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
