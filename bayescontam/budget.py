"""What calls of a model may cost, and what they have cost so far."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

_ANSWER = 300
"""Tokens set aside for an answer that has not come yet."""


class BudgetReachedError(Exception):
    """No further call fits into the budget."""


@dataclass
class Cost:
    """Tokens of one call."""

    estimate: int
    taken: int | None = None  # unless it is not known


class Purse(Protocol):
    """What calls are paid from."""

    def call(self, size: int) -> AbstractAsyncContextManager[Cost]:
        """Count a call of a size, and give its cost to correct; an error if it does not fit."""


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
    async def call(self, size: int) -> AsyncIterator[Cost]:
        """Wait until a call of `size` characters fits, count it, and give its cost to correct."""
        guess = -(-size // 4) + _ANSWER  # a token has about four characters
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
