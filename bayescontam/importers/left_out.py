"""Left out: what an importer did not take, counted by reason."""

import re
from collections import Counter
from dataclasses import dataclass

import pandas as pd

from bayescontam.errors import DataError, Fault
from bayescontam.names import visible

ADVICE = (
    "write the logs again, or leave such rows out (skip_broken, --skip-broken), which counts them"
)


_OWN = re.compile(r"'[^']*'|\"[^\"]*\"|\d+(?:\.\d+)?")
"""What rows with the same fault do not share: names and numbers."""


@dataclass
class _Broken:
    """Rows of a file that cannot be read for one cause."""

    place: str
    problem: str
    advice: str
    last: str
    count: int = 1

    def fault(self, file: str) -> Fault:
        """Return one fault for all of them, which names the first and the last."""
        more = f" (and {self.count - 1:,} more like it, up to {self.last})"
        return Fault(file, f"{self.place}: {self.problem}{more if self.count > 1 else ''}")


class LeftOut:
    """Counts of what was not taken."""

    def __init__(self, skip_broken: bool = False) -> None:
        self._skip = skip_broken
        self._counts: Counter[tuple[str, str]] = Counter()
        self._broken: dict[tuple[str, str], _Broken] = {}

    def add(self, where: str, reason: str, count: int = 1) -> None:
        """Count what was left out of a benchmark or file, and why."""
        if count:
            self._counts[where, reason] += count

    def broken(
        self, file: str, place: str, problem: str, *, count: int = 1, advice: str = ADVICE
    ) -> None:
        """Note rows that cannot be read: faults, or counted if `skip_broken`.

        Rows of a file with the same problem, whatever names and numbers it shows, are one fault.
        """
        if self._skip:
            self.add(file, "broken rows", count)
            return
        known = self._broken.setdefault(
            (file, _OWN.sub("#", problem)), _Broken(place, problem, advice, place, 0)
        )
        known.last = place
        known.count += 1

    def raise_if_broken(self, advice: str = "") -> None:
        """Raise one `DataError` with all broken rows, and what to do about them."""
        if self._broken:
            faults = [found.fault(file) for (file, _), found in self._broken.items()]
            each = dict.fromkeys(found.advice for found in self._broken.values())
            raise DataError(faults, advice or "\n".join(each))

    def frame(self) -> pd.DataFrame:
        """Return columns ``where`` (benchmark or file), ``reason`` and ``left_out``."""
        rows = [(where, reason, count) for (where, reason), count in sorted(self._counts.items())]
        return pd.DataFrame(rows, columns=["where", "reason", "left_out"])


def counted(counts: Counter[str], unit: str) -> str:
    """Return names with how often each occurs.

    >>> counted(Counter(a=1200, b=3), "rows")
    "'a' (1,200 rows), 'b' (3 rows)"
    """
    shown = [f"'{visible(name, 60)}' ({count:,} {unit})" for name, count in sorted(counts.items())]
    more = f" and {len(shown) - 12} more" if len(shown) > 12 else ""
    return ", ".join(shown[:12]) + more
