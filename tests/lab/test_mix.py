"""Mixes of a base are the same but at the places of duplicates, of which the truth is known."""

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam._runs import claimed_folder
from bayescontam.data.covariates import Covariates
from bayescontam.errors import UsageError
from bayescontam.lab.mix import Mixed, make_mixes
from bayescontam.specs.lab import LabSpec

SPEC = """
summary = "Six mixes of two bases."
seed = 4
texts = 300
exposed = 0.4
arithmetic = { items = 21, controls = 12, question_share = 0.3 }
pretraining = { texts = 90 }
mixes = [
    { name = "clean", kind = "clean" },
    { name = "exact-2", kind = "exact", copies = 2 },
    { name = "exact-5", kind = "exact", copies = 5 },
    { name = "semantic-2", kind = "semantic", copies = 2 },
    { name = "semantic-10", kind = "semantic", copies = 10 },
    { name = "near-3", kind = "near", copies = 3 },
]
[training]
bases = 2
"""
MIXES = {
    "clean": 0, "exact-2": 2, "exact-5": 5, "semantic-2": 2, "semantic-10": 10, "near-3": 3,
}  # fmt: skip
SEEN = 8
BASES = (0, 1)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def content(folder: Path) -> dict[str, bytes]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    return make_mixes(LabSpec.parse(SPEC, "mine.toml"), tmp_path_factory.mktemp("lab") / "out")


@pytest.fixture(scope="module")
def texts(mixed: Mixed) -> dict[tuple[int, str], list[dict[str, Any]]]:
    return {key: lines(path) for key, path in mixed.texts.items()}


@pytest.fixture(scope="module")
def listed(mixed: Mixed) -> dict[str, dict[str, Any]]:
    return {row["item"]: row for row in lines(mixed.items)}


def places(rows: list[dict[str, Any]]) -> dict[int, str]:
    return {at: row["item"] for at, row in enumerate(rows) if row["kind"] != "background"}


def test_the_files_are_those_stated(mixed: Mixed) -> None:
    texts = {f"texts/base-{base}/{name}.jsonl" for base in BASES for name in MIXES}
    texts |= {"texts/base-0/base.jsonl", "texts/base-1/base.jsonl"}
    others = {"items.jsonl", "covariates.csv", "lab.toml", "lab.json", ".lock"}
    assert {*content(mixed.folder)} == texts | others
    assert {*mixed.texts} == {(base, name) for base in BASES for name in (*MIXES, "base")}
    assert (mixed.folder / "lab.toml").read_text(encoding="utf-8") == SPEC
    record = json.loads(mixed.record.read_text(encoding="utf-8"))
    assert record["spec"] == LabSpec.parse(SPEC, "other.toml").hash
    assert record["items"] == {"seen": SEEN, "unseen": 13, "control": 12}
    counts = {name: copies * SEEN for name, copies in MIXES.items()}
    assert record["duplicates"] == counts | {"near-3": 0}
    assert record["near"] == dict.fromkeys(MIXES, 0) | {"near-3": 3 * SEEN}
    assert (record["texts"], record["pretraining"], record["bases"]) == (300, 90, 2)


def test_mixes_differ_at_the_places_of_duplicates_only(texts: Any) -> None:
    for base in BASES:
        clean = texts[base, "clean"]
        assert len(clean) == 300
        assert {(row["kind"], row["item"]) for row in clean} == {("background", None)}
        for name in MIXES:
            rows = texts[base, name]
            held = places(rows)
            assert [row["id"] for row in rows] == [row["id"] for row in clean]
            assert all(rows[at] == clean[at] for at in range(300) if at not in held)
            assert all(rows[at]["text"] != clean[at]["text"] for at in held)


def test_every_exposed_item_has_its_copies(texts: Any, listed: Any) -> None:
    seen = {name for name, row in listed.items() if row["half"] == "seen"}
    assert len(seen) == SEEN
    for (_, name), rows in texts.items():
        if name == "base":
            continue
        counts = Counter(places(rows).values())
        assert counts == (dict.fromkeys(seen, MIXES[name]) if MIXES[name] else {})
        assert {row["kind"] for row in rows} <= {"background", name.split("-")[0]}


def test_smaller_doses_have_places_of_larger_ones(texts: Any) -> None:
    for base in BASES:
        held = {name: {*places(texts[base, name]).items()} for name in MIXES}
        assert held["clean"] < held["exact-2"] == held["semantic-2"] < held["near-3"]
        assert held["near-3"] < held["exact-5"] < held["semantic-10"]
    assert places(texts[0, "exact-2"]).keys() != places(texts[1, "exact-2"]).keys()


