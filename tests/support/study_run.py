"""The folder of a study's run, written by hand: rows whose faults are known."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bayescontam.calibration.storage import SHARDS
from bayescontam.specs.study import StudySpec
from tests.support.study_rows import made_rows

HOSTILE = "<script>document.title=0</script>\x07"
"""Stands where a study's file lets a user write anything."""


def study_text(kind: str = "prior", grid: str = "", names: Sequence[str] = ("exact",)) -> str:
    """Return a study's file with estimators of these names; "bootstrap" is the bootstrap."""
    estimators = "".join(
        f'[[estimators]]\nname = "{name}"\n'
        + ('kind = "bootstrap"\n' if name == "bootstrap" else 'model = "single"\n')
        for name in names
    )
    model = "" if kind == "published" else 'model = "single"\n'
    return (
        f"summary = {json.dumps('Asks whether ' + HOSTILE)}\nreplicates = 400\n"
        f'[simulator]\nkind = "{kind}"\n{model}{estimators}{grid}'
    )


def write_run(
    folder: Path, rows: Mapping[str, pd.DataFrame], text: str, replicates: int = 400
) -> Path:
    """Write the folder of a run: its study, its record, and one shard for each table."""
    study = StudySpec.parse(text, "made")
    (folder / SHARDS).mkdir(parents=True)
    record: dict[str, Any] = {
        "format": 1, "name": "made", "summary": study.summary, "hash": "ab" * 32,
        "replicates": replicates, "cells": list(study.cells()),
        "estimators": {e.name: {"kind": e.kind, "model": e.model, "hash": "cd" * 32}
                       for e in study.estimators},
        "study": study.model_dump(mode="json"),
        "runs": [{"started": "2026-03-04T05:06:07+00:00", "command": f"bayescontam '{HOSTILE}'",
                  "versions": {"pymc": "6.4"}}],
    }  # fmt: skip
    (folder / "study.json").write_text(json.dumps(record), encoding="utf-8")
    (folder / "study.toml").write_text(text, encoding="utf-8")
    for name, table in rows.items():
        table.to_parquet(folder / SHARDS / f"{name}.parquet")
    return folder


def faulty(replicates: int = 400) -> dict[str, pd.DataFrame]:
    """Return rows of two estimators: 'exact', with failures and audits, and 'narrow'."""
    where = ("model 1 | bench 1", "model 2 | bench 1")
    right = made_rows(replicates, 1, quantity="genuine_ability_direct", where=where)
    other = made_rows(replicates, 2, quantity="beta_bar")
    exact = pd.concat([right, other], ignore_index=True)
    failed, longer = exact["replicate"] < 8, exact["replicate"].between(8, 27)
    exact.loc[failed, ["status", "reason"]] = (
        "failed", "ESS 9 of beta_bar; then, for longer: R-hat 1.203 of theta (2, 1); ESS 20 of mu",
    )  # fmt: skip
    exact.loc[longer, ["status", "reason"]] = "rerun", "R-hat 1.051 of theta (1, 1)"
    again = exact[exact["replicate"].isin([30, 31])].assign(audit=True, engine="pymc")
    again["mean"] += 0.5 * again["mcse"]
    narrow = made_rows(
        replicates,
        1,
        quantity="genuine_ability_direct",
        where=where,
        estimator="narrow",
        narrow=1.5,
    )
    return {"a": exact, "b": again, "c": narrow}
