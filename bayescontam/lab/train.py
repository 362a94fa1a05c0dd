"""Train language models on texts, resumable to the same weights after a kill."""

import contextlib
import copy
import functools
import io
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayescontam._files import atomic_path, on_disk, sha256, write_text
from bayescontam._optional import require
from bayescontam._progress import progress_bar
from bayescontam._random import check_seed, stream
from bayescontam._runs import claimed_folder, read_json, write_json
from bayescontam._text import printable
from bayescontam.errors import UsageError
from bayescontam.lab.models import (
    WEIGHTS,
    Shape,
    add_adapters,
    identify,
    load_model,
    new_model,
    positions,
    save_model,
)
from bayescontam.lab.tokenizers import encode_texts, fast_tokenizer, word_tokenizer
from bayescontam.specs.lab import Lora

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LOSSES = "losses.csv"
"""File of the loss of each epoch in the folder of a finished training."""
EPOCHS = "epochs"
"""Folder, in that of a training, of the models after the epochs before the last one."""
SETTINGS, _PART = "training.json", ".model.part"
_STATES = "epoch-*.pt"
_DIGEST = 64
"""Bytes at the start of a state: the hash of the others."""
_BETAS = (0.9, 0.98)
"""Decays of AdamW's averages; with 0.999 some seeds learn the form of problems and no answers."""
_NUMBERS = 1 << 26
"""Logits that are computed at once: a quarter of a gigabyte, of which some copies are made."""
_TEXTS = 32
"""Texts that a CPU computes at once: with less padding, 128 of them take a quarter less time."""
_NO_TARGET = -100


@dataclass(frozen=True)
class Trained:
    """A trained model in its folder."""

    folder: Path  # with the model and its tokenizer, as transformers loads them
    losses: tuple[float, ...]  # mean loss per token of each epoch, in nats
    # mean divergence per token from the start in each epoch, in nats; empty without its penalty
    divergences: tuple[float, ...] = ()


def train_model(
    texts: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    start: str | os.PathLike[str] | None = None,
    revision: str = "",
    shape: Shape | None = None,
    tokenizer: "Tokenizer | None" = None,
    lora: Lora | None = None,
    kl: float = 0.0,
    epochs: int = 10,
    batch: int = 64,
    rate: float = 2e-3,
    warmup: int = 100,
    seed: int = 0,
    checkpoints: bool = False,
    device: str = "cpu",
    progress: bool = False,
) -> Trained:
    r"""Train a model on texts, or resume the training that a folder holds.

    AdamW with a rate that rises over the warm-up and falls as a cosine to zero; the loss is the
    cross-entropy of all tokens, the end of each text among them. After every epoch the state of
    the training is written, and the last two are left until it is finished. A training that was
    killed resumes from the last whole one and ends with the same weights, bit by bit, on the
    same device and versions of libraries: order and dropout depend on seed and epoch only, and
    torch computes with one thread, so that sums do not depend on the machine's load. The folder
    of a finished training is returned as it is.

    Parameters
    ----------
    texts : sequence of str
        Training texts. With their ends they have 1,024 tokens at most, or as many as the start
        has positions.
    folder : path
        New or empty, or that of the same training. It receives model and tokenizer as
        transformers loads them, ``losses.csv`` (epoch, loss, and with a penalty kl),
        ``training.json`` (the settings) and, while it trains, its state.
    start : str or path, optional
        Model to start from: the folder of a training or of any causal language model, or a name
        on the Hugging Face hub, which is looked up in the cache first. Default: a new one with
        random weights.
    revision : str
        Branch, tag or commit of a name on the hub; default: its main branch.
    shape : Shape, optional
        Size of a new model; default ``Shape()``.
    tokenizer : tokenizers.Tokenizer, optional
        Tokens of a new model, as from `word_tokenizer` or `piece_tokenizer`; default: the words of
        `texts`. Twins have the same, with the words of all questions and answers.
    lora : Lora, optional
        Low-rank adapters on all linear layers of the start, which alone are trained; the folder
        then holds them in ``adapter``, and the model with them merged. Default: all weights.
    kl : float, default 0
        Weight of the mean Kullback-Leibler divergence
        :math:`\mathrm{KL}(p_\text{start} \| p_\text{model})` per token, which is added to the loss
        that is minimised; the losses that are reported are without it.
    epochs, batch : int
        Passes through the texts, and the most texts per step.
    rate : float
        Highest rate of learning.
    warmup : int
        Steps over which the rate rises, but never more than a fifth of all steps.
    seed : int
        Seed of initial weights, orders and dropout. Twins have the same.
    checkpoints : bool, default False
        Whether the model after each epoch but the last is stored too: ``epochs/1``, ``epochs/2``,
        …, which transformers loads. Weights do not depend on it.
    device : str
        Where torch computes: ``cpu``, ``cuda``, ….
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    Trained
        The folder, the loss of each epoch, and the divergence from the start.

    Raises
    ------
    UsageError
        If settings or folder cannot be used, or the start cannot be loaded.
    DataError
        If there are no texts, or some are empty, too long, or have words that are no tokens.
    TaskError
        If the disk is full; what was written is whole, and the same call resumes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     base = train_model(["1 + 1 = 2"], f"{folder}/base", shape=Shape(1, 8, 1), epochs=2)
    ...     more = train_model(["2 = 1 + 1"], f"{folder}/more", start=base.folder, epochs=3)
    >>> len(base.losses), len(more.losses)
    (2, 3)
    """
    settings = training_settings(
        texts, epochs=epochs, batch=batch, rate=rate, warmup=warmup, kl=kl, lora=lora, seed=seed,
        checkpoints=checkpoints,
    ) | {"device": device}  # fmt: skip
    _check(settings)
    make: Callable[[], tuple[Any, Any]]
    if start is not None:
        if shape or tokenizer:
            raise UsageError("start: has its own shape and tokenizer; leave these out")
        settings |= {"start": identify(os.fspath(start), revision)}
        make = functools.partial(load_model, os.fspath(start), revision)
    elif lora or kl or revision:
        raise UsageError("lora, kl and revision go with a start, from which the model departs")
    else:
        shape, tokenizer = shape or Shape(), tokenizer or word_tokenizer(texts)
        settings |= {**vars(shape), "tokenizer": sha256(tokenizer.to_str().encode())}
        make = functools.partial(_make_new, shape, tokenizer, seed)
    out, training = Path(folder), None
    with contextlib.ExitStack() as stack:
        # First: what cannot be trained leaves no folder behind.
        if not (out / WEIGHTS).exists():
            torch = stack.enter_context(steady(device))
            model, fast = make()
            encoded = encode_texts(fast, texts, positions(model))
            model = model if lora is None else add_adapters(model, lora, seed)
            training = _Training(torch, model.to(device), fast, encoded, settings)
        stack.enter_context(claimed_folder(out, "training", "training", (out / SETTINGS).exists))
        stack.enter_context(on_disk(out))
        _check_record(out, settings)
        if training is not None:
            training.run(out, progress=progress)
        _remove_states(out, but=0)  # a kill may have come before
        return read_trained(out)


