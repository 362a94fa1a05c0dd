"""Embedders behind OpenAI-compatible endpoints."""

import asyncio
import io
import json
import random
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import filelock
import numpy as np
from numpy.typing import NDArray

from bayescontam._files import atomic_path, on_disk, sha256, write_text
from bayescontam._runs import ContentCache, remove_files
from bayescontam.budget import Budget, BudgetReachedError, Cost, Purse
from bayescontam.endpoint import (
    UNPARSABLE,
    Caller,
    Endpoint,
    Failure,
    Names,
    call_all,
    key_in,
)
from bayescontam.errors import TaskError
from bayescontam.scan.execution import stage_folder
from bayescontam.specs.base import content_of
from bayescontam.specs.corpus import MINILM, Embedding

type Kind = Literal["query", "passage"]
type Count = Callable[[Sequence[str]], list[int]]

_NAMES = Names("embedding.endpoint", "embedding.model", "embedding.api_key_env")
_REFUSED = {400, 413, 422}
"""Statuses by which endpoints refuse texts that are too long."""
_UNIT = 1e-6
"""Vectors whose length is so close to 1 are left as they came."""
_SPENT = "spent.txt"
_POLL = 0.02
"""Seconds until a worker looks again whether a request may start."""
_AGAIN = "finished work is stored: run the same command again"


def replies_folder(out: Path, embedding: Embedding) -> Path | None:
    """Return where the replies of an endpoint are stored while a scan needs them."""
    if embedding.endpoint is None:
        return None
    return stage_folder(out, "replies", content_of(embedding))


def forget_spent(folder: Path) -> None:
    """Begin a run: what earlier ones sent does not count towards its budget."""
    (folder / _SPENT).unlink(missing_ok=True)


def forget_queries(folder: Path) -> None:
    """Remove the replies to texts of items, whose vectors are stored elsewhere by now."""
    remove_files(folder, "query-*.npy")


@dataclass(frozen=True)
class SharedBudget:
    """Counts the tokens that all workers of a run send, in a file."""

    path: Path
    most: int

    @asynccontextmanager
    async def call(self, size: int) -> AsyncIterator[Cost]:
        """Set `size` tokens aside for a call if they fit, and give its cost to correct."""
        if not self._spend(size):
            raise BudgetReachedError
        cost = Cost(size)
        try:
            yield cost
        finally:
            if cost.taken is not None:
                self._spend(cost.taken - size, always=True)

    def _spend(self, tokens: int, *, always: bool = False) -> bool:
        lock = filelock.FileLock(f"{self.path}.lock")
        with on_disk(self.path), lock.acquire(poll_interval=_POLL):
            spent = tokens + (int(self.path.read_text("utf-8")) if self.path.exists() else 0)
            fits = always or spent <= self.most
            if fits:
                write_text(self.path, str(spent))
        return fits


@dataclass(frozen=True)
class _Request:
    rows: list[int]  # places of its texts among all
    texts: list[str]  # as they are sent
    tokens: int
    path: Path | None  # where the reply is stored


