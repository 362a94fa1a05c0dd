"""Honest scores of trained models, estimated without their clean twins, against these."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

import bayescontam as bc
from bayescontam.inference.bootstrap import resample
from bayescontam.published.findings import PictureData, TableData
from bayescontam.published.study import Study

from ._common import coverage, fit_rows, rows_of
from ._laboratory import (
    clean_scores,
    responses_of,
    scanned,
    seed_spread,
    trained,
)

RAW, BOOTSTRAP, DIRECT = "raw score", "bootstrap", "direct effect removed"
TWINS, SPILLOVER, SCANNED = "twins", "spillover", "twins, scan"
"""Ways to an honest score: each but the first two is a fit."""
TOTAL, OF_DIRECT = "genuine_ability", "genuine_ability_direct"
_FITS: dict[str, tuple[str, str, dict[str, dict[str, Any]], str]] = {
    DIRECT: ("direct", "hierarchical", {}, OF_DIRECT),
    SPILLOVER: ("spillover", "spillover", {}, TOTAL),
    SCANNED: ("scanned", "twins", {}, TOTAL),  # a scan's probabilities are of no kind
    TWINS: ("twins", "twins", {"contamination": {"kinds": "duplicate_kind"}}, TOTAL),
}
"""Name of the fit, model spec, its changes, and the estimand that is the honest score."""
_CELL = ["base", "mix", "benchmark"]
_TOGETHER = ["base", "benchmark"]
"""Models of one base share their truth and most of their error on a benchmark."""
_Z = float(norm.ppf(0.975))


def analyse(study: Study) -> bc.Findings:
    """Train the models, estimate their honest scores without the twins, and compare."""
    lab, folder, answers = trained(study)
    clean = [mix.name for mix in lab.mixes if mix.kind == "clean"]
    contaminated = [mix.name for mix in lab.mixes if mix.kind in ("exact", "semantic")]
    spread, effects = seed_spread(answers, lab.twin), bc.lab_truth(folder)
    found, notes = scanned(study, lab, folder)
    truth = clean_scores(answers, set(clean))
    used = answers[answers["mix"].isin([*clean, *contaminated])].reset_index(drop=True)
    keys = ["base", "mix", "benchmark", "item"]
    by_scan = used[keys].merge(found, on=keys, how="left", validate="one_to_one")["p"]
    parts = [_raw(used, contaminated), _bootstrap(study, used, contaminated)]
    exposed = _with_duplicates(answers)
    for fold, bases in enumerate(_folds(study, used)):
        withheld = used["base"].isin(bases) & used["mix"].isin(clean)
        given = used[~withheld]
        known = responses_of(given, given["contamination"]), "zero"
        seeming = by_scan[~withheld]
        uncertain = responses_of(given, seeming), _floor(given, seeming, clean, exposed)
        for way in study.settings["fits"]:
            name, spec, changes, quantity = _FITS[way]
            table, reference = uncertain if way == SCANNED else known
            fit = _fit(study, f"{name}-{fold}", table, study.model(spec, changes), reference)
            notes += study.failed_checks(f"{name}-{fold}", fit)
            parts.append(_of_fit(fit, quantity, given, bases, contaminated).assign(way=way))
    cells = pd.concat(parts, ignore_index=True).merge(truth, on=["base", "benchmark"])
    cells["with duplicates"] = cells["benchmark"].isin(exposed)
    return bc.Findings(
        _headline(cells, spread),
        (),
        (
            _dose_picture(effects),
            _scores_picture(cells),
            _coverage_picture(cells),
        ),
        (
            TableData(
                "Clean models",
                "Accuracy (mean probability of the right answer) of clean models, before anything"
                " else: how much bases differ.",
                spread,
            ),
            TableData(
                "True effects",
                "Against the clean twins, with 95 % intervals over bases; item se is the error"
                " over items. The control has no duplicates.",
                effects,
            ),
            TableData(
                "Ways to an honest score",
                "Over all pairs of contaminated model and benchmark. Truth: mean of the clean"
                " models of the same base, whose error by chance in training is added to the"
                " intervals where coverage is counted; models of one base and benchmark count as"
                " one for the error of coverage. Interval score: width, and 40 times how far"
                " intervals miss (doi:10.1198/016214506000001437).",
                _scores(cells),
            ),
            TableData(
                "Misses",
                "Cells of total effects whose interval, with the error of the truth in it, misses,"
                " the farthest off first.",
                _misses(cells),
            ),
            TableData("Cells", "Every honest score and its truth.", cells),
        ),
        tuple(notes),
    )


def _fit(
    study: Study, name: str, table: bc.Responses, spec: bc.ModelSpec, reference: str | float
) -> bc.Fit:
    draws, tune = study.settings["draws"], study.settings["tune"]
    # Probabilities of a scan hardly differ on the control, whose slope has a funnel for that.
    return study.fit(
        name, table, spec, reference=reference, draws=draws, tune=tune, chains=4,
        target_accept=0.95,
    )  # fmt: skip


def _floor(
    given: pd.DataFrame, seeming: pd.Series, clean: Sequence[str], exposed: set[str]
) -> str | float:
    """Return the mean contamination that a scan gives to clean models; zero where there is none."""
    rows = given["mix"].isin(clean) & given["benchmark"].isin(exposed)
    return float(seeming[rows].mean()) if rows.any() else "zero"


def _folds(study: Study, answers: pd.DataFrame) -> list[list[str]]:
    """Return the bases whose clean models are withheld together."""
    bases = list(answers["base"].drop_duplicates())
    count = min(study.settings["folds"], len(bases))
    return [bases[fold::count] for fold in range(count)]


def _with_duplicates(answers: pd.DataFrame) -> set[str]:
    return set(answers.loc[answers["half"] != "control", "benchmark"])


def _raw(answers: pd.DataFrame, contaminated: Sequence[str]) -> pd.DataFrame:
    """Return observed accuracies with the interval of as many items."""
    own = answers[answers["mix"].isin(contaminated)]
    share = (own["n_correct"] / own["n_trials"]).rename("share")
    groups = pd.concat([own[_CELL], share], axis=1).groupby(_CELL, sort=False)["share"]
    table = groups.agg(["mean", "std", "size"]).reset_index()
    half = _Z * table["std"] / np.sqrt(table["size"])
    return table.assign(low=table["mean"] - half, high=table["mean"] + half, way=RAW)[
        [*_CELL, "mean", "low", "high", "way"]
    ]


def _bootstrap(study: Study, answers: pd.DataFrame, contaminated: Sequence[str]) -> pd.DataFrame:
    """Return genuine abilities by the bootstrap around a penalised logistic regression."""
    own = answers[answers["mix"].isin(contaminated)]
    names = own.drop_duplicates(["model", "benchmark"])
    drawn = resample(own, study.stream("bootstrap"), resamples=study.settings["resamples"])
    rows = []
    for row in rows_of(names):
        draws = drawn[OF_DIRECT, str(row.model), str(row.benchmark)]
        low, high = np.quantile(draws, [0.025, 0.975])
        figures = {"mean": float(draws.mean()), "low": low, "high": high}
        rows.append({"base": row.base, "mix": row.mix, "benchmark": row.benchmark} | figures)
    return pd.DataFrame(rows).assign(way=BOOTSTRAP)


def _of_fit(
    fit: bc.Fit, quantity: str, given: pd.DataFrame, bases: Sequence[str], mixes: Sequence[str]
) -> pd.DataFrame:
    """Return the honest scores of the contaminated models of some bases."""
    models = given.drop_duplicates("model")[["model", "base", "mix"]]
    models = models[models["base"].isin(bases) & models["mix"].isin(mixes)]
    rows = fit_rows(fit, (quantity,)).merge(models, on="model")
    return rows[[*_CELL, "mean", "low", "high", "verdict"]]


def _widened(cells: pd.DataFrame) -> pd.DataFrame:
    """Return cells whose intervals have the error of the truth in them."""
    half = (cells["high"] - cells["low"]) / 2
    more = np.sqrt(half**2 + (_Z * cells["truth_se"]) ** 2) - half
    return cells.assign(low=cells["low"] - more, high=cells["high"] + more)


def _scores(cells: pd.DataFrame) -> pd.DataFrame:
    """Return what each way is worth, with and without duplicates of the benchmark."""
    rows = []
    for (way, exposed), own in cells.groupby(["way", "with duplicates"], sort=False):
        share, error = coverage(_widened(own), _TOGETHER)
        width, off = own["high"] - own["low"], own["mean"] - own["truth"]
        below = (own["low"] - own["truth"]).clip(0)
        above = (own["truth"] - own["high"]).clip(0)
        rows.append(
            {
                "way": way,
                "benchmarks": "with duplicates" if exposed else "control",
                "cells": len(own),
                "coverage": share,
                "coverage se": error,
                "bias": float(off.mean()),
                "rmse": float(np.sqrt((off**2).mean())),
                "width": float(width.mean()),
                "interval score": float((width + 40 * (below + above)).mean()),
            }
        )
    table = pd.DataFrame(rows)
    ways = pd.Categorical(table["way"], [RAW, BOOTSTRAP, *_FITS])
    order = pd.DataFrame({"of": table["benchmarks"], "way": ways.codes}).sort_values(["of", "way"])
    return table.loc[order.index].reset_index(drop=True)


def _misses(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of fits of the total that miss their truth."""
    wide = _widened(cells[cells["way"].isin([TWINS, SPILLOVER, SCANNED])])
    outside = (wide["truth"] < wide["low"]) | (wide["high"] < wide["truth"])
    table = wide.assign(off=wide["mean"] - wide["truth"])[outside]
    table = table.sort_values("off", key=np.abs, ascending=False)
    return table[["way", *_CELL, "mean", "low", "high", "truth", "off", "verdict"]]


