"""Results of LiveCodeBench (``performances_generation.json``) to responses, with their dates."""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray, IntArray
from bayescontam.data.dates import read_days
from bayescontam.data.importers.base import MARK, Paths
from bayescontam.data.importers.logs import Imported, Importing, LogOptions
from bayescontam.data.jsonl import json_object
from bayescontam.data.tables import read_table
from bayescontam.data.validation import FaultList
from bayescontam.errors import DataError, Fault, UsageError

_PASSED = "pass@1"
_OWN = re.compile(r"\(n\s*=\s*(\d+)\)")  # in the name of a model: how many generations it has
_MOST = 100  # most generations that are recognised from shares in per cent


class _Row(NamedTuple):
    """One model on one problem."""

    file: str
    place: str
    model: str
    benchmark: str
    item: str
    percent: float
    released: str | None
    extra: tuple[Any, ...]


def import_livecodebench(
    paths: Paths,
    *,
    cutoffs: str | os.PathLike[str] | None = None,
    generations: int | None = None,
    **options: Unpack[LogOptions],
) -> Imported:
    """Read results of LiveCodeBench into a table of responses with dates.

    The benchmark is ``livecodebench-PLATFORM``, the item the question's id. Columns ``released``
    (when a problem was published) and ``cutoff`` (up to when a model's training data reach) say
    what a model can have been exposed to; `bayescontam.fit` makes contamination of them.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files ``performances_generation.json``, or folders that hold them.
    cutoffs : path-like, optional
        Table with columns ``model`` and ``cutoff`` (dates as 2023-08-30 or 2023-08; blank if
        unknown), by the names in the file or those of the models' pages. Models that it lacks
        have no cutoff. Default: the dates that the file has for its models.
    generations : int, optional
        Generations for each problem, of which the file has the share in per cent. Default: as
        the model's name states (``(n=1)``), else the smallest number that all shares allow.
    **options
        See `LogOptions`.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError, DataError
        If files are missing, or an option, results or cutoffs cannot be used.

    References
    ----------
    https://livecodebench.github.io, https://arxiv.org/abs/2403.07974

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> row = {"question_id": "q1", "model": "M", "date": 1692662400000, "pass@1": 30.0}
    >>> model = {"model_name": "org/m", "model_repr": "M", "release_date": 1693378800000}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "performances_generation.json")
    ...     content = {"performances": [{**row, "platform": "leetcode"}], "models": [model]}
    ...     _ = file.write_text(json.dumps(content))
    ...     found = import_livecodebench(file)
    >>> found.frame[["n_correct", "n_trials", "released", "cutoff"]].to_numpy().tolist()
    [[3, 10, '2023-08-22', '2023-08-30']]
    """
    if generations is not None and generations < 1:
        raise UsageError(f"generations={generations}: allowed is a whole number from 1 on")
    importing = Importing(paths, options)
    files = importing.files(
        lambda folder: folder.rglob("performances_generation*.json"),
        "holds no performances_generation.json",
    )
    read: list[_Row] = []
    models: dict[str, tuple[str, str | None]] = {}
    for file in files:
        content = json_object(file)
        read += _rows(content, str(file), importing)
        models |= _models(content)
    importing.left_out.raise_if_broken()
    rows = pd.DataFrame(read, columns=_Row._fields)
    most = rows["percent"].max() if len(rows) else 0.0
    if 0 < most <= 1:
        problem = f"the largest '{_PASSED}' is {most:g}: a fraction; per cent is expected"
        advice = "multiply them by 100, as the leaderboard has them"
        raise DataError([Fault(importing.source, problem, column=_PASSED)], advice)
    names = sorted(rows["model"].unique())
    dates, notes = _cutoffs(cutoffs, names, models)
    numbers, more = _numbers(rows, names, generations)
    trials = rows[["model", "benchmark", "item", "file"]].assign(
        correct=_counts(rows, numbers), out_of=rows["model"].map(numbers), run=rows["file"]
    )
    trials[MARK + "released"] = pd.Series([row.released for row in read], dtype=object)
    trials[MARK + "cutoff"] = pd.Series([dates.get(name) for name in rows["model"]], dtype=object)
    trials = importing.extra.added_to(trials, rows["extra"].tolist())
    importing.extra.check(trials, "row", "such as difficulty")
    chosen = dict.fromkeys(trials["benchmark"], _PASSED)
    return importing.table(trials, chosen, [*notes, *more])


