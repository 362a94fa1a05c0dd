"""What a fit of twins expects of a new model, against the prior of the joint model."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayescontam.data.responses import Responses
from bayescontam.errors import DataError
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.predictive import prior_draws
from bayescontam.inference.sampling import Sampling
from bayescontam.model.build import build
from bayescontam.model.terms import plan_terms
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from bayescontam.updating.importance import Completion, expectation
from bayescontam.updating.new_model import make_newcomer
from bayescontam.updating.update import join_responses
from tests.support.made_fit import drawn_from_prior
from tests.support.marginal_likelihoods import spec_of

DRAWS = 6000
SPILLOVER = 2.0
# Of 6,000 draws a correlation is off by more than 0.07, and a spread by more than 5 % of it, once
# in ten million times where both sides err; half-normal spreads make tails heavier, hence more.
NEAR, CLOSE = 0.08, 0.08
KINDS = {"contamination": {"kinds": "kind"}}


def table(models: dict[str, str], exposed: dict[str, str]) -> Responses:
    """Return answers of models to two benchmarks and a control; some met half of the items."""
    rows = [
        {"model": model, "benchmark": b, "item": f"{b}{i}", "correct": i % 2, "base": base,
         "contamination": float(b != "control" and model in exposed and i < 3),
         "kind": exposed.get(model, "")}
        for model, base in models.items() for b in ("one", "two", "control") for i in range(6)
    ]  # fmt: skip
    return Responses.from_frame(pd.DataFrame(rows))


OLD = {"a0": "a", "a1": "a", "b0": "b", "b1": "b", "c0": "c", "c1": "c", "d0": "d", "d1": "d"}
MET = {"a1": "exact", "b1": "exact", "c1": "semantic", "d1": "semantic"}
NEW = {
    "another twin": ("a", "exact", "a1", "a0"),
    "another kind": ("a", "semantic", "a1", "a0"),
    "a twin of a base that was not exposed to it": ("c", "exact", "c1", "c0"),
}


def moments(theta: np.ndarray, lift: np.ndarray) -> dict[str, float]:
    """Return spreads and correlations of a new model's effects and its relatives', (draw, …)."""
    new, relative = theta[:, 0], theta[:, 1]
    away = new - relative
    return {
        "spread of a difference": away[:, 0].std(),
        "spread of an ability": new[:, 1].std(),
        "differences of two benchmarks": np.corrcoef(away[:, 0], away[:, 1])[0, 1],
        "abilities of relatives": np.corrcoef(new[:, 0], relative[:, 0])[0, 1],
        "spread of spillover": lift[:, 0].std(),
        "spillover of two benchmarks": np.corrcoef(lift[:, 0], lift[:, 1])[0, 1],
        "spillover of relatives": np.corrcoef(lift[:, 0], lift[:, 2])[0, 1],
    }


@pytest.fixture(scope="module")
def spec() -> ModelSpec:
    """Return the model spec of all cases."""
    return spec_of("twins", difficulty={"form": "none"}, **KINDS)


@pytest.fixture(scope="module")
def known(spec: ModelSpec) -> xr.Dataset:
    """Return draws that stand for those of a fit."""
    return prior_draws(build(spec, table(OLD, MET)), DRAWS, np.random.default_rng(1))[1]


@pytest.mark.parametrize("case", NEW)
def test_a_newcomer_is_expected_as_in_the_joint_model(case, spec, known):
    base, kind, exposed, relative = NEW[case]
    old, new = table(OLD, MET), table({"new": base}, {"new": kind})
    joined = join_responses(spec, old, new)
    newcomer = make_newcomer(spec, old, joined)
    joint = build(spec, joined)
    assert newcomer.built.terms.entered == plan_terms(spec, newcomer.host).entered
    rng = np.random.default_rng(2)
    drawn = prior_draws(joint, DRAWS, rng)[1]
    expected = expectation(known, newcomer)
    sources = rng.standard_normal((DRAWS, expected.loading.shape[-1]))
    effects = expected.effects(sources)
    abilities, _, lifts = newcomer.parts
    names = list(old.models)
    theta = flat(known, "theta")
    spillover = flat(known, "spillover")[:, names.index(exposed), :1]
    ours = moments(
        np.stack([effects[:, abilities], theta[:, names.index(relative)]], axis=1),
        np.concatenate([effects[:, lifts], spillover], axis=1),
    )
    names = list(joined.models)
    theta, spillover = flat(drawn, "theta"), flat(drawn, "spillover")
    wanted = moments(
        np.stack([theta[:, names.index("new")], theta[:, names.index(relative)]], axis=1),
        np.concatenate(
            [spillover[:, names.index("new"), :2], spillover[:, names.index(exposed), :1]], axis=1
        ),
    )
    for name, value in wanted.items():
        if name.startswith("spread"):
            assert ours[name] == pytest.approx(value, rel=CLOSE), name
        else:
            assert ours[name] == pytest.approx(value, abs=NEAR), name


def flat(posterior: xr.Dataset, name: str) -> np.ndarray:
    """Return draws of a variable, chains joined."""
    values = posterior[name].to_numpy()
    return values.reshape(-1, *values.shape[2:])


def test_a_model_without_a_column_base_is_refused():
    new = table({"new": "a"}, {"new": "exact"})
    new = Responses.from_frame(new.frame.drop(columns="base"))
    with pytest.raises(DataError, match="the fit uses a column that is not there: 'base'"):
        join_responses(spec_of("twins"), table(OLD, MET), new)


def test_difficulties_of_a_newcomers_items_are_those_given_spillover():
    """Against the posterior of each item on a grid, for a draw that is set by hand."""
    rng, rows = np.random.default_rng(0), []
    for model in "ABCDEFGH":
        for b in ("x", "y", "z"):
            for i in range(15):
                dose = 0.0 if (b == "z" or model in "AE") else float(i % 2)
                base = "P" if model in "ABCD" else "Q"
                rows.append((model, b, f"{b}{i}", int(rng.random() < 0.6), dose, base))
    columns = ["model", "benchmark", "item", "correct", "contamination", "base"]
    frame = pd.DataFrame(rows, columns=columns)
    options = Options(seed=1, sampling=Sampling(draws=100, chains=2))
    with drawn_from_prior():
        fit = fit_responses(Responses.from_frame(frame), load_model("twins"), options)
    new = Responses.from_frame(frame[frame["model"] == "A"].assign(model="N"))
    newcomer = make_newcomer(
        fit.spec, fit.responses(), join_responses(fit.spec, fit.responses(), new)
    )
    completion = Completion.of(fit.joint_posterior(), newcomer, np.random.default_rng(1))
    count, pairs = 4, 8 * 3
    draws = replace(
        completion.draws[np.zeros(count, int)],
        theta=np.zeros((count, pairs)),
        beta=np.zeros((count, pairs)),
        spillover=np.full((count, pairs), SPILLOVER),
    )
    completion = replace(completion, draws=draws, spread=np.ones((count, 3)))
    answers, design = completion.answers(np.arange(count)), newcomer.design
    weight = np.exp(answers.nodes.log_weight)
    found = ((weight * answers.nodes.position).sum(-1) / weight.sum(-1))[0]
    host, z = np.flatnonzero(design.model < 8), np.linspace(-8, 8, 1601)
    for item, mean in zip(answers.items.label, found, strict=True):
        own = host[design.item[host] == item]
        eta = (SPILLOVER * design.cell_dose[own])[:, None] - z
        log_density = (design.n_correct[own][:, None] * eta - np.logaddexp(0, eta)).sum(0)
        density = np.exp(log_density - z**2 / 2 - (log_density - z**2 / 2).max())
        assert mean == pytest.approx((density * z).sum() / density.sum(), abs=0.01)
