"""Published: tables of responses from exposures of concepts, as in the published study."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from bayescontam._types import FloatArray
from bayescontam.inference.estimands import Reference, reference_level
from bayescontam.responses import Responses
from bayescontam.specs.printed import read_published
from bayescontam.specs.simulator import Layout, Simulator

PRINTED = dict(read_published("arc_generator")[["quantity", "value"]].to_numpy())
"""What is printed of the generator."""
CONCEPTS = int(PRINTED["concepts"])
FEWEST, MOST = 3, 8
"""Concepts of a task; not printed, chosen so that contaminations spread as printed."""
NOMINAL = "_nominal"
"""Ending of quantities that are held against the generator's own ``genuine``."""


@dataclass(frozen=True)
class Corpus:
    """How exposures of concepts are drawn: floor + span × Beta(a, b), each in [0, 1]."""

    floor: float
    span: float
    a: float
    b: float

    def exposures(
        self, rng: np.random.Generator, shape: tuple[int, ...] = (CONCEPTS,)
    ) -> FloatArray:
        """Draw exposures; by default one of each concept."""
        return self.floor + self.span * rng.beta(self.a, self.b, size=shape)


PUBLISHED = Corpus(*(PRINTED[f"exposure_{name}"] for name in ("floor", "span", "a", "b")))


def exposures(layout: Layout, rng: np.random.Generator) -> FloatArray:
    """Draw contaminations, dims (model, benchmark, item).

    Each of 50 concepts has an exposure 0.2 + 0.7 Beta(3, 2) in a model's corpus; a task has
    3 to 8 concepts; its contamination is logistic(logit 0.3 + 5 (mean exposure − 0.5)).
    """
    exposure = PUBLISHED.exposures(rng, (layout.models, CONCEPTS))
    share = compositions(layout.benchmarks * layout.items, rng)
    contamination = contamination_of(exposure @ share.T)
    return contamination.reshape(layout.models, layout.benchmarks, layout.items)


def compositions(tasks: int, rng: np.random.Generator) -> FloatArray:
    """Draw the share of each of 50 concepts in each task, dims (task, concept)."""
    order = rng.random((tasks, CONCEPTS)).argsort(axis=1)
    count = rng.integers(FEWEST, MOST + 1, size=(tasks, 1))
    share: FloatArray = (order < count) / count
    return share


def contamination_of(exposure: FloatArray) -> FloatArray:
    """Return the contamination of tasks by the mean exposure of their concepts.

    >>> contamination_of(np.array([0.5, 0.7])).round(3).tolist()
    [0.3, 0.538]
    """
    prior, slope = PRINTED["formula_prior"], PRINTED["formula_slope"]
    contamination: FloatArray = expit(logit(prior) + slope * (exposure - 0.5))
    return contamination


def table_of(layout: Layout) -> Responses:
    """Return a table of this layout, with nothing answered."""
    shape = layout.benchmarks, layout.models, layout.items
    benchmark, model, item = (index.ravel() for index in np.indices(shape))
    columns = {
        "model": [f"model {k + 1}" for k in model],
        "benchmark": [f"bench {k + 1}" for k in benchmark],
        "item": [f"item {k + 1}" for k in item],
        "n_correct": 0,
        "n_trials": layout.trials,
        "contamination": 0.0,
    }
    return Responses.from_frame(pd.DataFrame(columns), source="simulated")


@dataclass(frozen=True, eq=False)
class Tasks:
    """Contaminations, and the accuracies that follow from them."""

    # contamination, accuracy: dims (model, benchmark, item)
    contamination: FloatArray
    accuracy: FloatArray

    @classmethod
    def of(cls, contamination: FloatArray, simulator: Simulator) -> "Tasks":
        """Return tasks of accuracy genuine + boost × contamination."""
        return cls(contamination, simulator.genuine + simulator.boost * contamination)

    def answered(self, table: pd.DataFrame, trials: int, rng: np.random.Generator) -> pd.DataFrame:
        """Return a table of `table_of` with these contaminations, answered at random."""
        columns = {
            "n_correct": rng.binomial(trials, self.accuracy),
            "contamination": self.contamination,
        }
        # Rows of a table are sorted by benchmark, then by model.
        flat = {name: values.swapaxes(0, 1).ravel() for name, values in columns.items()}
        return table.assign(**flat)

    def truth(self, simulator: Simulator, reference: Reference) -> dict[tuple[str, str], float]:
        """Return the true estimands of every model and benchmark.

        Genuine ability is accuracy at the reference contamination. Under names that end in
        ``_nominal`` stand, beside them, those that follow if it is taken to be the
        generator's own ``genuine``, which is accuracy at contamination 0.
        """
        low = self.contamination.min(axis=(0, 2))
        high = self.contamination.max(axis=(0, 2))
        level = reference_level(reference)
        at = low if level is None else np.full(len(low), level)
        boost, accuracy = simulator.boost, self.accuracy.mean(axis=2)
        mean = self.contamination.mean(axis=2)
        cells = {
            "accuracy": accuracy,
            "novelty_gap": np.broadcast_to(boost * (high - low), accuracy.shape),
        }
        for ending, origin in (("", at), (NOMINAL, np.zeros(len(low)))):
            # No difference of accuracies: without a boost it must be 0 to the last digit.
            over = boost * (mean - origin)
            genuine = simulator.genuine + boost * origin
            cells[f"genuine_ability{ending}"] = np.broadcast_to(genuine, accuracy.shape)
            cells[f"overfitting{ending}"] = over
            cells[f"overfitting_fraction{ending}"] = over / accuracy
        return {
            (name, f"model {m + 1} | bench {b + 1}"): float(values[m, b])
            for name, values in cells.items()
            for m, b in np.ndindex(accuracy.shape)
        }
