"""A scan that was weighed with a curve, as pages show it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam.data.judgements import PAIR, sort_of
from bayescontam.errors import UsageError
from bayescontam.evidence.covariates import (
    DRAWS,
    FLOOR,
    ItemContamination,
    covariates_table,
    item_contamination,
)
from bayescontam.evidence.item_exposure import ItemExposure
from bayescontam.evidence.item_matches import Matches
from bayescontam.evidence.verdicts import first_runs
from bayescontam.report.matches import KEYS

if TYPE_CHECKING:
    from bayescontam.evidence.curve import Curve
    from bayescontam.scan.results import Scan

_PAIR = list(PAIR)


@dataclass(frozen=True, eq=False)
class Evidence:
    """A scan that was weighed with a curve."""

    scan: "Scan"
    curve: "Curve"
    weighed: ItemContamination
    # one row for each item; the columns of `bayescontam.evidence.covariates.covariates_table`
    items: pd.DataFrame
    label: str = ""  # name of the curve, where several are shown

    def ranked(self) -> pd.DataFrame:
        """Return the items that most probably have duplicates first."""
        order = ["p_duplicate", "expected_duplicates", "top_cosine"]
        return self.items.sort_values(order, ascending=False, kind="stable")

    def matches(self, items: pd.DataFrame) -> pd.DataFrame:
        """Return the listed matches of some items, likely duplicates first."""
        rows = self.scan.matches.merge(items[KEYS], on=KEYS)
        p = _match_probabilities(self.scan, self.curve, items)
        rows = rows.merge(p, on=_PAIR, how="left")
        order = ["p", "cosine", "rank"]  # of equal ones in several sources the ranks differ
        return rows.sort_values(order, ascending=[False, False, True], kind="stable")

    def verdicts(self) -> dict[tuple[object, ...], list[str]]:
        """Return how judges called each pair, in words."""
        said: dict[tuple[object, ...], list[str]] = {}
        for row in first_runs(self.curve.judged).to_dict("records"):
            by_rule = sort_of(str(row["judge"])) == "rules"
            article, what = ("an", "exact copy") if by_rule else ("a", "duplicate")
            verdict = f"{article if row['is_duplicate'] else 'no'} {what}"
            kind = f" ({row['kind']})" if row["kind"] and not by_rule else ""
            words = f"{printable(str(row['judge']), 60)}: {verdict}{kind}"
            said.setdefault(tuple(row[name] for name in _PAIR), []).append(words)
        return said


def gather(scan: "Scan", curve: "Curve", progress: bool = False, label: str = "") -> Evidence:
    """Weigh a scan with a curve, for a page."""
    sources = {str(row["source"]) for row in scan.record.get("strata") or []}
    needed = {"benchmark": set(map(str, scan.items["benchmark"])), "source": sources}
    known = {"benchmark": set(curve.benchmarks), "source": set(curve.sources)}
    for what, names in needed.items():
        if lost := sorted(names - known[what]):
            raise UsageError(
                f"the curve does not cover {what} {join_list(lost)}; fit one to this scan:"
                " bayescontam curve"
            )
    weighed = item_contamination(scan, curve, progress=progress)
    return Evidence(scan, curve, weighed, covariates_table(weighed, scan, curve), label)


def _match_probabilities(scan: "Scan", curve: "Curve", items: pd.DataFrame) -> pd.DataFrame:
    """Return ``PAIR`` and ``p`` of the matches that count, one of each document."""
    matches = Matches(scan, curve, FLOOR, DRAWS)
    wanted = set(items[KEYS].itertuples(index=False, name=None))
    draws, parts = curve.draws(DRAWS), []
    every = scan.items[KEYS].itertuples(index=False, name=None)
    for key, matched in zip(every, matches, strict=True):
        if key in wanted and matched.listed:
            exposure = ItemExposure(draws, matched)
            each = np.einsum("sh,shm->sm", exposure.weight, exposure.probability).mean(axis=0)
            parts.append(matches.listed(key).assign(p=each[: matched.listed]))
    return pd.concat(parts) if parts else scan.matches.iloc[:0][_PAIR].assign(p=0.0)
