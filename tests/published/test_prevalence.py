"""Prevalence done again: ranks of true duplicates, in all and in parts of the corpus."""

import lzma
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from bayescontam.data.published_tables import read_published
from bayescontam.evidence.curve import Curve
from bayescontam.evidence.pairs import scan_pairs
from bayescontam.published import study as running
from bayescontam.published.study import Study
from bayescontam.specs.registry import shipped_folder
from bayescontam.specs.study import ReproductionSpec
from studies.prevalence import (
    PAIR,
    ScanWithTruth,
    by_share,
    first_ranks,
    judged_items,
    judgements,
    named_after,
    with_truth,
)
from tests.support.made_evidence import make_scan, match

MATCHES = [
    match("a", 0.9, "good-a-1"), match("a", 0.8, "other"), match("a", 0.7, "good-a-2"),
    match("b", 0.9, "other"), match("b", 0.8, "good-a-1"), match("b", 0.6, "good-b-1"),
    match("c", 0.5, "other"), match("c", 0.4, "good-b-1"),
]  # fmt: skip


@pytest.fixture
def searched(tmp_path: Path) -> ScanWithTruth:
    scan = make_scan(tmp_path / "scan", MATCHES)
    return with_truth("quiz", scan, lambda item, document: document.startswith(f"good-{item}"))


@pytest.fixture
def study(tmp_path: Path) -> Study:
    text = (shipped_folder("studies") / "prevalence.toml").read_text()
    spec = ReproductionSpec.parse(text, "prevalence")
    settings = {**spec.at_size(False), "judged": 1, "tail": 1, "repeats": 4000}
    return Study(spec, settings, read_published(spec.published), tmp_path)


def test_the_first_duplicate_of_each_item_has_its_rank(searched: ScanWithTruth) -> None:
    assert first_ranks(searched).to_dict() == {"a": 1, "b": 3, "c": inf}


def test_only_the_first_chunk_of_a_document_holds_the_duplicate(tmp_path: Path) -> None:
    rows = [match("a", 0.9, "good-a", chunk=1), match("a", 0.5, "good-a", chunk=0)]
    one = with_truth("quiz", make_scan(tmp_path, rows), lambda item, document: True)
    assert one.true.tolist() == [True, False]


def test_a_part_of_the_corpus_holds_its_share_of_duplicates(
    searched: ScanWithTruth, study: Study
) -> None:
    """Item a has two duplicates, b one, c none: 1 − (1 − s)² and s, over three items."""
    table = by_share(study, searched).set_index("share")
    for share in (0.1, 0.5, 1.0):
        expected = (1 - (1 - share) ** 2 + share) / 3
        assert table.loc[share, "mean"] == pytest.approx(expected, abs=0.02)
    assert table.loc[1.0, ["low", "high"]].to_list() == pytest.approx([2 / 3, 2 / 3])


def test_judged_are_the_best_match_and_one_other_of_each_judged_item(
    searched: ScanWithTruth, study: Study
) -> None:
    one = replace(study, settings={**study.settings, "judged_items": 0.34})
    (chosen,) = judged_items(one, searched)
    assert judgements(one, searched).frame["item"].unique().tolist() == [chosen]
    every = replace(study, settings={**study.settings, "judged_items": 1.0})
    frame = judgements(every, searched).frame
    assert frame.groupby("item").size().to_dict() == {"a": 2, "b": 2, "c": 2}
    said = {(row.item, row.document): row.is_duplicate for row in frame.itertuples()}
    assert said["a", "good-a-1"] == 1
    assert said["b", "other"] == 0
    assert said["c", "other"] == 0


def test_planted_documents_are_named_after_their_task() -> None:
    assert named_after("task-71", "exact-71")
    assert not named_after("task-7", "exact-71")
    assert not named_after("task-7", "instruct-7")


def test_pairs_are_in_the_order_of_the_package(tmp_path: Path) -> None:
    """Best first for each item; of one text in several documents, by their names."""
    tied = [match("b", 0.9, "z"), match("b", 0.9, "y"), match("a", 0.2, "x", chunk=1)]
    scan = make_scan(tmp_path, [*MATCHES, *tied])
    pairs = with_truth("quiz", scan, lambda item, document: False).pairs
    wanted = scan_pairs(scan)
    assert pairs[[*PAIR, "cosine"]].to_csv(index=False) == wanted[[*PAIR, "cosine"]].to_csv(
        index=False
    )


def test_a_curve_is_learnt_once_from_the_same_judgements(
    searched: ScanWithTruth, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = Path(__file__).parents[1] / "golden" / "files" / "curve.nc.xz"
    file = study.folder / "learnt.nc"
    file.write_bytes(lzma.decompress(packed.read_bytes()))
    calls: list[int] = []

    def learn(*_: Any, seed: int, **__: Any) -> Curve:
        calls.append(seed)
        return Curve.from_netcdf(file)

    monkeypatch.setattr(running, "fit_curve", learn)
    every = replace(study, settings={**study.settings, "judged_items": 1.0})
    fewer = replace(study, settings={**study.settings, "judged_items": 0.34})
    for one in (every, every, fewer):
        one.curve("a quiz", searched.scan, judgements(one, searched))
    assert len(calls) == 2
    assert len(set(calls)) == 1  # the seed is that of the name
    assert len(list((study.folder / "fits").glob("curve-a-quiz-*.nc"))) == 2
