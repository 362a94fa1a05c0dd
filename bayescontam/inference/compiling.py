"""Compile PyMC models for nutpie, in less time and to faster functions than nutpie by itself."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
import pymc as pm
from numba.extending import intrinsic
from numba.np.numpy_support import carray
from pymc import initial_point

from bayescontam._optional import arviz_without_pictures
from bayescontam._progress import stage
from bayescontam.inference.batched import Expansion
from bayescontam.inference.compiled import CompiledModel
from bayescontam.inference.constants import WithConstants, constants_as_arguments
from bayescontam.inference.linking import machine_code_of_whole_graphs
from bayescontam.inference.sums import sums_by_loops
from bayescontam.inference.vectorised import vectorised_functions

with arviz_without_pictures():
    from nutpie import compile_pymc

WRAPPERS = ("_make_c_logp_func", "_make_c_expand_func")
"""Functions of nutpie that wrap what PyTensor compiled for its sampler."""
KNOWN_NUMBA = (0, 68)
"""The newest numba whose internals `_by_address` is known to fit."""
_lock = threading.Lock()


def compile_model(model: pm.Model, progress: bool = False) -> CompiledModel:
    """Compile a PyMC model to be sampled by nutpie.

    The density is that of ``nutpie.compile_pymc_model`` but for its last digits, which are
    computed by `vectorised_functions`. What draws store beside the values that are sampled is not
    compiled; an `Expansion` computes it afterwards. nutpie 0.16 copies gradients and draws by
    ``out[...] = values``, for which numba also compiles the text of an error about shapes, once
    in each process: a third of the time for a table of 500 responses
    (``benchmarks/test_compiling.py``). Its wrappers are therefore replaced, while it compiles, by
    some that copy in a loop, and call what PyTensor compiled where it lies in memory: numba would
    take a copy into each wrapper and compile that again. A nutpie without such wrappers compiles
    in its own way.
    """
    with stage(progress, "compiling the model"), _lock, ExitStack() as changed:
        if _wrappers_are_known():
            ours: Any = dict(zip(WRAPPERS, (_log_density, _expansion), strict=True))
            changed.enter_context(patch.multiple(compile_pymc, **ours))
            if _numba_is_known():
                changed.enter_context(constants_as_arguments())
                changed.enter_context(machine_code_of_whole_graphs())
        changed.enter_context(vectorised_functions())
        changed.enter_context(sums_by_loops())
        changed.enter_context(_one_initial_point())
        density = compile_pymc.compile_pymc_model(model, var_names=[])
        return CompiledModel(density, Expansion(model))


@contextmanager
def _one_initial_point() -> Iterator[None]:
    """Have PyMC compile initial values once: nutpie wants them a second time for their shapes."""
    theirs, made = initial_point.make_initial_point_fn, list[Any]()

    def ours(**given: Any) -> Any:
        if not made:
            made.append(theirs(**given))
        return made[0]

    with patch.object(initial_point, "make_initial_point_fn", ours):
        yield


def _wrappers_are_known() -> bool:
    return all(hasattr(compile_pymc, name) for name in (*WRAPPERS, "make_extraction_fn"))


def _numba_is_known() -> bool:
    return numba.version_info[:2] <= KNOWN_NUMBA


def _log_density(
    n_dim: int, inner: Any, user_data: Any, keys: list[str], shared: dict[str, Any]
) -> tuple[Callable[..., int], Any]:
    """Return the C function of the log density and its gradient, to be compiled, and its type."""
    given = compile_pymc.make_extraction_fn(_by_address(inner), shared, keys, user_data.dtype)
    types = numba.types
    doubles = types.CPointer(types.double)
    signature = types.int64(types.uint64, doubles, doubles, doubles, types.voidptr)

    def log_density(dim, x_, gradient, value, data):  # type: ignore[no-untyped-def]
        if dim != n_dim:
            return -1
        try:
            found, slope = given(carray(x_, (n_dim,)), data)
            finite = True
            for i in range(n_dim):
                gradient[i] = slope[i]
                finite &= np.isfinite(slope[i])
            value[0] = found.item()
            if not finite:
                return 3
            if not np.isfinite(value[0]):
                return 4
        except Exception:
            return 1
        return 0

    return log_density, signature


def _expansion(n_dim: int, n_expanded: int, *_: Any) -> tuple[Callable[..., int], Any]:
    """Return the C function of what a draw stores, to be compiled, and its type: a copy."""
    types = numba.types
    doubles = types.CPointer(types.double)
    signature = types.int64(types.uint64, types.uint64, doubles, doubles, types.voidptr)

    def expansion(dim, expanded, x_, out, data):  # type: ignore[no-untyped-def]
        if dim != n_dim or expanded != n_expanded or expanded != dim:
            return -1
        for i in range(n_dim):
            out[i] = x_[i]
        return 0

    return expansion, signature


def _by_address(inner: Any) -> Any:
    """Return a function for numba that calls a compiled one by its address, with its constants.

    It is that function itself with a numba that is newer than those tried.
    """
    if not isinstance(inner, WithConstants):
        return inner
    from numba.core.cgutils import if_unlikely, unpack_tuple

    function, constants = inner.function, inner.constants
    kinds = [numba.typeof(each) for each in constants]

    @intrinsic
    def call(_: Any, given: Any) -> tuple[Any, Callable[..., Any]]:
        _, _, types, _ = function.get_call_template((*given, *kinds), {})  # which compiles it
        compiled = function.overloads[types]
        described = compiled.fndesc
        starred = isinstance(types[0], numba.types.BaseTuple)

        def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
            convention = context.call_conv
            kind = convention.get_function_type(described.restype, described.argtypes)
            # Found by name; PyTensor makes names unique, in its cache too (numba's issue 10486).
            address = compiled.library.get_pointer_to_function(described.llvm_func_name)
            assert address, "numba has lost a function that it compiled"
            number = context.get_constant(numba.types.intp, address)
            values = [
                *unpack_tuple(builder, args[0]),
                *(_literal(context, builder, *each) for each in zip(kinds, constants, strict=True)),
            ]
            # What PyTensor caches takes one tuple (`*args`), other functions each argument.
            status, value = convention.call_function(
                builder,
                builder.inttoptr(number, kind.as_pointer()),
                described.restype,
                described.argtypes,
                [context.make_tuple(builder, types[0], values)] if starred else values,
            )
            with if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return value

        return compiled.signature.return_type(given), generate

    @numba.njit(forceinline=True)
    def called(*given):  # type: ignore[no-untyped-def]
        return call(given)  # type: ignore[call-arg]  # numba gives the other one

    return called


def _literal(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a constant for compiled code: a number itself, an array by its address."""
    from numba.np.arrayobj import make_array, populate_array

    if not isinstance(kind, numba.types.Array):
        return context.get_constant(kind, value.item())
    sizes = {
        name: [context.get_constant(numba.types.intp, n) for n in getattr(value, name)]
        for name in ("shape", "strides")
    }
    address = context.get_constant(numba.types.intp, value.ctypes.data)
    array = make_array(kind)(context, builder)
    populate_array(
        array,
        data=builder.inttoptr(address, array.data.type),
        itemsize=context.get_constant(numba.types.intp, value.itemsize),
        meminfo=None,
        **sizes,
    )
    return array._getvalue()
