"""A folder imports from those before it, and no two files import each other."""

import ast
from pathlib import Path

import pytest

from tests.support.imports import imports

PACKAGE = Path(__file__).resolve().parents[1] / "bayescontam"
ORDER = (
    "_types", "_text", "_format", "errors", "_optional", "_random", "_files", "_bounds",
    "_progress", "_runs", "parallel", "budget", "endpoint", "replies",
    "specs", "data", "arc", "model", "inference", "updating", "power", "scan", "evidence",
    "duplicates", "lab", "calibration", "published", "report", "cli", "__main__",
)  # fmt: skip
"""Folders, and files beside them, in import order."""


def graph(package: Path) -> dict[str, set[str]]:
    """Return for each module of a package the modules of it that it imports."""
    paths = {
        ".".join((package.name, *path.relative_to(package).with_suffix("").parts)): path
        for path in package.rglob("*.py")
    }
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    return {name: {m for m in imports(tree) if m in paths} for name, tree in trees.items()}


def faults(package: Path) -> list[str]:
    """Name the imports that climb, and the pairs of files that import each other."""
    found, edges = [], graph(package)
    for name, others in edges.items():
        for other in others - {package.name}:
            here, there = (m.split(".")[1] if "." in m else "__main__" for m in (name, other))
            if here not in ORDER or there not in ORDER:
                found.append(f"{here} or {there} has no place in the order of imports")
            elif ORDER.index(there) > ORDER.index(here):
                found.append(f"{name} imports {other}, which comes later")
            if name in edges[other] and name < other:
                found.append(f"{name} and {other} import each other")
    return found


def test_folders_import_from_those_before_them() -> None:
    assert faults(PACKAGE) == []


def test_test_files_do_not_import_from_one_another() -> None:
    """What several of them use is in ``tests/support``."""
    found = [
        f"{path.name}: {module}"
        for path in Path(__file__).parent.rglob("*.py")
        for module in imports(ast.parse(path.read_text(encoding="utf-8")))
        if module.startswith("tests.") and module.rsplit(".", 1)[-1].startswith("test_")
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("from bayescontam.cli import app", "bayescontam.model.b imports"),
        ("import bayescontam.report.page", "bayescontam.model.b imports"),
        ("from bayescontam.model.a import x", "import each other"),
        ("def f():\n    from bayescontam.cli import app", ""),
        ("from bayescontam.specs import s", ""),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, text: str, fault: str) -> None:
    planted = {
        "__init__": "", "cli/__init__": "", "cli/app": "", "report/page": "", "specs/s": "",
        "model/a": "import bayescontam.model.b" if "model.a" in text else "", "model/b": text,
    }  # fmt: skip
    for name, content in planted.items():
        path = tmp_path / "bayescontam" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    found = faults(tmp_path / "bayescontam")
    assert (fault in " ".join(found)) if fault else found == []
