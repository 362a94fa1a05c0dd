"""Logs of Inspect (.eval and .json) to responses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import pandas as pd

from bayescontam.errors import DataError, Fault
from bayescontam.importers.choices import Names, Paths, chosen
from bayescontam.importers.extra_columns import ExtraColumns
from bayescontam.importers.imported import Imported
from bayescontam.importers.inspect_logs import Log, Sample, find_logs, read_log
from bayescontam.importers.inspect_scores import NoAnswer, Partial, Scoring, as_array
from bayescontam.importers.left_out import LeftOut
from bayescontam.importers.logs import Importing, LogOptions
from bayescontam.importers.outcomes import Errors, check_errors, error_notes
from bayescontam.importers.runs import version_notes
from bayescontam.names import visible
from bayescontam.optional import require

_LARGE = 2_000_000
"""Bytes of compressed logs that take about two seconds to read."""
_UNSCORED = "no score of the scorer chosen"


def import_inspect(
    paths: Paths,
    *,
    scorer: Names = (),
    partial: Partial = "error",
    no_answer: NoAnswer = "incorrect",
    threshold: float | None = None,
    errors: Errors = "leave-out",
    **options: Unpack[LogOptions],
) -> Imported:
    """Read logs of Inspect into a table of responses.

    The benchmark is the task, the item the sample's id. A sample that occurs in several logs,
    because a run was resumed or a log was converted, counts once. Samples without a score, or
    invalidated, are missing; they are counted, and never zero.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Log files (.eval, .json), or folders that hold them.
    scorer : str or sequence of str, optional
        Scorer that counts, needed where a task has several. An entry of a scorer that gives
        a dictionary is named ``scorer.entry``. One of the form ``task=name`` is for this task
        only.
    partial : {"error", "correct", "incorrect", "leave-out"}, default "error"
        What becomes of partial credit ("P").
    no_answer : {"incorrect", "leave-out"}, default "incorrect"
        What becomes of "N", which Inspect gives to refusals and counts as zero.
    threshold : float, optional
        Number from which on an answer is correct. Default: numbers must be 0 or 1.
    errors : {"leave-out", "incorrect"}, default "leave-out"
        What becomes of samples that ended in an error.
    **options
        See `LogOptions`.

    Returns
    -------
    Imported

    Raises
    ------
    MissingExtraError
        If inspect-ai is not installed.
    UsageError
        If files are missing, or a choice is needed or cannot be used.
    DataError
        If logs cannot be used.

    Examples
    --------
    >>> import_inspect("logs", no_answer="half")
    Traceback (most recent call last):
        ...
    bayescontam.errors.UsageError: no_answer='half': allowed are 'incorrect', 'leave-out'
    """
    scoring = Scoring(partial, no_answer, threshold)
    check_errors(errors)
    importing = Importing(paths, options)
    extra, left_out = importing.extra, importing.left_out
    reader = require("inspect_ai.log", "inspect")
    files = find_logs(paths, reader)
    logs = []
    with importing.bar(files, _LARGE) as advance:
        for file in files:
            logs += read_log(file, reader, extra, errors, left_out)
            advance(file.stat().st_size / 1e6)
    left_out.raise_if_broken()
    names, notes = importing.names([log.run for log in logs])
    taken = chosen("scorer", scorer, _candidates(logs), "samples")
    trials = _trials(logs, names, taken, scoring, extra, left_out)
    hint = "what a data set has on samples is in 'metadata', such as metadata.level"
    extra.check(trials, "sample", hint)
    notes += _notes(logs) + scoring.notes(trials.pop("value") if len(trials) else ())
    notes += error_notes(int(trials.pop("failed").sum()) if len(trials) else 0, "sample")
    return importing.table(trials, taken, notes)


def _candidates(logs: Sequence[Log]) -> dict[str, Counter[str]]:
    """Return for each task which scores its samples have, and how often."""
    found: dict[str, Counter[str]] = {}
    for log in logs:
        for sample in log.samples:
            found.setdefault(log.run.benchmark, Counter()).update(list(sample.values))
    return {task: counts for task, counts in found.items() if counts}


def _trials(
    logs: Sequence[Log],
    names: Sequence[str],
    taken: Mapping[str, str],
    scoring: Scoring,
    extra: ExtraColumns,
    left_out: LeftOut,
) -> pd.DataFrame:
    """Return the trials that have a score."""
    faults: list[Fault] = []
    parts = []
    ran: dict[str, str] = {}
    for log, model in sorted(zip(logs, names, strict=True), key=lambda pair: pair[0].created):
        task, rows, read = log.run.benchmark, [], []
        scorer = taken.get(task, "")
        for sample in log.samples:
            value = _value(sample, scorer)
            try:
                if sample.failed:
                    outcome: float | str = 0.0
                else:
                    outcome = value if value is _UNSCORED else scoring.read(value)
            except ValueError as error:
                place = f"sample '{visible(sample.item, 60)}': {visible(scorer, 60)}"
                faults.append(Fault(log.run.file, f"{place} {error}"))
                continue
            rows.append(sample)
            read.append(outcome)
            # A sample in a later log of a resumed run is of the run in which it was answered.
            ran.setdefault(sample.key, log.eval_id)
        for reason, count in Counter(value for value in read if isinstance(value, str)).items():
            left_out.add(task, reason, count)
        frame = pd.DataFrame(
            {
                "model": model,
                "benchmark": task,
                "item": [sample.item for sample in rows],
                "correct": as_array(read),
                "run": [ran[sample.key] for sample in rows],
                "file": log.run.file,
                "trial": [sample.epoch for sample in rows],
                "answer": pd.Series([s.answers.get(scorer) for s in rows], dtype=object),
                "content": [sample.text for sample in rows],
                "value": [sample.values.get(scorer) for sample in rows],
                "failed": [sample.failed for sample in rows],
            }
        )
        parts.append(extra.added_to(frame, [sample.extra for sample in rows]))
    if faults:
        raise DataError(faults)
    if not parts:
        return pd.DataFrame({"correct": []})
    trials = pd.concat(parts, ignore_index=True)
    return trials[trials["correct"].notna()]


def _value(sample: Sample, scorer: str) -> Any:
    """Return a sample's score; for an entry of a dictionary, what is in the dictionary's place."""
    if scorer in sample.values:
        return sample.values[scorer]
    whole = sample.values.get(scorer.rpartition(".")[0])
    return whole if isinstance(whole, list) else _UNSCORED


def _notes(logs: Sequence[Log]) -> list[str]:
    notes = version_notes("Inspect", (log.version for log in logs), "logs")
    if open_ := Counter(log.status for log in logs if log.status != "success"):
        found = ", ".join(f"{count} {name}" for name, count in sorted(open_.items()))
        notes.append(f"runs that did not end well ({found}): the samples that they finished count")
    return notes
