"""How much of a benchmark score is genuine ability, and how much is contamination.

Public names are listed in ``__init__.pyi`` and loaded when they are first used, so that
importing the package costs nothing.

Examples
--------
>>> import bayescontam
>>> bayescontam.load_model("single").ability.pooling
'none'
"""

from typing import Any

import lazy_loader

_load, _, __all__ = lazy_loader.attach_stub(__name__, __file__)

_RENAMED = {
    "load_spec": "load_model",
    "duplicate_curve": "fit_curve",
    "weigh_scan": "item_contamination",
}
"""Deprecated names, until the next release but one."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # slower to import than all else here

        return version("bayescontam")
    if name in _RENAMED:
        import warnings

        text = f"bayescontam.{name} is now bayescontam.{_RENAMED[name]}"
        warnings.warn(text, FutureWarning, stacklevel=2)
    return _load(_RENAMED.get(name, name))


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
