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
    `arviz_base` has. Nor is JAX imported, see `_leave_jax_alone`.
    """
    whole = "arviz" in sys.modules
    if not whole:
        sys.modules["arviz"] = importlib.import_module("arviz_base")
    try:
        yield
    finally:
        if not whole:
            del sys.modules["arviz"]
        _leave_jax_alone()


class _Later(ModuleType):
    """A module that is imported when something of it is first used."""

    def __getattr__(self, name: str) -> object:
        return getattr(importlib.import_module(self.__name__), name)


def _leave_jax_alone() -> None:
    """Have SciPy and matplotlib not import JAX where it is installed and nothing uses it.

    `arviz_base` puts a JAX that is imported at first use among the modules of Python. SciPy and
    matplotlib look there before they compare an array with those of JAX, which imports all of it:
    more than a second of every fit and every report. Whoever holds that module may use it still.
    """
    for name in ("jax", "numpyro"):
        module = sys.modules.get(name)
        if module is not None and type(module).__name__ == "_LazyModule":
            del sys.modules[name]
            module.__class__ = _Later
