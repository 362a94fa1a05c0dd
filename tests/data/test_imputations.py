"""Imputations become a mean and factors that all items share."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

import bayescontam
from bayescontam.data.imputations import read_imputations
from bayescontam.errors import DataError, UsageError

ITEMS = ["q1", "q2", "q3", "q4"]
LOADINGS = np.array([[0.8, 0.0], [0.4, 0.5], [-0.6, 0.3], [0.0, 0.0]])
LOCATION = np.array([-1.0, 0.0, 0.5, 1.0])


def imputed(count: int = 400, seed: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    """Return imputations, and their contaminations (imputation, item)."""
    factors = np.random.default_rng(seed).normal(size=(count, 2))
    values = expit(LOCATION + factors @ LOADINGS.T)
    frame = pd.DataFrame(
        {
            "imputation": np.repeat(np.arange(count), len(ITEMS)),
            "benchmark": "quiz",
            "item": ITEMS * count,
            "contamination": values.ravel(),
        }
    )
    return frame, values


def test_factors_have_the_covariance_of_the_log_odds_and_the_mean_is_that_of_imputations() -> None:
    frame, values = imputed()
    found = read_imputations(frame).frame
    assert found.columns.tolist() == [
        "benchmark", "item", "contamination", "shared_1", "shared_2",
    ]  # fmt: skip
    assert found["item"].tolist() == ITEMS
    assert found["contamination"].to_numpy() == pytest.approx(values.mean(axis=0))
    own = found[["shared_1", "shared_2"]].to_numpy()
    assert own @ own.T == pytest.approx(np.cov(logit(values).T), abs=1e-9)
    assert own[3].tolist() == [0, 0]


def test_the_order_of_rows_and_the_names_of_imputations_do_not_matter(tmp_path: Path) -> None:
    frame, _ = imputed(50)
    mixed = frame.assign(imputation="draw " + frame["imputation"].astype(str))
    mixed = mixed.sample(frac=1, random_state=1)
    mixed.to_csv(tmp_path / "i.csv", index=False)
    found = read_imputations(tmp_path / "i.csv").frame.set_index("item").loc[ITEMS]
    expected = read_imputations(frame).frame.set_index("item")
    shared = found[["shared_1", "shared_2"]].to_numpy()
    wanted = expected[["shared_1", "shared_2"]].to_numpy()
    assert shared == pytest.approx(wanted, abs=1e-7)
    assert found["contamination"].to_numpy() == pytest.approx(expected["contamination"], abs=1e-9)


def test_items_that_do_not_vary_have_no_factor_even_at_zero_and_one() -> None:
    frame, _ = imputed(30)
    known = dict(zip(ITEMS, (0, 1, 0.4, 0), strict=True))
    sure = frame.assign(contamination=frame["item"].map(known))
    found = read_imputations(sure)
    assert found.frame.columns.tolist() == ["benchmark", "item", "contamination"]
    assert "move by 0 factors" in found.notes[-1]


def test_noise_of_each_item_alone_is_a_caution() -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "imputation": np.repeat(np.arange(60), 20), "benchmark": "b",
            "item": [f"i{k}" for k in range(20)] * 60,
            "contamination": expit(rng.normal(size=1200)),
        }
    )  # fmt: skip
    assert any("share little between items" in note for note in read_imputations(frame).notes)
    few = frame[frame["item"].isin([f"i{k}" for k in range(5)])]
    assert any("share little between items" in note for note in read_imputations(few).notes)
    assert not any("share little" in note for note in read_imputations(imputed()[0]).notes)


def test_responses_get_mean_and_factors() -> None:
    frame, _ = imputed()
    responses = bayescontam.Responses.from_frame(
        pd.DataFrame({"model": "m", "benchmark": "quiz", "item": ITEMS, "correct": [0, 1, 1, 0]})
    )
    joined = responses.with_contamination(read_imputations(frame)).frame
    assert {"contamination", "shared_1", "shared_2"} <= set(joined.columns)


def test_percent_is_read_as_percent() -> None:
    frame, values = imputed()
    frame["contamination"] *= 100
    found = read_imputations(frame, contamination_scale="percent").frame
    assert found["contamination"].to_numpy() == pytest.approx(values.mean(axis=0))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda t: t.drop(columns="imputation"), "imputation: no such column; add one"),
        (lambda t: t[t["imputation"] < 19], "imputation: holds 19 imputations\nGive at least 20"),
        (lambda t: t.drop(index=5), r"item: 1 of 4 items are not in all 30 imputations: 'q2 of q"),
        (lambda t: pd.concat([t, t[:1]]), "row 121"),
        (lambda t: t.assign(model="m"), "model: is of no use beside imputations"),
        (lambda t: t.assign(contamination_sd=0.1), "contamination_sd: is of no use beside"),
        (
            lambda t: t.assign(contamination=np.where(t.index == 1, 1.0, t["contamination"])),
            "is 0 or 1 in some imputations and not in others: 'q2 of quiz'[\\s\\S]*p_duplicate",
        ),
        (
            lambda t: t.assign(contamination=t["contamination"] + 1),
            "allowed is a number from 0 to 1",
        ),
    ],
)
def test_bad_imputations_are_refused(change, problem) -> None:
    with pytest.raises(DataError, match=problem):
        read_imputations(change(imputed(30)[0]))


def test_imputations_given_as_covariates_are_refused_with_the_way_to_give_them() -> None:
    with pytest.raises(DataError, match="'fit --imputations' and read_imputations read"):
        bayescontam.Covariates.from_frame(imputed(30)[0])
    with pytest.raises(UsageError, match="no such file"):
        read_imputations("absent.csv")
