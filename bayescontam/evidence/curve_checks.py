"""Checks of a curve: what the judgements can show, and whether the curve could have made them."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from bayescontam._random import stream
from bayescontam._text import join_list
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.judgements import sort_of
from bayescontam.evidence.curve_draws import CurveDraws, flat, take_curve
from bayescontam.evidence.curve_model import BuiltCurve
from bayescontam.evidence.kinds import EXACT, FIRST, NONE, UNNAMED
from bayescontam.evidence.predictor import FEWEST, READERS, Predictor
from bayescontam.evidence.verdicts import Verdicts, seen
from bayescontam.inference.checks import Check, Outcome, Thresholds

REPLICATES = 500
BINS = 6
"""Most cosine bins of a benchmark."""
_IN_BIN = 20
"""Verdicts that make a bin."""
_MOST_FLAGGED = 0.9
"""Share of a predictor's verdicts from which on they seem to be those alone that it flagged."""
FEWEST_NEAREST = 20
"""Items of a benchmark whose nearest documents were judged, from which openness is learnt."""
LEAST = 5
"""Verdicts of either kind that a cell must be expected to hold to be checked."""


def evidence_checks(
    verdicts: Verdicts,
    validated: Collection[str] = (),
    predictor: Predictor | None = None,
    unused: Collection[str] = (),
) -> Iterator[Check]:
    """Check what the judgements can show at all, with the figures of validated judges.

    Validations of `unused` were given, and are not used.
    """
    if not len(verdicts):
        yield Check(
            "Judgements", Outcome.CAUTION, 0, "> 0",
            "Nothing was judged: the curve is the prior, made for no embedder in particular."
            " Judge some pairs: bayescontam judge export.",
        )  # fmt: skip
        return
    of_judge = np.array([sort_of(judge) for judge in verdicts.judges])
    sort = of_judge[verdicts.judge]
    if (sort == "models").any():
        yield _models(_shared(verdicts, sort == "models", sort == "people"))
    if predictor is not None:
        yield _predictor(predictor, predictor.judge in unused)
    for judge in np.flatnonzero(of_judge == "trained").tolist():
        yield _trained(verdicts.judges[judge], verdicts.judges[judge] in validated)
    if (sort == "trained").any():
        read = verdicts.pair[np.isin(sort, READERS)]
        alone = np.setdiff1d(verdicts.pair[sort == "trained"], read)
        yield _weight(len(alone), len(np.unique(read)))
    if (sort == "rules").any() and verdicts.kinds != EXACT:
        yield _rules(len(np.unique(verdicts.pair[sort != "rules"])))
    if verdicts.kinds:
        yield _kinds(verdicts)
    yield _nearest(verdicts)
    if bare := len(verdicts.benchmarks) - len(np.unique(verdicts.benchmark)):
        yield Check(
            "Benchmarks", Outcome.CAUTION, bare, "0",
            f"{bare} benchmarks without judgements have the curve that the others and the"
            " prior give them.",
        )  # fmt: skip


def _shared(verdicts: Verdicts, one: NDArray[np.bool_], other: NDArray[np.bool_]) -> int:
    """Return the number of pairs with verdicts of both."""
    return len(np.intersect1d(verdicts.pair[one], verdicts.pair[other]))


def _models(both: int) -> Check:
    if not both:
        return Check(
            "Judges", Outcome.CAUTION, 0, "> 0",
            "No pair was judged by a person and a language model: the model's errors are as the"
            " prior says. Let people judge some of its pairs: bayescontam judge export.",
        )  # fmt: skip
    sentence = f"{both:,} pairs were judged by people and by a language model."
    return Check("Judges", Outcome.PASSED, both, "> 0", sentence)


