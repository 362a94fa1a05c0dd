"""Time to smooth the importance weights of many responses, against ArviZ's and SciPy's functions.

By ``make bench-all``. Both compute in one process and take turns; the best of five rounds counts.
"""

from collections.abc import Callable, Mapping
from time import process_time
from typing import Any

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from scipy.special import logsumexp

from bayescontam.inference.psis import psis_weights
from bayescontam.model.likelihood import log_sum_exp


def best_times(contestants: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the seconds of the best of five rounds, in which contestants take turns."""
    times = dict.fromkeys(contestants, np.inf)
    for _ in range(5):
        for name, compute in contestants.items():
            start = process_time()
            compute()
            times[name] = min(times[name], process_time() - start)
    return times


@pytest.mark.parametrize(("draws", "sets"), [(1000, 2000), (6000, 400)])
def test_time_to_smooth_weights(draws: int, sets: int) -> None:
    rng = np.random.default_rng(draws)
    ratios = np.geomspace(0.1, 3, sets)[:, None] * rng.normal(size=(sets, draws))
    contestants = {
        "psislw": lambda: array_stats.psislw(-ratios, r_eff=1, axis=-1),
        "psis_weights": lambda: psis_weights(ratios),
    }
    times = best_times(contestants)
    each = {name: 1e6 * seconds / sets for name, seconds in times.items()}
    ratio = times["psislw"] / times["psis_weights"]
    print(f"\n{sets:,} sets of {draws:,} draws, µs each: {each}; ratio {ratio:.1f}")
    assert ratio > 1.5


def test_time_to_add_densities() -> None:
    values = np.random.default_rng(1).normal(-3, 2, (1000, 1000))
    contestants = {
        "logsumexp": lambda: logsumexp(values, axis=1),
        "log_sum_exp": lambda: log_sum_exp(values, axis=1),
    }
    times = best_times(contestants)
    ratio = times["logsumexp"] / times["log_sum_exp"]
    print(f"\na million densities, ms: { {n: 1e3 * s for n, s in times.items()} }; {ratio:.1f}")
    assert ratio > 1.5
