"""Pairs to judgements: the table, the cache, the budget, and what is never clean."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.endpoint import Endpoint
from bayescontam.errors import DataError, TaskError, UsageError
from bayescontam.evidence.llm import judge_pairs
from tests.evidence.llm.conftest import made_pairs
from tests.support.llm_server import Reply, Request, Server, completion, fault, verdict

Make = Callable[..., Endpoint]
ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
from bayescontam.endpoint import Endpoint
from bayescontam.evidence.llm import judge_pairs
from tests.evidence.llm.conftest import made_pairs

made = judge_pairs(
    made_pairs(40), Endpoint(sys.argv[1], "small", concurrency=4), cache=sys.argv[2]
)
print(made.frame["is_duplicate"].sum())
"""


def by_item(request: Request) -> Reply:
    """Judge even items duplicates; say which in the reasoning."""
    number = int(request.texts[0].split()[-1])
    kind = "exact" if number % 2 == 0 else "unrelated"
    return verdict(
        reasoning=f"pair {number}",
        kind=kind,
        is_duplicate=number % 2 == 0,
        confidence=number / 100,
    )


def test_every_pair_gets_its_own_verdict(server: Server, endpoint: Make) -> None:
    server.behave = by_item
    pairs = made_pairs(30).sample(frac=1, random_state=1)
    judged = judge_pairs(pairs, endpoint())
    numbers = pairs["chunk"].to_numpy()
    expected = pd.DataFrame(
        {
            **{name: pairs[name].to_numpy() for name in ("benchmark", "item", "source")},
            "document": pairs["document"].to_numpy(),
            "chunk": numbers,
            "judge": "llm:small",
            "is_duplicate": (numbers % 2 == 0).astype(int),
            "kind": np.where(numbers % 2 == 0, "exact", "unrelated"),
            "confidence": numbers / 100,
            "comment": [f"pair {number}" for number in numbers],
        }
    )
    pd.testing.assert_frame_equal(judged.frame, expected, check_dtype=False)
    assert judged.frame["is_duplicate"].dtype == "Int8"
    assert judged.notes == ("30 calls took 300 tokens",)


def test_cosine_and_names_are_not_reported(server: Server, endpoint: Make) -> None:
    pairs = made_pairs(1).assign(cosine=0.123456, document="secretdoc", item="secretitem")
    judge_pairs(pairs, endpoint())
    sent = json.dumps(server.requests[0].body)
    assert "0.123" not in sent
    assert "secret" not in sent


def test_equal_texts_are_asked_about_once(server: Server, endpoint: Make) -> None:
    pairs = made_pairs(10).assign(chunk_text="same")
    pairs["text"] = ["a", "b"] * 5
    judged = judge_pairs(pairs, endpoint())
    assert len(server.requests) == 2
    assert judged.frame["is_duplicate"].tolist() == [1] * 10


def test_tokens_are_estimated_where_none_are_reported(server: Server, endpoint: Make) -> None:
    server.script(completion(verdict_text(), tokens=None))
    judged = judge_pairs(made_pairs(1), endpoint())
    reported = sum(len(message["content"]) for message in server.requests[0].body["messages"])
    (note,) = judged.notes
    tokens = int(note.split()[3].replace(",", ""))
    assert tokens >= reported / 4
    assert tokens == pytest.approx((reported + len(verdict_text())) / 4, abs=400)


def verdict_text() -> str:
    content: str = json.loads(verdict().body)["choices"][0]["message"]["content"]
    return content


def test_a_second_run_is_another_judge_and_asks_anew(
    server: Server, endpoint: Make, tmp_path: Path
) -> None:
    for run, judge in ((1, "llm:small"), (2, "llm:small#2"), (2, "llm:small#2")):
        judged = judge_pairs(made_pairs(5), endpoint(), run=run, cache=tmp_path)
        assert set(judged.frame["judge"]) == {judge}
    assert len(server.requests) == 10


def test_answers_in_the_cache_are_not_requested_again(
    server: Server, endpoint: Make, tmp_path: Path
) -> None:
    server.behave = by_item
    first = judge_pairs(made_pairs(12), endpoint(), cache=tmp_path)
    server.script(fault(500))
    again = judge_pairs(made_pairs(12), endpoint(), cache=tmp_path)
    pd.testing.assert_frame_equal(again.frame, first.frame)
    assert again.notes == ("12 answers were in the cache", "0 calls took 0 tokens")
    assert len(server.requests) == 12


