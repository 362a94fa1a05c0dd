"""Machine code for whole graphs alone, not for each of the functions that are copied into them.

A graph of PyTensor is compiled as a function that calls one for each operation, which calls
others. LLVM copies them all into the graph's and optimises it there, yet numba optimises each of
them in full first, makes machine code of it that nobody calls, and does both again as often as the
operation occurs, whenever it finds one in PyTensor's cache. Without that the first compilation of a
model takes a quarter less time (``benchmarks/test_compiling.py``). What is stored is LLVM's
bitcode, which numba, and so PyTensor, reads by itself too.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch
from weakref import ReferenceType, WeakKeyDictionary, ref

from numba.core import codegen as compiler
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary, JITCPUCodegen
from pytensor.configdefaults import config
from pytensor.link.numba.dispatch import basic
from pytensor.tensor.type import TensorType

WHOLE = "whole_graph"
"""Name of functions that are called by their address; of them there is machine code."""
_COPIED: WeakKeyDictionary[CPUCodeLibrary, bool] = WeakKeyDictionary()
"""Code that is only copied elsewhere, and whether it is optimised in full, as what is stored is."""
_environments: list[tuple[JITCPUCodegen, str, ReferenceType[Any]]] = []
"""What functions need beside their code, until there is a place for it in machine code."""


@contextmanager
def machine_code_of_whole_graphs() -> Iterator[None]:
    """Have numba compile for whole graphs, and PyTensor each operation of a model once."""
    with ExitStack() as stack:
        for owner, parts in _parts().items():
            for name, part in parts.items():
                stack.enter_context(patch.object(owner, name, part))
        yield
        _place_environments()


def _parts() -> dict[Any, dict[str, Any]]:
    """Return what takes the place of parts of numba and PyTensor, by their owner and name."""
    pointer = JITCodeLibrary.get_pointer_to_function
    optimise, finish = CPUCodeLibrary._optimize_final_module, CPUCodeLibrary._finalize_final_module
    object_code = CPUCodeLibrary.serialize_using_object_code
    restore, place = vars(CPUCodeLibrary)["_unserialize"].__func__, JITCPUCodegen.set_env

    def get_pointer_to_function(library: Any, name: str) -> int:
        # numba looks for a wrapper for Python, for whose sake it would compile to the end.
        lacking = not library._finalized and not _defines(library, name)
        return 0 if lacking or library in _COPIED else pointer(library, name)

    def add_linking_library(library: Any, other: Any) -> None:
        if not other._finalized:
            _prepare(other, in_full=False)
        library._linking_libraries.append(other)

    def has_dynamic_globals(library: Any) -> bool:
        # It is the first that numba looks up of what it is about to store.
        if not library._finalized and library.name != WHOLE:
            _prepare(library, in_full=True)
        library._ensure_finalized()
        return len(library._dynamic_globals) > 0

    def serialize_using_object_code(library: Any) -> tuple[str, str, Any]:
        return library.serialize_using_bitcode() if library in _COPIED else object_code(library)

    def _unserialize(kind: type, codegen: Any, state: tuple[str, str, Any]) -> Any:
        name, form, code = state
        if form != "bitcode":
            return restore(kind, codegen, state)
        library = codegen.create_library(name)
        _COPIED[library] = True
        library._final_module = compiler.ll.parse_bitcode(code)  # type: ignore[attr-defined]
        library._finalized = True
        return library

    def _optimize_final_module(library: Any) -> None:
        if _COPIED.get(library, True):
            optimise(library)
        else:
            # As numba begins: functions that this code calls are copied into it.
            passes, builder = library._codegen._module_pass_manager(
                loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
            )
            passes.run(library._final_module, builder)

    def _finalize_final_module(library: Any) -> None:
        if library in _COPIED:
            library._finalize_dynamic_globals()
            library._verify_declare_only_symbols()
            library._finalized = True
        else:
            finish(library)

    def set_env(codegen: Any, name: str, environment: Any) -> None:
        if codegen._engine.is_symbol_defined(name):
            place(codegen, name, environment)
        else:
            _environments.append((codegen, name, ref(environment)))

    return {
        JITCodeLibrary: {"get_pointer_to_function": get_pointer_to_function},
        CPUCodeLibrary: {
            "add_linking_library": add_linking_library,
            "has_dynamic_globals": property(has_dynamic_globals),
            "serialize_using_object_code": serialize_using_object_code,
            "_unserialize": classmethod(_unserialize),
            "_optimize_final_module": _optimize_final_module,
            "_finalize_final_module": _finalize_final_module,
        },
        JITCPUCodegen: {"set_env": set_env},
        basic: {"numba_funcify_ensure_cache": _once(basic.numba_funcify_ensure_cache)},
    }


def _defines(library: CPUCodeLibrary, name: str) -> bool:
    try:
        library._final_module.get_function(name)
    except NameError:
        return False
    return True


def _prepare(library: CPUCodeLibrary, in_full: bool) -> None:
    """Make a library ready to be copied into others."""
    _COPIED[library] = in_full
    library.finalize()


def _place_environments() -> None:
    """Set the environments of functions that are part of machine code by now."""
    waiting = _environments[:]
    _environments.clear()
    for codegen, name, reference in waiting:
        environment = reference()  # none where nothing holds the function any longer
        if environment is None:
            continue
        if codegen._engine.is_symbol_defined(name):
            codegen.set_env(name, environment)
        else:
            _environments.append((codegen, name, reference))


def _once(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Return PyTensor's conversion of operations, but of equal ones to one function."""
    found: dict[Any, Any] = {}

    def converted(op: Any, *given: Any, node: Any = None, **options: Any) -> tuple[Any, str | None]:
        function, key = theirs(op, *given, node=node, **options)
        if key is None or node is None:
            return function, key
        # The key by which functions are stored leaves types to numba, as static shapes.
        types = tuple(
            (of.type.dtype, of.type.ndim) if isinstance(of.type, TensorType) else of.type
            for of in node.inputs
        )
        return found.setdefault((key, types, config.numba__fastmath), function), key

    return converted
