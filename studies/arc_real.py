"""Real tasks of two versions of ARC: contamination by their concepts, and a solver without any."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta

import bayescontam as bc
from bayescontam.arc.exposures import contamination_of
from bayescontam.data.importers.arc import ArcTasks, load_tasks, membership
from bayescontam.model.effect_names import DIRECT, effect_words
from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._baseline import GUESSES, scored, some_of
from ._common import (
    draw_exposures,
    fit_rows,
    mean_and_interval,
    published_method,
    row_of,
    rows_of,
)
from .conceptarc import alone

VERSIONS = ("version 1", "version 2")
ALONE, STATED = "exposures as drawn", "exposures not known, contamination helps"
"""What fits assume: tasks are alike but for contamination by one assignment of exposures; or
exposures are anything that is stated, and slopes are not negative."""
QUANTITIES = ("slope", DIRECT.overfitting)
TOGETHER = "concepts as in version 2"


@dataclass(frozen=True, eq=False)
class Version:
    """Tasks of one version, the concepts that they need, and the baseline's responses."""

    name: str
    source: str  # name of the set of tasks
    tasks: ArcTasks
    concepts: pd.DataFrame  # task, concept
    responses: bc.Responses  # by task, without contamination

    @property
    def shares(self) -> pd.DataFrame:
        """Share of each concept in a task, task × concept."""
        return membership(self.concepts, self.tasks.tasks)

    @property
    def profiles(self) -> "pd.Series[str]":
        """Concepts of each task as one text, by task in the order of the tasks."""
        by_task = self.concepts.groupby("task")["concept"]
        joined = by_task.agg(lambda names: "; ".join(sorted(names)))
        return joined.loc[list(self.tasks.tasks)]

    @property
    def solved(self) -> np.ndarray:
        """Whether each task is solved, in the order of the tasks."""
        by_item = self.responses.frame.set_index("item")["n_correct"]
        return by_item.loc[list(self.tasks.tasks)].to_numpy(dtype=float)


def analyse(study: Study) -> bc.Findings:
    """Return what real tasks and a solver that knows none of them show."""
    try:
        versions = [read_version(study, name) for name in VERSIONS]
    except bc.MissingExtraError as error:
        return bc.Findings(
            "Nothing was estimated: the real tasks of ARC come with a package that is not"
            " installed.",
            notes=(f"The tasks of ARC-AGI-1 and ARC-AGI-2: {error}",),
        )
    spread = spreads(study, versions)
    fits = list(fitted(study, versions))
    slopes = pd.concat([_slopes(fit, assumed) for assumed, fit in fits], ignore_index=True)
    placebo = assignments(study, versions)
    scores = score_table(study, versions)
    notes = [
        note
        for assumed, fit in fits
        for note in study.failed_checks("{tasks}, {assumed}".format_map(assumed), fit)
    ]
    return bc.Findings(
        _headline(versions, slopes, spread, placebo),
        tuple(_compared(study, spread)),
        (
            _needed(versions),
            _exposures(study, versions),
            _histogram(study, versions),
            _spread_picture(study, spread),
            _slope_picture(slopes),
        ),
        (
            scores,
            TableData("Effect of contamination on the baseline", _SLOPES, slopes),
            _placebo_table(placebo),
            TableData("Spread of contamination", _SPREAD, spread),
            _by_concept(versions),
        ),
        (*notes, *common_tasks(versions)),
    )


def read_version(study: Study, name: str) -> Version:
    """Read the tasks of a version, a random part if there are more than the settings allow."""
    source, most = study.settings["sets"][name], study.settings["tasks"]
    tasks = load_tasks(source)
    if len(tasks.tasks) > most:
        names = study.stream("sample", name).choice(tasks.tasks, most, replace=False)
        tasks = some_of(tasks, {str(each) for each in names})
    short = name.replace(" ", "-")
    answers = scored(study, short, tasks, benchmark=name, by="task")
    return Version(name, source, tasks, bc.detect_concepts(tasks), answers)


def stated(study: Study, name: str, concepts: list[str]) -> pd.DataFrame:
    """Return the exposures of concepts as they are stated: alike, each within the generator's."""
    floor, span, a, b = study.settings["exposures"][name]
    of = beta(a, b, loc=floor, scale=span)
    exposure, sd = float(of.mean()), float(of.std())
    return pd.DataFrame({"concept": concepts, "exposure": exposure, "exposure_sd": sd})


def imputed(study: Study, version: Version, exposures: str) -> pd.DataFrame:
    """Return imputations of the contamination of a version's tasks, by exposures of a version."""
    return bc.impute_contamination(
        version.tasks,
        stated(study, exposures, list(version.shares.columns)),
        concepts=version.concepts,
        benchmark=version.name,
        by="task",
        imputations=study.settings["imputations"],
        seed=int(study.stream("imputations", version.name, exposures).integers(2**31)),
    )


