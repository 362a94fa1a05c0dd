"""Models trained on a mix in which some texts are duplicates of benchmark items."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import bayescontam as bc
from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._cells import Cells, expected_cells, own_cells
from ._common import row_of, rows_of

TABLE = "ecological_finetuning"
ITEMS = "musr_finetuning.csv"
"""Answers to single items of one pair of models, in the data folder."""
BENCHMARK = "MuSR"
CLEAN, DUPLICATED = "clean", ("contaminated", "exact")
OWN = ("olmo3-7b-contaminated", "olmo3-7b-clean")
"""Models of the table of items."""
PRINTED_OF_ITEMS = ("v2", "Olmo 3 7B", 10, "contaminated")
"""Which printed rows the table of items is of."""
MODELS = ("hierarchical", "spillover")
NEW, VERY = "new items of the kind", "these very items and runs"


def ecological(study: Study, spec: bc.ModelSpec) -> bc.Findings:
    """Fit the ecological experiment, and single items where their table is given."""
    printed = printed_rows(study)
    responses = counted(printed)
    fit = study.fit("ecological", responses, spec)
    notes = study.failed_checks("ecological", fit)
    table = gains(printed, expected_cells(fit, responses))
    tables = [
        TableData(
            "Ecological finetuning",
            "Accuracy minus that of the model trained on the clean mix for as many epochs; printed"
            " difference and p-value beside our gain and its probability of being 0 or less.",
            table,
        )
    ]
    pictures = [_picture(table)]
    source = study.source(TABLE)
    comparisons = list(_compared(table, source))
    path = study.shared(ITEMS)
    if path is None:
        notes.append(
            f"{ITEMS} is not in the data folder: what single items show about Olmo 3 is left out."
            " Name the folder that holds it with --data."
        )
        return bc.Findings("", tuple(comparisons), tuple(pictures), tuple(tables), tuple(notes))
    of_items, failed = item_gains(study, path)
    comparisons += _of_items(of_items, printed, source)
    tables.append(
        TableData(
            "Olmo 3, 10 epochs, from single items",
            "Contaminated minus clean, 10 generations an item. On new items the effects that items"
            " have in a model are averaged out, so that their spread makes intervals wide; on"
            " these very items and runs only generations are left to chance.",
            of_items,
        )
    )
    return bc.Findings(
        _headline(of_items), tuple(comparisons), tuple(pictures), tuple(tables), (*notes, *failed)
    )


def printed_rows(study: Study) -> pd.DataFrame:
    """Return the printed accuracies with the number of items of each."""
    table = study.table(TABLE)
    items = int(study.printed("items", "ecological half")["value"])
    names = [
        model_name(*row)
        for row in table[["version", "model", "epoch", "training"]].itertuples(index=False)
    ]
    return pd.DataFrame(
        {
            "version": table["version"],
            "base": table["model"],
            "epoch": table["epoch"],
            "training": table["training"],
            "model": names,
            "group": table["split"],
            "accuracy": table["accuracy"] / 100,
            "p_value": table["p_value_vs_contaminated"],
            "items": items,
        }
    )


def more_draws(study: Study, name: str) -> dict[str, int]:
    """Return the draws of each chain, if the study requests more of a fit than the default."""
    wanted = study.settings["draws"]
    return {"draws": int(wanted[name])} if name in wanted else {}


def model_name(version: str, base: str, epoch: int, training: str) -> str:
    """Return the name of a model by its training."""
    return f"{base}, {training}, {epoch} epochs, {version}"


def counted(printed: pd.DataFrame) -> bc.Responses:
    """Return printed accuracies as counts out of the items of a half.

    Models before finetuning stand in both versions of the paper; they are taken once.
    """
    first = ~printed.duplicated(["base", "epoch", "training", "group", "accuracy"])
    rows = printed[first | (printed["training"] != "none")]
    duplicated = rows["training"].isin(DUPLICATED) & (rows["group"] == "seen")
    table = rows[["model", "group"]].assign(
        benchmark=BENCHMARK,
        item=rows["group"],
        n_correct=np.rint(rows["accuracy"] * rows["items"]).astype(int),
        n_trials=rows["items"],
        contamination=duplicated.astype(float),
    )
    return bc.Responses.from_frame(table, source=f"{TABLE}.csv (printed figures)")


def gains(printed: pd.DataFrame, cells: Cells) -> pd.DataFrame:
    """Return the gain of each model trained on duplicates over the clean one."""
    at = {(r.version, r.base, r.epoch, r.training, r.group): r for r in rows_of(printed)}
    rows = []
    for row in rows_of(printed[printed["training"].isin(DUPLICATED)]):
        clean = at[row.version, row.base, row.epoch, CLEAN, row.group]
        draws = cells.gain((row.model, clean.model), BENCHMARK, row.group)
        rows.append(
            {
                "version": row.version,
                "base": row.base,
                "epoch": row.epoch,
                "training": row.training,
                "group": row.group,
                "printed": row.accuracy - clean.accuracy,
                # Printed p-values are against the contaminated model.
                "p_value": clean.p_value if row.training == "contaminated" else np.nan,
                **row_of(draws),
                "p_none": float((draws <= 0).mean()),
            }
        )
    return pd.DataFrame(rows)


def item_gains(study: Study, path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return the gain on seen and unseen items from answers to single items."""
    frame = bc.read_responses(path).frame
    frame = frame.assign(group=np.where(frame["seen_split"] == 1, "seen", "unseen"))
    responses = bc.Responses.from_frame(frame, source=path.name)
    rows, notes = [], []
    for name in MODELS:
        fit = study.fit(f"items-{name}", responses, name, **more_draws(study, name))
        notes += study.failed_checks(f"items-{name}", fit)
        for of, cells in (
            (NEW, expected_cells(fit, responses)),
            (VERY, own_cells(fit, responses)),
        ):
            for group in ("seen", "unseen"):
                draws = cells.gain(OWN, responses.benchmarks[0], group)
                row = {"model_spec": name, "group": group, "of": of} | row_of(draws)
                rows.append(row | {"p_none": float((draws <= 0).mean())})
    return pd.DataFrame(rows), notes


