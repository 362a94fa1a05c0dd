"""Pairs that are judged again: by verdict, kind, disagreement and doubt, in equal strata."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.judgements import PAIR, Judgements
from bayescontam.errors import DataError, UsageError
from bayescontam.evidence.choice import choose_judged
from bayescontam.scan.results import Scan
from tests.support.made_evidence import make_scan, match

KEYS = list(PAIR)


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """Ten items with four documents each; the second half is of another benchmark."""
    rows = [
        match(
            f"q{i}", 0.9 - 0.1 * k - 0.001 * i, f"d{i}.{k}", benchmark="quiz" if i < 5 else "code"
        )
        for i in range(10)
        for k in range(4)
    ]
    return make_scan(tmp_path_factory.mktemp("judged") / "scan", rows)


def judgements(*rows: tuple[str, str, Any, str, float]) -> Judgements:
    """Return judgements of documents: (document, judge, verdict, kind, confidence)."""
    columns = ["document", "judge", "is_duplicate", "kind", "confidence"]
    frame = pd.DataFrame(rows, columns=columns).astype({"is_duplicate": "Int8"})
    number = frame["document"].str.extract(r"d(\d+)")[0].astype(int)
    frame["item"] = "q" + number.astype(str)
    frame["benchmark"] = np.where(number < 5, "quiz", "code")
    return Judgements.from_frame(frame.assign(chunk=0, source="web"), source="judged.csv")


SOME = judgements(
    ("d0.0", "llm:a", 1, "exact", 0.9), ("d0.0", "Ada", 1, "exact", np.nan),
    ("d0.1", "llm:a", 1, "subset", 0.6), ("d0.1", "Ada", 0, "related", 1.0),
    ("d1.0", "llm:a", 0, "unrelated", 0.95), ("d1.1", "llm:a", pd.NA, "", np.nan),
    ("d6.0", "llm:a", 0, "superset", 0.7), ("d6.0", "Ada", 0, "superset", 0.2),
    ("d7.0", "Ada", 1, "", np.nan),
)  # fmt: skip


@pytest.mark.parametrize(
    ("said", "judge", "documents"),
    [
        (["duplicate"], None, {"d0.0", "d0.1", "d7.0"}),
        (["duplicate"], "llm:a", {"d0.0", "d0.1"}),
        (["not-duplicate"], None, {"d0.1", "d1.0", "d6.0"}),
        (["not-duplicate"], "Ada", {"d0.1", "d6.0"}),
        (["kind=superset"], None, {"d6.0"}),
        (["kind=related", "kind=exact"], None, {"d0.0", "d0.1"}),
        (["kind=related"], "Ada", {"d0.1"}),
        (["disagree"], None, {"d0.1"}),
        (["disagree"], "llm:a", {"d0.1"}),
        (["unsure"], None, {"d0.1", "d1.1", "d6.0"}),
        (["unsure"], "llm:a", {"d0.1", "d1.1"}),
        (["unsure=0.71"], "llm:a", {"d0.1", "d1.1", "d6.0"}),
        (["disagree", "unsure=0"], None, {"d0.1", "d1.1"}),
        ([], None, {"d0.0", "d0.1", "d1.0", "d6.0", "d7.0"}),
        ([], "Ada", {"d0.0", "d0.1", "d6.0", "d7.0"}),
    ],
)
def test_pairs_are_those_that_were_called_so(
    scan: Scan, said: list[str], judge: str | None, documents: set[str]
) -> None:
    chosen = choose_judged(scan, SOME, said, judge=judge)
    assert set(chosen.pairs["document"]) == documents
    assert len(chosen.pairs) == len(documents) == chosen.strata["of"].sum()
    assert chosen.pairs[["text", "chunk_text"]].notna().all(axis=None)


def test_strata_are_those_of_the_judges(scan: Scan) -> None:
    strata = choose_judged(scan, SOME, ["duplicate", "unsure"]).strata
    assert strata.to_numpy().tolist() == [
        ["code", "duplicate", "", 1, 1],
        ["code", "not duplicate", "superset", 1, 1],
        ["quiz", "disagree", "subset", 1, 1],
        ["quiz", "duplicate", "exact", 1, 1],
        ["quiz", "unjudged", "", 1, 1],
    ]
    own = choose_judged(scan, SOME, ["disagree"], judge="llm:a").strata
    assert own.to_numpy().tolist() == [["quiz", "duplicate", "subset", 1, 1]]


@pytest.fixture(scope="module")
def many() -> Judgements:
    """All 40 documents: 4 exact, 8 subset, 4 superset duplicates or not, 24 unrelated."""
    kinds = ["exact"] * 4 + ["subset"] * 8 + ["superset"] * 4 + ["unrelated"] * 24
    names = [f"d{i}.{k}" for k in range(4) for i in range(10)]
    calls = [kind in ("exact", "subset") for kind in kinds]
    rows = zip(names, calls, kinds, strict=True)
    return judgements(*((name, "llm:a", int(call), kind, 0.9) for name, call, kind in rows))


def test_strata_give_equal_parts(scan: Scan, many: Judgements) -> None:
    found = choose_judged(scan, many, count=15, strata=["verdict", "kind"], seed=2)
    assert len(found.pairs) == 15
    counts = found.strata.groupby("kind")[["chosen", "of"]].sum()
    assert counts["of"].to_dict() == {"exact": 4, "subset": 8, "superset": 4, "unrelated": 24}
    assert sorted(counts["chosen"]) == [3, 4, 4, 4]
    # A stratum that is used up leaves its part to the others.
    more = choose_judged(scan, many, count=24, strata=["kind"]).strata.groupby("kind")["chosen"]
    assert more.sum().to_dict() == {"exact": 4, "subset": 8, "superset": 4, "unrelated": 8}
    by = choose_judged(scan, many, count=20, strata=["benchmark"]).pairs
    assert by["benchmark"].value_counts().to_dict() == {"quiz": 10, "code": 10}


def test_without_strata_pairs_are_drawn_from_all(scan: Scan, many: Judgements) -> None:
    drawn = [choose_judged(scan, many, count=20, seed=seed) for seed in range(65)]
    shares = pd.concat([one.strata for one in drawn]).groupby("kind")["chosen"].sum() / 1300
    # Standard errors are below 0.012.
    assert shares.to_numpy() == pytest.approx([0.1, 0.2, 0.1, 0.6], abs=0.05)


def test_a_smaller_choice_is_the_beginning_of_a_larger_one(scan: Scan, many: Judgements) -> None:
    for strata in ([], ["verdict", "kind"]):
        few, all_ = (choose_judged(scan, many, count=n, strata=strata, seed=4) for n in (7, 30))
        assert few.pairs[KEYS].equals(all_.pairs[KEYS].head(7))
    other = choose_judged(scan, many, count=7, seed=5)
    assert not other.pairs[KEYS].equals(few.pairs[KEYS])


def test_the_best_of_each_item_among_them(scan: Scan, many: Judgements) -> None:
    found = choose_judged(scan, many, ["not-duplicate"], per_item=1, benchmarks=["code"])
    assert set(found.pairs["item"]) == {f"q{i}" for i in range(5, 10)}
    # Of d0.0 to d9.0 four are exact and six subset, of the second documents two are.
    assert {name.split(".")[1] for name in found.pairs["document"]} == {"1"}


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"said": ["kind=equivalent"]}, DataError,
         r"judged\.csv: no pair was called kind=equivalent\nIts verdicts: 4 duplicate, 4 not-du"),
        ({"said": ["unsure"], "judge": "Ada", "benchmarks": ["quiz"]}, DataError,
         "no pair of 'quiz' was called unsure by 'Ada'"),
        ({"said": ["kind=same"]}, UsageError, "said 'kind=same': allowed are duplicate, not-dupl"),
        ({"said": ["unsure=2"]}, UsageError, "said 'unsure=2': .* a confidence is a number from 0"),
        ({"said": ["disagree=1"]}, UsageError, "said 'disagree=1': allowed are"),
        ({"judge": "Eve"}, UsageError, "judged.csv: no judge 'Eve'; it has 'llm:a', 'Ada'"),
        ({"strata": ["colour"]}, UsageError, "strata: no 'colour'; allowed are 'benchmark', 'ver"),
        ({"count": 0}, UsageError, "got 0 pairs to choose; allowed is 1 or more"),
        ({"benchmarks": ["x"]}, UsageError, "no benchmark 'x' in this scan"),
    ],
)  # fmt: skip
def test_choices_that_cannot_be(
    scan: Scan, options: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        choose_judged(scan, SOME, **options)


def test_judgements_of_another_scan_are_refused(scan: Scan) -> None:
    with pytest.raises(DataError, match=r"1 judgements are of pairs that .* lacks"):
        choose_judged(scan, judgements(("d0.9", "Ada", 1, "", 1.0)))


def test_further_chunks_are_judged_again_too(tmp_path: Path) -> None:
    rows = [match("q0", 0.9, "d"), match("q0", 0.5, "d", chunk=1)]
    frame = pd.DataFrame(
        {"benchmark": "quiz", "item": "q0", "document": "d", "chunk": [1], "judge": "Ada",
         "is_duplicate": 1}
    )  # fmt: skip
    found = choose_judged(make_scan(tmp_path, rows), Judgements.from_frame(frame), ["duplicate"])
    assert found.pairs["chunk"].tolist() == [1]
