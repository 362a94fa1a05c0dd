"""The prior that power-scaling scales, against PyMC's own densities."""

import numpy as np
import pytest
import xarray as xr
from arviz_stats.psense import psense

from bayescontam.data.responses import Responses
from bayescontam.inference.sensitivity import log_prior, power_scaling
from bayescontam.model.build import build
from bayescontam.specs.registry import load_model
from tests.support.model_points import PLAIN, coordinates, prior_point
from tests.support.simulated_responses import simulate


@pytest.mark.parametrize("name", ["hierarchical", "positive", "single"])
def test_log_prior_is_that_of_the_top_level_variables(name):
    frame = simulate(3, models=3, benchmarks=3, items=5, trials=3).responses
    b = build(load_model(name), Responses.from_frame(frame))
    top = [v for v in b.model.free_RVs if v.name.startswith(("sigma", "mu", "beta_bar"))]
    if name == "single":
        top += [b.model["theta"], b.model["beta"]]
    point = prior_point(b.model, 1)
    given, _ = coordinates(b.model, point)
    density = b.model.compile_logp(vars=top, jacobian=False, mode=PLAIN)
    data = {
        name: (("chain", "draw", *(f"{name}_{k}" for k in range(x.ndim))), x[None, None])
        for name, x in point.items()
    }
    assert log_prior(xr.Dataset(data), b) == pytest.approx([float(density(given))], rel=1e-5)


def test_a_posterior_that_the_prior_decides_is_sensitive_to_it():
    """Normal mean, conjugate: strong prior and weak data, and the reverse."""
    rng = np.random.default_rng(0)
    found = {}
    for name, prior_sd, data_sd in (("prior", 0.5, 5.0), ("data", 5.0, 0.5)):
        sd = (prior_sd**-2 + data_sd**-2) ** -0.5
        mean = sd**2 * 2.0 / data_sd**2
        x = rng.normal(mean, sd, 4000)
        cells = xr.DataArray(x.reshape(1, -1, 1, 1), dims=("chain", "draw", "model", "benchmark"))
        cells = cells.assign_coords(model=["m"], benchmark=["b"])
        weights = -0.5 * (x / prior_sd) ** 2, -0.5 * ((x - 2) / data_sd) ** 2
        result = power_scaling(xr.Dataset({"accuracy": cells}), *weights)
        found[name] = [float(result[f"accuracy_{k}"].squeeze()) for k in ("prior", "likelihood")]
    assert found["prior"][0] > 0.05 > found["prior"][1]
    assert found["data"][1] > 0.05 > found["data"][0]


def test_sensitivities_are_those_of_arviz():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1, 300, 2, 2))
    x[..., 0, 0] = 0.5
    cells = xr.DataArray(
        x, {"model": ["a", "b"], "benchmark": ["c", "d"]}, ("chain", "draw", "model", "benchmark")
    )
    prior, likelihood = -0.5 * x[0, :, 1, 1] ** 2, -2 * (x[0, :, 0, 1] - 1) ** 2
    own = power_scaling(xr.Dataset({"slope": cells, "accuracy": cells**2}), prior, likelihood)
    assert np.isnan(own["slope_prior"][0, 0])
    for name, values in (("slope", x), ("accuracy", x**2)):
        draws = xr.Dataset({"x": (("chain", "draw", "cell"), values.reshape(1, 300, 4)[..., 1:])})
        for kind, density in (("prior", prior), ("likelihood", likelihood)):
            joint = xr.Dataset({"joint": (("chain", "draw", "part"), density[None, :, None])})
            tree = xr.DataTree.from_dict({"posterior": draws, f"log_{kind}": joint})
            expected = psense(tree, group=kind)["x"]
            np.testing.assert_allclose(own[f"{name}_{kind}"].to_numpy().ravel()[1:], expected)
