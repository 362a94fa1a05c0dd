import re
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from bayescontam.report import cosine_figures as cosines
from bayescontam.report.cosine_figures import against_words
from bayescontam.report.matches import best_matches
from bayescontam.report.plots import Picture
from tests.support.made_scan import BENCHMARKS, ITEMS, MadeScan, make_scan
from tests.support.pages import is_drawn


@pytest.fixture(scope="module")
def scan() -> MadeScan:
    return make_scan()


def pictures(scan: MadeScan) -> list[Picture | None]:
    best = best_matches(scan)
    return [
        cosines.distribution(scan, best), cosines.sorted_tops(scan, best),
        cosines.by_stratum(scan), against_words(best),
    ]  # fmt: skip


def test_every_picture_is_drawn_and_described(scan: MadeScan) -> None:
    before = plt.get_fignums()
    made = [picture for picture in pictures(scan) if picture is not None]
    assert [picture.name for picture in made] == ["cosines", "tops", "strata", "lexical"]
    assert plt.get_fignums() == before
    for picture in made:
        assert is_drawn(picture), picture.name
        assert picture.caption.endswith((".", ")")), picture.name
        assert "nan" not in picture.alt + picture.caption, picture.name
        assert re.search(r"\d\.\d\d", picture.alt), picture.name
        assert len(picture.image) < 200_000, picture.name


def test_alternative_texts_hold_the_numbers(scan: MadeScan) -> None:
    drawn = pictures(scan)
    alts = [picture.alt for picture in drawn if picture is not None]
    tops = scan.cosines.max(axis=1)
    said = f"{tops.min():.2f} to {tops.max():.2f}"
    assert said in alts[0]
    assert said in alts[1]
    assert f"{scan.cosines.size:,} cosines" in alts[0]
    assert "11 strata" in alts[2]
    missed = int(best_matches(scan)["missed"].sum())
    assert f"{missed} items are found by cosine and missed by n-grams" in alts[3]


def test_survival_is_the_share_of_pairs_at_least_as_high(scan: MadeScan) -> None:
    rows = scan.strata[scan.strata["benchmark"] == BENCHMARKS[0]]
    edges, shares = cosines.survival(rows["cosine"], rows["count"])
    mine = scan.cosines[(scan.items["benchmark"] == BENCHMARKS[0]).to_numpy()].astype(float)
    for edge, share in zip(edges.round(2), shares, strict=True):
        assert share == pytest.approx((mine >= edge).mean(), abs=1e-12)
    assert shares[0] == 1


def test_edges_of_bins_may_be_off_by_a_rounding() -> None:
    edges = pd.Series(np.arange(-1000, 1001) / 1000)
    for off in (-1e-9, 0, 1e-9):
        at, shares = cosines.survival(edges + off, pd.Series(1, edges.index))
        assert len(at) == 201
        np.testing.assert_allclose(-np.diff(shares), 10 / 2001)


def test_only_the_largest_strata_have_a_curve(scan: MadeScan) -> None:
    labels, curves, count = cosines._curves(scan.strata)
    assert count == 11
    assert len(labels) == cosines.MOST_CURVES + 1
    assert labels[-1] == "3 other strata"
    assert set(curves) == set(range(9))
    sizes = scan.strata["count"].groupby(curves).sum()
    assert sizes[: cosines.MOST_CURVES].is_monotonic_decreasing
    assert sizes[cosines.MOST_CURVES] <= 3 * sizes[cosines.MOST_CURVES - 1]


def test_what_is_not_there_is_not_drawn(scan: MadeScan) -> None:
    empty = replace(scan, **{n: getattr(scan, n)[:0] for n in ("matches", "histogram", "strata")})
    assert pictures(empty) == [None, None, None, None]
    one = scan.strata.assign(source="web", stratum="")
    assert cosines.by_stratum(replace(scan, strata=one)) is None
    lexical = [c for c in scan.matches if str(c).startswith(("ngram", "rouge", "jaccard"))]
    bare = replace(scan, matches=scan.matches.drop(columns=lexical))
    assert against_words(best_matches(bare)) is None


def test_many_benchmarks_are_cut_and_said_so(scan: MadeScan) -> None:
    def spread(table: pd.DataFrame) -> pd.DataFrame:
        names = scan.items["item"].tolist()
        return table.assign(benchmark=[f"b{names.index(i) % 12}" for i in table["item"]])

    tables = {n: spread(getattr(scan, n)) for n in ("items", "matches", "tail", "histogram")}
    many = replace(scan, **tables)
    for picture in pictures(many)[:2]:
        assert picture is not None
        assert "Only 9 of 12 benchmarks are drawn (the first)." in picture.caption


def test_few_matches_are_enough(scan: MadeScan) -> None:
    first = replace(scan, matches=scan.matches[scan.matches["rank"] == 1])
    picture = cosines.sorted_tops(first, best_matches(first))
    assert picture is not None
    assert f"{ITEMS} items" in picture.alt


def test_a_panel_that_has_no_crosses_keeps_its_place(scan: MadeScan) -> None:
    best = best_matches(scan).assign(missed=False, ngram_8=float("nan"))
    picture = against_words(best)
    assert picture is not None
    assert is_drawn(picture)
    assert "Items with too few words for 8-grams: 60." in picture.caption
    assert "8-grams" not in picture.alt  # nothing to draw
