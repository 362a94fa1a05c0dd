"""Estimated against true overfitting fractions, pooled and unpooled."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import bayescontam as bc
from bayescontam.arc.exposures import contamination_of
from bayescontam.model.effect_names import DIRECT, effect_words
from bayescontam.published.draws import RepeatedFits
from bayescontam.published.findings import PictureData, TableData
from bayescontam.published.study import Study

from ._common import (
    compositions,
    coverage,
    draw_exposures,
    fit_rows,
    published_method,
    simulated,
)

BENCHMARK, FRACTION = "ARC-like", DIRECT.fraction
METHOD, ALONE, POOLED = "published method", "no pooling (single)", "pooled (hierarchical)"
MODELS = {ALONE: "single", POOLED: "hierarchical"}
_RANGES = {"coverage": (0.0, 1.0), "rank agreement": (-1.0, 1.0)}


def analyse(study: Study) -> bc.Findings:
    """Return estimates of one table of eight models, and how good they are over many."""
    responses, truth = _table(study.settings, study.stream("table"))
    parts = [_published(study, responses, study.stream("bootstrap"), truth)]
    notes: list[str] = []
    for name, spec in MODELS.items():
        fit = study.fit(spec, responses, spec)
        rows = fit_rows(fit, (FRACTION,)).assign(estimator=name)
        parts.append(rows.assign(truth=rows["model"].map(truth.common)))
        notes += study.failed_checks(spec, fit)
    one = pd.concat(parts, ignore_index=True)
    many = _many(study)
    scores, tables = _scores(many), many["table"].nunique()
    notes += _unconverged(many)
    return bc.Findings(
        _headline(scores, tables),
        (),
        (_intervals(one), _quality(scores, tables)),
        (_summary(scores, tables), _by_model(many), _estimates(one)),
        tuple(notes),
    )


@dataclass(frozen=True)
class TrueFractions:
    """True overfitting fractions of the models."""

    # common, own: with the least contaminated task of any model, and of the model, as the reference
    common: Mapping[str, float]
    own: Mapping[str, float]


def _table(
    settings: Mapping[str, Any], rng: np.random.Generator
) -> tuple[bc.Responses, TrueFractions]:
    """Draw a table of all models, and their true overfitting fractions.

    Every model has a corpus of its own; all answer the same tasks.
    """
    tasks = settings["tasks"]
    share = compositions(tasks, rng)
    models = [f"model {k + 1}" for k in range(len(settings["genuine"]))]
    exposure = np.stack([draw_exposures(settings["exposures"], rng) for _ in models])
    contamination = contamination_of(exposure @ share.T)
    genuine, boost = (np.array(settings[name])[:, None] for name in ("genuine", "boost"))
    accuracy = genuine + boost * contamination
    frame = pd.DataFrame(
        {
            "model": np.repeat(models, tasks),
            "benchmark": BENCHMARK,
            "item": [f"task {k + 1}" for k in range(tasks)] * len(models),
            "correct": rng.binomial(1, accuracy).ravel(),
            "contamination": contamination.ravel(),
        }
    )
    mean, least = contamination.mean(axis=1), contamination.min(axis=1)
    fractions = [
        dict(zip(models, (boost[:, 0] * (mean - at) / accuracy.mean(axis=1)).tolist(), strict=True))
        for at in (least.min(), least)
    ]
    return simulated(frame), TrueFractions(*fractions)


def _published(
    study: Study, responses: bc.Responses, rng: np.random.Generator, truth: TrueFractions
) -> pd.DataFrame:
    """Return the published method's estimates; its reference is each model's own smallest."""
    rows = published_method(responses, rng, study.settings["resamples"])
    rows = rows[rows["quantity"] == FRACTION].assign(estimator=METHOD, faults="")
    return rows.assign(truth=rows["model"].map(truth.own))


def _many(study: Study) -> pd.DataFrame:
    """Return estimates of many tables; models are compiled once for all of them."""
    settings = study.settings
    fits: dict[str, RepeatedFits] = {}

    def make(table: int) -> pd.DataFrame:
        rng = study.stream("tables", table)
        responses, truth = _table(settings, rng)
        parts = [_published(study, responses, rng, truth)]
        for name, spec in MODELS.items():
            if name not in fits:
                first, _ = _table(settings, study.stream("first"))
                fits[name] = RepeatedFits(spec, first)
            seed = int(study.stream("tables", table, spec).integers(2**31))
            rows = fits[name].estimate(responses, seed, FRACTION)
            rows["truth"] = rows["model"].map(truth.common)
            parts.append(rows.assign(estimator=name))
        return pd.concat(parts, ignore_index=True)

    names = ("tasks", "genuine", "boost", "exposures", "resamples")
    inputs = {name: settings[name] for name in names}
    return study.over_tables("models", inputs, make, settings["tables"], chunk=1)


def _unconverged(many: pd.DataFrame) -> list[str]:
    """Note how many fits of the many tables did not converge; the bootstrap always does."""
    fits = many[many["estimator"] != METHOD].drop_duplicates(["table", "estimator"])
    failed = int((fits["faults"] != "").sum())
    note = f"{failed} of {len(fits)} posteriors of the many tables did not converge in full."
    return [note] if failed else []


def _scores(many: pd.DataFrame) -> pd.DataFrame:
    """Return error, coverage, width and rank agreement of each estimator, table by table."""
    rows = []
    for _, own in many.groupby(["estimator", "table"], sort=False):
        error = own["mean"] - own["truth"]
        tau = kendalltau(own["mean"], own["truth"]).statistic
        rows.append(
            {
                "estimator": own["estimator"].iloc[0],
                "error": float(np.sqrt((error**2).mean())),
                "bias": float(error.mean()),
                "coverage": coverage(own)[0],
                "width": float((own["high"] - own["low"]).mean()),
                "rank agreement": float(tau),
            }
        )
    return pd.DataFrame(rows)


def _summarised(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over tables of each score, with 1.96 standard errors either way."""
    rows = []
    for name, own in scores.groupby("estimator", sort=False):
        for measure in own.columns.drop("estimator"):
            mean = float(own[measure].mean())
            error = 1.96 * float(own[measure].std(ddof=1) / np.sqrt(own[measure].count()))
            least, most = _RANGES.get(measure, (-np.inf, np.inf))
            ends = {"low": max(mean - error, least), "high": min(mean + error, most)}
            rows.append({"estimator": str(name), "measure": measure, "mean": mean, **ends})
    return pd.DataFrame(rows)


