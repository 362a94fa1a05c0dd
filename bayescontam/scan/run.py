"""Run: a corpus manifest to the folder of a finished scan."""

import os
import time
from pathlib import Path
from typing import Any

from bayescontam.errors import DataError, UsageError
from bayescontam.names import visible
from bayescontam.scan.disk import on_disk
from bayescontam.scan.execution import Execution
from bayescontam.scan.generated import generate
from bayescontam.scan.outputs import write_tables
from bayescontam.scan.pipeline import Pipeline
from bayescontam.scan.record import record_of
from bayescontam.scan.results import RECORD, Scan
from bayescontam.scan.workplace import Workplace, write_json
from bayescontam.specs.corpus import Manifest
from bayescontam.storage import write_text


def scan_corpus(
    manifest: Manifest,
    out: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str] = ".",
    execution: Execution | None = None,
    replace: bool = False,
    keep_work: bool = False,
    command: str = "",
) -> Scan:
    """Scan a corpus for benchmarks, or resume a scan that was interrupted."""
    execution = execution or Execution()
    place = Workplace(out)
    with place.locked(), on_disk(place.folder):
        about = {"command": command, "base": str(Path(base).resolve())}
        _finish(manifest, Path(base), place, execution, replace, about)
        if not keep_work:
            place.clear()
    return Scan.load(place.folder)


def _finish(
    manifest: Manifest,
    base: Path,
    place: Workplace,
    execution: Execution,
    replace: bool,
    about: dict[str, Any],
) -> None:
    """Do what is left to do of a scan."""
    start = time.perf_counter()
    known = _key_of(place.folder)
    if not replace:
        # Before anything is made: the corpus of a generated scan is part of it.
        _refuse_other(place.folder, known, {"manifest": manifest.hash})
    pipeline = _pipeline(manifest, base, place, execution)
    if known == pipeline.key:
        return
    if not replace:
        _refuse_other(place.folder, known, pipeline.key)
    with execution.connected():
        outcome = pipeline.run()
    # The mark of a finished scan goes before its tables are replaced one by one.
    (place.folder / RECORD).unlink(missing_ok=True)
    write_text(place.folder / "manifest.toml", manifest.text)
    write_tables(place.folder, outcome.found, manifest.search, manifest.lexical, execution.progress)
    outcome.seconds["all"] = time.perf_counter() - start
    record = {"key": pipeline.key} | about | record_of(manifest, outcome)
    write_json(place.folder / RECORD, record)


def _pipeline(manifest: Manifest, base: Path, place: Workplace, execution: Execution) -> Pipeline:
    benchmarks, sources = manifest.benchmarks, manifest.sources
    if manifest.generated is not None:
        base = place.folder / "generated"
        made = generate(manifest.generated, manifest.seed, base)
        benchmarks, sources = tuple(made[0]), tuple(made[1])
    return Pipeline(manifest, benchmarks, sources, base, place, execution)


def _key_of(folder: Path) -> dict[str, Any]:
    """Return what the finished scan in a folder was made of; nothing if there is none."""
    if not (folder / RECORD).exists():
        return {}
    try:
        return dict(Scan.load(folder).record.get("key", {}))
    except DataError:
        return {}  # tables are missing: made again


def _refuse_other(folder: Path, known: dict[str, Any], key: dict[str, Any]) -> None:
    changed = [name for name in key if known and known.get(name) != key[name]]
    if changed:
        raise UsageError(
            f"{visible(str(folder))}: holds a finished scan, and this has changed since: "
            f"{', '.join(changed)}; choose another folder, or pass --replace to lose that scan"
        )
