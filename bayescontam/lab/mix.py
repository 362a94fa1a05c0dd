"""Training sets with known contamination, and their clean twins."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import starmap
from pathlib import Path
from typing import Any

import pandas as pd

from bayescontam._files import make_folder, on_disk, write_text
from bayescontam._progress import progress_bar
from bayescontam._random import stream
from bayescontam._runs import claimed_folder, read_json, write_json
from bayescontam._text import join_list, printable
from bayescontam._types import IntArray
from bayescontam.data.tables import write_table
from bayescontam.errors import UsageError
from bayescontam.lab.files import FileSource, Given, Paths
from bayescontam.lab.sources import LabItem, MadeSource, Source, seen_items
from bayescontam.specs.base import read_text
from bayescontam.specs.lab import LabSpec, Mix

ITEMS, COVARIATES, SPEC, RECORD = "items.jsonl", "covariates.csv", "lab.toml", "lab.json"
"""Files beside the texts; the spec is written first, the record last."""
BASE = "base"
"""Name of the texts of pretraining, beside those of the mixes."""
TEXTS = "texts"
"""Folder of all texts."""
MODELS = "models"
"""Folder of all trainings."""
COLUMNS = ("mix", "benchmark", "item", "contamination", "copies", "kind", "half", "near")
"""Columns of the covariates."""
_WRITTEN = (ITEMS, COVARIATES, SPEC, RECORD)
_PACKAGES = ("bayescontam", "numpy")
_HALF_WRITTEN = (".*.????????.part", f"{TEXTS}/*/.*.????????.part")


@dataclass(frozen=True, eq=False)
class Mixed:
    """The texts of a lab, and which items have duplicates in them."""

    folder: Path
    texts: Mapping[tuple[int, str], Path]  # by base and name of the mix, or `BASE`
    items: Path
    record: Path
    covariates: pd.DataFrame  # `COLUMNS`, a row for each mix and item
    notes: tuple[str, ...] = ()  # what else is worth knowing


def make_mixes(
    spec: LabSpec,
    out: str | os.PathLike[str],
    *,
    background: str | os.PathLike[str] | None = None,
    benchmark: str | os.PathLike[str] | None = None,
    duplicates: str | os.PathLike[str] | None = None,
    controls: str | os.PathLike[str] | None = None,
    traces: str | os.PathLike[str] | None = None,
    near: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Mixed:
    """Write the training sets of a lab, its items, and their contamination.

    Parameters
    ----------
    spec : LabSpec
        Which texts, items and mixes there are.
    out : path
        Folder, new or of the same spec. It gets ``texts/base-0/NAME.jsonl`` for each base and mix
        (``id, text, kind, item``), with pretraining also ``texts/base-0/base.jsonl``,
        ``items.jsonl`` (``benchmark, item, text, between, answer, half``), ``covariates.csv``,
        ``lab.toml`` (the text of the spec), and last ``lab.json`` (hashes of the spec and of the
        files, versions, counts).
    background, benchmark, duplicates, controls, traces, near : path, optional
        Files in place of those that the spec names under ``[files]``; relative paths start from
        the working directory. A spec that ships names none.
    progress : bool, default False
        Whether a bar is shown.

    Returns
    -------
    Mixed
        Paths, notes, and the covariates: ``mix, benchmark, item, contamination, copies, kind, half,
        near``. ``contamination`` is 1 for items with duplicates in the mix, else 0; ``copies`` are
        these duplicates, and ``kind`` is theirs, or ``clean``; ``half`` is ``seen`` for items that
        mixes with duplicates expose, in the clean mix too, else ``unseen``, and ``control`` for
        the control benchmark; ``near`` counts texts near the item that are no duplicates.

    Raises
    ------
    UsageError
        If the folder cannot be used, or is that of another spec or of other files; if a file is
        needed, or not there.
    DataError
        If files do not fit: duplicates of another benchmark, an item that stands there twice or in
        both benchmarks, background that holds an item word by word, or is too little.
    TaskError
        If the disk is full; what was written is whole, and the same call resumes.

    Notes
    -----
    The mixes of a base have the same texts but at the places of the duplicates, where the clean mix
    has background; further clean mixes have all background of their own. All mixes have the first
    copy of an item at one place, the second at another, and so on: places of a smaller dose are
    places of every larger one. Bases differ in their background and places, and have the same
    items, of which the same are exposed. Texts of pretraining are drawn anew, and about no item.
    The same spec gives the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> from bayescontam.specs.registry import load_lab
    >>> mixed = make_mixes(load_lab("smoke"), tempfile.mkdtemp())
    >>> rows = mixed.covariates[mixed.covariates["mix"] == "exact-4"]
    >>> rows.groupby("half")["contamination"].mean().to_dict()
    {'control': 0.0, 'seen': 1.0, 'unseen': 0.0}
    """
    folder = Path(out)
    given: Given = {
        "background": background, "benchmark": benchmark, "duplicates": duplicates,
        "controls": controls, "traces": traces, "near": near,
    }  # fmt: skip
    with claimed_folder(folder, "mix", "lab", (folder / RECORD).exists, _HALF_WRITTEN):
        _check_spec(spec, folder)
        source = _source_of(spec, folder, given, progress=progress)
        _check_files(source, folder)
        return _write(spec, source, folder, progress=progress)


def _check_spec(spec: LabSpec, folder: Path) -> None:
    """Refuse a spec that differs from its text, or from the one whose folder this is."""
    if not spec.text or LabSpec.parse(spec.text, spec.source).hash != spec.hash:
        raise UsageError(
            f"spec '{printable(spec.name, 60)}': its values are not those of its text; make it with"
            " LabSpec.parse or load_lab"
        )
    earlier, record = folder / SPEC, folder / RECORD
    if earlier.exists() and LabSpec.parse(read_text(earlier), str(earlier)).hash != spec.hash:
        raise UsageError(
            f"{printable(folder)}: holds the texts of another spec ({SPEC}); choose another folder"
        )
    # Else an edited file would pass for the spec by which models of this folder were trained.
    if record.exists() and read_json(record).get("spec") != spec.hash:
        raise UsageError(
            f"{printable(folder)}: its {SPEC} was changed after the texts were made ({RECORD});"
            " undo that, or choose another folder"
        )


def _source_of(spec: LabSpec, folder: Path, given: Given, *, progress: bool) -> Source:
    """Return where the texts and items of a lab come from."""
    if spec.files is not None:
        paths = Paths.of(spec, spec.files, given)
        for name, path in paths.places.items():
            place = Path(path).resolve()
            written = place.parent == folder.resolve() and place.name in _WRITTEN
            if path and (written or place.is_relative_to(folder.resolve() / TEXTS)):
                raise UsageError(
                    f"files.{name}: {printable(path)} is what is read, and would be lost; name"
                    " another folder"
                )
        return FileSource(spec, spec.files, paths, progress=progress)
    assert spec.arithmetic is not None
    if named := [name for name, path in given.items() if path is not None]:
        problem = f"has [arithmetic], and no files: leave out {join_list(named)}"
        raise UsageError(f"spec '{printable(spec.name, 60)}': {problem}")
    return MadeSource(spec, spec.arithmetic)


def _check_files(source: Source, folder: Path) -> None:
    """Refuse the folder of the same spec with other files."""
    earlier = folder / RECORD
    known = read_json(earlier).get("files", {}) if earlier.exists() else {}
    ours = source.record.get("files", {})
    if known and known != ours:
        names = [name for name in known.keys() | ours if known.get(name) != ours.get(name)]
        raise UsageError(
            f"{printable(folder)}: holds texts of other files ({', '.join(sorted(names))}); choose"
            " another folder"
        )


def _write(spec: LabSpec, source: Source, folder: Path, *, progress: bool) -> Mixed:
    """Write all files of a lab, the record last."""
    covariates = _covariates(spec.mixes, source.items)
    bases, texts = range(spec.training.bases), {}
    cleans = [mix for mix in spec.mixes if mix.kind == "clean"]
    with on_disk(folder):
        write_text(folder / SPEC, spec.text)
        _write_lines(folder / ITEMS, map(_item_row, source.items), folder)
        write_table(folder / COVARIATES, covariates)
        total = len(bases) * (len(spec.mixes) + (spec.pretraining is not None))
        with progress_bar(progress, "mixing", total, "files") as advance:
            for base in bases:
                place = make_folder(folder / TEXTS / f"base-{base}")
                if spec.pretraining is not None:
                    texts[base, BASE] = path = place / f"{BASE}.jsonl"
                    before = source.pretraining(base)
                    _write_lines(path, starmap(_background_row, enumerate(before)), folder)
                    advance(1)
                twin = source.clean(base, 0)
                places = stream(spec.seed, "lab places", base).permutation(spec.texts)
                for mix in spec.mixes:
                    texts[base, mix.name] = path = place / f"{mix.name}.jsonl"
                    which = cleans.index(mix) if mix in cleans else 0
                    clean = source.clean(base, which) if which else twin
                    _write_lines(path, _texts(mix, clean, source, places), folder)
                    advance(1)
        write_json(folder / RECORD, _record(spec, source))
    notes = tuple(source.notes)
    return Mixed(folder, texts, folder / ITEMS, folder / RECORD, covariates, notes)


def _texts(
    mix: Mix, clean: Sequence[str], source: Source, places: IntArray
) -> Iterator[dict[str, Any]]:
    """Yield the texts of a mix: those of the clean one, but for its duplicates."""
    seen = seen_items(source.items)
    numbers = range(mix.copies * len(seen))
    # A copy of every item before the next copy of any: smaller doses have the first places.
    by_place = dict(zip(places[: len(numbers)].tolist(), numbers, strict=True))
    for place, text in enumerate(clean):
        row = _background_row(place, text)
        if (number := by_place.get(place)) is not None:
            copy, at = divmod(number, len(seen))
            text = source.duplicate(mix, at, copy)
            row |= {"text": text, "kind": mix.kind, "item": seen[at].name}
        yield row


def _background_row(place: int, text: str) -> dict[str, Any]:
    """Return a text that is about no item as its file lists it."""
    return {"id": f"text-{place + 1:06d}", "text": text, "kind": "background", "item": None}


def _covariates(mixes: Sequence[Mix], items: Sequence[LabItem]) -> pd.DataFrame:
    """Return what each mix has of each item."""
    rows = []
    for mix in mixes:
        for item in items:
            texts = mix.copies if item.half == "seen" else 0
            near = texts if mix.kind == "near" else 0
            copies = texts - near
            kind = mix.kind if copies else "clean"
            row = (mix.name, item.benchmark, item.name, float(copies > 0), copies, kind, item.half)
            rows.append((*row, near))
    return pd.DataFrame(rows, columns=[*COLUMNS])


def _item_row(item: LabItem) -> dict[str, Any]:
    """Return an item as `ITEMS` lists it."""
    return {
        "benchmark": item.benchmark, "item": item.name, "text": item.text,
        "between": item.between, "answer": item.answer, "half": item.half, **item.more,
    }  # fmt: skip


def _record(spec: LabSpec, source: Source) -> dict[str, Any]:
    """Return what the lab was made by and of."""
    halves = [item.half for item in source.items]
    counts = {half: halves.count(half) for half in ("seen", "unseen", "control")}
    taken = {mix.name: mix.copies * counts["seen"] for mix in spec.mixes}
    near = {mix.name for mix in spec.mixes if mix.kind == "near"}
    return {
        "name": spec.name,
        "spec": spec.hash,
        "versions": {name: version(name) for name in _PACKAGES},
        "bases": spec.training.bases,
        "texts": spec.texts,
        "pretraining": spec.pretraining.texts if spec.pretraining else 0,
        "items": counts,
        "duplicates": {name: 0 if name in near else count for name, count in taken.items()},
        "near": {name: count if name in near else 0 for name, count in taken.items()},
        **source.record,
    }


def _write_lines(path: Path, records: Iterable[dict[str, Any]], folder: Path) -> None:
    """Write records as JSON Lines, whole or not at all; a file that holds them stays as it is."""
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    if path.is_file() and read_text(path) == text:
        return  # a scan recognises a file that it has read by its time
    if (folder / MODELS).is_dir():
        raise UsageError(
            f"{printable(path)}: its models were trained on other texts, of another version or"
            " changed since; choose another folder"
        )
    write_text(path, text)
