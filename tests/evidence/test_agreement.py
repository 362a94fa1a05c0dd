"""Agreement: figures known from books, by hand and from brute force."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.data.judgements import Judgements
from bayescontam.evidence.agreement import _alpha, agreement
from tests.support.real_data import shared

pytest.importorskip("sklearn")

KIND_SAYS = {"exact": 1, "equivalent": 1, "subset": 1, "superset": 1, "related": 0, "unrelated": 0}


def _judgements(verdicts: dict[str, list[Any]], kinds: dict[str, list[str]] | None = None) -> Any:
    """Judgements of items 0, 1, … by judges; None = unjudged, ... = no row."""
    rows = [
        (str(i), judge, verdict, (kinds or {}).get(judge, [""] * len(cells))[i])
        for judge, cells in verdicts.items()
        for i, verdict in enumerate(cells)
        if verdict is not ...
    ]
    frame = pd.DataFrame(rows, columns=["item", "judge", "is_duplicate", "kind"])
    return Judgements.from_frame(frame.assign(benchmark="b", document="d", chunk=0))


def _crossed(table: list[list[int]]) -> Any:
    """Judgements of two judges whose verdicts are counted in a table: rows A's, columns B's."""
    cells = [(a, b) for a in (0, 1) for b in (0, 1) for _ in range(table[a][b])]
    return _judgements({"A": [a for a, _ in cells], "B": [b for _, b in cells]})


def _kappa(table: np.ndarray) -> float:
    """Cohen's kappa by its definition."""
    p = table / table.sum()
    chance = (p.sum(axis=1) * p.sum(axis=0)).sum()
    return float((np.trace(p) - chance) / (1 - chance))


@pytest.mark.parametrize(
    ("table", "kappa"),
    [  # https://en.wikipedia.org/wiki/Cohen%27s_kappa, section Examples
        ([[20, 5], [10, 15]], 0.4),
        ([[45, 15], [25, 15]], 0.1304),
        ([[25, 35], [5, 35]], 0.2593),
    ],
)
def test_kappa_of_known_tables(table: list[list[int]], kappa: float) -> None:
    row = agreement(_crossed(table)).two.iloc[0]
    assert row["kappa"] == pytest.approx(kappa, abs=5e-5)
    assert row["agreement"] == (table[0][0] + table[1][1]) / np.sum(table)
    assert row["pairs"] == np.sum(table)
    assert row["kappa_low"] < row["kappa"] < row["kappa_high"]


def test_interval_of_kappa_is_that_of_large_samples() -> None:
    table = np.array([[800, 200], [400, 600]])
    p = table / table.sum()
    rows, columns, kappa = p.sum(axis=1), p.sum(axis=0), _kappa(table)
    chance = (rows * columns).sum()
    # Fleiss, Cohen and Everitt (1969), https://doi.org/10.1037/h0028106
    own = (np.diag(p) * (1 - (rows + columns) * (1 - kappa)) ** 2).sum()
    cross = sum(p[i, 1 - i] * (columns[i] + rows[1 - i]) ** 2 for i in (0, 1)) * (1 - kappa) ** 2
    variance = own + cross - (kappa - chance * (1 - kappa)) ** 2
    error = np.sqrt(variance / table.sum()) / (1 - chance)
    row = agreement(_crossed(table.tolist())).two.iloc[0]
    assert row["kappa_low"] == pytest.approx(kappa - 1.96 * error, abs=0.002)
    assert row["kappa_high"] == pytest.approx(kappa + 1.96 * error, abs=0.002)


def test_full_agreement_of_few_is_not_certain() -> None:
    row = agreement(_crossed([[3, 0], [0, 3]])).two.iloc[0]
    assert row["kappa"] == 1
    assert 0 < row["kappa_low"] < 0.8
    assert row["note"] == ""


