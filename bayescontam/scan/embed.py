"""Embedders: texts to vectors of unit length."""

import functools
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bayescontam.errors import UsageError
from bayescontam.scan.hashing import HashingEmbedder
from bayescontam.scan.pretrained import load_minilm, load_pretrained
from bayescontam.scan.transformer import TransformerEmbedder
from bayescontam.specs.corpus import Embedding


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
