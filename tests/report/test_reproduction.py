"""Page of a reproduction: an article with every part, whatever its texts hold."""

import re
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from bayescontam.errors import UsageError
from bayescontam.published.findings import PictureData, Record
from bayescontam.report.published_page import (
    _bars,
    comparison_lines,
    drawn,
    render_reproduction,
    write_reproduction_report,
)
from tests.support.made_findings import HOSTILE, RUN, TEXT, findings


@pytest.fixture(scope="module")
def record() -> Record:
    return Record("made", TEXT, (RUN,), findings())


@pytest.fixture(scope="module")
def html(record: Record) -> str:
    return render_reproduction(record)


def test_the_page_reads_as_an_article(html: str) -> None:
    heads = re.findall(r"<h2>(.*?)</h2>", html)
    assert heads == [
        "Question", "Data", "Model", "Result", "Published beside ours", "Tables",
        "What it means", "What it does not mean", "Provenance",
    ]  # fmt: skip
    assert html.count("<p>") >= 6
    assert "A second paragraph" in html
    assert "<li>A note.</li>" in html


def test_no_text_becomes_markup(html: str) -> None:
    assert HOSTILE not in html
    assert "document.title=0&lt;/script&gt;" in html


def test_every_picture_is_drawn_and_described(html: str) -> None:
    assert html.count("<img") == 4
    titles = ["Some intervals", "A curve", "Two shares", "A grid"]
    assert re.findall(r"<figcaption><b>(.*?)\.</b>", html) == titles
    alts = re.findall(r'alt="(.*?)"', html)
    assert "ours 0.25 to 0.50" in alts[0]
    assert "line 0.10 to 0.90" in alts[1]
    assert "values 0.12" in alts[3]


def test_comparisons_are_reported_with_their_agreement(html: str) -> None:
    assert "Of 3 comparisons: 1 inside our interval, 1 apart, 1 no interval of ours." in html
    assert "0.790 [−0.153, 1.729]" in html
    assert '<span class="pill opposite-sign">apart</span>' in html


def test_markdown_has_a_line_for_each_number(record: Record) -> None:
    lines = comparison_lines([record.comparison()] * 2)
    assert len(lines) == 2 + 2 * 3
    assert lines[2] == (
        "| `made` | slope, A \\| b | 0.790 [−0.153, 1.729] | 0.500 [0.100, 0.900]"
        " | inside our interval | other draws |"
    )
    assert lines[4].split(" | ")[2:4] == ["0.070", "0.080"]


def test_a_picture_without_rows_is_left_out() -> None:
    table = pd.DataFrame(columns=["value", "series"])
    assert drawn(PictureData("shares", "t", "", table, "", ""), "p") is None


def test_panels_have_their_names_and_a_common_legend() -> None:
    table = findings().pictures[2].table
    picture = drawn(PictureData("shares", "t", "", table, "x axis", "y axis"), "p")
    assert picture is not None
    text = picture.image.decode()
    assert picture.kind == "svg+xml"
    assert text.count('id="axes_') == 2


def test_the_page_is_written_from_the_folder_alone(record: Record, tmp_path: Path) -> None:
    record.save(tmp_path)
    write_reproduction_report(tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page == render_reproduction(record)
    with pytest.raises(UsageError, match="holds no finished reproduction"):
        write_reproduction_report(tmp_path / "none")


def test_upright_lines_are_named_as_the_picture_says() -> None:
    wanted = findings().pictures[0]
    assert "truth" in wanted.table
    named = drawn(replace(wanted, mark="claimed"), "p")
    assert named is not None
    assert b"claimed" in named.image
    assert b"claimed" not in drawn(wanted, "p").image  # type: ignore[union-attr]


def test_bars_are_as_long_as_their_numbers() -> None:
    table = pd.DataFrame(
        {"label": ["a", "a", "b"], "series": ["one", "two", "one"], "value": [0.25, 0.5, 1.0]}
    )
    figure, axis = plt.subplots()
    _bars(axis, table, table)
    bars = axis.patches
    assert [bar.get_width() for bar in bars] == [0.25, 1.0, 0.5]
    # Those of one label stand side by side, the first series on top.
    assert bars[0].get_y() < bars[2].get_y() < bars[1].get_y()
    assert [text.get_text() for text in axis.get_yticklabels()] == ["a", "b"]
    plt.close(figure)
    picture = drawn(PictureData("bars", "Lengths", "", table, "share", "concept"), "p")
    assert picture is not None
    assert picture.alt.startswith("Lengths, bars along share: one")
