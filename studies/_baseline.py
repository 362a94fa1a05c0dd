"""Answers of the baseline solver to ARC tasks: searched for once, then read from the folder."""

import hashlib
import json
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from itertools import batched
from typing import Any

import pandas as pd

import bayescontam as bc
from bayescontam.data.importers.arc import ArcTasks
from bayescontam.data.importers.arc_predictions import By
from bayescontam.published.study import Study

SOLVER = "baseline"
GUESSES = 3
"""Attempts that are searched for: as many as people and programs had."""
_CHUNK = 40
"""Tasks that are stored together, so that an interrupted search is resumed."""

type Submission = dict[str, list[dict[str, Any]]]


def some_of(tasks: ArcTasks, names: Collection[str]) -> ArcTasks:
    """Return the tasks of these names."""
    items = tasks.items[tasks.items["task"].isin(list(names))]
    grids = {name: content for name, content in tasks.grids.items() if name in names}
    return replace(tasks, items=items, grids=grids)


def searched(study: Study, name: str, tasks: ArcTasks) -> Submission:
    """Return the baseline's submission for tasks."""
    found: Submission = {}
    for number, names in enumerate(batched(tasks.tasks, _CHUNK), start=1):
        part = some_of(tasks, names)
        content = json.dumps(part.grids, sort_keys=True).encode()
        inputs = {"guesses": GUESSES, "tasks": hashlib.sha256(content).hexdigest()}
        table = study.stored(f"{name}-{number}", inputs, partial(_answers, study, part))
        answers = map(json.loads, table["answers"])
        found |= dict(zip(table["task"], answers, strict=True))
    return found


def _answers(study: Study, tasks: ArcTasks) -> pd.DataFrame:
    found = bc.solve_arc(tasks, guesses=GUESSES, progress=study.progress)
    texts = [json.dumps(answers) for answers in found.values()]
    return pd.DataFrame({"task": list(found), "answers": texts})


def scored(
    study: Study,
    name: str,
    tasks: ArcTasks,
    *,
    benchmark: str,
    guesses: int = GUESSES,
    by: By = "input",
) -> bc.Responses:
    """Return the baseline's responses, scored by the importer's rules.

    Beside the columns of responses ``task``, ``minimal``, ``attempts`` and ``outcome``, and
    ``concept`` where tasks lie in folders.
    """
    path = study.folder / f"{name}.json"
    path.write_text(json.dumps(searched(study, name, tasks)), encoding="utf-8")
    imported = bc.import_arc_predictions(
        path, tasks=tasks, benchmark=benchmark, guesses=guesses, by=by, model=SOLVER
    )
    return bc.Responses.from_frame(imported.frame, source=path.name)
