"""Contamination of items as doses, known or with its uncertainty as nodes and weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_expit

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.data.responses import Responses
from bayescontam.data.validation import read_clean
from bayescontam.errors import DataError, Fault, SpecError, UsageError
from bayescontam.model.quadrature import KNOWN, beta_quadrature, logit_normal
from bayescontam.specs.model import ModelSpec

NODES = 5  # quadrature nodes of a noisy contamination: they keep its first nine moments
SLACK = 1.01  # factor by which rounding may lift a variance above the largest possible


@dataclass(frozen=True, eq=False)
class Moves:
    """How `p_shift` moves the log-odds of latent events, whose probabilities are not known."""

    # Errors of a curve are of all models' probabilities; those of evidence from the models
    # themselves are of each model by itself, and one shift for all would make an error of many
    # models one that their responses show.
    by_model: bool  # whether `p_shift` is by (model, benchmark), or by benchmark
    cell: IntArray  # one for each group: which `p_shift` moves it
    scale: FloatArray  # one for each group: by how much for one unit

    @classmethod
    def of(
        cls, scale: FloatArray, values: FloatArray, item: IntArray, cell: IntArray, benchmarks: int
    ) -> "Moves":
        """Return those of groups, given what is known of them, their items, models × benchmarks."""
        unsure = scale > 0
        distinct = np.unique(np.column_stack([item, values])[unsure], axis=0)
        by_model = len(distinct) > len(np.unique(item[unsure]))
        return cls(by_model, cell if by_model else cell % benchmarks, scale)


@dataclass(frozen=True, eq=False)
class Exposure:
    """True contamination of groups of responses that share it, as values with probabilities."""

    # whether groups are (model, item) pairs, since the covariate of an item differs between
    # models, or all responses to an item
    pairs: bool
    group: IntArray
    first: IntArray  # position of a response of the group
    mean: FloatArray  # expected contamination before the responses are seen
    # nodes, log_weights: dims (group, node): values that the contamination can take, and the
    # logarithms of their probabilities, of latent events where `p_shift` is 0; −inf for a value
    # that fills up the array
    nodes: FloatArray
    log_weights: FloatArray
    # Where the probabilities of latent events are not known exactly, else None:
    moves: "Moves | None"
    # low, high: one for each group: the range that its contamination counts as observed in
    low: FloatArray
    high: FloatArray

    def __len__(self) -> int:
        return len(self.mean)

    @cached_property
    def unsure(self) -> BoolArray:
        """Whether a group's contamination can take several values, dims (group,)."""
        mask: BoolArray = np.isfinite(self.log_weights).sum(axis=1) > 1
        return mask

    @cached_property
    def offsets(self) -> FloatArray:
        """Nodes less their mean, dims (group, node); 0 for those that fill up."""
        offsets = self.nodes - self.mean[:, None]
        return np.where(np.isfinite(self.log_weights), offsets, 0.0)

    @cached_property
    def _membership(self) -> sparse.csr_array:
        rows = np.arange(len(self.group))
        ones = np.ones(len(rows))
        return sparse.csr_array((ones, (self.group, rows)), shape=(len(self), len(rows)))

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum values over the responses of each group, (…, response) to (…, group)."""
        return (self._membership @ values.T).T

    def weights(self, p_shift: FloatArray | None, groups: slice = slice(None)) -> FloatArray:
        """Return log probabilities of nodes for each draw, dims (draw or 1, group, node)."""
        known = self.log_weights[groups]
        if p_shift is None or self.moves is None:
            return known[None]
        logit = known[:, 1] - known[:, 0]
        logit = logit + p_shift[:, self.moves.cell[groups]] * self.moves.scale[groups]
        return np.stack([log_expit(-logit), log_expit(logit)], axis=-1)

    def shifts(self, node: NDArray[np.integer[Any]], rows: IntArray | None = None) -> FloatArray:
        """Return each response's contamination less its mean, (draw, group) to (draw, response)."""
        if rows is not None:  # some responses
            group = self.group[rows]
            return np.asarray(self.offsets[group, node[:, group]])
        chosen = self.offsets[np.arange(len(self)), node]
        return chosen[:, self.group]


