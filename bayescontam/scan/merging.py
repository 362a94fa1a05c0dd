"""Merging: sketches of shards into one, so that a killed scan loses none and counts none twice."""

import time
from pathlib import Path

from bayescontam.scan.disk import on_disk
from bayescontam.scan.sketch import Sketch

_SECONDS = 20.0
"""Least time between two savings of what is merged."""
_SHARE = 0.05
"""Largest share of time that goes into saving: a sketch of many items is large."""


class Merging:
    """Sketches of shards, merged as they arrive; the merged one is saved now and then.

    A sketch says which shards it has seen, so that none counts twice after an interruption.
    """

    def __init__(self, folder: Path, empty: Sketch) -> None:
        self._folder, self._path = folder, folder / "merged.npz"
        self.sketch = Sketch.load(self._path) if self._path.exists() else empty
        self._waiting: list[Path] = []
        self._next = time.monotonic() + _SECONDS
        for path in sorted(folder.glob("[0-9]*.npz")):
            self.take(path.stem)

    def take(self, key: str) -> None:
        """Merge the sketch of a shard."""
        path = self._folder / f"{key}.npz"
        if int(key) not in self.sketch.shards:
            self.sketch = self.sketch.merge(Sketch.load(path))
        self._waiting.append(path)
        if time.monotonic() > self._next:
            self.save()

    def save(self) -> None:
        """Write what is merged, then remove what it was merged from."""
        start = time.monotonic()
        with on_disk(self._path):
            self.sketch.save(self._path)
            for path in self._waiting:
                path.unlink(missing_ok=True)
        self._waiting, now = [], time.monotonic()
        self._next = now + max(_SECONDS, (now - start) / _SHARE)
