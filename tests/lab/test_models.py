"""Models before their training: seeds, models by name, and adapters by their formula."""

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bayescontam.errors import UsageError
from bayescontam.lab.models import (
    ADAPTER,
    LONGEST,
    WEIGHTS,
    Shape,
    _system_errors,
    add_adapters,
    identify,
    load_model,
    new_model,
    positions,
    save_model,
)
from bayescontam.lab.tokenizers import fast_tokenizer, word_tokenizer
from bayescontam.scan.embedders import quiet
from bayescontam.specs.lab import Lora
from tests.support.tiny_models import POSITIONS, gpt2

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
hub = pytest.importorskip("huggingface_hub")

TEXTS = ["1 + 1 = 2 .", "2 + 1 = 3 ."]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpt2(TEXTS, tmp_path_factory.mktemp("models") / "gpt2")


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return dict(load_file(folder))


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, same, other = (new_model(Shape(1, 16, 2), 20, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])
    assert positions(new_model(Shape(1, 16, 2), 20, 1)) == LONGEST


def test_heads_divide_the_width() -> None:
    with pytest.raises(UsageError, match="got 2 layers, width 30, 4 heads; allowed"):
        Shape(2, 30, 4)


def test_a_folder_is_loaded_in_single_precision(published: Path, tmp_path: Path) -> None:
    half = transformers.AutoModelForCausalLM.from_pretrained(published, dtype="bfloat16")
    half.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(published / name, tmp_path)
    model, tokenizer = load_model(str(tmp_path))
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert positions(model) == POSITIONS
    assert tokenizer.decode(tokenizer.encode(TEXTS[0])) == TEXTS[0]
    assert torch.equal(model.transformer.wpe.weight, half.transformer.wpe.weight.float())
    assert model.lm_head.weight is model.transformer.wte.weight


def test_a_name_in_the_cache_is_loaded_without_a_network(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "models--owner--tiny"
    shutil.copytree(published, place / "snapshots" / COMMIT)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub.HfApi, "model_info", refuse)
    for revision in ("", "main", COMMIT):
        model, _ = load_model("owner/tiny", revision)
        assert model.config.n_embd == 16
    with pytest.raises(UsageError, match=r"hf download owner/tiny --revision other \(a gated"):
        load_model("owner/tiny", "other")


def refuse(*_: object, **__: object) -> None:
    raise ConnectionError("no route to host")


def test_a_model_that_is_not_there_is_refused_with_the_line_that_downloads_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hub.HfApi, "model_info", refuse)
    message = (
        r"^start: 'nobody/no-model' cannot be loaded \(no route to host\); fetch it where there is"
        r" a network, with: hf download nobody/no-model \(a gated model needs 'hf auth login'"
    )
    with pytest.raises(UsageError, match=message):
        load_model("nobody/no-model")
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_loaded_is_named(published: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"start: there is no folder .*/nowhere; relative names"):
        load_model("./nowhere")
    with pytest.raises(UsageError, match="revision: got 'main' with a folder; leave it out"):
        load_model(str(published), "main")
    with pytest.raises(UsageError, match=r"cannot be loaded \(.*\); the folder must hold a causal"):
        load_model(str(tmp_path))
    torn, small, own = (tmp_path / name for name in ("torn", "small", "own"))
    shutil.copytree(published, torn)
    (torn / WEIGHTS).write_bytes((published / WEIGHTS).read_bytes()[:1000])
    with pytest.raises(UsageError, match=r"cannot be loaded .*; the folder must hold"):
        load_model(str(torn))
    shutil.copytree(published, small)
    fast_tokenizer(word_tokenizer([*TEXTS, "more words than weights"])).save_pretrained(small)
    with pytest.raises(UsageError, match=r"its tokenizer has 13 tokens, its weights 9\); the"):
        load_model(str(small))
    own.mkdir()
    (own / "own.py").write_text("raise SystemExit('the code was run')")
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    (own / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match=r"; choose a model that needs no code of its own"):
        load_model(str(own))


