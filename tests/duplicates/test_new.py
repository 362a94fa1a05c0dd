"""New items of every kind: different, the same by seed, and items of their recipe."""

from pathlib import Path

import pytest

from bayescontam.duplicates import programs
from bayescontam.duplicates.make import make_duplicates
from bayescontam.duplicates.new import NewKind, new_items
from bayescontam.errors import UsageError
from tests.support.json_lines import write_rows
from tests.support.sandboxed import sandbox  # noqa: F401

KINDS: dict[NewKind, str] = {
    "logic-grid": "logic-grid", "murder-mystery": "story", "team-allocation": "story",
    "program": "code",
}  # fmt: skip
"""Kinds, and the recipe that makes duplicates of them."""


@pytest.mark.parametrize("kind", [*KINDS, "word-problem"])
def test_items_differ_and_depend_on_the_seed(kind: NewKind) -> None:
    one, same, other = (new_items(8, kind, houses=3, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    texts = {str(item.get("puzzle", item.get("text"))) for item in one + other}
    assert len(texts) == 16
    assert one[:3] == new_items(3, kind, houses=3, seed=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("sandbox")
def test_duplicates_can_be_made_of_them(kind: NewKind, tmp_path: Path) -> None:
    items = new_items(5, kind, houses=3, categories=3)
    made = make_duplicates(write_rows(tmp_path / "new.jsonl", items), KINDS[kind])
    names = {str(item.get("id", item.get("task_id"))) for item in items}
    assert {row["item"] for row in made.rows} == names
    assert {*made.failures["reason"]} <= {"it has no functions to reorder"}


@pytest.mark.parametrize(
    ("count", "kind", "options", "message"),
    [
        (0, "program", {}, "items: got 0"),
        (1, "riddle", {}, "kind: got 'riddle'; allowed is one of logic-grid"),
        (1, "logic-grid", {"houses": 9}, "got 9 houses"),
        (1, "word-problem", {"steps": 7}, "steps"),
    ],
)
def test_what_there_is_not_is_refused(
    count: int, kind: NewKind, options: dict[str, int], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        new_items(count, kind, **options)  # type: ignore[arg-type]


def test_an_item_is_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "new_task", lambda rng: {"text": str(rng.integers(3))})
    assert [item["task_id"] for item in new_items(3, "program")] == [
        "program-0001", "program-0002", "program-0003"
    ]  # fmt: skip
    with pytest.raises(UsageError, match="items: got 4; there are not so many different ones"):
        new_items(4, "program")
