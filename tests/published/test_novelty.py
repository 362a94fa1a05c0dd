"""Novelty: a whole analysis, small, with short fits."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.published_tables import read_published
from bayescontam.published.findings import Findings, Record
from studies import novelty
from tests.support.made_findings import RUN, TEXT, Quick, spec

SETTINGS = {"tasks": 80, "levels": 4, "genuine": 0.02, "boost": 0.95, "resamples": 200,
            "exposures": [0.0, 1.0, 1, 1], "tables": 4}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    folder = tmp_path_factory.mktemp("novelty")
    study = Quick(spec(), SETTINGS, read_published("arc_novelty"), folder)
    with pytest.MonkeyPatch.context() as patch:
        kept = novelty.ALONE, novelty.LINE
        patch.setattr(novelty, "MODELS", {name: novelty.MODELS[name] for name in kept})
        return novelty.analyse(study)


def test_accuracies_are_those_of_their_own_level(found: Findings) -> None:
    table = found.tables[1].table
    observed = table["observed"].to_numpy()
    assert np.ptp(observed) > 0.4  # else the order of levels would not matter
    # A prior of Normal(0, 1) on the log-odds weighs little against 80 answers.
    assert table[novelty.ALONE].to_numpy() == pytest.approx(observed, abs=0.05)
    assert table[novelty.LINE].to_numpy() == pytest.approx(table["true accuracy"], abs=0.12)
    assert (np.diff(table["mean contamination"]) < 0).all()
    truth = 0.02 + 0.95 * table["mean contamination"]
    assert table["true accuracy"].to_numpy() == pytest.approx(truth.to_numpy())


def test_the_gap_is_between_the_outermost_levels(found: Findings) -> None:
    levels, gaps = found.tables[1].table, found.tables[0].table.set_index("method")
    for name in (novelty.ALONE, novelty.LINE):
        ends = levels[name].to_numpy()[[0, -1]]
        assert gaps.loc[name, "gap"] == pytest.approx(ends[0] - ends[1])
    observed = levels["observed"].to_numpy()
    resampled = gaps.loc["resampled tasks of each level", "gap"]
    assert resampled == pytest.approx(observed[0] - observed[-1], abs=0.03)
    assert gaps["truth"].nunique() == 1
    assert (gaps["low"] < gaps["gap"]).all()
    assert (gaps["gap"] < gaps["high"]).all()


def test_single_tasks_differ_more_than_levels(found: Findings) -> None:
    extreme = found.tables[2].table
    assert extreme["method"].tolist() == [novelty.LINE]
    assert extreme["truth"].iloc[0] > found.tables[0].table["truth"].iloc[0]
    assert extreme["low"].iloc[0] < extreme["truth"].iloc[0] < extreme["high"].iloc[0]


def test_findings_have_pictures_of_all_and_can_be_stored(found: Findings, tmp_path: Path) -> None:
    Record("novelty", TEXT, (RUN,), found).save(tmp_path)
    again = Record.load(tmp_path).findings
    assert [picture.kind for picture in again.pictures] == ["curves", "intervals", "shares"]
    for one, other in zip(again.pictures, found.pictures, strict=True):
        pd.testing.assert_frame_equal(one.table, other.table.reset_index(drop=True))
    printed = [row for row in again.comparisons if row.quantity == "empirical gap"]
    assert {row.published for row in printed} == {0.12}
    assert {(row.published_low, row.published_high) for row in printed} == {(0.027, 0.217)}
