"""Models before their training: new ones of some size, published ones by name, and adapters."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayescontam._optional import require
from bayescontam._random import check_seed
from bayescontam._text import join_list, printable
from bayescontam.errors import UsageError
from bayescontam.scan.embedders import quiet, weights_sha256
from bayescontam.specs.lab import Lora

LONGEST = 1024
"""Tokens of the longest text of a new model, its end counted."""
WEIGHTS, ADAPTER = "model.safetensors", "adapter"
"""File of the weights, and folder of the adapters that are merged into them."""
_PATTERNS = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
"""Files of a model on the hub that are needed; some have their weights in other formats too."""
_SPREAD, _ROTATION = 0.05, 100.0
"""Standard deviation of initial weights, and base of rotary positions.

With 0.02, 10,000 and tied embeddings some seeds learn the form of problems and no answers.
"""


@dataclass(frozen=True)
class Shape:
    """Size of a new model."""

    layers: int = 2  # blocks of attention and a feed-forward net
    width: int = 96  # numbers per token
    heads: int = 4  # of attention, each of width / heads numbers, an even number

    def __post_init__(self) -> None:
        if min(self.layers, self.width, self.heads) < 1 or self.width % (2 * self.heads):
            raise UsageError(
                f"shape: got {self.layers} layers, width {self.width}, {self.heads} heads; allowed"
                " are 1 or more of each, and a width that is a multiple of twice the heads"
            )


def new_model(shape: Shape, vocabulary: int, seed: int) -> Any:
    """Return a model of the Llama architecture with random weights.

    Parameters
    ----------
    shape : Shape
        Size of the model.
    vocabulary : int
        Number of tokens, special ones counted.
    seed : int
        Seed of the weights; torch's own random state stays as it is.

    Returns
    -------
    transformers.LlamaForCausalLM
        With a feed-forward net of three times the width, on the CPU.
    """
    library = require("transformers", "lab")
    config = library.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.width,
        intermediate_size=3 * shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        max_position_embeddings=LONGEST,
        rope_parameters={"rope_type": "default", "rope_theta": _ROTATION},
        tie_word_embeddings=False,
        initializer_range=_SPREAD,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=2,
    )
    with _seeded(seed):
        return library.LlamaForCausalLM(config)


def load_model(name: str, revision: str = "") -> tuple[Any, Any]:
    """Load a causal language model and its tokenizer from a folder, the cache or the hub.

    Parameters
    ----------
    name : str
        Folder, such as that of a training, or name on the Hugging Face hub.
    revision : str
        Branch, tag or commit of a name on the hub; default: its main branch.

    Returns
    -------
    tuple
        The model in single precision on the CPU, and its tokenizer, as transformers has them.

    Raises
    ------
    UsageError
        If there is no such model, or transformers cannot load it; the message has the line that
        downloads it.
    """
    return _found(name, revision, _loaded)


def load_tokenizer(name: str, revision: str = "") -> Any:
    """Load the tokenizer of a model alone, from where `load_model` does."""
    return _found(name, revision, _loaded_tokenizer)


def _found[T](name: str, revision: str, load: Callable[[str, str, str], T]) -> T:
    """Return what a function loads from the folder of a model, which is fetched if need be."""
    if Path(name).is_dir():
        if revision:
            raise UsageError(f"revision: got '{printable(revision)}' with a folder; leave it out")
        return load(name, revision, name)
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise UsageError(
            f"start: there is no folder {printable(str(Path(name).absolute()))}; relative names"
            " start at the working directory, and a name on the Hugging Face hub is 'owner/model'"
        )
    try:
        return load(name, revision, _fetched(name, revision, local=True))
    except UsageError as error:
        if not isinstance(error.__cause__, OSError):
            raise
    _reach_hub(name, revision)
    return load(name, revision, _fetched(name, revision, local=False))


def identify(name: str, revision: str = "") -> str:
    """Return by what a model is recognised: the hash of weights in a folder, or its name."""
    if Path(name).is_dir():
        return weights_sha256(Path(name))
    return f"{name}@{revision or 'main'}"


def positions(model: Any) -> int | None:
    """Return how many tokens a text may have; None where there is no limit."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def add_adapters(model: Any, lora: Lora, seed: int) -> Any:
    """Return a model with low-rank adapters on all linear layers, its own weights frozen."""
    peft = require("peft", "lab")
    config = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    with _seeded(seed), quiet():
        adapted = peft.get_peft_model(model, config)
    used = adapted.peft_config["default"]
    used.target_modules = sorted(used.target_modules)  # a set, of another order in each process
    return adapted


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write model and tokenizer as transformers loads them, adapters merged and by themselves."""
    with quiet(), _system_errors():
        if hasattr(model, "merge_and_unload"):
            # Without the embeddings: whether they changed, peft would find out on the hub.
            model.save_pretrained(folder / ADAPTER, save_embedding_layers=False)
            (folder / ADAPTER / "README.md").unlink()  # a form to be filled in
            model = model.merge_and_unload()
        model.save_pretrained(folder, max_shard_size="100TB")  # one file
        tokenizer.save_pretrained(folder)


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Let torch draw from a seed inside the block, and from its own state after it."""
    torch = require("torch", "lab")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(check_seed(seed))
        yield


