"""Contamination of items, by item or by model and item, with its uncertainty."""

import os
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, IntArray
from bayescontam.data.measures import (
    GUESS_COLUMNS,
    MEASURES,
    Scale,
    load_measured,
    read_measures,
    shared_columns,
)
from bayescontam.data.validation import (
    MISSING,
    FaultList,
    check_choice,
    flag_near_duplicates,
    format_value,
    mismatch_reasons,
    need_columns,
    read_names,
    to_plain_frame,
    validate_unique,
    without_partner,
)
from bayescontam.errors import DataError, Fault, UsageError

type Missing = Literal["error", "zero", "drop", "impute"]

_NEEDED = {
    "benchmark": "add one: the benchmark that each item belongs to",
    "item": "add one: the item's name as in the responses",
    "contamination": "add one: numbers from 0 (surely clean) to 1 (surely contaminated)",
}
_KNOWN = ("benchmark", "item", "model", *MEASURES)
_OF_RESPONSES = (
    "base", "checkpoint", "clean", "concept", "cutoff", "duplicate_kind", "released",
    *GUESS_COLUMNS,
)  # fmt: skip
"""Columns that have a meaning of their own in responses."""


def read_covariates(
    path: str | os.PathLike[str], *, contamination_scale: Scale = "share"
) -> "Covariates":
    """Read and validate a file of contamination covariates.

    Parameters
    ----------
    path : path-like
        CSV, TSV, JSON Lines or Parquet file; see `Covariates.from_frame` for its columns.
    contamination_scale : {"share", "percent", "count"}, default "share"
        See `Covariates.from_frame`.

    Returns
    -------
    Covariates

    Raises
    ------
    UsageError
        If there is no such file, or not of a known kind.
    DataError
        If the table cannot be used; it lists every fault.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "covariates.csv")
    ...     _ = file.write_text("benchmark,item,contamination\\nquiz,q1,0.9\\nquiz,q2,0\\n")
    ...     covariates = read_covariates(file)
    >>> covariates.frame["contamination"].tolist()
    [0.9, 0.0]
    """
    frame, source, notes = load_measured(path, _KNOWN, contamination_scale)
    found = Covariates.from_frame(frame, source=source, contamination_scale=contamination_scale)
    return replace(found, notes=(*notes, *found.notes))


