"""The part of a scan's page on planted duplicates."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.duplicates.recall import Recalled, recall
from bayescontam.report.plots import Picture
from bayescontam.report.recall_section import MOST_ROWS, finding, recall_section
from bayescontam.report.scan_page import render_scan
from bayescontam.scan.results import Scan
from tests.support.made_curve import make_curve
from tests.support.made_scan import BENCHMARKS, STRATA, MadeScan, make_scan
from tests.support.pages import Parsed, is_drawn, overflow

HOSTILE = "<script>document.title=1</script>\u202e"
SOURCES = tuple(dict.fromkeys(source for source, _ in STRATA))


@pytest.fixture(scope="module")
def made() -> MadeScan:
    return make_scan()


@pytest.fixture(scope="module")
def scan(made: MadeScan, tmp_path_factory: pytest.TempPathFactory) -> Scan:
    return Scan.load(made.write(tmp_path_factory.mktemp("scan") / "made"))


def truth_in(scan: Scan) -> pd.DataFrame:
    """Return a truth by which even items have duplicates: the best match, and one of rank 20."""
    keys = ["benchmark", "item", "document", "start", "end"]
    columns = {"duplicate": "x", "kind": "semantic", "copy": 1, "form": "as made"}
    parts = []
    for level, rank, place in (("near", 1, "alone"), (HOSTILE, 20, "inside")):
        rows = scan.matches.loc[scan.matches["rank"] == rank, keys].iloc[::2]
        parts.append(rows.assign(**columns, level=level, place=place))
    rest = scan.matches.loc[scan.matches["rank"] == 1, keys].iloc[1::2]
    absent = rest.assign(**columns, document="", level="", place="absent")
    return pd.concat([*parts, absent], ignore_index=True)


@pytest.fixture(scope="module")
def found(scan: Scan) -> Recalled:
    truth = truth_in(scan)
    first = scan.matches[scan.matches["rank"].isin([1, 20])]
    keys = ["benchmark", "item", "source", "document", "chunk"]
    judged = first[keys].assign(judge=f"Ada {HOSTILE}", is_duplicate=(first["rank"] == 1) * 1)
    covariates = scan.items[["benchmark", "item"]].assign(
        contamination=np.arange(len(scan.items)) % 2 == 0, top_cosine=0.5, max_ngram_8=0.1
    )
    covariates["contamination"] = covariates["contamination"].astype(float)
    curve = make_curve(BENCHMARKS, SOURCES, 0.5, steepness=9.0)
    return recall(scan, truth, judgements=judged, curve=curve, covariates=covariates)


@pytest.fixture(scope="module")
def html(scan: Scan, found: Recalled) -> str:
    return render_scan(scan, recalled=found)


def section_of(html: str) -> str:
    return html.split('<section id="planted">')[1].split("</section>")[0]


def test_the_sentence_on_top_counts_duplicates(found: Recalled, html: str) -> None:
    sentence = finding(found)
    assert sentence == (
        "Of 60 planted duplicates, 50.0 % are among the 10 best matches of their item"
        " (<script>document.title=1</script>\\u202e: none; near: all)."
    )
    text = " ".join(Parsed(section_of(html)).text.split())
    assert sentence in text
    assert (
        "A scan without matches is no evidence against duplicates of the kinds not found"
        " (<script>document.title=1</script>\\u202e)." in text
    )


def one_level(found: Recalled, level: str) -> Recalled:
    rows = found.duplicates[found.duplicates["level"] == level]
    return Recalled(**{**vars(found), "duplicates": rows})


def test_the_sentence_fits_what_was_found(found: Recalled) -> None:
    near, far = one_level(found, "near"), one_level(found, HOSTILE)
    assert finding(near) == (
        "Of 30 planted duplicates, all are among the 10 best matches of their item."
    )
    assert recall_section(near)["meaning"].startswith("Most duplicates of these kinds are found:")
    assert finding(far).startswith("Of 30 planted duplicates, none are among")
    assert "duplicates of the kinds not found." in recall_section(far)["meaning"]
    alone = Recalled(**{**vars(near), "duplicates": near.duplicates.head(1)})
    assert finding(alone).startswith("Of 1 planted duplicate, all is among the 10 best")


def test_tables_hold_the_figures(found: Recalled, html: str) -> None:
    text = Parsed(section_of(html)).text
    for row in found.table.to_dict("records"):
        share = f"{row['recall@10']:.2f}"
        assert f"{share}[{row['recall@10_low']:.2f}, {row['recall@10_high']:.2f}]" in text
    for row in found.judges.to_dict("records"):
        assert f"{row['recall']:.3f}[{row['recall_low']:.3f}, {row['recall_high']:.3f}]" in text
    assert text.count(f"Ada {HOSTILE[:-1]}\\u202e") == 1  # once, and not in each of its rows
    for row in found.calibration.to_dict("records"):
        assert f"{row['p_from']:.1f} to {row['p_to']:.1f}{row['matches']:,}" in text
    expected = found.curve["expected"].iloc[0]
    assert f"1.000{expected:.3f}" in text
    for shown in ("contamination", "highest cosine", "highest 8-grams"):
        assert shown in text
    assert "nan" not in text.lower().split()


def test_pictures_are_drawn_and_described(found: Recalled) -> None:
    pictures: list[Picture] = recall_section(found)["pictures"]
    assert [picture.name for picture in pictures] == ["planted-found", "planted-roc"]
    assert all(map(is_drawn, pictures))
    lines, curves = pictures
    assert "near 1.00" in lines.alt
    areas = found.scores.set_index("score")["auc"]
    for name, shown in (("cosine", "cosine"), ("rouge_l", "ROUGE-L"), ("ngram_8", "8-grams")):
        assert f"{shown} {areas[name]:.2f}" in curves.alt


def test_the_page_lists_the_section(html: str, scan: Scan) -> None:
    page = Parsed(html)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {"planted", "picture-planted-found", "picture-planted-roc"} <= set(ids)
    assert "#planted" in [attrs.get("href") for tag, attrs in page.tags if tag == "a"]
    assert not re.search("<script", html)
    without = render_scan(scan)
    assert 'id="planted"' not in without
    assert "#planted" not in without


@pytest.mark.usefixtures("undrawn")
def test_only_what_was_given_is_on_the_page(scan: Scan) -> None:
    truth = truth_in(scan)
    all_planted = truth[truth["place"] != "absent"]
    text = section_of(render_scan(scan, recalled=recall(scan, all_planted)))
    for heading in ("Judges", "The curve", "Contamination of items"):
        assert f"<h3>{heading}" not in text
    # Without items of which none was planted there is no ROC curve, but pairs are compared.
    assert 'id="picture-planted-roc"' not in text
    assert "items, by their best match" not in text
    assert "pairs, semantic near" in text


@pytest.mark.usefixtures("undrawn")
def test_what_is_not_stored_is_not_shown(made: MadeScan, tmp_path: Path) -> None:
    """With three stored matches of each item, of the twenty."""
    few = replace(made, matches=made.matches[made.matches["rank"] <= 3].reset_index(drop=True))
    few = few.with_record(search=made.record["search"] | {"top_k": 3})
    scan = Scan.load(few.write(tmp_path / "few"))
    truth = truth_in(Scan.load(made.write(tmp_path / "made")))
    found = recall(scan, truth)
    assert finding(found).startswith(
        "Of 60 planted duplicates, 50.0 % are among the 3 best matches of their item"
    )
    section = recall_section(found)
    assert (
        "Recall@10, recall@100: not known, since the scan stores the 3 best" in section["meaning"]
    )
    [lines] = [p for p in section["pictures"] if p.name == "planted-found"]
    assert "by rank up to 3 and" in lines.alt
    text = Parsed(section_of(render_scan(scan, recalled=found))).text
    assert "–" in text
    assert "nan" not in text.lower().split()


@pytest.mark.usefixtures("undrawn")
def test_a_form_has_its_rows(scan: Scan) -> None:
    truth = truth_in(scan)
    truth["form"] = np.where(np.arange(len(truth)) % 4, "wrapped", "as made")
    text = Parsed(section_of(render_scan(scan, recalled=recall(scan, truth)))).text
    assert "insidewrapped" in text
    assert "aloneas made" in text


def test_the_section_stays_small(scan: Scan) -> None:
    """With a level for each duplicate, of names without end."""
    rows = pd.concat([truth_in(scan)] * 2)
    rows["kind"] = "&" * 5_000
    rows["level"] = [f"{n}{'&' * 5_000}" for n in range(len(rows))]
    found = recall(scan, rows)
    assert len(found.table) > MOST_ROWS
    section = section_of(render_scan(scan, recalled=found))
    assert len(section) < 2_000_000
    assert f"{len(found.table) - MOST_ROWS:,} more rows are in the output of" in section
    assert "Only 8 of 120 levels are drawn" in section


def test_nothing_found_has_a_section(scan: Scan) -> None:
    truth = truth_in(scan)
    truth.loc[truth["place"] != "absent", "document"] = "elsewhere"
    section = recall_section(recall(scan, truth))
    assert "none are among the 10 best matches" in section["finding"]
    assert all(map(is_drawn, section["pictures"]))


@pytest.mark.browser
@pytest.mark.parametrize("width", [1200, 390])
def test_the_section_in_a_browser(browser: Any, html: str, tmp_path: Path, width: int) -> None:
    path = tmp_path / "scan.html"
    path.write_text(html, encoding="utf-8")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    assert overflow(browser) <= 0
    if width == 1200:
        # Every table is seen whole.
        script = (
            "return [...document.querySelectorAll('#planted .scroll')]"
            ".map(box => box.scrollWidth - box.clientWidth)"
        )
        assert max(browser.execute_script(script)) <= 0
    assert browser.title == "bayescontam scan: mine<b>"
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_of_many_levels_those_least_found_are_named_first(found: Recalled) -> None:
    """What a scan misses matters more than what it finds."""
    parts = []
    for at in range(10):
        rank = 1.0 if at < 7 else 50.0
        parts.append(found.duplicates.head(3).assign(level=f"level {at}", kind="k", rank=rank))
    many = replace(found, duplicates=pd.concat(parts, ignore_index=True))
    text = finding(many)
    assert text.startswith("Of 30 planted duplicates, 70.0 % are among the 10 best matches")
    assert "(level 7: none; level 8: none; level 9: none; level 0: all" in text
    assert text.endswith("; the 4 others are found as often or more often).")
    seven = replace(found, duplicates=pd.concat(parts[3:], ignore_index=True))
    assert finding(seven).endswith("; the other one is found as often or more often).")
    [picture] = [p for p in recall_section(many)["pictures"] if p and p.name == "planted-found"]
    assert "level 7 0.00, level 8 0.00, level 0 1.00" in picture.alt
    assert "Only 8 of 10 levels are drawn (from the least to the most found)." in picture.caption
