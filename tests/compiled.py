"""A model compiled once and fitted to many data sets of one shape."""

import pymc as pm
import xarray as xr

from bayescontam.inference.build import Built


class Compiled:
    """A built model spec, for counts that are set anew.

    The sampler's coordinates stay those of the first data set, which changes how fast it
    moves and not what it draws from.
    """

    def __init__(self, built: Built) -> None:
        import nutpie

        model = built.model
        with model:
            data = pm.Data("counts", built.design.n_correct)
        observed = model["n_correct"]
        model.values_to_rvs.pop(model.rvs_to_values[observed])
        model.rvs_to_values[observed], model.values_to_rvs[data] = data, observed
        self._compiled = nutpie.compile_pymc_model(model)

    def draw(self, built: Built, seed: int, draws: int = 500, cores: int = 2) -> xr.Dataset:
        """Return posterior draws of two chains for the counts of `built`."""
        import nutpie

        tree = nutpie.sample(
            self._compiled.with_data(counts=built.design.n_correct), draws=draws, tune=500,
            chains=2, cores=cores, seed=seed, progress_bar=False, target_accept=0.9,
        )  # fmt: skip
        return tree["posterior"].to_dataset()
