"""Sample a model by nutpie, PyMC or NumPyro."""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
import pymc as pm
import xarray as xr

from bayescontam._optional import require
from bayescontam._progress import progress_bar, stage
from bayescontam.errors import UsageError
from bayescontam.inference.batched import labelled
from bayescontam.inference.compiled import CompiledModel
from bayescontam.inference.compiling import compile_model
from bayescontam.model.marginal import Difficulties
from bayescontam.specs.base import suggest

Engine = Literal["nutpie", "pymc", "numpyro"]
MAX_DEPTH = 10
"""Largest tree depth of NUTS: the default of all three engines."""


AUTO_DRAWS, AUTO_TUNE = (700, 1000, 1500, 2500, 4500), (400, 700)
"""Draws of each chain that are made by need, until they suffice; of its tuning, and of a longer one
where transitions diverge."""
# 400 draws would do for ESS; of a hundred parameters, R-hat of one is then often above 1.01.


@dataclass(frozen=True)
class Sampling:
    """How a posterior is sampled."""

    engine: Engine = "nutpie"
    draws: int = 1500  # draws stored of each chain
    tune: int = 700  # draws of each chain before those, used to adapt the sampler
    chains: int = 4
    cores: int = 2  # chains that run at the same time
    target_accept: float = 0.9  # acceptance that the step size is adapted to, in (0, 1)
    # whether item difficulties are sampled with all other parameters, or integrated out and drawn
    # afterwards. `"auto"` integrates out those of large tables.
    difficulties: Difficulties = "auto"

    def __post_init__(self) -> None:
        """Validate the settings."""
        if self.engine not in get_args(Engine):
            hint = suggest(str(self.engine), get_args(Engine))
            raise UsageError(f"engine: got {self.engine!r}; {hint}")
        if self.difficulties not in get_args(Difficulties):
            hint = suggest(str(self.difficulties), get_args(Difficulties))
            raise UsageError(f"difficulties: got {self.difficulties!r}; {hint}")
        least = {"draws": 4, "tune": 1, "chains": 2, "cores": 1}
        for name, value in least.items():
            given = getattr(self, name)
            if not isinstance(given, Integral):
                raise UsageError(f"{name}: got {given!r}; allowed is a whole number")
            if given < value:
                raise UsageError(f"{name}: got {given}; at least {value} is needed")
            object.__setattr__(self, name, int(given))  # of NumPy, say
        if not 0 < self.target_accept < 1:
            raise UsageError(
                f"target_accept: got {self.target_accept}; allowed is above 0 and below 1"
            )


@dataclass(frozen=True)
class Drawn:
    """Draws from a posterior, and how they were made."""

    posterior: xr.Dataset  # dims (chain, draw, …)
    statistics: xr.Dataset  # of the sampler, dims (chain, draw)
    sampling: Sampling
    last: bool = True  # whether there are no more to come


def sample_model(
    model: pm.Model,
    sampling: Sampling,
    seed: int,
    progress: bool,
    compiled: CompiledModel | None = None,
) -> tuple[xr.Dataset, xr.Dataset]:
    """Draw from the posterior of a PyMC model, which may have been compiled for nutpie before."""
    if sampling.engine == "nutpie":
        compiled = compiled or compile_model(model, progress)
        with _shown(progress, sampling) as show:
            variables, found = compiled.sample(
                draws=sampling.draws,
                cores=sampling.cores,
                progress_callback=show if progress else None,
                progress_rate=500,
                **_run_options(sampling, seed),
            )
        return labelled(model, variables), _statistics(found)
    tree = _by_pymc(model, sampling, seed, progress)
    posterior = tree["posterior"].to_dataset()
    if posterior.sizes["draw"] < sampling.draws:
        raise KeyboardInterrupt  # which PyMC swallows, and cuts all chains to the shortest
    statistics = tree["sample_stats"].to_dataset()
    return _named(posterior), _statistics({str(n): statistics[n].to_numpy() for n in statistics})


