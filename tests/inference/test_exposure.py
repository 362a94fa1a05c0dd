"""What the covariates show about the true contamination, and what they cannot show."""

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.errors import DataError
from bayescontam.model.design import Design, make_design
from bayescontam.model.exposure import draw_nodes
from bayescontam.specs.registry import load_model


def test_nodes_are_drawn_by_their_weight():
    weights = np.array([[0.2, 0.0, 0.8], [0.0, 1.0, 0.0]])
    with np.errstate(divide="ignore"):
        log_weights = np.broadcast_to(np.log(weights), (20_000, 2, 3))
    drawn = draw_nodes(log_weights, np.random.default_rng(0))
    shares = [np.bincount(drawn[:, g], minlength=3) / 20_000 for g in (0, 1)]
    np.testing.assert_allclose(shares, weights, atol=0.015)
    assert shares[0][1] == 0


def frame(**columns: object) -> pd.DataFrame:
    """Two models on three items of one benchmark."""
    items = ["q1", "q2", "q3"]
    table = {"model": ["A"] * 3 + ["B"] * 3, "benchmark": "quiz", "item": items * 2, "correct": 1}
    return pd.DataFrame(table | columns)


def design(name: str, table: pd.DataFrame) -> Design:
    return make_design(load_model(name), Responses.from_frame(table, source="r.csv"))


def test_the_range_of_an_event_is_zero_to_one():
    """Unless no item can be clean, or none contaminated."""
    some = design("latent_duplicate", frame(p_duplicate=[0.2, 0.3, 0.4] * 2))
    assert [x.item() for x in some.contamination_range()] == [0, 1]
    assert some.varies.all()
    same = design("latent_duplicate", frame(p_duplicate=0.3))
    assert not same.varies.any()
    mixed = frame(p_duplicate=[0.2, 0.0, 0.0] * 2)
    mixed.loc[3:, "benchmark"] = "sure"
    mixed.loc[3:, "p_duplicate"] = 1.0
    low, high = design("latent_duplicate", mixed).contamination_range()
    assert (low.tolist(), high.tolist()) == ([0, 1], [1, 1])


def test_the_range_of_a_noisy_contamination_is_that_of_its_means():
    table = frame(contamination=[0.2, 0.3, 0.4] * 2, contamination_sd=0.1)
    noisy = design("noisy_covariate", table)
    assert [x.item() for x in noisy.contamination_range()] == [0.2, 0.4]


def test_groups_are_items_unless_models_differ():
    table = frame(p_duplicate=[0.2, 0.3, 0.4] * 2)
    exposure = design("latent_duplicate", table).exposure
    assert exposure.group.tolist() == [0, 1, 2, 0, 1, 2]
    assert not exposure.pairs
    table.loc[0, "p_duplicate"] = 0.25
    exposure = design("latent_duplicate", table).exposure
    assert sorted(exposure.group.tolist()) == list(range(6))
    assert exposure.pairs
    assert exposure.mean[exposure.group].tolist() == table["p_duplicate"].tolist()


def test_a_deviation_that_differs_makes_pairs_too():
    table = frame(contamination=0.5, contamination_sd=[0.1] * 5 + [0.2])
    assert design("noisy_covariate", table).exposure.pairs


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("noisy_covariate", {"contamination": 0.5},
         r"r\.csv: the model spec 'noisy_covariate' needs a column 'contamination_sd', which is"
         r" not there\nGive covariates that have it"),
        ("noisy_covariate", {}, r"column 'contamination', .*\n.*column 'contamination_sd'"),
        ("latent_duplicate", {"contamination": 0.5},
         r"needs a column 'p_duplicate', which is not there"),
        ("noisy_covariate", {"contamination": 0.5, "contamination_sd": [0.1] * 5 + [0.51]},
         r"^r\.csv: contamination_sd: item 'q3' of 'quiz': got 0\.51 beside a contamination of"
         r" 0\.5; a number in \[0, 1\] with this mean has at most 0\.5\n"),
        ("noisy_covariate", {"contamination": [0.0, 0.1, 0.2] * 2, "contamination_sd": 0.1},
         r"item 'q1' of 'quiz': got 0\.1 beside a contamination of 0; .* at most 0\n"),
    ],
)  # fmt: skip
def test_what_the_table_must_say(name, columns, message):
    with pytest.raises(DataError, match=message):
        design(name, frame(**columns))


def test_rounding_is_no_fault():
    """sqrt(0.3 × 0.7) = 0.45826 to three digits."""
    table = frame(contamination=0.3, contamination_sd=0.459)
    exposure = design("noisy_covariate", table).exposure
    np.testing.assert_allclose(np.sort(exposure.nodes, axis=1), [[0, 1]] * 3, atol=1e-12)


def test_what_is_known_of_all_items_is_no_exposure():
    assert design("noisy_covariate", frame(contamination=0.4, contamination_sd=0)).exposure is None
    assert design("latent_duplicate", frame(p_duplicate=[0, 1, 1] * 2)).exposure is None
    assert design("hierarchical", frame(contamination=0.4, contamination_sd=0.2)).exposure is None
