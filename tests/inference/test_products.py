"""Sums weighted by a matrix, against loops."""

import numpy as np
import pytensor.tensor as pt
import pytest

from bayescontam.model.products import weighted_sums

WEIGHTS = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 4.0], [0.0, 3.0, 1.0]])


def by_loops(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sums, one weight at a time."""
    sums = np.zeros((*values.shape[:-1], len(weights)))
    for row, weight in enumerate(weights):
        for column, each in enumerate(weight):
            sums[..., row] += each * values[..., column]
    return sums


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
@pytest.mark.parametrize("rows", [2, 3])
def test_the_last_axis_is_summed(leading: tuple[int, ...], rows: int) -> None:
    """Of square ones too, where another axis would give an answer without an error."""
    values = np.random.default_rng(1).normal(size=(*leading, 3))
    expected = by_loops(WEIGHTS[:rows], values)
    np.testing.assert_allclose(weighted_sums(WEIGHTS[:rows], values), expected)
    found = weighted_sums(WEIGHTS[:rows], pt.as_tensor(values))
    np.testing.assert_allclose(found.eval(mode="FAST_COMPILE"), expected)


def test_weights_may_be_parameters() -> None:
    values = np.array([1.0, -2.0, 0.5])
    found = weighted_sums(pt.as_tensor(WEIGHTS), pt.as_tensor(values))
    np.testing.assert_allclose(found.eval(mode="FAST_COMPILE"), by_loops(WEIGHTS, values))
