"""Models that are compiled for nutpie: their densities, and fits to many data sets of one shape."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from bayescontam.inference.batched import labelled
from bayescontam.inference.compiling import compile_model
from bayescontam.model.build import BuiltModel, build_design


class Compiled:
    """A built model spec, for counts that are set anew, each with its own coordinates."""

    def __init__(self, built: BuiltModel) -> None:
        own = build_design(built.spec, built.design, "counts")
        self._compiled = compile_model(own.model)

    def draw(self, built: BuiltModel, seed: int, draws: int = 500, cores: int = 2) -> xr.Dataset:
        """Return posterior draws of two chains for the counts of `built`."""
        options = {"draws": draws, "tune": 500, "chains": 2, "cores": cores, "target_accept": 0.9}
        return self.sampled(built, seed, **options)[0]

    def sampled(self, built: BuiltModel, seed: int, **options: Any) -> tuple[xr.Dataset, Any]:
        """Return draws and the sampler's statistics for the counts of `built`."""
        values = build_design(built.spec, built.design, "counts").data()
        data = self._compiled.with_data(**values)
        variables, statistics = data.sample(seed=seed, **options)
        return labelled(built.model, variables), statistics


def density_of(compiled: Any) -> Callable[[np.ndarray], tuple[int, float, np.ndarray]]:
    """Return what calls a compiled model: its status, log density and gradient at a point."""
    density = getattr(compiled, "density", compiled)  # of ours, or nutpie's own
    function, data, n_dim = density.compiled_logp_func, density.user_data, density.n_dim
    call = function.ctypes
    gradient, value = np.empty(n_dim), np.empty(1)

    def at(x: np.ndarray) -> tuple[int, float, np.ndarray]:
        pointers = [
            a.ctypes.data_as(call.argtypes[k + 1]) for k, a in enumerate((x, gradient, value))
        ]
        status = call(len(x), *pointers, data.ctypes.data)
        return status, value.item(), gradient.copy()

    at.function = function  # type: ignore[attr-defined]  # whose code this calls
    at.n_dim = n_dim  # type: ignore[attr-defined]
    return at
