"""Models in order of ability, on one benchmark or across several."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice, product
from string import ascii_lowercase
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayescontam._format import probability
from bayescontam._text import join_list, printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.validation import check_level
from bayescontam.errors import UsageError
from bayescontam.inference.result import Fit
from bayescontam.inference.summary import (
    describe,
    p_all_differences,
    p_best,
    p_superior,
    ranks,
    simultaneous_intervals,
)
from bayescontam.model.effect_names import TOTAL, EffectNames
from bayescontam.specs.base import suggest

Group = tuple[int, ...]
By = Literal["genuine_ability", "genuine_ability_direct", "accuracy"]
Weighting = Literal["benchmark", "item"]
WEIGHTINGS: tuple[Weighting, ...] = ("benchmark", "item")
MOST_LETTERED = 200
"""Models up to which groups have letters: of 1,500 models there would be hundreds."""
MOST_PAIRED = 200
"""Models up to which files have every pair; of more, pairs that are near in rank."""
NEAR = 25
"""Places in rank within which a pair is near."""


@dataclass(frozen=True, eq=False)
class Compared:
    """Models that can be compared on some benchmarks."""

    models: NDArray[Any]  # those that answered every one of the benchmarks
    # rows, columns: positions of the models, and of the benchmarks, in the fit
    rows: IntArray
    columns: IntArray
    shares: "pd.Series[float]"  # of each benchmark in an average, by its name; they sum to 1
    # benchmarks that each model missed which did not answer all
    left_out: Mapping[str, tuple[str, ...]]
    items: pd.DataFrame  # number of items that a model answered, by model and benchmark
    sizes: "pd.Series[float]"  # number of items of each benchmark in the table

    @property
    def same_items(self) -> bool:
        """Whether the models answered the same items, so that raw accuracies can be compared."""
        items = self.items.loc[list(self.models), list(self.shares.index)]
        return bool((items == self.sizes[list(self.shares.index)]).all(axis=None))

    def sentences(self) -> Iterator[str]:
        """Yield what is averaged over, and where the comparison is not one of like with like."""
        names = [str(name) for name in self.shares.index]
        if len(names) > 1:
            shares = self.shares.to_numpy()
            alike = np.ptp(shares) < 1e-12
            span = f"{shares.min():.2g} to {shares.max():.2g} each"
            weighed = "with equal weights" if alike else f"with weights by items, {span}"
            yield f"Averages are over {len(names)} benchmarks, {weighed}: {join_list(names)}."
        if self.left_out:
            missed = [
                f"'{printable(model, 60)}' (did not answer {join_list(names, 3)})"
                for model, names in self.left_out.items()
            ]
            text = "Left out, because models are compared on the same benchmarks only:"
            yield f"{text} {_first(missed)}."
        items = self.items.loc[list(self.models), list(self.shares.index)]
        partial = [
            f"'{printable(str(model), 60)}' {items.loc[model, name]:,.0f} of"
            f" {self.sizes[name]:,.0f} of '{printable(str(name), 60)}'"
            for name in items.columns
            for model in items.index[items[name] < self.sizes[name]]
        ]
        if partial:
            yield (
                "Abilities are averages over all items of a benchmark; on those that a model did"
                " not answer they are predicted from its ability and the items' difficulty."
                f" Answered: {_first(partial)}. Raw accuracies are over different items, so that"
                " they are not ranked."
            )


def _first(names: list[str], shown: int = 5) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def compared_models(
    fit: Fit, benchmarks: Iterable[str] | None, *, by_item: bool = False
) -> Compared:
    """Return the models that answered all of some benchmarks."""
    known = [str(name) for name in fit.data["estimands"]["benchmark"].to_numpy()]
    wanted = known if benchmarks is None else list(benchmarks)
    _refuse_names(wanted, known)
    _refuse_incomparable(fit, wanted)
    columns = np.array([known.index(name) for name in wanted], dtype=np.int64)
    models = np.array([str(n) for n in fit.data["estimands"]["model"].to_numpy()], dtype=object)
    answered = fit.raw_accuracy().transpose("model", "benchmark").notnull().to_numpy()[:, columns]
    rows = np.flatnonzero(answered.all(axis=1))
    if not len(rows):
        patterns, count = np.unique(answered, axis=0, return_counts=True)
        shared = patterns[int(count.argmax())]  # by most models
        names = [name for name, has in zip(wanted, shared, strict=True) if has]
        raise UsageError(
            f"no model answered all {len(wanted)} benchmarks ({join_list(wanted)}), and models are"
            " compared on the same benchmarks only; name benchmarks that some answered together,"
            f" such as {join_list(names)}"
        )
    items, sizes = _items(fit)
    share = pd.Series(sizes[columns] if by_item else 1.0, index=pd.Index(wanted, dtype=object))
    return Compared(
        models=models[rows],
        rows=rows,
        columns=columns,
        shares=share / share.sum(),
        left_out={
            models[row]: tuple(np.array(wanted, dtype=object)[~answered[row]])
            for row in np.flatnonzero(~answered.all(axis=1))
        },
        items=pd.DataFrame(items, index=models, columns=known),
        sizes=pd.Series(sizes, index=known),
    )


def _refuse_incomparable(fit: Fit, wanted: list[str]) -> None:
    """Refuse benchmarks in which models answered different items without common ground."""
    ranked = fit.ranked()
    if incomparable := [name for name in wanted if not ranked[name]]:
        which = join_list(printable(name, 60) for name in incomparable)
        known = [name for name in wanted if ranked[name]]
        raise UsageError(
            f"models answered different items of {which}, and this fit's estimands there are"
            " averages over the items that each model answered, or no shared items link the"
            " models: they cannot be ranked. Fit with --items all (items='all') and a model spec"
            " that has item difficulties"
            + (f", or name other benchmarks, such as {join_list(known, 3)}" if known else "")
        )


def _refuse_names(wanted: list[str], known: list[str]) -> None:
    if not wanted:
        raise UsageError("benchmark: got none; name at least one, or leave it out for all")
    for name in wanted:
        if name not in known:
            shown = [printable(label, 60) for label in known]
            raise UsageError(
                f"benchmark: got '{printable(name, 60)}', which the fit does not have;"
                f" {suggest(name, shown)}"
            )
        if wanted.count(name) > 1:
            raise UsageError(f"benchmark: '{printable(name, 60)}' is named twice; name each once")


def _items(fit: Fit) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return numbers of items, dims (model, benchmark) as answered, and (benchmark,)."""
    data = fit.data["constant_data"].to_dataset()
    model, benchmark, item = (
        data[f"{name}_of_response"].to_numpy() for name in ("model", "benchmark", "item")
    )
    # A row that counts several items stands for as many; other rows have weight 1. An item that
    # several people of one model answered is one.
    pairs = pd.DataFrame({"model": model, "benchmark": benchmark, "item": item})
    first = ~pairs.duplicated().to_numpy()
    weight = data["weight"].to_numpy()
    answered = np.zeros((data.sizes["model"], data.sizes["benchmark"]))
    np.add.at(answered, (model[first], benchmark[first]), weight[first])
    of_item = np.zeros(data.sizes["item"])
    np.maximum.at(of_item, item, weight)
    sizes = np.bincount(
        data["benchmark_of_item"].to_numpy(), of_item, minlength=data.sizes["benchmark"]
    )
    return answered, sizes


