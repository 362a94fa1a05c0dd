"""What the first lines of a page say, for every verdict."""

import re

import numpy as np
import pandas as pd
import pytest

from bayescontam.inference.findings import finding
from bayescontam.inference.identification import Overfitting

SHOWN, SMALL, OPEN = Overfitting.SHOWN, Overfitting.AT_MOST_SMALL, Overfitting.INCONCLUSIVE


def rows(*kinds: Overfitting, benchmark: str = "quiz", effects: list[float] | None = None):
    """Return a headline table of models m0, m1, … with these verdicts."""
    overfitting = np.array(effects or np.linspace(0.05, 0.2, len(kinds)))
    raw = np.linspace(0.9, 0.5, len(kinds))
    table = pd.DataFrame(
        {
            "model": [f"m{i}" for i in range(len(kinds))],
            "benchmark": benchmark,
            "raw_accuracy": raw,
            "genuine_ability_direct": raw - overfitting,
            "overfitting_direct": overfitting,
            "overfitting_direct_verdict": list(kinds),
            "rank_raw": np.arange(len(kinds)) + 1.0,
        }
    )
    for name in ("genuine_ability_direct", "overfitting_direct"):
        table[f"{name}_low"], table[f"{name}_high"] = table[name] - 0.01, table[name] + 0.01
    table["rank"] = table["genuine_ability_direct"].rank(ascending=False)
    return table


def abilities(ranks: list[float], benchmark: str = "quiz"):
    """Return a headline table without contamination; the first model has accuracy 0.9."""
    accuracy = np.linspace(0.9, 0.5, len(ranks))
    return pd.DataFrame(
        {
            "model": [f"m{i}" for i in range(len(ranks))],
            "benchmark": benchmark,
            "raw_accuracy": accuracy,
            "accuracy": accuracy,
            "accuracy_low": accuracy - 0.02,
            "accuracy_high": accuracy + 0.02,
            "rank": ranks,
            "p_best": [0.75, *[0.25 / max(len(ranks) - 1, 1)] * (len(ranks) - 1)],
        }
    )


def test_effects_that_are_shown_come_first_with_their_range() -> None:
    table = rows(SHOWN, SHOWN, SHOWN, OPEN, effects=[0.03, 0.26, 0.1, 0.05])
    (text,) = finding(table, 0.02)
    assert text.startswith("Three of 4 models lose 0.03 to 0.26 of their accuracy")
    assert (
        "m1 loses most: it falls from a raw accuracy of 0.767 to a genuine ability (direct) of"
        in text
    )
    assert "0.507 [0.497, 0.517], from rank 2 to 3." in text
    assert text.endswith("For 1 model the direct effect is neither shown nor ruled out.")


@pytest.mark.parametrize(
    ("rank", "said"),
    [(1, ""), (2, ""), (3, ""), (4, ", from a shared rank 1 to 4"), (np.nan, "")],
)
def test_within_places_that_raw_accuracies_share_nothing_moved(rank: float, said: str) -> None:
    table = rows(OPEN, OPEN, SHOWN, OPEN).assign(
        raw_accuracy=[0.8, 0.8, 0.8, 0.5], rank_raw=[1.0, 1.0, 1.0, 4.0], rank=[1, 2, rank, 4]
    )
    (text,) = finding(table, 0.02)
    assert f"{said}. " in text
    assert ("from rank" in text or "shared rank" in text) is bool(said)


@pytest.mark.parametrize(("count", "start"), [(11, "Eleven of 20"), (13, "13 of 20"), (20, "All")])
def test_small_counts_are_spelt(count: int, start: str) -> None:
    (text,) = finding(rows(*[SHOWN] * count, *[OPEN] * (20 - count)), 0.02)
    assert text.startswith(start)


