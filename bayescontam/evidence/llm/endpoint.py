"""Endpoint: a language model behind an OpenAI-compatible interface, asked patiently."""

import asyncio
import random
from dataclasses import dataclass, field, replace
from typing import Any

from bayescontam.errors import TaskError, UsageError
from bayescontam.evidence.llm.answer import Answer
from bayescontam.evidence.llm.budget import Bill, Budget
from bayescontam.evidence.llm.failure import CONNECTION, Failure, failure_of, stop_if_for_all
from bayescontam.evidence.llm.prompt import Question
from bayescontam.evidence.llm.reply import judged, reported_tokens
from bayescontam.names import visible
from bayescontam.optional import require

_FIRST_WAIT, _MOST_WAIT = 0.5, 60.0
_NOT_UNDERSTOOD = {400, 422}


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
                f"base URL '{visible(self.base_url)}': begins with neither http:// nor https://"
            )
        if not self.model.strip() or "#" in self.model:
            raise UsageError(f"model '{visible(self.model)}': give a name without '#'")
        for name, least in (("timeout", 1e-3), ("retries", 0), ("concurrency", 1)):
            if not getattr(self, name) >= least:
                raise UsageError(f"{name} {getattr(self, name)}: allowed is {least:g} or more")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise UsageError(f"temperature {self.temperature:g}: allowed is 0 to 2, or none")

    @property
    def place(self) -> str:
        """Model and address, as messages name them."""
        return f"model '{visible(self.model, 80)}' at {visible(self.base_url)}"


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
        async with self._budget.call(characters) as bill:
            try:
                async with asyncio.timeout(self.endpoint.timeout):
                    reply = await self._client.chat.completions.create(
                        model=self.endpoint.model, messages=messages, **options
                    )
            # What the client raises depends on what the endpoint sends; Ctrl-C passes.
            except Exception as error:
                return self._failed(error, bill)
            outcome = judged(reply)
            if (tokens := reported_tokens(reply)) is not None:
                bill.tell(tokens)
        if not (isinstance(outcome, Failure) and outcome.again):
            self.answered = True
        return outcome

    def _failed(self, error: Exception, bill: Bill) -> Failure:
        failure = failure_of(error)
        if self.endpoint.api_key:
            failure = replace(failure, detail=failure.detail.replace(self.endpoint.api_key, "…"))
        if failure.status:
            bill.tell(0)  # an endpoint that refuses a call does not charge for it
        stop_if_for_all(failure, error, self.endpoint.place, self.answered)
        return failure


def response_formats() -> list[dict[str, Any]]:
    """Return how an answer may be requested: by schema, as JSON, as text with JSON in it."""
    schema = {"name": "judgement", "strict": True, "schema": Answer.model_json_schema()}
    return [
        {"response_format": {"type": "json_schema", "json_schema": schema}},
        {"response_format": {"type": "json_object"}},
        {},
    ]
