"""Cards: items of a benchmark beside the texts of their best matches."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescontam.judgements import PAIR
from bayescontam.names import visible
from bayescontam.report.excerpts import SHOWN, UNFOLDED, Excerpt, excerpt
from bayescontam.report.matches import KEYS, lexical_columns, lexical_name
from bayescontam.report.words import number

if TYPE_CHECKING:
    from bayescontam.report.evidence import Evidence
    from bayescontam.scan.results import Scan

FIRST, FURTHER, BESIDE = 25, 50, 3
"""Items that are shown at once, and further ones; matches beside each."""
_ITEM, _DOCUMENT, _STRATUM = 120, 80, 60
"""Longest names, in characters."""

Card = dict[Any, Any]


def cards(
    scan: "Scan", best: pd.DataFrame, evidence: "Evidence | None" = None
) -> tuple[list[Card], list[tuple[str, list[Card]]]]:
    """Return the items worth reading first beside their matches."""
    ordered = best.dropna(subset="cosine").sort_values("cosine", ascending=False, kind="stable")
    whole, most = FIRST, FIRST
    if evidence is not None:
        ordered = evidence.ranked()[KEYS].merge(ordered, on=KEYS)
        most = FIRST + FURTHER // 2
    later = ordered.iloc[most:]
    groups = list(later.groupby("benchmark", sort=False, observed=True))[:FURTHER]
    each = (FIRST + FURTHER - most) // max(len(groups), 1)
    first = item_cards(scan, ordered.iloc[:whole], UNFOLDED, evidence)
    first += item_cards(scan, ordered.iloc[whole:most], SHOWN, evidence)
    rest = [(str(name), item_cards(scan, part[:each], SHOWN, evidence)) for name, part in groups]
    return first, rest


def item_cards(
    scan: "Scan", rows: pd.DataFrame, unfolded: int, evidence: "Evidence | None" = None
) -> list[Card]:
    """Return items beside their matches."""
    if rows.empty:
        return []
    if evidence is None:
        matches = scan.matches[scan.matches["rank"] <= BESIDE].merge(rows[KEYS], on=KEYS)
        matches, said, known = matches.sort_values("rank").assign(p=None), {}, {}
    else:
        matches = evidence.matches(rows).groupby(KEYS, observed=True).head(BESIDE)
        said = evidence.verdicts()
        known = evidence.items.set_index(KEYS)["p_duplicate"].to_dict()
    by_item = {key: part.to_dict("records") for key, part in matches.groupby(KEYS, observed=True)}
    places = anchors(scan)
    texts = _texts(scan, matches)
    return [
        {
            **row,
            "anchor": places[row["benchmark"], row["item"]],
            "p": known.get((row["benchmark"], row["item"])),
            "about": [],
            "item": visible(str(row["item"]), _ITEM),
            "excerpt": _excerpt(row["text"], unfolded),
            "matches": [
                _match(match, texts, unfolded, said)
                for match in by_item.get((row["benchmark"], row["item"]), [])
            ],
        }
        for row in rows.to_dict("records")
    ]


def anchors(scan: "Scan") -> dict[tuple[Any, ...], str]:
    """Return the identifier of each item's card, by benchmark and item."""
    keys = scan.items[KEYS].itertuples(index=False, name=None)
    return {key: f"item-{number}" for number, key in enumerate(keys, start=1)}


def _texts(scan: "Scan", matches: pd.DataFrame) -> dict[int, str]:
    rows = scan.texts[scan.texts["chunk_id"].isin(matches["chunk_id"].unique())]
    return dict(zip(rows["chunk_id"].tolist(), rows["text"].tolist(), strict=True))


def _match(
    match: dict[Any, Any],
    texts: dict[int, str],
    unfolded: int,
    said: dict[tuple[object, ...], list[str]],
) -> dict[str, Any]:
    p = match["p"]
    return {
        **match,
        "p": None if pd.isna(p) else p,
        "place": place(match["source"], match["stratum"]),
        "document": visible(str(match["document"]), _DOCUMENT),
        "scores": [(lexical_name(name), number(match[name], 2)) for name in lexical_columns(match)],
        "verdicts": said.get(tuple(match[name] for name in PAIR), []),
        "excerpt": _excerpt(texts.get(match["chunk_id"]), unfolded),
    }


def place(source: object, stratum: object) -> str:
    """Return source and stratum in one line.

    >>> place("web", "forum"), place("books", "")
    ('web: forum', 'books')
    """
    parts = [visible(str(part), _STRATUM) for part in (source, stratum) if str(part)]
    return ": ".join(parts)


def _excerpt(text: object, unfolded: int) -> Excerpt | None:
    return excerpt(text, unfolded=unfolded) if isinstance(text, str) and text else None