def training_settings(
    texts: Sequence[str],
    *,
    epochs: int,
    batch: int,
    rate: float,
    warmup: int,
    seed: int,
    lora: Lora | None = None,
    kl: float = 0.0,
    checkpoints: bool = False,
) -> dict[str, Any]:
    """Return what a training depends on beside its start and device, as its folder records it."""
    settings = {
        "epochs": epochs, "batch": batch, "rate": rate, "warmup": warmup,
        "kl": kl, "lora": lora and lora.model_dump(), "seed": check_seed(seed),
        "texts": sha256(json.dumps(list(texts)).encode()),
    }  # fmt: skip
    # Left out where there are none: trainings of before this setting stay valid.
    return settings | ({"checkpoints": True} if checkpoints else {})


def other_settings(folder: Path, settings: Mapping[str, Any]) -> list[str]:
    """Return the settings of the training in a folder that differ from some, each with its value.

    What only the folder records is not compared, but for checkpoints.
    """
    found, names = read_json(folder / SETTINGS), dict.fromkeys([*settings, "checkpoints"])
    return [f"{name} {found.get(name)}" for name in names if found.get(name) != settings.get(name)]


def read_trained(folder: Path) -> Trained:
    """Return the finished training that a folder holds."""
    rows = [line.split(",") for line in (folder / LOSSES).read_text("utf-8").splitlines()[1:]]
    losses, *divergences = zip(*(map(float, row[1:]) for row in rows), strict=True)
    return Trained(folder, losses, divergences[0] if divergences else ())


def is_finished(folder: Path) -> bool:
    """Return whether a folder holds a finished training, and nothing of how it came about."""
    return (folder / WEIGHTS).exists() and not any(folder.glob(_STATES))


