"""The embedder around a sentence-transformers model."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.optional import require
from bayescontam.scan.pretrained import Pretrained, quiet
from bayescontam.scan.tokens import TokenCounter
from bayescontam.specs.corpus import Embedding

_ENDLESS = 10**6
"""Models that see texts of any length say so by numbers above this."""
_LEAST = 16
"""Tokens of a text that a model must see. What it adds is counted only up to all it sees."""


class TransformerEmbedder:
    """Embeds with a model: equal texts once, batches of like lengths, sized by tokens."""

    def __init__(self, pretrained: Pretrained, spec: Embedding) -> None:
        self._pretrained = pretrained
        self._model = pretrained.model
        self._name = visible(spec.model, 80)
        self._batch_tokens = spec.batch_tokens
        self._prompts = {"query": spec.query_prompt, "passage": spec.passage_prompt}
        self.count = TokenCounter(self._model.tokenizer)
        # What a model adds to a text: special tokens, the prompt, a chat template.
        with quiet():
            self._added = {
                kind: self._features(["a"], kind)["input_ids"].shape[-1] - self.count(["a"])[0]
                for kind in self._prompts
            }
        self.dims = self._dims(spec.dims)
        self.max_tokens = self._max_tokens(spec.max_tokens)

    def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> NDArray[np.float32]:
        """Return vectors of unit length, (texts, dims); zeros for a text without tokens.

        Longer texts than `max_tokens` are cut. The vector of a text depends on the texts
        beside it through rounding only.
        """
        place = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        distinct = list(place)
        vectors = np.zeros((len(distinct), self.dims), np.float32)
        lengths = np.minimum(np.array(self.count(distinct), np.int64), self.max_tokens)
        batches = list(_batches(lengths, self._added[kind], self._batch_tokens))
        if batches:
            vectors[np.concatenate(batches)] = self._forward(distinct, batches, kind)
        return vectors[[place[text] for text in texts]]

    def describe(self) -> dict[str, object]:
        """Return what decides the vectors."""
        return {
            **self._pretrained.describe(),
            "dims": self.dims,
            "max_tokens": self.max_tokens,
            "query_prompt": self._prompts["query"],
            "passage_prompt": self._prompts["passage"],
        }

    def _forward(
        self, texts: list[str], batches: list[NDArray[np.int64]], kind: str
    ) -> NDArray[np.float32]:
        """Return the vectors of batches of texts, one below the other."""
        torch = require("torch", "scan")
        util = require("sentence_transformers.util", "scan")
        self._cut_at(self.max_tokens + self._added[kind])
        parts = []
        with quiet(), torch.inference_mode():
            for batch in batches:
                features = self._features([texts[row] for row in batch], kind)
                features = util.batch_to_device(features, self._model.device)
                vectors = self._model(features)["sentence_embedding"][:, : self.dims]
                # Left on the device: the next texts are tokenized while it computes.
                parts.append(torch.nn.functional.normalize(vectors.float(), dim=1))
            return torch.cat(parts).cpu().numpy()

    def _cut_at(self, tokens: int) -> None:
        try:
            self._model.max_seq_length = tokens
        except AttributeError:  # a table of word vectors, which sees any length
            self._model.tokenizer.enable_truncation(tokens)

    def _features(self, texts: list[str], kind: str) -> dict[str, Any]:
        return self._model.preprocess(texts, prompt=self._prompts[kind] or None)

    def _dims(self, wanted: int | None) -> int:
        own = self._model.get_embedding_dimension()
        if wanted is not None and wanted > own:
            raise UsageError(
                f"embedding.dims: got {wanted}, but {self._name} has {own}; "
                f"give {own} or less, or leave it out"
            )
        return wanted or own

    def _max_tokens(self, wanted: int | None) -> int:
        """Return the longest text, without the tokens that are added to it."""
        added = max(self._added.values())
        config = self._model.config
        text_config = config.get_text_config() if config is not None else None
        positions = getattr(text_config, "max_position_embeddings", None)
        limits = [n for n in (self._model.max_seq_length, positions) if n and 0 < n < _ENDLESS]
        if not limits:
            return wanted or 2048
        own = min(limits) - added
        if own < _LEAST:
            raise UsageError(
                f"embedding: {self._name} sees {min(limits)} tokens, and its prompt and special "
                f"tokens leave less than {_LEAST} of them; give a shorter prompt"
            )
        if wanted is not None and wanted > own:
            raise UsageError(
                f"embedding.max_tokens: got {wanted}, but {self._name} sees {own} beside its "
                f"prompt and special tokens; give {own} or less, or leave it out"
            )
        return wanted or own


def _batches(
    lengths: NDArray[np.int64], added: int, batch_tokens: int
) -> Iterator[NDArray[np.int64]]:
    """Give rows of like lengths, longest first; padded, a batch has `batch_tokens` at most.

    A row of no length is in no batch, one of more than `batch_tokens` in its own.
    """
    order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
    while len(order):
        rows = max(1, batch_tokens // (int(lengths[order[0]]) + added))
        yield order[:rows]
        order = order[rows:]
