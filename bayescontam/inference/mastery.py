"""Which concepts a model has: probabilities of solving most tasks, spreads, and counts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam._text import join_list, printable
from bayescontam.data.validation import check_choice, check_level
from bayescontam.errors import UsageError
from bayescontam.inference.ranking import By, quantity_of
from bayescontam.inference.result import Fit
from bayescontam.inference.task_groups import (
    FEW,
    PEOPLE,
    TOGETHER,
    On,
    Unit,
    groups_of,
    interval_of,
    named,
)
from bayescontam.specs.base import suggest

MOST = 0.8
"""Share of a group that is most of it: eight tasks of ten."""
ABOVE = (0.3, 0.6, 0.9)
"""Thresholds of accuracy, as published (Moskvichev et al. 2023, section 8.1)."""
MOST_TRIED = 10_000
"""New tasks that are tried at most, where their number is given."""
_PAIR = ["model", "benchmark"]


@dataclass(frozen=True, eq=False)
class Mastery:
    """Which concepts each model has. Made by `concept_mastery`.

    Attributes
    ----------
    table : pandas.DataFrame
        One row for each model and concept that it answered: ``model, benchmark, concept``;
        ``units`` (tasks or items of the group), ``solved`` (of them, as observed: whole tasks;
        NaN where items were answered several times), ``needed`` (that are to be solved) of
        ``number`` (tried); ``p_mastered``, the probability of at least so many;
        ``expected, expected_low, expected_high``, how many are solved (posterior predictive mean
        and interval); ``p_solved, p_solved_low, p_solved_high``, the probability of solving one,
        and its interval; ``spread, spread_low, spread_high``, the standard deviation of
        probabilities among the items of the group; and ``verdict``, empty, or why numbers of the
        row are NaN.
    above : pandas.DataFrame
        One row for each ``model, benchmark, threshold``: of how many ``concepts`` the ability is
        above it, ``above, above_low, above_high`` (posterior mean and interval of the number),
        ``p_all`` (probability that it is all of them) and ``raw_above`` (of how many the observed
        score is).
    differences : pandas.DataFrame
        One row for each ``benchmark, concept, model, other``: ``difference`` of abilities with
        ``difference_low, difference_high``, and ``p_better``, the probability that `model` is
        better, equal draws counted half. Only where models can be compared; see `Fit.ranked`.
    unit : str
        ``"task"`` or ``"item"``.
    on : str
        ``"new"`` or ``"same"``.
    by : str
        Which accuracy it is of: ``"accuracy"``, ``"genuine_ability"`` or
        ``"genuine_ability_direct"``.
    level : float
        Probability of the intervals.
    unchecked : list of str
        Models with several trials of items of one task: whether a model solves items of a task
        together is tested with single answers alone.

    See Also
    --------
    concept_mastery : Makes one; with an example.
    """

    table: pd.DataFrame
    above: pd.DataFrame
    differences: pd.DataFrame
    unit: Unit
    on: On
    by: By
    level: float
    unchecked: list[str]

    def sentences(self) -> list[str]:
        """Return what is computed, and which numbers are withheld and why."""
        what = f"{self.unit}s"
        tried = (
            f"new {what} of the concept, like those of the table"
            if self.on == "new"
            else f"the same {what}, answered once more"
        )
        whole = " (a task is solved if all of its items are)" if self.unit == "task" else ""
        lines = [f"p_mastered: probability of solving at least `needed` of {tried}{whole}."]
        if self.on == "same":
            lines.append(
                "Answers are drawn anew: of a model that gives the same answer each time only new"
                f" {what} are informative."
            )
        for verdict, rows in self.table.groupby("verdict", sort=False):
            if not verdict:
                continue
            kind = "concept" if verdict == FEW else "model"
            names = [printable(str(name), 60) for name in rows[kind].unique()]
            lines.append(f"{_EXPLAINED[str(verdict)]} {kind.capitalize()}s: {join_list(names, 8)}.")
        if self.unchecked:
            names = [printable(name, 60) for name in self.unchecked]
            lines.append(
                "Not checked: whether these models solve the items of one task together more often"
                " than the fit expects, for which single answers are needed, not numbers of right"
                f" ones of several trials. Models: {join_list(names, 8)}."
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, texts and numbers, for JSON."""
        return {
            "unit": self.unit, "on": self.on, "by": self.by, "level": self.level,
            "concepts": _records(self.table), "above": _records(self.above),
            "differences": _records(self.differences), "unchecked": self.unchecked,
            "sentences": self.sentences(),
        }  # fmt: skip


