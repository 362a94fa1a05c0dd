"""Compiling a model for nutpie, first in a process: ours against nutpie's own.

Run by ``make bench``. Processor time, which depends less on what else the machine does; each in
processes of its own, by turns, with PyTensor's cache warm.
"""

import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import sys, time
import nutpie
from bayescontam.inference.compiling import compile_model
from bayescontam.data.responses import Responses
from bayescontam.model.build import build
from bayescontam.specs.registry import load_model
from tests.support.simulated_responses import simulate

table = Responses.from_frame(simulate(seed=1, models=5, items=50).responses)
model = build(load_model("hierarchical"), table).model
start = time.process_time()
(compile_model if sys.argv[1] == "ours" else nutpie.compile_pymc_model)(model)
print(time.process_time() - start)
"""
ROUNDS = 3


@pytest.mark.slow
def test_the_first_model_of_a_process() -> None:
    seconds: dict[str, list[float]] = {"ours": [], "nutpie": []}
    for turn in range(ROUNDS + 1):
        for name, found in seconds.items():
            run = subprocess.run(
                [sys.executable, "-c", SCRIPT, name], capture_output=True, text=True, check=True
            )
            if turn:  # the first fills PyTensor's cache
                found.append(float(run.stdout))
    ours, theirs = (float(np.median(found)) for found in seconds.values())
    print(f"\ncompile_model {ours:.1f} s, nutpie {theirs:.1f} s, {theirs / ours:.2f} times as long")
    assert theirs > ours
