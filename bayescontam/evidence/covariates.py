"""From matches and a curve to the contamination of items."""

import os
import re
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._progress import progress_bar
from bayescontam._random import stream
from bayescontam._text import join_list
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.covariates import Covariates
from bayescontam.data.judgements import PAIR
from bayescontam.data.responses import Path
from bayescontam.errors import UsageError
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.item_exposure import ItemExposure
from bayescontam.evidence.item_matches import Matched, Matches
from bayescontam.evidence.kinds import KINDS, opinions
from bayescontam.evidence.occurrence import draw_occurrence
from bayescontam.evidence.pairs import of_these_texts, scan_pairs
from bayescontam.evidence.tail import Tail, TailSamples, join_tails
from bayescontam.evidence.verdicts import first_runs
from bayescontam.scan.results import Scan

DRAWS = 200
"""Draws of the curve that items are weighed with."""
FLOOR = 0.35
"""Cosine below which matches are not counted: of such pairs 1 % are called duplicates in
published judgements, which is no more than judges err."""
RANKS = (1, 2, 5, 10, 20, 50, 100)
"""Numbers of best matches at which prevalence is reported."""
_KEYS = ["benchmark", "item"]
_EMBEDDER = (
    "model", "revision", "weights_sha256", "pooling", "dims", "query_prompt", "passage_prompt",
)  # fmt: skip
"""What of an embedder decides cosines."""


@dataclass(frozen=True, eq=False)
class ItemContamination:
    """What a scan shows about every item of its benchmarks, over draws of the curve."""

    items: pd.DataFrame  # `benchmark`, `item`
    sources: tuple[str, ...]
    shares: FloatArray  # share of each source that was searched, in [0, 1]
    kinds: tuple[str, ...]  # empty if judges gave none
    ranks: tuple[int, ...]
    none: FloatArray  # P(no duplicate in the whole corpus), dims (draw, item)
    # the same by source and by kind, dims (draw, item, source or kind)
    none_by_source: FloatArray
    none_by_kind: FloatArray
    none_scanned: FloatArray  # P(no duplicate in the scanned part), dims (draw, item)
    none_by_rank: FloatArray  # P(none among the best matches), dims (draw, item, rank)
    # expected numbers of duplicates, copies counted, in the whole corpus, in the scanned part, and
    # in its matches that are not listed one by one, dims (draw, item)
    expected: FloatArray
    expected_scanned: FloatArray
    expected_rest: FloatArray
    # draws of the numbers of duplicates in the whole corpus and in the scanned part, copies
    # counted, dims (draw, item): sums over items are draws of their number
    number: IntArray
    number_scanned: IntArray
    tail: Tail  # the texts that were drawn at random from the highest cosines of each item
    # kinds of duplicates that count; empty: all
    chosen: tuple[str, ...] = ()

    def of(self, chosen: NDArray[np.bool_]) -> "ItemContamination":
        """Return what is reported of some of the items, of a mask over all."""
        whole = {"items", "sources", "shares", "kinds", "ranks", "tail", "chosen"}
        parts = {
            f.name: getattr(self, f.name)[:, chosen] for f in fields(self) if f.name not in whole
        }
        items = self.items[chosen].reset_index(drop=True)
        return replace(self, items=items, tail=self.tail.of(chosen), **parts)


def check_options(floor: float, draws: int) -> None:
    """Raise a `UsageError` for options that nothing can be weighed with."""
    if not -1 <= floor <= 1:
        raise UsageError(f"floor: got {floor}; allowed is a cosine, -1 to 1")
    if draws < 1:
        raise UsageError(f"draws: got {draws}; at least 1 is needed")


def refuse_other_scan(scan: Scan, curve: Curve) -> None:
    """Raise a `UsageError` where the curve covers the scan in part only, or other cosines."""
    there, known = scan.record.get("embedder"), curve.record.get("embedder")
    for name in _EMBEDDER:
        if there and known and there.get(name) != known.get(name):
            raise UsageError(
                f"curve: is of cosines of another embedder ({name} {known.get(name)!r}, the"
                f" scan has {there.get(name)!r}); fit one to this scan: bayescontam curve"
            )
    sources = dict.fromkeys(row["source"] for row in scan.record["strata"])
    for what, names, covered in (
        ("benchmark", scan.items["benchmark"].unique(), curve.benchmarks),
        ("source", sources, curve.sources),
    ):
        if lost := [name for name in names if name not in covered]:
            raise UsageError(
                f"curve: does not cover {what} {join_list(lost)} of this scan; fit one to this"
                " scan: bayescontam curve"
            )


