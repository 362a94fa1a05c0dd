"""Samples of lm-evaluation-harness and lmms-eval to responses."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from bayescontam._files import sha256
from bayescontam._progress import Advance
from bayescontam._text import join_list, printable
from bayescontam.data.importers.base import (
    ExtraColumns,
    LeftOut,
    Names,
    Paths,
    check_threshold,
    objects,
    select,
)
from bayescontam.data.importers.logs import Imported, Importing, Log, LogOptions, Trial
from bayescontam.data.importers.runs import (
    Naming,
    Run,
    alike_note,
    fingerprint,
    original_name,
    version_notes,
)
from bayescontam.data.jsonl import json_object, part
from bayescontam.errors import DataError, Fault, UsageError

_PACKED = r"(?:\.(?:gz|bz2|xz|zst|zstd))?"
_SAMPLES = (
    re.compile(
        # What follows the date is no part of the task: such a file is of the same run.
        r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)"
        r"(?:(?!_\d{4}-\d\d-\d\dT).)*?)?\.jsonl?" + _PACKED
    ),
    # lmms-eval, whose rows are the same
    re.compile(r"(?P<date>\d{8}_\d{4,6})_samples_(?P<task>.+?)\.jsonl?" + _PACKED),
)
_OLD_RESULTS = "results.json"
UNFILTERED = "none"  # name that the tool gives to the filter of a task that has none
_NAMING = ("peft", "delta", "pretrained", "model", "path", "engine")
"""Model arguments that name the model, as the tool looks for them."""
_HOW = {
    "device", "device_map_option", "parallelize", "batch_size", "max_batch_size", "cache_dir",
    "trust_remote_code", "tensor_parallel_size", "data_parallel_size", "gpu_memory_utilization",
    "num_concurrent", "max_retries", "timeout", "base_url", "offload_folder", "swap_space",
    "max_memory_per_gpu", "max_cpu_memory", "attn_implementation", "verify_certificate",
    "tokenized_requests", "seed",
}  # fmt: skip
"""Model arguments that say how and where it ran, not which model it is."""
_PROMPTS = ("chat_template_sha", "system_instruction_sha")
_OF_TASK = {"version": "versions", "n-shot": "n-shot"}
_FIXED = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
    "doc_hash", "prompt_hash", "target_hash", "task_name", "input",
}  # fmt: skip


class Row(NamedTuple):
    """What counts of a row."""

    doc_id: str
    doc_hash: str | None
    content: str | None
    metrics: dict[str, Any]
    answer: str | None
    extra: tuple[Any, ...]
    place: str  # in its file


@dataclass
class Samples:
    """A file of samples, and the run that it is of."""

    run: Run
    results: Mapping[str, Any]  # what the results file of the run holds
    random_name: bool
    """Whether the tool made up the model's name, so that the kind of model stands for it."""
    rows: dict[str, list[Row]] = field(default_factory=dict)  # by filter
    unnamed: int = 0
    """Filters whose rows do not name them, and that were named by their order; 0 if none."""

    @property
    def task(self) -> str:
        """Its benchmark."""
        return self.run.benchmark

    @property
    def filters(self) -> tuple[str, ...] | None:
        """Filters of the task in the order of its configuration; None if that is unknown."""
        return part(self.results, "configs").get(self.task)


class ResultsFiles:
    """Results files, each read once though many files of samples lie beside it."""

    def __init__(self) -> None:
        self._known: dict[Path, dict[str, Any]] = {}

    def read(self, path: Path) -> dict[str, Any]:
        """Return what a results file holds."""
        if path not in self._known:
            found = json_object(path)
            # Configurations of tasks are long, and only names of tasks and filters are needed.
            configs = part(found, "configs")
            self._known[path] = {
                **found,
                "samples": None,
                "configs": {task: _filters_of_task(part(configs, task)) for task in configs},
            }
        return self._known[path]

    def of(self, path: Path, date: str | None) -> dict[str, Any]:
        """Return the results of a run: named by its date, or as older versions named them."""
        if date is None:
            old = path.parent / _OLD_RESULTS
            return self.read(old) if old.is_file() else {}
        # The tool puts another name in front of the date if --output_path is a file; lmms-eval
        # begins with the date. Copies have a mark before the ending.
        folder = path.parent
        names = f"*_{date}.json*", f"{date}_results.json*", f"*_{date} *.json*", f"{date}_results *"
        candidates = [file for name in names for file in sorted(folder.glob(name))]
        found = (self.read(file) for file in candidates if _named(file) is None)
        return next((results for results in found if "config" in results), {})


