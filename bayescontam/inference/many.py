"""Fits of many tables, of one layout or of several, compiled once for each layout."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from bayescontam._files import atomic_path, sha256
from bayescontam._progress import progress_bar
from bayescontam._random import check_seed, fresh_seed
from bayescontam._runs import claimed_folder, read_json, write_json
from bayescontam._text import join_list, printable
from bayescontam.data.dates import Dates
from bayescontam.data.measures import Scale
from bayescontam.data.parts import split_responses
from bayescontam.data.responses import Path, Responses, given_covariates, read_responses
from bayescontam.errors import FitError, UsageError
from bayescontam.inference.pipeline import fit
from bayescontam.inference.result import Fit
from bayescontam.inference.reusable import CompiledModels
from bayescontam.model.auto import AUTO
from bayescontam.model.effect_names import EffectNames
from bayescontam.specs.model import ModelSpec

RECORD = "fits.json"
"""File of a folder of fits: which tables they are of, and how they were made."""
_LONGEST = 200
"""Characters of a file's name; file systems allow 255 bytes, with what unfinished files add."""
TABLE = "table"
"""Name of the column of tables' names, where they do not come from a column."""
Table = Responses | pd.DataFrame | Path


class Fits(Mapping[str, Fit]):
    """Fits of several tables by name, in memory or in a folder.

    Made by `fit_many`. A mapping: ``fits["2024-05"]`` is a `Fit`; of a folder it is read then.

    Attributes
    ----------
    column : str
        What the names are, and the first column of the tables below; with " (part)" where these
        have such a column themselves.
    """

    def __init__(self, fits: Mapping[str, Fit | FilePath], column: str = TABLE) -> None:
        self._fits, self.column = dict(fits), column

    def __getitem__(self, name: str) -> Fit:
        """Return a fit by name."""
        found = self._fits[name]
        return found if isinstance(found, Fit) else Fit.from_netcdf(found)

    def __iter__(self) -> Iterator[str]:
        """Yield the names, in the order of the tables."""
        return iter(self._fits)

    def __len__(self) -> int:
        """Return the number of fits."""
        return len(self._fits)

    def summary(self) -> pd.DataFrame:
        """Return the headlines of all fits, see `Fit.summary`, each row with its fit's name."""
        return self._joined(Fit.summary)

    def estimands(self) -> pd.DataFrame:
        """Return the estimands of all fits, see `Fit.estimands`, each row with its fit's name."""
        return self._joined(Fit.estimands)

    def overview(self) -> pd.DataFrame:
        """Return one row for each fit.

        Returns
        -------
        pandas.DataFrame
            The name of the fit, ``responses``, ``models``, ``draws`` (of each chain), ``failed``
            and ``cautions`` (names of checks, separated by commas), and a column for each verdict
            on the effect of the headline (total, or direct where that alone is estimated): for how
            many pairs of model and benchmark it was reached.
        """

        def row(fitted: Fit) -> pd.DataFrame:
            outcomes = {"failed": "failed", "cautions": "caution"}
            checks = fitted.checks()
            named = {
                column: ", ".join(c.name for c in checks if c.outcome == outcome)
                for column, outcome in outcomes.items()
            }
            headline = fitted.summary()
            names = EffectNames.among(headline)
            counts = {} if names is None else headline[names.verdict].value_counts().to_dict()
            known: dict[str, Any] = {
                "responses": fitted.record["data"]["responses"],
                "models": headline["model"].nunique(),
                "draws": fitted.record["sampling"]["draws"],
            }
            return pd.DataFrame([known | named | counts])

        found = self._joined(row)
        numbers = found.columns[6:]
        return found.assign(**{name: found[name].fillna(0).astype(int) for name in numbers})

    def _joined(self, of: Callable[[Fit], pd.DataFrame]) -> pd.DataFrame:
        """Return the tables of all fits below each other, with the names first."""
        frames = []
        for name in self:
            frame = of(self[name])
            label = f"{self.column} (part)" if self.column in frame else self.column
            frame.insert(0, label, name)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)


