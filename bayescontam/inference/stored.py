"""What of a fit is stored, in which groups, and how it is read back."""

import json
import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import xarray as xr
from typing_extensions import deprecated

from bayescontam._bounds import Bounds
from bayescontam._files import atomic_path
from bayescontam._random import stream
from bayescontam._text import printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.errors import BayescontamError, FitError
from bayescontam.inference.checks import Check, Outcome
from bayescontam.inference.loo import log_likelihoods
from bayescontam.inference.posterior import (
    ContaminationMoments,
    Draws,
    difficulty,
    expand_to_items,
    spaced,
)
from bayescontam.inference.predictive import replicated_counts
from bayescontam.inference.sensitivity import log_priors
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import Design

_DAMAGED = -101
"""What netCDF's library reports of HDF5 files that it cannot read (``NC_EHDFERR``)."""
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
"""Beginning of HDF5 files."""
_LONG = 1_000
"""Numbers of an array from which packing it is worth the time."""
PARAMETER_NUMBERS, LEAST_PARAMETER_DRAWS = 10_000_000, 400
"""Numbers of all parameters and estimands above which they are thinned, and to how many draws."""
ITEM_NUMBERS, LEAST_ITEM_DRAWS = 500_000, 1_000
"""The same of what each item has. As many draws as an update starts with are stored."""
RESPONSE_NUMBERS, LEAST_RESPONSE_DRAWS = 1_200_000, 200
"""The same of each group in which every response has a number."""
MOST_RESPONSES = 50_000
"""Responses above which no draws of them are stored, unless all is."""
WHOLE_NUMBERS = 50_000_000
"""Most numbers of each group of responses where all is stored: 400 MB."""
PRIOR_NUMBERS, LEAST_PRIOR_DRAWS = 1_000_000, 200
"""The same of parameters, and of estimands, before the data."""
DIGITS = 16
"""Binary digits of stored draws: a relative error of 8e-6, far below any Monte Carlo error."""
DENSITY_DIGITS = 11
"""The same of log densities of single responses: 2e-4, of numbers that are mostly below 1."""
ITEM_DIMS = frozenset({"item", "repeated", "response", "participant_item"})
"""Dims of what there is one of for each item or response."""
_SAME = ("delta_coordinates", "log_alpha", "xi_level")
"""What the sampler moves in place of `delta`, `alpha` and `xi`, which say the same."""
LABELLED = ("log_likelihood", "posterior_predictive", "prior_predictive", "observed_data", "loo")
"""Groups with a dim ``response``, whose responses have the labels of their rows."""
_LABELS = ("model", "benchmark", "item")
OF_POSTERIOR = ("posterior", "sample_stats", "log_prior", "estimands", "estimands_by_concept")
"""Groups of all draws that are stored of parameters."""


