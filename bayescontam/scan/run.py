"""A scan from a corpus manifest to the folder of its results, and what is recorded of it."""

import dataclasses
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal

from bayescontam._files import on_disk, sha256, write_text
from bayescontam._optional import check_installed
from bayescontam._progress import write_line
from bayescontam._runs import claimed_folder, write_json
from bayescontam._text import join_list, printable
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.parallel import shared_workers
from bayescontam.scan.chunking import ChunkedDocuments, TextShard, chunk_documents
from bayescontam.scan.distinct import check_distinct, check_sources
from bayescontam.scan.documents import sample_documents
from bayescontam.scan.embedder_record import same_weights, weights_mark
from bayescontam.scan.execution import WORK, Execution
from bayescontam.scan.faiss_search import FaissSearcher, check_faiss
from bayescontam.scan.index_search import search_index
from bayescontam.scan.items import (
    WEIGHTS,
    BenchmarkItems,
    CorpusListing,
    EmbeddedItems,
    Item,
    embed_lists,
    read_items,
)
from bayescontam.scan.record import record_of, vectors_record
from bayescontam.scan.results import RECORD, Scan, Searched, SearchTables, write_tables
from bayescontam.scan.search import Searcher
from bayescontam.scan.served import forget_spent, replies_folder
from bayescontam.scan.shard_search import queries_of, search_shards, vector_shards
from bayescontam.scan.sketch import Sketch
from bayescontam.scan.sources import list_inputs
from bayescontam.scan.stored_vectors import (
    VECTORS,
    Precision,
    StoredVectors,
    check_room,
    holds_vectors,
    megabytes,
    size_of,
    unfinished,
)
from bayescontam.scan.synthetic import generate
from bayescontam.scan.vector_index import VectorIndex
from bayescontam.scan.vectors import given_vectors
from bayescontam.specs.corpus import Benchmark, Manifest, Source, as_looked_for
from bayescontam.specs.registry import load_manifest

__all__ = ["Scan", "run_scan"]

_STAGE = re.compile(r"(items|read|chunk|search|replies)-[0-9a-f]{16}")


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
    keep_vectors: Literal["fp16", "fp32"] | None = None,
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
        Workers. Default: one for each core. Where there are GPUs, one for each of them embeds.
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
    keep_vectors : {"fp16", "fp32"}, optional
        Store the vectors of all chunks in ``out/vectors``, with so many bits a number, for
        scans for other benchmarks (`stored` of a manifest). Default: they are not stored.
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
    if keep_vectors not in (None, "fp16", "fp32"):
        raise UsageError(f"keep_vectors: got {keep_vectors!r}; allowed: 'fp16', 'fp32', None")
    start, folder, base = time.perf_counter(), Path(out), Path(base or ".")
    execution = Execution(engine, jobs, address, device, progress)
    if not _holds_scan(folder):
        for module in ("torch", "semchunk"):  # before hours of reading; 'lab' brings one of them
            check_installed(module, "scan")
    with claimed_folder(folder, "scan", "scan", lambda: _holds_scan(folder)), on_disk(folder):
        done = _key_of(folder)
        if not replace:
            # Before anything is made: the corpus of a generated scan is part of it.
            _refuse_other(folder, done, {"manifest": manifest.hash})
        corpus = _listed(manifest, base, folder, skip_unreadable)
        if done:
            corpus = _as_recorded(corpus, Scan.load(folder).record)
        vectors = folder / VECTORS
        stored = keep_vectors is None or holds_vectors(vectors, corpus.key, keep_vectors)
        if done != corpus.key or not stored:
            if not replace:
                _refuse_other(folder, done, corpus.key)
            with shared_workers(engine, address, jobs):
                found, record = _search(corpus, folder, execution.on_device(), keep_vectors)
            # The mark of a finished scan goes before its tables are replaced one by one.
            (folder / RECORD).unlink(missing_ok=True)
            write_text(folder / "manifest.toml", manifest.text)
            write_tables(folder, found, manifest.search, manifest.lexical, progress)
            record["seconds"]["all"] = round(time.perf_counter() - start, 3)
            about = {"key": corpus.key, "command": command, "base": str(base.resolve())}
            write_json(folder / RECORD, about | record)
            if not holds_vectors(vectors, corpus.key):
                rmtree(vectors, ignore_errors=True)  # those of the scan that was replaced
        rmtree(unfinished(vectors), ignore_errors=True)
        if not keep_work:
            rmtree(folder / WORK, ignore_errors=True)
    return Scan.load(folder)


def corpus_of(scan: Scan, base: Path) -> CorpusListing:
    """List the corpus of a finished scan again; `base` is where relative paths start.

    Raises
    ------
    UsageError
        If its files, or the items, have changed since.
    """
    manifest, key = load_manifest(scan.folder / "manifest.toml"), scan.record["key"]
    corpus = _listed(manifest, base, scan.folder, key["--skip-unreadable"])
    corpus = _as_recorded(corpus, scan.record)
    if changed := [name for name in corpus.key if key.get(name) != corpus.key[name]]:
        raise UsageError(
            f"{printable(str(scan.folder))}: this has changed since the scan: {', '.join(changed)};"
            " scan again, with --replace to lose that scan"
        )
    return corpus


