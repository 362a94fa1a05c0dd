"""Fixed: parameters that a study holds at values of its own."""

import numpy as np

from bayescontam._types import FloatArray
from bayescontam.calibration.plan import Cell, Plan
from bayescontam.errors import Fault, SpecError
from bayescontam.inference.build import Built
from bayescontam.specs.simulator import Simulator

_WORDS = {
    "theta": "ability",
    "beta": "slope",
    "beta_free": "slope",
    "sigma_delta": "difficulty_sd",
    "sigma_eps": "eps_sd",
}
"""Keys of a simulator that fix parameters under words of their own."""


def fixed_values(built: Built, plan: Plan, cell: Cell) -> dict[str, FloatArray]:
    """Return the values at which a cell holds parameters."""
    simulator, source = cell.simulator, plan.source
    model = built.model
    values = {key: (f"parameters.{key}", np.asarray(v)) for key, v in simulator.parameters.items()}
    for name, key, value in _held(simulator, built, plan, source):
        if name in values:
            problem = f"simulator.{key} fixes '{name}' already; leave one of them out"
            raise SpecError([Fault(source, problem, column=f"simulator.parameters.{name}")])
        values[name] = key, value
    result = {}
    for name, (key, value) in values.items():
        if name not in model.named_vars or name == "n_correct":
            left = "; ".join(f"{symbol}: {reason}" for symbol, reason in built.terms.left_out)
            problem = f"the model spec has no '{name}' in this design ({left or 'see its file'})"
            raise SpecError([Fault(source, problem, column=f"simulator.{key}")])
        shape = model[name].shape.eval()
        result[name] = np.broadcast_to(value, shape).astype(float)
    return result


def refuse_idle(names: set[str], plan: Plan, cell: Cell) -> None:
    """Refuse parameters that are fixed and that no count depends on."""
    for name in sorted(names):
        problem = (
            "counts do not depend on it, since what it governs is fixed too; leave one of them out"
        )
        key = f"parameters.{name}" if name in cell.simulator.parameters else _WORDS[name]
        raise SpecError([Fault(plan.source, problem, column=f"simulator.{key}")])


def _held(
    simulator: Simulator, built: Built, plan: Plan, source: str
) -> list[tuple[str, str, FloatArray]]:
    """Return name, key and value of what is fixed under a word of its own."""
    held: list[tuple[str, str, FloatArray]] = []
    models = len(built.design.models)
    if simulator.ability is not None:
        ability = np.atleast_1d(np.asarray(simulator.ability, dtype=float))
        if len(ability) not in (1, models):
            problem = f"got {len(ability)} abilities for {models} models; give one for each, or one"
            raise SpecError([Fault(source, problem, column="simulator.ability")])
        scores = _scores((models, len(built.design.units)), plan, "abilities")
        held.append(("theta", _WORDS["theta"], ability[:, None] + simulator.ability_sd * scores))
    if simulator.slope is not None:
        # Slopes of models that are known to be clean stay 0.
        name = "beta_free" if built.design.clean.any() else "beta"
        scores = _scores((models, len(built.design.benchmarks)), plan, "slopes")
        held.append((name, _WORDS[name], simulator.slope + simulator.slope_sd * scores))
    for name in ("sigma_delta", "sigma_eps"):
        value = getattr(simulator, _WORDS[name])
        if value is not None:
            held.append((name, _WORDS[name], np.asarray(value)))
    return held


def _scores(shape: tuple[int, int], plan: Plan, purpose: str) -> FloatArray:
    """Return numbers of mean 0 and standard deviation 1, the same in all cells of a study."""
    scores = plan.stream(purpose).standard_normal(shape)
    spread = scores.std()
    return (scores - scores.mean()) / spread if spread > 0 else np.zeros(shape)
