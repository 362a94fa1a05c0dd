"""Matches of a scan on a page: how close a corpus comes to the items, and texts side by side."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescontam._format import number
from bayescontam._text import printable
from bayescontam.data.judgements import PAIR
from bayescontam.report.html import SHOWN, UNFOLDED, Excerpt, excerpt
from bayescontam.scan.results import over_all

if TYPE_CHECKING:
    from bayescontam.report.evidence import Evidence
    from bayescontam.scan.results import Scan


LEVELS = (0.6, 0.7, 0.8, 0.9)
"""Cosines at which items are counted."""
FOUND = 0.8
"""Cosine from which on a match counts as found by cosine, where n-grams are compared."""
KEYS = ["benchmark", "item"]
FIRST, FURTHER, BESIDE = 25, 50, 3
"""Items that are shown at once, and further ones; matches beside each."""
_ITEM, _DOCUMENT, _STRATUM = 120, 80, 60
"""Longest names, in characters."""
Card = dict[Any, Any]
MOST_ITEMS = 50
"""Items that are listed as the most contaminated ones."""
_MODES = {
    "input": "the question only", "output": "the answer only",
    "input_output": "question and answer together",
}  # fmt: skip
"""What of an item is looked for, in words."""


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
    matches = over_all(scan)
    items = scan.items.reindex(columns=[*KEYS, "text", "tokens", "cut"])
    first = matches.loc[matches["rank"] == 1, [*KEYS, "cosine", *lexical_columns(matches)]]
    table = items.merge(first, on=KEYS, how="left", validate="one_to_one")
    table["cut"] = table["cut"].astype("boolean").fillna(False).astype(bool)
    table["missed"] = False
    if ngram := ngram_column(matches):
        most = scan.matches.groupby(KEYS, sort=False, observed=True)[ngram].max()
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
    """Return ``benchmark, item, threshold``: at which cosine the tail of each item starts.

    Of a scan by source an item has one for each.
    """
    once = [*KEYS, "source"] if scan.by_source else KEYS
    return scan.tail.drop_duplicates(once)[[*KEYS, "threshold"]]


def strata(scan: "Scan") -> pd.DataFrame:
    """Return one row for each stratum, those with most chunks first."""
    columns = ["source", "stratum", "documents", "sampled", "share", "chunks"]
    table = pd.DataFrame(scan.record.get("strata") or [], columns=columns)
    matches = over_all(scan)
    first = matches[matches["rank"] == 1]
    best = first.groupby(columns[:2], observed=True).size().rename("best")
    table = table.join(best, on=columns[:2]).fillna({"best": 0})
    return table.sort_values(["chunks", *columns[:2]], ascending=[False, True, True])


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
        ranked = over_all(scan)
        matches = ranked[ranked["rank"] <= BESIDE].merge(rows[KEYS], on=KEYS)
        matches, said, known = matches.sort_values("rank").assign(p=None), {}, {}
    else:
        matches = evidence.matches(rows).groupby(KEYS, observed=True).head(BESIDE)
        said = evidence.verdicts()
        known = evidence.items.set_index(KEYS)["p_duplicate"].to_dict()
    by_item = {key: part.to_dict("records") for key, part in matches.groupby(KEYS, observed=True)}
    places = anchors(scan)
    texts = _texts(scan, matches)
    others = _other_texts(scan)
    return [
        {
            **row,
            "anchor": places[row["benchmark"], row["item"]],
            "p": known.get((row["benchmark"], row["item"])),
            "about": [],
            "item": printable(str(row["item"]), _ITEM),
            "excerpt": _excerpt(row["text"], unfolded),
            "matches": [
                _match(match, texts, unfolded, said)
                | {"looked_for": others.get((row["benchmark"], row["item"], match["source"]), "")}
                for match in by_item.get((row["benchmark"], row["item"]), [])
            ],
        }
        for row in rows.to_dict("records")
    ]


def _other_texts(scan: "Scan") -> dict[tuple[Any, ...], str]:
    """Return what was looked for in a source, by item and source, if not the text of `items`."""
    if not scan.by_source:
        return {}
    shown, texts = scan.items.set_index(KEYS)["text"], scan.item_texts
    other = texts[texts["text"].to_numpy() != shown.loc[texts.set_index(KEYS).index].to_numpy()]
    modes = {row["benchmark"]: row for row in scan.record.get("benchmarks") or []}
    found = {}
    for benchmark, item, source in other[[*KEYS, "source"]].itertuples(index=False, name=None):
        row = modes.get(benchmark, {})
        mode = str((row.get("by_source") or {}).get(source, row.get("text_mode", "")))
        found[benchmark, item, source] = _MODES.get(mode, "another text of the item")
    return found


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
        "document": printable(str(match["document"]), _DOCUMENT),
        "scores": [(lexical_name(name), number(match[name], 2)) for name in lexical_columns(match)],
        "verdicts": said.get(tuple(match[name] for name in PAIR), []),
        "excerpt": _excerpt(texts.get(match["chunk_id"]), unfolded),
    }


def place(source: object, stratum: object) -> str:
    """Return source and stratum in one line.

    >>> place("web", "forum"), place("books", "")
    ('web: forum', 'books')
    """
    parts = [printable(str(part), _STRATUM) for part in (source, stratum) if str(part)]
    return ": ".join(parts)


def _excerpt(text: object, unfolded: int) -> Excerpt | None:
    return excerpt(text, unfolded=unfolded) if isinstance(text, str) and text else None
