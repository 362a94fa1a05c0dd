"""Uncertain exposures of concepts become imputations of contamination."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logit

from bayescontam.arc.exposures import (
    contamination_of,
    counted_exposures,
    given_exposures,
    impute_contamination,
    read_exposures,
)
from bayescontam.errors import DataError, UsageError

DRAWS = 20_000
EXPOSURES = pd.DataFrame(
    {
        "concept": ["Copy", "Count", "Order"],
        "exposure": [0.3, 0.6, 0.5],
        "exposure_sd": [0.1, 0.05, 0],
    }
)
CONCEPTS = pd.DataFrame(
    {"task": ["a", "a", "b", "c"], "concept": ["Copy", "Count", "Copy", "Order"]}
)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """Three tasks, of which the first has two test inputs."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    pair = {"input": [[1, 2]], "output": [[2, 1]]}
    for name, tests in (("a", 2), ("b", 1), ("c", 1)):
        (folder / f"{name}.json").write_text(json.dumps({"train": [pair], "test": [pair] * tests}))
    return folder


def test_given_exposures_have_the_given_moments() -> None:
    mean, sd = np.array([0.3, 0.8, 0.4]), np.array([0.05, 0.2, 0.0])
    drawn = given_exposures(mean, sd, DRAWS, np.random.default_rng(1))
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=4 * 0.2 / DRAWS**0.5)
    assert drawn.std(axis=0) == pytest.approx(sd, rel=0.03)
    assert ((drawn > 0) & (drawn < 1)).all()


def test_concepts_that_no_document_has_were_not_met() -> None:
    whole = counted_exposures(np.zeros(3), 1.0, 4, np.random.default_rng(1))
    assert (whole == 0).all()
    part = counted_exposures(np.zeros(3), 0.5, 2000, np.random.default_rng(1))
    assert np.isfinite(part).all()
    assert 0.2 < (part.max(axis=1) == 0).mean() < 0.5
    given = pd.DataFrame({"concept": ["a", "b"], "exposure": [0.5, 0], "documents": 0, "share": 1})
    with pytest.raises(DataError, match=r"row 1: exposure: got 0\.5, but documents amount to ano"):
        read_exposures(given)


def test_counts_become_logs_of_documents_beside_the_most_frequent() -> None:
    """With a large count and the whole corpus nothing is left unsure."""
    counts = np.array([1e7, 1e8])
    drawn = counted_exposures(counts, 1.0, 500, np.random.default_rng(1))
    assert drawn[:, 1] == pytest.approx(1.0)
    assert drawn[:, 0] == pytest.approx(7 / 8, abs=1e-3)


def test_a_sampled_share_scales_documents_and_small_counts_are_unsure() -> None:
    counts, share = np.array([3.0, 5000.0]), 0.01
    drawn = counted_exposures(counts, share, DRAWS, np.random.default_rng(2))
    documents = stats.gamma(3.5, scale=1 / share)
    largest = np.log1p(5000 / share)
    expected = documents.expect(lambda n: np.log1p(n) / largest)
    assert drawn[:, 0].mean() == pytest.approx(expected, abs=0.002)
    assert drawn[:, 0].std() > 10 * drawn[:, 1].std()


def test_contamination_is_the_published_formula() -> None:
    exposure = np.array([0.5, 0.7])
    odds = np.exp(np.log(0.3 / 0.7) + 5 * np.array([0.0, 0.2]))
    assert contamination_of(exposure) == pytest.approx(odds / (1 + odds))


def test_an_error_of_a_concept_moves_all_its_tasks_together(tasks: Path) -> None:
    table = impute_contamination(tasks, EXPOSURES, concepts=CONCEPTS, imputations=2000)
    assert table.columns.tolist() == ["imputation", "benchmark", "item", "contamination"]
    wide = logit(table.pivot(index="imputation", columns="item", values="contamination"))
    assert list(wide.columns) == ["a-0", "a-1", "b-0", "c-0"]
    assert (wide["a-0"] == wide["a-1"]).all()
    assert wide["c-0"].std() == pytest.approx(0, abs=1e-12)
    assert wide["c-0"].iloc[0] == pytest.approx(logit(0.3))
    # Log-odds are 5 times the mean exposure: 2,000 draws leave 0.016 of a standard deviation.
    assert wide["b-0"].mean() == pytest.approx(logit(0.3) + 5 * (0.3 - 0.5), abs=0.06)
    assert wide["b-0"].std() == pytest.approx(5 * 0.1, rel=0.08)
    assert wide["a-0"].std() == pytest.approx(5 / 2 * np.hypot(0.1, 0.05), rel=0.08)
    assert wide[["a-0", "b-0"]].corr().iloc[0, 1] == pytest.approx(2 / 5**0.5, abs=0.03)


