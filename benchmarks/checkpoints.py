"""Checkpoints of one run that is exposed to duplicates half-way, among steady learning.

    python -m benchmarks.checkpoints --tables 20

A run of six checkpoints learns steadily, everywhere alike; duplicates of half of two benchmarks
come in at the fourth, and more with each that follows. Two more benchmarks are controls, or none
is. Tables are fitted by the model spec that `auto` composes, with a random walk along the run, and
once more without their column `checkpoint`: models of one base then differ independently. Printed
are for each how often 95 % intervals hold the true total effects, their width and their bias.
"""

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd

from bayescontam.calibration.estimators import engine_of
from bayescontam.data.responses import Responses
from bayescontam.model.auto import compose_spec
from bayescontam.model.effect_names import TOTAL
from benchmarks.interference import SAMPLING, contaminated, estimands_of, intervals

DOSES = (0.0, 0.0, 0.0, 1 / 3, 2 / 3, 1.0)
"""What is contaminated of a duplicated item, by checkpoint."""
EXAMS, ITEMS = 2, 100
LEARNT, STEP, TWIN = 0.12, 0.08, 0.1
"""Log-odds that a step adds everywhere, and what steps and single scores differ by."""
SPILLOVER, SLOPE = (0.0, 1.0), 0.5


def layout(controls: int) -> pd.DataFrame:
    """Return the table without answers."""
    rows = [
        (f"c{c}", "run", c, f"b{b}", f"b{b}i{i}", dose * (b < EXAMS) * (i % 2))
        for c, dose in enumerate(DOSES)
        for b in range(EXAMS + controls)
        for i in range(ITEMS)
    ]
    columns = ["model", "base", "checkpoint", "benchmark", "item", "contamination"]
    return pd.DataFrame(rows, columns=columns).assign(correct=0)


def answered(
    frame: pd.DataFrame, spillover: float, rng: np.random.Generator
) -> tuple[np.ndarray, "pd.Series[float]"]:
    """Return answers, and the true total effect of each pair of model and benchmark."""
    count = len(DOSES)
    trained = np.cumsum(rng.normal(LEARNT, STEP, count))
    pair = rng.normal(0, TWIN, (count, frame["benchmark"].nunique()))
    level, hard = rng.normal(0, 0.5, pair.shape[1]), rng.normal(0, 1, frame["item"].nunique())
    at, b, i = (pd.factorize(frame[name])[0] for name in ("model", "benchmark", "item"))
    clean = trained[at] + pair[at, b] + level[b] - hard[i]
    p, true = contaminated(frame, clean, spillover, SLOPE)
    return rng.binomial(1, p), true["total"]


def fitted(controls: int, walk: bool, tables: int) -> Iterator[pd.DataFrame]:
    """Yield estimated and true totals of the exposed pairs of each table."""
    whole = layout(controls)
    frame = whole if walk else whole.drop(columns="checkpoint")
    first = Responses.from_frame(frame)
    spec, _ = compose_spec(first)
    sampling = SAMPLING["nutpie"]
    sampler = engine_of(spec, sampling.engine, first, moving=False)
    dose = whole.groupby(["model", "benchmark"])["contamination"].mean()
    for number, spillover in product(range(tables), SPILLOVER):
        rng = np.random.default_rng([11, number, int(10 * spillover), controls])
        correct, true = answered(whole, spillover, rng)
        drawn = sampler.draw(Responses.from_frame(frame.assign(correct=correct)), number, sampling)
        found = intervals(estimands_of(drawn, sampling, rng)[TOTAL.overfitting])
        found = found.loc[dose.index[dose > 0]].rename_axis(["model", "benchmark"])
        yield found.join(true).assign(
            controls=controls, walk=walk, spillover=spillover, table=number, diverged=drawn.diverged
        )


def main() -> None:
    """Fit all tables, and print what their intervals hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=20)
    given = parser.parse_args()
    rows: list[pd.DataFrame] = []
    for controls, walk in product((2, 0), (True, False)):
        rows += fitted(controls, walk, given.tables)
        print(f"{controls} controls, walk {walk}: {given.tables} tables", flush=True)
    every = pd.concat(rows)
    every = every.assign(
        covers=(every["ci_low"] <= every["total"]) & (every["total"] <= every["ci_high"]),
        width=every["ci_high"] - every["ci_low"], bias=every["mean"] - every["total"],
        diverged=every["diverged"] > 0,
    )  # fmt: skip
    keys = ["controls", "walk", "spillover"]
    figures = ["covers", "width", "bias", "diverged"]
    each = every.groupby([*keys, "table"])[figures].mean().groupby(keys)
    print(each.mean().join(each["covers"].sem().rename("covers_se")).round(3).to_string())


if __name__ == "__main__":
    main()
