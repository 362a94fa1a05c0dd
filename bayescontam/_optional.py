"""Packages that come with an extra, imported on demand, and parts of packages."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from bayescontam.errors import MissingExtraError


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or say which extra installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != module.split(".")[0]:
            raise  # installed, but broken by something else: that is another error
        raise _missing(module, extra) from error


def check_installed(module: str, extra: str) -> None:
    """Say which extra installs `module` if it is not there; nothing is imported."""
    if importlib.util.find_spec(module) is None:
        raise _missing(module, extra)


def folder_of(package: str, extra: str) -> Path:
    """Return the folder of a package, or say which extra installs it; nothing is imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise _missing(package, extra)
    return Path(spec.origin).parent


def _missing(module: str, extra: str) -> MissingExtraError:
    return MissingExtraError(
        f"this needs the package '{module.split('.')[0]}', which is not installed; "
        f"install it with: pip install 'bayescontam[{extra}]'"
    )


@contextmanager
def arviz_without_pictures() -> Iterator[None]:
    """Have what is imported meanwhile see `arviz_base` as ArviZ.

    nutpie imports all of ArviZ, with matplotlib and a second more of every start, and uses what
    `arviz_base` has.
    """
    if "arviz" in sys.modules:
        yield
        return
    sys.modules["arviz"] = importlib.import_module("arviz_base")
    try:
        yield
    finally:
        del sys.modules["arviz"]