def _predictor(predictor: Predictor, unused: bool) -> Check:
    name, every = f"Judge {predictor.judge}", len(predictor.reported)
    flagged, others = predictor.read
    share = float((predictor.reported["sign"] > 0).mean())
    ignored = " Its validation is not used, as it counts such pairs too." if unused else ""
    words = (
        f"{flagged + others:,} of its {every:,} pairs were judged by people or language models as"
        f" well: {flagged:,} that it reports as duplicates, and {others:,} others"
    )
    if share > _MOST_FLAGGED:
        return Check(
            name, Outcome.CAUTION, share, f"≤ {_MOST_FLAGGED}",
            f"{share:.0%} of its verdicts report a duplicate: if others were left out, the curve"
            f" comes out too high. Give all of its verdicts.{ignored}",
        )  # fmt: skip
    if min(flagged, others) < FEWEST:
        return Check(
            name, Outcome.CAUTION, min(flagged, others), f"≥ {FEWEST}",
            f"{words}, too few to learn from what its verdicts mean: that is largely as the prior"
            f" says. Let people or a language model judge more of either.{ignored}",
        )  # fmt: skip
    sentence = f"{words}, from which it is learnt what its verdicts mean.{ignored}"
    return Check(name, Outcome.PASSED, min(flagged, others), f"≥ {FEWEST}", sentence)


def _trained(judge: str, validated: bool) -> Check:
    name = f"Judge {judge}"
    if validated:
        return Check(name, Outcome.PASSED, 0, "0", "Its errors are those of its validation.")
    return Check(
        name, Outcome.CAUTION, 0, "> 0",
        "No document's nearest chunk was judged by it and by a person or a language model: its"
        " errors are as the prior says. Give judgements of some of its pairs, such as it learnt"
        " from, or its validation (--validation).",
    )  # fmt: skip


def _weight(alone: int, read: int) -> Check:
    """Check that verdicts of trained judges do not outweigh those of judges who read the texts."""
    name, bound = "Weight of trained judges", f"≤ {read:,}"
    if alone <= read:
        sentence = f"{alone:,} pairs were judged by a trained judge alone, {read:,} by others."
        return Check(name, Outcome.PASSED, alone, bound, sentence)
    return Check(
        name, Outcome.FAILED, alone, bound,
        f"{alone:,} pairs were judged by a trained judge alone, and {read:,} by people or language"
        " models. A trained judge looks at the cosine and errs more where that is high; the curve"
        " takes its errors to be as frequent everywhere, so that its intervals are far too narrow"
        " and may miss the truth. Leave its verdicts out, and have others judge more pairs, which"
        " it did not choose: bayescontam judge export, or judge llm.",
    )  # fmt: skip


def _rules(others: int) -> Check:
    if not others:
        return Check(
            "Rules", Outcome.CAUTION, 0, "> 0",
            "Only rules judged, which find exact copies: how many other duplicates there are is as"
            " the prior says. Choose exact ones alone (--kind exact), or let people or models"
            " judge some pairs.",
        )  # fmt: skip
    sentence = f"{others:,} pairs were judged by others than rules."
    return Check("Rules", Outcome.PASSED, others, "> 0", sentence)


def _kinds(verdicts: Verdicts) -> Check:
    named = int((verdicts.called >= FIRST).sum())
    plain = int(((verdicts.called == UNNAMED) & ~verdicts.by_rule).sum())
    blank = f" {plain:,} named none: these count as duplicates of unknown kind." if plain else ""
    if not named and not (verdicts.by_rule.any() and len(verdicts.split) == 2):
        return Check(
            "Kinds", Outcome.CAUTION, 0, "> 0",
            "No judge named the kind of a duplicate: what share of duplicates is of the chosen"
            f" kinds is as the prior says.{blank}",
        )  # fmt: skip
    sentence = f"{named:,} verdicts named the kind of a duplicate.{blank}"
    return Check("Kinds", Outcome.PASSED, named, "> 0", sentence)


def _nearest(verdicts: Verdicts) -> Check:
    """Check that verdicts can show which items have duplicates at all."""
    judged = np.unique(verdicts.pair[~verdicts.by_rule])
    of = verdicts.benchmark[judged[verdicts.nearest[judged]]]
    numbers = np.bincount(of, minlength=len(verdicts.benchmarks))
    used = np.unique(verdicts.benchmark)
    few = used[numbers[used] < FEWEST_NEAREST]
    name, least = "Nearest documents", int(numbers[used].min())
    if len(few):
        counts = join_list([f"{verdicts.benchmarks[b]} ({numbers[b]})" for b in few.tolist()])
        return Check(
            name, Outcome.CAUTION, least, f"≥ {FEWEST_NEAREST}",
            f"The nearest documents of few items were judged: {counts}. Whether an item has any"
            " duplicate is learnt from these; it is largely as the prior says, and so is"
            " prevalence. Judge more of them: bayescontam judge export --per-item 1.",
        )  # fmt: skip
    sentence = f"The nearest documents of {least:,} items or more of each benchmark were judged."
    return Check(name, Outcome.PASSED, least, f"≥ {FEWEST_NEAREST}", sentence)


