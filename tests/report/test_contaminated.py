import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from bayescontam.inference.result import Fit
from bayescontam.report.contaminated import contaminated_section
from bayescontam.report.evidence import Evidence, gather
from bayescontam.report.fit_page import render
from bayescontam.report.format import Names
from tests.report.conftest import BENCHMARKS, MODELS
from tests.support.made_curve import judge, make_curve
from tests.support.made_scan import ITEMS, STRATA, MadeScan, make_scan
from tests.support.pages import Parsed

SOURCES = tuple(dict.fromkeys(source for source, _ in STRATA))
THRESHOLD = 0.7


def scan_of_the_fit() -> MadeScan:
    """The made scan, its items under the names of 30 of each 40 items of the hostile fit."""
    made = make_scan()
    old = list(made.items[["benchmark", "item"]].itertuples(index=False, name=None))
    new = {key: (BENCHMARKS[i % 2], f"i{i % 2}-{i // 2}") for i, key in enumerate(old)}

    def renamed(table: Any) -> Any:
        keys = [new[key] for key in zip(table["benchmark"], table["item"], strict=True)]
        return table.assign(benchmark=[k[0] for k in keys], item=[k[1] for k in keys])

    known = dict(zip(made.items["benchmark"], BENCHMARKS * ITEMS, strict=False))
    tables = {name: renamed(getattr(made, name)) for name in ("items", "matches", "tail")}
    strata = made.strata.assign(benchmark=made.strata["benchmark"].map(known))
    return replace(made, **tables, histogram=renamed(made.histogram), strata=strata)


@pytest.fixture(scope="module")
def made() -> MadeScan:
    return scan_of_the_fit()


@pytest.fixture(scope="module")
def evidence(made: MadeScan) -> Evidence:
    best = made.matches[made.matches["rank"] == 1].sort_values("cosine", ascending=False)
    judged = judge(best.head(5), [1] * 5, "<i>Bob</i>")
    return gather(made, make_curve(BENCHMARKS, SOURCES, THRESHOLD, judged=judged))


@pytest.fixture(scope="module")
def with_exposure(hostile: Fit) -> Fit:
    """The fit as if contamination had been latent: the last items are the likeliest."""
    data = hostile.data["constant_data"].to_dataset()
    count = data.sizes["item"]
    values = {
        "contamination": np.full(count, 0.5), "posterior_mean": np.linspace(0.01, 0.99, count),
        "posterior_sd": np.full(count, 0.1), "item_of_group": np.arange(count),
        "benchmark_of_group": data["benchmark_of_item"].to_numpy(),
    }  # fmt: skip
    group = xr.Dataset({name: ("group", v) for name, v in values.items()})
    tree = hostile.data.copy()
    tree["exposure"] = xr.DataTree(
        group.assign_coords(item=data["item"].to_numpy(), benchmark=data["benchmark"].to_numpy())
    )
    return Fit(tree)


def section(fit: Fit, evidence: Evidence) -> dict[str, Any]:
    return contaminated_section(fit, evidence, Names(MODELS, "name-model"))


def test_items_with_duplicates_come_first(hostile: Fit, evidence: Evidence, made: MadeScan) -> None:
    reported = section(hostile, evidence)
    count = int((made.cosines.max(axis=1) > THRESHOLD).sum())
    p = [row["p_duplicate"] for row in reported["rows"]]
    assert reported["n_items"] == ITEMS
    assert p == sorted(p, reverse=True)
    assert p[:count] == pytest.approx([1.0] * count)
    assert [card["anchor"] for card in reported["cards"]] == [
        row["anchor"] for row in reported["rows"]
    ]
    assert not reported["has_posterior"]


def test_accuracies_are_those_of_the_responses(hostile: Fit, evidence: Evidence) -> None:
    data = hostile.data["constant_data"].to_dataset()
    correct = hostile.data["observed_data"]["n_correct"].to_numpy()
    for row, card in list(
        zip(*(section(hostile, evidence)[k] for k in ("rows", "cards")), strict=True)
    )[:9]:
        code = list(data["item"].to_numpy()).index(card["item"])
        own = data["item_of_response"].to_numpy() == code
        assert row["accuracy"] == pytest.approx(correct[own].mean())
        assert card["about"][0].count(f"{MODELS[0]} {correct[own][0]:.2f}") == 1


