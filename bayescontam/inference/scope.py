"""Scope: which items estimands are about."""

from typing import Literal

Items = Literal["all", "answered"]
"""``"all"``: all items of the benchmark in the table; ``"answered"``: those a model answered."""
ITEMS: tuple[Items, ...] = ("all", "answered")


def scope(items: Items, sampled: bool) -> str:
    """Return the sentence that says which items intervals are about."""
    which = "all items of a benchmark in the table" if items == "all" else "answered items"
    if sampled:
        return (
            f"Estimates are about the population that the items were drawn from ({which} as a"
            " sample of it): intervals include the sampling of items."
        )
    return (
        f"Estimates are averages over {which}: intervals do not include the sampling of items"
        " (--population does)."
    )
