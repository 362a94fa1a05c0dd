"""The budget: calls exactly, tokens with those under way counted."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from bayescontam import budget as module
from bayescontam.budget import Budget, BudgetReachedError

SIZE = 4_000
"""Characters: 1,000 tokens."""
ESTIMATE = 1_000 + module._ANSWER


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def spend(budget: Budget, tokens: int | None, calls: int = 1) -> int:
    """Make calls one after another; return how many were admitted."""
    for made in range(calls):
        try:
            async with budget.call(SIZE) as bill:
                await asyncio.sleep(0)
                if tokens is not None:
                    bill.taken = tokens
        except BudgetReachedError:
            return made
    return calls


def test_without_limits_all_is_counted() -> None:
    async def work() -> None:
        budget = Budget()
        assert await spend(budget, 500, calls=20) == 20
        assert (budget.calls, budget.tokens, budget.reached) == (20, 10_000, False)

    run(work())


@pytest.mark.parametrize("workers", [1, 3, 7])
def test_calls_are_held_exactly(workers: int) -> None:
    async def work() -> None:
        budget = Budget(max_calls=10)
        made = await asyncio.gather(*(spend(budget, 1, calls=9) for _ in range(workers)))
        assert sum(made) == budget.calls == min(10, 9 * workers)
        assert budget.reached == (workers > 1)

    run(work())


def test_calls_under_way_hold_tokens() -> None:
    async def work() -> None:
        budget = Budget(max_tokens=2 * ESTIMATE)
        async with budget.call(SIZE), budget.call(SIZE):
            third = asyncio.create_task(spend(budget, None))
            await asyncio.sleep(0.02)
            assert not third.done()  # it waits for what the two will have taken
        assert await third == 0
        assert (budget.calls, budget.tokens, budget.reached) == (2, 2 * ESTIMATE, True)

    run(work())


def test_what_a_call_did_not_take_is_free_again() -> None:
    async def work() -> None:
        budget = Budget(max_tokens=2 * ESTIMATE)
        made = await asyncio.gather(*(spend(budget, 100, calls=5) for _ in range(3)))
        # Two at first, as estimated; the third once they turn out to be small.
        assert sum(made) == 15
        assert budget.tokens == 1_500

    run(work())


def test_estimates_learn_from_what_calls_take() -> None:
    async def work() -> None:
        budget = Budget(max_tokens=6 * ESTIMATE)
        assert await spend(budget, 2 * ESTIMATE) == 1
        made = await asyncio.gather(*(spend(budget, 2 * ESTIMATE) for _ in range(5)))
        assert sum(made) == 2
        assert budget.tokens == 6 * ESTIMATE

    run(work())


def test_a_call_that_fails_gives_back_its_place() -> None:
    async def work() -> None:
        budget = Budget(max_tokens=ESTIMATE)
        try:
            async with budget.call(SIZE) as bill:
                bill.taken = 0
                raise ZeroDivisionError
        except ZeroDivisionError:
            assert budget.tokens == 0
        assert await spend(budget, None) == 1

    run(work())


def test_once_reached_is_reached() -> None:
    async def work() -> None:
        budget = Budget(max_tokens=ESTIMATE)
        with pytest.raises(BudgetReachedError):
            async with budget.call(10 * SIZE):
                pass
        assert await spend(budget, None) == 0
        assert (budget.calls, budget.tokens) == (0, 0)

    run(work())
