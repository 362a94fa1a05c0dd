"""The published split of a score into genuine ability and overfitting."""

import numpy as np
import pandas as pd

import bayescontam as bc
from bayescontam.model.effect_names import DIRECT, effect_words
from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._common import (
    METHOD,
    PRINTED,
    QUANTITIES,
    Generator,
    coverage,
    estimate,
    fit_rows,
    mean_and_interval,
    percent,
    published_method,
    simulated,
)

BENCHMARK = "ARC-like"
SHAPES = ("min", "max", "mean", "sd")
REPORTED = (DIRECT.ability, "slope", "accuracy", DIRECT.overfitting, DIRECT.fraction)
MODELS = ("single", "positive", "additive")
ZERO = "posterior, additive, reference 0"


def analyse(study: Study) -> bc.Findings:
    """Return what one simulated table says, and the published method of many."""
    settings = study.settings
    generator = Generator(settings["genuine"], settings["boost"], settings["tasks"])
    rng = study.stream("table")
    contamination = generator.contamination(settings["exposures"], rng)
    responses = simulated(generator.answered(contamination, rng, BENCHMARK))
    fits = {name: study.fit(name, responses, name) for name in MODELS}
    # At contamination 0, where no task lies.
    fits["additive-zero"] = study.fit("additive-zero", responses, "additive", reference="zero")
    method = published_method(responses, study.stream("bootstrap"), settings["resamples"])
    rows = {METHOD: method.assign(verdict="")}
    rows |= {f"posterior, {name}": fit_rows(fits[name]) for name in MODELS}
    rows[ZERO] = fit_rows(fits["additive-zero"])
    truth = generator.truth(contamination)
    truths = dict.fromkeys(rows, truth) | {ZERO: generator.truth(contamination, 0.0)}
    table = pd.concat(
        [part.assign(estimate=n, truth=part["quantity"].map(truths[n])) for n, part in rows.items()]
    )
    many = _many(study, generator)
    return bc.Findings(
        _headline(study, table, many),
        tuple(_comparisons(study, rows, many)),
        (_intervals(study, table, generator), _seeds(study, many)),
        (_one(table), _method(many)),
        tuple(note for name, fit in fits.items() for note in study.failed_checks(name, fit)),
    )


def _many(study: Study, generator: Generator) -> pd.DataFrame:
    """Return what the published method reports of many tables, with the truths."""
    settings = study.settings

    def make(table: int) -> pd.DataFrame:
        rng = study.stream("tables", table)
        contamination = generator.contamination(settings["exposures"], rng)
        responses = simulated(generator.answered(contamination, rng, BENCHMARK))
        found = published_method(responses, rng, settings["resamples"])
        truth = generator.truth(contamination)
        shape = contamination.min(), contamination.max(), contamination.mean(), contamination.std()
        own = pd.DataFrame(
            {"quantity": [f"contamination_{name}" for name in SHAPES], "mean": shape}
        )
        rows = pd.concat([found.assign(truth=found["quantity"].map(truth)), own])
        return rows.drop(columns=["model", "benchmark"])

    names = ("genuine", "boost", "tasks", "exposures", "resamples")
    inputs = {name: settings[name] for name in names}
    found = study.over_tables("tables", inputs, make, settings["tables"])
    # Tables that an earlier version stored have the names of the total effect.
    return found.assign(quantity=found["quantity"].map(DIRECT.meant))


def _comparisons(
    study: Study, rows: dict[str, pd.DataFrame], many: pd.DataFrame
) -> list[Comparison]:
    tables = many["table"].nunique()
    found = []
    for name in REPORTED:
        value = estimate(rows["posterior, single"], name)
        reason = "One table of ours against one of theirs: other tasks and answers."
        if name != "accuracy":
            reason += " Theirs shrinks the slope and cuts overfitting at 0, which narrows it."
        label = "posterior, single, one simulated table"
        found.append(study.compared(name, value, reason, label=label))
    for name in REPORTED:
        value = mean_and_interval(many.loc[many["quantity"] == name, "mean"])
        reason = (
            f"The published method on {tables} tables of the generator: mean, and between which"
            " two 95 % of its estimates lie. What chance alone does."
        )
        found.append(study.compared(name, value, reason, label=f"their method, {tables} tables"))
    for name in SHAPES:
        value = mean_and_interval(many.loc[many["quantity"] == f"contamination_{name}", "mean"])
        reason = (
            f"Mean and 95 % range over {tables} tables. The number of concepts of a task is not"
            " printed: 3 to 8 gives this spread."
        )
        label = f"generator, {tables} tables"
        found.append(study.compared(f"contamination_{name}", value, reason, label=label))
    return found


