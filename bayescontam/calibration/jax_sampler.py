"""ChEES-HMC by JAX, compiled once for many tables.

A table in which every model answers every item is a grid, written as one long vector. For each
of its entries numbers are looked up: the ability of its model, the difficulty of its item. XLA
does so one by one, and adds up what is due to their derivatives one by one too. As repetitions
along the axes of the grid they cost next to nothing.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.scalar.math import Softplus
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.subtensor import AdvancedSubtensor

LEARNING_RATE = 0.05  # of Adam, which moves the logarithm of the trajectory's length
FIRST_STEP = 0.1  # step size before any is adapted
SPREAD = 1.0  # chains start uniformly within this distance of zero, in the sampler's coordinates
Axes = tuple[tuple[int, int], ...]
"""How regular positions run, the slowest axis first: its length, and the step along it."""
Shape = tuple[int, ...]


def chees(
    log_density: Callable[[Any], Any], size: int, chains: int, draws: int, tune: int
) -> Callable[..., Any]:
    """Return ChEES-HMC on a density, as a JAX function (Hoffman et al. 2021, PMLR 130:3907)."""
    # Chains run side by side; all adapt one step size, one length of trajectory and one mass
    # matrix, which is diagonal and estimated from all chains over the second half of the tuning.
    # Trajectories are jittered by a Halton sequence that all chains share.
    import blackjax
    import jax
    import jax.numpy as jnp
    import optax

    def run(key: Any, target: Any, *data: Any) -> tuple[Any, Any]:
        def density(vector: Any) -> Any:
            return log_density(vector, *data)

        start, tuning, sampling = jax.random.split(key, 3)
        first = jax.random.uniform(start, (chains, size), minval=-SPREAD, maxval=SPREAD)
        adaptation = blackjax.chees_adaptation(
            density,
            chains,
            target_acceptance_rate=target,
            adaptation_info_fn=lambda *_: None,
            mass_matrix_estimation="diagonal",
        )
        (states, parameters), _ = adaptation.run(
            tuning, first, FIRST_STEP, optax.adam(LEARNING_RATE), tune, max_sampling_steps=draws
        )
        hmc = blackjax.dynamic_hmc(density, **parameters, build_proposal=_proposal)
        move = jax.vmap(hmc.step)

        def step(states: Any, key: Any) -> tuple[Any, tuple[Any, Any]]:
            states, info = move(jax.random.split(key, chains), states)
            return states, (states.position, info.is_divergent)

        keys = jax.random.split(sampling, draws)
        _, (drawn, diverged) = jax.lax.scan(step, states, keys)
        return jnp.swapaxes(drawn, 0, 1), jnp.swapaxes(diverged, 0, 1)

    return run


def _proposal(
    integrator: Callable[..., Any],
    kinetic_energy: Any,
    step_size: Any,
    steps: Any,
    divergence_threshold: Any,
) -> Callable[..., Any]:
    """Return HMC's proposal, which asks for the density at the end of a trajectory alone."""
    # Gradients are all that the way there needs: what is not stored is not computed. One step is
    # made at least; HMC's own proposal would stay where it is if it is requested to make none.
    from blackjax.mcmc.hmc import hmc_proposal
    from jax.lax import fori_loop

    def trajectory(state: Any, step_size: Any) -> Any:
        def step(_: Any, at: Any) -> Any:
            return integrator(at, step_size)._replace(logdensity=at.logdensity)

        return integrator(fori_loop(0, steps - 1, step, state), step_size)

    return hmc_proposal(trajectory, kinetic_energy, step_size, 1, divergence_threshold)


