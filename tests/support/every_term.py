"""Model specs that have every term."""

import numpy as np
import pandas as pd

from bayescontam.data.responses import Responses

EVERYTHING = """
summary = "all blocks at once"
[difficulty]
discrimination = "random"
[contamination]
form = "monotone"
knots = [0.3, 0.6]
interaction = "difficulty"
spillover = true
confounding = "anchored"
clean = ["m0"]
"""


ON_ACCURACY = EVERYTHING.replace("[contamination]", '[contamination]\nscale = "accuracy"')


def table(seed: int = 0) -> pd.DataFrame:
    """Return 4 models × 2 benchmarks × 6 items, each model with exposures of its own."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"m{m}", f"b{b}", f"i{b}{i}", int(rng.random() < 0.5), rng.integers(250 * (m + 1)) / 1000)
        for m in range(4) for b in range(2) for i in range(6)
    ]  # fmt: skip
    names = ["model", "benchmark", "item", "correct", "contamination"]
    # In the order in which responses are stored.
    return Responses.from_frame(pd.DataFrame(rows, columns=names)).frame.drop(columns="n_trials")
