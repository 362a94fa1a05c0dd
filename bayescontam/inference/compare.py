"""Comparison of fits of the same responses by their predictive accuracy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import arviz as az
import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.utils import ELPDDataLOO

from bayescontam._text import join_list, printable
from bayescontam._types import FloatArray
from bayescontam.data.responses import Path
from bayescontam.errors import FitError, UsageError
from bayescontam.inference.crossval import (
    FEWEST_DRAWS,
    GOOD_K,
    By,
    CrossValidation,
    Pointwise,
    from_loo,
    kfold,
    reloo,
    stored_loo,
)
from bayescontam.inference.result import Fit

Fits = Mapping[str, Fit | Path] | Sequence[Fit | Path]
"""Several fits, or files of them, with or without names."""
FOLDS = 10
"""Folds where items or models are left out, and no number is given."""
FEW_RESPONSES, FEW_GROUPS = 100, 10
"""Numbers of responses, and of items or models, below which standard errors say little."""


@dataclass(frozen=True)
class LeaveOut:
    """What is left out to compare fits, and how."""

    by: By = "response"  # what leaves together
    # fits made again, each without a part. Default: 10 for items and models (or as many as there
    # are), and none for responses, which PSIS-LOO leaves out by weights.
    folds: int | None = None
    # whether responses for which PSIS-LOO fails are left out by fits without them
    refit: bool = False
    work: CrossValidation = field(default_factory=CrossValidation)  # how fits are made again

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.refit and (self.by != "response" or self.folds is not None):
            raise UsageError(
                "compare: refit is for single responses without folds, where PSIS-LOO fails; leave"
                " it out"
            )

    @property
    def fold_count(self) -> int | None:
        """How many folds are requested; None for PSIS-LOO."""
        return FOLDS if self.folds is None and self.by != "response" else self.folds

    def pointwise(self, fits: Mapping[str, Fit]) -> dict[str, Pointwise]:
        """Return how well each fit predicts what is left out."""
        if self.fold_count is not None:
            return kfold(fits, self.by, self.fold_count, self.work)
        if self.refit:
            return reloo(fits, self.work)
        return {name: from_loo(stored_loo(fit)) for name, fit in fits.items()}


def compare_fits(fits: Mapping[str, Fit], how: LeaveOut | None = None) -> pd.DataFrame:
    """Compare fits by how well they predict what is left out, with stacking weights.

    Responses to a left-out item are predicted together: its log predictive density is
    that of all of them. Responses of a left-out model are predicted one by one.
    Those of one model or item are not independent, so that standard errors are those of a
    sum over left-out models or items, not over responses.

    Yao, Vehtari, Simpson & Gelman (2018), doi:10.1214/17-BA1091, on stacking; Sivula,
    Magnusson, Matamoros & Vehtari (2025), doi:10.1214/25-BA1569, on when differences
    are inconclusive; Merkle, Furr & Rabe-Hesketh (2019),
    doi:10.1007/s11336-019-09679-0, on leaving out what shares an effect.
    """
    how = how or LeaveOut()
    if len(fits) < (1 if how.fold_count is not None else 2):
        raise UsageError("compare: give at least two fits")
    _refuse_different_data(fits)
    pointwise = how.pointwise(fits)
    weights = _stacking(pointwise)
    best = str(weights.index[0])
    return pd.DataFrame(
        [_row(str(name), pointwise, best, weight, how) for name, weight in weights.items()]
    )


def _stacking(pointwise: Mapping[str, Pointwise]) -> "pd.Series[float]":
    """Return stacking weights under the names of fits, best fit first."""
    if len(pointwise) == 1:
        return pd.Series(1.0, index=list(pointwise))
    # Weights do not change with the unit of the densities; those of many responses to an
    # item together could not be held by floating-point numbers.
    highest: FloatArray = np.stack([one.elpd for one in pointwise.values()]).max(axis=0)
    elpd = {name: _elpd(one, highest) for name, one in pointwise.items()}
    return az.compare(elpd, round_to="none")["weight"]


def _row(
    name: str, pointwise: Mapping[str, Pointwise], best: str, weight: float, how: LeaveOut
) -> dict[str, object]:
    own = pointwise[name]
    behind = pointwise[best].elpd - own.elpd
    row: dict[str, object] = {
        "fit": name,
        "elpd": float(own.elpd.sum()),
        "se": own.sum_se(own.elpd),
        "p_loo": own.parameters,
        "elpd_diff": float(behind.sum()),
        "diff_se": own.sum_se(behind),
        "weight": weight,
        "bad_k": own.bad,
        "left_out": how.by,
    }
    if own.sampled is not None:
        row |= {
            "refits": own.sampled.fits,
            "r_hat": own.sampled.r_hat,
            "divergences": own.sampled.divergences,
        }
    first = "best" if name == best else _first(float(behind.sum()), own.sum_se(behind))
    if len(pointwise) == 1:
        return row | {"verdict": _verdict(own, how.by, "nothing to compare it with.", best=False)}
    return row | {"verdict": _verdict(own, how.by, first, name == best)}


def _verdict(own: Pointwise, by: By, first: str, best: bool) -> str:
    """Return what may be reported of a fit, and what makes its figures doubtful."""
    doubts = [*_doubts(own, by), *([] if best else _few(own, by))]
    if best and doubts:
        first += ";"
    return " ".join([first, *doubts])


def _first(difference: float, error: float) -> str:
    """Say whether a fit can be distinguished from the best."""
    if difference < 4:
        return "as good as the best: a difference below 4 is inconclusive."
    if difference < 2 * error:
        return "not distinguishable from the best: the difference is below 2 standard errors."
    return "predicts worse than the best."


def _doubts(own: Pointwise, by: By) -> Iterator[str]:
    made, what = own.sampled, "items" if by == "item" else "responses"
    if own.bad:
        few = f"were predicted by fewer than {FEWEST_DRAWS} draws"
        why = f"have Pareto k > {GOOD_K:g}" if made is None else few
        yield f"{own.bad} {what} {why}: unreliable there."
    if made is not None and made.failed:
        yield (
            f"{made.failed} of {made.fits} fits that were made again failed their checks (R-hat up"
            f" to {made.r_hat:.3f}, {made.divergences} divergences): unreliable."
        )


def _few(own: Pointwise, by: By) -> Iterator[str]:
    if own.groups < FEW_GROUPS:
        yield f"Only {own.groups} {by}s were left out: standard errors say little."
    elif own.groups < FEW_RESPONSES and by != "model":
        yield f"Fewer than {FEW_RESPONSES} {by}s: standard errors are unreliable."


def _refuse_different_data(fits: Mapping[str, Fit]) -> None:
    hashes = {name: fit.record["data"]["hash"] for name, fit in fits.items()}
    first = next(iter(hashes))
    others = [name for name, value in hashes.items() if value != hashes[first]]
    if others:
        raise FitError(
            f"compare: {join_list(others)} and '{printable(first, 60)}' are fits of different "
            "responses;"
            " only fits of the same responses can be compared: fit the same table, with the same"
            " --where, with each model spec"
        )


def _elpd(own: Pointwise, highest: FloatArray) -> ELPDDataLOO:
    """Return the figures as ArviZ takes them, their densities in units of the highest."""
    return ELPDDataLOO(
        elpd=float(own.elpd.sum()),
        se=own.sum_se(own.elpd),
        p=own.parameters,
        n_samples=0,
        n_data_points=len(own.elpd),
        scale="log",
        warning=False,
        good_k=GOOD_K,
        elpd_i=xr.DataArray(own.elpd - highest, dims="unit"),
    )


def named_fits(fits: Fits) -> dict[str, Fit]:
    """Return fits under names: given ones, or those of their files or model specs."""
    if isinstance(fits, Mapping):
        return {str(name): _loaded(fit) for name, fit in fits.items()}
    loaded = [_loaded(fit) for fit in fits]
    names = [
        fit.spec.name if isinstance(given, Fit) else PurePath(given).stem
        for given, fit in zip(fits, loaded, strict=True)
    ]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return dict(zip(names, loaded, strict=True))


def compared_with(fit: Fit, others: Fits) -> dict[str, Fit]:
    """Return a fit and others under names; its own is that of its model spec."""
    if not isinstance(others, Mapping):
        return named_fits([fit, *others])
    own = fit.spec.name
    return {own if own not in others else f"{own} (this fit)": fit} | named_fits(others)


def _loaded(fit: Fit | Path) -> Fit:
    return fit if isinstance(fit, Fit) else Fit.load(fit)


def compare(
    fits: "Fits",
    *,
    leave_out: By = "response",
    folds: int | None = None,
    refit: bool = False,
    seed: int = 0,
    jobs: int | None = 1,
    cache: Path | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Compare fits of the same responses by cross-validation, with stacking weights.

    Parameters
    ----------
    fits : mapping of str to Fit or path-like, or sequence of these
        At least two, under the names to show; one is enough where folds are left out. Those of
        a sequence are called by their files, or by their model specs.
    leave_out : {"response", "item", "model"}, default "response"
        What is left out together and then predicted: whether a fit predicts another
        answer of the same models to the same items, a new item, or a new model.
    folds : int, optional
        Parts that are left out in turn, each by a fit without it. Default: for items and
        models 10, or as many as there are; for responses none: they are left out by
        weights (PSIS-LOO), and nothing is fitted again.
    refit : bool, default False
        Fit again without each response whose Pareto k is above 0.7, instead of trusting
        its weights; at most 20 of a fit.
    seed : int, default 0
        Seed of the folds. Fits of the same responses have the same folds.
    jobs : int or None, default 1
        Fits made at the same time; None: one for each core. With several, the program
        that calls this must be guarded by ``if __name__ == "__main__":``.
    cache : path-like, optional
        Folder that keeps what was finished, so that a second run goes on from there.
    progress : bool, default False
        Whether to show what goes on.

    Returns
    -------
    pandas.DataFrame
        One row for each fit, best first: ``fit, elpd, se, p_loo, elpd_diff, diff_se,
        weight, bad_k, left_out, verdict``, and where fits were made again before the
        verdict ``refits, r_hat, divergences``. Standard errors are those of a sum over
        what is left out together: responses to one item, or of one model, are not
        independent.

    Raises
    ------
    UsageError
        If there are too few fits, options do not go together, there is nothing to leave
        out, or more than 20 responses would have to be refitted.
    FitError
        If they are fits of different responses, or cannot be made again from their files:
        those of uncertain contamination cannot.

    Examples
    --------
    >>> compare({})
    Traceback (most recent call last):
        ...
    bayescontam.errors.UsageError: compare: give at least two fits
    """
    work = CrossValidation(seed=seed, jobs=jobs, cache=cache, progress=progress)
    return compare_fits(
        named_fits(fits), LeaveOut(by=leave_out, folds=folds, refit=refit, work=work)
    )