def _headline(cells: pd.DataFrame, spread: pd.DataFrame) -> str:
    exposed = cells[cells["with duplicates"]]
    parts = []
    for way in reversed(_ways(cells)):  # what is to be believed comes first, raw scores last
        own = exposed[exposed["way"] == way]
        error = float(np.sqrt(((own["mean"] - own["truth"]) ** 2).mean()))
        parts.append(f"{way} {coverage(_widened(own))[0]:.0%} (off by {error:.3f})")
    count = len(exposed) // len(parts)
    sd = float(spread.loc[spread["benchmark"] == "all with duplicates", "sd between bases"].iloc[0])
    independent = len(exposed.drop_duplicates(_TOGETHER))
    return (
        f"Of {count} honest scores on benchmarks with duplicates, estimated without the clean"
        f" twin, lie in 95 % intervals (root mean square error): {', '.join(parts)}. They are of"
        f" {independent} pairs of base and benchmark, within which errors are alike: shares are"
        f" hardly more certain than {independent} intervals make them. Clean models"
        f" of different bases differ by {sd:.3f} (standard deviation)."
    )


def _ways(cells: pd.DataFrame) -> list[str]:
    """Return the ways to an honest score that were taken, in their order."""
    return [way for way in (RAW, BOOTSTRAP, *_FITS) if (cells["way"] == way).any()]


