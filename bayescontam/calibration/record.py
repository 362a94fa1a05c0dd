"""Record: what the file ``study.json`` of a run says: what is planned, and what was done."""

import importlib.metadata
import json
import platform
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

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
_PACKAGES = ("bayescontam", "pymc", "pytensor", "nutpie", "numpy", "scipy", "arviz", "pandas")


def statuses(rows: pd.DataFrame) -> Counter[str]:
    """Return how many fits there are of each status, audits left out."""
    fits = rows[~rows["audit"]].drop_duplicates(["cell", "replicate", "estimator"])
    return Counter(fits["status"])


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return the content of ``study.json``; None if there is none.

    Raises
    ------
    UsageError
        If it cannot be read.
    """
    path = folder / RECORD
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return {"hash": "", "runs": [], **content}
    except (OSError, ValueError, TypeError) as error:
        problem = f"{visible(str(path))}: cannot be read ({error}); choose another folder"
        raise UsageError(problem) from error


def start_record(folder: Path, plan: Plan, replicates: int, command: str) -> dict[str, Any]:
    """Write what is planned, and return it.

    Raises
    ------
    UsageError
        If the folder holds a run of another study.
    """
    before = read_record(folder)
    done = done_keys(folder)
    if not done:
        before = None  # it ended before its first row, perhaps for a mistake in the study
    elif before is None:
        raise UsageError(
            f"{visible(str(folder))}: holds rows of a study, and no {RECORD} that says of which;"
            " choose another folder"
        )
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