def _rows(content: Mapping[str, Any], file: str, importing: Importing) -> list[_Row]:
    found = content.get("performances")
    if not isinstance(found, list):
        importing.left_out.broken(
            file,
            "as results of LiveCodeBench",
            f"has no list 'performances', only {join_list(map(str, content))}",
            advice="give performances_generation.json of the leaderboard",
        )
        return []
    rows = []
    for number, row in enumerate(found, start=1):
        place = f"performance {number}"
        with importing.row(file, place):
            rows.append(_row(row, file, place, importing))
    return rows


def _row(row: Any, file: str, place: str, importing: Importing) -> _Row:
    if not isinstance(row, Mapping):
        raise TypeError(f"is {printable(repr(row), 60)}; allowed is an object")
    names = ("model", "question_id")
    if absent := [name for name in names if not isinstance(row.get(name), str)]:
        raise KeyError(f"has no text in {join_list(absent)}")
    percent = row.get(_PASSED)
    if not isinstance(percent, int | float) or not 0 <= percent <= 100:
        raise ValueError(f"'{_PASSED}' is {printable(repr(percent), 60)}; allowed is 0 to 100")
    platform = row.get("platform")
    benchmark = f"livecodebench-{platform}" if isinstance(platform, str) else "livecodebench"
    extra = importing.extra.values(row)
    released = _day(row.get("date"))
    model, item = row["model"], row["question_id"]
    return _Row(file, place, model, benchmark, item, float(percent), released, extra)


