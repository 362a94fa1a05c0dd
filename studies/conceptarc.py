"""ConceptARC by concept, from the printed table and from single items."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import binomtest

import bayescontam as bc
from bayescontam.data.importers.arc import load_tasks
from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._common import TAILS, mean_and_interval, row_of, rows_of
from ._concept_answers import TASKS, baseline_parts, minimal_parts, on_minimal_tasks

TABLE = "conceptarc_table1"
HUMANS, FIRST, SECOND = "humans", "kaggle_first", "kaggle_second"
NAMES = {HUMANS: "humans", FIRST: "first program", SECOND: "second program", "gpt4": "GPT-4"}
ROUNDING = 0.0051
"""Half of the last printed digit."""
ITEMS = "conceptarc.csv"
"""Answers to single items, in the data folder."""
BY_TABLE, BY_ITEM = "printed table", "single items"
POINTS = "accuracy"


def table_responses(printed: pd.DataFrame, items: int) -> bc.Responses:
    """Return printed accuracies as counts out of the items of a concept."""
    table = printed[["model", "concept"]].assign(
        benchmark="ConceptARC",
        item=printed["concept"],
        n_correct=np.rint(printed["printed"] * items).astype(int),
        n_trials=items,
    )
    return bc.Responses.from_frame(table, source=f"{TABLE}.csv (printed figures)")


def item_responses(path: Path, solvers: dict[str, str], printed: pd.DataFrame) -> bc.Responses:
    """Return answers to single items, attention checks left out, with the printed names."""
    frame = bc.read_responses(path, where="not minimal").frame
    frame = frame[frame["model"].isin(solvers)]
    concepts = by_folder(printed)
    if strange := sorted(set(frame["concept"].astype(str)) - set(concepts)):
        named, known = (", ".join(map(repr, names)) for names in (strange, concepts))
        raise bc.UsageError(
            f"{path}: concept: no printed concept is called {named}; they are {known}"
        )
    frame = frame.assign(model=frame["model"].map(solvers), concept=frame["concept"].map(concepts))
    return bc.Responses.from_frame(frame, source=path.name)


def by_folder(printed: pd.DataFrame) -> dict[str, str]:
    """Return concepts by their names as folders of tasks have them: AboveBelow."""
    return {
        "".join(word for word in concept.title().split() if word != "And"): concept
        for concept in printed["concept"].unique()
    }


def disagreements(printed: pd.DataFrame, answers: pd.DataFrame) -> list[str]:
    """Return a note for each printed accuracy that single items, if any, do not amount to."""
    share = (answers["n_correct"] / answers["n_trials"]).groupby(
        [answers["model"], answers["concept"]]
    )
    own = printed.join(share.mean().rename("own"), on=["model", "concept"])
    return [
        f"{NAMES[row.model]} on {row.concept}: {row.printed:.2f} is printed, "
        + (
            "there are no single items."
            if np.isnan(row.own)
            else f"the single items amount to {row.own:.2f}."
        )
        for row in rows_of(own)
        if not abs(row.own - row.printed) <= ROUNDING
    ]


def analyse(study: Study) -> bc.Findings:
    """Fit the printed accuracies, and single items where their table is given."""
    table = study.table(TABLE).drop(columns="source")
    printed = table.melt("concept", var_name="model", value_name="printed")
    spec = study.model("concepts", study.settings["changes"])
    fits = {BY_TABLE: study.fit("table", table_responses(printed, study.settings["items"]), spec)}
    notes = study.failed_checks("table", fits[BY_TABLE])
    if (path := study.shared(ITEMS)) is not None:
        answers = item_responses(path, study.settings["solvers"], printed)
        fits[BY_ITEM] = study.fit("items", answers, "concepts")
        notes += study.failed_checks("items", fits[BY_ITEM])
        notes += disagreements(printed, answers.frame)
    else:
        notes.append(
            f"{ITEMS} is not in the data folder: what single items and their difficulty add is"
            " left out. Name the folder that holds it with --data."
        )
    draws = {name: abilities(fit, printed) for name, fit in fits.items()}
    pictures, tables, more = _answers(study, printed)
    return bc.Findings(
        _headline(draws[BY_TABLE], study.settings["items"]),
        (*_gaps(study, draws), *_cells(study, printed, draws[BY_TABLE])),
        (
            _accuracies(draws[BY_TABLE], study.settings["items"]),
            _best(draws[BY_TABLE]),
            _gap_picture(draws),
            *pictures,
        ),
        (*_tables(printed, draws, fits), *tables),
        (*notes, *more),
    )


def _answers(
    study: Study, printed: pd.DataFrame
) -> tuple[list[PictureData], list[TableData], list[str]]:
    """Return what minimal tasks show, and what the baseline's answers are, where data are given."""
    pictures: list[PictureData] = []
    tables: list[TableData] = []
    notes: list[str] = []
    if (path := study.shared(ITEMS)) is not None:
        names = {name: NAMES[model] for name, model in study.settings["solvers"].items()}
        picture, table = minimal_parts(on_minimal_tasks(study, path, names))
        pictures.append(picture)
        tables.append(table)
    if (folder := study.shared(TASKS)) is None:
        notes.append(
            f"{TASKS} is not in the data folder: what the answers of the baseline solver are, by"
            " kind of error and number of guesses, is left out."
        )
        return pictures, tables, notes
    own_pictures, own_tables, own_notes = baseline_parts(
        study, load_tasks(folder), by_folder(printed)
    )
    return pictures + own_pictures, tables + own_tables, notes + own_notes


