"""Averages: means over items, of what each response has in each draw."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from bayescontam.inference.design import Design, Floats, Integers
from bayescontam.inference.draws import Draws
from bayescontam.inference.lattice import LatticeDesign


@dataclass(frozen=True, eq=False)
class Averages:
    """Means over the items that each model answered, by cells.

    Attributes
    ----------
    matrix : sparse array
        Dims (cell, response): share of each response in its cell.
    item : array of int
        Item of each response.
    """

    matrix: sparse.csr_array
    item: Integers

    @classmethod
    def over(cls, design: Design, cell: str, count: int) -> "Averages":
        """Return the averages over cells of a design.

        Parameters
        ----------
        design : Design
            Of a table, or of what stands in for it.
        cell : {"model_benchmark", "model_unit"}
            What responses are averaged within.
        count : int
            Number of cells.
        """
        table = design.whole if isinstance(design, LatticeDesign) else design
        size = np.bincount(getattr(table, cell), table.weight, minlength=count)
        own: Integers = getattr(design, cell)
        kept = np.flatnonzero(design.weight)
        share = design.weight[kept] / size[own[kept]]
        shape = count, len(design)
        return cls(sparse.csr_array((share, (own[kept], kept)), shape=shape), design.item)

    def of(self, values: Floats, draws: Draws) -> Floats:
        """Return the mean of each cell, (draw, response) to (draw, cell); 0 for an empty one."""
        if draws.tally is not None:
            values = values * draws.tally[:, self.item]
        return (self.matrix @ values.T).T
