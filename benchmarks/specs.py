"""Studies of every shipped model spec: tables, simulated answers, and recovery of its own prior.

Each finished data set is one line of a JSON Lines file, so that a study that was stopped goes
on where it was. A line belongs to a model spec by its hash; remove the file when the code has
changed.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam._progress import progress_bar
from bayescontam._random import stream
from bayescontam.data.responses import Responses
from bayescontam.inference.convergence import convergence
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import Draws, accuracy, draw_contamination, stack_draws
from bayescontam.inference.predictive import prior_draws, with_own_effects
from bayescontam.inference.prior_predictive import ExampleLayout, make_example
from bayescontam.inference.sampling import Sampling, sample_model
from bayescontam.model.build import BuiltModel, build
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model, shipped_models
from tests.support.compiled_model import Compiled

SPREAD = (0.7, 2.0)
"""Beta distribution of contaminations: many low ones and some high, as covariates have them."""
DRAWS, CHAINS = 1000, 2
"""Fewer than the default; all else is the default."""
EACH = 20
"""Items that a row stands for where the trials of a row are different items."""
PARAMETER = "parameter "
"""What the names of parameters begin with among quantities."""
Result = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A model spec with a table for it.

    Attributes
    ----------
    spec : str
        Name of the model spec.
    models : int
    items : tuple of int
        Items of each benchmark.
    trials : int, default 1
    unsure : bool, default False
        Whether probabilities of duplicates have a standard deviation.
    note : str
        What is special, for names.
    """

    spec: str
    models: int = 6
    items: tuple[int, ...] = (60, 60)
    trials: int = 1
    unsure: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        """Name of the case."""
        return f"{self.spec}, {self.note}" if self.note else self.spec

    def table(self, spec: ModelSpec, rng: np.random.Generator) -> Responses:
        """Make up a table with the columns that the model spec needs; its answers say nothing."""
        grouped = spec.likelihood.trials == "items"
        counts = [max(2, n // EACH) for n in self.items] if grouped else list(self.items)
        trials = EACH if grouped else self.trials
        layout = ExampleLayout(self.models, len(counts), max(counts), trials, SPREAD)
        frame = make_example(spec, layout, rng).frame
        number = frame["item"].str.removeprefix("item ").astype(int)
        names = frame["benchmark"].unique()
        frame = frame[number <= frame["benchmark"].map(dict(zip(names, counts, strict=True)))]
        if spec.contamination.clean_column:
            # One model in four is clean, and the only one of a table of one.
            clean = frame["model"].unique()[: max(1, self.models // 4)]
            frame[spec.contamination.clean_column] = frame["model"].isin(clean).astype(int)
        if self.unsure:
            frame["p_duplicate_sd"] = 0.3 * np.sqrt(frame.eval("p_duplicate * (1 - p_duplicate)"))
        return Responses.from_frame(frame, source="simulated")


def recovery_cases() -> list[Case]:
    """Return a case for every shipped model spec, and some with repeated trials."""
    own = {
        "aggregated": {"items": (240, 240)},
        "anchored_by_pair": {"trials": 3},
        "spillover": {"items": (40, 40, 40)},
        "two_parameter": {"models": 10, "items": (40, 40)},
    }
    plain = [Case(name, **own.get(name, {})) for name in shipped_models()]
    repeated = [
        Case(name, items=(40, 40), trials=3, unsure=unsure, note="3 trials")
        for name, unsure in (("hierarchical", False), ("latent_duplicate", True))
    ]
    return [*plain, *repeated]


def with_counts(responses: Responses, counts: np.ndarray) -> Responses:
    """Return the table with other answers, given in the order of the design."""
    frame = responses.frame
    order = np.argsort((frame["n_trials"] > 1).to_numpy(), kind="stable")
    frame = frame.iloc[order].assign(n_correct=counts)
    return Responses.from_frame(frame, source=responses.source)


def answered(truth: Draws, built: BuiltModel, rng: np.random.Generator) -> np.ndarray:
    """Draw answers, given one draw of all effects."""
    return rng.binomial(built.design.n_trials, accuracy(truth, built)[0])


# Recovery of draws from the prior


class Sampler(Compiled):
    """A model compiled once for all data sets of a case, which reports how it fared too."""

    def sample(self, built: BuiltModel, seed: int) -> tuple[xr.Dataset, Any]:
        """Return posterior draws and statistics of the sampler for the counts of `built`."""
        default = Sampling()
        return self.sampled(
            built, seed, draws=DRAWS, tune=default.tune, chains=CHAINS, cores=1,
            target_accept=default.target_accept,
        )  # fmt: skip


class Recovery:
    """Data sets simulated from a model spec's own prior, all of one table."""

    def __init__(self, case: Case) -> None:
        self.case, self.spec = case, load_model(case.spec)
        self.responses = case.table(self.spec, self.stream("table"))
        self.built = build(self.spec, self.responses)
        self.sampler: Sampler | None = None

    def stream(self, *names: str | int) -> np.random.Generator:
        """Return a random generator of this case."""
        return stream(1, "recovery", self.case.name, *names)

    def __call__(self, number: int) -> Result:
        """Simulate and fit a data set.

        Returns
        -------
        dict
            ``below``: for each quantity the share of draws below the truth, one for each
            cell that is not constant; and how the sampler fared.
        """
        truth, parameters = prior_draws(self.built, 1, self.stream(number, "truth"))
        rng = self.stream(number, "answers")
        counts = answered(truth, self.built, rng)
        simulated = build(self.spec, with_counts(self.responses, counts))
        posterior, stats = self.sampled(simulated, number)
        draws = with_own_effects(stack_draws(posterior, simulated.design), simulated, rng)
        draws, _ = draw_contamination(draws, simulated, rng)
        reported = quantities(
            estimands(draws, simulated, (CHAINS, DRAWS), "min_observed"), posterior
        )
        true = quantities(estimands(truth, self.built, (1, 1), "min_observed"), parameters)
        return {
            "accuracy": float(counts.sum() / simulated.design.n_trials.sum()),
            "below": {
                name: below(values, true[name], rng)
                for name, values in reported.items()
                if name in true
            },
            **fared(reported, stats),
            "left_out": [symbol for symbol, _ in simulated.terms.left_out],
        }

    def sampled(self, simulated: BuiltModel, seed: int) -> tuple[xr.Dataset, xr.Dataset]:
        """Return posterior draws and statistics of the sampler for a data set.

        What ``eta`` stands for depends on the counts where contamination is not known and
        trials are repeated (`mixture.in_trials`): then each data set is compiled anew.
        """
        if simulated.design.exposure is not None and "eps" in simulated.terms:
            sampling = Sampling(draws=DRAWS, chains=CHAINS, cores=1)
            return sample_model(simulated.model, sampling, seed, False)
        if self.sampler is None:
            self.sampler = Sampler(simulated)
        return self.sampler.sample(simulated, seed)


def quantities(groups: Mapping[str, xr.Dataset], parameters: xr.Dataset) -> dict[str, np.ndarray]:
    """Return estimands, and parameters that no model or item has of its own.

    Dims (chain, draw, cell).
    """
    found = {name: v for name, v in groups["estimands"].items() if name != "rank"}
    if "estimands_by_concept" in groups:
        found["accuracy by concept"] = groups["estimands_by_concept"]["accuracy"]
    shared = {"chain", "draw", "benchmark", "segment"}
    own = {f"{PARAMETER}{n}": v for n, v in parameters.items() if set(v.dims) <= shared}
    return {n: v.to_numpy().reshape(*v.shape[:2], -1) for n, v in (found | own).items()}


def below(draws: np.ndarray, true: np.ndarray, rng: np.random.Generator) -> list[float]:
    """Return the share of draws below each true value; ties count for a random part.

    A quantity that the model spec makes constant, such as the overfitting of a clean
    model, has no interval and is left out.
    """
    values, truth = draws.reshape(-1, draws.shape[-1]), true.ravel()
    moving = np.ptp(values, axis=0) > 0
    ties = (values == truth).mean(axis=0) * rng.random(len(truth))
    share = (values < truth).mean(axis=0) + ties
    return [float(x) for x in share[moving].round(5)]


def fared(reported: Mapping[str, np.ndarray], stats: Mapping[Any, Any]) -> Result:
    """Return how the sampler fared over all quantities, and where it was worst."""
    figures = {name: pd.DataFrame(convergence(values)) for name, values in reported.items()}
    moving = pd.concat(figures).dropna()
    return {
        "divergences": int(stats["diverging"].sum()),
        "r_hat": float(moving["r_hat"].max()),
        "ess": float(moving["ess_bulk"].min()),
        "slowest": moving["ess_bulk"].idxmin()[0],
        "steps": float(stats["n_steps"].mean()),
    }


# Studies that go on where they were


def study(
    path: Path,
    title: str,
    cases: Iterable[Case],
    count: int,
    prepare: Callable[[Case], Callable[[int], Result]],
) -> pd.DataFrame:
    """Run every case `count` times, but for what the file has, and return one row for each.

    What a run raises is its result, and no run is done twice for it.
    """
    wanted = {
        (case.name, load_model(case.spec).hash, number): case
        for case in cases
        for number in range(count)
    }
    done = {key: row for key, row in _read(path) if key in wanted}
    runs: dict[str, Callable[[int], Result]] = {}
    with progress_bar(True, title, len(wanted) - len(done), "data sets") as advance:
        for key, case in wanted.items():
            if key in done:
                continue
            started = time.perf_counter()
            try:
                if case.name not in runs:
                    runs = {case.name: prepare(case)}
                result = runs[case.name](key[2])
            except Exception as error:  # a data set that fails is counted, not left out
                result = {"error": f"{type(error).__name__}: {error}"}
            done[key] = {"seconds": round(time.perf_counter() - started, 1), **result}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, **done[key]}) + "\n")
            advance(1)
    return pd.DataFrame(
        [{"case": case.name, "spec": case.spec, "number": key[2], **done[key]}
         for key, case in wanted.items()]
    )  # fmt: skip


def _read(path: Path) -> Iterator[tuple[tuple[Any, ...], Result]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue  # a line that was being written when the study was stopped
        yield tuple(row.pop("key")), row
