"""Templates: which fields stand where, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.specs.template import Slot, Template


@pytest.mark.parametrize(
    ("text", "names", "filled"),
    [
        ("{a}", ("a",), "A"),
        ("Q: {a}\nA: {b}", ("a", "b"), "Q: A\nA: B"),
        ("{a}{a} {b}", ("a", "b"), "AA B"),
        ("{{{a}}}", ("a",), "{A}"),
        ("{{a}} {b}", ("b",), "{a} B"),
        ("{a.b c?}", ("a.b c",), "N"),
        ("{a:b!r}", ("a:b!r",), "C"),
    ],
)
def test_fields_stand_where_they_are_named(text: str, names: tuple[str, ...], filled: str) -> None:
    template = Template.parse(text)
    assert template.names == names
    assert not template.is_field
    texts = {"a": "A", "b": "B", "a.b c": "N", "a:b!r": "C"}
    assert template.fill(texts) == filled


@pytest.mark.parametrize("text", ["text", "meta.site", "what?", "a b", "#", "%s $x"])
def test_a_name_without_braces_is_a_field(text: str) -> None:
    assert Template.parse(text) == Template((Slot(text),), is_field=True)


def test_a_question_mark_allows_a_field_to_be_missing() -> None:
    assert Template.parse("{a?}{b}{what??}").slots == (
        Slot("a", optional=True), Slot("b"), Slot("what?", optional=True),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "{a",
            "'{' stands alone at character 1: a field is written {field}, and braces themselves",
        ),
        ("a}", "'}' stands alone at character 2"),
        ("{a} {b{c}}", "'{' stands alone at character 5"),
        ("{{a}", "'}' stands alone at character 4"),
        ("{a} {}", "'{}' names no field: write {field}, or {field?} for one that may be missing"),
        ("{a} {?}", "'{?}' names no field"),
        ("{{}}", "names no field: write {field} where the text of a field stands"),
    ],
)
def test_braces_that_name_nothing_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"field") as raised:
        Template.parse(text)
    assert str(raised.value).startswith(problem)


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_literal_text_can_be_written(start: str, end: str) -> None:
    doubled = [part.replace("{", "{{").replace("}", "}}") for part in (start, end)]
    assert Template.parse(f"{doubled[0]}{{x}}{doubled[1]}").fill({"x": "{y}"}) == (
        f"{start}{{y}}{end}"
    )
