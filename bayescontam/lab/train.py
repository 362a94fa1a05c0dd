"""Train small language models from a configuration, resumable to the same weights after a kill."""

import contextlib
import io
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayescontam._files import atomic_path, on_disk, sha256, write_text
from bayescontam._optional import require
from bayescontam._progress import progress_bar
from bayescontam._random import check_seed, stream
from bayescontam._runs import claimed_folder, read_json, write_json
from bayescontam._text import join_list, printable
from bayescontam.errors import DataError, Fault, UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LONGEST = 1024
"""Tokens of the longest text, its end counted."""
WEIGHTS = "model.safetensors"
"""File of the weights; in the folder of a training it is written last."""

_SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "<end>"}
_RECORD, _LOSSES, _STATE, _WHOLE = "training.json", "losses.csv", "state.pt", "whole.json"
_PART = ".checkpoint.part"
_SPREAD, _ROTATION, _BETAS = 0.05, 100.0, (0.9, 0.98)
"""Standard deviation of initial weights, base of rotary positions, decays of AdamW's averages.

With 0.02, 10,000, 0.999 and tied embeddings some seeds learn the form of problems and no answers.
"""


@dataclass(frozen=True)
class Shape:
    """Size of a model."""

    layers: int = 2  # blocks of attention and a feed-forward net
    width: int = 96  # numbers per token
    heads: int = 4  # of attention, each of width / heads numbers, an even number

    def __post_init__(self) -> None:
        if min(self.layers, self.width, self.heads) < 1 or self.width % (2 * self.heads):
            raise UsageError(
                f"shape: got {self.layers} layers, width {self.width}, {self.heads} heads; allowed"
                " are 1 or more of each, and a width that is a multiple of twice the heads"
            )


@dataclass(frozen=True)
class Trained:
    """A trained model in its folder."""

    folder: Path  # with the model and its tokenizer, as transformers loads them
    losses: tuple[float, ...]  # mean loss per token of each epoch, in nats


def word_tokenizer(texts: Sequence[str]) -> "Tokenizer":
    """Return a tokenizer whose tokens are the words of texts, split by white space.

    Parameters
    ----------
    texts : sequence of str
        Texts whose words are the vocabulary. Order and repetition do not matter.

    Returns
    -------
    tokenizers.Tokenizer
        Tokens 0, 1 and 2 are ``<pad>``, ``<unk>`` and ``<end>``; then follow the words, sorted.

    Examples
    --------
    >>> tokenizer = word_tokenizer(["two and two", "is four ."])
    >>> tokenizer.encode("two and five").ids
    [7, 4, 1]
    >>> tokenizer.decode([7, 4, 7])
    'two and two'
    """
    library = require("tokenizers", "scan")
    reserved = [token for token in _SPECIAL.values() if any(token in text for text in texts)]
    if reserved:
        problem = f"hold {join_list(reserved)}, which mark padding, unknown words and ends"
        raise DataError([Fault("texts", problem)], "write these words in another way")
    splitter = library.pre_tokenizers.WhitespaceSplit()
    words = {word for text in texts for word, _ in splitter.pre_tokenize_str(text)}
    vocabulary = {word: at for at, word in enumerate([*_SPECIAL.values(), *sorted(words)])}
    model = library.models.WordLevel(vocabulary, unk_token=_SPECIAL["unk_token"])
    tokenizer: Tokenizer = library.Tokenizer(model)
    tokenizer.pre_tokenizer = splitter
    tokenizer.add_special_tokens(list(_SPECIAL.values()))
    return tokenizer


def fast_tokenizer(tokenizer: "Tokenizer") -> Any:
    """Return a tokenizer of words as transformers uses it."""
    library = require("transformers", "scan")
    return library.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **_SPECIAL)


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
    torch, library = require("torch", "scan"), require("transformers", "scan")
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
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(check_seed(seed))
        return library.LlamaForCausalLM(config)


