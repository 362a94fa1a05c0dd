"""Posed: responses of a benchmark, and contaminations drawn from exposures of its concepts."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayescontam._types import FloatArray
from bayescontam.calibration.published import PUBLISHED, contamination_of
from bayescontam.errors import UsageError
from bayescontam.importers.arc import ArcTasks, membership, read_arc, read_concepts
from bayescontam.names import listed
from bayescontam.reproduction.exposures import counted_exposures, documents_with, given_exposures
from bayescontam.reproduction.made_tasks import CONCEPTS, CONCEPTS_FILE, make_tasks
from bayescontam.reproduction.study import Study
from bayescontam.responses import Responses, read_responses

MADE, REAL = "generated tasks", "ConceptARC"
DRAWS = 4000
"""Draws of exposures that means and standard deviations come from."""


@dataclass(frozen=True, eq=False)
class Posed:
    """Responses of one benchmark, and contaminations of its items drawn from exposures."""

    name: str  # benchmark
    responses: Responses  # without contamination
    items: list[str]
    contamination: FloatArray  # dims (draw, item)
    # true values of the estimands, mean over models; empty where nobody knows them
    truth: dict[str, float]


def made(study: Study) -> Posed:
    """Return generated tasks answered by models that remember contaminated ones.

    The exposures that are given are means; the true ones lie around them as their standard
    deviation says, and answers follow from the true ones.
    """
    settings = study.settings
    # Of this size and seed: the folder may hold those of another run.
    folder = study.folder / f"tasks-{settings['tasks']}-{study.spec.seed}"
    if not (folder / CONCEPTS_FILE).exists():
        make_tasks(folder, settings["tasks"], study.stream("tasks"))
    tasks = read_arc(folder)
    share = shares(read_concepts(folder / CONCEPTS_FILE, tasks), tasks.tasks, list(CONCEPTS))
    rng = study.stream("exposures")
    mean = PUBLISHED.exposures(rng, (len(CONCEPTS),))
    sd = np.full(len(CONCEPTS), settings["exposure_sd"])
    true = contamination_of(given_exposures(mean, sd, 1, rng) @ share.T)[0]
    drawn = given_exposures(mean, sd, DRAWS, study.stream("draws"))
    p = settings["genuine"] + settings["boost"] * true
    responses = _answered(tasks, p, settings["models"], study.stream("answers"))
    over = settings["boost"] * (true.mean() - settings["reference"])
    at = settings["genuine"] + settings["boost"] * settings["reference"]
    return Posed(
        MADE,
        responses,
        list(tasks.items["item"]),
        contamination_of(drawn @ share.T),
        {"genuine_ability": float(at), "overfitting": float(over)},
    )


def shares(concepts: pd.DataFrame, tasks: tuple[str, ...], known: list[str]) -> FloatArray:
    """Return the share of each known concept in a task, dims (task, concept)."""
    table = membership(concepts, tasks)
    if strange := [name for name in table.columns if name not in known]:
        raise UsageError(
            f"study: no exposure is known of the concepts {listed(strange)}; known are"
            f" {listed(known)}"
        )
    result: FloatArray = table.reindex(columns=known, fill_value=0.0).to_numpy()
    return result


def extrapolated(posed: Posed, reference: float) -> list[str]:
    """Return a note if the reference lies below all that is expected of a benchmark."""
    least = posed.contamination.mean(axis=0).min()
    if least <= reference:
        return []
    return [
        f"{posed.name}: the reference {reference:g} lies below all contaminations, which begin at"
        f" {least:.2f}; genuine ability and overfitting are extrapolated."
    ]


def diluted(posed: Posed) -> str:
    """Return a note on how far drawing exposures without the answers draws slopes towards 0.

    The covariance of a true contamination with a drawn one, both of the same distribution,
    is the variance of their expectation.
    """
    expected = posed.contamination.mean(axis=0).var()
    share = 1 - expected / posed.contamination.var(axis=1).mean()
    return (
        f"{posed.name}: contaminations that are drawn without regard to the answers draw slope and"
        f" overfitting towards 0, here by about {share:.0%}."
    )


def _answered(tasks: ArcTasks, p: FloatArray, models: int, rng: np.random.Generator) -> Responses:
    table = pd.concat(
        [
            pd.DataFrame(
                {
                    "model": f"simulated {number + 1}",
                    "benchmark": MADE,
                    "item": tasks.items["item"],
                    "correct": (rng.random(len(p)) < p).astype(int),
                }
            )
            for number in range(models)
        ]
    )
    return Responses.from_frame(table, source="simulated answers")


def real(study: Study, answers: Path, corpus: Path) -> Posed:
    """Return ConceptARC's answers, with exposures counted in a sample of texts."""
    frame = read_responses(answers, where="not minimal").frame
    frame = frame[frame["model"].isin(study.settings["solvers"])].assign(benchmark=REAL)
    words: dict[str, list[str]] = study.settings["words"]
    counts = documents_with(corpus, words)
    exposure = counted_exposures(counts, study.settings["share"], DRAWS, study.stream("counted"))
    items = frame.drop_duplicates("item")[["item", "concept"]].rename(columns={"item": "task"})
    share = shares(items, tuple(items["task"]), list(words))
    table = frame.drop(columns=["minimal", "task", "concept"])
    return Posed(
        REAL,
        Responses.from_frame(table, source=answers.name),
        list(items["task"]),
        contamination_of(exposure @ share.T),
        {},
    )
