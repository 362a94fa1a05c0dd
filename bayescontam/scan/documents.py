"""The documents of a corpus: read, and sampled by strata.

Samples are the same in whatever order the corpus is read. Every document has a priority: a hash
of seed, source and name, as good as uniform over the 64-bit integers. Of a stratum with N
documents, the ceil(share × N) of lowest priority are the sample: bottom-k sampling, which is
simple random sampling without replacement, in every stratum apart [1]_. N is known only when
all has been read, so every input is first thinned out to candidates, independently of all
others; `cutoffs` then finds how far down each stratum is sampled.

Thinning keeps a document if its priority is below 1.5 × share × 2⁶⁴, or no more than the
256th lowest so far of its stratum in this input. Why nothing of the sample can get lost
unnoticed: let c be the larger of both bounds when the input ends (2⁶⁴ if the input has fewer
than 256 documents of the stratum). The 256th lowest only falls while reading, so every
document with priority <= c was stored. Hence below the least c of all inputs the candidates are
complete; if the k-th lowest candidate lies there, it is the k-th lowest document. That is
verified for every stratum, and an error if it fails.

How often it fails: never for k <= 256, as the k lowest documents of a stratum are then among
the 256 lowest of their inputs. For k > 256, only if fewer than k = ceil(s N) of N documents lie
below 1.5 s × 2⁶⁴. Their number is binomial with mean m = 1.5 s N > 384, and the Chernoff bound
P(X <= (2/3) m) <= exp(-m (1/3 + (2/3) log(2/3))) is below 4e-11 at m = 384 and falls from there.

References
----------
.. [1] E. Cohen and H. Kaplan (2007). Summarizing data using bottom-k sketches. Proceedings of
   the 26th ACM Symposium on Principles of Distributed Computing, 225-234.
   https://doi.org/10.1145/1281100.1281133
"""

import hashlib
import heapq
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bayescontam._files import atomic_path, on_disk
from bayescontam._runs import append_line
from bayescontam._text import join_list, printable
from bayescontam.errors import DataError, Fault
from bayescontam.scan.document_names import check_names
from bayescontam.scan.execution import (
    LOG,
    Execution,
    Report,
    mark_done,
    read_reports,
    report_path,
    stage_folder,
    task_name,
)
from bayescontam.scan.fields import NUMBERED, OTHER_ROLES, Fields, Unreadable, shown_values
from bayescontam.scan.formats import (
    DAMAGED,
    Tally,
    dataset_records,
    json_records,
    parquet_records,
    text_record,
)
from bayescontam.scan.items import CorpusListing
from bayescontam.scan.sources import Input, compression, reason_of
from bayescontam.specs.base import content_of
from bayescontam.specs.corpus import Reading, Source

HIGHEST = 2**64 - 1
"""Highest priority there is."""

MARGIN = 1.5
"""Candidates for each document of the sample, about."""

SURE = 256
"""Documents of lowest priority that are candidates in every stratum of an input."""
_SLACK = 2**16
_BATCH_ROWS = 2**17
_FIELDS = 100
"""Names of fields that the report of an input lists."""
_FILES = 64
"""Most files that are read as one task."""
_GROUP_CHARACTERS = 2**23
_GROUP_DOCUMENTS = 2**14
_SCHEMA = pa.schema(
    {
        "stratum": pa.dictionary(pa.int32(), pa.string()),
        "document": pa.string(),
        "priority": pa.uint64(),
        "text": pa.large_string(),
    }
)


@dataclass(frozen=True, slots=True)
class Document:
    """A record of the corpus."""

    document: str  # its name, which together with the source's name identifies it
    stratum: str  # value of the source's stratum field, "" where there is none
    text: str  # its text
    record: int = field(default=0, compare=False)  # its number in the input, from 1; 0: not known


