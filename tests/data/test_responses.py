"""Responses: valid tables are taken as they are, every fault is found at its place."""

import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.data.covariates import Covariates
from bayescontam.data.responses import Responses, read_responses
from bayescontam.data.tools import COMMANDS
from bayescontam.errors import DataError, UsageError
from tests.support.real_data import HOSTILE, names, shared


def _frame(**columns: Any) -> pd.DataFrame:
    """Four responses, two models by two items; columns replaced or added."""
    plain: dict[str, Any] = {
        "model": ["A", "A", "B", "B"],
        "benchmark": ["quiz"] * 4,
        "item": ["q1", "q2", "q1", "q2"],
        "n_correct": [1, 2, 3, 4],
        "n_trials": [4, 4, 4, 4],
    } | columns
    return pd.DataFrame({name: cells for name, cells in plain.items() if cells is not None})


def _correct(cells: Any, **columns: Any) -> pd.DataFrame:
    return _frame(n_correct=None, n_trials=None, correct=cells, **columns)


def _places(frame: pd.DataFrame, **options: Any) -> list[tuple[int | None, str | None]]:
    with pytest.raises(DataError) as caught:
        Responses.from_frame(frame, **options)
    return [(fault.row, fault.column) for fault in caught.value.faults]


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Valid tables of text, as a CSV gives them, in any order of rows."""
    levels = [draw(st.lists(names(), min_size=1, max_size=3, unique=True)) for _ in range(3)]
    keys = draw(st.permutations(list(product(*levels))))
    keys = keys[: draw(st.integers(1, len(keys)))]
    rows = []
    for key in keys:
        trials = draw(st.integers(1, 10**9))
        correct = draw(st.integers(0, trials))
        share = draw(st.floats(0, 1))
        rows.append([*key, f"{correct}", f"{trials}.0", repr(share)])
    columns = ["model", "benchmark", "item", "n_correct", "n_trials", "contamination"]
    return pd.DataFrame(rows, columns=columns, dtype=object)


@given(tables())
def test_valid_tables_are_accepted_whole(table: pd.DataFrame) -> None:
    responses = Responses.from_frame(table)
    keys = ["model", "benchmark", "item"]
    was = table.set_index(keys).astype(float).sort_index()
    now = responses.frame.set_index(keys).astype(float).sort_index()
    assert was.index.tolist() == now.index.tolist()
    np.testing.assert_array_equal(was.to_numpy(), now.to_numpy())
    assert responses.frame[["n_correct", "n_trials"]].dtypes.tolist() == [np.int64, np.int64]
    assert responses.notes == ()


FAULTS: list[tuple[str, list[Any]]] = [
    ("model", ["", " \n", None, 1.5, b"x"]),
    ("benchmark", ["", "\u2003", float("nan"), True]),
    ("item", ["", "\t", pd.NA, [1]]),
    ("n_correct", ["", "-1", "0.5", "x", "NaN", "inf", "1_0", "٣", None, True, "10000000001"]),
    ("n_trials", ["", "0", "1.5", "-2", "1e99", "1e999", "0x10", 2.5, 10**400]),
    ("contamination", ["", "NA", "1.01", "-0.1", "inf", "0,5", "True", float("inf"), None]),
]


@given(
    tables(),
    st.sampled_from([(name, cell) for name, cells in FAULTS for cell in cells]),
    st.integers(0, 26),
)
def test_a_planted_fault_is_found_at_its_place(
    table: pd.DataFrame, fault: tuple[str, Any], at: int
) -> None:
    column, cell = fault
    row = at % len(table)
    table.at[row, column] = cell
    assert _places(table) == [(row + 1, column)]


def test_all_faults_are_reported_at_once() -> None:
    frame = _frame(
        item=["q1", "", "q1", "q1"], n_correct=[5, "x", 0, 0], contamination=[2, 0, 0, np.nan]
    )
    assert _places(frame) == [
        (1, "n_correct"),
        (1, "contamination"),
        (2, "item"),
        (2, "n_correct"),
        (4, "contamination"),
        (4, "item"),
    ]


def test_rows_are_sorted_in_order_of_first_appearance() -> None:
    frame = pd.DataFrame(
        [("z", "m2", 3), ("a", "m1", 1), ("z", "m1", 2), ("z", "m2", 1), ("z", "m1", 3)],
        columns=["benchmark", "model", "item"],
    ).assign(correct=1)
    responses = Responses.from_frame(frame.set_index(pd.Index([9, 9, 9, 8, 8])))
    assert responses.frame.iloc[:, :3].to_numpy().tolist() == [
        ["m2", "z", "3"],
        ["m2", "z", "1"],
        ["m1", "z", "3"],
        ["m1", "z", "2"],
        ["m1", "a", "1"],
    ]
    assert responses.models == ("m2", "m1")
    assert responses.benchmarks == ("z", "a")
    assert responses.frame.index.tolist() == [0, 1, 2, 3, 4]


def test_columns_come_in_order_and_extras_unchanged() -> None:
    extra = pd.Categorical(["x", "y", "x", None])
    frame = _frame(kind=extra, contamination=[0, 1, 0.5, 0], note=[[1], None, {}, "s"])
    responses = Responses.from_frame(frame[sorted(frame.columns)])
    known = ["model", "benchmark", "item", "n_correct", "n_trials", "contamination"]
    assert list(responses.frame.columns) == [*known, "kind", "note"]
    assert responses.frame["kind"].dtype == "category"
    assert responses.frame["note"].tolist() == [[1], None, {}, "s"]
    assert responses.frame["contamination"].dtype == np.float64


@pytest.mark.parametrize(
    "cells",
    [
        [1, 0, 1, 0],
        [True, False, True, False],
        ["1", "0.0", " TRUE ", "false"],
        pd.array([True, False, True, False], dtype="boolean"),
        np.array([1, 0, 1, 0], dtype=np.uint8),
        [1.0, "False", True, np.int8(0)],
    ],
)
def test_correct_may_be_spelled_in_many_ways(cells: Any) -> None:
    frame = Responses.from_frame(_correct(cells)).frame
    assert frame["n_correct"].tolist() == [1, 0, 1, 0]
    assert frame["n_trials"].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (_frame(benchmark=None), "benchmark: no such column; add one.*one name if there is only"),
        (_frame(benchmark=None, Benchmark="quiz"), "did you mean 'Benchmark'. Rename"),
        (_frame(n_correct=None, n_corect=1), "n_correct: .*did you mean 'n_corect'"),
        (_frame(n_trials=None), "n_trials: no such column; 'n_correct' needs it"),
        (
            _frame(n_correct=None, n_trials=None),
            r"correct: .*give 'correct' \(0 or 1\), or 'n_corr",
        ),
        (_frame(correct=1), "correct: stands beside 'n_correct'; keep one"),
        (_frame(n_correct=None, correct=1), "correct: stands beside 'n_trials'; keep one"),
        (_correct([1, "right", 0, 0]), "row 2: correct: got 'right', allowed is 0, 1, true, .* no"),
        (_correct([1, 1j, 0, 0]), r"rows 1, 2, 3, 4: correct: got .*1j"),
        (_frame(n_correct=[1, 5, 0, 0]), "row 2: n_correct: got 5, more than n_trials"),
        (
            _frame(contamination=2.5),
            "rows 1, 2, 3, 4: contamination: got 2.5, allowed is .* 0 to 1",
        ),
        (_frame(contamination=[0, 0, 0, ""]), "row 4: contamination: missing.*give covariates"),
        (_frame(contamination_sd=-1), "contamination_sd: got -1, allowed is .* 0 or more"),
        (_frame(item=["q1", "q1", "q1", "q2"]), "row 2: item: same model, .* as row 1; .*sum"),
        (
            _frame(model=pd.Series(["\ud800", "A", "B", "B"], dtype=object)),
            "row 1: model: got .*Unicode",
        ),
        (
            _frame(model=["A", "A", "A\0", "A\0"]),
            "rows 3, 4: model: got .*end with a null character",
        ),
        (_frame().head(0), "no rows"),
        (_frame().set_axis(["model"] * 5, axis=1), "two columns are named 'model'"),
        (_frame().set_axis([0, 1, 2, 3, 4], axis=1), "column 1 is named 0; names are text"),
    ],
)
def test_bad_tables_are_refused(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Responses.from_frame(frame)


def test_results_of_a_tool_are_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "details_gsm8k.parquet"
    cells = {"doc": [{"id": "1", "choices": ["a"]}], "metric": [{"em": 1.0}]}
    pd.DataFrame(cells).to_parquet(path)
    with pytest.raises(DataError) as caught:
        read_responses(path)
    assert [fault.column for fault in caught.value.faults] == [
        "model", "benchmark", "item", "correct"
    ]  # fmt: skip
    assert caught.value.advice.splitlines() == [
        "the columns are 'doc', 'metric'",
        f"files of evaluation tools are read by: bayescontam import {' | '.join(COMMANDS)}",
    ]


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(UsageError, match="got list, need a pandas DataFrame"):
        Responses.from_frame([1])  # type: ignore[arg-type]


MISSING = ["", " ", "NA", "n/a", "NaN", "null", "None", None, np.nan, pd.NA]


@pytest.mark.parametrize("cell", MISSING)
def test_missing_scores_are_refused_or_dropped(cell: Any) -> None:
    frame = _correct([1, cell, 0, 1])
    assert _places(frame) == [(2, "correct")]
    responses = Responses.from_frame(frame, drop_missing=True)
    assert responses.frame["item"].tolist() == ["q1", "q1", "q2"]
    assert responses.notes == ("dropped 1 of 4 responses with a missing score",)


def test_dropping_all_rows_is_refused() -> None:
    with pytest.raises(DataError, match=r"dropped 4 of 4 .*none is left"):
        Responses.from_frame(_correct([None] * 4), drop_missing=True)


def test_dropped_rows_are_no_repeats() -> None:
    frame = _frame(item=["q1", "q1", "q1", "q2"], n_trials=[None, 4, 4, 4])
    assert len(Responses.from_frame(frame, drop_missing=True).frame) == 3


def test_repeats_are_summed_on_request() -> None:
    frame = _correct([1, 1, None, 0], model="A", item=["q2", "q1", "q2", "q2"], level=[7, 8, 7, 7])
    responses = Responses.from_frame(frame, sum_repeats=True, drop_missing=True)
    assert responses.frame.to_dict("list") == {
        "model": ["A", "A"],
        "benchmark": ["quiz", "quiz"],
        "item": ["q2", "q1"],
        "n_correct": [1, 1],
        "n_trials": [2, 1],
        "level": [7, 8],
    }
    assert responses.notes == (
        "dropped 1 of 4 responses with a missing score",
        "summed 3 rows into 2 responses (rows of the same model, benchmark and item)",
    )


def test_repeats_must_agree_to_be_summed() -> None:
    frame = _frame(
        model="A",
        contamination=[0, 0, 0, 0.5],
        level=[[1], None, [2], None],
    )
    assert _places(frame, sum_repeats=True) == [(3, "level"), (4, "contamination")]


def test_where_keeps_rows_and_their_numbers() -> None:
    frame = _correct(["x", "1", "0", "y"], minimal=[True, False, False, False])
    assert _places(frame, where="not minimal") == [(4, "correct")]
    responses = Responses.from_frame(frame, where="model == 'B' and item == 'q1'")
    assert responses.notes == ("used 1 of 4 rows: those where model == 'B' and item == 'q1'",)
    text = _frame(n_correct=["1", "2", "3", "4"], n_trials=["4"] * 4)
    assert len(Responses.from_frame(text, where="n_correct > 2").frame) == 2


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "llm;suite;question;solved;dose\nA;quiz;q1;yes;0,5\nA;quiz;q2;No;0\nB;quiz;q1;TRUE;0,5\n"
    )
    names = {"model": "llm", "benchmark": "suite", "item": "question", "correct": "solved"}
    names["contamination"] = "dose"
    responses = read_responses(path, columns=names, where="model == 'A'")
    assert responses.frame["n_correct"].tolist() == [1, 0]
    assert responses.frame["contamination"].tolist() == [0.5, 0.0]
    assert list(responses.frame.columns)[:6] == [
        *list(names)[:3],
        "n_correct",
        "n_trials",
        "contamination",
    ]
    frame = pd.read_csv(path, sep=";", decimal=",")
    assert read_responses(frame, columns=names, where="model == 'A'").frame.equals(responses.frame)
    assert "llm" in frame  # not changed
    with pytest.raises(UsageError, match=r"no column 'llms' for 'model'; the columns are 'llm', "):
        read_responses(path, columns=names | {"model": "llms"})
    with pytest.raises(DataError, match=r"give --column model=llm \(columns\)"):
        read_responses(path, columns={name: names[name] for name in names if name != "model"})


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("bogus == 1", "name 'bogus' is not defined; the columns are 'model'"),
        ("@frame.n_correct > 1", "'@' is not allowed"),
        ("n_correct >", "invalid syntax"),
        ("", "where ''"),
        ("model", "does not give true or false"),
        ("n_correct = 3", "does not give true or false"),
        ("model > 3", "where 'model > 3'"),
        ("1 == 1", "does not give true or false"),
    ],
)
def test_bad_expressions_are_refused(where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Responses.from_frame(_frame(), where=where)


def test_where_may_hold_an_at_sign_in_text_but_must_leave_rows() -> None:
    with pytest.raises(DataError, match="none of 4 rows is left where item == 'a@b'"):
        Responses.from_frame(_frame(), where="item == 'a@b'")


def test_extras_of_csv_become_numbers_only_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "model,benchmark,item,correct,flag,level,share,code,gap,big\n"
        "007,NA,nan,True,True,-1,1,007,,12345678901234567890\n"
        "True,NA,nan,0,false,2,.5,8,1,1\n"
    )
    frame = read_responses(path).frame
    assert frame["model"].tolist() == ["007", "True"]
    assert frame["flag"].tolist() == [True, False]
    assert frame["level"].tolist() == [-1, 2]
    assert frame["share"].tolist() == [1, 0.5]
    assert frame["code"].tolist() == ["007", "8"]
    assert frame["gap"].tolist() == ["", "1"]
    assert frame["big"].tolist() == ["12345678901234567890", "1"]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_all_kinds_of_file_give_the_same(suffix: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"model": HOSTILE, "benchmark": "b", "item": "i", "correct": 1})
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    responses = read_responses(path)
    assert responses.models == tuple(HOSTILE)
    assert responses.data_hash == Responses.from_frame(frame).data_hash
    assert responses.source == str(path)


@given(tables(), st.randoms())
def test_hash_depends_on_scores_only(table: pd.DataFrame, random: Any) -> None:
    plain = Responses.from_frame(table).data_hash
    order = random.sample(range(len(table)), len(table))
    assert Responses.from_frame(table.iloc[order].assign(x=1)).data_hash == plain
    assert Responses.from_frame(table.drop(columns="contamination")).data_hash == plain
    longer = table.assign(item=[*table["item"][:-1], table["item"].iloc[-1] + "#new#"])
    assert Responses.from_frame(longer).data_hash != plain
    more = table.assign(n_trials=10**9, n_correct=[*[0] * (len(table) - 1), 10**9])
    assert (
        Responses.from_frame(more).data_hash
        != Responses.from_frame(table.assign(n_trials=10**9, n_correct=0)).data_hash
    )


def test_hash_reports_where_one_name_ends() -> None:
    one, other = (_frame().assign(model=m, benchmark=b) for m, b in [("ab", "c"), ("a", "bc")])
    one, other = one.head(2), other.head(2)
    assert Responses.from_frame(one).data_hash != Responses.from_frame(other).data_hash


def test_input_is_not_changed() -> None:
    frame = _frame(contamination="0.5")
    before = frame.copy(deep=True)
    Responses.from_frame(frame, where="model == 'A'", sum_repeats=True)
    pd.testing.assert_frame_equal(frame, before)


def test_contamination_of_responses_and_covariates_clash() -> None:
    covariates = Covariates.from_frame(
        pd.DataFrame({"benchmark": ["quiz"], "item": ["q1"], "contamination": [1]})
    )
    with pytest.raises(UsageError, match="has a column 'contamination' already"):
        Responses.from_frame(_frame(contamination=0)).with_contamination(covariates)


def test_real_responses_are_read() -> None:
    musr = read_responses(shared("musr_finetuning.csv"))
    assert len(musr.frame) == 500
    assert musr.frame["contamination"].isin([0, 1]).all()
    arc = read_responses(shared("conceptarc.csv"), where="not minimal")
    assert arc.notes == ("used 1,920 of 2,112 rows: those where not minimal",)
    many = read_responses(shared("llm_benchmarks.parquet"))
    assert len(many.frame) == 502_452
    assert (len(many.models), len(many.benchmarks)) == (12, 11)


def test_import_is_light() -> None:
    code = (
        "import sys, bayescontam.data.responses; "
        "print(sorted({'pymc', 'arviz', 'torch', 'jax', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_labels_that_are_one_number_stay_two_labels(tmp_path):
    path = tmp_path / "sections.csv"
    path.write_text(
        "model,benchmark,item,correct,concept\n"
        "m,b,i1,1,1.1\nm,b,i2,0,1.10\nm,b,i3,0,1.2\nm,b,i4,0,1.20\n"
    )
    concepts = read_responses(path).frame["concept"]
    assert concepts.tolist() == ["1.1", "1.10", "1.2", "1.20"]


def _many(contamination: list[str]) -> pd.DataFrame:
    items = [f"q{number}" for number in range(len(contamination))]
    table = {"model": "m", "benchmark": "b", "item": items, "correct": 1}
    return pd.DataFrame(table).assign(contamination=contamination)


@pytest.mark.parametrize(
    ("contamination", "message"),
    [
        (
            ["clean", "leaked", "leaked with answer", "clean"] * 5,
            r"rows 1, 2, 3, 4, 5 and 15 more: contamination: got 'clean' \(10 rows\), 'leaked' \(5 "
            r"rows\), 'leaked with answer' \(5 rows\), allowed is a number from 0 to 1\n.*words "
            r"need numbers of your choice, from 0 .*\.map\(\{'clean': 0, 'leaked': 0\.5,"
            r" 'leaked with answer': 1\}\), with your numbers$",
        ),
        (["0", "1", "16", "81"], r"counts need a scale: --contamination-scale count .*for log\(1"),
        (["0%", "5%", "10%"], "per cent: --contamination-scale percent .*, or divide by 100"),
        (["-0.3", "0.1"], "negative values, such as log ratios or weights, are no dose"),
        (["0.5", "0,5"], "0,9 is a decimal comma among other numbers: write 0.9"),
    ],
)
def test_other_scales_are_recognised_in_one_line(contamination: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        Responses.from_frame(_many(contamination))
    assert len(str(caught.value).splitlines()) <= 3


def test_scales_of_responses_are_read_from_files_and_frames(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    frame = _many(["0%", "5%", "100%"])
    frame.to_csv(path, index=False)
    for given_ in (path, frame):
        found = read_responses(given_, contamination_scale="percent")
        assert found.frame["contamination"].tolist() == [0, 0.05, 1]
        assert found.notes == ("contamination is per cent: divided by 100",)
    with pytest.raises(UsageError, match="'many': allowed are 'share', 'percent', 'count'"):
        read_responses(path, contamination_scale="many")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="has no column 'contamination'"):
        Responses.from_frame(_frame(), contamination_scale="count")


@pytest.mark.parametrize("delimiter", [";", "\t", ","])
def test_tables_of_a_german_spreadsheet_are_read(delimiter: str, tmp_path: Path) -> None:
    lines = [
        "model;benchmark;item;n_correct;n_trials;contamination;level;size",
        "m1;quiz;1,5;1;2;0,0;0,5;1,000",
        "m2;quiz;1,5;2;2;0,25;1;2,000",
    ]
    rows = [[f'"{cell}"' if "," in cell else cell for cell in line.split(";")] for line in lines]
    path = tmp_path / ("a.tsv" if delimiter == "\t" else "a.csv")
    text = "\r\n".join(delimiter.join(row) for row in rows) + "\r\n"
    path.write_bytes(text.encode("utf-8-sig"))
    found = read_responses(path)
    assert found.frame["contamination"].tolist() == [0, 0.25]
    assert found.frame["item"].tolist() == ["1,5", "1,5"]
    plain = delimiter == ","
    assert found.frame["level"].tolist() == (["0,5", "1"] if plain else [0.5, 1])
    assert found.frame["size"].tolist() == ["1,000", "2,000"]
    reported = "'contamination'" if plain else "'contamination', 'level'"
    assert found.notes[-1] == f"{path}: decimal commas in {reported}: 0,5 was read as 0.5"


def test_points_in_counts_beside_decimal_commas_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    head = "model;benchmark;item;n_correct;n_trials;contamination\n"
    path.write_text(head + "m;b;i;1;1.000;0,5\nm;b;j;1;2;1\n")
    with pytest.raises(DataError, match=r"row 1: n_trials: got '1\.000', a point in a table with"):
        read_responses(path)


@pytest.mark.parametrize("kind", ["csv", "tsv", "semicolons", "frame"])
@pytest.mark.parametrize("number", ["1,000", "12,000,000", "1.000"])
def test_counts_in_thousands_are_never_read_as_decimals(
    kind: str, number: str, tmp_path: Path
) -> None:
    frame = _many(["0", "3", number, "12"])
    path = tmp_path / ("a.tsv" if kind == "tsv" else "a.csv")
    separator = {"tsv": "\t", "semicolons": ";"}.get(kind, ",")
    frame.to_csv(path, index=False, sep=separator)
    message = rf"row 3: contamination: got '{re.escape(number)}', which may be in thousands; write"
    with pytest.raises(DataError, match=message) as caught:
        read_responses(frame if kind == "frame" else path, contamination_scale="count")
    assert len(str(caught.value).splitlines()) == 1
    trials = frame.drop(columns=["correct", "contamination"]).assign(n_correct="1")
    trials.assign(n_trials=["1", "3", number, "12"]).to_csv(path, index=False, sep=separator)
    with pytest.raises(DataError, match=message.replace("contamination", "n_trials")) as caught:
        read_responses(path)
    assert len(str(caught.value).splitlines()) == 1


def test_counts_with_decimals_throughout_are_whole_numbers() -> None:
    found = read_responses(_many(["0.000", "3.000", "15.000"]), contamination_scale="count")
    assert found.frame["contamination"].tolist() == [0, 0.5, 1]


def test_names_that_mean_nothing_elsewhere_are_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "model,benchmark,item,correct\nNone,quiz,NA,NA\nNone,quiz,nan,1\nnull,N/A,NA,na\n"
    )
    with pytest.raises(DataError, match="rows 1, 3: correct: missing score"):
        read_responses(path)
    found = read_responses(path, drop_missing=True)
    assert found.frame[["model", "item"]].to_numpy().tolist() == [["None", "nan"]]
    assert found.notes == ("dropped 2 of 3 responses with a missing score",)


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "frame"])
def test_whole_numbers_that_became_floats_are_names(kind: str, tmp_path: Path) -> None:
    frame = _frame(model=[7, 7, 13, 13], item=[1.0, 2.0, 1.0, 2.0])
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "jsonl":
        frame.astype({"item": object}).to_json(path, orient="records", lines=True)
        assert '"item":1.0' in path.read_text()
    found = read_responses(frame if kind == "frame" else path)
    assert found.frame["model"].tolist() == ["7", "7", "13", "13"]
    assert found.frame["item"].tolist() == ["1", "2", "1", "2"]
    note = "item: whole numbers stored as floats: 1.0 was read as the name '1'"
    assert [text.partition(": ")[2] for text in found.notes] == [note]


def _answers(names: list[str], column: str = "item") -> pd.DataFrame:
    frame = pd.DataFrame({"model": "a", "benchmark": "q", "item": "i", "correct": 1}, names)
    frame["model" if column == "item" else "item"] = [f"n{at}" for at in range(len(names))]
    return frame.reset_index(drop=True).assign(**{column: names})


@pytest.mark.parametrize("column", ["model", "benchmark", "item"])
@pytest.mark.parametrize("kind", ["csv", "frame"])
def test_whole_numbers_as_floats_beside_the_same_are_one_name(
    column: str, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    frame = _answers(["7.0", "8.0", "7", "8"], column)
    frame.to_csv(path, index=False)
    found = read_responses(path if kind == "csv" else frame)
    assert found.frame[column].value_counts().to_dict() == {"7": 2, "8": 2}
    note = f"{column}: whole numbers stored as floats beside others: 7.0 was read as the name '7'"
    assert [text.partition(": ")[2] for text in found.notes] == [note]


def test_repeats_of_names_as_floats_are_explained() -> None:
    frame = _answers(["7.0", "7"]).assign(model="a")
    with pytest.raises(DataError, match=r"same model, benchmark, item .*\nitem: .* 7\.0 was read"):
        read_responses(frame)


@pytest.mark.parametrize("items", [["1", "1.0", "1.1"], ["1.0", "2.0"], ["1.0", "2"]])
def test_other_names_with_points_stay_as_they_are(items: list[str]) -> None:
    found = read_responses(_answers(items))
    assert found.frame["item"].tolist() == items
    assert found.notes == ()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["7 ", "7"], "row 1: {}: got '7 ', and elsewhere the same without blanks at its ends"),
        (["x", "7", "7.0"], r"row 3: {}: got '7\.0', and elsewhere the same as a whole number; wr"),
    ],
)
@pytest.mark.parametrize("column", ["model", "benchmark", "item"])
def test_two_spellings_of_a_name_are_refused(column: str, names: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message.format(column)) as caught:
        read_responses(_answers(names, column))
    assert len(str(caught.value).splitlines()) == 1


def test_other_floats_are_no_names() -> None:
    bad = _frame(item=[1.5, 2.0, np.nan, 2.5])
    with pytest.raises(DataError) as caught:
        Responses.from_frame(bad)
    assert str(caught.value).splitlines() == [
        "DataFrame: rows 1, 4: item: got 1.5, 2.5, a number with decimals, which is no name",
        "DataFrame: row 3: item: blank name nothing; every row needs one",
    ]
    assert _places(_frame(item=[2.0**60, 1, 2, 3])) == [(1, "item")]


def test_frames_are_read_like_files() -> None:
    found = read_responses(_frame(), where="model == 'A'")
    assert found.models == ("A",)
    assert found.source == "DataFrame"


def test_participants_are_levels_of_a_model() -> None:
    """Their responses to one item are several rows, and no repeats of one."""
    table = pd.DataFrame(
        {
            "model": ["humans", "humans", "program"], "benchmark": "b", "item": "i",
            "participant": ["ann", "bob", None], "correct": [1, 0, 1],
        }
    )  # fmt: skip
    responses = Responses.from_frame(table)
    assert responses.frame["participant"].tolist() == ["ann", "bob", ""]
    other = Responses.from_frame(table.replace({"bob": "cay"}))
    assert other.data_hash != responses.data_hash
    with pytest.raises(DataError, match=r"row 2: participant: same model, benchmark, item, part"):
        Responses.from_frame(table.replace({"bob": "ann"}))
    summed = Responses.from_frame(table.replace({"bob": "ann"}), sum_repeats=True)
    assert summed.frame["n_trials"].tolist() == [2, 1]
    with pytest.raises(
        DataError, match=r"row 2: participant: blank \(or a word .* although other rows"
    ):
        Responses.from_frame(table.replace({"bob": ""}))
    with pytest.raises(DataError, match=r"got ' ann', .*without blanks at its ends"):
        Responses.from_frame(table.replace({"bob": " ann"}))
    words = Responses.from_frame(table.fillna("NA"))  # missing in R
    assert words.frame["participant"].tolist() == ["ann", "bob", ""]
    with pytest.raises(
        DataError, match=r"row 2: .* \(or a word for a missing value, such as NA\), although"
    ):
        Responses.from_frame(table.replace({"bob": "NA"}))


def test_a_column_without_participants_changes_nothing() -> None:
    table = pd.DataFrame(
        {"model": "m", "benchmark": "b", "item": ["i", "j"], "correct": [1, 0], "participant": ""}
    )
    responses = Responses.from_frame(table)
    assert "participant" not in responses.frame
    assert responses.data_hash == Responses.from_frame(table.drop(columns="participant")).data_hash
