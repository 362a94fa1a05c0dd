"""The page of duplicates: what they share with their items, and what of long texts is shown."""

from pathlib import Path

import pytest

from bayescontam.report.duplicates_page import summarise_duplicates, write_duplicates_page


def row(text: str, item: str = "a") -> dict[str, object]:
    return {
        "item": item, "duplicate": f"{item}-1", "level": "wrap", "text": text, "answer": "1",
        "checks": ["answer"],
    }  # fmt: skip


def shared(item: str, duplicate: str) -> float:
    return float(summarise_duplicates([row(duplicate)], {"a": item})["same_words"].iloc[0])


def test_shared_words_are_those_of_the_item() -> None:
    item = " ".join(f"w{k}" for k in range(10))
    assert shared(item, f"{item} {' '.join(f'x{k}' for k in range(30))}") == 1
    assert shared(item, " ".join(reversed(item.split()))) == 1
    assert shared("a a b", "a b") == pytest.approx(2 / 3)
    assert shared("a b", "c d") == 0


def test_long_texts_are_compared_whole_and_cut_with_a_note(tmp_path: Path) -> None:
    start = "word " * 1500
    item, duplicate = start + "the end is red " * 300, start + "quite other things happen " * 300
    assert shared(item, duplicate) == pytest.approx(1500 / 2700)
    page = tmp_path / "page.html"
    write_duplicates_page([row(duplicate)], {"a": item}, page, "long")
    text = page.read_text()
    assert text.count("more characters)") == 2
    assert f"… ({len(item) - 6000:,} more characters)" in text
    assert "have 55.6 % or more of their item&#39;s words" in text
    write_duplicates_page([row("short")], {}, page, "short")
    assert "more characters" not in page.read_text()
