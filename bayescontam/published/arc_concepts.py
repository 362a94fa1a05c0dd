"""Contamination of tasks from uncertain exposures of the concepts they need."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._types import FloatArray
from bayescontam.data.covariates import Covariates
from bayescontam.inference.result import Fit
from bayescontam.published.quantities import covariates_of, mean_and_interval, row_of
from bayescontam.published.simulate import (
    DRAWS,
    GENERATED_TASKS,
    ConceptBenchmark,
    diluted,
    extrapolated,
    generated_benchmark,
    real,
)
from bayescontam.published.study import Comparison, Findings, PictureData, Study, Titled

KNOWN, NOISY, DRAWN = "exposures taken as known", "noise of each task", "exposures drawn"
ANSWERS, CORPUS = "conceptarc.csv", "texts/corpus.jsonl"
QUANTITIES = ("genuine_ability", "overfitting", "slope")


def analyse(study: Study) -> Findings:
    """Propagate the uncertainty of exposures: generated tasks, and ConceptARC if given."""
    posed, notes = [generated_benchmark(study)], []
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
        notes += [*extrapolated(one, study.settings["reference"]), diluted(one)]
        for way, fits in fitted(study, one):
            notes += [note for name, fit in fits.items() for note in study.failed_checks(name, fit)]
            rows += _rows(one, way, list(fits.values()))
    table = pd.DataFrame(rows)
    return Findings(
        _headline(table),
        tuple(_compared(study, posed[0])),
        (*(_picture(table, one) for one in posed), _spread(posed)),
        (Titled("What is reported", "By what is done with uncertain exposures.", table),),
        tuple(notes),
    )


def fitted(study: Study, posed: ConceptBenchmark) -> Iterator[tuple[str, dict[str, Fit]]]:
    """Yield each way of treating exposures, with its fits by name.

    ``exposures drawn``: one fit for each of several draws of all exposures at once, whose
    posteriors count alike. An error in a concept's exposure moves all tasks that need it
    together, which noise of each task on its own does not.
    """
    prefix = "made" if posed.name == GENERATED_TASKS else "real"
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


def estimand(fits: list[Fit], quantity: str) -> FloatArray:
    """Return draws of an estimand, mean over models, of all fits together."""
    parts = [fit.tree["estimands"][quantity].mean("model").to_numpy().ravel() for fit in fits]
    return np.concatenate(parts)


def _rows(posed: ConceptBenchmark, way: str, fits: list[Fit]) -> Iterator[dict[str, Any]]:
    for quantity in QUANTITIES:
        yield {
            "benchmark": posed.name,
            "exposures": way,
            "quantity": quantity.replace("_", " "),
            **row_of(estimand(fits, quantity)),
            "truth": posed.truth.get(quantity, np.nan),
            "verdict": _verdict(fits) if quantity == "slope" else "",
        }


def _verdict(fits: list[Fit]) -> str:
    table = pd.concat([fit.estimands() for fit in fits])
    found = table[table["quantity"] == "slope"]["verdict"]
    return ", ".join(sorted(set(found)))


def _headline(table: pd.DataFrame) -> str:
    at = table[(table["benchmark"] == GENERATED_TASKS) & (table["quantity"] == "overfitting")]
    rows = at.set_index("exposures")
    wide = {way: 100 * (rows.loc[way, "high"] - rows.loc[way, "low"]) for way in rows.index}
    return (
        f"On generated tasks the interval of overfitting is {wide[KNOWN]:.1f} points wide if"
        f" exposures are taken as known, {wide[NOISY]:.1f} with noise of each task on its own, and"
        f" {wide[DRAWN]:.1f} if the exposures of concepts are drawn, whose errors tasks share."
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
