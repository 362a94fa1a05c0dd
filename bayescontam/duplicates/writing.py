"""Steps that a language model does: paraphrases, other solutions, and stories."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

from bayescontam._files import sha256
from bayescontam._runs import ContentCache
from bayescontam._text import join_list, printable
from bayescontam.duplicates import programs, stories
from bayescontam.duplicates.items import DuplicateError, Version
from bayescontam.duplicates.kinds import (
    PARAPHRASE,
    SOLUTION,
    STORY,
    Kind,
)
from bayescontam.endpoint import (
    CUT_OFF,
    REFUSED,
    Caller,
    Endpoint,
    Failure,
    TextCall,
)
from bayescontam.errors import UsageError
from bayescontam.evidence.llm import CUT, Question, load_prompt, read_answer
from bayescontam.replies import json_objects, unfinished_thought, without_thoughts
from bayescontam.specs.recipe import Writing

_FORMAT = 1
"""To be raised when a reply given before must not stand for one given now."""
_PROMPTS = Path(__file__).with_name("prompts")
_SHOWN_TESTS = 3
NO_ANSWER = "the endpoint gave no answer"


class NoReplyError(DuplicateError):
    """The endpoint gave no answer to a call, which may succeed another time."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{NO_ANSWER}: {failure.reason}", failure.detail)
        self.failure = failure


class Prompt(TextCall):
    """What a model is given, and what it writes back: text, without its thoughts."""

    def read(self, text: str, *, cut_off: bool = False) -> str:
        """Return what was written; what else is wrong with it is found later, and counted."""
        text = without_thoughts(super().read(text, cut_off=cut_off)).strip()
        # Thoughts that do not end are no answer; elsewhere a mark may be part of one.
        mark = unfinished_thought(text)
        return "" if mark and text.startswith(mark) else text


