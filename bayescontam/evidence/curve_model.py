"""Judgements as index arrays, and the PyMC model of P(duplicate | cosine)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor.special import logaddexp, logsumexp

from bayescontam._types import FloatArray, IntArray
from bayescontam.data.judgements import MODEL, PAIR, run_of
from bayescontam.model.priors import Tensor, spread, variable
from bayescontam.model.quadrature import normal_trapezoid
from bayescontam.specs.curve import CurveSpec, LinePriors

UNIT = ["benchmark", "item", "source", "document", "lead"]
"""Columns that name an item and a document, which its nearest chunk represents."""


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Pairs of item and document that were judged, and the verdicts on them.

    A document has the cosine of its chunk nearest to the item: its further chunks would count as
    duplicates of their own, and lift the curve where thousands of other documents are.
    """

    # benchmarks, sources: all of the scan, also those without judgements
    benchmarks: tuple[str, ...]
    sources: tuple[str, ...]
    # judges, items: judges; items with judged pairs, as `benchmark/item`
    judges: tuple[str, ...]
    items: tuple[str, ...]
    # benchmark, source, item: positions in the labels
    benchmark: IntArray
    source: IntArray
    item: IntArray
    # cosine, place: cosine of the document, and its place among those of the item, from 1
    cosine: FloatArray
    place: FloatArray
    best: FloatArray  # cosine of its best match
    benchmark_of_item: IntArray
    # pair, judge: positions of the pair and of the judge
    pair: IntArray
    judge: IntArray
    called: IntArray  # 1 where the pair was called a duplicate, else 0
    further: NDArray[np.bool_]  # whether another chunk of the document was judged than the nearest

    def __len__(self) -> int:
        return len(self.cosine)

    @property
    def coords(self) -> dict[str, Any]:
        """Coordinates of the dims that the model uses."""
        return {
            "benchmark": list(self.benchmarks),
            "source": list(self.sources),
            "judge": list(self.judges),
            "item": list(self.items),
            "pair": np.arange(len(self)),
            "verdict": np.arange(len(self.called)),
        }


def is_model(judge: str) -> bool:
    """Return whether a judge is a language model."""
    return judge.startswith(MODEL)


def first_runs(judged: pd.DataFrame) -> pd.DataFrame:
    """Return one verdict of each judge on a pair, of those that were not left open."""
    given = judged[judged["is_duplicate"].notna()]
    runs = [run_of(judge) for judge in given["judge"]]
    given = given.assign(judge=[name for name, _ in runs], run=[run for _, run in runs])
    given = given.sort_values("run", kind="stable").drop_duplicates([*PAIR, "judge"])
    return given.sort_index().drop(columns="run")


def with_leads(judged: pd.DataFrame) -> pd.DataFrame:
    """Return judgements with ``lead``, ``lead_cosine`` and ``place``: by default their own."""
    more = [name for name in ("lead", "lead_cosine", "place") if name not in judged.columns]
    known = judged.assign(**dict.fromkeys(more, np.nan))
    lead = known["lead"].fillna(known["chunk"]).astype("int64")
    cosine = known["lead_cosine"].fillna(known["cosine"])
    return known.assign(lead=lead, lead_cosine=cosine, place=known["place"].fillna(1.0))


def seen(
    hit: FloatArray,
    clear: FloatArray,
    share_further: FloatArray | float,
    further: NDArray[np.bool_],
) -> FloatArray:
    """Return P(called a duplicate) of verdicts on documents that hold one."""
    less = share_further * hit + (1 - share_further) * (1 - clear)
    return np.where(further, less, hit)


def make_verdicts(
    judged: pd.DataFrame, benchmarks: Sequence[str], sources: Sequence[str]
) -> Verdicts:
    """Return judgements as arrays."""
    rows = with_leads(first_runs(judged)).sort_values([*UNIT, "chunk", "judge"])
    pair, _ = pd.factorize(pd.MultiIndex.from_frame(rows[UNIT]))
    first = np.unique(pair, return_index=True)[1]
    pairs = rows.iloc[first]
    judge, judges = pd.factorize(rows["judge"], sort=True)
    item, items = pd.factorize(pd.MultiIndex.from_frame(pairs[["benchmark", "item"]]))
    benchmark = _positions(pairs["benchmark"], benchmarks)
    sample = np.unique(item, return_index=True)[1]
    return Verdicts(
        tuple(benchmarks),
        tuple(sources),
        tuple(judges),
        tuple(map("/".join, items)),
        benchmark,
        _positions(pairs["source"], sources),
        item.astype(np.int64),
        pairs["lead_cosine"].to_numpy(float),
        pairs["place"].to_numpy(float),
        pairs["best"].to_numpy(float)[sample],
        benchmark[sample],
        pair.astype(np.int64),
        judge.astype(np.int64),
        rows["is_duplicate"].to_numpy(np.int64),
        (rows["chunk"] != rows["lead"]).to_numpy(),
    )