def test_failures_are_not_cached(server: Server, endpoint: Make, tmp_path: Path) -> None:
    bad = [fault(500), completion("?"), completion(None, refusal="no"), verdict(kind="unrelated")]
    failing = {f"item text {i + 1}": reply for i, reply in enumerate(bad)}
    server.behave = lambda request: failing.get(request.texts[0], verdict())
    first = judge_pairs(made_pairs(6), endpoint(), cache=tmp_path)
    assert first.frame["is_duplicate"].isna().tolist() == [False, *[True] * 4, False]
    counts = "4 of 6 pairs are unjudged: 2 unparsable, 1 status 500, 1 refused"
    assert set(first.notes[-1].split(": ")[1].split(", ")) == set(counts.split(": ")[1].split(", "))
    server.requests.clear()
    server.script(verdict())
    again = judge_pairs(made_pairs(6), endpoint(), cache=tmp_path)
    assert again.frame["is_duplicate"].tolist() == [1] * 6
    assert {request.texts[0] for request in server.requests} == set(failing)


def test_nothing_that_failed_reads_as_clean(server: Server, endpoint: Make) -> None:
    rng = np.random.default_rng(1)
    bad = [
        fault(429), fault(500), fault(400), completion(None), completion("clean"),
        completion('{"is_duplicate": false}'), verdict(is_duplicate=False),
        Reply(b"{"), Reply(verdict(is_duplicate=False, kind="unrelated").body, cut=True),
    ]  # fmt: skip
    clean = verdict(is_duplicate=False, kind="unrelated")
    replies = {
        f"item text {i}": clean if i == 0 or rng.random() < 0.3 else bad[rng.integers(len(bad))]
        for i in range(60)
    }
    server.behave = lambda request: replies[request.texts[0]]
    judged = judge_pairs(made_pairs(60), endpoint(retries=1)).frame
    is_clean = [reply is clean for reply in replies.values()]
    assert 5 < sum(is_clean) < 40
    assert (judged["is_duplicate"] == 0).fillna(False).tolist() == is_clean
    assert judged["is_duplicate"].isna().tolist() == [not known for known in is_clean]


@pytest.mark.parametrize("concurrency", [1, 5])
def test_the_budget_of_calls_is_held_and_can_be_spent_again(
    server: Server, endpoint: Make, tmp_path: Path, concurrency: int
) -> None:
    server.behave = lambda request: fault(500) if len(server.requests) % 3 == 0 else verdict()
    options = {"cache": tmp_path, "max_calls": 10}
    first = judge_pairs(made_pairs(20), endpoint(concurrency=concurrency), **options)
    assert len(server.requests) == 10
    judged = len(first.frame)
    assert 7 - concurrency < judged <= 7
    assert first.frame["is_duplicate"].tolist() == [1] * judged
    assert f"the budget is reached and {20 - judged} pairs are left" in first.notes[-1]
    again = judge_pairs(made_pairs(20), endpoint(concurrency=concurrency), **options)
    assert len(server.requests) == 20
    assert len(again.frame) > judged


def test_the_budget_of_tokens(server: Server, endpoint: Make) -> None:
    server.script(completion(verdict_text(), tokens=2_000))
    judged = judge_pairs(made_pairs(20), endpoint(), max_tokens=10_000)
    # Estimates differ by the digits of a number: the fifth call may seem not to fit.
    assert 4 <= len(server.requests) <= 5
    assert len(judged.frame) == len(server.requests)
    assert "pairs are left" in judged.notes[-1]


def test_a_budget_that_is_too_small(server: Server, endpoint: Make) -> None:
    with pytest.raises(TaskError, match="the budget ended before the first answer"):
        judge_pairs(made_pairs(2), endpoint(), max_tokens=50)
    assert server.requests == []


