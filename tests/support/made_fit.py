"""Fits and curves at once, without a sampler: their draws are those of the prior."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam.data.responses import Responses
from bayescontam.evidence import curve as curves
from bayescontam.inference import crossval
from bayescontam.inference import pipeline as fitting
from bayescontam.inference.checks import Check, Outcome
from bayescontam.inference.predictive import prior_draws
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.model.build import BuiltModel
from bayescontam.specs.registry import load_model
from tests.support.made_curve import from_prior


def made_fit(
    models: list[str], benchmarks: list[str], items: int, draws: int, spec: str = "hierarchical"
) -> Fit:
    """Return a fit that no sampler made, whole in every other way.

    Parameters
    ----------
    models, benchmarks : list of str
    items : int
        Items of each benchmark; every model answered all.
    draws : int
        Draws of each of two chains.
    spec : str
        Model spec.
    """

    responses = Responses.from_frame(_table(models, benchmarks, items), source="made.csv")
    sampling = Sampling(draws=draws, chains=2)
    with drawn_from_prior():
        return fitting.fit_responses(
            responses, load_model(spec), fitting.Options(seed=1, sampling=sampling)
        )


@contextmanager
def drawn_from_prior() -> Iterator[None]:
    """Let fits, those of folds, and curves take draws of the prior for those of a sampler.

    That one must compile for seconds.
    """

    def sample(
        built: BuiltModel, sampling: Sampling, *_: Any, **__: Any
    ) -> tuple[xr.Dataset, xr.Dataset]:
        shape = sampling.chains, sampling.draws
        _, known = prior_draws(built, shape[0] * shape[1], np.random.default_rng(2))
        return in_chains(known, shape), _stats(shape)

    with (
        mock.patch.object(fitting, "sample", sample),
        mock.patch.object(crossval, "sample", sample),
        mock.patch.object(curves, "sample_model", from_prior),
    ):
        yield


@contextmanager
def drawn_as(fit: Fit) -> Iterator[None]:
    """Let fits of one table by one model take the draws of `fit`: they differ in what follows."""
    posterior, stats = fit.joint_posterior(), fit.data["sample_stats"].to_dataset()

    def sample(built: BuiltModel, *_: Any) -> tuple[xr.Dataset, xr.Dataset]:
        return posterior[[name for name in posterior if name in built.model.named_vars]], stats

    with mock.patch.object(fitting, "sample", sample):
        yield


def _table(models: list[str], benchmarks: list[str], items: int) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    shape = len(models), len(benchmarks), items
    m, b, i = (each.ravel() for each in np.indices(shape))
    dose = np.linspace(0, 1, items)[i] * (m % 10 != 9)  # every tenth model is clean
    return pd.DataFrame(
        {
            "model": np.array(models, dtype=object)[m],
            "benchmark": np.array(benchmarks, dtype=object)[b],
            "item": [f"item-{k}-{j}" for k, j in zip(b, i, strict=True)],
            "correct": (rng.random(m.size) < 0.3 + 0.4 * dose).astype(int),
            "contamination": dose,
        }
    )


def in_chains(prior: xr.Dataset, shape: tuple[int, int]) -> xr.Dataset:
    """Return one chain as several of equal length."""
    data = {
        name: (("chain", "draw", *v.dims[2:]), v.to_numpy().reshape(*shape, *v.shape[2:]))
        for name, v in prior.data_vars.items()
    }
    coords = {dim: prior[dim] for dim in prior.coords if dim not in ("chain", "draw")}
    return xr.Dataset(data, coords | _numbers(shape))


def _numbers(shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """Return the coordinates that a sampler gives to chains and draws."""
    return {dim: np.arange(size) for dim, size in zip(("chain", "draw"), shape, strict=True)}


def _stats(shape: tuple[int, int]) -> xr.Dataset:
    """Return what a sampler without any trouble would report."""
    dims, none = ("chain", "draw"), np.zeros(shape, dtype=bool)
    energy = np.random.default_rng(3).normal(size=shape)
    return xr.Dataset(
        {
            "diverging": (dims, none),
            "reached_max_treedepth": (dims, none),
            "energy": (dims, energy),
        },
        coords=_numbers(shape),
    )


def with_checks(fit: Fit, *checks: Check) -> Fit:
    """Return the fit with these checks in place of its own."""
    record = fit.record | {"checks": [check.to_dict() for check in checks]}
    tree = fit.data.copy()
    tree["record"] = xr.DataTree(xr.Dataset({"json": json.dumps(record)}))
    return Fit(tree)


def a_check(name: str, outcome: Outcome) -> Check:
    return Check(name, outcome, 1.0, "< 1", "A sentence.")


def extrapolated(fit: Fit, value: float) -> Fit:
    """Return the fit with the reference that far outside the range of its last model."""
    known = fit.data["identification"].to_dataset()
    beyond = xr.zeros_like(known["contraction"])
    beyond[{"model": -1}] = value
    tree = fit.data.copy()
    tree["identification"] = xr.DataTree(known.assign(extrapolation=beyond))
    return Fit(tree)