def lay_out(graph: FunctionGraph) -> None:
    """Turn lookups by regular positions into repetitions, and vectors made of them into grids."""
    nodes: list[Any] = list(graph.toposort())
    lookups = {node: axes for node in nodes if (axes := _axes_of(node))}
    shapes = _common_shapes(lookups.values())
    grids: dict[Any, Any] = {}

    def as_grid(vector: Any, shape: Shape) -> Any:
        if vector in grids:
            return grids[vector]
        if vector.type.broadcastable[0]:
            return vector.dimshuffle(*["x"] * (len(shape) - 1), 0)
        return vector.reshape(shape)

    for node in nodes:
        known, grid = [each for each in node.inputs if each in grids], None
        size = prod(length for length, _ in lookups[node]) if node in lookups else 0
        size = known[0].type.shape[0] if known and not size else size
        if size not in shapes:
            continue
        if node in lookups:
            grid = _looked_up(node.inputs[0], lookups[node], shapes[size])
        elif isinstance(node.op, Elemwise) and len(node.outputs) == 1:
            grid = node.op(*(as_grid(each, shapes[size]) for each in node.inputs))
        elif isinstance(node.op, Sum) and grids[known[0]].type.shape == shapes[size]:
            every = Sum(dtype=node.op.dtype, acc_dtype=node.op.acc_dtype)
            graph.replace(node.outputs[0], every.make_node(grids[known[0]]).outputs[0])
        if grid is not None:
            # Whatever else asks for the vector takes this; where nothing does, it is not made.
            whole: Any = pt.alloc(grid, *shapes[size])
            flat = whole.reshape((size,))
            grids[flat] = grid
            graph.replace(node.outputs[0], flat)


def grid_axes(positions: NDArray[np.integer[Any]]) -> Axes | None:
    """Return how positions run, if regularly and through each from 0 to the largest.

    >>> grid_axes(np.array([0, 0, 2, 2, 1, 1, 3, 3]))
    ((2, 1), (2, 2), (2, 0))
    >>> grid_axes(np.array([0, 1, 1]))
    """
    left, axes = positions.astype(np.int64), []
    while len(left) > 1:
        step = int(left[1] - left[0])
        breaks = np.flatnonzero(np.diff(left) != step)
        size = int(breaks[0]) + 1 if len(breaks) else len(left)
        starts = left[::size]
        if len(left) % size or (left != (starts[:, None] + step * np.arange(size)).ravel()).any():
            return None
        axes.append((size, step))
        left = starts
    reached = 1
    for step, size in sorted((step, size) for size, step in axes if step):
        if step != reached:
            return None
        reached *= size
    return tuple(reversed(axes)) if axes and not left[0] else None


def _axes_of(node: Any) -> Axes | None:
    """Return how the positions of a lookup in a vector run, if they are known and regular."""
    if not isinstance(node.op, AdvancedSubtensor) or len(node.inputs) != 2:
        return None
    vector, index = node.inputs
    if vector.ndim != 1 or not isinstance(index, Constant) or index.type.ndim != 1:
        return None
    return grid_axes(index.data) if np.issubdtype(index.data.dtype, np.integer) else None


def _common_shapes(lookups: Iterable[Axes]) -> dict[int, Shape]:
    """Return for each length the coarsest shape that has the axes of all its vectors, if any."""
    ends: dict[int, set[int]] = {}
    for axes in lookups:
        sizes = [size for size, _ in axes]
        reached = {prod(sizes[i:]) for i in range(len(sizes) + 1)}
        ends.setdefault(prod(sizes), set()).update(reached)
    found = {}
    for size, cuts in ends.items():
        pairs = list(pairwise(sorted(cuts)))
        if all(after % before == 0 for before, after in pairs):
            found[size] = tuple(after // before for before, after in reversed(pairs))
    return found


def _looked_up(vector: Any, axes: Axes, shape: Shape) -> Any:
    """Return what is looked up in a vector, of length 1 along the axes that it repeats along."""
    steps = _steps(axes, shape)
    own = sorted((axis for axis, step in enumerate(steps) if step), key=lambda axis: -steps[axis])
    sizes = [shape[axis] for axis in own]
    block = vector[: prod(sizes)].reshape(sizes)
    return block.dimshuffle(*(own.index(axis) if step else "x" for axis, step in enumerate(steps)))


def _steps(axes: Axes, shape: Shape) -> list[int]:
    """Return the step along each axis of a shape that is as fine as the axes, or finer."""
    steps, left = [], list(axes)
    size, step = 1, 0
    for length in reversed(shape):
        if size == 1:
            size, step = left.pop()
        steps.append(step)
        size, step = size // length, step * length
    return steps[::-1]


class Vectors:
    """Log density and variables of a model by JAX, of one vector of the sampler's coordinates."""

    # Not by `pymc.sampling.jax`, which takes data for constants and, when it is imported,
    # makes a hundred devices of one processor.

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
    """log(1 + exp(x)), for JAX with a derivative of its own."""

    # JAX's derivative of PyTensor's branches is NaN beyond ±88 in single precision, where a
    # branch not taken overflows, and takes gradients of 6,400 responses half as long again.


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
