"""Cards: items of a benchmark beside the texts of their best matches."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescontam.names import visible
from bayescontam.report.excerpts import SHOWN, UNFOLDED, Excerpt, excerpt
from bayescontam.report.matches import KEYS, lexical_columns, lexical_name
from bayescontam.report.words import number

if TYPE_CHECKING:
    from bayescontam.scan.results import Scan

FIRST, FURTHER, BESIDE = 25, 50, 3
"""Items that are shown at once, and further ones; matches beside each."""
_ITEM, _DOCUMENT, _STRATUM = 120, 80, 60
"""Longest names, in characters."""

Card = dict[str, Any]


def cards(scan: "Scan", best: pd.DataFrame) -> tuple[list[Card], list[tuple[str, list[Card]]]]:
    """Return the items with the highest top cosines beside their matches.

    Parameters
    ----------
    scan : Scan
    best : pandas.DataFrame
        From `bayescontam.report.matches.best_matches`.

    Returns
    -------
    first : list of dict
        The 25 items with the highest top cosine of all.
    further : list of (str, list of dict)
        Benchmark and the next items of it; at most 50 of all benchmarks, each with an
        equal part. Their texts are shorter.
    """
    ordered = best.dropna(subset="cosine").sort_values("cosine", ascending=False, kind="stable")
    later = ordered.iloc[FIRST:]
    groups = list(later.groupby("benchmark", sort=False, observed=True))[:FURTHER]
    each = FURTHER // max(len(groups), 1)
    first = list(_cards(scan, ordered.iloc[:FIRST], UNFOLDED))
    return first, [(str(name), list(_cards(scan, part[:each], SHOWN))) for name, part in groups]


def _cards(scan: "Scan", rows: pd.DataFrame, unfolded: int) -> Iterator[Card]:
    kept = scan.matches[scan.matches["rank"] <= BESIDE].merge(rows[KEYS], on=KEYS)
    by_item = dict(iter(kept.sort_values("rank").groupby(KEYS, observed=True)))
    texts = _texts(scan, kept)
    row: Any
    for row in rows.to_dict("records"):
        matches = by_item[row["benchmark"], row["item"]].to_dict("records")
        yield {
            **row,
            "item": visible(str(row["item"]), _ITEM),
            "excerpt": _excerpt(row["text"], unfolded),
            "matches": [_match(match, texts, unfolded) for match in matches],
        }


def _texts(scan: "Scan", kept: pd.DataFrame) -> dict[int, str]:
    rows = scan.texts[scan.texts["chunk_id"].isin(kept["chunk_id"].unique())]
    return dict(zip(rows["chunk_id"].tolist(), rows["text"].tolist(), strict=True))


def _match(match: dict[Any, Any], texts: dict[int, str], unfolded: int) -> dict[str, Any]:
    return {
        **match,
        "place": place(match["source"], match["stratum"]),
        "document": visible(str(match["document"]), _DOCUMENT),
        "scores": [(lexical_name(name), number(match[name], 2)) for name in lexical_columns(match)],
        "excerpt": _excerpt(texts.get(match["chunk_id"]), unfolded),
    }


def place(source: object, stratum: object) -> str:
    """Return source and stratum in one line.

    Examples
    --------
    >>> place("web", "forum"), place("books", "")
    ('web: forum', 'books')
    """
    parts = [visible(str(part), _STRATUM) for part in (source, stratum) if str(part)]
    return ": ".join(parts)


def _excerpt(text: object, unfolded: int) -> Excerpt | None:
    return excerpt(text, unfolded=unfolded) if isinstance(text, str) and text else None
