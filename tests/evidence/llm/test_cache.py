"""The cache: one file for each answer, keyed by all that the answer depends on."""

from pathlib import Path

import pytest

from bayescontam.errors import UsageError
from bayescontam.evidence.llm import Answer, Question, answer_cache, cache_key, stored_answer
from tests.support.llm_server import VERDICT

KEY = "ab" + "0" * 62
ANSWER = Answer(**VERDICT)


def test_the_key_holds_all_that_the_answer_depends_on() -> None:
    question = Question("p", "ab", "c", cut=3)
    variants = [
        (question, "m", 1, 0.0),
        (Question("q", "ab", "c", cut=3), "m", 1, 0.0),
        (Question("p", "a", "bc", cut=3), "m", 1, 0.0),
        (Question("p", "c", "ab", cut=3), "m", 1, 0.0),
        (Question("p", "ab", "c", cut=1), "m", 1, 0.0),
        (question, "n", 1, 0.0),
        (question, "m", 2, 0.0),
        (question, "m", 1, 0.5),
        (question, "m", 1, None),
        (question, "m", 1, 0.0, {"reasoning_effort": "low"}),
    ]
    assert len({cache_key(*variant) for variant in variants}) == len(variants)
    assert cache_key(*variants[0]) == cache_key(Question("p", "ab", "c", cut=3), "m", 1, 0.0)
    assert cache_key(*variants[0]) == cache_key(*variants[0], {})  # as before it was an option
    # What is not shown does not matter; how much is not shown does.
    long = [Question("p", "abcdX", "c", cut=4), Question("p", "abcdY", "c", cut=4)]
    assert cache_key(long[0], "m", 1, 0.0) != cache_key(question, "m", 1, 0.0)


def test_what_is_put_is_found(tmp_path: Path) -> None:
    cache, _ = answer_cache(tmp_path / "made" / "here")
    assert stored_answer(cache, KEY) is None
    for _ in range(2):
        cache.put(KEY, ANSWER.model_dump_json())
        assert stored_answer(answer_cache(tmp_path / "made" / "here")[0], KEY) == ANSWER
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".json"]


def test_answers_of_an_earlier_version_are_not_used(tmp_path: Path) -> None:
    assert answer_cache(tmp_path)[1] == []
    old = tmp_path / KEY[:2] / f"{KEY[2:]}.json"
    old.parent.mkdir()
    old.write_text(ANSWER.model_dump_json())
    cache, (note,) = answer_cache(tmp_path)
    assert stored_answer(cache, KEY) is None
    assert "answers of an earlier version of bayescontam are not used: 'subset' and" in note


@pytest.mark.parametrize(
    "content",
    [b"", b'{"reasoning": "x"', b"\xff", b'{"is_duplicate": false}', b"null",
     ANSWER.model_dump_json().replace("equivalent", "unrelated").encode()],
)  # fmt: skip
def test_what_cannot_be_read_is_no_answer(tmp_path: Path, content: bytes) -> None:
    cache, _ = answer_cache(tmp_path)
    cache.put(KEY, ANSWER.model_dump_json())
    (path,) = tmp_path.rglob("*.json")
    path.write_bytes(content)
    assert stored_answer(cache, KEY) is None


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match=r"cannot be made .*choose another folder"):
            answer_cache(folder)
