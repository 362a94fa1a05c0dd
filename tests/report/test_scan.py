import html as entities
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.report import cosine_figures as figures
from bayescontam.report import matches
from bayescontam.report import scan_page as scope
from bayescontam.report.matches import BESIDE, FIRST, FURTHER
from bayescontam.report.scan_page import render_scan, write_scan_report
from bayescontam.scan.results import Scan
from tests.support.made_scan import BENCHMARKS, MadeScan, make_scan
from tests.support.pages import Parsed, overflow


@pytest.fixture(scope="module")
def made() -> MadeScan:
    return make_scan()


@pytest.fixture(scope="module")
def html(made: MadeScan, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the scan after it was written to files and read again."""
    return render_scan(Scan.load(made.write(tmp_path_factory.mktemp("scan") / "made <up>")))


@pytest.fixture(scope="module")
def page(html: str) -> Parsed:
    return Parsed(html)


def test_the_page_says_what_it_must(page: Parsed, made: MadeScan) -> None:
    text = " ".join(page.text.split())
    table = matches.headline(made, matches.best_matches(made))
    assert scope.verdict(made, table) in text
    provenance = [reported for name, reported in scope.provenance(made) if name != "Folder"]
    for line in [*scope.assumptions(made), *provenance]:
        assert line in text
    for what, count, note in scope.counts(made):
        assert f"{what}{count}{note}" in text  # cells of a row
    for row in table.to_dict("records"):
        shown = "".join(f"{row[name]:.3f}" for name in ("low", "median", "high", "top"))
        assert f"30{row['cut']}2,000{shown}" in text
        share = row["at_least_0.8"] / row["items"]
        assert f"{row['at_least_0.8']}{100 * share:.1f} %" in text
    for said in ("made <up>", "12 files were <ignored>", "\\u202enote", "not JSON3"):
        assert text.count(said) == 1
    assert "nan" not in text.lower().split()


def test_a_search_by_an_index_is_said_to_be_one(made: MadeScan) -> None:
    table = matches.headline(made, matches.best_matches(made))
    search = made.record["search"] | {"index": {"recall": 0.987, "weight": 50}}
    found = replace(made, record=made.record | {"search": search})
    assert "the index found about 98.7 % of the best matches, and a dup" in scope.verdict(
        found, table
    )
    assert "the index" not in scope.verdict(made, table)
    for one in (made, found):
        pictures = figures.distribution(one, matches.best_matches(one)), figures.by_stratum(one)
        said = ["estimated from one in 50 chunks" in picture.caption for picture in pictures]
        assert said == [one is found] * 2
    notes = {what: note for what, _, note in scope.counts(found)}
    assert notes["Cosines"].endswith("copies counted, estimated from one in 50 chunks")


def shown_items(made: MadeScan) -> list[int]:
    """Return the items on the page: the 25 best of all, then 25 more of each benchmark."""
    order = np.argsort(-made.cosines.max(axis=1), kind="stable").tolist()
    first, later = order[:FIRST], order[FIRST:]
    for name in BENCHMARKS:
        own = [i for i in later if made.items["benchmark"][i] == name]
        first += own[: FURTHER // len(BENCHMARKS)]
    return first


def test_items_stand_beside_their_matches(html: str, page: Parsed, made: MadeScan) -> None:
    count = len(shown_items(made))
    assert len([1 for _, attrs in page.tags if attrs.get("class") == "card"]) == count > FIRST
    assert len([1 for _, attrs in page.tags if attrs.get("class") == "match"]) == BESIDE * count
    best = made.matches.loc[made.matches["cosine"].idxmax()]
    first = " ".join(page.text.split("Matches, side by side")[1].split("Item of")[1].split())
    assert f"{best['cosine']:.3f} \\u202eevil: \\x00nul, document <i>ddd" in first
    assert f"characters {best['start']}–{best['end']} (chunk {best['chunk']}), 3 copies" in first
    assert "ROUGE-L 0.09 8-grams – 2-grams 0.00 Jaccard 0.11" in first
    tops = [float(x) for x in re.findall(r'class="cosine">([\d.]+)<', html)]
    expected = [made.cosines[i].max() for i in shown_items(made)]
    assert tops == pytest.approx(expected, abs=6e-4)


def test_texts_are_those_of_the_matches(page: Parsed, made: MadeScan) -> None:
    texts = made.texts.set_index("chunk_id")["text"].to_dict()
    items = made.items["item"][shown_items(made)[:FIRST]]
    rows = made.matches[made.matches["item"].isin(items) & (made.matches["rank"] == BESIDE)]
    shown = [texts[chunk] for chunk in rows["chunk_id"]]
    ordinary = [text for text in shown if len(text) < 600 and text.isprintable()]
    assert len(ordinary) > 15
    assert all(text in page.text for text in ordinary)


def test_hostile_texts_are_text(html: str, page: Parsed) -> None:
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "iframe", "object", "form", "u", "h4"}
    assert [tag for tag, _ in page.tags].count("style") == 1
    assert [tag for tag, _ in page.tags].count("h1") == 1
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    for hidden in "\0\x07\x1b\u200b\u202e\u2066\U000e0001":
        assert hidden not in html
    for shown in ("<script>document.title = 'taken'</script>", "safe\\u202eekil", "nul\\x00"):
        assert shown in page.text
    assert "95,000 characters are not shown" in page.text
    assert "w" * 5_001 not in page.text


def test_links_ids_and_images(page: Parsed) -> None:
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = {str(attrs["href"]) for tag, attrs in page.tags if tag == "a"}
    assert {"#results", "#words", "#matches", "#searched", "#provenance"} <= links
    assert all(link[0] == "#" and link[1:] in ids for link in links)
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert len(images) == 4
    for image in images:
        assert str(image["src"]).startswith("data:image/")
        assert re.search(r"\d\.\d\d", str(image["alt"]))


def test_nothing_points_outside(page: Parsed, html: str) -> None:
    for _, attrs in page.tags:
        for name in ("src", "href"):
            assert str(attrs.get(name) or "#").startswith(("#", "data:"))
    assert not re.search(r"url\(|@import", html)


def test_the_policy_lets_nothing_in(html: str) -> None:
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert re.findall(r'Content-Security-Policy" content="(.*)"', html) == [policy]


def test_the_page_stays_small_whatever_the_scan_holds(made: MadeScan) -> None:
    """Every name and text is endless, and of the character that takes most bytes in HTML."""
    many, longest = 400, "&" * 10_000
    names = [f"{i}{longest}" for i in range(many)]
    items = pd.DataFrame({"benchmark": names, "item": names, "text": longest, "tokens": 1})
    rows = made.matches.head(3).drop(columns=["benchmark", "item"])
    best = items[["benchmark", "item"]].merge(rows, how="cross")
    best[["source", "stratum", "document"]] = longest
    record = {
        "strata": [{"source": name, "stratum": name, "documents": 9} for name in names],
        "documents": {"read": 9, "sampled": 1, "unreadable": dict.fromkeys(names, 1)},
        "notes": names, "command": longest, "versions": {longest: longest},
        "manifest": {"name": longest, "text": longest * 9, "summary": longest},
        "embedder": {"model": longest, "precision": longest},
        "benchmarks": [{"benchmark": name, "text_mode": longest} for name in names],
    }  # fmt: skip
    counted = made.histogram.head(20).drop(columns="benchmark")
    scan = replace(
        made, items=items.assign(cut=True), matches=best, texts=made.texts.assign(text=longest),
        histogram=items[["benchmark"]].merge(counted, how="cross"), record=record,
    )  # fmt: skip
    page = render_scan(scan)
    assert 2_000_000 < len(page.encode()) < 5_000_000
    assert page.count('class="card"') == FIRST + FURTHER
    assert "Only the first 100 of 400 benchmarks are listed." in page
    assert "Only the 200 strata with most chunks are listed." in page
    assert "350 rarer reasons are not listed." in page
    assert "350 more notes are not listed." in page


@pytest.mark.usefixtures("undrawn")
def test_a_scan_of_ready_vectors_has_no_texts(made: MadeScan) -> None:
    lexical = [c for c in made.matches if str(c).startswith(("ngram", "rouge", "jaccard"))]
    bare = replace(
        made, texts=made.texts[:0], items=made.items.assign(text=None, tokens=None, cut=None),
        matches=made.matches.drop(columns=lexical),
    )  # fmt: skip
    page = Parsed(render_scan(bare))
    assert page.text.count("No text is stored.") == len(shown_items(made)) * (1 + BESIDE)
    assert 'id="words"' not in render_scan(bare)
    assert "nan" not in page.text.lower().split()


def test_a_scan_that_found_nothing_has_a_page(made: MadeScan) -> None:
    names = ("matches", "tail", "histogram", "strata", "texts")
    empty = replace(made, **{name: getattr(made, name)[:0] for name in names})
    page = Parsed(render_scan(empty.with_record(**dict.fromkeys(made.record))))
    text = " ".join(page.text.split())
    assert f"0 of 30 of '{BENCHMARKS[0]}' (0 at 0.9 or more)" in text
    assert "nothing was searched" in text
    assert not [tag for tag, _ in page.tags if tag == "img"]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("count", [20, 21])
def test_many_strata_are_folded(made: MadeScan, count: int) -> None:
    strata = [{"source": "s", "stratum": str(i), "documents": 1} for i in range(count)]
    page = render_scan(made.with_record(strata=strata))
    assert (f"<details open><summary>{count} strata" in page) is (count == 20)


def test_the_file_is_written_whole(made: MadeScan, tmp_path: Path) -> None:
    write_scan_report(made, tmp_path / "scan.html")  # type: ignore[arg-type]
    assert (tmp_path / "scan.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert [path.name for path in tmp_path.iterdir()] == ["scan.html"]


@pytest.fixture(params=[1200, 390])
def opened(request: pytest.FixtureRequest, browser: Any, html: str, tmp_path: Path) -> Any:
    path = tmp_path / "scan.html"
    path.write_text(html, encoding="utf-8")
    browser.get_log("performance")
    size = {"width": request.param, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.browser
def test_the_page_in_a_browser(opened: Any) -> None:
    assert opened.get_log("browser") == []
    assert opened.title == "bayescontam scan: mine<b>"  # no text changed it
    requests = [
        message["params"]["request"]["url"]
        for entry in opened.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"]
        == "Network.requestWillBeSent"
    ]
    assert {url.split(":")[0] for url in requests} <= {"file", "data", "chrome", "chrome-untrusted"}
    assert overflow(opened) <= 0
    for image in opened.find_elements("tag name", "img"):
        assert int(image.get_property("naturalWidth")) > 0
    first = opened.find_element("css selector", ".excerpt").text
    assert first == "<script>document.title = 'taken'</script>" + (
        "<img src=x onerror='document.title=1'>"
    )


@pytest.mark.browser
def test_everything_unfolded_does_not_overflow(opened: Any) -> None:
    opened.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert overflow(opened) <= 0
    shown = opened.find_element("id", "matches").get_property("textContent")
    assert entities.unescape("safe\\u202eekil skool siht\\u202c") in shown
    assert opened.get_log("browser") == []
