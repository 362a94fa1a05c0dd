"""What a scan by source shows: of each source what a scan of it alone shows."""

import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.evidence.choice import top_pairs
from bayescontam.evidence.covariates import (
    ItemContamination,
    contamination_covariates,
    item_contamination,
)
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.item_matches import Matched, Matches
from bayescontam.evidence.pairs import scan_pairs
from bayescontam.evidence.prevalence import prevalence
from bayescontam.report.evidence import gather
from bayescontam.report.scan_page import render_scan
from bayescontam.scan.results import Scan
from bayescontam.specs.corpus import Manifest
from tests.support.corpora import text, write_records
from tests.support.made_evidence import make_curve, make_draws, make_scan, match
from tests.support.small_corpus import scan

SOURCES = ("web", "books")
OPEN = {"threshold_open": -5.0, "steepness_open": 1000.0}
"""Every item may have duplicates, whatever its best match: sources say nothing of each other."""
MATCHES = [
    match("q1", 0.9, "a", copies=3),
    match("q1", 0.8, "b"),
    match("q1", 0.7, "c", source="books"),
    match("q1", 0.6, "d", source="books"),
]
TAIL = [match("q1", 0.7555, "e"), match("q1", 0.55, "f", source="books")]
UNLISTED = [
    match("q1", 0.7535, "u", copies=4),
    match("q1", 0.5545, "v", source="books", copies=2),
]


@pytest.fixture
def made(tmp_path: Path) -> Scan:
    return make_scan(tmp_path, MATCHES, tail=TAIL, unlisted=UNLISTED, per_source=2)


def curve_of(draws: int = 3, **more: float) -> Curve:
    spread = np.linspace(0.72, 0.82, draws)[:, None]
    parts = make_draws(
        draws, sources=2, threshold=spread, source_shift=[[0.03, -0.03]], steepness=14.0,
        **(OPEN | more),
    )  # fmt: skip
    return make_curve(parts, ("quiz",), SOURCES)


def the_item(made: Scan) -> Matched:
    [item] = Matches(made, curve_of(), 0.35, 3)
    return item


def test_a_document_has_the_copies_of_its_own_source(made: Scan) -> None:
    item = the_item(made)
    assert item.cosine.tolist() == pytest.approx([0.9, 0.8, 0.7, 0.6])
    assert item.copies.tolist() == [[3, 0], [1, 0], [0, 1], [0, 1]]


def test_the_rest_of_each_source_is_its_histogram_less_its_list(made: Scan) -> None:
    item = the_item(made)
    rest = zip(item.rest_cosine.round(3), item.rest_source, item.rest_count, strict=True)
    assert sorted(rest) == [(0.555, 1, 3.0), (0.755, 0, 5.0)]
    # Before the middle of a bin: all that is above, and half of the bin.
    places = dict(zip(item.rest_cosine.round(3).tolist(), item.rest_place.tolist(), strict=True))
    assert places == {0.755: 2 + 5 / 2, 0.555: 2 + 5 + 2 + 3 / 2}


def test_places_count_what_other_sources_do_not_list(made: Scan) -> None:
    pairs = scan_pairs(made).set_index("document")["place"]
    # Five of the web, of which "e" was drawn, stand before what the books list.
    assert pairs[["a", "b", "c", "d"]].tolist() == [1, 2, 2 + 5 + 1, 2 + 5 + 2]
    assert pairs["e"] == 3
    assert pairs["f"] == 4 + 5 + 2 + 1


def test_the_first_matches_are_those_before_all_that_is_not_listed(made: Scan) -> None:
    assert the_item(made).ranked == 2


def test_lists_that_are_whole_end_nowhere(tmp_path: Path) -> None:
    whole = make_scan(tmp_path, MATCHES, per_source=3)
    assert the_item(whole).ranked == 4
    assert scan_pairs(whole)["place"].tolist() == [1, 2, 3, 4]


def test_the_nearest_pairs_are_those_of_all_sources(made: Scan) -> None:
    assert top_pairs(made, 3)["document"].tolist() == ["a", "b", "e"]


