"""From a corpus manifest to the folder of a finished scan."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal

from bayescontam._files import on_disk, write_text
from bayescontam._runs import claimed_folder, write_json
from bayescontam._text import printable
from bayescontam.errors import DataError, UsageError
from bayescontam.parallel import ray_cluster
from bayescontam.scan.pipeline import (
    WORK,
    CorpusListing,
    Execution,
    chunk_documents,
    embed_items,
    list_corpus,
    sample_documents,
    search_shards,
    vector_shards,
)
from bayescontam.scan.results import RECORD, Scan, SearchTables, record_of, write_tables
from bayescontam.scan.synthetic import generate
from bayescontam.specs.corpus import Manifest
from bayescontam.specs.registry import load_manifest

__all__ = ["Scan", "run_scan"]

_STAGE = re.compile(r"(items|read|chunk|search)-[0-9a-f]{16}")


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
        CorpusListing manifest, the name of a shipped one, or the path of a TOML file.
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
                found, record = _search(corpus, folder, execution.on_device())
            # The mark of a finished scan goes before its tables are replaced one by one.
            (folder / RECORD).unlink(missing_ok=True)
            write_text(folder / "manifest.toml", manifest.text)
            write_tables(folder, found, manifest.search, manifest.lexical, progress)
            record["seconds"]["all"] = round(time.perf_counter() - start, 3)
            about = {"key": corpus.key, "command": command, "base": str(base.resolve())}
            write_json(folder / RECORD, about | record)
        if not keep_work:
            rmtree(folder / WORK, ignore_errors=True)
    return Scan.load(folder)


def _search(
    corpus: CorpusListing, out: Path, execution: Execution
) -> tuple[SearchTables, dict[str, Any]]:
    """Run all stages, from where an interrupted scan stopped; return results and record."""
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
    found = SearchTables(sketch, corpus.items, embedded.tokens, embedded.max_tokens, shards)
    return found, record_of(corpus, embedded, sample, chunked, found, seconds)


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
