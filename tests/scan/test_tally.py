"""Tallies: all unreadable records are counted, the first listed."""

from bayescontam.scan.formats import Tally


def test_all_are_counted_and_the_first_thousand_listed() -> None:
    tally = Tally()
    for record in range(1, 1501):
        tally.count(record, "empty")
    assert tally.unreadable == {"empty": 1500}
    assert tally.listed == [(record, "empty") for record in range(1, 1001)]
