"""The script of tables, on small pages made for it."""

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from bayescontam.report.html import script

pytestmark = pytest.mark.browser
NAMES = ["model-10", "Model-2", "<b>&\"quoted'</b>", "модель", "model-1"]
VALUES = ["0.5", "", "-2", "1e-05", "0.5"]
PLAIN = """<div class="scroll"><table class="sortable">
<thead><tr><th data-choose>Name</th><th class="n" colspan="2">Value</th><th>Note</th></tr></thead>
<tbody>{rows}</tbody></table></div>"""
GROUPED = """<table class="sortable" data-group="Benchmark">
<thead><tr><th data-choose rowspan="2">Model</th><th colspan="2">Two</th></tr>
<tr><th class="n">low</th><th class="n">high</th></tr></thead>
{bodies}</table>"""


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def row(*cells: str) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def number(value: str) -> str:
    return f'<td class="n" data-v="{value}">{value or "–"}</td>'


def open_page(browser: Any, folder: Path, body: str) -> Any:
    path = folder / "page.html"
    page = f"<!DOCTYPE html><title>kept</title>{body}<script>{script().text}</script>"
    path.write_text(page, encoding="utf-8")
    browser.get_log("browser")
    browser.get(path.as_uri())
    return browser


@pytest.fixture
def plain(browser: Any, tmp_path: Path) -> Any:
    rows = [
        row(f"<td>{escaped(name)}</td>", number(value), "<td>[…]</td>", f"<td>note {i % 2}</td>")
        for i, (name, value) in enumerate(zip(NAMES, VALUES, strict=True))
    ]
    return open_page(browser, tmp_path, PLAIN.format(rows="".join(rows * 3)))


@pytest.fixture
def grouped(browser: Any, tmp_path: Path) -> Any:
    bodies = "".join(
        f'<tbody><tr class="group"><th colspan="3">{name}</th></tr>'
        + "".join(row(f"<td>m{i}</td>", number(str((i * k) % 4)), number(str(i))) for i in range(7))
        + "</tbody>"
        for k, name in ((3, "b &amp; <i>one</i>"), (5, "two"))
    )
    return open_page(browser, tmp_path, GROUPED.format(bodies=bodies))


def column(page: Any, at: int) -> list[str]:
    """Return the text of a column, as the rows stand and are shown."""
    return list(
        page.execute_script(
            "return [...document.querySelectorAll('tbody tr:not(.group)')]"
            f".filter(r => !r.hidden).map(r => r.cells[{at}].textContent)"
        )
    )


def click(page: Any, title: str) -> None:
    page.find_element("css selector", f"button[aria-label='Sort by {title}']").click()


def sorting(page: Any) -> dict[str, str]:
    cells = page.find_elements("css selector", "th[aria-sort]")
    return {cell.text.split(" ")[0]: cell.get_attribute("aria-sort") for cell in cells}


def test_numbers_sort_by_value_with_none_last(plain: Any) -> None:
    wanted = ["-2", "1e-05", "0.5", "0.5"]
    click(plain, "Value")
    assert column(plain, 1) == [v for value in wanted for v in [value] * 3] + ["–"] * 3
    # Equal ones stay as they stood: model-10 before model-1, whichever way.
    assert column(plain, 0)[6:12] == ["model-10", "model-1"] * 3
    assert list(sorting(plain).values()) == ["ascending"]
    click(plain, "Value")
    assert column(plain, 1) == [v for value in wanted[:1:-1] for v in [value] * 3] + [
        "1e-05", "1e-05", "1e-05", "-2", "-2", "-2", "–", "–", "–",
    ]  # fmt: skip
    assert column(plain, 0)[:6] == ["model-10", "model-1"] * 3
    assert list(sorting(plain).values()) == ["descending"]


def test_texts_sort_as_people_count(plain: Any) -> None:
    click(plain, "Name")
    order = list(dict.fromkeys(column(plain, 0)))
    assert order == ["<b>&\"quoted'</b>", "model-1", "Model-2", "model-10", "модель"]
    click(plain, "Note")  # past a heading of two columns
    assert column(plain, 3) == sorted(column(plain, 3))


