"""ARC concepts: contamination of tasks from uncertain exposures of the concepts they need."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayescontam.covariates import Covariates
from bayescontam.errors import UsageError
from bayescontam.importers.arc import ArcTasks, membership, read_arc, read_concepts
from bayescontam.inference.fitted import Fitted
from bayescontam.names import listed
from bayescontam.reproduction.exposures import (
    Floats,
    contamination_draws,
    counted_exposures,
    covariates_of,
    documents_with,
    given_exposures,
)
from bayescontam.reproduction.findings import Comparison, Findings, Picture, Titled
from bayescontam.reproduction.made_tasks import CONCEPTS, CONCEPTS_FILE, make_tasks
from bayescontam.reproduction.study import Study
from bayescontam.reproduction.told import row_of, told
from bayescontam.responses import Responses, read_responses

KNOWN, NOISY, DRAWN = "exposures taken as known", "noise of each task", "exposures drawn"
ANSWERS, CORPUS = "conceptarc.csv", "texts/corpus.jsonl"
MADE, REAL = "generated tasks", "ConceptARC"
DRAWS = 4000
"""Draws of exposures that means and standard deviations come from."""
QUANTITIES = ("genuine_ability", "overfitting", "slope")


@dataclass(frozen=True, eq=False)
class Posed:
    """Responses of one benchmark, and contaminations of its items drawn from exposures.

    Attributes
    ----------
    name : str
        Benchmark.
    responses : Responses
        Without contamination.
    items : list of str
    contamination : array
        Dims (draw, item).
    truth : dict of str to float
        True values of the estimands, mean over models; empty where nobody knows them.
    """

    name: str
    responses: Responses
    items: list[str]
    contamination: Floats
    truth: dict[str, float]


def analyse(study: Study) -> Findings:
    """Propagate the uncertainty of exposures: generated tasks, and ConceptARC if given.

    Parameters
    ----------
    study : Study
        Settings: ``tasks, models, genuine, boost, exposure_sd`` of the generated example,
        ``reference``, ``imputations``, ``share`` of the corpus that was sampled, ``solvers`` and
        ``words`` (of each concept).

    Returns
    -------
    Findings
    """
    posed, notes = [made(study)], []
    paths = study.given(ANSWERS), study.given(CORPUS)
    if paths[0] is not None and paths[1] is not None:
        posed.append(real(study, paths[0], paths[1]))
    else:
        notes.append(
            f"{ANSWERS} or {CORPUS} is not in the data folder: ConceptARC is left out. Name the"
            " folder that holds them with --data."
        )
    rows: list[dict[str, Any]] = []
    for one in posed:
        notes += extrapolated(one, study.settings["reference"])
        for way, fits in fitted(study, one):
            notes += [note for name, fit in fits.items() for note in study.failed_checks(name, fit)]
            rows += _rows(one, way, list(fits.values()))
    table = pd.DataFrame(rows)
    return Findings(
        _headline(table),
        tuple(_compared(study, posed[0])),
        (*(_picture(table, one) for one in posed), _spread(posed)),
        (Titled("What is told", "By what is done with uncertain exposures.", table),),
        tuple(notes),
    )


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
    mean = 0.2 + 0.7 * rng.beta(3, 2, size=len(CONCEPTS))
    sd = np.full(len(CONCEPTS), settings["exposure_sd"])
    formula = _formula(study)
    true = contamination_draws(given_exposures(mean, sd, 1, rng), share, *formula)[0]
    drawn = given_exposures(mean, sd, DRAWS, study.stream("draws"))
    p = settings["genuine"] + settings["boost"] * true
    responses = _answered(tasks, p, settings["models"], study.stream("answers"))
    over = settings["boost"] * (true.mean() - settings["reference"])
    at = settings["genuine"] + settings["boost"] * settings["reference"]
    return Posed(
        MADE,
        responses,
        list(tasks.items["item"]),
        contamination_draws(drawn, share, *formula),
        {"genuine_ability": float(at), "overfitting": float(over)},
    )


def shares(concepts: pd.DataFrame, tasks: tuple[str, ...], known: list[str]) -> Floats:
    """Return the share of each known concept in a task, dims (task, concept).

    Raises
    ------
    UsageError
        If a task needs a concept whose exposure is not known.
    """
    table = membership(concepts, tasks)
    if strange := [name for name in table.columns if name not in known]:
        raise UsageError(
            f"study: no exposure is known of the concepts {listed(strange)}; known are"
            f" {listed(known)}"
        )
    result: Floats = table.reindex(columns=known, fill_value=0.0).to_numpy()
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


def _answered(tasks: ArcTasks, p: Floats, models: int, rng: np.random.Generator) -> Responses:
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
    kept = frame.drop(columns=["minimal", "task", "concept"])
    return Posed(
        REAL,
        Responses.from_frame(kept, source=answers.name),
        list(items["task"]),
        contamination_draws(exposure, share, *_formula(study)),
        {},
    )


def fitted(study: Study, posed: Posed) -> Iterator[tuple[str, dict[str, Fitted]]]:
    """Yield each way of treating exposures, with its fits by name.

    ``exposures drawn``: one fit for each of several draws of all exposures at once, whose
    posteriors count alike. An error in a concept's exposure moves all tasks that need it
    together, which noise of each task on its own does not.
    """
    prefix = "made" if posed.name == MADE else "real"
    settings = {"reference": study.settings["reference"]}
    table = covariates_of(posed.contamination, posed.name, posed.items)
    plain = Covariates.from_frame(table.drop(columns="contamination_sd"))
    known = study.fit(f"{prefix}-known", posed.responses.with_contamination(plain), **settings)
    yield KNOWN, {f"{prefix}-known": known}
    noisy = posed.responses.with_contamination(Covariates.from_frame(table))
    name = f"{prefix}-noisy"
    yield NOISY, {name: study.fit(name, noisy, "noisy_covariate", **settings)}
    chosen = np.linspace(0, DRAWS - 1, study.settings["imputations"]).astype(int)
    drawn = {}
    for number, draw in enumerate(chosen, start=1):
        own = plain.frame.assign(contamination=posed.contamination[draw])
        responses = posed.responses.with_contamination(Covariates.from_frame(own))
        drawn[f"{prefix}-drawn-{number}"] = study.fit(
            f"{prefix}-drawn-{number}", responses, **settings
        )
    yield DRAWN, drawn


def estimand(fits: list[Fitted], quantity: str) -> Floats:
    """Return draws of an estimand, mean over models, of all fits together."""
    parts = [fit.tree["estimands"][quantity].mean("model").to_numpy().ravel() for fit in fits]
    return np.concatenate(parts)


def _formula(study: Study) -> tuple[float, float]:
    prior, slope = (study.printed(f"formula_{name}")["value"] for name in ("prior", "slope"))
    return float(prior), float(slope)


def _rows(posed: Posed, way: str, fits: list[Fitted]) -> Iterator[dict[str, Any]]:
    for quantity in QUANTITIES:
        yield {
            "benchmark": posed.name,
            "exposures": way,
            "quantity": quantity.replace("_", " "),
            **row_of(estimand(fits, quantity)),
            "truth": posed.truth.get(quantity, np.nan),
            "verdict": _verdict(fits) if quantity == "slope" else "",
        }


def _verdict(fits: list[Fitted]) -> str:
    table = pd.concat([fit.estimands() for fit in fits])
    found = table[table["quantity"] == "slope"]["verdict"]
    return ", ".join(sorted(set(found)))


def _headline(table: pd.DataFrame) -> str:
    at = table[(table["benchmark"] == MADE) & (table["quantity"] == "overfitting")]
    rows = at.set_index("exposures")
    wide = {way: 100 * (rows.loc[way, "high"] - rows.loc[way, "low"]) for way in rows.index}
    return (
        f"On generated tasks the interval of overfitting is {wide[KNOWN]:.1f} points wide if"
        f" exposures are taken as known, {wide[NOISY]:.1f} with noise of each task on its own, and"
        f" {wide[DRAWN]:.1f} if the exposures of concepts are drawn, whose errors tasks share."
    )


def _compared(study: Study, posed: Posed) -> Iterator[Comparison]:
    mean = posed.contamination.mean(axis=0)
    shown = {"mean": mean.mean(), "sd": mean.std(), "min": mean.min(), "max": mean.max()}
    each = posed.contamination
    spread = {"mean": each.mean(1), "sd": each.std(1), "min": each.min(1), "max": each.max(1)}
    for name, value in shown.items():
        low, high = told(spread[name])[1:]
        yield study.compared(
            f"contamination_{name}",
            (float(value), low, high),
            "Our tasks need 2 to 5 of 12 concepts, the published ones several of 50.",
            label="generated tasks",
        )


def _picture(table: pd.DataFrame, posed: Posed) -> Picture:
    chosen = (table["benchmark"] == posed.name) & (table["quantity"] != "slope")
    own = table[chosen].rename(columns={"quantity": "label", "exposures": "series"})
    columns = ["label", "series", "mean", "low", "high", *(["truth"] if posed.truth else [])]
    return Picture(
        "intervals",
        f"{posed.name}: genuine ability and overfitting",
        "Mean over models, by what is done with uncertain exposures.",
        own[columns],
        "accuracy",
        "estimand",
    )


def _spread(posed: list[Posed]) -> Picture:
    parts = [
        pd.DataFrame({"value": one.contamination.mean(axis=0), "series": one.name}) for one in posed
    ]
    return Picture(
        "shares",
        "Contamination of tasks",
        "Expected contamination of each item, by the published formula from exposures.",
        pd.concat(parts),
        "contamination",
        "items",
    )
