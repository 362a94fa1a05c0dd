"""Results of EvalPlus (``eval_results.json``) to responses."""

import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, Unpack

from bayescontam._text import printable
from bayescontam.data.importers.base import Names, Paths
from bayescontam.data.importers.logs import Imported, Importing, Log, LogOptions, Trial
from bayescontam.data.importers.runs import Naming, Run, fingerprint, original_name
from bayescontam.data.jsonl import json_object

_ENDING = "eval_results.json"
_NAMED = re.compile(
    r"(?P<model>.+?)(?:_(?P<backend>vllm|hf|openai|google|anthropic|bedrock|ollama|gptqmodel))?"
    r"_temp_(?P<temperature>\d+(?:\.\d+)?)(?P<raw>\.raw)?(?P<sanitized>[-_]sanitized)?"
)
_PASSED, _FAILED = {"pass", "success"}, {"fail", "failed", "timeout", "timed out"}


def import_evalplus(
    paths: Paths,
    *,
    metric: Names = (),
    model: Names = (),
    **options: Unpack[LogOptions],
) -> Imported:
    """Read results of EvalPlus into a table of responses.

    The benchmark is that of the task's name (``HumanEval/0`` is of ``humaneval``), the item the
    task. Several samples of a task are trials. Tasks without samples are missing.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files ``*_eval_results.json`` or ``eval_results.json``, or folders that hold them. The
        model is in the file's name, or in the folder's: ``org--m_vllm_temp_0.0``.
    metric : {"base", "plus"} or sequence of str, optional
        Which tests count: those of the original benchmark, or these and the added ones. Needed
        where there are both.
    model, **options
        See `LogOptions`.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError, DataError
        If files are missing, a choice is needed or cannot be used, or results cannot be used.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> sample = {"task_id": "HumanEval/0", "base_status": "pass", "plus_status": "fail"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "org--m_vllm_temp_0.0_eval_results.json")
    ...     _ = file.write_text(json.dumps({"eval": {"HumanEval/0": [sample]}}))
    ...     found = import_evalplus(folder, metric="base")
    >>> found.frame[["model", "benchmark", "item", "n_correct"]].to_numpy().tolist()
    [['org/m', 'humaneval', 'HumanEval/0', 1]]
    """
    importing = Importing(paths, options)
    files = importing.files(
        lambda folder: folder.rglob(f"*{_ENDING}*"),
        f"holds no *{_ENDING}; give the folder evalplus_results",
    )
    naming = Naming(model, "neither the file's name nor the folder's names the model")
    files = [*files]
    # One name of files in several folders, such as that of ``--samples samples.jsonl``, names no
    # model.
    folders: dict[str, set[Path]] = {}
    for file in files:
        folders.setdefault(_label(file), set()).add(file.resolve().parent)
    several = {label for label, known in folders.items() if len(known) > 1}
    common = {"samples", *(label for label in several if not _NAMED.fullmatch(label))}
    logs = [log for file in importing.each(files) for log in _logs(file, common, naming, importing)]
    naming.check()
    return importing.table_of(
        logs, "EvalPlus", metric=metric, unit="sample", hint="such as solution"
    )


def _label(file: Path) -> str:
    return original_name(file.name).partition(_ENDING)[0].rstrip("_")


def _logs(
    file: Path, common: Container[str], naming: Naming, importing: Importing
) -> Iterator[Log]:
    """Give a log for each benchmark in a file."""
    folder, label = file.resolve().parent.name, _label(file)
    label = folder if not label or label in common else label
    named = _NAMED.fullmatch(label)
    stated = named["model"] if named else ("" if label == folder else label)
    model, aside = naming.of(file, label, stated.replace("--", "/", 1))
    settings = {k: v for k, v in (named.groupdict() if named else {}).items() if v and k != "model"}
    trials: dict[str, list[Trial]] = {}
    tasks = json_object(file, unique=True).get("eval")
    if not isinstance(tasks, dict):
        importing.left_out.broken(
            str(file),
            "as results of EvalPlus",
            "has no object 'eval' with the samples of each task",
            advice="give eval_results.json, which evalplus.evaluate writes",
        )
        return
    for task, found in tasks.items():
        own = trials.setdefault(task.partition("/")[0].lower(), [])
        for number, sample in enumerate(_samples(found)):
            with importing.row(file, f"task {printable(task, 60)}, sample {number}"):
                solution = sample.get("solution")
                answer = None if solution is None else fingerprint(solution)
                scores, extra = _scores(sample), importing.extra.values(sample)
                own.append(Trial(task, scores, str(number), answer, None, extra))
    for benchmark, own in trials.items():
        yield Log(Run(model, benchmark, str(file), settings, folder=aside), own)


def _samples(found: Any) -> list[dict[str, Any]]:
    """Return the samples of a task, of old versions too, which list statuses."""
    if isinstance(found, dict) and isinstance(found.get("base"), list):
        added = found.get("plus")
        plus = added if isinstance(added, list) and added else [None] * len(found["base"])
        return [
            {"base_status": _first(base), "plus_status": _first(more)}
            for base, more in zip(found["base"], plus, strict=False)
        ]
    listed = found if isinstance(found, list) else [found]
    return [own if isinstance(own, dict) else {} for own in listed]


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, list) and result else result


def _scores(sample: Mapping[str, Any]) -> dict[str, bool | None]:
    if "base_status" not in sample:
        raise TypeError("has no 'base_status'; is this of EvalPlus?")
    base, plus = (_passed(sample.get(name)) for name in ("base_status", "plus_status"))
    # As the tool counts: the added tests alone are not enough.
    scores = {"base": base}
    return scores if plus is None else {**scores, "plus": bool(base and plus)}


def _passed(status: Any) -> bool | None:
    if status is None:
        return None
    if isinstance(status, str) and status in _PASSED | _FAILED:
        return status in _PASSED
    raise ValueError(
        f"its status is {printable(repr(status), 60)}; allowed are pass, fail, timeout"
    )
