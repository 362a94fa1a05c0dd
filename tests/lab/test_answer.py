"""Probabilities against those of transformers itself, and samples against probabilities."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescontam.errors import DataError, UsageError
from bayescontam.lab import answer
from bayescontam.lab.answer import answer_probabilities, generate, load
from bayescontam.lab.grading import grade_exact
from bayescontam.lab.items import joined
from bayescontam.lab.models import Shape
from bayescontam.lab.tokenizers import piece_tokenizer, word_tokenizer
from bayescontam.lab.train import train_model
from tests.support.tiny_models import gpt2

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SUMS = [f"{a} + {b} = {a + b} ." for a in range(6) for b in range(6)]
MORE = [*SUMS, *(f"take {a} , add {b} : {a + b}" for a in range(6) for b in range(6))]
QUESTIONS = [text.rsplit(" ", 2)[0] for text in SUMS]
WORDS = sorted({word for text in MORE for word in text.split()})
OPTIONS: dict[str, Any] = {"shape": Shape(1, 16, 2), "epochs": 5, "batch": 8, "rate": 1e-2}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_model(MORE, tmp_path_factory.mktemp("lab") / "words", **OPTIONS).folder


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab") / "pieces"
    tokenizer = piece_tokenizer(MORE, 300)
    return train_model(SUMS, folder, tokenizer=tokenizer, **{**OPTIONS, "epochs": 2}).folder


def next_token(folder: Path, text: str, temperature: float = 1.0) -> Any:
    """Return the probabilities of the next token, from the model as transformers loads it."""
    own = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = word_tokenizer(MORE).encode(text).ids
    with torch.no_grad():
        logits = own(torch.tensor([ids])).logits[0, -1].double()
    return (logits / temperature).softmax(-1).numpy()


def token(word: str) -> int:
    found = word_tokenizer(MORE).token_to_id(word)
    assert found is not None
    return int(found)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_probabilities_of_answers_are_those_of_their_tokens(
    model: Path, temperature: float
) -> None:
    question = "take 2 , add"
    questions, answers = [question, "1 + 1 =", question], ["3 : 5", "2", "3"]
    found = answer_probabilities(model, questions, answers, temperature=temperature)
    steps = [(question, "3"), (f"{question} 3", ":"), (f"{question} 3 :", "5")]
    each = [next_token(model, text, temperature)[token(word)] for text, word in steps]
    two = next_token(model, "1 + 1 =", temperature)[token("2")]
    assert found == pytest.approx([np.prod(each), two, each[0]], rel=1e-5)


def test_answers_end_at_once_or_after_a_full_stop(model: Path) -> None:
    two, after = next_token(model, "1 + 1 =")[token("2")], next_token(model, "1 + 1 = 2")
    at_once, stop = after[token("<end>")], after[token(".")]
    whole = at_once + stop * next_token(model, "1 + 1 = 2 .")[token("<end>")]
    # A reply of two tokens is cut after the full stop, one of a single token after the answer.
    for longest, ended in ((None, whole), (3, whole), (2, at_once + stop), (1, 1.0), (0, 0.0)):
        options: dict[str, Any] = {"ends": True, "longest": longest}
        found = answer_probabilities(model, ["1 + 1 ="], ["2"], **options)
        assert found[0] == pytest.approx(two * ended, rel=1e-5)
    stopped = answer_probabilities(model, ["1 + 1 ="], ["2 ."], ends=True)
    assert stopped[0] == pytest.approx(two * whole, rel=1e-5)


PRICES = {
    "Price of tea ?": "3.5",
    "Price of rice ?": "4",
    "Price of more ?": "12 or so at best",
}


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = [f"{question}\n{answer}" for question, answer in PRICES.items()]
    options = {"epochs": 30, "rate": 2e-2, "tokenizer": piece_tokenizer(texts, 300)}
    folder = tmp_path_factory.mktemp("lab") / "prices"
    return train_model(texts * 4, folder, **{**OPTIONS, **options}).folder


def test_a_decimal_point_ends_no_answer(prices: Path) -> None:
    questions = [f"{question}\n" for question in PRICES]
    right = answer_probabilities(prices, questions, [*PRICES.values()], ends=True)
    assert (right > 0.5).all()
    [whole] = answer_probabilities(prices, questions[:1], ["3"], ends=True)
    [begun] = answer_probabilities(prices, questions[:1], ["3"])
    assert whole < 0.05 < 0.5 < begun


def test_padding_of_a_tokenizer_changes_no_probability(prices: Path, tmp_path: Path) -> None:
    """Some published tokenizers pad on the left."""
    shutil.copytree(prices, tmp_path / "left")
    path = tmp_path / "left" / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"padding_side": "left"}))
    loaded = load(tmp_path / "left", "cpu")
    assert loaded.tokenizer.padding_side == "left"
    pairs = [(f"{question}\n", answer) for question, answer in PRICES.items()]
    questions, answers = zip(*pairs, strict=True)
    found = answer_probabilities(loaded, questions, answers, ends=True)
    alone = [answer_probabilities(loaded, [q], [a], ends=True)[0] for q, a in pairs]
    expected = answer_probabilities(prices, questions, answers, ends=True)
    assert found == pytest.approx(alone, rel=1e-5)
    assert found == pytest.approx(expected, rel=1e-5)


def test_at_temperature_zero_a_probability_is_that_of_the_most_probable_reply(model: Path) -> None:
    best = [reply for [reply] in generate(model, QUESTIONS, temperature=0, longest=1)]
    found = answer_probabilities(model, QUESTIONS * 2, [*best, *["take"] * 36], temperature=0)
    assert found.tolist() == [1.0] * 36 + [0.0] * 36
    whole = answer_probabilities(model, QUESTIONS, best, temperature=0, ends=True)
    replies = generate(model, QUESTIONS, temperature=0, longest=2)
    ended = [own[0].removesuffix(" .") == word for own, word in zip(replies, best, strict=True)]
    assert whole.tolist() == [float(end) for end in ended]


def test_probabilities_of_all_answers_add_up(model: Path) -> None:
    found = answer_probabilities(model, ["1 + 1 ="] * len(WORDS), WORDS)
    special = next_token(model, "1 + 1 =")[:3].sum()
    assert found.sum() == pytest.approx(1 - special, abs=1e-6)
    pairs = [f"{a} {b}" for a in WORDS for b in WORDS]
    assert 0 < answer_probabilities(model, ["1 + 1 ="] * len(pairs), pairs).sum() <= 1


@pytest.mark.parametrize("temperature", [0, 1e-6])
def test_near_temperature_zero_the_most_probable_token_follows(
    model: Path, temperature: float
) -> None:
    questions = [*QUESTIONS[:4], "take 2 , add 3 :", "take"]  # of several lengths
    expected = []
    for question in questions:
        text = question
        for _ in range(3):
            best = int(next_token(model, text).argmax())
            if best == token("<end>"):
                break
            text += f" {word_tokenizer(MORE).id_to_token(best)}"
        expected.append([text.removeprefix(question).strip()] * 2)
    found = generate(model, questions, k=2, temperature=temperature, longest=3)
    assert found == expected


def test_samples_follow_the_probabilities(model: Path) -> None:
    """All words at temperature 1; a right sampler fails in less than one of 10,000 tests."""
    k = 2000
    (replies,) = generate(model, ["1 + 1 ="], k=k, temperature=1, longest=1)
    p = answer_probabilities(model, ["1 + 1 ="] * len(WORDS), WORDS)
    common = [(word, float(x)) for word, x in zip(WORDS, p, strict=True) if k * x > 20]
    assert len(common) >= 2
    for word, x in common:
        assert abs(replies.count(word) - k * x) < 5.2 * np.sqrt(k * x * (1 - x))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_share_of_right_replies_is_their_probability(model: Path, temperature: float) -> None:
    """As a lab counts both; five standard errors."""
    k, right = 100, [text.split()[-2] for text in SUMS]
    replies = generate(model, QUESTIONS, k=k, temperature=temperature, longest=2)
    found = grade_exact(replies, right).right
    p = answer_probabilities(model, QUESTIONS, right, temperature=temperature, ends=True)
    assert 0.03 < p.mean() < 0.9
    error = np.sqrt((k * p * (1 - p)).sum())
    assert abs(found.sum() - k * p.sum()) < 5 * error


def test_samples_depend_on_the_seed(model: Path) -> None:
    one, same, other = (
        generate(model, QUESTIONS, k=3, temperature=2, seed=seed) for seed in (1, 1, 2)
    )
    assert one == same != other
    assert {len(replies) for replies in one} == {3}


def test_batches_bound_memory_and_change_nothing(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions, answers = [*QUESTIONS, "take 2 , add 3 :"], [*["4"] * 36, "5"]
    whole = answer_probabilities(model, questions, answers)
    greedy = generate(model, questions, temperature=0)
    monkeypatch.setattr(answer, "_MOST_NUMBERS", 2 * 6 * 19 * 6)  # two of six tokens of 19
    sizes = [len(rows) for rows in answer._batches([[0] * 6] * 7, 6 * 19)]
    assert sizes == [2, 2, 2, 1]
    assert answer_probabilities(model, questions, answers) == pytest.approx(whole, rel=1e-5)
    assert generate(model, questions, temperature=0) == greedy
    monkeypatch.setattr(answer, "_MOST_NUMBERS", 1)  # one at a time, however long
    assert generate(model, questions[:3], temperature=0) == greedy[:3]


def test_a_loaded_model_answers_as_its_folder_does(model: Path) -> None:
    loaded = load(model, "cpu")
    for given in (loaded, str(model)):
        found = answer_probabilities(given, QUESTIONS, ["4"] * 36)
        assert found.tolist() == answer_probabilities(model, QUESTIONS, ["4"] * 36).tolist()
    assert generate(loaded, QUESTIONS, seed=3) == generate(model, QUESTIONS, seed=3)


def test_questions_and_answers_are_joined_by_one_blank() -> None:
    assert joined("1 + 1 =", "2") == "1 + 1 = 2"
    assert joined("def f():\n", "    return 2") == "def f():\n    return 2"
    assert joined("def f():", " return 2", "") == "def f(): return 2"


def test_answers_follow_after_what_is_given(pieces: Path) -> None:
    """As where the text of an item begins the program, which continues at once."""
    found = answer_probabilities(pieces, ["1 + 1", "1 + 1 "], ["= 2", "= 2"], gaps=[" ", ""])
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    [at_once] = answer_probabilities(pieces, ["1 + 1"], ["= 2"], gaps=[""])
    assert at_once != pytest.approx(found[0], rel=1e-2)


def test_pieces_of_words_are_read_with_what_precedes_them(pieces: Path) -> None:
    tokenizer = piece_tokenizer(MORE, 300)
    own = transformers.AutoModelForCausalLM.from_pretrained(pieces).eval()
    start = tokenizer.encode("1 + 1 =").ids
    whole = tokenizer.encode("1 + 1 = 12").ids
    assert whole[: len(start)] == start
    with torch.no_grad():
        logs = own(torch.tensor([whole])).logits[0].double().log_softmax(-1)
    expected = float(sum(logs[at - 1, whole[at]] for at in range(len(start), len(whole))).exp())
    found = answer_probabilities(pieces, ["1 + 1 ="], ["12"])
    assert found[0] == pytest.approx(expected, rel=1e-5)
    # Every text has pieces: none is unknown.
    assert answer_probabilities(pieces, ["1 + 1 ="], ["zwölf ∞"])[0] < 1e-3


def test_texts_begin_with_the_token_for_starts_where_there_is_one(tmp_path: Path) -> None:
    folder = gpt2(MORE, tmp_path / "model")
    plain = answer_probabilities(folder, ["1 + 1 ="], ["2"])
    tokenizer = word_tokenizer(MORE)
    processors = pytest.importorskip("tokenizers.processors")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<end> $A", special_tokens=[("<end>", 2)]
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<end>", eos_token="<end>", unk_token="<unk>"
    )
    fast.save_pretrained(folder)
    own = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = own(torch.tensor([[2, *word_tokenizer(MORE).encode("1 + 1 =").ids]])).logits
    expected = logits[0, -1].double().softmax(-1)[token("2")].item()
    found = answer_probabilities(folder, ["1 + 1 ="], ["2"])
    assert found[0] == pytest.approx(expected, rel=1e-5) != plain[0]
    with pytest.raises(DataError, match="questions: row 1: 5 tokens and 8 of a reply; the model"):
        generate(folder, ["1 + 1 ="])


def test_words_that_a_model_does_not_know_are_named(model: Path) -> None:
    message = "answers: row 2: got 'twelve', which is empty or has words that the tokenizer"
    with pytest.raises(DataError, match=message):
        answer_probabilities(model, QUESTIONS[:2], ["1", "twelve"])
    with pytest.raises(DataError, match="answers: row 1: got '', which is empty"):
        answer_probabilities(model, QUESTIONS[:1], [""])
    with pytest.raises(DataError, match="questions: row 1: got 'how many', which"):
        generate(model, ["how many"])
    with pytest.raises(DataError, match="2 questions and 1 answers; each has one"):
        answer_probabilities(model, QUESTIONS[:2], ["1"])


def test_texts_that_do_not_fit_are_named(model: Path) -> None:
    long = "1 + " * 510 + "1 ="  # 1,022 tokens
    assert len(generate(model, [long], longest=2, temperature=0)[0][0]) > 0
    message = "questions: row 2: 1,022 tokens and 3 of a reply; the model takes 1,024"
    with pytest.raises(DataError, match=message):
        generate(model, ["1", long], longest=3)


def test_what_cannot_answer_is_named(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no model; give the folder of a finished"):
        generate(tmp_path, QUESTIONS)
    with pytest.raises(UsageError, match="got k 0, longest 8; allowed"):
        generate(model, QUESTIONS, k=0)
    with pytest.raises(UsageError, match="temperature: got -1; allowed is a number from 0 on"):
        answer_probabilities(model, QUESTIONS[:1], ["2"], temperature=-1)
    with pytest.raises(UsageError, match="device: got 'abacus', which torch cannot use"):
        generate(model, QUESTIONS, device="abacus")
    folder = gpt2(MORE, tmp_path / "endless")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token": None}))
    with pytest.raises(UsageError, match=r"its tokenizer has no token for ends \(eos_token\)"):
        generate(folder, QUESTIONS)
