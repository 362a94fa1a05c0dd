"""All engines draw from the same posterior."""

import re

import numpy as np
import pymc as pm
import pytest

import bayescontam
from bayescontam.errors import UsageError
from bayescontam.inference.sampling import Sampling, sample_model
from tests.support.simulated_responses import Simulated, coverage, simulate


@pytest.fixture(scope="module")
def simulated() -> Simulated:
    return simulate(5, models=2, items=60, trials=4, sigma_eps=0.8)


@pytest.fixture(scope="module")
def fit(simulated: Simulated) -> bayescontam.Fit:
    return bayescontam.fit(simulated.responses, seed=1, draws="auto")


@pytest.fixture(scope="module")
def table():
    return simulate(5, models=3, benchmarks=1, items=60).responses


@pytest.fixture(scope="module")
def reference(table):
    plain = bayescontam.fit(table, seed=1, draws=800, tune=500)
    return plain.estimands().set_index(["model", "benchmark", "quantity"])


@pytest.mark.slow
def test_repeated_trials_recover(fit, simulated):
    assert coverage(fit, simulated).mean() >= 0.85
    assert [c.name for c in fit.checks() if c.outcome.value == "failed"] == []
    spread = fit.data["posterior"]["sigma_eps"]
    assert float(spread.quantile(0.01)) < 0.8 < float(spread.quantile(0.99))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pymc", "numpyro"])
def test_engine_agrees_with_nutpie(engine, table, reference):
    # The error of a ratio of deviations is 1 / sqrt(ESS): 0.035 with 800, and 0.85 is five away.
    fit = bayescontam.fit(table, seed=2, engine=engine, draws=800, tune=500)
    rows = fit.estimands().set_index(["model", "benchmark", "quantity"])
    error = (rows["mcse_mean"] ** 2 + reference["mcse_mean"] ** 2) ** 0.5
    gap = ((rows["mean"] - reference["mean"]) / error).dropna()
    assert len(gap) >= 20
    assert gap.abs().max() < 5
    ratio = (rows["sd"] / reference["sd"]).dropna()
    assert ratio.between(0.85, 1.18).all()
    assert fit.record["sampling"]["engine"] == engine
    assert [c.name for c in fit.checks() if c.outcome.value == "failed"] == []


def test_progress_is_on_the_error_stream_and_seeds_are_those_of_pymc(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=3)
        pm.Normal("y", x.sum(), 1, observed=0.3)
    sampling = Sampling(draws=50, tune=50, chains=2, cores=2)
    posterior, _ = sample_model(model, sampling, 5, True)
    out, err = capfd.readouterr()
    assert out == ""
    assert re.search(r"^sampling 100 % [\d,]+ draws/s in 0:00:\d\d, no divergences$", err, re.M)
    assert " 0 draws/s" not in err
    tree = pm.sample(50, model=model, tune=50, chains=2, cores=2, target_accept=0.9,
                     random_seed=5, progressbar=False, quiet=True, nuts_sampler="nutpie",
                     compute_convergence_checks=False)  # fmt: skip
    # With another seed draws differ by about 1. The last digits depend on whether code is compiled
    # now or was stored by an earlier process.
    np.testing.assert_allclose(posterior["x"], tree["posterior"]["x"], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"engine": "nutpy"}, "engine: got 'nutpy'; did you mean 'nutpie'?"),
        ({"draws": 1}, "draws: got 1; at least 4 is needed"),
        ({"chains": 1}, "chains: got 1; at least 2 is needed"),
        ({"tune": 300.5}, "tune: got 300.5; allowed is a whole number"),
        ({"target_accept": 1.0}, "target_accept: got 1.0; allowed is above 0 and below 1"),
    ],
)
def test_impossible_settings_are_refused(setting, message, table):
    with pytest.raises(UsageError) as error:
        bayescontam.fit(table, **setting)
    assert str(error.value) == message
