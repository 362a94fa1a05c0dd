"""Calls to an endpoint that misbehaves: retried, counted, never read as clean."""

import email.utils
import time
from collections.abc import Callable

import numpy as np
import pytest

from bayescontam import endpoint as module
from bayescontam.data.judgements import Judgements
from bayescontam.endpoint import Endpoint
from bayescontam.errors import TaskError, UsageError
from bayescontam.evidence.llm import judge_pairs
from tests.evidence.llm.conftest import made_pairs
from tests.support.llm_server import (
    VERDICT,
    Reply,
    Request,
    Server,
    completion,
    fault,
    verdict,
)

Make = Callable[..., Endpoint]
CUT = Reply(verdict().body, cut=True)
LATE = Reply(verdict().body, delay=30)


def patience(bad: Reply) -> dict[str, float]:
    """Return how long to wait: briefly, and less often, only for a reply that is late.

    The machine may be slow.
    """
    return {"timeout": 3.0, "retries": 1} if bad is LATE else {"timeout": 20.0, "retries": 2}


def only(judgements: Judgements) -> dict[str, object]:
    (row,) = judgements.frame.to_dict("records")
    return row


@pytest.mark.parametrize(
    "bad",
    [
        fault(429), fault(429, retry_after="0.1"), fault(429, retry_after="soon"),
        fault(429, retry_after="nan"), fault(500), fault(503), fault(408), CUT,
        Reply(b'{"choices": [{"mess'), Reply(b"[]"), Reply(b"null"),
        Reply(b"<html>", headers={"Content-Type": "text/html"}),
        Reply(b'{"error": {"message": "overloaded"}}'), Reply(b'{"choices": []}'),
        Reply(b'{"choices": [{"message": null}]}'), Reply(b""),
        LATE,
    ],
)  # fmt: skip
def test_what_may_pass_is_tried_again(server: Server, endpoint: Make, bad: Reply) -> None:
    settings = patience(bad)
    server.script(*[bad] * int(settings["retries"]), verdict())
    row = only(judge_pairs(made_pairs(1), endpoint(**settings)))
    assert (row["is_duplicate"], row["kind"], row["comment"]) == (1, "equivalent", "same")
    assert len(server.requests) == 1 + settings["retries"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (fault(429), "status 429"),
        (fault(500, "oops"), "status 500"),
        (CUT, "no connection"),
        (LATE, "timeout"),
        (Reply(b'{"choices": [{"mess'), "no completion"),
    ],
)
def test_what_does_not_pass_is_unjudged(
    server: Server, endpoint: Make, bad: Reply, reason: str
) -> None:
    server.behave = lambda request: bad if request.texts[0] == "item text 1" else verdict()
    settings = patience(bad)
    judged = judge_pairs(made_pairs(3), endpoint(**settings))
    assert judged.frame["is_duplicate"].isna().tolist() == [False, True, False]
    row = judged.frame.loc[1]
    assert row["kind"] == ""
    assert np.isnan(row["confidence"])
    assert row["comment"].startswith(f"unjudged ({reason}): ")
    assert len(server.requests) == 2 + 1 + settings["retries"]
    assert f"1 of 3 pairs are unjudged: 1 {reason}" in judged.notes


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (completion(None, refusal="I will not."), "refused): I will not."),
        (completion(None), "refused): nothing was written"),
        (completion("  \n"), "refused): nothing was written"),
        (completion([{"type": "text"}]), "refused): nothing was written"),
        (completion("{}", finish_reason="content_filter"), "refused): content filter"),
        (completion("It is clean."), "unparsable): no JSON object in 'It is clean.'"),
        (completion('{"is_duplicate": false, "kind"'), "unparsable): no JSON object"),
        (completion('{"reaso', finish_reason="length"), "cut off): no JSON object in '{\"reaso'"),
        (completion("", finish_reason="length"), "cut off): nothing was written"),
        (completion(None, finish_reason="length"), "cut off): nothing was written"),
        (completion('{"is_duplicate": false}'), "unparsable): reasoning: Field required"),
        (verdict(is_duplicate="false", kind="unrelated"), "unparsable): is_duplicate: "),
        (verdict(is_duplicate=0, kind="unrelated"), "unparsable): is_duplicate: "),
        (verdict(is_duplicate=None, kind="unrelated"), "unparsable): is_duplicate: "),
        (verdict(is_duplicate=False), "unparsable): Value error, kind 'equivalent' contradicts"),
        (verdict(kind="unrelated"), "unparsable): Value error, kind 'unrelated' contradicts"),
        (verdict(kind="other"), "unparsable): kind: "),
        (verdict(confidence=90), "unparsable): Value error, confidence is 90, not from 0 to 1"),
        (verdict(more=1), "unparsable): more: Extra inputs are not permitted"),
        (fault(400, "filtered", code="content_filter"), "refused): "),
    ],
)
def test_a_refusal_or_an_odd_answer_is_unjudged_at_once(
    server: Server, endpoint: Make, bad: Reply, reason: str
) -> None:
    server.script(bad)
    judged = judge_pairs(made_pairs(1), endpoint())
    row = only(judged)
    assert judged.frame["is_duplicate"].isna().all()
    assert row["kind"] == ""
    assert str(row["comment"]).startswith(f"unjudged ({reason}")
    assert len(server.requests) == 1


