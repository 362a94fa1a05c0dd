"""Matches whose place does not depend on how a processor rounds."""

import pandas as pd


def settled(matches: pd.DataFrame, atol: float) -> pd.DataFrame:
    """Return the matches that differ by more than `atol` from others, and from the last one.

    The last of an item's list may have beaten another by rounding.
    """
    cosines = matches.groupby(["benchmark", "item"])["cosine"]
    apart = [cosines.diff(step).abs().fillna(2.0) > atol for step in (1, -1)]
    return matches[apart[0] & apart[1] & (matches["cosine"] > cosines.transform("min") + atol)]
