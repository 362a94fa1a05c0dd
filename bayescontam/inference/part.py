"""Part: some responses of a design, as the linear predictor asks for them."""

from typing import Any, cast

import numpy as np

from bayescontam._types import IntArray
from bayescontam.inference.design import Design

_BY_RESPONSE = frozenset(
    {
        "model", "benchmark", "unit", "n_correct", "n_trials", "contamination", "weight",
        "model_unit", "model_benchmark", "dose", "item_dose", "cell_contamination", "cell_dose",
        "reach_dose",
    }
)  # fmt: skip


class _Part:
    def __init__(self, design: Design, rows: IntArray, item: IntArray) -> None:
        self._design, self._rows, self.item = design, rows, item

    @property
    def selection(self) -> Any:
        """That of the design's items under the names that they have here."""
        known = self._design.selection
        result = np.zeros((int(self.item.max(initial=-1)) + 1, known.shape[1]))
        result[self.item] = known[self._design.item[self._rows]]
        return result

    def __getattr__(self, name: str) -> Any:
        values = getattr(self._design, name)
        return values if values is None or name not in _BY_RESPONSE else values[self._rows]


def part_of(design: Design, rows: IntArray, item: IntArray) -> Design:
    """Return some responses of a design; doses are counted from the means of all of them."""
    return cast(Design, _Part(design, rows, item))
