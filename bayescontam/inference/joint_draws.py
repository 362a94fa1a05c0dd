"""Joint draws: a stored fit's draws of everything, effects of items and responses included."""

from bayescontam.inference.build import Built
from bayescontam.inference.draws import Draws, take_draws
from bayescontam.inference.fitted import Fit
from bayescontam.inference.own_effects import with_own_effects
from bayescontam.seeds import stream


def joint_draws(fit: Fit, built: Built) -> Draws:
    """Return the stored draws of a fit with all effects of items and responses."""
    draws = take_draws(fit.joint_posterior(), built.design)
    return with_own_effects(draws, built, stream(fit.record["seed"], "own effects"))