def _as_recorded(corpus: CorpusListing, record: Mapping[str, Any]) -> CorpusListing:
    """Return a corpus with the weights of a scan's record, unless others are here now."""
    before, about = record["key"].get(WEIGHTS, ""), record["embedder"]
    if about.get("revision") is None and before:
        about = about | {"revision": before}  # of a model of the hub, its mark is the commit
    if (
        corpus.weights in (before, "")  # not here: nothing is known of them
        # Touched or copied files have other times; those of earlier scans were not recorded.
        or same_weights(corpus.manifest.embedding, about)
    ):
        return dataclasses.replace(corpus, weights=before)
    return corpus


def _listed(manifest: Manifest, base: Path, folder: Path, skip_unreadable: bool) -> CorpusListing:
    """List a corpus, which is made first in the folder of the scan if the manifest says so."""
    benchmarks, sources = manifest.benchmarks, manifest.sources
    if manifest.generated is not None:
        base = folder / "generated"
        benchmarks, sources = generate(manifest.generated, manifest.seed, base)
    return list_corpus(manifest, benchmarks, sources, base, folder, skip_unreadable)


def list_corpus(
    manifest: Manifest,
    benchmarks: Sequence[Benchmark],
    sources: Sequence[Source],
    base: Path,
    out: Path,
    skip_unreadable: bool,
) -> CorpusListing:
    """Read the items of benchmarks and list the inputs of sources, those in `out` left out."""
    index = VectorIndex.load(manifest.index, base) if manifest.index else None
    stored = index.stored if index else [StoredVectors.load(p, base) for p in manifest.stored]
    for each in stored:
        if each.folder.resolve().is_relative_to(out.resolve()):
            raise UsageError(
                f"{printable(str(each.folder))}: lies in the folder of the scan itself, which"
                " would replace it; choose another folder for the scan (--out)"
            )
    notes = check_distinct(stored)
    names = Counter([source.name for source in sources] + [s for v in stored for s in v.sources])
    if repeated := next((name for name, n in names.items() if n > 1), ""):
        raise UsageError(
            f"source '{printable(repeated, 60)}': stands twice among the sources and the stored"
            " vectors, whose documents would count as one source; give sources names of their"
            " own in manifests (that of a quick scan is 'corpus'), join vectors under other names"
            " (vectors add --rename), or scan them separately"
        )
    found_items, by_source = _read_lists(
        benchmarks, sources, names if manifest.search.per == "source" else [], base
    )
    items = [item for found in found_items.values() for item in found.items]
    vectors = {
        benchmark.name: given_vectors(benchmark, len(found_items[benchmark.name].items), base)
        for benchmark in benchmarks
    }
    inputs = [item for source in sources for item in list_inputs(source, base, notes)]
    if manifest.generated is not None:
        # Written anew at every start: the content is identified by what it is made from.
        made = sha256(f"{manifest.seed} {manifest.generated!r}".encode())
        inputs = [dataclasses.replace(item, stamp=made) for item in inputs]
    else:
        own, found = out.resolve(), len(inputs)
        inputs = [item for item in inputs if own not in Path(item.location).resolve().parents]
        if count := found - len(inputs):
            notes.append(f"files in the folder of the scan itself were passed over: {count:,}")
    texts = [item for item in inputs if item.kind != "vectors"]
    notes += check_sources(stored, texts, {source.name: source for source in sources})
    to_embed = texts or any(found is None for found in vectors.values())
    return CorpusListing(
        manifest,
        items,
        {name: given for name, given in vectors.items() if given is not None},
        {source.name: source for source in sources},
        texts,
        [item for item in inputs if item.kind == "vectors"],
        {str(found.folder): found.key for found in stored},
        {name: found.left_out for name, found in found_items.items()},
        notes,
        skip_unreadable,
        (str(index.folder), index.key) if index and not manifest.search.exact else None,
        by_source,
        weights_mark(manifest.embedding) if to_embed else "",
    )


def _read_lists(
    benchmarks: Sequence[Benchmark], sources: Sequence[Source], apart: Iterable[str], base: Path
) -> tuple[dict[str, BenchmarkItems], dict[str, list[Item]]]:
    """Return the items of benchmarks, and as each source that is searched `apart` has them."""
    done: list[tuple[Benchmark, BenchmarkItems]] = []

    def read(benchmark: Benchmark) -> BenchmarkItems:
        found = next((items for known, items in done if known == benchmark), None)
        if found is None:
            found = read_items(benchmark, base)
            done.append((benchmark, found))
        return found

    own = {source.name: source for source in sources}
    here = {
        name: [as_looked_for(b, own[name]) if name in own else b for b in benchmarks]
        for name in apart
    }
    # Nothing needs the fields of texts that no source is searched for.
    first = next(iter(here.values()), list(benchmarks))
    by_source = {
        name: [item for benchmark in listed for item in read(benchmark).items]
        for name, listed in here.items()
    }
    return {benchmark.name: read(benchmark) for benchmark in first}, by_source


