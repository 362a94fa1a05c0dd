"""Simulation-based calibration of one model in several hands, timed."""

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bayescontam.calibration.runner import ReplicateRunner
from bayescontam.calibration.simulators import simulator_of
from bayescontam.calibration.study import Cell, Plan, plan_of
from bayescontam.inference.convergence import convergence
from bayescontam.model.build import build
from bayescontam.specs.study import StudySpec

STUDY = """
summary = "400 responses of 8 models to 50 items."
replicates = 1
audit = 0.0
quantities = ["parameters"]
simulator = {{ kind = "prior", model = "hierarchical" }}
design = {{ models = 8, items = 50 }}
sampling = {{ {sampling} }}
[[estimators]]
name = "hierarchical"
model = "hierarchical"
"""
RANKED = ("mu", "sigma_theta", "theta", "beta_bar", "sigma_bm", "beta", "sigma_delta")
"""What everyone's ESS is taken of; difficulties of items are ranked by simuk alone."""
Clock = tuple[float, float]


def planned(sampling: str) -> tuple[Plan, Cell]:
    """Return the plan of the study, and its only cell."""
    plan = plan_of(StudySpec.parse(STUDY.format(sampling=sampling), "rates.toml"), Path())
    return plan, plan.cells[0]


def clock() -> Clock:
    """Return seconds of a processor, of this process and of its own, and seconds passed."""
    own, others = (
        resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    used = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
    return used, time.perf_counter()


def result(ess: list[float], times: list[Clock]) -> dict[str, Any]:
    """Return seconds by processor and by the clock, the first of them apart, and ESS."""
    processor, passed = np.diff(np.array(times), axis=0).T.tolist()
    return {"processor": processor, "passed": passed, "ess": ess}


def ours(sampling: str) -> Callable[[int], dict[str, Any]]:
    """Return what makes replicates as a worker of `bayescontam study run` does."""

    def run(number: int) -> dict[str, Any]:
        replicates, ess, times = ReplicateRunner(*planned(sampling)), [], [clock()]
        for replicate in range(number):
            rows = replicates.rows(replicate)
            times.append(clock())
            ess.append(float(rows.loc[rows["quantity"].isin(RANKED), "ess"].min()))
        return result(ess, times)

    return run


def simuk(**sample: Any) -> Callable[[int], dict[str, Any]]:
    """Return what runs simuk on the very model that is fitted here."""

    def run(number: int) -> dict[str, Any]:
        from simuk import SBC

        plan, cell = planned("")
        built = build(plan.specs["hierarchical"], simulator_of(plan, cell)("first").responses)
        times = [clock()]
        study = SBC(built.model, num_simulations=number, seed=1, sample_kwargs=dict(sample))
        study.progress_bar = False
        study.run_simulations()
        times.append(clock())
        assert len(study.posteriors) == number
        return result([_smallest(fit) for fit in study.posteriors], times)

    return run


def _smallest(fit: Any) -> float:
    """Return the smallest bulk ESS of a fit."""
    chains = fit.unstack("sample")
    draws = [chains[name].transpose("chain", "draw", ...).to_numpy() for name in RANKED]
    flat = np.concatenate([each.reshape(*each.shape[:2], -1) for each in draws], axis=2)
    return float(np.nanmin(convergence(flat, only=["ess_bulk"])["ess_bulk"]))


CONTESTANTS = {
    "simuk, its defaults": simuk(),
    "simuk, nutpie": simuk(nuts_sampler="nutpie"),
    "simuk, pymc": simuk(nuts_sampler="pymc"),
    "pymc": ours('engine = "pymc"'),
    "nutpie": ours('engine = "nutpie"'),
    "jax": ours('engine = "jax", tune = 200'),
}


def on_one_core(name: str, number: int) -> dict[str, Any]:
    """Run a contestant on one core of this process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return CONTESTANTS[name](number)
