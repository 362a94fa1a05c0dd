"""Many tables of one layout: `fit_many` against a loop of `fit`, in one process.

Run by ``make bench``. Tables have 500 responses (5 models × 2 benchmarks × 50 items). The loop is
timed on a few tables after one that fills PyTensor's cache, and both by the median of a table, so
that `fit_many` is charged its compilation as well: spread over all tables.
"""

import os
import time

import numpy as np
import pandas as pd
import pytest

from bayescontam.inference.many import fit_many
from bayescontam.inference.pipeline import fit
from tests.support.simulated_responses import simulate

TABLES = int(os.environ.get("BAYESCONTAM_DATA_SETS", "100"))
IN_LOOP = 2
OPTIONS = {"model": "hierarchical", "seed": 1}


def tables() -> dict[str, pd.DataFrame]:
    """Return tables of the same models and items, with responses of their own."""
    first = simulate(seed=1, models=5, items=50).responses
    rng, found = np.random.default_rng(2), {}
    for night in range(TABLES):
        turned = rng.random(len(first)) < 0.1
        correct = np.where(turned, 1 - first["n_correct"], first["n_correct"])
        found[f"night {night}"] = first.assign(n_correct=correct)
    return found


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_table_costs_less_than_in_a_loop() -> None:
    given = tables()
    fit(next(iter(given.values())), **OPTIONS)
    alone: dict[str, list[tuple[float, float]]] = {"1500": [], "auto": []}
    for table in list(given.values())[:IN_LOOP]:
        for draws, found in alone.items():
            wall, processor = time.perf_counter(), time.process_time()
            fit(table, **OPTIONS, draws=draws if draws == "auto" else int(draws))
            found.append((time.perf_counter() - wall, time.process_time() - processor))
    wall, processor = time.perf_counter(), time.process_time()
    fits = fit_many(given, "night", **OPTIONS, draws="auto", progress=True)
    many = (time.perf_counter() - wall) / TABLES, (time.process_time() - processor) / TABLES
    overview = fits.overview()
    print(
        f"\nfit_many of {TABLES}, draws auto: {many[0]:.1f} s a table, {many[1]:.1f} s of processor"
    )
    print("draws of each chain:", overview["draws"].value_counts().to_dict())
    print("fits with a failed check:", int((overview["failed"] != "").sum()))
    for draws, found in alone.items():
        own = np.median(found, axis=0)
        ratio = own / many
        print(
            f"fit in a loop, draws {draws}: {own[0]:.1f} s a table, {own[1]:.1f} s of processor:"
            f" {ratio[0]:.1f} and {ratio[1]:.1f} times as long"
        )
    assert ratio[1] > 1
