"""True effects of contamination: models against the clean twins of the same bases."""

import os
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from bayescontam._files import on_disk
from bayescontam._format import interval, level_text, number
from bayescontam._text import join_list, printable
from bayescontam.data.tables import write_table
from bayescontam.data.validation import check_choice, check_level
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.lab.answering import RESPONSES
from bayescontam.lab.training_runs import read_lab
from bayescontam.specs.lab import LabSpec

EFFECTS = ("total", "direct", "spillover", "control")
"""Effects of a mix, in the order of the rows."""
HALVES = ("seen", "unseen", "control")
"""Parts of the items: in the training texts, of the same benchmark, of a control benchmark."""
COLUMNS = ("model", "base", "mix", "benchmark", "item", "half", "p")
"""Columns of the table of answers."""
TRUTH = "truth.csv"
"""File of the effects, in the folder of a lab."""
CURVE = "curve.csv"
"""File of the effects at each epoch, in the folder of a lab with checkpoints."""
type Measure = Literal["auto", "probability", "replies"]
"""What of answers counts: see `read_accuracies`."""

FEWEST = 0.02
"""Accuracy, or share of failures, below which no mix shows what duplicates do."""
_CELL = ["mix", "benchmark"]
_ITEM = ["base", "benchmark", "item"]
_TABLE = "table of answers"


