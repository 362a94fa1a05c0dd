"""Embedders behind an endpoint that behaves, and that misbehaves."""

import json
import math
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescontam.errors import BayescontamError, TaskError, UsageError
from bayescontam.scan.embedders import load_counter, load_embedder
from bayescontam.scan.served import SharedBudget
from bayescontam.specs.corpus import Embedding
from tests.support.embedding_server import (
    HASHING,
    embeddings,
    hashed,
    served,
    texts_sent,
    vectors_of,
)
from tests.support.endpoints import server, short_waits
from tests.support.llm_server import Reply, Request, Server, completion, fault

__all__ = ["server", "short_waits"]

pytest.importorskip("openai")

TEXTS = ["w1 w2", "w3", "w1 w2", "", "one two three", "?"]
ONE = ["w1"]


@pytest.fixture(autouse=True)
def embeds(server: Server) -> None:
    server.behave = hashed


def embed(spec: Embedding, texts: list[str], folder: Path | None = None) -> np.ndarray:
    return load_embedder(spec, None, folder).embed(texts, "passage")


def test_vectors_are_those_of_the_embedder_there(server: Server) -> None:
    embedder = load_embedder(served(server, request_texts=2))
    found = embedder.embed(TEXTS, "query")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, HASHING.embed(TEXTS, "query"))
    assert embedder.count(TEXTS) == HASHING.count(TEXTS)
    # Equal texts once, those without tokens never.
    assert texts_sent(server) == ["w1 w2", "w3", "one two three"]
    assert [len(request.body["input"]) for request in server.requests] == [2, 1]
    for request in server.requests:
        assert request.body["model"] == "hashing"
        assert request.body["encoding_format"] == "float"
        assert "dimensions" not in request.body


def test_prompts_stand_before_texts(server: Server) -> None:
    spec = served(server, query_prompt="find ", passage_prompt="in ")
    embedder = load_embedder(spec)
    for kind, prompt in (("query", "find "), ("passage", "in ")):
        found = embedder.embed(["w1"], kind)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found, HASHING.embed([prompt + "w1"], "query"))
    assert texts_sent(server) == ["find w1", "in w1"]


def test_requests_have_so_many_texts_and_tokens(server: Server) -> None:
    texts = [f"w{i} " * (1 + i % 3) for i in range(20)] + ["long " * 50]
    embed(served(server, request_texts=5, request_tokens=8, query_prompt="q"), texts)
    sizes = [HASHING.count(request.body["input"]) for request in server.requests]
    assert all(len(size) <= 5 and (sum(size) <= 8 or len(size) == 1) for size in sizes)
    assert [50] in sizes
    assert sorted(texts_sent(server)) == sorted(texts)
    assert len(sizes) < len(texts)


def test_so_many_requests_are_under_way(server: Server, tmp_path: Path) -> None:
    server.behave = lambda request: Reply(hashed(request).body, delay=0.05)
    texts = [f"w{i}" for i in range(24)]
    embed(served(server, request_texts=1, concurrency=3), texts, tmp_path)
    assert server.most_at_once == 3


def test_long_texts_are_cut_at_what_the_model_sees(server: Server) -> None:
    spec = served(server, max_tokens=5)
    embedder = load_embedder(spec)
    embedder.embed(["a b c d e", "a b c d e f", "x " * 10_000], "passage")
    assert [HASHING.count([text]) for text in texts_sent(server)] == [[5], [5], [5]]
    assert "f" not in texts_sent(server)[1]
    assert embedder.max_tokens == 5


def test_with_another_tokenizer_there_is_a_margin(server: Server) -> None:
    embedder = load_embedder(served(server, max_tokens=100, tokenizer="minilm"))
    assert embedder.max_tokens == 75
    embedder.embed(["unbelievably " * 300], "query")
    [sent] = texts_sent(server)
    assert load_counter("minilm")([sent]) == [75]
    texts = ["Which number comes next?", "naïve café 12.5 %", "日本語", "x" * 50]
    local = load_embedder(Embedding(), "cpu")
    assert embedder.count(texts) == local.count(texts)
    default = Embedding(model="m", endpoint="http://x/v1", max_tokens=100, tokenizer=None)
    assert default.tokenizer == "minilm"


def test_a_tokenizer_that_is_not_there_is_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"embedding.tokenizer: there is no folder .*/none"):
        load_embedder(served(server, tokenizer="./none"))
    with pytest.raises(UsageError, match=r"embedding.tokenizer: '.*' cannot be loaded"):
        load_embedder(served(server, tokenizer=str(tmp_path)))


