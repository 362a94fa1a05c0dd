"""Functions that LLVM copies into a model's graph have no machine code, and are the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary
from pytensor import config
from pytensor.link.numba import cache
from pytensor.link.numba.dispatch import basic

from bayescontam.inference import compiling, linking
from bayescontam.inference.compiling import compile_model
from bayescontam.inference.linking import machine_code_of_whole_graphs
from tests.support.compiled_model import density_of

CALLED = 8
"""Most functions that nutpie needs by their address, and their wrappers."""


def model() -> pm.Model:
    with pm.Model() as made:
        x = pm.Normal("x", shape=3)
        pm.Potential("bounded", -(pt.arcsinh(x).sum() ** 2))
        pm.Normal("y", pt.tanh(x).mean(), observed=[0.1, 0.7])
    return made


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return how many libraries were linked, and of how many there is machine code."""
    counts = {"linked": 0, "machine code": 0}
    finalize, specific = CPUCodeLibrary.finalize, JITCodeLibrary._finalize_specific

    def linked(library: Any) -> None:
        counts["linked"] += 1
        finalize(library)

    def made(library: Any) -> None:
        counts["machine code"] += 1
        specific(library)

    monkeypatch.setattr(CPUCodeLibrary, "finalize", linked)
    monkeypatch.setattr(JITCodeLibrary, "_finalize_specific", made)
    return counts


@pytest.mark.parametrize("known", [True, False])
def test_machine_code_is_of_whole_graphs_alone(
    known: bool, libraries: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a numba that is not known, all functions have it."""
    if not known:
        monkeypatch.setattr(compiling, "KNOWN_NUMBA", (0, 1))
    with config.change_flags(numba__cache=False):
        compiled = compile_model(model())
    assert libraries["linked"] > 3 * CALLED
    assert (libraries["machine code"] <= CALLED) == known
    point = np.array([0.3, -0.2, 1.1])
    status, found, gradient = density_of(compiled)(point)
    assert status == 0
    logp, slope = model().compile_logp(mode="FAST_COMPILE"), model().compile_dlogp(
        mode="FAST_COMPILE"
    )  # fmt: skip
    assert found == pytest.approx(logp({"x": point}), rel=1e-12)
    np.testing.assert_allclose(gradient, slope({"x": point}), rtol=1e-12)


def test_pytensor_reads_what_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "NUMBA_CACHE_PATH", tmp_path)
    compile_model(model())
    forms, restore = [], vars(CPUCodeLibrary)["_unserialize"].__func__

    def watched(kind: type, codegen: Any, state: tuple[str, str, Any]) -> Any:
        forms.append(state[1])
        return restore(kind, codegen, state)

    monkeypatch.setattr(CPUCodeLibrary, "_unserialize", classmethod(watched))
    point = {"x": np.array([0.3, -0.2, 1.1])}
    found, wanted = (model().compile_logp(mode=mode) for mode in ("NUMBA", "FAST_COMPILE"))
    assert found(point) == pytest.approx(wanted(point), rel=1e-12)
    assert "bitcode" in forms


def test_an_operation_may_be_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices of one byte and of two are of one type for numba, of two for PyTensor."""
    monkeypatch.setattr(cache, "NUMBA_CACHE_PATH", tmp_path)
    for form in (pt.tanh, pt.arctan):  # the second finds the operations of the first
        with pm.Model() as indexing:
            x = pm.Normal("x", shape=300)
            pm.Potential("product", form(x[3]) * form(x[290]))
        point = np.random.default_rng(0).normal(size=300)
        status, found, _ = density_of(compile_model(indexing))(point)
        assert status == 0
        wanted = indexing.compile_logp(mode="FAST_COMPILE")({"x": point})
        assert found == pytest.approx(wanted, rel=1e-12)


def test_equal_operations_are_one_function() -> None:
    x, rows = pt.vector("x"), pt.matrix("rows")
    nodes = [pt.exp(each).owner for each in (x, pt.vector("y", shape=(4,)), rows)]
    theirs = basic.numba_funcify_ensure_cache
    with machine_code_of_whole_graphs():
        same, again, other = (
            basic.numba_funcify_ensure_cache(node.op, node=node)[0] for node in nodes
        )
    assert same is again
    assert same is not other
    assert basic.numba_funcify_ensure_cache is theirs


def test_parts_of_numba_are_put_back() -> None:
    before = {owner: dict(vars(owner)) for owner in linking._parts()}
    with machine_code_of_whole_graphs():
        changed = [owner for owner in before if dict(vars(owner)) != before[owner]]
    assert changed == list(before)
    with pytest.raises(ZeroDivisionError), machine_code_of_whole_graphs():
        _ = 1 / 0
    assert {owner: dict(vars(owner)) for owner in before} == before


def test_environments_are_in_place() -> None:
    compile_model(model())
    assert not any(
        codegen._engine.is_symbol_defined(name) for codegen, name, _ in linking._environments
    )
