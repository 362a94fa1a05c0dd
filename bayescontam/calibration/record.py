"""Record: what the file ``study.json`` of a run says: what is planned, and what was done."""

import importlib.metadata
import json
import platform
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from bayescontam.calibration.audit import audits
from bayescontam.calibration.plan import Plan
from bayescontam.calibration.rows import read_rows
from bayescontam.calibration.shards import done_keys
from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.specs.study import StudySpec
from bayescontam.storage import atomic_path, write_text

FORMAT = 1
RECORD, COPY = "study.json", "study.toml"
"""Files of a run's folder, beside its shards."""
RESTORE = "put it back from a copy of the run, or run the study in another folder"
_PACKAGES = ("bayescontam", "pymc", "pytensor", "nutpie", "numpy", "scipy", "arviz", "pandas")


class _Record(BaseModel):
    """What a record must have."""

    model_config = ConfigDict(strict=True, extra="allow")

    name: str
    hash: str
    replicates: int
    cells: list[str]
    study: dict[str, Any]
    runs: list[dict[str, Any]]


def statuses(rows: pd.DataFrame) -> Counter[str]:
    """Return how many fits there are of each status, audits left out."""
    fits = rows[~rows["audit"]].drop_duplicates(["cell", "replicate", "estimator"])
    return Counter(fits["status"])


def record_of(folder: Path) -> dict[str, Any]:
    """Return the content of ``study.json``."""
    path = folder / RECORD
    shown = visible(str(path))
    try:
        return _Record.model_validate_json(path.read_bytes()).model_dump()
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read ({error.strerror}); {RESTORE}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        problem = visible(f"{where}: {first['msg']}" if where else first["msg"])
        raise UsageError(f"{shown}: is no record of a run ({problem}); {RESTORE}") from error


def hash_of(folder: Path) -> str | None:
    """Return the hash of the study that ``study.json`` is of; None without a record."""
    try:
        return str(record_of(folder)["hash"])
    except UsageError:
        return None


def start_record(folder: Path, plan: Plan, replicates: int, command: str) -> dict[str, Any]:
    """Write what is planned, and return it."""
    done = done_keys(folder)
    if done and not (folder / RECORD).exists():
        raise UsageError(
            f"{visible(str(folder))}: holds rows of a study, and no {RECORD} that states of which;"
            f" {RESTORE}"
        )
    # Without a row it ended early, perhaps for a mistake in the study, which is fixed now.
    before = record_of(folder) if done or hash_of(folder) == plan.hash else None
    if before is not None and before["hash"] != plan.hash:
        raise UsageError(
            f"{visible(str(folder))}: holds a run of the study '{before.get('name')}'"
            f" ({before['hash'][:12]}), and this one is '{plan.study.name}' ({plan.hash[:12]});"
            " the study or a model spec that it names has changed: choose another folder"
        )
    study, earlier = plan.study, before or {"runs": []}
    record = {
        "format": FORMAT,
        "name": study.name,
        "summary": study.summary,
        "hash": plan.hash,
        "replicates": max([replicates, *(replicate + 1 for _, replicate in done)]),
        "cells": [cell.name for cell in plan.cells],
        "estimators": _estimators(plan),
        # As given: keys that another kind of block has are refused where it is read again.
        "study": study.model_dump(mode="json", exclude_unset=True),
        "runs": [*earlier["runs"], _run(command)],
    }
    write_text(folder / COPY, _text(study) or json.dumps(record["study"], indent=1))
    _write(folder, record)
    return record


def finish_record(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Add to the record what the rows amount to, and return it."""
    rows = read_rows(folder)
    compared = audits(rows)
    record = record | {
        "fits": dict(sorted(statuses(rows).items())),
        "audits": json.loads(compared.to_json(orient="records")),
    }
    _write(folder, record)
    return record


def _text(study: StudySpec) -> str:
    """Return the study as it was written; empty if it was changed since, or made by Python."""
    if not study.text:
        return ""
    return study.text if StudySpec.parse(study.text, study.name).hash == study.hash else ""


def _estimators(plan: Plan) -> dict[str, dict[str, str]]:
    return {
        each.name: {
            "kind": each.kind,
            "model": each.model,
            "hash": plan.specs[each.name].hash if each.name in plan.specs else "",
        }
        for each in plan.study.estimators
    }


def _run(command: str) -> dict[str, Any]:
    """Return what is known of a run when it starts."""
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "versions": versions | {"python": platform.python_version()},
    }


def _write(folder: Path, record: dict[str, Any]) -> None:
    with atomic_path(folder / RECORD) as part:
        part.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
