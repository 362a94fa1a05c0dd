"""From the shell to the shell: the first fit ever, of another table, and a later one, beside Bambi.

Run by ``make bench``. A cold cache of PyTensor is that of a new installation; the other table has
one model more, and finds a cache in which the first was compiled. The contestant is a
script that reads the same CSV and fits the closest formula of Bambi with nutpie; it computes no
estimands and no checks. Processor time counts all cores, wall-clock time two.
"""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from tests.support.simulated_responses import simulate

BAMBI = """
import sys
import bambi as bmb, pandas as pd
table = pd.read_csv(sys.argv[1])
means = table.groupby("benchmark")["contamination"].transform("mean")
table["dose"] = table["contamination"] - means
table["cell"] = table["model"] + "/" + table["benchmark"]
formula = "correct ~ 0 + benchmark + dose + (1 + dose | model) + (1 + dose | cell) + (1 | item)"
model = bmb.Model(formula, table, family="bernoulli")
model.fit(draws=1500, tune=700, chains=4, cores=2, inference_method="nutpie", progressbar=False)
"""
SIZES = [(5, 50), (8, 400)]
"""Models and items of each of two benchmarks: 500 and 6,400 responses."""


def seconds(command: list[str], cache: Path) -> tuple[float, float]:
    """Return wall-clock and processor seconds of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    flags = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={cache}", "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, capture_output=True, env=flags)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used


def written(path: Path, seed: int, models: int, items: int) -> Path:
    """Write simulated responses to a file."""
    frame = simulate(seed=seed, models=models, items=items).responses
    frame = frame.rename(columns={"n_correct": "correct"}).drop(columns="n_trials")
    frame.to_csv(path, index=False)
    return path


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("models", "items"), SIZES)
def test_from_the_shell_to_the_shell(models: int, items: int, tmp_path: Path) -> None:
    fit = [sys.executable, "-m", "bayescontam", "fit", "-m", "hierarchical", "--quiet"]
    own = [*fit, "-o", str(tmp_path / "fit.nc")]
    contestants = {
        "fit": own,
        "fit --draws auto": [*own, "--draws", "auto"],
        "Bambi": [sys.executable, "-c", BAMBI],
    }
    table = written(tmp_path / "table.csv", 1, models, items)
    states = {
        "cold": table,
        "other table": written(tmp_path / "other.csv", 2, models + 1, items),
        "warm": table,
    }
    print(f"\n{models * items * 2:,} responses")
    rows = []
    for name, command in contestants.items():
        for state, given in states.items():
            wall, used = seconds([*command, str(given)], tmp_path / name)
            rows.append((name, state, round(wall, 1), round(used, 1)))
            print(*rows[-1], flush=True)
    found = pd.DataFrame(rows, columns=["contestant", "cache", "wall s", "processor s"])
    by = found.set_index(["cache", "contestant"])["processor s"].unstack()
    ratios = {f"Bambi / {name}": by["Bambi"] / by[name] for name in ("fit", "fit --draws auto")}
    print(by.assign(**ratios).round(2).to_string())
    assert (by > 0).all(axis=None)
