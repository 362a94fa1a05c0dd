import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bayescontam._format import interval
from bayescontam.errors import UsageError
from bayescontam.inference import tables
from bayescontam.inference.checks import Outcome, checks_sentence
from bayescontam.inference.findings import finding
from bayescontam.inference.mastery import concept_mastery
from bayescontam.inference.result import Fit
from bayescontam.report.fit_page import reference_text, render, write_report
from bayescontam.report.format import Names
from bayescontam.report.plots import NARROW, WIDTH
from tests.report.conftest import BENCHMARKS, MODELS
from tests.support.made_fit import a_check, extrapolated, made_fit, with_checks
from tests.support.pages import Parsed

COMPARISON = pd.DataFrame(
    {
        "fit": ["<b>one</b>", "two"],
        "elpd_diff": [0.0, -12.345],
        "rank": [1, 2],
        "good": [True, False],
    }
)


@pytest.fixture(scope="session")
def html(hostile: Fit) -> str:
    return render(hostile, COMPARISON)


@pytest.fixture(scope="session")
def page(html: str) -> Parsed:
    return Parsed(html)


def test_the_page_says_what_it_must(page: Parsed, hostile: Fit) -> None:
    text = " ".join(page.text.split())
    for paragraph in finding(tables.headline(hostile), hostile.smallest_effect):
        assert paragraph in text
    assert checks_sentence(hostile.checks()).split(" (")[0] in text
    record = hostile.record
    for said in (record["spec"]["hash"], record["data"]["hash"], record["created"], "Seed"):
        assert said in text
    assert record["spec"]["text"].strip() in page.text
    for check in hostile.checks():
        assert check.sentence in text
    for _, reason in record["left_out"]:
        assert reason in text
    for sentence in tables.slopes(hostile)["sentence"]:
        assert sentence in text
    assert "assumed to be equally difficult if they were clean" in text
    assert "the smallest observed contamination, 0 in every benchmark" in text


def test_the_table_shows_the_estimands(page: Parsed, hostile: Fit) -> None:
    text = " ".join(page.text.split())
    for row in tables.headline(hostile).itertuples():
        assert f"{row.raw_accuracy:.3f}" in text
        assert interval(row.genuine_ability_direct_low, row.genuine_ability_direct_high) in text
    body = text.split("Raw accuracy against genuine")[0]
    assert "nan" not in body.lower().split()
    assert "–" not in body


def test_hostile_names_are_text(html: str, page: Parsed) -> None:
    assert not [tag for tag, _ in page.tags if tag in ("b ", "iframe", "object")]
    assert [tag for tag, _ in page.tags].count("script") == html.count("<script") == 1  # our own
    assert html.count("m" * 10_000) == 1  # in full once, shortened elsewhere
    assert "quiz\\n<b>" in page.text
    assert "\x07" not in html
    assert "\\x07" in page.text
    assert "made <up>.csv" in page.text


def test_links_ids_and_images(page: Parsed) -> None:
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert {"#verdicts", "#slopes", "#checks", "#comparison", "#provenance"} <= set(links)
    assert all(str(link)[1:] in ids and str(link)[0] == "#" for link in links)
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert len(images) == 15
    for image in images:
        assert str(image["src"]).startswith("data:image/")
        assert len(str(image["alt"])) > 30


def test_nothing_points_outside(page: Parsed, html: str) -> None:
    for _, attrs in page.tags:
        for name in ("src", "href"):
            assert str(attrs.get(name) or "#").startswith(("#", "data:"))
    assert not re.search(r"url\(|@import", html)
    assert len(html) < 4_000_000


@pytest.mark.usefixtures("undrawn")
def test_extrapolation_is_shown_where_there_is_some(page: Parsed, hostile: Fit) -> None:
    assert "Extrapolated by" not in page.text
    assert "rests on the form of the dose-response" not in page.text
    slopes = (
        Parsed(render(extrapolated(hostile, 0.125)))
        .text.split("Slopes: is there an effect")[1]
        .split("Dose-response")[0]
    )
    assert "Extrapolated by" in slopes
    # Two of five slopes are of the last model.
    assert slopes.count("0.125") == 2


@pytest.mark.usefixtures("undrawn")
def test_comparison_is_shown_only_if_given(html: str, by_concept: Fit) -> None:
    assert "&lt;b&gt;one&lt;/b&gt;" in html
    assert "−12.35" in html
    assert 'id="comparison"' not in render(by_concept)


@pytest.mark.usefixtures("undrawn")
def test_a_page_of_concepts(by_concept: Fit) -> None:
    page = Parsed(render(by_concept))
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    assert {"concepts", "ranks", "checks"} <= ids
    assert not {"slopes", "dose", "sensitivity"} & ids
    assert "effects of contamination are not estimated" in page.text
    assert "c" * 300 in page.text
    assert "picture-mastery" in ids
    assert "Number of concepts above an accuracy" in page.text
    found = concept_mastery(by_concept).table
    assert f"{found['needed'][0]} of {found['number'][0]}" in page.text


@pytest.mark.usefixtures("undrawn")
def test_a_failed_check_is_on_top_with_what_to_do(hostile: Fit) -> None:
    checks = a_check("divergences", Outcome.FAILED), a_check("E-BFMI", Outcome.PASSED)
    html = render(with_checks(hostile, *checks))
    head = html.split("<main>")[0]
    said = "Do not rely on this fit yet: 1 of 2 checks failed."
    assert f'<p class="verdict failed" id="verdict">{said}</p>' in head
    assert "<b>Divergences</b> 1 (required: &lt; 1). A sentence." in head