def draw_by_need(
    model: pm.Model,
    sampling: Sampling,
    seed: int,
    progress: bool,
    compiled: CompiledModel | None = None,
) -> Generator[Drawn]:
    """Yield few draws from the posterior of a PyMC model, then more, as long as there is need.

    By nutpie, chains continue where they were, all at the same time however many cores there are;
    they start anew, with a longer tuning, where transitions diverged. Other engines start anew.
    """
    if sampling.engine != "nutpie":
        for draws in AUTO_DRAWS[::2]:
            longest = AUTO_TUNE[draws > AUTO_DRAWS[0]]
            own = replace(sampling, draws=draws, tune=min(sampling.tune, longest))
            yield Drawn(*sample_model(model, own, seed, progress), own, draws == AUTO_DRAWS[-1])
        return
    compiled, done = compiled or compile_model(model, progress), 0
    for tune in (min(sampling.tune, each) for each in AUTO_TUNE):
        lasting = replace(sampling, tune=tune, draws=AUTO_DRAWS[-1])
        options = _run_options(lasting, seed)
        with compiled.running(draws=lasting.draws, **options) as first:
            for draws in AUTO_DRAWS:
                if draws <= done:
                    continue
                own = replace(lasting, draws=draws)
                with _shown(progress, own) as show:
                    variables, found = first(draws, show)
                done, statistics = draws, _statistics(found)
                yield Drawn(labelled(model, variables), statistics, own, draws == AUTO_DRAWS[-1])
                if statistics["diverging"].any() and tune < min(sampling.tune, AUTO_TUNE[-1]):
                    break


def _run_options(sampling: Sampling, seed: int) -> dict[str, Any]:
    return {
        "tune": sampling.tune,
        "chains": sampling.chains,
        "target_accept": sampling.target_accept,
        # That of `pm.sample`: the same seed has always given the same draws.
        "seed": int(np.random.default_rng(seed).spawn(1)[0].integers(2**30)),
    }


@contextmanager
def _shown(progress: bool, sampling: Sampling) -> Iterator[Callable[[list[Any]], None]]:
    """Show how far chains are, which the block gives; nutpie's own table goes to the output."""
    most = sampling.tune + sampling.draws
    diverging, done = 0, 0

    def note() -> str:
        return f"{diverging:,} divergences" if diverging else "no divergences"

    with progress_bar(progress, "sampling", sampling.chains * most, "draws", note) as advance:

        def show(chains: list[Any]) -> None:
            nonlocal diverging, done
            finished = sum(min(chain.finished_draws, most) for chain in chains)
            diverging = sum(chain.divergences for chain in chains)
            advance(finished - done)
            done = finished

        yield show


def _by_pymc(model: pm.Model, sampling: Sampling, seed: int, progress: bool) -> xr.DataTree:
    if sampling.engine == "numpyro":
        require("numpyro", "jax")
    # PyMC forks its chains, and a process in which JAX runs threads may hang when forked.
    counts = sampling.engine == "pymc"
    forks = counts and "jax" in sys.modules
    total = sampling.chains * (sampling.tune + sampling.draws)
    with progress_bar(progress and counts, "sampling", total, "draws") as advance:
        options = {"callback": lambda **_: advance(1)} if counts else {}
        with stage(progress and not counts, "compiling the model and sampling"):
            return pm.sample(
                model=model,
                draws=sampling.draws,
                tune=sampling.tune,
                chains=sampling.chains,
                cores=1 if forks else sampling.cores,
                target_accept=sampling.target_accept,
                random_seed=seed,
                progressbar=False,
                quiet=True,
                nuts_sampler=sampling.engine,
                compute_convergence_checks=False,
                **options,
                **_side_by_side(sampling),
            )


def _side_by_side(sampling: Sampling) -> dict[str, Any]:
    """Return options of `pm.sample` for NumPyro: chains follow each other where devices are few."""
    # PyMC gives JAX a device for each chain, but only if JAX has not been used before.
    if sampling.engine != "numpyro":
        return {}
    import pymc.sampling.jax  # noqa: F401  (which gives JAX its devices)
    from jax import local_device_count

    enough = local_device_count() >= sampling.chains
    return {"nuts": {"chain_method": "parallel" if enough else "sequential"}}


def _named(posterior: xr.Dataset) -> xr.Dataset:
    """Drop what only the sampler needed, and give plain integer chains and draws."""
    sampled = posterior[[n for n in posterior.data_vars if not str(n).endswith("__")]]
    return sampled.assign_coords(
        chain=np.arange(sampled.sizes["chain"]), draw=np.arange(sampled.sizes["draw"])
    )


def _statistics(given: dict[str, Any]) -> xr.Dataset:
    """Return the sampler statistics under one set of names for all engines."""
    depth = given["depth"] if "depth" in given else given["tree_depth"]
    result = {
        "diverging": given["diverging"].astype(bool),
        "energy": given["energy"],
        "tree_depth": depth.astype(np.int64),
        "n_steps": given["n_steps"].astype(np.int64),
        "reached_max_treedepth": depth >= MAX_DEPTH,
    }
    chains, draws = depth.shape
    data = {name: (("chain", "draw"), values) for name, values in result.items()}
    return xr.Dataset(data, {"chain": np.arange(chains), "draw": np.arange(draws)})
