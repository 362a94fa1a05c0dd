"""Large tables: half a million real responses, and 10⁴ to 10⁷ simulated ones.

Run by ``make bench``. Each fit runs in a process of its own, whose peak of memory is reported.
``BAYESCONTAM_SCALE`` (default 10000,100000,1000000,10000000) are the sizes.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from tests.support.real_data import shared

MODELS, BENCHMARKS = 12, 11
SIZES = [
    int(n) for n in os.environ.get("BAYESCONTAM_SCALE", "10000,100000,1000000,10000000").split(",")
]
LIMITS = {"BAYESCONTAM_MAX_CELLS": "100000000"}  # a table of 10⁷ rows has five columns
RUN = """
import json, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import bayescontam
options = json.loads(sys.argv[3])
fit = bayescontam.fit(Path(sys.argv[1]), "hierarchical", seed=1, **options)
fit.to_netcdf(sys.argv[2])
used = time.process_time()
checks = {c.name: c.value for c in fit.checks()}
from tests.support.memory import peak_memory
print("RESULT" + json.dumps({
    "processor": used, **fit.record["seconds"],
    "ess of estimands": min(checks[f"{k} ESS of estimands"] for k in ("Bulk",)),
    "ess of parameters": checks["Bulk ESS of parameters"],
    "divergences": checks["divergences"],
    "error": checks.get("Difficulties integrated out"),
    "memory": peak_memory() / 2**30,
}))
"""


def run(table: Path, **options) -> dict:
    """Fit a table in a process of its own."""
    out, started = table.with_suffix(".nc"), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(table), str(out), json.dumps(options)],
        capture_output=True, text=True, check=False, timeout=7200, env=os.environ | LIMITS,
    )  # fmt: skip
    taken = time.perf_counter() - started  # from the start of Python to the end of it
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, done.stderr[-2000:]
    found = json.loads(lines[0].removeprefix("RESULT"))
    return {"seconds": taken} | found | {"file": out.stat().st_size / 1e6}


def reported(result: dict) -> str:
    return "  ".join(
        f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in result.items()
    )


def real(path: Path) -> Path:
    """Write the responses with contamination drawn for each item, which the data lack."""
    table = pd.read_parquet(shared("llm_benchmarks.parquet"))
    items = table[["benchmark", "item"]].drop_duplicates()
    items["contamination"] = np.random.default_rng(0).beta(0.5, 1.5, len(items))
    table.merge(items).to_parquet(path)
    return path


def simulated(size: int, path: Path) -> Path:
    """Write responses drawn from the default model."""
    rng = np.random.default_rng(size)
    items = size // (MODELS * BENCHMARKS)
    theta = rng.normal(0, 1, (MODELS, 1, 1)) + rng.normal(0, 0.5, (MODELS, BENCHMARKS, 1))
    d = rng.beta(0.5, 1.5, (1, BENCHMARKS, items))
    slope = 1 + rng.normal(0, 0.3, (MODELS, 1, 1))
    delta = rng.normal(0, 1.5, (1, BENCHMARKS, items))
    correct = rng.random((MODELS, BENCHMARKS, items)) < expit(theta + slope * d - delta)
    m, b, i = np.indices(correct.shape).reshape(3, -1)
    names = {"model": (m, "m", MODELS), "benchmark": (b, "b", BENCHMARKS), "item": (i, "i", items)}
    columns = {
        name: pd.Categorical.from_codes(codes, [f"{letter}{k}" for k in range(count)])
        for name, (codes, letter, count) in names.items()
    }
    dose = np.broadcast_to(d, correct.shape).ravel()
    pd.DataFrame(columns | {"correct": correct.ravel() * 1, "contamination": dose}).to_parquet(path)
    return path


@pytest.mark.timeout(7200)
def test_half_a_million_real_responses(tmp_path: Path) -> None:
    result = run(real(tmp_path / "real.parquet"), chains=2, draws=600, tune=300)
    print("\n502,452 responses: " + reported(result))
    assert result["divergences"] == 0
    assert result["ess of estimands"] >= 400
    assert result["ess of parameters"] >= 200
    assert result["memory"] < 6
    assert result["file"] < 200


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("size", SIZES)
def test_time_and_memory_of_simulated_responses(size: int, tmp_path: Path) -> None:
    table = simulated(size, tmp_path / "simulated.parquet")
    options = {"chains": 2, "draws": 300, "tune": 300, "difficulties": "marginalised"}
    result = run(table, **options)
    print(f"\n{size:,} responses: " + reported(result))
    assert result["divergences"] == 0
    assert result["error"] < 0.05