def _dose_picture(effects: pd.DataFrame) -> PictureData:
    shown = effects[effects["kind"].isin(["exact", "semantic"])]
    shown = shown.assign(
        x=shown["copies"],
        series=shown["kind"] + ", " + shown["effect"],
        mean=shown["estimate"],
        panel=shown["benchmark"],
    )
    shown = shown[shown["effect"].isin(["direct", "spillover", "control"])]
    return PictureData(
        "curves",
        "Dose and effect",
        "What copies of duplicates of half of the items add to accuracy, against clean twins:"
        " on these items beyond the others (direct), on the others (spillover), and on a"
        " benchmark without duplicates (control). Bands are 95 % intervals over bases.",
        shown[["x", "series", "mean", "low", "high", "panel"]],
        "copies of each exposed item",
        "difference of accuracies",
    )


def _scores_picture(cells: pd.DataFrame) -> PictureData:
    """Return raw and adjusted scores beside the truth."""
    total = next((way for way in (TWINS, SCANNED) if (cells["way"] == way).any()), TWINS)
    shown = cells[cells["way"].isin([RAW, DIRECT, total]) & cells["with duplicates"]]
    table = shown.assign(
        label=shown["mix"] + ", " + shown["base"], series=shown["way"], panel=shown["benchmark"]
    )
    return PictureData(
        "intervals",
        "Raw, adjusted, truth",
        "Scores of contaminated models with 95 % intervals: as observed, with the direct effect"
        f" alone removed, and with the total effect removed by '{total}' without the clean twin."
        " Upright lines are the scores of the clean twins.",
        table[["label", "series", "mean", "low", "high", "truth", "panel"]],
        "accuracy",
        "",
    )


def _coverage_picture(cells: pd.DataFrame) -> PictureData:
    rows: list[dict[str, Any]] = []
    for exposed, own in cells.groupby("with duplicates"):
        series = "with duplicates" if exposed else "control"
        rows += [{"label": way, "series": series, **row} for way, row in _shares(own)]
    return PictureData(
        "intervals",
        "Coverage of the truth",
        "Share of 95 % intervals that hold the score of the clean twin, with twice its Monte Carlo"
        " error, for which all models of one base and benchmark count as one.",
        pd.DataFrame(rows).assign(truth=0.95),
        "share of intervals",
        "",
        mark="claimed",
    )


def _shares(cells: pd.DataFrame) -> Iterator[tuple[str, dict[str, float]]]:
    for way in _ways(cells):
        share, error = coverage(_widened(cells[cells["way"] == way]), _TOGETHER)
        yield (
            way,
            {"mean": share, "low": max(share - 2 * error, 0), "high": min(share + 2 * error, 1)},
        )
