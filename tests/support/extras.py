"""What an extra brings, and the command line as if one extra alone were installed.

As a script: ``extras.py SEEN COMMAND …`` runs the command line with what ``seen`` returned, and
hides every other installed package. To look through all of these takes longer than most commands.
"""

import json
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


@cache
def declared() -> dict[str, list[str]]:
    """Return the requirements of the core (an empty name) and of each extra."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


@cache
def brought(extra: str) -> set[str]:
    """Return the distributions that an extra brings, with the core and all that they need."""
    todo = [Requirement(line) for name in {"", extra} for line in declared()[name]]
    found: set[str] = set()
    seen = set()
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        if (key := (name, frozenset(wanted.extras))) in seen:
            continue
        seen.add(key)
        if name == "bayescontam":
            todo += [Requirement(line) for own in wanted.extras for line in declared()[own]]
            continue
        found.add(name)
        needed = map(Requirement, metadata.requires(name) or [])
        todo += [need for need in needed if _applies(need, wanted.extras)]
    return found


def _applies(need: Requirement, extras: Iterable[str]) -> bool:
    return need.marker is None or any(
        need.marker.evaluate({"extra": extra}) for extra in ("", *extras)
    )


@cache
def _distributions() -> dict[str, set[str]]:
    """Return the distributions that hold each importable name."""
    found = metadata.packages_distributions()
    return {name: set(map(canonicalize_name, names)) for name, names in found.items()}


@cache
def modules(extra: str) -> set[str]:
    """Return the importable names that an extra brings, with the core."""
    there = brought(extra)
    return {name for name, holders in _distributions().items() if holders & there}


@cache
def seen(extra: str) -> str:
    """Return what there is with one extra, or with the core alone (an empty name).

    These are the distributions that are there, and the importable names that are hidden.
    """
    there = brought(extra) | {"bayescontam"}
    hidden = [name for name, holders in _distributions().items() if not holders & there]
    return json.dumps([sorted(there), hidden])


class Without:
    """A finder that finds neither hidden modules nor their distributions."""

    def __init__(self, finder: Any, hidden: set[str], there: set[str]) -> None:
        self._finder, self._hidden, self._there = finder, hidden, there

    def find_spec(self, name: str, *arguments: Any) -> Any:
        """Return where a module is, unless it is hidden."""
        if name.split(".")[0] in self._hidden:
            return None
        return self._finder.find_spec(name, *arguments)

    def find_distributions(self, *arguments: Any) -> Iterable[metadata.Distribution]:
        """Yield the distributions that are not hidden."""
        find = getattr(self._finder, "find_distributions", lambda *_: ())
        for found in find(*arguments):
            if canonicalize_name(found.name) in self._there:
                yield found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def hide(hidden: set[str], there: set[str]) -> None:
    """Hide modules, and distributions that are not there, for the rest of this process."""
    for name in [name for name in sys.modules if name.split(".")[0] in hidden]:
        del sys.modules[name]
    sys.meta_path[:] = [Without(finder, hidden, there) for finder in sys.meta_path]


if __name__ == "__main__":
    own, others = json.loads(sys.argv[1])
    hide({*others}, {*own})
    sys.argv = ["bayescontam", *sys.argv[2:]]
    sys.path.insert(0, str(PROJECT.parent))
    from bayescontam.__main__ import main

    main()
