"""Models behind OpenAI-compatible endpoints: calls, retries, failures, and a budget."""

import asyncio
import datetime
import email.utils
import json
import os
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from bayescontam._optional import require
from bayescontam._progress import Advance, progress_bar
from bayescontam._text import printable
from bayescontam.budget import BudgetReachedError, Cost, Purse
from bayescontam.errors import TaskError, UsageError

REFUSED, UNPARSABLE, TIMEOUT, CONNECTION = "refused", "unparsable", "timeout", "no connection"
CUT_OFF = "cut off"
LONGEST_WAIT = 600.0
"""Seconds; an endpoint that asks for more is left alone, and the run stops."""
_AGAIN = {408, 409, 425, 429}
_FOR_ALL = {401, 402, 403, 404}
_SHOWN = 200
_SHOWN_OF_REPLY = 300
_FIRST_WAIT, _MOST_WAIT = 0.5, 60.0
_NOT_UNDERSTOOD = {400, 422}
_TRIALS = 3
"""Requests that are sent one at a time until the endpoint has answered one."""
_PLAIN: tuple[Mapping[str, Any], ...] = ({},)


class Names(NamedTuple):
    """How a user knows the settings of an endpoint, as messages name them."""

    base_url: str = "--base-url"
    model: str = "--model"
    api_key_env: str = "--api-key-env"


OPTIONS = Names()
"""Those of the command line."""


@dataclass(frozen=True)
class Failure:
    """A call without an answer."""

    reason: str  # what failures are counted by
    detail: str  # message of the endpoint
    again: bool = False  # whether the same call may succeed later
    wait: float | None = None  # seconds that the endpoint asks to wait before
    status: int | None = None  # of HTTP, if that is the reason


def failure_of(error: Exception) -> Failure:
    """Return what an exception of the client means."""
    import openai

    text = printable(str(error), 300)
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return Failure(TIMEOUT, "no reply in time", again=True)
    if isinstance(error, openai.APIConnectionError):
        return Failure(CONNECTION, f"{text} ({printable(str(error.__cause__), 200)})", again=True)
    if isinstance(error, openai.APIStatusError):
        if 300 <= error.status_code < 400:
            to = printable(error.response.headers.get("location", ""), 200)
            text = f"it redirects to {to}; give that address"
        again = error.status_code in _AGAIN or error.status_code >= 500
        wait = _retry_after(error.response.headers.get("retry-after"))
        if error.code == "content_filter":
            return Failure(REFUSED, text)
        status = error.status_code
        return Failure(f"status {status}", text, again, wait, status)
    return Failure("no completion", text, again=True)


def _retry_after(header: str | None) -> float | None:
    """Return the seconds that ``Retry-After`` asks for, which may name a time instead."""
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


class Request[AnswerT](Protocol):
    """What is requested of a model, and how its reply is read."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """Messages of the call."""

    @property
    def schema(self) -> dict[str, Any] | None:
        """Name and JSON schema of the answer; None for plain text."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Fields of the call's body in place of the endpoint's, such as another temperature."""

    @property
    def whole(self) -> bool:
        """Whether a reply that was cut off is none."""

    def read(self, text: str, *, cut_off: bool = False) -> AnswerT:
        """Return the answer in what the model wrote; a ValueError says why there is none."""


def parse_reply[AnswerT](reply: Any, request: Request[AnswerT]) -> AnswerT | Failure:
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
    cut_off = choice.finish_reason == "length"
    if not isinstance(content, str) or not content.strip():
        # What a model thinks counts as well: its tokens may end before the answer begins.
        return Failure(CUT_OFF if cut_off else REFUSED, "nothing was written")
    if request.whole and cut_off:
        return Failure(CUT_OFF, printable(content[-_SHOWN:], _SHOWN_OF_REPLY))
    try:
        return request.read(content, cut_off=cut_off)
    except ValueError as error:
        reason = CUT_OFF if cut_off else UNPARSABLE
        return Failure(reason, printable(str(error), _SHOWN_OF_REPLY))


