"""How many planted duplicates a scan finds, and what judges, curve and covariates make of them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayescontam._random import check_seed
from bayescontam._text import join_list
from bayescontam.data.covariates import Covariates
from bayescontam.data.judgements import Judgements
from bayescontam.duplicates.planting import ABSENT
from bayescontam.duplicates.recall_scores import (
    item_scores,
    pair_scores,
    score_columns,
    share_interval,
)
from bayescontam.duplicates.truth import (
    GROUP,
    KEYS,
    check_items,
    overlaps,
    planted_rows,
    read_truth,
)
from bayescontam.errors import UsageError
from bayescontam.scan.results import Scan

if TYPE_CHECKING:
    from bayescontam.evidence.curve import Curve

type Path = str | os.PathLike[str]

RANKS, COSINES = (1, 10, 100), (0.5, 0.6, 0.7, 0.8, 0.9)
"""Ranks up to which, and cosines from which on, recall is given."""


@dataclass(frozen=True, eq=False)
class Recalled:
    """How many planted duplicates a scan found, and what was made of those it found.

    Columns that end in ``_low`` and ``_high`` are the interval of the one without.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each ``kind, level, place``, and ``form`` where there are several: how many were
        ``planted``; their ``median_cosine`` (those that are not among the stored matches of their
        item count as lower than any; NaN if half are not); and the share that is among the k best
        matches of their item (``recall@k``; NaN for a k beyond the matches that are stored) and
        with ``cosine ≥ …``. A share with a cosine below the lowest that is stored of an item is a
        lower bound: matches that are not stored may have it, too.
    scores : pandas.DataFrame
        For the cosine and each lexical score of the scan: ``auc``, the probability that the best
        match of an item with a planted duplicate scores higher than that of one without. Empty
        unless there are items of both sorts.
    duplicates : pandas.DataFrame
        The truth, with the ``cosine``, ``rank`` and lexical scores of the best match that holds a
        part of the duplicate; NaN where none is stored.
    chunks : int
        Chunks that each item was compared with: of texts at random, k of these are within rank k.
        Of a scan by source, those of the largest one; ranks are then those within a source.
    roc : pandas.DataFrame
        ``score, threshold, false_positive_rate, true_positive_rate``: of items without and with a
        planted duplicate the share whose best match scores that high.
    pair_scores : pandas.DataFrame
        For each ``kind, level, score``: ``auc``, the probability that the match of a planted
        duplicate scores higher than a match of the same ``items`` that holds none, of ``planted``
        and ``others`` pairs. Both are among the best matches by cosine, so that this is not what
        a search by words alone would find.
    judges : pandas.DataFrame
        For each ``judge, kind, level``: ``judged``, of the ``planted`` duplicates those whose
        match was judged; ``recall``, the share of these that was called a duplicate;
        ``judged_others``, pairs that hold no planted duplicate of their item; and
        ``false_alarms``, the share of these that was called one. The corpus may hold duplicates
        of its own, which are no false alarms: the share is an upper bound. Empty without
        judgements.
    curve : pandas.DataFrame
        For each ``kind, level``: ``matched``, of the ``planted`` duplicates those with a stored
        match; the ``share`` of these that are duplicates, 1 by construction; and ``expected``,
        the mean P(duplicate | cosine) of their best matches. Empty without a curve.
    calibration : pandas.DataFrame
        Stored matches, of each document that nearest to the item, by their probability under the
        curve (``p_from`` to ``p_to``): how many, their mean probability (``expected``), and the
        share that holds a planted duplicate of the item (``observed``). Duplicates that the
        corpus held before are not counted, so that it may be lower than it should be.
    covariates : pandas.DataFrame
        For each measure of contamination (``column``): its mean over items with planted
        duplicates (``mean_planted``) and without (``mean_others``), how well it orders them
        (``auc``), its ``correlation`` with the number of planted copies, and ``reliability``, the
        square of that: the share of its variance between items that the truth explains. Empty
        without covariates.
    level : float
        Probability of the intervals.
    stored : int, optional
        Best matches of each item that the scan stores (``top_k``); None where all are stored, or
        this is not known.
    notes : tuple of str
        What may mislead: ranks of which nothing is known, or documents that no match names.
    """

    table: pd.DataFrame
    scores: pd.DataFrame
    duplicates: pd.DataFrame
    chunks: int
    roc: pd.DataFrame
    pair_scores: pd.DataFrame
    judges: pd.DataFrame
    curve: pd.DataFrame
    calibration: pd.DataFrame
    covariates: pd.DataFrame
    level: float
    stored: int | None = None
    notes: tuple[str, ...] = ()


def recall(
    scan: Scan | Path,
    truth: pd.DataFrame | Path,
    *,
    judgements: Judgements | pd.DataFrame | Path | None = None,
    curve: "Curve | Path | None" = None,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Recalled:
    """Count which planted duplicates a scan found, and what was made of them.

    Parameters
    ----------
    scan : Scan or path
        A scan of the corpus that `plant_duplicates` wrote.
    truth : pandas.DataFrame or path
        What it returned, or its ``truth.csv``.
    judgements : Judgements, pandas.DataFrame or path, optional
        Judgements of pairs of the scan: adds the recall and false alarms of each judge.
    curve : Curve or path, optional
        P(duplicate | cosine) of the scan: adds what it makes of planted duplicates. If judgements
        of these pairs are among those that it was fitted to, it has seen what it is held against.
    covariates : Covariates, pandas.DataFrame or path, optional
        What ``bayescontam covariates`` wrote: adds how reliable they are.
    level : float, default 0.95
        Of intervals. Shares have equal-tailed ones under Jeffreys' prior, of the number of
        independent duplicates (or pairs) that would vary as much: those of one item may be alike,
        items are taken for independent. Figures of covariates have those of a bootstrap over
        items; areas under curves have these, too, widened to Newcombe's (2006, method 5,
        doi:10.1002/sim.2324), since a bootstrap of few items, or of two sorts that do not overlap,
        is too narrow. What a curve expects has that of its draws.
    seed : int, default 0
        Of the bootstrap.

    Returns
    -------
    Recalled

    Raises
    ------
    UsageError
        If `level` is none, or the curve is of another scan.
    DataError
        Where the truth lacks a column, or the truth, judgements or covariates are about other
        items than the scan.

    Notes
    -----
    A pair of item and chunk holds a planted duplicate if they overlap in a document and the
    duplicate is of that item. A scan names one document for a text: duplicates of one text that
    are documents of their own share the match of any of them (in truths of earlier versions, which
    lack ``text_sha256``, only copies of one duplicate do). Where the corpus held a planted text
    before, the match may name that place, and the duplicate count as not found.

    Examples
    --------
    >>> recall("no-such-folder", "truth.csv")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    if not 0 < level < 1:
        raise UsageError(f"level: got {level}; allowed is a number between 0 and 1")
    seed = check_seed(seed)
    found = scan if isinstance(scan, Scan) else Scan.load(scan)
    known = read_truth(truth)
    check_items(known, found)
    matches = found.matches.reset_index(drop=True)
    matches = matches.assign(**{name: matches[name].astype(str) for name in (*KEYS, "document")})
    placed = planted_rows(known).reset_index(drop=True)
    over = overlaps(placed, matches)
    scores = ["rank", *score_columns(matches)]
    best = over.join(matches[scores], on="pair").sort_values("rank").drop_duplicates("row")
    placed = placed.join(best.set_index("row")[scores])
    has = (known["place"] != ABSENT).groupby([known[key] for key in KEYS]).any()
    areas, roc = item_scores(matches, has, level, seed)
    of_pairs = pair_scores(
        matches, placed.dropna(subset="rank"), matches.index.isin(over["pair"]), level, seed
    )
    judges, expected, binned, measured = (pd.DataFrame() for _ in range(4))
    if not (judgements is None and curve is None and covariates is None):
        from bayescontam.duplicates import recall_evidence as evidence  # loads the sampler

        if judgements is not None:
            judges = evidence.judge_table(found, judgements, known, level)
        if curve is not None:
            expected, binned = evidence.curve_tables(found, curve, known, level)
        if covariates is not None:
            measured = evidence.covariate_table(covariates, known, level, seed)
    of_list = [*KEYS, "source"] if found.by_source else KEYS
    if len(found.histogram):
        chunks = int(found.histogram.groupby(of_list)["count"].sum().max())
    else:
        chunks = _chunks(found)
    stored = _stored(found, matches.groupby(of_list).size())
    return Recalled(
        _table(placed, level, stored), areas, placed, chunks, roc, of_pairs, judges, expected,
        binned, measured, level, stored, (*_notes(placed, matches, stored), *_list_notes(found)),
    )  # fmt: skip


