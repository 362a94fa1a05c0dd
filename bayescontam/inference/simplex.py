"""Simplex: coordinates in which the sampler moves parts that add up to one."""

import math
from typing import Any

import pytensor.tensor as pt
from pymc.distributions import transforms
from pymc.logprob.transforms import Transform

TOTAL_SD = 0.2
"""Of the logarithm of the sum of sizes, which says nothing of the parts."""
EQUAL = 2.0
"""Sizes of equal parts. A size is straight in its coordinate above 1, its logarithm far below."""


class Sizes(Transform):
    """Parts of a whole as positive sizes over their sum, each with a coordinate of its own.

    PyMC's choice, the logarithms of the parts less their mean, is one coordinate short and
    ties all of them together: a part that may be next to nothing, and whose logarithm has
    a long lower tail, moves the coordinates of all others, however well data identify these.
    Here the sum is free. It is given a narrow log-normal distribution of its own,
    independent of the parts, so that neither their prior nor their posterior changes.
    """

    name = "sizes"
    ndim_supp = 1

    def __init__(self, count: int) -> None:
        self._log_sum = math.log(EQUAL * count)

    def backward(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the parts from the sampler's coordinates, dims (…, part)."""
        size = transforms.log_exp_m1.backward(value)
        return size / pt.sum(size, axis=-1, keepdims=True)

    def forward(self, value: Any, *rv_inputs: Any) -> Any:
        """Return coordinates of the parts, at the median of the sum."""
        return transforms.log_exp_m1.forward(value * math.exp(self._log_sum))

    def log_jac_det(self, value: Any, *rv_inputs: Any) -> Any:
        """Return the log of the Jacobian of parts and sum, plus the log density of the sum."""
        log_sum = pt.log(pt.sum(transforms.log_exp_m1.backward(value), axis=-1))
        each = transforms.log_exp_m1.log_jac_det(value)
        away = (log_sum - self._log_sum) / TOTAL_SD
        # The density of parts is one of all but one of them, so that the sum counts once.
        return pt.sum(each, axis=-1) - value.shape[-1] * log_sum - 0.5 * pt.square(away)
