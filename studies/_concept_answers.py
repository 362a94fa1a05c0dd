"""ConceptARC beyond its accuracies: minimal tasks, kinds of errors, and one to three guesses."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import bayescontam as bc
from bayescontam.data.importers.arc import ArcTasks
from bayescontam.data.importers.arc_predictions import OUTCOMES
from bayescontam.published.findings import PictureData, TableData
from bayescontam.published.study import Study

from ._baseline import GUESSES, SOLVER, scored
from ._common import mean_and_interval

TASKS = "conceptarc_tasks"
"""Folder of the tasks themselves, in the data folder."""
BENCHMARK = "ConceptARC"
KINDS = {"minimal": "minimal tasks", "not minimal": "other tasks"}
"""Conditions on rows, and what they choose."""
_DRAWS = 4000


def accuracy_over_tasks(
    share: np.ndarray, task: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return draws of a mean over items, by the Bayesian bootstrap over the tasks they are of.

    Test inputs of one task are solved together or not at all more often than by chance. Rubin
    (1981), doi:10.1214/aos/1176345338.
    """
    names, at = np.unique(task, return_inverse=True)
    weights = rng.dirichlet(np.ones(len(names)), size=_DRAWS)
    total, count = np.bincount(at, share), np.bincount(at)
    draws: np.ndarray = (weights @ total) / (weights @ count)
    return draws


def on_minimal_tasks(study: Study, path: Path, solvers: dict[str, str]) -> pd.DataFrame:
    """Return ``solver, tasks, items, right, of, mean, low, high`` by solver and kind of tasks.

    The accuracy is the mean over test inputs of the share of answers that are right.
    """
    rows = []
    for condition, kind in KINDS.items():
        frame = bc.read_responses(path, where=condition).frame
        for name, shown in solvers.items():
            own = frame[frame["model"] == name]
            if own.empty:
                continue
            share = (own["n_correct"] / own["n_trials"]).to_numpy(dtype=float)
            rng = study.stream("minimal", name, kind)
            draws = accuracy_over_tasks(share, own["task"].to_numpy(dtype=object), rng)
            counts = {"test inputs": len(own), "right": int(own["n_correct"].sum())}
            counts["answers"] = int(own["n_trials"].sum())
            mean, low, high = share.mean(), *mean_and_interval(draws)[1:]
            row = {"solver": shown, "tasks": kind, **counts}
            rows.append({**row, "mean": float(mean), "low": low, "high": high})
    return pd.DataFrame(rows)


def minimal_parts(minimal: pd.DataFrame) -> tuple[PictureData, TableData]:
    """Return picture and table of what solvers do on minimal tasks."""
    caption = (
        "Each concept has one minimal task of three test inputs, as simple as its makers could"
        " think of. Accuracy with 95 % intervals, by the Bayesian bootstrap over tasks. People who"
        " failed two or more minimal tasks were left out when the data were published, so that the"
        " accuracy of people on them is too high."
    )
    shown = minimal.rename(columns={"solver": "label", "tasks": "series"})
    columns = ["label", "series", "mean", "low", "high"]
    title = "Minimal tasks and the others"
    picture = PictureData("intervals", title, caption, shown[columns], "accuracy", "solver")
    return picture, TableData("Accuracy on minimal tasks", caption, minimal)


def baseline_parts(
    study: Study, tasks: ArcTasks, printed: dict[str, str]
) -> tuple[list[PictureData], list[TableData], list[str]]:
    """Return pictures, tables and notes of the baseline's answers to the tasks themselves.

    `printed` has the printed names of concepts by the folders of their tasks.
    """
    by_guesses = {
        guesses: scored(
            study, "conceptarc-tasks", tasks, benchmark=BENCHMARK, guesses=guesses
        ).frame
        for guesses in range(1, GUESSES + 1)
    }
    whole = by_guesses[GUESSES]
    counts = outcomes(whole[whole["minimal"] == 0]).rename(index=printed)
    shares = counts.div(counts.sum(axis=1), axis=0)
    long = shares.rename_axis("row").reset_index().melt("row", var_name="column")
    caption = (
        f"Share of a concept's test inputs by what the {SOLVER}'s answer is: right with one of"
        f" {GUESSES} guesses, or else what the first guess is. The {SOLVER} gives an answer only"
        " where a program fits all demonstrations. Minimal tasks are left out."
    )
    title = f"What answers of the {SOLVER} are"
    picture = PictureData("grid", title, caption, long, "", "concept")
    tables = [
        TableData(f"Answers of the {SOLVER} by concept", caption, counts.reset_index()),
        TableData("One, two and three guesses", _GUESSES, solved_by(by_guesses)),
    ]
    return [picture], tables, list(_notes(counts))


_GUESSES = (
    f"Test inputs that the {SOLVER} solves with so many guesses; those of the other solvers are"
    " not in the data, which hold one result for each solver and test input. As published, people"
    " had three attempts, and programs made three predictions. GPT-4 was run once, at temperature"
    " 0, where the same request gives the same reply; whether it made further guesses, and how, is"
    " not described, so that its accuracy may be of one guess beside three of the others."
)


def outcomes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how many test inputs of each concept have each outcome, concept × outcome."""
    counts = pd.crosstab(frame["concept"].astype(str), frame["outcome"].astype(str))
    kinds = [kind for kind in OUTCOMES if kind != "unreadable"]  # which a grid is not
    return counts.reindex(columns=kinds, fill_value=0).rename_axis(columns=None)


def solved_by(by_guesses: dict[int, pd.DataFrame]) -> pd.DataFrame:
    """Return test inputs that are solved with so many guesses, by kind of tasks."""
    rows = []
    for guesses, frame in by_guesses.items():
        row: dict[str, object] = {"solver": SOLVER, "guesses": guesses}
        for minimal, kind in ((0, "other tasks"), (1, "minimal tasks")):
            own = frame.loc[frame["minimal"] == minimal, "n_correct"]
            row |= {f"solved, {kind}": int(own.sum()), f"test inputs, {kind}": len(own)}
        rows.append(row)
    return pd.DataFrame(rows)


def _notes(counts: pd.DataFrame) -> Iterator[str]:
    total, answered = int(counts.to_numpy().sum()), counts.drop(columns="no answer")
    given = int(answered.to_numpy().sum())
    kinds = ", ".join(f"{int(answered[kind].sum())} {kind}" for kind in answered)
    yield (
        f"The {SOLVER} answers {given} of {total} test inputs without the minimal tasks: {kinds}."
        " Outcomes of people, programs and GPT-4 are not known: their grids are not in the data."
    )