def _intervals(study: Study, table: pd.DataFrame, generator: Generator) -> PictureData:
    shape = {
        name: float(study.printed(f"contamination_{name}")["value"]) for name in ("min", "mean")
    }
    theirs = generator.truth(np.array([shape["min"], 2 * shape["mean"] - shape["min"]]))
    parts = []
    for name in REPORTED:
        row = study.printed(name)
        own = {"estimate": PRINTED, "mean": row["value"], "low": row["low"], "high": row["high"]}
        printed = pd.DataFrame([{**own, "quantity": name, "truth": theirs.get(name, np.nan)}])
        parts.append(pd.concat([printed, table[table["quantity"] == name]]))
    shown = pd.concat(parts).assign(series="estimate", label=lambda t: t["estimate"])
    shown["panel"] = shown["quantity"].map(effect_words)
    shown = shown[shown["quantity"].isin((DIRECT.ability, DIRECT.fraction, "slope"))]
    columns = ["label", "series", "mean", "low", "high", "truth", "panel"]
    caption = (
        "Estimates with their 95 % intervals and the truth that each is held against: accuracy at"
        " the smallest contamination of the tasks, in the last row at contamination 0. The truth of"
        " the first row follows from the printed smallest and mean contamination and the printed"
        " formula. A slope on the log-odds scale has no truth here: accuracy is a straight line in"
        " contamination, not its log-odds."
    )
    title = "One table: published, their method, our posteriors"
    x = "probability, or log-odds (slope)"
    return PictureData("intervals", title, caption, shown[columns], x, "")


def _seeds(study: Study, many: pd.DataFrame) -> PictureData:
    parts = []
    for name in (DIRECT.ability, DIRECT.fraction):
        own = many[many["quantity"] == name]
        panel = effect_words(name)
        value = float(study.printed(name)["value"])
        for series, column in (("their estimate", "mean"), ("truth of the table", "truth")):
            part = pd.DataFrame({"value": own[column], "series": series})
            parts.append(part.assign(panel=panel, published=value))
    caption = (
        f"The published method on {many['table'].nunique()} tables of the same generator, beside"
        " the true values, which differ a little from table to table with the least contaminated"
        " task. Vertical line: the published estimate. On average estimates of genuine ability lie"
        f" {off(many, DIRECT.ability)} than the truth, those of the fraction"
        f" {off(many, DIRECT.fraction)}, and {_at_end(many):.0f} % of the latter are cut at"
        " 0."
    )
    title = "What the published method reports of many tables"
    return PictureData("shares", title, caption, pd.concat(parts), "probability", "share of tables")


def off(many: pd.DataFrame, quantity: str) -> str:
    """Return how far estimates lie from the truth on average, in words.

    >>> off(pd.DataFrame({"quantity": "slope", "mean": [0.5, 0.7], "truth": 0.5}), "slope")
    '10.0 points higher'
    """
    own = many[many["quantity"] == quantity]
    bias = float((own["mean"] - own["truth"]).mean())
    return f"{percent(abs(bias), unit='points')} {'higher' if bias > 0 else 'lower'}"


def _at_end(many: pd.DataFrame) -> float:
    """Return the percentage of estimated fractions that are 0."""
    own = many[many["quantity"] == DIRECT.fraction]
    return 100 * float((own["mean"] == 0).mean())


def _one(table: pd.DataFrame) -> TableData:
    columns = ["estimate", "quantity", "mean", "low", "high", "truth", "verdict"]
    shown = table[columns].assign(quantity=table["quantity"].map(effect_words))
    caption = (
        "One simulated table: estimates, 95 % intervals, truths. Verdict: whether the slope could"
        " be identified from the data."
    )
    return TableData("Estimates from one table", caption, shown)


def _method(many: pd.DataFrame) -> TableData:
    rows = []
    for name in (*QUANTITIES, *(f"contamination_{shape}" for shape in SHAPES)):
        own = many[many["quantity"] == name]
        mean, low, high = mean_and_interval(own["mean"])
        row = {"quantity": effect_words(name), "mean": mean, "low": low, "high": high}
        if own["truth"].notna().all():
            share, error = coverage(own)
            row |= {"true mean": float(own["truth"].mean()), "coverage": share, "error": error}
        rows.append(row)
    caption = (
        f"Estimates of the published method over {many['table'].nunique()} tables: mean, 95 %"
        " range, mean of the truths, and the share of its 95 % intervals that hold the truth, with"
        " the Monte Carlo standard error of that share."
    )
    return TableData("The published method over many tables", caption, pd.DataFrame(rows))


def _headline(study: Study, table: pd.DataFrame, many: pd.DataFrame) -> str:
    single = table[table["estimate"] == "posterior, single"]
    own = {str(row["quantity"]): row for row in single.to_dict("records")}
    truth = float(own[DIRECT.fraction]["truth"])
    printed = study.printed(DIRECT.fraction)
    value = percent(*(float(printed[name]) for name in ("value", "low", "high")))
    ours = percent(*estimate(single, DIRECT.fraction))
    share, error = coverage(many[many["quantity"] == DIRECT.fraction])
    return (
        f"Printed: {value} of the score is overfitting. Our posterior from one table of the same"
        f" generator: {ours}, truth {percent(truth)}; verdict on the slope:"
        f" “{own['slope']['verdict']}”. Over {many['table'].nunique()} tables the published"
        f" method's 95 % intervals of this fraction hold the truth {100 * share:.0f} ±"
        f" {100 * error:.0f} % of the time."
    )
