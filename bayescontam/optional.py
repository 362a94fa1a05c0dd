"""Lazy import of optional dependencies, with the exact install line when absent."""

import importlib
from types import ModuleType

from bayescontam.errors import MissingExtraError


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or say which extra installs it.

    Parameters
    ----------
    module : str
        Import name, such as ``"numpyro"``.
    extra : str
        Extra of this package that installs it, such as ``"jax"``.

    Returns
    -------
    module

    Raises
    ------
    MissingExtraError
        If the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != module.split(".")[0]:
            raise  # installed, but broken by something else: that is another error
        raise MissingExtraError(
            f"this needs the package '{module}', which is not installed; "
            f"install it with: pip install 'bayescontam[{extra}]'"
        ) from error
