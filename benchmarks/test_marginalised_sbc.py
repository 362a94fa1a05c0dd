"""Simulation-based calibration of fits with item difficulties integrated out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayescontam.data.responses import Responses
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import difficulty, draw_difficulties, stack_draws
from bayescontam.inference.predictive import prior_draws
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.marginal import Lattice
from tests.support.marginal_likelihoods import spec_of
from tests.support.simulated_responses import logistic

pytestmark = pytest.mark.slow

DATA_SETS, MODELS, ITEMS = 60, 4, 30
CHAINS, DRAWS, KEPT = 2, 1000, 199


def table(counts: np.ndarray, d: np.ndarray) -> Responses:
    m, i = np.indices((MODELS, ITEMS)).reshape(2, -1)
    return Responses.from_frame(
        pd.DataFrame(
            {
                "model": [f"m{k}" for k in m], "benchmark": "b", "item": [f"i{k:02d}" for k in i],
                "n_correct": counts.ravel(), "n_trials": 1, "contamination": d[i],
            }
        )
    )  # fmt: skip


class Compiled:
    """The model compiled once: what depends on the answers is data of it."""

    def __init__(self, built: BuiltModel, monkeypatch: pytest.MonkeyPatch) -> None:
        import nutpie
        import pymc as pm

        from bayescontam.model import build as building
        from bayescontam.model import marginal as marginalised

        self.nodes = built.lattice.nodes

        def with_data(spec, design, effects, lattice):  # type: ignore[no-untyped-def]
            correct, count = self.data(lattice).values()
            varying = replace(lattice, correct=pm.Data("correct", correct))
            level, total, _ = self.classes(lattice)
            varying.__dict__["classes"] = level, total, pm.Data("count", count)
            varying.__dict__["nodes"] = self.nodes
            marginalised.add_marginalised(spec, design, effects, varying)

        monkeypatch.setattr(building, "add_marginalised", with_data)
        own = building.build_design(built.spec, built.design, difficulties="marginalised")
        self._compiled = nutpie.compile_pymc_model(own.model)

    def classes(self, lattice: Lattice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return all levels and totals that there may be, and how many items have them."""
        level, total = np.indices((len(lattice.trials), MODELS + 1)).reshape(2, -1)
        count = np.zeros((len(lattice.trials), MODELS + 1))
        has = Lattice.classes.func(lattice)
        count[has[0], has[1]] = has[2]
        return level, total, count.ravel()

    def data(self, lattice: Lattice) -> dict[str, np.ndarray]:
        return {"correct": lattice.correct, "count": self.classes(lattice)[2]}

    def draw(self, built: BuiltModel, seed: int):  # type: ignore[no-untyped-def]
        import nutpie

        data = self._compiled.with_data(**self.data(built.lattice))
        tree = nutpie.sample(
            data, draws=DRAWS, tune=600, chains=CHAINS, cores=1, seed=seed, target_accept=0.95,
            progress_bar=False,
        )  # fmt: skip
        return tree["posterior"].to_dataset()


def quantities(posterior, built: BuiltModel, rng: np.random.Generator) -> dict[str, np.ndarray]:  # type: ignore[no-untyped-def]
    """Return draws of what is ranked, dims (draw, …)."""
    draws = draw_difficulties(stack_draws(posterior, built.design), built.lattice, rng)
    cells = estimands(draws, built, (1, len(draws)), "zero")["estimands"]
    reported = {
        name: cells[name].to_numpy()[0, :, :, 0] for name in ("accuracy", "overfitting_direct")
    }
    flat = {"theta": draws.theta, "slope": draws.beta, "sigma_delta": draws.sigma_delta}
    return reported | flat | {"difficulty": difficulty(draws, built.lattice)}


def test_ranks_are_uniform(monkeypatch):
    rng = np.random.default_rng(21)
    d = rng.beta(0.7, 1.2, ITEMS)
    spec = spec_of("hierarchical")
    start = build(spec, table(rng.integers(0, 2, (MODELS, ITEMS)), d), "marginalised")
    truth, _ = prior_draws(start, DATA_SETS, rng)
    compiled = Compiled(start, monkeypatch)
    dose = d - d.mean()
    ranks: dict[str, list[np.ndarray]] = {}
    for k in range(DATA_SETS):
        delta = truth.sigma_delta[k] * rng.standard_normal(ITEMS)
        base = truth.theta[k][:, None] - delta
        slope = truth.beta[k][:, None]
        p, clean = logistic(base + slope * dose), logistic(base + slope * (0 - d.mean()))
        counts = (rng.random(p.shape) < p).astype(int)
        built = build(spec, table(counts, d), "marginalised")
        drawn = quantities(compiled.draw(built, seed=k), built, rng)
        own = {
            "accuracy": p.mean(axis=1), "overfitting_direct": (p - clean).mean(axis=1),
            "theta": truth.theta[k], "slope": truth.beta[k], "sigma_delta": truth.sigma_delta[k],
            "difficulty": delta,
        }  # fmt: skip
        thin = np.linspace(0, CHAINS * DRAWS - 1, KEPT).astype(int)
        for name, values in own.items():
            below = (drawn[name][thin] < values).sum(axis=0)
            ranks.setdefault(name, []).append((below + rng.random(below.shape)) / (KEPT + 1))
    for name, found in ranks.items():
        u = np.stack(found)
        p_values = [stats.kstest(column, "uniform").pvalue for column in u.T]
        spread = np.var(u) * 12
        least = min(1.0, len(p_values) * min(p_values))
        print(f"{name}: p {least:.3f}, mean {u.mean():.3f}, variance x 12 {spread:.2f}")
        assert least > 0.005, name