def _intervals(one: pd.DataFrame) -> PictureData:
    order = one.drop_duplicates("model").sort_values("truth", ascending=False)["model"]
    shown = pd.concat([one[one["model"] == name] for name in order])
    shown = shown.rename(columns={"model": "label", "estimator": "series"})
    caption = (
        "Overfitting fraction of each model in one table, the truly largest first, with 95 %"
        " intervals."
    )
    columns = ["label", "series", "mean", "low", "high", "truth"]
    title = "Estimated and true fractions of one table"
    return PictureData("intervals", title, caption, shown[columns], effect_words(FRACTION), "")


def _quality(scores: pd.DataFrame, tables: int) -> PictureData:
    shown = _summarised(scores).rename(columns={"estimator": "label", "measure": "panel"})
    wanted = ["error", "coverage", "rank agreement"]
    shown = shown[shown["panel"].isin(wanted)].assign(series="score")
    caption = (
        f"Mean over {tables} tables of eight models, with 1.96 standard errors. Error: root mean"
        " square over models. Coverage: share of 95 % intervals that hold the truth; it should be"
        " 0.95. Rank agreement: Kendall's tau of estimates and truths."
    )
    title = "Error, coverage and rank agreement"
    return PictureData("intervals", title, caption, shown, "score", "")


def _summary(scores: pd.DataFrame, tables: int) -> TableData:
    caption = f"Means over {tables} tables with the ends of 1.96 standard errors."
    return TableData("Scores by estimator", caption, _summarised(scores))


def _by_model(many: pd.DataFrame) -> TableData:
    rows = []
    for _, own in many.groupby(["model", "estimator"], sort=False):
        share, error = coverage(own)
        rows.append(
            {
                "model": own["model"].iloc[0],
                "estimator": own["estimator"].iloc[0],
                "mean truth": float(own["truth"].mean()),
                "mean estimate": float(own["mean"].mean()),
                "coverage": share,
                "error": error,
            }
        )
    table = pd.DataFrame(rows).sort_values(["model", "estimator"], kind="stable")
    caption = (
        f"Over {many['table'].nunique()} tables: true and estimated fractions of each model, and"
        " the share of 95 % intervals that hold the truth with its Monte Carlo standard error."
        " Models are the same in all tables, so that those at the ends stay there."
    )
    return TableData("Scores by model", caption, table)


def _estimates(one: pd.DataFrame) -> TableData:
    columns = ["model", "estimator", "mean", "low", "high", "truth"]
    caption = "Overfitting fractions in one table, with 95 % intervals."
    shown = one[columns].sort_values("model", kind="stable")
    return TableData("Estimates of one table", caption, shown)


def _headline(scores: pd.DataFrame, tables: int) -> str:
    parts = []
    for name in (METHOD, ALONE, POOLED):
        means = scores[scores["estimator"] == name].mean(numeric_only=True)
        tau = means["rank agreement"]
        parts.append(
            f"{name}: error {means['error']:.3f}, coverage {means['coverage']:.2f}, tau {tau:.2f}"
        )
    return f"Overfitting fractions of eight models over {tables} tables. {'; '.join(parts)}."
