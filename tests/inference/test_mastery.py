"""Which concepts models have, against enumeration, simulation and the draws themselves."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from scipy.stats import binom

from bayescontam.data.published_tables import concepts_of_counts
from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.mastery import Mastery, concept_mastery
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.inference.task_groups import DEPENDENT, Group, _Together, poisson_binomial
from bayescontam.model.design import make_design
from bayescontam.model.likelihood import logistic
from bayescontam.report import mastery_section
from bayescontam.report.mastery_section import mastery_picture
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.made_fit import drawn_from_prior
from tests.support.pages import undrawn

__all__ = ["undrawn"]

MODELS, CONCEPTS, TASKS, INPUTS = ("able", "weak"), ("above", "below"), 3, 2
DRAWS = 400


def table(tasks: int = TASKS) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    rows = [
        (model, "b", f"{concept} {t}-{i}", int(rng.random() < p), concept, f"{concept} {t}")
        for model, p in zip(MODELS, (0.8, 0.3), strict=True)
        for concept in CONCEPTS
        for t in range(tasks)
        for i in range(INPUTS)
    ]
    return pd.DataFrame(rows, columns=["model", "benchmark", "item", "correct", "concept", "task"])


def fitted(frame: pd.DataFrame, spec: str | ModelSpec = "concepts", **sampling: str) -> Fit:
    """Return a fit whose draws are those of the prior."""
    spec = load_model(spec) if isinstance(spec, str) else spec
    options = Options(seed=1, sampling=Sampling(draws=DRAWS // 2, chains=2, **sampling))
    with drawn_from_prior():
        return fit_responses(Responses.from_frame(frame), spec, options)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fitted(table())


def accuracies(fit: Fit) -> xr.DataArray:
    """Return logistic(ability − difficulty) of every draw, from the stored parameters alone."""
    posterior = fit.joint_posterior()
    theta, delta = (
        posterior[name].stack(sample=("chain", "draw")).transpose("sample", ...)
        for name in ("theta", "delta")
    )
    data = fit.data["constant_data"].to_dataset()
    concept = np.zeros(data.sizes["item"], dtype=int)
    concept[data["item_of_response"]] = data["concept_of_response"]
    shape = (len(theta), len(MODELS), len(CONCEPTS))
    ability = theta.to_numpy().reshape(shape)[:, :, concept]
    dims = ("sample", "model", "item")
    coords = {"model": list(MODELS), "item": data["item"].to_numpy()}
    return xr.DataArray(logistic(ability - delta.to_numpy()[:, None]), coords, dims)


def by_task(fit: Fit, model: str, concept: str) -> np.ndarray:
    """Return the accuracies on a concept's items, dims (draw, task, input)."""
    names = [f"{concept} {t}-{i}" for t in range(TASKS) for i in range(INPUTS)]
    found = accuracies(fit).sel(model=model, item=names).to_numpy()
    return found.reshape(-1, TASKS, INPUTS)


def enumerated(p: np.ndarray, at_least: int) -> float:
    """Return the probability that so many tasks are solved, over all ways to answer the inputs."""
    total = 0.0
    for answers in product([0, 1], repeat=TASKS * INPUTS):
        right = np.array(answers).reshape(TASKS, INPUTS)
        if right.all(axis=1).sum() >= at_least:
            total += np.where(right, p, 1 - p).prod(axis=(1, 2)).mean()
    return total


@pytest.mark.parametrize("at_least", [1, 2, 3])
def test_the_same_tasks_against_all_ways_to_answer(fit: Fit, at_least: int) -> None:
    found = concept_mastery(fit, at_least, on="same").table
    assert len(found) == 4
    for row in found.itertuples():
        p = by_task(fit, row.model, row.concept)
        assert (row.units, row.needed, row.number) == (TASKS, at_least, TASKS)
        assert row.p_mastered == pytest.approx(enumerated(p, at_least))
        assert row.expected == pytest.approx(p.prod(axis=2).sum(axis=1).mean())
        assert row.p_solved == pytest.approx(p.prod(axis=2).mean())
        spread = p.reshape(len(p), -1).std(axis=1)
        assert row.spread == pytest.approx(spread.mean())
        ends = np.quantile(spread, [0.025, 0.975])
        assert [row.spread_low, row.spread_high] == pytest.approx(ends)


