"""Duplicates of logic grids: steps, checks, planted faults, and the commands."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescontam.duplicates.grid_texts import read_grid
from bayescontam.duplicates.grids import Grid, shuffle
from bayescontam.duplicates.kinds import LogicGrids
from bayescontam.duplicates.make import check_duplicates, make_duplicates
from bayescontam.duplicates.new import new_items
from bayescontam.errors import DataError, UsageError
from tests.support.json_lines import write_rows
from tests.support.zebra_puzzles import SOLUTION, ZEBRA


@pytest.fixture
def grids(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "grids.jsonl", new_items(6, houses=3, categories=3, seed=1))


def test_every_chain_of_every_puzzle_is_verified(tmp_path: Path) -> None:
    """75 puzzles of 2 to 6 houses, all chains."""
    rows = []
    for houses in (2, 3, 4, 5, 6):
        rows += new_items(15, houses=houses, categories=3, seed=2)
    made = make_duplicates(write_rows(tmp_path / "all.jsonl", rows), seed=1)
    assert made.failures.empty
    assert len(made.rows) == 7 * 75
    assert all(row["checks"] == ["unique solution", "clues", "values"] for row in made.rows)


def test_rows_have_what_they_need(grids: Path) -> None:
    made = make_duplicates(grids, copies=2, seed=5)
    assert list(made.rows[0]) == [
        "benchmark", "recipe", "item", "duplicate", "kind", "level", "steps", "parent_sha256",
        "checks", "text_mode", "text", "answer",
    ]  # fmt: skip
    names = [row["duplicate"] for row in made.rows]
    assert len({*names}) == len(names) == 6 * 7 * 2
    both = [row for row in made.rows if row["level"] == "shuffle+substitute"]
    assert [step["step"] for step in both[0]["steps"]] == ["shuffle", "substitute"]
    assert len({row["text"] for row in made.rows}) == len(names)


def test_the_same_seed_makes_the_same(grids: Path) -> None:
    one, same, other = (make_duplicates(grids, seed=seed).rows for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_an_item_has_its_duplicates_whatever_others_are_there(grids: Path, tmp_path: Path) -> None:
    alone = tmp_path / "grids-1" / "grids.jsonl"
    alone.parent.mkdir()
    alone.write_text(grids.read_text().splitlines()[3] + "\n")
    [item] = {row["item"] for row in make_duplicates(alone).rows}
    among = [row for row in make_duplicates(grids).rows if row["item"] == item]
    assert among == make_duplicates(alone).rows


def test_shuffled_clues_are_those_of_the_item_in_its_own_words(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "z.jsonl", [{"id": "a", "puzzle": ZEBRA, "solution": SOLUTION}])
    [row] = make_duplicates(path, chains=["shuffle"]).rows
    lines, before = row["text"].splitlines(), ZEBRA.splitlines()
    assert lines[:6] == before[:6]
    assert [line[:3] for line in lines[6:]] == [f"{at}. " for at in range(1, 7)]
    assert {line[3:] for line in lines[6:]} == {line[3:] for line in before[6:]}
    assert lines[6:] != before[6:]
    assert row["answer"] == SOLUTION


def test_substitutes_replace_every_value_and_map_the_answer(tmp_path: Path) -> None:
    record = {"id": "a", "puzzle": ZEBRA, "solution": json.dumps(SOLUTION)}
    [row] = make_duplicates(write_rows(tmp_path / "z.jsonl", [record]), chains=["substitute"]).rows
    for values in SOLUTION["rows"]:
        assert not any(value in row["text"].lower() for value in values[1:])
    grid, old = read_grid(row["text"], row["answer"]), read_grid(ZEBRA, SOLUTION)
    np.testing.assert_array_equal(grid.house, old.house)
    assert [(c.relation, c.a, c.b) for c in grid.clues] == [
        (c.relation, c.a, c.b) for c in old.clues
    ]


FAULTS: dict[str, tuple[Callable[[str, dict[str, Any]], tuple[str, dict[str, Any]]], str]] = {
    "a clue is dropped": (
        lambda text, answer: (text.rpartition("\n")[0], answer), "clues are not those"
    ),
    "a clue is turned round": (
        lambda text, answer: (text.replace("## Clues:\n", "## Clues:\n9. {0} is {1}.\n", 1).format(
            answer["rows"][0][1], answer["rows"][1][2]), answer), "clues are not those"
    ),
    "a value is mapped twice": (
        lambda text, answer: (text.replace(answer["rows"][0][1], answer["rows"][1][1]), answer),
        "occurs twice",
    ),
    "the answer is not mapped": (
        lambda text, answer: (text, answer | {"rows": answer["rows"][::-1]}), "after mapping"
    ),
    "the answer is that of the item": (
        lambda text, answer: (text, SOLUTION), "each value in one house"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str, grids: Path, tmp_path: Path) -> None:
    spoil, reason = FAULTS[fault]
    rows = make_duplicates(grids, chains=["substitute"]).rows
    for row in rows[1:]:
        row["text"], row["answer"] = spoil(row["text"], row["answer"])
    found = check_duplicates(write_rows(tmp_path / "spoilt.jsonl", rows), grids)
    assert len(found.rows) == 1
    assert found.failures["count"].sum() == len(rows) - 1
    assert found.failures["reason"].str.contains(reason).all()


def test_a_faulty_step_is_counted_and_nothing_of_it_is_written(
    grids: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dropping(grid: Grid, rng: np.random.Generator) -> Grid:
        return replace(grid, clues=grid.clues[1:])

    monkeypatch.setitem(LogicGrids.plain, "shuffle", dropping)  # type: ignore[arg-type]
    made = make_duplicates(grids, chains=["shuffle", "substitute"])
    assert {row["level"] for row in made.rows} == {"substitute"}
    assert made.failures["count"].tolist() == [6]
    assert made.failures["first"].tolist() == ["grid-3x3-0001/shuffle/1"]


def test_another_item_of_this_name_is_noticed(grids: Path, tmp_path: Path) -> None:
    rows = make_duplicates(grids, chains=["shuffle"]).rows
    others = write_rows(tmp_path / "others.jsonl", new_items(5, houses=3, categories=3, seed=2))
    found = check_duplicates(write_rows(tmp_path / "made.jsonl", rows), others)
    assert not found.rows
    assert dict(zip(found.failures["reason"], found.failures["count"], strict=True)) == {
        "its item has another text now": 5,
        "its item is not in the benchmark, or cannot be read": 1,
    }


def test_items_that_are_none_are_counted_by_reason(grids: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in grids.read_text().splitlines()]
    rows[1]["solution"], rows[2]["puzzle"] = "none", "Who owns the zebra?"
    del rows[4]["puzzle"]
    loose = read_grid(rows[5]["puzzle"], rows[5]["solution"])
    rows[5]["puzzle"] = replace(loose, clues=loose.clues[:-1]).text
    rows.append(rows[0])
    made = make_duplicates(write_rows(tmp_path / "odd.jsonl", rows), chains=["shuffle"])
    assert len(made.rows) == 2
    assert made.failures["count"].tolist() == [1, 1, 1, 1, 1]
    assert "another item has this name" in {*made.failures["reason"]}
    assert made.failures["reason"].str.contains("several").sum() == 1
    with pytest.raises(DataError, match="no item can be read by the recipe 'logic-grid'"):
        make_duplicates(write_rows(tmp_path / "none.jsonl", rows[1:3]))


@pytest.mark.parametrize("chain", ["", "shuffle+shuffle", "substitute+shuffle", "mix"])
def test_chains_are_steps_in_order(grids: Path, chain: str) -> None:
    with pytest.raises(UsageError, match="allowed are steps joined by"):
        make_duplicates(grids, chains=[chain])


def test_a_step_of_a_model_needs_an_endpoint(grids: Path) -> None:
    with pytest.raises(UsageError, match="steps paraphrase: a language model does them"):
        make_duplicates(grids, chains=["paraphrase"])


def test_a_run_that_is_cut_off_goes_on_to_the_same_rows(
    grids: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut after 10 of 42 units, and within a line; nothing that was finished is made again."""
    whole, part, calls = make_duplicates(grids, seed=3), tmp_path / "made.part", list[str]()
    assert make_duplicates(grids, seed=3, resume=part).rows == whole.rows
    lines = part.read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 6 * 7
    part.write_text("".join(lines[:11]) + lines[11][:30])

    def counting(grid: Grid, rng: np.random.Generator) -> Grid:
        calls.append("shuffle")
        return shuffle(grid, rng)

    monkeypatch.setitem(LogicGrids.plain, "shuffle", counting)  # type: ignore[arg-type]
    again = make_duplicates(grids, seed=3, resume=part)
    assert again.rows == whole.rows
    assert again.notes == ["10 of 42 were finished before"]
    assert 0 < len(calls) < 6 * 4
    assert part.read_text().splitlines(keepends=True) == lines
    calls.clear()
    assert make_duplicates(grids, seed=4, resume=part).rows != whole.rows  # other work: afresh
    assert len(calls) == 6 * 4