def read_documents(
    item: Input, source: Source, tally: Tally, max_record_bytes: int, *, skip_damage: bool = False
) -> Iterator[Document]:
    """Give the documents of one input.

    Records that the source's conditions leave out are counted in `tally`, and those that are no
    documents with one of these reasons: "not JSON", "not UTF-8", "not an object", "no field '…'",
    "field '…' is not text", "field '…' is empty" (of a template), "a message has no role", "no
    message of the roles that are scanned", "empty", "too long".
    Halves of surrogate pairs that JSON spells are replaced by U+FFFD; NUL stays. A document
    without a name is called after the input and its record: the number of the line in JSON
    Lines, of the row in Parquet and data sets, 1 in a text file, which is one document.
    """
    fields = Fields.of(item.path, source)
    if item.kind == "text":
        fields = Fields(item.path, ("text",), where=source.where)
    tally.fields = fields
    number = 0
    try:
        for number, record in _records(item, source, fields, tally, max_record_bytes):
            if fields.leaves_out(record):
                tally.left_out += 1
                continue
            try:
                document = _document(record, number, fields, tally, max_record_bytes)
            except Unreadable as reason:
                tally.count(number, str(reason))
            else:
                tally.documents += 1
                yield document
    except (OSError, pa.ArrowException) as error:
        if skip_damage:
            tally.count(number + 1, DAMAGED)
        problem, advice = _damage(item, number, error), ""
    else:
        # Where others were left out, a few without text are no sign of a wrong manifest.
        sound = tally.documents or (tally.left_out and not fields.lacking)
        sound = sound or tally.unreadable.keys() == {OTHER_ROLES}
        if not tally.unreadable or sound or item.kind == "text":
            return
        total = tally.unreadable.total()
        reasons = ", ".join(f"{n:,} × {reason}" for reason, n in tally.unreadable.most_common())
        problem = f"none of its {total:,} records is a document ({reasons})"
        layout = "each line must be one whole JSON object" if item.kind == "jsonl" else ""
        advice = fields.hint() or layout
    if not skip_damage:
        go_on = "to go on without what cannot be read: --skip-unreadable"
        raise DataError([Fault(item.path, problem)], "; ".join(filter(None, (advice, go_on))))
    tally.damage = problem


def _records(
    item: Input, source: Source, fields: Fields, tally: Tally, longest: int
) -> Iterator[tuple[int, Any]]:
    if item.kind == "jsonl":
        return json_records(item.location, longest, tally)
    if item.kind == "text":
        return text_record(item.location, longest, tally)
    if item.kind == "parquet":
        return parquet_records(item.location, fields, tally)
    if item.kind == "dataset":
        return dataset_records(item, source, fields, tally)
    raise ValueError(f"inputs of kind '{item.kind}' hold no documents")


def _document(record: Any, number: int, fields: Fields, tally: Tally, longest: int) -> Document:
    text = fields.text_of(record)
    # A character has one to four bytes, so most texts need not be encoded to know.
    if len(text) * 4 > longest and len(text.encode()) > longest:
        raise Unreadable("too long")
    name = fields.name_of(record)
    stratum = fields.stratum_of(record)
    if not name and fields.document and fields.document != NUMBERED:
        tally.without[fields.document] += 1
    if not stratum and fields.stratum:
        tally.without[fields.stratum] += 1
    return Document(name or f"{fields.path}#{number}", stratum, text, number)


def _damage(item: Input, number: int, error: Exception) -> str:
    reason = reason_of(error)
    if number:
        return f"damaged after record {number:,} ({reason})"
    codec = "" if getattr(error, "errno", None) else compression(item.location)
    return f"cannot be read{f' as {codec}' if codec else ''} ({reason})"


def priority(seed: int, source: str, document: str) -> int:
    """Return the rank of a document in the lottery, uniform over the 64-bit integers."""
    key = f"{seed}\x1f{source}\x1f{document}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")


class BottomKFilter:
    """Decides which documents of one input may be in the sample."""

    def __init__(self, share: float) -> None:
        self._below = min(HIGHEST + 1, int(MARGIN * share * 2**64))
        self._lowest: dict[str, list[int]] = {}

    def keeps(self, stratum: str, rank: int) -> bool:
        """Return whether to keep a document of priority `rank`."""
        if self._below > HIGHEST:
            return True
        # A heap of negative numbers has the highest priority in front.
        lowest = self._lowest.setdefault(stratum, [])
        if len(lowest) < SURE:
            heapq.heappush(lowest, -rank)
            return True
        if rank < -lowest[0]:
            heapq.heapreplace(lowest, -rank)
            return True
        return rank < self._below or rank == -lowest[0]

    def complete_to(self, stratum: str) -> int:
        """Return the priority up to which every document of a stratum was stored."""
        lowest = self._lowest.get(stratum, [])
        if len(lowest) < SURE:
            return HIGHEST
        return max(self._below - 1, -lowest[0])


@dataclass(frozen=True)
class Cutoffs:
    """What of every stratum is in the sample."""

    # one row for each stratum of each source: `source`, `stratum`, `documents` (how many there
    # are), `sampled` (how many are in the sample), `share` (achieved) and `cutoff` (uint64):
    # documents of at most this priority are in the sample
    table: pd.DataFrame

    def of(self, source: str) -> dict[str, int]:
        """Return the cut-offs of a source by stratum."""
        rows = self.table[self.table["source"] == source]
        return dict(zip(rows["stratum"], rows["cutoff"].tolist(), strict=True))


