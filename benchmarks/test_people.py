"""People of one group differ in ability: what intervals that ignore it are worth."""

import time

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

from bayescontam.data.importers.exclusion import accuracy_of_people
from bayescontam.data.responses import Responses
from bayescontam.inference.estimands import estimands
from bayescontam.inference.posterior import Draws, accuracy, stack_draws
from bayescontam.inference.predictive import prior_draws
from bayescontam.model.build import BuiltModel, build, build_design
from bayescontam.specs.registry import load_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]

# people, items, items of each, mean log-odds, spread of people, spread of items
STUDIES = [
    (415, 480, 14, 2.0, 1.0, 1.0),  # of the size of the published one
    (60, 40, 15, 1.0, 1.0, 1.0),
    (60, 40, 15, 3.0, 1.5, 1.0),
    (20, 30, 10, 1.0, 1.0, 1.0),
    (300, 30, 1, 3.0, 1.0, 1.0),  # by concept: one item of it each
]
DATA_SETS, DRAWS, KEPT = 300, 2000, 99
Z = np.linspace(-6, 6, 121)
WEIGHT = np.exp(-(Z**2) / 2) / np.exp(-(Z**2) / 2).sum()


@pytest.mark.parametrize("study", STUDIES, ids=str)
def test_coverage_of_the_jackknife(study: tuple[float, ...]) -> None:
    people, items, each = map(int, study[:3])
    mean, spread, hard = study[3:]
    rng, tables, found = np.random.default_rng(1), 1000, np.zeros(2)
    for _ in range(tables):
        difficulty = rng.normal(0, hard, items)
        person = np.repeat(np.arange(people), each)
        item = np.concatenate([rng.choice(items, each, replace=False) for _ in range(people)])
        eta = mean + difficulty[item] + rng.normal(0, spread, people)[person]
        correct = (rng.random(len(item)) < expit(eta)).astype(int)
        answered, position = np.unique(item, return_inverse=True)
        truth = (expit(mean + difficulty[answered, None] + spread * Z) @ WEIGHT).mean()
        value, low, high = accuracy_of_people(person, position, correct)
        size = np.bincount(position)
        share = np.bincount(position, correct) / size
        se = np.sqrt((share * (1 - share) / np.maximum(size - 1, 1)).sum()) / len(size)
        found += low < truth < high, abs(value - truth) < 1.96 * se
    print(f"{study}: jackknife {found[0] / tables:.3f}, independent {found[1] / tables:.3f}")
    assert abs(found[0] / tables - 0.95) < 0.03


@pytest.mark.parametrize("seed", [7, 8])
def test_calibration_of_participants_within_a_model(seed: int) -> None:
    """Simulation-based calibration of `concepts` with a group of people beside programs."""
    import nutpie

    rng = np.random.default_rng(seed)
    table = people_and_programs(rng, people=16, items=18, each=9, programs=3)
    responses, spec = Responses.from_frame(table), load_model("concepts")
    built = build(spec, responses)
    varying = build_design(spec, built.design, varying="counts")
    compiled = nutpie.compile_pymc_model(varying.model)
    truths, _ = prior_draws(built, DATA_SETS, rng)
    p = accuracy(truths, built)
    ranks: dict[str, list[int]] = {}
    started = time.process_time()
    for k in range(DATA_SETS):
        counts = (rng.random(len(built.design)) < p[k]).astype(np.int64)
        trace = nutpie.sample(
            compiled.with_data(counts=counts), draws=DRAWS, tune=700, chains=2, cores=1,
            seed=10_000 * (seed - 7) + k, target_accept=0.9, progress_bar=False,
        )  # fmt: skip
        draws = stack_draws(trace["posterior"].to_dataset(), built.design).thinned(KEPT)
        for name, (truth, found) in quantities(truths[k : k + 1], draws, built).items():
            below = int((found < truth).sum() + rng.integers(0, int((found == truth).sum()) + 1))
            ranks.setdefault(name, []).append(below)
        if (k + 1) % 20 == 0:
            seconds = time.process_time() - started
            print(f"{k + 1} data sets in {seconds:.0f} s of the processor", flush=True)
    worst = 1.0
    for name, found in ranks.items():
        places = (np.array(found) + 0.5) / (KEPT + 1)
        value = stats.kstest(places, "uniform").pvalue
        covered = np.mean((places > 0.025) & (places < 0.975))
        print(f"{name}: mean rank {places.mean():.3f}, KS p {value:.3f}, 95 % {covered:.3f}")
        worst = min(worst, value)
    assert worst > 1e-4 / len(ranks)


def quantities(
    truth: Draws, draws: Draws, built: BuiltModel
) -> dict[str, tuple[float, np.ndarray]]:
    """Return the true value of each quantity, and draws of it."""
    seed = np.random.default_rng(0)
    levels = [
        estimands(each, built, (1, len(each)), "min_observed", rng=seed) for each in (truth, draws)
    ]
    found = {}
    for name in ("sigma_zeta", "sigma_xi"):
        found[name] = float(getattr(truth, name)[0, 0]), getattr(draws, name)[:, 0]
    for name, k in (("zeta", 0), ("zeta", 7), ("xi", 3), ("theta", 0), ("theta", 4), ("delta", 2)):
        found[f"{name} {k}"] = float(getattr(truth, name)[0, k]), getattr(draws, name)[:, k]
    people = len(built.design.units)  # abilities are ordered by model, and humans come first
    found["mean ability of programs"] = (
        float(truth.theta[0, people:].mean()), draws.theta[:, people:].mean(axis=1),
    )  # fmt: skip
    for model in built.design.models[:2]:
        values = [each["estimands"]["accuracy"].sel(model=model) for each in levels]
        found[f"accuracy of {model}"] = float(values[0].item()), values[1].to_numpy().ravel()
    by_concept = [
        each["estimands_by_concept"]["accuracy"].sel(model="humans").isel(concept=0)
        for each in levels
    ]
    found["accuracy of humans on a concept"] = (
        float(by_concept[0].item()), by_concept[1].to_numpy().ravel(),
    )  # fmt: skip
    return found


def people_and_programs(
    rng: np.random.Generator, *, people: int, items: int, each: int, programs: int
) -> pd.DataFrame:
    """Return a table of random answers of a group of people, and of programs."""
    rows = [
        ("humans", i, f"p{p}") for p in range(people)
        for i in rng.choice(items, each, replace=False)
    ] + [(f"program {m}", i, "") for m in range(programs) for i in range(items)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["model", "item", "participant"])
    concept = table["item"].mod(3).map("c{}".format)
    names = table["item"].map("i{:02d}".format)
    correct = rng.integers(0, 2, len(table))
    return table.assign(benchmark="arc", item=names, concept=concept, correct=correct)
