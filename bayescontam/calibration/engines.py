"""Engines: what draws from the posterior of one simulated table after the other.

An engine compiles a model once for a cell where it can, and gives it the data of one table
after the other; see `bayescontam.calibration.varying`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pymc as pm
import xarray as xr

from bayescontam.calibration.trace import read_trace
from bayescontam.calibration.varying import Varying
from bayescontam.inference.build import Built, build
from bayescontam.inference.design import make_design
from bayescontam.inference.engines import Sampling as PlainSampling
from bayescontam.inference.engines import sample, sample_model
from bayescontam.optional import check_installed
from bayescontam.responses import Responses
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.study import Sampling

LONGER = {"draws": 4, "tune": 2}
"""How many times as long the second try is."""
TARGET_ACCEPT = 0.99
"""Acceptance of the second try: small steps, which diverge less."""
_EXTRAS = {"jax": ("jax", "blackjax")}
"""Packages that an engine needs, by its name and that of the extra that has them."""


def longer(sampling: Sampling) -> Sampling:
    """Return how a posterior is sampled at the second try."""
    more = {name: getattr(sampling, name) * times for name, times in LONGER.items()}
    target = max(TARGET_ACCEPT, sampling.target_accept)
    return sampling.model_copy(update={**more, "target_accept": target})


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws from a posterior."""

    posterior: xr.Dataset  # dims (chain, draw, …)
    diverged: float  # share of draws that diverged
    built: Built  # with the data of the table that was fitted


class Engine(Protocol):
    """Draws from the posterior of a model spec, for tables of one cell."""

    name: str

    def draw(self, responses: Responses, seed: int, sampling: Sampling) -> Drawn:
        """Return draws for a table; the same for the same seed."""


class Anew:
    """A model built and compiled for each table: slow, and good for anything."""

    def __init__(self, spec: ModelSpec, name: Any) -> None:
        self._spec, self.name = spec, name

    def draw(self, responses: Responses, seed: int, sampling: Sampling) -> Drawn:
        """Return draws for a table."""
        built = build(self._spec, responses)
        posterior, statistics = sample(built, _plain(self.name, sampling), seed, False)
        return Drawn(posterior, float(statistics["diverging"].mean()), built)


class Frozen:
    """A model compiled once by PyMC."""

    name = "pymc"

    def __init__(self, varying: Varying) -> None:
        self._varying = varying
        # A frozen model keeps what is compiled of it. `pm.freeze_model` would also make
        # constants of data that free variables depend on, as their lengths might change.
        # Ours never do.
        varying.model.__class__ = pm.FrozenModel

    def draw(self, responses: Responses, seed: int, sampling: Sampling) -> Drawn:
        """Return draws for a table of the same layout as the first."""
        built, values = self._varying.given(responses)
        pm.set_data(values, model=self._varying.model)
        self._varying.check(built.design)
        plain = _plain(self.name, sampling)
        posterior, statistics = sample_model(self._varying.model, plain, seed, False)
        return Drawn(posterior, float(statistics["diverging"].mean()), built)


class Compiled:
    """A model compiled once by nutpie."""

    name = "nutpie"

    def __init__(self, varying: Varying) -> None:
        import nutpie

        self._varying = varying
        self._compiled = nutpie.compile_pymc_model(varying.model)

    def draw(self, responses: Responses, seed: int, sampling: Sampling) -> Drawn:
        """Return draws for a table of the same layout as the first."""
        import nutpie

        built, values = self._varying.given(responses)
        trace = nutpie.sample(
            self._compiled.with_data(**values),
            draws=sampling.draws,
            tune=sampling.tune,
            chains=sampling.chains,
            cores=1,
            seed=seed,
            target_accept=sampling.target_accept,
            progress_bar=False,
            return_raw_trace=True,
        )
        posterior, diverged = read_trace(trace, sampling.draws)
        return Drawn(posterior, diverged, built)


def engine_of(spec: ModelSpec, name: str, first: Responses, moving: bool) -> Engine:
    """Return an engine by name."""
    from bayescontam.calibration.jax_engine import Jax

    require_engine(name)
    exposure = make_design(spec, first).exposure
    repeated = bool((first.frame["n_trials"] > 1).any())
    # What summed-out contaminations are, and how they go with repeated trials, is worked
    # out from the table when the model is built.
    if exposure is not None and (moving or (repeated and spec.likelihood.has_model_by_item)):
        return Anew(spec, "pymc" if name == "pymc" else "nutpie")
    kinds: dict[str, Callable[[Varying], Engine]]
    kinds = {"nutpie": Compiled, "jax": Jax, "pymc": Frozen}
    return kinds[name](Varying(spec, first, moving))


def require_engine(name: str) -> None:
    """Raise a MissingExtraError if what an engine needs is not installed."""
    for module in _EXTRAS.get(name, ()):
        check_installed(module, name)


def _plain(name: Any, sampling: Sampling) -> PlainSampling:
    """Return how one posterior is sampled, chain after chain."""
    return PlainSampling(
        name, sampling.draws, sampling.tune, sampling.chains, 1, sampling.target_accept
    )
