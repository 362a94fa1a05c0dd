"""Files of lm-evaluation-harness and lmms-eval: which hold samples, of which task and model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayescontam.errors import DataError, Fault
from bayescontam.importers.choices import Paths
from bayescontam.importers.lines import json_object, log_files, part
from bayescontam.importers.runs import Naming, Run, original_name

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
UNFILTERED = "none"
"""Name that the tool gives to the filter of a task that has none."""
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


@dataclass(frozen=True)
class SamplesFile:
    """A file of samples, and the run that it is of."""

    path: Path
    run: Run
    filters: tuple[str, ...] | None
    """Filters of the task in the order of its configuration; None if that is unknown."""
    lower_better: Mapping[str, bool]
    """Metrics for which the results file states whether lower is better."""
    version: str
    """Version of the tool, "" if it is not stated."""
    random_name: bool
    """Whether the tool made up the model's name, so that the kind of model stands for it."""


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
                "configs": {task: _filters(part(configs, task)) for task in configs},
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


def find_files(paths: Paths, results: ResultsFiles) -> list[Path]:
    """Return files of samples, also of folders; see `bayescontam.importers.lines.log_files`."""
    return log_files(
        paths,
        lambda folder: (file for file in folder.rglob("*.json*") if _is_samples(file, results)),
        "holds no samples_TASK_DATE.jsonl, nor DATE_samples_TASK.jsonl of lmms-eval; give the "
        "folder that was --output_path, of a run with --log_samples",
    )


def samples_file(path: Path, naming: Naming, files: ResultsFiles) -> SamplesFile:
    """Return what names and results file state of a file of samples."""
    named = _named(path)
    date = (named["date"] if named else None) or ""
    results = files.of(path, date or None)
    task = named["task"] if named else _old_task(path, results)
    given = _arguments(part(results, "config").get("model_args"))
    model, folder = naming.of(path, path.resolve().parent.name, _model(results, given))
    lower = {
        name: not better
        for name, better in part(results, "higher_is_better", task).items()
        if isinstance(better, bool)
    }
    id_ = f"{folder}/{date}" if date else ""
    run = Run(
        model, task, str(path), _of_model(results, given), _of_task(results, task), id_, folder
    )
    random_name = not folder and not any(name in given for name in _NAMING) and bool(results)
    version = str(results.get("lm_eval_version") or "")
    filters = part(results, "configs").get(task)
    return SamplesFile(path, run, filters, lower, version, random_name)


def groups_of(path: Path, files: ResultsFiles) -> dict[str, list[str]]:
    """Return the subtasks of each group, as the results beside a file of samples state them."""
    named = _named(path)
    stated = part(files.of(path, (named["date"] if named else None) or None), "group_subtasks")
    return {
        name: [part for part in parts if isinstance(part, str)]
        for name, parts in stated.items()
        if isinstance(parts, list)
    }


def _named(path: Path) -> re.Match[str] | None:
    name = original_name(path.name)
    return next((match for pattern in _SAMPLES if (match := pattern.fullmatch(name))), None)


def _filters(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a task's filters; of one that configures none, the tool's own."""
    listed = config.get("filter_list")
    named = (
        [part({"f": own}, "f").get("name") for own in listed] if isinstance(listed, list) else []
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


def _model(results: Mapping[str, Any], given: Mapping[str, str]) -> str:
    named = next((given[name] for name in _NAMING if name in given), None)
    # Without such an argument the tool makes up a name, another one in each run.
    return named or str(part(results, "config").get("model") or "")


def _of_model(results: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """Return settings that make it another model; what is absent has the tool's default."""
    config = part(results, "config")
    found: dict[str, Any] = {name: given[name] for name in given if name not in _HOW}
    found |= {"model_source": config.get("model"), "gen_kwargs": config.get("gen_kwargs")}
    found |= {name: results.get(name) for name in ("chat_template_sha", "system_instruction_sha")}
    return {name: str(value) for name, value in found.items() if value}


def _of_task(results: Mapping[str, Any], task: str) -> dict[str, str]:
    found = {"version": part(results, "versions"), "n-shot": part(results, "n-shot")}
    return {name: str(values[task]) for name, values in found.items() if task in values}