def test_weights_that_are_lacking_are_not_drawn_at_random(published: Path, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    shutil.copytree(published, tmp_path / "lacking")
    state = weights(published / WEIGHTS)
    del state["transformer.ln_f.bias"]
    save_file(state, tmp_path / "lacking" / WEIGHTS, {"format": "pt"})
    with pytest.raises(UsageError, match=r"its files lack 'transformer\.ln_f\.bias', which would"):
        load_model(str(tmp_path / "lacking"))


def test_errors_of_the_system_are_recognised_in_those_of_libraries() -> None:
    with pytest.raises(OSError, match="No space left on device") as caught, _system_errors():
        raise RuntimeError("Error while serializing: I/O error: No space left (os error 28)")
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(RuntimeError, match="another"), _system_errors():
        raise RuntimeError("another")


def test_a_model_is_recognised_by_its_weights(published: Path, tmp_path: Path) -> None:
    shutil.copytree(published, tmp_path / "copy")
    assert identify(str(tmp_path / "copy")) == identify(str(published))
    new_model(Shape(1, 16, 2), 20, 1).save_pretrained(tmp_path / "copy")
    assert identify(str(tmp_path / "copy")) != identify(str(published))
    assert identify("owner/name") == identify("owner/name", "main") == "owner/name@main"


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_adapters_add_their_product_to_all_linear_layers(
    published: Path, tmp_path: Path, kind: str
) -> None:
    """W + alpha / rank · B A, as arXiv:2106.09685 has it; GPT-2 stores its layers transposed."""
    tokenizer = fast_tokenizer(word_tokenizer(TEXTS))
    if kind == "llama":
        save_model(new_model(Shape(1, 16, 2), len(tokenizer), 3), tokenizer, tmp_path / "start")
    start = {"llama": tmp_path / "start", "gpt2": published}[kind]
    before = weights(start / WEIGHTS)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    lora = Lora(rank=3, alpha=12, dropout=0.5)
    adapted = add_adapters(load_model(str(start))[0], lora, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    trained = {name: p for name, p in adapted.named_parameters() if p.requires_grad}
    assert all("lora_" in name for name in trained)
    with torch.no_grad():
        for p in trained.values():
            p += torch.randn(p.shape, generator=torch.Generator().manual_seed(2))
    save_model(adapted, tokenizer, tmp_path / "out")
    low, after = (
        weights(tmp_path / "out" / ADAPTER / "adapter_model.safetensors"),
        weights(tmp_path / "out" / WEIGHTS),
    )
    layers = {name.removesuffix(".lora_A.weight") for name in low if "lora_A" in name}
    names = {layer.removeprefix("base_model.model.") + ".weight" for layer in layers}
    assert len(names) == {"llama": 7, "gpt2": 4}[kind]
    assert {name for name in before if not torch.equal(before[name], after[name])} == names
    for layer in layers:
        name = layer.removeprefix("base_model.model.") + ".weight"
        added = 12 / 3 * low[f"{layer}.lora_B.weight"] @ low[f"{layer}.lora_A.weight"]
        wanted = before[name] + (added.T if kind == "gpt2" else added)
        torch.testing.assert_close(after[name], wanted)
    assert {path.name for path in (tmp_path / "out" / ADAPTER).iterdir()} == {
        "adapter_config.json", "adapter_model.safetensors"
    }  # fmt: skip


def test_adapters_depend_on_the_seed_alone(published: Path) -> None:
    def drawn(seed: int) -> Any:
        model = add_adapters(load_model(str(published))[0], Lora(rank=2), seed)
        return [p.detach() for p in model.parameters() if p.requires_grad]

    first, same, other = drawn(1), drawn(1), drawn(2)
    assert all(map(torch.equal, first, same))
    assert not all(map(torch.equal, first, other))


def test_adapters_are_loaded_by_peft(published: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model, tokenizer = load_model(str(published))
    adapted = add_adapters(model, Lora(rank=2), 1)
    with torch.no_grad():
        for p in adapted.parameters():
            p += 0.1 * p.requires_grad
    save_model(adapted, tokenizer, tmp_path / "out")
    config = peft.PeftConfig.from_pretrained(tmp_path / "out" / ADAPTER)
    assert (config.r, config.lora_alpha, config.lora_dropout) == (2, 32.0, 0.05)
    assert {name.split(".")[-1] for name in config.target_modules} == {"c_attn", "c_fc", "c_proj"}
    stored = json.loads((tmp_path / "out" / ADAPTER / "adapter_config.json").read_text())
    assert stored["target_modules"] == sorted(config.target_modules)  # in every process
    assert config.base_model_name_or_path == str(published)
    with quiet():
        start = load_model(str(published))[0]
        loaded = peft.PeftModel.from_pretrained(start, tmp_path / "out" / ADAPTER)
    merged = loaded.merge_and_unload().state_dict()
    assert all(torch.equal(merged[k], v) for k, v in weights(tmp_path / "out" / WEIGHTS).items())
