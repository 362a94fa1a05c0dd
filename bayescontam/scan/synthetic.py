"""A generated benchmark and corpus with known duplicates; judgements and responses to match."""

import csv
import functools
import gzip
import io
import json
import math
import string
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from bayescontam._files import atomic_path, write_text
from bayescontam._optional import require
from bayescontam._random import stream
from bayescontam.data.judgements import PAIR, Judgements
from bayescontam.data.responses import Responses
from bayescontam.scan.results import Scan
from bayescontam.specs.corpus import Benchmark, Generated, Source

NAME = "generated"
"""Name of the benchmark."""
TRUTH = "truth.csv"
"""File that says which items have duplicates, and where."""

MANIFEST = "offline-demo"
JUDGED_EACH, BY_A_PERSON, JUDGE_ERROR = 5, 100, 0.05
"""Best matches of each item that the simulated model judges; pairs of these that the
simulated person judges; share of the model's verdicts that are wrong."""
MODELS, SLOPE, SLOPE_SD = 6, 1.5, 0.5
"""Simulated models; mean and spread of what a duplicate adds to their log-odds."""
_KEYS = ["benchmark", "item"]
_KINDS = {"exact": "exact", "paraphrased": "equivalent"}
_PLACES = {
    "math": ("web/forum", "books", "instruct/math", "instruct/math"),
    "code": ("web/forum", "instruct/code", "instruct/code"),
    "facts": ("web/blog", "web/forum", "books"),
    "anything": ("web/forum", "web/blog", "books"),
}
"""Strata that texts on a subject stand in; those named twice hold more of them."""
_FILES = {
    "web": ("web-1.jsonl.gz", "web-2.jsonl.gz"),
    "books": ("books.jsonl",),
    "instruct": ("instruct.jsonl.zst",),
}
_UNREADABLE = (b'{"id": "cut", "text": "The', b'{"id": "bare"}', b'{"id": "void", "text": ""}')
"""Records in every source that are no documents."""
_LIKE_ITEMS = 0.25
"""Share of items that the corpus holds with other people and numbers: no duplicates."""
_COPIES, _SHORT, _LIKE_PLOTS, _TOPICAL = 0.03, 0.02, 0.25, 0.2
"""Shares of the other documents; what remains is on anything else."""

_RESULTS: dict[str, Callable[["Slots"], int]] = {
    "stock": lambda s: s["n"] * s["m"] - s["n"] * s["m"] * s["p"] // 100 + s["k"],
    "profit": lambda s: s["n"] * s["m"] * s["p"] // 100 - s["k"],
    "packing": lambda s: s["n"] * s["t"] + s["m"] * (s["t"] - s["h"]),
    "shares": lambda s: s["k"] * (s["t"] - s["h"]),
    "trips": lambda s: math.ceil(s["n"] * s["m"] / s["k"]),
    "cork": lambda s: (s["n"] - 2 * s["h"]) * (s["m"] - 2 * s["h"]),
    "sales": lambda s: s["t"] * s["n"] + s["k"] * s["t"] * (s["t"] - 1) // 2,
    "road": lambda s: (s["m"] + s["k"]) * s["h"],
    "opening": lambda s: s["year"] + s["t"],
    "prize": lambda s: s["n"] + s["k"],
}
"""The number in the answer of a plot, by its name."""

type Random = np.random.Generator
type Slots = Mapping[str, Any]
type Cell = tuple["Plot", tuple[str, ...]]
"""A plot and the setting that it plays in."""


@dataclass(frozen=True)
class Plot:
    """A kind of problem: its texts, with slots."""

    subject: str  # what it is about: `"math"`, `"code"` or `"facts"`
    name: str
    question: str  # how the benchmark puts it; white space does not count
    retold: tuple[str, ...]  # the same problem in other words
    answer: str

    def solve(self, slots: Slots) -> str:
        """Return the answer for these slots."""
        result = {"result": _RESULTS[self.name](slots)} if self.name in _RESULTS else {}
        return self.answer.format_map({**slots, **result})


