"""A language model answers ARC tasks: what it is sent, attempts, and what is stored."""

import json
from pathlib import Path
from typing import Any

import pytest

import bayescontam
from bayescontam.arc.answering import PROMPT, ArcAnswers
from bayescontam.errors import TaskError, UsageError
from tests.support.arc_puzzles import input_of, puzzle, right, write_tasks, written
from tests.support.endpoints import server, short_waits
from tests.support.llm_server import Reply, Request, Server, completion, fault

pytest.importorskip("openai")
__all__ = ["server", "short_waits"]

SENT = """\
Example 1

Input:
[7 8]
[0 0]

Output:
[8 7]
[0 0]

Example 2

Input:
[7 8]
[0 0]

Output:
[8 7]
[0 0]

Test

Input:
[3 4]

Output:"""


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return write_tasks(tmp_path / "tasks")


def answered(
    tasks: Path, server: Server, temperature: float | None = 0.0, **options: Any
) -> ArcAnswers:
    endpoint = bayescontam.Endpoint(
        server.base_url, options.pop("served", "small"), temperature=temperature, retries=0,
        timeout=20.0, concurrency=2, max_tokens=options.pop("longest", None),
    )  # fmt: skip
    return bayescontam.answer_arc(tasks, endpoint, **options)


def imported(found: ArcAnswers, tasks: Path, **options: Any) -> dict[str, tuple[int, str]]:
    """Return whether each test input is solved, and its outcome, as importing scores the rows."""
    path = tasks.parent / "rows.jsonl"
    found.write(path)
    frame = bayescontam.import_arc_predictions(path, tasks=tasks, **options).frame
    cells = zip(frame["n_correct"], frame["outcome"], strict=True)
    return dict(zip(frame["item"], cells, strict=True))


def test_puzzles_are_sent_without_solutions_and_replies_are_scored(
    tasks: Path, server: Server
) -> None:
    server.behave = lambda request: (
        completion("[4 4]") if input_of(request) == [[3, 4]] else right(request)
    )
    found = answered(tasks, server)
    first = next(request for request in server.requests if input_of(request) == [[3, 4]])
    assert puzzle(first) == SENT
    system = first.body["messages"][0]
    assert system == {"role": "system", "content": PROMPT.read_text(encoding="utf-8").strip()}
    assert first.body["temperature"] == 0
    assert not any("[4 3]" in json.dumps(request.body) for request in server.requests)
    assert found.outcomes == {"right": 2, "wrong grid": 1}
    assert found.notes == [
        "2 test inputs: 1 right, 1 wrong grid",
        "1 test inputs of minimal tasks: 1 right",
        "3 calls took 30 tokens",
    ]
    assert found.rows[-1] == {"task": "turn", "test": 1, "attempt": 1, "model": "small",
                              "reply": "[4 4]"}  # fmt: skip
    assert imported(found, tasks) == {
        "oneMinimal-0": (1, "right"), "turn-0": (1, "right"), "turn-1": (0, "wrong grid"),
    }  # fmt: skip


def test_further_attempts_follow_a_wrong_one_in_the_same_conversation(
    tasks: Path, server: Server
) -> None:
    def behave(request: Request) -> Reply:
        before = request.body["messages"][2:]
        if input_of(request) == [[1, 2]]:
            return completion("<think>hm</think>I see no rule." if not before else "[9 9]")
        if input_of(request) == [[3, 4]] and len(before) < 4:
            return completion(f"<think>[0]\n[0]</think>[{len(before)} 4]")
        return right(request)

    server.behave = behave
    found = answered(tasks, server, attempts=3)
    keys = [(row["task"], row["test"], row["attempt"]) for row in found.rows]
    assert keys == [
        ("oneMinimal", 0, 1), ("turn", 0, 1), ("turn", 0, 2), ("turn", 0, 3),
        ("turn", 1, 1), ("turn", 1, 2), ("turn", 1, 3),
    ]  # fmt: skip
    last = {json.dumps(input_of(each)): each.body["messages"][2:] for each in server.requests}
    assert [each["content"] for each in last["[[3, 4]]"]] == [
        "[0 4]", "That is not the output grid. Give the output grid of the test once more, in the"
        " same form.", "[2 4]", "That is not the output grid. Give the output grid of the test"
        " once more, in the same form.",
    ]  # fmt: skip
    assert [each["content"].split(".")[0] for each in last["[[1, 2]]"]] == [
        "I see no rule", "No grid can be read in that reply", "[9 9]",
        "That is not the output grid",
    ]  # fmt: skip
    for guesses, solved in ((1, 0), (2, 0), (3, 1)):
        assert imported(found, tasks, guesses=guesses)["turn-1"][0] == solved
    assert found.outcomes == {"right": 2, "unreadable": 1}


def test_independent_attempts_are_the_same_request(tasks: Path, server: Server) -> None:
    def behave(request: Request) -> Reply:
        first = [input_of(each) for each in server.requests].count(input_of(request)) == 1
        return completion("[1 1]") if first else right(request)

    server.behave = behave
    cache = tasks.parent / "cache"
    options: dict[str, Any] = {"attempts": 2, "feedback": False, "temperature": 0.7, "cache": cache}
    found = answered(tasks, server, **options)
    assert all(len(request.body["messages"]) == 2 for request in server.requests)
    assert found.outcomes == {"right": 3}
    assert len(found.rows) == len(server.requests) == 6
    assert answered(tasks, server, **options).rows == found.rows
    assert len(server.requests) == 6


