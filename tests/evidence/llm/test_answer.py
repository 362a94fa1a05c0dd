"""Answers: found in what a model writes, and read strictly."""

import json
from typing import get_args

import pytest

from bayescontam.data.judgements import KINDS
from bayescontam.evidence.llm import Answer, Kind, read_answer
from bayescontam.replies import json_objects
from tests.support.llm_server import VERDICT

TEXT = json.dumps(VERDICT)
OTHER = json.dumps({**VERDICT, "is_duplicate": False, "kind": "related"})


def test_kinds_are_those_of_judgements() -> None:
    assert list(get_args(Kind.__value__)) == list(KINDS)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"\n{TEXT}\n",
        f"```json\n{json.dumps(VERDICT, indent=2)}\n```",
        f"I compare {{both}} texts. Here: {TEXT} {{",
        f"{TEXT} and once more {TEXT}",
        f'{{"note": 1}} {TEXT}',
        f"[{TEXT}]",
        f"<answer>{TEXT}</answer><|im_end|>",
        f"{TEXT}<end_of_turn>\n<eos>",
        f"{TEXT}<｜end▁of▁sentence｜>",
        f"{TEXT}</s> [DONE]",
        f"[INST]{TEXT}[/INST]",
        f"[ANSWER]{TEXT}[/ANSWER]",
        f"{TEXT}\n\nLet me know if you need anything else!",
        f"```json\n{TEXT}\n```\nI hope this helps.",
        f"{TEXT}\nLet me know if you would like more.<|eot_id|>",
        f"{TEXT}\n\nI hope this answers your question. Feel free to ask, if you have any other.",
        f"<think>Perhaps {OTHER}. No.</think>\n{TEXT}",
        f"Perhaps {OTHER}. No.\n</think>\n\n{TEXT}",
    ],
)
def test_an_answer_is_found(text: str) -> None:
    assert read_answer(text).model_dump() == VERDICT


def test_a_verdict_quoted_in_the_reasoning_is_none() -> None:
    text = json.dumps({**VERDICT, "reasoning": f"The chunk says {OTHER}"})
    assert read_answer(text).is_duplicate


def test_half_a_character_in_the_reasoning_does_no_harm() -> None:
    answer = read_answer(TEXT.replace("same", "so \\ud83d"))
    assert answer == Answer(**{**VERDICT, "reasoning": "so ?"})
    assert Answer.model_validate_json(answer.model_dump_json()) == answer


def test_a_mark_of_thoughts_may_be_quoted_in_the_reasoning() -> None:
    answer = read_answer(TEXT.replace("same", "both hold <think>"))
    assert answer.reasoning == "both hold <think>"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no JSON object in ''"),
        ("{" * 20_000, "no JSON object"),
        ('{"a":' * 20_000, "no JSON object"),
        (f"{TEXT}\n{OTHER}", "2 answers that differ"),
        (f'{{"answer": {TEXT}}}', "Field required"),
        (f"<think>Perhaps {TEXT}. No, wrong.</think> They differ; I cannot decide.", "They differ"),
        (f"<think>First: {TEXT} hmm but wait", "ends within <think>"),
        (f"<think>First: {TEXT}", "ends within <think>"),
        (f"Example of format: {TEXT}. My answer: not a duplicate.", "words follow the JSON object"),
        (f'{TEXT}\n{{"reasoning": "but', "words follow the JSON object"),
        *(
            (f"{TEXT} {rest}", "words follow the JSON object")
            for rest in (
                "No.",
                "Wait, they share a topic only.",
                "On reflection: related.",
                "Unrelated!",
                "It isn't.",
                "[NO]",
                "confidence 0.2",
                "That was an example.",
                '{"kind":',
                "Nein: völlig anders.",
                "不对",
                "The texts differ.",
                "They share a topic only.",
                "I take that back: they are distinct.",
                "Scratch that.",
                "Opposite of the above.",
                "This is uncertain.",
                "The above is a placeholder.",
                "I misread the text, they are distinct.",
                "Re-reading: the two texts share only a topic.",
                "<think>Hm, the texts are distinct",
                "<unrelated>",
                "</unrelated>",
                "<not_a_duplicate>",
                "<|not_a_duplicate|>",
                "[/not_a_duplicate]",
                "Howev",
                "?",
                "❌",
                "I hope this is a placeholder.",
                "Let me know if you need more: they are distinct.",
                "Feel free to ask\u2014they are distinct",
            )
        ),
        (TEXT[:-1] + ', "is_duplicate": false}', "no JSON object"),
        (TEXT.replace("0.9", "NaN"), "finite number"),
        (TEXT.replace("0.9", "Infinity"), "finite number"),
        (TEXT.replace("0.9", "-0.1"), "confidence is -0.1, not from 0 to 1"),
        (TEXT.replace("0.9", '"0.9"'), "confidence: "),
        (TEXT.replace("0.9", "true"), "confidence: "),
        (TEXT.replace("true", "1"), "is_duplicate: "),
        (TEXT.replace("equivalent", "Equivalent"), "kind: "),
    ],
)
def test_what_is_no_answer(text: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        read_answer(text)


@pytest.mark.parametrize("rest", ["Let me know", "I hope this helps.", "```", "</s>"])
def test_nothing_may_follow_an_answer_that_was_cut_off(rest: str) -> None:
    assert read_answer(f"{TEXT}\n{rest}").is_duplicate
    assert read_answer(f"{TEXT}\n", cut_off=True).is_duplicate
    with pytest.raises(ValueError, match="words follow the JSON object"):
        read_answer(f"{TEXT}\n{rest}", cut_off=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("duplicate", [True, False])
def test_kinds_agree_with_verdicts(kind: str, duplicate: bool) -> None:
    allowed = {"exact": {True}, "equivalent": {True}, "unrelated": {False}}
    text = json.dumps({**VERDICT, "kind": kind, "is_duplicate": duplicate})
    if duplicate in allowed.get(kind, {True, False}):
        assert read_answer(text) == Answer(
            reasoning="same", kind=kind, is_duplicate=duplicate, confidence=0.9
        )
    else:
        with pytest.raises(ValueError, match="contradicts"):
            read_answer(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r'{"reasoning": "\( x \) and \usepackage", "n": 1}', r"\( x \) and \usepackage"),
        ('{"reasoning": "two\nlines", "n": 1}', "two\nlines"),
        (r'so: {"reasoning": "\\alpha \alpha \"so\" \u00e9", "n": 1}', r'\alpha \alpha "so" é'),
    ],
)
def test_formulas_and_line_breaks_are_read(text: str, wanted: str) -> None:
    assert json_objects(text) == [{"reasoning": wanted, "n": 1}]
