from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.errors import UsageError
from bayescontam.inference import tables
from bayescontam.inference.result import Fit
from bayescontam.report.fit_page import whole_tables, write_report
from tests.report.conftest import BENCHMARKS, MODELS, UNANSWERED

EVERY = {
    "headline", "slopes", "better", "ranks", "curves", "sensitivity", "predicted", "predicted-bins",
    "convergence", "checks", "estimands", "items", "spillover-assumed",
}  # fmt: skip
WITHOUT_CONTAMINATION = {"slopes", "curves", "sensitivity", "predicted-bins", "spillover-assumed"}


@pytest.mark.usefixtures("undrawn")
def test_every_table_is_written_whole(hostile: Fit, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "tables"
    write_report(hostile, tmp_path / "page.html", tables_in=folder)
    assert {path.name for path in folder.iterdir()} == {f"{name}.csv" for name in EVERY}
    headline = pd.read_csv(folder / "headline.csv")
    wanted = tables.headline(hostile)
    # What a file keeps of a name is what CSV keeps.
    pd.testing.assert_series_equal(headline["overfitting_direct"], wanted["overfitting_direct"])
    assert list(headline["model"]) == list(wanted["model"])
    assert len(pd.read_csv(folder / "estimands.csv")) == len(hostile.estimands())


def test_without_contamination_there_are_fewer(by_concept: Fit) -> None:
    known = whole_tables(by_concept, by_concept.estimands())
    of_concepts = {"concepts", "mastery", "concepts-above", "concept-differences"}
    assert set(known) == EVERY - WITHOUT_CONTAMINATION | of_concepts


def test_probabilities_of_pairs_are_counted_from_the_draws(hostile: Fit) -> None:
    table = whole_tables(hostile, hostile.estimands())["better"]
    ability = hostile.data["estimands"]["genuine_ability_direct"]
    assert len(table) == 3 * 2 + 2 * 1
    for row in table.itertuples():
        one, other = (
            ability.sel(model=name, benchmark=row.benchmark).to_numpy().ravel()
            for name in (row.model, row.other)
        )
        # Stored draws are rounded, so that some are equal and count half.
        assert row.probability == np.mean((one > other) + (one == other) / 2)
    assert not ((table["benchmark"] == UNANSWERED[1]) & (table["model"] == UNANSWERED[0])).any()


def test_predicted_scores_are_quantiles_of_replicates(hostile: Fit) -> None:
    table = whole_tables(hostile, hostile.estimands())["predicted"]
    known = hostile.data["predictive"].to_dataset()
    assert len(table) == 5
    for row in table.itertuples():
        cell = known.sel(model=row.model, benchmark=row.benchmark)
        replicated = np.sort(cell["score_replicated"].to_numpy().astype(float))
        places = np.linspace(0, 1, len(replicated))
        assert row.score == float(cell["score"])
        for column, place in (("low_95", 0.025), ("median", 0.5), ("high_99", 0.995)):
            wanted = np.interp(place, places, replicated)
            assert getattr(row, column) == pytest.approx(wanted, rel=1e-5)
        z = abs(row.score - replicated.mean()) / replicated.std()
        assert row.surprise == pytest.approx(z, rel=1e-4)


def test_curves_and_bins_hold_what_is_drawn(hostile: Fit) -> None:
    known = whole_tables(hostile, hostile.estimands())
    curves = hostile.data["curves"].to_dataset()
    first = known["curves"].query("model == @MODELS[0] and benchmark == @BENCHMARKS[0]")
    here = curves.sel(model=MODELS[0], benchmark=BENCHMARKS[0])
    np.testing.assert_array_equal(first["mean"], here["mean"])
    np.testing.assert_array_equal(first["contamination"], here["contamination"])
    bins = known["predicted-bins"]
    seen = hostile.data["predictive"]["binned"].to_series().dropna()
    np.testing.assert_array_equal(bins["score"], seen)
    assert bins["contamination"].between(0, 1).all()


def test_a_folder_that_cannot_be_made_is_refused(hostile: Fit, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file: no folder can be made there"):
        write_report(hostile, tmp_path / "page.html", tables_in=tmp_path / "file")
