"""Tables simulated from a fit: the posterior given both tables is the one that ranks need."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from pymc.model.transform.conditioning import remove_value_transforms
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import binom

import bayescontam
from bayescontam.calibration.posterior_sbc import Observed, doubled_spec
from bayescontam.calibration.results import StudyResults
from bayescontam.calibration.runner import run_study
from bayescontam.calibration.sbc import uniformity
from bayescontam.calibration.simulators import simulator_of
from bayescontam.calibration.study import Plan, plan_of
from bayescontam.data.responses import Responses
from bayescontam.errors import BayescontamError, SpecError, UsageError
from bayescontam.inference.posterior import Draws, accuracy, predictor, stack_draws
from bayescontam.inference.predictive import with_own_effects
from bayescontam.inference.prior_predictive import (
    ExampleLayout,
    fitting,
    make_example,
)
from bayescontam.inference.result import Fit
from bayescontam.model.build import BuiltModel, build
from bayescontam.specs.registry import load_model
from bayescontam.specs.study import StudySpec
from tests.support.given_fits import given_fit
from tests.support.model_points import PLAIN
from tests.support.small_studies import POSTERIOR

ITEMS = 25


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a fit of one model's single answers; return its folder."""
    rng, place = np.random.default_rng(3), tmp_path_factory.mktemp("fit")
    d = rng.beta(1.2, 2.0, ITEMS)
    frame = pd.DataFrame(
        {
            "model": "m", "benchmark": "b", "item": [f"i{k}" for k in range(ITEMS)],
            "correct": (rng.random(ITEMS) < expit(-0.3 + 2 * (d - d.mean()))).astype(int),
            "contamination": d,
        }
    )  # fmt: skip
    made = bayescontam.fit(frame, model="single", seed=1, draws=1000, tune=500, chains=2, cores=1)
    made.to_netcdf(place / "fit.nc")
    return place


@pytest.fixture(scope="module")
def plan(folder: Path) -> Plan:
    return plan_of(StudySpec.parse(POSTERIOR, "p.toml"), folder)


def below(responses: Responses, truth: dict[str, float]) -> dict[tuple[str, float], float]:
    """Return how much of the exact posterior of `single` lies below the truth, on a grid.

    For theta and beta, under two priors of beta: the fit's Normal(0, 2), and Normal(0, 0.5).
    """
    frame = responses.frame
    d, k, n = (frame[c].to_numpy() for c in ("contamination", "n_correct", "n_trials"))
    axes = {"theta": np.linspace(-4, 4, 81), "beta": np.linspace(-9, 9, 121)}
    theta, beta = np.meshgrid(*axes.values(), indexing="ij")
    eta = theta[..., None] + beta[..., None] * (d - d.mean())
    log_density = (k * eta - n * np.logaddexp(0, eta)).sum(axis=2)
    log_density += np.log(expit(theta) * expit(-theta))
    result = {}
    for beta_sd in (2.0, 0.5):
        weight = np.exp(log_density - beta**2 / (2 * beta_sd**2) - log_density.max())
        weight /= weight.sum()
        for other, (name, axis) in zip((1, 0), axes.items(), strict=True):
            own = weight.sum(axis=other)
            result[name, beta_sd] = float(np.interp(truth[name], axis, own.cumsum() - own / 2))
    return result


def test_the_truth_is_a_draw_of_the_exact_posterior_of_both_tables(plan: Plan) -> None:
    """And not of the posterior under another prior, which the same numbers show."""
    simulate = simulator_of(plan, plan.cells[0])
    found = []
    for made in map(simulate, range(200)):
        truth = {name: made.truth[(name, "m | b")] for name in ("theta", "beta")}
        found.append(below(made.responses, truth))
    reported = {
        key: uniformity(np.array([each[key] for each in found])).p_value for key in found[0]
    }
    # False alarms of 2e-5: the tables differ each time, as the fit's file has its time of making.
    assert reported["theta", 2.0] > 1e-5
    assert reported["beta", 2.0] > 1e-5
    assert reported["beta", 0.5] < 1e-6


def test_a_table_has_the_answers_of_the_fit_and_as_many_again(plan: Plan, folder: Path) -> None:
    simulate, observed = simulator_of(plan, plan.cells[0]), Observed.load(folder / "fit.nc")
    own = observed.responses.frame
    tables = [simulate(replicate).responses.frame for replicate in range(10)]
    for frame in tables:
        assert frame.drop(columns=["n_correct", "n_trials"]).equals(
            own.drop(columns=["n_correct", "n_trials"])
        )
        assert set(frame["n_trials"]) == {2}
        assert set(frame["n_correct"] - own["n_correct"]) <= {0, 1}
    assert len({tuple(frame["n_correct"]) for frame in tables}) == 10
    assert simulate(7).responses.frame.equals(tables[7])