def indistinguishable_groups(distinct: NDArray[np.bool_]) -> list[Group]:
    """Return the groups of models no two of which can be distinguished.

    >>> distinct = np.array([[0, 0, 1, 1], [0, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 0]], dtype=bool)
    >>> indistinguishable_groups(distinct)
    [(0, 1), (1, 2), (3,)]
    """
    # Two models share a group if and only if they cannot be distinguished. The groups are maximal
    # cliques that cover every edge of the graph of pairs that cannot be distinguished, grown one by
    # one from the first pair that none has yet. That takes polynomial time, where all maximal
    # cliques, or the fewest that are enough, may not. Piepho (2004), doi:10.1198/1061860043515;
    # Gramm, Guo, Hüffner, Niedermeier, Piepho & Schmid (2007), doi:10.1016/j.csda.2006.09.035.
    alike = ~distinct
    np.fill_diagonal(alike, val=True)
    open_pairs = alike.copy()
    groups: list[Group] = []
    while open_pairs.any():
        first, second = np.unravel_index(int(open_pairs.argmax()), open_pairs.shape)
        members = _grown(alike, open_pairs, {int(first), int(second)})
        open_pairs[np.ix_(members, members)] = False
        groups.append(tuple(members))
    # A model's pair with itself is open until a group has it: one alone gets its own group.
    return sorted(_needed(groups, len(distinct)), key=lambda group: (group[0], group[-1], group))


