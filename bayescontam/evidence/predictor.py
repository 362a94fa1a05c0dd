"""A trained judge as predictor: its verdicts inform where others judged some of its pairs.

A trained judge looks at the cosine, and errs more often where that is high. Were its thousands
of verdicts outcomes like those of people, errors that the model does not foresee would outweigh
the hundreds of pairs that somebody read. As a predictor it can do no such harm: what a verdict
of it means is learnt from pairs that others judged as well. Double sampling: Tenenbein (1970),
doi:10.1080/01621459.1970.10481170.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from bayescontam._text import join_list
from bayescontam._types import FloatArray
from bayescontam.data.judgements import run_of, sort_of
from bayescontam.errors import UsageError
from bayescontam.evidence.pairs import SAME_TEXT
from bayescontam.evidence.verdicts import SAME_COSINE, UNIT, first_runs, with_leads

READERS = ("people", "models")
"""Sorts of judges that read both texts."""
FEWEST = 20
"""Pairs of either verdict of a predictor that others should have read."""


@dataclass(frozen=True, eq=False)
class Predictor:
    """Verdicts of a trained judge, and how frequent they are at each cosine."""

    judge: str
    reported: pd.DataFrame  # `UNIT`, ``lead_cosine``, ``sign``: 1 a duplicate, -1 none
    # documents that people or language models judged as well: reported as duplicates, and others
    read: tuple[int, int]

    def joined(self, documents: pd.DataFrame) -> pd.DataFrame:
        """Return `UNIT` and ``lead_cosine`` of documents with ``sign`` and ``share``.

        The sign is 0 where this judge judged nothing, or a text with another cosine; the share is
        that of pairs with the same cosine on which it gives the same verdict.
        """
        rows = documents.merge(
            self.reported, on=UNIT, how="left", suffixes=("", "_then"), validate="many_to_one"
        )
        same = np.abs(rows["lead_cosine"] - rows.pop("lead_cosine_then")) <= SAME_TEXT
        sign = rows["sign"].where(same, 0.0).to_numpy(float)
        share = np.full(len(rows), 0.5)
        for name in rows["benchmark"].unique():
            own = (rows["benchmark"] == name).to_numpy() & (sign != 0)
            known = self.reported[self.reported["benchmark"] == name]
            if own.any():
                share[own] = reported_share(known, rows.loc[own, "lead_cosine"].to_numpy(float))
        return rows.assign(sign=sign, share=np.where(sign < 0, 1 - share, share))

    def informs(self, documents: pd.DataFrame) -> pd.DataFrame:
        """Return documents as `joined`, with sign and share of the nearest ones of their items.

        ``sign_open`` and ``share_open``; `documents` have ``best``, the cosine of the nearest.
        """
        keys = ["benchmark", "item"]
        nearest = self.reported.sort_values("lead_cosine", ascending=False, kind="stable")
        nearest = nearest.drop_duplicates(keys)
        items = documents[[*keys, "best"]].drop_duplicates(keys)
        items = items.merge(nearest, on=keys, how="left")
        # Not where a nearer document was not judged by it.
        own = items["lead_cosine"] >= items["best"] - SAME_COSINE
        items = items.assign(document=items["document"].where(own), lead_cosine=items["best"])
        items = self.joined(items.drop(columns="sign"))
        renamed = {"sign": "sign_open", "share": "share_open"}
        items = items[[*keys, *renamed]].rename(columns=renamed)
        return self.joined(documents).merge(items, on=keys, how="left", validate="many_to_one")


def reported_share(known: pd.DataFrame, cosine: FloatArray) -> FloatArray:
    """Return at cosines the share of pairs that are reported as duplicates, which rises."""
    # In single precision, as scans have cosines: equal ones count together.
    at = known["lead_cosine"].astype(np.float32)
    of = (known["sign"] > 0).astype(float).groupby(at).agg(["mean", "size"])
    rising = isotonic_regression(of["mean"].to_numpy(), weights=of["size"].to_numpy(float)).x
    # Nothing is certain, however many pairs have the same verdict.
    least = 0.5 / (len(known) + 1)
    return np.interp(cosine, of.index.to_numpy(float), np.clip(rising, least, 1 - least))


def separated(
    judged: pd.DataFrame, validated: Collection[str] = ()
) -> tuple[pd.DataFrame, Predictor | None]:
    """Return the judgements that are outcomes, and the trained judge that is a predictor.

    It is one if people or language models judged some of its documents; of a judge with a
    validation, at least `FEWEST` of them, as its validation is not used then. Only what it reports
    of a document's nearest chunk counts.
    """
    rows = with_leads(first_runs(judged))
    sort = rows["judge"].map(sort_of)
    nearest = rows[(sort == "trained") & (rows["chunk"] == rows["lead"])]
    read = rows.loc[sort.isin(READERS), UNIT].drop_duplicates()
    shared = nearest.merge(read, on=UNIT)
    both = shared.groupby("judge").size()
    enough = both >= FEWEST
    both = both[enough | ~both.index.isin(list(validated))]
    if both.empty:
        return judged, None
    if len(both) > 1:
        raise UsageError(
            f"judgements: {join_list(both.index)} are trained judges on whose pairs people or"
            " language models judged as well; give the verdicts of one of them: judges who learnt"
            " from the same verdicts err alike"
        )
    judge = str(both.index[0])
    own = nearest[nearest["judge"] == judge]
    sign = np.where(own["is_duplicate"] == 1, 1.0, -1.0)
    own = own[[*UNIT, "lead_cosine"]].assign(sign=sign).drop_duplicates(UNIT, ignore_index=True)
    others = judged["judge"].map(lambda name: run_of(name)[0]) != judge
    duplicates = int((shared.loc[shared["judge"] == judge, "is_duplicate"] == 1).sum())
    read_of = duplicates, int(both.iloc[0]) - duplicates
    return judged[others.astype(bool)], Predictor(judge, own, read_of)


def chance(p: Any, log_ratio: Any, share: Any, library: Any) -> Any:
    """Return P(duplicate | a verdict of the predictor), of P(duplicate) and P(that verdict).

    `log_ratio` is the log of the odds ratio of truth and verdict, 0 where there is none; `library`
    is that of the arrays or tensors. The mean over verdicts is P(duplicate): the joint
    distribution is that of Plackett (1965), doi:10.1080/01621459.1965.10480807.

    >>> both = [chance(0.3, x, share, np) for x, share in ((2.0, 0.4), (-2.0, 0.6))]
    >>> round(float(both[0]), 4), round(float(0.4 * both[0] + 0.6 * both[1]), 4)
    (0.5425, 0.3)
    """
    k = library.expm1(log_ratio)
    square = 1 + 2 * k * (p + share - 2 * p * share) + (k * (p - share)) ** 2
    found = 2 * (1 + k) * p / (1 + k * (p + share) + square**0.5)
    return library.minimum(found, 1.0)  # which rounding may exceed
