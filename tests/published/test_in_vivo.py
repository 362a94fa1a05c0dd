"""The in-vivo study: what of a lab's answers it compares, and what its fits are given."""

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayescontam as bc
from bayescontam.data.published_tables import read_published
from bayescontam.published.study import Study
from bayescontam.specs.registry import load_study
from bayescontam.specs.study import ReproductionSpec
from studies import _laboratory, in_vivo
from studies._common import coverage
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


def test_probabilities_of_a_scan_have_no_kind_in_clean_models() -> None:
    table = answers()
    frame = responses_of(table, table["contamination"] * 0.5 + 0.1).frame
    assert (frame["contamination"] > 0).all()
    clean = frame["model"].str.contains("clean")
    assert set(frame.loc[clean, "duplicate_kind"].fillna("")) == {""}
    assert in_vivo._FITS[in_vivo.SCANNED][2] == {}


def test_every_base_is_withheld_once() -> None:
    class Given:
        settings = {"folds": 2}  # noqa: RUF012

    folds = in_vivo._folds(Given(), answers())  # type: ignore[arg-type]
    assert folds == [["base-0", "base-2"], ["base-1"]]
    Given.settings = {"folds": 9}
    assert in_vivo._folds(Given(), answers()) == [[b] for b in BASES]  # type: ignore[arg-type]


def test_the_floor_of_a_scan_is_that_of_clean_models_on_benchmarks_with_duplicates() -> None:
    table = answers()
    seeming = table["mix"].map({"clean": 0.1, "clean-2": 0.3, "exact-4": 0.9})
    seeming[table["benchmark"] == "clock"] = 0.0
    assert in_vivo._floor(table, seeming, ["clean", "clean-2"], {"sums"}) == pytest.approx(0.2)
    none = table[table["mix"] == "exact-4"]
    assert in_vivo._floor(none, seeming[none.index], ["clean", "clean-2"], {"sums"}) == "zero"


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


def test_the_error_of_coverage_is_that_of_bases_and_benchmarks() -> None:
    # Four models of each of three bases: all miss, all hold, half of them hold.
    rows = [
        {"base": f"base-{base}", "benchmark": "sums", "low": 0.4, "high": 0.6,
         "truth": 0.5 if at < held else 0.7}
        for base, held in enumerate((0, 4, 2))
        for at in range(4)
    ]  # fmt: skip
    share, error = coverage(pd.DataFrame(rows), ["base", "benchmark"])
    assert (share, error) == pytest.approx((0.5, 0.5 / 3**0.5))
    assert coverage(pd.DataFrame(rows))[1] == pytest.approx((0.25 / 12) ** 0.5)
    none = pd.DataFrame(rows).assign(truth=0.7)
    # The standard deviation of Beta(4, 1) is (4 / 25 / 6)^(1/2).
    assert coverage(none, ["base"]) == pytest.approx((0.0, (4 / 150) ** 0.5))


def test_the_headline_says_how_few_scores_are_independent() -> None:
    spread = pd.DataFrame({"benchmark": ["all with duplicates"], "sd between bases": [0.02]})
    twice = pd.concat([cells(), cells(mix="exact-8"), cells(base="base-1")])
    headline = in_vivo._headline(twice, spread)
    assert headline.startswith("Of 3 honest scores")
    assert "They are of 2 pairs of base and benchmark" in headline
    assert headline.index("twins 0%") < headline.index("raw score 0%")


def test_pictures_show_the_way_to_the_total_that_was_taken() -> None:
    picture = in_vivo._scores_picture(cells())
    assert set(picture.table["series"]) == {in_vivo.RAW, in_vivo.DIRECT, in_vivo.TWINS}
    some = cells()
    picture = in_vivo._scores_picture(some[some["way"] != in_vivo.TWINS])
    assert set(picture.table["series"]) == {in_vivo.RAW, in_vivo.DIRECT, in_vivo.SCANNED}
    assert in_vivo._coverage_picture(cells()).mark == "claimed"


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


def test_verdicts_are_those_of_the_texts_origin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # In this process: others take longer to start than to scan.
    monkeypatch.setattr(bc, "run_scan", partial(bc.run_scan, jobs=1))
    spec, lab = load_study("in-vivo"), bc.load_lab("smoke")
    assert isinstance(spec, ReproductionSpec)
    study = Study(spec, spec.at_size(smoke=True), read_published(""), tmp_path)
    folder = bc.make_mixes(lab, tmp_path / "lab").folder
    scan = _laboratory._scan(study, lab, folder, 0)
    verdicts = _laboratory._judgements(study, lab, folder, scan).frame
    texts = {
        (mix.name, row["id"]): row
        for mix in lab.mixes
        for line in (folder / f"texts/base-0/{mix.name}.jsonl").read_text("utf-8").splitlines()
        for row in [json.loads(line)]
    }
    for row in verdicts.itertuples():
        text = texts[row.source, row.document]
        same = text["kind"] in ("exact", "semantic") and text["item"] == row.item
        assert row.is_duplicate == same
    assert 0 < verdicts["is_duplicate"].sum() < len(verdicts)
    # Equal texts are one match; that of each judged item with duplicates is found.
    exact = verdicts[(verdicts["source"] == "exact-4") & (verdicts["is_duplicate"] == 1)]
    judged = {text["item"] for text in texts.values()} & set(verdicts["item"])
    assert len(exact) == len(judged) > 0


def test_probabilities_are_by_the_source_that_a_mix_is(monkeypatch: pytest.MonkeyPatch) -> None:
    items = pd.DataFrame({"benchmark": ["sums", "sums"], "item": ["a", "b"]})
    lab = SimpleNamespace(mixes=[SimpleNamespace(name=name) for name in ("x", "y")])
    none = np.array([[[0.9, 0.2], [0.5, 0.4]], [[0.7, 0.0], [0.5, 0.2]]])  # draw, item, source
    weighed = SimpleNamespace(items=items, sources=("y", "x"), none_by_source=none)
    monkeypatch.setattr(bc, "item_contamination", lambda scan, curve: weighed, raising=False)
    scan: Any = None
    x, y = _laboratory._by_mix(lab, scan, scan)  # type: ignore[arg-type]
    assert (set(x["mix"]), set(y["mix"])) == ({"x"}, {"y"})
    assert x["p"].tolist() == pytest.approx([0.9, 0.7])
    assert y["p"].tolist() == pytest.approx([0.2, 0.5])
