"""How many of 10,000 texts are duplicates: printed numbers, known shares, and coverage."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.errors import UsageError
from bayescontam.evidence.covariates import ItemContamination
from bayescontam.evidence.rate import draw_shares, duplicate_rate
from bayescontam.evidence.tail import Tail
from tests.support.made_weighed import make_tail, make_weighed


def weighed(tail: Tail) -> ItemContamination:
    return make_weighed(tail.none, tail)


def rate(number: Any, *args: Any, draws: int = 400, **options: Any) -> pd.Series:
    return duplicate_rate(weighed(make_tail(number, *args, draws=draws)), **options).iloc[0]


def test_40_of_100_in_the_top_thousandth_are_4_in_10000() -> None:
    numbers = np.random.default_rng(1).binomial(100, 0.4, 257)
    reported = rate(numbers)
    assert reported["tail_share"] == pytest.approx(0.001)
    assert reported["share"] == pytest.approx(0.4, abs=0.01)
    assert reported["rate"] == pytest.approx(4.0, abs=0.1)
    # Of 25,700 texts of 257,000: sd 0.4 x 0.6 / 25,700, less what is known of the population.
    error = np.sqrt(0.24 / 25_700 * 0.9)
    assert reported["share_high"] - reported["share_low"] == pytest.approx(3.92 * error, rel=0.25)
    assert reported["rate_low"] < 4.0 < reported["rate_high"]
    assert reported["items"] == 257
    assert reported["sampled"] == 25_700


def test_a_tail_that_was_drawn_whole_is_known() -> None:
    reported = rate([3, 0, 6], 10, 10, 10_000, draws=50)
    assert reported[["share", "share_low", "share_high"]].tolist() == pytest.approx([0.3] * 3)
    assert reported[["rate", "rate_low", "rate_high"]].tolist() == pytest.approx([3.0] * 3)


def test_a_sample_without_duplicates_leaves_some_possible() -> None:
    alone = rate([0], 100, 100_000, 100_000_000, draws=4000)
    assert alone["share_low"] < 1e-4
    assert 0.005 < alone["share_high"] < 0.05  # 3 in 100, by the rule of three, and a prior
    among = weighed(make_tail([0] * 50 + [60] * 5, 100, 100_000, 100_000_000, draws=1000))
    items = duplicate_rate(among, per="item")
    assert items["item"].tolist() == [f"i{k}" for k in range(55)]
    assert items.loc[:49, "share_high"].between(1e-4, 0.05).all()
    assert items.loc[50:, "share"].between(0.5, 0.65).all()


def test_copies_of_drawn_texts_are_counted() -> None:
    tail = make_tail([1, 0], 2, 10, 1000, draws=20)
    copies = replace(tail, copies=np.array([10, 10]), occurrences=tail.number * 9)
    reported = duplicate_rate(weighed(copies)).iloc[0]
    assert reported["share_low"] == reported["share_high"] == pytest.approx(0.45)


def test_parts_of_an_item_in_several_sources_are_added() -> None:
    tail = make_tail([5, 1], 10, 10, [1000, 9000], draws=20)
    tail = replace(
        tail, item=np.array([0, 0]), none=tail.none[:, :1],
        source=np.array(["web", "books"], dtype=object),
    )  # fmt: skip
    reported = duplicate_rate(weighed(tail)).iloc[0]
    assert reported["rate"] == pytest.approx(6.0)
    assert reported["share"] == pytest.approx(0.3)
    assert reported["tail_share"] == pytest.approx(0.002)


def test_without_tails_nothing_is_estimated() -> None:
    reported = rate([0, 0], 0, 0, 1000, draws=3)
    assert reported["sampled"] == 0
    assert reported[["share", "rate", "rate_low"]].isna().all()


def test_some_of_the_items_are_reported_as_if_no_others_were_there() -> None:
    part = weighed(make_tail([1, 2, 3], 10, 10, 1000, draws=5)).of(np.array([False, True, True]))
    assert part.tail.item.tolist() == [0, 1]
    assert duplicate_rate(part).iloc[0]["rate"] == pytest.approx(25.0)


def test_intervals_cover_the_share_of_the_population() -> None:
    """95 % intervals of 200 sets: fewer than 179 cover with a probability below 1e-4.

    Shares of items are of two sorts, not the beta distribution that is assumed.
    """
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        share = np.where(rng.random(40) < 0.5, 0.003, rng.random(40) * 0.6)
        population = rng.binomial(2000, share)
        number = rng.hypergeometric(population, 2000 - population, 100)
        reported = rate(number, 100, 2000, 2_000_000, draws=60, seed=seed)
        covered += reported["share_low"] <= population.mean() / 2000 <= reported["share_high"]
    assert covered >= 179


def test_shares_of_like_items_are_pooled() -> None:
    rng = np.random.default_rng(5)
    number = rng.binomial(20, 0.3, 200)[None].repeat(300, axis=0)
    shares = draw_shares(number, np.full(200, 20), rng)
    assert shares.mean() == pytest.approx(0.3, abs=0.02)
    assert shares.mean(axis=0).std() < 0.5 * (number[0] / 20).std()


def test_options_that_cannot_be_used_are_refused() -> None:
    items = weighed(make_tail([1, 2]))
    with pytest.raises(UsageError, match=r"^per: got 'text'; allowed are 'benchmark' and 'item'$"):
        duplicate_rate(items, per="text")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^level: got 1\.0"):
        duplicate_rate(items, level=1.0)
