"""One import of logs: from options to responses, with what was left out and merged.

An importer finds files, reads each into `Log` objects, and leaves the rest to `Importing`: the
choice of a metric, names of models, what counts as correct, and which trials are one.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pandas as pd

from bayescontam._progress import Advance, progress_bar
from bayescontam._text import join_list, printable
from bayescontam.data.importers.base import (
    ExtraColumns,
    LeftOut,
    Names,
    Paths,
    as_list,
    check_threshold,
    extra_names,
    is_nan,
    number,
    of_one_kind,
    scores,
    select,
)
from bayescontam.data.importers.runs import (
    KEYS,
    Copies,
    Differing,
    Groups,
    Run,
    Texts,
    distinct,
    model_names,
    original_name,
    version_notes,
)
from bayescontam.data.responses import LOG_FILE, LOG_SAMPLE, Responses
from bayescontam.data.validation import check_choice, format_value
from bayescontam.errors import DataError, Fault, UsageError

_FEW = 10  # items from which on a model that has all of them right, or none, is named
LARGE = 50_000_000  # bytes of logs that take about two seconds to import
_DEFAULTS = {"trial": "", "answer": None, "content": None, "out_of": 1}
_ODD = (
    "choose another metric, or give the value from which an answer is correct, or up to which if "
    "lower is better (threshold, --threshold)"
)


@dataclass(frozen=True, eq=False)
class Imported:
    """Responses, and what an importer read and left out to make them.

    Attributes
    ----------
    responses : Responses
        One row for each model and item, repeats added up; sorted by benchmark, model and item.
        In addition to ``n_correct`` and ``n_trials`` the extra columns, and of Inspect and
        lm-evaluation-harness ``log_file`` and ``log_sample``: where the first trial is.
    read : pandas.DataFrame
        A row for each benchmark: ``benchmark``, what was ``chosen``, numbers of ``models``,
        ``runs``, ``items``, ``responses`` and ``trials``, the fewest and most trials of a
        response (``trials_each``), and the share of trials that are ``correct``.
    left_out : pandas.DataFrame
        ``where`` (benchmark or file), ``reason`` and how many trials were ``left_out``.
    runs : pandas.DataFrame
        A row for each model, benchmark and log: ``file``, ``run``, number of ``trials``, how many
        of them ``count``, and ``same_as``, the file that has the others too. Subtasks of a group
        are benchmarks here.
    notes : tuple of str
        What else to know.
    """

    responses: Responses
    read: pd.DataFrame
    left_out: pd.DataFrame
    runs: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def frame(self) -> pd.DataFrame:
        """The table of `responses`."""
        return self.responses.frame


def _extremes(table: pd.DataFrame) -> list[str]:
    """Name models that have every item right, or none: often an artefact."""
    sums = table.groupby(["benchmark", "model"])[["n_correct", "n_trials"]].sum()
    sums["items"] = table.groupby(["benchmark", "model"]).size()
    notes = []
    for word, at in (("right", sums["n_trials"]), ("wrong", 0)):
        found = sums[(sums["n_correct"] == at) & (sums["items"] >= _FEW)].reset_index()
        notes += [
            f"{printable(row['model'], 80)} on {printable(row['benchmark'], 60)}: all "
            f"{row['items']:,} items are {word}; make sure that this is no artefact"
            for _, row in found.iterrows()
        ]
    return notes


def _check_extra(
    trials: pd.DataFrame, extra: Mapping[str, str], source: str, keys: list[str]
) -> None:
    """Refuse extra columns that differ between the trials of a response."""
    faults = []
    for column, name in extra.items():
        values = trials[[*keys, column]].drop_duplicates()
        twice = values.duplicated(keys, keep=False)
        if twice.any():
            model, benchmark, item = values.loc[twice, KEYS].iloc[0]
            found = join_list(map(str, values.loc[twice, column].iloc[:3]))
            where = f"{format_value(model)} on {format_value(item)} of {format_value(benchmark)}"
            problem = f"differs between trials that would be added up: {found} for {where}"
            faults.append(Fault(source, problem, column=name))
    if faults:
        raise DataError(faults, "leave such columns out of --keep")


def _read(trials: pd.DataFrame, table: pd.DataFrame, chosen: Mapping[str, str]) -> pd.DataFrame:
    runs = trials[["benchmark", "model", "run"]].drop_duplicates()["benchmark"].value_counts()
    rows = []
    for benchmark, part in table.groupby("benchmark", sort=False):
        least, most = part["n_trials"].min(), part["n_trials"].max()
        rows.append(
            {
                "benchmark": benchmark,
                "chosen": chosen.get(str(benchmark), ""),
                "models": part["model"].nunique(),
                "runs": int(runs[benchmark]),
                "items": part["item"].nunique(),
                "responses": len(part),
                "trials": int(part["n_trials"].sum()),
                "trials_each": str(least) if least == most else f"{least} to {most}",
                "correct": float(part["n_correct"].sum() / part["n_trials"].sum()),
            }
        )
    return pd.DataFrame(rows)


class LogOptions(TypedDict, total=False):
    """Options that all importers of logs have.

    Some have these too:

    - ``metric`` (or ``scorer``, ``filter``): name, or names, of what counts; needed where a
      benchmark has several. One of the form ``benchmark=name`` is for this benchmark only.
    - ``threshold``: value from which on an answer is correct, or up to which if lower is better.
      Default: values must be 0 or 1.
    - ``model``: name of the model that all logs are of, or ``folder=name`` for those of a folder;
      one or several. Default: as the logs, or the names of files and folders, state.
    - ``errors``: what becomes of items at which a run failed, ``"leave-out"`` (default) or
      ``"incorrect"``.

    Attributes
    ----------
    keep : str or sequence of str, default ()
        Columns to keep, such as ``doc.subject``, or ``name=doc.subject`` to rename it.
    group : str or sequence of str, default ()
        Benchmarks to take for one, as ``NAME=PATTERN``, such as ``mmlu=mmlu_*``; or ``NAME``,
        where the logs state its subtasks. A column ``subtask`` has the name that each had, and
        items become ``subtask/item``.
    differing : {"error", "pool", "split"}, default "error"
        What becomes of runs of one model with other settings: refuse them, combine them
        nevertheless, or take them for different models, named with what differs.
    copies : {"leave-out", "count"}, default "leave-out"
        What becomes of answers that are the same in two runs of a model, on all items that both
        have: they count once, or as trials, for models that are random and agree nevertheless.
    skip_broken : bool, default False
        Leave out and count broken rows and files; otherwise they are an error.
    progress : bool, default False
        Show progress where there is much to read.
    """

    keep: Names
    group: Names
    differing: Differing
    copies: Copies
    skip_broken: bool
    progress: bool


class Trial(NamedTuple):
    """One answer of a log."""

    item: str
    scores: Mapping[str, Any]
    """Value of each metric: a number, true or false, None, or a list of true and false."""
    number: str = ""  # which it is of several answers to the item in the run
    answer: Hashable = None  # what the model said, or its hash; None if the log does not hold it
    content: str | None = None
    """The item's text, or its hash; None if the item's name is one, or it is unknown."""
    extra: tuple[Any, ...] = ()
    file: str = ""  # log file, where a run has several; that of the run if it is empty
    run: str = ""
    """What identifies its run, where a log repeats answers of others; the log's if it is empty."""
    sample: str = ""  # where in its file it is, in the tool's own words; "" if that is not known


