"""Whether models are no worse than a base, or as good as it, within a stated margin."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import foldnorm, norm

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray
from bayescontam.data.validation import check_level
from bayescontam.errors import UsageError
from bayescontam.inference.identification import Overfitting
from bayescontam.inference.ranking import (
    By,
    Compared,
    Weighting,
    averaged,
    check_weights,
    compared_models,
    quantity_of,
)
from bayescontam.inference.result import Fit
from bayescontam.model.effect_names import GENUINE, OVERFITTING
from bayescontam.specs.base import suggest

Above = Callable[[float], float]
"""The probability of a change above a number."""
_NAME = 60
_BORROWED = {Overfitting.BORROWED, Overfitting.NO_VARIATION}
"""Verdicts on overfitting with which an adjusted score rests on other models or on priors."""


class MarginVerdict(StrEnum):
    """What draws of a change show against a stated margin."""

    NO_WORSE = "no worse"
    WITHIN = "within"
    WORSE = "worse"
    BETTER = "better"
    BORROWED = "borrowed"
    UNDECIDED = "undecided"


_SAID = {
    MarginVerdict.NO_WORSE: "no worse than '{base}' by more than {margin:g}",
    MarginVerdict.WITHIN: "within ±{margin:g} of '{base}'",
    MarginVerdict.WORSE: "worse than '{base}' by more than {margin:g}",
    MarginVerdict.BETTER: "better than '{base}' by more than {margin:g}",
}
_NOT_STATED = {
    MarginVerdict.BORROWED: (
        "the fit states it, the responses of the two models alone do not: it rests on other models"
        " or on priors"
    ),
    MarginVerdict.UNDECIDED: (
        "neither this nor its contrary can be stated, which is no evidence of an equal score"
    ),
}


def margin_verdict(
    change: ArrayLike, margin: float, *, two_sided: bool = False, level: float = 0.95
) -> MarginVerdict:
    """Return what draws of a change state against a margin.

    Parameters
    ----------
    change : array_like
        Draws of the posterior of a change on the probability scale, of any shape: negative is
        worse.
    margin : float
        Largest change that does not matter, above 0 and below 1: 0.02 is two points. There is
        no default, since what matters is not in the data.
    two_sided : bool, default False
        Whether a gain above the margin matters too.
    level : float, default 0.95
        Posterior probability from which something is stated.

    Returns
    -------
    MarginVerdict
        ``"no worse"``: P(change > −margin) is at least the level; two-sided ``"within"``:
        P(−margin < change < margin) is. ``"worse"``: P(change < −margin) is at least the
        level; two-sided ``"better"``: P(change > margin) is. Else ``"undecided"``.

    Raises
    ------
    UsageError
        If margin or level is not allowed, or draws are missing.

    Notes
    -----
    Of statements that the level allows, at most 1 − level are wrong on average over what the
    prior and the data leave open. Where the posterior is that of the data alone, a change of
    exactly −margin is called "no worse" at most that often too, as by one of the two one-sided
    tests. Two-sided, the interval that holds 2 × level − 1 with equal tails lies within the
    margin whenever "within" is stated, but not the reverse: the two tails together have to fit
    into 1 − level.

    References
    ----------
    Two one-sided tests: Schuirmann (1987), doi:10.1007/BF01068419. Region of practical
    equivalence: Kruschke (2018), doi:10.1177/2515245918771304.

    Examples
    --------
    >>> import bayescontam
    >>> import numpy as np
    >>> draws = np.random.default_rng(1).normal(-0.004, 0.005, size=4000)
    >>> str(bayescontam.margin_verdict(draws, 0.02))
    'no worse'
    >>> str(bayescontam.margin_verdict(draws, 0.01))
    'undecided'
    """
    check_margin(margin)
    check_level(level)
    draws = np.asarray(change, dtype=float).ravel()
    if not len(draws) or np.isnan(draws).any():
        raise UsageError("change: got no draws, or some that are NaN; give draws of a posterior")
    return verdict_of(draws, margin, two_sided=two_sided, level=level)[0]


def check_margin(margin: float) -> None:
    """Refuse a margin that is none on the probability scale."""
    if not 0 < margin < 1:
        raise UsageError(
            f"margin: got {margin:g}; allowed is a number above 0 and below 1 (0.02 is two points)"
        )


def smallest_margin(change: FloatArray, level: float, *, two_sided: bool = False) -> float:
    """Return the smallest margin with which draws of a change state "no worse" or "within"."""
    lost = np.abs(change) if two_sided else -change
    return max(0.0, float(np.quantile(lost, level)))


def _statements(above: Above, margin: float, two_sided: bool) -> dict[MarginVerdict, float]:
    """Return the probability of each statement, from that of a change above a number."""
    over = above(-margin)
    if not two_sided:
        return {MarginVerdict.NO_WORSE: over, MarginVerdict.WORSE: 1 - over}
    better = above(margin)
    return {
        MarginVerdict.WITHIN: over - better,
        MarginVerdict.WORSE: 1 - over,
        MarginVerdict.BETTER: better,
    }


def verdict_of(
    change: FloatArray,
    margin: float,
    *,
    two_sided: bool = False,
    level: float = 0.95,
    alone: Above | None = None,
) -> tuple[MarginVerdict, dict[MarginVerdict, float]]:
    """Return the verdict of draws with the probability of each statement.

    `alone` gives the probability of a change above a number by the responses of the two models
    alone, which must state the same.
    """
    found = _statements(lambda at: float((change > at).mean()), margin, two_sided)
    second = found if alone is None else _statements(alone, margin, two_sided)
    for verdict, p in found.items():
        if p >= level:
            return (verdict if second[verdict] >= level else MarginVerdict.BORROWED), found
    return MarginVerdict.UNDECIDED, found


@dataclass(frozen=True, eq=False)
class Against:
    """Models held against a base with a stated margin. Made by `compare_against`.

    Attributes
    ----------
    table : pandas.DataFrame
        One row for each model but the base, the best first: ``model``; ``difference`` to the
        base on the probability scale (posterior mean, negative is worse), with
        ``difference_low`` and ``difference_high``, the equal-tailed interval that holds
        2 × level − 1, so that each end is a one-sided bound of the level;
        ``own_difference, own_se``: difference and standard error from the responses of the
        two models alone; ``p_no_worse`` or, two-sided, ``p_within``; ``p_worse`` and,
        two-sided, ``p_better`` (by more than the margin); ``smallest_margin``: the
        smallest with which "no worse" (or "within") would be stated, infinite where the
        adjustment for contamination is borrowed; ``verdict``, see `MarginVerdict`.
    base : str
    margin, level : float
    two_sided : bool
    by : str
        What is compared: ``"genuine_ability"``, ``"genuine_ability_direct"`` or
        ``"accuracy"``.
    compared : Compared
        Models and benchmarks that are compared, and which are not.

    See Also
    --------
    compare_against : Makes one; with an example.
    """

    table: pd.DataFrame
    base: str
    margin: float
    level: float
    two_sided: bool
    by: By
    compared: Compared

    def sentences(self) -> list[str]:
        """Return what can be stated of which models, and what is compared."""
        return [*self._stated(), *self.compared.sentences()]

    def _stated(self) -> Iterator[str]:
        base, verdicts = printable(self.base, _NAME), self.table["verdict"]
        for kind in MarginVerdict:
            named = self.table.loc[verdicts == kind, "model"]
            if len(named):
                count, names = f"{len(named):,} of {len(verdicts):,} models", _listed(named)
                if kind in _NOT_STATED:
                    yield f"{kind.capitalize()}, {count} ({names}): {_NOT_STATED[kind]}."
                else:
                    said = _SAID[kind].format(base=base, margin=self.margin)
                    yield f"Stated of {count} ({names}): {said}."
        wrong = self._expected_wrong()
        if wrong is not None:
            few = f"{wrong:.2g}" if wrong >= 0.001 else "fewer than 0.001"
            yield (
                f"Each statement has a probability of at least {self.level:g}; expected wrong"
                f" statements: {few}. The margin must be chosen before the table is read."
            )

    def _expected_wrong(self) -> float | None:
        """Return how many statements are expected to be wrong; None where there are none."""
        names = {kind: f"p_{kind.replace(' ', '_')}" for kind in _SAID}
        chance = [
            1 - float(row[names[row["verdict"]]])
            for _, row in self.table.iterrows()
            if row["verdict"] in names
        ]
        return sum(chance) if chance else None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, texts and numbers, for JSON."""
        known = self.table.replace([np.inf], np.nan).astype(object)
        return {
            "base": self.base,
            "margin": self.margin,
            "two_sided": self.two_sided,
            "by": self.by,
            "level": self.level,
            "benchmarks": self.compared.shares.to_dict(),
            "models": known.where(known.notna(), None).to_dict("records"),
            "left_out": {name: list(missed) for name, missed in self.compared.left_out.items()},
            "sentences": self.sentences(),
        }


