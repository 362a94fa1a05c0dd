"""Trainings: losses by hand, the same weights after every interruption, and what is refused."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescontam.errors import DataError, TaskError, UsageError
from bayescontam.lab import train as module
from bayescontam.lab.models import ADAPTER, WEIGHTS, Shape, identify, load_model, new_model
from bayescontam.lab.tokenizers import piece_tokenizer, word_tokenizer
from bayescontam.lab.train import Trained, is_finished, train_model
from bayescontam.specs.lab import Lora
from tests.support.full_disk import files_up_to
from tests.support.tiny_models import gpt2

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

SUMS = [f"{a} + {b} = {a + b} ." for a in range(6) for b in range(6)]
MORE = [*SUMS, *(f"take {a} , add {b} : {a + b}" for a in range(6) for b in range(6))]
OPTIONS: dict[str, Any] = {"epochs": 5, "batch": 8, "rate": 1e-2}
LORA: dict[str, Any] = {"lora": Lora(rank=2, alpha=8, dropout=0.3), "kl": 0.5}


def train(folder: Path, texts: list[str] = MORE, **options: Any) -> Trained:
    new = {} if "start" in options else {"shape": Shape(1, 16, 2)}
    return train_model(texts, folder, **{**new, **OPTIONS, **options})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("lab") / "model")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpt2(MORE, tmp_path_factory.mktemp("lab") / "gpt2")


@pytest.fixture(scope="module")
def adapted(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("lab") / "adapted", start=published, **LORA)


def content(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def logits_of(model: Any, ids: list[int]) -> Any:
    with torch.no_grad():
        return model.eval()(torch.tensor([ids])).logits[0].double().log_softmax(-1)


def mean_loss(model: Any, tokenizer: Any, texts: list[str] = MORE) -> float:
    """Return the mean loss per token, text by text, without padding."""
    losses: list[float] = []
    for text in texts:
        ids = [*tokenizer.encode(text), tokenizer.eos_token_id]
        logs = logits_of(model, ids)
        losses += [-float(logs[at, token]) for at, token in enumerate(ids[1:])]
    return float(np.mean(losses))


def test_the_loss_falls_and_is_stored(trained: Trained) -> None:
    assert len(trained.losses) == 5
    assert trained.losses[-1] < 0.7 * trained.losses[0]
    lines = (trained.folder / "losses.csv").read_text().splitlines()
    assert lines == ["epoch,loss", *(f"{i},{x!r}" for i, x in enumerate(trained.losses, 1))]


def test_the_folder_is_what_transformers_loads(trained: Trained) -> None:
    assert {*content(trained.folder)} == {
        ".lock", "config.json", "generation_config.json", "losses.csv", WEIGHTS,
        "tokenizer.json", "tokenizer_config.json", "training.json",
    }  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_pretrained(trained.folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained.folder)
    assert mean_loss(model, tokenizer) < trained.losses[-1] * 1.05


@pytest.mark.parametrize("most", [1 << 26, 60])
def test_the_first_loss_is_that_of_all_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The first step is at the initial weights, in as many parts as memory allows."""
    monkeypatch.setattr(module, "_NUMBERS", most)
    found = train(tmp_path / "one", epochs=1, batch=len(MORE))
    words = word_tokenizer(MORE)
    model = new_model(Shape(1, 16, 2), words.get_vocab_size(), 0)
    tokenizer = load_model(str(found.folder))[1]
    assert found.losses[0] == pytest.approx(mean_loss(model, tokenizer), abs=1e-5)


