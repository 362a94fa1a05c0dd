"""Whether finetuning on duplicates left other benchmarks as they were, as printed."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr

import bayescontam as bc
from bayescontam._format import probability
from bayescontam.inference.equivalence import smallest_margin
from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._classifiers import classifiers
from ._common import mean_and_interval, percent, row_of, rows_of

TABLE, TEACHERS = "control_benchmarks", "musr_teachers"
BASE = "none"
FINETUNED, TEACHER = "finetuned", "teacher"
HALF = 0.5
"""Successes and failures that Jeffreys' prior of a share adds: Beta(1/2, 1/2)."""
ZEBRA, STAGES = "ZebraLogic", ("SFT", "DPO", "RL")
POINTS = "change of accuracy"


def analyse(study: Study) -> bc.Findings:
    """State which finetuned models are no worse than their base, and what else is printed."""
    printed = printed_accuracies(study)
    changes = change_draws(study, printed)
    judged = classifiers(study)
    means = changes.mean("benchmark")
    return bc.Findings(
        f"{_headline(study, changes)} {_fallen(changes)}",
        (*_compared(study, printed, means), _last_step(study), *judged.comparisons),
        (_mean_picture(study, printed, means), _single_picture(study, changes), judged.picture),
        (
            _mean_table(study, printed, means),
            _single_table(study, printed, changes),
            _by_benchmark(study, changes),
            _if_paired(study, changes),
            _stages(study),
            _teachers(study),
            judged.table,
        ),
        judged.notes,
    )


def share_draws(study: Study, accuracy: float, items: int, *names: str) -> np.ndarray:
    """Draw an accuracy given a printed one, counted out of items."""
    correct = round(accuracy * items)
    rng = study.stream(*names)
    return rng.beta(correct + HALF, items - correct + HALF, study.settings["draws"])


def printed_accuracies(study: Study) -> pd.DataFrame:
    """Return ``model, benchmark, accuracy, items``, the one base once."""
    table = study.table(TABLE)
    named = table["target"] + ", " + table["training"]
    model = named.where(table["training"] != BASE, BASE)
    frame = table[["benchmark", "source"]].assign(model=model, accuracy=table["accuracy"] / 100)
    sizes = {name: items(study, name) for name in frame["benchmark"].unique()}
    frame["items"] = frame["benchmark"].map(sizes)
    if (frame.groupby(["model", "benchmark"])["accuracy"].nunique() != 1).any():
        raise bc.UsageError(f"{TABLE}.csv: the base has two accuracies on one benchmark")
    return frame.drop_duplicates(["model", "benchmark"], ignore_index=True)


def items(study: Study, benchmark: str) -> int:
    """Return the number of items of a benchmark."""
    return int(study.printed("items", benchmark)["value"])


def change_draws(study: Study, printed: pd.DataFrame) -> xr.DataArray:
    """Return draws of accuracy minus that of the base, dims (draw, model, benchmark)."""
    benchmarks = list(printed["benchmark"].unique())
    models = [BASE, *(name for name in printed["model"].unique() if name != BASE)]
    known = printed.set_index(["model", "benchmark"])
    draws = np.stack(
        [
            [
                share_draws(study, *known.loc[(model, name), ["accuracy", "items"]], model, name)
                for name in benchmarks
            ]
            for model in models
        ]
    )
    coords = {"model": models, "benchmark": benchmarks}
    accuracy = xr.DataArray(draws, coords, ("model", "benchmark", "draw"))
    change = accuracy.sel(model=models[1:]) - accuracy.sel(model=BASE, drop=True)
    return change.transpose("draw", "model", "benchmark")


def printed_changes(printed: pd.DataFrame) -> pd.DataFrame:
    """Return the printed accuracies minus those of the base, model × benchmark."""
    wide = printed.pivot(index="model", columns="benchmark", values="accuracy")
    wide = wide.loc[printed["model"].unique(), printed["benchmark"].unique()]
    return (wide.drop(index=BASE) - wide.loc[BASE]).round(4)


