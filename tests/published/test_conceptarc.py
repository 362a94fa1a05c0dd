"""ConceptARC done again: what is counted, pooled and compared."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import beta

from bayescontam.data.published_tables import read_printed, read_published
from bayescontam.errors import UsageError
from bayescontam.published.study import Study
from bayescontam.specs.registry import shipped_folder
from bayescontam.specs.study import ReproductionSpec
from studies import conceptarc
from studies.conceptarc import (
    FIRST,
    HUMANS,
    SECOND,
    TABLE,
    alone,
    disagreements,
    gap,
    item_responses,
    p_best,
    table_responses,
)
from tests.support.made_findings import Quick
from tests.support.real_data import shared


@pytest.fixture(scope="module")
def printed() -> pd.DataFrame:
    table = read_printed(TABLE).drop(columns="source")
    return table.melt("concept", var_name="model", value_name="printed")


@pytest.fixture(scope="module")
def draws() -> xr.DataArray:
    """Three draws of two solvers on two concepts."""
    values = np.array(
        [[[0.9, 0.2], [0.5, 0.6]], [[0.8, 0.7], [0.4, 0.6]], [[0.7, 0.7], [0.9, 0.6]]]
    )
    names = {"model": [FIRST, SECOND], "concept": ["Copy", "Order"]}
    return xr.DataArray(values, names, ("sample", "model", "concept"))


def study_at(folder: Path, data: Path | None) -> Study:
    text = (shipped_folder("studies") / "conceptarc.toml").read_text()
    spec = ReproductionSpec.parse(text, "conceptarc")
    return Quick(spec, spec.at_size(False), read_published(spec.published), folder, data)


def test_counts_amount_to_the_printed_accuracies_of_programs(printed: pd.DataFrame) -> None:
    frame = table_responses(printed, 30).frame
    assert len(frame) == 64
    assert set(frame["n_trials"]) == {30}
    both = frame.merge(printed, on=["model", "concept"])
    off = (both["n_correct"] / 30 - both["printed"]).abs()
    assert off[both["model"] != HUMANS].max() < 0.005
    assert off.max() <= 0.5 / 30 + 1e-12


def test_the_printed_gaps_are_those_of_the_printed_table(printed: pd.DataFrame) -> None:
    means = printed.groupby("model")["printed"].mean()
    gaps = read_published("conceptarc").set_index("where")["value"]
    assert gaps[f"{HUMANS} - {FIRST}"] == pytest.approx(means[HUMANS] - means[FIRST], abs=0.005)
    assert gaps[f"{FIRST} - {SECOND}"] == pytest.approx(means[FIRST] - means[SECOND], abs=0.005)


def test_the_share_of_draws_in_which_a_solver_leads_is_its_probability(
    draws: xr.DataArray,
) -> None:
    table = p_best(draws)
    assert table.index.to_list() == ["Copy", "Order"]
    assert table.loc["Copy"].to_list() == pytest.approx([2 / 3, 1 / 3])
    assert table.loc["Order"].to_list() == pytest.approx([2 / 3, 1 / 3])


def test_gaps_are_taken_draw_by_draw(draws: xr.DataArray) -> None:
    assert gap(draws, FIRST, SECOND).sel(concept="Copy").to_numpy() == pytest.approx(
        [0.4, 0.4, -0.2]
    )


def test_an_accuracy_alone_has_the_interval_of_its_count() -> None:
    low, high = alone(1 / 30, 30)
    assert low == pytest.approx(beta.ppf(0.025, 1, 30))
    assert high == pytest.approx(beta.ppf(0.975, 2, 29))


def test_single_items_carry_the_printed_names(printed: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text(
        "model,benchmark,item,n_correct,n_trials,minimal,concept\n"
        "people,c,a,8,9,False,SameDifferent\n"
        "people,c,m,9,9,True,SameDifferent\n"
        "other,c,a,1,1,False,SameDifferent\n"
        "people,c,b,7,9,False,TopBottom2D\n"
    )
    frame = item_responses(path, {"people": HUMANS}, printed).frame
    assert frame["item"].to_list() == ["a", "b"]
    assert frame["concept"].to_list() == ["Same and Different", "Top and Bottom 2D"]
    assert set(frame["model"]) == {HUMANS}


def test_a_concept_that_is_not_printed_is_refused(printed: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    head = "model,benchmark,item,n_correct,n_trials,minimal,concept\n"
    path.write_text(f"{head}people,c,a,8,9,False,Copy\npeople,c,b,8,9,False,Kopy\n")
    with pytest.raises(UsageError, match="concept: no printed concept is called 'Kopy'"):
        item_responses(path, {"people": HUMANS}, printed)


def test_cells_that_the_items_do_not_amount_to_are_reported() -> None:
    printed = pd.DataFrame({"model": FIRST, "concept": ["Copy", "Order"], "printed": [0.50, 0.33]})
    answers = pd.DataFrame(
        {
            "model": FIRST,
            "concept": ["Copy"] * 5 + ["Order"] * 3,
            "n_correct": [1, 1, 1, 0, 0, 1, 0, 0],
            "n_trials": 1,
        }
    )
    assert disagreements(printed, answers) == [
        "first program on Copy: 0.50 is printed, the single items amount to 0.60."
    ]
    notes = disagreements(printed, answers[answers["concept"] == "Order"])
    assert notes == ["first program on Copy: 0.50 is printed, there are no single items."]


def test_one_cell_of_the_shared_items_differs_from_print(printed: pd.DataFrame) -> None:
    settings = study_at(Path(), None).settings
    frame = item_responses(shared("conceptarc.csv"), settings["solvers"], printed).frame
    notes = disagreements(printed, frame)
    assert len(notes) == 1
    assert notes[0].startswith("first program on Top and Bottom 3D: 0.50 is printed")


@pytest.mark.slow
def test_the_printed_table_alone_is_a_whole_study(tmp_path: Path, printed: pd.DataFrame) -> None:
    study = study_at(tmp_path, None)
    findings = conceptarc.analyse(study)
    assert any("not in the data folder" in note for note in findings.notes)
    assert len(findings.comparisons) == 2 + 64
    cells = [c for c in findings.comparisons if c.quantity == "accuracy"]
    assert {round(c.published, 2) for c in cells} == set(printed["printed"])
    inside = [cell.low <= cell.published <= cell.high for cell in cells]
    assert sum(inside) >= 58
    # On the whole pooled intervals are narrower than those of cells that stand alone.
    own = [cell.high - cell.low for cell in cells]
    apart = [np.diff(alone(cell.published, 30))[0] for cell in cells]
    assert np.mean(own) < np.mean(apart)
    # The stored fit is used again.
    again = conceptarc.analyse(study)
    assert [c.ours for c in again.comparisons] == [c.ours for c in findings.comparisons]
