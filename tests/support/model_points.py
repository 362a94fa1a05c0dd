"""Points at which models are evaluated, and their coordinates."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.compile.maker import function
from pytensor.compile.mode import Mode
from pytensor.gradient import grad
from pytensor.graph.replace import clone_replace

PLAIN = Mode("py", None)
"""Evaluates a graph as it stands, which takes least time where it is done a few times only."""


def prior_point(model: pm.Model, seed: int) -> dict[str, np.ndarray]:
    variables = [*model.free_RVs, *model.deterministics]
    draws = pm.draw(variables, random_seed=seed, mode="FAST_COMPILE")
    return {v.name: np.asarray(x) for v, x in zip(variables, draws, strict=True)}


def coordinates(model: pm.Model, point: dict[str, np.ndarray]) -> tuple[dict, float]:
    """Return a point in the sampler's coordinates, and the log Jacobian there."""
    values, jacobian = {}, 0.0
    given = {v: pt.as_tensor(point[v.name]) for v in model.free_RVs}
    for variable in model.free_RVs:
        name = model.rvs_to_values[variable].name
        transform = model.rvs_to_transforms[variable]
        if transform is None:
            values[name] = point[variable.name]
            continue
        forward = transform.forward(given[variable], *variable.owner.inputs)
        log_jacobian = transform.log_jac_det(forward, *variable.owner.inputs).sum()
        others = {v: g for v, g in given.items() if v is not variable}
        coordinate, extra = evaluate([forward, log_jacobian], others)
        values[name] = coordinate
        jacobian += float(extra)
    return values, jacobian


def evaluate(expressions, given):
    """Evaluate expressions with random variables replaced by numbers."""
    return function([], clone_replace(expressions, given), mode=PLAIN)()


def compile_gradient(model: pm.Model) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    """Return the gradient of the log density, as `pm.Model.compile_dlogp` has it but for the time.

    PyMC follows the graph back from the density once for each parameter.
    """
    gradient = pt.concatenate([each.ravel() for each in grad(model.logp(), model.value_vars)])
    return model.compile_fn(gradient, mode=PLAIN)


def log_density(model: pm.Model, names: list[str], point: dict[str, np.ndarray]) -> float:
    """Return the joint density of named variables, in their own coordinates."""
    values, _ = coordinates(model, point)
    of = [model[n] for n in names]
    return float(model.compile_logp(vars=of, jacobian=False, mode=PLAIN)(values))