@dataclass(frozen=True, eq=False)
class Covariates:
    """A validated table of contamination covariates; make one with `from_frame`.

    Parameters
    ----------
    frame : pandas.DataFrame
        ``benchmark``, ``item``, ``model`` if given ("" = all models without a row of their
        own), ``contamination``, then those given of ``contamination_sd``, ``p_duplicate``,
        ``p_duplicate_sd``, then all other columns unchanged.
    source : str
        Where the table came from.
    notes : tuple of str
        What was changed on the way in.
    """

    frame: pd.DataFrame
    source: str
    notes: tuple[str, ...] = ()

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        source: str = "DataFrame",
        contamination_scale: Scale = "share",
    ) -> "Covariates":
        """Validate a table of covariates.

        Parameters
        ----------
        frame : pandas.DataFrame
            Needs ``benchmark``, ``item`` and ``contamination`` in [0, 1]. May have ``model``,
            ``contamination_sd`` and ``p_duplicate_sd`` (0 or more), ``p_duplicate`` in [0, 1],
            and any others.
        source : str, default "DataFrame"
            Name of the table in messages.
        contamination_scale : {"share", "percent", "count"}, default "share"
            See `Responses.from_frame`.

        Returns
        -------
        Covariates

        Raises
        ------
        DataError
            If the table cannot be used; it lists every fault.
        """
        table = to_plain_frame(frame, source)
        faults = FaultList(source, np.arange(1, len(table) + 1))
        need_columns(table, _NEEDED, _KNOWN, faults)
        keys = [name for name in ("benchmark", "item", "model") if name in table.columns]
        clean: dict[str, Any] = {
            name: read_names(table, name, faults, blank_ok=name == "model") for name in keys
        }
        for name in keys:
            flag_near_duplicates(clean[name], name, faults)
        advice = "give it, or remove the row or the column"
        clean |= read_measures(table, faults, advice, contamination_scale)
        if "imputation" in table.columns:
            faults.add(
                "is that of imputations, which 'fit --imputations' and read_imputations read; give"
                " the file there, or remove the column",
                "imputation",
            )
        if "p_duplicate_sd" in table.columns and "p_duplicate" not in table.columns:
            faults.add("is of no use without a column 'p_duplicate'; add it", "p_duplicate_sd")
        if set(_NEEDED) <= set(table.columns):
            validate_unique(pd.DataFrame({name: clean[name] for name in keys}), keys, faults)
        faults.raise_if_any()
        extras = {name: table[name] for name in table.columns if name not in clean}
        if idle := [name for name in _OF_RESPONSES if name in extras]:
            faults.notes.append(
                f"{source}: {join_list(idle)} not used: these columns belong in the table of"
                " responses"
            )
        return cls(pd.DataFrame(clean | extras), source, tuple(faults.notes))

    def attached_to(
        self, responses: pd.DataFrame, source: str, *, missing: Missing = "error"
    ) -> tuple[pd.DataFrame, list[str]]:
        """Return responses with these covariates; see `Responses.with_contamination`."""
        check_choice("missing", missing, Missing)
        columns = [name for name in MEASURES if name in self.frame.columns]
        columns += shared_columns(self.frame.columns)
        if taken := [name for name in columns if name in responses.columns]:
            raise UsageError(
                f"{printable(source)}: has {join_list(taken)} already, and so have "
                f"{printable(self.source)}; use one source: leave the covariates away, or remove "
                "the columns"
            )
        self._refuse_absent_models(responses)
        at = self._rows_for(responses)
        lost: BoolArray = at < 0
        unused = self.frame[~self.frame.index.isin(at)]
        likely = self._likely_reasons(responses, lost, unused) if lost.any() else []
        # Names that are spelled in another way were not searched in vain, and nor was nothing.
        if lost.any() and (missing == "error" or lost.all() or (missing == "zero" and likely)):
            zero = "" if likely else "zero (searched and not found), "
            choices = f"{zero}drop or impute" if not lost.all() else ""
            raise self._unmatched(responses, lost, source, likely, choices)
        values = self.frame[columns].iloc[np.maximum(at, 0)].set_axis(responses.index)
        head = responses.columns[:5]  # model, benchmark, item, n_correct, n_trials
        joined = pd.concat([responses[head], values, responses.drop(columns=head)], axis=1)
        notes = list(self.notes)
        if len(unused):
            rows = f"{len(unused):,} of {len(self.frame):,} covariate rows"
            notes.append(f"{rows} match no response")
        astray = self._astray(responses, lost, unused, missing) if lost.any() else []
        notes += [f"caution: {reason}" for reason in (*likely, *astray)]
        if lost.any() and missing == "impute":
            bare = set(joined["benchmark"][lost]) - set(joined["benchmark"][~lost])
            if bare:
                whole: BoolArray = joined["benchmark"].isin(bare).to_numpy()
                raise self._unmatched(responses, whole, source, likely, "zero or drop")
            notes += self._impute(joined, lost, columns)
        elif lost.any() and missing == "zero":
            joined.loc[lost, columns] = 0.0
            notes.append(f"{_counted(responses, lost)} without a covariate got contamination 0")
        elif lost.any():
            notes.append(f"dropped {_counted(responses, lost)} without a contamination")
            joined = joined[~lost].reset_index(drop=True)
        return joined, notes

    def _rows_for(self, responses: pd.DataFrame) -> IntArray:
        """Return for each response the position of its row in `frame`, or -1."""
        frame, keys = self.frame, ["benchmark", "item"]
        at = np.full(len(responses), -1)
        general = frame["model"] == "" if "model" in frame else pd.Series(True, frame.index)
        for rows, names in ((frame[general], keys), (frame[~general], [*keys, "model"])):
            if len(rows):  # those of a model of its own go before
                wanted = pd.MultiIndex.from_frame(responses[names])
                found = pd.MultiIndex.from_frame(rows[names]).get_indexer(wanted)
                at = np.where(found >= 0, rows.index.to_numpy()[found], at)
        return at

    def _refuse_absent_models(self, responses: pd.DataFrame) -> None:
        """Refuse what programs write for no name, such as NA of R, unless a model is so named."""
        if "model" not in self.frame.columns:
            return
        models = self.frame["model"]
        absent = models.str.strip().str.casefold().isin(MISSING - {""})
        bad = (absent & ~models.isin(responses["model"])).to_numpy()
        faults = FaultList(self.source, np.arange(1, len(models) + 1))
        problem = (
            "got {}, and no response is of a model of that name; leave the cell blank where a row "
            "is for all models, or write the model's name as in the responses"
        )
        faults.flag(bad, "model", problem, models)
        faults.raise_if_any()

    def _astray(
        self, responses: pd.DataFrame, lost: BoolArray, unused: pd.DataFrame, missing: Missing
    ) -> list[str]:
        """Return which names that match nothing may be those of responses without a row."""
        found = []
        for key in ("model", "benchmark"):
            if key in self.frame.columns:
                strange = set(unused[key]) - set(responses[key]) - {""}
                bare = set(responses[key][lost]) - set(self.frame[key]) - set(responses[key][~lost])
                found += without_partner(key, bare, strange, self.source)
        # A list of what was found means that the rest is clean: each name on it must count.
        flagged = unused[unused["contamination"] > 0] if missing == "zero" else unused[:0]
        for name, rows in flagged.groupby("benchmark", sort=False):
            items = set(responses.loc[responses["benchmark"] == name, "item"])
            others = [item for item in rows["item"].unique() if item not in items]
            if items and others:
                found.append(
                    f"item of {format_value(name)}: {len(others):,} with contamination above 0 in "
                    f"{printable(self.source)} match no response: {join_list(others, 5)}; if they "
                    "were answered under other names, those have contamination 0 now: write both "
                    "alike"
                )
        return found

    def _likely_reasons(
        self, responses: pd.DataFrame, lost: BoolArray, unused: pd.DataFrame
    ) -> list[str]:
        """Return what the names show of why responses match no row, a sentence for each key."""
        missed, found = responses[lost], []
        if "model" in self.frame.columns:
            models = set(self.frame["model"]) - {""}
            bare = set(missed["model"]) - models
            found += mismatch_reasons("model", bare, models - set(responses["model"]), self.source)
        benchmarks = set(missed["benchmark"]) - set(self.frame["benchmark"])
        others = set(unused["benchmark"]) - set(responses["benchmark"])
        reasons = mismatch_reasons("benchmark", benchmarks, others, self.source)
        found += reasons
        known = set(self.frame["item"]) if reasons else set()
        for name, rows in missed.groupby("benchmark", sort=False):
            own = known or set(unused.loc[unused["benchmark"] == name, "item"])
            answered = set(responses.loc[responses["benchmark"] == name, "item"])
            what = f"item of {format_value(name)}"
            found += mismatch_reasons(what, set(rows["item"]) - own, own - answered, self.source)
        return found

    def _unmatched(
        self,
        responses: pd.DataFrame,
        lost: BoolArray,
        source: str,
        likely: list[str],
        choices: str,
    ) -> DataError:
        """Return the error on responses without a row, with a fault for each cause."""
        missed, faults = responses[lost], []
        by_model = "model" in self.frame.columns
        bare = responses["model"][~responses["model"].isin(responses["model"][~lost])].unique()
        if by_model and 0 < len(bare) < responses["model"].nunique():
            faults.append(Fault(source, f"no contamination for any response of {join_list(bare)}"))
            missed = missed[~missed["model"].isin(bare)]
        for name, rows in missed.groupby("benchmark", sort=False):
            items = rows["item"].unique()
            total = responses.loc[responses["benchmark"] == name, "item"].nunique()
            of = f" of {join_list(rows['model'].unique(), 3)}" if by_model else ""
            problem = (
                f"no contamination for {len(items):,} of {total:,} items of "
                f"{format_value(name)}{of}: {join_list(items, 5)}"
            )
            faults.append(Fault(source, problem))
        advice = list(likely)
        known = self.frame["benchmark"].unique()
        if not set(missed["benchmark"]) <= set(known):
            advice.append(f"the benchmarks of {printable(self.source)} are {join_list(known)}")
        todo = "add rows for them"
        if (other := self._other_name(responses, missed)) is not None:
            theirs, ours = other
            todo = (
                f"the items of {format_value(theirs)} there are those of {format_value(ours)} here:"
                f" call the benchmark {format_value(ours)} there, or scan with --benchmark-name"
                f" {ours}"
            )
        last = (
            f"{lost.sum():,} of {len(lost):,} responses match no row of {printable(self.source)};"
            f" {todo}"
        )
        if choices:
            last += f", or choose --missing-contamination {choices}"
        return DataError(faults, "\n".join([*advice, last]))

    def _other_name(self, responses: pd.DataFrame, missed: pd.DataFrame) -> tuple[str, str] | None:
        """Return the names here and there of the one benchmark that has two, None without it."""
        here, there = set(missed["benchmark"]), set(self.frame["benchmark"])
        unused = there - set(responses["benchmark"])
        if len(here - there) != 1 or here & there or len(unused) != 1:
            return None
        [theirs], [ours] = unused, here
        items = set(self.frame.loc[self.frame["benchmark"] == theirs, "item"])
        return (theirs, ours) if set(missed["item"]) <= items else None

    def _impute(self, joined: pd.DataFrame, lost: BoolArray, columns: list[str]) -> list[str]:
        """Fill unmatched rows in place from the matched rows of their benchmark."""
        benchmark = joined["benchmark"]
        notes = []
        for name in columns:
            base = name.removesuffix("_sd")
            groups = joined[base].where(~lost).groupby(benchmark)
            mean = groups.transform("mean")
            if name == "contamination_sd":
                # An unmatched item is as unsure as the matched ones differ and are unsure.
                unsure = (joined[name].where(~lost) ** 2).groupby(benchmark).transform("mean")
                spread = groups.transform(lambda values: values.var(ddof=0)) + unsure
                # One matched row shows no spread: the largest that there can be.
                spread = spread.where(groups.transform("count") > 1, np.inf)
                fill = np.minimum(spread, mean * (1 - mean)) ** 0.5
            else:
                # How unsure probabilities are together is not more for an unmatched item.
                fill = joined[name].where(~lost).groupby(benchmark).transform("mean")
            joined[name] = joined[name].where(~lost, fill)
        for name in benchmark[lost].unique():
            rows = lost & (benchmark == name)
            value = joined.loc[rows, "contamination"].iloc[0]
            notes.append(
                f"{rows.sum():,} of {(benchmark == name).sum():,} responses of "
                f"{format_value(name)} have no covariate and got its mean contamination {value:.3g}"
            )
            if joined.loc[benchmark == name, "contamination"].nunique() == 1:
                notes.append(
                    f"caution: contamination of all items of {format_value(name)} is now "
                    f"{value:.3g}: its effect cannot be estimated there. If the covariates "
                    "list what a search has found, choose --missing-contamination zero"
                )
        return notes


def _counted(responses: pd.DataFrame, rows: BoolArray) -> str:
    items = len(responses.loc[rows, ["benchmark", "item"]].drop_duplicates())
    return f"{rows.sum():,} of {len(responses):,} responses ({items:,} items)"
