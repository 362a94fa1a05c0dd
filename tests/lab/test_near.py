"""Near texts: the highest cosines, no text twice, and of a scan only what was judged to be none."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.judgements import PAIR, Judgements, write_judgements
from bayescontam.errors import DataError, UsageError
from bayescontam.lab.near import near_texts, nearest_texts
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.results import Scan
from bayescontam.specs.corpus import Embedding
from tests.support.small_corpus import scan, write_small

HASHING = Embedding(model="hashing")


def test_nearest_texts_are_those_of_a_search_by_hand() -> None:
    rng = np.random.default_rng(1)
    words = ["red", "blue", "fox", "whale", "big", "small", "runs", "swims", "old", "new"]
    texts = [" ".join(rng.choice(words, 6)) for _ in range(60)]
    questions, pool = texts[:5], texts[5:]
    embedder = load_embedder(HASHING)
    cosines = embedder.embed(questions, "query") @ embedder.embed(pool, "passage").T
    left, expected = {*range(len(pool))}, [[] for _ in questions]
    for _ in range(3):
        for row, own in zip(cosines, expected, strict=True):
            best = max(left, key=lambda at, row=row: (round(float(row[at]), 5), -at))
            left.remove(best)
            own.append(pool[best])
    found = nearest_texts(questions, pool, 3, HASHING)
    assert found == expected
    assert [own[:2] for own in found] == nearest_texts(questions, pool, 2, HASHING)
    every = nearest_texts(questions, pool, 11, HASHING)
    assert sorted(text for own in every for text in own) == sorted(pool)
    with pytest.raises(UsageError, match="near: 55 texts, and 5 items × 12 copies are needed"):
        nearest_texts(questions, pool, 12, HASHING)


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    folder = tmp_path_factory.mktemp("near")
    made = write_small(folder)
    return scan(made.manifest, folder / "scan")


@pytest.fixture(scope="module")
def table(scanned: Scan) -> pd.DataFrame:
    """All matches of one benchmark, judged by two: duplicates from a cosine of 0.8 for one."""
    matches = scanned.matches
    own = matches[matches["benchmark"] == matches["benchmark"].iloc[0]].drop_duplicates([*PAIR])
    high, low = ((own["cosine"] >= level).astype(int) for level in (0.8, 0.95))
    both = [own[[*PAIR]].assign(judge=name, is_duplicate=verdict)
            for name, verdict in (("Ada", high), ("Bo", low))]  # fmt: skip
    both[1].loc[both[1].index[:1], "is_duplicate"] = pd.NA
    return pd.concat(both, ignore_index=True)


def test_near_texts_are_the_nearest_that_nobody_called_a_duplicate(
    scanned: Scan, table: pd.DataFrame, tmp_path: Path
) -> None:
    name = table["benchmark"].iloc[0]
    write_judgements(tmp_path / "judged.csv", Judgements.from_frame(table))
    rows = near_texts(
        scanned.folder, tmp_path / "judged.csv", tmp_path / "near.jsonl", benchmark=name, copies=2
    )
    lines = (tmp_path / "near.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == rows
    matches = scanned.matches[scanned.matches["benchmark"] == name]
    duplicates = {*matches.loc[matches["cosine"] >= 0.8, "chunk_id"]}
    texts = dict(zip(scanned.texts["chunk_id"], scanned.texts["text"], strict=True))
    assert duplicates
    held = [row["text"] for row in rows]
    assert len({*held}) == len(held) > 12
    assert not {*held} & {texts[chunk] for chunk in duplicates}
    assert {row["kind"] for row in rows} == {"near"}
    assert all("no duplicate by" in row["checks"][0] for row in rows)
    first = {row["item"]: row for row in rows if row["duplicate"].endswith("/near/1")}
    free = matches[~matches["chunk_id"].isin(duplicates)]
    item = free.loc[free["cosine"].idxmax(), "item"]  # no other item can have taken its text
    assert first[item]["cosine"] == pytest.approx(free["cosine"].max(), abs=1e-6)
    few = near_texts(
        scanned, Judgements.from_frame(table), tmp_path / "few.jsonl", benchmark=name, items=[item]
    )
    assert [(row["item"], row["cosine"]) for row in few] == [(item, first[item]["cosine"])]


def test_faults_are_named(scanned: Scan, table: pd.DataFrame, tmp_path: Path) -> None:
    judged, out = Judgements.from_frame(table), tmp_path / "near.jsonl"
    name = table["benchmark"].iloc[0]
    with pytest.raises(UsageError, match="benchmark: none is named; the scan has 'b0', 'b1'"):
        near_texts(scanned, judged, out)
    with pytest.raises(UsageError, match="benchmark: got 'other'; the scan has"):
        near_texts(scanned, judged, out, benchmark="other")
    with pytest.raises(UsageError, match="in this scan has no 'x9'"):
        near_texts(scanned, judged, out, benchmark=name, items=["x9"])
    with pytest.raises(UsageError, match="copies: got 0; allowed is 1 or more"):
        near_texts(scanned, judged, out, benchmark=name, copies=0)
    alike = Judgements.from_frame(table.assign(is_duplicate=1))
    with pytest.raises(
        DataError, match=r"no text is judged to be no duplicate of an item of .*\nJ"
    ):
        near_texts(scanned, alike, out, benchmark=name)
    odd = Judgements.from_frame(
        table.assign(document="elsewhere").drop_duplicates([*PAIR, "judge"])
    )
    with pytest.raises(DataError, match="is no pair of this scan"):
        near_texts(scanned, odd, out, benchmark=name)
    assert not out.exists()