def _samples(path: Path, naming: Naming, files: ResultsFiles) -> Samples:
    """Return what names and results file state of a file of samples, without its rows."""
    named = _named(path)
    date = (named["date"] if named else None) or ""
    results = files.of(path, date or None)
    task = named["task"] if named else _old_task(path, results)
    config = part(results, "config")
    given = _arguments(config.get("model_args"))
    named_by = next((given[name] for name in _NAMING if name in given), None)
    # Without such an argument the tool makes up a name, another one in each run.
    stated = named_by or str(config.get("model") or "")
    model, folder = naming.of(path, path.resolve().parent.name, stated)
    id_ = f"{folder}/{date}" if date else ""
    random_name = not folder and named_by is None and bool(results)
    # What is absent has the tool's default.
    settings: dict[str, Any] = {name: given[name] for name in given if name not in _HOW}
    settings |= {"model_source": config.get("model"), "gen_kwargs": config.get("gen_kwargs")}
    settings |= {name: results.get(name) for name in _PROMPTS}
    of_model = {name: str(value) for name, value in settings.items() if value}
    tested = {name: part(results, key) for name, key in _OF_TASK.items()}
    of_task = {name: str(values[task]) for name, values in tested.items() if task in values}
    return Samples(
        Run(model, task, str(path), of_model, of_task, id_, folder), results, random_name
    )


def _named(path: Path) -> re.Match[str] | None:
    name = original_name(path.name)
    return next((match for pattern in _SAMPLES if (match := pattern.fullmatch(name))), None)


