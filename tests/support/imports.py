"""What a file imports, by its syntax tree."""

import ast
from collections.abc import Iterator


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a file imports when it is loaded, not inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        types_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not isinstance(node, functions) and not types_only:
            yield from imports(node)
