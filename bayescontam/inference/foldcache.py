"""Fold cache: finished folds on disk, so that a cross-validation goes on where it was stopped."""

import importlib.metadata
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from bayescontam.inference.design import Design
from bayescontam.inference.leaving import Leave, Left, Source, Task
from bayescontam.storage import made_folder, sha256, write_text

_SCHEMA = 1
"""To be raised when a fold that was finished before must not stand for one made now."""


def fold_key(source: Source, fingerprint: str, leave: Leave) -> str:
    """Return the key of a fold: a hash of all that its figures depend on."""
    sampling = asdict(source.sampling)
    del sampling["cores"]  # of no effect on draws
    parts = [
        _SCHEMA, importlib.metadata.version("bayescontam"), source.spec.hash, fingerprint,
        sampling, leave.rows.tolist(), leave.unit.tolist(), leave.seed,
    ]  # fmt: skip
    return sha256(json.dumps(parts).encode())


def fingerprint(design: Design) -> str:
    """Return a hash of everything in a design without an exposure."""
    parts = []
    for field in fields(design):
        value = getattr(design, field.name)
        array = isinstance(value, np.ndarray)
        parts.append([field.name, sha256(value.tobytes()) if array else repr(value)])
    return sha256(json.dumps(parts).encode())


@dataclass(frozen=True, eq=False)
class Shelf:
    """A folder of finished folds, each written whole or not at all; or nothing."""

    folder: Path | None  # none: nothing is stored
    sources: Mapping[str, Source]
    prints: Mapping[str, str]  # fingerprints of their designs

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str] | None,
        sources: Mapping[str, Source],
        designs: Mapping[str, Design],
    ) -> "Shelf":
        """Make the folder if need be."""
        if folder is None:
            return cls(None, sources, {})
        path = made_folder(folder)
        return cls(path, sources, {name: fingerprint(design) for name, design in designs.items()})

    def get(self, task: Task) -> Left | None:
        """Return a finished fold, or None where there is none that can be read."""
        if self.folder is None:
            return None
        try:
            found = json.loads(self._path(self.folder, task).read_bytes())
            left = Left(
                tuple(map(float, found["elpd"])), tuple(map(float, found["worth"])),
                float(found["r_hat"]), int(found["divergences"]),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError):
            return None
        units = len(np.unique(task.leave.unit))
        return left if len(left.elpd) == len(left.worth) == units else None

    def put(self, task: Task, left: Left) -> None:
        """Keep a fold."""
        if self.folder is not None:
            write_text(self._path(self.folder, task), json.dumps(asdict(left)) + "\n")

    def _path(self, folder: Path, task: Task) -> Path:
        key = fold_key(self.sources[task.source], self.prints[task.source], task.leave)
        return folder / f"{key}.json"
