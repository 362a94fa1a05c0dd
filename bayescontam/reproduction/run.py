"""Run: a reproduction from its spec to a folder with what was found."""

import importlib
import importlib.metadata
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.reproduction.findings import Findings
from bayescontam.reproduction.record import RECORD, Record
from bayescontam.reproduction.study import Study
from bayescontam.specs.catalogue import load_study
from bayescontam.specs.printed import read_published
from bayescontam.specs.reproduction import ReproductionSpec
from bayescontam.storage import made_folder

DATA = "BAYESCONTAM_DATA"
"""Environment variable that names the folder of tables that are not shipped."""
_SIMULATION = "study.json"
_PACKAGES = ("bayescontam", "pymc", "nutpie", "arviz", "numpy", "pandas", "xarray")


def run_reproduction(
    study: ReproductionSpec | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    full: bool = False,
    data: str | os.PathLike[str] | None = None,
    progress: bool = False,
    command: str = "",
) -> Findings:
    """Do a published study again.

    Finished fits are stored in the folder, so that an interrupted run is resumed by the
    same call.

    Parameters
    ----------
    study : ReproductionSpec, str or path-like
        Spec, name of a shipped one, or path of a TOML file.
    folder : path-like
        Where to write ``comparison.csv``, the tables, and what the page is made from. Made
        if need be.
    full : bool, default False
        The size of the published study, where that is larger than the default.
    data : path-like, optional
        Folder of tables that are not shipped; default: the environment variable
        ``BAYESCONTAM_DATA``. What needs an absent table is left out, and `notes` say so.
    progress : bool, default False
    command : str, optional
        What the user ran, for the record.

    Returns
    -------
    Findings

    Raises
    ------
    SpecError
        If the spec cannot be used.
    UsageError
        If the folder holds another study or cannot be written to, there is no such data
        folder, or the study is none of a publication.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.run_reproduction("novetly", "out")
    Traceback (most recent call last):
        ...
    bayescontam.errors.SpecError: study 'novetly': no such study (did you mean 'novelty'?)
    ...
    """
    spec = study if isinstance(study, ReproductionSpec) else load_study(study)
    if not isinstance(spec, ReproductionSpec):
        raise UsageError(f"{spec.name}: is a simulation study; run it with run_study")
    before = _before(Path(folder), spec)
    published, tables = read_published(spec.published), _data(data)
    home = made_folder(folder)
    started, clock = datetime.now(UTC), time.perf_counter()
    analysis = importlib.import_module(f"bayescontam.reproduction.{spec.analysis}")
    given = Study(spec, spec.at_size(full), published, home, tables, progress)
    findings: Findings = analysis.analyse(given)
    run = {
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - clock, 1),
        "command": command,
        "full": full,
        "data": tables is not None,
        "seed": spec.seed,
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES}
        | {"python": platform.python_version()},
    }
    Record(spec.name, spec.text, (*before, run), findings).save(home)
    return findings


def _before(folder: Path, spec: ReproductionSpec) -> tuple[dict[str, Any], ...]:
    """Return the runs that the folder has seen; refuse one of another study."""
    if (folder / _SIMULATION).exists():
        name = "a simulation study"
    elif (folder / RECORD).exists():
        record = Record.load(folder)
        if record.name == spec.name:
            return record.runs
        name = f"the study '{visible(record.name)}'"
    else:
        return ()
    raise UsageError(
        f"{visible(str(folder))}: holds {name}, and this one is '{spec.name}'; choose another"
        " folder"
    )


def _data(given: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder of tables that are not shipped, if there is one."""
    named = given if given is not None else os.environ.get(DATA)
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        origin = "--data" if given is not None else DATA
        shown = visible(str(folder))
        raise UsageError(f"{origin}: {shown} is no folder; give one, or leave the option out")
    return folder
