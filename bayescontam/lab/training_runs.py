"""Train all models of a lab, many at once; a run that was killed resumes to the same weights."""

import contextlib
import functools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from bayescontam._files import make_folder, on_disk, write_text
from bayescontam._optional import require
from bayescontam._progress import progress_bar
from bayescontam._random import stream
from bayescontam._runs import claimed_folder, read_json
from bayescontam._text import printable
from bayescontam.errors import DataError, UsageError
from bayescontam.lab.arithmetic import vocabulary
from bayescontam.lab.items import check_lengths, read_items
from bayescontam.lab.mix import BASE, ITEMS, MODELS, RECORD, SPEC, TEXTS
from bayescontam.lab.models import Shape, load_tokenizer
from bayescontam.lab.tokenizers import fast_tokenizer, piece_tokenizer, word_tokenizer
from bayescontam.lab.train import (
    SETTINGS,
    is_finished,
    other_settings,
    read_trained,
    steady,
    train_model,
    training_settings,
)
from bayescontam.parallel import run_tasks
from bayescontam.specs.base import read_text
from bayescontam.specs.lab import LabSpec

TOKENIZER = "tokenizer.json"
"""File in the folder of the models: the tokens that all new models of a lab share."""


_PAUSE = 0.1
"""Seconds between looks at whether a base is trained."""


class Run(NamedTuple):
    """A training of a lab."""

    base: int
    mix: str  # or `BASE`, for the training before those of the mixes

    @property
    def name(self) -> str:
        """Name of the training, and its path in the folder of the models."""
        return f"base-{self.base}/{self.mix}"


def train_lab(
    folder: str | os.PathLike[str],
    *,
    engine: Literal["local", "ray"] = "local",
    jobs: int | None = None,
    address: str | None = None,
    device: str = "cpu",
    gpus: float = 0.0,
    progress: bool = False,
) -> pd.DataFrame:
    """Train the models of a lab, many at once, or resume their training.

    First come the bases, where the spec has ``[pretraining]``, then all mixes, each from the
    weights of its base. Initial weights and the order of texts depend on the seed of the spec and
    the number of the base only, so that twins differ in their texts alone. A run that was killed
    resumes each training from its last whole epoch, and ends with the same bytes on one kind of
    device, however many jobs there are. Finished trainings are not repeated.

    Parameters
    ----------
    folder : path
        Folder of a lab, as `make_mixes` writes it. It receives ``models/base-0/NAME`` for each
        base and mix, and ``models/base-0/base`` for what precedes them: each a folder that
        transformers loads, with ``losses.csv``. Where the lab has checkpoints, ``epochs/1``, … in
        the folder of a mix are the models before the last epoch. See `train_model`.
    engine : {"local", "ray"}
        Processes of this machine, or actors of a Ray cluster, of which all machines see the folder
        under the same path.
    jobs : int, optional
        Trainings at once, of one thread each. Default: one for each core that can be used.
    address : str, optional
        Ray cluster; default: one is started on this machine.
    device : str, default "cpu"
        Where torch computes: ``cpu``, ``cuda``, …. All jobs of this machine share its GPU.
    gpus : float, default 0
        Share of a GPU, or GPUs, that Ray reserves for each training.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    pandas.DataFrame
        ``base, mix, folder, epochs, loss``: a row for each training, bases before mixes; ``loss``
        is the mean cross-entropy per token of the last epoch, in nats. `read_losses` has all.

    Raises
    ------
    UsageError
        If the folder holds no lab, or models that were trained by another spec or on other texts,
        the device is not there, the model by name cannot be loaded, or the engine cannot be used.
    DataError
        If a text is no training text, or an answer is longer than replies may be.
    MissingExtraError
        If torch, peft or Ray are needed and not installed.
    TaskError
        If the disk is full, or a training was killed several times; the same call resumes.

    Examples
    --------
    >>> import tempfile
    >>> from bayescontam.lab.mix import make_mixes
    >>> from bayescontam.specs.registry import load_lab
    >>> mixed = make_mixes(load_lab("smoke"), tempfile.mkdtemp())
    >>> trained = train_lab(mixed.folder, jobs=1)
    >>> trained["mix"].value_counts().to_dict()
    {'base': 2, 'clean': 2, 'clean-2': 2, 'exact-4': 2, 'semantic-4': 2}
    """
    place = Path(folder).absolute()
    spec = read_lab(place)
    check_device(engine, device, gpus)
    name = spec.model.name
    start = str(Path(name).absolute()) if name and Path(name).is_dir() else name
    make_worker = functools.partial(_make_worker, place, device, start)
    runs = list(lab_runs(spec))
    left = [run for run in runs if not is_finished(run_folder(place, run))]
    finished = [run for run in runs if run not in left]
    _check_devices(place, finished, device)
    _check_settings(spec, place, finished)
    if left:
        models = place / MODELS
        with claimed_folder(models, "training", "models", lambda: True):
            with on_disk(models):
                _write_tokenizer(spec, place)
            _check_lengths(spec, place, start)
            # In one go, as workers need seconds to start: bases come first, mixes wait for theirs.
            tasks = {run.name: run for run in left}
            done = run_tasks(
                make_worker, tasks, engine=engine, jobs=jobs, address=address, gpus=gpus
            )
            total = sum(_size(spec, run) for run in left)
            with (
                progress_bar(progress, "training", total, "texts") as advance,
                contextlib.closing(done) as results,
            ):
                for key, _ in results:
                    advance(_size(spec, tasks[key]))
    return pd.DataFrame([_row(place, run) for run in runs])


