"""Jax: an engine whose chains, and tables if need be, are sampled side by side."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayescontam.calibration.chees import Length, chees
from bayescontam.calibration.engines import Drawn
from bayescontam.calibration.varying import Varying
from bayescontam.calibration.vectors import Vectors, precision
from bayescontam.inference.build import Built
from bayescontam.responses import Responses
from bayescontam.specs.study import Sampling


class Jax:
    """A model compiled once by JAX.

    ChEES-HMC; see `bayescontam.calibration.chees`. Variables are worked out of the draws in
    double precision in any case.
    """

    name = "jax"

    def __init__(self, varying: Varying, double: bool = False) -> None:
        self._varying, self._double = varying, double
        self._vectors = Vectors(varying.model, varying.names)
        # Stored with the engine: what is compiled depends on the study's own sampling alone.
        self._sampler = lru_cache(self._compiled)
        self._variables = _compiled_variables(self._vectors)

    def draw(self, responses: Responses, seed: int, sampling: Sampling) -> Drawn:
        """Return draws for a table of the same layout as the first."""
        built, values = self._varying.given(responses)
        draws, diverged = self._sample(sampling, seed, self._arranged(values), mapped=False)
        return self._drawn(built, values, draws, diverged)

    def draw_all(
        self, tables: Sequence[Responses], seeds: Sequence[int], sampling: Sampling
    ) -> list[Drawn]:
        """Return draws for several tables at once.

        Meant for a GPU; studies, which go table by table, do not use it yet. On a CPU it gains
        nothing, since every trajectory of one step takes
        as long as the longest of all tables. What is computed is what `draw` computes one
        by one, but sums may be rounded in another way, and in single precision
        trajectories make other draws of that: of the same posterior, and the same draws
        for the same tables and seeds.
        """
        given = [self._varying.given(table) for table in tables]
        arranged = [self._arranged(values) for _, values in given]
        stacked = [np.stack(parts) for parts in zip(*arranged, strict=True)]
        draws, diverged = self._sample(sampling, np.asarray(seeds), stacked, mapped=True)
        return [
            self._drawn(built, values, draws[i], diverged[i])
            for i, (built, values) in enumerate(given)
        ]

    def _arranged(self, values: dict[str, Any]) -> list[NDArray[Any]]:
        return [np.asarray(values[name], dtype=np.float64) for name in self._varying.names]

    def _sample(
        self, sampling: Sampling, seed: Any, data: list[NDArray[Any]], mapped: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return draws and whether they diverged, on the host."""
        number = np.float64 if self._double else np.float32
        with precision(self._double):
            run = self._sampler(_length(sampling), mapped)
            arguments = number(sampling.target_accept), *(each.astype(number) for each in data)
            draws, diverged = run(np.asarray(seed, dtype=np.uint32), *arguments)
            return np.asarray(draws), np.asarray(diverged)

    def _compiled(self, length: Length, mapped: bool) -> Any:
        import jax

        def density(vector: Any, *data: Any) -> Any:
            return self._vectors.log_density(vector, data)

        sample = chees(density, self._vectors.size, length)

        def seeded(seed: Any, target: Any, *data: Any) -> Any:
            return sample(jax.random.key(seed, impl="threefry2x32"), target, *data)

        if mapped:
            seeded = jax.vmap(seeded, (0, None, *(0 for _ in self._varying.names)))
        return jax.jit(seeded)

    def _drawn(
        self,
        built: Built,
        values: dict[str, Any],
        draws: NDArray[Any],
        diverged: NDArray[Any],
    ) -> Drawn:
        with precision(double=True):
            found = self._variables(draws.astype(np.float64), self._arranged(values))
        data = {}
        for name, each in zip(self._vectors.names, map(np.asarray, found), strict=True):
            dims = [f"{name}_dim_{axis}" for axis in range(each.ndim - 2)]
            data[name] = (("chain", "draw", *dims), each)
        return Drawn(xr.Dataset(data), float(diverged.mean()), built)


def _length(sampling: Sampling) -> Length:
    """Return how long ChEES runs for as many draws as a study requests."""
    return Length(*sampling.model_copy(update={"engine": "jax"}).run, sampling.tune)


def _compiled_variables(vectors: Vectors) -> Any:
    """Return a compiled function of draws, dims (chain, draw, size), and of data."""
    import jax

    of_chain = jax.vmap(vectors.variables, (0, None))
    return jax.jit(jax.vmap(of_chain, (0, None)))
