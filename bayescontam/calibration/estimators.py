"""Estimators of studies: posteriors, by models compiled once for many tables."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pymc as pm
import xarray as xr

from bayescontam._optional import check_installed
from bayescontam._types import FloatArray
from bayescontam.calibration.jax_sampler import Vectors, chees, precision
from bayescontam.calibration.quantities import Key, as_dataset
from bayescontam.data.responses import Responses
from bayescontam.inference.compiling import compile_model
from bayescontam.inference.reusable import ReusableModel, counts_are_data, doses_are_data
from bayescontam.inference.sampling import Sampling, sample_model
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.design import make_design
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.study import Gates, SamplingSpec

LONGER = {"draws": 4, "tune": 2}  # how many times as long the second try is
TARGET_ACCEPT = 0.99  # acceptance of the second try: small steps, which diverge less
_EXTRAS = {"jax": ("jax", "blackjax")}
"""Packages that an engine needs, by its name and that of the extra that has them."""


@dataclass(frozen=True, eq=False)
class SampledDraws:
    """Draws from a posterior."""

    posterior: xr.Dataset  # dims (chain, draw, …)
    diverged: float  # share of draws that diverged
    built: BuiltModel  # with the data of the table that was fitted


def lengthen(sampling: SamplingSpec) -> SamplingSpec:
    """Return how a posterior is sampled at the second try."""
    more = {name: getattr(sampling, name) * times for name, times in LONGER.items()}
    target = max(TARGET_ACCEPT, sampling.target_accept)
    return sampling.model_copy(update={**more, "target_accept": target})


class Sampler(Protocol):
    """Draws from the posterior of a model spec, for tables of one cell."""

    name: str

    def draw(self, responses: Responses, seed: int, sampling: SamplingSpec) -> SampledDraws:
        """Return draws for a table; the same for the same seed."""


class RebuiltSampler:
    """A model built and compiled for each table: slow, and good for anything."""

    def __init__(self, spec: ModelSpec, name: Any) -> None:
        self._spec, self.name = spec, name

    def draw(self, responses: Responses, seed: int, sampling: SamplingSpec) -> SampledDraws:
        """Return draws for a table."""
        built = build(self._spec, responses)
        return _sampled(built, built.model, self.name, sampling, seed)


def _sampled(
    built: BuiltModel, model: pm.Model, engine: Any, sampling: SamplingSpec, seed: int
) -> SampledDraws:
    """Sample a posterior as fits are sampled, chain after chain."""
    options = sampling.model_dump(include={"draws", "tune", "chains", "target_accept"})
    plain = Sampling(engine, **options, cores=1)
    posterior, statistics = sample_model(model, plain, seed, False)
    return SampledDraws(posterior, float(statistics["diverging"].mean()), built)


class PyMCSampler:
    """A model compiled once by PyMC, and held against the model of each table."""

    name = "pymc"

    def __init__(self, reusable: ReusableModel) -> None:
        self._reusable = reusable
        # A frozen model keeps what is compiled of it. `pm.freeze_model` would also make
        # constants of data that free variables depend on, as their lengths might change.
        # Ours never do.
        reusable.model.__class__ = pm.FrozenModel

    def draw(self, responses: Responses, seed: int, sampling: SamplingSpec) -> SampledDraws:
        """Return draws for a table of the same layout as the first."""
        built, values = self._reusable.given(responses)
        pm.set_data(values, model=self._reusable.model)
        self._reusable.check(built.design)
        return _sampled(built, self._reusable.model, self.name, sampling, seed)


class NutpieSampler:
    """A model compiled once by nutpie."""

    name = "nutpie"

    def __init__(self, reusable: ReusableModel) -> None:
        self._reusable = reusable
        self._compiled = compile_model(reusable.model)

    def draw(self, responses: Responses, seed: int, sampling: SamplingSpec) -> SampledDraws:
        """Return draws for a table of the same layout as the first."""
        built, values = self._reusable.given(responses)
        variables, statistics = self._compiled.with_data(**values).sample(
            **sampling.model_dump(include={"draws", "tune", "chains", "target_accept"}),
            cores=1,
            seed=seed,
        )
        diverged = float(statistics["diverging"].mean())
        return SampledDraws(as_dataset(variables), diverged, built)


class JaxSampler:
    """A model compiled once by JAX, in single precision; variables follow in double precision."""

    name = "jax"

    def __init__(self, reusable: ReusableModel) -> None:
        import jax

        self._reusable = reusable
        self._vectors = Vectors(reusable.model, reusable.names)
        # Stored with the engine: what is compiled depends on the study's own sampling alone.
        self._compiled = lru_cache(self._compile)
        of_chain = jax.vmap(self._vectors.variables, (0, None))
        self._variables = jax.jit(jax.vmap(of_chain, (0, None)))

    def draw(self, responses: Responses, seed: int, sampling: SamplingSpec) -> SampledDraws:
        """Return draws for a table of the same layout as the first."""
        built, values = self._reusable.given(responses)
        data = [np.asarray(values[name], dtype=np.float64) for name in self._reusable.names]
        chains, draws = sampling.model_copy(update={"engine": "jax"}).run
        with precision(double=False):
            run = self._compiled(chains, draws, sampling.tune)
            single = (each.astype(np.float32) for each in data)
            drawn = run(np.uint32(seed), np.float32(sampling.target_accept), *single)
            vectors, diverged = map(np.asarray, drawn)
        with precision(double=True):
            found = map(np.asarray, self._variables(vectors.astype(np.float64), data))
            posterior = as_dataset(dict(zip(self._vectors.names, found, strict=True)))
        return SampledDraws(posterior, float(diverged.mean()), built)

    def _compile(self, *length: int) -> Any:
        import jax

        def density(vector: Any, *data: Any) -> Any:
            return self._vectors.log_density(vector, data)

        sample = chees(density, self._vectors.size, *length)

        def seeded(seed: Any, target: Any, *data: Any) -> Any:
            return sample(jax.random.key(seed, impl="threefry2x32"), target, *data)

        return jax.jit(seeded)


def engine_of(spec: ModelSpec, name: str, first: Responses, moving: bool) -> Sampler:
    """Return an engine by name."""
    require_engine(name)
    design = make_design(spec, first)
    if not counts_are_data(spec, design) or (moving and not doses_are_data(design)):
        return RebuiltSampler(spec, "pymc" if name == "pymc" else "nutpie")
    kinds: dict[str, Any] = {"nutpie": NutpieSampler, "jax": JaxSampler, "pymc": PyMCSampler}
    sampler: Sampler = kinds[name](ReusableModel(spec, first, moving))
    return sampler


def require_engine(name: str) -> None:
    """Raise a MissingExtraError if what an engine needs is not installed."""
    for module in _EXTRAS.get(name, ()):
        check_installed(module, name)


def faults_of(
    keys: list[Key], ess: FloatArray, rhat: FloatArray, diverged: float, gates: Gates
) -> list[str]:
    """Return what is wrong with a fit; nothing if it passes."""
    faults = []
    known = ~np.isnan(rhat)
    if known.any():
        worst = int(np.argmax(np.where(known, rhat, -np.inf)))
        if rhat[worst] > gates.rhat:
            faults.append(f"R-hat {rhat[worst]:.3f} of {_key_text(keys[worst])}")
        least = int(np.argmin(np.where(known, ess, np.inf)))
        if ess[least] < gates.ess:
            faults.append(f"ESS {ess[least]:.0f} of {_key_text(keys[least])}")
    if diverged > gates.divergences:
        faults.append(f"{diverged:.1%} of draws diverged")
    return faults


def _key_text(key: Key) -> str:
    return f"{key[0]} ({key[1]})" if key[1] else key[0]
