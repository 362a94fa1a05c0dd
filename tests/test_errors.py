"""Error messages: where, what, and never more lines than a screen holds."""

import pickle

import pytest

import bayescontam.errors as errors
from bayescontam.errors import SHOWN_FAULTS, BayescontamError, DataError, Fault, SpecError


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault("a.csv", "is bad"), "a.csv: is bad"),
        (Fault("a.csv", "is bad", row=3), "a.csv: row 3: is bad"),
        (Fault("a.csv", "is bad", column="item"), "a.csv: item: is bad"),
        (Fault("a.csv", "is bad", 3, "item"), "a.csv: row 3: item: is bad"),
        (Fault("a\x1b.csv", "is bad", column="it\nem"), "a\\x1b.csv: it\\nem: is bad"),
    ],
)
def test_a_fault_says_where(fault: Fault, text: str) -> None:
    assert str(fault) == text


@pytest.mark.parametrize("kind", [DataError, SpecError])
@pytest.mark.parametrize("extra", [0, 1, 1988])
def test_faults_beyond_a_screen_are_counted(kind: type[DataError], extra: int) -> None:
    total = SHOWN_FAULTS + extra
    faults = [Fault("a.csv", "is bad", row, f"q{row}") for row in range(1, total + 1)]
    error = kind(faults, "mend it")
    lines = str(error).splitlines()
    assert lines[:12] == [f"a.csv: row {row}: q{row}: is bad" for row in range(1, 13)]
    rest = [f"… and {extra:,} more faults of {total:,}"] if extra else []
    assert lines[12:] == [*rest, "mend it"]
    assert len(error.faults) == total
    assert error.advice == "mend it"


def _got(values: str) -> list[Fault]:
    cause = "got {}, allowed is 0 or 1"
    return [
        Fault("a.csv", cause.replace("{}", value), row, "x", cause, value)
        for row, value in enumerate(values, start=1)
    ]


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ([Fault("a", "is blank", row, "x") for row in (2, 3)], "a: rows 2, 3: x: is blank"),
        ([Fault("a", "is bad"), Fault("a", "is bad")], "a: is bad\na: is bad"),
        (_got("7"), "a.csv: row 1: x: got 7, allowed is 0 or 1"),
        (_got("99"), "a.csv: rows 1, 2: x: got 9, allowed is 0 or 1"),
        (_got("23"), "a.csv: rows 1, 2: x: got 2, 3, allowed is 0 or 1"),
        (
            _got("abcabccd"),
            "a.csv: rows 1, 2, 3, 4, 5 and 3 more: x: got c (3 rows), a (2 rows), b (2 rows), "
            "d (1 rows), allowed is 0 or 1",
        ),
        (
            _got("abcdefg"),
            "a.csv: rows 1, 2, 3, 4, 5 and 2 more: x: got a, b, c, d, e and 2 other values, "
            "allowed is 0 or 1",
        ),
    ],
)
def test_rows_with_one_cause_share_a_line(faults: list[Fault], message: str) -> None:
    assert str(DataError(faults)) == message
    assert str(pickle.loads(pickle.dumps(DataError(faults)))) == message


def test_without_advice_there_is_no_empty_line() -> None:
    assert str(DataError([Fault("a.csv", "is bad")])) == "a.csv: is bad"


def test_one_base_catches_all() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in kinds if issubclass(kind, Exception)]
    assert len(kinds) >= 7
    assert all(issubclass(kind, BayescontamError) for kind in kinds)


def test_the_tree_at_the_top_names_every_error() -> None:
    assert errors.__doc__ is not None
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, Exception) and not name.startswith("_"):
            assert name in errors.__doc__


def test_faults_cross_processes() -> None:
    fault = Fault("a.csv", "is bad", 3, "item")
    assert pickle.loads(pickle.dumps(fault)) == fault
    error = pickle.loads(pickle.dumps(DataError([fault], "mend it")))
    assert (str(error), error.faults, error.advice) == (
        "a.csv: row 3: item: is bad\nmend it",
        (fault,),
        "mend it",
    )