def _grown(alike: NDArray[np.bool_], open_pairs: NDArray[np.bool_], start: set[int]) -> list[int]:
    """Add models until none is left that cannot be distinguished from all members."""
    members = sorted(start)
    able = alike[members].all(axis=0)
    able[members] = False
    # How many pairs that no group has each model would bring.
    gain = open_pairs[members].sum(axis=0, dtype=np.int64)
    while able.any():
        chosen = int(np.where(able, gain, -1).argmax())  # the most, and of these the first
        members.append(chosen)
        gain += open_pairs[chosen]
        able &= alike[chosen]
        able[chosen] = False
    return sorted(members)


def _needed(groups: list[Group], models: int) -> Iterator[Group]:
    """Yield the groups that hold a pair that no other has, later ones given up first."""
    held = np.zeros((models, models), dtype=np.int32)  # by how many groups each pair is
    pairs = [np.ix_(group, group) for group in groups]
    for each in pairs:
        held[each] += 1
    needed = list(range(len(groups)))
    for i in reversed(range(len(groups))):
        if (held[pairs[i]] > 1).all():
            held[pairs[i]] -= 1
            needed.remove(i)
    return (groups[i] for i in needed)


def compact_letters(size: int) -> list[str]:
    """Return names of groups: a to z, then aa, ab and so on.

    >>> compact_letters(28)[::9]
    ['a', 'j', 's', 'ab']
    """
    letters = (name for length in count(1) for name in product(ascii_lowercase, repeat=length))
    return ["".join(name) for name in islice(letters, size)]


def letters_of(groups: list[Group], models: int) -> list[str]:
    """Return the letters of each model's groups, a space between them.

    >>> letters_of([(0, 1), (1, 2)], 3)
    ['a', 'a b', 'b']
    """
    named = list(zip(compact_letters(len(groups)), groups, strict=True))
    return [" ".join(name for name, group in named if model in group) for model in range(models)]


