"""The model spec that a table of responses calls for, composed from its columns."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._text import join_list
from bayescontam.data.measures import guess_column, shared_columns
from bayescontam.data.responses import Names, Path, Responses
from bayescontam.data.validation import closest_name, read_labels, read_numbers
from bayescontam.errors import DataError, Fault
from bayescontam.model.design import may_count_items
from bayescontam.model.exposure import clean_by_column, refuse_idle_clean
from bayescontam.model.labels import numbered
from bayescontam.model.lineage import BASE, CHECKPOINT, bases_of
from bayescontam.specs.model import ModelSpec, restored_spec, spec_with_priors
from bayescontam.specs.registry import given_spec, load_model

AUTO = "auto"  # name that stands for the model spec composed from the table
CLEAN = "clean"  # column by which models are known to be clean
KINDS = "duplicate_kind"  # column with the kind of an item's duplicates that a model saw
_EQUAL = 1e-12  # difference of contaminations that are called equal
_WITHOUT = (
    "not estimated: overfitting. Contamination by item (column 'contamination', --covariates) or"
    " dates (--released, --cutoff) would identify it"
)
_ALL_CLEAN = "not estimated: overfitting, which is zero in clean models"
_ASSUMED_EASY = (
    "assumed: contaminated items are as difficult as the others would be; models known to be"
    " clean (column 'clean', --clean) would identify their difficulty"
)
_ASSUMED = (
    f"{_ASSUMED_EASY}. The effect is that of an item's own contamination: what items gain from the"
    " contamination of others stays in genuine ability (direct)"
)
_TWINS = (
    "the effect is the total: models of one base show by their different exposure what"
    " contamination adds to a whole benchmark"
)
_NO_TWINS = (
    "the effect is the total, but no models of one base differ in exposure on a benchmark that both"
    " answered: what spillover adds rests on its prior. A clean twin would identify it"
)
_REPEATS = (
    "the trials of a row are taken for repeats of one item; if they are different items (a row"
    " counts those of a half, or of a concept), use a model spec with likelihood.trials = 'items',"
    " such as aggregated"
)
_ANCHORED = (
    "the clean models identify how difficult contaminated items are, if exposed models find the"
    " same items hard (anchored_by_pair assumes less). The effect is that of an item's own"
    " contamination: what items gain from the contamination of others stays in genuine ability"
    " (direct)"
)


def compose_spec(responses: Responses) -> tuple[ModelSpec, tuple[str, str]]:
    """Compose the model spec that a table calls for.

    >>> import pandas as pd
    >>> table = Responses.from_frame(pd.DataFrame(
    ...     {"model": "m", "benchmark": "b", "item": ["i", "j"], "correct": [0, 1]}
    ... ))
    >>> spec, notes = compose_spec(table)
    >>> spec.contamination.form, notes[0]
    ('none', "model spec 'auto': ability (the table has no contamination)")
    """
    frame, content = responses.frame, load_model("hierarchical").model_dump()
    known = {name for name in ("contamination", "p_duplicate") if name in frame}
    block: dict[str, Any] = content["contamination"]
    clean = _clean_models(responses)
    every = len(clean) == len(responses.models)
    blocks: list[str] = []
    if not known and (other := closest_name("contamination", list(map(str, frame.columns)))):
        # A fit without it would look right.
        problem = f"no column 'contamination', but {join_list([other])}"
        advice = "rename it to 'contamination', or choose --model ability to leave it aside"
        raise DataError([Fault(responses.source, problem)], advice)
    if not known or every:
        content = load_model("ability").model_dump()
        block = content["contamination"]
        why = "all models are declared clean" if known else "the table has no contamination"
        start = f"ability ({why})"
        open_question = _WITHOUT if not known else _ALL_CLEAN
    else:
        if "p_duplicate" in frame:
            block["exposure"] = "latent"
            blocks.append("contamination as a latent event (column 'p_duplicate')")
        elif shared_columns(frame.columns):
            block["exposure"] = "shared"
            blocks.append("contamination that imputations show (columns 'shared_…')")
        elif "contamination_sd" in frame:
            block["exposure"] = "noisy"
            blocks.append("a noisy covariate (column 'contamination_sd')")
        if clean:
            block |= {"confounding": "anchored", "clean_column": CLEAN}
            blocks.append(
                f"anchored (column 'clean': {len(clean)} of {len(responses.models)} models)"
            )
        start = "hierarchical (column 'contamination')"
        if "contamination" not in known:
            start = "hierarchical"
        open_question = _ANCHORED if clean else _ASSUMED
        if shared := _shared_bases(responses):
            content["ability"]["lineage"] = "base"
            block["spillover"] = True
            blocks.append(
                "lineage and spillover (column 'base':"
                f" {shared} base{'s' if shared > 1 else ''} of several models)"
            )
            if CHECKPOINT in frame and np.isfinite(read_numbers(frame[CHECKPOINT])).any():
                content["ability"]["checkpoints"] = "walk"
                blocks.append(f"a walk along checkpoints (column '{CHECKPOINT}')")
            if KINDS in frame and (read_labels(frame[KINDS]) != "").any():
                block["kinds"] = KINDS
                blocks.append(f"spillover by kind (column '{KINDS}')")
            dose = "p_duplicate" if "p_duplicate" in frame else "contamination"
            identified = _TWINS if _twins_differ(responses, dose) else _NO_TWINS
            if not clean:
                identified = f"{_ASSUMED_EASY}. {identified[0].upper()}{identified[1:]}"
            open_question = identified
    column = guess_column(frame)
    if column is not None:
        content["likelihood"]["guess"] = "column"
        blocks.append(f"guessing by item (column '{column}')")
    content["summary"] = "Composed from the columns of a table of responses."
    content["description"] = ""
    listed = " and ".join([*([", ".join(blocks[:-1])] if blocks[1:] else []), *blocks[-1:]])
    chosen = f"model spec 'auto': {start}{f' with {listed}' if blocks else ''}"
    return restored_spec(content, AUTO, ""), (chosen, open_question)


def _shared_bases(responses: Responses) -> int:
    """Return how many bases several models of a table share."""
    if BASE not in responses.frame:
        return 0
    counts = pd.Series([*bases_of(responses).values()]).value_counts()
    return int((counts > 1).sum())


def _counts_items(frame: pd.DataFrame) -> bool:
    """Return whether trials of some benchmark's rows look as if they were different items."""
    benchmark = pd.factorize(frame["benchmark"])[0]
    item = numbered(benchmark, frame["item"])[0]
    return bool(may_count_items(benchmark, item, frame["n_trials"].to_numpy(dtype=np.int64)).any())