def manifest(names: tuple[str, ...], per: str, folder: Path) -> Manifest:
    how = "share = 0.6\n"
    sources = [f"[[sources]]\nname = '{n}'\npaths = ['{folder / n}.jsonl']\n{how}" for n in names]
    return Manifest.parse(
        "summary = 'made for a test'\n[[benchmarks]]\nname = 'quiz'\n"
        f"path = '{folder / 'items.jsonl'}'\n{''.join(sources)}[embedding]\nmodel = 'hashing'\n"
        f"[search]\nper = '{per}'\ntop_k = 5\ntail_size = 4\ntail_share = 0.05\n",
        "made.toml",
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write sources with near texts of the items, that share some of them."""
    path, rng = tmp_path_factory.mktemp("by-source"), random.Random(3)
    items = [{"id": f"q{i}", "input": text(rng, 16)} for i in range(10)]
    write_records(path / "items.jsonl", items)

    def near() -> str:
        known = rng.choice(items)["input"].split()
        left = rng.choice([4, 6, 8, 10, 12, 16])
        return " ".join([*known[:left], text(rng, 18 - left)])

    shared = [near() for _ in range(15)]
    for name, count in (("web", 150), ("books", 60)):
        texts = (rng.choice(shared) if rng.random() < 0.2 else near() for _ in range(count))
        write_records(path / f"{name}.jsonl", ({"id": i, "text": t} for i, t in enumerate(texts)))
    return path


@pytest.fixture(scope="module")
def scans(folder: Path) -> dict[str, Scan]:
    """Return scans of both sources one by one, and of each alone."""
    made = {"both": scan(manifest(SOURCES, "source", folder), folder / "both")}
    for name in SOURCES:
        made[name] = scan(manifest((name,), "corpus", folder), folder / name)
    return made


@pytest.fixture(scope="module")
def weighed(scans: dict[str, Scan]) -> dict[str, ItemContamination]:
    curve = curve_of(40)
    return {name: item_contamination(found, curve, draws=40) for name, found in scans.items()}


def test_a_source_holds_what_a_scan_of_it_alone_finds(
    scans: dict[str, Scan], weighed: dict[str, ItemContamination]
) -> None:
    assert (scans["both"].matches["copies"] > 1).any()
    both = weighed["both"]
    assert both.sources == SOURCES
    np.testing.assert_allclose(both.shares, [weighed[n].shares[0] for n in SOURCES])
    alone = [weighed[name] for name in SOURCES]
    np.testing.assert_allclose(both.none_scanned, alone[0].none_scanned * alone[1].none_scanned)
    expected = sum(one.expected_scanned for one in alone)
    np.testing.assert_allclose(both.expected_scanned, expected)
    np.testing.assert_allclose(both.expected_rest, sum(one.expected_rest for one in alone))
    assert 0.02 < both.none_scanned.mean() < 0.98
    assert (both.expected_rest.mean(axis=0) > 0.1).any()


def test_prevalence_in_a_source_rests_on_its_own_list(
    weighed: dict[str, ItemContamination],
) -> None:
    table = prevalence(weighed["both"]).set_index(["by", "group"])
    for name in SOURCES:
        own = prevalence(weighed[name]).set_index(["by", "group"])
        # What was not scanned is drawn from how many duplicates were found.
        assert table.loc[("source", name), "mean"] == pytest.approx(
            own.loc[("corpus", ""), "mean"], abs=0.03
        )
    ranks = table.loc["matches", "mean"]
    assert ranks.is_monotonic_increasing
    assert ranks.iloc[-1] <= table.loc[("scanned", ""), "mean"] + 1e-9


def test_covariates_add_up_over_sources(scans: dict[str, Scan]) -> None:
    curve = curve_of(40)
    tables = {
        name: contamination_covariates(found, curve, draws=40).frame
        for name, found in scans.items()
    }
    both = tables["both"]
    columns = {"expected_scanned", "expected_rest", "p_scanned", "source_web", "source_books"}
    assert columns <= set(both)
    whole = sum(tables[name]["expected_scanned"] for name in SOURCES)
    pd.testing.assert_series_equal(both["expected_scanned"], whole)
    for name in ("top_cosine", "max_ngram_2"):
        best = np.maximum(tables["web"][name], tables["books"][name])
        np.testing.assert_array_equal(both[name], best)


def test_a_page_with_a_curve_shows_such_a_scan(scans: dict[str, Scan]) -> None:
    page = render_scan(scans["both"], gather(scans["both"], curve_of(40)))
    assert "the 5 best of each item in each source" in page
    assert "Sources were searched one by one" in page
    assert "over all items and sources" in page
    alone = render_scan(scans["web"])
    assert "in each source" not in alone
    assert "one by one" not in alone
