"""A corpus without the documents that are too near to items of benchmarks.

A finished scan has the best matches of each item, by the hashes of their texts. Where fewer than
all that it stored are above an item's limit, these are all there are: documents are read and
divided into chunks again, and those with such a text are dropped, wherever it stands. For the
other items every chunk is embedded and compared again.
"""

import fnmatch
import glob
import importlib.metadata
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePath
from shutil import rmtree
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._files import on_disk, sha256
from bayescontam._runs import claimed_folder, read_json, remove_files, write_json
from bayescontam._text import printable
from bayescontam._types import FloatArray
from bayescontam.errors import BayescontamError, DataError, Fault, UsageError
from bayescontam.parallel import shared_workers
from bayescontam.scan.chunking import token_counter
from bayescontam.scan.dropping import FILES, RESULT, DropStage, NearTexts
from bayescontam.scan.embedder_record import embedder_differences
from bayescontam.scan.execution import (
    WORK,
    Execution,
    Report,
    read_reports,
    report_path,
    stage_folder,
    task_name,
)
from bayescontam.scan.items import CorpusListing, EmbeddedItems, embed_items
from bayescontam.scan.results import Scan, write_table
from bayescontam.scan.rewriting import copy_name
from bayescontam.scan.sources import Input, expanded, is_remote
from bayescontam.scan.stored_vectors import unfinished
from bayescontam.specs.corpus import Manifest

RECORD, DROPPED = "clean.json", "dropped.parquet"
"""What the folder of a clean corpus holds beside `FILES`."""
MARGINS = {"fp32": 1e-5, "fp16": 1e-3, "bf16": 5e-3}
"""By how much a cosine may differ when a text is embedded beside others."""
_COLUMNS = {
    "source": "str", "file": "str", "record": "int64", "document": "str", "stratum": "str",
    "benchmark": "str", "item": "str", "cosine": "float64", "chunk": "int64", "start": "int64",
    "end": "int64", "items": "int64", "judged": "bool",
}  # fmt: skip
"""Columns of the table of dropped documents."""


@dataclass(frozen=True)
class CleanCorpus:
    """A corpus without probable duplicates, read with ``CleanCorpus.load(folder)``.

    Attributes
    ----------
    folder : pathlib.Path
        Its files are in ``files``.
    record : dict
        Limits and counts: the content of ``clean.json``.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.CleanCorpus.load("no-such-folder")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no clean corpus: is no folder
    Give the folder that was written with --write-clean.
    """

    folder: Path
    record: dict[str, Any]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "CleanCorpus":
        """Open the folder of a clean corpus.

        Raises
        ------
        DataError
            If it holds none.
        """
        path, advice = Path(folder), "Give the folder that was written with --write-clean."
        if not (path / RECORD).is_file():
            what = f"lacks {RECORD}" if path.is_dir() else "is no folder"
            raise DataError([Fault(str(folder), f"holds no clean corpus: {what}")], advice)
        try:
            record = read_json(path / RECORD)
        except ValueError as error:
            raise DataError([Fault(str(path / RECORD), f"is not JSON ({error})")]) from error
        if not isinstance(record, dict):
            raise DataError([Fault(str(path / RECORD), "is no record of a clean corpus")])
        return cls(path, record)

    @cached_property
    def dropped(self) -> pd.DataFrame:
        """Dropped documents, one row each.

        Columns: ``source``, ``file`` and ``record`` (number in the file, from 1), ``document``,
        ``stratum``; ``benchmark`` and ``item`` of the nearest of the items it is too near to,
        ``cosine``, ``chunk`` (number in the document, from 0), ``start`` and ``end`` (characters);
        ``items`` (how many it is too near to), ``judged`` (whether judges called it a duplicate),
        and with a curve ``p_duplicate``.
        """
        path = self.folder / DROPPED
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise DataError([Fault(str(path), f"cannot be read ({error})")]) from error


@dataclass(frozen=True, eq=False)
class Limits:
    """From which cosine a chunk is too near to an item."""

    sources: tuple[str, ...]
    cosine: FloatArray  # dims (item, source), items in the order of the scan
    about: dict[str, Any]  # what was requested, for the record
    # judged duplicates, too near at any cosine: `query` (number of the item), `chunk_id`,
    # `source`, `cosine`, `copies`
    judged: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(
            columns=["query", "chunk_id", "source", "cosine", "copies"]
        )
    )
    # P(duplicate) of dropped documents by the number of the item, source and cosine
    chance: Callable[[pd.DataFrame], FloatArray] | None = None


