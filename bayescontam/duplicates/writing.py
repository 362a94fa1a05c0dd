"""Steps that a language model does: paraphrases, other solutions, and stories."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any

from bayescontam._files import sha256
from bayescontam._runs import ContentCache
from bayescontam._text import printable
from bayescontam.duplicates import programs, stories
from bayescontam.duplicates.items import DuplicateError, Version
from bayescontam.duplicates.kinds import (
    PARAPHRASE,
    SOLUTION,
    STORY,
    Code,
    Kind,
    check_paraphrase,
)
from bayescontam.endpoint import Caller, Endpoint, Failure, json_objects
from bayescontam.errors import UsageError
from bayescontam.evidence.llm import CUT, Answer, Question, cache_key, load_prompt, stored_answer
from bayescontam.specs.recipe import Writing

_FORMAT = 1
"""To be raised when a reply given before must not stand for one given now."""
_PROMPTS = Path(__file__).with_name("prompts")
_SHOWN_TESTS = 3
_NO_ANSWER = "the endpoint gave no answer"


class NoReplyError(DuplicateError):
    """The endpoint gave no answer to a call, which may succeed another time."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{_NO_ANSWER}: {failure.reason}", failure.detail)
        self.failure = failure


@dataclass(frozen=True)
class Prompt:
    """What a model is given, and what it writes back: text, as it comes."""

    content: str
    schema: dict[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def messages(self) -> list[dict[str, str]]:
        """Messages of the call."""
        return [{"role": "user", "content": self.content}]

    def read(self, text: str) -> str:
        """Return what was written; what is wrong with it is found later, and counted."""
        return text


class Writer:
    """Has a language model do steps; every reply is stored, and given again for the same prompt."""

    def __init__(
        self,
        kind: Kind,
        endpoint: Endpoint,
        *,
        seed: int,
        cache: ContentCache | None,
        judge: str = "",
    ) -> None:
        self.kind, self.seed, self.cache = kind, seed, cache
        self.settings: Writing = kind.recipe.writing
        self.endpoint = replace(
            endpoint, temperature=self.settings.temperature, max_tokens=self.settings.max_tokens
        )
        self.judge = judge or endpoint.model
        self.prompts = {step: _load(step, self.settings) for step in _STEPS}
        self.rules = load_prompt(self.settings.judge_prompt)

    async def write(
        self, caller: Caller, step: str, versions: Sequence[Version]
    ) -> tuple[list[Version | DuplicateError], list[DuplicateError]]:
        """Return what a step makes of each version, or why nothing; and why texts were refused."""
        refused: list[DuplicateError] = []
        steps = {PARAPHRASE: self._paraphrases, SOLUTION: self._solutions, STORY: self._stories}
        return await steps[step](caller, versions, refused), refused

    async def _paraphrases(
        self, caller: Caller, versions: Sequence[Version], refused: list[DuplicateError]
    ) -> list[Version | DuplicateError]:
        """Versions of one text have theirs written together, so that they differ."""
        places = defaultdict(list)
        for at, version in enumerate(versions):
            places[version.text].append(at)
        made: dict[int, Version | DuplicateError] = {}
        for text, own in places.items():
            first = versions[own[0]]
            texts, error = await self._different_texts(caller, first, len(own), refused)
            for at, new in zip(own, texts, strict=False):
                more = {**versions[at].more, "before": text}
                checks = (*first.checks, *self._judged())
                made[at] = replace(versions[at], text=new, checks=checks, more=more)
            for at in own[len(texts) :]:
                made[at] = error
        return [made[at] for at in range(len(versions))]

    async def _different_texts(
        self, caller: Caller, version: Version, count: int, refused: list[DuplicateError]
    ) -> tuple[list[str], DuplicateError]:
        """Return paraphrases that pass all checks, and why there are no more of them."""
        names, found = self.kind.names(version), list[str]()
        error = DuplicateError("no paraphrase was written")
        together = self.settings.together
        for attempt in range(self.settings.tries + -(-count // together) - 1):
            wanted = min(together, count - len(found))
            if not wanted:
                break
            content = self.prompts[PARAPHRASE].substitute(
                text=version.text, names=", ".join(names) or "nothing in particular",
                count="One version" if wanted == 1 else f"{wanted} versions",
                earlier=_listed("Versions that there are already", found),
                problem=_problem(error if attempt else None),
            )  # fmt: skip
            try:
                reply = await self._reply(caller, Prompt(content, _TEXTS), attempt)
                candidates = _read_texts(reply)
            except DuplicateError as caught:
                refused.append(error := caught)
                continue
            for candidate in candidates[:wanted]:
                text = _in_frame(candidate, version.text)
                try:
                    check_paraphrase(text, version.text, names)
                    for other in found:
                        check_paraphrase(text, other, ())
                    await self._same_meaning(caller, version.text, text)
                    found.append(text)
                except DuplicateError as caught:
                    refused.append(error := caught)
            if len(candidates) < wanted:
                error = DuplicateError("fewer texts than requested", f"{len(candidates)}")
                refused.append(error)
        return found, error

    async def _same_meaning(self, caller: Caller, before: str, text: str) -> None:
        """Have the judge of pairs compare a paraphrase with what it was made of."""
        if not self.settings.judge:
            return
        question = Question(
            self.rules, before, text, max(CUT, len(before), len(text)),
            options={"temperature": 0.0, "model": self.judge},
        )  # fmt: skip
        key = cache_key(question, self.judge, 1, 0.0, self.endpoint.extra)
        answer = stored_answer(self.cache, key) if self.cache else None
        if answer is None:
            outcome: Answer | Failure = await caller.ask(question)
            if isinstance(outcome, Failure):
                raise NoReplyError(outcome)
            answer = outcome
            if self.cache:
                self.cache.put(key, answer.model_dump_json() + "\n")
        if not answer.is_duplicate:
            raise DuplicateError("it is judged to have another meaning", answer.reasoning)

    def _judged(self) -> tuple[str, ...]:
        return (f"equal meaning by llm:{self.judge}",) if self.settings.judge else ()

    async def _solutions(
        self, caller: Caller, versions: Sequence[Version], refused: list[DuplicateError]
    ) -> list[Version | DuplicateError]:
        """One after the other, each shown the earlier ones."""
        made: list[Version | DuplicateError] = []
        earlier: list[str] = []
        for version in versions:
            new = await self._solution(caller, version, earlier, refused)
            made.append(new)
            if isinstance(new, Version):
                earlier.append(new.answer)
        return made

    async def _solution(
        self,
        caller: Caller,
        version: Version,
        earlier: Sequence[str],
        refused: list[DuplicateError],
    ) -> Version | DuplicateError:
        program = version.content
        code = [f"```python\n{each}\n```" for each in earlier]
        error: DuplicateError | None = None
        tests = re.findall(r"^\s*(assert .+)$", program.tests, re.MULTILINE)[:_SHOWN_TESTS]
        known = {
            "text": version.text, "code": program.code, "tests": "\n".join(tests),
            "function": program.function,
        }  # fmt: skip
        for attempt in range(self.settings.tries):
            content = self.prompts[SOLUTION].substitute(
                known, earlier=_listed("Solutions that there are already", code),
                problem=_problem(error),
            )  # fmt: skip
            try:
                new = _code(await self._reply(caller, Prompt(content), attempt))
                made = replace(program, code=new)
                programs.check_commented(new)
                most = self.settings.most_similar
                programs.check_different(new, [program.code, *earlier], most=most)
                await asyncio.to_thread(programs.check_tests, made)
            except DuplicateError as caught:
                refused.append(error := caught)
            else:
                checks = (*version.checks, "comments", "other than earlier ones")
                assert isinstance(self.kind, Code)
                return replace(self.kind.with_code(version, new), checks=checks)
        return error or DuplicateError("no solution was written")

    async def _stories(
        self, caller: Caller, versions: Sequence[Version], refused: list[DuplicateError]
    ) -> list[Version | DuplicateError]:
        return [await self._story(caller, version, refused) for version in versions]

    async def _story(
        self, caller: Caller, version: Version, refused: list[DuplicateError]
    ) -> Version | DuplicateError:
        story: stories.Story = version.content
        facts = "\n".join(f"{at}. {fact}" for at, fact in enumerate(story.facts, 1))
        error: DuplicateError | None = None
        for attempt in range(self.settings.tries):
            content = self.prompts[STORY].substitute(
                premise=story.premise, names=", ".join(story.names), facts=facts,
                question=story.question, problem=_problem(error),
            )  # fmt: skip
            try:
                text = (await self._reply(caller, Prompt(content), attempt)).strip()
                stories.check_duplicate(story, story, text, 0, verbatim=False)
                await self._has_facts(caller, story, text, facts)
            except DuplicateError as caught:
                refused.append(error := caught)
            else:
                checks = (*version.checks, *([f"facts by llm:{self.judge}"] * self.settings.judge))
                return replace(version, text=story.item_text(text), checks=checks)
        return error or DuplicateError("no story was written")

    async def _has_facts(self, caller: Caller, story: stories.Story, text: str, facts: str) -> None:
        """Have a model find the facts in a story that a model has written."""
        if not self.settings.judge:
            return
        content = self.prompts["facts"].substitute(text=text, facts=facts, question=story.question)
        options = {"temperature": 0.0, "model": self.judge}
        reply = await self._reply(caller, Prompt(content, _FACTS, options), 0)
        found = next(json_objects(reply), {})
        missing, gives = found.get("missing"), found.get("gives_answer")
        if not isinstance(missing, list) or not isinstance(gives, bool):
            raise DuplicateError("the check of its facts is unparsable", printable(reply, 120))
        if missing:
            raise DuplicateError("a fact is missing", f"facts {', '.join(map(str, missing))}")
        if gives:
            raise DuplicateError("it gives the answer away")

    async def _reply(self, caller: Caller, prompt: Prompt, attempt: int) -> str:
        """Return a stored reply, or ask for one and store it, whatever it is."""
        model = prompt.options.get("model", self.endpoint.model)
        parts = [_FORMAT, prompt.content, prompt.schema, dict(prompt.options), model]
        parts += [self.endpoint.options, self.seed, attempt]
        key = sha256(json.dumps(parts, sort_keys=True).encode())
        if self.cache and (stored := self.cache.get(key)) is not None:
            return str(json.loads(stored)["reply"])
        reply = await caller.ask(prompt)
        if isinstance(reply, Failure):
            raise NoReplyError(reply)
        if self.cache:
            self.cache.put(key, json.dumps({"reply": reply}) + "\n")
        return reply


_STEPS = (PARAPHRASE, SOLUTION, STORY, "facts")
"""Prompts."""
_TEXTS = {
    "name": "paraphrases",
    "schema": {
        "type": "object",
        "properties": {"paraphrases": {"type": "array", "items": {"type": "string"}}},
        "required": ["paraphrases"],
        "additionalProperties": False,
    },
}
_FACTS = {
    "name": "facts",
    "schema": {
        "type": "object",
        "properties": {
            "missing": {"type": "array", "items": {"type": "integer"}},
            "gives_answer": {"type": "boolean"},
        },
        "required": ["missing", "gives_answer"],
        "additionalProperties": False,
    },
}


def _load(step: str, settings: Writing) -> Template:
    """Return the prompt of a step: the user's file, or the package's."""
    path = Path(settings.prompts.get(step, _PROMPTS / f"{step}.md"))
    try:
        return Template(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"prompt of '{step}': cannot be read ({error})") from error


def _listed(title: str, texts: Sequence[str]) -> str:
    """Return a part of a prompt that lists what there is; nothing without any."""
    if not texts:
        return ""
    return f"# {title}; yours must differ from all of them\n\n" + "\n\n".join(texts) + "\n\n"


def _problem(error: DuplicateError | None) -> str:
    """Return a part of a prompt that says what was wrong before."""
    if error is None or isinstance(error, NoReplyError):
        return ""
    return f"# What was wrong with an earlier attempt\n\n{error}\n\n"


def _read_texts(reply: str) -> list[str]:
    """Return the texts in a reply: those of the list, or the values of an object."""
    for found in json_objects(reply):
        texts = found.get("paraphrases", [*found.values()])
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            return [text.strip() for text in texts]
    raise DuplicateError("its reply is no JSON with texts", printable(reply, 120))


def _in_frame(text: str, before: str) -> str:
    """Return a text with the white space at both ends that another has: code may go on there."""
    inner = before.strip()
    start = before.index(inner)
    return before[:start] + text + before[start + len(inner) :]


def _code(reply: str) -> str:
    """Return the code in a reply, with or without a fence."""
    fenced = re.findall(r"```(?:python|py)?\s*\n(.*?)```", reply, re.DOTALL)
    return (max(fenced, key=len) if fenced else reply).strip() + "\n"
