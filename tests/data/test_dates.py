"""Dates: contamination is a release on or before the cutoff, and nothing unsure is clean."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.covariates import Covariates
from bayescontam.data.dates import Dates, read_days
from bayescontam.data.responses import Responses, given_responses, read_responses
from bayescontam.data.validation import FaultList
from bayescontam.errors import DataError, UsageError
from bayescontam.model.exposure import refuse_contaminated
from tests.support.real_data import shared

RELEASED = {"q1": "2023-05-01", "q2": "2023-08-31", "q3": "2023-09-01"}
CUTOFF = {"old": "2023-04-30", "mid": "2023-08-31", "new": "2024-01-15"}


def _table(**columns: Any) -> pd.DataFrame:
    """Return responses of three models to three items, with dates unless columns say otherwise."""
    rows = [(model, item) for model in CUTOFF for item in RELEASED]
    frame = pd.DataFrame(rows, columns=["model", "item"]).assign(benchmark="b", correct=1)
    dates = {"released": frame["item"].map(RELEASED), "cutoff": frame["model"].map(CUTOFF)}
    found = dates | columns
    return frame.assign(**{name: cells for name, cells in found.items() if cells is not None})


def _read(frame: pd.DataFrame, dates: Dates | None = None, **options: Any) -> pd.DataFrame:
    found = Responses.from_frame(frame).with_dates(dates, **options).frame
    return found.pivot(index="model", columns="item", values="contamination").loc[list(CUTOFF)]


def _clean(frame: pd.DataFrame, dates: Dates | None = None, **options: Any) -> list[str]:
    found = Responses.from_frame(frame).with_dates(dates, **options).frame
    assert found["clean"].isin([0, 1]).all()
    return list(found.loc[found["clean"] == 1, "model"].unique())


def test_released_on_or_before_the_cutoff_is_contaminated() -> None:
    found = Responses.from_frame(_table()).with_dates()
    assert _read(_table()).to_numpy().tolist() == [[0, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert _clean(_table()) == ["old"]
    assert list(found.frame.columns[5:]) == ["contamination", "clean", "released", "cutoff"]
    assert found.notes == (
        "contamination from dates: 1 in 5 of 9 responses (released on or before the model's "
        "cutoff); 1 of 3 models are clean (the cutoff precedes all items)",
    )


@pytest.mark.parametrize(
    ("margin", "clean"), [(0, ["old"]), (1, []), (30, [])], ids=["none", "day", "month"]
)
def test_a_margin_asks_more_of_clean_models(margin: int, clean: list[str]) -> None:
    dates = Dates(margin=margin)
    assert _clean(_table(), dates) == clean
    assert _read(_table(), dates).to_numpy().sum() == 5


def _on(text: str) -> pd.DataFrame:
    """Return the table whose only unsure date is the cutoff of 'mid'."""
    return _table(cutoff=_table()["cutoff"].where(_table()["model"] != "mid", text))


@pytest.mark.parametrize(
    ("text", "contaminated"),
    [
        ("2023-08", 2), ("2023/8/30", 1), ("20230831", 2), ("August 2023", 2), ("Aug 30, 2023", 1),
        ("30 Aug. 2023", 1), ("Sept 2023", 3), ("2023", 3), ("2023-Q3", 3), ("Q2 2023", 1),
        ("2023-08-31T23:59:59Z", 2), ("2022", 0),
    ],
)  # fmt: skip
def test_partial_cutoffs_go_up_to_their_last_day(text: str, contaminated: int) -> None:
    assert _read(_on(text)).loc["mid"].sum() == contaminated


@pytest.mark.parametrize(("text", "clean"), [("2023-05", []), ("2023-06", ["old"]), ("2023", [])])
def test_partial_releases_begin_on_their_first_day(text: str, clean: list[str]) -> None:
    released = _table()["item"].map(RELEASED | {"q1": text})
    cutoff = _table()["cutoff"].replace("2023-04-30", "2023-05-01")
    frame = _table(released=released, cutoff=cutoff)
    assert _clean(frame) == clean
    found = Responses.from_frame(frame).with_dates()
    unsure = [note for note in found.notes if "without a day" in note]
    assert len(unsure) == (text != "2023-06")


@pytest.mark.parametrize(
    "kind",
    [
        lambda days: pd.to_datetime(days),
        lambda days: pd.to_datetime(days).dt.tz_localize("UTC"),
        lambda days: pd.to_datetime(days).dt.date,
        lambda days: days.str.replace("-", "").astype(int),
        lambda days: days.str.replace("-", "").astype(float),
        lambda days: days.astype("category"),
    ],
)
def test_dates_of_every_kind_are_the_same(kind: Any) -> None:
    plain = _table()
    frame = _table(released=kind(plain["released"]), cutoff=kind(plain["cutoff"]))
    pd.testing.assert_frame_equal(_read(frame), _read(plain))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("08/31/2023", "either way round: write the year first"),
        ("31.08.2023", "either way round"),
        ("45169", "counted from 1900 by a spreadsheet"),
        ("2023-02-30", ""), ("soon", ""), ("2023-13", ""), ("1023", ""), ("202308311", ""),
        ("2021-09-01 to 2024-06-30", ""), ("2023-05-01 or so", ""),
        ("2023-05-01T25:00", ""), ("2023-05-01 or later", ""),
    ],
)  # fmt: skip
def test_what_is_no_date_is_refused_once(text: str, advice: str) -> None:
    message = rf"rows 4, 5, 6: cutoff: got '{text}', allowed is a date: YYYY-MM-DD.*(\n.*{advice})?"
    with pytest.raises(DataError, match=message) as caught:
        Responses.from_frame(_on(text)).with_dates()
    assert len(str(caught.value).splitlines()) == 1 + bool(advice)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2023-05-01 10:00", "2023-05-01"), ("2023-05-01T23:59:59.250Z", "2023-05-01"),
        ("2023-05-01T00:30:00+02:00", "2023-04-30"), ("2023-12-31 23:30:00 -0500", "2024-01-01"),
        ("2023-05-01T00:00:00+02:00", "2023-05-01"),  # a day that got a zone
    ],
)  # fmt: skip
def test_times_count_by_their_day_in_utc(text: str, day: str) -> None:
    cells = pd.Series([text, pd.Timestamp(text)], dtype=object, name="cutoff")
    faults = FaultList("t.csv", np.arange(1, 3))
    first, last = read_days(cells, "cutoff", faults)
    faults.raise_if_any()
    assert [*map(str, first), *map(str, last)] == [day] * 4


@pytest.mark.parametrize("unknown", ["", "unknown", None, "n/a", "?"])
def test_unknown_cutoffs_are_missing_and_never_clean(unknown: Any) -> None:
    frame = _on(unknown)
    message = (
        r"no cutoff of 1 of 3 models: 'mid'\nunknown dates are missing, not clean: give them, or "
        r"choose --missing-contamination drop or impute"
    )
    with pytest.raises(DataError, match=message):
        Responses.from_frame(frame).with_dates()
    dropped = Responses.from_frame(frame).with_dates(missing="drop")
    assert dropped.models == ("old", "new")
    assert "dropped 3 of 9 responses with unknown dates" in dropped.notes
    assert _clean(frame, missing="impute") == ["old"]
    assert _read(frame, missing="impute").loc["mid"].tolist() == [0.5] * 3
    assert _clean(frame, missing="impute", clean=["mid"]) == ["old", "mid"]
    assert _read(frame, clean=["mid"]).loc["mid"].tolist() == [0] * 3


def test_items_without_a_date_make_nobody_clean() -> None:
    frame = _table(released=_table()["item"].map(RELEASED | {"q2": ""}))
    with pytest.raises(DataError, match="no release date of 1 of 3 items of 'b': 'q2'"):
        Responses.from_frame(frame).with_dates()
    assert _clean(frame, missing="impute") == []
    assert _clean(frame, missing="drop") == ["old"]


def test_items_that_a_model_did_not_answer_count() -> None:
    frame = _table()
    late = frame[~((frame["model"] == "mid") & (frame["item"] != "q3"))]
    assert _read(late).loc["mid"].tolist()[-1] == 0
    assert _clean(late) == ["old"]


def test_dates_come_from_tables_too(tmp_path: Path) -> None:
    bare = _table(released=None, cutoff=None)
    released = pd.DataFrame(
        {"benchmark": "b", "item": list(RELEASED), "released": RELEASED.values()}
    )
    cutoff = pd.DataFrame({"model": [*CUTOFF, "other"], "cutoff": [*CUTOFF.values(), "2020"]})
    released.to_csv(tmp_path / "released.csv", index=False, sep=";")
    cutoff.to_parquet(tmp_path / "cutoff.parquet")
    for dates in (
        Dates(released, cutoff),
        Dates(tmp_path / "released.csv", str(tmp_path / "cutoff.parquet")),
        Dates(released.drop(columns="benchmark"), cutoff),
    ):
        pd.testing.assert_frame_equal(_read(bare, dates), _read(_table()))
    whole = Dates(pd.DataFrame({"benchmark": ["b"], "released": ["2023-06"]}), cutoff)
    assert _read(bare, whole).to_numpy().tolist() == [[0] * 3, [1] * 3, [1] * 3]


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        (Dates(cutoff="cutof"), "cutoff: 'cutof' is no column of DataFrame and no file; its col"),
        (Dates(cutoff=pd.DataFrame({"model": ["old"]})), "cutoff: cutoff: no such column"),
        (Dates(cutoff=pd.DataFrame({"cutoff": [1]})), "cutoff: model: no such column"),
        (Dates(pd.DataFrame({"released": ["2023"]})), "needs a column 'item', 'benchmark' or both"),
        (
            Dates(cutoff=pd.DataFrame({"model": ["old"] * 2, "cutoff": ["2023"] * 2})),
            "row 2: model: same model as row 1; keep one",
        ),
        (
            Dates(cutoff=pd.DataFrame({"model": ["Old", "Mid", "New"], "cutoff": ["2023"] * 3})),
            r"no cutoff of 3 of 3 models: .*\nmodel: all 3 unmatched names differ by upper",
        ),
        (Dates(margin=-1), "margin: got -1"),
    ],
)
def test_dates_that_cannot_be_used_are_refused(dates: Dates, message: str) -> None:
    with pytest.raises((DataError, UsageError), match=message):
        Responses.from_frame(_table()).with_dates(dates)


@pytest.mark.parametrize("unknown", ["drop", "impute"])
@pytest.mark.parametrize(
    ("name", "caution"),
    [
        ("org/mid", "model: all 1 unmatched names differ by 'org/' before the names there; rename"),
        ("middle-hf", "model: no response matches 'middle-hf' of cutoff, and no row matches 'mid'"),
    ],
)
def test_cutoffs_of_another_name_are_named(unknown: Any, name: str, caution: str) -> None:
    bare = _table(cutoff=None)
    cutoff = pd.DataFrame({"model": ["old", name, "new"], "cutoff": CUTOFF.values()})
    found = Responses.from_frame(bare).with_dates(Dates(cutoff=cutoff), missing=unknown)
    assert found.notes[0] == "1 of 3 rows of cutoff match no response"
    assert found.notes[1].startswith(f"caution: {caution}")
    assert found.notes[2] == "no cutoff of 1 of 3 models: 'mid'"
    with pytest.raises(DataError, match=f"'mid'\n{caution}"):
        Responses.from_frame(bare).with_dates(Dates(cutoff=cutoff))


def test_release_dates_of_other_names_are_named() -> None:
    released = pd.DataFrame({"item": ["Q1", "q2", "q3"], "released": RELEASED.values()})
    found = Responses.from_frame(_table(released=None)).with_dates(Dates(released), missing="drop")
    assert found.notes[1].startswith("caution: item: all 1 unmatched names differ by upper")
    assert found.notes[2] == "no release date of 1 of 3 items of 'b': 'q1'"


def test_one_date_for_each_model_and_item() -> None:
    with pytest.raises(DataError, match="cutoff: several dates of one model: 'old'; give one in"):
        Responses.from_frame(_table(cutoff=["2023", *_table()["cutoff"][1:]])).with_dates()
    days = _table()["released"].to_numpy(copy=True)
    days[1] = "2023-08-30"
    found = Responses.from_frame(_table(released=days)).with_dates()
    assert found.notes[0] == (
        "1 of 3 items have several release dates, up to 1 day apart: 'q2'; the earliest counts"
    )
    days[1] = "2023-07-30"
    with pytest.raises(DataError, match="released: several dates of one item: 'q2'"):
        Responses.from_frame(_table(released=days)).with_dates()
    gaps = _table(cutoff=_table()["cutoff"].where(_table()["item"] == "q2"))
    pd.testing.assert_frame_equal(_read(gaps), _read(_table()))


def test_a_contamination_that_is_given_must_agree() -> None:
    agrees = Responses.from_frame(_table()).with_dates().frame
    again = Responses.from_frame(agrees.drop(columns="clean")).with_dates().frame
    pd.testing.assert_frame_equal(again, agrees)
    other = agrees.assign(contamination=np.where(agrees["item"] == "q3", 1.0, 0.0))
    message = (
        r"contamination: differs from the dates in 6 of 9 responses, such as 'q3' of 'old': 1 is "
        r"given, released 2023-09-01, cutoff 2023-04-30\nremove the column, or leave"
    )
    with pytest.raises(DataError, match=message):
        Responses.from_frame(other).with_dates()


def test_columns_of_dates_are_used_where_nothing_else_is_known(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    _table().to_csv(path, index=False)
    assert given_responses(path).frame["clean"].sum() == 3
    assert "clean" not in given_responses(_table(contamination=0)).frame
    covariates = Covariates.from_frame(
        pd.DataFrame({"benchmark": "b", "item": list(RELEASED), "contamination": 0.5})
    )
    assert set(given_responses(path, covariates).frame["contamination"]) == {0.5}
    with pytest.raises(UsageError, match="from covariates or from dates; give one"):
        given_responses(path, covariates, dates=Dates())
    with pytest.raises(UsageError, match="an unknown date is no search"):
        given_responses(path, missing="zero")


def test_models_are_declared_clean_by_name() -> None:
    found = given_responses(_table(contamination=0, released=None), clean=["old", "mid"])
    assert found.frame.groupby("model")["clean"].first().to_dict() == {
        "old": 1, "mid": 1, "new": 0
    }  # fmt: skip
    again = found.with_clean(["new"]).frame
    assert again["clean"].tolist() == [1] * 9
    with pytest.raises(UsageError, match="has no model 'Old'; did you mean 'old'"):
        found.with_clean(["Old"])


@pytest.mark.parametrize("same", [True, False])
def test_a_model_whose_own_cutoff_is_after_items_is_not_clean(same: bool) -> None:
    """Also where all models share the cutoff: dates are a model's own."""
    cutoff = _table()["model"].map(CUTOFF | ({"old": CUTOFF["mid"], "new": CUTOFF["mid"]}))
    frame = _table(cutoff=cutoff) if same else _table()
    message = (
        r"^DataFrame: model 'mid' is declared clean, but contamination is above 0 in 2 of its 3 "
        r"responses: item 'q1' was released 2023-05-01, its cutoff is 2023-08-31\na model is clean"
    )
    with pytest.raises(DataError, match=message):
        given_responses(frame, clean=["mid"])
    with pytest.raises(DataError, match=message):
        given_responses(frame.assign(clean=(frame["model"] == "mid").astype(int)))
    late = Responses.from_frame(frame).with_dates().with_clean(["mid"])
    with pytest.raises(DataError, match="model 'mid' is declared clean, but contamination is"):
        refuse_contaminated(late, ["mid"])


def test_a_declared_model_without_a_cutoff_is_counted() -> None:
    found = Responses.from_frame(_on("")).with_dates(clean=["mid"])
    assert found.notes[-1].endswith(
        "1 of 3 models are clean (the cutoff precedes all items); 1 more declared clean"
    )


def test_thirty_two_models_of_livecodebench_are_clean() -> None:
    found = read_responses(shared("real/lcb_2024-04.csv"))
    dated = found.with_dates(Dates("released", "model_cutoff")).frame
    assert dated.loc[dated["clean"] == 1, "model"].nunique() == 32
    pd.testing.assert_series_equal(dated["contamination"], found.frame["contamination"])
