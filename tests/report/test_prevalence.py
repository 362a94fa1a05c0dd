import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bayescontam.errors import DataError, UsageError
from bayescontam.inference.checks import Check, Outcome
from bayescontam.report.evidence import Evidence, gather
from bayescontam.report.matches import BESIDE, FIRST, FURTHER, MOST_ITEMS
from bayescontam.report.plots import Picture
from bayescontam.report.prevalence_section import prevalence_section
from bayescontam.report.scan_page import render_scan
from tests.support.made_curve import judge, make_curve
from tests.support.made_scan import (
    BENCHMARKS,
    CHUNKS,
    ITEMS,
    STRATA,
    TAIL_SHARE,
    TAIL_SIZE,
    MadeScan,
    make_scan,
)
from tests.support.pages import Parsed, overflow

SOURCES = tuple(dict.fromkeys(source for source, _ in STRATA))
THRESHOLD = 0.7
PERSON = "<b>Ada</b>\u202e"


@pytest.fixture(scope="module")
def made() -> MadeScan:
    """All of the corpus was scanned."""
    scan = make_scan()
    whole = [{**row, "documents": row["sampled"], "share": 1.0} for row in scan.record["strata"]]
    return scan.with_record(strata=whole)


@pytest.fixture(scope="module")
def evidence(made: MadeScan) -> Evidence:
    best = made.matches[made.matches["rank"] == 1].sort_values("cosine", ascending=False)
    judged = judge(best.head(30), [1] * 30, PERSON)
    curve = make_curve(BENCHMARKS, SOURCES, THRESHOLD, judged=judged)
    return gather(made, curve)


@pytest.fixture(scope="module")
def html(made: MadeScan, evidence: Evidence) -> str:
    items = made.items[["benchmark", "item"]].assign(elo=np.arange(ITEMS) * 10.0)
    return render_scan(made, evidence, items, "elo")


@pytest.fixture(scope="module")
def page(html: str) -> Parsed:
    return Parsed(html)


def found(made: MadeScan) -> np.ndarray:
    return made.cosines.max(axis=1) > THRESHOLD


def test_the_section_counts_items_above_a_step(made: MadeScan, evidence: Evidence) -> None:
    section = prevalence_section(evidence)
    for row, name in zip(section["rows"], BENCHMARKS, strict=True):
        count = int(found(made)[(made.items["benchmark"] == name).to_numpy()].sum())
        assert 5 < count < row["items"] == ITEMS // 2
        for view in ("corpus", "scanned"):
            assert row[view]["n_mean"] == pytest.approx(count)
            assert (row[view]["n_low"], row[view]["n_high"]) == (count, count)
    assert section["shares"].startswith("The whole corpus was searched")
    assert section["outcome"] == "passed"


@pytest.mark.usefixtures("undrawn")
def test_what_is_not_listed_is_reported(made: MadeScan) -> None:
    few = made.matches[made.matches["rank"] <= 5]
    scan = MadeScan(**{**vars(made), "matches": few})
    evidence = gather(scan, make_curve(BENCHMARKS, SOURCES, 0.5))
    listed = int(few.loc[few["cosine"] > 0.5, "copies"].sum())
    rest = int((made.cosines > 0.5).sum()) - listed
    reported = prevalence_section(evidence)["rest"]
    share = float(re.findall(r"scanned part, ([\d.]+) % are", reported)[0])
    assert share == pytest.approx(100 * rest / (rest + listed), rel=0.02)
    assert "list more matches of each item" in reported


@pytest.mark.usefixtures("undrawn")
def test_kinds_are_reported_where_judges_gave_them(made: MadeScan) -> None:
    best = made.matches[made.matches["rank"] == 1].sort_values("cosine", ascending=False)
    judged = judge(best.head(20), [1] * 20, PERSON, "exact")
    curve = make_curve(BENCHMARKS, SOURCES, THRESHOLD, steepness=50.0, judged=judged)
    section = prevalence_section(gather(made, curve))
    reported = {row["item"]: row["kinds"] for row in section["most"]}
    known = [reported[item] for item in judged["item"] if item in reported]
    assert len(known) > 15
    assert all(re.match(r"exact (0.99|1.00)", text) for text in known)
    kinds = [row for row in section["parts"] if row["by"] == "kind"]
    assert [row["group"] for row in kinds[:2]] == ["exact", "equivalent"]


