"""A scan made from random vectors, with hostile names and texts, whose cosines are all known."""

import json
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

BENCHMARKS = ("quiz", "<b>bench</b>\n<script>document.title='x'</script>")
ITEMS, CHUNKS, TOP_K, TAIL_SHARE, TAIL_SIZE = 60, 2000, 20, 0.01, 10
STRATA = [
    ("web", f"forum/{name}")
    for name in ("a", "b", "c", "d", "e", "f", "g", "<img src=x onerror=alert(1)>")
] + [("books", ""), ("s" * 3000, "t" * 3000), ("\u202eevil", "\x00nul")]
HOSTILE_TEXTS = [
    "<script>document.title = 'taken'</script><img src=x onerror='document.title=1'>",
    "safe\u202eekil skool siht\u202c and \u2066isolated\u2069, zero\u200bwidth, nul\0, bell\x07",
    "huge " * 20_000,
    "</pre></details></article></section></main><h1>gone</h1><style>body{display:none}</style>",
    "\n" * 5_000 + "after five thousand lines",
    "w" * 100_000,
    "z" + "\u0301\u0302\u0303" * 400 + "algo",
    "one\r\ntwo\r\n\tindented & <kept> \\u202e as written",
    "\U000e0001" * 9_000,
    '"' * 9_000,
    "\ufdfd" * 300 + "مرحبا بالعالم",
]
_WORDS = (
    "train", "station", "hours", "distance", "sum", "prime", "list", "function", "returns",
    "sorted", "apples", "price", "garden", "river", "castle", "murder", "suspect", "room",
    "evening", "letter", "proof", "triangle", "angle", "circle", "rate", "boat",
)  # fmt: skip


@dataclass(frozen=True)
class MadeScan:
    """What a page of a scan reads; `cosines` are all of them, (items, chunks)."""

    folder: Path
    record: dict[str, Any]
    matches: pd.DataFrame
    tail: pd.DataFrame
    histogram: pd.DataFrame
    strata: pd.DataFrame
    items: pd.DataFrame
    texts: pd.DataFrame
    cosines: np.ndarray = field(repr=False)
    by_source: bool = False

    def with_record(self, **changes: Any) -> "MadeScan":
        return replace(self, record=self.record | changes)

    def write(self, folder: Path) -> Path:
        """Write it as a scan does."""
        folder.mkdir(parents=True)
        (folder / "scan.json").write_text(json.dumps(self.record), encoding="utf-8")
        for name in ("matches", "tail", "histogram", "strata", "items", "texts"):
            getattr(self, name).to_parquet(folder / f"{name}.parquet", index=False)
        return folder


def make_scan() -> MadeScan:
    """Return the scan, with tables of its own that may be changed."""
    made = _made()
    names = ("matches", "tail", "histogram", "strata", "items", "texts", "cosines")
    own = {name: getattr(made, name).copy() for name in names}
    return replace(made, record=deepcopy(made.record), **own)


@cache
def _made() -> MadeScan:
    rng = np.random.default_rng(7)
    texts = [" ".join(rng.choice(_WORDS, 40)) for _ in range(ITEMS)]
    vectors = _unit(rng.normal(size=(ITEMS, 24)) + 0.5)
    chunks = _unit(rng.normal(size=(CHUNKS, 24)) + 0.5)
    chunk_texts = [" ".join(rng.choice(_WORDS, 60)) for _ in range(CHUNKS)]
    for i in range(0, ITEMS, 2):  # every second item has a duplicate, more or less near
        chunks[i] = _unit(vectors[i] + rng.normal(size=24) * (i / ITEMS) * 0.25)
        chunk_texts[i] = texts[i] if i % 4 else " ".join(texts[i].split()[::-1])
    best = np.argsort(-(vectors @ chunks.T).max(axis=1))
    for i, hostile in zip(best, HOSTILE_TEXTS, strict=False):
        texts[i] = hostile
        chunk_texts[int((vectors @ chunks.T)[i].argmax())] = hostile[::-1]
    items = pd.DataFrame(
        {
            "benchmark": [BENCHMARKS[i % 2] for i in range(ITEMS)],
            "item": [f"item {i}" for i in range(ITEMS - 2)] + ["i" * 9_000, "<u>\u202eitem"],
            "text": texts,
            "tokens": rng.integers(40, 400, ITEMS),
            "cut": np.arange(ITEMS) % 10 == 0,
        }
    )
    return _scan(items, (vectors @ chunks.T).astype(np.float32), chunk_texts, rng)


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _scan(
    items: pd.DataFrame, cosines: np.ndarray, texts: list[str], rng: np.random.Generator
) -> MadeScan:
    stratum = rng.integers(0, len(STRATA), CHUNKS)
    chunks = pd.DataFrame(
        {
            "document": [f"doc-{i}" if i % 9 else f"<i>{'d' * 5_000}{i}" for i in range(CHUNKS)],
            "chunk": np.arange(CHUNKS) % 3,
            "start": np.arange(CHUNKS) * 10,
            "end": np.arange(CHUNKS) * 10 + 400,
            "source": [STRATA[s][0] for s in stratum],
            "stratum": [STRATA[s][1] for s in stratum],
            "copies": np.where(np.arange(CHUNKS) % 7, 1, 3),
            "chunk_id": rng.integers(0, 2**64, CHUNKS, dtype=np.uint64),
        }
    )
    keys = items[["benchmark", "item"]]
    order = np.argsort(-cosines, axis=1, kind="stable")
    matches = _rows(keys, chunks, cosines, order[:, :TOP_K])
    matches.insert(2, "rank", np.tile(np.arange(1, TOP_K + 1), ITEMS))
    scores = [
        _lexical(items["text"][i], texts[j]) for i, row in enumerate(order[:, :TOP_K]) for j in row
    ]
    matches = pd.concat([matches, pd.DataFrame(scores)], axis=1)
    size = int(TAIL_SHARE * CHUNKS)
    drawn = np.stack([rng.permutation(row[:size])[:TAIL_SIZE] for row in order])
    tail = _rows(keys, chunks, cosines, drawn)
    limits = np.take_along_axis(cosines, order[:, size - 1 : size], axis=1)[:, 0]
    tail["threshold"], tail["tail_matches"] = np.repeat(limits, TAIL_SIZE), size
    shown = np.union1d(order[:, :TOP_K], drawn)
    kept = pd.DataFrame({"chunk_id": chunks["chunk_id"][shown], "text": [texts[i] for i in shown]})
    flat = keys.loc[np.repeat(np.arange(ITEMS), CHUNKS)].reset_index(drop=True)
    flat["cosine"] = np.floor(cosines.ravel().astype(float) * 1000) / 1000
    flat["source"], flat["stratum"] = (np.tile(chunks[c], ITEMS) for c in ("source", "stratum"))
    return MadeScan(
        Path("scan of <things>"), _record(stratum), matches, tail,
        _count(flat, ["benchmark", "item"]), _count(flat, ["benchmark", "source", "stratum"]),
        items, kept, cosines,
    )  # fmt: skip


