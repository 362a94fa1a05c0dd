"""ChEES: Hamiltonian Monte Carlo on several chains side by side, which adapt together."""

from collections.abc import Callable
from typing import Any, NamedTuple

LEARNING_RATE = 0.05
"""Of Adam, which moves the logarithm of the trajectory's length."""
FIRST_STEP = 0.1
"""Step size before any is adapted."""
SPREAD = 1.0
"""Chains start uniformly within this distance of zero, in the sampler's coordinates."""


class Length(NamedTuple):
    """How long ChEES-HMC runs; it is compiled anew for each."""

    # side by side; all adapt one step size, one length of trajectory and one mass matrix
    chains: int
    # draws, tune: draws stored of each chain, and draws before those
    draws: int
    tune: int


def chees(log_density: Callable[[Any], Any], size: int, length: Length) -> Callable[..., Any]:
    """Return ChEES-HMC on a density, as a JAX function that can be compiled and mapped.

    The mass matrix is diagonal, estimated from all chains over the second half of the
    tuning. Trajectories are jittered by a Halton sequence that all chains share.

    Hoffman, Radul & Sountsov (2021), An adaptive-MCMC scheme for setting trajectory lengths
    in Hamiltonian Monte Carlo, AISTATS, PMLR 130:3907.
    """
    import blackjax
    import jax
    import jax.numpy as jnp
    import optax

    def run(key: Any, target: Any, *data: Any) -> tuple[Any, Any]:
        def density(vector: Any) -> Any:
            return log_density(vector, *data)

        start, tuning, sampling = jax.random.split(key, 3)
        first = jax.random.uniform(start, (length.chains, size), minval=-SPREAD, maxval=SPREAD)
        adaptation = blackjax.chees_adaptation(
            density,
            length.chains,
            target_acceptance_rate=target,
            adaptation_info_fn=lambda *_: None,
            mass_matrix_estimation="diagonal",
        )
        (states, parameters), _ = adaptation.run(
            tuning,
            first,
            FIRST_STEP,
            optax.adam(LEARNING_RATE),
            length.tune,
            max_sampling_steps=length.draws,
        )
        hmc = blackjax.dynamic_hmc(density, **parameters, build_proposal=_proposal)
        move = jax.vmap(hmc.step)

        def step(states: Any, key: Any) -> tuple[Any, tuple[Any, Any]]:
            states, info = move(jax.random.split(key, length.chains), states)
            return states, (states.position, info.is_divergent)

        keys = jax.random.split(sampling, length.draws)
        _, (draws, diverged) = jax.lax.scan(step, states, keys)
        return jnp.swapaxes(draws, 0, 1), jnp.swapaxes(diverged, 0, 1)

    return run


def _proposal(
    integrator: Callable[..., Any],
    kinetic_energy: Any,
    step_size: Any,
    steps: Any,
    divergence_threshold: Any,
) -> Callable[..., Any]:
    """Return HMC's proposal, which asks for the density at the end of a trajectory alone.

    Gradients are all that the way there needs: what is not stored is not computed. One step is
    made at least; HMC's own proposal would stay where it is if it is requested to make none.
    """
    from blackjax.mcmc.hmc import hmc_proposal
    from jax.lax import fori_loop

    def trajectory(state: Any, step_size: Any) -> Any:
        def step(_: Any, at: Any) -> Any:
            return integrator(at, step_size)._replace(logdensity=at.logdensity)

        return integrator(fori_loop(0, steps - 1, step, state), step_size)

    return hmc_proposal(trajectory, kinetic_energy, step_size, 1, divergence_threshold)