def test_alpha_of_known_tables() -> None:
    # Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, example A:
    # https://repository.upenn.edu/handle/20.500.14332/2089
    two = {"Meg": [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], "Owen": [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]}
    overall = agreement(_judgements(two)).overall
    assert overall["who"].tolist() == ["all"]
    assert overall["alpha"][0] == pytest.approx(0.095, abs=5e-4)


@given(st.data(), st.integers(2, 4))
def test_alpha_is_that_of_the_coincidences(data: st.DataObject, judges: int) -> None:
    cells = st.lists(st.sampled_from([0, 1, None]), min_size=8, max_size=8)
    verdicts = {f"judge {i}": data.draw(cells) for i in range(judges)}
    together = np.zeros((2, 2))
    for unit in zip(*verdicts.values(), strict=True):
        values = [value for value in unit if value is not None]
        for a, b in itertools.permutations(range(len(values)), 2):
            together[values[a], values[b]] += 1 / (len(values) - 1)
    row = agreement(_judgements(verdicts)).overall.iloc[0]
    totals = together.sum(axis=1)
    if not totals.all():
        assert np.isnan(row["alpha"])
        assert row["note"].startswith("not defined")
        return
    n = totals.sum()
    expected = 1 - (n - 1) * together[0, 1] / (totals[0] * totals[1])
    assert row["alpha"] == pytest.approx(expected)
    assert row["note"] == ""


def test_alpha_takes_one_run_of_a_model() -> None:
    ada, model = [0, 1, 0, 1, 1, 0], [0, 1, 1, 1, 0, 0]
    once = agreement(_judgements({"Ada": ada, "llm:m": model}))
    twice = agreement(_judgements({"llm:m#2": ada, "Ada": ada, "llm:m": model}))
    pd.testing.assert_frame_equal(once.overall, twice.overall)
    more = agreement(_judgements({"Ada": ada, "Bo": model, "llm:m": ada, "llm:n": ada})).overall
    assert more["who"].tolist() == ["all", "people", "models"]
    assert more["judges"].tolist() == [4, 2, 2]
    assert more["alpha"][2] == 1


def test_who_is_compared_with_whom() -> None:
    cells = [0, 1, 0, 1]
    names = ["Ada", "Bo", "llm:x", "llm:x#2", "llm:y", "llm:x#2b"]
    two = agreement(_judgements(dict.fromkeys(names, cells))).two
    found = {(row["judge_a"], row["judge_b"]): row["relation"] for row in two.to_dict("records")}
    assert len(found) == 15
    assert found["Ada", "Bo"] == "people"
    assert found["Ada", "llm:x"] == "person and model"
    assert found["llm:x", "llm:x#2"] == "model with itself"
    assert found["llm:x", "llm:y"] == "models"
    assert found["llm:x", "llm:x#2b"] == "models"


def test_unjudged_is_no_verdict() -> None:
    full = {"Ada": [0, 1, 0, 1, 1], "llm:m": [0, 1, 1, 1, 0]}
    gaps = {"Ada": [*full["Ada"], 0, None, 1, ...], "llm:m": [*full["llm:m"], None, None, ..., 1]}
    without, found = agreement(_judgements(full)), agreement(_judgements(gaps))
    figures = ["pairs", "agreement", "kappa", "kappa_low", "kappa_high"]
    assert found.two[figures].equals(without.two[figures])
    assert found.two["unjudged"].tolist() == [2]
    assert found.overall.equals(without.overall)
    assert found.judges.to_dict("list") == {
        "judge": ["Ada", "llm:m"],
        "pairs": [8, 8],
        "duplicates": [4, 4],
        "clean": [3, 2],
        "unjudged": [1, 2],
    }
    assert "3 rows are unjudged; they count as no verdict." in list(found.lines())


def test_judges_of_different_pairs_are_not_compared() -> None:
    found = agreement(_judgements({"Ada": [1, 0, ..., ...], "Bo": [..., ..., 1, 0]}))
    assert found.two.empty
    assert found.overall["pairs"].tolist() == [0]
    assert found.overall["note"][0].startswith("not defined")