@dataclass(frozen=True, eq=False)
class Ranking:
    """Models in order, and how sure each part of the order is. Made by `rank_models`.

    Attributes
    ----------
    table : pandas.DataFrame
        One row for each model, the best expected rank first.

        ``model``; ``groups``: letters, two models share one if and only if they cannot be
        distinguished, empty where there are more than 200 models; ``n_alike``: from how many
        other models this one cannot be distinguished;
        ``genuine_ability`` (or ``genuine_ability_direct``, or ``accuracy``: that which is
        ranked): posterior mean of the average over benchmarks, with ``_sd``, ``_low`` and
        ``_high`` (equal-tailed interval); ``rank`` (median, 1 = best) with
        ``rank_low, rank_high`` (interval of this rank)
        and ``rank_joint_low, rank_joint_high`` (intervals that hold all ranks at once);
        ``mean_rank``; ``p_best``; ``raw_accuracy``: the observed score, averaged alike;
        ``rank_raw``: its rank, ties share the better one; ``raw_ties``: how many other
        models have the same score; ``places_gained``: places by which ``rank`` is better
        (negative: worse) than those that models of this score share; ``p_rank_better,
        p_rank_worse``: probabilities that the rank is truly better, or worse, than those.
        NaN in these five where models answered different items: raw scores cannot be
        compared then.
    p_better : pandas.DataFrame
        Square, in the order of the table: probability that the model of the row is better
        than the model of the column, ties counted half. NaN on the diagonal.
    groups : tuple of tuple of str
        Models of each letter; empty where there are more than 200 models.
    compared : Compared
        Models and benchmarks that are compared, and which are not.
    by : str
        What is ranked: ``"genuine_ability"``, ``"genuine_ability_direct"`` or
        ``"accuracy"``.
    weights : str
        ``"benchmark"`` or ``"item"``.
    level : float
        Probability of intervals, and from which a pair counts as distinguished.
    p_orders_hold : float
        Posterior probability that the orders of all distinguished pairs are right at once.

    See Also
    --------
    rank_models : Makes one; with an example.
    """

    table: pd.DataFrame
    p_better: pd.DataFrame
    groups: tuple[tuple[str, ...], ...]
    compared: Compared
    by: By
    weights: Weighting
    level: float
    p_orders_hold: float

    def pairs(self) -> pd.DataFrame:
        """Return one row for each pair of models.

        Returns
        -------
        pandas.DataFrame
            ``model, other`` (lower in the table), ``p_better`` (that `model` is better)
            and ``distinguished``.
        """
        models = self.table["model"].to_numpy()
        first, second = np.triu_indices(len(models), 1)
        better = self.p_better.to_numpy()[first, second]
        return pd.DataFrame(
            {
                "model": models[first],
                "other": models[second],
                "p_better": better,
                "distinguished": distinguished(self.p_better.to_numpy(), self.level)[first, second],
            }
        )

    def near(self) -> pd.DataFrame:
        """Return both orders of each pair of models, of many models of those near in rank.

        Returns
        -------
        pandas.DataFrame
            ``model, other`` and the ``probability`` that `model` is better. Of more than 200
            models pairs that are at most 25 places of the table apart.
        """
        models, better = self.table["model"].to_numpy(), self.p_better.to_numpy()
        place = np.arange(len(models))
        gap = np.abs(place[:, None] - place)
        within = NEAR if len(models) > MOST_PAIRED else len(models)
        first, second = np.nonzero((gap > 0) & (gap <= within))
        columns = {"model": models[first], "other": models[second]}
        return pd.DataFrame(columns | {"probability": better[first, second]})

    def sentences(self) -> list[str]:
        """Return what is compared, how far the order can be trusted, and who is left out."""
        return [*self._orders(), *self.compared.sentences()]

    def _orders(self) -> list[str]:
        better = self.p_better.to_numpy()
        above = np.triu_indices(len(better), 1)
        chance = np.maximum(better, better.T)[above]
        if not len(chance):
            return []
        claimed = chance[chance >= self.level]
        of = f"{len(chance):,} pair{'s' if len(chance) > 1 else ''} of models"
        if not len(claimed):
            return [f"None of {of} can be distinguished with a probability of {self.level:g}."]
        count = float((1 - claimed).sum())
        wrong = f"{count:,.0f}" if count >= 100 else f"{count:.2g}"
        wrong = wrong if count >= 0.001 else "fewer than 0.001"
        right = probability(self.p_orders_hold).replace("<", "below").replace(">", "above")
        few = f" ({len(claimed) / len(chance):.0%})" if len(chance) > 100 else ""
        lines = [
            f"{len(claimed):,} of {of}{few} can be distinguished, each with a probability of at"
            f" least {self.level:g}. Expected wrong orderings: {wrong}. Probability that"
            f" all are right: {right}."
        ]
        if 2 * len(claimed) < len(chance):
            lines.append(
                "Most pairs cannot be distinguished: a place in this order says little without its"
                " interval."
            )
        if len(self.table) > MOST_LETTERED:
            lines.append(
                f"Groups have letters for up to {MOST_LETTERED} models; n_alike says from how many"
                " others each model cannot be distinguished."
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, texts and numbers, for JSON."""
        return {
            "by": self.by,
            "weights": self.weights,
            "level": self.level,
            "benchmarks": self.compared.shares.to_dict(),
            "models": self.table.astype(object).where(self.table.notna(), None).to_dict("records"),
            "groups": dict(
                zip(compact_letters(len(self.groups)), map(list, self.groups), strict=True)
            ),
            "p_better": self.near().to_dict("records"),
            "p_better_within": NEAR if len(self.table) > MOST_PAIRED else None,
            "p_orders_hold": self.p_orders_hold,
            "left_out": {name: list(missed) for name, missed in self.compared.left_out.items()},
            "sentences": self.sentences(),
        }


def rank_models(
    fit: Fit,
    benchmark: str | Iterable[str] | None = None,
    *,
    by: By | None = None,
    weights: Weighting = "benchmark",
    level: float | None = None,
) -> Ranking:
    """Rank models by what they can do, on one benchmark or on average over several.

    Parameters
    ----------
    fit : Fit
    benchmark : str or iterable of str, optional
        Benchmarks to average over; default: all. Only models that answered every one of
        them are ranked; the others are named in ``compared.left_out``. All must be such
        that models can be compared on them, see `Fit.ranked`.
    by : {"genuine_ability", "genuine_ability_direct", "accuracy"}, optional
        What is ranked, on the probability scale. ``"genuine_ability"`` is without the total
        effect of contamination or, where the fit has no spillover, stands for
        ``"genuine_ability_direct"``, which is without the direct effect. Default: genuine
        ability, or accuracy where the fit has no contamination.
    weights : {"benchmark", "item"}, default "benchmark"
        What counts alike in the average: each benchmark, or each item of any.
    level : float, optional
        Probability of the equal-tailed and of the joint intervals, and the probability of
        one order from which two models count as distinguished. Default: that of the fit.

    Returns
    -------
    Ranking

    Raises
    ------
    UsageError
        If a benchmark is not there, no model answered all of them, or an option is not
        allowed.

    Notes
    -----
    Averages are taken within each draw of the joint posterior, so that whatever makes
    models' abilities move together is counted. The probability that two models are
    distinguished holds for each pair by itself.

    References
    ----------
    Groups as letters: Piepho (2004), doi:10.1198/1061860043515. Joint intervals: Besag,
    Green, Higdon & Mengersen (1995), doi:10.1214/ss/1177010123.

    Examples
    --------
    >>> import bayescontam
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "model": ["good"] * 40 + ["bad"] * 40, "benchmark": "b",
    ...     "item": [f"i{i}" for i in range(40)] * 2, "correct": [1] * 35 + [0] * 40 + [1] * 5,
    ...     "contamination": [0.1, 0.6] * 40,
    ... })
    >>> fit = bayescontam.fit(table, "single", seed=1, draws=200, tune=200, chains=2)
    >>> ranking = bayescontam.rank_models(fit, "b")
    >>> ranking.table[["model", "groups", "rank", "rank_raw"]].values.tolist()
    [['good', 'a', 1.0, 1], ['bad', 'b', 2.0, 2]]
    >>> float(ranking.p_better.loc["good", "bad"]) > 0.95
    True
    """
    by, level = quantity_of(fit, by), fit.level if level is None else level
    check_weights(weights)
    check_level(level)
    names = [benchmark] if isinstance(benchmark, str) else benchmark
    compared = compared_models(fit, names, by_item=weights == "item")
    draws = averaged(fit.data["estimands"].to_dataset()[by], compared)
    raw = averaged(fit.raw_accuracy(), compared)
    placed = ranks(draws, axis=1)
    order = np.lexsort((-draws.mean(axis=0), placed.mean(axis=0)))
    draws, placed, raw = draws[:, order], placed[:, order], raw[order]
    models = pd.Index(compared.models[order], name="model")
    better = p_superior(draws)
    differ = distinguished(better, level)
    groups = indistinguishable_groups(differ) if len(models) <= MOST_LETTERED else []
    abilities = (by, f"{by}_sd", f"{by}_low", f"{by}_high")
    table = pd.DataFrame(
        {
            "model": models,
            "groups": letters_of(groups, len(models)),
            "n_alike": len(models) - 1 - differ.sum(axis=1),
        }
        | dict(zip(abilities, describe(draws, level).values(), strict=True))
        | _ranks(placed, level)
        | {"p_best": p_best(placed[..., None]).mean(axis=0)[:, 0]}
        | _changes(raw, placed, compared.same_items)
    )
    return Ranking(
        table=table,
        p_better=pd.DataFrame(better, index=models, columns=models.rename("other")),
        groups=tuple(tuple(models[list(group)]) for group in groups),
        compared=compared,
        by=by,
        weights=weights,
        level=level,
        p_orders_hold=p_all_differences(draws, differ & (better > 0.5)),
    )


def distinguished(p_better: FloatArray, level: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return where one order of a pair has at least this probability, dims (model, other)."""
    return np.fmax(p_better, p_better.T) >= level