def test_filters_count_and_reset(plain: Any) -> None:
    before = column(plain, 0)
    reported = plain.find_element("css selector", ".tools output")
    field = plain.find_element("css selector", ".tools input")
    assert reported.text == "15 of 15 rows"
    field.send_keys("MODEL note\u00a01 -2")
    assert reported.text == "3 of 15 rows"
    assert set(column(plain, 0)) == {"Model-2"}
    field.clear()
    field.send_keys('"quoted')
    assert reported.text == "3 of 15 rows"
    click(plain, "Value")
    plain.find_element("css selector", ".tools button").click()
    assert (reported.text, field.get_attribute("value")) == ("15 of 15 rows", "")
    assert column(plain, 0) == before
    assert sorting(plain) == {}


def test_a_choice_is_one_whole_cell(plain: Any) -> None:
    selects = plain.find_elements("css selector", ".tools select")
    assert len(selects) == 1
    options = selects[0].find_elements("tag name", "option")
    assert options[0].text == "all"
    assert {option.text for option in options[1:]} == set(NAMES)
    next(option for option in options if option.text == "model-1").click()
    assert column(plain, 0) == ["model-1"] * 3  # and not model-10


def test_groups_are_named_where_rows_are_mixed_and_come_back(grouped: Any) -> None:
    before = column(grouped, 0)
    heads = grouped.find_elements("css selector", "tr.group")
    click(grouped, "Two, low")
    assert column(grouped, 2) == sorted(column(grouped, 2))
    assert set(column(grouped, 1)) == {"b & one", "two"}
    assert grouped.find_element("css selector", "table").get_attribute("class") == "sortable flat"
    grouped.find_element("css selector", ".tools button").click()
    assert column(grouped, 0) == before
    assert grouped.find_elements("css selector", "tr.group") == heads
    assert grouped.find_element("css selector", "table").get_attribute("class") == "sortable"


def test_a_group_without_rows_that_are_shown_is_hidden(grouped: Any) -> None:
    field = grouped.find_element("css selector", ".tools input")
    field.send_keys("two m3")
    assert grouped.find_element("css selector", ".tools output").text == "1 of 14 rows"
    first, second = grouped.find_elements("css selector", "tbody")[:2]
    assert not first.is_displayed()
    assert second.is_displayed()


def test_the_keyboard_is_enough(plain: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    plain.find_element("css selector", ".tools button").send_keys(Keys.TAB)
    assert plain.switch_to.active_element.get_attribute("aria-label") == "Sort by Name"
    plain.switch_to.active_element.send_keys(Keys.TAB)
    plain.switch_to.active_element.send_keys(Keys.ENTER)
    assert list(sorting(plain).values()) == ["ascending"]
    plain.switch_to.active_element.send_keys(Keys.SPACE)
    assert list(sorting(plain).values()) == ["descending"]


def test_small_tables_are_left_alone(browser: Any, tmp_path: Path) -> None:
    rows = [row("<td>a</td>", number("1"), "<td></td>", "<td></td>")] * 4
    page = open_page(browser, tmp_path, PLAIN.format(rows="".join(rows[:3])))
    assert not page.find_elements("css selector", "button, .tools")
    page = open_page(browser, tmp_path, PLAIN.format(rows="".join(rows)))
    assert len(page.find_elements("css selector", "thead button")) == 3
    assert not page.find_elements("css selector", ".tools")


def test_nothing_is_complained_of_and_no_name_is_markup(plain: Any) -> None:
    for title in ("Name", "Value", "Note"):
        click(plain, title)
    assert plain.get_log("browser") == []
    assert plain.title == "kept"
    assert not plain.find_elements("css selector", "td b, option b")


def test_the_policy_allows_this_script_and_no_other(browser: Any, tmp_path: Path) -> None:
    digest = base64.b64encode(hashlib.sha256(script().text.encode()).digest()).decode()
    assert script().source == f"sha256-{digest}"
    policy = f"default-src 'none'; script-src '{script().source}'"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    rows = row("<td>a</td>", number("1"), "<td></td>", "<td></td>") * 4
    body = f"{meta}<script>document.title = 'taken'</script>{PLAIN.format(rows=rows)}"
    page = open_page(browser, tmp_path, body)
    assert page.title == "kept"
    assert page.find_elements("css selector", "thead button")
    (refused,) = page.get_log("browser")
    assert "Content Security Policy" in refused["message"]
    assert not re.search(r"innerHTML|insertAdjacentHTML|eval|fetch|XMLHttp", script().text)
