"""Scope: which items estimands are about."""

from typing import Literal

Items = Literal["all", "answered"]
"""``"all"``: all items of the benchmark in the table; ``"answered"``: those a model answered."""
ITEMS: tuple[Items, ...] = ("all", "answered")
