"""Where an answer is in the logs: stored with a fit, and rebuilt with its responses."""

from pathlib import Path

import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.errors import DataError
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.specs.registry import load_model
from tests.support.made_fit import drawn_from_prior, made_fit

KEYS = ["model", "benchmark", "item"]
PLACE = ["log_file", "log_sample"]


def table() -> pd.DataFrame:
    """Return responses of one and of two trials, of which the last model has no logs."""
    rows = [
        {
            "model": model, "benchmark": benchmark, "item": f"q{i}", "n_correct": i % 2,
            "n_trials": 1 + (i + m) % 2, "log_file": f"{model}/{benchmark}.eval" if m < 2 else "",
            "log_sample": f"sample q{i}, epoch {1 + m}" if m < 2 else "",
        }
        for m, model in enumerate("abc")
        for benchmark in ("quiz", "test")
        for i in range(9)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def fitted(frame: pd.DataFrame) -> Fit:
    responses = Responses.from_frame(frame, source="made.csv")
    options = Options(seed=1, sampling=Sampling(draws=50, chains=2))
    with drawn_from_prior():
        return fit_responses(responses, load_model("ability"), options)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    file = tmp_path_factory.mktemp("fit") / "fit.nc"
    fitted(table()).to_netcdf(file)
    return Fit.from_netcdf(file)


def test_a_file_holds_where_each_answer_is(stored: Fit) -> None:
    found = stored.samples()
    names = found["item"].str.removeprefix("quiz/").str.removeprefix("test/")
    found = found.assign(item=names).sort_values(KEYS, ignore_index=True)
    given = table()
    given = given[given["log_file"] != ""].sort_values(KEYS, ignore_index=True)
    pd.testing.assert_frame_equal(found[[*given.columns]], given, check_dtype=False)
    again = stored.responses().frame.sort_values(KEYS, ignore_index=True)
    whole = table().sort_values(KEYS, ignore_index=True)
    pd.testing.assert_frame_equal(again[[*whole.columns]], whole, check_dtype=False)


def test_rows_of_some_items_come_in_their_order(stored: Fit) -> None:
    found = stored.samples(["test/q3", "quiz/q8", "absent", "test/q3"])
    assert found["item"].to_list() == ["test/q3"] * 2 + ["quiz/q8"] * 2
    assert stored.samples("quiz/q8")["log_sample"].to_list() == [
        "sample q8, epoch 1", "sample q8, epoch 2",
    ]  # fmt: skip


def test_fits_without_logs_have_no_rows(tmp_path: Path) -> None:
    fit = made_fit(["a", "b"], ["quiz"], 5, 50)
    fit.to_netcdf(tmp_path / "fit.nc")
    found = Fit.from_netcdf(tmp_path / "fit.nc").samples()
    assert found.empty
    assert [*found] == [*KEYS, "n_correct", "n_trials", *PLACE]
    blank = fitted(table().assign(log_file=" "))
    assert blank.samples().empty
    assert "log_file" not in blank.data["constant_data"].coords


@pytest.mark.parametrize(
    "place", ["/home/someone/logs/", "C:\\Users\\someone\\", "\\\\host\\logs\\"]
)
def test_a_place_on_a_machine_is_not_stored(place: str) -> None:
    frame = table().assign(log_file=f"{place}a.eval").drop(columns="log_sample")
    found = fitted(frame).samples()
    assert set(found["log_file"]) == {"a.eval"}
    assert set(found["log_sample"]) == {""}


def test_of_repeats_that_are_summed_the_first_row_counts() -> None:
    rows = table().assign(concept="c")
    frame = pd.concat([rows, rows.assign(log_file="later.eval", log_sample="sample z, epoch 9")])
    found = Responses.from_frame(frame, sum_repeats=True).frame
    pd.testing.assert_frame_equal(found[PLACE], Responses.from_frame(rows).frame[PLACE])
    with pytest.raises(DataError, match="concept: differs from row"):
        Responses.from_frame(pd.concat([rows, rows.assign(concept="d")]), sum_repeats=True)
