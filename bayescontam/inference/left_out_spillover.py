"""Whether a fit without spillover leaves some of it in what it takes for ability."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from bayescontam._types import FloatArray
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError
from bayescontam.inference.checks import Check, Outcome, Thresholds, make_check
from bayescontam.inference.identification import ROUNDING
from bayescontam.inference.own_slopes import OwnSlopes
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design
from bayescontam.model.lineage import BASE, bases_of
from bayescontam.model.priors import distribution
from bayescontam.specs.model import Priors

RELATED = "Related models of other exposure"
"""Name of the check."""
_MOST_PAIRS = 600
"""Pairs of model and benchmark beyond which the check takes longer than it is worth."""
_QUANTILES = (np.arange(12) + 0.5) / 12


class LeftOutSpillover(NamedTuple):
    """What abilities of related models show of spillover."""

    coefficient: float  # log-odds for each unit of dose: the most improbable one
    benchmark: str  # on which; all of them if empty
    # two-sided, of one as far from 0 if there were no spillover, corrected for how many are tested
    p_value: float


class _Relatives(NamedTuple):
    """Abilities of pairs of model and benchmark that have relatives on it, dims (pair,)."""

    ability: FloatArray  # log-odds of genuine ability (direct)
    noise: FloatArray  # covariance of how well it is known, (pair, pair)
    trained: FloatArray  # 1 where two pairs are of one model, (pair, pair)
    level: FloatArray  # 1 where a pair is of a base and benchmark, (pair, base and benchmark)
    dose: FloatArray  # of a pair, in the column of its benchmark, (pair, benchmark)
    benchmarks: tuple[str, ...]

    def covariance(self, training: float, twin: float) -> FloatArray:
        """Return the covariance of abilities by the spreads among models of one base."""
        return self.noise + training**2 * self.trained + twin**2 * np.eye(len(self.ability))


def left_out_check(
    own: OwnSlopes | None, built: BuiltModel, responses: Responses, limits: Thresholds
) -> Iterator[Check]:
    """Check that related models of a fit without spillover are as able when more exposed."""
    if "spillover" in built.terms or own is None or BASE not in responses.frame:
        return
    try:
        bases = bases_of(responses)
    except DataError:
        return  # the model spec does not use the column, and need not refuse it
    found = left_out_spillover(own, built, bases)
    if found is None:
        return
    p, where = found.p_value, f" on {found.benchmark}" if found.benchmark else ""
    yield make_check(
        RELATED, p >= limits.predictive, p,
        f"p ≥ {limits.predictive:g}",
        "Models of one base do not differ by their exposure in what is taken for ability.",
        "What is taken for ability differs within bases by exposure: by"
        f" {found.coefficient:.2g} log-odds{where} for a model exposed to all items. That is"
        " spillover, or training that came with it, and is not in the direct effect. Use a model"
        " spec with lineage, such as twins.",
        Outcome.FAILED,
    )  # fmt: skip


def left_out_spillover(
    own: OwnSlopes, built: BuiltModel, bases: dict[str, str]
) -> LeftOutSpillover | None:
    """Regress abilities of related models on their doses; None where no relatives differ.

    Abilities are those at no contamination, as each pair's own responses give them: slopes are
    integrated out, with the fit's spread and the prior of what they have in common. How they
    vary within bases apart from exposure is what the priors of twins hold possible, weighted by
    how well it agrees with all that the coefficient does not use: a partial posterior predictive
    check (Bayarri & Berger 2000, doi:10.1080/01621459.2000.10474309).
    """
    pairs = _relatives(own, built.design, bases)
    return None if pairs is None else _tested(pairs, built.spec.priors)


def _tested(pairs: _Relatives, priors: Priors) -> LeftOutSpillover:
    spreads = [distribution(prior).ppf(_QUANTILES) for prior in (priors.sigma_t, priors.sigma_twin)]
    # Coefficients are weighted by middling spreads, whichever spreads are true: one for all
    # benchmarks, and where there are several one for each, for spillover may differ.
    middling = pairs.covariance(*map(np.median, spreads))
    rows = _coefficients(pairs, pairs.dose.sum(axis=1, keepdims=True), middling)
    if len(pairs.benchmarks) > 1:
        rows = np.vstack([rows, _coefficients(pairs, pairs.dose, middling)])
    coefficients = rows @ pairs.ability
    grid = np.array([*product(*spreads)])
    weights = np.array([_log_likelihood(pairs, pairs.covariance(*spread)) for spread in grid])
    known, training, twin = (
        np.einsum("ki,ij,kj->k", rows, part, rows)
        for part in (pairs.noise, pairs.trained, np.eye(rows.shape[1]))
    )
    variance = known + grid[:, :1] ** 2 * training + grid[:, 1:] ** 2 * twin
    tails = 2 * norm.sf(np.abs(coefficients) / np.sqrt(variance))
    p_values = np.exp(weights - logsumexp(weights)) @ tails
    # One half of the false alarms is that of the common coefficient, however many benchmarks.
    several = len(p_values) - 1
    times = np.array([2.0, *[2.0 * several] * several]) if several else np.ones(1)
    adjusted = np.minimum(times * p_values, 1.0)
    at = int(adjusted.argmin())
    name = ("", *pairs.benchmarks)[at]
    return LeftOutSpillover(float(coefficients[at]), name, float(adjusted[at]))


def _relatives(own: OwnSlopes, design: Design, bases: dict[str, str]) -> _Relatives | None:
    """Return pairs that have relatives on their benchmark; None where none differ in dose."""
    # What a pair's own responses give, for the fit draws abilities to each other, and slopes to
    # what these leave: both hide spillover.
    base = np.unique([bases[name] for name in design.models], return_inverse=True)[1]
    m, b = np.nonzero(design.answered)
    group = base[m] * len(design.benchmarks) + b
    related = np.bincount(group)[group] > 1
    m, b, group = m[related], b[related], group[related]
    level = (group[:, None] == np.unique(group)) * 1.0
    dose = design.pair_dose[m, b]
    if not 0 < len(m) <= _MOST_PAIRS:
        return None
    away = np.abs(dose - level @ (dose @ level / level.sum(axis=0)))
    names = np.unique(b[away > ROUNDING])
    if not len(names):
        return None
    known = own.precision[m, b]
    common = own.prior_sd[m, b]
    # Slopes of clean models are zero, and do not vary.
    spread = np.diag(np.where(common > 0, own.spread**2, 0.0)) + np.outer(common, common)
    # Slopes are integrated out.
    share = (
        known[:, 0, 1][:, None] * np.linalg.inv(np.eye(len(m)) + spread * known[:, 1, 1]) @ spread
    )
    precision = np.diag(known[:, 0, 0]) - share * known[:, 0, 1]
    noise = np.linalg.inv(precision)
    pull = own.pull[m, b]
    return _Relatives(
        noise @ (pull[:, 0] - share @ pull[:, 1]), noise, (m[:, None] == m) * 1.0, level,
        dose[:, None] * (b[:, None] == names), tuple(design.benchmarks[at] for at in names),
    )  # fmt: skip


def _coefficients(pairs: _Relatives, dose: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return weights of abilities in coefficients of dose, dims (coefficient, pair)."""
    root = np.linalg.cholesky(covariance)
    q, r = np.linalg.qr(np.linalg.solve(root, np.column_stack([pairs.level, dose])))
    rows: FloatArray = np.linalg.solve(r, np.linalg.solve(root.T, q).T)[-dose.shape[1] :]
    return rows


def _log_likelihood(pairs: _Relatives, covariance: FloatArray) -> float:
    """Return the restricted log-likelihood, which the coefficients of dose do not enter."""
    root = np.linalg.cholesky(covariance)
    known = np.linalg.solve(root, np.column_stack([pairs.level, pairs.dose, pairs.ability]))
    q, r = np.linalg.qr(known[:, :-1])
    left = known[:, -1] - q @ (q.T @ known[:, -1])
    logs = np.log(np.diag(root)).sum() + np.log(np.abs(np.diag(r))).sum()
    return float(-logs - 0.5 * left @ left)
