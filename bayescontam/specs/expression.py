"""A quantity as a formula of parameters and estimands, parsed."""

import ast
from collections.abc import Iterator

from bayescontam._text import printable

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd)
"""Operators that an expression may have."""
FUNCTIONS = (
    "exp", "log", "sqrt", "abs", "logistic", "logit", "mean", "sum", "min", "max", "sd",
)  # fmt: skip
"""Functions that it may call; the last five run over all cells of a quantity."""
_LARGEST = 1e300
"""Magnitude of numbers, so that they are floats."""


class Expression:
    """A formula of names, numbers, ``+ - * / **``, positions from 0 in brackets and `FUNCTIONS`.

    >>> sorted(Expression("mean(beta) - theta[0, 1]").names)
    ['beta', 'theta']
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.body = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise ValueError(f"{printable(text, 80)!r} is no formula") from error
        try:
            self.names = frozenset(_names(self.body, printable(text, 80)))
        except RecursionError as error:
            raise ValueError(f"{printable(text, 80)!r} is too long a formula") from error
        if not self.names:
            raise ValueError(f"{printable(text, 80)!r} names no quantity")


def _names(node: ast.AST, text: str) -> Iterator[str]:
    """Yield the names in a formula; refuse whatever is no part of one."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, OPERATORS):
            yield from _names(left, text)
            yield from _names(right, text)
        case ast.UnaryOp(op=op, operand=operand) if isinstance(op, OPERATORS):
            yield from _names(operand, text)
        case ast.Call(func=ast.Name(id=name), args=[only], keywords=[]) if name in FUNCTIONS:
            yield from _names(only, text)
        case ast.Call(func=ast.Name(id=name)):
            allowed = ", ".join(FUNCTIONS)
            raise ValueError(f"{text!r}: no function {name!r} of one argument; allowed: {allowed}")
        case ast.Subscript(value=ast.Name(id=name), slice=place):
            if not all(type(part) is int and part >= 0 for part in _position(place)):
                raise ValueError(f"{text!r}: a position is a whole number from 0, or several")
            yield name
        case ast.Name(id=name):
            yield name
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            if abs(value) > _LARGEST:
                raise ValueError(f"{text!r}: numbers are at most {_LARGEST:g}")
        case _:
            raise ValueError(
                f"{text!r} is no formula of names, numbers, + - * / **, positions such as"
                " theta[0, 1] and functions of one argument"
            )


def _position(node: ast.AST) -> tuple[object, ...]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return tuple(part.value if isinstance(part, ast.Constant) else None for part in parts)


def position(node: ast.AST) -> tuple[int, ...]:
    """Return the position that stands in brackets of a formula that was checked."""
    return tuple(part for part in _position(node) if isinstance(part, int))
