"""Known: the chunks that a searcher has met, each text once."""

import numpy as np
from numpy.typing import NDArray

from bayescontam.scan.kernels import place_all

_ROOM = 1024


class Known:
    """Chunks with different texts; the column of each says when it came, from 0."""

    def __init__(self) -> None:
        self.size = 0
        self._ids = np.empty(_ROOM, np.uint64)
        self._firsts = np.empty(_ROOM, np.uint64)
        self._places = np.empty(_ROOM, np.int64)
        self._copies = np.empty(_ROOM, np.int64)
        self._slots = np.full(2 * _ROOM, -1, np.int64)

    @property
    def ids(self) -> NDArray[np.uint64]:
        """Hashes by column."""
        return self._ids[: self.size]

    def learn(
        self,
        hashes: NDArray[np.uint64],
        firsts: NDArray[np.uint64],
        places: NDArray[np.int64],
        copies: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Take chunks, all different, and say which are new; of the others count the copies."""
        self._make_room(len(hashes))
        columns = place_all(hashes, self._ids, self.size, self._slots)
        new = columns >= self.size
        self.size += int(new.sum())
        self._copies[columns[new]] = 0
        self._copies[columns] += copies
        better = new | (firsts < self._firsts[columns])
        self._firsts[columns[better]] = firsts[better]
        self._places[columns[better]] = places[better]
        return new

    def tell(self, columns: NDArray[np.int32]) -> dict[str, NDArray[np.generic]]:
        """Return what is known of some columns, by the fields of a match."""
        return {
            "chunk": self._ids[columns],
            "first": self._firsts[columns],
            "where": self._places[columns],
            "copies": self._copies[columns],
        }

    def _make_room(self, more: int) -> None:
        spare = self.size + more - len(self._ids)
        if spare <= 0:
            return
        # At least twice the room, so that what is copied in all stays a few times the whole.
        spare = max(spare, len(self._ids))
        self._ids = np.pad(self._ids, (0, spare))
        self._firsts = np.pad(self._firsts, (0, spare))
        self._places = np.pad(self._places, (0, spare))
        self._copies = np.pad(self._copies, (0, spare))
        self._slots = np.full(2 << (len(self._ids) - 1).bit_length(), -1, np.int64)
        place_all(self.ids.copy(), self._ids, 0, self._slots)
