"""Groups: subtasks that are taken for one benchmark, with a column that names the subtask."""

import fnmatch
from collections.abc import Iterable, Mapping

import pandas as pd

from bayescontam.errors import UsageError
from bayescontam.importers.choices import Names, several
from bayescontam.importers.extra_columns import MARK
from bayescontam.names import listed, visible

SUBTASK = "subtask"
"""Column with the name that a benchmark had before it became a part of a group."""


class Groups:
    """Which benchmarks are subtasks of one."""

    def __init__(self, given: Names) -> None:
        self._patterns: dict[str, str] = {}
        self._stated: dict[str, set[str]] = {}
        for text in several(given):
            name, sign, pattern = text.partition("=")
            if not name or (sign and not pattern) or name in self._patterns:
                reason = "is given twice" if name in self._patterns else "is no group"
                raise UsageError(
                    f"--group {visible(text)}: {reason}; give NAME, or NAME=PATTERN such as "
                    "mmlu=mmlu_*"
                )
            self._patterns[name] = pattern

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def state(self, groups: Mapping[str, Iterable[str]]) -> None:
        """Note which subtasks, or groups of subtasks, the logs of a run have in each group."""
        for name, parts in groups.items():
            self._stated.setdefault(name, set()).update(parts)

    def applied(
        self, trials: pd.DataFrame, chosen: Mapping[str, str]
    ) -> tuple[pd.DataFrame, dict[str, str]]:
        """Return trials with subtasks as one benchmark, and what was chosen for it.

        Items become ``subtask/item``, since items of several subtasks may have one name.
        """
        if not self._patterns:
            return trials, dict(chosen)
        if MARK + SUBTASK in trials:
            raise UsageError(f"--keep: the name '{SUBTASK}' is taken by --group; give NEWNAME=PATH")
        names = sorted(trials["benchmark"].unique())
        of = self._of(names)
        inside = trials["benchmark"].isin(list(of))
        subtask = trials["benchmark"].where(inside, None)
        item = trials["item"].mask(inside, trials["benchmark"] + "/" + trials["item"])
        benchmark = trials["benchmark"].map(lambda name: of.get(name, name))
        frame = trials.assign(benchmark=benchmark, item=item, **{MARK + SUBTASK: subtask})
        merged: dict[str, dict[str, None]] = {}
        for name, choice in chosen.items():
            merged.setdefault(of.get(name, name), {})[choice] = None
        return frame, {name: " / ".join(choices) for name, choices in merged.items()}

    def _of(self, names: list[str]) -> dict[str, str]:
        """Return the group of each benchmark that is in one."""
        found: dict[str, str] = {}
        for group, pattern in self._patterns.items():
            if pattern:
                mine = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
            else:
                mine = sorted(self._leaves(group) & set(names))
            if not mine:
                raise UsageError(f"--group {visible(group)}: {self._advice(group, pattern, names)}")
            if twice := [name for name in mine if name in found]:
                raise UsageError(
                    f"--group: {listed(twice)} would be in '{visible(found[twice[0]])}' and in "
                    f"'{visible(group)}'; give patterns that do not overlap"
                )
            found.update(dict.fromkeys(mine, group))
        return found

    def _leaves(self, group: str) -> set[str]:
        """Return the subtasks of a group, those of groups inside it included."""
        leaves: set[str] = set()
        known, open_ = set(), [group]
        while open_:
            name = open_.pop()
            if name in known:
                continue
            known.add(name)
            parts = self._stated.get(name)
            if parts:
                open_ += parts
            elif name != group:
                leaves.add(name)
        return leaves

    def _advice(self, group: str, pattern: str, names: list[str]) -> str:
        there = f"there are {listed(names)}"
        if pattern:
            return f"no benchmark fits '{visible(pattern)}'; {there}"
        stated = f"; the logs state the groups {listed(sorted(self._stated))}"
        return (
            f"the logs state no subtasks of it{stated if self._stated else ''}; {there}; give a "
            f"pattern, such as --group '{visible(group)}={visible(group)}_*'"
        )
