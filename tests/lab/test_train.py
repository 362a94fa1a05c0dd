import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescontam.errors import DataError, UsageError
from bayescontam.lab.answer import answer_probabilities, generate, grade_exact, grade_number
from bayescontam.lab.train import (
    LONGEST,
    WEIGHTS,
    Shape,
    Trained,
    fast_tokenizer,
    new_model,
    train_model,
    word_tokenizer,
)
from tests.support.processes import running

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SUMS = [f"{a} + {b} = {a + b} ." for a in range(6) for b in range(6)]
MORE = [*SUMS, *(f"take {a} , add {b} : {a + b}" for a in range(6) for b in range(6))]
QUESTIONS = [text.rsplit(" ", 2)[0] for text in SUMS]
RIGHT = [text.split()[-2] for text in SUMS]
OPTIONS: dict[str, Any] = {"shape": Shape(1, 16, 2), "epochs": 5, "batch": 8, "rate": 1e-2}


def train(folder: Path, texts: list[str] = MORE, **options: Any) -> Trained:
    return train_model(texts, folder, **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("lab") / "model")


def weights(folder: Path) -> bytes:
    return (folder / WEIGHTS).read_bytes()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_words_make_the_round_trip(trained: Trained) -> None:
    tokenizer = word_tokenizer(MORE)
    assert [tokenizer.decode(tokenizer.encode(text).ids) for text in MORE] == MORE
    assert tokenizer.to_str() == word_tokenizer(MORE[::-1] * 2).to_str()
    assert [tokenizer.id_to_token(at) for at in range(3)] == ["<pad>", "<unk>", "<end>"]
    loaded = transformers.AutoTokenizer.from_pretrained(trained.folder)
    for one in (loaded, fast_tokenizer(tokenizer)):
        assert one("1 + eleven =")["input_ids"] == tokenizer.encode("1 + eleven =").ids
        assert (one.pad_token_id, one.unk_token_id, one.eos_token_id) == (0, 1, 2)


