"""Pairs judged by a language model, every answer stored at once."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from bayescontam._files import check_writable, make_folder, sha256
from bayescontam._optional import require
from bayescontam._progress import Advance, progress_bar
from bayescontam._runs import ContentCache
from bayescontam._text import join_list, printable
from bayescontam.data.judgements import PAIR, Judgements, read_judgements, write_judgements
from bayescontam.data.tables import check_table_ending
from bayescontam.errors import DataError, Fault, TaskError, UsageError
from bayescontam.evidence.llm.client import (
    CUT,
    Answer,
    Budget,
    BudgetReachedError,
    Caller,
    Endpoint,
    Failure,
    Question,
    load_prompt,
)

_FORMAT = 2
"""Version of answers: 1 where ``subset`` and ``superset`` each had the meaning of the other.
To be raised when an answer given before must not stand for one given now."""
_FOLDER = f"v{_FORMAT}"
"""Folder of answers of this version; those of version 1 stand beside it."""
_TRIALS = 3
"""Questions that are sent one at a time until the endpoint has answered one."""
_KEYS = list(PAIR)


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
                self.cache.put(key, outcome.model_dump_json() + "\n")
            advance(1)

    def _stop_unless_answered(self, caller: Caller) -> None:
        failures = [known for known in self.outcomes.values() if isinstance(known, Failure)]
        if not caller.answered and len(failures) >= _TRIALS:
            last = failures[-1]
            raise TaskError(
                f"{caller.endpoint.place}: no answer to the first {_TRIALS} pairs; the last call "
                f"ended with {last.reason}: {last.detail}"
            )


def judge_name(model: str, run: int = 1) -> str:
    """Return the name of a language model as a judge.

    >>> judge_name("small"), judge_name("small", run=2)
    ('llm:small', 'llm:small#2')
    """
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
    keys = list(PAIR)
    found = pd.MultiIndex.from_frame(pairs[keys]).isin(pd.MultiIndex.from_frame(known[keys]))
    return pairs[~found]