def test_new_tasks_against_simulation(fit: Fit) -> None:
    rng = np.random.default_rng(8)
    found = concept_mastery(fit, 0.5, number=5).table
    assert set(found["needed"]) == {3}
    for row in found.itertuples():
        solved = by_task(fit, row.model, row.concept).prod(axis=2)
        solved = np.repeat(solved, 200, axis=0)
        weights = rng.dirichlet(np.ones(TASKS), len(solved))
        below = weights.cumsum(axis=1)
        count = np.zeros(len(solved))
        for _ in range(5):
            which = (rng.random((len(solved), 1)) > below).sum(axis=1).clip(0, TASKS - 1)
            count += rng.random(len(solved)) < solved[np.arange(len(solved)), which]
        each = (count >= 3).reshape(DRAWS, -1)
        # The function has one set of weights for each draw: its error is that of so many sets.
        error = np.sqrt((each.var(axis=1)).mean() / DRAWS)
        assert abs(row.p_mastered - each.mean()) < 4.5 * error + 1e-9


def test_items_are_counted_where_that_is_wanted(fit: Fit) -> None:
    found = concept_mastery(fit, 1.0, unit="item", on="same").table
    data = table()
    for row in found.itertuples():
        p = by_task(fit, row.model, row.concept).reshape(DRAWS, -1)
        assert row.units == TASKS * INPUTS
        assert row.p_mastered == pytest.approx(p.prod(axis=1).mean())
        own = data[(data["model"] == row.model) & (data["concept"] == row.concept)]
        assert row.solved == own["correct"].sum()
    tasks = concept_mastery(fit).table
    whole = data.groupby(["model", "concept", "task"])["correct"].min()
    assert list(tasks["solved"]) == list(whole.groupby(["model", "concept"]).sum())


def test_concepts_above_and_differences_are_counted_from_the_draws(fit: Fit) -> None:
    assert set(concept_mastery(fit, above=0.5).above["threshold"]) == {0.5}
    found = concept_mastery(fit, above=[0.5, 0.9], level=0.8)
    draws = fit.data["estimands_by_concept"]["accuracy"]
    draws = draws.transpose("chain", "draw", "model", "concept").to_numpy()
    draws = draws.reshape(-1, len(MODELS), len(CONCEPTS))
    data = table().groupby(["model", "concept"])["correct"].mean()
    assert len(found.above) == 4
    for row in found.above.itertuples():
        count = np.sort((draws[:, MODELS.index(row.model)] > row.threshold).sum(axis=1))
        assert row.above == pytest.approx(count.mean())
        assert row.above_low == count[int(0.1 * len(count)) - 1]
        assert row.above_high == count[int(0.9 * len(count)) - 1]
        assert row.p_all == pytest.approx((count == 2).mean())
        assert row.raw_above == (data[row.model] > row.threshold).sum()
    assert len(found.differences) == 2
    for row in found.differences.itertuples():
        own = draws[:, :, CONCEPTS.index(row.concept)]
        gap = own[:, MODELS.index(row.model)] - own[:, MODELS.index(row.other)]
        assert row.difference == pytest.approx(gap.mean())
        ends = np.quantile(gap, [0.1, 0.9])
        assert [row.difference_low, row.difference_high] == pytest.approx(ends)
        assert row.p_better == pytest.approx(((gap > 0) + (gap == 0) / 2).mean())
    turned = concept_mastery(fit, against="able").differences
    assert set(turned["model"]) == {"weak"}
    forward = concept_mastery(fit).differences
    np.testing.assert_allclose(turned["difference"], -forward["difference"])


@pytest.mark.parametrize("difficulties", ["sampled", "marginalised"])
def test_means_over_items_are_the_estimand(difficulties: str) -> None:
    """Where difficulties were integrated out, they are drawn again."""
    frame = table(tasks=6)
    missing = (frame["model"] == "weak") & frame["item"].str.endswith("0-0")
    fit = fitted(frame[~missing], difficulties=difficulties)
    found = concept_mastery(fit, unit="item", on="same").table.set_index(["model", "concept"])
    wanted = fit.data["estimands_by_concept"]["accuracy"].mean(("chain", "draw"))
    for (model, concept), row in found.iterrows():
        assert row["p_solved"] == pytest.approx(
            float(wanted.sel(model=model, concept=concept)), abs=0.02
        )
    # An item that was not answered is of the population, and nobody knows whether it is solved.
    assert (found["units"] == 12).all()
    assert list(found["solved"].isna()) == [False, False, True, True]


