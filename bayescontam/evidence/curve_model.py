"""The PyMC model of P(duplicate | cosine)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.special import logaddexp, logsumexp

from bayescontam._types import FloatArray
from bayescontam.data.judgements import sort_of
from bayescontam.evidence.kinds import FIRST, MIDDLE, log_shares
from bayescontam.evidence.predictor import chance
from bayescontam.evidence.verdicts import Verdicts, pooled
from bayescontam.model.priors import Tensor, spread, variable
from bayescontam.model.products import weighted_sums
from bayescontam.model.quadrature import normal_trapezoid
from bayescontam.specs.curve import CurveSpec, LinePriors
from bayescontam.specs.priors import PositivePrior


@dataclass(frozen=True, eq=False)
class BuiltCurve:
    """A PyMC model of judgements with what it was built from."""

    model: pm.Model
    spec: CurveSpec
    verdicts: Verdicts


def build_curve(
    spec: CurveSpec,
    verdicts: Verdicts,
    validated: Mapping[str, Sequence[int]] | None = None,
) -> BuiltCurve:
    """Build the PyMC model of a curve spec for judgements.

    `validated` holds counts of verdicts of judges on pairs whose truth was known: true positives,
    false negatives, true negatives, false positives.

    For item i of benchmark b and a document of source s, whose chunk nearest to the item has
    the cosine c,

        logit P(i open) = steepness_open[b] * (W(best[i]) - W(threshold_open[b]))
        logit P(duplicate | i open)
            = steepness[b] * (W(c) - W(threshold[b] + shift[s])) - crowding * log(r) + u[i]

    where r is the document's place among those of the item (1: the nearest), ``best`` is the
    cosine of the item's best match, only items that are open have duplicates, and W rises by
    ``relative[k]`` for each unit of cosine in segment k. With a crowding of 1 an item with
    more documents near it has no more duplicates for that. Verdicts on a document are
    independent given whether it is a duplicate; of one that is, a further chunk is one itself
    with probability ``share_further``. Which items are open, which documents are duplicates,
    and items' effects u ~ Normal(0, sigma_item) are summed over: the sampler meets no more
    than some twenty parameters.

    Where kinds make a difference every document also has a class of kinds, which counts if it
    is a duplicate, and which is summed over too:

        logit P(exact) = steepness_exact * (c - threshold_exact[b])
        logit P(chosen | not exact) = chosen[b] + chosen_slope * (c - 0.7)

    A rule finds exact duplicates with its sensitivity, and all else as rarely as no duplicates. A
    judge who names a kind names the right class with probability ``naming``, else each other one
    alike; which one, and whether, does not depend on whether the document is a duplicate.

    Where a trained judge is a predictor, what it reported of a document has with the truth the
    odds ratio ``exp(log_odds_ratio + log_odds_ratio_slope * (c - 0.7))``, given that the item is
    open, and its effect; what it reported of the nearest document has the odds ratio
    ``exp(log_odds_ratio_open)`` with whether the item is open. The probabilities above are the
    means over what it reports at that cosine: see `predictor.chance`.

    Of more than `MOST_PAIRS` pairs, those with like cosines and the same verdicts are `pooled`.

    Dawid & Skene (1979), doi:10.2307/2346806; Joseph, Gyorkos & Coupal (1995),
    doi:10.1093/oxfordjournals.aje.a117428.
    """
    given, verdicts = verdicts, pooled(verdicts)
    coords = verdicts.coords | {"segment": np.arange(len(spec.shape.knots) + 1)}
    with pm.Model(coords=coords) as model:
        offsets = _offsets(spec, verdicts)
        shift, relative = _sources(spec, verdicts), _segments(spec)
        threshold, steepness = _line("", spec.priors.matches, offsets)
        middle = threshold[verdicts.benchmark] + shift[verdicts.source]
        rise = _rise(verdicts.cosine, middle, relative, segments(spec))
        logit = steepness[verdicts.benchmark] * rise
        logit = logit - spec.shape.crowding * np.log(verdicts.place)
        effect = pt.as_tensor(0.0)
        if spec.shape.item_effect:
            effect = spread("sigma_item", spec.priors.sigma_item)
        threshold, steepness = _line("_open", spec.priors.items, offsets)
        of = verdicts.benchmark_of_item
        rise = _rise(verdicts.best, threshold[of], relative, segments(spec))
        kinds = _kinds(spec, verdicts) if len(verdicts.split) else ()
        if len(verdicts):
            judges, share = _judges(spec, verdicts, validated or {}), pt.as_tensor(1.0)
            if verdicts.further.any():
                share = variable("share_further", spec.priors.share_further)
            if kinds:
                kinds = _naming(spec, verdicts), *kinds
            open_, *reported = _reported(spec, verdicts, steepness[of] * rise)
            _add_verdicts(verdicts, logit, open_, effect, *judges, share, *reported, *kinds)
    return BuiltCurve(model, spec, given)


def _offsets(spec: CurveSpec, verdicts: Verdicts) -> tuple[Tensor, Tensor]:
    """Return by how much benchmarks lie higher, and how many times as steep they are."""
    if len(verdicts.benchmarks) == 1:
        return pt.as_tensor(np.zeros(1)), pt.as_tensor(np.ones(1))
    higher = spread("sigma_threshold", spec.priors.sigma_threshold)
    steeper = spread("sigma_steepness", spec.priors.sigma_steepness)
    return (
        higher * pm.Normal("threshold_offset", dims="benchmark"),
        pt.exp(steeper * pm.Normal("steepness_offset", dims="benchmark")),
    )


def _line(suffix: str, priors: LinePriors, offsets: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Add threshold and steepness of one of the two curves, dims (benchmark,)."""
    center = variable(f"threshold{suffix}_bar", priors.threshold)
    slope = variable(f"steepness{suffix}_bar", priors.steepness)
    higher, steeper = offsets
    return (
        pm.Deterministic(f"threshold{suffix}", center + higher, dims="benchmark"),
        pm.Deterministic(f"steepness{suffix}", slope * steeper, dims="benchmark"),
    )


