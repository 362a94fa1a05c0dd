"""Answers of trained models: probabilities of the right ones, and sampled replies."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayescontam._random import check_seed, stream
from bayescontam._text import printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.lab.items import first_of_answer, joined, without_stop
from bayescontam.lab.models import load_model, positions
from bayescontam.lab.tokenizers import start_tokens
from bayescontam.lab.train import steady
from bayescontam.scan.embedders import quiet

_MOST_TEXTS, _MOST_NUMBERS = 256, 1 << 27
"""Texts that pass a model at once, and about how many numbers these may need (half a gigabyte)."""
_TENSORS = {"return_tensors": "pt", "return_attention_mask": True}
_FULL_STOPS = (".", " .")


class Loaded(NamedTuple):
    """A model and its tokenizer."""

    model: Any
    tokenizer: Any


type Model = str | os.PathLike[str] | Loaded
"""Folder of a training, or of any causal model that transformers loads; or loaded already."""


def answer_probabilities(
    model: Model,
    questions: Sequence[str],
    answers: Sequence[str],
    *,
    gaps: Sequence[str] | None = None,
    temperature: float = 1.0,
    ends: bool = False,
    longest: int | None = None,
    device: str = "cpu",
) -> FloatArray:
    """Return the probabilities of answers, given their questions.

    The probability of an answer is the product of those of its tokens, each given the question
    and the tokens before it.

    Parameters
    ----------
    model : path or Loaded
        Folder of a training, or of any causal model that transformers loads.
    questions, answers : sequence of str
        Texts up to the answer, and answers.
    gaps : sequence of str, optional
        What stands between each question and its answer. Default: a space, or nothing where the
        question ends with white space.
    temperature : float, default 1
        Divisor of the logits, as in `generate`; at 0 a probability is 1 if each token is the most
        probable one, else 0.
    ends : bool, default False
        Whether the reply has to end after the answer, at once or after a full stop; one at the
        end of the answer itself may be lacking. Then the probability is that of a reply which
        `grade_exact` takes for right, but for replies that spell the answer in other tokens or
        have white space after it.
    longest : int, optional
        Tokens after which a reply is cut, as in `generate`: what is cut needs no end. Default:
        replies are not cut.
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
    _check_temperature(temperature)
    with steady(device) as torch:
        loaded = load(model, device)
        starts = _encode(loaded, questions, "questions")
        _encode(loaded, answers, "answers")
        plain = [without_stop(answer) for answer in answers] if ends else answers
        between: Sequence[str | None] = [None] * len(answers) if gaps is None else gaps
        # Together, as where tokens end may depend on what follows.
        texts = [joined(*parts) for parts in zip(questions, plain, between, strict=True)]
        wholes = _encode(loaded, texts, "questions with answers", int(ends))
        stops = _stops(loaded.tokenizer) if ends else []
        firsts = [*map(first_of_answer, starts, wholes)]
        sizes = np.array([len(whole) for whole in wholes])
        own, ended = np.empty(len(wholes)), np.zeros(len(wholes))
        room = np.full(len(wholes), 2) if longest is None else longest - (sizes - firsts)
        # Texts with a full stop show the probabilities of both ends.
        for number, stop in enumerate([[token] for token in stops] or [[]]):
            longer = [[*whole, *stop] for whole in wholes]
            for row, chosen, end in _logs(torch, loaded, longer, temperature, device):
                size = sizes[row]
                own[row] = chosen[max(firsts[row], 1) - 1 : size - 1].sum()
                if not number:
                    ended[row] += np.exp(end[size - 1])
                if stop:
                    after = end[size] if room[row] > 1 else 0.0
                    ended[row] += np.exp(chosen[size - 1] + after)
    # A reply that is cut after the answer needs no end; a longer answer is never given.
    share = np.select([room < 0, room == 0], [0.0, 1.0], ended) if ends else 1.0
    return np.minimum(np.exp(own) * share, 1.0)


