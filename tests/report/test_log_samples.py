"""Where the answers to items are in the logs: locators, links, and nothing of the machine."""

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest

from bayescontam.cli.compare import items
from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.report.fit_page import render
from bayescontam.report.log_samples import (
    MOST_ITEMS,
    MOST_MODELS,
    LogAddress,
    log_address,
    samples_section,
)
from bayescontam.specs.registry import load_model
from tests.support.made_fit import drawn_from_prior

SERVED = "http://127.0.0.1:7575"
EVAL = "sub dir/2026-01-31_quiz_x%.eval"
COUNT = 16  # models, of which the first is the weakest


def row(model: int, item: int, solved: bool) -> dict[str, Any]:
    inspect = model % 2 == 0
    return {
        "model": f"model-{model:02}",
        "benchmark": "quiz",
        "item": f"q{item}",
        "correct": int(solved),
        "log_file": f"{model}/{EVAL}" if inspect else f"model-{model}/samples_quiz.jsonl",
        "log_sample": f"sample q{item}/<b>?#, epoch 2" if inspect else f"doc_id {item}, line 9",
    }


def table() -> pd.DataFrame:
    """Sixteen models, each a little abler than the one before; q1 has a wrong key."""
    rng = np.random.default_rng(3)
    rows = []
    for m in range(COUNT):
        for i in range(60):
            p = 1 / (1 + np.exp(-((m - 8) / 2 - (i - 30) / 15)))
            rows.append(row(m, i, m < COUNT // 2 if i == 1 else bool(rng.random() < p)))
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def fit() -> Fit:
    with drawn_from_prior():
        return fit_responses(
            Responses.from_frame(table(), source="made.csv"),
            load_model("ability"),
            Options(seed=1, sampling=Sampling(draws=200, chains=2)),
        )


@pytest.fixture(scope="module")
def html(fit: Fit) -> str:
    return render(fit, logs=LogAddress.of(SERVED, "page.html", []))


@pytest.mark.parametrize(
    "given", [SERVED, f"{SERVED}/", f"{SERVED}/#/logs/a", f"{SERVED}/index.html"]
)
def test_samples_of_inspect_link_into_inspect_view(given: str) -> None:
    link = LogAddress.of(given, "page.html", []).link(EVAL, "sample a/b ü?, epoch 12")
    place = "sub%20dir/2026-01-31_quiz_x%25.eval/samples/sample/a%2Fb%20%C3%BC%3F/12"
    assert link == f"{SERVED}/#/logs/{place}"


def test_other_addresses_lead_to_logs() -> None:
    address = LogAddress.of("https://example.org/a b?dir=1", "page.html", [])
    assert address.link("x.eval", "sample 1, epoch 1") == (
        "https://example.org/a%20b?dir=1#/logs/x.eval/samples/sample/1/1"
    )
    lines = LogAddress.of(SERVED, "page.html", [])
    assert lines.link("m/samples_q.jsonl", "doc_id 3, line 4") == f"{SERVED}/m/samples_q.jsonl"


@pytest.mark.parametrize("given", ["javascript:alert(1)", "ftp://host/logs", "http:///logs"])
def test_addresses_that_are_no_page_of_a_server_are_refused(given: str) -> None:
    with pytest.raises(UsageError, match="allowed is a folder, or an address such as http"):
        LogAddress.of(given, "page.html", ["x.eval"])


@pytest.mark.usefixtures("undrawn")
def test_a_folder_is_linked_by_its_place_beside_the_page(fit: Fit, tmp_path: Path) -> None:
    folder, page = tmp_path / "the logs", tmp_path / "pages" / "report.html"
    page.parent.mkdir()
    with pytest.raises(UsageError, match=r"holds none of the fit's logs, such as '.*eval'"):
        log_address(fit, tmp_path, page)
    for name in fit.samples()["log_file"].unique():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("{}")
    fit.report(page, logs=folder)
    html = page.read_text()
    links = re.findall(r'<a class="path" href="([^"]*)"', html)
    assert len(links) == html.count('<a class="path"') > MOST_MODELS
    assert all(link.startswith("../the%20logs/") for link in links)
    assert all((page.parent / unquote(link)).is_file() for link in links)
    assert os.fspath(tmp_path) not in html


def test_items_lead_to_their_answers(html: str) -> None:
    targets = set(re.findall(r'href="#(sample-\d+)"', html))
    assert targets
    assert targets == set(re.findall(r'<tr id="(sample-\d+)"', html))
    assert html.count('<a class="path"') == html.count(f'href="{SERVED}/') > MOST_MODELS
    assert "<b>?#" not in html  # of a sample's id
    assert "Answers in the logs" in html


def test_without_an_address_samples_are_text(fit: Fit) -> None:
    found = samples_section(fit, [[{"label": "q1"}]])
    assert found is not None
    assert {row["link"] for row in found["rows"]} == {""}
    assert not found["linked"]
    own = {r["log_file"]: r["log_sample"] for r in table().to_dict("records") if r["item"] == "q1"}
    assert {row["file"]: row["sample"] for row in found["rows"]}.items() <= own.items()


def test_the_answers_that_surprise_come_first(fit: Fit) -> None:
    found = samples_section(fit, [[{"label": "q1"}], None])
    assert found is not None
    accuracy = fit.raw_accuracy().sel(benchmark="quiz").to_series()
    order = accuracy.sort_values(kind="stable").index
    missed = {f"model-{m:02}" for m in range(COUNT // 2, COUNT)}
    half = MOST_MODELS // 2
    ablest = [(m, "missed") for m in order[::-1] if m in missed][:half]
    weakest = [(m, "solved") for m in order if m not in missed][:half]
    shown = [(r["model"], r["words"]) for r in found["rows"]]
    scores = [accuracy[m] for m, _ in shown]
    assert scores == [accuracy[m] for m, _ in (*ablest, *weakest)]
    assert [words for _, words in shown] == ["missed"] * half + ["solved"] * half
    assert found["cut"]


def test_each_table_has_some_of_the_items(fit: Fit) -> None:
    lists = [[{"label": f"q{i}"} for i in part] for part in (range(40), range(20, 60))]
    found = samples_section(fit, [*lists, None])
    assert found is not None
    assert (found["items"], found["of"]) == (MOST_ITEMS, 60)
    assert {"q0", "q20", "q44"} <= set(found["anchors"])
    assert "q59" not in found["anchors"]


def test_of_a_fit_without_logs_nothing_is_shown(hostile: Fit) -> None:
    assert samples_section(hostile, [[{"label": "i0-0"}]]) is None
    with pytest.raises(UsageError, match="holds no names of logs; import them with this version"):
        log_address(hostile, SERVED, "page.html")


def test_the_answers_to_suspects_are_written(fit: Fit, hostile: Fit, tmp_path: Path) -> None:
    for name, each in {"fit": fit, "hostile": hostile}.items():
        each.to_netcdf(tmp_path / f"{name}.nc")
    out = tmp_path / "samples.csv"
    items(tmp_path / "fit.nc", samples=out, quiet=True)
    written = pd.read_csv(out)
    worst = fit.item_fit()["item"].iloc[:20].to_list()
    assert list(written["item"].unique()) == worst
    assert len(written) == COUNT * len(worst)
    with pytest.raises(UsageError, match="holds no names of logs for these items"):
        items(tmp_path / "hostile.nc", samples=out, quiet=True)
    with pytest.raises(UsageError, match=r"allowed for samples is \.csv or \.parquet"):
        items(tmp_path / "fit.nc", samples=tmp_path / "samples.txt", quiet=True)


@pytest.mark.browser
def test_a_click_on_an_item_opens_its_answers(html: str, browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(html)
    browser.get(page.as_uri())
    browser.execute_script("for (const e of document.querySelectorAll('details')) e.open = true")
    first = browser.find_element("css selector", "#items a.name")
    first.click()
    target = browser.find_element("css selector", "tr:target")
    assert target.find_element("css selector", "td").text == first.text
    assert target.find_element("css selector", "a.path").get_attribute("href").startswith(SERVED)
