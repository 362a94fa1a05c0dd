"""Logs of Inspect to responses."""

import math
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, Unpack
from urllib.parse import unquote, urlparse

from bayescontam._bounds import Bounds
from bayescontam._optional import require
from bayescontam._text import printable
from bayescontam.data.importers.base import (
    Errors,
    ExtraColumns,
    LeftOut,
    Names,
    Paths,
    check_threshold,
    error_notes,
    number,
    select,
)
from bayescontam.data.importers.logs import Imported, Importing, Log, LogOptions, Trial
from bayescontam.data.importers.runs import Run, fingerprint
from bayescontam.data.jsonl import json_object
from bayescontam.data.tools import tool_of
from bayescontam.data.validation import check_choice, format_value
from bayescontam.errors import BayescontamError, DataError, Fault

_CUT = "(content truncated)"  # end of a long text in the summary of a sample

type Partial = Literal["error", "correct", "incorrect", "leave-out"]
"""What becomes of partial credit ("P")."""
type NoAnswer = Literal["incorrect", "leave-out"]
"""What becomes of refusals and other lacking answers ("N")."""

_SPELLED = {"P": "partial credit (P)", "N": "no answer (N)"}
_LETTERS = {"C": 1.0, "I": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_HOW = {
    "max_connections", "adaptive_connections", "max_retries", "timeout", "attempt_timeout", "seed",
    "batch", "cache",
}  # fmt: skip
"""Options of generation that do not make it another model."""
_LARGE = 2_000_000  # bytes of compressed logs that take about two seconds to read
_METRIC = "score"
_UNSCORED = "no score of the scorer chosen"


@dataclass(frozen=True)
class Scoring:
    """How scores are read."""

    partial: Partial = "error"  # what becomes of partial credit ("P")
    no_answer: NoAnswer = "incorrect"  # what becomes of lacking answers ("N")
    # number from which on an answer is correct. Default: numbers must be 0 or 1.
    threshold: float | None = None

    def __post_init__(self) -> None:
        check_choice("partial", self.partial, Partial)
        check_choice("no_answer", self.no_answer, NoAnswer)
        check_threshold(self.threshold)

    @property
    def _choices(self) -> dict[str, str]:
        return {"P": self.partial, "N": self.no_answer}

    def read(self, value: Any) -> float | str:
        """Return 1 (correct) or 0, or why there is none."""
        if isinstance(value, str):
            if choice := self._choices.get(value):
                return self._taken(value, choice)
            known = _LETTERS.get(value, _WORDS.get(value.strip().lower()))
            if known is not None:
                return known
            try:
                found = float(value)
            except ValueError:
                problem = f"is {format_value(value)}; allowed are C, I, P, N, yes, no"
                raise ValueError(problem) from None
        elif isinstance(value, int | float | None):
            found = number(value)
        else:
            raise ValueError(f"is {format_value(repr(value))}; allowed is one number or text")
        if math.isnan(found):
            return "unscored"
        if self.threshold is not None and not isinstance(value, bool):
            return float(found >= self.threshold)
        if found not in (0.0, 1.0):
            raise ValueError(
                f"is {found:g}, neither 0 nor 1; give the value from which an answer is correct "
                "(threshold, --threshold)"
            )
        return found

    def _taken(self, letter: str, choice: str) -> float | str:
        if choice == "error":
            raise ValueError("is partial credit (P); say what it counts as (partial, --partial)")
        return _SPELLED[letter] if choice == "leave-out" else float(choice == "correct")

    def notes(self, values: Iterable[Any]) -> list[str]:
        """Say how many of the values taken are letters that were counted as an answer."""
        counts = Counter(value for value in values if isinstance(value, str))
        return [
            f"{counts[letter]:,} trials with {_SPELLED[letter]} count as {choice}"
            for letter, choice in self._choices.items()
            if counts[letter] and choice != "leave-out"
        ]


class Sample(NamedTuple):
    """What counts of a sample."""

    key: str  # names it in all logs that hold it
    item: str
    epoch: str
    text: str
    values: dict[str, Any]  # by score; of a score that is a dictionary, by entry
    answers: dict[str, str]
    failed: bool
    cancelled: bool  # while it ran, as others are where one fails
    extra: tuple[Any, ...]


class InspectLog(NamedTuple):
    """What counts of a log."""

    run: Run
    version: str
    status: str
    created: str
    task_id: str  # the same in a log and in those of its retries
    samples: list[Sample]


def _inside(folder: Path, reader: ModuleType) -> Iterator[Path]:
    """Give the logs in a folder."""
    for info in reader.list_eval_logs(str(folder)):
        yield Path(unquote(urlparse(info.name).path))
    # Renamed logs, which the tool does not list.
    yield from (file for file in folder.rglob("*.json") if tool_of(file) == "inspect")


def _check_size(file: Path) -> None:
    """Refuse a log of which more is read at once than a file may unpack to."""
    limit, source = Bounds.current(), str(file)
    try:
        size = file.stat().st_size
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                limit.check_cells(len(archive.infolist()), 1, source, "archive")
                # Samples are read one at a time, and few of them.
                parts = [part for part in archive.infolist() if "samples/" not in part.filename]
                samples = [part.file_size for part in archive.infolist()]
                size = max(sum(part.file_size for part in parts), *samples, 0)
    except (OSError, zipfile.BadZipFile):
        return  # which the reader names
    limit.check_file(size, source)


def read_log(
    file: Path, reader: ModuleType, extra: ExtraColumns, left_out: LeftOut
) -> list[InspectLog]:
    """Read a log."""
    _check_size(file)
    try:
        header = reader.read_eval_log(str(file), header_only=True)
        summaries = reader.read_eval_log_sample_summaries(str(file))
        invalid = set()
        if header.invalidated:  # only whole samples show which
            whole = reader.read_eval_log_samples(
                str(file),
                all_samples_required=False,
                exclude_fields={"messages", "events", "attachments"},
            )
            invalid = {(str(each.id), each.epoch) for each in whole if each.invalidation}
    except MemoryError:
        raise
    # A damaged log fails anywhere in the reader, of its own kind in each place.
    except Exception as error:
        if _is_header(file):
            return _without_samples(file, left_out)
        reason = printable(str(error) or type(error).__name__)
        left_out.broken(str(file), "as a log of Inspect", f"cannot be read ({reason})")
        return []
    spec = header.eval
    if not summaries and header.status == "success":
        return _without_samples(file, left_out)
    samples, seen = [], set()
    for found in summaries:
        key, place = (str(found.id), found.epoch), f"sample {found.id}, epoch {found.epoch}"
        if key in seen:
            left_out.broken(str(file), place, "occurs twice")
        elif key in invalid:
            left_out.add(spec.task, "sample was invalidated")
        else:
            try:
                samples.append(_sample(found, spec.eval_id, extra))
            except TypeError as error:
                left_out.broken(str(file), place, str(error))
        seen.add(key)
    wanted = len(spec.dataset.sample_ids or []) * (spec.config.epochs or 1)
    left_out.add(spec.task, "sample was not run", max(wanted - len(seen), 0))
    run = Run(spec.model, spec.task, str(file), _of_model(spec), _of_task(spec), spec.eval_id)
    version = str((spec.packages or {}).get("inspect_ai", "unknown"))
    task_id = spec.task_id or str(file)
    return [InspectLog(run, version, header.status, str(spec.created), task_id, samples)]


def _is_header(file: Path) -> bool:
    """Return whether a file is a log of Inspect without its samples."""
    try:
        content = json_object(file)
    except BayescontamError:
        return False
    return "eval" in content and not content.get("samples")


def _without_samples(file: Path, left_out: LeftOut) -> list[InspectLog]:
    left_out.broken(
        str(file),
        "log of Inspect",
        "holds no samples (it is a header only, or log_samples was false)",
        advice="give the log with its samples: without them there are no answers to items",
    )
    return []


def _sample(found: Any, eval_id: str, extra: ExtraColumns) -> Sample:
    row = {name: getattr(found, name, None) for name in ("metadata", "target", "limit", "epoch")}
    texts = found.input
    if not isinstance(texts, str):
        texts = [(message.role, message.text) for message in texts]
    values: dict[str, Any] = {}
    answers: dict[str, str] = {}
    for name, score in (found.scores or {}).items():
        entries = score.value if isinstance(score.value, dict) else None
        own = (
            {name: score.value}
            if entries is None
            else {f"{name}.{k}": v for k, v in entries.items()}
        )
        values |= own
        if score.answer is not None:
            answers |= dict.fromkeys(own, str(score.answer))
    return Sample(
        found.uuid or f"{eval_id} {found.id} {found.epoch}",
        str(found.id),
        str(found.epoch),
        fingerprint(_identity(texts, found)),
        values,
        answers,
        bool(found.error),
        str(found.error or "").startswith("CancelledError"),
        extra.values(row),
    )


def _identity(texts: Any, found: Any) -> Any:
    """Return what shows whether samples of one id are the same: the input, as a log's summary."""
    # Summaries cut long inputs off: samples that begin alike may differ in what they want.
    if _CUT not in repr(texts)[-len(_CUT) - 9 :]:
        return texts
    return texts, repr(found.target), repr(getattr(found, "choices", None))


def _of_model(spec: Any) -> dict[str, str]:
    options = spec.model_generate_config.model_dump(exclude_none=True)
    found = {**(spec.model_args or {}), **options, "model_base_url": spec.model_base_url}
    return {
        name: str(value)
        for name, value in found.items()
        if name not in _HOW and value not in (None, "")
    } | {"model": spec.model}


def _of_task(spec: Any) -> dict[str, str]:
    limits = spec.config.model_dump(
        include={"message_limit", "token_limit", "time_limit", "working_limit"}, exclude_none=True
    )
    solver = {"solver": spec.solver, "solver_args": spec.solver_args}
    found = {"task_version": spec.task_version, **(spec.task_args or {}), **solver, **limits}
    return {name: str(value) for name, value in found.items() if value not in (None, {})}


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
        Scorer that counts; see `LogOptions`. An entry of a scorer that gives a dictionary is named
        ``scorer.entry``.
    partial : {"error", "correct", "incorrect", "leave-out"}, default "error"
        What becomes of partial credit ("P").
    no_answer : {"incorrect", "leave-out"}, default "incorrect"
        What becomes of "N", which Inspect gives to refusals and counts as zero.
    threshold, errors, **options
        See `LogOptions`.

    Returns
    -------
    Imported

    Raises
    ------
    MissingExtraError
        If inspect-ai is not installed.
    UsageError, DataError
        If files are missing, a choice is needed or cannot be used, or logs cannot be used.

    Examples
    --------
    >>> import_inspect("logs", no_answer="half")
    Traceback (most recent call last):
        ...
    bayescontam.errors.UsageError: no_answer='half': allowed are 'incorrect', 'leave-out'
    """
    scoring = Scoring(partial, no_answer, threshold)
    check_choice("errors", errors, Errors)
    importing = Importing(paths, options)
    extra, left_out = importing.extra, importing.left_out
    reader = require("inspect_ai.log", "inspect")
    files = importing.files(
        lambda folder: _inside(folder, reader),
        "holds no logs of Inspect (.eval, .json); give the folder that was --log-dir of inspect "
        "eval",
    )
    logs = [
        log
        for file in importing.each(files, _LARGE)
        for log in read_log(file, reader, extra, left_out)
    ]
    left_out.raise_if_broken()
    _leave_out_failed(logs, errors, left_out)
    candidates: dict[str, Counter[str]] = {}
    for log in logs:
        for sample in log.samples:
            if sample.values:
                candidates.setdefault(log.run.benchmark, Counter()).update(list(sample.values))
    taken = select("scorer", scorer, candidates, "samples")
    scored, notes = _scored(logs, scoring, taken, left_out)
    return importing.table_of(
        [log for log in scored if log.trials],
        "Inspect",
        unit="sample",
        hint="what a data set has on samples is in 'metadata', such as metadata.level",
        notes=[*_not_ended(logs), *notes],
        choice=lambda task, metric: taken[task],
    )


def _leave_out_failed(logs: Sequence[InspectLog], errors: Errors, left_out: LeftOut) -> None:
    """Leave out samples that failed, unless they are the last word on a model's answer."""
    answered = {
        (log.task_id, sample.item, sample.epoch)
        for log in logs
        for sample in log.samples
        if not sample.failed
    }
    failed: dict[tuple[str, str, str], str] = {}
    for log in sorted(logs, key=lambda log: log.created):
        kept = []
        for sample in log.samples:
            key = log.task_id, sample.item, sample.epoch
            reason = ""
            again = failed.get(key, sample.key) != sample.key
            if sample.failed and (key in answered or again):
                reason = "error in a sample that was run again"
            elif sample.cancelled:
                reason = "sample was cancelled"
            elif sample.failed and errors == "leave-out":
                reason = "error in the sample"
            if reason:
                left_out.add(log.run.benchmark, reason)
            else:
                kept.append(sample)
            if sample.failed and not sample.cancelled:
                failed[key] = sample.key
        log.samples[:] = kept


def _scored(
    logs: Sequence[InspectLog], scoring: Scoring, taken: Mapping[str, str], left_out: LeftOut
) -> tuple[list[Log], list[str]]:
    """Return the samples that have an outcome by the scorer of their task, and notes on them."""
    ran: dict[str, str] = {}
    faults, values, failed, scored = [], [], 0, []
    # By time, so that a sample is of the run in which it was answered, not of one resumed later.
    for log in sorted(logs, key=lambda log: log.created):
        task, trials = log.run.benchmark, []
        scorer = taken.get(task, "")
        for sample in log.samples:
            value = _value(sample, scorer)
            outcome: float | str = 0.0 if sample.failed else _UNSCORED
            try:
                if not sample.failed and value is not _UNSCORED:
                    outcome = scoring.read(value)
            except ValueError as error:
                place = f"sample '{printable(sample.item, 60)}': {printable(scorer, 60)}"
                faults.append(Fault(log.run.file, f"{place} {error}"))
                continue
            run = ran.setdefault(sample.key, log.run.key)
            if isinstance(outcome, str):
                left_out.add(task, outcome)
                continue
            failed += sample.failed
            values.append(sample.values.get(scorer))
            answer, scores = sample.answers.get(scorer), {_METRIC: outcome}
            place = f"sample {sample.item}, epoch {sample.epoch}"
            trials.append(
                Trial(
                    sample.item, scores, sample.epoch, answer, sample.text, sample.extra,
                    run=run, sample=place,
                )
            )  # fmt: skip
        scored.append(Log(log.run, trials, version=log.version))
    if faults:
        raise DataError(faults)
    return scored, [*scoring.notes(values), *error_notes(failed, "sample")]


def _value(sample: Sample, scorer: str) -> Any:
    """Return a sample's score; for an entry of a dictionary, what is in the dictionary's place."""
    if scorer in sample.values:
        return sample.values[scorer]
    whole = sample.values.get(scorer.rpartition(".")[0])
    return whole if isinstance(whole, list) else _UNSCORED


def _not_ended(logs: Sequence[InspectLog]) -> list[str]:
    """Note runs that did not end well."""
    if open_ := Counter(log.status for log in logs if log.status != "success"):
        found = ", ".join(f"{count} {name}" for name, count in sorted(open_.items()))
        return [f"runs that did not end well ({found}): the samples that they finished count"]
    return []