def _day(value: Any) -> str | None:
    """Return a date as 2023-08-30, from milliseconds, as the leaderboard has it, or from text."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown = printable(repr(value), 60)
        try:
            day = datetime.fromtimestamp(value / 1000, UTC).date()
        except (OverflowError, OSError) as error:
            raise ValueError(f"date {shown} is beyond all calendars") from error
        if day.year < 2000:
            raise ValueError(f"date {shown} is {day}: in seconds? Milliseconds are expected")
        return day.isoformat()
    if isinstance(value, str):
        return datetime.fromisoformat(value).date().isoformat()
    raise ValueError(
        f"date is {printable(repr(value), 60)}; milliseconds or 2023-08-30 is expected"
    )


def _models(content: Mapping[str, Any]) -> dict[str, tuple[str, str | None]]:
    """Return full name and date of each model that the file lists."""
    found = content.get("models")
    models = {}
    for model in found if isinstance(found, list) else []:
        if isinstance(model, Mapping) and isinstance(model.get("model_repr"), str):
            try:
                day = _day(model.get("release_date"))
            except ValueError:
                day = None
            models[model["model_repr"]] = str(model.get("model_name") or ""), day
    return models


def _cutoffs(
    path: str | os.PathLike[str] | None,
    names: Sequence[str],
    models: Mapping[str, tuple[str, str | None]],
) -> tuple[dict[str, str | None], list[str]]:
    """Return the cutoff of each model, and notes on them."""
    if path is None:
        dates = {name: models[name][1] for name in names if name in models}
        notes = [
            "cutoffs are the dates that the file has for its models (release_date), which the "
            "leaderboard takes for them; --cutoffs gives others"
        ]
    else:
        table = _table(Path(path))
        full = {models[name][0]: name for name in names if name in models and models[name][0]}
        dates = {}
        for given, day in table.items():
            name = full.get(given, given)
            if dates.setdefault(name, day) != day:
                raise UsageError(
                    f"--cutoffs {printable(str(path))}: '{printable(name, 60)}' has two cutoffs, by"
                    " its full name and by its short one; give it one"
                )
        unused = sorted(set(dates) - set(names))
        if len(unused) == len(dates):
            raise UsageError(
                f"--cutoffs {printable(str(path))}: none of its models is in the results; it has "
                f"{join_list(unused)}, they have {join_list(names)}"
            )
        notes = [f"cutoffs of models that have no results: {join_list(unused)}"] if unused else []
    if unknown := [name for name in names if not dates.get(name)]:
        notes.append(
            f"models without a known cutoff: {join_list(unknown)}; what they can have been exposed "
            "to is unknown"
        )
    return dates, notes


def _table(path: Path) -> dict[str, str | None]:
    """Return cutoffs by model from a table."""
    table, source = read_table(path), str(path)
    if absent := [name for name in ("model", "cutoff") if name not in table.columns]:
        raise UsageError(
            f"--cutoffs {printable(source)}: no column {join_list(absent)}; found "
            f"{join_list(map(str, table.columns))}"
        )
    faults = FaultList(source, np.arange(1, len(table) + 1))
    first, last = read_days(table["cutoff"], "cutoff", faults)
    # A month or a year stays one: it may mean any of its days.
    days = [
        None if np.isnat(day) else str(day) if day == end else str(cell).strip()
        for day, end, cell in zip(first, last, table["cutoff"], strict=True)
    ]
    cutoffs = pd.DataFrame({"model": table["model"].astype(str), "day": days}).fillna("")
    known = cutoffs.groupby("model", sort=False)["day"].transform("first")
    problem = "{} has another cutoff than before"
    faults.flag((cutoffs["day"] != known).to_numpy(), "model", problem, cutoffs["model"])
    faults.raise_if_any()
    return {name: day or None for name, day in cutoffs.itertuples(index=False)}


def _numbers(
    rows: pd.DataFrame, names: Sequence[str], given: int | None
) -> tuple[dict[str, int], list[str]]:
    """Return the number of generations of each model, and notes on it."""
    own = {name: int(found[1]) for name in names if (found := _OWN.search(name))}
    if given is not None:
        return {name: own.get(name, given) for name in names}, []
    others = rows[~rows["model"].isin(own)]
    shares = others["percent"].unique()
    number = next((n for n in range(1, _MOST + 1) if _are_shares(shares, n).all()), None)
    if number is None:
        raise UsageError(
            "--generations: needed, because no number up to 100 fits the shares in 'pass@1'"
        )
    notes = [
        f"'{_PASSED}' is a share of {number} generations for each problem, the smallest number "
        "that all shares allow; --generations gives another"
    ]
    ends = others["percent"].isin([0.0, 100.0]).groupby(others["model"]).all()
    passed = (others["percent"] == 100.0).groupby(others["model"]).any()
    single = ends.index[ends & passed]
    if number > 1 and len(single):
        notes.append(
            f"all shares of {join_list(single)} are 0 or 100: if these are single generations, "
            f"they count {number} times too much"
        )
    return {name: own.get(name, number) for name in names}, notes


def _are_shares(percent: FloatArray, number: Any) -> BoolArray:
    """Return which shares in per cent, rounded to some decimals, can be of so many generations."""
    counts = percent * number / 100
    return np.asarray(np.abs(counts - np.rint(counts)) <= number * 5e-4)


def _counts(rows: pd.DataFrame, numbers: Mapping[str, int]) -> IntArray:
    """Return how many generations passed."""
    percent, of = rows["percent"].to_numpy(dtype=float), rows["model"].map(numbers).to_numpy()
    odd = rows[~_are_shares(percent, of)].drop_duplicates(["file", "model"])
    faults = []
    for row in map(_Row._make, odd.to_numpy().tolist()):
        share = f"'{_PASSED}' {row.percent:g} of {printable(row.model, 60)}"
        problem = f"{row.place}: {share} is no share of {numbers[row.model]} generations"
        faults.append(Fault(row.file, problem))
    if faults:
        raise DataError(faults, "give their number (generations, --generations)")
    return np.rint(percent * of / 100).astype(np.int64)