def test_a_sampled_share_is_reported() -> None:
    scan = make_scan()
    evidence = gather(scan, make_curve(BENCHMARKS, SOURCES, THRESHOLD))
    section = prevalence_section(evidence)
    assert "Documents that were searched: 10.0 % of web, 10.0 % of books" in section["shares"]
    for row in section["rows"]:
        assert row["corpus"]["n_mean"] >= row["scanned"]["n_mean"]
        documents, scanned = row["documents"], row["documents_scanned"]
        assert documents["median"] > scanned["median"]
        assert documents["ci_low"] <= documents["median"] < documents["ci_high"]


def test_the_most_contaminated_items_are_linked(html: str, page: Parsed, made: MadeScan) -> None:
    shown = html.split("The most contaminated items")[1].split("</table>")[0]
    links = re.findall(r'href="#(item-\d+)"', shown)
    assert len(links) == MOST_ITEMS == FIRST + FURTHER // 2
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert set(links) <= set(ids)
    certain = {f"item-{i + 1}" for i in np.flatnonzero(found(made))}
    assert set(links[: len(certain)]) == certain
    all_links = [str(attrs["href"]) for tag, attrs in page.tags if tag == "a"]
    assert all(link[0] == "#" and link[1:] in ids for link in all_links)


def test_cards_report_probabilities_and_verdicts(html: str, page: Parsed) -> None:
    cards = html.split('<article class="card"')[1:]
    assert len(cards) == ITEMS
    assert "P(duplicate) &gt; 0.999</b>" in cards[0]
    assert "P(duplicate) &lt; 0.001</b>" in cards[-1]
    assert page.text.count("<b>Ada</b>\\u202e: a duplicate") == 30
    assert "\u202e" not in html
    assert len([1 for _, attrs in page.tags if attrs.get("class") == "match"]) == BESIDE * ITEMS


def test_the_verdict_counts_items(page: Parsed, made: MadeScan) -> None:
    counts = [found(made)[made.items["benchmark"] == name].sum() for name in BENCHMARKS]
    said = f"(95 % interval): {counts[0]}  of 30 of 'quiz'; {counts[1]}  of 30 of"
    assert " ".join(said.split()) in " ".join(page.text.split())
    assert "nan" not in page.text.lower().split()


def test_pictures_of_prevalence(page: Parsed) -> None:
    alts = [str(attrs["alt"]) for tag, attrs in page.tags if tag == "img"]
    assert [a for a in alts if a.startswith("Prevalence by elo, 10 groups")]
    assert [a for a in alts if a.startswith("Prevalence by number of matches")]


@pytest.mark.parametrize("column", ["numbers", "words"])
def test_prevalence_by_a_column(made: MadeScan, evidence: Evidence, column: str) -> None:
    items = made.items[["benchmark", "item"]].assign(
        numbers=np.where(found(made), 3, 1), words=np.where(found(made), "<yes>\n", "no $x$")
    )
    section = prevalence_section(evidence, items, column)
    picture = drawn(section)["prevalence-by"]
    assert picture.alt == f"Prevalence by {column}, 4 groups: 0.00 to 1.00."
    assert ("Dashed: logistic regression" in picture.caption) is (column == "numbers")
    assert [row["kind"] for row in section["trends"]] == ["", ""] * (column == "numbers")
    assert len(section["groups"]) == section["n_groups"] == 4
    assert {row["mean"] for row in section["groups"]} == {0.0, 1.0}


def drawn(section: dict[str, Any]) -> dict[str, Picture]:
    return {picture.name: picture for picture in section["pictures"]}


@pytest.mark.usefixtures("undrawn")
def test_kinds_are_drawn_and_listed_by_a_column(made: MadeScan) -> None:
    best = made.matches[made.matches["rank"] == 1].sort_values("cosine", ascending=False)
    judged = judge(best.head(20), [1] * 20, PERSON, "exact")
    curve = make_curve(BENCHMARKS, SOURCES, THRESHOLD, steepness=50.0, judged=judged)
    items = made.items[["benchmark", "item"]].assign(
        grid=["4*4" if k % 4 else "2*<b>2</b>" for k in range(ITEMS)]
    )
    found = gather(made, curve)
    section = prevalence_section(found, items, "grid")
    picture = drawn(section)["prevalence-kinds"]
    assert picture.alt.startswith("Prevalence by grid and kind (exact")
    assert "95 % intervals for the items of this benchmark" in picture.caption
    known = {(row["benchmark"], row["kind"], row["group"]) for row in section["groups"]}
    assert (BENCHMARKS[0], "exact", "4*4") in known
    assert (BENCHMARKS[0], "", "2*<b>2</b>") in known
    html = render_scan(made, found, items, "grid")
    assert "2*&lt;b&gt;2&lt;/b&gt;" in html
    assert "<b>2</b>" not in html


