"""What printed scores of classifiers of duplicates amount to in counts, with intervals."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._common import mean_and_interval, row_of

NAMES = ("MBPP", "CodeForces")
PRINTED = ("accuracy", "precision", "f1")
DIGITS = {"MBPP": (3, 3, 3), "CodeForces": (3, 2, 2)}
"""Decimals to which accuracy, precision and F1 are printed, as shares."""
SHARE_DIGITS = 2
HALF = 0.5
"""What Jeffreys' prior adds to each cell of a confusion table: Dirichlet(1/2, …)."""


@dataclass(frozen=True, eq=False)
class Classifiers:
    """Printed scores of classifiers beside what their counts leave open."""

    comparisons: tuple[Comparison, ...]
    picture: PictureData
    table: TableData
    notes: tuple[str, ...]


def classifiers(study: Study) -> Classifiers:
    """Return intervals of the printed scores, and of recall, which is not printed."""
    comparisons: list[Comparison] = []
    rows, notes = [], []
    for name in NAMES:
        tables = possible_tables(study, name)
        scores = score_draws(study, name, tables)
        comparisons += _compared(study, name, scores)
        rows += [{"measure": key, "classifier": name} | row_of(of) for key, of in scores.items()]
        notes.append(_note(name, tables))
    table = pd.DataFrame(rows)
    shown = table.rename(columns={"measure": "label", "classifier": "series"})
    return Classifiers(
        tuple(comparisons),
        PictureData(
            "intervals",
            "Scores of the classifiers of duplicates",
            "Posterior means with 95 % intervals, from the counts that the printed scores amount"
            " to. Of the pairs to train on 9 % are duplicates, of those of the validation sets"
            " 25 %.",
            shown,
            "share",
            "measure",
        ),
        TableData(
            "Classifiers of duplicates",
            "Scores on held-out pairs with 95 % intervals. Precision at 9 % is what the same"
            " sensitivity and specificity amount to where 9 % of the pairs are duplicates.",
            table,
        ),
        tuple(notes),
    )


def possible_tables(study: Study, name: str) -> np.ndarray:
    """Return all confusion tables that round to the printed scores, dims (table, cell).

    Cells are true positives, false positives, false negatives and true negatives. Those whose
    share of duplicates is nearest the printed one come first.
    """
    where = f"classifier of {name}"
    size = int(study.printed("held_out_pairs", where)["value"])
    share = float(study.printed("share_of_duplicates", where)["value"])
    half = 0.5 * 10.0**-SHARE_DIGITS
    least, most = np.ceil((share - half) * size), np.floor((share + half) * size)
    found = []
    for positives in range(int(least), int(most) + 1):
        hits = np.arange(1, positives + 1)[:, None]
        alarms = np.arange(size - positives + 1)[None, :]
        wrong = positives - hits + alarms
        scores = 1 - wrong / size, hits / (hits + alarms), 2 * hits / (2 * hits + wrong)
        fits = np.ones(wrong.shape, dtype=bool)
        for quantity, score, digits in zip(PRINTED, scores, DIGITS[name], strict=True):
            printed = float(study.printed(quantity, where)["value"])
            fits &= np.abs(score - printed) <= 0.5 * 10.0**-digits + 1e-9
        for hit, alarm in np.argwhere(fits):
            true = int(hits[hit, 0])
            found.append((true, alarm, positives - true, size - positives - alarm))
    tables = np.array(found, dtype=int).reshape(-1, 4)
    apart = np.abs((tables[:, 0] + tables[:, 2]) / size - share)
    return tables[np.argsort(apart, kind="stable")]


def score_draws(study: Study, name: str, tables: np.ndarray) -> dict[str, np.ndarray]:
    """Return draws of each score; of several possible tables each is as likely."""
    rng, count = study.stream("classifier", name), study.settings["draws"]
    chosen = tables[rng.integers(len(tables), size=count)]
    # A Dirichlet draw is a vector of Gamma draws, divided by their sum.
    cells = rng.gamma(chosen + HALF)
    hit, alarm, missed, clear = (cells / cells.sum(axis=1, keepdims=True)).T
    sensitivity, specificity = hit / (hit + missed), clear / (clear + alarm)
    share = float(study.printed("training_share_of_duplicates", f"classifier of {name}")["value"])
    found, false = share * sensitivity, (1 - share) * (1 - specificity)
    return {
        "accuracy": hit + clear,
        "precision": hit / (hit + alarm),
        "f1": 2 * hit / (2 * hit + alarm + missed),
        "recall": sensitivity,
        "specificity": specificity,
        f"precision at {share:.0%}".replace("%", " %"): found / (found + false),
    }


def _compared(study: Study, name: str, scores: dict[str, np.ndarray]) -> Iterator[Comparison]:
    for quantity in PRINTED:
        yield study.compared(
            quantity,
            mean_and_interval(scores[quantity]),
            "Printed without an interval; ours is of the counts that the printed scores amount to.",
            where=f"classifier of {name}",
        )


def _note(name: str, tables: np.ndarray) -> str:
    hit, alarm, missed, clear = tables[0]
    first = (
        f"The printed scores of the classifier of {name} amount to {hit} duplicates found,"
        f" {missed} missed, {alarm} false alarms and {clear} pairs rightly passed"
    )
    others = len(tables) - 1
    if not others:
        return f"{first}, and to no other counts."
    return f"{first}; {others} other {'table is' if others == 1 else 'tables are'} as likely."
