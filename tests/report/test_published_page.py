"""Numbers of the page of published figures."""

import pytest

from bayescontam.report.published_page import figure


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e-23, "1e−23"), (0.0004, "0.0004"), (-0.0004, "−0.0004"), (0.0, "0.000"), (0.0123, "0.012"),
     (float("nan"), "–"), (1234.56, "1,234.6")],
)  # fmt: skip
def test_small_numbers_are_not_zero(value: float, text: str) -> None:
    assert figure(value) == text