def check_sources(manifest: Manifest) -> None:
    """Raise a `UsageError` for a corpus of which no clean part can be written."""
    if manifest.stored or manifest.index:
        raise UsageError(
            "--write-clean: copies the files of a corpus, and stored vectors come without them;"
            " scan the corpus itself (--corpus, or [[sources]] of a manifest)"
        )
    if manifest.embedding.endpoint is not None:
        raise UsageError(
            "--write-clean: is not made for an embedder at an endpoint, whose budget and replies"
            " it does not know; scan with an embedder that is loaded here"
        )
    for source in manifest.sources:
        name = f"--write-clean: source '{printable(source.name, 60)}'"
        if source.dataset is not None:
            raise UsageError(
                f"{name}: is a Hugging Face data set, and files are copied; save it as files"
                " (to_parquet or to_json of the library datasets), scan these, and write from them"
            )
        if source.format == "vectors":
            raise UsageError(
                f"{name}: has ready vectors, and no texts to write; scan the corpus itself"
            )
        if left := next((key for key in ("where", "roles") if getattr(source, key)), ""):
            raise UsageError(
                f"{name}: '{left}' leaves out a part of it, and what was not searched cannot be"
                " called clean; scan it whole (without the key)"
            )
        if own := next((key for key in ("text_mode", "input_output") if getattr(source, key)), ""):
            raise UsageError(
                f"{name}: has a {own} of its own, and one clean corpus is of one text an item;"
                " scan it by itself, with that of the benchmark, and write from that scan"
            )
        if source.share < 1:
            raise UsageError(
                f"{name}: a share of {source.share:g} is scanned, and what was not searched cannot"
                " be called clean; scan it whole (share = 1)"
            )


def check_place(out: Path, scan: Path, manifest: Manifest, base: Path) -> None:
    """Raise a `UsageError` for a folder with other files, or in that of the scan or the corpus."""
    shown, place = printable(str(out)), Path(os.path.normpath(out.absolute()))
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        what = "a link" if out.is_symlink() else "a file"
        raise UsageError(f"{shown}: is {what}; --write-clean needs a folder that is new or empty")
    if place == Path.cwd() or out.is_mount():
        raise UsageError(
            f"{shown}: cannot be replaced as a whole, as it is in use; give a folder in it"
        )
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    # A clean corpus is replaced as a whole: nothing else may be there.
    if names and not (_is_ours(out) and names <= {RECORD, DROPPED, FILES}):
        raise UsageError(f"{shown}: holds files; --write-clean needs a folder that is new or empty")
    if place.resolve().is_relative_to(scan.resolve()):
        raise UsageError(f"{shown}: lies in the folder of the scan; choose another (--write-clean)")
    if scan.resolve().is_relative_to(place.resolve()):
        raise UsageError(f"{shown}: the scan lies in it; choose another folder (--write-clean)")
    folder = Path(os.path.normpath(base.absolute()))
    for path in (path for source in manifest.sources for path in source.paths or ()):
        local = path.partition("://")[2] if path.startswith(("file://", "local://")) else path
        if not is_remote(local) and _leads_to(local, place, folder):
            raise UsageError(
                f"{shown}: lies in the corpus ({printable(path, 80)}), and would be scanned with it"
                " the next time; choose another folder (--write-clean)"
            )


def _is_ours(out: Path) -> bool:
    """Return whether a folder has the record of a clean corpus."""
    try:
        about = read_json(out / RECORD)
    except (OSError, ValueError):
        return False
    return isinstance(about, dict) and {"key", "limits"} <= about.keys()