@dataclass(frozen=True)
class TextCall:
    """A `Request` for text: what a model is given, and its whole reply as it is."""

    messages: list[dict[str, str]]
    schema: dict[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = True  # a reply that was cut off is none

    def read(self, text: str, *, cut_off: bool = False) -> str:
        """Return the text; half of a character, as JSON can spell it, cannot be stored."""
        return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class Endpoint:
    """Where a language model is, and how it is called.

    Attributes
    ----------
    base_url : str
        Address of an OpenAI-compatible interface, such as ``"http://localhost:8000/v1"``.
    model : str
        Name of the model there.
    api_key : str, default ""
        Key; empty for an endpoint that needs none.
    temperature : float or None, default 0.0
        From 0 to 2. None sends none: some models allow only their own.
    timeout : float, default 60.0
        Seconds that a call may take in all.
    retries : int, default 5
        Further tries of a call after what may pass: no connection, timeout, a reply that is no
        completion, the statuses 408, 409, 425, 429 and from 500. Waits double from half a second
        to a minute, shortened by a random part up to a half, unless the endpoint asks for another
        wait.
    concurrency : int, default 8
        Calls under way at a time.
    max_tokens : int or None, default None
        Longest reply, in tokens. None sends none.
    extra : mapping, default {}
        Further fields of each call's body.

    Raises
    ------
    UsageError
        For an address without http:// or https://, or a number that is not allowed.

    Examples
    --------
    >>> Endpoint("http://localhost:8000/v1", "qwen3").place
    "model 'qwen3' at http://localhost:8000/v1"
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    temperature: float | None = 0.0
    timeout: float = 60.0
    retries: int = 5
    concurrency: int = 8
    max_tokens: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

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
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max_tokens {self.max_tokens}: allowed is 1 or more, or none")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise UsageError(f"temperature {self.temperature:g}: allowed is 0 to 2, or none")

    @property
    def options(self) -> dict[str, Any]:
        """What each call sends besides its messages."""
        given = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        options: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        return options | ({"extra_body": dict(self.extra)} if self.extra else {})

    @property
    def place(self) -> str:
        """Model and address, as messages name them."""
        return f"model '{printable(self.model, 80)}' at {printable(self.base_url)}"


class Caller:
    """Asks an endpoint within a budget; used within one event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        budget: Purse,
        names: Names = OPTIONS,
        answered: bool = False,
    ) -> None:
        self.endpoint, self.answered = endpoint, answered
        self._budget, self._names = budget, names
        self._form: int | None = None  # how JSON is requested, once that is known to work
        library = require("openai", "endpoint")
        self._client = library.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key or "none",  # the client insists on one
            timeout=endpoint.timeout,
            max_retries=0,  # every call is ours to count
            # Texts go where the user sends them, and nowhere else.
            http_client=library.DefaultAsyncHttpxClient(follow_redirects=False),
        )
        if urlsplit(endpoint.base_url).hostname != "api.openai.com":
            # From the environment, and of no concern to others.
            self._client.organization = self._client.project = None

    async def ask[AnswerT](self, request: Request[AnswerT]) -> AnswerT | Failure:
        """Return the model's answer, or why there is none after all retries."""
        return await self._retried(lambda: self._in_some_format(request))

    async def embed[AnswerT](
        self, texts: Sequence[str], size: int, read: Callable[[list[Any]], AnswerT]
    ) -> AnswerT | Failure:
        """Return what `read` makes of the embeddings of texts, or why there are none.

        `size` is what the budget counts. A ValueError of `read` says why there is no answer.
        """
        body = {"model": self.endpoint.model, "input": texts, "encoding_format": "float"}

        async def create() -> Any:
            # Not parsed: the client makes an object of each number, which takes a second.
            raw = self._client.embeddings.with_raw_response
            reply = await raw.create(**body, extra_body=dict(self.endpoint.extra))
            try:
                return json.loads(reply.content)
            except (ValueError, RecursionError):
                return reply.text

        def parse(reply: Any) -> AnswerT | Failure:
            data = reply.get("data") if isinstance(reply, dict) else None
            if not isinstance(data, list):
                return Failure("no embeddings", printable(str(reply), _SHOWN_OF_REPLY), again=True)
            try:
                return read(data)
            except ValueError as error:
                return Failure(UNPARSABLE, printable(str(error), _SHOWN_OF_REPLY))

        return await self._retried(lambda: self._send(create, size, parse))

    async def _retried[AnswerT](
        self, call: Callable[[], Awaitable[AnswerT | Failure]]
    ) -> AnswerT | Failure:
        wait = _FIRST_WAIT
        for _ in range(self.endpoint.retries):
            outcome = await call()
            if not (isinstance(outcome, Failure) and outcome.again):
                return outcome
            jittered = wait * random.uniform(0.5, 1)
            await asyncio.sleep(jittered if outcome.wait is None else outcome.wait)
            wait = min(2 * wait, _MOST_WAIT)
        outcome = await call()
        if isinstance(outcome, Failure) and outcome.reason == CONNECTION and not self.answered:
            raise TaskError(
                f"{self.endpoint.place}: {outcome.detail}; check {self._names.base_url}"
            )
        return outcome

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _in_some_format[AnswerT](self, request: Request[AnswerT]) -> AnswerT | Failure:
        """Call; where the format is not understood, in simpler ones. What works once stays."""
        forms = _forms(request.schema)
        first = min(self._form or 0, len(forms) - 1)
        for at, form in enumerate(forms[first:], first):
            outcome = await self._call(request, form)
            if isinstance(outcome, Failure) and outcome.status in _NOT_UNDERSTOOD:
                if self._form is None:
                    continue
            elif self.answered and request.schema:
                self._form = at
            break
        return outcome

    async def _call[AnswerT](
        self, request: Request[AnswerT], form: Mapping[str, Any]
    ) -> AnswerT | Failure:
        messages = request.messages
        characters = sum(len(message["content"]) for message in messages)
        options = {"model": self.endpoint.model, **form, **self.endpoint.options, **request.options}
        client = self._client.chat.completions
        return await self._send(
            lambda: client.create(messages=messages, **options),
            characters,
            lambda reply: parse_reply(reply, request),
        )

    async def _send[AnswerT](
        self,
        create: Callable[[], Awaitable[Any]],
        size: int,
        parse: Callable[[Any], AnswerT | Failure],
    ) -> AnswerT | Failure:
        """Make one call within the budget, and read its reply."""
        async with self._budget.call(size) as cost:
            try:
                async with asyncio.timeout(self.endpoint.timeout):
                    reply = await create()
            # What the client raises depends on what the endpoint sends; Ctrl-C passes.
            except Exception as error:
                return self._failed(error, cost)
            outcome = parse(reply)
            cost.taken = _total_tokens(reply)
        if isinstance(outcome, Failure):
            outcome = self._without_key(outcome)
        if not (isinstance(outcome, Failure) and outcome.again):
            self.answered = True
        return outcome

    def _without_key(self, failure: Failure) -> Failure:
        if not self.endpoint.api_key:
            return failure
        return replace(failure, detail=failure.detail.replace(self.endpoint.api_key, "…"))

    def _failed(self, error: Exception, cost: Cost) -> Failure:
        """Return what an error means; raise if it concerns every call, not this one."""
        failure = self._without_key(failure_of(error))
        # What the endpoint wrote may repeat the key, and tracebacks show causes.
        key = self.endpoint.api_key
        cause = None if key and key in str(error) else error
        if failure.status:
            cost.taken = 0  # an endpoint that refuses a call does not charge for it
        said = f"{self.endpoint.place}: {failure.detail}"
        if failure.status in _FOR_ALL and not (failure.status == 403 and self.answered):
            raise UsageError(
                f"{said}; check {self._names.base_url}, {self._names.model} and the key in the"
                f" variable that {self._names.api_key_env} names"
            ) from cause
        if getattr(error, "code", None) == "insufficient_quota":
            raise TaskError(f"{said}; raise the quota, then run the same command again") from cause
        if (failure.wait or 0) > LONGEST_WAIT:
            raise TaskError(
                f"{said}; it asks to wait {failure.wait:,.0f} seconds: run the same command again"
                " then"
            ) from cause
        return failure


