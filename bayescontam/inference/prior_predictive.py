"""What a model spec expects before the data, and tables drawn from it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayescontam._format import number
from bayescontam._random import check_seed, fresh_seed, stream
from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray
from bayescontam.data.covariates import Covariates
from bayescontam.data.responses import Path, Responses, given_responses
from bayescontam.errors import UsageError
from bayescontam.inference.estimands import Reference, estimands
from bayescontam.inference.posterior import Draws, accuracy
from bayescontam.inference.predictive import Cells, prior_draws, replicated_counts
from bayescontam.inference.total_effects import ZERO_AT_REFERENCE
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.design import Design
from bayescontam.model.effect_names import DIRECT, SPILLOVER, TOTAL, effect_words
from bayescontam.model.labels import crossed_labels
from bayescontam.model.lineage import BASE
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import given_spec

MOST_RESPONSES = 1_000_000
"""Responses of the largest table that is made up."""
MOST_GROUPS = 10
"""Groups that the items of a benchmark are split into where ability is reported by groups."""
SD_SHARE = 0.5
LOADINGS = ((0.8, 0.0, 0.5, 0.0), (0.0, 0.7, 0.5, 0.3))  # by factor and item, in turn
"""Standard deviation of a made-up contamination, as a share of the largest possible."""
GUESSES = (0.25, 0.1)
"""Accuracies of blind guessing of made-up items, by turns."""
QUANTILES = {"q2.5": 0.025, "q25": 0.25, "median": 0.5, "q75": 0.75, "q97.5": 0.975}
"""Columns of quantiles, and their probabilities."""
FEWEST_DRAWS, MOST_DRAWS = 100, 100_000
MOST_LOST = 0.001
"""Share of values that overflow up to which a quantity is reported."""
LONG = 1e6
"""Numbers from here on are shown with an exponent."""
SINGLE_ITEMS = 100
"""Responses of each draw whose own accuracy is looked at."""


@dataclass(frozen=True)
class ExampleLayout:
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
        """Validate the options."""
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


def make_example(spec: ModelSpec, layout: ExampleLayout, rng: np.random.Generator) -> Responses:
    """Make up a table of responses that has every column that a model spec needs."""
    models = names_of(spec.contamination.clean, "model", layout.models)
    benchmarks = names_of(_guessed(spec), "bench", layout.benchmarks)
    labels, (benchmark, model, item) = crossed_labels(models, benchmarks, layout.items)
    size = len(benchmarks), layout.items
    contamination = rng.beta(*layout.contamination, size=size)[benchmark, item]
    if spec.contamination.spillover:
        shares = rng.uniform(size=(len(models), len(benchmarks)))
        if spec.ability.lineage != "none":
            shares[::2] = 0.0  # each base has a clean model, and one that was exposed to its items
        contamination = contamination * shares[model, benchmark]
    largest_sd = np.sqrt(contamination * (1 - contamination))
    columns: dict[str, NDArray[Any]] = {}
    if spec.ability.by != "benchmark":
        groups = max(1, min(MOST_GROUPS, layout.items // 2))
        names = [f"{spec.ability.by} {k + 1}" for k in range(groups)]
        columns[spec.ability.by] = np.array(names, dtype=object)[item % groups]
    if spec.likelihood.guess == "column":
        columns["guess"] = np.array(GUESSES)[item % len(GUESSES)]
    if spec.contamination.clean_column:
        columns[spec.contamination.clean_column] = (model == 0).astype(np.int64)
    if spec.ability.lineage != "none":
        last = max(len(models) // 2, 1)
        columns[BASE] = np.array([f"base {k + 1}" for k in range(last)])[
            np.minimum(model // 2, last - 1)
        ]
    if spec.contamination.kinds:
        columns[spec.contamination.kinds] = np.array(["exact", "semantic"])[(model // 2) % 2]
    columns |= {
        **labels,
        "n_correct": (model + item) % (layout.trials + 1),
        "n_trials": np.full(len(model), layout.trials),
        "contamination": contamination,
        "contamination_sd": SD_SHARE * largest_sd,
        "p_duplicate": contamination,
    }
    if spec.contamination.exposure == "shared":
        for k, part in enumerate(map(np.array, LOADINGS), start=1):
            columns[f"shared_{k}"] = part[(benchmark + item) % len(part)]
    if layout.p_duplicate_sd:
        columns["p_duplicate_sd"] = layout.p_duplicate_sd * largest_sd
    return Responses.from_frame(pd.DataFrame(columns), source="made-up table")


def fitting(spec: ModelSpec, layout: ExampleLayout) -> ExampleLayout:
    """Return the layout, enlarged to the benchmarks and clean models that a spec names."""
    block = spec.contamination
    clean = max(len(block.clean), 1 if block.clean_column else 0)
    fewest = 2 if spec.ability.lineage != "none" else 1
    models = max(layout.models, clean + 1 if clean else fewest)
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


class Quantity(NamedTuple):
    """Something that a prior implies, and the bounds beyond which a value is called extreme."""

    name: str
    meaning: str
    below: float
    above: float


QUANTITIES = (
    Quantity("accuracy", "accuracy of a model on a benchmark", 0.02, 0.98),
    Quantity(TOTAL.ability, "its accuracy without the effect of contamination", 0.02, 0.98),
    Quantity(DIRECT.ability, "its accuracy without the direct effect alone", 0.02, 0.98),
    Quantity(TOTAL.overfitting, "accuracy less genuine ability: the total effect", -0.5, 0.5),
    Quantity(DIRECT.overfitting, "what items gain from their own contamination", -0.5, 0.5),
    Quantity(SPILLOVER, "what items gain from the contamination of others", -0.5, 0.5),
    Quantity(TOTAL.fraction, "the total effect as a share of accuracy", -1.0, 0.9),
    Quantity(DIRECT.fraction, "the direct effect as a share of accuracy", -1.0, 0.9),
    Quantity("novelty_gap", "accuracy at the largest contamination less the smallest", -0.8, 0.8),
    Quantity("slope", "log-odds from surely clean to surely contaminated", -4.0, 4.0),
    Quantity("model_difference", "accuracies of two models on one benchmark, A − B", -0.8, 0.8),
    Quantity("model_difference_size", "the same without its sign", 0.01, 0.8),
    Quantity("benchmark_difference", "one model's accuracies on two benchmarks, A − B", -0.8, 0.8),
    Quantity("benchmark_difference_size", "the same without its sign", 0.01, 0.8),
    Quantity("unit_accuracy", "accuracy of a model on one group of items", 0.02, 0.98),
    Quantity("item_accuracy", "accuracy of a model on one item", 0.02, 0.98),
    Quantity("item_spread", "sd of accuracies over a benchmark's items", 0.02, 0.4),
)
"""All quantities, in the order in which they are shown."""


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
    # pairs of model and benchmark that were answered; those of other models whose items are all
    # clean, so that effects of contamination are zero; and those whose items have the same
    # contamination, so that effects which are zero for that reason are left out of `values`
    pairs: int = 0
    uncontaminated: int = 0
    unvaried: int = 0

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """The quantities that this spec and table have, in order."""
        return tuple(known for known in QUANTITIES if known.name in self.values)

    def table(self) -> pd.DataFrame:
        """Return quantiles and probabilities of extremes."""
        rows = []
        for name, meaning, below, above in self.quantities:
            values = self.values[name] if self.is_reported(name) else np.array([np.nan])
            beyond = np.array([values < below, values > above]).mean(axis=1)
            p_below, p_above = np.where(np.isnan(values[0]), np.nan, beyond)
            quantiles = np.quantile(values, list(QUANTILES.values()))
            rows.append(
                (name, *quantiles, below, p_below, above, p_above, self.lost[name], meaning)
            )
        ends = ["below", "p_below", "above", "p_above"]
        return pd.DataFrame(rows, columns=["quantity", *QUANTILES, *ends, "lost", "meaning"])

    def readable(self) -> pd.DataFrame:
        """Return the table for people: names in words, bounds beside their probabilities."""
        table, names = self.table(), list(QUANTILES)
        if (table[names].abs() >= LONG).any(axis=None):
            table[names] = table[names].map(
                lambda value: f"{value:.1e}" if abs(value) >= LONG else number(value)
            )
        for side, sign in (("below", "<"), ("above", ">")):
            pairs = zip(table[side], table[f"p_{side}"], strict=True)
            table[side] = [
                "" if np.isnan(p) else f"{number(p)} ({sign} {bound:g})".replace("-", "−")
                for bound, p in pairs
            ]
        table["quantity"] = [self.label(name) for name in table["quantity"]]
        return table[["quantity", *names, "below", "above", "meaning"]]

    def label(self, quantity: str) -> str:
        """Return the name of a quantity in words."""
        if quantity == "unit_accuracy":
            return f"accuracy by {printable(self.spec.ability.by, 20)}"
        return effect_words(quantity)

    def is_reported(self, name: str) -> bool:
        """Return whether nearly all values of a quantity are finite."""
        return self.lost[name] <= MOST_LOST

    def notes(self) -> list[str]:
        """Return what a reader must know beside the table, one sentence or two each."""
        error = 1.96 * np.sqrt(0.05 * 0.95 / self.draws)
        lines = [
            f"Layout: {self.data}. {self.draws:,} draws: the Monte Carlo error of a probability"
            f" of 0.05 is at most {error:.3f} (95 %).",
            *(f"Left out of the model: {symbol}: {reason}." for symbol, reason in self.left_out),
        ]
        of_pairs = f"of {self.pairs:,} pairs of model and benchmark"
        if self.unvaried:
            lines.append(
                f"In {self.unvaried:,} {of_pairs} all items have the same contamination: effects"
                " that are 0 only because the reference is that contamination are left out."
            )
        if self.uncontaminated:
            lines.append(
                f"In {self.uncontaminated:,} {of_pairs} no item is contaminated: their effects are"
                " 0, and count."
            )
        if self.clean:
            lines.append(f"Known to be clean, so that their slopes are 0: {join_list(self.clean)}.")
        if hidden := [each.name for each in self.quantities if not self.is_reported(each.name)]:
            lines.append(
                f"No values for {join_list(hidden, most=20)}: more than"
                f" {MOST_LOST:.1%} of the draws are too large for a computer's numbers. Some"
                " prior is far too wide."
            )
        return lines


def prior_predictive(
    spec: ModelSpec | Path,
    responses: Responses | pd.DataFrame | Path,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    *,
    draws: int = 500,
    seed: int | None = None,
) -> xr.DataTree:
    """Draw parameters from a model spec's prior, and responses given them.

    Parameters
    ----------
    spec : ModelSpec, str or path-like
        Model spec, the name of a shipped one, or the path of a TOML file.
    responses : Responses, pandas.DataFrame or path-like
        Table whose models, benchmarks, items, trials and contamination are used; whether a
        response is correct is not.
    covariates : Covariates, pandas.DataFrame or path-like, optional
        Contamination of items, where `responses` has none.
    draws : int, default 500
    seed : int, optional
        Default: a fresh one.

    Returns
    -------
    xarray.DataTree
        ``prior``: parameters, dims (chain, draw, …). ``prior_predictive``: ``n_correct``, dims
        (chain, draw, response), with coordinates ``model``, ``benchmark``, ``item``.

    Raises
    ------
    DataError, SpecError, UsageError
        If something given cannot be used.

    Examples
    --------
    >>> import bayescontam
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "model": "a", "benchmark": "b", "item": ["x", "y", "z"], "correct": [0, 1, 1],
    ...     "contamination": [0.0, 0.5, 1.0],
    ... })
    >>> prior = bayescontam.prior_predictive("single", table, draws=50, seed=1)
    >>> dict(prior["prior_predictive"].sizes)
    {'chain': 1, 'draw': 50, 'response': 3}
    """
    if not isinstance(draws, Integral) or not 1 <= draws <= MOST_DRAWS:
        raise UsageError(f"draws: got {draws!r}; allowed is 1 to {MOST_DRAWS:,}")
    seed = fresh_seed() if seed is None else seed
    check_seed(seed)
    spec = given_spec(spec)
    built = build(spec, given_responses(responses, covariates))
    drawn, prior = prior_draws(built, draws, stream(seed, "prior"))
    design = built.design
    counts = replicated_counts(drawn, built, stream(seed, "prior predictive"))
    labels = {
        "model": np.asarray(design.models)[design.model],
        "benchmark": np.asarray(design.benchmarks)[design.benchmark],
        "item": np.asarray(design.coords["item"])[design.item],
    }
    coords = {name: ("response", values) for name, values in labels.items()}
    predictive = xr.Dataset(
        {"n_correct": (("chain", "draw", "response"), counts[None])}, coords=coords
    )
    return xr.DataTree.from_dict({"prior": prior, "prior_predictive": predictive})


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
    """Draw from a model spec's prior what it implies for accuracies."""
    if not FEWEST_DRAWS <= draws <= MOST_DRAWS:
        raise UsageError(
            f"draws: got {draws:,}; allowed is {FEWEST_DRAWS} to {MOST_DRAWS:,}, so that the"
            " ends of the distributions can be estimated"
        )
    check_seed(seed)
    if responses is None:
        layout = fitting(spec, ExampleLayout(models, benchmarks, items, trials, contamination))
        data = layout.text()
        responses = make_example(spec, layout, stream(seed, "example"))
    else:
        size = size_text(len(responses.models), len(responses.benchmarks))
        count = f"{len(responses.frame):,} responses"
        data = f"the table {printable(responses.source)}: {size}, {count}"
    built = build(spec, responses)
    # What overflows is counted, and reported.
    with np.errstate(over="ignore", invalid="ignore"):
        known, _ = prior_draws(built, draws, stream(seed, "prior"))
        found = dict(_values(known, built, reference, stream(seed, "implied")))
    finite = {name: values[np.isfinite(values)] for name, values in found.items()}
    lost = {name: 1 - finite[name].size / values.size for name, values in found.items()}
    design = built.design
    clean = tuple(np.array(design.models, dtype=object)[design.clean])
    alike, contaminated = _pairs_alike(design)
    return Implied(
        spec, data, draws, seed, finite, lost, built.terms.left_out, clean,
        pairs=int(design.answered.sum()),
        uncontaminated=int((alike & ~contaminated).sum()),
        unvaried=int((alike & contaminated).sum()),
    )  # fmt: skip