def test_no_two_replicates_share_a_draw_and_there_are_as_many_as_are_independent(
    plan: Plan, folder: Path
) -> None:
    simulate, observed = simulator_of(plan, plan.cells[0]), Observed.load(folder / "fit.nc")
    assert plan.fit is not None
    count, total = plan.fit.draws, observed.posterior.sizes["draw"] * 2
    assert total / 8 < count <= total
    truths = [simulate(replicate).truth[("theta", "m | b")] for replicate in range(40)]
    values = observed.posterior["theta"].to_numpy().ravel()
    # A sampler may stay where it is: draws of two positions can be the same.
    assert all(truths.count(each) <= (values == each).sum() for each in set(truths))
    assert len(set(truths)) > 36
    study = StudySpec.parse(POSTERIOR, "p.toml")
    with pytest.raises(UsageError, match=f"has {count:,} nearly independent draws, one for each"):
        run_study(study, folder / "out", base=folder, replicates=count + 1)
    assert not (folder / "out").exists()


def test_a_study_from_a_fit_runs_and_its_ranks_are_tested(folder: Path) -> None:
    (folder / "p.toml").write_text(POSTERIOR.replace("replicates = 4", "replicates = 10"))
    done = run_study(folder / "p.toml", folder / "run", jobs=1)
    found = StudyResults.load(done.folder)
    assert len(found.sbc)
    assert set(found.sbc["n"]) == {10}
    assert "sigma_eps" not in set(found.rows["quantity"])
    assert found.record["estimators"]["single"]["model"] == "single"


CASES = [
    ("single", {"models": 2}), ("single", {"trials": 3}), ("hierarchical", {}),
    ("hierarchical", {"trials": 3}), ("anchored", {"trials": 2}), ("additive", {}),
    ("monotone", {}), ("aggregated", {"trials": 20}), ("spillover", {}),
]  # fmt: skip


def log_predictive(counts: np.ndarray, one: Draws, own: BuiltModel) -> float:
    """Return log p(new answers | parameters, own answers) of one draw, on a grid of effects."""
    design = own.design
    if one.sigma_eps is None:
        p = accuracy(one, own)[0]
        return float(binom.logpmf(counts, design.n_trials, p).sum())
    assert design.n_single == 0
    z = np.linspace(-10, 10, 40_001)[:, None]
    eta = predictor(one, design)[0] + one.sigma_eps[0] * z
    log_p, log_q = log_expit(eta), log_expit(-eta)

    def marginal(k: np.ndarray, n: np.ndarray) -> np.ndarray:
        return np.asarray(logsumexp(k * log_p + (n - k) * log_q - z**2 / 2, axis=0))

    n, k = design.n_trials, design.n_correct
    return float((marginal(k + counts, 2 * n) - marginal(k, n)).sum())


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_the_first_posterior_is_the_prior_of_the_second(name: str, sizes: dict[str, int]) -> None:
    """log p(parameters, both) is log p(parameters, own) + log p(new answers), plus a constant."""
    spec, rng = load_model(name), np.random.default_rng(4)
    layout = fitting(spec, ExampleLayout(**({"models": 4, "benchmarks": 2, "items": 8} | sizes)))
    frame = make_example(spec, layout, rng).frame
    frame = frame.assign(n_correct=rng.binomial(frame["n_trials"], 0.5))
    responses = Responses(frame, "own")
    own = build(spec, responses)
    # What needs no speed needs no compiling, which takes seconds.
    variables = [*own.model.free_RVs, *own.model.deterministics]
    drawn = pm.draw(variables, 6, random_seed=rng, mode="FAST_COMPILE")
    values = {rv.name: each for rv, each in zip(variables, drawn, strict=True)}
    parameters = xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_{i}" for i in range(each.ndim - 1))), each[None])
            for name, each in values.items()
        }
    )
    draws = stack_draws(parameters, own.design)
    known = accuracy(with_own_effects(draws, own, rng, responses=False), own)
    counts = rng.binomial(own.design.n_trials, known[0])
    twice, _ = Observed(responses, own, parameters).augmented(counts)
    both = build(doubled_spec(spec, responses, "x"), twice)
    assert both.terms.entered == own.terms.entered
    joint = [remove_value_transforms(built.model).compile_logp(mode=PLAIN) for built in (own, both)]
    differences = []
    for draw in range(6):
        point = {rv.name: values[rv.name][draw] for rv in own.model.free_RVs}
        new = log_predictive(counts, draws[slice(draw, draw + 1)], own)
        differences.append(joint[1](point) - joint[0](point) - new)
    # Each density with an effect integrated out is within 5e-4 of its integral.
    atol = 1e-3 * len(counts) if draws.sigma_eps is not None else 1e-6
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=atol)