def draw_nodes(log_weights: FloatArray, rng: np.random.Generator) -> NDArray[np.int8]:
    """Draw a node for each group of each draw, dims (draw, group)."""
    reached = np.cumsum(np.exp(log_weights), axis=-1)
    wanted = rng.random(log_weights.shape[:2]) * reached[..., -1]
    # A node of no weight adds nothing to the sum, so that it is never the first above.
    return (reached > wanted[..., None]).argmax(axis=-1).astype(np.int8)


def make_exposure(
    spec: ModelSpec, responses: Responses, frame: pd.DataFrame, codes: Mapping[str, IntArray]
) -> Exposure | None:
    """Return the exposure that a model spec requests; None where all is known.

    `codes` are the model, benchmark and item of each response, dims (response,).
    """
    if spec.contamination.exposure in ("known", "shared"):
        return None
    names = exposure_columns(spec, frame)
    faults = [
        Fault(
            responses.source,
            f"the model spec '{spec.name}' needs a column '{name}', which is not there",
        )
        for name in names
        if name not in frame
    ]
    if faults:
        advice = (
            "Give covariates that have it (--covariates; 'bayescontam covariates' writes such a"
            " table) or choose a model spec that takes contamination as known, such as"
            " hierarchical."
        )
        raise DataError(faults, advice)
    values = frame[list(names)].to_numpy(np.float64)
    model, benchmark, item = (codes[name] for name in ("model", "benchmark", "item"))
    group, first, pairs = _groups(values, model, item)
    values, moves = values[first], None
    mean = low = high = values[:, 0]
    if spec.contamination.exposure == "noisy":
        _refuse_impossible(values, names, frame.iloc[first], responses.source)
        nodes, weights = beta_quadrature(mean, values[:, 1], NODES)
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)
    else:
        log_weights, scale = _latent_weights(values)
        if scale is not None:
            benchmarks = len(responses.benchmarks)
            cell = (model * benchmarks + benchmark)[first]
            moves = Moves.of(scale, values, item[first], cell, benchmarks)
        nodes = np.broadcast_to([0.0, 1.0], log_weights.shape)
        low, high = np.where(mean == 1, 1.0, 0.0), np.where(mean > 0, 1.0, 0.0)
    made = Exposure(pairs, group, first, mean, nodes, log_weights, moves, low, high)
    return made if made.unsure.any() else None


