"""Total effects of contamination from twins, against scores before it, and withheld ones."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

import bayescontam as bc
from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._common import coverage, fit_rows, rows_of

FINETUNING, ECOLOGY = "duplicate_finetuning", "ecological_finetuning"
BASE = "before finetuning"
KINDS = ("exact", "semantic")
"""How the names of trainings on duplicates begin."""
WITHHELD = "MuSR"
RAW, DIRECT, OTHERS, TOTAL = "raw score", "direct effect removed", "as other bases", "total removed"
"""Ways to predict a withheld clean score."""
_SAMPLER = {"target_accept": 0.95}


def analyse(study: Study) -> bc.Findings:
    """Return total effects beside printed differences, and predictions of withheld scores."""
    spec = study.model("aggregated", study.settings["changes"])
    printed = finetuned(study)
    fit = study.fit("finetuning", responses_of(printed, FINETUNING), spec, **_SAMPLER)
    totals = total_effects(fit, printed)
    notes = study.failed_checks("finetuning", fit)
    ecology = trained(study)
    parts = []
    for base in ecology["base"].unique():
        rest = ecology[(ecology["base"] != base) | (ecology["training"] != "clean")]
        name = f"without-clean-{str(base).lower().replace(' ', '-').replace('.', '-')}"
        without = study.fit(name, responses_of(rest, ECOLOGY), spec, **_SAMPLER)
        parts.append(predicted(without, ecology, str(base)))
        notes += study.failed_checks(name, without)
    predictions = pd.concat(parts, ignore_index=True)
    return bc.Findings(
        _headline(totals, predictions),
        tuple(_compared(totals, study.source(FINETUNING))),
        (_totals_picture(totals), _predictions_picture(predictions)),
        (_totals_table(totals), _scores(predictions), _predictions_table(predictions)),
        tuple(notes),
    )


def finetuned(study: Study) -> pd.DataFrame:
    """Return printed accuracies of models trained on duplicates, of all of one base."""
    table = study.table(FINETUNING)
    table = table[table["training"].str.startswith((*KINDS, "none"))]
    control = table["split"] == "control"
    benchmark = table["target"].where(~control, table["control"])
    size = np.where(table["split"].isin(["seen", "unseen"]), "half", "all")
    clean = table["training"] == "none"
    return pd.DataFrame(
        {
            "target": table["target"],
            "training": table["training"],
            "model": (table["target"] + ", " + table["training"]).where(~clean, BASE),
            "base": BASE,
            "benchmark": benchmark,
            "item": table["split"],
            "accuracy": table["accuracy"] / 100,
            "contamination": (table["split"] == "seen").astype(float),
            "duplicate_kind": table["training"].where(table["split"] == "seen", ""),
            "items": [
                int(study.printed("items", f"{name} {part}")["value"])
                for name, part in zip(benchmark, size, strict=True)
            ],
        }
    )


def trained(study: Study) -> pd.DataFrame:
    """Return printed accuracies of the ecological experiment, second version."""
    table = study.table(ECOLOGY)
    table = table[(table["version"] == "v2") & (table["epoch"] > 0)]
    met = (table["training"] != "clean") & (table["split"] == "seen")
    kind = table["training"].replace("contaminated", "semantic")
    return pd.DataFrame(
        {
            "training": kind,
            "epoch": table["epoch"],
            "model": table["model"] + ", " + kind + ", " + table["epoch"].astype(str) + " epochs",
            "base": table["model"],
            "benchmark": WITHHELD,
            "item": table["split"],
            "accuracy": table["accuracy"] / 100,
            "contamination": met.astype(float),
            "duplicate_kind": kind.where(met, ""),
            "items": int(study.printed("items", "ecological half")["value"]),
        }
    )


def responses_of(printed: pd.DataFrame, source: str) -> bc.Responses:
    """Return printed accuracies as counts of items."""
    columns = ["model", "benchmark", "contamination", "base", "duplicate_kind"]
    counts = np.rint(printed["accuracy"] * printed["items"]).astype(int)
    table = printed[columns].assign(
        item=printed["benchmark"] + ", " + printed["item"], n_correct=counts,
        n_trials=printed["items"],
    )  # fmt: skip
    return bc.Responses.from_frame(table, source=f"{source}.csv")


def total_effects(fit: bc.Fit, printed: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each training: the estimated effects, and the printed difference."""
    rows = fit_rows(fit, ("overfitting", "overfitting_direct"))
    keys = ["model", "benchmark"]
    total, direct = (
        rows[rows["quantity"] == name].set_index(keys).to_dict("index")
        for name in ("overfitting", "overfitting_direct")
    )
    before = printed[printed["model"] == BASE].set_index("benchmark")["accuracy"].to_dict()
    found = []
    for _, own in printed[printed["model"] != BASE].groupby("model", sort=False):
        first = own.iloc[0]
        model, target = str(first["model"]), str(first["target"])
        of_benchmark = own[own["benchmark"] == target]
        on_control = own[own["benchmark"] != target].iloc[0]
        estimate: Any = total[model, target]
        found.append(
            {
                "benchmark": target,
                "training": first["training"],
                "printed": float(of_benchmark["accuracy"].mean() - before[target]),
                "mean": estimate["mean"], "low": estimate["low"], "high": estimate["high"],
                "verdict": estimate["verdict"],
                "direct": direct[model, target]["mean"],
                "control": float(total[model, str(on_control["benchmark"])]["mean"]),
            }
        )  # fmt: skip
    return pd.DataFrame(found)


