"""Answers of all models of a lab, and the table of responses that a fit reads."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bayescontam._files import atomic_path, make_folder, on_disk, sha256
from bayescontam._progress import progress_bar
from bayescontam._random import stream
from bayescontam._runs import claimed_folder
from bayescontam._text import printable
from bayescontam.data.tables import write_table
from bayescontam.errors import DataError, UsageError
from bayescontam.lab.answer import answer_probabilities, generate, load
from bayescontam.lab.grading import grade_replies
from bayescontam.lab.items import gaps_of, questions_of, read_items
from bayescontam.lab.mix import BASE, COVARIATES, ITEMS
from bayescontam.lab.train import EPOCHS, SETTINGS, is_finished
from bayescontam.lab.training_runs import Run, check_device, lab_runs, read_lab, run_folder
from bayescontam.parallel import run_tasks
from bayescontam.specs.lab import LabSpec

ANSWERS, RESPONSES = "answers", "responses.csv"
"""Folder of the answers of each model, and the table of all of them."""
COLUMNS = (
    "model", "benchmark", "item", "n_correct", "n_trials", "contamination", "base", "mix",
    "duplicate_kind", "copies", "half", "p",
)  # fmt: skip
"""Columns of the responses."""
CHECKPOINT_COLUMNS = ("checkpoint", "run")
"""Further ones of a lab with checkpoints, as fits read them: the epoch, and the mix."""
_KEY, _DEVICE = b"bayescontam", b"bayescontam.device"
_FORMAT = 2
"""To be raised when answers of before must not stand beside those of now."""
_HALF_WRITTEN = (".*.????????.part", "base-*/.*.????????.part")


@dataclass(frozen=True)
class _Task:
    """A model that is to answer."""

    run: Run  # the training that made it
    name: str  # of the model: that of its training, and "@" and the epoch before the last one
    epoch: int | None  # after which it was stored; None in a lab without checkpoints
    model: Path  # its folder
    answers: Path  # file of its answers
    key: str  # hash of what the answers depend on


def answer_lab(
    folder: str | os.PathLike[str],
    *,
    engine: Literal["local", "ray"] = "local",
    jobs: int | None = None,
    address: str | None = None,
    device: str = "cpu",
    gpus: float = 0.0,
    progress: bool = False,
) -> pd.DataFrame:
    """Have every trained model of a lab answer all items, and grade the replies.

    Each model gets the items of the benchmark and of the control, as often and at the temperature
    that the lab's spec states, at temperature 0 once. Its answers are stored whole or not at all:
    the same call resumes after a kill, and ends with the same rows. Models whose training is not
    finished are left for a later call. Of a lab with checkpoints the models after each epoch
    answer, all in the same way.

    Parameters
    ----------
    folder : path
        Folder of a lab with models that `train_lab` trained. It gets
        ``answers/base-0/NAME.parquet`` for each model, with the replies, and, once all models
        have answered, ``responses.csv``. ``NAME@1.parquet`` is of the checkpoint after epoch 1.
    engine : {"local", "ray"}, default "local"
        Worker processes on this machine, or a Ray cluster.
    jobs : int, optional
        Models at a time; default: one for each core.
    address : str, optional
        Ray cluster to use; default: one is started on this machine.
    device : str, default "cpu"
        Where torch computes.
    gpus : float, default 0
        Share of a GPU, or number of them, for each model on Ray.
    progress : bool, default False
        Whether a bar is shown.

    Returns
    -------
    pandas.DataFrame
        A row for each model and item, of the models that have answered: ``model, benchmark, item,
        n_correct, n_trials, contamination, base, mix, duplicate_kind, copies, half, p``. A table of
        responses, as `read_responses` reads it; ``p`` is the probability of the answer at the
        lab's temperature, without the noise of samples, and missing where tests grade programs.
        With checkpoints there are also ``checkpoint``, the epoch from 1 on, and ``run``, the mix;
        names of models end in ``@1``, … for the epochs before the last one.
        ``attrs["left"]`` is the number of models that are not trained yet.

    Raises
    ------
    UsageError
        If the folder is of no lab, no model is trained, or others have answered on another device.
    DataError
        If a model does not know the words of an item, or an item cannot be graded.

    Examples
    --------
    >>> import bayescontam
    >>> answers = bayescontam.answer_lab("lab")  # doctest: +SKIP
    >>> answers.groupby(["mix", "half"])["p"].mean()  # doctest: +SKIP
    """
    lab = Path(folder)
    spec = read_lab(lab)
    tasks = _tasks(lab, spec)
    if not tasks:
        raise UsageError(
            f"{printable(lab)}: no model is trained; train first: bayescontam lab train"
            f" {printable(lab)}"
        )
    check_device(engine, device, gpus)
    place = lab / ANSWERS
    with claimed_folder(place, "run", "answers", lambda: True, _HALF_WRITTEN), on_disk(place):
        for parent in dict.fromkeys(task.answers.parent for task in tasks):
            make_folder(parent)
        todo = {task.name: task for task in tasks if not _is_done(task)}
        if todo:
            _check_devices(lab, [task for task in tasks if task.name not in todo], device)
        make = partial(_make_worker, str(lab), device)
        running = run_tasks(make, todo, engine=engine, jobs=jobs, address=address, gpus=gpus)
        with (
            progress_bar(progress, "answer", len(todo), "models") as advance,
            contextlib.closing(running) as results,
        ):
            for _ in results:
                advance(1)
        table = _responses(lab, tasks)
        left = len(spec.mixes) * spec.training.bases * len(_epochs(spec)) - len(tasks)
        if not left:
            write_table(lab / RESPONSES, table)
    table.attrs["left"] = left
    return table


def _tasks(lab: Path, spec: LabSpec) -> list[_Task]:
    """Return the models that are trained."""
    found, items = [], sha256((lab / ITEMS).read_bytes())
    for run in lab_runs(spec):
        model = run_folder(lab, run)
        if run.mix != BASE and is_finished(model):
            settings = (model / SETTINGS).read_bytes()
            for epoch in _epochs(spec):
                # The last one is the model of the training, with or without checkpoints.
                early = epoch is not None and epoch < spec.training.epochs
                name = f"{run.name}@{epoch}" if early else run.name
                at = model / EPOCHS / str(epoch) if early else model
                depends = f"{_FORMAT} {spec.hash} {items} {sha256(settings)}"
                depends += f" {epoch}" if early else ""
                path, key = lab / ANSWERS / f"{name}.parquet", sha256(depends.encode())
                found.append(_Task(run, name, epoch, at, path, key))
    return found


def _epochs(spec: LabSpec) -> Sequence[int | None]:
    """Return the epochs after which models of a lab answer; None: there are no checkpoints."""
    return range(1, spec.training.epochs + 1) if spec.training.checkpoints else [None]


def _is_done(task: _Task) -> bool:
    """Return whether there are answers of this very training."""
    return _metadata(task).get(_KEY) == task.key.encode()


def _metadata(task: _Task) -> dict[bytes, bytes]:
    """Return what stored answers depend on; nothing where there are none."""
    try:
        return dict(pq.read_schema(task.answers).metadata or {})
    except (OSError, pa.ArrowInvalid):  # none, or cut off when the machine stopped
        return {}


def _check_devices(lab: Path, tasks: Sequence[_Task], device: str) -> None:
    """Refuse to have twins of models that have answered answer elsewhere, as training does."""
    for task in tasks:
        known = _metadata(task).get(_DEVICE, b"").decode()
        if known.partition(":")[0] != device.partition(":")[0]:
            raise UsageError(
                f"{printable(lab)}: {task.name} answered on '{printable(known, 40)}', and this is"
                f" '{printable(device, 40)}'; repeat that, or remove {printable(lab / ANSWERS)}"
            )


def _make_worker(folder: str, device: str) -> Callable[[_Task], int]:
    """Return what has a model answer."""
    lab = Path(folder)
    spec, items = read_lab(lab), read_items(lab)

    def work(task: _Task) -> int:
        try:
            _write(task, _answers(task, spec, items, device), device)
        except DataError as error:  # of a row of the items
            faults = [
                replace(fault, file=str(lab / ITEMS), column=fault.file) for fault in error.faults
            ]
            raise DataError(faults, error.advice) from error
        return len(items)

    return work


def _answers(
    task: _Task, spec: LabSpec, items: Sequence[Mapping[str, Any]], device: str
) -> pd.DataFrame:
    """Return the graded replies of a model, and the probabilities of right answers."""
    settings, questions = spec.answers, questions_of(items)
    loaded = load(task.model, device)
    p = np.full(len(items), np.nan)
    if settings.grade != "tests":
        p = answer_probabilities(
            loaded, questions, [str(item["answer"]) for item in items], gaps=gaps_of(items),
            temperature=settings.temperature, ends=settings.grade == "exact",
            longest=settings.longest, device=device,
        )  # fmt: skip
    # Of its own for each model: with common samples twins would be less independent than a
    # table of responses claims.
    seed = int(stream(spec.seed, "lab replies", task.name).integers(2**31))
    replies = generate(
        loaded, questions, k=settings.replies, temperature=settings.temperature, seed=seed,
        longest=settings.longest, device=device,
    )  # fmt: skip
    right, wrong = grade_replies(replies, items, settings)
    return pd.DataFrame(
        {
            "model": task.name, "base": f"base-{task.run.base}", "mix": task.run.mix,
            "benchmark": [item["benchmark"] for item in items],
            "item": [item["item"] for item in items],
            "half": [item["half"] for item in items],
            "n_correct": right, "n_trials": right + wrong, "p": p, "replies": replies,
        }
    )  # fmt: skip


def _write(task: _Task, table: pd.DataFrame, device: str) -> None:
    """Write the answers of a model, whole or not at all, with what they depend on."""
    found = pa.Table.from_pandas(table, preserve_index=False)
    own = {_KEY: task.key.encode(), _DEVICE: device.encode()}
    metadata = {**(found.schema.metadata or {}), **own}
    with on_disk(task.answers), atomic_path(task.answers) as part:
        pq.write_table(found.replace_schema_metadata(metadata), part)


def _responses(lab: Path, tasks: Sequence[_Task]) -> pd.DataFrame:
    """Return the answers of models with the contamination of their items."""
    parts = []
    for task in tasks:
        part = pd.read_parquet(task.answers).drop(columns="replies")
        if task.epoch is not None:
            part = part.assign(checkpoint=task.epoch, run=task.run.mix)
        parts.append(part)
    keys = ["mix", "benchmark", "item"]
    names = dict.fromkeys(keys, str)
    covariates = pd.read_csv(lab / COVARIATES, dtype=names, keep_default_na=False)
    rows = pd.concat(parts, ignore_index=True).astype(names)
    known = covariates[[*keys, "contamination", "copies", "kind"]]
    table = rows.merge(known, on=keys, how="left", validate="many_to_one")
    # Only of items with duplicates: fits take a kind of clean rows for one more kind.
    table["duplicate_kind"] = table["kind"].where(table["contamination"] > 0, "")
    return table[[*COLUMNS, *(name for name in CHECKPOINT_COLUMNS if name in table)]]
