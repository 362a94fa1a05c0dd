"""Contamination of ARC tasks by the exposure of the concepts that they need, with imputations."""

import os
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from bayescontam._random import check_seed, stream
from bayescontam._text import join_list
from bayescontam._types import FloatArray
from bayescontam.arc.concepts import detect_concepts
from bayescontam.data.importers.arc import ArcTasks, load_tasks, membership, read_concepts
from bayescontam.data.imputations import FEWEST, IMPUTATION
from bayescontam.data.published_tables import read_published
from bayescontam.data.tables import given_table
from bayescontam.data.validation import (
    FaultList,
    check_choice,
    need_columns,
    read_names,
    read_numbers,
    to_plain_frame,
)
from bayescontam.errors import DataError, Fault, UsageError

type By = Literal["input", "task"]
type Path = str | os.PathLike[str]
DRAWS = 4000
"""Draws that the mean and standard deviation of a counted exposure come from."""
_TOLERANCE = 0.02  # of exposures that were counted, beside what their counts amount to
IMPUTATIONS = 200
"""Imputations that are drawn unless requested otherwise."""
_NEEDED = {
    "concept": "add one: the concept's name as in the table of concepts",
    "exposure": "add one: numbers from 0 (never met) to 1 (met as often as any)",
}
_OF_SCANS = {
    "item": "concept", "contamination": "exposure", "contamination_sd": "exposure_sd"
}  # fmt: skip
"""Columns of covariates whose items are concepts, and what they are here."""


def contamination_of(exposure: FloatArray) -> FloatArray:
    """Return the contamination of tasks by the mean exposure of their concepts, as published.

    >>> contamination_of(np.array([0.5, 0.7])).round(3).tolist()
    [0.3, 0.538]
    """
    printed = read_published("arc_generator").set_index("quantity")["value"]
    prior, slope = float(printed["formula_prior"]), float(printed["formula_slope"])
    contamination: FloatArray = expit(logit(prior) + slope * (exposure - 0.5))
    return contamination


