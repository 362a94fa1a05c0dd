"""Held out: a design some of whose responses a model may not look at."""

from dataclasses import dataclass
from functools import cached_property

from bayescontam._types import IntArray
from bayescontam.inference.design import DerivedDesign, Design


@dataclass(frozen=True, eq=False)
class HeldOutDesign(DerivedDesign):
    """A design in which held-out responses count 0 correct answers of 0 trials.

    A model that is built for it has all parameters of the whole one, and a likelihood to
    which held-out responses add nothing. Parameters of items and models that are held out
    altogether follow their population, given all others. What contamination is centred
    at, and which terms enter, stay those of the whole table.
    """

    @cached_property
    def n_single(self) -> int:
        """Number of responses with one trial in the whole table; these are the first rows."""
        return self.whole.n_single


def hold_out(design: Design, rows: IntArray) -> HeldOutDesign:
    """Return the design with some responses held out."""
    seen = {"n_correct": design.n_correct.copy(), "n_trials": design.n_trials.copy()}
    for counts in seen.values():
        counts[rows] = 0
    return HeldOutDesign.derived(design, **seen)
