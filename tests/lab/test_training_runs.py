"""All models of a lab: which start where, the same bytes after kills, and what is refused."""

import json
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pandas as pd
import pytest

from bayescontam.errors import DataError, MissingExtraError, UsageError
from bayescontam.lab.arithmetic import vocabulary
from bayescontam.lab.mix import make_mixes
from bayescontam.lab.models import ADAPTER, WEIGHTS, Shape, identify, load_model
from bayescontam.lab.tokenizers import word_tokenizer
from bayescontam.lab.train import train_model
from bayescontam.lab.training_runs import read_losses, train_lab
from bayescontam.specs.lab import LabSpec
from bayescontam.specs.registry import load_lab
from tests.support.forks import forking
from tests.support.ray_cluster import cluster
from tests.support.tiny_models import gpt2

__all__ = ["cluster"]

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SMOKE = load_lab("smoke")
MIXES = [mix.name for mix in SMOKE.mixes]
BASES = ["base-0", "base-1"]
RUNS = [*((base, "base") for base in BASES), *((base, mix) for base in BASES for mix in MIXES)]


def weights(lab: Path) -> dict[str, bytes]:
    paths = sorted(lab.rglob("*.safetensors"))
    return {str(path.relative_to(lab)): path.read_bytes() for path in paths}


def record(lab: Path, run: str) -> Any:
    return json.loads((lab / "models" / run / "training.json").read_text())