def judged_row(study: Study, change: xr.DataArray | np.ndarray) -> dict[str, object]:
    """Return a change with its interval, the probability of "no worse", and the verdict."""
    draws = np.asarray(change).ravel()
    margin, level = study.settings["margin"], study.settings["level"]
    return row_of(draws) | {
        "p_no_worse": float((draws > -margin).mean()),
        "smallest_margin": smallest_margin(draws, level),
        "verdict": str(bc.margin_verdict(draws, margin, level=level)),
    }


def _stated(rows: list[dict[str, object]], verdict: str) -> int:
    return sum(row["verdict"] == verdict for row in rows)


def _headline(study: Study, changes: xr.DataArray) -> str:
    margin = study.settings["margin"]
    means = changes.mean("benchmark")
    rows = [judged_row(study, means.sel(model=name)) for name in means["model"].to_numpy()]
    single = [
        judged_row(study, changes.sel(model=model, benchmark=benchmark))
        for model in changes["model"].to_numpy()
        for benchmark in changes["benchmark"].to_numpy()
    ]
    together = float((means > -margin).all("model").mean())
    return (
        f"On the mean of {changes.sizes['benchmark']} benchmarks {_stated(rows, 'no worse')} of"
        f" {len(rows)} finetuned models are no worse than their base by more than"
        f" {percent(margin, unit='points')} (all at once with probability {probability(together)})."
        f" It can be stated of {_stated(single, 'no worse')} of {len(single)} single scores, the"
        f" contrary of {_stated(single, 'worse')}; {_stated(single, 'undecided')} are undecided."
    )


def _fallen(changes: xr.DataArray) -> str:
    """Return which benchmark fell most, over all models."""
    over = changes.mean("model")
    name = over.mean("draw").idxmin("benchmark").item()
    worst = mean_and_interval(over.sel(benchmark=name))
    return f"{name} fell most: {percent(*worst, unit='points')}, the mean over all models."


def _compared(study: Study, printed: pd.DataFrame, means: xr.DataArray) -> Iterator[Comparison]:
    expected = printed_changes(printed).mean(axis=1).round(4)
    sources = printed.groupby("model")["source"].first()
    for model in means["model"].to_numpy():
        own = means.sel(model=model)
        verdict = judged_row(study, own)
        yield Comparison(
            "mean change on the control benchmarks", str(model),
            float(expected[model]), np.nan, np.nan, *mean_and_interval(own),
            "Printed as accuracies without errors and called no degradation. Ours:"
            f" {_said(study, verdict)}.",
            str(sources[model]),
        )  # fmt: skip


def _said(study: Study, row: dict[str, object]) -> str:
    margin = percent(study.settings["margin"], unit="points")
    words = {
        "no worse": f"no worse by more than {margin}",
        "worse": f"worse by more than {margin}",
    }
    said = words.get(str(row["verdict"]), f"undecided whether worse by more than {margin}")
    return f"{said} (probability of no worse {probability(row['p_no_worse'])})"


def _mean_picture(study: Study, printed: pd.DataFrame, means: xr.DataArray) -> PictureData:
    level, expected = study.settings["level"], printed_changes(printed).mean(axis=1).round(4)
    rows = []
    for model in means["model"].to_numpy():
        own = means.sel(model=model).to_numpy()
        ends = np.quantile(own, [1 - level, level])
        verdict = str(judged_row(study, own)["verdict"])
        numbers = {"mean": own.mean(), "low": ends[0], "high": ends[1], "truth": expected[model]}
        rows.append({"label": str(model), "series": verdict} | numbers)
    return PictureData(
        "intervals",
        "Mean change on the control benchmarks",
        f"Posterior means with the interval whose ends are one-sided bounds of {100 * level:.0f} %:"
        " 'no worse' is stated where it lies above minus the margin of"
        f" {percent(study.settings['margin'], unit='points')}.",
        pd.DataFrame(rows),
        POINTS,
        "finetuned on",
        "printed",
    )


