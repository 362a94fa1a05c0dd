"""Details of lighteval (``details_*.parquet``) to responses."""

import ast
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.parquet as pq

from bayescontam._text import join_list, printable
from bayescontam.data.importers.base import Names, Paths
from bayescontam.data.importers.logs import Imported, Importing, Log, LogOptions, Trial
from bayescontam.data.importers.runs import Naming, Run, alike_note, fingerprint, original_name
from bayescontam.data.jsonl import json_object, part
from bayescontam.data.tables import parquet_batches
from bayescontam.errors import BayescontamError

_NAMED = re.compile(
    r"details_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\d(?:T\d\d-\d\d-\d\d(?:\.\d+)?)?))?\.parquet"
)
_BATCH = 1000  # rows that are read at once
_METRICS = ("metric", "metrics", "__metric__")
_OF_MODEL = (
    "model_sha", "model_dtype", "revision", "dtype", "generation_parameters", "system_prompt",
)  # fmt: skip
_DOCUMENTS = ("doc", "__doc__")
_ANSWERS = ("model_response", "__model_response__", "predictions")
_RESPONSE = ("text", "text_post_processed", "logprobs", "argmax_logits_eq_gold")


def import_lighteval(
    paths: Paths,
    *,
    metric: Names = (),
    threshold: float | None = None,
    model: Names = (),
    **options: Unpack[LogOptions],
) -> Imported:
    """Read details of lighteval into a table of responses.

    The benchmark is the task; suite and number of examples shown are settings. The item is a
    hash of question and choices, which does not depend on the order of samples.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files ``details_TASK_DATE.parquet``, or folders that hold them, as
        ``details/MODEL/DATE``. The model is the folder's, or as the results file states.
    metric, threshold, model, **options
        See `LogOptions`.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError, DataError
        If files are missing, a choice is needed or cannot be used, or details cannot be used.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> rows = [{"doc": {"query": "1 + 1?", "choices": ["2", "3"]}, "metric": {"acc": 1.0}}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "details_sums_2026-01-31.parquet")
    ...     pd.DataFrame(rows).to_parquet(file)
    ...     found = import_lighteval(file, model="org/m")
    >>> found.frame[["model", "benchmark", "n_correct", "n_trials"]].to_numpy().tolist()
    [['org/m', 'sums', 1, 1]]
    """
    importing = Importing(paths, options)
    files = importing.files(
        lambda folder: folder.rglob("details_*.parquet"),
        "holds no details_TASK_DATE.parquet; run lighteval with --save-details",
    )
    naming = Naming(model, "neither a folder details/MODEL/DATE nor results name the model")
    logs = [Log(_run(file, naming), _trials(file, importing)) for file in importing.each(files)]
    naming.check()
    alike: dict[str, int] = {}
    for log in logs:
        count = len(log.trials) - len({trial.item for trial in log.trials})
        alike[log.run.benchmark] = max(count, alike.get(log.run.benchmark, 0))
    return importing.table_of(
        [log for log in logs if log.trials],
        "lighteval",
        metric=metric,
        threshold=threshold,
        hint="documents are in 'doc', such as doc.query",
        notes=[alike_note(benchmark, count) for benchmark, count in alike.items() if count],
    )


def _run(file: Path, naming: Naming) -> Run:
    place = file.resolve()
    named = _NAMED.fullmatch(original_name(file.name))
    task = named["task"] if named else original_name(file.stem)
    date = (named["date"] if named else "") or ""
    suite, name, shots = _task(task)
    above = list(place.parent.parts)
    stated, label, results = "", place.parent.name, {}
    if "details" in above:
        at = len(above) - 1 - above[::-1].index("details")
        inside = above[at + 1 :]
        inside = inside[:-1] if inside and inside[-1] == date else inside
        stated = label = "/".join(inside)
        results = _results(Path(*above[:at], "results"), date)
    general = part(results, "config_general")
    full = part(general, "model_config").get("model_name") or general.get("model_name")
    model, folder = naming.of(file, label, str(full or stated))
    stated_settings = part(general, "model_config") | general
    of_model = {key: str(stated_settings[key]) for key in _OF_MODEL if stated_settings.get(key)}
    of_test = {key: value for key, value in (("suite", suite), ("n-shot", shots)) if value}
    id_ = f"{folder}/{date}" if "T" in date else ""
    return Run(model, name, str(file), of_model, of_test, id_, folder)


def _task(text: str) -> tuple[str, str, str]:
    """Return suite, task and number of examples shown, of ``suite|task|5`` or ``task|5``."""
    parts = text.split("|")
    if len(parts) >= 3 and parts[2].isdigit():
        return parts[0], parts[1], parts[2]
    if len(parts) == 2 and parts[1].isdigit():
        return "", parts[0], parts[1]
    return "", text, ""


def _results(folder: Path, date: str) -> dict[str, Any]:
    """Return the results of a run, if they are there and can be read."""
    for file in sorted(folder.rglob(f"results_{date}.json")) if date and folder.is_dir() else ():
        try:
            return json_object(file)
        except BayescontamError:
            continue
    return {}


def _trials(file: Path, importing: Importing) -> list[Trial]:
    source = str(file)
    times: Counter[str] = Counter()
    trials = []
    try:
        names = pq.read_schema(file).names
        scored = next((name for name in _METRICS if name in names), None)
        if scored is None:
            importing.left_out.broken(
                source,
                "as details of lighteval",
                f"there is no column 'metric'; found {join_list(names)}",
                advice="give details_TASK_DATE.parquet of lighteval",
            )
            return []
        # One by one, since each may be long.
        rows = (
            batch.slice(at, 1).to_pylist()[0]
            for batch in parquet_batches(file, source, _BATCH)
            for at in range(len(batch))
        )
        for number, row in enumerate(rows, start=1):
            with importing.row(file, f"row {number}"):
                scores, extra = _struct(row[scored]), importing.extra.values(row)
                item = _item(row, number)
                trials.append(Trial(item, scores, str(times[item]), _answer(row), None, extra))
                times[item] += 1
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = f"cannot be read ({printable(str(error), 120)})"
        importing.left_out.broken(source, "as a Parquet file", problem)
        return []
    return trials


def _struct(value: Any) -> dict[str, Any]:
    """Return the metrics of a row, which are text where lighteval could not nest them."""
    found = ast.literal_eval(value) if isinstance(value, str) else value
    if not isinstance(found, dict):
        raise TypeError(f"its metrics are {printable(repr(value), 60)}; allowed is a struct")
    return found


def _item(row: Mapping[str, Any], number: int) -> str:
    """Return a hash of question and choices, or what else names the item."""
    doc = next((row[name] for name in _DOCUMENTS if isinstance(row.get(name), dict)), None)
    if doc is not None and isinstance(doc.get("query"), str):
        text = doc["query"], doc.get("choices")
    elif isinstance(row.get("example"), str):
        text = row["example"], row.get("choices")
    else:
        return str(part(row, "hashes").get("hash_examples") or number - 1)
    return fingerprint(text)[:16]


def _answer(row: Mapping[str, Any]) -> str | None:
    response = next((row[name] for name in _ANSWERS if row.get(name) is not None), None)
    if isinstance(response, dict):
        response = [response.get(name) for name in _RESPONSE if response.get(name)]
    return fingerprint(response) if response else None
