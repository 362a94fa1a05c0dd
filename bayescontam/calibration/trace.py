"""Trace: what nutpie leaves behind, as arrays."""

from typing import Any

import numpy as np
import pyarrow as pa
import xarray as xr

from bayescontam._types import FloatArray


def read_trace(trace: Any, draws: int) -> tuple[xr.Dataset, float]:
    """Return the draws of a raw trace, and the share of them that diverged.

    Dims (chain, draw, …).

    As what `nutpie.sample` returns otherwise, whose many labels take as long to make as a
    short chain.
    """
    chains, statistics = trace.get_arrow_trace()
    for chain in statistics:
        if chain.num_rows - int(_column(chain, "tuning").sum()) < draws:
            raise KeyboardInterrupt
    # What only the sampler needed has a name that ends in two underscores.
    names = [name for name in chains[0].column_names if not name.endswith("__")]
    data = {}
    for name in names:
        values = np.stack([_column(chain, name)[-draws:] for chain in chains])
        dims = [f"{name}_dim_{axis}" for axis in range(values.ndim - 2)]
        data[name] = (("chain", "draw", *dims), values)
    diverged = [_column(chain, "diverging")[-draws:].mean() for chain in statistics]
    return xr.Dataset(data), float(np.mean(diverged))


def _column(batch: Any, name: str) -> FloatArray:
    """Return a column of a record batch, dims (draw, …)."""
    column = batch.column(name)
    shape = column.field.metadata.get(b"shape", b"").decode()
    values = pa.array(column)
    if hasattr(values, "flatten"):
        values = values.flatten()
    numbers: FloatArray = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(batch.num_rows, *(int(size) for size in shape.split(",") if size))
