"""Covariates: what was weighed, as the table that responses are fitted with."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayescontam._types import FloatArray
from bayescontam.evidence.pairs import scan_pairs
from bayescontam.evidence.verdicts import first_runs
from bayescontam.evidence.weighing import Weighed
from bayescontam.judgements import PAIR

if TYPE_CHECKING:
    from bayescontam.evidence.duplicates import Curve
    from bayescontam.scan.results import Scan

_KEYS = ["benchmark", "item"]


def covariates_table(weighed: Weighed, scan: "Scan", curve: "Curve") -> pd.DataFrame:
    """Return contamination covariates, one row for each item."""
    p = 1 - weighed.none
    mean = _chance(weighed.none)
    tails = np.round([(1 - curve.level) / 2, (1 + curve.level) / 2], 12)
    low, high = np.quantile(weighed.number, tails, axis=0, method="inverted_cdf").astype(float)
    table = weighed.items.assign(
        contamination=mean,
        contamination_sd=np.sqrt(mean * (1 - mean)),
        p_duplicate=mean,
        p_duplicate_sd=p.std(axis=0),
        p_scanned=_chance(weighed.none_scanned),
        expected_duplicates=weighed.expected.mean(axis=0),
        duplicates_low=low,
        duplicates_high=high,
        expected_scanned=weighed.expected_scanned.mean(axis=0),
        expected_rest=weighed.expected_rest.mean(axis=0),
    )
    table = table.assign(**_named("source", weighed.sources, weighed.none_by_source, least=2))
    table = table.assign(**_named("kind", weighed.kinds, weighed.none_by_kind, least=1))
    table = table.join(_matches(scan), on=_KEYS).join(_judged(scan, curve), on=_KEYS)
    return table.fillna({"judged": 0, "judged_duplicates": 0}).astype(
        {"judged": "int64", "judged_duplicates": "int64"}
    )


def _chance(none: FloatArray) -> FloatArray:
    """Return the probability of any, of draws of that of none; rounding is cut off."""
    return (1 - none.mean(axis=0)).clip(0.0, 1.0)


def _named(
    prefix: str, names: tuple[str, ...], none: FloatArray, least: int
) -> dict[str, FloatArray]:
    if len(names) < least:
        return {}
    return {f"{prefix}_{name}": _chance(none[..., k]) for k, name in enumerate(names)}


def _matches(scan: "Scan") -> pd.DataFrame:
    """Return the best cosine of each item, and the largest of each lexical score."""
    names = [name for name in scan.matches.columns if _lexical(str(name))]
    best = scan.matches.groupby(_KEYS, observed=True)[["cosine", *names]].max()
    return best.rename(columns={"cosine": "top_cosine"} | {name: f"max_{name}" for name in names})


def _lexical(name: str) -> bool:
    return name.startswith("ngram_") or name in ("jaccard", "rouge_l")


def _judged(scan: "Scan", curve: "Curve") -> pd.DataFrame:
    """Return how many pairs of each item were judged, and called duplicates by most judges.

    Only pairs that the scan holds: the curve may come from another one.
    """
    verdicts = first_runs(curve.judged).groupby(list(PAIR), observed=True)["is_duplicate"].mean()
    called = (verdicts > 0.5).rename("judged_duplicates").reset_index()
    called = called.merge(scan_pairs(scan)[list(PAIR)].drop_duplicates(), on=list(PAIR))
    grouped = called.groupby(_KEYS, observed=True)["judged_duplicates"]
    return pd.DataFrame({"judged": grouped.size(), "judged_duplicates": grouped.sum()})
