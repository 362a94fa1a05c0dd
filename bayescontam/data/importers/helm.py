"""Runs of HELM (``per_instance_stats.json``) to responses."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from bayescontam._progress import Advance
from bayescontam.data.importers.base import Names, Paths, is_nan, objects
from bayescontam.data.importers.logs import Imported, Importing, Log, LogOptions, Trial
from bayescontam.data.importers.runs import Naming, Run, fingerprint
from bayescontam.data.jsonl import json_object, part

_STATS = "per_instance_stats.json"
_NOT_SCORES = re.compile(
    r"num_.*|.*_cost|inference_.*|batch_size|finish_reason_.*|prompt_truncated|max_prob|logprob"
    r"|perplexity|bits_per_byte|logprob_per_byte|estimated_.*"
)
"""Statistics of HELM that say how a request went, not whether its answer is right."""
_MODEL = ("model", "model_deployment", "temperature")
_TEST = ("method", "max_train_instances", "instructions")  # settings of a model, and of a test
_OF_MODEL = ("stop", "global_prefix")
_NOT_TEST = (
    "model", "model_deployment", "data_augmentation", "max_eval_instances", "num_train_trials",
    *_OF_MODEL,
)  # fmt: skip
"""Arguments in the name of a run that do not make it another test. HELM adds some, such as how an
answer ends, for single models."""


def import_helm(
    paths: Paths,
    *,
    metric: Names = (),
    threshold: float | None = None,
    model: Names = (),
    **options: Unpack[LogOptions],
) -> Imported:
    """Read runs of HELM into a table of responses.

    The benchmark is the name of the run without its model, such as ``mmlu:subject=anatomy``; the
    item is the instance's id. Trials with other examples in the prompt (``train_trial_index``)
    are trials. Perturbed instances are left out and counted.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files ``per_instance_stats.json``, or folders that hold them. Model and settings are
        taken from ``run_spec.json`` beside them, answers and texts from ``scenario_state.json``.
    metric, threshold, model, **options
        See `LogOptions`. Metrics are statistics, such as ``exact_match``.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError, DataError
        If files are missing, a choice is needed or cannot be used, or logs cannot be used.

    References
    ----------
    https://crfm-helm.readthedocs.io

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> stats = [{"name": {"name": "exact_match", "split": "test"}, "count": 1, "mean": 1.0}]
    >>> rows = [{"instance_id": "id1", "train_trial_index": 0, "stats": stats}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = pathlib.Path(folder, "quiz:model=org_m")
    ...     run.mkdir()
    ...     _ = (run / "per_instance_stats.json").write_text(json.dumps(rows))
    ...     found = import_helm(run, model="org/m")
    >>> found.frame.to_dict("records")
    [{'model': 'org/m', 'benchmark': 'quiz', 'item': 'id1', 'n_correct': 1, 'n_trials': 1}]
    """
    importing = Importing(paths, options)
    files = importing.files(
        lambda folder: folder.rglob(f"{_STATS}*"),
        f"holds no {_STATS}; give the folder of a suite, such as benchmark_output/runs/SUITE",
    )
    naming = Naming(model, "no run_spec.json beside the file names the model")
    runs = [_run(file, naming) for file in files]
    naming.check()
    with importing.bar(files) as advance:
        logs = [
            Log(run, _trials(file, run, importing, advance))
            for file, run in zip(files, runs, strict=True)
        ]
    hint = "an instance is in 'instance', such as instance.split"
    return importing.table_of(
        logs, "HELM", metric=metric, threshold=threshold, unit="instance", hint=hint
    )


def _run(file: Path, naming: Naming) -> Run:
    folder = file.resolve().parent
    run_spec = folder / "run_spec.json"
    spec = json_object(run_spec) if run_spec.is_file() else {}
    adapter = part(spec, "adapter_spec")
    scenario, arguments = _parsed(str(spec.get("name") or folder.name))
    given = {key: value for key, _, value in (text.partition("=") for text in arguments)}
    # A folder is of one model and one benchmark: its name cannot distinguish models.
    label = given.get("model", folder.name)
    model, label = naming.of(file, label, str(adapter.get("model") or ""))
    named = [text for text in arguments if text.partition("=")[0] not in _NOT_TEST]
    benchmark = f"{scenario}:{','.join(named)}" if named else scenario
    known = {name: str(value) for name, value in adapter.items() if value not in (None, "")}
    of_model, of_test = ({k: known[k] for k in keys if k in known} for keys in (_MODEL, _TEST))
    of_model |= {key: given[key] for key in _OF_MODEL if key in given}
    return Run(model, benchmark, str(file), of_model, of_test, folder=label)


def _parsed(name: str) -> tuple[str, list[str]]:
    """Return scenario and arguments of a run's name, as HELM or a file system spells it."""
    # The scenario may hold an equals sign, as dyck_language_np=3 does.
    found = re.fullmatch(r"([^:,]*?):([^:=,]+=.*)", name)
    # A file system without colons has hyphens in their place.
    found = found or re.fullmatch(r"([^:,]*?)-([^:=,\-]+=.*)", name)
    return (found[1], found[2].split(",")) if found else (name, [])


def _trials(file: Path, run: Run, importing: Importing, advance: Advance) -> list[Trial]:
    """Return the unperturbed instances of a run."""
    scores: dict[tuple[str, str], dict[str, Any]] = {}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    perturbed = 0
    for place, row in objects(file, importing.left_out, advance):
        with importing.row(file, place):
            key, own = _scores(row)
            if row.get("perturbation"):
                perturbed += 1
                continue
            known = scores.get(key, {})
            for name, value in own.items():
                before = known.get(name, value)
                if value != before and not (is_nan(value) and is_nan(before)):  # NaN: missing
                    raise ValueError(f"has another value of '{name}' than before")
            scores[key], rows[key] = known | own, row
    importing.left_out.add(run.benchmark, "perturbed instance", perturbed)
    answers, texts, instances = _states(file.with_name("scenario_state.json"))
    trials = []
    for (item, number), found in scores.items():
        row = {**rows[item, number], "instance": instances.get(item, {})}
        with importing.row(file, f"instance {item}"):
            answer, extra = answers.get((item, number)), importing.extra.values(row)
            trials.append(Trial(item, found, number, answer, texts.get(item), extra))
    return trials


def _scores(row: Mapping[str, Any]) -> tuple[tuple[str, str], dict[str, Any]]:
    """Return instance and trial of a row, and the statistics that may be scores."""
    item, trial, stats = (row.get(name) for name in ("instance_id", "train_trial_index", "stats"))
    if not isinstance(item, str) or not isinstance(stats, list):
        raise KeyError("has no 'instance_id' and 'stats'; is this a file of HELM?")
    found = {}
    for stat in stats:
        name = part({"stat": stat}, "stat", "name")
        stated = name.get("name")
        if not isinstance(stated, str) or name.get("perturbation") or _NOT_SCORES.fullmatch(stated):
            continue
        found[stated] = stat.get("mean", stat.get("sum")) if stat.get("count", 1) else None
    return (item, str(trial if trial is not None else "")), found


def _states(
    file: Path,
) -> tuple[dict[tuple[str, str], str], dict[str, str], dict[str, dict[str, Any]]]:
    """Return a model's answers by instance and trial, the texts of instances, and instances."""
    if not file.is_file():
        return {}, {}, {}
    states = json_object(file).get("request_states")
    answers: dict[tuple[str, str], list[str]] = {}
    texts, instances = {}, {}
    for state in states if isinstance(states, list) else []:
        instance = part({"state": state}, "state", "instance")
        item, text = instance.get("id"), part(instance, "input").get("text")
        if not isinstance(item, str) or instance.get("perturbation"):
            continue
        instances[item] = instance
        if isinstance(text, str):
            texts[item] = fingerprint(text)
        completions = part(state, "result").get("completions")
        given = completions if isinstance(completions, list) else []
        words = [str(part({"c": own}, "c").get("text")) for own in given]
        answers.setdefault((item, str(state.get("train_trial_index", ""))), []).extend(words)
    return {key: fingerprint(words) for key, words in answers.items()}, texts, instances
