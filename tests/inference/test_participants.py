"""People within a model: densities, estimands over their population, and known truth."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.special import expit

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, UsageError
from bayescontam.inference.estimands import Population, estimands
from bayescontam.inference.posterior import accuracy, mean_logistic
from bayescontam.inference.predictive import prior_draws
from bayescontam.model.build import build
from bayescontam.model.terms import benchmarks_with_two_models
from bayescontam.specs.registry import load_model
from tests.support.model_points import PLAIN


def table(
    seed: int = 0, people: int = 6, items: int = 8, each: int = 5, programs: int = 2
) -> pd.DataFrame:
    """Return responses of a group of people, of whom each answers some items, and of programs.

    Spreads are 1 for people and for difficulties, and 0.5 for what people share on an item; the
    median participant solves an item of mean difficulty with log-odds 1.
    """
    rng = np.random.default_rng(seed)
    hard, own = rng.normal(0, 1, items), rng.normal(0, 0.5, items)
    rows = []
    for p, able in enumerate(rng.normal(0, 1, people)):
        for i in rng.choice(items, each, replace=False):
            rows.append(("humans", i, f"p{p}", 1 + able - hard[i] + own[i]))
    rows += [(f"m{k}", i, "", 0.5 - hard[i]) for k in range(programs) for i in range(items)]
    frame = pd.DataFrame(rows, columns=["model", "item", "participant", "eta"])
    z = np.linspace(-7, 7, 141)
    weight = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    truth = expit(1 - hard[:, None] + own[:, None] + z) @ weight
    frame["truth"] = np.where(frame["model"] == "humans", truth[frame["item"]], expit(frame["eta"]))
    frame["correct"] = (rng.random(len(frame)) < expit(frame["eta"])).astype(int)
    concept = frame["item"].mod(3).map("c{}".format)
    return frame.assign(benchmark="b", concept=concept, item=frame["item"].map("i{}".format))


def given(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns=["eta", "truth"])


@pytest.mark.parametrize("name", ["ability", "concepts"])
def test_the_density_is_that_of_the_formulas(name: str) -> None:
    built = build(load_model(name), Responses.from_frame(given(table())))
    assert {"zeta", "xi", "delta"} <= built.terms.entered
    model = built.model
    rng = np.random.default_rng(4)
    point = {k: v + rng.normal(0, 0.5, np.shape(v)) for k, v in model.initial_point().items()}
    wanted = ["theta", "delta", "zeta", "xi", "sigma_zeta", "sigma_xi"]
    logp = [
        model.logp(vars=model.observed_RVs),
        model.logp(vars=[model["zeta"], model["xi_level"]], jacobian=False),
    ]
    named = model.replace_rvs_by_values([model[name] for name in wanted])
    *values, observed, effects = model.compile_fn([*named, *logp], mode=PLAIN)(point)
    theta, delta, zeta, xi, sigma_zeta, sigma_xi = values
    frame, design = table(), built.design
    eta = []
    units = list(design.units)
    for row in Responses.from_frame(given(frame)).frame.itertuples(index=False):
        unit = units.index("b" if name == "ability" else row.concept)
        at = list(design.items).index(row.item)
        each = theta[design.models.index(row.model), unit] - delta[at]
        if row.participant:
            assert built.design.people is not None
            each += zeta[built.design.people.labels.index(row.participant)]
            each += xi[built.design.people.pairs.index(f"humans/b/{row.item}")]
        eta.append((each, row.n_correct))
    by_hand = sum(stats.bernoulli(expit(x)).logpmf(k) for x, k in eta)
    assert float(observed) == pytest.approx(by_hand, rel=1e-9)
    prior = stats.norm(0, sigma_zeta).logpdf(zeta).sum() + stats.norm(0, sigma_xi).logpdf(xi).sum()
    assert float(effects) == pytest.approx(prior, rel=1e-4)


def test_means_over_people_are_the_integrals() -> None:
    center, scale = np.array([[-4.0, 0.3, 2.0]] * 3), np.array([[0.1], [1.0], [4.0]])
    found = mean_logistic(center, scale)
    for d, s in enumerate(scale[:, 0]):
        for j, c in enumerate(center[0]):
            value, _ = integrate.quad(
                lambda z, c=c, s=s: expit(c + s * z) * stats.norm.pdf(z), -12, 12, limit=200
            )
            assert found[d, j] == pytest.approx(value, abs=1e-5)


def test_estimands_are_those_of_the_population_of_people() -> None:
    """Each item counts once, however many participants answered it."""
    frame = given(table(each=5))
    built = build(load_model("ability"), Responses.from_frame(frame))
    draws, _ = prior_draws(built, 4, np.random.default_rng(1))
    found = estimands(draws, built, (1, 4), "min_observed")["estimands"]["accuracy"]
    people = built.design.people
    assert people is not None
    z = np.linspace(-7, 7, 281)
    weight = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    assert draws.delta is not None
    assert draws.xi is not None
    assert draws.sigma_zeta is not None
    for d in range(4):
        each = [
            expit(
                draws.theta[d, 0] - draws.delta[d, built.design.items.index(pair.split("/")[-1])]
                + draws.xi[d, k] + draws.sigma_zeta[d, 0] * z
            ) @ weight
            for k, pair in enumerate(people.pairs)
        ]  # fmt: skip
        assert found.sel(model="humans").values[0, d] == pytest.approx([np.mean(each)], abs=1e-6)
        program = expit(draws.theta[d, 1] - draws.delta[d])
        assert found.sel(model="m0").values[0, d] == pytest.approx([program.mean()], rel=1e-9)
    # What people did, in contrast, follows from their own abilities.
    assert accuracy(draws, built).shape == (4, len(frame))


def test_items_that_no_participant_answered_are_predicted() -> None:
    frame = given(table())
    frame = frame[(frame["model"] != "humans") | ~frame["item"].isin(["i1", "i2"])]
    built = build(load_model("ability"), Responses.from_frame(frame))
    population = Population.of(built, "all")
    assert population.unseen == 2
    assert Population.of(built, "answered").unseen == 0
    draws, _ = prior_draws(built, 2000, np.random.default_rng(1))
    part = next(population.parts(draws, np.random.default_rng(2)))
    assert part.zeta is None
    assert part.xi is not None
    assert part.sigma_xi is not None
    drawn = part.xi[:, -2:] / part.sigma_xi
    # A standard deviation of 1, whose standard error in some 1,000 draws is below 0.03.
    assert drawn.std() == pytest.approx(1.0, abs=0.12)


def test_people_of_one_group_are_no_two_models() -> None:
    """Their answers do not identify what an item's difficulty is for other models."""
    frame = given(table())
    humans = frame[frame["model"] == "humans"]
    built = build(load_model("ability"), Responses.from_frame(humans))
    assert not benchmarks_with_two_models(built.design).any()
    assert "delta" not in built.terms
    assert {"zeta", "xi"} <= built.terms.entered
    assert built.design.items_answered.max() <= len(built.design.items)


