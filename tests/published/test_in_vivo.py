"""The in-vivo study: what of a lab's answers it compares, and what its fits are given."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from studies import in_vivo
from studies._laboratory import clean_scores, responses_of, seed_spread

BASES, ITEMS = ("base-0", "base-1", "base-2"), 10
MIXES = {"clean": 0, "clean-2": 0, "exact-4": 4}


def answers(gain: float = 0.2) -> pd.DataFrame:
    """Return answers whose accuracies are known: 0.4 and by base, mix and half."""
    rows = [
        {
            "model": f"{base}-{mix}", "base": base, "mix": mix, "benchmark": benchmark,
            "item": f"{benchmark}-{at}", "half": half,
            "contamination": float(half == "seen" and copies > 0),
            "p": 0.4 + 0.1 * number + (gain if copies and half == "seen" else 0.0)
            + (0.02 if mix == "clean-2" else 0.0),
            "n_correct": at % 5, "n_trials": 8,
        }
        for number, base in enumerate(BASES)
        for mix, copies in MIXES.items()
        for benchmark in ("sums", "clock")
        for at in range(ITEMS)
        for half in ["control" if benchmark == "clock" else ("seen", "unseen")[at % 2]]
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_honest_score_is_the_mean_of_clean_models_with_their_chance() -> None:
    table = clean_scores(answers(), {"clean", "clean-2"}).set_index(["base", "benchmark"])
    assert table.loc[("base-1", "sums"), "truth"] == pytest.approx(0.51)
    # Two models that differ by 0.02: the variance of one is 0.02² / 2, of their mean half of that.
    assert table["truth_se"].to_numpy() == pytest.approx(np.full(6, 0.01))


def test_the_spread_of_clean_models_is_that_between_bases() -> None:
    table = seed_spread(answers(), "clean").set_index("benchmark")
    assert list(table.index) == ["sums", "clock", "all with duplicates"]
    assert table["sd between bases"].to_numpy() == pytest.approx(np.full(3, 0.1))
    assert table.loc["sums", "accuracy"] == pytest.approx(0.5)


def test_kinds_are_named_of_contaminated_rows_alone() -> None:
    table = answers()
    frame = responses_of(table, table["contamination"]).frame
    met = frame["contamination"] > 0
    assert set(frame.loc[met, "duplicate_kind"]) == {"exact-4"}
    assert met.sum() == len(BASES) * ITEMS // 2


def test_every_base_is_withheld_once() -> None:
    class Given:
        settings = {"folds": 2}  # noqa: RUF012

    folds = in_vivo._folds(Given(), answers())  # type: ignore[arg-type]
    assert folds == [["base-0", "base-2"], ["base-1"]]
    Given.settings = {"folds": 9}
    assert in_vivo._folds(Given(), answers()) == [[b] for b in BASES]  # type: ignore[arg-type]


def cells(**columns: Any) -> pd.DataFrame:
    """Return two cells of each way, one of which misses by 0.1."""
    rows = [
        {
            "way": way, "base": "base-0", "mix": "exact-4", "benchmark": benchmark, "mean": 0.5,
            "low": 0.4, "high": 0.6, "truth": truth, "truth_se": 0.0, "verdict": "shown",
            "with duplicates": benchmark == "sums",
        }
        for way in (in_vivo.RAW, in_vivo.BOOTSTRAP, *in_vivo._FITS)
        for benchmark, truth in (("sums", 0.7), ("clock", 0.5))
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**columns)


def test_ways_are_scored_by_their_intervals() -> None:
    table = in_vivo._scores(cells()).set_index(["way", "benchmarks"])
    sums = table.loc[(in_vivo.TWINS, "with duplicates")]
    assert (sums["cells"], sums["coverage"]) == (1, 0.0)
    assert sums["bias"] == pytest.approx(-0.2)
    assert sums["interval score"] == pytest.approx(0.2 + 40 * 0.1)
    assert table.loc[(in_vivo.TWINS, "control"), "coverage"] == 1.0


def test_intervals_have_the_error_of_the_truth_in_them() -> None:
    wide = in_vivo._widened(cells(truth_se=0.1 / 1.959964))
    assert wide["high"].to_numpy() == pytest.approx(np.full(12, 0.5 + 0.1 * 2**0.5))
    assert in_vivo._widened(cells())["high"].to_numpy() == pytest.approx(np.full(12, 0.6))


def test_misses_are_those_outside_and_name_how_far() -> None:
    misses = in_vivo._misses(cells())
    assert set(misses["way"]) == {in_vivo.TWINS, in_vivo.SPILLOVER, in_vivo.SCANNED}
    assert misses["off"].to_numpy() == pytest.approx(np.full(3, -0.2))
    assert in_vivo._misses(cells(truth=0.5)).empty


def test_raw_scores_have_the_interval_of_their_items() -> None:
    table = in_vivo._raw(answers(), ["exact-4"])
    assert len(table) == len(BASES) * 2
    share = np.arange(ITEMS) % 5 / 8
    half = 1.959964 * share.std(ddof=1) / ITEMS**0.5
    assert table["mean"].to_numpy() == pytest.approx(np.full(6, share.mean()))
    assert (table["high"] - table["low"]).to_numpy() == pytest.approx(np.full(6, 2 * half))
