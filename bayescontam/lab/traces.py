"""Solutions by a teacher, on which models are trained in place of bare answers."""

import asyncio
import glob
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from bayescontam._files import check_writable, on_disk, sha256, write_text
from bayescontam._runs import ContentCache
from bayescontam._text import join_list, printable
from bayescontam.budget import Budget
from bayescontam.duplicates.items import Parent
from bayescontam.duplicates.make import ATTEMPT, Failed, counted
from bayescontam.duplicates.writing import Prompt
from bayescontam.endpoint import CUT_OFF, REFUSED, Caller, Endpoint, Failure, call_all
from bayescontam.errors import TaskError, UsageError
from bayescontam.evidence.llm import answer_cache
from bayescontam.lab.benchmarks import Benchmark, Row, read_rows, solved_hash
from bayescontam.lab.files import PATHS, Given, Paths, recipe_path
from bayescontam.lab.grading import grade_replies
from bayescontam.lab.sources import halves
from bayescontam.scan.sources import expanded
from bayescontam.specs.lab import Answers, Files, LabSpec

PROMPT = Path(__file__).with_name("prompts") / "trace.md"
"""The prompt of the teacher, which may be replaced."""
_FORMAT = 1
"""To be raised when a reply given before must not stand for one given now."""
_PLACES, _NEEDED = {"text", "ending", "problem"}, {"text", "ending"}
_TRACE = "trace"
"""What fails where no attempt succeeds."""
_WRONG, _FAILS = "its final answer is wrong", "it does not pass the tests"
_NO_ANSWER = "it has no final answer in the requested form"
_ENDINGS = {
    "number": "End with the answer, a number in digits, after which no other number follows.",
    "regex": (
        "End with a line that the regular expression `{pattern}` matches, so that its first group"
        " is the answer alone: spelled as the task spells it, without the letter of a choice and"
        " without a full stop. Nothing before that line matches."
    ),
    "tests": (
        "End with the whole program as Python code in one fenced block, which defines the function"
        " `{function}` under exactly this name and needs only the standard library."
    ),
}


@dataclass(frozen=True, eq=False)
class Traces:
    """Traces, and what did not become one.

    Attributes
    ----------
    rows : list of dict
        ``benchmark, item, duplicate`` (empty for the item itself), ``text``, ``model``, and the
        hash ``solved_sha256`` of the question and answer, by which a lab recognises them.
    failures : pandas.DataFrame
        Columns ``what`` (``"trace"``, or ``"attempt"``: a reply that was refused, whether or not a
        later one was accepted), ``reason``, ``count``, ``first`` and ``detail``.
    notes : list of str
        Calls, tokens, and what else is worth knowing.
    left : int
        Texts that the budget did not suffice for.
    """

    rows: list[dict[str, str]]
    failures: pd.DataFrame
    notes: list[str] = field(default_factory=list)
    left: int = 0


@dataclass(frozen=True)
class _Task:
    """A text that is to be solved."""

    item: str
    duplicate: str
    text: str
    graded: Row  # as the grades of replies read items
    solved: str  # hash of question and answer

    @property
    def key(self) -> tuple[str, str]:
        """Item and duplicate, as traces are found by."""
        return self.item, self.duplicate

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.duplicate or self.item


