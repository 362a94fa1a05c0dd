"""From a corpus manifest to the folder of a finished scan."""

import importlib.metadata
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal

import pandas as pd

from bayescontam._files import on_disk, write_text
from bayescontam._runs import claimed_folder, write_json
from bayescontam._text import printable
from bayescontam.errors import DataError, UsageError
from bayescontam.parallel import ray_cluster
from bayescontam.scan.pipeline import (
    LENGTHS,
    WORK,
    ChunkedDocuments,
    Corpus,
    Execution,
    SampledDocuments,
    chunk_documents,
    embed_items,
    list_corpus,
    sample_documents,
    search_shards,
    vector_shards,
)
from bayescontam.scan.results import RECORD, Scan, SearchTables, write_tables
from bayescontam.scan.synthetic import generate
from bayescontam.specs.corpus import Manifest
from bayescontam.specs.registry import load_manifest

__all__ = ["Scan", "run_scan"]

_STAGE = re.compile(r"(items|read|chunk|search)-[0-9a-f]{16}")
_PACKAGES = (
    "bayescontam", "torch", "sentence-transformers", "transformers", "tokenizers", "semchunk",
    "numba", "numpy", "pyarrow", "rapidfuzz",
)  # fmt: skip


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
    if not isinstance(manifest, Manifest):
        # That of a shipped manifest's name is the current folder.
        base = Path(manifest).parent if base is None else base
        manifest = load_manifest(manifest)
    start, folder, base = time.perf_counter(), Path(out), Path(base or ".")
    execution = Execution(engine, jobs, address, device, progress)
    with claimed_folder(folder, "scan", "scan", lambda: _holds_scan(folder)), on_disk(folder):
        done = _key_of(folder)
        if not replace:
            # Before anything is made: the corpus of a generated scan is part of it.
            _refuse_other(folder, done, {"manifest": manifest.hash})
        place, benchmarks, sources = base, manifest.benchmarks, manifest.sources
        if manifest.generated is not None:
            place = folder / "generated"
            benchmarks, sources = generate(manifest.generated, manifest.seed, place)
        corpus = list_corpus(manifest, benchmarks, sources, place, folder, skip_unreadable)
        if done != corpus.key:
            if not replace:
                _refuse_other(folder, done, corpus.key)
            with ray_cluster(engine, address, jobs):
                found = _search(corpus, folder, execution.on_device())
            # The mark of a finished scan goes before its tables are replaced one by one.
            (folder / RECORD).unlink(missing_ok=True)
            write_text(folder / "manifest.toml", manifest.text)
            write_tables(folder, found.tables, manifest.search, manifest.lexical, progress)
            about = {"key": corpus.key, "command": command, "base": str(base.resolve())}
            seconds = {**found.seconds, "all": time.perf_counter() - start}
            write_json(folder / RECORD, about | record_of(corpus, found, seconds))
        if not keep_work:
            rmtree(folder / WORK, ignore_errors=True)
    return Scan.load(folder)


@dataclass(frozen=True)
class _Found:
    """Results of the stages of a scan."""

    tables: SearchTables
    about: dict[str, Any]  # how the embedder describes itself
    sample: SampledDocuments
    chunked: ChunkedDocuments
    seconds: dict[str, float]  # time of each stage, in this run


def _search(corpus: Corpus, out: Path, execution: Execution) -> _Found:
    """Run all stages; what an interrupted scan finished of them is used."""
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        seconds[stage] = time.perf_counter() - start

    # First, since it finds out whether the embedder is there.
    with timed("items"):
        embedded = embed_items(corpus, out, execution)
    with timed("read"):
        sample = sample_documents(corpus, out, execution)
    with timed("chunk"):
        chunked = chunk_documents(corpus, embedded, sample, out, execution)
    with timed("search"):
        shards = [*chunked.shards(), *vector_shards(corpus)]
        sketch = search_shards(corpus, embedded, chunked, shards, out, execution)
    tables = SearchTables(sketch, corpus.items, embedded.tokens, embedded.max_tokens, shards)
    return _Found(tables, embedded.about, sample, chunked, seconds)


def _holds_scan(folder: Path) -> bool:
    """Return whether a folder holds a scan, finished or not."""
    work = folder / WORK
    begun = work.is_dir() and any(_STAGE.fullmatch(path.name) for path in work.iterdir())
    return begun or (folder / RECORD).exists()


def _key_of(folder: Path) -> dict[str, Any]:
    """Return what the finished scan in a folder was made of; nothing if there is none."""
    if not (folder / RECORD).exists():
        return {}
    try:
        return dict(Scan.load(folder).record.get("key", {}))
    except DataError:
        return {}  # tables are missing: made again


def _refuse_other(folder: Path, done: dict[str, Any], key: dict[str, Any]) -> None:
    changed = [name for name in key if done and done.get(name) != key[name]]
    if changed:
        raise UsageError(
            f"{printable(str(folder))}: holds a finished scan, and this has changed since: "
            f"{', '.join(changed)}; choose another folder, or pass --replace to lose that scan"
        )