def _pairs_alike(design: Design) -> tuple[BoolArray, BoolArray]:
    """Return which pairs do not vary in contamination, but for clean models, and which have any."""
    if design.contamination is None:
        return np.zeros_like(design.answered), np.zeros_like(design.answered)
    alike = design.answered & ~design.varies & ~design.clean[:, None]
    return alike, design.contamination_range(by_model=True)[1] > 0


def _values(
    draws: Draws, built: BuiltModel, reference: Reference, rng: np.random.Generator
) -> Iterator[tuple[str, FloatArray]]:
    """Yield the name of every quantity that can be estimated, and its values."""
    groups = estimands(draws, built, (1, len(draws)), reference, "all", rng)
    cells = {name: values.to_numpy()[0] for name, values in groups["estimands"].items()}
    answered = built.design.answered
    unvaried = np.logical_and(*_pairs_alike(built.design))
    for name in (known.name for known in QUANTITIES if known.name in cells):
        used = answered
        if name in ZERO_AT_REFERENCE:  # as in summaries, which give no effect of these
            used = answered & ~(unvaried & (cells[name] == 0).all(axis=0))
        if used.any():
            yield name, cells[name][:, used].ravel()
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
        count = np.bincount(built.design.model_unit, minlength=by_unit[0].size)
        yield "unit_accuracy", by_unit[:, count.reshape(by_unit.shape[1:]) > 0].ravel()
    yield from _of_items(draws, built, rng)