def _listed(names: "pd.Series[str]") -> str:
    return join_list((printable(str(name), _NAME) for name in names), 5)


def compare_against(
    fit: Fit,
    base: str,
    margin: float,
    *,
    two_sided: bool = False,
    benchmark: str | Iterable[str] | None = None,
    by: By | None = None,
    weights: Weighting = "benchmark",
    level: float | None = None,
) -> Against:
    """State which models are no worse than a base by more than a margin, and which are worse.

    Parameters
    ----------
    fit : Fit
    base : str
        Model that the others are held against, such as the one before finetuning.
    margin : float
        Largest difference that does not matter, on the probability scale, above 0 and below 1:
        0.02 is two points. There is no default, since what matters is not in the data; choose
        it before the result is known.
    two_sided : bool, default False
        Whether a gain above the margin matters too: statements are then "within ±margin".
    benchmark : str or iterable of str, optional
        Benchmarks to average over; default: all. Only models that answered every one of them
        are compared.
    by : {"genuine_ability", "genuine_ability_direct", "accuracy"}, optional
        What is compared, as in `rank_models`.
    weights : {"benchmark", "item"}, default "benchmark"
        What counts alike in the average: each benchmark, or each item of any.
    level : float, optional
        Posterior probability from which something is stated. Default: that of the fit.

    Returns
    -------
    Against

    Raises
    ------
    UsageError
        If the base is not there or did not answer the benchmarks, there is no other model,
        or an option is not allowed.

    Notes
    -----
    A statement needs two witnesses. The posterior must give it at least the level; and so must
    the responses of the two models alone, by the mean difference over the items that both
    answered and its standard error (Agresti & Min 2005, doi:10.1002/sim.1781; where rows count
    different items, Agresti & Caffo 2000, doi:10.1080/00031305.2000.10474560), less the fit's
    adjustment for contamination with its posterior variance. Otherwise it is "borrowed":
    partial pooling draws models together, so that many equal models would let a fit call one
    more equal that hardly answered anything. A genuine ability whose overfitting is "borrowed",
    or of contamination that does not vary, gives no statement either.

    References
    ----------
    Schuirmann (1987), doi:10.1007/BF01068419; Kruschke (2018), doi:10.1177/2515245918771304.

    Examples
    --------
    >>> import bayescontam
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "model": ["base"] * 300 + ["tuned"] * 300, "benchmark": "b",
    ...     "item": [f"i{i}" for i in range(300)] * 2,
    ...     "correct": [1] * 200 + [0] * 100 + [1] * 198 + [0] * 102,
    ... })
    >>> fit = bayescontam.fit(table, "ability", seed=1, draws=200, tune=200, chains=2)
    >>> found = bayescontam.compare_against(fit, "base", 0.1)
    >>> found.table[["model", "verdict"]].values.tolist()
    [['tuned', 'no worse']]
    """
    check_margin(margin)
    by, level = quantity_of(fit, by), fit.level if level is None else level
    check_weights(weights)
    check_level(level)
    names = [benchmark] if isinstance(benchmark, str) else benchmark
    compared = compared_models(fit, names, by_item=weights == "item")
    at = _position(base, compared)
    estimands = fit.data["estimands"].to_dataset()
    draws = averaged(estimands[by], compared)
    change = draws - draws[:, [at]]
    effect = averaged(estimands["accuracy"], compared) - draws
    removed = effect - effect[:, [at]]
    own, error = _own_differences(fit, compared, at)
    own, error = own - removed.mean(axis=0), np.hypot(error, removed.std(axis=0))
    trusted = _adjusted_by_own(fit, compared, by)
    rows = [
        _row(
            str(compared.models[m]), change[:, m], (own[m], error[m]),
            bool(trusted[m] and trusted[at]), margin, two_sided, level,
        )
        for m in range(len(compared.models))
        if m != at
    ]  # fmt: skip
    table = pd.DataFrame(rows).sort_values("difference", ascending=False, kind="stable")
    return Against(table.reset_index(drop=True), base, margin, level, two_sided, by, compared)


