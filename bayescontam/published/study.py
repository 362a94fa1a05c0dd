"""What a published analysis gets and returns: data, stored fits, findings, record."""

import importlib
import importlib.metadata
import json
import math
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayescontam._files import atomic_path, make_folder, sha256, write_text
from bayescontam._progress import Advance, progress_bar
from bayescontam._random import stream
from bayescontam._text import printable
from bayescontam.calibration.study import changed_spec
from bayescontam.data.published_tables import read_printed, read_published
from bayescontam.data.responses import Responses
from bayescontam.errors import FitError, UsageError
from bayescontam.inference.checks import Outcome
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.parallel import usable_cores
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_spec, load_study
from bayescontam.specs.study import ReproductionSpec

Kind = Literal["intervals", "curves", "shares", "grid"]

NEEDED: dict[str, tuple[str, ...]] = {
    "intervals": ("label", "series", "mean", "low", "high"),
    "curves": ("x", "series", "mean", "low", "high"),
    "shares": ("value", "series"),
    "grid": ("row", "column", "value"),
}
"""Columns of the table of each kind of picture. ``panel`` may come to them, and of intervals
``truth``."""

INSIDE, OVERLAP, APART = "inside our interval", "intervals overlap", "apart"
NO_INTERVAL = "no interval of ours"
FITS, KEPT = "fits", "kept"
"""Folders of finished fits, and of other tables that take long to make."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_SAMPLING = ("engine", "draws", "tune", "chains", "target_accept")
FORMAT = 1
RECORD, COMPARISON = "reproduction.json", "comparison.csv"
"""Files of the folder, beside a CSV for each table."""
DATA = "BAYESCONTAM_DATA"
"""Environment variable that names the folder of tables that are not shipped."""
_SIMULATION = "study.json"
_PACKAGES = ("bayescontam", "pymc", "nutpie", "arviz", "numpy", "pandas", "xarray")


@dataclass(frozen=True)
class Comparison:
    """A printed number beside ours."""

    quantity: str  # such as `"genuine ability"`
    # model, benchmark or cell that it is reported for, and which estimate of ours stands beside
    where: str
    # published, published_low, published_high: as printed; NaN where it was not
    published: float
    published_low: float
    published_high: float
    # ours, low, high: posterior mean with its 95 % interval, or whatever `reason` says; NaN where
    # there is no interval
    ours: float
    low: float
    high: float
    reason: str  # why the two differ, or may
    source: str = ""  # title, and table or section, of what is printed

    @property
    def agreement(self) -> str:
        """How the two go together.

        ``"inside our interval"``: the printed number lies in it. ``"intervals overlap"``:
        it does not, but the two intervals have numbers in common. ``"apart"``: they have
        none. ``"no interval of ours"``: there is nothing to judge it by.

        >>> Comparison("slope", "", 0.8, -0.2, 1.7, 2.0, 1.0, 3.0, "").agreement
        'intervals overlap'
        """
        if math.isnan(self.low) or math.isnan(self.high):
            return NO_INTERVAL
        if self.low <= self.published <= self.high:
            return INSIDE
        overlap = self.published_low <= self.high and self.low <= self.published_high
        return OVERLAP if overlap else APART


@dataclass(frozen=True, eq=False)
class PictureData:
    """What a picture shows; the report draws it."""

    # `"intervals"`: estimates with their intervals, columns `label, series, mean, low, high` and
    # `truth` (optional). `"curves"`: lines with bands, `x, series, mean, low, high`. `"shares"`:
    # histograms of draws or seeds, `value, series`. `"grid"`: a table of shades, `row, column,
    # value`. Rows of the same `panel` (optional) share axes; panels stand side by side under their
    # names.
    kind: Kind
    title: str
    caption: str
    table: pd.DataFrame
    # x, y: labels of the axes, with units
    x: str
    y: str

    def __post_init__(self) -> None:
        """Refuse a table that cannot be drawn."""
        if self.kind not in NEEDED:
            allowed = ", ".join(NEEDED)
            raise UsageError(f"picture '{self.title}': got kind {self.kind!r}; allowed: {allowed}")
        missing = [name for name in NEEDED[self.kind] if name not in self.table]
        if missing:
            raise UsageError(
                f"picture '{self.title}' of kind '{self.kind}': its table has no column"
                f" '{missing[0]}'; it needs {', '.join(NEEDED[self.kind])}"
            )


@dataclass(frozen=True, eq=False)
class Titled:
    """A table with a title and a caption."""

    title: str
    caption: str
    table: pd.DataFrame


@dataclass(frozen=True, eq=False)
class Findings:
    """What a reproduction came to.

    Attributes
    ----------
    headline : str
        The result in a sentence or two.
    comparisons : tuple of Comparison
    pictures : tuple of Picture
    tables : tuple of Titled
    notes : tuple of str
        What was left out and why; checks of fits that failed, by name.
    """

    headline: str
    comparisons: tuple[Comparison, ...] = ()
    pictures: tuple[PictureData, ...] = ()
    tables: tuple[Titled, ...] = ()
    notes: tuple[str, ...] = ()


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
            about = f"{printable(model.name)}, {len(table.frame):,} rows"
            sys.stderr.write(f"fit {printable(name)}: {about}\n")
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
        path = make_folder(self.folder / KEPT) / f"{_named(name)}-{key}.parquet"
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
        return make_folder(self.folder / FITS) / f"{_named(name)}-{key[:12]}.nc"

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


@dataclass(frozen=True, eq=False)
class Record:
    """A reproduction that was run."""

    name: str  # of the study
    text: str  # its file
    # `started, seconds, command, full, data, versions` of each run, the last at the end
    runs: tuple[dict[str, Any], ...]
    findings: Findings  # of the last run

    @property
    def spec(self) -> ReproductionSpec:
        """The study as it was run."""
        return ReproductionSpec.parse(self.text, self.name)

    def comparison(self) -> pd.DataFrame:
        """Return the printed numbers beside ours, one row each."""
        return comparison_table(self.name, self.findings.comparisons)

    def save(self, folder: Path) -> None:
        """Write the record, ``comparison.csv`` and the tables, each whole or not at all."""
        _write_csv(folder / COMPARISON, self.comparison())
        for titled in self.findings.tables:
            _write_csv(folder / f"{slug(titled.title)}.csv", titled.table)
        content = {
            "format": FORMAT,
            "name": self.name,
            "text": self.text,
            "runs": list(self.runs),
            "findings": _plain(self.findings),
        }
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        write_text(folder / RECORD, text + "\n")

    @classmethod
    def load(cls, folder: Path) -> "Record":
        """Read what `save` wrote."""
        path = folder / RECORD
        place = printable(str(path))
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UsageError(
                f"{printable(str(folder))}: holds no finished reproduction; make one with:"
                " bayescontam study run NAME --out DIR"
            ) from error
        except (OSError, ValueError) as error:
            raise UsageError(f"{place}: cannot be read ({error}); run the study again") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise UsageError(f"{place}: has another layout; run the study again")
        try:
            runs, findings = tuple(content["runs"]), _findings(content["findings"])
            return cls(content["name"], content["text"], runs, findings)
        except (KeyError, TypeError, ValueError) as error:
            problem = f"lacks a part, or holds something else ({printable(repr(error))})"
            raise UsageError(f"{place}: {problem}; run the study again") from error


def comparison_table(study: str, comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """Return printed numbers beside ours, one row each, with the study's name."""
    rows = [asdict(each) | {"agreement": each.agreement} for each in comparisons]
    names = [*Comparison.__dataclass_fields__, "agreement"]
    last = ("reason", "source")
    table = pd.DataFrame(rows, columns=names)[[n for n in names if n not in last] + list(last)]
    table.insert(0, "study", study)
    return table.rename(columns={"low": "ours_low", "high": "ours_high"})


