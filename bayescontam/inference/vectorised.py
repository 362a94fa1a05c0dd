"""Elementary functions that compiled loops compute for several numbers at a time.

PyTensor compiles ``exp``, ``log1p`` and their like to calls of the C library, one number after
another: most of the time of a gradient. A vector library could not be used: numba's wheels are
built without Intel's SVML, and LLVM does not replace the calls that numba makes by those of glibc's
libmvec. The functions below consist of arithmetic alone, which LLVM does for 4 or 8 numbers at
once. ``tests/inference/test_vectorised.py`` holds their errors below 4 units in the last place;
``benchmarks/test_compiling.py`` measures what they save.

Range reduction as by Cody & Waite (1980), Software Manual for the Elementary Functions, and
`fdlibm <https://www.netlib.org/fdlibm/>`__; the polynomials are the functions' own series.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
from pytensor.link.numba.dispatch import basic
from pytensor.scalar.basic import Composite, Exp, Expm1, Log, Log1p
from pytensor.scalar.math import Sigmoid, Softplus

_SOURCE = sha256(Path(__file__).read_bytes()).hexdigest()
"""Part of the keys under which PyTensor stores what it compiled: another source, another key."""
_LOG2_E = 1.4426950408889634
_LN2, _LN2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""log(2) in two parts; the first ends with 32 zeros, so that small multiples of it are exact."""
_ROUNDS, _ROUNDS_BITS = 6755399441055744.0, 0x4338000000000000
"""1.5 × 2⁵²: its sum with a number has the integer next to that in its lowest bits."""
_EXP = tuple(1 / factorial(k) for k in range(13, 1, -1))
_ATANH = tuple(2 / (2 * k + 1) for k in range(16, 0, -1))
_SHORT_ATANH = _ATANH[5:]  # for |x| below 0.18, not 1/3
"""Coefficients of exp(x) - 1 - x over x², and of log((1 + x) / (1 - x)) - 2x over x³ in x²."""
_MANTISSA, _BIAS = np.uint64(52), np.uint64(2**63)
"""Bits of a double below its exponent; 2048 as an exponent, so that none is negative."""
_SQRT_HALF_BITS, _POWER_52_BITS = np.uint64(0x3FE6A09E667F3BCD), np.uint64(0x4330000000000000)
"""The square root of 1/2 and 2⁵² as bits."""
_SMALLEST, _POWER_54 = 2.2250738585072014e-308, 2.0**54
"""The smallest normal number, and what makes smaller ones normal."""

# Without an error for a division by zero, which would stop the loop; and with a product and a sum
# as one operation where the processor has it. Inlined, because a loop with calls is not vectorised.
_jit = basic.numba_njit(fastmath={"contract"}, error_model="numpy", forceinline=True)


@_jit
def _polynomial(x: float, coefficients: Any) -> float:
    """Return a polynomial's value; the coefficient of the highest power is the first."""
    value = coefficients[0]
    for k in range(1, len(coefficients)):
        value = value * x + coefficients[k]
    return value


@_jit
def _power_of_two(n: int) -> float:
    return np.int64((n + 1023) << 52).view(np.float64)


@_jit
def _exp_parts(x: float) -> tuple[float, float, float]:
    """Return two powers of two and expm1(r), where exp(x) is both times exp(r)."""
    rounded = x * _LOG2_E + _ROUNDS
    n = rounded - _ROUNDS
    r = (x - n * _LN2) - n * _LN2_REST
    half = np.float64(n * 0.5 + _ROUNDS).view(np.int64) - _ROUNDS_BITS
    rest = np.float64(rounded).view(np.int64) - _ROUNDS_BITS - half
    return _power_of_two(half), _power_of_two(rest), _polynomial(r, _EXP) * r * r + r


@_jit
def exp(x: float) -> float:
    """Return e to the power of x."""
    # Beyond these all is 0 or infinite. NaN passes.
    x = -760.0 if x < -760.0 else x
    x = 720.0 if x > 720.0 else x
    first, second, more = _exp_parts(x)
    return (more + 1.0) * first * second


@_jit
def expm1(x: float) -> float:
    """Return exp(x) - 1."""
    x = -50.0 if x < -50.0 else x
    x = 720.0 if x > 720.0 else x
    first, second, more = _exp_parts(x)
    # Near 0 the sum would lose digits; where the 1 is too small to count, powers may overflow.
    near = more * first * second + (first * second - 1.0)
    return near if x < 50.0 else (more + 1.0) * first * second


@_jit
def _log_parts(x: float) -> tuple[float, float]:
    """Return n and m, where x = 2ⁿ m and m is in [sqrt(1/2), sqrt(2)); x is positive and normal."""
    bits = np.uint64(np.float64(x).view(np.int64))
    n = (bits - _SQRT_HALF_BITS + _BIAS) >> _MANTISSA  # the exponent and 2048
    exponent = np.int64(n | _POWER_52_BITS).view(np.float64) - (2.0**52 + 2048.0)
    return exponent, np.int64(bits - (n << _MANTISSA) + _BIAS).view(np.float64)


