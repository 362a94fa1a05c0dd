"""The protocol of embedders, and one that counts hashed words."""

import functools
import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bayescontam.errors import UsageError
from bayescontam.scan.transformer import TransformerEmbedder, load_minilm, load_pretrained
from bayescontam.specs.corpus import Embedding

_WORD = re.compile(r"\w+")


class HashingEmbedder:
    """Square roots of the counts of words and pairs of words, hashed with signs [1]_.

    Texts are alike only where they share words. Vectors are the same on every machine. A
    token is a word: letters, digits and underscores, in lower case.

    .. [1] Weinberger et al. (2009), Feature hashing for large scale multitask learning.
       https://doi.org/10.1145/1553374.1553516
    """

    def __init__(self, spec: Embedding) -> None:
        if spec.precision not in ("auto", "fp32"):
            raise UsageError(
                f"embedding.precision: got '{spec.precision}', but 'hashing' computes in fp32; "
                "leave it out"
            )
        self.dims = spec.dims or 256
        self.max_tokens = spec.max_tokens or 2048
        self._prompts = {
            "query": _words(spec.query_prompt),
            "passage": _words(spec.passage_prompt),
        }

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the numbers of words of texts."""
        return [sum(1 for _ in _WORD.finditer(text)) for text in texts]

    def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> NDArray[np.float32]:
        """Return vectors of unit length, (texts, dims); zeros for a text without words."""
        vectors = np.zeros((len(texts), self.dims), np.float32)
        for row, text in enumerate(texts):
            if words := _words(text)[: self.max_tokens]:
                vectors[row] = self._vector([*self._prompts[kind], *words])
        return vectors

    def describe(self) -> dict[str, object]:
        """Return what decides the vectors."""
        return {
            "model": "hashing",
            "dims": self.dims,
            "max_tokens": self.max_tokens,
            "precision": "fp32",
            "device": "cpu",
        }

    def _vector(self, words: list[str]) -> NDArray[np.float64]:
        vector = np.zeros(self.dims)
        for feature, count in Counter(_features(words)).items():
            digest = hashlib.blake2b(feature.encode(), digest_size=8).digest()
            code = int.from_bytes(digest, "little")
            vector[code % self.dims] += math.copysign(math.sqrt(count), (code >> 63) - 0.5)
        # Exact sums: vectorised ones differ in the last bit between processors.
        length = math.sqrt(math.fsum(vector * vector))
        # Features of opposite signs in one place can leave nothing of a tiny text.
        return vector / length if length else vector


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _features(words: list[str]) -> Iterable[str]:
    return itertools.chain(words, map(" ".join, itertools.pairwise(words)))


class Embedder(Protocol):
    """What turns texts into vectors."""

    @property
    def dims(self) -> int:
        """Dimensions of a vector."""

    @property
    def max_tokens(self) -> int:
        """Longest text that it sees, in tokens."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the lengths of texts in tokens: special ones left out, nothing cut."""

    def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> NDArray[np.float32]:
        """Return vectors of unit length, (texts, dims); zeros for a text without tokens.

        Texts above `max_tokens` are cut; `count` shows which.
        """

    def describe(self) -> dict[str, object]:
        """Return what decides the vectors, as JSON takes it: model, weights, precision, …."""


def load_embedder(spec: Embedding, device: str | None = None) -> Embedder:
    """Load an embedder.

    >>> embedder = load_embedder(Embedding(model="hashing", dims=8))
    >>> embedder.count(["Which number comes next?"])
    [4]
    >>> embedder.embed(["Which number comes next?"], "query").shape
    (1, 8)
    """
    if spec.model in ("hashing", "minilm") and spec.revision is not None:
        raise UsageError(
            f"embedding.revision: '{spec.model}' comes with this package's dependencies and has "
            "no revisions; leave it out"
        )
    if spec.model == "hashing":
        return HashingEmbedder(spec)
    load = load_minilm if spec.model == "minilm" else load_pretrained
    return TransformerEmbedder(load(spec, device), spec)


@functools.lru_cache(maxsize=1)
def shared_embedder(spec: Embedding, device: str) -> Embedder:
    """Return `load_embedder`'s, the same for calls in a row: stages of one process share it.

    On a GPU there may be no room for a second one.
    """
    return load_embedder(spec, device)