def assigned(study: Study, version: Version, number: int) -> "pd.Series[float]":
    """Return the exposures of one assignment: the generator's draws, given to named concepts."""
    names = version.shares.columns
    rng = study.stream("assignment", number, version.name)
    drawn = draw_exposures(study.settings["exposures"][version.name], rng, len(names))
    return pd.Series(drawn, index=names)


def contaminated(study: Study, version: Version, number: int) -> pd.DataFrame:
    """Return covariates of a version's tasks by one assignment of exposures."""
    exposure = assigned(study, version, number)
    at = contamination_of(version.shares.to_numpy() @ exposure.to_numpy())
    names = {"benchmark": version.name, "item": list(version.tasks.tasks)}
    return pd.DataFrame({**names, "contamination": at})


def spreads(study: Study, versions: list[Version]) -> pd.DataFrame:
    """Return the spread of contamination over tasks, by tasks and exposures of either version."""
    rows = []
    for exposures in VERSIONS:
        for version in versions:
            draws = imputed(study, version, exposures)
            sd = draws.groupby("imputation")["contamination"].std(ddof=0)
            rows.append({"tasks": version.name, "exposures": exposures, **row_of(sd)})
    return pd.DataFrame(rows)


def fitted(study: Study, versions: list[Version]) -> Iterator[tuple[dict[str, Any], bc.Fit]]:
    """Yield the fits of each version alone, each with what it assumes.

    Where no task is solved, any assignment shows the same.
    """
    settings = study.settings
    positive = study.model("imputed_covariate", settings["positive"])
    for version in versions:
        short = version.name.replace(" ", "-")
        for number in range(settings["fits"] if version.solved.any() else 1):
            known = bc.Covariates.from_frame(contaminated(study, version, number))
            responses = version.responses.with_contamination(known)
            at = {"tasks": version.name, "assignment": number + 1}
            fit = study.fit(f"{short}-alone-{number}", responses, "single")
            yield {**at, "assumed": ALONE}, fit
        unknown = bc.read_imputations(imputed(study, version, version.name))
        responses = version.responses.with_contamination(unknown)
        fit = study.fit(f"{short}-stated", responses, positive)
        yield {"tasks": version.name, "assignment": None, "assumed": STATED}, fit


def _slopes(fit: bc.Fit, assumed: dict[str, Any]) -> pd.DataFrame:
    """Return slope and overfitting of a fit, with what it assumes."""
    rows = fit_rows(fit, QUANTITIES).drop(columns=["model", "benchmark"])
    return rows.assign(**assumed)[[*assumed, *rows.columns]]


def assignments(study: Study, versions: list[Version]) -> pd.DataFrame:
    """Return what the published method reports of the baseline for many assignments."""
    settings = study.settings

    def make(number: int) -> pd.DataFrame:
        parts = []
        for version in versions:
            known = bc.Covariates.from_frame(contaminated(study, version, number))
            responses = version.responses.with_contamination(known)
            rng = study.stream("bootstrap", number, version.name)
            parts.append(published_method(responses, rng, settings["resamples"]))
        found = pd.concat(parts, ignore_index=True)
        return found[found["quantity"].isin((*QUANTITIES, DIRECT.fraction))].drop(columns="model")

    inputs = {
        "exposures": settings["exposures"],
        "resamples": settings["resamples"],
        "answers": [version.responses.data_hash for version in versions],
        "concepts": [version.concepts.to_csv(index=False) for version in versions],
    }
    return study.over_tables("assignments", inputs, make, settings["assignments"])


_DRAWS = 4000


