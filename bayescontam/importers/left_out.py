"""Left out: what an importer did not take, counted by reason."""

from collections import Counter

import pandas as pd

from bayescontam.errors import DataError, Fault
from bayescontam.names import visible

ADVICE = (
    "write the logs again, or leave such rows out (skip_broken, --skip-broken), which counts them"
)


class LeftOut:
    """Counts of what was not taken.

    Parameters
    ----------
    skip_broken : bool, default False
        Count broken rows of log files; otherwise they are errors.
    """

    def __init__(self, skip_broken: bool = False) -> None:
        self._skip = skip_broken
        self._counts: Counter[tuple[str, str]] = Counter()
        self._faults: list[Fault] = []

    def add(self, where: str, reason: str, count: int = 1) -> None:
        """Count what was left out of a benchmark or file, and why."""
        if count:
            self._counts[where, reason] += count

    def broken(self, file: str, place: str, problem: str) -> None:
        """Take note of a row that cannot be read: a fault, or counted where that is asked for."""
        if self._skip:
            self.add(file, "broken rows")
        else:
            self._faults.append(Fault(file, f"{place}: {problem}"))

    def raise_if_broken(self, advice: str = ADVICE) -> None:
        """Raise one `DataError` with all broken rows, and what to do about them."""
        if self._faults:
            raise DataError(self._faults, advice)

    def frame(self) -> pd.DataFrame:
        """Return columns ``where`` (benchmark or file), ``reason`` and ``left_out``."""
        rows = [(where, reason, count) for (where, reason), count in sorted(self._counts.items())]
        return pd.DataFrame(rows, columns=["where", "reason", "left_out"])


def counted(counts: Counter[str], unit: str) -> str:
    """Return names with how often each occurs.

    Examples
    --------
    >>> counted(Counter(a=1200, b=3), "rows")
    "'a' (1,200 rows), 'b' (3 rows)"
    """
    shown = [f"'{visible(name, 60)}' ({count:,} {unit})" for name, count in sorted(counts.items())]
    more = f" and {len(shown) - 12} more" if len(shown) > 12 else ""
    return ", ".join(shown[:12]) + more