@_jit
def _log_of_quotient(s: float, coefficients: Any) -> float:
    """Return log((1 + s) / (1 - s)) by its series."""
    z = s * s
    return _polynomial(z, coefficients) * (s * z) + 2.0 * s


@_jit
def log(x: float) -> float:
    """Return the natural logarithm; -inf of 0, NaN below."""
    subnormal = x < _SMALLEST
    n, m = _log_parts(x * _POWER_54 if subnormal else x)
    n = n - 54.0 if subnormal else n
    value = n * _LN2 + (n * _LN2_REST + _log_of_quotient((m - 1.0) / (m + 1.0), _SHORT_ATANH))
    value = x if x == np.inf else value
    value = -np.inf if x == 0.0 else value
    return np.nan if (x < 0.0) | (x != x) else value


@_jit
def log1p(x: float) -> float:
    """Return log(1 + x); -inf of -1, NaN below."""
    whole = 1.0 + x
    n, m = _log_parts(whole)
    lost = (x - (whole - 1.0)) / whole
    value = _log_of_quotient((m - 1.0) / (m + 1.0), _SHORT_ATANH) + (n * _LN2_REST + lost)
    value = n * _LN2 + value
    value = x if (whole == 1.0) | (x == np.inf) else value
    value = -np.inf if x == -1.0 else value
    return np.nan if (x < -1.0) | (x != x) else value


@_jit
def sigmoid(x: float) -> float:
    """Return 1 / (1 + exp(-x))."""
    e = exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@_jit
def softplus(x: float) -> float:
    """Return log(1 + exp(x))."""
    e = exp(-abs(x))
    # No logarithm of a number in (1, 2] needs its exponent.
    return (0.0 if x < 0.0 else x) + _log_of_quotient(e / (e + 2.0), _ATANH)


FUNCTIONS: dict[type, Callable[[float], float]] = {
    Exp: exp, Expm1: expm1, Log: log, Log1p: log1p, Sigmoid: sigmoid, Softplus: softplus,
}  # fmt: skip
"""What takes the place of PyTensor's own, by the scalar operation."""
PARTS = ("numba_njit", "numba_funcify_and_cache_key", "register_funcify_and_cache_key")
"""Of PyTensor's compilation for numba, what has to be there; without it nothing is replaced."""


@contextmanager
def converted_by(ours: Mapping[type, Callable[..., Any]]) -> Iterator[None]:
    """Have PyTensor convert operations for numba by other functions than its own."""
    theirs = {op: basic.numba_funcify_and_cache_key.dispatch(op) for op in ours}
    try:
        for op, convert in ours.items():
            basic.register_funcify_and_cache_key(op)(convert)
        yield
    finally:
        for op, original in theirs.items():
            basic.register_funcify_and_cache_key(op)(original)


@contextmanager
def vectorised_functions() -> Iterator[None]:
    """Have PyTensor compile with these functions in the place of its own, for doubles."""
    if not all(hasattr(basic, name) for name in PARTS):
        yield
        return
    theirs = {op: basic.numba_funcify_and_cache_key.dispatch(op) for op in (*FUNCTIONS, Composite)}
    njit, inlining = basic.numba_njit, False

    def numba_njit(*args: Any, **options: Any) -> Any:
        if inlining and not options.get("final_function"):
            options.setdefault("forceinline", True)
        return njit(*args, **options)

    def ours(op: Any, node: Any = None, **given: Any) -> tuple[Any, str | None]:
        if any(of.type.dtype != "float64" for of in (*node.inputs, *node.outputs)):
            return theirs[type(op)](op, node=node, **given)
        return FUNCTIONS[type(op)], _key(type(op).__name__)

    def composite(op: Any, node: Any = None, **given: Any) -> tuple[Any, str | None]:
        """Inline all of a loop's body that computes such functions."""
        nonlocal inlining
        if not any(type(of.op) in FUNCTIONS for of in op.fgraph.apply_nodes):
            return theirs[Composite](op, node=node, **given)
        inlining = True
        try:
            function, key = theirs[Composite](op, node=node, **given)
        finally:
            inlining = False
        return function, None if key is None else _key(key)

    basic.numba_njit = numba_njit
    try:
        with converted_by(dict.fromkeys(FUNCTIONS, ours) | {Composite: composite}):
            yield
    finally:
        basic.numba_njit = njit


def _key(name: str) -> str:
    """Return the key under which PyTensor stores what it compiled with these functions."""
    return sha256(f"{_SOURCE} {name}".encode()).hexdigest()