def _search(
    corpus: CorpusListing, out: Path, execution: Execution, keep_vectors: Precision | None
) -> tuple[SearchTables, dict[str, Any]]:
    """Run all stages, from where an interrupted scan stopped; return results and record."""
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        seconds[stage] = round(time.perf_counter() - start, 3)

    by_faiss = corpus.manifest.search.backend == "faiss"
    if by_faiss and execution.engine == "local":
        check_faiss(execution.device, corpus.manifest.search.top_k)
    stored = [StoredVectors.load(folder) for folder in corpus.stored]
    if (replies := replies_folder(out, corpus.manifest.embedding)) is not None:
        forget_spent(replies)
    # First, since it finds out whether the embedder is there.
    with timed("items"):
        lists = embed_lists(corpus, out, execution)
        embedded = next(iter(lists.values()))
    for vectors in stored:
        if embedded.about.get("model") != "given":  # dimensions are compared as chunks come
            vectors.check_embedder(embedded.about)
    with timed("read"):
        sample = sample_documents(corpus, out, execution)
    with timed("chunk"):
        chunked = chunk_documents(corpus, lists, sample, out, execution)
    with timed("search"):
        shards = [*chunked.shards(), *vector_shards(corpus)]
        whole = [shard for vectors in stored for shard in vectors.shards()]
        shards += [p for s in whole for p in s.by_source()] if corpus.by_source else whole
        if not shards:
            raise _nothing(corpus, chunked)
        if keep_vectors is not None:
            _announce(chunked, embedded, out, keep_vectors, execution.progress)
        sketches: Mapping[str, Sketch]
        store = None
        if corpus.index is not None:
            index = VectorIndex.load(corpus.index[0])
            queries = queries_of(corpus.items, embedded, corpus.manifest.seed)
            searched = search_index(index, queries, corpus.manifest.search, execution.progress)
            sketches = {"": searched}
        else:
            sketches, store = search_shards(
                corpus, lists, chunked, shards, out, execution, keep_vectors,
                FaissSearcher if by_faiss else Searcher,
            )  # fmt: skip
    searches = [
        Searched(sketch, corpus.lists[name], lists[name].tokens, name)
        for name, sketch in sketches.items()
    ]
    found = SearchTables(searches, embedded.max_tokens, shards)
    record = record_of(corpus, embedded, sample, chunked, stored, found, seconds)
    if store is not None:
        texts = {
            number: shard.size
            for number, shard in enumerate(shards)
            if isinstance(shard, TextShard)
        }
        # A finished scan's mark goes first: its vectors and tables belong together.
        (out / RECORD).unlink(missing_ok=True)
        store.finish(
            out / VECTORS, texts, vectors_record(corpus, sample, chunked, store.precision, record)
        )
    return found, record


def _announce(
    chunked: ChunkedDocuments,
    embedded: EmbeddedItems,
    out: Path,
    precision: Precision,
    shown: bool,
) -> None:
    """Write how large the vectors will be; refuse if there are none, or no room for them."""
    if len(set(chunked.limits.values())) > 1:
        raise UsageError(
            "--keep-vectors: the shortest text differs by source, as these are searched for other"
            " texts, and stored vectors have one for all; set min_tokens under [chunking]"
        )
    texts, dims = sum(shard.size for shard in chunked.shards()), embedded.vectors.shape[1]
    if not texts:
        raise UsageError("--keep-vectors: no text is embedded, the corpus holds vectors already")
    size = size_of(texts, dims, precision)
    listed = sum(Path(shard.path).stat().st_size for shard in chunked.shards())
    there = sum(path.stat().st_size for path in (out / WORK).glob(f"search-*/{VECTORS}/*"))
    check_room(out, size + listed, there)
    write_line(
        shown,
        f"storing the vectors of up to {texts:,} texts, {dims} dimensions in {precision}:"
        f" {megabytes(size)}, and about {megabytes(listed)} of texts, in"
        f" {printable(str(out / VECTORS))}",
    )


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


def _nothing(corpus: CorpusListing, chunked: ChunkedDocuments) -> DataError:
    short = sum(report["short"] for report in chunked.reports)
    documents = sum(report["documents"] for report in chunked.reports)
    problem = (
        f"nothing to search: {documents:,} documents, {short:,} of them below"
        f" {chunked.min_tokens} tokens"
    )
    advice = "Lower chunking.min_tokens (--min-tokens), or name other files."
    return DataError([Fault(join_list(corpus.sources), problem)], advice)
