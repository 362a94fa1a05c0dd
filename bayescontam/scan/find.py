"""Nearest chunks of stored vectors to a text."""

import os
from typing import Literal

import numpy as np
import pandas as pd

from bayescontam._progress import progress_bar
from bayescontam._text import printable
from bayescontam.errors import UsageError
from bayescontam.scan.chunking import DESCRIBED
from bayescontam.scan.embedders import shared_embedder
from bayescontam.scan.execution import Execution
from bayescontam.scan.search import Queries, Searcher
from bayescontam.scan.sketch import Sketch, split_places
from bayescontam.scan.stored_vectors import StoredVectors


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

    The search is exact: every vector is read.

    Parameters
    ----------
    vectors : path-like
        Folder of vectors that a scan stored (`run_scan` with `keep_vectors`).
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
    stored = StoredVectors.load(vectors)
    at = Execution(device=device).on_device().device
    embedder = shared_embedder(stored.embedding(endpoint, api_key_env), at)
    stored.check_embedder(embedder.describe())
    [tokens] = embedder.count([text])
    if tokens > embedder.max_tokens:
        raise UsageError(
            f"text '{printable(text, 40)}': has {tokens:,} tokens, the embedder sees"
            f" {embedder.max_tokens:,}; give a part of it"
        )
    query = Queries(embedder.embed([text], "query"), np.zeros(1, np.uint32), np.zeros(1, np.int64))
    sketch, shards = Sketch.empty(1, k), stored.shards()
    with progress_bar(progress, "search", sum(s.size for s in shards), "chunks") as advance:
        for number, shard in enumerate(shards):
            # One for each part: of a part that is done, only its best are held.
            searcher = Searcher(query, k, at)
            for chunks in shard.chunks(number, None):
                searcher.add(chunks)
            sketch = sketch.merge(searcher.sketch(number))
            advance(shard.size)
    best = sketch.top(0, k)
    part, row = split_places(best["where"])
    places = [
        shards[number].describe(row[part == number]).set_index(np.flatnonzero(part == number))
        for number in np.unique(part).tolist()
    ]
    table = pd.concat(places).sort_index()
    table.insert(0, "cosine", best["cosine"])
    return table.assign(copies=best["copies"])[["cosine", *DESCRIBED, "copies", "text"]]
