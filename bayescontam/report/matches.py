"""Matches: what a scan found, as data frames with raw values."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from bayescontam.scan.results import Scan

LEVELS = (0.6, 0.7, 0.8, 0.9)
"""Cosines at which items are counted."""
FOUND = 0.8
"""Cosine from which on a match counts as found by cosine, where n-grams are compared."""
KEYS = ["benchmark", "item"]


def lexical_columns(columns: Iterable[object]) -> list[str]:
    """Return which columns are lexical baselines: ROUGE-L, n-grams from the longest, Jaccard.

    >>> lexical_columns(["cosine", "ngram_2", "jaccard", "ngram_13", "rouge_l"])
    ['rouge_l', 'ngram_13', 'ngram_2', 'jaccard']
    """
    names = set(map(str, columns))
    ngrams = sorted(filter(_length, names), key=_length, reverse=True)
    return [name for name in ("rouge_l", *ngrams, "jaccard") if name in names]


def ngram_column(columns: Iterable[object]) -> str | None:
    """Return the column of n-grams that matches are judged by: n = 8, else the longest.

    >>> ngram_column(["ngram_2", "ngram_8", "ngram_13"])
    'ngram_8'
    >>> ngram_column(["jaccard"]) is None
    True
    """
    names = [name for name in lexical_columns(columns) if _length(name)]
    return "ngram_8" if "ngram_8" in names else next(iter(names), None)


def lexical_name(column: str) -> str:
    """Return the name of a lexical baseline as people read it.

    >>> lexical_name("ngram_8"), lexical_name("rouge_l")
    ('8-grams', 'ROUGE-L')
    """
    named = {"rouge_l": "ROUGE-L", "jaccard": "Jaccard"}
    return named.get(column) or f"{_length(column)}-grams"


def _length(column: str) -> int:
    """Return the length of the n-grams of a column; 0 for other columns."""
    stem, _, number = column.rpartition("_")
    return int(number) if stem == "ngram" and number.isdecimal() else 0


def best_matches(scan: "Scan") -> pd.DataFrame:
    """Return one row for each item: its best match."""
    matches = scan.matches
    items = scan.items.reindex(columns=[*KEYS, "text", "tokens", "cut"])
    first = matches.loc[matches["rank"] == 1, [*KEYS, "cosine", *lexical_columns(matches)]]
    table = items.merge(first, on=KEYS, how="left", validate="one_to_one")
    table["cut"] = table["cut"].astype("boolean").fillna(False).astype(bool)
    table["missed"] = False
    if ngram := ngram_column(matches):
        most = matches.groupby(KEYS, sort=False, observed=True)[ngram].max()
        shared = table[KEYS].join(most.rename("most"), on=KEYS)["most"]
        table["missed"] = (table["cosine"] >= FOUND) & (shared == 0)
    return table


def headline(scan: "Scan", best: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each benchmark: how close the corpus comes to its items."""
    totals = scan.histogram.groupby("benchmark", observed=True)["count"].sum()
    tails = thresholds(scan).groupby("benchmark", observed=True)["threshold"]
    limits = tails.agg(tail_low="min", tail_median="median", tail_high="max")
    rows = []
    for benchmark, part in best.groupby("benchmark", sort=False, observed=True):
        cosines = part["cosine"]
        searched = float(totals.get(benchmark, 0)) / len(part)
        rows.append(
            {
                "benchmark": benchmark,
                "items": len(part),
                "cut": int(part["cut"].sum()),
                "chunks": (scan.record.get("search") or {}).get("chunks", searched),
                "low": cosines.quantile(0.05),
                "median": cosines.median(),
                "high": cosines.quantile(0.95),
                "top": cosines.max(),
                **{f"at_least_{level}": int((cosines >= level).sum()) for level in LEVELS},
                "missed": int(part["missed"].sum()),
            }
        )
    return pd.DataFrame(rows).join(limits, on="benchmark")


def thresholds(scan: "Scan") -> pd.DataFrame:
    """Return ``benchmark, item, threshold``: at which cosine the tail of each item starts."""
    return scan.tail.drop_duplicates(KEYS)[[*KEYS, "threshold"]]


def strata(scan: "Scan") -> pd.DataFrame:
    """Return one row for each stratum, those with most chunks first."""
    columns = ["source", "stratum", "documents", "sampled", "share", "chunks"]
    table = pd.DataFrame(scan.record.get("strata") or [], columns=columns)
    first = scan.matches[scan.matches["rank"] == 1]
    best = first.groupby(columns[:2], observed=True).size().rename("best")
    table = table.join(best, on=columns[:2]).fillna({"best": 0})
    return table.sort_values(["chunks", *columns[:2]], ascending=[False, True, True])