@pytest.mark.parametrize("verdict", [0, 1])
def test_constant_verdicts_are_labelled(verdict: int) -> None:
    found = agreement(_judgements({"Ada": [verdict] * 5, "Bo": [verdict] * 5}))
    row = found.two.iloc[0]
    assert row["note"] == "kappa is not defined: both said the same of all pairs"
    assert np.isnan([row["kappa"], row["kappa_low"], row["kappa_high"]]).all()
    assert row["agreement"] == 1
    assert any(line.startswith("Ada and Bo: kappa is not defined") for line in found.lines())


def test_one_constant_judge_agrees_as_chance_does() -> None:
    row = agreement(_judgements({"Ada": [1, 1, 1, 1], "Bo": [1, 0, 1, 0]})).two.iloc[0]
    assert (row["kappa"], row["agreement"]) == (0, 0.5)


def test_no_common_verdict_is_labelled() -> None:
    row = agreement(_judgements({"Ada": [1, None], "Bo": [None, 0]})).two.iloc[0]
    assert row["note"] == "no pair on which both have a verdict"
    assert (row["pairs"], row["unjudged"]) == (0, 2)


def test_judges_without_a_common_pair_are_labelled_so() -> None:
    assert _alpha([pd.Series([1.0, np.nan]), pd.Series([np.nan, 1.0])])["note"] == (
        "not defined: no pair has verdicts of two judges"
    )


def test_kinds_are_crossed() -> None:
    kinds = {
        "Ada": ["exact", "subset", "subset", "related", "", "exact"],
        "Bo": ["exact", "subset", "superset", "superset", "exact", ""],
    }
    found = agreement(_judgements({"Ada": [1] * 6, "Bo": [1] * 6}, kinds))
    row = found.two.iloc[0]
    assert (row["kinds"], row["kinds_agreement"]) == (4, 0.5)
    # 4 pairs; chance: exact 1/16, subset 2/16, superset and related 0
    assert row["kinds_kappa"] == pytest.approx((0.5 - 3 / 16) / (1 - 3 / 16))
    counted = found.kinds.set_index(["kind_a", "kind_b"])["pairs"].to_dict()
    assert counted == {
        ("exact", "exact"): 1,
        ("subset", "subset"): 1,
        ("subset", "superset"): 1,
        ("related", "superset"): 1,
    }
    assert set(found.kinds["judge_a"]) == {"Ada"}


def test_published_kinds_against_published_verdicts() -> None:
    pairs = pd.read_json(shared("judged_pairs.jsonl"), lines=True, dtype={"test_id": str})
    names = {"test_id": "item", "corpus_id": "document"}
    frame = pairs.rename(columns=names).assign(chunk=0, kind=pairs["match_type"])
    says = pairs["match_type"].map(KIND_SAYS)
    both = [frame.assign(judge="kinds", is_duplicate=says),
            frame.assign(judge="verdicts", is_duplicate=pairs["is_sd"])]  # fmt: skip
    found = agreement(Judgements.from_frame(pd.concat(both)))
    # By hand: 78 duplicates for both; 11 supersets are none, 8 related ones are; 3 for neither.
    by_hand = (0.81 - (0.89 * 0.86 + 0.11 * 0.14)) / (1 - (0.89 * 0.86 + 0.11 * 0.14))
    row = found.two.iloc[0]
    assert (row["pairs"], row["agreement"]) == (100, 0.81)
    assert row["kappa"] == pytest.approx(by_hand)
    assert row["kappa"] == pytest.approx(0.1332, abs=5e-5)
    assert row["kinds_kappa"] == 1
    reported = found.verdicts[found.verdicts["judge"] == "verdicts"].set_index("kind")
    assert reported.loc["superset", ["duplicates", "clean"]].tolist() == [6, 11]
    assert reported.loc["related", ["duplicates", "clean"]].tolist() == [8, 3]
    assert reported.loc[["exact", "equivalent", "subset"], "clean"].tolist() == [0, 0, 0]
