"""Admission: draws of a fit, completed by a newcomer and weighed by its responses."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from bayescontam._types import FloatArray, IntArray
from bayescontam.execute import usable_cores
from bayescontam.inference.density import Rows
from bayescontam.inference.difficulties import placed, spelt_out
from bayescontam.inference.draws import Draws, take_draws
from bayescontam.inference.joining.completion import Completion
from bayescontam.inference.joining.difficulties import Difficulties, Items
from bayescontam.inference.joining.expectation import Expectation, expectation
from bayescontam.inference.joining.forecast import features, forecast
from bayescontam.inference.joining.marginal import Marginal
from bayescontam.inference.joining.newcomer import Newcomer
from bayescontam.inference.joining.proposal import Effects, mode, propose
from bayescontam.inference.lattice import make_lattice
from bayescontam.inference.priors import SMALLEST

_FEW = 40
"""Draws from which the start of all others is found."""
_FIRST = 0.3
"""Share of draws that are taken evenly, before it is known which are wanted."""
_THREADS = 4
"""Parts worked on side by side, at most; NumPy's loops do not hold each other up."""
_CHUNK = 1_000_000
"""Numbers that are worked on at once; with many more an update was a fifth slower."""


@dataclass(frozen=True, eq=False)
class Admitted:
    """Draws of the joint model."""

    draws: Draws  # of the joint design
    origin: IntArray  # dims (draw,): the draw of the fit that each belongs to, chains joined
    log_ratio: FloatArray  # dims (draw,): log importance ratios
    forecast: FloatArray  # dims (fit's draw,): predicted log weights of all draws of the fit


def admit(
    posterior: xr.Dataset, newcomer: Newcomer, most: int, rng: np.random.Generator
) -> Admitted:
    """Complete draws of a fit by a newcomer's effects."""
    admission = _Admission.of(posterior, newcomer, rng)
    first = admission.draws.spaced(max(_FEW, int(_FIRST * most)))
    few = first[:: max(1, len(first) // _FEW)]
    start = mode(admission.effects, admission.expected[few], *admission.answers(few))
    begun, log_begun = admission.complete_all(first, start)
    predicted = forecast(features(posterior), first, log_begun)
    chance = np.exp(predicted - logsumexp(predicted))
    second = _systematic(chance, most - len(first), rng)
    rest, log_rest = admission.complete_all(second, start)
    origin = np.concatenate([first, second])
    # Both parts are draws from one mixture of draws of the fit.
    share = len(first) / len(origin)
    mixture = share + (1 - share) * chance[origin] * len(admission.draws)
    log_ratio = np.concatenate([log_begun, log_rest]) - np.log(mixture)
    return Admitted(_joined([begun, rest]), origin, log_ratio, predicted)


def _systematic(chance: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Draw positions by their chances, evenly."""
    reached = np.cumsum(chance)
    wanted = (np.arange(count) + rng.random()) / count * reached[-1]
    return np.minimum(np.searchsorted(reached, wanted, side="right"), len(chance) - 1)


@dataclass(frozen=True, eq=False)
class _Admission:
    """All that draws are completed with."""

    newcomer: Newcomer
    draws: Draws  # of the fit
    expected: Expectation
    effects: Effects
    marginal: Marginal  # of all responses of the joint design
    items: Items | None
    spread: FloatArray | None  # dims (draw, benchmark): of difficulties
    completion: Completion

    @classmethod
    def of(
        cls, posterior: xr.Dataset, newcomer: Newcomer, rng: np.random.Generator
    ) -> "_Admission":
        draws = take_draws(posterior, newcomer.host)
        if "delta" in newcomer.built.terms and draws.delta is None:
            lattice = make_lattice(newcomer.host)
            draws = spelt_out(placed(draws, lattice, rng), lattice)
        rows = Rows.of(newcomer.built, draws)
        spread = None
        if draws.delta is not None:
            spread = posterior["sigma_delta"].to_numpy().reshape(len(draws), -1) + SMALLEST
        return cls(
            newcomer,
            draws,
            expectation(posterior, newcomer),
            Effects(newcomer, newcomer.spec.contamination.sign == "positive"),
            Marginal.of(rows, newcomer.design.n_single, _scale(draws)),
            Items.of(newcomer, draws),
            spread,
            Completion(newcomer, rows, rng),
        )

    @property
    def numbers(self) -> int:
        """How many numbers one draw takes while nodes are placed."""
        numbers = len(self.newcomer.design) + self.marginal.numbers
        if self.items is None:
            return numbers
        return max(numbers, self.items.count * (len(self.items.met) + len(self.newcomer.own)))

    def answers(self, part: IntArray) -> tuple[Marginal, Difficulties | None]:
        """Return the newcomer's responses, and the difficulties of its items, for draws."""
        draws = self.draws[part]
        marginal = self.marginal.at(_scale(draws))
        own = marginal[self.newcomer.own]
        if self.items is None or self.spread is None:
            return own, None
        # The newcomer's own values are not looked at: only the fit's responses are.
        theta = np.zeros((len(draws), len(self.newcomer.design.units)))
        beta = None
        if draws.beta is not None:
            beta = np.zeros((len(draws), len(self.newcomer.design.benchmarks)))
        joint = self.completion.whole(draws, theta, beta)
        return own, Difficulties.of(self.items, joint, self.newcomer, marginal, self.spread[part])

    def complete_all(self, chosen: IntArray, start: FloatArray) -> tuple[Draws, FloatArray]:
        """Return draws of the joint design and their log ratios, part by part."""
        step = max(1, _CHUNK // self.numbers)
        chunks = [chosen[first : first + step] for first in range(0, len(chosen), step)]
        # A stream of its own for each: the numbers are the same for any number of threads.
        streams = self.completion.rng.spawn(len(chunks))
        with ThreadPoolExecutor(min(_THREADS, usable_cores())) as pool:
            parts = list(pool.map(partial(self._complete, start), chunks, streams))
        return _joined([draws for draws, _ in parts]), np.concatenate([r for _, r in parts])

    def _complete(
        self, start: FloatArray, chosen: IntArray, rng: np.random.Generator
    ) -> tuple[Draws, FloatArray]:
        draws, completion = self.draws[chosen], replace(self.completion, rng=rng)
        own, difficulties = self.answers(chosen)
        proposed = propose(start, self.effects, self.expected[chosen], own, difficulties, rng)
        joint = completion.whole(draws, *self.effects.placed(proposed.effects))
        eta = self.effects.log_odds(proposed.effects)
        joint = completion.drawn(joint, draws, difficulties, eta)
        return joint, proposed.log_ratio


def _scale(draws: Draws) -> FloatArray | None:
    if draws.sigma_eps is None:
        return None
    scale: FloatArray = draws.sigma_eps[:, 0] + SMALLEST
    return scale


def _joined(parts: list[Draws]) -> Draws:
    names = ("theta", "beta", "delta", "eta", "sigma_eps")
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in names
        if getattr(parts[0], name) is not None
    }
    return replace(parts[0], **columns)