def _headline(of_items: pd.DataFrame) -> str:
    rows = of_items[(of_items["model_spec"] == MODELS[-1]) & (of_items["of"] == NEW)]
    at = (rows.set_index("group")[["mean", "low", "high"]] * 100).round().astype(int)
    parts = [
        f"{row['mean']:+d} [{row['low']:+d}, {row['high']:+d}] on {group} items"
        for group, row in at.iterrows()
    ]
    return (
        "In the ecological experiment single items show for Olmo 3 that training on duplicates of"
        f" half of the items gains {' and '.join(parts)} of the kind."
    )


def _picture(table: pd.DataFrame) -> PictureData:
    names = table["base"] + ", " + table["training"] + ", " + table["epoch"].astype(str)
    label = names + " (" + table["version"] + ")"
    return PictureData(
        "intervals",
        "Ecological finetuning: gain over the clean mix",
        "Accuracy on MuSR minus that of the model trained on the clean mix, counted out of items.",
        table.assign(label=label, series=table["group"])[
            ["label", "series", "mean", "low", "high"]
        ],
        "difference of accuracies",
        "model, training, epochs (version)",
    )


def _compared(table: pd.DataFrame, source: str) -> Iterator[Comparison]:
    for row in rows_of(table):
        tested = ""
        if not np.isnan(row.p_value):
            tested = (
                f"The printed p = {row.p_value:.1g} takes the generations of one model on one"
                " item for independent. "
            )
        yield Comparison(
            f"ecological gain on {row.group} items",
            f"{row.base}, {row.training}, {row.epoch} epochs, {row.version}",
            row.printed, np.nan, np.nan, row.mean, row.low, row.high,
            f"{tested}Ours counts items, and draws models together.", source,
        )  # fmt: skip


def _of_items(of_items: pd.DataFrame, printed: pd.DataFrame, source: str) -> Iterator[Comparison]:
    at = printed.set_index(["version", "base", "epoch", "training", "group"])["accuracy"]
    version, base, epoch, training = PRINTED_OF_ITEMS
    for row in rows_of(of_items):
        ends = at.loc[[(version, base, epoch, kind, row.group) for kind in (training, CLEAN)]]
        yield Comparison(
            f"ecological gain on {row.group} items",
            f"Olmo 3, single items, {row.model_spec}, {row.of}",
            ends.iloc[0] - ends.iloc[1], np.nan, np.nan, row.mean, row.low, row.high,
            "Single items, with effects of items and of answers to one item.", source,
        )  # fmt: skip
