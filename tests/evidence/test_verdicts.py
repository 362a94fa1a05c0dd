"""Judgements as index arrays: who judged which pair, and what does not count."""

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.judgements import sort_of
from bayescontam.evidence.verdicts import Verdicts, first_runs, make_verdicts
from tests.support.made_evidence import Row, judged

ROWS = [
    judged("q2", "b", 1, "llm:m", cosine=0.7, best=0.7),
    judged("q1", "a", 0, "llm:m", cosine=0.9, best=0.95),
    judged("q1", "a", 1, "Ada", cosine=0.9, best=0.95),
    judged("q1", "c", 1, "Ada", cosine=0.8, best=0.95, source="books"),
    judged("x", "a", 1, "Ada", cosine=0.6, best=0.6, benchmark="exam"),
]


def table(*rows: Row) -> pd.DataFrame:
    return pd.DataFrame(rows).astype({"is_duplicate": "Int8"})


def made(frame: pd.DataFrame) -> Verdicts:
    return make_verdicts(frame, ["quiz", "bare", "exam"], ["web", "books"])


def reported(verdicts: Verdicts) -> set[tuple[object, ...]]:
    """Return the verdicts, with the names and numbers that they point to."""
    of, item = verdicts.pair, verdicts.item[verdicts.pair]
    np.testing.assert_array_equal(verdicts.benchmark_of_item[verdicts.item], verdicts.benchmark)
    return {
        (
            verdicts.benchmarks[verdicts.benchmark[of[v]]], verdicts.items[item[v]],
            verdicts.sources[verdicts.source[of[v]]], float(verdicts.cosine[of[v]]),
            float(verdicts.best[item[v]]), verdicts.judges[verdicts.judge[v]],
            int(verdicts.called[v]),
        )
        for v in range(len(of))
    }  # fmt: skip


def test_arrays_say_what_the_rows_say() -> None:
    verdicts = made(table(*ROWS))
    assert len(verdicts) == 4
    assert verdicts.judges == ("Ada", "llm:m")
    assert reported(verdicts) == {
        ("quiz", "quiz/q2", "web", 0.7, 0.7, "llm:m", 1),
        ("quiz", "quiz/q1", "web", 0.9, 0.95, "llm:m", 0),
        ("quiz", "quiz/q1", "web", 0.9, 0.95, "Ada", 1),
        ("quiz", "quiz/q1", "books", 0.8, 0.95, "Ada", 1),
        ("exam", "exam/x", "web", 0.6, 0.6, "Ada", 1),
    }
    sizes = {name: len(labels) for name, labels in verdicts.coords.items()}
    assert sizes == {
        "benchmark": 3, "source": 2, "judge": 2, "item": 3, "pair": 4, "verdict": 5,
    }  # fmt: skip


def test_the_order_of_judgements_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    first = made(table(*ROWS))
    for _ in range(5):
        other = made(table(*(ROWS[i] for i in rng.permutation(len(ROWS)))))
        for name, value in vars(first).items():
            np.testing.assert_array_equal(getattr(other, name), value)


def test_names_with_slashes_stay_apart() -> None:
    rows = [
        judged("c", "d", 1, benchmark="a/b", cosine=0.5, best=0.5),
        judged("b/c", "d", 0, benchmark="a", cosine=0.6, best=0.6),
    ]
    verdicts = make_verdicts(table(*rows), ["a", "a/b"], ["web"])
    assert len(verdicts.items) == 2
    assert sorted(verdicts.best[verdicts.item].tolist()) == [0.5, 0.6]
    np.testing.assert_array_equal(verdicts.benchmark_of_item[verdicts.item], verdicts.benchmark)


def test_second_runs_and_open_judgements_do_not_count() -> None:
    rows = [
        judged("q1", "a", 0, "llm:m#2"),
        judged("q1", "a", 1, "llm:m"),
        judged("q2", "a", 0, "llm:m#3"),
        judged("q2", "a", 1, "llm:m#2"),
        judged("q3", "a", 1, "llm:n#2"),
        judged("q4", "a", 1, "Ada #2"),
        judged("q5", "a", 1, "Ada"),
    ]
    frame = table(*rows)
    frame.loc[len(frame)] = judged("q3", "a", 0, "llm:n") | {"is_duplicate": pd.NA}
    frame.loc[len(frame)] = judged("q6", "a", 0, "llm:n") | {"is_duplicate": pd.NA}
    kept = first_runs(frame)
    assert kept[["item", "judge", "is_duplicate"]].to_numpy().tolist() == [
        ["q1", "llm:m", 1], ["q2", "llm:m", 1], ["q3", "llm:n", 1], ["q4", "Ada #2", 1],
        ["q5", "Ada", 1],
    ]  # fmt: skip


def test_further_chunks_are_verdicts_on_their_document() -> None:
    lead = {"lead": 0, "lead_cosine": 0.9, "place": 3.0}
    rows = [
        judged("q1", "a", 1, cosine=0.9, best=0.95) | lead,
        judged("q1", "a", 0, cosine=0.5, best=0.95, chunk=2) | lead,
        judged("q1", "b", 0, cosine=0.8, best=0.95),
    ]
    verdicts = made(table(*rows))
    assert (len(verdicts), len(verdicts.called)) == (2, 3)
    assert verdicts.cosine.tolist() == [0.9, 0.8]
    assert verdicts.place.tolist() == [3.0, 1.0]
    assert verdicts.further.tolist() == [False, True, False]
    assert verdicts.pair.tolist() == [0, 0, 1]


def test_without_judgements_there_are_no_pairs() -> None:
    frame = table(*ROWS).head(0)
    verdicts = made(frame)
    assert (len(verdicts), verdicts.judges, verdicts.items) == (0, (), ())
    assert len(verdicts.called) == 0


@pytest.mark.parametrize(
    ("judge", "sort"),
    [
        ("llm:a", "models"), ("llm", "people"), ("A llm:", "people"), ("rule:verbatim", "rules"),
        ("trained:small", "trained"), ("trainedx", "people"),
    ],
)  # fmt: skip
def test_sorts_of_judges_are_known_by_their_names(judge: str, sort: str) -> None:
    assert sort_of(judge) == sort
