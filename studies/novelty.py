"""How much lower accuracy is on tasks of rare concepts, level by level."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import bayescontam as bc
from bayescontam.arc.exposures import contamination_of
from bayescontam.published.draws import accuracies
from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._common import (
    CONCEPTS,
    FEWEST,
    MOST,
    TAILS,
    draw_exposures,
    mean_and_interval,
    percent,
    row_of,
    simulated,
)

BENCHMARK = "ARC-like"
POINTS = "points"
RESAMPLES = "resampled tasks of each level"
ALONE, TOGETHER = "each level for itself", "levels drawn together"
BOTH, LINE = "levels drawn around a line", "one line in contamination"
MODELS: dict[str, tuple[str, str, dict[str, Any], bool]] = {
    ALONE: ("alone", "concepts", {"ability": {"by": "benchmark", "pooling": "none"}}, True),
    TOGETHER: ("together", "concepts", {"ability": {"by": "benchmark"}}, True),
    BOTH: ("both", "hierarchical", {}, True),
    LINE: ("line", "single", {}, False),
    "one line, accuracy scale": ("additive", "additive", {}, False),
}
"""Name of the fit, model spec, what is changed in it, and whether levels stand as models."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Tasks of every level of novelty."""

    # contamination, accuracy: dims (level, task)
    contamination: np.ndarray
    accuracy: np.ndarray
    share: np.ndarray  # share of rare concepts, dims (level,)

    @property
    def gap(self) -> float:
        """True accuracy at the lowest level less that at the highest."""
        return float(self.accuracy[0].mean() - self.accuracy[-1].mean())


def analyse(study: Study) -> bc.Findings:
    """Return the gap between the least and the most novel tasks, estimated in several ways."""
    levels = _levels(study, study.stream("levels"))
    responses = _responses(levels, study.stream("answers"))
    correct = responses.frame["n_correct"].to_numpy(dtype=float).reshape(levels.accuracy.shape)
    means = {RESAMPLES: _resampled(correct, study.stream("resamples"), study.settings)}
    notes: list[str] = []
    extremes: dict[str, Any] = {}
    for name, (short, spec, changes, apart) in MODELS.items():
        model = study.model(spec, changes)
        given = _apart(responses) if apart else responses
        fit = study.fit(short, given, model)
        p = accuracies(fit, given)
        means[name] = p.reshape(len(p), *correct.shape).mean(axis=2)
        notes += study.failed_checks(short, fit)
        if not apart:
            extremes[name] = fit.data["estimands"]["novelty_gap"]
    gaps = {name: draws[:, 0] - draws[:, -1] for name, draws in means.items()}
    many = _many(study)
    return bc.Findings(
        _headline(study, levels, gaps),
        tuple(_comparisons(study, gaps, many)),
        (_curves(levels, means), _intervals(study, levels, gaps), _seeds(study, many)),
        (
            _gap_table(levels, gaps),
            _level_table(levels, correct, means),
            _extreme_table(levels, extremes),
        ),
        tuple(notes),
    )


def _levels(study: Study, rng: np.random.Generator) -> Levels:
    """Draw a corpus, and tasks of every level from its rare and its common concepts."""
    settings = study.settings
    exposure = draw_exposures(settings["exposures"], rng)
    share = np.linspace(0, 1, settings["levels"])
    contamination = np.stack(
        [contamination_of(_mean_exposures(exposure, s, settings["tasks"], rng)) for s in share]
    )
    return Levels(contamination, settings["genuine"] + settings["boost"] * contamination, share)


