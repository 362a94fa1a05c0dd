"""Rows of Every Eval Ever (``*_samples.jsonl``) to responses."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam.data.importers.base import (
    Errors,
    ExtraColumns,
    LeftOut,
    Names,
    Paths,
    as_list,
    check_threshold,
    error_notes,
    number,
    objects,
    select,
)
from bayescontam.data.importers.base import scores as as_correct
from bayescontam.data.importers.logs import Imported, Importing, LogOptions
from bayescontam.data.importers.runs import fingerprint
from bayescontam.data.jsonl import json_object, part
from bayescontam.data.validation import check_choice
from bayescontam.errors import DataError, Fault, UsageError

_ENDING = "_samples.jsonl"
_UNNAMED = "unnamed"  # stands for a result without a name
_COLUMNS = [
    "file", "run", "model", "benchmark", "metric", "item", "trial", "content", "answer", "score",
    "verdict", "failed",
]  # fmt: skip


def import_every_eval_ever(
    paths: Paths,
    *,
    metric: Names = (),
    only: Names = (),
    threshold: float | None = None,
    verdict: bool = False,
    errors: Errors = "leave-out",
    **options: Unpack[LogOptions],
) -> Imported:
    """Read instance-level rows of Every Eval Ever (schemas 0.2 and 0.3) into responses.

    The benchmark is the ``evaluation_name``, the item the ``sample_id``.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files ``*_samples.jsonl``, or folders that hold them.
    metric : str or sequence of str, optional
        Result (``evaluation_result_id``) that counts; see `LogOptions`.
    only : str or sequence of str, optional
        Evaluations to take. Default: all, if no two are of the same questions.
    threshold : float, optional
        See `LogOptions`. Default: scores must be 0 or 1, and agree with ``is_correct``.
    verdict : bool, default False
        Take ``is_correct`` and not the score.
    errors, **options
        See `LogOptions`.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError, DataError
        If files are missing, a choice is needed or cannot be used, or rows cannot be used.

    References
    ----------
    The schema: https://github.com/evaleval/every_eval_ever, https://arxiv.org/abs/2606.14516

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> row = {"evaluation_id": "run 1", "model_id": "org/model", "evaluation_name": "quiz"}
    >>> row |= {"sample_id": "q0", "evaluation": {"score": 1.0, "is_correct": True}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "quiz_samples.jsonl")
    ...     _ = file.write_text(json.dumps(row))
    ...     found = import_every_eval_ever(file)
    >>> found.frame.to_dict("records")
    [{'model': 'org/model', 'benchmark': 'quiz', 'item': 'q0', 'n_correct': 1, 'n_trials': 1}]
    """
    if verdict and threshold is not None:
        raise UsageError("threshold and verdict: give one; --threshold is for scores")
    check_threshold(threshold)
    check_choice("errors", errors, Errors)
    importing = Importing(paths, options)
    extra, left_out = importing.extra, importing.left_out
    files = importing.files(
        lambda folder: folder.rglob(f"*{_ENDING}*"), f"holds no *{_ENDING}; check the folder"
    )
    rows: list[tuple[Any, ...]] = []
    with importing.bar(files) as advance:
        for file in files:
            for place, row in objects(file, left_out, advance):
                with importing.row(file, place):
                    rows += _row(row, str(file), extra, errors, left_out)
    left_out.raise_if_broken()
    table = pd.DataFrame(rows, columns=[*_COLUMNS, *extra.columns])
    table = _of(table.astype({"failed": bool}), as_list(only), left_out)
    measured = table[~table["failed"]]
    counts = {str(name): Counter(own["metric"]) for name, own in measured.groupby("benchmark")}
    taken = select("metric", metric, counts)
    other = ~table["failed"] & (table["metric"] != table["benchmark"].map(taken))
    left_out.add_rows(table.loc[other, "benchmark"], "rows of another result")
    trials = _scored(table[~other], threshold, verdict, left_out)
    extra.check(trials, "row", "what else is known of samples is in 'metadata'")
    notes = error_notes(int(trials["failed"].sum()), "row")
    columns = ["model", "benchmark", "item", "trial", "correct", "run", "file", "answer", "content"]
    # The hash of an input covers the prompt, which differs between models.
    return importing.table(trials[[*columns, *extra.columns]], taken, notes, texts="note")


def _row(
    row: dict[str, Any], file: str, extra: ExtraColumns, errors: Errors, left_out: LeftOut
) -> Iterator[tuple[Any, ...]]:
    """Give what counts of a row; nothing if it is of an error that is left out."""
    names = ("evaluation_id", "model_id", "evaluation_name", "sample_id")
    if absent := [name for name in names if not isinstance(row.get(name), str)]:
        raise KeyError(f"no text in {join_list(absent)}; is this a row of Every Eval Ever?")
    run, model, benchmark, item = (row[name] for name in names)
    epoch = str(part(row, "metadata").get("epoch", ""))
    if row.get("error"):
        if errors == "leave-out":
            left_out.add(benchmark, "error in the sample")
            return
        failed = (file, run, model, benchmark, _UNNAMED, item, epoch, None, None, 0.0, 0.0, True)
        yield (*failed, *extra.values(row))
        return
    found = row.get("evaluation")
    if not isinstance(found, dict) or "score" not in found or "is_correct" not in found:
        raise KeyError("no 'evaluation' with 'score' and 'is_correct'")
    verdict = found["is_correct"]
    if not isinstance(verdict, bool | None):
        raise TypeError(f"'is_correct' is {printable(repr(verdict), 60)}; need true or false")
    try:
        score = number(found["score"])
    except TypeError as error:
        raise TypeError(f"'score' {error}") from error
    metric, hash_ = (row.get(name) for name in ("evaluation_result_id", "sample_hash"))
    if not isinstance(metric, str | None) or not isinstance(hash_, str | None):
        raise TypeError("'evaluation_result_id' and 'sample_hash' must be text where they stand")
    answer = fingerprint((row.get("output"), row.get("messages")))
    where = (file, run, model, benchmark, metric or _UNNAMED, item, epoch)
    yield (*where, hash_, answer, score, number(verdict), False, *extra.values(row))


def _of(table: pd.DataFrame, only: Sequence[str], left_out: LeftOut) -> pd.DataFrame:
    """Return the rows of the evaluations that are to be taken."""
    known = Counter(table["benchmark"])
    if absent := [name for name in only if name not in known]:
        raise UsageError(
            f"--only: {join_list(absent)} occurs nowhere; there are {join_list(known)}"
        )
    if only:
        for name, count in known.items():
            left_out.add(name, "rows of an evaluation not requested", 0 if name in only else count)
        return table[table["benchmark"].isin(only)]
    pairs = table.dropna(subset=["content"])[["run", "content", "benchmark"]].drop_duplicates()
    twice = pairs[pairs.duplicated(["run", "content"], keep=False)]
    if len(twice):
        names = sorted(twice["benchmark"].unique())
        raise UsageError(
            f"--only: needed, because the evaluations {join_list(names)} are of the same "
            "questions, answered once and scored in several ways; name those to take"
        )
    return table


def _scored(
    table: pd.DataFrame, threshold: float | None, verdict: bool, left_out: LeftOut
) -> pd.DataFrame:
    """Return the rows that have a score, with what is correct."""
    failed = table["failed"].to_numpy()
    lower = _lower_better(table)
    values = table["verdict" if verdict else "score"].to_numpy(dtype=float)
    correct, odd = as_correct(values, threshold)
    if lower.any() and not verdict:
        correct = np.where(lower, as_correct(values, threshold, lower_better=True)[0], correct)
        odd |= lower.to_numpy() & (threshold is None)
    if threshold is None and not verdict:
        odd |= table["verdict"].notna().to_numpy() & (table["verdict"].to_numpy() != correct)
    odd &= ~failed
    correct = np.where(failed, 0.0, correct)
    if odd.any():
        row = table[odd].iloc[0]
        where = f"{printable(row['benchmark'], 60)}, sample '{printable(row['item'], 60)}'"
        problem = (
            f"{odd.sum():,} scores are neither 0 nor 1, contradict is_correct, or are better the "
            f"lower they are, such as {row['score']:g} of {where}"
        )
        raise DataError(
            [Fault(row["file"], problem)],
            "give the score from which an answer is correct (threshold, --threshold), or take "
            "is_correct (verdict, --is-correct)",
        )
    missing = np.isnan(correct)
    reason = "no is_correct" if verdict else "no score"
    left_out.add_rows(table.loc[missing, "benchmark"], reason)
    return table.assign(correct=correct)[~missing]


def _lower_better(table: pd.DataFrame) -> "pd.Series[bool]":
    """Return for each row whether the file beside it states that lower is better."""
    lower: set[tuple[str, str]] = set()
    for file in table["file"].unique():
        results_file = Path(file.partition(_ENDING)[0] + ".json")
        if not results_file.is_file():
            continue
        results = json_object(results_file).get("evaluation_results")
        for result in results if isinstance(results, list) else []:
            if part({"result": result}, "result", "metric_config").get("lower_is_better"):
                lower.add((file, str(result.get("evaluation_result_id") or _UNNAMED)))
    pairs = zip(table["file"], table["metric"], strict=True)
    return pd.Series([pair in lower for pair in pairs], index=table.index, dtype=bool)
