"""Print the size and shape of the package: files, lines, who imports whom.

Run as ``python tools/house.py``. What contributors hold to stands in CONTRIBUTING.md.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

PACKAGE = Path(__file__).resolve().parents[1] / "bayescontam"


def modules(package: Path) -> dict[str, Path]:
    """Return the files of a package by the names of their modules."""
    paths = sorted(package.rglob("*.py"))
    names = (".".join((package.name, *p.relative_to(package).with_suffix("").parts)) for p in paths)
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


def imported(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """Yield the modules of the package that a file imports anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield from {whole if whole in known else node.module} & known
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & known


def main() -> None:
    """Print the counts."""
    paths = modules(PACKAGE)
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    lines = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in paths.items()
    }
    edges = {name: {*imported(tree, set(paths))} - {name} for name, tree in trees.items()}
    importers, classes = defaultdict(set), defaultdict(list)
    for name, others in edges.items():
        for other in others:
            importers[other].add(name)
        for node in trees[name].body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(name)
    content = [size for size in lines.values() if size > 1]
    largest = sorted(lines, key=lambda name: -lines[name])[:5]
    once = sorted(name for name in paths if len(importers[name]) == 1)
    both = sorted((a, b) for a in edges for b in edges[a] if a < b and a in edges[b])
    shared = {name: found for name, found in sorted(classes.items()) if len(found) > 1}
    print(f"{len(paths)} files, {sum(lines.values()):,} lines, median {median(content):.0f}")
    print("largest:", ", ".join(f"{name} {lines[name]}" for name in largest))
    print(f"{len(once)} with one importer:", ", ".join(once))
    print(f"{len(both)} pairs that import each other anywhere:", both)
    print(f"{len(shared)} names of several classes:", ", ".join(shared))


if __name__ == "__main__":
    main()
