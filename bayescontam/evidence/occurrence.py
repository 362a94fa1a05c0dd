"""How duplicates are spread over items: what a sample of the corpus shows of the rest."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import beta, norm, t

from bayescontam._types import FloatArray, IntArray

MEAN = (1.5, 1.5)
"""Prior of the log of the mean number of duplicates of a susceptible item: location and scale
of a Student's t of 4 degrees of freedom."""
SHAPE = (0.0, 1.0)
"""Prior of the log of the negative binomial's shape: Normal."""
OPEN = (2.0, 1.0)
"""Prior of the share of susceptible items: Beta. In three of four benchmarks of a published
audit 50 to 100 % of the items had duplicates (Spiesberger et al. 2026)."""


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
