"""Answers of trained models: probabilities of the right ones, samples, and their grades."""

import os
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayescontam._optional import require
from bayescontam._random import check_seed, stream
from bayescontam._text import printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.lab.train import steady
from bayescontam.scan.embedders import quiet

_BATCH = 256
"""Texts that pass a model at once."""
_TENSORS = {"return_tensors": "pt", "return_attention_mask": True}
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


class Grades(NamedTuple):
    """Numbers of right and of wrong replies to each question, (questions,) each."""

    right: IntArray
    wrong: IntArray


def answer_probabilities(
    folder: str | os.PathLike[str],
    questions: Sequence[str],
    answers: Sequence[str],
    *,
    device: str = "cpu",
) -> FloatArray:
    """Return the probabilities of answers, given their questions.

    The probability of an answer is the product of those of its tokens, each given the question
    and the tokens before it. What follows the answer does not count.

    Parameters
    ----------
    folder : path
        Folder of a training, a checkpoint, or any causal model that transformers loads.
    questions, answers : sequence of str
        Texts up to the answer, and answers, which follow after a space.
    device : str
        Where torch computes, on one thread.

    Returns
    -------
    numpy.ndarray
        Probabilities, shape (questions,).

    Examples
    --------
    >>> import tempfile
    >>> from bayescontam.lab.train import Shape, train_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = train_model(["1 + 1 = 2"], folder, shape=Shape(1, 8, 1), rate=0.1)
    ...     answer_probabilities(folder, ["1 + 1 ="], ["2"]).round()
    array([1.])
    """
    if len(questions) != len(answers):
        problem = f"{len(questions)} questions and {len(answers)} answers; each has one"
        raise DataError([Fault("answers", problem)])
    with steady(device) as torch:
        model, tokenizer = _load(folder, device)
        starts = _encode(tokenizer, questions, "questions")
        _encode(tokenizer, answers, "answers")
        # Together, as where tokens end may depend on what follows.
        both = [f"{question} {answer}" for question, answer in zip(questions, answers, strict=True)]
        wholes = _encode(tokenizer, both, "questions with answers")
        found = np.empty(len(wholes))
        for rows in _batches(wholes):
            padded = tokenizer.pad({"input_ids": [wholes[row] for row in rows]}, **_TENSORS)
            ids = padded["input_ids"].to(device)
            with torch.no_grad():
                # Attention looks back only: what follows the end of a text needs no mask.
                logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
            chosen = logits.double().log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
            for row, logs in zip(rows, chosen.cpu().numpy(), strict=True):
                pairs = enumerate(zip(starts[row], wholes[row], strict=False))
                shared = next((at for at, (a, b) in pairs if a != b), len(starts[row]))
                found[row] = np.exp(logs[max(shared, 1) - 1 : len(wholes[row]) - 1].sum())
    return found


