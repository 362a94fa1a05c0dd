"""Truths of what was planted, and what stands for scans with known matches."""

from pathlib import Path
from typing import Any

import pandas as pd

from bayescontam.scan.results import Scan


def scan_of(rows: list[tuple[str, str, int, float, int, int]], **more: Any) -> Scan:
    """Return what stands for a scan with these matches: item, document, rank, cosine, start, end.

    `more` are further columns of the matches.
    """
    names = ["item", "document", "rank", "cosine", "start", "end"]
    table = pd.DataFrame(rows, columns=names).assign(benchmark="quiz", jaccard=0.5, copies=1)
    scan = Scan(Path("nowhere"), {})
    scan.__dict__["matches"] = table.assign(**more)
    items = pd.DataFrame({"item": [f"i{k}" for k in range(100)]}).assign(benchmark="quiz")
    scan.__dict__["items"] = items
    scan.__dict__["histogram"] = items.assign(cosine=0.1, count=500)
    return scan


def truth_of(rows: list[tuple[str, str, str, float, float]], **more: Any) -> pd.DataFrame:
    """Return a truth with these items, documents, places, starts and ends.

    `more` are further columns, or others than those by default.
    """
    table = pd.DataFrame(rows, columns=["item", "document", "place", "start", "end"])
    table = table.assign(benchmark="quiz", duplicate="x", kind="semantic", level="plain", copy=1)
    return table.assign(form="as made").assign(**more)