@pytest.mark.usefixtures("undrawn")
def test_title_and_note_are_on_top_and_are_text(hostile: Fit) -> None:
    html = render(hostile, title="<i>Two</i> quizzes", note="One <b>\x07.\n\nTwo\nlines.")
    head = html.split("<main>")[0]
    assert "<title>&lt;i&gt;Two&lt;/i&gt; quizzes</title>" in head
    assert "<h1>&lt;i&gt;Two&lt;/i&gt; quizzes</h1>" in head
    assert '<p class="own long">One &lt;b&gt;\\x07.</p>\n<p class="own long">Two lines.</p>' in head


@pytest.mark.usefixtures("undrawn")
def test_the_first_screen_says_what_is_assumed(hostile: Fit, by_concept: Fit) -> None:
    for fit in (hostile, by_concept):
        html = render(fit)
        first, _, rest = html.partition('<details class="more" id="details">')
        lines = first.split('<section id="assumes">')[1]
        assert lines.count("<dt>") == lines.count("<dd") == 3
        assert 'id="checks"' in rest
        assert 'id="slopes"' not in first
        condition = "and that the model's own responses inform the slope at least as much"
        assert (condition in first) == (fit is hostile)


def test_names_that_differ_by_case_are_both_there(page: Parsed) -> None:
    names = Names(BENCHMARKS, "b")
    assert [names.label(name) for name in BENCHMARKS] == ["Quiz", "quiz\\n<b>"]
    assert [names.anchor(name) for name in BENCHMARKS] == ["", "b-1"]
    assert "Quiz" in page.text


@pytest.mark.usefixtures("undrawn")
def test_the_file_is_written_whole_or_not_at_all(hostile: Fit, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(hostile, path)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(UsageError, match="no-folder"):
        write_report(hostile, tmp_path / "no-folder" / "report.html")


@pytest.mark.parametrize(
    ("reference", "said"), [("zero", "contamination 0 in"), (0.25, "contamination 0.25 in")]
)
def test_the_reference_is_reported(hostile: Fit, reference: Any, said: str) -> None:
    fit = Fit(hostile.data)
    fit.__dict__["record"] = hostile.record | {"reference": reference}
    assert said in reference_text(fit)


@pytest.fixture(params=[1200, 800, 390])
def opened(
    request: pytest.FixtureRequest, browser: Any, html: str, tmp_path: Path
) -> Iterator[Any]:
    path = tmp_path / "report.html"
    path.write_text(html, encoding="utf-8")
    browser.get_log("performance")
    # A window is never as narrow as a phone.
    size = {"width": request.param, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.browser
def test_the_page_in_a_browser(opened: Any) -> None:
    assert opened.get_log("browser") == []
    assert opened.title.startswith("bayescontam: hierarchical")  # no name changed it
    requests = [
        message["params"]["request"]["url"]
        for entry in opened.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"]
        == "Network.requestWillBeSent"
    ]
    assert {url.split(":")[0] for url in requests} <= {"file", "data", "chrome", "chrome-untrusted"}
    images = opened.find_elements("tag name", "img")
    assert len(images) == 15
    for image in images:
        assert image.get_attribute("alt")
        assert int(image.get_property("naturalWidth")) > 0
    width = opened.execute_script("return document.documentElement.clientWidth")
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    for link in opened.find_elements("css selector", "nav a"):
        target = str(link.get_attribute("href")).rpartition("#")[2]
        assert opened.find_elements("id", target)


@pytest.mark.browser
def test_a_link_into_the_details_opens_them(opened: Any) -> None:
    fold, checks = opened.find_element("id", "details"), opened.find_element("id", "checks")
    assert not fold.get_property("open")
    opened.execute_script("location.hash = '#checks'")
    opened.execute_async_script("setTimeout(arguments[0], 50)")
    assert fold.get_property("open")
    assert checks.is_displayed()
    top = opened.execute_script("return arguments[0].getBoundingClientRect().top", checks)
    assert -5 < top < 900


@pytest.mark.slow
@pytest.mark.browser
def test_a_page_of_one_benchmark_prints_on_few_sheets(browser: Any, tmp_path: Path) -> None:
    fit = made_fit([f"model-{i}" for i in range(20)], ["problems"], items=40, draws=50)
    path = tmp_path / "report.html"
    path.write_text(render(fit), encoding="utf-8")
    browser.get(path.as_uri())
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8


@pytest.mark.browser
def test_narrow_screens_get_a_picture_of_their_own(opened: Any) -> None:
    width = opened.execute_script("return window.innerWidth")
    image = opened.find_element("css selector", "#picture img")
    drawn = 96 * NARROW if width == 390 else 96 * WIDTH
    assert int(image.get_property("naturalWidth")) / drawn == pytest.approx(1, abs=0.4)
    # Letters keep four fifths of their size at least.
    assert image.size["width"] / drawn > 0.8


@pytest.mark.browser
def test_the_page_with_everything_unfolded_does_not_overflow(opened: Any) -> None:
    opened.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    width = opened.execute_script("return document.documentElement.clientWidth")
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    assert MODELS[0] in opened.find_element("id", "results").text
