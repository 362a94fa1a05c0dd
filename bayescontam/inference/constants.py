"""Compiled functions whose constants are arguments, so that tables of other sizes find them.

PyTensor stores what numba compiled under a key of all operations and constants, and a model's
constants are its table: counts, indices, sizes. With constants as arguments the key is that of the
model's form. The first fit of another table then loads what an earlier one compiled, as its second
fit would (``benchmarks/test_first_fit.py``).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from pytensor.compile import mode as modes
from pytensor.configdefaults import config
from pytensor.graph.basic import Constant, clone_get_equiv
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import graph_inputs
from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS
from pytensor.link.numba.dispatch.basic import numba_funcify_and_cache_key, numba_njit
from pytensor.link.numba.linker import NumbaLinker
from pytensor.scalar.basic import ScalarType
from pytensor.tensor.type import TensorType

from bayescontam.inference.linking import WHOLE

MODE = "NUMBA"
"""The mode of PyTensor by whose name nutpie compiles."""
INLINING = "local_inline_composite_constants"
"""What writes numbers into loops, those of models and benchmarks among them."""


class WithConstants:
    """A compiled function, and the constants that are the last of its arguments."""

    def __init__(self, function: Any, constants: list[np.ndarray | np.generic]) -> None:
        self.function, self.constants = function, constants

    def __call__(self, *given: Any) -> Any:
        """Call the function from Python, for which it is compiled once more."""
        return self._from_python(*given, *self.constants)

    @cached_property
    def _from_python(self) -> Any:
        return numba_njit(self.function.py_func, final_function=True)


class _Linker(NumbaLinker):
    """PyTensor's linker, but constants become arguments just before numba compiles."""

    def fgraph_convert(self, fgraph: Any, *, order: Any, **given: Any) -> Any:  # type: ignore[override]
        constants = [
            each
            for each in graph_inputs(fgraph.outputs)
            if isinstance(each, Constant) and isinstance(each.type, TensorType | ScalarType)
        ]
        copies: dict[Any, Any] = {each: each.type() for each in constants}
        clone_get_equiv(fgraph.inputs, fgraph.outputs, memo=copies)
        graph = FunctionGraph(
            [copies[each] for each in (*fgraph.inputs, *constants)],
            [copies[each] for each in fgraph.outputs],
            clone=False,
        )
        # In the order of the original, which heeds what is computed in place.
        given |= {"order": [copies[node] for node in order], "storage_map": {}}
        given["fgraph_name"] = WHOLE
        return numba_funcify_and_cache_key(graph, **given), [_value(each) for each in constants]

    def jit_compile(self, converted: Any) -> WithConstants:
        (function, key), constants = converted
        whole, stored = function.py_func, key is not None and config.numba__cache
        if stored:
            # PyTensor stores a function that calls this one: LLVM then optimises all code twice.
            # The name of its temporary file would be part of the key.
            whole.__code__ = whole.__code__.replace(co_filename="<string>")
            CACHED_SRC_FUNCTIONS[whole] = f"{key}_arguments_fastmath{int(config.numba__fastmath)}"
        # Not for Python: what unpacks a hundred constants takes numba seconds to compile.
        return WithConstants(numba_njit(whole, cache=stored), constants)


def _value(constant: Any) -> np.ndarray | np.generic:
    """Return a constant's value in the form that all tables share.

    Arrays are in C order. PyTensor gives an index the smallest unsigned type that holds it; sizes
    may not show there either.
    """
    if isinstance(constant.type, TensorType):
        narrow = constant.type.dtype in ("uint8", "uint16")
        return np.array(constant.data, "uint32" if narrow else None, order="C")
    value = np.asarray(constant.data, constant.type.dtype)[()]
    return np.int64(value) if value.dtype.kind in "iu" else value


@contextmanager
def constants_as_arguments() -> Iterator[None]:
    """Have nutpie get functions of PyTensor's `MODE` as `WithConstants`."""
    theirs = modes.predefined_modes[MODE]
    rewrites = theirs.provided_optimizer.excluding(INLINING)
    modes.predefined_modes[MODE] = modes.Mode(_Linker(), rewrites)
    try:
        yield
    finally:
        modes.predefined_modes[MODE] = theirs
