from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayescontam.report import matches
from bayescontam.report.matches import FOUND, KEYS, LEVELS
from tests.support.made_scan import BENCHMARKS, CHUNKS, ITEMS, MadeScan, make_scan


@pytest.fixture(scope="module")
def scan() -> MadeScan:
    return make_scan()


def of_benchmark(scan: MadeScan, name: str) -> np.ndarray:
    """Return the cosines of a benchmark's items, from all that there are."""
    return scan.cosines[(scan.items["benchmark"] == name).to_numpy()]


def test_best_matches_have_the_largest_cosines(scan: MadeScan) -> None:
    best = matches.best_matches(scan)
    assert best[KEYS].equals(scan.items[KEYS])
    np.testing.assert_array_equal(best["cosine"], scan.cosines.max(axis=1))
    assert best["missed"].dtype == best["cut"].dtype == bool


def test_the_headline_counts_what_brute_force_counts(scan: MadeScan) -> None:
    table = matches.headline(scan, matches.best_matches(scan)).set_index("benchmark")
    assert list(table.index) == list(BENCHMARKS)
    for name in BENCHMARKS:
        row, cosines = table.loc[name], of_benchmark(scan, name)
        tops = cosines.max(axis=1)
        assert row["items"] == ITEMS // 2
        assert row["chunks"] == CHUNKS
        assert row["median"] == pytest.approx(np.median(tops))
        assert [row["low"], row["high"]] == pytest.approx(np.quantile(tops, [0.05, 0.95]))
        assert row["top"] == tops.max()
        for level in LEVELS:
            assert row[f"at_least_{level}"] == (tops >= level).sum()
        tails = np.sort(cosines, axis=1)[:, -20]  # 1 % of 2,000 chunks
        assert row["tail_low"] == tails.min()
        assert row["tail_median"] == pytest.approx(np.median(tails))
        assert row["tail_high"] == tails.max()
    assert table["cut"].tolist() == [6, 0]


def test_missed_items_share_no_ngram_with_any_match() -> None:
    def item(name: str, cosine: float, *overlaps: float) -> list[tuple[object, ...]]:
        return [("b", name, i + 1, cosine - i / 10, x) for i, x in enumerate(overlaps)]

    nan = float("nan")
    rows = [
        *item("missed", 0.95, 0, 0),
        *item("at the level", FOUND, 0),
        *item("low", 0.79, 0, 0),
        *item("shared", 0.95, 0.2, 0),
        *item("shared with the second", 0.95, 0, 0.1),
        *item("too short", 0.95, nan, nan),
        *item("partly unknown", 0.95, nan, 0),
    ]
    table = pd.DataFrame(rows, columns=[*KEYS, "rank", "cosine", "ngram_8"])
    items = table.loc[table["rank"] == 1, KEYS].assign(text="t", tokens=1, cut=False)
    scan = replace(make_scan(), matches=table, items=items)
    best = matches.best_matches(scan)
    found = set(best.loc[best["missed"], "item"])
    assert found == {"missed", "at the level", "partly unknown"}


def test_items_without_a_match_count_in_shares(scan: MadeScan) -> None:
    lone = pd.DataFrame({"benchmark": [BENCHMARKS[0]], "item": ["lone"], "text": ["t"]})
    more = replace(scan, items=pd.concat([scan.items, lone], ignore_index=True))
    best = matches.best_matches(more)
    assert best["cosine"].isna().sum() == 1
    table = matches.headline(more, best)
    assert table["items"][0] == ITEMS // 2 + 1
    assert not best["cut"].iloc[-1]


def test_strata_are_recorded_ones_with_their_best_matches(scan: MadeScan) -> None:
    table = matches.strata(scan)
    assert table["chunks"].is_monotonic_decreasing
    assert table["chunks"].sum() == CHUNKS
    assert table["best"].sum() == ITEMS
    first = scan.matches[scan.matches["rank"] == 1]
    for row in table.itertuples():
        here = (first["source"] == row.source) & (first["stratum"] == row.stratum)
        assert row.best == here.sum()


@pytest.mark.parametrize(
    ("columns", "chosen", "name"),
    [
        (["ngram_2", "ngram_3", "ngram_8", "ngram_13"], "ngram_8", "8-grams"),
        (["ngram_2", "ngram_5", "rouge_l"], "ngram_5", "5-grams"),
        (["rouge_l", "jaccard", "ngram_x"], None, ""),
    ],
)
def test_ngrams_of_eight_words_are_preferred(
    columns: list[str], chosen: str | None, name: str
) -> None:
    assert matches.ngram_column(columns) == chosen
    if chosen:
        assert matches.lexical_name(chosen) == name
