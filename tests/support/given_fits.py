"""Fits whose draws are given instead of sampled."""

import json

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logit

from bayescontam.data.responses import Responses
from bayescontam.inference.pipeline import Options, _record
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.inference.stored import stored_table
from bayescontam.model.build import build
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model

FEW = Sampling(draws=100, tune=200, chains=2, cores=1)


def given_fit(spec: ModelSpec, responses: Responses, **posterior: np.ndarray) -> Fit:
    """Return a fit of these draws, dims (draw, …), as one chain."""
    built = build(spec, responses)
    data = {
        name: (("chain", "draw", *(f"{name}_{k}" for k in range(np.ndim(v) - 1))), np.array([v]))
        for name, v in posterior.items()
    }
    record = _record(responses, built, Options(1, sampling=FEW), {}) | {"checks": []}
    groups = {
        "posterior": xr.Dataset(data),
        "record": xr.Dataset({"json": json.dumps(record)}),
    }
    return Fit(xr.DataTree.from_dict(groups | stored_table(built.design)))


def changed(spec: ModelSpec, **blocks: dict) -> ModelSpec:
    """Return a spec with some keys of its blocks changed."""
    content = spec.model_dump()
    for name, keys in blocks.items():
        content[name] = content[name] | keys
    return ModelSpec.model_validate(content)


def counts_table(counts: list[tuple[int, int]], names: str) -> pd.DataFrame:
    """Return counts of one benchmark, one row for each model."""
    rows = [("b", "all", k, n) for k, n in counts]
    table = pd.DataFrame(rows, columns=["benchmark", "item", "n_correct", "n_trials"])
    return table.assign(model=list(names))


def counts_spec() -> ModelSpec:
    """Return a spec of abilities alone: Normal(mu, sigma_theta) in each benchmark."""
    return changed(load_model("aggregated"), contamination={"form": "none"})


def rough_fit() -> Fit:
    """Return a fit of five models' counts, its draws about where the posterior is."""
    counts, rng = [(12, 40), (20, 40), (31, 40), (25, 40), (9, 25)], np.random.default_rng(1)
    center = logit([k / n for k, n in counts])
    theta = center + rng.normal(0, 0.3, (4000, len(counts)))
    mu = rng.normal(0, 0.4, (4000, 1))
    responses = Responses.from_frame(counts_table(counts, "ABCDE"))
    scale = np.exp(rng.normal(-0.1, 0.3, 4000))
    return given_fit(counts_spec(), responses, mu=mu, sigma_theta=scale, theta=theta[..., None])