def _mean_exposures(
    exposure: np.ndarray, share: float, tasks: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw the mean exposure of tasks with this share of rare concepts, dims (task,).

    The rarer half of the concepts is rare. Of the concepts of a task, as many are rare as the
    share says, rounded up or down at random.
    """
    ranked = np.sort(exposure)
    rare, common = ranked[: CONCEPTS // 2], ranked[CONCEPTS // 2 :]
    count = rng.integers(FEWEST, MOST + 1, size=tasks)
    among = np.floor(share * count + rng.random(tasks)).astype(int)
    return np.array(
        [
            np.concatenate([rng.permutation(rare)[:few], rng.permutation(common)[: n - few]]).mean()
            for n, few in zip(count, among, strict=True)
        ]
    )


def _responses(levels: Levels, rng: np.random.Generator) -> bc.Responses:
    tasks = levels.accuracy.shape[1]
    names = [f"{share:.2f}" for share in levels.share]
    frame = pd.DataFrame(
        {
            "model": "model",
            "benchmark": BENCHMARK,
            "item": [f"{name}, {k + 1}" for name in names for k in range(tasks)],
            "level": np.repeat(names, tasks),
            "correct": rng.binomial(1, levels.accuracy).ravel(),
            "contamination": levels.contamination.ravel(),
        }
    )
    return simulated(frame)


def _resampled(correct: np.ndarray, rng: np.random.Generator, settings: Any) -> np.ndarray:
    """Return the accuracy of each level in resamples of its tasks, dims (resample, level)."""
    tasks = correct.shape[1]
    share = correct.mean(axis=1)
    return rng.binomial(tasks, share, size=(settings["resamples"], len(share))) / tasks


def _apart(responses: bc.Responses) -> bc.Responses:
    """Return responses in which each level stands as a model of its own.

    Models of one benchmark are what our model specs draw together.
    """
    frame = responses.frame
    return simulated(frame.assign(model=frame["level"]))


def _many(study: Study) -> pd.DataFrame:
    """Return true and observed gaps of many tables."""
    settings = study.settings

    def make(table: int) -> pd.DataFrame:
        rng = study.stream("tables", table)
        levels = _levels(study, rng)
        ends = rng.binomial(1, levels.accuracy[[0, -1]]).mean(axis=1)
        return pd.DataFrame({"truth": [levels.gap], "mean": [ends[0] - ends[1]]})

    names = ("genuine", "boost", "tasks", "levels", "exposures")
    given = {name: settings[name] for name in names}
    return study.over_tables("gaps", given, make, settings["tables"])


def _comparisons(
    study: Study, gaps: Mapping[str, np.ndarray], many: pd.DataFrame
) -> list[Comparison]:
    tables = len(many)
    reason = (
        f"True gap over {tables} tables: mean and 95 % range. Which concepts are rare is not"
        " printed: the rarer half is."
    )
    expected = mean_and_interval(many["truth"])
    found = [study.compared("expected_gap", expected, reason, label=f"generator, {tables} tables")]
    chance = (
        f"Observed gaps of {tables} tables: mean and 95 % range, which is chance in two times"
        f" {study.settings['tasks']} answers."
    )
    label = f"two levels, {tables} tables"
    found.append(
        study.compared("empirical_gap", mean_and_interval(many["mean"]), chance, label=label)
    )
    for name, draws in gaps.items():
        reason = (
            "The same method on a table of ours: only the two outermost levels count."
            if name == RESAMPLES
            else "Posterior from one table of ours, against the observed gap of theirs."
        )
        found.append(study.compared("empirical_gap", mean_and_interval(draws), reason, label=name))
    return found


def _curves(levels: Levels, means: Mapping[str, np.ndarray]) -> PictureData:
    truth = {"series": "truth", "mean": levels.accuracy.mean(axis=1), "low": np.nan, "high": np.nan}
    parts = [pd.DataFrame({"x": levels.share, **truth})]
    for name in (name for name in (RESAMPLES, TOGETHER, LINE) if name in means):
        low, high = np.quantile(means[name], TAILS, axis=0)
        own = {"series": name, "mean": means[name].mean(axis=0), "low": low, "high": high}
        parts.append(pd.DataFrame({"x": levels.share, **own}))
    caption = (
        "Accuracy by the share of rare concepts in a task, with 95 % bands. Levels that are drawn"
        " together borrow from each other, without knowing their order; a straight line in"
        " contamination knows where each task stands."
    )
    title = "Accuracy by novelty"
    return PictureData(
        "curves", title, caption, pd.concat(parts), "share of rare concepts", "accuracy"
    )


def _intervals(study: Study, levels: Levels, gaps: Mapping[str, np.ndarray]) -> PictureData:
    printed = study.printed("empirical_gap")
    row = {"label": "published, its own tasks", "mean": printed["value"], "truth": np.nan}
    row |= {"low": printed["low"], "high": printed["high"]}
    row["truth"] = float(study.printed("expected_gap")["value"])
    rows = [row]
    for name, draws in gaps.items():
        mean, low, high = mean_and_interval(draws)
        rows.append({"label": name, "mean": mean, "low": low, "high": high, "truth": levels.gap})
    caption = (
        "Accuracy at the least novel level less that at the most novel one, with 95 % intervals,"
        " and the truth (of the first row: the printed expected gap)."
    )
    table = pd.DataFrame(rows).assign(series="gap")
    return PictureData("intervals", "The gap", caption, table, "difference of accuracies", "")


def _seeds(study: Study, many: pd.DataFrame) -> PictureData:
    shown = pd.concat(
        pd.DataFrame({"value": many[column], "series": series})
        for column, series in (("mean", "observed gap"), ("truth", "true gap"))
    ).assign(published=float(study.printed("empirical_gap")["value"]))
    caption = (
        f"Gap between the two outermost levels over {len(many)} tables: the true one, and the"
        " observed one that chance moves. Vertical line: the published empirical gap."
    )
    title = "What chance does to the gap"
    return PictureData(
        "shares", title, caption, shown, "difference of accuracies", "share of tables"
    )


def _gap_table(levels: Levels, gaps: Mapping[str, np.ndarray]) -> TableData:
    rows = []
    for name, draws in gaps.items():
        mean, low, high = mean_and_interval(draws)
        row = {"method": name, "gap": mean, "low": low, "high": high, "width": high - low}
        rows.append({**row, "truth": levels.gap, "p above 0": float((draws > 0).mean())})
    caption = "Gap between the two outermost levels in one table, with 95 % intervals."
    return TableData("The gap by method", caption, pd.DataFrame(rows))


def _level_table(levels: Levels, correct: np.ndarray, means: Mapping[str, np.ndarray]) -> TableData:
    table = pd.DataFrame(
        {
            "share of rare concepts": levels.share,
            "mean contamination": levels.contamination.mean(axis=1),
            "true accuracy": levels.accuracy.mean(axis=1),
            "observed": correct.mean(axis=1),
        }
        | {name: draws.mean(axis=0) for name, draws in means.items() if name != RESAMPLES}
    )
    caption = f"One table, {correct.shape[1]} tasks a level: observed and posterior mean accuracy."
    return TableData("Accuracy by level", caption, table)


def _extreme_table(levels: Levels, extremes: Mapping[str, Any]) -> TableData:
    accuracy = levels.accuracy.ravel()[
        [levels.contamination.argmax(), levels.contamination.argmin()]
    ]
    truth = float(accuracy[0] - accuracy[1])
    rows = [{"method": name} | row_of(draws) | {"truth": truth} for name, draws in extremes.items()]
    caption = (
        "The estimand novelty_gap of our reports: accuracy if all tasks had the largest"
        " contamination of any, less that at the smallest. Levels are means of many tasks, so that"
        " their gap is smaller."
    )
    return TableData("Novelty gap between single tasks", caption, pd.DataFrame(rows))


def _headline(study: Study, levels: Levels, gaps: Mapping[str, np.ndarray]) -> str:
    line, alone = mean_and_interval(gaps[LINE]), mean_and_interval(gaps[RESAMPLES])
    printed = study.printed("empirical_gap")
    shown = percent(*(float(printed[name]) for name in ("value", "low", "high")), unit=POINTS)
    ratio = (line[2] - line[1]) / (alone[2] - alone[1])
    ends, through = percent(*alone, unit=POINTS), percent(*line, unit=POINTS)
    return (
        f"Printed: a gap of {shown}. On a table of the same generator with a true gap of"
        f" {percent(levels.gap, unit=POINTS)}, the two outermost levels alone give {ends}, and a"
        f" line through all {len(levels.share)} levels {through}: an interval {ratio:.2f} times as"
        " wide."
    )
