"""Copies of vectors to a GPU that run while it computes with those before them."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray


def native(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return vectors as Torch takes them: in the order of bytes of this machine, and in a row."""
    return np.require(vectors, vectors.dtype.newbyteorder("="), ["C", "W"])


class Uploads:
    """Vectors to a device, part by part; to a GPU one part is always under way.

    A GPU copies by itself only from memory that is pinned. What is not is first copied into such
    memory (two rooms of it by turns), by a thread, since that takes about as long.
    """

    def __init__(self, torch: Any, device: str) -> None:
        self._torch, self._device = torch, device
        self._turn = 0
        self._rooms: list[Any] = [None, None]
        if device.startswith("cuda"):
            self._stream = torch.cuda.Stream(device)
            self._emptied = [torch.cuda.Event(), torch.cuda.Event()]  # of each room

    def __call__(self, parts: Iterable[NDArray[Any]]) -> Iterator[Any]:
        """Give parts as tensors on the device, in order."""
        if not self._device.startswith("cuda"):
            for part in parts:
                yield self._torch.from_numpy(native(part)).to(self._device)
            return
        with ThreadPoolExecutor(1) as thread:
            coming: Future[tuple[Any, Any]] | None = None
            for part in parts:
                started = thread.submit(self._start, part)
                if coming is not None:
                    yield self._arrived(*coming.result())
                coming = started
            if coming is not None:
                yield self._arrived(*coming.result())

    def _start(self, part: NDArray[Any]) -> tuple[Any, Any]:
        """Begin to copy a part; return what it becomes, and the event that it is whole."""
        torch, tensor = self._torch, self._torch.from_numpy(native(part))
        self._turn = turn = 1 - self._turn
        if not tensor.is_pinned():
            # What was in the room before has to be out of it.
            self._emptied[turn].synchronize()
            room = self._rooms[turn]
            if room is None or room.dtype != tensor.dtype or room.numel() < tensor.numel():
                room = torch.empty(tensor.numel(), dtype=tensor.dtype, pin_memory=True)
                self._rooms[turn] = room
            tensor = room[: tensor.numel()].view(tensor.shape).copy_(tensor)
        with torch.cuda.stream(self._stream):
            there = tensor.to(self._device, non_blocking=True)
            self._emptied[turn].record(self._stream)
            event = torch.cuda.Event()
            event.record(self._stream)
        return there, event

    def _arrived(self, there: Any, event: Any) -> Any:
        """Have the GPU wait for a copy before it computes; return the copy."""
        stream = self._torch.cuda.current_stream(self._device)
        stream.wait_event(event)
        # Its memory is not to be used again before what is computed with it is done.
        there.record_stream(stream)
        return there
