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


@pytest.mark.parametrize(
    ("text", "record", "expected"),
    [
        ("Q: {q}\nA: {a}", {"q": "Why?", "a": "So."}, "Q: Why?\nA: So."),
        ("{meta.q} {{x}}", {"meta": {"q": "Why?"}}, "Why? {x}"),
        ("{q} ({n}, {share})", {"q": "Why?", "n": 3, "share": 0.5}, "Why? (3, 0.5)"),
        ("{q}: {list}", {"q": "Why?", "list": ["a", "b"]}, "Why?: a\n\nb"),
        ("{q}{note?}", {"q": "Why?"}, "Why?"),
        ("{q}{note?}", {"q": "Why?", "note": None}, "Why?"),
        ("{q}{note?}", {"q": "Why?", "note": "!"}, "Why?!"),
        (["{q}?", "a"], {"q": "Why", "a": "So."}, "Why?\n\nSo."),
        ("{chat}", {"chat": [{"role": "user", "content": "Hi"}]}, "Hi"),
    ],
)
def test_templates_put_fields_together(text: Any, record: Any, expected: str) -> None:
    assert fields(text=text).text_of(record) == expected


@pytest.mark.parametrize(
    ("text", "record", "reason"),
    [
        ("{q}: {a}", {"q": "Why?"}, "no field 'a'"),
        ("{q}: {a}", {"q": "Why?", "a": None}, "field 'a' is empty"),
        ("{q}: {a}", {"q": "Why?", "a": " \n"}, "field 'a' is empty"),
        ("{q}: {a}", {"q": "Why?", "a": True}, "field 'a' is not text"),
        ("{q}: {a}", {"q": "Why?", "a": {"b": 1}}, "field 'a' is not text"),
        ("{q}: {a}", {"q": "", "a": ""}, "empty"),
        ("Q: {q?}", {"q": None}, "empty"),
        ("Q: {q?}", {}, "empty"),
    ],
)
def test_reasons_of_records_that_lack_what_a_template_needs(
    text: Any, record: Any, reason: str
) -> None:
    with pytest.raises(Unreadable) as raised:
        fields(text=text).text_of(record)
    assert str(raised.value) == reason


SYSTEM = {"role": "system", "content": "Be brief."}
CHAT = [SYSTEM, USER, {"role": "assistant", "content": "Yes?"}]


@pytest.mark.parametrize(
    ("options", "chat", "expected"),
    [
        ({"chat": "{role}: {content}"}, CHAT, "system: Be brief.\n\nuser: Hi\n\nassistant: Yes?"),
        ({"roles": ("user", "assistant")}, CHAT, "Hi\n\nYes?"),
        ({"chat": "<{role}> {content}", "roles": ("user",)}, CHAT, "<user> Hi"),
        ({"chat": "{role}: {content}", "roles": {"user": "Prompt", "assistant": "Response"}}, CHAT,
         "Prompt: Hi\n\nResponse: Yes?"),
        ({"chat": "[{content}]"}, [{"from": "human", "value": "Hi"}], "[Hi]"),
        ({"chat": "{role}: {content}"}, [{"from": "human", "value": "Hi"}], "human: Hi"),
        ({"chat": "{role}: {content}"}, [{"role": "user", "content": PARTS}],
         "user: One\n\nTwo"),
        ({"chat": "{role}: {content}"}, USER, "user: Hi"),
        ({"chat": "{role}: {content}"}, [[USER], [SYSTEM]], "user: Hi\n\nsystem: Be brief."),
        ({"chat": "{role}: {content}"},
         [USER, {"role": "assistant", "content": None, "tool_calls": []}], "user: Hi"),
        ({"chat": "{role}: {content}"}, [USER, {"role": "assistant", "tool_calls": []}],
         "user: Hi"),
        ({"chat": "{role}: {content}"}, "plain text", "plain text"),
    ],
)  # fmt: skip
def test_messages_keep_their_roles(options: Any, chat: Any, expected: str) -> None:
    assert fields(text="chat", **options).text_of({"chat": chat}) == expected