def test_the_same_seed_gives_the_same_and_items_may_be_tasks(tasks: Path) -> None:
    def made(seed: int) -> pd.DataFrame:
        return impute_contamination(
            tasks, EXPOSURES, concepts=CONCEPTS, by="task", imputations=20, seed=seed
        )

    first = made(1)
    assert first.equals(made(1))
    assert not first.equals(made(2))
    assert first["item"].unique().tolist() == ["a", "b", "c"]


def test_counts_are_drawn_anew_and_share_what_is_largest(tasks: Path) -> None:
    documents, share = np.array([3.0, 500.0, 40.0]), 0.1
    amount = counted_exposures(documents, share, 4000, np.random.default_rng(1)).mean(axis=0)
    counted = pd.DataFrame(
        {"concept": ["Copy", "Count", "Order"], "exposure": amount, "documents": documents,
         "share": share}
    )  # fmt: skip
    table = impute_contamination(tasks, counted, concepts=CONCEPTS, imputations=400)
    wide = table.pivot(index="imputation", columns="item", values="contamination")
    assert wide["b-0"].std() > 2 * wide["c-0"].std() > 0


def test_the_largest_exposure_may_be_of_a_concept_that_no_task_needs(tasks: Path) -> None:
    """Counted whole, exposures are known: those of the table, whichever concepts tasks need."""
    logs = np.log1p([1000, 31, 50, 1e6])
    counted = pd.DataFrame(
        {
            "concept": ["Copy", "Count", "Order", "Spare"], "exposure": logs / logs.max(),
            "documents": [1000, 31, 50, 10**6], "share": 1.0,
        }
    )  # fmt: skip
    table = impute_contamination(tasks, counted, concepts=CONCEPTS, imputations=20)
    wide = table.pivot(index="imputation", columns="item", values="contamination")
    assert wide["b-0"].to_numpy() == pytest.approx(contamination_of(logs[0] / logs[3]))
    assert wide["c-0"].to_numpy() == pytest.approx(contamination_of(logs[2] / logs[3]))


def test_exposures_that_documents_contradict_are_refused(tasks: Path) -> None:
    counted = EXPOSURES.assign(documents=[3, 500, 40], share=1.0)
    with pytest.raises(DataError, match="but documents amount to another"):
        read_exposures(counted)


def test_covariates_of_a_scan_whose_items_are_concepts_are_exposures() -> None:
    scan = pd.DataFrame(
        {"benchmark": "ideas", "item": ["Copy"], "contamination": [0.4], "contamination_sd": [0.1]}
    )
    found = read_exposures(scan)
    assert found.loc["Copy"].tolist() == [0.4, 0.1]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda t: t.drop(columns="concept"), "concept: no such column"),
        (
            lambda t: t.assign(exposure=[0.3, 1.2, 0.5]),
            "^DataFrame: row 2: exposure: got 1.2; allowed is 0 to 1$",
        ),
        (lambda t: t.assign(exposure="much"), "exposure: got 'much'"),
        (lambda t: t.assign(exposure_sd=[0.1, 0.5, 0]), "exposure_sd: got 0.5; allowed is 0 or mo"),
        (lambda t: t.assign(concept="Copy"), "'Copy' stands twice; give each concept one row"),
        (lambda t: t.assign(documents=-1, share=1), "documents: got -1; allowed is 0 or more"),
        (lambda t: t.assign(documents=1, share=2), "share: got 2; allowed is one number above 0"),
        (lambda t: t.assign(documents=np.inf, share=1), "documents: got inf"),
        (lambda t: t[:0], "no rows; a table needs at least one"),
        (lambda t: t[:2], "no exposure of 'Order'; the tasks need it"),
    ],
)
def test_bad_exposures_are_refused(tasks: Path, change, problem) -> None:
    with pytest.raises(DataError, match=problem):
        impute_contamination(tasks, change(EXPOSURES), concepts=CONCEPTS)


def test_too_few_imputations_are_refused(tasks: Path) -> None:
    with pytest.raises(UsageError, match="imputations: got 5; allowed is a number from 20 on"):
        impute_contamination(tasks, EXPOSURES, concepts=CONCEPTS, imputations=5)
    with pytest.raises(UsageError, match="by"):
        impute_contamination(tasks, EXPOSURES, concepts=CONCEPTS, by="tasks")
    with pytest.raises(DataError, match="'other' are tasks of which none is detected"):
        impute_contamination(tasks, EXPOSURES)
