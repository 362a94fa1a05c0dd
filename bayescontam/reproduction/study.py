"""Study: what the analysis of a reproduction is given, and the fits that it keeps."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayescontam.calibration.plan import changed_spec
from bayescontam.errors import FitError, UsageError
from bayescontam.execute import usable_cores
from bayescontam.inference.checks import Outcome
from bayescontam.inference.engines import Sampling
from bayescontam.inference.fit import Options, fit_responses
from bayescontam.inference.fitted import Fit
from bayescontam.names import visible
from bayescontam.progress import Advance, progress_bar
from bayescontam.reproduction.findings import Comparison
from bayescontam.responses import Responses
from bayescontam.seeds import stream
from bayescontam.specs.catalogue import load_spec
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.printed import read_printed
from bayescontam.specs.reproduction import ReproductionSpec
from bayescontam.storage import atomic_path, made_folder, sha256

FITS, KEPT = "fits", "kept"
"""Folders of finished fits, and of other tables that take long to make."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_SAMPLING = ("engine", "draws", "tune", "chains", "target_accept")


@dataclass(frozen=True, eq=False)
class Study:
    """What the analysis of a reproduction is given."""

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

    def fit(
        self,
        name: str,
        responses: Responses | pd.DataFrame,
        spec: ModelSpec | str = "hierarchical",
        **settings: Any,
    ) -> Fit:
        """Fit a model spec, or read the fit that was made of the same before."""
        table = responses if isinstance(responses, Responses) else Responses.from_frame(responses)
        model = load_spec(spec) if isinstance(spec, str) else spec
        options = self._options(name, settings)
        path = self._path(name, _key(table, model, options))
        try:
            return Fit.load(path)
        except FitError:
            pass  # none yet, or one that was cut off
        if self.progress:
            about = f"{visible(model.name)}, {len(table.frame):,} rows"
            sys.stderr.write(f"fit {visible(name)}: {about}\n")
        fitted = fit_responses(table, model, options, self.progress)
        self._forget(name)
        fitted.save(path)
        return fitted

    def model(self, name: str, changes: Mapping[str, Any]) -> ModelSpec:
        """Return a shipped model spec with some of its keys changed, as in its file."""
        return changed_spec(load_spec(name), changes, f"study '{self.spec.name}'")

    def kept(
        self, name: str, inputs: Mapping[str, Any], make: Callable[[], pd.DataFrame]
    ) -> pd.DataFrame:
        """Return a table that takes long to make, from the folder if it was made before."""
        content = {**inputs, "seed": self.spec.seed, "version": version("bayescontam")}
        key = sha256(json.dumps(content, sort_keys=True).encode())[:12]
        path = made_folder(self.folder / KEPT) / f"{_named(name)}-{key}.parquet"
        if path.exists():
            return pd.read_parquet(path)
        table = make()
        with atomic_path(path) as part:
            table.to_parquet(part, index=False)
        return table

    def failed_checks(self, name: str, fit: Fit) -> list[str]:
        """Return a note for each check that a fit failed."""
        return [
            f"The fit '{name}' failed the check '{check.name}': {check.sentence}"
            for check in fit.checks()
            if check.outcome is Outcome.FAILED
        ]

    def bar(self, title: str, total: float, unit: str) -> AbstractContextManager[Advance]:
        """Show a bar while the block runs, if anything is to be shown."""
        return progress_bar(self.progress, title, total, unit)

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
        """Return a printed number beside ours."""
        row = self.printed(quantity, where)
        value, low, high = (float(row[name]) for name in ("value", "low", "high"))
        words, shown = quantity.replace("_", " "), where if label is None else label
        mean, ends = ours[0], ours[1:]
        return Comparison(
            words, shown, value, low, high, mean, *ends, reason=reason, source=str(row["source"])
        )

    def table(self, name: str) -> pd.DataFrame:
        """Return another table of ``studies/data``, by name, as it stands there."""
        return read_printed(name)

    def source(self, name: str) -> str:
        """Return the sources of a table of ``studies/data``, each once."""
        return "; ".join(self.table(name)["source"].drop_duplicates())

    def given(self, name: str) -> Path | None:
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

    def _path(self, name: str, key: str) -> Path:
        return made_folder(self.folder / FITS) / f"{_named(name)}-{key[:12]}.nc"

    def _forget(self, name: str) -> None:
        """Remove fits of the same name that were made of something else."""
        for path in (self.folder / FITS).glob(f"{name}-*.nc"):
            if re.fullmatch(rf"{re.escape(name)}-[0-9a-f]{{12}}\.nc", path.name):
                path.unlink()


def _named(name: str) -> str:
    """Return the name of a fit or table, if it can be that of a file."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"study: got the name {name!r}; allowed are small letters, digits, - _")
    return name


def _key(responses: Responses, spec: ModelSpec, options: Options) -> str:
    """Return a hash of all that a fit follows from."""
    frame = responses.frame
    rows = pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes()
    sampling = asdict(options.sampling)
    inputs = {
        "columns": list(map(str, frame.columns)),
        "spec": spec.hash,
        "seed": options.seed,
        "reference": options.reference,
        "level": options.level,
        "thresholds": asdict(options.thresholds),
        "sampling": {name: sampling[name] for name in _SAMPLING},
        "version": version("bayescontam"),
    }
    return sha256(json.dumps(inputs, sort_keys=True).encode() + rows)