def twin_effects(table: pd.DataFrame, *, clean: str = "clean", level: float = 0.95) -> pd.DataFrame:
    r"""Estimate the effects of each mix from models and their clean twins.

    Let :math:`p_{mbi}` be the mean over models of mix m and base b of the probability that item
    i is answered right, and :math:`d_{bi} = p_{mbi} - p_{\text{clean},bi}` the difference from
    the clean twin of the same base. For the items of a benchmark, with :math:`S_b` those that
    are seen by the models of base b and :math:`U_b` those that are not,

    .. math::

        \text{total}_b &= \textstyle\sum_{i \in S_b \cup U_b} d_{bi} / |S_b \cup U_b| \\
        \text{spillover}_b &= \textstyle\sum_{i \in U_b} d_{bi} / |U_b| \\
        \text{direct}_b &= \textstyle\sum_{i \in S_b} d_{bi} / |S_b| - \text{spillover}_b \\
        \text{control}_b &= \textstyle\sum_{i \in C_b} d_{bi} / |C_b|

    where :math:`C_b` are the items of the half `control`, which no other effect counts. Hence
    total = spillover + share of seen items × direct, base by base.

    The replicates are the B bases, paired with their twins. The estimate of an effect e is the
    mean of :math:`e_b`, its variance that between bases divided by B,

    .. math::

        \hat e = \sum_b e_b / B, \qquad
        \text{se}^2 = \sum_b (e_b - \hat e)^2 / (B (B - 1)),

    and the interval :math:`\hat e \pm t_{B-1} \, \text{se}`, for new bases and the same items.
    Beside it is the error over items within bases, as if each base had items of its own,

    .. math::

        \text{item\_se}^2 = \sum_b v_b / B^2, \qquad v_b = s_b^2 / n_b,

    with the variance :math:`s_b^2` of :math:`d_{bi}` over the :math:`n_b` items of an effect;
    for the direct effect :math:`v_b` is the sum of that of seen and of unseen items.

    Parameters
    ----------
    table : pandas.DataFrame
        A row per model and item: ``model, base, mix, benchmark, item``, ``half`` ("seen",
        "unseen" or "control"), and ``p``, the probability of the right answer or the share of
        right answers, from 0 to 1. The halves of items are those of the contaminated models;
        those of clean models are not used. Models of one base and mix are averaged first.
    clean : str, default "clean"
        Mix of the clean twins. Each base of another mix needs such a twin with the same items.
    level : float, default 0.95
        Coverage of the intervals.

    Returns
    -------
    pandas.DataFrame
        ``mix, benchmark, effect, estimate, se, low, high, item_se, bases, items``: a row per mix
        but the clean one, benchmark and effect. An effect without items has no row; `bases` and
        `items` count those that inform it. With one base ``se``, ``low`` and ``high`` are
        missing; with one item in a half, so is ``item_se``.

    Raises
    ------
    DataError
        If columns, values or twins are missing, or a model has an item twice.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [
    ...     (f"{mix}-{base}", base, mix, "sums", item, half, p)
    ...     for base, gain in (("a", 0.2), ("b", 0.4))
    ...     for mix in ("clean", "exact")
    ...     for item, half in (("1", "seen"), ("2", "unseen"))
    ...     for p in [0.3 + (gain if mix == "exact" and half == "seen" else 0.0)]
    ... ]
    >>> columns = ["model", "base", "mix", "benchmark", "item", "half", "p"]
    >>> effects = twin_effects(pd.DataFrame(rows, columns=columns))
    >>> effects[["effect", "estimate", "se"]].round(3).to_numpy().tolist()
    [['total', 0.15, 0.05], ['direct', 0.3, 0.1], ['spillover', 0.0, 0.0]]
    """
    check_level(level)
    _check(table, clean)
    halves = pd.Categorical(table["half"], categories=HALVES)
    grouped = table.assign(half=halves.codes, p=pd.to_numeric(table["p"])).groupby(
        ["mix", *_ITEM], sort=False
    )
    means = grouped.agg(p=("p", "mean"), half=("half", "first"), halves=("half", "nunique"))
    rows = means.reset_index()
    rows = _with_differences(rows[rows["mix"] != clean], rows[rows["mix"] == clean], clean)
    by_base = pd.concat([_of_bases(rows, effect) for effect in EFFECTS])
    effects = by_base.groupby([*_CELL, "effect"], sort=False).agg(
        estimate=("value", "mean"),
        sd=("value", "std"),
        variance=("variance", lambda v: v.sum(skipna=False)),
        bases=("value", "size"),
    )
    effects["se"] = effects["sd"] / np.sqrt(effects["bases"])
    effects["item_se"] = np.sqrt(effects["variance"]) / effects["bases"]
    t = stats.t.ppf(0.5 + level / 2, (effects["bases"] - 1).clip(lower=1))
    effects["low"] = effects["estimate"] - t * effects["se"]
    effects["high"] = effects["estimate"] + t * effects["se"]
    effects = effects.join(_items(rows, by_base))
    # In the order in which mixes and benchmarks first appear, then that of the effects.
    order = [
        (*cell, effect)
        for cell in rows[_CELL].drop_duplicates().itertuples(index=False, name=None)
        for effect in EFFECTS
    ]
    effects = effects.loc[[key for key in order if key in effects.index]].reset_index()
    names = ["estimate", "se", "low", "high", "item_se", "bases", "items"]
    return effects[[*_CELL, "effect", *names]]


def lab_truth(
    folder: str | os.PathLike[str], *, level: float = 0.95, measure: Measure = "auto"
) -> pd.DataFrame:
    """Estimate the true effects of the mixes of a lab, and write them to ``truth.csv``.

    Models are compared after their last epoch. Of a lab with checkpoints the effects at each epoch
    are written to ``curve.csv`` (epoch, mix, benchmark, effect, estimate, low, high), against the
    clean twins at the same epoch.

    Parameters
    ----------
    folder : path
        Folder of a lab whose models have answered (`answer_lab`).
    level : float, default 0.95
        Coverage of the intervals.
    measure : {"auto", "probability", "replies"}, default "auto"
        What the accuracy of a model on an item is: the probability of its answer, or the share
        of right replies. By default the former where it is the chance of a right reply (replies
        that are the answer itself, ``grade = "exact"``), else the latter.

    Returns
    -------
    pandas.DataFrame
        ``mix, kind, copies, benchmark, effect, estimate, se, low, high, item_se, bases, items``:
        the kind of each mix and its texts for each exposed item, and the effects on accuracy
        as `bayescontam.lab.truth.twin_effects` defines them.

    Raises
    ------
    UsageError
        If the folder is of no lab, or not all of its models have answered.
    DataError
        If there are no twins to compare.

    Examples
    --------
    >>> import bayescontam
    >>> truth = bayescontam.lab_truth("lab")  # doctest: +SKIP
    >>> truth.query("effect == 'total'")[["mix", "low", "high"]]  # doctest: +SKIP
    """
    lab = Path(folder)
    spec = read_lab(lab)
    effects = truth_of(read_accuracies(lab, measure), spec, level=level)
    with on_disk(lab / TRUTH):
        if spec.training.checkpoints:
            every = read_accuracies(lab, measure, every_epoch=True)
            write_table(lab / CURVE, curve_of(every, spec, level=level))
        write_table(lab / TRUTH, effects)
    return effects