class ServedEmbedder:
    """Embeds by requests to an endpoint: equal texts once, several requests at a time.

    Replies are stored until `forget` is called, so that what was interrupted is not sent again.
    """

    def __init__(self, spec: Embedding, count: Count, replies: Path | None = None) -> None:
        # replies: see `replies_folder`; without it nothing is stored, and nothing shared
        assert spec.max_tokens is not None
        self._spec, self._replies, self.count = spec, replies, count
        # The model's own tokens are others, and may be more.
        margin = spec.tokenizer == MINILM
        self.max_tokens = max(1, spec.max_tokens * 3 // 4) if margin else spec.max_tokens
        self._prompts = {"query": spec.query_prompt, "passage": spec.passage_prompt}
        self._added = dict(zip(self._prompts, count([*self._prompts.values()]), strict=True))
        self._dims = spec.dims  # once it is known
        self._answered = False
        self._used: list[Path] = []  # replies since `forget` was called

    @property
    def _endpoint(self) -> Endpoint:
        spec = self._spec
        usual = Embedding.model_fields["api_key_env"].default
        assert spec.endpoint is not None
        return Endpoint(
            spec.endpoint,
            spec.model,
            # Read anew each time: after a wrong key, another one may be set in the same process.
            api_key=key_in(spec.api_key_env, usual, _NAMES.api_key_env),
            timeout=spec.timeout,
            retries=spec.retries,
            concurrency=spec.concurrency,
            extra={} if spec.dims is None else {"dimensions": spec.dims},
        )

    @property
    def dims(self) -> int:
        """Dimensions of the vectors; the endpoint is requested to embed a word to find out."""
        if self._dims is None:
            self.embed(["a"], "query")
        assert self._dims is not None
        return self._dims

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Return vectors of unit length, (texts, dims); zeros for a text without tokens.

        Longer texts than `max_tokens` are cut.
        """
        place = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        requests = list(self._requests(list(place), kind))
        replies = {n: self._stored(request) for n, request in enumerate(requests)}
        found = {n: vectors for n, vectors in replies.items() if vectors is not None}
        self._fetch(requests, found)
        vectors = np.zeros((len(place), self.dims if place else self._dims or 0), np.float32)
        for number, request in enumerate(requests):
            vectors[request.rows] = found[number]
        return vectors[[place[text] for text in texts]]

    def describe(self) -> dict[str, object]:
        """Return what decides the vectors, as far as it is known here, and where they are made."""
        return {
            "model": self._spec.model,
            "endpoint": self._spec.endpoint,
            "tokenizer": self._spec.tokenizer,
            "dims": self.dims,
            "max_tokens": self.max_tokens,
            "query_prompt": self._prompts["query"],
            "passage_prompt": self._prompts["passage"],
        }

    def forget(self) -> None:
        """Remove the stored replies that were used since the last call: they are not needed."""
        for path in self._used:
            path.unlink(missing_ok=True)
        self._used.clear()

    def _requests(self, texts: list[str], kind: Kind) -> Iterator[_Request]:
        """Divide texts into requests, in their order; those without tokens are in none."""
        lengths = self.count(texts)
        rows: list[int] = []
        tokens = 0
        for row in compress(range(len(texts)), lengths):
            more = min(lengths[row], self.max_tokens) + self._added[kind]
            full = len(rows) == self._spec.request_texts
            if rows and (full or tokens + more > self._spec.request_tokens):
                yield self._request(texts, lengths, rows, tokens, kind)
                rows, tokens = [], 0
            rows.append(row)
            tokens += more
        if rows:
            yield self._request(texts, lengths, rows, tokens, kind)

    def _request(
        self, texts: list[str], lengths: list[int], rows: list[int], tokens: int, kind: Kind
    ) -> _Request:
        sent = [self._prompts[kind] + self._cut(texts[row], lengths[row]) for row in rows]
        # Half of a character, as JSON can spell it, cannot be sent.
        sent = [text.encode("utf-8", "replace").decode() for text in sent]
        path = None
        if self._replies is not None:
            key = sha256(json.dumps([self._spec.model, self._spec.dims, sent]).encode())
            path = ContentCache(self._replies, ".npy").path(f"{kind}-{key}")
        return _Request(rows, sent, tokens, path)

    def _cut(self, text: str, length: int) -> str:
        """Return the longest beginning of a text that the model sees."""
        if length <= self.max_tokens:
            return text
        ends = range(1, len(text))
        end = bisect_right(ends, self.max_tokens, key=lambda end: self._length(text[:end]))
        return text[: max(1, end)]

    def _length(self, text: str) -> int:
        [tokens] = self.count([text])
        return tokens

    def _fetch(self, requests: Sequence[_Request], found: dict[int, NDArray[np.float32]]) -> None:
        """Send what is not found yet, and add the replies."""
        missing = [number for number in range(len(requests)) if number not in found]
        if not missing:
            return

        async def work(caller: Caller, number: int) -> None:
            found[number] = await self._ask(caller, requests[number])

        call_all(
            missing, work, self._endpoint, self._budget(), total=len(missing), title="embed",
            unit="requests", answered=self._answered, names=_NAMES,
        )  # fmt: skip
        self._answered = True
        if len(found) < len(requests):
            most = self._spec.max_tokens_total
            least = min(requests[number].tokens for number in missing if number not in found)
            if most is not None and least > most:
                raise TaskError(
                    f"{self._endpoint.place}: a request of {least:,} tokens is more than the"
                    f" {most:,} of embedding.max_tokens_total; raise it, or lower"
                    " embedding.request_texts or request_tokens"
                )
            raise TaskError(
                f"{self._endpoint.place}: the {most:,} tokens of embedding.max_tokens_total are"
                f" used up; {_AGAIN} to send as many more, or raise it"
            )

    def _budget(self) -> Purse:
        if self._replies is None or self._spec.max_tokens_total is None:
            return Budget()
        return SharedBudget(self._replies / _SPENT, self._spec.max_tokens_total)

    async def _ask(self, caller: Caller, request: _Request) -> NDArray[np.float32]:
        async with self._slot():
            read = partial(self._read, wanted=len(request.texts))
            outcome = await caller.embed(request.texts, request.tokens, read)
        if isinstance(outcome, Failure):
            raise TaskError(f"{self._endpoint.place}: {self._problem(outcome)}")
        if request.path is not None:
            with on_disk(request.path), atomic_path(request.path) as part, part.open("wb") as file:
                np.save(file, outcome)
            self._used.append(request.path)
        return outcome

    def _problem(self, failure: Failure) -> str:
        if failure.reason == UNPARSABLE:
            return f"the embeddings cannot be used: {failure.detail}"
        if failure.status in _REFUSED:
            return (
                f"{failure.detail}; if a text is longer than the model sees, lower"
                " embedding.max_tokens, or give the model's own tokenizer (embedding.tokenizer); if"
                " there are too many, lower embedding.request_texts; if it cannot change its"
                " dimensions, leave out embedding.dims"
            )
        tries = self._spec.retries + 1 if failure.again else 1
        return (
            f"no embeddings in {tries} {'try' if tries == 1 else 'tries'}, the last ended with"
            f" {failure.reason}: {failure.detail}; {_AGAIN}"
        )

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Wait until fewer requests than are allowed are under way in all workers."""
        if self._replies is None:  # there are no others
            yield
            return
        numbers = range(self._spec.concurrency)
        while True:
            for number in random.sample(numbers, len(numbers)):
                # Freed by the system where a worker is killed.
                lock = filelock.FileLock(self._replies / f"request-{number}.lock")
                try:
                    lock.acquire(blocking=False)
                except filelock.Timeout:
                    continue
                try:
                    yield
                finally:
                    lock.release()
                return
            await asyncio.sleep(_POLL)

    def _stored(self, request: _Request) -> NDArray[np.float32] | None:
        """Return a stored reply, None where there is none that can be read."""
        if request.path is None:
            return None
        try:
            vectors = np.load(io.BytesIO(request.path.read_bytes()))
        except (OSError, ValueError, EOFError):
            return None
        if vectors.shape != (len(request.texts), self._dims or vectors.shape[-1]):
            return None
        self._dims = vectors.shape[1]
        self._used.append(request.path)
        return np.asarray(vectors, np.float32)

    def _read(self, data: list[Any], wanted: int) -> NDArray[np.float32]:
        """Return the vectors of a reply in the order of its texts; a ValueError says why none."""
        if len(data) != wanted:
            raise ValueError(f"{len(data)} of them for {wanted} texts")
        entries = {e["index"]: e for e in data if isinstance(e, dict) and _is_place(e.get("index"))}
        if entries.keys() != {*range(wanted)}:
            raise ValueError(f"their fields 'index' are not 0 to {wanted - 1}, each once")
        rows = [_vector(entries[at].get("embedding"), at) for at in range(wanted)]
        for number, row in enumerate(rows):
            if len(row) != (self._dims or len(rows[0])):
                raise ValueError(
                    f"that of text {number + 1} of {wanted} has {len(row)} dimensions, not"
                    f" {self._dims or len(rows[0])} as {self._reason()}"
                )
        vectors = np.stack(rows)
        self._dims = vectors.shape[1]
        lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        return (vectors / np.where(abs(lengths - 1) < _UNIT, 1, lengths)).astype(np.float32)

    def _reason(self) -> str:
        return "embedding.dims requests" if self._spec.dims else "those before it"


def _is_place(index: object) -> bool:
    return isinstance(index, int) and not isinstance(index, bool)


def _vector(value: Any, number: int) -> NDArray[np.float64]:
    """Return an embedding as it came, if it is one."""
    text = f"that of text {number + 1}"
    if not isinstance(value, list) or not value:
        raise ValueError(f"{text} is no list of numbers")
    # By type, as numpy would also take words and truth values for numbers.
    if not {*map(type, value)} <= {int, float}:
        raise ValueError(f"{text} holds something else than numbers")
    try:
        vector = np.array(value, np.float64)
    except OverflowError:
        vector = np.array([np.inf])
    peak = np.abs(vector).max()
    # Numbers that fp32 cannot hold are as useless as infinite ones.
    if not peak <= np.finfo(np.float32).max:
        raise ValueError(f"{text} holds numbers that are not finite")
    if peak == 0:
        raise ValueError(f"{text} is zero")
    return vector