def _single_picture(study: Study, changes: xr.DataArray) -> PictureData:
    chance = (changes > -study.settings["margin"]).mean("draw")
    table = chance.to_series().rename("value").reset_index()
    return PictureData(
        "grid",
        "Probability that a single score is no worse by more than the margin",
        f"Stated from {study.settings['level']:g} on. Items of a benchmark decide how much can be"
        " stated: 10,042 of HellaSwag, 1,172 of ARC Challenge.",
        table.rename(columns={"model": "row", "benchmark": "column"}),
        "benchmark",
        "finetuned on",
    )


def _mean_table(study: Study, printed: pd.DataFrame, means: xr.DataArray) -> TableData:
    expected = printed_changes(printed).mean(axis=1).round(4)
    rows = [
        {"finetuned on": model, "printed": expected[model]}
        | judged_row(study, means.sel(model=model))
        for model in means["model"].to_numpy()
    ]
    return TableData(
        "Mean changes with verdicts",
        "Over six benchmarks, with 95 % intervals. `smallest_margin`: that with which 'no worse'"
        " would be stated.",
        pd.DataFrame(rows),
    )


def _single_table(study: Study, printed: pd.DataFrame, changes: xr.DataArray) -> TableData:
    expected = printed_changes(printed)
    rows = [
        {"finetuned on": model, "benchmark": name, "printed": expected.loc[model, name]}
        | judged_row(study, changes.sel(model=model, benchmark=name))
        for model in changes["model"].to_numpy()
        for name in changes["benchmark"].to_numpy()
    ]
    return TableData(
        "Changes of single scores with verdicts", "With 95 % intervals.", pd.DataFrame(rows)
    )


def _by_benchmark(study: Study, changes: xr.DataArray) -> TableData:
    over = changes.mean("model")
    middle = changes.mean("draw")
    rows = [
        {
            "benchmark": name,
            "items": items(study, str(name)),
            "models below the base": int((middle.sel(benchmark=name) < 0).sum()),
        }
        | judged_row(study, over.sel(benchmark=name))
        for name in changes["benchmark"].to_numpy()
    ]
    return TableData(
        "Changes by benchmark, mean over models",
        "All models are held against one measured base, so that they fall or rise together: nine"
        " models below it are not nine pieces of evidence.",
        pd.DataFrame(rows),
    )


def _if_paired(study: Study, changes: xr.DataArray) -> TableData:
    """Return what could be stated if answers of a model and its base agreed by so much."""
    center = changes.mean("draw")
    rows = []
    for agreement in study.settings["agreements"]:
        narrow = center + (changes - center) * np.sqrt(1 - agreement)
        means = narrow.mean("benchmark")
        mean_rows = [judged_row(study, means.sel(model=m)) for m in means["model"].to_numpy()]
        single = [
            judged_row(study, narrow.sel(model=m, benchmark=b))
            for m in narrow["model"].to_numpy()
            for b in narrow["benchmark"].to_numpy()
        ]
        rows.append(
            {
                "correlation": agreement,
                "means no worse": _stated(mean_rows, "no worse"),
                "largest smallest margin of means": max(
                    float(str(row["smallest_margin"])) for row in mean_rows
                ),
                "single scores no worse": _stated(single, "no worse"),
                "single scores undecided": _stated(single, "undecided"),
            }
        )
    return TableData(
        "What pairing by item would change",
        "Which items a model and its base solved is not printed. If their answers to an item had"
        " this correlation, the variance of a change would be smaller by that share; the study"
        " itself takes 0.",
        pd.DataFrame(rows),
    )


def _stage_draws(study: Study, where: str) -> np.ndarray:
    accuracy = float(study.printed("accuracy", where)["value"])
    return share_draws(study, accuracy, items(study, ZEBRA), "stage", where)


