"""Interview: questions put to an endpoint, many at a time, until they or the budget end."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from bayescontam.errors import TaskError
from bayescontam.evidence.llm.answer import Answer
from bayescontam.evidence.llm.budget import Budget, BudgetReachedError
from bayescontam.evidence.llm.cache import Cache
from bayescontam.evidence.llm.endpoint import Caller, Endpoint
from bayescontam.evidence.llm.failure import Failure
from bayescontam.evidence.llm.prompt import Question
from bayescontam.optional import require
from bayescontam.progress import Advance, progress_bar

_TRIALS = 3
"""Questions that are asked one at a time until the endpoint has answered one."""


@dataclass
class Interview:
    """Questions and what came of them so far."""

    questions: dict[str, Question]
    cache: Cache | None
    # by the same keys; at first the answers that the cache holds
    outcomes: dict[str, Answer | Failure] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.cache:
            found = {key: self.cache.get(key) for key in self.questions}
            self.outcomes |= {key: answer for key, answer in found.items() if answer}

    def hold(self, endpoint: Endpoint, budget: Budget, *, progress: bool = False) -> None:
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
            self._stop_unless_answered(caller)
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
                self.cache.put(key, outcome)
            advance(1)

    def _stop_unless_answered(self, caller: Caller) -> None:
        failures = [known for known in self.outcomes.values() if isinstance(known, Failure)]
        if not caller.answered and len(failures) >= _TRIALS:
            last = failures[-1]
            raise TaskError(
                f"{caller.endpoint.place}: no answer to the first {_TRIALS} pairs; the last call "
                f"ended with {last.reason}: {last.detail}"
            )
