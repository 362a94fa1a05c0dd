"""Uncertain exposures become uncertain contaminations."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bayescontam.data.importers.arc import read_arc, read_concepts
from bayescontam.errors import UsageError
from studies._common import contamination_of
from studies._tasks import CONCEPTS, CONCEPTS_FILE, TEST, TRAIN, make_tasks
from studies.arc_concepts import counted_exposures, covariates_of, given_exposures

DRAWS = 20_000


def test_given_exposures_have_the_given_moments() -> None:
    mean, sd = np.array([0.3, 0.8]), np.array([0.05, 0.2])
    drawn = given_exposures(mean, sd, DRAWS, np.random.default_rng(1))
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=4 * 0.2 / DRAWS**0.5)
    assert drawn.std(axis=0) == pytest.approx(sd, rel=0.03)
    assert ((drawn > 0) & (drawn < 1)).all()


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 0.1), (1.0, 0.1), (0.5, 0.5), (0.5, 0.0)])
def test_moments_that_nothing_has_are_refused(mean: float, sd: float) -> None:
    with pytest.raises(UsageError, match="concept 1 has mean"):
        given_exposures(np.array([mean]), np.array([sd]), 1, np.random.default_rng(1))


def test_counts_become_logs_of_documents_beside_the_most_frequent() -> None:
    """With a large count and the whole corpus nothing is left unsure."""
    counts = np.array([10_000_000, 100_000_000])
    drawn = counted_exposures(counts, 1.0, 500, np.random.default_rng(1))
    assert drawn[:, 1] == pytest.approx(1.0)
    assert drawn[:, 0] == pytest.approx(7 / 8, abs=1e-3)


def test_a_sampled_share_scales_documents_and_small_counts_are_unsure() -> None:
    counts, share = np.array([3, 5000]), 0.01
    drawn = counted_exposures(counts, share, DRAWS, np.random.default_rng(2))
    documents = stats.gamma(3.5, scale=1 / share)
    largest = np.log1p(5000 / share)
    expected = [documents.expect(lambda n: np.log1p(n) / largest)]
    assert drawn[:, 0].mean() == pytest.approx(expected[0], abs=0.002)
    assert drawn[:, 0].std() > 10 * drawn[:, 1].std()


def test_counts_below_zero_and_shares_above_one_are_refused() -> None:
    for counts, share in (([-1], 0.5), ([1], 1.5), ([1], 0.0)):
        with pytest.raises(UsageError, match="allowed are counts of 0 or more"):
            counted_exposures(np.array(counts), share, 1, np.random.default_rng(1))


def test_contamination_is_the_published_formula() -> None:
    exposure = np.array([[0.5, 0.9]])
    share = np.array([[1.0, 0.0], [0.5, 0.5]])
    odds = np.exp(np.log(0.3 / 0.7) + 5 * np.array([0.0, 0.2]))
    found = contamination_of(exposure @ share.T)
    assert found[0] == pytest.approx(odds / (1 + odds))


def test_errors_of_a_concept_move_all_its_tasks_together() -> None:
    rng = np.random.default_rng(3)
    exposure = given_exposures(np.full(3, 0.5), np.full(3, 0.1), DRAWS, rng)
    share = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0, 1.0]])
    drawn = contamination_of(exposure @ share.T)
    between = np.corrcoef(drawn.T)[0]
    assert between[1] == pytest.approx(1)
    assert between[2] == pytest.approx(0.5, abs=0.03)
    assert between[3] == pytest.approx(0, abs=0.03)


def test_covariates_are_mean_and_spread_that_a_share_can_have() -> None:
    drawn = np.array([[0.2, 0.0], [0.4, 1.0]])
    table = covariates_of(drawn, "b", ["one", "two"])
    assert table["contamination"].to_list() == pytest.approx([0.3, 0.5])
    assert table["contamination_sd"][0] == pytest.approx(0.1)
    assert 0.49 < table["contamination_sd"][1] < 0.5


def test_made_tasks_are_tasks_that_do_what_their_concepts_say(tmp_path: Path) -> None:
    make_tasks(tmp_path, 60, np.random.default_rng(5))
    tasks = read_arc(tmp_path)
    concepts = read_concepts(tmp_path / CONCEPTS_FILE, tasks)
    assert len(tasks.tasks) == 60
    assert set(concepts["concept"]) == set(CONCEPTS)
    assert concepts.groupby("task").size().between(2, 5).all()
    for task, own in concepts.groupby("task", sort=False)["concept"]:
        pairs = tasks.grids[str(task)]["train"] + tasks.grids[str(task)]["test"]
        assert len(pairs) == TRAIN + TEST
        for pair in pairs:
            grid = np.array(pair["input"])
            for concept in own:
                grid = CONCEPTS[concept](grid)
            assert grid.tolist() == pair["output"]


def test_coloured_cells_fall_to_the_bottom() -> None:
    fallen = CONCEPTS["fall"](np.array([[3, 0], [0, 4], [5, 0]]))
    assert fallen.tolist() == [[0, 0], [3, 0], [5, 4]]


def test_made_tasks_depend_on_the_seed_alone(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_tasks(tmp_path / name, 5, np.random.default_rng(seed))
    a, b, c = (read_arc(tmp_path / name).grids for name in ("a", "b", "c"))
    assert a == b
    assert a != c
