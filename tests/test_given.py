"""Tables are the same whether they are given as objects, data frames or paths."""

from pathlib import Path

import pandas as pd
import pytest

from bayescontam.data.covariates import Covariates
from bayescontam.data.responses import Responses, given_covariates, given_responses
from bayescontam.errors import DataError, UsageError

ANSWERS = pd.DataFrame(
    {"model": "m", "benchmark": "b", "item": ["x", "y", "z"], "correct": [1, 0, 1]}
)
DOSES = pd.DataFrame({"benchmark": "b", "item": ["y", "x"], "contamination": [0.25, 0.75]})


@pytest.fixture(params=["object", "frame", "path", "text"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def given(form: str, frame: pd.DataFrame, kind: type, folder: Path) -> object:
    """Return a table in one of the forms that functions take."""
    path = folder / f"{kind.__name__}.csv"
    frame.to_csv(path, index=False)
    return {
        "object": kind.from_frame(frame),  # type: ignore[attr-defined]
        "frame": frame,
        "path": path,
        "text": str(path),
    }[form]


def test_every_form_is_the_same_table(form: str, tmp_path: Path) -> None:
    found = given_responses(given(form, ANSWERS, Responses, tmp_path))  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(found.frame, Responses.from_frame(ANSWERS).frame)
    doses = given_covariates(given(form, DOSES, Covariates, tmp_path))  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(doses.frame, Covariates.from_frame(DOSES).frame)


def test_covariates_are_joined_in_every_form(form: str, tmp_path: Path) -> None:
    doses = given(form, DOSES, Covariates, tmp_path)
    found = given_responses(ANSWERS, doses, "drop")  # type: ignore[arg-type]
    assert found.frame[["item", "contamination"]].to_numpy().tolist() == [["x", 0.75], ["y", 0.25]]
    with pytest.raises(DataError, match="no contamination for 1 of 3 items of 'b': 'z'"):
        given_responses(ANSWERS, doses)  # type: ignore[arg-type]


def test_two_sources_of_contamination_are_refused() -> None:
    with pytest.raises(UsageError, match="use one of the two"):
        given_responses(ANSWERS.assign(contamination=0.5), DOSES)
