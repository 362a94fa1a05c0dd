"""Judge: pairs to judgements of a language model."""

import os
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayescontam.errors import DataError, Fault, TaskError, UsageError
from bayescontam.evidence.llm.answer import Answer
from bayescontam.evidence.llm.budget import Budget
from bayescontam.evidence.llm.cache import Cache, cache_key
from bayescontam.evidence.llm.endpoint import Endpoint
from bayescontam.evidence.llm.failure import Failure
from bayescontam.evidence.llm.interview import Interview
from bayescontam.evidence.llm.prompt import CUT, Question, load_prompt
from bayescontam.judgements import PAIR, Judgements
from bayescontam.names import listed

_KEYS = list(PAIR)


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
    keys, interview = _prepared(pairs, endpoint, load_prompt(prompt), run, cache, cut)
    known = len(interview.outcomes)
    budget = Budget(max_calls, max_tokens)
    interview.hold(endpoint, budget, progress=progress)
    outcomes = [interview.outcomes.get(key) for key in keys]
    cuts = sum(interview.questions[key].is_cut for key in keys)
    notes = [
        *([interview.cache.note] if interview.cache and interview.cache.note else []),
        *([f"{known:,} answers were in the cache"] if known else []),
        *(
            [f"texts are cut at {cut:,} characters in {cuts:,} of {len(keys):,} pairs"]
            if cuts
            else []
        ),
        *_counts(outcomes, budget),
    ]
    if not any(outcomes):
        raise TaskError(f"{endpoint.place}: the budget ended before the first answer; raise it")
    table = _table(pairs[_KEYS], outcomes, judge_name(endpoint.model, run))
    made = Judgements.from_frame(table, source=endpoint.place)
    return Judgements(made.frame, made.source, (*made.notes, *notes))


def _prepared(
    pairs: pd.DataFrame,
    endpoint: Endpoint,
    prompt: str,
    run: int,
    cache: str | os.PathLike[str] | None,
    cut: int,
) -> tuple[list[str], Interview]:
    """Return the key of every pair, and the interview, in which equal texts meet once."""
    needed = [*_KEYS, "text", "chunk_text"]
    if absent := [name for name in needed if name not in pairs.columns]:
        raise DataError([Fault("pairs", f"lacks {listed(absent)}; needed are {listed(needed)}")])
    if pairs.empty:
        raise DataError([Fault("pairs", "no rows; give at least one pair")])
    texts = zip(pairs["text"], pairs["chunk_text"], strict=True)
    questions = [Question(prompt, item, chunk, cut) for item, chunk in texts]
    keys = [cache_key(q, endpoint.model, run, endpoint.temperature) for q in questions]
    store = None if cache is None else Cache.open(cache)
    return keys, Interview(dict(zip(keys, questions, strict=True)), store)


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
