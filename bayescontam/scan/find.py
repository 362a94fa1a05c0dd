"""Nearest chunks of stored vectors to a text."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._progress import progress_bar
from bayescontam._text import printable
from bayescontam._types import Matrix
from bayescontam.errors import UsageError
from bayescontam.scan.chunking import DESCRIBED
from bayescontam.scan.embedders import shared_embedder
from bayescontam.scan.execution import Execution
from bayescontam.scan.search import Queries, Searcher
from bayescontam.scan.shard_search import add_chunks
from bayescontam.scan.sketch import Sketch, split_places
from bayescontam.scan.stored_vectors import StoredShard, StoredVectors
from bayescontam.scan.vector_index import ABOUT, VectorIndex, candidates, units


def find_nearest(
    vectors: str | os.PathLike[str],
    text: str,
    k: int = 20,
    *,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    endpoint: str | None = None,
    api_key_env: str | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Return the chunks of a corpus that are most similar to a text, by its stored vectors.

    Of vectors the search is exact: every one is read. Of an index it takes less than a second
    for a million, and misses a few (`build_index`); the cosines of what it finds are exact.

    Parameters
    ----------
    vectors : path-like
        Folder of vectors that a scan stored (`run_scan` with `keep_vectors`), or of an index
        of such vectors.
    text : str
        What to search for. It is embedded as the items of a benchmark are, by the embedder
        of the vectors.
    k : int, default 20
        Chunks to return, at most 10,000; texts that occur several times count as one.
    device : {"auto", "cpu", "cuda"}, default "auto"
        Where embedding and search run; ``"auto"`` is a GPU where this machine has one.
    endpoint : str, optional
        Address of an OpenAI-compatible interface where the embedder is served, if it was served
        when the vectors were stored; by default it is loaded here.
    api_key_env : str, optional
        Environment variable with the key of the endpoint; default: ``"OPENAI_API_KEY"``.
    progress : bool, default False
        Whether to show a progress bar.

    Returns
    -------
    pandas.DataFrame
        One row a chunk, the nearest first: ``cosine``, ``document``, ``chunk`` (number in
        the document, from 0), ``start`` and ``end`` (characters), ``source``, ``stratum``,
        ``copies`` (occurrences of the text), ``text``.

    Raises
    ------
    UsageError
        If the text is empty, `k` is not in 1 to 10,000, or the embedder that is there is
        another than that of the vectors; if `endpoint` is missing or not needed.
    TaskError
        If the endpoint does not embed the text.
    DataError
        If the folder holds no stored vectors, or they are damaged.
    MissingExtraError
        If the extra 'scan' is not installed.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.find_nearest("no-such-folder", "a text")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no stored vectors: is no folder
    Give the folder 'vectors' of a scan that was run with --keep-vectors.
    """
    if not text.strip():
        raise UsageError("text: is empty; give the text to search for")
    if not 1 <= k <= 10_000:
        raise UsageError(f"k: got {k:,}; allowed: 1 to 10,000")
    index = VectorIndex.load(vectors) if (Path(vectors).expanduser() / ABOUT).is_file() else None
    stored = StoredVectors.load(vectors) if index is None else index.stored[0]
    at = Execution(device=device).on_device().device
    embedder = shared_embedder(stored.embedding(endpoint, api_key_env), at)
    stored.check_embedder(embedder.describe())
    [tokens] = embedder.count([text])
    if tokens > embedder.max_tokens:
        raise UsageError(
            f"text '{printable(text, 40)}': has {tokens:,} tokens, the embedder sees"
            f" {embedder.max_tokens:,}; give a part of it"
        )
    vector = embedder.embed([text], "query")
    if index is None:
        shards = stored.shards()
        best = _among_all(shards, vector, k, at, progress)
    else:
        shards = index.shards
        best = _by_index(index, vector, k)
    part, row = split_places(best["where"])
    places = [
        shards[number].describe(row[part == number]).set_index(np.flatnonzero(part == number))
        for number in np.unique(part).tolist()
    ]
    table = pd.concat(places).sort_index()
    table.insert(0, "cosine", best["cosine"])
    return table.assign(copies=best["copies"])[["cosine", *DESCRIBED, "copies", "text"]]


def _among_all(
    shards: Sequence[StoredShard], vector: Matrix, k: int, device: str, progress: bool
) -> NDArray[Any]:
    """Return the best matches of a vector, compared with every stored one."""
    query = Queries(vector, np.zeros(1, np.uint32), np.zeros(1, np.int64))
    sketch = Sketch.empty(1, k)
    with progress_bar(progress, "search", sum(s.size for s in shards), "chunks") as advance:
        for number, shard in enumerate(shards):
            # One for each part: of a part that is done, only its best are held.
            searcher = Searcher(query, k, device)
            for chunks in shard.chunks(number, None):
                add_chunks(searcher, chunks, shard)
            sketch = sketch.merge(searcher.sketch(number))
            advance(shard.size)
    return sketch.top(0, k)


def _by_index(index: VectorIndex, vector: Matrix, k: int) -> NDArray[Any]:
    """Return the best matches of a vector among those that an index finds."""
    ids, cosines = index.nearest(units(vector), candidates(k, index.weight))
    found = ids[0] >= 0
    best = index.entries(ids[0][found][:k])
    best["cosine"] = cosines[0][found][:k]
    return best
