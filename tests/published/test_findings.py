"""Findings: how a printed number and ours go together, and tables that cannot be drawn."""

import pandas as pd
import pytest

from bayescontam.errors import UsageError
from bayescontam.published.findings import NEEDED, Comparison, Kind, PictureData

NAN = float("nan")


@pytest.mark.parametrize(
    ("published", "ours", "agreement"),
    [
        ((0.5, NAN, NAN), (0.6, 0.5, 0.7), "inside our interval"),
        ((0.5, 0.4, 0.6), (0.6, 0.51, 0.7), "intervals overlap"),
        ((0.8, 0.7, 0.9), (0.6, 0.5, 0.7), "intervals overlap"),
        ((0.5, 0.4, 0.6), (0.8, 0.7, 0.9), "apart"),
        ((0.5, NAN, NAN), (0.8, 0.7, 0.9), "apart"),
        ((0.5, 0.4, 0.6), (0.5, NAN, NAN), "no interval of ours"),
    ],
)
def test_agreement_is_worked_out_from_the_intervals(
    published: tuple[float, float, float], ours: tuple[float, float, float], agreement: str
) -> None:
    assert Comparison("q", "", *published, *ours, reason="").agreement == agreement


@pytest.mark.parametrize("kind", list(NEEDED))
def test_a_picture_without_a_column_that_it_needs_is_refused(kind: Kind) -> None:
    *others, last = NEEDED[kind]
    table = pd.DataFrame(columns=others)
    with pytest.raises(UsageError, match=f"picture 't' of kind '{kind}': .* no column '{last}'"):
        PictureData(kind, "t", "", table, "", "")


def test_an_unknown_kind_of_picture_is_refused() -> None:
    kind: Kind = "pie"  # type: ignore[assignment]
    with pytest.raises(
        UsageError, match="got kind 'pie'; allowed: intervals, bars, curves, shares, grid"
    ):
        PictureData(kind, "t", "", pd.DataFrame(), "", "")
