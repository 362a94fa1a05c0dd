"""Which models are known to be clean, by name and by column, and what is refused."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.errors import BayescontamError, DataError, SpecError, UsageError
from bayescontam.inference import pipeline
from bayescontam.model.auto import choose_spec
from bayescontam.model.design import make_design
from bayescontam.model.exposure import refuse_contaminated, refuse_idle_clean
from bayescontam.model.predictor import contamination_shift, response_slopes
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model


def anchored(which: str) -> ModelSpec:
    text = f"summary = 'x'\n[contamination]\nconfounding = 'anchored'\n{which}"
    return ModelSpec.parse(text, "mine.toml")


def table(**columns: object) -> pd.DataFrame:
    rows = [(m, "b", f"i{i}", i % 2, i / 4) for m in ("base", "new", "old") for i in range(4)]
    names = ["model", "benchmark", "item", "correct", "contamination"]
    return pd.DataFrame(rows, columns=names).assign(**columns)


BY_ROW = np.repeat([1, 0, 0], 4)


@pytest.mark.parametrize(
    ("which", "frame"),
    [
        ("clean = ['base']", table()),
        ("clean_column = 'clean'", table(clean=BY_ROW)),
        ("clean_column = 'untouched'", table(untouched=BY_ROW.astype(bool))),
    ],
)
def test_clean_models_are_found(which: str, frame: pd.DataFrame) -> None:
    design = make_design(anchored(which), Responses.from_frame(frame))
    assert design.clean.tolist() == [True, False, False]


def test_contamination_of_clean_models_does_not_count_for_items() -> None:
    frame = table()
    frame.loc[frame["model"] == "base", "contamination"] = 0.0
    design = make_design(anchored("clean = ['base']"), Responses.from_frame(frame))
    np.testing.assert_allclose(design.item_dose, np.tile([-0.375, -0.125, 0.125, 0.375], 3))


def test_slopes_of_clean_models_are_zero_whatever_the_difficulty() -> None:
    text = "summary = 'x'\n[contamination]\nconfounding = 'anchored'\nclean = ['base']\n"
    spec = ModelSpec.parse(text + "interaction = 'difficulty'\n", "mine.toml")
    design = make_design(spec, Responses.from_frame(table()))
    effects = {
        "theta": np.zeros(3),
        "beta": np.array([0.0, 1.0, 2.0]),
        "gamma": np.array([0.5]),
        "delta": np.array([-1.0, 0.0, 1.0, 2.0]),
    }
    slope = response_slopes(effects, design)
    for m, wanted in enumerate(([0, 0, 0, 0], [0.5, 1, 1.5, 2], [1.5, 2, 2.5, 3])):
        np.testing.assert_allclose(slope[design.model == m], wanted)
    # A clean model's log-odds do not move with its items' contamination.
    other = contamination_shift(effects, design, np.full(len(design), 0.75))
    np.testing.assert_array_equal(other[design.model == 0], 0.0)


def test_an_item_that_only_clean_models_answered_has_theirs() -> None:
    frame = table()
    frame = frame[(frame["item"] != "i3") | (frame["model"] == "base")]
    design = make_design(anchored("clean = ['base']"), Responses.from_frame(frame))
    of_item = dict(zip(np.array(design.items)[design.item], design.item_dose, strict=True))
    assert of_item["i3"] == pytest.approx(0.75 - 0.375)


@pytest.mark.parametrize(
    ("which", "frame", "kind", "problem"),
    [
        ("clean = ['bse']", table(), SpecError, "contamination.clean: no such model: 'bse'"),
        ("clean = ['base', 'new', 'old']", table(), DataError, "every model is known to be clean"),
        ("clean_column = 'c'", table(), DataError, "needs a column 'c', which is not there"),
        (
            "clean_column = 'c'", table(c=2), DataError,
            r"c: got 2, allowed is 1 .* or 0, in every row \(12 of 12 rows have neither\)",
        ),
        ("clean_column = 'c'", table(c=np.nan), DataError, "c: got nothing, allowed is 1"),
        ("clean_column = 'c'", table(c=0), DataError, "c: no model is known to be clean"),
        ("clean_column = 'c'", table(c=1), DataError, "c: every model is known to be clean"),
        (
            "clean_column = 'c'", table(c=np.arange(12) % 2), DataError,
            "models with both values: 'base', 'new'",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(
    which: str, frame: pd.DataFrame, kind: type[BayescontamError], problem: str
) -> None:
    with pytest.raises(kind, match=problem):
        make_design(anchored(which), Responses.from_frame(frame))


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (["y"] * 4 + ["n"] * 8, r"clean: got 'y', allowed is 1 .* \(12 of 12 rows have neither\)"),
        ([1.0] * 3 + [np.nan] + [0.0] * 8, r"clean: got nothing, .* \(1 of 12 rows have neither\)"),
        ([1, 1, 0, 0] + [0] * 8, "models with both values: 'base'; a model is clean on all"),
    ],
)
@pytest.mark.parametrize("name", ["auto", "anchored"])
def test_no_declaration_is_ignored(name: str, cells: list[Any], problem: str) -> None:
    responses = Responses.from_frame(table(clean=cells))
    with pytest.raises(DataError, match=problem):
        make_design(*choose_spec(name, responses))  # type: ignore[arg-type]
    if "both" not in problem:
        with pytest.raises(DataError, match=problem):
            responses.with_clean(["old"])


@pytest.mark.parametrize("yes", [1, 1.0, "1", "yes", "TRUE", True])
def test_declarations_of_every_kind_are_read(yes: Any) -> None:
    cells = pd.Series([yes] * 4 + ["no"] * 8, dtype=object)
    spec, responses = choose_spec("auto", Responses.from_frame(table(clean=cells)))  # type: ignore[arg-type]
    assert spec.contamination.confounding == "anchored"
    assert make_design(spec, responses).clean.tolist() == [True, False, False]


def _responses(contamination: Any, clean: Any) -> Responses:
    """Return responses of the models a, b and c to two items."""
    frame = pd.DataFrame({"model": list("aabbcc"), "benchmark": "quiz", "item": ["x", "y"] * 3})
    return Responses.from_frame(frame.assign(correct=1, contamination=contamination, clean=clean))


def test_a_clean_model_with_contaminated_responses_is_refused() -> None:
    responses = _responses([0, 0, 0, 0.5, 1, 1], 0)
    with pytest.raises(DataError) as caught:
        refuse_contaminated(responses, ["a", "b"])
    assert [fault.problem for fault in caught.value.faults] == [
        "model 'b' is declared clean, but contamination is above 0 in 1 of its 2 responses (50%)"
    ]
    assert caught.value.advice == (
        "a model is clean or was exposed to items: do not declare it clean, or set the"
        " contamination of its responses to 0"
    )


@pytest.mark.parametrize(
    "contamination",
    [[0, 1] * 3, [0, 0, 0, 0, 1, 0.5]],
    ids=["of items, which all models share", "of other models"],
)
def test_no_contradiction_is_none(contamination: list[float]) -> None:
    refuse_contaminated(_responses(contamination, 0), ["a", "b"])


def test_clean_by_name_is_refused_before_a_fit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayescontam.inference.pipeline.sample", lambda *_: pytest.fail("sampled"))
    frame = _responses([0, 0, 0, 1, 1, 1], 0).frame.drop(columns="clean")
    frame["n_correct"] = np.array([1, 0] * 3)
    with pytest.raises(DataError, match="model 'b' is declared clean, but contamination"):
        pipeline.fit(frame, "anchored", clean=["a", "b"])
    with pytest.raises(UsageError, match="'hierarchical' does not use the column 'clean'"):
        pipeline.fit(frame, "hierarchical", clean=["a"])
    refuse_idle_clean(load_model("hierarchical"), [])
