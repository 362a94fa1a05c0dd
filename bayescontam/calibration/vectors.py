"""Vectors: a PyMC model as functions of one vector, for JAX."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.scalar.math import Softplus
from pytensor.tensor.elemwise import Elemwise

from bayescontam.calibration.grids import lay_out


class Vectors:
    """Log density and variables of a model, where all free variables are one vector.

    The vector is in the sampler's coordinates. Functions are JAX's own and not compiled:
    they can be differentiated, and mapped over vectors and over data.

    Not by ``pymc.sampling.jax``, which takes data for constants and, when it is imported,
    makes a hundred devices of one processor.
    """

    def __init__(self, model: pm.Model, data: Sequence[str]) -> None:
        start = model.initial_point(0)
        self._shapes = [np.shape(start[value.name]) for value in model.value_vars]
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        self._ends = np.cumsum(sizes).tolist()
        self.size: int = self._ends[-1]
        outputs = {var.name: var for var in model.unobserved_value_vars}
        self.names = [name for name in outputs if not name.endswith("__")]
        self._density = _function(model, [model.logp()], data)
        self._outputs = _function(model, [outputs[name] for name in self.names], data)

    def log_density(self, vector: Any, data: Sequence[Any]) -> Any:
        """Return the log density, −∞ where a parameter is out of its range."""
        return self._density(*self._parts(vector), *data)[0]

    def variables(self, vector: Any, data: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values of the model's variables, in the order of `names`."""
        return tuple(self._outputs(*self._parts(vector), *data))

    def _parts(self, vector: Any) -> list[Any]:
        starts = [0, *self._ends[:-1]]
        return [
            vector[start:end].reshape(shape)
            for start, end, shape in zip(starts, self._ends, self._shapes, strict=True)
        ]


def _function(model: pm.Model, outputs: list[Any], data: Sequence[str]) -> Any:
    """Return a JAX function of the free variables and of data."""
    # Importing them turns JAX's 64-bit types on, as PyMC's own samplers in JAX need it.
    from pytensor.compile.mode import JAX
    from pytensor.link.jax.dispatch.basic import jax_funcify

    arguments = {model[name]: model[name].type(name) for name in data}
    shared = [var for var in graph_inputs(outputs) if isinstance(var, SharedVariable)]
    constants = {var: pt.constant(var.get_value()) for var in shared if var not in arguments}
    graph = FunctionGraph(
        [*model.value_vars, *arguments.values()],
        clone_replace(outputs, {**arguments, **constants}),
    )
    # Values out of range have density zero, as in PyMC's own compiled functions.
    JAX.including("local_check_parameter_to_ninf_switch").optimizer.rewrite(graph)
    jax_funcify.register(_Softplus, _jax_softplus)
    _steady(graph)
    lay_out(graph)
    return jax_funcify(graph)


class _Softplus(Softplus):
    """log(1 + exp(x)), for JAX with a derivative of its own.

    JAX's derivative of PyTensor's branches is NaN beyond ±88 in single precision, where a
    branch not taken overflows, and takes gradients of 6,400 responses half as long again.
    """


def _steady(graph: FunctionGraph) -> None:
    """Give the functions of a graph derivatives that are right far out."""
    for node in graph.toposort():
        if isinstance(node.op, Elemwise) and type(node.op.scalar_op) is Softplus:
            steady = Elemwise(_Softplus(node.op.scalar_op.output_types_preference))
            graph.replace(node.outputs[0], steady.make_node(*node.inputs).outputs[0])


def _jax_softplus(op: Any, **_: Any) -> Any:
    import jax
    import jax.numpy as jnp

    @jax.custom_jvp
    def softplus(x: Any) -> Any:
        return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))

    @softplus.defjvp
    def _derivative(values: Any, moves: Any) -> Any:
        return softplus(*values), jax.nn.sigmoid(*values) * moves[0]

    return softplus


@contextmanager
def precision(double: bool) -> Iterator[None]:
    """Let JAX work in double or in single precision, and leave it as it was."""
    import jax

    with jax.enable_x64(double), warnings.catch_warnings():
        # Constants of the model are doubles, which are rounded here on purpose.
        warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
        yield
