"""What priors imply, against closed forms and against simulation without the package's code."""

import logging
from collections.abc import Mapping
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, logit

from bayescontam.errors import BayescontamError, DataError, SpecError, UsageError
from bayescontam.inference.example import Layout, fitting, make_example, names_of
from bayescontam.inference.implied import QUANTILES, Implied, implied
from bayescontam.responses import Responses
from bayescontam.specs.catalogue import load_spec, shipped_models
from bayescontam.specs.model import ModelSpec, parse_spec

SIMULATED = 20_000
"""Draws of the simulations that need no PyMC."""
DRAWS = 2000


@pytest.fixture(autouse=True)
def calm() -> None:
    logging.getLogger("pymc").setLevel(logging.WARNING)


def spec_of(text: str) -> ModelSpec:
    return parse_spec(f'summary = "test"\n{text}', "test")


def single(theta: str, slope_sd: float = 1e-9, guess: str = "0.0") -> ModelSpec:
    return spec_of(
        f"""
        likelihood.guess = {guess}
        ability.pooling = "none"
        difficulty.form = "none"
        contamination.pooling = "none"
        priors.theta = {theta}
        priors.beta_bar = {{ family = "normal", sigma = {slope_sd} }}
        """
    )


def row(found: Implied, quantity: str) -> dict[str, float]:
    table: Mapping = found.table().set_index("quantity").loc[quantity].to_dict()
    return dict(table)


def within(probability: float, wanted: float, independent: int) -> None:
    """Assert that a simulated probability is the wanted one, up to 4.5 standard errors."""
    error = np.sqrt(max(wanted * (1 - wanted), 1e-4) / independent)
    assert abs(probability - wanted) < 4.5 * error, (probability, wanted, error)


# Accuracy in closed form


@pytest.mark.parametrize(
    ("theta", "known"),
    [
        ('{ family = "normal", mu = 0.7, sigma = 1.5 }', stats.norm(0.7, 1.5)),
        ('{ family = "logistic", s = 1.0 }', stats.logistic()),
        ('{ family = "student_t", nu = 3.0, mu = -1.0, sigma = 2.0 }', stats.t(3, -1, 2)),
    ],
)
def test_accuracy_has_the_quantiles_of_ability(theta, known):
    found = implied(single(theta), models=2, benchmarks=2, items=20, draws=DRAWS, seed=1)
    told = row(found, "accuracy")
    for name, wanted in QUANTILES.items():
        # Abilities of the four pairs are independent.
        within(float(known.cdf(logit(told[name]))), wanted, 4 * DRAWS)
    within(told["p_below"], float(known.cdf(logit(0.02))), 4 * DRAWS)
    within(told["p_above"], float(known.sf(logit(0.98))), 4 * DRAWS)
    assert found.values["genuine_ability"] == pytest.approx(found.values["accuracy"], abs=1e-6)
    assert found.values["item_spread"].max() < 1e-6


def test_a_uniform_prior_makes_triangular_differences():
    spec = single('{ family = "logistic", s = 1.0 }')
    found = implied(spec, models=2, benchmarks=2, items=10, draws=DRAWS, seed=2)
    triangular = stats.triang(0.5, -1, 2)
    for what in ("model", "benchmark"):
        signed, size = row(found, f"{what}_difference"), row(found, f"{what}_difference_size")
        for name, wanted in QUANTILES.items():
            within(float(triangular.cdf(signed[name])), wanted, DRAWS)
            within(float(2 * triangular.cdf(size[name]) - 1), wanted, DRAWS)
        within(signed["p_above"], 0.02, DRAWS)
        within(size["p_above"], 0.04, DRAWS)
        # Two models are compared in both orders.
        values = found.values[f"{what}_difference"]
        assert np.sort(values) == pytest.approx(-np.sort(values)[::-1])


def test_guessing_lifts_accuracies_of_the_benchmarks_it_names():
    spec = single('{ family = "logistic", s = 1.0 }', guess="{ quiz = 0.25 }")
    found = implied(spec, models=2, benchmarks=2, items=10, draws=DRAWS, seed=3)
    told = row(found, "accuracy")
    known = [stats.uniform(0.25, 0.75), stats.uniform()]
    for name, wanted in QUANTILES.items():
        mixed = np.mean([float(each.cdf(told[name])) for each in known])
        within(float(mixed), wanted, 4 * DRAWS)