def _twins_differ(responses: Responses, column: str) -> bool:
    """Return whether models of one base differ in mean contamination on some benchmark."""
    frame = responses.frame
    clean = frame["model"].map(str).isin(_clean_models(responses))
    dose = frame[column].astype(float).where(~clean, 0)
    base = frame["model"].map(str).map(bases_of(responses))
    keys = [base.rename("base"), frame["benchmark"], frame["model"]]
    means = dose.groupby(keys, sort=False).mean().groupby(level=[0, 1], sort=False)
    return bool((means.max() - means.min() > _EQUAL).any())


def _clean_models(responses: Responses) -> list[str]:
    """Return the models that the column 'clean' declares clean."""
    if CLEAN not in responses.frame:
        return []
    known = clean_by_column(CLEAN, responses.source, responses.frame)
    return [str(name) for name in known.index[known]]


def constant_contamination(responses: Responses) -> list[str]:
    """Return a note where contamination does not vary, so that no effect can be estimated."""
    frame = responses.frame
    if "contamination" not in frame:
        return []
    values = frame["contamination"].astype(float)
    # Rows of models declared clean have no slope, and their contamination does not count.
    clean = frame["model"].astype(str).isin(_clean_models(responses))
    within = values[~clean].groupby([frame["model"], frame["benchmark"]], sort=False)
    ends = within.agg(["min", "max"])
    constant = (ends["max"] - ends["min"] <= _EQUAL) & (ends["max"] > 0)
    if not len(ends) or not constant.all():
        return []
    levels = sorted({f"{level:g}" for level in np.unique(ends["max"].round(6))})
    return [
        f"contamination does not vary within any model and benchmark (it is {join_list(levels, 4)}"
        " throughout): the data hold no information on the direct effect. What is reported as"
        " ability includes whatever contamination added. Items that were not contaminated would"
        " identify the direct effect, less exposed models of the same base (column 'base') the"
        " total"
    ]


def choose_spec(
    model: ModelSpec | Mapping[str, Any] | Path,
    table: Responses,
    clean: Names = (),
    priors: Mapping[str, Any] | None = None,
) -> tuple[ModelSpec, Responses]:
    """Return the model spec that is meant, and the table with notes on what it identifies."""
    # Models that were declared clean by name are refused where a named model spec has no use for
    # them; `"auto"` notes what it makes of them.
    if isinstance(model, ModelSpec):
        spec = given_spec(model)
        refuse_idle_clean(spec, clean)
        return spec_with_priors(spec, priors or {}), table
    notes: list[str] = []
    if model == AUTO:
        spec, composed = compose_spec(table)
        notes += composed
    else:
        spec = load_model(model)
        refuse_idle_clean(spec, clean)
    spec = spec_with_priors(spec, priors or {})
    if spec.likelihood.has_model_by_item and _counts_items(table.frame):
        notes.append(_REPEATS)
    # Latent events are not all alike where their probabilities are.
    if spec.contamination.form != "none" and spec.contamination.exposure != "latent":
        notes += constant_contamination(table)
    return spec, replace(table, notes=(*table.notes, *notes))
