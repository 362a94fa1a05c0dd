"""The report of more models and benchmarks than pictures of single pairs have room for."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayescontam.inference import tables
from bayescontam.inference.result import Fit
from bayescontam.report import ability_figures, effect_figures, fit_page
from bayescontam.report.fit_page import reference_text, render, write_report
from bayescontam.report.format import Names, longest_rows
from tests.support.made_fit import made_fit
from tests.support.pages import Parsed, is_drawn

pytestmark = pytest.mark.slow
HOSTILE = "said \"'best'\" & <b>fast</b>", "модель ✓", "</script><script>document.title=0</script>"
MODELS = [*HOSTILE, *(f"m{i}" for i in range(27))]
BENCHMARKS = ["<i>quiz</i>", *(f"bench-{i}" for i in range(12))]
ROWS = "#results tbody tr:not(.group)"
LONG = """return [...document.querySelectorAll('table.sortable')].filter(
    table => table.querySelectorAll('tbody tr:not(.group)').length > 12).length"""
"""Tables that can be filtered: scores, slopes, assumed, power, items (if many fit badly), ranks."""


@pytest.fixture(scope="session")
def large() -> Fit:
    return made_fit(MODELS, BENCHMARKS, items=6, draws=50)


@pytest.fixture(scope="session")
def headline(large: Fit) -> pd.DataFrame:
    return tables.headline(large)


@pytest.fixture(scope="session")
def html(large: Fit) -> str:
    return render(large)


@pytest.fixture(scope="session")
def page(html: str) -> Parsed:
    return Parsed(html)


def test_the_page_says_what_it_leaves_out(page: Parsed) -> None:
    text = " ".join(page.text.split())
    assert "A mark for each of 390 pairs of model and benchmark" in text
    assert "All 390 slopes, and what the data show of each" in text
    assert "Power-scaling of all 390 pairs of model and benchmark" in text
    assert "Only 3 of 13 benchmarks are drawn (largest overfitting (direct))." in text
    assert "Only 24 of 30 models are drawn (largest slope)." in text
    assert "Only 12 of 390 slopes are drawn (least changed by the data)." in text
    assert "All 3,120 estimands" in text
    named = {word for word in text.replace("(", " ").split() if word.endswith(".csv")}
    assert named - {"made.csv"} == {
        "headline.csv", "slopes.csv", "curves.csv", "items.csv", "predicted.csv",
        "predicted-bins.csv",
    }  # fmt: skip


def test_every_pair_is_in_the_tables_with_its_value(html: str, headline: pd.DataFrame) -> None:
    section = html.split('<section id="picture">')[0].split('<section id="results">')[1]
    tags = Parsed(section).tags
    reported = [float(str(known["data-v"])) for tag, known in tags if "data-v" in known]
    assert len(reported) == 390 * 6
    ordered = headline.sort_values(
        ["rank", "genuine_ability_direct"], ascending=[True, False], kind="stable"
    )
    columns = [
        "raw_accuracy",
        "genuine_ability_direct",
        "overfitting_direct",
        "rank_raw",
        "rank",
        "p_best",
    ]
    parts = [ordered.loc[ordered["benchmark"] == name, columns] for name in BENCHMARKS]
    np.testing.assert_allclose(np.reshape(reported, (390, 6)), pd.concat(parts), rtol=1e-5)


def test_the_overview_shows_every_pair(large: Fit, headline: pd.DataFrame) -> None:
    scatter = ability_figures.scatter(headline)
    effect = effect_figures.effect_map(
        headline, "overfitting_direct", "overfitting_direct_verdict", "headline"
    )
    assert effect is not None
    assert is_drawn(scatter)
    assert is_drawn(effect)
    assert "30 models on 13 benchmarks" in effect.alt
    for kind, count in headline["overfitting_direct_verdict"].value_counts().items():
        assert f"{count:,} {kind}" in effect.alt
    most = headline["overfitting_direct"].abs().max()
    assert f", {most:.2f}" in effect.alt or f", -{most:.2f}" in effect.alt
    assert "Only" not in effect.caption
    one = headline[headline["benchmark"] == BENCHMARKS[1]]
    assert (
        effect_figures.effect_map(
            one, "overfitting_direct", "overfitting_direct_verdict", "headline"
        )
        is None
    )


def test_a_map_has_the_largest_first_and_says_what_it_lacks() -> None:
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        [(f"m{m}", f"b{b}") for m in range(200) for b in range(70)], columns=["model", "benchmark"]
    )
    table["slope"], table["verdict"] = rng.normal(size=len(table)), "inconclusive"
    table = table.drop(index=[5, 900])  # pairs without answers
    drawn = effect_figures.effect_map(table, "slope", "verdict", "slopes")
    assert drawn is not None
    assert "Only 150 of 200 models are drawn (largest slope)." in drawn.caption
    assert "Only 60 of 70 benchmarks are drawn (largest slope)." in drawn.caption
    assert "All: slopes.csv" in drawn.caption
    models, benchmarks, _ = effect_figures._axes(table, "slope")
    means = table.groupby("model")["slope"].mean()
    assert means[models].is_monotonic_decreasing
    sizes = table["slope"].abs().groupby(table["benchmark"]).max()
    assert set(benchmarks) == set(sizes.nlargest(60).index)


def test_rows_beyond_what_fits_are_left_to_files(large: Fit) -> None:
    slopes = tables.slopes(large)
    known = longest_rows(slopes, "slope", "slopes", most=10)
    largest = set(slopes["slope"].abs().nlargest(10))
    assert {abs(row["slope"]) for row in known["rows"]} == largest
    assert known["of"] == 390
    assert known["note"] == (
        "Only 10 of 390 rows are on the page (largest slope). All: slopes.csv of 'bayescontam"
        " report --tables'."
    )


def test_ranks_within_many_benchmarks_are_left_to_files(
    large: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fit_page.ranking_section(large)
    assert whole is not None
    assert len(whole["within"]) == 13
    monkeypatch.setattr(fit_page, "MOST_WITHIN", 100)
    section = fit_page.ranking_section(large)
    assert section is not None
    assert section["within"] == {}
    assert section["within_note"] == (
        "The 390 ranks within benchmarks: ranks.csv of 'bayescontam report --tables'."
    )
    table = tables.ranks(large)
    assert len(table) == 390 + 30
    for name, one in whole["within"].items():
        own = table[table["benchmark"] == name]
        assert [row["model"] for row in one["rows"]] == list(own["model"])


def test_many_references_are_reported_as_a_range(large: Fit) -> None:
    assert reference_text(large).startswith("the smallest observed contamination, 0 in every")
    many = Fit(large.data.copy())
    curves = many.data["curves"].to_dataset()
    shift = curves["contamination"] + xr.DataArray(0.01 * np.arange(13), dims="benchmark")
    many.data["curves"] = xr.DataTree(curves.assign(contamination=shift))
    assert "of each benchmark, 0 to 0.12 (all: the first" in reference_text(many)


@pytest.mark.usefixtures("undrawn")
def test_a_page_of_two_pairs_is_as_plain_as_ever() -> None:
    small = Parsed(render(made_fit(["one", "other"], ["quiz"], items=12, draws=60)))
    ids = {known["id"] for _, known in small.tags if "id" in known}
    assert not {"picture-scatter", "picture-overfitting-direct-map", "picture-slope-map"} & ids
    assert "tall" not in " ".join(str(known.get("class")) for _, known in small.tags)
    assert "--tables'" not in small.text


def test_the_page_of_a_thousand_models_is_small_and_can_be_searched() -> None:
    """As a leaderboard is: 1,150 models and a few items, every one of them on the page."""
    html = render(made_fit([f"model-{m:04d}" for m in range(1150)], ["board"], items=4, draws=25))
    assert len(html) < 10_000_000
    results, ranks = html.split('<section id="results">')[1], html.split('<section id="ranks">')[1]
    for section in (results, ranks):
        table = section.split("</table>")[0]
        assert re.search(r'<table class="[^"]*\bsortable\b', table)
        assert table.count("</tr>") >= 1150
    assert "Others alike" in ranks
    assert "of 660,675 pairs of models" in ranks
    assert "Only 1,000 of 1,035 rows are on the page (largest total effect)." in html


@pytest.mark.usefixtures("undrawn")
def test_progress_is_shown(large: Fit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_report(large, tmp_path / "a.html", tables_in=tmp_path / "tables", progress=True)
    shown = capsys.readouterr().err
    assert "judging  100 %" in shown
    assert "drawing  100 %" in shown
    assert (tmp_path / "tables" / "better.csv").exists()


@pytest.fixture(params=[1200, 400])
def opened(request: pytest.FixtureRequest, browser: Any, html: str, tmp_path: Path) -> Any:
    path = tmp_path / "report.html"
    path.write_text(html, encoding="utf-8")
    size = {"width": request.param, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get_log("browser")
    browser.get(path.as_uri())
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def values(page: Any, at: int) -> list[float]:
    """Return the values of a column of the headline table, as its rows stand."""
    script = f"return [...document.querySelectorAll('{ROWS}')].map(r => r.cells[{at}].dataset.v)"
    return [float(value) for value in page.execute_script(script)]


@pytest.mark.browser
def test_sorting_and_filtering_in_a_browser(opened: Any, headline: pd.DataFrame) -> None:
    button = opened.find_element("css selector", "#results button[aria-label*='Overfitting']")
    button.click()
    np.testing.assert_allclose(
        values(opened, 5), np.sort(headline["overfitting_direct"]), rtol=1e-5
    )
    button.click()
    falling = np.sort(headline["overfitting_direct"])[::-1]
    np.testing.assert_allclose(values(opened, 5), falling, rtol=1e-5)
    reported = opened.find_element("css selector", "#results output")
    options = opened.find_elements("css selector", "#results select option")
    names = [option.get_property("textContent") for option in options]
    assert {Names(MODELS, "").label(name) for name in MODELS} <= set(names)
    for name in (HOSTILE[0], BENCHMARKS[0]):
        options[names.index(name)].click()
    assert reported.text == "1 of 390 rows"
    opened.find_element("css selector", "#results .tools button").click()
    assert reported.text == "390 of 390 rows"
    field = opened.find_element("css selector", "#results input")
    field.send_keys("МОДЕЛЬ")
    assert reported.text == "13 of 390 rows"
    assert opened.get_log("browser") == []
    assert opened.title.startswith("bayescontam: hierarchical")


@pytest.mark.browser
def test_nothing_overflows(opened: Any) -> None:
    opened.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    from selenium.webdriver.support.wait import WebDriverWait

    script = "const d = document.documentElement; return d.scrollWidth - d.clientWidth"
    assert opened.execute_script(script) <= 0
    waiting = WebDriverWait(opened, 120)  # tables get their tools when they are unfolded
    long = opened.execute_script(LONG)
    assert 4 + 1 + len(BENCHMARKS) <= long <= 5 + 1 + len(BENCHMARKS)
    waiting.until(lambda page: len(page.find_elements("css selector", ".tools")) == long)
    assert opened.execute_script(script) <= 0


@pytest.mark.browser
def test_all_rows_are_printed_whatever_is_filtered(opened: Any) -> None:
    opened.find_element("css selector", "#results input").send_keys("bench-3 m5")
    count = f"return [...document.querySelectorAll('{ROWS}')].filter(r => r.offsetHeight).length"
    assert opened.execute_script(count) == 1
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert opened.execute_script(count) == 390
        assert not opened.find_element("css selector", ".tools").is_displayed()
        tall = "return [...document.querySelectorAll('.tall')].filter(b => b.offsetHeight).every("
        tall += "b => b.scrollHeight <= b.clientHeight + 1)"
        assert opened.execute_script(tall)
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.browser
def test_the_page_is_whole_without_the_script(browser: Any, html: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html, encoding="utf-8")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(path.as_uri())
        body = browser.find_element("tag name", "body")
        assert not browser.find_elements("css selector", ".tools, thead button, .of")
        assert len(browser.find_elements("css selector", ROWS)) == 390
        shown = json.dumps(body.text)
        assert all(f"bench-{i}" in shown for i in range(12))
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
