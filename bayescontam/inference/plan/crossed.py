"""Crossed: a design in which every model answers every item equally often, as arrays."""

from dataclasses import dataclass

import numpy as np

from bayescontam._types import FloatArray
from bayescontam.inference.design import Design
from bayescontam.inference.predictor import contamination_shift, linear_predictor


@dataclass(frozen=True, eq=False)
class Crossed:
    """Responses of which every model answered every item equally often."""

    design: Design  # rows sorted by benchmark, model and item, as `Responses` have them
    kinds: tuple[str, ...]  # effects of models and benchmarks: `theta`, `beta` and perhaps `kappa`
    generations: int  # trials of each response
    guess: float
    reference: FloatArray  # reference contamination, dims (benchmark,)
    weight: float = 1.0  # items that each item of the design stands for

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of benchmarks, models and items of each benchmark."""
        benchmarks, models = len(self.design.benchmarks), len(self.design.models)
        return benchmarks, models, len(self.design) // (benchmarks * models)

    def by_item(self, rows: FloatArray) -> FloatArray:
        """Return values of responses as (benchmark, item, model)."""
        return rows.reshape(self.shape).swapaxes(1, 2)

    def named(self, effects: FloatArray) -> dict[str, FloatArray]:
        """Return effects, dims (kind, model × benchmark), as the predictor takes them."""
        named = dict(zip(self.kinds, effects, strict=True))
        if "kappa" in named:  # the same for all models
            named["kappa"] = named["kappa"][: self.shape[0]]
        return named

    def log_odds(self, effects: FloatArray) -> FloatArray:
        """Return the log-odds without effects of items, (benchmark, item, model)."""
        return self.by_item(np.asarray(linear_predictor(self.named(effects), self.design)))

    def features(self) -> FloatArray:
        """Return what one unit of each kind of effect adds, (kind, benchmark, item, model)."""
        count = len(self.kinds)
        units = np.eye(count)[:, :, None] * np.ones(self.shape[0] * self.shape[1])
        return np.stack([self.log_odds(unit) for unit in units])

    def shifts(self) -> FloatArray:
        """Return what one unit of slope adds on the way to the reference."""
        wanted = self.reference[self.design.benchmark]
        unit = {"beta": np.ones(self.shape[0] * self.shape[1])}
        return self.by_item(np.asarray(contamination_shift(unit, self.design, wanted)))
