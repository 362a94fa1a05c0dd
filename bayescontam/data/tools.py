"""Evaluation tools whose logs are read, and which of them wrote a file."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pydantic_core import from_json

from bayescontam._bounds import unpacked
from bayescontam._text import printable
from bayescontam.errors import BayescontamError

TOOLS = {
    "lm-eval": "lm-evaluation-harness or lmms-eval",
    "inspect": "Inspect",
    "every-eval-ever": "Every Eval Ever",
    "helm": "HELM",
    "opencompass": "OpenCompass",
    "lighteval": "lighteval",
    "py-irt": "py-irt",
    "swe-bench": "SWE-bench",
    "evalplus": "EvalPlus",
    "livecodebench": "LiveCodeBench",
}
"""What comes after ``bayescontam import`` for each tool whose logs are read, and its name."""

COMMANDS = (*TOOLS, "arc-predictions", "arc-people", "matrix")
ADVICE = f"files of evaluation tools are read by: bayescontam import {' | '.join(COMMANDS)}"
"""What to do with a file of another program that is given as a table."""
_START = 1_000_000  # bytes from which a file is recognised
_KEYS = {
    "lm-eval": {"doc_id", "doc"},
    "every-eval-ever": {"evaluation_name", "sample_id"},
    "helm": {"instance_id", "stats"},
    "py-irt": {"subject_id", "responses"},
    "livecodebench": {"performances", "models"},
    "swe-bench": {"resolved_ids"},
    "inspect": {"eval", "plan", "status"},
}
"""Keys of the first object in a file, by which its tool is recognised."""
_LIGHTEVAL = {"metric", "model_response"}, {"metrics", "predictions", "hashes"}
"""Columns of Parquet files of lighteval, new and old."""


def tool_of(path: str | os.PathLike[str]) -> str | None:
    """Return the verb of ``bayescontam import`` that reads a file, or None."""
    file = Path(path)
    try:
        if file.suffix == ".parquet":
            names = set(pq.read_schema(file).names)
            return "lighteval" if any(columns <= names for columns in _LIGHTEVAL) else None
        with unpacked(file) as stream:
            start = stream.read(_START)
    except (BayescontamError, OSError, ValueError):
        return None
    if file.suffix == ".eval" and start.startswith(b"PK"):
        return "inspect"
    return _of_value(_first(start))


def import_advice(path: str | os.PathLike[str]) -> str:
    """Return what to do with a file that is no table but a log of a tool; "" if it is none."""
    tool = tool_of(path)
    if tool is None:
        return ""
    return (
        f"this looks like a file of {TOOLS[tool]}: make a table of it with bayescontam import "
        f"{tool} {printable(shlex.quote(os.fspath(path)))} --out responses.csv"
    )


def _first(data: bytes) -> Any:
    """Return the first object of a file's beginning, which may break off."""
    data = data.removeprefix(b"\xef\xbb\xbf").strip()
    for part in (data, data.partition(b"\n")[0]):
        try:
            value = from_json(part, allow_partial=True)
        except ValueError:
            continue
        return value[0] if isinstance(value, list) and value else value
    return None


def _of_value(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None
    for tool, needed in _KEYS.items():
        if needed <= value.keys():
            return tool
    if isinstance(value.get("eval"), Mapping):
        return "evalplus"
    if isinstance(value.get("resolved"), list):
        return "swe-bench"
    if isinstance(value.get("details"), Mapping | list):
        return "opencompass"
    return None