def truth_of(answers: pd.DataFrame, spec: LabSpec, *, level: float = 0.95) -> pd.DataFrame:
    """Return the effects of the mixes of a lab, with their kinds and doses."""
    effects = twin_effects(answers, clean=spec.twin, level=level)
    mixes = {mix.name: mix for mix in spec.mixes}
    effects.insert(1, "kind", [mixes[name].kind for name in effects["mix"]])
    effects.insert(2, "copies", [mixes[name].copies for name in effects["mix"]])
    return effects


def curve_of(answers: pd.DataFrame, spec: LabSpec, *, level: float = 0.95) -> pd.DataFrame:
    """Return the effects of the mixes at each epoch, from the answers of all checkpoints."""
    parts = [
        twin_effects(own, clean=spec.twin, level=level).assign(epoch=epoch)
        for epoch, own in answers.groupby("checkpoint")
    ]
    names = ["epoch", *_CELL, "effect", "estimate", "low", "high"]
    return pd.concat(parts, ignore_index=True)[names]


def truth_sentence(effects: pd.DataFrame, answers: pd.DataFrame, level: float = 0.95) -> str:
    """Return the largest total effect of duplicates in words, and of what it consists.

    Models that solve next to nothing, or next to everything, can show no effect: then that is
    what is said, as "none" and "none could show" must not look alike.

    Parameters
    ----------
    effects : pandas.DataFrame
        As from `lab_truth`.
    answers : pandas.DataFrame
        What they follow from, as from `read_accuracies`.
    level : float, default 0.95
        Coverage of the intervals.

    Returns
    -------
    str
        A sentence or two.
    """
    rows = [row for row in effects.to_dict("records") if row["kind"] in ("exact", "semantic")]
    totals = [row for row in rows if row["effect"] == "total"]
    if not totals:
        return "No mix has duplicates of a benchmark that models have answered."
    solved = answers[answers["half"] != "control"].groupby(["mix", "benchmark"])["p"].mean()
    for what, share in (("solve", solved.max()), ("fail", 1 - solved.min())):
        if share < FEWEST:
            few = "less than 0.1 %" if share < 0.001 else f"at most {100 * share:.1f} %"
            return (
                f"No effect can show: the models {what} {few} of the items of"
                " any benchmark with duplicates. Effects of 0 mean nothing here; let models learn"
                f" {'more, on more background' if what == 'solve' else 'harder items'}."
            )
    largest = max(totals, key=lambda row: abs(row["estimate"]))
    spoken = [
        row
        for row in rows
        if row["effect"] != "control" and all(row[name] == largest[name] for name in _CELL)
    ]
    said = {
        row["effect"]: f"{number(row['estimate'])} {interval(row['low'], row['high'])}".rstrip()
        for row in spoken
    }
    times = "once" if largest["copies"] == 1 else f"{largest['copies']} times"
    how = "in other words" if largest["kind"] == "semantic" else "as they are"
    ending = f"Intervals of {level_text(level)} are over {largest['bases']} bases."
    if pd.isna(largest["low"]):
        ending = "With one base there are no intervals."
    elif not any(row["low"] > 0 or row["high"] < 0 for row in spoken):
        ending += " None excludes zero."
    return (
        f"Training on items of '{printable(largest['benchmark'], 60)}' {how}, {times} each, changes"
        f" accuracy on it by {said['total']} in all: by {said.get('spillover', '–')} on items that"
        f" were not trained on (spillover), and by {said.get('direct', '–')} more on those that"
        f" were (direct). {ending}"
    )