@contextlib.contextmanager
def _system_errors() -> Iterator[None]:
    """Turn errors of the system that compiled libraries report in their own types into OSError."""
    try:
        yield
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def _fetched(name: str, revision: str, *, local: bool) -> str:
    """Return the folder in the cache of a model on the hub, downloaded unless `local`.

    Given the name itself, transformers would look for adapters on the hub before all else.
    """
    hub = require("huggingface_hub", "lab")
    options = {"revision": revision or None, "local_files_only": local}
    try:
        with quiet():
            return str(hub.snapshot_download(name, allow_patterns=_PATTERNS, **options))
    except Exception as error:
        raise _refused(name, revision, error) from error


def _loaded(name: str, revision: str, folder: str) -> tuple[Any, Any]:
    """Return model and tokenizer of a folder; in messages they have their name."""
    library = require("transformers", "lab")
    try:
        with quiet():
            model, found = library.AutoModelForCausalLM.from_pretrained(
                folder, dtype="float32", output_loading_info=True, local_files_only=True
            )
            # What a model's authors suggest for sampling may be refused when it is written.
            model.generation_config = library.GenerationConfig.from_model_config(model.config)
    # Libraries raise whatever they like.
    except Exception as error:
        raise _refused(name, revision, error) from error
    if lacking := sorted({*found["missing_keys"], *(key for key, *_ in found["mismatched_keys"])}):
        problem = f"its files lack {join_list(lacking, 3)}, which would be random"
        raise _refused(name, revision, ValueError(problem))
    tokenizer = _loaded_tokenizer(name, revision, folder)
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        problem = f"its tokenizer has {len(tokenizer):,} tokens, its weights {rows:,}"
        raise _refused(name, revision, ValueError(problem))
    model.name_or_path = name  # adapters record it
    return model, tokenizer


def _loaded_tokenizer(name: str, revision: str, folder: str) -> Any:
    """Return the tokenizer of a folder."""
    library = require("transformers", "lab")
    try:
        with quiet():
            return library.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    # Libraries raise whatever they like.
    except Exception as error:
        raise _refused(name, revision, error) from error


def _reach_hub(name: str, revision: str) -> None:
    """Raise at once where there is no way to the hub; loading would try for a minute."""
    hub = require("huggingface_hub", "lab")
    try:
        hub.HfApi().model_info(name, timeout=10)
    except hub.errors.HfHubHTTPError:
        return  # it answers; what is wrong with the name, loading says better
    # Offline mode, and the errors of whatever library the hub's client uses.
    except Exception as error:
        raise _refused(name, revision, error) from error


def _refused(name: str, revision: str, error: Exception) -> UsageError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = printable(lines[0], 300).rstrip(".")
    shown = printable(name, 120)
    if "trust_remote_code" in str(error):
        advice = "choose a model that needs no code of its own"
    elif Path(name).is_dir():
        advice = "the folder must hold a causal language model and its tokenizer"
    else:
        branch = f" --revision {printable(revision, 80)}" if revision else ""
        advice = (
            f"fetch it where there is a network, with: hf download {shown}{branch} (a gated model"
            " needs 'hf auth login' first), or give the folder of a copy"
        )
    return UsageError(f"start: '{shown}' cannot be loaded ({reason}); {advice}")