class Stored:
    """A tree of named arrays with a record of how it was made.

    Parameters
    ----------
    data : xarray.DataTree
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

    def __init__(self, data: xr.DataTree) -> None:
        self.data = data

    @cached_property
    def record(self) -> dict[str, Any]:
        """What was done: spec, data, seed, sampler, versions, times, notes, command."""
        return _record(self.data)

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

    def to_netcdf(self, path: str | os.PathLike[str]) -> None:
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
        tree = _safe_labels(self._written(self.data))
        with atomic_path(path) as temporary:
            # By way of the memory: HDF5 on a disk that runs full breaks down with the process.
            temporary.write_bytes(tree.to_netcdf(engine="netcdf4", encoding=_packed(tree)))

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str]) -> Self:
        """Read one from its file. Nothing is compiled or sampled again.

        Parameters
        ----------
        path : path-like
            File that `to_netcdf` wrote.

        Raises
        ------
        FitError
            If there is no such file, or it holds something else.
        """
        name, verb = printable(str(path)), cls._VERB
        if not os.path.isfile(path):  # noqa: PTH113 (pathlib raises for names that are too long)
            raise FitError(f"{name}: no such file; make a {verb} with: bayescontam {verb}")
        key, version = cls._LAYOUT
        try:
            Bounds.current().check_file(os.path.getsize(path), name)  # noqa: PTH202, as above
            # The library takes the names of some files for something else: a backslash, a URL.
            content = Path(path).read_bytes()
            with xr.open_datatree(content, engine="netcdf4") as tree:
                Bounds.current().check_file(tree.nbytes, name)  # arrays may be packed
                layout = _record(tree)[key]
                known = layout == version
                loaded = tree.map_over_datasets(_loaded) if known else None
            stored = None if loaded is None else cls(cls._read(_own_labels(loaded)))
        except (BayescontamError, MemoryError):
            raise
        except Exception as error:
            if (
                isinstance(error, OSError)
                and error.errno == _DAMAGED
                # Once it has read a file, the library reports other formats so, too.
                and content.startswith(_SIGNATURE)
            ):
                problem = f"is damaged or cut off; copy it again, or {cls._AGAIN}"
            else:
                unrecorded = isinstance(error, KeyError) and key not in error.args
                lacks = " (it has no group 'record')" if unrecorded else ""
                problem = f"is not {cls._IS}{lacks}; give a file that 'bayescontam {verb}' wrote"
            raise FitError(f"{name}: {problem}") from error
        if stored is None:
            raise FitError(
                f"{name}: has format {layout}, this version of bayescontam reads format {version};"
                f" {cls._AGAIN}"
            )
        return stored

    @property
    @deprecated("'tree' is now 'data'", category=FutureWarning)
    def tree(self) -> xr.DataTree:
        """Deprecated: it is `data`."""
        return self.data

    @deprecated("'save' is now 'to_netcdf'", category=FutureWarning)
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file: deprecated, `to_netcdf` does it."""
        self.to_netcdf(path)

    @classmethod
    @deprecated("'load' is now 'from_netcdf'", category=FutureWarning)
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the file: deprecated, `from_netcdf` does it."""
        return cls.from_netcdf(path)

    @classmethod
    def _written(cls, tree: xr.DataTree) -> xr.DataTree:
        """Return what of a tree goes into its file."""
        return tree

    @classmethod
    def _read(cls, tree: xr.DataTree) -> xr.DataTree:
        """Return the tree again, from what its file has."""
        return tree


def _packed(tree: xr.DataTree) -> dict[str, dict[str, dict[str, Any]]]:
    """Return how long arrays are packed: in single precision where that holds them exactly."""
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


def _loaded(group: xr.Dataset) -> xr.Dataset:
    """Return a group in memory: its numbers in double precision, in which they were computed."""
    group = group.load()  # `DataTree.load` of xarray 2026.9 leaves out what is called as a group is
    single = {name: v for name, v in group.data_vars.items() if v.dtype == np.float32}
    return group.assign({name: v.astype(np.float64) for name, v in single.items()})


def unsafe_labels(coords: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the labels, for a record, of dims that have one that netCDF would cut."""
    labels = {dim: [*map(str, values)] for dim, values in coords.items()}
    return {dim: names for dim, names in labels.items() if any("\0" in name for name in names)}


def _record(tree: xr.DataTree) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(str(tree["record"]["json"].item()))
    return record


def _safe_labels(tree: xr.DataTree) -> xr.DataTree:
    """Replace labels that netCDF would cut at a NUL character; `record` keeps the real ones."""

    def safe(dataset: xr.Dataset) -> xr.Dataset:
        texts = {str(n): v.to_numpy() for n, v in dataset.coords.items() if v.dtype.kind in "UO"}
        unsafe = unsafe_labels(texts)
        return dataset.assign_coords(
            {dim: [printable(name, 10**9) for name in names] for dim, names in unsafe.items()}
        )

    return tree.map_over_datasets(safe)


def _own_labels(tree: xr.DataTree) -> xr.DataTree:
    """Undo `_safe_labels`."""
    # Of objects: NumPy's own texts lose a NUL character at their end.
    labels = {
        dim: (dim, np.array(names, dtype=object)) for dim, names in _record(tree)["labels"].items()
    }

    def restore(dataset: xr.Dataset) -> xr.Dataset:
        return dataset.assign_coords({dim: v for dim, v in labels.items() if dim in dataset.dims})

    return tree.map_over_datasets(restore) if labels else tree


