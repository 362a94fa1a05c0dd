"""Seconds and ESS of a simulation, ranks included: the engines of studies, and simuk.

Run by ``make bench-all``; with its 200 replicates (``BAYESCONTAM_REPLICATES``) it takes two to
five hours on one core, nearly all of them simuk's. ``BAYESCONTAM_KEEP`` names a folder in
which each contestant's figures are stored, so that an interrupted run of the same code is
resumed. One model for all: `hierarchical`, 8 models × 50 items. Each contestant has a process and a
core of its own. Seconds are those of the processor, since others may use it too; on an idle
core the clock says the same.
"""

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayescontam
from bayescontam._files import atomic_path
from bayescontam.calibration.estimators import NutpieSampler, SampledDraws
from bayescontam.calibration.simulators import simulator_of
from bayescontam.inference.convergence import convergence
from bayescontam.inference.reusable import ReusableModel
from bayescontam.specs.registry import load_model
from bayescontam.specs.study import SamplingSpec
from benchmarks.sbc_contestants import CONTESTANTS, planned

REPLICATES = int(os.environ.get("BAYESCONTAM_REPLICATES", "200"))
KEEP = os.environ.get("BAYESCONTAM_KEEP")
DEFAULT = "simuk, its defaults"
SPEC = load_model("hierarchical")
SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
from benchmarks.sbc_contestants import on_one_core
print("RESULT" + json.dumps(on_one_core(sys.argv[1], int(sys.argv[2]))))
"""


def run(name: str) -> dict[str, Any]:
    """Run one contestant in a process of its own, unless its figures are stored."""
    plain = name.replace(", ", "-").replace(" ", "-")
    kept = Path(KEEP or ".") / f"{plain}-{REPLICATES}-{code()}.json"
    if KEEP and kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name, str(REPLICATES)],
        capture_output=True, text=True, check=False, timeout=6 * 3600,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, done.stderr[-2000:]
    result: dict[str, Any] = json.loads(lines[0].removeprefix("RESULT"))
    if KEEP:
        with atomic_path(kept) as part:
            part.write_text(json.dumps(result))
    print(f"{name}: {sum(result['processor']):.0f} s", flush=True)
    return result


def code() -> str:
    """Return what distinguishes this version of the package from others."""
    folder = Path(bayescontam.__file__).parent
    files = sorted(folder.rglob("*.py"))
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


@pytest.mark.timeout(6 * 3600)
def test_seconds_and_effective_draws_of_a_simulation() -> None:
    print()
    results = {name: run(name) for name in CONTESTANTS}
    print(table(results))
    # Guards against collapse, far from the goals: docs/reference/performance.md has the ratios.
    assert seconds(results[DEFAULT]) > 2 * later(results["nutpie"])
    assert seconds(results[DEFAULT]) > 4 * later(results["jax"])
    assert np.median(results["jax"]["ess"]) > np.median(results[DEFAULT]["ess"]) / 2


def seconds(result: dict[str, Any]) -> float:
    """Return seconds of the processor for a simulation, what is compiled once included."""
    return sum(result["processor"]) / len(result["ess"])


def later(result: dict[str, Any]) -> float:
    """Return the same once all is compiled; simuk, which is timed as a whole, compiles anew."""
    first, *others = result["processor"]
    return float(np.mean(others)) if others else first / len(result["ess"])


def table(results: dict[str, Any]) -> str:
    columns = (
        "contestant", "once compiled, s", "compilation included, s", "the same by the clock, s",
        "times as fast as simuk", "smallest ESS: median", "its tenth", "ESS a second",
    )  # fmt: skip
    lines = ["", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for name, r in results.items():
        ess, tenth = np.median(r["ess"]), np.quantile(r["ess"], 0.1)
        lines.append(
            f"| {name} | {later(r):.3f} | {seconds(r):.3f} | {sum(r['passed']) / len(r['ess']):.3f}"
            f" | {seconds(results[DEFAULT]) / seconds(r):.1f} | {ess:.0f} | {tenth:.0f}"
            f" | {ess / later(r):.0f} |"
        )
    return "\n".join(lines)


def test_engines_agree_on_every_parameter() -> None:
    from bayescontam.calibration.estimators import JaxSampler

    table = simulator_of(*planned(""))(0).responses
    ours = JaxSampler(ReusableModel(SPEC, table, False)).draw(
        table, 1, SamplingSpec(draws=4000, tune=300)
    )
    theirs = NutpieSampler(ReusableModel(SPEC, table, False)).draw(
        table, 1, SamplingSpec(draws=4000)
    )
    assert list(ours.posterior) == list(theirs.posterior)
    for name, values in theirs.posterior.items():
        assert ours.posterior[name].dims == values.dims
        (mean, error), (other, its) = figures(ours, name), figures(theirs, name)
        assert (np.abs(mean - other) < 4.5 * np.hypot(error, its)).all()


def figures(drawn: SampledDraws, name: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return means and their Monte Carlo errors."""
    sizes = drawn.posterior.sizes
    draws = drawn.posterior[name].to_numpy().reshape(sizes["chain"], sizes["draw"], -1)
    ess = convergence(draws, only=["ess_bulk"])["ess_bulk"]
    return draws.mean(axis=(0, 1)), draws.std(axis=(0, 1)) / np.sqrt(ess)