def gaps(server: Server) -> list[float]:
    times = [request.time for request in server.requests]
    return np.diff(times).tolist()


def test_waits_double(server: Server, endpoint: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.2)
    monkeypatch.setattr(module, "_MOST_WAIT", 0.4)
    server.script(fault(500), fault(500), fault(500), verdict())
    judge_pairs(made_pairs(1), endpoint(retries=3))
    for gap, longest in zip(gaps(server), [0.2, 0.4, 0.4], strict=True):
        assert longest / 2 <= gap < longest + 0.5


def test_the_wait_that_is_requested_is_kept(server: Server, endpoint: Make) -> None:
    server.script(fault(429, retry_after="0.6"), verdict())
    judge_pairs(made_pairs(1), endpoint())
    assert 0.6 <= gaps(server)[0] < 2


def test_the_wait_may_be_a_time(server: Server, endpoint: Make) -> None:
    then = email.utils.formatdate(time.time() + 2, usegmt=True)  # whole seconds
    server.script(fault(503, retry_after=then), verdict())
    judge_pairs(made_pairs(1), endpoint())
    assert 0.9 <= gaps(server)[0] < 4


def test_a_long_wait_stops_the_run(server: Server, endpoint: Make) -> None:
    server.script(fault(429, "quota", retry_after="86400"))
    with pytest.raises(TaskError, match=r"'small' at http.*quota.*asks to wait 86,400 seconds"):
        judge_pairs(made_pairs(20), endpoint())
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("bad", "error"),
    [(fault(status, "bad key"), UsageError) for status in (401, 402, 403, 404)]
    + [(fault(429, "bad key", code="insufficient_quota"), TaskError)],
)
def test_what_concerns_every_call_stops_at_once(
    server: Server, endpoint: Make, bad: Reply, error: type[Exception]
) -> None:
    server.script(bad)
    with pytest.raises(error, match="bad key"):
        judge_pairs(made_pairs(20), endpoint())
    assert len(server.requests) == 1


def test_a_key_that_is_revoked_stops_the_run(server: Server, endpoint: Make) -> None:
    server.script(verdict(), verdict(), fault(401))
    with pytest.raises(UsageError, match="check --base-url, --model and the key"):
        judge_pairs(made_pairs(50), endpoint(concurrency=4))
    assert len(server.requests) <= 2 + 4


def test_403_later_on_is_about_one_pair(server: Server, endpoint: Make) -> None:
    server.script(verdict(), fault(403, "flagged"), verdict())
    judged = judge_pairs(made_pairs(3), endpoint(concurrency=1))
    assert judged.frame["is_duplicate"].isna().tolist() == [False, True, False]
    assert "flagged" in judged.frame.loc[1, "comment"]


def test_nobody_there(endpoint: Make, server: Server) -> None:
    away = Endpoint("http://127.0.0.1:9/v1", "small", retries=1)
    with pytest.raises(TaskError, match=r"127.0.0.1:9/v1: Connection error.*check --base-url"):
        judge_pairs(made_pairs(20), away)