def write_traces(
    spec: LabSpec,
    endpoint: Endpoint,
    out: str | os.PathLike[str],
    *,
    benchmark: str | os.PathLike[str] | None = None,
    duplicates: str | os.PathLike[str] | None = None,
    prompt: str | os.PathLike[str] | None = None,
    tries: int = 3,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Traces:
    """Have a teacher solve what a lab's texts hold, and write the solutions that are right.

    Solved are the exposed items, if a mix is exact, and their duplicates of the levels that mixes
    have. A solution counts if it is right as replies of the lab's models are graded; else it is
    written again, and the teacher reads what was wrong.

    Parameters
    ----------
    spec : LabSpec
        A lab of files, whose block ``answers`` states what is right: ``"number"``, ``"regex"`` or
        ``"tests"``.
    endpoint : Endpoint
        Where the teacher is, with its temperature and longest reply.
    out : path
        File for the rows, for ``files.traces`` of the spec. Replaced if it exists.
    benchmark, duplicates : path, optional
        Files in place of those that the spec names.
    prompt : path, optional
        Text file with the prompt, in which ``$text`` and ``$ending`` stand for the question and
        for how the solution is to end, and ``$problem`` for what was wrong before. Default: the
        package's ``lab/prompts/trace.md``.
    tries : int, default 3
        Calls for a solution before it counts as a failure.
    max_calls, max_tokens : int, optional
        What may be spent; default: no limit.
    cache : path, optional
        Folder that stores replies, so that the same call resumes; default: none are stored.
    progress : bool, default False
        Whether a bar is shown.

    Returns
    -------
    Traces
        Rows as in the file, and counted failures. Items without a trace stand in a lab's texts
        with their own answers.

    Raises
    ------
    UsageError
        If the spec has no files, or grades by whole replies (``"exact"``), `out` is one of its
        files or the spec itself, or a number or the prompt cannot be used.
    DataError
        If the files do not fit; see `make_mixes`.
    TaskError
        If the endpoint cannot be reached, or not one solution is right.

    References
    ----------
    Section 3.4 of "Soft Contamination Means Benchmarks Test Shallow Generalization" (2026).

    Examples
    --------
    >>> endpoint = Endpoint("http://localhost:8000/v1", "teacher", max_tokens=4096)
    >>> write_traces(spec, endpoint, "traces.jsonl", cache="replies")  # doctest: +SKIP
    """
    for name, value in (("tries", tries), ("max_calls", max_calls), ("max_tokens", max_tokens)):
        if value is not None and value < 1:
            raise UsageError(f"{name}: got {value}; allowed is 1 or more")
    if spec.files is None:
        raise UsageError(f"spec '{printable(spec.name, 60)}': has no [files], which traces are of")
    if spec.answers.grade == "exact":
        raise UsageError(
            "answers.grade: got 'exact', by which no solution is right but a bare answer; allowed"
            " are 'number', 'regex' and 'tests'"
        )
    check_writable(out)
    given = {"benchmark": benchmark, "duplicates": duplicates}
    _check_out(Path(out), spec, spec.files, given)
    template, notes = _load_prompt(prompt), list[str]()
    own, tasks = _tasks(spec, spec.files, given, notes)
    store, more = (None, []) if cache is None else answer_cache(cache)
    teacher = _Teacher(endpoint, spec.answers, template, tries, store)
    budget = Budget(max_calls, max_tokens)
    call_all(
        tasks, teacher.solve, endpoint, budget, total=len(tasks), title="solving", unit="texts",
        progress=progress,
    )  # fmt: skip
    rows = [
        {"benchmark": own.name, "item": task.item, "duplicate": task.duplicate,
         "text": teacher.solved[task.key], "model": endpoint.model, "solved_sha256": task.solved}
        for task in tasks if task.key in teacher.solved
    ]  # fmt: skip
    failures = counted(teacher.failed)
    if not rows:
        reasons = join_list(dict.fromkeys(failures["reason"])) or "the budget ended before"
        raise TaskError(f"{endpoint.place}: no solution is right: {reasons}; nothing was written")
    with on_disk(out):
        write_text(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    notes += [*more, f"{budget.calls:,} calls took {budget.tokens:,} tokens"]
    return Traces(rows, failures, notes, len(tasks) - len(rows) - teacher.lost)


def _check_out(out: Path, spec: LabSpec, files: Files, given: Given) -> None:
    """Refuse to replace the spec or a file that it names, all but that of traces."""
    base, whole = Path(spec.source).parent, out.resolve()
    read = {name: getattr(files, name) for name in PATHS if name != "traces"}
    read |= {name: getattr(files, name) for name in ("recipe", "controls_recipe")}
    places = {f"files.{name}": str(expanded(base, path)) for name, path in read.items() if path}
    places |= {f"files.{name}": os.fspath(path) for name, path in given.items() if path is not None}
    for name, place in {"the spec": spec.source, **places}.items():
        # Not pathlib's, which takes no absolute patterns.
        found = glob.glob(place, recursive=True) or [place]  # noqa: PTH207
        for path in map(Path, found):
            if whole == path.resolve() or (path.is_dir() and whole.is_relative_to(path.resolve())):
                shown = f"{name} ({printable(path)})"
                problem = f"is read as {shown}, and would be lost or read as a part of it"
                raise UsageError(f"{printable(out)}: {problem}; give the result another place")


def _tasks(
    spec: LabSpec, files: Files, given: Given, notes: list[str]
) -> tuple[Benchmark, list[_Task]]:
    """Return the benchmark, and all that stands in the texts of a lab's mixes and is solved."""
    paths = Paths.of(spec, files, given, ("benchmark", "duplicates"))
    own = Benchmark.read(paths["benchmark"], recipe_path(spec, files.recipe), files, notes)
    placed = zip(own.parents, halves(spec, len(own.parents)), strict=True)
    seen = {parent.name: parent for parent, half in placed if half == "seen"}
    tested = spec.answers.grade == "tests"
    tasks = []
    if any(mix.kind == "exact" for mix in spec.mixes):
        tasks += [_task(own, parent, None, tested) for parent in seen.values()]
    semantic = [mix for mix in spec.mixes if mix.kind == "semantic"]
    if semantic:
        wanted = {level for mix in semantic for level in mix.levels}
        every = any(not mix.levels for mix in semantic)
        for row in read_rows(paths["duplicates"], own, notes):
            if row["item"] in seen and (every or row["level"] in wanted):
                tasks.append(_task(own, seen[row["item"]], row, tested))
    if not tasks:
        raise UsageError(
            f"spec '{printable(spec.name, 60)}': no mix holds items or duplicates of them, which a"
            " teacher could solve"
        )
    return own, tasks


def _task(own: Benchmark, parent: Parent, row: Row | None, tested: bool) -> _Task:
    """Return an item, or a duplicate of it, as it is solved."""
    duplicate = "" if row is None else str(row["duplicate"])
    question, graded = own.question(parent, row), _graded(own, parent, row, tested)
    return _Task(parent.name, duplicate, question, graded, solved_hash(own, parent, row))


def _graded(own: Benchmark, parent: Parent, row: Row | None, tested: bool) -> Row:
    """Return what replies to a text are graded by."""
    if tested:
        return {**own.program(parent), "function": parent.version.content.function}
    return {"answer": own.answer(parent, row)}


class _Teacher:
    """Has a language model solve texts, until a solution is right."""

    def __init__(
        self,
        endpoint: Endpoint,
        answers: Answers,
        template: Template,
        tries: int,
        cache: ContentCache | None,
    ) -> None:
        self._endpoint, self._answers, self._template = endpoint, answers, template
        self._tries, self._cache = tries, cache
        self.solved: dict[tuple[str, str], str] = {}  # texts of traces, by item and duplicate
        self.failed: list[Failed] = []
        self.lost = 0  # texts that no attempt solved

    async def solve(self, caller: Caller, task: _Task) -> Failure | None:
        """Solve a text; return why the endpoint gave no answer if it did not."""
        problem, detail = "", ""
        for attempt in range(self._tries):
            reply = await self._reply(caller, self._prompt(task, problem), attempt)
            if isinstance(reply, Failure) and reply.reason not in (REFUSED, CUT_OFF):
                self._lose(task, reply.reason, reply.detail)
                return reply
            if isinstance(reply, Failure):
                problem, detail = f"it was {reply.reason}", reply.detail
            elif not (problem := await asyncio.to_thread(self._problem, task, reply)):
                self.solved[task.key] = reply
                return None
            else:
                detail = reply[-200:]
            self.failed.append(Failed(ATTEMPT, problem, task.name, detail))
        self._lose(task, problem, detail)
        return None

    def _lose(self, task: _Task, reason: str, detail: str) -> None:
        self.lost += 1
        self.failed.append(Failed(_TRACE, reason, task.name, detail))

    def _prompt(self, task: _Task, problem: str) -> Prompt:
        ending = _ENDINGS[self._answers.grade].format(
            pattern=self._answers.pattern, function=task.graded.get("function", "")
        )
        before = (
            f"# What was wrong with an earlier solution\n\nOf it, {problem}." if problem else ""
        )
        content = self._template.substitute(text=task.text, ending=ending, problem=before)
        return Prompt([{"role": "user", "content": content.strip()}])

    def _problem(self, task: _Task, reply: str) -> str:
        """Return what is wrong with a solution; nothing if it is right."""
        answers = self._answers
        if answers.grade == "regex" and not re.search(answers.pattern, reply):
            return _NO_ANSWER
        right, _ = grade_replies([[reply]], [task.graded], answers)
        if right[0]:
            return ""
        return _FAILS if answers.grade == "tests" else _WRONG

    async def _reply(self, caller: Caller, prompt: Prompt, attempt: int) -> str | Failure:
        """Return a stored reply, or request one and store it, also where it was refused."""
        parts = [_FORMAT, prompt.messages, self._endpoint.model, self._endpoint.options, attempt]
        key = sha256(json.dumps(parts, sort_keys=True).encode())
        stored = None if self._cache is None else self._cache.get(key)
        if stored is not None:
            known: dict[str, Any] = json.loads(stored)
            return known["reply"] if "reply" in known else Failure(**known)
        outcome = await caller.ask(prompt)
        if self._cache is not None:
            if not isinstance(outcome, Failure):
                self._cache.put(key, json.dumps({"reply": outcome}) + "\n")
            elif outcome.reason in (REFUSED, CUT_OFF):
                record = {"reason": outcome.reason, "detail": outcome.detail}
                self._cache.put(key, json.dumps(record) + "\n")
        return outcome


def _load_prompt(prompt: str | os.PathLike[str] | None) -> Template:
    """Return the prompt: the user's, or the package's."""
    path = PROMPT if prompt is None else Path(prompt)
    try:
        template = Template(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"prompt {printable(path)}: cannot be read ({error})") from error
    names = {*template.get_identifiers()} if template.is_valid() else set()
    if not _NEEDED <= names <= _PLACES:
        found = join_list(f"${name}" for name in sorted(names)) or "none that can be read"
        raise UsageError(
            f"prompt {printable(path)}: has the placeholders {found}; needed are '$text' and"
            " '$ending', allowed also '$problem'; a dollar sign is '$$'"
        )
    return template