def _last_step(study: Study) -> Comparison:
    before, after = (f"{ZEBRA} after {stage}" for stage in STAGES[1:])
    row, base = study.printed("accuracy", after), study.printed("accuracy", before)
    change = _stage_draws(study, after) - _stage_draws(study, before)
    return Comparison(
        "gain from DPO to RL", ZEBRA, float(row["value"] - base["value"]), np.nan, np.nan,
        *mean_and_interval(change),
        "Printed as two accuracies without errors; ours counts 1,000 puzzles anew for each.",
        str(row["source"]),
    )  # fmt: skip


def _stages(study: Study) -> TableData:
    """Return what the printed accuracies of three stages say of the last step, and what not."""
    sft, dpo, rl = (_stage_draws(study, f"{ZEBRA} after {stage}") for stage in STAGES)
    other = _stage_draws(study, f"{ZEBRA} before finetuning")
    share = float(study.printed("share_with_exact_duplicate", ZEBRA)["value"])
    steps = {
        "gain from SFT to DPO": (
            dpo - sft,
            "A gain without duplicates in the stage's data.",
            "Whether other puzzles of its kind are in these data.",
        ),
        "gain from DPO to RL": (
            rl - dpo,
            f"A gain in the stage whose data hold {percent(share)} of the puzzles word for word.",
            "Whether it lies on these puzzles: accuracies with and without duplicates, or by size,"
            " are not printed.",
        ),
        "gain from DPO to RL on puzzles with duplicates, if all of it is there": (
            (rl - dpo) / share,
            "What they gained if the others gained nothing, by arithmetic alone.",
            "Whether all of it is there: finetuning lifted unseen puzzles too.",
        ),
        "gain from DPO to RL minus gain from SFT to DPO": (
            rl - 2 * dpo + sft,
            "The step with duplicates is the smaller one.",
            "What either would have been without them: steps differ in data and method.",
        ),
        "the same model, measured twice (36.9 and 32.9 %)": (
            other - rl,
            "Two measurements of one model lie as far apart as the last step.",
            "Whether the three stages were measured alike, and with which settings.",
        ),
    }
    rows = [
        {"quantity": name}
        | row_of(draws)
        | {"p_positive": float((draws > 0).mean()), "says": says, "cannot say": not_said}
        for name, (draws, says, not_said) in steps.items()
    ]
    return TableData(
        "Olmo 3 on ZebraLogic by stage",
        "Does the last step sit where the duplicates of the RL data are? The printed numbers"
        " cannot show: they are totals. Counted out of 1,000 puzzles, with 95 % intervals.",
        pd.DataFrame(rows),
    )


def _teachers(study: Study) -> TableData:
    """Return models finetuned on a teacher's traces beside the teacher, and beside each other."""
    table, size = study.table(TEACHERS), items(study, "MuSR")
    own = table[(table["tasks"] == "MuSR") & ~table["training"].isin([BASE])]
    draws = {
        (row.solver, row.teacher, "" if row.solver == TEACHER else row.training): share_draws(
            study, row.accuracy / 100, size, row.solver, row.teacher, str(row.training)
        )
        for row in rows_of(own)
    }
    rows = []
    for (solver, teacher, training), values in draws.items():
        if solver == FINETUNED:
            change = values - draws[TEACHER, teacher, ""]
            names = {"finetuned on": training, "traces of": teacher, "held against": "its teacher"}
            rows.append(names | judged_row(study, change))
    first, second = own["teacher"].unique()
    for training in own.loc[own["solver"] == FINETUNED, "training"].unique():
        change = draws[FINETUNED, second, training] - draws[FINETUNED, first, training]
        names = {"finetuned on": training, "traces of": second, "held against": f"{first}'s traces"}
        rows.append(names | judged_row(study, change))
    return TableData(
        "Finetuned models beside their teachers, on MuSR",
        "Differences of accuracy with 95 % intervals, counted out of 250 items; whether the"
        " printed ones are of all items or of the seen half is not said, and of a half intervals"
        " would be 1.4 times as wide.",
        pd.DataFrame(rows),
    )