def _chunks(scan: Scan) -> int:
    """Return how many chunks an item was compared with, where no cosine was counted."""
    if not scan.by_source:
        return int(scan.record["search"]["chunks"])
    strata = pd.DataFrame(scan.record["strata"])
    return int(strata.groupby("source")["chunks"].sum().max())


def _stored(scan: Scan, sizes: "pd.Series[int]") -> int | None:
    """Return how many matches of an item are stored, by their numbers; None where all are."""
    top = scan.record.get("search", {}).get("top_k")
    most = int(sizes.max()) if len(sizes) else 0
    return top if isinstance(top, int) and most >= top else None


def _list_notes(scan: Scan) -> Iterator[str]:
    """Yield which ranks they are where an item has several lists of best matches."""
    if scan.by_source:
        yield (
            "ranks are those among the best matches of the duplicate's own source, as the scan"
            " searched sources one by one"
        )


def _notes(placed: pd.DataFrame, matches: pd.DataFrame, stored: int | None) -> Iterator[str]:
    """Yield what is not known, and what points to a truth of another corpus."""
    if stored is not None and (beyond := [f"recall@{k}" for k in RANKS if k > stored]):
        yield (
            f"{', '.join(beyond)}: not known, since the scan stores the {stored:,} best matches of"
            f" each item; scan with a top_k of {max(RANKS)} or more"
        )
    ours = pd.unique(placed["document"])
    if len(matches) and not matches["document"].isin(ours).any():
        yield (
            f"no match names any of the {len(ours):,} documents of the truth, such as"
            f" {join_list(ours, 2)}; matches name {join_list(pd.unique(matches['document']), 2)}."
            " Either none of the duplicates was found, or the scan is of another corpus, or it"
            " names documents by another field than 'id' (document, in its manifest)"
        )


