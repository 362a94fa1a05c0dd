"""Results: the rows of a study's run, finished or not, and the tables that follow from them."""

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from bayescontam.calibration.audit import audits
from bayescontam.calibration.coverage import coverage_table
from bayescontam.calibration.record import COPY, RESTORE, record_of
from bayescontam.calibration.rows import read_rows
from bayescontam.calibration.sbc import sbc_table
from bayescontam.errors import SpecError, UsageError
from bayescontam.names import visible
from bayescontam.specs.study import StudySpec
from bayescontam.storage import atomic_path

COVERAGE, SBC = "coverage.csv", "sbc.csv"


@dataclass(frozen=True, eq=False)
class Results:
    """What a study has found so far; make one with `load`.

    Attributes
    ----------
    spec : StudySpec
    record : dict
        ``study.json``: name, hash, versions and what is planned.
    text : str
        The study as it was written.
    rows : pandas.DataFrame
        From `bayescontam.calibration.rows.read_rows`.
    """

    spec: StudySpec
    record: dict[str, Any]
    text: str
    rows: pd.DataFrame

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Results":
        """Read the folder of a run, at any moment, also while it runs.

        Parameters
        ----------
        folder : path-like

        Returns
        -------
        Results

        Raises
        ------
        UsageError
            If the folder holds no run, or a file of it cannot be read.
        """
        place = Path(folder)
        rows = read_rows(place)
        record = record_of(place)
        text = _read(place / COPY)
        return cls(_spec(text, record, visible(str(place))), record, text, rows)

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
        drawn = self.spec.simulator.kind in ("prior", "posterior")
        return sbc_table(self.rows if drawn else self.rows[:0])

    @cached_property
    def audits(self) -> pd.DataFrame:
        """From `bayescontam.calibration.audit.audits`."""
        return audits(self.rows)

    @property
    def planned(self) -> int:
        """Simulated tables that were asked for, over all cells."""
        return int(self.record["replicates"]) * len(self.record["cells"])

    @cached_property
    def done(self) -> int:
        """Simulated tables whose fits are all on disk."""
        return len(self.rows[["cell", "replicate"]].drop_duplicates())

    @cached_property
    def fits(self) -> pd.DataFrame:
        """One row for each fit: its cell, replicate, estimator and what became of it.

        Second fits of audits are told by ``audit``.
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


def _spec(text: str, record: dict[str, Any], folder: str) -> StudySpec:
    """Return the study as it was run: from its file, or as Python gave it."""
    try:
        return StudySpec.parse(text, str(record["name"]))
    except SpecError as error:
        try:
            return StudySpec.model_validate_json(json.dumps(record["study"]))
        except ValueError:
            raise UsageError(f"{folder}: its study cannot be read ({error}); {RESTORE}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{visible(str(path))}: cannot be read ({visible(str(error))}); {RESTORE}"
        ) from error
