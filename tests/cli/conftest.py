"""The command line run in this process, and one fit that the tests share."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

from bayescontam.__main__ import main
from bayescontam.inference.result import Fit
from tests.support.endpoints import server, short_waits
from tests.support.pages import undrawn

__all__ = ["FEW_DRAWS", "NAMES", "Done", "server", "short_waits", "undrawn"]

NAMES = [
    "<script>alert(1)</script>",
    "x" * 10_000,
    "two\nlines\ttab\x1b[31mred\x07\0\x9b31m\r",
    "Case",
    "case",
    "[bold]markup[/bold] $x_1^2$",
]
"""Models of the shared fit."""
FEW_DRAWS = ("--draws", "200", "--tune", "200", "--chains", "2")


@dataclass(frozen=True)
class Done:
    """What a run of the command line left behind."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put back afterwards what the command line sets for its process."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    garbage = gc.get_threshold()
    yield
    gc.set_threshold(*garbage)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no stage last long enough for a line, however busy the machine is."""
    monkeypatch.setattr("bayescontam._progress.PATIENCE", 600.0)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Give a function that runs the command line on its arguments."""

    def call(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["bayescontam", *map(str, arguments)])
        capsys.readouterr()
        status: object = 0
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
        assert isinstance(status, int)
        return Done(status, *capsys.readouterr())

    return call


def command(*arguments: object, cwd: Path, **options: str) -> subprocess.CompletedProcess[bytes]:
    """Run the installed command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "bayescontam", *map(str, arguments)],
        cwd=cwd,
        env=environment(**options),
        capture_output=True,
        timeout=300,
        check=False,
    )


def environment(**options: str) -> dict[str, str]:
    """Return this process's environment with `options`, and without pytest's traces."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "COLUMNS": "80", **options}


def hostile_table(path: Path) -> Path:
    """Write responses of the models in `NAMES` to one benchmark of 12 items."""
    rng = np.random.default_rng(1)
    rows = [
        {
            "model": model,
            "benchmark": "quiz\x1b[2J",
            "item": f"item {i}",
            "correct": int(rng.random() < 0.3 + 0.05 * i),
            "contamination": (i % 4) / 4,
        }
        for model in NAMES
        for i in range(12)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Made:
    """The shared fit: its file, and how the command that made it ended."""

    path: Path
    arguments: tuple[str, ...]
    done: subprocess.CompletedProcess[bytes]

    @cached_property
    def fit(self) -> Fit:
        """What is in the file, not to be changed."""
        return Fit.from_netcdf(self.path)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Fit the hostile table once, in a process of its own, with --strict and --seed 7."""
    folder = tmp_path_factory.mktemp("hostile")
    table = hostile_table(folder / "responses.jsonl")
    arguments = (
        *("fit", table.name, "-m", "single", "--out", "fit.nc", "--seed", "7", "--strict"),
        *FEW_DRAWS,
    )
    return Made(folder / "fit.nc", arguments, command(*arguments, cwd=folder))
