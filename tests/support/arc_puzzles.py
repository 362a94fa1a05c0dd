"""Small ARC tasks, and models that answer them well or badly."""

import json
import random
import re
from pathlib import Path

from tests.support.llm_server import Reply, Request, completion

Grid = list[list[int]]


def write_tasks(folder: Path, solutions: bool = True) -> Path:
    """Write two tasks, of two test inputs and of one: each output is its input, mirrored."""
    inputs = {"Order/turn": [[[1, 2]], [[3, 4]]], "MinimalTasks/oneMinimal": [[[5, 6]]]}
    for name, tests in inputs.items():
        pairs = [{"input": grid, "output": mirrored(grid)} for grid in tests]
        if not solutions:
            pairs = [{"input": pair["input"]} for pair in pairs]
        shown = {"input": [[7, 8], [0, 0]], "output": [[8, 7], [0, 0]]}
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"train": [shown, shown], "test": pairs}), encoding="utf-8")
    return folder


def write_set(folder: Path, name: str) -> Path:
    """Write a version of a benchmark, of tasks that the baseline solves and that it does not.

    Version 1 has 6 tasks with mirrored outputs (``turn-0``, …) and 6 whose outputs have no rule
    (``chance-0``, …), half of them larger than the input; version 2 has 5 of the latter, of
    which the first has a name of version 1.
    """
    top = folder / f"tasks of {name}"
    top.mkdir(parents=True)
    rng = random.Random(1)
    kinds = {"turn": 6, "chance": 6} if name == "version 1" else {"chance": 5}
    for kind, count in kinds.items():
        for number in range(count):
            pairs = []
            for _ in range(4):
                grid = [[rng.randrange(10) for _ in range(4)] for _ in range(3)]
                other = [[rng.randrange(10) for _ in range(4 + number % 2)] for _ in range(3)]
                pairs.append({"input": grid, "output": mirrored(grid) if kind == "turn" else other})
            same = kind == "turn" or name == "version 1" or number == 0
            task = f"{kind}-{number}" if same else f"other-{number}"
            content = {"train": pairs[:3], "test": pairs[3:]}
            (top / f"{task}.json").write_text(json.dumps(content), encoding="utf-8")
    return top


def mirrored(grid: Grid) -> Grid:
    return [row[::-1] for row in grid]


def puzzle(request: Request) -> str:
    """Return the puzzle that a model was sent."""
    return str(request.body["messages"][1]["content"])


def input_of(request: Request) -> Grid:
    """Return the test input of a request."""
    rows = puzzle(request).rpartition("Test\n")[2]
    return [[*map(int, row.split())] for row in re.findall(r"\[([\d ]+)\]", rows)]


def written(grid: Grid) -> str:
    return "\n".join(f"[{' '.join(map(str, row))}]" for row in grid)


def right(request: Request) -> Reply:
    """Answer with the output."""
    return completion(f"<think>1 1\n1 1?</think>\n{written(mirrored(input_of(request)))}")
