"""What is stored of a fit: which draws, how exactly, and how much of a disk that takes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from bayescontam.inference import stored as compact
from bayescontam.inference.posterior import spaced
from bayescontam.inference.stored import Positions, item_level, rounded, rows_of, without_items

CHAINS, DRAWS = 4, 1500


def sampled(models: int, items: int) -> xr.Dataset:
    """Return a posterior that takes no memory."""

    def draws(*dims: str) -> Any:
        sizes = {"model": models, "benchmark": 1, "item": items, "repeated": models * items}
        shape = CHAINS, DRAWS, *(sizes[dim] for dim in dims)
        return ("chain", "draw", *dims), np.broadcast_to(0.5, shape)

    data = {name: draws("model", "benchmark") for name in ("theta", "beta")}
    data |= {"delta": draws("item"), "eta": draws("repeated"), "sigma_eps": draws()}
    return xr.Dataset(data, {"chain": np.arange(CHAINS), "draw": np.arange(DRAWS)})


def positions(models: int, items: int, whole: bool = False, **options: Any) -> Positions:
    design = [None] * (models * items)
    built: Any = SimpleNamespace(
        design=_Design(design, items), lattice=options.pop("lattice", None)
    )
    posterior = sampled(models, items)
    estimands = {"estimands": posterior[["theta", "beta"]]}
    return Positions.of(posterior, estimands, built, whole, **options)


class _Design(list[None]):
    def __init__(self, rows: list[None], items: int) -> None:
        super().__init__(rows)
        self.items = range(items)


def test_small_tables_are_stored_whole():
    kept = positions(5, 30)
    for at in vars(kept).values():
        assert at.tolist() == list(range(DRAWS))


def test_parameters_of_ordinary_tables_are_stored_whole_and_the_rest_thinned():
    kept = positions(19, 181)
    assert kept.parameters.tolist() == list(range(DRAWS))
    assert 250 <= len(kept.items) < DRAWS
    assert 50 <= len(kept.responses) < len(kept.items)
    assert set(kept.responses) <= set(kept.items)
    assert kept.items[[0, -1]].tolist() == [0, DRAWS - 1]
    assert np.ptp(np.diff(kept.items)) <= 1  # evenly spaced


def test_parameters_of_great_boards_are_thinned():
    kept = positions(3000, 12)
    size = 4 * 3000 + 1
    assert CHAINS * len(kept.parameters) * size <= compact.PARAMETER_NUMBERS
    assert set(kept.items) <= set(kept.parameters)
    assert set(kept.responses) <= set(kept.items)
    assert CHAINS * len(kept.parameters) >= compact.LEAST_PARAMETER_DRAWS


def test_nothing_of_responses_is_stored_of_great_tables():
    assert len(positions(1001, 50).responses) == 0
    assert CHAINS * len(positions(1000, 50).responses) == compact.LEAST_RESPONSE_DRAWS


def test_everything_is_stored_if_requested():
    kept = positions(19, 181, whole=True)
    assert {len(at) for at in vars(kept).values()} == {DRAWS}


def test_draws_of_difficulties_are_stored_as_requested():
    assert CHAINS * len(positions(2, 10_000).items) == compact.LEAST_ITEM_DRAWS
    assert CHAINS * len(positions(2, 10_000, item_draws=2000).items) == 2000
    assert len(positions(2, 10_000, lattice=object()).items) == 0
    assert CHAINS * len(positions(2, 10_000, lattice=object(), item_draws=40).items) == 40


def test_rows_are_those_of_joined_chains():
    posterior = sampled(2, 3)
    assert rows_of(np.array([0, 7]), posterior).tolist() == [
        0, 7, 1500, 1507, 3000, 3007, 4500, 4507,
    ]  # fmt: skip


def test_items_are_recognised_by_their_dims():
    posterior = sampled(2, 3)
    assert item_level(posterior) == ["delta", "eta"]
    assert set(without_items(posterior).data_vars) == {"theta", "beta", "sigma_eps"}


@pytest.mark.parametrize("digits", [2, 11, 16, 24])
def test_rounding_is_to_so_many_digits_and_exact_in_single_precision(digits):
    rng = np.random.default_rng(1)
    values = rng.normal(size=1000) * 10.0 ** rng.integers(-20, 20, 1000)
    values[:4] = np.nan, np.inf, -np.inf, 0.0
    found = rounded(xr.Dataset({"x": ("i", values)}), digits)["x"].to_numpy()
    np.testing.assert_array_equal(found, found.astype(np.float32))
    finite = np.isfinite(values)
    np.testing.assert_array_equal(found[~finite], values[~finite])
    error = np.abs(found[finite] - values[finite]) / np.maximum(np.abs(values[finite]), 1e-300)
    assert error.max() <= 2.0**-digits
    np.testing.assert_array_equal(rounded(xr.Dataset({"x": ("i", found)}), digits)["x"], found)


def test_equal_numbers_stay_equal_and_whole_ones_whole():
    ranks = xr.Dataset({"rank": ("i", np.arange(1.0, 20_000.0, 0.5))})
    np.testing.assert_array_equal(rounded(ranks)["rank"], ranks["rank"])


def test_positions_are_evenly_spaced():
    assert spaced(10, 3).tolist() == [0, 4, 9]
    assert spaced(3, 10).tolist() == [0, 1, 2]
    assert spaced(5, 0).tolist() == [0]