@pytest.mark.parametrize("bad", [fault(500, "down"), fault(400, "down")])
def test_an_endpoint_that_never_answers_is_given_up(
    server: Server, endpoint: Make, bad: Reply
) -> None:
    server.script(bad)
    with pytest.raises(TaskError, match=r"no answer to the first 3 pairs; .* status .*down"):
        judge_pairs(made_pairs(20), endpoint())
    assert len(server.requests) == 3 * 3  # retries, or formats


def formats(server: Server) -> list[str | None]:
    return [request.format for request in server.requests]


def refusing(*refused: str | None, status: int = 400) -> Callable[[Request], Reply]:
    return lambda request: (
        fault(status, "response_format") if request.format in refused else verdict()
    )


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        ([], ["json_schema"] * 3),
        (["json_schema"], ["json_schema"] + ["json_object"] * 3),
        (["json_schema", "json_object"], ["json_schema", "json_object"] + [None] * 3),
    ],
)
def test_the_format_falls_back_once(
    server: Server, endpoint: Make, refused: list[str], expected: list[str | None], status: int
) -> None:
    server.behave = refusing(*refused, status=status)
    judged = judge_pairs(made_pairs(3), endpoint())
    assert judged.frame["is_duplicate"].tolist() == [1, 1, 1]
    assert formats(server) == expected


def test_a_pair_that_is_refused_does_not_change_the_format(server: Server, endpoint: Make) -> None:
    server.behave = lambda request: fault(400, "too long") if "0" in request.texts[0] else verdict()
    judged = judge_pairs(made_pairs(12), endpoint())
    assert judged.frame["is_duplicate"].isna().tolist() == [i in (0, 10) for i in range(12)]
    assert formats(server)[:4] == ["json_schema", "json_object", None, "json_schema"]
    assert formats(server)[4:] == ["json_schema"] * 10


def test_what_is_sent(server: Server, endpoint: Make) -> None:
    judge_pairs(made_pairs(1), endpoint(api_key="secret", temperature=0.5))
    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer secret"
    assert set(request.body) == {"model", "messages", "response_format", "temperature"}
    assert (request.body["model"], request.body["temperature"]) == ("small", 0.5)
    assert [message["role"] for message in request.body["messages"]] == ["system", "user"]
    assert request.texts == ("item text 0", "chunk text 0")
    schema = request.body["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["additionalProperties"] is False
    assert set(schema["schema"]["required"]) == set(VERDICT)
    assert next(iter(schema["schema"]["properties"])) == "reasoning"


def test_no_temperature_is_sent_if_it_is_none(server: Server, endpoint: Make) -> None:
    judge_pairs(made_pairs(1), endpoint(temperature=None))
    assert "temperature" not in server.requests[0].body


def test_the_key_is_never_shown(server: Server, endpoint: Make) -> None:
    server.script(fault(401, "wrong key secret-7"))
    with pytest.raises(UsageError) as caught:
        judge_pairs(made_pairs(1), endpoint(api_key="secret-7"))
    assert "secret-7" not in str(caught.value)
    assert "wrong key …" in str(caught.value)
    assert "secret-7" not in repr(endpoint(api_key="secret-7"))


@pytest.mark.parametrize("concurrency", [1, 4])
def test_so_many_calls_are_under_way_and_no_more(
    server: Server, endpoint: Make, concurrency: int
) -> None:
    server.script(Reply(verdict().body, delay=0.05))
    judge_pairs(made_pairs(24), endpoint(concurrency=concurrency))
    assert server.most_at_once == concurrency
    assert len(server.requests) == 24


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"base_url": "localhost:8000"}, "begins with neither http"),
        ({"model": " "}, "give a name"),
        ({"model": "a#2"}, "without '#'"),
        ({"timeout": 0}, "timeout 0: allowed is 0.001 or more"),
        ({"timeout": float("nan")}, "timeout nan"),
        ({"retries": -1}, "retries -1: allowed is 0 or more"),
        ({"concurrency": 0}, "concurrency 0: allowed is 1 or more"),
        ({"temperature": 2.5}, "temperature 2.5: allowed is 0 to 2"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        Endpoint(**{"base_url": "http://x/v1", "model": "m", **settings})  # type: ignore[arg-type]
