"""Pairs judged by a language model: prompt, answer, failures, budget, and every answer stored."""

import asyncio
import datetime
import email.utils
import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from string import Template
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from bayescontam._files import check_writable, make_folder, sha256
from bayescontam._optional import require
from bayescontam._progress import Advance, progress_bar
from bayescontam._runs import ContentCache
from bayescontam._text import join_list, printable
from bayescontam.data.judgements import KINDS, PAIR, Judgements, read_judgements, write_judgements
from bayescontam.data.tables import check_table_ending
from bayescontam.errors import DataError, Fault, TaskError, UsageError

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
_FORMAT = 2
"""Version of answers: 1 where ``subset`` and ``superset`` each had the meaning of the other.
To be raised when an answer given before must not stand for one given now."""
_FOLDER = f"v{_FORMAT}"
"""Folder of answers of this version; those of version 1 stand beside it."""
_TRIALS = 3
"""Questions that are sent one at a time until the endpoint has answered one."""
_HERE = Path(__file__).parent
_KEYS = list(PAIR)


class BudgetReachedError(Exception):
    """No further call fits into the budget."""


@dataclass
class Cost:
    """Tokens of one call."""

    estimate: int
    taken: int | None = None  # unless it is not known


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
        guess = -(-characters // 4) + _ANSWER  # a token has about four characters
        cost = await self._admitted(guess)
        self.calls += 1
        self.tokens += cost.estimate
        self._under_way += 1
        try:
            yield cost
        finally:
            self._under_way -= 1
            if cost.taken is not None:
                self.tokens += cost.taken - cost.estimate
            if cost.taken:
                self._guessed += guess
                self._took += cost.taken
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
        rules = Template((_HERE / "prompt_rules.md").read_text(encoding="utf-8"))
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
    """Return the names of the prompts that ship with the package."""
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
    """Find the answer in what a model wrote."""
    found: list[Answer] = []
    problem = f"no JSON object in '{text[:_SHOWN]}'"
    for data in _objects(text):
        try:
            found.append(Answer.model_validate(data))
        except ValidationError as error:
            faults = [(".".join(map(str, fault["loc"])), fault["msg"]) for fault in error.errors()]
            problem = "; ".join(f"{place}: {said}" if place else said for place, said in faults)
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
        schema = {"name": "judgement", "strict": True, "schema": Answer.model_json_schema()}
        # How an answer may be requested: by schema, as JSON, as text with JSON in it.
        self._formats: list[dict[str, Any]] = [
            {"response_format": {"type": "json_schema", "json_schema": schema}},
            {"response_format": {"type": "json_object"}},
            {},
        ]
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
            total = getattr(getattr(reply, "usage", None), "total_tokens", None)
            cost.taken = total if isinstance(total, int) and total >= 0 else None
        if not (isinstance(outcome, Failure) and outcome.again):
            self.answered = True
        return outcome

    def _failed(self, error: Exception, cost: Cost) -> Failure:
        """Return what an error means; raise if it concerns every call, not this pair."""
        failure = failure_of(error)
        if self.endpoint.api_key:
            failure = replace(failure, detail=failure.detail.replace(self.endpoint.api_key, "…"))
        if failure.status:
            cost.taken = 0  # an endpoint that refuses a call does not charge for it
        said = f"{self.endpoint.place}: {failure.detail}"
        if failure.status in _FOR_ALL and not (failure.status == 403 and self.answered):
            raise UsageError(
                f"{said}; check --base-url, --model and the key in the variable that "
                "--api-key-env names"
            ) from error
        if getattr(error, "code", None) == "insufficient_quota":
            raise TaskError(f"{said}; raise the quota, then run the same command again") from error
        if (failure.wait or 0) > LONGEST_WAIT:
            raise TaskError(
                f"{said}; it asks to wait {failure.wait:,.0f} seconds: run the same command again"
                " then"
            ) from error
        return failure


def cache_key(question: Question, model: str, run: int, temperature: float | None) -> str:
    """Return the key of an answer: a hash of all that it depends on but the endpoint."""
    parts = [_FORMAT, question.messages(), model, run, temperature]
    return sha256(json.dumps(parts).encode())


def answer_cache(folder: str | os.PathLike[str]) -> tuple[ContentCache, list[str]]:
    """Return the cache in a folder, and a note if it holds answers that are not used."""
    path = make_folder(folder)
    note = (
        f"{printable(str(path))}: answers of an earlier version of bayescontam are not used:"
        " 'subset' and 'superset' each had the meaning of the other; remove them, or name"
        " another folder"
    )
    return ContentCache(path / _FOLDER, nested=True), [note] * any(path.glob("??/*.json"))


def stored_answer(cache: ContentCache, key: str) -> Answer | None:
    """Return an answer, or None where there is none that can be read."""
    try:
        return Answer.model_validate_json(cache.get(key) or b"")
    except ValidationError:
        return None


@dataclass
class JudgeSession:
    """Questions and what came of them so far."""

    questions: dict[str, Question]
    outcomes: dict[str, Answer | Failure]  # by the same keys; at first those that were stored
    cache: ContentCache | None

    def run(self, endpoint: Endpoint, budget: Budget, *, progress: bool = False) -> None:
        """Ask what has no outcome yet, as far as the budget goes."""
        missing = [key for key in self.questions if key not in self.outcomes]
        if not missing:
            return
        require("openai", "scan")
        portal = require("anyio.from_thread", "scan").start_blocking_portal
        # The loop runs in a thread of its own: a notebook has one running in this thread.
        with progress_bar(progress, "judge", len(missing), "pairs") as advance, portal() as loop:
            try:
                loop.call(self._ask_all, iter(missing), endpoint, budget, advance)
            except BaseExceptionGroup as group:
                raise group.exceptions[0] from group.exceptions[0].__cause__

    async def _ask_all(
        self, keys: Iterator[str], endpoint: Endpoint, budget: Budget, advance: Advance
    ) -> None:
        caller = Caller(endpoint, budget)
        try:
            # One by one at first: what is wrong with every call costs few calls.
            for _ in range(_TRIALS):
                if not caller.answered:
                    await self._ask(islice(keys, 1), caller, advance)
            failures = [known for known in self.outcomes.values() if isinstance(known, Failure)]
            if not caller.answered and len(failures) >= _TRIALS:
                raise TaskError(
                    f"{endpoint.place}: no answer to the first {_TRIALS} pairs; the last call "
                    f"ended with {failures[-1].reason}: {failures[-1].detail}"
                )
            async with asyncio.TaskGroup() as group:
                for _ in range(endpoint.concurrency):
                    group.create_task(self._ask(keys, caller, advance))
        finally:
            await caller.close()

    async def _ask(self, keys: Iterator[str], caller: Caller, advance: Advance) -> None:
        for key in keys:
            try:
                outcome = await caller.ask(self.questions[key])
            except BudgetReachedError:
                return
            self.outcomes[key] = outcome
            if self.cache and isinstance(outcome, Answer):
                self.cache.put(key, outcome.model_dump_json() + "\n")
            advance(1)


def judge_name(model: str, run: int = 1) -> str:
    """Return the name of a run of a language model as a judge."""
    return f"llm:{model}" + (f"#{run}" if run > 1 else "")


def judge_pairs(
    pairs: pd.DataFrame,
    endpoint: Endpoint,
    *,
    prompt: str | os.PathLike[str] = "general",
    run: int = 1,
    cache: str | os.PathLike[str] | None = None,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    cut: int = CUT,
    progress: bool = False,
) -> Judgements:
    """Have a language model judge whether pairs are duplicates."""
    limits = {"run": run, "max_calls": max_calls, "max_tokens": max_tokens, "cut": cut}
    for name, value in limits.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} {value}: allowed is 1 or more")
    questions = _questions(pairs, load_prompt(prompt), cut)
    keys = [cache_key(each, endpoint.model, run, endpoint.temperature) for each in questions]
    store, notes = (None, []) if cache is None else answer_cache(cache)
    stored = {key: stored_answer(store, key) for key in keys} if store else {}
    # Pairs of equal texts are one question.
    session = JudgeSession(
        dict(zip(keys, questions, strict=True)), {k: a for k, a in stored.items() if a}, store
    )
    if known := len(session.outcomes):
        notes.append(f"{known:,} answers were in the cache")
    if cuts := sum(question.is_cut for question in questions):
        notes.append(f"texts are cut at {cut:,} characters in {cuts:,} of {len(keys):,} pairs")
    budget = Budget(max_calls, max_tokens)
    session.run(endpoint, budget, progress=progress)
    outcomes = [session.outcomes.get(key) for key in keys]
    if not any(outcomes):
        raise TaskError(f"{endpoint.place}: the budget ended before the first answer; raise it")
    table = _table(pairs[_KEYS], outcomes, judge_name(endpoint.model, run))
    made = Judgements.from_frame(table, source=endpoint.place)
    notes += _counts(outcomes, budget)
    return Judgements(made.frame, made.source, (*made.notes, *notes))