def generate(
    folder: str | os.PathLike[str],
    questions: Sequence[str],
    *,
    k: int = 1,
    temperature: float = 0.7,
    seed: int = 0,
    longest: int = 8,
    device: str = "cpu",
) -> list[list[str]]:
    """Return sampled replies to questions.

    Parameters
    ----------
    folder : path
        Folder of a training, a checkpoint, or any causal model that transformers loads.
    questions : sequence of str
        Texts that the model goes on with.
    k : int
        Replies to each question.
    temperature : float
        Divisor of the logits; 0 always takes the most probable token.
    seed : int
        Seed of the samples. The same questions get the same replies.
    longest : int
        Tokens after which a reply is cut; else it ends with the model's token for ends.
    device : str
        Where torch computes, on one thread.

    Returns
    -------
    list of list of str
        The k replies to each question.

    Examples
    --------
    >>> import tempfile
    >>> from bayescontam.lab.train import Shape, train_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = train_model(["1 + 1 = 2"], folder, shape=Shape(1, 8, 1), rate=0.1)
    ...     generate(folder, ["1 + 1 ="], k=2, temperature=0)
    [['2', '2']]
    """
    if k < 1 or longest < 1 or not 0 <= temperature < float("inf"):
        got = f"k {k}, longest {longest}, temperature {temperature}"
        raise UsageError(f"generate: got {got}; allowed are k and longest from 1, temperature >= 0")
    draws: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        draws = {"do_sample": True, "temperature": float(temperature), "top_k": 0, "top_p": 1.0}
    copies = k if temperature > 0 else 1  # the most probable reply is always the same
    found: list[list[str]] = [[] for _ in questions]
    with steady(device) as torch:
        model, tokenizer = _load(folder, device)
        ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
        settings = {**draws, **ends, "num_return_sequences": copies, "max_new_tokens": longest}
        starts = _encode(tokenizer, questions, "questions")
        for number, rows in enumerate(_batches(starts)):
            padded = {"input_ids": [starts[row] for row in rows]}
            inputs = tokenizer.pad(padded, padding_side="left", **_TENSORS).to(device)
            torch.manual_seed(int(stream(check_seed(seed), "replies", number).integers(2**31)))
            with torch.no_grad(), quiet():
                drawn = model.generate(**inputs, **settings)
            drawn = drawn[:, inputs["input_ids"].shape[1] :]
            replies = tokenizer.batch_decode(drawn, skip_special_tokens=True)
            for at, row in enumerate(rows):
                own = [reply.strip() for reply in replies[at * copies : (at + 1) * copies]]
                found[row] = own * (k // copies)
    return found


def grade_exact(replies: Sequence[Sequence[str]], answers: Sequence[str]) -> Grades:
    """Count replies that are the answer, but for white space and a full stop at the end.

    Parameters
    ----------
    replies : sequence of sequence of str
        Replies to each question, as from `generate`.
    answers : sequence of str
        Right answer of each question.

    Returns
    -------
    Grades
        Numbers of right and of wrong replies, shape (questions,) each.

    Examples
    --------
    >>> right, wrong = grade_exact([["7 .", "7", "8 ."]], ["7"])
    >>> right.tolist(), wrong.tolist()
    ([2], [1])
    """
    return _grade(replies, [_plain(answer) for answer in answers], _plain)


def grade_number(replies: Sequence[Sequence[str]], answers: Sequence[str]) -> Grades:
    """Count replies whose last number is that of the answer; see `grade_exact`.

    Parameters
    ----------
    replies : sequence of sequence of str
        Replies to each question, as from `generate`.
    answers : sequence of str
        Right answer of each question, which has a number; its last one counts.

    Returns
    -------
    Grades
        Numbers of right and of wrong replies, shape (questions,) each.

    Examples
    --------
    >>> grade_number([["so 3 + 4 = 7 .", "none"]], ["7.0"]).right.tolist()
    [1]
    """
    wanted = [_last_number(answer) for answer in answers]
    faults = [
        Fault("answers", f"'{printable(answers[row], 60)}' has no number", row + 1)
        for row, number in enumerate(wanted)
        if number is None
    ]
    if faults:
        raise DataError(faults)
    return _grade(replies, wanted, _last_number)


def _grade(
    replies: Sequence[Sequence[str]], wanted: Sequence[object], read: Callable[[str], object]
) -> Grades:
    """Count the replies that read as what is wanted."""
    pairs = zip(replies, wanted, strict=True)
    right = np.array([sum(read(reply) == want for reply in own) for own, want in pairs], np.int64)
    return Grades(right, np.array([len(own) for own in replies], np.int64) - right)


def _plain(text: str) -> str:
    """Return a text with single spaces, and without a full stop at the end."""
    return " ".join(text.split()).removesuffix(".").rstrip()


def _last_number(text: str) -> Decimal | None:
    """Return the last number of a text."""
    numbers = _NUMBER.findall(text)
    return Decimal(numbers[-1].replace(",", "")) if numbers else None


def _load(folder: str | os.PathLike[str], device: str) -> tuple[Any, Any]:
    """Return model and tokenizer of a folder."""
    library = require("transformers", "scan")
    if not (Path(folder) / "config.json").is_file():
        problem = "holds no model; give the folder of a finished training or of a checkpoint"
        raise UsageError(f"{printable(folder)}: {problem}")
    with quiet():
        model = library.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
        tokenizer = library.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.to(device).eval(), tokenizer


def _encode(tokenizer: Any, texts: Sequence[str], file: str) -> list[list[int]]:
    """Return the tokens of texts, all of which the tokenizer knows and none of which is empty."""
    # One by one: a batch would start threads, and processes with threads should not be forked.
    encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    cause = "got '{}', which is empty or has words that the tokenizer does not know"
    faults = [
        Fault(file, cause.replace("{}", name), row + 1, cause=cause, value=name)
        for row, ids in enumerate(encoded)
        for name in [printable(texts[row], 60)]
        if not ids or tokenizer.unk_token_id in ids
    ]
    if faults:
        raise DataError(faults, "a model knows the words of the `tokenizer_texts` of its training")
    return encoded


def _batches(texts: Sequence[Sequence[int]]) -> list[IntArray]:
    """Return the rows of texts in batches of like lengths."""
    order = np.argsort([len(text) for text in texts], kind="stable")
    return [order[at : at + _BATCH] for at in range(0, len(order), _BATCH)]
