"""From a corpus manifest to the folder of a finished scan."""

import importlib.metadata
import os
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from bayescontam._files import on_disk, write_text
from bayescontam._text import printable
from bayescontam.errors import DataError, UsageError
from bayescontam.scan.pipeline import LENGTHS, Execution, Pipeline, PipelineResult
from bayescontam.scan.results import RECORD, Scan, write_tables
from bayescontam.scan.synthetic import generate
from bayescontam.scan.work_folder import WorkFolder, write_json
from bayescontam.specs.corpus import Manifest
from bayescontam.specs.registry import load_manifest

__all__ = ["Scan", "run_scan"]


_PACKAGES = (
    "bayescontam", "torch", "sentence-transformers", "transformers", "tokenizers", "semchunk",
    "numba", "numpy", "pyarrow", "rapidfuzz",
)  # fmt: skip


def record_of(manifest: Manifest, outcome: PipelineResult) -> dict[str, Any]:
    """Return the content of ``scan.json``."""
    sketch, search = outcome.found.sketch, manifest.search
    versions = {name: version for name in _PACKAGES if (version := _version(name))}
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": versions.get("bayescontam", ""),
        "versions": versions,
        "manifest": {
            "name": manifest.name,
            "hash": manifest.hash,
            "summary": manifest.summary,
            "text": manifest.text,
        },
        "seed": manifest.seed,
        "embedder": outcome.embedder,
        "documents": _documents(outcome),
        "chunks": {
            "made": sketch.total,
            "distinct": sketch.tallies.get("texts", 0),
            "short_pieces": sum(report["short_pieces"] for report in outcome.chunked),
            "min_tokens": outcome.min_tokens,
        },
        "short": short_of(outcome),
        "strata": _strata(outcome),
        "benchmarks": _benchmarks(manifest, outcome),
        "search": {
            "queries": len(outcome.found.items),
            "chunks": sketch.total,
            "pairs": sketch.total * len(outcome.found.items),
            "shards": len(outcome.found.shards),
            "top_k": search.top_k,
            "tail_share": search.tail_share,
            "tail_size": search.tail_size,
        },
        "seconds": {stage: round(seconds, 3) for stage, seconds in outcome.seconds.items()},
        "notes": _notes(manifest, outcome),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""  # not every scan needs every package


def _documents(outcome: PipelineResult) -> dict[str, Any]:
    unreadable: Counter[str] = Counter()
    without: Counter[str] = Counter()
    for report in outcome.read:
        unreadable.update(report["unreadable"])
        without.update(report["without"])
    return {
        "read": sum(sum(report["documents"].values()) for report in outcome.read),
        "bytes": sum(report["bytes"] for report in outcome.read),
        "unreadable": dict(sorted(unreadable.items())),
        "damaged": {r["path"]: r["damage"] for r in outcome.read if r["damage"]},
        "without": dict(sorted(without.items())),
        "sampled": sum(report["documents"] for report in outcome.chunked),
        "short": sum(report["short"] for report in outcome.chunked),
    }


def short_of(outcome: PipelineResult) -> dict[str, dict[str, int]]:
    """Return for each source how many documents and tokens were sampled, and how many short."""
    table: dict[str, dict[str, int]] = {}
    for report in outcome.chunked:
        for source, counts in report["by_source"].items():
            known = table.setdefault(source, dict.fromkeys(LENGTHS, 0))
            for name in LENGTHS:
                known[name] += counts[name]
    return dict(sorted(table.items()))


def _strata(outcome: PipelineResult) -> list[dict[str, Any]]:
    searched = outcome.found.sketch.chunks
    table: list[dict[str, Any]]
    table = outcome.cutoffs.table.drop(columns="cutoff").to_dict("records")  # type: ignore
    known = {(row["source"], row["stratum"]) for row in table}
    rows = [{**row, "chunks": searched.get((row["source"], row["stratum"]), 0)} for row in table]
    # Ready vectors are chunks without documents.
    return rows + [
        {"source": source, "stratum": stratum, "share": 1.0, "chunks": chunks}
        for (source, stratum), chunks in sorted(searched.items())
        if (source, stratum) not in known
    ]


def _benchmarks(manifest: Manifest, outcome: PipelineResult) -> list[dict[str, Any]]:
    modes = {benchmark.name: benchmark.text_mode for benchmark in manifest.benchmarks}
    found = outcome.found
    table = pd.DataFrame(
        {
            "benchmark": [item.benchmark for item in found.items],
            "cut": [tokens > found.max_tokens for tokens in found.tokens],
        }
    )
    return [
        {
            "benchmark": benchmark,
            "items": len(rows),
            "text_mode": modes.get(str(benchmark), "input"),
            "cut": int(rows["cut"].sum()),
        }
        for benchmark, rows in table.groupby("benchmark", sort=False)
    ]


