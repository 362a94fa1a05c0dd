"""Rows of a study in shards, the record of its run, acceptance and cross-checks of fits."""

import importlib.metadata
import json
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from bayescontam._files import atomic_path, write_text
from bayescontam._runs import write_json
from bayescontam._text import printable
from bayescontam.calibration.study import Plan
from bayescontam.errors import UsageError
from bayescontam.model.effect_names import DIRECT, SPILLOVER
from bayescontam.specs.study import StudySpec

LEVELS = (50, 80, 90, 95)  # probabilities of the intervals, in percent
KEYS = ("cell", "replicate", "estimator", "quantity", "where")
"""Columns that identify a row; an audited fit has a second row with the same."""
FIGURES = ("truth", "mean", "sd", "mcse", "ess", "rhat")
"""``mcse`` is the Monte Carlo standard error of the mean; ``ess`` the bulk ESS."""
RANKS = ("rank", "ranks")
BOUNDS = tuple(f"{end}_{level}" for level in LEVELS for end in ("low", "high"))
"""Columns of the equal-tailed intervals."""
STATUS = ("status", "reason", "engine", "seconds", "audit")
COLUMNS = (*KEYS, *FIGURES, *RANKS, *BOUNDS, *STATUS)  # columns of a row, in order
SHARDS = "rows"  # folder of the shards, inside the folder of a run

_INTEGERS = ("replicate", *RANKS)
_TEXTS = ("cell", "estimator", "quantity", "where", "status", "reason", "engine")
PASSED, RERUN, FAILED = "passed", "rerun", "failed"
"""What becomes of a fit: good at the first try, at the second and longer one, or neither."""
MOST = 25  # replicates of a shard, unless a run requests another number
PATIENCE = 20.0
"""Seconds after which rows are written, however few, and seconds of fitting that unwritten rows
may have taken, over all workers: the most that is lost where a run is killed, besides replicates
under way."""
FAR = 4.0  # difference of two means, in Monte Carlo errors, that chance hardly ever reaches
FORMAT = 1
_NAMES, NAMES = "names_of_estimands", 2
"""Key and version, in a shard, of what estimands are called. 2: by the effect that they are of."""
_NOMINAL = "_nominal"
RECORD, COPY = "study.json", "study.toml"  # files of a run's folder, beside its shards
RESTORE = "put it back from a copy of the run, or run the study in another folder"
_PACKAGES = ("bayescontam", "pymc", "pytensor", "nutpie", "numpy", "scipy", "arviz", "pandas")


def interval_columns(level: int) -> tuple[str, str]:
    """Return the columns of the interval of a level.

    >>> interval_columns(95)
    ('low_95', 'high_95')
    """
    return f"low_{level}", f"high_{level}"


def intervals(draws: Any) -> dict[str, float]:
    """Return the equal-tailed intervals of draws at every level.

    >>> intervals(range(101))["low_90"]
    5.0
    """
    tails = [(100 + sign * level) / 200 for level in LEVELS for sign in (-1, 1)]
    ends = np.quantile(np.asarray(draws, dtype=float), tails)
    return dict(zip(BOUNDS, ends.tolist(), strict=True))


