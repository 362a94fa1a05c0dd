"""A small corpus that lies in memory, so that its addresses are the same on every machine."""

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from tests.golden.stored import SCANS

MANIFEST, JUDGEMENTS = "manifest.toml", "judgements.csv"
ADDRESS = "/golden"
CHANGED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""When the files of the corpus changed last: scans that are resumed look at that."""
_WORDS = [f"w{number}" for number in range(200)]
_TEXT = f"""summary = "A small corpus, of which half is copied from the items."
seed = 3

[[benchmarks]]
name = "quiz"
path = "corpus/items.jsonl"

[[benchmarks]]
name = "code"
path = "corpus/more.csv"
text_mode = "input_output"

[[sources]]
name = "web"
paths = ["memory:/{ADDRESS}/web"]
stratum = "kind"
text = "body"

[[sources]]
name = "notes"
paths = ["memory:/{ADDRESS}/notes"]

[chunking]
min_tokens = 3
max_tokens = 40

[embedding]
model = "hashing"

[search]
top_k = 5
tail_size = 4
tail_share = 0.1
shard_chunks = 16
"""


def write_corpus(folder: Path) -> None:
    """Write items, documents and the manifest of their scan."""
    rng = random.Random(4)
    place = folder / "corpus"
    for name in ("web", "notes"):
        (place / name).mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).write_text(_TEXT, encoding="utf-8")
    items = [_text(rng, 20) for _ in range(10)]
    _write_lines(place / "items.jsonl", [{"id": f"q{i}", "input": t} for i, t in enumerate(items)])
    rows = "".join(f"c{i},{_text(rng, 9)},{_text(rng, 4)}\n" for i in range(4))
    (place / "more.csv").write_text("id,input,output\n" + rows, encoding="utf-8")
    for part in ("a.jsonl", "b.jsonl.gz"):
        bodies = [_near(rng, items[i % 10]) if i % 2 else _text(rng, 20) for i in range(30)]
        records = [
            {"id": f"{part[0]}{i}", "kind": f"k{i % 3}", "body": body}
            for i, body in enumerate(bodies)
        ]
        _write_lines(place / "web" / part, records)
    for i in range(4):
        text = "\n\n".join(_text(rng, 30) + "." for _ in range(1 + i))
        (place / "notes" / f"{i}.txt").write_text(text, encoding="utf-8")


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(_WORDS, k=words))


def _near(rng: random.Random, text: str) -> str:
    """Return a text with some words replaced, or none."""
    words = text.split()
    for at in rng.sample(range(len(words)), rng.choice([0, 2, 5])):
        words[at] = rng.choice(_WORDS)
    return " ".join(words)


def _write_lines(path: Path, records: list[dict[str, str]]) -> None:
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def write_judgements(matches: pd.DataFrame, path: Path) -> None:
    """Write verdicts of two judges on matches: one by cosine, one that errs at times."""
    columns = ["benchmark", "item", "source", "document", "chunk"]
    rows = matches[matches["rank"] <= 3].reset_index(drop=True)
    ada = (rows["cosine"] > 0.6).astype(int)
    bo = ada.where(rows.index % 7 != 3, 1 - ada)
    kinds = {1: "exact", 0: "unrelated"}
    tables = [
        rows[columns].assign(judge=judge, is_duplicate=verdicts, kind=verdicts.map(kinds))
        for judge, verdicts in (("Ada", ada), ("Bo", bo))
    ]
    pd.concat(tables).to_csv(path, index=False, lineterminator="\n")


@contextmanager
def corpus_in_memory() -> Iterator[None]:
    """Put the documents of the corpus into fsspec's memory, where the manifest looks for them."""
    import fsspec

    system = fsspec.filesystem("memory")
    place = SCANS / "corpus"
    for path in sorted([*place.glob("web/*"), *place.glob("notes/*")]):
        address = f"{ADDRESS}/{path.relative_to(place).as_posix()}"
        system.pipe_file(address, path.read_bytes())
        system.store[address].created = CHANGED
    try:
        yield
    finally:
        system.rm(ADDRESS, recursive=True)