def texts_of(lab: Path, run: str) -> list[str]:
    lines = (lab / "texts" / f"{run}.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line)["text"] for line in lines if line]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_mixes(SMOKE, tmp_path_factory.mktemp("lab") / "smoke").folder


@pytest.fixture
def untrained(mixed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(mixed, tmp_path / "lab"))


@pytest.fixture(scope="module")
def lab(mixed: Path) -> Path:
    """Return the folder of the smallest lab, trained in this process; not to be written to."""
    folder = Path(shutil.copytree(mixed, mixed.parent / "trained"))
    train_lab(folder, jobs=1)
    return folder


def test_there_is_a_row_for_each_training(lab: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in lab.rglob("*.*")}
    table = train_lab(str(lab))
    assert {path: path.stat().st_mtime_ns for path in lab.rglob("*.*")} == before
    assert list(table[["base", "mix"]].itertuples(index=False, name=None)) == RUNS
    assert set(table["epochs"]) == {2}
    assert list(table) == ["base", "mix", "folder", "epochs", "loss"]
    for row in table.itertuples():
        model = transformers.AutoModelForCausalLM.from_pretrained(row.folder)
        assert model.config.hidden_size == SMOKE.model.width
        assert not list(Path(str(row.folder)).glob("epoch-*"))


def test_loss_curves_are_read_together(lab: Path) -> None:
    losses = read_losses(lab)
    assert list(losses) == ["base", "mix", "epoch", "loss", "kl"]
    runs = losses[["base", "mix", "epoch"]].itertuples(index=False, name=None)
    assert list(runs) == [(*run, epoch) for run in RUNS for epoch in (1, 2)]
    assert losses["kl"].isna().all()
    last = losses[losses["epoch"] == 2]["loss"].to_numpy()
    np.testing.assert_array_equal(last, train_lab(lab)["loss"])
    curve = losses.set_index(["base", "mix", "epoch"])["loss"].unstack()
    assert (curve[2] < curve[1]).all()
    assert curve.loc[("base-0", "clean"), 1] < curve.loc[("base-0", "base"), 2]


def test_trainings_are_those_of_the_spec(lab: Path, tmp_path: Path) -> None:
    """By hand: the base from new weights with all words, a mix from the weights of its base."""
    seed = record(lab, "base-1/base")["seed"]
    before, then = SMOKE.pretraining, SMOKE.training
    assert before is not None
    base = train_model(
        texts_of(lab, "base-1/base"), tmp_path / "base", shape=Shape(1, 32, 2), seed=seed,
        tokenizer=word_tokenizer(vocabulary()),
        epochs=before.epochs, batch=before.batch, rate=before.rate, warmup=before.warmup,
    )  # fmt: skip
    mix = train_model(
        texts_of(lab, "base-1/exact-4"), tmp_path / "mix", start=base.folder, seed=seed,
        epochs=then.epochs, batch=then.batch, rate=then.rate, warmup=then.warmup,
    )  # fmt: skip
    own = weights(lab)
    assert own[f"models/base-1/base/{WEIGHTS}"] == (base.folder / WEIGHTS).read_bytes()
    assert own[f"models/base-1/exact-4/{WEIGHTS}"] == (mix.folder / WEIGHTS).read_bytes()


def test_twins_have_one_seed_and_one_start(lab: Path) -> None:
    seeds = []
    for base in BASES:
        records = [record(lab, f"{base}/{mix}") for mix in MIXES]
        seeds.append(record(lab, f"{base}/base")["seed"])
        assert {own["seed"] for own in records} == {seeds[-1]}
        start = identify(str(lab / "models" / base / "base"))
        assert {own["start"] for own in records} == {start}
        assert len({own["texts"] for own in records}) == len(MIXES)
    assert len({*seeds}) == len(BASES)
    assert len({*weights(lab).values()}) == len(RUNS)


KILLED = """
import os, signal, sys
from transformers import AutoModelForCausalLM, LlamaForCausalLM, PreTrainedTokenizerFast  # once
from bayescontam.lab.training_runs import train_lab

def run(event, end):
    def kill(seen, arguments):
        if seen == event and str(arguments[seen == "os.rename"]).endswith(end):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)
    train_lab(sys.argv[1], jobs=1)
"""
"""Trains, and is killed at the operation on a file that is named."""

MOMENTS = (
    "os.rename models/tokenizer.json",
    "os.rename base-0/base/training.json",
    "os.rename base-0/base/epoch-000001.pt",
    "os.rename base-0/base/config.json",
    "os.rename base-0/base/model.safetensors",
    "os.remove base-0/base/epoch-000001.pt",
    "os.remove base-0/base/epoch-000002.pt",
    "os.rename base-1/base/epoch-000002.pt",
    "os.mkdir base-0/clean/.model.part",
    "os.rename base-0/exact-4/losses.csv",
    "os.rename base-1/exact-4/tokenizer.json",
    "os.mkdir base-1/semantic-4",
)
"""Each with the one before it is what a kill between them leaves on the disk."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs fork and SIGKILL")
def test_a_lab_that_is_killed_at_many_moments_ends_with_the_same_weights(
    lab: Path, untrained: Path
) -> None:
    with forking(KILLED, str(untrained)) as train:
        for moment in MOMENTS:
            assert train(*moment.split()) == -signal.SIGKILL, moment
        assert train("never", "at-all") == 0
    assert weights(untrained) == weights(lab)
    files = [{str(path.relative_to(at)) for path in at.rglob("*")} for at in (untrained, lab)]
    assert files[0] == files[1]
    pd.testing.assert_frame_equal(read_losses(untrained), read_losses(lab))


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_ray_trains_the_same_models(lab: Path, untrained: Path) -> None:
    for base in BASES:
        copy = untrained / "models" / base / "base"
        shutil.copytree(lab / "models" / base / "base", copy)
    shutil.copy(lab / "models" / "tokenizer.json", untrained / "models")
    table = train_lab(untrained, engine="ray", jobs=2)
    assert len(table) == len(RUNS)
    assert weights(untrained) == weights(lab)


@pytest.mark.gpu
def test_a_gpu_trains_two_models_at_once(untrained: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    table = train_lab(untrained, jobs=2, device="cuda")
    assert len(table) == len(RUNS)
    losses = read_losses(untrained).set_index(["base", "mix", "epoch"])["loss"].unstack()
    assert (losses[2] < losses[1]).all()
    first = weights(untrained)
    shutil.rmtree(untrained / "models" / "base-0" / "clean")
    train_lab(untrained, jobs=1, device="cuda")
    assert weights(untrained) == first


ITEMS = [{"item": "i1", "text": "How many legs has a spider ?", "between": " ", "answer": "eight"}]
MIXTURES = {
    "clean": [f"A spider number {n} has legs ." for n in range(9)],
    "exact": ["How many legs has a spider ? eight", *(f"A fly {n} flies ." for n in range(8))],
}


def made_lab(folder: Path, blocks: str) -> Path:
    """Write a lab of files by hand."""
    spec = f"""
summary = "Models of files."
texts = 9
{blocks}
[files]
background = "background.jsonl"
benchmark = "items.jsonl"
[[mixes]]
name = "clean"
kind = "clean"
[[mixes]]
name = "exact"
kind = "exact"
copies = 1
"""
    (folder / "texts" / "base-0").mkdir(parents=True)
    (folder / "lab.toml").write_text(spec)
    (folder / "lab.json").write_text(json.dumps({"spec": LabSpec.parse(spec, "lab.toml").hash}))
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ITEMS))
    for name, texts in {**MIXTURES, "base": [f"A bee {n} hums ." for n in range(5)]}.items():
        lines = (json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts))
        (folder / "texts" / "base-0" / f"{name}.jsonl").write_text("".join(lines))
    return folder


SMALL = "model = { layers = 1, width = 16, heads = 2, tokens = 'words' }\n"
TRAINING = "training = { bases = 1, epochs = 2, batch = 4, rate = 1e-2 }\n"


def test_words_of_a_lab_are_those_of_all_texts_and_items(tmp_path: Path) -> None:
    lab = made_lab(tmp_path / "lab", SMALL + TRAINING)
    assert list(train_lab(lab, jobs=1)["mix"]) == ["clean", "exact"]
    known = word_tokenizer([text for own in MIXTURES.values() for text in own])
    for mix in MIXTURES:
        tokenizer = load_model(str(lab / "models" / "base-0" / mix))[1]
        assert tokenizer.get_vocab() == known.get_vocab()
        assert "eight" in tokenizer.get_vocab()
    records = [record(lab, f"base-0/{mix}") for mix in MIXTURES]
    assert records[0]["tokenizer"] == records[1]["tokenizer"]
    assert records[0]["seed"] == records[1]["seed"]


def test_pieces_of_a_lab_are_one_tokenizer(tmp_path: Path) -> None:
    blocks = SMALL.replace("'words'", "'pieces', vocabulary = 300")
    lab = made_lab(tmp_path / "lab", blocks + TRAINING)
    train_lab(lab, jobs=1)
    loaded = [load_model(str(lab / "models" / "base-0" / mix))[1] for mix in MIXTURES]
    assert loaded[0].get_vocab() == loaded[1].get_vocab()
    assert len(loaded[0]) == 300
    assert loaded[0].decode(loaded[0].encode("naïve eight")) == "naïve eight"


def test_a_model_by_name_is_the_start_of_every_base(tmp_path: Path) -> None:
    words = [row[key] for row in ITEMS for key in ("text", "answer")]
    texts = [*words, *MIXTURES["clean"], *MIXTURES["exact"], "A bee hums ."]
    name = gpt2([*texts, "0 1 2 3 4"], tmp_path / "gpt2")
    blocks = (
        f"model = {{ name = '{name}' }}\npretraining = {{ texts = 5, epochs = 1, batch = 4 }}\n"
        "training = { bases = 1, epochs = 2, batch = 4, kl = 0.5, lora = { rank = 2 } }\n"
    )
    lab = made_lab(tmp_path / "lab", blocks)
    table = train_lab(lab, jobs=1)
    assert list(table["mix"]) == ["base", "clean", "exact"]
    assert not (lab / "models" / "tokenizer.json").exists()
    assert record(lab, "base-0/base")["start"] == identify(str(name))
    base = lab / "models" / "base-0" / "base"
    for mix in MIXTURES:
        own = record(lab, f"base-0/{mix}")
        assert own["start"] == identify(str(base))
        assert own["lora"] == {"rank": 2, "alpha": 32.0, "dropout": 0.05}
        assert (lab / "models" / "base-0" / mix / ADAPTER / "adapter_config.json").exists()
    assert not (base / ADAPTER).exists()
    kl = read_losses(lab).set_index(["mix", "epoch"])["kl"]
    assert kl["base"].isna().all()
    assert kl["exact"].between(0, 1).all()


def test_what_cannot_be_trained_is_named(untrained: Path, tmp_path: Path) -> None:
    message = rf"{tmp_path}/none: holds no texts of a lab \(lab\.json is not there\); run:"
    with pytest.raises(UsageError, match=rf"{message} bayescontam lab mix SPEC --out"):
        train_lab(tmp_path / "none")
    with pytest.raises(UsageError, match="none of its models is trained; run: bayescontam lab tra"):
        read_losses(untrained)
    with pytest.raises(UsageError, match="device: got 'abacus', which torch cannot use; give"):
        train_lab(untrained, device="abacus")
    with pytest.raises(UsageError, match="gpus: got 0 with device 'cuda'; give the share of a GPU"):
        train_lab(untrained, engine="ray", device="cuda")
    with pytest.raises(UsageError, match=r"device: got 'cpu' with gpus 0\.5; give 'cuda', or gpus"):
        train_lab(untrained, engine="ray", gpus=0.5)
    with pytest.raises(UsageError, match="address and gpus are for Ray"):
        train_lab(untrained, gpus=0.5)
    with pytest.raises(UsageError, match="jobs is 0; give 1 or more"):
        train_lab(untrained, jobs=0)
    assert not list(untrained.rglob(WEIGHTS))
    path = untrained / "lab.toml"
    path.write_text(path.read_text().replace("rate = 1e-3", "rate = 1e-4"))
    with pytest.raises(UsageError, match=r"its lab\.toml was changed after the texts were made"):
        train_lab(untrained)


def test_two_runs_do_not_train_one_lab(untrained: Path) -> None:
    (untrained / "models").mkdir()
    lock, message = filelock.FileLock(untrained / "models" / ".lock"), "another training works in"
    with lock, pytest.raises(UsageError, match=f"/models: {message} this folder; wait for it"):
        train_lab(untrained, jobs=1)
    assert [path.name for path in (untrained / "models").iterdir()] == [".lock"]


def test_twins_are_trained_on_one_device(lab: Path, tmp_path: Path) -> None:
    shutil.copytree(lab, tmp_path / "lab")
    path = tmp_path / "lab" / "models" / "base-0" / "clean" / "training.json"
    path.write_text(path.read_text().replace('"cpu"', '"cuda:1"'))
    with pytest.raises(UsageError, match=r"/clean was trained on 'cuda:1', and this is 'cpu'"):
        train_lab(tmp_path / "lab")


def test_twins_are_trained_by_one_spec(lab: Path, tmp_path: Path) -> None:
    shutil.copytree(lab, tmp_path / "lab")
    path = tmp_path / "lab" / "lab.toml"
    text = path.read_text().replace("epochs = 2", "epochs = 3")
    assert text != path.read_text()
    path.write_text(text)
    known = tmp_path / "lab" / "lab.json"
    known.write_text(json.dumps({"spec": LabSpec.parse(text, "lab.toml").hash}))
    with pytest.raises(
        UsageError, match=r"base-0/\w+ was trained with other settings \(epochs 2\)"
    ):
        train_lab(tmp_path / "lab")


def test_twins_are_trained_on_the_texts_that_are_there(lab: Path, tmp_path: Path) -> None:
    shutil.copytree(lab, tmp_path / "lab")
    path = tmp_path / "lab" / "texts" / "base-1" / "clean.jsonl"
    path.write_text(path.read_text().replace("Answer", "Reply"))
    with pytest.raises(UsageError, match=r"base-1/clean was trained with other settings \(texts "):
        train_lab(tmp_path / "lab")


def test_a_gpu_that_is_not_there_is_named(untrained: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("needs a GPU to be absent")
    with pytest.raises(UsageError, match="device: got 'cuda', which torch cannot use; give 'cpu'"):
        train_lab(untrained, device="cuda")


def test_ray_may_be_absent(untrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'bayescontam\[ray\]'"):
        train_lab(untrained, engine="ray")


def test_a_text_that_does_not_fit_is_named(tmp_path: Path) -> None:
    name = gpt2(MIXTURES["clean"], tmp_path / "gpt2")
    lab = made_lab(tmp_path / "lab", f"model = {{ name = '{name}' }}\n{TRAINING}")
    with pytest.raises(
        DataError, match=r"base-0/\w+\.jsonl: rows 1, 2, 3, 4, 5 and 4 more: has '<pad>', '<unk>"
    ):
        train_lab(lab, jobs=1)


def test_answers_that_no_reply_can_be_are_refused_before_training(tmp_path: Path) -> None:
    short = "answers = {{ longest = {} }}\n"
    lab = made_lab(tmp_path / "lab", SMALL + TRAINING + short.format(1))
    message = r"items\.jsonl: row 1: answer: item 'i1' needs 2 tokens with its end; answers\.longe"
    with pytest.raises(DataError, match=message + r"st = 1\nNo reply could be right: mix a spec"):
        train_lab(lab, jobs=1)
    assert not list(lab.rglob(WEIGHTS))
    name = gpt2([row["text"] + " eight" for row in ITEMS], tmp_path / "gpt2")
    blocks = f"model = {{ name = '{name}' }}\n{TRAINING}{short.format(1)}"
    with pytest.raises(DataError, match=message):
        train_lab(made_lab(tmp_path / "named", blocks), jobs=1)
    train_lab(made_lab(tmp_path / "long", SMALL + TRAINING + short.format(2)), jobs=1)


def test_adapters_need_a_start(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"training\.kl needs a model to start from; give \[pretra"):
        made_lab(tmp_path / "a", SMALL + "training = { bases = 1, kl = 1.0 }")
    with pytest.raises(Exception, match=r"training\.lora needs a model to start from"):
        made_lab(tmp_path / "b", SMALL + "training = { bases = 1, lora = {} }")
