"""Lookups by regular positions, and what is computed of them, give the same as grids."""

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.subtensor import AdvancedSubtensor

from bayescontam.calibration.jax_sampler import grid_axes, lay_out


def digits(shape: tuple[int, ...], steps: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return positions by brute force: step times place, summed over the axes."""
    return np.array([np.dot(at, steps) for at in np.ndindex(*shape)], dtype=np.int64)


def compiled(vectors: list[Any], output: Any) -> tuple[Any, Any, list[Any]]:
    """Return a function before and after, and the lookups that are left in it."""
    before = FunctionGraph(vectors, [output], clone=True)
    after = FunctionGraph(vectors, [output], clone=True)
    lay_out(after)
    left = [node for node in after.toposort() if isinstance(node.op, AdvancedSubtensor)]
    made = (pytensor.function(g.inputs, g.outputs, mode="FAST_COMPILE") for g in (before, after))
    return *made, left


@pytest.mark.parametrize(
    ("shape", "steps"),
    [((5,), (1,)), ((4, 3), (0, 1)), ((4, 3), (1, 0)), ((2, 3, 5), (1, 2, 0)),
     ((2, 3, 5), (5, 0, 1)), ((3, 2, 2), (0, 2, 1)), ((6,), (0,))],
)  # fmt: skip
def test_regular_positions_are_recognised_by_their_axes(
    shape: tuple[int, ...], steps: tuple[int, ...]
) -> None:
    axes = grid_axes(digits(shape, steps))
    assert axes is not None
    sizes, found = zip(*axes, strict=True)
    np.testing.assert_array_equal(digits(sizes, found), digits(shape, steps))


@pytest.mark.parametrize(
    "positions", [[1, 2, 3], [0, 2, 4], [0, 1, 1], [0, 0, 1], [0, 1, 0, 2], [3, 2, 1, 0], [0], []]
)
def test_other_positions_are_not(positions: list[int]) -> None:
    """They start late, leave some out, or do not repeat; one alone has no axis."""
    assert grid_axes(np.array(positions, dtype=np.uint8)) is None


@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("benchmarks", [1, 2])
def test_log_odds_of_a_table_are_those_of_lookups(models: int, benchmarks: int) -> None:
    """Also where vectors of a length have different axes, and vectors are longer than reached."""
    shape, items = (benchmarks, models, 4), 4 * benchmarks
    cell = digits(shape, (1, benchmarks, 0))
    item, benchmark = digits(shape, (4, 0, 1)), digits(shape, (1, 0, 0))
    theta, delta, counts = pt.vectors("theta", "delta", "counts")
    scale = pt.vector("scale")[digits((benchmarks, 4), (1, 0))]
    eta = theta[cell] * 2.0 - (delta * scale)[item] + pt.vector("kappa")[benchmark] * counts
    inputs = [theta, delta, counts, *(v for v in pytensor.graph.traversal.graph_inputs([eta])
              if v.name in ("scale", "kappa"))]  # fmt: skip
    output = (counts * eta - pt.softplus(eta)).sum() + eta[1] + pt.exp(theta[cell]).sum()
    before, after, left = compiled(inputs, output)
    assert not left
    rng = np.random.default_rng(models)
    sizes = {"theta": models * benchmarks + 1, "delta": items, "counts": models * items}
    given = [rng.normal(size=sizes.get(each.name, benchmarks)) for each in inputs]
    np.testing.assert_allclose(after(*given), before(*given), rtol=1e-12)


def test_what_is_not_regular_is_looked_up() -> None:
    """Of two lookups of one length whose axes have no common grid, too."""
    vector, other = pt.vectors("vector", "other")
    uneven = vector[np.array([0, 0, 1, 0, 1, 1])] + other[digits((2, 3), (0, 1))]
    clash = vector[digits((2, 3), (1, 0))] * other[digits((3, 2), (1, 0))]
    for output, count in ((uneven, 1), (clash, 2)):
        before, after, left = compiled([vector, other], output)
        assert len(left) == count
        given = np.array([0.5, -1.0]), np.array([2.0, 3.0, 5.0])
        np.testing.assert_array_equal(after(*given), before(*given))


def test_sums_keep_their_precision() -> None:
    vector, counts = pt.fvector("vector"), pt.fvector("counts")
    output = (vector[digits((2, 3), (0, 1))] * counts).sum(dtype="float64")
    before, after, left = compiled([vector, counts], output)
    assert not left
    given = np.array([0.5, -1.0, 3.0], np.float32), np.arange(6, dtype=np.float32)
    (found,), (wanted,) = after(*given), before(*given)
    assert found == wanted
    assert found.dtype == np.float64