def resolved_measure(measure: Measure, spec: LabSpec) -> Literal["probability", "replies"]:
    """Return what accuracy is in a lab: see `lab_truth`."""
    if measure == "auto":
        return "probability" if spec.answers.grade == "exact" else "replies"
    return measure


def read_accuracies(
    folder: Path, measure: Measure = "auto", *, every_epoch: bool = False
) -> pd.DataFrame:
    """Return the responses of a lab, with the accuracy on each item as ``p``.

    Those of checkpoints before the last epoch are left out, unless `every_epoch`.
    """
    check_choice("measure", measure, Measure)
    spec = read_lab(folder)
    if not (folder / RESPONSES).is_file():
        raise UsageError(
            f"{printable(folder)}: not all models have answered; run: bayescontam lab answer"
            f" {printable(folder)}"
        )
    names = dict.fromkeys(("model", "benchmark", "item", "base", "mix", "half", "run"), str)
    table = pd.read_csv(
        folder / RESPONSES, dtype=names, keep_default_na=False, na_values={"p": [""]}
    )
    if resolved_measure(measure, spec) == "replies":
        table["p"] = table["n_correct"] / table["n_trials"]
    if spec.training.checkpoints and not every_epoch:
        last = table["checkpoint"] == spec.training.epochs
        table = table[last].reset_index(drop=True)
    return table


def clean_accuracy(table: pd.DataFrame, *, clean: str = "clean") -> pd.DataFrame:
    """Return the accuracy of the clean twin of each base on each benchmark.

    Parameters
    ----------
    table : pandas.DataFrame
        As that of `twin_effects`.
    clean : str, default "clean"
        Mix of the clean twins.

    Returns
    -------
    pandas.DataFrame
        ``benchmark, base, accuracy, sd``: in ``sd`` the standard deviation of accuracies between
        bases, the same for all rows of a benchmark, and missing where there is one base.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [
    ...     ("1", base, "clean", "sums", "i", "seen", p) for base, p in (("a", 0.2), ("b", 0.4))
    ... ]
    >>> clean_accuracy(pd.DataFrame(rows, columns=[*COLUMNS]))["sd"].round(3).tolist()
    [0.141, 0.141]
    """
    own = table[table["mix"] == clean]
    means = own.groupby(["benchmark", "base"], sort=False)["p"].mean().rename("accuracy")
    spread = means.groupby("benchmark", sort=False).transform("std").rename("sd")
    return pd.concat([means, spread], axis=1).reset_index()


def _with_differences(rows: pd.DataFrame, twins: pd.DataFrame, clean: str) -> pd.DataFrame:
    """Return the rows of contaminated models with `difference`, theirs from the clean twin."""
    torn = rows[rows["halves"] > 1]
    if len(torn):
        item = torn.iloc[0]
        problem = (
            f"item '{item['item']}' of base '{item['base']}' and mix '{item['mix']}' is in several"
            " halves; models that are averaged have the same halves"
        )
        raise DataError([Fault(_TABLE, problem, column="half")])
    merged = rows.merge(
        twins[[*_ITEM, "p"]].rename(columns={"p": "twin"}), on=_ITEM, how="left", sort=False
    )
    alone = merged[merged["twin"].isna()]
    if len(alone):
        bases = alone["base"].drop_duplicates()
        lacking = [base for base in bases if base not in set(twins["base"])]
        if lacking:
            problem = f"no model of mix '{clean}' for {join_list(map(str, lacking))}"
            advice = "each base needs a clean twin: train it, or leave the base out"
            raise DataError([Fault(_TABLE, problem, column="base")], advice)
        item = alone.iloc[0]
        problem = (
            f"{len(alone):,} items without an answer of the clean twin, the first '{item['item']}'"
            f" of benchmark '{item['benchmark']}' and base '{item['base']}'"
        )
        raise DataError([Fault(_TABLE, problem, column="item")], "twins answer the same items")
    merged["difference"] = merged["p"] - merged["twin"]
    merged["half"] = np.array(HALVES, dtype=object)[merged["half"]]
    return merged