def target(share: float, documents: int) -> int:
    """Return how many documents of a stratum are sampled: ceil(share × documents).

    >>> target(0.07, 100), target(0.01, 1), target(1.0, 5)
    (7, 1, 5)
    """
    # The decimal number that was written: the binary one for 0.07 is a little more.
    return math.ceil(Fraction(str(share)) * documents)


def sample_input(
    item: Input,
    source: Source,
    seed: int,
    out: str | os.PathLike[str],
    *,
    max_record_bytes: int,
    skip_damage: bool = False,
) -> dict[str, Any]:
    """Read one input, and write those of its documents that may be in the sample to a file."""
    start = time.perf_counter()
    tally = Tally()
    thinner = BottomKFilter(source.share)
    documents: Counter[str] = Counter()

    def candidates() -> Iterator[tuple[str, str, int, str]]:
        found = read_documents(item, source, tally, max_record_bytes, skip_damage=skip_damage)
        for document in found:
            documents[document.stratum] += 1
            rank = priority(seed, source.name, document.document)
            if thinner.keeps(document.stratum, rank):
                yield document.stratum, document.document, rank, document.text

    with atomic_path(out) as path:
        count = _write_candidates(path, source.name, candidates())
    return {
        "source": source.name,
        "path": item.path,
        "documents": dict(documents),
        "complete_to": {stratum: thinner.complete_to(stratum) for stratum in documents},
        "candidates": count,
        "left_out": tally.left_out,
        **_found_fields(tally.fields),
        "unreadable": dict(tally.unreadable),
        "listed": [list(one) for one in tally.listed],
        "without": dict(tally.without),
        "damage": tally.damage,
        "bytes": tally.bytes,
        "seconds": time.perf_counter() - start,
    }


def _found_fields(fields: Fields | None) -> dict[str, Any]:
    """Return what the report of an input holds of its fields."""
    if fields is None:
        return {}
    return {
        "missing": fields.missing,
        "there": fields.there[:_FIELDS],
        "others": fields.others,
        "left_out_messages": dict(fields.chat.left_out) if fields.chat else {},
    }


def sampled(path: str | os.PathLike[str], cuts: Cutoffs) -> Iterator[Document]:
    """Give the documents of one file of candidates that are in the sample."""
    with pq.ParquetFile(path) as file:
        highest = cuts.of(file.schema_arrow.metadata[b"source"].decode())
        for group in range(file.num_row_groups):
            for batch in file.read_row_group(group, use_threads=False).to_batches():
                yield from _sampled(batch, highest)


def _sampled(batch: pa.RecordBatch, highest: dict[str, int]) -> Iterator[Document]:
    strata = batch["stratum"]
    cuts = np.array([highest[stratum] for stratum in strata.dictionary.to_pylist()], np.uint64)
    keep = batch["priority"].to_numpy() <= cuts[strata.indices.to_numpy()]
    chosen = batch.filter(pa.array(keep))
    columns = (chosen[name].to_pylist() for name in ("document", "stratum", "text"))
    for document, stratum, text in zip(*columns, strict=True):
        yield Document(document, stratum, text)


