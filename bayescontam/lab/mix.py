"""Training sets with known contamination, and their clean twins."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from bayescontam._files import atomic_path, make_folder, on_disk, write_text
from bayescontam._progress import progress_bar
from bayescontam._random import stream
from bayescontam._runs import write_json
from bayescontam._text import printable
from bayescontam._types import IntArray
from bayescontam.data.tables import write_table
from bayescontam.errors import UsageError
from bayescontam.lab.arithmetic import (
    BENCHMARK,
    CONTROL,
    PARAPHRASES,
    Problem,
    background,
    control,
    items,
    own_form,
    paraphrase,
    problem_of,
)
from bayescontam.specs.base import read_text
from bayescontam.specs.lab import LabSpec, Mix

ITEMS, COVARIATES, SPEC, RECORD = "items.jsonl", "covariates.csv", "lab.toml", "lab.json"
"""Files beside the texts; the spec is written first, the record last."""
COLUMNS = ("mix", "benchmark", "item", "contamination", "copies", "kind", "half")
"""Columns of the covariates."""
Half = Literal["seen", "unseen", "control"]
_PACKAGES = ("bayescontam", "numpy")


@dataclass(frozen=True, eq=False)
class Mixed:
    """The texts of a lab, and which items have duplicates in them."""

    folder: Path
    texts: Mapping[tuple[int, str], Path]  # by base and name of the mix
    items: Path
    record: Path
    covariates: pd.DataFrame  # `COLUMNS`, a row for each mix and item


@dataclass(frozen=True)
class _Item:
    """An item with its place in the design."""

    benchmark: str
    record: Mapping[str, Any]
    half: Half

    @property
    def name(self) -> str:
        """Name of the item."""
        return str(self.record["id"])

    @property
    def problem(self) -> Problem:
        """What it is about."""
        return problem_of(self.record)


def make_mixes(spec: LabSpec, out: str | os.PathLike[str], *, progress: bool = False) -> Mixed:
    """Write the training sets of a lab, its items, and their contamination.

    Parameters
    ----------
    spec : LabSpec
        Which texts, items and mixes there are.
    out : path
        Folder, new or of the same spec. It gets ``texts/base-0/NAME.jsonl`` for each base and mix
        (``id, text, kind, item``), ``items.jsonl`` (``benchmark, item, text, answer, half``),
        ``covariates.csv``, ``lab.toml`` (the text of the spec), and last ``lab.json`` (hash of the
        spec, versions, counts).
    progress : bool, default False
        Whether a bar is shown.

    Returns
    -------
    Mixed
        Paths, and the covariates: ``mix, benchmark, item, contamination, copies, kind, half``.
        ``contamination`` is 1 for items with duplicates in the mix, else 0; ``kind`` is that of
        the duplicates, or ``clean``; ``half`` is ``seen`` for items that mixes with duplicates
        expose, in the clean mix too, else ``unseen``, and ``control`` for the control benchmark.

    Raises
    ------
    UsageError
        If the folder cannot be used, or is that of another spec.

    Notes
    -----
    The mixes of a base have the same texts but at the places of the duplicates, where the clean mix
    has background. All mixes have the first copy of an item at one place, the second at another,
    and so on: places of a smaller dose are places of every larger one. Bases differ in their
    background and places, and have the same items, of which the same are exposed. The same spec
    gives the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> from bayescontam.specs.registry import load_lab
    >>> mixed = make_mixes(load_lab("smoke"), tempfile.mkdtemp())
    >>> mixed.covariates.groupby("mix")["contamination"].sum().to_dict()
    {'clean': 0.0, 'exact-4': 10.0, 'semantic-4': 10.0}
    """
    folder = _folder_of(spec, Path(out))
    listed = _draw_items(spec)
    seen = [item for item in listed if item.half == "seen"]
    covariates = _covariates(spec.mixes, listed)
    bases, texts = range(spec.training.bases), {}
    with on_disk(folder):
        write_text(folder / SPEC, spec.text)
        _write_lines(folder / ITEMS, map(_item_row, listed))
        write_table(folder / COVARIATES, covariates)
        total = len(bases) * len(spec.mixes)
        with progress_bar(progress, "mixing", total, "files") as advance:
            for base in bases:
                place = make_folder(folder / "texts" / f"base-{base}")
                clean = _background(spec, base, listed)
                places = stream(spec.seed, "lab places", base).permutation(spec.texts)
                for mix in spec.mixes:
                    texts[base, mix.name] = path = place / f"{mix.name}.jsonl"
                    _write_lines(path, _texts(mix, clean, seen, places))
                    advance(1)
        write_json(folder / RECORD, _record(spec, listed))
    return Mixed(folder, texts, folder / ITEMS, folder / RECORD, covariates)


def _folder_of(spec: LabSpec, folder: Path) -> Path:
    """Return the folder of a lab; refuse that of another, and specs that differ from their text."""
    if not spec.text or LabSpec.parse(spec.text, spec.source).hash != spec.hash:
        raise UsageError(
            f"spec '{printable(spec.name, 60)}': its values are not those of its text; make it with"
            " LabSpec.parse or load_lab"
        )
    earlier = folder / SPEC
    if earlier.exists() and LabSpec.parse(read_text(earlier), str(earlier)).hash != spec.hash:
        raise UsageError(
            f"{printable(folder)}: holds the texts of another spec ({SPEC}); choose another folder"
        )
    return make_folder(folder)


def _draw_items(spec: LabSpec) -> list[_Item]:
    """Return the items of both benchmarks, with their halves."""
    own = items(spec.items, stream(spec.seed, "lab items"))
    order = stream(spec.seed, "lab exposed").permutation(spec.items)
    exposed = {int(at) for at in order[: spec.exposed_items]}
    return [
        *(_Item(BENCHMARK, row, "seen" if at in exposed else "unseen")
          for at, row in enumerate(own)),
        *(_Item(CONTROL, row, "control")
          for row in control(spec.controls, stream(spec.seed, "lab controls"))),
    ]  # fmt: skip


def _background(spec: LabSpec, base: int, listed: Sequence[_Item]) -> list[str]:
    """Return the texts of a base's clean mix, none of which is about an item."""
    keys = {item.problem.key for item in listed}
    rng = stream(spec.seed, "lab background", base)
    return background(spec.texts, rng, keys, spec.own_share, spec.control_share)


