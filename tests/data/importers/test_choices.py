"""Choices and runs: what is requested is taken, and what is not clear is refused."""

from collections import Counter

import pytest

from bayescontam.data.importers.base import select
from bayescontam.data.importers.runs import Run, model_names
from bayescontam.errors import DataError, UsageError

KNOWN = {"a": Counter(x=3, y=2), "b": Counter(z=1), "c=d": Counter({"x": 1, "p=q": 1})}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (["x"], ["x", "z", "x"]),
        (["y", "p=q"], ["y", "z", "p=q"]),
        (["a=y", "x"], ["y", "z", "x"]),
        (["c=d=p=q", "y"], ["y", "z", "p=q"]),
        (["x", "x", "b=z"], ["x", "z", "x"]),
    ],
)
def test_names_are_taken_where_they_occur(given: list[str], taken: list[str]) -> None:
    assert list(select("metric", given, KNOWN).values()) == taken


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], r"needed.*a has 'x' \(3 rows\), 'y' \(2 rows\); c=d has"),
        (["x", "y"], r"needed.*a has"),
        (["y"], r"needed.*: c=d has 'p=q' \(1 rows\)"),
        (["x", "none"], "'none' occurs nowhere; a has"),
        (["x", "b=x"], "'x' occurs nowhere"),
    ],
)
def test_what_is_not_clear_is_refused(given: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=f"--metric: {message}"):
        select("metric", given, KNOWN)


def test_only_runs_that_differ_are_distinguished() -> None:
    runs = [
        Run("m", "a", "1", {"args": "1"}, {"shots": "0"}),
        Run("m", "a", "2", {"args": "1"}, {"shots": "5"}),
        Run("m", "b", "3", {"args": "1"}, {"shots": "3"}),
        Run("m", "a", "4"),
        Run("n", "a", "5", {"args": "2"}, {"shots": "5"}),
    ]
    names, notes = model_names(runs, "split")
    assert names == ["m [shots=0]", "m [shots=5]", "m", "m", "n"]
    assert notes == ["models were separated by their settings, which gave 2 names"]
    assert model_names(runs[1:], "error") == (["m", "m", "m", "n"], [])
    with pytest.raises(DataError, match="1: m on a: shots=0\n2: m on a: shots=5\nthese runs"):
        model_names(runs, "error")
    with pytest.raises(UsageError, match="differing='x'"):
        model_names(runs, "x")  # type: ignore[arg-type]


def test_a_setting_that_is_absent_is_the_default() -> None:
    runs = [Run("m", "a", "1", {"args": "1"}), Run("m", "a", "2", {"args": "1", "revision": "r"})]
    assert model_names(runs, "split")[0] == ["m [revision=default]", "m [revision=r]"]
