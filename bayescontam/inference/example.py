"""Example: a made-up table of responses, to ask what a model spec says before any data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._types import IntArray
from bayescontam.errors import UsageError
from bayescontam.responses import Responses
from bayescontam.specs.model import ModelSpec

MOST_RESPONSES = 1_000_000
"""Responses of the largest table that is made up."""
MOST_GROUPS = 10
"""Groups that the items of a benchmark are split into where ability is reported by groups."""
SD_SHARE = 0.5
"""Standard deviation of a made-up contamination, as a share of the largest possible."""
GUESSES = (0.25, 0.1)
"""Accuracies of blind guessing of made-up items, by turns."""


@dataclass(frozen=True)
class Layout:
    """Size and contaminations of a made-up table."""

    # models, benchmarks: at least 1
    models: int = 8
    benchmarks: int = 2
    items: int = 200  # items of each benchmark, at least 2. Every model answers every item.
    trials: int = 1  # trials of each response
    # parameters of the Beta distribution that the contamination of each item is drawn from; the
    # default is uniform on [0, 1]
    contamination: tuple[float, float] = (1.0, 1.0)
    # standard deviation of every item's `p_duplicate`, as a share of the largest possible, √(p (1 −
    # p)); 0 leaves the column out
    p_duplicate_sd: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be used."""
        for name, fewest in {"models": 1, "benchmarks": 1, "items": 2, "trials": 1}.items():
            value = getattr(self, name)
            if not fewest <= value <= MOST_RESPONSES:
                raise UsageError(
                    f"{name}: got {value:,}; allowed is {fewest} to {MOST_RESPONSES:,}"
                )
        count = self.models * self.benchmarks * self.items
        if count > MOST_RESPONSES:
            raise UsageError(
                f"models × benchmarks × items: got {count:,}; allowed is up to"
                f" {MOST_RESPONSES:,}; take fewer items"
            )
        if not all(0 < shape < np.inf for shape in self.contamination):
            raise UsageError(
                f"contamination: got {self.contamination}; allowed are two numbers above 0, the"
                " parameters of a Beta distribution"
            )
        if not 0 <= self.p_duplicate_sd < 1:
            raise UsageError(
                f"p_duplicate_sd: got {self.p_duplicate_sd:g}; allowed is 0 up to, but not, 1"
            )

    def text(self) -> str:
        """Return the layout in words."""
        alpha, beta = self.contamination
        each = "one trial" if self.trials == 1 else f"{self.trials:,} trials"
        drawn = "uniform on [0, 1]" if alpha == beta == 1 else f"from Beta({alpha:g}, {beta:g})"
        return (
            f"a made-up table: {size_text(self.models, self.benchmarks)}, {self.items:,} items in"
            f" each benchmark, {each} each, contamination of items {drawn}"
        )


def size_text(models: int, benchmarks: int) -> str:
    """Return how many models and benchmarks a table has, in words.

    >>> size_text(1, 2)
    '1 model, 2 benchmarks'
    """
    counts = {"model": models, "benchmark": benchmarks}
    return ", ".join(f"{n:,} {what}{'' if n == 1 else 's'}" for what, n in counts.items())


def make_example(spec: ModelSpec, layout: Layout, rng: np.random.Generator) -> Responses:
    """Make up a table of responses that has every column that a model spec needs."""
    models = names_of(spec.contamination.clean, "model", layout.models)
    benchmarks = names_of(_guessed(spec), "bench", layout.benchmarks)
    shape = len(models), len(benchmarks), layout.items
    model, benchmark, item = np.indices(shape).reshape(3, -1)
    contamination = rng.beta(*layout.contamination, size=shape[1:])[benchmark, item]
    if spec.contamination.spillover:
        contamination = contamination * rng.uniform(size=shape[:2])[model, benchmark]
    largest_sd = np.sqrt(contamination * (1 - contamination))
    columns = {
        **_asked_columns(spec, model, item, layout.items),
        "model": np.array(models, dtype=object)[model],
        "benchmark": np.array(benchmarks, dtype=object)[benchmark],
        "item": _numbered("item", item),
        "n_correct": (model + item) % (layout.trials + 1),
        "n_trials": np.full(len(model), layout.trials),
        "contamination": contamination,
        "contamination_sd": SD_SHARE * largest_sd,
        "p_duplicate": contamination,
    }
    if layout.p_duplicate_sd:
        columns["p_duplicate_sd"] = layout.p_duplicate_sd * largest_sd
    return Responses.from_frame(pd.DataFrame(columns), source="made-up table")


def fitting(spec: ModelSpec, layout: Layout) -> Layout:
    """Return the layout, enlarged by what a model spec needs.

    Benchmarks that the spec names (``likelihood.guess``) all come, models that it calls
    clean (``contamination.clean``) too, and at least one model that may be contaminated.
    """
    block = spec.contamination
    clean = max(len(block.clean), 1 if block.clean_column else 0)
    models = max(layout.models, clean + 1 if clean else 1)
    return replace(layout, models=models, benchmarks=max(layout.benchmarks, len(_guessed(spec))))


def names_of(given: Sequence[str], what: str, count: int) -> list[str]:
    """Return `count` names, those that are given first.

    >>> names_of(["quiz", "bench 2"], "bench", 4)
    ['quiz', 'bench 2', 'bench 1', 'bench 3']
    """
    more = (f"{what} {k}" for k in range(1, count + 1))
    spare = [name for name in more if name not in given]
    return [*given, *spare][: max(count, len(given))]


def _guessed(spec: ModelSpec) -> list[str]:
    guess = spec.likelihood.guess
    return list(guess) if isinstance(guess, Mapping) else []


def _asked_columns(
    spec: ModelSpec, model: IntArray, item: IntArray, items: int
) -> dict[str, NDArray[Any]]:
    """Return the columns that a spec requests by names of its own."""
    columns: dict[str, NDArray[Any]] = {}
    if spec.ability.by != "benchmark":
        groups = max(1, min(MOST_GROUPS, items // 2))
        columns[spec.ability.by] = _numbered(spec.ability.by, item % groups)
    if spec.likelihood.guess == "column":
        columns["guess"] = np.array(GUESSES)[item % len(GUESSES)]
    if spec.contamination.clean_column:
        columns[spec.contamination.clean_column] = (model == 0).astype(np.int64)
    return columns


def _numbered(what: str, number: IntArray) -> NDArray[np.object_]:
    names = np.array([f"{what} {k + 1}" for k in range(int(number.max()) + 1)], dtype=object)
    return names[number]
