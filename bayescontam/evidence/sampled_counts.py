"""How many chunks are near an item, where most were not counted but sampled."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from bayescontam._types import FloatArray, IntArray

STEPS = 10
"""Steps of 0.001, in which cosines are counted, in a bin of 0.01."""
_MISSED = 0.5
"""Shape of the gamma prior of how many chunks are missed of an item: of many hardly any."""


@dataclass(frozen=True, eq=False)
class SampledCounts:
    """Numbers of chunks in bins of cosine, of which one in `weight` was sampled.

    Down to some cosine an index found the chunks of an item. Below, between two sampled chunks
    that follow each other in the order of cosine, stand chunks that were not sampled: a geometric
    number, with a mean of weight − 1, wherever the two are. It precedes the first one too: an
    empty part of the sample is not taken for an empty part of the corpus.

    Above, the index misses chunks of some items. Their number is Poisson, with a mean that is
    gamma distributed over items; the nearest are missed least.

    Hill (1975), A simple general approach to inference about the tail of a distribution.
    https://doi.org/10.1214/aos/1176343247
    """

    fixed: FloatArray  # counted chunks and sampled ones, without those that are listed; (bin,)
    whole: IntArray  # gaps that lie inside one bin, (bin,)
    parts: FloatArray  # how other gaps are spread over bins, dims (gap, bin); rows sum to 1
    weight: int
    missed: tuple[float, float]  # shape and scale of how many chunks were missed and not sampled
    near: FloatArray  # how these are spread over bins, (bin,)

    @classmethod
    def of(
        cls,
        steps: IntArray,
        counts: FloatArray,
        estimated: FloatArray,
        *,
        found: int,
        lowest: int,
        missed: float,
        weight: int,
        bins: int,
    ) -> Self:
        """Return those of an item.

        `steps` are the cosines of counts, in steps of 0.001; `estimated` is the part of each count
        that comes from the sample. Down to the step `found` the chunks were found, but for
        `missed` ones, on average over items; counts begin at the step `lowest`.
        """
        hits = np.round(estimated / weight).astype(np.int64)
        counted = counts - hits * weight
        order = np.argsort(-steps, kind="stable")
        sampled = np.repeat(steps[order], hits[order])
        further = sampled[sampled <= found]
        high, low = np.append(found, further), np.append(further, lowest)
        if found <= lowest:  # what is open lies below all counts
            high, low = high[:0], low[:0]
        one = high // STEPS == low // STEPS
        whole = np.bincount(high[one] // STEPS, minlength=bins)
        upper, lower = high[~one, None], low[~one, None]
        # Chunks are the more, the lower the cosine: exponentially, as among those found.
        above = np.where(steps >= found, counted, 0.0)
        scale = max(1.0, float(above @ (steps - found)) / max(float(above.sum()), 1.0))
        edges = np.arange(bins + 1) * STEPS
        inside = np.exp(-(np.clip(edges, lower, upper + 1) - lower) / scale)
        parts = -np.diff(inside, axis=1) / (1 - np.exp(-(upper + 1 - lower) / scale))
        # The further a chunk is from the item, the more are missed: in proportion to its rank.
        rank = np.empty(len(steps))
        rank[order] = np.cumsum(above[order])
        near = np.bincount(steps // STEPS, above * rank, minlength=bins)
        # Of a rate that is gamma distributed, given how many of them were sampled.
        shape = _MISSED + len(sampled) - len(further)
        rate = (1 - 1 / weight) / (_MISSED / max(missed, 1e-9) + 1 / weight)
        return cls(
            np.bincount(steps // STEPS, counted + hits, minlength=bins),
            whole,
            parts,
            weight,
            (shape, rate),
            near / max(float(near.sum()), 1.0),
        )

    @cached_property
    def mean(self) -> FloatArray:
        """Expected numbers, dims (bin,)."""
        gaps = (self.weight - 1) * (self.whole + self.parts.sum(axis=0))
        expected: FloatArray = self.fixed + gaps + self.missed[0] * self.missed[1] * self.near
        return expected

    def drawn(self, draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw numbers, dims (draw, bin)."""
        chance, size = 1 / self.weight, (draws, len(self.fixed))
        # A sum of geometric numbers; that of none is no number that NumPy draws.
        inside = rng.negative_binomial(np.maximum(self.whole, 1), chance, size) * (self.whole > 0)
        across = rng.geometric(chance, (draws, len(self.parts))) - 1
        missed = rng.poisson(rng.gamma(*self.missed, draws))[:, None]
        total: FloatArray = self.fixed + inside + across @ self.parts + missed * self.near
        return total
