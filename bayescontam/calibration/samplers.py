"""Samplers of studies: rebuilt for each table, or compiled once by PyMC or nutpie."""

from typing import Any, Protocol

import numpy as np
import nutpie
import pyarrow as pa
import pymc as pm
import xarray as xr

from bayescontam._optional import check_installed
from bayescontam._types import FloatArray
from bayescontam.calibration.jax_sampler import JaxSampler
from bayescontam.calibration.reusable_model import ReusableModel, SampledDraws, as_dataset
from bayescontam.data.responses import Responses
from bayescontam.inference.sampling import Sampling, sample_model
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.design import make_design
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.study import SamplingSpec

LONGER = {"draws": 4, "tune": 2}
"""How many times as long the second try is."""
TARGET_ACCEPT = 0.99
"""Acceptance of the second try: small steps, which diverge less."""
_EXTRAS = {"jax": ("jax", "blackjax")}
"""Packages that an engine needs, by its name and that of the extra that has them."""


def read_trace(trace: Any, draws: int) -> tuple[xr.Dataset, float]:
    """Return the draws of a raw trace, dims (chain, draw, …), and the share that diverged."""
    # What `nutpie.sample` returns otherwise has many labels, which take as long as a short chain.
    chains, statistics = trace.get_arrow_trace()
    for chain in statistics:
        if chain.num_rows - int(_column(chain, "tuning").sum()) < draws:
            raise KeyboardInterrupt
    # What only the sampler needed has a name that ends in two underscores.
    names = [name for name in chains[0].column_names if not name.endswith("__")]
    data = {name: np.stack([_column(chain, name)[-draws:] for chain in chains]) for name in names}
    diverged = [_column(chain, "diverging")[-draws:].mean() for chain in statistics]
    return as_dataset(data), float(np.mean(diverged))


def _column(batch: Any, name: str) -> FloatArray:
    """Return a column of a record batch, dims (draw, …)."""
    column = batch.column(name)
    shape = column.field.metadata.get(b"shape", b"").decode()
    values = pa.array(column)
    if hasattr(values, "flatten"):
        values = values.flatten()
    numbers: FloatArray = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(batch.num_rows, *(int(size) for size in shape.split(",") if size))


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
        self._compiled = nutpie.compile_pymc_model(reusable.model)

    def draw(self, responses: Responses, seed: int, sampling: SamplingSpec) -> SampledDraws:
        """Return draws for a table of the same layout as the first."""
        built, values = self._reusable.given(responses)
        trace = nutpie.sample(
            self._compiled.with_data(**values),
            **sampling.model_dump(include={"draws", "tune", "chains", "target_accept"}),
            cores=1,
            seed=seed,
            progress_bar=False,
            return_raw_trace=True,
        )
        return SampledDraws(*read_trace(trace, sampling.draws), built)


def engine_of(spec: ModelSpec, name: str, first: Responses, moving: bool) -> Sampler:
    """Return an engine by name."""
    require_engine(name)
    exposure = make_design(spec, first).exposure
    repeated = bool((first.frame["n_trials"] > 1).any())
    # What summed-out contaminations are, and how they go with repeated trials, is worked
    # out from the table when the model is built.
    if exposure is not None and (moving or (repeated and spec.likelihood.has_model_by_item)):
        return RebuiltSampler(spec, "pymc" if name == "pymc" else "nutpie")
    kinds: dict[str, Any] = {"nutpie": NutpieSampler, "jax": JaxSampler, "pymc": PyMCSampler}
    sampler: Sampler = kinds[name](ReusableModel(spec, first, moving))
    return sampler


def require_engine(name: str) -> None:
    """Raise a MissingExtraError if what an engine needs is not installed."""
    for module in _EXTRAS.get(name, ()):
        check_installed(module, name)
