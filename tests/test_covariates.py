"""Covariates: validated like responses, and joined to them without silent losses."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.covariates import Covariates, read_covariates
from bayescontam.errors import DataError, UsageError
from bayescontam.responses import Responses
from tests.data import names


def _covariates(**columns: Any) -> pd.DataFrame:
    plain = {
        "benchmark": ["b", "b", "c"],
        "item": ["1", "2", "1"],
        "contamination": [0.2, 0.6, 1.0],
    } | columns
    return pd.DataFrame({name: cells for name, cells in plain.items() if cells is not None})


def _responses(*keys: str) -> Responses:
    """Responses whose keys are written "model benchmark item"."""
    frame = pd.DataFrame([key.split() for key in keys], columns=["model", "benchmark", "item"])
    return Responses.from_frame(frame.assign(correct=1, extra="x"))


def test_columns_are_typed_and_ordered(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "stage,contamination_sd,contamination,item,benchmark,top_cosine\n"
        "judged,0.1,1,007,NA,0.9\ncurve,0,.5,8,NA,1\n"
    )
    covariates = read_covariates(path)
    assert covariates.source == str(path)
    assert covariates.frame.to_dict("list") == {
        "benchmark": ["NA", "NA"],
        "item": ["007", "8"],
        "contamination": [1, 0.5],
        "contamination_sd": [0.1, 0],
        "stage": ["judged", "curve"],
        "top_cosine": [0.9, 1],
    }


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (_covariates(contamination=None, Contamination=1), "did you mean 'Contamination'"),
        (_covariates(item=None), "item: no such column"),
        (_covariates(contamination=[0, 1.5, 0]), "row 2: contamination: got 1.5"),
        (_covariates(contamination=[0, np.nan, 0]), "row 2: contamination: missing value"),
        (_covariates(contamination_sd=[0, -1, 0]), "row 2: contamination_sd: got -1"),
        (_covariates(contamination_sd=np.inf), "rows 1, 2, 3: contamination_sd: got inf"),
        (_covariates(p_duplicate=[0, 0, 2]), "row 3: p_duplicate: got 2"),
        (_covariates(p_duplicate_sd=0.1), "p_duplicate_sd: is of no use without"),
        (_covariates(p_duplicate=0, p_duplicate_sd="x"), "rows 1, 2, 3: p_duplicate_sd: got 'x'"),
        (_covariates(item=["1", "1", "1"]), "row 2: item: same benchmark, item as row 1"),
        (_covariates(item=["1", "", "1"]), "row 2: item: blank name"),
        (
            _covariates(benchmark="b", item="1", model=["", "A", " "]),
            "row 3: model: same benchmark, item, model as row 1",
        ),
    ],
)
def test_bad_tables_are_refused(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Covariates.from_frame(frame)


@given(st.lists(st.tuples(names(), names()), min_size=1, unique=True), st.data())
def test_every_response_gets_its_own_covariate(
    keys: list[tuple[str, str]], data: st.DataObject
) -> None:
    table = pd.DataFrame(keys, columns=["benchmark", "item"])
    table["contamination"] = np.linspace(0, 1, len(keys))
    shuffled = table.iloc[data.draw(st.permutations(range(len(keys))))]
    responses = Responses.from_frame(
        table.drop(columns="contamination").assign(model="m", correct=0)
    )
    joined = responses.with_contamination(Covariates.from_frame(shuffled))
    assert joined.notes == ()
    found = joined.frame.set_index(["benchmark", "item"])["contamination"]
    assert found.to_dict() == dict(zip(keys, table["contamination"], strict=True))


def test_a_row_for_one_model_goes_before_the_row_for_all() -> None:
    covariates = Covariates.from_frame(
        pd.DataFrame(
            [("b", "1", "", 0.1), ("b", "1", "B", 0.9), ("b", "2", "A", 0.5), ("b", "2", "Z", 0)],
            columns=["benchmark", "item", "model", "contamination"],
        )
    )
    responses = _responses("A b 1", "A b 2", "B b 1")
    joined = responses.with_contamination(covariates)
    assert joined.frame["contamination"].tolist() == [0.1, 0.5, 0.9]
    assert joined.notes == ("1 of 4 covariate rows match no response",)
    with pytest.raises(DataError, match="no contamination for benchmark 'b', item '2', model 'B'"):
        _responses("A b 2", "B b 2").with_contamination(covariates)


def test_uncertainty_comes_along_in_order() -> None:
    table = _covariates(p_duplicate_sd=0.1, p_duplicate=0.3, contamination_sd=0.2, stage="s")
    joined = _responses("A b 1").with_contamination(Covariates.from_frame(table))
    assert list(joined.frame.columns[5:]) == [
        "contamination",
        "contamination_sd",
        "p_duplicate",
        "p_duplicate_sd",
        "extra",
    ]
    assert joined.notes == ("2 of 3 covariate rows match no response",)


def test_unmatched_items_are_listed() -> None:
    responses = _responses("A b 1", "A b 3", "B b 3", "A d 9")
    with pytest.raises(DataError, match=r"3 responses .*benchmarks are 'b', 'c'") as caught:
        responses.with_contamination(Covariates.from_frame(_covariates()))
    assert [fault.problem for fault in caught.value.faults] == [
        "no contamination for benchmark 'b', item '3'",
        "no contamination for benchmark 'd', item '9'",
    ]


def test_unmatched_items_are_dropped_on_request() -> None:
    responses = _responses("A b 1", "A b 3", "B b 3", "B c 1")
    joined = responses.with_contamination(Covariates.from_frame(_covariates()), missing="drop")
    assert joined.frame["contamination"].tolist() == [0.2, 1.0]
    assert joined.frame.index.tolist() == [0, 1]
    assert joined.notes == (
        "1 of 3 covariate rows match no response",
        "dropped 2 of 4 responses (1 items) without a contamination",
    )
    with pytest.raises(DataError, match="no contamination"):
        _responses("A d 1").with_contamination(Covariates.from_frame(_covariates()), missing="drop")


def test_unmatched_items_are_imputed_on_request() -> None:
    table = _covariates(contamination_sd=0.01, p_duplicate=[0, 1, 0.5], p_duplicate_sd=0)
    responses = _responses("A b 1", "A b 2", "B b 2", "B b 3", "B c 1", "B c 2")
    joined = responses.with_contamination(Covariates.from_frame(table), missing="impute").frame
    # The matched responses: 0.2, 0.6, 0.6, each unsure by 0.01, and 0, 1, 1, each sure.
    measures = ["contamination", "contamination_sd", "p_duplicate", "p_duplicate_sd"]
    values = joined.query("benchmark == 'b' and item == '3'")[measures].iloc[0]
    expected = [1.4 / 3, np.hypot(np.std([0.2, 0.6, 0.6]), 0.01), 2 / 3, 0]
    np.testing.assert_allclose(values.to_numpy(dtype=float), expected)
    # One matched row shows no spread: the most that there can be about its mean, which is 1.
    values = joined.query("benchmark == 'c' and item == '2'")[measures].iloc[0]
    np.testing.assert_allclose(values.to_numpy(dtype=float), [1, 0, 0.5, 0])


def test_imputing_is_noted_and_needs_a_match_in_the_benchmark() -> None:
    covariates = Covariates.from_frame(_covariates())
    joined = _responses("A b 1", "A b 2", "A b 3").with_contamination(covariates, missing="impute")
    assert joined.notes[-1] == (
        "1 of 3 responses of 'b' have no covariate and got its mean contamination 0.4"
    )
    with pytest.raises(DataError, match="no contamination for benchmark 'd', item '1'"):
        _responses("A b 1", "A d 1").with_contamination(covariates, missing="impute")


def test_options_and_clashes_are_refused() -> None:
    covariates = Covariates.from_frame(_covariates(p_duplicate=0))
    with pytest.raises(UsageError, match="allowed are 'error', 'drop' and 'impute'"):
        _responses("A b 1").with_contamination(covariates, missing="zero")  # type: ignore[arg-type]
    frame = _responses("A b 1").frame.assign(p_duplicate=0.5)
    with pytest.raises(UsageError, match="has 'p_duplicate' already"):
        Responses.from_frame(frame).with_contamination(covariates)