def _positions(names: "pd.Series[str]", order: Sequence[str]) -> IntArray:
    found = pd.Index(list(order)).get_indexer(pd.Index(names)).astype(np.int64)
    assert (found >= 0).all()
    return found


@dataclass(frozen=True, eq=False)
class BuiltCurve:
    """A PyMC model of judgements with what it was built from."""

    model: pm.Model
    spec: CurveSpec
    verdicts: Verdicts


def build_curve(spec: CurveSpec, verdicts: Verdicts) -> BuiltCurve:
    """Build the PyMC model of a curve spec for judgements.

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

    Dawid & Skene (1979), doi:10.2307/2346806; Joseph, Gyorkos & Coupal (1995),
    doi:10.1093/oxfordjournals.aje.a117428.
    """
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
        if len(verdicts):
            judges, share = _judges(spec, verdicts), pt.as_tensor(1.0)
            if verdicts.further.any():
                share = variable("share_further", spec.priors.share_further)
            _add_verdicts(verdicts, logit, steepness[of] * rise, effect, *judges, share)
    return BuiltCurve(model, spec, verdicts)


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
    return pt.dot(basis(cosine, edges), relative) - pt.dot(_tensor_basis(middle, edges), relative)


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


def _judges(spec: CurveSpec, verdicts: Verdicts) -> tuple[Tensor, Tensor]:
    """Add ``sensitivity`` and ``specificity``, dims (judge,)."""
    kinds = [spec.judges.models if is_model(j) else spec.judges.people for j in verdicts.judges]
    return tuple(
        pm.Beta(
            name,
            np.array([getattr(kind, name).alpha for kind in kinds]),
            np.array([getattr(kind, name).beta for kind in kinds]),
            dims="judge",
        )
        for name in ("sensitivity", "specificity")
    )


def _add_verdicts(
    verdicts: Verdicts,
    logit: Tensor,
    open_: Tensor,
    sigma: Tensor,
    sensitivity: Tensor,
    specificity: Tensor,
    share_further: Tensor,
) -> None:
    """Add ``called``, dims (verdict,), observed; what is not known of items is summed over."""
    pair, judge, item = verdicts.pair, verdicts.judge, verdicts.item
    effect, log_weight = effects(int(np.bincount(item).max()))
    of_pairs, of_items = np.zeros(len(verdicts)), np.zeros((len(verdicts.items), len(effect)))

    def hit_clear(sensitivity: Any, specificity: Any, share: Any) -> tuple[Any, Any]:
        hit, clear = sensitivity[judge], specificity[judge]
        if not verdicts.further.any():
            return hit, clear
        return pt.where(verdicts.further, share * hit + (1 - share) * (1 - clear), hit), clear

    def logp(
        value: Any, logit: Any, open_: Any, sigma: Any, hit: Any, clear: Any, share: Any
    ) -> Any:
        hit, clear = hit_clear(hit, clear, share)
        duplicate = pt.log(pt.where(value, hit, 1 - hit))
        other = pt.log(pt.where(value, 1 - clear, clear))
        duplicate, other = (
            pt.inc_subtensor(pt.as_tensor(of_pairs)[pair], x) for x in (duplicate, other)
        )
        ratio = pt.expm1(duplicate - other)[:, None]
        more = pt.log1p(pt.sigmoid(logit[:, None] + sigma * effect) * ratio)
        either = pt.inc_subtensor(pt.as_tensor(of_items)[item], more)
        either = logsumexp(either + log_weight, axis=1)
        return other.sum() + (logaddexp(either + open_, 0.0) - pt.softplus(open_)).sum()

    def draw(
        logit: Any, open_: Any, sigma: Any, hit: Any, clear: Any, share: Any, size: Any
    ) -> Any:
        hit, clear = hit_clear(hit, clear, share)
        opened = pm.Bernoulli.dist(logit_p=open_)
        own = sigma * pm.Normal.dist(size=len(of_items))
        true = pm.Bernoulli.dist(logit_p=logit + own[item]) * opened[item]
        p = pt.where(true[pair], hit, 1 - clear)
        return pm.Bernoulli.dist(p=p)

    pm.CustomDist(
        "called",
        logit,
        open_,
        sigma,
        sensitivity,
        specificity,
        share_further,
        dist=draw,
        logp=logp,
        ndim_supp=1,
        signature="(p),(i),(),(j),(j),()->(v)",
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
