"""The class `StudyResults`: rows of a study, and the tables that follow from them."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from bayescontam._files import atomic_path
from bayescontam._text import printable
from bayescontam.calibration.coverage import coverage_table
from bayescontam.calibration.sbc import rank_tree, sbc_table
from bayescontam.calibration.storage import COPY, RESTORE, audits, read_rows, record_of
from bayescontam.errors import SpecError, UsageError
from bayescontam.specs.study import StudySpec

COVERAGE, SBC = "coverage.csv", "sbc.csv"


@dataclass(frozen=True, eq=False)
class StudyResults:
    """What a study has found so far; made by `load`, or by `StudyRun.results`.

    Attributes
    ----------
    spec : StudySpec
    record : dict
        ``study.json``: name, hash, versions and what is planned.
    text : str
        The study as it was written.
    rows : pandas.DataFrame
        From `bayescontam.calibration.storage.read_rows`.
    """

    spec: StudySpec
    record: dict[str, Any]
    text: str
    rows: pd.DataFrame

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "StudyResults":
        """Read the folder of a run, at any moment, also while it runs.

        Parameters
        ----------
        folder : path-like

        Returns
        -------
        StudyResults

        Raises
        ------
        UsageError
            If the folder holds no run, or a file of it cannot be read.
        """
        place = Path(folder)
        rows = read_rows(place)
        record = record_of(place)
        try:
            text = (place / COPY).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            problem = f"cannot be read ({printable(str(error))}); {RESTORE}"
            raise UsageError(f"{printable(str(place / COPY))}: {problem}") from error
        try:
            spec = StudySpec.parse(text, str(record["name"]))
        except SpecError as error:
            try:  # as Python gave it
                spec = StudySpec.model_validate_json(json.dumps(record["study"]))
            except ValueError:
                problem = f"its study cannot be read ({error}); {RESTORE}"
                raise UsageError(f"{printable(str(place))}: {problem}") from error
        return cls(spec, record, text, rows)

    @cached_property
    def coverage(self) -> pd.DataFrame:
        """From `bayescontam.calibration.coverage.coverage_table`."""
        return coverage_table(self.rows)

    @cached_property
    def sbc(self) -> pd.DataFrame:
        """From `bayescontam.calibration.sbc.sbc_table`.

        Empty unless true values are drawn from a prior, or from a posterior that serves as
        one: ranks of a fixed truth are not uniform, however right a fit is.
        """
        return sbc_table(self.rows if self._drawn else self.rows[:0])

    @property
    def _drawn(self) -> bool:
        """Whether true values are drawn from what serves as a prior."""
        return self.spec.simulator.kind in ("prior", "posterior")

    def ranks(
        self,
        estimator: str | None = None,
        cell: str | None = None,
        quantities: Sequence[str] | None = None,
    ) -> xr.DataTree:
        """Return ranks of the truth in the form that ArviZ draws.

        Parameters
        ----------
        estimator : str, optional
            Default: the only one.
        cell : str, optional
            Cell of the study's grid, as in the column ``cell`` of ``sbc.csv``. Default: the
            only one.
        quantities : sequence of str, optional
            Default: all that have ranks.

        Returns
        -------
        xarray.DataTree
            The group ``prior_sbc``, for ``arviz.plot_ecdf_pit``. A variable for each quantity,
            dims (chain, draw) and, where it has several cells, ``QUANTITY_where``: ``draw`` is
            the replicate and the one ``chain`` is there for ArviZ. Values lie in (0, 1), since
            whole ranks would be divided by the largest that occurs: (rank + v) / (ranks + 1)
            with v uniform, the same in each call. Constants are left out, and so are replicates
            in which one of the quantities has no rank; ``attrs["n_left_out"]`` is how many.

        Raises
        ------
        UsageError
            If true values are fixed, nothing is ranked yet, the estimator or the cell must be
            chosen, or a quantity is unknown or named as no variable can be.

        Examples
        --------
        >>> import arviz as az
        >>> results = StudyResults.load("sbc-single")  # doctest: +SKIP
        >>> az.plot_ecdf_pit(results.ranks(), var_names="overfitting_direct")  # doctest: +SKIP
        """
        if not self._drawn:
            raise UsageError(
                f"simulator: got '{self.spec.simulator.kind}', whose true values are not drawn from"
                " a prior: their ranks are not uniform, however right a fit is; ranks are reported"
                " for simulators 'prior' and 'posterior'"
            )
        return rank_tree(self.rows, estimator, cell, quantities)

    @cached_property
    def audits(self) -> pd.DataFrame:
        """From `bayescontam.calibration.storage.audits`."""
        return audits(self.rows)

    @property
    def planned(self) -> int:
        """Simulated tables that were requested, over all cells."""
        return int(self.record["replicates"]) * len(self.record["cells"])

    @cached_property
    def done(self) -> int:
        """Simulated tables whose fits are all on disk."""
        return len(self.rows[["cell", "replicate"]].drop_duplicates())

    @cached_property
    def fits(self) -> pd.DataFrame:
        """One row for each fit: its cell, replicate, estimator and what became of it.

        Second fits of audits are marked by ``audit``.
        """
        keys = ["cell", "replicate", "estimator", "audit"]
        return self.rows.drop_duplicates(keys)[[*keys, "status", "reason", "engine", "seconds"]]

    def write_tables(self, folder: str | os.PathLike[str]) -> None:
        """Write ``coverage.csv`` and ``sbc.csv``, each whole or not at all.

        Parameters
        ----------
        folder : path-like
            Must exist.
        """
        for name, table in ((COVERAGE, self.coverage), (SBC, self.sbc)):
            with atomic_path(Path(folder, name)) as temporary:
                table.to_csv(temporary, index=False, lineterminator="\n")
