"""Gates: whether a fit of a study may count as one."""

import numpy as np

from bayescontam._types import FloatArray
from bayescontam.calibration.measure import Key
from bayescontam.specs.study import Gates

PASSED, RERUN, FAILED = "passed", "rerun", "failed"
"""What becomes of a fit: good at the first try, at the second and longer one, or neither."""


def faults_of(
    keys: list[Key], ess: FloatArray, rhat: FloatArray, diverged: float, gates: Gates
) -> list[str]:
    """Return what is wrong with a fit; nothing if it passes."""
    faults = []
    known = ~np.isnan(rhat)
    if known.any():
        worst = int(np.argmax(np.where(known, rhat, -np.inf)))
        if rhat[worst] > gates.rhat:
            faults.append(f"R-hat {rhat[worst]:.3f} of {_text(keys[worst])}")
        least = int(np.argmin(np.where(known, ess, np.inf)))
        if ess[least] < gates.ess:
            faults.append(f"ESS {ess[least]:.0f} of {_text(keys[least])}")
    if diverged > gates.divergences:
        faults.append(f"{diverged:.1%} of draws diverged")
    return faults


def _text(key: Key) -> str:
    return f"{key[0]} ({key[1]})" if key[1] else key[0]
