"""Tokens of a model, counted."""

from collections.abc import Iterator, Sequence
from typing import Any

_CHARACTERS = 1_000_000
"""Characters that are tokenized at once: tokens take some eighty bytes each."""


class TokenCounter:
    """Counts tokens: special ones left out, nothing cut.

    It holds no weights and can be pickled, so that texts are counted where no model is.
    """

    def __init__(self, tokenizer: Any) -> None:
        fast = getattr(tokenizer, "backend_tokenizer", tokenizer)
        self._fast = hasattr(fast, "encode_batch_fast")
        self._tokenizer = tokenizer
        if self._fast:
            # A copy, because a tokenizer keeps the truncation and padding of its last call.
            self._tokenizer = type(fast).from_str(fast.to_str())
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return the lengths of texts in tokens."""
        return [length for group in _groups(texts) for length in self._lengths(group)]

    def _lengths(self, texts: list[str]) -> Iterator[int]:
        if self._fast:
            encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            return (len(encoding.ids) for encoding in encodings)
        encoded = self._tokenizer(texts, add_special_tokens=False, verbose=False)
        return (len(ids) for ids in encoded["input_ids"])


def _groups(texts: Sequence[str]) -> Iterator[list[str]]:
    group: list[str] = []
    characters = 0
    for text in texts:
        if group and characters + len(text) > _CHARACTERS:
            yield group
            group, characters = [], 0
        group.append(text)
        characters += len(text)
    if group:
        yield group
