"""Logs that the tools themselves wrote, made once for all tests."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "support"


def _written(tool: str, script: str, folder: Path) -> Path:
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run(
        [sys.executable, SCRIPTS / script, folder],
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.fixture(scope="session")
def lm_eval_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that was --output_path of lm_eval; see `write_lm_eval`."""
    folder = tmp_path_factory.mktemp("lm_eval") / "made"
    return _written("lm_eval", "write_lm_eval.py", folder) / "out"


@pytest.fixture(scope="session")
def inspect_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that was --log-dir of Inspect; see `write_inspect`."""
    return _written("inspect_ai", "write_inspect.py", tmp_path_factory.mktemp("inspect"))