def record_of(corpus: Corpus, found: _Found, seconds: dict[str, float]) -> dict[str, Any]:
    """Return the content of ``scan.json``."""
    manifest, sketch, search = corpus.manifest, found.tables.sketch, corpus.manifest.search
    versions = {name: version for name in _PACKAGES if (version := _version(name))}
    documents, short = _documents(found), _short(found)
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
        "embedder": found.about,
        "documents": documents,
        "chunks": {
            "made": sketch.total,
            "distinct": sketch.tallies.get("texts", 0),
            "short_pieces": sum(report["short_pieces"] for report in found.chunked.reports),
            "min_tokens": found.chunked.min_tokens,
        },
        "short": short,
        "strata": _strata(found),
        "benchmarks": _benchmarks(manifest, found.tables),
        "search": {
            "queries": len(corpus.items),
            "chunks": sketch.total,
            "pairs": sketch.total * len(corpus.items),
            "shards": len(found.tables.shards),
            "top_k": search.top_k,
            "tail_share": search.tail_share,
            "tail_size": search.tail_size,
        },
        "seconds": {stage: round(time, 3) for stage, time in seconds.items()},
        "notes": [
            *corpus.notes,
            *_reading_notes(documents),
            *_short_notes(short, found.chunked.min_tokens),
            *_cut_notes(found.tables),
        ],
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""  # not every scan needs every package


def _documents(found: _Found) -> dict[str, Any]:
    read, chunked = found.sample.reports, found.chunked.reports
    unreadable, without = Counter[str](), Counter[str]()
    for report in read:
        unreadable.update(report["unreadable"])
        without.update(report["without"])
    return {
        "read": sum(sum(report["documents"].values()) for report in read),
        "bytes": sum(report["bytes"] for report in read),
        "unreadable": dict(sorted(unreadable.items())),
        "damaged": {report["path"]: report["damage"] for report in read if report["damage"]},
        "without": dict(sorted(without.items())),
        "sampled": sum(report["documents"] for report in chunked),
        "short": sum(report["short"] for report in chunked),
    }


def _short(found: _Found) -> dict[str, dict[str, int]]:
    """Return for each source how many documents and tokens were sampled, and how many short."""
    table: dict[str, dict[str, int]] = {}
    for report in found.chunked.reports:
        for source, counts in report["by_source"].items():
            known = table.setdefault(source, dict.fromkeys(LENGTHS, 0))
            for name in LENGTHS:
                known[name] += counts[name]
    return dict(sorted(table.items()))


def _strata(found: _Found) -> list[dict[str, Any]]:
    searched = found.tables.sketch.chunks
    table: list[dict[str, Any]]
    table = found.sample.cutoffs.table.drop(columns="cutoff").to_dict("records")  # type: ignore
    known = {(row["source"], row["stratum"]) for row in table}
    rows = [{**row, "chunks": searched.get((row["source"], row["stratum"]), 0)} for row in table]
    # Ready vectors are chunks without documents.
    return rows + [
        {"source": source, "stratum": stratum, "share": 1.0, "chunks": chunks}
        for (source, stratum), chunks in sorted(searched.items())
        if (source, stratum) not in known
    ]


def _benchmarks(manifest: Manifest, found: SearchTables) -> list[dict[str, Any]]:
    modes = {benchmark.name: benchmark.text_mode for benchmark in manifest.benchmarks}
    cut = pd.Series([tokens > found.max_tokens for tokens in found.tokens], dtype=bool)
    return [
        {
            "benchmark": benchmark,
            "items": len(items),
            "text_mode": modes.get(str(benchmark), "input"),
            "cut": int(items.sum()),
        }
        for benchmark, items in cut.groupby([item.benchmark for item in found.items], sort=False)
    ]


def _reading_notes(documents: dict[str, Any]) -> Iterator[str]:
    """Give sentences on documents that could not be read, were incomplete, or not sampled."""
    if documents["unreadable"]:
        reasons = ", ".join(f"{n:,} {why}" for why, n in documents["unreadable"].items())
        total = sum(documents["unreadable"].values())
        yield f"{total:,} records could not be read ({reasons}); scan.log lists them"
    for path, damage in documents["damaged"].items():
        yield f"{path}: {damage}; what stands behind the damage was not scanned"
    for field, count in documents["without"].items():
        yield f"{count:,} documents have no '{printable(field)}'"
    if documents["sampled"] < documents["read"]:
        share = documents["sampled"] / documents["read"]
        yield (
            f"{documents['sampled']:,} of {documents['read']:,} documents ({share:.2%}) were "
            "sampled: an item without a match may have one in the rest"
        )


def _short_notes(short: dict[str, dict[str, int]], least: int) -> Iterator[str]:
    """Give sentences on what was not searched because it is short."""
    whole = {name: sum(counts[name] for counts in short.values()) for name in LENGTHS}
    if whole["short"]:
        share = whole["short"] / whole["documents"]
        tokens = whole["short_tokens"] / max(1, whole["tokens"])
        yield (
            f"{whole['short']:,} of {whole['documents']:,} documents ({share:.2%}, with"
            f" {tokens:.2%} of the tokens) have fewer than {least} tokens and were not searched"
        )
    if whole["short_pieces"]:
        yield (
            f"{whole['short_pieces']:,} pieces of long documents have fewer than {least} tokens"
            " and were not searched"
        )


def _cut_notes(found: SearchTables) -> Iterator[str]:
    """Give a sentence on items that are longer than the embedder sees."""
    if cut := sum(tokens > found.max_tokens for tokens in found.tokens):
        yield (
            f"{cut:,} of {len(found.items):,} items are longer than the {found.max_tokens:,} tokens"
            " that the embedder sees: only their beginning was looked for"
        )
