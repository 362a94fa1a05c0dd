"""What models gain on items whose duplicates they were trained on."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

import bayescontam as bc
from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._cells import Cells, expected_cells
from ._common import mean_and_interval, row_of, rows_of
from ._ecology import ecological, more_draws

TABLE = "duplicate_finetuning"
ITEMS, ERRORS, GENERATIONS = "items", "printed standard errors", "generations as items"
"""What a printed accuracy is counted out of."""
BASE = "none"
KINDS = ("exact", "semantic")
"""How the names of trainings on duplicates begin."""


def analyse(study: Study) -> bc.Findings:
    """Fit the printed accuracies, counted in three ways, and the ecological experiment."""
    spec = study.model("aggregated", study.settings["changes"])
    printed = printed_rows(study)
    gains, notes = {}, []
    for count in (ITEMS, ERRORS, GENERATIONS):
        gains[count], failed = fitted_gains(study, printed, count, spec)
        notes += failed
    table = pd.concat([_rows(printed, of, count) for count, of in gains.items()])
    ecology = ecological(study, spec)
    return bc.Findings(
        f"{_headline(printed, gains[ITEMS])} {ecology.headline}",
        (
            *_compared(table[table["counted"] == ITEMS], study.source(TABLE)),
            *ecology.comparisons,
        ),
        (_kinds(table), _widths(table), *ecology.pictures),
        (*_tables(printed, table, gains), *ecology.tables),
        (*notes, *ecology.notes),
    )


def fitted_gains(
    study: Study, printed: pd.DataFrame, count: str, spec: bc.ModelSpec
) -> tuple[dict[tuple[str, str, str], np.ndarray], list[str]]:
    """Return draws of all gains, a fit for each benchmark, and the checks that failed.

    Benchmarks gain so differently that what one of them says is no guide to another.
    """
    gains: dict[tuple[str, str, str], np.ndarray] = {}
    notes = []
    for target, own in printed.groupby("target", sort=False):
        responses, short = counted(own, count), count.replace(" ", "-")
        name = f"{short}-{str(target).lower()}"
        fit = study.fit(name, responses, spec, **more_draws(study, short))
        notes += study.failed_checks(name, fit)
        gains |= gain_draws(own, expected_cells(fit, responses))
    return gains, notes


def printed_rows(study: Study) -> pd.DataFrame:
    """Return the printed accuracies with the number of items and generations of each."""
    table = study.table(TABLE)
    control = table["split"] == "control"
    benchmark = table["target"].where(~control, table["control"])
    size = np.where(table["split"].isin(["seen", "unseen"]), "half", "all")
    return pd.DataFrame(
        {
            "target": table["target"],
            "training": table["training"],
            "model": table["target"] + ", " + table["training"],
            "benchmark": benchmark,
            "group": table["split"],
            "accuracy": table["accuracy"] / 100,
            "stderr": table["stderr"] / 100,
            "items": [
                int(study.printed("items", f"{name} {part}")["value"])
                for name, part in zip(benchmark, size, strict=True)
            ],
            "generations": np.where(control, 1, int(study.printed("generations")["value"])),
        }
    )


def counted(printed: pd.DataFrame, count: str) -> bc.Responses:
    """Return printed accuracies as counts."""
    accuracy = printed["accuracy"]
    trials = {
        ITEMS: printed["items"],
        ERRORS: accuracy * (1 - accuracy) / printed["stderr"] ** 2,
        GENERATIONS: printed["items"] * printed["generations"],
    }[count]
    trials = np.rint(trials).astype(int)
    table = printed[["model", "benchmark", "group"]].assign(
        item=printed["benchmark"] + ", " + printed["group"],
        n_correct=np.rint(accuracy * trials).astype(int),
        n_trials=trials,
        contamination=(printed["group"] == "seen").astype(float),
    )
    return bc.Responses.from_frame(table, source=f"{TABLE}.csv ({count})")


def base_group(group: str) -> str:
    """Return the group of the model before finetuning that a group is held against."""
    return group if group == "control" else "all"


def gain_draws(printed: pd.DataFrame, cells: Cells) -> dict[tuple[str, str, str], np.ndarray]:
    """Return draws of the gain over the model before finetuning."""
    return {
        (row.target, row.training, row.group): cells.gain(
            (row.model, f"{row.target}, {BASE}"), row.benchmark, row.group, base_group(row.group)
        )
        for row in rows_of(printed[printed["training"] != BASE])
    }


def pooled(gains: dict[tuple[str, str, str], np.ndarray], target: str, group: str) -> np.ndarray:
    """Return draws of the gain averaged over the trainings on duplicates of a benchmark."""
    kinds = [
        draws
        for (of, training, on), draws in gains.items()
        if of == target and on == group and training.startswith(KINDS)
    ]
    return np.mean(kinds, axis=0)


def _rows(
    printed: pd.DataFrame, gains: dict[tuple[str, str, str], np.ndarray], count: str
) -> pd.DataFrame:
    """Return a row for each gain: printed with what its standard errors amount to, and ours."""
    at = {(row.target, row.training, row.group): row for row in rows_of(printed)}
    rows = []
    for (target, training, group), draws in gains.items():
        one, base = at[target, training, group], at[target, BASE, base_group(group)]
        rows.append(
            {
                "target": target,
                "training": training,
                "group": group,
                "counted": count,
                "printed": one.accuracy - base.accuracy,
                "printed_sd": float(np.hypot(one.stderr, base.stderr)),
                **row_of(draws),
                "sd": float(draws.std()),
                "p_positive": float((draws > 0).mean()),
            }
        )
    return pd.DataFrame(rows)


def _headline(printed: pd.DataFrame, gains: dict[tuple[str, str, str], np.ndarray]) -> str:
    parts = []
    for target in printed["target"].unique():
        seen, unseen = (pooled(gains, target, group) for group in ("seen", "unseen"))
        # Whole numbers have no minus zero.
        own, other = (
            [round(100 * x) for x in mean_and_interval(draws)] for draws in (seen, unseen)
        )
        parts.append(
            f"{target} {own[0]:+d} [{own[1]:+d}, {own[2]:+d}] on seen and"
            f" {other[0]:+d} [{other[1]:+d}, {other[2]:+d}] on unseen items"
        )
    return f"Points gained by finetuning on duplicates, mean over kinds: {'; '.join(parts)}."


def _compared(table: pd.DataFrame, source: str) -> Iterator[Comparison]:
    for row in rows_of(table):
        spread = 1.96 * row.printed_sd
        yield Comparison(
            f"gain on {row.group} items",
            f"{row.target}, {row.training}",
            row.printed, row.printed - spread, row.printed + spread, row.mean, row.low, row.high,
            "Printed: difference of two accuracies, interval from their standard errors."
            " Ours counts items and draws kinds of training together.",
            source,
        )  # fmt: skip


def _kinds(table: pd.DataFrame) -> PictureData:
    own = table[(table["counted"] == ITEMS)]
    labels = own["target"] + ", " + own["training"]
    shown = own.assign(label=labels, series=own["group"])
    return PictureData(
        "intervals",
        "Gain by training, printed accuracies counted out of items",
        "Accuracy minus that of the model before finetuning, on the half of the items whose"
        " duplicates were trained on (seen), on the other half (unseen), on all items where none"
        " was trained on (all), and on another benchmark (control).",
        shown[["label", "series", "mean", "low", "high"]],
        "difference of accuracies",
        "benchmark, training",
    )


def _widths(table: pd.DataFrame) -> PictureData:
    seen = table[(table["group"] == "seen")]
    shown = seen.assign(label=seen["target"] + ", " + seen["training"], series=seen["counted"])
    return PictureData(
        "intervals",
        "What counting generations as items changes",
        "Gain on seen items, with the same accuracies counted in three ways.",
        shown[["label", "series", "mean", "low", "high"]],
        "difference of accuracies",
        "benchmark, training",
    )


def _tables(
    printed: pd.DataFrame,
    table: pd.DataFrame,
    gains: dict[str, dict[tuple[str, str, str], np.ndarray]],
) -> Iterator[TableData]:
    rows = [
        {"counted": count, "target": target, "group": group}
        | row_of(draws)
        | {"sd": float(draws.std()), "p_positive": float((draws > 0).mean())}
        for count, of in gains.items()
        for target in printed["target"].unique()
        for group in ("seen", "unseen", "control")
        for draws in [pooled(of, target, group)]
    ]
    yield TableData(
        "Gains, mean over kinds of duplicates",
        "Of the trainings on exact and semantic duplicates, by what accuracies are counted out of.",
        pd.DataFrame(rows),
    )
    yield TableData("All gains", "Printed differences beside ours.", table)
    yield _independent(printed)


def _independent(printed: pd.DataFrame) -> TableData:
    """Return how many independent answers the printed standard errors amount to."""
    accuracy = printed["accuracy"]
    amount = accuracy * (1 - accuracy) / printed["stderr"] ** 2
    parts = printed.assign(amount=amount).groupby(["benchmark", "group"], sort=False)
    table = parts.agg(items=("items", "first"), low=("amount", "min"), high=("amount", "max"))
    return TableData(
        "What the printed standard errors stand for",
        "Independent answers that each standard error amounts to, beside the number of items: on"
        " halves of MuSR and ZebraLogic twice as many as there are items.",
        table.reset_index().round(0),
    )