def _total_tokens(reply: Any) -> int | None:
    """Return the tokens that a reply states to have taken, if it does."""
    usage = reply.get("usage") if isinstance(reply, dict) else getattr(reply, "usage", None)
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    total = getattr(usage, "total_tokens", total)
    return total if isinstance(total, int) and total >= 0 else None


def key_in(variable: str, usual: str, option: str) -> str:
    """Return the key in an environment variable; empty if it is the usual one, and not set.

    Raises
    ------
    UsageError
        If another variable was named, by `option`, and is not set, or a key cannot be sent.
    """
    if variable not in os.environ and variable != usual:
        raise UsageError(f"{option}: no environment variable '{printable(variable)}'; set it")
    key = os.environ.get(variable, "").strip()
    # Otherwise the client would show it, spelt in another way, in its complaint.
    if not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"{option}: the key in the environment variable '{printable(variable)}' has characters"
            " that cannot be sent; set it anew"
        )
    return key


def _forms(schema: dict[str, Any] | None) -> tuple[Mapping[str, Any], ...]:
    """Return how an answer may be requested: by schema, as JSON, as text with JSON in it."""
    if schema is None:
        return _PLAIN
    return (
        {"response_format": {"type": "json_schema", "json_schema": schema | {"strict": True}}},
        {"response_format": {"type": "json_object"}},
        {},
    )


