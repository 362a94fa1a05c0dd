"""Compared: the models that answered the same benchmarks, and how these are weighed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._types import IntArray
from bayescontam.errors import UsageError
from bayescontam.inference.fitted import Fit
from bayescontam.names import listed, visible
from bayescontam.specs.base import closest


@dataclass(frozen=True, eq=False)
class Compared:
    """Models that can be compared on some benchmarks."""

    models: NDArray[Any]  # those that answered every one of the benchmarks
    # rows, columns: positions of the models, and of the benchmarks, in the fit
    rows: IntArray
    columns: IntArray
    shares: "pd.Series[float]"  # of each benchmark in an average, by its name; they sum to 1
    # benchmarks that each model missed which did not answer all
    left_out: Mapping[str, tuple[str, ...]]
    items: pd.DataFrame  # number of items that a model answered, by model and benchmark
    sizes: "pd.Series[float]"  # number of items of each benchmark in the table

    @property
    def same_items(self) -> bool:
        """Whether the models answered the same items, so that raw accuracies can be compared."""
        items = self.items.loc[list(self.models), list(self.shares.index)]
        return bool((items == self.sizes[list(self.shares.index)]).all(axis=None))

    def sentences(self) -> Iterator[str]:
        """Yield what is averaged over, and where the comparison is not one of like with like."""
        names = [str(name) for name in self.shares.index]
        if len(names) > 1:
            shares = self.shares.to_numpy()
            alike = np.ptp(shares) < 1e-12
            weighed = "with equal weights" if alike else f"with weights by items, {_range(shares)}"
            yield f"Averages are over {len(names)} benchmarks, {weighed}: {listed(names)}."
        if self.left_out:
            missed = [
                f"'{visible(model, 60)}' (did not answer {listed(names, 3)})"
                for model, names in self.left_out.items()
            ]
            yield (
                f"Left out, because models are compared on the same benchmarks only:"
                f" {', '.join(missed[:5])}{_more(missed, 5)}."
            )
        partial = self._partial()
        if partial:
            yield (
                "Abilities are averages over all items of a benchmark; on those that a model did"
                " not answer they are predicted from its ability and the items' difficulty."
                f" Answered: {', '.join(partial[:5])}{_more(partial, 5)}. Raw accuracies are over"
                " different items, so that they are not ranked."
            )

    def _partial(self) -> list[str]:
        items = self.items.loc[list(self.models), list(self.shares.index)]
        return [
            f"'{visible(str(model), 60)}' {items.loc[model, name]:,.0f} of"
            f" {self.sizes[name]:,.0f} of '{visible(str(name), 60)}'"
            for name in items.columns
            for model in items.index[items[name] < self.sizes[name]]
        ]


def compared_models(
    fit: Fit, benchmarks: Iterable[str] | None, *, by_item: bool = False
) -> Compared:
    """Return the models that answered all of some benchmarks."""
    known = [str(name) for name in fit.tree["estimands"]["benchmark"].to_numpy()]
    wanted = known if benchmarks is None else list(benchmarks)
    _refuse_names(wanted, known)
    _refuse_incomparable(fit, wanted)
    columns = np.array([known.index(name) for name in wanted], dtype=np.int64)
    models = np.array([str(n) for n in fit.tree["estimands"]["model"].to_numpy()], dtype=object)
    answered = fit.raw_accuracy().transpose("model", "benchmark").notnull().to_numpy()[:, columns]
    rows = np.flatnonzero(answered.all(axis=1))
    if not len(rows):
        raise UsageError(_no_model(answered, wanted))
    items, sizes = _items(fit)
    share = pd.Series(sizes[columns] if by_item else 1.0, index=pd.Index(wanted, dtype=object))
    return Compared(
        models=models[rows],
        rows=rows,
        columns=columns,
        shares=share / share.sum(),
        left_out={
            models[row]: tuple(np.array(wanted, dtype=object)[~answered[row]])
            for row in np.flatnonzero(~answered.all(axis=1))
        },
        items=pd.DataFrame(items, index=models, columns=known),
        sizes=pd.Series(sizes, index=known),
    )


def _refuse_incomparable(fit: Fit, wanted: list[str]) -> None:
    """Refuse benchmarks in which models answered different items without common ground."""
    ranked = fit.ranked()
    if incomparable := [name for name in wanted if not ranked[name]]:
        which = listed(visible(name, 60) for name in incomparable)
        known = [name for name in wanted if ranked[name]]
        raise UsageError(
            f"models answered different items of {which}, and this fit's estimands there are"
            " averages over the items that each model answered, or no shared items link the"
            " models: they cannot be ranked. Fit with --items all (items='all') and a model spec"
            " that has item difficulties"
            + (f", or name other benchmarks, such as {listed(known, 3)}" if known else "")
        )


def _refuse_names(wanted: list[str], known: list[str]) -> None:
    if not wanted:
        raise UsageError("benchmark: got none; name at least one, or leave it out for all")
    for name in wanted:
        if name not in known:
            shown = [visible(label, 60) for label in known]
            raise UsageError(
                f"benchmark: got '{visible(name, 60)}', which the fit does not have;"
                f" {closest(name, shown)}"
            )
        if wanted.count(name) > 1:
            raise UsageError(f"benchmark: '{visible(name, 60)}' is named twice; name each once")


def _no_model(answered: NDArray[np.bool_], wanted: list[str]) -> str:
    """Say that no model can be compared, and which benchmarks most models share."""
    patterns, count = np.unique(answered, axis=0, return_counts=True)
    shared = patterns[int(count.argmax())]
    names = [name for name, has in zip(wanted, shared, strict=True) if has]
    return (
        f"no model answered all {len(wanted)} benchmarks ({listed(wanted)}), and models are"
        " compared on the same benchmarks only; name benchmarks that some answered together,"
        f" such as {listed(names)}"
    )


def _items(fit: Fit) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return numbers of items, dims (model, benchmark) as answered, and (benchmark,)."""
    data = fit.tree["constant_data"].to_dataset()
    model, benchmark, item = (
        data[f"{name}_of_response"].to_numpy() for name in ("model", "benchmark", "item")
    )
    # A row that counts several items stands for as many; other rows have weight 1.
    weight = data["weight"].to_numpy()
    answered = np.zeros((data.sizes["model"], data.sizes["benchmark"]))
    np.add.at(answered, (model, benchmark), weight)
    of_item = np.zeros(data.sizes["item"])
    np.maximum.at(of_item, item, weight)
    sizes = np.bincount(
        data["benchmark_of_item"].to_numpy(), of_item, minlength=data.sizes["benchmark"]
    )
    return answered, sizes


def _range(shares: NDArray[Any]) -> str:
    return f"{shares.min():.2g} to {shares.max():.2g} each"


def _more(names: list[str], shown: int) -> str:
    return f" and {len(names) - shown} more" if len(names) > shown else ""
