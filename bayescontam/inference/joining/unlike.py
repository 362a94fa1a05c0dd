"""Unlike: in what a new model's responses differ from those of a fit, in words."""

from collections.abc import Iterator

import pandas as pd

from bayescontam.inference.estimands import Reference
from bayescontam.names import visible
from bayescontam.responses import Responses


def unlike_the_fit(old: Responses, joined: Responses, reference: Reference) -> list[str]:
    """Say what makes a new model's estimands other than those of the fit's models."""
    frame, name = joined.frame, joined.models[-1]
    new = frame[frame["model"] == name]
    parts = dict(list(old.frame.groupby("benchmark", sort=False)))
    return [
        sentence
        for benchmark, own in new.groupby("benchmark", sort=False)
        for sentence in _differences(
            visible(name), visible(str(benchmark)), parts[benchmark], own, reference
        )
    ]


def _differences(
    name: str, benchmark: str, old: pd.DataFrame, own: pd.DataFrame, reference: Reference
) -> Iterator[str]:
    known, items = set(old["item"]), set(own["item"])
    if fresh := len(items - known):
        yield (
            f"{name}: {fresh:,} of its {len(items):,} items of {benchmark} are not in the fit,"
            " which knows of their difficulty only how much items differ"
        )
    if missing := len(known - items):
        yield (
            f"{name} answered {len(known) - missing:,} of the fit's {len(known):,} items of"
            f" {benchmark}: its estimands are averages over other items than those of the other"
            " models, and so are ranks"
        )
    if reference == "min_observed" and "contamination" in own and "contamination" in old:
        least, before = own["contamination"].min(), old["contamination"].min()
        if least < before:
            yield (
                f"{name} has items of {benchmark} that are cleaner than all of the fit's"
                f" ({least:.3g}, {before:.3g}): genuine ability is reported at {least:.3g} here,"
                f" and at {before:.3g} in the fit"
            )
