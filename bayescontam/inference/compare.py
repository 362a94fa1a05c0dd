"""Comparison of fits of the same responses by their predictive accuracy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

import arviz as az
import numpy as np
import pandas as pd
from arviz_stats.utils import ELPDData

from bayescontam._text import join_list, printable
from bayescontam.data.responses import Path
from bayescontam.errors import FitError, UsageError
from bayescontam.inference.crossval import FEWEST_DRAWS, By, CrossValidation, kfold, reloo
from bayescontam.inference.loo import GOOD_K, stored_loo, sum_se
from bayescontam.inference.result import Fit

Fits = Mapping[str, Fit | Path] | Sequence[Fit | Path]
"""Several fits, or files of them, with or without names."""
FOLDS = 10
"""Folds where items or models are left out, and no number is given."""
FEW_RESPONSES, FEW_GROUPS = 100, 10
"""Numbers of responses, and of items or models, below which standard errors say little."""


def comparison_table(elpds: Mapping[str, ELPDData], by: By) -> pd.DataFrame:
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
    weights = _stacking(elpds)
    best = elpds[str(weights.index[0])]
    rows = [_row(str(name), elpds[str(name)], best, weight, by) for name, weight in weights.items()]
    if len(rows) == 1:
        rows[0]["verdict"] = " ".join(
            ["nothing to compare it with.", *_doubts(best, by), *_few(best, by)]
        )
    return pd.DataFrame(rows)


def _stacking(elpds: Mapping[str, ELPDData]) -> "pd.Series[float]":
    """Return stacking weights under the names of fits, best fit first."""
    if len(elpds) == 1:
        return pd.Series(1.0, index=list(elpds))
    # Weights do not change with the unit of the densities; those of many responses to an
    # item together could not be held by floating-point numbers.
    highest = np.stack([one.elpd_i.to_numpy() for one in elpds.values()]).max(axis=0)
    scaled = {name: replace(one, elpd_i=one.elpd_i - highest) for name, one in elpds.items()}
    return az.compare(scaled, round_to="none")["weight"]


def _row(name: str, own: ELPDData, best: ELPDData, weight: float, by: By) -> dict[str, object]:
    behind = own.elpd_i.copy(data=best.elpd_i.to_numpy() - own.elpd_i.to_numpy())
    difference, error = float(behind.sum()), sum_se(behind)
    row: dict[str, object] = {
        "fit": name,
        "elpd": own.elpd,
        "se": own.se,
        "p_loo": own.p,
        "elpd_diff": difference,
        "diff_se": error,
        "weight": weight,
        "bad_k": _unreliable(own),
        "left_out": by,
    }
    made = own.elpd_i.attrs
    row |= {key: made[key] for key in ("refits", "r_hat", "divergences") if key in made}
    doubts = [*_doubts(own, by)]
    if own is best:
        verdict = "best;" if doubts else "best"
    elif difference < 4:
        verdict = "as good as the best: a difference below 4 is inconclusive."
    elif difference < 2 * error:
        verdict = "not distinguishable from the best: the difference is below 2 standard errors."
    else:
        verdict = "predicts worse than the best."
    few = [] if own is best else _few(own, by)
    return row | {"verdict": " ".join([verdict, *doubts, *few])}


def _unreliable(own: ELPDData) -> int:
    return int((~own.elpd_i["reliable"]).sum())


def _doubts(own: ELPDData, by: By) -> Iterator[str]:
    """Yield what makes figures doubtful."""
    made, what = own.elpd_i.attrs, "items" if by == "item" else "responses"
    if bad := _unreliable(own):
        few = f"were predicted by fewer than {FEWEST_DRAWS} draws"
        why = few if made else f"have Pareto k > {GOOD_K:g}"
        yield f"{bad} {what} {why}: unreliable there."
    if made and made["failed"]:
        yield (
            f"{made['failed']} of {made['refits']} fits that were made again failed their checks"
            f" (R-hat up to {made['r_hat']:.3f}, {made['divergences']} divergences): unreliable."
        )


def _few(own: ELPDData, by: By) -> Iterator[str]:
    groups = len(np.unique(own.elpd_i["group"]))
    if groups < FEW_GROUPS:
        yield f"Only {groups} {by}s were left out: standard errors say little."
    elif groups < FEW_RESPONSES and by != "model":
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
    return fit if isinstance(fit, Fit) else Fit.from_netcdf(fit)


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
    if refit and (leave_out != "response" or folds is not None):
        raise UsageError(
            "compare: refit is for single responses without folds, where PSIS-LOO fails; leave"
            " it out"
        )
    work = CrossValidation(seed=seed, jobs=jobs, cache=cache, progress=progress)
    named = named_fits(fits)
    if folds is None and leave_out != "response":
        folds = FOLDS
    if len(named) < (1 if folds is not None else 2):
        raise UsageError("compare: give at least two fits")
    _refuse_different_data(named)
    elpds: Mapping[str, ELPDData]
    if folds is not None:
        elpds = kfold(named, leave_out, folds, work)
    elif refit:
        elpds = reloo(named, work)
    else:
        elpds = {name: stored_loo(fit.data) for name, fit in named.items()}
    return comparison_table(elpds, leave_out)
