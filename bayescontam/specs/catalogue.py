"""Specs that ship with the package, found by name."""

import os
from pathlib import Path

from bayescontam.errors import Fault, SpecError
from bayescontam.names import visible
from bayescontam.specs.base import closest, read_text
from bayescontam.specs.model import ModelSpec, parse_spec


def shipped_folder(kind: str) -> Path:
    """Return the folder of the shipped specs of a kind: ``models`` or ``studies``.

    In an installed package they lie inside it, in a checkout beside it.
    """
    package = Path(__file__).parent.parent
    inside = package / "_shipped" / kind
    return inside if inside.is_dir() else package.parent / kind


def shipped_models() -> tuple[str, ...]:
    """Return the names of the shipped model specs, sorted.

    Examples
    --------
    >>> "hierarchical" in shipped_models()
    True
    """
    return tuple(sorted(path.stem for path in shipped_folder("models").glob("*.toml")))


def load_spec(spec: str | os.PathLike[str]) -> ModelSpec:
    """Read a model spec by name or by path.

    Parameters
    ----------
    spec : str or path-like
        Name of a shipped model spec, such as ``"hierarchical"``, or the path of a
        TOML file. What ends in ``.toml`` or holds a path separator is a path.

    Returns
    -------
    ModelSpec
        Frozen; its ``hash`` depends on its meaning, not on its layout.

    Raises
    ------
    SpecError
        If there is no such name or file, or if the file is not a valid model spec;
        then every fault is listed, with suggestions for misspelt keys.

    Examples
    --------
    >>> spec = load_spec("hierarchical")
    >>> spec.priors.beta_bar.text()
    'Normal(0, 2)'
    """
    given = os.fspath(spec)
    if not given.endswith(".toml") and not {os.sep, "/"} & set(given):
        return _shipped(given)
    path = Path(given)
    return parse_spec(read_text(path), str(path))


def _shipped(name: str) -> ModelSpec:
    names = shipped_models()
    if name not in names:
        problem = f"no such model spec ({closest(name, names)})"
        advice = "Name a shipped model spec (bayescontam models list) or give a path to a .toml."
        raise SpecError([Fault(f"model spec '{visible(name, 60)}'", problem)], advice)
    path = shipped_folder("models") / f"{name}.toml"
    return parse_spec(read_text(path), path.name)
