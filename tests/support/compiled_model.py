"""Models that are compiled for nutpie: their densities, and fits to many data sets of one shape."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

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
        return self.tree(built, seed, **options)["posterior"].to_dataset()

    def tree(self, built: BuiltModel, seed: int, **options: Any) -> xr.DataTree:
        """Return all that nutpie reports, for the counts of `built`."""
        import nutpie

        values = build_design(built.spec, built.design, "counts").data()
        data = self._compiled.with_data(**values)
        return nutpie.sample(data, seed=seed, progress_bar=False, **options)


def density_of(compiled: Any) -> Callable[[np.ndarray], tuple[int, float, np.ndarray]]:
    """Return what calls a compiled model: its status, log density and gradient at a point."""
    function, data = compiled.compiled_logp_func, compiled.user_data
    call = function.ctypes
    gradient, density = np.empty(compiled.n_dim), np.empty(1)

    def at(x: np.ndarray) -> tuple[int, float, np.ndarray]:
        pointers = [
            a.ctypes.data_as(call.argtypes[k + 1]) for k, a in enumerate((x, gradient, density))
        ]
        status = call(len(x), *pointers, data.ctypes.data)
        return status, density.item(), gradient.copy()

    at.function = function  # type: ignore[attr-defined]  # whose code this calls
    return at
