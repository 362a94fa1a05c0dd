"""Held out: a design some of whose responses a model may not look at."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from bayescontam.inference.design import Design, Integers


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldOutDesign(Design):
    """A design in which held-out responses count 0 correct answers of 0 trials.

    A model that is built for it has all parameters of the whole one, and a likelihood to
    which held-out responses add nothing. Parameters of items and models that are held out
    altogether follow their population, given all others. What contamination is centred
    at, and which terms enter, stay those of the whole table.

    Attributes
    ----------
    n_correct, n_trials : array of int
        0 where held out.
    whole : Design
        With all responses.
    """

    whole: Design

    @cached_property
    def n_single(self) -> int:
        """Number of responses with one trial in the whole table; these are the first rows."""
        return self.whole.n_single


def hold_out(design: Design, rows: Integers) -> HeldOutDesign:
    """Return the design with some responses held out.

    Parameters
    ----------
    design : Design
    rows : array of int
        Positions of the responses to hold out.
    """
    given = {field.name: getattr(design, field.name) for field in fields(Design)}
    for name in ("n_correct", "n_trials"):
        seen = np.array(given[name])
        seen[rows] = 0
        given[name] = seen
    return HeldOutDesign(**given, whole=design)
