"""Logs of Inspect (.eval and .json) to responses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from bayescontam.errors import DataError, Fault
from bayescontam.importers.choices import Names, Paths, chosen, several
from bayescontam.importers.imported import Imported, imported
from bayescontam.importers.inspect_logs import Log, Sample, find_logs, read_log
from bayescontam.importers.inspect_scores import NoAnswer, Partial, Scoring, as_array
from bayescontam.importers.kept import Kept
from bayescontam.importers.left_out import LeftOut
from bayescontam.importers.lines import reading_bar
from bayescontam.importers.runs import Differing, model_names, version_notes
from bayescontam.names import listed, visible
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
    keep: Names = (),
    differing: Differing = "error",
    skip_broken: bool = False,
    progress: bool = False,
) -> Imported:
    """Read logs of Inspect into a table of responses.

    The benchmark is the task, the item the sample's id. Epochs, and runs of one model, are
    trials and added up. A sample that occurs in several logs, because a run was taken up again
    or a log was converted, counts once. Samples with an error, without a score or invalidated
    are missing; they are counted, and never zero.

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
    keep : str or sequence of str, optional
        Columns to keep, such as ``metadata.level``, or ``name=metadata.level`` to rename it.
    differing : {"error", "pool", "split"}, default "error"
        What becomes of runs of one model with other settings; see
        `bayescontam.importers.runs.model_names`.
    skip_broken : bool, default False
        Leave out and count logs that cannot be read; otherwise they are an error.
    progress : bool, default False
        Show progress where there is much to read.

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
    kept, left_out = Kept.of(keep), LeftOut(skip_broken)
    reader = require("inspect_ai.log", "inspect")
    files = find_logs(paths, reader)
    logs = []
    with reading_bar(files, progress, _LARGE) as advance:
        for file in files:
            logs += read_log(file, reader, kept, left_out)
            advance(file.stat().st_size / 1e6)
    left_out.raise_if_broken()
    names, notes = model_names([log.run for log in logs], differing)
    if differing != "pool":
        _check_inputs(logs)
    taken = chosen("scorer", scorer, _candidates(logs), "samples")
    trials = _trials(logs, names, taken, scoring, kept, left_out)
    hint = "what a data set says of samples is in 'metadata', such as metadata.level"
    kept.check(trials, "sample", hint)
    notes += _notes(logs) + scoring.notes(trials.pop("value") if len(trials) else ())
    source = listed(map(str, several(paths)), most=3)
    return imported(trials, left_out, chosen=taken, notes=notes, source=source)


def _check_inputs(logs: Sequence[Log]) -> None:
    """Refuse ids that stand for other texts in other logs: they name no items."""
    first: dict[tuple[str, str], tuple[str, str]] = {}
    faults: dict[str, Fault] = {}
    for log in logs:
        for sample in log.samples:
            key = (log.run.benchmark, sample.item)
            text, file = first.setdefault(key, (sample.text, log.run.file))
            if text != sample.text:
                problem = f"sample '{visible(sample.item, 60)}' has another input than in "
                faults.setdefault(log.run.file, Fault(log.run.file, problem + visible(file)))
    if faults:
        raise DataError(
            list(faults.values()),
            "give logs of one version of the data set; if it has no ids of its own and was "
            "shuffled, its numbers name no items (--differing pool takes them even so)",
        )


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
    kept: Kept,
    left_out: LeftOut,
) -> pd.DataFrame:
    """Return the trials that count, each sample once."""
    known: dict[str, Any] = {}
    faults: list[Fault] = []
    parts = []
    for log, model in sorted(zip(logs, names, strict=True), key=lambda pair: pair[0].created):
        task, rows, read = log.run.benchmark, [], []
        for sample in log.samples:
            value = sample.values.get(taken.get(task, ""), _UNSCORED)
            try:
                outcome = value if value is _UNSCORED else scoring.read(value)
            except ValueError as error:
                place = f"sample '{visible(sample.item, 60)}': {visible(taken[task], 60)}"
                faults.append(Fault(log.run.file, f"{place} {error}"))
                continue
            if sample.key not in known:
                known[sample.key] = outcome
                rows.append(sample)
                read.append(outcome)
            elif known[sample.key] != outcome:
                problem = f"sample '{visible(sample.item, 60)}' is scored otherwise than before"
                faults.append(Fault(log.run.file, f"{problem}; give one of these logs"))
            else:
                left_out.add(task, "sample that is in another log too")
        for reason, count in Counter(value for value in read if isinstance(value, str)).items():
            left_out.add(task, reason, count)
        frame = _frame(log, model, taken.get(task, ""), rows, read)
        parts.append(kept.beside(frame, [sample.kept for sample in rows]))
    if faults:
        raise DataError(faults)
    trials = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"correct": []})
    return trials[trials["correct"].notna()]


def _frame(
    log: Log, model: str, scorer: str, rows: Sequence[Sample], read: list[float | str]
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "model": model,
            "benchmark": log.run.benchmark,
            "item": [sample.item for sample in rows],
            "correct": as_array(read),
            "run": log.eval_id,
            "value": [sample.values.get(scorer) for sample in rows],
        }
    )


def _notes(logs: Sequence[Log]) -> list[str]:
    notes = version_notes("Inspect", (log.version for log in logs), "logs")
    if open_ := Counter(log.status for log in logs if log.status != "success"):
        told = ", ".join(f"{count} {name}" for name, count in sorted(open_.items()))
        notes.append(f"runs that did not end well ({told}): the samples that they finished count")
    return notes
