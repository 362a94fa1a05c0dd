"""Documents to the chunks that are embedded."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bayescontam._optional import require
from bayescontam.errors import UsageError
from bayescontam.scan.documents import Document
from bayescontam.specs.corpus import Chunking

_SHORTEST = 50
"""Tokens of the shortest chunk where items are long."""
_LONGEST = 2048
"""Tokens of a chunk, unless the manifest or the embedder allows fewer."""
_WINDOW = 64
"""Characters for each token of the longest chunk that are split at once: time and memory
stay in proportion to the text, whatever it is. No chunk is twice as long."""

_WORD = 16
"""Characters of parts whose numbers of tokens are remembered."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document."""

    document: str  # name of the document
    chunk: int  # number among the document's chunks, from 0
    # start, end: where it stands: characters `[start:end]` of the document's text
    start: int
    end: int
    text: str  # those characters


@dataclass(frozen=True)
class Split:
    """Chunks of some documents, and what was too short to be one."""

    chunks: list[list[Chunk]]  # of each document, in its order; they do not overlap
    short: int  # documents left out: one piece, with too few tokens
    short_pieces: int  # pieces with too few tokens left out of other documents
    tokens: int  # tokens of all documents
    short_tokens: int  # tokens of all that was left out


class _Piece(NamedTuple):
    start: int
    end: int
    tokens: int


class Chunker:
    """Makes chunks: a text that fits is one, a longer one is split where it best can be.

    Best are blank lines, then line ends, sentences, clauses and words, in this order; see
    https://github.com/isaacus-dev/semchunk. A piece with too few tokens is joined to its
    neighbour where both fit into a chunk; else the two are divided anew, near the middle.
    White space at the ends is left out. The chunks of a document do not depend on the
    documents beside it.
    """

    def __init__(
        self, count: Callable[[Sequence[str]], list[int]], spec: Chunking, max_tokens: int
    ) -> None:
        if spec.max_tokens is not None and spec.max_tokens > max_tokens:
            raise UsageError(
                f"chunking.max_tokens: got {spec.max_tokens}, but the embedder sees {max_tokens} "
                f"tokens; give {max_tokens} or less, or leave it out"
            )
        self.max_tokens = spec.max_tokens or min(_LONGEST, max_tokens)
        self.min_tokens = max(1, spec.min_tokens or 0)
        if self.min_tokens > self.max_tokens:
            raise UsageError(
                f"chunking.min_tokens: got {spec.min_tokens}, but chunks have {self.max_tokens} "
                f"tokens at most; give {self.max_tokens} or less"
            )
        self._window = _WINDOW * self.max_tokens
        self._count = count
        self._count_word = lru_cache(2**14)(self._count_one)
        self._semchunk = require("semchunk", "scan")

    def split(self, documents: Sequence[Document]) -> Split:
        """Return the chunks of documents; their short texts are counted together."""
        chunks: list[list[Chunk]] = []
        short = short_pieces = tokens = short_tokens = 0
        for document, pieces in zip(documents, self._split_all(documents), strict=True):
            whole = [piece for piece in pieces if piece.tokens >= self.min_tokens]
            tokens += (all_tokens := sum(piece.tokens for piece in pieces))
            short_tokens += all_tokens - sum(piece.tokens for piece in whole)
            if whole or len(pieces) > 1:
                short_pieces += len(pieces) - len(whole)
            else:
                short += 1
            chunks.append(
                [
                    Chunk(document.document, number, start, end, document.text[start:end])
                    for number, (start, end, _) in enumerate(whole)
                ]
            )
        return Split(chunks, short, short_pieces, tokens, short_tokens)

    def _split_all(self, documents: Sequence[Document]) -> Iterator[list[_Piece]]:
        """Give the pieces of each document; those that may fit are counted in one call."""
        texts = [document.text for document in documents]
        spans = [_stripped(text, 0, len(text)) for text in texts]
        near = [number for number, (a, b) in enumerate(spans) if b - a <= self._window]
        counts = self._count([texts[number][slice(*spans[number])] for number in near])
        tokens = dict(zip(near, counts, strict=True))
        for number, (text, (start, end)) in enumerate(zip(texts, spans, strict=True)):
            if tokens.get(number, self.max_tokens + 1) <= self.max_tokens:
                yield [_Piece(start, end, tokens[number])]
            else:
                pieces = [
                    piece
                    for window in _windows(text, start, end, self._window)
                    for piece in self._split(text, *window)
                ]
                yield self._evened(text, self._joined(text, pieces))

    def _split(self, text: str, start: int, end: int) -> list[_Piece]:
        """Return pieces of ``text[start:end]`` that fit."""
        try:
            _, offsets = self._semchunk.chunk(
                text[start:end], self.max_tokens, self._count_part, memoize=False, offsets=True
            )
        except RecursionError:
            # It goes one level down for each kind of white space, and there are thousands.
            third = (end - start) // 3
            middle = _boundary(text, start + third, end - third)
            return self._split(text, start, middle) + self._split(text, middle, end)
        pieces: list[_Piece] = []
        for piece in self._counted(text, [(start + a, start + b) for a, b in offsets]):
            # Without white space at its ends a text may have more tokens.
            fits = piece.tokens <= self.max_tokens or piece.end - piece.start == 1
            pieces += [piece] if fits else self._split(text, piece.start, piece.end)
        return pieces

    def _joined(self, text: str, pieces: list[_Piece]) -> list[_Piece]:
        """Join short pieces to neighbours with which they fit into a chunk."""
        joined: list[_Piece] = []
        for piece in pieces:
            if joined and self._any_short(joined[-1], piece):
                both = (joined[-1].start, piece.end)
                may_fit = joined[-1].tokens + piece.tokens <= self.max_tokens
                if may_fit and both[1] - both[0] <= self._window:
                    [union] = self._counted(text, [both])
                    if union.tokens <= self.max_tokens:
                        joined[-1] = union
                        continue
            joined.append(piece)
        return joined

    def _evened(self, text: str, pieces: list[_Piece]) -> list[_Piece]:
        """Divide a short piece and its neighbour anew, near their middle, where both then do."""
        pieces = list(pieces)
        for i in range(1, len(pieces)):
            left, right = pieces[i - 1 : i + 1]
            if self._any_short(left, right):
                third = (right.end - left.start) // 3
                cut = _boundary(text, left.start + third, right.end - third)
                halves = self._counted(text, [(left.start, cut), (cut, right.end)])
                if all(self.min_tokens <= half.tokens <= self.max_tokens for half in halves):
                    pieces[i - 1 : i + 1] = halves
        return pieces

    def _any_short(self, *pieces: _Piece) -> bool:
        return any(piece.tokens < self.min_tokens for piece in pieces)

    def _counted(self, text: str, spans: list[tuple[int, int]]) -> list[_Piece]:
        """Return pieces without the white space at their ends."""
        spans = [_stripped(text, *span) for span in spans]
        counts = self._count([text[start:end] for start, end in spans])
        return [_Piece(*span, tokens) for span, tokens in zip(spans, counts, strict=True)]

    def _count_part(self, part: str) -> int:
        # Words and characters come again and again, and each call costs as much as ten of them.
        return self._count_word(part) if len(part) <= _WORD else self._count_one(part)

    def _count_one(self, part: str) -> int:
        [tokens] = self._count([part])
        # A single character cannot be split, however many tokens it has; and where nothing
        # counts, semchunk would go on character by character.
        return max(1, tokens if len(part) > 1 else min(tokens, self.max_tokens))