def _position(base: str, compared: Compared) -> int:
    """Return where the base stands among the models that are compared."""
    models = [str(name) for name in compared.models]
    shown = printable(base, _NAME)
    if base in compared.left_out:
        missed = join_list(compared.left_out[base], 3)
        raise UsageError(
            f"against: '{shown}' did not answer {missed}; name benchmarks that it answered"
        )
    if base not in models:
        known = [printable(name, _NAME) for name in models]
        raise UsageError(
            f"against: got '{shown}', which the fit does not have; {suggest(shown, known)}"
        )
    if len(models) == 1:
        raise UsageError(f"against: '{shown}' is the only model; another one is needed")
    return models.index(base)


def _row(
    model: str,
    change: FloatArray,
    own: tuple[float, float],
    trusted: bool,
    margin: float,
    two_sided: bool,
    level: float,
) -> dict[str, Any]:
    verdict, p = verdict_of(
        change,
        margin,
        two_sided=two_sided,
        level=level,
        alone=lambda at: float(norm.sf(at, *own)),
    )
    if verdict is not MarginVerdict.UNDECIDED and not trusted:
        verdict = MarginVerdict.BORROWED
    low, high = np.quantile(change, [1 - level, level])
    return {
        "model": model,
        "difference": float(change.mean()),
        "difference_low": float(low),
        "difference_high": float(high),
        "own_difference": float(own[0]),
        "own_se": float(own[1]),
        **{f"p_{kind.replace(' ', '_')}": chance for kind, chance in p.items()},
        "smallest_margin": _smallest(change, own, level, two_sided) if trusted else math.inf,
        "verdict": str(verdict),
    }