def test_terms_that_participants_cannot_carry() -> None:
    frame = given(table())
    first = frame.drop_duplicates(["model", "item"])
    first = first.assign(participant=np.where(first["participant"] == "", "", first["item"]))
    built = build(load_model("ability"), Responses.from_frame(first))
    assert not {"zeta", "xi"} & built.terms.entered
    reasons = dict(built.terms.left_out)
    assert reasons["zeta"].startswith("abilities of participants needs at least 3 participants")
    assert "items that 2 participants of a group answered (here 0)" in reasons["xi"]


def test_participants_of_one_name_in_two_groups() -> None:
    frame = given(table())
    both = pd.concat([frame, frame[frame["model"] == "humans"].assign(model="others")])
    built = build(load_model("ability"), Responses.from_frame(both))
    people = built.design.people
    assert people is not None
    assert {f"{group}/p{k}" for group in ("humans", "others") for k in range(6)} == {*people.labels}
    assert people.grouped.tolist() == [m in ("humans", "others") for m in built.design.models]


def test_where_participants_are_not_supported(tmp_path: Path) -> None:
    frame = given(table()).assign(contamination=np.linspace(0, 1, len(table())))
    message = r"has participants of 'humans', and in the model spec 'hierarchical' contamination"
    with pytest.raises(UsageError, match=message):
        build(load_model("hierarchical"), Responses.from_frame(frame))
    several = given(table()).rename(columns={"correct": "n_correct"}).assign(n_trials=3)
    with pytest.raises(DataError, match=r"participant: 'p0' has 3 trials at 'i\d'.*allowed is one"):
        build(load_model("ability"), Responses.from_frame(several))
    responses = Responses.from_frame(given(table()))
    with pytest.raises(UsageError, match="people of one model differ; use 'sampled'"):
        build(load_model("ability"), responses, "marginalised")


def test_known_truth_is_recovered(tmp_path: Path) -> None:
    """Bounds are five posterior deviations or more; what a file holds, and who refuses it."""
    frame = table(seed=11, people=40, items=24, each=12)
    fit = bayescontam.fit(given(frame), "ability", seed=3, draws=400, tune=500, chains=2, cores=1)
    truth = frame.drop_duplicates(["model", "item"]).groupby("model")["truth"].mean()
    found = fit.summary().set_index("model")
    assert found.loc["humans", "accuracy"] == pytest.approx(truth["humans"], abs=0.17)
    spread = fit.data["posterior"]["sigma_zeta"]
    assert 0.3 < float(spread.mean()) < 1.9
    # Of each participant, too.
    able = fit.data["posterior"]["zeta"].mean(("chain", "draw")).to_series()
    raw = frame[frame["participant"] != ""].groupby("participant")["correct"].mean()
    assert np.corrcoef(able.loc[raw.index], raw)[0, 1] > 0.8
    file = tmp_path / "people.nc"
    fit.to_netcdf(file)
    again = bayescontam.Fit.from_netcdf(file)
    pd.testing.assert_frame_equal(
        again.responses().frame[["item", "participant", "n_correct"]].sort_values(
            ["item", "participant"], ignore_index=True
        ),
        Responses.from_frame(given(frame)).frame[["item", "participant", "n_correct"]].sort_values(
            ["item", "participant"], ignore_index=True
        ),
    )  # fmt: skip
    new = given(frame)[frame["model"] == "m0"].assign(model="new")
    with pytest.raises(UsageError, match="has participants, whom an update does not take"):
        bayescontam.update(again, new)
    with pytest.raises(UsageError, match="responses of a model that is a group of people go toge"):
        bayescontam.compare_against(again, "m0", margin=0.05)