def check_weights(weights: str) -> None:
    """Refuse a weighting that there is none of."""
    if weights not in WEIGHTINGS:
        raise UsageError(f"weights: got {weights!r}; allowed are 'benchmark' or 'item'")


def quantity_of(fit: Fit, by: str | None) -> By:
    """Return the estimand that models are compared by."""
    if by is not None and by not in get_args(By):
        raise UsageError(f"by: got {by!r}; allowed are {join_list(get_args(By))}")
    names = EffectNames.among(fit.data["estimands"])
    if names is None and by not in (None, "accuracy"):
        raise UsageError(
            f"by: got {by!r}, but contamination was not modelled in this fit; rank by 'accuracy'"
        )
    if names is None:
        return "accuracy"
    return cast("By", names.meant(by or TOTAL.ability))


def averaged(values: xr.DataArray, compared: Compared) -> FloatArray:
    """Return the weighted mean over benchmarks, dims ([draw,] model), chains joined."""
    draws = [dim for dim in ("chain", "draw") if dim in values.dims]
    values = values.transpose(*draws, "model", "benchmark")
    total: FloatArray = np.zeros(())
    # One benchmark at a time: equal abilities stay equal, and only one benchmark is copied.
    for column, share in zip(compared.columns, compared.shares, strict=True):
        total = total + share * values.to_numpy()[..., compared.rows, column]
    return total.reshape(-1, len(compared.rows)) if draws else total