def _smallest(change: FloatArray, own: tuple[float, float], level: float, two_sided: bool) -> float:
    """Return the smallest margin that both the posterior and the responses alone state."""
    mean, sd = own
    if two_sided:
        alone = float(foldnorm.ppf(level, abs(mean) / sd, scale=sd))
    else:
        alone = -float(norm.ppf(1 - level, mean, sd))
    return max(smallest_margin(change, level, two_sided=two_sided), alone)


def _own_differences(fit: Fit, compared: Compared, at: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean difference to the base by responses alone, and its error, dims (model,)."""
    data = fit.data["constant_data"].to_dataset()
    if "participant_of_response" in data:
        raise UsageError(
            "against: responses of a model that is a group of people go together by participant,"
            " so that a verdict against a margin cannot be given from them; compare by"
            " probabilities (rank without --against)"
        )
    model, benchmark, item = (
        data[f"{name}_of_response"].to_numpy() for name in ("model", "benchmark", "item")
    )
    table = pd.DataFrame(
        {
            "model": model,
            "benchmark": benchmark,
            "item": item,
            "correct": fit.data["observed_data"]["n_correct"].to_numpy(),
            "trials": data["n_trials"].to_numpy(),
        }
    )
    counted = fit.spec.likelihood.trials == "items"
    mean, variance = np.zeros(len(compared.rows)), np.zeros(len(compared.rows))
    for column, share in zip(compared.columns, compared.shares, strict=True):
        rows = table[table["benchmark"] == column]
        difference, error = (_of_counts if counted else _of_items)(rows, compared.rows, at)
        mean += share * difference
        variance += (share * error) ** 2
    return mean, np.sqrt(variance)


def _of_counts(
    rows: pd.DataFrame, models: "np.ndarray[Any, Any]", at: int
) -> tuple[FloatArray, FloatArray]:
    """Return differences of shares of items, and their errors: one more of either outcome each."""
    sums = rows.groupby("model")[["correct", "trials"]].sum().reindex(models)
    trials = sums["trials"].to_numpy() + 2
    p = (sums["correct"].to_numpy() + 1) / trials
    variance = p * (1 - p) / trials
    return p - p[at], np.sqrt(variance + variance[at])


def _of_items(
    rows: pd.DataFrame, models: "np.ndarray[Any, Any]", at: int
) -> tuple[FloatArray, FloatArray]:
    """Return mean differences over items that both answered, with a half of each outcome more."""
    shares = rows.assign(share=rows["correct"] / rows["trials"])
    wide = shares.pivot_table(index="item", columns="model", values="share").reindex(columns=models)
    apart = wide.to_numpy() - wide.to_numpy()[:, [at]]
    count = (~np.isnan(apart)).sum(axis=0) + 2
    mean = np.nansum(apart, axis=0) / count
    variance = (np.nansum(apart**2, axis=0) + 1) / count - mean**2
    return mean, np.sqrt(variance / count)


def _adjusted_by_own(fit: Fit, compared: Compared, by: By) -> BoolArray:
    """Return whether a model's adjustment for contamination rests on its own, dims (model,)."""
    if by == "accuracy":
        return np.ones(len(compared.models), dtype=bool)
    table = fit.estimands()
    effect = table["quantity"] == by.replace(GENUINE, OVERFITTING)
    names = {str(name) for name in compared.shares.index}
    rows = table[effect & table["verdict"].isin(_BORROWED) & table["benchmark"].isin(names)]
    borrowed = set(rows["model"])
    return np.array([name not in borrowed for name in compared.models])