def test_a_second_attempt_must_be_possible(tasks: Path, server: Server, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="would all be the same reply"):
        answered(tasks, server, attempts=2, feedback=False)
    bare = write_tasks(tmp_path / "bare", solutions=False)
    with pytest.raises(UsageError, match="'oneMinimal', 'turn' have no solutions"):
        answered(bare, server, attempts=2)
    assert not server.requests
    server.behave = right
    found = answered(bare, server, attempts=2, feedback=False, temperature=None)
    assert "temperature" not in server.requests[0].body
    assert found.outcomes == {"readable": 3}
    assert len(found.rows) == 6


def test_replies_are_stored_by_all_that_they_depend_on(tasks: Path, server: Server) -> None:
    server.behave = right
    own = tasks.parent / "mine.md"
    own.write_text("Think first.\n", encoding="utf-8")
    cache = tasks.parent / "cache"
    first = answered(tasks, server, cache=cache)
    # The longest reply is none of it: what is stored is whole.
    again = answered(tasks, server, cache=cache, longest=99, attempts=3, name="other")
    assert len(server.requests) == 3
    assert [row["reply"] for row in again.rows] == [row["reply"] for row in first.rows]
    assert {row["model"] for row in again.rows} == {"other"}
    for at, options in enumerate(
        [{"temperature": 0.5}, {"temperature": None}, {"served": "large"}, {"prompt": own}], 2
    ):
        answered(tasks, server, cache=cache, **options)
        assert len(server.requests) == 3 * at
    assert server.requests[-1].body["messages"][0]["content"] == "Think first."
    # A task of the same name whose grids differ is another one.
    changed = tasks / "Order" / "turn.json"
    changed.write_text(changed.read_text().replace("7", "9"), encoding="utf-8")
    answered(tasks, server, cache=cache)
    assert len(server.requests) == 17


def test_a_stored_file_that_is_broken_counts_as_none(tasks: Path, server: Server) -> None:
    server.behave = right
    cache = tasks.parent / "cache"
    found = answered(tasks, server, cache=cache)
    for path, text in zip((cache / "arc").rglob("*.reply"), ("{", "[1]", ""), strict=True):
        path.write_text(text)
    assert answered(tasks, server, cache=cache).rows == found.rows
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (completion("[4 3]", finish_reason="length"), "cut off"),
        (completion(None, refusal="no"), "refused"),
        (fault(500), "status 500"),
    ],
)
def test_a_call_without_a_whole_reply_leaves_no_row(
    tasks: Path, server: Server, bad: Reply, reason: str
) -> None:
    """Nor does a first attempt whose second one failed: it would count as the only one."""

    def behave(request: Request) -> Reply:
        if input_of(request) != [[3, 4]]:
            return right(request)
        return bad if len(request.body["messages"]) > 2 else completion("[0 0]")

    server.behave = behave
    cache = tasks.parent / "cache"
    found = answered(tasks, server, attempts=2, cache=cache)
    assert [(row["task"], row["test"]) for row in found.rows] == [("oneMinimal", 0), ("turn", 0)]
    assert found.failures == {reason: 1}
    assert f"1 of 3 test inputs have no answer, and no row: 1 {reason}" in " ".join(found.notes)
    assert ("replies were cut off" in " ".join(found.notes)) is (reason == "cut off")
    with pytest.raises(bayescontam.DataError, match="no prediction for 1 test inputs"):
        imported(found, tasks)
    server.requests.clear()
    server.behave = right
    found = answered(tasks, server, attempts=2, cache=cache)
    assert [input_of(request) for request in server.requests] == [[[3, 4]]]
    assert found.rows[-2]["reply"] == "[0 0]"
    assert imported(found, tasks)["turn-1"][0] == 1


def test_the_budget_ends_a_run_and_the_same_call_resumes(tasks: Path, server: Server) -> None:
    server.behave = right
    cache = tasks.parent / "cache"
    found = answered(tasks, server, cache=cache, max_calls=2)
    assert (len(found.rows), found.left) == (2, 1)
    assert "1 test inputs are left: run the same again to resume" in found.notes[-1]
    found = answered(tasks, server, cache=cache, max_calls=2)
    assert (len(found.rows), found.left, len(server.requests)) == (3, 0, 3)
    with pytest.raises(TaskError, match="no test input was answered: the budget ended before"):
        answered(tasks, server, max_tokens=10)
    server.behave = lambda _: completion("[4", finish_reason="length")
    with pytest.raises(TaskError, match=r"cut off.*; replies were cut off: raise --max-output-t"):
        answered(tasks, server)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"attempts": 0}, "attempts 0: allowed is a whole number, 1 or more"),
        ({"max_calls": 0}, "max_calls 0"),
        ({"name": " "}, "name: is blank"),
        ({"prompt": "none.md"}, "prompt none.md: cannot be read"),
    ],
)
def test_wrong_arguments_cost_no_call(
    tasks: Path, server: Server, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(UsageError, match=match):
        answered(tasks, server, **options)
    assert not server.requests


def test_a_blank_prompt_is_refused(tasks: Path, server: Server) -> None:
    blank = tasks.parent / "blank.md"
    blank.write_text(" \n", encoding="utf-8")
    with pytest.raises(UsageError, match="is blank; write what to do"):
        answered(tasks, server, prompt=blank)


def test_rows_survive_any_reply(tasks: Path, server: Server) -> None:
    text = "half \ud83d, line \u2028 end\n" + written([[2, 1]])
    server.behave = lambda _: completion(text)
    found = answered(tasks, server)
    assert imported(found, tasks)["turn-0"] == (1, "right")
    assert "\u2028" in found.rows[0]["reply"]
