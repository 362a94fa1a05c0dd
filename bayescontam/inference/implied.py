"""Implied: what a model spec's prior implies of accuracies, before any data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._types import FloatArray
from bayescontam.errors import UsageError
from bayescontam.inference.build import Built, build
from bayescontam.inference.design import Design
from bayescontam.inference.draws import Draws, exposed, log_odds, response_guess
from bayescontam.inference.estimands import Reference, estimands
from bayescontam.inference.example import Layout, fitting, make_example, size_text
from bayescontam.inference.likelihood import accuracy
from bayescontam.inference.predictive import Cells, prior_draws
from bayescontam.inference.quantities import QUANTITIES, Quantity
from bayescontam.names import listed, visible
from bayescontam.responses import Responses
from bayescontam.seeds import check_seed, stream
from bayescontam.specs.model import ModelSpec

QUANTILES = {"q2.5": 0.025, "q25": 0.25, "median": 0.5, "q75": 0.75, "q97.5": 0.975}
"""Columns of quantiles, and their probabilities."""
FEWEST_DRAWS, MOST_DRAWS = 100, 100_000
MOST_LOST = 0.001
"""Share of values that overflow up to which a quantity is reported."""
SINGLE_ITEMS = 100
"""Responses of each draw whose own accuracy is looked at."""


@dataclass(frozen=True, eq=False)
class Implied:
    """What a prior implies; made by `implied`."""

    spec: ModelSpec
    data: str  # the table of responses that the prior was evaluated for, in words
    draws: int
    seed: int
    # under each quantity's name its values, all draws, models and benchmarks in one array; without
    # what is not finite
    values: Mapping[str, FloatArray]
    # share of each quantity's values that are not finite: the prior is so wide that they overflow.
    # Above 0.001 nothing is reported of the quantity.
    lost: Mapping[str, float]
    # effects of the spec that this table cannot carry, with the reason. Their priors had no say.
    left_out: tuple[tuple[str, str], ...]
    clean: tuple[str, ...] = ()  # models whose slopes are zero, since the spec calls them clean

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """The quantities that this spec and table have, in order."""
        return tuple(known for known in QUANTITIES if known.name in self.values)

    def table(self) -> pd.DataFrame:
        """Return quantiles and probabilities of extremes."""
        return pd.DataFrame([self._row(known) for known in self.quantities])

    def is_told(self, name: str) -> bool:
        """Return whether nearly all values of a quantity are finite."""
        return self.lost[name] <= MOST_LOST

    def _row(self, known: Quantity) -> dict[str, Any]:
        values = self.values[known.name] if self.is_told(known.name) else np.array([np.nan])
        beyond = np.array([values < known.below, values > known.above]).mean(axis=1)
        p_below, p_above = np.where(np.isnan(values[0]), np.nan, beyond)
        return {
            "quantity": known.name,
            **dict(zip(QUANTILES, np.quantile(values, list(QUANTILES.values())), strict=True)),
            "below": known.below,
            "p_below": p_below,
            "above": known.above,
            "p_above": p_above,
            "lost": self.lost[known.name],
            "meaning": known.meaning,
        }

    def notes(self) -> list[str]:
        """Return what a reader must know beside the table, one sentence or two each."""
        error = 1.96 * np.sqrt(0.05 * 0.95 / self.draws)
        lines = [
            f"Layout: {self.data}. {self.draws:,} draws: the Monte Carlo error of a probability"
            f" of 0.05 is at most {error:.3f} (95 %).",
            *(f"Left out of the model: {symbol}: {reason}." for symbol, reason in self.left_out),
        ]
        if self.clean:
            lines.append(f"Known to be clean, so that their slopes are 0: {listed(self.clean)}.")
        if hidden := [each.name for each in self.quantities if not self.is_told(each.name)]:
            lines.append(
                f"No values for {listed(hidden, most=20)}: more than"
                f" {MOST_LOST:.1%} of the draws are too large for a computer's numbers. Some"
                " prior is far too wide."
            )
        return lines


def implied(
    spec: ModelSpec,
    *,
    models: int = 8,
    benchmarks: int = 2,
    items: int = 200,
    trials: int = 1,
    contamination: tuple[float, float] = (1.0, 1.0),
    draws: int = 1000,
    seed: int = 0,
    reference: Reference = "min_observed",
    responses: Responses | None = None,
) -> Implied:
    """Draw from a model spec's prior what it implies for accuracies.

    Draws come from the PyMC model that fitting uses, and estimands from the same
    function as those of a fit. All pairs of model and benchmark count alike; models
    that are compared are drawn at random.
    """
    if not FEWEST_DRAWS <= draws <= MOST_DRAWS:
        raise UsageError(
            f"draws: got {draws:,}; allowed is {FEWEST_DRAWS} to {MOST_DRAWS:,}, so that the"
            " ends of the distributions can be estimated"
        )
    check_seed(seed)
    if responses is None:
        layout = fitting(spec, Layout(models, benchmarks, items, trials, contamination))
        data = layout.text()
        responses = make_example(spec, layout, stream(seed, "example"))
    else:
        data = _described(responses)
    built = build(spec, responses)
    # What overflows is counted, and reported.
    with np.errstate(over="ignore", invalid="ignore"):
        known, _ = prior_draws(built, draws, stream(seed, "prior"))
        found = dict(_values(known, built, reference, stream(seed, "implied")))
    finite = {name: values[np.isfinite(values)] for name, values in found.items()}
    lost = {name: 1 - finite[name].size / values.size for name, values in found.items()}
    names = zip(built.design.models, built.design.clean, strict=True)
    clean = tuple(name for name, is_clean in names if is_clean)
    return Implied(spec, data, draws, seed, finite, lost, built.terms.left_out, clean)


def _described(responses: Responses) -> str:
    size = size_text(len(responses.models), len(responses.benchmarks))
    return f"the table {visible(responses.source)}: {size}, {len(responses.frame):,} responses"


def _values(
    draws: Draws, built: Built, reference: Reference, rng: np.random.Generator
) -> Iterator[tuple[str, FloatArray]]:
    """Yield the name of every quantity that can be estimated, and its values."""
    groups = estimands(draws, built, (1, len(draws)), reference, "all", rng)
    cells = {name: values.to_numpy()[0] for name, values in groups["estimands"].items()}
    answered = built.design.answered
    for name in (known.name for known in QUANTITIES if known.name in cells):
        yield name, cells[name][:, answered].ravel()
    score = cells["accuracy"]
    for name, values, known in (
        ("model_difference", score, answered),
        ("benchmark_difference", score.swapaxes(1, 2), answered.T),
    ):
        difference = _differences(values, known, rng)
        if difference.size:
            yield name, difference
            yield f"{name}_size", np.abs(difference)
    if "estimands_by_concept" in groups:
        by_unit = groups["estimands_by_concept"]["accuracy"].to_numpy()[0]
        yield "unit_accuracy", by_unit[:, _answered_units(built.design)].ravel()
    yield from _of_items(draws, built, rng)


def _differences(
    score: FloatArray, answered: NDArray[np.bool_], rng: np.random.Generator
) -> FloatArray:
    """Return differences of random pairs along the second axis, each in a random order.

    In each draw the levels stand in a circle in random order, and neighbours are compared.
    """
    count = score.shape[1]
    if count < 2:
        return np.empty(0)
    order = rng.permuted(np.tile(np.arange(count), (len(score), 1)), axis=1)
    shuffled = np.take_along_axis(score, order[..., None], axis=1)
    present = answered[order]
    both = present & np.roll(present, 1, axis=1)
    difference: FloatArray = (shuffled - np.roll(shuffled, 1, axis=1))[both]
    return difference


def _answered_units(design: Design) -> NDArray[np.bool_]:
    shape = len(design.models), len(design.units)
    return np.bincount(design.model_unit, minlength=shape[0] * shape[1]).reshape(shape) > 0


def _of_items(
    draws: Draws, built: Built, rng: np.random.Generator
) -> Iterator[tuple[str, FloatArray]]:
    """Yield accuracies of single items, and their spread within pairs of two items or more."""
    design = built.design
    count = len(design.models) * len(design.benchmarks)
    cells = Cells(design.model_benchmark, count, design.weight)
    several = np.bincount(design.model_benchmark, minlength=count) > 1
    reached = np.cumsum(design.weight)
    singles, spreads = [], []
    for part in draws.chunks(design):
        p = response_accuracies(part, built)
        wanted = rng.random((len(part), SINGLE_ITEMS)) * reached[-1]
        chosen = np.searchsorted(reached, wanted, side="right")
        singles.append(np.take_along_axis(p, chosen, axis=1))
        centered = p - cells.means(p)[:, design.model_benchmark]
        spreads.append(np.sqrt(cells.means(centered**2))[:, several])
    yield "item_accuracy", np.concatenate(singles).ravel()
    if several.any():
        yield "item_spread", np.concatenate(spreads).ravel()


def response_accuracies(draws: Draws, built: Built) -> FloatArray:
    """Return the accuracy of each response at its true contamination, (draw, response)."""
    design = built.design
    guess = response_guess(draws, built.spec, design)
    return accuracy(exposed(draws, design, log_odds(draws, design)), guess)