_EXPLAINED = {
    TOGETHER: (
        "Withheld: these models solve the items of one task together more often than the fit"
        " expects, which has no effect of a model on a task; probabilities of whole tasks would be"
        " too low. Score by task (import arc-predictions --by task) and fit again, or count items"
        " (unit = 'item', --unit item)."
    ),
    PEOPLE: (
        "Withheld: one person solves several items of a task more often than the product of mean"
        " accuracies, since answers of one person depend on each other. Count items (unit ="
        " 'item', --unit item)."
    ),
    FEW: "Withheld: one task does not show how tasks of the concept differ.",
}


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    plain = table.astype(object).where(table.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]


def concept_mastery(
    fit: Fit,
    at_least: float = MOST,
    *,
    unit: Unit | None = None,
    on: On = "new",
    number: int | None = None,
    above: float | Iterable[float] = ABOVE,
    by: By | None = None,
    against: str | None = None,
    level: float | None = None,
) -> Mastery:
    """Estimate which concepts each model has: how probably it solves most tasks of a group.

    Parameters
    ----------
    fit : Fit
        Of a model spec whose abilities are by concept, such as ``concepts``.
    at_least : float or int, default 0.8
        How many must be solved: a whole number, or a share in (0, 1] as a float, of which the
        number is rounded up.
    unit : {"task", "item"}, optional
        What is counted. A task is solved if all of its items are: rows of the table with one value
        of the column ``task``, such as the test inputs of an ARC task. Default: tasks, if the
        table had this column, else items.
    on : {"new", "same"}, default "new"
        ``"new"``: on other tasks of the concept (or items, each of a task of its own), of which
        those of the table are a sample. It answers whether the model has the concept. ``"same"``:
        on the very tasks of the table, if an equal model answered them once more. It answers how
        far the observed number is chance.
    number : int, optional
        How many new ones are tried, up to 10,000; default: as many as the group has. Not with
        ``"same"``.
    above : float or iterable of float, default (0.3, 0.6, 0.9)
        Thresholds in (0, 1) for the number of concepts whose ability is above.
    by : {"genuine_ability", "genuine_ability_direct", "accuracy"}, optional
        Whether models are as contaminated as they are (accuracy), or not; default: genuine
        ability, or accuracy where the fit has no contamination. See `rank_models`.
    against : str, optional
        Model that all others are compared with, concept by concept; default: all pairs.
    level : float, optional
        Probability of the equal-tailed intervals; default: that of the fit.

    Returns
    -------
    Mastery

    Raises
    ------
    UsageError
        If abilities of the fit are not by concept, or an option is not allowed.
    FitError
        If the responses cannot be rebuilt from the fit.

    Notes
    -----
    Given a draw from the posterior, answers to different items are independent. On the same
    tasks the number of solved ones then has a Poisson binomial distribution. New tasks are drawn
    from the group's by the Bayesian bootstrap, and the number is binomial. Both are averaged over
    draws. If a model solves the items of one task together more often than the fit expects
    (posterior predictive probability below 0.01 of the residuals' covariance within tasks),
    numbers of tasks are withheld. This needs single answers: of repeated trials it is not tested
    (see ``unchecked``). Where people answered several items of a task, numbers of tasks are
    withheld too: answers of one person depend on each other.

    A fit has no effect of a model on an item that it answered once: its answer to the same item
    would be drawn anew. Of a model that always gives the same answer only ``"new"`` is meaningful.
    Where ``n_trials`` counts people, an answer is that of one of them, chosen anew for each item.

    References
    ----------
    Concept groups: Moskvichev, Odouard & Mitchell (2023), arXiv:2305.07141, section 3. Bayesian
    bootstrap: Rubin (1981), doi:10.1214/aos/1176345338. Dependence within groups of items: Bradlow,
    Wainer & Wang (1999), doi:10.1007/BF02294533.

    Examples
    --------
    >>> import bayescontam
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "model": ["able"] * 30 + ["not"] * 30, "benchmark": "b",
    ...     "item": [f"i{i}" for i in range(30)] * 2, "correct": [1] * 29 + [0] * 31,
    ...     "concept": (["above"] * 15 + ["below"] * 15) * 2,
    ... })
    >>> fit = bayescontam.fit(table, "concepts", seed=1, draws=200, tune=200, chains=2)
    >>> found = bayescontam.concept_mastery(fit, 10).table
    >>> [bool(p > 0.5) for p in found["p_mastered"]]
    [True, True, False, False]
    """
    if "estimands_by_concept" not in fit.data:
        raise UsageError(
            f"the abilities of this fit (model spec '{printable(fit.spec.name, 60)}') are not by"
            " concept; fit a table with the column 'concept' with model = 'concepts' (--model"
            " concepts)"
        )
    check_choice("on", on, On)
    by, level = quantity_of(fit, by), fit.level if level is None else level
    check_level(level)
    thresholds = _thresholds(above)
    _check_numbers(at_least, number, on)
    unit = _unit(fit, unit, on)
    differences = _differences(fit, by, against, level)
    groups = list(groups_of(fit, unit, on, by))
    table = pd.DataFrame([group.row(at_least, number, level) for group in groups])
    counts = ("solved", "expected_low", "expected_high")
    return Mastery(
        table=table.astype(dict.fromkeys(counts, "Int64")),
        above=_above(fit, by, thresholds, level),
        differences=differences,
        unit=unit,
        on=on,
        by=by,
        level=level,
        unchecked=list(dict.fromkeys(each.model for each in groups if not each.checked)),
    )