def _by_user(content: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content}]


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
        self.prompts = load_prompts(self.settings)
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
                prompt = Prompt(_by_user(content), _TEXTS)
                candidates = _read_texts(await self._reply(caller, prompt, attempt))
            except DuplicateError as caught:
                refused.append(error := caught)
                continue
            for candidate in candidates[:wanted]:
                text = _in_frame(candidate, version.text)
                try:
                    self.kind.check_words(text, version.text, names)
                    for other in found:
                        self.kind.check_other_words(text, other)
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
        question = Question(self.rules, before, text, max(CUT, len(before), len(text)))
        options = {"temperature": 0.0, "model": self.judge}
        prompt = Prompt(question.messages, question.schema, options, whole=False)
        for attempt in range(self.settings.tries):
            try:
                answer = read_answer(await self._reply(caller, prompt, attempt))
            except ValueError as error:
                if isinstance(error, DuplicateError):
                    raise
                problem = str(error)
                continue
            if not answer.is_duplicate:
                raise DuplicateError("it is judged to have another meaning", answer.reasoning)
            return
        raise DuplicateError("the judge's answer is unparsable", printable(problem, 120))

    def _judged(self) -> tuple[str, ...]:
        return (f"equal meaning by llm:{self.judge}",) if self.settings.judge else ()

    async def _solutions(
        self, caller: Caller, versions: Sequence[Version], refused: list[DuplicateError]
    ) -> list[Version | DuplicateError]:
        """One after the other, each shown the earlier ones."""
        made: list[Version | DuplicateError] = []
        earlier: list[str] = []
        for copy, version in enumerate(versions):
            new = await self._solution(caller, version, copy, earlier, refused)
            made.append(new)
            if isinstance(new, Version):
                earlier.append(new.answer)
        return made

    async def _solution(
        self,
        caller: Caller,
        version: Version,
        copy: int,
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
                reply = await self._reply(caller, Prompt(_by_user(content)), attempt, copy)
                new = programs.code_in_reply(reply, program.function).strip() + "\n"
                made = replace(program, code=new)
                programs.check_commented(new)
                most = self.settings.most_similar
                programs.check_different(new, [program.code, *earlier], most=most)
                await asyncio.to_thread(programs.check_tests, made)
            except DuplicateError as caught:
                refused.append(error := caught)
            else:
                checks = (*version.checks, "comments", "other than earlier ones")
                return replace(self.kind.made(version, made), checks=checks)
        return error or DuplicateError("no solution was written")

    async def _stories(
        self, caller: Caller, versions: Sequence[Version], refused: list[DuplicateError]
    ) -> list[Version | DuplicateError]:
        made: list[Version | DuplicateError] = []
        for copy, version in enumerate(versions):
            made.append(await self._story(caller, version, copy, refused))
        return made

    async def _story(
        self, caller: Caller, version: Version, copy: int, refused: list[DuplicateError]
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
                text = await self._reply(caller, Prompt(_by_user(content)), attempt, copy)
                stories.check_written(story, text)
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
        prompt = Prompt(_by_user(content), _FACTS, options)
        for attempt in range(self.settings.tries):
            reply = await self._reply(caller, prompt, attempt)
            found = _last_object(reply, {"missing", "gives_answer"})
            missing, gives = found.get("missing"), found.get("gives_answer")
            if isinstance(missing, list) and isinstance(gives, bool):
                break
        else:
            raise DuplicateError("the check of its facts is unparsable", printable(reply, 120))
        if missing:
            raise DuplicateError("a fact is missing", f"facts {', '.join(map(str, missing))}")
        if gives:
            raise DuplicateError("it gives the answer away")

    async def _reply(
        self, caller: Caller, prompt: Prompt, attempt: int, copy: int | None = None
    ) -> str:
        """Return a stored reply, or ask for one and store it, whatever it is."""
        parts = [_FORMAT, prompt.messages, prompt.schema, dict(prompt.options), prompt.whole]
        parts += [self.endpoint.model, self.endpoint.options, self.seed, attempt, copy]
        key = sha256(json.dumps(parts, sort_keys=True).encode())
        stored = None if self.cache is None else self.cache.get(key)
        known = {} if stored is None else json.loads(stored)
        if not known:
            outcome = await caller.ask(prompt)
            if isinstance(outcome, Failure):
                if outcome.reason not in (REFUSED, CUT_OFF):
                    raise NoReplyError(outcome)
                known = {"failure": outcome.reason, "detail": outcome.detail}
            else:
                known = {"reply": outcome}
            if self.cache:
                self.cache.put(key, json.dumps(known) + "\n")
        if "failure" in known:
            raise DuplicateError(f"the model's reply was {known['failure']}", known["detail"])
        return str(known["reply"])


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


_PLACES = {
    PARAPHRASE: {"text", "names", "count", "earlier", "problem"},
    SOLUTION: {"text", "code", "tests", "function", "earlier", "problem"},
    STORY: {"premise", "names", "facts", "question", "problem"},
    "facts": {"text", "facts", "question"},
}
"""Placeholders of prompts."""
_NEEDED = {PARAPHRASE: {"text", "names"}, SOLUTION: {"text", "function"}, STORY: {"facts"},
           "facts": {"text", "facts"}}  # fmt: skip
"""Those without which a prompt cannot work."""


def load_prompts(settings: Writing) -> dict[str, Template]:
    """Return the prompts of all steps: the user's files, or the package's."""
    if odd := [step for step in settings.prompts if step not in _STEPS]:
        raise UsageError(f"writing.prompts: got {join_list(odd)}; allowed are {join_list(_STEPS)}")
    return {step: _load(step, settings) for step in _STEPS}


def _load(step: str, settings: Writing) -> Template:
    path = Path(settings.prompts.get(step, _PROMPTS / f"{step}.md"))
    try:
        prompt = Template(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"prompt of '{step}': cannot be read ({error})") from error
    names = {*prompt.get_identifiers()} if prompt.is_valid() else set()
    if not _NEEDED[step] <= names <= _PLACES[step]:
        raise UsageError(
            f"prompt of '{step}', {printable(str(path))}: has the placeholders"
            f" {join_list(f'${name}' for name in sorted(names)) or 'none that can be read'};"
            f" needed are {join_list(f'${name}' for name in sorted(_NEEDED[step]))}, allowed"
            f" {join_list(f'${name}' for name in sorted(_PLACES[step]))}; a dollar sign is '$$'"
        )
    return prompt


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
    """Return the texts in a reply: those of the last list of them, or an object's values."""
    found = [*map(_texts_in, _values(reply))]
    if texts := next((texts for texts in reversed(found) if texts is not None), None):
        return [text.strip() for text in texts]
    if any(texts == [] for texts in found):
        return []
    raise DuplicateError("its reply is no JSON with texts", printable(reply, 120))


def _last_object(reply: str, fields: set[str]) -> dict[str, Any]:
    """Return the last object in a reply that has some fields, an empty one if there is none."""
    try:
        known = [each for each in json_objects(reply) if fields <= {*each}]
    except ValueError:
        return {}
    return known[-1] if known else {}


def _values(reply: str) -> Iterator[Any]:
    """Yield the outermost lists and objects of JSON in a reply."""
    decoder, at = json.JSONDecoder(strict=False), 0  # line breaks in texts are forgiven
    while (hit := re.compile(r"[\[{]").search(reply, at)) is not None:
        try:
            value, at = decoder.raw_decode(reply, hit.start())
            yield value
        except (ValueError, RecursionError):
            at = hit.end()


def _texts_in(value: Any) -> list[str] | None:
    """Return the texts of a list, of an object's list, or of an object's fields; else None."""
    if isinstance(value, list):
        return _all_texts(
            [next(iter(each.values()), None) if isinstance(each, dict) else each for each in value]
        )
    if not isinstance(value, dict):
        return None
    inner = [_texts_in(each) for each in value.values() if isinstance(each, list | dict)]
    lists: list[list[str]] = [texts for texts in inner if texts is not None]
    if lists:
        return max(lists, key=len)
    numbered = all(re.search(r"\d", name) for name in value)
    return _all_texts([*value.values()]) if numbered and value else None


def _all_texts(values: list[Any]) -> list[str] | None:
    """Return values that are texts, all of them; else None."""
    return values if all(isinstance(each, str) for each in values) else None


def _in_frame(text: str, before: str) -> str:
    """Return a text with the white space at both ends that another has: code may go on there."""
    inner = before.strip()
    start = before.index(inner)
    return before[:start] + text + before[start + len(inner) :]