def test_duplicates_are_of_their_kind(texts: Any, listed: Any) -> None:
    for (_, name), rows in texts.items():
        if name.startswith("near"):
            continue
        wordings: dict[str, Counter[str]] = {item: Counter() for item in listed}
        for at, item in places(rows).items():
            question, answer = listed[item]["text"], listed[item]["answer"]
            text = rows[at]["text"]
            wordings[item][text] += 1
            assert text.endswith(f" Answer : {answer} .")
            assert (text == f"{question} {answer} .") is name.startswith("exact")
            numbers = [word for word in text.split() if word.isdigit()]
            known = [word for word in question.split() if word.isdigit()]
            assert sorted(numbers) == sorted([*known, answer])
        if name == "semantic-10":  # eight wordings, of which two are there twice
            for item in {*places(rows).values()}:
                assert sorted(wordings[item].values()) == [1] * 6 + [2] * 2


def test_near_texts_are_like_their_items_and_about_others(texts: Any, listed: Any) -> None:
    for base in BASES:
        rows = texts[base, "near-3"]
        near = [(listed[item], rows[at]["text"]) for at, item in places(rows).items()]
        assert len({text for _, text in near}) == 3 * SEEN
        known = {frozenset(row["text"].split()) for row in listed.values()}
        assert not known & {frozenset(text.split()) for _, text in near}
        shared = [len({*item["text"].split()} & {*text.split()}) for item, text in near]
        clean = [row["text"] for row in texts[base, "clean"]]
        others = [len({*item["text"].split()} & {*text.split()}) for item, _ in near
                  for text in clean]  # fmt: skip
        assert np.mean(shared) > np.mean(others) + 5
    held = [sorted(row["text"] for row in texts[base, "near-3"] if row["item"]) for base in BASES]
    assert held[0] == held[1]


def test_further_clean_mixes_have_background_of_their_own(tmp_path: Path) -> None:
    spec = SPEC.replace("mixes = [", 'mixes = [\n    { name = "again", kind = "clean" },')
    found = make_mixes(LabSpec.parse(spec, "mine.toml"), tmp_path / "out")
    made = {key: lines(path) for key, path in found.texts.items()}
    for base in BASES:
        twin, other = ([row["text"] for row in made[base, name]] for name in ("again", "clean"))
        assert len(twin) == len(other) == 300
        assert sum(one == two for one, two in zip(twin, other, strict=True)) < 30
        rows = made[base, "exact-5"]  # the first clean mix is the twin
        assert all(row["item"] or row["text"] == twin[at] for at, row in enumerate(rows))


