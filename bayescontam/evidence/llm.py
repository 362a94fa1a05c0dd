"""Pairs judged by a language model: prompt, answer, and every answer stored."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import Template
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from bayescontam._files import check_writable, make_folder, sha256
from bayescontam._runs import ContentCache
from bayescontam._text import join_list, printable
from bayescontam.budget import Budget
from bayescontam.data.judgements import (
    KINDS,
    MODEL,
    PAIR,
    Judgements,
    read_judgements,
    write_judgements,
)
from bayescontam.data.tables import check_table_ending
from bayescontam.endpoint import (
    CUT_OFF,
    Caller,
    Endpoint,
    Failure,
    call_all,
)
from bayescontam.errors import DataError, Fault, TaskError, UsageError
from bayescontam.replies import json_objects, unfinished_thought, without_thoughts

CUT = 20_000
"""Characters of an item or a chunk that a model is shown, unless requested otherwise."""
type Kind = Literal["exact", "equivalent", "subset", "superset", "related", "unrelated"]
_ALWAYS = {"exact": True, "equivalent": True, "unrelated": False}
_SHOWN = 200
_FORMAT = 2
"""Version of answers: 1 where ``subset`` and ``superset`` each had the meaning of the other.
To be raised when an answer given before must not stand for one given now."""
_FOLDER = f"v{_FORMAT}"
"""Folder of answers of this version; those of version 1 stand beside it."""
_HERE = Path(__file__).parent
_KEYS = list(PAIR)


@dataclass(frozen=True)
class Question:
    """A pair as a language model judges it."""

    prompt: str  # what a duplicate is
    # item, chunk: texts to compare
    item: str
    chunk: str
    cut: int = CUT  # longer texts are cut after this many characters, with a note
    options: Mapping[str, Any] = field(default_factory=dict)  # in place of the endpoint's

    @property
    def is_cut(self) -> bool:
        """Whether a model sees less than the whole of both texts."""
        return max(len(self.item), len(self.chunk)) > self.cut

    @cached_property
    def messages(self) -> list[dict[str, str]]:
        """Messages of the call: the instruction, then the pair."""
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

    @property
    def schema(self) -> dict[str, Any]:
        """Name and JSON schema of the answer."""
        return {"name": "judgement", "schema": Answer.model_json_schema()}

    @property
    def whole(self) -> bool:
        """An answer that is there counts, whatever was to follow."""
        return False

    def read(self, text: str, *, cut_off: bool = False) -> "Answer":
        """Return the answer in what a model wrote."""
        return read_answer(text, cut_off=cut_off)


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


def read_answer(text: str, *, cut_off: bool = False) -> Answer:
    """Find the answer in what a model wrote, its thoughts and drafts apart."""
    text = without_thoughts(text).strip()
    # From the first object on, a mark may be quoted.
    if mark := unfinished_thought(text.partition("{")[0]):
        raise ValueError(f"ends within {mark}")
    found: list[Answer] = []
    problem = f"no JSON object in '{text[:_SHOWN]}'"
    for data in json_objects(text, cut_off=cut_off):
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


def cache_key(
    question: Question,
    model: str,
    run: int,
    temperature: float | None,
    extra: Mapping[str, Any] | None = None,
) -> str:
    """Return the key of an answer: a hash of all that it depends on but the endpoint.

    `extra` are the further fields of the call.
    """
    parts: list[Any] = [_FORMAT, question.messages, model, run, temperature]
    parts += [dict(extra)] if extra else []
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
        if missing:
            call_all(
                missing, self._ask, endpoint, budget, total=len(missing), title="judge",
                unit="pairs", progress=progress,
            )  # fmt: skip

    async def _ask(self, caller: Caller, key: str) -> Failure | None:
        outcome = self.outcomes[key] = await caller.ask(self.questions[key])
        if isinstance(outcome, Failure):
            return outcome
        if self.cache:
            self.cache.put(key, outcome.model_dump_json() + "\n")
        return None


def judge_name(model: str, run: int = 1, name: str | None = None) -> str:
    """Return the name of a run of a language model as a judge: the model's, or another."""
    own = (model if name is None else name).removeprefix(MODEL).strip()
    if not own or "#" in own:
        raise UsageError(f"judge '{printable(own)}': give a name without '#'")
    return f"{MODEL}{own}" + (f"#{run}" if run > 1 else "")


def judge_pairs(
    pairs: pd.DataFrame,
    endpoint: Endpoint,
    *,
    prompt: str | os.PathLike[str] = "general",
    run: int = 1,
    judge: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    cut: int = CUT,
    progress: bool = False,
) -> Judgements:
    """Have a language model judge whether pairs are duplicates; `judge` is its name in the file."""
    limits = {"run": run, "max_calls": max_calls, "max_tokens": max_tokens, "cut": cut}
    for name, value in limits.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} {value}: allowed is 1 or more")
    name = judge_name(endpoint.model, run, judge)
    questions = _questions(pairs, load_prompt(prompt), cut)
    longest = {} if endpoint.max_tokens is None else {"max_tokens": endpoint.max_tokens}
    fields = longest | dict(endpoint.extra)
    keys = [
        cache_key(each, endpoint.model, run, endpoint.temperature, fields) for each in questions
    ]
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
    table = _table(pairs[_KEYS], outcomes, name)
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
    if CUT_OFF in reasons:
        yield "answers were cut off: raise --max-output-tokens, or request less --effort"
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


class Added(NamedTuple):
    """What there is to know of an addition to a file of judgements."""

    earlier: list[str]  # notes on pairs that were not judged, as the file has verdicts on them
    notes: list[str]


def add_judgements(
    out: str | os.PathLike[str],
    pairs: pd.DataFrame,
    endpoint: Endpoint,
    *,
    run: int = 1,
    judge: str | None = None,
    **options: Any,
) -> Added:
    """Judge the pairs of which a file has no verdict of this judge, and add them to it."""
    check_table_ending(out, "judgements")
    check_writable(out)
    earlier, name = _read(out), judge_name(endpoint.model, run, judge)
    left = pairs if earlier is None else _unjudged(pairs, earlier, name)
    notes = []
    if done := len(pairs) - len(left):
        notes.append(
            f"{done:,} of {len(pairs):,} pairs are judged in {printable(str(out))} already by"
            f" '{printable(name)}', whatever its prompt and temperature were; to judge them by"
            " others, name another judge: --judge"
        )
    if left.empty:
        return Added(notes, [])
    made = judge_pairs(left, endpoint, run=run, judge=judge, **options)
    earlier = _read(out)  # anew: hours later, other judges may have been added
    write_judgements(out, earlier.merged(made) if earlier else made)
    judged = int(made.frame["is_duplicate"].notna().sum())
    found = int(made.frame["is_duplicate"].sum())
    counts = f"{judged:,} pairs were judged, {found:,} of them duplicates: {printable(str(out))}"
    return Added(notes, [*made.notes, counts])


def _read(path: str | os.PathLike[str]) -> Judgements | None:
    return read_judgements(path) if Path(path).exists() else None


def _unjudged(pairs: pd.DataFrame, earlier: Judgements, judge: str) -> pd.DataFrame:
    known = earlier.frame
    known = known[(known["judge"] == judge) & known["is_duplicate"].notna()]
    found = pd.MultiIndex.from_frame(pairs[_KEYS]).isin(pd.MultiIndex.from_frame(known[_KEYS]))
    return pairs[~found]