def _questions(pairs: pd.DataFrame, prompt: str, cut: int) -> list[Question]:
    """Return the question of every pair."""
    needed = [*_KEYS, "text", "chunk_text"]
    if absent := [name for name in needed if name not in pairs.columns]:
        raise DataError(
            [Fault("pairs", f"lacks {join_list(absent)}; needed are {join_list(needed)}")]
        )
    if pairs.empty:
        raise DataError([Fault("pairs", "no rows; give at least one pair")])
    texts = zip(pairs["text"], pairs["chunk_text"], strict=True)
    return [Question(prompt, item, chunk, cut) for item, chunk in texts]


def _counts(outcomes: list[Answer | Failure | None], budget: Budget) -> Iterator[str]:
    yield f"{budget.calls:,} calls took {budget.tokens:,} tokens"
    reasons = Counter(known.reason for known in outcomes if isinstance(known, Failure))
    if reasons:
        counted = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
        yield f"{reasons.total():,} of {len(outcomes):,} pairs are unjudged: {counted}"
    if left := outcomes.count(None):
        yield f"the budget is reached and {left:,} pairs are left: run the same again to go on"


def _table(
    pairs: pd.DataFrame, outcomes: list[Answer | Failure | None], judge: str
) -> pd.DataFrame:
    rows = [_cells(outcome) for outcome in outcomes if outcome]
    reached = pairs[[outcome is not None for outcome in outcomes]].reset_index(drop=True)
    judged = pd.DataFrame(rows).astype({"is_duplicate": "Int8"})
    return pd.concat([reached.assign(judge=judge), judged], axis=1)


