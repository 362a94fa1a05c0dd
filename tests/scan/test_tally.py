"""Tallies: counts of several inputs add up, and survive JSON."""

import json

from bayescontam.scan.formats import Tally


def made(path: str, reasons: list[str]) -> Tally:
    tally = Tally(documents=2, bytes=10)
    for record, reason in enumerate(reasons, start=1):
        tally.count(path, record, reason)
    tally.without["url"] += 1
    return tally


def test_all_are_counted_and_the_first_thousand_listed() -> None:
    tally = made("a", ["empty"] * 1500)
    assert tally.unreadable == {"empty": 1500}
    assert tally.listed == {"a": [(record, "empty") for record in range(1, 1001)]}


def test_merged_tallies_add_up() -> None:
    tally = made("a", ["empty", "not JSON"])
    tally.merge(made("b", ["empty"]))
    assert tally == Tally(
        documents=4,
        bytes=20,
        unreadable={"empty": 2, "not JSON": 1},  # type: ignore[arg-type]
        listed={"a": [(1, "empty"), (2, "not JSON")], "b": [(1, "empty")]},
        without={"url": 2},  # type: ignore[arg-type]
    )


def test_merging_lists_no_more_than_a_thousand_of_an_input() -> None:
    tally = made("a", ["empty"] * 700)
    tally.merge(made("a", ["not JSON"] * 700))
    assert tally.unreadable.total() == 1400
    assert [reason for _, reason in tally.listed["a"]] == ["empty"] * 700 + ["not JSON"] * 300


def test_json_can_hold_a_tally() -> None:
    tally = made("a", ["empty"])
    tally.damaged["a"] = "damaged after record 3"
    assert json.loads(json.dumps(tally.to_dict())) == {
        "documents": 2,
        "bytes": 10,
        "unreadable": {"empty": 1},
        "listed": {"a": [[1, "empty"]]},
        "without": {"url": 1},
        "damaged": {"a": "damaged after record 3"},
    }