def abilities(fit: bc.Fit, printed: pd.DataFrame) -> xr.DataArray:
    """Return draws of accuracy, dims (draw, model, concept), in the printed order."""
    draws = fit.data["estimands_by_concept"]["accuracy"].stack(sample=("chain", "draw"))
    order = {name: list(printed[name].unique()) for name in ("model", "concept")}
    return draws.reset_index("sample", drop=True).sel(order).transpose("sample", "model", "concept")


def p_best(draws: xr.DataArray) -> pd.DataFrame:
    """Return the probability that a solver is best at a concept, concept × solver."""
    best = (draws == draws.max("model")).mean("sample").transpose("concept", "model")
    index, columns = (pd.Index(best[name].to_numpy(), name=name) for name in best.dims)
    return pd.DataFrame(best.to_numpy(), index, columns)


def gap(draws: xr.DataArray, better: str, worse: str) -> xr.DataArray:
    """Return draws of the difference of two solvers, dims (draw, concept)."""
    return draws.sel(model=better, drop=True) - draws.sel(model=worse, drop=True)


def _headline(draws: xr.DataArray, items: int) -> str:
    machines = draws.drop_sel(model=HUMANS)
    sure = int((p_best(draws)[HUMANS] > 0.95).sum())
    first = int((p_best(machines)[FIRST] > 0.95).sum())
    mean, low, high = (
        100 * x for x in mean_and_interval(gap(draws, HUMANS, FIRST).mean("concept"))
    )
    return (
        f"Humans are best at {sure} of {draws.sizes['concept']} concepts with probability above"
        f" 0.95; over all concepts they lead the first program by {mean:.0f} points"
        f" [{low:.0f}, {high:.0f}]. Among the machines the first program is best with that"
        f" certainty at only {first} concepts: {items} items a concept show no more."
    )


def _gaps(study: Study, draws: dict[str, xr.DataArray]) -> Iterator[Comparison]:
    for name, of in draws.items():
        for better, worse in ((HUMANS, FIRST), (FIRST, SECOND)):
            yield study.compared(
                "gap",
                mean_and_interval(gap(of, better, worse).mean("concept")),
                "Printed as a difference of means over concepts, without an interval.",
                where=f"{better} - {worse}",
                label=f"{NAMES[better]} − {NAMES[worse]}; {name}",
            )


def _cells(study: Study, printed: pd.DataFrame, draws: xr.DataArray) -> Iterator[Comparison]:
    items, source = study.settings["items"], study.source(TABLE)
    for row in rows_of(printed):
        ours = mean_and_interval(draws.sel(model=row.model, concept=row.concept))
        of_solver = printed[printed["model"] == row.model]
        others = of_solver.loc[of_solver["concept"] != row.concept, "printed"].mean()
        reason = moved(row.printed, ours[0], others)
        if not ours[1] <= row.printed <= ours[2]:
            low, high = alone(row.printed, items)
            reason += f" Its {items} items alone leave {low:.2f} to {high:.2f}."
        where = f"{NAMES[row.model]}, {row.concept}"
        numbers = (row.printed, np.nan, np.nan, *ours)
        yield Comparison("accuracy", where, *numbers, reason, source)


def moved(printed: float, ours: float, others: float) -> str:
    """Return in words which way our estimate lies from the printed one.

    >>> moved(0.5, 0.45, 0.3)
    'Drawn down towards what the solver does on other concepts.'
    >>> moved(0.5, 0.45, 0.6)
    'Drawn away from what the solver does on other concepts.'
    """
    if abs(ours - printed) <= ROUNDING:
        return "As printed, but for rounding."
    up, nearer = ours > printed, (ours - printed) * (others - printed) > 0
    way = f"Drawn {'up' if up else 'down'} towards" if nearer else "Drawn away from"
    return f"{way} what the solver does on other concepts."


