"""Contamination covariates: how contaminated each item is, and how sure that is."""

import os
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from bayescontam.columns import (
    MEASURES,
    FaultList,
    Ints,
    Mask,
    Scale,
    need_columns,
    plain_frame,
    read_measures,
    read_names,
    shown,
    with_types,
)
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.importers.table import load_table
from bayescontam.names import listed, visible
from bayescontam.rows import first_rows, refuse_repeats

type Missing = Literal["error", "drop", "impute"]

_NEEDED = {
    "benchmark": "add one: the benchmark that each item belongs to",
    "item": "add one: the item's name as in the responses",
    "contamination": "add one: numbers from 0 (surely clean) to 1 (surely contaminated)",
}
_KNOWN = ("benchmark", "item", "model", *MEASURES)


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
    table, source = load_table(path), os.fspath(path)
    frame, notes = with_types(table.frame, table.delimiter, source, keep=_KNOWN)
    found = Covariates.from_frame(frame, source=source, contamination_scale=contamination_scale)
    return replace(found, notes=(*table.notes, *notes, *found.notes))


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
            What ``contamination`` is: a number from 0 to 1; per cent (``5`` or ``5%`` is 0.05);
            or a count n, such as the documents that hold the item, read as
            log(1 + n) / log(1 + largest n of the table).

        Returns
        -------
        Covariates

        Raises
        ------
        DataError
            If the table cannot be used; it lists every fault.
        """
        table = plain_frame(frame, source)
        faults = FaultList(source, np.arange(1, len(table) + 1))
        need_columns(table, _NEEDED, _KNOWN, faults)
        keys = [name for name in ("benchmark", "item", "model") if name in table.columns]
        clean: dict[str, object] = {
            name: read_names(table, name, faults, blank_ok=name == "model") for name in keys
        }
        advice = "give it, or remove the row or the column"
        clean |= read_measures(table, faults, advice, contamination_scale)
        if "p_duplicate_sd" in table.columns and "p_duplicate" not in table.columns:
            faults.add("is of no use without a column 'p_duplicate'; add it", "p_duplicate_sd")
        if set(_NEEDED) <= set(table.columns):
            names = pd.DataFrame({name: clean[name] for name in keys})
            first = first_rows(names, keys, np.ones(len(names), dtype=bool))
            refuse_repeats(first, keys, "keep one", faults)
        faults.raise_if_any()
        extras = {name: table[name] for name in table.columns if name not in clean}
        return cls(pd.DataFrame(clean | extras), source, tuple(faults.notes))

    def attached_to(
        self, responses: pd.DataFrame, source: str, *, missing: Missing = "error"
    ) -> tuple[pd.DataFrame, list[str]]:
        """Return responses with the number columns of these covariates, and notes on it.

        `Responses.with_contamination` is the public way; see there.
        """
        if missing not in ("error", "drop", "impute"):
            raise UsageError(f"missing={missing!r}: allowed are 'error', 'drop' and 'impute'")
        columns = [name for name in MEASURES if name in self.frame.columns]
        if taken := [name for name in columns if name in responses.columns]:
            raise UsageError(
                f"{visible(source)}: has {listed(taken)} already, and so have "
                f"{visible(self.source)}; use one source: leave the covariates away, or remove "
                "the columns"
            )
        at = self._rows_for(responses)
        lost: Mask = at < 0
        if lost.any() and missing == "error":
            raise self._unmatched(responses[lost], source, "drop or impute")
        values = self.frame[columns].iloc[np.maximum(at, 0)].set_axis(responses.index)
        head = responses.columns[:5]  # model, benchmark, item, n_correct, n_trials
        joined = pd.concat([responses[head], values, responses.drop(columns=head)], axis=1)
        notes = [*self.notes, *self._unused(at)]
        if lost.any() and missing == "impute":
            notes += self._impute(joined, lost, columns, source)
        elif lost.any():
            notes += _drop_note(responses, lost)
            joined = joined[~lost].reset_index(drop=True)
        if joined.empty:
            raise self._unmatched(responses, source, "")
        return joined, notes

    def _rows_for(self, responses: pd.DataFrame) -> Ints:
        """Return for each response the position of its row in `frame`, or -1."""
        keys = ["benchmark", "item"]
        if "model" not in self.frame.columns:
            return _positions(self.frame, responses, keys)
        general = self.frame["model"] == ""
        own = _positions(self.frame[~general], responses, [*keys, "model"])
        return np.where(own >= 0, own, _positions(self.frame[general], responses, keys))

    def _unused(self, at: Ints) -> list[str]:
        unused = len(self.frame) - len(np.unique(at[at >= 0]))
        note = f"{unused:,} of {len(self.frame):,} covariate rows match no response"
        return [note] if unused else []

    def _unmatched(self, lost: pd.DataFrame, source: str, choices: str) -> DataError:
        keys = ["benchmark", "item", "model"][: 3 if "model" in self.frame.columns else 2]
        missed = lost[keys].drop_duplicates()
        faults = [
            Fault(source, "no contamination for " + ", ".join(map(_spell, keys, row)))
            for row in missed.itertuples(index=False, name=None)
        ]
        advice = (
            f"{len(lost):,} responses ({len(missed):,} of {' + '.join(keys)}) match no row of "
            f"{visible(self.source)}; add rows for them"
        )
        if choices:
            advice += f", or choose --missing-contamination {choices}"
        known = self.frame["benchmark"].unique()
        if not set(missed["benchmark"]) <= set(known):
            advice += f"; its benchmarks are {listed(known)}"
        return DataError(faults, advice)

    def _impute(
        self, joined: pd.DataFrame, lost: Mask, columns: list[str], source: str
    ) -> list[str]:
        """Fill unmatched rows in place from the matched rows of their benchmark."""
        benchmark = joined["benchmark"]
        bare = set(benchmark[lost]) - set(benchmark[~lost])
        if bare:
            raise self._unmatched(joined[benchmark.isin(bare)], source, "drop")
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
                f"{rows.sum():,} of {(benchmark == name).sum():,} responses of {shown(name)} "
                f"have no covariate and got its mean contamination {value:.3g}"
            )
        return notes


def _positions(frame: pd.DataFrame, responses: pd.DataFrame, keys: list[str]) -> Ints:
    """Return positions in the index of `frame`, or -1, of the responses' keys."""
    wanted = pd.MultiIndex.from_frame(responses[keys])
    found = pd.MultiIndex.from_frame(frame[keys]).get_indexer(wanted)
    labels = frame.index.to_numpy(dtype=np.int64)
    return np.where(found >= 0, labels[found] if len(labels) else -1, -1)


def _spell(key: str, name: str) -> str:
    return f"{key} {shown(name)}"


def _drop_note(responses: pd.DataFrame, lost: Mask) -> list[str]:
    items = len(responses.loc[lost, ["benchmark", "item"]].drop_duplicates())
    return [
        f"dropped {lost.sum():,} of {len(responses):,} responses "
        f"({items:,} items) without a contamination"
    ]