def test_halves_of_characters_are_sent_as_question_marks(server: Server) -> None:
    embed(served(server), ["a \ud83d b"])
    assert texts_sent(server) == ["a ? b"]


def test_it_describes_itself_without_the_key(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-7")
    embedder = load_embedder(served(server, api_key_env="MY_KEY", query_prompt="q: "))
    assert embedder.describe() == {
        "model": "hashing", "endpoint": server.base_url, "tokenizer": "hashing", "dims": 256,
        "max_tokens": 2048, "query_prompt": "q: ", "passage_prompt": "",
    }  # fmt: skip
    assert server.requests[0].headers["authorization"] == "Bearer secret-7"


def test_a_named_variable_without_a_key_is_refused(server: Server) -> None:
    with pytest.raises(
        UsageError, match=r"embedding\.api_key_env: no environment variable 'NO_KEY'"
    ):
        embed(served(server, api_key_env="NO_KEY"), ONE)


def test_the_line_end_of_a_key_is_not_part_of_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-7\r")
    embed(served(server, api_key_env="MY_KEY"), ONE)
    assert server.requests[0].headers["authorization"] == "Bearer secret-7"
    for odd in ("secret-É", "secret\r7"):
        monkeypatch.setenv("MY_KEY", odd)
        with pytest.raises(UsageError, match="has characters that cannot be sent") as raised:
            embed(served(server, api_key_env="MY_KEY"), ONE)
        assert "secret" not in str(raised.value)


def test_texts_go_nowhere_else(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-9")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-9")
    seen = []

    def moved(request: Request) -> Reply:
        seen.append(request.path)
        assert not {"openai-organization", "openai-project"} & request.headers.keys()
        return Reply(b"", 307, {"Location": "/elsewhere"})

    server.behave = moved
    with pytest.raises(TaskError, match="it redirects to /elsewhere; give that address"):
        embed(served(server), ONE)
    assert set(seen) == {"/v1/embeddings"}


def test_a_request_above_the_whole_budget_is_refused_as_such(
    server: Server, tmp_path: Path
) -> None:
    spec = served(server, request_texts=5, max_tokens_total=3)
    message = "a request of 10 tokens is more than the 3 of embedding.max_tokens_total; raise it"
    with pytest.raises(TaskError, match=message):
        embed(spec, [f"w{i} x" for i in range(5)], tmp_path)
    assert not server.requests


def test_a_key_may_be_set_later(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = load_embedder(served(server, api_key_env="MY_KEY"))
    for key in ("wrong", "right"):
        monkeypatch.setenv("MY_KEY", key)
        embedder.embed([key], "query")
        assert server.requests[-1].headers["authorization"] == f"Bearer {key}"


def test_dimensions_are_requested(server: Server) -> None:
    server.behave = lambda request: embeddings([v[:200] for v in vectors_of(request.body["input"])])
    found = embed(served(server, dims=200), ["w1 w2", "w3"])
    assert found.shape == (2, 200)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert server.requests[0].body["dimensions"] == 200


def test_vectors_get_unit_length(server: Server) -> None:
    server.behave = lambda _: embeddings([[3, -4.0, 0]])
    np.testing.assert_array_equal(embed(served(server), ONE), np.float32([[0.6, -0.8, 0]]))


LATE = Reply(embeddings(vectors_of(ONE)).body, delay=30)


@pytest.mark.parametrize(
    "bad",
    [
        fault(429), fault(429, retry_after="0.1"), fault(500), fault(503), fault(408),
        Reply(b"<html>", headers={"Content-Type": "text/html"}), Reply(b""), Reply(b"[]"),
        Reply(b'{"data": [{"ind'), Reply(b'{"error": {"message": "overloaded"}}'),
        Reply(embeddings(vectors_of(ONE)).body, cut=True), completion("no embeddings"), LATE,
    ],
)  # fmt: skip
def test_what_may_pass_is_tried_again(server: Server, bad: Reply) -> None:
    server.script(bad, bad, embeddings(vectors_of(ONE)))
    found = embed(served(server, timeout=1.0 if bad is LATE else 20.0), ONE)
    np.testing.assert_array_equal(found, HASHING.embed(ONE, "query"))
    assert len(server.requests) == 3


def test_the_wait_that_is_requested_is_waited(server: Server) -> None:
    server.script(fault(429, retry_after="0.6"), embeddings(vectors_of(ONE)))
    embed(served(server), ONE)
    times = [request.time for request in server.requests]
    assert 0.6 <= times[1] - times[0] < 3


def changed(**entry: Any) -> Reply:
    """Return a reply for two texts, whose first entry is changed."""
    first, second = vectors_of(["w1", "w2"])
    data = [{"index": 0, "embedding": first} | entry, {"index": 1, "embedding": second}]
    data = [{k: v for k, v in each.items() if v is not ...} for each in data]
    return Reply(json.dumps({"data": data}).encode())


NOT = "the embeddings cannot be used: "


@pytest.mark.parametrize(
    ("bad", "message", "tries"),
    [
        (embeddings(vectors_of(ONE)), NOT + "1 of them for 2 texts", 1),
        (embeddings([]), NOT + "0 of them for 2 texts", 1),
        (changed(index=...), NOT + "their fields 'index' are not 0 to 1, each once", 1),
        (changed(index=1), NOT + "their fields 'index' are not 0 to 1, each once", 1),
        (changed(index="0"), NOT + "their fields 'index' are not 0 to 1, each once", 1),
        (changed(index=False), NOT + "their fields 'index' are not 0 to 1, each once", 1),
        (Reply(b'{"data": [1, null]}'), NOT + "their fields 'index'", 1),
        (changed(embedding=...), NOT + "that of text 1 is no list of numbers", 1),
        (changed(embedding=[]), NOT + "that of text 1 is no list of numbers", 1),
        (changed(embedding="AACAPw=="), NOT + "that of text 1 is no list of numbers", 1),
        (changed(embedding=[None] * 256), NOT + "that of text 1 holds something else than", 1),
        (changed(embedding=["1"] * 256), NOT + "that of text 1 holds something else than", 1),
        (changed(embedding=[[0.5]]), NOT + "that of text 1 holds something else than numbers", 1),
        (changed(embedding=[True] * 256), NOT + "that of text 1 holds something else than", 1),
        (changed(embedding=[0.5, math.nan]), NOT + "that of text 1 holds numbers that are not", 1),
        (changed(embedding=[math.inf, 1]), NOT + "that of text 1 holds numbers that are not", 1),
        (changed(embedding=[1e300, 1]), NOT + "that of text 1 holds numbers that are not", 1),
        (changed(embedding=[10**400, 1]), NOT + "that of text 1 holds numbers that are not", 1),
        (changed(embedding=[0.0] * 256), NOT + "that of text 1 is zero", 1),
        (changed(embedding=[0.5]), "text 2 of 2 has 256 dimensions, not 1 as those before it", 1),
        (fault(401, "no key"), "no key.*; check embedding.endpoint, embedding.model and the", 1),
        (fault(403, "no"), "check embedding.endpoint, embedding.model and the key in the var", 1),
        (fault(404, "no model"), "no model.*; check embedding.endpoint, embedding.model and", 1),
        (fault(400, "too long"), "too long.*lower embedding.max_tokens, or give the model's", 1),
        (fault(413, "too large"), "too large.*lower embedding.max_tokens", 1),
        (fault(422, "odd"), "odd.*leave out embedding.dims", 1),
        (fault(429, "busy"), "no embeddings in 3 tries, the last ended with status 429: .*busy", 3),
        (fault(500, "oops"), "in 3 tries, .* status 500: .*oops.*; finished work is stored", 3),
        (fault(418, "tea"), "no embeddings in 1 try, the last ended with status 418: .*tea", 1),
        (Reply(b"<html>"), "in 3 tries, the last ended with no embeddings: <html>; finished", 3),
        (fault(429, "full", code="insufficient_quota"), "full.*raise the quota, then run the", 1),
        (fault(429, "day", retry_after="86400"), "it asks to wait 86,400 seconds", 1),
    ],
)  # fmt: skip
def test_what_does_not_pass_is_an_error_of_one_cause(
    server: Server, bad: Reply, message: str, tries: int
) -> None:
    server.script(bad)
    with pytest.raises(BayescontamError, match=message) as caught:
        embed(served(server), ["w1", "w2"])
    assert f"model 'hashing' at {server.base_url}: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == tries


def test_late_replies_are_an_error(server: Server) -> None:
    server.script(LATE)
    with pytest.raises(TaskError, match="in 2 tries, the last ended with timeout: no reply in ti"):
        embed(served(server, timeout=0.5, retries=1), ONE)


def test_nobody_there() -> None:
    away = Embedding(model="m", endpoint="http://127.0.0.1:9/v1", max_tokens=9, retries=1)
    with pytest.raises(TaskError, match=r"127.0.0.1:9/v1: Connection error.*check embedding.endp"):
        load_embedder(away).embed(ONE, "query")


def test_a_server_that_goes_away_later(server: Server) -> None:
    embedder = load_embedder(served(server, request_texts=1))
    embedder.embed(["w1", "w2"], "query")
    server.script(fault(503, "gone"))
    with pytest.raises(TaskError, match=r"in 3 tries, .*gone.*run the same command again"):
        embedder.embed(["w3"], "query")


def test_dimensions_that_change_between_requests(server: Server) -> None:
    server.behave = lambda request: embeddings([[1.0] * (3 + len(server.requests))])
    message = "text 1 of 1 has 5 dimensions, not 4 as those before it"
    with pytest.raises(TaskError, match=message):
        embed(served(server, request_texts=1, concurrency=1), ["w1", "w2"])


def test_other_dimensions_than_requested(server: Server) -> None:
    with pytest.raises(TaskError, match=r"has 256 dimensions, not 200 as embedding\.dims requests"):
        embed(served(server, dims=200), ONE)


@pytest.mark.parametrize(
    "bad",
    [fault(401, "wrong key secret-7"), fault(500, "key secret-7"), Reply(b'{"key": "secret-7"}')],
)
def test_the_key_is_never_shown(
    server: Server, monkeypatch: pytest.MonkeyPatch, bad: Reply
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-7")
    server.script(bad)
    with pytest.raises(BayescontamError, match="…") as caught:
        embed(served(server, api_key_env="MY_KEY"), ONE)
    shown = "".join(traceback.format_exception(caught.value))
    assert "secret-7" not in shown


def test_replies_are_stored_until_they_are_not_needed(server: Server, tmp_path: Path) -> None:
    texts = [f"w{i}" for i in range(8)]
    server.behave = lambda request: (
        hashed(request) if len(server.requests) <= 2 else fault(500, "down")
    )
    spec = served(server, request_texts=2, concurrency=1, retries=0)
    with pytest.raises(TaskError, match="down"):
        embed(spec, texts, tmp_path)
    sent = len(server.requests)
    server.behave = hashed
    embedder = load_embedder(spec, None, tmp_path)
    np.testing.assert_array_equal(embedder.embed(texts, "passage"), HASHING.embed(texts, "query"))
    assert texts_sent(server)[2 * sent :] == texts[4:]
    assert len([*tmp_path.glob("passage-*.npy")]) == 4
    embedder.forget()
    assert [*tmp_path.glob("*.npy")] == []
    embedder.embed(texts[:2], "passage")
    assert texts_sent(server)[-2:] == texts[:2]


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", None])
def test_a_stored_reply_that_cannot_be_read_is_requested_again(
    server: Server, tmp_path: Path, content: bytes | None
) -> None:
    embed(served(server), ONE, tmp_path)
    [path] = tmp_path.glob("*.npy")
    if content is None:
        np.save(path, np.ones((2, 256), np.float32))
    else:
        path.write_bytes(content)
    np.testing.assert_array_equal(embed(served(server), ONE, tmp_path), HASHING.embed(ONE, "query"))
    assert len(server.requests) == 2


def test_the_budget_is_held_and_ends_with_what_to_do(server: Server, tmp_path: Path) -> None:
    texts = [f"w{i} x" for i in range(10)]
    spec = served(server, request_texts=1, max_tokens_total=9, concurrency=4)
    message = (
        r"the 9 tokens of embedding.max_tokens_total are used up; finished work is stored: run"
    )
    with pytest.raises(TaskError, match=message):
        embed(spec, texts, tmp_path)
    assert len(server.requests) == 4
    with pytest.raises(TaskError, match=message):
        embed(spec, texts, tmp_path)
    assert len(server.requests) == 4  # of another worker of the same run


def test_the_budget_counts_what_the_endpoint_says(server: Server, tmp_path: Path) -> None:
    texts = [f"w{i} x" for i in range(10)]
    server.behave = lambda request: embeddings(vectors_of(request.body["input"]), tokens=4)
    spec = served(server, request_texts=1, max_tokens_total=9, concurrency=1)
    with pytest.raises(TaskError, match="max_tokens_total"):
        embed(spec, texts, tmp_path)
    assert len(server.requests) == 2
    budget = SharedBudget(tmp_path / "spent.txt", 9)
    assert budget.path.read_text() == "8"


def test_refused_calls_cost_nothing(server: Server, tmp_path: Path) -> None:
    server.script(fault(500), fault(500), embeddings(vectors_of(ONE)))
    embed(served(server, max_tokens_total=1), ONE, tmp_path)
    assert len(server.requests) == 3