@functools.cache
def demo_texts() -> dict[str, Any]:
    """Return what ``demo_texts.toml`` holds."""
    path = Path(__file__).with_name("demo_texts.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


@functools.cache
def plots_of(subject: str) -> tuple[Plot, ...]:
    """Return the plots on a subject."""
    return tuple(
        Plot(subject, plot["name"], plot["question"], tuple(plot["retold"]), plot["answer"])
        for plot in demo_texts()["subjects"][subject]["plots"]
    )


def fill_template(text: str, slots: Slots) -> str:
    """Return a text with its slots filled, on one line."""
    return " ".join(text.format_map(slots).split())


@dataclass(eq=False)
class SyntheticDocument:
    """A record of the corpus; its stratum begins with the name of its source."""

    stratum: str
    text: str
    name: str = ""


@dataclass
class SyntheticItem:
    """An item of the benchmark, and what stands of it in the corpus."""

    name: str
    cell: Cell
    slots: dict[str, Any]
    kind: str
    duplicates: list[SyntheticDocument] = field(default_factory=list)


def generate(
    spec: Generated, seed: int, folder: Path
) -> tuple[tuple[Benchmark, ...], tuple[Source, ...]]:
    """Write a benchmark, a corpus and the truth about them.

    Items are word problems, programming tasks and questions on short passages. Those of
    kind ``exact`` stand in 1 to 4 documents word for word, those of kind ``paraphrased`` in
    other words. The other documents are problems that differ from every item in what they
    are about or in their numbers, prose on the same subjects, prose on others, copies of
    such documents, and texts that are too short. Each source also holds a few records that
    cannot be read.
    """
    rng = stream(seed, "generated")
    taken: set[str] = set()
    items, spare = _items(spec, taken, rng)
    documents = [document for item in items for document in item.duplicates]
    documents += _others(spec.documents - len(documents), items, spare, taken, rng)
    order = rng.permutation(len(documents))
    documents = [documents[place] for place in order]
    folder.mkdir(parents=True, exist_ok=True)
    sources = tuple(_write_source(source, documents, folder, rng) for source in _FILES)
    _write_benchmark(items, folder)
    return (Benchmark(name=NAME, path="benchmark.jsonl"),), sources


def _items(spec: Generated, taken: set[str], rng: Random) -> tuple[list[SyntheticItem], list[Cell]]:
    """Return the items with their duplicates, and the cells that no item uses."""
    cells: list[Cell] = [
        cell
        for name, subject in demo_texts()["subjects"].items()
        for cell in product(plots_of(name), map(tuple, subject["settings"]))
    ]
    cells = [cells[place] for place in rng.permutation(len(cells))]
    exact, paraphrased = round(spec.items * spec.exact), round(spec.items * spec.paraphrased)
    kinds = ["exact"] * exact + ["paraphrased"] * paraphrased
    kinds += ["none"] * (spec.items - len(kinds))
    counts = [int(rng.integers(1, 5)) if kind != "none" else 0 for kind in kinds]
    if sum(counts) > spec.documents:
        counts = [min(count, 1) for count in counts]
    items = []
    for number, place in enumerate(rng.permutation(spec.items)):
        cell, name = cells[number % len(cells)], f"item-{number + 1:04d}"
        item = SyntheticItem(name, cell, _new_slots(cell, taken, rng), kinds[place])
        item.duplicates = [_duplicate(item, rng) for _ in range(counts[place])]
        items.append(item)
    return items, cells[spec.items :] or cells


def _new_slots(cell: Cell, taken: set[str], rng: Random) -> dict[str, Any]:
    """Return slots that make a problem of their own: some plots have few numbers in them."""
    while True:
        slots = _slots(cell, rng)
        text = fill_template(cell[0].question, slots)
        if text not in taken:
            taken.add(text)
            return slots


def _slots(cell: Cell, rng: Random) -> dict[str, Any]:
    """Return people, places and numbers for a problem."""
    plot, setting = cell
    texts = demo_texts()
    people, towns, surnames = (_several(texts[of], 3, rng) for of in ("names", "towns", "surnames"))
    slots: dict[str, Any]
    slots = dict(zip(texts["subjects"][plot.subject]["slots"], setting, strict=True))
    slots |= dict(zip("abc", people, strict=True))
    slots |= {"town": towns[0], "town2": towns[1], "surname": surnames[0], "surname2": surnames[1]}
    # Multiples of 20 and of 5, so that shares of things are whole things.
    slots |= {"n": 20 * int(rng.integers(1, 21)), "p": 5 * int(rng.integers(1, 16))}
    ranges = {"m": (12, 61), "k": (15, 251), "t": (5, 10), "h": (2, 4), "year": (1750, 1931)}
    ranges |= {"limit": (100, 10_000)}
    return slots | {slot: int(rng.integers(*ends)) for slot, ends in ranges.items()}


def _duplicate(item: SyntheticItem, rng: Random) -> SyntheticDocument:
    if item.kind == "exact":
        return _placed(item.cell[0], item.slots, item.cell[0].question, rng)
    text = _one(item.cell[0].retold, rng)
    for word, other in demo_texts()["synonyms"]:
        if rng.random() < 0.5:
            text = text.replace(word, other)
    return _placed(item.cell[0], item.slots, text, rng)


def _placed(plot: Plot, slots: dict[str, Any], text: str, rng: Random) -> SyntheticDocument:
    """Return a problem as it stands in the corpus."""
    stratum = _one(_PLACES[plot.subject], rng)
    around: str = _one(demo_texts()["around"][stratum.rpartition("/")[2]], rng)
    inside = {"text": fill_template(text, slots), "answer": plot.solve(slots)}
    # The people around a text are others than those in it.
    return SyntheticDocument(stratum, around.format_map(slots | inside | {"a": slots["c"]}))


def _others(
    count: int, items: Sequence[SyntheticItem], spare: Sequence[Cell], taken: set[str], rng: Random
) -> list[SyntheticDocument]:
    """Return `count` documents that are no duplicates."""
    texts = demo_texts()

    def problem(cell: Cell) -> SyntheticDocument:
        text = cell[0].question if rng.random() < 0.5 else _one(cell[0].retold, rng)
        return _placed(cell[0], _new_slots(cell, taken, rng), text, rng)

    alike = [problem(item.cell) for item in items if rng.random() < _LIKE_ITEMS]
    found = alike[:count]
    while len(found) < count:
        lot = float(rng.random())
        cell = _one(spare, rng)
        if found and lot < _COPIES:
            original = _one(found, rng)
            found.append(SyntheticDocument(original.stratum, original.text))
        elif lot < _COPIES + _SHORT:
            found.append(_prose(_one(texts["unrelated"], rng), cell, 1, rng))
        elif lot < _COPIES + _SHORT + _LIKE_PLOTS:
            found.append(problem(cell))
        elif lot < _COPIES + _SHORT + _LIKE_PLOTS + _TOPICAL:
            found.append(_prose(texts["subjects"][cell[0].subject]["prose"], cell, 5, rng))
        else:
            found.append(_prose(_one(texts["unrelated"], rng), cell, 6, rng))
    return found


def _prose(bank: Sequence[str], cell: Cell, sentences: int, rng: Random) -> SyntheticDocument:
    """Return some sentences of a bank in their order."""
    places = sorted(rng.choice(len(bank), sentences, replace=False))
    text = " ".join(bank[place] for place in places)
    return SyntheticDocument(_one(_PLACES["anything"], rng), fill_template(text, _slots(cell, rng)))


def _one[T](options: Sequence[T], rng: Random) -> T:
    return options[int(rng.integers(len(options)))]


def _several[T](options: Sequence[T], count: int, rng: Random) -> list[T]:
    return [options[place] for place in rng.choice(len(options), count, replace=False)]


def _write_source(
    source: str, documents: Sequence[SyntheticDocument], folder: Path, rng: Random
) -> Source:
    """Name the documents of a source and write its files."""
    mine = [d for d in documents if d.stratum.partition("/")[0] == source]
    lines = []
    for number, document in enumerate(mine, start=1):
        document.name = f"{source}-{number:06d}"
        level = document.stratum.partition("/")[2]
        record = {"id": document.name, **({"stratum": level} if level else {})}
        lines.append(json.dumps(record | {"text": document.text}, ensure_ascii=False).encode())
    for line in _UNREADABLE:
        lines.insert(int(rng.integers(len(lines) + 1)), line)
    files = _FILES[source]
    for part, name in enumerate(files):
        data = b"".join(line + b"\n" for line in lines[part :: len(files)])
        with atomic_path(folder / name) as path:
            path.write_bytes(_compressed(data, name))
    stratum = None if source == "books" else "stratum"
    return Source(name=source, paths=files, stratum=stratum)


def _compressed(data: bytes, name: str) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(data, mtime=0)  # the time would make every file another one
    if name.endswith(".zst"):
        compressed: bytes = require("zstandard", "scan").ZstdCompressor().compress(data)
        return compressed
    return data


def _write_benchmark(items: Sequence[SyntheticItem], folder: Path) -> None:
    """Write the items, and the truth about them."""
    lines = []
    truth = io.StringIO()
    table = csv.writer(truth, lineterminator="\n")
    table.writerow(["benchmark", "item", "kind", "n_duplicates", "documents"])
    for item in items:
        plot, slots = item.cell[0], item.slots
        texts = {"input": fill_template(plot.question, slots), "output": plot.solve(slots)}
        lines.append(json.dumps({"id": item.name, **texts}, ensure_ascii=False) + "\n")
        names = sorted(document.name for document in item.duplicates)
        table.writerow([NAME, item.name, item.kind, len(names), " ".join(names)])
    write_text(folder / "benchmark.jsonl", "".join(lines))
    write_text(folder / TRUTH, truth.getvalue())


def read_truth(folder: Path) -> pd.DataFrame:
    """Return which items of the generated benchmark have duplicates."""
    path = folder / "generated" / TRUTH
    return pd.read_csv(path, keep_default_na=False, dtype={"item": str, "documents": str})


def simulated_judgements(scan: Scan, truth: pd.DataFrame, seed: int) -> Judgements:
    """Return how a language model and a person might have judged pairs of a scan."""
    rng = stream(seed, "simulated judgements")
    pairs = scan.matches[scan.matches["rank"] <= JUDGED_EACH].reset_index(drop=True)
    known = truth.set_index(_KEYS).loc[list(pairs[_KEYS].itertuples(index=False, name=None))]
    texts = zip(pairs["document"], known["documents"], strict=True)
    # Of a document in several chunks, the one that is like the item holds the duplicate.
    first = ~pairs.duplicated([*_KEYS, "source", "document"]).to_numpy()
    true = np.array([document in documents.split() for document, documents in texts]) & first
    kind = known["kind"].map(_KINDS).fillna("").to_numpy()
    wrong = rng.random(len(pairs)) < JUDGE_ERROR
    by_model = _said(pairs, true != wrong, true, kind, "llm:simulated")
    chosen = np.sort(rng.choice(len(pairs), BY_A_PERSON, replace=False))
    by_person = _said(pairs, true, true, kind, "simulated person").iloc[chosen]
    table = pd.concat([by_model, by_person], ignore_index=True)
    return Judgements.from_frame(table, source="simulated judgements")


def _said(
    pairs: pd.DataFrame, called: np.ndarray, true: np.ndarray, kind: np.ndarray, judge: str
) -> pd.DataFrame:
    """Return verdicts as judgements; of wrong ones the kind is wrong, too."""
    named = np.where(true, kind, "equivalent")
    return pairs[list(PAIR)].assign(
        judge=judge,
        is_duplicate=called.astype(int),
        kind=np.where(called, named, np.where(true, "related", "unrelated")),
        comment="simulated",
    )


def simulated_responses(truth: pd.DataFrame, seed: int) -> Responses:
    """Return responses of models that remember the items which truly have duplicates."""
    rng = stream(seed, "simulated responses")
    ability = np.linspace(1.0, -1.0, MODELS)[:, None]
    slope = rng.normal(SLOPE, SLOPE_SD, (MODELS, 1))
    difficulty = rng.standard_normal(len(truth))
    duplicated = (truth["n_duplicates"] > 0).to_numpy()
    p = expit(ability - difficulty + slope * duplicated)
    correct = (rng.random(p.shape) < p).astype(int)
    parts = [
        truth[_KEYS].assign(model=f"simulated {letter}", correct=answers)
        for letter, answers in zip(string.ascii_uppercase, correct, strict=False)
    ]
    table = pd.concat(parts, ignore_index=True)
    return Responses.from_frame(table, source="simulated responses")
