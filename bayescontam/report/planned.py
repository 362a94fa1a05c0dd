"""Planned: what a plan says, for people."""

import pandas as pd

from bayescontam.inference.plan.planning import Wish
from bayescontam.inference.plan.truth import Truth

SPARE = ("p_width_mcse", "power_mcse", "true_overfitting")
"""Columns that a narrow terminal leaves out."""
_SIZES = ("models", "benchmarks", "generations")


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table for people: without sizes that are the same in every row."""
    return table.drop(columns=["quantity", *_alike(table)])


def plan_notes(table: pd.DataFrame, truth: Truth, wish: Wish, seed: int) -> list[str]:
    """Return what a reader must know beside the table, one sentence or two each."""
    sizes = ", ".join(f"{name} = {table[name].iloc[0]}" for name in _alike(table))
    known = "".join(f", {name} = {value:g}" for name, value in truth.spreads.items())
    return [
        *([f"Everywhere: {sizes}."] if sizes else []),
        f"width: of the {100 * wish.level:g} % interval of {wish.quantity}; median and central"
        f" 80 % over {wish.data_sets} simulated data sets, by a fast approximation.",
        "power: probability that the interval of overfitting excludes zero. Monte Carlo error"
        f" of probabilities: at most {table.filter(like='_mcse').to_numpy().max():.2g}.",
        f"Assumed: accuracy {truth.accuracy:g}, mean slope {truth.slope:g}{known};"
        f" other spreads drawn from their priors. Seed {seed}.",
    ]


def _alike(table: pd.DataFrame) -> list[str]:
    return [name for name in _SIZES if table[name].nunique() == 1]