def call_all[KeyT](
    keys: Iterable[KeyT],
    work: Callable[[Caller, KeyT], Awaitable[Failure | None]],
    endpoint: Endpoint,
    budget: Purse,
    *,
    total: int,
    title: str,
    unit: str,
    progress: bool = False,
    answered: bool = False,
    names: Names = OPTIONS,
) -> None:
    """Do work that needs calls, several at a time, as far as the budget goes.

    Parameters
    ----------
    keys : iterable
        What there is to do.
    work : callable
        Does one of these; returns why if the endpoint gave no answer.
    endpoint : Endpoint
        Where the model is.
    budget : Purse
        What may be spent.
    total : int
        Number of `keys`.
    title, unit : str
        Of the bar.
    progress : bool, default False
        Whether it is shown.
    answered : bool, default False
        Whether the endpoint has answered before; if not, the first calls are made one by one.
    names : Names, optional
        Of the settings, in messages. Default: those of the command line.

    Raises
    ------
    UsageError, TaskError
        Where no call can succeed, or none of the first ones did.
    """
    require("openai", "endpoint")
    portal = require("anyio.from_thread", "endpoint").start_blocking_portal
    # The loop runs in a thread of its own: a notebook has one running in this thread.
    with progress_bar(progress, title, total, unit) as advance, portal() as loop:
        try:
            caller = Caller(endpoint, budget, names, answered)
            loop.call(_call_all, iter(keys), work, caller, advance, unit)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group.exceptions[0].__cause__


async def _call_all[KeyT](
    keys: Iterator[KeyT],
    work: Callable[[Caller, KeyT], Awaitable[Failure | None]],
    caller: Caller,
    advance: Advance,
    unit: str,
) -> None:
    endpoint = caller.endpoint
    failures: list[Failure] = []

    async def through(some: Iterator[KeyT]) -> None:
        for key in some:
            try:
                failure = await work(caller, key)
            except BudgetReachedError:
                return
            if failure is not None:
                failures.append(failure)
            advance(1)

    try:
        # One by one at first: what is wrong with every call costs few calls.
        for _ in range(_TRIALS):
            if not caller.answered:
                await through(islice(keys, 1))
        if not caller.answered and len(failures) >= _TRIALS:
            raise TaskError(
                f"{endpoint.place}: no answer to the first {_TRIALS} {unit}; the last call "
                f"ended with {failures[-1].reason}: {failures[-1].detail}"
            )
        async with asyncio.TaskGroup() as group:
            for _ in range(endpoint.concurrency):
                group.create_task(through(keys))
    finally:
        await caller.close()