def _ranks(ranks: FloatArray, level: float) -> dict[str, FloatArray]:
    # Ranks that occur: between two of them lies none.
    ends = np.array([0.5, (1 - level) / 2, (1 + level) / 2])
    middle, low, high = np.quantile(ranks, ends, axis=0, method="inverted_cdf")
    # Of a rank that has one tail only, the interval by itself may be the wider one.
    joint_low, joint_high = simultaneous_intervals(ranks, level)
    return {
        "rank": middle, "rank_low": low, "rank_high": high,
        "rank_joint_low": np.minimum(joint_low, low),
        "rank_joint_high": np.maximum(joint_high, high),
        "mean_rank": ranks.mean(axis=0),
    }  # fmt: skip


def _changes(raw: FloatArray, ranks: FloatArray, same_items: bool) -> dict[str, Any]:
    """Return raw scores and ranks, and how the posterior ranks differ from these."""
    names = ("rank_raw", "raw_ties", "places_gained", "p_rank_better", "p_rank_worse")
    if not same_items:
        return {"raw_accuracy": raw} | {name: np.full(len(raw), np.nan) for name in names}
    scores = pd.Series(raw).round(12)  # scores that differ by rounding only are ties
    first = scores.rank(ascending=False, method="min").to_numpy()
    last = scores.rank(ascending=False, method="max").to_numpy()
    middle = np.quantile(ranks, 0.5, axis=0, method="inverted_cdf")
    gained = np.clip(middle, first, last) - middle
    better, worse = (ranks < first).mean(axis=0), (ranks > last).mean(axis=0)
    values = first.astype(int), (last - first).astype(int), gained, better, worse
    return {"raw_accuracy": raw} | dict(zip(names, values, strict=True))
