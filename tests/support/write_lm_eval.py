"""Logs that lm-evaluation-harness itself writes, of local tasks and a model that needs no network.

Run as a script with the folder to write into. Three tasks by two models, the second model run
twice; answers follow from the names, so that tests can work them out again.
"""

import hashlib
import json
import os
import random
import sys
from functools import partial
from pathlib import Path

TASKS = ("choice", "digits", "words")
RUNS = (("org/small", 0), ("org/large", 0), ("org/large", 1))
DOCS = 16
ANSWERS = "0123"
TASK = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{file}"}}}}
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_target: answer
"""
BLOCKS = {
    "choice": """output_type: multiple_choice
doc_to_choice: choices
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
metadata: {version: 1.0}
""",
    "digits": """output_type: generate_until
generation_kwargs: {until: ["\\n"], do_sample: true}
repeats: 2
filter_list:
  - {name: strict, filter: [{function: regex, regex_pattern: "^([0-9])$"}, {function: take_first}]}
  - {name: flexible, filter: [{function: regex, regex_pattern: "([0-9])"}, {function: take_first}]}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
metadata: {version: 2.0}
""",
    "words": """output_type: generate_until
generation_kwargs: {until: ["\\n"], do_sample: true}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
metadata: {version: 1.0}
""",
}


def doc(task: str, number: int) -> dict[str, object]:
    """Return a document of a task."""
    question = f"{task} question {number}"
    return {
        "question": question,
        "answer": ANSWERS[number % 4],
        "choices": list(ANSWERS),
        "meta": {"topic": f"t{number % 3}"},
    }


def digit(model: str, run: int, question: str) -> str:
    """Return the digit that a model answers with in a run."""
    text = f"{model}|{run}|{question}"
    return ANSWERS[int(hashlib.sha256(text.encode()).hexdigest(), 16) % 4]


def wordy(question: str) -> bool:
    """Return whether the answer to a question is a sentence, which the strict filter refuses."""
    return question.endswith(("1", "5"))


def write(folder: Path) -> None:
    """Write tasks and run the tool on them."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=str(folder / "home"))
    tasks = folder / "tasks"
    tasks.mkdir(parents=True)
    for name in TASKS:
        lines = [json.dumps(doc(name, number)) + "\n" for number in range(DOCS)]
        file = tasks / f"{name}.jsonl"
        file.write_text("".join(lines))
        (tasks / f"{name}.yaml").write_text(TASK.format(name=name, file=file) + BLOCKS[name])

    import lm_eval.loggers.utils
    import lm_eval.tasks
    from lm_eval.__main__ import cli_evaluate
    from lm_eval.models.dummy import DummyLM

    # Reading the thousands of tasks that ship with the tool and describing the machine takes
    # most of a minute, and neither is needed here.
    lm_eval.tasks.TaskManager = partial(lm_eval.tasks.TaskManager, include_defaults=False)
    lm_eval.loggers.utils.get_pretty_env_info = lambda: ""
    state = {"model": "", "run": 0}

    def answer(question: str) -> str:
        return digit(str(state["model"]), int(state["run"]), question)

    def loglikelihood(self, requests, disable_tqdm=False):
        return [
            # A run in which nothing is random would be a copy; these differ as sums on GPUs do.
            (-1.0 - random.random() if answer(context) != choice.strip() else -0.5, False)
            for context, choice in (request.arguments for request in requests)
        ]

    def generate_until(self, requests, disable_tqdm=False):
        questions = [request.arguments[0] for request in requests]
        return [f"It is {answer(q)}" if wordy(q) else answer(q) for q in questions]

    DummyLM.loglikelihood = loglikelihood
    DummyLM.generate_until = generate_until
    for state["model"], state["run"] in RUNS:
        sys.argv = [
            "lm_eval", "run", "--model", "dummy", "--model_args", f"pretrained={state['model']}",
            "--tasks", ",".join(TASKS), "--include_path", str(tasks),
            "--output_path", str(folder / "out"), "--log_samples",
        ]  # fmt: skip
        cli_evaluate()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