def test_the_posterior_orders_the_items(with_exposure: Fit, evidence: Evidence) -> None:
    reported = section(with_exposure, evidence)
    means = [row["posterior_mean"] for row in reported["rows"]]
    assert reported["has_posterior"]
    assert means == sorted(means, reverse=True)
    # Of the 40 items of the second benchmark, the scan has the first 30.
    assert reported["rows"][0]["item"] == "i1-29"


def test_what_does_not_fit_together_is_reported(hostile: Fit, evidence: Evidence) -> None:
    notes = " ".join(section(hostile, evidence)["notes"])
    assert "20 items of the fit are not in the scan." in notes
    assert re.search(r"differs from the probability of a duplicate for \d\d items", notes)


def test_items_of_one_name_are_distinguished(evidence: Evidence, hostile: Fit) -> None:
    """A fit labels items of two benchmarks that share a name by benchmark, too."""
    data = hostile.data["constant_data"].to_dataset()
    benchmarks = data["benchmark"].to_numpy()[data["benchmark_of_item"].to_numpy()]
    labels = [f"{b}/{i}" for b, i in zip(benchmarks, data["item"].to_numpy(), strict=True)]
    tree = hostile.data.copy()
    tree["constant_data"] = xr.DataTree(data.assign_coords(item=labels))
    reported, plain = section(Fit(tree), evidence), section(hostile, evidence)
    assert [row["accuracy"] for row in reported["rows"]] == [
        row["accuracy"] for row in plain["rows"]
    ]


@pytest.mark.usefixtures("undrawn")
def test_the_page_links_items_to_their_texts(with_exposure: Fit, evidence: Evidence) -> None:
    html = render(with_exposure, None, evidence)
    page = Parsed(html)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    links = [str(attrs["href"])[1:] for tag, attrs in page.tags if tag == "a"]
    assert len(ids) == len(set(ids))
    assert set(links) <= set(ids)
    assert len([link for link in links if link.startswith("item-")]) == 50
    assert html.count("<script") == 1  # our own
    assert "Contamination, with the responses" in page.text
    assert 'id="contaminated"' not in render(with_exposure)


@pytest.mark.usefixtures("undrawn")
def test_the_page_reports_what_judges_said(hostile: Fit, evidence: Evidence) -> None:
    text = Parsed(render(hostile, None, evidence)).text
    assert text.count("<i>Bob</i>: a duplicate") == 5
    assert "Contamination, with the responses" not in text


@pytest.mark.usefixtures("undrawn")
def test_no_item_in_common_is_reported(hostile: Fit) -> None:
    made = make_scan()
    names = tuple(made.items["benchmark"].unique())
    evidence = gather(made, make_curve(names, SOURCES))
    text = Parsed(render(hostile, None, evidence)).text
    assert "The scan has none of the fit's items." in text


@pytest.mark.usefixtures("undrawn")
@pytest.mark.browser
def test_a_link_unfolds_the_texts(
    browser: Any, hostile: Fit, evidence: Evidence, tmp_path: Any
) -> None:
    path = tmp_path / "report.html"
    path.write_text(render(hostile, None, evidence), encoding="utf-8")
    browser.get(path.as_uri())
    browser.execute_script("document.getElementById('details').open = true")
    link = browser.find_element("css selector", "#contaminated td a")
    target = browser.find_element("id", str(link.get_attribute("href")).rpartition("#")[2])
    assert not target.is_displayed()
    link.click()
    assert target.is_displayed()


@pytest.mark.usefixtures("undrawn")
def test_contaminated_items_lead_to_their_answers(hostile: Fit, evidence: Evidence) -> None:
    tree = hostile.data.copy()
    data = tree["constant_data"].to_dataset()
    place = ("response", np.zeros(data.sizes["response"], dtype=np.int32))
    logs = {"log_file": ["a.eval"], "log_sample": ["sample 1, epoch 1"]}
    data = data.assign({f"{name}_of_response": place for name in logs}).assign_coords(logs)
    tree["constant_data"] = xr.DataTree(data)
    html = render(Fit(tree), evidence=evidence)
    rows = section(hostile, evidence)["rows"]
    assert {row["label"] for row in rows} <= set(map(str, data["item"].to_numpy()))
    links = re.findall(r'<a href="#(sample-\d+)">answers</a>', html)
    targets = re.findall(r'<tr id="(sample-\d+)"><td><span class="name">([^<]*)</span>', html)
    # The lists of the page take turns, so that only the first rows have answers.
    shown = [dict(targets)[link] for link in links]
    assert len(shown) > 10
    assert shown == [row["label"] for row in rows if row["label"] in set(shown)]
