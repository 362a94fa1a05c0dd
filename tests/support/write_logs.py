"""Logs of other tools, written as those tools write them."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from bayescontam.data.importers.logs import Imported

ITEMS = 6


def row(item: int, score: float, **changes: Any) -> dict[str, Any]:
    """Return a row as the schema asks for it."""
    return {
        "schema_version": "0.3.0",
        "evaluation_id": "quiz/org/a/1700000000",
        "model_id": "org/a",
        "evaluation_name": "quiz",
        "evaluation_result_id": "exact_match",
        "sample_id": str(item),
        "sample_hash": f"hash {item}",
        "interaction_type": "single_turn",
        "input": {"raw": f"question {item}", "reference": ["yes"]},
        "output": {"raw": [f"answer {item} {changes.get('evaluation_id')}"]},
        "answer_attribution": [],
        "evaluation": {"score": score, "is_correct": score == 1.0},
        "error": None,
        "metadata": {"topic": f"t{item % 2}"},
    } | changes


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    file = folder / f"{name}_samples.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return file


def quiz(**changes: Any) -> list[dict[str, Any]]:
    return [row(item, float(item % 2), **changes) for item in range(ITEMS)]


MODEL = {"model": "hf", "model_args": "pretrained=org/a"}


def sample(number: int, **changes: Any) -> dict[str, Any]:
    """Return a row of lm-evaluation-harness."""
    doc = {"run": f"r{number}", "value": number, "level": number}
    return {
        "doc_id": number,
        "doc": doc,
        "doc_hash": f"hash {number}",
        "filter": "none",
        "metrics": ["acc"],
        "acc": float(number % 2),
        "resps": [[f"answer {number}"]],
    } | changes


def lm_eval(folder: Path, *rows: dict[str, Any], second: int = 0, **results: Any) -> Path:
    """Write a run as lm-evaluation-harness does."""
    folder.mkdir(parents=True, exist_ok=True)
    date = f"2026-01-31T12-00-{second:02d}.000000"
    text = "".join(json.dumps(one) + "\n" for one in rows)
    (folder / f"samples_quiz_{date}.jsonl").write_text(text)
    (folder / f"results_{date}.json").write_text(json.dumps({"config": MODEL} | results))
    return folder


def trials(found: Imported) -> list[list[Any]]:
    return found.frame[["model", "item", "n_correct", "n_trials"]].to_numpy().tolist()


def dump(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1))
    return file


def rows(found: Imported) -> list[list[Any]]:
    columns = ["model", "benchmark", "item", "n_correct", "n_trials"]
    return found.frame[columns].to_numpy().tolist()


def stat(name: str, value: float, **changes: Any) -> dict[str, Any]:
    return {"name": {"name": name, "split": "test"}, "count": 1, "mean": value} | changes


def instance(item: str, trial: int, right: float, **changes: Any) -> dict[str, Any]:
    stats = [stat("exact_match", right), stat("num_output_tokens", 7.0), stat("logprob", -0.5)]
    return {"instance_id": item, "train_trial_index": trial, "stats": stats} | changes


def helm(folder: Path, stats: list[Any], model: str = "org/m", **adapter: Any) -> Path:
    """Write a run of HELM."""
    name = f"mmlu:subject=art,method=joint,model={model.replace('/', '_')}"
    spec = {"name": name, "adapter_spec": {"model": model, "method": "joint", **adapter}}
    run = folder / name
    dump(run / "run_spec.json", spec)
    return dump(run / "per_instance_stats.json", stats)


STATS = [
    instance("id1", 0, 1.0), instance("id1", 1, 0.0), instance("id2", 0, 1.0),
    instance("id2", 1, 1.0), instance("id1", 0, 0.0, perturbation={"name": "typos"}),
]  # fmt: skip


ART = "mmlu:subject=art,method=joint"


def state(item: str, text: str, said: str) -> dict[str, Any]:
    answer = {"completions": [{"text": said}]}
    return {
        "instance": {"id": item, "input": {"text": text}, "split": "test"},
        "train_trial_index": 0, "result": answer,
    }  # fmt: skip


def details(*right: bool | None, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "GEN"}
    for number, own in enumerate(right):
        entry = {"prompt": "x", "predictions": str(number), "references": f"r{number}"}
        found[str(number)] = entry | ({} if own is None else {"correct": own}) | changes
    return {"accuracy": 50.0, "details": found}


def lighteval(folder: Path, queries: list[str], metrics: list[Any], **columns: Any) -> Path:
    """Write details of lighteval."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "details_lighteval|gsm8k|5_2026-02-03T10-11-12.000001.parquet"
    docs = [{"query": query, "choices": ["a", "b"], "gold_index": [0]} for query in queries]
    said = [{"text": [f"answer {k}"]} for k in range(len(queries))]
    table = {"doc": docs, "metric": metrics, "model_response": said} | columns
    pd.DataFrame(table).to_parquet(file)
    return file


BOTH = [{"em": 1.0, "pass@1": 1.0}, {"em": 0.0, "pass@1": None}]


SUBJECTS = [
    {"subject_id": "a", "responses": {"i1": 1, "i2": 0, "i3": 0}},
    {"subject_id": "b", "responses": {"i1": 1, "i3": 1, "i4": None}},
]


HARNESS = {
    "total_instances": 5, "submitted_ids": ["a", "b", "c", "d"], "completed_ids": ["a", "b"],
    "resolved_ids": ["a"], "unresolved_ids": ["b"], "empty_patch_ids": ["c"], "error_ids": ["d"],
    "incomplete_ids": ["e"],
}  # fmt: skip


def solved(base: str, plus: str | None) -> dict[str, Any]:
    return {"task_id": "x", "base_status": base, "plus_status": plus}


DAY = 86_400_000


def performance(item: str, model: str, share: float, **changes: Any) -> dict[str, Any]:
    return {
        "question_id": item, "model": model, "date": 19_600 * DAY, "difficulty": "easy",
        "pass@1": share, "platform": "leetcode",
    } | changes  # fmt: skip


MODELS = [
    {"model_name": "org/a", "model_repr": "A", "release_date": 19_500 * DAY},
    {"model_name": "org/b", "model_repr": "B (n=1)", "release_date": 19_700 * DAY},
]


BOARD = [
    performance("q1", "A", 30.0), performance("q2", "A", 100.0, date="2023-01-31"),
    performance("q1", "B (n=1)", 100.0), performance("q3", "C", 10.0, platform="atcoder"),
]  # fmt: skip


def livecodebench(folder: Path, board: list[Any] = BOARD) -> Path:
    content = {"performances": board, "models": MODELS}
    return dump(folder / "performances_generation.json", content)


def each_tool(folder: Path) -> dict[str, Path]:
    """Write a file of each tool under a name that does not give it away."""
    made = {
        "lm-eval": next(lm_eval(folder / "a", sample(0)).glob("samples_*")),
        "every-eval-ever": write(folder, "b", quiz()),
        "helm": helm(folder / "c", STATS),
        "opencompass": dump(folder / "d.json", details(True)),
        "lighteval": lighteval(folder / "e", ["q"], [{"em": 1.0}]),
        "py-irt": folder / "f.jsonl",
        "swe-bench": dump(folder / "g.json", HARNESS),
        "evalplus": dump(folder / "h.json", {"eval": {"HumanEval/0": [solved("pass", None)]}}),
        "livecodebench": livecodebench(folder / "i"),
        "inspect": dump(folder / "j.json", {"status": "success", "eval": {}, "plan": {}}),
    }
    made["py-irt"].write_text("".join(json.dumps(own) + "\n" for own in SUBJECTS))
    return made
