"""A quantity as a formula of parameters and estimands: parsed, and evaluated draw by draw."""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from bayescontam._text import printable
from bayescontam._types import FloatArray


def _over_cells(function: Callable[..., Any]) -> Callable[[Any], Any]:
    def applied(values: Any) -> Any:
        if np.ndim(values) == 0:  # of a number alone
            return function(values)
        return function(values.reshape(len(values), -1), axis=1)

    return applied


def _of_scipy(name: str) -> Callable[[Any], Any]:
    def applied(values: Any) -> Any:
        from scipy import special  # not to be loaded where specs are only read

        return getattr(special, name)(values)

    return applied


OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.true_divide,
    ast.Pow: np.power, ast.USub: np.negative, ast.UAdd: np.positive,
}  # fmt: skip
"""Operators that an expression may have."""
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "abs": np.abs,
    "logistic": _of_scipy("expit"), "logit": _of_scipy("logit"),
    "mean": _over_cells(np.mean), "sum": _over_cells(np.sum), "min": _over_cells(np.min),
    "max": _over_cells(np.max), "sd": _over_cells(np.std),
}  # fmt: skip
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

    def evaluate(self, values: Mapping[str, FloatArray]) -> FloatArray:
        """Return its value for every draw, dims (draw,), from those of its names, (draw, …).

        >>> Expression("mean(beta) - beta[0]").evaluate({"beta": np.array([[1.0, 3.0]])})
        array([1.])
        """
        draws = len(values[min(self.names)])
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(_value(self.body, values), dtype=float)
        except (IndexError, ValueError, RecursionError) as error:
            raise ValueError(f"{printable(self.text, 80)!r}: {error}") from error
        if result.size != draws:
            raise ValueError(
                f"{self.text!r} has several values for each draw; choose one by its position,"
                " or take their mean"
            )
        return result.reshape(draws)


def _names(node: ast.AST, text: str) -> Iterator[str]:
    """Yield the names in a formula; refuse whatever is no part of one."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            yield from _names(left, text)
            yield from _names(right, text)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
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


def _position(node: ast.AST) -> tuple[Any, ...]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return tuple(part.value if isinstance(part, ast.Constant) else None for part in parts)


def _value(node: ast.AST, values: Mapping[str, FloatArray]) -> Any:
    """Return the value of a part of a formula that was checked, dims (draw, …)."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](*_aligned(_value(left, values), _value(right, values)))
        case ast.UnaryOp(op=op, operand=operand):
            return OPERATORS[type(op)](_value(operand, values))
        case ast.Call(func=ast.Name(id=name), args=[only]):
            return FUNCTIONS[name](_value(only, values))
        case ast.Subscript(value=ast.Name(id=name), slice=place):
            return values[name][(slice(None), *_position(place))]
        case ast.Name(id=name):
            return values[name]
        case ast.Constant(value=int() | float() as value):
            return float(value)
    raise TypeError(f"no value of {node!r}")


def _aligned(left: Any, right: Any) -> list[Any]:
    """Return two operands so that draws meet draws, and one value meets all cells."""
    most = max(np.ndim(left), np.ndim(right))
    if min(np.ndim(left), np.ndim(right)) > 1 and left.shape[1:] != right.shape[1:]:
        shapes = f"{left.shape[1:]} and {right.shape[1:]}"
        raise ValueError(f"cells of two shapes, {shapes}; choose single ones by position")
    return [
        each.reshape(*each.shape, *(1,) * (most - each.ndim)) if np.ndim(each) else each
        for each in (left, right)
    ]