class _Training:
    """State of a training: model, optimiser, and what was found in each finished epoch."""

    def __init__(
        self, torch: Any, model: Any, tokenizer: Any, texts: list[list[int]], settings: Any
    ) -> None:
        self._torch, self._model, self._tokenizer = torch, model, tokenizer
        self._texts = [torch.tensor(text, device=settings["device"]) for text in texts]
        self._settings = settings
        self._weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
        weights = self._weights.values()
        self._optimiser = torch.optim.AdamW(weights, betas=_BETAS, weight_decay=0.01)
        self._steps = math.ceil(len(texts) / settings["batch"])  # in an epoch
        self._most = max(_NUMBERS // model.get_input_embeddings().num_embeddings, 1)  # tokens
        self._before = model  # without its adapters, which `disable_adapter` leaves out
        if settings["kl"] and not settings["lora"]:
            self._before = copy.deepcopy(model)
        self._found: list[list[float]] = []  # loss and, with its penalty, divergence

    def run(self, folder: Path, *, progress: bool) -> None:
        """Train from the last whole state to the end, and write the model."""
        self._resume(folder)
        left = self._settings["epochs"] - len(self._found)
        with progress_bar(progress, "train", left, "epochs") as advance:
            for _ in range(left):
                self._run_epoch()
                # Before the state, from which a training that is killed resumes.
                if self._settings.get("checkpoints"):
                    self._write_epoch(folder)
                self._write_state(folder)
                advance(1)
        self._write_model(folder)

    def _run_epoch(self) -> None:
        """Pass through the texts once, in the order of this epoch."""
        torch, seed, epoch = self._torch, self._settings["seed"], len(self._found)
        order = stream(seed, "order", epoch).permutation(len(self._texts))
        torch.manual_seed(int(stream(seed, "dropout", epoch).integers(2**62)))
        total, tokens = np.zeros(1 + bool(self._settings["kl"])), 0
        for at, rows in enumerate(np.array_split(order, self._steps)):
            for group in self._optimiser.param_groups:
                group["lr"] = self._rate(epoch * self._steps + at)
            self._optimiser.zero_grad()
            count = sum(len(self._texts[row]) - 1 for row in rows)
            for part in self._parts(rows):
                total += self._add_gradients(part, count)
            torch.nn.utils.clip_grad_norm_(self._weights.values(), 1.0)
            self._optimiser.step()
            tokens += count
        self._found.append((total / tokens).tolist())

    def _parts(self, rows: Any) -> list[Any]:
        """Split the texts of a step into some of like lengths that are computed at once."""
        lengths = np.array([len(self._texts[row]) for row in rows])
        most = max(self._most // int(lengths.max()), 1)
        if self._settings["device"] == "cpu":
            most = min(most, _TEXTS)
        return np.array_split(rows[np.argsort(lengths, kind="stable")], math.ceil(len(rows) / most))

    def _add_gradients(self, rows: Any, count: int) -> list[float]:
        """Add the gradients of some texts of a step of so many tokens; return their losses."""
        torch, kl = self._torch, self._settings["kl"]
        texts = [self._texts[row] for row in rows]
        pad = torch.nn.utils.rnn.pad_sequence
        # Attention looks back only: what follows the end of a text needs no mask.
        ids = pad(texts, batch_first=True)
        targets = pad(texts, batch_first=True, padding_value=_NO_TARGET)[:, 1:].flatten()
        self._model.train()
        logits = self._model(input_ids=ids, use_cache=False).logits[:, :-1].flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(
            logits, targets, ignore_index=_NO_TARGET, reduction="sum"
        )
        sums = [loss]
        if kl:
            known = targets != _NO_TARGET
            before = self._logits_before(ids)[:, :-1].flatten(0, 1)[known].log_softmax(-1)
            now = logits[known].log_softmax(-1)
            sums.append(torch.nn.functional.kl_div(now, before, reduction="sum", log_target=True))
        ((loss + kl * sums[-1] if kl else loss) / count).backward()
        return [x.item() for x in sums]

    def _logits_before(self, ids: Any) -> Any:
        """Return the logits of the model from which this training started."""
        without = getattr(self._before, "disable_adapter", contextlib.nullcontext)
        self._before.eval()  # without dropout
        with self._torch.no_grad(), without():
            return self._before(input_ids=ids, use_cache=False).logits

    def _rate(self, step: int) -> float:
        """Return the rate of learning of a step, counted from 0."""
        steps = self._steps * self._settings["epochs"]
        rise = min((step + 1) / max(min(self._settings["warmup"], steps // 5), 1), 1.0)
        return float(self._settings["rate"] * rise * (1 + math.cos(math.pi * step / steps)) / 2)

    def _resume(self, folder: Path) -> None:
        """Load the last whole state, if there is one."""
        torch = self._torch
        for path in sorted(folder.glob(_STATES), reverse=True):
            content = path.read_bytes()
            if sha256(content[_DIGEST:]).encode() != content[:_DIGEST]:
                continue  # the machine crashed before all of it was on the disk
            state = torch.load(io.BytesIO(content[_DIGEST:]), weights_only=True)
            with torch.no_grad():
                for name, weight in self._weights.items():
                    weight.copy_(state["weights"][name])
            self._optimiser.load_state_dict(state["optimiser"])
            self._found = state["found"]
            return

    def _write_state(self, folder: Path) -> None:
        """Write the state, whole or not at all, and remove all but the last two."""
        state = {
            "weights": {name: weight.detach() for name, weight in self._weights.items()},
            "optimiser": self._optimiser.state_dict(),
            "found": self._found,
        }
        memory = io.BytesIO()  # torch reports a full disk as no error of the system
        self._torch.save(state, memory)
        content = memory.getvalue()
        with atomic_path(folder / f"epoch-{len(self._found):06d}.pt") as part:
            part.write_bytes(sha256(content).encode() + content)
        _remove_states(folder, but=2)

    def _write_epoch(self, folder: Path) -> None:
        """Write the model after an epoch that is not the last one, whole or not at all."""
        epoch, model = len(self._found), self._model
        if epoch == self._settings["epochs"]:
            return
        if self._settings["lora"]:
            model = copy.deepcopy(model)  # merged adapters cannot be taken out to the bit
        place = folder / EPOCHS / str(epoch)
        place.parent.mkdir(exist_ok=True)
        with self._saved(model, folder) as part:
            shutil.rmtree(place, ignore_errors=True)  # of a run that was killed before its state
            part.replace(place)

    def _write_model(self, folder: Path) -> None:
        """Write losses, tokenizer and model, the weights last."""
        names = ["epoch", "loss", "kl"][: 1 + len(self._found[0])]
        rows: list[list[Any]] = [
            [epoch, *found] for epoch, found in enumerate(self._found, start=1)
        ]
        lines = [",".join(map(str, row)) + "\n" for row in [names, *rows]]
        write_text(folder / LOSSES, "".join(lines))
        with self._saved(self._model, folder) as part:
            for path in sorted(part.iterdir(), key=lambda path: path.name == WEIGHTS):
                if path.is_dir():
                    shutil.rmtree(folder / path.name, ignore_errors=True)
                path.replace(folder / path.name)

    @contextlib.contextmanager
    def _saved(self, model: Any, folder: Path) -> Iterator[Path]:
        """Give a temporary folder with a model and its tokenizer; remove what is left in it."""
        part = folder / _PART
        shutil.rmtree(part, ignore_errors=True)
        try:
            save_model(model, self._tokenizer, part)
            yield part
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _make_new(shape: Shape, tokenizer: "Tokenizer", seed: int) -> tuple[Any, Any]:
    """Return a new model and its tokenizer, as transformers has them."""
    return new_model(shape, tokenizer.get_vocab_size(), seed), fast_tokenizer(tokenizer)


def _check(settings: Mapping[str, Any]) -> None:
    """Refuse numbers that no training can have."""
    wrong = [name for name in ("epochs", "batch", "warmup") if settings[name] < 1]
    if not 0 < settings["rate"] < math.inf:
        wrong.append("rate")
    if wrong:
        got = f"{wrong[0]} {settings[wrong[0]]}"
        raise UsageError(f"training: got {got}; allowed is more than 0")
    if not 0 <= settings["kl"] < math.inf:
        raise UsageError(f"training: got kl {settings['kl']}; allowed is 0 or more")


def _check_record(folder: Path, settings: Mapping[str, Any]) -> None:
    """Store the settings in a new folder, or refuse one of another training."""
    if not (folder / SETTINGS).exists():
        write_json(folder / SETTINGS, settings)
    if other := other_settings(folder, settings):
        raise UsageError(
            f"{printable(folder)}: holds a training with other settings ({', '.join(other)});"
            " repeat these, or choose another folder"
        )


def _remove_states(folder: Path, but: int) -> None:
    """Remove all states but the last ones."""
    paths = sorted(folder.glob(_STATES))
    for path in paths[: len(paths) - but]:
        path.unlink()


@contextlib.contextmanager
def steady(device: str) -> Iterator[Any]:
    """Give torch with one thread and repeatable algorithms; restore its state in the end."""
    torch = require("torch", "lab")
    on_gpu = device.startswith("cuda")
    if on_gpu:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else its sums vary
    try:
        torch.ones(1, device=device)
    except (RuntimeError, AssertionError) as error:
        problem = f"got '{printable(device)}', which torch cannot use"
        raise UsageError(f"device: {problem}; give 'cpu', or 'cuda' with a GPU") from error
    # By their modes: torch.use_deterministic_algorithms imports torch's compiler, for 2 s.
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng([torch.device(device)] if on_gpu else []))
        if on_gpu:  # the gradients of other kernels vary
            attention = torch.nn.attention
            stack.enter_context(attention.sdpa_kernel(attention.SDPBackend.MATH))
        try:
            torch.set_num_threads(1)
            torch.set_deterministic_debug_mode("warn")
            yield torch
        finally:
            torch.set_num_threads(threads)
            torch.set_deterministic_debug_mode(mode)
