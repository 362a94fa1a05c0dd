"""Searched: scans of small corpora whose duplicates are known."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayescontam.evidence.pairs import scan_pairs
from bayescontam.reproduction.study import Study
from bayescontam.scan.execution import Execution
from bayescontam.scan.generated import TRUTH
from bayescontam.scan.results import Scan
from bayescontam.scan.run import scan_corpus
from bayescontam.specs.corpus import Manifest
from bayescontam.specs.quick import quick_manifest

MADE, TEXTS = "generated", "tasks and instructions"


@dataclass(frozen=True, eq=False)
class Searched:
    """A scan whose truth is known."""

    name: str
    scan: Scan
    true: np.ndarray  # of each row of `scan.matches`: whether it is the first chunk of a duplicate
    pairs: pd.DataFrame  # distinct pairs of the scan, with `true`


def made(study: Study) -> Searched:
    """Return the scan of a generated benchmark and corpus."""
    items, documents = study.settings["items"], study.settings["documents"]
    manifest = Manifest.parse(
        f'summary = "Generated"\nseed = {study.spec.seed}\n'
        f"[generated]\nitems = {items}\ndocuments = {documents}\n",
        "manifest.toml",
    )
    scan = _scanned(study, manifest, MADE)
    truth = pd.read_csv(
        scan.folder / "generated" / TRUTH, keep_default_na=False, dtype={"documents": str}
    )
    known = {
        (str(item), document)
        for item, documents in zip(truth["item"], truth["documents"], strict=True)
        for document in documents.split()
    }
    return searched_of(MADE, scan, lambda item, document: (item, document) in known)


def texts(study: Study, folder: Path) -> Searched:
    """Return the scan of programming tasks, whose duplicates are named after them."""
    manifest = quick_manifest(
        str(folder / "benchmark.jsonl"),
        (str(folder / "corpus.jsonl"),),
        {"text_mode": "input_output", "stratum": "source"},
    )
    return searched_of(TEXTS, _scanned(study, manifest, "texts"), named_after)


def named_after(item: str, document: str) -> bool:
    """Return whether a document's name says that it is a duplicate of an item.

    >>> named_after("task-7", "dup-7-1"), named_after("task-7", "dup-70-1")
    (True, False)
    """
    parts = document.split("-")
    return parts[0] in ("dup", "exact") and parts[1:2] == [item.removeprefix("task-")]


def _scanned(study: Study, manifest: Manifest, name: str) -> Scan:
    """Return a scan; what was finished or begun in the study's folder is used."""
    out = study.folder / "scans" / name.replace(" ", "-")
    execution = Execution(device="cpu", progress=study.progress)
    return scan_corpus(manifest, out, base=study.folder, execution=execution, replace=True)


def searched_of(name: str, scan: Scan, is_duplicate: Callable[[str, str], bool]) -> Searched:
    """Return a scan with what is true of its matches."""
    pairs = scan_pairs(scan)
    return Searched(
        name, scan, _true(scan.matches, is_duplicate), pairs.assign(true=_true(pairs, is_duplicate))
    )


def _true(table: pd.DataFrame, is_duplicate: Callable[[str, str], bool]) -> np.ndarray:
    named = [is_duplicate(*row) for row in table[["item", "document"]].itertuples(index=False)]
    # Of a document in several chunks, the one that is like the item holds the duplicate.
    first = ~table.duplicated(["benchmark", "item", "source", "document"]).to_numpy()
    return np.array(named, dtype=bool) & first