def _write_candidates(path: Path, source: str, rows: Iterator[tuple[str, str, int, str]]) -> int:
    """Write rows of `_SCHEMA` in row groups of bounded size; return their number."""
    schema, count = _SCHEMA.with_metadata({"source": source}), 0
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=["stratum"],
        write_statistics=["priority"],
    ) as writer:
        while group := _next_group(rows):
            columns = zip(*group, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            count += len(group)
    return count


def _next_group(rows: Iterator[tuple[str, str, int, str]]) -> list[tuple[str, str, int, str]]:
    group, characters = [], 0
    for row in rows:
        group.append(row)
        characters += len(row[-1])
        if characters > _GROUP_CHARACTERS or len(group) == _GROUP_DOCUMENTS:
            break
    return group


def cutoffs(
    reports: Sequence[Mapping[str, Any]],
    files: Sequence[str | os.PathLike[str]],
    sources: Mapping[str, Source],
) -> Cutoffs:
    """Find how far down the priorities the sample of each stratum reaches."""
    # Documents of one priority, whose names stand more than once in a source, are in it together.
    pairs = list(zip(reports, files, strict=True))
    rows: list[dict[str, Any]] = []
    for name, source in sources.items():
        own = [(report, file) for report, file in pairs if report["source"] == name]
        if own:
            rows += _source_rows(name, source.share, own)
    columns = ["source", "stratum", "documents", "sampled", "share", "cutoff"]
    return Cutoffs(pd.DataFrame(rows, columns=columns).astype({"cutoff": "uint64"}))


def _source_rows(
    name: str, share: float, own: list[tuple[Mapping[str, Any], Any]]
) -> Iterator[dict[str, Any]]:
    documents: Counter[str] = Counter()
    complete_to: dict[str, int] = {}
    for report, _ in own:
        documents.update(report["documents"])
        for stratum, to in report["complete_to"].items():
            complete_to[stratum] = min(to, complete_to.get(stratum, HIGHEST))
    if not documents:
        raise _no_documents(name, [report for report, _ in own])
    lowest = {stratum: _Lowest(target(share, count)) for stratum, count in documents.items()}
    if share < 1:
        for _, file in own:
            _add_priorities(file, lowest)
    for stratum, count in sorted(documents.items()):
        cutoff, sampled = (HIGHEST, count) if share == 1 else lowest[stratum].cut()
        if sampled < target(share, count) or cutoff > complete_to[stratum]:
            raise _incomplete(name, stratum)
        yield {
            "source": name,
            "stratum": stratum,
            "documents": count,
            "sampled": sampled,
            "share": sampled / count,
            "cutoff": cutoff,
        }


@dataclass
class _Lowest:
    """The lowest of many numbers, in memory for about twice as many."""

    count: int  # how many are of interest, 1 or more
    _held: list[NDArray[np.uint64]] = field(default_factory=list)
    _size: int = 0

    def add(self, values: NDArray[np.uint64]) -> None:
        self._held.append(values)
        self._size += len(values)
        if self._size > 2 * self.count + _SLACK:
            self._held = [self._lowest()]
            self._size = len(self._held[0])

    def cut(self) -> tuple[int, int]:
        """Return the highest of the lowest, and how many numbers are at most that."""
        lowest = self._lowest()
        return (int(lowest.max()), len(lowest)) if len(lowest) else (0, 0)

    def _lowest(self) -> NDArray[np.uint64]:
        values = np.concatenate(self._held) if self._held else np.empty(0, np.uint64)
        if len(values) <= self.count:
            return values
        values.partition(self.count - 1)
        return values[values <= values[self.count - 1]]


def _add_priorities(file: str | os.PathLike[str], lowest: Mapping[str, _Lowest]) -> None:
    with pq.ParquetFile(file) as stored:
        for group in range(stored.num_row_groups):
            table = stored.read_row_group(group, columns=["stratum", "priority"], use_threads=False)
            for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
                for stratum, values in _by_stratum(batch):
                    lowest[stratum].add(values)


def _by_stratum(batch: pa.RecordBatch) -> Iterator[tuple[str, NDArray[np.uint64]]]:
    codes = batch["stratum"].indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    parts = np.split(batch["priority"].to_numpy()[order], starts[1:])
    names = batch["stratum"].dictionary
    for code, values in zip(found, parts, strict=True):
        yield names[int(code)].as_py(), values


def _no_documents(name: str, reports: list[Mapping[str, Any]]) -> DataError:
    unreadable: Counter[str] = Counter()
    roles: Counter[str] = Counter()
    for report in reports:
        unreadable.update(report["unreadable"])
        # Reports of earlier versions know of no conditions, and of no roles.
        roles.update(report.get("left_out_messages", {}))
    left_out = sum(report.get("left_out", 0) for report in reports)
    parts = [f"{count:,} × {reason}" for reason, count in unreadable.most_common()]
    reasons = ", ".join([*parts, *([f"{left_out:,} × left out by 'where'"] if left_out else [])])
    problem = f"no document in {len(reports):,} inputs ({reasons or 'all are empty'})"
    if roles:
        problem += f"; other roles there: {join_list(roles, 30)}"
    elif left_out and not unreadable:
        others = next(report["others"] for report in reports if report.get("left_out"))
        problem += f"; {shown_values(others)}"
    advice = "Take the source out of the manifest, or fix its paths and the names of its fields."
    return DataError([Fault(f"source '{printable(name)}'", problem)], advice)


def _check_fields(reports: Sequence[Report], sources: Mapping[str, Source]) -> None:
    """Refuse conditions on fields, or fields that may be missing, that no record of a source has.

    A misspelt name would leave out all records, or nothing but a part of their texts.
    """
    faults = []
    for name, source in sources.items():
        own = [report for report in reports if report["source"] == name]
        read = [report for report in own if report["documents"] or report.get("left_out")]
        # Of a record that a condition left out, the text was not put together.
        texts = [report for report in own if report["documents"]]
        lacking = [
            {field for field in report.get("missing", ()) if field in source.where}
            for report in read
        ]
        without = [
            {field for field in report.get("missing", ()) if field not in source.where}
            for report in texts
        ]
        missing = [set.intersection(*each) for each in (lacking, without) if each]
        for field_name in sorted(set[str]().union(*missing)):
            there = join_list(dict.fromkeys(key for report in read for key in report["there"]), 30)
            problem = f"no record has this field; fields there: {there or 'none'}"
            faults.append(Fault(f"source '{printable(name)}'", problem, column=field_name))
    if faults:
        raise DataError(faults, "Correct the name in 'where', or in the template of 'text'.")


def _incomplete(name: str, stratum: str) -> DataError:
    problem = f"stratum '{printable(stratum)}': too few candidates for its share of the sample"
    advice = (
        "Are names of documents repeated? Set `document` to a field that differs, or share = 1. "
        "Otherwise it is chance, of less than 1 in 10,000,000,000: take another seed."
    )
    return DataError([Fault(f"source '{printable(name)}'", problem)], advice)


@dataclass(frozen=True)
class ReadStage:
    """Inputs to candidates for the sample: one file of documents for each input."""

    folder: Path
    sources: dict[str, Source]
    seed: int
    reading: Reading
    skip_unreadable: bool

    def __call__(self) -> Callable[[Sequence[tuple[int, Input]]], None]:
        """Return the function of one task."""
        return self._read

    def _read(self, inputs: Sequence[tuple[int, Input]]) -> None:
        for number, item in inputs:
            out = self.folder / f"{task_name(number)}.parquet"
            with on_disk(out):
                report = sample_input(
                    item,
                    self.sources[item.source],
                    self.seed,
                    out,
                    max_record_bytes=self.reading.max_record_megabytes * 2**20,
                    skip_damage=self.skip_unreadable,
                )
            mark_done(self.folder, number, report)


@dataclass(frozen=True)
class SampledDocuments:
    """Documents of all inputs that may be in the sample, and which of them are."""

    folder: Path
    reports: list[Report]  # what reading counted, one for each input
    cutoffs: Cutoffs
    notes: list[str]  # on names of documents


def sample_documents(corpus: CorpusListing, out: Path, execution: Execution) -> SampledDocuments:
    """Read all inputs; list in ``scan.log`` what of them could not be read."""
    inputs, sources, skip_unreadable = corpus.inputs, corpus.sources, corpus.skip_unreadable
    seed, reading = corpus.manifest.seed, corpus.manifest.reading
    # Nothing is read anew where only other texts of items are looked for.
    unsaid = {"text_mode": None, "input_output": None}
    specs = {name: content_of(source.model_copy(update=unsaid)) for name, source in sources.items()}
    folder = stage_folder(
        out, "read", seed, specs, reading.model_dump(), skip_unreadable,
        [asdict(item) for item in inputs],
    )  # fmt: skip
    stage = ReadStage(folder, sources, seed, reading, skip_unreadable)
    left = [pair for pair in enumerate(inputs) if not report_path(folder, pair[0]).exists()]
    # Of many files, which are small then, several are one task.
    groups = list(batched(left, max(1, min(_FILES, len(left) // _FILES))))
    tasks = {task_name(group[0][0]): group for group in groups}
    for _ in execution.run("read", stage, tasks, len, "files"):
        pass
    reports = read_reports(folder, len(inputs))
    _log_unreadable(folder / "logged", reports, out / LOG)
    _check_fields(reports, sources)
    files = [folder / f"{task_name(number)}.parquet" for number in range(len(inputs))]
    cuts = cutoffs(reports, files, sources)
    notes = []
    for name in sources:
        pairs = zip(reports, files, strict=True)
        notes += check_names(name, [file for report, file in pairs if report["source"] == name])
    return SampledDocuments(folder, reports, cuts, notes)


def _log_unreadable(mark: Path, reports: list[Report], log: Path) -> None:
    """Log records that could not be read, once."""
    if mark.exists():
        return
    for report in reports:
        for record, reason in report["listed"]:
            append_line(log, f"unreadable: {report['path']}: record {record}: {reason}")
        more = sum(report["unreadable"].values()) - len(report["listed"])
        if more > 0:
            append_line(log, f"unreadable: {report['path']}: {more:,} more records")
    mark.touch()
