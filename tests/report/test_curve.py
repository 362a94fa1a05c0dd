import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from bayescontam.errors import UsageError
from bayescontam.evidence.curve import half, halves
from bayescontam.report import curve_page
from bayescontam.report.curve_page import render_curve, write_curve_report
from tests.support.made_curve import COLUMNS, SENSITIVITY, SPECIFICITY, make_curve
from tests.support.pages import Parsed

PERSON, MODEL = "<script>document.title=0</script>\x07", "llm:" + "m" * 300
FAILED = {
    "name": "divergences", "outcome": "failed", "value": 3.0, "threshold": "≤ 0",
    "sentence": "3 transitions <diverged>.",
}  # fmt: skip


def made_up(pairs: int = 60) -> pd.DataFrame:
    """Pairs at cosines from 0.4 to 1, called duplicates above 0.7 by two judges."""
    cosine = np.linspace(0.4, 0.999, pairs)
    table = pd.DataFrame(
        {
            "benchmark": "quiz", "item": [f"i{n}" for n in range(pairs)], "source": "web",
            "document": "d", "chunk": 0, "cosine": cosine, "best": cosine,
            "is_duplicate": (cosine > 0.7).astype(int), "kind": "",
        }
    )  # fmt: skip
    return pd.concat([table.assign(judge=MODEL), table[::3].assign(judge=PERSON)])[COLUMNS]


@pytest.fixture(scope="module")
def html() -> str:
    return render_curve(make_curve(judged=made_up(), benchmarks=("quiz", "<i>b</i>\n")))


@pytest.fixture(scope="module")
def page(html: str) -> Parsed:
    return Parsed(html)


def test_half_is_the_threshold_where_every_item_is_open() -> None:
    draws = make_curve(threshold=np.linspace(0.301, 0.9, 10), steepness=40.0).draws()
    assert half(draws, 0) == pytest.approx(np.linspace(0.301, 0.9, 10), abs=2e-4)


def test_half_is_that_of_the_items_where_they_are_what_is_unsure() -> None:
    curve = make_curve(threshold=-5.0, threshold_open=0.62, steepness_open=60.0)
    assert half(curve.draws(), 0) == pytest.approx(0.62, abs=2e-4)


@pytest.mark.parametrize(("threshold", "place"), [(1.5, np.inf), (-1.0, -np.inf)])
def test_half_is_infinite_where_the_curve_does_not_cross_it(threshold: float, place: float) -> None:
    draws = make_curve(threshold=threshold, steepness=40.0).draws()
    assert (half(draws, 0) == place).all()


def test_the_interval_of_the_half_states_draws_without() -> None:
    threshold = np.linspace(0.5, 0.7, 100)
    threshold[-10:] = 2.0
    row = halves(make_curve(threshold=threshold, draws=100)).to_dict("records")[0]
    assert (row["low"], row["high"]) == (pytest.approx(0.504, abs=0.006), np.inf)
    assert row["text"] == "0.60 [0.50, none]"


def test_judges_stand_beside_their_priors() -> None:
    rows = {row["judge"]: row for row in curve_page.judges(make_curve(judged=made_up()))}
    assert [rows[name]["kind"] for name in (MODEL, PERSON)] == ["language model", "person"]
    assert [rows[name]["pairs"] for name in (MODEL, PERSON)] == [60, 20]
    for name, (a, b) in ((MODEL, (18, 2)), (PERSON, (97, 3))):
        reported = rows[name]["sensitivity"]
        assert reported["mean"] == pytest.approx(SENSITIVITY)
        assert reported["prior"] == pytest.approx(a / (a + b))
        inside = beta.cdf([reported["prior_low"], reported["prior_high"]], a, b)
        assert inside == pytest.approx([0.025, 0.975])
    assert rows[MODEL]["specificity"]["mean"] == pytest.approx(SPECIFICITY)


def test_a_pair_is_called_what_most_judges_call_it() -> None:
    table = made_up(6)
    table.loc[table["judge"] == PERSON, "is_duplicate"] = 1
    table = pd.concat([table, table.iloc[:1].assign(judge="third", is_duplicate=0)])
    pairs = curve_page.judged_pairs(make_curve(judged=table))
    # 0, 0 and 1; 0; then 1, of which one is judged twice.
    assert pairs["called"].tolist() == [False, False, False, True, True, True]
    assert pairs["first"].all()


def test_the_page_says_what_it_must(page: Parsed) -> None:
    text = " ".join(page.text.split())
    assert "80 judgements of 80 pairs; 2 benchmarks ('quiz', '<i>b</i>\\n')" in text
    assert "as likely a duplicate as not: 0.75 [0.75, 0.75] in 'quiz'" in text
    assert "0.900[0.740, 0.987]" in text  # the prior of a model's sensitivity
    for said in ("cd" * 32, "Seed5", "bend at", "sigma_item", "\\x1b[31m", "(40 duplicate, 40 no"):
        assert said in text, said
    assert "nan" not in text.lower().split()


def test_hostile_names_are_text(html: str, page: Parsed) -> None:
    assert "<script" not in html
    assert "\x07" not in html
    assert "<script>document.title=0</script>\\x07" in page.text
    assert html.count("m" * 300) == 1  # in full once, shortened elsewhere


def test_links_ids_and_images(page: Parsed) -> None:
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [str(attrs["href"]) for tag, attrs in page.tags if tag == "a"]
    assert {"#curve", "#judges", "#parameters", "#checks", "#prediction"} <= set(links)
    assert all(link[0] == "#" and link[1:] in ids for link in links)
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert len(images) == 2
    assert "quiz: 0.75 [0.75, 0.75]" in str(images[0]["alt"])
    # 0.95 is outside 0.1 to 0.3, and 0.1 inside.
    assert "1 of 2 observed ones are outside" in str(images[1]["alt"])


def test_nothing_points_outside(page: Parsed, html: str) -> None:
    for _, attrs in page.tags:
        for name in ("src", "href"):
            assert str(attrs.get(name) or "#").startswith(("#", "data:"))
    assert not re.search(r"url\(|@import", html)


def test_a_prior_is_no_finding() -> None:
    html = render_curve(make_curve(threshold=1.5))
    assert '<p class="verdict failed" id="verdict">Nothing was judged: this curve is the' in html
    text = " ".join(Parsed(html).text.split())
    assert "as not: none in [0, 1] in 'quiz'" in text
    assert "Nobody has judged." in text
    assert "no judge" in text
    assert 'id="prediction"' not in html
    assert curve_page.shares(make_curve()) is None


def test_a_failed_check_is_on_top() -> None:
    html = render_curve(make_curve(judged=made_up(), checks=[FAILED]))
    assert '<p class="verdict failed" id="verdict">Do not rely on this curve yet: 1 of 1' in html
    assert "3 transitions &lt;diverged&gt;." in html


def test_the_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_curve_report(make_curve(), tmp_path / "curve.html")
    assert (tmp_path / "curve.html").read_text(encoding="utf-8").endswith("</html>")
    assert [p.name for p in tmp_path.iterdir()] == ["curve.html"]
    with pytest.raises(UsageError, match="no-folder"):
        write_curve_report(make_curve(), tmp_path / "no-folder" / "curve.html")
