"""Stored: what was fitted, as a tree of named arrays in memory and as one file."""

import io
import json
import os
import warnings
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr

from bayescontam.bounds import Bounds
from bayescontam.errors import BayescontamError, FitError
from bayescontam.inference.checks import Check, Outcome
from bayescontam.names import visible
from bayescontam.storage import atomic_path

_LONG = 1_000
"""Numbers of an array from which packing it is worth the time."""


def _opened(path: str | os.PathLike[str]) -> xr.DataTree:
    with warnings.catch_warnings():
        # What h5netcdf says of HDF5 files that are no netCDF, which are refused anyway.
        warnings.filterwarnings("ignore", "The 'phony_dims' kwarg", UserWarning)
        return xr.open_datatree(path, engine="h5netcdf")


class Stored:
    """A tree of named arrays with a record of how it was made.

    Parameters
    ----------
    tree : xarray.DataTree
        With a group ``record`` that holds the record as JSON.
    """

    _VERB: ClassVar[str]
    """Verb of the command line that makes one; also what it is called."""
    _IS: ClassVar[str]
    """What it is, with its article."""
    _AGAIN: ClassVar[str]
    """What to do with a file of another layout."""
    _LAYOUT: ClassVar[tuple[str, int]]
    """Key of the record, and version, of the layout of a file."""

    def __init__(self, tree: xr.DataTree) -> None:
        self.tree = tree

    @cached_property
    def record(self) -> dict[str, Any]:
        """What was done: spec, data, seed, sampler, versions, times, notes, command."""
        return _record(self.tree)

    @property
    def level(self) -> float:
        """Probability of the intervals that the fit was judged by."""
        return float(self.record["level"])

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this to one netCDF file, whole or not at all.

        Parameters
        ----------
        path : path-like
            Conventionally ending in ``.nc``. Replaced if it exists.

        Raises
        ------
        UsageError
            If the file cannot be written.
        """
        tree = _with_safe_labels(self._written(self.tree))
        with atomic_path(path) as temporary:
            # By way of the memory: HDF5 on a disk that runs full breaks down with the process.
            content = io.BytesIO()
            tree.to_netcdf(content, engine="h5netcdf", encoding=_packed(tree))
            with temporary.open("wb") as file, content.getbuffer() as data:
                file.write(data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read one from its file. Nothing is compiled or sampled again.

        Parameters
        ----------
        path : path-like
            File that `save` wrote.

        Raises
        ------
        FitError
            If there is no such file, or it holds something else.
        """
        name, verb = visible(str(path)), cls._VERB
        if not os.path.isfile(path):  # noqa: PTH113 (pathlib raises for names that are too long)
            raise FitError(f"{name}: no such file; make a {verb} with: bayescontam {verb}")
        key, version = cls._LAYOUT
        try:
            with _opened(path) as tree:
                Bounds.current().check_file(tree.nbytes, name)  # arrays may be packed
                layout = _record(tree)[key]
                known = layout == version
                loaded = tree.load() if known else tree
            stored = cls(cls._read(_with_own_labels(_in_double(loaded)))) if known else None
        except (BayescontamError, MemoryError):
            raise
        except Exception as error:
            raise FitError(
                f"{name}: is not {cls._IS}; give a file that 'bayescontam {verb}' wrote"
            ) from error
        if stored is None:
            raise FitError(
                f"{name}: has format {layout}, this version of bayescontam reads format {version};"
                f" {cls._AGAIN}"
            )
        return stored

    @classmethod
    def _written(cls, tree: xr.DataTree) -> xr.DataTree:
        """Return what of a tree goes into its file."""
        return tree

    @classmethod
    def _read(cls, tree: xr.DataTree) -> xr.DataTree:
        """Return the tree again, from what its file has."""
        return tree


def _packed(tree: xr.DataTree) -> dict[str, dict[str, dict[str, Any]]]:
    """Return how long arrays are packed.

    Codes of a table shrink to a hundredth. Numbers that single precision holds exactly, such as
    rounded draws, are written so.
    """
    return {
        node.path: {
            str(name): {"zlib": True, "complevel": 4, "shuffle": True} | _precision(values)
            for name, values in node.variables.items()
            if values.dtype.kind in "iuf" and values.size >= _LONG
        }
        for node in tree.subtree
    }


def _precision(values: xr.Variable) -> dict[str, Any]:
    if values.dtype != np.float64:
        return {}
    whole = values.to_numpy()
    with np.errstate(over="ignore", under="ignore"):
        exact = np.array_equal(whole, whole.astype(np.float32), equal_nan=True)
    return {"dtype": "float32"} if exact else {}


def _in_double(tree: xr.DataTree) -> xr.DataTree:
    """Return numbers of single precision in double, which they were computed in."""

    def double(dataset: xr.Dataset) -> xr.Dataset:
        single = {
            name: values.astype(np.float64)
            for name, values in dataset.data_vars.items()
            if values.dtype == np.float32
        }
        return dataset.assign(single)

    return tree.map_over_datasets(double)


def unsafe_labels(coords: dict[str, Any]) -> dict[str, list[str]]:
    """Return the labels, for a record, of dims that have one that netCDF would cut."""
    labels = {dim: [*map(str, values)] for dim, values in coords.items()}
    return {dim: names for dim, names in labels.items() if any("\0" in name for name in names)}


def _record(tree: xr.DataTree) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(str(tree["record"]["json"].item()))
    return record


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
    labels: dict[str, list[str]] = _record(tree)["labels"]

    def restore(dataset: xr.Dataset) -> xr.Dataset:
        # Of objects: NumPy's own texts lose a NUL character at their end.
        own = {
            dim: (dim, np.array(names, dtype=object))
            for dim, names in labels.items()
            if dim in dataset.dims
        }
        return dataset.assign_coords(own) if own else dataset

    return tree.map_over_datasets(restore) if labels else tree