def read_rows(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Read all rows that a run has written so far."""
    place = Path(folder)
    shards = place / SHARDS
    if not (shards.is_dir() or (place / "study.json").is_file()):
        raise UsageError(
            f"{printable(str(place))}: holds no run of a study; give the folder that"
            " 'bayescontam study run' wrote to"
        )
    # Sorted, so that a table does not depend on the order in which a disk lists its files.
    tables = [_read_shard(path) for path in sorted(shards.glob("*.parquet"))]
    if not tables:
        kinds: dict[str, str] = dict.fromkeys(COLUMNS, "float64")
        kinds |= dict.fromkeys(_INTEGERS, "int64") | dict.fromkeys(_TEXTS, "str")
        kinds |= {"audit": "bool"}
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})
    rows = pd.concat(tables, ignore_index=True)
    return rows.sort_values([*KEYS, "audit"], kind="stable", ignore_index=True)


def _read_shard(path: Path, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """Return columns of a shard that has them all."""
    try:
        validate_columns(pq.read_schema(path).names, path)
        rows = pd.read_parquet(path, columns=list(columns))
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"{printable(str(path))}: cannot be read ({printable(str(error), 200)}); remove it and"
            " run the study again: its replicates alone are made anew"
        ) from error
    if "quantity" in columns and rows.attrs.get(_NAMES) != NAMES:
        rows = _renamed(rows)
    rows.attrs.clear()
    return rows


def _renamed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of an earlier version, estimands named by the effect that they are of."""
    # It had one name for the total effect of a fit with spillover and the direct effect of others,
    # and wrote the estimand of spillover beside the former under the parameter's name.
    part = (rows["quantity"] == "spillover") & (rows["where"] != "")
    total = rows["estimator"].isin(rows.loc[part, "estimator"])
    stem = rows["quantity"].str.extract(rf"^(.*?)((?:_by_.*|{_NOMINAL})?)$")
    direct = stem[0].map(DIRECT.meant) + stem[1]
    return rows.assign(quantity=rows["quantity"].where(total, direct).where(~part, SPILLOVER))


def validate_columns(columns: Collection[str], path: Path) -> None:
    """Raise a UsageError if a shard has not all columns."""
    if missing := [column for column in COLUMNS if column not in columns]:
        raise UsageError(
            f"{printable(str(path))}: is no shard of a study, it lacks {', '.join(missing)};"
            " remove it"
        )


@dataclass(frozen=True)
class StudyTask:
    """One replicate of a cell, which is given by its position in the plan."""

    cell: int
    replicate: int


class Shards:
    """Rows on their way to disk; a context manager, at whose end all are there."""

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        size: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._plan, self._size, self._clock = folder, plan, size, clock
        self._waiting: dict[int, dict[int, pd.DataFrame]] = {}
        self._written, self._worth = clock(), 0.0

    def add(self, task: StudyTask, rows: pd.DataFrame) -> None:
        """Take the rows of a replicate, and write what there is if it is time to."""
        self._waiting.setdefault(task.cell, {})[task.replicate] = rows
        self._worth += float(rows.drop_duplicates(["estimator", "audit"])["seconds"].sum())
        if max(self._clock() - self._written, self._worth) >= PATIENCE:
            self.write()
        elif len(self._waiting[task.cell]) >= self._size:
            self._write(task.cell)

    def write(self) -> None:
        """Write all rows that are not on disk yet."""
        for cell in list(self._waiting):
            self._write(cell)
        self._written, self._worth = self._clock(), 0.0

    def _write(self, cell: int) -> None:
        replicates = sorted(self._waiting[cell])
        rows = pd.concat([self._waiting[cell][each] for each in replicates], ignore_index=True)
        name = f"{self._plan.cells[cell].hash}-{replicates[0]:06d}.parquet"
        rows.attrs[_NAMES] = NAMES
        with atomic_path(self._folder / SHARDS / name) as part:
            rows.to_parquet(part, index=False, compression="zstd")
        del self._waiting[cell]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None
    ) -> None:
        self.write()


def done_keys(folder: Path) -> set[tuple[str, int]]:
    """Return cell and replicate of everything that shards hold."""
    done: set[tuple[str, int]] = set()
    for path in sorted((folder / SHARDS).glob("*.parquet")):
        keys = _read_shard(path, ["cell", "replicate"]).drop_duplicates()
        done.update(zip(keys["cell"].tolist(), keys["replicate"].tolist(), strict=True))
    return done


def tasks_of(plan: Plan, replicates: int, done: set[tuple[str, int]]) -> dict[str, StudyTask]:
    """Return what is left to do, under the names that messages use."""
    return {
        f"cell '{cell.name}', replicate {at}" if cell.name else f"replicate {at}": StudyTask(k, at)
        for k, cell in enumerate(plan.cells)
        for at in range(replicates)
        if (cell.name, at) not in done
    }