def _parts(
    exposure: ItemExposure,
    item: Matched,
    kinds: FloatArray | None,
    named: tuple[str, ...],
    n_sources: int,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Return what the scanned part holds for one item, each with dims (draw, …)."""
    every = np.ones(len(item.cosine), bool), np.ones(len(item.rest_cosine), bool)
    by_source = [
        exposure.none(item.copies[:, s] > 0, item.rest_source == s) for s in range(n_sources)
    ]
    by_kind = np.ones((len(exposure.weight), 0 if kinds is None else len(named)))
    for k in range(by_kind.shape[1]):
        share = kinds[:, item.benchmark, [k]]  # type: ignore[index]
        thin = np.where(item.kind < 0, share, item.kind == KINDS.index(named[k]))
        by_kind[:, k] = exposure.none(*every, np.concatenate([thin, share], axis=1))
    return {
        "none_scanned": exposure.none(*every),
        "none_by_source": np.stack(by_source, axis=-1),
        "none_by_kind": by_kind,
        "none_by_rank": exposure.none_among_first(RANKS),
        "expected_by_source": np.stack([exposure.expected(s) for s in range(n_sources)], axis=-1),
        "expected_rest": exposure.expected_rest(),
        "drawn": exposure.drawn(n_sources, rng),
    }


def scanned_shares(scan: Scan, sources: tuple[str, ...]) -> FloatArray:
    """Return the share of each source's documents that was searched, dims (source,)."""
    columns = ["source", "documents", "sampled"]
    strata = pd.DataFrame(scan.record["strata"]).reindex(columns=columns)
    strata = strata.groupby("source")[["documents", "sampled"]].sum()
    # Sources of vectors are scanned whole and have no documents to count; documents that were
    # sampled and not searched, because they are short, belong to the rest.
    short = pd.Series(
        {name: row["short"] for name, row in (scan.record.get("short") or {}).items()}, dtype=float
    )
    searched = strata["sampled"] - short.reindex(strata.index).fillna(0.0)
    shares = (searched / strata["documents"]).where(strata["documents"] > 0, 1.0)
    return shares.reindex(list(sources)).to_numpy(float)


def _kind_shares(
    pairs: pd.DataFrame,
    benchmarks: tuple[str, ...],
    named: tuple[str, ...],
    draws: int,
    rng: np.random.Generator,
) -> FloatArray | None:
    """Draw the shares of kinds among duplicates, dims (draw, benchmark, kind)."""
    of_kind = pairs[pairs["kind"] >= 0]
    if of_kind.empty:
        return None
    # Dirichlet: the pairs of a benchmark beside five of the kinds of all benchmarks.
    counts = pd.crosstab(of_kind["benchmark"], of_kind["kind"])
    table = counts.reindex(
        index=list(benchmarks), columns=[KINDS.index(kind) for kind in named], fill_value=0
    )
    pooled = table.sum().to_numpy() + 0.5
    weight = table.to_numpy() + 5 * pooled / pooled.sum()
    gamma = rng.standard_gamma(np.broadcast_to(weight, (draws, *weight.shape)))
    return gamma / gamma.sum(axis=-1, keepdims=True)


def _to_corpus(
    parts: dict[str, np.ndarray],
    benchmark: "pd.Series[str]",
    benchmarks: tuple[str, ...],
    shares: FloatArray,
    kinds: FloatArray | None,
    rng: np.random.Generator,
) -> tuple[dict[str, FloatArray], IntArray]:
    """Go from the scanned part to the whole corpus: fields of the result; numbers, (draw, item)."""
    none = parts["none_scanned"].copy()
    by_source, by_kind = parts["none_by_source"].copy(), parts["none_by_kind"].copy()
    expected = parts["expected_by_source"].copy()
    number = parts["drawn"].sum(axis=-1)
    for b, name in enumerate(benchmarks):
        rows = np.flatnonzero(benchmark == name)
        for s in np.flatnonzero(shares < 1):
            counts = parts["drawn"][:, rows, s]
            spread = draw_occurrence(counts, float(shares[s]), rng)
            rest = spread.remainder()[:, None]
            none[:, rows] *= rest
            by_source[:, rows, s] *= rest
            # The drawn counts show what was not scanned; the scanned part is known better.
            expected[:, rows, s] += spread.total(counts) - counts
            number[:, rows] += spread.draw_rest(counts, rng)
            if kinds is not None:
                for k in range(kinds.shape[-1]):
                    by_kind[:, rows, k] *= spread.remainder(kinds[:, b, k])[:, None]
    scaled = {
        "none": none,
        "none_by_source": by_source,
        "none_by_kind": by_kind,
        "expected": expected.sum(axis=-1),
    }
    return scaled, number


def covariates_table(weighed: ItemContamination, scan: Scan, curve: Curve) -> pd.DataFrame:
    """Return contamination covariates, one row for each item."""
    p = 1 - weighed.none
    mean = _chance(weighed.none)
    low, high = count_interval(weighed.number, curve.level)
    table = weighed.items.assign(
        contamination=mean,
        contamination_sd=np.sqrt(mean * (1 - mean)),
        p_duplicate=mean,
        p_duplicate_sd=p.std(axis=0),
        p_scanned=_chance(weighed.none_scanned),
        expected_duplicates=weighed.expected.mean(axis=0),
        duplicates_low=low,
        duplicates_high=high,
        expected_scanned=weighed.expected_scanned.mean(axis=0),
        expected_rest=weighed.expected_rest.mean(axis=0),
    )
    if len(weighed.sources) > 1:
        for k, name in enumerate(weighed.sources):
            table[f"source_{name}"] = _chance(weighed.none_by_source[..., k])
    for k, name in enumerate(weighed.kinds):
        table[f"kind_{name}"] = _chance(weighed.none_by_kind[..., k])
    if weighed.chosen:
        table["of_kinds"] = ", ".join(weighed.chosen)
    table = table.join(_matches(scan), on=_KEYS).join(_judged(scan, curve), on=_KEYS)
    return table.fillna({"judged": 0, "judged_duplicates": 0}).astype(
        {"judged": "int64", "judged_duplicates": "int64"}
    )


def count_interval(counts: IntArray, level: float) -> FloatArray:
    """Return the ends of the equal-tailed interval of counts, over the first axis."""
    # It ends at counts: between two of them it would hold less than its level. Rounded, since
    # (1 - 0.95) / 2 is a little more than 0.025 in binary.
    tails = np.round([(1 - level) / 2, (1 + level) / 2], 12)
    ends: FloatArray = np.quantile(counts, tails, axis=0, method="inverted_cdf").astype(float)
    return ends


def _chance(none: FloatArray) -> FloatArray:
    """Return the probability of any, of draws of that of none; rounding is cut off."""
    return (1 - none.mean(axis=0)).clip(0.0, 1.0)


def _matches(scan: Scan) -> pd.DataFrame:
    """Return the best cosine of each item, and the largest of each lexical score."""
    lexical = re.compile(r"ngram_.*|jaccard|rouge_l")
    names = [name for name in scan.matches.columns if lexical.fullmatch(str(name))]
    best = scan.matches.groupby(_KEYS, observed=True)[["cosine", *names]].max()
    return best.rename(columns={"cosine": "top_cosine"} | {name: f"max_{name}" for name in names})


def _judged(scan: Scan, curve: Curve) -> pd.DataFrame:
    """Return how many pairs of each item were judged, and called duplicates by most judges.

    Of the kinds that count, where only some do.
    """
    pairs = scan_pairs(scan)
    judged = opinions(of_these_texts(first_runs(curve.outcomes), pairs), curve.kinds)
    verdicts = judged.groupby(list(PAIR), observed=True)["is_duplicate"].mean()
    # Only pairs that the scan holds: the curve may come from another one.
    called = (verdicts > 0.5).rename("judged_duplicates").reset_index()
    called = called.merge(pairs[list(PAIR)].drop_duplicates(), on=list(PAIR))
    grouped = called.groupby(_KEYS, observed=True)["judged_duplicates"]
    return pd.DataFrame({"judged": grouped.size(), "judged_duplicates": grouped.sum()})


def item_contamination(
    scan: Scan | Path,
    curve: Curve | Path,
    *,
    floor: float = FLOOR,
    draws: int = DRAWS,
    progress: bool = False,
) -> ItemContamination:
    """Weigh the matches of every item of a scan with a curve, draw by draw.

    Parameters
    ----------
    scan : Scan or path-like
    curve : Curve or path-like
    floor : float, default 0.35
        Cosine below which matches are not counted.
    draws : int, default 200
        Draws of the curve to use.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    ItemContamination
        Draws of whether and how often each item is duplicated, for `prevalence`.

    Raises
    ------
    DataError, FitError
        If there is no finished scan or no curve.
    UsageError
        If the curve does not cover all benchmarks and sources of the scan, or an option
        cannot be used.

    Notes
    -----
    A document counts once for an item, by its chunk nearest to the item. The documents of an
    item are independent given whether it is open and its effect on the curve, which are
    summed over. Matches that are not listed one by one enter through the histogram of
    cosines, in bins of 0.01, shared over sources as all cosines of the benchmark are; each
    chunk counts as a document of its own there. Of a scan by source every source has a
    histogram of its own, and nothing is shared. Where a search by an index estimated them from
    a sample, every draw has counts of its own. What was not scanned enters through the
    numbers of duplicates of all items of the benchmark. Sources are independent given the
    curve.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.item_contamination("no-such-folder", "curve.nc")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    scan, curve = _scan(scan), _curve(curve)
    check_options(floor, draws)
    refuse_other_scan(scan, curve)
    rng = stream(curve.record["seed"], "weighing")
    matches = Matches(scan, curve, floor, draws)
    lines = curve.draws(draws)
    named = curve.kinds or KINDS
    kinds = _kind_shares(matches.verdicts, curve.benchmarks, named, len(lines), rng)
    samples = TailSamples(scan, curve, matches, floor=floor, draws=draws)
    of_tail, tails = stream(curve.record["seed"], "tail"), []
    rows: dict[str, list[np.ndarray]] = {}
    with progress_bar(progress, "weighing", len(matches), "items") as advance:
        for place, item in enumerate(matches):
            exposure = ItemExposure(lines, item, rng)
            tails.append(samples.weigh(place, exposure, of_tail))
            for name, values in _parts(
                exposure, item, kinds, named, len(curve.sources), rng
            ).items():
                rows.setdefault(name, []).append(values)
            advance(1)
    parts = {name: np.stack(values, axis=1) for name, values in rows.items()}
    shares = scanned_shares(scan, curve.sources)
    items = scan.items[["benchmark", "item"]].reset_index(drop=True)
    scaled, number = _to_corpus(parts, items["benchmark"], curve.benchmarks, shares, kinds, rng)
    unscaled = {name: parts[name] for name in ("none_scanned", "none_by_rank")}
    # The curve may know sources that were not scanned: nothing is reported of them.
    there = np.isfinite(shares)
    scaled["none_by_source"] = scaled["none_by_source"][..., there]
    return ItemContamination(
        items=items,
        sources=tuple(name for name, kept_ in zip(curve.sources, there, strict=True) if kept_),
        shares=shares[there],
        kinds=named if kinds is not None else (),
        ranks=RANKS,
        expected_scanned=parts["expected_by_source"].sum(axis=-1),
        expected_rest=parts["expected_rest"],
        number=number,
        number_scanned=parts["drawn"].sum(axis=-1),
        chosen=curve.kinds,
        tail=join_tails(tails),
        **unscaled,
        **scaled,
    )


def contamination_covariates(
    scan: Scan | Path,
    curve: Curve | Path,
    *,
    floor: float = FLOOR,
    draws: int = DRAWS,
    progress: bool = False,
) -> Covariates:
    """Return for each item the probability that the corpus holds a duplicate of it.

    Parameters
    ----------
    scan : Scan or path-like
    curve : Curve or path-like
        From `fit_curve`.
    floor : float, default 0.35
        Cosine below which matches are not counted.
    draws : int, default 200
        Draws of the curve to use.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    Covariates
        For `fit`; see `bayescontam.evidence.covariates.covariates_table` for the columns.

    Raises
    ------
    DataError, FitError
        If there is no finished scan or no curve.
    UsageError
        If the curve does not cover all benchmarks and sources of the scan, or an option
        cannot be used.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.contamination_covariates("no-such-folder", "curve.nc")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    opened, fitted = _scan(scan), _curve(curve)
    weighed = item_contamination(opened, fitted, floor=floor, draws=draws, progress=progress)
    table = covariates_table(weighed, opened, fitted)
    return Covariates.from_frame(table, source=f"scan {opened.folder.name}")


def _scan(given: Scan | Path) -> Scan:
    return Scan.load(given) if isinstance(given, str | os.PathLike) else given


def _curve(given: Curve | Path) -> Curve:
    return given if isinstance(given, Curve) else Curve.from_netcdf(given)
