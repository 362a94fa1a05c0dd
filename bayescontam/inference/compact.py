"""Compact: which draws of a fit are stored, and how exactly.

What users read and what the model is made of is stored whole. What there is one of for each
item or response is most of the numbers, read by few, and thinned.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayescontam._types import FloatArray, IntArray
from bayescontam.inference.build import Built

PARAMETER_NUMBERS, LEAST_PARAMETER_DRAWS = 10_000_000, 400
"""Numbers of all parameters and estimands above which they are thinned, and to how many draws."""
ITEM_NUMBERS, LEAST_ITEM_DRAWS = 500_000, 1_000
"""The same of what each item has. As many draws as an update starts with are stored."""
RESPONSE_NUMBERS, LEAST_RESPONSE_DRAWS = 1_200_000, 200
"""The same of each group in which every response has a number."""
MOST_RESPONSES = 50_000
"""Responses above which no draws of them are stored, unless all is."""
WHOLE_NUMBERS = 50_000_000
"""Most numbers of each group of responses where all is stored: 400 MB."""
PRIOR_NUMBERS, LEAST_PRIOR_DRAWS = 1_000_000, 200
"""The same of parameters, and of estimands, before the data."""
DIGITS = 16
"""Binary digits of stored draws: a relative error of 8e-6, far below any Monte Carlo error."""
DENSITY_DIGITS = 11
"""The same of log densities of single responses: 2e-4, of numbers that are mostly below 1."""
ITEM_DIMS = frozenset({"item", "repeated", "response"})
"""Dims of what there is one of for each item or response."""
_SAME = ("delta_coordinates", "log_alpha")
"""What the sampler moves in place of `delta` and `alpha`, which say the same."""


@dataclass(frozen=True, eq=False)
class Positions:
    """Positions along ``draw`` of what is stored of each chain.

    Those of items are among those of parameters, and those of responses among both.
    """

    parameters: IntArray  # of parameters and estimands
    items: IntArray  # of item difficulties and discriminations
    # of log densities and replicated counts of responses; empty where there are none
    responses: IntArray

    @classmethod
    def of(
        cls,
        posterior: xr.Dataset,
        estimands: Mapping[str, xr.Dataset],
        built: Built,
        whole: bool,
        item_draws: int | None = None,
    ) -> "Positions":
        """Choose what is stored."""
        design = built.design
        chains, count = posterior.sizes["chain"], posterior.sizes["draw"]
        every = np.arange(count)
        if whole:
            most = _most(WHOLE_NUMBERS, len(design), LEAST_RESPONSE_DRAWS)
            return cls(every, every, every[spaced(count, most // chains)])
        datasets = [posterior.drop_vars(item_level(posterior)), *estimands.values()]
        size = sum(v[0, 0].size for each in datasets for v in each.data_vars.values())
        most = _most(PARAMETER_NUMBERS, size, LEAST_PARAMETER_DRAWS)
        parameters = every[spaced(count, most // chains)]
        if built.lattice is None:
            least = max(item_draws or 0, LEAST_ITEM_DRAWS)
            of_items = _most(ITEM_NUMBERS, len(design.items), least)
        else:
            of_items = item_draws or 0
        items = parameters[spaced(len(parameters), -(-of_items // chains))]
        items = items if of_items else items[:0]
        if len(design) > MOST_RESPONSES:
            return cls(parameters, items, every[:0])
        most = _most(RESPONSE_NUMBERS, len(design), LEAST_RESPONSE_DRAWS)
        among = items if len(items) else parameters
        return cls(parameters, items, among[spaced(len(among), most // chains)])

    def rows(self, which: IntArray, posterior: xr.Dataset) -> IntArray:
        """Return positions among all draws, chains joined."""
        chains, count = posterior.sizes["chain"], posterior.sizes["draw"]
        rows: IntArray = (np.arange(chains)[:, None] * count + which).ravel()
        return rows


def _most(numbers: int, size: int, least: int) -> int:
    return max(least, numbers // max(size, 1))


def spaced(count: int, most: int) -> IntArray:
    """Return at most `most` positions among `count`, evenly spaced, and one at least."""
    wanted = min(max(most, 1), count)
    return np.unique(np.linspace(0, count - 1, wanted).astype(np.int64))


def item_level(dataset: xr.Dataset) -> list[str]:
    """Return the names of what there is one of for each item or response."""
    return [
        str(name)
        for name, values in dataset.data_vars.items()
        if name in _SAME or ITEM_DIMS & {*map(str, values.dims)}
    ]


def without_items(dataset: xr.Dataset) -> xr.Dataset:
    """Return the draws of all else."""
    return dataset.drop_vars(item_level(dataset)).drop_dims(ITEM_DIMS, errors="ignore")


def draws_of_items(posterior: xr.Dataset, whole: bool) -> xr.Dataset:
    """Return the draws of what items have: ``delta`` and ``alpha``."""
    names = [n for n in item_level(posterior) if whole or n not in (*_SAME, "eta")]
    return posterior[names]


def thinned_prior(dataset: xr.Dataset) -> xr.Dataset:
    """Return draws from the prior, fewer of many parameters."""
    size = sum(v[0, 0].size for v in dataset.data_vars.values())
    at = spaced(dataset.sizes["draw"], _most(PRIOR_NUMBERS, size, LEAST_PRIOR_DRAWS))
    return dataset.isel(draw=at)


def rounded(dataset: xr.Dataset, digits: int = DIGITS) -> xr.Dataset:
    """Return the same numbers to some binary digits; a file then holds them exactly."""
    data: dict[Any, Any] = {
        name: values.copy(data=_rounded(values.to_numpy(), digits))
        for name, values in dataset.data_vars.items()
        if values.dtype.kind == "f"
    }
    return dataset.assign(data)


def _rounded(values: FloatArray, digits: int) -> FloatArray:
    part, power = np.frexp(values.astype(np.float64))
    return np.ldexp(np.round(np.ldexp(part, digits)), power - digits)
