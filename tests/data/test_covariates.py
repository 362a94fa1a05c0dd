"""Covariates: validated like responses, and joined to them without silent losses."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.data.covariates import Covariates, read_covariates
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, UsageError
from tests.support.real_data import names


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


def plain_names() -> st.SearchStrategy[str]:
    """Return a strategy of names that are none beside others: 1.0 beside 1 is read as 1."""
    return names().filter(lambda name: re.fullmatch(r"[0-9]+\.0+", name) is None)


@given(st.lists(st.tuples(plain_names(), plain_names()), min_size=1, unique=True), st.data())
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
    with pytest.raises(DataError, match="no contamination for any response of 'B'"):
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
    with pytest.raises(DataError, match="benchmarks of DataFrame are 'b', 'c'") as caught:
        responses.with_contamination(Covariates.from_frame(_covariates()))
    assert [fault.problem for fault in caught.value.faults] == [
        "no contamination for 1 of 2 items of 'b': '3'",
        "no contamination for 1 of 1 items of 'd': '9'",
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
    with pytest.raises(DataError, match="no contamination for 1 of 1 items of 'd': '1'"):
        _responses("A b 1", "A d 1").with_contamination(covariates, missing="impute")


def test_options_and_clashes_are_refused() -> None:
    covariates = Covariates.from_frame(_covariates(p_duplicate=0))
    with pytest.raises(UsageError, match="allowed are 'error', 'zero', 'drop', 'impute'"):
        _responses("A b 1").with_contamination(covariates, missing="none")  # type: ignore[arg-type]
    frame = _responses("A b 1").frame.assign(p_duplicate=0.5)
    with pytest.raises(UsageError, match="has 'p_duplicate' already"):
        Responses.from_frame(frame).with_contamination(covariates)


def test_what_was_searched_and_not_found_is_zero() -> None:
    table = _covariates(contamination=1, contamination_sd=0.1, p_duplicate=0.9, p_duplicate_sd=0.2)
    responses = _responses("A b 1", "A b 3", "B b 3", "A d 9")
    joined = responses.with_contamination(Covariates.from_frame(table), missing="zero")
    measures = ["contamination", "contamination_sd", "p_duplicate", "p_duplicate_sd"]
    assert joined.frame[measures].to_numpy().tolist() == [[1, 0.1, 0.9, 0.2], *[[0.0] * 4] * 3]
    assert joined.notes[-1] == (
        "3 of 4 responses (2 items) without a covariate got contamination 0"
    )
    with pytest.raises(DataError, match="no contamination for 1 of 1 items of 'd': '9'"):
        _responses("A d 9").with_contamination(Covariates.from_frame(table), missing="zero")


def test_a_flagged_list_is_advised_to_be_zero_elsewhere_and_imputing_it_cautions() -> None:
    flagged = Covariates.from_frame(_covariates(contamination=1).head(1))
    responses = _responses(*(f"{model} b {item}" for model in "AB" for item in range(1, 5)))
    message = (
        r"no contamination for 3 of 4 items of 'b': '2', '3', '4'\n6 of 8 responses .*; add rows "
        r"for them, or choose --missing-contamination zero \(searched and not found\), drop or"
    )
    with pytest.raises(DataError, match=message):
        responses.with_contamination(flagged)
    imputed = responses.with_contamination(flagged, missing="impute")
    assert imputed.notes[-1].startswith(
        "caution: contamination of all items of 'b' is now 1: its effect cannot be estimated"
    )
    assert "--missing-contamination zero" in imputed.notes[-1]
    zero = responses.with_contamination(flagged, missing="zero")
    assert zero.frame["contamination"].tolist() == [1, 0, 0, 0] * 2
    assert not any(note.startswith("caution") for note in zero.notes)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"item": ["X1", "X2", "X1"]}, r"item of 'b': all 2 .* R puts .*\('1' here, 'X1' there\)"),
        ({"item": ["01", "02", "01"]}, "item of 'b': .* leading zeros"),
        ({"item": ["1.0", "2.0", "1.0"]}, "item of 'b': .* stored as floats"),
        ({"benchmark": ["B", "B", "C"]}, "benchmark: all 1 .* upper and lower case"),
        ({"benchmark": ["B", "B", "C"], "item": ["x", "y", "z"]}, "benchmark: all 1 .* lower"),
        ({"model": ["a", "a", "a"]}, "model: all 1 .* upper and lower case"),
    ],
)
def test_names_spelled_otherwise_are_recognised(columns: dict[str, Any], message: str) -> None:
    covariates = Covariates.from_frame(_covariates(**columns))
    responses = _responses("A b 1", "A b 2")
    for missing in ("error", "zero"):
        with pytest.raises(DataError, match=message):
            responses.with_contamination(covariates, missing=missing)  # type: ignore[arg-type]


def test_zero_does_not_hide_names_that_are_spelled_otherwise() -> None:
    table = _covariates(benchmark="b", item=["q01", "02", "03"])
    responses = _responses("A b q01", "A b 2", "A b 3")
    with pytest.raises(DataError, match="item of 'b': all 2 unmatched names differ by leading"):
        responses.with_contamination(Covariates.from_frame(table), missing="zero")
    dropped = responses.with_contamination(Covariates.from_frame(table), missing="drop")
    assert any(note.startswith("caution: item of 'b': all 2") for note in dropped.notes)


@pytest.mark.parametrize(
    ("column", "given", "message"),
    [
        (
            "item",
            ["7", "12", "100"],
            r"item of 'b', of DataFrame: all 2 unmatched names differ by leading zeros, .*"
            r"\('12' here, '012' there\)",
        ),
        ("item", ["q/007", "q/012", "100"], "item of 'b', of DataFrame: .* differ by 'q/' before"),
        ("benchmark", ["x/b", "x/b", "x/b"], "benchmark: all 1 .* differ by 'x/' before"),
    ],
)
def test_a_short_list_of_what_was_found_is_explained_by_its_own_names(
    column: str, given: list[str], message: str
) -> None:
    responses = _responses(*(f"A b {item:03d}" for item in range(1, 201)))
    flagged = _covariates(benchmark="b", item=["007", "012", "100"], contamination=1)
    covariates = Covariates.from_frame(flagged.assign(**{column: given}))
    with pytest.raises(DataError, match=message) as caught:
        responses.with_contamination(covariates, missing="zero")
    assert "choose --missing-contamination zero" not in str(caught.value)


def test_what_was_found_and_matches_nothing_is_named() -> None:
    responses = _responses(*(f"A b {item:03d}" for item in range(1, 201)), "A c 1")
    table = _covariates(item=["seven", "012", "1"], benchmark=["b", "b", "d"])
    found = responses.with_contamination(Covariates.from_frame(table), missing="zero")
    assert found.notes[1:3] == (
        "caution: benchmark: no response matches 'd' of DataFrame, and no row matches 'c'; if some "
        "are the same, write both alike",
        "caution: item of 'b': 1 with contamination above 0 in DataFrame match no response: "
        "'seven'; if they were answered under other names, those have contamination 0 now: write "
        "both alike",
    )


def test_a_list_of_more_than_was_answered_is_no_mismatch() -> None:
    table = _covariates(benchmark=["b", "b", "d"], item=["7", "1", "5"], model=["", "A", "C"])
    responses = _responses("A b 1", "A b 17", "A b 27")
    found = responses.with_contamination(Covariates.from_frame(table), missing="zero")
    assert found.frame["contamination"].tolist() == [0.6, 0, 0]
    assert not any("differ by" in note or "model" in note for note in found.notes)


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (["90", "40", "1"], "p_duplicate: where numbers are per cent, divide by 100"),
        (["90%", "40%", "1%"], "p_duplicate: per cent: divide by 100"),
    ],
)
def test_the_scale_of_contamination_is_no_advice_on_other_columns(
    cells: list[str], advice: str
) -> None:
    table = _covariates(contamination=[90, 50, 1], p_duplicate=cells)
    with pytest.raises(DataError) as caught:
        Covariates.from_frame(table, contamination_scale="percent")
    assert str(caught.value).splitlines()[-1] == advice


def test_two_spellings_of_an_item_are_refused() -> None:
    table = _covariates(benchmark="b", item=["1", "1 ", "2"])
    with pytest.raises(DataError, match="row 2: item: got '1 ', and elsewhere the same without"):
        Covariates.from_frame(table)
    table = _covariates(benchmark="b", item=["1", "2.0", "2"])
    with pytest.raises(DataError, match=r"row 3: .* same benchmark, item as row 2.*\nitem: .*2\.0"):
        Covariates.from_frame(table)


def test_columns_that_count_in_responses_alone_are_named() -> None:
    table = _covariates(benchmark="b", item=["1", "2", "3"], guess=0.25, clean=1, topic="t")
    notes = Covariates.from_frame(table).notes
    assert notes == (
        "DataFrame: 'clean', 'guess' not used: these columns belong in the table of responses",
    )
    assert Covariates.from_frame(table.drop(columns=["guess", "clean"])).notes == ()


@pytest.mark.parametrize("name", ["NA", "nan", "None", "N/A"])
def test_na_is_no_model_unless_one_is_so_named(name: str) -> None:
    covariates = Covariates.from_frame(_covariates(benchmark="b", model=["A", name, ""]))
    message = rf"row 2: model: got '{name}', and no response is of a model of that name; leave the"
    with pytest.raises(DataError, match=message):
        _responses("A b 1", "B b 1").with_contamination(covariates, missing="zero")
    found = _responses("A b 1", f"{name} b 2").with_contamination(covariates)
    assert found.frame["contamination"].tolist() == [0.2, 0.6]


@pytest.mark.parametrize("missing", ["zero", "impute", "drop"])
def test_a_model_of_another_name_is_named(missing: Any) -> None:
    table = _covariates(benchmark="b", item=["1", "2", "1"], model=["A", "A", "model-B-hf"])
    responses = _responses("A b 1", "A b 2", "org/B b 1")
    found = responses.with_contamination(Covariates.from_frame(table), missing=missing)
    assert (
        "caution: model: no response matches 'model-B-hf' of DataFrame, and no row matches "
        "'org/B'; if some are the same, write both alike"
    ) in found.notes


def test_a_model_without_any_row_is_named() -> None:
    table = _covariates(model="A", benchmark="b", item=["1", "2", "3"])
    responses = _responses(*(f"{model} b {item}" for model in "AB" for item in (1, 2, 4)))
    with pytest.raises(DataError) as caught:
        responses.with_contamination(Covariates.from_frame(table))
    assert [fault.problem for fault in caught.value.faults] == [
        "no contamination for any response of 'B'",
        "no contamination for 1 of 3 items of 'b' of 'A': '4'",
    ]


@pytest.mark.parametrize(
    ("scale", "given", "read", "note"),
    [
        ("percent", ["5%", "40 %", 100], [0.05, 0.4, 1], "contamination is per cent: divided"),
        (
            "count",
            [0, 3, 15],
            [0, 0.5, 1],
            r"log\(1 \+ n\) / log\(1 \+ 15\), where 15",
        ),
        ("count", [0, 0, 0], [0, 0, 0], "where 0 is the largest"),
    ],
)
def test_other_scales_are_read_and_noted(
    scale: Any, given: list[Any], read: list[float], note: str
) -> None:
    table = _covariates(contamination=pd.Series(given, dtype=object))
    covariates = Covariates.from_frame(table, contamination_scale=scale)
    np.testing.assert_allclose(covariates.frame["contamination"], read, atol=1e-12)
    joined = _responses("A b 1").with_contamination(covariates)
    assert re.search(note, joined.notes[0])


@pytest.mark.parametrize(
    ("columns", "scale", "message"),
    [
        ({"contamination": [0, 1.5, 2]}, "count", "row 2: .*allowed is a whole number, 0 or more"),
        ({"contamination": [0, -1, 2]}, "count", "row 2: contamination: got -1"),
        ({"contamination": [0, 1, 2], "contamination_sd": 0.1}, "count", "no use beside counts"),
        ({"contamination": [0, 1, 101]}, "percent", "row 3: .*allowed is a number from 0 to 100"),
        ({"contamination": ["0", "few", "2"]}, "percent", "row 2: contamination: got 'few'"),
    ],
)
def test_other_scales_have_bounds_too(columns: dict[str, Any], scale: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Covariates.from_frame(_covariates(**columns), contamination_scale=scale)