def _thresholds(above: float | Iterable[float]) -> list[float]:
    given: list[Any] = [above]
    if not isinstance(above, str) and isinstance(above, Iterable):
        given = list(above)
    wrong = [each for each in given if not (isinstance(each, Real) and 0 < float(each) < 1)]
    if wrong:
        raise UsageError(f"above: got {_shown(wrong[0])}; allowed are numbers between 0 and 1")
    return list(dict.fromkeys(map(float, given)))


def _shown(value: Any) -> str:
    return printable(f"{value:g}" if isinstance(value, float) else repr(value), 60)


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def _check_numbers(at_least: float, number: int | None, on: On) -> None:
    share = isinstance(at_least, float) and 0 < at_least <= 1
    if not (_whole(at_least) or share):
        raise UsageError(
            f"at_least: got {_shown(at_least)}; allowed are a whole number from 1 on (such as 8),"
            " or a share above 0 and up to 1, with a point (such as 0.8)"
        )
    if number is not None and on == "same":
        raise UsageError("number: goes with on = 'new' (--on new); the same tasks are as many")
    if number is not None and not (_whole(number) and number <= MOST_TRIED):
        raise UsageError(
            f"number: got {_shown(number)}; allowed is a whole number from 1 to {MOST_TRIED:,}"
        )


def _unit(fit: Fit, unit: Unit | None, on: On) -> Unit:
    known = "task_of_item" in fit.data["constant_data"]
    if unit is None:
        unit = "task" if known else "item"
    check_choice("unit", unit, Unit)
    if unit == "task" and not known:
        raise UsageError(
            "unit: got 'task', but the fit does not have the tasks of its items; fit a table with"
            " the column 'task', or count items (unit = 'item', --unit item)"
        )
    if fit.spec.likelihood.trials != "items":
        return unit
    if unit == "task" or on == "same":
        raise UsageError(
            "rows of this fit count different items together: allowed are unit = 'item' and"
            " on = 'new' (--unit item --on new)"
        )
    return unit


