"""Disk: what goes wrong with it, said in words."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from bayescontam.errors import TaskError
from bayescontam.names import visible

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def on_disk(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of the system into one that names the file and says how to go on."""
    try:
        yield
    except BrokenPipeError:
        raise  # that is the terminal, not the disk
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        cure = "free some space" if error.errno in _FULL else "put that right"
        raise TaskError(
            f"{visible(str(error.filename or path))}: {visible(reason, 400)}; {cure}, then run the "
            "same command again: finished work is stored"
        ) from error