def slug(title: str) -> str:
    """Return a title as the name of a file.

    >>> slug("Seeds: 95 % ranges")
    'seeds-95-ranges'
    """
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))[:60]


def _write_csv(path: Path, table: pd.DataFrame) -> None:
    with atomic_path(path) as part:
        table.to_csv(part, index=False, lineterminator="\n")


def _plain(findings: Findings) -> dict[str, Any]:
    """Return findings as JSON holds them: NaN as null, tables as rows."""
    return {
        "headline": findings.headline,
        "comparisons": [
            {name: None if value != value else value for name, value in asdict(each).items()}
            for each in findings.comparisons
        ],
        "pictures": [
            {"kind": p.kind, "title": p.title, "caption": p.caption, "x": p.x, "y": p.y}
            | {"table": _rows(p.table)}
            for p in findings.pictures
        ],
        "tables": [
            {"title": t.title, "caption": t.caption, "table": _rows(t.table)}
            for t in findings.tables
        ],
        "notes": list(findings.notes),
    }


def _rows(table: pd.DataFrame) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(table.to_json(orient="split", double_precision=15))
    return {name: content[name] for name in ("columns", "data")}


def _table(content: dict[str, Any]) -> pd.DataFrame:
    # JSON has no NaN: a column without any number would come back as one of objects.
    table = pd.DataFrame(content["data"], columns=content["columns"])
    return table.astype({name: float for name in table if table[name].isna().all()})


def _findings(content: dict[str, Any]) -> Findings:
    return Findings(
        content["headline"],
        tuple(_comparisons(content["comparisons"])),
        tuple(PictureData(**(p | {"table": _table(p["table"])})) for p in content["pictures"]),
        tuple(Titled(**(t | {"table": _table(t["table"])})) for t in content["tables"]),
        tuple(content["notes"]),
    )


def _comparisons(rows: Iterable[dict[str, Any]]) -> Iterable[Comparison]:
    for row in rows:
        known: dict[str, Any] = {k: float("nan") if v is None else v for k, v in row.items()}
        yield Comparison(**known)


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
    home = make_folder(folder)
    started, clock = datetime.now(UTC), time.perf_counter()
    analysis = importlib.import_module(f"bayescontam.published.{spec.analysis}")
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