def test_a_folder_in_use_is_refused(mixed: Mixed, tmp_path: Path) -> None:
    spec = LabSpec.parse(SPEC, "mine.toml")
    with (
        claimed_folder(mixed.folder, "mix", "lab", lambda: True),
        pytest.raises(UsageError, match="out: another mix works in this folder; wait for it"),
    ):
        make_mixes(spec, mixed.folder)
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="holds files, and no lab; --out needs a new or empty"):
        make_mixes(spec, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_half_written_files_are_removed(mixed: Mixed) -> None:
    """As a kill leaves them."""
    left = mixed.folder / "texts" / "base-0" / ".clean.jsonl.abcdefgh.part"
    left.write_text("{", encoding="utf-8")
    before = content(mixed.folder)
    again = make_mixes(LabSpec.parse(SPEC, "mine.toml"), mixed.folder)
    assert content(again.folder) == {
        name: data for name, data in before.items() if not name.endswith(".part")
    }


def test_no_item_of_any_half_is_in_the_background(tmp_path: Path) -> None:
    """With so many items, hundreds of texts would be about one if none were excluded."""
    spec = LabSpec.parse(
        """
        summary = "All background is in the benchmarks' own form."
        texts = 2000
        exposed = 0.01
        mixes = [{ name = "clean", kind = "clean" }]
        training = { bases = 2 }
        pretraining = { texts = 2000 }
        [arithmetic]
        items = 10_000
        controls = 1000
        own_share = 1.0
        control_share = 0.5
        """,
        "many.toml",
    )
    made = make_mixes(spec, tmp_path / "out")
    own = {row["text"] for row in lines(made.items)}
    clean = [
        [row["text"] for row in lines(made.texts[base, name])]
        for base in BASES
        for name in ("clean", "base")
    ]
    for texts in clean:
        questions = {text.partition("Answer :")[0] + "Answer :" for text in texts}
        assert len(questions) > 1000
        assert not questions & own
    for one, other in combinations(clean, 2):
        assert len({*one} & {*other}) < 400  # drawn anew each time, of few thousand problems


def test_covariates_are_the_counts_in_the_texts(mixed: Mixed, texts: Any, listed: Any) -> None:
    table = mixed.covariates
    columns = ["mix", "benchmark", "item", "contamination", "copies", "kind", "half", "near"]
    assert [*table] == columns
    assert len(table) == len(MIXES) * (21 + 12)
    for row in table.itertuples():
        counted = sum(each["item"] == row.item for each in texts[1, row.mix])
        kind = str(row.mix).split("-")[0] if counted else "clean"
        if kind == "near":
            assert (row.copies, row.contamination, row.kind, row.near) == (0, 0.0, "clean", 3)
            continue
        expected = (counted, float(counted > 0), kind, 0)
        assert (row.copies, row.contamination, row.kind, row.near) == expected
        assert row.half == listed[row.item]["half"]
        assert row.benchmark == str(row.item).split("-")[0]
        assert (row.benchmark == "clock") == (row.half == "control")
    pd.testing.assert_frame_equal(pd.read_csv(mixed.folder / "covariates.csv"), table)
    Covariates.from_frame(table[table["mix"] == "exact-5"])


def test_the_same_spec_gives_the_same_bytes(mixed: Mixed, tmp_path: Path) -> None:
    spec = LabSpec.parse(SPEC, "mine.toml")
    assert content(make_mixes(spec, tmp_path / "again").folder) == content(mixed.folder)
    (tmp_path / "again" / "texts" / "base-1" / "clean.jsonl").unlink()
    assert content(make_mixes(spec, tmp_path / "again").folder) == content(mixed.folder)
    changed = LabSpec.parse(SPEC.replace("seed = 4", "seed = 5"), "a.toml")
    other = make_mixes(changed, tmp_path / "other")
    assert other.items.read_bytes() != mixed.items.read_bytes()


def test_a_lab_that_is_mixed_again_stays_as_it_is(tmp_path: Path) -> None:
    spec = LabSpec.parse(SPEC, "mine.toml")
    made = make_mixes(spec, tmp_path)
    times = {path: path.stat().st_mtime_ns for path in made.texts.values()}
    text = made.texts[0, "clean"]
    (tmp_path / "models").mkdir()
    assert content(make_mixes(spec, tmp_path).folder) == content(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    text.write_text(text.read_text().replace("Question", "Task"))
    with pytest.raises(UsageError, match=r"clean\.jsonl: its models were trained on other texts"):
        make_mixes(spec, tmp_path)


def test_another_mix_or_base_moves_no_text(mixed: Mixed, tmp_path: Path) -> None:
    changed = SPEC.replace("bases = 2", "bases = 3").replace("copies = 10", "copies = 6")
    more = make_mixes(LabSpec.parse(changed, "mine.toml"), tmp_path / "out")
    for base in BASES:
        for name in MIXES.keys() - {"semantic-10"} | {"base"}:
            assert more.texts[base, name].read_bytes() == mixed.texts[base, name].read_bytes()
    assert more.items.read_bytes() == mixed.items.read_bytes()


def test_exposure_is_by_chance(listed: Any) -> None:
    seen = [at for at, row in enumerate(listed.values()) if row["half"] == "seen"]
    assert seen != [*range(SEEN)]
    assert np.max(seen) < 21


def test_the_folder_of_another_spec_is_refused(mixed: Mixed, tmp_path: Path) -> None:
    before = content(mixed.folder)
    other = LabSpec.parse(SPEC.replace("texts = 300", "texts = 301"), "mine.toml")
    with pytest.raises(UsageError, match=r"out: holds the texts of another spec \(lab\.toml\)"):
        make_mixes(other, mixed.folder)
    assert content(mixed.folder) == before
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="file: is a file; --out needs a folder"):
        make_mixes(other, tmp_path / "file")


def test_an_edited_spec_does_not_pass_for_that_of_the_folder(tmp_path: Path) -> None:
    """Its models would be trained by two specs."""
    made = make_mixes(LabSpec.parse(SPEC, "mine.toml"), tmp_path / "out")
    edited = LabSpec.parse(SPEC.replace("bases = 2", "bases = 2\nepochs = 3"), "mine.toml")
    (made.folder / "lab.toml").write_text(edited.text, encoding="utf-8")
    before = content(made.folder)
    with pytest.raises(UsageError, match=r"its lab\.toml was changed after the texts were made \("):
        make_mixes(edited, made.folder)
    assert content(made.folder) == before


def test_a_spec_that_is_not_its_text_is_refused(tmp_path: Path) -> None:
    spec = LabSpec.parse(SPEC, "mine.toml")
    for changed in (spec.model_copy(update={"seed": 9}), LabSpec(**spec.model_dump())):
        with pytest.raises(UsageError, match="its values are not those of its text; make it with"):
            make_mixes(changed, tmp_path / "out")
    assert not (tmp_path / "out").exists()
