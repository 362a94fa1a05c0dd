"""Packages that come with an extra, imported on demand."""

import importlib
import importlib.util
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