def test_one_model_is_named_with_its_interval() -> None:
    (text,) = finding(rows(SHOWN, effects=[0.15]), 0.02)
    assert text.startswith("m0 loses 0.150 [0.140, 0.160] of its accuracy")
    (text,) = finding(rows(SHOWN, OPEN, effects=[0.15, 0.0]), 0.02)
    assert text.startswith("One of 2 models, m0, loses 0.150 [0.140, 0.160]")


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ([OPEN] * 3, "No direct effect of contamination is shown."),
        (
            [Overfitting.BORROWED] * 3,
            "by themselves neither show nor rule out the direct effect: the estimate rests on",
        ),
        ([SMALL] * 3, "The direct effect of contamination on every accuracy is within ±0.03."),
        (
            [SMALL, Overfitting.CLEAN],
            "The direct effect of contamination on every accuracy is within ±0.03 where it varies.",
        ),
        ([SMALL, OPEN], "For 1 model the direct effect is at most small (within ±0.03)."),
        ([Overfitting.NO_VARIATION] * 3, "These data cannot show whether contamination raises"),
        ([Overfitting.NO_VARIATION] * 3, "no effect can be estimated"),
        ([Overfitting.CLEAN] * 3, "zero by assumption (declared clean)"),
        ([Overfitting.NONE] * 3, "There is no contamination to correct for."),
        ([Overfitting.OPPOSITE] * 3, "scores fall with contamination"),
        ([Overfitting.BY_REFERENCE] * 3, "depends on the reference contamination"),
        (
            [Overfitting.SIGN_ASSUMED] * 3,
            "the direct effect is 0.05 to 0.20, if contamination does not",
        ),
    ],
)
def test_where_nothing_is_shown_no_effect_is_claimed(kinds: list[Overfitting], said: str) -> None:
    (text,) = finding(rows(*kinds), 0.03)
    assert said in text
    assert "lose" not in text


def test_every_verdict_that_occurs_is_mentioned_with_its_count() -> None:
    kinds = [kind for i, kind in enumerate(Overfitting) for _ in range(i + 1)]
    (text,) = finding(rows(*kinds), 0.02)
    counts = [int(found) for found in re.findall(r"For (\d+) models?", text)]
    assert text.startswith("One of 66 models, m0, loses")
    assert sorted(counts) == list(range(2, len(Overfitting) + 1))


def test_few_benchmarks_have_a_paragraph_each_and_many_share_one() -> None:
    one, other = rows(SHOWN, OPEN), rows(SMALL, SMALL, benchmark="exam")
    first, second = finding(pd.concat([one, other], ignore_index=True), 0.02)
    assert first.startswith("quiz: One of 2 models, m0, loses")
    assert second == "exam: The direct effect of contamination on every accuracy is within ±0.02."
    many = [rows(SHOWN, OPEN, benchmark=f"b{i}") for i in range(6)]
    (text,) = finding(pd.concat(many, ignore_index=True), 0.02)
    assert text.startswith("2 models on 6 benchmarks: Six of 12 scores lose 0.050 of their")


def test_without_contamination_the_best_model_is_the_finding() -> None:
    (text,) = finding(abilities([1.0, 2.0, 3.0]), 0.02)
    assert text == (
        "m0 ranks first of 3 models, with an accuracy of 0.900 [0.880, 0.920]; it is the best with"
        " probability 0.750."
    )
    (text,) = finding(abilities([1.0]), 0.02)
    assert text == "The accuracy of m0 is 0.900 [0.880, 0.920]."
    (text,) = finding(abilities([np.nan] * 3), 0.02)
    assert text == (
        "Accuracies of 3 models are 0.50 to 0.90. They are over different items and cannot be"
        " compared: there are no ranks."
    )
    many = pd.concat([abilities([1.0, 2.0], f"b{i}") for i in range(7)], ignore_index=True)
    (text,) = finding(many, 0.02)
    assert text == (
        "2 models on 7 benchmarks: m0 ranks first on 7 of them, more often than any other."
    )


def test_hostile_names_stay_on_one_short_line() -> None:
    table = rows(SHOWN).assign(model="<b>\n\x07" + "m" * 10_000)
    (text,) = finding(table, 0.02)
    assert len(text) < 400
    assert "\n" not in text
    assert "\x07" not in text
