"""Benchmarks are no part of the test suite, but each of them must at least load."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_benchmark_can_be_collected() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-n", "0", "benchmarks"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout
    assert "benchmarks/test_report.py::" in done.stdout
