import numpy as np
import pandas as pd
import pytest

from bayescontam.errors import UsageError
from bayescontam.report.evidence import Evidence, gather
from tests.support.made_curve import SENSITIVITY, SPECIFICITY, judge, make_curve
from tests.support.made_scan import BENCHMARKS, STRATA, MadeScan, make_scan

SOURCES = tuple(dict.fromkeys(source for source, _ in STRATA))
THRESHOLD = 0.8


@pytest.fixture(scope="module")
def made() -> MadeScan:
    return make_scan()


def weighed(made: MadeScan, judged: pd.DataFrame | None = None, **others: float) -> Evidence:
    settings = {"threshold": THRESHOLD} | others
    return gather(made, make_curve(BENCHMARKS, SOURCES, judged=judged, **settings))


def test_a_step_makes_matches_above_it_duplicates(made: MadeScan) -> None:
    evidence = weighed(made)
    rows = evidence.matches(evidence.items)
    assert len(rows) == len(made.matches)
    above = rows["cosine"] > THRESHOLD
    assert 20 < above.sum() < len(rows)
    assert rows["p"].dropna().to_numpy() == pytest.approx(above[rows["p"].notna()].astype(float))


def test_items_with_duplicates_are_ranked_first(made: MadeScan) -> None:
    ranked = weighed(made).ranked()
    found = made.cosines.max(axis=1) > THRESHOLD
    first = set(zip(*(ranked[name][: found.sum()] for name in ("benchmark", "item")), strict=True))
    assert first == set(made.items.loc[found, ["benchmark", "item"]].itertuples(False, None))
    assert ranked["p_scanned"].to_numpy() == pytest.approx(np.sort(found)[::-1].astype(float))


@pytest.mark.parametrize("called", [1, 0])
def test_a_verdict_moves_its_match_as_bayes_says(made: MadeScan, called: int) -> None:
    """At the threshold the prior odds are 1, so that the judge's errors alone decide."""
    best = made.matches[made.matches["rank"] == 1].iloc[[7]]
    judged = judge(best, [called], "Ada", "equivalent" if called else "unrelated")
    cosine = float(best["cosine"].iloc[0])
    evidence = weighed(made, judged, threshold=cosine, steepness=0.001)
    hit, miss = (SENSITIVITY, 1 - SPECIFICITY) if called else (1 - SENSITIVITY, SPECIFICITY)
    rows = evidence.matches(best[["benchmark", "item"]])
    own = rows[rows["rank"] == 1]["p"].item()
    assert own == pytest.approx(hit / (hit + miss), abs=1e-3)
    # The odds of each further document are divided by its place.
    others = rows[rows["rank"] > 1]
    assert others["p"].to_numpy() == pytest.approx(1 / (1 + others["rank"].to_numpy()), abs=1e-3)
    said = list(evidence.verdicts().values())
    kind = "a duplicate (equivalent)" if called else "no duplicate (unrelated)"
    assert said == [[f"Ada: {kind}"]]


def test_matches_below_the_floor_have_no_probability(made: MadeScan) -> None:
    low = made.matches.assign(cosine=made.matches["cosine"] - 0.5)
    rows = weighed(MadeScan(**{**vars(made), "matches": low})).matches(made.items)
    assert rows["p"].isna().to_numpy().tolist() == (rows["cosine"] < 0.35).tolist()
    assert rows["p"].isna().any()


@pytest.mark.parametrize(
    ("benchmarks", "sources", "named"),
    [(BENCHMARKS[:1], SOURCES, "benchmark '<b>bench"), (BENCHMARKS, SOURCES[1:], "source 'web'")],
)
def test_a_curve_of_another_scan_is_refused(
    made: MadeScan, benchmarks: tuple[str, ...], sources: tuple[str, ...], named: str
) -> None:
    curve = make_curve(benchmarks, sources)
    with pytest.raises(UsageError, match=f"does not cover {named}"):
        gather(made, curve)
