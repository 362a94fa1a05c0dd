"""Sums by plain loops are those of NumPy."""

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.link.numba.dispatch import basic
from pytensor.tensor.math import Sum

from bayescontam.inference import sums
from bayescontam.inference.sums import sums_by_loops

RNG = np.random.default_rng(3)


def used(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the forms of sums that are looked up and found from here on."""
    found = []

    class Watched(dict[Any, Any]):
        def __getitem__(self, form: Any) -> Any:
            found.append(form)
            return super().__getitem__(form)

    monkeypatch.setattr(sums, "_SUMS", Watched(sums._SUMS))
    return found


def check(x: np.ndarray, axis: Any) -> None:
    given = pt.tensor(dtype=x.dtype, shape=(None,) * x.ndim)
    with sums_by_loops():
        total = pytensor.function([given], Sum(axis=axis)(given), mode="NUMBA")
        found = total(x)
    assert found.dtype == x.sum(axis=axis).dtype
    np.testing.assert_allclose(found, x.sum(axis=axis), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("shape", [(4, 3), (0, 3), (3, 0), (200, 70)])
def test_matrices(axis: Any, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    found = used(monkeypatch)
    x = RNG.normal(size=shape)
    check(x, axis)
    check(x.T, axis)
    check(np.repeat(x, 2, axis=1)[:, ::2], axis)
    assert found


@pytest.mark.parametrize("axis", [None, 0, (0,)])
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_vectors(axis: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = used(monkeypatch)
    x = RNG.normal(size=size)
    check(x, axis)
    check(x[::-2], axis)
    assert found


@pytest.mark.parametrize(
    ("x", "axis"),
    [
        (RNG.normal(size=(2, 3, 4)), 1),
        (RNG.normal(size=(2, 3, 4)), (0, 2)),
        (np.arange(6).reshape(2, 3), 1),
        (np.arange(6) > 2, None),
        (RNG.normal(size=5).astype(np.float32), None),
    ],
)
def test_others_are_left_to_pytensor(
    x: np.ndarray, axis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = used(monkeypatch)
    given = pt.tensor(dtype=x.dtype, shape=(None,) * x.ndim)
    with sums_by_loops():
        total = pytensor.function([given], Sum(axis=axis)(given), mode="NUMBA")(x)
    np.testing.assert_allclose(total, x.sum(axis=axis), rtol=1e-6)
    assert not found


def test_no_value_is_lost_that_is_not_finite() -> None:
    x = np.array([[1.0, np.nan], [np.inf, 2.0]])
    check(x, 0)
    check(x, 1)


def test_pytensor_gets_its_sums_back(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch = basic.numba_funcify_and_cache_key
    before = dispatch.dispatch(Sum)
    with sums_by_loops():
        assert dispatch.dispatch(Sum) is not before
    assert dispatch.dispatch(Sum) is before
    monkeypatch.delattr(basic, "register_funcify_and_cache_key")
    with sums_by_loops():
        assert dispatch.dispatch(Sum) is before