def test_rewording_changes_every_sentence_and_no_relation(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "z.jsonl", [{"id": "a", "puzzle": ZEBRA, "solution": SOLUTION}])
    [row] = make_duplicates(path, chains=["reword"]).rows
    lines, before = row["text"].splitlines(), ZEBRA.splitlines()
    assert not {*lines[5:]} & {*before[5:]}
    assert row["text"].splitlines()[0] != before[0]
    assert row["answer"] == SOLUTION
    assert "6. Between Peter and Arnold is one house." in lines


def test_another_number_of_records_than_is_known_is_noted(grids: Path) -> None:
    made = make_duplicates(grids, "zebralogic", chains=["shuffle"], first=2)
    assert made.notes == ["grids.jsonl: has 6 records; zebralogic is known to have 1,000"]
    assert {row["item"] for row in made.rows} == {"grid-3x3-0001", "grid-3x3-0002"}


def test_copies_differ_or_are_counted(tmp_path: Path) -> None:
    """A puzzle of three clues has five other orders."""
    items = new_items(40, houses=2, categories=3, seed=1)
    few = [item for item in items if item["puzzle"].count("\n") == 3 + 1 + 3][:2]
    path = write_rows(tmp_path / "g.jsonl", few)
    made = make_duplicates(path, chains=["shuffle", "shuffle"], copies=8)
    assert len(made.rows) == len({row["text"] for row in made.rows}) == 2 * 5
    assert made.failures["reason"].tolist() == ["it is the same as an earlier copy"]
    assert made.failures["count"].tolist() == [2 * 3]