@dataclass(frozen=True, eq=False)
class Positions:
    """Positions along ``draw`` of what is stored of each chain.

    Items are among parameters; responses among items, or parameters where no item is stored.
    """

    parameters: IntArray  # of parameters and estimands
    items: IntArray  # of item difficulties and discriminations
    # of log densities and replicated counts of responses; empty where there are none
    responses: IntArray

    @classmethod
    def of(
        cls,
        posterior: xr.Dataset,
        estimands: Mapping[str, xr.Dataset],
        built: BuiltModel,
        whole: bool,
        item_draws: int | None = None,
    ) -> "Positions":
        """Choose what is stored."""
        design = built.design
        chains, count = posterior.sizes["chain"], posterior.sizes["draw"]
        every = np.arange(count)
        if whole:
            most = _most(WHOLE_NUMBERS, len(design), LEAST_RESPONSE_DRAWS)
            return cls(every, every, every[spaced(count, most // chains)])
        parameters_only = posterior.drop_vars(item_level(posterior))
        size = sum(_size(each) for each in (parameters_only, *estimands.values()))
        most = _most(PARAMETER_NUMBERS, size, LEAST_PARAMETER_DRAWS)
        parameters = every[spaced(count, most // chains)]
        of_items = item_draws or 0
        if built.lattice is None:
            of_items = _most(ITEM_NUMBERS, len(design.items), max(of_items, LEAST_ITEM_DRAWS))
        items = parameters[spaced(len(parameters), -(-of_items // chains))]
        items = items if of_items else items[:0]
        if len(design) > MOST_RESPONSES:
            return cls(parameters, items, every[:0])
        most = _most(RESPONSE_NUMBERS, len(design), LEAST_RESPONSE_DRAWS)
        among = items if len(items) else parameters
        return cls(parameters, items, among[spaced(len(among), most // chains)])


def rows_of(at: IntArray, posterior: xr.Dataset) -> IntArray:
    """Return positions along ``draw`` as positions among all draws, chains joined."""
    chains, count = posterior.sizes["chain"], posterior.sizes["draw"]
    rows: IntArray = (np.arange(chains)[:, None] * count + at).ravel()
    return rows


def _most(numbers: int, size: int, least: int) -> int:
    return max(least, numbers // max(size, 1))


def _size(dataset: xr.Dataset) -> int:
    """Return how many numbers each draw has."""
    return sum(v[0, 0].size for v in dataset.data_vars.values())


def item_level(dataset: xr.Dataset) -> list[str]:
    """Return the names of what there is one of for each item or response."""
    return [
        str(name)
        for name, values in dataset.data_vars.items()
        if name in _SAME or ITEM_DIMS & {*map(str, values.dims)}
    ]


def without_items(dataset: xr.Dataset) -> xr.Dataset:
    """Return the draws of all else."""
    return dataset.drop_vars(item_level(dataset)).drop_dims(ITEM_DIMS, errors="ignore")


def compact(
    groups: Mapping[str, xr.Dataset], positions: Positions, whole: bool
) -> dict[str, xr.Dataset]:
    """Return what is stored of all groups."""
    result = dict(groups) | {"posterior": without_items(groups["posterior"])}
    labels = {dim: groups["posterior"][dim].to_numpy() for dim in ("chain", "draw")}
    for name in [name for name in OF_POSTERIOR if name in result]:
        if name.startswith("estimands"):
            result[name] = result[name].assign_coords(labels)
        if not whole and name != "sample_stats":
            result[name] = rounded(result[name].isel(draw=positions.parameters))
    if whole:
        return result
    for name in ("prior", "prior_estimands"):
        most = _most(PRIOR_NUMBERS, _size(result[name]), LEAST_PRIOR_DRAWS)
        thinned = result[name].isel(draw=spaced(result[name].sizes["draw"], most))
        result[name] = rounded(thinned)
    for name in [name for name in ("item_effects", "loo") if name in result]:
        result[name] = rounded(result[name])
    scores = result["predictive"]  # observed ones stay what they are
    replicated = scores[[n for n in scores.data_vars if n not in ("score", "binned")]]
    result["predictive"] = scores.assign(rounded(replicated).data_vars)
    return result


def rounded(dataset: xr.Dataset, digits: int = DIGITS) -> xr.Dataset:
    """Return the same numbers to some binary digits; a file then holds them exactly."""
    data: dict[Any, Any] = {}
    for name, values in dataset.data_vars.items():
        if values.dtype.kind == "f":
            part, power = np.frexp(values.to_numpy().astype(np.float64))
            exact = np.ldexp(np.round(np.ldexp(part, digits)), power - digits)
            data[name] = values.copy(data=exact)
    return dataset.assign(data)


def stored_table(
    design: Design,
    tasks: "pd.Series[str] | None" = None,
    samples: Mapping[str, "pd.Series[str]"] | None = None,
) -> dict[str, xr.Dataset]:
    """Return what was fitted: the table as arrays, labels, tasks of items, samples of logs."""
    constant: dict[str, Any] = {
        "model_of_response": ("response", design.model),
        "benchmark_of_response": ("response", design.benchmark),
        "item_of_response": ("response", design.item),
        "n_trials": ("response", design.n_trials),
        "weight": ("response", design.weight),
        "benchmark_of_item": ("item", design.benchmark_of_item),
    }
    if design.clean.any():
        constant["clean"] = ("model", design.clean)
    if design.item_guess is not None:
        constant["guess_of_item"] = ("item", design.item_guess)
    if design.contamination is not None:
        constant["contamination"] = ("response", design.contamination)
    if (lineage := design.lineage) is not None:
        constant["base_of_model"] = ("model", lineage.base)
        if lineage.kind is not None:
            constant["kind_of_response"] = ("response", lineage.kind)
        if lineage.checkpoint is not None:
            constant["checkpoint"] = ("model", lineage.checkpoint)
        if lineage.run:
            constant["run"] = ("model", list(lineage.run))
    if design.people is not None:
        constant["participant_of_response"] = ("response", design.participant)
        constant["name_of_participant"] = ("participant", list(design.people.names))
    if design.unit_dim == "concept":
        constant["concept_of_response"] = ("response", design.unit)
        constant["benchmark_of_concept"] = ("concept", design.benchmark_of_unit)
    coords = dict(design.coords)
    if tasks is not None:
        codes, names = pd.factorize(tasks)
        constant["task_of_item"] = ("item", codes)
        coords["task"] = list(names)
    for name, values in (samples or {}).items():  # few bytes a response, however many there are
        codes, names = pd.factorize(values)
        constant[f"{name}_of_response"] = ("response", codes.astype(np.int32))
        coords[name] = list(names)
    observed = {"n_correct": ("response", design.n_correct)}
    response = {"response": design.coords["response"]}
    return {
        "constant_data": xr.Dataset(constant, coords),
        "observed_data": xr.Dataset(observed, response),
    }


def stored_items(
    draws: Draws, posterior: xr.Dataset, built: BuiltModel, at: IntArray, whole: bool
) -> xr.Dataset | None:
    """Return what is stored of items, apart from the parameters of which there are few."""
    lattice = built.lattice
    if lattice is None:
        names = item_level(posterior)
        found = posterior[[n for n in names if whole or n not in (*_SAME, "eta")]]
        if "delta" in found:
            every, sample = found["delta"], ("chain", "draw")
            found = found.isel(draw=at).assign(mean=every.mean(sample), sd=every.std(sample))
        return found if len(found.data_vars) else None
    first, second = np.zeros(len(lattice.total)), np.zeros(len(lattice.total))
    for part in draws.chunks(lattice.table):
        delta = difficulty(part, lattice)
        first, second = first + delta.sum(axis=0), second + (delta**2).sum(axis=0)
    mean: Any = first / len(draws)
    sd: Any = np.sqrt(np.maximum(second / len(draws) - mean**2, 0.0))
    data: dict[str, Any] = {"mean": ("item", mean), "sd": ("item", sd)}
    coords: dict[str, Any] = {"item": list(lattice.table.items)}
    if len(at):
        chains, count = posterior["chain"], posterior["draw"]
        own = difficulty(draws[rows_of(at, posterior)], lattice)
        data["delta"] = ("chain", "draw", "item"), own.reshape(len(chains), len(at), -1)
        coords |= {"chain": chains, "draw": count[at]}
    return xr.Dataset(data, coords)


def stored_exposure(
    design: Design, draws: Draws, moments: ContaminationMoments | None
) -> xr.Dataset | None:
    """Return what the fit shows about a contamination that is not known, dims (group,)."""
    exposure, shared = design.exposure, design.shared
    if shared is not None and draws.shared is not None:
        # A group is an item whose contamination is not known.
        item, expected = shared.items, shared.mean
        mean, sd = shared.moments(draws.shared)
    elif exposure is not None and moments is not None:
        first = exposure.first
        item, expected = design.item[first], exposure.mean
        mean, sd = moments.mean, moments.sd
    else:
        return None
    data = {
        "contamination": expected,
        "posterior_mean": mean,
        "posterior_sd": sd,
        "benchmark_of_group": design.benchmark_of_item[item],
        "item_of_group": item,
    }
    if exposure is not None and exposure.pairs:
        data["model_of_group"] = design.model[first]
    coords = {name: design.coords[name] for name in ("model", "benchmark", "item")}
    return xr.Dataset({name: ("group", values) for name, values in data.items()}, coords)


def exposure_table(tree: xr.DataTree) -> pd.DataFrame:
    """Return what is stored of the true contamination of items; see `Fit.exposures`."""
    columns = ["contamination", "posterior_mean", "posterior_sd"]
    if "exposure" not in tree:
        return pd.DataFrame(columns=["benchmark", "item", *columns])
    data = tree["exposure"].to_dataset()
    keys = {
        name: data[name].to_numpy()[data[f"{name}_of_group"].to_numpy()]
        for name in ("benchmark", "item", "model")
        if f"{name}_of_group" in data
    }
    return pd.DataFrame(keys | {name: data[name].to_numpy() for name in columns})


def standard_groups(
    draws: Draws,
    prior: Draws,
    posterior: xr.Dataset,
    built: BuiltModel,
    positions: Positions,
    seed: int,
) -> dict[str, xr.Dataset]:
    """Return log densities of the prior and the responses, and replicated responses."""
    coords: dict[str, Any] = {name: posterior[name] for name in ("chain", "draw")}
    densities = {
        name: (("chain", "draw"), values.reshape(posterior["chain"].size, -1))
        for name, values in log_priors(posterior, built).items()
    }
    groups = {"log_prior": xr.Dataset(densities, coords)}
    if not len(positions.responses):
        return groups
    part = draws[rows_of(positions.responses, posterior)]
    density = log_likelihoods(part, built, stream(seed, "log likelihood"))
    rng = stream(seed, "posterior replicates")
    replicated = _replicated(part, built, rng)
    before = prior.thinned(len(part))
    chosen = posterior["draw"][positions.responses]
    coords["draw"] = chosen
    if len(positions.responses) < len(positions.parameters):
        # `draw` has no labels: ArviZ would take the others for missing, and call a fit insensitive
        # to its data.
        coords = {"chain": posterior["chain"], "posterior_draw": ("draw", chosen.to_numpy())}
    once = {"chain": np.arange(1), "draw": np.arange(len(before))}
    rng = stream(seed, "prior replicates")
    groups["log_likelihood"] = rounded(_of_responses(density, coords, built), DENSITY_DIGITS)
    groups["posterior_predictive"] = _of_responses(replicated, coords, built)
    groups["prior_predictive"] = _of_responses(_replicated(before, built, rng), once, built)
    return groups


def aligned(tree: xr.DataTree) -> xr.DataTree:
    """Return the draws of a fit for which log densities of responses are stored."""
    chosen = tree["log_likelihood"]
    draw = chosen["posterior_draw" if "posterior_draw" in chosen.coords else "draw"].to_numpy()
    groups = {}
    for path, dataset in tree.to_dict().items():
        if path in (f"/{name}" for name in OF_POSTERIOR):
            groups[path] = dataset.sel(draw=draw)
        elif path in ("/log_likelihood", "/posterior_predictive"):
            groups[path] = dataset.assign_coords(draw=draw)
        elif "draw" not in dataset.dims:
            groups[path] = dataset
    return xr.DataTree.from_dict(groups)


def _replicated(draws: Draws, built: BuiltModel, rng: np.random.Generator) -> FloatArray:
    parts = [
        replicated_counts(expand_to_items(part, built.lattice), built, rng)
        for part in draws.chunks(built.design)
    ]
    return np.concatenate(parts).astype(np.int32)


def _of_responses(values: FloatArray, coords: dict[str, Any], built: BuiltModel) -> xr.Dataset:
    shape = len(coords["chain"]), -1, len(built.design)
    coords = {**coords, "response": built.design.coords["response"]}
    data = {"n_correct": (("chain", "draw", "response"), values.reshape(shape))}
    return xr.Dataset(data, coords)


def labelled(tree: xr.DataTree) -> xr.DataTree:
    """Return a fit's tree whose responses have coordinates ``model, benchmark, item``."""
    data = tree["constant_data"].to_dataset()
    labels: dict[Hashable, Any] = {
        name: ("response", data[name].to_numpy()[data[f"{name}_of_response"].to_numpy()])
        for name in _LABELS
    }
    groups = dict(tree.to_dict())
    for path in {f"/{name}" for name in LABELLED} & set(groups):
        groups[path] = groups[path].assign_coords(labels)
    return xr.DataTree.from_dict(groups)


def unlabelled(tree: xr.DataTree) -> xr.DataTree:
    """Undo `labelled`: a file has the labels once, in ``constant_data``."""
    groups = dict(tree.to_dict())
    for path in {f"/{name}" for name in LABELLED} & set(groups):
        groups[path] = groups[path].drop_vars(_LABELS, errors="ignore")
    return xr.DataTree.from_dict(groups)