def test_words_that_are_marks_are_refused() -> None:
    with pytest.raises(DataError, match="texts: hold '<end>', which mark padding"):
        word_tokenizer(["1 + 1", "an<end>"])


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, same, other = (new_model(Shape(1, 16, 2), 20, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


def test_the_loss_falls_and_is_stored(trained: Trained) -> None:
    assert len(trained.losses) == 5
    assert trained.losses[-1] < 0.7 * trained.losses[0]
    lines = (trained.folder / "losses.csv").read_text().splitlines()
    assert lines == ["epoch,loss", *(f"{i},{x!r}" for i, x in enumerate(trained.losses, 1))]


def test_the_first_loss_is_that_of_all_tokens(tmp_path: Path) -> None:
    """Text by text, without padding; the first step is at the initial weights."""
    found = train(tmp_path / "one", epochs=1, batch=len(MORE)).losses[0]
    tokenizer = word_tokenizer(MORE)
    model = new_model(Shape(1, 16, 2), tokenizer.get_vocab_size(), 0)
    losses: list[float] = []
    for text in MORE:
        ids = torch.tensor([*tokenizer.encode(text).ids, 2])
        logs = model(ids[None]).logits[0].detach().log_softmax(-1)
        losses += [-float(logs[at, token]) for at, token in enumerate(ids[1:])]
    assert found == pytest.approx(np.mean(losses), abs=1e-5)


def test_a_finished_folder_is_returned_as_it_is(trained: Trained) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.folder.rglob("*.*")}
    assert train(trained.folder) == trained
    assert {path: path.stat().st_mtime_ns for path in before} == before
    checkpoints = {name for name in names(trained.folder) if name.startswith("epoch-")}
    assert checkpoints == {"epoch-0004", "epoch-0005"}
    assert weights(trained.folder / "epoch-0005") == weights(trained.folder)


def test_another_training_is_refused(trained: Trained) -> None:
    message = r"holds a training with other settings \(rate 0.01, seed 0\); repeat these"
    with pytest.raises(UsageError, match=message):
        train(trained.folder, rate=0.1, seed=3)
    with pytest.raises(UsageError, match=r"other settings \(texts "):
        train(trained.folder, MORE[::-1])


def test_neither_threads_nor_the_random_state_matter(trained: Trained, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    try:
        train(tmp_path / "again")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.are_deterministic_algorithms_enabled()
    assert weights(tmp_path / "again") == weights(trained.folder)


def test_a_torn_checkpoint_is_not_used(trained: Trained, tmp_path: Path) -> None:
    """As after a crash of the machine: the last checkpoint is cut off, the next half-written."""
    torn = tmp_path / "torn"
    shutil.copytree(trained.folder, torn)
    (torn / WEIGHTS).unlink()
    (torn / "losses.csv").unlink()
    state = (torn / "epoch-0005" / "state.pt").read_bytes()
    (torn / "epoch-0005" / "state.pt").write_bytes(state[:-100])
    (torn / ".checkpoint.part").mkdir()
    (torn / ".checkpoint.part" / WEIGHTS).write_bytes(b"half")
    assert train(torn) == Trained(torn, trained.losses)
    assert weights(torn) == weights(trained.folder)
    assert names(torn) == names(trained.folder)


LONG: dict[str, Any] = {"epochs": 6, "batch": 8}
PROGRAM = """
import os, sys
from transformers import LlamaForCausalLM  # once: that takes seconds
from tests.lab.test_train import LONG, MORE, train
for _ in sys.stdin:
    child = os.fork()
    if not child:
        try:
            train(sys.argv[1], MORE * 4, **LONG)
        finally:
            os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""
"""Trains in a new process for each line that it reads."""


def kill_when(process: "subprocess.Popen[str]", moment: Callable[[], bool]) -> None:
    """Start the training of a folder, and kill it at a moment."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    trainer, end = int(process.stdout.readline()), time.monotonic() + 60
    while running(trainer) and not moment() and time.monotonic() < end:
        time.sleep(0.0005)
    with contextlib.suppress(ProcessLookupError):
        os.kill(trainer, signal.SIGKILL)
    status = int(process.stdout.readline())
    assert os.WIFSIGNALED(status), "it ended before it could be killed"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs fork, SIGKILL and /proc")
def test_a_training_that_is_killed_three_times_ends_with_the_same_weights(tmp_path: Path) -> None:
    """Before the first checkpoint, within an epoch, and while a checkpoint is written."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    third, part = killed / "epoch-0003", killed / ".checkpoint.part"
    command = [sys.executable, "-c", PROGRAM, str(killed)]
    root, pipe = Path(__file__).resolve().parents[2], subprocess.PIPE
    with subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, text=True) as process:
        kill_when(process, lambda: (killed / "training.json").exists())
        assert not list(killed.glob("epoch-*"))
        kill_when(process, lambda: (killed / "epoch-0002").exists())
        assert (killed / "epoch-0002").exists()
        kill_when(process, lambda: third.exists() and part.exists())
        assert third.exists()
        assert not (killed / WEIGHTS).exists()
        assert process.stdin is not None
        process.stdin.close()
    again, expected = train(killed, MORE * 4, **LONG), train(whole, MORE * 4, **LONG)
    assert again.losses == expected.losses
    assert weights(killed) == weights(whole)
    assert names(killed) == names(whole)
    assert weights(killed / "epoch-0006") == weights(whole)


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ([], {}, DataError, "texts: none; a training needs at least one"),
        (["1 + 1", " "], {}, DataError, "texts: row 2: 0 words; allowed are 1 to 1,023"),
        (["a " * LONGEST], {}, DataError, "row 1: 1024 words; allowed"),
        (
            SUMS,
            {"tokenizer_texts": SUMS[:-1]},
            DataError,
            "row 36: has '<pad>', .* or words that",
        ),
        (SUMS, {"epochs": 0}, UsageError, "training: got epochs 0; allowed is more than 0"),
        (SUMS, {"rate": float("nan")}, UsageError, "training: got rate nan"),
        (SUMS, {"seed": -1}, UsageError, "seed: got -1"),
        (SUMS, {"device": "abacus"}, UsageError, "device: got 'abacus', which torch cannot use"),
    ],
)
def test_what_cannot_be_trained_is_named(
    tmp_path: Path, texts: list[str], options: dict[str, Any], error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        train(tmp_path / "model", texts, **options)


def test_heads_divide_the_width() -> None:
    with pytest.raises(UsageError, match="got 2 layers, width 30, 4 heads; allowed"):
        Shape(2, 30, 4)


def next_token(folder: Path, text: str) -> Any:
    """Return the probabilities of the next token, from the model as transformers loads it."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = word_tokenizer(MORE).encode(text).ids
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0, -1].double().softmax(-1).numpy()


def test_probabilities_of_answers_are_those_of_their_tokens(trained: Trained) -> None:
    tokenizer, question = word_tokenizer(MORE), "take 2 , add"
    found = answer_probabilities(
        trained.folder, [question, "1 + 1 =", question], ["3 : 5", "2", "3"]
    )
    steps = [(question, "3"), (f"{question} 3", ":"), (f"{question} 3 :", "5")]
    each = [next_token(trained.folder, text)[tokenizer.token_to_id(word)] for text, word in steps]
    assert found[0] == pytest.approx(np.prod(each), rel=1e-5)
    assert found[2] == pytest.approx(each[0], rel=1e-5)
    two = next_token(trained.folder, "1 + 1 =")[tokenizer.token_to_id("2")]
    assert found[1] == pytest.approx(two, rel=1e-5)


def test_probabilities_of_all_answers_add_up(trained: Trained) -> None:
    words = sorted({word for text in MORE for word in text.split()})
    found = answer_probabilities(trained.folder, ["1 + 1 ="] * len(words), words)
    special = next_token(trained.folder, "1 + 1 =")[:3].sum()
    assert found.sum() == pytest.approx(1 - special, abs=1e-6)
    pairs = [f"{a} {b}" for a in words for b in words]
    assert 0 < answer_probabilities(trained.folder, ["1 + 1 ="] * len(pairs), pairs).sum() <= 1


@pytest.mark.parametrize("temperature", [0, 1e-6])
def test_near_temperature_zero_the_most_probable_token_follows(
    trained: Trained, temperature: float
) -> None:
    questions = [*QUESTIONS[:4], "take 2 , add 3 :", "take"]  # of several lengths
    expected = []
    for question in questions:
        text = question
        for _ in range(3):
            token = int(next_token(trained.folder, text).argmax())
            if token == 2:
                break
            text += " " + word_tokenizer(MORE).id_to_token(token)
        expected.append([text.removeprefix(question).strip()] * 2)
    found = generate(trained.folder, questions, k=2, temperature=temperature, longest=3)
    assert found == expected


def test_samples_follow_the_probabilities(trained: Trained) -> None:
    """All words at temperature 1; a right sampler fails in less than one of 10,000 tests."""
    k, words = 2000, sorted({word for text in MORE for word in text.split()})
    (replies,) = generate(trained.folder, ["1 + 1 ="], k=k, temperature=1, longest=1)
    p = answer_probabilities(trained.folder, ["1 + 1 ="] * len(words), words)
    common = [(word, float(x)) for word, x in zip(words, p, strict=True) if k * x > 20]
    assert len(common) >= 2
    for word, x in common:
        assert abs(replies.count(word) - k * x) < 5.2 * np.sqrt(k * x * (1 - x))


def test_samples_depend_on_the_seed(trained: Trained) -> None:
    one, same, other = (
        generate(trained.folder, QUESTIONS, k=3, temperature=2, seed=seed) for seed in (1, 1, 2)
    )
    assert one == same != other
    assert {len(replies) for replies in one} == {3}


def test_words_that_a_model_does_not_know_are_named(trained: Trained) -> None:
    message = "answers: row 2: got 'twelve', which is empty or has words that the tokenizer"
    with pytest.raises(DataError, match=message):
        answer_probabilities(trained.folder, QUESTIONS[:2], ["1", "twelve"])
    with pytest.raises(DataError, match="answers: row 1: got '', which is empty"):
        answer_probabilities(trained.folder, QUESTIONS[:1], [""])
    with pytest.raises(DataError, match="questions: row 1: got 'how many', which"):
        generate(trained.folder, ["how many"])
    with pytest.raises(DataError, match="2 questions and 1 answers; each has one"):
        answer_probabilities(trained.folder, QUESTIONS[:2], ["1"])


def test_what_cannot_answer_is_named(trained: Trained, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no model; give the folder of a finished"):
        generate(tmp_path, QUESTIONS)
    with pytest.raises(UsageError, match="got k 0, longest 8, temperature"):
        generate(trained.folder, QUESTIONS, k=0)


def test_grades_count_right_and_wrong_replies() -> None:
    replies = [["7 .", " 7", "seven", "17 ."], ["-2 apples", "1,000.50 ."]]
    assert [x.tolist() for x in grade_exact(replies, ["7", "1,000.50"])] == [[2, 1], [2, 1]]
    assert [x.tolist() for x in grade_number(replies, ["7.0", "1000.5"])] == [[2, 1], [2, 1]]
    assert grade_number([["3 - 5 = -2 ."]], ["it is -2"]).right.tolist() == [1]
    with pytest.raises(DataError, match="answers: row 2: 'none' has no number"):
        grade_number(replies, ["7", "none"])