def _rise(cosine: FloatArray, middle: Tensor, relative: Tensor, edges: FloatArray) -> Tensor:
    """Return how far the curve rises from its threshold to each cosine, before its steepness."""
    here, there = basis(cosine, edges), _tensor_basis(middle, edges)
    return weighted_sums(here, relative) - weighted_sums(there, relative)


def _sources(spec: CurveSpec, verdicts: Verdicts) -> Tensor:
    """Add ``source_shift``, dims (source,): by how much the threshold lies higher there."""
    if len(verdicts.sources) == 1:
        return pt.as_tensor(np.zeros(1))
    offset = pm.ZeroSumNormal("source_offset", dims="source")
    scale = spread("sigma_source", spec.priors.sigma_source)
    return pm.Deterministic("source_shift", scale * offset, dims="source")


def _segments(spec: CurveSpec) -> Tensor:
    """Add ``relative``, dims (segment,): steepness of each segment, relative to the mean."""
    count = len(spec.shape.knots) + 1
    if spec.shape.form == "logistic":
        return pt.as_tensor(np.ones(count))
    bend = pm.ZeroSumNormal("bend", dims="segment")
    scale = spread("sigma_shape", spec.priors.sigma_shape)
    return pm.Deterministic("relative", pt.exp(scale * bend), dims="segment")


