"""Summary: what a finished scan found, in a few lines."""

import pandas as pd

from bayescontam.scan.results import Scan

LEVELS = (0.7, 0.8, 0.9)
"""Cosines that items are counted at."""


def by_benchmark(scan: Scan) -> pd.DataFrame:
    """Return one row for each benchmark."""
    best = scan.matches[scan.matches["rank"] == 1]
    chunks = scan.record["search"]["chunks"]
    rows = []
    for benchmark, items in scan.items.groupby("benchmark", sort=False):
        cosine = best.loc[best["benchmark"] == benchmark, "cosine"]
        shares = {f"share_{level}": float((cosine >= level).sum() / len(items)) for level in LEVELS}
        low, median, high = cosine.quantile([0.25, 0.5, 0.75]).astype(float)
        rows.append(
            {"benchmark": benchmark, "items": len(items), "chunks": chunks, "top_cosine": median,
             "top_cosine_low": low, "top_cosine_high": high, **shares}
        )  # fmt: skip
    return pd.DataFrame(rows)


def notes(scan: Scan) -> list[str]:
    """Return sentences on what was left out and what that means."""
    return [str(note) for note in scan.record["notes"]]