def audits(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare the means of audited fits with those of the first engine."""
    # A truth that is taken in another way is held against the same estimate.
    plain = rows[~rows["quantity"].str.endswith(_NOMINAL)]
    first, second = plain[~plain["audit"]], plain[plain["audit"]]
    pairs = second.merge(first, on=list(KEYS), suffixes=("_second", "_first"))
    pairs = pairs[(pairs["mcse_first"] > 0) & (pairs["mcse_second"] > 0)]
    # Not by the bulk ESS, which is one of ranks: the mean of a long tail is estimated worse.
    error = np.hypot(pairs["mcse_first"], pairs["mcse_second"])
    pairs = pairs.assign(z=(pairs["mean_second"] - pairs["mean_first"]) / error)
    return pd.DataFrame(
        [_row(str(name), part) for name, part in pairs.groupby("estimator", sort=True)],
        columns=["estimator", "engines", "fits", "quantities", "far", "largest", "of", "rms",
                 "rms_mc_se"],
    )  # fmt: skip


def _row(estimator: str, pairs: pd.DataFrame) -> dict[str, object]:
    worst = pairs.iloc[int(pairs["z"].abs().to_numpy().argmax())]
    rms = float(np.sqrt((pairs["z"] ** 2).mean()))
    return {
        "estimator": estimator,
        "engines": f"{worst['engine_first']}, {worst['engine_second']}",
        "fits": len(pairs.drop_duplicates(["cell", "replicate"])),
        "quantities": len(pairs),
        "far": float((pairs["z"].abs() > FAR).mean()),
        "largest": float(worst["z"]),
        "of": f"{worst['quantity']} {worst['where']}".strip(),
        "rms": rms,
        "rms_mc_se": _error_over_fits(pairs, rms),
    }


def _error_over_fits(pairs: pd.DataFrame, rms: float) -> float:
    """Return the standard error of a root mean square, whose squares come fit by fit."""
    beyond = (pairs["z"] ** 2 - rms**2).groupby([pairs["cell"], pairs["replicate"]]).sum()
    fits = len(beyond)
    if fits < 2 or rms == 0:
        return np.nan
    variance = fits / (fits - 1) * float((beyond**2).sum()) / len(pairs) ** 2
    return float(np.sqrt(variance) / (2 * rms))


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
    shown = printable(str(path))
    try:
        return _Record.model_validate_json(path.read_bytes()).model_dump()
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read ({error.strerror}); {RESTORE}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        problem = printable(f"{where}: {first['msg']}" if where else first["msg"])
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
            f"{printable(str(folder))}: holds rows of a study, and no {RECORD} that states of "
            "which;"
            f" {RESTORE}"
        )
    # Without a row it ended early, perhaps for a mistake in the study, which is fixed now.
    before = record_of(folder) if done or hash_of(folder) == plan.hash else None
    if before is not None and before["hash"] != plan.hash:
        raise UsageError(
            f"{printable(str(folder))}: holds a run of the study '{before.get('name')}'"
            f" ({before['hash'][:12]}), and this one is '{plan.study.name}' ({plan.hash[:12]});"
            " the study or a model spec that it names has changed: choose another folder"
        )
    study, earlier = plan.study, before or {"runs": []}
    estimators = {
        each.name: {
            "kind": each.kind,
            "model": each.model,
            "hash": plan.specs[each.name].hash if each.name in plan.specs else "",
        }
        for each in study.estimators
    }
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    run = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "versions": versions | {"python": platform.python_version()},
    }
    record = {
        "format": FORMAT,
        "name": study.name,
        "summary": study.summary,
        "hash": plan.hash,
        "replicates": max([replicates, *(replicate + 1 for _, replicate in done)]),
        "cells": [cell.name for cell in plan.cells],
        "estimators": estimators,
        # As given: keys that another kind of block has are refused where it is read again.
        "study": study.model_dump(mode="json", exclude_unset=True),
        "runs": [*earlier["runs"], run],
    }
    # As it was written, unless it was changed since, or made by Python.
    text = study.text
    if not text or StudySpec.parse(text, study.name).hash != study.hash:
        text = json.dumps(record["study"], indent=1)
    write_text(folder / COPY, text)
    write_json(folder / RECORD, record)
    return record


def finish_record(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Add to the record what the rows amount to, and return it."""
    rows = read_rows(folder)
    compared = audits(rows)
    record = record | {
        "fits": dict(sorted(statuses(rows).items())),
        "audits": json.loads(compared.to_json(orient="records")),
    }
    write_json(folder / RECORD, record)
    return record