def _kinds(spec: CurveSpec, verdicts: Verdicts) -> tuple[Tensor, ...]:
    """Add the shares of kinds among duplicates; return their logs, dims (pair, class)."""
    priors, several = spec.priors.kinds, len(verdicts.benchmarks) > 1

    def by_benchmark(name: str, center: Tensor, sigma: PositivePrior) -> Tensor:
        higher: Any = np.zeros(len(verdicts.benchmarks))
        if several:
            higher = spread(f"sigma_{name}", sigma)
            higher = higher * pm.Normal(f"{name}_offset", dims="benchmark")
        return pm.Deterministic(name, center + higher, dims="benchmark")

    center = variable("threshold_exact_bar", priors.exact.threshold)
    middle = by_benchmark("threshold_exact", center, priors.sigma_exact)
    steepness = variable("steepness_exact", priors.exact.steepness)
    exact = steepness * (verdicts.cosine - middle[verdicts.benchmark])
    of_others: Any = None
    if len(verdicts.split) > 2:
        level = by_benchmark("chosen", variable("chosen_bar", priors.chosen), priors.sigma_chosen)
        slope = variable("chosen_slope", priors.chosen_slope)
        of_others = level[verdicts.benchmark] + slope * (verdicts.cosine - MIDDLE)
    parts = log_shares(exact, of_others, len(verdicts.split), lambda x: -pt.softplus(-x))
    return (pt.stack(parts, axis=1),)


def _naming(spec: CurveSpec, verdicts: Verdicts) -> Tensor:
    """Add ``naming``, dims (namer,): P(the class of the kind that is named is right)."""
    names = verdicts.coords.get("namer")
    if names is None:
        return pt.as_tensor(np.full(1, 0.5))  # nobody's
    priors = [getattr(spec.judges, sort_of(name)).kind for name in names]
    return pm.Beta(
        "naming", np.array([p.alpha for p in priors]), np.array([p.beta for p in priors]),
        dims="namer",
    )  # fmt: skip