def generate(
    model: Model,
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
    model : path or Loaded
        Folder of a training, or of any causal model that transformers loads.
    questions : sequence of str
        Texts that the model continues.
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
    if k < 1 or longest < 1:
        raise UsageError(f"replies: got k {k}, longest {longest}; allowed is 1 or more")
    _check_temperature(temperature)
    draws: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        draws = {"do_sample": True, "temperature": float(temperature), "top_k": 0, "top_p": 1.0}
    copies = k if temperature > 0 else 1  # the most probable reply is always the same
    found: list[list[str]] = [[] for _ in questions]
    with steady(device) as torch:
        network, tokenizer = loaded = load(model, device)
        ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
        settings = {**draws, **ends, "num_return_sequences": copies, "max_new_tokens": longest}
        starts = _encode(loaded, questions, "questions", longest)
        config = network.config.get_text_config()
        # Keys and values of each layer, and the last logits.
        each = copies * 2 * config.num_hidden_layers * config.hidden_size
        for number, rows in enumerate(_batches(starts, each, 4 * copies * len(tokenizer), longest)):
            padded = {"input_ids": [starts[row] for row in rows]}
            inputs = tokenizer.pad(padded, padding_side="left", **_TENSORS).to(device)
            torch.manual_seed(int(stream(check_seed(seed), "replies", number).integers(2**31)))
            with torch.no_grad(), quiet():
                drawn = network.generate(**inputs, **settings)
            drawn = drawn[:, inputs["input_ids"].shape[1] :]
            replies = tokenizer.batch_decode(drawn, skip_special_tokens=True)
            for at, row in enumerate(rows):
                found[row] = replies[at * copies : (at + 1) * copies] * (k // copies)
    return found


def load(model: Model, device: str) -> Loaded:
    """Return model and tokenizer of a folder, or those that are loaded."""
    if isinstance(model, Loaded):
        return model
    if not (Path(model) / "config.json").is_file():
        problem = "holds no model; give the folder of a finished training"
        raise UsageError(f"{printable(model)}: {problem}")
    network, tokenizer = load_model(os.fspath(model))
    if tokenizer.eos_token_id is None:
        problem = "its tokenizer has no token for ends (eos_token); choose another model"
        raise UsageError(f"{printable(model)}: {problem}")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return Loaded(network.to(device).eval(), tokenizer)


def _check_temperature(temperature: float) -> None:
    if not 0 <= temperature < float("inf"):
        raise UsageError(f"temperature: got {temperature}; allowed is a number from 0 on")


def _logs(
    torch: Any, loaded: Loaded, texts: Sequence[Sequence[int]], temperature: float, device: str
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Yield the row of each text, and the logarithms of the probabilities after each token.

    They are those of the token that follows in the text, and of that for ends.
    """
    tokenizer = loaded.tokenizer
    for rows in _batches(texts, 6 * len(tokenizer)):  # of double size
        some = {"input_ids": [texts[row] for row in rows]}
        ids = tokenizer.pad(some, padding_side="right", **_TENSORS)["input_ids"].to(device)
        with torch.no_grad():
            # Attention looks back only: what follows the end of a text needs no mask.
            logits = loaded.model(input_ids=ids, use_cache=False).logits.double()
        logs = _log_probabilities(logits, temperature)
        chosen = logs[:, :-1].gather(-1, ids[:, 1:, None])[..., 0].cpu().numpy()
        ending = logs[..., tokenizer.eos_token_id].cpu().numpy()
        yield from zip(rows.tolist(), chosen, ending, strict=True)


def _log_probabilities(logits: Any, temperature: float) -> Any:
    """Return the logarithms of the probabilities of next tokens; logits (text, place, token)."""
    if temperature > 0:
        return (logits / temperature).log_softmax(-1)
    best = logits.argmax(-1, keepdim=True)
    return logits.new_full(logits.shape, -np.inf).scatter(-1, best, 0.0)


def _stops(tokenizer: Any) -> list[int]:
    """Return the tokens that are full stops."""
    known = [tokenizer.encode(text, add_special_tokens=False) for text in _FULL_STOPS]
    found = {ids[0] for ids in known if len(ids) == 1}
    return sorted(found - {tokenizer.unk_token_id})


def _encode(loaded: Loaded, texts: Sequence[str], file: str, more: int = 0) -> list[list[int]]:
    """Return the tokens of texts, which the model knows and which fit into it, with `more`.

    They begin as in training: with the token for starts, if the tokenizer sets one.
    """
    tokenizer, most = loaded.tokenizer, positions(loaded.model) or 10**9
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
        raise DataError(faults, "a model of words knows those of its training texts")
    start = start_tokens(tokenizer)
    encoded = [[*start, *ids] for ids in encoded]
    for row, ids in enumerate(encoded, start=1):
        if len(ids) + more > most:
            replies = f" and {more:,} of a reply" if more else ""
            problem = f"{len(ids):,} tokens{replies}; the model takes {most:,}"
            faults.append(Fault(file, problem, row))
    if faults:
        raise DataError(faults)
    return encoded


def _batches(
    texts: Sequence[Sequence[int]], per_token: int, per_text: int = 0, more: int = 0
) -> list[IntArray]:
    """Return the rows of texts in batches of like lengths, by what each text needs of memory."""
    lengths = np.array([len(text) + more for text in texts])
    order = np.argsort(lengths, kind="stable")
    batches, at = [], 0
    while at < len(order):
        ahead = lengths[order[at : at + _MOST_TEXTS]]
        needed = np.arange(1, len(ahead) + 1) * (ahead * per_token + per_text)
        size = max(int((needed <= _MOST_NUMBERS).sum()), 1)
        batches.append(order[at : at + size])
        at += size
    return batches
