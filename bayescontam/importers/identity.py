"""Identity: which trials are one, which runs are copies, and what an item's name stands for.

These rules hold for all importers:

- A **run** is one evaluation of a model on a benchmark. It has the identity that the tool gives
  it (an id, a date), or its file. Two files of one run are one run.
- An **item** is a name within a benchmark that stands for one text. A name that stands for
  another text in another log names no item.
- A **trial** is one answer to an item in a run, numbered where there are several. The same trial
  in two files counts once; with another answer or score it is a fault.
- Two runs of one model **copy** each other where they have the same answers on every item that
  both have: nothing was random, or one log was written twice. What they share counts once,
  whether one run is a part of the other or not.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from bayescontam.columns import shown
from bayescontam.errors import DataError, Fault
from bayescontam.importers.left_out import LeftOut
from bayescontam.names import visible
from bayescontam.storage import sha256

type Copies = Literal["leave-out", "count"]
"""What becomes of answers that a run shares with another one."""
type Texts = Literal["refuse", "note"]
"""What becomes of names of items that stand for several texts."""

KEYS = ["model", "benchmark", "item"]
REPEATED = "answers that occur again in the same run"
COPIED = "answers of a run that is there already"
_TRIAL = [*KEYS, "run", "trial"]
_MOST = 40
"""Notes of one kind that are written out."""


def fingerprint(value: Any) -> str:
    """Return a hash that stands for an answer or a text, so that neither is held in memory."""
    return sha256(repr(value).encode())


def alike_note(benchmark: str, count: int) -> str:
    """Note that documents are the same, where an item is named by what it holds."""
    return (
        f"{visible(benchmark)}: {count:,} documents occur again under another number; their "
        "answers count as trials of one item"
    )


@dataclass(frozen=True)
class Distinct:
    """Trials of which no two are the same; see `distinct`."""

    trials: pd.DataFrame
    # a row for each model, benchmark and log file: `model, benchmark, file, run`, how many `trials`
    # it has, how many of them `count`, and `same_as`: the file that has the others, "" if there is
    # none
    runs: pd.DataFrame
    notes: list[str]  # what was merged, left out or added up, by name


def distinct(
    trials: pd.DataFrame, left_out: LeftOut, *, copies: Copies = "leave-out", texts: Texts
) -> Distinct:
    """Return trials of which no two are the same."""
    notes = _check_texts(trials, texts)
    same_as = pd.Series("", index=trials.index, dtype=object)
    again = trials.duplicated(_TRIAL)
    if again.any():
        _check_repeats(trials)
        first = trials.groupby(_TRIAL, sort=False)["file"].transform("first")
        same_as[again] = first[again]
        for benchmark, count in trials.loc[again, "benchmark"].value_counts().items():
            left_out.add(str(benchmark), REPEATED, int(count))
    once = trials[~again]
    several = once.groupby(["model", "benchmark"], sort=True)["run"].transform("nunique") > 1
    for (model, benchmark), own in once[several].groupby(["model", "benchmark"], sort=True):
        copied, alike = _copied(own)
        if copies == "leave-out":
            same_as.update(copied)
            left_out.add(str(benchmark), COPIED, len(copied))
        elif len(copied):
            notes.append(
                f"{_pair(model, benchmark)}: {len(copied):,} answers are the same in another run, "
                "and count as further trials"
            )
        notes += [f"{_pair(model, benchmark)}: {text}" for text in alike]
    runs = _runs(trials, same_as)
    return Distinct(trials[same_as == ""], runs, notes + _spelled(runs))


def _pair(model: Hashable, benchmark: Hashable) -> str:
    return f"{visible(str(model), 80)} on {visible(str(benchmark), 60)}"


def _check_texts(trials: pd.DataFrame, texts: Texts) -> list[str]:
    """Refuse names of items that stand for several texts, or note how many there are."""
    known = trials.loc[trials["content"].notna(), ["benchmark", "item", "content", "file"]]
    known = known.drop_duplicates(["benchmark", "item", "content"])
    twice = known[known.duplicated(["benchmark", "item"], keep=False)]
    if twice.empty:
        return []
    counts = twice.drop_duplicates(["benchmark", "item"])["benchmark"].value_counts(sort=False)
    if texts == "note":
        return [
            f"{visible(str(name))}: {count:,} items have another text in some runs; make sure that "
            "their names stand for the same question"
            for name, count in counts.items()
        ]
    first = twice.groupby(["benchmark", "item"], sort=False)["file"].transform("first")
    twice = twice.assign(first=first)
    other = twice[twice.duplicated(["benchmark", "item"])].drop_duplicates("file")
    faults = [
        Fault(
            str(row["file"]),
            f"item {shown(row['item'])} of {visible(str(row['benchmark']), 60)} has another text "
            f"than in {visible(str(row['first']))}",
        )
        for _, row in other.iterrows()
    ]
    raise DataError(
        faults,
        "a name must stand for the same item in all logs; give logs of one version of the data "
        "set; if it has no ids of its own and was shuffled, its numbers name no items "
        "(--differing pool takes them nevertheless)",
    )


def _check_repeats(trials: pd.DataFrame) -> None:
    """Refuse trials that have another answer, text or score where they occur again."""
    # Missing values are equal here: a file may lack what its copy has, but not contradict it.
    again = trials.duplicated(_TRIAL)
    same = trials.duplicated([*_TRIAL, "answer", "content", "correct", "out_of"])
    odd = trials[again & ~same].drop_duplicates("file")
    if odd.empty:
        return
    faults = [
        Fault(
            str(row["file"]),
            f"item {shown(row['item'])} of {visible(str(row['benchmark']), 60)} occurs again in "
            "the same run, with another answer, text or score",
        )
        for _, row in odd.iterrows()
    ]
    raise DataError(faults, "give one of the files of this run; repeats need numbers (epochs)")


def _copied(trials: pd.DataFrame) -> tuple["pd.Series[str]", list[str]]:
    """Return the trials that another run has too, with its file, and notes on doubtful runs."""
    keys = pd.MultiIndex.from_frame(trials[["item", "trial"]])
    where = pd.Series(pd.factorize(keys)[0], index=trials.index)
    # Larger runs first, so that a part is the copy; ties by name, so that order does not count.
    sizes = trials.groupby("run", sort=True).size()
    order = sorted(sizes.index, key=lambda run: (-int(sizes[run]), str(run)))
    copied: dict[int, str] = {}
    notes: list[str] = []
    compared: list[tuple[str, dict[int, tuple[object, float]]]] = []
    for run in order:
        own = trials[trials["run"] == run]
        file = str(own["file"].iloc[0])
        answers = dict(
            zip(where[own.index], zip(own["answer"], own["correct"], strict=True), strict=True)
        )
        for other, known in compared:
            shared = answers.keys() & known.keys()
            if not shared or any(answers[key][1] != known[key][1] for key in shared):
                continue
            if any(answers[key][0] is None or known[key][0] is None for key in shared):
                notes.append(
                    f"{_file(file)} has the same score as {_file(other)} on all {len(shared):,} "
                    "items that both have, and there are no answers to compare: added up as "
                    "trials; if one is a copy, leave it out"
                )
            elif all(answers[key][0] == known[key][0] for key in shared):
                rows = own.index[where[own.index].isin(shared)]
                copied.update({row: other for row in rows if row not in copied})
        compared.append((file, answers))
    return pd.Series(copied, dtype=object), notes


def _file(path: str) -> str:
    return visible(path, 120)


def _runs(trials: pd.DataFrame, same_as: "pd.Series[str]") -> pd.DataFrame:
    """Return a row for each model, benchmark and file; see `Distinct`."""
    rows = trials[["model", "benchmark", "file", "run"]].assign(
        same_as=same_as, counts=same_as == ""
    )
    groups = rows.groupby(["benchmark", "model", "file", "run"], sort=True)
    runs = groups.agg(
        trials=("counts", "size"),
        count=("counts", "sum"),
        same_as=("same_as", "max"),
    )
    return runs.reset_index()[["model", "benchmark", "file", "run", "trials", "count", "same_as"]]


def _spelled(runs: pd.DataFrame) -> list[str]:
    """Name the files that are copies, and those that are added up."""
    copies = []
    for _, row in runs[runs["same_as"] != ""].iterrows():
        left = int(row["trials"] - row["count"])
        share = f"all {left:,}" if row["count"] == 0 else f"{left:,} of its {row['trials']:,}"
        copies.append(
            f"{_pair(row['model'], row['benchmark'])}: {_file(str(row['file']))} is a copy in "
            f"{share} answers, which {_file(str(row['same_as']))} has too; they count once"
        )
    sums = []
    for (benchmark, model), own in runs[runs["count"] > 0].groupby(["benchmark", "model"]):
        if own["run"].nunique() > 1:
            each = own.drop_duplicates("run")["file"].astype(str)
            files = ", ".join(_file(file) for file in each.iloc[:8])
            more = f" and {len(each) - 8} more" if len(each) > 8 else ""
            sums.append(
                f"{_pair(model, benchmark)}: {own['run'].nunique()} runs are combined, and where "
                f"several answered an item these are trials: {files}{more}"
            )
    return _first(copies) + _first(sums)


def _first(notes: Sequence[str]) -> list[str]:
    if len(notes) <= _MOST:
        return list(notes)
    return [*notes[:_MOST], f"… and {len(notes) - _MOST:,} more such; the result's `runs` has all"]