def given_exposures(
    mean: FloatArray, sd: FloatArray, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Draw exposures of given mean and standard deviation from Beta, dims (draw, concept)."""
    drawn = np.tile(mean, (draws, 1))
    unsure = sd > 0
    size = mean[unsure] * (1 - mean[unsure]) / sd[unsure] ** 2 - 1
    drawn[:, unsure] = rng.beta(
        mean[unsure] * size, (1 - mean[unsure]) * size, size=(draws, int(unsure.sum()))
    )
    return drawn


def counted_exposures(
    counts: FloatArray, share: float, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Draw exposures that follow from counts in a part of a corpus, dims (draw, concept).

    Logarithms of one more than the documents in the whole corpus, divided by the largest. Those in
    the rest of the corpus are predicted: Poisson, at a rate with Jeffreys' prior.
    """
    rate = rng.gamma(counts + 0.5, size=(draws, len(counts)))
    logs = np.log1p(counts + rng.poisson(rate * (1 - share) / share))
    most = logs.max(axis=1, keepdims=True)
    exposures: FloatArray = logs / np.where(most > 0, most, 1.0)  # none at all: 0
    return exposures


def read_exposures(exposures: Path | pd.DataFrame) -> pd.DataFrame:
    """Read how much of each concept was met in training, and how unsure that is.

    Parameters
    ----------
    exposures : path-like or pandas.DataFrame
        ``concept`` and ``exposure`` in [0, 1], perhaps with ``exposure_sd`` (its standard
        deviation; default 0). With ``documents`` and ``share``, as `count_exposures` writes
        them, these decide. Covariates of a scan whose items are concepts are read as well:
        ``item``, ``contamination`` and ``contamination_sd``.

    Returns
    -------
    pandas.DataFrame
        Index ``concept``; ``exposure``, ``exposure_sd``, and ``documents`` and ``share`` if given.

    Raises
    ------
    UsageError, DataError
        If there is no such file, or it cannot be used; every fault is listed.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"concept": ["Copy", "Count"], "exposure": [0.4, 0.7]})
    >>> read_exposures(table)["exposure"].tolist()
    [0.4, 0.7]
    """
    table, source = given_table(exposures)
    table = to_plain_frame(table, source)
    if not {"concept", "exposure"} & set(table.columns):
        table = table.rename(columns=_OF_SCANS)
    faults = FaultList(source, np.arange(1, len(table) + 1))
    need_columns(table, _NEEDED, tuple(_NEEDED), faults)
    faults.raise_if_any()
    names = pd.Series(read_names(table, "concept", faults))
    twice = names.duplicated().to_numpy()
    faults.flag(twice, "concept", "{} stands twice; give each concept one row", names)
    found = {"exposure": read_numbers(table["exposure"])}
    faults.flag(
        ~((found["exposure"] >= 0) & (found["exposure"] <= 1)), "exposure",
        "got {}; allowed is 0 to 1", table["exposure"],
    )  # fmt: skip
    mean = found["exposure"]
    sd = read_numbers(table["exposure_sd"]) if "exposure_sd" in table else np.zeros(len(table))
    with np.errstate(invalid="ignore"):
        possible = (sd == 0) | ((sd > 0) & (sd**2 < mean * (1 - mean))) | (mean < 0) | (mean > 1)
    faults.flag(
        ~possible, "exposure_sd",
        "got {}; allowed is 0 or more, and less than sqrt(exposure × (1 − exposure))",
        table.get("exposure_sd", pd.Series(sd)),
    )  # fmt: skip
    found["exposure_sd"] = sd
    if {"documents", "share"} <= set(table.columns):
        counts, share = (read_numbers(table[name]) for name in ("documents", "share"))
        possible = (counts >= 0) & np.isfinite(counts)
        faults.flag(
            ~possible, "documents", "got {}; allowed is 0 or more (leave both columns out of a"
            " table of given exposures)", table["documents"],
        )  # fmt: skip
        equal = (share > 0) & (share <= 1) & (share == share[:1])
        faults.flag(
            ~equal, "share", "got {}; allowed is one number above 0 up to 1 for all concepts",
            table["share"],
        )  # fmt: skip
        found |= {"documents": counts, "share": share}
        faults.raise_if_any()
        amount = counted_exposures(counts, float(share[0]), DRAWS, stream(0, "exposures"))
        faults.flag(
            ~(abs(amount.mean(axis=0) - mean) <= _TOLERANCE), "exposure",
            "got {}, but documents amount to another; change one of them, or remove documents",
            table["exposure"],
        )  # fmt: skip
    faults.raise_if_any()
    return pd.DataFrame(found, index=pd.Index(names, name="concept"))


def impute_contamination(
    tasks: ArcTasks | Path,
    exposures: Path | pd.DataFrame,
    *,
    concepts: Path | pd.DataFrame | None = None,
    benchmark: str = "arc",
    by: By = "input",
    imputations: int = IMPUTATIONS,
    seed: int = 1,
) -> pd.DataFrame:
    """Impute the contamination of ARC tasks from the exposure of the concepts that they need.

    The contamination of a task is logistic(logit 0.3 + 5 (e − 0.5)), where e is the mean exposure
    of its concepts. Exposures are drawn anew for each imputation: from a Beta distribution of the
    given mean and standard deviation, or where documents were counted in a part of a corpus from
    the posterior of their number in the whole. An error in the exposure of a concept then moves
    all tasks that need it.

    Parameters
    ----------
    tasks : ArcTasks, str or path-like
        Tasks, or where they are; see `load_tasks`.
    exposures : path-like or pandas.DataFrame
        See `read_exposures`; each concept of a task needs one.
    concepts : path-like or pandas.DataFrame, optional
        ``task`` and ``concept``, a row for each concept of a task. Default: `detect_concepts`.
    benchmark : str, default "arc"
        Name of the benchmark, as in the responses.
    by : {"input", "task"}, default "input"
        Whether items are test inputs (``TASK-TEST``) or tasks, as in `import_arc_predictions`.
    imputations : int, default 200
        How many; at least 20.
    seed : int, default 1
        Of the draws.

    Returns
    -------
    pandas.DataFrame
        ``imputation`` (from 1), ``benchmark``, ``item``, ``contamination``; see
        `read_imputations`.

    Raises
    ------
    UsageError, DataError
        If something given cannot be used, or a concept has no exposure.

    References
    ----------
    The formula is that of the paper on knowledge-dependent overfitting on ARC-AGI that
    docs/explanation/published-studies.md cites.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import pandas as pd
    >>> pair = {"input": [[1, 2]], "output": [[1, 1, 2, 2], [1, 1, 2, 2]]}
    >>> exposures = pd.DataFrame({"concept": ["growth"], "exposure": [0.7], "exposure_sd": [0.1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = json.dumps({"train": [pair], "test": [pair]})
    ...     _ = pathlib.Path(folder, "grow.json").write_text(text)
    ...     concepts = pd.DataFrame({"task": ["grow"], "concept": ["growth"]})
    ...     table = impute_contamination(folder, exposures, concepts=concepts)
    >>> len(table), table["item"].unique().tolist(), table["contamination"].mean().round(1)
    (200, ['grow-0'], np.float64(0.5))
    """
    if not isinstance(imputations, int) or imputations < FEWEST:
        raise UsageError(f"imputations: got {imputations}; allowed is a number from {FEWEST} on")
    check_choice("by", by, By)
    if not benchmark.strip():
        raise UsageError("benchmark: is blank; give the name that the responses have")
    known = tasks if isinstance(tasks, ArcTasks) else load_tasks(tasks)
    needed = detect_concepts(known) if concepts is None else read_concepts(concepts, known)
    given = read_exposures(exposures)
    share = membership(needed, known.tasks)
    if lost := [name for name in share.columns if name not in given.index]:
        source = "DataFrame" if isinstance(exposures, pd.DataFrame) else os.fspath(exposures)
        problem = f"no exposure of {join_list(lost)}; the tasks need it"
        other = "" if concepts is not None else " ('other' are tasks of which none is detected)"
        raise DataError([Fault(source, problem)], f"Add a row for each concept{other}.")
    rng = stream(check_seed(seed), "exposures")
    if "documents" in given:
        counts, part = given["documents"].to_numpy(), float(given["share"].iloc[0])
        drawn = counted_exposures(counts, part, imputations, rng)
    else:
        mean, sd = given["exposure"].to_numpy(), given["exposure_sd"].to_numpy()
        drawn = given_exposures(mean, sd, imputations, rng)
    # Of all concepts of the table: the largest exposure, by which others are divided, may be that
    # of one that no task needs.
    drawn = drawn[:, given.index.get_indexer(share.columns)]
    of_tasks = contamination_of(drawn @ share.to_numpy().T)
    items = known.items["item"].to_numpy() if by == "input" else np.array(known.tasks, dtype=object)
    task = known.items["task"] if by == "input" else items
    at = pd.Index(share.index).get_indexer(task)
    return pd.DataFrame(
        {
            IMPUTATION: np.repeat(np.arange(1, imputations + 1), len(items)),
            "benchmark": benchmark,
            "item": np.tile(items, imputations),
            "contamination": of_tasks[:, at].ravel(),
        }
    )
