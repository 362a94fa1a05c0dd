"""The printed mathematics name what the built model has."""

import re

import numpy as np
import pytest

from bayescontam.data.responses import Responses
from bayescontam.model.build import build
from bayescontam.model.describe import mathematics, prior_meanings
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model, shipped_models
from tests.support.simulated_responses import simulate


@pytest.mark.parametrize("name", shipped_models())
def test_every_parameter_of_the_model_is_explained(name):
    """On data that can carry every term, variables and mathematics have the same symbols."""
    frame = simulate(0, models=3, benchmarks=3, items=12, trials=2).responses
    models = frame["model"].str[-1].astype(int)
    frame = frame.assign(
        # Every model has exposures of its own, and one is known to be clean.
        contamination=frame["contamination"] * (1 + models) / 3,
        clean=(models == 0).astype(int),
        concept="c" + frame["item"].str[-1],
        base=np.where(models < 2, "recipe", ""),
        contamination_sd=0.01,
        p_duplicate=frame["contamination"] * (1 + models) / 3,
        p_duplicate_sd=0.01,
    )
    if name == "imputed_covariate":  # imputations are of items
        frame = frame.assign(contamination=0.1 + 0.02 * frame["item"].factorize()[0], shared_1=0.1)
    spec = load_model(name)
    variables = {v.name for v in build(spec, Responses.from_frame(frame)).model.free_RVs}
    # Variables that stand for a sum of which the mathematics name the last part.
    stands_for = {
        "a_coordinates": "a", "theta_level": "theta", "mu_level": "mu", "mu_bar_level": "mu_bar",
        "delta_coordinates": "delta", "kappa_level": "kappa",
        "beta_bar_level": "beta_bar", "beta_benchmark_level": "v",
        "beta_model_coordinates": "u", "eta": "eps", "beta_model": "u", "beta_benchmark": "v",
        "log_beta": "w", "beta_free": "beta", "log_alpha": "alpha", "log_alpha_pair": "alpha",
        "a_base_coordinates": "a", "theta_base_level": "base", "t_coordinates": "t",
        "lambda_benchmark": "l",
    }  # fmt: skip
    named = {name.removesuffix("_rise") for name in variables}
    symbols = {stands_for.get(name, name) for name in named}
    words = set(re.findall(r"[a-z_]+", " ".join(mathematics(spec))))
    assert symbols <= words


@pytest.mark.parametrize("name", shipped_models())
def test_every_prior_has_a_meaning(name):
    spec = load_model(name)
    for parameter, prior, meaning in prior_meanings(spec):
        assert getattr(spec.priors, parameter).text() == prior
        assert re.search(r"\d\.\d\d", meaning)


def test_meanings_are_quantiles_on_the_accuracy_scale():
    meanings = {name: text for name, _, text in prior_meanings(load_model("hierarchical"))}
    # logistic(±1.96 × 1.5) and logistic(1.96)
    assert meanings["mu"] == "accuracy between 0.05 and 0.95 with probability 0.95"
    assert meanings["sigma_a"].endswith("0.66 (median), at most 0.88 with probability 0.95")


def test_contamination_that_is_not_known_is_reported():
    lines = {name: " ".join(mathematics(load_model(name))) for name in shipped_models()}
    assert "d[i] ~ Beta of mean contamination[i] and sd" in lines["noisy_covariate"]
    assert "d[i] ~ Bernoulli(q[i]), summed out" in lines["latent_duplicate"]
    assert "summed out" not in lines["hierarchical"]


def test_heavy_tails_have_a_meaning_too():
    text = "summary = 'x'\n[contamination]\nsign = 'positive'\n[priors]\n"
    text += "beta_bar = { family = 'half_normal', sigma = 2.0 }\n"
    text += "sigma_bm = { family = 'half_student_t', nu = 0.2, sigma = 5.0 }"
    meanings = {
        name: reported for name, _, reported in prior_meanings(ModelSpec.parse(text, "mine.toml"))
    }
    assert "at most 1.0e+304 with probability 0.95" in meanings["sigma_bm"]