def _texts(
    mix: Mix, clean: Sequence[str], seen: Sequence[_Item], places: IntArray
) -> Iterator[dict[str, Any]]:
    """Yield the texts of a mix: those of the clean one, but for its duplicates."""
    numbers = range(mix.copies * len(seen))
    # A copy of every item before the next copy of any: smaller doses have the first places.
    by_place = dict(zip(places[: len(numbers)].tolist(), numbers, strict=True))
    for place, text in enumerate(clean):
        kind, name = "background", None
        if (number := by_place.get(place)) is not None:
            copy, at = divmod(number, len(seen))
            kind, name = mix.kind, seen[at].name
            text = _duplicate(mix, seen[at].problem, at + copy)
        yield {"id": f"text-{place + 1:06d}", "text": text, "kind": kind, "item": name}


def _duplicate(mix: Mix, problem: Problem, number: int) -> str:
    """Return a duplicate; items begin with different wordings, and go through all of them."""
    if mix.kind == "exact":
        return own_form(problem)
    return paraphrase(problem, number % PARAPHRASES)


def _covariates(mixes: Sequence[Mix], listed: Sequence[_Item]) -> pd.DataFrame:
    """Return what each mix has of each item."""
    rows = []
    for mix in mixes:
        for item in listed:
            copies = mix.copies if item.half == "seen" else 0
            kind = mix.kind if copies else "clean"
            share = float(copies > 0)
            rows.append((mix.name, item.benchmark, item.name, share, copies, kind, item.half))
    return pd.DataFrame(rows, columns=[*COLUMNS])


def _item_row(item: _Item) -> dict[str, Any]:
    """Return an item as `ITEMS` lists it."""
    return {
        "benchmark": item.benchmark, "item": item.name, "text": item.record["text"],
        "answer": item.record["answer"], "half": item.half,
    }  # fmt: skip


def _record(spec: LabSpec, listed: Sequence[_Item]) -> dict[str, Any]:
    """Return what the lab was made by and of."""
    halves = [item.half for item in listed]
    return {
        "name": spec.name,
        "spec": spec.hash,
        "versions": {name: version(name) for name in _PACKAGES},
        "bases": spec.training.bases,
        "texts": spec.texts,
        "items": {half: halves.count(half) for half in ("seen", "unseen", "control")},
        "duplicates": {mix.name: mix.copies * spec.exposed_items for mix in spec.mixes},
    }


def _write_lines(path: Path, records: Iterator[dict[str, Any]]) -> None:
    """Write records as JSON Lines, whole or not at all."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
