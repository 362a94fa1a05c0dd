"""Agreement of judges beyond chance."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._optional import require
from bayescontam._random import stream
from bayescontam._text import printable
from bayescontam._types import FloatArray
from bayescontam.data.judgements import PAIR, Judgements, run_of, sort_of

_DRAWS = 10_000
_SORTS = {
    "people": ("person", "people"), "models": ("model", "models"), "rules": ("rule", "rules"),
    "trained": ("trained judge", "trained judges"),
}  # fmt: skip
"""What a judge, and judges, of each sort are called."""
_KEYS = list(PAIR)
_TWO = [
    "judge_a", "judge_b", "relation", "pairs", "unjudged", "agreement", "kappa", "kappa_low",
    "kappa_high", "kinds", "kinds_agreement", "kinds_kappa", "note",
]  # fmt: skip


@dataclass(frozen=True)
class Agreement:
    """How judges agree.

    .. [1] Cohen (1960), A coefficient of agreement for nominal scales.
       https://doi.org/10.1177/001316446002000104
    .. [2] Hayes and Krippendorff (2007), Answering the call for a standard reliability measure
       for coding data. https://doi.org/10.1080/19312450709336664
    """

    # `judge` (each run of a model is one), `pairs`, `duplicates`, `clean`, `unjudged`
    judges: pd.DataFrame
    # of every two that judged the same pairs: `judge_a`, `judge_b`, `relation`, `pairs` (with a
    # verdict of both), `unjudged` (lacking one), `agreement` (share of equal verdicts), Cohen's
    # `kappa` [1]_ with its central 95 % interval `kappa_low` to `kappa_high`, `kinds` (pairs of
    # which both named the kind), `kinds_agreement`, `kinds_kappa`, and `note` (why there is none)
    two: pd.DataFrame
    # krippendorff's `alpha` [2]_ over `judges` judges: `who` ("all" but rules, "people", "models",
    # "trained"), `pairs` (with two verdicts or more), `note`
    overall: pd.DataFrame
    kinds: pd.DataFrame  # pairs by both kinds: `judge_a`, `judge_b`, `kind_a`, `kind_b`, `pairs`
    verdicts: pd.DataFrame  # `judge`, `kind` ("": not given), `duplicates`, `clean`, `unjudged`

    def lines(self) -> Iterator[str]:
        """Give sentences that say what the tables cannot."""
        for row in self.overall.to_dict("records"):
            value = row["note"] or f"{row['alpha']:.3f}"
            yield (
                f"Krippendorff's alpha, {row['who']} ({row['judges']} judges,"
                f" {row['pairs']:,} pairs): {value}"
            )
        if unjudged := int(self.judges["unjudged"].sum()):
            yield f"{unjudged:,} rows are unjudged; they count as no verdict."
        for row in self.two[self.two["note"] != ""].to_dict("records"):
            names = f"{printable(row['judge_a'], 60)} and {printable(row['judge_b'], 60)}"
            yield f"{names}: {row['note']}."


def agreement(judgements: Judgements, *, seed: int = 1) -> Agreement:
    """Compare judges on the pairs that they share; an unjudged pair is no verdict."""
    frame = judgements.frame
    verdicts = _wide(frame, "is_duplicate").astype("Float64")
    kinds = _wide(frame, "kind").fillna("")
    given = _wide(frame.assign(given=True), "given").notna()
    rows: list[dict[str, Any]] = []
    confused: list[tuple[Any, ...]] = []
    for a, b in combinations(verdicts.columns, 2):
        if not (shared := given[a] & given[b]).any():
            continue
        rng = stream(seed, "kappa", a, b)
        named = kinds.loc[shared & (kinds[a] != "") & (kinds[b] != ""), [a, b]]
        rows.append(
            {"judge_a": a, "judge_b": b, "relation": _relation(a, b)}
            | _compared(verdicts.loc[shared, [a, b]], rng)
            | _kinds_compared(named)
        )
        counted: Any = named.value_counts()
        confused += [(a, b, *kinds_of_both, count) for kinds_of_both, count in counted.items()]
    return Agreement(
        _counted(frame, ["judge"]),
        pd.DataFrame(rows, columns=_TWO),
        _overall(verdicts),
        pd.DataFrame(confused, columns=["judge_a", "judge_b", "kind_a", "kind_b", "pairs"]),
        _counted(frame, ["judge", "kind"]).drop(columns="pairs"),
    )


def _wide(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return one row for each pair and one column for each judge."""
    return frame.pivot(index=_KEYS, columns="judge", values=column)


