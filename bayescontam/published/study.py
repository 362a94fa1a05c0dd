"""What the analysis of a published study is given, and how it is run."""

import importlib
import importlib.util
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._files import atomic_path, make_folder, sha256
from bayescontam._progress import progress_bar
from bayescontam._random import stream
from bayescontam._text import printable
from bayescontam.calibration.study import changed_spec
from bayescontam.data.judgements import Judgements
from bayescontam.data.published_tables import read_printed, read_published
from bayescontam.data.responses import Responses
from bayescontam.errors import FitError, UsageError
from bayescontam.evidence.curve import Curve, fit_curve
from bayescontam.evidence.pairs import positions_in_scan
from bayescontam.inference.checks import Outcome
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.model.effect_names import effect_words
from bayescontam.parallel import usable_cores
from bayescontam.published.findings import RECORD, Comparison, Findings, Record
from bayescontam.scan.results import Scan
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model, load_study, shipped_folder
from bayescontam.specs.study import ReproductionSpec

FITS, STORED = "fits", "kept"
"""Folders of finished fits, and of other tables that take long to make."""
DATA = "BAYESCONTAM_DATA"
"""Environment variable that names the folder of tables that are not shipped."""
SCRIPTS = "bayescontam_studies"
"""Name under which the scripts of ``studies/`` are imported, wherever that folder lies."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_SAMPLING = ("engine", "draws", "tune", "chains", "target_accept")
_SIMULATION = "study.json"
_PACKAGES = ("bayescontam", "pymc", "nutpie", "arviz", "numpy", "pandas", "xarray")


@dataclass(frozen=True, eq=False)
class Study:
    """A published study as its analysis sees it: settings, printed numbers, stored fits."""

    spec: ReproductionSpec
    # settings of the spec; with `--full` those of `full` in their place
    settings: Mapping[str, Any]
    # `quantity, where, value, low, high, source`: printed numbers, NaN where there is none
    published: pd.DataFrame
    folder: Path  # folder of the run, which exists
    data: Path | None = None  # folder of the tables that are not shipped
    progress: bool = False  # whether to show what goes on

    def stream(self, *names: str | int) -> np.random.Generator:
        """Return the random stream of these names; it depends on the spec's seed alone."""
        return stream(self.spec.seed, *names)

    def model(self, name: str, changes: Mapping[str, Any]) -> ModelSpec:
        """Return a shipped model spec with some of its keys changed, as in its file."""
        return changed_spec(load_model(name), changes, f"study '{self.spec.name}'")

    def fit(
        self,
        name: str,
        responses: Responses | pd.DataFrame,
        spec: ModelSpec | str = "hierarchical",
        **settings: Any,
    ) -> Fit:
        """Fit a model spec, or read the fit that was made of the same before."""
        table = responses if isinstance(responses, Responses) else Responses.from_frame(responses)
        model = load_model(spec) if isinstance(spec, str) else spec
        options = self._options(name, settings)
        key = _key(table, model, options)
        path = make_folder(self.folder / FITS) / f"{_checked(name)}-{key[:12]}.nc"
        try:
            return Fit.from_netcdf(path)
        except FitError:
            pass  # none yet, or one that was cut off
        if self.progress:
            about = f"{printable(model.name)}, {len(table.frame):,} rows"
            sys.stderr.write(f"fit {printable(name)}: {about}\n")
        fitted = fit_responses(table, model, options, self.progress)
        for old in path.parent.glob(f"{name}-*.nc"):  # fits of the same name to something else
            if re.fullmatch(rf"{name}-[0-9a-f]{{12}}\.nc", old.name):
                old.unlink()
        fitted.to_netcdf(path)
        return fitted

    def curve(self, name: str, scan: Scan, judgements: Judgements, **settings: Any) -> Curve:
        """Fit P(duplicate | cosine) to a scan, or read the curve that was fitted before."""
        judged = positions_in_scan(judgements, scan)
        best = scan.matches.groupby(["benchmark", "item"], observed=True)["cosine"].max()
        judged = judged.join(best.rename("best"), on=["benchmark", "item"])
        rows = pd.util.hash_pandas_object(judged, index=False).to_numpy().tobytes()
        inputs = {**settings, "seed": self.spec.seed, "version": version("bayescontam")}
        key = sha256(json.dumps(inputs, sort_keys=True).encode() + rows)
        file = f"curve-{name.replace(' ', '-')}-{key[:12]}.nc"
        path = make_folder(self.folder / FITS) / file
        try:
            return Curve.from_netcdf(path)
        except FitError:
            pass
        seed = int(self.stream("curve", name).integers(2**31))
        curve = fit_curve(scan, judgements, seed=seed, progress=self.progress, **settings)
        curve.to_netcdf(path)
        return curve

    def failed_checks(self, name: str, fit: Fit) -> list[str]:
        """Return a note for each check that a fit failed."""
        return [
            f"The fit '{name}' failed the check '{check.name}': {check.sentence}"
            for check in fit.checks()
            if check.outcome is Outcome.FAILED
        ]

    def stored(
        self, name: str, inputs: Mapping[str, Any], make: Callable[[], pd.DataFrame]
    ) -> pd.DataFrame:
        """Return a table that takes long to make, from the folder if it was made before."""
        content = {**inputs, "seed": self.spec.seed, "version": version("bayescontam")}
        key = sha256(json.dumps(content, sort_keys=True).encode())[:12]
        path = make_folder(self.folder / STORED) / f"{_checked(name)}-{key}.parquet"
        if path.exists():
            return pd.read_parquet(path)
        table = make()
        with atomic_path(path) as part:
            table.to_parquet(part, index=False)
        return table

    def over_tables(
        self,
        name: str,
        inputs: Mapping[str, Any],
        make: Callable[[int], pd.DataFrame],
        tables: int,
        chunk: int = 25,
    ) -> pd.DataFrame:
        """Return what `make` finds in each of many simulated tables, stored by the chunk."""
        rows = []
        with progress_bar(self.progress, name, tables, "tables") as advance:
            for first in range(0, tables, chunk):
                numbers = range(first, min(first + chunk, tables))
                own = {**inputs, "first": first, "count": len(numbers)}
                rows.append(self.stored(f"{name}-{first}", own, partial(_made, make, numbers)))
                advance(len(numbers))
        return pd.concat(rows, ignore_index=True)

    def printed(self, quantity: str, where: str = "") -> pd.Series:
        """Return the row of a printed number: ``value, low, high, source``."""
        known = self.published
        found = known[(known["quantity"] == quantity) & (known["where"] == where)]
        if len(found) != 1:
            raise UsageError(
                f"study '{self.spec.name}': {len(found)} printed numbers are called '{quantity}'"
                f" ('{where}') in {self.spec.published}.csv; exactly one is needed"
            )
        return found.iloc[0]

    def compared(
        self,
        quantity: str,
        ours: tuple[float, float, float],
        reason: str,
        *,
        where: str = "",
        label: str | None = None,
    ) -> Comparison:
        """Return a printed number beside ours: mean, low and high."""
        row = self.printed(quantity, where)
        value, low, high = (float(row[name]) for name in ("value", "low", "high"))
        words, shown = effect_words(quantity), where if label is None else label
        return Comparison(words, shown, value, low, high, *ours, reason, str(row["source"]))

    def table(self, name: str) -> pd.DataFrame:
        """Return another table of ``studies/data``, by name, as it stands there."""
        return read_printed(name)

    def source(self, name: str) -> str:
        """Return the sources of a table of ``studies/data``, each once."""
        return "; ".join(self.table(name)["source"].drop_duplicates())

    def shared(self, name: str) -> Path | None:
        """Return the path of a file or folder in the data folder; None where it is absent."""
        path = self.data / name if self.data is not None else None
        return path if path is not None and path.exists() else None

    def _options(self, name: str, settings: Mapping[str, Any]) -> Options:
        own = dict(settings)
        sampler = {key: own.pop(key) for key in _SAMPLING if key in own}
        chains = sampler.get("chains", Sampling.chains)
        sampling = Sampling(**sampler, cores=min(chains, usable_cores()))
        seed = own.pop("seed", int(self.stream("fit", name).integers(2**31)))
        command = f"bayescontam study run {self.spec.name}"
        return Options(seed=seed, sampling=sampling, command=command, **own)