@dataclass(frozen=True)
class Log:
    """Answers of one run to one benchmark."""

    run: Run
    trials: list[Trial]
    lower_better: Mapping[str, bool] = field(default_factory=dict)
    """Metrics of which it is stated whether lower is better."""
    version: str = ""  # version of the tool, "" if it is not stated


class Importing:
    """One import by the rules that all importers share."""

    def __init__(self, paths: Paths, options: LogOptions) -> None:
        if unknown := sorted(set(options) - set(LogOptions.__annotations__)):
            raise TypeError(f"unknown options: {join_list(unknown)}")
        self.paths = paths
        self.extra = ExtraColumns.of(options.get("keep", ()))
        self.groups = Groups(options.get("group", ()))
        self.left_out = LeftOut(options.get("skip_broken", False))
        self.differing: Differing = options.get("differing", "error")
        self.copies: Copies = options.get("copies", "leave-out")
        self._progress = options.get("progress", False)
        check_choice("differing", self.differing, Differing)
        check_choice("copies", self.copies, Copies)

    @property
    def source(self) -> str:
        """Name of the logs in messages."""
        return join_list(map(str, as_list(self.paths)), most=3)

    def files(self, inside: Callable[[Path], Iterable[Path]], advice: str) -> list[Path]:
        """Return files, those in folders included, sorted and each once."""
        found: dict[Path, Path] = {}
        for path in map(Path, as_list(self.paths)):
            if path.is_dir():
                files = list(inside(path))
                if not files:
                    raise UsageError(f"{printable(str(path))}: {advice}")
            elif path.is_file():
                files = [path]
            else:
                raise UsageError(f"{printable(str(path))}: no such file or folder; check the path")
            found.update({file.resolve(): file for file in files})

        # A copy comes after what it is a copy of, so that it is the one named as such.
        def order(file: Path) -> tuple[Path, int, Path]:
            return file.with_name(original_name(file.name)), len(file.name), file

        return [found[file] for file in sorted(found, key=order)]

    def log_names(self, files: Sequence[str]) -> dict[str, str]:
        """Return the names of logs within the folder that all paths have in common."""
        # The place of that folder on this machine is not stored: a fit is passed on.
        given = [path if path.is_dir() else path.parent for path in map(Path, as_list(self.paths))]
        found: dict[str, str] = {}
        # A link inside the folder has the name that it has there.
        for place in (os.path.abspath, os.path.realpath):
            folders = [place(folder) for folder in given]
            try:
                common = Path(os.path.commonpath(folders))
            except ValueError:  # on several drives
                continue
            for file in files:
                path = Path(str(place(file)))
                if path.is_relative_to(common) and common != Path(common.anchor):
                    found.setdefault(file, path.relative_to(common).as_posix())
        return {file: found.get(file, "/".join(Path(file).parts[-2:])) for file in files}

    def bar(self, files: Sequence[Path], large: int = LARGE) -> AbstractContextManager[Advance]:
        """Return a progress bar over files, shown where it is wanted and they are large."""
        total = sum(file.stat().st_size for file in files)
        return progress_bar(self._progress and total >= large, "Reading", total / 1e6, "MB")

    def each(self, files: Sequence[Path], large: int = LARGE) -> Iterator[Path]:
        """Give files one after the other, with a progress bar over them."""
        with self.bar(files, large) as advance:
            for file in files:
                yield file
                advance(file.stat().st_size / 1e6)

    @contextmanager
    def row(self, file: Path | str, place: str) -> Iterator[None]:
        """Note a row as broken where the block finds that it cannot be read."""
        try:
            yield
        except (KeyError, TypeError, ValueError, SyntaxError) as error:
            self.left_out.broken(str(file), place, str(error.args[0]))

    def table(
        self,
        trials: pd.DataFrame,
        chosen: Mapping[str, str],
        notes: Sequence[str] = (),
        texts: Texts | None = None,
    ) -> Imported:
        """Add up trials to responses; `chosen` is what counts for each benchmark."""
        self.left_out.raise_if_broken()
        if trials.empty:
            reasons = "; ".join(
                f"{where}: {reason} ({count:,})"
                for where, reason, count in self.left_out.frame().itertuples(index=False)
            )
            problem = f"no scored trial is left; left out: {printable(reasons) or 'nothing'}"
            advice = "check that these are the logs that you mean"
            raise DataError([Fault(self.source, problem)], advice)
        trials = trials.reset_index(drop=True)
        trials = trials.assign(**{k: v for k, v in _DEFAULTS.items() if k not in trials})
        texts = texts or ("note" if self.differing == "pool" else "refuse")
        trials, runs, merged = distinct(trials, self.left_out, copies=self.copies, texts=texts)
        trials, chosen = self.groups.applied(trials, chosen)
        extra = extra_names(trials)
        # People are levels of the model that they are together.
        keys = [*KEYS, "participant"] if "participant" in trials else KEYS
        _check_extra(trials, extra, self.source, keys)
        grouped = trials.groupby(keys, sort=True, observed=True)
        frame = grouped.agg(n_correct=("correct", "sum"), n_trials=("out_of", "sum"))
        if "sample" in trials and (trials["sample"] != "").any():
            first = grouped[["file", "sample"]].first()
            names = self.log_names([*first["file"].unique()])
            frame[LOG_FILE] = first["file"].map(names).astype("str")
            frame[LOG_SAMPLE] = first["sample"].astype("str")
        if extra:
            own = grouped[list(extra)].first(skipna=False).rename(columns=extra)
            frame = frame.join(own.apply(of_one_kind))
        frame = frame.reset_index().astype({"n_correct": np.int64, "n_trials": np.int64})
        frame = frame.sort_values(["benchmark", "model", "item"], kind="stable", ignore_index=True)
        responses = Responses.from_frame(frame, source=self.source)
        read = _read(trials, responses.frame, chosen)
        more = (*notes, *merged, *_extremes(responses.frame))
        return Imported(responses, read, self.left_out.frame(), runs, more)

    def table_of(
        self,
        logs: Sequence[Log],
        tool: str,
        *,
        metric: Names = (),
        threshold: float | None = None,
        unit: str = "row",
        hint: str = "",
        notes: Sequence[str] = (),
        choice: Callable[[str, str], str] = lambda benchmark, metric: metric,
        odd: str = _ODD,
    ) -> Imported:
        """Return the table of logs by a metric of each benchmark."""
        check_threshold(threshold)
        self.left_out.raise_if_broken()
        for log in logs:
            if not log.trials and not self.left_out.has_broken(log.run.file):
                self.left_out.broken(
                    log.run.file, printable(log.run.benchmark), f"holds no {unit} that can be read"
                )
        self.left_out.raise_if_broken()
        logs = [log for log in logs if log.trials]
        names, more = model_names([log.run for log in logs], self.differing)
        more += version_notes(tool, (log.version for log in logs if log.version), "files")
        taken = select("metric", metric, _candidates(logs, metric), f"{unit}s")
        trials = self._scored(logs, names, taken, threshold, odd)
        self.extra.check(trials, unit, hint)
        more += _not_a_number(logs, names, taken)
        words = {name: choice(name, own) for name, own in taken.items()}
        return self.table(trials, words, [*notes, *more])

    def _scored(
        self,
        logs: Sequence[Log],
        names: Sequence[str],
        taken: Mapping[str, str],
        threshold: float | None,
        advice: str,
    ) -> pd.DataFrame:
        """Return the trials that have a value of the metric."""
        parts, refused, missing = [], [], 0
        for log, name in zip(logs, names, strict=True):
            benchmark = log.run.benchmark
            if benchmark not in taken:
                continue
            metric = taken[benchmark]
            read = [_value(trial.scores.get(metric), log, metric) for trial in log.trials]
            values = np.array([right for right, _ in read], dtype=float)
            out_of = np.array([parts for _, parts in read], dtype=int)
            lower = log.lower_better.get(metric, False)
            correct, odd = scores(values, threshold, lower_better=lower)
            # A list of true and false is n of n: no threshold is for it.
            correct = np.where(out_of > 1, values, correct)
            odd &= out_of <= 1
            missing += int(np.isnan(correct).sum())
            if odd.any() or (lower and threshold is None and len(values)):
                found = ", ".join(f"{value:g}" for value in np.unique(values[odd])[:5])
                shown = printable(metric, 60)
                problem = f"metric {shown} is not 0 or 1 in {odd.sum():,} rows, such as {found}"
                if lower:
                    scale = "so that 0 and 1 do not mean wrong and right"
                    problem = f"lower is better for metric {shown}, {scale}"
                refused.append(Fault(log.run.file, problem))
                continue
            frame = pd.DataFrame(
                {
                    "model": name,
                    "benchmark": benchmark,
                    "item": [trial.item for trial in log.trials],
                    "correct": correct,
                    "out_of": out_of,
                    "run": [trial.run or log.run.key for trial in log.trials],
                    "file": [trial.file or log.run.file for trial in log.trials],
                    "trial": [trial.number for trial in log.trials],
                    "sample": [trial.sample for trial in log.trials],
                    "answer": pd.Series([trial.answer for trial in log.trials], dtype=object),
                    "content": pd.Series([trial.content for trial in log.trials], dtype=object),
                }
            )
            gone = np.isnan(correct)
            self.left_out.add(benchmark, f"no value of {printable(metric, 60)}", int(gone.sum()))
            parts.append(self.extra.added_to(frame, [trial.extra for trial in log.trials])[~gone])
        if refused:
            lost = f"; {missing:,} rows without a value (NaN) would be left out" if missing else ""
            raise DataError(refused, f"{advice}{lost}")
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _candidates(logs: Sequence[Log], given: Names) -> dict[str, Counter[str]]:
    """Return for each benchmark the metrics that may count, and how often each occurs."""
    known: dict[str, Counter[str]] = {}
    fit: dict[str, set[str]] = {}
    for log in logs:
        counts = known.setdefault(log.run.benchmark, Counter())
        fitting = fit.setdefault(log.run.benchmark, set())
        for trial in log.trials:
            counts.update(trial.scores.keys())
            fitting.update(
                name
                for name, value in trial.scores.items()
                if isinstance(value, int | float | None) or _is_flags(value)
            )
    if bare := sorted(name for name, counts in known.items() if not counts):
        raise UsageError(
            f"--metric: no metric in the logs of {join_list(bare)}: was it run to predict only?"
        )
    for benchmark, counts in known.items():
        for name in list(counts):
            named = any(f"={text}".endswith(f"={name}") for text in as_list(given))
            if fit[benchmark] and name not in fit[benchmark] and not named:
                del counts[name]
    return known