def test_the_slope_of_a_model_spec_is_its_prior():
    found = implied(single('{ family = "normal", sigma = 1.0 }', 2.0), draws=DRAWS, seed=4)
    told = row(found, "slope")
    for name, wanted in QUANTILES.items():
        within(float(stats.norm(0, 2).cdf(told[name])), wanted, 16 * DRAWS)
    within(told["p_above"], float(stats.norm(0, 2).sf(4)), 16 * DRAWS)


# The default model spec, against a simulation written out in NumPy


@cache
def table(models: int, benchmarks: int, items: int) -> pd.DataFrame:
    rng = np.random.default_rng(10)
    m, b, i = np.indices((models, benchmarks, items)).reshape(3, -1)
    d = rng.beta(0.6, 1.4, (benchmarks, items))
    names = {"model": m, "benchmark": b, "item": i}
    frame = pd.DataFrame({name: [f"{name}{k}" for k in code] for name, code in names.items()})
    frame["contamination"] = d[b, i]
    frame["contamination_sd"] = 0.6 * np.sqrt(d * (1 - d))[b, i]
    frame["p_duplicate"] = d[b, i]
    frame["correct"] = rng.integers(0, 2, len(frame))
    return frame


def doses(frame: pd.DataFrame, models: int, benchmarks: int) -> np.ndarray:
    """Return contamination, dims (benchmark, item)."""
    return frame["contamination"].to_numpy().reshape(models, benchmarks, -1)[0]


