"""The value of an expression of parameters and estimands, draw by draw."""

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import expit, logit

from bayescontam._text import printable
from bayescontam._types import FloatArray
from bayescontam.specs.study import Expression, position

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}


def _over_cells(function: Callable[..., Any]) -> Callable[[Any], Any]:
    def applied(values: Any) -> Any:
        if np.ndim(values) == 0:  # of a number alone
            return function(values)
        return function(values.reshape(len(values), -1), axis=1)

    return applied


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "logistic": expit,
    "logit": logit,
    "mean": _over_cells(np.mean),
    "sum": _over_cells(np.sum),
    "min": _over_cells(np.min),
    "max": _over_cells(np.max),
    "sd": _over_cells(np.std),
}


def evaluated(expression: Expression, values: Mapping[str, FloatArray]) -> FloatArray:
    """Return the value of an expression for every draw.

    Dims (draw,).

    >>> evaluated(Expression("mean(beta) - beta[0]"), {"beta": np.array([[1.0, 3.0], [2.0, 2.0]])})
    array([1., 0.])
    """
    draws = len(values[min(expression.names)])
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(_value(expression.body, values), dtype=float)
    except (IndexError, ValueError, RecursionError) as error:
        raise ValueError(f"{printable(expression.text, 80)!r}: {error}") from error
    if result.size != draws:
        raise ValueError(
            f"{expression.text!r} has several values for each draw; choose one by its position,"
            " or take their mean"
        )
    return result.reshape(draws)


def _aligned(left: Any, right: Any) -> tuple[Any, Any]:
    """Return two operands so that draws meet draws, and one value meets all cells."""
    most = max(np.ndim(left), np.ndim(right))
    if min(np.ndim(left), np.ndim(right)) > 1 and left.shape[1:] != right.shape[1:]:
        shapes = f"{left.shape[1:]} and {right.shape[1:]}"
        raise ValueError(f"cells of two shapes, {shapes}; choose single ones by position")
    raised = [
        each.reshape(*each.shape, *(1,) * (most - each.ndim)) if np.ndim(each) else each
        for each in (left, right)
    ]
    return raised[0], raised[1]


def _value(node: ast.AST, values: Mapping[str, FloatArray]) -> Any:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](*_aligned(_value(left, values), _value(right, values)))
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](_value(operand, values))
        case ast.Call(func=ast.Name(id=name), args=[only]):
            return _FUNCTIONS[name](_value(only, values))
        case ast.Subscript(value=ast.Name(id=name), slice=place):
            cell: Any = (slice(None), *position(place))
            return values[name][cell]
        case ast.Name(id=name):
            return values[name]
        case ast.Constant(value=int() | float() as value):
            return float(value)
    raise TypeError(f"no value of {node!r}")