def _differences(
    score: FloatArray, answered: NDArray[np.bool_], rng: np.random.Generator
) -> FloatArray:
    """Return differences of random pairs along the second axis, each in a random order."""
    # In each draw the levels stand in a circle in random order, and neighbours are compared.
    count = score.shape[1]
    if count < 2:
        return np.empty(0)
    order = rng.permuted(np.tile(np.arange(count), (len(score), 1)), axis=1)
    shuffled = np.take_along_axis(score, order[..., None], axis=1)
    present = answered[order]
    both = present & np.roll(present, 1, axis=1)
    difference: FloatArray = (shuffled - np.roll(shuffled, 1, axis=1))[both]
    return difference


def _of_items(
    draws: Draws, built: BuiltModel, rng: np.random.Generator
) -> Iterator[tuple[str, FloatArray]]:
    """Yield accuracies of single items, and their spread within pairs of two items or more."""
    design = built.design
    count = len(design.models) * len(design.benchmarks)
    cells = Cells(design.model_benchmark, (count,), design.weight)
    several = np.bincount(design.model_benchmark, minlength=count) > 1
    reached = np.cumsum(design.weight)
    singles, spreads = [], []
    for part in draws.chunks(design):
        p = accuracy(part, built)
        wanted = rng.random((len(part), SINGLE_ITEMS)) * reached[-1]
        chosen = np.searchsorted(reached, wanted, side="right")
        singles.append(np.take_along_axis(p, chosen, axis=1))
        centered = p - cells.means(p)[:, design.model_benchmark]
        spreads.append(np.sqrt(cells.means(centered**2))[:, several])
    yield "item_accuracy", np.concatenate(singles).ravel()
    if several.any():
        yield "item_spread", np.concatenate(spreads).ravel()