def _leads_to(path: str, place: Path, base: Path) -> bool:
    """Return whether a path or glob of a corpus leads to a folder, or to what lies in it."""
    where = expanded(base, path)
    if where.exists() or not glob.has_magic(path):
        where = where.resolve()
        return place.resolve().is_relative_to(where) or where.is_relative_to(place.resolve())
    pattern = os.path.normpath(os.path.join(base, os.path.expanduser(path)))  # noqa: PTH111, PTH118
    parts = PurePath(pattern).parts
    # A folder that matches is searched at all depths.
    names = place, *place.parents, place / DROPPED, place / FILES / parts[-1]
    return any(_fits(name.parts, parts) for name in names)


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a path fits a glob, both given by their parts."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    here = bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0])
    return here and _fits(parts[1:], pattern[1:])


def write_clean_corpus(
    scan: Scan,
    corpus: CorpusListing,
    limits: Limits,
    out: Path,
    execution: Execution,
    *,
    replace: bool = False,
    command: str = "",
) -> CleanCorpus:
    """Write the part of a scanned corpus that is near no item, or resume doing so."""
    key = {"scan": scan.record["key"], "limits": _hash(limits)}
    part = unfinished(Path(os.path.normpath(out.absolute())))
    if _key_of(out) == key:
        rmtree(part, ignore_errors=True)
        return CleanCorpus.load(out)
    if (out / RECORD).is_file() and not replace:
        raise UsageError(
            f"{printable(str(out))}: holds a clean corpus of another scan or other limits; choose"
            " another folder (--write-clean), or pass --replace to lose it"
        )
    places = [Path(item.location.removeprefix("file://")).resolve() for item in corpus.inputs]
    if any(out.resolve() in place.parents for place in places):
        raise UsageError(
            f"{printable(str(out))}: files of the corpus lie in it, which would be lost; choose"
            " another folder (--write-clean)"
        )
    if odd := [name for name in map(copy_name, corpus.inputs) if ".." in PurePath(name).parts]:
        raise UsageError(
            f"--write-clean: {printable(odd[0], 80)}: leads out of the folder that is written;"
            " give the corpus by addresses without '..'"
        )
    if names := [name for name, n in Counter(map(copy_name, corpus.inputs)).items() if n > 1]:
        raise UsageError(
            f"--write-clean: {printable(names[0], 80)}: stands twice in the corpus, in two sources"
            " or under two paths, and would be one file; scan and write the sources one by one"
        )
    with claimed_folder(part, "run", "clean corpus", lambda: (part / WORK).is_dir()):
        with on_disk(part), shared_workers(execution.engine, execution.address, execution.jobs):
            folder, record, dropped = _clean(scan, corpus, limits, part, execution.on_device())
        result = folder / RESULT
        with on_disk(out):
            write_table(result / DROPPED, dropped)
            about = {"key": key, "command": command, "limits": limits.about}
            write_json(result / RECORD, about | record)
            rmtree(out, ignore_errors=True)
            result.rename(out)
    rmtree(part, ignore_errors=True)
    return CleanCorpus.load(out)


def _hash(limits: Limits) -> str:
    judged = limits.judged[["query", "chunk_id"]].to_numpy(np.uint64)
    return sha256(limits.cosine.tobytes() + judged.tobytes())


def _key_of(out: Path) -> dict[str, Any]:
    """Return what the clean corpus in a folder was made of; nothing if there is none."""
    try:
        return dict(CleanCorpus.load(out).record.get("key", {}))
    except DataError:
        return {}


def _clean(
    scan: Scan, corpus: CorpusListing, limits: Limits, part: Path, execution: Execution
) -> tuple[Path, Report, pd.DataFrame]:
    """Do all tasks; return the folder of the stage, the record, and what was dropped."""
    embedded = embed_items(corpus, corpus.items, part, execution)
    listing = embedder_differences(scan.record["embedder"], embedded.about, "the scan")
    if listing:
        raise UsageError(
            f"{printable(str(scan.folder))}: was made by another embedder than the one that is"
            f" here now ({listing}); scan again"
        )
    # That of the scan and that of today, which may be on another device.
    precisions = [about.get("precision") for about in (scan.record["embedder"], embedded.about)]
    margin = max(MARGINS.get(str(p), max(MARGINS.values())) for p in precisions)
    near, copies, again = _near(scan, limits, margin)
    stage = _stage(scan, corpus, limits, part, execution, embedded, near, again, margin)
    left = [
        pair for pair in enumerate(corpus.inputs) if not report_path(stage.folder, pair[0]).exists()
    ]
    tasks = {task_name(number): (number, item) for number, item in left}
    # On a GPU, what embeds has as many workers as the search.
    title = "search" if len(again) else "clean"
    for _ in execution.run(title, stage, tasks, lambda task: _kilobytes(task[1]), "kB"):
        pass
    reports = read_reports(stage.folder, len(corpus.inputs))
    try:
        _check_found(scan, reports, copies)
        record = _record(scan, limits, reports, margin, len(again))
    except BayescontamError:
        rmtree(stage.folder)  # of no use to a later run
        raise
    return stage.folder, record, _dropped(scan, stage.folder, reports, limits)