def _relation(a: str, b: str) -> str:
    if run_of(a)[0] == run_of(b)[0]:
        return "model with itself"
    one, other = sorted((sort_of(a), sort_of(b)), key=list(_SORTS).index)
    return _SORTS[one][1] if one == other else f"{_SORTS[one][0]} and {_SORTS[other][0]}"


def _compared(verdicts: pd.DataFrame, rng: np.random.Generator) -> dict[str, Any]:
    """Compare the verdicts of two judges."""
    both = verdicts.dropna().astype(int)
    a, b = both.iloc[:, 0], both.iloc[:, 1]
    kappa, note = _kappa(a, b)
    # The interval is that of the posterior under a Dirichlet(1/2, …) prior: unlike a bootstrap's it
    # does not shrink to a point where all verdicts are equal.
    counts = np.bincount(2 * a + b, minlength=4).reshape(2, 2)
    drawn = rng.dirichlet(counts.ravel() + 0.5, _DRAWS).reshape(-1, 2, 2)
    low, high = np.quantile(_kappas(drawn), [0.025, 0.975]) if not note else (np.nan, np.nan)
    return {
        "pairs": len(both),
        "unjudged": len(verdicts) - len(both),
        "agreement": float((a == b).mean()) if len(both) else np.nan,
        "kappa": kappa,
        "kappa_low": float(low),
        "kappa_high": float(high),
        "note": note,
    }


def _kinds_compared(named: pd.DataFrame) -> dict[str, Any]:
    a, b = named.iloc[:, 0], named.iloc[:, 1]
    share = float((a == b).mean()) if len(named) else np.nan
    return {"kinds": len(named), "kinds_agreement": share, "kinds_kappa": _kappa(a, b)[0]}


def _kappa(a: pd.Series, b: pd.Series) -> tuple[float, str]:
    """Return Cohen's kappa, or NaN and why there is none."""
    if a.empty:
        return np.nan, "no pair on which both have a verdict"
    if a.nunique() == 1 and set(a) == set(b):
        return np.nan, "kappa is not defined: both said the same of all pairs"
    score = require("sklearn.metrics", "scan").cohen_kappa_score
    return float(score(a.to_numpy(), b.to_numpy())), ""


def _kappas(tables: FloatArray) -> FloatArray:
    """Return kappa of probabilities of verdicts, (draws, 2, 2)."""
    same = np.trace(tables, axis1=1, axis2=2)
    chance = np.einsum("nij,nki->n", tables, tables)
    return (same - chance) / (1 - chance)


def _overall(verdicts: pd.DataFrame) -> pd.DataFrame:
    first: dict[str, Any] = {}
    for name in sorted(verdicts.columns, key=run_of):
        if sort_of(name) == "rules":
            continue  # which look for exact copies only, and so report of no other duplicate
        first.setdefault(run_of(name)[0], verdicts[name])
    groups = {
        "all": list(first),
    } | {
        sort: [name for name in first if sort_of(name) == sort]
        for sort in _SORTS
        if sort != "rules"
    }
    rows = []
    for who, names in groups.items():
        if len(names) > 1 and (who == "all" or len(names) < len(first)):
            rows.append({"who": who, "judges": len(names)} | _alpha([first[n] for n in names]))
    return pd.DataFrame(rows, columns=["who", "judges", "pairs", "alpha", "note"])


def _alpha(verdicts: list[pd.Series]) -> dict[str, Any]:
    """Return Krippendorff's alpha for nominal data: 1 - observed / expected disagreement."""
    table = pd.concat(verdicts, axis=1)
    counts = np.stack([(table == value).sum(axis=1).to_numpy() for value in (0, 1)], axis=1)
    counts = counts[counts.sum(axis=1) > 1].astype(float)
    size, total = counts.sum(axis=1), counts.sum(axis=0)
    observed = np.sum((size**2 - (counts**2).sum(axis=1)) / (size - 1))
    expected = (total.sum() ** 2 - (total**2).sum()) / max(total.sum() - 1, 1)
    alpha = 1 - observed / expected if expected else np.nan
    note = "" if expected else "not defined: all verdicts on shared pairs are the same"
    note = note if len(counts) else "not defined: no pair has verdicts of two judges"
    return {"pairs": len(counts), "alpha": float(alpha), "note": note}


def _counted(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    verdict = frame["is_duplicate"]
    flags = frame[by].assign(
        pairs=1,
        duplicates=(verdict == 1).fillna(False).astype(int),
        clean=(verdict == 0).fillna(False).astype(int),
        unjudged=verdict.isna().astype(int),
    )
    return flags.groupby(by, as_index=False).sum()
