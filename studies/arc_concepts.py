"""Contamination of tasks from uncertain exposures of the concepts they need."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayescontam as bc
from bayescontam.arc.exposures import contamination_of, counted_exposures, given_exposures
from bayescontam.data.importers.arc import membership
from bayescontam.model.effect_names import DIRECT, effect_words
from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._common import EXPOSURES, draw_exposures, mean_and_interval, row_of
from ._tasks import CONCEPTS, CONCEPTS_FILE, make_tasks

KNOWN, NOISY, DRAWN, LEARNT = (
    "exposures taken as known", "noise of each task", "exposures drawn",
    "exposures learnt with the answers",
)  # fmt: skip
GENERATED, REAL = "generated tasks", "ConceptARC"
ANSWERS, CORPUS = "conceptarc.csv", "texts/corpus.jsonl"
QUANTITIES = (DIRECT.ability, DIRECT.overfitting, "slope")
DRAWS = 4000
"""Draws of exposures that means and standard deviations come from."""
IMPUTATIONS = 400
"""Draws of exposures that show how contaminations move together."""
_MOST = 0.999
"""Largest standard deviation, as a share of that of a yes-or-no event of the same mean."""


@dataclass(frozen=True, eq=False)
class ConceptBenchmark:
    """Responses of one benchmark, and contaminations of its items drawn from exposures."""

    name: str  # benchmark
    responses: bc.Responses  # without contamination
    items: list[str]
    contamination: np.ndarray  # dims (draw, item)
    # true values of the estimands, mean over models; empty where nobody knows them
    truth: dict[str, float]


def analyse(study: Study) -> bc.Findings:
    """Propagate the uncertainty of exposures: generated tasks, and ConceptARC if given."""
    posed, notes = [generated_benchmark(study)], []
    answers, corpus = study.shared(ANSWERS), study.shared(CORPUS)
    if answers is not None and corpus is not None:
        posed.append(real_benchmark(study, answers, corpus))
    else:
        notes.append(
            f"{ANSWERS} or {CORPUS} is not in the data folder: ConceptARC is left out. Name the"
            " folder that holds them with --data."
        )
    rows: list[dict[str, Any]] = []
    for one in posed:
        notes += [*extrapolated(one, study.settings["reference"]), diluted(one)]
        for way, fits in fitted(study, one):
            notes += [note for name, fit in fits.items() for note in study.failed_checks(name, fit)]
            rows += _rows(one, way, list(fits.values()))
    table = pd.DataFrame(rows)
    return bc.Findings(
        _headline(table),
        tuple(_compared(study, posed[0])),
        (*(_picture(table, one) for one in posed), _spread(posed)),
        (TableData("What is reported", "By what is done with uncertain exposures.", table),),
        tuple(notes),
    )


def generated_benchmark(study: Study) -> ConceptBenchmark:
    """Return generated tasks answered by models that remember contaminated ones.

    The exposures that are given are means; the true ones lie around them as their standard
    deviation says, and answers follow from the true ones.
    """
    settings = study.settings
    # Of this size and seed: the folder may hold those of another run.
    folder = study.folder / f"tasks-{settings['tasks']}-{study.spec.seed}"
    if not (folder / CONCEPTS_FILE).exists():
        make_tasks(folder, settings["tasks"], study.stream("tasks"))
    share = shares(pd.read_csv(folder / CONCEPTS_FILE), list(CONCEPTS))
    items = [f"{task}-0" for task in share.index]  # by their one test input
    rng = study.stream("exposures")
    mean = draw_exposures(EXPOSURES, rng, len(CONCEPTS))
    sd = np.full(len(CONCEPTS), settings["exposure_sd"])
    weights = share.to_numpy()
    true = contamination_of(given_exposures(mean, sd, 1, rng) @ weights.T)[0]
    drawn = given_exposures(mean, sd, DRAWS, study.stream("draws"))
    p = settings["genuine"] + settings["boost"] * true
    over = settings["boost"] * (true.mean() - settings["reference"])
    at = settings["genuine"] + settings["boost"] * settings["reference"]
    return ConceptBenchmark(
        GENERATED,
        _answered(items, p, settings["models"], study.stream("answers")),
        items,
        contamination_of(drawn @ weights.T),
        {DIRECT.ability: float(at), DIRECT.overfitting: float(over)},
    )


def _answered(
    items: list[str], p: np.ndarray, models: int, rng: np.random.Generator
) -> bc.Responses:
    parts = []
    for number in range(models):
        names = {"model": f"simulated {number + 1}", "benchmark": GENERATED, "item": items}
        parts.append(pd.DataFrame({**names, "correct": (rng.random(len(p)) < p).astype(int)}))
    return bc.Responses.from_frame(pd.concat(parts), source="simulated answers")


def real_benchmark(study: Study, answers: Path, corpus: Path) -> ConceptBenchmark:
    """Return ConceptARC's answers, with exposures counted in a sample of texts."""
    frame = bc.read_responses(answers, where="not minimal").frame
    frame = frame[frame["model"].isin(study.settings["solvers"])].assign(benchmark=REAL)
    words: dict[str, list[str]] = study.settings["words"]
    share = study.settings["share"]
    counts = bc.count_exposures([corpus], words, share=share)["documents"].to_numpy(float)
    exposure = counted_exposures(counts, share, DRAWS, study.stream("counted"))
    items = frame.drop_duplicates("item")[["item", "concept"]].rename(columns={"item": "task"})
    of_concepts = shares(items, list(words)).loc[items["task"]]
    table = frame.drop(columns=["minimal", "task", "concept"])
    return ConceptBenchmark(
        REAL,
        bc.Responses.from_frame(table, source=answers.name),
        list(items["task"]),
        contamination_of(exposure @ of_concepts.to_numpy().T),
        {},
    )