def _filters_of_task(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a task's filters; of one that configures none, the tool's own."""
    listed = config.get("filter_list")
    named = (
        [own.get("name") for own in listed if isinstance(own, Mapping)]
        if isinstance(listed, list)
        else []
    )
    return tuple(str(name) for name in named if name) or (UNFILTERED,)


def _is_samples(path: Path, results: ResultsFiles) -> bool:
    if _named(path):
        return True
    old = path.parent / _OLD_RESULTS
    return path.suffix == ".jsonl" and old.is_file() and bool(_tasks_of(path, results.read(old)))


def _tasks_of(path: Path, results: Mapping[str, Any]) -> list[str]:
    tasks = results.get("configs") or []
    stem = original_name(path.stem)
    return sorted((task for task in tasks if stem.endswith(f"_{task}")), key=len)


def _old_task(path: Path, results: Mapping[str, Any]) -> str:
    if tasks := _tasks_of(path, results):
        return tasks[-1]
    raise DataError(
        [Fault(str(path), "neither the file's name nor a results.json beside it names the task")],
        "rename it to samples_TASK_DATE.jsonl, with a date such as 2026-01-31T12-00-00",
    )


def _arguments(given: Any) -> dict[str, str]:
    """Return model arguments, which are text in older versions."""
    if isinstance(given, str):
        pairs = (part.partition("=") for part in given.split(",") if part.strip())
        return {name.strip(): value for name, _, value in pairs}
    return {name: str(value) for name, value in part({"given": given}, "given").items()}


def _read(samples: Samples, importing: Importing, advance: Advance) -> None:
    """Read the rows of a file of samples."""
    file, left_out = Path(samples.run.file), importing.left_out
    unnamed: list[list[Row]] = []
    seen: set[tuple[str, str]] = set()
    times: Counter[str] = Counter()
    for place, content in objects(file, left_out, advance):
        with importing.row(file, place):
            row, name = _row(content, importing.extra, place), content.get("filter")
            if name is None:
                # Versions that name no filters write the rows of one filter after those of
                # another, so that a document's first row is of the first filter.
                if times[row.doc_id] == len(unnamed):
                    unnamed.append([])
                unnamed[times[row.doc_id]].append(row)
                times[row.doc_id] += 1
                continue
            if not isinstance(name, str):
                raise TypeError(f"'filter' is {printable(repr(name), 60)}; allowed is text")
            if (name, row.doc_id) in seen:
                again = f"document {row.doc_id} again, with filter '{printable(name, 60)}'"
                raise ValueError(f"{again}; each occurs once in a run")
            seen.add((name, row.doc_id))
            samples.rows.setdefault(name, []).append(row)
    found = _by_order(samples, unnamed, left_out)
    for name, rows in found.items():
        if name in samples.rows:
            problem = f"some rows name the filter '{printable(name, 60)}', some none"
            left_out.broken(str(file), "as a whole", problem)
        samples.rows.setdefault(name, rows)
    samples.unnamed = len(found) if len(found) > 1 else 0


def _by_order(
    samples: Samples, unnamed: list[list[Row]], left_out: LeftOut
) -> dict[str, list[Row]]:
    """Name the filters of rows that do not, in the order of the task's configuration."""
    names = samples.filters
    if names is None:
        numbered = (f"unnamed-{place + 1}" for place in range(len(unnamed)))
        names = tuple(numbered) if len(unnamed) > 1 else (UNFILTERED,)
    if len(unnamed) > len(names):
        again = {row.doc_id for rows in unnamed[len(names) :] for row in rows}
        left_out.broken(
            samples.run.file,
            "as a whole",
            f"{len(again):,} documents occur {len(unnamed)} times, though the task is configured "
            f"with {len(names)} filters ({join_list(names)}) and the rows name none",
            count=sum(map(len, unnamed)),
            advice="give the file of one run; was a second run written into it?",
        )
        return {}
    return dict(zip(names, unnamed, strict=False))


def _row(row: dict[str, Any], extra: ExtraColumns, place: str) -> Row:
    if not isinstance(row.get("doc_id"), int | str):
        raise KeyError("has no 'doc_id'; is this a file of samples of lm_eval?")
    names = row.get("metrics")
    measured = names if isinstance(names, list) else [key for key in row if key not in _FIXED]
    given = row.get("doc_hash")
    if not isinstance(given, str | None):
        raise TypeError(f"'doc_hash' is {printable(repr(given), 60)}; allowed is text")
    responses = (row.get("resps"), row.get("filtered_resps"))
    content = given or None
    if not given and "doc" in row:  # hashed as the tool does
        content = sha256(json.dumps(row["doc"], indent=2, ensure_ascii=False).encode())
    return Row(
        str(row["doc_id"]),
        given,
        content,
        {key: row[key] for key in measured if key in row},
        fingerprint(responses) if any(responses) else None,
        extra.values(row),
        place,
    )


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
    filter, metric, threshold, model, **options
        See `LogOptions`. Rows that do not name their filters have those of the task's
        configuration, in its order.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError, DataError
        If files are missing, a choice is needed or cannot be used, or logs cannot be used.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> row = '{"doc_id": 0, "doc_hash": "d0", "filter": "none", "metrics": ["acc"], "acc": 1.0}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "samples_quiz_2026-01-31T12-00-00.jsonl")
    ...     _ = file.write_text(row)
    ...     found = import_lm_eval(folder, model="org/model")
    >>> print(*found.frame.loc[0, ["model", "benchmark", "item", "n_correct", "n_trials"]])
    org/model quiz d0 1 1
    >>> print(*found.frame.loc[0, ["log_file", "log_sample"]], sep=": ")
    samples_quiz_2026-01-31T12-00-00.jsonl: doc_id 0, line 1
    """
    importing = Importing(paths, options)
    check_threshold(threshold)
    naming, results = Naming(model, "no results file of the run names the model"), ResultsFiles()
    files = importing.files(
        lambda folder: (file for file in folder.rglob("*.json*") if _is_samples(file, results)),
        "holds no samples_TASK_DATE.jsonl, nor DATE_samples_TASK.jsonl of lmms-eval; give the "
        "folder that was --output_path, of a run with --log_samples",
    )
    read = [_samples(path, naming, results) for path in files]
    naming.check()
    with importing.bar(files) as advance:
        for samples in read:
            for group, parts in part(samples.results, "group_subtasks").items():
                if isinstance(parts, list):
                    importing.groups.state(group, (name for name in parts if isinstance(name, str)))
            _read(samples, importing, advance)
    importing.left_out.raise_if_broken()
    filters = _filters(read, filter)
    hashed, notes = _hashed(read, filters)
    if made_up := sorted({samples.run.model for samples in read if samples.random_name}):
        kinds = join_list(made_up)
        notes.insert(0, f"no model argument names the model: it is called after its kind, {kinds}")
    versions = [str(samples.results.get("lm_eval_version") or "unknown") for samples in read]
    logs = [_log(samples, filters, hashed, importing.left_out) for samples in read]
    return importing.table_of(
        logs,
        "lm_eval",
        metric=metric,
        threshold=threshold,
        hint="documents are in 'doc', such as doc.subject",
        notes=[*version_notes("lm_eval", versions, "files"), *notes],
        choice=lambda task, metric: f"{metric}, filter {filters[task]}",
    )


def _filters(read: Sequence[Samples], given: Names) -> dict[str, str]:
    """Return the filter of each task."""
    known: dict[str, Counter[str]] = {}
    for samples in read:
        for name, rows in samples.rows.items():
            known.setdefault(samples.task, Counter())[name] += len(rows)
    try:
        return select("filter", given, known)
    except UsageError as error:
        several = [samples for samples in read if samples.unnamed]
        if not several:
            raise
        first = several[0]
        order = "have numbers, in the order of the file, since no results file names them"
        if first.filters:
            order = "are named after the task's configuration, in its order"
        more = f" and {len(several) - 1} more files" if len(several) > 1 else ""
        raise UsageError(
            f"{error}. {printable(first.run.file)}{more}: {first.unnamed} rows for each document "
            f"that do not name their filters, which {order}"
        ) from error


def _log(samples: Samples, filters: Mapping[str, str], hashed: Set[str], left_out: LeftOut) -> Log:
    """Return the rows of the filter that counts, as trials."""
    task = samples.task
    for name, others in samples.rows.items():
        if name != filters.get(task):
            left_out.add(task, f"rows of another filter: {printable(name, 60)}", len(others))
    rows = samples.rows.get(filters.get(task, ""), [])
    times: Counter[str] = Counter()
    trials = []
    # By number of the document, so that the order of rows does not number its repeats.
    for row in sorted(rows, key=lambda row: (len(row.doc_id), row.doc_id)):
        item, content = (str(row.doc_hash), None) if task in hashed else (row.doc_id, row.content)
        trials.append(
            Trial(
                item, row.metrics, str(times[item]), row.answer, content, row.extra,
                sample=f"doc_id {row.doc_id}, {row.place}",
            )
        )  # fmt: skip
        times[item] += 1
    stated = part(samples.results, "higher_is_better", task)
    lower = {name: not better for name, better in stated.items() if isinstance(better, bool)}
    return Log(samples.run, trials, lower)


def _hashed(read: Sequence[Samples], filters: Mapping[str, str]) -> tuple[set[str], list[str]]:
    """Return the tasks whose items are named by hashes of documents, and notes on names."""
    hashed, notes = set(), []
    for task in filters:
        each = (rows for own in read if own.task == task for rows in own.rows.values())
        pairs = {(row.doc_id, row.doc_hash) for rows in each for row in rows}
        numbers, hashes = ({pair[side] for pair in pairs} for side in (0, 1))
        name = printable(task)
        if not all(hashes):
            notes.append(
                f"{name}: logs without hashes of documents, so that their numbers (doc_id) name "
                "the items; make sure that all runs are of the same version of the task"
            )
            continue
        hashed.add(task)
        if len(hashes) > len(numbers):
            notes.append(
                f"{name}: {len(hashes):,} different documents under {len(numbers):,} numbers: runs "
                "are not of the same documents, and share only those that are alike"
            )
        if len(pairs) > len(hashes):
            notes.append(alike_note(task, len(pairs) - len(hashes)))
    return hashed, notes
