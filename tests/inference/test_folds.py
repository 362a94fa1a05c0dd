"""Folds: each response leaves once, parts are alike, and the order of rows does not count."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.crossval import By, fold_of, units_of
from bayescontam.model.design import Design, make_design
from bayescontam.specs.registry import load_model

BY: list[By] = ["response", "item", "model"]


def table() -> pd.DataFrame:
    """Three benchmarks of 23, 7 and 4 items; two share names of items; 5 models, with gaps."""
    rng = np.random.default_rng(3)
    rows = [
        {"model": f"m{m}", "benchmark": b, "item": f"i{i}", "correct": int(rng.random() < 0.5)}
        for b, size in (("big", 23), ("middle", 7), ("small", 4))
        for m in range(5)
        for i in range(size)
        if not (m == 3 and b == "big" and i % 3)
    ]
    return pd.DataFrame(rows)


def design_of(frame: pd.DataFrame) -> Design:
    spec = load_model("concepts").model_dump() | {"ability": {"by": "benchmark"}}
    return make_design(
        type(load_model("concepts")).model_validate(spec), Responses.from_frame(frame)
    )


def dealt(frame: pd.DataFrame, by: By, folds: int, seed: int) -> pd.DataFrame:
    """Return the fold of each response beside its names."""
    design = design_of(frame)
    names = {
        "model": np.array(design.models, dtype=object)[design.model],
        "benchmark": np.array(design.benchmarks, dtype=object)[design.benchmark],
        "item": np.array(design.items, dtype=object)[design.item],
    }
    return pd.DataFrame(names).assign(fold=fold_of(units_of(design, by), folds, seed))


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("folds", [2, 3, 5])
def test_every_fold_is_used_and_sizes_differ_by_at_most_one(by: By, folds: int) -> None:
    of = dealt(table(), by, folds, 1)
    assert len(of) == len(table())
    leaves = {
        "response": of,
        "item": of.drop_duplicates("item"),
        "model": of.drop_duplicates("model"),
    }
    sizes = leaves[by]["fold"].value_counts()
    assert sorted(sizes.index) == list(range(folds))
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize(("by", "key"), [("item", ["benchmark", "item"]), ("model", ["model"])])
def test_what_belongs_together_leaves_together(by: By, key: list[str]) -> None:
    assert dealt(table(), by, 3, 1).groupby(key)["fold"].nunique().eq(1).all()


@pytest.mark.parametrize(
    ("by", "stratum", "key"),
    [("item", ["benchmark"], ["item"]), ("response", ["model", "benchmark"], ["model", "item"])],
)
def test_strata_are_spread_evenly(by: By, stratum: list[str], key: list[str]) -> None:
    of = dealt(table(), by, 4, 2).drop_duplicates(key)
    for _, part in of.groupby(stratum):
        sizes = part["fold"].value_counts().reindex(range(4), fill_value=0)
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("by", BY)
def test_the_order_of_rows_does_not_count(by: By) -> None:
    shuffled = table().sample(frac=1, random_state=7)
    keys = ["model", "benchmark", "item"]
    pd.testing.assert_frame_equal(
        dealt(table(), by, 3, 1).sort_values(keys, ignore_index=True),
        dealt(shuffled, by, 3, 1).sort_values(keys, ignore_index=True),
    )


@pytest.mark.parametrize("by", BY)
def test_another_seed_gives_other_folds(by: By) -> None:
    assert (dealt(table(), by, 3, 1)["fold"] != dealt(table(), by, 3, 2)["fold"]).any()


def test_with_fewer_models_than_folds_each_is_a_fold() -> None:
    of = dealt(table(), "model", 10, 1)
    assert of["fold"].nunique() == 5


def test_units_are_numbered_by_names_whatever_the_order_of_rows() -> None:
    frames = [table(), table().sample(frac=1, random_state=7)]
    numbered = []
    for frame in frames:
        design = design_of(frame)
        units = units_of(design, "model")
        names = np.array(design.models, dtype=object)[design.model]
        by_unit = pd.Series(names, units.unit).sort_index()
        assert by_unit.index.tolist() == list(range(len(design)))
        numbered.append(by_unit.tolist())
        assert units.group[units.unit].tolist() == [sorted(design.models).index(n) for n in names]
    assert numbered[0] == numbered[1] == sorted(numbered[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda design: fold_of(units_of(design, "item"), 1, 0), "folds: got 1; at least 2"),
        (lambda design: units_of(design, "itm"), "leave out: got 'itm'.*item"),
    ],
)
def test_what_cannot_be_dealt_is_refused(call: Callable[[Design], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(design_of(table()))


def test_one_model_cannot_be_left_out() -> None:
    design = design_of(table().query("model == 'm1'"))
    with pytest.raises(UsageError, match="there is only one model"):
        fold_of(units_of(design, "model"), 2, 0)
