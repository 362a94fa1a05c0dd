"""What the verdicts on each judged document show, given the draws of a curve."""

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from bayescontam._types import FloatArray
from bayescontam.data.judgements import sort_of
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.kinds import FIRST, KINDS, opinions
from bayescontam.evidence.verdicts import UNIT, seen


def by_document(judged: pd.DataFrame, kinds: tuple[str, ...]) -> pd.DataFrame:
    """Return judged documents: keys, ``verdict`` (number) and ``kind`` (position; -1: none)."""
    further = judged.assign(further=judged["chunk"] != judged["lead"])
    # Verdicts on its further chunks count where no judge read the nearest.
    first = further.groupby(UNIT, sort=False, observed=True)["further"].transform("min")
    table = further.loc[further["further"] == first, UNIT].drop_duplicates()
    table = table.assign(verdict=np.arange(len(table)))
    positions = {name: position for position, name in enumerate(KINDS)}
    said = opinions(further[further["further"] == first], kinds)
    said = said.assign(code=said["kind"].where(said["is_duplicate"] == 1).map(positions))
    grouped = said.groupby(UNIT, sort=False, observed=True)
    modes = grouped["code"].agg(lambda codes: codes.mode().iloc[0] if codes.notna().any() else -1)
    modes = modes.where(grouped["is_duplicate"].mean() > 0.5, -1)
    return table.join(modes.rename("kind"), on=UNIT).fillna({"kind": -1}).astype({"kind": "int64"})


def likelihoods(
    curve: Curve, judged: pd.DataFrame, documents: pd.DataFrame, draws: int
) -> tuple[FloatArray, FloatArray | None]:
    """Return log likelihoods of the verdicts on each document, dims (2, draw, document).

    And of those that are duplicates, what share counts, (draw, document); None where all do.
    """
    rows = judged.merge(documents[[*UNIT, "verdict"]], on=UNIT)
    judge = pd.Index(curve.judges).get_indexer(pd.Index(rows["judge"]))
    called = rows["is_duplicate"].to_numpy(int) == 1
    hit, clear = (values[:, judge] for values in curve.judge_draws(draws))
    further = (rows["chunk"] != rows["lead"]).to_numpy()
    hit = seen(hit, clear, curve.further_draws(draws)[:, None], further)
    result = np.zeros((2, len(hit), len(documents)))
    place = rows["verdict"].to_numpy()
    # Off 0: judges drawn as infallible may yet contradict each other.
    said = [np.log(np.clip(np.where(called, p, 1 - p), 1e-12, 1.0)) for p in (hit, 1 - clear)]
    kinds = curve.draws(draws).kinds
    if kinds is None:
        for row, likely in zip(result, said, strict=True):
            np.add.at(row.T, place, likely.T)
        return result, None
    # As the model of the curve has it: see `build_curve`.
    rule = np.array([sort_of(name) == "rules" for name in rows["judge"]], dtype=bool)
    np.add.at(result[0].T, place, np.where(rule, 0.0, said[0]).T)
    np.add.at(result[1].T, place, said[1].T)
    codes, right = kinds.split.codes(rows), curve.naming_draws(draws)[:, judge]
    classes, first = len(kinds.split), rows.drop_duplicates("verdict").set_index("verdict")
    first = first.reindex(range(len(documents)))
    weights = np.empty((len(hit), len(documents), classes))
    for b, name in enumerate(curve.benchmarks):
        own = np.flatnonzero(first["benchmark"] == name)
        weights[:, own] = kinds.log_shares(first["lead_cosine"].to_numpy(float)[own], b)
    other = weights.copy()
    for k in range(classes):
        named = np.log(np.where(codes == FIRST + k, right, (1 - right) / (classes - 1)))
        named = np.where(codes >= FIRST, named, 0.0)
        np.add.at(other[..., k].T, place, named.T)
        by_rule = np.where(rule, said[0] if k == 0 else said[1], 0.0)
        np.add.at(weights[..., k].T, place, (named + by_rule).T)
    result[0] += logsumexp(weights, axis=-1)
    result[1] += logsumexp(other, axis=-1)
    return result, kinds.counted_of(weights) if kinds.split.partial else None
