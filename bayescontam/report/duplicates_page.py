"""The page of duplicates: how many of each level, and some beside their items."""

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from bayescontam._files import write_text
from bayescontam._format import percent
from bayescontam._text import printable
from bayescontam.duplicates.items import planted_text
from bayescontam.report.html import fill

SHOWN = 3
"""Duplicates of each level that the page has."""
_LONGEST = 6_000
"""Characters of a text that the page has."""


def summarise_duplicates(
    rows: Sequence[Mapping[str, Any]], parents: Mapping[str, str]
) -> pd.DataFrame:
    """Return for each level how many duplicates there are, and how far they are from their items.

    Parameters
    ----------
    rows : sequence of dict
        Duplicates as `make_duplicates` gives them.
    parents : mapping
        Texts of the items by name; those that are missing are left out of ``same_words``.

    Returns
    -------
    pandas.DataFrame
        Columns ``level, duplicates, items, same_words`` (median share of the item's words and signs
        that stand in the duplicate, in any order) and ``checks``.
    """
    table = []
    for level, own in pd.DataFrame([*rows]).groupby("level", sort=False):
        shares = [
            _shared(parents[str(row["item"])], _text(row))
            for row in own.to_dict("records") if str(row["item"]) in parents
        ]  # fmt: skip
        checks = dict.fromkeys(str(check) for checks in own["checks"] for check in checks)
        table.append(
            {
                "level": level, "duplicates": len(own), "items": own["item"].nunique(),
                "same_words": pd.Series(shares, dtype=float).median(), "checks": ", ".join(checks),
            }
        )  # fmt: skip
    return pd.DataFrame(table)


def write_duplicates_page(
    rows: Sequence[Mapping[str, Any]],
    parents: Mapping[str, str],
    path: str | os.PathLike[str],
    title: str,
) -> None:
    """Write duplicates beside their items as one HTML file that needs no network."""
    levels: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        cards = levels.setdefault(str(row["level"]), [])
        if len(cards) < SHOWN and all(card["item"] != row["item"] for card in cards):
            cards.append(_card(row, parents.get(str(row["item"]))))
    table = summarise_duplicates(rows, parents)
    content = {
        "title": title, "levels": levels, "table": table.to_dict("records"), "shown": SHOWN,
        "duplicates": len(rows), "items": len({str(row["item"]) for row in rows}),
        "verdict": _verdict(table),
        "places": [(f"level-{at}", level) for at, level in enumerate(levels, 1)],
    }  # fmt: skip
    write_text(path, fill("duplicates.html", content))


def _verdict(table: pd.DataFrame) -> str:
    known = table.dropna(subset="same_words").sort_values("same_words")
    if known.empty:
        return "The items' texts were not given, so that nothing is compared."
    first, last = known.iloc[0], known.iloc[-1]
    if len(known) == 1:
        return (
            f"Half of the duplicates have {percent(first['same_words'])} or more of their item's"
            " words."
        )
    return (
        f"Duplicates by '{first['level']}' have fewest of their items' words (median"
        f" {percent(first['same_words'])}), those by '{last['level']}' most"
        f" ({percent(last['same_words'])})."
    )


def _card(row: Mapping[str, Any], parent: str | None) -> dict[str, Any]:
    text = _text(row)
    answer = row.get("answer")
    shown = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    if parent is None:
        old, new = None, escape(text[:_LONGEST])
    else:
        old, new = _marked(parent, text)
        old += _cut(parent)
    new += _cut(text)
    return {
        "item": str(row["item"]), "duplicate": str(row["duplicate"]), "old": old, "new": new,
        "answer": printable(shown, 2000),
        "code": shown if "\n" in shown else "",
        "apart": row.get("text_mode", "input") == "input",  # the text does not hold the answer
        "checks": ", ".join(map(str, row["checks"])),
    }  # fmt: skip


def _cut(text: str) -> str:
    """Return what stands for the rest of a text that is too long for the page."""
    return f" … ({len(text) - _LONGEST:,} more characters)" if len(text) > _LONGEST else ""


def _text(row: Mapping[Any, Any]) -> str:
    mode = str(row.get("text_mode", "input"))
    return planted_text(str(row["text"]), row.get("answer"), mode)


def _tokens(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text[:_LONGEST])


def _shared(item: str, duplicate: str) -> float:
    """Return the share of an item's words and signs that its duplicate has, each as often."""
    words, others = (Counter(re.findall(r"\w+|[^\w\s]", text)) for text in (item, duplicate))
    return (words & others).total() / max(words.total(), 1)


def _marked(one: str, other: str) -> tuple[Markup, Markup]:
    """Return both texts, with what the other does not have marked."""
    first, second = _tokens(one), _tokens(other)
    same = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    return (
        _mark(first, [(block.a, block.size) for block in same]),
        _mark(second, [(block.b, block.size) for block in same]),
    )


def _mark(tokens: Sequence[str], same: Sequence[tuple[int, int]]) -> Markup:
    parts, at = [], 0
    for start, size in same:
        if changed := "".join(tokens[at:start]):
            parts.append(Markup("<mark>{}</mark>").format(changed))
        parts.append(escape("".join(tokens[start : start + size])))
        at = start + size
    return Markup().join(parts)