def test_clean_models_of_a_column_are_clean_in_the_fits_of_both_tables(tmp_path: Path) -> None:
    spec, rng = load_model("anchored"), np.random.default_rng(5)
    layout = fitting(spec, ExampleLayout(models=3, benchmarks=1, items=8))
    frame = make_example(spec, layout, rng).frame.assign(n_correct=rng.integers(0, 2, 24))
    given_fit(spec, Responses(frame, "own"), theta=np.zeros((1, 3, 1))).to_netcdf(
        tmp_path / "fit.nc"
    )
    observed = Observed.load(tmp_path / "fit.nc")
    clean = frame.groupby("model")["clean"].first().to_numpy() == 1
    assert 0 < clean.sum() < 3
    twice, both = observed.augmented(np.ones(24, dtype=int))
    assert both.design.clean.tolist() == clean.tolist()
    again = build(doubled_spec(spec, observed.responses, "x"), twice)
    assert again.design.clean.tolist() == clean.tolist()


def test_a_fit_that_changes_during_a_run_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(folder / "fit.nc", tmp_path))
    plan = plan_of(StudySpec.parse(POSTERIOR, "test.toml"), tmp_path)
    assert simulator_of(plan, plan.cells[0])(0).truth
    copy.write_bytes(copy.read_bytes() + b" ")
    with pytest.raises(UsageError, match=r"fit\.nc: has changed since this run began"):
        simulator_of(plan, plan.cells[0])


def test_single_and_repeated_trials_together_are_refused() -> None:
    spec = load_model("hierarchical")
    layout = fitting(spec, ExampleLayout(models=3, benchmarks=1, items=9, trials=2))
    frame = make_example(spec, layout, np.random.default_rng(1)).frame
    frame.loc[:4, "n_trials"] = 1
    with pytest.raises(SpecError, match=r"5 responses have one trial and others several"):
        doubled_spec(spec, Responses(frame, "mixed"), "x")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"fit.nc"', '"none.nc"', "none.nc: no such file"),
        ('"fit.nc"', '"p.toml"', "p.toml: is not a fit of bayescontam"),
        (', fit = "fit.nc"', "", "simulator.kind = 'posterior' needs the file of a fit"),
        ("fit =", 'model = "single", fit =', "'posterior' has none; leave out: simulator.model"),
        ("audit", "design.items = 3\naudit", r"design\.items: tables of .*leave it out"),
        ("audit", "grid.items = [3]\naudit", r"design\.items: tables of .*leave it out"),
        ("audit", "grid.slope = [3]\naudit", r"simulator\.slope is for simulator.kind = 'fixed'"),
        ('"posterior"', '"fixed", model = "single"', "'fixed' has none; leave out: simulator.fit"),
        ('"single"\n', '"noisy_covariate"\n', "contamination_sd"),
    ],
)
def test_what_cannot_be_simulated_from_is_reported(
    folder: Path, old: str, new: str, message: str
) -> None:
    (folder / "p.toml").write_text("")
    with pytest.raises(BayescontamError, match=message):
        plan_of(StudySpec.parse(POSTERIOR.replace(old, new), "p.toml"), folder)


def test_the_fit_counts_and_its_path_does_not(folder: Path, plan: Plan, tmp_path: Path) -> None:
    text = POSTERIOR.replace("fit.nc", "other.nc")
    (tmp_path / "other.nc").write_bytes((folder / "fit.nc").read_bytes())
    assert plan_of(StudySpec.parse(text, "p.toml"), tmp_path).hash == plan.hash
    again = Fit.from_netcdf(folder / "fit.nc")
    again.data["posterior"]["theta"] = again.data["posterior"]["theta"] + 0.1
    again.to_netcdf(tmp_path / "other.nc")
    assert plan_of(StudySpec.parse(text, "p.toml"), tmp_path).hash != plan.hash
