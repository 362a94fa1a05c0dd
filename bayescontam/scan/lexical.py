"""Lexical overlap of an item and a chunk: n-grams, Jaccard, ROUGE-L."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import pandas as pd

from bayescontam._optional import require
from bayescontam.specs.corpus import Lexical

type Words = list[int]
"""The words of a text in order, each as its number in a vocabulary."""

_SINGLE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Characters of scripts that put no spaces between words: Han and kana."""
_WORD = re.compile(rf"\d+(?:\.\d+)+|[{_SINGLE}]|[^\W{_SINGLE}]+(?:'[^\W{_SINGLE}]+)*")


def words(text: str) -> list[str]:
    """Return the words of a text: lower case, without punctuation.

    Numbers stay whole (``3.14``), and so do identifiers of programs (``top_k``) and words
    with an apostrophe. Where scripts put no spaces, each character is a word.

    >>> words("Don't round 3.14: call top_k(x)!")
    ["don't", 'round', '3.14', 'call', 'top_k', 'x']
    """
    return _WORD.findall(unicodedata.normalize("NFC", text).lower().replace("’", "'"))


def lexical_scores(pairs: Sequence[tuple[str, str]], spec: Lexical) -> pd.DataFrame:
    """Return the lexical baselines of pairs of texts.

    A text is split into words once, however often it occurs, so calls with many pairs
    are quicker than many calls. Rows do not depend on which others they come with.

    .. [1] Broder 1997, On the resemblance and containment of documents,
       doi:10.1109/SEQUEN.1997.666900
    .. [2] Chowdhery et al. 2022, PaLM (8-grams, 70 %), arXiv:2204.02311
    .. [3] Brown et al. 2020, Language models are few-shot learners (13-grams),
       arXiv:2005.14165
    .. [4] Lin 2004, ROUGE: a package for automatic evaluation of summaries,
       https://aclanthology.org/W04-1013
    """
    texts = _numbered(pairs)
    columns = _columns(spec)
    scores = np.empty((len(pairs), len(columns)), dtype=np.float32)
    rows = sorted(range(len(pairs)), key=lambda row: pairs[row][0])
    for item, same in groupby(rows, key=lambda row: pairs[row][0]):
        compare = _Item(texts[item], spec)
        for row in same:
            scores[row] = compare.scores(texts[pairs[row][1]])
    return pd.DataFrame(scores, columns=columns)


def _columns(spec: Lexical) -> list[str]:
    names = [f"ngram_{n}" for n in spec.ngrams]
    return names + ["jaccard"] * spec.jaccard + ["rouge_l"] * spec.rouge_l


def _numbered(pairs: Sequence[tuple[str, str]]) -> dict[str, Words]:
    """Return the words of every text, numbered alike."""
    vocabulary: dict[str, int] = {}
    return {
        text: [vocabulary.setdefault(word, len(vocabulary)) for word in words(text)]
        for text in dict.fromkeys(text for pair in pairs for text in pair)
    }


class _Item:
    """An item, ready to be compared with many chunks."""

    def __init__(self, item: Words, spec: Lexical) -> None:
        self.item = item
        self.spec = spec
        self.distinct = set(item)
        self.ngrams = {n: set(_ngrams(item, n)) for n in spec.ngrams}
        self.common = require("rapidfuzz.distance", "scan").LCSseq.similarity

    def scores(self, chunk: Words) -> list[float]:
        """Return the baselines with `chunk`, in the order of the columns."""
        result = [
            _ratio(len(ngrams.intersection(_ngrams(chunk, n))), len(ngrams))
            for n, ngrams in self.ngrams.items()
        ]
        if self.spec.jaccard:
            shared = len(self.distinct.intersection(chunk))
            result.append(_ratio(shared, len(self.distinct) + len(set(chunk)) - shared))
        if self.spec.rouge_l:
            shared = self.common(self.item, chunk)
            result.append(_ratio(2 * shared, len(self.item) + len(chunk)))
        return result


def _ngrams(text: Words, n: int) -> Iterator[tuple[int, ...]]:
    return zip(*(text[start:] for start in range(n)), strict=False)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
