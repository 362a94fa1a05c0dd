"""The priors of every shipped model spec leave room for all accuracies, and prefer no extreme.

"Covers 0.02 to 0.98" is read so: of the accuracies of a model on a benchmark that the prior
implies, at least one in 500 lies below 0.02 and one in 500 above 0.98, and nine in ten lie
between. The first two let the data say that a model solves nothing or everything; the third is
that the prior does not expect it. The narrowest is that of `concepts`, whose accuracy on a
benchmark is the mean of ten groups' that may differ.
"""

import logging

import pytest

from bayescontam.inference.prior_predictive import implied
from bayescontam.specs.registry import load_model, shipped_models

LOW, HIGH = 0.02, 0.98
LEAST = 0.002
"""Least probability beyond either bound."""
BETWEEN = 0.9
"""Least probability between them."""


@pytest.mark.parametrize("name", shipped_models())
def test_prior_accuracy_covers_all_but_the_extremes(name: str) -> None:
    logging.getLogger("pymc").setLevel(logging.WARNING)
    found = implied(
        load_model(name), models=4, benchmarks=2, items=20, draws=1000, seed=1,
        contamination=(0.7, 2.0),
    )  # fmt: skip
    accuracy = found.table().set_index("quantity").loc["accuracy"]
    assert (accuracy["below"], accuracy["above"]) == (LOW, HIGH)
    assert accuracy["p_below"] >= LEAST
    assert accuracy["p_above"] >= LEAST
    assert 1 - accuracy["p_below"] - accuracy["p_above"] >= BETWEEN