def _latent_weights(values: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Return log probabilities of 0 and 1, and by how much `p_shift` moves their log-odds."""
    p = values[:, 0]
    with np.errstate(divide="ignore"):
        log_weights = np.stack([np.log1p(-p), np.log(p)], axis=1)
    scale, unsure = np.zeros(len(p)), (p > 0) & (p < 1) & (values[:, -1] > 0)
    if values.shape[1] == 1 or not unsure.any():
        return log_weights, None
    location, scale[unsure] = logit_normal(p[unsure], values[unsure, 1])
    log_weights[unsure] = log_expit(np.stack([-location, location], axis=1))
    return log_weights, scale


def exposure_columns(spec: ModelSpec, frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns that hold expected contamination and, if wanted, its deviation."""
    match spec.contamination.exposure:
        case "known" | "shared":
            return ("contamination",)
        case "noisy":
            return ("contamination", "contamination_sd")
    return tuple(n for n in ("p_duplicate", "p_duplicate_sd") if n in frame) or ("p_duplicate",)


def _groups(values: FloatArray, model: IntArray, item: IntArray) -> tuple[IntArray, IntArray, bool]:
    """Return the group of each response, a response of each group, and whether by pair."""
    _, first, group = np.unique(item, return_index=True, return_inverse=True)
    if (values[first][group] == values).all():
        return group.astype(np.int64), first.astype(np.int64), False
    pair = np.stack([item, model])
    _, first, group = np.unique(pair, axis=1, return_index=True, return_inverse=True)
    return group.ravel().astype(np.int64), first.astype(np.int64), True


def _refuse_impossible(
    values: FloatArray, names: tuple[str, ...], frame: pd.DataFrame, source: str
) -> None:
    """Refuse a deviation that no distribution on [0, 1] of this mean can have."""
    mean, sd = values.T
    largest = np.sqrt(mean * (1 - mean))
    bad = (sd**2 > SLACK * largest**2) & (sd > KNOWN)
    rows = frame[["benchmark", "item"]].to_numpy()
    faults = [
        Fault(
            source,
            f"item '{printable(str(rows[i, 1]), 60)}' of '{printable(str(rows[i, 0]), 60)}': got"
            f" {sd[i]:.6g} beside a {names[0]} of {mean[i]:.6g}; a number in [0, 1] with this mean"
            f" has at most {largest[i]:.6g}",
            column=names[1],
        )
        for i in np.flatnonzero(bad)
    ]
    if faults:
        raise DataError(faults, f"Give {names[1]} as a standard deviation, not as a variance or %.")


def clean_models(
    spec: ModelSpec, responses: Responses, frame: pd.DataFrame, models: tuple[str, ...]
) -> NDArray[np.bool_]:
    """Return which models a model spec says are known to be clean, dims (model,)."""
    block, source = spec.contamination, responses.source
    column = block.clean_column or "contamination.clean"
    if block.clean_column:
        known = clean_by_column(column, source, frame)
        clean = known.reindex(list(models)).to_numpy(dtype=bool)
    else:
        if unknown := [name for name in block.clean if name not in models]:
            problem = f"no such model: {join_list(unknown)}; the responses have {join_list(models)}"
            raise SpecError([Fault(f"model spec '{spec.name}'", problem, column=column)])
        clean = np.isin(np.array(models, dtype=object), block.clean)
    if (block.clean_column or block.clean) and (clean.all() or not clean.any()):
        problem = f"{'every model is' if clean.any() else 'no model is'} known to be clean"
        advice = (
            "Slopes are identified by comparing models that may be contaminated with clean ones."
        )
        raise DataError([Fault(source, problem, column=column)], advice)
    return clean


def clean_by_column(column: str, source: str, frame: pd.DataFrame) -> pd.Series:
    """Return whether each model of a table is known to be clean, by name."""
    if column not in frame:
        problem = f"the model spec needs a column '{column}', which is not there"
        advice = (
            "Add it (1 = the model is known to be clean, 0 = it is not), name the models (--clean,"
            " or contamination.clean in the model spec), or give release dates and cutoffs"
            " (--released, --cutoff)."
        )
        raise DataError([Fault(source, problem)], advice)
    names = frame["model"].astype(str).to_numpy()
    known = pd.Series(read_clean(frame[column], source)).groupby(names, sort=False)
    values = known.nunique()
    if (values > 1).any():
        problem = (
            f"models with both values: {join_list(values.index[values > 1])}; a model is clean on"
            " all benchmarks of a fit, or on none"
        )
        advice = "Fit benchmarks one by one (--where) if models are clean on some of them alone."
        raise DataError([Fault(source, problem, column=column)], advice)
    return known.first()


def refuse_idle_clean(spec: ModelSpec, clean: Sequence[str]) -> None:
    """Raise a `UsageError` if models are declared clean and the model spec has no use for it."""
    if clean and spec.contamination.clean_column != "clean":
        raise UsageError(
            f"clean: model spec '{printable(spec.name, 60)}' does not use the column 'clean';"
            " choose anchored, or a copy of it"
        )


def refuse_contaminated(responses: Responses, clean: Sequence[str]) -> None:
    """Refuse models declared clean whose responses have contamination that is their own."""
    # Where all models share the contamination of each item, it says what others may have seen,
    # unless it is from dates.
    frame, source = responses.frame, responses.source
    if not len(clean) or "contamination" not in frame:
        return
    dose = frame["contamination"]
    doses = dose.groupby([frame["benchmark"], frame["item"]], sort=False).nunique()
    if not responses.from_dates and (doses < 2).all():
        return
    own = frame["model"].isin(clean)
    shares = (dose[own] > 0).groupby(frame["model"][own]).agg(["sum", "size"])
    faults = [
        Fault(
            source,
            f"model '{printable(str(name), 60)}' is declared clean, but contamination is above 0"
            f" in {row['sum']:,} of its {row['size']:,} responses ({row['sum'] / row['size']:.0%})",
        )
        for name, row in shares[shares["sum"] > 0].iterrows()
    ]
    if faults:
        advice = (
            "a model is clean or was exposed to items: do not declare it clean, or set the"
            " contamination of its responses to 0"
        )
        raise DataError(faults, advice)
