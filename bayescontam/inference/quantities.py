"""Quantities that priors are evaluated for, and what is called extreme of each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """Something that a prior says something of."""

    name: str
    meaning: str  # what it is, in words
    # below, above: bounds beyond which a value is called extreme
    below: float
    above: float


QUANTITIES = (
    Quantity("accuracy", "accuracy of a model on a benchmark", 0.02, 0.98),
    Quantity("genuine_ability", "its accuracy at the reference contamination", 0.02, 0.98),
    Quantity("overfitting", "accuracy less genuine ability", -0.5, 0.5),
    Quantity("overfitting_fraction", "overfitting as a share of accuracy", -1.0, 0.9),
    Quantity("novelty_gap", "accuracy at the largest contamination less the smallest", -0.8, 0.8),
    Quantity("slope", "log-odds from surely clean to surely contaminated", -4.0, 4.0),
    Quantity("model_difference", "accuracies of two models on one benchmark, A − B", -0.8, 0.8),
    Quantity("model_difference_size", "the same without its sign", 0.01, 0.8),
    Quantity("benchmark_difference", "one model's accuracies on two benchmarks, A − B", -0.8, 0.8),
    Quantity("benchmark_difference_size", "the same without its sign", 0.01, 0.8),
    Quantity("unit_accuracy", "accuracy of a model on one group of items", 0.02, 0.98),
    Quantity("item_accuracy", "accuracy of a model on one item", 0.02, 0.98),
    Quantity("item_spread", "sd of accuracies over a benchmark's items", 0.02, 0.4),
)
"""All quantities, in the order in which they are shown."""