def predicted(fit: bc.Fit, ecology: pd.DataFrame, base: str) -> pd.DataFrame:
    """Return the withheld clean scores of a base beside predictions of them."""
    scores = ecology.groupby(["base", "training", "epoch"])["accuracy"].mean()
    rows = fit_rows(fit, ("genuine_ability", "genuine_ability_direct"))
    known = rows.set_index(["model", "quantity"])[["mean", "low", "high"]]
    contaminated = ecology[(ecology["base"] == base) & (ecology["training"] != "clean")]
    found = []
    for row in rows_of(contaminated.drop_duplicates("model")):
        truth, raw = scores[base, "clean", row.epoch], scores[base, row.training, row.epoch]
        others = [
            scores[other, row.training, row.epoch] - scores[other, "clean", row.epoch]
            for other in ecology["base"].unique()
            if other != base
        ]
        nothing = {"low": np.nan, "high": np.nan}
        ways = {
            RAW: {"mean": raw, **nothing},
            DIRECT: known.loc[(row.model, "genuine_ability_direct")].to_dict(),
            OTHERS: {"mean": raw - float(np.mean(others)), **nothing},
            TOTAL: known.loc[(row.model, "genuine_ability")].to_dict(),
        }
        found += [
            {"model": row.model, "way": way, **figures, "truth": truth}
            for way, figures in ways.items()
        ]
    return pd.DataFrame(found)


def _errors(own: pd.DataFrame) -> dict[str, float]:
    """Return how far predictions are off, and for those with intervals what these are worth."""
    figures = {"error": float(np.sqrt(((own["mean"] - own["truth"]) ** 2).mean()))}
    if own["low"].isna().any():
        return figures | dict.fromkeys(("coverage", "width", "interval score"), np.nan)
    width = own["high"] - own["low"]
    below, above = (own["low"] - own["truth"]).clip(0), (own["truth"] - own["high"]).clip(0)
    return figures | {
        "coverage": coverage(own)[0],
        "width": float(width.mean()),
        # Gneiting & Raftery (2007), doi:10.1198/016214506000001437, at 95 %.
        "interval score": float((width + 40 * (below + above)).mean()),
    }


def _headline(totals: pd.DataFrame, predictions: pd.DataFrame) -> str:
    inside = ((totals["low"] <= totals["printed"]) & (totals["printed"] <= totals["high"])).sum()
    by = {way: _errors(own) for way, own in predictions.groupby("way")}
    held = predictions[predictions["way"] == TOTAL]
    hits = ((held["low"] <= held["truth"]) & (held["truth"] <= held["high"])).sum()
    return (
        f"Total effects of {len(totals)} trainings: {inside} printed differences lie in our"
        f" intervals. Of {len(held)} withheld clean scores {hits} lie in the intervals of genuine"
        f" ability; root mean square error {by[TOTAL]['error']:.3f}, of raw scores"
        f" {by[RAW]['error']:.3f}, with the direct effect alone removed"
        f" {by[DIRECT]['error']:.3f}."
    )


def _compared(totals: pd.DataFrame, source: str) -> Iterator[Comparison]:
    for row in rows_of(totals):
        yield Comparison(
            "total effect", f"{row.benchmark}, {row.training}", row.printed, np.nan, np.nan,
            row.mean, row.low, row.high,
            "Printed: mean of both halves less the score before finetuning, which is in the table"
            " as the clean twin.",
            source,
        )  # fmt: skip


def _totals_picture(totals: pd.DataFrame) -> PictureData:
    shown = totals.assign(
        label=totals["benchmark"] + ", " + totals["training"], series="total effect",
        truth=totals["printed"],
    )  # fmt: skip
    return PictureData(
        "intervals", "Total effects and printed differences",
        "What the score would lose had the benchmark not been in the training data, with 95 %"
        " intervals; lines are printed differences to the score before finetuning.",
        shown[["label", "series", "mean", "low", "high", "truth"]],
        "difference of accuracies", "",
    )  # fmt: skip


def _predictions_picture(predictions: pd.DataFrame) -> PictureData:
    shown = predictions.rename(columns={"model": "label", "way": "series"})
    return PictureData(
        "intervals", "Withheld clean scores",
        "Scores of clean models, predicted from contaminated models of their base without them;"
        " upright lines are the scores that were withheld.",
        shown[["label", "series", "mean", "low", "high", "truth"]], "accuracy", "",
    )  # fmt: skip


def _totals_table(totals: pd.DataFrame) -> TableData:
    caption = (
        "Each total rests on the comparison with the model before finetuning on the benchmark"
        " itself, and on control benchmarks, which show what finetuning changes everywhere; by"
        " definition contamination adds nothing there (column control). The direct effect is what"
        " the half that was trained on gained beyond the other."
    )
    return TableData("Total effects", caption, totals)


def _scores(predictions: pd.DataFrame) -> TableData:
    ways = [{"way": way, **_errors(own)} for way, own in predictions.groupby("way", sort=False)]
    caption = (
        f"Over {predictions['model'].nunique()} withheld clean scores. Error: root mean square."
        " Interval score: width, and 40 times how far intervals miss; smaller is better."
    )
    return TableData("Ways to predict a clean score", caption, pd.DataFrame(ways))


def _predictions_table(predictions: pd.DataFrame) -> TableData:
    caption = "Withheld clean scores (truth) and their predictions, with 95 % intervals."
    return TableData("Predictions", caption, predictions)