def start(server: Server, cache: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server.base_url, str(cache)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_asks_only_for_what_is_missing(
    server: Server, tmp_path: Path, number: int
) -> None:
    server.script(Reply(verdict().body, delay=0.1))
    process = start(server, tmp_path)
    while len(server.requests) < 20 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    started = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 20  # it does not wait for retries or timeouts
    time.sleep(0.3)  # until the server has read what was sent before the end
    assert process.returncode == -number
    assert (b"KeyboardInterrupt" in err) == (number == signal.SIGINT)
    asked, kept = len(server.requests), len(list(tmp_path.rglob("*/*.json")))
    assert 20 - 4 <= kept < 40
    assert asked - kept <= 4  # those under way
    out, err = start(server, tmp_path).communicate(timeout=60)
    assert (out, err) == (b"40\n", b"")
    assert len(server.requests) - asked == 40 - kept


def test_it_runs_where_a_loop_runs_already(server: Server, endpoint: Make) -> None:
    async def notebook() -> int:
        return len(judge_pairs(made_pairs(3), endpoint()).frame)

    assert asyncio.run(notebook()) == 3


def test_texts_that_are_cut_are_noted(server: Server, endpoint: Make) -> None:
    pairs = made_pairs(3)
    pairs.loc[1, "chunk_text"] = "x" * 101
    judged = judge_pairs(pairs, endpoint(), cut=100)
    assert judged.notes[0] == "texts are cut at 100 characters in 1 of 3 pairs"
    sent = [request.texts[1] for request in server.requests]
    assert "x" * 100 + "\n[cut here; 1 more characters are not shown]" in sent


def test_progress_goes_to_the_end(
    server: Server, endpoint: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    judge_pairs(made_pairs(3), endpoint(), progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("judge    100 %")
    assert "pairs/s" in err


@pytest.mark.parametrize("name", ["run", "max_calls", "max_tokens", "cut"])
def test_options_below_one(server: Server, endpoint: Make, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} 0: allowed is 1 or more"):
        judge_pairs(made_pairs(1), endpoint(), **{name: 0})


def test_pairs_that_cannot_be_used(server: Server, endpoint: Make) -> None:
    with pytest.raises(DataError, match="lacks 'source', 'text'"):
        judge_pairs(made_pairs(1).drop(columns=["source", "text"]), endpoint())
    with pytest.raises(DataError, match="no rows"):
        judge_pairs(made_pairs(0), endpoint())
    assert server.requests == []


@pytest.mark.parametrize(
    ("bad", "free"), [(fault(429), True), (fault(500), True), (Reply(b"{", cut=True), False)]
)
def test_only_what_may_have_been_computed_costs_tokens(
    server: Server, endpoint: Make, bad: Reply, free: bool
) -> None:
    server.script(bad, verdict())
    (note,) = judge_pairs(made_pairs(1), endpoint()).notes
    assert (note == "2 calls took 10 tokens") == free
    assert note.startswith("2 calls took ")


def test_a_cut_off_answer_is_unjudged_and_what_to_do_is_noted(
    server: Server, endpoint: Make, tmp_path: Path
) -> None:
    server.script(completion('{"reaso', finish_reason="length"))
    judged = judge_pairs(made_pairs(4), endpoint(max_tokens=5), cache=tmp_path)
    assert judged.frame["is_duplicate"].isna().all()
    assert judged.frame["comment"].str.startswith("unjudged (cut off): ").all()
    assert judged.notes[-2:] == (
        "4 of 4 pairs are unjudged: 4 cut off",
        "answers were cut off: raise --max-output-tokens, or request less --effort",
    )
    # One that is whole counts, whatever was to follow, unless that has begun.
    server.script(completion(verdict_text(), finish_reason="length"))
    assert judge_pairs(made_pairs(1), endpoint()).frame["is_duplicate"].tolist() == [1]
    server.script(completion(f"{verdict_text()}\nLet me know", finish_reason="length"))
    (comment,) = judge_pairs(made_pairs(1), endpoint()).frame["comment"]
    assert comment.startswith("unjudged (cut off): words follow the JSON object: 'Let me know'")


def test_another_limit_of_tokens_is_another_answer(
    server: Server, endpoint: Make, tmp_path: Path
) -> None:
    for longest in (None, 100, 200, 100):
        judge_pairs(made_pairs(2), endpoint(max_tokens=longest), cache=tmp_path)
    assert [request.body.get("max_tokens") for request in server.requests] == [
        None, None, 100, 100, 200, 200,
    ]  # fmt: skip


def test_a_second_prompt_is_a_judge_of_its_own_name(server: Server, endpoint: Make) -> None:
    judged = judge_pairs(made_pairs(1), endpoint(), prompt="verification", judge="strict", run=2)
    assert judged.frame["judge"].tolist() == ["llm:strict#2"]
    assert server.requests[0].body["model"] == "small"
    again = judge_pairs(made_pairs(1), endpoint(), judge="llm:strict")
    assert again.frame["judge"].tolist() == ["llm:strict"]
    for bad in ("", " ", "llm:", "a#2"):
        with pytest.raises(UsageError, match="give a name without '#'"):
            judge_pairs(made_pairs(1), endpoint(), judge=bad)