def _is_flags(value: Any) -> bool:
    """Return whether a value is a list of true and false, as IFEval has for its instructions."""
    return isinstance(value, list) and bool(value) and all(isinstance(v, bool) for v in value)


def _value(value: Any, log: Log, metric: str) -> tuple[float, int]:
    """Return what a metric gives, and of how many."""
    if _is_flags(value):
        return float(sum(value)), len(value)
    if isinstance(value, list) and not value:
        return math.nan, 1
    try:
        return number(value), 1
    except TypeError as error:
        names = dict.fromkeys(name for trial in log.trials for name in trial.scores)
        numbers = (int, float, type(None))
        single = [
            name
            for name in names
            if all(isinstance(trial.scores.get(name), numbers) for trial in log.trials)
        ]
        others = f"; single numbers are in {join_list(single)}" if single else ""
        raise DataError(
            [Fault(log.run.file, f"metric {printable(metric, 60)} {error}")],
            f"choose another one (metric, --metric){others}",
        ) from error


def _not_a_number(logs: Sequence[Log], names: Sequence[str], taken: Mapping[str, str]) -> list[str]:
    """Name models of which another metric is NaN throughout, as broken checkpoints have it."""
    notes = []
    for log, name in zip(logs, names, strict=True):
        others = {other for trial in log.trials for other in trial.scores}
        others -= {taken.get(log.run.benchmark)}
        if broken := sorted(
            other
            for other in others
            if all(is_nan(trial.scores.get(other)) for trial in log.trials)
        ):
            notes.append(
                f"{printable(name, 80)} on {printable(log.run.benchmark, 60)}: {join_list(broken)} "
                "is NaN throughout; a checkpoint that gives NaN has items right or wrong by their "
                "order only: make sure that it is sound"
            )
    return notes