def _cells(outcome: Answer | Failure) -> dict[str, object]:
    if isinstance(outcome, Answer):
        cells = outcome.model_dump()
        return {"comment": cells.pop("reasoning"), **cells}
    comment = f"unjudged ({outcome.reason}): {outcome.detail}"
    return {"is_duplicate": pd.NA, "kind": "", "confidence": np.nan, "comment": comment}


def add_judgements(
    out: str | os.PathLike[str],
    pairs: pd.DataFrame,
    endpoint: Endpoint,
    *,
    run: int = 1,
    **options: Any,
) -> list[str]:
    """Judge the pairs that a file has no verdict of, and add them to it."""
    check_table_ending(out, "judgements")
    check_writable(out)
    earlier = _read(out)
    left = pairs if earlier is None else _unjudged(pairs, earlier, judge_name(endpoint.model, run))
    notes = []
    if done := len(pairs) - len(left):
        notes.append(
            f"{done:,} of {len(pairs):,} pairs are judged in {printable(str(out))} already"
        )
    if left.empty:
        return notes
    made = judge_pairs(left, endpoint, run=run, **options)
    earlier = _read(out)  # anew: hours later, other judges may have been added
    write_judgements(out, earlier.merged(made) if earlier else made)
    judged = int(made.frame["is_duplicate"].notna().sum())
    found = int(made.frame["is_duplicate"].sum())
    counts = f"{judged:,} pairs were judged, {found:,} of them duplicates: {printable(str(out))}"
    return [*notes, *made.notes, counts]


def _read(path: str | os.PathLike[str]) -> Judgements | None:
    return read_judgements(path) if Path(path).exists() else None


def _unjudged(pairs: pd.DataFrame, earlier: Judgements, judge: str) -> pd.DataFrame:
    known = earlier.frame
    known = known[(known["judge"] == judge) & known["is_duplicate"].notna()]
    found = pd.MultiIndex.from_frame(pairs[_KEYS]).isin(pd.MultiIndex.from_frame(known[_KEYS]))
    return pairs[~found]
