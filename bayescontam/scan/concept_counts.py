"""How many documents of a corpus meet each concept, by words."""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bayescontam._progress import progress_bar
from bayescontam._random import stream
from bayescontam._text import join_list
from bayescontam.arc.exposures import DRAWS, counted_exposures
from bayescontam.data.tables import given_table
from bayescontam.data.validation import FaultList, need_columns, read_names
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.scan.documents import read_documents
from bayescontam.scan.formats import Tally
from bayescontam.scan.sources import list_inputs
from bayescontam.specs.corpus import Reading, Source

_NEEDED = {
    "concept": "add one: the concept that a word stands for",
    "word": "add one: a word, or several that follow each other",
}
_BREAK = re.compile(r"[\W_]+")


def read_words(words: str | os.PathLike[str] | pd.DataFrame) -> dict[str, list[str]]:
    """Read by which words concepts are met: columns ``concept`` and ``word``."""
    table, source = given_table(words)
    faults = FaultList(source, np.arange(1, len(table) + 1))
    need_columns(table, _NEEDED, tuple(_NEEDED), faults)
    faults.raise_if_any()
    concept, word = (pd.Series(read_names(table, name, faults)) for name in _NEEDED)
    bare = np.array([not _plain(str(each)).strip() for each in word])
    faults.flag(bare, "word", "got {}, which has no letter or digit; give a word", word)
    faults.raise_if_any()
    return {name: list(own) for name, own in word.groupby(concept, sort=False)}


def count_exposures(
    corpus: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    words: Mapping[str, Sequence[str]] | str | os.PathLike[str] | pd.DataFrame,
    *,
    text: str = "text",
    share: float = 1.0,
    skip_unreadable: bool = False,
    progress: bool = False,
) -> pd.DataFrame:
    """Count the documents of a corpus in which each concept is met, as its exposure.

    A concept is met where one of its words stands, whatever its case, or several words that follow
    each other. Its exposure is log(1 + n) divided by the largest such logarithm, where n is the
    number of documents in the whole corpus; from a sample n has the posterior of a Poisson rate.

    Parameters
    ----------
    corpus : path-like or sequence of path-like
        Files, folders, globs or addresses, as for a scan: JSON Lines, Parquet or text, compressed
        or not.
    words : mapping of str to sequence of str, path-like or pandas.DataFrame
        Words of each concept; or a table with the columns ``concept`` and ``word``.
    text : str, default "text"
        Field that holds the text of a document, or a template of several.
    share : float, default 1.0
        Which share of the whole corpus these documents are, above 0 up to 1.
    skip_unreadable : bool, default False
        Whether to pass over records that are no documents, and files that cannot be read to their
        end, in place of an error.
    progress : bool, default False
        Whether to show a bar.

    Returns
    -------
    pandas.DataFrame
        ``concept``, ``exposure`` (mean) and ``exposure_sd`` (in [0, 1]), ``documents`` (counted),
        ``share``; see `read_exposures`.

    Raises
    ------
    UsageError, DataError
        If something given cannot be used, or the corpus has no documents.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "one.txt").write_text("Copy the shape.")
    ...     _ = pathlib.Path(folder, "two.txt").write_text("Copies of shapes, and a shape.")
    ...     words = {"Copy": ["copy", "copies"], "Shape": ["shape"], "Left": ["left of"]}
    ...     table = count_exposures([folder], words)
    >>> table["documents"].tolist()
    [2, 2, 0]
    """
    if isinstance(words, Mapping):
        if not words or not all(words.values()):
            raise UsageError("words: give at least one word for each concept, and one concept")
        rows = [
            (concept, word)
            for concept, own in words.items()
            for word in ([own] if isinstance(own, str) else own)
        ]
        words = pd.DataFrame(rows, columns=list(_NEEDED))
    known = read_words(words)
    if not 0 < share <= 1:
        raise UsageError(f"share: got {share:g}; allowed is above 0 up to 1")
    given = [corpus] if isinstance(corpus, str | os.PathLike) else corpus
    places = tuple(os.fspath(place) for place in given)
    source = Source(name="corpus", paths=places, text=text)
    inputs = list_inputs(source, Path.cwd())
    phrases = {
        concept: [f" {_plain(word).strip()} " for word in own] for concept, own in known.items()
    }
    counts, seen = Counter[str](), 0
    longest = Reading().max_record_megabytes * 2**20
    with progress_bar(progress, "count", len(inputs), "files") as advance:
        for item in inputs:
            tally = Tally()
            for document in read_documents(
                item, source, tally, longest, skip_damage=skip_unreadable
            ):
                seen += 1
                plain = f" {_plain(document.text)} "
                counts.update(
                    concept for concept, own in phrases.items() if any(p in plain for p in own)
                )
            if tally.unreadable and not skip_unreadable:
                reasons = ", ".join(f"{n:,} × {why}" for why, n in tally.unreadable.most_common())
                problem = f"{tally.unreadable.total():,} records are no documents ({reasons})"
                advice = "Fix them, or count the others: --skip-unreadable (skip_unreadable)."
                raise DataError([Fault(item.path, problem)], advice)
            advance(1)
    documents = np.array([counts[concept] for concept in known], dtype=float)
    if not documents.any():
        raise UsageError(
            f"words: none of the {len(known):,} concepts is met in the {seen:,} documents of"
            f" {join_list(places, 3)}; give their words as the texts have them, or another corpus"
        )
    drawn = counted_exposures(documents, share, DRAWS, stream(0, "exposures"))
    return pd.DataFrame(
        {
            "concept": list(known),
            "exposure": drawn.mean(axis=0),
            "exposure_sd": drawn.std(axis=0),
            "documents": documents.astype(np.int64),
            "share": share,
        }
    )


def _plain(text: str) -> str:
    """Return a text in one spelling of its characters and case, with one space between words.

    >>> _plain("Left-of: THE shape")
    'left of the shape'
    """
    return _BREAK.sub(" ", unicodedata.normalize("NFKC", text)).casefold()
