"""Hugging Face data sets, saved to disk or by name: their shards, and the rows of one."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from bayescontam.errors import BayescontamError, UsageError
from bayescontam.names import listed, visible
from bayescontam.optional import require
from bayescontam.scan.fields import Fields
from bayescontam.scan.inputs import Input
from bayescontam.specs.corpus import Source

BATCH_ROWS = 256
"""Rows that are taken from a data set at once."""

_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


def list_dataset(source: Source, base: Path) -> list[Input]:
    """List the shards of a source's data set: the files it is stored in."""
    name = source.dataset or ""
    folder = Path(os.path.normpath(base / os.path.expanduser(name)))  # noqa: PTH111 (pathlib's raises)
    require("datasets", "scan")
    if folder.exists():
        return _list_saved(source, folder, base)
    if not _NAME.fullmatch(name):
        raise _refused(source, f"there is no folder {visible(str(folder))}")
    try:
        commit = _commit(source)
        parts = _streamed(source, commit).num_shards
    # Hub, network, builders and file systems each have errors of their own.
    except Exception as error:
        raise _refused(source, _reason(error), _ADVICE.format(name=visible(name))) from error
    shown = "/".join(part for part in (name, source.config, source.split) if part)
    return _shards(source, shown, name, parts, commit)


def read_dataset(item: Input, source: Source, fields: Fields) -> Iterator[pa.Table]:
    """Give the rows of one shard of a data set, some at a time."""
    try:
        data = _opened(item, source).shard(num_shards=item.parts, index=item.part, contiguous=True)
        wanted = {part for name in fields.wanted for part in (name, name.partition(".")[0])}
        # Streamed data sets need not know their columns; without any, rows would get lost.
        fields.there = list(data.column_names or ())
        names = [name for name in fields.there if name in wanted]
        if names:
            data = data.select_columns(names)
        yield from data.with_format("arrow").iter(batch_size=BATCH_ROWS)
    except (BayescontamError, OSError):
        raise
    except Exception as error:  # as above
        raise OSError(_reason(error)) from error


def _opened(item: Input, source: Source) -> Any:
    if not Path(item.location).is_absolute():
        return _streamed(source, item.stamp)
    with _without_progress() as datasets:
        return datasets.load_from_disk(item.location)


@contextmanager
def _without_progress() -> Iterator[Any]:
    datasets = require("datasets", "scan")
    shown = not datasets.utils.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield datasets
    finally:
        if shown:
            datasets.enable_progress_bars()


def _streamed(source: Source, commit: str) -> Any:
    with _without_progress() as datasets:
        return datasets.load_dataset(
            source.dataset,
            source.config,
            split=source.split,
            revision=commit or None,
            streaming=True,
        )


def _commit(source: Source) -> str:
    """Return the commit that all shards are read at, so that they belong together.

    It also shows at once whether the hub can be reached; loading would try for long.
    """
    hub = require("huggingface_hub", "scan")
    if hub.constants.HF_HUB_OFFLINE:
        return source.revision or ""
    return str(hub.HfApi().dataset_info(source.dataset, revision=source.revision).sha)


def _list_saved(source: Source, folder: Path, base: Path) -> list[Input]:
    if not (folder / "state.json").exists():
        folder = _split_folder(source, folder)
    state = _json(source, folder / "state.json")
    shown = folder.relative_to(base) if folder.is_relative_to(base) else folder
    parts = max(1, len(state["_data_files"]))
    return _shards(source, shown.as_posix(), str(folder), parts, str(state["_fingerprint"]))


def _split_folder(source: Source, folder: Path) -> Path:
    index = folder / "dataset_dict.json"
    if not index.exists():
        problem = "the folder is none that save_to_disk wrote"
        raise _refused(source, problem, 'for a folder of files give paths = ["…"]')
    splits = _json(source, index)["splits"]
    if source.split not in splits:
        raise _refused(source, f"no split '{visible(source.split)}'; there are {listed(splits)}")
    return folder / source.split


def _json(source: Source, path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise _refused(source, f"{visible(str(path))} cannot be read ({error})") from error


def _shards(source: Source, shown: str, location: str, parts: int, stamp: str) -> list[Input]:
    return [
        Input(
            source=source.name,
            path=shown if parts == 1 else f"{shown}[{part + 1}/{parts}]",
            location=location,
            kind="dataset",
            part=part,
            parts=parts,
            stamp=stamp,
        )
        for part in range(parts)
    ]


_ADVICE = (
    "check name, config, split and revision, the network, and for a gated data set the login "
    "(hf auth login); for a machine without network, on one that has it: "
    "datasets.load_dataset('{name}').save_to_disk('FOLDER'), or hf download {name} --repo-type "
    'dataset --local-dir FOLDER and paths = ["FOLDER"]; what is in the cache already is used '
    "with HF_HUB_OFFLINE=1"
)


def _reason(error: Exception) -> str:
    return visible(f"{type(error).__name__}: {error}", 400)


def _refused(source: Source, problem: str, advice: str = "") -> UsageError:
    start = f"source '{visible(source.name)}': data set {visible(source.dataset or '')}: "
    return UsageError(start + problem + (f"; {advice}" if advice else ""))