def _near(
    scan: Scan, limits: Limits, margin: float
) -> tuple[NearTexts, dict[tuple[str, int], int], NDArray[np.int64]]:
    """Return the texts near items, the occurrences of each, and of which items there are more.

    Occurrences are by source of a scan by source, else by "" and text.
    """
    keys = ["benchmark", "item"]
    items = pd.MultiIndex.from_frame(scan.items[keys])
    query = items.get_indexer(pd.MultiIndex.from_frame(scan.matches[keys]))
    of_source = scan.matches["source"] if scan.by_source else ""
    shown = ["chunk_id", "cosine", "copies"]
    listed = scan.matches[shown].assign(query=query, judged=False, source=of_source)
    least = limits.cosine.min(axis=1) - margin
    listed = listed[listed["cosine"].to_numpy() >= least[query]]
    # All that were stored are near: there may be more.
    sizes = listed.groupby(["query", "source"]).size().groupby("query").max()
    full = sizes >= scan.record["search"]["top_k"]
    judged = limits.judged if scan.by_source else limits.judged.assign(source="")
    table = pd.concat([listed, judged.assign(judged=True)]).sort_values("chunk_id")
    types = {"chunk_id": np.uint64, "query": np.int64, "cosine": np.float32, "judged": bool}
    columns = {name: table[name].to_numpy(kind) for name, kind in types.items()}
    once = table.drop_duplicates(["source", "chunk_id"])
    names = zip(once["source"], map(int, once["chunk_id"]), strict=True)
    copies = dict(zip(names, map(int, once["copies"]), strict=True))
    near = NearTexts(columns["chunk_id"], columns["query"], columns["cosine"], columns["judged"])
    return near, copies, full.index[full].to_numpy(np.int64)


def _stage(
    scan: Scan,
    corpus: CorpusListing,
    limits: Limits,
    part: Path,
    execution: Execution,
    embedded: EmbeddedItems,
    near: NearTexts,
    again: NDArray[np.int64],
    margin: float,
) -> DropStage:
    manifest = corpus.manifest
    folder = stage_folder(
        part, "clean", scan.record["key"], _hash(limits), margin, execution.device
    )
    (folder / RESULT / FILES).mkdir(parents=True, exist_ok=True)
    remove_files(folder / RESULT, "**/.*.????????.part")  # what a killed worker left
    vectors = embedded.vectors[again]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    least = scan.record["chunks"]["min_tokens"]
    return DropStage(
        folder,
        corpus.sources,
        manifest.reading,
        corpus.skip_unreadable,
        manifest.chunking.model_copy(update={"min_tokens": least}),
        embedded.max_tokens,
        token_counter(embedded, manifest.embedding, execution),
        near,
        {name: limits.cosine[:, place] - margin for place, name in enumerate(limits.sources)},
        again,
        (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32),
        manifest.embedding,
        embedded.about,
        embedded.mark,
        execution.device,
    )


def _kilobytes(item: Input) -> int:
    path = Path(item.location)
    return 1 + path.stat().st_size // 1000 if path.is_file() else 1


def _check_found(scan: Scan, reports: Sequence[Report], copies: dict[tuple[str, int], int]) -> None:
    """Refuse a corpus whose chunks are others than those of the scan."""
    found = Counter[tuple[str, int]]()
    for report in reports:
        source = report["source"] if scan.by_source else ""
        found.update({(source, int(text)): count for text, count in report["found"].items()})
    chunks = sum(report["counts"].get("chunks", 0) for report in reports)
    there = scan.record["search"]["chunks"]
    lost = [one for one, count in copies.items() if found[one] != count]
    if lost or chunks != there:
        problem = (
            f"has {there:,} chunks, and the same documents have {chunks:,} now; of {len(copies):,}"
            f" near texts {len(lost):,} do not occur as often as there"
        )
        advice = "Libraries or files have changed since: scan again, then write the clean corpus."
        raise DataError([Fault(str(scan.folder), problem)], advice)


