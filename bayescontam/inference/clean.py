"""Clean: models that are known not to have met the benchmarks' items in training."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam.columns import read_numbers
from bayescontam.errors import DataError, Fault, SpecError, UsageError
from bayescontam.names import listed, visible
from bayescontam.responses import Responses
from bayescontam.specs.model import ModelSpec


def clean_models(
    spec: ModelSpec, responses: Responses, frame: pd.DataFrame, models: tuple[str, ...]
) -> NDArray[np.bool_]:
    """Return which models a model spec says are known to be clean, dims (model,)."""
    block = spec.contamination
    if block.clean_column:
        return _by_column(block.clean_column, responses, frame, models)
    unknown = [name for name in block.clean if name not in models]
    if unknown:
        problem = f"no such model: {listed(unknown)}; the responses have {listed(models)}"
        raise SpecError([Fault(f"model spec '{spec.name}'", problem, column="contamination.clean")])
    clean = np.isin(np.array(models, dtype=object), block.clean)
    if block.clean:
        _refuse_all_or_none(clean, responses.source, "contamination.clean")
    return clean


def refuse_idle_clean(spec: ModelSpec, clean: Sequence[str]) -> None:
    """Raise a `UsageError` if models are declared clean and the model spec has no use for it."""
    if clean and spec.contamination.clean_column != "clean":
        raise UsageError(
            f"clean: model spec '{visible(spec.name, 60)}' does not use the column 'clean'; choose "
            "anchored, or a copy of it"
        )


def refuse_contaminated(responses: Responses, clean: Sequence[str]) -> None:
    """Refuse models declared clean whose responses have contamination that is their own.

    Where all models share the contamination of each item, it says what others may have met,
    unless it is from dates.
    """
    frame, source = responses.frame, responses.source
    if not len(clean) or "contamination" not in frame:
        return
    dose = frame["contamination"]
    doses = dose.groupby([frame["benchmark"], frame["item"]], sort=False).nunique()
    if not responses.from_dates and (doses < 2).all():
        return
    own = frame["model"].isin(clean)
    shares = (dose[own] > 0).groupby(frame["model"][own]).agg(["sum", "size"])
    faults = [
        Fault(
            source,
            f"model '{visible(str(name), 60)}' is declared clean, but contamination is above 0 in "
            f"{row['sum']:,} of its {row['size']:,} responses ({row['sum'] / row['size']:.0%})",
        )
        for name, row in shares[shares["sum"] > 0].iterrows()
    ]
    if faults:
        advice = (
            "a model is clean or has met items: do not declare it clean, or set the contamination "
            "of its responses to 0"
        )
        raise DataError(faults, advice)


def _by_column(
    column: str, responses: Responses, frame: pd.DataFrame, models: tuple[str, ...]
) -> NDArray[np.bool_]:
    if column not in frame:
        problem = f"the model spec needs a column '{column}', which is not there"
        advice = "Add it (1 = the model is known to be clean, 0 = it is not), or name the models"
        raise DataError([Fault(responses.source, problem)], f"{advice} in contamination.clean.")
    values = read_numbers(frame[column], words=True)
    if not np.isin(values, [0, 1]).all():
        problem = "allowed is 1 (the model is known to be clean) or 0, in every row"
        raise DataError([Fault(responses.source, problem, column=column)])
    ranges = pd.Series(values).groupby(frame["model"].to_numpy()).agg(["min", "max"])
    mixed = ranges.index[ranges["min"] != ranges["max"]]
    if len(mixed):
        problem = f"models with both values: {listed(mixed)}; a model is clean or not"
        raise DataError([Fault(responses.source, problem, column=column)])
    clean: NDArray[np.bool_] = ranges["max"].reindex(list(models)).to_numpy() == 1
    _refuse_all_or_none(clean, responses.source, column)
    return clean


def _refuse_all_or_none(clean: NDArray[np.bool_], source: str, column: str) -> None:
    if clean.any() and not clean.all():
        return
    problem = "no model is" if not clean.any() else "every model is"
    advice = "Slopes are identified by comparing models that may be contaminated with clean ones."
    raise DataError([Fault(source, f"{problem} known to be clean", column=column)], advice)