def shares(concepts: pd.DataFrame, known: list[str]) -> pd.DataFrame:
    """Return the share of each known concept in a task, task × concept."""
    found = membership(concepts, tuple(sorted(concepts["task"].unique())))
    if strange := [name for name in found if name not in known]:
        named, others = (", ".join(map(repr, names)) for names in (strange, known))
        raise bc.UsageError(
            f"study: no exposure is known of the concepts {named}; known are {others}"
        )
    return found.reindex(columns=known, fill_value=0.0)


def covariates_of(draws: np.ndarray, benchmark: str, items: list[str]) -> pd.DataFrame:
    """Return covariates: mean and standard deviation of each task's contamination."""
    mean = draws.mean(axis=0)
    sd = np.minimum(draws.std(axis=0), _MOST * np.sqrt(mean * (1 - mean)))
    return pd.DataFrame(
        {"benchmark": benchmark, "item": items, "contamination": mean, "contamination_sd": sd}
    )


def extrapolated(posed: ConceptBenchmark, reference: float) -> list[str]:
    """Return a note if the reference lies below all that is expected of a benchmark."""
    least = posed.contamination.mean(axis=0).min()
    if least <= reference:
        return []
    return [
        f"{posed.name}: the reference {reference:g} lies below all contaminations, which begin at"
        f" {least:.2f}; genuine ability and overfitting are extrapolated."
    ]


def diluted(posed: ConceptBenchmark) -> str:
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


def fitted(study: Study, posed: ConceptBenchmark) -> Iterator[tuple[str, dict[str, bc.Fit]]]:
    """Yield each way of treating exposures, with its fits by name.

    ``exposures drawn``: one fit for each of several draws of all exposures at once, whose
    posteriors count alike. An error in a concept's exposure moves all tasks that need it
    together, which noise of each task on its own does not. ``exposures learnt with the answers``:
    one fit, in which such errors are parameters.
    """
    prefix = "made" if posed.name == GENERATED else "real"
    reference = study.settings["reference"]
    table = covariates_of(posed.contamination, posed.name, posed.items)
    plain = table.drop(columns="contamination_sd")

    def fit(
        name: str, covariates: pd.DataFrame | bc.Covariates, spec: str = "hierarchical"
    ) -> dict[str, bc.Fit]:
        if isinstance(covariates, pd.DataFrame):
            covariates = bc.Covariates.from_frame(covariates)
        responses = posed.responses.with_contamination(covariates)
        full = f"{prefix}-{name}"
        return {full: study.fit(full, responses, spec, reference=reference)}

    yield KNOWN, fit("known", plain)
    yield NOISY, fit("noisy", table, "noisy_covariate")
    chosen = np.linspace(0, DRAWS - 1, study.settings["imputations"]).astype(int)
    drawn: dict[str, bc.Fit] = {}
    for number, draw in enumerate(chosen, start=1):
        drawn |= fit(f"drawn-{number}", plain.assign(contamination=posed.contamination[draw]))
    yield DRAWN, drawn
    yield LEARNT, fit("learnt", bc.read_imputations(imputations_of(posed)), "imputed_covariate")


