"""Logs of lm-evaluation-harness: what ``lm_eval --log_samples`` wrote, to responses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.importers.choices import Names, Paths, chosen, several
from bayescontam.importers.imported import Imported, imported
from bayescontam.importers.kept import Kept
from bayescontam.importers.left_out import LeftOut
from bayescontam.importers.lines import reading_bar
from bayescontam.importers.lm_eval_files import (
    ResultsFiles,
    SamplesFile,
    find_files,
    samples_file,
)
from bayescontam.importers.lm_eval_rows import Log, Rows, read_log
from bayescontam.importers.outcomes import check_threshold, number, scores
from bayescontam.importers.runs import Differing, model_names, version_notes
from bayescontam.names import listed, visible


def import_lm_eval(
    paths: Paths,
    *,
    filter: Names = (),
    metric: Names = (),
    threshold: float | None = None,
    model: str | None = None,
    keep: Names = (),
    differing: Differing = "error",
    skip_broken: bool = False,
    progress: bool = False,
) -> Imported:
    """Read logs of lm-evaluation-harness into a table of responses.

    The benchmark is the task, the item the document's hash. Where a file of a task has no
    hashes (before version 0.4.3), the document's number is the item. Runs of one model are
    repeats of each other and added up; a file with the same content as another one is not.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files ``samples_{task}_{date}.jsonl``, or folders that hold them. The model's name is
        taken from the results file beside them.
    filter, metric : str or sequence of str, optional
        Filter and metric that count, needed where a task has several. One of the form
        ``task=name`` is for this task only.
    threshold : float, optional
        Value of the metric from which on an answer is correct, or up to which if lower is
        better. Default: values must be 0 or 1.
    model : str, optional
        Name of the model that all files are of. Default: as the results files say.
    keep : str or sequence of str, optional
        Columns to keep, such as ``doc.subject``, or ``name=doc.subject`` to rename it.
    differing : {"error", "pool", "split"}, default "error"
        What becomes of runs of one model with other settings; see
        `bayescontam.importers.runs.model_names`.
    skip_broken : bool, default False
        Leave out and count broken rows; otherwise they are an error.
    progress : bool, default False
        Show progress where there is much to read.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError
        If files are missing, or a choice is needed or cannot be used.
    DataError
        If logs cannot be used.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> row = '{"doc_id": 0, "doc_hash": "d0", "filter": "none", "metrics": ["acc"], "acc": 1.0}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "samples_quiz_2026-01-31T12-00-00.jsonl")
    ...     _ = file.write_text(row)
    ...     found = import_lm_eval(folder, model="org/model")
    >>> found.frame.to_dict("records")
    [{'model': 'org/model', 'benchmark': 'quiz', 'item': 'd0', 'n_correct': 1, 'n_trials': 1}]
    """
    check_threshold(threshold)
    kept, left_out, files = Kept.of(keep), LeftOut(skip_broken), ResultsFiles()
    found = [samples_file(path, model, files) for path in find_files(paths, files)]
    with reading_bar([file.path for file in found], progress) as advance:
        read = [read_log(file, kept, left_out, advance) for file in found]
    left_out.raise_if_broken()
    read = _without_copies(
        read, model_names([log.file.run for log in read], differing)[0], left_out
    )
    names, notes = model_names([log.file.run for log in read], differing)
    notes += _notes([log.file for log in read])
    filters, metrics = _choices(read, filter, metric)
    items, item_notes = _items(read, filters)
    taken = {task: Taken(filters[task], metrics[task], items[task]) for task in filters}
    parts = [
        _trials(log, name, taken[task], threshold, kept, left_out)
        for log, name in zip(read, names, strict=True)
        if (task := log.file.run.benchmark) in taken
    ]
    choice = {task: f"{own.metric}, filter {own.filter}" for task, own in taken.items()}
    trials = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    kept.check(trials, "row", "documents are in 'doc', such as doc.subject")
    source = listed(map(str, several(paths)), most=3)
    return imported(trials, left_out, chosen=choice, notes=notes + item_notes, source=source)


class Taken(NamedTuple):
    """What counts of a task."""

    filter: str
    metric: str
    item: str
    """By what items are named: ``"doc_hash"`` or ``"doc_id"``."""


def _without_copies(logs: Sequence[Log], names: Sequence[str], left_out: LeftOut) -> list[Log]:
    """Return logs of which no two are of one run, nor have the same answers throughout.

    Two runs in which nothing was random have the same answers too, and tell no more than one.
    Models of other names are other models, whatever they answer.
    """
    found: dict[tuple[Any, ...], Log] = {}
    named = zip(logs, names, strict=True)
    for log, name in sorted(named, key=lambda pair: (-pair[0].size, str(pair[0].file.path))):
        run = log.file.run
        keys: list[tuple[Any, ...]] = [("answers", name, run.benchmark, log.digest)]
        keys += [("date", run.model, run.benchmark, log.file.date)] if log.file.date else []
        if any(key in found for key in keys):
            left_out.add(run.benchmark, "rows of a run that is there already", log.size)
        else:
            found.update(dict.fromkeys(keys, log))
    first = {id(log) for log in found.values()}
    return [log for log in logs if id(log) in first]


def _notes(files: Sequence[SamplesFile]) -> list[str]:
    notes = version_notes("lm_eval", (file.version or "unknown" for file in files), "files")
    if unnamed := sorted({file.run.model for file in files if file.random_name}):
        notes.append(
            f"no model argument names the model: it is called after its kind, {listed(unnamed)}"
        )
    return notes


def _choices(
    logs: Sequence[Log], filters: Sequence[str], metrics: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return filter and metric of each task."""
    known: dict[str, Counter[str]] = {}
    for log in logs:
        for name, rows in log.rows.items():
            known.setdefault(log.file.run.benchmark, Counter())[name] += len(rows.doc_id)
    taken = chosen("filter", filters, known)
    measured: dict[str, Counter[str]] = {task: Counter() for task in known}
    for log in logs:
        task = log.file.run.benchmark
        if task in taken and taken[task] in log.rows:
            for values in log.rows[taken[task]].metrics:
                measured[task].update(list(values))
    if bare := sorted(task for task, counts in measured.items() if not counts):
        raise UsageError(f"no metric in the rows of {listed(bare)}: was it run to predict only?")
    return taken, chosen("metric", metrics, measured)