def _made(make: Callable[[int], pd.DataFrame], numbers: range) -> pd.DataFrame:
    return pd.concat([make(k).assign(table=k) for k in numbers], ignore_index=True)


def _checked(name: str) -> str:
    """Return the name of a fit or table, if it can be that of a file."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"study: got the name {name!r}; allowed are small letters, digits, - _")
    return name


def _key(responses: Responses, spec: ModelSpec, options: Options) -> str:
    """Return a hash of all that a fit follows from."""
    frame = responses.frame
    rows = pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes()
    given = asdict(options)
    del given["command"], given["sampling"]["cores"]  # which change nothing of it
    inputs = {
        "columns": list(map(str, frame.columns)),
        "spec": spec.hash,
        "options": given,
        "version": version("bayescontam"),
    }
    return sha256(json.dumps(inputs, sort_keys=True).encode() + rows)


def analysis_of(name: str) -> Callable[[Study], Findings]:
    """Return the function `analyse` of a script in ``studies/``."""
    if SCRIPTS not in sys.modules:
        path = shipped_folder("studies") / "__init__.py"
        found = importlib.util.spec_from_file_location(SCRIPTS, path)
        assert found is not None
        sys.modules[SCRIPTS] = importlib.util.module_from_spec(found)
    analyse: Callable[[Study], Findings] = importlib.import_module(f"{SCRIPTS}.{name}").analyse
    return analyse


def run_reproduction(
    study: ReproductionSpec | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    full: bool = False,
    smoke: bool = False,
    data: str | os.PathLike[str] | None = None,
    progress: bool = False,
    command: str = "",
) -> Findings:
    """Do a published study again.

    The analysis is a script of ``studies/``. Finished fits are stored in the folder, so that an
    interrupted run is resumed by the same call.

    Parameters
    ----------
    study : ReproductionSpec, str or path-like
        Spec, name of a shipped one, or path of a TOML file.
    folder : path-like
        Where to write ``comparison.csv``, the tables, and what the page is made from. Made
        if need be.
    full : bool, default False
        The size of the published study, where that is larger than the default.
    smoke : bool, default False
        The smallest size that runs through, where the study has one.
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
    home = make_folder(folder)
    started, clock = datetime.now(UTC), time.perf_counter()
    given = Study(spec, spec.at_size(full, smoke), published, home, tables, progress)
    findings = analysis_of(spec.analysis)(given)
    run = {
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - clock, 1),
        "command": command,
        "full": full,
        "smoke": smoke,
        "data": tables is not None,
        "seed": spec.seed,
        "versions": {name: version(name) for name in _PACKAGES}
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
        name = f"the study '{printable(record.name)}'"
    else:
        return ()
    raise UsageError(
        f"{printable(str(folder))}: holds {name}, and this one is '{spec.name}'; choose another"
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
        shown = printable(str(folder))
        raise UsageError(f"{origin}: {shown} is no folder; give one, or leave the option out")
    return folder