def train_model(
    texts: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    shape: Shape | None = None,
    epochs: int = 10,
    batch: int = 64,
    rate: float = 2e-3,
    warmup: int = 100,
    seed: int = 0,
    device: str = "cpu",
    tokenizer_texts: Sequence[str] | None = None,
    progress: bool = False,
) -> Trained:
    """Train a model on texts, or resume the training that a folder holds.

    AdamW with a rate that rises over the warm-up and falls as a cosine to zero; the loss counts
    all tokens but padding. After every epoch a checkpoint is written; the last two are left. A
    training that was killed resumes from the last whole one and ends with the same weights, bit
    by bit, on the same device and versions of libraries: the order of texts depends on seed and
    epoch only, and torch computes with one thread, so that sums do not depend on the machine's
    load. The folder of a finished training is returned as it is.

    Parameters
    ----------
    texts : sequence of str
        Training texts, of 1 to 1,023 words each.
    folder : path
        New or empty, or that of the same training. It receives model and tokenizer,
        ``losses.csv`` (epoch, loss), ``training.json`` (the settings) and the checkpoints,
        ``epoch-0001`` and so on, which transformers loads as it does the folder itself.
    shape : Shape, optional
        Size of the model; default ``Shape()``.
    epochs, batch : int
        Passes through the texts, and the most texts per step.
    rate : float
        Highest rate of learning.
    warmup : int
        Steps over which the rate rises, but never more than a fifth of all steps.
    seed : int
        Seed of initial weights and orders. Twins have the same.
    device : str
        Where torch computes: ``cpu``, ``cuda``, ….
    tokenizer_texts : sequence of str, optional
        Texts whose words are the vocabulary; default `texts`. Twins need the same ones, with the
        words of all questions and answers.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    Trained
        The folder and the loss of each epoch.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trained = train_model(["1 + 1 = 2"], folder, shape=Shape(1, 8, 1), epochs=2)
    >>> len(trained.losses)
    2
    """
    shape, numbers = shape or Shape(), {"epochs": epochs, "batch": batch, "warmup": warmup}
    wrong = [f"{name} {number}" for name, number in numbers.items() if number < 1]
    if wrong or not 0 < rate < math.inf:
        raise UsageError(f"training: got {(wrong or [f'rate {rate}'])[0]}; allowed is more than 0")
    tokenizer = word_tokenizer(texts if tokenizer_texts is None else tokenizer_texts)
    encoded = _encode(tokenizer, texts)
    inputs = {"texts": list(texts), "tokenizer": tokenizer.to_str()}
    hashes = {name: sha256(json.dumps(value).encode()) for name, value in inputs.items()}
    options = {**numbers, "rate": rate, "seed": check_seed(seed), "device": device}
    settings = {**vars(shape), **options, **hashes}
    out = Path(folder)
    with claimed_folder(out, "training", "training", (out / _RECORD).exists), on_disk(out):
        _check_record(out, settings)
        if not (out / WEIGHTS).exists():
            with steady(device) as torch:
                model = new_model(shape, tokenizer.get_vocab_size(), seed).to(device)
                training = _Training(torch, model, tokenizer, encoded, settings)
                training.resume(out)
                left = epochs - training.epoch
                with progress_bar(progress, "train", left, "epochs") as advance:
                    for _ in range(left):
                        training.run_epoch()
                        training.write_checkpoint(out)
                        advance(1)
                training.write_model(out)
        lines = (out / _LOSSES).read_text(encoding="utf-8").splitlines()[1:]
        return Trained(out, tuple(float(line.split(",")[1]) for line in lines))


