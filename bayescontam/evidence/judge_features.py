"""What a trained judge sees of a pair of texts: its cosine, and which words the two share."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from bayescontam._progress import progress_bar
from bayescontam._types import FloatArray
from bayescontam.scan.results import lexical_scores, words
from bayescontam.specs.corpus import Lexical

COSINE = ("cosine", "below_best")
"""Features of a judge that sees the cosine alone."""
FEATURES = (
    *COSINE, "ngram_1", "ngram_2", "ngram_3", "ngram_8", "jaccard", "rouge_l", "rare", "numbers",
    "log_length", "cosine_rare", "cosine_numbers",
)  # fmt: skip
"""Names of the features, in order; see `pair_features`."""
_LEXICAL = Lexical(ngrams=(1, 2, 3, 8))
_NGRAMS = [f"ngram_{n}" for n in _LEXICAL.ngrams]
_BATCH = 5_000


def pair_features(
    pairs: pd.DataFrame, items: Sequence[str], *, progress: bool = False
) -> pd.DataFrame:
    """Return the features of pairs, (pair, feature).

    `pairs` has ``text``, ``chunk_text``, ``cosine`` and ``best``, the highest cosine of the
    pair's item. `items` are the texts of all items: words that few of them have, such as names,
    numbers and rare terms, distinguish an item from others of its sort, and weigh more in
    ``rare``. Everything lies about between 0 and 1; a score that is not defined for a short text
    has the value of the next shorter n-gram.
    """
    pairs = pairs.reset_index(drop=True)
    parts = [pd.DataFrame(columns=list(FEATURES), dtype=float)]
    weights = _weights(items)
    with progress_bar(progress, "compare", len(pairs), "pairs") as advance:
        # Pairs of an item follow each other, so that it is split into words once a batch.
        order = np.argsort(pd.factorize(pairs["text"])[0], kind="stable")
        for start in range(0, len(pairs), _BATCH):
            rows = pairs.iloc[order[start : start + _BATCH]]
            parts.append(_features(rows, weights))
            advance(len(rows))
    return pd.concat(parts).sort_index()[list(FEATURES)]


def _weights(items: Sequence[str]) -> dict[str, float]:
    """Return the weight of each word: the logarithm of the inverse share of items that have it."""
    distinct = dict.fromkeys(items)
    counts = Counter(word for text in distinct for word in set(words(text)))
    return {word: float(np.log((1 + len(distinct)) / count)) for word, count in counts.items()}


def _features(pairs: pd.DataFrame, weights: dict[str, float]) -> pd.DataFrame:
    texts = list(zip(pairs["text"], pairs["chunk_text"], strict=True))
    scores = lexical_scores(texts, _LEXICAL).set_index(pairs.index).astype(float)
    scores[_NGRAMS] = scores[_NGRAMS].ffill(axis=1)
    scores = scores.fillna(0.0)
    known = {text: words(text) for text in dict.fromkeys(part for pair in texts for part in pair)}
    sets = {text: frozenset(found) for text, found in known.items()}
    unseen = max(weights.values(), default=1.0)
    rare, numbers = np.empty(len(pairs)), np.empty(len(pairs))
    for row, (item, chunk) in enumerate(texts):
        own, there = sets[item], sets[chunk]
        rare[row] = _share(own, there, weights, unseen)
        figures = [word for word in own if word[0].isdigit()]
        share = sum(word in there for word in figures) / len(figures) if figures else rare[row]
        numbers[row] = share
    lengths: FloatArray = np.array([len(known[chunk]) + 1 for _, chunk in texts], float)
    lengths /= [len(known[item]) + 1 for item, _ in texts]
    cosine = pairs["cosine"].astype(float)
    return scores.assign(
        cosine=cosine,
        below_best=pairs["best"].astype(float) - cosine,
        rare=rare,
        numbers=numbers,
        log_length=np.log(lengths),
        cosine_rare=cosine * rare,
        cosine_numbers=cosine * numbers,
    )


def _share(
    own: frozenset[str], there: frozenset[str], weights: dict[str, float], unseen: float
) -> float:
    """Return the weight of the words of an item that a chunk has, as a share of all."""
    whole = sum(weights.get(word, unseen) for word in own)
    return sum(weights.get(word, unseen) for word in own & there) / whole if whole else 0.0
