"""Reports of SWE-bench (lists of resolved ids) to responses."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from bayescontam._bounds import read_whole
from bayescontam._text import join_list, printable
from bayescontam.data.importers.base import Errors, Names, Paths, error_notes
from bayescontam.data.importers.logs import Imported, Importing, Log, LogOptions, Trial
from bayescontam.data.importers.runs import Naming, Run, original_name
from bayescontam.data.jsonl import json_object
from bayescontam.data.tables import read_table
from bayescontam.data.validation import check_choice
from bayescontam.errors import DataError, Fault, UsageError

_ID_COLUMNS = ("instance_id", "item")
_METRIC = "resolved"


class _Report(NamedTuple):
    """What a report states of instances."""

    resolved: Set[str]
    missed: Set[str]
    failed: Set[str] = frozenset()
    not_run: Set[str] = frozenset()
    whole: bool = True  # whether every instance is in one of the lists
    of_board: bool = False  # whether all others of the benchmark count as not resolved


def import_swe_bench(
    paths: Paths,
    *,
    benchmark: str = "swe-bench",
    items: str | Path | None = None,
    errors: Errors = "leave-out",
    model: Names = (),
    **options: Unpack[LogOptions],
) -> Imported:
    """Read reports of SWE-bench into a table of responses.

    Read are reports of the harness (``MODEL.RUN.json``, with ``resolved_ids``), its reports of
    single instances (``logs/run_evaluation/RUN/MODEL/INSTANCE/report.json``), and results of the
    leaderboard (``SUBMISSION/results/results.json``, with ``resolved``). An instance without a
    patch is not resolved.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Reports, or folders that hold them. Models are named after files and folders.
    benchmark : str, default "swe-bench"
        Name of the benchmark.
    items : path-like, optional
        All instances, as lines of text, as a JSON list, or as a table with a column
        ``instance_id`` or ``item``. Needed for reports that list the resolved ones only.
    errors, model, **options
        See `LogOptions`. The leaderboard counts instances at which the evaluation failed as not
        resolved. The folder in ``folder=name`` is the part of the path that names the model.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError, DataError
        If files are missing, instances that were not resolved are unknown, or reports cannot be
        used.

    References
    ----------
    https://github.com/SWE-bench/SWE-bench, https://github.com/swe-bench/experiments

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> report = {"resolved_ids": ["r__a-1"], "unresolved_ids": ["r__a-2"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "org__m.run1.json")
    ...     _ = file.write_text(json.dumps(report))
    ...     found = import_swe_bench(file)
    >>> found.frame[["model", "item", "n_correct"]].to_numpy().tolist()
    [['org/m', 'r__a-1', 1], ['org/m', 'r__a-2', 0]]
    """
    check_choice("errors", errors, Errors)
    importing = Importing(paths, options)
    universe = None if items is None else _instances(Path(items))
    files = importing.files(
        _reports, "holds no report of SWE-bench (MODEL.RUN.json, results.json or report.json)"
    )
    naming = Naming(model, "neither file nor folder names the model")
    logs: dict[tuple[str, str], Log] = {}
    failed, partial = 0, []
    for file in files:
        content = json_object(file)
        run = _run(file, benchmark, naming)
        report = _report(content)
        if report is None:
            problem = f"has no resolved ids, only {join_list(map(str, content))}"
            importing.left_out.broken(str(file), "as a report of SWE-bench", problem)
            continue
        if universe is None and not report.whole:
            partial.append(str(file))
            continue
        failed += len(report.failed)
        # Reports of single instances are many files of one run.
        log = logs.setdefault((run.model, run.key), Log(run, []))
        log.trials.extend(_trials(report, universe, errors, importing, run))
    naming.check()
    if partial:
        raise UsageError(
            f"--items: needed, because {printable(partial[0])}"
            f"{f' and {len(partial) - 1} more' if len(partial) > 1 else ''} list resolved "
            "instances only: give all instances, as a text file with an id a line, a JSON list, "
            "or a table with a column instance_id"
        )
    return importing.table_of(
        [log for log in logs.values() if log.trials],
        "SWE-bench",
        unit="instance",
        notes=error_notes(failed, "instance") if errors == "incorrect" else (),
    )


def _reports(folder: Path) -> Iterator[Path]:
    """Give reports in a folder: of the harness, of instances, or of the leaderboard."""
    for file in folder.rglob("*.json"):
        if file.name in ("report.json", "results.json"):
            yield file
        elif file.parent == folder or "logs" not in file.parts:
            start = file.read_bytes()[:1_000_000] if file.is_file() else b""
            if b'"resolved_ids"' in start or b'"resolved"' in start:
                yield file


def _run(file: Path, benchmark: str, naming: Naming) -> Run:
    place = file.resolve()
    if file.name == "report.json":
        label, id_ = place.parents[1].name, place.parents[2].name
    elif file.name == "results.json":
        label = place.parents[1].name if place.parent.name == "results" else place.parent.name
        id_ = ""
    else:
        label, dot, id_ = original_name(file.name).removesuffix(".json").rpartition(".")
        if not dot:
            label, id_ = id_, ""
    stated = label.replace("__", "/", 1) if file.name != "results.json" else label
    model, folder = naming.of(file, label, stated)
    return Run(model, benchmark, str(file), id=f"{folder}/{id_}" if id_ else "", folder=folder)


def _report(content: Mapping[str, Any]) -> _Report | None:
    """Return what a report states, in whichever of the three forms; None if in none."""
    if "resolved_ids" in content:
        resolved, unresolved, empty, error, open_ = (
            _ids(content, f"{name}_ids")
            for name in ("resolved", "unresolved", "empty_patch", "error", "incomplete")
        )
        completed, submitted = _ids(content, "completed_ids"), _ids(content, "submitted_ids")
        missed = (unresolved | empty | completed) - resolved - error
        rest = submitted - resolved - missed - error - open_
        known = resolved | missed | rest | error | open_
        total = content.get("total_instances")
        whole = bool(known - resolved) or (isinstance(total, int) and len(known) >= total)
        return _Report(resolved, missed | rest, error - resolved, open_, whole)
    if "resolved" in content and isinstance(content["resolved"], list):
        resolved = _ids(content, "resolved")
        failed = _ids(content, "no_logs") | _ids(content, "install_fail")
        failed |= _ids(content, "reset_failed") - resolved
        generated, none = _ids(content, "generated"), _ids(content, "no_generation")
        missed = ((generated | none) - resolved) - failed
        return _Report(resolved, missed, failed - resolved, whole=bool(generated), of_board=True)
    found = {
        name: own["resolved"]
        for name, own in content.items()
        if isinstance(own, Mapping) and isinstance(own.get("resolved"), bool)
    }
    if not found or len(found) < len(content):
        return None
    return _Report({k for k, v in found.items() if v}, {k for k, v in found.items() if not v})


def _ids(content: Mapping[str, Any], name: str) -> set[str]:
    found = content.get(name)
    return {own for own in found if isinstance(own, str)} if isinstance(found, list) else set()


def _trials(
    report: _Report,
    universe: Set[str] | None,
    errors: Errors,
    importing: Importing,
    run: Run,
) -> Iterator[Trial]:
    """Give a trial for each instance with an outcome."""
    missed, failed = report.missed, report.failed
    if universe is not None:
        if unknown := sorted((report.resolved | missed | failed) - universe):
            problem = f"{len(unknown):,} ids are not in --items: {join_list(unknown, 4)}"
            raise DataError([Fault(run.file, problem)], "give the instances of this benchmark")
        if report.of_board or not report.whole:  # of other reports the rest was not run
            missed = universe - report.resolved - failed - report.not_run
    importing.left_out.add(run.benchmark, "instance was not run", len(report.not_run))
    if errors == "leave-out":
        importing.left_out.add(run.benchmark, "error in the instance", len(failed))
    else:
        missed = missed | failed
    outcomes = dict.fromkeys(sorted(missed), False) | dict.fromkeys(sorted(report.resolved), True)
    for item, own in outcomes.items():
        extra = importing.extra.values({"instance_id": item})
        yield Trial(item, {_METRIC: own}, extra=extra, file=run.file)


def _instances(path: Path) -> set[str]:
    """Return the ids in a file of instances: lines of text, a JSON list, or a table."""
    source = f"--items {printable(path)}"
    if not path.is_file():
        raise UsageError(f"{source}: no such file; check the path")
    found: Iterable[str] | None = None
    if path.suffix in (".txt", ""):
        try:
            text = read_whole(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            problem = f"is not text in UTF-8 (byte {error.start:,}); store it as such"
            raise UsageError(f"{source}: {problem}") from error
        found = [line.strip() for line in text.splitlines()]
        if found and found[0] in _ID_COLUMNS:  # a table of one column
            found = found[1:]
    elif path.suffix == ".json":
        with contextlib.suppress(ValueError):
            value = json.loads(read_whole(path))
            texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
            found = (value or None) if texts else None
    if found is None:
        table = read_table(path)
        name = next((name for name in _ID_COLUMNS if name in table.columns), None)
        if name is None:
            raise UsageError(
                f"{source}: no column {join_list(_ID_COLUMNS)}; found {join_list(table.columns)}"
            )
        found = map(str, table[name].unique())
    ids = {item for item in found if item}
    if not ids:
        raise UsageError(f"{source}: holds no ids")
    return ids