def imputations_of(posed: ConceptBenchmark) -> pd.DataFrame:
    """Return draws of contamination as a table of imputations."""
    draws = posed.contamination[:IMPUTATIONS]
    number = np.repeat(np.arange(len(draws)), len(posed.items))
    return pd.DataFrame(
        {
            "imputation": number, "benchmark": posed.name,
            "item": np.tile(np.array(posed.items, dtype=object), len(draws)),
            "contamination": draws.ravel(),
        }
    )  # fmt: skip


def _pooled(fits: list[bc.Fit], quantity: str) -> np.ndarray:
    """Return draws of an estimand, mean over models, of all fits together."""
    parts = [fit.data["estimands"][quantity].mean("model").to_numpy().ravel() for fit in fits]
    return np.concatenate(parts)


def _rows(posed: ConceptBenchmark, way: str, fits: list[bc.Fit]) -> Iterator[dict[str, Any]]:
    for quantity in QUANTITIES:
        yield {
            "benchmark": posed.name,
            "exposures": way,
            "quantity": effect_words(quantity),
            **row_of(_pooled(fits, quantity)),
            "truth": posed.truth.get(quantity, np.nan),
            "verdict": _verdict(fits) if quantity == "slope" else "",
        }


def _verdict(fits: list[bc.Fit]) -> str:
    table = pd.concat([fit.estimands() for fit in fits])
    found = table[table["quantity"] == "slope"]["verdict"]
    return ", ".join(sorted(set(found)))


def _headline(table: pd.DataFrame) -> str:
    effect = table["quantity"] == effect_words(DIRECT.overfitting)
    at = table[(table["benchmark"] == GENERATED) & effect]
    rows = at.set_index("exposures")
    wide = {way: 100 * (rows.loc[way, "high"] - rows.loc[way, "low"]) for way in rows.index}
    return (
        f"On generated tasks the interval of overfitting is {wide[KNOWN]:.1f} points wide if"
        f" exposures are taken as known, {wide[NOISY]:.1f} with noise of each task on its own,"
        f" {wide[DRAWN]:.1f} if the exposures of concepts, whose errors tasks share, are drawn"
        f" without the answers, and {wide[LEARNT]:.1f} if they are learnt with them."
    )


def _compared(study: Study, posed: ConceptBenchmark) -> Iterator[Comparison]:
    each = posed.contamination
    spread = {"mean": each.mean(1), "sd": each.std(1), "min": each.min(1), "max": each.max(1)}
    for name, draws in spread.items():
        yield study.compared(
            f"contamination_{name}",
            mean_and_interval(draws),
            "Ours: mean and 95 % range over draws of the exposures. Our tasks need 2 to 5 of 12"
            " concepts, the published ones several of 50.",
            label="generated tasks",
        )


def _picture(table: pd.DataFrame, posed: ConceptBenchmark) -> PictureData:
    chosen = (table["benchmark"] == posed.name) & (table["quantity"] != "slope")
    own = table[chosen].rename(columns={"quantity": "label", "exposures": "series"})
    columns = ["label", "series", "mean", "low", "high", *(["truth"] if posed.truth else [])]
    return PictureData(
        "intervals",
        f"{posed.name}: genuine ability and overfitting",
        "Mean over models, by what is done with uncertain exposures.",
        own[columns],
        "accuracy",
        "estimand",
    )


def _spread(posed: list[ConceptBenchmark]) -> PictureData:
    parts = [
        pd.DataFrame({"value": one.contamination.mean(axis=0), "series": one.name}) for one in posed
    ]
    return PictureData(
        "shares",
        "Contamination of tasks",
        "Expected contamination of each item, by the published formula from exposures.",
        pd.concat(parts),
        "contamination",
        "items",
    )