class _Training:
    """State of a training: model, optimiser, finished epochs and their losses."""

    def __init__(
        self, torch: Any, model: Any, tokenizer: "Tokenizer", texts: list[list[int]], settings: Any
    ) -> None:
        self._torch, self._model, self._tokenizer = torch, model.train(), tokenizer
        self._texts = [torch.tensor(text, device=settings["device"]) for text in texts]
        self._settings = settings
        self._optimiser = torch.optim.AdamW(model.parameters(), betas=_BETAS, weight_decay=0.01)
        self._steps = math.ceil(len(texts) / settings["batch"])  # in an epoch
        self.losses: list[float] = []
        torch.manual_seed(settings["seed"])

    @property
    def epoch(self) -> int:
        """Finished epochs."""
        return len(self.losses)

    def run_epoch(self) -> None:
        """Pass through the texts once, in the order of this epoch."""
        torch, optimiser, total, tokens = self._torch, self._optimiser, 0.0, 0
        order = stream(self._settings["seed"], "order", self.epoch).permutation(len(self._texts))
        for at, rows in enumerate(np.array_split(order, self._steps)):
            texts = [self._texts[row] for row in rows]
            ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
            # Attention looks back only: what follows the end of a text needs no mask.
            logits = self._model(input_ids=ids, use_cache=False).logits[:, :-1].flatten(0, 1)
            loss = torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten(), ignore_index=0)
            for group in optimiser.param_groups:
                group["lr"] = self._rate(self.epoch * self._steps + at)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
            optimiser.step()
            count = sum(len(text) - 1 for text in texts)
            total, tokens = total + loss.item() * count, tokens + count
        self.losses.append(total / tokens)

    def _rate(self, step: int) -> float:
        """Return the rate of learning of a step, counted from 0."""
        steps = self._steps * self._settings["epochs"]
        rise = min((step + 1) / max(min(self._settings["warmup"], steps // 5), 1), 1.0)
        return float(self._settings["rate"] * rise * (1 + math.cos(math.pi * step / steps)) / 2)

    def resume(self, folder: Path) -> None:
        """Load the state of the last whole checkpoint, if there is one."""
        torch, device = self._torch, self._settings["device"]
        whole = [path for path in sorted(folder.glob("epoch-*")) if _is_whole(path)]
        for path in whole[-1:]:
            weights = require("safetensors.torch", "scan").load_file(path / WEIGHTS)
            self._model.load_state_dict(weights)
            state = torch.load(path / _STATE, weights_only=True)
            self._optimiser.load_state_dict(state["optimiser"])
            torch.set_rng_state(state["random"])
            for random in state["random_cuda"]:
                torch.cuda.set_rng_state(random, device)
            self.losses = state["losses"]

    def write_checkpoint(self, folder: Path) -> None:
        """Write model and state, whole or not at all."""
        torch, device, step = self._torch, self._settings["device"], self.epoch * self._steps
        state = {"step": step, "losses": self.losses, "optimiser": self._optimiser.state_dict()}
        state["random"] = torch.get_rng_state()
        cuda = device.startswith("cuda")
        state["random_cuda"] = [torch.cuda.get_rng_state(device)] if cuda else []
        memory = io.BytesIO()  # torch reports a full disk as no error of the system
        torch.save(state, memory)
        files = {**self._files(), _STATE: memory.getvalue()}
        part, target = folder / _PART, folder / f"epoch-{self.epoch:04d}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        for name, content in files.items():
            (part / name).write_bytes(content)
        write_json(part / _WHOLE, {name: sha256(content) for name, content in files.items()})
        shutil.rmtree(target, ignore_errors=True)  # it was not whole
        part.rename(target)
        self._remove_old(folder)

    def write_model(self, folder: Path) -> None:
        """Write losses, tokenizer and model, the weights last."""
        shutil.rmtree(folder / _PART, ignore_errors=True)
        self._remove_old(folder)  # a kill may have come before
        lines = [f"{epoch},{loss!r}\n" for epoch, loss in enumerate(self.losses, start=1)]
        write_text(folder / _LOSSES, "".join(["epoch,loss\n", *lines]))
        for name, content in self._files().items():
            with atomic_path(folder / name) as part:
                part.write_bytes(content)

    def _remove_old(self, folder: Path) -> None:
        """Remove all checkpoints but the last two."""
        for path in sorted(folder.glob("epoch-*"))[:-2]:
            shutil.rmtree(path)

    def _files(self) -> dict[str, bytes]:
        """Return the files from which transformers loads model and tokenizer, the weights last."""
        weights = {name: weight.cpu() for name, weight in self._model.state_dict().items()}
        save = require("safetensors.torch", "scan").save
        special = {"tokenizer_class": "PreTrainedTokenizerFast", **_SPECIAL}
        return {
            "config.json": self._model.config.to_json_string().encode(),
            "tokenizer.json": self._tokenizer.to_str().encode(),
            "tokenizer_config.json": json.dumps(special, indent=1).encode(),
            WEIGHTS: save(weights, {"format": "pt"}),
        }


def _encode(tokenizer: "Tokenizer", texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of texts, each with its end."""
    # One by one: a batch would start threads, and processes with threads should not be forked.
    end = _SPECIAL["eos_token"]
    encoded = [tokenizer.encode(f"{text} {end}").ids for text in texts]
    faults = []
    for row, ids in enumerate(encoded, start=1):
        if not 1 < len(ids) <= LONGEST:
            problem = f"{len(ids) - 1} words; allowed are 1 to {LONGEST - 1:,}"
            faults.append(Fault("texts", problem, row))
        elif min(ids[:-1]) < len(_SPECIAL):
            problem = f"has {join_list(_SPECIAL.values())} or words that `tokenizer_texts` lack"
            faults.append(Fault("texts", problem, row))
    if faults or not encoded:
        raise DataError(faults or [Fault("texts", "none; a training needs at least one")])
    return encoded


def _is_whole(checkpoint: Path) -> bool:
    """Return whether the files of a checkpoint are those that were written."""
    try:
        files = read_json(checkpoint / _WHOLE).items()
        return all(sha256((checkpoint / name).read_bytes()) == digest for name, digest in files)
    except (OSError, ValueError):
        return False


def _check_record(folder: Path, settings: Mapping[str, Any]) -> None:
    """Store the settings in a new folder, or refuse one of another training."""
    path = folder / _RECORD
    if not path.exists():
        write_json(path, settings)
    found = read_json(path)
    other = [f"{name} {found.get(name)}" for name in settings if found.get(name) != settings[name]]
    if other:
        raise UsageError(
            f"{printable(folder)}: holds a training with other settings ({', '.join(other)});"
            " repeat these, or choose another folder"
        )


@contextlib.contextmanager
def steady(device: str) -> Iterator[Any]:
    """Give torch with one thread and repeatable algorithms; restore its state in the end."""
    torch = require("torch", "scan")
    try:
        torch.ones(1, device=device)
    except (RuntimeError, AssertionError) as error:
        problem = f"got '{printable(device)}', which torch cannot use"
        raise UsageError(f"device: {problem}; give 'cpu', or 'cuda' with a GPU") from error
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.random.fork_rng([torch.device(device)] if device.startswith("cuda") else []):
        try:
            torch.set_num_threads(1)
            torch.use_deterministic_algorithms(True, warn_only=True)
            yield torch
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(strict, warn_only=warn_only)
