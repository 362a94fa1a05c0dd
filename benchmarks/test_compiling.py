"""Compiling a model for nutpie, first in a process, and its gradient: ours against nutpie's own.

Run by ``make bench``. Compilation is measured in processor time, which depends less on what else
the machine does, each in processes of its own, by turns, with PyTensor's cache warm; gradients by
turns in one process.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import nutpie
import pymc as pm
import pytest

import bayescontam as bc
from bayescontam.evidence.curve_model import build_curve
from bayescontam.inference.batched import labelled
from bayescontam.inference.compiling import compile_model
from bayescontam.inference.prior_sampling import sample_by_pymc, sample_prior
from bayescontam.specs.registry import load_curve
from benchmarks.test_curve_recovery import design
from benchmarks.test_scale import simulated
from tests.support.compiled_model import density_of
from tests.support.simulated_responses import simulate

SCRIPT = """
import sys, time
import nutpie
from bayescontam.inference import compiling
from bayescontam.inference.compiling import compile_model
from bayescontam.data.responses import Responses
from bayescontam.model.build import build
from bayescontam.specs.registry import load_model
from tests.support.compiled_model import density_of
from tests.support.simulated_responses import simulate

table = Responses.from_frame(simulate(seed=1, models=5, items=50).responses)
model = build(load_model("hierarchical"), table).model
if sys.argv[1] == "linked":  # as with a numba that is not known
    compiling.KNOWN_NUMBA = (0, 0)
start = time.process_time()
(nutpie.compile_pymc_model if sys.argv[1] == "nutpie" else compile_model)(model)
print(time.process_time() - start)
"""
ROUNDS = 3


def report_medians(what: str, cache: Path, empty: bool) -> None:
    """Compile in processes of their own, by turns, and print the median of each contestant."""
    seconds: dict[str, list[float]] = {"ours": [], "linked": [], "nutpie": []}
    for turn in range(ROUNDS + (not empty)):
        for name, found in seconds.items():
            folder = cache / (f"{name}{turn}" if empty else "shared")
            run = subprocess.run(
                [sys.executable, "-c", SCRIPT, name],
                capture_output=True,
                text=True,
                check=True,
                env=os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={folder}"},
            )
            if empty or turn:  # the first fills PyTensor's cache
                found.append(float(run.stdout))
    ours, linked, theirs = (float(np.median(found)) for found in seconds.values())
    print(
        f"\n{what}: compile_model {ours:.1f} s; as with an unknown numba {linked:.1f} s,"
        f" {linked / ours:.2f} times as long; nutpie {theirs:.1f} s, {theirs / ours:.2f} times"
    )
    assert theirs > ours


@pytest.mark.slow
def test_the_first_model_of_a_process(tmp_path: Path) -> None:
    report_medians("warm cache", tmp_path, empty=False)


@pytest.mark.slow
def test_with_an_empty_cache(tmp_path: Path) -> None:
    report_medians("empty cache", tmp_path, empty=True)


@pytest.mark.slow
def test_prior_draws() -> None:
    model = of_spec("hierarchical")(Path())
    names = [name for name in model.named_vars if name != "n_correct"]
    contestants = {"at once": sample_prior, "by PyMC": sample_by_pymc}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(ROUNDS + 1):
        for name, draw in contestants.items():
            start = time.process_time()
            draw(model, names, 2000, np.random.default_rng(turn))
            if turn:
                seconds[name].append(time.process_time() - start)
    ours, theirs = (float(np.median(found)) for found in seconds.values())
    print(f"\n2,000 prior draws: {ours:.2f} s, PyMC {theirs:.2f} s, {theirs / ours:.1f} times")
    assert theirs > ours


def of_spec(spec: str, models: int = 5, items: int = 50, **options: Any) -> Callable[[Path], Any]:
    def make(_: Path) -> pm.Model:
        table = simulate(seed=1, models=models, items=items).responses
        if spec == "ability":
            table = table.drop(columns="contamination")
        return bc.build_model(spec, table, **options)

    return make


def integrated_out(folder: Path) -> pm.Model:
    table = simulated(52_800, folder / "simulated.parquet")
    return bc.build_model("hierarchical", table, difficulties="marginalised")


def of_a_curve(_: Path) -> pm.Model:
    return build_curve(load_curve("monotone"), design(np.random.default_rng(1))).model


MODELS = {
    "hierarchical, 500 responses": of_spec("hierarchical"),
    "hierarchical, 6,400 responses": of_spec("hierarchical", 8, 400),
    "hierarchical, 52,800 responses, difficulties integrated out": integrated_out,
    "a curve of 300 pairs": of_a_curve,
}


def gradient_of(compiled: Any) -> Callable[[], float]:
    """Return a call of a compiled model's density and gradient, which returns its seconds."""
    density = density_of(compiled)
    x = np.random.default_rng(0).normal(0, 0.3, density.n_dim)  # type: ignore[attr-defined]

    def seconds() -> float:
        start = time.perf_counter()
        for _ in range(20):
            assert density(x)[0] == 0
        return (time.perf_counter() - start) / 20

    return seconds


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_gradient(name: str, tmp_path: Path) -> None:
    model = MODELS[name](tmp_path)
    calls = {
        "ours": gradient_of(compile_model(model)),
        "nutpie": gradient_of(nutpie.compile_pymc_model(model)),
    }
    found: dict[str, list[float]] = {each: [] for each in calls}
    for _ in range(60):
        for each, call in calls.items():
            found[each].append(call())
    ours, theirs = (1e6 * float(np.median(times)) for times in found.values())
    print(f"\n{name}: {ours:,.0f} µs, nutpie {theirs:,.0f} µs, {theirs / ours:.2f} times as long")
    assert theirs > ours


FITS = {
    **{spec: of_spec(spec) for spec in (
        "ability", "hierarchical", "monotone", "positive", "additive", "two_parameter",
        "interaction",
    )},
    "hierarchical, difficulties integrated out": of_spec(
        "hierarchical", difficulties="marginalised"
    ),
    "a curve": of_a_curve,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_the_same_posterior(name: str, tmp_path: Path) -> None:
    model = FITS[name](tmp_path)
    options = {"draws": 2000, "tune": 1000, "chains": 4, "cores": 2, "target_accept": 0.95}
    ours = labelled(model, compile_model(model).sample(seed=0, **options)[0])
    compiled = nutpie.compile_pymc_model(model)
    tree = nutpie.sample(compiled, seed=1, progress_bar=False, **options)
    theirs = tree["posterior"].to_dataset()
    names = [var.name for var in model.free_RVs]
    means = [drawn[names].mean(("chain", "draw")) for drawn in (ours, theirs)]
    errors = [az.mcse(drawn[names]) for drawn in (ours, theirs)]
    shift = (means[0] - means[1]) / np.hypot(*errors)
    shifts = np.abs(np.concatenate([shift[each].to_numpy().ravel() for each in names]))
    print(f"\n{name}: of {shifts.size} means the largest shift is {shifts.max():.1f} errors")
    # A thousand means or so: 4e-6 is the chance that one is this far off if all are the same.
    assert shifts.max() < 6