def _table(placed: pd.DataFrame, level: float, stored: int | None) -> pd.DataFrame:
    """Return how many duplicates were found of each kind, level and place, and form."""
    groups = [*GROUP, "place", *(["form"] if placed["form"].nunique() > 1 else [])]
    return pd.DataFrame(
        [
            dict(zip(groups, group, strict=True)) | shares_found(rows, level, stored)
            for group, rows in placed.groupby(groups)
        ]
    )


def shares_found(rows: pd.DataFrame, level: float, stored: int | None = None) -> dict[str, Any]:
    """Return how many of some duplicates were found, with intervals.

    Of ranks beyond those that are `stored`, by default all, nothing is known.
    """
    median = rows["cosine"].fillna(-np.inf).median()
    figures = {"planted": len(rows), "median_cosine": median if np.isfinite(median) else np.nan}
    hits = {f"recall@{most}": rows["rank"] <= most for most in RANKS}
    hits |= {f"cosine ≥ {least:g}": rows["cosine"] >= least for least in COSINES}
    beyond = {f"recall@{most}" for most in RANKS if stored is not None and most > stored}
    items = list(rows[KEYS].itertuples(index=False, name=None))
    for name, hit in hits.items():
        share, low, high = share_interval(hit.to_numpy(bool), items, level)
        if name in beyond:
            share, low, high = np.nan, np.nan, np.nan
        figures |= {name: share, f"{name}_low": low, f"{name}_high": high}
    return figures