def test_repeated_rows_are_found(grids: Path, tmp_path: Path) -> None:
    rows = make_duplicates(grids, chains=["shuffle"]).rows
    twice = [rows[0], rows[0], {**rows[1]}, {**rows[1], "duplicate": "other"}]
    found = check_duplicates(write_rows(tmp_path / "d.jsonl", twice), grids)
    assert len(found.rows) == 2
    assert {*found.failures["reason"]} == {
        "another duplicate has this name", "it is the same as an earlier copy"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no duplicate"),
        ('[{"id": 1},', "d.jsonl: .*list"),
        ('{"item": {"a": 1}}', "row 1: item: got"),
        (
            '{"item": "a", "duplicate": "a", "level": ["x"], "text": "t", "checks": []}',
            "level: got",
        ),
        (
            '{"item": "a", "duplicate": "a", "level": "x", "text": "t", "checks": null}',
            "checks: got",
        ),
        (
            '{"item": "a", "duplicate": "a", "level": "x", "text": "t", "checks": [],'
            ' "text_mode": "both"}',
            "text_mode: allowed are",
        ),
    ],
)
def test_what_holds_no_duplicates_is_refused(
    grids: Path, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "d.jsonl").write_text(content)
    with pytest.raises(DataError, match=message):
        check_duplicates(tmp_path / "d.jsonl", grids, "logic-grid")


def test_records_of_other_types_are_counted(grids: Path, tmp_path: Path) -> None:
    records = [json.loads(line) for line in grids.read_text().splitlines()]
    records[0]["solution"] = {"header": None, "rows": 5}
    records[1]["puzzle"] = 5
    made = make_duplicates(write_rows(tmp_path / "odd.jsonl", records), chains=["shuffle"])
    assert len(made.rows) == 4
    assert made.failures["what"].eq("item").all()


def test_a_compressed_benchmark_has_its_name(grids: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed" / "grids.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(grids.read_bytes()))
    assert make_duplicates(packed).rows == make_duplicates(grids).rows
