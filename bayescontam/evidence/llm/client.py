"""A client of language models: prompt, answer, failures and budget."""

import asyncio
import datetime
import email.utils
import json
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from bayescontam._files import sha256
from bayescontam._optional import require
from bayescontam._text import printable
from bayescontam.data.judgements import KINDS
from bayescontam.errors import TaskError, UsageError

_ANSWER = 300
"""Tokens set aside for an answer that has not come yet."""
REFUSED, UNPARSABLE, TIMEOUT, CONNECTION = "refused", "unparsable", "timeout", "no connection"
LONGEST_WAIT = 600.0
"""Seconds; an endpoint that asks for more is left alone, and the run stops."""
_AGAIN = {408, 409, 425, 429}
_FOR_ALL = {401, 402, 403, 404}
CUT = 20_000
"""Characters of an item or a chunk that a model is shown, unless requested otherwise."""
type Kind = Literal["exact", "equivalent", "subset", "superset", "related", "unrelated"]
_ALWAYS = {"exact": True, "equivalent": True, "unrelated": False}
_SHOWN = 200
_SHOWN_OF_REPLY = 300
_FIRST_WAIT, _MOST_WAIT = 0.5, 60.0
_NOT_UNDERSTOOD = {400, 422}


class BudgetReachedError(Exception):
    """No further call fits into the budget."""


@dataclass
class Cost:
    """Tokens of one call: as many as were set aside, unless it is known how many it took."""

    tokens: int
    recorded: bool = False

    def record(self, tokens: int) -> None:
        """Correct the estimate."""
        self.tokens, self.recorded = tokens, True


@dataclass
class Budget:
    """Counts what is spent; used within one event loop."""

    max_calls: int | None = None
    max_tokens: int | None = None
    # calls, tokens: spent so far; `tokens` holds the estimates of the calls under way
    calls: int = 0
    tokens: int = 0
    reached: bool = False  # whether a call was refused
    _under_way: int = 0
    _guessed: int = 0
    _took: int = 0
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def call(self, characters: int) -> AsyncIterator[Cost]:
        """Wait until a call of so many characters fits, count it, and give its cost to correct."""
        guess = estimated(characters) + _ANSWER
        cost = await self._admitted(guess)
        estimate = cost.tokens
        self.calls += 1
        self.tokens += estimate
        self._under_way += 1
        try:
            yield cost
        finally:
            self.tokens += cost.tokens - estimate
            self._under_way -= 1
            if cost.recorded and cost.tokens:
                self._guessed += guess
                self._took += cost.tokens
            self._freed.set()

    async def _admitted(self, guess: int) -> Cost:
        while (lacking := self._lacks(guess)) and self._under_way and not self.reached:
            # A call under way may turn out to take less than was set aside for it.
            self._freed.clear()
            await self._freed.wait()
        if self.reached or lacking or self.calls == self.max_calls:
            self.reached = True
            self._freed.set()
            raise BudgetReachedError
        return Cost(self._scaled(guess))

    def _lacks(self, guess: int) -> bool:
        return self.max_tokens is not None and self.tokens + self._scaled(guess) > self.max_tokens

    def _scaled(self, guess: int) -> int:
        return round(guess * self._took / self._guessed) if self._guessed else guess