def _rows(
    keys: pd.DataFrame, chunks: pd.DataFrame, cosines: np.ndarray, chosen: np.ndarray
) -> pd.DataFrame:
    table = keys.loc[np.repeat(np.arange(ITEMS), chosen.shape[1])].reset_index(drop=True)
    table["cosine"] = np.take_along_axis(cosines, chosen, axis=1).ravel()
    return pd.concat([table, chunks.iloc[chosen.ravel()].reset_index(drop=True)], axis=1)


def _count(flat: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    return flat.groupby([*keys, "cosine"], sort=False).size().rename("count").reset_index()


def _lexical(item: str, chunk: str) -> dict[str, float]:
    a, b = item.split()[:500], chunk.split()[:500]
    shared = len(set(a) & set(b)) / max(len(set(a) | set(b)), 1)
    row = {"jaccard": shared, "rouge_l": shared * 0.8}
    for n in (2, 8):
        grams, others = ({tuple(x[i : i + n]) for i in range(len(x) - n + 1)} for x in (a, b))
        row[f"ngram_{n}"] = len(grams & others) / len(grams) if grams else float("nan")
    return row


def _record(stratum: np.ndarray) -> dict[str, Any]:
    sampled = np.bincount(stratum, minlength=len(STRATA)).tolist()
    return {
        "version": "0.1.0",
        "created": "2026-03-04T05:06:07+00:00",
        "command": "bayescontam scan '<script>.toml' --out \x1b[31mscan",
        "manifest": {
            "name": "mine<b>", "hash": "ab" * 32, "summary": "Two <benchmarks> in a small corpus",
            "text": 'summary = "</pre><script>"\n# \u202e\n' + "# comment\n" * 9_000,
        },
        "seed": 11,
        "versions": {"python": "3.13.1", "torch": "2.9"},
        "embedder": {"model": "minilm", "dims": 384, "max_tokens": 256, "precision": "fp16"},
        "documents": {
            "read": 19_900, "bytes": 12_345_678, "sampled": 1990, "short": 21,
            "unreadable": {"not JSON": 3, "no field '<text>'\x07": 12},
        },
        "chunks": {"made": 2100, "distinct": CHUNKS, "short_pieces": 5},
        "strata": [
            {"source": source, "stratum": name, "documents": 10 * n, "sampled": n, "share": 0.1,
             "chunks": n}
            for (source, name), n in zip(STRATA, sampled, strict=True)
        ],
        "benchmarks": [
            {"benchmark": name, "items": ITEMS // 2, "text_mode": mode, "cut": 3}
            for name, mode in zip(BENCHMARKS, ("input", "input_output"), strict=True)
        ],
        "search": {
            "queries": ITEMS, "chunks": CHUNKS, "pairs": ITEMS * CHUNKS, "top_k": TOP_K,
            "tail_share": TAIL_SHARE, "tail_size": TAIL_SIZE,
        },
        "seconds": {"read": 1.234, "chunk": 3.0, "search": 4567.8},
        "notes": ["12 files were <ignored>", "\u202enote"],
    }  # fmt: skip
