"""Items of a lab as tasks of lm-evaluation-harness, which then has the models answer."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayescontam._files import make_folder, on_disk, write_text
from bayescontam._text import printable
from bayescontam.errors import UsageError
from bayescontam.lab.answering import ANSWERS
from bayescontam.lab.grading import counted_answer
from bayescontam.lab.items import questions_of, read_items
from bayescontam.lab.mix import MODELS, RECORD, TEXTS
from bayescontam.lab.numbers import NUMBER
from bayescontam.lab.training_runs import read_lab
from bayescontam.specs.lab import Answers

_NUMBER = rf"((?<![A-Za-z\d)^_])-?{NUMBER})"


def write_tasks(folder: str | os.PathLike[str], out: str | os.PathLike[str]) -> list[str]:
    """Write the benchmarks of a lab as tasks of lm-evaluation-harness (0.4).

    The tool then has any model of the lab answer: ``lm_eval --model hf --model_args
    pretrained=FOLDER --include_path OUT --tasks NAMES --log_samples --output_path LOGS``, and
    `import_lm_eval` reads its logs. The tool grades one reply to each question, by its own
    comparison of texts: it finds numbers, or what the pattern finds, much as `answer_lab` does, but
    takes 7.00 or 07 for another answer than 7, and does not look past emphasis within a match. At
    temperature 0 the two agree on replies that spell the answer as the item does.

    Parameters
    ----------
    folder : path
        Folder of a lab that `make_mixes` wrote.
    out : path
        Folder for ``NAME.yaml`` and ``NAME.jsonl`` of each benchmark.

    Returns
    -------
    list of str
        Names of the tasks.

    Raises
    ------
    UsageError
        If the folder is of no lab, its items are graded by tests, or `out` has files of a lab.

    Examples
    --------
    >>> from bayescontam.lab.task import write_tasks
    >>> write_tasks("lab", "tasks")  # doctest: +SKIP
    ['sums', 'changes', 'clock']
    """
    lab, place = Path(folder), Path(out)
    spec = read_lab(lab)
    _check_out(place)
    if spec.answers.grade == "tests":
        raise UsageError(
            f"{printable(lab)}: its items are graded by tests, which the tool runs without this"
            " package's sandbox; use: bayescontam lab answer"
        )
    items = read_items(lab)
    rows = zip(items, questions_of(items), strict=True)
    tasks: dict[str, list[dict[str, Any]]] = {}
    for item, question in rows:
        answer = counted_answer(str(item["answer"]), spec.answers)
        row = {"item": item["item"], "question": question, "answer": answer}
        tasks.setdefault(str(item["benchmark"]), []).append(row)
    with on_disk(place):
        make_folder(place)
        for name, own in tasks.items():
            data = (place / f"{name}.jsonl").absolute()
            write_text(data, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in own))
            # YAML is a superset of JSON, whose texts need no quoting rules of its own.
            text = json.dumps(_task(name, data, spec.answers), ensure_ascii=False, indent=1)
            write_text(place / f"{name}.yaml", f"{text}\n")
    return list(tasks)


def _check_out(place: Path) -> None:
    """Refuse a folder whose files are those of a lab."""
    whole = place.resolve()
    for lab in (whole, *whole.parents):
        own = whole.relative_to(lab).parts[:1]
        if (lab / RECORD).exists() and (not own or own[0] in (TEXTS, MODELS, ANSWERS)):
            raise UsageError(
                f"{printable(place)}: holds files of a lab, which tasks might replace; give a"
                " folder of their own"
            )


def _task(name: str, data: Path, answers: Answers) -> dict[str, Any]:
    """Return the configuration of a task."""
    sampled = answers.temperature > 0
    draws = {"temperature": answers.temperature, "top_k": 0, "top_p": 1.0} if sampled else {}
    return {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {
            "until": [], "do_sample": sampled, "max_gen_toks": answers.longest, **draws,
        },
        "filter_list": [{"name": answers.grade, "filter": [*_filters(answers)]}],
        "metric_list": [
            {
                "metric": "exact_match", "aggregation": "mean", "higher_is_better": True,
                "regexes_to_ignore": [","] if answers.grade == "number" else [r"^\s+|\s*\.?\s*$"],
            }
        ],
        "metadata": {"version": 1.0},
    }  # fmt: skip


def _filters(answers: Answers) -> Iterator[dict[str, Any]]:
    """Yield what the tool takes from a reply."""
    if answers.grade != "exact":
        last = answers.grade == "number"
        pattern = _NUMBER if last else answers.pattern
        yield {"function": "regex", "regex_pattern": pattern, "group_select": -last}
    yield {"function": "take_first"}
