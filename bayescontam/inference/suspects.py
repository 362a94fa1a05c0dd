"""Suspects: items that do not fit, as a table and in words."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayescontam.names import visible

FDR = 0.1
"""False discovery rate at which items are suspects."""
FEWEST_MODELS = 3
"""Models that must have answered an item for it to be judged."""
CONTAMINATED = 0.5
"""Contamination from which the items of a benchmark are also judged together."""


def item_table(
    known: xr.Dataset, benchmark_of_item: NDArray[np.integer], fdr: float
) -> pd.DataFrame:
    """Return item fit as a table, the worst first; see `Fit.item_fit`."""
    names = [name for name in known.data_vars if known[name].dims == ("item",)]
    table = pd.DataFrame({str(name): known[name].to_numpy() for name in names})
    labels = known["benchmark"].to_numpy()[benchmark_of_item]
    table.insert(0, "benchmark", pd.Series(labels, dtype="str"))
    table.insert(1, "item", pd.Series(known["item"].to_numpy(), dtype="str"))
    table["answers"] = table["answers"].astype(int)
    table["suspect"] = table["q_value"] <= fdr
    # Monte Carlo error can order equal p-values by nothing.
    return table.sort_values(["p_value", "z"], kind="stable", ignore_index=True)


def item_sentences(known: xr.Dataset, fdr: float) -> Iterator[str]:
    """Say how many items do not fit, and whether contaminated ones together do not."""
    q_value = known["q_value"].to_numpy()
    judged = int(np.isfinite(q_value).sum())
    left = len(q_value) - judged
    unjudged = (
        f" {left:,} could not be judged: fewer than {FEWEST_MODELS} models answered them, or all"
        " or none solved them."
        if left
        else ""
    )
    count = int((q_value <= fdr).sum())
    if count:
        yield (
            f"{count:,} of {judged:,} items do not fit, at a false discovery rate of {fdr:g}: given"
            " how hard they are, weak models solve them more and strong ones less than their"
            f" abilities lead to expect. Look at their answer keys first.{unjudged}"
        )
    else:
        yield (
            f"None of {judged:,} items is solved by weak and missed by strong models beyond chance,"
            f" at a false discovery rate of {fdr:g}.{unjudged}"
        )
    if "contaminated_p" not in known:
        return
    for name in known["benchmark"].to_numpy():
        one = known.sel(benchmark=name)
        p_value, items = float(one["contaminated_p"]), int(one["contaminated_items"])
        if items >= 2 and p_value < 0.01 / known.sizes["benchmark"]:
            shown = "below 0.001" if p_value < 0.001 else f"{p_value:.3f}"
            yield (
                f"The {items:,} items of {visible(str(name), 60)} that are contaminated by"
                f" {CONTAMINATED:g} or more do not fit as a group (p {shown}): weak models solve"
                " them more and strong ones less than expected. Wrong keys that some models have"
                " memorised look like this."
            )