def _of_bases(rows: pd.DataFrame, effect: str) -> pd.DataFrame:
    """Return `value` and `variance` of an effect per mix, benchmark and base."""
    if effect == "direct":
        seen, unseen = _mean(rows, ("seen",)), _mean(rows, ("unseen",))
        both = seen.index.intersection(unseen.index, sort=False)
        value = seen["value"].loc[both] - unseen["value"].loc[both]
        variance = seen["variance"].loc[both] + unseen["variance"].loc[both]
        found = pd.DataFrame({"value": value, "variance": variance})
    else:
        found = _mean(rows, _halves(effect))
    return found.reset_index().assign(effect=effect)


def _mean(rows: pd.DataFrame, halves: tuple[str, ...]) -> pd.DataFrame:
    """Return the mean difference over the items of halves, and the variance of that mean."""
    chosen = rows[rows["half"].isin(halves)]
    found = chosen.groupby([*_CELL, "base"], sort=False)["difference"].agg(["mean", "var", "size"])
    return pd.DataFrame({"value": found["mean"], "variance": found["var"] / found["size"]})


def _halves(effect: str) -> tuple[str, ...]:
    """Return the halves whose items inform an effect."""
    of = {"spillover": ("unseen",), "control": ("control",)}
    return of.get(effect, ("seen", "unseen"))


def _items(rows: pd.DataFrame, by_base: pd.DataFrame) -> pd.Series:
    """Return the numbers of items that inform the effects."""
    counts = {}
    for effect in EFFECTS:
        bases = by_base[by_base["effect"] == effect][[*_CELL, "base"]]
        used = rows[rows["half"].isin(_halves(effect))].merge(bases, on=[*_CELL, "base"])
        counts[effect] = used.groupby(_CELL, sort=False)["item"].nunique()
    items = pd.concat(counts).rename("items")
    return items.rename_axis(["effect", *_CELL]).reorder_levels([1, 2, 0])


def _check(table: pd.DataFrame, clean: str) -> None:
    """Raise a DataError if the table cannot be used."""
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        problem = f"no column {join_list(missing)}; needed are {join_list(COLUMNS)}"
        raise DataError([Fault(_TABLE, problem)])
    faults = []
    for name in COLUMNS[:-1]:
        if table[name].isna().any():
            row = int(np.flatnonzero(table[name].isna())[0]) + 1
            faults.append(Fault(_TABLE, "missing; each row needs a value", row, name))
    wrong = ~table["half"].isin(HALVES) & table["half"].notna()
    for row in np.flatnonzero(wrong).tolist():
        problem = f"got '{table['half'].iloc[row]}'; allowed are {join_list(HALVES)}"
        faults.append(Fault(_TABLE, problem, row + 1, "half"))
    p = pd.to_numeric(table["p"], errors="coerce")
    for row in np.flatnonzero(~p.between(0, 1)).tolist():
        problem = f"got {table['p'].iloc[row]}; allowed are probabilities from 0 to 1"
        faults.append(Fault(_TABLE, problem, row + 1, "p"))
    twice = table.duplicated(["model", "mix", *_ITEM])
    for row in np.flatnonzero(twice).tolist():
        problem = "an item that this model has in an earlier row; average its answers first"
        faults.append(Fault(_TABLE, problem, row + 1, "item"))
    if faults:
        raise DataError(faults)
    mixes = list(map(str, table["mix"].drop_duplicates()))
    if clean not in mixes or len(mixes) < 2:
        problem = f"mixes are {join_list(mixes)}; needed are '{clean}' and at least one other"
        raise DataError([Fault(_TABLE, problem, column="mix")])