def _reported(spec: CurveSpec, verdicts: Verdicts, open_: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Add what a predictor's verdicts inform.

    Return the log-odds that items are open, dims (item,), given what it reported; log of the odds
    ratio and share of what it reported of pairs of open items, dims (pair,).
    """
    if (given := verdicts.reported) is None:
        return open_, pt.as_tensor(np.zeros(1)), pt.as_tensor(np.ones(1))
    level = variable("log_odds_ratio", spec.priors.log_odds_ratio)
    slope = variable("log_odds_ratio_slope", spec.priors.log_odds_ratio_slope)
    of_open = variable("log_odds_ratio_open", spec.priors.log_odds_ratio_open)
    # As the verdicts below, set anew for many data sets.
    sign, share = (pm.Data(f"reported_{name}", getattr(given, name), dims="pair")
                   for name in ("sign", "share"))  # fmt: skip
    sign_open, share_open = (pm.Data(f"reported_{name}", getattr(given, name), dims="item")
                             for name in ("sign_open", "share_open"))  # fmt: skip
    ratio = sign * (level + slope * (verdicts.cosine - MIDDLE))
    sides = [chance(pt.sigmoid(way * open_), way * sign_open * of_open, share_open, pt)
             for way in (1, -1)]  # fmt: skip
    # Of the nearest documents of open items it reports this more, or less, often than of all.
    more = (sides[0] / pt.sigmoid(open_))[verdicts.item]
    nearest = verdicts.nearest & pt.eq(sign, sign_open[verdicts.item])
    share = share * pt.where(nearest, more, 1.0)
    return pt.log(sides[0]) - pt.log(sides[1]), ratio, share


def _judges(
    spec: CurveSpec, verdicts: Verdicts, validated: Mapping[str, Sequence[int]]
) -> tuple[Tensor, Tensor]:
    """Add ``sensitivity`` and ``specificity``, dims (judge,), and what is known of them."""
    kinds = [getattr(spec.judges, sort_of(judge)) for judge in verdicts.judges]
    errors = tuple(
        pm.Beta(
            name,
            np.array([getattr(kind, name).alpha for kind in kinds]),
            np.array([getattr(kind, name).beta for kind in kinds]),
            dims="judge",
        )
        for name in ("sensitivity", "specificity")
    )
    if validated:
        at = [verdicts.judges.index(judge) for judge in validated]
        right, wrong = np.array([*validated.values()]).reshape(-1, 2, 2).transpose(2, 0, 1)
        p = pt.stack([error[at] for error in errors], axis=1)
        pairs = pm.Data("held_out_pairs", right + wrong)
        pm.Binomial("held_out", n=pairs, p=p, observed=pm.Data("held_out_right", right))
    return errors


def _add_verdicts(
    verdicts: Verdicts,
    logit: Tensor,
    open_: Tensor,
    sigma: Tensor,
    sensitivity: Tensor,
    specificity: Tensor,
    share_further: Tensor,
    log_ratio: Tensor,
    reported: Tensor,
    *kinds: Tensor,
) -> None:
    """Add ``called``, dims (verdict,), observed; what is not known of items is summed over."""
    pair, judge, item, classes = verdicts.pair, verdicts.judge, verdicts.item, len(verdicts.split)
    count = np.ones(len(verdicts)) if verdicts.count is None else verdicts.count
    effect, log_weight = effects(int(np.bincount(item, count).max()))
    of_pairs, of_items = np.zeros(len(verdicts)), np.zeros((len(verdicts.items), len(effect)))
    rule = verdicts.by_rule
    namer = np.minimum(np.searchsorted(verdicts.namers, judge), max(len(verdicts.namers) - 1, 0))

    def hit_clear(sensitivity: Any, specificity: Any, share: Any) -> tuple[Any, Any]:
        hit, clear = sensitivity[judge], specificity[judge]
        if not verdicts.further.any():
            return hit, clear
        return pt.where(verdicts.further, share * hit + (1 - share) * (1 - clear), hit), clear

    def informed(p: Any, log_ratio: Any, reported: Any) -> Any:
        """Return P(duplicate) given what the predictor reported, dims (pair, effect)."""
        if verdicts.reported is None:
            return p
        return chance(p, log_ratio[:, None], reported[:, None], pt)

    def over_classes(
        value: Any, duplicate: Any, other: Any, naming: Any, log_share: Any
    ) -> tuple[Any, Any]:
        """Return log likelihoods of pairs, without rules' of duplicates in `duplicate`."""
        at, right = np.arange(classes), naming[namer][:, None]
        wrong = (1 - right) / (classes - 1)
        named = pt.log(pt.where(pt.eq(value[:, None] - FIRST, at), right, wrong))
        named = pt.where((value >= FIRST)[:, None], named, 0.0)
        # Of a duplicate that is not exact a rule reports what it reports of no duplicate.
        by_rule = pt.where(pt.eq(at, 0), duplicate[:, None], other[:, None])
        duplicate = pt.where(rule, 0.0, duplicate)
        return tuple(
            pt.inc_subtensor(pt.as_tensor(of_pairs)[pair], plain)
            + logsumexp(pt.inc_subtensor(log_share[pair], more), axis=1)
            for plain, more in (
                (duplicate, named + pt.where(rule[:, None], by_rule, 0.0)),
                (other, named),
            )
        )

    def logp(
        value: Any,
        logit: Any,
        open_: Any,
        sigma: Any,
        hit: Any,
        clear: Any,
        share: Any,
        log_ratio: Any,
        reported: Any,
        *kinds: Any,
    ) -> Any:
        hit, clear = hit_clear(hit, clear, share)
        # Data sets of one compilation may leave verdicts out, as -1.
        given = value >= 0
        duplicate = pt.where(given, pt.log(pt.where(value > 0, hit, 1 - hit)), 0.0)
        other = pt.where(given, pt.log(pt.where(value > 0, 1 - clear, clear)), 0.0)
        if kinds:
            duplicate, other = over_classes(value, duplicate, other, *kinds)
        else:
            duplicate, other = (
                pt.inc_subtensor(pt.as_tensor(of_pairs)[pair], x) for x in (duplicate, other)
            )
        ratio = pt.expm1(duplicate - other)[:, None]
        p = informed(pt.sigmoid(logit[:, None] + sigma * effect), log_ratio, reported)
        more = pt.log1p(p * ratio)
        if verdicts.count is not None:
            more, other = more * count[:, None], other * count
        either = pt.inc_subtensor(pt.as_tensor(of_items)[item], more)
        either = logsumexp(either + log_weight, axis=1)
        return other.sum() + (logaddexp(either + open_, 0.0) - pt.softplus(open_)).sum()

    def draw(
        logit: Any,
        open_: Any,
        sigma: Any,
        hit: Any,
        clear: Any,
        share: Any,
        log_ratio: Any,
        reported: Any,
        *kinds_size: Any,
    ) -> Any:
        *kinds, _ = kinds_size
        hit, clear = hit_clear(hit, clear, share)
        opened = pm.Bernoulli.dist(logit_p=open_)
        own = sigma * pm.Normal.dist(size=len(of_items))
        p = informed(pt.sigmoid(logit + own[item])[:, None], log_ratio, reported)[:, 0]
        true = (pm.Bernoulli.dist(p=p) * opened[item])[pair]
        if not kinds:
            return pm.Bernoulli.dist(p=pt.where(true, hit, 1 - clear))
        naming, log_share = kinds
        kind = pm.Categorical.dist(logit_p=log_share)[pair]
        found = true * pt.where(rule, pt.eq(kind, 0), 1)
        called = pm.Bernoulli.dist(p=pt.where(found, hit, 1 - clear))
        right = pm.Bernoulli.dist(p=naming[namer])
        wrong = (kind + pm.DiscreteUniform.dist(1, classes - 1, size=len(pair))) % classes
        code = FIRST + pt.where(right, kind, wrong)
        names = np.isin(judge, verdicts.namers)
        return pt.where(names, called * code, called)

    pm.CustomDist(
        "called",
        logit,
        open_,
        sigma,
        sensitivity,
        specificity,
        share_further,
        log_ratio,
        reported,
        *kinds,
        dist=draw,
        logp=logp,
        ndim_supp=1,
        signature=f"(p),(i),(),(j),(j),(),(q),(q){',(n),(p,z)' if kinds else ''}->(v)",
        # Data that can be set anew: many data sets are fitted with one compilation.
        observed=pm.Data("verdicts", verdicts.called, dims="verdict"),
        dims="verdict",
    )


def effects(pairs: int) -> tuple[FloatArray, FloatArray]:
    """Return standard Normal effects of an item within 4 sd, and their log weights."""
    return normal_trapezoid(4.0, 17 if pairs <= 12 else 33)


def segments(spec: CurveSpec) -> FloatArray:
    """Return the lower ends of the curve's segments, ending with infinity; the first is open."""
    return np.array([-np.inf, *spec.shape.knots, np.inf])


def basis(cosine: FloatArray, edges: FloatArray) -> FloatArray:
    """Return how far cosines reach into each segment, dims (…, segment).

    Counted from the first knot: negative below it, so that their sum over segments is the
    cosine less the first knot.

    >>> basis(np.array([0.3, 0.55]), np.array([-np.inf, 0.4, 0.5, np.inf])).round(2).tolist()
    [[-0.1, 0.0, 0.0], [0.0, 0.1, 0.05]]
    """
    first = np.minimum(cosine - edges[1], 0.0)
    widths = np.diff(edges[1:])
    reach = np.clip(np.asarray(cosine)[..., None] - edges[1:-1], 0.0, widths)
    return np.concatenate([first[..., None], reach], axis=-1)


def _tensor_basis(cosine: Tensor, edges: FloatArray) -> Tensor:
    """Return `basis` of a vector of cosines that are parameters."""
    first = pt.minimum(cosine - edges[1], 0.0)
    reach = pt.clip(cosine[:, None] - edges[1:-1], 0.0, np.diff(edges[1:]))
    return pt.concatenate([first[:, None], reach], axis=1)
