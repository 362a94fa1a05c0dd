"""Logs of Inspect, written by hand."""

import json
from pathlib import Path
from typing import Any


def log(folder: Path, samples: list[dict[str, Any]] | None, run: str = "a", **spec: Any) -> Path:
    """Write a log as Inspect does."""
    folder.mkdir(parents=True, exist_ok=True)
    task = {
        "eval_id": f"eval {run}", "run_id": run, "created": "2026-02-03T10:11:12+00:00",
        "task": "quiz", "task_id": f"t {run}", "model": "mock/m", "config": {},
        "dataset": {"samples": 8, "sample_ids": None},
    }  # fmt: skip
    content = {"version": 2, "status": "success", "eval": task | spec, "plan": {"steps": []}}
    content |= {"results": {"scores": []}, "stats": {}, "samples": samples}
    if samples is None:
        content.pop("samples")
        content.pop("version")
    file = folder / f"2026-02-03T10-11-12-00-00_quiz_{run}.json"
    file.write_text(json.dumps(content))
    return file


def sample(item: int | str, value: Any, *, epoch: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a sample with one score, or several."""
    scores = value if isinstance(value, dict) and "match" in value else {"match": {"value": value}}
    return {
        "id": item, "epoch": epoch, "input": f"question {item}", "target": "x", "messages": [],
        "output": {"model": "m", "choices": []}, "scores": scores, "metadata": {}, "events": [],
    } | changes  # fmt: skip
