"""Fitted: a fit as a tree of named arrays, in memory and as one file."""

import json
import os
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam.errors import FitError
from bayescontam.inference.checks import Check, Outcome
from bayescontam.inference.summary import summarise
from bayescontam.names import visible
from bayescontam.specs.model import ModelSpec, restored_spec
from bayescontam.storage import atomic_path

FORMAT = 1
"""Version of the layout of a saved fit."""
_RECORD = "record"


class Fitted:
    """Posterior draws plus everything needed to judge and reuse them.

    Parameters
    ----------
    tree : xarray.DataTree
        With the groups that `fit` makes: ``posterior``, ``sample_stats``,
        ``estimands``, ``prior``, ``predictive``, ``loo``, ``constant_data``,
        ``observed_data``, ``record``, with contamination ``sensitivity``,
        ``identification`` and ``curves``, and where that is not known ``exposure``.
    """

    def __init__(self, tree: xr.DataTree) -> None:
        self.tree = tree

    def __repr__(self) -> str:
        sizes = self.tree["estimands"].sizes
        failed = sum(check.outcome is Outcome.FAILED for check in self.checks())
        verdict = f"{failed} checks failed" if failed else "no check failed"
        return (
            f"<{type(self).__name__} of model spec '{self.record['spec']['name']}':"
            f" {sizes['model']} models, {sizes['benchmark']} benchmarks, {verdict}>"
        )

    @cached_property
    def record(self) -> dict[str, Any]:
        """What was done: spec, data, seed, sampler, versions, times, notes, command."""
        record: dict[str, Any] = json.loads(str(self.tree[_RECORD]["json"].item()))
        return record

    @property
    def spec(self) -> ModelSpec:
        """The model spec that was fitted."""
        stored = self.record["spec"]
        return restored_spec(stored["content"], stored["name"], stored["text"])

    @property
    def level(self) -> float:
        """Probability of the intervals that the fit was judged by."""
        return float(self.record["level"])

    def estimands(self, level: float | None = None) -> pd.DataFrame:
        """Return one row for each estimand.

        Parameters
        ----------
        level : float, optional
            Probability of the equal-tailed intervals; default: that of the fit (0.95
            unless it was set).

        Returns
        -------
        pandas.DataFrame
            ``model, benchmark, quantity, mean, sd, ci_low, ci_high, ess_bulk, ess_tail,
            r_hat, p_positive, verdict, mcse_mean``; ``verdict`` is the identification
            of slopes and empty elsewhere. Where abilities are told by concept there is
            a column ``concept``, empty in the rows for whole benchmarks.
        """
        level = self.level if level is None else level
        table = summarise(self.tree["estimands"].to_dataset(), level)
        if "estimands_by_concept" in self.tree:
            table = self._with_concepts(table, level)
        table.insert(list(table.columns).index("p_positive") + 1, "verdict", "")
        if "identification" in self.tree:
            verdicts = self.tree["identification"]["verdict"].to_series()
            slopes = table["quantity"] == "slope"
            keys = pd.MultiIndex.from_frame(table.loc[slopes, ["model", "benchmark"]])
            table.loc[slopes, "verdict"] = verdicts.reindex(keys).to_numpy()
        return table

    def _with_concepts(self, table: pd.DataFrame, level: float) -> pd.DataFrame:
        parts = summarise(self.tree["estimands_by_concept"].to_dataset(), level)
        units = self.tree["constant_data"].to_dataset()
        names = units["benchmark"].to_numpy()[units["benchmark_of_concept"].to_numpy()]
        benchmark = dict(zip(units["concept"].to_numpy(), names, strict=True))
        parts.insert(1, "benchmark", parts["concept"].map(benchmark))
        table = table.assign(concept="")
        return pd.concat([table, parts], ignore_index=True)[list(parts.columns)]

    def checks(self) -> tuple[Check, ...]:
        """Return the checks, as they were made when the fit was made."""
        return tuple(
            Check(
                **c
                | {
                    "outcome": Outcome(c["outcome"]),
                    "value": np.nan if c["value"] is None else c["value"],
                }
            )
            for c in self.record["checks"]
        )

    def exposures(self) -> pd.DataFrame:
        """Return what the fit says of the true contamination of each item.

        Returns
        -------
        pandas.DataFrame
            ``benchmark, item``, ``model`` if the covariates differ between models,
            ``contamination`` (expected before the responses were seen: of a latent event
            its probability), ``posterior_mean``, ``posterior_sd``. Empty where the model
            spec takes contamination as known.
        """
        columns = ["contamination", "posterior_mean", "posterior_sd"]
        if "exposure" not in self.tree:
            return pd.DataFrame(columns=["benchmark", "item", *columns])
        data = self.tree["exposure"].to_dataset()
        keys = {
            name: data[name].to_numpy()[data[f"{name}_of_group"].to_numpy()]
            for name in ("benchmark", "item", "model")
            if f"{name}_of_group" in data
        }
        return pd.DataFrame(keys | {name: data[name].to_numpy() for name in columns})

    def raw_accuracy(self) -> xr.DataArray:
        """Return the observed score: mean over items of the share of correct trials.

        Returns
        -------
        xarray.DataArray
            Dims (model, benchmark); NaN where a model answered nothing.
        """
        return self.tree["predictive"].to_dataset()["score"]

    def p_better(self) -> xr.DataArray:
        """Return the probability that a model is better than another.

        Returns
        -------
        xarray.DataArray
            Dims (model, other, benchmark): posterior probability that the genuine
            ability (the accuracy, where there is no contamination) of ``model`` is
            larger than that of ``other``. NaN on the diagonal.
        """
        ranks = self.tree["estimands"]["rank"]
        better = (ranks < ranks.rename(model="other")).mean(("chain", "draw"))
        answered = ranks.notnull().all(("chain", "draw"))
        both = answered & answered.rename(model="other")
        differ = ranks["model"] != ranks["model"].rename(model="other")
        return better.where(both & differ).transpose("model", "other", "benchmark")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to one netCDF file, whole or not at all.

        Parameters
        ----------
        path : path-like
            Conventionally ending in ``.nc``. Replaced if it exists.

        Raises
        ------
        UsageError
            If the file cannot be written.
        """
        tree = _with_safe_labels(self.tree)
        with atomic_path(path) as temporary:
            tree.to_netcdf(temporary, engine="h5netcdf")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a fit from its file. Nothing is compiled or sampled again.

        Parameters
        ----------
        path : path-like
            File that `save` wrote.

        Raises
        ------
        FitError
            If there is no such file, or it is not a fit of this package.
        """
        name = visible(str(path))
        if not os.path.isfile(path):  # noqa: PTH113 (pathlib raises for names that are too long)
            raise FitError(f"{name}: no such file; make a fit with: bayescontam fit")
        try:
            with xr.open_datatree(path, engine="h5netcdf") as tree:
                loaded = tree.load()
            fit = cls(_with_own_labels(loaded))
            layout = fit.record["format"]
        except Exception as error:
            raise FitError(
                f"{name}: is not a fit of bayescontam; give a file that 'bayescontam fit' wrote"
            ) from error
        if layout != FORMAT:
            raise FitError(
                f"{name}: has layout {layout}, this version of bayescontam reads layout {FORMAT};"
                " make the fit again"
            )
        return fit


def _with_safe_labels(tree: xr.DataTree) -> xr.DataTree:
    """Replace labels that netCDF would cut at a NUL character; `record` keeps the real ones."""
    return tree.map_over_datasets(_safe)


def _safe(dataset: xr.Dataset) -> xr.Dataset:
    names = {
        str(dim): [visible(str(v), 10**9) for v in dataset[dim].values]
        for dim in dataset.coords
        if dataset[dim].dtype.kind in "UO" and any("\0" in str(v) for v in dataset[dim].values)
    }
    return dataset.assign_coords(names) if names else dataset


def _with_own_labels(tree: xr.DataTree) -> xr.DataTree:
    """Undo `_with_safe_labels`."""
    record = json.loads(str(tree[_RECORD]["json"].item()))
    labels: dict[str, list[str]] = record["labels"]

    def restore(dataset: xr.Dataset) -> xr.Dataset:
        own = {dim: names for dim, names in labels.items() if dim in dataset.dims}
        return dataset.assign_coords(own) if own else dataset

    return tree.map_over_datasets(restore) if labels else tree
