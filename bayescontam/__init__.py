"""How much of a benchmark score is genuine ability, and how much is contamination.

Public names are listed in ``__init__.pyi`` and loaded when they are first used, so that
importing the package costs nothing.

Examples
--------
>>> import bayescontam
>>> bayescontam.load_spec("single").ability.pooling
'none'
"""

from typing import Any

import lazy_loader

_load, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # slower to import than all else here

        return version("bayescontam")
    return _load(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
