"""Fields: names, strata and texts are taken from where the manifest says they are."""

from typing import Any

import pytest

from bayescontam.scan.fields import ABSENT, Fields, Unreadable, look_up, plain_text
from bayescontam.specs.corpus import Source


def fields(**options: Any) -> Fields:
    return Fields.of("a.jsonl", Source(name="s", paths=("a.jsonl",), **options))


@pytest.mark.parametrize(
    ("record", "name", "value"),
    [
        ({"a": 1}, "a", 1),
        ({"a": None}, "a", None),
        ({"a": {"b": {"c": 1}}}, "a.b.c", 1),
        ({"a.b": 1, "a": {"b": 2}}, "a.b", 1),
        ({"a": {"b.c": 1}}, "a.b.c", 1),
        ({"a": [{"b": 1}, {}, {"b": 2}]}, "a.b", [1, 2]),
        ({"a": [[{"b": 1}], [{"b": 2}]]}, "a.b", [[1], [2]]),
        ({"a": None}, "a.b", None),
        ({"a": 1}, "b", ABSENT),
        ({"a": 1}, "a.b", ABSENT),
        ({"a": {"b": 1}}, "a.c", ABSENT),
        ({"a": []}, "a.b", ABSENT),
        ({"a.b": 1}, "a", ABSENT),
        ({"": 1}, "", 1),
        ({"a": {"": 1}}, "a.", ABSENT),
    ],
)
def test_look_up(record: Any, name: str, value: Any) -> None:
    assert look_up(record, name) == value


USER = {"role": "user", "content": "Hi"}
PARTS = [{"type": "text", "text": "One"}, {"type": "image_url", "image_url": {}}, "Two"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        ("", ""),
        (None, ""),
        (b"\xc3\xa9", "é"),
        ([], ""),
        (["a", "b"], "a\n\nb"),
        (["a", " \n", None, "", "b"], "a\n\nb"),
        ([USER, {"role": "assistant", "content": "Yes?"}], "Hi\n\nYes?"),
        (USER, "Hi"),
        ([{"role": "user", "content": PARTS}], "One\n\nTwo"),
        ([USER, {"role": "assistant", "content": None, "tool_calls": []}], "Hi"),
        ([USER, {"role": "assistant", "tool_calls": []}], "Hi"),
        (5, None),
        (True, None),
        ([USER, 5], None),
        ({"a": 1}, None),
        ([{"a": 1}], None),
    ],
)
def test_plain_text(value: Any, text: str | None) -> None:
    assert plain_text(value) == text


def test_bytes_that_are_no_utf8_are_unreadable() -> None:
    with pytest.raises(Unreadable, match=r"^not UTF-8$"):
        plain_text(["a", b"\xff"])


@pytest.mark.parametrize(
    ("text", "record", "expected"),
    [
        ("text", {"text": " a\r\n"}, " a\r\n"),
        (["question", "answer"], {"answer": "B", "question": "A"}, "A\n\nB"),
        (["question", "hint", "answer"], {"question": "A", "hint": "", "answer": "B"}, "A\n\nB"),
        (["question", "hint"], {"question": "A", "hint": None}, "A"),
        ("chat.value", {"chat": [{"from": "human", "value": "A"}, {"value": "B"}]}, "A\n\nB"),
    ],
)
def test_text_of_a_record(text: Any, record: Any, expected: str) -> None:
    assert fields(text=text).text_of(record) == expected


@pytest.mark.parametrize(
    ("text", "record", "reason"),
    [
        ("text", [1], "not an object"),
        ("text", None, "not an object"),
        ("text", Unreadable("not JSON"), "not JSON"),
        ("text", {"txt": "a"}, "no field 'text'"),
        ("meta.text", {"meta": {}}, "no field 'meta.text'"),
        (["question", "answer"], {"question": "A"}, "no field 'answer'"),
        ("text", {"text": 5}, "field 'text' is not text"),
        ("text", {"text": [5]}, "field 'text' is not text"),
        ("text", {"text": ""}, "empty"),
        ("text", {"text": " \t\r\n\u2003"}, "empty"),
        ("text", {"text": None}, "empty"),
        ("text", {"text": []}, "empty"),
        (["question", "answer"], {"question": " ", "answer": None}, "empty"),
        ("a\x1b[2Jb", {}, r"no field 'a\x1b[2Jb'"),
    ],
)
def test_reasons_of_unreadable_records(text: Any, record: Any, reason: str) -> None:
    with pytest.raises(Unreadable) as raised:
        fields(text=text).text_of(record)
    assert str(raised.value) == reason


def test_hint_names_the_fields_that_are_there() -> None:
    made = fields()
    assert made.hint() == ""
    for record in ({"id": 1, "source": "web", "content": "A"}, {"other": 1}):
        with pytest.raises(Unreadable):
            made.text_of(record)
    assert made.hint() == (
        "fields there: 'id', 'source', 'content'; set text = \"…\" to the one that holds the text"
    )


@pytest.mark.parametrize(
    ("options", "record", "name", "stratum"),
    [
        ({}, {"id": "a", "url": "b"}, "a", ""),
        ({"document": "url"}, {"id": "a", "url": "b"}, "b", ""),
        ({"document": "url"}, {"id": "a"}, "", ""),
        ({}, {"id": 7}, "7", ""),
        ({}, {"id": 0}, "0", ""),
        ({}, {"id": False}, "False", ""),
        ({}, {"id": b"\xff"}, "\\xff", ""),
        ({}, {"id": {"a": 1}}, "", ""),
        ({}, {"id": None}, "", ""),
        ({"document": "meta.id", "stratum": "meta.from"}, {"meta": {"id": 1, "from": 2}}, "1", "2"),
        ({"stratum": "from"}, {"from": "web/forum"}, "", "web/forum"),
        ({"stratum": "from"}, {"from": None}, "", ""),
        ({"stratum": "from"}, {}, "", ""),
    ],
)
def test_name_and_stratum(options: Any, record: Any, name: str, stratum: str) -> None:
    made = fields(**options)
    assert (made.name_of(record), made.stratum_of(record)) == (name, stratum)
