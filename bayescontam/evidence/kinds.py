"""Kinds of duplicates: which ones a curve is about, their shares, and what judges name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import log_expit, logsumexp

from bayescontam._types import FloatArray, IntArray
from bayescontam.data.judgements import sort_of
from bayescontam.errors import UsageError
from bayescontam.specs.base import suggest

KINDS = ("exact", "equivalent", "subset", "superset", "related")
"""Kinds that a duplicate can be of."""
EXACT = ("exact",)
"""The kind that rules look for."""
MIDDLE = 0.7
"""Cosine at which the log-odds of a chosen kind have their own prior."""
NONE, UNNAMED, FIRST = 0, 1, 2
"""Codes of verdicts: no duplicate; one whose kind is not given; one of the first class."""


@dataclass(frozen=True)
class Split:
    """Classes of kinds that a curve distinguishes among duplicates: exact ones are the first."""

    classes: tuple[tuple[str, ...], ...] = ()  # none where kinds make no difference
    chosen: tuple[bool, ...] = ()  # of which classes the duplicates count

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def partial(self) -> bool:
        """Whether duplicates of some class do not count."""
        return not all(self.chosen)

    def codes(self, judged: pd.DataFrame) -> IntArray:
        """Return the code of each verdict; a rule's has no kind of its own."""
        called = judged["is_duplicate"].to_numpy(np.int64)
        if not self.classes:
            return called
        at = {kind: k for k, kinds in enumerate(self.classes) for kind in kinds}
        named = judged["kind"].map(at).to_numpy(float)
        rule = np.array([sort_of(judge) == "rules" for judge in judged["judge"]], dtype=bool)
        coded = np.where(np.isnan(named) | rule, UNNAMED, FIRST + np.nan_to_num(named))
        codes: IntArray = np.where(called == 1, coded, NONE).astype(np.int64)
        return codes


def check_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return chosen kinds in the order of `KINDS`, or raise a `UsageError`."""
    given = [kinds] if isinstance(kinds, str) else list(kinds)
    for kind in given:
        if kind not in KINDS:
            hint = suggest(str(kind), KINDS)
            raise UsageError(f"kinds: a duplicate cannot be of the kind {kind!r} ({hint})")
    return tuple(kind for kind in KINDS if kind in given)


def kind_words(kinds: tuple[str, ...]) -> str:
    """Return which duplicates count, to follow the word.

    >>> "duplicates" + kind_words(("equivalent", "subset"))
    'duplicates of the kinds equivalent and subset'
    """
    if not kinds:
        return ""
    *first, last = kinds
    return f" of the kinds {', '.join(first)} and {last}" if first else f" of the kind {last}"


def split_of(kinds: tuple[str, ...], rules: bool) -> Split:
    """Return the classes for chosen kinds (none: any duplicate), and whether rules judged."""
    if not kinds and not rules:
        return Split()
    others = KINDS[1:]
    if not kinds:
        return Split((EXACT, others), (True, True))
    mine = tuple(kind for kind in others if kind in kinds)
    rest = tuple(kind for kind in others if kind not in kinds)
    parts = [(EXACT, "exact" in kinds), (mine, True), (rest, False)]
    classes, chosen = zip(*[part for part in parts if part[0]], strict=True)
    return Split(classes, chosen)


def log_shares(
    exact: Any, chosen: Any, classes: int, log_sigmoid: Callable[[Any], Any]
) -> list[Any]:
    """Return the log share of each class, of the log-odds of exact, and of chosen among others."""
    rest = log_sigmoid(-exact)
    if classes == 2:
        return [log_sigmoid(exact), rest]
    return [log_sigmoid(exact), rest + log_sigmoid(chosen), rest + log_sigmoid(-chosen)]


@dataclass(frozen=True, eq=False)
class KindDraws:
    """Draws of the shares of kinds among duplicates, by cosine."""

    split: Split
    threshold_exact: FloatArray  # (draw, benchmark)
    steepness_exact: FloatArray  # (draw, 1), as `chosen_slope`
    chosen: FloatArray  # (draw, benchmark)
    chosen_slope: FloatArray
    naming: FloatArray  # P(a judge names the right class), (draw, judge)

    def __getitem__(self, rows: Any) -> "KindDraws":
        names = "threshold_exact", "steepness_exact", "chosen", "chosen_slope", "naming"
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def log_shares(self, cosine: FloatArray, benchmark: int) -> FloatArray:
        """Return the log of the share of each class at these cosines, (draw, cosine, class)."""
        x = np.asarray(cosine, dtype=float)[None]
        exact = self.steepness_exact * (x - self.threshold_exact[:, [benchmark]])
        chosen = self.chosen[:, [benchmark]] + self.chosen_slope * (x - MIDDLE)
        return np.stack(log_shares(exact, chosen, len(self.split), log_expit), axis=-1)

    def counted(self, cosine: FloatArray, benchmark: int) -> FloatArray:
        """Return the share of duplicates that are of a chosen kind, (draw, cosine)."""
        return self.counted_of(self.log_shares(cosine, benchmark))

    def counted_of(self, log_weights: FloatArray) -> FloatArray:
        """Return the share of the chosen classes, of log weights of all, (…, class)."""
        own = log_weights[..., np.array(self.split.chosen)]
        share: FloatArray = np.exp(logsumexp(own, axis=-1) - logsumexp(log_weights, axis=-1))
        return share


def opinions(judged: pd.DataFrame, kinds: tuple[str, ...]) -> pd.DataFrame:
    """Return the verdicts on what a curve counts: ``is_duplicate`` is 1 for a chosen kind.

    Left out are verdicts that leave it open: that no exact copy was found, unless only exact
    ones count, and duplicates whose kind is not given, where kinds were chosen.
    """
    rule = np.array([sort_of(judge) == "rules" for judge in judged["judge"]], dtype=bool)
    called = judged["is_duplicate"].to_numpy(np.int64) == 1
    open_ = rule & ~called & (kinds != EXACT)
    if not kinds:
        return judged[~open_]
    kind = judged["kind"].where(~rule, EXACT[0])
    open_ |= called & ~kind.isin(KINDS).to_numpy()
    counts = called & kind.isin(kinds).to_numpy()
    return judged.assign(is_duplicate=counts.astype(np.int64))[~open_]
