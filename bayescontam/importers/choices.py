"""Choices: the one filter, metric or scorer that counts for each benchmark, never guessed."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence

from bayescontam.errors import UsageError
from bayescontam.importers.left_out import counted
from bayescontam.names import listed, visible

type Names = str | Sequence[str]
"""One name, or several."""
type Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One path, or several."""


def several[Given: str | os.PathLike[str]](given: Given | Sequence[Given]) -> list[Given]:
    """Return names or paths as a list, of which there may be one that stands alone.

    >>> several("acc"), several(["acc", "f1"])
    (['acc'], ['acc', 'f1'])
    """
    if isinstance(given, str | os.PathLike):
        return [given]
    return list(given)


def chosen(
    what: str, given: Names, candidates: Mapping[str, Counter[str]], unit: str = "rows"
) -> dict[str, str]:
    """Return the candidate that was requested, or is the only one, for each benchmark."""
    own, general = _split(several(given), candidates)
    problems, result = [], {}
    for benchmark, counts in candidates.items():
        wanted = own.get(benchmark) or [name for name in general if name in counts]
        fitting = [name for name in dict.fromkeys(wanted) if name in counts]
        if len(fitting) == 1:
            result[benchmark] = fitting[0]
        elif len(counts) == 1 and benchmark not in own:
            result[benchmark] = next(iter(counts))
        else:
            problems.append(f"{visible(benchmark, 60)} has {counted(counts, unit)}")
    unused = {name for name in general if not any(name in counts for counts in candidates.values())}
    unused |= {name for at, names in own.items() for name in names if name not in candidates[at]}
    if unused:
        have = "; ".join(
            f"{visible(at, 60)} has {counted(counts, unit)}" for at, counts in candidates.items()
        )
        raise UsageError(f"--{what}: {listed(sorted(unused))} occurs nowhere; {have}")
    if problems:
        raise UsageError(
            f"--{what}: needed, because there are several: {'; '.join(problems)}; give one with "
            f"--{what} NAME, or for one benchmark with --{what} BENCHMARK=NAME"
        )
    return result


def _split(
    given: Sequence[str], candidates: Mapping[str, Counter[str]]
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the names given for one benchmark, and those given for all."""
    own: dict[str, list[str]] = {}
    general = []
    for text in given:
        # Names may hold "=": it divides only after the name of a benchmark.
        at = next((name for name in candidates if text.startswith(f"{name}=")), None)
        if at is None:
            general.append(text)
        else:
            own.setdefault(at, []).append(text.removeprefix(f"{at}="))
    return own, general