@pytest.mark.parametrize(
    ("chat", "reason"),
    [
        ([{"content": "Hi"}], "a message has no role"),
        ([{"value": "Hi"}], "a message has no role"),
        ([{"role": None, "content": "Hi"}], "a message has no role"),
        ([SYSTEM], "no message of the roles that are scanned"),
        ([{"role": "system", "text": "Hi"}], "no message of the roles that are scanned"),
        (["Hi"], "a message has no role"),
        ("Hi", "a message has no role"),
        ([{"role": "user", "content": ""}], "empty"),
        ([{"role": "user", "content": 5}], "field 'chat' is not text"),
        ([USER, 5], "field 'chat' is not text"),
    ],
)
def test_reasons_of_unreadable_chats(chat: Any, reason: str) -> None:
    with pytest.raises(Unreadable) as raised:
        fields(text="chat", roles=("user", "assistant")).text_of({"chat": chat})
    assert str(raised.value) == reason


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_missing_is_no_word(number: float) -> None:
    record = {"a": number, "b": "B"}
    assert fields(text="{b} {a?}").text_of(record).strip() == "B"
    with pytest.raises(Unreadable, match="field 'a' is empty"):
        fields(text="{b} {a}").text_of(record)


def test_messages_that_are_left_out_are_counted_by_role() -> None:
    made = fields(text="chat", roles=("user",))
    for _ in range(3):
        made.text_of({"chat": CHAT})
    assert made.chat is not None
    assert made.chat.left_out == {"system": 3, "assistant": 3}
    assert made.hint() == (
        "other roles there: 'system', 'assistant'; roles names those that are scanned"
    )
    many = fields(text="chat", roles=("user",))
    many.text_of({"chat": [USER, *({"role": str(i), "content": "a"} for i in range(1000))]})
    assert many.chat is not None
    assert (many.chat.left_out.total(), len(many.chat.left_out)) == (1000, 101)


@pytest.mark.parametrize(
    ("where", "record", "left_out"),
    [
        ({}, {"a": 1}, False),
        ({"a": "x"}, {"a": "x"}, False),
        ({"a": "x"}, {"a": "X"}, True),
        ({"a": "x"}, {"a": "x "}, True),
        ({"a": "x"}, {}, True),
        ({"a": "x"}, {"a": None}, True),
        ({"a": ("x", "y")}, {"a": "y"}, False),
        ({"a": ("x", "y")}, {"a": "z"}, True),
        ({"a": "x", "b": 1}, {"a": "x", "b": 1}, False),
        ({"a": "x", "b": 1}, {"a": "x", "b": 2}, True),
        ({"a": 3}, {"a": 3.0}, False),
        ({"a": 3}, {"a": "3"}, True),
        ({"a": 1}, {"a": True}, True),
        ({"a": True}, {"a": True}, False),
        ({"a": True}, {"a": 1}, True),
        ({"a": False}, {"a": 0}, True),
        ({"a": ("x",)}, {"a": ["x"]}, True),
        ({"meta.site": "x"}, {"meta": {"site": "x"}}, False),
        ({"meta.site": "x"}, {"meta": {"site": "y"}}, True),
        ({"a": "x"}, [1], False),
        ({"a": "x"}, Unreadable("not JSON"), False),
    ],
)
def test_records_are_chosen_by_the_values_of_fields(
    where: Any, record: Any, left_out: bool
) -> None:
    assert fields(where=where).leaves_out(record) is left_out


def test_fields_that_no_record_has_are_known_afterwards() -> None:
    made = fields(text="{q}{note?}{hint?}", where={"level": "hard", "sort": 1})
    for record in ({"q": "a", "level": "easy"}, {"q": "a", "hint": None, "level": "hard"}):
        made.leaves_out(record)
        made.text_of(record)
    assert made.missing == ["note", "sort"]
    assert made.others == {"level": ["'easy'"], "sort": []}


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