def _items(logs: Sequence[Log], filters: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return for each task by what its items are named, and notes on it."""
    named, notes = {}, []
    for task in filters:
        mine = [log for log in logs if log.file.run.benchmark == task]
        if all(all(rows.doc_hash) for log in mine for rows in log.rows.values()):
            named[task] = "doc_hash"
            notes += _alike(task, mine)
            continue
        named[task] = "doc_id"
        notes.append(
            f"{visible(task)}: logs without hashes of documents, so that their numbers (doc_id) "
            "name the items; make sure that all runs are of the same version of the task"
        )
        _check_numbers(task, mine)
    return named, notes


def _alike(task: str, logs: Sequence[Log]) -> list[str]:
    """Say where hashes and numbers of documents do not go together one to one."""
    pairs = {
        pair
        for log in logs
        for rows in log.rows.values()
        for pair in zip(rows.doc_id, rows.doc_hash, strict=True)
    }
    numbers, hashes = ({pair[side] for pair in pairs} for side in (0, 1))
    notes = []
    if len(hashes) > len(numbers):
        notes.append(
            f"{visible(task)}: {len(hashes):,} different documents under {len(numbers):,} numbers:"
            " runs are not of the same documents, and share only those that are alike"
        )
    if len(pairs) > len(hashes):
        notes.append(
            f"{visible(task)}: {len(pairs) - len(hashes):,} documents occur again under another "
            "number; their answers count as trials of one item"
        )
    return notes


def _check_numbers(task: str, logs: Sequence[Log]) -> None:
    """Refuse numbers that stand for other documents in other files; one fault for each file."""
    first: dict[str, tuple[str, Log]] = {}
    faults: dict[str, Fault] = {}
    for log in logs:
        for rows in log.rows.values():
            for doc_id, content in zip(rows.doc_id, rows.content, strict=True):
                if content is None:
                    continue
                known, other = first.setdefault(doc_id, (content, log))
                if known != content:
                    problem = f"document {doc_id} of {visible(task)} is another than in "
                    path = str(log.file.path)
                    faults.setdefault(path, Fault(path, problem + visible(str(other.file.path))))
    if faults:
        raise DataError(
            list(faults.values()),
            "without hashes documents are told apart by their numbers; give logs of one version "
            "of the task",
        )


def _trials(
    log: Log,
    model: str,
    taken: Taken,
    threshold: float | None,
    kept: Kept,
    left_out: LeftOut,
) -> pd.DataFrame:
    """Return the trials of a log that count."""
    task, metric = log.file.run.benchmark, taken.metric
    for other, rows in log.rows.items():
        if other != taken.filter:
            left_out.add(task, f"rows of another filter: {visible(other, 60)}", len(rows.doc_id))
    rows = log.rows.get(taken.filter, Rows())
    values = np.array([_number(found.get(metric), log, metric) for found in rows.metrics])
    lower = log.file.lower_better.get(metric, False)
    correct, odd = scores(values, threshold, lower_better=lower)
    if odd.any() or (lower and threshold is None and len(values)):
        raise _refused(log, metric, values[odd], lower)
    frame = pd.DataFrame(
        {
            "model": model,
            "benchmark": task,
            "item": rows.doc_hash if taken.item == "doc_hash" else rows.doc_id,
            "correct": correct,
            "run": str(log.file.path),
        }
    )
    missing = np.isnan(correct)
    left_out.add(task, f"no value of {visible(metric, 60)}", int(missing.sum()))
    return kept.beside(frame, rows.kept)[~missing]


def _number(value: Any, log: Log, metric: str) -> float:
    try:
        return number(value)
    except TypeError as error:
        raise DataError(
            [Fault(str(log.file.path), f"metric {visible(metric, 60)} {error}")],
            "choose another one (metric, --metric)",
        ) from error


def _refused(log: Log, metric: str, odd: np.ndarray, lower: bool) -> DataError:
    name = visible(metric, 60)
    if lower:
        problem = f"lower is better for metric {name}, so that it does not tell what is correct"
        side = "up to"
    else:
        found = ", ".join(f"{value:g}" for value in np.unique(odd)[:5])
        problem = f"metric {name} is not 0 or 1 in {len(odd):,} rows, such as {found}"
        side = "from"
    return DataError(
        [Fault(str(log.file.path), problem)],
        f"choose another metric, or give the value {side} which an answer is correct (threshold, "
        "--threshold)",
    )
