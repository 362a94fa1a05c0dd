"""What language models write: their answers, apart from thoughts and closing words."""

import json
import re
from collections.abc import Iterator
from typing import Any

_SHOWN = 200
_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPENED = re.compile(r"<(?:think|thinking|reasoning)>", re.IGNORECASE)
_CLOSED = re.compile(
    r"(?:^[ \t]*</(?:think|thinking|reasoning)>|</(?:think|thinking|reasoning)>[ \t]*$)",
    re.IGNORECASE | re.MULTILINE,
)
"""A mark that ends a line, or begins one; within a line it may be spoken of."""


def without_thoughts(text: str) -> str:
    """Return a reply without what a model thought before."""
    text = _THOUGHTS.sub("\n", text)
    # Some servers leave out the mark that opens the thoughts.
    return text[max((mark.end() for mark in _CLOSED.finditer(text)), default=0) :]


def unfinished_thought(text: str) -> str:
    """Return the mark of a thought that does not end in a reply `without_thoughts`, or nothing."""
    mark = _OPENED.search(text)
    return mark[0] if mark else ""


_TAGS = "answer|final_answer|json|output|response|result|judge?ment|inst"
_ENDS = (
    "im_end|endoftext|end|end_of_text|end_of_turn|end_of_message|end_of_sentence|end_of_turn_token"
    "|eot|eot_id|eom_id|eos|return"
)
_MARKS = re.compile(
    rf"</?s>|<eos>|<end_of_turn>|<\|(?:{_ENDS})\|>|<｜end▁of▁sentence｜>"
    rf"|</(?:{_TAGS})>|\[/(?:{_TAGS})\]|\[(?:done|eos|end of text)\]|```|~~~",
    re.IGNORECASE,
)
"""Marks with which a reply may end: models' own, tags around the answer, fences."""
_BRACKETS = " \t\r[](){}`\"'*,;"
_OPENINGS = (
    "let me know", "please let me know", "feel free", "please feel free", "i hope this",
    "i hope that", "i hope it", "hope this", "if you have any", "if you need", "thank you",
    "thanks",
)  # fmt: skip
_CLOSING_WORDS = {
    "a", "about", "additional", "all", "analysis", "and", "another", "answers", "any",
    "anything", "anytime", "are", "as", "ask", "assist", "assistance", "at", "be",
    "clarification", "clarifies", "clarify", "clear", "compare", "comparing", "comparison",
    "concerns", "detail", "detailed", "details", "else", "evaluate", "explanation",
    "explanations", "feel", "for", "free", "further", "happy", "have", "help", "helpful",
    "helps", "hope", "i", "if", "in", "information", "into", "is", "it", "know", "let", "like",
    "look", "makes", "me", "more", "need", "of", "on", "or", "other", "out", "pair", "pairs",
    "please", "provide", "question", "questions", "reach", "request", "requests", "sense",
    "some", "text", "texts", "thank", "thanks", "that", "the", "there", "these", "things",
    "this", "to", "useful", "want", "what", "wish", "with", "would", "you", "your",
}  # fmt: skip
"""All words that a closing sentence may hold: none of them can revoke an answer."""
_ESCAPE = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')
"""An escape of JSON, or a backslash that begins none, as models write LaTeX."""


def json_objects(text: str, *, cut_off: bool = False) -> list[dict[str, Any]]:
    """Return the outermost JSON objects in a reply; a ValueError if words may revoke the last.

    Nothing may follow it but marks of the end and closing sentences, and nothing at all in a
    reply that was cut off. LaTeX and line breaks in texts of objects are read as they are.
    """
    text = _ESCAPE.sub(lambda found: found[1] or r"\\", text)
    found = list(_objects(text))
    rest = text[found[-1][1] :].strip() if found else ""
    sentences = re.split(r"[.!\n]", _MARKS.sub("\n", rest))
    if rest and (cut_off or not all(map(_is_closing, sentences))):
        raise ValueError(f"words follow the JSON object: '{rest[:_SHOWN]}'")
    return [data for data, _ in found]


def _is_closing(sentence: str) -> bool:
    """Return whether a sentence ends a reply, as many do: "Let me know if you need more"."""
    sentence = " ".join(sentence.lower().strip(_BRACKETS).split())
    words = re.split("[ ,]+", sentence)
    return not sentence or (sentence.startswith(_OPENINGS) and _CLOSING_WORDS.issuperset(words))


def _objects(text: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Give each object with where it ends."""
    decoder = json.JSONDecoder(object_pairs_hook=_unrepeated, strict=False)
    at = text.find("{")
    while at >= 0:
        try:
            data, end = decoder.raw_decode(text, at)
            yield data, end
        except ValueError:
            end = at + 1
        except RecursionError:
            return  # no answer is so deep, and what is inside would be tried again and again
        at = text.find("{", end)


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a field comes twice")
    return dict(pairs)
