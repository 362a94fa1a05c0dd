"""Mixes of a base are the same but at the places of duplicates, of which the truth is known."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.covariates import Covariates
from bayescontam.errors import UsageError
from bayescontam.lab.mix import Mixed, make_mixes
from bayescontam.specs.lab import LabSpec

SPEC = """
summary = "Five mixes of two bases."
seed = 4
texts = 300
items = 21
controls = 12
exposed = 0.4
mixes = [
    { name = "clean", kind = "clean" },
    { name = "exact-2", kind = "exact", copies = 2 },
    { name = "exact-5", kind = "exact", copies = 5 },
    { name = "semantic-2", kind = "semantic", copies = 2 },
    { name = "semantic-10", kind = "semantic", copies = 10 },
]
[training]
bases = 2
"""
MIXES = {"clean": 0, "exact-2": 2, "exact-5": 5, "semantic-2": 2, "semantic-10": 10}
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
    others = {"items.jsonl", "covariates.csv", "lab.toml", "lab.json"}
    assert {*content(mixed.folder)} == texts | others
    assert {*mixed.texts} == {(base, name) for base in BASES for name in MIXES}
    assert (mixed.folder / "lab.toml").read_text(encoding="utf-8") == SPEC
    record = json.loads(mixed.record.read_text(encoding="utf-8"))
    assert record["spec"] == LabSpec.parse(SPEC, "other.toml").hash
    assert record["items"] == {"seen": SEEN, "unseen": 13, "control": 12}
    assert record["duplicates"] == {name: copies * SEEN for name, copies in MIXES.items()}


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
        counts = Counter(places(rows).values())
        assert counts == (dict.fromkeys(seen, MIXES[name]) if MIXES[name] else {})
        assert {row["kind"] for row in rows} <= {"background", name.split("-")[0]}


def test_smaller_doses_have_places_of_larger_ones(texts: Any) -> None:
    for base in BASES:
        held = [places(texts[base, name]) for name in MIXES]
        clean, exact_2, exact_5, semantic_2, semantic_10 = (set(each.items()) for each in held)
        assert clean < exact_2 == semantic_2 < exact_5 < semantic_10
    assert places(texts[0, "exact-2"]).keys() != places(texts[1, "exact-2"]).keys()


def test_duplicates_are_of_their_kind(texts: Any, listed: Any) -> None:
    for (_, name), rows in texts.items():
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


def test_no_item_of_any_half_is_in_the_background(tmp_path: Path) -> None:
    """With so many items, hundreds of texts would be about one if none were excluded."""
    spec = LabSpec.parse(
        """
        summary = "All background is in the benchmarks' own form."
        texts = 2000
        items = 10_000
        controls = 1000
        exposed = 0.01
        own_share = 1.0
        control_share = 0.5
        mixes = [{ name = "clean", kind = "clean" }]
        training = { bases = 2 }
        """,
        "many.toml",
    )
    made = make_mixes(spec, tmp_path / "out")
    own = {row["text"] for row in lines(made.items)}
    clean = [[row["text"] for row in lines(made.texts[base, "clean"])] for base in BASES]
    for texts in clean:
        questions = {text.partition("Answer :")[0] + "Answer :" for text in texts}
        assert len(questions) > 1000
        assert not questions & own
    assert clean[0] != clean[1]


def test_covariates_are_the_counts_in_the_texts(mixed: Mixed, texts: Any, listed: Any) -> None:
    table = mixed.covariates
    columns = ["mix", "benchmark", "item", "contamination", "copies", "kind", "half"]
    assert [*table] == columns
    assert len(table) == len(MIXES) * (21 + 12)
    for row in table.itertuples():
        counted = sum(each["item"] == row.item for each in texts[1, row.mix])
        kind = str(row.mix).split("-")[0] if counted else "clean"
        assert (row.copies, row.contamination, row.kind) == (counted, float(counted > 0), kind)
        assert row.half == listed[row.item]["half"]
        assert row.benchmark == ("clock" if row.half == "control" else "arithmetic")
    pd.testing.assert_frame_equal(pd.read_csv(mixed.folder / "covariates.csv"), table)
    Covariates.from_frame(table[table["mix"] == "exact-5"])


def test_the_same_spec_gives_the_same_bytes(mixed: Mixed, tmp_path: Path) -> None:
    spec = LabSpec.parse(SPEC, "mine.toml")
    assert content(make_mixes(spec, tmp_path / "again").folder) == content(mixed.folder)
    (tmp_path / "again" / "texts" / "base-1" / "clean.jsonl").unlink()
    assert content(make_mixes(spec, tmp_path / "again").folder) == content(mixed.folder)
    other = make_mixes(LabSpec.parse(SPEC.replace("seed = 4", "seed = 5"), "a.toml"), tmp_path)
    assert other.items.read_bytes() != mixed.items.read_bytes()


def test_another_mix_or_base_moves_no_text(mixed: Mixed, tmp_path: Path) -> None:
    changed = SPEC.replace("bases = 2", "bases = 3").replace("copies = 10", "copies = 3")
    more = make_mixes(LabSpec.parse(changed, "mine.toml"), tmp_path / "out")
    for base in BASES:
        for name in ("clean", "exact-2", "exact-5", "semantic-2"):
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
    with pytest.raises(UsageError, match="file: cannot be made"):
        make_mixes(other, tmp_path / "file")


def test_a_spec_that_is_not_its_text_is_refused(tmp_path: Path) -> None:
    spec = LabSpec.parse(SPEC, "mine.toml")
    for changed in (spec.model_copy(update={"seed": 9}), LabSpec(**spec.model_dump())):
        with pytest.raises(UsageError, match="its values are not those of its text; make it with"):
            make_mixes(changed, tmp_path / "out")
    assert not (tmp_path / "out").exists()
