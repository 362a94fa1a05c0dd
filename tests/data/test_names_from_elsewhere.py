"""Messages name the column or benchmark that a table of other tools means."""

import pandas as pd
import pytest

from bayescontam.data.covariates import Covariates
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["llm", "benchmark", "item", "correct"], r"model: no such column; did you mean 'llm'\?"),
        (["model", "Task", "item", "correct"], r"benchmark: no such column; did you mean 'Task'\?"),
        (["model", "benchmark", "Item ID", "correct"], r"item: .* did you mean 'Item ID'\?"),
        (["model", "benchmark", "item", "is_correct"], r"correct: .* did you mean 'is_correct'\?"),
        (["model", "benchmark", "thing", "correct"], "item: no such column; add one"),
    ],
)
def test_columns_of_other_names(columns: list[str], message: str) -> None:
    table = pd.DataFrame([["m", "b", "i", 1]], columns=columns)
    with pytest.raises(DataError, match=message):
        Responses.from_frame(table)


def covariates(benchmark: str, items: list[str]) -> Covariates:
    """Return covariates of the items of one benchmark."""
    frame = pd.DataFrame({"benchmark": benchmark, "item": items, "contamination": 0.5})
    return Covariates.from_frame(frame, source="covariates.csv")


class TestBenchmarksOfTwoNames:
    """A scan names a benchmark by its file unless it is given the name in the responses."""

    responses = Responses.from_frame(
        pd.DataFrame({"model": "m", "benchmark": "quiz", "item": ["a", "b"], "correct": [1, 0]})
    )

    def test_the_name_is_given(self) -> None:
        with pytest.raises(DataError) as error:
            self.responses.with_contamination(covariates("items", ["a", "b", "c"]))
        assert str(error.value).endswith(
            "2 of 2 responses match no row of covariates.csv; the items of 'items' there are those"
            " of 'quiz' here: call the benchmark 'quiz' there, or scan with --benchmark-name quiz"
        )

    def test_other_items_are_other_items(self) -> None:
        with pytest.raises(DataError, match=r"covariates\.csv; add rows for them$"):
            self.responses.with_contamination(covariates("items", ["a", "c"]))