def estimated(characters: int) -> int:
    """Return about how many tokens a text has.

    >>> estimated(9)
    3
    """
    return -(-characters // 4)


@dataclass(frozen=True)
class Failure:
    """A call without an answer."""

    reason: str  # what failures are counted by
    detail: str  # message of the endpoint
    again: bool = False  # whether the same call may succeed later
    wait: float | None = None  # seconds that the endpoint asks to wait before

    @property
    def status(self) -> int | None:
        """Status of HTTP, if that is the reason."""
        word, _, number = self.reason.partition(" ")
        return int(number) if word == "status" else None


def failure_of(error: Exception) -> Failure:
    """Return what an exception of the client means."""
    import openai

    text = printable(str(error), 300)
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return Failure(TIMEOUT, "no reply in time", again=True)
    if isinstance(error, openai.APIConnectionError):
        return Failure(CONNECTION, f"{text} ({printable(str(error.__cause__), 200)})", again=True)
    if isinstance(error, openai.APIStatusError):
        again = error.status_code in _AGAIN or error.status_code >= 500
        wait = _retry_after(error.response.headers.get("retry-after"))
        if error.code == "content_filter":
            return Failure(REFUSED, text)
        return Failure(f"status {error.status_code}", text, again, wait)
    return Failure("no completion", text, again=True)


def _retry_after(header: str | None) -> float | None:
    """Return the seconds that ``Retry-After`` asks for, which may name a time instead.

    >>> _retry_after("2")
    2.0
    >>> _retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    0.0
    >>> _retry_after("soon")
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            then = email.utils.parsedate_to_datetime(header)
        except ValueError:
            return None
        seconds = (then - datetime.datetime.now(then.tzinfo)).total_seconds()
    return seconds if seconds > 0 else 0.0  # NaN is a number too


def raise_if_fatal(failure: Failure, error: Any, place: str, answered: bool) -> None:
    """Raise if a failure concerns every call, not this pair."""
    said = f"{place}: {failure.detail}"
    if failure.status in _FOR_ALL and not (failure.status == 403 and answered):
        raise UsageError(
            f"{said}; check --base-url, --model and the key in the variable that "
            "--api-key-env names"
        ) from error
    if getattr(error, "code", None) == "insufficient_quota":
        raise TaskError(f"{said}; raise the quota, then run the same command again") from error
    if (failure.wait or 0) > LONGEST_WAIT:
        raise TaskError(
            f"{said}; it asks to wait {failure.wait:,.0f} seconds: run the same command again then"
        ) from error


_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Question:
    """A pair as a language model judges it."""

    prompt: str  # what a duplicate is
    # item, chunk: texts to compare
    item: str
    chunk: str
    cut: int = CUT  # longer texts are cut after this many characters, with a note

    @property
    def is_cut(self) -> bool:
        """Whether a model sees less than the whole of both texts."""
        return max(len(self.item), len(self.chunk)) > self.cut

    def messages(self) -> list[dict[str, str]]:
        """Return the messages of the call: the instruction, then the pair."""
        # Neither text can hold a mark that depends on both: it cannot close its own frame.
        mark = sha256("\0".join((self.item, self.chunk)).encode())[:16]
        rules = Template((_HERE / "rules.md").read_text(encoding="utf-8"))
        kinds = "\n".join(f"- `{kind}`: {meaning}." for kind, meaning in KINDS.items())
        instructions = rules.substitute(mark=mark, kinds=kinds)
        shown = [self._framed(name, mark) for name in ("item", "chunk")]
        return [
            {"role": "system", "content": f"{self.prompt.strip()}\n\n{instructions}"},
            {"role": "user", "content": "\n\n".join(shown)},
        ]

    def _framed(self, name: str, mark: str) -> str:
        text: str = getattr(self, name)
        over = len(text) - self.cut
        note = f"\n[cut here; {over:,} more characters are not shown]" if over > 0 else ""
        return f"<{name} {mark}>\n{text[: self.cut]}{note}\n</{name} {mark}>"


def shipped_prompts() -> list[str]:
    """Return the names of the prompts that ship with the package.

    >>> shipped_prompts()
    ['general', 'programming', 'puzzle', 'question_answering']
    """
    return sorted(path.stem for path in (_HERE / "prompts").glob("*.md"))


def load_prompt(prompt: str | os.PathLike[str]) -> str:
    """Return the text of a prompt."""
    name = os.fspath(prompt)
    path = _HERE / "prompts" / f"{name}.md" if name in shipped_prompts() else Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"prompt '{printable(name)}': cannot be read ({reason}); give one of "
            f"{', '.join(shipped_prompts())}, or the path of a text file in UTF-8"
        ) from error
    if not text.strip():
        raise UsageError(f"prompt '{printable(name)}': is blank; describe what a duplicate is")
    return text


class Answer(BaseModel):
    """Verdict on one pair.

    The reasoning comes first, so that a model writes it before it decides.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    reasoning: str
    kind: Kind  # one of the six kinds
    is_duplicate: bool  # agrees with `kind`: exact and equivalent are duplicates, unrelated is none
    confidence: float  # from 0 to 1

    @field_validator("reasoning")
    @classmethod
    def _json_safe(cls, text: str) -> str:
        # JSON can spell half a character, which no file can hold.
        return text.encode("utf-8", "replace").decode()

    # Checked here, not by a limit on the field: endpoints refuse schemas that hold limits.
    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence is {self.confidence:g}, not from 0 to 1")
        if _ALWAYS.get(self.kind, self.is_duplicate) != self.is_duplicate:
            raise ValueError(f"kind '{self.kind}' contradicts is_duplicate={self.is_duplicate}")
        return self


def read_answer(text: str) -> Answer:
    """Find the answer in what a model wrote.

    >>> read_answer('```{"reasoning": "Same task.", "kind": "exact", '
    ...             '"is_duplicate": true, "confidence": 1}```').kind
    'exact'
    """
    found: list[Answer] = []
    problem = f"no JSON object in '{text[:_SHOWN]}'"
    for data in _objects(text):
        try:
            found.append(Answer.model_validate(data))
        except ValidationError as error:
            problem = "; ".join(_spelled(dict(fault)) for fault in error.errors())
    if not found:
        raise ValueError(problem)
    if any(answer != found[0] for answer in found):
        raise ValueError(f"{len(found)} answers that differ")
    return found[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Give the outermost JSON objects in a text."""
    decoder = json.JSONDecoder(object_pairs_hook=_unrepeated)
    at = text.find("{")
    while at >= 0:
        try:
            data, end = decoder.raw_decode(text, at)
            yield data
        except ValueError:
            end = at + 1
        except RecursionError:
            return  # no answer is so deep, and what is inside would be tried again and again
        at = text.find("{", end)


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a field comes twice")
    return dict(pairs)


def _spelled(fault: dict[str, Any]) -> str:
    place = ".".join(map(str, fault["loc"]))
    return f"{place}: {fault['msg']}" if place else str(fault["msg"])


def parse_reply(reply: Any) -> Answer | Failure:
    """Return the answer in a reply of chat completions."""
    try:
        choice = reply.choices[0]
        message = choice.message
        refusal, content = message.refusal, message.content
    except (AttributeError, TypeError, IndexError):
        said = getattr(reply, "error", None) or reply
        return Failure("no completion", printable(str(said), _SHOWN_OF_REPLY), again=True)
    if refusal or choice.finish_reason == "content_filter":
        return Failure(REFUSED, printable(str(refusal or "content filter"), _SHOWN_OF_REPLY))
    if not isinstance(content, str) or not content.strip():
        return Failure(REFUSED, "nothing was written")
    try:
        return read_answer(content)
    except ValueError as error:
        cut = "the answer was cut off: " if choice.finish_reason == "length" else ""
        return Failure(UNPARSABLE, cut + printable(str(error), _SHOWN_OF_REPLY))


def reported_tokens(reply: Any) -> int | None:
    """Return how many tokens a reply says that the call took, if it says so."""
    total = getattr(getattr(reply, "usage", None), "total_tokens", None)
    return total if isinstance(total, int) and total >= 0 else None


@dataclass(frozen=True)
class Endpoint:
    """Where a language model is and how it is called."""

    base_url: str  # address of the interface, such as `"http://localhost:8000/v1"`
    model: str  # name of the model there
    api_key: str = field(default="", repr=False)  # key; "" for an endpoint that needs none
    temperature: float | None = 0.0  # none sends none: some models allow only their own
    timeout: float = 60.0  # seconds that a call may take in all
    # further tries of a call after what may pass: no connection, timeout, a reply that is no
    # completion, the statuses 408, 409, 425, 429 and from 500. Waits double from half a second to a
    # minute, shortened by a random part up to a half, unless the endpoint asks for another wait.
    retries: int = 5
    concurrency: int = 8  # calls under way at a time

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise UsageError(
                f"base URL '{printable(self.base_url)}': begins with neither http:// nor https://"
            )
        if not self.model.strip() or "#" in self.model:
            raise UsageError(f"model '{printable(self.model)}': give a name without '#'")
        for name, least in (("timeout", 1e-3), ("retries", 0), ("concurrency", 1)):
            if not getattr(self, name) >= least:
                raise UsageError(f"{name} {getattr(self, name)}: allowed is {least:g} or more")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise UsageError(f"temperature {self.temperature:g}: allowed is 0 to 2, or none")

    @property
    def place(self) -> str:
        """Model and address, as messages name them."""
        return f"model '{printable(self.model, 80)}' at {printable(self.base_url)}"


class Caller:
    """Asks an endpoint within a budget; used within one event loop."""

    def __init__(self, endpoint: Endpoint, budget: Budget) -> None:
        self.endpoint = endpoint
        self.answered = False
        self._budget = budget
        self._formats = response_formats()
        self._client = require("openai", "scan").AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key or "none",  # the client insists on one
            timeout=endpoint.timeout,
            max_retries=0,  # every call is ours to count
        )

    async def ask(self, question: Question) -> Answer | Failure:
        """Return the model's answer, or why there is none after all retries."""
        wait = _FIRST_WAIT
        for _ in range(self.endpoint.retries):
            outcome = await self._in_some_format(question)
            if isinstance(outcome, Answer) or not outcome.again:
                return outcome
            jittered = wait * random.uniform(0.5, 1)
            await asyncio.sleep(jittered if outcome.wait is None else outcome.wait)
            wait = min(2 * wait, _MOST_WAIT)
        outcome = await self._in_some_format(question)
        if isinstance(outcome, Failure) and outcome.reason == CONNECTION and not self.answered:
            raise TaskError(f"{self.endpoint.place}: {outcome.detail}; check --base-url")
        return outcome

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _in_some_format(self, question: Question) -> Answer | Failure:
        """Call; where the format is not understood, in simpler ones. What works once stays."""
        for form in self._formats:
            outcome = await self._call(question, form)
            if isinstance(outcome, Answer) or outcome.status not in _NOT_UNDERSTOOD:
                break
        if self.answered:
            self._formats = [form]
        return outcome

    async def _call(self, question: Question, form: dict[str, Any]) -> Answer | Failure:
        messages = question.messages()
        characters = sum(len(message["content"]) for message in messages)
        options = dict(form)
        if self.endpoint.temperature is not None:
            options["temperature"] = self.endpoint.temperature
        async with self._budget.call(characters) as cost:
            try:
                async with asyncio.timeout(self.endpoint.timeout):
                    reply = await self._client.chat.completions.create(
                        model=self.endpoint.model, messages=messages, **options
                    )
            # What the client raises depends on what the endpoint sends; Ctrl-C passes.
            except Exception as error:
                return self._failed(error, cost)
            outcome = parse_reply(reply)
            if (tokens := reported_tokens(reply)) is not None:
                cost.record(tokens)
        if not (isinstance(outcome, Failure) and outcome.again):
            self.answered = True
        return outcome

    def _failed(self, error: Exception, cost: Cost) -> Failure:
        failure = failure_of(error)
        if self.endpoint.api_key:
            failure = replace(failure, detail=failure.detail.replace(self.endpoint.api_key, "…"))
        if failure.status:
            cost.record(0)  # an endpoint that refuses a call does not charge for it
        raise_if_fatal(failure, error, self.endpoint.place, self.answered)
        return failure


def response_formats() -> list[dict[str, Any]]:
    """Return how an answer may be requested: by schema, as JSON, as text with JSON in it."""
    schema = {"name": "judgement", "strict": True, "schema": Answer.model_json_schema()}
    return [
        {"response_format": {"type": "json_schema", "json_schema": schema}},
        {"response_format": {"type": "json_object"}},
        {},
    ]
