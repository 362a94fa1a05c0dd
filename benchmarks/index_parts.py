"""Where the time of a search of an index goes, by processor time of its parts.

``python -m benchmarks.index_parts FOLDER``, with the folder that ``benchmarks.index --keep``
wrote. The third of three searches is printed: then loops are compiled and files in memory.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bayescontam.scan import index_search, run
from bayescontam.scan.vector_index import VectorIndex
from benchmarks.index import search

PARTS = {
    "candidates, exact cosines": (VectorIndex, "nearest"),
    "sample": (index_search._SampleComparison, "run"),
    "all": (run, "search_index"),
}


@contextmanager
def timed(seconds: dict[str, float]) -> Iterator[None]:
    """Add up the processor time of each part; none of the first two calls another of them."""

    def wrapper(name: str, part: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            start = time.process_time()
            found = part(*args, **options)
            if isinstance(found, Iterator):  # a generator works as it is read
                found = list(found)
            seconds[name] = time.process_time() - start
            return found

        return call

    patches = [patch.object(o, n, wrapper(name, getattr(o, n))) for name, (o, n) in PARTS.items()]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def main() -> None:
    """Search three times; print the parts of the last."""
    folder, seconds = Path(sys.argv[1]), dict[str, float]()
    with timed(seconds):
        for _ in range(3):
            search(folder, "index = 'index'")
    for name, taken in seconds.items():
        print(f"{name:<28}{taken:6.2f} s of the processor")


if __name__ == "__main__":
    main()