def _notes(manifest: Manifest, outcome: PipelineResult) -> list[str]:
    """Return sentences on everything that the scan left out."""
    documents, found = _documents(outcome), outcome.found
    notes = list(outcome.notes)
    if documents["unreadable"]:
        reasons = ", ".join(f"{n:,} {why}" for why, n in documents["unreadable"].items())
        total = sum(documents["unreadable"].values())
        notes.append(f"{total:,} records could not be read ({reasons}); scan.log lists them")
    for path, damage in documents["damaged"].items():
        notes.append(f"{path}: {damage}; what stands behind the damage was not scanned")
    for field, count in documents["without"].items():
        notes.append(f"{count:,} documents have no '{printable(field)}'")
    if documents["sampled"] < documents["read"]:
        share = documents["sampled"] / documents["read"]
        notes.append(
            f"{documents['sampled']:,} of {documents['read']:,} documents ({share:.2%}) were "
            "sampled: an item without a match may have one in the rest"
        )
    notes += _short_notes(outcome)
    cut = sum(tokens > found.max_tokens for tokens in found.tokens)
    if cut:
        notes.append(
            f"{cut:,} of {len(found.items):,} items are longer than the {found.max_tokens:,} tokens"
            " that the embedder sees: only their beginning was looked for"
        )
    return notes


def _short_notes(outcome: PipelineResult) -> list[str]:
    """Return sentences on what was not searched because it is short."""
    least, sources = outcome.min_tokens, short_of(outcome)
    whole = {name: sum(counts[name] for counts in sources.values()) for name in LENGTHS}
    notes = []
    if whole["short"]:
        share = whole["short"] / whole["documents"]
        tokens = whole["short_tokens"] / max(1, whole["tokens"])
        notes.append(
            f"{whole['short']:,} of {whole['documents']:,} documents ({share:.2%}, with"
            f" {tokens:.2%} of the tokens) have fewer than {least} tokens and were not searched"
        )
    if whole["short_pieces"]:
        notes.append(
            f"{whole['short_pieces']:,} pieces of long documents have fewer than {least} tokens"
            " and were not searched"
        )
    return notes


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
    place = WorkFolder(out)
    with place.locked(), on_disk(place.folder):
        about = {"command": command, "base": str(Path(base).resolve())}
        _finish(manifest, Path(base), place, execution, replace, about)
        if not keep_work:
            place.clear()
    return Scan.load(place.folder)


def _finish(
    manifest: Manifest,
    base: Path,
    place: WorkFolder,
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


def _pipeline(manifest: Manifest, base: Path, place: WorkFolder, execution: Execution) -> Pipeline:
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
            f"{printable(str(folder))}: holds a finished scan, and this has changed since: "
            f"{', '.join(changed)}; choose another folder, or pass --replace to lose that scan"
        )


def run_scan(
    manifest: Manifest | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str] | None = None,
    engine: Literal["local", "ray"] = "local",
    jobs: int | None = None,
    address: str | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    skip_unreadable: bool = False,
    replace: bool = False,
    keep_work: bool = False,
    progress: bool = False,
    command: str = "",
) -> Scan:
    """Search a corpus for the items of benchmarks, or resume an interrupted scan.

    Parameters
    ----------
    manifest : Manifest, str or path-like
        Corpus manifest, the name of a shipped one, or the path of a TOML file.
    out : path-like
        Folder of the scan. What an interrupted scan of the same manifest left there is
        used; a finished one is returned as it is.
    base : path-like, optional
        Folder that relative paths start at. Default: that of the manifest's file, else the
        current folder.
    engine : {"local", "ray"}, default "local"
        Worker processes of this machine, or actors of a Ray cluster, whose machines must
        all see the files and `out` under the same paths.
    jobs : int, optional
        Workers. Default: one for each core or, on a GPU, one (with Ray, one for each GPU).
    address : str, optional
        Ray cluster; default: one is started on this machine.
    device : {"auto", "cpu", "cuda"}, default "auto"
        Where embedding and search run; ``"auto"`` is a GPU where this machine has one.
    skip_unreadable : bool, default False
        Whether files that cannot be read are counted; otherwise they stop the scan.
    replace : bool, default False
        Whether the finished scan of another manifest may be replaced.
    keep_work : bool, default False
        Whether to keep sampled documents, chunks and sketches in ``out/work``.
    progress : bool, default False
        Whether to show progress bars.
    command : str, optional
        What the user ran, for the record.

    Returns
    -------
    Scan
        The result does not depend on engine or number of jobs.

    Raises
    ------
    SpecError, UsageError
        If the manifest or an option cannot be used.
    DataError
        If a file cannot be read, or nothing is left to search.
    TaskError
        If a task fails, or its worker is killed again and again.
    MissingExtraError
        If the extra 'scan' (or 'ray') is not installed.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.run_scan("ofline-demo", "out")
    Traceback (most recent call last):
        ...
    bayescontam.errors.SpecError: corpus manifest 'ofline-demo': no such corpus manifest ...
    """
    execution = Execution(engine, jobs, address, device, skip_unreadable, progress)
    if not isinstance(manifest, Manifest):
        # That of a shipped manifest's name is the current folder.
        base = Path(manifest).parent if base is None else base
        manifest = load_manifest(manifest)
    return scan_corpus(
        manifest,
        out,
        base=base or ".",
        execution=execution,
        replace=replace,
        keep_work=keep_work,
        command=command,
    )
