"""Ranks in the form that ArviZ draws."""

from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pytest

from bayescontam import StudyResults
from bayescontam.calibration.sbc import ranked
from bayescontam.errors import UsageError
from tests.support.study_rows import made_rows
from tests.support.study_run import faulty, study_text, write_run

PAIRS = ["model 1 | bench 1", "model 2 | bench 1"]


@pytest.fixture
def results(tmp_path: Path) -> StudyResults:
    text = study_text(names=("exact", "narrow"))
    return StudyResults.load(write_run(tmp_path / "run", faulty(), text))


def test_values_are_those_that_are_tested(results: StudyResults) -> None:
    ranks = results.ranks("exact")["prior_sbc"].to_dataset()
    assert dict(ranks["genuine_ability_direct"].sizes) == {
        "chain": 1, "draw": 400, "genuine_ability_direct_where": 2,
    }  # fmt: skip
    assert ranks["beta_bar"].dims == ("chain", "draw")
    assert ranks.attrs == {"n_left_out": 0, "estimator": "exact", "cell": ""}
    used = ranked(results.rows).query(
        "estimator == 'exact' and quantity == 'genuine_ability_direct'"
    )
    for where in PAIRS:
        own = used[used["where"] == where].set_index("replicate")["u"]
        found = (
            ranks["genuine_ability_direct"].sel(genuine_ability_direct_where=where).isel(chain=0)
        )
        pd.testing.assert_series_equal(found.to_series(), own, check_names=False)


def test_arviz_draws_them_and_finds_what_is_wrong(results: StudyResults) -> None:
    for name, right in (("exact", True), ("narrow", False)):
        tree = results.ranks(name)
        drawn = az.plot_ecdf_pit(tree, var_names="genuine_ability_direct", backend="matplotlib")
        for where in PAIRS:
            line = drawn.viz["ecdf_lines"]["genuine_ability_direct"]
            x, y = line.sel(genuine_ability_direct_where=where).item().get_data()
            u = (
                tree["prior_sbc"]["genuine_ability_direct"]
                .sel(genuine_ability_direct_where=where)
                .to_numpy()
            )
            expected = [(u <= at).mean() - at for at in x[1:-1:20]]
            np.testing.assert_allclose(y[1:-1:20], expected, atol=1 / 400 + 1e-9)
        values = tree["prior_sbc"].to_dataset()[["genuine_ability_direct"]]
        p, *_ = values.azstats.uniformity_test(dim=["chain", "draw"], method="pot_c")
        assert (
            (p["genuine_ability_direct"] > 0.01).all()
            if right
            else (p["genuine_ability_direct"] < 1e-6).all()
        )


def test_a_replicate_without_all_ranks_is_left_out_and_counted(tmp_path: Path) -> None:
    rows = pd.concat([made_rows(30, 1), made_rows(30, 2, quantity="slope")], ignore_index=True)
    rows.loc[[4, 37], ["rank", "ranks"]] = -1, 0
    tree = StudyResults.load(write_run(tmp_path / "run", {"a": rows}, study_text())).ranks()
    ranks = tree["prior_sbc"].to_dataset()
    assert ranks.attrs["n_left_out"] == 2
    assert ranks["draw"].to_numpy().tolist() == [n for n in range(30) if n not in (4, 7)]
    assert not np.isnan(ranks["slope"]).any()


def test_the_estimator_and_the_cell_are_chosen(results: StudyResults, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"estimator: there are several; .*'exact', 'narrow'"):
        results.ranks()
    with pytest.raises(UsageError, match=r"estimator: got 'bare'; .*'exact', 'narrow'"):
        results.ranks("bare")
    grid = "[grid]\nitems = [20, 40]\n"
    cells = [made_rows(12, n, cell=f"items={n}") for n in (20, 40)]
    rows = pd.concat(cells, ignore_index=True)
    of_cells = StudyResults.load(write_run(tmp_path / "cells", {"a": rows}, study_text(grid=grid)))
    with pytest.raises(UsageError, match=r"cell: there are several; .*'items=20', 'items=40'"):
        of_cells.ranks()
    assert of_cells.ranks(cell="items=40")["prior_sbc"].attrs["cell"] == "items=40"


def test_quantities_are_chosen_where_one_has_few_ranks_or_no_name_for_a_variable(
    tmp_path: Path,
) -> None:
    rare = made_rows(30, 2, quantity="rare").assign(rank=-1, ranks=0)
    rare.loc[0, ["rank", "ranks"]] = 5, 99
    odd = made_rows(30, 3, quantity="a/b")
    rows = pd.concat([made_rows(30, 1)[1:], rare, odd], ignore_index=True)
    results = StudyResults.load(write_run(tmp_path / "run", {"a": rows}, study_text()))
    with pytest.raises(UsageError, match="'a/b' cannot be the name of a variable"):
        results.ranks()
    with pytest.raises(UsageError, match="no replicate has a rank of every quantity; 'rare' has"):
        results.ranks(quantities=["mu", "rare"])
    with pytest.raises(UsageError, match=r"quantities: got 'nu'; with ranks there are 'a/b', "):
        results.ranks(quantities=["nu"])
    found = results.ranks(quantities=["mu"])["prior_sbc"].to_dataset()
    assert (list(found), found.sizes["draw"], found.attrs["n_left_out"]) == (["mu"], 29, 0)


def test_what_has_no_ranks_is_reported(tmp_path: Path) -> None:
    fixed = write_run(tmp_path / "fixed", {"a": made_rows(30, 1)}, study_text("fixed"))
    with pytest.raises(UsageError, match="got 'fixed', whose true values are not drawn"):
        StudyResults.load(fixed).ranks()
    begun = write_run(tmp_path / "begun", {}, study_text())
    with pytest.raises(UsageError, match="no ranks yet"):
        StudyResults.load(begun).ranks()