def read_losses(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Read the loss curves of a lab's finished trainings.

    Parameters
    ----------
    folder : path
        Folder of a lab, some of whose models are trained.

    Returns
    -------
    pandas.DataFrame
        ``base, mix, epoch, loss, kl``: a row for each epoch of each training, bases before mixes.
        ``loss`` is the mean cross-entropy per token over the epoch, in nats; ``kl`` the mean
        divergence per token from the start of the training, missing without its penalty.

    Raises
    ------
    UsageError
        If the folder holds no lab, or none of its models is trained.
    """
    place = Path(folder)
    rows = []
    for run in lab_runs(read_lab(place)):
        if is_finished(at := run_folder(place, run)):
            trained = read_trained(at)
            kl = trained.divergences or [float("nan")] * len(trained.losses)
            for epoch, found in enumerate(zip(trained.losses, kl, strict=True), start=1):
                rows.append((f"base-{run.base}", run.mix, epoch, *found))
    if not rows:
        problem = "none of its models is trained; run: bayescontam lab train"
        raise UsageError(f"{printable(place)}: {problem} {printable(place)}")
    return pd.DataFrame(rows, columns=["base", "mix", "epoch", "loss", "kl"])


def read_lab(folder: Path) -> LabSpec:
    """Return the spec of the lab whose texts a folder holds."""
    name = printable(folder)
    if not (folder / RECORD).is_file():
        raise UsageError(
            f"{name}: holds no texts of a lab ({RECORD} is not there); run: bayescontam lab mix"
            f" SPEC --out {name}"
        )
    spec = LabSpec.parse(read_text(folder / SPEC), str(folder / SPEC))
    if read_json(folder / RECORD).get("spec") != spec.hash:
        raise UsageError(
            f"{name}: its {SPEC} was changed after the texts were made; undo that, or run"
            " bayescontam lab mix with the changed one and another folder"
        )
    return spec


def lab_runs(spec: LabSpec) -> Iterator[Run]:
    """Yield the trainings of a lab, those of bases first."""
    bases = range(spec.training.bases)
    if spec.pretraining is not None:
        yield from (Run(base, BASE) for base in bases)
    yield from (Run(base, mix.name) for base in bases for mix in spec.mixes)


def run_folder(folder: Path, run: Run) -> Path:
    """Return the folder of a training in that of its lab."""
    return folder / MODELS / run.name


def _check_devices(folder: Path, runs: Sequence[Run], device: str) -> None:
    """Refuse to train twins of finished models elsewhere: rounding would differ between them."""
    for run in runs:
        known = read_json(run_folder(folder, run) / SETTINGS).get("device")
        if str(known).partition(":")[0] != device.partition(":")[0]:
            raise UsageError(
                f"{printable(folder)}: {run.name} was trained on '{printable(str(known), 40)}', and"
                f" this is '{printable(device, 40)}'; repeat that, or mix into another folder"
            )


def _check_settings(spec: LabSpec, folder: Path, runs: Sequence[Run]) -> None:
    """Refuse to train twins of finished models by another spec, or beside other texts."""
    for run in runs:
        settings = training_settings(list(_texts(folder, run)), **_options(spec, run))
        if other := other_settings(run_folder(folder, run), settings):
            raise UsageError(
                f"{printable(folder)}: {run.name} was trained with other settings"
                f" ({', '.join(other)}) than {SPEC} and {TEXTS} have now; undo what was changed, or"
                " mix into another folder"
            )


def _options(spec: LabSpec, run: Run) -> dict[str, Any]:
    """Return how a training of a lab is done, as `train_model` takes it."""
    own = spec.pretraining if run.mix == BASE else spec.training
    assert own is not None
    options: dict[str, Any] = own.model_dump(include={"epochs", "batch", "rate", "warmup"})
    if run.mix != BASE:
        options |= {"lora": spec.training.lora, "kl": spec.training.kl}
        options |= {"checkpoints": spec.training.checkpoints}
    return options | {"seed": int(stream(spec.seed, "lab training", run.base).integers(2**31))}


def _make_worker(folder: Path, device: str, start: str) -> Callable[[Run], None]:
    """Return what does a training of a lab; `start` is the model by name, or its folder."""
    return functools.partial(_train, read_lab(folder), folder, device, start)


def _train(spec: LabSpec, folder: Path, device: str, start: str, run: Run) -> None:
    """Do a training, or what is left of it."""
    options = _options(spec, run)
    if run.mix != BASE and spec.pretraining is not None:
        base = run_folder(folder, Run(run.base, BASE))
        while not is_finished(base):  # by another worker, or the one that replaces it
            time.sleep(_PAUSE)
        options |= {"start": base}
    elif start:
        options |= {"start": start, "revision": spec.model.revision}
    else:
        library, path = require("tokenizers", "lab"), folder / MODELS / TOKENIZER
        options |= {"tokenizer": library.Tokenizer.from_file(str(path))}
        options |= {"shape": Shape(spec.model.layers, spec.model.width, spec.model.heads)}
    place = run_folder(folder, run)
    make_folder(place.parent)
    texts = list(_texts(folder, run))
    try:
        train_model(texts, place, **options, device=device)
    except DataError as error:
        file = str(folder / TEXTS / f"{run.name}.jsonl")
        raise DataError(
            [replace(each, file=file) for each in error.faults], error.advice
        ) from error


def _texts(folder: Path, run: Run) -> Iterator[str]:
    return (str(row["text"]) for row in _read_lines(folder / TEXTS / f"{run.name}.jsonl"))


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _write_tokenizer(spec: LabSpec, folder: Path) -> None:
    """Write the tokens of a lab's new models, once: they know all texts, questions and answers."""
    path = folder / MODELS / TOKENIZER
    if spec.model.name or path.exists():
        return
    words: Iterable[str] = vocabulary()
    if spec.arithmetic is None or spec.model.tokens == "pieces":
        items = read_items(folder)
        words = (row[key] for row in items for key in ("text", "answer"))
        for run in lab_runs(spec):
            words = [*words, *_texts(folder, run)]
    # Mixes have most of their texts in common.
    texts = list(dict.fromkeys(words))
    pieces = spec.model.tokens == "pieces"
    made = piece_tokenizer(texts, spec.model.vocabulary) if pieces else word_tokenizer(texts)
    write_text(path, made.to_str())


def _check_lengths(spec: LabSpec, folder: Path, start: str) -> None:
    """Refuse answers that no reply can be, before any model is trained."""
    if spec.answers.grade != "exact":
        return
    if start:
        tokenizer = load_tokenizer(start, spec.model.revision)
    else:
        library, path = require("tokenizers", "lab"), folder / MODELS / TOKENIZER
        tokenizer = fast_tokenizer(library.Tokenizer.from_file(str(path)))
    check_lengths(tokenizer, read_items(folder), spec.answers, str(folder / ITEMS))


def check_device(engine: str, device: str, gpus: float) -> None:
    """Refuse a device that is not there, before any process starts."""
    on_gpu = device.startswith("cuda")
    if engine == "ray" and on_gpu and not gpus:
        raise UsageError(
            f"gpus: got 0 with device '{printable(device)}'; give the share of a GPU that Ray"
            " reserves for each training, such as 0.25"
        )
    if engine == "ray" and gpus and not on_gpu:
        raise UsageError(
            f"device: got '{printable(device)}' with gpus {gpus:g}; give 'cuda', or gpus 0"
        )
    if engine == "local" and device != "cpu":
        with steady(device):
            pass


def _size(spec: LabSpec, run: Run) -> int:
    """Return how many texts a training passes through."""
    if run.mix == BASE and spec.pretraining is not None:
        return spec.pretraining.texts * spec.pretraining.epochs
    return spec.texts * spec.training.epochs


def _row(folder: Path, run: Run) -> dict[str, Any]:
    place = run_folder(folder, run)
    losses = read_trained(place).losses
    return {
        "base": f"base-{run.base}", "mix": run.mix, "folder": str(place),
        "epochs": len(losses), "loss": losses[-1],
    }  # fmt: skip