def _dropped(scan: Scan, folder: Path, reports: Sequence[Report], limits: Limits) -> pd.DataFrame:
    """Return the table of dropped documents; see `CleanCorpus.dropped`."""
    tables = [
        pd.read_parquet(folder / f"{task_name(number)}.parquet")
        for number, report in enumerate(reports)
        if report["counts"]["dropped"]
    ]
    table = pd.concat(tables or [pd.DataFrame(columns=[*_COLUMNS, "query"])], ignore_index=True)
    items = scan.items.iloc[table["query"].to_numpy(np.int64)]
    for name in ("benchmark", "item"):
        table[name] = items[name].to_numpy()
    more = {} if limits.chance is None else {"p_duplicate": limits.chance(table)}
    return table[list(_COLUMNS)].astype(_COLUMNS).assign(**more)


def _record(
    scan: Scan, limits: Limits, reports: Sequence[Report], margin: float, again: int
) -> Report:
    """Return the content of ``clean.json``, apart from what was requested."""
    counts: dict[str, Counter[str]] = {}
    names = ("documents", "dropped", "short", "short_pieces", "chunks")
    for report in reports:
        own = counts.setdefault(report["source"], Counter(dict.fromkeys(names, 0)))
        own.update({name: report["counts"].get(name, 0) for name in names})
        own.update(files=1, unreadable=sum(report["unreadable"].values()))
    whole = sum(counts.values(), Counter[str]())
    if whole["documents"] == whole["dropped"]:
        raise UsageError(
            f"--write-clean: all {whole['documents']:,} documents are too near to items, nothing is"
            " left; give a higher limit"
        )
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": importlib.metadata.version("bayescontam"),
        "scan": str(scan.folder.resolve()),
        "margin": margin,
        "cosines": list(_cosines(scan, limits)),
        "counts": {
            name: {**own, "written": own["documents"] - own["dropped"]}
            for name, own in sorted(counts.items())
        },
        "searched_again": again,
        "notes": list(_notes(whole, scan, again)),
    }


def _cosines(scan: Scan, limits: Limits) -> Iterator[Report]:
    """Give the range of limits by benchmark and source; those that no cosine reaches are none."""
    for benchmark in scan.items["benchmark"].unique():
        own = (scan.items["benchmark"] == benchmark).to_numpy()
        for place, source in enumerate(limits.sources):
            reached = limits.cosine[own, place]
            reached = reached[np.isfinite(reached)]
            ends = (float(reached.min()), float(reached.max())) if len(reached) else (None, None)
            yield {"benchmark": str(benchmark), "source": source, "items": len(reached),
                   "lowest": ends[0], "highest": ends[1]}  # fmt: skip


def _notes(whole: Counter[str], scan: Scan, again: int) -> Iterator[str]:
    """Give sentences on what the clean corpus has that was not searched, and what it lacks."""
    share = whole["dropped"] / whole["documents"]
    yield f"{whole['dropped']:,} of {whole['documents']:,} documents ({share:.2%}) were dropped"
    least = scan.record["chunks"]["min_tokens"]
    if whole["short"]:
        yield (
            f"{whole['short']:,} documents with fewer than {least} tokens were not searched; they"
            " are in the clean corpus"
        )
    if whole["short_pieces"]:
        yield (
            f"{whole['short_pieces']:,} pieces of long documents with fewer than {least} tokens"
            " were not searched"
        )
    if whole["unreadable"]:
        yield f"{whole['unreadable']:,} records that cannot be read were not written"
    if cut := int(scan.items["cut"].sum()):
        yield (
            f"{cut:,} items are longer than the embedder sees: only their beginnings were"
            " searched for"
        )
    if again:
        yield (
            f"{again:,} items may have more near texts than the scan stored (top_k ="
            f" {scan.record['search']['top_k']:,}): for these the corpus was embedded again"
        )