def shortest(lengths: Sequence[Sequence[int]], max_tokens: int) -> int:
    """Return how long a chunk is at least, by default: it follows the items.

    >>> shortest([[40, 42, 44], [200, 300]], 254), shortest([[400]], 254), shortest([[0]], 254)
    (20, 50, 50)
    """
    known = [[length for length in part if length > 0] for part in lengths]
    halves = [np.quantile(part, 0.05) / 2 for part in known if part]
    return max(1, int(min([_SHORTEST, max_tokens, *halves])))


def text_hash(text: str) -> int:
    """Return the identity of a text: 64 bits, the same on every machine."""
    return _hash(text)


def occurrence_hash(source: str, document: str, chunk: int) -> int:
    """Return the identity of one place of the corpus: 64 bits, the same on every machine."""
    return _hash(source, document, str(chunk))


def _hash(*parts: str) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return int.from_bytes(digest.digest(), "little")


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without the white space at its ends."""
    part = text[start:end]
    inner = part.lstrip()
    start += len(part) - len(inner)
    return start, start + len(inner.rstrip())


def _windows(text: str, start: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    while end - start > longest:
        cut = _boundary(text, start + longest // 2, start + longest)
        yield start, cut
        start = cut
    yield start, end


def _boundary(text: str, low: int, high: int) -> int:
    """Return a place in ``(low, high]`` to split at: the best kind there is, the last of it."""
    for mark in ("\n\n", "\n", ". ", " "):
        if (at := text.rfind(mark, low, high)) >= 0:
            return at + len(mark)
    return high