def test_sources_are_drawn_with_sd_and_interval(evidence: Evidence) -> None:
    picture = drawn(prevalence_section(evidence))["prevalence-sources"]
    assert picture.alt.startswith(f"Prevalence by source, {len(SOURCES)} sources: ")
    assert "one standard deviation (thick) and 95 % interval (thin)" in picture.caption


def test_a_second_curve_is_drawn_beside_the_first(made: MadeScan, evidence: Evidence) -> None:
    first = replace(evidence, label="all")
    stricter = make_curve(BENCHMARKS, SOURCES, 0.9, judged=evidence.curve.judged)
    second = gather(made, stricter, label="in<exact>")
    items = made.items[["benchmark", "item"]].assign(elo=np.arange(ITEMS) * 10.0)
    section = prevalence_section(first, items, "elo", second)
    pictures = drawn(section)
    assert [name for name in pictures if name.startswith("curve-")] == ["curve-1", "curve-2"]
    assert pictures["curve-2"].title == "P(duplicate | cosine), in<exact>"
    alone = drawn(prevalence_section(first, items, "elo"))
    for name in ("prevalence-matches", "prevalence-sources", "prevalence-by"):
        assert pictures[name].image != alone[name].image
    # Tables and verdict are of the first curve.
    assert section["rows"] == prevalence_section(first)["rows"]
    html = render_scan(made, first, items, "elo", beside=second)
    assert "in&lt;exact&gt;" in html
    assert "in<exact>" not in html


def test_rates_in_the_tail_are_listed(made: MadeScan, evidence: Evidence, html: str) -> None:
    rates = prevalence_section(evidence)["rates"]
    assert [row["benchmark"] for row in rates] == list(BENCHMARKS)
    for row in rates:
        own = (made.items["benchmark"] == row["benchmark"]).to_numpy()
        size = int(TAIL_SHARE * CHUNKS)
        in_tail = -np.sort(-made.cosines[own], axis=1)[:, :size] > THRESHOLD
        assert row["sampled"] <= own.sum() * TAIL_SIZE
        assert row["tail_share"] == pytest.approx(0.01)
        assert row["share"] == pytest.approx(in_tail.mean(), abs=0.06)
        assert row["rate"] == pytest.approx(100 * row["share"])
        assert row["in_tail"]["n_mean"] <= (in_tail.any(axis=1)).sum()
    assert "Duplicates of an item in 10,000 texts" in html


def test_items_without_the_column_are_refused(made: MadeScan, evidence: Evidence) -> None:
    items = made.items[["benchmark", "item"]].assign(elo=1.0)
    with pytest.raises(UsageError, match=r"no column 'ello'.*elo"):
        prevalence_section(evidence, items, "ello")
    with pytest.raises(DataError, match="items of the scan: 'item 0'"):
        prevalence_section(evidence, items.iloc[1:], "elo")


@pytest.mark.usefixtures("undrawn")
def test_numbers_from_a_prior_are_no_finding(made: MadeScan) -> None:
    evidence = gather(made, make_curve(BENCHMARKS, SOURCES, THRESHOLD))
    html = render_scan(made, evidence)
    assert '<p class="verdict failed" id="verdict">' in html
    assert "Nothing was judged: these numbers rest on a prior" in html


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("passed", None),
        ("caution", " Curve: No check failed, 1 caution (Few), of 1 checks, see its own page."),
        ("failed", " Do not rely on it yet: checks of the curve failed, see its own page."),
    ],
)
def test_the_verdict_states_the_checks_of_the_curve(
    made: MadeScan, evidence: Evidence, outcome: str, said: str | None
) -> None:
    check = Check("Few", Outcome(outcome), 3.0, "≥ 20", "Few were judged.")
    curve = make_curve(
        BENCHMARKS, SOURCES, THRESHOLD, judged=evidence.curve.judged, checks=[check.to_dict()]
    )
    section = prevalence_section(gather(made, curve))
    plain = prevalence_section(evidence)["verdict"]
    assert section["outcome"] == outcome
    assert section["verdict"] == plain + (said or "")


@pytest.mark.usefixtures("undrawn")
def test_without_a_curve_the_page_says_how_to_get_prevalence(made: MadeScan) -> None:
    html = render_scan(made)
    assert "bayescontam report --curve" in html
    assert "P(duplicate) " not in html
    assert "bayescontam judge export" in html


@pytest.mark.browser
@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_in_a_browser(browser: Any, html: str, tmp_path: Any, width: int) -> None:
    path = tmp_path / "scan.html"
    path.write_text(html, encoding="utf-8")
    browser.get_log("browser")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    over = overflow(browser)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert over <= 0
    assert browser.get_log("browser") == []
