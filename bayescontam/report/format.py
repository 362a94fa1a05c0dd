"""Labels of names, parts of long tables, and what else several pages write alike."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from bayescontam._format import interval, number
from bayescontam._text import join_list, printable, short_labels
from bayescontam.model.effect_names import effect_words

__all__ = ["Names", "counted", "in_file", "interval", "longest_rows", "number", "pairs_text",
           "paragraphs", "provenance_rows"]  # fmt: skip
NAME_WIDTH = 40
"""Longest name in a table; longer ones are spelt out once, in a list of names."""
MOST_LISTED = 4000
"""Rows of a table of pairs; the headline table has all."""


class Names:
    """Labels of hostile, long or alike names, and the full text of those that were changed."""

    def __init__(self, names: Iterable[str], prefix: str) -> None:
        known = list(dict.fromkeys(names))
        self._labels = dict(zip(known, short_labels(known, NAME_WIDTH), strict=True))
        self._ids = {
            name: f"{prefix}-{i}" for i, name in enumerate(known) if self._labels[name] != name
        }

    def label(self, name: object) -> str:
        """Return the label of a name."""
        return self._labels.get(str(name), printable(str(name), NAME_WIDTH))

    def anchor(self, name: object) -> str:
        """Return the identifier of the full text; empty where the label is the name."""
        return self._ids.get(str(name), "")

    def changed(self) -> Iterator[tuple[str, str, str]]:
        """Yield identifier, label and full text, escaped, of each name that was changed."""
        for name, anchor in self._ids.items():
            yield anchor, self._labels[name], printable(name, 10**9)


def in_file(file: str) -> str:
    """Return where all rows of a table are found of which the page has a part.

    >>> in_file("slopes")
    "slopes.csv of 'bayescontam report --tables'"
    """
    return f"{file}.csv of 'bayescontam report --tables'"


def longest_rows(
    table: pd.DataFrame, score: str, file: str, most: int = MOST_LISTED
) -> dict[str, Any]:
    """Return the rows of a table that the page has, those of the largest scores."""
    shown, note = table, ""
    if len(table) > most:
        size = table[score].abs().sort_values(ascending=False, kind="stable")
        shown = table.loc[size.index[:most].sort_values()]
        said = effect_words(score)
        note = (
            f"Only {len(shown):,} of {len(table):,} rows are on the page (largest {said}). All:"
            f" {in_file(file)}."
        )
    return {"rows": shown.to_dict("records"), "of": len(table), "note": note}


def counted(names: Sequence[str], what: str) -> str:
    """Return how many names there are, and which, if few.

    >>> counted(["a", "b"], "model"), counted(["quiz"], "benchmark")
    ("2 models ('a', 'b')", "benchmark 'quiz'")
    """
    if len(names) == 1:
        return f"{what} {join_list(names)}"
    text = f"{len(names):,} {what}s"
    return f"{text} ({join_list(names, 4)})" if len(names) <= 4 else text


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each on one line.

    >>> paragraphs("one\\ntwo\\n\\nthree\\n")
    ['one two', 'three']
    """
    parts = (" ".join(part.split()) for part in text.split("\n\n"))
    return [printable(part, 20_000) for part in parts if part]


def pairs_text(values: Mapping[str, Any]) -> str:
    """Return names with their values.

    >>> pairs_text({"target_accept": 0.9, "chains": 4})
    'target accept 0.9, chains 4'
    """
    return ", ".join(f"{str(name).replace('_', ' ')} {value}" for name, value in values.items())


def provenance_rows(rows: Mapping[str, Any], longest: int = 20_000) -> list[tuple[str, str]]:
    """Return where the results of a page come from, without what is not recorded."""
    return [
        (name, printable(str(value), longest))
        for name, value in rows.items()
        if value not in (None, "")
    ]
