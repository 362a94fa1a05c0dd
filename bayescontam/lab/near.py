"""Texts near items that are no duplicates of them: the control of what cosines alone do."""

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._files import on_disk, write_text
from bayescontam._text import join_list
from bayescontam.data.judgements import PAIR, Judgements, read_judgements
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.evidence.pairs import positions_in_scan
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.results import Scan
from bayescontam.specs.corpus import Embedding

NEAR = "near"
"""Kind of the rows of texts that are near items, and no duplicates."""

_POOL = 20_000
"""Texts of a pool beyond those that are needed, at most: each is embedded."""


def pool_size(needed: int) -> int:
    """Return how many texts are drawn from which so many near ones are taken."""
    return needed + min(19 * needed, _POOL)


def nearest_texts(
    questions: Sequence[str], pool: Sequence[str], copies: int, embedding: Embedding
) -> list[list[str]]:
    """Return for each question the texts of a pool with the highest cosines.

    No text is taken twice. All questions take one text, then all take a second, and so on: the
    first texts do not depend on `copies`.

    Parameters
    ----------
    questions : sequence of str
        Texts of items.
    pool : sequence of str
        Texts that are about others, at least as many as are taken.
    copies : int
        Texts for each question.
    embedding : Embedding
        What turns texts into vectors.

    Returns
    -------
    list of list of str
        The texts of each question, the nearest first.

    Examples
    --------
    >>> pool = ["a red fox", "a blue whale", "two blue whales"]
    >>> nearest_texts(["one blue whale"], pool, 2, Embedding(model="hashing"))
    [['a blue whale', 'two blue whales']]
    """
    if len(questions) * copies > len(pool):
        raise UsageError(
            f"near: {len(pool):,} texts, and {len(questions):,} items × {copies:,} copies are"
            " needed; give more background, or fewer copies"
        )
    embedder = load_embedder(embedding)
    queries, passages = embedder.embed(questions, "query"), embedder.embed(pool, "passage")
    found: list[list[str]] = [[] for _ in questions]
    free = np.ones(len(pool), bool)
    for _ in range(copies):
        for own, query in zip(found, queries, strict=True):
            # Rounded: the last bits of sums differ between processors, and ties would with them.
            cosines = np.round(passages @ query, 5)
            best = int(np.where(free, cosines, -np.inf).argmax())
            free[best] = False
            own.append(pool[best])
    return found


def near_texts(
    scan: Scan | str | os.PathLike[str],
    judgements: Judgements | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    benchmark: str = "",
    items: Sequence[str] = (),
    copies: int = 1,
) -> list[dict[str, Any]]:
    """Write the texts of a scan that are most like items, and were judged to be no duplicates.

    In training texts they show what cosines alone do, beside duplicates, as in the published
    trainings on "high cosine similarity" texts. A text that is judged to be a duplicate of any
    item of the benchmark, by any judge, is not taken; nor is one taken twice.

    Parameters
    ----------
    scan : Scan or path
        A finished scan of the corpus that the texts are taken from, or its folder.
    judgements : Judgements or path
        Verdicts on its pairs; those that are not judged are not taken.
    out : path
        File for the rows, for ``files.near`` of a lab's spec.
    benchmark : str, optional
        Name of the benchmark in the scan; default: the only one there.
    items : sequence of str, optional
        Items whose near texts are taken; default: all.
    copies : int, default 1
        Texts for each item, as far as there are.

    Returns
    -------
    list of dict
        Rows as in the file: ``benchmark, item, duplicate, kind, level, text, text_mode, checks,
        cosine, source, document, chunk``, for each item the nearest first.

    Raises
    ------
    UsageError
        If the scan has no such benchmark or items, or several benchmarks and none is named.
    DataError
        If judgements are not of this scan, or no judged text can be taken.

    References
    ----------
    Section 4.3 of "Soft Contamination Means Benchmarks Test Shallow Generalization" (2026).

    Examples
    --------
    >>> import bayescontam as bc
    >>> bc.near_texts("scan", "judgements.csv", "near.jsonl", copies=2)  # doctest: +SKIP
    """
    found = scan if isinstance(scan, Scan) else Scan.load(scan)
    verdicts = judgements if isinstance(judgements, Judgements) else read_judgements(judgements)
    if copies < 1:
        raise UsageError(f"copies: got {copies}; allowed is 1 or more")
    known = found.items["benchmark"].unique().tolist()
    name = benchmark or (known[0] if len(known) == 1 else "")
    if name not in known:
        got = f"got '{name}'" if name else "none is named"
        raise UsageError(f"benchmark: {got}; the scan has {join_list(known)}")
    own = found.items.loc[found.items["benchmark"] == name, "item"].tolist()
    if unknown := [item for item in items if item not in own]:
        raise UsageError(f"items: '{name}' in this scan has no {join_list(unknown)}")
    pairs = _refuted(found, verdicts, name)
    rows = _taken(pairs[pairs["item"].isin([*(items or own)])], copies)
    if not rows:
        problem = f"no text is judged to be no duplicate of an item of '{name}'"
        advice = "Judge the nearest pairs first: bayescontam judge export SCAN --per-item 5."
        raise DataError([Fault(verdicts.source, problem)], advice)
    with on_disk(out):
        write_text(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return rows


def _refuted(scan: Scan, verdicts: Judgements, benchmark: str) -> pd.DataFrame:
    """Return judged pairs of texts that are no duplicates of any item, the nearest first."""
    placed = positions_in_scan(verdicts, scan)
    placed = placed[(placed["benchmark"] == benchmark) & placed["is_duplicate"].notna()]
    called = placed.groupby("chunk_id")["is_duplicate"].transform("max")
    free = placed[(called == 0).to_numpy(bool)]
    pairs = free.groupby([*PAIR, "chunk_id", "cosine"], sort=False)["judge"].agg(", ".join)
    texts = scan.texts[["chunk_id", "text"]]
    # A text without words says nothing; vectors of other programs may have none at all.
    rows = pairs.reset_index().merge(texts, on="chunk_id", how="inner", validate="many_to_one")
    rows = rows[rows["text"].str.strip() != ""]
    return rows.sort_values(["cosine", "chunk_id"], ascending=[False, True], kind="stable")


def _taken(pairs: pd.DataFrame, copies: int) -> list[dict[str, Any]]:
    """Return the rows of each item; all take one text before any takes a second."""
    queues: dict[str, list[dict[str, Any]]] = {}
    for row in pairs.to_dict("records"):
        queues.setdefault(str(row["item"]), []).append({str(name): row[name] for name in row})
    used: set[int] = set()
    taken: dict[str, list[dict[str, Any]]] = {item: [] for item in queues}
    for _ in range(copies):
        for item, queue in queues.items():
            free = [pair for pair in queue if pair["chunk_id"] not in used]
            for pair in free[:1]:
                used.add(pair["chunk_id"])
                taken[item].append(_row(pair, len(taken[item]) + 1))
    return [row for own in taken.values() for row in own]


def _row(pair: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a near text as its file lists it."""
    return {
        "benchmark": pair["benchmark"], "item": pair["item"],
        "duplicate": f"{pair['item']}/{NEAR}/{number}", "kind": NEAR, "level": "",
        "text": pair["text"], "text_mode": "input",
        "checks": [f"judged to be no duplicate by {pair['judge']}"],
        "cosine": round(float(pair["cosine"]), 6), "source": pair["source"],
        "document": pair["document"], "chunk": int(pair["chunk"]),
    }  # fmt: skip
