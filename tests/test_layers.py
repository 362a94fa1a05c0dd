"""Imports go from higher rows to lower ones, and never between certain neighbours."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "bayescontam"

ROWS = {
    "bounds": 0,
    "errors": 0,
    "levels": 0,
    "mismatches": 0,
    "names": 0,
    "optional": 0,
    "seeds": 0,
    "storage": 0,
    "execute": 0,
    "progress": 0,
    "specs": 1,
    "responses": 1,
    "covariates": 1,
    "dates": 1,
    "judgements": 1,
    "judged": 1,
    "given": 1,
    "guessing": 1,
    "written": 1,
    "columns": 1,
    "rows": 1,
    "scores": 1,
    "importers": 1,
    "scan": 2,
    "inference": 2,
    "evidence": 3,
    "calibration": 3,
    "reproduction": 4,
    "report": 4,
    "api": 5,
    "updating": 5,
    "demo": 5,
    "demo_scan": 5,
    "scanning": 5,
    "weighing": 5,
    "cli": 5,
    "__main__": 5,
    "": 5,  # bayescontam/__init__.py
}
"""Row by the first part of a module's path inside the package."""

STRANGERS = [{"scan", "inference"}, {"evidence", "calibration"}]
"""Neighbours in a row that never import each other."""


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part(module: str) -> str:
    """Return the first part of a module's path inside the package."""
    return module.removeprefix(PACKAGE).removeprefix(".").split(".")[0]


def imported(path: Path, module: str, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Give line and name of every module of the package that the file imports anywhere."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        for name in targets(node, module, path.name == "__init__.py", modules):
            if name == PACKAGE or name.startswith(PACKAGE + "."):
                yield node.lineno, name


def targets(node: ast.AST, module: str, is_package: bool, modules: set[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        source = node.module or ""
        if node.level:
            above = module.split(".")
            above = above[: len(above) - node.level + is_package]
            source = ".".join([*above, *([source] if source else [])])
        inside = [f"{source}.{alias.name}" for alias in node.names]
        return [name if name in modules else source for name in inside]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in {"import_module", "__import__"}:
            return [str(node.args[0].value)]
    return []


def violations(root: Path) -> list[str]:
    """List what breaks the rule in the package below `root`."""
    paths = {module_name(path, root): path for path in sorted((root / PACKAGE).rglob("*.py"))}
    found = [f"{module}: has no row" for module in paths if part(module) not in ROWS]
    for module, path in paths.items():
        here = part(module)
        for line, name in imported(path, module, set(paths)):
            there = part(name)
            if here not in ROWS or there not in ROWS:
                problem = "has no row" if there not in ROWS else ""
            elif ROWS[there] > ROWS[here]:
                problem = f"is in row {ROWS[there]}, below row {ROWS[here]}"
            elif here != there and any({here, there} == pair for pair in STRANGERS):
                problem = f"must stay unknown to {here}/"
            else:
                problem = ""
            if problem:
                found.append(f"{path.relative_to(root)}:{line}: imports {name}, which {problem}")
    return found


def test_imports_keep_to_the_rows() -> None:
    assert (ROOT / PACKAGE / "errors.py").exists()
    assert violations(ROOT) == []


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"__init__.py": "", "errors.py": "", **files}.items():
        path = root / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("inference/fit.py", "from bayescontam.errors import FitError"),
        ("report/page.py", "import bayescontam.inference.pipeline"),
        ("__init__.py", "from bayescontam.cli import fit"),
        ("specs/model.py", "from bayescontam.data.responses import Responses"),
        ("scan/run.py", "from bayescontam.scan import read"),
        ("scan/run.py", "from .embed import Embedder"),
        ("errors.py", "from bayescontam import names"),
        ("seeds.py", "import numpy, bayescontamination"),
    ],
)
def test_allowed_imports_pass(tmp_path: Path, file: str, text: str) -> None:
    assert violations(plant(tmp_path, {"names.py": "", file: text})) == []


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("errors.py", "import bayescontam.data.responses", "row 1, below row 0"),
        ("responses.py", "from bayescontam.report.fit_page import page", "row 4, below row 1"),
        ("specs/model.py", "from bayescontam import inference", "row 2, below row 1"),
        ("report/page.py", "from bayescontam import fit", "row 5, below row 4"),
        ("names.py", "def f():\n    from bayescontam.cli import fit", "row 5, below row 0"),
        ("specs/model.py", "from ..report import page", "row 4, below row 1"),
        ("specs/__init__.py", "from ..scan.run import run", "row 2, below row 1"),
        ("seeds.py", "import importlib\nimportlib.import_module('bayescontam.cli')", "row 5"),
        ("scan/run.py", "from bayescontam.inference.pipeline import fit", "unknown to scan/"),
        ("inference/fit.py", "import bayescontam.scan.run", "unknown to inference/"),
        ("evidence/judge.py", "from bayescontam import calibration", "unknown to evidence/"),
        ("calibration/sbc.py", "import bayescontam.evidence", "unknown to calibration/"),
        ("report/page.py", "import bayescontam.helpers", "has no row"),
    ],
)
def test_planted_violations_are_found(tmp_path: Path, file: str, text: str, problem: str) -> None:
    folders = ("inference", "calibration", "report", "scan", "cli", "evidence")
    packages = {f"{folder}/__init__.py": "" for folder in folders}
    found = violations(plant(tmp_path, {**packages, file: text}))
    assert len(found) == 1
    assert found[0].startswith(f"{PACKAGE}/{file}:")
    assert problem in found[0]


def test_a_module_without_a_row_is_found(tmp_path: Path) -> None:
    found = violations(plant(tmp_path, {"helpers.py": "", "more/thing.py": ""}))
    assert found == ["bayescontam.helpers: has no row", "bayescontam.more.thing: has no row"]