def _above(fit: Fit, by: By, thresholds: list[float], level: float) -> pd.DataFrame:
    """Return of how many concepts abilities lie above thresholds."""
    rows = []
    raw = _raw_scores(fit)
    for benchmark, values, concepts in _by_benchmark(fit, by):
        for m, model in enumerate(values["model"].to_numpy()):
            draws = values.to_numpy()[:, :, m].reshape(-1, len(concepts))
            draws = draws[:, ~np.isnan(draws[0])]
            if not draws.shape[1]:
                continue
            own = raw.loc[(model, benchmark)]
            for threshold in thresholds:
                count = (draws > threshold).sum(axis=1)
                tails = [(1 - level) / 2, (1 + level) / 2]
                low, high = np.quantile(count, tails, method="inverted_cdf")
                rows.append({
                    "model": str(model), "benchmark": benchmark, "threshold": threshold,
                    "concepts": draws.shape[1], "above": float(count.mean()),
                    "above_low": int(low), "above_high": int(high),
                    "p_all": float((count == draws.shape[1]).mean()),
                    "raw_above": int((own > threshold + 1e-12).sum()),
                })  # fmt: skip
    columns = [*_PAIR, "threshold", "concepts", *named("above"), "p_all", "raw_above"]
    return pd.DataFrame(rows, columns=columns)


def _raw_scores(fit: Fit) -> "pd.Series[float]":
    from bayescontam.inference.tables import by_concept  # which imports rankings, as this does

    table = by_concept(fit)
    return table.set_index([*_PAIR, "concept"])["raw_accuracy"].sort_index()


def _by_benchmark(fit: Fit, by: By) -> Iterator[tuple[str, xr.DataArray, list[str]]]:
    """Yield each benchmark, the draws of abilities by its concepts, and their names."""
    values = fit.data["estimands_by_concept"][by].transpose("chain", "draw", "model", "concept")
    units = fit.data["constant_data"].to_dataset()
    owner = units["benchmark_of_concept"].to_numpy()
    for b, name in enumerate(units["benchmark"].to_numpy()):
        part = values.isel(concept=np.flatnonzero(owner == b))
        yield str(name), part, [str(each) for each in part["concept"].to_numpy()]


def _differences(fit: Fit, by: By, against: str | None, level: float) -> pd.DataFrame:
    """Return how models differ, concept by concept."""
    ranked, rows = fit.ranked(), []
    names = [str(name) for name in fit.data["estimands"]["model"].to_numpy()]
    if against is not None and against not in names:
        shown = [printable(name, 60) for name in names]
        raise UsageError(
            f"against: got '{printable(against, 60)}', which the fit does not have;"
            f" {suggest(against, shown)}"
        )
    for benchmark, values, concepts in _by_benchmark(fit, by):
        if not ranked[benchmark]:
            continue
        draws = values.to_numpy()
        for c, concept in enumerate(concepts):
            own = draws[:, :, :, c].reshape(-1, len(names))
            answered = np.flatnonzero(~np.isnan(own[0]))
            for m, o in combinations(answered, 2):
                if against is not None and against not in (names[m], names[o]):
                    continue
                if against == names[m]:
                    m, o = o, m
                gap = own[:, m] - own[:, o]
                better = float(((gap > 0) + (gap == 0) / 2).mean())
                ends = dict(zip(named("difference"), interval_of(gap, level), strict=True))
                labels = {"model": names[m], "other": names[o]}
                rows.append({"benchmark": benchmark, "concept": concept} | labels | ends
                            | {"p_better": better})  # fmt: skip
    columns = ["benchmark", "concept", "model", "other", *named("difference"), "p_better"]
    return pd.DataFrame(rows, columns=columns)
