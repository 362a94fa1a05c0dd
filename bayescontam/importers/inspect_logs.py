"""Logs of Inspect as files: what counts of their headers and samples."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlparse

from bayescontam.bounds import Bounds
from bayescontam.errors import BayescontamError
from bayescontam.importers.choices import Paths
from bayescontam.importers.extra_columns import ExtraColumns
from bayescontam.importers.identity import fingerprint
from bayescontam.importers.inspect_scores import named_values
from bayescontam.importers.left_out import LeftOut
from bayescontam.importers.lines import json_file, log_files
from bayescontam.importers.outcomes import Errors
from bayescontam.importers.runs import Run
from bayescontam.importers.tools import tool_of
from bayescontam.names import visible

_HOW = {
    "max_connections", "adaptive_connections", "max_retries", "timeout", "attempt_timeout", "seed",
    "batch", "cache",
}  # fmt: skip
"""Options of generation that do not make it another model."""


@dataclass(frozen=True)
class Sample:
    """What counts of a sample."""

    key: str
    item: str
    epoch: str
    text: str
    values: dict[str, Any]
    answers: dict[str, str]
    failed: bool
    extra: tuple[Any, ...]


@dataclass(frozen=True)
class Log:
    """What counts of a log."""

    run: Run
    eval_id: str
    version: str
    status: str
    created: str
    samples: list[Sample]


def find_logs(paths: Paths, reader: ModuleType) -> list[Path]:
    """Return log files, also of folders; see `bayescontam.importers.lines.log_files`."""

    def inside(folder: Path) -> Iterator[Path]:
        for info in reader.list_eval_logs(str(folder)):
            yield Path(unquote(urlparse(info.name).path))
        # Renamed logs, which the tool does not list.
        yield from (file for file in folder.rglob("*.json") if tool_of(file) == "inspect")

    return log_files(
        paths,
        inside,
        "holds no logs of Inspect (.eval, .json); give the folder that was --log-dir of inspect "
        "eval",
    )


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
    file: Path, reader: ModuleType, extra: ExtraColumns, errors: Errors, left_out: LeftOut
) -> list[Log]:
    """Read a log."""
    _check_size(file)
    try:
        header = reader.read_eval_log(str(file), header_only=True)
        summaries = reader.read_eval_log_sample_summaries(str(file))
        invalid = _invalid(str(file), reader) if header.invalidated else set()
    except MemoryError:
        raise
    # A damaged log fails anywhere in the reader, of its own kind in each place.
    except Exception as error:
        if _is_header(file):
            return _without_samples(file, left_out)
        reason = visible(str(error) or type(error).__name__)
        left_out.broken(str(file), "as a log of Inspect", f"cannot be read ({reason})")
        return []
    spec = header.eval
    if not summaries and header.status == "success":
        return _without_samples(file, left_out)
    samples, seen = [], set()
    for found in summaries:
        place = f"sample {found.id}, epoch {found.epoch}"
        if (str(found.id), found.epoch) in seen:
            left_out.broken(str(file), place, "occurs twice")
        elif found.error and errors == "leave-out":
            left_out.add(spec.task, "error in the sample")
        elif (str(found.id), found.epoch) in invalid:
            left_out.add(spec.task, "sample was invalidated")
        else:
            try:
                samples.append(_sample(found, spec.eval_id, extra))
            except TypeError as error:
                left_out.broken(str(file), place, str(error))
        seen.add((str(found.id), found.epoch))
    wanted = len(spec.dataset.sample_ids or []) * (spec.config.epochs or 1)
    left_out.add(spec.task, "sample was not run", max(wanted - len(seen), 0))
    run = Run(spec.model, spec.task, str(file), _of_model(spec), _of_task(spec), spec.eval_id)
    version = str((spec.packages or {}).get("inspect_ai", "unknown"))
    created = str(spec.created)
    return [Log(run, spec.eval_id, version, header.status, created, samples)]


def _is_header(file: Path) -> bool:
    """Return whether a file is a log of Inspect without its samples."""
    try:
        content = json_file(file)
    except BayescontamError:
        return False
    return isinstance(content, dict) and "eval" in content and not content.get("samples")


def _without_samples(file: Path, left_out: LeftOut) -> list[Log]:
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
    named = list(named_values(found.scores))
    key = found.uuid or f"{eval_id} {found.id} {found.epoch}"
    return Sample(
        key,
        str(found.id),
        str(found.epoch),
        fingerprint(texts),
        {name: value for name, value, _ in named},
        {name: str(answer) for name, _, answer in named if answer is not None},
        bool(found.error),
        extra.values(row),
    )


def _invalid(file: str, reader: ModuleType) -> set[tuple[str, int]]:
    """Return which samples of a log were invalidated; only whole samples show it."""
    samples = reader.read_eval_log_samples(
        file, all_samples_required=False, exclude_fields={"messages", "events", "attachments"}
    )
    return {(str(sample.id), sample.epoch) for sample in samples if sample.invalidation}


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