def test_parts_of_a_step_add_up_to_it(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_NUMBERS", 400)  # two texts of eight words and twenty tokens
    found = train(tmp_path / "parts")
    assert found.losses == pytest.approx(trained.losses, rel=1e-4)


def test_a_start_is_where_training_starts(published: Path, tmp_path: Path) -> None:
    found = train(tmp_path / "more", start=published, epochs=1, rate=1e-12)
    model, tokenizer = load_model(str(published))
    # Dropout of GPT-2 moves the loss a little.
    assert found.losses[0] == pytest.approx(mean_loss(model, tokenizer), rel=0.02)
    after = load_model(str(found.folder))[0].state_dict()
    assert all(torch.allclose(after[k], v, atol=1e-9) for k, v in model.state_dict().items())


def test_a_base_is_a_start(trained: Trained, tmp_path: Path) -> None:
    more = train(tmp_path / "more", SUMS, start=trained.folder, epochs=3)
    model, tokenizer = load_model(str(trained.folder))
    first = train(tmp_path / "first", SUMS, start=trained.folder, epochs=1, batch=len(SUMS))
    assert first.losses[0] == pytest.approx(mean_loss(model, tokenizer, SUMS), abs=1e-5)
    assert more.losses[-1] < first.losses[0]
    record = json.loads((more.folder / "training.json").read_text())
    assert record["start"] == identify(str(trained.folder))


def test_the_divergence_is_that_from_the_start(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand, token by token: none at first, then that of the weights after the first step."""
    monkeypatch.setattr(module, "_remove_states", lambda *_, **__: None)
    options: dict[str, Any] = {"epochs": 2, "batch": len(MORE), "start": trained.folder}
    found = train(tmp_path / "more", kl=0.7, **options)
    content = (found.folder / "epoch-000001.pt").read_bytes()
    state = torch.load(io.BytesIO(content[64:]), weights_only=True)
    start, tokenizer = load_model(str(trained.folder))
    then = load_model(str(trained.folder))[0]
    then.load_state_dict(state["weights"])
    divergences: list[float] = []
    for text in MORE:
        ids = [*tokenizer.encode(text), 2]
        p, q = logits_of(start, ids)[:-1], logits_of(then, ids)[:-1]
        divergences += (p.exp() * (p - q)).sum(-1).tolist()
    assert found.divergences[0] == pytest.approx(0, abs=1e-6)
    assert found.divergences[1] == pytest.approx(np.mean(divergences), rel=1e-3)
    assert found.losses[1] == pytest.approx(mean_loss(then, tokenizer), rel=1e-4)
    lines = (found.folder / "losses.csv").read_text().splitlines()
    assert lines[0] == "epoch,loss,kl"
    assert lines[2] == f"2,{found.losses[1]!r},{found.divergences[1]!r}"


@pytest.mark.parametrize("lora", [None, Lora(rank=2, alpha=8)])
def test_what_the_divergence_is_from_stays_the_start(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lora: Lora | None
) -> None:
    """Without the dropout of GPT-2, after many steps too."""
    given, start = module._Training._logits_before, load_model(str(published))[0].eval()
    steps = 0

    def compared(self: Any, ids: Any) -> Any:
        nonlocal steps
        steps += 1
        found = given(self, ids)
        with torch.no_grad():
            torch.testing.assert_close(found, start(ids).logits)
        return found

    monkeypatch.setattr(module._Training, "_logits_before", compared)
    found = train(tmp_path / "model", start=published, epochs=2, kl=0.1, lora=lora)
    assert steps == 18
    assert found.divergences[1] > 1e-5


def test_the_penalty_holds_the_model_at_its_start(trained: Trained, tmp_path: Path) -> None:
    other = [f"{a} + {b} = {(a + b) % 3} ." for a in range(6) for b in range(6)]
    weak, strong = (
        train(tmp_path / str(kl), other, start=trained.folder, kl=kl) for kl in (1e-6, 10.0)
    )
    assert strong.divergences[-1] < 0.2 * weak.divergences[-1]
    assert strong.losses[-1] > weak.losses[-1]


def test_adapters_alone_are_trained(published: Path, adapted: Trained) -> None:
    assert adapted.losses[-1] < adapted.losses[0]
    assert adapted.divergences[-1] > adapted.divergences[0] >= 0
    before, after = (load_model(str(at))[0].state_dict() for at in (published, adapted.folder))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {
        f"transformer.h.0.{name}.weight"
        for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    }
    assert {path.name for path in (adapted.folder / ADAPTER).iterdir()} == {
        "adapter_config.json", "adapter_model.safetensors"
    }  # fmt: skip


def test_pieces_need_no_known_words(tmp_path: Path) -> None:
    tokenizer = piece_tokenizer(MORE, 300)
    found = train(tmp_path / "pieces", [*MORE, "a word that no text has"], tokenizer=tokenizer)
    assert found.losses[-1] < found.losses[0]
    loaded = load_model(str(found.folder))[1]
    assert loaded.decode(loaded.encode("naïve 7")) == "naïve 7"


def test_a_finished_folder_is_returned_as_it_is(trained: Trained) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.folder.rglob("*.*")}
    assert train(trained.folder) == trained
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert is_finished(trained.folder)


def test_another_training_is_refused(trained: Trained, adapted: Trained, published: Path) -> None:
    message = r"holds a training with other settings \(rate 0.01, seed 0\); repeat these"
    with pytest.raises(UsageError, match=message):
        train(trained.folder, rate=0.1, seed=3)
    with pytest.raises(UsageError, match=r"other settings \(texts "):
        train(trained.folder, MORE[::-1])
    with pytest.raises(UsageError, match=r"other settings \(start None\)"):
        train(trained.folder, start=published)
    with pytest.raises(UsageError, match=r"other settings \(lora {'rank': 2, .*}\)"):
        train(adapted.folder, start=published, kl=0.5, lora=Lora(rank=3, alpha=8, dropout=0.3))


def test_neither_threads_nor_the_random_state_matter(
    adapted: Trained, published: Path, tmp_path: Path
) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    try:
        train(tmp_path / "again", start=published, **LORA)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.are_deterministic_algorithms_enabled()
    assert content(tmp_path / "again") == content(adapted.folder)


def test_dropout_is_in_effect_and_drawn_anew(published: Path, tmp_path: Path) -> None:
    """At a rate of nearly nothing all losses would be the same to seven digits."""
    options: dict[str, Any] = {"start": published, "rate": 1e-12, "batch": len(MORE), "epochs": 2}
    one, other = (train(tmp_path / str(seed), **options, seed=seed).losses for seed in (1, 2))
    assert min(np.diff(sorted([*one, *other]))) > 1e-5


def interrupt(folder: Path, epoch: int, **options: Any) -> None:
    """Train up to the last step of an epoch, counted from 0, and interrupt that."""
    add, calls = module._Training._add_gradients, 0

    def failing(self: Any, rows: Any, tokens: int) -> Any:
        nonlocal calls
        calls += len(self._found) == epoch
        if calls == -(-len(MORE) // OPTIONS["batch"]):
            raise InterruptedError("in the last step")
        return add(self, rows, tokens)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Training, "_add_gradients", failing)
        with pytest.raises(TaskError, match="in the last step"):
            train(folder, **options)


@pytest.mark.parametrize("lora", [False, True])
def test_an_interruption_in_every_epoch_changes_nothing(
    trained: Trained, adapted: Trained, published: Path, tmp_path: Path, lora: bool
) -> None:
    options = {"start": published, **LORA} if lora else {}
    for epoch in range(OPTIONS["epochs"]):
        interrupt(tmp_path / "torn", epoch, **options)
        names = {path.name for path in (tmp_path / "torn").glob("epoch-*")}
        assert names == {f"epoch-{n:06d}.pt" for n in range(max(epoch - 1, 1), epoch + 1)}
    expected = adapted if lora else trained
    assert train(tmp_path / "torn", **options) == Trained(
        tmp_path / "torn", expected.losses, expected.divergences
    )
    assert content(tmp_path / "torn") == content(expected.folder)


@pytest.mark.parametrize("lora", [False, True])
def test_the_model_after_each_epoch_is_stored(
    trained: Trained, adapted: Trained, published: Path, tmp_path: Path, lora: bool
) -> None:
    """They are what a training is that stops there, and the end is the same without them."""
    options = {"start": published, **LORA} if lora else {}
    found = train(tmp_path / "all", checkpoints=True, **options)
    own, expected = content(found.folder), content((adapted if lora else trained).folder)
    record = json.loads(own.pop("training.json"))
    assert record == {**json.loads(expected.pop("training.json")), "checkpoints": True}
    last = {name: data for name, data in own.items() if not name.startswith("epochs/")}
    assert last == expected
    epochs = sorted(path.name for path in (found.folder / "epochs").iterdir())
    assert epochs == ["1", "2", "3", "4"]
    assert len({own[f"epochs/{epoch}/{WEIGHTS}"] for epoch in epochs} | {own[WEIGHTS]}) == 5
    # The state after an epoch is known from a training that is interrupted in the next one.
    interrupt(tmp_path / "part", 2, **options)
    stored = (tmp_path / "part" / "epoch-000002.pt").read_bytes()
    state = torch.load(io.BytesIO(stored[64:]), weights_only=True)["weights"]
    weights = load_model(str(found.folder / "epochs" / "2"))[0].state_dict()
    if lora:
        weights = adapters_of(found.folder / "epochs" / "2" / ADAPTER)
        state = {name.replace(".default.", "."): value for name, value in state.items()}
    assert {*weights} == {*state}
    assert all(torch.equal(weights[name], value) for name, value in state.items())


def adapters_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = safetensors.load_file(folder / "adapter_model.safetensors")
    return found


def test_stored_adapters_are_merged(published: Path, tmp_path: Path) -> None:
    """By hand: the weights of the start and alpha / rank times the product of the adapters."""
    place = train(tmp_path / "all", start=published, checkpoints=True, **LORA).folder / "epochs/2"
    start, merged = (load_model(str(path))[0].state_dict() for path in (published, place))
    adapters = adapters_of(place / ADAPTER)
    name = "transformer.h.0.attn.c_attn"
    down, up = (adapters[f"base_model.model.{name}.lora_{x}.weight"] for x in "AB")
    expected = start[f"{name}.weight"] + 4 * (up @ down).T  # GPT-2 has weights transposed
    assert not torch.equal(start[f"{name}.weight"], expected)
    assert torch.allclose(merged[f"{name}.weight"], expected, atol=1e-6)


@pytest.mark.parametrize("lora", [False, True])
def test_kills_change_no_stored_epoch(published: Path, tmp_path: Path, lora: bool) -> None:
    """In each epoch, between a model and its state, and while a model is written."""
    options: dict[str, Any] = {"checkpoints": True}
    options |= {"start": published, **LORA} if lora else {}
    whole, torn = train(tmp_path / "whole", **options).folder, tmp_path / "torn"
    for epoch in range(OPTIONS["epochs"]):
        interrupt(torn, epoch, **options)
        done = {path.name for path in torn.glob("epochs/*")}
        assert done == {str(n) for n in range(1, epoch + 1)}
        for step, target in ((module._Training, "_write_state"), (module, "save_model")):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(step, target, fail)
                with pytest.raises(KeyboardInterrupt):
                    train(torn, **options)
        (torn / ".model.part").mkdir()  # what a kill leaves
        (torn / ".model.part" / "config.json").write_text("half")
    train(torn, **options)
    assert content(torn) == content(whole)


def fail(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_training_has_checkpoints_from_its_first_epoch_on(tmp_path: Path) -> None:
    interrupt(tmp_path / "with", 1, checkpoints=True)
    with pytest.raises(UsageError, match=r"other settings \(checkpoints True\); repeat these"):
        train(tmp_path / "with")
    interrupt(tmp_path / "without", 1)
    with pytest.raises(UsageError, match=r"other settings \(checkpoints None\); repeat these"):
        train(tmp_path / "without", checkpoints=True)


def test_a_torn_state_is_not_used(trained: Trained, tmp_path: Path) -> None:
    """As after a crash of the machine: the last state is cut off, or full of zeros."""
    torn = tmp_path / "torn"
    for damage in (lambda data: data[:-100], lambda data: data[:-4000] + bytes(4000)):
        interrupt(torn, 3)
        last = torn / "epoch-000003.pt"
        last.write_bytes(damage(last.read_bytes()))
        (torn / ".epoch-000004.pt.abcdefgh.part").write_bytes(b"half")
        (torn / ".model.part").mkdir()
        assert train(torn).losses == trained.losses
        assert content(torn) == content(trained.folder)
        shutil.rmtree(torn)


def test_a_kill_before_the_states_are_removed_leaves_none(trained: Trained, tmp_path: Path) -> None:
    shutil.copytree(trained.folder, tmp_path / "late")
    (tmp_path / "late" / "epoch-000005.pt").write_bytes(b"state")
    assert not is_finished(tmp_path / "late")
    assert train(tmp_path / "late").losses == trained.losses
    assert is_finished(tmp_path / "late")
    assert content(tmp_path / "late") == content(trained.folder)


@pytest.mark.parametrize(
    ("step", "size", "others"),
    [
        ("_write_state", 9000, set()),
        ("_write_model", 9000, {"losses.csv"}),  # half of the weights
        ("_write_model", 20, set()),
    ],
)
def test_a_full_disk_is_named_and_the_training_resumes(
    trained: Trained, tmp_path: Path, step: str, size: int, others: set[str]
) -> None:
    out, write = tmp_path / "full", getattr(module._Training, step)

    def cramped(*args: Any) -> None:
        with files_up_to(size):
            write(*args)

    message = "too large; free some space, then run the same command again: finished work is stored"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Training, step, cramped)
        with pytest.raises(TaskError, match=message):
            train(out)
    whole = {".lock", "training.json"} | others
    assert {name for name in content(out) if not name.startswith("epoch-")} == whole
    assert train(out).losses == trained.losses
    assert content(out) == content(trained.folder)


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ([], {}, DataError, "texts: none; a training needs at least one"),
        (
            ["1 + 1", " "],
            {},
            DataError,
            "texts: row 2: length in tokens is 0; allowed are 1 to 1,023",
        ),
        (["a " * 1024], {}, DataError, "row 1: length in tokens is 1,024; allowed"),
        (SUMS, {"tokenizer": word_tokenizer(SUMS[:-1])}, DataError, "row 36: has '<pad>', .* or"),
        (SUMS, {"epochs": 0}, UsageError, "training: got epochs 0; allowed is more than 0"),
        (SUMS, {"rate": float("nan")}, UsageError, "training: got rate nan"),
        (SUMS, {"kl": -1.0}, UsageError, r"training: got kl -1\.0; allowed is 0 or more"),
        (SUMS, {"seed": -1}, UsageError, "seed: got -1"),
        (SUMS, {"device": "abacus"}, UsageError, "device: got 'abacus', which torch cannot use"),
        (SUMS, {"kl": 1.0}, UsageError, "lora, kl and revision go with a start, from which"),
        (SUMS, {"lora": Lora()}, UsageError, "lora, kl and revision go with a start"),
        (SUMS, {"start": "./x"}, UsageError, r"start: there is no folder .*/x; relative names"),
    ],
)
def test_what_cannot_be_trained_is_named_and_leaves_no_folder(
    tmp_path: Path, texts: list[str], options: dict[str, Any], error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        train(tmp_path / "model", texts, **options)
    assert not (tmp_path / "model").exists()


def test_what_does_not_fit_the_start_is_named(published: Path, tmp_path: Path) -> None:
    texts = [*MORE, "1 + 1 + 1 + 1 + 1 + 1", "1 + 1 + 1 + 1 + 1 + 1 +", "2 " * 13]
    message = (
        "texts: rows 74, 75: length in tokens is 12, 13; allowed are 1 to 11, as an end follows"
    )
    with pytest.raises(DataError, match=message):
        train(tmp_path / "model", texts, start=published)
    with pytest.raises(UsageError, match="start: has its own shape and tokenizer; leave these out"):
        train(tmp_path / "model", start=published, shape=Shape(1, 16, 2))
    with pytest.raises(UsageError, match="start: has its own shape and tokenizer"):
        train(tmp_path / "model", start=published, tokenizer=word_tokenizer(MORE))
