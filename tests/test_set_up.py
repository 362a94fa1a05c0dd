"""Set-up by uv, by pip where uv is no help, and what it prints meanwhile."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "tools" / "set_up.py"


@pytest.fixture
def set_up() -> ModuleType:
    spec = importlib.util.spec_from_file_location("set_up", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("own_index", "failing", "used"),
    [
        (False, "", ["uv, by pip", "packages, by uv"]),
        (False, "uv, by pip", ["uv, by pip", "packages, by pip"]),
        (False, "packages, by uv", ["uv, by pip", "packages, by uv", "packages, by pip"]),
        (True, "", ["packages, by pip"]),
    ],
)
def test_pip_installs_where_uv_does_not(
    set_up: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    own_index: bool,
    failing: str,
    used: list[str],
) -> None:
    calls: dict[str, list[str]] = {}

    def run(title: str, command: list[str]) -> bool:
        calls[title] = command
        return title != failing

    monkeypatch.setattr(set_up, "run", run)
    monkeypatch.setattr(set_up, "pip_has_an_index_of_its_own", lambda: own_index)
    assert set_up.install([".[scan]"])
    assert list(calls) == used
    last = calls[used[-1]]
    assert last[-4:] == ["-c", "constraints.txt", "-e", ".[scan]"]


def test_a_long_step_is_reported_and_its_failure_too(
    set_up: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(set_up, "EVERY", 0.2)
    assert not set_up.run("wait", [sys.executable, "-c", "import time; time.sleep(1); exit(3)"])
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "  wait ..."
    assert "so far" in lines[1]
    assert lines[-1].startswith("  wait: failed after ")


@pytest.mark.parametrize(
    ("variable", "own"), [("PIP_INDEX_URL", True), ("PIP_EXTRA_INDEX_URL", False)]
)
def test_an_index_of_pip_is_seen(
    set_up: ModuleType, monkeypatch: pytest.MonkeyPatch, variable: str, own: bool
) -> None:
    for name in ("PIP_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv(variable, "https://index.example/simple")
    assert set_up.pip_has_an_index_of_its_own() is own
