"""Logs of lm-evaluation-harness and lmms-eval (``--log_samples``) to responses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Unpack

from bayescontam.errors import UsageError
from bayescontam.importers.choices import Names, Paths, chosen
from bayescontam.importers.identity import alike_note
from bayescontam.importers.imported import Imported
from bayescontam.importers.left_out import LeftOut
from bayescontam.importers.lm_eval_files import (
    ResultsFiles,
    SamplesFile,
    find_files,
    groups_of,
    samples_file,
)
from bayescontam.importers.lm_eval_rows import Samples, read_samples
from bayescontam.importers.logs import Importing, Log, LogOptions, Trial
from bayescontam.importers.outcomes import check_threshold
from bayescontam.importers.runs import Naming, version_notes
from bayescontam.names import listed, visible


def import_lm_eval(
    paths: Paths,
    *,
    filter: Names = (),
    metric: Names = (),
    threshold: float | None = None,
    model: Names = (),
    **options: Unpack[LogOptions],
) -> Imported:
    """Read logs of lm-evaluation-harness, or of lmms-eval, into a table of responses.

    The benchmark is the task, the item the document's hash. Where a file of a task has no
    hashes (before version 0.4.3), the document's number is the item. A metric that is a list of
    true and false, as those of IFEval are, is so many correct of so many trials.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files ``samples_{task}_{date}.jsonl`` or ``{date}_samples_{task}.jsonl``, or folders that
        hold them. The model's name is taken from the results file beside them.
    filter, metric : str or sequence of str, optional
        Filter and metric that count, needed where a task has several. One of the form
        ``task=name`` is for this task only. Rows that do not name their filters have those of
        the task's configuration, in its order.
    threshold : float, optional
        Value of the metric from which on an answer is correct, or up to which if lower is
        better. Default: values must be 0 or 1.
    model : str or sequence of str, optional
        Name of the model that all files are of, or ``folder=name`` for those of a folder.
        Default: as the results files state.
    **options
        See `LogOptions`.

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
    importing = Importing(paths, options)
    check_threshold(threshold)
    naming, results = Naming(model, "no results file of the run names the model"), ResultsFiles()
    found = [samples_file(path, naming, results) for path in find_files(paths, results)]
    naming.check()
    for file in found:
        importing.groups.state(groups_of(file.path, results))
    with importing.bar([file.path for file in found]) as advance:
        read = [read_samples(file, importing.extra, importing.left_out, advance) for file in found]
    importing.left_out.raise_if_broken()
    filters = _filters(read, filter)
    for samples in read:
        _count_others(samples, filters, importing.left_out)
    named, notes = _items(read, filters)
    logs = [_log(samples, filters, named) for samples in read]
    return importing.table_of(
        logs,
        "lm_eval",
        metric=metric,
        threshold=threshold,
        hint="documents are in 'doc', such as doc.subject",
        notes=[*_notes(found), *notes],
        choice=lambda task, metric: f"{metric}, filter {filters[task]}",
    )


def _filters(read: Sequence[Samples], given: Names) -> dict[str, str]:
    """Return the filter of each task."""
    known: dict[str, Counter[str]] = {}
    for samples in read:
        for name, rows in samples.rows.items():
            known.setdefault(samples.file.run.benchmark, Counter())[name] += len(rows)
    try:
        return chosen("filter", given, known)
    except UsageError as error:
        several = [samples for samples in read if samples.unnamed]
        if not several:
            raise
        first = several[0]
        order = (
            "are named after the task's configuration, in its order"
            if first.file.filters
            else "have numbers, in the order of the file, since no results file names them"
        )
        raise UsageError(
            f"{error}. {visible(str(first.file.path))}"
            f"{f' and {len(several) - 1} more files' if len(several) > 1 else ''}: "
            f"{first.unnamed} rows for each document that do not name their filters, which {order}"
        ) from error


def _count_others(samples: Samples, filters: Mapping[str, str], left_out: LeftOut) -> None:
    task = samples.file.run.benchmark
    for name, rows in samples.rows.items():
        if name != filters.get(task):
            left_out.add(task, f"rows of another filter: {visible(name, 60)}", len(rows))


def _log(samples: Samples, filters: Mapping[str, str], named: Mapping[str, str]) -> Log:
    """Return the rows of the filter that counts, as trials."""
    task = samples.file.run.benchmark
    rows = samples.rows.get(filters.get(task, ""), [])
    by_hash = named.get(task) == "doc_hash"
    times: Counter[str] = Counter()
    trials = []
    # By number of the document, so that the order of rows does not number its repeats.
    for row in sorted(rows, key=lambda row: (len(row.doc_id), row.doc_id)):
        item = str(row.doc_hash) if by_hash else row.doc_id
        content = None if by_hash else row.content
        trials.append(Trial(item, row.metrics, str(times[item]), row.answer, content, row.extra))
        times[item] += 1
    return Log(samples.file.run, trials, samples.file.lower_better)


def _notes(files: Sequence[SamplesFile]) -> list[str]:
    notes = version_notes("lm_eval", (file.version or "unknown" for file in files), "files")
    if unnamed := sorted({file.run.model for file in files if file.random_name}):
        notes.append(
            f"no model argument names the model: it is called after its kind, {listed(unnamed)}"
        )
    return notes


def _items(read: Sequence[Samples], filters: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return for each task by what its items are named, and notes on it."""
    named, notes = {}, []
    for task in filters:
        mine = [samples for samples in read if samples.file.run.benchmark == task]
        if all(row.doc_hash for own in mine for rows in own.rows.values() for row in rows):
            named[task] = "doc_hash"
            notes += _alike(task, mine)
            continue
        named[task] = "doc_id"
        notes.append(
            f"{visible(task)}: logs without hashes of documents, so that their numbers (doc_id) "
            "name the items; make sure that all runs are of the same version of the task"
        )
    return named, notes


def _alike(task: str, read: Sequence[Samples]) -> list[str]:
    """Note where hashes and numbers of documents do not go together one to one."""
    pairs = {
        (row.doc_id, row.doc_hash) for own in read for rows in own.rows.values() for row in rows
    }
    numbers, hashes = ({pair[side] for pair in pairs} for side in (0, 1))
    notes = []
    if len(hashes) > len(numbers):
        notes.append(
            f"{visible(task)}: {len(hashes):,} different documents under {len(numbers):,} numbers:"
            " runs are not of the same documents, and share only those that are alike"
        )
    if len(pairs) > len(hashes):
        notes.append(alike_note(task, len(pairs) - len(hashes)))
    return notes