def bins(verdicts: Verdicts) -> IntArray:
    """Return the cell of each verdict: benchmark × bin of about equally many cosines."""
    cell = np.zeros(len(verdicts.called), dtype=np.int64)
    benchmark, cosine = verdicts.benchmark[verdicts.pair], verdicts.cosine[verdicts.pair]
    for b in range(len(verdicts.benchmarks)):
        rows = benchmark == b
        if not rows.any():
            continue
        count = max(1, min(BINS, int(rows.sum()) // _IN_BIN))
        edges = np.unique(np.quantile(cosine[rows], np.linspace(0, 1, count + 1)[1:-1]))
        cell[rows] = b * BINS + np.searchsorted(edges, cosine[rows], side="right")
    return cell


def replicate(posterior: xr.Dataset, built: BuiltCurve, seed: int) -> xr.Dataset:
    """Replicate the judgements from posterior draws and return shares of groups, dims (cell,)."""
    verdicts, rng = built.verdicts, stream(seed, "curve predictive")
    draws = take_curve(posterior, built.spec, verdicts.kinds)
    rows = np.linspace(0, len(draws) - 1, min(REPLICATES, len(draws))).astype(int)
    draws = draws[rows]
    hit, clear = (flat(posterior, name)[rows] for name in ("sensitivity", "specificity"))
    level: FloatArray = np.empty((len(rows), len(verdicts)))
    open_: FloatArray = np.empty((len(rows), len(verdicts.items)))
    for b in range(len(verdicts.benchmarks)):
        own = verdicts.benchmark == b
        level[:, own] = draws.log_odds(
            verdicts.cosine[own], b, verdicts.source[own], verdicts.place[own]
        )
        own = verdicts.benchmark_of_item == b
        open_[:, own] = draws.log_odds_open(verdicts.best[own], b)
    # Effects of items are drawn anew: with their own, fitted to the verdicts that they are
    # checked against, no check could fail.
    effect = rng.standard_normal(open_.shape) * draws.sigma_item
    level = level + effect[:, verdicts.item]
    if (given := verdicts.reported) is not None:
        open_, share = draws.informed_open(open_, given.sign_open, given.share_open)
        nearest = verdicts.nearest & (given.sign == given.sign_open[verdicts.item])
        share = np.where(nearest, share[:, verdicts.item], given.share)
        level = draws.informed(level, verdicts.cosine, given.sign, share)
    opened = rng.random(open_.shape) < expit(open_)
    true = rng.random(level.shape) < expit(level)
    true &= opened[:, verdicts.item]
    hit, clear = hit[:, verdicts.judge], clear[:, verdicts.judge]
    share = flat(posterior, "share_further", default=1.0)[rows]
    hit = seen(hit, clear, share, verdicts.further)
    found = true[:, verdicts.pair]
    data = {}
    if draws.kinds is not None:
        kind = _drawn_classes(draws, verdicts, rng)[:, verdicts.pair]
        found = found & ((kind == 0) | ~verdicts.by_rule)
        if (verdicts.called >= FIRST).any():
            data = _named(draws, verdicts, kind, rng)
    called = rng.random(found.shape) < np.where(found, hit, 1 - clear)
    every = np.ones(len(verdicts.called), dtype=bool)
    return xr.Dataset(_cells(verdicts, every, verdicts.called > NONE, called) | data)


def _drawn_classes(draws: CurveDraws, verdicts: Verdicts, rng: np.random.Generator) -> IntArray:
    """Draw the class of kinds of each pair, dims (replicate, pair)."""
    assert draws.kinds is not None
    kind = np.zeros((len(draws), len(verdicts)), dtype=np.int64)
    for b in range(len(verdicts.benchmarks)):
        own = np.flatnonzero(verdicts.benchmark == b)
        total = np.exp(draws.kinds.log_shares(verdicts.cosine[own], b)).cumsum(axis=-1)
        u = rng.random((len(draws), len(own), 1))
        kind[:, own] = (total[..., :-1] < u).sum(axis=-1)
    return kind


def _named(
    draws: CurveDraws, verdicts: Verdicts, kind: IntArray, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the shares of verdicts with a kind that name an exact one, or replicated do."""
    assert draws.kinds is not None
    given = verdicts.called >= FIRST
    naming = draws.kinds.naming[:, np.searchsorted(verdicts.namers, verdicts.judge[given])]
    kind = kind[:, given]
    wrong = rng.integers(1, len(verdicts.split), kind.shape)
    right = rng.random(kind.shape) < naming
    named = np.where(right, kind, (kind + wrong) % len(verdicts.split))
    cells = _cells(verdicts, given, verdicts.called[given] == FIRST, named == 0)
    # A part of its own, with names of its own.
    return {
        f"kind_{name}": (tuple(x.replace("cell", "kind_cell") for x in np.atleast_1d(dims)), values)
        for name, (dims, values) in cells.items()
    }


def _cells(
    verdicts: Verdicts, rows: NDArray[np.bool_], seen_: NDArray[np.bool_], made: NDArray[np.bool_]
) -> dict[str, Any]:
    """Return observed and replicated shares of some verdicts, by benchmark and cosine."""
    cells, place, count = np.unique(bins(verdicts)[rows], return_inverse=True, return_counts=True)

    def shares(values: np.ndarray) -> FloatArray:
        return np.stack([np.bincount(place, row, len(cells)) for row in values]) / count

    return {
        "benchmark_of_cell": ("cell", cells // BINS),
        "cosine": ("cell", shares(verdicts.cosine[verdicts.pair[rows]][None])[0]),
        "count": ("cell", count),
        "share": ("cell", shares(seen_[None])[0]),
        "share_replicated": (("replicate", "cell"), shares(made)),
    }


def predictive_checks(predictive: xr.Dataset, limits: Thresholds) -> Iterator[Check]:
    """Check shares called duplicates, and of the kinds named, with Bonferroni's correction."""
    yield _predicted(
        predictive, "", limits, "Judgements by cosine",
        "The curve gives such shares of duplicates as were found in every range of cosines.",
        "was called a duplicate, the curve expects {:.2f}: add knots there, or widen the prior of"
        " sigma_shape.",
    )  # fmt: skip
    if "kind_share" in predictive:
        yield _predicted(
            predictive, "kind_", limits, "Kinds by cosine",
            "Kinds were named in such shares as the curve gives, in every range of cosines.",
            "of the kinds that were named is exact, the curve expects {:.2f}: shares of kinds do"
            " not follow a logistic curve there; do not rely on the curve of chosen kinds.",
        )  # fmt: skip


def _predicted(
    predictive: xr.Dataset, part: str, limits: Thresholds, name: str, fine: str, wrong: str
) -> Check:
    """Check shares by a Normal approximation."""
    observed, replicated, count, cosine = (
        predictive[f"{part}{column}"].to_numpy()
        for column in ("share", "share_replicated", "count", "cosine")
    )
    center, spread = replicated.mean(axis=0), replicated.std(axis=0)
    # Cells with fewer expected verdicts of either kind are too small for the approximation.
    large = count * np.minimum(center, 1 - center) >= LEAST
    z = np.where(large, np.abs(observed - center) / np.where(large, spread, 1.0), 0.0)
    worst, p = int(z.argmax()), min(1.0, 2 * float(norm.sf(z.max())) * max(int(large.sum()), 1))
    if p >= limits.predictive:
        return Check(name, Outcome.PASSED, p, f"p ≥ {limits.predictive:g}", fine)
    sentence = (
        f"At cosines near {float(cosine[worst]):.2f} a share of {observed[worst]:.2f} "
        + wrong.format(center[worst])
    )
    return Check(name, Outcome.FAILED, p, f"p ≥ {limits.predictive:g}", sentence)