def fit_many(
    responses: pd.DataFrame | Path | Mapping[str, Table],
    each: str | None = None,
    model: ModelSpec | Mapping[str, Any] | Path = AUTO,
    *,
    folder: Path | None = None,
    seed: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Fits:
    """Fit the parts of a table, or several tables, with one compilation for each layout.

    Tables have one layout if they have the same numbers of models, benchmarks and items, answered
    in the same pattern and with as many trials; names may differ. Another layout, and a model
    spec that uses more of a table than counts and contaminations, is compiled anew. Estimates
    are those of `fit`, up to the Monte Carlo error of draws.

    Parameters
    ----------
    responses : pandas.DataFrame, path-like, or mapping of str to tables
        A table or file of responses that has a column `each`, or tables by name.
    each : str, optional
        Column by whose values the table is split, such as the date of a leaderboard. With tables
        by name: what the names are; default ``"table"``.
    model : ModelSpec, str, path-like or mapping, default "auto"
        Model spec, as for `fit`; ``"auto"`` is composed for each table.
    folder : path-like, optional
        Where fits are stored as they are made, as ``NAME.nc`` (of a name of more than 200
        characters its start, and a hash) and with a record ``fits.json``. A
        second call with the same options makes what is missing, and what has other responses.
    seed : int, optional
        Seed of every fit; default: a fresh one, which the fits and the folder record.
    progress : bool, default False
        Whether to show progress.
    **options
        All other options of `fit`. ``draws="auto"`` saves most of the time.

    Returns
    -------
    Fits

    Raises
    ------
    UsageError, DataError, SpecError
        If something given cannot be used: what can be read from the tables alone, before
        anything long is started; the name of the table comes first.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "week": ["1"] * 40 + ["2"] * 40, "model": "m", "benchmark": "b",
    ...     "item": [f"i{i}" for i in range(40)] * 2, "correct": [1, 0] * 40,
    ... })
    >>> fits = fit_many(table, "week", "ability", seed=1, draws=100, tune=100, chains=2)
    >>> list(fits), fits.summary()["week"].tolist()
    (['1', '2'], ['1', '2'])
    """
    # A scale is that of the covariates where these are given, else of the responses.
    scale: Scale = options.pop("contamination_scale", "share")
    if options.get("covariates") is not None:  # read once for all tables
        options["covariates"], scale = given_covariates(options["covariates"], scale), "share"
    seed = None if seed is None else check_seed(seed)
    tables = _tables(responses, each, scale)
    models = options.pop("models", None) or CompiledModels()
    column = each or TABLE

    def fitted(name: str, own: int) -> Fit:
        with _named(column, name):
            return fit(tables[name], model, seed=own, models=models, **options)

    with progress_bar(progress, "fitting", len(tables), "tables") as advance:
        if folder is None:
            own, found = fresh_seed() if seed is None else seed, {}
            for name in tables:
                found[name] = fitted(name, own)
                advance(1)
            return Fits(found, column)
        place = FilePath(folder)
        is_ours = (place / RECORD).exists
        with claimed_folder(place, "run of fits", "fits", is_ours):
            made = {"model": model, **options}
            made.pop("command", None)
            own = _claim(place, tables, made, seed, column)
            files = {name: place / _file_name(name) for name in tables}
            for name, file in files.items():
                if not file.exists():
                    with atomic_path(file) as part:
                        fitted(name, own).to_netcdf(part)
                advance(1)
        return Fits(files, column)


def _tables(
    responses: pd.DataFrame | Path | Mapping[str, Table], each: str | None, scale: Scale
) -> Mapping[str, Responses]:
    """Return validated tables by name."""
    if isinstance(responses, Mapping):
        if not responses:
            raise UsageError("responses: got no tables; at least one is needed")
        found = {}
        for name, table in responses.items():
            with _named(each or TABLE, str(name)):
                if not isinstance(table, Responses):
                    table = read_responses(table, contamination_scale=scale)
            found[str(name)] = table
        return found
    if each is None:
        raise UsageError("each: name the column that the table is split by")
    return split_responses(responses, each, contamination_scale=scale)


@contextmanager
def _named(column: str, name: str) -> Iterator[None]:
    """Name the table in errors that do not name a file."""
    try:
        yield
    except (UsageError, FitError) as error:
        raise type(error)(f"{column} {printable(name)}: {error}") from error


def _claim(
    folder: FilePath,
    tables: Mapping[str, Responses],
    options: dict[str, Any],
    seed: int | None,
    column: str,
) -> int:
    """Record what a folder of fits is of, remove fits of other responses, and return the seed."""
    path = folder / RECORD
    before = read_json(path) if path.exists() else None
    if seed is None:
        seed = fresh_seed() if before is None else before["made"]["seed"]
    made = {"column": column, "seed": seed, **{k: _spelled(v) for k, v in options.items()}}
    hashes = {name: _hash(table.frame) for name, table in tables.items()}
    if before is not None:
        known = before["made"]
        if other := [name for name in known | made if known.get(name) != made.get(name)]:
            raise UsageError(
                f"{printable(folder)}: its fits were made with another {join_list(other)}; choose"
                " another folder, or the same options"
            )
        for name, hashed in before["tables"].items():
            if hashes.get(name, hashed) != hashed:
                (folder / _file_name(name)).unlink(missing_ok=True)
        hashes = before["tables"] | hashes
    write_json(path, {"format": 1, "made": made, "tables": hashes})
    return seed


def _file_name(name: str) -> str:
    """Return the name of the file of a fit; of a long name its start, and a hash of it."""
    quoted = quote(name, safe=" ")
    if len(quoted) > _LONGEST:
        quoted = f"{quoted[: _LONGEST - 17]}-{sha256(name.encode())[:16]}"
    return f"{quoted}.nc"


def _hash(frame: pd.DataFrame) -> str:
    """Return a hash of all that a table holds."""
    rows = pd.util.hash_pandas_object(frame.astype(str), index=False).to_numpy()
    return sha256(json.dumps(list(map(str, frame.columns))).encode() + rows.tobytes())


def _spelled(value: Any) -> str:
    """Return a text that is the same for the same option: of a file or table, by its content."""
    if isinstance(value, ModelSpec):
        return value.hash
    if isinstance(value, Dates):
        return repr([_spelled(each) for each in (value.released, value.cutoff, value.margin)])
    if isinstance(value, pd.DataFrame):
        return _hash(value)
    if isinstance(value, str | FilePath) and FilePath(value).is_file():
        return sha256(FilePath(value).read_bytes())
    frame = getattr(value, "frame", None)
    if isinstance(frame, pd.DataFrame):
        return _hash(frame)
    return repr(value.item() if isinstance(value, np.generic) else value)