def test_a_poisson_binomial_with_equal_chances_is_binomial() -> None:
    found = poisson_binomial(np.full((2, 40), 0.3))
    np.testing.assert_allclose(found, np.tile(binom.pmf(np.arange(41), 40, 0.3), (2, 1)))


@pytest.mark.parametrize(("together", "dependent"), [(False, False), (True, True)])
def test_answers_that_go_together_within_tasks_are_found(together: bool, dependent: bool) -> None:
    """Expected is 0.5 everywhere; of a model's tasks half are solved whole, or each half."""
    answers = [[1, 1], [0, 0]] if together else [[1, 0], [0, 1]]
    rows = [
        ("m", "b", f"{t}-{i}", answers[t % 2][i], "c", t) for t in range(40) for i in range(INPUTS)
    ]
    columns = ["model", "benchmark", "item", "correct", "concept", "task"]
    responses = Responses.from_frame(pd.DataFrame(rows, columns=columns))
    design = make_design(load_model("concepts"), responses)
    test = _Together.of(design, np.arange(80) // 2)
    test.add(np.full((300, 80), 0.5), np.random.default_rng(1))
    assert test.dependent().tolist() == [[dependent]]
    assert test.above is not None
    share = float(test.above[0] / test.count)
    # The largest value that the statistic can have, and the smallest.
    assert share < DEPENDENT if together else share > 0.99


def test_numbers_of_tasks_are_withheld_where_answers_go_together() -> None:
    frame = table(tasks=30)
    solved = frame["task"].str[-1].astype(int) % 2
    fit = fitted(frame.assign(correct=solved))
    # All accuracies near one half.
    tree = {
        path: data * 0.01 if path in ("/posterior", "/item_effects") else data
        for path, data in fit.data.to_dict().items()
    }
    fit = Fit(xr.DataTree.from_dict(tree))
    found = concept_mastery(fit)
    assert set(found.table["verdict"]) == {"answers within tasks go together"}
    assert found.table["p_mastered"].isna().all()
    assert found.table["p_solved"].isna().all()
    assert "Models: 'able', 'weak'" in " ".join(found.sentences())
    items = concept_mastery(fit, unit="item")
    assert not items.table["verdict"].any()
    assert items.table["p_mastered"].notna().all()


def test_rows_that_count_items_have_new_ones_alone() -> None:
    """Printed results by concept: one row of 30 items each."""
    frame = pd.DataFrame(
        [(m, "b", c, k, 30, c) for m, k in zip(MODELS, (24, 6), strict=True) for c in CONCEPTS],
        columns=["model", "benchmark", "item", "n_correct", "n_trials", "concept"],
    )
    spec = concepts_of_counts()
    fit = fitted(frame, spec)
    found = concept_mastery(fit, 20).table
    wanted = fit.data["estimands_by_concept"]["accuracy"]
    for row in found.itertuples():
        p = wanted.sel(model=row.model, concept=row.concept).to_numpy().ravel()
        assert (row.units, row.number, row.needed) == (30, 30, 20)
        assert row.solved == (24 if row.model == "able" else 6)
        assert row.p_solved == pytest.approx(p.mean(), abs=1e-4)
        assert row.p_mastered == pytest.approx(binom.sf(19, 30, p).mean(), abs=1e-3)
    assert found["spread"].isna().all()
    with pytest.raises(UsageError, match="count different items together"):
        concept_mastery(fit, on="same")


def test_one_task_shows_nothing_of_others() -> None:
    frame = table()
    frame = frame[(frame["concept"] == "above") | (frame["task"] == "below 0")]
    found = concept_mastery(fitted(frame)).table.set_index("concept")
    assert found.loc[["below"], "p_mastered"].isna().all()
    assert set(found.loc[["below"], "verdict"]) == {"too few tasks"}
    assert found.loc[["above"], "p_mastered"].notna().all()


def test_tasks_are_stored_with_the_fit_and_its_responses(fit: Fit, tmp_path) -> None:
    fit.to_netcdf(tmp_path / "fit.nc")
    again = Fit.from_netcdf(tmp_path / "fit.nc")
    pd.testing.assert_frame_equal(concept_mastery(again).table, concept_mastery(fit).table)
    frame = again.responses().frame
    assert (frame["task"] == frame["item"].str.split("-").str[0]).all()
    # Without tasks, items are counted.
    bare = fitted(table().drop(columns="task"))
    assert concept_mastery(bare).unit == "item"
    # Items of several tasks have none.
    mixed = table().assign(task=lambda rows: rows["model"] + rows["task"])
    several = fitted(mixed)
    assert "task_of_item" not in several.data["constant_data"]
    (note,) = several.record["data"]["notes"]
    assert note.startswith("the table's column 'task' is not used: 12 of 12 items have rows of")


@pytest.fixture(scope="module")
def of_people() -> Fit:
    """People who all solve the same items of a task, beside the two models."""
    people = pd.concat([
        table()[lambda rows: rows["model"] == "able"].assign(
            model="people", participant=f"p{p}", correct=int(p < 2)
        )
        for p in range(4)
    ])  # fmt: skip
    return fitted(pd.concat([table().assign(participant=""), people], ignore_index=True))


def test_numbers_of_tasks_of_people_are_withheld(of_people: Fit) -> None:
    found = concept_mastery(of_people)
    rows = found.table.set_index("model")
    assert set(rows.loc["people", "verdict"]) == {"tasks were answered by people"}
    assert rows.loc["people", ["p_mastered", "expected", "p_solved"]].isna().all(axis=None)
    assert rows.loc[list(MODELS), "p_mastered"].notna().all()
    assert "answers of one person depend on each other" in " ".join(found.sentences())
    # One test of the models alone: people's answers to one item are no pairs within a task.
    test = _Together.of(make_design(of_people.spec, of_people.responses()), np.arange(12) // 2)
    assert len(test.rows) == len(table())


def test_what_several_people_solved_is_not_that_of_one(of_people: Fit) -> None:
    found = concept_mastery(of_people, unit="item", on="same").table.set_index("model")
    assert found.loc["people", "solved"].isna().all()
    assert found.loc["people", "p_mastered"].notna().all()
    own = table().groupby(["model", "concept"])["correct"].sum()
    assert list(found.loc["able", "solved"]) == list(own["able"])


@pytest.mark.parametrize("blank", ["", "  ", None])
def test_an_item_without_a_task_is_one_of_its_own(blank: str | None) -> None:
    frame = table()
    without = frame["task"].isin(["above 0", "below 0"])
    # One item has the name of another's task.
    frame["item"] = frame["item"].replace("above 0-0", "above 1")
    fit = fitted(frame.assign(task=frame["task"].mask(without, blank)))
    found = concept_mastery(fit)
    assert found.unit == "task"
    assert set(found.table["units"]) == {4}
    task = pd.Series(np.arange(0, 24)).where(without, 100 + frame["task"].factorize()[0])
    task = task.where(~without, frame["item"])
    whole = frame.groupby(["model", "concept", task])["correct"].min()
    assert list(found.table["solved"]) == list(whole.groupby(["model", "concept"]).sum())
    (note,) = fit.record["data"]["notes"]
    assert note == "the table's column 'task' is blank for 4 of 12 items: each is a task of its own"
    assert "task_of_item" not in fitted(frame.assign(task=blank)).data["constant_data"]


def test_tasks_of_repeated_trials_are_not_checked() -> None:
    frame = table().rename(columns={"correct": "n_correct"}).assign(n_trials=1)
    frame.loc[frame["model"] == "able", "n_trials"] = 2
    fit = fitted(frame)
    found = concept_mastery(fit)
    assert found.unchecked == found.to_dict()["unchecked"] == ["able"]
    assert "Not checked: whether these models" in found.sentences()[-1]
    assert found.sentences()[-1].endswith("Models: 'able'.")
    assert not concept_mastery(fit, unit="item").unchecked


def test_of_huge_groups_a_number_must_be_given() -> None:
    huge = Group("m", "b", "c", 10**10, np.nan, np.full(100, 0.5), None, None, "", True)
    with pytest.raises(UsageError, match="concept 'c' has 10,000,000,000 tasks or items"):
        huge.row(0.8, None, 0.95)
    assert huge.row(8, 10, 0.95)["p_mastered"] == pytest.approx(binom.sf(7, 10, 0.5))


def test_the_picture_has_a_dash_where_numbers_are_withheld_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = []

    def finished(figure: Figure, *text: str) -> str:
        drawn.append([each.get_text() for each in figure.axes[0].texts])
        return text[-1]

    monkeypatch.setattr(mastery_section, "finish", finished)
    columns = ["model", "concept", "p_mastered", "verdict", "needed", "number"]
    rows = [("a", "c", 0.4, "", 8, 10), ("a", "d", 0.2, "", 8, 10), ("b", "c", 0.1, "", 8, 10)]
    empty = mastery_picture(pd.DataFrame(rows, columns=columns), "task")
    assert "withheld" not in empty
    assert "Empty: not answered." in empty
    hidden = [*rows, ("b", "d", np.nan, "too few tasks", 8, 10)]
    known = mastery_picture(pd.DataFrame(hidden, columns=columns), "task")
    assert "–: withheld." in known
    assert "not answered" not in known
    assert [sorted(texts) for texts in drawn] == [["10", "20", "40"], ["10", "20", "40", "–"]]


@pytest.mark.usefixtures("undrawn")
def test_a_report_with_tables_computes_it_once(
    fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(fit: Fit) -> Mastery:
        calls.append(fit)
        return concept_mastery(fit)

    monkeypatch.setattr(mastery_section, "concept_mastery", counted)
    fit.report(tmp_path / "page.html", tables=tmp_path / "tables")
    assert len(calls) == 1
    stored = pd.read_csv(tmp_path / "tables" / "mastery.csv")
    assert list(stored["solved"]) == list(concept_mastery(fit).table["solved"])


def test_contamination_is_taken_out() -> None:
    frame = table().assign(contamination=lambda rows: rows["item"].str.endswith("1") * 0.8)
    spec = load_model("hierarchical")
    by_concept = spec.ability.model_copy(update={"by": "concept"})
    fit = fitted(frame, spec.model_copy(update={"ability": by_concept}))
    for by in ("genuine_ability", "accuracy"):
        found = concept_mastery(fit, unit="item", on="same", by=by)
        wanted = fit.data["estimands_by_concept"][found.by].mean(("chain", "draw"))
        for row in found.table.itertuples():
            cell = float(wanted.sel(model=row.model, concept=row.concept))
            assert row.p_solved == pytest.approx(cell, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at_least": 4}, "at_least: got 4, but of concept 'above' only 3 are tried"),
        ({"at_least": 0}, "at_least: got 0; allowed are a whole number from 1 on"),
        ({"at_least": 1.5}, "or a share above 0 and up to 1"),
        ({"on": "same", "number": 4}, "number: goes with on = 'new'"),
        ({"number": 0}, "number: got 0"),
        ({"number": 3_000_000_000}, "number: got 3000000000; allowed is a whole number from 1 to"),
        ({"number": 2.5}, "number: got 2.5"),
        ({"number": "5"}, "number: got '5'"),
        ({"at_least": "8"}, "at_least: got '8'"),
        ({"above": ["x"]}, "above: got 'x'; allowed are numbers between 0 and 1"),
        ({"above": "0.5"}, "above: got '0.5'"),
        ({"above": None}, "above: got None"),
        ({"on": "old"}, "on='old': allowed are 'new', 'same'"),
        ({"unit": "row"}, "unit='row': allowed are"),
        ({"above": [1.0]}, "above: got 1; allowed are numbers between 0 and 1"),
        ({"against": "abel"}, "against: got 'abel', which the fit does not have; did you mean"),
        ({"by": "slope"}, "by: got 'slope'"),
    ],
)
def test_what_is_not_allowed(fit: Fit, options: dict, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        concept_mastery(fit, **options)
    assert message in str(caught.value)


def test_tasks_must_be_known_and_of_one_concept() -> None:
    bare = fitted(table().drop(columns="task"))
    with pytest.raises(UsageError, match="does not have the tasks of its items"):
        concept_mastery(bare, unit="task")
    shared = fitted(table().assign(task=lambda rows: rows["task"].str[-1]))
    with pytest.raises(UsageError, match="items of several concepts"):
        concept_mastery(shared)
    with pytest.raises(UsageError, match="are not by concept"):
        concept_mastery(fitted(table(), "ability"))
