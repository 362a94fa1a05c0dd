"""Exposure: what the scanned part of a corpus holds for each item, over draws of the curve."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.special import expit, log_expit

from bayescontam._types import FloatArray, IntArray
from bayescontam.evidence.curve import effects
from bayescontam.evidence.curve_draws import CurveDraws
from bayescontam.evidence.matched import Matched


class ItemExposure:
    """What the matches of one item amount to, for every draw of the curve.

    The matches of an item are independent given whether it is open and given its effect,
    which are summed over after the item's own verdicts have spoken. This takes the place of
    independence of all matches: some items have no duplicates at all however many texts are
    near them, and that one text is a duplicate makes it likelier of another.
    """

    def __init__(self, draws: CurveDraws, item: Matched) -> None:
        self._draws, self._item = draws, item
        effect, log_weight = effects(int(item.judged.sum()))
        self._effect = draws.sigma_item * effect
        level = draws.log_odds(item.cosine, item.benchmark, item.source, item.place)
        odds = level[:, None, :] + self._effect[:, :, None]
        duplicate, other = item.called
        judged = odds[:, :, item.judged]
        joint = np.logaddexp(
            log_expit(judged) + duplicate[:, None], log_expit(-judged) + other[:, None]
        )
        open_ = draws.log_odds_open(np.array([item.best]), item.benchmark)
        closed = log_expit(-open_) + other.sum(axis=-1, keepdims=True)
        log_all = np.hstack([log_expit(open_) + log_weight + joint.sum(axis=-1), closed])
        weight = np.exp(log_all - log_all.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        self.weight, self.closed = weight[:, :-1], weight[:, -1]
        """Posterior of the item's effect, dims (draw, node), if open; and of not being so."""
        odds[:, :, item.judged] += (duplicate - other)[:, None]
        self._odds = odds

    @cached_property
    def probability(self) -> FloatArray:
        """P(duplicate) of listed matches given effect and verdicts, (draw, node, match)."""
        return expit(self._odds)

    @cached_property
    def rest_rate(self) -> FloatArray:
        """Expected duplicates in each bin of unlisted matches, dims (draw, node, bin)."""
        item = self._item
        level = self._draws.log_odds(
            item.rest_cosine, item.benchmark, item.rest_source, item.rest_place
        )
        return item.rest_count * expit(level[:, None, :] + self._effect[:, :, None])

    def none(
        self, listed: np.ndarray, rest: np.ndarray, thin: FloatArray | None = None
    ) -> FloatArray:
        """Return the probability that no match is a duplicate, dims (draw,)."""
        if thin is None:
            log_none = log_expit(-self._odds[..., listed]).sum(axis=-1)
            log_none = log_none - self.rest_rate[..., rest].sum(axis=-1)
        else:
            share = thin[:, None, :-1][..., listed]
            with np.errstate(divide="ignore"):  # a sure duplicate leaves no chance of none
                log_none = np.log1p(-share * self.probability[..., listed]).sum(axis=-1)
            log_none -= thin[:, None, -1] * self.rest_rate[..., rest].sum(axis=-1)
        return self.closed + (self.weight * np.exp(log_none)).sum(axis=1)

    def none_among_first(self, ranks: Sequence[int]) -> FloatArray:
        """Return the probability that none of the first matches is a duplicate, (draw, rank)."""
        if not self._item.listed:
            return np.ones((len(self._draws), len(ranks)))
        summed = np.cumsum(log_expit(-self._odds[..., : self._item.listed]), axis=-1)
        last = np.minimum(np.asarray(ranks), self._item.listed) - 1
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

    def drawn(self, n_sources: int, rng: np.random.Generator) -> IntArray:
        """Draw the number of duplicates in each source, copies counted, (draw, source)."""
        item, rows = self._item, np.arange(len(self._draws))
        node = (self.weight.cumsum(axis=1) < rng.random((len(rows), 1))).sum(axis=1)
        opened = (node < self.weight.shape[1])[:, None]
        node = np.minimum(node, self.weight.shape[1] - 1)
        true = rng.random((len(rows), len(item.cosine))) < self.probability[rows, node]
        rest = rng.poisson(self.rest_rate[rows, node]) * opened
        true = true & opened
        counts = [
            true.astype(np.int64) @ item.copies[:, s] + rest[:, item.rest_source == s].sum(axis=1)
            for s in range(n_sources)
        ]
        return np.stack(counts, axis=1)