def reweighted(of: Version, to: Version, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Return draws of the score on one version's tasks if concepts were as frequent as in another.

    Tasks with the same detected concepts weigh as those of the other version do: direct
    standardisation. Draws are of the Bayesian bootstrap over tasks (Rubin 1981,
    doi:10.1214/aos/1176345338). Also the share of the other's tasks whose concepts tasks here
    have; the rest of them has no part.
    """
    own, other = of.profiles, to.profiles
    share = other.value_counts(normalize=True)
    common = share[share.index.isin(own)]
    weight = rng.exponential(size=(_DRAWS, len(own)))
    draws = np.zeros(_DRAWS)
    for profile, frequency in common.items():
        at = (own == profile).to_numpy()
        draws += frequency * (weight[:, at] @ of.solved[at]) / weight[:, at].sum(axis=1)
    covered = float(common.sum())
    return draws / covered if covered else np.full(_DRAWS, np.nan), covered


def score_table(study: Study, versions: list[Version]) -> TableData:
    """Return the baseline's scores, and that on version 1 with the concepts of version 2."""
    rows = []
    for version in versions:
        right, count = int(version.solved.sum()), len(version.solved)
        low, high = alone(right / count, count)
        row = {"tasks of": version.name, "set": version.source, "tasks": count, "solved": right}
        rows.append({**row, "share": right / count, "low": low, "high": high})
    one, two = versions
    draws, covered = reweighted(one, two, study.stream("reweighted"))
    row = {"tasks of": f"{one.name}, {TOGETHER}", "set": one.source, "tasks": len(one.solved)}
    share, low, high = mean_and_interval(draws) if covered else (np.nan,) * 3
    rows.append({**row, "solved": int(one.solved.sum()), "share": share, "low": low, "high": high})
    caption = (
        "Tasks of which all test inputs are solved by the baseline, which searches programs over"
        f" operations on grids, in {GUESSES} guesses; 95 % intervals. It knows no task: nothing of"
        " the difference is contamination. Last row: tasks of version 1 weighted so that detected"
        f" concepts are as frequent as among the {covered:.0%} of the tasks of version 2 whose"
        " concepts they have."
    )
    return TableData("Scores of a solver that cannot be contaminated", caption, pd.DataFrame(rows))


def common_tasks(versions: list[Version]) -> Iterator[str]:
    """Yield a note if the two versions have tasks of the same name."""
    one, two = (set(version.tasks.tasks) for version in versions)
    if both := sorted(one & two):
        yield (
            f"Tasks that are in both sets, by name: {len(both)} ({', '.join(both[:6])}). Who met"
            " version 1 has met them."
        )


def _headline(
    versions: list[Version], slopes: pd.DataFrame, spread: pd.DataFrame, placebo: pd.DataFrame
) -> str:
    solved = " and ".join(
        f"{int(each.solved.sum())} of {len(each.solved)} tasks of {each.name}" for each in versions
    )
    own = slopes[(slopes["quantity"] == "slope") & (slopes["tasks"] == VERSIONS[0])]
    alone_in, helped = (own[own["assumed"] == way] for way in (ALONE, STATED))
    away = int(((alone_in["low"] > 0) | (alone_in["high"] < 0)).sum())
    found = (
        f"{helped['mean'].iloc[0]:.1f} [{helped['low'].iloc[0]:.1f}, {helped['high'].iloc[0]:.1f}]"
    )
    method = placebo[(placebo["benchmark"] == VERSIONS[0]) & (placebo["quantity"] == "slope")]
    false = ((method["low"] > 0) | (method["high"] < 0)).mean()
    own = spread[spread["tasks"] == spread["exposures"]]
    first, second = (_width(row) for row in rows_of(own))
    crossed = spread[(spread["tasks"] == VERSIONS[0]) & (spread["exposures"] == VERSIONS[1])]
    lower = _width(next(rows_of(crossed)))
    return (
        f"A solver that knows no task, and cannot be contaminated, solves {solved}."
        " Its slope on contamination is 0. On version 1 the published interval of that slope"
        f" leaves out 0 for {false:.0%} of {len(method)} random assignments of exposures to"
        f" concepts, and that of 'single' for {away} of {len(alone_in)}. Where exposures may be"
        f" anything and contamination is assumed to help, the posterior is {found}."
        " Contaminations of the real tasks spread by"
        f" {first} in version 1 and by {second} in version 2, with the exposures that are stated"
        f" for each; with those of version 2 the tasks of version 1 spread by {lower}."
    )


def _width(row: Any) -> str:
    return f"{row.mean:.3f} [{row.low:.3f}, {row.high:.3f}]"


def _compared(study: Study, spread: pd.DataFrame) -> Iterator[Comparison]:
    for row in rows_of(spread):
        reason = (
            "Concepts of the real tasks; exposures as stated. Mean and 95 % range over imputations."
            if row.tasks == row.exposures
            else f"The same exposures on the tasks of {row.tasks}: what differs is the exposures."
        )
        numbers = (row.mean, row.low, row.high)
        label = f"exposures of {row.exposures}, real tasks of {row.tasks}"
        yield study.compared("contamination_sd", numbers, reason, where=row.exposures, label=label)


def _needed(versions: list[Version]) -> PictureData:
    table = _by_concept(versions).table
    rows = [
        {"label": row["concept"], "series": version.name, "value": row[f"share, {version.name}"]}
        for row in table.to_dict("records")
        for version in versions
    ]
    caption = (
        "Share of tasks of which a concept is detected in all demonstrations. A task may need"
        " several."
    )
    title = "Which concepts real tasks need"
    return PictureData("bars", title, caption, pd.DataFrame(rows), "share of tasks", "concept")


def _exposures(study: Study, versions: list[Version]) -> PictureData:
    rows = [
        {"label": concept, "series": version.name, "value": value}
        for version in versions
        for concept, value in assigned(study, version, 0).items()
    ]
    caption = (
        "One assignment: exposures drawn from the distribution of the published generator, and"
        " given to the detected concepts by chance, as the published ones were to concepts without"
        " a name. Nobody has counted them. No bar: no task of the version needs the concept."
    )
    title = "Exposure of concepts, drawn once"
    return PictureData("bars", title, caption, pd.DataFrame(rows), "exposure", "concept")


def _histogram(study: Study, versions: list[Version]) -> PictureData:
    parts = [
        pd.DataFrame({"value": contaminated(study, each, 0)["contamination"], "series": each.name})
        for each in versions
    ]
    caption = (
        "Of each real task, by the published formula, from the exposures of the picture above."
    )
    title = "Contamination of tasks"
    return PictureData(
        "shares", title, caption, pd.concat(parts), "contamination", "share of tasks"
    )


def _spread_picture(study: Study, spread: pd.DataFrame) -> PictureData:
    printed = [float(study.printed("contamination_sd", name)["value"]) for name in VERSIONS]
    table = spread.rename(columns={"tasks": "label", "exposures": "series"}).assign(
        label=lambda t: "tasks of " + t["label"],
        series=lambda t: "exposures of " + t["series"],
        truth=lambda t: [printed[VERSIONS.index(name)] for name in spread["exposures"]],
    )
    caption = "Standard deviation over real tasks, mean and 95 % range over imputations."
    title, x = "Spread of contamination, by tasks and by exposures", "standard deviation"
    return PictureData("intervals", title, caption, table, x, "", mark="published")


def _slope_picture(slopes: pd.DataFrame) -> PictureData:
    own = slopes[slopes["quantity"] == "slope"]
    number = own["assignment"].map(lambda n: "not known" if pd.isna(n) else f"assignment {int(n)}")
    table = own.rename(columns={"assumed": "series"}).assign(
        label=own["tasks"] + ", " + number, truth=0.0
    )
    caption = (
        "Log-odds from surely clean to surely contaminated, with 95 % intervals, for assignments of"
        " exposures to concepts by chance. The truth is 0: no task can have been remembered."
    )
    columns = ["label", "series", "mean", "low", "high", "truth"]
    title = "Slope of a solver that cannot be contaminated"
    return PictureData("intervals", title, caption, table[columns], "slope", "")


_SLOPES = (
    "Posterior of each version alone, with 95 % intervals and the verdict of identification; the"
    " truth is 0. Assignments: exposures drawn from the generator and given to concepts by chance,"
    " taken as known; the pictures show the first. Not known: every concept has the mean and the"
    " standard deviation of the generator, and its exposure is a parameter of the fit."
)
_SPREAD = (
    "Standard deviation of contamination over tasks, mean and 95 % range over imputations, for the"
    " tasks of each version with the exposures that are stated for either."
)


def _placebo_table(placebo: pd.DataFrame) -> TableData:
    rows = []
    for (benchmark, quantity), own in placebo.groupby(["benchmark", "quantity"], sort=False):
        away = (own["low"] > 0) | (own["high"] < 0)
        rows.append(
            {
                "tasks": benchmark,
                "quantity": effect_words(str(quantity)),
                "mean estimate": float(own["mean"].mean()),
                "mean lower end": float(own["low"].mean()),
                "mean upper end": float(own["high"].mean()),
                "intervals without 0": float(away.mean()),
            }
        )
    caption = (
        f"The published method (penalty of 1, bootstrap) for {placebo['table'].nunique()}"
        " assignments of exposures, each taken as known. The truth is 0 throughout. Concepts differ"
        " in how easy their tasks are, which any assignment of exposures picks up by chance."
    )
    return TableData("The published method without contamination", caption, pd.DataFrame(rows))


def _by_concept(versions: list[Version]) -> TableData:
    parts = {}
    for version in versions:
        needs = version.shares.gt(0)
        parts[f"tasks, {version.name}"] = needs.sum()
        parts[f"share, {version.name}"] = needs.mean()
        parts[f"solved, {version.name}"] = needs.mul(version.solved, axis=0).sum()
    table = pd.DataFrame(parts).fillna(0.0).rename_axis("concept")
    counts = {name: int for name in table if not str(name).startswith("share")}
    ordered = table.sort_values(f"tasks, {VERSIONS[0]}", ascending=False, kind="stable")
    caption = (
        "Tasks of which a concept is detected, and how many of them the baseline solves. A task may"
        " need several."
    )
    return TableData("Concepts of real tasks", caption, ordered.astype(counts).reset_index())
