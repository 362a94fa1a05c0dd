"""What the embedders that come in packages find of known duplicates, and how fast they embed.

Run by ``make bench-all``: the shared programming tasks, half of which have duplicates in the shared
corpus, most of them in other words. Each document is one text, cut at 254 tokens for all.
"""

from time import perf_counter

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from bayescontam.scan.embedders import load_embedder
from bayescontam.specs.corpus import Embedding
from tests.support.real_data import shared

TOKENS = 254


@pytest.mark.timeout(3600)
def test_what_embedders_find_of_known_duplicates() -> None:
    items = pd.read_json(shared("texts/benchmark.jsonl"), lines=True)
    corpus = pd.read_json(shared("texts/corpus.jsonl"), lines=True)
    number = corpus["id"].str.extract(r"^(?:dup|exact)-(\d+)")[0]
    true = ("task-" + number).to_numpy()[None, :] == items["id"].to_numpy()[:, None]
    questions = (items["input"] + "\n\n" + items["output"]).tolist()
    rows = {}
    for model in ("minilm", "wordllama", "hashing"):
        embedder = load_embedder(Embedding(model=model, max_tokens=TOKENS), "cpu")
        embedder.embed(questions[:16], "passage")
        start = perf_counter()
        chunks = embedder.embed(corpus["text"].tolist(), "passage")
        seconds = perf_counter() - start
        cosines = embedder.embed(questions, "query") @ chunks.T
        # Of each task that has duplicates: how many of them are among its nearest documents.
        place = np.argsort(np.argsort(-cosines, axis=1), axis=1)
        known = true.any(axis=1)
        rows[model] = {
            "area": roc_auc_score(true.ravel(), cosines.ravel()),
            "nearest is one": true[known, place[known].argmin(axis=1)].mean(),
            "found in 10": (true & (place < 10)).sum() / true.sum(),
            "best of tasks": roc_auc_score(known, cosines.max(axis=1)),
            "texts/s": len(corpus) / seconds,
        }
    table = pd.DataFrame(rows).T
    table["speed"] = table["texts/s"] / table.loc["minilm", "texts/s"]
    print(f"\n{len(items)} tasks, {len(corpus)} documents, {true.sum()} duplicates")
    print(table.round(3).to_string())
    assert (table.loc[["minilm", "wordllama"], "area"] > 0.9).all()
