"""Logs that Inspect itself writes, of local tasks and a model that needs no network.

Run as a script with the folder to write into. Three tasks by two models; answers follow from
the names, so that tests can work them out again.
"""

import hashlib
import sys
from pathlib import Path

TASKS = ("letters", "rubric", "numbers")
MODELS = ("org/small", "org/large")
SAMPLES = 16
EPOCHS = 2


def digit(*words: object) -> int:
    """Return a digit from 0 to 9 that only depends on the words."""
    text = "|".join(map(str, words))
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 10


def fails(task: str, model: str, item: int, epoch: int) -> bool:
    """Return whether a sample ends in an error."""
    return digit("error", task, model, item, epoch) == 0


def value(task: str, model: str, item: int, epoch: int) -> object:
    """Return the value that the task's own scorer gives; NaN where it is unscored."""
    drawn = digit(task, model, item, epoch)
    if task == "letters":
        return "CCCCIIIIPN"[drawn]
    if task == "numbers":
        return float("nan") if drawn == 9 else drawn / 8
    return {"right": float(drawn < 5), "polite": drawn < 8, "empty": None}


def write(folder: Path) -> None:
    """Write a log of each task and model: .eval, and .json for the second model."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import Score, accuracy, mean, scorer
    from inspect_ai.solver import solver

    @solver
    def answering():
        async def solve(state, generate):
            task, item = state.metadata["task"], int(state.sample_id)
            if fails(task, state.model.name, item, state.epoch):
                raise RuntimeError("no connection")
            state.output.completion = str(item)
            return state

        return solve

    @scorer(metrics=[mean()])
    def graded():
        async def score(state, target):
            task, item = state.metadata["task"], int(state.sample_id)
            found = value(task, state.model.name, item, state.epoch)
            if isinstance(found, float) and found != found:
                return Score.unscored(reason="grader_failed")
            return Score(value=found)

        return score

    @scorer(metrics=[accuracy()])
    def always():
        async def score(state, target):
            return Score(value="C")

        return score

    for model in MODELS:
        for task in TASKS:
            samples = [
                Sample(
                    id=i,
                    input=f"{task} question {i}",
                    target=str(i),
                    metadata={"task": task, "level": i % 3, "more": {"topic": f"t{i % 2}"}},
                )
                for i in range(1, SAMPLES + 1)
            ]
            eval(
                Task(
                    dataset=MemoryDataset(samples),
                    solver=answering(),
                    scorer=[graded(), always()] if task == "letters" else [graded()],
                    name=task,
                    epochs=EPOCHS,
                ),
                model=f"mockllm/{model}",
                log_dir=str(folder),
                log_format="eval" if model == MODELS[0] else "json",
                fail_on_error=False,
                display="none",
            )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
