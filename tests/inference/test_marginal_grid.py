"""The lattice: which items are alike, and how well its levels stand for them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.model.build import BuiltModel
from bayescontam.model.design import make_design
from bayescontam.model.marginal import LEVELS, Lattice, item_levels, make_lattice
from tests.support.marginal_likelihoods import in_order, spec_of, table

FEW = (0.0, 0.3, 1.0)
CASES = {
    "continuous": ("hierarchical", table(items=(60, 50))),
    "few values": ("hierarchical", table(levels=FEW)),
    "missing cells": ("hierarchical", table(missing=0.4, items=(60, 50))),
    "trials": ("hierarchical", table(trials=4)),
    "concepts": ("concepts", table(items=(60, 50))),
    "monotone": ("monotone", table(items=(300, 50))),
}


def made(name: str, frame: pd.DataFrame) -> Lattice:
    spec = spec_of(name, likelihood={"model_by_item": False})
    return make_lattice(make_design(spec, Responses.from_frame(frame)))


@pytest.mark.parametrize("case", CASES)
def test_counts_are_those_of_the_table(case):
    lattice = made(*CASES[case])
    design = lattice.table
    total = np.bincount(design.item, design.n_correct)
    np.testing.assert_array_equal(lattice.total, total)
    np.testing.assert_allclose(lattice.basis.sum(axis=1), 1, rtol=1e-12)
    right = np.bincount(design.model, design.n_correct)
    np.testing.assert_allclose(lattice.correct.sum(axis=0), right)
    trials = np.zeros((len(design.items), len(design.models)))
    trials[design.item, design.model] = design.n_trials
    np.testing.assert_array_equal(lattice.trials[lattice.level[:, 0]], trials)
    level, total, count = lattice.classes
    assert len(np.unique(np.column_stack([level, total]), axis=0)) == len(level)
    assert count.sum() == pytest.approx(len(design.items))
    assert count @ total == pytest.approx(design.n_correct.sum())


@pytest.mark.parametrize("case", CASES)
def test_items_of_a_group_have_one_unit_and_the_same_models(case):
    lattice = made(*CASES[case])
    design = lattice.table
    answered = np.zeros((len(design.items), len(design.models)), dtype=int)
    answered[design.item, design.model] = design.n_trials
    unit = np.zeros(len(design.items), dtype=int)
    unit[design.item] = design.unit
    of = pd.DataFrame(np.column_stack([unit, answered])).groupby(lattice.group)
    assert (of.nunique() == 1).all(axis=None)
    assert len(np.unique(np.column_stack([unit, answered]), axis=0)) == of.ngroups


def test_polynomials_in_contamination_are_reproduced():
    frame = table(items=(60, 50))
    lattice = made("hierarchical", frame)
    value = item_levels(lattice.table)
    at = lattice.design.contamination.reshape(-1, 4)[:, 0][lattice.level]
    assert lattice.basis.shape[1] == LEVELS
    for power in range(LEVELS):
        reported = (lattice.basis * at**power).sum(axis=1)
        np.testing.assert_allclose(reported, value**power, atol=1e-12)
    np.testing.assert_allclose((lattice.basis * np.exp(3 * at)).sum(axis=1), np.exp(3 * value))


def test_polynomials_between_knots_are_reproduced():
    lattice = made("monotone", table(items=(300,)))
    value = item_levels(lattice.table)
    at = lattice.design.contamination.reshape(-1, 4)[:, 0][lattice.level]
    for knot in lattice.design.knots:
        bent = (lattice.basis * np.maximum(at - knot, 0) ** 3).sum(axis=1)
        np.testing.assert_allclose(bent, np.maximum(value - knot, 0) ** 3, atol=1e-12)


def test_few_values_are_the_levels():
    lattice = made("hierarchical", table(levels=FEW, items=(40,)))
    assert set(np.unique(lattice.basis)) == {0.0, 1.0}
    at = lattice.design.contamination.reshape(-1, 4)[:, 0]
    assert at.tolist() == list(FEW)
    np.testing.assert_array_equal((lattice.basis * at).sum(axis=1), item_levels(lattice.table))


def test_a_table_of_one_contamination_has_one_level():
    lattice = made("hierarchical", table(levels=(0.3,), items=(40,)))
    assert lattice.basis.tolist() == [[1.0]] * 40


@pytest.mark.parametrize("name", ["hierarchical", "monotone", "anchored", "spillover"])
def test_doses_are_counted_from_the_means_of_the_table(name):
    """At levels that are the items' own, made-up responses have the doses of real ones."""
    frame = table(levels=FEW, missing=0.3)
    lattice = made(name, frame)
    design = lattice.design
    rows = in_order(frame, BuiltModel(None, spec_of(name), lattice.table, None))  # type: ignore[arg-type]
    item, model = lattice.table.item, lattice.table.model
    level = lattice.level[item, lattice.basis[item].argmax(axis=1)]
    own = level * len(design.models) + model
    np.testing.assert_allclose(design.item_dose[own], rows["item_dose"], atol=1e-12)
    np.testing.assert_allclose(design.cell_dose[own], rows["cell_dose"], atol=1e-12)
    np.testing.assert_allclose(design.dose[own], rows["dose"], atol=1e-12)
    reach = rows.filter(like="reach").to_numpy()
    np.testing.assert_allclose(design.reach_dose[own], reach, atol=1e-12)
    assert (design.weight[own] == 1).all()
    for by_model in (False, True):
        for a, b in zip(
            design.contamination_range(by_model), lattice.table.contamination_range(by_model),
            strict=True,
        ):  # fmt: skip
            np.testing.assert_array_equal(a, b)


def test_contamination_that_differs_between_models_has_no_level():
    frame = table(items=(10,))
    frame.loc[0, "contamination"] += 0.01
    level = item_levels(make_design(spec_of("hierarchical"), Responses.from_frame(frame)))
    assert np.isnan(level).tolist() == [True] + [False] * 9
    none = make_design(spec_of("concepts"), Responses.from_frame(frame))
    assert item_levels(none) is None


def test_what_clean_models_have_does_not_count():
    frame = table(items=(10,))
    reported = frame.groupby("item")["contamination"].first()
    frame.loc[frame["clean"] == 1, "contamination"] = 0.0
    only = frame.drop(frame[(frame["item"] == "i0-4") & (frame["clean"] == 0)].index)
    reported["i0-4"] = 0.0  # which only the clean model answered
    design = make_design(spec_of("anchored"), Responses.from_frame(only))
    np.testing.assert_allclose(item_levels(design), reported[list(design.items)])


def test_nodes_are_finer_the_more_is_known_of_an_item():
    few, many = (made("hierarchical", table(models=m, items=(40,))) for m in (3, 12))
    assert len(few.nodes) < len(many.nodes)
    for lattice in (few, many):
        assert lattice.nodes[0] == -lattice.nodes[-1] == -5.5
        np.testing.assert_allclose(np.diff(lattice.nodes, 2), 0, atol=1e-12)


def test_nodes_are_finer_the_more_items_differ():
    lattice = made("hierarchical", table(models=12, items=(400,)))
    half = np.arange(400) % 2 * 12
    assert len(replace(lattice, total=half).nodes) > len(lattice.nodes)
