"""Simulation-based calibration of fits with item difficulties integrated out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayescontam.data.responses import Responses
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import (
    Draws,
    accuracy,
    difficulty,
    draw_contamination,
    draw_difficulties,
    stack_draws,
)
from bayescontam.inference.predictive import prior_draws
from bayescontam.inference.sampling import Sampling, sample_model
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.marginal import Lattice
from tests.support.marginal_likelihoods import spec_of
from tests.support.simulated_responses import logistic

pytestmark = pytest.mark.slow

DATA_SETS, MODELS, ITEMS = 60, 4, 30
CHAINS, DRAWS, KEPT = 2, 1000, 199


def table(counts: np.ndarray, d: np.ndarray) -> Responses:
    """Return responses whose contamination is `d`, or is uncertain with that mean."""
    m, i = np.indices((MODELS, ITEMS)).reshape(2, -1)
    sd = 0.5 * np.sqrt(d * (1 - d))
    return Responses.from_frame(
        pd.DataFrame(
            {
                "model": [f"m{k}" for k in m], "benchmark": "b", "item": [f"i{k:02d}" for k in i],
                "n_correct": counts.ravel(), "n_trials": 1, "contamination": d[i],
                "p_duplicate": d[i], "contamination_sd": sd[i],
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
        add_ranks(ranks, drawn, own, rng)
    check_uniform(ranks)


def add_ranks(
    ranks: dict[str, list[np.ndarray]],
    drawn: dict[str, np.ndarray],
    known: dict[str, np.ndarray],
    rng: np.random.Generator,
) -> None:
    """Add where true values lie among thinned draws, 0 to 1; equal ones in a random order."""
    for name, values in known.items():
        thin = drawn[name][np.linspace(0, len(drawn[name]) - 1, KEPT).astype(int)]
        below, equal = (thin < values).sum(axis=0), (thin == values).sum(axis=0)
        place = below + rng.random(below.shape) * (equal + 1)
        ranks.setdefault(name, []).append(place / (KEPT + 1))


def check_uniform(ranks: dict[str, list[np.ndarray]]) -> None:
    for name, found in ranks.items():
        u = np.stack(found)
        p_values = [stats.kstest(column, "uniform").pvalue for column in u.T]
        spread = np.var(u) * 12
        least = min(1.0, len(p_values) * min(p_values))
        print(f"{name}: p {least:.3f}, mean {u.mean():.3f}, variance x 12 {spread:.2f}")
        assert least > 0.005, name


def uncertain_quantities(draws: Draws, built: BuiltModel) -> dict[str, np.ndarray]:
    """Return what is ranked of draws whose contamination was drawn, dims (draw, …)."""
    exposure = built.design.exposure
    assert exposure is not None
    assert draws.node is not None
    cells = estimands(draws, built, (1, len(draws)), "zero")["estimands"]
    names = ("accuracy", "genuine_ability_direct", "overfitting_direct", "slope")
    contamination = exposure.nodes[np.arange(len(exposure)), draws.node]
    assert draws.sigma_delta is not None
    return {name: cells[name].to_numpy()[0, :, :, 0] for name in names} | {
        "theta": draws.theta,
        "contamination": contamination,
        "all contamination": contamination.mean(axis=1, keepdims=True),
        "sigma_delta": draws.sigma_delta.reshape(-1, 1),
    }


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["latent_duplicate", "noisy_covariate"])
def test_ranks_are_uniform_where_contamination_is_uncertain(name: str) -> None:
    """Data sets are drawn from the prior of the model with one difficulty for each item."""
    rng = np.random.default_rng(22)
    d, spec = rng.beta(0.7, 1.2, ITEMS), spec_of(name)
    start = build(spec, table(rng.integers(0, 2, (MODELS, ITEMS)), d), "sampled")
    truth, _ = prior_draws(start, DATA_SETS, rng)
    known = uncertain_quantities(truth, start)
    p = accuracy(truth, start)
    rows = (
        start.design.model,
        np.array([int(str(start.design.items[i])[1:]) for i in start.design.item]),
    )
    sampling = Sampling(draws=DRAWS, tune=600, chains=CHAINS, cores=1, target_accept=0.95)
    ranks: dict[str, list[np.ndarray]] = {}
    for k in range(DATA_SETS):
        counts = np.zeros((MODELS, ITEMS), dtype=int)
        counts[rows] = rng.random(p.shape[1]) < p[k]
        built = build(spec, table(counts, d), "marginalised")
        assert built.lattice is not None
        posterior, _ = sample_model(built.model, sampling, seed=k, progress=False)
        draws = draw_difficulties(stack_draws(posterior, built.design), built.lattice, rng)
        draws, _ = draw_contamination(draws, built, rng)
        own = {each: values[k] for each, values in known.items()}
        add_ranks(ranks, uncertain_quantities(draws, built), own, rng)
    check_uniform(ranks)