def alone(share: float, items: int) -> tuple[float, float]:
    """Return the 95 % interval of an accuracy that nothing else is known of.

    Clopper & Pearson (1934), doi:10.1093/biomet/26.4.404.
    """
    interval = binomtest(round(share * items), items).proportion_ci(0.95)
    return float(interval.low), float(interval.high)


def _accuracies(draws: xr.DataArray, items: int) -> PictureData:
    rows = [
        {"label": concept, "series": NAMES[model]} | row_of(draws.sel(model=model, concept=concept))
        for concept in draws["concept"].to_numpy()
        for model in draws["model"].to_numpy()
    ]
    return PictureData(
        "intervals",
        "Accuracy by concept, from the printed table",
        f"Posterior means with 95 % intervals. A concept has {items} items; what a solver does on"
        " the other concepts counts too.",
        pd.DataFrame(rows),
        POINTS,
        "concept",
    )


def _best(draws: xr.DataArray) -> PictureData:
    best = p_best(draws.drop_sel(model=HUMANS)).rename(columns=NAMES)
    table = best.rename_axis("row").reset_index().melt("row", var_name="column")
    return PictureData(
        "grid",
        "Which machine is best at a concept",
        "Posterior probability that a machine has the highest accuracy of the three, from the"
        " printed table. Near one third the table cannot decide.",
        table,
        "solver",
        "concept",
    )


def _gap_picture(draws: dict[str, xr.DataArray]) -> PictureData:
    rows = [
        {"label": concept, "series": name} | row_of(gap(of, HUMANS, FIRST).sel(concept=concept))
        for concept in draws[BY_TABLE]["concept"].to_numpy()
        for name, of in draws.items()
    ]
    return PictureData(
        "intervals",
        "Lead of humans over the first program",
        "Difference of accuracies on each concept, with 95 % intervals.",
        pd.DataFrame(rows),
        "difference of accuracies",
        "concept",
    )


def _tables(
    printed: pd.DataFrame, draws: dict[str, xr.DataArray], fits: dict[str, bc.Fit]
) -> Iterator[TableData]:
    table = printed.assign(model=printed["model"].map(NAMES))
    for name, of in draws.items():
        columns = [row_of(of.sel(model=r.model, concept=r.concept)) for r in rows_of(printed)]
        table = table.join(pd.DataFrame(columns).add_suffix(f" ({name})"))
    yield TableData("Accuracies", "Printed, and posterior means with 95 % intervals.", table)
    best = p_best(draws[BY_TABLE]).rename(columns=NAMES).reset_index()
    yield TableData("Best at a concept", "Posterior probability, from the printed table.", best)
    pairs = [
        {"pair": f"{NAMES[one]} − {NAMES[other]}", "from": name}
        | row_of(both)
        | {"p_positive": float((both > 0).mean())}
        for name, of in draws.items()
        for one, other in combinations(of["model"].to_numpy(), 2)
        for both in [gap(of, one, other).mean("concept")]
    ]
    yield TableData("Gaps over all concepts", "Differences of mean accuracy.", pd.DataFrame(pairs))
    if BY_ITEM in fits:
        yield _added(draws, fits[BY_ITEM])


def _added(draws: dict[str, xr.DataArray], fit: bc.Fit) -> TableData:
    """Return what single items change: how wide intervals are, and how items differ."""
    rows = []
    for model in draws[BY_TABLE]["model"].to_numpy():
        row: dict[str, object] = {"solver": NAMES[str(model)]}
        for name, of in draws.items():
            ends = of.sel(model=model).quantile(TAILS, "sample")
            row[f"width ({name})"] = float(ends.diff("quantile").mean())
        rows.append(row)
    spread = mean_and_interval(fit.data["posterior"]["sigma_delta"])
    own = mean_and_interval(fit.data["posterior"]["sigma_eps"])
    return TableData(
        "What single items add",
        "Mean width of the 95 % intervals of a concept: from the printed table of the accuracy on"
        " items of its kind, from single items of that on these very items. Items differ in"
        f" difficulty by {spread[0]:.2f} log-odds [{spread[1]:.2f}, {spread[2]:.2f}], and people on"
        f" one item by {own[0]:.2f} [{own[1]:.2f}, {own[2]:.2f}] more than solvers share.",
        pd.DataFrame(rows),
    )