def simulated(d: np.ndarray, models: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw from the default spec's prior, two benchmarks (which leaves v out)."""
    benchmarks, items = d.shape
    quantities = []
    for _ in range(SIMULATED):
        a = rng.normal(0, abs(rng.normal()), models)
        theta = rng.normal(0, 1.5, benchmarks) + (a - a.mean())[:, None]
        theta = theta + rng.normal(0, abs(rng.normal()), (models, benchmarks))
        beta = rng.normal(0, 2) + rng.normal(0, abs(rng.normal(0, 0.5)), (models, 1))
        beta = beta + rng.normal(0, abs(rng.normal(0, 0.5)), (models, benchmarks))
        delta = rng.normal(0, 1, (benchmarks, items)) * np.abs(rng.normal(size=(benchmarks, 1)))
        center = d.mean(axis=1, keepdims=True)
        clean = theta[..., None] - delta
        p = expit(clean + beta[..., None] * (d - center))
        low, high = (
            expit(clean + beta[..., None] * (end - center)).mean(axis=2)
            for end in (d.min(axis=1, keepdims=True), d.max(axis=1, keepdims=True))
        )
        score, b = p.mean(axis=2), rng.integers(benchmarks)
        first, second = rng.choice(models, 2, replace=False)
        m = rng.integers(models)
        quantities.append(
            {
                "accuracy": score[m, b],
                "genuine_ability": low[m, b],
                "overfitting": score[m, b] - low[m, b],
                "overfitting_fraction": 1 - low[m, b] / score[m, b],
                "novelty_gap": high[m, b] - low[m, b],
                "slope": beta[m, b],
                "model_difference": score[first, b] - score[second, b],
                "model_difference_size": abs(score[first, b] - score[second, b]),
                "benchmark_difference_size": abs(score[m, 0] - score[m, 1]),
                "item_accuracy": p[m, b, rng.integers(items)],
                "item_spread": p[m, b].std(),
            }
        )
    return {name: np.array([each[name] for each in quantities]) for name in quantities[0]}


@pytest.fixture(scope="module")
def by_hand() -> dict[str, np.ndarray]:
    d = doses(table(5, 2, 12), 5, 2)
    return simulated(d, 5, np.random.default_rng(11))


@pytest.fixture(scope="module")
def default() -> Implied:
    logging.getLogger("pymc").setLevel(logging.WARNING)
    responses = Responses.from_frame(table(5, 2, 12))
    return implied(load_spec("hierarchical"), responses=responses, draws=3000, seed=12)


@pytest.mark.parametrize(
    "quantity",
    [
        *("accuracy", "genuine_ability", "overfitting", "overfitting_fraction", "novelty_gap"),
        *("slope", "model_difference", "model_difference_size", "benchmark_difference_size"),
        *("item_accuracy", "item_spread"),
    ],
)
def test_the_default_spec_by_hand(quantity, default, by_hand):
    told, values = row(default, quantity), by_hand[quantity]
    # Values of one draw depend on each other: at worst they count as one.
    independent = 1 / (1 / default.draws + 1 / SIMULATED)
    for name, wanted in QUANTILES.items():
        within(float((values <= told[name]).mean()), wanted, independent)
    within(told["p_below"], float((values < told["below"]).mean()), independent)
    within(told["p_above"], float((values > told["above"]).mean()), independent)


def test_answers_have_no_say(default):
    frame = table(5, 2, 12)
    flipped = Responses.from_frame(frame.assign(correct=1 - frame["correct"]))
    other = implied(load_spec("hierarchical"), responses=flipped, draws=3000, seed=12)
    pd.testing.assert_frame_equal(default.table(), other.table())


# Contamination that is not known


@pytest.mark.parametrize("kind", ["noisy", "latent"])
@pytest.mark.parametrize("trials", [1, 3])
def test_accuracy_is_told_at_the_true_contamination(kind, trials):
    """Contamination is drawn from Beta or Bernoulli distributions; slopes are all near 4."""
    spec = spec_of(
        f"""
        ability.pooling = "none"
        difficulty.form = "none"
        contamination.pooling = "none"
        contamination.exposure = "{kind}"
        priors.theta = {{ family = "normal", mu = -1.0, sigma = 0.3 }}
        priors.beta_bar = {{ family = "normal", mu = 4.0, sigma = 0.5 }}
        priors.sigma_eps = {{ family = "half_normal", sigma = 0.8 }}
        """
    )
    frame = table(1, 1, 15).rename(columns={"correct": "n_correct"}).assign(n_trials=trials)
    found = implied(spec, responses=Responses.from_frame(frame), draws=1500, seed=13)
    rng = np.random.default_rng(14)
    mean, sd = frame["contamination"].to_numpy(), frame["contamination_sd"].to_numpy()
    size = (SIMULATED, 1)
    theta, beta = rng.normal(-1, 0.3, size), rng.normal(4, 0.5, size)
    spread = np.abs(rng.normal(0, 0.8, size)) * (trials > 1)
    eps = rng.normal(size=(SIMULATED, 15)) * spread
    n = mean * (1 - mean) / sd**2 - 1
    many = SIMULATED, 15
    truth = rng.beta(mean * n, (1 - mean) * n, many)
    if kind == "latent":
        truth = rng.random(many) < mean
    p = expit(theta + eps + beta * (truth - mean.mean()))
    low = 0.0 if kind == "latent" else mean.min()
    genuine = expit(theta + eps + beta * (low - mean.mean())).mean(axis=1)
    by_hand = {
        "accuracy": p.mean(axis=1),
        "genuine_ability": genuine,
        "overfitting": p.mean(axis=1) - genuine,
        "item_spread": p.std(axis=1),
    }
    independent = 1 / (1 / found.draws + 1 / SIMULATED)
    for quantity, values in by_hand.items():
        told = row(found, quantity)
        # Five values stand for the Beta distribution, which the spread of items may notice.
        slack = 0.02 if (kind, quantity) == ("noisy", "item_spread") else 0.0
        for name, wanted in QUANTILES.items():
            reached = float((values <= told[name]).mean())
            if abs(reached - wanted) > slack:
                within(reached, wanted, independent)


# Made-up tables


@pytest.mark.parametrize("name", shipped_models())
@pytest.mark.parametrize("trials", [1, 4])
def test_every_shipped_spec_has_an_answer(name, trials):
    found = implied(load_spec(name), models=4, benchmarks=3, items=12, trials=trials, draws=100)
    told = found.table()
    assert told["quantity"].tolist() == [each.name for each in found.quantities]
    ends = told[list(QUANTILES)].to_numpy()
    assert np.isfinite(ends).all()
    assert (np.diff(ends, axis=1) >= 0).all()
    assert (told["lost"] == 0).all()
    has_slope = load_spec(name).contamination.form != "none"
    assert ("slope" in found.values) is has_slope
    assert ("unit_accuracy" in found.values) is (load_spec(name).ability.by != "benchmark")
    repeats = load_spec(name).likelihood.has_model_by_item
    assert ("eps" in dict(found.left_out)) is (repeats and trials == 1)


def test_positive_slopes_never_lower_an_accuracy():
    found = implied(load_spec("positive"), models=3, items=30, draws=300)
    for quantity in ("overfitting", "slope", "novelty_gap", "overfitting_fraction"):
        assert found.values[quantity].min() >= 0


def test_one_model_on_one_benchmark_has_no_differences():
    found = implied(load_spec("single"), models=1, benchmarks=1, items=10, draws=100)
    assert not [name for name in found.values if "difference" in name]


def test_a_pair_that_was_not_answered_has_no_part():
    """The third model answers nothing of the second benchmark, of which it has no accuracy."""
    frame = table(3, 2, 5)
    absent = (frame["model"] == "model2") & (frame["benchmark"] == "benchmark1")
    found = implied(load_spec("single"), responses=Responses.from_frame(frame[~absent]), draws=200)
    assert found.values["accuracy"].size == 5 * 200
    assert found.values["item_spread"].size == 5 * 200
    assert found.values["benchmark_difference"].size == 2 * 2 * 200
    # Neighbours in a circle of three: all three pairs of the first benchmark, one of the second.
    assert found.values["model_difference"].size == 4 * 200


def test_a_made_up_table_is_as_it_says():
    spec = spec_of('ability.by = "topic"\nlikelihood.guess = { quiz = 0.2, exam = 0.1 }')
    layout = Layout(models=3, benchmarks=3, items=400, trials=5, contamination=(2.0, 6.0))
    frame = make_example(spec, layout, np.random.default_rng(1)).frame
    assert frame.groupby("benchmark", sort=False)["model"].nunique().to_dict() == {
        "quiz": 3, "exam": 3, "bench 1": 3,
    }  # fmt: skip
    assert (frame.groupby(["model", "benchmark"])["item"].nunique() == 400).all()
    assert (frame["n_trials"] == 5).all()
    by_item = frame.groupby(["benchmark", "item"])
    assert (by_item["contamination"].nunique() == 1).all()
    assert (by_item["topic"].nunique() == 1).all()
    assert frame.groupby("benchmark")["topic"].nunique().tolist() == [10, 10, 10]
    d = by_item["contamination"].first()
    assert stats.kstest(d, stats.beta(2, 6).cdf).pvalue > 1e-4
    assert (frame["contamination_sd"] ** 2).to_numpy() == pytest.approx(
        0.25 * frame["contamination"] * (1 - frame["contamination"])
    )


def test_names_that_a_spec_gives_all_come():
    spec = spec_of(
        """
        likelihood.guess = { "bench 1" = 0.2, exam = 0.1 }
        contamination.confounding = "anchored"
        contamination.clean = ["human", "model 2"]
        """
    )
    assert names_of(["bench 1", "exam"], "bench", 3) == ["bench 1", "exam", "bench 2"]
    layout = fitting(spec, Layout(models=1, benchmarks=1, items=4))
    assert (layout.models, layout.benchmarks) == (3, 2)
    responses = make_example(spec, layout, np.random.default_rng(1))
    assert responses.models == ("human", "model 2", "model 1")
    assert responses.benchmarks == ("bench 1", "exam")


@pytest.mark.parametrize("said", ['clean = ["human"]', 'clean_column = "is_clean"'])
def test_clean_models_have_no_overfitting(said):
    spec = spec_of(
        f"""
        ability.pooling = "none"
        contamination.pooling = "none"
        contamination.confounding = "anchored"
        contamination.{said}
        """
    )
    found = implied(spec, models=4, benchmarks=2, items=10, draws=DRAWS, seed=5)
    assert len(found.clean) == 1
    assert f"their slopes are 0: '{found.clean[0]}'" in found.notes()[-1]
    # One of four models is clean; slopes of the others are Normal(0, 2).
    for quantity in ("slope", "overfitting", "novelty_gap"):
        assert (found.values[quantity] == 0).mean() == pytest.approx(0.25)
    slopes = found.values["slope"]
    within(float((slopes > 4).mean()) / 0.75, float(stats.norm(0, 2).sf(4)), 6 * DRAWS)


def test_spillover_lifts_by_the_mean_contamination_of_a_model():
    """Without slopes of items the whole overfitting is spillover, on the log-odds."""
    spec = spec_of(
        """
        ability.pooling = "none"
        difficulty.form = "none"
        contamination.pooling = "none"
        contamination.spillover = true
        priors.theta = { family = "normal", sigma = 1e-9 }
        priors.beta_bar = { family = "normal", sigma = 1e-9 }
        priors.spillover = { family = "normal", mu = 3.0, sigma = 1e-9 }
        """
    )
    layout = Layout(models=4, benchmarks=2, items=30)
    frame = make_example(spec, layout, np.random.default_rng(2)).frame
    found = implied(spec, responses=Responses.from_frame(frame), draws=100, reference="zero")
    by_cell = frame.groupby(["model", "benchmark"], sort=False)["contamination"].mean()
    center = frame.groupby("benchmark")["contamination"].mean()
    lift = 3 * (by_cell - by_cell.index.get_level_values("benchmark").map(center).to_numpy())
    wanted = np.sort(expit(lift) - expit(lift - 3 * by_cell))
    overfitting = np.sort(found.values["overfitting"].reshape(100, -1), axis=1)
    assert overfitting == pytest.approx(np.tile(wanted, (100, 1)), abs=1e-6)


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ('contamination.form = "monotone"', "increments"),
        ('contamination.interaction = "difficulty"', "gamma"),
        ('contamination.confounding = "sensitivity"', "kappa"),
        ("contamination.spillover = true", "spillover"),
        ('difficulty.discrimination = "random"', "alpha"),
    ],
)
def test_every_part_of_a_spec_enters(text, symbol):
    found = implied(spec_of(text), models=3, benchmarks=3, items=10, draws=100)
    assert symbol not in dict(found.left_out)
    assert np.isfinite(found.table()["median"]).all()


