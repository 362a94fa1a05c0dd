"""Budget: calls and tokens that a run may spend, those under way included."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_ANSWER = 300
"""Tokens set aside for an answer that has not come yet."""


class BudgetReachedError(Exception):
    """No further call fits into the budget."""


@dataclass
class Bill:
    """Tokens of one call: as many as were set aside, unless it is known how many it took."""

    tokens: int
    told: bool = False

    def tell(self, tokens: int) -> None:
        """Correct the estimate."""
        self.tokens, self.told = tokens, True


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
    async def call(self, characters: int) -> AsyncIterator[Bill]:
        """Wait until a call of so many characters fits, count it, and give its bill to correct."""
        guess = estimated(characters) + _ANSWER
        bill = await self._admitted(guess)
        estimate = bill.tokens
        self.calls += 1
        self.tokens += estimate
        self._under_way += 1
        try:
            yield bill
        finally:
            self.tokens += bill.tokens - estimate
            self._under_way -= 1
            if bill.told and bill.tokens:
                self._guessed += guess
                self._took += bill.tokens
            self._freed.set()

    async def _admitted(self, guess: int) -> Bill:
        while (lacking := self._lacks(guess)) and self._under_way and not self.reached:
            # A call under way may turn out to take less than was set aside for it.
            self._freed.clear()
            await self._freed.wait()
        if self.reached or lacking or self.calls == self.max_calls:
            self.reached = True
            self._freed.set()
            raise BudgetReachedError
        return Bill(self._scaled(guess))

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