def test_a_seed_gives_the_same_numbers():
    spec = load_spec("single")
    first, again, other = (implied(spec, items=10, draws=100, seed=k).table() for k in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert (first["median"] != other["median"]).any()


# Priors far too wide, and what is refused


def test_what_overflows_is_not_told():
    spec = spec_of(
        """
        contamination.sign = "positive"
        priors.beta_bar = { family = "half_normal", sigma = 1.0 }
        priors.sigma_bm = { family = "half_student_t", nu = 0.2, sigma = 5.0 }
        """
    )
    found = implied(spec, items=10, draws=100)
    told = found.table().set_index("quantity")
    assert told.loc["slope", "lost"] > 0.05
    numbers = [*QUANTILES, "p_below", "p_above"]
    assert told.loc["slope", numbers].isna().all()
    assert told.loc["accuracy", numbers].notna().all()
    assert "Nothing can be told of" in found.notes()[-1]
    assert "'slope'" in found.notes()[-1]
    assert "'accuracy'" not in found.notes()[-1]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"models": 0}, UsageError, "models: got 0; allowed is 1 to 1,000,000"),
        ({"items": 1}, UsageError, "items: got 1; allowed is 2"),
        ({"trials": 0}, UsageError, "trials: got 0"),
        ({"items": 1_000_000}, UsageError, "models × benchmarks × items: got 16,000,000"),
        ({"draws": 99}, UsageError, "draws: got 99; allowed is 100"),
        ({"seed": -1}, UsageError, "seed: got -1"),
        ({"contamination": (0.0, 1.0)}, UsageError, "contamination: got"),
        ({"reference": 2.0}, UsageError, "reference: got 2.0"),
    ],
)
def test_refusals(options: dict, error: type[BayescontamError], message: str):
    with pytest.raises(error, match=message):
        implied(load_spec("single"), **{"items": 5, "draws": 100, **options})


def test_a_table_that_lacks_what_the_spec_needs():
    frame = table(2, 1, 5).drop(columns="contamination")
    with pytest.raises(DataError, match="needs a column 'contamination'"):
        implied(load_spec("single"), responses=Responses.from_frame(frame))


def test_a_spec_that_names_a_benchmark_the_table_has_not():
    spec = spec_of("likelihood.guess = { quiz = 0.25 }")
    with pytest.raises(SpecError, match="no such benchmark: 'quiz'"):
        implied(spec, responses=Responses.from_frame(table(2, 1, 5)), draws=100)
